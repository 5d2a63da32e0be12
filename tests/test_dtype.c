/* Names, DLPack codes and promotion of element types. */
#include "tests/test.h"

#include "codegen/dtype.h"
#include "kernels/infer.h"

TEST(names_and_codes_lead_back)
{
    for (int i = 0; i < DLK_DTYPE_COUNT; i++) {
        const char *name = dlk_dtypes[i].name;
        char text[32];
        CHECK_INT(dlk_dtype_from_name(name, strlen(name)), i);
        CHECK_INT(dlk_dtype_from_dl(dlk_dtype_to_dl(i)), i);
        CHECK_STR(dlk_dtype_describe(dlk_dtype_to_dl(i), text), name);
    }
}

TEST(short_names)
{
    static const struct {
        const char *name;
        int dtype;
    } rows[] = {
        {"f32", DLK_DTYPE_F32},   {"f64", DLK_DTYPE_F64},           {"f16", DLK_DTYPE_F16},  {"bf16", DLK_DTYPE_BF16},
        {"i8", DLK_DTYPE_I8},     {"u64", DLK_DTYPE_U64},           {"c64", DLK_DTYPE_C64},  {"c128", DLK_DTYPE_C128},
        {"bool", DLK_DTYPE_BOOL}, {"f8e4m3fn", DLK_DTYPE_F8E4M3FN}, {"b", DLK_DTYPE_NONE},   {"f", DLK_DTYPE_NONE},
        {"", DLK_DTYPE_NONE},     {"f3", DLK_DTYPE_NONE},           {"f322", DLK_DTYPE_NONE}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        CHECK_INT(dlk_dtype_from_name(rows[i].name, strlen(rows[i].name)), rows[i].dtype);
}

TEST(unknown_types_are_described)
{
    char text[32];
    CHECK_INT(dlk_dtype_from_dl((DLDataType){kDLUInt, 1, 1}), DLK_DTYPE_NONE);
    CHECK_STR(dlk_dtype_describe((DLDataType){kDLUInt, 1, 1}, text), "uint1");
    CHECK_STR(dlk_dtype_describe((DLDataType){kDLFloat, 32, 4}, text), "float32x4");
    CHECK_STR(dlk_dtype_describe((DLDataType){kDLFloat4_e2m1fn, 4, 2}, text), "float4_e2m1fnx2");
    CHECK_STR(dlk_dtype_describe((DLDataType){kDLOpaqueHandle, 64, 1}, text), "code 3 bits 64");
    CHECK_STR(dlk_dtype_describe((DLDataType){255, 255, 65535}, text), "code 255 bits 255x65535");
}

/* The whole table, by short names; a dot: no type holds both. Rows and columns in the order of dtypes.def. */
static const char *const order[] = {"bool", "i8",  "i16",  "i32", "i64", "u8",       "u16", "u32",
                                    "u64",  "f16", "bf16", "f32", "f64", "f8e4m3fn", "c64", "c128"};
static const char *const promotion[16][16] = {
    {"bool", "i8", "i16", "i32", "i64", "u8", "u16", "u32", "u64", "f16", "bf16", "f32", "f64", "f8e4m3fn", "c64",
     "c128"},
    {"i8", "i8", "i16", "i32", "i64", "i16", "i32", "i64", ".", "f16", "bf16", "f32", "f64", "f32", "c64", "c128"},
    {"i16", "i16", "i16", "i32", "i64", "i16", "i32", "i64", ".", "f32", "f32", "f32", "f64", "f32", "c64", "c128"},
    {"i32", "i32", "i32", "i32", "i64", "i32", "i32", "i64", ".", "f64", "f64", "f64", "f64", "f64", "c128", "c128"},
    {"i64", "i64", "i64", "i64", "i64", "i64", "i64", "i64", ".", "f64", "f64", "f64", "f64", "f64", "c128", "c128"},
    {"u8", "i16", "i16", "i32", "i64", "u8", "u16", "u32", "u64", "f16", "bf16", "f32", "f64", "f32", "c64", "c128"},
    {"u16", "i32", "i32", "i32", "i64", "u16", "u16", "u32", "u64", "f32", "f32", "f32", "f64", "f32", "c64", "c128"},
    {"u32", "i64", "i64", "i64", "i64", "u32", "u32", "u32", "u64", "f64", "f64", "f64", "f64", "f64", "c128", "c128"},
    {"u64", ".", ".", ".", ".", "u64", "u64", "u64", "u64", "f64", "f64", "f64", "f64", "f64", "c128", "c128"},
    {"f16", "f16", "f32", "f64", "f64", "f16", "f32", "f64", "f64", "f16", "f32", "f32", "f64", "f16", "c64", "c128"},
    {"bf16", "bf16", "f32", "f64", "f64", "bf16", "f32", "f64", "f64", "f32", "bf16", "f32", "f64", "bf16", "c64",
     "c128"},
    {"f32", "f32", "f32", "f64", "f64", "f32", "f32", "f64", "f64", "f32", "f32", "f32", "f64", "f32", "c64", "c128"},
    {"f64", "f64", "f64", "f64", "f64", "f64", "f64", "f64", "f64", "f64", "f64", "f64", "f64", "f64", "c128", "c128"},
    {"f8e4m3fn", "f32", "f32", "f64", "f64", "f32", "f32", "f64", "f64", "f16", "bf16", "f32", "f64", "f8e4m3fn", "c64",
     "c128"},
    {"c64", "c64", "c64", "c128", "c128", "c64", "c64", "c128", "c128", "c64", "c64", "c64", "c128", "c64", "c64",
     "c128"},
    {"c128", "c128", "c128", "c128", "c128", "c128", "c128", "c128", "c128", "c128", "c128", "c128", "c128", "c128",
     "c128", "c128"}};

static dlk_dtype named(const char *name)
{
    return name[0] == '.' ? DLK_DTYPE_NONE : dlk_dtype_from_name(name, strlen(name));
}

TEST(promotion_table)
{
    for (int i = 0; i < 16; i++)
        for (int k = 0; k < 16; k++) {
            const dlk_dtype found = dlk_promote(named(order[i]), named(order[k]));
            CHECK_MSG(found == named(promotion[i][k]), "%s with %s is %s, expected %s", order[i], order[k],
                      found == DLK_DTYPE_NONE ? "." : dlk_dtypes[found].name, promotion[i][k]);
        }
}

TEST(weak_scalars_adapt)
{
    static const char *const rows[][6] = {/* array, with bool, int, float, complex */
                                          {"bool", "bool", "i64", "f64", "c128"}, {"i8", "i8", "i8", "f64", "c128"},
                                          {"u64", "u64", "u64", "f64", "c128"},   {"f16", "f16", "f16", "f16", "c64"},
                                          {"f32", "f32", "f32", "f32", "c64"},    {"f64", "f64", "f64", "f64", "c128"},
                                          {"c64", "c64", "c64", "c64", "c64"}};
    static const char *const weak[] = {"bool", "i64", "f64", "c128"};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        for (int k = 0; k < 4; k++)
            CHECK_STR(dlk_dtypes[dlk_promote_weak(named(rows[i][0]), named(weak[k]))].name,
                      dlk_dtypes[named(rows[i][k + 1])].name);
}
