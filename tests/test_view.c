/* Checking DLTensors: every wrong field is an error that names it, every right one is understood. */
#include "tests/test.h"

#include "base/status.h"
#include "kernels/view.h"

static float memory[64];

typedef struct given { /* a tensor, f32 on the CPU unless changed */
    DLTensor t;
    int64_t shape[66], strides[66];
} given;

static given tensor(int ndim, const int64_t *shape, const int64_t *strides)
{
    given g = {.t = {.data = memory, .device = {kDLCPU, 0}, .ndim = ndim, .dtype = {kDLFloat, 32, 1}}};
    for (int i = 0; i < ndim; i++) {
        g.shape[i] = shape[i];
        g.strides[i] = strides ? strides[i] : 0;
    }
    return g;
}
#define AXES(...) ((const int64_t[]){__VA_ARGS__})

static dlk_view view;
static dlk_status make(given *g, bool has_strides)
{
    g->t.shape = g->shape;
    g->t.strides = has_strides ? g->strides : NULL;
    return dlk_view_make(&g->t, 0, (dlk_argument){"input", 1}, true, &view);
}

static void refused(given g, dlk_status code, const char *const *words)
{
    CHECK_INT(make(&g, true), code);
    for (; *words; words++)
        CHECK_MSG(strstr(dlk_last_error(), *words), "'%s' lacks '%s'", dlk_last_error(), *words);
}
#define REFUSED(given, code, ...) refused((given), (code), (const char *const[]){"input 1", __VA_ARGS__, NULL})

TEST(strides_left_out_are_row_major)
{
    given g = tensor(3, AXES(2, 3, 4), NULL);
    CHECK_INT(make(&g, false), DLK_OK);
    CHECK_INT(view.strides[0], 12);
    CHECK_INT(view.strides[1], 4);
    CHECK_INT(view.strides[2], 1);
    CHECK_INT(view.elements, 24);
    CHECK_INT(view.high, 96);
    CHECK_INT(view.low, 0);
}

TEST(rank_0_needs_neither_shape_nor_strides)
{
    given g = tensor(0, NULL, NULL);
    g.t.byte_offset = 8;
    CHECK_INT(dlk_view_make(&g.t, 0, (dlk_argument){"input", 0}, true, &view), DLK_OK);
    CHECK_INT(view.ndim, 0);
    CHECK_INT(view.elements, 1);
    CHECK(view.data == (char *)memory + 8);
}

TEST(strides_of_extent_1_say_nothing)
{
    given g = tensor(3, AXES(1, 5, 1), AXES(77, 1, INT64_MIN));
    CHECK_INT(make(&g, true), DLK_OK);
    CHECK_INT(view.strides[0], 0);
    CHECK_INT(view.strides[1], 1);
    CHECK_INT(view.strides[2], 0);
}

TEST(strides_of_nothing_say_nothing)
{
    given g = tensor(3, AXES(4, 0, INT64_MAX), AXES(INT64_MAX, -7, INT64_MIN));
    g.t.data = NULL;
    CHECK_INT(make(&g, true), DLK_OK);
    CHECK_INT(view.elements, 0);
    CHECK_INT(view.high, 0);
    CHECK_INT(make(&g, false), DLK_OK);
}

TEST(negative_strides_reach_backwards)
{
    given g = tensor(2, AXES(3, 4), AXES(4, -1));
    g.t.byte_offset = 12;
    CHECK_INT(make(&g, true), DLK_OK);
    CHECK(view.data == (char *)(memory + 3));
    CHECK_INT(view.low, -12);
    CHECK_INT(view.high, 36);
}

TEST(lanes_are_an_inner_axis)
{
    given g = tensor(1, AXES(3), AXES(-2));
    g.t.dtype.lanes = 4;
    g.t.data = memory + 40;
    CHECK_INT(make(&g, true), DLK_OK);
    CHECK_INT(view.ndim, 2);
    CHECK_INT(view.shape[1], 4);
    CHECK_INT(view.strides[0], -8);
    CHECK_INT(view.strides[1], 1);
    CHECK_INT(view.bytes, 4);
}

