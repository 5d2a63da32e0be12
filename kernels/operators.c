/* Operators and primitives by type. Complex numbers end here: what follows sees their parts. */
#include "kernels/eval.h"

#include <string.h>

#define BIT(class) (1u << DLK_CLASS_##class)
#define INTEGERS   (BIT(INT) | BIT(UINT))

static dlk_dtype_class class_of(const dlk_value *value)
{
    return dlk_dtypes[value->dtype].class_;
}

static dlk_ref prim2(dlk_eval *eval, dlk_prim prim, dlk_ref a, dlk_ref b)
{
    return dlk_prog_prim(eval->prog, prim, a, b, DLK_NONE);
}

static dlk_ref prim1(dlk_eval *eval, dlk_prim prim, dlk_ref a)
{
    return dlk_prog_prim(eval->prog, prim, a, DLK_NONE, DLK_NONE);
}

static dlk_ref zero_like(dlk_eval *eval, dlk_ref ref)
{
    return dlk_prog_const(eval->prog, eval->prog->nodes[ref].kind, 0);
}

/* ---- Complex ------------------------------------------------------------------------------------------------------------- */

typedef struct complex_ref {
    dlk_ref re, im;
} complex_ref;

static complex_ref complex_multiply(dlk_eval *eval, complex_ref a, complex_ref b)
{
    return (complex_ref){
        prim2(eval, DLK_PRIM_FSUB, prim2(eval, DLK_PRIM_FMUL, a.re, b.re), prim2(eval, DLK_PRIM_FMUL, a.im, b.im)),
        prim2(eval, DLK_PRIM_FADD, prim2(eval, DLK_PRIM_FMUL, a.re, b.im), prim2(eval, DLK_PRIM_FMUL, a.im, b.re))};
}

/* Smith's way: divide by the larger part of the divisor first, so that nothing overflows that need not. `is_re` says which
 * part that is; the roles of the parts are exchanged where it is the imaginary one. */
static complex_ref complex_divide(dlk_eval *eval, complex_ref a, complex_ref b)
{
    dlk_prog *prog = eval->prog;
    const dlk_ref is_re = prim2(eval, DLK_PRIM_FLE, prim1(eval, DLK_PRIM_FABS, b.im), prim1(eval, DLK_PRIM_FABS, b.re));
    const dlk_ref large = dlk_prog_prim(prog, DLK_PRIM_SELECT, is_re, b.re, b.im);
    const dlk_ref small = dlk_prog_prim(prog, DLK_PRIM_SELECT, is_re, b.im, b.re);
    const dlk_ref x = dlk_prog_prim(prog, DLK_PRIM_SELECT, is_re, a.re, a.im);
    const dlk_ref y = dlk_prog_prim(prog, DLK_PRIM_SELECT, is_re, a.im, a.re);
    const dlk_ref zero = zero_like(eval, large), is_zero = prim2(eval, DLK_PRIM_FEQ, large, zero);
    const dlk_ref ratio = dlk_prog_prim(prog, DLK_PRIM_SELECT, is_zero, zero, prim2(eval, DLK_PRIM_FDIV, small, large));
    const dlk_ref scale = dlk_prog_prim(prog, DLK_PRIM_SELECT, is_zero, zero,
                                        prim2(eval, DLK_PRIM_FADD, large, prim2(eval, DLK_PRIM_FMUL, small, ratio)));
    const dlk_ref re = prim2(eval, DLK_PRIM_FADD, x, prim2(eval, DLK_PRIM_FMUL, y, ratio));
    const dlk_ref im = prim2(eval, DLK_PRIM_FSUB, y, prim2(eval, DLK_PRIM_FMUL, x, ratio));
    const dlk_ref quotient = prim2(eval, DLK_PRIM_FDIV, im, scale);
    return (complex_ref){prim2(eval, DLK_PRIM_FDIV, re, scale),
                         dlk_prog_prim(prog, DLK_PRIM_SELECT, is_re, quotient, prim1(eval, DLK_PRIM_FNEG, quotient))};
}

