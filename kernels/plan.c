/* Plans a launch: what the results look like, what overlaps what, and which stages compute it. How a stage becomes kernels
 * is steps.c; the numbers are filled in by bind.c once the kernels are known. */
#include "kernels/plan.h"

#include <string.h>

#include "base/alloc.h"
#include "kernels/cut.h"
#include "kernels/plan_shape.h"

typedef struct planner {
    const dlk_plan_request *request;
    dlk_arena *arena;
    dlk_launch_plan *plan;
    int ndim;
    int64_t shape[DLK_RANK_MAX]; /* that the inputs broadcast to */
    int64_t elements;            /* of it */
    bool is_reduced[DLK_RANK_MAX];
    int64_t count;          /* elements under one result */
    const dlk_view **views; /* inputs, then outputs in the form of the whole shape with extents of 1 */
    dlk_operand *operands;  /* likewise */
    dlk_operand *outside;   /* outputs that are temporaries inside: what they are copied to */
    dlk_step_list steps;
} planner;

/* Strides are whole elements, so that the address says it for all of them. */
static bool is_aligned(const dlk_view *view)
{
    return (uintptr_t)view->data % (uintptr_t)(view->bytes / dlk_dtypes[view->dtype].parts) == 0;
}

/* ---- Shapes ------------------------------------------------------------------------------------------------------ */

static dlk_status find_shape(planner *p)
{
    const dlk_plan_request *r = p->request;
    for (int i = 0; i < r->n_inputs - r->has_mask; i++)
        DLK_TRY(dlk_shape_broadcast(&r->inputs[i], r->arguments[i], &p->ndim, p->shape));
    if (r->has_mask) {
        int ndim = p->ndim;
        int64_t shape[DLK_RANK_MAX];
        memcpy(shape, p->shape, sizeof shape);
        const dlk_view *mask = &r->inputs[r->n_inputs - 1];
        DLK_TRY(dlk_shape_broadcast(mask, r->arguments[r->n_inputs - 1], &ndim, shape));
        if (ndim != p->ndim || memcmp(shape, p->shape, sizeof *shape * (size_t)ndim) != 0)
            return dlk_fail(DLK_ERR_SHAPE, "where: shape %s; expected one that broadcasts to %s",
                            dlk_shape_describe(mask->shape, mask->ndim, (char[DLK_VIEW_TEXT]){0}),
                            dlk_shape_describe(p->shape, p->ndim, (char[DLK_VIEW_TEXT]){0}));
    }
    if (!dlk_shape_elements(p->shape, p->ndim, &p->elements))
        return dlk_fail(DLK_ERR_SHAPE, "the inputs broadcast to %s, more than 2^63 elements",
                        dlk_shape_describe(p->shape, p->ndim, (char[DLK_VIEW_TEXT]){0}));
    return DLK_OK;
}

static dlk_status mark_axis(planner *p, int32_t given)
{
    const int64_t axis = given < 0 ? (int64_t)given + p->ndim : given;
    if (axis < 0 || axis >= p->ndim)
        return dlk_fail(DLK_ERR_INVALID, "axes: %d is not an axis of shape %s; expected %d to %d", (int)given,
                        dlk_shape_describe(p->shape, p->ndim, (char[DLK_VIEW_TEXT]){0}), -p->ndim, p->ndim - 1);
    if (p->is_reduced[axis])
        return dlk_fail(DLK_ERR_INVALID, "axes: axis %d is given twice", (int)axis);
    p->is_reduced[axis] = true;
    return DLK_OK;
}

static dlk_status find_axes(planner *p)
{
    const dlk_plan_request *r = p->request;
    const bool reduces = r->built->kind != DLK_OP_MAP;
    if (!reduces && r->axes)
        return dlk_fail(DLK_ERR_INVALID, "axes were given, but the operation reduces none");
    for (int i = 0; i < p->ndim && !r->axes; i++)
        p->is_reduced[i] = reduces;
    for (int i = 0; i < r->n_axes && r->axes; i++)
        DLK_TRY(mark_axis(p, r->axes[i]));
    memcpy(p->plan->is_reduced, p->is_reduced, sizeof p->is_reduced);
    p->plan->ndim = p->ndim;
    return DLK_OK;
}

