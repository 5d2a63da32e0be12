/* The elementary functions against what they are exactly: special cases, tails, and error bounds over edges and random
 * numbers, of the built programs with mad fused and not fused and of kernels for every instruction set. All floats are
 * tried by hand, with tests/accuracy. */
#include "tests/test.h"

#include "tests/accuracy/kernel.h"
#include "tests/accuracy/points.h"
#include "tests/accuracy/reference.h"
#include "tests/op_eval.h"

enum { POINTS_OF_PROGRAMS = POINTS_EDGES * 64 + 4000, POINTS_OF_KERNELS = 1 << 15 };

static uint64_t word_of(double x, int bits)
{
    return bits == 32 ? word_f32((float)x) : word_f64(x);
}

static double number_of(uint64_t word, int bits)
{
    return bits == 32 ? f32_of(word) : f64_of(word);
}

static double error_of(const reference *f, int bits, double x, double y)
{
    if (bits == 32)
        return ulp_error_f32((float)y, f->of_double(x));
    if (!isfinite(x))
        return 0; /* the tables below have these */
    mpfr_t in, exact;
    mpfr_init2(in, 53);
    mpfr_init2(exact, REFERENCE_BITS);
    mpfr_set_d(in, x, MPFR_RNDN);
    f->exact(exact, in);
    const double error = ulp_error_f64(y, exact);
    mpfr_clear(in);
    mpfr_clear(exact);
    return error;
}

static double bound_of(const reference *f, int bits)
{
    return bits == 32 ? f->bound_f32 : f->bound_f64;
}

/* ---- Special cases ------------------------------------------------------------------------------------------------------- */

typedef struct special {
    const char *op;
    int bits; /* 0: both */
    double x, y;
    const char *source;
} special;

static const special specials[] = {
    {"exp", 0, 0.0, 1.0, "C F.10.3.1"},
    {"exp", 0, -0.0, 1.0, "C F.10.3.1"},
    {"exp", 0, -INFINITY, 0.0, "C F.10.3.1"},
    {"exp", 0, INFINITY, INFINITY, "C F.10.3.1"},
    {"exp", 0, NAN, NAN, "C F.10 11"},
    {"exp", 0, 1e30, INFINITY, "beyond the largest number"},
    {"exp", 0, -1e30, 0.0, "below half the smallest"},
    {"exp", 32, 0x1.62e43p+6, INFINITY, "the first that overflows"},
    {"exp", 32, 0x1.62e42ep+6, 0x1.ffff08p+127, "the last that does not"},
    {"exp", 64, 0x1.62e42fefa39fp+9, INFINITY, "the first that overflows"},
    {"exp", 64, 0x1.62e42fefa39efp+9, 0x1.fffffffffff2ap+1023, "the last that does not"},
    {"log", 0, 0.0, -INFINITY, "C F.10.3.7"},
    {"log", 0, -0.0, -INFINITY, "C F.10.3.7"},
    {"log", 0, 1.0, 0.0, "C F.10.3.7"},
    {"log", 0, -1.0, NAN, "C F.10.3.7"},
    {"log", 0, -0x1p-149, NAN, "C F.10.3.7"},
    {"log", 0, -INFINITY, NAN, "C F.10.3.7"},
    {"log", 0, INFINITY, INFINITY, "C F.10.3.7"},
    {"log", 0, NAN, NAN, "C F.10 11"},
    {"sin", 32, 0.0, 0.0, "C F.10.1.6"},
    {"sin", 32, -0.0, -0.0, "C F.10.1.6"},
    {"sin", 32, INFINITY, NAN, "C F.10.1.6"},
    {"sin", 32, -INFINITY, NAN, "C F.10.1.6"},
    {"sin", 32, NAN, NAN, "C F.10 11"},
    {"sin", 32, 0x1p-149, 0x1p-149, "x for a tiny x"},
    {"tanh", 0, 0.0, 0.0, "C F.10.2.6"},
    {"tanh", 0, -0.0, -0.0, "C F.10.2.6"},
    {"tanh", 0, INFINITY, 1.0, "C F.10.2.6"},
    {"tanh", 0, -INFINITY, -1.0, "C F.10.2.6"},
    {"tanh", 0, NAN, NAN, "C F.10 11"},
    {"tanh", 0, -0x1p-149, -0x1p-149, "x for a tiny x"},
    {"tanh", 64, 0x1p-1074, 0x1p-1074, "x for a tiny x"},
    {"sigmoid", 0, 0.0, 0.5, "1 / (1 + 1)"},
    {"sigmoid", 0, -0.0, 0.5, "1 / (1 + 1)"},
    {"sigmoid", 0, INFINITY, 1.0, "the limit"},
    {"sigmoid", 0, -INFINITY, 0.0, "the limit"},
    {"sigmoid", 0, NAN, NAN, "C F.10 11"},
    {"silu", 0, 0.0, 0.0, "0 * 0.5"},
    {"silu", 0, -0.0, -0.0, "-0 * 0.5"},
    {"silu", 0, INFINITY, INFINITY, "the limit"},
    {"silu", 0, -INFINITY, -0.0, "the limit, from below"},
    {"silu", 0, NAN, NAN, "C F.10 11"},
    {"gelu", 0, 0.0, 0.0, "0 * 0.5"},
    {"gelu", 0, -0.0, -0.0, "-0 * 0.5"},
    {"gelu", 0, INFINITY, INFINITY, "the limit"},
    {"gelu", 0, -INFINITY, -0.0, "the limit, from below"},
    {"gelu", 0, NAN, NAN, "C F.10 11"},
    {"rsqrt", 0, 0.0, INFINITY, "C23 F.10.4.9"},
    {"rsqrt", 0, -0.0, -INFINITY, "C23 F.10.4.9"},
    {"rsqrt", 0, INFINITY, 0.0, "C23 F.10.4.9"},
    {"rsqrt", 0, -1.0, NAN, "C23 F.10.4.9"},
    {"rsqrt", 0, NAN, NAN, "C F.10 11"},
    {"rsqrt", 0, 0x1p-126, 0x1p63, "an exact power"},
    {"sqrt", 0, -0.0, -0.0, "C F.10.4.10"},
    {"sqrt", 0, -1.0, NAN, "C F.10.4.10"},
    {"sqrt", 0, INFINITY, INFINITY, "C F.10.4.10"},
};

