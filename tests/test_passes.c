/* Every pass by what it leaves and by what the function computes before and after it, in the interpreter. */
#include "tests/ir_make.h"

#include "codegen/rewrite.h"

/* ---- Fused multiply-add without the instruction ---- */

enum { BATCH = 4096, LANES = 64 };

static uint64_t a64[BATCH], b64[BATCH], c64[BATCH], out64[BATCH];
static int n64;
static dlk_func *fma64;

static void flush_f64(void)
{
    void *buffers[4] = {a64, b64, c64, out64};
    const int n = n64;
    n64 = 0;
    if (test_failed)
        return;
    for (int k = n; k < BATCH; k++)
        a64[k] = b64[k] = c64[k] = 0;
    CHECK_INT(run_func(fma64, BATCH / LANES, buffers, 4), DLK_OK);
    for (int k = 0; k < n && !test_failed; k++) {
        const uint64_t wanted = bits_of(fma(double_of(a64[k]), double_of(b64[k]), double_of(c64[k])));
        CHECK_MSG(out64[k] == wanted || (is_nan_bits(DLK_F64, wanted) && is_nan_bits(DLK_F64, out64[k])),
                  "fma(%a, %a, %a) is %a, expected %a", double_of(a64[k]), double_of(b64[k]), double_of(c64[k]),
                  double_of(out64[k]), double_of(wanted));
    }
}

static void try_f64(uint64_t a, uint64_t b, uint64_t c)
{
    a64[n64] = a;
    b64[n64] = b;
    c64[n64++] = c;
    if (n64 == BATCH)
        flush_f64();
}

static const double f64_edges[] = {0.0,
                                   -0.0,
                                   1.0,
                                   -1.0,
                                   0x1.0000000000001p0,
                                   -0x1.fffffffffffffp0,
                                   0x1.fffffffffffffp-1,
                                   0x1.fffffffffffffp1023,
                                   -0x1.fffffffffffffp1023,
                                   0x1p1023,
                                   0x1p-1022,
                                   -0x1p-1022,
                                   0x0.fffffffffffffp-1022,
                                   0x1p-1074,
                                   -0x1p-1074,
                                   0x1.8p-1023,
                                   0x1p-537,
                                   0x1.0000000000001p-537,
                                   -0x1.6a09e667f3bcdp-512,
                                   0x1p512,
                                   0x1.6a09e667f3bcdp511,
                                   -0x1.0000001p600,
                                   0x1p-485,
                                   0x1p53,
                                   -0x1p-53,
                                   0x1p-54,
                                   0x1.8p970,
                                   -0x1p970,
                                   3.0,
                                   0x1.5555555555555p-2,
                                   INFINITY,
                                   -INFINITY,
                                   NAN};
enum { N_F64_EDGES = sizeof f64_edges / sizeof f64_edges[0] };

static void try_f64_edges(void)
{
    for (int i = 0; i < N_F64_EDGES; i++)
        for (int j = 0; j < N_F64_EDGES; j++)
            for (int k = 0; k < N_F64_EDGES; k++)
                try_f64(bits_of(f64_edges[i]), bits_of(f64_edges[j]), bits_of(f64_edges[k]));
}

/* Random digits (often few), the exponent near `exponent`. */
static double random_f64(int exponent, int spread)
{
    const uint64_t digits = (random_bits() & (random_bits() | 0xff)) >> random_below(50);
    const double mantissa = 1 + (double)(digits & 0xfffffffffffff) * 0x1p-52;
    return ldexp(random_below(2) ? mantissa : -mantissa, exponent + random_below(2 * spread + 1) - spread);
}

/* Addends that nearly cancel the product, or lie where the sum is about to be rounded. */
static void try_f64_near(int of_a, int of_b)
{
    const double a = random_f64(of_a, 2), b = random_f64(of_b, 2), product = a * b;
    const uint64_t near = bits_of(-product) + (uint64_t)(int64_t)(random_below(5) - 2);
    const int exponent = isfinite(product) && product != 0 ? ilogb(product) : of_a + of_b;
    try_f64(bits_of(a), bits_of(b), near);
    try_f64(bits_of(a), bits_of(b), bits_of(random_f64(exponent - 53, 56)));
    try_f64(bits_of(a), bits_of(b), bits_of(random_f64(exponent + 53, 3)));
    try_f64(bits_of(a), bits_of(b), bits_of(random_f64(exponent - 106, 4)));
}

