/* The functions of the language itself: conversions named after types, bit patterns, parts of complex numbers, limits of
 * types, and what a reduction knows of its elements. */
#include "kernels/eval.h"

#include <string.h>

typedef dlk_value (*builtin_function)(dlk_eval *eval, const dlk_expr *at, const dlk_value *args);

static dlk_value data_argument(dlk_eval *eval, const dlk_expr *at, const dlk_value *arg, const char *expected,
                               dlk_class_set set)
{
    const dlk_value value = dlk_value_materialise(eval, at, *arg);
    char found[64];
    if (value.kind == DLK_VALUE_TUPLE || !(dlk_class_bit(value.dtype) & set))
        dlk_eval_fail(eval, at, DLK_ERR_DTYPE, "%s: found %s, expected %s", at->name, dlk_value_describe(arg, found),
                      expected);
    return value;
}

#define FLOAT    (1u << DLK_CLASS_FLOAT)
#define COMPLEX  (1u << DLK_CLASS_COMPLEX)
#define INTEGERS ((1u << DLK_CLASS_INT) | (1u << DLK_CLASS_UINT))

/* bits(x): the unsigned integer with the bits of an f32 or f64. */
static dlk_value call_bits(dlk_eval *eval, const dlk_expr *at, const dlk_value *args)
{
    const dlk_value x = data_argument(eval, at, &args[0], "a float", FLOAT);
    const bool is_f64 = dlk_dtypes[x.dtype].compute == DLK_F64;
    return dlk_value_data(
        is_f64 ? DLK_DTYPE_U64 : DLK_DTYPE_U32,
        dlk_prog_convert(eval->prog, DLK_PRIM_BITCAST, is_f64 ? DLK_I64 : DLK_I32, dlk_value_part(eval, &x, 0)),
        DLK_NONE);
}

static dlk_value call_from_bits(dlk_eval *eval, const dlk_expr *at, const dlk_value *args)
{
    const dlk_value x = data_argument(eval, at, &args[0], "an integer of 32 or 64 bits", INTEGERS);
    const int bits = dlk_dtypes[x.dtype].bits;
    if (bits < 32)
        dlk_eval_fail(eval, at, DLK_ERR_DTYPE, "from_bits: found %s, expected an integer of 32 or 64 bits",
                      dlk_dtypes[x.dtype].name);
    return dlk_value_data(bits == 64 ? DLK_DTYPE_F64 : DLK_DTYPE_F32,
                          dlk_prog_convert(eval->prog, DLK_PRIM_BITCAST, bits == 64 ? DLK_F64 : DLK_F32, x.part[0]),
                          DLK_NONE);
}

/* convert(x, dtype): to the type that the launch asks for; convert(x, y): to that of y. */
static dlk_value call_convert(dlk_eval *eval, const dlk_expr *at, const dlk_value *args)
{
    const bool is_launch = at->args[1]->kind == DLK_EXPR_NAME && strcmp(at->args[1]->name, "dtype") == 0;
    dlk_dtype dtype = eval->request->dtype;
    if (!is_launch)
        dtype = data_argument(eval, at, &args[1], "a number as the second argument", DLK_CLASSES_ANY).dtype;
    if (dtype == DLK_DTYPE_NONE)
        dtype = eval->request->n_outputs ? eval->request->output[0] : DLK_DTYPE_NONE;
    if (dtype == DLK_DTYPE_NONE)
        dlk_eval_fail(eval, at, DLK_ERR_INVALID, "%s needs a dtype: give the parameter dtype, or an output",
                      eval->op->name);
    return is_launch ? dlk_value_round(eval, at, args[0], dtype) : dlk_value_convert(eval, at, args[0], dtype);
}

static dlk_value call_real(dlk_eval *eval, const dlk_expr *at, const dlk_value *args)
{
    const dlk_value z = data_argument(eval, at, &args[0], "a complex number", COMPLEX);
    return dlk_value_data(z.dtype == DLK_DTYPE_C128 ? DLK_DTYPE_F64 : DLK_DTYPE_F32, z.part[0], DLK_NONE);
}

static dlk_value call_imag(dlk_eval *eval, const dlk_expr *at, const dlk_value *args)
{
    const dlk_value z = data_argument(eval, at, &args[0], "a complex number", COMPLEX);
    return dlk_value_data(z.dtype == DLK_DTYPE_C128 ? DLK_DTYPE_F64 : DLK_DTYPE_F32, z.part[1], DLK_NONE);
}

