/* Every elementwise operation x dtype x layout, generated from ref_scalar.h's
 * table: dlk's result against the scalar reference, and against the interpreter
 * to the bit. Prints the coverage matrix; a combination that dlk refuses and
 * that expected_unsupported.txt does not list fails. DLK_CPU_TARGET chooses the
 * instruction set; DLK_TEST_SEED the random values. */
#include "tests/test.h"

#include "dlk/dlk.h"
#include "tests/ref_scalar.h"
#include "tests/tensors.h"

typedef enum cell { CELL_NOT_TAKEN, CELL_CASES, CELL_REFUSED } cell;
static struct {
    cell state;
    int cases;
    char why[160];
} matrix[REF_N_OPS][R_COUNT];

/* |found - wanted| in units of the last place of `dtype` at the wanted value.
 */
static double ulp_error(int dtype, long double found, long double wanted)
{
    const ref_dtype *t = &ref_dtypes[dtype];
    const int bias = (1 << (t->exp - 1)) - 1;
    const long double rounded = ref_decode_float(ref_encode_float(wanted, t), t);
    if (!isfinite(rounded) || !isfinite(found))
        return (isnan(found) && isnan(rounded)) || found == rounded ? 0 : INFINITY;
    int e;
    frexpl(wanted, &e);
    int unit = e - 1 - t->man;
    if (wanted == 0 || unit < 1 - bias - t->man)
        unit = 1 - bias - t->man;
    return (double)fabsl(ldexpl(found - wanted, -unit));
}

/* How far a result of an operation with error bound `ulp` in the dtype it
 * computes in may be off in the dtype stored. */
static double allowed_ulp(const ref_op *op, int computed, int stored)
{
    const bool is_f64 = computed == R_F64 || computed == R_C128 || ref_dtypes[computed].class_ < REF_FLOAT;
    const double ulp = is_f64 ? op->ulp_f64 : op->ulp_f32;
    const int man = is_f64 ? 52 : 23;
    return stored == computed || ref_dtypes[stored].man == man ? ulp : 0.5 + ldexp(ulp, ref_dtypes[stored].man - man);
}

static bool part_is_right(int dtype, long double found, long double wanted, double ulp)
{
    if (ulp > 0)
        return ulp_error(dtype, found, wanted) <= ulp &&
               (wanted != 0 || found != 0 || !signbit(wanted) == !signbit(found));
    const ref_dtype *t = &ref_dtypes[dtype];
    const long double rounded = ref_decode_float(ref_encode_float(wanted, t), t);
    return (isnan(found) && isnan(rounded)) || (found == rounded && !signbit(found) == !signbit(rounded));
}

static bool is_right(const ref_op *op, int computed, int stored, ref_value found, ref_value wanted)
{
    if (ref_dtypes[stored].class_ < REF_FLOAT)
        return found.i == wanted.i;
    double ulp = allowed_ulp(op, computed, stored);
    if (ref_dtypes[stored].class_ == REF_COMPLEX && ulp > 0) { /* normwise: parts may cancel */
        const long double norm = hypotl(wanted.re, wanted.im);
        if (!isfinite((double)norm) || norm == 0 || norm > 1e30L || norm < 1e-25L)
            return true; /* specials of complex division have tests of their own */
        return hypotl(found.re - wanted.re, found.im - wanted.im) <= ulp * norm * ldexpl(1, -ref_dtypes[stored].man);
    }
    return part_is_right(stored, found.re, wanted.re, ulp) &&
           (ref_dtypes[stored].class_ != REF_COMPLEX || part_is_right(stored, found.im, wanted.im, ulp));
}

static bool check_elements(const ref_op *op, int dtype, int result, const tensor *in, const DLTensor *out,
                           const char *what)
{
    tensor view = {.dl = *out, .dtype = result};
    index_space space = index_space_of(out);
    if (index_empty(&space))
        return true;
    do {
        ref_value x[3] = {{0, 0, 0}, {0, 0, 0}, {0, 0, 0}};
        for (int k = 0; k < op->arity; k++)
            x[k] = ref_load(dtype, tensor_broadcast_at(&in[k], &space));
        const ref_value wanted = ref_apply(op, dtype, x);
        const ref_value found = ref_load(result, tensor_at(&view, space.index));
        if (!is_right(op, dtype, result, found, wanted)) {
            printf("%s %s %s at %s: (%.20Lg %.20Lg %.20Lg | %" PRId64 " %" PRId64 " %" PRId64
                   ") gave %.20Lg %.20Lg | %" PRId64 ", expected %.20Lg %.20Lg | %" PRId64 "\n",
                   op->name, ref_dtypes[dtype].name, what, index_text(&space), x[0].re, x[1].re, x[2].re, x[0].i,
                   x[1].i, x[2].i, found.re, found.im, found.i, wanted.re, wanted.im, wanted.i);
            test_failed = true;
            return false;
        }
    } while (index_next(&space));
    return true;
}

