/* The one structured IR. A schedule writes it, passes rewrite it, printers print it, the interpreter runs it.
 *
 * A function is SSA over vectors of at most 64 lanes, in regions: a block is a list of nodes in execution order; a LOOP
 * and an IF own blocks. A value is the index of its node in `nodes`; it is visible in its block after it was made, and
 * in the blocks inside. There are no pointers and no 16-bit floats: memory is reached through numbered buffers and byte
 * offsets.
 *
 * One run of the body computes one *item*. On the CPU the printer wraps it into a loop over the items [lo, hi) that the
 * thread pool asked for; on a GPU an item is a block (workgroup) and the body runs once in each of its `threads`.
 * What the uniforms and buffers mean is said by their roles (access.h): the plan fills them by role, and the schedule
 * is free in which it asks for. */
#ifndef DLK_CODEGEN_IR_H
#define DLK_CODEGEN_IR_H

#include "base/arena.h"
#include "base/buffer.h"
#include "base/status.h"
#include "codegen/access.h"
#include "codegen/kind.h"
#include "codegen/target.h"

typedef int32_t dlk_val; /* a node's index; DLK_NONE where there is none */
#define DLK_NONE (-1)

typedef enum dlk_prim { /* ORDER PRIM */
#define PRIM(id, name, arity, args, result) DLK_PRIM_##id,
#include "codegen/prims.def"
#undef PRIM
                        DLK_PRIM_COUNT
} dlk_prim;

typedef struct dlk_prim_info {
    const char *name; /* lower case, as dumps print it */
    uint8_t arity;
    char args, result; /* the letters of prims.def */
} dlk_prim_info;
extern const dlk_prim_info dlk_prims[DLK_PRIM_COUNT];

typedef enum dlk_ir_op {
    DLK_IR_CONST,    /* imm: the bits, in every lane (f32: low 32) */
    DLK_IR_UNIFORM,  /* imm: index into uniforms; one lane of that uniform's kind */
    DLK_IR_ITEM,     /* imm: 0..2; i64, one lane. The CPU has dimension 0 alone */
    DLK_IR_THREAD,   /* i64, one lane: 0 to threads - 1; the CPU has one thread, 0 */
    DLK_IR_IOTA,     /* 0, 1, 2, ... of an integer kind */
    DLK_IR_PRIM,     /* prim; operands a, b, c of equal lanes */
    DLK_IR_SPLAT,    /* a: one lane, to all lanes */
    DLK_IR_PERM,     /* lane i is lane perm[i] of a, or of b where perm[i] >= lanes of a; -1: any value. b may be NONE.
                       The result's lanes may differ from a's, so an extract is a PERM to one lane. a and b alike */
    DLK_IR_ANY,      /* a: predicate; one lane: true where any lane of this thread is true */
    DLK_IR_SHFL_XOR, /* a: any type; the same value of the thread whose index differs by imm (a power of two below
                       `subgroup`). All threads of the subgroup must be active */
    DLK_IR_LOAD,     /* imm: buffer; a: byte offset, i64, one lane; access; b: step. See below */
    DLK_IR_STORE,    /* likewise; d: the value. No result */
    DLK_IR_TABLE,    /* imm: table; a: i64 index, any lanes, clamped to the table's size */
    DLK_IR_LOOP,     /* a: lo, b: hi, c: step, all i64, one lane, step > 0; runs i = lo, lo + step, ... while i < hi.
                       inits: first values of what is carried; body: params are i, then the carried values; body yields
                       their next values and, when has_until, last a P1 of one lane: true leaves the loop after this run */
    DLK_IR_IF,       /* a: predicate, one lane; body, other: without params; both yield the results. imm 1: rare */
    DLK_IR_PARAM,    /* imm: which parameter of the block it stands in; made with the block */
    DLK_IR_RESULT,   /* a: a LOOP or IF; imm: which of its results (what was carried, or the yields) */
    DLK_IR_BARRIER,  /* all threads of the item; under uniform control only. Orders shared memory */
    DLK_IR_OP_COUNT
} dlk_ir_op;

