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

enum { TARGETS_MAX = 8 };

typedef struct options {
    uint64_t step, points;
    char targets[TARGETS_MAX][16];
    int n_targets;
    char *const *names;
    int n_names;
} options;

/* One function of one dtype for one target, over all inputs. */
typedef struct run {
    const char *target;
    kernel kernel;
    bool is_open;
    char why[200]; /* it is not */
    double worst, sum, at, found;
    uint64_t n;
} run;

static void count(run *r, double error, double at, double found)
{
    r->n++;
    r->sum += error;
    if (error > r->worst) {
        r->worst = error;
        r->at = at;
        r->found = found;
    }
}

static void run_kernel(run *r, const void *x, void *y)
{
    if (!r->is_open || kernel_run(&r->kernel, x, y) == DLK_OK)
        return;
    r->worst = INFINITY;
    r->is_open = false;
    snprintf(r->why, sizeof r->why, "%s", dlk_last_error());
}

/* The reference costs more than the kernels: it is asked once for all targets. */
static void measure_f32(const reference *f, run *runs, const options *o)
{
    static float x[KERNEL_BLOCK], y[KERNEL_BLOCK];
    static double exact[KERNEL_BLOCK];
    for (uint64_t first = 0; first < 1ull << 32; first += o->step * KERNEL_BLOCK) {
        for (uint64_t i = 0; i < KERNEL_BLOCK; i++) {
            const uint32_t bits = (uint32_t)(first + i * o->step);
            memcpy(&x[i], &bits, sizeof bits);
            exact[i] = f->of_double(x[i]);
        }
        for (int t = 0; t < o->n_targets; t++) {
            run_kernel(&runs[t], x, y);
            for (int i = 0; runs[t].is_open && i < KERNEL_BLOCK; i++)
                count(&runs[t], ulp_error_f32(y[i], exact[i]), x[i], y[i]);
        }
    }
}

static void count_f64(const reference *f, run *runs, const options *o, const double *x, double (*y)[KERNEL_BLOCK])
{
    mpfr_t in, exact, copy;
    mpfr_init2(in, 53);
    mpfr_init2(exact, REFERENCE_BITS);
    mpfr_init2(copy, REFERENCE_BITS);
    for (int i = 0; i < KERNEL_BLOCK; i++) {
        if (!isfinite(x[i]))
            continue; /* tests/test_math.c has these */
        mpfr_set_d(in, x[i], MPFR_RNDN);
        f->exact(exact, in);
        for (int t = 0; t < o->n_targets; t++) {
            mpfr_set(copy, exact, MPFR_RNDN);
            if (runs[t].is_open)
                count(&runs[t], ulp_error_f64(y[t][i], copy), x[i], y[t][i]);
        }
    }
    mpfr_clear(in);
    mpfr_clear(exact);
    mpfr_clear(copy);
}

static void measure_f64(const reference *f, run *runs, const options *o)
{
    static double x[KERNEL_BLOCK], y[TARGETS_MAX][KERNEL_BLOCK];
    uint64_t state = 1;
    for (uint64_t first = 0; first < o->points; first += KERNEL_BLOCK) {
        for (uint64_t i = 0; i < KERNEL_BLOCK; i++)
            x[i] = points_f64(first + i, &state);
        for (int t = 0; t < o->n_targets; t++)
            run_kernel(&runs[t], x, y[t]);
        count_f64(f, runs, o, x, y);
    }
}

static struct {
    int held, over, skipped;
} counted;

static void print(const reference *f, int bits, const run *r)
{
    const bool held = r->is_open && r->worst <= (bits == 32 ? f->bound_f32 : f->bound_f64);
    const bool failed = !held && r->worst >= 0;
    if (!r->is_open)
        printf("%s %s f%d %s: %s\n", failed ? "failed" : "skipped", f->name, bits, r->target, r->why);
    else
        printf("%-10s f%d  %-6s %9.5f %9.5f  %-24a %-24a%s\n", f->name, bits, r->target, r->worst,
               r->sum / (double)r->n, r->at, r->found, held ? "" : "  over its bound");
    fflush(stdout);
    counted.held += held;
    counted.over += failed;
    counted.skipped += !r->is_open && !failed;
}

static void measure(const options *o, const reference *f, int bits)
{
    static run runs[TARGETS_MAX];
    for (int t = 0; t < o->n_targets; t++) {
        run *r = &runs[t];
        *r = (run){.target = o->targets[t], .worst = -1};
        r->is_open = kernel_open(&r->kernel, f->name, bits, KERNEL_BLOCK, r->target) == DLK_OK;
        if (!r->is_open)
            snprintf(r->why, sizeof r->why, "%s", dlk_last_error());
    }
    if (bits == 32)
        measure_f32(f, runs, o);
    else
        measure_f64(f, runs, o);
    for (int t = 0; t < o->n_targets; t++) {
        print(f, bits, &runs[t]);
        kernel_close(&runs[t].kernel);
    }
}

static bool is_wanted(const options *o, const char *name)
{
    for (int i = 0; i < o->n_names; i++)
        if (!strcmp(o->names[i], name))
            return true;
    return !o->n_names;
}

static void set_targets(options *o, const char *list)
{
    for (o->n_targets = 0; *list && o->n_targets < TARGETS_MAX; o->n_targets++) {
        const size_t length = strcspn(list, ",");
        snprintf(o->targets[o->n_targets], sizeof o->targets[0], "%.*s", (int)length, list);
        list += length + (list[length] == ',');
    }
}

int main(int argc, char **argv)
{
    options o = {.step = 1021, .points = 1 << 18};
    int i = 1;
    set_targets(&o, "v2,v3");
    for (; i < argc && argv[i][0] == '-'; i++) {
        if (!strcmp(argv[i], "--full"))
            o.step = 1;
        else if (!strcmp(argv[i], "--every") && i + 1 < argc)
            o.step = strtoull(argv[++i], NULL, 0);
        else if (!strcmp(argv[i], "--doubles") && i + 1 < argc)
            o.points = strtoull(argv[++i], NULL, 0);
        else if (!strcmp(argv[i], "--target") && i + 1 < argc)
            set_targets(&o, argv[++i]);
        else
            return fprintf(stderr, "accuracy: '%s' is not an option; see the head of tests/accuracy/accuracy.c\n",
                           argv[i]),
                   2;
    }
    o.names = argv + i;
    o.n_names = argc - i;
    printf("%-10s %-4s %-6s %9s %9s  %-24s %-24s\n", "function", "type", "target", "worst", "mean", "at", "result");
    for (const reference *f = references; f < references + N_REFERENCES; f++)
        for (int bits = 32; bits <= 64; bits += 32)
            if (is_wanted(&o, f->name) && (bits == 32 ? o.step && f->bound_f32 > 0 : o.points && f->bound_f64 > 0))
                measure(&o, f, bits);
    printf("%d passed, %d failed, %d skipped\n", counted.held, counted.over, counted.skipped);
    return counted.over ? 1 : counted.held ? 0 : 77;
}