static dlk_status launch(const char *name, const tensor *in, int n, dlk_output *out)
{
    const dlk_op *op;
    const dlk_status found = dlk_find(NULL, name, &op);
    if (found != DLK_OK)
        return found;
    dlk_input inputs[3] = {{0}};
    for (int k = 0; k < n; k++)
        inputs[k].tensor = &in[k].dl;
    return dlk_launch(NULL, op, inputs, n, out, 1, NULL);
}

/* True where mad rounds otherwise than in the interpreter: elementary functions then keep their bound, not their bits. */
static bool has_other_bits(const ref_op *op)
{
    const char *level = getenv("DLK_CPU_TARGET");
    return level && !strcmp(level, "v2") && (op->ulp_f32 > 0 || op->ulp_f64 > 0);
}

/* The same launch by the interpreter must give the same bits, NaN payloads aside. */
static void check_against_interpreter(const ref_op *op, int result, const tensor *in, const DLTensor *got,
                                      const char *what)
{
    dlk_output out = {0};
    dlk_option_set("backend", "interp");
    const dlk_status status = launch(op->name, in, op->arity, &out);
    dlk_option_set("backend", "");
    CHECK_MSG(status == DLK_OK, "%s %s: %s", op->name, what, dlk_last_error());
    if (status != DLK_OK)
        return;
    tensor a = {.dl = *got, .dtype = result}, b = {.dl = out.result->dl_tensor, .dtype = result};
    index_space space = index_space_of(got);
    if (!index_empty(&space))
        do {
            const ref_value x = ref_load(result, tensor_at(&a, space.index)),
                            y = ref_load(result, tensor_at(&b, space.index));
            const bool same =
                x.i == y.i && ((isnan(x.re) && isnan(y.re)) || (x.re == y.re && !signbit(x.re) == !signbit(y.re)));
            CHECK_MSG(same, "%s %s: compiled %.20Lg, interpreted %.20Lg", op->name, what, x.re, y.re);
            if (!same)
                break;
        } while (index_next(&space));
    out.result->deleter(out.result);
}

static bool is_listed_unsupported(const char *op, const char *dtype)
{
    FILE *f = fopen(DLK_SOURCE_DIR "/tests/expected_unsupported.txt", "r");
    char line[256], a[64], b[64];
    bool listed = false;
    while (f && !listed && fgets(line, sizeof line, f))
        listed = sscanf(line, "%63s %63s", a, b) == 2 && a[0] != '#' && !strcmp(a, op) &&
                 (!strcmp(b, dtype) || !strcmp(b, "*"));
    if (f)
        fclose(f);
    return listed;
}

/* One case: allocated output, given output, and where dtypes agree in place,
 * each beside the reference. */
