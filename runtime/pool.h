/* The threads that share one launch. Small, asleep when idle, gone and remade after a fork. */
#ifndef DLK_RUNTIME_POOL_H
#define DLK_RUNTIME_POOL_H

#include <stdint.h>

/* A piece of work: [first, end) of the whole. */
typedef void (*dlk_pool_function)(void *context, int64_t first, int64_t end);

/* Calls `run` on pieces that together are [0, n), on at most `threads` threads, the caller's among them, and returns when all
 * are done. Pieces are taken in order by whoever is free. A caller that finds the pool busy runs everything itself. */
void dlk_pool_run(int64_t n, int threads, dlk_pool_function run, void *context);
/* What option NUM_THREADS says, or the number of cores. */
int dlk_pool_threads(void);

#endif
