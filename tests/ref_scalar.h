/* What every operation means on one element, written by hand from the meaning table of docs/language.md, NumPy 2 and the
 * array API standard; nothing here derives from the definitions in kernels/, so that the two can disagree. */
#ifndef DLK_TESTS_REF_SCALAR_H
#define DLK_TESTS_REF_SCALAR_H

#include "dlk/dlk.h"
#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

typedef enum ref_class { REF_BOOL, REF_INT, REF_UINT, REF_FLOAT, REF_COMPLEX } ref_class;

typedef struct ref_dtype {
    const char *name;
    uint8_t code, bits;
    ref_class class_;
    int exp, man; /* of one part, for floats */
    bool finite;  /* no infinities; NaN is all ones */
} ref_dtype;

/* ORDER REF_DTYPE */
enum {
    R_BOOL,
    R_I8,
    R_I16,
    R_I32,
    R_I64,
    R_U8,
    R_U16,
    R_U32,
    R_U64,
    R_F16,
    R_BF16,
    R_F32,
    R_F64,
    R_F8,
    R_C64,
    R_C128,
    R_COUNT
};
static const ref_dtype ref_dtypes[R_COUNT] = {
    {"bool", kDLBool, 8, REF_BOOL, 0, 0, false},
    {"int8", kDLInt, 8, REF_INT, 0, 0, false},
    {"int16", kDLInt, 16, REF_INT, 0, 0, false},
    {"int32", kDLInt, 32, REF_INT, 0, 0, false},
    {"int64", kDLInt, 64, REF_INT, 0, 0, false},
    {"uint8", kDLUInt, 8, REF_UINT, 0, 0, false},
    {"uint16", kDLUInt, 16, REF_UINT, 0, 0, false},
    {"uint32", kDLUInt, 32, REF_UINT, 0, 0, false},
    {"uint64", kDLUInt, 64, REF_UINT, 0, 0, false},
    {"float16", kDLFloat, 16, REF_FLOAT, 5, 10, false},
    {"bfloat16", kDLBfloat, 16, REF_FLOAT, 8, 7, false},
    {"float32", kDLFloat, 32, REF_FLOAT, 8, 23, false},
    {"float64", kDLFloat, 64, REF_FLOAT, 11, 52, false},
    {"float8_e4m3fn", kDLFloat8_e4m3fn, 8, REF_FLOAT, 4, 3, true},
    {"complex64", kDLComplex, 64, REF_COMPLEX, 8, 23, false},
    {"complex128", kDLComplex, 128, REF_COMPLEX, 11, 52, false},
};

/* One element, exactly: x87's long double holds every i64, u64 and f64. */
typedef struct ref_value {
    long double re, im; /* floats and complex */
    int64_t i;          /* BOOL, INT; UINT as its bits */
} ref_value;

static inline int ref_bytes(int dtype)
{
    return ref_dtypes[dtype].bits / 8;
}

/* ---- Formats ----------------------------------------------------------------------------------------------------- */

/* A small float's bits to its value, by the definition of the format. */
static inline long double ref_decode_float(uint64_t bits, const ref_dtype *t)
{
    if (t->man == 23) { /* the compiler's own float and double */
        float f;
        memcpy(&f, &(uint32_t){(uint32_t)bits}, sizeof f);
        return f;
    }
    if (t->man == 52) {
        double d;
        memcpy(&d, &bits, sizeof d);
        return d;
    }
    const int bias = (1 << (t->exp - 1)) - 1;
    const uint64_t man = bits & ((1ull << t->man) - 1);
    const int exp = (int)(bits >> t->man) & ((1 << t->exp) - 1);
    const bool negative = bits >> (t->man + t->exp) & 1;
    long double v;
    if (t->finite ? (exp == (1 << t->exp) - 1 && man == (1ull << t->man) - 1) : exp == (1 << t->exp) - 1 && man)
        v = (long double)NAN;
    else if (!t->finite && exp == (1 << t->exp) - 1)
        v = (long double)INFINITY;
    else if (!exp)
        v = ldexpl((long double)man, 1 - bias - t->man);
    else
        v = ldexpl((long double)(man | 1ull << t->man), exp - bias - t->man);
    return negative ? -v : v;
}

