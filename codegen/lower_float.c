/* Float primitives that the target has no instruction for, in those that it has: to the bit, on every argument. */
#include "codegen/lower.h"

/* Half to float: the exponent is rebiased by one exact multiplication, which also normalises subnormals. */
static dlk_val half_to_float(dlk_func *func, dlk_val half)
{
    const dlk_val h = dlk_ir_convert(func, DLK_PRIM_ZEXT, DLK_I32, half);
    const dlk_val magnitude = lower_binary(func, DLK_PRIM_AND, h, lower_const(func, h, DLK_I32, 0x7fff));
    const dlk_val sign =
        lower_binary(func, DLK_PRIM_SHL, lower_binary(func, DLK_PRIM_AND, h, lower_const(func, h, DLK_I32, 0x8000)),
                     lower_const(func, h, DLK_I32, 16));
    const dlk_val shifted = lower_binary(func, DLK_PRIM_SHL, magnitude, lower_const(func, h, DLK_I32, 13));
    const dlk_val scaled = lower_binary(func, DLK_PRIM_FMUL, lower_bitcast(func, DLK_F32, shifted),
                                        lower_const(func, h, DLK_F32, 0x77800000)); /* 2^112 */
    const dlk_val finite = lower_bitcast(func, DLK_I32, scaled);
    const dlk_val special = lower_binary(func, DLK_PRIM_OR, shifted, lower_const(func, h, DLK_I32, 0x7f800000));
    const dlk_val is_special = lower_binary(func, DLK_PRIM_ULE, lower_const(func, h, DLK_I32, 0x7c00), magnitude);
    return lower_bitcast(func, DLK_F32,
                         lower_binary(func, DLK_PRIM_OR, lower_select(func, is_special, special, finite), sign));
}

/* Float to half, to nearest even: normal results by integer rounding, subnormal ones by rounding to a multiple of 2^-24. */
static dlk_val float_to_half(dlk_func *func, dlk_val value)
{
    const dlk_val bits = lower_bitcast(func, DLK_I32, value);
    const dlk_val magnitude = lower_binary(func, DLK_PRIM_AND, bits, lower_const(func, bits, DLK_I32, 0x7fffffff));
    const dlk_val sign =
        lower_binary(func, DLK_PRIM_AND, lower_binary(func, DLK_PRIM_LSHR, bits, lower_const(func, bits, DLK_I32, 16)),
                     lower_const(func, bits, DLK_I32, 0x8000));
    const dlk_val thirteen = lower_const(func, bits, DLK_I32, 13),
                  high = lower_binary(func, DLK_PRIM_LSHR, magnitude, thirteen);
    const dlk_val last = lower_binary(func, DLK_PRIM_AND, high, lower_const(func, bits, DLK_I32, 1));
    const dlk_val rounded = lower_binary(
        func, DLK_PRIM_ADD, lower_binary(func, DLK_PRIM_ADD, magnitude, lower_const(func, bits, DLK_I32, 0xfff)), last);
    const dlk_val normal =
        lower_binary(func, DLK_PRIM_LSHR,
                     lower_binary(func, DLK_PRIM_SUB, rounded, lower_const(func, bits, DLK_I32, 112u << 23)), thirteen);
    const dlk_val steps = lower_binary(func, DLK_PRIM_FMUL, lower_bitcast(func, DLK_F32, magnitude),
                                       lower_const(func, bits, DLK_F32, 0x4b800000)); /* 2^24 */
    const dlk_val subnormal = dlk_ir_convert(func, DLK_PRIM_FTOSI, DLK_I32, lower_unary(func, DLK_PRIM_RINT, steps));
    const dlk_val nan = lower_binary(func, DLK_PRIM_OR, lower_const(func, bits, DLK_I32, 0x7e00),
                                     lower_binary(func, DLK_PRIM_AND, high, lower_const(func, bits, DLK_I32, 0x3ff)));
    dlk_val half =
        lower_select(func, lower_binary(func, DLK_PRIM_ULT, magnitude, lower_const(func, bits, DLK_I32, 0x38800000)),
                     subnormal, normal);
    half = lower_select(func, lower_binary(func, DLK_PRIM_ULE, lower_const(func, bits, DLK_I32, 0x477ff000), magnitude),
                        lower_const(func, bits, DLK_I32, 0x7c00), half);
    half = lower_select(func, lower_binary(func, DLK_PRIM_ULT, lower_const(func, bits, DLK_I32, 0x7f800000), magnitude),
                        nan, half);
    return dlk_ir_convert(func, DLK_PRIM_ITRUNC, DLK_I16, lower_binary(func, DLK_PRIM_OR, half, sign));
}

/* MAD is what the target does fastest: that is its meaning (prims.def). */
static dlk_val lower_mad(dlk_func *func, dlk_val a, dlk_val b, dlk_val c)
{
    if (!func->target->fast_fma)
        return lower_binary(func, DLK_PRIM_FADD, lower_binary(func, DLK_PRIM_FMUL, a, b), c);
    return func->target->has_fma ? dlk_ir_prim(func, DLK_PRIM_FMA, a, b, c) : dlk_lower_fma(func, a, b, c);
}

bool dlk_lower_float(dlk_rewrite *rewrite, const dlk_node *node, dlk_val *out)
{
    dlk_func *func = rewrite->to;
    const dlk_target *target = func->target;
    if (node->op != DLK_IR_PRIM)
        return false;
    const dlk_val a = dlk_rewrite_mapped(rewrite, node->a), b = dlk_rewrite_mapped(rewrite, node->b),
                  c = dlk_rewrite_mapped(rewrite, node->c);
    if (node->prim == DLK_PRIM_MAD)
        *out = lower_mad(func, a, b, c);
    else if (node->prim == DLK_PRIM_FMA && !target->has_fma)
        *out = dlk_lower_fma(func, a, b, c);
    else if (node->prim == DLK_PRIM_HTOF && !target->has_f16c)
        *out = half_to_float(func, a);
    else if (node->prim == DLK_PRIM_FTOH && !target->has_f16c)
        *out = float_to_half(func, a);
    else
        return false;
    return true;
}
