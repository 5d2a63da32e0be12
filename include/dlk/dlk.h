/* dlk: elementwise and reduction kernels for tensors that it does not own.
 *
 * This header is the manual. What holds for all of it:
 *
 *   Errors     Functions that can fail return a dlk_status; DLK_OK is 0. The thread's message (dlk_last_error) names the
 *              argument and field, what was found and what was expected. On failure out-parameters are untouched, nothing
 *              was written to any tensor and nothing stays allocated.
 *   Threads    Every function may be called from any thread at any time, unless it says otherwise.
 *   Ownership  Arguments are borrowed for the call, unless the comment says "consumed". Strings given out are borrowed.
 *              Results are DLManagedTensorVersioned: the caller calls their deleter, from any thread, once.
 *   Structs    A struct that starts with `size` is filled in by the caller with sizeof of it and zeroed otherwise; a newer
 *              library then knows which fields an older caller has.
 *   Never      No exception, no exit, no signal handler, nothing printed (unless options DUMP or LOG ask for it), and the
 *              caller's floating-point modes are as they were.
 *
 * The shortest program:
 *
 *     DLManagedTensorVersioned *sum;
 *     if (dlk_binary(NULL, "add", &x, &y, &sum) != DLK_OK)
 *         puts(dlk_last_error());
 *     else
 *         sum->deleter(sum);
 */
#ifndef DLK_DLK_H
#define DLK_DLK_H

#include "dlk/dlpack.h"

#ifdef __cplusplus
extern "C" {
#endif

#define DLK_VERSION_MAJOR 0
#define DLK_VERSION_MINOR 1
#define DLK_VERSION_PATCH 0

#if defined(__GNUC__)
#    define DLK_API __attribute__((visibility("default")))
#else
#    define DLK_API
#endif

/* The version of the library that runs, major * 1000000 + minor * 1000 + patch: it may be newer than the header. */
DLK_API int dlk_version(void);

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

/* ---- Contexts ---------------------------------------------------------------------------------------------------- */

/* A context holds definitions, implementations, kernels and plans. NULL everywhere means the process's default context,
 * made on first use and never destroyed. Own contexts keep an embedder's definitions apart from everybody else's. */
typedef struct dlk_context dlk_context;

DLK_API dlk_status dlk_context_create(dlk_context **out);
/* NULL is a no-op. No other thread may be inside a call with this context; its operations and plans die with it, results
 * do not. */
DLK_API void dlk_context_destroy(dlk_context *context);

/* ---- Operations -------------------------------------------------------------------------------------------------- */

/* An operation: a name with its definition and implementations. Borrowed: lives as long as its context, also when the name
 * is defined again (launches with the old handle then run the new definition). */
typedef struct dlk_op dlk_op;

/* The operation called `name`: the library's own, or a defined one. DLK_ERR_NOT_FOUND says which names are close. */
DLK_API dlk_status dlk_find(dlk_context *context, const char *name, const dlk_op **out);
/* Defines the operations of `text` (docs/language.md); *opt_out is the last one. Defining a name again replaces it. On
 * failure nothing of the text is defined. */
DLK_API dlk_status dlk_define(dlk_context *context, const char *text, const dlk_op **opt_out);

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
        double c[2]; /* re, im */
    } value;
} dlk_scalar;

typedef struct dlk_named_scalar {
    const char *name;
    dlk_scalar value;
} dlk_named_scalar;

typedef enum dlk_op_kind {
    DLK_OP_MAP = 0,       /* elementwise: every result has the broadcast shape */
    DLK_OP_REDUCTION = 1, /* every result has the shape without the reduced axes */
    DLK_OP_ROW = 2        /* reduces over axes and maps over all of them, as softmax */
} dlk_op_kind;

typedef struct dlk_op_info { /* strings and arrays live as long as the operation's definition */
    size_t size;             /* sizeof(dlk_op_info) */
    const char *name;
    const char *documentation; /* the definition's comment; "" when there is none */
    const char *signature;     /* "leaky_relu(x: float, slope: scalar = 0.01)"; overloads one a line */
    const char *formula;       /* text of the definition; "" for an operation that is native only */
    const char *dtypes;        /* names of the dtypes that all inputs may have together, with blanks between */
    dlk_op_kind kind;
    int32_t n_inputs; /* tensors or weak scalars, in launch order */
    int32_t n_outputs;
    int32_t n_parameters;           /* named scalars */
    const char *const *input_names; /* n_inputs */
    const char *const *parameter_names;
    const dlk_scalar *parameter_defaults; /* kind NONE: must be given */
} dlk_op_info;

DLK_API dlk_status dlk_op_get_info(dlk_context *context, const dlk_op *op, dlk_op_info *out);
/* Writes up to `capacity` operations, ordered by name, and the number that there are to *out_count (out may be NULL when
 * capacity is 0). */
