/* Contexts and what is asked of them outside a launch: operations, counters, the cache. */
#include "runtime/context.h"

#include <string.h>

#include "base/alloc.h"
#include "base/options.h"
#include "runtime/memory.h"

static _Atomic uint64_t next_serial = 1;
static _Atomic(dlk_context *) default_context; /* never destroyed */

static _Atomic unsigned next_shard;
static _Thread_local unsigned own_shard; /* 1-based; 0: not chosen yet */

dlk_status dlk_context_create(dlk_context **out)
{
    if (!out)
        return dlk_fail(DLK_ERR_INVALID, "dlk_context_create: out is NULL");
    dlk_context *context = dlk_alloc(sizeof *context);
    if (!context)
        return dlk_fail(DLK_ERR_MEMORY, "out of memory making a context");
    context->serial = atomic_fetch_add(&next_serial, 1);
    context->cache = dlk_cache_create();
    dlk_status status = context->cache ? dlk_registry_create(&context->registry)
                                       : dlk_fail(DLK_ERR_MEMORY, "out of memory making a context");
    if (status != DLK_OK) {
        dlk_cache_destroy(context->cache);
        dlk_free(context);
        return status;
    }
    *out = context;
    return DLK_OK;
}

void dlk_context_destroy(dlk_context *context)
{
    if (!context)
        return;
    dlk_cache_destroy(context->cache);
    dlk_registry_destroy(context->registry);
    dlk_free(context);
}

/* Without a lock, so that a fork cannot leave one behind: of threads that race here, one context stays. */
static dlk_status make_default(dlk_context **out)
{
    dlk_context *fresh = NULL, *found = NULL;
    DLK_TRY(dlk_context_create(&fresh));
    if (atomic_compare_exchange_strong(&default_context, &found, fresh)) {
        *out = fresh;
        return DLK_OK;
    }
    dlk_context_destroy(fresh);
    *out = found;
    return DLK_OK;
}

dlk_status dlk_context_get(dlk_context *given, dlk_context **out)
{
    *out = given ? given : atomic_load_explicit(&default_context, memory_order_acquire);
    return *out ? DLK_OK : make_default(out);
}

dlk_counter_shard *dlk_context_counters(dlk_context *context)
{
    if (!own_shard)
        own_shard = 1 + atomic_fetch_add(&next_shard, 1) % DLK_COUNTER_SHARDS;
    return &context->counters[own_shard - 1];
}

uint64_t dlk_context_epoch(const dlk_context *context)
{
    return dlk_registry_epoch(context->registry) + dlk_cache_epoch(context->cache) + dlk_option_epoch();
}

/* ---- Operations -------------------------------------------------------------------------------------------------- */

dlk_status dlk_find(dlk_context *context, const char *name, const dlk_op **out)
{
    if (!name || !out)
        return dlk_fail(DLK_ERR_INVALID, "dlk_find: %s is NULL", name ? "out" : "name");
    DLK_TRY(dlk_context_get(context, &context));
    return dlk_registry_find(context->registry, name, out);
}

dlk_status dlk_define(dlk_context *context, const char *text, const dlk_op **opt_out)
{
    if (!text)
        return dlk_fail(DLK_ERR_INVALID, "dlk_define: text is NULL");
    DLK_TRY(dlk_context_get(context, &context));
    return dlk_registry_define(context->registry, text, opt_out);
}

dlk_status dlk_op_list(dlk_context *context, const dlk_op **out, int capacity, int *out_count)
{
    if (!out_count || capacity < 0 || (capacity && !out))
        return dlk_fail(DLK_ERR_INVALID, "dlk_op_list: out_count is NULL, or out is NULL with a capacity");
    DLK_TRY(dlk_context_get(context, &context));
    return dlk_registry_list(context->registry, out, capacity, out_count);
}

