/* From a scalar program to IR values: what every schedule shares. A walk evaluates nodes of the program where func->at
 * stands, each once in a region; the schedule says through a source how elements are read and where it stands.
 *
 * A value has one lane where nothing it depends on differs between the lanes, else as many as its region. A region is a
 * stretch of one block of the IR (a loop body, an arm, one of several unrolled copies): what was evaluated in it is
 * reused in it and in the regions inside. */
#ifndef DLK_CODEGEN_WALK_H
#define DLK_CODEGEN_WALK_H

#include "codegen/ir.h"
#include "codegen/prog.h"

/* Where INPUT and INDEX nodes come from. */
typedef struct dlk_source {
    void *context;
    /* True when `leaf` (INPUT or INDEX) can be had where the schedule stands. Emits nothing. */
    bool (*reaches)(void *context, const dlk_pnode *leaf);
    /* Its value, one lane or as many as the region; of an INPUT all parts. Called only where `reaches` says true. */
    void (*read)(void *context, const dlk_pnode *leaf, dlk_val parts[2]);
} dlk_source;

typedef struct dlk_region dlk_region;

typedef struct dlk_walk {
    dlk_func *func;
    const dlk_prog *prog;
    dlk_source source;
    dlk_region *region;       /* the innermost */
    dlk_region *spare;        /* closed ones, for reuse */
    bool *uses_var;           /* by node: a VAR occurs in what it depends on */
    dlk_ref (*input_part)[2]; /* by operand and part: its INPUT node or NONE */
    int *table;               /* by table of the program: that of the function, or -1 */
    bool *reached;            /* by node, while hoisting: it can be had here */
    bool **marks;             /* sets of nodes, a stack; all empty */
    int n_marks, cap_marks, made_marks;
    dlk_status status; /* the first failure; values after it mean nothing */
} dlk_walk;

/* Begins with one region of one lane, the function's body. */
dlk_walk *dlk_walk_create(dlk_func *func, const dlk_prog *prog, dlk_source source);

void dlk_walk_push(dlk_walk *walk, int lanes);
void dlk_walk_pop(dlk_walk *walk);
int dlk_walk_lanes(const dlk_walk *walk);

/* In the current region `node` is `value` from now on: for VARs, for PROJs of reductions that are done, for LEAF_COUNT. */
void dlk_walk_bind(dlk_walk *walk, dlk_ref node, dlk_val value);
/* Binds every PROJ of the REDUCE node with index `reduce` in prog->reduces to parts[its number]. */
void dlk_walk_bind_reduce(dlk_walk *walk, int reduce, const dlk_val *parts);

/* The value of `node`, one lane or the region's. */
dlk_val dlk_walk_value(dlk_walk *walk, dlk_ref node);
/* The same with all lanes of the region. */
dlk_val dlk_walk_vector(dlk_walk *walk, dlk_ref node);
/* Evaluates whatever `node` depends on that can be had here already, so that loops inside find it done. What only the
 * rare arm of a RARE needs is left to that arm. */
void dlk_walk_hoist(dlk_walk *walk, dlk_ref node);

/* `value` with `lanes` lanes: splat when it has one. */
dlk_val dlk_walk_widen(dlk_walk *walk, dlk_val value, int lanes);

/* Adds to the set `in` (by node) all that its members are computed from, not going into reductions; `usual`: nor into
 * rare arms. */
void dlk_walk_close(const dlk_prog *prog, bool *in, bool usual);

/* Small helpers on i64, one lane, and on predicates that schedules write often. */
dlk_val dlk_emit_add(dlk_func *func, dlk_val a, dlk_val b);
dlk_val dlk_emit_sub(dlk_func *func, dlk_val a, dlk_val b);
dlk_val dlk_emit_mul(dlk_func *func, dlk_val a, dlk_val b);
dlk_val dlk_emit_add_const(dlk_func *func, dlk_val a, int64_t b);
dlk_val dlk_emit_mul_const(dlk_func *func, dlk_val a, int64_t b);
dlk_val dlk_emit_smin(dlk_func *func, dlk_val a, dlk_val b);
dlk_val dlk_emit_smax(dlk_func *func, dlk_val a, dlk_val b);
dlk_val dlk_emit_slt(dlk_func *func, dlk_val a, dlk_val b);
dlk_val dlk_emit_select(dlk_func *func, dlk_val p, dlk_val a, dlk_val b); /* p of one lane is splat */
dlk_val dlk_emit_role(dlk_func *func, dlk_uniform_role role, int axis);   /* the uniform of that role */
dlk_val dlk_emit_stride(dlk_func *func, dlk_buffer_role buffer, int axis);

#endif