static dlk_result *result_make(planner *p, int k)
{
    const dlk_plan_request *r = p->request;
    dlk_result *result = &p->plan->results[k];
    const bool drops = r->built->is_reduced[k];
    result->dtype = r->built->prog->outputs[k].dtype;
    result->is_given = r->outputs[k] != NULL;
    result->shape = DLK_NEW_ARRAY(p->arena, int64_t, p->ndim + 1);
    result->strides = DLK_NEW_ARRAY(p->arena, int64_t, p->ndim + 1);
    for (int i = 0; i < p->ndim; i++) {
        if (!drops || !p->is_reduced[i])
            result->shape[result->ndim++] = p->shape[i];
        else if (r->keepdims)
            result->shape[result->ndim++] = 1;
    }
    return result;
}

static dlk_status check_given(const dlk_result *result, const dlk_view *view, int k)
{
    const dlk_argument argument = {"output", k};
    if (view->ndim != result->ndim || memcmp(view->shape, result->shape, sizeof *view->shape * (size_t)view->ndim) != 0)
        return dlk_fail(DLK_ERR_SHAPE, "output %d: shape is %s; expected %s", k,
                        dlk_shape_describe(view->shape, view->ndim, (char[DLK_VIEW_TEXT]){0}),
                        dlk_shape_describe(result->shape, result->ndim, (char[DLK_VIEW_TEXT]){0}));
    return dlk_view_check_output(view, argument);
}

/* Dense strides for a result, its axes in the order in which the inputs' lie in memory. */
static void dense_strides(const planner *p, const dlk_result *result, bool drops, int64_t *strides)
{
    uint8_t order[DLK_RANK_MAX], own[DLK_RANK_MAX], kept[DLK_RANK_MAX];
    dlk_layout_order(p->views, p->request->n_inputs, p->ndim, order);
    const bool keeps_all = !drops || p->request->keepdims;
    for (int i = 0, n = 0; i < p->ndim; i++)
        own[i] = (uint8_t)(keeps_all || !p->is_reduced[i] ? n++ : 0);
    int n = 0;
    for (int i = 0; i < p->ndim; i++)
        if (keeps_all || !p->is_reduced[order[i]])
            kept[n++] = own[order[i]];
    dlk_dense_strides(result->shape, result->ndim, kept, strides);
}

/* The result as an operand: with an axis of extent 1 wherever it has none. */
static dlk_view *operand_view(planner *p, const dlk_result *result, bool drops, const int64_t *strides)
{
    dlk_view *view = DLK_NEW(p->arena, dlk_view);
    view->dtype = result->dtype;
    view->bytes = dlk_dtypes[result->dtype].bits / 8;
    view->elements = result->elements;
    view->ndim = p->ndim;
    const bool keeps_all = !drops || p->request->keepdims;
    for (int i = 0, own = 0; i < p->ndim; i++) {
        const bool is_there = keeps_all || !p->is_reduced[i];
        view->shape[i] = is_there ? result->shape[own] : 1;
        view->strides[i] = is_there && view->shape[i] > 1 && view->elements ? strides[own] : 0;
        own += is_there;
    }
    return view;
}

