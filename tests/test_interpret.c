/* The interpreter against plain C: every primitive, control flow of threads that go different ways, memory, and the mistakes
 * that it must find. */
#include "tests/ir_make.h"

#ifdef __SSE2__
#    include <xmmintrin.h>
#endif

/* ---- Primitives, spelled out again with C's own types ---- */

#define INT_REFERENCE(S, U, W, UW, BITS)                                     \
    static uint64_t reference_i##BITS(dlk_prim prim, uint64_t x, uint64_t y) \
    {                                                                        \
        const U a = (U)x, b = (U)y;                                          \
        const S s = (S)a, t = (S)b;                                          \
        int n = 0;                                                           \
        switch (prim) {                                                      \
        case DLK_PRIM_ADD:                                                   \
            return (U)(a + b);                                               \
        case DLK_PRIM_SUB:                                                   \
            return (U)(a - b);                                               \
        case DLK_PRIM_MUL:                                                   \
            return (U)((UW)a * (UW)b);                                       \
        case DLK_PRIM_SDIV:                                                  \
            return t == 0 ? 0 : t == -1 ? (U)(0 - a) : (U)(S)(s / t);        \
        case DLK_PRIM_SREM:                                                  \
            return t == 0 || t == -1 ? 0 : (U)(S)(s % t);                    \
        case DLK_PRIM_UDIV:                                                  \
            return b ? (U)(a / b) : 0;                                       \
        case DLK_PRIM_UREM:                                                  \
            return b ? (U)(a % b) : 0;                                       \
        case DLK_PRIM_SMULHI:                                                \
            return (U)(((W)s * (W)t) >> BITS);                               \
        case DLK_PRIM_UMULHI:                                                \
            return (U)(((UW)a * (UW)b) >> BITS);                             \
        case DLK_PRIM_SMIN:                                                  \
            return (U)(s < t ? s : t);                                       \
        case DLK_PRIM_SMAX:                                                  \
            return (U)(s < t ? t : s);                                       \
        case DLK_PRIM_UMIN:                                                  \
            return a < b ? a : b;                                            \
        case DLK_PRIM_UMAX:                                                  \
            return a < b ? b : a;                                            \
        case DLK_PRIM_AND:                                                   \
            return (U)(a & b);                                               \
        case DLK_PRIM_OR:                                                    \
            return (U)(a | b);                                               \
        case DLK_PRIM_XOR:                                                   \
            return (U)(a ^ b);                                               \
        case DLK_PRIM_NOT:                                                   \
            return (U)~a;                                                    \
        case DLK_PRIM_SHL:                                                   \
            return b < BITS ? (U)((UW)a << b) : 0;                           \
        case DLK_PRIM_LSHR:                                                  \
            return b < BITS ? (U)(a >> b) : 0;                               \
        case DLK_PRIM_ASHR:                                                  \
            return (U)(b < BITS ? s >> b : s < 0 ? -1 : 0);                  \
        case DLK_PRIM_CLZ:                                                   \
            while (n < BITS && !(a >> (BITS - 1 - n) & 1))                   \
                n++;                                                         \
            return (uint64_t)n;                                              \
        case DLK_PRIM_CTZ:                                                   \
            while (n < BITS && !(a >> n & 1))                                \
                n++;                                                         \
            return (uint64_t)n;                                              \
        case DLK_PRIM_POPCOUNT:                                              \
            for (int k = 0; k < BITS; k++)                                   \
                n += a >> k & 1;                                             \
            return (uint64_t)n;                                              \
        case DLK_PRIM_EQ:                                                    \
            return a == b;                                                   \
        case DLK_PRIM_NE:                                                    \
            return a != b;                                                   \
        case DLK_PRIM_SLT:                                                   \
            return s < t;                                                    \
        case DLK_PRIM_SLE:                                                   \
            return s <= t;                                                   \
        case DLK_PRIM_ULT:                                                   \
            return a < b;                                                    \
        case DLK_PRIM_ULE:                                                   \
            return a <= b;                                                   \
        default:                                                             \
            CHECK(!"a primitive without a reference");                       \
            return 0;                                                        \
        }                                                                    \
    }
INT_REFERENCE(int8_t, uint8_t, int16_t, uint16_t, 8)
INT_REFERENCE(int16_t, uint16_t, int32_t, uint32_t, 16)
INT_REFERENCE(int32_t, uint32_t, int64_t, uint64_t, 32)
INT_REFERENCE(int64_t, uint64_t, __int128, unsigned __int128, 64)

static uint64_t reference_p1(dlk_prim prim, uint64_t a, uint64_t b)
{
    switch (prim) {
    case DLK_PRIM_AND:
        return a && b;
    case DLK_PRIM_OR:
        return a || b;
    case DLK_PRIM_XOR:
    case DLK_PRIM_NE:
        return a != b;
    case DLK_PRIM_EQ:
        return a == b;
    case DLK_PRIM_NOT:
        return !a;
    default:
        CHECK(!"a primitive without a reference");
        return 0;
    }
}

