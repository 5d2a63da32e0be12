/* What the API offers around a launch: inference, the short forms, tensors from the pool, dumps. */
#include <string.h>

#include "base/alloc.h"
#include "kernels/domain.h"
#include "runtime/dump.h"
#include "runtime/memory.h"
#include "runtime/prepare.h"

/* ---- Inference --------------------------------------------------------------------------------------------------- */

void dlk_prepared_spec(const dlk_prepared *prepared, int index, dlk_tensor_spec *out)
{
    const dlk_result *r = &prepared->plan->results[index];
    memset(out, 0, sizeof *out);
    out->dtype = dlk_dtype_to_dl((dlk_dtype)r->dtype);
    out->device = (DLDevice){kDLCPU, 0};
    out->ndim = r->ndim;
    const int n = r->ndim < DLK_NDIM_MAX ? r->ndim : DLK_NDIM_MAX;
    memcpy(out->shape, r->shape, sizeof *r->shape * (size_t)n);
    memcpy(out->strides, r->strides, sizeof *r->strides * (size_t)n);
}

dlk_status dlk_infer(dlk_context *context, const dlk_op *op, const dlk_input *inputs, int n_inputs,
                     dlk_tensor_spec *outputs, int n_outputs, const dlk_params *opt_params)
{
    if (n_outputs < 0 || n_outputs > DLK_OPERANDS_MAX || (n_outputs && !outputs))
        return dlk_fail(DLK_ERR_INVALID, "dlk_infer: n_outputs is %d with outputs %s", n_outputs,
                        outputs ? "set" : "NULL");
    const dlk_output none[DLK_OPERANDS_MAX] = {{0}};
    dlk_arguments arguments;
    dlk_prepared *prepared;
    DLK_TRY(dlk_arguments_read(context, op, inputs, n_inputs, none, n_outputs, opt_params, false, &arguments));
    DLK_TRY(dlk_prepare(&arguments, DLK_PREPARE_RESULTS, &prepared));
    for (int k = 0; k < n_outputs; k++)
        dlk_prepared_spec(prepared, k, &outputs[k]);
    dlk_prepared_release(prepared);
    return DLK_OK;
}

/* ---- Short forms ------------------------------------------------------------------------------------------------- */

static dlk_status call(dlk_context *context, const char *name, const DLTensor *const *tensors, int n,
                       const dlk_params *params, DLManagedTensorVersioned **out)
{
    const dlk_op *op;
    if (!out)
        return dlk_fail(DLK_ERR_INVALID, "%s: out is NULL", name ? name : "dlk");
    DLK_TRY(dlk_find(context, name, &op));
    dlk_input inputs[2];
    dlk_output output = {NULL, 0, NULL};
    for (int i = 0; i < n; i++)
        inputs[i] = dlk_input_tensor(tensors[i]);
    DLK_TRY(dlk_launch(context, op, inputs, n, &output, 1, params));
    *out = output.result;
    return DLK_OK;
}

dlk_status dlk_unary(dlk_context *context, const char *name, const DLTensor *x, DLManagedTensorVersioned **out)
{
    return call(context, name, &x, 1, NULL, out);
}

dlk_status dlk_binary(dlk_context *context, const char *name, const DLTensor *x, const DLTensor *y,
                      DLManagedTensorVersioned **out)
{
    const DLTensor *const tensors[2] = {x, y};
    return call(context, name, tensors, 2, NULL, out);
}

dlk_status dlk_reduce(dlk_context *context, const char *name, const DLTensor *x, const int32_t *axes, int n_axes,
                      int keepdims, DLManagedTensorVersioned **out)
{
    const dlk_params params = {.size = sizeof params, .axes = axes, .n_axes = n_axes, .keepdims = keepdims};
    return call(context, name, &x, 1, &params, out);
}

/* ---- Tensors ----------------------------------------------------------------------------------------------------- */

/* Dense strides, the axes in the view's order. */
static void dense_like(const dlk_view *view, int64_t *strides)
{
    uint8_t order[DLK_RANK_MAX];
    dlk_layout_order(&view, 1, view->ndim, order);
    dlk_dense_strides(view->shape, view->ndim, order, strides);
}

