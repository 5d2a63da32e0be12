/* What lies in memory, as nodes: a storage word to the value computed with, and a value to the word, rounded once.
 *
 * A narrow float is rounded to nearest from f32. What f32 cannot hold (f64, wide integers) comes there by rounding to odd:
 * truncated, and the last bit set when anything was lost. f32 keeps at least two bits more than every narrow format, down
 * into their subnormals, so that the odd bit says on which side of a tie the exact value lies, and the two roundings are
 * one. */
#include "codegen/dtype.h"
#include "codegen/prog.h"

#define F32_MANTISSA_BITS 23
#define F32_BIAS          127
#define F32_SIGN          0x80000000u
#define F32_INFINITY      0x7f800000u

static dlk_kind kind_of(const dlk_prog *prog, dlk_ref ref)
{
    return prog->nodes[ref].kind;
}

static dlk_ref unary(dlk_prog *prog, dlk_prim prim, dlk_ref a)
{
    return dlk_prog_prim(prog, prim, a, DLK_NONE, DLK_NONE);
}

static dlk_ref binary(dlk_prog *prog, dlk_prim prim, dlk_ref a, dlk_ref b)
{
    return dlk_prog_prim(prog, prim, a, b, DLK_NONE);
}

static dlk_ref with_const(dlk_prog *prog, dlk_prim prim, dlk_ref a, uint64_t bits)
{
    return binary(prog, prim, a, dlk_prog_const(prog, kind_of(prog, a), bits));
}

static dlk_ref choose(dlk_prog *prog, dlk_ref p, dlk_ref a, dlk_ref b)
{
    return dlk_prog_prim(prog, DLK_PRIM_SELECT, p, a, b);
}

static dlk_ref u32_const(dlk_prog *prog, uint64_t bits)
{
    return dlk_prog_const(prog, DLK_I32, bits);
}

/* ---- A format by its row -------------------------------------------------------------------------------------------- */

typedef struct format {
    int mantissa_bits;
    int shift;         /* f32's mantissa bits less the format's */
    uint32_t rebias;   /* f32's bias less the format's */
    uint32_t infinity; /* code of the smallest magnitude that is no number: infinity, or FN's NaN */
    uint32_t nan;
    int sign_bit;
    bool is_fn;
} format;

static format format_of(int dtype)
{
    const dlk_dtype_info *info = &dlk_dtypes[dtype];
    const uint32_t exponent_ones = (1u << info->exponent_bits) - 1, mantissa_ones = (1u << info->mantissa_bits) - 1;
    format f = {.mantissa_bits = info->mantissa_bits,
                .shift = F32_MANTISSA_BITS - info->mantissa_bits,
                .rebias = F32_BIAS - (exponent_ones >> 1),
                .sign_bit = info->exponent_bits + info->mantissa_bits,
                .is_fn = info->special == DLK_SPECIAL_FN};
    f.infinity = exponent_ones << info->mantissa_bits | (f.is_fn ? mantissa_ones : 0);
    f.nan = f.infinity | (f.is_fn ? 0 : 1u << (info->mantissa_bits - 1));
    return f;
}

/* ---- Decoding ------------------------------------------------------------------------------------------------------- */

/* Magnitude of a word whose exponent field is not full: a subnormal m is (1 + m * ulp) - 1 at the smallest exponent, which
 * is exact and needs no f32 subnormals. */
static dlk_ref decode_magnitude(dlk_prog *prog, const format *f, dlk_ref wide)
{
    const dlk_ref moved = with_const(prog, DLK_PRIM_SHL, wide, (uint64_t)f->shift);
    const uint32_t smallest = (f->rebias + 1) << F32_MANTISSA_BITS;
    const dlk_ref normal = with_const(prog, DLK_PRIM_ADD, moved, f->rebias << F32_MANTISSA_BITS);
    const dlk_ref above = with_const(prog, DLK_PRIM_ADD, moved, smallest);
    const dlk_ref subnormal =
        with_const(prog, DLK_PRIM_FSUB, dlk_prog_convert(prog, DLK_PRIM_BITCAST, DLK_F32, above), smallest);
    const dlk_ref is_subnormal = with_const(prog, DLK_PRIM_ULT, wide, 1u << f->mantissa_bits);
    return choose(prog, is_subnormal, subnormal, dlk_prog_convert(prog, DLK_PRIM_BITCAST, DLK_F32, normal));
}

