/* Axes of a launch. Kept axes may be put into any order and direction that suits memory; reduced ones only as the fixed
 * tree says (docs/reductions.md), because their order decides the bits of the result. */
#include "kernels/domain.h"

#include <string.h>

#include "base/alloc.h"

static int64_t magnitude(int64_t v)
{
    return v < 0 ? -v : v; /* strides were checked: never INT64_MIN where there is more than one element */
}

/* Elements; of a view that broadcasts to ndim axes. */
static int64_t stride_of(const dlk_view *view, int ndim, int axis)
{
    const int own = axis - (ndim - view->ndim);
    return own < 0 || view->shape[own] == 1 ? 0 : view->strides[own];
}

/* ---- Order K ----------------------------------------------------------------------------------------------------- */

/* Whether axis b must come before axis a, by the first view that tells; a view for which the order is right already has
 * the last word. */
static bool wants_swap(const dlk_view *const *views, int n, int ndim, int a, int b)
{
    bool swap = false;
    for (int i = 0; i < n; i++) {
        const int64_t at_a = magnitude(stride_of(views[i], ndim, a)), at_b = magnitude(stride_of(views[i], ndim, b));
        if (!at_a || !at_b)
            continue;
        if (at_b <= at_a)
            return false;
        swap = true;
    }
    return swap;
}

void dlk_layout_order(const dlk_view *const *views, int n, int ndim, uint8_t *order)
{
    for (int i = 0; i < ndim; i++) {
        int at = i;
        for (; at > 0 && wants_swap(views, n, ndim, order[at - 1], i); at--)
            order[at] = order[at - 1];
        order[at] = (uint8_t)i;
    }
}

/* ---- Axes -------------------------------------------------------------------------------------------------------- */

typedef struct maker {
    const dlk_domain_request *request;
    dlk_arena *arena;
    dlk_domain *domain;
    int64_t reach[DLK_RANK_MAX]; /* of reduced axes: the largest |stride| in any input, elements */
} maker;

static dlk_axis axis_make(const maker *m, int axis, int64_t index_step)
{
    const dlk_domain_request *r = m->request;
    dlk_axis out = {.extent = r->shape[axis], .index_step = index_step};
    out.stride = DLK_NEW_ARRAY(m->arena, int64_t, r->n_operands);
    for (int i = 0; i < r->n_operands; i++)
        out.stride[i] = stride_of(r->operands[i], r->ndim, axis) * r->operands[i]->bytes;
    return out;
}

/* Kept axes go by the outputs' strides, for these are written; inputs decide between equals. */
static int64_t kept_rank(const dlk_domain *domain, const dlk_axis *axis, bool by_outputs)
{
    int64_t most = 0;
    for (int i = by_outputs ? domain->n_inputs : 0; i < (by_outputs ? domain->n_operands : domain->n_inputs); i++)
        if (magnitude(axis->stride[i]) > most)
            most = magnitude(axis->stride[i]);
    return most;
}

static bool is_outside(const dlk_domain *domain, const dlk_axis *a, const dlk_axis *b)
{
    const int64_t out_a = kept_rank(domain, a, true), out_b = kept_rank(domain, b, true);
    return out_a != out_b ? out_a > out_b : kept_rank(domain, a, false) >= kept_rank(domain, b, false);
}

static void insert_kept(maker *m, int axis, int64_t index_step)
{
    dlk_domain *d = m->domain;
    const dlk_axis fresh = axis_make(m, axis, index_step);
    int at = d->n_kept++;
    for (; at > 0 && !is_outside(d, &d->kept[at - 1], &fresh); at--)
        d->kept[at] = d->kept[at - 1];
    d->kept[at] = fresh;
}

/* The tree's order: the largest |stride| in any input, descending; ties keep the order of the axes. */
static void insert_reduced(maker *m, int axis, int64_t index_step)
{
    const dlk_domain_request *r = m->request;
    dlk_domain *d = m->domain;
    int64_t reach = 0;
    for (int i = 0; i < r->n_inputs; i++)
        if (magnitude(stride_of(r->operands[i], r->ndim, axis)) > reach)
            reach = magnitude(stride_of(r->operands[i], r->ndim, axis));
    int at = d->n_reduced++;
    for (; at > 0 && m->reach[at - 1] < reach; at--) {
        d->reduced[at] = d->reduced[at - 1];
        m->reach[at] = m->reach[at - 1];
    }
    d->reduced[at] = axis_make(m, axis, index_step);
    m->reach[at] = reach;
}

