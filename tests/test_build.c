/* From definitions to programs: what the operations mean, by evaluating their programs; result types; and every way in which
 * a definition or a call can be wrong. */
#include "tests/test.h"

#include "kernels/library.h"
#include "tests/op_eval.h"

/* ---- Result types ------------------------------------------------------------------------------------------------------------------ */

static const struct {
    const char *op, *types, *result;
} results[] = {
    {"add", "i8 i16", "int16"},
    {"add", "i8 u8", "int16"},
    {"add", "bool bool", "bool"},
    {"add", "f16 bf16", "float32"},
    {"add", "f16 ~float", "float16"},
    {"add", "i8 ~int", "int8"},
    {"add", "i8 ~float", "float64"},
    {"add", "f32 ~complex", "complex64"},
    {"add", "bool ~int", "int64"},
    {"add", "~int ~float", "float64"},
    {"add", "~int ~int", "int64"},
    {"add", "i32 f32", "float64"},
    {"divide", "i8 i8", "float64"},
    {"divide", "f16 f16", "float16"},
    {"divide", "c64 f32", "complex64"},
    {"sqrt", "i32", "float64"},
    {"sqrt", "f16", "float16"},
    {"sqrt", "f8e4m3fn", "float8_e4m3fn"},
    {"abs", "c64", "float32"},
    {"abs", "c128", "float64"},
    {"abs", "i8", "int8"},
    {"less", "i64 u64", "bool"},
    {"equal", "c64 c128", "bool"},
    {"minimum", "i8 u16", "int32"},
    {"minimum", "f32 ~int", "float32"},
    {"maximum", "i32 ~float", "float64"},
    {"clip", "f16 ~int ~float", "float16"},
    {"where", "bool i8 f32", "float32"},
    {"where", "bool ~int u8", "uint8"},
    {"fma", "f16 f16 f32", "float32"},
    {"floor_divide", "f16 f16", "float16"},
    {"remainder", "u8 i8", "int16"},
    {"pow", "u8 ~int", "uint8"},
    {"sum", "bool", "int64"},
    {"sum", "u8", "uint64"},
    {"sum", "bf16", "bfloat16"},
    {"prod", "i16", "int64"},
    {"mean", "i64", "float64"},
    {"mean", "c64", "complex64"},
    {"var", "f16", "float16"},
    {"var", "bool", "float64"},
    {"max", "u16", "uint16"},
    {"any", "f32", "bool"},
    {"all", "c64", "bool"},
    {"argmax", "f8e4m3fn", "int64"},
    {"layer_norm", "f32 f32 f32", "float32"},
    {"layer_norm", "bf16 f32 f32", "float32"},
    {"isnan", "c64", "bool"},
    {"logical_and", "f32 i8", "bool"},
    {"bitwise_invert", "bool", "bool"},
    {"bitwise_left_shift", "i8 i64", "int64"},
    {"round", "bf16", "bfloat16"},
    {"copy", "bf16", "bfloat16"},
    {"reciprocal", "i8", "float64"},
};

TEST(result_types)
{
    for (size_t i = 0; i < sizeof results / sizeof *results; i++) {
        op_eval o;
        const dlk_status status = op_eval_begin(&o, results[i].op, results[i].types);
        CHECK_MSG(status == DLK_OK, "%s", dlk_last_error());
        if (status == DLK_OK)
            CHECK_MSG(strcmp(dlk_dtypes[o.built.prog->outputs[0].dtype].name, results[i].result) == 0,
                      "%s(%s) is %s, expected %s", results[i].op, results[i].types,
                      dlk_dtypes[o.built.prog->outputs[0].dtype].name, results[i].result);
        op_eval_end(&o);
    }
}

static void ask_f32(dlk_build_request *request)
{
    request->dtype = DLK_DTYPE_F32;
}
static void ask_i8(dlk_build_request *request)
{
    request->dtype = DLK_DTYPE_I8;
}
static void give_f16(dlk_build_request *request)
{
    request->n_outputs = 1;
    request->output[0] = DLK_DTYPE_F16;
}
static void give_i32(dlk_build_request *request)
{
    request->n_outputs = 1;
    request->output[0] = DLK_DTYPE_I32;
}
static void give_mask(dlk_build_request *request)
{
    request->has_mask = 1;
}
static void give_initial(dlk_build_request *request)
{
    request->initial = DLK_SCALAR_FLOAT;
}
static void give_initial_and_mask(dlk_build_request *request)
{
    request->initial = DLK_SCALAR_FLOAT;
    request->has_mask = 1;
}

TEST(dtype_and_given_outputs)
{
    static const struct {
        const char *op, *types, *result;
        void (*change)(dlk_build_request *request);
    } rows[] = {{"sum", "i8", "float32", ask_f32},    {"sum", "bool", "int8", ask_i8},
                {"mean", "i32", "float32", ask_f32},  {"add", "f64 f32", "float32", ask_f32},
                {"cast", "f64", "int8", ask_i8},      {"cast", "c64", NULL, ask_f32},
                {"add", "f32 f32", NULL, ask_i8},     {"less", "f32 f32", "float32", ask_f32},
                {"argmax", "f32", NULL, ask_i8},      {"add", "f32 f32", "float16", give_f16},
                {"add", "f32 f32", NULL, give_i32},   {"cast", "f32", "int32", give_i32},
                {"sum", "i8", "int32", give_i32},     {"where", "bool f32 f64", "float32", ask_f32},
                {"less", "i8 i8", "int32", give_i32}, {"cast", "f32", NULL, NULL}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        op_eval o;
        const dlk_status status = op_eval_begin_with(&o, rows[i].op, rows[i].types, rows[i].change);
        CHECK_MSG((status == DLK_OK) == (rows[i].result != NULL), "row %zu: %s", i, dlk_last_error());
        if (status == DLK_OK && rows[i].result)
            CHECK_STR(dlk_dtypes[o.built.prog->outputs[0].dtype].name, rows[i].result);
        op_eval_end(&o);
    }
}

/* ---- Integers --------------------------------------------------------------------------------------------------------------------- */

static int8_t wrapped(int x)
{
    return (int8_t)(uint8_t)x;
}

static int floor_div(int a, int b)
{
    return b == 0 ? 0 : a / b - (a % b != 0 && (a < 0) != (b < 0));
}

static int power(int base, int exponent)
{
    if (exponent < 0)
        return base == 1 ? 1 : base == -1 ? (exponent & 1 ? -1 : 1) : 0;
    uint8_t result = 1;
    for (int i = 0; i < exponent; i++)
        result = (uint8_t)(result * (uint8_t)base);
    return (int8_t)result;
}

static int shift(int a, int b)
{
    const unsigned count = (uint8_t)b;
    return count >= 8 ? 0 : (int)((unsigned)a << count);
}

static int shift_right(int a, int b)
{
    const unsigned count = (uint8_t)b;
    return count >= 8 ? (a < 0 ? -1 : 0) : a >> count;
}

static int remainder_of(int a, int b)
{
    return b == 0 ? 0 : a - b * floor_div(a, b);
}

TEST(int8_operations_for_all_pairs)
{
    static const struct {
        const char *op;
        int (*reference)(int a, int b);
    } rows[] = {{"floor_divide", floor_div},
                {"remainder", remainder_of},
                {"pow", power},
                {"bitwise_left_shift", shift},
                {"bitwise_right_shift", shift_right}};
    for (size_t r = 0; r < sizeof rows / sizeof *rows; r++) {
        op_eval o;
        CHECK_INT(op_eval_begin(&o, rows[r].op, "i8 i8"), DLK_OK);
        for (int a = -128; a<128; a += a> - 126 && a < 125 ? 3 : 1)
            for (int b = -128; b<128; b += b> 12 && b < 120 ? 7 : 1) {
                const int8_t found = (int8_t)op_map(&o, (uint8_t)a, (uint8_t)b, 0);
                CHECK_MSG(found == wrapped(rows[r].reference(a, b)), "%s(%d, %d) is %d", rows[r].op, a, b, found);
            }
        op_eval_end(&o);
    }
}

