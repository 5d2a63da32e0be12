/* Reads the arguments of a launch. */
#include "runtime/arguments.h"

#include <string.h>

static dlk_status check_version(const dlk_input *input, int index)
{
    if (input->owner && input->owner->version.major != DLPACK_MAJOR_VERSION)
        return dlk_fail(DLK_ERR_INVALID, "input %d: owner is of DLPack version %u.%u; expected %u.x", index,
                        (unsigned)input->owner->version.major, (unsigned)input->owner->version.minor,
                        (unsigned)DLPACK_MAJOR_VERSION);
    return DLK_OK;
}

static void add_tensor(dlk_arguments *out, const DLTensor *tensor, uint64_t flags, dlk_argument name)
{
    out->tensors[out->n_tensors] = tensor;
    out->flags[out->n_tensors] = flags;
    out->names[out->n_tensors++] = name;
}

static dlk_status read_input(dlk_arguments *out, const dlk_input *input, dlk_argument name)
{
    if (input->tensor) {
        add_tensor(out, input->tensor, input->flags, name);
    } else if (input->owner) {
        add_tensor(out, &input->owner->dl_tensor, input->flags | input->owner->flags, name);
    } else if (input->legacy) {
        add_tensor(out, &input->legacy->dl_tensor, input->flags, name);
    } else if (input->scalar.kind < DLK_SCALAR_BOOL || input->scalar.kind > DLK_SCALAR_COMPLEX) {
        return dlk_fail(DLK_ERR_INVALID, "input %d: tensor is NULL and scalar.kind is %d; expected one of them",
                        name.index, (int)input->scalar.kind);
    }
    return DLK_OK;
}

static dlk_status read_where(dlk_arguments *out)
{
    const dlk_input *where = out->params.where;
    if (!where)
        return DLK_OK;
    if (!where->tensor && !where->owner && !where->legacy)
        return dlk_fail(DLK_ERR_INVALID, "where: tensor is NULL; expected a tensor of bool");
    if (out->n_tensors == DLK_OPERANDS_MAX)
        return dlk_fail(DLK_ERR_INVALID, "more than %d tensors with where", DLK_OPERANDS_MAX);
    DLK_TRY(check_version(where, -1));
    return read_input(out, where, (dlk_argument){"where", -1});
}

static dlk_status read_params(const dlk_params *given, dlk_params *out)
{
    memset(out, 0, sizeof *out);
    if (!given)
        return DLK_OK;
    if (given->size < sizeof given->size)
        return dlk_fail(DLK_ERR_INVALID, "params.size is %zu; expected sizeof(dlk_params)", given->size);
    memcpy(out, given, given->size < sizeof *out ? given->size : sizeof *out);
    if (out->n_axes < 0 || (out->n_axes && !out->axes))
        return dlk_fail(DLK_ERR_INVALID, "params.n_axes is %d with axes %s", (int)out->n_axes,
                        out->axes ? "set" : "NULL");
    if (out->n_scalars < 0 || out->n_scalars > DLK_PARAMETERS_MAX || (out->n_scalars && !out->scalars))
        return dlk_fail(DLK_ERR_INVALID, "params.n_scalars is %d with scalars %s; expected 0 to %d",
                        (int)out->n_scalars, out->scalars ? "set" : "NULL", DLK_PARAMETERS_MAX);
    for (int i = 0; i < out->n_scalars; i++)
        if (!out->scalars[i].name || out->scalars[i].value.kind < DLK_SCALAR_BOOL ||
            out->scalars[i].value.kind > DLK_SCALAR_COMPLEX)
            return dlk_fail(DLK_ERR_INVALID, "params.scalars[%d]: %s", i,
                            out->scalars[i].name ? "value.kind is none that there is" : "name is NULL");
    return DLK_OK;
}

dlk_status dlk_arguments_read(dlk_context *context, const dlk_op *op, const dlk_input *inputs, int n_inputs,
                              const dlk_output *outputs, int n_outputs, const dlk_params *opt_params, bool needs_data,
                              dlk_arguments *out)
{
    if (!op)
        return dlk_fail(DLK_ERR_INVALID, "op is NULL");
    if (n_inputs < 0 || (n_inputs && !inputs) || n_outputs < 0 || (n_outputs && !outputs))
        return dlk_fail(DLK_ERR_INVALID, "%d inputs and %d outputs, the arrays %s", n_inputs, n_outputs,
                        n_inputs && !inputs ? "inputs NULL" : "outputs NULL");
    if (n_inputs + n_outputs > DLK_OPERANDS_MAX)
        return dlk_fail(DLK_ERR_INVALID, "%d inputs and outputs; expected at most %d", n_inputs + n_outputs,
                        DLK_OPERANDS_MAX);
    DLK_TRY(dlk_context_get(context, &out->context));
    out->op = op;
    out->inputs = inputs;
    out->outputs = outputs;
    out->n_inputs = n_inputs;
    out->n_outputs = n_outputs;
    out->n_tensors = 0;
    out->needs_data = needs_data;
    DLK_TRY(read_params(opt_params, &out->params));
    for (int i = 0; i < n_inputs; i++) {
        DLK_TRY(check_version(&inputs[i], i));
        DLK_TRY(read_input(out, &inputs[i], (dlk_argument){"input", i}));
    }
    return read_where(out);
}

void dlk_arguments_release(const dlk_input *inputs, int n_inputs)
{
    for (int i = 0; inputs && i < n_inputs; i++) {
        if (inputs[i].owner && inputs[i].owner->deleter)
            inputs[i].owner->deleter(inputs[i].owner);
        if (inputs[i].legacy && inputs[i].legacy->deleter)
            inputs[i].legacy->deleter(inputs[i].legacy);
    }
}