static void make_fma64(dlk_arena *arena, const dlk_target *target)
{
    fma64 = prim_func(arena, target, DLK_PRIM_FMA, DLK_F64, DLK_F64, LANES);
    pass_checked(fma64);
    CHECK_INT(count_nodes(fma64, DLK_IR_PRIM, DLK_PRIM_FMA), 0);
    n64 = 0;
}

TEST(fma_f64_edges)
{
    dlk_arena arena = {0};
    const dlk_target target = plain_target();
    make_fma64(&arena, &target);
    try_f64_edges();
    flush_f64();
    dlk_arena_free(&arena);
}

TEST(fma_f64_random)
{
    dlk_arena arena = {0};
    const dlk_target target = plain_target();
    make_fma64(&arena, &target);
    for (int k = 0; k < 20000 && !test_failed; k++)
        try_f64(random_bits(), random_bits(), random_bits());
    for (int k = 0; k < 4000 && !test_failed; k++) {
        try_f64_near(random_below(60) - 30, random_below(60) - 30);
        try_f64_near(-random_below(540), -random_below(540));           /* down to subnormal products */
        try_f64_near(-500 - random_below(80), -480 - random_below(60)); /* most of them subnormal */
        try_f64_near(random_below(520), random_below(520));             /* up to overflow */
        try_f64_near(-1074 + random_below(100), random_below(1000));
    }
    flush_f64();
    dlk_arena_free(&arena);
}

static uint32_t random_f32_near(int exponent)
{
    return bits_of_float((float)random_f64(exponent, 2));
}

static void check_f32(const dlk_func *func, const uint32_t *a, const uint32_t *b, const uint32_t *c)
{
    uint32_t out[BATCH];
    void *buffers[4] = {(void *)a, (void *)b, (void *)c, out};
    CHECK_INT(run_func(func, BATCH / LANES, buffers, 4), DLK_OK);
    for (int k = 0; k < BATCH && !test_failed; k++) {
        const uint32_t wanted = bits_of_float(fmaf(float_of(a[k]), float_of(b[k]), float_of(c[k])));
        CHECK_MSG(out[k] == wanted || (is_nan_bits(DLK_F32, wanted) && is_nan_bits(DLK_F32, out[k])),
                  "fmaf(%a, %a, %a) is %a, expected %a", (double)float_of(a[k]), (double)float_of(b[k]),
                  (double)float_of(c[k]), (double)float_of(out[k]), (double)float_of(wanted));
    }
}

static const uint32_t f32_edges[16] = {0,          0x80000000, 0x3f800000, 0xbf800001, 0x7f7fffff, 0xff7fffff,
                                       0x00800000, 0x807fffff, 0x00000001, 0x80000001, 0x7f800000, 0xff800000,
                                       0x7fc00000, 0x33800000, 0x1f800001, 0x5f7fffff};

TEST(fma_f32)
{
    static uint32_t a[BATCH], b[BATCH], c[BATCH];
    dlk_arena arena = {0};
    const dlk_target target = plain_target();
    dlk_func *func = prim_func(&arena, &target, DLK_PRIM_FMA, DLK_F32, DLK_F32, LANES);
    pass_checked(func);
    CHECK_INT(count_nodes(func, DLK_IR_PRIM, DLK_PRIM_FMA), 0);
    for (int k = 0; k < BATCH; k++) {
        a[k] = f32_edges[k % 16];
        b[k] = f32_edges[k / 16 % 16];
        c[k] = f32_edges[k / 256];
    }
    check_f32(func, a, b, c);
    for (int round = 0; round < 24 && !test_failed; round++) {
        for (int k = 0; k < BATCH; k++) {
            const int of_a = random_below(200) - 100, of_b = random_below(200) - 120;
            a[k] = round & 1 ? (uint32_t)random_bits() : random_f32_near(of_a);
            b[k] = round & 1 ? (uint32_t)random_bits() : random_f32_near(of_b);
            c[k] = round & 1   ? (uint32_t)random_bits()
                   : round & 2 ? bits_of_float(-float_of(a[k]) * float_of(b[k])) + (uint32_t)random_below(3) - 1
                               : random_f32_near(of_a + of_b - 24 * random_below(3));
        }
        check_f32(func, a, b, c);
    }
    dlk_arena_free(&arena);
}

