/* All locks in one list, which has a lock of its own: taken first, given back last. */
#include "base/lock.h"

static pthread_mutex_t list_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_once_t once = PTHREAD_ONCE_INIT;
static dlk_lock *all;

static void before_fork(void)
{
    pthread_mutex_lock(&list_lock);
    for (dlk_lock *lock = all; lock; lock = lock->next)
        pthread_mutex_lock(&lock->mutex);
}

static void after_fork(void)
{
    for (dlk_lock *lock = all; lock; lock = lock->next)
        pthread_mutex_unlock(&lock->mutex);
    pthread_mutex_unlock(&list_lock);
}

static void watch_forks(void)
{
    pthread_atfork(before_fork, after_fork, after_fork);
}

void dlk_lock_init(dlk_lock *lock)
{
    pthread_once(&once, watch_forks);
    pthread_mutex_init(&lock->mutex, NULL);
    pthread_mutex_lock(&list_lock);
    lock->next = all;
    lock->link = &all;
    if (all)
        all->link = &lock->next;
    all = lock;
    pthread_mutex_unlock(&list_lock);
}

void dlk_lock_destroy(dlk_lock *lock)
{
    pthread_mutex_lock(&list_lock);
    *lock->link = lock->next;
    if (lock->next)
        lock->next->link = lock->link;
    pthread_mutex_unlock(&list_lock);
    pthread_mutex_destroy(&lock->mutex);
}

void dlk_lock_take(dlk_lock *lock)
{
    pthread_mutex_lock(&lock->mutex);
}

void dlk_lock_give(dlk_lock *lock)
{
    pthread_mutex_unlock(&lock->mutex);
}
