/* The warm half of a launch: addresses and scalars into the argument blocks, and the kernels run. */
#include <string.h>

#include "runtime/memory.h"
#include "runtime/prepare.h"

#define ARGUMENTS_MAX 512

/* ---- Does it fit ------------------------------------------------------------------------------------------------- */

static bool is_within(const char *address, int64_t low, int64_t high)
{
    const uintptr_t at = (uintptr_t)address;
    return (uintptr_t)-low <= at && (uintptr_t)high <= UINTPTR_MAX - at;
}

static bool is_apart(const char *a, int64_t low_a, int64_t high_a, const char *b, int64_t low_b, int64_t high_b)
{
    if (low_a == high_a || low_b == high_b)
        return true;
    return (uintptr_t)a + (uintptr_t)high_a <= (uintptr_t)b + (uintptr_t)low_b ||
           (uintptr_t)b + (uintptr_t)high_b <= (uintptr_t)a + (uintptr_t)low_a;
}

static bool overlaps_alike(const dlk_launch_plan *plan, int k, const char *output, char *const *inputs)
{
    const dlk_result *r = &plan->results[k];
    for (int i = 0; i < plan->n_inputs; i++) {
        const bool apart = is_apart(output, r->low, r->high, inputs[i], plan->input_low[i], plan->input_high[i]);
        switch ((dlk_overlap)plan->overlaps[k * plan->n_inputs + i]) {
        case DLK_OVERLAP_NONE:
            if (!apart)
                return false;
            break;
        case DLK_OVERLAP_EXACT:
            if (output != inputs[i])
                return false;
            break;
        case DLK_OVERLAP_PARTLY: /* goes through a temporary: right for any, slow where there is no need */
            if (apart)
                return false;
            break;
        }
    }
    return true;
}

static bool fits_output(const dlk_prepared *prepared, int k, char *const *inputs, char *const *outputs)
{
    const dlk_launch_plan *plan = prepared->plan;
    const dlk_result *r = &plan->results[k];
    if (!outputs[k])
        return !r->is_given || !r->elements;
    if (((uintptr_t)outputs[k] & prepared->misaligned[plan->n_inputs + k]) || !is_within(outputs[k], r->low, r->high))
        return false;
    for (int j = 0; j < k; j++)
        if (outputs[j] &&
            !is_apart(outputs[k], r->low, r->high, outputs[j], plan->results[j].low, plan->results[j].high))
            return false;
    return overlaps_alike(plan, k, outputs[k], inputs);
}

bool dlk_prepared_fits(const dlk_prepared *prepared, char *const *inputs, char *const *outputs)
{
    const dlk_launch_plan *plan = prepared->plan;
    for (int i = 0; i < plan->n_inputs; i++) {
        if (plan->input_low[i] == plan->input_high[i])
            continue; /* no elements: never read */
        if (!inputs[i] || ((uintptr_t)inputs[i] & prepared->misaligned[i]) ||
            !is_within(inputs[i], plan->input_low[i], plan->input_high[i]))
            return false;
    }
    for (int k = 0; k < plan->n_outputs; k++)
        if (!fits_output(prepared, k, inputs, outputs))
            return false;
    return true;
}

/* ---- Scalars ----------------------------------------------------------------------------------------------------- */

static const dlk_scalar *value_of(const dlk_prepared *prepared, const dlk_arguments *a, const dlk_build_scalar *scalar)
{
    switch ((dlk_scalar_source)scalar->source) {
    case DLK_FROM_INPUT:
        return &a->inputs[scalar->index].scalar;
    case DLK_FROM_PARAMETER: {
        const int at = prepared->parameter_at[scalar->index];
        return at >= 0 ? &a->params.scalars[at].value : &prepared->version->parameter_defaults[scalar->index];
    }
    case DLK_FROM_INITIAL:
        break;
    }
    return &a->params.initial;
}