/* The nearest value of the format, ties to even, rounded once from the exact argument; overflow as IEEE, or NaN in a
 * format without infinities. */
static inline uint64_t ref_encode_float(long double v, const ref_dtype *t)
{
    if (t->man == 23) {
        const float f = (float)v;
        uint32_t bits;
        memcpy(&bits, &f, sizeof bits);
        return bits;
    }
    if (t->man == 52) {
        const double d = (double)v;
        uint64_t bits;
        memcpy(&bits, &d, sizeof bits);
        return bits;
    }
    const int bias = (1 << (t->exp - 1)) - 1;
    const uint64_t sign = (uint64_t)(signbit(v) != 0) << (t->man + t->exp);
    const uint64_t exp_ones = ((1ull << t->exp) - 1) << t->man, man_ones = (1ull << t->man) - 1;
    if (isnan(v))
        return sign | exp_ones | (t->finite ? man_ones : 1ull << (t->man - 1));
    const uint64_t overflow = sign | exp_ones | (t->finite ? man_ones : 0);
    const long double a = fabsl(v);
    if (isinf(a))
        return overflow;
    if (a == 0)
        return sign;
    int e;
    frexpl(a, &e); /* a in [2^(e-1), 2^e) */
    int unit = e - 1 - t->man;
    if (unit < 1 - bias - t->man)
        unit = 1 - bias - t->man;
    const long double steps = rintl(ldexpl(a, -unit));
    if (ldexpl(steps, unit) >= ldexpl(1, bias + 1 + (t->finite ? 1 : 0)))
        return overflow;
    uint64_t n = (uint64_t)steps;
    int exp = unit + t->man + bias;
    if (n >= 2ull << t->man) {
        n >>= 1;
        exp++;
    }
    const uint64_t bits = n < 1ull << t->man ? n : (uint64_t)exp << t->man | (n & man_ones);
    return bits >= (exp_ones | (t->finite ? man_ones : 0)) ? overflow : sign | bits;
}

static inline ref_value ref_load(int dtype, const void *at)
{
    const ref_dtype *t = &ref_dtypes[dtype];
    const int part = ref_bytes(dtype) / (t->class_ == REF_COMPLEX ? 2 : 1);
    ref_value v = {0, 0, 0};
    uint64_t w[2] = {0, 0};
    memcpy(&w[0], at, (size_t)part);
    if (t->class_ == REF_COMPLEX)
        memcpy(&w[1], (const char *)at + part, (size_t)part);
    switch (t->class_) {
    case REF_BOOL:
        v.i = w[0] != 0;
        break;
    case REF_UINT:
        v.i = (int64_t)w[0];
        break;
    case REF_INT:
        v.i = (int64_t)(w[0] << (64 - t->bits)) >> (64 - t->bits);
        break;
    case REF_COMPLEX:
        v.im = ref_decode_float(w[1], t);
        v.re = ref_decode_float(w[0], t);
        break;
    case REF_FLOAT:
        v.re = ref_decode_float(w[0], t);
        break;
    }
    return v;
}

static inline void ref_store(int dtype, void *at, ref_value v)
{
    const ref_dtype *t = &ref_dtypes[dtype];
    const int part = ref_bytes(dtype) / (t->class_ == REF_COMPLEX ? 2 : 1);
    uint64_t w[2] = {(uint64_t)v.i, 0};
    if (t->class_ == REF_BOOL)
        w[0] = v.i != 0;
    if (t->class_ >= REF_FLOAT) {
        w[0] = ref_encode_float(v.re, t);
        w[1] = ref_encode_float(v.im, t);
    }
    memcpy(at, &w[0], (size_t)part);
    if (t->class_ == REF_COMPLEX)
        memcpy((char *)at + part, &w[1], (size_t)part);
}

/* ---- Conversion --------------------------------------------------------------------------------------------------- */