TEST(two_lanes_of_complex64_are_not_complex128)
{
    given g = tensor(1, AXES(3), AXES(1));
    g.t.dtype = (DLDataType){kDLComplex, 64, 2};
    CHECK_INT(make(&g, true), DLK_OK);
    CHECK_INT(view.dtype, DLK_DTYPE_C64);
    CHECK_INT(view.ndim, 2);
}

TEST(sixty_four_axes_and_lanes)
{
    int64_t ones[64];
    for (int i = 0; i < 64; i++)
        ones[i] = 1;
    given g = tensor(64, ones, ones);
    g.t.dtype.lanes = 2;
    CHECK_INT(make(&g, true), DLK_OK);
    CHECK_INT(view.ndim, 65);
}

TEST(any_address_will_do)
{
    given g = tensor(1, AXES(3), AXES(1));
    g.t.data = (char *)memory + 1;
    CHECK_INT(make(&g, true), DLK_OK);
}

TEST(more_than_2_to_the_31_elements)
{
    given g = tensor(1, AXES(((int64_t)1 << 32) + 5), AXES(0));
    CHECK_INT(make(&g, true), DLK_OK);
    CHECK_INT(view.elements, ((int64_t)1 << 32) + 5);
    CHECK_INT(view.high, 4);
}

TEST(bad_rank)
{
    given g = tensor(0, NULL, NULL);
    g.t.ndim = -1;
    REFUSED(g, DLK_ERR_INVALID, "ndim", "-1", "0 to 64");
    g.t.ndim = 65;
    REFUSED(g, DLK_ERR_INVALID, "ndim", "65");
    g = tensor(2, AXES(1, 1), NULL);
    g.t.shape = NULL;
    CHECK_INT(dlk_view_make(&g.t, 0, (dlk_argument){"output", 0}, true, &view), DLK_ERR_INVALID);
    CHECK(strstr(dlk_last_error(), "output 0: shape is NULL"));
}

TEST(bad_extents)
{
    REFUSED(tensor(2, AXES(-1, 4), AXES(4, 1)), DLK_ERR_INVALID, "shape[0]", "-1", "0 or more");
    REFUSED(tensor(2, AXES(0, INT64_MIN), AXES(4, 1)), DLK_ERR_INVALID, "shape[1]");
    REFUSED(tensor(3, AXES((int64_t)1 << 32, (int64_t)1 << 32, 16), AXES(0, 0, 0)), DLK_ERR_INVALID, "shape",
            "elements");
    given g = tensor(3, AXES((int64_t)1 << 32, (int64_t)1 << 32, 16), NULL);
    CHECK_INT(make(&g, false), DLK_ERR_INVALID);
    g = tensor(1, AXES(INT64_MAX / 2), NULL);
    CHECK_INT(make(&g, false), DLK_ERR_INVALID);
}

TEST(bad_strides)
{
    REFUSED(tensor(1, AXES(3), AXES(INT64_MAX)), DLK_ERR_INVALID, "beyond the address space");
    REFUSED(tensor(1, AXES(3), AXES(INT64_MIN)), DLK_ERR_INVALID, "beyond the address space");
    REFUSED(tensor(2, AXES(3, 3), AXES(INT64_MAX / 8, INT64_MAX / 8)), DLK_ERR_INVALID, "beyond the address space");
    given g = tensor(1, AXES(3), AXES(INT64_MAX / 2));
    g.t.dtype.lanes = 4;
    REFUSED(g, DLK_ERR_INVALID, "strides[0]", "lanes");
    g = tensor(1, AXES(1000), AXES(-(INT64_MAX / 16000)));
    REFUSED(g, DLK_ERR_INVALID, "beyond the address");
}