static void check_words(const char *op, const char *types, uint64_t a, uint64_t b, uint64_t expected)
{
    op_eval o;
    CHECK_MSG(op_eval_begin(&o, op, types) == DLK_OK, "%s", dlk_last_error());
    if (o.status == DLK_OK) {
        const uint64_t found = op_map(&o, a, b, 0);
        CHECK_MSG(found == expected, "%s(%s) of 0x%llx, 0x%llx is 0x%llx, expected 0x%llx", op, types,
                  (unsigned long long)a, (unsigned long long)b, (unsigned long long)found,
                  (unsigned long long)expected);
    }
    op_eval_end(&o);
}

TEST(integers_at_their_edges)
{
    check_words("floor_divide", "i64 i64", 1ull << 63, ~0ull, 1ull << 63);
    check_words("remainder", "i64 i64", 1ull << 63, ~0ull, 0);
    check_words("floor_divide", "u32 u32", 7, 0, 0);
    check_words("negative", "u32", 1, 0, 0xffffffff);
    check_words("abs", "i8", 0x80, 0, 0x80);
    check_words("add", "u64 u32", ~0ull, 1, 0);
    check_words("multiply", "i16 i16", 300, 300, 90000 & 0xffff);
    check_words("bitwise_left_shift", "u64 u64", 1, 64, 0);
    check_words("divide", "i64 i64", 1, 0, word_f64(INFINITY));
    check_words("pow", "u64 u64", 3, 40, 12157665459056928801ull);
    check_words("square", "i32", 70000, 0, (uint32_t)(70000ull * 70000ull));
}

/* ---- Comparisons -------------------------------------------------------------------------------------------------------------------- */

typedef struct number {
    const char *type;
    uint64_t word;
    long double value; /* holds every one of them exactly */
} number;

#define I64(x)                                          \
    {                                                   \
        "i64", (uint64_t)(x), (long double)(int64_t)(x) \
    }
#define U64(x)                                           \
    {                                                    \
        "u64", (uint64_t)(x), (long double)(uint64_t)(x) \
    }
#define F64(x)                             \
    {                                      \
        "f64", 0, (long double)(double)(x) \
    }
#define F32(x)                            \
    {                                     \
        "f32", 0, (long double)(float)(x) \
    }

static uint64_t word_of(const number *x)
{
    if (strcmp(x->type, "f64") == 0)
        return word_f64((double)x->value);
    return strcmp(x->type, "f32") == 0 ? word_f32((float)x->value) : x->word;
}

TEST(comparisons_are_exact)
{
    static const number numbers[] = {I64(0),
                                     I64(-1),
                                     I64(9007199254740993),
                                     I64(INT64_MAX),
                                     I64(INT64_MIN),
                                     I64(-9007199254740993),
                                     U64(0),
                                     U64(UINT64_MAX),
                                     U64(9007199254740993),
                                     U64(1ull << 63),
                                     U64(INT64_MAX),
                                     F64(9007199254740992.0),
                                     F64(-0.5),
                                     F64(0x1p63),
                                     F64(-0x1p63),
                                     F64(0x1p64),
                                     F64(INFINITY),
                                     F64(-INFINITY),
                                     F64(NAN),
                                     F64(-0.0),
                                     F64(0.5),
                                     F64(-0x1.8p63),
                                     F32(16777216),
                                     F32(0x1p63f),
                                     F32(0.1f),
                                     F64(0.1),
                                     I64(16777217),
                                     F64(9.2233720368547748e18)};
    static const char *const ops[] = {"equal", "not_equal", "less", "less_equal", "greater", "greater_equal"};
    const size_t n = sizeof numbers / sizeof *numbers;
    for (size_t i = 0; i < n; i++)
        for (size_t k = 0; k < n; k++)
            for (int op = 0; op < 6; op++) {
                char types[16];
                const long double a = numbers[i].value, b = numbers[k].value;
                const bool expected[] = {a == b, a != b, a<b, a <= b, a> b, a >= b};
                snprintf(types, sizeof types, "%s %s", numbers[i].type, numbers[k].type);
                check_words(ops[op], types, word_of(&numbers[i]), word_of(&numbers[k]), expected[op]);
            }
}

TEST(scalars_beyond_a_type_compare)
{
    static const char *const ops[] = {"equal", "not_equal", "less", "less_equal", "greater", "greater_equal"};
    static const int64_t scalars[] = {-1000, -129, -128, -1, 0, 5, 127, 128, 255, 256, 1000};
    for (int op = 0; op < 6; op++)
        for (int is_unsigned = 0; is_unsigned < 2; is_unsigned++) {
            op_eval o;
            CHECK_INT(op_eval_begin(&o, ops[op], is_unsigned ? "u8 ~int" : "i8 ~int"), DLK_OK);
            for (size_t s = 0; s < sizeof scalars / sizeof *scalars; s++)
                for (int x = 0; x < 256; x += 5) {
                    const int64_t a = is_unsigned ? x : (int8_t)x, b = scalars[s];
                    const bool expected[] = {a == b, a != b, a<b, a <= b, a> b, a >= b};
                    o.scalars[0][0] = (uint64_t)b;
                    CHECK_INT(op_map(&o, (uint64_t)x, 0, 0), expected[op]);
                }
            op_eval_end(&o);
        }
}

/* ---- Floats -------------------------------------------------------------------------------------------------------------------------- */

static double python_remainder(double x, double y)
{
    const double rest = fmod(x, y);
    if (rest == 0)
        return copysign(0.0, y);
    return (rest < 0) != (y < 0) ? rest + y : rest;
}

/* The mathematical floor of x / y, rounded; x87 has the bits for the cases here. */
static double python_floor_divide(double x, double y)
{
    if (y == 0)
        return x / y;
    const double rest = fmod(x, y);
    double whole = (x - rest) / y;
    if (rest != 0 && (rest < 0) != (y < 0))
        whole -= 1;
    if (whole == 0)
        return copysign(0.0, x / y);
    return floor(whole) + (whole - floor(whole) > 0.5);
}

static bool same_f64(double a, double b)
{
    return isnan(a) ? isnan(b) : a == b && !signbit(a) == !signbit(b);
}

static void check_division(op_eval *rem64, op_eval *div64, op_eval *rem32, double x, double y)
{
    const double r = f64_of(op_map(rem64, word_f64(x), word_f64(y), 0)),
                 q = f64_of(op_map(div64, word_f64(x), word_f64(y), 0));
    CHECK_MSG(same_f64(r, python_remainder(x, y)), "remainder(%a, %a) is %a, expected %a", x, y, r,
              python_remainder(x, y));
    CHECK_MSG(same_f64(q, python_floor_divide(x, y)), "floor_divide(%a, %a) is %a, expected %a", x, y, q,
              python_floor_divide(x, y));
    const float a = (float)x, b = (float)y, found = f32_of(op_map(rem32, word_f32(a), word_f32(b), 0));
    const float expected = (float)python_remainder((double)a, (double)b);
    CHECK_MSG(same_f64((double)found, (double)expected), "remainder(%a, %a) is %a, expected %a", (double)a, (double)b,
              (double)found, (double)expected);
}

