/* CPU schedules in the interpreter, against direct loops and against the tree program of the definition. */
#include "base/arena.h"
#include "codegen/fold.h"
#include "tests/schedule_run.h"

/* ---- Programs ----------------------------------------------------------------------------------------------------- */

static dlk_ref prim2(dlk_prog *p, dlk_prim prim, dlk_ref a, dlk_ref b)
{
    return dlk_prog_prim(p, prim, a, b, DLK_NONE);
}

static dlk_ref input(dlk_prog *p, int k, int dtype, int part)
{
    p->input_dtype[k] = (uint8_t)dtype;
    if (p->n_inputs <= k)
        p->n_inputs = k + 1;
    return dlk_prog_decode(p, dtype, dlk_prog_input(p, k, part, dlk_dtypes[dtype].storage));
}

static void output(dlk_prog *p, int dtype, dlk_ref re, dlk_ref im, int scope)
{
    dlk_prog_output *out = &p->outputs[p->n_outputs++];
    out->part[0] = dlk_prog_encode(p, dtype, re, false, false);
    out->part[1] = im == DLK_NONE ? DLK_NONE : dlk_prog_encode(p, dtype, im, false, false);
    out->dtype = (uint8_t)dtype;
    out->scope = (uint8_t)scope;
}

static uint64_t f32_bits(float x)
{
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    return bits;
}

static dlk_reduction reduction_of(dlk_prog *p, int n, const dlk_kind *kinds, dlk_kind tree)
{
    dlk_reduction r = {.n = (uint8_t)n, .tree_kind = (uint8_t)tree, .tree_parts = 1, .name = "test"};
    for (int k = 0; k < n; k++) {
        r.kind[k] = (uint8_t)kinds[k];
        r.left[k] = dlk_prog_var(p, kinds[k], DLK_SCOPE_ROW);
        r.right[k] = dlk_prog_var(p, kinds[k], DLK_SCOPE_ROW);
    }
    return r;
}

static dlk_ref sum_f32(dlk_prog *p, dlk_ref x, bool in_leaf)
{
    dlk_reduction r = reduction_of(p, 1, (dlk_kind[]){DLK_F32}, DLK_F32);
    r.in_leaf = in_leaf;
    r.first[0] = x;
    r.merge[0] = prim2(p, DLK_PRIM_FADD, r.left[0], r.right[0]);
    r.has_identity = true;
    r.identity[0] = 0x80000000u;
    return dlk_prog_proj(p, dlk_prog_reduce(p, &r), 0, DLK_F32);
}

/* Without an identity: the tail must leave out what is not there. */
static dlk_ref odd_f32(dlk_prog *p, dlk_ref x)
{
    dlk_reduction r = reduction_of(p, 1, (dlk_kind[]){DLK_F32}, DLK_F32);
    const dlk_ref half = dlk_prog_const(p, DLK_F32, f32_bits(0.5f));
    r.first[0] = x;
    r.merge[0] = prim2(p, DLK_PRIM_FADD, prim2(p, DLK_PRIM_FMUL, r.left[0], half), r.right[0]);
    return dlk_prog_proj(p, dlk_prog_reduce(p, &r), 0, DLK_F32);
}

static dlk_ref max_f32(dlk_prog *p, dlk_ref x)
{
    dlk_reduction r = reduction_of(p, 1, (dlk_kind[]){DLK_F32}, DLK_F32);
    r.first[0] = x;
    r.merge[0] = prim2(p, DLK_PRIM_FMAX, r.left[0], r.right[0]);
    r.is_free = r.has_identity = true;
    r.identity[0] = f32_bits(-INFINITY);
    return dlk_prog_proj(p, dlk_prog_reduce(p, &r), 0, DLK_F32);
}

/* The first of the greatest; no NaN here. */
static dlk_ref argmax_f32(dlk_prog *p, dlk_ref x)
{
    dlk_reduction r = reduction_of(p, 2, (dlk_kind[]){DLK_F32, DLK_I64}, DLK_F32);
    r.first[0] = x;
    r.first[1] = dlk_prog_index(p);
    const dlk_ref less = prim2(p, DLK_PRIM_FLT, r.left[0], r.right[0]);
    const dlk_ref equal = prim2(p, DLK_PRIM_FEQ, r.left[0], r.right[0]);
    const dlk_ref later = prim2(p, DLK_PRIM_SLT, r.right[1], r.left[1]);
    const dlk_ref right = prim2(p, DLK_PRIM_OR, less, prim2(p, DLK_PRIM_AND, equal, later));
    for (int k = 0; k < 2; k++)
        r.merge[k] = dlk_prog_prim(p, DLK_PRIM_SELECT, right, r.right[k], r.left[k]);
    r.is_free = true;
    return dlk_prog_proj(p, dlk_prog_reduce(p, &r), 1, DLK_I64);
}

