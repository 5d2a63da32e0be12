/* The examples of docs/language.md are run: `dlk` blocks are defined, `run` blocks called, `error` blocks must fail with
 * the message in their last line. */
#include "tests/test.h"

#include "base/status.h"
#include "tests/op_eval.h"

#define VALUES_MAX 16

typedef struct row { /* of values of one type */
    dlk_dtype dtype;
    uint64_t words[VALUES_MAX][2];
    int n;
} row;

/* ---- Values as words ------------------------------------------------------------------------------------------------------------ */

/* The storage word of x, by the constant folding of the encoder. */
static uint64_t encoded(dlk_dtype dtype, double x)
{
    dlk_arena arena = {0};
    dlk_prog *prog = dlk_prog_create(&arena);
    const dlk_ref word = dlk_prog_encode(prog, dtype, dlk_prog_const(prog, DLK_F64, word_f64(x)), false, false);
    const uint64_t bits = (uint64_t)prog->nodes[word].imm;
    CHECK_INT(prog->nodes[word].op, DLK_PROG_CONST);
    dlk_arena_free(&arena);
    return bits;
}

static uint64_t parse_value(dlk_dtype dtype, const char *text)
{
    const int bits = dlk_dtypes[dtype].bits;
    switch ((dlk_dtype_class)dlk_dtypes[dtype].class_) {
    case DLK_CLASS_BOOL:
        return text[0] == 't';
    case DLK_CLASS_INT:
        return (uint64_t)strtoll(text, NULL, 0) & (UINT64_MAX >> (64 - bits));
    case DLK_CLASS_UINT:
        return strtoull(text, NULL, 0);
    default:
        return dtype == DLK_DTYPE_F64   ? word_f64(strtod(text, NULL))
               : dtype == DLK_DTYPE_F32 ? word_f32(strtof(text, NULL))
                                        : encoded(dtype, strtod(text, NULL));
    }
}

/* "f32: 1 2 3" up to `end`. */
static row parse_row(const char *text, const char *end)
{
    row r = {.n = 0};
    const char *colon = memchr(text, ':', (size_t)(end - text));
    CHECK(colon != NULL);
    if (!colon)
        return r;
    while (*text == ' ')
        text++;
    r.dtype = dlk_dtype_from_name(text, (size_t)(colon - text));
    CHECK_MSG(r.dtype != DLK_DTYPE_NONE, "%.20s", text);
    for (text = colon + 1; text < end && r.dtype != DLK_DTYPE_NONE;) {
        char value[64] = "";
        const size_t blanks = strspn(text, " "), length = strcspn(text + blanks, " ;)\n");
        if (length == 0 || text + blanks >= end)
            break;
        memcpy(value, text + blanks, length < 63 ? length : 63);
        CHECK(r.n < VALUES_MAX);
        r.words[r.n++][0] = parse_value(r.dtype, value);
        text += blanks + length;
    }
    return r;
}

/* ---- Calls ------------------------------------------------------------------------------------------------------------------------ */

typedef struct call {
    op_eval o;
    row inputs[8];
    uint64_t column[8][VALUES_MAX];
    const dlk_op_version *version;
    double parameter[DLK_PARAMETERS_MAX];
    int n_inputs, n_tensors;
    int64_t n; /* elements */
} call;

/* "name = value" */
static void parse_parameter(call *c, const char *text, const char *equals)
{
    size_t length = (size_t)(equals - text);
    while (length && text[length - 1] == ' ')
        length--;
    for (int i = 0; i < c->version->n_parameters; i++)
        if (strlen(c->version->parameter_names[i]) == length &&
            memcmp(c->version->parameter_names[i], text, length) == 0) {
            c->parameter[i] = strtod(equals + 1, NULL);
            c->o.request.parameter[i] = DLK_SCALAR_FLOAT;
            return;
        }
    CHECK_MSG(false, "no parameter %.*s", (int)length, text);
}

static void parse_argument(call *c, const char *text, const char *end)
{
    const char *equals = memchr(text, '=', (size_t)(end - text));
    while (*text == ' ')
        text++;
    if (equals) {
        parse_parameter(c, text, equals);
        return;
    }
    const bool is_weak = *text == '~';
    row *input = &c->inputs[c->n_inputs];
    *input = parse_row(text + is_weak, end);
    const bool is_float = input->dtype == DLK_DTYPE_F64;
    c->o.request.input[c->n_inputs++] =
        is_weak ? DLK_BUILD_WEAK + (is_float ? DLK_SCALAR_FLOAT : DLK_SCALAR_INT) : (uint8_t)input->dtype;
    c->o.request.n_inputs++;
    if (is_weak)
        return;
    for (int i = 0; i < input->n; i++)
        c->column[c->n_tensors][i] = input->words[i][0];
    c->o.words[c->n_tensors][0] = c->column[c->n_tensors];
    c->n_tensors++;
    c->n = input->n > c->n ? input->n : c->n;
}

static void fill_scalars(call *c)
{
    for (int i = 0; i < c->o.built.n_scalars; i++) {
        const dlk_build_scalar *scalar = &c->o.built.scalars[i];
        const bool is_given = c->o.request.parameter[scalar->index] != DLK_SCALAR_NONE;
        if (scalar->source == DLK_FROM_INPUT)
            c->o.scalars[i][0] = c->inputs[scalar->index].words[0][0];
        else if (is_given)
            c->o.scalars[i][0] = word_f64(c->parameter[scalar->index]);
        else
            c->o.scalars[i][0] = c->version->parameter_defaults[scalar->index].value.u;
    }
}