TEST(remainders_are_exact_with_python_s_signs)
{
    static const double values[] = {0.0,
                                    1,
                                    2,
                                    3,
                                    4,
                                    0.1,
                                    0.3,
                                    7.5,
                                    1e300,
                                    1e-300,
                                    5e-324,
                                    1e16,
                                    0x1p52,
                                    0x1p53,
                                    1e308,
                                    1e-308,
                                    3e-310,
                                    1.0 / 3,
                                    INFINITY,
                                    NAN,
                                    0x1.fffffffffffffp52,
                                    0x1p-1022,
                                    6755399441055744.0,
                                    1e22};
    op_eval rem64, div64, rem32;
    CHECK_INT(op_eval_begin(&rem64, "remainder", "f64 f64"), DLK_OK);
    CHECK_INT(op_eval_begin(&div64, "floor_divide", "f64 f64"), DLK_OK);
    CHECK_INT(op_eval_begin(&rem32, "remainder", "f32 f32"), DLK_OK);
    const size_t n = sizeof values / sizeof *values;
    for (size_t i = 0; i < n; i++)
        for (size_t k = 0; k < n; k++)
            for (int signs = 0; signs < 4; signs++)
                check_division(&rem64, &div64, &rem32, signs & 1 ? -values[i] : values[i],
                               signs & 2 ? -values[k] : values[k]);
    uint64_t seed = 88172645463325252ull;
    for (int i = 0; i < 300; i++) {
        double x[2];
        for (int k = 0; k < 2; k++) {
            seed ^= seed << 13, seed ^= seed >> 7, seed ^= seed << 17;
            memcpy(&x[k], &seed, sizeof seed);
        }
        if (i % 2) /* near each other: quotients in every digit */
            x[1] = ldexp(x[1], ilogb(x[0]) - ilogb(x[1]) - i % 60);
        check_division(&rem64, &div64, &rem32, x[0], x[1]);
    }
    op_eval_end(&rem64);
    op_eval_end(&div64);
    op_eval_end(&rem32);
    check_words("floor_divide", "f32 f32", word_f32(1), word_f32(0.1f), word_f32(9));
}

TEST(floats_at_their_edges)
{
    check_words("maximum", "f32 f32", word_f32(-0.0f), word_f32(0), word_f32(0));
    check_words("maximum", "f32 f32", word_f32(0), word_f32(-0.0f), word_f32(0));
    check_words("minimum", "f64 f64", word_f64(0), word_f64(-0.0), word_f64(-0.0));
    check_words("negative", "f32", word_f32(0), 0, word_f32(-0.0f));
    check_words("add", "f32 f32", word_f32(1e-45f), word_f32(0), word_f32(1e-45f));
    check_words("round", "f64", word_f64(2.5), 0, word_f64(2));
    check_words("round", "f64", word_f64(-0.5), 0, word_f64(-0.0));
    check_words("rsqrt", "f32", word_f32(-0.0f), 0, word_f32(-INFINITY));
    check_words("rsqrt", "f32", word_f32(INFINITY), 0, word_f32(0));
    check_words("isnan", "f16", 0x7e01, 0, 1);
    check_words("logical_not", "f32", word_f32(NAN), 0, 0);
    check_words("copy", "f16", 0x7d55, 0, 0x7d55); /* a NaN's bits, too */
    check_words("copy", "bool", 200, 0, 1);
}

TEST(clip_follows_numpy)
{
    op_eval o;
    CHECK_INT(op_eval_begin(&o, "clip", "f32 f32 f32"), DLK_OK);
    CHECK_INT(op_map(&o, word_f32(5), word_f32(6), word_f32(3)), word_f32(3));
    CHECK(isnan(f32_of(op_map(&o, word_f32(0.5f), word_f32(NAN), word_f32(1)))));
    CHECK(isnan(f32_of(op_map(&o, word_f32(NAN), word_f32(0), word_f32(1)))));
    op_eval_end(&o);
}

TEST(rsqrt_within_two_units)
{
    op_eval o;
    CHECK_INT(op_eval_begin(&o, "rsqrt", "f32"), DLK_OK);
    for (uint32_t bits = 1; bits < 0x7f800000; bits += 99991) {
        float x, found = f32_of(op_map(&o, bits, 0, 0));
        memcpy(&x, &bits, sizeof x);
        const double exact = 1 / sqrt((double)x);
        CHECK_MSG(fabs((double)found - exact) <= 2 * ldexp(1, ilogb(exact) - 23), "rsqrt(%a) is %a", (double)x,
                  (double)found);
    }
    op_eval_end(&o);
}

/* ---- Complex ------------------------------------------------------------------------------------------------------------------------- */

/* a and b with parts of f64; gives part `part`. */
static double complex_f64(const char *op, const double a[2], const double b[2], int part)
{
    op_eval o;
    uint64_t words[4] = {word_f64(a[0]), word_f64(a[1]), word_f64(b[0]), word_f64(b[1])};
    const dlk_status status = op_eval_begin(&o, op, strcmp(op, "abs") == 0 ? "c128" : "c128 c128");
    CHECK_INT(status, DLK_OK);
    double result = NAN;
    for (int i = 0; i < 4; i++)
        o.words[i / 2][i % 2] = &words[i];
    if (status == DLK_OK)
        result = f64_of(op_eval_word(&o, part, 1, 0));
    op_eval_end(&o);
    return result;
}

TEST(complex_arithmetic)
{
    const double a[2] = {3, -4}, b[2] = {1, 2}, big[2] = {1e300, 1e300}, tiny[2] = {3e-320, 4e-320}, zero[2] = {0, 0};
    const double inf_nan[2] = {INFINITY, NAN}, edge[2] = {1, 1.7e308};
    CHECK(complex_f64("multiply", a, b, 0) == 11 && complex_f64("multiply", a, b, 1) == 2);
    CHECK(complex_f64("divide", a, b, 0) == -1 && complex_f64("divide", a, b, 1) == -2);
    CHECK(complex_f64("divide", big, big, 0) == 1 && complex_f64("divide", big, big, 1) == 0);
    CHECK(isinf(complex_f64("divide", a, zero, 0)) && isinf(complex_f64("divide", a, zero, 1)));
    CHECK(complex_f64("abs", a, a, 0) == 5 && complex_f64("abs", tiny, tiny, 0) == 5e-320);
    CHECK(complex_f64("abs", inf_nan, a, 0) == INFINITY && complex_f64("abs", edge, a, 0) == 1.7e308);
    CHECK(complex_f64("abs", zero, a, 0) == 0);
    CHECK(fabs(complex_f64("abs", big, a, 0) - hypot(1e300, 1e300)) <= ldexp(1, ilogb(1.4e300) - 52));
}

/* ---- Reductions ---------------------------------------------------------------------------------------------------------------------- */

/* The result of a reduction over words of one input, and a mask when `mask` is set. */
static uint64_t reduce(const char *op, const char *types, const uint64_t *words, const uint64_t *mask, int64_t n,
                       void (*change)(dlk_build_request *request), double initial)
{
    op_eval o;
    uint64_t result = 0;
    const dlk_status status = op_eval_begin_with(&o, op, types, change);
    CHECK_MSG(status == DLK_OK, "%s", dlk_last_error());
    o.words[0][0] = words;
    o.words[1][0] = mask;
    for (int i = 0; status == DLK_OK && i < o.built.n_scalars; i++)
        if (o.built.scalars[i].source == DLK_FROM_INITIAL)
            o.scalars[i][0] = word_f64(initial);
    if (status == DLK_OK)
        result = op_eval_word(&o, 0, n, 0);
    op_eval_end(&o);
    return result;
}

