/* Launches from the outside: right results through the whole spine, and for every wrong input a status, a message that names
 * the field, nothing written and nothing kept. */
#include "tests/test.h"

#ifdef __SSE2__
#    include <xmmintrin.h>
#endif

#include "base/alloc.h"
#include "dlk/dlk.h"

/* ---- Helpers ----------------------------------------------------------------------------------------------------- */

static const DLDataType f32 = {kDLFloat, 32, 1}, f64 = {kDLFloat, 64, 1}, i32 = {kDLInt, 32, 1}, i64 = {kDLInt, 64, 1},
                        boolean = {kDLBool, 8, 1};

static DLTensor tensor(void *data, DLDataType dtype, int ndim, int64_t *shape, int64_t *strides)
{
    return (DLTensor){
        .data = data, .device = {kDLCPU, 0}, .ndim = ndim, .dtype = dtype, .shape = shape, .strides = strides};
}
#define AXES(...) ((int64_t[]){__VA_ARGS__})

static const dlk_op *op_of(const char *name)
{
    const dlk_op *op = NULL;
    CHECK_MSG(dlk_find(NULL, name, &op) == DLK_OK, "%s", dlk_last_error());
    return op;
}

static DLManagedTensorVersioned *call(const char *name, int n, const dlk_input *inputs, const dlk_params *params)
{
    dlk_output out = {NULL, 0, NULL};
    const dlk_status status = dlk_launch(NULL, op_of(name), inputs, n, &out, 1, params);
    CHECK_MSG(status == DLK_OK, "%s", dlk_last_error());
    return out.result;
}

static DLManagedTensorVersioned *call1(const char *name, const DLTensor *x, const dlk_params *params)
{
    const dlk_input in[1] = {dlk_input_tensor(x)};
    return call(name, 1, in, params);
}

static DLManagedTensorVersioned *call2(const char *name, const DLTensor *x, const DLTensor *y)
{
    const dlk_input in[2] = {dlk_input_tensor(x), dlk_input_tensor(y)};
    return call(name, 2, in, NULL);
}

static dlk_status add_into(const DLTensor *x, const DLTensor *y, const DLTensor *out, uint64_t flags)
{
    const dlk_input in[2] = {dlk_input_tensor(x), dlk_input_tensor(y)};
    dlk_output to = {out, flags, NULL};
    return dlk_launch(NULL, op_of("add"), in, 2, &to, 1, NULL);
}

static void check_error(dlk_status found, dlk_status expected, const char *words)
{
    CHECK_MSG(found == expected, "%s: %s", dlk_status_name(found), dlk_last_error());
    CHECK_MSG(strstr(dlk_last_error(), words), "'%s' lacks '%s'", dlk_last_error(), words);
}

#define F(t, i) (((float *)(t)->dl_tensor.data)[i])

/* ---- Right ones -------------------------------------------------------------------------------------------------- */

TEST(the_shortest_program)
{
    float a[3] = {1, 2, 3}, b[3] = {10, 20, 30};
    const DLTensor x = tensor(a, f32, 1, AXES(3), NULL), y = tensor(b, f32, 1, AXES(3), NULL);
    DLManagedTensorVersioned *sum = NULL;
    CHECK_MSG(dlk_binary(NULL, "add", &x, &y, &sum) == DLK_OK, "%s", dlk_last_error());
    CHECK(F(sum, 0) == 11 && F(sum, 1) == 22 && F(sum, 2) == 33);
    CHECK_INT(sum->version.major, 1);
    CHECK_INT(sum->flags, 0);
    CHECK_INT(sum->dl_tensor.ndim, 1);
    CHECK_INT(sum->dl_tensor.strides[0], 1);
    CHECK_INT(sum->dl_tensor.byte_offset, 0);
    CHECK_INT(sum->dl_tensor.device.device_type, kDLCPU);
    sum->deleter(sum);
}

/* reference/dlpack 4: NULL strides, rank 0, strides of extent 1, empty ones, byte_offset, negative strides. */
TEST(null_strides)
{
    float a[12], b[12];
    for (int i = 0; i < 12; i++)
        a[i] = (float)i, b[i] = 100;
    const DLTensor x = tensor(a, f32, 2, AXES(3, 4), NULL), y = tensor(b, f32, 2, AXES(3, 4), AXES(4, 1));
    DLManagedTensorVersioned *r = call2("add", &x, &y);
    for (int i = 0; i < 12; i++)
        CHECK(F(r, i) == 100 + (float)i);
    CHECK(r->dl_tensor.strides[0] == 4 && r->dl_tensor.strides[1] == 1);
    r->deleter(r);
}

TEST(rank_0)
{
    float a[4] = {1, 2, 3, 4};
    DLTensor x = tensor(a, f32, 0, NULL, NULL);
    x.byte_offset = 8;
    DLManagedTensorVersioned *r = call2("add", &x, &x);
    CHECK(F(r, 0) == 6);
    CHECK(r->dl_tensor.ndim == 0 && !r->dl_tensor.shape && !r->dl_tensor.strides);
    r->deleter(r);
}