static bool is_same_word(dlk_dtype dtype, uint64_t a, uint64_t b)
{
    if (dtype == DLK_DTYPE_F64 && isnan(f64_of(a)))
        return isnan(f64_of(b));
    return dtype == DLK_DTYPE_F32 && isnan(f32_of(a)) ? isnan(f32_of(b)) : a == b;
}

static void check_results(call *c, const char *line, const row *expected)
{
    const dlk_prog_output *output = &c->o.built.prog->outputs[0];
    CHECK_MSG(output->dtype == expected->dtype, "%.60s gives %s", line, dlk_dtypes[output->dtype].name);
    CHECK_MSG(expected->n == (c->o.built.is_reduced[0] ? 1 : c->n), "%.60s has %d results", line, expected->n);
    for (int i = 0; i < expected->n; i++) {
        const uint64_t found = op_eval_word(&c->o, 0, c->n, i);
        CHECK_MSG(is_same_word(output->dtype, expected->words[i][0], found),
                  "%.60s: element %d is 0x%llx, expected 0x%llx", line, i, (unsigned long long)found,
                  (unsigned long long)expected->words[i][0]);
    }
}

/* NAME(type: values; ...) -> type: values */
static void run_line(dlk_registry *registry, const char *line, const char *end)
{
    const char *open = memchr(line, '(', (size_t)(end - line)), *arrow = strstr(line, " -> ");
    CHECK_MSG(open && arrow && arrow < end, "%.60s", line);
    if (!open || !arrow)
        return;
    call *c = calloc(1, sizeof *c);
    const dlk_op *op;
    char name[64] = "";
    memcpy(name, line, (size_t)(open - line) < 63 ? (size_t)(open - line) : 63);
    const dlk_status status = dlk_registry_find(registry, name, &op);
    CHECK_MSG(status == DLK_OK, "%s", dlk_last_error());
    if (status == DLK_OK) {
        c->version = dlk_op_get_version(op);
        dlk_build_request_make(&c->o.request);
        for (const char *at = open + 1, *stop; at < arrow; at = stop + 1) {
            stop = at + strcspn(at, ";)");
            parse_argument(c, at, stop);
        }
        const row expected = parse_row(arrow + 4, end);
        const dlk_status built = dlk_build(c->version, &c->o.request, &c->o.arena, &c->o.built);
        CHECK_MSG(built == DLK_OK, "%.60s: %s", line, dlk_last_error());
        if (built == DLK_OK) {
            fill_scalars(c);
            check_results(c, line, &expected);
        }
        dlk_arena_free(&c->o.arena);
    }
    free(c);
}

/* ---- Blocks ------------------------------------------------------------------------------------------------------------------------ */

static int n_run, n_failed_as_said;

static void run_block(dlk_registry *registry, const char *text, const char *end)
{
    for (const char *stop; text < end; text = stop + 1) {
        stop = memchr(text, '\n', (size_t)(end - text));
        stop = stop ? stop : end;
        if (stop > text) {
            run_line(registry, text, stop);
            n_run++;
        }
    }
}

static void define_block(dlk_registry *registry, char *text)
{
    CHECK_MSG(dlk_registry_define(registry, text, NULL) == DLK_OK, "%s in\n%s", dlk_last_error(), text);
}

/* The text fails when it is defined, or when its last operation is built for f32. */
static void error_block(char *text)
{
    char *expected = strstr(text, "\n# ");
    CHECK(expected != NULL);
    if (!expected)
        return;
    *expected = 0;
    expected += 3;
    expected[strcspn(expected, "\n")] = 0;
    op_eval o;
    CHECK(op_eval_begin(&o, text, strstr(text, "i8") ? "i8" : "f32") != DLK_OK);
    CHECK_STR(dlk_last_error(), expected);
    op_eval_end(&o);
    n_failed_as_said++;
}

static char *read_file(const char *path)
{
    FILE *file = fopen(path, "rb");
    if (!file)
        return NULL;
    char *text = calloc(1, 1 << 20);
    const size_t bytes = fread(text, 1, (1 << 20) - 1, file);
    text[bytes] = 0;
    fclose(file);
    return text;
}

TEST(the_examples_of_the_manual)
{
    char *text = read_file(DLK_DOCS_FOLDER "/language.md");
    CHECK(text != NULL);
    dlk_registry *registry;
    CHECK_INT(dlk_registry_create(&registry), DLK_OK);
    for (char *at = text; at && (at = strstr(at, "```")) != NULL;) {
        char *body = strchr(at, '\n') + 1, *end = strstr(body, "```");
        const char kind = at[3];
        CHECK(end != NULL);
        if (!end)
            break;
        *end = 0;
        if (kind == 'd')
            define_block(registry, body);
        else if (kind == 'r')
            run_block(registry, body, end);
        else if (kind == 'e')
            error_block(body);
        at = end + 3;
    }
    CHECK(n_run > 30 && n_failed_as_said == 3);
    dlk_registry_destroy(registry);
    free(text);
}
