/* Promotion is computed from the rows of the dtype table, so that a new dtype needs no new table of pairs. */
#include "kernels/infer.h"

#include <stdio.h>
#include <string.h>

#define BIT(class) (1u << DLK_CLASS_##class)
#define INTEGER    (BIT(INT) | BIT(UINT))
#define REAL       (INTEGER | BIT(FLOAT))

static const struct {
    const char *name;
    dlk_class_set set;
} classes[] = {{"bool", BIT(BOOL)},     {"int", BIT(INT)}, {"uint", BIT(UINT)},       {"integer", INTEGER},
               {"float", BIT(FLOAT)},   {"real", REAL},    {"complex", BIT(COMPLEX)}, {"number", REAL | BIT(COMPLEX)},
               {"any", DLK_CLASSES_ANY}};

dlk_class_set dlk_class_set_from_name(const char *name, int length)
{
    for (size_t i = 0; i < sizeof classes / sizeof *classes; i++)
        if ((size_t)length == strlen(classes[i].name) && memcmp(name, classes[i].name, (size_t)length) == 0)
            return classes[i].set;
    return 0;
}

/* ---- Promotion ---------------------------------------------------------------------------------------------------------- */

static dlk_dtype find_dtype(dlk_dtype_class class_, int bits)
{
    for (int i = 0; i < DLK_DTYPE_COUNT; i++)
        if (dlk_dtypes[i].class_ == class_ && dlk_dtypes[i].bits == bits)
            return (dlk_dtype)i;
    return DLK_DTYPE_NONE;
}

static dlk_dtype wider(dlk_dtype a, dlk_dtype b)
{
    return dlk_dtypes[a].bits >= dlk_dtypes[b].bits ? a : b;
}

static dlk_dtype promote_signs(dlk_dtype signed_, dlk_dtype unsigned_)
{
    const int bits = dlk_dtypes[unsigned_].bits;
    if (bits < dlk_dtypes[signed_].bits)
        return signed_;
    return find_dtype(DLK_CLASS_INT, 2 * bits); /* none of 128 bits */
}

/* The narrowest float that holds every value of the integer type, or else float64. */
static dlk_dtype promote_integer_float(dlk_dtype integer, dlk_dtype floating)
{
    const int bits = dlk_dtypes[integer].bits;
    if (dlk_dtypes[floating].mantissa_bits + 1 >= bits || floating == DLK_DTYPE_F64)
        return floating;
    return dlk_dtypes[DLK_DTYPE_F32].mantissa_bits + 1 >= bits ? DLK_DTYPE_F32 : DLK_DTYPE_F64;
}

static bool holds(dlk_dtype a, dlk_dtype b)
{
    return dlk_dtypes[a].exponent_bits >= dlk_dtypes[b].exponent_bits &&
           dlk_dtypes[a].mantissa_bits >= dlk_dtypes[b].mantissa_bits;
}

static dlk_dtype promote_floats(dlk_dtype a, dlk_dtype b)
{
    return holds(a, b) ? a : holds(b, a) ? b : DLK_DTYPE_F32;
}

static dlk_dtype promote_complex(dlk_dtype complex, dlk_dtype other)
{
    if (dlk_dtypes[other].class_ == DLK_CLASS_COMPLEX)
        return wider(complex, other);
    const bool is_double = complex == DLK_DTYPE_C128 || dlk_promote(DLK_DTYPE_F32, other) == DLK_DTYPE_F64;
    return is_double ? DLK_DTYPE_C128 : DLK_DTYPE_C64;
}

dlk_dtype dlk_promote(dlk_dtype a, dlk_dtype b)
{
    if (dlk_dtypes[a].class_ < dlk_dtypes[b].class_) { /* a is of the greater class */
        const dlk_dtype swapped = a;
        a = b;
        b = swapped;
    }
    if (a == b || dlk_dtypes[b].class_ == DLK_CLASS_BOOL)
        return a;
    switch ((dlk_dtype_class)dlk_dtypes[a].class_) {
    case DLK_CLASS_BOOL:
    case DLK_CLASS_INT:
        return wider(a, b);
    case DLK_CLASS_UINT:
        return dlk_dtypes[b].class_ == DLK_CLASS_UINT ? wider(a, b) : promote_signs(b, a);
    case DLK_CLASS_FLOAT:
        return dlk_dtypes[b].class_ == DLK_CLASS_FLOAT ? promote_floats(a, b) : promote_integer_float(b, a);
    case DLK_CLASS_COMPLEX:
        return promote_complex(a, b);
    }
    return DLK_DTYPE_NONE;
}

