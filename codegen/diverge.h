/* Which values differ between the threads of an item: barriers and shuffles must not depend on those. */
#ifndef DLK_CODEGEN_DIVERGE_H
#define DLK_CODEGEN_DIVERGE_H

#include "codegen/ir.h"

/* By node: may differ between threads that run it in the same round of the loops around it. Of a well-formed function. */
bool *dlk_ir_diverging(const dlk_func *func, dlk_arena *arena);
/* The threads inside a LOOP or IF may be fewer than those that reach it. */
bool dlk_ir_splits(const dlk_func *func, const bool *diverging, dlk_val loop_or_if);

#endif
