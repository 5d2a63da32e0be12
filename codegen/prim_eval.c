/* What each primitive is, on bits: the one place where the arithmetic of kernels is spelled out in C. The interpreter and
 * constant folding both call it. */
#include "codegen/interpret.h"

#include <math.h>
#include <string.h>

/* Inlined where the primitive is known, the switches below vanish; a vector of lanes then costs one switch. */
#define FOLDED __attribute__((always_inline)) inline

static uint64_t mask_of(dlk_kind kind)
{
    const int bits = dlk_kind_bits(kind);
    return bits == 64 ? ~0ull : (1ull << bits) - 1;
}

static int64_t sign_extend(dlk_kind kind, uint64_t bits)
{
    const int unused = 64 - dlk_kind_bits(kind);
    return (int64_t)(bits << unused) >> unused;
}

static float as_f32(uint64_t bits)
{
    const uint32_t low = (uint32_t)bits;
    float f;
    memcpy(&f, &low, sizeof f);
    return f;
}
static double as_f64(uint64_t bits)
{
    double d;
    memcpy(&d, &bits, sizeof d);
    return d;
}
static uint64_t of_f32(float f)
{
    uint32_t bits;
    memcpy(&bits, &f, sizeof bits);
    return bits;
}
static uint64_t of_f64(double d)
{
    uint64_t bits;
    memcpy(&bits, &d, sizeof bits);
    return bits;
}

/* ---- Integers ---- */

static uint64_t divide_signed(int64_t a, int64_t b, bool remainder)
{
    if (b == 0)
        return 0;
    if (b == -1) /* MIN / -1 wraps */
        return remainder ? 0 : 0 - (uint64_t)a;
    return (uint64_t)(remainder ? a % b : a / b);
}

static uint64_t high_product(dlk_kind kind, uint64_t a, uint64_t b, bool is_signed)
{
    const int bits = dlk_kind_bits(kind);
    if (is_signed)
        return (uint64_t)((__int128)sign_extend(kind, a) * sign_extend(kind, b) >> bits);
    return (uint64_t)((unsigned __int128)a * b >> bits);
}

static uint64_t shift(dlk_prim prim, dlk_kind kind, uint64_t a, uint64_t count)
{
    const uint64_t bits = (uint64_t)dlk_kind_bits(kind);
    if (prim == DLK_PRIM_ASHR)
        return (uint64_t)(sign_extend(kind, a) >> (count < bits ? count : bits - 1));
    if (count >= bits)
        return 0;
    return prim == DLK_PRIM_SHL ? a << count : a >> count;
}

static uint64_t count_zeros(dlk_prim prim, dlk_kind kind, uint64_t a)
{
    const int bits = dlk_kind_bits(kind);
    if (!a)
        return (uint64_t)bits;
    return (uint64_t)(prim == DLK_PRIM_CTZ ? __builtin_ctzll(a) : __builtin_clzll(a) - (64 - bits));
}

static FOLDED uint64_t eval_integer(dlk_prim prim, dlk_kind kind, uint64_t a, uint64_t b)
{
    const int64_t sa = sign_extend(kind, a), sb = sign_extend(kind, b);
    switch (prim) {
    case DLK_PRIM_ADD:
        return a + b;
    case DLK_PRIM_SUB:
        return a - b;
    case DLK_PRIM_MUL:
        return a * b;
    case DLK_PRIM_SDIV:
    case DLK_PRIM_SREM:
        return divide_signed(sa, sb, prim == DLK_PRIM_SREM);
    case DLK_PRIM_UDIV:
        return b ? a / b : 0;
    case DLK_PRIM_UREM:
        return b ? a % b : 0;
    case DLK_PRIM_SMULHI:
    case DLK_PRIM_UMULHI:
        return high_product(kind, a, b, prim == DLK_PRIM_SMULHI);
    case DLK_PRIM_SMIN:
        return sa < sb ? a : b;
    case DLK_PRIM_SMAX:
        return sa > sb ? a : b;
    case DLK_PRIM_UMIN:
        return a < b ? a : b;
    case DLK_PRIM_UMAX:
        return a > b ? a : b;
    case DLK_PRIM_AND:
        return a & b;
    case DLK_PRIM_OR:
        return a | b;
    case DLK_PRIM_XOR:
        return a ^ b;
    case DLK_PRIM_NOT:
        return ~a;
    case DLK_PRIM_SHL:
    case DLK_PRIM_LSHR:
    case DLK_PRIM_ASHR:
        return shift(prim, kind, a, b);
    case DLK_PRIM_CLZ:
    case DLK_PRIM_CTZ:
        return count_zeros(prim, kind, a);
    case DLK_PRIM_POPCOUNT:
        return (uint64_t)__builtin_popcountll(a);
    case DLK_PRIM_EQ:
        return a == b;
    case DLK_PRIM_NE:
        return a != b;
    case DLK_PRIM_SLT:
        return sa < sb;
    case DLK_PRIM_SLE:
        return sa <= sb;
    case DLK_PRIM_ULT:
        return a < b;
    default: /* DLK_PRIM_ULE */
        return a <= b;
    }
}

