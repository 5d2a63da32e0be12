/* From axes to kernels: which two axes a kernel gets, along which the lanes lie, and how a reduction over several axes, or
 * one shared by threads, becomes several kernels over scratch. Nothing here changes a result's bits. */
#include <string.h>

#include "base/alloc.h"
#include "codegen/dtype.h"
#include "kernels/plan_shape.h"

/* A reduction is cut into runs for threads where its results alone are too few to share and there is enough to do. */
#define RUNS_ELEMENTS ((int64_t)1 << 16)

static int64_t magnitude(int64_t v)
{
    return v < 0 ? -v : v;
}

static dlk_step_axis step_axis(const dlk_axis *axis, int number)
{
    return (dlk_step_axis){number, axis->extent, axis->index_step, axis->stride};
}

static const dlk_step_axis no_axis = {.number = DLK_AXIS_NONE, .extent = 1};

static int64_t stride_along(const dlk_step_axis *axis, int operand)
{
    return axis->stride ? axis->stride[operand] : 0;
}

/* Bytes of operands [first, end) whose neighbours along the axis are neighbours in memory. */
static int unit_bytes(const dlk_stage_request *stage, const dlk_step_axis *axis, int first, int end)
{
    int bytes = 0;
    for (int i = first; i < end; i++)
        if (magnitude(stride_along(axis, i)) == stage->operands[i].view->bytes)
            bytes += stage->operands[i].view->bytes;
    return bytes;
}

static int64_t reach(const dlk_step_axis *axis, int end)
{
    int64_t sum = 0;
    for (int i = 0; i < end; i++)
        if (!dlk_add_i64(sum, magnitude(stride_along(axis, i)), &sum))
            return INT64_MAX;
    return sum;
}

/* ---- Steps ------------------------------------------------------------------------------------------------------- */

typedef struct draft { /* a step in the making */
    const dlk_stage_request *stage;
    dlk_step_axis axis[2];
    dlk_step_axis outer[2 * DLK_RANK_MAX];
    int n_outer;
    int lane_axis;
    int from, to;
    bool has_runs, is_reduction;
    bool is_narrow; /* lanes along the longer axis, though the other one is contiguous */
    dlk_states *read, *written;
    const dlk_step_shape *before;
} draft;

/* Takes axis 0 out of the outer ones. */
static void take_axis(draft *d, int at)
{
    d->axis[0] = d->outer[at];
    d->n_outer--;
    memmove(&d->outer[at], &d->outer[at + 1], sizeof *d->outer * (size_t)(d->n_outer - at));
}

/* Classes along the axis of the lanes are whole; along the other one only what makes other code: constant, or the
 * contiguous side of a transposition. */
static void set_classes(const draft *d, int operand, dlk_access *access)
{
    const dlk_view *view = d->stage->operands[operand].view;
    const int lane = d->lane_axis, other = 1 - lane;
    if (!view->elements) {
        access->stride[0] = access->stride[1] = DLK_STRIDE_ANY;
        return;
    }
    access->stride[lane] = (uint8_t)dlk_stride_classify(stride_along(&d->axis[lane], operand), view->bytes);
    const dlk_stride_class class_ = dlk_stride_classify(stride_along(&d->axis[other], operand), view->bytes);
    const bool keeps_unit = class_ == DLK_STRIDE_UNIT && access->stride[lane] == DLK_STRIDE_ANY && !d->is_narrow;
    access->stride[other] = (uint8_t)(class_ == DLK_STRIDE_ZERO || keeps_unit ? class_ : DLK_STRIDE_ANY);
}

/* An operand that this kernel does not touch looks the same whatever it is. */
static bool is_touched(const draft *d, int operand)
{
    const bool is_input = operand < d->stage->domain->n_inputs;
    return is_input ? d->from == DLK_FROM_ELEMENTS : d->to == DLK_TO_RESULT;
}

