/* The table of kernels. An entry is put in before its kernel is compiled, and that is what makes one thread compile and the
 * others wait: they find the entry and sleep until it is ready or gone. The lock of a shard is never held while compiling,
 * so a compile holds up nobody but those who want this very kernel.
 *
 * After a fork, the child has none of the threads that were compiling: it drops their entries. So that the child's tables
 * are whole, all locks are taken before a fork and given back on both sides. */
#include "runtime/cache.h"

#include <pthread.h>
#include <stdbool.h>
#include <string.h>

#include "base/alloc.h"
#include "base/os.h"

#define SHARDS        16
#define FIRST_SLOTS   64 /* of one shard; a power of two */
#define PROGRAM_SLOTS 256

typedef struct entry {
    struct entry *next;
    dlk_hash hash;
    dlk_signature signature;
    dlk_kernel *kernel; /* NULL: being compiled */
} entry;

typedef struct shard {
    pthread_mutex_t lock;
    pthread_cond_t changed; /* an entry became ready or was taken out */
    entry **slots;          /* NULL before the first */
    size_t n_slots, n_entries;
    uint64_t hits, compiles, waits, compile_ns;
} shard;

struct dlk_cache {
    shard shards[SHARDS];
    pthread_mutex_t programs_lock;
    dlk_program *programs[PROGRAM_SLOTS];
    _Atomic uint64_t epoch;
    dlk_cache *next, **link; /* in the list of all, for forks */
};

/* ---- Forks ------------------------------------------------------------------------------------------------------- */

static pthread_once_t once = PTHREAD_ONCE_INIT;
static pthread_mutex_t all_lock = PTHREAD_MUTEX_INITIALIZER;
static dlk_cache *all;

static void before_fork(void)
{
    pthread_mutex_lock(&all_lock);
    for (dlk_cache *cache = all; cache; cache = cache->next) {
        pthread_mutex_lock(&cache->programs_lock);
        for (int i = 0; i < SHARDS; i++)
            pthread_mutex_lock(&cache->shards[i].lock);
    }
}

static void unlock_all(void)
{
    for (dlk_cache *cache = all; cache; cache = cache->next) {
        for (int i = 0; i < SHARDS; i++)
            pthread_mutex_unlock(&cache->shards[i].lock);
        pthread_mutex_unlock(&cache->programs_lock);
    }
    pthread_mutex_unlock(&all_lock);
}

static void drop_unfinished(shard *at)
{
    for (size_t s = 0; s < at->n_slots; s++) {
        for (entry **link = &at->slots[s]; *link;) {
            entry *e = *link;
            if (e->kernel) {
                link = &e->next;
                continue;
            }
            *link = e->next;
            at->n_entries--;
            dlk_free(e);
        }
    }
    pthread_cond_init(&at->changed, NULL); /* whoever waited on it is not here */
}

static void in_child(void)
{
    for (dlk_cache *cache = all; cache; cache = cache->next)
        for (int i = 0; i < SHARDS; i++)
            drop_unfinished(&cache->shards[i]);
    unlock_all();
}

static void watch_forks(void)
{
    pthread_atfork(before_fork, unlock_all, in_child);
}

/* ---- Kernels ----------------------------------------------------------------------------------------------------- */

static entry **find_entry(shard *at, dlk_hash hash, const dlk_signature *signature)
{
    if (!at->n_slots)
        return NULL;
    for (entry **link = &at->slots[hash.lo & (at->n_slots - 1)]; *link; link = &(*link)->next)
        if ((*link)->hash.lo == hash.lo && (*link)->hash.hi == hash.hi &&
            dlk_signature_equal(&(*link)->signature, signature))
            return link;
    return NULL;
}

/* Twice the slots; where there is no memory for them the chains grow instead. */
static bool grow(shard *at)
{
    const size_t n = at->n_slots ? 2 * at->n_slots : FIRST_SLOTS;
    entry **slots = dlk_alloc(sizeof *slots * n);
    if (!slots)
        return at->n_slots != 0;
    for (size_t s = 0; s < at->n_slots; s++) {
        for (entry *e = at->slots[s], *next; e; e = next) {
            next = e->next;
            e->next = slots[e->hash.lo & (n - 1)];
            slots[e->hash.lo & (n - 1)] = e;
        }
    }
    dlk_free(at->slots);
    at->slots = slots;
    at->n_slots = n;
    return true;
}

/* An entry without a kernel: from now on this thread compiles it. NULL when out of memory. */
static entry *claim(shard *at, dlk_hash hash, const dlk_signature *signature)
{
    if (at->n_entries >= at->n_slots && !grow(at))
        return NULL;
    entry *e = dlk_alloc(sizeof *e);
    if (!e)
        return NULL;
    e->hash = hash;
    e->signature = *signature;
    e->next = at->slots[hash.lo & (at->n_slots - 1)];
    at->slots[hash.lo & (at->n_slots - 1)] = e;
    at->n_entries++;
    return e;
}