DLK_API dlk_status dlk_op_list(dlk_context *context, const dlk_op **out, int capacity, int *out_count);

/* ---- Launch ------------------------------------------------------------------------------------------------------ */

/* Any valid DLTensor is an input: NULL strides (row-major), negative, zero and overlapping strides, any byte_offset and
 * address, 0-d, empty (data may be NULL), up to 64 dimensions, lanes > 1 (an inner axis more).
 *
 * `owner` and `legacy` are for callers that hand the tensor over: consumed, that is, the deleter is called exactly once,
 * as soon as the work no longer needs the tensor, on failure too. With an owner `tensor` may be NULL: the owner's tensor
 * and flags are meant. An owner of a DLPack major version that dlk does not know is released unread, with an error. */
typedef struct dlk_input {
    const DLTensor *tensor;          /* borrowed; NULL (and no owner): `scalar` is the input */
    DLManagedTensorVersioned *owner; /* NULL, or consumed */
    DLManagedTensor *legacy;         /* the same in DLPack's form before 1.0 */
    uint64_t flags;                  /* DLPACK_FLAG_BITMASK_*: read-only, padded sub-byte */
    dlk_scalar scalar;
} dlk_input;

typedef struct dlk_output {
    const DLTensor *tensor;           /* written into: of the result's shape, never broadcast; NULL: allocated */
    uint64_t flags;                   /* as above; a read-only output is an error */
    DLManagedTensorVersioned *result; /* set when allocated; the caller's: call its deleter */
} dlk_output;

typedef struct dlk_params {
    size_t size;         /* sizeof(dlk_params); zero the rest */
    const int32_t *axes; /* to reduce, negative from the end; NULL: all. n_axes 0 with axes set: none */
    int32_t n_axes;
    int32_t keepdims;
    DLDataType dtype; /* computed and returned in; bits 0: not given */
    int32_t saturate; /* float to fp8: the largest value instead of NaN */
    int32_t n_scalars;
    const dlk_named_scalar *scalars; /* named parameters of the definition, as eps, correction */
    const dlk_input *where;          /* reductions: bool, broadcast against the input; NULL: everything. Not consumed */
    dlk_scalar initial;              /* reductions: joined on the left; NONE: not given */
    const char *implementation;      /* NULL: the best one; "definition": dlk's own kernel */
    void *stream;                    /* of the device; NULL: its default */
    DLPackManagedTensorAllocator allocator; /* for results; NULL: dlk's pool */
} dlk_params;

/* Runs `op`. Results are as if all inputs were read before anything is written, whatever overlaps; an output that overlaps
 * itself (two of its elements share memory) is an error. An output of another dtype than the result's takes a cast of the
 * same kind, rounded once, else it is an error. Allocated results are dense, in the inputs' axis order, with byte_offset 0
 * and strides filled in; they outlive the context. On the CPU the work is done when this returns. A warm launch allocates
 * nothing but its results and takes no global lock. */
DLK_API dlk_status dlk_launch(dlk_context *context, const dlk_op *op, const dlk_input *inputs, int n_inputs,
                              dlk_output *outputs, int n_outputs, const dlk_params *opt_params);

#define DLK_NDIM_MAX 64

typedef struct dlk_tensor_spec { /* a tensor without memory */
    DLDataType dtype;
    DLDevice device;
    int32_t ndim;
    int64_t shape[DLK_NDIM_MAX];
    int64_t strides[DLK_NDIM_MAX]; /* elements, of the layout that dlk_launch would allocate */
} dlk_tensor_spec;

/* What dlk_launch would allocate, without running or compiling anything: dtype, shape and layout of each output. Data is
 * not read; the tensors' data may be NULL. Owners are not consumed. n_outputs must be the operation's. */
DLK_API dlk_status dlk_infer(dlk_context *context, const dlk_op *op, const dlk_input *inputs, int n_inputs,
                             dlk_tensor_spec *outputs, int n_outputs, const dlk_params *opt_params);

/* ---- Launch, the common cases ------------------------------------------------------------------------------------ */

/* One result from one or two tensors, by name. *out is the caller's. */
DLK_API dlk_status dlk_unary(dlk_context *context, const char *name, const DLTensor *x, DLManagedTensorVersioned **out);
DLK_API dlk_status dlk_binary(dlk_context *context, const char *name, const DLTensor *x, const DLTensor *y,
                              DLManagedTensorVersioned **out);
/* A reduction, or a row operation as softmax, over `n_axes` axes; axes NULL: all. */
DLK_API dlk_status dlk_reduce(dlk_context *context, const char *name, const DLTensor *x, const int32_t *axes,
                              int n_axes, int keepdims, DLManagedTensorVersioned **out);

