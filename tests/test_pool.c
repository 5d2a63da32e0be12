/* The thread pool: every index once, by several threads where they are asked for, from several callers, from inside itself,
 * after a fork; its threads take no signals. */
#include "tests/test.h"

#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/options.h"
#include "base/os.h"
#include "base/status.h"
#include "runtime/pool.h"

enum { N_MAX = 5000 };

typedef struct counts {
    _Atomic int of[N_MAX];
    _Atomic int outside; /* pieces that are empty or leave the range */
    int64_t n;
} counts;

static void count(void *context, int64_t first, int64_t end)
{
    counts *c = context;
    if (first < 0 || first >= end || end > c->n) {
        c->outside++;
        return;
    }
    for (int64_t i = first; i < end; i++)
        c->of[i]++;
}

static bool covers_once(int64_t n, int threads)
{
    counts *c = calloc(1, sizeof *c);
    c->n = n;
    dlk_pool_run(n, threads, count, c);
    bool good = !c->outside;
    for (int64_t i = 0; i < N_MAX; i++)
        good &= c->of[i] == (i < n);
    free(c);
    return good;
}

TEST(every_index_once)
{
    static const int64_t sizes[] = {0, 1, 2, 3, 7, 8, 9, 63, 1000, N_MAX};
    static const int threads[] = {0, 1, 2, 3, 4, 17, 100000};
    for (size_t s = 0; s < sizeof sizes / sizeof sizes[0]; s++)
        for (size_t t = 0; t < sizeof threads / sizeof threads[0]; t++)
            CHECK_MSG(covers_once(sizes[s], threads[t]), "%lld indices, %d threads", (long long)sizes[s], threads[t]);
}

/* ---- Who runs the pieces ---- */

/* Pieces that wait until as many of them run at once as there are. */
typedef struct meeting {
    int expected;
    _Atomic int arrived;
    _Atomic int late;
    _Atomic int takes_signals; /* threads other than the caller that would take one */
    pthread_t caller;
} meeting;

static double seconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static void meet(void *context, int64_t first, int64_t end)
{
    static const int signals[] = {SIGINT, SIGTERM, SIGUSR1, SIGALRM, SIGCHLD};
    meeting *m = context;
    (void)first, (void)end;
    const double deadline = seconds() + 20;
    sigset_t blocked;
    pthread_sigmask(SIG_SETMASK, NULL, &blocked);
    for (size_t k = 0; k < sizeof signals / sizeof signals[0]; k++)
        m->takes_signals += !pthread_equal(pthread_self(), m->caller) && !sigismember(&blocked, signals[k]);
    m->arrived++;
    while (m->arrived < m->expected && seconds() < deadline)
        sched_yield();
    m->late += m->arrived < m->expected;
}

/* True when `threads` threads were at work at once. */
static bool threads_meet(int threads)
{
    meeting m = {.expected = threads, .caller = pthread_self()};
    dlk_pool_run(threads, threads, meet, &m);
    CHECK_INT(m.takes_signals, 0);
    return !m.late && m.arrived == threads;
}

TEST(threads_work_at_once_and_take_no_signals)
{
    sigset_t before, after;
    pthread_sigmask(SIG_SETMASK, NULL, &before);
    CHECK(threads_meet(2) && threads_meet(4) && threads_meet(3)); /* some, more than there are yet, fewer */
    pthread_sigmask(SIG_SETMASK, NULL, &after);
    for (int s = 1; s < 32; s++)
        CHECK_INT(sigismember(&after, s), sigismember(&before, s));
}

static void *call_many_times(void *unused)
{
    intptr_t wrong = 0;
    (void)unused;
    for (int round = 0; round < 100; round++)
        wrong += !covers_once(1 + round * 7, 1 + round % 4);
    return (void *)wrong;
}

static void note_thread(void *context, int64_t first, int64_t end)
{
    (void)first, (void)end;
    *(pthread_t *)context = pthread_self();
}