static void encode(const dlk_scalar *value, uint64_t words[2])
{
    words[0] = words[1] = 0;
    switch (value->kind) {
    case DLK_SCALAR_FLOAT:
        memcpy(words, &value->value.f, sizeof value->value.f);
        break;
    case DLK_SCALAR_COMPLEX:
        memcpy(words, value->value.c, sizeof value->value.c);
        break;
    case DLK_SCALAR_BOOL:
        words[0] = value->value.i != 0;
        break;
    case DLK_SCALAR_NONE:
    case DLK_SCALAR_INT:
    case DLK_SCALAR_UINT:
        words[0] = value->value.u;
        break;
    }
}

static dlk_status read_scalars(const dlk_prepared *prepared, const dlk_arguments *a, uint64_t (*out)[2])
{
    const dlk_launch_plan *plan = prepared->plan;
    for (int i = 0; i < plan->n_scalars; i++) {
        const dlk_scalar *value = value_of(prepared, a, &plan->scalars[i]);
        if (plan->scalars[i].fits)
            DLK_TRY(dlk_build_check_scalar(prepared->version, &plan->scalars[i], value));
        encode(value, out[i]);
    }
    return DLK_OK;
}

/* ---- Steps ------------------------------------------------------------------------------------------------------- */

typedef struct running {
    char *const *inputs, *const *outputs;
    char *scratch;
    void *stream;
    uint64_t scalars[DLK_SCALARS_MAX][2];
} running;

static uint64_t patched(const running *r, const dlk_patch *patch)
{
    switch ((dlk_patch_source)patch->source) {
    case DLK_PATCH_INPUT:
        return (uint64_t)(uintptr_t)r->inputs[patch->index] + (uint64_t)patch->offset;
    case DLK_PATCH_OUTPUT:
        return (uint64_t)(uintptr_t)r->outputs[patch->index] + (uint64_t)patch->offset;
    case DLK_PATCH_SCRATCH:
        return (uint64_t)(uintptr_t)r->scratch + (uint64_t)patch->offset;
    case DLK_PATCH_SCALAR:
        break;
    }
    return r->scalars[patch->index][patch->part];
}

static dlk_status run_step(const running *r, const dlk_plan_step *step, const dlk_kernel *kernel)
{
    uint64_t arguments[ARGUMENTS_MAX];
    if (step->n_arguments > ARGUMENTS_MAX)
        return dlk_fail(DLK_ERR_UNSUPPORTED, "a kernel with %d argument words; at most %d", step->n_arguments,
                        ARGUMENTS_MAX);
    memcpy(arguments, step->arguments, sizeof *arguments * (size_t)step->n_arguments);
    for (int i = 0; i < step->n_patches; i++)
        arguments[step->patches[i].word] = patched(r, &step->patches[i]);
    const dlk_call call = {.arguments = arguments,
                           .n_arguments = step->n_arguments,
                           .n_buffers = step->n_buffers,
                           .items = step->items,
                           .n_outer = step->n_outer,
                           .outer_extents = step->outer_extents,
                           .moving = step->moving,
                           .n_moving = step->n_moving,
                           .outer_moves = step->outer_moves,
                           .outer_steps = step->outer_steps,
                           .threads = step->threads,
                           .stream = r->stream};
    return kernel->backend->launch(kernel->code, &call);
}

/* ---- Native implementations -------------------------------------------------------------------------------------- */

typedef struct native_call {
    dlk_input inputs[DLK_OPERANDS_MAX];
    dlk_input where;
    DLTensor tensors[2 * DLK_OPERANDS_MAX]; /* inputs, then outputs */
    DLTensor *outputs;
    dlk_params params;
    int32_t axes[DLK_RANK_MAX];
} native_call;

static DLTensor tensor_of_view(const dlk_view *view, char *address)
{
    return (DLTensor){.data = address,
                      .device = view->device,
                      .ndim = view->ndim,
                      .dtype = dlk_dtype_to_dl((dlk_dtype)view->dtype),
                      .shape = (int64_t *)view->shape,
                      .strides = (int64_t *)view->strides};
}

