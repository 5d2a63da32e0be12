/* Locks that survive fork(). A child has only the thread that forked: a lock that another thread held at that moment would
 * stay locked in it for good. These are taken before every fork and released on both sides.
 *
 * They are innermost: nobody may hold one while taking another, or while forking. A module with locks of its own, taken
 * around these, has its own pthread_atfork, which is called later than this one's and therefore first at a fork. */
#ifndef DLK_BASE_LOCK_H
#define DLK_BASE_LOCK_H

#include <pthread.h>

typedef struct dlk_lock {
    pthread_mutex_t mutex;
    struct dlk_lock *next, **link; /* in the list of all */
} dlk_lock;

void dlk_lock_init(dlk_lock *lock);
void dlk_lock_destroy(dlk_lock *lock);
void dlk_lock_take(dlk_lock *lock);
void dlk_lock_give(dlk_lock *lock);

/* A lock of static storage. It is there before main begins. */
#define DLK_STATIC_LOCK(name)                                    \
    static dlk_lock name = {.mutex = PTHREAD_MUTEX_INITIALIZER}; \
    __attribute__((constructor)) static void name##_init(void)   \
    {                                                            \
        dlk_lock_init(&name);                                    \
    }                                                            \
    static dlk_lock name

#endif