/* What MAD means on a target does not change by lowering it. */
static void check_mad(dlk_target target, dlk_kind kind, bool fused)
{
    static uint64_t in[3][BATCH], before[BATCH], after[BATCH];
    dlk_arena arena = {0};
    dlk_func *func = prim_func(&arena, &target, DLK_PRIM_MAD, kind, kind, 16);
    for (int k = 0; k < BATCH; k++) {
        in[0][k] = bits_of(random_f64(0, 3));
        in[1][k] = bits_of(random_f64(0, 3));
        in[2][k] = bits_of(-double_of(in[0][k]) * double_of(in[1][k]));
    }
    void *buffers[4] = {in[0], in[1], in[2], before};
    run_checked(func, BATCH / 16, buffers, 4);
    pass_checked(func);
    CHECK_INT(count_nodes(func, DLK_IR_PRIM, DLK_PRIM_MAD), 0);
    CHECK_INT(count_nodes(func, DLK_IR_PRIM, DLK_PRIM_FMA) != 0, fused && target.has_fma);
    buffers[3] = after;
    run_checked(func, BATCH / 16, buffers, 4);
    for (int k = 0; k < BATCH && kind == DLK_F64; k++) {
        const double a = double_of(in[0][k]), b = double_of(in[1][k]), c = double_of(in[2][k]);
        CHECK(before[k] == bits_of(fused ? fma(a, b, c) : a * b + c));
    }
    CHECK(memcmp(before, after, sizeof before) == 0);
    dlk_arena_free(&arena);
}

TEST(mad)
{
    dlk_target target = plain_target();
    check_mad(target, DLK_F64, false);
    check_mad(target, DLK_F32, false);
    target.has_fma = 1; /* there, but slower than two instructions */
    check_mad(target, DLK_F64, false);
    check_mad(rich_target(), DLK_F64, true);
    check_mad(rich_target(), DLK_F32, true);
    target.fast_fma = 1;
    target.has_fma = 0;
    check_mad(target, DLK_F64, true);
}

/* ---- Half precision ---- */

TEST(every_half_to_float)
{
    static uint16_t in[65536];
    static uint32_t out[65536];
    dlk_arena arena = {0};
    const dlk_target target = plain_target();
    dlk_func *func = prim_func(&arena, &target, DLK_PRIM_HTOF, DLK_I16, DLK_F32, LANES);
    pass_checked(func);
    CHECK_INT(count_nodes(func, DLK_IR_PRIM, DLK_PRIM_HTOF), 0);
    for (int k = 0; k < 65536; k++)
        in[k] = (uint16_t)k;
    void *buffers[4] = {in, in, in, out};
    run_checked(func, 65536 / LANES, buffers, 4);
    for (int k = 0; k < 65536 && !test_failed; k++) {
        const uint64_t wanted = dlk_prim_eval(DLK_PRIM_HTOF, DLK_I16, DLK_F32, (uint64_t)k, 0, 0, false);
        const bool both_nan = is_nan_bits(DLK_F32, wanted) && is_nan_bits(DLK_F32, out[k]);
        CHECK_MSG(out[k] == wanted || (both_nan && !((out[k] ^ wanted) >> 31)), "half %x is %x, expected %x", k, out[k],
                  (unsigned)wanted);
    }
    dlk_arena_free(&arena);
}