static void set_operand(const draft *d, int operand, dlk_access *access)
{
    const dlk_operand *o = &d->stage->operands[operand];
    access->dtype = o->view->dtype;
    access->is_padded = o->view->is_padded;
    if (!is_touched(d, operand)) {
        access->is_aligned = 1;
        access->stride[0] = access->stride[1] = DLK_STRIDE_ANY;
        return;
    }
    access->is_aligned = o->is_aligned;
    access->is_exact_alias = o->is_exact_alias;
    set_classes(d, operand, access);
}

static bool is_beyond_cache(const draft *d)
{
    const dlk_domain *domain = d->stage->domain;
    int64_t bytes = 0;
    for (int i = domain->n_inputs; i < domain->n_operands; i++) {
        const dlk_operand *o = &d->stage->operands[i];
        if (o->is_exact_alias)
            return false;
        bytes += o->view->elements * o->view->bytes;
    }
    return bytes > d->stage->plan->cache_bytes;
}

static void set_nest(const draft *d, dlk_nest *nest)
{
    const dlk_domain *domain = d->stage->domain;
    nest->n_axes = 2;
    nest->lane_axis = (uint8_t)d->lane_axis;
    nest->reduced_axis = d->is_reduction ? 1 : 0xff;
    nest->n_inputs = (uint8_t)domain->n_inputs;
    nest->n_outputs = (uint8_t)(domain->n_operands - domain->n_inputs);
    nest->index_bits = 64;
    nest->is_disjoint = 1;
    for (int i = 0; i < domain->n_operands; i++) {
        set_operand(d, i, &nest->operand[i]);
        nest->is_disjoint &= !nest->operand[i].is_exact_alias;
    }
    nest->is_nontemporal = d->to == DLK_TO_RESULT && is_beyond_cache(d);
    if (!d->is_reduction)
        return;
    nest->from = (uint8_t)d->from;
    nest->to = (uint8_t)d->to;
    nest->has_runs = d->has_runs;
    nest->is_narrow = d->lane_axis == 0 && d->axis[0].extent <= DLK_NARROW_MAX;
}

static double estimate_ns(const dlk_stage_request *stage)
{
    int bytes = 0, work = 0;
    for (int i = 0; i < stage->domain->n_operands; i++)
        bytes += stage->operands[i].view->bytes;
    for (int i = 0; i < stage->prog->n_nodes; i++)
        work += stage->prog->nodes[i].op == DLK_PROG_PRIM;
    return bytes / 12.0 + work / 24.0;
}

static dlk_plan_step *emit(dlk_step_list *list, const draft *d)
{
    const dlk_stage_request *stage = d->stage;
    dlk_plan_step *step = DLK_PUSH(list->arena, list->steps, list->n, list->cap);
    memset(step, 0, sizeof *step);
    step->prog = stage->prog;
    step->signature.program = stage->program;
    strncpy(step->signature.backend, stage->plan->backend, sizeof step->signature.backend - 1);
    step->signature.target = *stage->plan->target;
    set_nest(d, &step->signature.nest);
    dlk_step_shape *shape = step->shape = DLK_NEW(list->arena, dlk_step_shape);
    shape->operands = stage->operands;
    shape->n_inputs = stage->domain->n_inputs;
    shape->n_operands = stage->domain->n_operands;
    shape->offset = stage->domain->offset;
    memcpy(shape->axis, d->axis, sizeof shape->axis);
    shape->n_outer = d->n_outer;
    shape->outer = dlk_arena_copy(list->arena, d->outer, sizeof *d->outer * (size_t)d->n_outer);
    shape->count = stage->count;
    shape->read = d->read;
    shape->written = d->written;
    shape->before = d->before;
    shape->element_ns = estimate_ns(stage);
    shape->threads = stage->plan->threads;
    return step;
}

/* ---- Maps -------------------------------------------------------------------------------------------------------- */

