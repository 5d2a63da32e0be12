/* The result pool: blocks come back warm, stay bounded, and may be freed by any thread. */
#define _GNU_SOURCE
#include "tests/test.h"

#include <pthread.h>
#include <sys/resource.h>

#include "base/alloc.h"
#include "runtime/memory.h"

static const DLDataType f32 = {kDLFloat, 32, 1};
static const DLDevice cpu = {kDLCPU, 0};

static DLManagedTensorVersioned *tensor_of(int64_t bytes)
{
    const int64_t shape[1] = {bytes / 4}, strides[1] = {1};
    DLManagedTensorVersioned *t = NULL;
    CHECK_INT(dlk_memory_tensor(f32, cpu, 1, shape, strides, bytes, &t), DLK_OK);
    return t;
}

static dlk_counters count(void)
{
    dlk_counters c = {.size = sizeof c};
    dlk_memory_count(&c);
    return c;
}

static long minor_faults(void)
{
    struct rusage usage;
    getrusage(RUSAGE_THREAD, &usage);
    return usage.ru_minflt;
}

TEST(struct_shape_and_data_are_one_block)
{
    const int64_t shape[3] = {2, 3, 5}, strides[3] = {15, 5, 1};
    DLManagedTensorVersioned *t = NULL;
    CHECK_INT(dlk_memory_tensor(f32, cpu, 3, shape, strides, 120, &t), DLK_OK);
    CHECK_INT(t->version.major, 1);
    CHECK_INT(t->flags, 0);
    CHECK_INT(t->dl_tensor.ndim, 3);
    CHECK_INT(t->dl_tensor.byte_offset, 0);
    CHECK(!memcmp(t->dl_tensor.shape, shape, sizeof shape));
    CHECK(!memcmp(t->dl_tensor.strides, strides, sizeof strides));
    CHECK_INT((uintptr_t)t->dl_tensor.data % DLK_DATA_ALIGN, 0);
    memset(t->dl_tensor.data, 7, 120);
    t->deleter(t);
}

TEST(rank_0_and_nothing)
{
    DLManagedTensorVersioned *t = NULL;
    CHECK_INT(dlk_memory_tensor(f32, cpu, 0, NULL, NULL, 4, &t), DLK_OK);
    CHECK(!t->dl_tensor.shape && !t->dl_tensor.strides && t->dl_tensor.data);
    t->deleter(t);
    t = tensor_of(0);
    CHECK(!t->dl_tensor.data);
    t->deleter(t);
}

TEST(every_size_is_writable_to_its_end)
{
    for (int64_t bytes = 4; bytes < (int64_t)6 << 20; bytes += bytes < 4096 ? 4 : bytes / 9 / 4 * 4) {
        DLManagedTensorVersioned *t = tensor_of(bytes);
        memset(t->dl_tensor.data, 1, (size_t)bytes);
        t->deleter(t);
    }
}

TEST(too_large_is_an_error)
{
    const int64_t shape[1] = {INT64_MAX / 4}, strides[1] = {1};
    DLManagedTensorVersioned *t = NULL;
    CHECK_INT(dlk_memory_tensor(f32, cpu, 1, shape, strides, INT64_MAX - 8, &t), DLK_ERR_MEMORY);
    CHECK_INT(dlk_memory_tensor(f32, cpu, 1, shape, strides, (int64_t)1 << 50, &t), DLK_ERR_MEMORY);
    CHECK(!t);
    CHECK(!dlk_memory_scratch(INT64_MAX));
}

TEST(warm_results_cost_no_page_faults)
{
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
    SKIP("the sanitizer's own memory has page faults");
#endif
    const int64_t bytes = (int64_t)64 << 20;
    DLManagedTensorVersioned *t = tensor_of(bytes);
    memset(t->dl_tensor.data, 1, (size_t)bytes);
    t->deleter(t);
    const dlk_counters before = count();
    const long faults = minor_faults();
    for (int i = 0; i < 1000; i++) {
        t = tensor_of(bytes);
        for (int64_t at = 0; at < bytes; at += 4096)
            ((volatile char *)t->dl_tensor.data)[at] = (char)i;
        t->deleter(t);
    }
    CHECK_INT(minor_faults() - faults, 0);
    CHECK_INT(count().result_maps - before.result_maps, 0);
    CHECK_INT(count().results - before.results, 1000);
    dlk_memory_trim();
}

