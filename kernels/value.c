/* Symbolic values: their types, conversions between them, and tuples of them. */
#include "kernels/eval.h"

#include <stdio.h>
#include <string.h>

static bool is_narrow_float(dlk_dtype dtype)
{
    return dlk_dtypes[dtype].class_ == DLK_CLASS_FLOAT && dlk_dtypes[dtype].storage != dlk_dtypes[dtype].compute;
}

static bool is_unsigned(dlk_dtype dtype)
{
    return dlk_dtypes[dtype].class_ == DLK_CLASS_UINT || dlk_dtypes[dtype].class_ == DLK_CLASS_BOOL;
}

static bool is_class(dlk_dtype dtype, dlk_class_set set)
{
    return dlk_class_bit(dtype) & set;
}

#define INTEGERS ((1u << DLK_CLASS_INT) | (1u << DLK_CLASS_UINT))

/* ---- Literals ------------------------------------------------------------------------------------------------------------ */

static bool literal_fits(dlk_eval *eval, const dlk_literal *literal, dlk_dtype dtype, uint64_t *out)
{
    uint64_t magnitude;
    if (literal->is_float && literal->kind != DLK_LITERAL_RATIONAL)
        return false;
    if (!dlk_rational_to_u64(eval->arena, literal->value, &magnitude))
        return false;
    const bool is_negative = literal->value.is_negative && magnitude;
    const int bits = dlk_dtypes[dtype].bits;
    const bool is_signed = dlk_dtypes[dtype].class_ == DLK_CLASS_INT;
    const uint64_t most = UINT64_MAX >> (64 - bits + is_signed);
    *out = is_negative ? 0 - magnitude : magnitude;
    return is_negative ? is_signed && magnitude <= most + 1 : magnitude <= most;
}

static _Noreturn void fail_literal(dlk_eval *eval, const dlk_expr *at, const dlk_literal *literal, dlk_dtype dtype)
{
    uint64_t magnitude;
    if (literal->kind == DLK_LITERAL_RATIONAL && dlk_rational_to_u64(eval->arena, literal->value, &magnitude))
        dlk_eval_fail(eval, at, DLK_ERR_DTYPE, "the number %s%llu does not fit %s",
                      literal->value.is_negative ? "-" : "", (unsigned long long)magnitude, dlk_dtypes[dtype].name);
    dlk_eval_fail(eval, at, DLK_ERR_DTYPE, "a number that is no integer (or has more than 64 bits) meets %s",
                  dlk_dtypes[dtype].name);
}

static uint64_t float_bits(dlk_eval *eval, const dlk_literal *literal, dlk_kind kind)
{
    const bool is_f64 = kind == DLK_F64;
    const uint64_t sign = literal->value.is_negative ? is_f64 ? 1ull << 63 : 1ull << 31 : 0;
    if (literal->kind == DLK_LITERAL_INF)
        return sign | (is_f64 ? 0x7ff0000000000000ull : 0x7f800000ull);
    if (literal->kind == DLK_LITERAL_NAN)
        return sign | (is_f64 ? 0x7ff8000000000000ull : 0x7fc00000ull);
    dlk_rational value = literal->value;
    if (!literal->is_float && dlk_rational_is_zero(value)) /* an integer has no negative zero */
        value.is_negative = false;
    return is_f64 ? dlk_rational_to_f64(eval->arena, value) : dlk_rational_to_f32(eval->arena, value);
}

static dlk_value literal_to(dlk_eval *eval, const dlk_expr *at, const dlk_literal *literal, dlk_dtype dtype)
{
    const dlk_kind kind = dlk_dtypes[dtype].compute;
    uint64_t bits;
    if (dlk_dtypes[dtype].class_ == DLK_CLASS_BOOL) {
        const bool is_zero = literal->kind == DLK_LITERAL_RATIONAL && dlk_rational_is_zero(literal->value);
        return dlk_value_bool(dlk_prog_const(eval->prog, DLK_P1, !is_zero));
    }
    if (is_class(dtype, INTEGERS)) {
        if (!literal_fits(eval, literal, dtype, &bits))
            fail_literal(eval, at, literal, dtype);
        return dlk_value_data(dtype, dlk_prog_const(eval->prog, kind, bits), DLK_NONE);
    }
    const dlk_ref re = dlk_prog_const(eval->prog, kind, float_bits(eval, literal, kind));
    return dlk_value_data(dtype, re, dlk_dtypes[dtype].parts == 2 ? dlk_prog_const(eval->prog, kind, 0) : DLK_NONE);
}

