/* Reductions against the fixed tree of docs/reductions.md, bit for bit: every
 * extent, axis, layout, dtype, thread count and instruction set gives the bits
 * of the program there. */
#include "tests/test.h"

#include "dlk/dlk.h"
#include "tests/ref_scalar.h"
#include "tests/tensors.h"

/* ---- The reference
 * ------------------------------------------------------------------------------------------------
 */

typedef struct level {
    int64_t extent;
    int64_t stride; /* elements */
} level;

static int64_t magnitude(int64_t v)
{
    return v < 0 ? -v : v;
}

/* The nested levels that one input's reduced axes make: extents of 1 dropped,
 * sorted by |stride|, neighbours merged. */
static int levels_of(const tensor *t, const int *axes, int n, level *out)
{
    int count = 0;
    for (int k = 0; k < n; k++) {
        if (t->shape[axes[k]] == 1)
            continue;
        const level l = {t->shape[axes[k]], t->strides[axes[k]]};
        int at = count++;
        for (; at > 0 && magnitude(out[at - 1].stride) < magnitude(l.stride); at--)
            out[at] = out[at - 1];
        out[at] = l;
    }
    for (int k = 0; k + 1 < count;) {
        if (out[k].stride == out[k + 1].extent * out[k + 1].stride) {
            out[k].extent *= out[k + 1].extent;
            out[k].stride = out[k + 1].stride;
            memmove(&out[k + 1], &out[k + 2], sizeof(level) * (size_t)(--count - k - 1));
        } else {
            k++;
        }
    }
    return count;
}

typedef struct fold {
    int dtype;
    int lanes;
    ref_join join;
    const tensor *mask; /* of the same strides pattern: looked up by the element's
                         number in the input */
    int64_t elements;
} fold;

static ref_value compute_value(int dtype, ref_value v); /* as the compute type holds it */

static ref_slot reduce_level(const fold *f, const char *at, const level *levels, int n)
{
    if (!n) {
        ref_slot s = {compute_value(f->dtype, ref_load(f->dtype, at)), true};
        return s;
    }
    ref_slot *x = malloc(sizeof *x * (size_t)(levels->extent + 1));
    for (int64_t i = 0; i < levels->extent; i++)
        x[i] = reduce_level(f, at + i * levels->stride * ref_bytes(f->dtype), levels + 1, n - 1);
    const ref_slot r = ref_tree(x, levels->extent, f->lanes, f->join);
    free(x);
    return r;
}

static int accumulator_bytes(int dtype)
{
    return dtype == R_C128 ? 16 : dtype == R_F64 || dtype == R_C64 ? 8 : 4;
}

static ref_value compute_value(int dtype, ref_value v)
{
    (void)dtype;
    return v;
}

static ref_value join_add_f32(ref_value a, ref_value b)
{
    ref_value r = {(float)a.re + (float)b.re, (float)a.im + (float)b.im, (int64_t)((uint64_t)a.i + (uint64_t)b.i)};
    return r;
}
static ref_value join_add_f64(ref_value a, ref_value b)
{
    ref_value r = {(double)a.re + (double)b.re, (double)a.im + (double)b.im, 0};
    return r;
}
static ref_value join_mul_f32(ref_value a, ref_value b)
{
    ref_value r = {(float)a.re * (float)b.re, 0, (int64_t)((uint64_t)a.i * (uint64_t)b.i)};
    return r;
}
static ref_value join_mul_f64(ref_value a, ref_value b)
{
    ref_value r = {(double)a.re * (double)b.re, 0, 0};
    return r;
}
static ref_value join_mul_c64(ref_value a, ref_value b)
{
    return ref_c_multiply(a, b, false);
}
static ref_value join_mul_c128(ref_value a, ref_value b)
{
    return ref_c_multiply(a, b, true);
}

static ref_join join_of(const char *op, int dtype)
{
    const bool wide = dtype == R_F64 || dtype == R_C128;
    if (!strcmp(op, "sum"))
        return wide ? join_add_f64 : join_add_f32;
    if (dtype == R_C64 || dtype == R_C128)
        return wide ? join_mul_c128 : join_mul_c64;
    return wide ? join_mul_f64 : join_mul_f32;
}

static int result_dtype(int dtype)
{
    switch (ref_dtypes[dtype].class_) {
    case REF_BOOL:
    case REF_INT:
        return R_I64;
    case REF_UINT:
        return R_U64;
    default:
        return dtype;
    }
}

/* ---- Harness
 * ------------------------------------------------------------------------------------------------------
 */

/* Finite values of mixed size, so that the order of additions shows in the
 * bits; products stay near one. */
