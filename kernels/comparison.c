/* Comparisons are exact for every pair of real types: int64 2^53 + 1 is not float64 2^53, int64 -1 is less than uint64 0,
 * and a scalar that no int8 can be is simply greater or less than all of them. */
#include "kernels/eval.h"

#define BIT(class) (1u << DLK_CLASS_##class)
#define INTEGERS   (BIT(INT) | BIT(UINT))

/* Everything follows from two questions. */
typedef struct order {
    dlk_ref less, equal; /* a < b, a == b: both false when there is no order (NaN) */
    dlk_ref ordered;     /* DLK_NONE: always */
} order;

static dlk_ref prim2(dlk_eval *eval, dlk_prim prim, dlk_ref a, dlk_ref b)
{
    return dlk_prog_prim(eval->prog, prim, a, b, DLK_NONE);
}

static dlk_ref both(dlk_eval *eval, dlk_ref a, dlk_ref b)
{
    return prim2(eval, DLK_PRIM_AND, a, b);
}

static dlk_ref either(dlk_eval *eval, dlk_ref a, dlk_ref b)
{
    return prim2(eval, DLK_PRIM_OR, a, b);
}

static dlk_ref negation(dlk_eval *eval, dlk_ref a)
{
    return dlk_prog_prim(eval->prog, DLK_PRIM_NOT, a, DLK_NONE, DLK_NONE);
}

static dlk_ref constant(dlk_eval *eval, dlk_kind kind, uint64_t bits)
{
    return dlk_prog_const(eval->prog, kind, bits);
}

static bool is_integer(const dlk_value *value)
{
    return value->kind == DLK_VALUE_DATA && (dlk_class_bit(value->dtype) & INTEGERS);
}

static bool is_wide_integer(const dlk_value *value)
{
    return is_integer(value) && dlk_dtypes[value->dtype].bits == 64;
}

/* ---- One type ---------------------------------------------------------------------------------------------------------------- */

static dlk_value compare_same(dlk_eval *eval, dlk_sign sign, const dlk_value *x, const dlk_value *y)
{
    const dlk_ref a = dlk_value_part(eval, x, 0), b = dlk_value_part(eval, y, 0);
    static const uint8_t prims[3][4] = {/* eq, ne, lt, le */
                                        {DLK_PRIM_EQ, DLK_PRIM_NE, DLK_PRIM_SLT, DLK_PRIM_SLE},
                                        {DLK_PRIM_EQ, DLK_PRIM_NE, DLK_PRIM_ULT, DLK_PRIM_ULE},
                                        {DLK_PRIM_FEQ, DLK_PRIM_FNE, DLK_PRIM_FLT, DLK_PRIM_FLE}};
    const dlk_dtype_class class_ = dlk_dtypes[x->dtype].class_;
    const int row = class_ == DLK_CLASS_FLOAT ? 2 : class_ == DLK_CLASS_INT ? 0 : 1;
    if (sign == DLK_SIGN_GT || sign == DLK_SIGN_GE)
        return dlk_value_bool(prim2(eval, prims[row][sign - DLK_SIGN_GT + 2], b, a));
    return dlk_value_bool(prim2(eval, prims[row][sign - DLK_SIGN_EQ], a, b));
}

static dlk_value compare_bools(dlk_eval *eval, dlk_sign sign, dlk_ref a, dlk_ref b)
{
    switch (sign) {
    case DLK_SIGN_EQ:
        return dlk_value_bool(prim2(eval, DLK_PRIM_EQ, a, b));
    case DLK_SIGN_NE:
        return dlk_value_bool(prim2(eval, DLK_PRIM_NE, a, b));
    case DLK_SIGN_LT:
        return dlk_value_bool(both(eval, negation(eval, a), b));
    case DLK_SIGN_LE:
        return dlk_value_bool(either(eval, negation(eval, a), b));
    case DLK_SIGN_GT:
        return dlk_value_bool(both(eval, a, negation(eval, b)));
    default:
        return dlk_value_bool(either(eval, a, negation(eval, b)));
    }
}

static dlk_value compare_complex(dlk_eval *eval, const dlk_expr *at, dlk_sign sign, const dlk_value *a,
                                 const dlk_value *b)
{
    if (sign != DLK_SIGN_EQ && sign != DLK_SIGN_NE)
        dlk_eval_fail(eval, at, DLK_ERR_DTYPE, "'%s' found %s, expected real numbers: complex numbers have no order",
                      dlk_sign_text(sign), dlk_dtypes[a->dtype].name);
    const dlk_ref is_equal = both(eval, prim2(eval, DLK_PRIM_FEQ, a->part[0], b->part[0]),
                                  prim2(eval, DLK_PRIM_FEQ, a->part[1], b->part[1]));
    return dlk_value_bool(sign == DLK_SIGN_EQ ? is_equal : negation(eval, is_equal));
}