/* The kept axis, other than the last, along which most bytes lie that do not lie along the last; else the next one. */
static int partner_of(const draft *d)
{
    int best = d->n_outer - 1, most = 0;
    for (int k = d->n_outer - 1; k >= 0; k--) {
        const int bytes = unit_bytes(d->stage, &d->outer[k], 0, d->stage->domain->n_operands);
        if (bytes > most) {
            most = bytes;
            best = k;
        }
    }
    return best;
}

static int longest_of(const draft *d)
{
    int best = d->n_outer - 1;
    for (int k = d->n_outer - 2; k >= 0; k--)
        if (d->outer[k].extent > d->outer[best].extent)
            best = k;
    return best;
}

/* Rows too short to fill a vector: lanes along them would do little more than one element at a time. */
#define NARROW_EXTENT 8

static bool is_narrow(const draft *d)
{
    return d->axis[1].extent < NARROW_EXTENT && d->axis[0].extent >= 4 * NARROW_EXTENT;
}

static int lanes_of_map(const draft *d)
{
    const dlk_domain *domain = d->stage->domain;
    if (d->is_narrow)
        return 0;
    if (unit_bytes(d->stage, &d->axis[1], domain->n_inputs, domain->n_operands))
        return 1;
    return unit_bytes(d->stage, &d->axis[0], 0, domain->n_operands) <=
           unit_bytes(d->stage, &d->axis[1], 0, domain->n_operands);
}

static void add_kept(draft *d)
{
    const dlk_domain *domain = d->stage->domain;
    for (int k = 0; k < domain->n_kept; k++)
        d->outer[d->n_outer++] = step_axis(&domain->kept[k], k);
}

void dlk_steps_map(dlk_step_list *list, const dlk_stage_request *stage)
{
    draft d = {.stage = stage, .axis = {no_axis, no_axis}};
    d.to = DLK_TO_RESULT;
    add_kept(&d);
    if (d.n_outer)
        d.axis[1] = d.outer[--d.n_outer];
    if (d.n_outer)
        take_axis(&d, d.axis[1].extent < NARROW_EXTENT ? longest_of(&d) : partner_of(&d));
    d.is_narrow = is_narrow(&d);
    d.lane_axis = lanes_of_map(&d);
    emit(list, &d);
}

/* ---- Reductions -------------------------------------------------------------------------------------------------- */

/* The kept axis that lies best in memory, and whether its neighbours make better lanes than those of the reduced axis. */
static void choose_kept(draft *d)
{
    const dlk_stage_request *stage = d->stage;
    const int n = stage->domain->n_inputs;
    d->axis[0] = no_axis;
    d->lane_axis = 1;
    if (!d->n_outer)
        return;
    int nearest = 0, longest = 0;
    for (int k = 1; k < d->n_outer; k++) {
        if (unit_bytes(stage, &d->outer[k], 0, n) >= unit_bytes(stage, &d->outer[nearest], 0, n))
            nearest = k;
        if (d->outer[k].extent >= d->outer[longest].extent)
            longest = k;
    }
    const int along = unit_bytes(stage, &d->axis[1], 0, n), across = unit_bytes(stage, &d->outer[nearest], 0, n);
    const bool is_across =
        across != along ? across > along : reach(&d->outer[nearest], n) < reach(&d->axis[1], n) && !along;
    d->lane_axis = !is_across;
    take_axis(d, is_across ? nearest : longest);
}

/* The states' own memory: the axis that the writer had innermost is the contiguous one. */
static void choose_kept_of_states(draft *d, int innermost)
{
    d->axis[0] = no_axis;
    d->lane_axis = 1;
    if (!d->n_outer)
        return;
    int at = d->n_outer - 1;
    for (int k = 0; k < d->n_outer; k++)
        if (d->outer[k].number == innermost)
            at = k;
    d->lane_axis = d->outer[at].number != innermost;
    take_axis(d, at);
}