dlk_status dlk_tensor_alloc(dlk_context *context, const DLTensor *prototype, DLManagedTensorVersioned **out)
{
    (void)context;
    if (!prototype || !out)
        return dlk_fail(DLK_ERR_INVALID, "dlk_tensor_alloc: %s is NULL", prototype ? "out" : "prototype");
    DLTensor one_lane = *prototype; /* strides count whole elements, lanes and all */
    one_lane.data = NULL;
    one_lane.byte_offset = 0;
    one_lane.dtype.lanes = one_lane.dtype.lanes ? 1 : 0;
    const dlk_argument name = {"prototype", -1};
    dlk_view view;
    DLK_TRY(dlk_view_make(&one_lane, 0, name, false, &view));
    if (prototype->device.device_type != kDLCPU)
        return dlk_fail(DLK_ERR_DEVICE, "prototype: device.device_type is %d; expected %d, the host",
                        (int)prototype->device.device_type, (int)kDLCPU);
    int64_t strides[DLK_RANK_MAX], bytes;
    dense_like(&view, strides);
    if (!dlk_mul_i64(view.elements, (int64_t)view.bytes * prototype->dtype.lanes, &bytes))
        return dlk_fail(DLK_ERR_INVALID, "prototype: shape %s is beyond the address space",
                        dlk_shape_describe(view.shape, view.ndim, (char[DLK_VIEW_TEXT]){0}));
    const DLDevice host = {kDLCPU, 0};
    return dlk_memory_tensor(prototype->dtype, host, view.ndim, view.shape, strides, bytes, out);
}

/* ---- Dumps ------------------------------------------------------------------------------------------------------- */

static dlk_status dump_steps(const dlk_prepared *prepared, const char *stage, dlk_buffer *out)
{
    const dlk_launch_plan *plan = prepared->plan;
    if (prepared->native)
        dlk_buffer_printf(out, "implementation %s\n", prepared->native->name);
    for (int i = 0; i < plan->n_steps; i++) {
        if (plan->n_steps > 1)
            dlk_buffer_printf(out, "%sstep %d of %d\n", i ? "\n" : "", i + 1, plan->n_steps);
        DLK_TRY(dlk_dump_text(prepared->backend, &plan->steps[i].signature, plan->steps[i].prog, stage, out));
    }
    return DLK_OK;
}

static dlk_status dump(const dlk_arguments *arguments, const char *stage, dlk_buffer *out)
{
    const bool is_plan = !strcmp(stage, "plan");
    dlk_prepared *prepared;
    DLK_TRY(dlk_prepare(arguments, is_plan ? DLK_PREPARE_KERNELS : DLK_PREPARE_PLAN, &prepared));
    dlk_status status = DLK_OK;
    if (is_plan)
        dlk_launch_plan_print(prepared->plan, out);
    else
        status = dump_steps(prepared, stage, out);
    dlk_prepared_release(prepared);
    return status;
}

static dlk_status keep_text(const dlk_buffer *text, char **out)
{
    char *kept = dlk_alloc(text->size + 1);
    if (!kept)
        return dlk_fail(DLK_ERR_MEMORY, "out of memory dumping");
    if (text->size)
        memcpy(kept, text->data, text->size);
    *out = kept;
    return DLK_OK;
}

dlk_status dlk_dump(dlk_context *context, const dlk_op *op, const dlk_input *inputs, int n_inputs,
                    const dlk_output *outputs, int n_outputs, const dlk_params *opt_params, const char *stage,
                    char **out)
{
    if (!stage || !out)
        return dlk_fail(DLK_ERR_INVALID, "dlk_dump: %s is NULL", stage ? "out" : "stage");
    dlk_arguments arguments;
    DLK_TRY(dlk_arguments_read(context, op, inputs, n_inputs, outputs, n_outputs, opt_params, false, &arguments));
    dlk_arena arena = {0};
    dlk_buffer text = {.arena = &arena};
    dlk_status status = dump(&arguments, stage, &text);
    if (status == DLK_OK)
        status = keep_text(&text, out);
    dlk_arena_free(&arena);
    return status;
}

void dlk_text_free(char *text)
{
    dlk_free(text);
}
