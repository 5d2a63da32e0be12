/* The kinds of scalars that kernels compute in, and vectors of them. Signedness is a property of operations. */
#ifndef DLK_CODEGEN_KIND_H
#define DLK_CODEGEN_KIND_H

#include <stdbool.h>
#include <stdint.h>

typedef enum dlk_kind {         /* ORDER KIND */
                        DLK_P1, /* a predicate: one bit, 0 or 1 */
                        DLK_I8,
                        DLK_I16,
                        DLK_I32,
                        DLK_I64,
                        DLK_F32,
                        DLK_F64,
                        DLK_KIND_COUNT
} dlk_kind;

static inline int dlk_kind_bits(dlk_kind kind)
{
    static const uint8_t bits[DLK_KIND_COUNT] = {1, 8, 16, 32, 64, 32, 64};
    return bits[kind];
}
/* Bytes of one element in memory; a predicate has no memory form. */
static inline int dlk_kind_bytes(dlk_kind kind)
{
    return dlk_kind_bits(kind) / 8;
}
static inline bool dlk_kind_is_float(dlk_kind kind)
{
    return kind >= DLK_F32;
}
static inline bool dlk_kind_is_int(dlk_kind kind)
{
    return kind >= DLK_I8 && kind <= DLK_I64;
}

#define DLK_LANES_MAX 64

typedef struct dlk_type {
    uint8_t kind;  /* dlk_kind */
    uint8_t lanes; /* 1 to DLK_LANES_MAX */
} dlk_type;

#endif