static void set_native_inputs(native_call *c, const dlk_prepared *prepared, const dlk_arguments *a, const running *r)
{
    int tensor = 0;
    for (int i = 0; i < a->n_inputs; i++) {
        const dlk_input *given = &a->inputs[i];
        if (given->tensor || given->owner || given->legacy) {
            c->tensors[tensor] = tensor_of_view(&prepared->views[tensor], r->inputs[tensor]);
            c->inputs[i] = (dlk_input){.tensor = &c->tensors[tensor], .flags = a->flags[tensor]};
            tensor++;
        } else {
            c->inputs[i] = (dlk_input){.scalar = given->scalar};
        }
    }
    if (a->params.where) {
        c->tensors[tensor] = tensor_of_view(&prepared->views[tensor], r->inputs[tensor]);
        c->where = (dlk_input){.tensor = &c->tensors[tensor], .flags = a->flags[tensor]};
    }
}

static void set_native_outputs(native_call *c, const dlk_prepared *prepared, const dlk_arguments *a, const running *r)
{
    c->outputs = c->tensors + a->n_tensors;
    for (int k = 0; k < a->n_outputs; k++) {
        const dlk_result *result = &prepared->plan->results[k];
        c->outputs[k] = (DLTensor){
            .data = result->is_temporary ? r->scratch + result->temporary_offset : r->outputs[k],
            .device = {kDLCPU, 0},
            .ndim = result->ndim,
            .dtype = dlk_dtype_to_dl((dlk_dtype)result->dtype),
            .shape = result->shape,
            .strides = result->is_temporary ? result->temporary_strides : result->strides,
        };
    }
}

/* Axes as the plan understood them: sorted, unique, not negative. */
static void set_native_params(native_call *c, const dlk_prepared *prepared, const dlk_arguments *a)
{
    c->params = a->params;
    c->params.size = sizeof c->params;
    c->params.where = a->params.where ? &c->where : NULL;
    c->params.axes = c->axes;
    c->params.n_axes = 0;
    for (int i = 0; i < prepared->plan->ndim; i++)
        if (prepared->plan->is_reduced[i])
            c->axes[c->params.n_axes++] = i;
}

static dlk_status run_native(const dlk_prepared *prepared, const dlk_arguments *a, const running *r)
{
    native_call c;
    set_native_inputs(&c, prepared, a, r);
    set_native_outputs(&c, prepared, a, r);
    set_native_params(&c, prepared, a);
    dlk_count(&dlk_context_counters(a->context)->native_runs);
    const dlk_implementation *native = prepared->native;
    const dlk_status status = native->run(native->user, c.inputs, a->n_inputs, c.outputs, a->n_outputs, &c.params);
    return status == DLK_OK ? status : dlk_fail_in(status, "implementation %s", native->name);
}

/* ---- Entry ------------------------------------------------------------------------------------------------------- */

dlk_status dlk_prepared_run(const dlk_prepared *prepared, const dlk_arguments *arguments, char *const *inputs,
                            char *const *outputs)
{
    const dlk_launch_plan *plan = prepared->plan;
    running r; /* not zeroed: the scalars are many, and written where there are any */
    r.inputs = inputs;
    r.outputs = outputs;
    r.scratch = NULL;
    r.stream = arguments->params.stream;
    dlk_status status = read_scalars(prepared, arguments, r.scalars);
    if (status == DLK_OK && plan->scratch_bytes && !(r.scratch = dlk_memory_scratch(plan->scratch_bytes)))
        status = dlk_fail(DLK_ERR_MEMORY, "out of memory: %lld bytes of scratch", (long long)plan->scratch_bytes);
    if (status == DLK_OK && prepared->native)
        status = run_native(prepared, arguments, &r);
    for (int i = 0; i < plan->n_steps && status == DLK_OK; i++)
        status = run_step(&r, &plan->steps[i], prepared->kernels[i]);
    dlk_memory_scratch_free(r.scratch);
    return status == DLK_OK ? status : dlk_fail_in(status, "%s", prepared->version->name);
}