TEST(float_to_half_around_every_half)
{
    enum { PER_HALF = 8, N = 65536 * PER_HALF };
    uint32_t *in = malloc(N * sizeof *in);
    uint16_t *out = malloc(N * sizeof *out);
    dlk_arena arena = {0};
    const dlk_target target = plain_target();
    dlk_func *func = prim_func(&arena, &target, DLK_PRIM_FTOH, DLK_F32, DLK_I16, LANES);
    pass_checked(func);
    CHECK_INT(count_nodes(func, DLK_IR_PRIM, DLK_PRIM_FTOH), 0);
    for (int k = 0; k < N; k++) { /* the half, its neighbours, the tie above it and its neighbours, others near */
        static const uint32_t steps[PER_HALF] = {0, 1, (uint32_t)-1, 0xfff, 0x1000, 0x1001, 0x1fff, 0};
        const uint32_t half =
            (uint32_t)dlk_prim_eval(DLK_PRIM_HTOF, DLK_I16, DLK_F32, (uint64_t)(k / PER_HALF), 0, 0, false);
        in[k] = k % PER_HALF == PER_HALF - 1 ? (uint32_t)random_bits() : half + steps[k % PER_HALF];
    }
    void *buffers[4] = {in, in, in, out};
    run_checked(func, N / LANES, buffers, 4);
    for (int k = 0; k < N && !test_failed; k++) {
        const uint64_t wanted = dlk_prim_eval(DLK_PRIM_FTOH, DLK_F32, DLK_I16, in[k], 0, 0, false);
        CHECK_MSG(out[k] == wanted, "%x to half is %x, expected %x", in[k], out[k], (unsigned)wanted);
    }
    free(in);
    free(out);
    dlk_arena_free(&arena);
}

/* ---- Partial accesses ---- */

enum { MIDDLE = 1024, BYTES = 2 * MIDDLE };

typedef struct partial {
    dlk_kind kind;
    int lanes;
    dlk_step step;
    bool is_store;
} partial;

/* The moved value is either loaded partially or stored partially, the other way whole; offsets and count are inputs. */
static dlk_func *partial_func(dlk_arena *arena, const dlk_target *target, partial p)
{
    dlk_func *func = dlk_func_create(arena, target);
    const int data = input_buffer(func, 0), numbers = input_buffer(func, 1), out = output_buffer(func, 0);
    dlk_val n[3];
    for (int k = 0; k < 3; k++)
        n[k] = dlk_ir_load(func, type_make(DLK_I64, 1), mem_at(numbers, dlk_ir_i64(func, 8 * k)));
    const dlk_val offsets = dlk_ir_load(func, type_make(DLK_I64, p.lanes), mem_at(numbers, dlk_ir_i64(func, 24)));
    dlk_mem some = mem_at(p.is_store ? out : data, n[0]), all = mem_at(p.is_store ? data : out, dlk_ir_i64(func, 0));
    some.step = p.step;
    some.count = n[1];
    some.stride = p.step == DLK_STEP_UNIFORM ? n[2] : p.step == DLK_STEP_GATHER ? offsets : DLK_NONE;
    const dlk_val value = dlk_ir_load(func, type_make(p.kind, p.lanes), p.is_store ? all : some);
    dlk_ir_store(func, value, p.is_store ? some : all);
    return func;
}

static bool is_left_partial(const dlk_func *func)
{
    bool some = false;
    for (dlk_val v = 0; v < func->n_nodes; v++)
        some |=
            (func->nodes[v].op == DLK_IR_LOAD || func->nodes[v].op == DLK_IR_STORE) && func->nodes[v].count != DLK_NONE;
    return some;
}

static void check_partial_counts(const dlk_func *before, const dlk_func *after, partial p)
{
    static unsigned char data[BYTES], out_before[BYTES], out_after[BYTES];
    const int bytes = dlk_kind_bytes(p.kind);
    int64_t numbers[3 + LANES] = {MIDDLE + 3, 0, 3 * bytes + 1};
    for (int64_t count = -1; count <= p.lanes + 1 && !test_failed; count++) {
        for (int k = 0; k < BYTES; k++)
            data[k] = (unsigned char)random_bits();
        for (int k = 0; k < LANES; k++) /* disjoint places, or a store would depend on the order of its lanes */
            numbers[3 + k] = (k * 37 % 64 - 32) * bytes;
        numbers[1] = count;
        memset(out_before, 0x55, BYTES);
        memset(out_after, 0x55, BYTES);
        void *buffers[3] = {data, numbers, out_before};
        run_checked(before, 1, buffers, 3);
        buffers[2] = out_after;
        run_checked(after, 1, buffers, 3);
        CHECK_MSG(memcmp(out_before, out_after, BYTES) == 0, "kind %d x%d step %d %s count %lld", p.kind, p.lanes,
                  p.step, p.is_store ? "store" : "load", (long long)count);
    }
}

