/* The command line: how arguments are read, what JSON looks like, and what the program answers. */
#include "tests/test.h"

#include <stdint.h>

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
