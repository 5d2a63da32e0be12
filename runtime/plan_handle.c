/* Plan handles: a launch prepared once, with copies of all that described it. What it was prepared for is the usual case;
 * addresses that are aligned or overlap otherwise go the way of an ordinary launch, with the same result. */
#include <string.h>

#include "base/alloc.h"
#include "runtime/prepare.h"

struct dlk_plan {
    dlk_context *context;
    const dlk_op *op;
    dlk_arena arena; /* the copies */
    dlk_input *inputs;
    dlk_output *outputs;
    dlk_params params;
    dlk_input where;
    dlk_arguments arguments; /* refer to the copies */
    dlk_prepared *prepared;
};

static const DLTensor *copy_tensor(dlk_arena *arena, const DLTensor *t)
{
    DLTensor *copy = dlk_arena_copy(arena, t, sizeof *t);
    copy->data = NULL;
    copy->byte_offset = 0;
    if (t->ndim > 0) {
        copy->shape = dlk_arena_copy(arena, t->shape, sizeof *t->shape * (size_t)t->ndim);
        if (t->strides)
            copy->strides = dlk_arena_copy(arena, t->strides, sizeof *t->strides * (size_t)t->ndim);
    }
    return copy;
}

static dlk_input copy_input(dlk_arena *arena, const dlk_input *given)
{
    dlk_input copy = *given;
    copy.owner = NULL;
    copy.legacy = NULL;
    if (given->tensor) {
        copy.tensor = copy_tensor(arena, given->tensor);
    } else if (given->owner) {
        copy.tensor = copy_tensor(arena, &given->owner->dl_tensor);
        copy.flags |= given->owner->flags;
    } else if (given->legacy) {
        copy.tensor = copy_tensor(arena, &given->legacy->dl_tensor);
    }
    return copy;
}

static void copy_params(dlk_plan *plan, const dlk_params *given)
{
    dlk_arena *arena = &plan->arena;
    plan->params = *given;
    plan->params.size = sizeof plan->params;
    if (given->axes) { /* none is something else than no list */
        int32_t *axes = DLK_NEW_ARRAY(arena, int32_t, given->n_axes + 1);
        memcpy(axes, given->axes, sizeof *axes * (size_t)given->n_axes);
        plan->params.axes = axes;
    }
    if (given->implementation)
        plan->params.implementation = dlk_arena_copy(arena, given->implementation, strlen(given->implementation) + 1);
    dlk_named_scalar *scalars = DLK_NEW_ARRAY(arena, dlk_named_scalar, given->n_scalars + 1);
    for (int i = 0; i < given->n_scalars; i++) {
        scalars[i] = given->scalars[i];
        scalars[i].name = dlk_arena_copy(arena, given->scalars[i].name, strlen(given->scalars[i].name) + 1);
    }
    plan->params.scalars = scalars;
    if (given->where) {
        plan->where = copy_input(arena, given->where);
        plan->params.where = &plan->where;
    }
}

static void copy_arguments(dlk_plan *plan, const dlk_arguments *a)
{
    plan->context = a->context;
    plan->op = a->op;
    plan->inputs = DLK_NEW_ARRAY(&plan->arena, dlk_input, a->n_inputs + 1);
    plan->outputs = DLK_NEW_ARRAY(&plan->arena, dlk_output, a->n_outputs + 1);
    for (int i = 0; i < a->n_inputs; i++)
        plan->inputs[i] = copy_input(&plan->arena, &a->inputs[i]);
    for (int k = 0; k < a->n_outputs; k++) {
        plan->outputs[k].flags = a->outputs[k].flags;
        if (a->outputs[k].tensor)
            plan->outputs[k].tensor = copy_tensor(&plan->arena, a->outputs[k].tensor);
    }
    copy_params(plan, &a->params);
}

/* An output that was left out has the layout that a launch would allocate; from now on it is a given one. */
static void describe_outputs(dlk_plan *plan)
{
    for (int k = 0; k < plan->arguments.n_outputs; k++) {
        const dlk_result *r = &plan->prepared->plan->results[k];
        if (plan->outputs[k].tensor)
            continue;
        const DLTensor t = {.device = {kDLCPU, 0},
                            .ndim = r->ndim,
                            .dtype = dlk_dtype_to_dl((dlk_dtype)r->dtype),
                            .shape = r->shape,
                            .strides = r->strides};
        plan->outputs[k].tensor = copy_tensor(&plan->arena, &t);
    }
}

static dlk_status read_again(dlk_plan *plan, int n_inputs, int n_outputs)
{
    return dlk_arguments_read(plan->context, plan->op, plan->inputs, n_inputs, plan->outputs, n_outputs, &plan->params,
                              false, &plan->arguments);
}

static dlk_status fill(dlk_plan *plan, const dlk_arguments *given)
{
    jmp_buf escape;
    plan->arena.escape = &escape;
    if (setjmp(escape)) {
        plan->arena.escape = NULL;
        return dlk_fail(DLK_ERR_MEMORY, "out of memory making a plan");
    }
    copy_arguments(plan, given);
    DLK_TRY(read_again(plan, given->n_inputs, given->n_outputs));
    DLK_TRY(dlk_prepare(&plan->arguments, DLK_PREPARE_KERNELS, &plan->prepared));
    describe_outputs(plan);
    DLK_TRY(read_again(plan, given->n_inputs, given->n_outputs));
    plan->arena.escape = NULL;
    return DLK_OK;
}