/* ---- Types without a common one ------------------------------------------------------------------------------------------------ */

static dlk_value from_order(dlk_eval *eval, dlk_sign sign, order o)
{
    const dlk_ref at_most = either(eval, o.less, o.equal);
    dlk_ref result;
    switch (sign) {
    case DLK_SIGN_EQ:
        result = o.equal;
        break;
    case DLK_SIGN_NE:
        result = negation(eval, o.equal);
        break;
    case DLK_SIGN_LT:
        result = o.less;
        break;
    case DLK_SIGN_LE:
        result = at_most;
        break;
    default: /* not below, or not at most: and with NaN neither */
        result = negation(eval, sign == DLK_SIGN_GT ? at_most : o.less);
        if (o.ordered != DLK_NONE)
            result = both(eval, result, o.ordered);
    }
    return dlk_value_bool(result);
}

static dlk_sign mirrored(dlk_sign sign)
{
    switch (sign) {
    case DLK_SIGN_LT:
        return DLK_SIGN_GT;
    case DLK_SIGN_LE:
        return DLK_SIGN_GE;
    case DLK_SIGN_GT:
        return DLK_SIGN_LT;
    case DLK_SIGN_GE:
        return DLK_SIGN_LE;
    default:
        return sign;
    }
}

/* int64 a, uint64 b: bits compared as unsigned where a is not negative. */
static order order_of_signs(dlk_eval *eval, dlk_ref a, dlk_ref b)
{
    const dlk_ref is_negative = prim2(eval, DLK_PRIM_SLT, a, constant(eval, DLK_I64, 0));
    return (order){.less = either(eval, is_negative, prim2(eval, DLK_PRIM_ULT, a, b)),
                   .equal = both(eval, negation(eval, is_negative), prim2(eval, DLK_PRIM_EQ, a, b)),
                   .ordered = DLK_NONE};
}

/* 64-bit integer i, f64 f. Where f lies in the integer's range its integer part t is exact: i < f where i < t, or i == t
 * and f has a fraction above t. */
static order order_of_float(dlk_eval *eval, dlk_ref i, dlk_ref f, bool is_unsigned)
{
    dlk_prog *prog = eval->prog;
    const uint64_t two_to_63 = 0x43e0000000000000ull, two_to_64 = 0x43f0000000000000ull, sign = 1ull << 63;
    const dlk_ref end = constant(eval, DLK_F64, is_unsigned ? two_to_64 : two_to_63);
    const dlk_ref start = constant(eval, DLK_F64, is_unsigned ? 0 : two_to_63 | sign);
    const dlk_ref is_above = prim2(eval, DLK_PRIM_FLE, end, f), is_below = prim2(eval, DLK_PRIM_FLT, f, start);
    const dlk_ref ordered = prim2(eval, DLK_PRIM_FEQ, f, f);
    const dlk_ref t = dlk_prog_convert(prog, is_unsigned ? DLK_PRIM_FTOUI : DLK_PRIM_FTOSI, DLK_I64, f);
    const dlk_ref whole = dlk_prog_prim(prog, DLK_PRIM_TRUNC, f, DLK_NONE, DLK_NONE);
    const dlk_ref same = prim2(eval, DLK_PRIM_EQ, i, t);
    const dlk_ref less = either(eval, prim2(eval, is_unsigned ? DLK_PRIM_ULT : DLK_PRIM_SLT, i, t),
                                both(eval, same, prim2(eval, DLK_PRIM_FLT, whole, f)));
    const dlk_ref inside = both(eval, ordered, negation(eval, either(eval, is_above, is_below)));
    return (order){.less = either(eval, is_above, both(eval, inside, less)),
                   .equal = both(eval, inside, both(eval, same, prim2(eval, DLK_PRIM_FEQ, whole, f))),
                   .ordered = ordered};
}

static dlk_value compare_with_float(dlk_eval *eval, const dlk_expr *at, dlk_sign sign, const dlk_value *integer,
                                    const dlk_value *floating)
{
    const dlk_value f = dlk_value_convert(eval, at, *floating, DLK_DTYPE_F64);
    const bool is_unsigned = dlk_dtypes[integer->dtype].class_ == DLK_CLASS_UINT;
    return from_order(eval, sign, order_of_float(eval, integer->part[0], f.part[0], is_unsigned));
}

/* A narrow array with a 64-bit scalar: the scalar's part in the array's type, and whether it lies above or below all of
 * it, which is known once for the whole launch. */
