/* The scalar program: what one element of the result is, as a typed graph without order, axes or memory. kernels/build
 * makes it from a definition, a schedule turns it into IR by walking it. Complex numbers and tuples are gone (each part
 * is a node), storage formats too (an INPUT is the raw word in memory, followed by the nodes that decode it).
 * Nodes are hash-consed: equal nodes are one. */
#ifndef DLK_CODEGEN_PROG_H
#define DLK_CODEGEN_PROG_H

#include "base/arena.h"
#include "base/buffer.h"
#include "codegen/ir.h"

typedef int32_t dlk_ref; /* a node of the program; DLK_NONE where there is none */

/* What a value depends on, from least to most; also where a schedule computes it. ORDER SCOPE */
typedef enum dlk_scope {
    DLK_SCOPE_UNIFORM, /* constants and scalar parameters */
    DLK_SCOPE_ROW,     /* values reduced over the reduced axes */
    DLK_SCOPE_LEAF,    /* values reduced over one leaf, in the leaf formula of a reducer */
    DLK_SCOPE_ELEMENT  /* an element of the full space */
} dlk_scope;

typedef enum dlk_prog_op {
    DLK_PROG_CONST, /* imm: bits */
    DLK_PROG_INPUT, /* imm: operand, part: which part of a complex; kind: the storage word's. Always scope ELEMENT: whether
                        it is constant along an axis is the nest's business, not the program's */
    DLK_PROG_SCALAR,     /* imm: scalar (kernels/build.h numbers them), part; kind I64 or F64 */
    DLK_PROG_COUNT,      /* i64: elements under one reduced result (UNIFORM), masked or not */
    DLK_PROG_LEAF_COUNT, /* i64: elements of this leaf (LEAF), masked or not: at least 1 */
    DLK_PROG_INDEX,      /* i64: row-major index of the element over the reduced axes */
    DLK_PROG_PRIM,       /* prim; a, b, c */
    DLK_PROG_TABLE,      /* imm: table; a: i64 index */
    DLK_PROG_RARE,   /* a: predicate; list[0..n): values where it is true, list[n..2n): where not. The first group is
                        computed only when some lane needs it. Values by PROJ */
    DLK_PROG_REPEAT, /* imm: the most runs, n: states; list: n first values, n VARs, n next values, 1 predicate: done.
                        `done` is of the VARs, asked before each run: a lane that is done
                        keeps its state. Values by PROJ */
    DLK_PROG_VAR,    /* imm: serial number; a formal: a state of a REPEAT, or an operand of a merge */
    DLK_PROG_REDUCE, /* imm: index into `reduces`; values by PROJ: the components of its finished state (ROW), or, of a reduce
                        with in_leaf, of the lane fold over one leaf (LEAF) */
    DLK_PROG_PROJ /* a: a RARE, REPEAT or REDUCE; imm: which of its values */
} dlk_prog_op;

typedef struct dlk_pnode {
    uint8_t op;    /* dlk_prog_op */
    uint8_t prim;  /* dlk_prim */
    uint8_t kind;  /* dlk_kind */
    uint8_t scope; /* dlk_scope */
    uint8_t part;
    dlk_ref a, b, c;
    int64_t imm;
    const dlk_ref *list; /* RARE, REPEAT */
    int n;
} dlk_pnode;

/* A reduction: how an element (or a leaf) becomes a state, and how states join. The state is n components.
 *   element reducers (sum, prod, max, argmax, ...): `first[k]` is component k of one element's state, scope ELEMENT or
 *   less.
 *   leaf reducers (moments, logsumexp): has_leaf; `first[k]` is component k of a whole leaf's state, scope LEAF, written
 *   with in_leaf reduces over the elements.
 * merge[k] is component k of join(a, b), over the VARs left[0..n) and right[0..n), a the lower index. VARs of different
 * reduces may be the same nodes.
 * identity: bits[k] that join(identity, b) = join(b, identity) = b to the bit; has_identity false: an absent element is
 * skipped by a predicate.
 * Masks, initial values and what stands for nothing at all are ordinary nodes, not the schedule's business: a masked
 * element's `first` is the identity (kernels/reducers.c gives the state a component more where it would have none), what is
 * joined after the last axis and what becomes of the state is computed from PROJ, scope ROW. So with no elements (COUNT 0)
 * a schedule leaves the identity, or anything where there is none.
 * State buffers (access.h) number the components of all reduces of the program one after the other. */
