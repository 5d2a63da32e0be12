/* The command line: how arguments are read, what JSON looks like, and what the program answers. */
#include "tests/test.h"

#include <stdint.h>
#include <sys/wait.h>

#include "tools/arguments.h"
#include "tools/json.h"

/* ---- Arguments ---- */

static dlk_tool_argument argument;
static char message[1024];

static bool parse(const char *text)
{
    return dlk_tool_argument_parse(text, &argument, message, sizeof message);
}

static void check_shape(const char *text, int ndim, const int64_t *shape, const int64_t *strides)
{
    CHECK_MSG(parse(text), "%s", message);
    CHECK(argument.input.tensor == &argument.tensor);
    CHECK_INT(argument.tensor.ndim, ndim);
    CHECK_INT(argument.tensor.strides != NULL, strides != NULL);
    for (int i = 0; i < ndim && i < argument.tensor.ndim; i++) {
        CHECK_INT(argument.tensor.shape[i], shape[i]);
        if (strides && argument.tensor.strides)
            CHECK_INT(argument.tensor.strides[i], strides[i]);
    }
}

TEST(cli_tensors)
{
    check_shape("f32[1024,16]", 2, (int64_t[]){1024, 16}, NULL);
    CHECK_INT(argument.tensor.dtype.code, kDLFloat);
    CHECK_INT(argument.tensor.dtype.bits, 32);
    CHECK_INT(argument.tensor.dtype.lanes, 1);
    CHECK_INT(argument.tensor.device.device_type, kDLCPU);
    check_shape("bfloat16[]", 0, NULL, NULL);
    CHECK_INT(argument.tensor.dtype.code, kDLBfloat);
    check_shape("bool[ 0 , 3 ]", 2, (int64_t[]){0, 3}, NULL);
    check_shape("u8[2,3,4].T", 3, (int64_t[]){4, 3, 2}, (int64_t[]){1, 4, 12});
    check_shape("u8[2,3].T.T", 2, (int64_t[]){2, 3}, (int64_t[]){3, 1});
    check_shape("c64[2,3]:strides(-1,0)", 2, (int64_t[]){2, 3}, (int64_t[]){-1, 0});
    check_shape("c64[2,3]:strides(7,1).T", 2, (int64_t[]){3, 2}, (int64_t[]){1, 7});
}

TEST(cli_scalars)
{
    CHECK(parse("3") && !argument.input.tensor);
    CHECK_INT(argument.input.scalar.kind, DLK_SCALAR_INT);
    CHECK_INT(argument.input.scalar.value.i, 3);
    CHECK(parse("-9223372036854775808"));
    CHECK_INT(argument.input.scalar.value.i, INT64_MIN);
    CHECK(parse("18446744073709551615"));
    CHECK_INT(argument.input.scalar.kind, DLK_SCALAR_UINT);
    CHECK(argument.input.scalar.value.u == UINT64_MAX);
    CHECK(parse("-0.5e1"));
    CHECK_INT(argument.input.scalar.kind, DLK_SCALAR_FLOAT);
    CHECK(argument.input.scalar.value.f == -5);
    CHECK(parse("true"));
    CHECK_INT(argument.input.scalar.kind, DLK_SCALAR_BOOL);
    CHECK_INT(argument.input.scalar.value.i, 1);
}