/* Makers of inputs. */
static inline dlk_input dlk_input_tensor(const DLTensor *tensor)
{
    dlk_input input = {NULL, NULL, NULL, 0, {DLK_SCALAR_NONE, {0}}};
    input.tensor = tensor;
    return input;
}
static inline dlk_input dlk_input_managed(DLManagedTensorVersioned *owner) /* consumed by the launch */
{
    dlk_input input = dlk_input_tensor(NULL);
    input.owner = owner;
    return input;
}
static inline dlk_input dlk_input_legacy(DLManagedTensor *owner) /* consumed by the launch */
{
    dlk_input input = dlk_input_tensor(NULL);
    input.legacy = owner;
    return input;
}
static inline dlk_input dlk_input_int(int64_t value)
{
    dlk_input input = dlk_input_tensor(NULL);
    input.scalar.kind = DLK_SCALAR_INT;
    input.scalar.value.i = value;
    return input;
}
static inline dlk_input dlk_input_float(double value)
{
    dlk_input input = dlk_input_tensor(NULL);
    input.scalar.kind = DLK_SCALAR_FLOAT;
    input.scalar.value.f = value;
    return input;
}
/* Calls the deleter of a tensor; NULL, and a tensor without one, are no-ops. */
static inline void dlk_release(DLManagedTensorVersioned *tensor)
{
    if (tensor && tensor->deleter)
        tensor->deleter(tensor);
}

/* ---- Memory ------------------------------------------------------------------------------------------------------ */

/* A tensor of dlk's pool with the dtype, shape and device of `prototype`, uninitialised; its data and byte_offset are
 * ignored. Dense: row-major when the prototype's strides are NULL, else in the order of those strides. Aligned to 64
 * bytes. *out is the caller's; the memory goes back to the pool when its deleter is called. */
DLK_API dlk_status dlk_tensor_alloc(dlk_context *context, const DLTensor *prototype, DLManagedTensorVersioned **out);

/* ---- Plans: prepare once, run with pointers alone ---------------------------------------------------------------- */

/* A launch with everything decided but the addresses: checked, planned, compiled. */
typedef struct dlk_plan dlk_plan;

/* The tensors' data may be NULL: dtype, shape, strides and flags count. An output whose tensor is NULL has the layout that
 * dlk_launch would allocate (dlk_plan_output tells it). Scalars keep the values given here. Owners are not consumed. */
DLK_API dlk_status dlk_plan_create(dlk_context *context, const dlk_op *op, const dlk_input *inputs, int n_inputs,
                                   const dlk_output *outputs, int n_outputs, const dlk_params *opt_params,
                                   dlk_plan **out);
/* Runs it on element (0, ..., 0) of each operand, in launch order (a scalar input's pointer is ignored); params.where, when
 * given, comes behind the other inputs. Outputs are never allocated. Any address is right, also unaligned ones and outputs
 * that overlap inputs: the result is dlk_launch's. One plan may run in many threads at once. */
DLK_API dlk_status dlk_plan_run(const dlk_plan *plan, void *const *inputs, void *const *outputs);
/* What output `index` looks like. */
DLK_API dlk_status dlk_plan_output(const dlk_plan *plan, int index, dlk_tensor_spec *out);
DLK_API void dlk_plan_destroy(dlk_plan *plan); /* NULL is a no-op; no thread may be running it */

/* ---- Native implementations -------------------------------------------------------------------------------------- */

/* An implementation of an operation that is a C function: a vendor's kernel, a framework's own, an algorithm that is no
 * formula. It is called with tensors that were checked: strides filled in, one device, its dtypes; inputs are not
 * broadcast and never have lanes; weak scalars stay scalars; outputs have the result's shape and dtype and share no byte
 * with an input unless they are the very same elements. `params` has been checked too and is never NULL; its axes are
 * sorted, unique and not negative. The function must have finished (or be on params->stream) when it returns; it returns
 * DLK_OK, or a status after dlk_set_error. It is called from any thread. */
typedef dlk_status (*dlk_native_function)(void *user, const dlk_input *inputs, int n_inputs, const DLTensor *outputs,
                                          int n_outputs, const dlk_params *params);

typedef struct dlk_native {
    size_t size;           /* sizeof(dlk_native) */
    const char *operation; /* that exists: its definition says shapes and dtypes of the results; copied */
    const char *name;      /* "openblas": what params.implementation and option IMPLEMENTATION call it; copied */
    DLDeviceType device_type;
    int32_t priority;         /* the highest wins; the definition has 0, so a negative one runs only by name */
    const DLDataType *dtypes; /* that each tensor input may have; copied */
    int32_t n_dtypes;         /* 0: all */
    dlk_native_function run;
    void *user;                  /* given to `run` */
    void (*destroy)(void *user); /* NULL, or called when the implementation goes away with its context */
} dlk_native;