/* How the lanes of a LOAD or STORE lie in memory, from the byte offset on. */
typedef enum dlk_step {
    DLK_STEP_UNIT,    /* lane i at offset + i * element bytes */
    DLK_STEP_ZERO,    /* every lane at offset (loads only) */
    DLK_STEP_REVERSE, /* lane i at offset - i * element bytes */
    DLK_STEP_UNIFORM, /* lane i at offset + i * b; b: i64 bytes, one lane */
    DLK_STEP_GATHER   /* lane i at offset + b[i]; b: i64 bytes, as many lanes as the value */
} dlk_step;

typedef struct dlk_block {
    dlk_val *nodes;
    int n, cap;
    dlk_val *params;
    int n_params;
    dlk_val *yields;
    int n_yields;
    struct dlk_block *outer; /* that its LOOP or IF stands in; NULL for the function's body */
} dlk_block;

typedef struct dlk_node {
    uint8_t op;       /* dlk_ir_op */
    uint8_t prim;     /* dlk_prim, of a PRIM */
    uint8_t step;     /* dlk_step, of a LOAD or STORE */
    bool nontemporal; /* STORE: past the cache. Only where lanes and alignment make it whole vectors */
    bool has_until;
    dlk_type type; /* of the result; kind of the element in memory for LOAD and STORE */
    uint8_t align; /* LOAD, STORE: bytes that the address of lane 0 is surely a multiple of; at least 1 */
    dlk_val a, b, c, d;
    dlk_val count; /* LOAD, STORE: i64, one lane: only lanes below it touch memory, the others load 0. NONE: all */
    int64_t imm;
    int8_t *perm;   /* PERM: one entry a lane of the result */
    dlk_val *inits; /* LOOP */
    int n_inits;
    dlk_block *body, *other;
} dlk_node;

typedef enum dlk_space {
    DLK_SPACE_GLOBAL, /* of the caller: role says which */
    DLK_SPACE_SHARED, /* of one item, all threads; contents undefined at first */
    DLK_SPACE_PRIVATE /* of one thread; contents undefined at first */
} dlk_space;

typedef struct dlk_ir_buffer {
    uint8_t space;        /* dlk_space */
    uint8_t kind;         /* SHARED, PRIVATE: dlk_kind of the elements, for alignment and for typed printers */
    int64_t count;        /* SHARED, PRIVATE: elements */
    dlk_buffer_role role; /* GLOBAL */
    bool written;
    bool noalias; /* GLOBAL: proven by the plan to share no byte with any other buffer */
} dlk_ir_buffer;

typedef struct dlk_table {
    uint8_t kind;
    int count;
    const uint64_t *bits; /* one word an element */
} dlk_table;

typedef struct dlk_func {
    dlk_arena *arena;
    const dlk_target *target;
    dlk_node *nodes;
    int n_nodes, cap_nodes;
    dlk_block *body;
    dlk_ir_buffer *buffers; /* GLOBAL ones first, in argument order */
    int n_buffers, cap_buffers;
    dlk_uniform *uniforms; /* argument words after the global buffers' pointers */
    int n_uniforms, cap_uniforms;
    dlk_table *tables;
    int n_tables, cap_tables;
    int threads;  /* of one item, whole subgroups; 1 on the CPU */
    int subgroup; /* threads that shuffles reach, a power of two; 1 on the CPU */
    dlk_tiling tiling;
    dlk_block *at; /* where builders append */
} dlk_func;

/* The argument block of a kernel: 8-byte words, the address of each GLOBAL buffer, then each uniform (integers as i64,
 * sign-extended; f32 and f64 as f64; P1 as 0 or 1). A CPU kernel is
 *     void kernel(const uint64_t *arguments, int64_t first_item, int64_t end_item); */