TEST(strides_of_extent_1_share_a_kernel)
{
    float a[77] = {0};
    const DLTensor x = tensor(a, f32, 2, AXES(1, 77), AXES(1, 1)), y = tensor(a, f32, 2, AXES(1, 77), AXES(77, 1)),
                   z = tensor(a, f32, 2, AXES(77, 1), AXES(1, 1024));
    DLManagedTensorVersioned *r = call2("add", &x, &x);
    r->deleter(r);
    dlk_counters before = {.size = sizeof before}, after = before;
    CHECK_INT(dlk_counters_get(NULL, &before), DLK_OK);
    r = call2("add", &y, &x);
    r->deleter(r);
    r = call2("add", &z, &z);
    r->deleter(r);
    CHECK_INT(dlk_counters_get(NULL, &after), DLK_OK);
    CHECK_INT(after.compiles - before.compiles, 0);
}

TEST(empty_tensors)
{
    const DLTensor x = tensor(NULL, f32, 2, AXES(0, 3), AXES(3, 1)),
                   y = tensor(NULL, f32, 3, AXES(4, 0, 4), AXES(0, 4, 1)),
                   z = tensor((void *)8, f32, 3, AXES(4, 0, 4), AXES(0, 0, 0)),
                   w = tensor(NULL, f32, 1, AXES(0), AXES(999));
    DLManagedTensorVersioned *r = call2("add", &x, &x);
    CHECK(r->dl_tensor.shape[0] == 0 && r->dl_tensor.shape[1] == 3);
    r->deleter(r);
    r = call2("add", &y, &z);
    CHECK_INT(r->dl_tensor.ndim, 3);
    r->deleter(r);
    const int32_t axes[1] = {1};
    const dlk_params params = {.size = sizeof params, .axes = axes, .n_axes = 1};
    r = call1("sum", &y, &params);
    CHECK(r->dl_tensor.ndim == 2 && F(r, 0) == 0 && F(r, 15) == 0);
    r->deleter(r);
    r = call1("sum", &w, NULL);
    CHECK(F(r, 0) == 0);
    r->deleter(r);
    r = call1("prod", &w, NULL);
    CHECK(F(r, 0) == 1);
    r->deleter(r);
    r = call1("mean", &w, NULL);
    CHECK(isnan(F(r, 0)));
    r->deleter(r);
    const dlk_input in[1] = {dlk_input_tensor(&w)};
    dlk_output out = {NULL, 0, NULL};
    check_error(dlk_launch(NULL, op_of("max"), in, 1, &out, 1, NULL), DLK_ERR_INVALID, "max of nothing");
    CHECK(!out.result);
    const int32_t last[1] = {-1};
    const dlk_params along = {.size = sizeof along, .axes = last, .n_axes = 1};
    r = call1("max", &x, &along); /* (0, 3): no results, nothing to complain about */
    CHECK_INT(r->dl_tensor.shape[0], 0);
    r->deleter(r);
}

TEST(byte_offset)
{
    int32_t src[9], dst[10] = {0};
    for (int i = 0; i < 9; i++)
        src[i] = i;
    DLTensor x = tensor(src, i32, 1, AXES(8), AXES(1)), out = tensor(dst, i32, 1, AXES(8), AXES(1));
    x.byte_offset = 4;
    out.byte_offset = 8;
    CHECK_MSG(add_into(&x, &x, &out, 0) == DLK_OK, "%s", dlk_last_error());
    for (int i = 0; i < 8; i++)
        CHECK_INT(dst[i + 2], 2 * (i + 1));
    CHECK(dst[0] == 0 && dst[1] == 0);
    float f[16];
    for (int i = 0; i < 16; i++)
        f[i] = (float)i;
    DLTensor y = tensor(f, f32, 1, AXES(8), AXES(1));
    y.byte_offset = 32;
    DLManagedTensorVersioned *r = call1("sum", &y, NULL);
    CHECK(F(r, 0) == 92);
    r->deleter(r);
}

TEST(negative_strides)
{
    double a[12];
    for (int i = 0; i < 12; i++)
        a[i] = i;
    DLTensor x = tensor(a + 3, f64, 2, AXES(3, 4), AXES(4, -1)), y = tensor(a, f64, 2, AXES(3, 4), AXES(4, 1));
    DLManagedTensorVersioned *r = call2("add", &x, &y);
    for (int i = 0; i < 12; i++)
        CHECK(((double *)r->dl_tensor.data)[i] == a[i] + a[i / 4 * 4 + 3 - i % 4]);
    r->deleter(r);
    DLTensor z = tensor(a + 11, f64, 1, AXES(12), AXES(-1));
    r = call1("sum", &z, NULL);
    CHECK(*(double *)r->dl_tensor.data == 66);
    r->deleter(r);
}

