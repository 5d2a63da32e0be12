/* A context: what dlk_context_create makes, and the default one. Everything that a launch may reach from it is safe to use
 * from many threads. */
#ifndef DLK_RUNTIME_CONTEXT_H
#define DLK_RUNTIME_CONTEXT_H

#include <stdatomic.h>

#include "base/status.h"
#include "kernels/registry.h"
#include "runtime/cache.h"

#define DLK_COUNTER_SHARDS 16

typedef struct dlk_counter_shard { /* mostly one thread's own; two cache lines, so that threads do not share one */
    _Atomic uint64_t plan_hits, plan_misses, handle_runs, native_runs;
    char zero[128 - 4 * sizeof(uint64_t)];
} dlk_counter_shard;

struct dlk_context {
    uint64_t serial; /* never used again, so that a thread's cached plans tell contexts apart */
    dlk_registry *registry;
    dlk_cache *cache;
    dlk_counter_shard counters[DLK_COUNTER_SHARDS];
};

/* `given`, or the default context, made on first use. */
dlk_status dlk_context_get(dlk_context *given, dlk_context **out);
/* The shard of this thread. */
dlk_counter_shard *dlk_context_counters(dlk_context *context);
/* Changes when anything changes that a ready plan was made from: definitions, implementations, options, a cleared cache. */
uint64_t dlk_context_epoch(const dlk_context *context);

static inline void dlk_count(_Atomic uint64_t *counter)
{
    atomic_fetch_add_explicit(counter, 1, memory_order_relaxed);
}

#endif