/* ---- Floats ---- */

/* 754-2019 maximum and minimum: NaN propagates, -0 < +0. */
static double extremum(double a, double b, bool maximum)
{
    if (isnan(a) || isnan(b))
        return a + b;
    if (a == b)
        return (signbit(a) != 0) == maximum ? b : a;
    return (a > b) == maximum ? a : b;
}

static FOLDED float eval_f32(dlk_prim prim, float a, float b, float c, bool fused)
{
    switch (prim) {
    case DLK_PRIM_FADD:
        return a + b;
    case DLK_PRIM_FSUB:
        return a - b;
    case DLK_PRIM_FMUL:
        return a * b;
    case DLK_PRIM_FDIV:
        return a / b;
    case DLK_PRIM_FSQRT:
        return sqrtf(a);
    case DLK_PRIM_FMA:
        return fmaf(a, b, c);
    case DLK_PRIM_MAD:
        return fused ? fmaf(a, b, c) : a * b + c;
    case DLK_PRIM_FMIN:
    case DLK_PRIM_FMAX:
        return (float)extremum(a, b, prim == DLK_PRIM_FMAX);
    case DLK_PRIM_FLOOR:
        return floorf(a);
    case DLK_PRIM_CEIL:
        return ceilf(a);
    case DLK_PRIM_TRUNC:
        return truncf(a);
    default: /* DLK_PRIM_RINT */
        return rintf(a);
    }
}

static FOLDED double eval_f64(dlk_prim prim, double a, double b, double c, bool fused)
{
    switch (prim) {
    case DLK_PRIM_FADD:
        return a + b;
    case DLK_PRIM_FSUB:
        return a - b;
    case DLK_PRIM_FMUL:
        return a * b;
    case DLK_PRIM_FDIV:
        return a / b;
    case DLK_PRIM_FSQRT:
        return sqrt(a);
    case DLK_PRIM_FMA:
        return fma(a, b, c);
    case DLK_PRIM_MAD:
        return fused ? fma(a, b, c) : a * b + c;
    case DLK_PRIM_FMIN:
    case DLK_PRIM_FMAX:
        return extremum(a, b, prim == DLK_PRIM_FMAX);
    case DLK_PRIM_FLOOR:
        return floor(a);
    case DLK_PRIM_CEIL:
        return ceil(a);
    case DLK_PRIM_TRUNC:
        return trunc(a);
    default: /* DLK_PRIM_RINT */
        return rint(a);
    }
}

static FOLDED uint64_t eval_float(dlk_prim prim, dlk_kind kind, uint64_t a, uint64_t b, uint64_t c, bool fused)
{
    const uint64_t sign = kind == DLK_F32 ? 1ull << 31 : 1ull << 63;
    const double x = kind == DLK_F32 ? (double)as_f32(a) : as_f64(a),
                 y = kind == DLK_F32 ? (double)as_f32(b) : as_f64(b);
    switch (prim) {
    case DLK_PRIM_FNEG:
        return a ^ sign;
    case DLK_PRIM_FABS:
        return a & ~sign;
    case DLK_PRIM_COPYSIGN:
        return (a & ~sign) | (b & sign);
    case DLK_PRIM_FEQ:
        return x == y;
    case DLK_PRIM_FNE:
        return x != y;
    case DLK_PRIM_FLT:
        return x < y;
    case DLK_PRIM_FLE:
        return x <= y;
    default:
        return kind == DLK_F32 ? of_f32(eval_f32(prim, as_f32(a), as_f32(b), as_f32(c), fused))
                               : of_f64(eval_f64(prim, as_f64(a), as_f64(b), as_f64(c), fused));
    }
}

/* ---- Conversions ---- */

static uint64_t float_to_signed(double x, dlk_kind to)
{
    const double limit = ldexp(1, dlk_kind_bits(to) - 1);
    if (isnan(x))
        return 0;
    if (x >= limit)
        return mask_of(to) >> 1;
    if (x < -limit)
        return 1ull << (dlk_kind_bits(to) - 1);
    return (uint64_t)(int64_t)x;
}