static dlk_status find_result(planner *p, int k)
{
    const dlk_plan_request *r = p->request;
    dlk_result *result = result_make(p, k);
    const dlk_view *given = r->outputs[k];
    const bool drops = r->built->is_reduced[k];
    int64_t bytes;
    if (result->ndim > DLK_NDIM_MAX)
        return dlk_fail(DLK_ERR_UNSUPPORTED, "output %d: the result has %d axes with that of the lanes; at most %d", k,
                        (int)result->ndim, DLK_NDIM_MAX);
    if (!dlk_shape_elements(result->shape, result->ndim, &result->elements) ||
        !dlk_mul_i64(result->elements, dlk_dtypes[result->dtype].bits / 8, &bytes))
        return dlk_fail(DLK_ERR_SHAPE, "output %d: shape %s is beyond the address space", k,
                        dlk_shape_describe(result->shape, result->ndim, (char[DLK_VIEW_TEXT]){0}));
    if (given) {
        DLK_TRY(check_given(result, given, k));
        memcpy(result->strides, given->strides, sizeof *given->strides * (size_t)given->ndim);
        result->low = given->low;
        result->high = given->high;
    } else {
        dense_strides(p, result, drops, result->strides);
        result->high = bytes;
    }
    p->views[r->n_inputs + k] = operand_view(p, result, drops, result->strides);
    p->operands[r->n_inputs + k] = (dlk_operand){p->views[r->n_inputs + k], {DLK_PATCH_OUTPUT, k, 0}, true, false};
    if (given)
        p->operands[r->n_inputs + k].is_aligned = is_aligned(given);
    return DLK_OK;
}

/* ---- Overlap ----------------------------------------------------------------------------------------------------- */

static int64_t scratch_add(dlk_launch_plan *plan, int64_t bytes)
{
    const int64_t at = plan->scratch_bytes;
    plan->scratch_bytes += (bytes + 63) / 64 * 64;
    return at;
}

/* Output k is computed into scratch, dense, and copied at the end. */
static void make_temporary(planner *p, int k)
{
    const dlk_plan_request *r = p->request;
    dlk_result *result = &p->plan->results[k];
    const bool drops = r->built->is_reduced[k];
    const int at = r->n_inputs + k;
    p->outside[k] = p->operands[at];
    result->is_temporary = true;
    result->temporary_strides = DLK_NEW_ARRAY(p->arena, int64_t, result->ndim + 1);
    dense_strides(p, result, drops, result->temporary_strides);
    dlk_view *view = operand_view(p, result, drops, result->temporary_strides);
    result->temporary_offset = scratch_add(p->plan, view->elements * view->bytes);
    p->views[at] = view;
    p->operands[at] = (dlk_operand){view, {DLK_PATCH_SCRATCH, 0, result->temporary_offset}, true, false};
}

static dlk_status find_overlaps(planner *p)
{
    const dlk_plan_request *r = p->request;
    for (int k = 0; k < r->n_outputs; k++) {
        bool is_partly = false;
        for (int i = 0; i < r->n_inputs && r->outputs[k]; i++) {
            const dlk_overlap overlap = dlk_view_overlap(r->outputs[k], &r->inputs[i]);
            p->plan->overlaps[k * r->n_inputs + i] = (uint8_t)overlap;
            is_partly |= overlap == DLK_OVERLAP_PARTLY;
            p->operands[r->n_inputs + k].is_exact_alias |= overlap == DLK_OVERLAP_EXACT;
        }
        for (int j = 0; j < k && r->outputs[k]; j++)
            if (r->outputs[j] && dlk_view_overlap(r->outputs[k], r->outputs[j]) != DLK_OVERLAP_NONE)
                return dlk_fail(DLK_ERR_LAYOUT, "output %d shares memory with output %d; expected outputs apart", k, j);
        if (is_partly)
            make_temporary(p, k);
    }
    return DLK_OK;
}

/* ---- Stages ------------------------------------------------------------------------------------------------------ */

static bool uses_index(const dlk_prog *prog)
{
    for (int i = 0; i < prog->n_nodes; i++)
        if (prog->nodes[i].op == DLK_PROG_INDEX)
            return true;
    return false;
}