static void check_partial(dlk_target target, partial p)
{
    dlk_arena arena = {0};
    dlk_func *before = partial_func(&arena, &target, p), *after = partial_func(&arena, &target, p);
    pass_checked(after);
    const bool native = p.step == DLK_STEP_UNIT && p.lanes > 1 && (target.masked_bytes & dlk_kind_bytes(p.kind)) != 0;
    CHECK_INT(is_left_partial(after), native || target.family == DLK_TARGET_GPU);
    check_partial_counts(before, after, p);
    dlk_arena_free(&arena);
}

static void check_partials(dlk_target target)
{
    static const int lanes[] = {1, 2, 8, 32};
    for (int kind = DLK_I8; kind < DLK_KIND_COUNT; kind++)
        for (int l = 0; l < 4; l++)
            for (int step = 0; step <= DLK_STEP_GATHER && !test_failed; step++) {
                check_partial(target, (partial){(dlk_kind)kind, lanes[l], (dlk_step)step, false});
                if (step != DLK_STEP_ZERO)
                    check_partial(target, (partial){(dlk_kind)kind, lanes[l], (dlk_step)step, true});
            }
}

TEST(partial_without_masks)
{
    check_partials(plain_target());
}
TEST(partial_with_some_masks)
{
    dlk_target target = plain_target();
    target.masked_bytes = 4 | 8;
    check_partials(target);
}
TEST(partial_with_all_masks)
{
    check_partials(rich_target());
}
TEST(partial_stays_on_a_gpu)
{
    dlk_target target = plain_target();
    target.family = DLK_TARGET_GPU;
    check_partials(target);
}

/* ---- Equal and unused nodes ---- */

TEST(equal_nodes_are_merged)
{
    dlk_arena arena = {0};
    const dlk_target target = rich_target();
    dlk_func *func = dlk_func_create(&arena, &target);
    const dlk_val x = load_item(func, 0, DLK_I32, 4);
    dlk_val sums[2];
    for (int k = 0; k < 2; k++) {
        static const int8_t swap[4] = {1, 0, 3, 2};
        const dlk_val seven = dlk_ir_splat(func, dlk_ir_const(func, type_make(DLK_I32, 1), 7), 4);
        sums[k] =
            prim2(func, DLK_PRIM_ADD, prim2(func, DLK_PRIM_MUL, x, seven), dlk_ir_perm(func, x, DLK_NONE, swap, 4));
    }
    store_item(func, 0, sums[0]);
    store_item(func, 1, sums[1]);
    pass_checked(func);
    CHECK_INT(count_nodes(func, DLK_IR_PRIM, DLK_PRIM_ADD), 1);
    CHECK_INT(count_nodes(func, DLK_IR_PERM, 0), 1);
    CHECK_INT(count_nodes(func, DLK_IR_ITEM, 0), 1);
    CHECK_INT(count_nodes(func, DLK_IR_PRIM, DLK_PRIM_MUL), 2); /* x * 7 and item * 16 */
    CHECK_INT(count_nodes(func, DLK_IR_STORE, 0), 2);
    dlk_arena_free(&arena);
}