TEST(cli_wrong_arguments)
{
    static const struct {
        const char *text, *expected;
    } rows[] = {
        {"", "a dtype and '['"},
        {"f32", "a dtype and '['"},
        {"f31[3]", "there is no dtype 'f31'"},
        {"f32[3", "',' or ']' at column 6"},
        {"f32[3,]", "an extent at column 7"},
        {"f32[-1]", "an extent at column 5"},
        {"f32[99999999999999999999]", "an extent at column 5"},
        {"f32[3]x", "the end, '.T' or ':strides('"},
        {"f32[3]:strides(1,2)", "as many strides as extents"},
        {"f32[3,4]:strides(1)", "as many strides as extents"},
        {"f32[3]:strides(1", "',' or ')'"},
        {"f32[3000000000,4000000000,5].T", "fewer elements"},
        {"1x", "a dtype and '['"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        CHECK_MSG(!parse(rows[i].text), "%s", rows[i].text);
        CHECK_MSG(strstr(message, rows[i].expected), "%s: %s", rows[i].text, message);
    }
    CHECK_MSG(strstr(message, "'f32[1024,1024]'"), "%s", message); /* how to write one */
    char many[400] = "f32[1";
    for (int i = 0; i < 64; i++)
        strcat(many, ",1"); // NOLINT(clang-analyzer-security.insecureAPI.strcpy)
    strcat(many, "]");      // NOLINT(clang-analyzer-security.insecureAPI.strcpy)
    CHECK(!parse(many));
}

TEST(cli_axes)
{
    int32_t axes[DLK_NDIM_MAX];
    CHECK_INT(dlk_tool_axes_parse("0,-1", axes), 2);
    CHECK_INT(axes[0], 0);
    CHECK_INT(axes[1], -1);
    CHECK_INT(dlk_tool_axes_parse("64", axes), -1);
    CHECK_INT(dlk_tool_axes_parse("-65", axes), -1);
    CHECK_INT(dlk_tool_axes_parse("x", axes), -1);
    CHECK_INT(dlk_tool_axes_parse("1,", axes), -1);
    CHECK_INT(dlk_tool_axes_parse("1 2", axes), -1);
}

/* ---- JSON ---- */

TEST(cli_json)
{
    char text[512] = "";
    FILE *out = fmemopen(text, sizeof text, "w");
    dlk_tool_json json = {.out = out};
    dlk_tool_json_open(&json, NULL, '{');
    dlk_tool_json_string(&json, "a", "x\"\\\n\t");
    dlk_tool_json_int(&json, "b", INT64_MIN);
    dlk_tool_json_open(&json, "c", '[');
    dlk_tool_json_bool(&json, NULL, true);
    dlk_tool_json_number(&json, NULL, 0.5);
    dlk_tool_json_number(&json, NULL, (double)INFINITY);
    dlk_tool_json_close(&json, ']');
    dlk_tool_json_open(&json, "d", '[');
    dlk_tool_json_close(&json, ']');
    dlk_tool_json_close(&json, '}');
    fclose(out);
    CHECK_STR(text, "{\n  \"a\": \"x\\\"\\\\\\n\\u0009\",\n  \"b\": -9223372036854775808,\n  \"c\": [\n    true,\n"
                    "    0.5,\n    null\n  ],\n  \"d\": []\n}\n");
}

/* ---- The program ---- */

#ifdef DLK_PROGRAM

#    define OUTPUT_BYTES ((size_t)4 << 20)
static char output[OUTPUT_BYTES];

/* Runs `dlk arguments`, in which quotes are the shell's; `output` is what it printed. Gives the exit status. */
static int run_program(const char *arguments)
{
    char command[4096];
    snprintf(command, sizeof command, "'%s' %s 2>&1", DLK_PROGRAM, arguments);
    FILE *pipe = popen(command, "re"); // NOLINT(bugprone-command-processor)
    CHECK(pipe);
    if (!pipe)
        return -1;
    const size_t got = fread(output, 1, OUTPUT_BYTES - 1, pipe);
    output[got] = '\0';
    const int status = pclose(pipe);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static void check_run(const char *arguments, int exit_status, const char *expected)
{
    const int found = run_program(arguments);
    CHECK_MSG(found == exit_status, "dlk %s: exit status %d, expected %d: %.300s", arguments, found, exit_status,
              output);
    CHECK_MSG(strstr(output, expected), "dlk %s: expected '%s' in: %.2000s", arguments, expected, output);
}

TEST(cli_help)
{
    check_run("help", 0, "dlk show add 'f32[1024]' 'f32[1024]'");
    check_run("--version", 0, "dlk 0.1");
    check_run("", 2, "Flags:");
}

TEST(cli_says_what_to_type)
{
    check_run("shwo", 2, "did you mean: dlk show OP");
    check_run("compile", 2, "type: dlk help");
    check_run("devices --jsn", 2, "there is no flag '--jsn'; type: dlk help");
    check_run("devices now", 2, "type: dlk devices");
    check_run("ops no_such_operation", 1, "type: dlk ops");
    check_run("show", 2, "type: dlk show add");
    check_run("show add 'f32[4]'", 2, "type: dlk show 'add' 'f32[1024]' 'f32[1024]'");
    check_run("show add 'f32[4]' 'f32[4'", 2, "expected ',' or ']' at column 6");
    check_run("show add 'f32[4]' 'f32[5]'", 1, "[4]");
    check_run("show add 'f32[4]' 'f32[4]' --stages tea", 1, "tea");
    check_run("show add 'f32[4]' 'f32[4]' --dtype f31", 2, "there is no dtype 'f31'; there are");
    check_run("show sum 'f32[4]' --axes x", 2, "axes to reduce");
    check_run("show add 'f32[4]' 'f32[4]' --option no_such=1", 2, "num_threads");
    check_run("show 'f(x) = x +' 'f32[4]'", 1, "line 1, column ");
}

TEST(cli_devices)
{
    check_run("devices", 0, "cpu");
    check_run("devices", 0, "interp");
    check_run("devices --json", 0, "\"is_available\": true");
}

TEST(cli_options)
{
    check_run("options", 0, "DLK_NUM_THREADS");
    check_run("options --json --option num_threads=3", 0, "\"value\": \"3\"");
}

TEST(cli_ops)
{
    check_run("ops", 0, "\nadd ");
    check_run("ops", 0, "\nsum ");
    check_run("ops leaky_relu", 0, "slope");
    check_run("ops add sum", 0, "reduction");
    check_run("ops --json add", 0, "\"inputs\": [");
    check_run("ops --json no_such_operation", 1, "\"error\": \"DLK_ERR_NOT_FOUND\"");
}

TEST(cli_show)
{
    check_run("show add 'f32[1024]' 'f32[1024]' --stages ir", 0, "---- ir ----");
    check_run("show sum 'f16[64,64].T' --axes 0 --stages ir,signature", 0, "---- signature ----");
    check_run("show 'f(x, y) = x * y + 1' 'f32[1000]' 2.5 --stages prog", 0, "---- prog ----");
    check_run("show add 'f32[8]' 'f32[8]' --stages ir --json", 0, "\"stages\": {");
    check_run("show leaky_relu 'f32[8,64]' --scalar slope=1e-3 --stages plan", 0, "---- plan");
}

#endif