static uint64_t float_to_unsigned(double x, dlk_kind to)
{
    if (!(x > 0))
        return 0;
    return x >= ldexp(1, dlk_kind_bits(to)) ? mask_of(to) : (uint64_t)x;
}

static uint64_t half_to_float(uint64_t h)
{
    const uint32_t sign = (uint32_t)(h & 0x8000) << 16, exponent = h >> 10 & 31, mantissa = h & 1023;
    if (exponent == 31)
        return sign | 0x7f800000u | mantissa << 13 | (mantissa ? 0x400000u : 0);
    if (exponent == 0) /* a multiple of 2^-24, exact in f32 */
        return sign | of_f32((float)mantissa * 0x1p-24f);
    return sign | (exponent + 112) << 23 | mantissa << 13;
}

static uint64_t float_to_half(uint64_t bits)
{
    const uint32_t sign = (uint32_t)bits >> 16 & 0x8000, magnitude = (uint32_t)bits & 0x7fffffff;
    if (magnitude > 0x7f800000)
        return sign | 0x7e00 | (magnitude >> 13 & 0x3ff);
    if (magnitude >= 0x477ff000) /* 65520 and above round to infinity */
        return sign | 0x7c00;
    if (magnitude >= 0x38800000) { /* normal: to nearest even in the low 13 bits */
        const uint32_t rounded = magnitude + 0xfff + (magnitude >> 13 & 1);
        return sign | (rounded - (112u << 23)) >> 13;
    }
    return sign | (uint32_t)rintf(as_f32(magnitude) * 0x1p24f); /* the product is exact */
}

static FOLDED uint64_t convert(dlk_prim prim, dlk_kind from, dlk_kind to, uint64_t a)
{
    const double x = from == DLK_F32 ? (double)as_f32(a) : as_f64(a);
    switch (prim) {
    case DLK_PRIM_SEXT:
        return (uint64_t)sign_extend(from, a);
    case DLK_PRIM_SITOF:
        return to == DLK_F32 ? of_f32((float)sign_extend(from, a)) : of_f64((double)sign_extend(from, a));
    case DLK_PRIM_UITOF:
        return to == DLK_F32 ? of_f32((float)a) : of_f64((double)a);
    case DLK_PRIM_FTOSI:
        return float_to_signed(x, to);
    case DLK_PRIM_FTOUI:
        return float_to_unsigned(x, to);
    case DLK_PRIM_FEXT:
        return of_f64((double)as_f32(a));
    case DLK_PRIM_FTRUNC:
        return of_f32((float)as_f64(a));
    case DLK_PRIM_HTOF:
        return half_to_float(a);
    case DLK_PRIM_FTOH:
        return float_to_half(a);
    default: /* ZEXT, ITRUNC, BITCAST keep the bits that fit */
        return a;
    }
}

static FOLDED uint64_t eval(dlk_prim prim, char args, char result, dlk_kind from, dlk_kind to, uint64_t a, uint64_t b,
                            uint64_t c, bool fused)
{
    uint64_t bits;
    if (prim == DLK_PRIM_SELECT)
        bits = a & 1 ? b : c;
    else if (result == 'T')
        bits = convert(prim, from, to, a & mask_of(from));
    else if (args == 'F')
        bits = eval_float(prim, from, a, b, c, fused);
    else
        bits = eval_integer(prim, from, a & mask_of(from), b & mask_of(from));
    return bits & mask_of(to);
}

/* A loop for each primitive, so that each is compiled for itself. */
void dlk_prim_eval_lanes(dlk_prim prim, dlk_kind from, dlk_kind to, const uint64_t *a, const uint64_t *b,
                         const uint64_t *c, bool fused, size_t n, uint64_t *out)
{
    switch (prim) {
#define PRIM(id, name, arity, args, result)                                                        \
    case DLK_PRIM_##id:                                                                            \
        for (size_t l = 0; l < n; l++)                                                             \
            out[l] = eval(DLK_PRIM_##id, #args[0], #result[0], from, to, a[l], b[l], c[l], fused); \
        break;
#include "codegen/prims.def"
#undef PRIM
    case DLK_PRIM_COUNT:
        break;
    }
}

uint64_t dlk_prim_eval(dlk_prim prim, dlk_kind from, dlk_kind to, uint64_t a, uint64_t b, uint64_t c, bool fused)
{
    uint64_t out;
    dlk_prim_eval_lanes(prim, from, to, &a, &b, &c, fused, 1, &out);
    return out;
}
