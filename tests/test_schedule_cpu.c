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
    double d;
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
    state e[512] = {0};
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
    if (status == DLK_OK)
        status = dlk_passes_run(func);
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
            nest.is_narrow = lane_axis == 0 && level == 3;
            const dlk_func *func = schedule(p, &nest, &target);
            for (int n = 1; n <= 3000 && !test_failed; n += n < 70 ? 1 : step + level)
                check_reduce(func, &nest, op, n, lane_axis ? 1 : 1 + n % 37, is_index);
            dlk_arena_free(&arena);
        }
}

TEST(sum)
{
    fill(x_data, N_MAX * 8);
    sweep_reduce(plain_sum, join_sum, false, 83);
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

/* ---- Several outputs, leaves, complex numbers ---------------------------------------------------------------------- */

static float out_data[4][256];

TEST(moments)
{
    fill(x_data, N_MAX * 8);
    for (int variant = 0; variant < 3; variant++) {
        const int lane_axis = variant & 1;
        dlk_arena arena = {0};
        dlk_prog *p = dlk_prog_create(&arena);
        dlk_ref m[3];
        moments_f32(p, input(p, 0, DLK_DTYPE_F32, 0), m);
        for (int k = 0; k < 3; k++)
            output(p, DLK_DTYPE_F32, m[k], DLK_NONE, DLK_SCOPE_ROW);
        const dlk_target target = cpu_target(3);
        dlk_nest nest = reduce_nest(lane_axis, 1, 3);
        nest.is_narrow = variant == 2;
        const layout any = layout_of(lane_axis, 1, 1);
        nest.operand[0] = access_of(DLK_DTYPE_F32, any.outer, any.inner);
        for (int k = 1; k < 4; k++)
            nest.operand[k] = access_of(DLK_DTYPE_F32, DLK_STRIDE_UNIT, DLK_STRIDE_ZERO);
        const dlk_func *func = schedule(p, &nest, &target);
        for (int n = 1; n < 2600 && !test_failed; n += n < 40 ? 1 : 151) {
            const int64_t kept = lane_axis ? 2 : 19;
            const layout l = layout_of(lane_axis, n, kept);
            launch run = {.extent = {kept, n}, .count = n};
            run.operand[0] = (array){x_data, {l.stride[0], l.stride[1]}};
            for (int k = 0; k < 3; k++)
                run.operand[1 + k] = (array){out_data[k], {4, 0}};
            launch_run(&run, &nest, func);
            for (int64_t row = 0; row < kept; row++) {
                static float x[N_MAX];
                for (int64_t k = 0; k < n; k++)
                    x[k] = element(&l, row, k);
                const state expected = tree_moments(x, n);
                for (int k = 0; k < 3; k++)
                    CHECK_MSG(same_f32(out_data[k][row], expected.f[k]), "n %d row %d part %d: %a, expected %a", n,
                              (int)row, k, out_data[k][row], expected.f[k]);
            }
        }
        dlk_arena_free(&arena);
    }
}

TEST(complex_product)
{
    fill(x_data, N_MAX * 8);
    for (int variant = 0; variant < 3; variant++) {
        const int lane_axis = variant & 1;
        dlk_arena arena = {0};
        dlk_prog *p = dlk_prog_create(&arena);
        dlk_ref z[2];
        prod_c64(p, input(p, 0, DLK_DTYPE_C64, 0), input(p, 0, DLK_DTYPE_C64, 1), z);
        output(p, DLK_DTYPE_C64, z[0], z[1], DLK_SCOPE_ROW);
        const dlk_target target = cpu_target(2 + lane_axis);
        dlk_nest nest = reduce_nest(lane_axis, 1, 1);
        nest.is_narrow = variant == 2;
        const layout any = layout_of(lane_axis, 1, 1);
        nest.operand[0] = access_of(DLK_DTYPE_C64, any.outer, any.inner);
        nest.operand[1] = access_of(DLK_DTYPE_C64, DLK_STRIDE_UNIT, DLK_STRIDE_ZERO);
        const dlk_func *func = schedule(p, &nest, &target);
        for (int n = 1; n < 1200 && !test_failed; n += n < 40 ? 1 : 97) {
            const int64_t kept = lane_axis ? 2 : 21;
            const int64_t outer = lane_axis ? n * 8 : 8, inner = lane_axis ? 8 : kept * 8;
            launch run = {.extent = {kept, n}, .count = n};
            run.operand[0] = (array){x_data, {outer, inner}};
            run.operand[1] = (array){y_data, {8, 0}};
            launch_run(&run, &nest, func);
            for (int64_t row = 0; row < kept; row++) {
                static state e[N_MAX];
                for (int64_t k = 0; k < n; k++) {
                    const float *x = &x_data[(row * outer + k * inner) / 4];
                    e[k] = (state){.f = {x[0], x[1]}, .there = true};
                }
                const state expected = tree(join_product, e, n, 16);
                CHECK_MSG(same_f32(y_data[2 * row], expected.f[0]) && same_f32(y_data[2 * row + 1], expected.f[1]),
                          "n %d row %d", n, (int)row);
            }
        }
        dlk_arena_free(&arena);
    }
}

/* ---- States, runs, leaves ------------------------------------------------------------------------------------------ */

static float state_data[4096], state_more[2][4096];

static dlk_func *schedule_part(dlk_arena *arena, const dlk_target *target, dlk_nest *nest, int lane_axis, int from,
                               int to, bool has_runs)
{
    const dlk_prog *p = reduce_program(arena, plain_sum, DLK_DTYPE_F32);
    const layout any = layout_of(lane_axis, 1, 1);
    *nest = reduce_nest(lane_axis, 1, 1);
    nest->from = (uint8_t)from;
    nest->to = (uint8_t)to;
    nest->has_runs = has_runs;
    nest->operand[0] = access_of(DLK_DTYPE_F32, any.outer, any.inner);
    nest->operand[1] = access_of(DLK_DTYPE_F32, DLK_STRIDE_UNIT, DLK_STRIDE_ZERO);
    return schedule(p, nest, target);
}

static float sum_row(const layout *l, int64_t row, int64_t n)
{
    static state e[N_MAX];
    for (int64_t k = 0; k < n; k++)
        e[k] = (state){.f = {element(l, row, k)}, .there = true};
    return tree(join_sum, e, n, 32).f[0];
}

/* Threads: runs of leaves leave states, which the counter joins: the bits of one pass. */
TEST(runs_of_leaves)
{
    fill(x_data, N_MAX * 8);
    const dlk_target target = cpu_target(3);
    for (int lane_axis = 0; lane_axis < 2; lane_axis++)
        for (int64_t tile = 512; tile <= 2048; tile *= 2) {
            dlk_arena arena = {0};
            dlk_nest first, second;
            const dlk_func *cut =
                schedule_part(&arena, &target, &first, lane_axis, DLK_FROM_ELEMENTS, DLK_TO_STATES, true);
            const dlk_func *joined =
                schedule_part(&arena, &target, &second, lane_axis, DLK_FROM_LEAVES, DLK_TO_RESULT, false);
            for (int64_t n = 1; n < 9000; n += 977) {
                const int64_t kept = 3;
                const layout l = layout_of(lane_axis, n, kept);
                launch a = {.extent = {kept, n}, .tile = {0, tile}, .count = n};
                a.operand[0] = (array){x_data, {l.stride[0], l.stride[1]}};
                a.state_out[0] = state_data;
                launch_run(&a, &first, cut);
                launch b = {.extent = {kept, a.tiles[1]}, .count = n};
                b.state_in[0] = (array){state_data, {a.tiles[1] * 4, 4}};
                b.operand[1] = (array){y_data, {4, 0}};
                launch_run(&b, &second, joined);
                for (int64_t row = 0; row < kept; row++)
                    CHECK_MSG(same_f32(y_data[row], sum_row(&l, row, n)), "axis %d tile %d n %d row %d", lane_axis,
                              (int)tile, (int)n, (int)row);
            }
            dlk_arena_free(&arena);
        }
}

/* Two axes that do not merge: [a][b][c] over a and c. */
TEST(states_of_an_inner_level)
{
    enum { A = 40, B = 3, C = 70 };
    fill(x_data, N_MAX * 8);
    const dlk_target target = cpu_target(4);
    for (int lane_axis = 0; lane_axis < 2; lane_axis++) {
        dlk_arena arena = {0};
        dlk_nest inner, outer;
        const dlk_func *lower = schedule_part(&arena, &target, &inner, 1, DLK_FROM_ELEMENTS, DLK_TO_STATES, false);
        const dlk_func *upper =
            schedule_part(&arena, &target, &outer, lane_axis, DLK_FROM_STATES, DLK_TO_RESULT, false);
        launch a = {.extent = {A * B, C}, .count = A * C};
        a.operand[0] = (array){x_data, {C * 4, 4}};
        a.state_out[0] = state_data;
        launch_run(&a, &inner, lower);
        launch b = {.extent = {B, A}, .count = A * C};
        b.state_in[0] = (array){state_data, {4, B * 4}};
        b.operand[1] = (array){y_data, {4, 0}};
        launch_run(&b, &outer, upper);
        for (int j = 0; j < B; j++) {
            const layout rows = layout_of(1, C, A * B);
            state e[A];
            for (int i = 0; i < A; i++)
                e[i] = (state){.f = {sum_row(&rows, i * B + j, C)}, .there = true};
            CHECK(same_f32(y_data[j], tree(join_sum, e, A, 32).f[0]));
        }
        dlk_arena_free(&arena);
    }
}

/* A reducer over leaves goes on from its states like any other. */
TEST(moments_in_runs)
{
    enum { N = 5000 };
    fill(x_data, N);
    const dlk_target target = cpu_target(3);
    dlk_arena arena = {0};
    dlk_prog *p = dlk_prog_create(&arena);
    dlk_ref m[3];
    moments_f32(p, input(p, 0, DLK_DTYPE_F32, 0), m);
    for (int k = 0; k < 3; k++)
        output(p, DLK_DTYPE_F32, m[k], DLK_NONE, DLK_SCOPE_ROW);
    dlk_nest nest = reduce_nest(1, 1, 3);
    nest.operand[0] = access_of(DLK_DTYPE_F32, DLK_STRIDE_ANY, DLK_STRIDE_UNIT);
    for (int k = 1; k < 4; k++)
        nest.operand[k] = access_of(DLK_DTYPE_F32, DLK_STRIDE_UNIT, DLK_STRIDE_ZERO);
    nest.to = DLK_TO_STATES;
    nest.has_runs = 1;
    const dlk_func *cut = schedule(p, &nest, &target);
    launch a = {.extent = {1, N}, .tile = {0, 1024}, .count = N};
    a.operand[0] = (array){x_data, {N * 4, 4}};
    a.state_out[0] = state_data;
    a.state_out[1] = state_more[0];
    a.state_out[2] = state_more[1];
    launch_run(&a, &nest, cut);
    nest.from = DLK_FROM_LEAVES;
    nest.to = DLK_TO_RESULT;
    nest.has_runs = 0;
    const dlk_func *joined = schedule(p, &nest, &target);
    launch b = {.extent = {1, a.tiles[1]}, .count = N};
    for (int k = 0; k < 3; k++) {
        b.state_in[k] = (array){k ? state_more[k - 1] : state_data, {0, 4}};
        b.operand[1 + k] = (array){out_data[k], {4, 0}};
    }
    launch_run(&b, &nest, joined);
    const state expected = tree_moments(x_data, N);
    for (int k = 0; k < 3; k++)
        CHECK(same_f32(out_data[k][0], expected.f[k]));
    dlk_arena_free(&arena);
}

TEST(sum_of_nothing_is_the_identity)
{
    for (int lane_axis = 0; lane_axis < 2; lane_axis++) {
        dlk_arena arena = {0};
        const dlk_target target = cpu_target(3);
        dlk_nest nest;
        const dlk_func *func =
            schedule_part(&arena, &target, &nest, lane_axis, DLK_FROM_ELEMENTS, DLK_TO_RESULT, false);
        launch run = {.extent = {5, 0}};
        run.operand[1] = (array){y_data, {4, 0}};
        for (int k = 0; k < 6; k++)
            y_data[k] = 7;
        launch_run(&run, &nest, func);
        for (int k = 0; k < 5; k++)
            CHECK(same_f32(y_data[k], -0.0f));
        CHECK(y_data[5] == 7);
        dlk_arena_free(&arena);
    }
}

/* ---- Long formulas, several trees ----------------------------------------------------------------------------------- */

static dlk_ref long_formula(dlk_prog *p, dlk_ref x, int terms);
static float long_value(float x, int terms);

/* A formula so long that a leaf is taken in parts, by reducers with and without identity in one pass, beside a sum in
 * float64 that has leaves of its own. */
static dlk_prog *mixed_program(dlk_arena *arena)
{
    dlk_prog *p = dlk_prog_create(arena);
    const dlk_ref x = input(p, 0, DLK_DTYPE_F32, 0), y = long_formula(p, x, 30);
    output(p, DLK_DTYPE_F32, sum_f32(p, y, false), DLK_NONE, DLK_SCOPE_ROW);
    output(p, DLK_DTYPE_F32, odd_f32(p, y), DLK_NONE, DLK_SCOPE_ROW);
    output(p, DLK_DTYPE_F32, max_f32(p, y), DLK_NONE, DLK_SCOPE_ROW);
    dlk_reduction r = reduction_of(p, 1, (dlk_kind[]){DLK_F64}, DLK_F64);
    r.first[0] = dlk_prog_convert(p, DLK_PRIM_FEXT, DLK_F64, x);
    r.merge[0] = prim2(p, DLK_PRIM_FADD, r.left[0], r.right[0]);
    r.has_identity = true;
    r.identity[0] = 1ull << 63;
    output(p, DLK_DTYPE_F64, dlk_prog_proj(p, dlk_prog_reduce(p, &r), 0, DLK_F64), DLK_NONE, DLK_SCOPE_ROW);
    return p;
}

static state join_double(state a, state b)
{
    a.d += b.d;
    return a;
}

static void check_mixed(const dlk_func *func, const dlk_nest *nest, int64_t n)
{
    static state e[N_MAX];
    const int64_t kept = nest->lane_axis ? 2 : 20;
    const layout l = layout_of(nest->lane_axis, n, kept);
    double d[20];
    launch run = {.extent = {kept, n}, .count = n};
    run.operand[0] = (array){x_data, {l.stride[0], l.stride[1]}};
    for (int k = 0; k < 3; k++)
        run.operand[1 + k] = (array){out_data[k], {4, 0}};
    run.operand[4] = (array){d, {8, 0}};
    launch_run(&run, nest, func);
    for (int64_t row = 0; row < kept; row++) {
        for (int64_t k = 0; k < n; k++) {
            const float x = element(&l, row, k);
            e[k] = (state){.f = {long_value(x, 30)}, .d = x, .there = true};
        }
        CHECK(same_f32(out_data[0][row], tree(join_sum, e, n, 32).f[0]));
        CHECK(same_f32(out_data[1][row], tree(join_odd, e, n, 32).f[0]));
        CHECK(same_f32(out_data[2][row], tree(join_max, e, n, 32).f[0]));
        CHECK(d[row] == tree(join_double, e, n, 16).d);
    }
}

TEST(long_formulas_and_several_trees)
{
    for (int k = 0; k < N_MAX * 8; k++)
        x_data[k] = random_f32() * 0.125f;
    for (int level = 2; level <= 4; level++)
        for (int variant = 0; variant < 3; variant++) {
            dlk_arena arena = {0};
            const dlk_target target = cpu_target(level);
            dlk_nest nest = reduce_nest(variant & 1, 1, 4);
            const layout any = layout_of(variant & 1, 1, 1);
            nest.is_narrow = variant == 2;
            nest.operand[0] = access_of(DLK_DTYPE_F32, any.outer, any.inner);
            for (int k = 1; k < 5; k++)
                nest.operand[k] = access_of(k < 4 ? DLK_DTYPE_F32 : DLK_DTYPE_F64, DLK_STRIDE_UNIT, DLK_STRIDE_ZERO);
            const dlk_func *func = schedule(mixed_program(&arena), &nest, &target);
            for (int64_t n = 1; n < 1400 && !test_failed; n += n < 40 ? 13 : 331)
                check_mixed(func, &nest, n);
            dlk_arena_free(&arena);
        }
}

/* ---- Row kernels --------------------------------------------------------------------------------------------------- */

static dlk_ref long_formula(dlk_prog *p, dlk_ref x, int terms)
{
    dlk_ref y = dlk_prog_const(p, DLK_F32, f32_bits(0.25f));
    for (int k = 0; k < terms; k++) {
        y = prim2(p, DLK_PRIM_FMUL, y, x);
        y = prim2(p, DLK_PRIM_FADD, y, dlk_prog_const(p, DLK_F32, f32_bits(0.5f / (float)(k + 1))));
    }
    return y;
}

static float long_value(float x, int terms)
{
    float y = 0.25f;
    for (int k = 0; k < terms; k++)
        y = y * x + 0.5f / (float)(k + 1);
    return y;
}

/* f(x - max) / sum(f(x - max)), and the sum itself. */
static dlk_prog *row_program(dlk_arena *arena, int terms)
{
    dlk_prog *p = dlk_prog_create(arena);
    const dlk_ref x = input(p, 0, DLK_DTYPE_F32, 0);
    const dlk_ref e = long_formula(p, prim2(p, DLK_PRIM_FSUB, x, max_f32(p, x)), terms);
    const dlk_ref total = sum_f32(p, e, false);
    output(p, DLK_DTYPE_F32, prim2(p, DLK_PRIM_FDIV, e, total), DLK_NONE, DLK_SCOPE_ELEMENT);
    output(p, DLK_DTYPE_F32, total, DLK_NONE, DLK_SCOPE_ROW);
    return p;
}

static void check_row(const dlk_func *func, const dlk_nest *nest, int64_t n, int terms)
{
    static float z[N_MAX * 8], e[N_MAX];
    const int64_t kept = nest->lane_axis ? 2 : 21;
    const layout l = layout_of(nest->lane_axis, n, kept);
    launch run = {.extent = {kept, n}, .count = n};
    run.operand[0] = (array){x_data, {l.stride[0], l.stride[1]}};
    run.operand[1] = (array){z, {l.stride[0], l.stride[1]}};
    run.operand[2] = (array){y_data, {4, 0}};
    launch_run(&run, nest, func);
    for (int64_t row = 0; row < kept; row++) {
        static state s[N_MAX];
        float m = -INFINITY;
        for (int64_t k = 0; k < n; k++)
            m = fmaxf(m, element(&l, row, k));
        for (int64_t k = 0; k < n; k++) {
            e[k] = long_value(element(&l, row, k) - m, terms);
            s[k] = (state){.f = {e[k]}, .there = true};
        }
        const float total = tree(join_sum, s, n, 32).f[0];
        CHECK(same_f32(total, y_data[row]));
        for (int64_t k = 0; k < n; k++)
            CHECK(same_f32(e[k] / total, z[(row * l.stride[0] + k * l.stride[1]) / 4]));
    }
}

TEST(row_kernel)
{
    fill(x_data, N_MAX * 8);
    for (int terms = 2; terms <= 32; terms += 30)
        for (int level = 2; level <= 4; level++)
            for (int bucket = DLK_ROW_STREAM; bucket <= DLK_ROW_CACHE; bucket++)
                for (int lane_axis = 0; lane_axis < 2; lane_axis++) {
                    dlk_arena arena = {0};
                    const dlk_target target = cpu_target(level);
                    dlk_nest nest = reduce_nest(lane_axis, 1, 2);
                    const layout any = layout_of(lane_axis, 1, 1);
                    nest.row_bucket = (uint8_t)bucket;
                    nest.operand[0] = nest.operand[1] = access_of(DLK_DTYPE_F32, any.outer, any.inner);
                    nest.operand[2] = access_of(DLK_DTYPE_F32, DLK_STRIDE_UNIT, DLK_STRIDE_ZERO);
                    const dlk_func *func = schedule(row_program(&arena, terms), &nest, &target);
                    for (int64_t n = 1; n < 1200 && !test_failed; n += n < 36 ? 17 : 521)
                        check_row(func, &nest, n, terms);
                    dlk_arena_free(&arena);
                }
}

/* ---- Maps ---------------------------------------------------------------------------------------------------------- */

#define ROWS  3
#define GUARD 64
static float map_data[3][GUARD * 2 + 4096];

/* Bytes between neighbours, for each stride class. */
static int64_t stride_of(int class_, int bytes, int64_t any)
{
    const int64_t strides[] = {0, bytes, -bytes, any};
    return strides[class_];
}

/* Elements so far from each other that rows do not overlap, whatever the class. */
static array place_array(float *data, int class_, int64_t n)
{
    const int64_t inner = stride_of(class_, 4, 12);
    const int64_t row = 4 * (3 * n + 5);
    return (array){data + GUARD + (class_ == DLK_STRIDE_REVERSE ? n : 0), {row, inner}};
}

static float at(const array *a, int64_t i, int64_t j)
{
    return *(const float *)((const char *)a->data + i * a->stride[0] + j * a->stride[1]);
}

static dlk_prog *map_program(dlk_arena *arena, int terms)
{
    dlk_prog *p = dlk_prog_create(arena);
    const dlk_ref x = input(p, 0, DLK_DTYPE_F32, 0), y = input(p, 1, DLK_DTYPE_F32, 0);
    output(p, DLK_DTYPE_F32, prim2(p, DLK_PRIM_FSUB, long_formula(p, x, terms), y), DLK_NONE, DLK_SCOPE_ELEMENT);
    return p;
}

static void check_map(const dlk_func *func, const dlk_nest *nest, int64_t n, int64_t tile, int terms, int shift)
{
    launch run = {.extent = {ROWS, n}, .tile = {1, tile}};
    static float before[GUARD * 2 + 4096];
    for (int k = 0; k < 3; k++) {
        fill(map_data[k], GUARD * 2 + 4096);
        run.operand[k] = place_array(map_data[k] + shift, nest->operand[k].stride[1], n);
    }
    memcpy(before, map_data[2], sizeof before);
    launch_run(&run, nest, func);
    const array *out = &run.operand[2];
    for (int64_t i = 0; i < ROWS; i++)
        for (int64_t j = 0; j < n; j++) {
            const float expected = long_value(at(&run.operand[0], i, j), terms) - at(&run.operand[1], i, j);
            CHECK_MSG(same_f32(at(out, i, j), expected), "n %d at %d %d: %a, expected %a", (int)n, (int)i, (int)j,
                      at(out, i, j), expected);
            const int64_t offset = ((char *)out->data - (char *)map_data[2]) + i * out->stride[0] + j * out->stride[1];
            map_data[2][offset / 4] = before[offset / 4];
        }
    CHECK_MSG(!memcmp(before, map_data[2], sizeof before), "n %d: something else was written", (int)n);
}

static void sweep_map(int level, int classes[3], int terms, bool nontemporal)
{
    dlk_arena arena = {0};
    const dlk_target target = cpu_target(level);
    dlk_nest nest = {
        .n_axes = 2, .reduced_axis = 0xff, .lane_axis = 1, .n_inputs = 2, .n_outputs = 1, .is_disjoint = 1};
    nest.is_nontemporal = nontemporal;
    for (int k = 0; k < 3; k++)
        nest.operand[k] = access_of(DLK_DTYPE_F32, DLK_STRIDE_ANY, classes[k]);
    const dlk_func *func = schedule(map_program(&arena, terms), &nest, &target);
    static const int64_t extents[] = {1, 2, 7, 8, 9, 31, 32, 33, 63, 64, 65, 100, 200};
    for (size_t k = 0; k < sizeof extents / sizeof *extents && !test_failed; k++)
        check_map(func, &nest, extents[k], k % 2 ? 64 : 0, terms, (int)k % 5);
    dlk_arena_free(&arena);
}

TEST(map_of_every_stride_class)
{
    for (int level = 2; level <= 4; level++)
        for (int k = 0; k < 48 && !test_failed; k++) {
            int classes[3] = {k % 4, k / 4 % 4, 1 + k / 16};
            sweep_map(level, classes, k % 3 ? 1 : 32, false);
        }
}

TEST(map_past_the_cache)
{
    for (int level = 2; level <= 4; level++)
        for (int k = 0; k < 4; k++) {
            int classes[3] = {k, DLK_STRIDE_UNIT, DLK_STRIDE_UNIT};
            sweep_map(level, classes, 1, true);
        }
}

TEST(map_in_place_with_two_outputs)
{
    dlk_arena arena = {0};
    const dlk_target target = cpu_target(3);
    dlk_prog *p = dlk_prog_create(&arena);
    const dlk_ref x = input(p, 0, DLK_DTYPE_F32, 0), y = input(p, 1, DLK_DTYPE_F32, 0);
    output(p, DLK_DTYPE_F32, prim2(p, DLK_PRIM_FADD, x, y), DLK_NONE, DLK_SCOPE_ELEMENT);
    output(p, DLK_DTYPE_F32, prim2(p, DLK_PRIM_FSUB, x, y), DLK_NONE, DLK_SCOPE_ELEMENT);
    dlk_nest nest = {.n_axes = 2, .reduced_axis = 0xff, .lane_axis = 1, .n_inputs = 2, .n_outputs = 2};
    for (int k = 0; k < 4; k++)
        nest.operand[k] = access_of(DLK_DTYPE_F32, DLK_STRIDE_ZERO, DLK_STRIDE_UNIT);
    nest.operand[2].is_exact_alias = nest.operand[3].is_exact_alias = 1;
    const dlk_func *func = schedule(p, &nest, &target);
    float a[77], b[77], sum[77], difference[77];
    fill(a, 77);
    fill(b, 77);
    for (int k = 0; k < 77; k++) {
        sum[k] = a[k] + b[k];
        difference[k] = a[k] - b[k];
    }
    launch run = {.extent = {1, 77}};
    for (int k = 0; k < 4; k++)
        run.operand[k] = (array){k % 2 ? b : a, {0, 4}};
    launch_run(&run, &nest, func);
    CHECK(!memcmp(a, sum, sizeof a) && !memcmp(b, difference, sizeof b));
    dlk_arena_free(&arena);
}

TEST(map_of_complex_halves_and_bytes)
{
    dlk_arena arena = {0};
    for (int level = 2; level <= 4; level++)
        for (int class_ = 0; class_ < 4; class_++) {
            const dlk_target target = cpu_target(level);
            dlk_prog *p = dlk_prog_create(&arena);
            const dlk_ref re = input(p, 0, DLK_DTYPE_C64, 0), im = input(p, 0, DLK_DTYPE_C64, 1);
            const dlk_ref h = input(p, 1, DLK_DTYPE_F16, 0);
            const dlk_ref i = dlk_prog_convert(p, DLK_PRIM_SITOF, DLK_F32, input(p, 2, DLK_DTYPE_I8, 0));
            output(p, DLK_DTYPE_C64, prim2(p, DLK_PRIM_FMUL, im, h), prim2(p, DLK_PRIM_FADD, re, i), DLK_SCOPE_ELEMENT);
            dlk_nest nest = {.n_axes = 2, .reduced_axis = 0xff, .lane_axis = 1, .n_inputs = 3, .n_outputs = 1};
            nest.operand[0] = access_of(DLK_DTYPE_C64, DLK_STRIDE_ZERO, class_);
            nest.operand[1] = access_of(DLK_DTYPE_F16, DLK_STRIDE_ZERO, class_);
            nest.operand[2] = access_of(DLK_DTYPE_I8, DLK_STRIDE_ZERO, class_);
            nest.operand[3] = access_of(DLK_DTYPE_C64, DLK_STRIDE_ZERO, class_ ? class_ : DLK_STRIDE_UNIT);
            const dlk_func *func = schedule(p, &nest, &target);
            for (int n = 1; n < 100; n += 9) {
                float x[800], z[800];
                uint16_t half[400];
                int8_t byte[400];
                fill(x, 800);
                for (int k = 0; k < 400; k++) {
                    half[k] = (uint16_t)(random_bits() & 0xbbff); /* finite */
                    byte[k] = (int8_t)random_bits();
                }
                const int64_t step[] = {0, 1, -1, 3}, s = step[class_], t = class_ ? s : 1;
                launch run = {.extent = {1, n}};
                run.operand[0] = (array){x + 200, {0, s * 8}};
                run.operand[1] = (array){half + 100, {0, s * 2}};
                run.operand[2] = (array){byte + 100, {0, s}};
                run.operand[3] = (array){z + 200, {0, t * 8}};
                launch_run(&run, &nest, func);
                for (int64_t k = 0; k < n; k++) {
                    const uint64_t bits =
                        dlk_prim_eval(DLK_PRIM_HTOF, DLK_I16, DLK_F32, half[100 + s * k], 0, 0, false);
                    const uint32_t low = (uint32_t)bits;
                    float h_value;
                    memcpy(&h_value, &low, 4);
                    CHECK(same_f32(z[200 + 2 * t * k], x[201 + 2 * s * k] * h_value));
                    CHECK(same_f32(z[201 + 2 * t * k], x[200 + 2 * s * k] + (float)byte[100 + s * k]));
                }
            }
        }
    dlk_arena_free(&arena);
}

/* ---- Operands that disagree about the fast axis --------------------------------------------------------------------- */

#define SIDE 150
static float square_data[3][SIDE * SIDE + 2 * GUARD];

/* crosswise: bit k says that operand k lies along the other axis. */
static void check_tiles(const dlk_func *func, const dlk_nest *nest, int crosswise, int64_t rows, int64_t columns,
                        int64_t tile)
{
    static float before[SIDE * SIDE + 2 * GUARD];
    launch run = {.extent = {rows, columns}, .tile = {tile, tile}};
    for (int k = 0; k < 3; k++) {
        fill(square_data[k], SIDE * SIDE + 2 * GUARD);
        const int64_t across = 4 * (crosswise >> k & 1 ? rows + 1 : columns + 2);
        run.operand[k] = (array){square_data[k] + GUARD, {across, 4}};
        if (crosswise >> k & 1)
            run.operand[k] = (array){square_data[k] + GUARD, {4, across}};
    }
    memcpy(before, square_data[2], sizeof before);
    launch_run(&run, nest, func);
    const array *out = &run.operand[2];
    for (int64_t i = 0; i < rows; i++)
        for (int64_t j = 0; j < columns; j++) {
            const float expected = long_value(at(&run.operand[0], i, j), 1) - at(&run.operand[1], i, j);
            CHECK_MSG(same_f32(at(out, i, j), expected), "operands %d, %d x %d, at %d %d", crosswise, (int)rows,
                      (int)columns, (int)i, (int)j);
            const int64_t offset =
                ((char *)out->data - (char *)square_data[2]) + i * out->stride[0] + j * out->stride[1];
            square_data[2][offset / 4] = before[offset / 4];
        }
    CHECK(!memcmp(before, square_data[2], sizeof before));
}

TEST(transposed_operands)
{
    static const int64_t sides[][2] = {{1, 1}, {1, 70}, {70, 1}, {8, 8}, {33, 65}, {64, 64}, {100, 130}, {145, 31}};
    for (int level = 2; level <= 4; level++)
        for (int crosswise = 1; crosswise < 8; crosswise++) {
            dlk_arena arena = {0};
            const dlk_target target = cpu_target(level);
            dlk_nest nest = {
                .n_axes = 2, .reduced_axis = 0xff, .lane_axis = 1, .n_inputs = 2, .n_outputs = 1, .is_disjoint = 1};
            nest.is_nontemporal = crosswise == 1;
            for (int k = 0; k < 3; k++)
                nest.operand[k] = crosswise >> k & 1 ? access_of(DLK_DTYPE_F32, DLK_STRIDE_UNIT, DLK_STRIDE_ANY)
                                                     : access_of(DLK_DTYPE_F32, DLK_STRIDE_ANY, DLK_STRIDE_UNIT);
            const dlk_func *func = schedule(map_program(&arena, 1), &nest, &target);
            for (size_t k = 0; k < sizeof sides / sizeof *sides && !test_failed; k++)
                check_tiles(func, &nest, crosswise, sides[k][0], sides[k][1], k % 2 ? 64 : 0);
            dlk_arena_free(&arena);
        }
}

TEST(transposed_complex)
{
    enum { ROWS_ = 37, COLUMNS_ = 41 };
    for (int level = 2; level <= 4; level++) {
        dlk_arena arena = {0};
        const dlk_target target = cpu_target(level);
        dlk_prog *p = dlk_prog_create(&arena);
        const dlk_ref re = input(p, 0, DLK_DTYPE_C64, 0), im = input(p, 0, DLK_DTYPE_C64, 1);
        output(p, DLK_DTYPE_C64, im, re, DLK_SCOPE_ELEMENT);
        dlk_nest nest = {.n_axes = 2, .reduced_axis = 0xff, .lane_axis = 1, .n_inputs = 1, .n_outputs = 1};
        nest.operand[0] = access_of(DLK_DTYPE_C64, DLK_STRIDE_UNIT, DLK_STRIDE_ANY);
        nest.operand[1] = access_of(DLK_DTYPE_C64, DLK_STRIDE_ANY, DLK_STRIDE_UNIT);
        const dlk_func *func = schedule(p, &nest, &target);
        static float x[COLUMNS_][ROWS_][2], z[ROWS_][COLUMNS_][2];
        fill(&x[0][0][0], ROWS_ * COLUMNS_ * 2);
        launch run = {.extent = {ROWS_, COLUMNS_}};
        run.operand[0] = (array){x, {8, ROWS_ * 8}};
        run.operand[1] = (array){z, {COLUMNS_ * 8, 8}};
        launch_run(&run, &nest, func);
        for (int i = 0; i < ROWS_; i++)
            for (int j = 0; j < COLUMNS_; j++)
                CHECK(same_f32(z[i][j][0], x[j][i][1]) && same_f32(z[i][j][1], x[j][i][0]));
        dlk_arena_free(&arena);
    }
}

/* ---- Programs that a walk must survive ------------------------------------------------------------------------------ */

/* Thousands of operations in a row, and a loop whose body shares everything with everything. */
static dlk_prog *deep_program(dlk_arena *arena)
{
    dlk_prog *p = dlk_prog_create(arena);
    dlk_ref x = input(p, 0, DLK_DTYPE_I32, 0);
    for (int k = 0; k < 9000; k++)
        x = prim2(p, k % 2 ? DLK_PRIM_ADD : DLK_PRIM_XOR, x, dlk_prog_const(p, DLK_I32, (uint64_t)(k % 97 + 1)));
    const dlk_ref var = dlk_prog_var(p, DLK_I32, DLK_SCOPE_ELEMENT);
    dlk_ref next = prim2(p, DLK_PRIM_ADD, var, x);
    for (int k = 0; k < 100; k++)
        next = prim2(p, DLK_PRIM_ADD, next, prim2(p, DLK_PRIM_XOR, next, var));
    const dlk_ref never = dlk_prog_const(p, DLK_P1, 0);
    const dlk_ref loop = dlk_prog_repeat(p, 3, &x, &var, &next, never, 1);
    output(p, DLK_DTYPE_I32, dlk_prog_proj(p, loop, 0, DLK_I32), DLK_NONE, DLK_SCOPE_ELEMENT);
    return p;
}

static uint32_t deep_value(uint32_t x)
{
    for (uint32_t k = 0; k < 9000; k++)
        x = k % 2 ? x + (k % 97 + 1) : x ^ (k % 97 + 1);
    uint32_t at = x;
    for (int run = 0; run < 3; run++) {
        uint32_t next = at + x;
        for (int k = 0; k < 100; k++)
            next += next ^ at;
        at = next;
    }
    return at;
}

TEST(deep_programs)
{
    dlk_arena arena = {0};
    const dlk_target target = cpu_target(3);
    dlk_nest nest = {.n_axes = 2, .reduced_axis = 0xff, .lane_axis = 1, .n_inputs = 1, .n_outputs = 1};
    nest.operand[0] = nest.operand[1] = access_of(DLK_DTYPE_I32, DLK_STRIDE_ZERO, DLK_STRIDE_UNIT);
    const dlk_func *func = schedule(deep_program(&arena), &nest, &target);
    uint32_t x[5], z[5];
    for (int k = 0; k < 5; k++)
        x[k] = random_bits();
    launch run = {.extent = {1, 5}};
    run.operand[0] = (array){x, {0, 4}};
    run.operand[1] = (array){z, {0, 4}};
    launch_run(&run, &nest, func);
    for (int k = 0; k < 5; k++)
        CHECK_INT(z[k], deep_value(x[k]));
    dlk_arena_free(&arena);
}