dlk_status dlk_plan_create(dlk_context *context, const dlk_op *op, const dlk_input *inputs, int n_inputs,
                           const dlk_output *outputs, int n_outputs, const dlk_params *opt_params, dlk_plan **out)
{
    if (!out)
        return dlk_fail(DLK_ERR_INVALID, "dlk_plan_create: out is NULL");
    dlk_arguments given;
    DLK_TRY(dlk_arguments_read(context, op, inputs, n_inputs, outputs, n_outputs, opt_params, false, &given));
    dlk_prepared *checked; /* the tensors as given: copies are made of sound ones only */
    DLK_TRY(dlk_prepare(&given, DLK_PREPARE_RESULTS, &checked));
    dlk_prepared_release(checked);
    dlk_plan *plan = dlk_alloc(sizeof *plan);
    if (!plan)
        return dlk_fail(DLK_ERR_MEMORY, "out of memory making a plan");
    const dlk_status status = fill(plan, &given);
    if (status == DLK_OK)
        *out = plan;
    else
        dlk_plan_destroy(plan);
    return status;
}

void dlk_plan_destroy(dlk_plan *plan)
{
    if (!plan)
        return;
    dlk_prepared_release(plan->prepared);
    dlk_arena_free(&plan->arena);
    dlk_free(plan);
}

dlk_status dlk_plan_output(const dlk_plan *plan, int index, dlk_tensor_spec *out)
{
    if (!plan || !out || index < 0 || index >= plan->arguments.n_outputs)
        return dlk_fail(DLK_ERR_INVALID, "dlk_plan_output: plan or out is NULL, or there is no output %d", index);
    dlk_prepared_spec(plan->prepared, index, out);
    return DLK_OK;
}

/* ---- Run --------------------------------------------------------------------------------------------------------- */

/* An ordinary launch with the plan's descriptions and these addresses. */
static dlk_status launch_instead(const dlk_plan *plan, char *const *inputs, char *const *outputs)
{
    const dlk_arguments *a = &plan->arguments;
    DLTensor tensors[DLK_OPERANDS_MAX];
    dlk_input given[DLK_OPERANDS_MAX], where = plan->where;
    dlk_output out[DLK_OPERANDS_MAX];
    dlk_params params = plan->params;
    int n = 0;
    for (int i = 0; i < a->n_inputs; i++) {
        given[i] = plan->inputs[i];
        if (!given[i].tensor)
            continue;
        tensors[n] = *given[i].tensor;
        tensors[n].data = inputs[n];
        given[i].tensor = &tensors[n++];
    }
    if (params.where) {
        tensors[n] = *where.tensor;
        tensors[n].data = inputs[n];
        where.tensor = &tensors[n++];
        params.where = &where;
    }
    for (int k = 0; k < a->n_outputs; k++, n++) {
        out[k] = plan->outputs[k];
        tensors[n] = *out[k].tensor;
        tensors[n].data = outputs[k];
        out[k].tensor = &tensors[n];
    }
    return dlk_launch(plan->context, plan->op, given, a->n_inputs, out, a->n_outputs, &params);
}

/* In launch order there is a pointer for each input; inside, one for each tensor. */
static void pick_tensors(const dlk_plan *plan, void *const *inputs, char **out)
{
    const dlk_arguments *a = &plan->arguments;
    int n = 0;
    for (int i = 0; i < a->n_inputs; i++)
        if (plan->inputs[i].tensor)
            out[n++] = inputs[i];
    if (plan->params.where)
        out[n] = inputs[a->n_inputs];
}

static bool has_outputs(const dlk_plan *plan, char *const *outputs)
{
    for (int k = 0; k < plan->arguments.n_outputs; k++)
        if (!outputs[k] && plan->prepared->plan->results[k].elements)
            return false;
    return true;
}

dlk_status dlk_plan_run(const dlk_plan *plan, void *const *inputs, void *const *outputs)
{
    if (!plan || (plan->arguments.n_inputs && !inputs) || (plan->arguments.n_outputs && !outputs))
        return dlk_fail(DLK_ERR_INVALID, "dlk_plan_run: plan, inputs or outputs is NULL");
    char *input_at[DLK_OPERANDS_MAX], *output_at[DLK_OPERANDS_MAX];
    pick_tensors(plan, inputs, input_at);
    for (int k = 0; k < plan->arguments.n_outputs; k++)
        output_at[k] = outputs[k];
    if (!has_outputs(plan, output_at) || !dlk_prepared_fits(plan->prepared, input_at, output_at))
        return launch_instead(plan, input_at, output_at);
    DLK_TRY(dlk_prepared_run(plan->prepared, &plan->arguments, input_at, output_at));
    dlk_count(&dlk_context_counters(plan->context)->handle_runs);
    return DLK_OK;
}