/* Elements under one result, 0 when there are none; false when that does not fit. */
static bool count_reduced(const dlk_domain_request *r, int64_t *out)
{
    int64_t extents[DLK_RANK_MAX];
    for (int i = 0; i < r->ndim; i++)
        extents[i] = r->is_reduced[i] ? r->shape[i] : 1;
    return dlk_shape_elements(extents, r->ndim, out);
}

/* By axis: what one step adds to the row-major index. Where the index is in use its range fits, for it counts elements. */
static void find_index_steps(const dlk_domain_request *r, int64_t *steps)
{
    int64_t step = 1;
    for (int i = r->ndim - 1; i >= 0; i--) {
        steps[i] = r->is_indexed[i] ? step : 0;
        if (r->is_indexed[i] && !dlk_mul_i64(step, r->shape[i], &step))
            step = 0;
    }
}

static void collect_axes(maker *m)
{
    const dlk_domain_request *r = m->request;
    int64_t index_steps[DLK_RANK_MAX];
    find_index_steps(r, index_steps);
    for (int i = 0; i < r->ndim; i++) {
        if (r->shape[i] == 1)
            continue;
        if (!r->is_reduced[i])
            insert_kept(m, i, index_steps[i]);
        else if (m->domain->reduced_count)
            insert_reduced(m, i, index_steps[i]);
    }
}

/* An axis of the reduced side where nothing varies: no axis was reduced, or nothing is there to reduce. */
static void add_reduced(maker *m, int64_t extent)
{
    m->domain->reduced[m->domain->n_reduced++] =
        (dlk_axis){.extent = extent, .stride = DLK_NEW_ARRAY(m->arena, int64_t, m->domain->n_operands)};
}

/* ---- Direction and merging --------------------------------------------------------------------------------------- */

static void flip_kept(dlk_domain *d, bool uses_index)
{
    for (int k = 0; k < d->n_kept; k++) {
        dlk_axis *axis = &d->kept[k];
        bool forwards = uses_index && axis->index_step, backwards = false;
        for (int i = 0; i < d->n_operands; i++) {
            forwards |= axis->stride[i] > 0;
            backwards |= axis->stride[i] < 0;
        }
        for (int i = 0; i < d->n_operands && backwards && !forwards; i++) {
            d->offset[i] += axis->stride[i] * (axis->extent - 1);
            axis->stride[i] = -axis->stride[i];
        }
    }
}

static bool merges(const dlk_axis *outer, const dlk_axis *inner, int first, int end)
{
    for (int i = first; i < end; i++) {
        int64_t whole;
        if (!dlk_mul_i64(inner->extent, inner->stride[i], &whole) || outer->stride[i] != whole)
            return false;
    }
    return true;
}

static void merge_at(dlk_axis *axes, int *n, int at)
{
    axes[at + 1].extent *= axes[at].extent;
    (*n)--;
    memmove(&axes[at], &axes[at + 1], sizeof *axes * (size_t)(*n - at));
}

static bool keeps_index(const dlk_axis *outer, const dlk_axis *inner, bool uses_index)
{
    return !uses_index || outer->index_step == inner->extent * inner->index_step;
}

static void merge_kept(dlk_domain *d, bool uses_index)
{
    for (int k = d->n_kept - 2; k >= 0; k--)
        if (merges(&d->kept[k], &d->kept[k + 1], 0, d->n_operands) &&
            keeps_index(&d->kept[k], &d->kept[k + 1], uses_index))
            merge_at(d->kept, &d->n_kept, k);
}

static void merge_reduced(dlk_domain *d, bool uses_index)
{
    d->is_joint = true;
    for (int k = d->n_reduced - 2; k >= 0; k--) {
        const dlk_axis *outer = &d->reduced[k], *inner = &d->reduced[k + 1];
        if (!merges(outer, inner, 0, d->n_inputs) || !keeps_index(outer, inner, uses_index))
            continue;
        d->is_joint &= merges(outer, inner, d->n_inputs, d->n_operands);
        merge_at(d->reduced, &d->n_reduced, k);
    }
}

bool dlk_domain_make(const dlk_domain_request *request, dlk_arena *arena, dlk_domain *out)
{
    maker m = {.request = request, .arena = arena, .domain = out};
    memset(out, 0, sizeof *out);
    out->n_inputs = request->n_inputs;
    out->n_operands = request->n_operands;
    out->offset = DLK_NEW_ARRAY(arena, int64_t, out->n_operands);
    if (!count_reduced(request, &out->reduced_count))
        return false;
    collect_axes(&m);
    flip_kept(out, request->uses_index);
    merge_kept(out, request->uses_index);
    merge_reduced(out, request->uses_index);
    if (!out->reduced_count)
        add_reduced(&m, 0);
    else if (!out->n_reduced)
        add_reduced(&m, 1);
    return true;
}