static bool is_offered(const char *op, int bits)
{
    for (int i = 0; i < N_REFERENCES; i++)
        if (!strcmp(references[i].name, op))
            return bound_of(&references[i], bits) > 0;
    return true;
}

static void check_special(const special *s, int bits)
{
    op_eval o;
    if (op_eval_begin(&o, s->op, bits == 32 ? "f32" : "f64") != DLK_OK) {
        CHECK_MSG(false, "%s f%d: %s", s->op, bits, dlk_last_error());
        return;
    }
    const double y = number_of(op_map(&o, word_of(s->x, bits), 0, 0), bits);
    CHECK_MSG((isnan(y) && isnan(s->y)) || (y == s->y && !signbit(y) == !signbit(s->y)),
              "%s(f%d %a) is %a, expected %a: %s", s->op, bits, s->x, y, s->y, s->source);
    op_eval_end(&o);
}

TEST(special_cases_are_exact)
{
    for (size_t i = 0; i < sizeof specials / sizeof specials[0]; i++)
        for (int bits = 32; bits <= 64; bits += 32)
            if ((!specials[i].bits || specials[i].bits == bits) && is_offered(specials[i].op, bits))
                check_special(&specials[i], bits);
}

/* ---- Bounds -------------------------------------------------------------------------------------------------------------- */

static void check_program(const reference *f, int bits, bool fused)
{
    op_eval o;
    uint64_t state = 7;
    double worst = -1, at = 0;
    if (op_eval_begin(&o, f->name, bits == 32 ? "f32" : "f64") != DLK_OK) {
        CHECK_MSG(false, "%s f%d: %s", f->name, bits, dlk_last_error());
        return;
    }
    uint64_t word;
    o.words[0][0] = &word;
    o.is_one[0] = true;
    prog_eval_begin(&o.eval, o.built.prog, op_eval_load, &o, 1);
    o.eval.fused = fused;
    for (uint64_t i = 0; i < POINTS_OF_PROGRAMS; i++) {
        word = word_of(points_f64(i, &state), bits);
        const double x = number_of(word, bits), y = number_of(prog_eval_output(&o.eval, 0, 0, 0), bits);
        const double error = error_of(f, bits, x, y);
        if (error > worst)
            worst = error, at = x;
    }
    CHECK_MSG(worst <= bound_of(f, bits), "%s f%d %s: off by %.4f units in the last place at %a", f->name, bits,
              fused ? "fused" : "not fused", worst, at);
    prog_eval_end(&o.eval);
    op_eval_end(&o);
}