static dlk_ref decode_small(dlk_prog *prog, const format *f, dlk_ref word)
{
    const dlk_ref wide = dlk_prog_convert(prog, DLK_PRIM_ZEXT, DLK_I32, word);
    const dlk_ref magnitude = with_const(prog, DLK_PRIM_AND, wide, (1u << f->sign_bit) - 1);
    const dlk_ref number = decode_magnitude(prog, f, magnitude);
    const dlk_ref is_number = with_const(prog, DLK_PRIM_ULT, magnitude, f->infinity);
    const dlk_ref moved = with_const(prog, DLK_PRIM_SHL, magnitude, (uint64_t)f->shift);
    const dlk_ref special = f->is_fn ? dlk_prog_const(prog, DLK_F32, F32_INFINITY | 0x400000u)
                                     : dlk_prog_convert(prog, DLK_PRIM_BITCAST, DLK_F32,
                                                        with_const(prog, DLK_PRIM_OR, moved, F32_INFINITY));
    const dlk_ref sign = with_const(prog, DLK_PRIM_SHL, wide, (uint64_t)(31 - f->sign_bit));
    return binary(prog, DLK_PRIM_COPYSIGN, choose(prog, is_number, number, special),
                  dlk_prog_convert(prog, DLK_PRIM_BITCAST, DLK_F32, sign));
}

/* A 16-bit float with f32's exponents is its upper half. */
static dlk_ref decode_upper_half(dlk_prog *prog, dlk_ref word)
{
    const dlk_ref wide = dlk_prog_convert(prog, DLK_PRIM_ZEXT, DLK_I32, word);
    return dlk_prog_convert(prog, DLK_PRIM_BITCAST, DLK_F32, with_const(prog, DLK_PRIM_SHL, wide, 16));
}

/* ---- To f32, rounding to odd ------------------------------------------------------------------------------------------ */

/* The rounding to nearest, stepped back to zero where it went away from it, with the last bit set where it is not exact.
 * A NaN stays one. */
static dlk_ref odd_from_f64(dlk_prog *prog, dlk_ref x)
{
    const dlk_ref nearest = dlk_prog_convert(prog, DLK_PRIM_FTRUNC, DLK_F32, x);
    const dlk_ref back = dlk_prog_convert(prog, DLK_PRIM_FEXT, DLK_F64, nearest);
    const dlk_ref is_away = binary(prog, DLK_PRIM_FLT, unary(prog, DLK_PRIM_FABS, x), unary(prog, DLK_PRIM_FABS, back));
    const dlk_ref is_inexact = binary(prog, DLK_PRIM_FNE, back, x);
    const dlk_ref bits = dlk_prog_convert(prog, DLK_PRIM_BITCAST, DLK_I32, nearest);
    const dlk_ref truncated = binary(prog, DLK_PRIM_SUB, bits, dlk_prog_convert(prog, DLK_PRIM_ZEXT, DLK_I32, is_away));
    const dlk_ref odd =
        binary(prog, DLK_PRIM_OR, truncated, dlk_prog_convert(prog, DLK_PRIM_ZEXT, DLK_I32, is_inexact));
    return dlk_prog_convert(prog, DLK_PRIM_BITCAST, DLK_F32, odd);
}

/* A 64-bit magnitude to f64: what lies below bit 11 is or-ed into bit 11 where f64 cannot hold it. At least 42 bits
 * stay. */
static dlk_ref odd_from_u64(dlk_prog *prog, dlk_ref u)
{
    const dlk_ref low = with_const(prog, DLK_PRIM_AND, u, 0x7ff);
    const dlk_ref is_lost = with_const(prog, DLK_PRIM_NE, low, 0);
    const dlk_ref sticky = with_const(prog, DLK_PRIM_SHL, dlk_prog_convert(prog, DLK_PRIM_ZEXT, DLK_I64, is_lost), 11);
    const dlk_ref kept = with_const(prog, DLK_PRIM_AND, u, ~0x7ffull);
    const dlk_ref is_small = with_const(prog, DLK_PRIM_ULT, u, 1ull << 53);
    const dlk_ref exact = choose(prog, is_small, u, binary(prog, DLK_PRIM_OR, kept, sticky));
    return dlk_prog_convert(prog, DLK_PRIM_UITOF, DLK_F64, exact);
}

static dlk_ref odd_from_i64(dlk_prog *prog, dlk_ref x, bool is_unsigned)
{
    if (is_unsigned)
        return odd_from_u64(prog, x);
    const dlk_ref is_negative = with_const(prog, DLK_PRIM_SLT, x, 0);
    const dlk_ref negated = binary(prog, DLK_PRIM_SUB, dlk_prog_const(prog, DLK_I64, 0), x);
    const dlk_ref magnitude = odd_from_u64(prog, choose(prog, is_negative, negated, x));
    return choose(prog, is_negative, unary(prog, DLK_PRIM_FNEG, magnitude), magnitude);
}