static void fill_for(const char *op, tensor *t)
{
    index_space s = index_space_of(&t->dl);
    if (index_empty(&s))
        return;
    do {
        ref_value v = {0, 0, (int64_t)(random_bits() % 201) - 100};
        v.re = strcmp(op, "prod") ? ldexpl((long double)(int64_t)random_bits() / 9.3e18L, (int)(random_bits() % 5))
                                  : 0.75L + (long double)(random_bits() >> 11) * 0x1p-54L;
        v.im = (long double)(int64_t)random_bits() / 9.3e18L;
        if (ref_dtypes[t->dtype].class_ == REF_UINT)
            v.i = ref_wrap(v.i, &ref_dtypes[t->dtype]);
        ref_store(t->dtype, tensor_at(t, s.index), v);
    } while (index_next(&s));
}

static dlk_status reduce(const char *name, const tensor *x, const int *axes, int n_axes, dlk_output *out)
{
    const dlk_op *op;
    int32_t list[TENSOR_RANK];
    dlk_params params = {.size = sizeof params, .axes = list, .n_axes = n_axes};
    dlk_input in = {.tensor = &x->dl};
    for (int k = 0; k < n_axes; k++)
        list[k] = axes[k];
    const dlk_status status = dlk_find(NULL, name, &op);
    return status != DLK_OK ? status : dlk_launch(NULL, op, &in, 1, out, 1, &params);
}

static bool same_value(ref_value a, ref_value b)
{
    const bool re = (isnan(a.re) && isnan(b.re)) || (a.re == b.re && !signbit(a.re) == !signbit(b.re));
    const bool im = (isnan(a.im) && isnan(b.im)) || (a.im == b.im && !signbit(a.im) == !signbit(b.im));
    return re && im && a.i == b.i;
}

/* One reduction of a tensor over `axes`, every result against the tree. */
static void check_sum(const char *op, const tensor *x, const int *axes, int n_axes)
{
    dlk_output out = {0};
    char what[128];
    case_text(what, sizeof what, x->shape, x->dl.ndim, &x->how, 1);
    const dlk_status status = reduce(op, x, axes, n_axes, &out);
    CHECK_MSG(status == DLK_OK, "%s %s %s: %s", op, ref_dtypes[x->dtype].name, what, dlk_last_error());
    if (status != DLK_OK)
        return;
    level levels[TENSOR_RANK];
    const int n = levels_of(x, axes, n_axes, levels);
    const fold f = {x->dtype, 128 / accumulator_bytes(x->dtype), join_of(op, x->dtype), NULL, 0};
    const int result = result_dtype(x->dtype);
    tensor view = {.dl = out.result->dl_tensor, .dtype = result};
    index_space s = index_space_of(&view.dl);
    int kept[TENSOR_RANK], n_kept = 0;
    for (int k = 0; k < x->dl.ndim; k++) {
        bool is_reduced = false;
        for (int a = 0; a < n_axes; a++)
            is_reduced |= axes[a] == k;
        if (!is_reduced)
            kept[n_kept++] = k;
    }
    CHECK_INT(view.dl.ndim, n_kept);
    do {
        int64_t index[TENSOR_RANK] = {0};
        for (int k = 0; k < n_kept; k++)
            index[kept[k]] = s.index[k];
        ref_slot wanted = reduce_level(&f, tensor_at(x, index), levels, n);
        if (!wanted.present)
            wanted.v = (ref_value){strcmp(op, "sum") ? 1 : 0, 0, strcmp(op, "sum") ? 1 : 0};
        if (ref_dtypes[result].class_ < REF_FLOAT)
            wanted.v.re = wanted.v.im = 0;
        else
            wanted.v.i = 0;
        ref_value stored[2] = {{0, 0, 0}};
        char word[16];
        ref_store(result, word, wanted.v);
        stored[0] = ref_load(result, word);
        stored[1] = ref_load(result, tensor_at(&view, s.index));
        const bool same = same_value(stored[0], stored[1]);
        CHECK_MSG(same, "%s %s %s at (%s): %.20Lg %.20Lg | %" PRId64 ", expected %.20Lg %.20Lg | %" PRId64, op,
                  ref_dtypes[x->dtype].name, what, index_text(&s), stored[1].re, stored[1].im, stored[1].i,
                  stored[0].re, stored[0].im, stored[0].i);
        if (!same)
            break;
    } while (index_next(&s));
    out.result->deleter(out.result);
}

static void check_shape(const char *op, int dtype, const int64_t *shape, int ndim, layout how, const int *axes,
                        int n_axes)
{
    tensor x;
    tensor_create(&x, dtype, shape, ndim, how);
    fill_for(op, &x);
    check_sum(op, &x, axes, n_axes);
    tensor_destroy(&x);
}