static inline long double ref_as_real(int dtype, ref_value v)
{
    switch (ref_dtypes[dtype].class_) {
    case REF_UINT:
        return (long double)(uint64_t)v.i;
    case REF_FLOAT:
    case REF_COMPLEX:
        return v.re;
    default:
        return (long double)v.i;
    }
}

static inline int64_t ref_wrap(int64_t v, const ref_dtype *t)
{
    if (t->bits == 64)
        return v;
    return t->class_ == REF_UINT ? v & (int64_t)((1ull << t->bits) - 1)
                                 : (int64_t)((uint64_t)v << (64 - t->bits)) >> (64 - t->bits);
}

/* A value of one dtype as a value of another: integers wrap, floats to integers truncate and saturate, NaN gives 0. */
static inline ref_value ref_cast(int from, int to, ref_value v)
{
    const ref_dtype *f = &ref_dtypes[from], *t = &ref_dtypes[to];
    ref_value r = {0, 0, 0};
    if (t->class_ == REF_BOOL) {
        r.i = f->class_ >= REF_FLOAT ? v.re != 0 || v.im != 0 : v.i != 0;
    } else if (t->class_ >= REF_FLOAT) {
        r.re = ref_decode_float(ref_encode_float(ref_as_real(from, v), t), t);
        r.im = f->class_ == REF_COMPLEX ? ref_decode_float(ref_encode_float(v.im, t), t) : 0;
    } else if (f->class_ >= REF_FLOAT) {
        const long double lo = t->class_ == REF_UINT ? 0 : -ldexpl(1, t->bits - 1);
        const long double hi = ldexpl(1, t->class_ == REF_UINT ? t->bits : t->bits - 1);
        if (isnan(v.re))
            r.i = 0;
        else if (truncl(v.re) < lo)
            r.i = t->class_ == REF_UINT ? 0 : (int64_t)(~0ull << (t->bits - 1));
        else if (truncl(v.re) >= hi)
            r.i = t->class_ == REF_UINT ? (int64_t)(~0ull >> (64 - t->bits)) : (int64_t)(~0ull >> (65 - t->bits));
        else
            r.i = t->class_ == REF_UINT ? (int64_t)(uint64_t)v.re : (int64_t)v.re;
    } else {
        r.i = ref_wrap(v.i, t);
    }
    return r;
}

/* ---- Elementwise operations ---------------------------------------------------------------------------------------- */

typedef enum ref_result { /* the dtype of the result for operands of one dtype */
                          REF_SAME,
                          REF_TO_BOOL,
                          REF_TO_FLOAT, /* integers and bool become float64 */
                          REF_TO_REAL   /* complex becomes its real part's dtype */
} ref_result;

typedef struct ref_op {
    const char *name;
    int arity;
    ref_result result;
    const char *classes;     /* b i u f c: what it takes */
    double ulp_f32, ulp_f64; /* 0: exact */
    /* Integers and bools: bits are the operands' bits, the result wraps. u: unsigned. */
    int64_t (*integer)(int64_t a, int64_t b, int64_t c, const ref_dtype *t);
    float (*f32)(float a, float b, float c);
    double (*f64)(double a, double b, double c);
    long double (*real)(long double a); /* elementary functions, to be rounded: used where f32 is NULL */
    ref_value (*complex_)(ref_value a, ref_value b, bool is_f64);
} ref_op;

#define REF_BITS(t) ((t)->bits)
#define REF_INT_OP(name, expr)                                                              \
    static inline int64_t ref_i_##name(int64_t a, int64_t b, int64_t c, const ref_dtype *t) \
    {                                                                                       \
        const uint64_t ua = (uint64_t)a, ub = (uint64_t)b;                                  \
        const bool u = t->class_ == REF_UINT;                                               \
        (void)ua, (void)ub, (void)u, (void)b, (void)c;                                      \
        return (int64_t)(expr);                                                             \
    }
#define REF_FLOAT_OP(name, expr)                                    \
    static inline float ref_f_##name(float a, float b, float c)     \
    {                                                               \
        (void)b, (void)c;                                           \
        return (float)(expr);                                       \
    }                                                               \
    static inline double ref_d_##name(double a, double b, double c) \
    {                                                               \
        (void)b, (void)c;                                           \
        return (double)(expr);                                      \
    }

