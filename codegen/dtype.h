/* Element types of tensors: one table (dtypes.def), from which storage, compute kind, names and DLPack codes follow. */
#ifndef DLK_CODEGEN_DTYPE_H
#define DLK_CODEGEN_DTYPE_H

#include "codegen/kind.h"
#include "dlk/dlpack.h"

typedef enum dlk_dtype {
#define DTYPE(name, id, code, bits, storage, compute, parts, class, exp, man, special) DLK_DTYPE_##id,
#include "codegen/dtypes.def"
#undef DTYPE
    DLK_DTYPE_COUNT,
    DLK_DTYPE_NONE = 0xff
} dlk_dtype;

typedef enum dlk_dtype_class {
    DLK_CLASS_BOOL,
    DLK_CLASS_INT,
    DLK_CLASS_UINT,
    DLK_CLASS_FLOAT,
    DLK_CLASS_COMPLEX
} dlk_dtype_class;

typedef enum dlk_special { DLK_SPECIAL_NONE, DLK_SPECIAL_IEEE, DLK_SPECIAL_FN } dlk_special;

typedef struct dlk_dtype_info {
    const char *name;
    uint8_t code;             /* DLDataTypeCode */
    uint8_t bits;             /* of one element, both parts of a complex */
    uint8_t storage, compute; /* dlk_kind, of one part */
    uint8_t parts;
    uint8_t class_; /* dlk_dtype_class */
    uint8_t exponent_bits, mantissa_bits;
    uint8_t special; /* dlk_special */
} dlk_dtype_info;

extern const dlk_dtype_info dlk_dtypes[DLK_DTYPE_COUNT];

/* By DLPack type with lanes ignored; DLK_DTYPE_NONE when dlk does not know it. */
dlk_dtype dlk_dtype_from_dl(DLDataType type);
DLDataType dlk_dtype_to_dl(dlk_dtype dtype);
/* By name ("float32") or short name ("f32", "bf16", "u8", "c64", "f8e4m3fn"). */
dlk_dtype dlk_dtype_from_name(const char *name, size_t length);
/* Writes e.g. "float32", "float32x4" or "code 3 bits 7" into `out` (at least 32 bytes); returns out. */
const char *dlk_dtype_describe(DLDataType type, char *out);

#endif