static dlk_value complex_arithmetic(dlk_eval *eval, dlk_sign sign, const dlk_value *x, const dlk_value *y)
{
    const complex_ref a = {x->part[0], x->part[1]}, b = {y->part[0], y->part[1]};
    complex_ref result;
    if (sign == DLK_SIGN_MUL)
        result = complex_multiply(eval, a, b);
    else if (sign == DLK_SIGN_DIV)
        result = complex_divide(eval, a, b);
    else
        result = (complex_ref){prim2(eval, sign == DLK_SIGN_ADD ? DLK_PRIM_FADD : DLK_PRIM_FSUB, a.re, b.re),
                               prim2(eval, sign == DLK_SIGN_ADD ? DLK_PRIM_FADD : DLK_PRIM_FSUB, a.im, b.im)};
    return dlk_value_data(x->dtype, result.re, result.im);
}

/* ---- Arithmetic ---------------------------------------------------------------------------------------------------------- */

static _Noreturn void fail_operand(dlk_eval *eval, const dlk_expr *at, const char *what, const dlk_value *value,
                                   const char *expected)
{
    char found[64];
    dlk_eval_fail(eval, at, DLK_ERR_DTYPE, "'%s' found %s, expected %s", what, dlk_value_describe(value, found),
                  expected);
}

/* Both in their common type; whether the result is weak. */
static bool to_common(dlk_eval *eval, const dlk_expr *at, dlk_value *a, dlk_value *b, const char *what)
{
    dlk_value_unify(eval, at, a, b, what);
    if (a->kind == DLK_VALUE_TUPLE)
        fail_operand(eval, at, what, a, "a number");
    return a->is_weak;
}

/* Literals stay exact; false where the operator is not one that keeps them so. */
static bool fold_literals(dlk_eval *eval, const dlk_expr *at, dlk_sign sign, const dlk_literal *a, const dlk_literal *b,
                          dlk_value *out)
{
    if (a->kind != DLK_LITERAL_RATIONAL || b->kind != DLK_LITERAL_RATIONAL)
        return false;
    dlk_literal *result = DLK_NEW(eval->arena, dlk_literal);
    result->is_float = a->is_float || b->is_float || sign == DLK_SIGN_DIV;
    bool is_done;
    if (sign == DLK_SIGN_ADD)
        is_done = dlk_rational_add(eval->arena, a->value, b->value, &result->value);
    else if (sign == DLK_SIGN_SUB)
        is_done = dlk_rational_add(eval->arena, a->value, dlk_rational_negate(b->value), &result->value);
    else if (sign == DLK_SIGN_MUL)
        is_done = dlk_rational_multiply(eval->arena, a->value, b->value, &result->value);
    else if (sign == DLK_SIGN_DIV)
        is_done = dlk_rational_divide(eval->arena, a->value, b->value, &result->value);
    else
        return false;
    if (!is_done)
        dlk_eval_fail(eval, at, DLK_ERR_SYNTAX, "'%s' of these numbers %s", dlk_sign_text(sign),
                      sign == DLK_SIGN_DIV && dlk_rational_is_zero(b->value) ? "divides by zero"
                                                                             : "needs more than 8192 bits");
    *out = (dlk_value){.kind = DLK_VALUE_LITERAL, .literal = result};
    return true;
}

static dlk_value bool_arithmetic(dlk_eval *eval, const dlk_expr *at, dlk_sign sign, const dlk_value *a,
                                 const dlk_value *b)
{
    if (sign == DLK_SIGN_SUB)
        fail_operand(eval, at, "-", a, "a number; the difference of bools is a ^ b");
    return dlk_value_bool(prim2(eval, sign == DLK_SIGN_ADD ? DLK_PRIM_OR : DLK_PRIM_AND, a->part[0], b->part[0]));
}

static dlk_value arithmetic(dlk_eval *eval, const dlk_expr *at, dlk_sign sign, dlk_value a, dlk_value b)
{
    static const uint8_t prims[2][4] = {{DLK_PRIM_ADD, DLK_PRIM_SUB, DLK_PRIM_MUL, DLK_PRIM_SDIV},
                                        {DLK_PRIM_FADD, DLK_PRIM_FSUB, DLK_PRIM_FMUL, DLK_PRIM_FDIV}};
    const bool is_weak = to_common(eval, at, &a, &b, dlk_sign_text(sign));
    if (sign == DLK_SIGN_DIV && (dlk_class_bit(a.dtype) & (INTEGERS | BIT(BOOL)))) {
        a = dlk_value_convert(eval, at, a, DLK_DTYPE_F64);
        b = dlk_value_convert(eval, at, b, DLK_DTYPE_F64);
    }
    dlk_value result;
    if (class_of(&a) == DLK_CLASS_BOOL)
        result = bool_arithmetic(eval, at, sign, &a, &b);
    else if (class_of(&a) == DLK_CLASS_COMPLEX)
        result = complex_arithmetic(eval, sign, &a, &b);
    else
        result = dlk_value_data(a.dtype,
                                prim2(eval, prims[class_of(&a) == DLK_CLASS_FLOAT][sign - DLK_SIGN_ADD],
                                      dlk_value_part(eval, &a, 0), dlk_value_part(eval, &b, 0)),
                                DLK_NONE);
    result.is_weak = is_weak;
    return result;
}

