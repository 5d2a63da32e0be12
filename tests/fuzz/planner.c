/* Fuzz target: the planner. Any operation with any tensors is planned or refused with a message, without compiling
 * anything; what is promised for the result is a valid tensor, and the same promise is made again as a given output. */
#include "tests/fuzz/fuzz.h"

#include "dlk/dlk.h"

enum { OPS_MAX = 1024, INPUTS_MAX = 6, RANK_MAX = 6 };

typedef struct made {
    DLTensor tensor;
    int64_t shape[RANK_MAX], strides[RANK_MAX];
} made;

static const dlk_op *ops[OPS_MAX];
static int n_ops;

static void list_ops(void)
{
    if (n_ops)
        return;
    FUZZ_CHECK(dlk_op_list(NULL, ops, OPS_MAX, &n_ops) == DLK_OK && n_ops > 0 && n_ops <= OPS_MAX);
}

static DLDataType make_dtype(fuzz_bytes *in)
{
    static const char *const names[] = {"f32", "f64",  "i8", "f16", "i64", "bool",
                                        "u64", "bf16", "u8", "i32", "c64", "c128"};
    DLDataType dtype;
    FUZZ_CHECK(dlk_dtype_parse(names[fuzz_choice(in, 12)], &dtype) == DLK_OK);
    return dtype;
}

/* Shapes mostly fit each other: extents come from one small list, so that the planner is reached and not only its door. */
static void make_tensor(fuzz_bytes *in, const int64_t *extents, made *out)
{
    memset(out, 0, sizeof *out);
    out->tensor.dtype = make_dtype(in);
    out->tensor.device.device_type = kDLCPU;
    out->tensor.ndim = fuzz_choice(in, RANK_MAX + 1);
    out->tensor.shape = out->shape;
    const uint8_t how = fuzz_byte(in);
    out->tensor.strides = how & 1 ? out->strides : NULL;
    int64_t step = 1;
    for (int i = out->tensor.ndim - 1; i >= 0; i--) {
        const int from_right = out->tensor.ndim - 1 - i;
        out->shape[i] = how & 2 && fuzz_byte(in) & 1 ? 1 : extents[from_right];
        if (how & 8)
            out->shape[i] = fuzz_int(in);
        out->strides[i] = how & 4 ? fuzz_int(in) : step;
        if (__builtin_mul_overflow(step, out->shape[i], &step))
            step = 1;
    }
}

static dlk_scalar make_scalar(fuzz_bytes *in)
{
    dlk_scalar scalar = {.kind = DLK_SCALAR_INT, .value = {.i = fuzz_int(in)}};
    const int kind = fuzz_choice(in, 6);
    if (kind == 1) {
        scalar.kind = DLK_SCALAR_FLOAT;
        scalar.value.f = (double)fuzz_int(in) / 3;
    } else if (kind == 2) {
        scalar.kind = DLK_SCALAR_BOOL;
        scalar.value.i &= 1;
    } else if (kind == 3) {
        scalar.kind = DLK_SCALAR_COMPLEX;
        scalar.value.c[0] = 1;
        scalar.value.c[1] = (double)fuzz_int(in);
    }
    return scalar;
}

static void make_params(fuzz_bytes *in, int32_t axes[RANK_MAX], dlk_params *out)
{
    const uint8_t how = fuzz_byte(in);
    memset(out, 0, sizeof *out);
    out->size = sizeof *out;
    if (how & 1) {
        out->axes = axes;
        out->n_axes = fuzz_choice(in, RANK_MAX + 1);
        for (int i = 0; i < out->n_axes; i++)
            axes[i] = (int32_t)fuzz_int(in);
    }
    out->keepdims = how >> 1 & 1;
    if (how & 4)
        out->dtype = make_dtype(in);
    if (how & 8)
        out->initial = make_scalar(in);
    out->saturate = how >> 4 & 1;
}

static void check_spec(const dlk_tensor_spec *spec)
{
    FUZZ_CHECK(spec->ndim >= 0 && spec->ndim <= DLK_NDIM_MAX && spec->dtype.bits && spec->dtype.lanes == 1);
    FUZZ_CHECK(spec->device.device_type == kDLCPU);
    for (int i = 0; i < spec->ndim; i++)
        FUZZ_CHECK(spec->shape[i] >= 0 && spec->strides[i] >= 0);
}

typedef struct request {
    const dlk_op *op;
    dlk_input inputs[INPUTS_MAX];
    int n_inputs;
    dlk_params params;
    dlk_output outputs[INPUTS_MAX];
    int n_outputs;
} request;

/* The plan, as text, for the outputs of `r`. */
static dlk_status plan(const request *r)
{
    char *text = NULL;
    const dlk_status status =
        dlk_dump(NULL, r->op, r->inputs, r->n_inputs, r->outputs, r->n_outputs, &r->params, "plan", &text);
    FUZZ_CHECK((status == DLK_OK) == (text != NULL));
    FUZZ_CHECK(status == DLK_OK || *dlk_last_error());
    dlk_text_free(text);
    return status;
}

static void check(request *r)
{
    dlk_tensor_spec specs[INPUTS_MAX];
    DLTensor given[INPUTS_MAX];
    const dlk_status inferred = dlk_infer(NULL, r->op, r->inputs, r->n_inputs, specs, r->n_outputs, &r->params);
    if (inferred != DLK_OK) {
        FUZZ_CHECK(*dlk_last_error());
        FUZZ_CHECK(plan(r) != DLK_OK);
        return;
    }
    const dlk_status planned = plan(r);
    for (int i = 0; i < r->n_outputs; i++) {
        check_spec(&specs[i]);
        given[i] = (DLTensor){.device = specs[i].device,
                              .ndim = specs[i].ndim,
                              .dtype = specs[i].dtype,
                              .shape = specs[i].shape,
                              .strides = specs[i].strides};
        r->outputs[i].tensor = &given[i];
    }
    FUZZ_CHECK(plan(r) == planned);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static made tensors[INPUTS_MAX];
    fuzz_bytes in = {data, size};
    int32_t axes[RANK_MAX];
    int64_t extents[RANK_MAX];
    list_ops();
    request r = {.op = ops[(fuzz_byte(&in) << 8 | fuzz_byte(&in)) % n_ops]};
    dlk_op_info info = {.size = sizeof info};
    if (dlk_op_get_info(NULL, r.op, &info) != DLK_OK || info.n_inputs > INPUTS_MAX || info.n_outputs > INPUTS_MAX)
        return 0;
    for (int i = 0; i < RANK_MAX; i++)
        extents[i] = fuzz_choice(&in, 8) ? 1 + fuzz_byte(&in) % 40 : fuzz_int(&in);
    r.n_inputs = info.n_inputs;
    r.n_outputs = info.n_outputs;
    for (int i = 0; i < r.n_inputs; i++) {
        r.inputs[i] = dlk_input_tensor(NULL);
        if (fuzz_choice(&in, 8) == 7) {
            r.inputs[i].scalar = make_scalar(&in);
            continue;
        }
        make_tensor(&in, extents, &tensors[i]);
        r.inputs[i].tensor = &tensors[i].tensor;
    }
    make_params(&in, axes, &r.params);
    check(&r);
    return 0;
}