/* DLK_ERR_INVALID when the operation has one of that name already. `user` is the library's from success on. */
DLK_API dlk_status dlk_register(dlk_context *context, const dlk_native *native);
/* For native implementations: sets the thread's message and returns `status`. */
DLK_API dlk_status dlk_set_error(dlk_status status, const char *message);

/* ---- Devices ----------------------------------------------------------------------------------------------------- */

typedef struct dlk_device_info {
    DLDevice device;
    char backend[16];      /* "cpu", "interp" */
    char name[64];         /* of the processor */
    char target[32];       /* what kernels are compiled for: "x86-64-v3" */
    char description[256]; /* a line for people: threads, caches; or why it cannot compile */
    int32_t is_available;  /* 0: description says what is missing */
} dlk_device_info;

/* Writes up to `capacity` devices, and the number that there are to *out_count (out may be NULL when capacity is 0). */
DLK_API dlk_status dlk_device_list(dlk_context *context, dlk_device_info *out, int capacity, int *out_count);

/* ---- Options ----------------------------------------------------------------------------------------------------- */

/* Options have lower-case names, as "num_threads"; `dlk options` lists them. Each starts as the environment variable
 * DLK_<NAME> says, read once, or at its default. `value` is copied; NULL goes back to the starting value. An unknown name
 * or a value that the option does not take changes nothing. Thread-safe; launches that follow see the new value. */
DLK_API dlk_status dlk_option_set(const char *name, const char *value);
/* The value as text, never freed; NULL with a message when there is no such option. */
DLK_API const char *dlk_option_get(const char *name);

typedef struct dlk_option_info { /* strings are never freed */
    const char *name;            /* "num_threads" */
    const char *variable;        /* "DLK_NUM_THREADS" */
    const char *value;           /* now */
    const char *unit;            /* "" for none */
    const char *documentation;
} dlk_option_info;

/* Writes up to `capacity` options, and the number that there are to *out_count (out may be NULL when capacity is 0). */
DLK_API dlk_status dlk_option_list(dlk_option_info *out, int capacity, int *out_count);

/* ---- Names of dtypes --------------------------------------------------------------------------------------------- */

/* The dtype called `name`, in full or short: "float32", "f32", "bfloat16", "bf16", "bool", "c64". DLK_ERR_DTYPE lists the
 * names that there are. */
DLK_API dlk_status dlk_dtype_parse(const char *name, DLDataType *out);

/* ---- Cache and counters ------------------------------------------------------------------------------------------ */

typedef struct dlk_counters {  /* since the context was made; sums over all threads */
    size_t size;               /* sizeof(dlk_counters) */
    uint64_t launches;         /* dlk_launch and dlk_plan_run that succeeded */
    uint64_t plan_hits;        /* launches that found a ready plan */
    uint64_t plan_misses;      /* launches that had to plan */
    uint64_t kernel_hits;      /* kernels that a new plan found ready */
    uint64_t compiles;         /* kernels that were compiled: one for each signature */
    uint64_t compile_waits;    /* threads that waited for another's compile of the kernel they needed */
    uint64_t compile_ns;       /* time spent in compiles */
    uint64_t kernels;          /* kernels held now */
    uint64_t native_runs;      /* launches that ran a native implementation */
    uint64_t heap_allocations; /* of the whole process, by dlk; a warm launch makes none */
    uint64_t results;          /* tensors allocated: results and dlk_tensor_alloc; whole process, as what follows */
    uint64_t result_maps;      /* of these, how many took fresh memory from the system */
    uint64_t pool_bytes;       /* memory that the pool keeps for reuse now */
    uint64_t live_bytes;       /* memory of tensors handed out and not yet released */
} dlk_counters;

DLK_API dlk_status dlk_counters_get(dlk_context *context, dlk_counters *out);
/* Forgets plans and kernels, and gives the pool's unused memory back to the system. Launches that run meanwhile finish with
 * what they have; later ones compile again. */
DLK_API dlk_status dlk_cache_clear(dlk_context *context);

/* ---- Looking inside ---------------------------------------------------------------------------------------------- */

/* The text of one stage of what dlk_launch would do with these arguments: "signature", "plan", "prog" (the scalar program),
 * "ir", "source" (what the compiler gets), "asm". A launch of several kernels gives them one after the other. Nothing is
 * run, no data is read: tensors' data may be NULL. Owners are not consumed. *out is freed with dlk_text_free. */
DLK_API dlk_status dlk_dump(dlk_context *context, const dlk_op *op, const dlk_input *inputs, int n_inputs,
                            const dlk_output *outputs, int n_outputs, const dlk_params *opt_params, const char *stage,
                            char **out);
DLK_API void dlk_text_free(char *text); /* NULL is a no-op */

#ifdef __cplusplus
}
#endif

#endif /* DLK_DLK_H */