static dlk_value call_complex(dlk_eval *eval, const dlk_expr *at, const dlk_value *args)
{
    dlk_value re = args[0], im = args[1];
    dlk_value_unify(eval, at, &re, &im, "complex");
    re = data_argument(eval, at, &re, "two real numbers", DLK_CLASSES_ANY & ~COMPLEX);
    const bool is_f32 = dlk_dtypes[re.dtype].compute == DLK_F32;
    re = dlk_value_convert(eval, at, re, is_f32 ? DLK_DTYPE_F32 : DLK_DTYPE_F64);
    im = dlk_value_convert(eval, at, im, is_f32 ? DLK_DTYPE_F32 : DLK_DTYPE_F64);
    return dlk_value_data(is_f32 ? DLK_DTYPE_C64 : DLK_DTYPE_C128, re.part[0], im.part[0]);
}

/* The least or greatest finite number of the type that x is computed in. */
static dlk_value limit(dlk_eval *eval, const dlk_expr *at, const dlk_value *arg, bool is_highest)
{
    const dlk_value x = data_argument(eval, at, arg, "a real number", FLOAT | INTEGERS);
    const dlk_dtype_info *info = &dlk_dtypes[x.dtype];
    uint64_t bits;
    if (info->class_ == DLK_CLASS_FLOAT) {
        const bool is_f64 = info->compute == DLK_F64;
        bits = is_f64 ? 0x7fefffffffffffffull : 0x7f7fffffull;
        bits |= is_highest ? 0 : is_f64 ? 1ull << 63 : 1ull << 31;
    } else {
        const uint64_t most = UINT64_MAX >> (64 - info->bits + (info->class_ == DLK_CLASS_INT));
        bits = is_highest ? most : info->class_ == DLK_CLASS_INT ? ~most : 0;
    }
    return dlk_value_data(x.dtype, dlk_prog_const(eval->prog, info->compute, bits), DLK_NONE);
}

static dlk_value call_lowest(dlk_eval *eval, const dlk_expr *at, const dlk_value *args)
{
    return limit(eval, at, &args[0], false);
}

static dlk_value call_highest(dlk_eval *eval, const dlk_expr *at, const dlk_value *args)
{
    return limit(eval, at, &args[0], true);
}

static dlk_value call_count(dlk_eval *eval, const dlk_expr *at, const dlk_value *args)
{
    (void)args; /* only says of what: all that is reduced has one shape */
    return dlk_count_elements(eval, at);
}

static dlk_value call_index(dlk_eval *eval, const dlk_expr *at, const dlk_value *args)
{
    (void)args;
    if (!eval->in_first)
        dlk_eval_fail(eval, at, DLK_ERR_SYNTAX, "index() is known in the 'first' and 'leaf' clauses of a reducer only");
    return dlk_value_data(DLK_DTYPE_I64, dlk_prog_index(eval->prog), DLK_NONE);
}

static const struct {
    const char *name;
    int n_args;
    builtin_function call;
} builtins[] = {{"bits", 1, call_bits},     {"from_bits", 1, call_from_bits}, {"convert", 2, call_convert},
                {"real", 1, call_real},     {"imag", 1, call_imag},           {"complex", 2, call_complex},
                {"lowest", 1, call_lowest}, {"highest", 1, call_highest},     {"count", 1, call_count},
                {"index", 0, call_index}};

static void check_count(dlk_eval *eval, const dlk_expr *at, int found, int expected)
{
    if (found != expected)
        dlk_eval_fail(eval, at, DLK_ERR_SYNTAX, "%s: found %d arguments, expected %d", at->name, found, expected);
}

bool dlk_builtin_exists(const char *name)
{
    for (size_t i = 0; i < sizeof builtins / sizeof *builtins; i++)
        if (strcmp(builtins[i].name, name) == 0)
            return true;
    return false;
}

bool dlk_call_builtin(dlk_eval *eval, const dlk_expr *at, const dlk_value *args, int n, dlk_value *out)
{
    for (size_t i = 0; i < sizeof builtins / sizeof *builtins; i++)
        if (strcmp(builtins[i].name, at->name) == 0) {
            check_count(eval, at, n, builtins[i].n_args);
            *out = builtins[i].call(eval, at, args);
            return true;
        }
    const dlk_dtype dtype = dlk_dtype_from_name(at->name, strlen(at->name));
    if (dtype == DLK_DTYPE_NONE)
        return false;
    check_count(eval, at, n, 1);
    *out = dlk_value_round(eval, at, args[0], dtype);
    return true;
}