dlk_dtype dlk_promote_weak(dlk_dtype strong, dlk_dtype weak)
{
    const dlk_dtype_class kind = dlk_dtypes[weak].class_, class_ = dlk_dtypes[strong].class_;
    if (kind == DLK_CLASS_BOOL)
        return strong;
    if (kind == DLK_CLASS_INT || kind == DLK_CLASS_UINT)
        return class_ == DLK_CLASS_BOOL ? weak : strong;
    if (kind == DLK_CLASS_FLOAT)
        return class_ == DLK_CLASS_FLOAT || class_ == DLK_CLASS_COMPLEX ? strong : DLK_DTYPE_F64;
    if (class_ == DLK_CLASS_COMPLEX)
        return strong;
    return class_ == DLK_CLASS_FLOAT && strong != DLK_DTYPE_F64 ? DLK_DTYPE_C64 : DLK_DTYPE_C128;
}

const char *dlk_promote_explain(dlk_dtype a, dlk_dtype b, char *out)
{
    snprintf(out, 200,
             "%s and %s have no common type; convert one of them first, to int64, uint64 or float64 (cast, or i64(x), "
             "u64(x), f64(x) in a formula)",
             dlk_dtypes[a].name, dlk_dtypes[b].name);
    return out;
}

/* ---- Overloads ---------------------------------------------------------------------------------------------------------- */

#define COST_NONE    (-1)
#define COST_CONVERT 20 /* more than any way to take a type as it is */

static bool is_integer_or_bool(dlk_dtype dtype)
{
    return dlk_class_bit(dtype) & (INTEGER | BIT(BOOL));
}

static int cost_of_set(dlk_class_set set, dlk_dtype dtype)
{
    if (set & dlk_class_bit(dtype))
        return 1 + __builtin_popcount(set);
    return set & BIT(FLOAT) && is_integer_or_bool(dtype) ? COST_CONVERT : COST_NONE;
}

/* A weak number is taken by its own class and by all that it can become. */
static int cost_of_weak(dlk_class_set set, dlk_dtype weak)
{
    static const uint8_t becomes[] = {[DLK_CLASS_BOOL] = DLK_CLASSES_ANY,
                                      [DLK_CLASS_INT] = INTEGER | BIT(FLOAT) | BIT(COMPLEX),
                                      [DLK_CLASS_UINT] = INTEGER | BIT(FLOAT) | BIT(COMPLEX),
                                      [DLK_CLASS_FLOAT] = BIT(FLOAT) | BIT(COMPLEX),
                                      [DLK_CLASS_COMPLEX] = BIT(COMPLEX)};
    if (set & dlk_class_bit(weak))
        return 1 + __builtin_popcount(set);
    const dlk_class_set possible = set & becomes[dlk_dtypes[weak].class_];
    return !possible ? COST_NONE : possible & INTEGER ? 7 : possible & BIT(FLOAT) ? 8 : 9;
}

static int cost_of_exact(dlk_dtype exact, const dlk_arg_type *arg)
{
    if (arg->is_weak) {
        const int cost = cost_of_weak(dlk_class_bit(exact), arg->dtype);
        return cost == COST_NONE ? cost : cost + (exact == arg->dtype ? 0 : 1);
    }
    if (arg->dtype == exact)
        return 0;
    const bool is_label = exact == DLK_DTYPE_F32 && dlk_dtypes[arg->dtype].class_ == DLK_CLASS_FLOAT &&
                          dlk_dtypes[arg->dtype].compute == DLK_F32;
    if (is_label)
        return 1;
    return exact == DLK_DTYPE_F64 && is_integer_or_bool(arg->dtype) ? COST_CONVERT : COST_NONE;
}

/* The common type of the arguments of one type variable; false when they have none. */
static bool variable_type(const dlk_def *def, int variable, const dlk_arg_type *args, dlk_arg_type *out, char *why)
{
    *out = (dlk_arg_type){.dtype = DLK_DTYPE_NONE, .is_weak = true};
    for (int pass = 0; pass < 2; pass++) /* strong ones first: weak ones adapt to them */
        for (int i = 0; i < def->n_params; i++) {
            const dlk_arg_type arg = args[i];
            if (def->params[i].type.variable != variable || arg.is_weak != (pass == 1))
                continue;
            if (arg.dtype == DLK_DTYPE_NONE)
                return false;
            const dlk_dtype before = out->dtype;
            const bool had = before != DLK_DTYPE_NONE;
            if (had && arg.is_weak && !out->is_weak)
                out->dtype = dlk_promote_weak(before, arg.dtype);
            else
                out->dtype = had ? dlk_promote(before, arg.dtype) : arg.dtype;
            out->is_weak = had ? out->is_weak : arg.is_weak;
            if (out->dtype == DLK_DTYPE_NONE) {
                dlk_promote_explain(before, arg.dtype, why);
                return false;
            }
        }
    return true;
}

typedef struct candidate {
    dlk_resolution resolution;
    dlk_arg_type variables[16];
    int cost;
} candidate;

