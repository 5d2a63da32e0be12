/* What the elementary functions are exactly, and how far from it a result lies. For float32 the C library's double functions
 * are exact enough: their error is below 1e-8 units in the last place of a float. For float64 it is MPFR at 200 bits. */
#ifndef DLK_TESTS_ACCURACY_REFERENCE_H
#define DLK_TESTS_ACCURACY_REFERENCE_H

#include <math.h>
#include <mpfr.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

enum { REFERENCE_BITS = 200 };

/* ---- float32: in double ---- */

static inline double double_exp(double x)
{
    return exp(x);
}
static inline double double_log(double x)
{
    return log(x);
}
static inline double double_sin(double x)
{
    return sin(x);
}
static inline double double_tanh(double x)
{
    return tanh(x);
}
static inline double double_sigmoid(double x)
{
    return x < 0 ? exp(x) / (1 + exp(x)) : 1 / (1 + exp(-x));
}
static inline double double_silu(double x)
{
    return isinf(x) ? fmax(x, -0.0) : x * double_sigmoid(x);
}
static inline double double_gelu(double x)
{
    return isinf(x) ? fmax(x, -0.0) : x * 0.5 * erfc(x * -0.70710678118654752440);
}
static inline double double_rsqrt(double x)
{
    return 1 / sqrt(x);
}

/* ---- float64: by MPFR, of finite x ---- */

static inline void exact_exp(mpfr_t out, const mpfr_t x)
{
    mpfr_exp(out, x, MPFR_RNDN);
}
static inline void exact_log(mpfr_t out, const mpfr_t x)
{
    mpfr_log(out, x, MPFR_RNDN);
}
static inline void exact_sin(mpfr_t out, const mpfr_t x)
{
    mpfr_sin(out, x, MPFR_RNDN);
}
static inline void exact_tanh(mpfr_t out, const mpfr_t x)
{
    mpfr_tanh(out, x, MPFR_RNDN);
}
static inline void exact_sigmoid(mpfr_t out, const mpfr_t x)
{
    mpfr_neg(out, x, MPFR_RNDN);
    mpfr_exp(out, out, MPFR_RNDN);
    mpfr_add_ui(out, out, 1, MPFR_RNDN);
    mpfr_ui_div(out, 1, out, MPFR_RNDN);
}
static inline void exact_silu(mpfr_t out, const mpfr_t x)
{
    exact_sigmoid(out, x);
    mpfr_mul(out, out, x, MPFR_RNDN);
}
static inline void exact_gelu(mpfr_t out, const mpfr_t x)
{
    mpfr_t root;
    mpfr_init2(root, REFERENCE_BITS);
    mpfr_sqrt_ui(root, 2, MPFR_RNDN);
    mpfr_div(root, x, root, MPFR_RNDN);
    mpfr_neg(root, root, MPFR_RNDN);
    mpfr_erfc(out, root, MPFR_RNDN);
    mpfr_mul(out, out, x, MPFR_RNDN);
    mpfr_div_2ui(out, out, 1, MPFR_RNDN);
    mpfr_clear(root);
}
static inline void exact_rsqrt(mpfr_t out, const mpfr_t x)
{
    mpfr_rec_sqrt(out, x, MPFR_RNDN);
    if (mpfr_zero_p(x)) /* IEEE 754, unlike MPFR: rSqrt(-0) is -inf */
        mpfr_set_inf(out, mpfr_signbit(x) ? -1 : 1);
}

typedef struct reference {
    const char *name;
    double bound_f32, bound_f64; /* units in the last place; 0: not offered */
    double (*of_double)(double x);
    void (*exact)(mpfr_t out, const mpfr_t x);
} reference;

static const reference references[] = {
#define FUNCTION(name, f32, f64) {#name, f32, f64, double_##name, exact_##name},
#include "tests/accuracy/functions.def"
#undef FUNCTION
};
enum { N_REFERENCES = sizeof references / sizeof references[0] };

/* ---- Distance ---- */

/* |found - exact| in units in the last place of a float at `exact`. Beyond the largest float there is one more value, 2^128,
 * which infinity stands for. A zero or NaN of the wrong kind is infinitely far. */
static inline double ulp_error_f32(float found, double exact)
{
    if (isnan(found) || isnan(exact))
        return isnan(found) && isnan(exact) ? 0 : INFINITY;
    if ((found == 0 || exact == 0) && !signbit(found) != !signbit(exact))
        return INFINITY;
    const double end = 0x1p128, to = fabs(exact) > end ? copysign(end, exact) : exact;
    const double from = isinf(found) ? copysign(end, found) : found;
    uint64_t bits;
    memcpy(&bits, &to, sizeof bits);
    int e = (int)(bits >> 52 & 2047) - 1023;
    e = e < -126 ? -126 : e > 127 ? 127 : e;
    bits = (uint64_t)(1023 + 23 - e) << 52; /* 2^(23 - e) */
    double scale;
    memcpy(&scale, &bits, sizeof scale);
    return fabs(from - to) * scale;
}

/* The same for a double; overwrites `exact`. */
static inline double ulp_error_f64(double found, mpfr_t exact)
{
    if (isnan(found) || mpfr_nan_p(exact))
        return isnan(found) && mpfr_nan_p(exact) ? 0 : INFINITY;
    if ((found == 0 || mpfr_zero_p(exact)) && !signbit(found) != !mpfr_signbit(exact))
        return INFINITY;
    if (mpfr_inf_p(exact) || mpfr_get_exp(exact) > 1024)
        mpfr_set_si_2exp(exact, mpfr_signbit(exact) ? -1 : 1, 1024, MPFR_RNDN);
    long e = mpfr_zero_p(exact) ? -1022 : mpfr_get_exp(exact) - 1;
    e = e < -1022 ? -1022 : e > 1023 ? 1023 : e;
    if (isinf(found)) {
        mpfr_t end;
        mpfr_init2(end, 53);
        mpfr_set_si_2exp(end, found < 0 ? -1 : 1, 1024, MPFR_RNDN);
        mpfr_sub(exact, exact, end, MPFR_RNDN);
        mpfr_clear(end);
    } else {
        mpfr_sub_d(exact, exact, found, MPFR_RNDN);
    }
    mpfr_mul_2si(exact, exact, 52 - e, MPFR_RNDN);
    return fabs(mpfr_get_d(exact, MPFR_RNDN));
}

#endif