static dlk_value compare_with_scalar(dlk_eval *eval, dlk_sign sign, const dlk_value *array, dlk_ref scalar)
{
    const dlk_dtype_info *info = &dlk_dtypes[array->dtype];
    const bool is_signed = info->class_ == DLK_CLASS_INT;
    const uint64_t most = UINT64_MAX >> (64 - info->bits + is_signed), least = is_signed ? ~most : 0;
    const dlk_ref is_above = prim2(eval, DLK_PRIM_SLT, constant(eval, DLK_I64, most), scalar);
    const dlk_ref is_below = prim2(eval, DLK_PRIM_SLT, scalar, constant(eval, DLK_I64, least));
    const dlk_ref inside = negation(eval, either(eval, is_above, is_below));
    const dlk_ref narrow = dlk_prog_convert(eval->prog, DLK_PRIM_ITRUNC, info->compute, scalar);
    const dlk_ref less = prim2(eval, is_signed ? DLK_PRIM_SLT : DLK_PRIM_ULT, array->part[0], narrow);
    return from_order(eval, sign,
                      (order){.less = either(eval, is_above, both(eval, inside, less)),
                              .equal = both(eval, inside, prim2(eval, DLK_PRIM_EQ, array->part[0], narrow)),
                              .ordered = DLK_NONE});
}

/* a is the array, b the weak integer. */
static dlk_value compare_weak(dlk_eval *eval, const dlk_expr *at, dlk_sign sign, const dlk_value *a, const dlk_value *b)
{
    if (a->dtype == b->dtype)
        return compare_same(eval, sign, a, b);
    if (b->dtype == DLK_DTYPE_U64) { /* weak, and beyond int64 */
        const dlk_value wide = dlk_value_convert(eval, at, *a, is_wide_integer(a) ? a->dtype : DLK_DTYPE_I64);
        return from_order(eval, sign, order_of_signs(eval, wide.part[0], b->part[0]));
    }
    if (a->dtype == DLK_DTYPE_U64)
        return from_order(eval, mirrored(sign), order_of_signs(eval, b->part[0], a->part[0]));
    return compare_with_scalar(eval, sign, a, b->part[0]);
}

/* ---- Literals -------------------------------------------------------------------------------------------------------------------- */

static dlk_value compare_literals(dlk_eval *eval, dlk_sign sign, const dlk_literal *a, const dlk_literal *b)
{
    const int c = dlk_rational_compare(eval->arena, a->value, b->value);
    const bool results[] = {c == 0, c != 0, c<0, c <= 0, c> 0, c >= 0};
    return dlk_value_bool(dlk_prog_const(eval->prog, DLK_P1, results[sign - DLK_SIGN_EQ]));
}

static bool is_rational(const dlk_value *value)
{
    return value->kind == DLK_VALUE_LITERAL && value->literal->kind == DLK_LITERAL_RATIONAL;
}

dlk_value dlk_compare(dlk_eval *eval, const dlk_expr *at, dlk_sign sign, dlk_value a, dlk_value b)
{
    if (is_rational(&a) && is_rational(&b))
        return compare_literals(eval, sign, a.literal, b.literal);
    const char *what = dlk_sign_text(sign);
    dlk_value x = dlk_value_materialise(eval, at, a), y = dlk_value_materialise(eval, at, b);
    if (is_integer(&x) && is_integer(&y)) {
        if (y.is_weak && !x.is_weak)
            return compare_weak(eval, at, sign, &x, &y);
        if (x.is_weak && !y.is_weak)
            return compare_weak(eval, at, mirrored(sign), &y, &x);
        if (dlk_promote(x.dtype, y.dtype) == DLK_DTYPE_NONE) { /* int64 with uint64 */
            const bool is_swapped = x.dtype == DLK_DTYPE_U64 || dlk_dtypes[x.dtype].class_ == DLK_CLASS_UINT;
            dlk_value i = is_swapped ? y : x, u = is_swapped ? x : y;
            i = dlk_value_convert(eval, at, i, DLK_DTYPE_I64);
            return from_order(eval, is_swapped ? mirrored(sign) : sign, order_of_signs(eval, i.part[0], u.part[0]));
        }
    }
    if (is_wide_integer(&x) && !x.is_weak && y.kind == DLK_VALUE_DATA && dlk_dtypes[y.dtype].class_ == DLK_CLASS_FLOAT)
        return compare_with_float(eval, at, sign, &x, &y);
    if (is_wide_integer(&y) && !y.is_weak && x.kind == DLK_VALUE_DATA && dlk_dtypes[x.dtype].class_ == DLK_CLASS_FLOAT)
        return compare_with_float(eval, at, mirrored(sign), &y, &x);
    dlk_value_unify(eval, at, &a, &b, what);
    if (a.kind == DLK_VALUE_TUPLE)
        dlk_eval_fail(eval, at, DLK_ERR_DTYPE, "'%s' found tuples, expected numbers", what);
    if (dlk_dtypes[a.dtype].class_ == DLK_CLASS_BOOL)
        return compare_bools(eval, sign, a.part[0], b.part[0]);
    if (dlk_dtypes[a.dtype].class_ == DLK_CLASS_COMPLEX)
        return compare_complex(eval, at, sign, &a, &b);
    return compare_same(eval, sign, &a, &b);
}