TEST(strides_are_not_dropped)
{
    int64_t a[6] = {0, 1, 2, 3, 4, 5};
    DLTensor x = tensor(a, i64, 2, AXES(2, 2), AXES(3, 1)), y = tensor(a, i64, 2, AXES(2, 2), AXES(1, 2));
    DLManagedTensorVersioned *r = call1("copy", &x, NULL);
    const int64_t *v = r->dl_tensor.data;
    CHECK(v[0] == 0 && v[1] == 1 && v[2] == 3 && v[3] == 4);
    r->deleter(r);
    r = call1("copy", &y, NULL); /* dense in the input's order */
    v = r->dl_tensor.data;
    CHECK(r->dl_tensor.strides[0] == 1 && r->dl_tensor.strides[1] == 2);
    CHECK(v[r->dl_tensor.strides[1]] == 2 && v[r->dl_tensor.strides[0]] == 1);
    r->deleter(r);
}

TEST(results_lie_in_the_inputs_order)
{
    float a[24] = {0};
    const DLTensor x = tensor(a, f32, 3, AXES(2, 3, 4), AXES(1, 2, 6)), c = tensor(a, f32, 3, AXES(2, 3, 4), NULL);
    DLManagedTensorVersioned *r = call2("add", &x, &x);
    CHECK(r->dl_tensor.strides[0] == 1 && r->dl_tensor.strides[1] == 2 && r->dl_tensor.strides[2] == 6);
    r->deleter(r);
    r = call2("add", &x, &c); /* they disagree: row-major */
    CHECK(r->dl_tensor.strides[0] == 12 && r->dl_tensor.strides[1] == 4 && r->dl_tensor.strides[2] == 1);
    r->deleter(r);
    const int32_t axes[1] = {1};
    const dlk_params params = {.size = sizeof params, .axes = axes, .n_axes = 1};
    r = call1("sum", &x, &params);
    CHECK(r->dl_tensor.strides[0] == 1 && r->dl_tensor.strides[1] == 2);
    r->deleter(r);
}

TEST(bool_is_bool)
{
    uint8_t a[3] = {1, 0, 7};
    const DLTensor x = tensor(a, boolean, 1, AXES(3), NULL);
    DLManagedTensorVersioned *r = call1("logical_not", &x, NULL);
    CHECK_INT(r->dl_tensor.dtype.code, kDLBool);
    const uint8_t *v = r->dl_tensor.data;
    CHECK(v[0] == 0 && v[1] == 1 && v[2] == 0);
    r->deleter(r);
}

TEST(complex_lanes)
{
    float a[8] = {1, 2, 3, 4, 5, 6, 7, 8};
    const DLTensor x = tensor(a, (DLDataType){kDLComplex, 64, 2}, 1, AXES(2), NULL);
    DLManagedTensorVersioned *r = call2("add", &x, &x);
    CHECK_INT(r->dl_tensor.ndim, 2);
    CHECK(r->dl_tensor.shape[0] == 2 && r->dl_tensor.shape[1] == 2);
    CHECK(r->dl_tensor.dtype.bits == 64 && r->dl_tensor.dtype.lanes == 1);
    CHECK(F(r, 7) == 16);
    r->deleter(r);
}

TEST(misaligned_data)
{
    char bytes[4 * 100 + 1];
    for (int i = 0; i < 100; i++) {
        const float f = (float)i;
        memcpy(bytes + 1 + 4 * i, &f, 4);
    }
    const DLTensor x = tensor(bytes + 1, f32, 1, AXES(100), NULL);
    DLManagedTensorVersioned *r = call2("add", &x, &x);
    for (int i = 0; i < 100; i++)
        CHECK(F(r, i) == 2 * (float)i);
    r->deleter(r);
}

TEST(weak_scalars_and_parameters)
{
    float a[3] = {1, 2, 3};
    const DLTensor x = tensor(a, f32, 1, AXES(3), NULL);
    const dlk_input in[2] = {dlk_input_tensor(&x), dlk_input_float(0.5)};
    DLManagedTensorVersioned *r = call("add", 2, in, NULL);
    CHECK_INT(r->dl_tensor.dtype.bits, 32);
    CHECK(F(r, 2) == 3.5f);
    r->deleter(r);
    const dlk_input other[2] = {dlk_input_int(10), dlk_input_tensor(&x)};
    r = call("subtract", 2, other, NULL);
    CHECK(F(r, 0) == 9);
    r->deleter(r);
}