#define FLOAT_REFERENCE(T, name, of, from, suffix)                                              \
    static T name##_extreme(T a, T b, bool largest)                                             \
    {                                                                                           \
        if (a != a || b != b)                                                                   \
            return NAN;                                                                         \
        if (a == 0 && b == 0)                                                                   \
            return (largest ? signbit(a) && signbit(b) : signbit(a) || signbit(b)) ? -(T)0 : 0; \
        return largest == (a > b) ? a : b;                                                      \
    }                                                                                           \
    static uint64_t name(dlk_prim prim, uint64_t x, uint64_t y, uint64_t z, bool fused)         \
    {                                                                                           \
        const T a = from(x), b = from(y), c = from(z);                                          \
        volatile T product = a * b;                                                             \
        switch (prim) {                                                                         \
        case DLK_PRIM_FADD:                                                                     \
            return of(a + b);                                                                   \
        case DLK_PRIM_FSUB:                                                                     \
            return of(a - b);                                                                   \
        case DLK_PRIM_FMUL:                                                                     \
            return of(a * b);                                                                   \
        case DLK_PRIM_FDIV:                                                                     \
            return of(a / b);                                                                   \
        case DLK_PRIM_FSQRT:                                                                    \
            return of(sqrt##suffix(a));                                                         \
        case DLK_PRIM_FNEG:                                                                     \
            return of(-a);                                                                      \
        case DLK_PRIM_FABS:                                                                     \
            return of(fabs##suffix(a));                                                         \
        case DLK_PRIM_COPYSIGN:                                                                 \
            return of(copysign##suffix(a, b));                                                  \
        case DLK_PRIM_FMA:                                                                      \
            return of(fma##suffix(a, b, c));                                                    \
        case DLK_PRIM_MAD:                                                                      \
            return of(fused ? fma##suffix(a, b, c) : product + c);                              \
        case DLK_PRIM_FMIN:                                                                     \
            return of(name##_extreme(a, b, false));                                             \
        case DLK_PRIM_FMAX:                                                                     \
            return of(name##_extreme(a, b, true));                                              \
        case DLK_PRIM_FLOOR:                                                                    \
            return of(floor##suffix(a));                                                        \
        case DLK_PRIM_CEIL:                                                                     \
            return of(ceil##suffix(a));                                                         \
        case DLK_PRIM_TRUNC:                                                                    \
            return of(trunc##suffix(a));                                                        \
        case DLK_PRIM_RINT:                                                                     \
            return of(nearbyint##suffix(a));                                                    \
        case DLK_PRIM_FEQ:                                                                      \
            return a == b;                                                                      \
        case DLK_PRIM_FNE:                                                                      \
            return a != b;                                                                      \
        case DLK_PRIM_FLT:                                                                      \
            return a < b;                                                                       \
        case DLK_PRIM_FLE:                                                                      \
            return a <= b;                                                                      \
        default:                                                                                \
            CHECK(!"a primitive without a reference");                                          \
            return 0;                                                                           \
        }                                                                                       \
    }
static float float_from(uint64_t bits)
{
    return float_of((uint32_t)bits);
}
FLOAT_REFERENCE(float, reference_f32, bits_of_float, float_from, f)
FLOAT_REFERENCE(double, reference_f64, bits_of, double_of, )

/* By value: sign, exponent and digits, not by moving bits. */
static double half_value(unsigned half)
{
    const int exponent = half >> 10 & 31, digits = half & 1023;
    const double magnitude = exponent == 31 ? (digits ? NAN : INFINITY)
                             : exponent     ? ldexp(1024 + digits, exponent - 25)
                                            : ldexp(digits, -24);
    return half & 0x8000 ? -magnitude : magnitude;
}

/* The nearest half by search, to even between two. */
static uint64_t nearest_half(float value)
{
    const unsigned sign = signbit(value) ? 0x8000 : 0;
    const double magnitude = fabs((double)value);
    unsigned low = 0, high = 0x7c00;
    if (isnan(value))
        return sign | 0x7e00;
    if (magnitude >= 65520)
        return sign | 0x7c00;
    while (high - low > 1) {
        const unsigned middle = (low + high) / 2;
        if (half_value(middle) <= magnitude)
            low = middle;
        else
            high = middle;
    }
    const double above = (high == 0x7c00 ? 65536 : half_value(high)) - magnitude, below = magnitude - half_value(low);
    return sign | (below < above || (below == above && !(low & 1)) ? low : high);
}

static int64_t signed_of(dlk_kind kind, uint64_t bits)
{
    return kind == DLK_I8    ? (int8_t)bits
           : kind == DLK_I16 ? (int16_t)bits
           : kind == DLK_I32 ? (int32_t)bits
                             : (int64_t)bits;
}

/* In steps that never leave the range of what C defines. */
static uint64_t reference_to_int(double x, dlk_kind to, bool is_signed)
{
    const int bits = dlk_kind_bits(to);
    const uint64_t all = bits == 64 ? UINT64_MAX : (1ull << bits) - 1;
    const double top = ldexp(1, is_signed ? bits - 1 : bits);
    if (isnan(x) || (!is_signed && x < 0))
        return 0;
    if (trunc(x) >= top)
        return is_signed ? all >> 1 : all;
    if (trunc(x) <= -top)
        return (all >> 1) + 1;
    return (x < 0 ? 0 - (uint64_t)-trunc(x) : (uint64_t)trunc(x)) & all;
}

static uint64_t reference_convert(dlk_prim prim, dlk_kind from, dlk_kind to, uint64_t a)
{
    const double x = from == DLK_F32 ? (double)float_from(a) : double_of(a);
    const int64_t s = signed_of(from, a);
    const uint64_t all = dlk_kind_bits(to) == 64 ? UINT64_MAX : (1ull << dlk_kind_bits(to)) - 1;
    switch (prim) {
    case DLK_PRIM_SEXT:
        return (uint64_t)s & all;
    case DLK_PRIM_SITOF:
        return to == DLK_F32 ? bits_of_float((float)s) : bits_of((double)s);
    case DLK_PRIM_UITOF:
        return to == DLK_F32 ? bits_of_float((float)a) : bits_of((double)a);
    case DLK_PRIM_FTOSI:
    case DLK_PRIM_FTOUI:
        return reference_to_int(x, to, prim == DLK_PRIM_FTOSI);
    case DLK_PRIM_FEXT:
        return bits_of(x);
    case DLK_PRIM_FTRUNC:
        return bits_of_float((float)x);
    case DLK_PRIM_HTOF:
        return bits_of_float((float)half_value((unsigned)a));
    case DLK_PRIM_FTOH:
        return nearest_half(float_from(a));
    default: /* ZEXT, ITRUNC, BITCAST */
        return a & all;
    }
}

static uint64_t reference(dlk_prim prim, dlk_kind from, dlk_kind to, const uint64_t v[3], bool fused)
{
    if (prim == DLK_PRIM_SELECT)
        return v[0] & 1 ? v[1] : v[2];
    if (dlk_prims[prim].result == 'T')
        return reference_convert(prim, from, to, v[0]);
    switch (from) {
    case DLK_P1:
        return reference_p1(prim, v[0], v[1]);
    case DLK_I8:
        return reference_i8(prim, v[0], v[1]);
    case DLK_I16:
        return reference_i16(prim, v[0], v[1]);
    case DLK_I32:
        return reference_i32(prim, v[0], v[1]);
    case DLK_I64:
        return reference_i64(prim, v[0], v[1]);
    case DLK_F32:
        return reference_f32(prim, v[0], v[1], v[2], fused);
    default:
        return reference_f64(prim, v[0], v[1], v[2], fused);
    }
}

/* ---- Every primitive ---- */

static uint64_t edge(dlk_kind kind, int k)
{
    static const double values[] = {0.0,        -0.0,       1.0,       -1.0,    0.5,           -1.5,
                                    2.5,        1e10,       -1e20,     127.5,   -128.9,        255.0,
                                    65519.0,    65520.0,    0x1p63,    -0x1p63, 0x1p64,        0x1p-149,
                                    0x1p-126,   -0x1.8p-24, 0x1p-25,   0x1p-14, 0x1.fffep-2,   0x1p-1074,
                                    0x1.8p1023, INFINITY,   -INFINITY, NAN,     -2147483648.0, 2147483647.5};
    static const uint64_t words[] = {
        0,          1,      2,      3,      7,          8,          31,         32,     63,        64,
        0x7f,       0x80,   0x7fff, 0x8000, 0x7fffffff, 0x80000000, 0x55555555, ~0ull,  ~0ull - 1, ~0ull >> 1,
        1ull << 63, 0x3c00, 0x7c00, 0x7c01, 0x83ff,     0xfc00,     0xfe00,     0x0400, 9,         10};
    _Static_assert(sizeof values / 8 == 30 && sizeof words / 8 == 30, "30 edges each");
    if (k >= 30)
        return kind == DLK_F32 && k & 1
                   ? bits_of_float((float)ldexp((double)(random_bits() >> 40), random_below(60) - 50))
                   : random_bits();
    if (kind == DLK_F32)
        return bits_of_float((float)values[k]);
    return kind == DLK_F64 ? bits_of(values[k]) : words[k];
}

enum { TRIALS = 64 * 64, WIDTH = 64 };

static void put(void *array, dlk_kind kind, int k, uint64_t bits)
{
    const size_t bytes = kind == DLK_P1 ? 1 : (size_t)dlk_kind_bytes(kind);
    memcpy((char *)array + (size_t)k * bytes, &bits, bytes);
}
static uint64_t get(const void *array, dlk_kind kind, int k)
{
    const size_t bytes = kind == DLK_P1 ? 1 : (size_t)dlk_kind_bytes(kind);
    uint64_t bits = 0;
    memcpy(&bits, (const char *)array + (size_t)k * bytes, bytes);
    return kind == DLK_P1 ? bits & 1 : bits;
}

static bool same_value(dlk_prim prim, dlk_kind kind, uint64_t found, uint64_t wanted)
{
    if (prim == DLK_PRIM_FTOH && (wanted & 0x7fff) > 0x7c00) /* which NaN is free, but it keeps its sign */
        return (found & 0x7fff) > 0x7c00 && ((found ^ wanted) & 0x8000) == 0;
    return found == wanted || (is_nan_bits(kind, found) && is_nan_bits(kind, wanted));
}

static void check_prim(dlk_prim prim, dlk_kind from, dlk_kind to, bool fused)
{
    static char in[3][TRIALS * 8], out[TRIALS * 8];
    dlk_arena arena = {0};
    dlk_target target = rich_target();
    target.fast_fma = fused;
    const dlk_func *func = prim_func(&arena, &target, prim, from, to, WIDTH);
    const dlk_kind first = prim == DLK_PRIM_SELECT ? DLK_P1 : from;
    for (int k = 0; k < TRIALS; k++) {
        put(in[0], first, k, edge(first, k % 64));
        put(in[1], from, k, edge(from, k / 64));
        put(in[2], from, k, edge(from, random_below(64)));
    }
    run_checked(func, TRIALS / WIDTH, (void *[]){in[0], in[1], in[2], out}, 4);
    for (int k = 0; k < TRIALS && !test_failed; k++) {
        const uint64_t v[3] = {get(in[0], first, k), get(in[1], from, k), get(in[2], from, k)};
        const uint64_t wanted = reference(prim, from, to, v, fused), found = get(out, to, k);
        CHECK_MSG(same_value(prim, to, found, wanted),
                  "%s kind %d to %d of %" PRIx64 " %" PRIx64 " %" PRIx64 " is %" PRIx64 ", expected %" PRIx64,
                  dlk_prims[prim].name, from, to, v[0], v[1], v[2], found, wanted);
    }
    dlk_arena_free(&arena);
}

/* Whether the verifier takes it, which test_ir checks. */
static bool exists(dlk_prim prim, dlk_kind from, dlk_kind to)
{
    if (dlk_prims[prim].result == 'T' && from == to) /* the builder makes nothing of it */
        return false;
    dlk_arena arena = {0};
    const dlk_target target = rich_target();
    const bool fits = dlk_ir_verify(prim_func(&arena, &target, prim, from, to, 2)) == DLK_OK;
    dlk_arena_free(&arena);
    return fits;
}

TEST(every_primitive)
{
    int n = 0;
    for (int prim = 0; prim < DLK_PRIM_COUNT; prim++)
        for (int from = 0; from < DLK_KIND_COUNT && !test_failed; from++)
            for (int to = 0; to < DLK_KIND_COUNT && !test_failed; to++) {
                const char result = dlk_prims[prim].result;
                if (to != (result == 'P'   ? DLK_P1
                           : result == 'S' ? from
                                           : to) ||
                    !exists((dlk_prim)prim, (dlk_kind)from, (dlk_kind)to))
                    continue;
                check_prim((dlk_prim)prim, (dlk_kind)from, (dlk_kind)to, true);
                if (prim == DLK_PRIM_MAD)
                    check_prim((dlk_prim)prim, (dlk_kind)from, (dlk_kind)to, false);
                n++;
            }
    /* integers, integers and predicates, floats, select, conversions */
    CHECK_INT(n, 23 * 4 + 6 * 5 + 20 * 2 + 7 + 66);
}

/* ---- What a caller has set does not matter, and stays ---- */

TEST(the_callers_float_environment)
{
#ifdef __SSE2__
    dlk_arena arena = {0};
    const dlk_target target = rich_target();
    const dlk_func *func = prim_func(&arena, &target, DLK_PRIM_FMUL, DLK_F32, DLK_F32, 1);
    float a = 0x1p-100f, b = 0x1.8p-40f, out = 7;
    const unsigned before = _mm_getcsr(), odd = 0x1f80 | 0x8040 | 0x6000; /* flush, subnormals are zero, to zero */
    _mm_setcsr(odd);
    const dlk_status status = run_func(func, 1, (void *[]){&a, &b, &b, &out}, 4);
    const unsigned after = _mm_getcsr();
    _mm_setcsr(before);
    CHECK_INT(status, DLK_OK);
    CHECK_INT(after, odd);
    CHECK(out == 0x1.8p-140f);
    dlk_arena_free(&arena);
#else
    SKIP("no MXCSR on this processor");
#endif
}

/* ---- Control ---- */

static dlk_func *threads_func(dlk_arena *arena, const dlk_target *target, int threads, int subgroup)
{
    dlk_func *func = dlk_func_create(arena, target);
    func->threads = threads;
    func->subgroup = subgroup;
    return func;
}

static dlk_val thread_offset(dlk_func *func)
{
    return prim2(func, DLK_PRIM_MUL, dlk_ir_thread(func), dlk_ir_i64(func, 8));
}
static dlk_val load_thread(dlk_func *func, int index)
{
    return dlk_ir_load(func, type_make(DLK_I64, 1), mem_at(input_buffer(func, index), thread_offset(func)));
}
static void store_thread(dlk_func *func, int index, dlk_val value)
{
    dlk_ir_store(func, value, mem_at(output_buffer(func, index), thread_offset(func)));
}

/* Collatz steps of a number that each thread has for itself: loops of different lengths around a branch. */
static dlk_val collatz(dlk_func *func, dlk_val number)
{
    const dlk_val zero = dlk_ir_i64(func, 0), one = dlk_ir_i64(func, 1), limit = dlk_ir_i64(func, 1000);
    const dlk_val loop = dlk_ir_loop_begin(func, zero, limit, one, (dlk_val[]){number, zero}, 2);
    const dlk_val n = dlk_ir_loop_carried(func, loop, 0), steps = dlk_ir_loop_carried(func, loop, 1);
    const dlk_val is_odd = prim2(func, DLK_PRIM_EQ, prim2(func, DLK_PRIM_AND, n, one), one);
    const dlk_val branch = dlk_ir_if_begin(func, is_odd, false);
    const dlk_val up = prim2(func, DLK_PRIM_ADD, prim2(func, DLK_PRIM_MUL, n, dlk_ir_i64(func, 3)), one);
    dlk_ir_if_else(func, branch, &up, 1);
    const dlk_val down = prim2(func, DLK_PRIM_LSHR, n, one);
    dlk_ir_if_end(func, branch, &down);
    const dlk_val next = dlk_ir_result(func, branch, 0);
    dlk_ir_loop_end(func, loop, (dlk_val[]){next, prim2(func, DLK_PRIM_ADD, steps, one)},
                    prim2(func, DLK_PRIM_SLE, next, one));
    return dlk_ir_result(func, loop, 1);
}

static int64_t collatz_in_c(int64_t n)
{
    int64_t steps = 0;
    do {
        n = n & 1 ? 3 * n + 1 : n >> 1;
        steps++;
    } while (n > 1);
    return steps;
}

TEST(threads_that_go_different_ways)
{
    int64_t in[96], out[96];
    dlk_arena arena = {0};
    const dlk_target target = rich_target();
    dlk_func *func = threads_func(&arena, &target, 96, 32);
    store_thread(func, 0, collatz(func, load_thread(func, 0)));
    for (int t = 0; t < 96; t++)
        in[t] = 1 + t * 7 % 96;
    run_checked(func, 1, (void *[]){in, out}, 2);
    for (int t = 0; t < 96; t++)
        CHECK_INT(out[t], collatz_in_c(in[t]));
    dlk_arena_free(&arena);
}

/* Sum of i * j over i in [0, n) by 2 and j in [i, n): trip counts that differ by thread and by round; n may be 0. */
TEST(nested_loops)
{
    int64_t in[16], out[16];
    dlk_arena arena = {0};
    const dlk_target target = rich_target();
    dlk_func *func = threads_func(&arena, &target, 16, 8);
    const dlk_val n = load_thread(func, 0), zero = dlk_ir_i64(func, 0), one = dlk_ir_i64(func, 1);
    const dlk_val outer = dlk_ir_loop_begin(func, zero, n, dlk_ir_i64(func, 2), &zero, 1);
    const dlk_val i = dlk_ir_loop_index(func, outer), sum = dlk_ir_loop_carried(func, outer, 0);
    const dlk_val inner = dlk_ir_loop_begin(func, i, n, one, &sum, 1);
    const dlk_val next = prim2(func, DLK_PRIM_ADD, dlk_ir_loop_carried(func, inner, 0),
                               prim2(func, DLK_PRIM_MUL, i, dlk_ir_loop_index(func, inner)));
    dlk_ir_loop_end(func, inner, &next, DLK_NONE);
    const dlk_val total = dlk_ir_result(func, inner, 0);
    dlk_ir_loop_end(func, outer, &total, DLK_NONE);
    store_thread(func, 0, dlk_ir_result(func, outer, 0));
    for (int t = 0; t < 16; t++)
        in[t] = t - 2;
    run_checked(func, 1, (void *[]){in, out}, 2);
    for (int t = 0; t < 16; t++) {
        int64_t wanted = 0;
        for (int64_t a = 0; a < in[t]; a += 2)
            for (int64_t b = a; b < in[t]; b++)
                wanted += a * b;
        CHECK_INT(out[t], wanted);
    }
    dlk_arena_free(&arena);
}

/* A loop up to the largest number ends instead of starting again at the smallest. */
TEST(a_loop_at_the_end_of_the_numbers)
{
    int64_t out[1];
    dlk_arena arena = {0};
    const dlk_target target = rich_target();
    dlk_func *func = dlk_func_create(&arena, &target);
    const dlk_val zero = dlk_ir_i64(func, 0), one = dlk_ir_i64(func, 1);
    const dlk_val loop = dlk_ir_loop_begin(func, dlk_ir_i64(func, INT64_MAX - 5), dlk_ir_i64(func, INT64_MAX),
                                           dlk_ir_i64(func, 4), &zero, 1);
    const dlk_val next = prim2(func, DLK_PRIM_ADD, dlk_ir_loop_carried(func, loop, 0), one);
    dlk_ir_loop_end(func, loop, &next, DLK_NONE);
    store_item(func, 0, dlk_ir_result(func, loop, 0));
    run_checked(func, 1, (void *[]){out}, 1);
    CHECK_INT(out[0], 2);
    dlk_arena_free(&arena);
}

/* Only threads that are inside store. */
TEST(masked_threads_do_nothing)
{
    int64_t in[16], out[16] = {0};
    dlk_arena arena = {0};
    const dlk_target target = rich_target();
    dlk_func *func = threads_func(&arena, &target, 16, 1);
    const dlk_val x = load_thread(func, 0);
    const dlk_val branch = dlk_ir_if_begin(func, prim2(func, DLK_PRIM_SLT, x, dlk_ir_i64(func, 0)), true);
    store_thread(func, 0, prim2(func, DLK_PRIM_SUB, dlk_ir_i64(func, 0), x));
    dlk_ir_if_else(func, branch, NULL, 0);
    dlk_ir_if_end(func, branch, NULL);
    for (int t = 0; t < 16; t++)
        in[t] = t % 3 ? t : -t;
    run_checked(func, 1, (void *[]){in, out}, 2);
    for (int t = 0; t < 16; t++)
        CHECK_INT(out[t], t % 3 ? 0 : t);
    dlk_arena_free(&arena);
}

/* ---- Shuffles ---- */

static void check_butterfly(int subgroup)
{
    enum { THREADS = 128 };
    int64_t in[THREADS], out[THREADS];
    dlk_arena arena = {0};
    const dlk_target target = rich_target();
    dlk_func *func = threads_func(&arena, &target, THREADS, subgroup);
    dlk_val sum = load_thread(func, 0);
    for (int k = 1; k < subgroup; k *= 2)
        sum = prim2(func, DLK_PRIM_ADD, sum, dlk_ir_shfl_xor(func, sum, k));
    store_thread(func, 0, sum);
    for (int t = 0; t < THREADS; t++)
        in[t] = (int64_t)t * t;
    run_checked(func, 1, (void *[]){in, out}, 2);
    for (int t = 0; t < THREADS; t++) {
        int64_t wanted = 0;
        for (int k = 0; k < subgroup; k++)
            wanted += in[t / subgroup * subgroup + k];
        CHECK_INT(out[t], wanted);
    }
    dlk_arena_free(&arena);
}

TEST(shuffles)
{
    static const int widths[] = {1, 8, 32, 64};
    for (int k = 0; k < 4; k++)
        check_butterfly(widths[k]);
}

/* ---- What must fail: with the verifier asked nothing, where it would see it too ---- */

static void check_fails(const dlk_func *func, void *const *buffers, int n, const char *complaint)
{
    const dlk_status status = run_func(func, 1, buffers, n);
    CHECK_INT(status, DLK_ERR_INTERNAL);
    CHECK_MSG(status == DLK_OK || strstr(dlk_last_error(), complaint), "%s", dlk_last_error());
}

TEST(shuffle_without_all_threads)
{
    int64_t out[16];
    dlk_arena arena = {0};
    const dlk_target target = rich_target();
    for (int cut = 8; cut <= 11; cut++) {
        dlk_func *func = threads_func(&arena, &target, 16, 8);
        const dlk_val t = dlk_ir_thread(func);
        const dlk_val branch = dlk_ir_if_begin(func, prim2(func, DLK_PRIM_SLT, t, dlk_ir_i64(func, cut)), false);
        store_thread(func, 0, dlk_ir_shfl_xor(func, t, 1));
        dlk_ir_if_else(func, branch, NULL, 0);
        dlk_ir_if_end(func, branch, NULL);
        if (cut == 8) /* whole subgroups go one way: sound, though the verifier does not know */
            CHECK_INT(run_func(func, 1, (void *[]){out}, 1), DLK_OK);
        else
            check_fails(func, (void *[]){out}, 1, "not every thread is active");
    }
    dlk_arena_free(&arena);
}

TEST(barrier_without_all_threads)
{
    dlk_arena arena = {0};
    const dlk_target target = rich_target();
    for (int first = 0; first < 2; first++) {
        dlk_func *func = threads_func(&arena, &target, 16, 8);
        const dlk_val t = dlk_ir_thread(func), limit = dlk_ir_i64(func, first ? 0 : 15);
        const dlk_val p = prim2(func, first ? DLK_PRIM_NE : DLK_PRIM_SLT, t, limit);
        const dlk_val branch = dlk_ir_if_begin(func, p, false);
        dlk_ir_barrier(func);
        dlk_ir_if_else(func, branch, NULL, 0);
        dlk_ir_if_end(func, branch, NULL);
        check_fails(func, NULL, 0, "not every thread reaches");
    }
    dlk_arena_free(&arena);
}

typedef struct exchange { /* through shared memory, written, read, and written again */
    bool barrier_after_write, barrier_after_read;
    int distance; /* in threads, of the cell that is read */
} exchange;

static dlk_val shift_threads(dlk_func *func, int distance, int threads)
{
    const dlk_val t = prim2(func, DLK_PRIM_ADD, dlk_ir_thread(func), dlk_ir_i64(func, distance));
    return prim2(func, DLK_PRIM_MUL, prim2(func, DLK_PRIM_UREM, t, dlk_ir_i64(func, threads)), dlk_ir_i64(func, 8));
}

static dlk_func *exchange_func(dlk_arena *arena, const dlk_target *target, exchange e)
{
    enum { THREADS = 32 };
    dlk_func *func = threads_func(arena, target, THREADS, 8);
    const int out = output_buffer(func, 0), shared = dlk_func_local(func, DLK_SPACE_SHARED, DLK_I64, THREADS);
    const dlk_val t = dlk_ir_thread(func), own = thread_offset(func);
    dlk_ir_store(func, prim2(func, DLK_PRIM_MUL, t, t), mem_at(shared, own));
    if (e.barrier_after_write)
        dlk_ir_barrier(func);
    const dlk_val got =
        dlk_ir_load(func, type_make(DLK_I64, 1), mem_at(shared, shift_threads(func, e.distance, THREADS)));
    if (e.barrier_after_read)
        dlk_ir_barrier(func);
    dlk_ir_store(func, got, mem_at(shared, own));
    dlk_ir_store(func, got, mem_at(out, own));
    return func;
}

TEST(missing_barriers)
{
    int64_t out[32];
    dlk_arena arena = {0};
    const dlk_target target = rich_target();
    const dlk_func *sound = exchange_func(&arena, &target, (exchange){true, true, 8});
    run_checked(sound, 3, (void *[]){out}, 1);
    for (int t = 0; t < 32; t++)
        CHECK_INT(out[t], (t + 8) % 32 * ((t + 8) % 32));
    check_fails(exchange_func(&arena, &target, (exchange){false, true, 8}), (void *[]){out}, 1,
                "read without a barrier");
    check_fails(exchange_func(&arena, &target, (exchange){true, false, 8}), (void *[]){out}, 1,
                "after another subgroup read it");
    /* within a subgroup no barrier is needed */
    CHECK_INT(run_func(exchange_func(&arena, &target, (exchange){false, false, 0}), 1, (void *[]){out}, 1), DLK_OK);
    dlk_arena_free(&arena);
}

static dlk_func *same_cell_func(dlk_arena *arena, const dlk_target *target, bool same_value_too)
{
    dlk_func *func = threads_func(arena, target, 16, 8);
    const int shared = dlk_func_local(func, DLK_SPACE_SHARED, DLK_I64, 1);
    const dlk_val value = same_value_too ? dlk_ir_i64(func, 5) : dlk_ir_thread(func);
    dlk_ir_store(func, value, mem_at(shared, dlk_ir_i64(func, 0)));
    return func;
}

TEST(two_subgroups_write_one_cell)
{
    dlk_arena arena = {0};
    const dlk_target target = rich_target();
    check_fails(same_cell_func(&arena, &target, false), NULL, 0, "written by two subgroups");
    CHECK_INT(run_func(same_cell_func(&arena, &target, true), 1, NULL, 0), DLK_OK);
    dlk_arena_free(&arena);
}

TEST(outside_local_memory)
{
    static const int64_t offsets[] = {-1, -8, 25, 32, INT64_MAX, INT64_MIN};
    dlk_arena arena = {0};
    const dlk_target target = rich_target();
    for (int k = 0; k < 12; k++) {
        dlk_func *func = dlk_func_create(&arena, &target);
        const int local = dlk_func_local(func, k < 6 ? DLK_SPACE_PRIVATE : DLK_SPACE_SHARED, DLK_I64, 4);
        const dlk_val at = dlk_ir_i64(func, offsets[k % 6]);
        dlk_ir_store(func, dlk_ir_i64(func, 1), mem_at(local, at));
        check_fails(func, NULL, 0, "outside a local buffer");
    }
    dlk_arena_free(&arena);
}

/* ---- Memory ---- */

/* Lanes 0 to 3 of a load by each step, from the middle of bytes that hold their own number; and of a store. */
static void check_step(dlk_step step, const int64_t *wanted)
{
    uint16_t in[32], loaded[4], stored[32] = {0};
    int64_t offsets[4] = {6, -4, 0, 10};
    dlk_arena arena = {0};
    const dlk_target target = rich_target();
    dlk_func *func = dlk_func_create(&arena, &target);
    const int data = input_buffer(func, 0), list = input_buffer(func, 1), out = output_buffer(func, 0),
              scattered = output_buffer(func, 1);
    const dlk_val zero = dlk_ir_i64(func, 0);
    dlk_mem mem = mem_at(data, dlk_ir_i64(func, 20));
    mem.step = step;
    mem.stride = step == DLK_STEP_UNIFORM  ? dlk_ir_i64(func, -6)
                 : step == DLK_STEP_GATHER ? dlk_ir_load(func, type_make(DLK_I64, 4), mem_at(list, zero))
                                           : DLK_NONE;
    const dlk_val value = dlk_ir_load(func, type_make(DLK_I16, 4), mem);
    dlk_ir_store(func, value, mem_at(out, zero));
    mem.buffer = scattered;
    if (step != DLK_STEP_ZERO)
        dlk_ir_store(func, value, mem);
    for (int k = 0; k < 32; k++)
        in[k] = (uint16_t)(1000 + k);
    run_checked(func, 1, (void *[]){in, offsets, loaded, stored}, 4);
    for (int l = 0; l < 4; l++) {
        CHECK_INT(loaded[l], 1010 + wanted[l]);
        if (step != DLK_STEP_ZERO)
            CHECK_INT(stored[10 + wanted[l]], 1010 + wanted[l]);
    }
    dlk_arena_free(&arena);
}

TEST(steps)
{
    check_step(DLK_STEP_UNIT, (int64_t[]){0, 1, 2, 3});
    check_step(DLK_STEP_ZERO, (int64_t[]){0, 0, 0, 0});
    check_step(DLK_STEP_REVERSE, (int64_t[]){0, -1, -2, -3});
    check_step(DLK_STEP_UNIFORM, (int64_t[]){0, -3, -6, -9});
    check_step(DLK_STEP_GATHER, (int64_t[]){3, -2, 0, 5});
}

/* Lanes from the count on load 0 and are not stored; memory there is not touched (it is not even ours). */
TEST(counts)
{
    dlk_arena arena = {0};
    const dlk_target target = rich_target();
    for (int64_t count = -2; count <= 6; count++) {
        uint32_t *in = malloc(16), *out = malloc(16), whole[4];
        const int n = count < 0 ? 0 : count > 4 ? 4 : (int)count;
        uint32_t *short_in = malloc((size_t)n * 4 + 1);
        dlk_func *func = dlk_func_create(&arena, &target);
        dlk_mem from = mem_at(input_buffer(func, 0), dlk_ir_i64(func, 0)), to = from;
        const int all = output_buffer(func, 0), some = output_buffer(func, 1);
        from.count = to.count = dlk_ir_i64(func, count);
        to.buffer = some;
        const dlk_val value = dlk_ir_load(func, type_make(DLK_I32, 4), from);
        dlk_ir_store(func, value, mem_at(all, dlk_ir_i64(func, 0)));
        dlk_ir_store(func, dlk_ir_const(func, type_make(DLK_I32, 4), 9), to);
        for (int k = 0; k < 4; k++)
            in[k] = 100 + (uint32_t)k, out[k] = 7;
        memcpy(short_in, in, (size_t)n * 4);
        run_checked(func, 1, (void *[]){short_in, whole, out}, 3);
        for (int k = 0; k < 4; k++) {
            CHECK_INT(whole[k], k < n ? 100 + k : 0);
            CHECK_INT(out[k], k < n ? 9 : 7);
        }
        free(in);
        free(out);
        free(short_in);
    }
    dlk_arena_free(&arena);
}

/* Private memory is one thread's; it and shared memory hold a fixed pattern before they are written, in every item. */
TEST(local_memory)
{
    uint64_t out[2][16];
    dlk_arena arena = {0};
    const dlk_target target = rich_target();
    dlk_func *func = threads_func(&arena, &target, 16, 8);
    const int own = output_buffer(func, 0), fresh = output_buffer(func, 1);
    const int local = dlk_func_local(func, DLK_SPACE_PRIVATE, DLK_I64, 1),
              other = dlk_func_local(func, DLK_SPACE_SHARED, DLK_I64, 16);
    const dlk_val zero = dlk_ir_i64(func, 0), at = thread_offset(func);
    const dlk_type word = type_make(DLK_I64, 1);
    dlk_ir_store(func, dlk_ir_load(func, word, mem_at(other, at)), mem_at(fresh, at));
    dlk_ir_store(func, dlk_ir_thread(func), mem_at(local, zero));
    dlk_ir_store(func, dlk_ir_load(func, word, mem_at(local, zero)), mem_at(own, at));
    dlk_ir_store(func, zero, mem_at(other, at));
    run_checked(func, 2, (void *[]){out[0], out[1]}, 2);
    for (int t = 0; t < 16; t++) {
        CHECK_INT(out[0][t], t);
        CHECK(out[1][t] == 0xCDCDCDCDCDCDCDCDull);
    }
    dlk_arena_free(&arena);
}

/* ---- The rest ---- */

TEST(lanes)
{
    static const int8_t order[6] = {3, 4, 0, 7, 1, 1};
    int32_t a[4] = {10, 11, 12, 13}, b[4] = {20, 21, 22, 23}, moved[6], counted[8], spread[3];
    int8_t any[2];
    dlk_arena arena = {0};
    const dlk_target target = rich_target();
    dlk_func *func = dlk_func_create(&arena, &target);
    const dlk_val zero = dlk_ir_i64(func, 0);
    const dlk_val x = load_item(func, 0, DLK_I32, 4), y = load_item(func, 1, DLK_I32, 4);
    const dlk_val has = dlk_ir_any(func, prim2(func, DLK_PRIM_EQ, x, dlk_ir_const(func, type_make(DLK_I32, 4), 13)));
    const dlk_val has_not = dlk_ir_any(func, prim2(func, DLK_PRIM_EQ, x, y));
    store_item(func, 0, dlk_ir_perm(func, x, y, order, 6));
    store_item(func, 1, dlk_ir_iota(func, type_make(DLK_I32, 8)));
    store_item(func, 2, dlk_ir_splat(func, dlk_ir_extract(func, y, 2), 3));
    dlk_ir_store(func, dlk_ir_convert(func, DLK_PRIM_ZEXT, DLK_I8, has), mem_at(output_buffer(func, 3), zero));
    dlk_ir_store(func, dlk_ir_convert(func, DLK_PRIM_ZEXT, DLK_I8, has_not),
                 mem_at(output_buffer(func, 3), dlk_ir_i64(func, 1)));
    run_checked(func, 1, (void *[]){a, b, moved, counted, spread, any}, 6);
    for (int l = 0; l < 6; l++)
        CHECK_INT(moved[l], order[l] < 4 ? a[order[l]] : b[order[l] - 4]);
    for (int l = 0; l < 8; l++)
        CHECK_INT(counted[l], l);
    for (int l = 0; l < 3; l++)
        CHECK_INT(spread[l], 22);
    CHECK_INT(any[0], 1);
    CHECK_INT(any[1], 0);
    dlk_arena_free(&arena);
}

TEST(tables_are_clamped)
{
    int64_t in[4] = {INT64_MIN, 1, 2, INT64_MAX};
    double out[4];
    dlk_arena arena = {0};
    const dlk_target target = rich_target();
    dlk_func *func = dlk_func_create(&arena, &target);
    const uint64_t bits[3] = {bits_of(1.5), bits_of(2.5), bits_of(3.5)};
    const int table = dlk_func_table(func, DLK_F64, bits, 3);
    store_item(func, 0, dlk_ir_table(func, table, load_item(func, 0, DLK_I64, 4)));
    run_checked(func, 1, (void *[]){in, out}, 2);
    CHECK(out[0] == 1.5 && out[1] == 2.5 && out[2] == 3.5 && out[3] == 3.5);
    dlk_arena_free(&arena);
}

/* Argument words as ir.h says: integers sign-extended, floats as f64, predicates 0 or 1. */
TEST(uniforms)
{
    static const dlk_kind kinds[6] = {DLK_I64, DLK_I8, DLK_I32, DLK_F32, DLK_F64, DLK_P1};
    struct {
        int64_t i64;
        int8_t i8;
        int32_t i32;
        float f32;
        double f64;
        int8_t p1;
    } out;
    char *const places[6] = {(char *)&out.i64, (char *)&out.i8,  (char *)&out.i32,
                             (char *)&out.f32, (char *)&out.f64, (char *)&out.p1};
    uint64_t arguments[12];
    dlk_arena arena = {0};
    const dlk_target target = rich_target();
    dlk_func *func = dlk_func_create(&arena, &target);
    for (int k = 0; k < 6; k++) {
        output_buffer(func, k);
        arguments[k] = (uint64_t)(uintptr_t)places[k];
    }
    for (int k = 0; k < 6; k++) {
        const dlk_uniform scalar = {.role = DLK_UNIFORM_SCALAR, .kind = (uint8_t)kinds[k], .index = (uint8_t)k};
        store_item(func, k, dlk_func_uniform(func, scalar));
    }
    const uint64_t words[6] = {1ull << 40, (uint64_t)-5, (uint64_t)-70000, bits_of(0.1), bits_of(0.1), 1};
    memcpy(&arguments[6], words, sizeof words);
    CHECK_INT(dlk_ir_verify(func), DLK_OK);
    CHECK_INT(dlk_interpret(func, arguments, 0, 1), DLK_OK);
    CHECK(out.i64 == 1ll << 40 && out.i8 == -5 && out.i32 == -70000 && out.f32 == 0.1f && out.f64 == 0.1 &&
          out.p1 == 1);
    dlk_arena_free(&arena);
}

TEST(only_the_items_asked_for)
{
    int64_t in[10], out[10] = {0};
    uint64_t arguments[2] = {(uint64_t)(uintptr_t)in, (uint64_t)(uintptr_t)out};
    dlk_arena arena = {0};
    const dlk_target target = rich_target();
    dlk_func *func = dlk_func_create(&arena, &target);
    input_buffer(func, 0);
    store_item(func, 0, prim2(func, DLK_PRIM_ADD, load_item(func, 0, DLK_I64, 1), dlk_ir_item(func, 0)));
    for (int k = 0; k < 10; k++)
        in[k] = 100 * k;
    CHECK_INT(dlk_interpret(func, arguments, 3, 7), DLK_OK);
    for (int k = 0; k < 10; k++)
        CHECK_INT(out[k], k >= 3 && k < 7 ? 101 * k : 0);
    CHECK_INT(dlk_interpret(func, arguments, 7, 7), DLK_OK);
    CHECK_INT(out[7], 0);
    dlk_arena_free(&arena);
}
