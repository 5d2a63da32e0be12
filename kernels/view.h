/* A DLTensor that was checked: the only form in which tensors go further in. Whatever a caller can get wrong about one
 * tensor is found here, before anything is computed from it, and is said with argument, field, found and expected. */
#ifndef DLK_KERNELS_VIEW_H
#define DLK_KERNELS_VIEW_H

#include "base/status.h"
#include "codegen/dtype.h"

#define DLK_RANK_MAX (DLK_NDIM_MAX + 1) /* an axis for the lanes behind the tensor's own */

typedef struct dlk_argument { /* which argument of a launch, for messages: "input 1", "where" */
    const char *role;
    int index; /* -1: the role says it all */
} dlk_argument;

typedef struct dlk_view {
    char *data; /* element (0, ..., 0); NULL only where nothing is read: no elements, or a shape without memory */
    DLDevice device;
    uint8_t dtype; /* dlk_dtype */
    bool is_padded, is_read_only;
    int32_t bytes; /* of one element */
    int32_t ndim;
    int64_t elements;
    int64_t shape[DLK_RANK_MAX];
    int64_t strides[DLK_RANK_MAX]; /* elements; 0 where the extent is 1, or where nothing is stored */
    int64_t low, high;             /* bytes from `data` that are touched: [low, high), low <= 0 */
} dlk_view;

/* Checks everything about one tensor. With needs_data, elements without memory are an error; else data may be NULL. */
dlk_status dlk_view_make(const DLTensor *tensor, uint64_t flags, dlk_argument argument, bool needs_data, dlk_view *out);

/* "float32[2,3]" into `out`; returns out. */
#define DLK_VIEW_TEXT 96
const char *dlk_view_describe(const dlk_view *view, char out[DLK_VIEW_TEXT]);
/* "[2,3]" into `out`, shortened when long; returns out. */
const char *dlk_shape_describe(const int64_t *shape, int ndim, char out[DLK_VIEW_TEXT]);

/* Product of extents; false when it does not fit in 64 bits. 0 when any extent is 0. */
bool dlk_shape_elements(const int64_t *shape, int ndim, int64_t *out);

/* Widens (*ndim, shape) by NumPy's rule so that `view` broadcasts to it; DLK_ERR_SHAPE names the axis. */
dlk_status dlk_shape_broadcast(const dlk_view *view, dlk_argument argument, int *ndim, int64_t shape[DLK_RANK_MAX]);

/* DLK_ERR_LAYOUT when an output is read-only, or two of its elements share memory. */
dlk_status dlk_view_check_output(const dlk_view *view, dlk_argument argument);

typedef enum dlk_overlap {
    DLK_OVERLAP_NONE,
    DLK_OVERLAP_EXACT, /* the same elements at the same indices */
    DLK_OVERLAP_PARTLY /* or not known better */
} dlk_overlap;
/* How an output's memory meets an input's. Both have the same shape where it matters (else never EXACT). */
dlk_overlap dlk_view_overlap(const dlk_view *output, const dlk_view *input);

/* Dense strides (elements) for `shape`, axes from slowest to fastest in `order`. */
void dlk_dense_strides(const int64_t *shape, int ndim, const uint8_t *order, int64_t *strides);

#endif
