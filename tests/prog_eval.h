/* A slow and plain evaluator of scalar programs: the oracle of schedules. It takes one row: the elements under one reduced
 * result (1 for a map), reduced by the fixed tree as the public description has it. */
#ifndef DLK_TESTS_PROG_EVAL_H
#define DLK_TESTS_PROG_EVAL_H

#include <stdlib.h>
#include <string.h>

#include "codegen/interpret.h"
#include "codegen/prog.h"

#define PROG_EVAL_K 16 /* rows of lanes in a leaf */

/* The storage word of a part of an operand at an element of the row. */
typedef uint64_t (*prog_eval_load)(void *context, int operand, int part, int64_t element);

typedef struct prog_eval_state {
    uint64_t part[DLK_STATE_MAX];
    bool is_there; /* false: nothing */
} prog_eval_state;

typedef struct prog_eval {
    const dlk_prog *prog;
    prog_eval_load load;
    void *context;
    const uint64_t (*scalars)[2]; /* by number and part: int64 or float64 bits */
    int64_t n;                    /* elements of the row */
    bool fused;                   /* MAD rounds once */

    int64_t element, leaf_begin, leaf_end;
    uint64_t *value, *var;
    uint32_t *stamp, now; /* by node: value is of now */
    uint64_t (*loop)[128];
    prog_eval_state *reduced; /* by reduction */
    bool *is_reduced;
} prog_eval;

static inline void prog_eval_begin(prog_eval *e, const dlk_prog *prog, prog_eval_load load, void *context, int64_t n)
{
    const size_t nodes = (size_t)prog->n_nodes + 1, reduces = (size_t)prog->n_reduces + 1;
    *e = (prog_eval){.prog = prog, .load = load, .context = context, .n = n, .fused = true, .now = 1};
    e->value = calloc(nodes, sizeof *e->value);
    e->var = calloc(nodes, sizeof *e->var);
    e->stamp = calloc(nodes, sizeof *e->stamp);
    e->loop = calloc(nodes, sizeof *e->loop);
    e->reduced = calloc(reduces, sizeof *e->reduced);
    e->is_reduced = calloc(reduces, sizeof *e->is_reduced);
}

static inline void prog_eval_end(prog_eval *e)
{
    free(e->value);
    free(e->var);
    free(e->stamp);
    free(e->loop);
    free(e->reduced);
    free(e->is_reduced);
}

static inline uint64_t prog_eval_node(prog_eval *e, dlk_ref ref);

static inline uint64_t prog_eval_prim(prog_eval *e, const dlk_pnode *node)
{
    const dlk_kind from = e->prog->nodes[node->a].kind;
    const uint64_t a = prog_eval_node(e, node->a);
    const uint64_t b = node->b == DLK_NONE ? 0 : prog_eval_node(e, node->b);
    const uint64_t c = node->c == DLK_NONE ? 0 : prog_eval_node(e, node->c);
    return dlk_prim_eval(node->prim, from, node->kind, a, b, c, e->fused);
}

static inline uint64_t prog_eval_table(prog_eval *e, const dlk_pnode *node)
{
    const dlk_table *table = &e->prog->tables[node->imm];
    int64_t index = (int64_t)prog_eval_node(e, node->a);
    index = index < 0 ? 0 : index >= table->count ? table->count - 1 : index;
    return table->bits[index];
}

/* Runs the loop and leaves its states in e->loop[ref]. */
static inline void prog_eval_repeat(prog_eval *e, dlk_ref ref)
{
    const dlk_pnode *node = &e->prog->nodes[ref];
    const int n = node->n;
    uint64_t state[128];
    for (int k = 0; k < n; k++)
        state[k] = prog_eval_node(e, node->list[k]);
    for (int64_t run = 0; run < node->imm; run++) {
        uint64_t next[128];
        for (int k = 0; k < n; k++)
            e->var[node->list[n + k]] = state[k];
        e->now++;
        if (prog_eval_node(e, node->list[3 * n]))
            break;
        for (int k = 0; k < n; k++)
            next[k] = prog_eval_node(e, node->list[2 * n + k]);
        memcpy(state, next, sizeof(uint64_t) * (size_t)n);
    }
    e->now++;
    memcpy(e->loop[ref], state, sizeof(uint64_t) * (size_t)n);
    e->stamp[ref] = e->now;
}

/* ---- Reductions ---------------------------------------------------------------------------------------------------------- */

static inline prog_eval_state prog_eval_join(prog_eval *e, const dlk_reduction *r, prog_eval_state a, prog_eval_state b)
{
    if (!a.is_there || !b.is_there)
        return a.is_there ? a : b;
    prog_eval_state out = {.is_there = true};
    for (int k = 0; k < r->n; k++) {
        e->var[r->left[k]] = a.part[k];
        e->var[r->right[k]] = b.part[k];
    }
    e->now++;
    for (int k = 0; k < r->n; k++)
        out.part[k] = prog_eval_node(e, r->merge[k]);
    return out;
}

static inline prog_eval_state prog_eval_first(prog_eval *e, const dlk_reduction *r)
{
    prog_eval_state out = {.is_there = true};
    e->now++;
    for (int k = 0; k < r->n; k++)
        out.part[k] = prog_eval_node(e, r->first[k]);
    return out;
}

static inline int prog_eval_lanes(const dlk_reduction *r)
{
    return 128 / (dlk_kind_bytes(r->tree_kind) * r->tree_parts);
}