static dlk_states *states_of(const dlk_stage_request *stage, dlk_arena *arena)
{
    dlk_states *states = DLK_NEW(arena, dlk_states);
    for (int r = 0; r < stage->prog->n_reduces; r++) {
        const dlk_reduction *reduction = &stage->prog->reduces[r];
        for (int k = 0; k < reduction->n && !reduction->in_leaf; k++)
            states->bytes[states->n++] =
                reduction->kind[k] == DLK_P1 ? 1 : (uint8_t)dlk_kind_bytes((dlk_kind)reduction->kind[k]);
    }
    return states;
}

static int64_t results_of(const draft *d)
{
    int64_t n = 1;
    for (int k = 0; k < d->n_outer; k++)
        n *= d->outer[k].extent;
    return n;
}

static bool wants_runs(const draft *d, int64_t results)
{
    const int threads = d->stage->plan->threads;
    return threads > 1 && results < 2 * threads && d->axis[1].extent >= RUNS_ELEMENTS;
}

/* Kept axes, and the reduced ones outside `level`. */
static void add_results(draft *d, int level)
{
    add_kept(d);
    for (int k = 0; k < level; k++)
        d->outer[d->n_outer++] = step_axis(&d->stage->domain->reduced[k], DLK_AXIS_REDUCED + k);
}

/* What the level has left is joined from its runs. */
static void join_runs(dlk_step_list *list, const draft *writer, const dlk_plan_step *step, int level, bool is_last)
{
    draft d = {.stage = writer->stage, .is_reduction = true, .from = DLK_FROM_LEAVES};
    add_results(&d, level);
    d.axis[1] = (dlk_step_axis){.number = DLK_AXIS_RUNS, .extent = 1};
    d.to = is_last ? DLK_TO_RESULT : DLK_TO_STATES;
    d.read = writer->written;
    d.written = is_last ? NULL : states_of(writer->stage, list->arena);
    d.before = step->shape;
    choose_kept_of_states(&d, DLK_AXIS_NONE);
    emit(list, &d);
}

static dlk_row_bucket bucket_of(int64_t extent)
{
    return extent > DLK_ROW_CACHED_MAX ? DLK_ROW_STREAM : DLK_ROW_CACHE;
}

void dlk_steps_reduce(dlk_step_list *list, const dlk_stage_request *stage)
{
    const dlk_domain *domain = stage->domain;
    for (int level = domain->n_reduced - 1; level >= 0; level--) {
        const dlk_plan_step *inner = list->n && level < domain->n_reduced - 1 ? &list->steps[list->n - 1] : NULL;
        draft d = {.stage = stage, .is_reduction = true};
        add_results(&d, level);
        d.axis[1] = step_axis(&domain->reduced[level], DLK_AXIS_REDUCED + level);
        d.from = inner ? DLK_FROM_STATES : DLK_FROM_ELEMENTS;
        d.read = inner ? inner->shape->written : NULL;
        d.has_runs = wants_runs(&d, results_of(&d));
        const bool is_last = level == 0;
        d.to = is_last && !d.has_runs ? DLK_TO_RESULT : DLK_TO_STATES;
        d.written = d.to == DLK_TO_STATES ? states_of(stage, list->arena) : NULL;
        if (inner)
            choose_kept_of_states(&d, inner->shape->axis[0].number);
        else
            choose_kept(&d);
        const dlk_plan_step *step = emit(list, &d);
        if (d.has_runs)
            join_runs(list, &d, step, level, is_last);
    }
}

void dlk_steps_row(dlk_step_list *list, const dlk_stage_request *stage)
{
    draft d = {.stage = stage, .is_reduction = true, .to = DLK_TO_RESULT};
    add_kept(&d);
    d.axis[1] = step_axis(&stage->domain->reduced[0], DLK_AXIS_REDUCED);
    choose_kept(&d);
    dlk_plan_step *step = emit(list, &d);
    step->signature.nest.row_bucket = (uint8_t)bucket_of(stage->domain->reduced[0].extent);
}