/* The domain of a stage over the full shape, or over the reduced one. */
static dlk_status domain_of(planner *p, const dlk_prog *prog, const dlk_operand *operands, bool is_map, bool is_reduced,
                            dlk_domain *out)
{
    static const bool none[DLK_RANK_MAX];
    int64_t shape[DLK_RANK_MAX];
    for (int i = 0; i < p->ndim; i++)
        shape[i] = is_reduced && p->is_reduced[i] ? 1 : p->shape[i];
    const int n = prog->n_inputs + prog->n_outputs;
    const dlk_view **views = DLK_NEW_ARRAY(p->arena, const dlk_view *, n);
    for (int i = 0; i < n; i++)
        views[i] = operands[i].view;
    const dlk_domain_request request = {.n_inputs = prog->n_inputs,
                                        .n_operands = n,
                                        .operands = views,
                                        .ndim = p->ndim,
                                        .shape = shape,
                                        .is_reduced = is_map ? none : p->is_reduced,
                                        .is_indexed = p->is_reduced,
                                        .uses_index = uses_index(prog)};
    if (!dlk_domain_make(&request, p->arena, out))
        return dlk_fail(DLK_ERR_SHAPE, "shape %s has more than 2^63 elements under one result",
                        dlk_shape_describe(p->shape, p->ndim, (char[DLK_VIEW_TEXT]){0}));
    return DLK_OK;
}

static dlk_stage_request stage_of(const planner *p, const dlk_prog *prog, dlk_hash program, const dlk_operand *operands,
                                  const dlk_domain *domain)
{
    return (dlk_stage_request){.plan = p->request,
                               .prog = prog,
                               .program = program,
                               .operands = operands,
                               .domain = domain,
                               .count = p->count};
}

static dlk_hash hash_of_part(dlk_hash program, int part)
{
    const uint64_t words[3] = {program.lo, program.hi, (uint64_t)part + 1};
    return dlk_hash_of(words, sizeof words);
}

/* A temporary of the cut: of reduced shape, dense, in scratch. */
static dlk_operand cut_temporary(planner *p, dlk_dtype dtype)
{
    dlk_view *view = DLK_NEW(p->arena, dlk_view);
    uint8_t order[DLK_RANK_MAX];
    view->dtype = (uint8_t)dtype;
    view->bytes = dlk_dtypes[dtype].bits / 8;
    view->ndim = p->ndim;
    for (int i = 0; i < p->ndim; i++)
        view->shape[i] = p->is_reduced[i] ? 1 : p->shape[i];
    dlk_shape_elements(view->shape, view->ndim, &view->elements); /* the results have as many, which fit */
    dlk_layout_order(p->views, p->request->n_inputs, p->ndim, order);
    dlk_dense_strides(view->shape, view->ndim, order, view->strides);
    for (int i = 0; i < p->ndim; i++)
        if (view->shape[i] == 1)
            view->strides[i] = 0;
    return (dlk_operand){view, {DLK_PATCH_SCRATCH, 0, scratch_add(p->plan, view->elements * view->bytes)}, true, false};
}

/* An input that a stage over the reduced shape does not read, as something that fits there. */
static dlk_operand unread(planner *p, const dlk_operand *operand)
{
    dlk_view *view = DLK_NEW(p->arena, dlk_view);
    view->dtype = operand->view->dtype;
    view->bytes = operand->view->bytes;
    view->elements = 1;
    return (dlk_operand){view, operand->home, true, false};
}

static dlk_operand *stage_operands(planner *p, const dlk_stage *stage, const dlk_operand *temporaries)
{
    const int n_inputs = p->request->n_inputs, n_temporaries = stage->prog->n_inputs - n_inputs;
    dlk_operand *out = DLK_NEW_ARRAY(p->arena, dlk_operand, stage->prog->n_inputs + stage->prog->n_outputs);
    for (int i = 0; i < n_inputs; i++)
        out[i] = stage->kind == DLK_STAGE_REDUCED ? unread(p, &p->operands[i]) : p->operands[i];
    for (int i = 0; i < n_temporaries; i++)
        out[n_inputs + i] = temporaries[i];
    for (int i = 0; i < stage->prog->n_outputs; i++)
        out[stage->prog->n_inputs + i] = stage->kind == DLK_STAGE_REDUCTION ? temporaries[stage->output[i]]
                                                                            : p->operands[n_inputs + stage->output[i]];
    return out;
}