static void fill_f32(uint64_t *words, const float *values, int n)
{
    for (int i = 0; i < n; i++)
        words[i] = word_f32(values[i]);
}

TEST(sums_of_special_rows)
{
    uint64_t words[4], mask[4] = {0, 0, 0, 0};
    fill_f32(words, (float[]){-0.0f, -0.0f, -0.0f, -0.0f}, 4);
    CHECK_INT(reduce("sum", "f32", words, NULL, 4, NULL, 0), word_f32(-0.0f));
    CHECK_INT(reduce("sum", "f32", words, NULL, 0, NULL, 0), word_f32(0));
    CHECK_INT(reduce("prod", "f32", words, NULL, 0, NULL, 0), word_f32(1));
    CHECK_INT(reduce("sum", "f32", words, mask, 4, give_mask, 0), word_f32(0));
    mask[2] = 9;
    CHECK_INT(reduce("sum", "f32", words, mask, 4, give_mask, 0), word_f32(-0.0f));
    CHECK_INT(reduce("sum", "f32", words, NULL, 0, give_initial, -0.0), word_f32(-0.0f));
    CHECK_INT(reduce("sum", "f32", words, NULL, 4, give_initial, 2.5), word_f32(2.5f));
    CHECK(isnan(f32_of(reduce("mean", "f32", words, NULL, 0, NULL, 0))));
    CHECK(isnan(f32_of(reduce("var", "f32", words, NULL, 0, NULL, 0))));
    CHECK_INT(reduce("max", "f32", words, NULL, 0, give_initial, 7), word_f32(7));
    CHECK_INT(reduce("any", "f32", words, NULL, 0, NULL, 0), 0);
    CHECK_INT(reduce("all", "f32", words, NULL, 0, NULL, 0), 1);
    CHECK_INT(reduce("all", "f32", words, NULL, 4, NULL, 0), 0);
}

TEST(masked_reductions)
{
    uint64_t words[5], mask[5] = {1, 0, 2, 0, 1};
    fill_f32(words, (float[]){1, INFINITY, 3, NAN, 8}, 5);
    CHECK_INT(reduce("sum", "f32", words, mask, 5, give_mask, 0), word_f32(12));
    CHECK_INT(reduce("prod", "f32", words, mask, 5, give_mask, 0), word_f32(24));
    CHECK_INT(reduce("mean", "f32", words, mask, 5, give_mask, 0), word_f32(4));
    CHECK_INT(reduce("max", "f32", words, mask, 5, give_initial_and_mask, 2), word_f32(8));
    const float var = f32_of(reduce("var", "f32", words, mask, 5, give_mask, 0));
    CHECK(fabsf(var - 26.0f / 3) < 1e-5f);
    memset(mask, 0, sizeof mask);
    CHECK(isnan(f32_of(reduce("mean", "f32", words, mask, 5, give_mask, 0))));
    CHECK(isnan(f32_of(reduce("var", "f32", words, mask, 5, give_mask, 0))));
}

TEST(argmax_and_argmin)
{
    uint64_t words[6];
    fill_f32(words, (float[]){1, 3, NAN, 3, NAN, 9}, 6);
    CHECK_INT(reduce("argmax", "f32", words, NULL, 6, NULL, 0), 2);
    CHECK_INT(reduce("argmin", "f32", words, NULL, 6, NULL, 0), 2);
    CHECK_INT(reduce("argmax", "f32", words, NULL, 2, NULL, 0), 1);
    fill_f32(words, (float[]){-0.0f, 0.0f, 0.0f, -INFINITY, -INFINITY, -1}, 6);
    CHECK_INT(reduce("argmax", "f32", words, NULL, 6, NULL, 0), 0);
    CHECK_INT(reduce("argmin", "f32", words, NULL, 6, NULL, 0), 3);
    static uint64_t bytes[1000];
    memset(bytes, 0, sizeof bytes);
    bytes[700] = bytes[900] = 5;
    CHECK_INT(reduce("argmax", "u8", bytes, NULL, 1000, NULL, 0), 700);
    CHECK_INT(reduce("argmax", "bool", bytes, NULL, 1000, NULL, 0), 700);
    CHECK_INT(reduce("argmin", "i8", bytes, NULL, 1000, NULL, 0), 0);
    fill_f32(words, (float[]){-INFINITY, -INFINITY}, 2);
    CHECK_INT(reduce("argmax", "f32", words, NULL, 2, NULL, 0), 0);
}

TEST(sums_are_accurate)
{
    const int n = 20000;
    uint64_t *words = calloc((size_t)n, sizeof *words);
    for (int i = 0; i < n; i++)
        words[i] = 0x3c00;
    CHECK_INT(reduce("sum", "f16", words, NULL, n, NULL, 0), 0x74e2); /* 20000 */
    CHECK_INT(reduce("mean", "f16", words, NULL, n, NULL, 0), 0x3c00);
    for (int i = 0; i < n; i++)
        words[i] = 0x3f80;
    CHECK_INT(reduce("sum", "bf16", words, NULL, 1000, NULL, 0), 0x447a);
    for (int i = 0; i < n; i++)
        words[i] = 16000;
    CHECK_INT(reduce("mean", "i16", words, NULL, 100, NULL, 0), word_f64(16000));
    for (int i = 0; i < 3; i++)
        words[i] = 9007199254740994;
    CHECK_INT(reduce("mean", "i64", words, NULL, 3, NULL, 0), word_f64(9007199254740994.0));
    free(words);
}

static void check_variance(double offset, double spread, int n)
{
    uint64_t *words = calloc((size_t)n, sizeof *words);
    long double sum = 0, squares = 0;
    uint64_t seed = 88172645463325252ull;
    for (int i = 0; i < n; i++) {
        seed ^= seed << 13, seed ^= seed >> 7, seed ^= seed << 17;
        words[i] = word_f32((float)(offset + spread * ((double)(seed >> 11) / 0x1p53 - 0.5)));
        sum += (long double)f32_of(words[i]);
    }
    for (int i = 0; i < n; i++) {
        const long double d = (long double)f32_of(words[i]) - sum / n;
        squares += d * d;
    }
    const double expected = (double)(squares / n),
                 found = (double)f32_of(reduce("var", "f32", words, NULL, n, NULL, 0));
    CHECK_MSG(fabs(found - expected) <= 4e-7 * expected, "var of %g +- %g, %d: %.9g, expected %.9g", offset, spread, n,
              found, expected);
    free(words);
}

TEST(variances_are_accurate)
{
    check_variance(0, 1, 3000);
    check_variance(1e4, 1, 5000);
    check_variance(1e7, 1000, 5000);
    check_variance(1e8, 222, 20000);
    uint64_t words[700];
    for (int i = 0; i < 700; i++)
        words[i] = word_f32(0.1f);
    CHECK_INT(reduce("var", "f32", words, NULL, 700, NULL, 0), word_f32(0));
    for (int i = 0; i < 700; i++)
        words[i] = i % 2 ? 0x5cb0 : 0xdcb0;                             /* +-300 in f16 */
    CHECK_INT(reduce("var", "f16", words, NULL, 700, NULL, 0), 0x7c00); /* 90000 is beyond f16; inside it was not */
    CHECK_INT(reduce("dev(x: float) = sqrt(var(x))", "f16", words, NULL, 700, NULL, 0), 0x5cb0);
}