/* Lane l joins elements l, l + L, ... of the leaf; lanes fold by halves. */
static inline prog_eval_state prog_eval_fold(prog_eval *e, const dlk_reduction *r)
{
    const int lanes = prog_eval_lanes(r);
    const int64_t element = e->element;
    prog_eval_state lane[128];
    memset(lane, 0, sizeof lane);
    for (int64_t i = e->leaf_begin; i < e->leaf_end; i++) {
        const int l = (int)((i - e->leaf_begin) % lanes);
        e->element = i;
        lane[l] = prog_eval_join(e, r, lane[l], prog_eval_first(e, r));
    }
    for (int h = lanes / 2; h > 0; h /= 2)
        for (int l = 0; l < h; l++)
            lane[l] = prog_eval_join(e, r, lane[l], lane[l + h]);
    e->element = element;
    e->now++;
    return lane[0];
}

static inline prog_eval_state prog_eval_leaf(prog_eval *e, const dlk_reduction *r)
{
    for (int i = 0; i < e->prog->n_reduces; i++)
        if (e->prog->reduces[i].in_leaf)
            e->is_reduced[i] = false;
    return r->has_leaf ? prog_eval_first(e, r) : prog_eval_fold(e, r);
}

/* T(N) = T(p) + T(N - p), p the largest power of two below N. */
static inline prog_eval_state prog_eval_tree(prog_eval *e, const dlk_reduction *r, int64_t first, int64_t leaves)
{
    if (leaves == 0)
        return (prog_eval_state){.is_there = false};
    if (leaves == 1) {
        const int64_t size = (int64_t)prog_eval_lanes(r) * PROG_EVAL_K;
        e->leaf_begin = first * size;
        e->leaf_end = e->leaf_begin + size < e->n ? e->leaf_begin + size : e->n;
        return prog_eval_leaf(e, r);
    }
    int64_t p = 1;
    while (p * 2 < leaves)
        p *= 2;
    const prog_eval_state left = prog_eval_tree(e, r, first, p), right = prog_eval_tree(e, r, first + p, leaves - p);
    return prog_eval_join(e, r, left, right);
}

static inline prog_eval_state prog_eval_reduction(prog_eval *e, int index)
{
    const dlk_reduction *r = &e->prog->reduces[index];
    if (e->is_reduced[index])
        return e->reduced[index];
    prog_eval_state out;
    if (r->in_leaf) {
        out = prog_eval_fold(e, r);
    } else {
        const int64_t element = e->element, size = (int64_t)prog_eval_lanes(r) * PROG_EVAL_K;
        out = prog_eval_tree(e, r, 0, (e->n + size - 1) / size);
        for (int k = 0; k < r->n && !out.is_there; k++)
            out.part[k] = r->has_identity ? r->identity[k] : 0;
        e->element = element;
        e->now++;
    }
    e->reduced[index] = out;
    e->is_reduced[index] = true;
    return out;
}

/* ---- Nodes ------------------------------------------------------------------------------------------------------------------- */

static inline uint64_t prog_eval_proj(prog_eval *e, const dlk_pnode *node)
{
    const dlk_pnode *of = &e->prog->nodes[node->a];
    if (of->op == DLK_PROG_REDUCE)
        return prog_eval_reduction(e, (int)of->imm).part[node->imm];
    if (of->op == DLK_PROG_RARE)
        return prog_eval_node(e, of->list[(prog_eval_node(e, of->a) ? 0 : of->n) + node->imm]);
    if (e->stamp[node->a] != e->now)
        prog_eval_repeat(e, node->a);
    return e->loop[node->a][node->imm];
}

static inline uint64_t prog_eval_compute(prog_eval *e, dlk_ref ref)
{
    const dlk_pnode *node = &e->prog->nodes[ref];
    switch ((dlk_prog_op)node->op) {
    case DLK_PROG_CONST:
        return (uint64_t)node->imm;
    case DLK_PROG_INPUT:
        return e->load(e->context, (int)node->imm, node->part, e->element);
    case DLK_PROG_SCALAR:
        return e->scalars[node->imm][node->part];
    case DLK_PROG_COUNT:
        return (uint64_t)e->n;
    case DLK_PROG_LEAF_COUNT:
        return (uint64_t)(e->leaf_end - e->leaf_begin);
    case DLK_PROG_INDEX:
        return (uint64_t)e->element;
    case DLK_PROG_PRIM:
        return prog_eval_prim(e, node);
    case DLK_PROG_TABLE:
        return prog_eval_table(e, node);
    case DLK_PROG_VAR:
        return e->var[ref];
    case DLK_PROG_PROJ:
        return prog_eval_proj(e, node);
    case DLK_PROG_RARE:
    case DLK_PROG_REPEAT:
    case DLK_PROG_REDUCE:
        break;
    }
    abort(); /* values of these come by PROJ */
}

static inline uint64_t prog_eval_node(prog_eval *e, dlk_ref ref)
{
    if (e->stamp[ref] == e->now)
        return e->value[ref];
    const uint64_t value = prog_eval_compute(e, ref);
    e->value[ref] = value;
    e->stamp[ref] = e->now;
    return value;
}

/* The word stored for a part of an output at an element. */
static inline uint64_t prog_eval_output(prog_eval *e, int output, int part, int64_t element)
{
    e->element = element;
    e->now++;
    return prog_eval_node(e, e->prog->outputs[output].part[part]);
}

#endif