TEST(sixty_four_axes)
{
    static float a[100000];
    int64_t shape[64], strides[64], step = 1;
    for (int i = 0; i < 100000; i++)
        a[i] = (float)i;
    for (int i = 0; i < 64; i++) {
        shape[i] = i % 7 == 3 ? 2 : 1; /* nine axes, no two of which merge */
        strides[i] = shape[i] == 2 ? step : 77777;
        step *= shape[i] == 2 ? 3 : 1;
    }
    const DLTensor x = tensor(a, f32, 64, shape, strides);
    DLManagedTensorVersioned *r = call2("add", &x, &x);
    int wrong = 0;
    for (int n = 0; n < 512; n++) {
        int64_t from = 0, to = 0;
        for (int i = 0, bit = 0; i < 64; i++) {
            if (shape[i] == 1)
                continue;
            from += (n >> bit & 1) * strides[i];
            to += (n >> bit++ & 1) * r->dl_tensor.strides[i];
        }
        wrong += F(r, to) != 2 * a[from];
    }
    CHECK_INT(wrong, 0);
    r->deleter(r);
    r = call1("sum", &x, NULL);
    double sum = 0;
    for (int n = 0; n < 512; n++)
        for (int bit = 0, power = 1; bit < 9; bit++, power *= 3)
            sum += (n >> bit & 1) * power;
    CHECK(F(r, 0) == (float)sum);
    r->deleter(r);
}

TEST(scalars_alone)
{
    const dlk_input in[2] = {dlk_input_int(2), dlk_input_int(3)};
    DLManagedTensorVersioned *r = call("add", 2, in, NULL);
    CHECK(r && r->dl_tensor.ndim == 0 && r->dl_tensor.dtype.code == kDLInt && *(int64_t *)r->dl_tensor.data == 5);
    dlk_release(r);
    float a[1];
    const DLTensor x = tensor(a, f32, 1, AXES(1), NULL);
    const dlk_input weak[2] = {dlk_input_tensor(&x), dlk_input_int(3)};
    dlk_output into = {&x, 0, NULL};
    a[0] = 4;
    CHECK_INT(dlk_launch(NULL, op_of("add"), weak, 2, &into, 1, NULL), DLK_OK);
    CHECK(a[0] == 7);
}

TEST(integers_that_do_not_fit)
{
    int8_t a[2] = {1, 2};
    const DLTensor x = tensor(a, (DLDataType){kDLInt, 8, 1}, 1, AXES(2), NULL);
    const dlk_input in[2] = {dlk_input_tensor(&x), dlk_input_int(1000)};
    dlk_output out = {NULL, 0, NULL};
    for (int i = 0; i < 2; i++) /* warm too */
        check_error(dlk_launch(NULL, op_of("add"), in, 2, &out, 1, NULL), DLK_ERR_DTYPE, "1000");
    const dlk_input fits[2] = {dlk_input_tensor(&x), dlk_input_int(100)};
    CHECK_INT(dlk_launch(NULL, op_of("add"), fits, 2, &out, 1, NULL), DLK_OK);
    CHECK_INT(((int8_t *)out.result->dl_tensor.data)[1], 102);
    dlk_release(out.result);
    out.result = NULL;
    check_error(dlk_launch(NULL, op_of("add"), in, 2, &out, 1, NULL), DLK_ERR_DTYPE, "1000");
    CHECK(!out.result);
}

/* ---- Given outputs ----------------------------------------------------------------------------------------------- */

TEST(outputs_in_place_and_shifted)
{
    float d[20001];
    for (int n = 1; n < 20000; n = n * 3 + 1) {
        for (int i = 0; i <= n; i++)
            d[i] = 1;
        const DLTensor head = tensor(d, f32, 1, AXES(n), NULL), tail = tensor(d + 1, f32, 1, AXES(n), NULL);
        CHECK_INT(add_into(&tail, &head, &tail, 0), DLK_OK); /* d[1:] += d[:-1] */
        int wrong = d[0] != 1;
        for (int i = 1; i <= n; i++)
            wrong += d[i] != 2;
        CHECK_INT(wrong, 0);
        CHECK_INT(add_into(&head, &head, &head, 0), DLK_OK);
        CHECK(d[0] == 2 && d[n - 1] == (n == 1 ? 2 : 4));
    }
}

TEST(transpose_onto_itself)
{
    enum { N = 64 };
    static float a[N * N];
    for (int i = 0; i < N * N; i++)
        a[i] = (float)i;
    const DLTensor x = tensor(a, f32, 2, AXES(N, N), AXES(N, 1)), xt = tensor(a, f32, 2, AXES(N, N), AXES(1, N));
    CHECK_INT(add_into(&x, &xt, &x, 0), DLK_OK);
    int wrong = 0;
    for (int i = 0; i < N; i++)
        for (int j = 0; j < N; j++)
            wrong += a[i * N + j] != (float)(i * N + j + j * N + i);
    CHECK_INT(wrong, 0);
}

TEST(outputs_of_another_dtype)
{
    float a[2] = {1.5f, 2.5f};
    double d[2];
    int32_t n[2];
    const DLTensor x = tensor(a, f32, 1, AXES(2), NULL), wide = tensor(d, f64, 1, AXES(2), NULL),
                   whole = tensor(n, i32, 1, AXES(2), NULL);
    CHECK_MSG(add_into(&x, &x, &wide, 0) == DLK_OK, "%s", dlk_last_error());
    CHECK(d[0] == 3 && d[1] == 5);
    check_error(add_into(&x, &x, &whole, 0), DLK_ERR_DTYPE, "output 0");
}