/* A caller that was built against a smaller struct gets the fields that it has. */
static dlk_status give_sized(void *out, const void *whole, size_t whole_bytes, const char *what)
{
    size_t bytes;
    memcpy(&bytes, out, sizeof bytes);
    if (bytes < 2 * sizeof bytes)
        return dlk_fail(DLK_ERR_INVALID, "%s: size is %zu; expected sizeof of the struct", what, bytes);
    memcpy((char *)out + sizeof bytes, (const char *)whole + sizeof bytes,
           (bytes < whole_bytes ? bytes : whole_bytes) - sizeof bytes);
    return DLK_OK;
}

dlk_status dlk_op_get_info(dlk_context *context, const dlk_op *op, dlk_op_info *out)
{
    (void)context;
    if (!op || !out)
        return dlk_fail(DLK_ERR_INVALID, "dlk_op_get_info: %s is NULL", op ? "out" : "op");
    const dlk_op_version *version = dlk_op_get_version(op);
    dlk_op_info info = {.name = version->name,
                        .documentation = version->documentation,
                        .signature = version->signature,
                        .formula = version->formula,
                        .n_inputs = version->n_inputs,
                        .n_parameters = version->n_parameters,
                        .input_names = version->input_names,
                        .parameter_names = version->parameter_names,
                        .parameter_defaults = version->parameter_defaults};
    int n_outputs;
    DLK_TRY(dlk_op_describe(op, &info.kind, &n_outputs, &info.dtypes));
    info.n_outputs = n_outputs;
    return give_sized(out, &info, sizeof info, "dlk_op_info");
}

/* ---- Native implementations -------------------------------------------------------------------------------------- */

dlk_status dlk_register(dlk_context *context, const dlk_native *native)
{
    if (!native || native->size < sizeof(size_t))
        return dlk_fail(DLK_ERR_INVALID, "dlk_register: native is NULL, or its size is not sizeof(dlk_native)");
    dlk_native whole = {0};
    memcpy(&whole, native, native->size < sizeof whole ? native->size : sizeof whole);
    if (!whole.operation || !whole.name || !whole.run)
        return dlk_fail(DLK_ERR_INVALID, "dlk_register: %s is NULL",
                        !whole.operation ? "operation"
                        : !whole.name    ? "name"
                                         : "run");
    if (whole.n_dtypes < 0 || (whole.n_dtypes && !whole.dtypes))
        return dlk_fail(DLK_ERR_INVALID, "dlk_register: n_dtypes is %d with dtypes %s", (int)whole.n_dtypes,
                        whole.dtypes ? "set" : "NULL");
    DLK_TRY(dlk_context_get(context, &context));
    return dlk_registry_register(context->registry, &whole);
}

dlk_status dlk_set_error(dlk_status status, const char *message)
{
    return dlk_fail(status, "%s", message ? message : "");
}

/* ---- Counters and cache ------------------------------------------------------------------------------------------ */

dlk_status dlk_counters_get(dlk_context *context, dlk_counters *out)
{
    if (!out)
        return dlk_fail(DLK_ERR_INVALID, "dlk_counters_get: out is NULL");
    DLK_TRY(dlk_context_get(context, &context));
    dlk_counters sum = {0};
    for (int i = 0; i < DLK_COUNTER_SHARDS; i++) {
        dlk_counter_shard *at = &context->counters[i];
        sum.plan_hits += atomic_load(&at->plan_hits);
        sum.plan_misses += atomic_load(&at->plan_misses);
        sum.native_runs += atomic_load(&at->native_runs);
        sum.launches += atomic_load(&at->handle_runs);
    }
    sum.launches += sum.plan_hits + sum.plan_misses;
    sum.heap_allocations = dlk_alloc_calls();
    dlk_cache_count(context->cache, &sum);
    dlk_memory_count(&sum);
    return give_sized(out, &sum, sizeof sum, "dlk_counters");
}

dlk_status dlk_cache_clear(dlk_context *context)
{
    DLK_TRY(dlk_context_get(context, &context));
    dlk_cache_forget(context->cache);
    dlk_memory_trim();
    return DLK_OK;
}

int dlk_version(void)
{
    return DLK_VERSION_MAJOR * 1000000 + DLK_VERSION_MINOR * 1000 + DLK_VERSION_PATCH;
}
