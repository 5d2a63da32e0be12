/* The cold half of a launch, in the order in which it is said: check, type, choose the implementation, plan, compile. */
#include "runtime/prepare.h"

#include <string.h>

#include "base/alloc.h"
#include "base/float_env.h"
#include "base/options.h"
#include "base/os.h"
#include "runtime/device.h"
#include "runtime/dump.h"
#include "runtime/pool.h"

typedef struct preparation {
    const dlk_arguments *arguments;
    dlk_prepared *prepared;
    dlk_arena *arena; /* the prepared launch's */
    dlk_program *program;
    dlk_view *inputs;
    const dlk_view **outputs;
    const dlk_backend *backend;
    dlk_target target;
    bool reduces; /* the definition does */
} preparation;

/* ---- Check ------------------------------------------------------------------------------------------------------- */

static dlk_status check_counts(const dlk_arguments *a, const dlk_op_version *version)
{
    if (a->n_inputs != version->n_inputs)
        return dlk_fail(DLK_ERR_INVALID, "%d inputs; expected %d: %s", a->n_inputs, version->n_inputs,
                        version->signature);
    return DLK_OK;
}

static dlk_status make_views(preparation *p)
{
    const dlk_arguments *a = p->arguments;
    p->inputs = DLK_NEW_ARRAY(p->arena, dlk_view, a->n_tensors + 1);
    p->outputs = DLK_NEW_ARRAY(p->arena, const dlk_view *, a->n_outputs + 1);
    for (int i = 0; i < a->n_tensors; i++) {
        DLK_TRY(dlk_view_make(a->tensors[i], a->flags[i], a->names[i], a->needs_data, &p->inputs[i]));
        DLK_TRY(dlk_device_check(p->inputs[i].device, a->names[i]));
    }
    for (int k = 0; k < a->n_outputs; k++) {
        const dlk_argument name = {"output", k};
        if (!a->outputs[k].tensor)
            continue;
        dlk_view *view = DLK_NEW(p->arena, dlk_view);
        DLK_TRY(dlk_view_make(a->outputs[k].tensor, a->outputs[k].flags, name, a->needs_data, view));
        DLK_TRY(dlk_device_check(view->device, name));
        p->outputs[k] = view;
    }
    if (a->params.where && p->inputs[a->n_tensors - 1].dtype != DLK_DTYPE_BOOL)
        return dlk_fail(DLK_ERR_DTYPE, "where: dtype is %s; expected bool",
                        dlk_dtypes[p->inputs[a->n_tensors - 1].dtype].name);
    return DLK_OK;
}

/* ---- Type -------------------------------------------------------------------------------------------------------- */

static dlk_status request_parameters(preparation *p, dlk_build_request *request)
{
    const dlk_op_version *version = p->prepared->version;
    const dlk_params *params = &p->arguments->params;
    for (int i = 0; i < DLK_PARAMETERS_MAX; i++)
        p->prepared->parameter_at[i] = -1;
    for (int s = 0; s < params->n_scalars; s++) {
        int i = 0;
        while (i < version->n_parameters && strcmp(version->parameter_names[i], params->scalars[s].name) != 0)
            i++;
        if (i == version->n_parameters)
            return dlk_fail(DLK_ERR_INVALID, "params.scalars[%d]: there is no parameter '%.64s'; expected those of %s",
                            s, params->scalars[s].name, version->signature);
        if (p->prepared->parameter_at[i] >= 0)
            return dlk_fail(DLK_ERR_INVALID, "params.scalars[%d]: parameter '%.64s' is given twice", s,
                            params->scalars[s].name);
        p->prepared->parameter_at[i] = s;
        request->parameter[i] = (uint8_t)params->scalars[s].value.kind;
    }
    for (int i = 0; i < version->n_parameters; i++)
        if (p->prepared->parameter_at[i] < 0 && version->parameter_defaults[i].kind == DLK_SCALAR_NONE)
            return dlk_fail(DLK_ERR_INVALID, "parameter '%s' is not given and has no default: %s",
                            version->parameter_names[i], version->signature);
    return DLK_OK;
}