TEST(outputs_that_are_refused)
{
    float a[12] = {0}, b[12];
    memset(b, 7, sizeof b);
    const DLTensor x = tensor(a, f32, 2, AXES(3, 4), NULL), out = tensor(b, f32, 2, AXES(3, 4), NULL),
                   flat = tensor(b, f32, 2, AXES(3, 4), AXES(0, 1)),
                   overlapping = tensor(b, f32, 2, AXES(3, 4), AXES(1, 1)),
                   large = tensor(b, f32, 3, AXES(1, 3, 4), NULL);
    check_error(add_into(&x, &x, &out, DLPACK_FLAG_BITMASK_READ_ONLY), DLK_ERR_LAYOUT,
                "output 0: the tensor is read-only");
    check_error(add_into(&x, &x, &flat, 0), DLK_ERR_LAYOUT, "output 0: strides[0] is 0");
    check_error(add_into(&x, &x, &overlapping, 0), DLK_ERR_LAYOUT, "output 0");
    check_error(add_into(&x, &x, &large, 0), DLK_ERR_SHAPE, "output 0: shape is [1,3,4]; expected [3,4]");
    CHECK_STR(strncmp(dlk_last_error(), "add: ", 5) ? "no" : "add: ", "add: ");
    for (int i = 0; i < 12; i++)
        CHECK(((unsigned char *)b)[4 * i] == 7);
}

/* ---- Wrong inputs ------------------------------------------------------------------------------------------------ */

static void refuse(DLTensor bad, dlk_status status, const char *words)
{
    float a[4] = {0};
    const DLTensor x = tensor(a, f32, 1, AXES(4), NULL);
    const dlk_input in[2] = {dlk_input_tensor(&x), dlk_input_tensor(&bad)};
    dlk_output out = {NULL, 0, NULL};
    check_error(dlk_launch(NULL, op_of("add"), in, 2, &out, 1, NULL), status, words);
    CHECK(strstr(dlk_last_error(), "input 1"));
    CHECK(!out.result);
}

TEST(hostile_metadata)
{
    float a[16] = {0};
    DLTensor t = tensor(a, f32, 3, AXES((int64_t)1 << 32, (int64_t)1 << 32, 16), NULL);
    refuse(t, DLK_ERR_INVALID, "shape");
    t = tensor(a, f32, 2, AXES(-1, 4), NULL);
    refuse(t, DLK_ERR_INVALID, "shape[0] is -1");
    t = tensor(a, f32, 1, AXES(4), NULL);
    t.byte_offset = UINT64_MAX - 3;
    refuse(t, DLK_ERR_INVALID, "byte_offset");
    t = tensor(a, f32, 1, AXES(4), NULL);
    t.ndim = -1;
    refuse(t, DLK_ERR_INVALID, "ndim is -1");
    t = tensor(a, (DLDataType){kDLFloat, 32, 0}, 1, AXES(4), NULL);
    refuse(t, DLK_ERR_DTYPE, "dtype.lanes is 0");
    t = tensor(a, (DLDataType){kDLUInt, 1, 1}, 1, AXES(4), NULL);
    refuse(t, DLK_ERR_DTYPE, "dtype");
    t = tensor(a, (DLDataType){kDLFloat4_e2m1fn, 8, 1}, 1, AXES(4), NULL);
    refuse(t, DLK_ERR_DTYPE, "code 17");
    t = tensor(NULL, f32, 1, AXES(4), NULL);
    refuse(t, DLK_ERR_INVALID, "data is NULL");
    t = tensor(a, f32, 1, AXES(3), NULL);
    refuse(t, DLK_ERR_SHAPE, "does not broadcast");
    t = tensor(a, f32, 1, AXES(4), NULL);
    t.device.device_type = kDLCUDA;
    refuse(t, DLK_ERR_DEVICE, "cuda:0");
    t.device.device_type = (DLDeviceType)99;
    refuse(t, DLK_ERR_DEVICE, "99");
    t.device.device_type = kDLCUDAHost; /* pinned memory is the host's */
    const dlk_input in[2] = {dlk_input_tensor(&t), dlk_input_tensor(&t)};
    DLManagedTensorVersioned *r = call("add", 2, in, NULL);
    r->deleter(r);
}