static void run_case(int o, int dtype, const int64_t *shape, int ndim, const layout *layouts, bool with_interpreter)
{
    const ref_op *op = &ref_ops[o];
    const int result = ref_result_dtype(op, dtype);
    tensor in[3] = {{.dtype = dtype}};
    char what[200];
    for (int k = 0; k < op->arity; k++)
        tensor_create(&in[k], dtype, shape, ndim, layouts[k]);
    case_text(what, sizeof what, shape, ndim, layouts, op->arity);
    dlk_output out = {0};
    const dlk_status status = launch(op->name, in, op->arity, &out);
    if (status != DLK_OK) {
        matrix[o][dtype].state = CELL_REFUSED;
        snprintf(matrix[o][dtype].why, sizeof matrix[o][dtype].why, "%.150s", dlk_last_error());
        if (!is_listed_unsupported(op->name, ref_dtypes[dtype].name)) {
            printf("%s %s %s: %s\n", op->name, ref_dtypes[dtype].name, what, dlk_last_error());
            test_failed = true;
        }
    } else {
        const DLTensor *got = &out.result->dl_tensor;
        const DLDataType type = {ref_dtypes[result].code, ref_dtypes[result].bits, 1};
        CHECK_MSG(!memcmp(&got->dtype, &type, sizeof type), "%s %s: result has code %d bits %d", op->name, what,
                  got->dtype.code, got->dtype.bits);
        if (check_elements(op, dtype, result, in, got, what) && with_interpreter && !has_other_bits(op))
            check_against_interpreter(op, result, in, got, what);
        tensor given;
        tensor_create(&given, result, got->shape, got->ndim, layouts[3]);
        dlk_output into = {.tensor = &given.dl};
        const dlk_status again = launch(op->name, in, op->arity, &into);
        CHECK_MSG(again == DLK_OK, "%s %s into given: %s", op->name, what, dlk_last_error());
        if (again == DLK_OK)
            check_elements(op, dtype, result, in, &given.dl, what);
        CHECK_MSG(tensor_guards_intact(&given), "%s %s wrote outside its output", op->name, what);
        tensor_destroy(&given);
        out.result->deleter(out.result);
        matrix[o][dtype].state = CELL_CASES;
        matrix[o][dtype].cases += 2;
    }
    for (int k = 0; k < op->arity; k++)
        tensor_destroy(&in[k]);
}

static void print_matrix(void)
{
    int cases = 0, cells = 0;
    printf("%-20s", "cases");
    for (int d = 0; d < R_COUNT; d++)
        printf(" %5.5s", ref_dtypes[d].name);
    for (int o = 0; o < REF_N_OPS; o++) {
        printf("\n%-20s", ref_ops[o].name);
        for (int d = 0; d < R_COUNT; d++) {
            if (matrix[o][d].state == CELL_CASES)
                printf(" %5d", matrix[o][d].cases);
            else
                printf(" %5s", matrix[o][d].state == CELL_REFUSED ? "no" : ".");
            cases += matrix[o][d].cases;
            cells += matrix[o][d].state == CELL_CASES;
        }
    }
    printf("\n%d elementwise rows, %d dtypes, %d cells, %d cases\n", REF_N_OPS, R_COUNT, cells, cases);
}

/* `every`: 1 runs all layouts of all operations; larger strides thin them out
 * evenly. */
static int every(void)
{
    const char *text = getenv("DLK_TEST_EVERY");
    return text ? atoi(text) : 1;
}

TEST(elementwise)
{
    if (missing_target())
        SKIP(missing_target());
    static const int64_t shapes[][3] = {{7, 5, 1}, {3, 4, 70}, {2, 3, 131}, {65, 33, 1}};
    static const int ranks[] = {2, 3, 3, 2};
    int serial = 0;
    for (int o = 0; o < REF_N_OPS; o++)
        for (int d = 0; d < R_COUNT; d++)
            for (int l = 0; l < LAYOUT_COUNT && ref_takes(&ref_ops[o], d); l++) {
                const int s = (o + d + l) % 4;
                /* the first operand runs through all layouts, the others at other
         * paces, so that pairs vary */
                const layout layouts[4] = {(layout)l, (layout)((l * 5 + o + d) % LAYOUT_COUNT),
                                           (layout)((l * 7 + d) % LAYOUT_COUNT), LAYOUT_GIVEN(l)};
                if (serial++ % every() == 0)
                    run_case(o, d, shapes[s], ranks[s], layouts, serial % 4 == 0);
            }
    print_matrix();
}

/* Lengths around every vector width, where the tail and the body of a kernel
 * must agree. */
TEST(every_short_length)
{
    if (missing_target())
        SKIP(missing_target());
    static const char *names[] = {"add", "maximum", "equal", "exp", "copy"};
    static const int dtypes[] = {R_F32, R_F64, R_I8, R_F16, R_I64};
    const layout layouts[4] = {LAYOUT_CONTIGUOUS, LAYOUT_CONTIGUOUS, LAYOUT_CONTIGUOUS, LAYOUT_CONTIGUOUS};
    for (int k = 0; k < 5; k++)
        for (int o = 0; o < REF_N_OPS; o++)
            for (int d = 0; d < 5 && !strcmp(ref_ops[o].name, names[k]); d++)
                for (int64_t n = 0; n <= 70; n++)
                    if (ref_takes(&ref_ops[o], dtypes[d]))
                        run_case(o, dtypes[d], &n, 1, layouts, n % 8 == 3);
}