TEST(logsumexp_of_special_rows)
{
    static const struct {
        float values[4];
        int n;
        float result;
    } rows[] = {{{-INFINITY, -INFINITY}, 2, -INFINITY}, {{INFINITY, 2, 3}, 3, INFINITY},
                {{INFINITY, -INFINITY}, 2, INFINITY},   {{0}, 0, -INFINITY},
                {{1000, 1000}, 2, 1000.69318f},         {{-1e38f, -INFINITY}, 2, -1e38f},
                {{1, NAN, INFINITY}, 3, NAN},           {{-INFINITY, 5}, 2, 5}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        uint64_t words[4];
        fill_f32(words, rows[i].values, rows[i].n);
        const float found = f32_of(reduce("logsumexp", "f32", words, NULL, rows[i].n, NULL, 0));
        CHECK_MSG(same_f64((double)found, (double)rows[i].result), "row %zu: %.9g", i, (double)found);
    }
    static uint64_t many[2000]; /* leaves without a finite element beside others */
    for (int i = 0; i < 2000; i++)
        many[i] = word_f32(i < 600 ? -INFINITY : -700);
    const float found = f32_of(reduce("logsumexp", "f32", many, NULL, 2000, NULL, 0));
    CHECK_MSG(fabsf(found - (-700 + 7.2442275f)) < 1e-4f, "%.9g", (double)found);
}

/* Row operations: element i of the result for one row of x; further inputs are 1 and 0. */
static float row_element(op_eval *o, const uint64_t *words, int64_t n, int64_t i)
{
    static const uint64_t one = 0x3f800000, zero = 0;
    o->words[0][0] = words;
    o->words[1][0] = &one;
    o->words[2][0] = &zero;
    o->is_one[1] = o->is_one[2] = true;
    return f32_of(op_eval_word(o, 0, n, i));
}

TEST(layer_norm_of_a_large_mean)
{
    enum { N = 400 };
    uint64_t words[N];
    long double sum = 0, squares = 0;
    for (int i = 0; i < N; i++) {
        words[i] = word_f32(10000 + (float)((i * 7919) % 1009) / 1009);
        sum += (long double)f32_of(words[i]);
    }
    for (int i = 0; i < N; i++)
        squares += ((long double)f32_of(words[i]) - sum / N) * ((long double)f32_of(words[i]) - sum / N);
    op_eval o;
    CHECK_INT(op_eval_begin(&o, "layer_norm", "f32 f32 f32"), DLK_OK);
    o.scalars[0][0] = word_f64(1e-5);
    for (int i = 0; i < N; i += 13) {
        const double x = (double)(((long double)f32_of(words[i]) - sum / N) / sqrtl(squares / N + 1e-5L));
        const double found = (double)row_element(&o, words, N, i);
        CHECK_MSG(fabs(found - x) <= 4e-7 * fabs(x) + 1e-9, "%.9g, expected %.9g", found, x);
    }
    op_eval_end(&o);
}

TEST(softmax_rows)
{
    uint64_t words[3];
    op_eval o;
    CHECK_INT(op_eval_begin(&o, "softmax", "f32"), DLK_OK);
    fill_f32(words, (float[]){1000, 1000, -INFINITY}, 3);
    CHECK(row_element(&o, words, 3, 0) == 0.5f && row_element(&o, words, 3, 2) == 0);
    fill_f32(words, (float[]){0, NAN, 1}, 3);
    CHECK(isnan(row_element(&o, words, 3, 0)));
    op_eval_end(&o);
}

/* ---- Programs ------------------------------------------------------------------------------------------------------------------------ */

static const struct {
    const char *text, *types, *message;
} errors[] = {
    {"f(x) = y", "f32", "line 1, column 8: in f: found 'y', expected a parameter or a name bound before"},
    {"f(x: float) = x << 1", "f32", "line 1, column 17: in f: '<<' found float32, expected integers"},
    {"g(x) = x && x  f(x) = x + g(x)", "f32",
     "line 1, column 10: in g, called by f at line 1, column 27: '&&' found float32, expected bool"},
    {"f(x) = x + 300", "i8", "line 1, column 10: in f: the number 300 does not fit int8"},
    {"f(x) = x + -1", "u8", "line 1, column 10: in f: the number -1 does not fit uint8"},
    {"f(x, y) = x + y", "i64 u64",
     "line 1, column 13: in f: +: int64 and uint64 have no common type; convert one of them first, to int64, "
     "uint64 or float64 (cast, or i64(x), u64(x), f64(x) in a formula)"},
    {"f(x) = x < 1", "c64",
     "line 1, column 10: in f: '<' found complex64, expected real numbers: complex numbers have no order"},
    {"f(x) = -(x < 1)", "f32",
     "line 1, column 8: in f: '-' found bool, expected a number; the negation of a bool is !x"},
    {"f(x) = f32(x)", "c64", "line 1, column 8: in f: complex64 cannot become float32; use real(x), imag(x) or abs(x)"},
    {"f(x) = sqrt(x)", "c64", "line 1, column 8: in f: sqrt: found (complex64), expected one of: sqrt(x: float)"},
    {"f(x) = sqrt(x, x)", "f32", "line 1, column 8: in f: sqrt: found 2 arguments, expected 1: sqrt(x: float)"},
    {"f(x) = var(x, corection = 1)", "f32",
     "line 1, column 8: in f: var has no parameter called 'corection': var(x: float, correction: scalar = 0)"},
    {"f(x) = layer_norm(x, x)", "f32",
     "line 1, column 8: in f: layer_norm: 'b' is missing: layer_norm(x: float, w, b, eps: scalar = 1e-5)"},
    {"f(x) = fsqrt(x)", "i32", "line 1, column 8: in f: 'fsqrt' found int32, expected floats"},
    {"f(x) = { (a, b) = x; a }", "f32",
     "line 1, column 10: in f: found float32, expected a tuple of 2 for these names"},
    {"f(x) = { (a, b) = (x, x, x); a }", "f32",
     "line 1, column 10: in f: found a tuple of 3, expected a tuple of 2 for these names"},
    {"f(x) = (x, x) + 1", "f32",
     "line 1, column 15: in f: +: found a tuple of 2 and a number, expected the same form of both"},
    {"f(x) = if rare(x) 1 else 2", "f32", "line 1, column 16: in f: rare: found float32, expected bool"},
    {"f(x) = repeat 3 (s = x) until s { s }", "f32", "line 1, column 31: in f: until: found float32, expected bool"},
    {"f(x) = repeat 3 (s = x) { f64(s) }", "f32",
     "line 1, column 25: in f: the next values of the states: found float64, expected float32; convert it"},
    {"f(x) = repeat 3 (s = x) { s, s }", "f32",
     "line 1, column 25: in f: the next values of the states: found a tuple of 2 and float32, expected the same form "
     "of both"},
    {"f(x) = sum(sum(x))", "f32",
     "line 1, column 8: in sum, called by f at line 1, column 8: sum reduces a value that is the same for all "
     "elements; expected one "
     "that depends on an input"},
    {"f(x) = index()", "f32",
     "line 1, column 8: in f: index() is known in the 'first' and 'leaf' clauses of a reducer only"},
    {"f(x) = f(x)", "f32", "line 1, column 1: in f: 'f' calls itself, and a definition cannot"},
    {"f(x) = g(x)  g(x) = f(x)", "f32", "line 1, column 14: in g: 'f' calls this definition in turn: a circle"},
    {"f(x: f32) = f(f32(x))  f(x: f64) = x", "f32", "line 1, column 13: in f: f: a definition cannot call itself"},
    {"f(x) = nothing(x)", "f32",
     "line 1, column 1: in f: found 'nothing', expected an operation, table, primitive or type"},
    {"f(x) = add[x]", "i32", "line 1, column 8: in f: found 'add[', expected the name of a table before '['"},
    {"table t: i64[2] = {1, 2}  f(x) = t[x]", "f32", "line 1, column 34: in f: the index of table 't' is no integer"},
    {"table t: i64[2] = {1, 2}  f(x) = t(x)", "i32",
     "line 1, column 34: in f: 't' is a table; expected an index: t[i]"},
    {"table t: u8[1] = {256}  f(x) = t[x]", "i32", "line 1, column 32: in f: the number 256 does not fit uint8"},
    {"f(x) = 1 / 0 * x", "f32", "line 1, column 10: in f: '/' of these numbers divides by zero"},
    {"f(x, y)  = x  f(x) = x", "f32",
     "line 1, column 15: found f(x), expected the same inputs and scalars as in f(x, y)"},
    {"f(x) = x  table f: i64[1] = {1}", "f32",
     "line 1, column 11: there is another definition called 'f', expected a name of its own"},
    {"_f(x) = x", "f32", "line 1, column 1: the text defines no operation, expected at least one"},
    {"# nothing (at all)", "f32", "line 1, column 1: the text defines no operation, expected at least one"},
    {"f(x: f32) = x  f(x: f32) = x + 1", "f32", "f: two overloads take (float32) equally well"},
    {"f(x) = (x, (x, x))", "f32", "f: result 1 is a tuple, expected a number"},
    {"f(x) = count(x)", "f32", "f: the result depends on no element of an input"},
    {"f(x, y) = x", "f32", "f: found 1 inputs, expected 2: f(x, y)"},
    {"f(x, s: scalar) = x", "f32", "f: the scalar 's' is not given and has no default"},
    {"f(x) = convert(x, dtype)", "f32",
     "line 1, column 8: in f: f needs a dtype: give the parameter dtype, or an output"},
    {"f(x) = x + dtype", "f32", "line 1, column 12: in f: 'dtype' can stand in convert(x, dtype) only"},
    {"reducer r(x) { first: x merge(a, b): sum(a) } f(x) = r(x)", "f32",
     "in sum, called by r at line 1, column 38, called by f at line 1, column 54: sum: a reduction inside the merge "
     "clause"},
    {"reducer r(x) { leaf: x merge(a, b): a + b } f(x) = r(x)", "f32",
     "line 1, column 22: in r, called by f at line 1, column 52: the state of a leaf depends on single elements; "
     "reduce them: "
     "sum(...), max(...)"},
    {"reducer r(x) { leaf: var(x) merge(a, b): a + b } f(x) = r(x)", "f32", "a reducer over leaves inside a leaf"},
    {"reducer r(x) { first: x merge(a, b): f64(a) } f(x) = r(x)", "f32",
     "line 1, column 38: in r, called by f at line 1, column 54: the merged state: found float64, expected float32; "
     "convert it"},
    {"reducer r(x) { first: x merge(a, b): a + b identity: x } f(x) = r(x)", "f32",
     "line 1, column 54: in r, called by f at line 1, column 65: the identity is not constant"},
    {"reducer r(x) { first: (x,x,x,x,x,x,x,x,x) merge(a, b): a } f(x) = r(x)", "f32",
     "has more numbers than there may be"},
};