/* Python's sign, the divisor's; x % 0 = 0. */
static dlk_ref int_remainder(dlk_eval *eval, dlk_ref a, dlk_ref b)
{
    const dlk_ref rest = prim2(eval, DLK_PRIM_SREM, a, b), zero = zero_like(eval, a);
    const dlk_ref differs = prim2(eval, DLK_PRIM_SLT, prim2(eval, DLK_PRIM_XOR, rest, b), zero);
    const dlk_ref is_off = prim2(eval, DLK_PRIM_AND, differs, prim2(eval, DLK_PRIM_NE, rest, zero));
    return dlk_prog_prim(eval->prog, DLK_PRIM_SELECT, is_off, prim2(eval, DLK_PRIM_ADD, rest, b), rest);
}

static dlk_value remainder_of(dlk_eval *eval, const dlk_expr *at, dlk_value a, dlk_value b)
{
    const dlk_value given[2] = {a, b};
    const bool is_weak = to_common(eval, at, &a, &b, "%");
    dlk_value result;
    if (class_of(&a) == DLK_CLASS_FLOAT)
        result = dlk_eval_call_library(eval, at, "remainder", given, 2);
    else if (class_of(&a) == DLK_CLASS_INT)
        result = dlk_value_data(a.dtype, int_remainder(eval, a.part[0], b.part[0]), DLK_NONE);
    else if (class_of(&a) == DLK_CLASS_UINT)
        result = dlk_value_data(a.dtype, prim2(eval, DLK_PRIM_UREM, a.part[0], b.part[0]), DLK_NONE);
    else
        fail_operand(eval, at, "%", &a, "real numbers");
    result.is_weak = is_weak;
    return result;
}

/* ---- Bits ---------------------------------------------------------------------------------------------------------------- */

static dlk_value bitwise(dlk_eval *eval, const dlk_expr *at, dlk_sign sign, dlk_value a, dlk_value b)
{
    const bool is_weak = to_common(eval, at, &a, &b, dlk_sign_text(sign));
    const bool is_shift = sign == DLK_SIGN_SHL || sign == DLK_SIGN_SHR;
    if (!(dlk_class_bit(a.dtype) & (is_shift ? INTEGERS : INTEGERS | BIT(BOOL))))
        fail_operand(eval, at, dlk_sign_text(sign), &a, is_shift ? "integers" : "integers or bools");
    const dlk_prim prim = sign == DLK_SIGN_BIT_AND        ? DLK_PRIM_AND
                          : sign == DLK_SIGN_BIT_OR       ? DLK_PRIM_OR
                          : sign == DLK_SIGN_BIT_XOR      ? DLK_PRIM_XOR
                          : sign == DLK_SIGN_SHL          ? DLK_PRIM_SHL
                          : class_of(&a) == DLK_CLASS_INT ? DLK_PRIM_ASHR
                                                          : DLK_PRIM_LSHR;
    dlk_value result = dlk_value_data(a.dtype, prim2(eval, prim, a.part[0], b.part[0]), DLK_NONE);
    result.is_weak = is_weak;
    return result;
}

static dlk_ref predicate_of(dlk_eval *eval, const dlk_expr *at, const dlk_value *value, const char *what)
{
    if (value->kind != DLK_VALUE_DATA || value->dtype != DLK_DTYPE_BOOL)
        fail_operand(eval, at, what, value, "bool");
    return value->part[0];
}

static dlk_value logical(dlk_eval *eval, const dlk_expr *at, dlk_sign sign, const dlk_value *a, const dlk_value *b)
{
    const dlk_ref p = predicate_of(eval, at, a, dlk_sign_text(sign));
    const dlk_ref q = predicate_of(eval, at, b, dlk_sign_text(sign));
    return dlk_value_bool(prim2(eval, sign == DLK_SIGN_AND ? DLK_PRIM_AND : DLK_PRIM_OR, p, q));
}

