/* The pool. Small blocks (up to 64 KiB) come from the heap and lie in shards, one of which a thread mostly has to itself;
 * large ones are mapped, and all threads share one list of them, since work on them dwarfs a lock. A block carries its own
 * tensor struct, so that a result costs one look into a list. */
#include "runtime/memory.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <string.h>

#include "base/alloc.h"
#include "base/options.h"
#include "base/os.h"

/* Classes are (8 + k) * 2^e bytes, k = 0 to 7: at most an eighth is wasted. */
#define STEPS         8
#define FIRST_SHIFT   5 /* the first class: 8 << 5 = 256 bytes */
#define CLASSES       (STEPS * 40)
#define SMALL_CLASSES (STEPS * 8 + 1) /* to 64 KiB */
#define SHARDS        16
#define SHARD_MAX     ((int64_t)4 << 20) /* bytes that one shard keeps */

typedef struct block {
    DLManagedTensorVersioned tensor; /* first: the deleter gets it */
    struct block *next;              /* in a list of unused ones */
    int32_t class_;
    int64_t axes[]; /* shape, then strides */
} block;

typedef struct shard {
    _Alignas(128) atomic_flag is_locked; /* held for a few instructions, never while calling out */
    int64_t kept_bytes;
    uint64_t results, maps;
    int64_t live_bytes; /* of one shard it may be negative: freed by another thread than it was taken by */
    block *unused[CLASSES];
} shard;

static shard shards[SHARDS + 1]; /* the last one holds the large blocks of all threads */
#define LARGE (&shards[SHARDS])

static pthread_once_t once = PTHREAD_ONCE_INIT;
static _Atomic unsigned next_shard;
static _Thread_local int own_shard; /* 1-based; 0: not chosen yet */

static void lock(shard *at)
{
    for (int spins = 0; atomic_flag_test_and_set_explicit(&at->is_locked, memory_order_acquire); spins++)
        if (spins > 100)
            sched_yield(); /* the holder was put to sleep in the middle */
}

static void unlock(shard *at)
{
    atomic_flag_clear_explicit(&at->is_locked, memory_order_release);
}

/* A fork in the middle of another thread's few instructions must not leave the child a locked list. */
static void lock_all(void)
{
    for (int i = 0; i <= SHARDS; i++)
        lock(&shards[i]);
}
static void unlock_all(void)
{
    for (int i = 0; i <= SHARDS; i++)
        unlock(&shards[i]);
}
static void watch_forks(void)
{
    pthread_atfork(lock_all, unlock_all, unlock_all);
}

static shard *shard_of_thread(void)
{
    if (!own_shard) {
        pthread_once(&once, watch_forks);
        own_shard = 1 + (int)(atomic_fetch_add(&next_shard, 1) % SHARDS);
    }
    return &shards[own_shard - 1];
}

static int64_t class_bytes(int class_)
{
    return (int64_t)(STEPS + class_ % STEPS) << (class_ / STEPS + FIRST_SHIFT);
}

/* The smallest class of at least `bytes` bytes; -1 when there is none. */
static int class_of(int64_t bytes)
{
    if (bytes <= class_bytes(0))
        return 0;
    const int shift = 63 - __builtin_clzll((unsigned long long)bytes - 1) - 3;
    const int class_ = (shift - FIRST_SHIFT) * STEPS + (int)((bytes - 1) >> shift) - STEPS + 1;
    return class_ < CLASSES ? class_ : -1;
}

static block *block_map(int class_)
{
    const int64_t bytes = class_bytes(class_);
    if (dlk_fail_injected("result"))
        return NULL;
    return class_ < SMALL_CLASSES ? dlk_alloc((size_t)bytes) : dlk_os_map((size_t)bytes);
}

static void block_unmap(block *b)
{
    if (b->class_ < SMALL_CLASSES)
        dlk_free(b);
    else
        dlk_os_unmap(b, (size_t)class_bytes(b->class_));
}

static void blocks_unmap(block *list)
{
    while (list) {
        block *next = list->next;
        block_unmap(list);
        list = next;
    }
}

static block *take_unused(shard *at, int class_)
{
    block *b = at->unused[class_];
    if (b) {
        at->unused[class_] = b->next;
        at->kept_bytes -= class_bytes(class_);
    }
    return b;
}

/* Another thread may have freed what this one takes. */
static block *take_from_others(const shard *own, int class_)
{
    for (int i = 0; i < SHARDS; i++) {
        shard *at = &shards[i];
        if (at == own)
            continue;
        lock(at);
        block *b = take_unused(at, class_);
        unlock(at);
        if (b)
            return b;
    }
    return NULL;
}

static block *block_take(int64_t bytes)
{
    const int class_ = class_of(bytes);
    if (class_ < 0)
        return NULL;
    shard *at = class_ < SMALL_CLASSES ? shard_of_thread() : (shard_of_thread(), LARGE);
    lock(at);
    block *b = take_unused(at, class_);
    at->results++;
    at->live_bytes += class_bytes(class_);
    unlock(at);
    if (!b && at != LARGE)
        b = take_from_others(at, class_);
    if (b)
        return b;
    b = block_map(class_);
    lock(at);
    if (b)
        at->maps++;
    else
        at->results--, at->live_bytes -= class_bytes(class_);
    unlock(at);
    if (b)
        b->class_ = class_;
    return b;
}