static inline int64_t ref_idiv_floor(int64_t a, int64_t b, bool u)
{
    if (b == 0)
        return 0;
    if (u)
        return (int64_t)((uint64_t)a / (uint64_t)b);
    if (b == -1)
        return (int64_t)(0 - (uint64_t)a);
    const int64_t q = a / b;
    return q - (a % b != 0 && (a < 0) != (b < 0));
}
static inline int64_t ref_imod_floor(int64_t a, int64_t b, bool u)
{
    return b == 0 ? 0 : (int64_t)((uint64_t)a - (uint64_t)ref_idiv_floor(a, b, u) * (uint64_t)b);
}
/* Modulo 2^64, which wraps to the dtype; a negative exponent gives the truncated quotient. */
static inline int64_t ref_ipow(int64_t a, int64_t b, bool u)
{
    if (!u && b < 0)
        return a == 1 ? 1 : a == -1 ? (b % 2 ? -1 : 1) : 0;
    uint64_t r = 1, x = (uint64_t)a;
    for (uint64_t n = (uint64_t)b; n; n >>= 1, x *= x)
        r *= n & 1 ? x : 1;
    return (int64_t)r;
}
static inline int64_t ref_shl(int64_t a, int64_t b, const ref_dtype *t)
{
    return (uint64_t)b >= (uint64_t)t->bits ? 0 : (int64_t)((uint64_t)a << b);
}
static inline int64_t ref_shr(int64_t a, int64_t b, const ref_dtype *t)
{
    if (t->class_ == REF_UINT)
        return (uint64_t)b >= (uint64_t)t->bits ? 0 : (int64_t)((uint64_t)a >> b);
    return (uint64_t)b >= (uint64_t)t->bits ? (a < 0 ? -1 : 0) : a >> b;
}
static inline double ref_fmax(double a, double b)
{
    if (isnan(a) || isnan(b))
        return NAN;
    return a == b ? (signbit(a) ? b : a) : a > b ? a : b;
}
static inline double ref_fmin(double a, double b)
{
    if (isnan(a) || isnan(b))
        return NAN;
    return a == b ? (signbit(a) ? a : b) : a < b ? a : b;
}
/* Python's float remainder: exact, the sign of the divisor. */
static inline double ref_fmod_floor(double a, double b)
{
    double m = fmod(a, b);
    if (m == 0)
        return copysign(0, b);
    return isnan(m) ? m : (m < 0) != (b < 0) ? (isinf(b) ? b : m + b) : m;
}

REF_INT_OP(copy, a)
REF_INT_OP(add, ua + ub)
REF_INT_OP(subtract, ua - ub)
REF_INT_OP(multiply, ua *ub)
REF_INT_OP(negative, 0 - ua)
REF_INT_OP(abs, !u && a < 0 ? 0 - ua : ua)
REF_INT_OP(square, ua *ua)
REF_INT_OP(minimum, u ? (ua < ub ? ua : ub) : (uint64_t)(a < b ? a : b))
REF_INT_OP(maximum, u ? (ua > ub ? ua : ub) : (uint64_t)(a > b ? a : b))
REF_INT_OP(floor_divide, ref_idiv_floor(a, b, u))
REF_INT_OP(remainder, ref_imod_floor(a, b, u))
REF_INT_OP(pow, ref_ipow(a, b, u))
REF_INT_OP(equal, a == b)
REF_INT_OP(not_equal, a != b)
REF_INT_OP(less, u ? ua < ub : a < b)
REF_INT_OP(less_equal, u ? ua <= ub : a <= b)
REF_INT_OP(greater, u ? ua > ub : a > b)
REF_INT_OP(greater_equal, u ? ua >= ub : a >= b)
REF_INT_OP(logical_and, a &&b)
REF_INT_OP(logical_or, a || b)
REF_INT_OP(logical_xor, !a != !b)
REF_INT_OP(logical_not, !a)
REF_INT_OP(bitwise_and, ua &ub)
REF_INT_OP(bitwise_or, ua | ub)
REF_INT_OP(bitwise_xor, ua ^ ub)
REF_INT_OP(bitwise_invert, t->class_ == REF_BOOL ? !a : ~a)
REF_INT_OP(bitwise_left_shift, ref_shl(a, b, t))
REF_INT_OP(bitwise_right_shift, ref_shr(a, b, t))
REF_INT_OP(isnan, 0)
REF_INT_OP(clip, u ? (ua < ub ? ub : ua) > (uint64_t)c ? (uint64_t)c : (ua < ub ? ub : ua)
                   : (uint64_t)((a < b ? b : a) > c ? c : (a < b ? b : a)))