TEST(errors_name_place_and_expectation)
{
    for (size_t i = 0; i < sizeof errors / sizeof *errors; i++) {
        op_eval o;
        const dlk_status status = op_eval_begin(&o, errors[i].text, errors[i].types);
        CHECK_MSG(status != DLK_OK, "%s", errors[i].text);
        CHECK_MSG(status == DLK_OK || strstr(dlk_last_error(), errors[i].message), "%s\n  found    %s\n  expected %s",
                  errors[i].text, dlk_last_error(), errors[i].message);
        op_eval_end(&o);
    }
}

TEST(masks_and_initial_values_where_they_make_no_sense)
{
    static const struct {
        const char *op, *types, *message;
        void (*change)(dlk_build_request *request);
    } rows[] = {
        {"max", "f32", "max of nothing has no answer: with where= it needs an initial value (initial=)", give_mask},
        {"add", "f32 f32", "add: is no reduction: it takes neither where= nor initial=", give_mask},
        {"mean", "f32", "mean: takes no initial value", give_initial},
        {"argmax", "f32", "argmax takes no initial value", give_initial},
        {"prod", "c64", "prod takes no initial value", give_initial},
        {"sum", "i8", "a number that is no", give_initial}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows - 1; i++) {
        op_eval o;
        CHECK(op_eval_begin_with(&o, rows[i].op, rows[i].types, rows[i].change) != DLK_OK);
        CHECK_MSG(strstr(dlk_last_error(), rows[i].message), "%s", dlk_last_error());
        op_eval_end(&o);
    }
}

static void check_capped(const char *text, const char *types, const char *part_of_message)
{
    op_eval o;
    const dlk_status status = op_eval_begin(&o, text, types);
    CHECK_INT(status, DLK_ERR_SYNTAX);
    CHECK_MSG(strstr(dlk_last_error(), part_of_message), "%s", dlk_last_error());
    op_eval_end(&o);
}

/* `n` definitions, each made by `format` of its number and twice that of the one before, and a last one. */
static char *chain(const char *first, const char *format, int n, const char *last)
{
    char *text = calloc(1, (size_t)n * 128 + 256);
    size_t used = (size_t)sprintf(text, "%s\n", first);
    for (int i = 1; i < n; i++)
        used += (size_t)sprintf(text + used, format, i, i - 1, i - 1);
    strcpy(text + used, last);
    return text;
}

TEST(exponential_inlining_is_an_error)
{
    char *text = chain("f0(x) = x + 1", "f%d(x) = f%d(f%d(x))\n", 40, "f(x) = f39(x)");
    check_capped(text, "f32", "more than 10000 nodes after inlining");
    free(text);
    text = chain("f0(x) = x + 1.5", "f%d(x) = f%d(f%d(x)) * x\n", 40, "f(x) = f39(x)");
    check_capped(text, "f32", "more than 10000 nodes after inlining");
    free(text);
    text = chain("f0(x) = x", "f%d(x) { (a, b) = f%d(x); f%d((b, a)) }\n", 40, "f(x) { (y, z) = f39((x, x)); y }");
    check_capped(text, "f32", "more than 200000 steps");
    free(text);
    text = chain("f0(x) = x", "f%d(x) = f%d(x) + 0 * f%d(x)\n", 70, "f(x) = f69(x)");
    check_capped(text, "f32", "too many definitions that call each other");
    free(text);
    text = chain("f0(x) = x", "f%d(x) = -(-(-(-(-(-(-(-(-(-(-(-(-(-(-(-(-(-(-(-(f%d(x)))))))))))))))))))))  # %d\n", 60,
                 "f(x) = f59(x)");
    check_capped(text, "f32", "nested deeper than 1000 after inlining");
    free(text);
}

TEST(hash_consing_keeps_shared_work_once)
{
    char *text = chain("f0(x) = x + 1", "f%d(x) = f%d(x) * f%d(x)\n", 50, "f(x) = f49(x)");
    op_eval o;
    CHECK_INT(op_eval_begin(&o, text, "f32"), DLK_OK);
    CHECK(o.built.prog->n_nodes < 60);
    op_eval_end(&o);
    free(text);
    CHECK_INT(op_eval_begin(&o, "f(x) = sin(x) + sin(x) * sin(x)", "f32"), DLK_OK);
    const int once = o.built.prog->n_nodes;
    op_eval_end(&o);
    CHECK_INT(op_eval_begin(&o, "sin", "f32"), DLK_OK);
    CHECK_INT(once, o.built.prog->n_nodes + 2);
    op_eval_end(&o);
}

