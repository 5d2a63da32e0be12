/* Types: classes of dtypes, promotion, and which overload a call means. */
#ifndef DLK_KERNELS_INFER_H
#define DLK_KERNELS_INFER_H

#include "codegen/dtype.h"
#include "kernels/parse.h"

#define DLK_CLASSES_ANY ((dlk_class_set)0x1f)

static inline dlk_class_set dlk_class_bit(dlk_dtype dtype)
{
    return (dlk_class_set)(1u << dlk_dtypes[dtype].class_);
}
/* bool, int, uint, integer (int, uint), float, real (integer, float), complex, number (real, complex), any; 0: no class. */
dlk_class_set dlk_class_set_from_name(const char *name, int length);

/* The dtype of both together: the array API standard's table, and NumPy 2's where that says nothing; bfloat16 with float16
 * is float32, float8 widens to any wider float. DLK_DTYPE_NONE: no type holds both (int64 with uint64). */
dlk_dtype dlk_promote(dlk_dtype a, dlk_dtype b);
/* A weak number takes the other's dtype where its kind allows. `weak` is the dtype it has by itself: bool, int64, uint64,
 * float64 or complex128. */
dlk_dtype dlk_promote_weak(dlk_dtype strong, dlk_dtype weak);
/* "int64 and uint64 have no common type: ..."; into `out` of at least 200 bytes; returns out. */
const char *dlk_promote_explain(dlk_dtype a, dlk_dtype b, char *out);

/* What a call passes for one parameter. */
typedef struct dlk_arg_type {
    uint8_t dtype; /* DLK_DTYPE_NONE: a tuple */
    bool is_weak;
} dlk_arg_type;

typedef struct dlk_resolution {
    const dlk_def *def;
    uint8_t convert[DLK_DEF_INPUTS_MAX]; /* by parameter: to this dtype before it is bound; DLK_DTYPE_NONE: as it is */
    uint8_t relabel; /* float32 results of an overload for exactly float32 become this; DLK_DTYPE_NONE: stay */
} dlk_resolution;

/* The overload of `overloads` that takes `args`: all inputs, without the scalars. Nearest wins: exact types, then small
 * classes, then large ones, then conversion of integers to float64. `active` overloads (those being inlined) are passed
 * over. Fails with DLK_ERR_DTYPE, the message names the types found and the overloads there are; with DLK_ERR_SYNTAX where
 * only an active one would do. */
dlk_status dlk_resolve(const dlk_overloads *overloads, const dlk_arg_type *args, int n_args,
                       bool (*is_active)(void *context, const dlk_def *def), void *context, dlk_resolution *out);

#endif