static dlk_ref int_to_float(dlk_prog *prog, dlk_ref x, dlk_kind kind, bool is_unsigned)
{
    return dlk_prog_convert(prog, is_unsigned ? DLK_PRIM_UITOF : DLK_PRIM_SITOF, kind, x);
}

static dlk_ref predicate_to_float(dlk_prog *prog, dlk_ref p, dlk_kind kind)
{
    const uint64_t one = kind == DLK_F32 ? 0x3f800000u : 0x3ff0000000000000u;
    return choose(prog, p, dlk_prog_const(prog, kind, one), dlk_prog_const(prog, kind, 0));
}

/* Any value to an f32 from which a narrow format is rounded to nearest as from the value itself. */
static dlk_ref odd_f32(dlk_prog *prog, dlk_ref x, bool is_unsigned)
{
    switch (kind_of(prog, x)) {
    case DLK_F32:
        return x;
    case DLK_F64:
        return odd_from_f64(prog, x);
    case DLK_P1:
        return predicate_to_float(prog, x, DLK_F32);
    case DLK_I64:
        return odd_from_f64(prog, odd_from_i64(prog, x, is_unsigned));
    case DLK_I32:
        return odd_from_f64(prog, int_to_float(prog, x, DLK_F64, is_unsigned));
    default:
        return int_to_float(prog, x, DLK_F32, is_unsigned);
    }
}

/* ---- Encoding ------------------------------------------------------------------------------------------------------- */

/* u: bits of an f32 magnitude. To nearest even at bit `shift`, still unshifted: adds a half less one, and one more where
 * the bit that stays is odd. */
static dlk_ref round_at(dlk_prog *prog, dlk_ref u, int shift)
{
    const dlk_ref moved = with_const(prog, DLK_PRIM_LSHR, u, (uint64_t)shift);
    const dlk_ref odd = with_const(prog, DLK_PRIM_AND, moved, 1);
    const dlk_ref bumped = with_const(prog, DLK_PRIM_ADD, u, (1u << (shift - 1)) - 1);
    return with_const(prog, DLK_PRIM_LSHR, binary(prog, DLK_PRIM_ADD, bumped, odd), (uint64_t)shift);
}

/* Code of a magnitude below the smallest normal: adding a number whose last bit weighs as much as the format's smallest
 * makes f32 addition round there. */
static dlk_ref round_subnormal(dlk_prog *prog, const format *f, dlk_ref u)
{
    const uint32_t aligned = (f->rebias + 1 + (uint32_t)f->shift) << F32_MANTISSA_BITS;
    const dlk_ref sum = with_const(prog, DLK_PRIM_FADD, dlk_prog_convert(prog, DLK_PRIM_BITCAST, DLK_F32, u), aligned);
    return with_const(prog, DLK_PRIM_SUB, dlk_prog_convert(prog, DLK_PRIM_BITCAST, DLK_I32, sum), aligned);
}

static dlk_ref round_magnitude(dlk_prog *prog, const format *f, dlk_ref u)
{
    dlk_ref code = round_at(prog, u, f->shift);
    if (f->rebias == 0)
        return code;
    code = with_const(prog, DLK_PRIM_SUB, code, f->rebias << f->mantissa_bits);
    const dlk_ref is_subnormal = with_const(prog, DLK_PRIM_ULT, u, (f->rebias + 1) << F32_MANTISSA_BITS);
    return choose(prog, is_subnormal, round_subnormal(prog, f, u), code);
}

/* x: f32. */
static dlk_ref encode_small(dlk_prog *prog, int dtype, dlk_ref x, bool saturate)
{
    const format f = format_of(dtype);
    const dlk_ref bits = dlk_prog_convert(prog, DLK_PRIM_BITCAST, DLK_I32, x);
    const dlk_ref u = with_const(prog, DLK_PRIM_AND, bits, ~(uint64_t)F32_SIGN);
    dlk_ref code = round_magnitude(prog, &f, u);
    if (saturate && f.is_fn)
        code = with_const(prog, DLK_PRIM_UMIN, code, f.infinity - 1);
    else
        code = with_const(prog, DLK_PRIM_UMIN, code, f.infinity);
    const dlk_ref is_nan = binary(prog, DLK_PRIM_ULT, u32_const(prog, F32_INFINITY), u);
    code = choose(prog, is_nan, u32_const(prog, f.nan), code);
    const dlk_ref sign =
        with_const(prog, DLK_PRIM_LSHR, with_const(prog, DLK_PRIM_AND, bits, F32_SIGN), (uint64_t)(31 - f.sign_bit));
    return dlk_prog_convert(prog, DLK_PRIM_ITRUNC, dlk_dtypes[dtype].storage, binary(prog, DLK_PRIM_OR, code, sign));
}