/* ---- Data ------------------------------------------------------------------------------------------------------------------ */

/* A scalar of the launch that becomes an integer must fit it: the launch checks its value. */
static void note_fit(dlk_eval *eval, const dlk_value *value, dlk_dtype dtype)
{
    const dlk_pnode *node = &eval->prog->nodes[value->part[0]];
    if (value->is_weak && node->op == DLK_PROG_SCALAR && is_class(dtype, INTEGERS) && is_class(value->dtype, INTEGERS))
        eval->built->scalars[node->imm].fits |= 1u << dtype;
}

static dlk_ref part_to_bool(dlk_eval *eval, dlk_ref part)
{
    const dlk_kind kind = eval->prog->nodes[part].kind;
    if (kind == DLK_P1)
        return part;
    return dlk_prog_prim(eval->prog, dlk_kind_is_float(kind) ? DLK_PRIM_FNE : DLK_PRIM_NE, part,
                         dlk_prog_const(eval->prog, kind, 0), DLK_NONE);
}

static dlk_value data_to_bool(dlk_eval *eval, const dlk_value *value)
{
    dlk_ref p = part_to_bool(eval, value->part[0]);
    if (value->part[1] != DLK_NONE)
        p = dlk_prog_prim(eval->prog, DLK_PRIM_OR, p, part_to_bool(eval, value->part[1]), DLK_NONE);
    return dlk_value_bool(p);
}

static dlk_dtype real_of(dlk_dtype complex)
{
    return complex == DLK_DTYPE_C128 ? DLK_DTYPE_F64 : DLK_DTYPE_F32;
}

static dlk_value data_to_complex(dlk_eval *eval, const dlk_value *value, dlk_dtype dtype)
{
    const dlk_dtype real = real_of(dtype);
    dlk_ref part[2];
    for (int i = 0; i < 2; i++)
        part[i] = value->part[i] == DLK_NONE
                      ? dlk_prog_const(eval->prog, dlk_dtypes[real].compute, 0)
                      : dlk_prog_encode(eval->prog, real, value->part[i], is_unsigned(value->source), false);
    return dlk_value_data(dtype, part[0], part[1]);
}

static dlk_value data_to(dlk_eval *eval, const dlk_expr *at, dlk_value value, dlk_dtype dtype)
{
    note_fit(eval, &value, dtype);
    value.is_weak = false;
    if (value.dtype == dtype)
        return value;
    if (dlk_dtypes[dtype].class_ == DLK_CLASS_BOOL)
        return data_to_bool(eval, &value);
    if (dlk_dtypes[dtype].class_ == DLK_CLASS_COMPLEX)
        return data_to_complex(eval, &value, dtype);
    if (dlk_dtypes[value.dtype].class_ == DLK_CLASS_COMPLEX)
        dlk_eval_fail(eval, at, DLK_ERR_DTYPE, "%s cannot become %s; use real(x), imag(x) or abs(x)",
                      dlk_dtypes[value.dtype].name, dlk_dtypes[dtype].name);
    if (is_narrow_float(dtype)) { /* a label: `source` says what the part is */
        if (eval->prog->nodes[value.part[0]].kind == DLK_F32)
            value.source = dtype;
        value.dtype = dtype;
        return value;
    }
    return dlk_value_data(dtype, dlk_prog_encode(eval->prog, dtype, value.part[0], is_unsigned(value.source), false),
                          DLK_NONE);
}

/* ---- Common types ----------------------------------------------------------------------------------------------------------- */

static dlk_arg_type type_of(dlk_eval *eval, const dlk_expr *at, const dlk_value *value, const char *what)
{
    char found[64];
    if (value->kind == DLK_VALUE_TUPLE)
        dlk_eval_fail(eval, at, DLK_ERR_DTYPE, "%s: found %s, expected a number", what,
                      dlk_value_describe(value, found));
    const dlk_value data = dlk_value_materialise(eval, at, *value);
    return (dlk_arg_type){.dtype = data.dtype, .is_weak = data.is_weak};
}

static dlk_dtype join_types(dlk_eval *eval, const dlk_expr *at, dlk_arg_type a, dlk_arg_type b, const char *what)
{
    if (b.is_weak && !a.is_weak)
        return dlk_promote_weak(a.dtype, b.dtype);
    if (a.is_weak && !b.is_weak)
        return dlk_promote_weak(b.dtype, a.dtype);
    const bool are_integers = is_class(a.dtype, INTEGERS) && is_class(b.dtype, INTEGERS);
    if (a.is_weak && are_integers &&
        a.dtype != b.dtype) /* int64 and uint64: which one does not fit is seen at launch */
        return DLK_DTYPE_U64;
    const dlk_dtype dtype = dlk_promote(a.dtype, b.dtype);
    char why[200];
    if (dtype == DLK_DTYPE_NONE)
        dlk_eval_fail(eval, at, DLK_ERR_DTYPE, "%s: %s", what, dlk_promote_explain(a.dtype, b.dtype, why));
    return dtype;
}