TEST(different_nodes_are_not_merged)
{
    static const int8_t one[2] = {0, 0}, other[2] = {1, 1};
    dlk_arena arena = {0};
    const dlk_target target = rich_target();
    dlk_func *func = dlk_func_create(&arena, &target);
    const dlk_val x = load_item(func, 0, DLK_I32, 2);
    store_item(
        func, 0,
        prim2(func, DLK_PRIM_SUB, dlk_ir_perm(func, x, DLK_NONE, one, 2), dlk_ir_perm(func, x, DLK_NONE, other, 2)));
    store_item(
        func, 1,
        prim2(func, DLK_PRIM_SUB, dlk_ir_perm(func, x, DLK_NONE, other, 2), dlk_ir_perm(func, x, DLK_NONE, one, 2)));
    pass_checked(func);
    CHECK_INT(count_nodes(func, DLK_IR_PERM, 0), 2);
    CHECK_INT(count_nodes(func, DLK_IR_PRIM, DLK_PRIM_SUB), 2);
    dlk_arena_free(&arena);
}

/* x + x through two loads; `stores_between` writes to the other buffer in the middle. */
static int loads_left(bool noalias, bool written)
{
    dlk_arena arena = {0};
    const dlk_target target = rich_target();
    dlk_func *func = dlk_func_create(&arena, &target);
    const int in = input_buffer(func, 0), out = output_buffer(func, 0);
    func->buffers[in].noalias = noalias;
    func->buffers[in].written = written;
    const dlk_val zero = dlk_ir_i64(func, 0);
    const dlk_val a = dlk_ir_load(func, type_make(DLK_F32, 8), mem_at(in, zero));
    dlk_ir_store(func, a, mem_at(out, zero));
    const dlk_val b = dlk_ir_load(func, type_make(DLK_F32, 8), mem_at(in, zero));
    dlk_ir_store(func, prim2(func, DLK_PRIM_FADD, a, b), mem_at(out, zero));
    pass_checked(func);
    const int n = count_nodes(func, DLK_IR_LOAD, 0);
    dlk_arena_free(&arena);
    return n;
}

TEST(loads_are_merged_only_from_constant_buffers)
{
    CHECK_INT(loads_left(true, false), 1);
    CHECK_INT(loads_left(false, false), 2);
    CHECK_INT(loads_left(true, true), 2);
}

/* The same sum in both arms and after them: that of an arm serves nobody else, that before serves all. */
static int sums_left(bool sum_before)
{
    dlk_arena arena = {0};
    const dlk_target target = rich_target();
    dlk_func *func = dlk_func_create(&arena, &target);
    const dlk_val x = load_item(func, 0, DLK_I64, 1), y = load_item(func, 1, DLK_I64, 1);
    if (sum_before)
        store_item(func, 0, prim2(func, DLK_PRIM_ADD, x, y));
    const dlk_val branch = dlk_ir_if_begin(func, prim2(func, DLK_PRIM_SLT, x, y), false);
    store_item(func, 1, prim2(func, DLK_PRIM_ADD, x, y));
    dlk_ir_if_else(func, branch, NULL, 0);
    store_item(func, 2, prim2(func, DLK_PRIM_ADD, x, y));
    dlk_ir_if_end(func, branch, NULL);
    store_item(func, 3, prim2(func, DLK_PRIM_ADD, x, y));
    pass_checked(func);
    const int n = count_nodes(func, DLK_IR_PRIM, DLK_PRIM_ADD);
    CHECK_INT(dlk_ir_verify(func), DLK_OK);
    dlk_arena_free(&arena);
    return n;
}

TEST(merging_respects_blocks)
{
    CHECK_INT(sums_left(true), 1);
    CHECK_INT(sums_left(false), 3);
}

TEST(unused_nodes_are_dropped)
{
    dlk_arena arena = {0};
    const dlk_target target = rich_target();
    dlk_func *func = dlk_func_create(&arena, &target);
    const dlk_val x = load_item(func, 0, DLK_F64, 4), one = dlk_ir_i64(func, 1), ten = dlk_ir_i64(func, 10);
    prim2(func, DLK_PRIM_FADD, x, load_item(func, 1, DLK_F64, 4));
    const dlk_val loop = dlk_ir_loop_begin(func, one, ten, one, &x, 1); /* changes nothing that is used */
    const dlk_val next = prim2(func, DLK_PRIM_FMUL, dlk_ir_loop_carried(func, loop, 0), x);
    dlk_ir_loop_end(func, loop, &next, DLK_NONE);
    dlk_ir_result(func, loop, 0);
    store_item(func, 0, x);
    pass_checked(func);
    CHECK_INT(count_nodes(func, DLK_IR_LOOP, 0), 0);
    CHECK_INT(count_nodes(func, DLK_IR_LOAD, 0), 1);
    CHECK_INT(count_nodes(func, DLK_IR_PRIM, DLK_PRIM_FADD), 0);
    CHECK_INT(count_nodes(func, DLK_IR_STORE, 0), 1);
    dlk_arena_free(&arena);
}