TEST(programs_hold_their_bounds_fused_and_not)
{
    for (int i = 0; i < N_REFERENCES; i++)
        for (int bits = 32; bits <= 64; bits += 32)
            for (int fused = 0; bound_of(&references[i], bits) > 0 && fused < 2; fused++)
                check_program(&references[i], bits, fused);
}

/* The points and the results for one function of one dtype, by one target. False where this machine lacks the target. */
static bool run_points(const reference *f, int bits, const char *target, void *x, void *y)
{
    kernel k;
    uint64_t state = 11;
    for (uint64_t i = 0; i < POINTS_OF_KERNELS; i++) {
        const double point = points_f64(i, &state);
        if (bits == 32)
            ((float *)x)[i] = (float)point;
        else
            ((double *)x)[i] = point;
    }
    const bool can = kernel_open(&k, f->name, bits, POINTS_OF_KERNELS, target) == DLK_OK;
    if (can)
        CHECK_MSG(kernel_run(&k, x, y) == DLK_OK, "%s f%d %s: %s", f->name, bits, target, dlk_last_error());
    kernel_close(&k);
    return can;
}

static double nth(const void *values, int bits, int i)
{
    return bits == 32 ? ((const float *)values)[i] : ((const double *)values)[i];
}

static bool check_kernel(const reference *f, int bits, const char *target)
{
    static double x[POINTS_OF_KERNELS], y[POINTS_OF_KERNELS];
    double worst = -1, at = 0;
    if (!run_points(f, bits, target, x, y))
        return false;
    for (int i = 0; i < POINTS_OF_KERNELS; i++) {
        const double error = error_of(f, bits, nth(x, bits, i), nth(y, bits, i));
        if (error > worst)
            worst = error, at = nth(x, bits, i);
    }
    CHECK_MSG(worst <= bound_of(f, bits), "%s f%d %s: off by %.4f units in the last place at %a", f->name, bits, target,
              worst, at);
    return true;
}

static void check_kernels(const char *target)
{
    for (int i = 0; i < N_REFERENCES; i++)
        for (int bits = 32; bits <= 64; bits += 32)
            if (bound_of(&references[i], bits) > 0 && !check_kernel(&references[i], bits, target))
                SKIP(dlk_last_error());
}

TEST(kernels_of_v2_hold_their_bounds)
{
    check_kernels("v2");
}
TEST(kernels_of_v3_hold_their_bounds)
{
    check_kernels("v3");
}
TEST(kernels_of_v4_hold_their_bounds)
{
    check_kernels("v4");
}

/* Where two vectors of results first differ, NaN payloads aside; -1 where they do not. */
static int first_difference(const void *a, const void *b, int bits)
{
    for (int i = 0; i < POINTS_OF_KERNELS; i++) {
        const double x = nth(a, bits, i), y = nth(b, bits, i);
        if (!(isnan(x) && isnan(y)) && memcmp(&x, &y, sizeof x) != 0)
            return i;
    }
    return -1;
}

static void check_same_bits(const reference *f, int bits, const char *a, const char *b)
{
    static double x[POINTS_OF_KERNELS], y[2][POINTS_OF_KERNELS];
    CHECK(run_points(f, bits, a, x, y[0]) && run_points(f, bits, b, x, y[1]));
    const int i = first_difference(y[0], y[1], bits);
    CHECK_MSG(i < 0, "%s f%d at %a: %s gives %a, %s gives %a", f->name, bits, nth(x, bits, i), a, nth(y[0], bits, i), b,
              nth(y[1], bits, i));
}

/* Targets with a fast fma give the same bits, and so does the interpreter. */
static void check_against_interpreter(const char *target)
{
    static double x[POINTS_OF_KERNELS], y[POINTS_OF_KERNELS];
    if (!run_points(&references[0], 32, target, x, y))
        SKIP(dlk_last_error());
    for (int i = 0; i < N_REFERENCES; i++)
        for (int bits = 32; bits <= 64; bits += 32)
            if (bound_of(&references[i], bits) > 0)
                check_same_bits(&references[i], bits, target, "interp");
}

TEST(kernels_of_v3_agree_with_the_interpreter_to_the_bit)
{
    check_against_interpreter("v3");
}
TEST(kernels_of_v4_agree_with_the_interpreter_to_the_bit)
{
    check_against_interpreter("v4");
}