/* ---- Unary --------------------------------------------------------------------------------------------------------------- */

static dlk_value negate_literal(dlk_eval *eval, const dlk_literal *literal)
{
    dlk_literal *result = dlk_arena_copy(eval->arena, literal, sizeof *literal);
    result->value = dlk_rational_negate(result->value);
    return (dlk_value){.kind = DLK_VALUE_LITERAL, .literal = result};
}

static dlk_value negate(dlk_eval *eval, const dlk_expr *at, dlk_value a)
{
    if (a.kind == DLK_VALUE_LITERAL)
        return negate_literal(eval, a.literal);
    if (a.kind == DLK_VALUE_TUPLE || class_of(&a) == DLK_CLASS_BOOL)
        fail_operand(eval, at, "-", &a, "a number; the negation of a bool is !x");
    dlk_value result = a;
    if (dlk_class_bit(a.dtype) & INTEGERS) {
        result.part[0] = prim2(eval, DLK_PRIM_SUB, zero_like(eval, a.part[0]), a.part[0]);
        return result;
    }
    for (int i = 0; i < 2; i++)
        if (a.part[i] != DLK_NONE)
            result.part[i] = prim1(eval, DLK_PRIM_FNEG, dlk_value_part(eval, &a, i));
    result.source = result.dtype;
    return result;
}

/* ---- Primitives ------------------------------------------------------------------------------------------------------------ */

/* The 16-bit float conversions name their types; the other typed conversions are functions named after types. */
static bool is_callable(dlk_prim prim)
{
    return dlk_prims[prim].result != 'T' || prim == DLK_PRIM_HTOF || prim == DLK_PRIM_FTOH;
}

static dlk_class_set classes_of_prim(dlk_prim prim)
{
    switch (dlk_prims[prim].args) {
    case 'F':
        return BIT(FLOAT);
    case 'I':
        return INTEGERS;
    case 'P':
        return BIT(BOOL);
    default:
        return INTEGERS | BIT(BOOL);
    }
}

static dlk_value call_half(dlk_eval *eval, dlk_prim prim, const dlk_value *a)
{
    const bool is_decode = prim == DLK_PRIM_HTOF;
    return dlk_value_data(is_decode ? DLK_DTYPE_F32 : DLK_DTYPE_U16,
                          dlk_prog_convert(eval->prog, prim, is_decode ? DLK_F32 : DLK_I16, dlk_value_part(eval, a, 0)),
                          DLK_NONE);
}

static void check_prim_type(dlk_eval *eval, const dlk_expr *at, dlk_prim prim, const dlk_value *a)
{
    static const char *const expected[] = {"floats", "integers", "integers or bools"};
    const char letter = dlk_prims[prim].args;
    if (!(classes_of_prim(prim) & dlk_class_bit(a->dtype)))
        fail_operand(eval, at, dlk_prims[prim].name, a, expected[letter == 'F' ? 0 : letter == 'I' ? 1 : 2]);
    const dlk_kind kind = dlk_dtypes[a->dtype].compute;
    if ((prim == DLK_PRIM_HTOF && kind != DLK_I16) || (prim == DLK_PRIM_FTOH && kind != DLK_F32))
        fail_operand(eval, at, dlk_prims[prim].name, a, prim == DLK_PRIM_HTOF ? "uint16" : "float32");
}

/* ---- Exported ---------------------------------------------------------------------------------------------------------------- */

dlk_value dlk_operate(dlk_eval *eval, const dlk_expr *at, dlk_sign sign, dlk_value a, dlk_value b)
{
    dlk_value folded;
    if (a.kind == DLK_VALUE_LITERAL && b.kind == DLK_VALUE_LITERAL &&
        fold_literals(eval, at, sign, a.literal, b.literal, &folded))
        return folded;
    switch (sign) {
    case DLK_SIGN_OR:
    case DLK_SIGN_AND:
        return logical(eval, at, sign, &a, &b);
    case DLK_SIGN_EQ:
    case DLK_SIGN_NE:
    case DLK_SIGN_LT:
    case DLK_SIGN_LE:
    case DLK_SIGN_GT:
    case DLK_SIGN_GE:
        return dlk_compare(eval, at, sign, a, b);
    case DLK_SIGN_BIT_OR:
    case DLK_SIGN_BIT_XOR:
    case DLK_SIGN_BIT_AND:
    case DLK_SIGN_SHL:
    case DLK_SIGN_SHR:
        return bitwise(eval, at, sign, a, b);
    case DLK_SIGN_REM:
        return remainder_of(eval, at, a, b);
    default:
        return arithmetic(eval, at, sign, a, b);
    }
}