dlk_arg_type dlk_value_common(dlk_eval *eval, const dlk_expr *at, const dlk_value *values, int n, const char *what)
{
    dlk_arg_type common = {.dtype = DLK_DTYPE_NONE, .is_weak = true};
    for (int pass = 0; pass < 2; pass++) /* strong ones first */
        for (int i = 0; i < n; i++) {
            const dlk_arg_type type = type_of(eval, at, &values[i], what);
            if (type.is_weak != (pass == 1))
                continue;
            if (common.dtype == DLK_DTYPE_NONE)
                common = type;
            else
                common.dtype = join_types(eval, at, common, type, what);
        }
    return common;
}

/* ---- Exported ---------------------------------------------------------------------------------------------------------------- */

dlk_value dlk_value_data(dlk_dtype dtype, dlk_ref re, dlk_ref im)
{
    return (dlk_value){.kind = DLK_VALUE_DATA, .dtype = dtype, .source = dtype, .part = {re, im}};
}

dlk_value dlk_value_bool(dlk_ref predicate)
{
    return dlk_value_data(DLK_DTYPE_BOOL, predicate, DLK_NONE);
}

dlk_value dlk_value_tuple(dlk_eval *eval, const dlk_value *items, int n)
{
    return (dlk_value){
        .kind = DLK_VALUE_TUPLE, .items = dlk_arena_copy(eval->arena, items, sizeof *items * (size_t)n), .n = n};
}

const char *dlk_value_describe(const dlk_value *value, char *out)
{
    if (value->kind == DLK_VALUE_LITERAL)
        snprintf(out, 64, "a number");
    else if (value->kind == DLK_VALUE_TUPLE)
        snprintf(out, 64, "a tuple of %d", value->n);
    else
        snprintf(out, 64, "%s%s", value->is_weak ? "a scalar of kind " : "", dlk_dtypes[value->dtype].name);
    return out;
}

dlk_value dlk_value_materialise(dlk_eval *eval, const dlk_expr *at, dlk_value value)
{
    if (value.kind != DLK_VALUE_LITERAL)
        return value;
    uint64_t bits;
    const dlk_literal *literal = value.literal;
    dlk_dtype dtype = DLK_DTYPE_F64;
    if (!literal->is_float)
        dtype = literal_fits(eval, literal, DLK_DTYPE_I64, &bits) ? DLK_DTYPE_I64 : DLK_DTYPE_U64;
    value = literal_to(eval, at, literal, dtype);
    value.is_weak = true;
    return value;
}

dlk_value dlk_value_settle(dlk_eval *eval, const dlk_expr *at, dlk_value value)
{
    value = dlk_value_materialise(eval, at, value);
    value.is_weak = false;
    return value;
}

dlk_value dlk_value_convert(dlk_eval *eval, const dlk_expr *at, dlk_value value, dlk_dtype dtype)
{
    if (value.kind == DLK_VALUE_LITERAL)
        return literal_to(eval, at, value.literal, dtype);
    char found[64];
    if (value.kind == DLK_VALUE_TUPLE)
        dlk_eval_fail(eval, at, DLK_ERR_DTYPE, "found %s, expected a number that becomes %s",
                      dlk_value_describe(&value, found), dlk_dtypes[dtype].name);
    return data_to(eval, at, value, dtype);
}

dlk_value dlk_value_round(dlk_eval *eval, const dlk_expr *at, dlk_value value, dlk_dtype dtype)
{
    dlk_value result = dlk_value_convert(eval, at, value, dtype);
    if (!is_narrow_float(dtype))
        return result;
    const dlk_ref word =
        dlk_prog_encode(eval->prog, dtype, result.part[0], is_unsigned(result.source), eval->request->saturate);
    return dlk_value_data(dtype, dlk_prog_decode(eval->prog, dtype, word), DLK_NONE);
}

dlk_ref dlk_value_part(dlk_eval *eval, const dlk_value *value, int part)
{
    const dlk_kind kind = dlk_dtypes[value->dtype].compute;
    const dlk_ref ref = value->part[part];
    if (ref == DLK_NONE || eval->prog->nodes[ref].kind == kind)
        return ref;
    return dlk_prog_encode(eval->prog, DLK_DTYPE_F32, ref, is_unsigned(value->source), false);
}