REF_FLOAT_OP(copy, a)
REF_FLOAT_OP(add, a + b)
REF_FLOAT_OP(subtract, a - b)
REF_FLOAT_OP(multiply, a *b)
REF_FLOAT_OP(divide, a / b)
REF_FLOAT_OP(negative, -a)
REF_FLOAT_OP(abs, fabs(a))
REF_FLOAT_OP(square, a *a)
REF_FLOAT_OP(sqrt, sizeof a == 4 ? (double)sqrtf((float)a) : sqrt(a))
REF_FLOAT_OP(reciprocal, 1 / a)
REF_FLOAT_OP(minimum, ref_fmin(a, b))
REF_FLOAT_OP(maximum, ref_fmax(a, b))
REF_FLOAT_OP(fma, sizeof a == 4 ? (double)fmaf((float)a, (float)b, (float)c) : fma(a, b, c))
REF_FLOAT_OP(clip, ref_fmin(ref_fmax(a, b), c))
REF_FLOAT_OP(remainder, ref_fmod_floor(a, b))
REF_FLOAT_OP(equal, a == b)
REF_FLOAT_OP(not_equal, a != b)
REF_FLOAT_OP(less, a < b)
REF_FLOAT_OP(less_equal, a <= b)
REF_FLOAT_OP(greater, a > b)
REF_FLOAT_OP(greater_equal, a >= b)
REF_FLOAT_OP(logical_and, a != 0 && b != 0)
REF_FLOAT_OP(logical_or, a != 0 || b != 0)
REF_FLOAT_OP(logical_xor, (a != 0) != (b != 0))
REF_FLOAT_OP(logical_not, a == 0)
REF_FLOAT_OP(isnan, isnan(a) != 0)
REF_FLOAT_OP(round, rint(a))

/* Python's float floor division: the floor of the exact quotient, from the exact remainder. */
static inline double ref_d_floor_divide(double a, double b, double c)
{
    (void)c;
    if (b == 0 || isnan(a) || isnan(b) || isinf(a))
        return isinf(a) && b != 0 && !isnan(b) ? (double)NAN : a / b;
    const double m = fmod(a, b);
    __float128 q = ((__float128)a - m) / b; /* 113 bits: no second rounding that matters */
    if (m != 0 && (m < 0) != (b < 0))
        q -= 1;
    return q == 0 ? copysign(0, a / b) : (double)q;
}
static inline float ref_f_floor_divide(float a, float b, float c)
{
    (void)c;
    return (float)ref_d_floor_divide(a, b, 0);
}

static inline long double ref_l_rsqrt(long double a)
{
    return 1 / sqrtl(a);
}
static inline long double ref_l_sigmoid(long double a)
{
    return a >= 0 ? 1 / (1 + expl(-a)) : expl(a) / (1 + expl(a));
}
static inline long double ref_l_silu(long double a)
{
    return isinf(a) && a < 0 ? -0.0L : a * ref_l_sigmoid(a);
}
static inline long double ref_l_gelu(long double a)
{
    return isinf(a) && a < 0 ? -0.0L : 0.5L * a * erfcl(-a / sqrtl(2));
}