TEST(bad_dtypes)
{
    given g = tensor(1, AXES(3), AXES(1));
    g.t.dtype.lanes = 0;
    REFUSED(g, DLK_ERR_DTYPE, "dtype.lanes", "0");
    g.t.dtype = (DLDataType){kDLUInt, 1, 1};
    REFUSED(g, DLK_ERR_DTYPE, "dtype", "bits 1");
    g.t.dtype = (DLDataType){kDLFloat4_e2m1fn, 8, 1};
    REFUSED(g, DLK_ERR_DTYPE, "code 17", "bits 8");
    g.t.dtype = (DLDataType){200, 32, 1};
    REFUSED(g, DLK_ERR_DTYPE, "code 200");
    g.t.dtype = (DLDataType){kDLFloat, 80, 1};
    REFUSED(g, DLK_ERR_DTYPE, "bits 80");
    g.t.dtype = (DLDataType){kDLOpaqueHandle, 64, 1};
    REFUSED(g, DLK_ERR_DTYPE, "code 3");
}

TEST(bad_memory)
{
    given g = tensor(1, AXES(3), AXES(1));
    g.t.data = NULL;
    REFUSED(g, DLK_ERR_INVALID, "data is NULL", "3 elements");
    g.t.shape = g.shape;
    g.t.strides = g.strides;
    CHECK_INT(dlk_view_make(&g.t, 0, (dlk_argument){"input", 1}, false, &view), DLK_OK);
    g = tensor(1, AXES(3), AXES(1));
    g.t.byte_offset = UINT64_MAX - 7;
    REFUSED(g, DLK_ERR_INVALID, "byte_offset");
    g.t.byte_offset = 0;
    g.t.data = (void *)(UINTPTR_MAX - 7);
    REFUSED(g, DLK_ERR_INVALID, "beyond the address space");
    g = tensor(1, AXES(3), AXES(-1));
    g.t.data = (void *)4;
    REFUSED(g, DLK_ERR_INVALID, "beyond the address space");
}

TEST(broadcasting)
{
    int ndim = 0;
    int64_t shape[DLK_RANK_MAX] = {0};
    given a = tensor(2, AXES(4, 1), NULL), b = tensor(3, AXES(2, 1, 5), NULL), c = tensor(1, AXES(0), NULL),
          d = tensor(1, AXES(3), NULL);
    CHECK_INT(make(&a, false), DLK_OK);
    CHECK_INT(dlk_shape_broadcast(&view, (dlk_argument){"input", 0}, &ndim, shape), DLK_OK);
    CHECK_INT(make(&b, false), DLK_OK);
    CHECK_INT(dlk_shape_broadcast(&view, (dlk_argument){"input", 1}, &ndim, shape), DLK_OK);
    CHECK_INT(ndim, 3);
    CHECK(shape[0] == 2 && shape[1] == 4 && shape[2] == 5);
    CHECK_INT(make(&d, false), DLK_OK);
    CHECK_INT(dlk_shape_broadcast(&view, (dlk_argument){"input", 2}, &ndim, shape), DLK_ERR_SHAPE);
    CHECK(strstr(dlk_last_error(), "input 2: shape [3] does not broadcast with [2,4,5]: axis 0 is 3; expected 1 or 5"));
    shape[2] = 1;
    CHECK_INT(make(&c, false), DLK_OK);
    CHECK_INT(dlk_shape_broadcast(&view, (dlk_argument){"input", 3}, &ndim, shape), DLK_OK);
    CHECK_INT(shape[2], 0);
}

static dlk_status output(int ndim, const int64_t *shape, const int64_t *strides)
{
    given g = tensor(ndim, shape, strides);
    g.t.data = memory + 32;
    CHECK_INT(make(&g, true), DLK_OK);
    return dlk_view_check_output(&view, (dlk_argument){"output", 0});
}

TEST(outputs_that_overlap_themselves)
{
    CHECK_INT(output(1, AXES(3), AXES(0)), DLK_ERR_LAYOUT);
    CHECK(strstr(dlk_last_error(), "output 0: strides[0] is 0"));
    CHECK_INT(output(2, AXES(3, 3), AXES(1, 1)), DLK_ERR_LAYOUT);
    CHECK_INT(output(2, AXES(3, 3), AXES(1, -1)), DLK_ERR_LAYOUT);
    CHECK_INT(output(2, AXES(3, 4), AXES(3, 2)), DLK_ERR_LAYOUT);
    CHECK_INT(output(3, AXES(2, 2, 2), AXES(3, 2, 1)), DLK_ERR_LAYOUT);
    CHECK(strstr(dlk_last_error(), "several elements at one address"));
}