static dlk_status request_dtype(const dlk_params *params, dlk_build_request *request)
{
    if (!params->dtype.bits)
        return DLK_OK;
    const dlk_dtype dtype = dlk_dtype_from_dl(params->dtype);
    char found[32];
    if (dtype == DLK_DTYPE_NONE || params->dtype.lanes > 1)
        return dlk_fail(DLK_ERR_DTYPE, "params.dtype is %s, which dlk does not compute in",
                        dlk_dtype_describe(params->dtype, found));
    request->dtype = (uint8_t)dtype;
    return DLK_OK;
}

static dlk_status find_program(preparation *p)
{
    const dlk_arguments *a = p->arguments;
    dlk_build_request request;
    dlk_build_request_make(&request);
    request.n_inputs = (uint8_t)a->n_inputs;
    request.n_outputs = (uint8_t)a->n_outputs;
    for (int i = 0, tensor = 0; i < a->n_inputs; i++) {
        const dlk_input *input = &a->inputs[i];
        const bool is_tensor = input->tensor || input->owner || input->legacy;
        request.input[i] =
            is_tensor ? p->inputs[tensor++].dtype : (uint8_t)(DLK_BUILD_WEAK + (uint8_t)input->scalar.kind);
    }
    for (int k = 0; k < a->n_outputs; k++)
        request.output[k] = p->outputs[k] ? p->outputs[k]->dtype : DLK_DTYPE_NONE;
    DLK_TRY(request_parameters(p, &request));
    DLK_TRY(request_dtype(&a->params, &request));
    if (a->params.initial.kind < DLK_SCALAR_NONE || a->params.initial.kind > DLK_SCALAR_COMPLEX)
        return dlk_fail(DLK_ERR_INVALID, "params.initial.kind is %d; expected a dlk_scalar_kind",
                        (int)a->params.initial.kind);
    request.initial = (uint8_t)a->params.initial.kind;
    request.has_mask = a->params.where != NULL;
    request.saturate = a->params.saturate != 0;
    DLK_TRY(dlk_cache_program(a->context->cache, p->prepared->version, &request, &p->program));
    const dlk_built *built = &p->program->built;
    if (built->prog->n_outputs != a->n_outputs)
        return dlk_fail(DLK_ERR_INVALID, "%d outputs; expected %d: %s", a->n_outputs, built->prog->n_outputs,
                        p->prepared->version->signature);
    if (built->kind == DLK_OP_MAP && (a->params.where || a->params.initial.kind))
        return dlk_fail(DLK_ERR_INVALID, "%s was given, but the operation reduces no axes",
                        a->params.where ? "where" : "initial");
    return DLK_OK;
}

/* ---- Choose ------------------------------------------------------------------------------------------------------ */

static bool takes_dtypes(const preparation *p, const dlk_implementation *native)
{
    const dlk_arguments *a = p->arguments;
    for (int i = 0; i < a->n_tensors && native->n_dtypes; i++) {
        bool takes = !strcmp(a->names[i].role, "where");
        for (int d = 0; d < native->n_dtypes; d++)
            takes |= native->dtypes[d].code == a->tensors[i]->dtype.code &&
                     native->dtypes[d].bits == a->tensors[i]->dtype.bits;
        if (!takes)
            return false;
    }
    return native->device_type == kDLCPU;
}

static const dlk_implementation *find_named(const dlk_op *op, const char *name)
{
    const dlk_implementation *native = dlk_op_get_implementations(op);
    while (native && strcmp(native->name, name) != 0)
        native = native->next;
    return native;
}