static inline ref_value ref_complex(double re, double im, bool is_f64)
{
    ref_value r = {is_f64 ? re : (float)re, is_f64 ? im : (float)im, 0};
    return r;
}
static inline ref_value ref_c_copy(ref_value a, ref_value b, bool is_f64)
{
    (void)b, (void)is_f64;
    return a;
}
static inline ref_value ref_c_add(ref_value a, ref_value b, bool is_f64)
{
    return ref_complex((double)a.re + (double)b.re, (double)a.im + (double)b.im, is_f64);
}
static inline ref_value ref_c_subtract(ref_value a, ref_value b, bool is_f64)
{
    return ref_complex((double)a.re - (double)b.re, (double)a.im - (double)b.im, is_f64);
}
static inline ref_value ref_c_equal(ref_value a, ref_value b, bool is_f64)
{
    (void)is_f64;
    ref_value r = {0, 0, a.re == b.re && a.im == b.im};
    return r;
}
static inline ref_value ref_c_not_equal(ref_value a, ref_value b, bool is_f64)
{
    ref_value r = ref_c_equal(a, b, is_f64);
    r.i = !r.i;
    return r;
}
static inline ref_value ref_c_multiply(ref_value a, ref_value b, bool is_f64)
{
    ref_value r = {0, 0, 0};
    if (is_f64) {
        const double p = (double)a.re * (double)b.re, q = (double)a.im * (double)b.im;
        const double s = (double)a.re * (double)b.im, t = (double)a.im * (double)b.re;
        r.re = p - q, r.im = s + t;
    } else {
        const float p = (float)a.re * (float)b.re, q = (float)a.im * (float)b.im;
        const float s = (float)a.re * (float)b.im, t = (float)a.im * (float)b.re;
        r.re = p - q, r.im = s + t;
    }
    return r;
}
static inline ref_value ref_c_abs(ref_value a, ref_value b, bool is_f64)
{
    (void)b, (void)is_f64;
    ref_value r = {hypotl(a.re, a.im), 0, 0};
    return r;
}
static inline ref_value ref_c_divide(ref_value a, ref_value b, bool is_f64)
{
    (void)is_f64;
    const long double n = b.re * b.re + b.im * b.im;
    ref_value r = {(a.re * b.re + a.im * b.im) / n, (a.im * b.re - a.re * b.im) / n, 0};
    return r;
}

