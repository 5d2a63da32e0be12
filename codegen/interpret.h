/* Runs IR without a compiler: the oracle of the tests, and the answer where nothing can be compiled. */
#ifndef DLK_CODEGEN_INTERPRET_H
#define DLK_CODEGEN_INTERPRET_H

#include "codegen/ir.h"

/* Runs items [first, end) in lockstep over all threads of an item, with `arguments` as ir.h lays them out; whatever
 * rounding and flushing the caller's thread has set, the results are the same. Checks what a GPU would not: shared memory
 * touched by two subgroups with no barrier between, at least one of them writing; a shuffle in a subgroup that is not all
 * there; a barrier that not every thread reaches; local memory left: DLK_ERR_INTERNAL names the node. */
dlk_status dlk_interpret(const dlk_func *func, const uint64_t *arguments, int64_t first, int64_t end);

/* The value of one primitive on bits (a of kind `from`, result of kind `to`): shared by the interpreter and by constant
 * folding. fused: MAD rounds once. */
uint64_t dlk_prim_eval(dlk_prim prim, dlk_kind from, dlk_kind to, uint64_t a, uint64_t b, uint64_t c, bool fused);
/* The same on n words each; operands that the primitive does not have may be any n words. */
void dlk_prim_eval_lanes(dlk_prim prim, dlk_kind from, dlk_kind to, const uint64_t *a, const uint64_t *b,
                         const uint64_t *c, bool fused, size_t n, uint64_t *out);

#endif