typedef struct dlk_reduction {
    uint8_t n;
    bool has_leaf, in_leaf;
    bool is_free; /* associative and commutative to the bit: any order will do */
    bool has_identity;
    bool needs_elements; /* nothing at all has no answer: the plan raises the error */
    uint8_t tree_kind;   /* dlk_kind of A (never P1); with tree_parts it sets the lanes: L = 128 / (bytes(A) * parts) */
    uint8_t tree_parts;  /* 2 for complex */
    uint8_t level;       /* 0: needs no other reduction of its scope; k: needs one of level k - 1 */
    uint8_t kind[8];     /* dlk_kind of each component */
    dlk_ref first[8];
    dlk_ref left[8], right[8], merge[8];
    uint64_t identity[8];
    const char *name; /* of the reducer, for messages; not compared */
} dlk_reduction;
#define DLK_STATE_MAX 8

typedef struct dlk_prog_output {
    dlk_ref part[2]; /* the encoded storage words, one a part */
    uint8_t dtype;
    uint8_t scope; /* ELEMENT: full shape; ROW or UNIFORM in a program with reductions: reduced shape */
} dlk_prog_output;

typedef struct dlk_prog {
    dlk_arena *arena;
    dlk_pnode *nodes; /* operands precede their users */
    int n_nodes, cap_nodes;
    dlk_reduction *reduces;
    int n_reduces, cap_reduces;
    dlk_table *tables;
    int n_tables, cap_tables;
    uint8_t input_dtype[DLK_OPERANDS_MAX];
    int n_inputs;
    dlk_prog_output outputs[DLK_OPERANDS_MAX];
    int n_outputs;
    int n_vars;
    uint32_t *cons; /* hash table of node indices + 1 */
    int cap_cons;
} dlk_prog;

dlk_prog *dlk_prog_create(dlk_arena *arena);
/* Node makers: hash-consed, constants folded by the interpreter's own arithmetic, scope derived from the operands. */
dlk_ref dlk_prog_const(dlk_prog *prog, dlk_kind kind, uint64_t bits);
dlk_ref dlk_prog_input(dlk_prog *prog, int operand, int part, dlk_kind storage);
dlk_ref dlk_prog_scalar(dlk_prog *prog, int index, int part, dlk_kind kind);
dlk_ref dlk_prog_count(dlk_prog *prog);
dlk_ref dlk_prog_leaf_count(dlk_prog *prog);
dlk_ref dlk_prog_index(dlk_prog *prog);
dlk_ref dlk_prog_prim(dlk_prog *prog, dlk_prim prim, dlk_ref a, dlk_ref b, dlk_ref c);
dlk_ref dlk_prog_convert(dlk_prog *prog, dlk_prim prim, dlk_kind kind, dlk_ref a);
dlk_ref dlk_prog_table(dlk_prog *prog, int table, dlk_ref index);
int dlk_prog_add_table(dlk_prog *prog, dlk_kind kind, const uint64_t *bits, int count);
dlk_ref dlk_prog_var(dlk_prog *prog, dlk_kind kind, dlk_scope scope);
dlk_ref dlk_prog_rare(dlk_prog *prog, dlk_ref condition, const dlk_ref *if_true, const dlk_ref *if_false, int n);
dlk_ref dlk_prog_repeat(dlk_prog *prog, int64_t at_most, const dlk_ref *first, const dlk_ref *vars, const dlk_ref *next,
                        dlk_ref done, int n);
dlk_ref dlk_prog_reduce(dlk_prog *prog, const dlk_reduction *reduce); /* fills in level; equal ones are one */
dlk_ref dlk_prog_proj(dlk_prog *prog, dlk_ref of, int k, dlk_kind kind);

/* Calls visit for each node that `ref` is computed from: operands, lists, and of a REDUCE all that it is made of. */
void dlk_prog_operands(const dlk_prog *prog, dlk_ref ref, void (*visit)(void *context, dlk_ref operand), void *context);
/* A copy with only what the outputs need, in the same order; reduces are numbered anew, operands are not. */
dlk_prog *dlk_prog_compact(const dlk_prog *prog, dlk_arena *arena);
void dlk_prog_print(const dlk_prog *prog, dlk_buffer *out);

/* storage.c: a storage word to its compute value and back, rounded once. `from` is what the value is exactly:
 * F32, F64, or an integer kind with its signedness, so that no value is rounded twice. */
dlk_ref dlk_prog_decode(dlk_prog *prog, int dtype, dlk_ref word);
dlk_ref dlk_prog_encode(dlk_prog *prog, int dtype, dlk_ref value, bool is_unsigned, bool saturate);

#endif