/* A chain as long as programs get must not need a stack as deep. */
TEST(long_chains)
{
    dlk_arena arena = {0};
    const dlk_target target = rich_target();
    dlk_func *func = dlk_func_create(&arena, &target);
    dlk_val x = load_item(func, 0, DLK_I64, 1);
    for (int k = 0; k < 300000; k++)
        x = dlk_ir_prim(func, DLK_PRIM_NOT, x, DLK_NONE, DLK_NONE);
    store_item(func, 0, x);
    pass_checked(func);
    CHECK_INT(count_nodes(func, DLK_IR_PRIM, DLK_PRIM_NOT), 300000);
    dlk_arena_free(&arena);
}

/* ---- Whole functions ---- */

enum { POOL = 48 };

typedef struct maker { /* what a random function may use where it stands */
    dlk_func *func;
    dlk_val pool[POOL];
    int n;
} maker;

static dlk_val pick(maker *m, dlk_kind kind)
{
    dlk_val found = DLK_NONE;
    for (int k = 0, seen = 0; k < m->n; k++)
        if (dlk_val_type(m->func, m->pool[k]).kind == kind && random_below(++seen) == 0)
            found = m->pool[k];
    return found;
}

static void keep(maker *m, dlk_val value)
{
    if (m->n < POOL)
        m->pool[m->n++] = value;
}

static void make_random_prim(maker *m)
{
    static const dlk_prim ints[] = {DLK_PRIM_ADD,  DLK_PRIM_SUB, DLK_PRIM_MUL,   DLK_PRIM_SDIV, DLK_PRIM_UREM,
                                    DLK_PRIM_SMIN, DLK_PRIM_AND, DLK_PRIM_OR,    DLK_PRIM_XOR,  DLK_PRIM_SHL,
                                    DLK_PRIM_ASHR, DLK_PRIM_CLZ, DLK_PRIM_SMULHI};
    static const dlk_prim floats[] = {DLK_PRIM_FADD, DLK_PRIM_FMUL, DLK_PRIM_FDIV, DLK_PRIM_FMA,
                                      DLK_PRIM_MAD,  DLK_PRIM_FMAX, DLK_PRIM_RINT, DLK_PRIM_FSQRT};
    const bool is_int = random_below(2);
    const dlk_kind kind = is_int ? DLK_I64 : DLK_F64;
    const dlk_prim prim = is_int ? ints[random_below(13)] : floats[random_below(8)];
    const int arity = dlk_prims[prim].arity;
    keep(m, dlk_ir_prim(m->func, prim, pick(m, kind), arity > 1 ? pick(m, kind) : DLK_NONE,
                        arity > 2 ? pick(m, kind) : DLK_NONE));
}

static void make_random(maker *m, int depth, int n);

static void make_random_if(maker *m, int depth)
{
    const dlk_val p = dlk_ir_any(m->func, prim2(m->func, DLK_PRIM_SLT, pick(m, DLK_I64), pick(m, DLK_I64)));
    maker arm = *m;
    const dlk_val branch = dlk_ir_if_begin(m->func, p, random_below(2));
    make_random(&arm, depth - 1, 4);
    const dlk_val first[2] = {pick(&arm, DLK_I64), pick(&arm, DLK_F64)};
    dlk_ir_if_else(m->func, branch, first, 2);
    arm = *m;
    make_random(&arm, depth - 1, 4);
    const dlk_val second[2] = {pick(&arm, DLK_I64), pick(&arm, DLK_F64)};
    dlk_ir_if_end(m->func, branch, second);
    keep(m, dlk_ir_result(m->func, branch, 0));
    keep(m, dlk_ir_result(m->func, branch, 1));
}