/* Unlinks unused blocks of other classes, largest first, until `bytes` more fit under `most`; gives their list. */
static block *make_room(shard *at, int64_t bytes, int64_t most, int spared)
{
    block *gone = NULL;
    for (int class_ = CLASSES - 1; class_ >= 0; class_--) {
        while (class_ != spared && at->unused[class_] && at->kept_bytes + bytes > most) {
            block *b = take_unused(at, class_);
            b->next = gone;
            gone = b;
        }
    }
    return gone;
}

static void block_give(block *b)
{
    const int64_t bytes = class_bytes(b->class_);
    shard *at = b->class_ < SMALL_CLASSES ? shard_of_thread() : LARGE;
    const int64_t pool_max = dlk_option_int(DLK_OPTION_POOL_MAX);
    const int64_t most = at == LARGE || pool_max < SHARD_MAX ? pool_max : SHARD_MAX;
    block *gone = NULL;
    lock(at);
    at->live_bytes -= bytes;
    if (at->kept_bytes + bytes > most)
        gone = make_room(at, bytes, most, b->class_);
    if (at->kept_bytes + bytes > most) {
        b->next = gone;
        gone = b;
    } else {
        b->next = at->unused[b->class_];
        at->unused[b->class_] = b;
        at->kept_bytes += bytes;
    }
    unlock(at);
    blocks_unmap(gone);
}

static void delete_tensor(DLManagedTensorVersioned *tensor)
{
    block_give((block *)tensor);
}

static int64_t data_offset(int ndim)
{
    const int64_t header = (int64_t)sizeof(block) + 2 * (int64_t)sizeof(int64_t) * ndim;
    return (header + DLK_DATA_ALIGN - 1) / DLK_DATA_ALIGN * DLK_DATA_ALIGN;
}

/* Where the data begins: the heap aligns small blocks to 16 bytes only, so one alignment more was asked for. */
static void *data_of(block *b, int ndim)
{
    const uintptr_t at = (uintptr_t)b + (uintptr_t)data_offset(ndim);
    return (char *)b + data_offset(ndim) + (-at & (DLK_DATA_ALIGN - 1));
}

static block *take_for_data(int64_t data_bytes, int ndim)
{
    int64_t bytes;
    return dlk_add_i64(data_bytes, data_offset(ndim) + DLK_DATA_ALIGN, &bytes) ? block_take(bytes) : NULL;
}

dlk_status dlk_memory_tensor(DLDataType dtype, DLDevice device, int ndim, const int64_t *shape, const int64_t *strides,
                             int64_t data_bytes, DLManagedTensorVersioned **out)
{
    block *b = take_for_data(data_bytes, ndim);
    if (!b)
        return dlk_fail(DLK_ERR_MEMORY, "out of memory: a result of %lld bytes", (long long)data_bytes);
    DLManagedTensorVersioned *t = &b->tensor;
    t->version = (DLPackVersion){DLPACK_MAJOR_VERSION, DLPACK_MINOR_VERSION};
    t->manager_ctx = NULL;
    t->deleter = delete_tensor;
    t->flags = 0;
    t->dl_tensor =
        (DLTensor){.data = data_bytes ? data_of(b, ndim) : NULL, .device = device, .ndim = ndim, .dtype = dtype};
    if (ndim) {
        t->dl_tensor.shape = b->axes;
        t->dl_tensor.strides = b->axes + ndim;
        memcpy(b->axes, shape, sizeof *shape * (size_t)ndim);
        memcpy(b->axes + ndim, strides, sizeof *strides * (size_t)ndim);
    }
    *out = t;
    return DLK_OK;
}

/* Scratch keeps its block's address in the word before it. */
void *dlk_memory_scratch(int64_t bytes)
{
    block *b = take_for_data(bytes, 1);
    if (!b)
        return NULL;
    block **data = data_of(b, 1);
    data[-1] = b;
    return data;
}

void dlk_memory_scratch_free(void *scratch)
{
    if (scratch)
        block_give(((block **)scratch)[-1]);
}

void dlk_memory_trim(void)
{
    for (int i = 0; i <= SHARDS; i++) {
        lock(&shards[i]);
        block *gone = make_room(&shards[i], INT64_MAX / 2, 0, -1);
        unlock(&shards[i]);
        blocks_unmap(gone);
    }
}

void dlk_memory_count(dlk_counters *out)
{
    int64_t live = 0, kept = 0;
    out->results = out->result_maps = 0;
    for (int i = 0; i <= SHARDS; i++) {
        lock(&shards[i]);
        out->results += shards[i].results;
        out->result_maps += shards[i].maps;
        live += shards[i].live_bytes;
        kept += shards[i].kept_bytes;
        unlock(&shards[i]);
    }
    out->live_bytes = (uint64_t)live;
    out->pool_bytes = (uint64_t)kept;
}
