/* Fused multiply-add for targets without the instruction: exact on every argument, from additions and multiplications.
 *
 * An inexact sum is rounded *to odd*: of its two neighbours it becomes the one whose last bit is 1. A second rounding to
 * at least two bits fewer then gives what one rounding of the exact sum gives, since neither a tie nor a representable
 * value can come about by the first.
 *
 * f32: the product is exact in f64, the sum is rounded to odd there, then to f32.
 *
 * f64: the product is split exactly in two (Veltkamp and Dekker), the three terms are added (Knuth's exact sums; the low
 * parts to odd). That is exact as long as no part overflows or underflows. Otherwise, in a branch that is rarely taken,
 * the operands are scaled by powers of two so that the larger of product and addend is near 1, and the result is scaled
 * back: one that will be subnormal is first rounded to the place of its last bit, by adding a constant that large. */
#include "codegen/lower.h"

typedef struct pair { /* an exact sum: high is it rounded, low the error */
    dlk_val high, low;
} pair;

static dlk_val f64(dlk_func *func, dlk_val like, double value)
{
    union {
        double value;
        uint64_t bits;
    } u = {value};
    return lower_const(func, like, DLK_F64, u.bits);
}
static dlk_val i64(dlk_func *func, dlk_val like, int64_t value)
{
    return lower_const(func, like, DLK_I64, (uint64_t)value);
}
static dlk_val add(dlk_func *func, dlk_val a, dlk_val b)
{
    return lower_binary(func, DLK_PRIM_FADD, a, b);
}
static dlk_val subtract(dlk_func *func, dlk_val a, dlk_val b)
{
    return lower_binary(func, DLK_PRIM_FSUB, a, b);
}
static dlk_val multiply(dlk_func *func, dlk_val a, dlk_val b)
{
    return lower_binary(func, DLK_PRIM_FMUL, a, b);
}
static dlk_val absolute(dlk_func *func, dlk_val a)
{
    return lower_unary(func, DLK_PRIM_FABS, a);
}
static dlk_val is_less(dlk_func *func, dlk_val a, dlk_val b)
{
    return lower_binary(func, DLK_PRIM_FLT, a, b);
}
static dlk_val either(dlk_func *func, dlk_val a, dlk_val b)
{
    return lower_binary(func, DLK_PRIM_OR, a, b);
}
static dlk_val as_i64(dlk_func *func, dlk_val a)
{
    return lower_bitcast(func, DLK_I64, a);
}

/* ---- Exact sums and products ---- */

static pair exact_sum(dlk_func *func, dlk_val a, dlk_val b)
{
    const dlk_val sum = add(func, a, b), of_b = subtract(func, sum, a);
    return (pair){sum, add(func, subtract(func, a, subtract(func, sum, of_b)), subtract(func, b, of_b))};
}

/* a = high + low, each with at most 26 bits. |a| < 2^995. */
static pair split(dlk_func *func, dlk_val a)
{
    const dlk_val scaled = multiply(func, a, f64(func, a, 0x1p27 + 1));
    const dlk_val high = subtract(func, scaled, subtract(func, scaled, a));
    return (pair){high, subtract(func, a, high)};
}

static pair exact_product(dlk_func *func, dlk_val a, dlk_val b)
{
    const pair x = split(func, a), y = split(func, b);
    const dlk_val product = multiply(func, a, b);
    dlk_val error = subtract(func, multiply(func, x.high, y.high), product);
    error = add(func, error, multiply(func, x.high, y.low));
    error = add(func, error, multiply(func, x.low, y.high));
    return (pair){product, add(func, error, multiply(func, x.low, y.low))};
}

/* a + b rounded to odd. */
static dlk_val add_to_odd(dlk_func *func, dlk_val a, dlk_val b)
{
    const dlk_val zero = f64(func, a, 0), none = i64(func, a, 0), one = i64(func, a, 1);
    const pair sum = exact_sum(func, a, b);
    const dlk_val bits = as_i64(func, sum.high);
    const dlk_val is_even = lower_binary(func, DLK_PRIM_EQ, lower_binary(func, DLK_PRIM_AND, bits, one), none);
    const dlk_val above = is_less(func, zero, sum.low), below = is_less(func, sum.low, zero);
    const dlk_val is_negative = lower_binary(func, DLK_PRIM_SLT, bits, none);
    /* the exact sum is larger in magnitude: away from zero is the next number up */
    const dlk_val outward = lower_binary(func, DLK_PRIM_XOR, above, is_negative);
    const dlk_val step = lower_select(func, outward, one, i64(func, a, -1));
    const dlk_val moves = lower_binary(func, DLK_PRIM_AND, is_even, either(func, above, below));
    return lower_bitcast(func, DLK_F64, lower_binary(func, DLK_PRIM_ADD, bits, lower_select(func, moves, step, none)));
}

/* a * b + c as high + low: high is the sum within an ulp or so, low is rounded to odd, and high + low rounds as the exact
 * sum does. */
