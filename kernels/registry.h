/* Operations by name: the library's, parsed from the embedded texts on first use and shared by all contexts, and over
 * them the definitions and native implementations of one context. */
#ifndef DLK_KERNELS_REGISTRY_H
#define DLK_KERNELS_REGISTRY_H

#include <stdatomic.h>

#include "base/hash.h"
#include "base/status.h"

#define DLK_PARAMETERS_MAX 16 /* named scalars of one operation */

typedef struct dlk_overloads dlk_overloads; /* parse.h: all definitions of one name */

/* What an operation means, at one time: never changes, lives as long as its registry. Defining a name again makes new
 * versions of all operations that reach it. */
typedef struct dlk_op_version {
    const char *name;
    const dlk_overloads *overloads;
    const dlk_overloads *const *reached; /* every name of the context (not of the library) that the formulas reach */
    int n_reached;
    dlk_hash closure; /* of the texts of the definition and of all that it calls: part of every kernel's key */
    int n_inputs, n_parameters;
    const char *const *input_names;
    const char *const *parameter_names;
    const dlk_scalar *parameter_defaults; /* kind NONE: must be given */
    const char *documentation, *signature, *formula;
} dlk_op_version;

/* A native implementation; the definition itself is the implementation "definition" with priority 0, for all dtypes and
 * devices, and is not in the list. */
typedef struct dlk_implementation {
    const char *name;
    int32_t device_type; /* DLDeviceType */
    int32_t priority;
    const DLDataType *dtypes; /* that each tensor input may have; none: all */
    int n_dtypes;
    dlk_native_function run;
    void *user;
    void (*destroy)(void *user);
    struct dlk_implementation *next; /* by falling priority */
} dlk_implementation;

struct dlk_op {
    const char *name;
    struct dlk_registry *registry;
    _Atomic(const dlk_op_version *) version;
    _Atomic(const dlk_implementation *) implementations;
    _Atomic(const void *) description; /* the registry's own */
    struct dlk_op *next;               /* of the registry, newest first */
};

typedef struct dlk_registry dlk_registry;

dlk_status dlk_registry_create(dlk_registry **out);
void dlk_registry_destroy(dlk_registry *registry); /* calls the destroy of every native implementation */

/* Thread-safe, all of them. */
dlk_status dlk_registry_find(dlk_registry *registry, const char *name, const dlk_op **out);
dlk_status dlk_registry_define(dlk_registry *registry, const char *text, const dlk_op **opt_out);
dlk_status dlk_registry_register(dlk_registry *registry, const dlk_native *native);
dlk_status dlk_registry_list(dlk_registry *registry, const dlk_op **out, int capacity, int *out_count);
/* Changes whenever an operation of the registry gets a new version or implementation. */
uint64_t dlk_registry_epoch(const dlk_registry *registry);

static inline const dlk_op_version *dlk_op_get_version(const dlk_op *op)
{
    return atomic_load_explicit(&((dlk_op *)op)->version, memory_order_acquire);
}
/* The list's first, or NULL. */
static inline const dlk_implementation *dlk_op_get_implementations(const dlk_op *op)
{
    return atomic_load_explicit(&((dlk_op *)op)->implementations, memory_order_acquire);
}
/* What needs trial builds to know: the kind, the number of outputs, the names of the dtypes that all inputs may have
 * together (with blanks between). Kept with the operation; valid as long as the version. */
dlk_status dlk_op_describe(const dlk_op *op, dlk_op_kind *out_kind, int *out_n_outputs, const char **out_dtypes);

#endif