static int every(void)
{
    const char *text = getenv("DLK_TEST_EVERY");
    return text ? atoi(text) : 1;
}

static const int float_dtypes[] = {R_F32, R_F64, R_F16, R_C64};

TEST(every_extent_inner)
{
    if (missing_target())
        SKIP(missing_target());
    static const int axis[] = {1};
    for (int64_t n = 0; n <= 3000; n += every())
        for (int d = 0; d < 4; d++)
            check_shape("sum", float_dtypes[d], (const int64_t[]){2, n}, 2, LAYOUT_CONTIGUOUS, axis, 1);
}

TEST(every_extent_outer)
{
    if (missing_target())
        SKIP(missing_target());
    static const int axis[] = {0};
    for (int64_t n = 0; n <= 3000; n += every())
        for (int d = 0; d < 4; d++)
            check_shape("sum", float_dtypes[d], (const int64_t[]){n, 3 + n % 40}, 2, LAYOUT_CONTIGUOUS, axis, 1);
}

TEST(products)
{
    if (missing_target())
        SKIP(missing_target());
    for (int64_t n = 0; n <= 1500; n += 7 * every())
        for (int d = 0; d < 4; d++) {
            check_shape("prod", float_dtypes[d], (const int64_t[]){3, n}, 2, LAYOUT_CONTIGUOUS, (const int[]){1}, 1);
            check_shape("prod", float_dtypes[d], (const int64_t[]){n, 5}, 2, LAYOUT_CONTIGUOUS, (const int[]){0}, 1);
        }
}

TEST(axes_and_layouts)
{
    if (missing_target())
        SKIP(missing_target());
    static const int64_t shape[] = {5, 37, 4, 67};
    static const int sets[][4] = {{0},    {1},    {2},       {3},       {0, 1},    {0, 2},      {0, 3},
                                  {1, 3}, {2, 3}, {0, 1, 2}, {1, 2, 3}, {0, 2, 3}, {0, 1, 2, 3}};
    static const int sizes[] = {1, 1, 1, 1, 2, 2, 2, 2, 2, 3, 3, 3, 4};
    static const layout hows[] = {LAYOUT_CONTIGUOUS, LAYOUT_FORTRAN,      LAYOUT_STEP,
                                  LAYOUT_REVERSED,   LAYOUT_ALL_REVERSED, LAYOUT_BYTE_OFFSET,
                                  LAYOUT_MISALIGNED, LAYOUT_PADDED_ROWS,  LAYOUT_EXPANDED};
    int serial = 0;
    for (int s = 0; s < 13; s++)
        for (int h = 0; h < 9; h++)
            for (int d = 0; d < R_COUNT; d++)
                if (serial++ % every() == 0)
                    check_shape("sum", d, shape, 4, hows[h], sets[s], sizes[s]);
}

TEST(large)
{
    if (missing_target())
        SKIP(missing_target());
    check_shape("sum", R_F32, (const int64_t[]){3000017}, 1, LAYOUT_CONTIGUOUS, (const int[]){0}, 1);
    check_shape("sum", R_F64, (const int64_t[]){1000003}, 1, LAYOUT_REVERSED, (const int[]){0}, 1);
    check_shape("sum", R_F16, (const int64_t[]){2, 700001}, 2, LAYOUT_CONTIGUOUS, (const int[]){1}, 1);
    check_shape("sum", R_F32, (const int64_t[]){200001, 3}, 2, LAYOUT_CONTIGUOUS, (const int[]){0}, 1);
    check_shape("sum", R_F32, (const int64_t[]){3001, 517}, 2, LAYOUT_FORTRAN, (const int[]){0, 1}, 2);
    check_shape("sum", R_F32, (const int64_t[]){70, 1200, 65}, 3, LAYOUT_CONTIGUOUS, (const int[]){1}, 1);
}

TEST(thread_counts_give_the_same_bits)
{
    if (missing_target())
        SKIP(missing_target());
    static const char *counts[] = {"1", "2", "3", "8"};
    for (int k = 0; k < 4; k++) {
        dlk_option_set("num_threads", counts[k]);
        random_state = 12345;
        check_shape("sum", R_F32, (const int64_t[]){2000003}, 1, LAYOUT_CONTIGUOUS, (const int[]){0}, 1);
        check_shape("sum", R_F32, (const int64_t[]){3000, 700}, 2, LAYOUT_CONTIGUOUS, (const int[]){0}, 1);
        check_shape("sum", R_F32, (const int64_t[]){300, 7000}, 2, LAYOUT_CONTIGUOUS, (const int[]){1}, 1);
    }
    dlk_option_set("num_threads", "0");
}
