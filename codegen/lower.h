/* Short words for the builders that lowering passes use on every line. */
#ifndef DLK_CODEGEN_LOWER_H
#define DLK_CODEGEN_LOWER_H

#include "codegen/rewrite.h"

/* A constant of `kind` with as many lanes as `like`. */
static inline dlk_val lower_const(dlk_func *func, dlk_val like, dlk_kind kind, uint64_t bits)
{
    return dlk_ir_const(func, (dlk_type){(uint8_t)kind, func->nodes[like].type.lanes}, bits);
}
static inline dlk_val lower_unary(dlk_func *func, dlk_prim prim, dlk_val a)
{
    return dlk_ir_prim(func, prim, a, DLK_NONE, DLK_NONE);
}
static inline dlk_val lower_binary(dlk_func *func, dlk_prim prim, dlk_val a, dlk_val b)
{
    return dlk_ir_prim(func, prim, a, b, DLK_NONE);
}
static inline dlk_val lower_select(dlk_func *func, dlk_val p, dlk_val a, dlk_val b)
{
    return dlk_ir_prim(func, DLK_PRIM_SELECT, p, a, b);
}
static inline dlk_val lower_bitcast(dlk_func *func, dlk_kind kind, dlk_val a)
{
    return dlk_ir_convert(func, DLK_PRIM_BITCAST, kind, a);
}

/* lower_fma.c: a * b + c of f32 or f64 with one rounding, without the instruction. */
dlk_val dlk_lower_fma(dlk_func *func, dlk_val a, dlk_val b, dlk_val c);

#endif
