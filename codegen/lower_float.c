/* Float primitives that the target has no instruction for, in those that it has: to the bit, on every argument. */
#include "codegen/rewrite.h"

static dlk_type type_of(const dlk_func *func, dlk_val value)
{
    return func->nodes[value].type;
}
static dlk_val constant(dlk_func *func, dlk_val like, dlk_kind kind, uint64_t bits)
{
    return dlk_ir_const(func, (dlk_type){(uint8_t)kind, type_of(func, like).lanes}, bits);
}
static dlk_val binary(dlk_func *func, dlk_prim prim, dlk_val a, dlk_val b)
{
    return dlk_ir_prim(func, prim, a, b, DLK_NONE);
}
static dlk_val choose(dlk_func *func, dlk_val p, dlk_val a, dlk_val b)
{
    return dlk_ir_prim(func, DLK_PRIM_SELECT, p, a, b);
}

/* a + b in f64, inexact results forced to an odd last bit, so that a second rounding to fewer bits is as good as one. */
static dlk_val add_to_odd(dlk_func *func, dlk_val a, dlk_val b)
{
    const dlk_val zero = constant(func, a, DLK_F64, 0), one = constant(func, a, DLK_I64, 1);
    const dlk_val sum = binary(func, DLK_PRIM_FADD, a, b);
    const dlk_val of_b = binary(func, DLK_PRIM_FSUB, sum, a);
    const dlk_val error =
        binary(func, DLK_PRIM_FADD, binary(func, DLK_PRIM_FSUB, a, binary(func, DLK_PRIM_FSUB, sum, of_b)),
               binary(func, DLK_PRIM_FSUB, b, of_b));
    const dlk_val bits = dlk_ir_convert(func, DLK_PRIM_BITCAST, DLK_I64, sum);
    const dlk_val is_even =
        binary(func, DLK_PRIM_EQ, binary(func, DLK_PRIM_AND, bits, one), constant(func, a, DLK_I64, 0));
    const dlk_val above = binary(func, DLK_PRIM_FLT, zero, error), below = binary(func, DLK_PRIM_FLT, error, zero);
    const dlk_val is_negative = binary(func, DLK_PRIM_SLT, bits, constant(func, a, DLK_I64, 0));
    const dlk_val outward = binary(func, DLK_PRIM_XOR, above, is_negative); /* the exact sum is larger in magnitude */
    const dlk_val odd =
        choose(func, outward, binary(func, DLK_PRIM_ADD, bits, one), binary(func, DLK_PRIM_SUB, bits, one));
    const dlk_val moves = binary(func, DLK_PRIM_AND, is_even, binary(func, DLK_PRIM_OR, above, below));
    return dlk_ir_convert(func, DLK_PRIM_BITCAST, DLK_F64, choose(func, moves, odd, bits));
}

/* The product of two f32 is exact in f64; the sum is rounded to odd there, then once to f32. */
static dlk_val fma_f32(dlk_func *func, dlk_val a, dlk_val b, dlk_val c)
{
    const dlk_val x = dlk_ir_convert(func, DLK_PRIM_FEXT, DLK_F64, a),
                  y = dlk_ir_convert(func, DLK_PRIM_FEXT, DLK_F64, b);
    const dlk_val z = dlk_ir_convert(func, DLK_PRIM_FEXT, DLK_F64, c);
    return dlk_ir_convert(func, DLK_PRIM_FTRUNC, DLK_F32, add_to_odd(func, binary(func, DLK_PRIM_FMUL, x, y), z));
}

/* Half to float: the exponent is rebiased by one exact multiplication, which also normalises subnormals. */
static dlk_val half_to_float(dlk_func *func, dlk_val half)
{
    const dlk_val h = dlk_ir_convert(func, DLK_PRIM_ZEXT, DLK_I32, half);
    const dlk_val magnitude = binary(func, DLK_PRIM_AND, h, constant(func, h, DLK_I32, 0x7fff));
    const dlk_val sign = binary(func, DLK_PRIM_SHL, binary(func, DLK_PRIM_AND, h, constant(func, h, DLK_I32, 0x8000)),
                                constant(func, h, DLK_I32, 16));
    const dlk_val shifted = binary(func, DLK_PRIM_SHL, magnitude, constant(func, h, DLK_I32, 13));
    const dlk_val scaled = binary(func, DLK_PRIM_FMUL, dlk_ir_convert(func, DLK_PRIM_BITCAST, DLK_F32, shifted),
                                  constant(func, h, DLK_F32, 0x77800000)); /* 2^112 */
    const dlk_val finite = dlk_ir_convert(func, DLK_PRIM_BITCAST, DLK_I32, scaled);
    const dlk_val special = binary(func, DLK_PRIM_OR, shifted, constant(func, h, DLK_I32, 0x7f800000));
    const dlk_val is_special = binary(func, DLK_PRIM_ULE, constant(func, h, DLK_I32, 0x7c00), magnitude);
    return dlk_ir_convert(func, DLK_PRIM_BITCAST, DLK_F32,
                          binary(func, DLK_PRIM_OR, choose(func, is_special, special, finite), sign));
}