int dlk_value_flatten(dlk_eval *eval, const dlk_expr *at, const dlk_value *value, dlk_value *leaves, int max)
{
    if (value->kind != DLK_VALUE_TUPLE) {
        if (max < 1)
            dlk_eval_fail(eval, at, DLK_ERR_SYNTAX, "a tuple here has more numbers than there may be");
        leaves[0] = *value;
        return 1;
    }
    int n = 0;
    for (int i = 0; i < value->n; i++)
        n += dlk_value_flatten(eval, at, &value->items[i], leaves + n, max - n);
    return n;
}

dlk_value dlk_value_rebuild(dlk_eval *eval, const dlk_value *shape, const dlk_value **leaves)
{
    if (shape->kind != DLK_VALUE_TUPLE)
        return *(*leaves)++;
    dlk_value *items = DLK_NEW_ARRAY(eval->arena, dlk_value, shape->n);
    for (int i = 0; i < shape->n; i++)
        items[i] = dlk_value_rebuild(eval, &shape->items[i], leaves);
    return (dlk_value){.kind = DLK_VALUE_TUPLE, .items = items, .n = shape->n};
}

static _Noreturn void fail_shapes(dlk_eval *eval, const dlk_expr *at, const dlk_value *a, const dlk_value *b,
                                  const char *what)
{
    char x[64], y[64];
    dlk_eval_fail(eval, at, DLK_ERR_DTYPE, "%s: found %s and %s, expected the same form of both", what,
                  dlk_value_describe(a, x), dlk_value_describe(b, y));
}

void dlk_value_unify(dlk_eval *eval, const dlk_expr *at, dlk_value *a, dlk_value *b, const char *what)
{
    if (a->kind != DLK_VALUE_TUPLE && b->kind != DLK_VALUE_TUPLE) {
        const dlk_arg_type common = dlk_value_common(eval, at, (dlk_value[]){*a, *b}, 2, what);
        *a = dlk_value_convert(eval, at, *a, common.dtype);
        *b = dlk_value_convert(eval, at, *b, common.dtype);
        a->is_weak = b->is_weak = common.is_weak;
        return;
    }
    if (a->kind != b->kind || a->n != b->n)
        fail_shapes(eval, at, a, b, what);
    dlk_value *left = dlk_arena_copy(eval->arena, a->items, sizeof *left * (size_t)a->n);
    dlk_value *right = dlk_arena_copy(eval->arena, b->items, sizeof *right * (size_t)a->n);
    for (int i = 0; i < a->n; i++)
        dlk_value_unify(eval, at, &left[i], &right[i], what);
    a->items = left;
    b->items = right;
}

dlk_value dlk_value_conform(dlk_eval *eval, const dlk_expr *at, dlk_value value, const dlk_value *like,
                            const char *what)
{
    if ((value.kind == DLK_VALUE_TUPLE) != (like->kind == DLK_VALUE_TUPLE) ||
        (value.kind == DLK_VALUE_TUPLE && value.n != like->n))
        fail_shapes(eval, at, &value, like, what);
    if (value.kind == DLK_VALUE_TUPLE) {
        dlk_value *items = DLK_NEW_ARRAY(eval->arena, dlk_value, value.n);
        for (int i = 0; i < value.n; i++)
            items[i] = dlk_value_conform(eval, at, value.items[i], &like->items[i], what);
        return dlk_value_tuple(eval, items, value.n);
    }
    const bool is_weak = value.kind == DLK_VALUE_LITERAL || value.is_weak;
    if (!is_weak && value.dtype != like->dtype)
        dlk_eval_fail(eval, at, DLK_ERR_DTYPE, "%s: found %s, expected %s; convert it", what,
                      dlk_dtypes[value.dtype].name, dlk_dtypes[like->dtype].name);
    if (is_weak && dlk_promote_weak(like->dtype, type_of(eval, at, &value, what).dtype) != like->dtype &&
        like->dtype != DLK_DTYPE_BOOL)
        dlk_eval_fail(eval, at, DLK_ERR_DTYPE, "%s: found a number that is no %s, expected one", what,
                      dlk_dtypes[like->dtype].name);
    dlk_value result = dlk_value_convert(eval, at, value, like->dtype);
    result.part[0] = dlk_value_part(eval, &result, 0);
    result.source = result.dtype;
    return result;
}
