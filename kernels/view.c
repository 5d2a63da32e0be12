/* Checks DLTensors. Their fields come from anywhere, so no number is used in arithmetic before it was checked, and all
 * arithmetic is checked for overflow; nothing here reads the tensor's memory. */
#include "kernels/view.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"

#define NAME_BYTES 48

static const char *argument_name(dlk_argument argument, char out[NAME_BYTES])
{
    if (argument.index < 0)
        snprintf(out, NAME_BYTES, "%s", argument.role);
    else
        snprintf(out, NAME_BYTES, "%s %d", argument.role, argument.index);
    return out;
}
#define NAME(argument) argument_name((argument), (char[NAME_BYTES]){0})

const char *dlk_shape_describe(const int64_t *shape, int ndim, char out[DLK_VIEW_TEXT])
{
    size_t n = 0;
    out[n++] = '[';
    for (int i = 0; i < ndim; i++) {
        char extent[24];
        const int length = snprintf(extent, sizeof extent, "%s%lld", i ? "," : "", (long long)shape[i]);
        if (n + (size_t)length + 6 > DLK_VIEW_TEXT) {
            memcpy(out + n, ",...", 4);
            n += 4;
            break;
        }
        memcpy(out + n, extent, (size_t)length);
        n += (size_t)length;
    }
    out[n++] = ']';
    out[n] = 0;
    return out;
}

const char *dlk_view_describe(const dlk_view *view, char out[DLK_VIEW_TEXT])
{
    char shape[DLK_VIEW_TEXT];
    snprintf(out, DLK_VIEW_TEXT, "%s%.64s", dlk_dtypes[view->dtype].name,
             dlk_shape_describe(view->shape, view->ndim, shape));
    return out;
}

bool dlk_shape_elements(const int64_t *shape, int ndim, int64_t *out)
{
    int64_t n = 1;
    for (int i = 0; i < ndim; i++)
        if (shape[i] == 0) {
            *out = 0;
            return true;
        }
    for (int i = 0; i < ndim; i++)
        if (!dlk_mul_i64(n, shape[i], &n))
            return false;
    *out = n;
    return true;
}

static dlk_status check_rank(const DLTensor *tensor, dlk_argument argument)
{
    if (tensor->ndim < 0 || tensor->ndim > DLK_NDIM_MAX)
        return dlk_fail(DLK_ERR_INVALID, "%s: ndim is %d; expected 0 to %d", NAME(argument), (int)tensor->ndim,
                        DLK_NDIM_MAX);
    if (tensor->ndim && !tensor->shape)
        return dlk_fail(DLK_ERR_INVALID, "%s: shape is NULL; expected %d extents", NAME(argument), (int)tensor->ndim);
    for (int i = 0; i < tensor->ndim; i++)
        if (tensor->shape[i] < 0)
            return dlk_fail(DLK_ERR_INVALID, "%s: shape[%d] is %lld; expected 0 or more", NAME(argument), i,
                            (long long)tensor->shape[i]);
    return DLK_OK;
}

static dlk_status check_dtype(const DLTensor *tensor, dlk_argument argument, dlk_view *view)
{
    if (!tensor->dtype.lanes)
        return dlk_fail(DLK_ERR_DTYPE, "%s: dtype.lanes is 0; expected 1 or more", NAME(argument));
    const dlk_dtype dtype = dlk_dtype_from_dl(tensor->dtype);
    if (dtype == DLK_DTYPE_NONE) {
        char found[32];
        return dlk_fail(DLK_ERR_DTYPE, "%s: dtype is %s (code %u, bits %u, lanes %u), which dlk does not compute with",
                        NAME(argument), dlk_dtype_describe(tensor->dtype, found), (unsigned)tensor->dtype.code,
                        (unsigned)tensor->dtype.bits, (unsigned)tensor->dtype.lanes);
    }
    view->dtype = (uint8_t)dtype;
    view->bytes = dlk_dtypes[dtype].bits / 8;
    return DLK_OK;
}

/* Row-major strides; of an empty tensor they say nothing and stay 0. */
static void fill_strides(dlk_view *view)
{
    int64_t step = 1;
    for (int i = view->ndim - 1; i >= 0; i--) {
        view->strides[i] = step;
        step *= view->shape[i]; /* at most `elements`, which fits */
    }
}

/* Shape and strides with the lanes as an inner axis; strides that are never multiplied by an index become 0. */
static dlk_status set_axes(const DLTensor *tensor, dlk_argument argument, dlk_view *view)
{
    const int64_t lanes = tensor->dtype.lanes;
    view->ndim = tensor->ndim;
    for (int i = 0; i < tensor->ndim; i++)
        view->shape[i] = tensor->shape[i];
    if (lanes > 1)
        view->shape[view->ndim++] = lanes;
    if (!dlk_shape_elements(view->shape, view->ndim, &view->elements))
        return dlk_fail(DLK_ERR_INVALID, "%s: shape %s has more than 2^63 elements", NAME(argument),
                        dlk_shape_describe(view->shape, view->ndim, (char[DLK_VIEW_TEXT]){0}));
    if (view->elements && !tensor->strides)
        fill_strides(view);
    for (int i = 0; i < tensor->ndim && view->elements && tensor->strides; i++)
        if (view->shape[i] > 1 && !dlk_mul_i64(tensor->strides[i], lanes, &view->strides[i]))
            return dlk_fail(DLK_ERR_INVALID, "%s: strides[%d] is %lld with %lld lanes, beyond the address space",
                            NAME(argument), i, (long long)tensor->strides[i], (long long)lanes);
    if (lanes > 1 && view->elements)
        view->strides[tensor->ndim] = 1;
    for (int i = 0; i < view->ndim; i++)
        if (view->shape[i] == 1)
            view->strides[i] = 0;
    return DLK_OK;
}