/* Float to half, to nearest even: normal results by integer rounding, subnormal ones by rounding to a multiple of 2^-24. */
static dlk_val float_to_half(dlk_func *func, dlk_val value)
{
    const dlk_val bits = dlk_ir_convert(func, DLK_PRIM_BITCAST, DLK_I32, value);
    const dlk_val magnitude = binary(func, DLK_PRIM_AND, bits, constant(func, bits, DLK_I32, 0x7fffffff));
    const dlk_val sign =
        binary(func, DLK_PRIM_AND, binary(func, DLK_PRIM_LSHR, bits, constant(func, bits, DLK_I32, 16)),
               constant(func, bits, DLK_I32, 0x8000));
    const dlk_val thirteen = constant(func, bits, DLK_I32, 13), high = binary(func, DLK_PRIM_LSHR, magnitude, thirteen);
    const dlk_val last = binary(func, DLK_PRIM_AND, high, constant(func, bits, DLK_I32, 1));
    const dlk_val rounded =
        binary(func, DLK_PRIM_ADD, binary(func, DLK_PRIM_ADD, magnitude, constant(func, bits, DLK_I32, 0xfff)), last);
    const dlk_val normal = binary(
        func, DLK_PRIM_LSHR, binary(func, DLK_PRIM_SUB, rounded, constant(func, bits, DLK_I32, 112u << 23)), thirteen);
    const dlk_val steps = binary(func, DLK_PRIM_FMUL, dlk_ir_convert(func, DLK_PRIM_BITCAST, DLK_F32, magnitude),
                                 constant(func, bits, DLK_F32, 0x4b800000)); /* 2^24 */
    const dlk_val subnormal =
        dlk_ir_convert(func, DLK_PRIM_FTOSI, DLK_I32, dlk_ir_prim(func, DLK_PRIM_RINT, steps, DLK_NONE, DLK_NONE));
    const dlk_val nan = binary(func, DLK_PRIM_OR, constant(func, bits, DLK_I32, 0x7e00),
                               binary(func, DLK_PRIM_AND, high, constant(func, bits, DLK_I32, 0x3ff)));
    dlk_val half = choose(func, binary(func, DLK_PRIM_ULT, magnitude, constant(func, bits, DLK_I32, 0x38800000)),
                          subnormal, normal);
    half = choose(func, binary(func, DLK_PRIM_ULE, constant(func, bits, DLK_I32, 0x477ff000), magnitude),
                  constant(func, bits, DLK_I32, 0x7c00), half);
    half = choose(func, binary(func, DLK_PRIM_ULT, constant(func, bits, DLK_I32, 0x7f800000), magnitude), nan, half);
    return dlk_ir_convert(func, DLK_PRIM_ITRUNC, DLK_I16, binary(func, DLK_PRIM_OR, half, sign));
}

bool dlk_lower_float(dlk_rewrite *rewrite, const dlk_node *node, dlk_val *out)
{
    dlk_func *func = rewrite->to;
    const dlk_target *target = func->target;
    if (node->op != DLK_IR_PRIM)
        return false;
    const dlk_val a = rewrite->map[node->a], b = node->b == DLK_NONE ? DLK_NONE : rewrite->map[node->b];
    const dlk_val c = node->c == DLK_NONE ? DLK_NONE : rewrite->map[node->c];
    if (node->prim == DLK_PRIM_MAD)
        *out = target->fast_fma ? dlk_ir_prim(func, DLK_PRIM_FMA, a, b, c)
                                : binary(func, DLK_PRIM_FADD, binary(func, DLK_PRIM_FMUL, a, b), c);
    else if (node->prim == DLK_PRIM_FMA && !target->has_fma && node->type.kind == DLK_F32)
        *out = fma_f32(func, a, b, c);
    else if (node->prim == DLK_PRIM_HTOF && !target->has_f16c)
        *out = half_to_float(func, a);
    else if (node->prim == DLK_PRIM_FTOH && !target->has_f16c)
        *out = float_to_half(func, a);
    else
        return false;
    return true;
}