dlk_func *dlk_func_create(dlk_arena *arena, const dlk_target *target);
int dlk_func_buffer(dlk_func *func, dlk_buffer_role role, bool written); /* finds or adds a GLOBAL buffer */
int dlk_func_local(dlk_func *func, dlk_space space, dlk_kind kind, int64_t count);
dlk_val dlk_func_uniform(dlk_func *func, dlk_uniform uniform); /* finds or adds; gives its UNIFORM node's value,
                                                                  made at the start of the function's body */
int dlk_func_table(dlk_func *func, dlk_kind kind, const uint64_t *bits, int count); /* finds or adds */

/* Builders: append to func->at, fold constants and the obvious identities that keep every bit, reuse nothing. */
dlk_val dlk_ir_const(dlk_func *func, dlk_type type, uint64_t bits);
dlk_val dlk_ir_i64(dlk_func *func, int64_t value);
dlk_val dlk_ir_item(dlk_func *func, int dim);
dlk_val dlk_ir_thread(dlk_func *func);
dlk_val dlk_ir_iota(dlk_func *func, dlk_type type);
dlk_val dlk_ir_prim(dlk_func *func, dlk_prim prim, dlk_val a, dlk_val b, dlk_val c); /* result S or P */
dlk_val dlk_ir_convert(dlk_func *func, dlk_prim prim, dlk_kind kind, dlk_val a);     /* result T */
dlk_val dlk_ir_splat(dlk_func *func, dlk_val a, int lanes);
dlk_val dlk_ir_perm(dlk_func *func, dlk_val a, dlk_val b, const int8_t *perm, int lanes);
dlk_val dlk_ir_extract(dlk_func *func, dlk_val a, int lane);
dlk_val dlk_ir_any(dlk_func *func, dlk_val a);
dlk_val dlk_ir_shfl_xor(dlk_func *func, dlk_val a, int mask);
dlk_val dlk_ir_table(dlk_func *func, int table, dlk_val index);
void dlk_ir_barrier(dlk_func *func);

typedef struct dlk_mem { /* where a LOAD or STORE goes */
    int buffer;
    dlk_val offset; /* i64 bytes */
    dlk_step step;
    dlk_val stride; /* operand b of UNIFORM and GATHER, else NONE */
    dlk_val count;  /* NONE: all lanes */
    int align;      /* bytes; 0: the element's */
    bool nontemporal;
} dlk_mem;
dlk_val dlk_ir_load(dlk_func *func, dlk_type type, dlk_mem mem);
void dlk_ir_store(dlk_func *func, dlk_val value, dlk_mem mem);

/* Opens a loop: appends the LOOP and moves func->at into its body. `carried` are the first values. */
dlk_val dlk_ir_loop_begin(dlk_func *func, dlk_val lo, dlk_val hi, dlk_val step, const dlk_val *carried, int n);
dlk_val dlk_ir_loop_index(const dlk_func *func, dlk_val loop);
dlk_val dlk_ir_loop_carried(const dlk_func *func, dlk_val loop, int k); /* inside the body */
/* Closes it with the next values (and a condition to leave, or NONE) and moves func->at back behind the loop. */
void dlk_ir_loop_end(dlk_func *func, dlk_val loop, const dlk_val *next, dlk_val until);
/* Opens the first arm of an IF; `else` opens the second; `end` closes. Both arms yield n values of equal types. */
dlk_val dlk_ir_if_begin(dlk_func *func, dlk_val condition, bool rare);
void dlk_ir_if_else(dlk_func *func, dlk_val branch, const dlk_val *yields, int n);
void dlk_ir_if_end(dlk_func *func, dlk_val branch, const dlk_val *yields);
dlk_val dlk_ir_result(dlk_func *func, dlk_val loop_or_if, int k); /* after it */

/* Checks everything said above; DLK_ERR_INTERNAL names the node. */
dlk_status dlk_ir_verify(const dlk_func *func);
/* Prints the function as text, for people and tests. */
void dlk_ir_print(const dlk_func *func, dlk_buffer *out);

static inline dlk_type dlk_val_type(const dlk_func *func, dlk_val value)
{
    return func->nodes[value].type;
}

#endif
