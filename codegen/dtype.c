/* Names and DLPack codes of element types, all from the rows of dtypes.def. */
#include "codegen/dtype.h"

#include <stdio.h>
#include <string.h>

#include "base/status.h"

const dlk_dtype_info dlk_dtypes[DLK_DTYPE_COUNT] = {
#define DTYPE(name, id, code, bits, storage, compute, parts, class, exp, man, special) \
    {name, code, bits, DLK_##storage, DLK_##compute, parts, DLK_CLASS_##class, exp, man, DLK_SPECIAL_##special},
#include "codegen/dtypes.def"
#undef DTYPE
};

/* What a type of unknown size is called, by DLPack code; an opaque handle has no name. */
static const char *const code_names[] = {"int",
                                         "uint",
                                         "float",
                                         NULL,
                                         "bfloat",
                                         "complex",
                                         "bool",
                                         "float8_e3m4",
                                         "float8_e4m3",
                                         "float8_e4m3b11fnuz",
                                         "float8_e4m3fn",
                                         "float8_e4m3fnuz",
                                         "float8_e5m2",
                                         "float8_e5m2fnuz",
                                         "float8_e8m0fnu",
                                         "float6_e2m3fn",
                                         "float6_e3m2fn",
                                         "float4_e2m1fn"};

#define DTYPE(name, id, code, bits, storage, compute, parts, class, exp, man, special) " " name
static const char all_names[] =
#include "codegen/dtypes.def"
    ;
#undef DTYPE

/* "f32" for "float32": the first letter of the name, then what follows the letters; "bf16" and "f8e4m3fn" keep more. */
static void short_name(const char *name, char out[16])
{
    const size_t prefix = strncmp(name, "bfloat", 6) == 0 ? 2 : 1;
    size_t n = 0;
    for (size_t i = 0; name[i] && n < 15; i++) {
        const bool is_letter_of_word = name[i] >= 'a' && name[i] <= 'z' && n <= prefix && i > 0;
        if (i < prefix || (!is_letter_of_word && name[i] != '_'))
            out[n++] = name[i];
    }
    out[n] = 0;
}

static bool names_equal(const char *name, const char *text, size_t length)
{
    return strlen(name) == length && memcmp(name, text, length) == 0;
}

dlk_dtype dlk_dtype_from_dl(DLDataType type)
{
    for (int i = 0; i < DLK_DTYPE_COUNT; i++)
        if (dlk_dtypes[i].code == type.code && dlk_dtypes[i].bits == type.bits)
            return (dlk_dtype)i;
    return DLK_DTYPE_NONE;
}

DLDataType dlk_dtype_to_dl(dlk_dtype dtype)
{
    return (DLDataType){.code = dlk_dtypes[dtype].code, .bits = dlk_dtypes[dtype].bits, .lanes = 1};
}

dlk_dtype dlk_dtype_from_name(const char *name, size_t length)
{
    for (int i = 0; i < DLK_DTYPE_COUNT; i++) {
        char shorter[16];
        short_name(dlk_dtypes[i].name, shorter);
        const bool is_bool = dlk_dtypes[i].class_ == DLK_CLASS_BOOL; /* "b" would say too little */
        if (names_equal(dlk_dtypes[i].name, name, length) || (!is_bool && names_equal(shorter, name, length)))
            return (dlk_dtype)i;
    }
    return DLK_DTYPE_NONE;
}

const char *dlk_dtype_describe(DLDataType type, char *out)
{
    const dlk_dtype known = dlk_dtype_from_dl(type);
    char name[24];
    if (known != DLK_DTYPE_NONE)
        snprintf(name, sizeof name, "%s", dlk_dtypes[known].name);
    else if (type.code < sizeof code_names / sizeof *code_names && code_names[type.code])
        snprintf(name, sizeof name, type.code < 7 ? "%s%d" : "%s", code_names[type.code], type.bits);
    else
        snprintf(name, sizeof name, "code %d bits %d", type.code, type.bits);
    if (type.lanes == 1)
        snprintf(out, 32, "%s", name);
    else
        snprintf(out, 32, "%sx%d", name, type.lanes);
    return out;
}

dlk_status dlk_dtype_parse(const char *name, DLDataType *out)
{
    const dlk_dtype dtype = name ? dlk_dtype_from_name(name, strlen(name)) : DLK_DTYPE_NONE;
    if (dtype != DLK_DTYPE_NONE) {
        *out = dlk_dtype_to_dl(dtype);
        return DLK_OK;
    }
    return dlk_fail(DLK_ERR_DTYPE, "there is no dtype '%s'; there are%s", name ? name : "(NULL)", all_names);
}
