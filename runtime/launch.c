/* A launch: read the arguments, find it prepared (or check, type, plan and compile it), make the results, run. */
#include <string.h>

#include "runtime/memory.h"
#include "runtime/prepare.h"
#include "runtime/recent.h"

typedef struct launch {
    dlk_arguments arguments;
    dlk_recent_key key;
    const dlk_prepared *prepared;
    dlk_prepared *held;                   /* NULL, or the reference that this launch holds on `prepared` */
    bool is_new;                          /* it had to be prepared */
    dlk_output outputs[DLK_OPERANDS_MAX]; /* as given, and what an allocator made */
    DLManagedTensorVersioned *results[DLK_OPERANDS_MAX];            /* made for this launch; NULL: given */
    char *input_at[DLK_OPERANDS_MAX], *output_at[DLK_OPERANDS_MAX]; /* addresses of first elements */
} launch;

static void find_addresses(launch *l)
{
    const dlk_arguments *a = &l->arguments;
    for (int i = 0; i < a->n_tensors; i++)
        l->input_at[i] = dlk_tensor_address(a->tensors[i]);
    for (int k = 0; k < a->n_outputs; k++)
        l->output_at[k] = a->outputs[k].tensor ? dlk_tensor_address(a->outputs[k].tensor) : NULL;
}

/* Functions of the caller's may launch in their turn, and so push out what this thread has borrowed from itself. */
static bool calls_out(const launch *l)
{
    return l->prepared->native || l->arguments.params.allocator;
}

/* This thread's recent launches, else everything from the beginning. */
static dlk_status find_prepared(launch *l)
{
    find_addresses(l);
    dlk_recent_key_make(&l->arguments, &l->key);
    l->prepared = dlk_recent_find(&l->key, l->input_at, l->output_at);
    if (l->prepared) {
        if (calls_out(l))
            l->held = dlk_prepared_hold((dlk_prepared *)l->prepared);
        return DLK_OK;
    }
    l->is_new = true;
    DLK_TRY(dlk_prepare(&l->arguments, DLK_PREPARE_KERNELS, &l->held));
    l->prepared = l->held;
    dlk_recent_put(&l->key, l->held);
    return DLK_OK;
}

static dlk_status make_result(launch *l, int k)
{
    const dlk_result *r = &l->prepared->plan->results[k];
    const DLDevice host = {kDLCPU, 0};
    DLK_TRY(dlk_memory_tensor(dlk_dtype_to_dl((dlk_dtype)r->dtype), host, r->ndim, r->shape, r->strides, r->high,
                              &l->results[k]));
    l->output_at[k] = l->results[k]->dl_tensor.data;
    return DLK_OK;
}

static dlk_status make_results(launch *l)
{
    for (int k = 0; k < l->arguments.n_outputs; k++)
        if (!l->arguments.outputs[k].tensor)
            DLK_TRY(make_result(l, k));
    return DLK_OK;
}

/* ---- The caller's allocator -------------------------------------------------------------------------------------- */

static void note_allocator_error(void *context, const char *kind, const char *message)
{
    (void)context;
    dlk_fail(DLK_ERR_MEMORY, "params.allocator: %s: %s", kind ? kind : "error", message ? message : "");
}

static dlk_status call_allocator(launch *l, int k)
{
    const dlk_result *r = &l->prepared->plan->results[k];
    DLTensor prototype = {.device = {kDLCPU, 0},
                          .ndim = r->ndim,
                          .dtype = dlk_dtype_to_dl((dlk_dtype)r->dtype),
                          .shape = r->shape,
                          .strides = r->strides};
    dlk_fail(DLK_ERR_MEMORY, "params.allocator failed and did not say why");
    if (l->arguments.params.allocator(&prototype, &l->results[k], NULL, note_allocator_error) != 0 || !l->results[k])
        return DLK_ERR_MEMORY;
    l->outputs[k].tensor = &l->results[k]->dl_tensor;
    l->outputs[k].flags = l->results[k]->flags;
    return DLK_OK;
}

/* Its results are outputs like any given ones, of whatever layout it chose: the launch is looked up anew. */
static dlk_status allocate_results(launch *l)
{
    dlk_arguments *a = &l->arguments;
    bool is_needed = false;
    for (int k = 0; k < a->n_outputs; k++)
        is_needed |= !a->outputs[k].tensor;
    if (!is_needed || !a->params.allocator)
        return DLK_OK;
    memcpy(l->outputs, a->outputs, sizeof *l->outputs * (size_t)a->n_outputs);
    for (int k = 0; k < a->n_outputs; k++)
        if (!l->outputs[k].tensor)
            DLK_TRY(call_allocator(l, k));
    a->outputs = l->outputs;
    dlk_prepared_release(l->held);
    l->held = NULL;
    return find_prepared(l);
}

/* ---- Entry ------------------------------------------------------------------------------------------------------- */

static dlk_status run(launch *l)
{
    DLK_TRY(find_prepared(l));
    DLK_TRY(allocate_results(l));
    DLK_TRY(make_results(l));
    return dlk_prepared_run(l->prepared, &l->arguments, l->input_at, l->output_at);
}

static void finish(launch *l, dlk_status status, dlk_output *outputs, int n_outputs)
{
    for (int k = 0; k < n_outputs; k++) {
        if (!l->results[k])
            continue;
        if (status == DLK_OK)
            outputs[k].result = l->results[k];
        else
            dlk_release(l->results[k]);
    }
    if (status == DLK_OK) {
        dlk_counter_shard *counters = dlk_context_counters(l->arguments.context);
        dlk_count(l->is_new ? &counters->plan_misses : &counters->plan_hits);
    }
    dlk_prepared_release(l->held);
}

dlk_status dlk_launch(dlk_context *context, const dlk_op *op, const dlk_input *inputs, int n_inputs,
                      dlk_output *outputs, int n_outputs, const dlk_params *opt_params)
{
    launch l; /* not zeroed: most of it is room for large launches */
    dlk_status status =
        dlk_arguments_read(context, op, inputs, n_inputs, outputs, n_outputs, opt_params, true, &l.arguments);
    if (status == DLK_OK) {
        l.held = NULL;
        l.is_new = false;
        memset(l.results, 0, sizeof *l.results * (size_t)n_outputs);
        status = run(&l);
        finish(&l, status, outputs, n_outputs);
    }
    dlk_arguments_release(inputs, n_inputs);
    return status;
}
