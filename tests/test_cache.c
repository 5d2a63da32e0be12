/* The caches: a warm launch allocates nothing but its result, racing threads compile once, a change is seen, a fork lives. */
#define _GNU_SOURCE
#include "tests/test.h"

#include <pthread.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/os.h"
#include "dlk/dlk.h"

static float a[1000], b[1000];
static int64_t shape[1] = {1000};

static DLTensor vector(float *data)
{
    return (DLTensor){.data = data, .device = {kDLCPU, 0}, .ndim = 1, .dtype = {kDLFloat, 32, 1}, .shape = shape};
}

static dlk_status launch(dlk_context *context, const char *name, const DLTensor *out)
{
    const DLTensor x = vector(a), y = vector(b);
    const dlk_input in[2] = {dlk_input_tensor(&x), dlk_input_tensor(&y)};
    dlk_output to = {out, 0, NULL};
    const dlk_op *op;
    if (dlk_find(context, name, &op) != DLK_OK)
        return DLK_ERR_NOT_FOUND;
    const dlk_status status = dlk_launch(context, op, in, 2, &to, 1, NULL);
    dlk_release(to.result);
    return status;
}

static dlk_counters counters(dlk_context *context)
{
    dlk_counters c = {.size = sizeof c};
    CHECK_INT(dlk_counters_get(context, &c), DLK_OK);
    return c;
}

TEST(a_warm_launch_allocates_nothing_but_its_result)
{
    float out[1000];
    const DLTensor given = vector(out);
    CHECK_MSG(launch(NULL, "add", NULL) == DLK_OK, "%s", dlk_last_error());
    CHECK_INT(launch(NULL, "add", &given), DLK_OK);
    CHECK_INT(dlk_option_set("backend", dlk_option_get("backend")), DLK_OK); /* nothing changed, but all looks again */
    CHECK_INT(launch(NULL, "add", NULL), DLK_OK);
    CHECK_INT(launch(NULL, "add", &given), DLK_OK);
    const dlk_counters before = counters(NULL);
    for (int i = 0; i < 1000; i++) {
        CHECK_INT(launch(NULL, "add", NULL), DLK_OK);
        CHECK_INT(launch(NULL, "add", &given), DLK_OK);
    }
    const dlk_counters after = counters(NULL);
    const bool interprets = strcmp(dlk_option_get("backend"), "interp") == 0;
    CHECK_INT(after.results - before.results, 1000);
    CHECK_INT(after.result_maps - before.result_maps, 0);
    CHECK_INT(after.launches - before.launches, 2000);
    CHECK_INT(after.plan_hits - before.plan_hits, 2000);
    CHECK_INT(after.plan_misses - before.plan_misses, 0);
    dlk_device_info devices[4];
    int n;
    CHECK_INT(dlk_device_list(NULL, devices, 4, &n), DLK_OK);
    if (!interprets && devices[0].is_available) /* the interpreter has working memory of its own */
        CHECK_INT(after.heap_allocations - before.heap_allocations, 0);
}

TEST(another_shape_is_another_plan_of_the_same_kernel)
{
    CHECK_INT(launch(NULL, "add", NULL), DLK_OK);
    const dlk_counters before = counters(NULL);
    for (int n = 1; n < 100; n++) {
        shape[0] = n;
        CHECK_INT(launch(NULL, "add", NULL), DLK_OK);
    }
    shape[0] = 1000;
    const dlk_counters after = counters(NULL);
    CHECK_INT(after.plan_misses - before.plan_misses, 99);
    CHECK(after.compiles - before.compiles <= 1); /* one element alone is a kernel of its own */
    CHECK(after.kernel_hits - before.kernel_hits >= 98);
}

/* ---- Races ------------------------------------------------------------------------------------------------------- */

#define RACERS 8
static dlk_context *raced;
static pthread_barrier_t start;
static _Atomic int failures;

