/* dlk: elementwise and reduction kernels for tensors that it does not own. */
#ifndef DLK_DLK_H
#define DLK_DLK_H

#include "dlk/dlpack.h"

#ifdef __cplusplus
extern "C" {
#endif

#define DLK_VERSION_MAJOR 0
#define DLK_VERSION_MINOR 1

#if defined(__GNUC__)
#define DLK_API __attribute__((visibility("default")))
#else
#define DLK_API
#endif

/* ---- Errors ------------------------------------------------------------------------------------------------------ */

typedef enum dlk_status {
    DLK_OK = 0,
    DLK_ERR_INVALID = 10,     /* an argument is wrong in itself */
    DLK_ERR_SHAPE = 11,       /* shapes do not broadcast, or an output has another shape */
    DLK_ERR_DTYPE = 12,       /* the operation does not take these dtypes */
    DLK_ERR_LAYOUT = 13,      /* strides, alignment or overlap are not allowed there */
    DLK_ERR_DEVICE = 14,      /* tensors on different or foreign devices */
    DLK_ERR_SYNTAX = 15,      /* definition text is wrong: line and column are in the message */
    DLK_ERR_NOT_FOUND = 16,   /* no such operation, implementation or option */
    DLK_ERR_UNSUPPORTED = 20, /* right, but this device or build cannot do it */
    DLK_ERR_NO_DEVICE = 30,
    DLK_ERR_NO_LIBRARY = 31,
    DLK_ERR_DRIVER = 32,
    DLK_ERR_COMPILE = 40,
    DLK_ERR_MEMORY = 50,
    DLK_ERR_IO = 60,
    DLK_ERR_INTERNAL = 90
} dlk_status;

/* The thread's message for its last failure: what was found, what was expected, in which argument and field. Valid until
 * the thread's next failing call; "" before the first. */
DLK_API const char *dlk_last_error(void);
DLK_API const char *dlk_status_name(dlk_status status); /* "DLK_ERR_SHAPE" */

/* ---- Operations -------------------------------------------------------------------------------------------------- */

typedef struct dlk_context dlk_context; /* NULL everywhere means the process's default context */
typedef struct dlk_op dlk_op;           /* borrowed: lives as long as its context */

DLK_API dlk_status dlk_find(dlk_context *context, const char *name, const dlk_op **out);
/* Defines the operations of `text` (docs/language.md); *opt_out is the last one. Defining a name again replaces it. */
DLK_API dlk_status dlk_define(dlk_context *context, const char *text, const dlk_op **opt_out);

/* ---- Launch ------------------------------------------------------------------------------------------------------ */

typedef enum dlk_scalar_kind {
    DLK_SCALAR_NONE = 0,
    DLK_SCALAR_BOOL = 1,
    DLK_SCALAR_INT = 2,
    DLK_SCALAR_UINT = 3, /* for values above INT64_MAX */
    DLK_SCALAR_FLOAT = 4,
    DLK_SCALAR_COMPLEX = 5
} dlk_scalar_kind;

typedef struct dlk_scalar { /* a weak number: it takes the dtype of the tensors beside it */
    dlk_scalar_kind kind;
    union {
        int64_t i; /* BOOL (0, 1) and INT */
        uint64_t u;
        double f;
        double c[2];
    } value;
} dlk_scalar;

typedef struct dlk_input {
    const DLTensor *tensor;          /* borrowed; NULL: `scalar` is the input */
    DLManagedTensorVersioned *owner; /* NULL, or consumed: its deleter is called once the work is done, also on failure */
    uint64_t flags;                  /* DLPACK_FLAG_BITMASK_*: read-only, padded sub-byte */
    dlk_scalar scalar;
} dlk_input;

typedef struct dlk_output {
    const DLTensor *tensor;           /* written into; NULL: allocated */
    uint64_t flags;                   /* as above; a read-only output is an error */
    DLManagedTensorVersioned *result; /* set when allocated; the caller's: call its deleter */
} dlk_output;

typedef struct dlk_named_scalar {
    const char *name;
    dlk_scalar value;
} dlk_named_scalar;

typedef struct dlk_params {
    size_t size;         /* sizeof(dlk_params); zero the rest */
    const int32_t *axes; /* to reduce, negative from the end; NULL: all. n_axes 0 with axes set: none */
    int32_t n_axes;
    int32_t keepdims;
    DLDataType dtype; /* computed and returned in; bits 0: not given */
    int32_t saturate; /* float to fp8: the largest value instead of NaN */
    int32_t n_scalars;
    const dlk_named_scalar *scalars; /* named parameters of the definition, as eps, correction */
    const dlk_input *where;          /* reductions: bool, broadcast against the input; NULL: everything */
    dlk_scalar initial;              /* reductions: joined on the left; NONE: not given */
    const char *implementation;      /* NULL: the best one */
    void *stream;                    /* of the device; NULL: its default */
    DLPackManagedTensorAllocator allocator; /* for results; NULL: dlk's pool */
} dlk_params;

/* Runs `op`. Results are as if all inputs were read before anything is written. On failure nothing is written or
 * allocated. Thread-safe. */
DLK_API dlk_status dlk_launch(dlk_context *context, const dlk_op *op, const dlk_input *inputs, int n_inputs,
                              dlk_output *outputs, int n_outputs, const dlk_params *opt_params);

/* ---- Options ----------------------------------------------------------------------------------------------------- */

/* Options have lower-case names, as "num_threads"; `dlk options` lists them. Each starts as the environment variable
 * DLK_<NAME> says, read once, or at its default. `value` is copied; NULL goes back to the starting value. An unknown name
 * or a value that the option does not take changes nothing. Thread-safe; launches that follow see the new value. */
DLK_API dlk_status dlk_option_set(const char *name, const char *value);
/* The value as text, never freed; NULL with a message when there is no such option. */
DLK_API const char *dlk_option_get(const char *name);

#ifdef __cplusplus
}
#endif

#endif /* DLK_DLK_H */