static pair sum_of_product(dlk_func *func, dlk_val a, dlk_val b, dlk_val c)
{
    const pair product = exact_product(func, a, b);
    const pair inner = exact_sum(func, c, product.low), outer = exact_sum(func, product.high, inner.high);
    return (pair){outer.high, add_to_odd(func, inner.low, outer.low)};
}

/* ---- f64, near 1 ---- */

static dlk_val fma_moderate(dlk_func *func, dlk_val a, dlk_val b, dlk_val c)
{
    const pair sum = sum_of_product(func, a, b, c);
    /* splitting loses the sign of zero; with c = 0 the plain sum has one rounding too */
    const dlk_val plain = add(func, multiply(func, a, b), c);
    const dlk_val no_addend = lower_binary(func, DLK_PRIM_FEQ, c, f64(func, c, 0));
    return lower_select(func, no_addend, plain, add(func, sum.high, sum.low));
}

/* Where fma_moderate is exact: nothing near overflow, the product 0 or far enough above the subnormal numbers that its low
 * half is exact too. False with NaN. */
static dlk_val is_moderate(dlk_func *func, dlk_val a, dlk_val b, dlk_val c)
{
    const dlk_val zero = f64(func, a, 0), x = absolute(func, a), y = absolute(func, b),
                  product = absolute(func, multiply(func, a, b));
    const dlk_val total = add(func, add(func, x, y), add(func, absolute(func, c), product));
    const dlk_val is_low = is_less(func, total, f64(func, a, 0x1p990)),
                  is_high = is_less(func, f64(func, a, 0x1p-900), product);
    const dlk_val is_zero =
        either(func, lower_binary(func, DLK_PRIM_FEQ, a, zero), lower_binary(func, DLK_PRIM_FEQ, b, zero));
    return lower_binary(func, DLK_PRIM_AND, is_low, either(func, is_high, is_zero));
}

/* ---- f64, anywhere ---- */

typedef struct scaled { /* value = mantissa * 2^exponent, 1 <= |mantissa| < 2; meaningless for 0, infinity and NaN */
    dlk_val mantissa, exponent;
} scaled;

static dlk_val exponent_field(dlk_func *func, dlk_val bits)
{
    return lower_binary(func, DLK_PRIM_AND, lower_binary(func, DLK_PRIM_LSHR, bits, i64(func, bits, 52)),
                        i64(func, bits, 0x7ff));
}

static scaled normalise(dlk_func *func, dlk_val a)
{
    const dlk_val is_small = is_less(func, absolute(func, a), f64(func, a, 0x1p-1022));
    const dlk_val bits = as_i64(func, lower_select(func, is_small, multiply(func, a, f64(func, a, 0x1p64)), a));
    const dlk_val bias = lower_select(func, is_small, i64(func, a, 1023 + 64), i64(func, a, 1023));
    const dlk_val digits = lower_binary(func, DLK_PRIM_AND, bits, i64(func, a, ~(0x7ffll << 52)));
    const dlk_val mantissa = lower_binary(func, DLK_PRIM_OR, digits, i64(func, a, 1023ll << 52));
    return (scaled){lower_bitcast(func, DLK_F64, mantissa),
                    lower_binary(func, DLK_PRIM_SUB, exponent_field(func, bits), bias)};
}

/* 2^exponent, -1022 to 1023. */
static dlk_val power_of_two(dlk_func *func, dlk_val exponent)
{
    const dlk_val field = lower_binary(func, DLK_PRIM_ADD, exponent, i64(func, exponent, 1023));
    return lower_bitcast(func, DLK_F64, lower_binary(func, DLK_PRIM_SHL, field, i64(func, exponent, 52)));
}

/* a * 2^exponent, but never below 2^-300: so far under the other term it only tells on which side the sum lies. */
static dlk_val scale_down(dlk_func *func, dlk_val a, dlk_val exponent)
{
    return multiply(func, a,
                    power_of_two(func, lower_binary(func, DLK_PRIM_SMAX, exponent, i64(func, exponent, -300))));
}

/* The sum rounded where its scaled-back value ends: at 53 bits, or at 2^-1074 if that comes first. */
static dlk_val round_scaled(dlk_func *func, pair sum, dlk_val exponent)
{
    const pair whole = exact_sum(func, sum.high, sum.low);
    const dlk_val field = exponent_field(func, as_i64(func, whole.high));
    const dlk_val is_subnormal =
        lower_binary(func, DLK_PRIM_SLT, lower_binary(func, DLK_PRIM_ADD, field, exponent), i64(func, exponent, 1));
    /* the last bit of a number of this size is worth 2^-1074 once scaled back */
    const dlk_val step = lower_binary(func, DLK_PRIM_SUB, i64(func, exponent, 52 - 1074), exponent);
    const dlk_val magic = power_of_two(func, lower_select(func, is_subnormal, step, i64(func, exponent, 0)));
    const dlk_val signed_magic = lower_binary(func, DLK_PRIM_COPYSIGN, magic, whole.high);
    const pair raised = exact_sum(func, signed_magic, whole.high);
    const dlk_val rest = add_to_odd(func, raised.low, whole.low);
    const dlk_val rounded = subtract(func, add(func, raised.high, rest), signed_magic);
    return lower_binary(func, DLK_PRIM_COPYSIGN, lower_select(func, is_subnormal, rounded, whole.high), whole.high);
}

