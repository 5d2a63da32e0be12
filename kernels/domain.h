/* What a launch walks over: the axes of the broadcast shape with each operand's step along them, brought into a form in
 * which equal work looks equal: axes of extent 1 dropped, sorted, merged where memory allows, turned to run forwards. */
#ifndef DLK_KERNELS_DOMAIN_H
#define DLK_KERNELS_DOMAIN_H

#include "base/arena.h"
#include "kernels/view.h"

typedef struct dlk_axis {
    int64_t extent;
    int64_t index_step; /* what one step adds to the row-major index over the reduced axes; 0 for a kept axis */
    int64_t *stride;    /* bytes, by operand */
} dlk_axis;

typedef struct dlk_domain {
    int n_inputs, n_operands; /* inputs, then outputs */
    int64_t *offset;          /* bytes, by operand: from the view's element 0 to where the walk starts */
    int n_kept, n_reduced;
    dlk_axis kept[DLK_RANK_MAX];    /* outermost first */
    dlk_axis reduced[DLK_RANK_MAX]; /* as the fixed tree nests them, outermost first */
    int64_t reduced_count;          /* elements under one result */
    bool is_joint;                  /* what merged among the reduced axes merges in the outputs of full shape too */
} dlk_domain;

typedef struct dlk_domain_request {
    int n_inputs, n_operands;
    const dlk_view *const
        *operands; /* inputs, then outputs; all broadcast to shape (reduced outputs have extents of 1) */
    int ndim;
    const int64_t *shape;
    const bool *is_reduced; /* by axis of shape */
    const bool
        *is_indexed; /* by axis: the row-major index runs over it; that of a reduction runs over what it reduces */
    bool uses_index; /* the program asks for the index: merge and turn only what keeps it */
} dlk_domain_request;

/* False when there are more than 2^63 elements under one result. Needs no memory beyond the arena's. */
bool dlk_domain_make(const dlk_domain_request *request, dlk_arena *arena, dlk_domain *out);

/* The axes of `shape` from slowest to fastest in the memory of the views (NumPy's order K); each view broadcasts. */
void dlk_layout_order(const dlk_view *const *views, int n, int ndim, uint8_t *order);

#endif