static void make_random_loop(maker *m, int depth)
{
    dlk_func *func = m->func;
    maker body = *m;
    const dlk_val inits[2] = {pick(m, DLK_I64), pick(m, DLK_F64)};
    const dlk_val loop = dlk_ir_loop_begin(func, dlk_ir_i64(func, 0), dlk_ir_i64(func, random_below(6)),
                                           dlk_ir_i64(func, 1 + random_below(2)), inits, 2);
    keep(&body, dlk_ir_splat(func, dlk_ir_loop_index(func, loop), 4));
    keep(&body, dlk_ir_loop_carried(func, loop, 0));
    keep(&body, dlk_ir_loop_carried(func, loop, 1));
    make_random(&body, depth - 1, 4);
    const dlk_val next[2] = {pick(&body, DLK_I64), pick(&body, DLK_F64)};
    const dlk_val leave = random_below(2)
                              ? dlk_ir_any(func, prim2(func, DLK_PRIM_FLT, pick(&body, DLK_F64), pick(&body, DLK_F64)))
                              : DLK_NONE;
    dlk_ir_loop_end(func, loop, next, leave);
    keep(m, dlk_ir_result(func, loop, 0));
    keep(m, dlk_ir_result(func, loop, 1));
}

static void make_random(maker *m, int depth, int n)
{
    for (int k = 0; k < n; k++) {
        const int what = depth ? random_below(8) : 7;
        if (what == 0)
            make_random_if(m, depth);
        else if (what == 1)
            make_random_loop(m, depth);
        else
            make_random_prim(m);
    }
}

static dlk_func *random_func(dlk_arena *arena, const dlk_target *target, uint64_t seed)
{
    random_state = seed;
    maker m = {.func = dlk_func_create(arena, target)};
    for (int k = 0; k < 4; k++)
        keep(&m, load_item(m.func, k, k & 1 ? DLK_F64 : DLK_I64, 4));
    keep(&m, dlk_ir_const(m.func, type_make(DLK_I64, 4), random_bits() & 7));
    keep(&m, dlk_ir_const(m.func, type_make(DLK_F64, 4), bits_of(1.5)));
    make_random(&m, 2, 20);
    store_item(m.func, 0, pick(&m, DLK_I64));
    store_item(m.func, 1, pick(&m, DLK_F64));
    return m.func;
}

static void check_random_func(const dlk_target *target, uint64_t seed)
{
    enum { ITEMS = 8, N = 4 * ITEMS };
    static uint64_t in[4][N], out[2][2][N];
    dlk_arena arena = {0};
    dlk_func *before = random_func(&arena, target, seed), *after = random_func(&arena, target, seed);
    pass_checked(after);
    for (int k = 0; k < N; k++)
        for (int i = 0; i < 4; i++)
            in[i][k] = i & 1 ? bits_of(random_f64(0, 4)) : random_bits() >> random_below(64);
    void *first[6] = {in[0], in[1], in[2], in[3], out[0][0], out[0][1]};
    void *second[6] = {in[0], in[1], in[2], in[3], out[1][0], out[1][1]};
    run_checked(before, ITEMS, first, 6);
    run_checked(after, ITEMS, second, 6);
    for (int k = 0; k < N && !test_failed; k++) {
        CHECK_MSG(out[0][0][k] == out[1][0][k], "seed %" PRIu64 ": %" PRIx64 " became %" PRIx64, seed, out[0][0][k],
                  out[1][0][k]);
        const bool both_nan = is_nan_bits(DLK_F64, out[0][1][k]) && is_nan_bits(DLK_F64, out[1][1][k]);
        CHECK_MSG(both_nan || out[0][1][k] == out[1][1][k], "seed %" PRIu64 ": %" PRIx64 " became %" PRIx64, seed,
                  out[0][1][k], out[1][1][k]);
    }
    dlk_arena_free(&arena);
}

TEST(random_functions)
{
    const dlk_target plain = plain_target(), rich = rich_target();
    for (uint64_t seed = 1; seed <= 300 && !test_failed; seed++) {
        check_random_func(&plain, seed);
        check_random_func(&rich, seed);
    }
}