static dlk_status choose_named(preparation *p, const char *name)
{
    const dlk_implementation *native = find_named(p->arguments->op, name);
    if (!native)
        return dlk_fail(DLK_ERR_NOT_FOUND,
                        "implementation '%.64s': the operation has none of that name; `definition` is "
                        "always there",
                        name);
    if (!takes_dtypes(p, native))
        return dlk_fail(DLK_ERR_DTYPE, "implementation '%s' does not take these dtypes or this device", name);
    p->prepared->native = native;
    return DLK_OK;
}

/* The one that the call names; else the one that the process names, where the operation has it; else the best. */
static dlk_status choose_implementation(preparation *p)
{
    const char *named = p->arguments->params.implementation;
    if (named)
        return strcmp(named, "definition") ? choose_named(p, named) : DLK_OK;
    named = dlk_option_string(DLK_OPTION_IMPLEMENTATION);
    if (!strcmp(named, "definition"))
        return DLK_OK;
    const dlk_implementation *native = *named ? find_named(p->arguments->op, named) : NULL;
    if (native && takes_dtypes(p, native)) {
        p->prepared->native = native;
        return DLK_OK;
    }
    native = dlk_op_get_implementations(p->arguments->op);
    while (native && native->priority > 0 && !takes_dtypes(p, native))
        native = native->next;
    if (native && native->priority > 0)
        p->prepared->native = native;
    return DLK_OK;
}

/* ---- Plan -------------------------------------------------------------------------------------------------------- */

static dlk_status make_plan(preparation *p, dlk_prepare_depth depth)
{
    const dlk_arguments *a = p->arguments;
    const dlk_plan_request request = {
        .operation = p->prepared->version->name,
        .built = &p->program->built,
        .program = p->program->hash,
        .inputs = p->inputs,
        .arguments = a->names,
        .n_inputs = a->n_tensors,
        .has_mask = a->params.where != NULL,
        .outputs = p->outputs,
        .n_outputs = a->n_outputs,
        .axes = a->params.axes,
        .n_axes = a->params.n_axes,
        .keepdims = a->params.keepdims != 0,
        .backend = p->backend->name,
        .target = &p->target,
        .threads = dlk_pool_threads(),
        .cache_bytes = dlk_os_cache_bytes(),
        .is_native = p->prepared->native || depth == DLK_PREPARE_RESULTS,
    };
    return dlk_launch_plan_make(&request, p->arena, &p->prepared->plan);
}

static int word_of(int dtype)
{
    return dlk_dtypes[dtype].bits / 8 / dlk_dtypes[dtype].parts;
}

/* Kernels rely on the alignment that they were made for; memory that dlk allocates always has it. */
static void keep_alignment(preparation *p)
{
    const dlk_arguments *a = p->arguments;
    uint8_t *bits = DLK_NEW_ARRAY(p->arena, uint8_t, a->n_tensors + a->n_outputs + 1);
    for (int i = 0; i < a->n_tensors; i++) {
        const int word = word_of(p->inputs[i].dtype);
        bits[i] = (uint8_t)((uintptr_t)p->inputs[i].data % (uintptr_t)word ? 0 : word - 1);
    }
    for (int k = 0; k < a->n_outputs; k++) {
        const int word = word_of(p->prepared->plan->results[k].dtype);
        const uintptr_t address = p->outputs[k] ? (uintptr_t)p->outputs[k]->data : 0;
        bits[a->n_tensors + k] = (uint8_t)(address % (uintptr_t)word ? 0 : word - 1);
    }
    p->prepared->misaligned = bits;
}

/* ---- Compile ----------------------------------------------------------------------------------------------------- */

static dlk_status find_kernels(preparation *p)
{
    dlk_launch_plan *plan = p->prepared->plan;
    dlk_cache *cache = p->arguments->context->cache;
    dlk_status status = DLK_OK;
    for (int i = 0; i < plan->n_steps && status == DLK_OK; i++) {
        dlk_plan_step *step = &plan->steps[i];
        status = dlk_cache_kernel(cache, p->backend, &step->signature, step->prog, &p->prepared->kernels[i]);
        if (status == DLK_OK)
            status = dlk_launch_plan_bind(plan, i, &p->prepared->kernels[i]->layout, p->arena);
    }
    return status;
}