static void prod_c64(dlk_prog *p, dlk_ref re, dlk_ref im, dlk_ref out[2])
{
    dlk_reduction r = reduction_of(p, 2, (dlk_kind[]){DLK_F32, DLK_F32}, DLK_F32);
    r.tree_parts = 2;
    r.first[0] = re;
    r.first[1] = im;
    r.merge[0] = prim2(p, DLK_PRIM_FSUB, prim2(p, DLK_PRIM_FMUL, r.left[0], r.right[0]),
                       prim2(p, DLK_PRIM_FMUL, r.left[1], r.right[1]));
    r.merge[1] = prim2(p, DLK_PRIM_FADD, prim2(p, DLK_PRIM_FMUL, r.left[0], r.right[1]),
                       prim2(p, DLK_PRIM_FMUL, r.left[1], r.right[0]));
    const dlk_ref reduce = dlk_prog_reduce(p, &r);
    for (int k = 0; k < 2; k++)
        out[k] = dlk_prog_proj(p, reduce, k, DLK_F32);
}

/* count, mean and sum of squared deviations, by leaves. */
static void moments_f32(dlk_prog *p, dlk_ref x, dlk_ref out[3])
{
    dlk_reduction r = reduction_of(p, 3, (dlk_kind[]){DLK_F32, DLK_F32, DLK_F32}, DLK_F32);
    r.has_leaf = true;
    r.first[0] = dlk_prog_convert(p, DLK_PRIM_SITOF, DLK_F32, dlk_prog_leaf_count(p));
    r.first[1] = prim2(p, DLK_PRIM_FDIV, sum_f32(p, x, true), r.first[0]);
    const dlk_ref d = prim2(p, DLK_PRIM_FSUB, x, r.first[1]);
    r.first[2] = sum_f32(p, prim2(p, DLK_PRIM_FMUL, d, d), true);
    const dlk_ref n = prim2(p, DLK_PRIM_FADD, r.left[0], r.right[0]);
    const dlk_ref delta = prim2(p, DLK_PRIM_FSUB, r.right[1], r.left[1]);
    const dlk_ref share = prim2(p, DLK_PRIM_FDIV, r.right[0], n);
    r.merge[0] = n;
    r.merge[1] = prim2(p, DLK_PRIM_FADD, r.left[1], prim2(p, DLK_PRIM_FMUL, delta, share));
    r.merge[2] = prim2(
        p, DLK_PRIM_FADD, prim2(p, DLK_PRIM_FADD, r.left[2], r.right[2]),
        prim2(p, DLK_PRIM_FMUL, prim2(p, DLK_PRIM_FMUL, delta, delta), prim2(p, DLK_PRIM_FMUL, r.left[0], share)));
    const dlk_ref reduce = dlk_prog_reduce(p, &r);
    for (int k = 0; k < 3; k++)
        out[k] = dlk_prog_proj(p, reduce, k, DLK_F32);
}

/* ---- The tree program --------------------------------------------------------------------------------------------- */

typedef struct state {
    float f[4];
    int64_t i;
    bool there;
} state;
typedef state (*join_fn)(state a, state b);

static state join(join_fn op, state a, state b)
{
    return !a.there ? b : !b.there ? a : op(a, b);
}

static state tree_fold(join_fn op, state *a, int n)
{
    for (int h = n / 2; h; h /= 2)
        for (int l = 0; l < h; l++)
            a[l] = join(op, a[l], a[l + h]);
    return a[0];
}

static state tree_leaf(join_fn op, const state *x, int64_t n, int lanes)
{
    state a[128] = {0};
    for (int64_t k = 0; k < n; k++)
        a[k % lanes] = join(op, a[k % lanes], x[k]);
    return tree_fold(op, a, lanes);
}

static state tree_of_leaves(join_fn op, const state *v, int64_t n)
{
    if (n == 0)
        return (state){0};
    if (n == 1)
        return v[0];
    int64_t p = 1;
    while (2 * p < n)
        p *= 2;
    return join(op, tree_of_leaves(op, v, p), tree_of_leaves(op, v + p, n - p));
}

