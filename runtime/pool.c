/* One job at a time: the caller publishes it, wakes the workers, works too, and waits for the last one. Pieces are taken by
 * an atomic counter. A worker that is late finds nothing left and goes back to sleep; a caller that comes while a job runs
 * does its own work itself, so launches from several threads never wait for each other. */
#include "runtime/pool.h"

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <string.h>

#include "base/options.h"
#include "base/os.h"

enum {
    THREADS_MAX = 256,
    PIECES_PER_THREAD = 4 /* so that a slow core does not hold up the others for long */
};

typedef struct job {
    dlk_pool_function run;
    void *context;
    int64_t n, piece;
    _Atomic int64_t next;
} job;

static struct {
    pthread_mutex_t lock;
    pthread_cond_t wake, done;
    int n_workers;
    uint64_t serial; /* of the newest job */
    int wanted;      /* workers that may still join it */
    int active;      /* workers inside it */
    job job;
} pool = {.lock = PTHREAD_MUTEX_INITIALIZER, .wake = PTHREAD_COND_INITIALIZER, .done = PTHREAD_COND_INITIALIZER};

static atomic_flag busy = ATOMIC_FLAG_INIT; /* a job is being run */

static void work(job *j)
{
    for (;;) {
        const int64_t first = atomic_fetch_add_explicit(&j->next, j->piece, memory_order_relaxed);
        if (first >= j->n)
            return;
        j->run(j->context, first, j->n - first < j->piece ? j->n : first + j->piece);
    }
}

static void *worker(void *unused)
{
    uint64_t seen = 0;
    (void)unused;
    pthread_mutex_lock(&pool.lock);
    for (;;) {
        while (pool.serial == seen || !pool.wanted) {
            seen = pool.serial;
            pthread_cond_wait(&pool.wake, &pool.lock);
        }
        seen = pool.serial;
        pool.wanted--;
        pool.active++;
        pthread_mutex_unlock(&pool.lock);
        work(&pool.job);
        pthread_mutex_lock(&pool.lock);
        if (!--pool.active)
            pthread_cond_signal(&pool.done);
    }
    return NULL;
}

/* In the child of a fork there are no workers, and locks may have been held by threads that are gone. */
static void forget_after_fork(void)
{
    pthread_mutex_init(&pool.lock, NULL);
    pthread_cond_init(&pool.wake, NULL);
    pthread_cond_init(&pool.done, NULL);
    pool.n_workers = pool.wanted = pool.active = 0;
    atomic_flag_clear(&busy);
}

static void watch_forks(void)
{
    pthread_atfork(NULL, NULL, forget_after_fork);
}

static bool start_worker(void)
{
    static const size_t stack_bytes = 1 << 20; /* kernels keep row buffers on the stack */
    sigset_t all, before;
    pthread_t thread;
    pthread_attr_t attributes;
    pthread_attr_init(&attributes);
    pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
    pthread_attr_setstacksize(&attributes, stack_bytes);
    sigfillset(&all); /* signals are the application's threads' business */
    pthread_sigmask(SIG_SETMASK, &all, &before);
    const int failed = pthread_create(&thread, &attributes, worker, NULL);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    pthread_attr_destroy(&attributes);
    return !failed;
}

/* With the lock held: as many workers as wanted, or as many as the system gives. */
static void ensure_workers(int wanted)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, watch_forks);
    while (pool.n_workers < wanted && start_worker())
        pool.n_workers++;
}

static void publish(int64_t n, int threads, dlk_pool_function run, void *context)
{
    const int64_t pieces = (int64_t)threads * PIECES_PER_THREAD;
    pthread_mutex_lock(&pool.lock);
    ensure_workers(threads - 1);
    pool.job.run = run;
    pool.job.context = context;
    pool.job.n = n;
    pool.job.piece = n / pieces > 0 ? n / pieces : 1;
    atomic_store_explicit(&pool.job.next, 0, memory_order_relaxed);
    pool.serial++;
    pool.wanted = threads - 1;
    pthread_cond_broadcast(&pool.wake);
    pthread_mutex_unlock(&pool.lock);
}

static void wait_for_workers(void)
{
    pthread_mutex_lock(&pool.lock);
    pool.wanted = 0; /* who has not come by now would find nothing */
    while (pool.active)
        pthread_cond_wait(&pool.done, &pool.lock);
    pthread_mutex_unlock(&pool.lock);
}

void dlk_pool_run(int64_t n, int threads, dlk_pool_function run, void *context)
{
    if (threads > THREADS_MAX)
        threads = THREADS_MAX;
    if (threads > n)
        threads = (int)n;
    if (threads <= 1 || atomic_flag_test_and_set_explicit(&busy, memory_order_acquire)) {
        if (n > 0)
            run(context, 0, n);
        return;
    }
    publish(n, threads, run, context);
    work(&pool.job);
    wait_for_workers();
    atomic_flag_clear_explicit(&busy, memory_order_release);
}

int dlk_pool_threads(void)
{
    const int64_t wanted = dlk_option_int(DLK_OPTION_NUM_THREADS);
    const int64_t n = wanted > 0 ? wanted : dlk_os_cores();
    return n > THREADS_MAX ? THREADS_MAX : (int)n;
}
