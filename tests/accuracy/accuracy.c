/* Measures the elementary functions and prints a table: function, dtype, instruction set, worst error in units in the last
 * place, where, and the mean. All 2^32 floats with --full, else every 1021st; doubles at edges and random points.
 *
 *     ./run accuracy [--full | --every N] [--doubles N] [--target v2,v3] [FUNCTION ...]
 *
 * A full run of one float function takes some minutes on one core. Exit status 1 when a bound is not held, 77 when nothing
 * could be measured. */
#include <stdio.h>
#include <stdlib.h>

#include "tests/accuracy/kernel.h"
#include "tests/accuracy/points.h"
#include "tests/accuracy/reference.h"

typedef struct tally {
    double worst, sum, at, found;
    uint64_t n;
} tally;

static void count(tally *t, double error, double at, double found)
{
    t->n++;
    t->sum += error;
    if (error > t->worst) {
        t->worst = error;
        t->at = at;
        t->found = found;
    }
}

static bool measure_f32(const reference *f, const kernel *k, uint64_t step, tally *t)
{
    static uint32_t x[KERNEL_BLOCK];
    static float in[KERNEL_BLOCK], y[KERNEL_BLOCK];
    for (uint64_t first = 0; first < 1ull << 32; first += step * KERNEL_BLOCK) {
        for (uint64_t i = 0; i < KERNEL_BLOCK; i++)
            x[i] = (uint32_t)(first + i * step);
        memcpy(in, x, sizeof in);
        if (kernel_run(k, in, y) != DLK_OK)
            return false;
        for (int i = 0; i < KERNEL_BLOCK; i++)
            count(t, ulp_error_f32(y[i], f->of_double(in[i])), in[i], y[i]);
    }
    return true;
}

static bool measure_f64(const reference *f, const kernel *k, uint64_t points, tally *t)
{
    static double x[KERNEL_BLOCK], y[KERNEL_BLOCK];
    uint64_t state = 1;
    mpfr_t in, exact;
    mpfr_init2(in, 53);
    mpfr_init2(exact, REFERENCE_BITS);
    bool ok = true;
    for (uint64_t first = 0; ok && first < points; first += KERNEL_BLOCK) {
        for (uint64_t i = 0; i < KERNEL_BLOCK; i++)
            x[i] = points_f64(first + i, &state);
        ok = kernel_run(k, x, y) == DLK_OK;
        for (int i = 0; ok && i < KERNEL_BLOCK; i++) {
            if (!isfinite(x[i]))
                continue; /* tests/test_math.c has these */
            mpfr_set_d(in, x[i], MPFR_RNDN);
            f->exact(exact, in);
            count(t, ulp_error_f64(y[i], exact), x[i], y[i]);
        }
    }
    mpfr_clear(in);
    mpfr_clear(exact);
    return ok;
}

typedef struct options {
    uint64_t step, points;
    const char *targets;
    char *const *names;
    int n_names;
} options;

static bool is_wanted(const options *o, const char *name)
{
    for (int i = 0; i < o->n_names; i++)
        if (!strcmp(o->names[i], name))
            return true;
    return !o->n_names;
}

static struct {
    int held, over, skipped;
} counted;

static void measure(const options *o, const reference *f, int bits, const char *target)
{
    const double bound = bits == 32 ? f->bound_f32 : f->bound_f64;
    kernel k;
    tally t = {.worst = -1};
    const bool opened = kernel_open(&k, f->name, bits, KERNEL_BLOCK, target) == DLK_OK;
    const bool ran = opened && (bits == 32 ? measure_f32(f, &k, o->step, &t) : measure_f64(f, &k, o->points, &t));
    const bool held = ran && t.worst <= bound;
    kernel_close(&k);
    if (!ran)
        printf("%s %s f%d %s: %s\n", opened ? "failed" : "skipped", f->name, bits, target, dlk_last_error());
    else
        printf("%-10s f%d  %-6s %9.5f %9.5f  %-24a %-24a%s\n", f->name, bits, target, t.worst, t.sum / (double)t.n,
               t.at, t.found, held ? "" : "  over its bound");
    fflush(stdout);
    counted.held += held;
    counted.over += opened && !held;
    counted.skipped += !opened;
}

static void measure_targets(const options *o, const reference *f)
{
    char target[16];
    for (const char *next = o->targets; *next;) {
        const size_t length = strcspn(next, ",");
        snprintf(target, sizeof target, "%.*s", (int)length, next);
        next += length + (next[length] == ',');
        if (o->step && f->bound_f32 > 0)
            measure(o, f, 32, target);
        if (o->points && f->bound_f64 > 0)
            measure(o, f, 64, target);
    }
}

int main(int argc, char **argv)
{
    options o = {.step = 1021, .points = 1 << 18, .targets = "v2,v3"};
    int i = 1;
    for (; i < argc && argv[i][0] == '-'; i++) {
        if (!strcmp(argv[i], "--full"))
            o.step = 1;
        else if (!strcmp(argv[i], "--every") && i + 1 < argc)
            o.step = strtoull(argv[++i], NULL, 0);
        else if (!strcmp(argv[i], "--doubles") && i + 1 < argc)
            o.points = strtoull(argv[++i], NULL, 0);
        else if (!strcmp(argv[i], "--target") && i + 1 < argc)
            o.targets = argv[++i];
        else
            return fprintf(stderr, "accuracy: '%s' is not an option; see the head of tests/accuracy/accuracy.c\n",
                           argv[i]),
                   2;
    }
    o.names = argv + i;
    o.n_names = argc - i;
    printf("%-10s %-4s %-6s %9s %9s  %-24s %-24s\n", "function", "type", "target", "worst", "mean", "at", "result");
    for (const reference *f = references; f < references + N_REFERENCES; f++)
        if (is_wanted(&o, f->name))
            measure_targets(&o, f);
    printf("%d passed, %d failed, %d skipped\n", counted.held, counted.over, counted.skipped);
    return counted.over ? 1 : counted.held ? 0 : 77;
}
