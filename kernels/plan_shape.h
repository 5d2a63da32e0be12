/* Between making a plan (plan.c, steps.c) and binding it (bind.c): what a step is before its kernel is known. */
#ifndef DLK_KERNELS_PLAN_SHAPE_H
#define DLK_KERNELS_PLAN_SHAPE_H

#include "kernels/domain.h"
#include "kernels/plan.h"

/* Where an operand's element 0 is at launch. */
typedef struct dlk_home {
    uint8_t source; /* dlk_patch_source, not SCALAR */
    int32_t index;
    int64_t offset; /* bytes */
} dlk_home;

typedef struct dlk_operand {
    const dlk_view *view;
    dlk_home home;
    bool is_aligned, is_exact_alias;
} dlk_operand;

/* Axes have numbers, so that states written by one step are found by the next: kept ones from 0, reduced ones from
 * DLK_RANK_MAX, outermost first; the runs that a step leaves have their own. */
#define DLK_AXIS_REDUCED DLK_RANK_MAX
#define DLK_AXIS_RUNS    (2 * DLK_RANK_MAX)
#define DLK_AXIS_NONE    (2 * DLK_RANK_MAX + 1)
#define DLK_AXIS_NUMBERS (2 * DLK_RANK_MAX + 2)

typedef struct dlk_step_axis {
    int number;
    int64_t extent, index_step;
    const int64_t *stride; /* bytes, by operand; NULL: 0 for all */
} dlk_step_axis;

typedef struct dlk_states {           /* scratch for what a step TO_STATES leaves */
    int n;                            /* components */
    uint8_t bytes[DLK_OPERANDS_MAX];  /* of one, by component */
    int64_t offset[DLK_OPERANDS_MAX]; /* in the scratch */
    int64_t stride[DLK_AXIS_NUMBERS]; /* elements, by axis number */
} dlk_states;

struct dlk_step_shape {
    const dlk_operand *operands; /* inputs, then outputs */
    int n_inputs, n_operands;
    const int64_t *offset; /* bytes, by operand: where the walk starts */
    dlk_step_axis axis[2]; /* outer; inner or reduced */
    int n_outer;
    dlk_step_axis *outer;
    int64_t count;                /* elements under one result of the launch */
    dlk_states *read, *written;   /* NULL: none */
    const dlk_step_shape *before; /* of LEAVES: the step whose runs are read */
    int64_t runs;                 /* set by binding: what is left along the reduced axis */
    double element_ns;            /* estimate for one element */
    int threads;                  /* at most */
};

typedef struct dlk_stage_request { /* one program over one domain */
    const dlk_plan_request *plan;
    const dlk_prog *prog;
    dlk_hash program;
    const dlk_operand *operands;
    const dlk_domain *domain;
    int64_t count;
} dlk_stage_request;

typedef struct dlk_step_list {
    dlk_arena *arena;
    dlk_plan_step *steps;
    int n, cap;
} dlk_step_list;

/* Whether the program can be one kernel over the domain: a map, or reductions over one axis each. */
void dlk_steps_map(dlk_step_list *list, const dlk_stage_request *stage);
/* All levels of a reduction: from elements to states, from states to states, to the result. */
void dlk_steps_reduce(dlk_step_list *list, const dlk_stage_request *stage);
/* Reductions and full-shape outputs in one kernel; the domain has one reduced axis. */
void dlk_steps_row(dlk_step_list *list, const dlk_stage_request *stage);

#endif
