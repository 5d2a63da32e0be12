/* The table of primitives as data: names for dumps and the language, arities and kinds for checks. */
#include "codegen/ir.h"

const dlk_prim_info dlk_prims[DLK_PRIM_COUNT] = {
#define PRIM(id, name, arity, args, result) [DLK_PRIM_##id] = {name, arity, #args[0], #result[0]},
#include "codegen/prims.def"
#undef PRIM
};