static dlk_status plan_cut(planner *p)
{
    dlk_cut cut;
    DLK_TRY(dlk_prog_cut(p->request->built->prog, p->arena, &cut));
    dlk_operand *temporaries = DLK_NEW_ARRAY(p->arena, dlk_operand, cut.n_temporaries + 1);
    for (int i = 0; i < cut.n_temporaries; i++)
        temporaries[i] = cut_temporary(p, (dlk_dtype)cut.temporary_dtype[i]);
    for (int s = 0; s < cut.n_stages; s++) {
        const dlk_stage *stage = &cut.stages[s];
        const bool is_map = stage->kind != DLK_STAGE_REDUCTION;
        if (stage->kind == DLK_STAGE_FULL && !p->elements)
            continue;
        const dlk_operand *operands = stage_operands(p, stage, temporaries);
        dlk_domain *domain = DLK_NEW(p->arena, dlk_domain);
        DLK_TRY(domain_of(p, stage->prog, operands, is_map, stage->kind == DLK_STAGE_REDUCED, domain));
        const dlk_stage_request request =
            stage_of(p, stage->prog, hash_of_part(p->request->program, s), operands, domain);
        (is_map ? dlk_steps_map : dlk_steps_reduce)(&p->steps, &request);
    }
    return DLK_OK;
}

/* Reductions that need each other's results, or full-shape outputs beside them. */
static bool is_row(const dlk_built *built)
{
    for (int r = 0; r < built->prog->n_reduces; r++)
        if (!built->prog->reduces[r].in_leaf && built->prog->reduces[r].level)
            return true;
    return built->kind == DLK_OP_ROW;
}

/* Few and long rows leave threads without work, unless each reduction is shared. */
#define ROW_SHARED ((int64_t)1 << 18)

static bool is_one_kernel(const planner *p, const dlk_domain *domain)
{
    int64_t rows = 1;
    for (int k = 0; k < domain->n_kept; k++)
        rows *= domain->kept[k].extent;
    const bool is_shared = p->request->threads > 1 && rows < p->request->threads && p->count >= ROW_SHARED;
    return domain->n_reduced == 1 && domain->is_joint && !is_shared;
}

static dlk_status plan_stages(planner *p)
{
    const dlk_built *built = p->request->built;
    const bool is_map = built->kind == DLK_OP_MAP;
    dlk_domain *domain = DLK_NEW(p->arena, dlk_domain);
    DLK_TRY(domain_of(p, built->prog, p->operands, is_map, false, domain));
    p->count = domain->reduced_count;
    const dlk_stage_request stage = stage_of(p, built->prog, p->request->program, p->operands, domain);
    if (is_map)
        dlk_steps_map(&p->steps, &stage);
    else if (!is_row(built))
        dlk_steps_reduce(&p->steps, &stage);
    else if (is_one_kernel(p, domain))
        dlk_steps_row(&p->steps, &stage);
    else
        return plan_cut(p);
    return DLK_OK;
}

/* ---- Copies out of temporaries ----------------------------------------------------------------------------------- */

/* The words as they are. */
static dlk_prog *copy_prog(dlk_arena *arena, dlk_dtype dtype)
{
    const dlk_dtype_info *info = &dlk_dtypes[dtype];
    dlk_prog *prog = dlk_prog_create(arena);
    prog->n_inputs = prog->n_outputs = 1;
    prog->input_dtype[0] = prog->outputs[0].dtype = (uint8_t)dtype;
    prog->outputs[0].scope = DLK_SCOPE_ELEMENT;
    prog->outputs[0].part[1] = DLK_NONE;
    for (int part = 0; part < info->parts; part++)
        prog->outputs[0].part[part] = dlk_prog_input(prog, 0, part, (dlk_kind)info->storage);
    return prog;
}