/* The bytes that the elements cover, relative to the first one; false when that does not fit. */
static bool find_span(dlk_view *view)
{
    view->low = view->high = 0;
    if (!view->elements)
        return true;
    view->high = view->bytes;
    for (int i = 0; i < view->ndim; i++) {
        int64_t reach;
        if (!dlk_mul_i64(view->strides[i], view->shape[i] - 1, &reach) || !dlk_mul_i64(reach, view->bytes, &reach))
            return false;
        int64_t *side = reach < 0 ? &view->low : &view->high;
        if (!dlk_add_i64(*side, reach, side))
            return false;
    }
    int64_t span; /* sums of steps along several axes stay within it */
    return dlk_sub_i64(view->high, view->low, &span);
}

static dlk_status check_memory(const DLTensor *tensor, dlk_argument argument, bool needs_data, dlk_view *view)
{
    if (!find_span(view))
        return dlk_fail(DLK_ERR_INVALID, "%s: shape %s with these strides reaches beyond the address space",
                        NAME(argument), dlk_shape_describe(view->shape, view->ndim, (char[DLK_VIEW_TEXT]){0}));
    if (!view->elements)
        return DLK_OK;
    const uintptr_t base = (uintptr_t)tensor->data;
    if (!base) {
        if (needs_data)
            return dlk_fail(DLK_ERR_INVALID, "%s: data is NULL; expected memory for %lld elements", NAME(argument),
                            (long long)view->elements);
        return DLK_OK;
    }
    const uintptr_t first = base + (uintptr_t)tensor->byte_offset;
    if (tensor->byte_offset > UINTPTR_MAX - base || (uintptr_t)(-view->low) > first ||
        (uintptr_t)view->high > UINTPTR_MAX - first)
        return dlk_fail(DLK_ERR_INVALID,
                        "%s: byte_offset %llu and strides reach from %lld to %lld bytes about data, beyond the address "
                        "space",
                        NAME(argument), (unsigned long long)tensor->byte_offset, (long long)view->low,
                        (long long)view->high);
    view->data = (char *)first;
    return DLK_OK;
}

dlk_status dlk_view_make(const DLTensor *tensor, uint64_t flags, dlk_argument argument, bool needs_data, dlk_view *out)
{
    memset(out, 0, sizeof *out);
    DLK_TRY(check_rank(tensor, argument));
    DLK_TRY(check_dtype(tensor, argument, out));
    DLK_TRY(set_axes(tensor, argument, out));
    DLK_TRY(check_memory(tensor, argument, needs_data, out));
    out->device = tensor->device;
    out->is_read_only = (flags & DLPACK_FLAG_BITMASK_READ_ONLY) != 0;
    out->is_padded = (flags & DLPACK_FLAG_BITMASK_IS_SUBBYTE_TYPE_PADDED) != 0;
    return DLK_OK;
}

dlk_status dlk_shape_broadcast(const dlk_view *view, dlk_argument argument, int *ndim, int64_t shape[DLK_RANK_MAX])
{
    const int shift = view->ndim - *ndim;
    if (shift > 0) {
        memmove(shape + shift, shape, sizeof *shape * (size_t)*ndim);
        for (int i = 0; i < shift; i++)
            shape[i] = 1;
        *ndim = view->ndim;
    }
    for (int i = 0; i < view->ndim; i++) {
        int64_t *extent = &shape[*ndim - view->ndim + i];
        if (*extent == 1)
            *extent = view->shape[i];
        else if (view->shape[i] != 1 && view->shape[i] != *extent)
            return dlk_fail(DLK_ERR_SHAPE,
                            "%s: shape %s does not broadcast with %s: axis %d is %lld; expected 1 or %lld",
                            NAME(argument), dlk_shape_describe(view->shape, view->ndim, (char[DLK_VIEW_TEXT]){0}),
                            dlk_shape_describe(shape, *ndim, (char[DLK_VIEW_TEXT]){0}), i, (long long)view->shape[i],
                            (long long)*extent);
    }
    return DLK_OK;
}

/* ---- Overlap ----------------------------------------------------------------------------------------------------- */

/* An output's elements all have their own memory when no step other than nought, of less than `extent` along each axis,
 * leads back to the same address. With strides sorted in descending order and `rest` the farthest that all later axes
 * reach together, only few steps along an axis can be undone by the later ones, so the search is narrow; what nests
 * (stride > rest everywhere) is settled without any. */
