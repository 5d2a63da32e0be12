/* A launch made ready: checked, typed, planned, its kernels compiled. What is left to run it are addresses and values. */
#ifndef DLK_RUNTIME_PREPARE_H
#define DLK_RUNTIME_PREPARE_H

#include "runtime/arguments.h"
#include "runtime/kernel.h"

typedef struct dlk_prepared {
    _Atomic int references;
    dlk_arena arena; /* the plan, and what is below */
    dlk_launch_plan *plan;
    dlk_kernel **kernels; /* one a step */
    dlk_program *program; /* of PREPARE_PLAN: the steps refer to it; NULL else */
    const dlk_backend *backend;
    const dlk_op_version *version;        /* as long as the context */
    const dlk_implementation *native;     /* NULL: the definition */
    int parameter_at[DLK_PARAMETERS_MAX]; /* by parameter: its place in params.scalars, or -1: the default */
    dlk_view *views;                      /* of the tensors, for native implementations; NULL else */
    uint8_t *misaligned;                  /* by tensor, then output: bits of an address that the kernels need to be 0 */
} dlk_prepared;

typedef enum dlk_prepare_depth {
    DLK_PREPARE_RESULTS, /* what dlk_infer needs: no kernels */
    DLK_PREPARE_PLAN,    /* steps with signatures, for dumps */
    DLK_PREPARE_KERNELS
} dlk_prepare_depth;

/* One reference is the caller's. */
dlk_status dlk_prepare(const dlk_arguments *arguments, dlk_prepare_depth depth, dlk_prepared **out);
dlk_prepared *dlk_prepared_hold(dlk_prepared *prepared);
void dlk_prepared_release(dlk_prepared *prepared); /* NULL is a no-op */

/* What output `index` looks like. */
void dlk_prepared_spec(const dlk_prepared *prepared, int index, dlk_tensor_spec *out);

/* Whether it is right for these addresses (inputs: tensors, then where; outputs: NULL for allocated ones): equally
 * aligned, overlapping in the same way, within the address space. */
bool dlk_prepared_fits(const dlk_prepared *prepared, char *const *inputs, char *const *outputs);

/* Runs it. The addresses fit; scalars come from the arguments. */
dlk_status dlk_prepared_run(const dlk_prepared *prepared, const dlk_arguments *arguments, char *const *inputs,
                            char *const *outputs);

#endif
