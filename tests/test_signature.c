/* Signatures: what shapes a kernel's code and what must not. */
#include "tests/test.h"

#include "base/arena.h"
#include "dlk/dlk.h"
#include "kernels/signature.h"

static dlk_counters counters(dlk_context *context)
{
    dlk_counters c = {.size = sizeof c};
    CHECK_INT(dlk_counters_get(context, &c), DLK_OK);
    return c;
}

static uint32_t state = 7;
static int random_below(int n)
{
    state = state * 1664525u + 1013904223u;
    return (int)((state >> 8) % (uint32_t)n);
}

static float memory[1 << 16];
static int64_t shapes[2][6];

/* A shape and one that broadcasts with it, of rank 0 to 5 and extents 0 to 9. */
static int random_shapes(void)
{
    const int ndim = random_below(6);
    for (int i = 0; i < ndim; i++) {
        shapes[0][i] = random_below(20) ? 1 + random_below(7) : 0;
        shapes[1][i] = shapes[0][i];
    }
    return ndim;
}

static dlk_status launch(dlk_context *context, const char *name, int ndim, int n_inputs, const dlk_params *params)
{
    const dlk_op *op;
    DLTensor tensors[2];
    dlk_input in[2];
    for (int i = 0; i < 2; i++) {
        tensors[i] = (DLTensor){.data = memory, .device = {kDLCPU, 0}, .ndim = ndim, .dtype = {kDLFloat, 32, 1}};
        tensors[i].shape = shapes[i];
        in[i] = dlk_input_tensor(&tensors[i]);
    }
    dlk_output out = {NULL, 0, NULL};
    CHECK_INT(dlk_find(context, name, &op), DLK_OK);
    const dlk_status status = dlk_launch(context, op, in, n_inputs, &out, 1, params);
    dlk_release(out.result);
    return status;
}

TEST(a_thousand_shapes_share_few_kernels)
{
    dlk_context *context;
    CHECK_INT(dlk_context_create(&context), DLK_OK);
    for (int i = 0; i < 1000; i++)
        CHECK_INT(launch(context, "add", random_shapes(), 2, NULL), DLK_OK);
    CHECK_MSG(counters(context).compiles <= 12, "%d kernels", (int)counters(context).compiles);
    dlk_context_destroy(context);
}

TEST(a_thousand_broadcast_shapes_too)
{
    dlk_context *context;
    CHECK_INT(dlk_context_create(&context), DLK_OK);
    for (int i = 0; i < 1000; i++) {
        const int ndim = random_shapes();
        if (ndim)
            shapes[1][random_below(ndim)] = 1;
        CHECK_INT(launch(context, "add", ndim, 2, NULL), DLK_OK);
    }
    CHECK_MSG(counters(context).compiles <= 12, "%d kernels", (int)counters(context).compiles);
    dlk_context_destroy(context);
}

TEST(a_thousand_reductions_over_one_axis_too)
{
    dlk_context *context;
    CHECK_INT(dlk_context_create(&context), DLK_OK);
    for (int i = 0; i < 1000; i++) {
        const int ndim = random_shapes();
        const int32_t axis = ndim ? random_below(ndim) : 0;
        const dlk_params params = {.size = sizeof params, .axes = &axis, .n_axes = ndim ? 1 : 0};
        CHECK_INT(launch(context, "sum", ndim, 1, &params), DLK_OK);
    }
    CHECK_MSG(counters(context).compiles <= 12, "%d kernels", (int)counters(context).compiles);
    dlk_context_destroy(context);
}

TEST(every_byte_counts)
{
    dlk_signature a;
    memset(&a, 0, sizeof a);
    a.nest.n_inputs = 2;
    a.nest.n_outputs = 1;
    CHECK(dlk_signature_equal(&a, &a));
    const size_t used = offsetof(dlk_signature, nest) + offsetof(dlk_nest, operand) + 3 * sizeof(dlk_access);
    int same = 0;
    for (size_t i = 0; i < used; i++) {
        dlk_signature b = a;
        ((unsigned char *)&b)[i] ^= 1;
        const dlk_hash ha = dlk_signature_hash(&a), hb = dlk_signature_hash(&b);
        same += dlk_signature_equal(&a, &b) || (ha.lo == hb.lo && ha.hi == hb.hi);
    }
    CHECK_INT(same, 0);
    dlk_signature b = a;
    b.nest.operand[3].dtype = 1; /* no operand of this kernel */
    CHECK(dlk_signature_equal(&a, &b));
}

TEST(classes_of_strides)
{
    CHECK_INT(dlk_stride_classify(0, 4), DLK_STRIDE_ZERO);
    CHECK_INT(dlk_stride_classify(4, 4), DLK_STRIDE_UNIT);
    CHECK_INT(dlk_stride_classify(-4, 4), DLK_STRIDE_REVERSE);
    CHECK_INT(dlk_stride_classify(8, 4), DLK_STRIDE_ANY);
    CHECK_INT(dlk_stride_classify(-1, 4), DLK_STRIDE_ANY);
}