TEST(outputs_that_do_not)
{
    CHECK_INT(output(1, AXES(1), AXES(0)), DLK_OK);
    CHECK_INT(output(2, AXES(0, 3), AXES(0, 0)), DLK_OK);
    CHECK_INT(output(2, AXES(3, 3), AXES(-3, 1)), DLK_OK);
    CHECK_INT(output(2, AXES(2, 3), AXES(3, 2)), DLK_OK); /* 0 2 4 3 5 7: interleaved but apart */
    CHECK_INT(output(2, AXES(3, 2), AXES(2, 3)), DLK_OK);
    CHECK_INT(output(2, AXES(3, 2), AXES(2, -3)), DLK_OK);
    CHECK_INT(output(3, AXES(2, 2, 2), AXES(4, 2, 1)), DLK_OK);
}

/* Against counting addresses, over small shapes and strides. */
TEST(self_overlap_is_exact)
{
    static char middle[8192];
    int wrong = 0;
    for (int64_t code = 0; code < 4 * 4 * 4 * 7 * 7 * 7; code++) {
        int64_t c = code, shape[3], strides[3];
        for (int i = 0; i < 3; i++, c /= 4)
            shape[i] = c % 4 + 1;
        for (int i = 0; i < 3; i++, c /= 7)
            strides[i] = (c % 7 - 2) * 3 / 2;
        bool seen[128] = {false}, twice = false;
        for (int64_t i = 0; i < shape[0] * shape[1] * shape[2]; i++) {
            const int64_t at = i / shape[2] / shape[1] * strides[0] + i / shape[2] % shape[1] * strides[1] +
                               i % shape[2] * strides[2] + 64;
            twice |= seen[at];
            seen[at] = true;
        }
        given g = tensor(3, shape, strides);
        g.t.data = middle + sizeof middle / 2;
        wrong += make(&g, true) != DLK_OK;
        wrong += (dlk_view_check_output(&view, (dlk_argument){"output", 0}) != DLK_OK) != twice;
    }
    CHECK_INT(wrong, 0);
}

TEST(read_only_outputs)
{
    given g = tensor(1, AXES(3), AXES(1));
    g.t.shape = g.shape;
    g.t.strides = g.strides;
    CHECK_INT(dlk_view_make(&g.t, DLPACK_FLAG_BITMASK_READ_ONLY, (dlk_argument){"output", 2}, true, &view), DLK_OK);
    CHECK_INT(dlk_view_check_output(&view, (dlk_argument){"output", 2}), DLK_ERR_LAYOUT);
    CHECK(strstr(dlk_last_error(), "output 2: the tensor is read-only"));
}

static dlk_overlap overlap(given a, given b)
{
    CHECK_INT(make(&a, true), DLK_OK);
    const dlk_view first = view;
    CHECK_INT(make(&b, true), DLK_OK);
    return dlk_view_overlap(&first, &view);
}

TEST(overlap_of_two)
{
    given a = tensor(1, AXES(8), AXES(1)), b = a;
    CHECK_INT(overlap(a, b), DLK_OVERLAP_EXACT);
    b.t.byte_offset = 32;
    CHECK_INT(overlap(a, b), DLK_OVERLAP_NONE);
    b.t.byte_offset = 28;
    CHECK_INT(overlap(a, b), DLK_OVERLAP_PARTLY);
    b = tensor(1, AXES(8), AXES(-1));
    b.t.byte_offset = 28;
    CHECK_INT(overlap(a, b), DLK_OVERLAP_PARTLY);
    b = a;
    b.t.dtype = (DLDataType){kDLFloat, 64, 1};
    CHECK_INT(overlap(a, b), DLK_OVERLAP_PARTLY);
    b = tensor(1, AXES(0), AXES(1));
    CHECK_INT(overlap(a, b), DLK_OVERLAP_NONE);
}