static dlk_status plan_and_compile(preparation *p, dlk_prepare_depth depth)
{
    DLK_TRY(dlk_device_backend(&p->backend, &p->target));
    p->prepared->backend = p->backend;
    DLK_TRY(make_plan(p, depth));
    keep_alignment(p);
    if (depth != DLK_PREPARE_KERNELS)
        return DLK_OK;
    p->prepared->kernels = DLK_NEW_ARRAY(p->arena, dlk_kernel *, p->prepared->plan->n_steps + 1);
    DLK_TRY(find_kernels(p));
    if (*dlk_option_string(DLK_OPTION_DUMP))
        dlk_dump_plan(p->prepared->plan);
    return DLK_OK;
}

static void release_kernels(dlk_prepared *prepared)
{
    for (int i = 0; prepared->kernels && i < prepared->plan->n_steps; i++)
        dlk_kernel_release(prepared->kernels[i]);
    prepared->kernels = NULL;
}

static dlk_status prepare_all(preparation *p, dlk_prepare_depth depth)
{
    DLK_TRY(check_counts(p->arguments, p->prepared->version));
    DLK_TRY(make_views(p));
    DLK_TRY(find_program(p));
    DLK_TRY(choose_implementation(p));
    dlk_status status = plan_and_compile(p, depth);
    if (status != DLK_OK && p->backend && dlk_device_give_up(p->backend, status)) {
        release_kernels(p->prepared);
        status = plan_and_compile(p, depth);
    }
    if (status == DLK_OK && p->prepared->native)
        p->prepared->views = p->inputs;
    return status;
}

/* ---- Entry ------------------------------------------------------------------------------------------------------- */

dlk_status dlk_prepare(const dlk_arguments *arguments, dlk_prepare_depth depth, dlk_prepared **out)
{
    dlk_prepared *prepared = dlk_alloc(sizeof *prepared);
    preparation *p = prepared ? dlk_alloc(sizeof *p) : NULL; /* on the heap: it must outlive a jump */
    if (!p) {
        dlk_free(prepared);
        return dlk_fail(DLK_ERR_MEMORY, "out of memory preparing a launch");
    }
    atomic_init(&prepared->references, 1);
    prepared->version = dlk_op_get_version(arguments->op);
    *p = (preparation){.arguments = arguments, .prepared = prepared, .arena = &prepared->arena};
    jmp_buf escape;
    prepared->arena.escape = &escape;
    dlk_status status;
    const uint64_t caller = dlk_float_env_enter(); /* constants are folded, and printed, by arithmetic */
    if (setjmp(escape))
        status = dlk_fail(DLK_ERR_MEMORY, "out of memory preparing a launch");
    else
        status = prepare_all(p, depth);
    dlk_float_env_leave(caller);
    prepared->arena.escape = NULL;
    if (status != DLK_OK)
        status = dlk_fail_in(status, "%s", prepared->version->name);
    if (depth == DLK_PREPARE_PLAN && status == DLK_OK)
        prepared->program = p->program; /* the steps' programs lie in it */
    else
        dlk_program_release(p->program);
    dlk_free(p);
    if (status == DLK_OK)
        *out = prepared;
    else
        dlk_prepared_release(prepared);
    return status;
}

dlk_prepared *dlk_prepared_hold(dlk_prepared *prepared)
{
    atomic_fetch_add_explicit(&prepared->references, 1, memory_order_relaxed);
    return prepared;
}

void dlk_prepared_release(dlk_prepared *prepared)
{
    if (!prepared || atomic_fetch_sub_explicit(&prepared->references, 1, memory_order_acq_rel) != 1)
        return;
    if (prepared->plan)
        release_kernels(prepared);
    dlk_program_release(prepared->program);
    dlk_arena_free(&prepared->arena);
    dlk_free(prepared);
}