/* a * 2^exponent in two steps, of which only the second may overflow. */
static dlk_val scale_back(dlk_func *func, dlk_val a, dlk_val exponent)
{
    const dlk_val half = lower_binary(func, DLK_PRIM_ASHR, exponent, i64(func, exponent, 1));
    const dlk_val first = multiply(func, a, power_of_two(func, half));
    return multiply(func, first, power_of_two(func, lower_binary(func, DLK_PRIM_SUB, exponent, half)));
}

static dlk_val fma_finite(dlk_func *func, scaled a, scaled b, scaled c, dlk_val no_addend)
{
    const dlk_val of_product = lower_binary(func, DLK_PRIM_ADD, a.exponent, b.exponent);
    const dlk_val of_addend = lower_select(func, no_addend, i64(func, of_product, -5000), c.exponent);
    const dlk_val larger = lower_binary(func, DLK_PRIM_SMAX, of_product, of_addend);
    const dlk_val x = scale_down(func, a.mantissa, lower_binary(func, DLK_PRIM_SUB, of_product, larger));
    const dlk_val z = scale_down(func, c.mantissa, lower_binary(func, DLK_PRIM_SUB, of_addend, larger));
    const dlk_val addend = lower_select(func, no_addend, f64(func, z, 0), z);
    /* beyond these the result is an infinity or rounds to 0, whatever the digits */
    const dlk_val exponent =
        lower_binary(func, DLK_PRIM_SMIN, lower_binary(func, DLK_PRIM_SMAX, larger, i64(func, larger, -1200)),
                     i64(func, larger, 1200));
    const dlk_val rounded = round_scaled(func, sum_of_product(func, x, b.mantissa, addend), exponent);
    return scale_back(func, rounded, exponent);
}

static dlk_val is_infinite_or_nan(dlk_func *func, dlk_val a)
{
    const dlk_val infinity = lower_const(func, a, DLK_F64, 0x7ffull << 52);
    return lower_unary(func, DLK_PRIM_NOT, is_less(func, absolute(func, a), infinity));
}

/* 0, infinity and NaN as they are, other numbers as their mantissas, so that products of these do not overflow. */
static dlk_val stand_in(dlk_func *func, dlk_val a, dlk_val is_special, scaled s)
{
    return lower_select(func, is_special, a, s.mantissa);
}

static dlk_val fma_any(dlk_func *func, dlk_val a, dlk_val b, dlk_val c)
{
    const dlk_val zero = f64(func, a, 0);
    const dlk_val a_special = either(func, is_infinite_or_nan(func, a), lower_binary(func, DLK_PRIM_FEQ, a, zero));
    const dlk_val b_special = either(func, is_infinite_or_nan(func, b), lower_binary(func, DLK_PRIM_FEQ, b, zero));
    const scaled x = normalise(func, a), y = normalise(func, b), z = normalise(func, c);
    const dlk_val plain =
        add(func, multiply(func, stand_in(func, a, a_special, x), stand_in(func, b, b_special, y)), c);
    const dlk_val finite = fma_finite(func, x, y, z, lower_binary(func, DLK_PRIM_FEQ, c, zero));
    return lower_select(func, either(func, either(func, a_special, b_special), is_infinite_or_nan(func, c)), plain,
                        finite);
}

/* ---- Entry ---- */

static dlk_val fma_f64(dlk_func *func, dlk_val a, dlk_val b, dlk_val c)
{
    const dlk_val moderate = is_moderate(func, a, b, c);
    const dlk_val quick = fma_moderate(func, a, b, c);
    const dlk_val branch = dlk_ir_if_begin(func, dlk_ir_any(func, lower_unary(func, DLK_PRIM_NOT, moderate)), true);
    const dlk_val everywhere = lower_select(func, moderate, quick, fma_any(func, a, b, c));
    dlk_ir_if_else(func, branch, &everywhere, 1);
    dlk_ir_if_end(func, branch, &quick);
    return dlk_ir_result(func, branch, 0);
}

static dlk_val fma_f32(dlk_func *func, dlk_val a, dlk_val b, dlk_val c)
{
    const dlk_val x = dlk_ir_convert(func, DLK_PRIM_FEXT, DLK_F64, a),
                  y = dlk_ir_convert(func, DLK_PRIM_FEXT, DLK_F64, b);
    const dlk_val z = dlk_ir_convert(func, DLK_PRIM_FEXT, DLK_F64, c);
    return dlk_ir_convert(func, DLK_PRIM_FTRUNC, DLK_F32, add_to_odd(func, multiply(func, x, y), z));
}

dlk_val dlk_lower_fma(dlk_func *func, dlk_val a, dlk_val b, dlk_val c)
{
    return func->nodes[a].type.kind == DLK_F32 ? fma_f32(func, a, b, c) : fma_f64(func, a, b, c);
}