#define REF_IF(name)  ref_i_##name, ref_f_##name, ref_d_##name, NULL, NULL
#define REF_F(name)   NULL, ref_f_##name, ref_d_##name, NULL, NULL
#define REF_I(name)   ref_i_##name, NULL, NULL, NULL, NULL
#define REF_L(fn)     NULL, NULL, NULL, fn, NULL
#define REF_IFC(name) ref_i_##name, ref_f_##name, ref_d_##name, NULL, ref_c_##name
/* clang-format off */
static const ref_op ref_ops[] = {
    {"copy",                1, REF_SAME,     "biufc", 0, 0, REF_IFC(copy)},
    {"add",                 2, REF_SAME,     "iufc",  0, 0, REF_IFC(add)},
    {"subtract",            2, REF_SAME,     "iufc",  0, 0, REF_IFC(subtract)},
    {"multiply",            2, REF_SAME,     "iufc",  0, 0, REF_IFC(multiply)},
    {"divide",              2, REF_TO_FLOAT, "iuf",   0, 0, REF_F(divide)},
    {"divide",              2, REF_SAME,     "c",     4, 4, NULL, NULL, NULL, NULL, ref_c_divide},
    {"negative",            1, REF_SAME,     "iuf",   0, 0, REF_IF(negative)},
    {"abs",                 1, REF_SAME,     "iuf",   0, 0, REF_IF(abs)},
    {"abs",                 1, REF_TO_REAL,  "c",     2, 4, NULL, NULL, NULL, NULL, ref_c_abs},
    {"square",              1, REF_SAME,     "iuf",   0, 0, REF_IF(square)},
    {"sqrt",                1, REF_TO_FLOAT, "iuf",   0, 0, REF_F(sqrt)},
    {"rsqrt",               1, REF_TO_FLOAT, "iuf",   2, 4, REF_L(ref_l_rsqrt)},
    {"reciprocal",          1, REF_TO_FLOAT, "iuf",   0, 0, REF_F(reciprocal)},
    {"minimum",             2, REF_SAME,     "iuf",   0, 0, REF_IF(minimum)},
    {"maximum",             2, REF_SAME,     "iuf",   0, 0, REF_IF(maximum)},
    {"fma",                 3, REF_SAME,     "f",     0, 0, REF_F(fma)},
    {"clip",                3, REF_SAME,     "iuf",   0, 0, REF_IF(clip)},
    {"floor_divide",        2, REF_SAME,     "iuf",   0, 1, REF_IF(floor_divide)},
    {"remainder",           2, REF_SAME,     "iuf",   0, 0, REF_IF(remainder)},
    {"pow",                 2, REF_SAME,     "iu",    0, 0, REF_I(pow)},
    {"equal",               2, REF_TO_BOOL,  "biufc", 0, 0, REF_IFC(equal)},
    {"not_equal",           2, REF_TO_BOOL,  "biufc", 0, 0, REF_IFC(not_equal)},
    {"less",                2, REF_TO_BOOL,  "iuf",   0, 0, REF_IF(less)},
    {"less_equal",          2, REF_TO_BOOL,  "iuf",   0, 0, REF_IF(less_equal)},
    {"greater",             2, REF_TO_BOOL,  "iuf",   0, 0, REF_IF(greater)},
    {"greater_equal",       2, REF_TO_BOOL,  "iuf",   0, 0, REF_IF(greater_equal)},
    {"logical_and",         2, REF_TO_BOOL,  "biuf",  0, 0, REF_IF(logical_and)},
    {"logical_or",          2, REF_TO_BOOL,  "biuf",  0, 0, REF_IF(logical_or)},
    {"logical_xor",         2, REF_TO_BOOL,  "biuf",  0, 0, REF_IF(logical_xor)},
    {"logical_not",         1, REF_TO_BOOL,  "biuf",  0, 0, REF_IF(logical_not)},
    {"bitwise_and",         2, REF_SAME,     "biu",   0, 0, REF_I(bitwise_and)},
    {"bitwise_or",          2, REF_SAME,     "biu",   0, 0, REF_I(bitwise_or)},
    {"bitwise_xor",         2, REF_SAME,     "biu",   0, 0, REF_I(bitwise_xor)},
    {"bitwise_invert",      1, REF_SAME,     "biu",   0, 0, REF_I(bitwise_invert)},
    {"bitwise_left_shift",  2, REF_SAME,     "iu",    0, 0, REF_I(bitwise_left_shift)},
    {"bitwise_right_shift", 2, REF_SAME,     "iu",    0, 0, REF_I(bitwise_right_shift)},
    {"isnan",               1, REF_TO_BOOL,  "iuf",   0, 0, REF_IF(isnan)},
    {"round",               1, REF_SAME,     "f",     0, 0, REF_F(round)},
    {"round",               1, REF_SAME,     "iu",    0, 0, REF_I(copy)},
    {"exp",                 1, REF_TO_FLOAT, "iuf",   2, 4, REF_L(expl)},
    {"log",                 1, REF_TO_FLOAT, "iuf",   2, 4, REF_L(logl)},
    {"sin",                 1, REF_SAME,     "s",     2, 4, REF_L(sinl)},
    {"tanh",                1, REF_TO_FLOAT, "iuf",   2, 4, REF_L(tanhl)},
    {"sigmoid",             1, REF_TO_FLOAT, "iuf",   2, 4, REF_L(ref_l_sigmoid)},
    {"silu",                1, REF_TO_FLOAT, "iuf",   2, 4, REF_L(ref_l_silu)},
    {"gelu",                1, REF_SAME,     "s",     2, 4, REF_L(ref_l_gelu)},
};
/* clang-format on */
#define REF_N_OPS ((int)(sizeof ref_ops / sizeof ref_ops[0]))

/* The classes letter of a dtype; 's' (single precision and narrower) is also an 'f'. */
static inline bool ref_takes(const ref_op *op, int dtype)
{
    const char *letter = "biufc";
    if (strchr(op->classes, letter[ref_dtypes[dtype].class_]))
        return true;
    return strchr(op->classes, 's') && ref_dtypes[dtype].class_ == REF_FLOAT && dtype != R_F64;
}