static int cost_of_param(const dlk_def *def, int i, const dlk_arg_type *arg, candidate *c)
{
    const dlk_param_type *type = &def->params[i].type;
    uint8_t *convert = &c->resolution.convert[i];
    *convert = DLK_DTYPE_NONE;
    dlk_class_set set = type->classes;
    if (type->variable >= 0) {
        set = def->variables[type->variable].classes;
        arg = &c->variables[type->variable];
    }
    if (arg->dtype == DLK_DTYPE_NONE) /* a tuple */
        return set == DLK_CLASSES_ANY && type->exact == DLK_DTYPE_NONE ? 6 : COST_NONE;
    if (type->exact != DLK_DTYPE_NONE) {
        *convert = type->exact;
        return cost_of_exact(type->exact, arg);
    }
    if (arg->is_weak)
        return cost_of_weak(set, arg->dtype);
    const int cost = cost_of_set(set, arg->dtype);
    if (cost == COST_CONVERT)
        *convert = DLK_DTYPE_F64;
    else if (type->variable >= 0)
        *convert = arg->dtype;
    return cost;
}

static bool try_overload(const dlk_def *def, const dlk_arg_type *args, int n_args, candidate *c, char *why)
{
    int n_inputs = 0;
    c->cost = 0;
    c->resolution.def = def;
    while (n_inputs < def->n_params && !def->params[n_inputs].type.is_scalar)
        n_inputs++;
    if (n_inputs != n_args)
        return false;
    for (int v = 0; v < def->n_variables; v++)
        if (!variable_type(def, v, args, &c->variables[v], why))
            return false;
    for (int i = 0; i < n_args; i++) {
        const int cost = cost_of_param(def, i, &args[i], c);
        if (cost == COST_NONE)
            return false;
        c->cost += cost;
    }
    return true;
}

/* What the results of an overload for exactly float32 are called: the common type of the narrower floats it was given. */
static uint8_t label_of_results(const dlk_def *def, const dlk_arg_type *args, int n_args)
{
    uint8_t label = DLK_DTYPE_NONE;
    for (int i = 0; i < n_args; i++) {
        if (def->params[i].type.exact != DLK_DTYPE_F32 || args[i].is_weak)
            continue;
        label = label == DLK_DTYPE_NONE ? args[i].dtype : (uint8_t)dlk_promote(label, args[i].dtype);
    }
    return label == DLK_DTYPE_F32 ? DLK_DTYPE_NONE : label;
}

static void describe_args(const dlk_arg_type *args, int n_args, char *out, size_t bytes)
{
    size_t n = 0;
    out[0] = 0;
    for (int i = 0; i < n_args && n < bytes - 1; i++) {
        const char *name = args[i].dtype == DLK_DTYPE_NONE ? "tuple" : dlk_dtypes[args[i].dtype].name;
        n += (size_t)snprintf(out + n, bytes - n, "%s%s%s", i ? ", " : "", args[i].is_weak ? "a scalar of kind " : "",
                              name);
    }
}

static void describe_overloads(const dlk_overloads *overloads, char *out, size_t bytes)
{
    size_t n = 0;
    out[0] = 0;
    for (int i = 0; i < overloads->n && n < bytes - 1; i++)
        n += (size_t)snprintf(out + n, bytes - n, "%s%s", i ? "; " : "", overloads->defs[i]->signature);
}

static dlk_status fail_unresolved(const dlk_overloads *overloads, const dlk_arg_type *args, int n_args, const char *why)
{
    char found[512], expected[1024];
    if (why[0])
        return dlk_fail(DLK_ERR_DTYPE, "%s", why);
    describe_args(args, n_args, found, sizeof found);
    describe_overloads(overloads, expected, sizeof expected);
    return dlk_fail(DLK_ERR_DTYPE, "found (%s), expected one of: %s", found, expected);
}

dlk_status dlk_resolve(const dlk_overloads *overloads, const dlk_arg_type *args, int n_args,
                       bool (*is_active)(void *context, const dlk_def *def), void *context, dlk_resolution *out)
{
    candidate best = {.cost = COST_NONE}, c;
    bool is_tie = false, calls_itself = false;
    char why[200] = "";
    for (int i = 0; i < overloads->n; i++) {
        if (!try_overload(overloads->defs[i], args, n_args, &c, why))
            continue;
        if (is_active && is_active(context, overloads->defs[i])) {
            calls_itself = true;
            continue;
        }
        is_tie = best.cost == c.cost || (is_tie && c.cost > best.cost);
        if (best.cost == COST_NONE || c.cost < best.cost) {
            best = c;
            is_tie = false;
        }
    }
    if (best.cost == COST_NONE && calls_itself)
        return dlk_fail(DLK_ERR_SYNTAX, "a definition cannot call itself");
    if (best.cost == COST_NONE)
        return fail_unresolved(overloads, args, n_args, why);
    if (is_tie) {
        char found[512];
        describe_args(args, n_args, found, sizeof found);
        return dlk_fail(DLK_ERR_DTYPE, "two overloads take (%s) equally well", found);
    }
    *out = best.resolution;
    out->relabel = label_of_results(best.resolution.def, args, n_args);
    return DLK_OK;
}