/* A ready kernel, or the claim to compile it, or neither when out of memory. */
static dlk_kernel *find_or_claim(shard *at, dlk_hash hash, const dlk_signature *signature, entry **out_claim)
{
    bool has_waited = false;
    pthread_mutex_lock(&at->lock);
    entry **link;
    while ((link = find_entry(at, hash, signature)) && !(*link)->kernel) {
        at->waits += !has_waited;
        has_waited = true;
        pthread_cond_wait(&at->changed, &at->lock);
    }
    dlk_kernel *kernel = link ? dlk_kernel_hold((*link)->kernel) : NULL;
    at->hits += kernel != NULL;
    *out_claim = kernel ? NULL : claim(at, hash, signature);
    pthread_mutex_unlock(&at->lock);
    return kernel;
}

/* Gives a claimed entry its kernel, or takes the entry out again. */
static void settle(shard *at, entry *claimed, dlk_kernel *kernel, int64_t ns)
{
    pthread_mutex_lock(&at->lock);
    if (kernel) {
        claimed->kernel = dlk_kernel_hold(kernel);
        at->compiles++;
        at->compile_ns += (uint64_t)ns;
    } else {
        for (entry **link = &at->slots[claimed->hash.lo & (at->n_slots - 1)]; *link; link = &(*link)->next) {
            if (*link == claimed) {
                *link = claimed->next;
                break;
            }
        }
        at->n_entries--;
        dlk_free(claimed);
    }
    pthread_cond_broadcast(&at->changed);
    pthread_mutex_unlock(&at->lock);
}

dlk_status dlk_cache_kernel(dlk_cache *cache, const dlk_backend *backend, const dlk_signature *signature,
                            const dlk_prog *prog, dlk_kernel **out)
{
    const dlk_hash hash = dlk_signature_hash(signature);
    shard *at = &cache->shards[hash.hi % SHARDS];
    entry *claimed;
    dlk_kernel *kernel = find_or_claim(at, hash, signature, &claimed);
    if (!kernel && !claimed)
        return dlk_fail(DLK_ERR_MEMORY, "out of memory in the cache of kernels");
    dlk_status status = DLK_OK;
    if (!kernel) {
        const int64_t start = dlk_os_time_ns();
        status = dlk_kernel_create(backend, signature, prog, &kernel);
        settle(at, claimed, status == DLK_OK ? kernel : NULL, dlk_os_time_ns() - start);
    }
    if (status == DLK_OK)
        *out = kernel;
    return status;
}

/* ---- Programs ---------------------------------------------------------------------------------------------------- */

static bool is_program(const dlk_program *program, const dlk_op_version *op, const dlk_build_request *request)
{
    return program->closure.lo == op->closure.lo && program->closure.hi == op->closure.hi &&
           !memcmp(&program->request, request, sizeof *request);
}

static dlk_program *find_program(dlk_cache *cache, dlk_hash hash, const dlk_op_version *op,
                                 const dlk_build_request *request)
{
    for (dlk_program *p = cache->programs[hash.lo % PROGRAM_SLOTS]; p; p = p->next)
        if (is_program(p, op, request))
            return p;
    return NULL;
}

static dlk_status build_program(const dlk_op_version *op, dlk_program *program)
{
    jmp_buf escape;
    program->arena.escape = &escape;
    dlk_status status;
    if (setjmp(escape))
        status = dlk_fail(DLK_ERR_MEMORY, "out of memory building %s", op->name);
    else
        status = dlk_build(op, &program->request, &program->arena, &program->built);
    program->arena.escape = NULL;
    return status;
}

static dlk_status program_create(const dlk_op_version *op, const dlk_build_request *request, dlk_hash hash,
                                 dlk_program **out)
{
    dlk_program *program = dlk_alloc(sizeof *program);
    if (!program)
        return dlk_fail(DLK_ERR_MEMORY, "out of memory building %s", op->name);
    atomic_init(&program->references, 1);
    program->closure = op->closure;
    program->request = *request;
    program->hash = hash;
    const dlk_status status = build_program(op, program);
    if (status == DLK_OK)
        *out = program;
    else
        dlk_program_release(program);
    return status;
}

/* Puts it in, unless another thread was faster: then that one is given, and `fresh` released. */
static dlk_program *keep_program(dlk_cache *cache, const dlk_op_version *op, dlk_program *fresh)
{
    pthread_mutex_lock(&cache->programs_lock);
    dlk_program *known = find_program(cache, fresh->hash, op, &fresh->request);
    if (!known) {
        dlk_program **slot = &cache->programs[fresh->hash.lo % PROGRAM_SLOTS];
        fresh->next = *slot;
        *slot = fresh;
    }
    dlk_program *kept = known ? known : fresh;
    atomic_fetch_add(&kept->references, 1);
    pthread_mutex_unlock(&cache->programs_lock);
    if (known)
        dlk_program_release(fresh);
    return kept;
}