TEST(the_pool_is_bounded)
{
    DLManagedTensorVersioned *t[8];
    dlk_memory_trim();
    CHECK_INT(dlk_option_set("pool_max", "20000000"), DLK_OK);
    for (int i = 0; i < 8; i++)
        t[i] = tensor_of(((int64_t)1 + i) << 20);
    CHECK(count().live_bytes >= (uint64_t)36 << 20);
    for (int i = 0; i < 8; i++)
        t[i]->deleter(t[i]);
    CHECK(count().pool_bytes <= 20000000);
    CHECK(count().pool_bytes > 0);
    t[0] = tensor_of((int64_t)64 << 20);
    t[0]->deleter(t[0]);
    CHECK(count().pool_bytes <= 20000000);
    CHECK_INT(dlk_option_set("pool_max", NULL), DLK_OK);
    dlk_memory_trim();
    CHECK_INT(count().pool_bytes, 0);
}

TEST(new_sizes_push_old_ones_out)
{
    dlk_memory_trim();
    CHECK_INT(dlk_option_set("pool_max", "20000000"), DLK_OK);
    DLManagedTensorVersioned *t = tensor_of((int64_t)12 << 20);
    t->deleter(t);
    t = tensor_of((int64_t)14 << 20);
    t->deleter(t);
    const uint64_t maps = count().result_maps;
    t = tensor_of((int64_t)14 << 20);
    t->deleter(t);
    CHECK_INT(count().result_maps, maps);
    CHECK_INT(dlk_option_set("pool_max", NULL), DLK_OK);
    dlk_memory_trim();
}

TEST(scratch)
{
    const dlk_counters before = count();
    char *a = dlk_memory_scratch(1000), *b = dlk_memory_scratch((int64_t)5 << 20);
    CHECK(a && b);
    memset(a, 1, 1000);
    memset(b, 1, 5 << 20);
    CHECK_INT((uintptr_t)a % DLK_DATA_ALIGN, 0);
    CHECK_INT((uintptr_t)b % DLK_DATA_ALIGN, 0);
    dlk_memory_scratch_free(a);
    dlk_memory_scratch_free(b);
    dlk_memory_scratch_free(NULL);
    CHECK_INT(count().live_bytes, before.live_bytes);
}

/* Half of the threads take what the others free. */
#define HANDED 2000
static DLManagedTensorVersioned *_Atomic handed[HANDED];

static void *take_many(void *sizes)
{
    for (int i = 0; i < HANDED; i++) {
        DLManagedTensorVersioned *t = tensor_of(64 << (i % (int)(intptr_t)sizes));
        ((char *)t->dl_tensor.data)[63] = 1;
        handed[i] = t;
    }
    return NULL;
}

static void *free_many(void *unused)
{
    (void)unused;
    for (int i = 0; i < HANDED; i++) {
        DLManagedTensorVersioned *t;
        while (!(t = handed[i])) {
        }
        t->deleter(t);
        handed[i] = NULL;
    }
    return NULL;
}

TEST(deleters_run_on_any_thread)
{
    const dlk_counters before = count();
    pthread_t a, b;
    pthread_create(&a, NULL, take_many, (void *)(intptr_t)14);
    pthread_create(&b, NULL, free_many, NULL);
    pthread_join(a, NULL);
    pthread_join(b, NULL);
    CHECK_INT(count().live_bytes, before.live_bytes);
    CHECK(count().result_maps - before.result_maps < HANDED);
    dlk_memory_trim();
}

TEST(nothing_stays_on_the_heap)
{
    dlk_memory_trim();
    const int64_t before = dlk_alloc_live();
    DLManagedTensorVersioned *t = tensor_of(100);
    t->deleter(t);
    dlk_memory_trim();
    CHECK_INT(dlk_alloc_live(), before);
}