static void *race(void *unused)
{
    static const char *const names[] = {"add", "subtract", "multiply", "divide"};
    (void)unused;
    pthread_barrier_wait(&start);
    for (int i = 0; i < 4; i++)
        failures += launch(raced, names[i], NULL) != DLK_OK;
    return NULL;
}

TEST(racing_threads_compile_once)
{
    pthread_t threads[RACERS];
    CHECK_INT(dlk_context_create(&raced), DLK_OK);
    pthread_barrier_init(&start, NULL, RACERS);
    for (int i = 0; i < RACERS; i++)
        pthread_create(&threads[i], NULL, race, NULL);
    for (int i = 0; i < RACERS; i++)
        pthread_join(threads[i], NULL);
    pthread_barrier_destroy(&start);
    CHECK_INT(failures, 0);
    const dlk_counters c = counters(raced);
    CHECK_INT(c.compiles, 4);
    CHECK_INT(c.kernels, 4);
    CHECK_INT(c.launches, 4 * RACERS);
    CHECK_INT(c.kernel_hits, 4 * RACERS - 4);
    dlk_context_destroy(raced);
}

static _Atomic bool is_over;
static void *clear_again_and_again(void *context)
{
    while (!is_over)
        failures += dlk_cache_clear(context) != DLK_OK;
    return NULL;
}

TEST(clearing_while_others_launch)
{
    pthread_t clearer, threads[2];
    CHECK_INT(dlk_context_create(&raced), DLK_OK);
    pthread_barrier_init(&start, NULL, 2);
    pthread_create(&clearer, NULL, clear_again_and_again, raced);
    for (int round = 0; round < 5; round++) {
        for (int i = 0; i < 2; i++)
            pthread_create(&threads[i], NULL, race, NULL);
        for (int i = 0; i < 2; i++)
            pthread_join(threads[i], NULL);
    }
    is_over = true;
    pthread_join(clearer, NULL);
    pthread_barrier_destroy(&start);
    CHECK_INT(failures, 0);
    dlk_context_destroy(raced);
}

/* ---- Changes ----------------------------------------------------------------------------------------------------- */

static float result_of(dlk_context *context, const dlk_op *op)
{
    const DLTensor x = vector(a), y = vector(b);
    const dlk_input in[2] = {dlk_input_tensor(&x), dlk_input_tensor(&y)};
    dlk_output to = {NULL, 0, NULL};
    CHECK_MSG(dlk_launch(context, op, in, 2, &to, 1, NULL) == DLK_OK, "%s", dlk_last_error());
    const float r = to.result ? *(float *)to.result->dl_tensor.data : NAN;
    dlk_release(to.result);
    return r;
}

TEST(a_new_definition_is_seen_at_once)
{
    dlk_context *context;
    const dlk_op *op, *again;
    a[0] = 3, b[0] = 5;
    CHECK_INT(dlk_context_create(&context), DLK_OK);
    CHECK_MSG(dlk_define(context, "f(x, y) = x * y - y", &op) == DLK_OK, "%s", dlk_last_error());
    CHECK(result_of(context, op) == 10);
    CHECK(result_of(context, op) == 10);
    CHECK_INT(dlk_define(context, "f(x, y) = x * y - x", &again), DLK_OK);
    CHECK(result_of(context, again) == 12);
    CHECK(result_of(context, op) == 12);
    CHECK_INT(dlk_define(context, "f(x, y) = y * x - y", &again), DLK_OK);
    CHECK(result_of(context, again) == 10);
    dlk_context_destroy(context);
}

TEST(contexts_do_not_share_definitions)
{
    dlk_context *one, *two;
    const dlk_op *f, *g, *missing;
    CHECK_INT(dlk_context_create(&one), DLK_OK);
    CHECK_INT(dlk_context_create(&two), DLK_OK);
    CHECK_INT(dlk_define(one, "f(x, y) = x + y", &f), DLK_OK);
    CHECK_INT(dlk_define(two, "f(x, y) = x - y", &g), DLK_OK);
    CHECK(result_of(one, f) == 8);
    CHECK(result_of(two, g) == -2);
    CHECK_INT(dlk_find(NULL, "f", &missing), DLK_ERR_NOT_FOUND);
    dlk_context_destroy(one);
    CHECK(result_of(two, g) == -2);
    dlk_context_destroy(two);
    dlk_context_destroy(NULL);
}