TEST(wrong_calls)
{
    float a[4] = {0};
    const DLTensor x = tensor(a, f32, 1, AXES(4), NULL);
    const dlk_input in[3] = {dlk_input_tensor(&x), dlk_input_tensor(&x), dlk_input_tensor(NULL)};
    dlk_output out[2] = {{NULL, 0, NULL}, {NULL, 0, NULL}};
    const dlk_op *add = op_of("add");
    check_error(dlk_launch(NULL, NULL, in, 2, out, 1, NULL), DLK_ERR_INVALID, "op is NULL");
    check_error(dlk_launch(NULL, add, in, 1, out, 1, NULL), DLK_ERR_INVALID, "1 inputs; expected 2");
    check_error(dlk_launch(NULL, add, in, 2, out, 2, NULL), DLK_ERR_INVALID, "output");
    check_error(dlk_launch(NULL, add, in, -1, out, 1, NULL), DLK_ERR_INVALID, "-1 inputs");
    check_error(dlk_launch(NULL, add, NULL, 2, out, 1, NULL), DLK_ERR_INVALID, "NULL");
    const dlk_input many[65] = {{NULL, NULL, NULL, 0, {DLK_SCALAR_NONE, {0}}}};
    check_error(dlk_launch(NULL, add, many, 65, out, 1, NULL), DLK_ERR_INVALID, "at most 64");
    check_error(dlk_launch(NULL, add, in + 1, 2, out, 1, NULL), DLK_ERR_INVALID, "input 1: tensor is NULL");
    const dlk_params unsized = {.size = 0};
    check_error(dlk_launch(NULL, add, in, 2, out, 1, &unsized), DLK_ERR_INVALID, "params.size");
    const dlk_named_scalar eps[2] = {{"no_such", {DLK_SCALAR_FLOAT, {0}}}, {NULL, {DLK_SCALAR_FLOAT, {0}}}};
    dlk_params params = {.size = sizeof params, .scalars = eps, .n_scalars = 1};
    check_error(dlk_launch(NULL, add, in, 2, out, 1, &params), DLK_ERR_INVALID, "no_such");
    params.n_scalars = 2;
    check_error(dlk_launch(NULL, add, in, 2, out, 1, &params), DLK_ERR_INVALID, "params.scalars[1]: name is NULL");
    params = (dlk_params){.size = sizeof params, .dtype = {200, 7, 1}};
    check_error(dlk_launch(NULL, add, in, 2, out, 1, &params), DLK_ERR_DTYPE, "params.dtype");
    params = (dlk_params){.size = sizeof params, .implementation = "none_such"};
    check_error(dlk_launch(NULL, add, in, 2, out, 1, &params), DLK_ERR_NOT_FOUND, "none_such");
    params = (dlk_params){.size = sizeof params, .n_axes = 1};
    check_error(dlk_launch(NULL, add, in, 2, out, 1, &params), DLK_ERR_INVALID, "params.n_axes");
    const dlk_op *op;
    check_error(dlk_find(NULL, "no_such_operation", &op), DLK_ERR_NOT_FOUND, "no_such_operation");
}

/* ---- Owners ------------------------------------------------------------------------------------------------------ */

static int deleted;
static void delete_versioned(DLManagedTensorVersioned *self)
{
    deleted += (int)(intptr_t)self->manager_ctx;
}
static void delete_legacy(DLManagedTensor *self)
{
    deleted += (int)(intptr_t)self->manager_ctx;
}

TEST(owners_are_consumed_once)
{
    float a[4] = {1, 2, 3, 4};
    DLManagedTensorVersioned v = {.version = {1, 3}, .manager_ctx = (void *)1, .deleter = delete_versioned};
    DLManagedTensor l = {.manager_ctx = (void *)10, .deleter = delete_legacy};
    v.dl_tensor = l.dl_tensor = tensor(a, f32, 1, AXES(4), NULL);
    const dlk_input in[2] = {dlk_input_managed(&v), dlk_input_legacy(&l)};
    deleted = 0;
    DLManagedTensorVersioned *r = call("add", 2, in, NULL);
    CHECK_INT(deleted, 11);
    CHECK(F(r, 3) == 8);
    r->deleter(r);
    v.deleter = NULL; /* nothing to call */
    deleted = 0;
    r = call("add", 2, in, NULL);
    CHECK_INT(deleted, 10);
    r->deleter(r);
}

TEST(owners_are_consumed_on_failure)
{
    float a[4] = {0};
    DLManagedTensorVersioned v = {.version = {1, 0}, .manager_ctx = (void *)1, .deleter = delete_versioned};
    DLManagedTensor l = {.manager_ctx = (void *)10, .deleter = delete_legacy};
    v.dl_tensor = tensor(a, f32, 1, AXES(4), NULL);
    l.dl_tensor = tensor(a, f32, 1, AXES(3), NULL);
    const dlk_input in[2] = {dlk_input_managed(&v), dlk_input_legacy(&l)};
    dlk_output out = {NULL, 0, NULL};
    deleted = 0;
    check_error(dlk_launch(NULL, op_of("add"), in, 2, &out, 1, NULL), DLK_ERR_SHAPE, "input 1");
    CHECK_INT(deleted, 11);
    deleted = 0;
    check_error(dlk_launch(NULL, NULL, in, 2, &out, 1, NULL), DLK_ERR_INVALID, "op is NULL");
    CHECK_INT(deleted, 11);
    v.version.major = 2; /* only the deleter may be touched */
    v.dl_tensor = (DLTensor){.data = (void *)1, .ndim = 1000, .shape = (int64_t *)1};
    l.dl_tensor = tensor(a, f32, 1, AXES(4), NULL);
    deleted = 0;
    check_error(dlk_launch(NULL, op_of("add"), in, 2, &out, 1, NULL), DLK_ERR_INVALID, "version 2.0");
    CHECK_INT(deleted, 11);
}