TEST(one_index_needs_no_other_thread)
{
    pthread_t other;
    CHECK_INT(pthread_create(&other, NULL, call_many_times, NULL), 0); /* any thread but this one */
    pthread_t ran = other;
    pthread_join(other, NULL);
    dlk_pool_run(1, 8, note_thread, &ran);
    CHECK(pthread_equal(ran, pthread_self()));
}

/* ---- Several callers ---- */

typedef struct nest {
    counts inner[4];
} nest;

static void run_inside(void *context, int64_t first, int64_t end)
{
    nest *n = context;
    for (int64_t i = first; i < end; i++)
        dlk_pool_run(n->inner[i].n, 4, count, &n->inner[i]);
}

TEST(a_piece_may_use_the_pool)
{
    nest *n = calloc(1, sizeof *n);
    for (int i = 0; i < 4; i++)
        n->inner[i].n = 100 + i;
    dlk_pool_run(4, 4, run_inside, n);
    for (int i = 0; i < 4; i++)
        for (int k = 0; k < N_MAX; k++)
            CHECK_INT(n->inner[i].of[k], k < 100 + i);
    free(n);
}

TEST(several_callers)
{
    pthread_t threads[4];
    for (int t = 0; t < 4; t++)
        CHECK_INT(pthread_create(&threads[t], NULL, call_many_times, NULL), 0);
    for (int t = 0; t < 4; t++) {
        void *wrong = NULL;
        pthread_join(threads[t], &wrong);
        CHECK_INT((intptr_t)wrong, 0);
    }
}

/* ---- Forks ---- */

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#    define FORKS_AMONG_THREADS 0
#else
#    define FORKS_AMONG_THREADS 1
#endif

static void check_child(void)
{
    const pid_t child = fork();
    if (!child) {
        alarm(30);
        _exit(threads_meet(3) && covers_once(1000, 4) && threads_meet(2) ? 0 : 1);
    }
    int status = -1;
    CHECK(waitpid(child, &status, 0) == child);
    CHECK_MSG(WIFEXITED(status) && WEXITSTATUS(status) == 0, "the child's status is %x", status);
}

TEST(a_child_has_a_pool_of_its_own)
{
    if (!FORKS_AMONG_THREADS)
        SKIP("the sanitizer's own locks do not survive a fork among threads");
    CHECK(threads_meet(3));
    check_child();
    CHECK(threads_meet(3)); /* the parent's goes on */
}

static _Atomic int inside, may_leave;

static void stay(void *context, int64_t first, int64_t end)
{
    (void)context, (void)first, (void)end;
    inside++;
    while (!may_leave)
        sched_yield();
}

static void *stay_in_the_pool(void *unused)
{
    dlk_pool_run(2, 2, stay, unused);
    return NULL;
}

TEST(a_child_of_a_busy_pool)
{
    if (!FORKS_AMONG_THREADS)
        SKIP("the sanitizer's own locks do not survive a fork among threads");
    pthread_t thread;
    CHECK_INT(pthread_create(&thread, NULL, stay_in_the_pool, NULL), 0);
    while (inside < 2)
        sched_yield();
    check_child();
    may_leave = 1;
    pthread_join(thread, NULL);
    CHECK(threads_meet(2));
}

TEST(the_number_of_threads_is_an_option)
{
    CHECK_INT(dlk_option_set("num_threads", "3"), DLK_OK);
    CHECK_INT(dlk_pool_threads(), 3);
    CHECK_INT(dlk_option_set("num_threads", "1"), DLK_OK);
    CHECK_INT(dlk_pool_threads(), 1);
    CHECK_INT(dlk_option_set("num_threads", "0"), DLK_OK);
    CHECK_INT(dlk_pool_threads(), dlk_os_cores());
    CHECK_INT(dlk_option_set("num_threads", NULL), DLK_OK);
}