#define LEAVES_MAX 512
static state tree(join_fn op, const state *x, int64_t n, int lanes)
{
    static state leaves[LEAVES_MAX];
    int64_t count = 0;
    for (int64_t k = 0; k < n; k += lanes * 16)
        leaves[count++] = tree_leaf(op, x + k, n - k < lanes * 16 ? n - k : lanes * 16, lanes);
    return tree_of_leaves(op, leaves, count);
}

static state join_sum(state a, state b)
{
    a.f[0] += b.f[0];
    return a;
}
static state join_odd(state a, state b)
{
    a.f[0] = a.f[0] * 0.5f + b.f[0];
    return a;
}
static state join_max(state a, state b)
{
    return a.f[0] < b.f[0] ? b : a;
}
static state join_argmax(state a, state b)
{
    return a.f[0] < b.f[0] || (a.f[0] == b.f[0] && b.i < a.i) ? b : a;
}
static state join_product(state a, state b)
{
    const float re = a.f[0] * b.f[0] - a.f[1] * b.f[1], im = a.f[0] * b.f[1] + a.f[1] * b.f[0];
    a.f[0] = re;
    a.f[1] = im;
    return a;
}
static state join_moments(state a, state b)
{
    const float n = a.f[0] + b.f[0], delta = b.f[1] - a.f[1], share = b.f[0] / n;
    const float m2 = (a.f[2] + b.f[2]) + (delta * delta) * (a.f[0] * share);
    a.f[1] = a.f[1] + delta * share;
    a.f[0] = n;
    a.f[2] = m2;
    return a;
}

static state moments_leaf(const float *x, int64_t n)
{
    state e[512];
    for (int64_t k = 0; k < n; k++)
        e[k] = (state){.f = {x[k]}, .there = true};
    const float mean = tree_leaf(join_sum, e, n, 32).f[0] / (float)n;
    for (int64_t k = 0; k < n; k++)
        e[k].f[0] = (x[k] - mean) * (x[k] - mean);
    const float m2 = tree_leaf(join_sum, e, n, 32).f[0];
    return (state){.f = {(float)n, mean, m2}, .there = true};
}

static state tree_moments(const float *x, int64_t n)
{
    static state leaves[LEAVES_MAX];
    int64_t count = 0;
    for (int64_t k = 0; k < n; k += 512)
        leaves[count++] = moments_leaf(x + k, n - k < 512 ? n - k : 512);
    return tree_of_leaves(join_moments, leaves, count);
}

/* ---- Data --------------------------------------------------------------------------------------------------------- */

static uint32_t random_bits(void)
{
    static uint64_t x = 88172645463325252ull;
    x ^= x << 13;
    x ^= x >> 7;
    x ^= x << 17;
    return (uint32_t)(x >> 16);
}

static float random_f32(void)
{
    return (float)((int32_t)random_bits() >> 8) * 0x1p-20f;
}

static dlk_access access_of(int dtype, int outer, int inner)
{
    return (dlk_access){.dtype = (uint8_t)dtype, .is_aligned = 1, .stride = {(uint8_t)outer, (uint8_t)inner}};
}

static dlk_func *schedule(const dlk_prog *p, const dlk_nest *nest, const dlk_target *target)
{
    dlk_func *func = NULL;
    dlk_status status = dlk_schedule_cpu(p, nest, target, p->arena, &func);
    if (status == DLK_OK)
        status = dlk_ir_verify(func);
    CHECK_MSG(status == DLK_OK, "%s", dlk_last_error());
    return func;
}

static dlk_nest reduce_nest(int lane_axis, int n_inputs, int n_outputs)
{
    return (dlk_nest){.n_axes = 2,
                      .reduced_axis = 1,
                      .lane_axis = (uint8_t)lane_axis,
                      .n_inputs = (uint8_t)n_inputs,
                      .n_outputs = (uint8_t)n_outputs,
                      .is_disjoint = 1};
}

static bool same_f32(float a, float b)
{
    return f32_bits(a) == f32_bits(b) || (a != a && b != b);
}

/* ---- Reductions --------------------------------------------------------------------------------------------------- */

#define N_MAX 20000
static float x_data[N_MAX * 8];
static float y_data[256];
static int64_t i_data[256];

