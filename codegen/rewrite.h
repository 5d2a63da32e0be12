/* Rewriting IR: a pass gives a function that may replace nodes, and gets a new function with everything else copied and
 * what nobody uses dropped. */
#ifndef DLK_CODEGEN_REWRITE_H
#define DLK_CODEGEN_REWRITE_H

#include "codegen/ir.h"

typedef struct dlk_rewrite {
    const dlk_func *from;
    dlk_func *to;
    const dlk_val *map; /* by node of `from`: its value in `to` */
    void *state;        /* of the pass */
} dlk_rewrite;

/* Replaces `node` of rewrite->from: appends to rewrite->to and sets *out (stores: ignored). False: the node is copied. */
typedef bool (*dlk_replace)(dlk_rewrite *rewrite, const dlk_node *node, dlk_val *out);

/* Rewrites `func` in place. */
void dlk_rewrite_run(dlk_func *func, dlk_replace replace, void *state);
/* What happens to a node that is not replaced: a copy with its operands mapped, folded by the builder. Not for a LOOP or IF. */
dlk_val dlk_rewrite_copy(const dlk_rewrite *rewrite, const dlk_node *node);
static inline dlk_val dlk_rewrite_mapped(const dlk_rewrite *rewrite, dlk_val value)
{
    return value == DLK_NONE ? DLK_NONE : rewrite->map[value];
}

/* lower_float.c: FMA without the instruction, HTOF and FTOH without F16C, MAD by the target's choice. */
bool dlk_lower_float(dlk_rewrite *rewrite, const dlk_node *node, dlk_val *out);
/* lower_partial.c: accesses with a lane count where the target has no masked instruction. */
bool dlk_lower_partial(dlk_rewrite *rewrite, const dlk_node *node, dlk_val *out);
/* merge.c: one node for all that compute the same and can be seen where they are used. */
void dlk_merge_run(dlk_func *func);

#endif