static inline int ref_result_dtype(const ref_op *op, int dtype)
{
    const ref_dtype *t = &ref_dtypes[dtype];
    switch (op->result) {
    case REF_TO_BOOL:
        return R_BOOL;
    case REF_TO_FLOAT:
        return t->class_ < REF_FLOAT ? R_F64 : dtype;
    case REF_TO_REAL:
        return dtype == R_C64 ? R_F32 : dtype == R_C128 ? R_F64 : dtype;
    default:
        return dtype;
    }
}

/* The result as a value of ref_result_dtype before its last rounding, which ref_store does. */
static inline ref_value ref_apply(const ref_op *op, int dtype, const ref_value *in)
{
    const ref_dtype *t = &ref_dtypes[dtype];
    const int result = ref_result_dtype(op, dtype);
    ref_value r = {0, 0, 0};
    if (t->class_ == REF_COMPLEX)
        return op->complex_(in[0], in[1], dtype == R_C128);
    if (t->class_ < REF_FLOAT && op->integer) {
        r.i = op->integer(in[0].i, in[1].i, in[2].i, t);
        if (op->result == REF_SAME)
            r.i = t->class_ == REF_BOOL ? r.i != 0 : ref_wrap(r.i, t);
        return r;
    }
    const bool is_f64 = dtype == R_F64 || t->class_ < REF_FLOAT;
    long double x[3] = {0, 0, 0};
    for (int k = 0; k < op->arity; k++) {
        x[k] = ref_as_real(dtype, in[k]);
        x[k] = is_f64 ? (double)x[k] : (float)x[k];
    }
    const long double y = !op->f32 ? op->real(x[0])
                          : is_f64 ? (long double)op->f64((double)x[0], (double)x[1], (double)x[2])
                                   : (long double)op->f32((float)x[0], (float)x[1], (float)x[2]);
    if (ref_dtypes[result].class_ == REF_BOOL)
        r.i = y != 0;
    else
        r.re = y;
    return r;
}

/* ---- The fixed tree (docs/reductions.md) ---------------------------------------------------------------------------- */

typedef struct ref_slot {
    ref_value v;
    bool present;
} ref_slot;
typedef ref_value (*ref_join)(ref_value a, ref_value b);

static inline ref_slot ref_join_slots(ref_slot a, ref_slot b, ref_join op)
{
    if (!a.present)
        return b;
    if (b.present)
        a.v = op(a.v, b.v);
    return a;
}

static inline ref_slot ref_leaf(const ref_slot *x, int64_t n, int lanes, ref_join op)
{
    ref_slot lane[64];
    for (int l = 0; l < lanes; l++) {
        lane[l].present = false;
        for (int64_t i = l; i < n; i += lanes)
            lane[l] = ref_join_slots(lane[l], x[i], op);
    }
    for (int h = lanes / 2; h; h /= 2)
        for (int l = 0; l < h; l++)
            lane[l] = ref_join_slots(lane[l], lane[l + h], op);
    return lane[0];
}

/* The tree over leaves [first, first + n) of `lanes` * 16 elements. */
static inline ref_slot ref_tree_over(const ref_slot *x, int64_t extent, int64_t first, int64_t n, int lanes,
                                     ref_join op)
{
    const int64_t leaf = lanes * 16;
    if (n == 1)
        return ref_leaf(x + first * leaf, extent - first * leaf < leaf ? extent - first * leaf : leaf, lanes, op);
    int64_t p = 1;
    while (p * 2 < n)
        p *= 2;
    return ref_join_slots(ref_tree_over(x, extent, first, p, lanes, op),
                          ref_tree_over(x, extent, first + p, n - p, lanes, op), op);
}

static inline ref_slot ref_tree(const ref_slot *x, int64_t n, int lanes, ref_join op)
{
    const ref_slot nothing = {{0, 0, 0}, false};
    return n ? ref_tree_over(x, n, 0, (n + lanes * 16 - 1) / (lanes * 16), lanes, op) : nothing;
}

#endif
