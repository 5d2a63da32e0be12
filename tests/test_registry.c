/* The registry under pressure: the first use of the library by many threads, definitions while others build, and memory
 * that runs out at every place. */
#include "tests/test.h"

#include <pthread.h>

#include "base/alloc.h"
#include "kernels/library.h"
#include "tests/op_eval.h"

#define THREADS 8

/* First of all, before anything has loaded the library. */
TEST(library_load_survives_every_failed_allocation)
{
    dlk_status status = DLK_ERR_MEMORY;
    int failures = 0;
    for (; status != DLK_OK && failures < 10000; failures++) {
        char nth[32];
        snprintf(nth, sizeof nth, "alloc:%d", failures + 1);
        dlk_option_set("fail", nth);
        const int64_t before = dlk_alloc_live();
        status = dlk_library_load();
        dlk_option_set("fail", NULL);
        CHECK(status == DLK_OK || (status == DLK_ERR_MEMORY && dlk_alloc_live() == before));
    }
    CHECK(status == DLK_OK && failures > 1);
}

static const char two_kernels[] =
    "reducer _spread(x: float) { first: (x, x)  merge((a, b), (c, d)): (fmin(a, c), fmax(b, d))\n"
    "  identity: (inf, -inf)  finish((l, h)): h - l }\n"
    "table _t: f32[3] = { 1, 2, 3 }\n"
    "scaled(x: float, s: scalar = 2) = x / _spread(x) * s + exp(x) + _t[i32(x)]";

/* Makes a registry, defines, finds, describes, builds. */
static dlk_status use_everything(void)
{
    dlk_registry *registry = NULL;
    const dlk_op *op = NULL;
    dlk_arena arena = {0};
    dlk_build_request request;
    dlk_built built;
    dlk_op_kind kind;
    int n;
    const char *dtypes;
    dlk_status status = dlk_registry_create(&registry);
    if (status == DLK_OK)
        status = dlk_registry_define(registry, two_kernels, &op);
    if (status == DLK_OK)
        status = dlk_registry_find(registry, "layer_norm", &op);
    if (status == DLK_OK)
        status = dlk_registry_define(registry, "twice(x) = scaled(x) + scaled(x, s = 3)", &op);
    if (status == DLK_OK)
        status = dlk_op_describe(op, &kind, &n, &dtypes);
    dlk_build_request_make(&request);
    request.n_inputs = 1;
    request.input[0] = DLK_DTYPE_F16;
    if (status == DLK_OK)
        status = dlk_build(dlk_op_get_version(op), &request, &arena, &built);
    dlk_arena_free(&arena);
    dlk_registry_destroy(registry);
    return status;
}

TEST(every_failed_allocation_is_a_status)
{
    dlk_status status = DLK_ERR_MEMORY;
    int failures = 0;
    for (; status != DLK_OK && failures < 10000; failures++) {
        char nth[32];
        snprintf(nth, sizeof nth, "alloc:%d", failures + 1);
        dlk_option_set("fail", nth);
        const int64_t before = dlk_alloc_live();
        status = use_everything();
        dlk_option_set("fail", NULL);
        CHECK_MSG(status == DLK_OK || status == DLK_ERR_MEMORY, "allocation %d: %s", failures, dlk_last_error());
        CHECK_INT(dlk_alloc_live(), before);
    }
    CHECK(status == DLK_OK && failures > 10);
}

static dlk_registry *shared;

static void *define_and_build(void *number)
{
    intptr_t failed = 0;
    for (int i = 0; i < 30; i++) {
        char text[96];
        const dlk_op *op = NULL, *found = NULL;
        dlk_arena arena = {0};
        dlk_build_request request;
        dlk_built built;
        snprintf(text, sizeof text, "inner(x) = x + %d\nouter%d(x) = inner(x) * exp(x)", i, (int)(intptr_t)number);
        failed += dlk_registry_define(shared, text, &op) != DLK_OK;
        failed += dlk_registry_find(shared, i % 2 ? "softmax" : "inner", &found) != DLK_OK;
        dlk_build_request_make(&request);
        request.n_inputs = 1;
        request.input[0] = DLK_DTYPE_F32;
        failed += op == NULL || dlk_build(dlk_op_get_version(op), &request, &arena, &built) != DLK_OK;
        dlk_arena_free(&arena);
    }
    return (void *)failed;
}

TEST(threads_define_and_build_at_once)
{
    pthread_t threads[THREADS];
    CHECK_INT(dlk_registry_create(&shared), DLK_OK);
    for (intptr_t i = 0; i < THREADS; i++)
        CHECK_INT(pthread_create(&threads[i], NULL, define_and_build, (void *)i), 0);
    for (int i = 0; i < THREADS; i++) {
        void *failed;
        pthread_join(threads[i], &failed);
        CHECK(failed == NULL);
    }
    CHECK_INT(dlk_registry_epoch(shared), THREADS * 30);
    dlk_registry_destroy(shared);
}