/* A framework may flush subnormals in its threads: dlk's constants, folded and printed there, and its kernels do not. */
TEST(a_thread_that_flushes_subnormals)
{
#ifdef __SSE2__
    float zero[1] = {0};
    const DLTensor x = tensor(zero, f32, 1, AXES(1), NULL);
    const dlk_op *op = NULL;
    const unsigned before = _mm_getcsr(), flushing = 0x1f80 | 0x8040;
    _mm_setcsr(flushing);
    dlk_status status = dlk_define(NULL, "tiny_sum(x: float) = (x + 0x1p-140) + 0x1p-100 * 0x1p-45", &op);
    dlk_output out = {NULL, 0, NULL};
    const dlk_input in[1] = {dlk_input_tensor(&x)};
    if (status == DLK_OK)
        status = dlk_launch(NULL, op, in, 1, &out, 1, NULL);
    const unsigned after = _mm_getcsr();
    _mm_setcsr(before);
    CHECK_MSG(status == DLK_OK, "%s", dlk_last_error());
    CHECK_INT(after & ~0x3fu, flushing); /* but for the flags of what happened */
    if (status != DLK_OK)
        return;
    CHECK(F(out.result, 0) == 0x1p-140f + 0x1p-145f);
    out.result->deleter(out.result);
#else
    SKIP("no MXCSR on this processor");
#endif
}

TEST(read_only_inputs_are_read)
{
    float a[4] = {1, 2, 3, 4};
    DLManagedTensorVersioned v = {.version = {1, 0}, .flags = DLPACK_FLAG_BITMASK_READ_ONLY};
    v.dl_tensor = tensor(a, f32, 1, AXES(4), NULL);
    const dlk_input in[1] = {dlk_input_managed(&v)};
    DLManagedTensorVersioned *r = call("copy", 1, in, NULL);
    CHECK_INT(r->flags, 0);
    CHECK(F(r, 3) == 4);
    r->deleter(r);
}

/* ---- Reductions -------------------------------------------------------------------------------------------------- */

TEST(axes_keepdims_where_initial)
{
    float a[6] = {1, 2, 3, 4, 5, 6};
    uint8_t m[3] = {1, 0, 1};
    const DLTensor x = tensor(a, f32, 2, AXES(2, 3), NULL), mask = tensor(m, boolean, 1, AXES(3), NULL);
    const int32_t axes[2] = {1, 0};
    dlk_params p = {.size = sizeof p, .axes = axes, .n_axes = 1, .keepdims = 1};
    DLManagedTensorVersioned *r = call1("sum", &x, &p);
    CHECK(r->dl_tensor.ndim == 2 && r->dl_tensor.shape[1] == 1 && F(r, 0) == 6 && F(r, 1) == 15);
    r->deleter(r);
    p.n_axes = 0; /* none */
    r = call1("sum", &x, &p);
    CHECK(r->dl_tensor.ndim == 2 && F(r, 4) == 5);
    r->deleter(r);
    const dlk_input where = dlk_input_tensor(&mask);
    p = (dlk_params){.size = sizeof p, .axes = axes, .n_axes = 1, .where = &where};
    r = call1("sum", &x, &p);
    CHECK(r->dl_tensor.ndim == 1 && F(r, 0) == 4 && F(r, 1) == 10);
    r->deleter(r);
    p = (dlk_params){.size = sizeof p, .initial = {DLK_SCALAR_FLOAT, {0}}};
    p.initial.value.f = 100;
    r = call1("sum", &x, &p);
    CHECK(r->dl_tensor.ndim == 0 && F(r, 0) == 121);
    r->deleter(r);
}

static bool is_near(float found, double expected)
{
    return fabs((double)found - expected) <= 1e-6 * fabs(expected) + 1e-12;
}