dlk_status dlk_cache_program(dlk_cache *cache, const dlk_op_version *op, const dlk_build_request *request,
                             dlk_program **out)
{
    const dlk_hash parts[2] = {op->closure, dlk_hash_of(request, sizeof *request)};
    const dlk_hash hash = dlk_hash_of(parts, sizeof parts);
    pthread_mutex_lock(&cache->programs_lock);
    dlk_program *program = find_program(cache, hash, op, request);
    if (program)
        atomic_fetch_add(&program->references, 1);
    pthread_mutex_unlock(&cache->programs_lock);
    if (!program) {
        DLK_TRY(program_create(op, request, hash, &program));
        program = keep_program(cache, op, program);
    }
    *out = program;
    return DLK_OK;
}

void dlk_program_release(dlk_program *program)
{
    if (!program || atomic_fetch_sub(&program->references, 1) != 1)
        return;
    dlk_arena_free(&program->arena);
    dlk_free(program);
}

/* ---- The whole --------------------------------------------------------------------------------------------------- */

dlk_cache *dlk_cache_create(void)
{
    dlk_cache *cache = dlk_alloc(sizeof *cache);
    if (!cache)
        return NULL;
    for (int i = 0; i < SHARDS; i++) {
        pthread_mutex_init(&cache->shards[i].lock, NULL);
        pthread_cond_init(&cache->shards[i].changed, NULL);
    }
    pthread_mutex_init(&cache->programs_lock, NULL);
    pthread_once(&once, watch_forks);
    pthread_mutex_lock(&all_lock);
    cache->next = all;
    cache->link = &all;
    if (all)
        all->link = &cache->next;
    all = cache;
    pthread_mutex_unlock(&all_lock);
    return cache;
}

/* Ready kernels only: one that is being compiled belongs to its compiler. */
static void forget_kernels(shard *at)
{
    pthread_mutex_lock(&at->lock);
    for (size_t s = 0; s < at->n_slots; s++) {
        for (entry **link = &at->slots[s]; *link;) {
            entry *e = *link;
            if (!e->kernel) {
                link = &e->next;
                continue;
            }
            *link = e->next;
            at->n_entries--;
            dlk_kernel_release(e->kernel);
            dlk_free(e);
        }
    }
    pthread_mutex_unlock(&at->lock);
}

static void forget_programs(dlk_cache *cache)
{
    pthread_mutex_lock(&cache->programs_lock);
    for (int s = 0; s < PROGRAM_SLOTS; s++) {
        for (dlk_program *p = cache->programs[s], *next; p; p = next) {
            next = p->next;
            dlk_program_release(p);
        }
        cache->programs[s] = NULL;
    }
    pthread_mutex_unlock(&cache->programs_lock);
}

void dlk_cache_forget(dlk_cache *cache)
{
    atomic_fetch_add(&cache->epoch, 1);
    for (int i = 0; i < SHARDS; i++)
        forget_kernels(&cache->shards[i]);
    forget_programs(cache);
}

void dlk_cache_destroy(dlk_cache *cache)
{
    if (!cache)
        return;
    pthread_mutex_lock(&all_lock);
    *cache->link = cache->next;
    if (cache->next)
        cache->next->link = cache->link;
    pthread_mutex_unlock(&all_lock);
    dlk_cache_forget(cache);
    for (int i = 0; i < SHARDS; i++) {
        dlk_free(cache->shards[i].slots);
        pthread_mutex_destroy(&cache->shards[i].lock);
        pthread_cond_destroy(&cache->shards[i].changed);
    }
    pthread_mutex_destroy(&cache->programs_lock);
    dlk_free(cache);
}

uint64_t dlk_cache_epoch(const dlk_cache *cache)
{
    return atomic_load_explicit(&cache->epoch, memory_order_acquire);
}

void dlk_cache_count(dlk_cache *cache, dlk_counters *out)
{
    out->kernel_hits = out->compiles = out->compile_waits = out->compile_ns = out->kernels = 0;
    for (int i = 0; i < SHARDS; i++) {
        shard *at = &cache->shards[i];
        pthread_mutex_lock(&at->lock);
        out->kernel_hits += at->hits;
        out->compiles += at->compiles;
        out->compile_waits += at->waits;
        out->compile_ns += at->compile_ns;
        out->kernels += at->n_entries;
        pthread_mutex_unlock(&at->lock);
    }
}