dlk_value dlk_operate_unary(dlk_eval *eval, const dlk_expr *at, dlk_sign sign, dlk_value a)
{
    if (sign == DLK_SIGN_NEGATE)
        return negate(eval, at, a);
    if (sign == DLK_SIGN_NOT)
        return dlk_value_bool(prim1(eval, DLK_PRIM_NOT, predicate_of(eval, at, &a, "!")));
    a = dlk_value_materialise(eval, at, a);
    if (a.kind == DLK_VALUE_TUPLE || !(dlk_class_bit(a.dtype) & (INTEGERS | BIT(BOOL))))
        fail_operand(eval, at, "~", &a, "an integer or a bool");
    a.part[0] = prim1(eval, DLK_PRIM_NOT, a.part[0]);
    return a;
}

static dlk_value select_leaf(dlk_eval *eval, dlk_ref p, const dlk_value *a, const dlk_value *b)
{
    dlk_value result = dlk_value_data(a->dtype, DLK_NONE, DLK_NONE);
    for (int i = 0; i < dlk_dtypes[a->dtype].parts; i++)
        result.part[i] =
            dlk_prog_prim(eval->prog, DLK_PRIM_SELECT, p, dlk_value_part(eval, a, i), dlk_value_part(eval, b, i));
    result.is_weak = a->is_weak;
    return result;
}

dlk_value dlk_select(dlk_eval *eval, const dlk_expr *at, dlk_value p, dlk_value a, dlk_value b)
{
    dlk_value left[DLK_TUPLE_MAX], right[DLK_TUPLE_MAX];
    const dlk_ref predicate = predicate_of(eval, at, &p, "select");
    dlk_value_unify(eval, at, &a, &b, "select");
    const int n = dlk_value_flatten(eval, at, &a, left, DLK_TUPLE_MAX);
    dlk_value_flatten(eval, at, &b, right, DLK_TUPLE_MAX);
    for (int i = 0; i < n; i++)
        left[i] = select_leaf(eval, predicate, &left[i], &right[i]);
    const dlk_value *leaves = left;
    return dlk_value_rebuild(eval, &a, &leaves);
}

int dlk_prim_find(const char *name, int n_args)
{
    for (int i = 0; i < DLK_PRIM_COUNT; i++)
        if (dlk_prims[i].arity == n_args && is_callable(i) && strcmp(dlk_prims[i].name, name) == 0)
            return i;
    return -1;
}

dlk_value dlk_call_prim(dlk_eval *eval, const dlk_expr *at, dlk_prim prim, const dlk_value *args)
{
    const dlk_prim_info *info = &dlk_prims[prim];
    if (prim == DLK_PRIM_SELECT)
        return dlk_select(eval, at, args[0], args[1], args[2]);
    dlk_arg_type common = dlk_value_common(eval, at, args, info->arity, info->name);
    if (info->args == 'F' && common.is_weak && (dlk_class_bit(common.dtype) & (INTEGERS | BIT(BOOL))))
        common.dtype = DLK_DTYPE_F64;
    dlk_value value[3];
    dlk_ref ref[3] = {DLK_NONE, DLK_NONE, DLK_NONE};
    for (int i = 0; i < info->arity; i++)
        value[i] = dlk_value_convert(eval, at, args[i], common.dtype);
    check_prim_type(eval, at, prim, &value[0]);
    if (info->result == 'T')
        return call_half(eval, prim, &value[0]);
    for (int i = 0; i < info->arity; i++)
        ref[i] = dlk_value_part(eval, &value[i], 0);
    const dlk_ref result = dlk_prog_prim(eval->prog, prim, ref[0], ref[1], ref[2]);
    if (info->result == 'P')
        return dlk_value_bool(result);
    value[0] = dlk_value_data(common.dtype, result, DLK_NONE);
    value[0].is_weak = common.is_weak;
    return value[0];
}
