/* What one launch will do, with everything decided but addresses and values of scalars: the results' shapes, and a list of
 * steps, each one kernel with a template of its argument block. Made once for exact shapes, run many times; immutable once
 * bound, so that threads can share it. */
#ifndef DLK_KERNELS_PLAN_H
#define DLK_KERNELS_PLAN_H

#include "base/arena.h"
#include "base/buffer.h"
#include "kernels/build.h"
#include "kernels/signature.h"
#include "kernels/view.h"

typedef struct dlk_plan_request {
    const char *operation; /* name, for messages */
    const dlk_built *built;
    dlk_hash program;              /* identity of built->prog */
    const dlk_view *inputs;        /* operands of the program: the tensors, the mask last */
    const dlk_argument *arguments; /* what each of them is called */
    int n_inputs;
    bool has_mask;
    const dlk_view *const *outputs; /* given ones; NULL: to be allocated */
    int n_outputs;
    const int32_t *axes; /* as in dlk_params */
    int n_axes;
    bool keepdims;
    const char *backend;
    const dlk_target *target;
    int threads;         /* that a step may use */
    int64_t cache_bytes; /* outputs larger than this are written past the cache */
    bool is_native;      /* the results and their temporaries only: a native implementation does the work */
} dlk_plan_request;

typedef struct dlk_result { /* an output as the caller sees it */
    uint8_t dtype;
    bool is_given;
    int32_t ndim;
    int64_t *shape, *strides; /* elements; of an allocated one dense, in the inputs' axis order */
    int64_t elements;
    int64_t low, high; /* bytes about its first element */
    /* Computed into scratch and copied by the last steps, because the output overlaps an input. */
    bool is_temporary;
    int64_t temporary_offset, *temporary_strides; /* bytes; elements */
} dlk_result;

typedef enum dlk_patch_source {
    DLK_PATCH_INPUT,  /* address of operand `index` + offset */
    DLK_PATCH_OUTPUT, /* of output `index` */
    DLK_PATCH_SCRATCH,
    DLK_PATCH_SCALAR /* word `part` of scalar `index` */
} dlk_patch_source;

typedef struct dlk_patch { /* a word of the argument block that differs from run to run */
    uint16_t word;
    uint8_t source; /* dlk_patch_source */
    uint8_t part;
    int32_t index;
    int64_t offset;
} dlk_patch;

/* What a plan must know of a kernel. */
typedef struct dlk_layout {
    int n_buffers, n_uniforms;
    const dlk_buffer_role *buffers; /* GLOBAL ones, in argument order */
    const dlk_uniform *uniforms;
    dlk_tiling tiling;
} dlk_layout;

typedef struct dlk_step_shape dlk_step_shape; /* plan.c: axes and buffers, for binding */

typedef struct dlk_plan_step {
    dlk_signature signature;
    const dlk_prog *prog;
    dlk_step_shape *shape;
    const void *kernel; /* the runtime's */
    /* Set by binding: a dlk_call but for the patches. */
    uint64_t *arguments;
    int n_arguments, n_buffers;
    dlk_patch *patches;
    int n_patches;
    int64_t items;
    int n_outer;
    int64_t *outer_extents;
    int64_t *outer_moves; /* n_outer rows of n_moving */
    uint16_t *moving;     /* words that the odometer moves */
    int n_moving;
    int64_t outer_steps;
    int threads;
} dlk_plan_step;

typedef struct dlk_launch_plan {
    const char *operation;
    int n_inputs, n_outputs, n_steps;
    bool is_reduced[DLK_RANK_MAX];   /* by axis of the broadcast shape */
    int ndim;                        /* of that */
    dlk_result *results;             /* n_outputs */
    int64_t *input_low, *input_high; /* bytes about the first element, by operand */
    uint8_t *overlaps;               /* dlk_overlap, n_outputs rows of n_inputs */
    dlk_plan_step *steps;
    int64_t scratch_bytes; /* set by binding */
    int n_scalars;
    const dlk_build_scalar *scalars;
} dlk_launch_plan;

/* Plans a launch; the plan lives in `arena`. Failures name argument and field. */
dlk_status dlk_launch_plan_make(const dlk_plan_request *request, dlk_arena *arena, dlk_launch_plan **out);
/* Fills in the numbers of step `index`, whose kernel is `layout`; steps are bound in order, each once. */
dlk_status dlk_launch_plan_bind(dlk_launch_plan *plan, int index, const dlk_layout *layout, dlk_arena *arena);
void dlk_launch_plan_print(const dlk_launch_plan *plan, dlk_buffer *out);

#endif
