/* From a definition to a scalar program: a definition's formula is evaluated with symbolic values whose dtypes are known,
 * so that typing, overload resolution, inlining and building are one walk. What comes in is all that shapes the program:
 * dtypes and kinds, never shapes or values. */
#ifndef DLK_KERNELS_BUILD_H
#define DLK_KERNELS_BUILD_H

#include "base/arena.h"
#include "base/status.h"
#include "codegen/prog.h"
#include "kernels/registry.h"

/* Caps, so that hostile text is an error and not a hang. */
#define DLK_BUILD_NODES_MAX   10000  /* nodes of one program, after inlining */
#define DLK_BUILD_STEPS_MAX   200000 /* formulas evaluated for one program */
#define DLK_BUILD_DEPTH_MAX   64     /* definitions that call each other */
#define DLK_BUILD_NESTING_MAX 1000   /* expressions inside each other, after inlining */

#define DLK_BUILD_WEAK 0x80 /* input: DLK_BUILD_WEAK + dlk_scalar_kind is a weak scalar of that kind */

/* Plain bytes, zero where unused, so that it can be part of a key. dtypes are dlk_dtype, kinds dlk_scalar_kind. */
typedef struct dlk_build_request {
    uint8_t n_inputs, n_outputs; /* n_outputs 0: as many as there are, none given */
    uint8_t input[DLK_OPERANDS_MAX];
    uint8_t output[DLK_OPERANDS_MAX]; /* dtype of a given output; DLK_DTYPE_NONE: what the formula gives */
    uint8_t
        parameter[DLK_PARAMETERS_MAX]; /* kind of each named scalar in the order of declaration; NONE: its default's */
    uint8_t dtype;                     /* asked for, or DLK_DTYPE_NONE */
    uint8_t initial;                   /* kind, or NONE */
    uint8_t has_mask, saturate;
} dlk_build_request;

typedef enum dlk_scalar_source { DLK_FROM_INPUT, DLK_FROM_PARAMETER, DLK_FROM_INITIAL } dlk_scalar_source;

/* A scalar of the program (SCALAR nodes; DLK_UNIFORM_SCALAR index). Kinds BOOL, INT and UINT arrive as I64 words, FLOAT as
 * F64, COMPLEX as two F64. A named scalar that the caller does not give has the value of its default. */
typedef struct dlk_build_scalar {
    uint8_t source; /* dlk_scalar_source */
    uint8_t index;  /* among the inputs or the named scalars */
    uint8_t kind;   /* dlk_scalar_kind, never NONE */
    uint32_t fits;  /* bit d: the value must fit integer dtype d, which the program converts it to */
} dlk_build_scalar;
#define DLK_SCALARS_MAX (DLK_OPERANDS_MAX + DLK_PARAMETERS_MAX + 1)

typedef struct dlk_built {
    const dlk_prog *prog; /* operands are the tensor inputs, numbered without the weak scalars; the mask comes last */
    dlk_op_kind kind;
    bool is_reduced[DLK_OPERANDS_MAX]; /* by output: without the reduced axes */
    const char *needs_elements;        /* name of a reduction of nothing that has no answer, or NULL */
    int n_scalars;
    dlk_build_scalar scalars[DLK_SCALARS_MAX]; /* by number */
} dlk_built;

/* The program, in `arena`. Failures name operation, argument and dtypes (DLK_ERR_DTYPE), or line and column of the
 * formula (DLK_ERR_SYNTAX). */
dlk_status dlk_build(const dlk_op_version *op, const dlk_build_request *request, dlk_arena *arena, dlk_built *out);

/* Everything zero or NONE: to be filled in. */
void dlk_build_request_make(dlk_build_request *out);
/* DLK_ERR_DTYPE when the value of a scalar does not fit an integer dtype that the program converts it to. */
dlk_status dlk_build_check_scalar(const dlk_op_version *op, const dlk_build_scalar *scalar, const dlk_scalar *value);

#endif