static dlk_status plan_copies(planner *p)
{
    for (int k = 0; k < p->request->n_outputs; k++) {
        if (!p->plan->results[k].is_temporary)
            continue;
        const dlk_dtype dtype = (dlk_dtype)p->plan->results[k].dtype;
        const char name[8] = {'c', 'o', 'p', 'y', (char)dtype};
        dlk_operand *operands = DLK_NEW_ARRAY(p->arena, dlk_operand, 2);
        operands[0] = p->operands[p->request->n_inputs + k];
        operands[1] = p->outside[k];
        operands[1].is_exact_alias = false;
        const dlk_prog *prog = copy_prog(p->arena, dtype);
        dlk_domain *domain = DLK_NEW(p->arena, dlk_domain);
        DLK_TRY(domain_of(p, prog, operands, true, p->request->built->is_reduced[k], domain));
        const dlk_stage_request stage = stage_of(p, prog, dlk_hash_of(name, sizeof name), operands, domain);
        dlk_steps_map(&p->steps, &stage);
    }
    return DLK_OK;
}

/* ---- Entry ------------------------------------------------------------------------------------------------------- */

static dlk_launch_plan *plan_create(const dlk_plan_request *r, dlk_arena *arena)
{
    dlk_launch_plan *plan = DLK_NEW(arena, dlk_launch_plan);
    plan->operation = r->operation;
    plan->n_inputs = r->n_inputs;
    plan->n_outputs = r->n_outputs;
    plan->results = DLK_NEW_ARRAY(arena, dlk_result, r->n_outputs);
    plan->input_low = DLK_NEW_ARRAY(arena, int64_t, r->n_inputs + 1);
    plan->input_high = DLK_NEW_ARRAY(arena, int64_t, r->n_inputs + 1);
    plan->overlaps = DLK_NEW_ARRAY(arena, uint8_t, r->n_outputs * r->n_inputs + 1);
    plan->n_scalars = r->built->n_scalars;
    plan->scalars = dlk_arena_copy(arena, r->built->scalars, sizeof *r->built->scalars * (size_t)plan->n_scalars);
    return plan;
}

static void add_inputs(planner *p)
{
    const dlk_plan_request *r = p->request;
    for (int i = 0; i < r->n_inputs; i++) {
        const dlk_view *view = &r->inputs[i];
        p->views[i] = view;
        p->operands[i] = (dlk_operand){view, {DLK_PATCH_INPUT, i, 0}, is_aligned(view), false};
        p->plan->input_low[i] = view->low;
        p->plan->input_high[i] = view->high;
    }
}

static bool has_results(const planner *p)
{
    for (int k = 0; k < p->request->n_outputs; k++)
        if (p->plan->results[k].elements)
            return true;
    return false;
}

static dlk_status check_elements(const planner *p)
{
    const dlk_plan_request *r = p->request;
    if (p->elements || !r->built->needs_elements)
        return DLK_OK;
    for (int k = 0; k < r->n_outputs; k++)
        if (r->built->is_reduced[k] && p->plan->results[k].elements)
            return dlk_fail(DLK_ERR_INVALID,
                            "%s of nothing: shape %s has no elements along the axes; expected one at "
                            "least, or `initial`",
                            r->built->needs_elements, dlk_shape_describe(p->shape, p->ndim, (char[DLK_VIEW_TEXT]){0}));
    return DLK_OK;
}

dlk_status dlk_launch_plan_make(const dlk_plan_request *request, dlk_arena *arena, dlk_launch_plan **out)
{
    const int n = request->n_inputs + request->n_outputs;
    planner p = {.request = request, .arena = arena, .plan = plan_create(request, arena), .steps = {.arena = arena}};
    p.views = DLK_NEW_ARRAY(arena, const dlk_view *, n);
    p.operands = DLK_NEW_ARRAY(arena, dlk_operand, n);
    p.outside = DLK_NEW_ARRAY(arena, dlk_operand, request->n_outputs);
    add_inputs(&p);
    DLK_TRY(find_shape(&p));
    DLK_TRY(find_axes(&p));
    for (int k = 0; k < request->n_outputs; k++)
        DLK_TRY(find_result(&p, k));
    DLK_TRY(find_overlaps(&p));
    DLK_TRY(check_elements(&p));
    if (has_results(&p)) {
        if (!request->is_native)
            DLK_TRY(plan_stages(&p));
        DLK_TRY(plan_copies(&p));
    }
    p.plan->steps = p.steps.steps;
    p.plan->n_steps = p.steps.n;
    *out = p.plan;
    return DLK_OK;
}