typedef struct step_search {
    int n;
    int64_t stride[DLK_RANK_MAX]; /* > 0, descending */
    int64_t most[DLK_RANK_MAX];   /* extent - 1 */
    int64_t rest[DLK_RANK_MAX];   /* reach of the axes behind */
    int budget;
} step_search;

#define SEARCH_BUDGET 1000000

/* Numbers that divide towards minus and plus infinity; b > 0. */
static int64_t floor_div(int64_t a, int64_t b)
{
    return a / b - (a % b < 0);
}
static int64_t ceil_div(int64_t a, int64_t b)
{
    return a / b + (a % b > 0);
}

/* Whether steps along axes [axis, n) can sum up to -sum; `moved`: an earlier axis has stepped. The first axis that steps
 * steps forward: its mirror image is the same pair of elements. */
static bool leads_back(step_search *search, int axis, int64_t sum, bool moved)
{
    if (axis == search->n)
        return moved && sum == 0;
    if (--search->budget < 0)
        return true;
    const int64_t stride = search->stride[axis], rest = search->rest[axis];
    int64_t first = ceil_div(-sum - rest, stride), last = floor_div(-sum + rest, stride);
    if (first < (moved ? -search->most[axis] : 0))
        first = moved ? -search->most[axis] : 0;
    if (last > search->most[axis])
        last = search->most[axis];
    for (int64_t step = first; step <= last; step++)
        if (leads_back(search, axis + 1, sum + step * stride, moved || step))
            return true;
    return false;
}

static void sort_axes(const dlk_view *view, step_search *search)
{
    for (int i = 0; i < view->ndim; i++) {
        if (view->shape[i] == 1)
            continue;
        const int64_t stride = view->strides[i] < 0 ? -view->strides[i] : view->strides[i];
        int at = search->n++;
        for (; at > 0 && search->stride[at - 1] < stride; at--) {
            search->stride[at] = search->stride[at - 1];
            search->most[at] = search->most[at - 1];
        }
        search->stride[at] = stride;
        search->most[at] = view->shape[i] - 1;
    }
    int64_t rest = 0;
    for (int i = search->n - 1; i >= 0; i--) {
        search->rest[i] = rest;
        rest += search->stride[i] * search->most[i]; /* within the span, which was checked */
    }
}

/* True as well when it cannot be told within reason. */
static bool overlaps_itself(const dlk_view *view)
{
    if (view->elements < 2)
        return false;
    step_search search = {.budget = SEARCH_BUDGET};
    sort_axes(view, &search);
    bool nests = true;
    for (int i = 0; i < search.n; i++) {
        if (!search.stride[i])
            return true;
        nests &= search.stride[i] > search.rest[i];
    }
    return !nests && leads_back(&search, 0, 0, false);
}

dlk_status dlk_view_check_output(const dlk_view *view, dlk_argument argument)
{
    if (view->is_read_only)
        return dlk_fail(DLK_ERR_LAYOUT, "%s: the tensor is read-only; expected one that may be written",
                        NAME(argument));
    for (int i = 0; i < view->ndim && view->elements; i++)
        if (view->shape[i] > 1 && !view->strides[i])
            return dlk_fail(DLK_ERR_LAYOUT,
                            "%s: strides[%d] is 0 with shape[%d] %lld; expected that each element has its "
                            "own memory",
                            NAME(argument), i, i, (long long)view->shape[i]);
    if (overlaps_itself(view))
        return dlk_fail(DLK_ERR_LAYOUT,
                        "%s: shape %s with these strides puts several elements at one address; expected "
                        "that each element has its own memory",
                        NAME(argument), dlk_shape_describe(view->shape, view->ndim, (char[DLK_VIEW_TEXT]){0}));
    return DLK_OK;
}

static bool is_same_layout(const dlk_view *a, const dlk_view *b)
{
    if (a->data != b->data || a->bytes != b->bytes || a->ndim != b->ndim)
        return false;
    return !memcmp(a->shape, b->shape, sizeof *a->shape * (size_t)a->ndim) &&
           !memcmp(a->strides, b->strides, sizeof *a->strides * (size_t)a->ndim);
}

dlk_overlap dlk_view_overlap(const dlk_view *output, const dlk_view *input)
{
    if (!output->data || !input->data || !output->elements || !input->elements)
        return DLK_OVERLAP_NONE;
    const uintptr_t out = (uintptr_t)output->data, in = (uintptr_t)input->data;
    if (out + (uintptr_t)output->high <= in + (uintptr_t)input->low ||
        in + (uintptr_t)input->high <= out + (uintptr_t)output->low)
        return DLK_OVERLAP_NONE;
    return is_same_layout(output, input) ? DLK_OVERLAP_EXACT : DLK_OVERLAP_PARTLY;
}

void dlk_dense_strides(const int64_t *shape, int ndim, const uint8_t *order, int64_t *strides)
{
    int64_t step = 1;
    for (int i = ndim - 1; i >= 0; i--) {
        const int axis = order[i];
        strides[axis] = step;
        step *= shape[axis] > 1 ? shape[axis] : 1;
    }
}
