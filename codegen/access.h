/* What a schedule may know of tensors: never extents, strides, pointers or values, only their classes. The nest is the
 * part of a kernel's signature that shapes its code; uniforms and buffers name what the plan must supply at launch. */
#ifndef DLK_CODEGEN_ACCESS_H
#define DLK_CODEGEN_ACCESS_H

#include <stdbool.h>
#include <stdint.h>

#define DLK_OPERANDS_MAX 64 /* inputs and outputs of one kernel */
#define DLK_AXES_MAX     8  /* axes of one kernel; the CPU uses 2 and the plan walks the others */

typedef enum dlk_stride_class {
    DLK_STRIDE_ZERO,    /* the same element along the whole axis */
    DLK_STRIDE_UNIT,    /* neighbours in memory */
    DLK_STRIDE_REVERSE, /* minus one element */
    DLK_STRIDE_ANY
} dlk_stride_class;

typedef struct dlk_access {
    uint8_t dtype;          /* dlk_dtype */
    uint8_t is_padded;      /* sub-byte elements each in a byte of their own */
    uint8_t is_aligned;     /* CPU: address and strides are multiples of the part's size; GPU: of 16 bytes where UNIT */
    uint8_t is_exact_alias; /* output: the same elements in the same order as some input */
    uint8_t stride[DLK_AXES_MAX]; /* dlk_stride_class along each axis of the nest */
} dlk_access;

/* What the elements that a reduction joins are, and what it leaves (see design of the fixed tree in docs). */
typedef enum dlk_reduce_from {
    DLK_FROM_ELEMENTS, /* of the tensor */
    DLK_FROM_STATES,   /* of an inner level: joined lane by lane like elements */
    DLK_FROM_LEAVES    /* partial results over aligned runs of 2^j leaves of this level: joined by the counter alone */
} dlk_reduce_from;
typedef enum dlk_reduce_to {
    DLK_TO_RESULT, /* finished, converted, stored to the outputs */
    DLK_TO_STATES  /* the states, stored to STATE buffers */
} dlk_reduce_to;

typedef enum dlk_row_bucket { DLK_ROW_STREAM, DLK_ROW_CACHE, DLK_ROW_REGISTERS } dlk_row_bucket;
#define DLK_ROW_CACHED_MAX \
    8192 /* elements: a longer row of a row kernel is STREAM (on the CPU; a GPU has its own bounds) */

#define DLK_NARROW_MAX 128 /* elements */

/* Axes are ordered outermost first. A map has none reduced; a reduction or a row kernel has exactly one reduced axis.
 * lane_axis is the axis whose neighbours become the lanes of vectors (threads on a GPU): the plan picks the one where
 * most bytes are contiguous. On the CPU n_axes is 2: axis 0 is the outer one (extent 1 when there is one axis only) and
 * axis 1 the inner or the reduced one; extents of kept axes are at least 1, the reduced one may be 0. An operand without
 * elements has class ANY along every axis, so that nothing of it is read. */
typedef struct dlk_nest {
    uint8_t n_axes;
    uint8_t reduced_axis; /* index, or 0xff */
    uint8_t lane_axis;
    uint8_t n_inputs, n_outputs;
    uint8_t is_disjoint;    /* no output shares a byte with an input or another output */
    uint8_t is_nontemporal; /* outputs are larger than the last-level cache */
    uint8_t row_bucket;     /* dlk_row_bucket: where a row of a row kernel fits */
    uint8_t from, to;       /* dlk_reduce_from, dlk_reduce_to */
    uint8_t has_runs;       /* reductions TO_STATES: the reduced axis is cut into runs of leaves, one result each */
    uint8_t index_bits;     /* GPU: 32 or 64 */
    uint8_t is_narrow;      /* CPU: a reduction with lanes along the kept axis, of at most DLK_NARROW_MAX elements */
    uint8_t zero[3];
    dlk_access operand[DLK_OPERANDS_MAX]; /* inputs, then outputs */
} dlk_nest;

typedef enum dlk_buffer_kind {
    DLK_BUFFER_INPUT,    /* operand index among the inputs */
    DLK_BUFFER_OUTPUT,   /* among the outputs */
    DLK_BUFFER_STATE_IN, /* component index of the state: of from STATES or LEAVES */
    DLK_BUFFER_STATE_OUT /* of to STATES */
} dlk_buffer_kind;

typedef struct dlk_buffer_role {
    uint8_t kind; /* dlk_buffer_kind */
    uint8_t index;
} dlk_buffer_role;

/* State buffers are dense, one array for each component of the state, of its kind (P1 as I8), element
 * [kept axis index][run index] with the run fastest; STATE_IN of `from` STATES or LEAVES is addressed by STRIDE uniforms
 * like an operand. */
typedef enum dlk_uniform_role {
    DLK_UNIFORM_EXTENT,       /* axis */
    DLK_UNIFORM_STRIDE,       /* operand (buffer role), axis: bytes, signed */
    DLK_UNIFORM_TILE,         /* axis: extent of one item along it, as the plan chose by the tiling */
    DLK_UNIFORM_TILES,        /* axis: number of items along it */
    DLK_UNIFORM_COUNT,        /* elements under one result, over all reduced axes of the launch */
    DLK_UNIFORM_INDEX_STRIDE, /* axis: what one step along it adds to the row-major index over the reduced axes of the
                                 launch; 0 for an axis that is kept throughout */
    DLK_UNIFORM_INDEX_BASE,   /* row-major index of the first element */
    DLK_UNIFORM_ADDRESS, /* CPU: buffer: the address given for it, as an integer; stores past the cache align to it */
    DLK_UNIFORM_SCALAR,  /* scalar parameter `index` of the operation, part `axis`; kind I64 or F64 */
    DLK_UNIFORM_MAGIC,   /* GPU: axis: multiplier for division by EXTENT(axis) */
    DLK_UNIFORM_SHIFT    /* GPU: axis: shift of the same */
} dlk_uniform_role;

typedef struct dlk_uniform {
    uint8_t role; /* dlk_uniform_role */
    uint8_t kind; /* dlk_kind of the value: I64 but for SCALAR */
    uint8_t axis;
    uint8_t index;          /* SCALAR */
    dlk_buffer_role buffer; /* STRIDE, ADDRESS */
} dlk_uniform;

/* How the plan cuts the nest into items: along tiled axes it chooses TILE, a multiple of `multiple` (for the reduced axis
 * a power of two times it), so that an item is neither too small to schedule nor too large to share; items are numbered
 * row-major over the tiles. An axis with multiple 0 is not cut: every item covers it whole. */
typedef struct dlk_tiling {
    int64_t multiple[DLK_AXES_MAX]; /* elements */
    int64_t at_most[DLK_AXES_MAX];  /* elements of one tile; 0: no bound. GPU schedules set it equal to `multiple` */
} dlk_tiling;

#endif