/* Axes 0 and 2 of (3, 4, 50) do not merge: reductions in levels, and row operations cut into reductions and maps. */
TEST(axes_that_do_not_merge)
{
    enum { A = 3, B = 4, C = 50 };
    static float a[A * B * C];
    for (int i = 0; i < A * B * C; i++)
        a[i] = (float)(i * 37 % 101) / 10.0f;
    const DLTensor x = tensor(a, f32, 3, AXES(A, B, C), NULL);
    const int32_t axes[2] = {0, 2};
    const dlk_params p = {.size = sizeof p, .axes = axes, .n_axes = 2};
    double most[B], sum[B] = {0}, exps[B] = {0}, squares[B] = {0};
    int64_t first[B];
    for (int j = 0; j < B; j++) {
        most[j] = -1;
        for (int n = 0; n < A * C; n++) {
            const double v = (double)a[n / C * B * C + j * C + n % C];
            sum[j] += v;
            if (v > most[j])
                most[j] = v, first[j] = n;
        }
        for (int n = 0; n < A * C; n++) {
            const double v = (double)a[n / C * B * C + j * C + n % C];
            exps[j] += exp(v - most[j]);
            squares[j] += (v - sum[j] / (A * C)) * (v - sum[j] / (A * C));
        }
    }
    DLManagedTensorVersioned *r = call1("mean", &x, &p), *v = call1("var", &x, &p), *l = call1("logsumexp", &x, &p),
                             *g = call1("argmax", &x, &p), *s = call1("softmax", &x, &p);
    for (int j = 0; j < B; j++) {
        CHECK(is_near(F(r, j), sum[j] / (A * C)));
        CHECK(is_near(F(v, j), squares[j] / (A * C)));
        CHECK(is_near(F(l, j), log(exps[j]) + most[j]));
        CHECK_INT(((int64_t *)g->dl_tensor.data)[j], first[j]);
    }
    int wrong = 0;
    for (int i = 0; i < A * B * C; i++)
        wrong += !is_near(F(s, i), exp((double)a[i] - most[i / C % B]) / exps[i / C % B]);
    CHECK_INT(wrong, 0);
    r->deleter(r), v->deleter(v), l->deleter(l), g->deleter(g), s->deleter(s);
}

/* Few long rows are shared among threads, with the bits of one thread. */
TEST(rows_shared_by_threads)
{
    static float a[400000];
    for (int i = 0; i < 400000; i++)
        a[i] = (float)(i * 37 % 1001) / 100.0f;
    dlk_device_info
        device; /* the interpreter takes its time: it shares the reductions, which are shared from fewer on */
    int n_devices;
    CHECK_INT(dlk_device_list(NULL, &device, 1, &n_devices), DLK_OK);
    const DLTensor x = tensor(a, f32, 2, AXES(1, device.is_available ? 400000 : 66000), NULL);
    static const char *const names[] = {"softmax", "sum", "var", "logsumexp", "argmax"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        CHECK_INT(dlk_option_set("num_threads", "1"), DLK_OK);
        DLManagedTensorVersioned *one = call1(names[i], &x, NULL);
        CHECK_INT(dlk_option_set("num_threads", "4"), DLK_OK);
        DLManagedTensorVersioned *four = call1(names[i], &x, NULL);
        const size_t bytes = i ? sizeof(float) : sizeof(float) * (size_t)x.shape[1];
        CHECK_MSG(!memcmp(one->dl_tensor.data, four->dl_tensor.data, bytes), "%s", names[i]);
        one->deleter(one), four->deleter(four);
    }
    CHECK_INT(dlk_option_set("num_threads", NULL), DLK_OK);
}

TEST(bad_masks)
{
    float a[6] = {0};
    uint8_t m[6] = {0};
    const DLTensor x = tensor(a, f32, 1, AXES(6), NULL), wide = tensor(m, boolean, 2, AXES(1, 6), NULL);
    const dlk_input in[1] = {dlk_input_tensor(&x)}, not_bool = dlk_input_tensor(&x), too_wide = dlk_input_tensor(&wide),
                    scalar = dlk_input_int(1);
    dlk_output out = {NULL, 0, NULL};
    dlk_params p = {.size = sizeof p, .where = &not_bool};
    check_error(dlk_launch(NULL, op_of("sum"), in, 1, &out, 1, &p), DLK_ERR_DTYPE, "where: dtype is float32");
    p.where = &too_wide;
    check_error(dlk_launch(NULL, op_of("sum"), in, 1, &out, 1, &p), DLK_ERR_SHAPE, "where: shape [1,6]");
    p.where = &scalar;
    check_error(dlk_launch(NULL, op_of("sum"), in, 1, &out, 1, &p), DLK_ERR_INVALID, "where: tensor is NULL");
}

TEST(more_elements_than_32_bits_count)
{
    int8_t one = 1;
    const DLTensor x = tensor(&one, (DLDataType){kDLInt, 8, 1}, 1, AXES(5), AXES(0)),
                   huge = tensor(&one, (DLDataType){kDLInt, 8, 1}, 2, AXES((int64_t)1 << 40, (int64_t)1 << 40),
                                 AXES(0, 0));
    DLManagedTensorVersioned *r = call1("sum", &x, NULL);
    CHECK_INT(*(int64_t *)r->dl_tensor.data, 5);
    r->deleter(r);
    const dlk_input in[1] = {dlk_input_tensor(&huge)};
    dlk_output out = {NULL, 0, NULL};
    check_error(dlk_launch(NULL, op_of("sum"), in, 1, &out, 1, NULL), DLK_ERR_INVALID, "2^63");
}

TEST(nothing_is_kept)
{
    CHECK_INT(dlk_cache_clear(NULL), DLK_OK);
    dlk_counters c = {.size = sizeof c};
    CHECK_INT(dlk_counters_get(NULL, &c), DLK_OK);
    CHECK_INT(c.live_bytes, 0);
    CHECK_INT(c.kernels, 0);
}
