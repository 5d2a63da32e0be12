/* The arguments of a launch as they were given, brought into one row of tensors: what the caller may leave out is filled in,
 * owners are resolved to their tensors. Nothing of the tensors is checked here but that there are some. */
#ifndef DLK_RUNTIME_ARGUMENTS_H
#define DLK_RUNTIME_ARGUMENTS_H

#include "kernels/view.h"
#include "runtime/context.h"

typedef struct dlk_arguments {
    dlk_context *context;
    const dlk_op *op;
    const dlk_input *inputs;
    const dlk_output *outputs;
    int n_inputs, n_outputs;
    dlk_params params;
    int n_tensors; /* the inputs that are tensors, then `where` */
    const DLTensor *tensors[DLK_OPERANDS_MAX];
    uint64_t flags[DLK_OPERANDS_MAX];
    dlk_argument names[DLK_OPERANDS_MAX];
    bool needs_data; /* it will run: elements must have memory */
} dlk_arguments;

dlk_status dlk_arguments_read(dlk_context *context, const dlk_op *op, const dlk_input *inputs, int n_inputs,
                              const dlk_output *outputs, int n_outputs, const dlk_params *opt_params, bool needs_data,
                              dlk_arguments *out);

/* Calls the deleters of all inputs that were handed over. */
void dlk_arguments_release(const dlk_input *inputs, int n_inputs);

/* Where element (0, ..., 0) is; NULL when that overflows. */
static inline char *dlk_tensor_address(const DLTensor *tensor)
{
    const uintptr_t base = (uintptr_t)tensor->data;
    return tensor->byte_offset > UINTPTR_MAX - base ? NULL : (char *)(base + (uintptr_t)tensor->byte_offset);
}

#endif