TEST(two_uses_of_a_reduction_are_one)
{
    op_eval o;
    CHECK_INT(op_eval_begin(&o, "f(x) = (x - mean(x)) * (mean(x) + sum(x))", "f32"), DLK_OK);
    CHECK_INT(o.built.prog->n_reduces, 1);
    CHECK_INT(o.built.kind, DLK_OP_ROW);
    op_eval_end(&o);
    CHECK_INT(op_eval_begin(&o, "layer_norm", "f32 f32 f32"), DLK_OK);
    CHECK_INT(o.built.prog->n_reduces, 3);
    for (int i = 0; i < o.built.prog->n_reduces; i++)
        CHECK_INT(o.built.prog->reduces[i].level, i);
    op_eval_end(&o);
}

TEST(literals_are_rounded_to_their_peers_once)
{
    op_eval o;
    CHECK_INT(op_eval_begin(&o, "f(x) = x * (1 / 3 * 3 / 10)", "f32"), DLK_OK);
    CHECK_INT(op_map(&o, word_f32(1), 0, 0), word_f32(0.1f));
    op_eval_end(&o);
    CHECK_INT(op_eval_begin(&o, "f(x) = x * 1.00000005960464477540", "f32"),
              DLK_OK); /* above a tie that f64 would make even */
    CHECK_INT(op_map(&o, word_f32(1), 0, 0), word_f32(0x1.000002p0f));
    op_eval_end(&o);
    CHECK_INT(op_eval_begin(&o, "f(x) = x - 0xffffffffffffffff", "u64"), DLK_OK);
    CHECK_INT(op_map(&o, 5, 0, 0), 6);
    op_eval_end(&o);
    CHECK_INT(op_eval_begin(&o, "f(x) = x * pi", "f64"), DLK_OK);
    CHECK_INT(op_map(&o, word_f64(1), 0, 0), word_f64(3.141592653589793));
    op_eval_end(&o);
    CHECK_INT(op_eval_begin(&o, "f(x) = copysign(x, -0.0)", "f32"), DLK_OK);
    CHECK_INT(op_map(&o, word_f32(1), 0, 0), word_f32(-1));
    op_eval_end(&o);
}

TEST(branches_loops_and_tables)
{
    op_eval o;
    CHECK_INT(op_eval_begin(&o, "f(x) = if rare(x > 10) (x - 10) * 2 else x + 1", "f32"), DLK_OK);
    CHECK_INT(op_map(&o, word_f32(5), 0, 0), word_f32(6));
    CHECK_INT(op_map(&o, word_f32(15), 0, 0), word_f32(10));
    op_eval_end(&o);
    CHECK_INT(op_eval_begin(
                  &o,
                  "f(n) { (a, b, k) = repeat 90 (a = i64(0), b = i64(1), k = n) until k == 0 { b, a + b, k - 1 }; a }",
                  "i64"),
              DLK_OK);
    CHECK_INT(op_map(&o, 10, 0, 0), 55);
    CHECK_INT(op_map(&o, 90, 0, 0), 2880067194370816120);
    op_eval_end(&o);
    CHECK_INT(op_eval_begin(&o, "f(x) = repeat 3 (s = x) { s * 2 + repeat 2 (t = s) { t + x } }", "i32"), DLK_OK);
    CHECK_INT(op_map(&o, 1, 0, 0), 53); /* s -> 3s + 2: 1, 5, 17, 53 */
    op_eval_end(&o);
    CHECK_INT(op_eval_begin(&o, "table t: i32[3] = { 7, -8, 0x9 }  f(i) = t[i]", "i8"), DLK_OK);
    CHECK_INT((int32_t)op_map(&o, 1, 0, 0), -8);
    CHECK_INT((int32_t)op_map(&o, 100, 0, 0), 9);
    CHECK_INT((int32_t)op_map(&o, 0x80, 0, 0), 7);
    op_eval_end(&o);
}

TEST(several_outputs)
{
    op_eval o;
    CHECK_INT(op_eval_begin(&o, "f(x: float) { m = mean(x); (m, x - m, 1) }", "i8"), DLK_OK);
    CHECK_INT(o.built.prog->n_outputs, 3);
    CHECK_INT(o.built.kind, DLK_OP_ROW);
    CHECK(o.built.is_reduced[0] && !o.built.is_reduced[1] && o.built.is_reduced[2]);
    CHECK_INT(o.built.prog->outputs[2].dtype, DLK_DTYPE_I64);
    op_eval_end(&o);
}

TEST(user_reducers)
{
    static const char text[] = "reducer norm(x: float) {\n"
                               "  leaf: { m = max(abs(x)); (m, sum(square(select(m > 0, x / m, x)))) }\n"
                               "  merge((ma, sa), (mb, sb)): { m = maximum(ma, mb); a = ma / m; b = mb / m;\n"
                               "    select(m > 0, (m, sa * a * a + sb * b * b), (ma, sa)) }\n"
                               "  empty: (0, 0)\n"
                               "  finish((m, s)): m * sqrt(s)\n"
                               "}";
    uint64_t words[1500];
    for (int i = 0; i < 1500; i++)
        words[i] = word_f32(i < 4 ? 1e30f : 0);
    CHECK_INT(reduce(text, "f32", words, NULL, 4, NULL, 0), word_f32(2e30f));
    CHECK_INT(reduce(text, "f32", words, NULL, 1500, NULL, 0), word_f32(2e30f));
    CHECK_INT(reduce(text, "f32", words, NULL, 0, NULL, 0), word_f32(0));
    static const char first[] = "reducer pick(x) { first: x  merge(a, b): a }"; /* no identity, an order */
    for (int i = 0; i < 1500; i++)
        words[i] = (uint64_t)i + 7;
    CHECK_INT(reduce(first, "i32", words, NULL, 1500, NULL, 0), 7);
    static const char masked[] = "reducer pick(x) { first: x  merge(a, b): a  empty: -1 }";
    static uint64_t mask[1500];
    mask[1300] = 1;
    CHECK_INT(reduce(masked, "i32", words, mask, 1500, give_mask, 0), 1307);
    mask[1300] = 0;
    CHECK_INT((int32_t)reduce(masked, "i32", words, mask, 1500, give_mask, 0), -1);
}

/* ---- Scalars ------------------------------------------------------------------------------------------------------------------------- */

/* Whether `value` may be scalar 0 of op(types). */
static dlk_status check_scalar(const char *name, const char *types, dlk_scalar value)
{
    op_eval o;
    const dlk_op *op;
    CHECK_INT(op_eval_begin(&o, name, types), DLK_OK);
    CHECK_INT(dlk_registry_find(o.registry, name, &op), DLK_OK);
    const dlk_status status = dlk_build_check_scalar(dlk_op_get_version(op), &o.built.scalars[0], &value);
    op_eval_end(&o);
    return status;
}

static dlk_scalar int_scalar(int64_t value)
{
    return (dlk_scalar){.kind = DLK_SCALAR_INT, .value.i = value};
}