TEST(failed_compiles_are_tried_again)
{
    dlk_context *context;
    CHECK_INT(dlk_context_create(&context), DLK_OK);
    CHECK_INT(dlk_option_set("fail", "compile:1"), DLK_OK);
    CHECK_INT(launch(context, "add", NULL), DLK_ERR_COMPILE);
    CHECK(strstr(dlk_last_error(), "on purpose"));
    CHECK_INT(dlk_option_set("fail", NULL), DLK_OK);
    CHECK_INT(launch(context, "add", NULL), DLK_OK);
    CHECK_INT(counters(context).compiles, 1);
    dlk_context_destroy(context);
}

/* Every allocation fails once: a status, nothing lost, and the next launch is right. */
TEST(out_of_memory_everywhere)
{
    dlk_context *context;
    CHECK_INT(dlk_context_create(&context), DLK_OK);
    CHECK_INT(launch(context, "multiply", NULL), DLK_OK); /* what is made once and for all */
    int failed = 0;
    for (int n = 1; n < 400; n++) {
        char text[32];
        CHECK_INT(dlk_cache_clear(context), DLK_OK);
        const int64_t live = dlk_alloc_live();
        snprintf(text, sizeof text, "alloc:%d", n);
        CHECK_INT(dlk_option_set("fail", text), DLK_OK);
        const dlk_status status = launch(context, "multiply", NULL);
        CHECK_INT(dlk_option_set("fail", NULL), DLK_OK);
        failed += status != DLK_OK;
        CHECK(status == DLK_OK || status == DLK_ERR_MEMORY || status == DLK_ERR_COMPILE);
        CHECK_INT(dlk_cache_clear(context), DLK_OK);
        if (status != DLK_OK)
            CHECK_MSG(dlk_alloc_live() == live, "%d blocks more after failure %d", (int)(dlk_alloc_live() - live), n);
        CHECK_INT(launch(context, "multiply", NULL), DLK_OK);
    }
    CHECK(failed > 5);
    dlk_context_destroy(context);
}

/* ---- Forks ------------------------------------------------------------------------------------------------------- */

static void *launch_many(void *unused)
{
    (void)unused;
    for (int i = 0; i < 30; i++) {
        char text[64];
        const dlk_op *op;
        snprintf(text, sizeof text, "g%d(x, y) = x * %d + y", i, i + 2);
        failures += dlk_define(NULL, text, &op) != DLK_OK || isnan(result_of(NULL, op));
    }
    return NULL;
}

TEST(a_child_drops_what_its_parent_was_compiling)
{
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
    SKIP("the sanitizer's own locks do not survive a fork among threads");
#endif
    pthread_t thread;
    pthread_create(&thread, NULL, launch_many, NULL);
    for (int i = 0; i < 10; i++) {
        const pid_t child = fork();
        if (!child) {
            alarm(20);
            char text[64];
            const dlk_op *op;
            snprintf(text, sizeof text, "g%d(x, y) = x * %d + y", i, i + 2); /* maybe being compiled right now */
            if (dlk_define(NULL, text, &op) != DLK_OK || launch(NULL, "add", NULL) != DLK_OK)
                _exit(1);
            _exit(result_of(NULL, op) == a[0] * (float)(i + 2) + b[0] ? 0 : 2);
        }
        int status = -1;
        CHECK(waitpid(child, &status, 0) == child);
        CHECK_MSG(WIFEXITED(status) && WEXITSTATUS(status) == 0, "child %d: %x", i, status);
    }
    pthread_join(thread, NULL);
    CHECK_INT(failures, 0);
}