static void fill(float *x, int64_t n)
{
    for (int64_t k = 0; k < n; k++)
        x[k] = random_f32();
}

/* Rows of n elements, side by side (inner) or one under the other (outer: lanes along the kept axis). */
typedef struct layout {
    int lane_axis, outer, inner;
    int64_t stride[2];
} layout;

static layout layout_of(int lane_axis, int64_t n, int64_t kept)
{
    if (lane_axis == 1)
        return (layout){1, DLK_STRIDE_ANY, DLK_STRIDE_UNIT, {n * 4, 4}};
    return (layout){0, DLK_STRIDE_UNIT, DLK_STRIDE_ANY, {4, kept * 4}};
}

static float element(const layout *l, int64_t row, int64_t k)
{
    return x_data[(row * l->stride[0] + k * l->stride[1]) / 4];
}

typedef dlk_ref (*reducer_fn)(dlk_prog *p, dlk_ref x);
static dlk_ref plain_sum(dlk_prog *p, dlk_ref x)
{
    return sum_f32(p, x, false);
}

static dlk_prog *reduce_program(dlk_arena *arena, reducer_fn reducer, int out)
{
    dlk_prog *p = dlk_prog_create(arena);
    output(p, out, reducer(p, input(p, 0, DLK_DTYPE_F32, 0)), DLK_NONE, DLK_SCOPE_ROW);
    return p;
}

static void check_reduce(const dlk_func *func, const dlk_nest *nest, join_fn op, int64_t n, int64_t kept, bool is_index)
{
    static state e[N_MAX];
    const layout l = layout_of(nest->lane_axis, n, kept);
    launch run = {.extent = {kept, n}, .count = n, .index_stride = {0, 1}};
    run.operand[0] = (array){x_data, {l.stride[0], l.stride[1]}};
    run.operand[1] = (array){is_index ? (void *)i_data : y_data, {is_index ? 8 : 4, 0}};
    launch_run(&run, nest, func);
    for (int64_t row = 0; row < kept; row++) {
        for (int64_t k = 0; k < n; k++)
            e[k] = (state){.f = {element(&l, row, k)}, .i = k, .there = true};
        const state expected = tree(op, e, n, 32);
        if (is_index)
            CHECK_MSG(i_data[row] == expected.i, "n %d row %d: %d, expected %d", (int)n, (int)row, (int)i_data[row],
                      (int)expected.i);
        else
            CHECK_MSG(same_f32(y_data[row], expected.f[0]), "n %d row %d: %a, expected %a", (int)n, (int)row,
                      y_data[row], expected.f[0]);
    }
}

static void sweep_reduce(reducer_fn reducer, join_fn op, bool is_index, int step)
{
    for (int level = 2; level <= 4; level++)
        for (int lane_axis = 0; lane_axis < 2; lane_axis++) {
            dlk_arena arena = {0};
            const int out = is_index ? DLK_DTYPE_I64 : DLK_DTYPE_F32;
            const dlk_prog *p = reduce_program(&arena, reducer, out);
            const dlk_target target = cpu_target(level);
            dlk_nest nest = reduce_nest(lane_axis, 1, 1);
            const layout l = layout_of(lane_axis, 1, 1);
            nest.operand[0] = access_of(DLK_DTYPE_F32, l.outer, l.inner);
            nest.operand[1] = access_of(out, DLK_STRIDE_UNIT, DLK_STRIDE_ZERO);
            const dlk_func *func = schedule(p, &nest, &target);
            for (int n = 1; n <= 3000 && !test_failed; n += n < 70 ? 1 : step + level)
                check_reduce(func, &nest, op, n, lane_axis ? 1 : 1 + n % 37, is_index);
            dlk_arena_free(&arena);
        }
}

TEST(sum)
{
    fill(x_data, N_MAX * 8);
    sweep_reduce(plain_sum, join_sum, false, 59);
}

TEST(without_identity)
{
    fill(x_data, N_MAX * 8);
    sweep_reduce(odd_f32, join_odd, false, 173);
}

TEST(max)
{
    fill(x_data, N_MAX * 8);
    sweep_reduce(max_f32, join_max, false, 211);
}

TEST(argmax)
{
    for (int k = 0; k < N_MAX * 8; k++)
        x_data[k] = (float)(random_bits() % 50);
    sweep_reduce(argmax_f32, join_argmax, true, 211);
}