TEST(scalars_that_do_not_fit)
{
    CHECK_INT(check_scalar("add", "i8 ~int", int_scalar(127)), DLK_OK);
    CHECK_INT(check_scalar("add", "i8 ~int", int_scalar(-128)), DLK_OK);
    CHECK_INT(check_scalar("add", "i8 ~int", int_scalar(-129)), DLK_ERR_DTYPE);
    CHECK_STR(dlk_last_error(), "add: the scalar 'y' is -129, which does not fit int8");
    CHECK_INT(check_scalar("add", "u64 ~int", int_scalar(-1)), DLK_ERR_DTYPE);
    CHECK_INT(check_scalar("add", "f32 ~int", int_scalar(INT64_MIN)), DLK_OK);
    CHECK_INT(check_scalar("less", "i8 ~int", int_scalar(1000)), DLK_OK); /* comparisons take any */
    CHECK_INT(check_scalar("add", "u64 ~uint", (dlk_scalar){.kind = DLK_SCALAR_UINT, .value.u = UINT64_MAX}), DLK_OK);
    CHECK_INT(check_scalar("add", "i64 ~uint", (dlk_scalar){.kind = DLK_SCALAR_UINT, .value.u = 1ull << 63}),
              DLK_ERR_DTYPE);
    CHECK_STR(dlk_last_error(), "add: the scalar 'y' is 9223372036854775808, which does not fit int64");
}

/* ---- The registry -------------------------------------------------------------------------------------------------------------------- */

TEST(all_names_of_the_library_mean_something)
{
    dlk_arena arena = {0};
    CHECK_INT(dlk_library_load(), DLK_OK);
    CHECK_MSG(dlk_names_check(&arena, dlk_library_names(), NULL) == DLK_OK, "%s", dlk_last_error());
    dlk_arena_free(&arena);
}

TEST(every_operation_of_the_library_builds_and_is_documented)
{
    dlk_registry *registry;
    const dlk_op *ops[300];
    int n;
    CHECK_INT(dlk_registry_create(&registry), DLK_OK);
    CHECK_INT(dlk_registry_list(registry, ops, 300, &n), DLK_OK);
    CHECK(n > 50 && n < 300);
    for (int i = 0; i < n; i++) {
        dlk_op_kind kind;
        int outputs;
        const char *dtypes;
        CHECK(i == 0 || strcmp(ops[i - 1]->name, ops[i]->name) < 0);
        CHECK_MSG(dlk_op_describe(ops[i], &kind, &outputs, &dtypes) == DLK_OK, "%s", dlk_last_error());
        CHECK_MSG(dlk_op_get_version(ops[i])->documentation[0], "%s has no documentation", ops[i]->name);
    }
    dlk_registry_destroy(registry);
}

static bool same_hash(dlk_hash a, dlk_hash b)
{
    return a.lo == b.lo && a.hi == b.hi;
}

TEST(defining_again_changes_what_depends_on_it)
{
    dlk_registry *registry;
    const dlk_op *f, *g, *g2, *exp_op;
    CHECK_INT(dlk_registry_create(&registry), DLK_OK);
    CHECK_INT(dlk_registry_find(registry, "softmax", &exp_op), DLK_OK);
    const dlk_op_version *softmax = dlk_op_get_version(exp_op);
    CHECK_INT(dlk_registry_define(registry, "g(x) = x + 1", &g), DLK_OK);
    CHECK_INT(dlk_registry_define(registry, "f(x) = g(x) * 2", &f), DLK_OK);
    const dlk_op_version *before = dlk_op_get_version(f);
    const uint64_t epoch = dlk_registry_epoch(registry);
    CHECK_INT(dlk_registry_define(registry, "g(x) = x + 2", &g2), DLK_OK);
    CHECK(g == g2);
    CHECK(dlk_op_get_version(f) != before && !same_hash(dlk_op_get_version(f)->closure, before->closure));
    CHECK(dlk_registry_epoch(registry) != epoch);
    CHECK_INT(dlk_registry_define(registry, "max(x) = x", NULL), DLK_OK); /* the library's own use of max stays */
    CHECK(dlk_op_get_version(exp_op) == softmax);
    CHECK_INT(dlk_registry_define(registry, "g(x) = f(x)", NULL), DLK_ERR_SYNTAX);
    CHECK(strstr(dlk_last_error(), "a circle"));
    CHECK_STR(dlk_op_get_version(g)->formula, "g(x) = x + 2");
    dlk_registry_destroy(registry);
}

TEST(names_that_are_close_are_offered)
{
    dlk_registry *registry;
    const dlk_op *op;
    CHECK_INT(dlk_registry_create(&registry), DLK_OK);
    CHECK_INT(dlk_registry_find(registry, "sqrtt", &op), DLK_ERR_NOT_FOUND);
    CHECK_STR(dlk_last_error(), "there is no operation called 'sqrtt'; did you mean sqrt?");
    CHECK_INT(dlk_registry_find(registry, "_moments", &op), DLK_ERR_NOT_FOUND);
    CHECK_STR(dlk_last_error(), "'_moments' is no operation: names that begin with '_' are for definitions only");
    CHECK_INT(dlk_registry_find(registry, "", &op), DLK_ERR_NOT_FOUND);
    dlk_registry_destroy(registry);
}

TEST(versions_tell_what_an_operation_takes)
{
    dlk_registry *registry;
    const dlk_op *op;
    CHECK_INT(dlk_registry_create(&registry), DLK_OK);
    CHECK_INT(dlk_registry_find(registry, "layer_norm", &op), DLK_OK);
    const dlk_op_version *version = dlk_op_get_version(op);
    CHECK_INT(version->n_inputs, 3);
    CHECK_INT(version->n_parameters, 1);
    CHECK_STR(version->input_names[2], "b");
    CHECK_STR(version->parameter_names[0], "eps");
    CHECK_INT(version->parameter_defaults[0].kind, DLK_SCALAR_FLOAT);
    CHECK(version->parameter_defaults[0].value.f == 1e-5);
    CHECK_STR(version->signature, "layer_norm(x: float, w, b, eps: scalar = 1e-5)");
    dlk_registry_destroy(registry);
}

static int destroyed;

static void count_destroy(void *user)
{
    destroyed += *(int *)user;
}

static dlk_status run_nothing(void *user, const dlk_input *inputs, int n_inputs, const DLTensor *outputs, int n_outputs,
                              const dlk_params *params)
{
    (void)user, (void)inputs, (void)n_inputs, (void)outputs, (void)n_outputs, (void)params;
    return DLK_OK;
}

TEST(native_implementations_are_ordered)
{
    static int one = 1;
    static const struct {
        const char *name;
        int priority;
    } natives[] = {{"middle", 5}, {"last", -1}, {"first", 9}, {"second", 5}};
    dlk_registry *registry;
    const dlk_op *op;
    CHECK_INT(dlk_registry_create(&registry), DLK_OK);
    for (int i = 0; i < 4; i++) {
        const dlk_native native = {.size = sizeof native,
                                   .operation = "add",
                                   .name = natives[i].name,
                                   .device_type = kDLCPU,
                                   .priority = natives[i].priority,
                                   .run = run_nothing,
                                   .user = &one,
                                   .destroy = count_destroy};
        CHECK_INT(dlk_registry_register(registry, &native), DLK_OK);
        CHECK_INT(dlk_registry_register(registry, &native), DLK_ERR_INVALID);
    }
    CHECK_INT(dlk_registry_find(registry, "add", &op), DLK_OK);
    static const char *const order[] = {"first", "middle", "second", "last"};
    int n = 0;
    for (const dlk_implementation *i = dlk_op_get_implementations(op); i; i = i->next)
        CHECK_STR(i->name, order[n++]);
    CHECK_INT(n, 4);
    destroyed = 0;
    dlk_registry_destroy(registry);
    CHECK_INT(destroyed, 4);
}