static dlk_ref encode_float(dlk_prog *prog, int dtype, dlk_ref x, bool is_unsigned, bool saturate)
{
    const dlk_kind from = kind_of(prog, x), to = dlk_dtypes[dtype].compute;
    if (dtype == DLK_DTYPE_F16)
        return dlk_prog_convert(prog, DLK_PRIM_FTOH, DLK_I16, odd_f32(prog, x, is_unsigned));
    if (dlk_kind_is_int(dlk_dtypes[dtype].storage))
        return encode_small(prog, dtype, odd_f32(prog, x, is_unsigned), saturate);
    if (from == to)
        return x;
    if (from == DLK_P1)
        return predicate_to_float(prog, x, to);
    if (dlk_kind_is_int(from))
        return int_to_float(prog, x, to, is_unsigned);
    return dlk_prog_convert(prog, to == DLK_F64 ? DLK_PRIM_FEXT : DLK_PRIM_FTRUNC, to, x);
}

static dlk_ref encode_int(dlk_prog *prog, int dtype, dlk_ref x, bool is_unsigned)
{
    const dlk_kind from = kind_of(prog, x), to = dlk_dtypes[dtype].compute;
    if (from == to)
        return x;
    if (dlk_kind_is_float(from))
        return dlk_prog_convert(prog, dlk_dtypes[dtype].class_ == DLK_CLASS_UINT ? DLK_PRIM_FTOUI : DLK_PRIM_FTOSI, to,
                                x);
    if (from != DLK_P1 && dlk_kind_bits(from) > dlk_kind_bits(to))
        return dlk_prog_convert(prog, DLK_PRIM_ITRUNC, to, x);
    return dlk_prog_convert(prog, is_unsigned || from == DLK_P1 ? DLK_PRIM_ZEXT : DLK_PRIM_SEXT, to, x);
}

/* Any value as a predicate: whether it is not zero. NaN is not. */
static dlk_ref encode_bool(dlk_prog *prog, dlk_ref x)
{
    const dlk_kind from = kind_of(prog, x);
    if (from == DLK_P1)
        return x;
    return with_const(prog, dlk_kind_is_float(from) ? DLK_PRIM_FNE : DLK_PRIM_NE, x, 0);
}

/* The word that `value` was decoded from, so that what was only moved keeps every bit: decoding the first word found below
 * it again must give the same node. */
static dlk_ref decoded_from(dlk_prog *prog, int dtype, dlk_ref value)
{
    const dlk_kind storage = dlk_dtypes[dtype].storage;
    if (kind_of(prog, value) != DLK_F32 || !dlk_kind_is_int(storage))
        return DLK_NONE;
    for (dlk_ref at = value; at != DLK_NONE; at = prog->nodes[at].a) {
        const dlk_pnode *node = &prog->nodes[at];
        if (node->kind == storage)
            return dlk_prog_decode(prog, dtype, at) == value ? at : DLK_NONE;
        if (node->op != DLK_PROG_PRIM)
            return DLK_NONE;
    }
    return DLK_NONE;
}

dlk_ref dlk_prog_decode(dlk_prog *prog, int dtype, dlk_ref word)
{
    const dlk_dtype_info *info = &dlk_dtypes[dtype];
    if (info->class_ == DLK_CLASS_BOOL)
        return encode_bool(prog, word);
    if (info->storage == info->compute)
        return word;
    if (dtype == DLK_DTYPE_F16)
        return dlk_prog_convert(prog, DLK_PRIM_HTOF, DLK_F32, word);
    const format f = format_of(dtype);
    return f.rebias == 0 ? decode_upper_half(prog, word) : decode_small(prog, &f, word);
}

dlk_ref dlk_prog_encode(dlk_prog *prog, int dtype, dlk_ref value, bool is_unsigned, bool saturate)
{
    switch ((dlk_dtype_class)dlk_dtypes[dtype].class_) {
    case DLK_CLASS_BOOL:
        return dlk_prog_convert(prog, DLK_PRIM_ZEXT, DLK_I8, encode_bool(prog, value));
    case DLK_CLASS_INT:
    case DLK_CLASS_UINT:
        return encode_int(prog, dtype, value, is_unsigned);
    case DLK_CLASS_FLOAT:
    case DLK_CLASS_COMPLEX:
        break;
    }
    const dlk_ref word = decoded_from(prog, dtype, value);
    return word != DLK_NONE ? word : encode_float(prog, dtype, value, is_unsigned, saturate);
}
