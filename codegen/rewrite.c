/* The copy that every pass makes: nodes in order, operands mapped, dead ones left out. */
#include "codegen/rewrite.h"

#include <string.h>

typedef struct copier {
    dlk_rewrite rewrite;
    dlk_val *map;
    bool *live;
    dlk_replace replace;
} copier;

/* ---- What is used ---- */

static void mark_block(copier *c, const dlk_block *block);

static void mark(copier *c, dlk_val value)
{
    if (value != DLK_NONE)
        c->live[value] = true;
}

static void mark_list(copier *c, const dlk_val *values, int n)
{
    for (int k = 0; k < n; k++)
        mark(c, values[k]);
}

static void mark_operands(copier *c, const dlk_node *node)
{
    mark(c, node->a);
    mark(c, node->b);
    mark(c, node->c);
    mark(c, node->d);
    mark(c, node->count);
    mark_list(c, node->inits, node->n_inits);
    const dlk_block *blocks[2] = {node->body, node->other};
    for (int k = 0; k < 2 && blocks[k]; k++) {
        mark_list(c, blocks[k]->yields, blocks[k]->n_yields);
        mark_block(c, blocks[k]);
    }
}

static bool block_acts(const copier *c, const dlk_block *block);

/* Does something to memory or to the other threads. */
static bool node_acts(const copier *c, const dlk_node *node)
{
    return node->op == DLK_IR_STORE || node->op == DLK_IR_BARRIER || (node->body && block_acts(c, node->body)) ||
           (node->other && block_acts(c, node->other));
}

static bool block_acts(const copier *c, const dlk_block *block)
{
    for (int k = 0; k < block->n; k++)
        if (node_acts(c, &c->rewrite.from->nodes[block->nodes[k]]))
            return true;
    return false;
}

/* Last node first: a node's users come after it, so they are marked already. */
static void mark_block(copier *c, const dlk_block *block)
{
    for (int k = block->n - 1; k >= 0; k--) {
        const dlk_val value = block->nodes[k];
        const dlk_node *node = &c->rewrite.from->nodes[value];
        c->live[value] |= node_acts(c, node);
        if (c->live[value])
            mark_operands(c, node);
    }
}

/* ---- The copy ---- */

static void copy_block(copier *c, const dlk_block *block);

static dlk_val mapped(const copier *c, dlk_val value)
{
    return dlk_rewrite_mapped(&c->rewrite, value);
}

static dlk_val *mapped_list(copier *c, const dlk_val *values, int n)
{
    dlk_val *list = DLK_NEW_ARRAY(c->rewrite.to->arena, dlk_val, n + 1);
    for (int k = 0; k < n; k++)
        list[k] = mapped(c, values[k]);
    return list;
}

static dlk_val copy_loop(copier *c, const dlk_node *node)
{
    dlk_func *to = c->rewrite.to;
    const int n = node->n_inits;
    const dlk_val loop = dlk_ir_loop_begin(to, mapped(c, node->a), mapped(c, node->b), mapped(c, node->c),
                                           mapped_list(c, node->inits, n), n);
    c->map[node->body->params[0]] = dlk_ir_loop_index(to, loop);
    for (int k = 0; k < n; k++)
        c->map[node->body->params[k + 1]] = dlk_ir_loop_carried(to, loop, k);
    copy_block(c, node->body);
    dlk_ir_loop_end(to, loop, mapped_list(c, node->body->yields, n),
                    node->has_until ? mapped(c, node->body->yields[n]) : DLK_NONE);
    return loop;
}

static dlk_val copy_if(copier *c, const dlk_node *node)
{
    dlk_func *to = c->rewrite.to;
    const dlk_val branch = dlk_ir_if_begin(to, mapped(c, node->a), node->imm != 0);
    copy_block(c, node->body);
    dlk_ir_if_else(to, branch, mapped_list(c, node->body->yields, node->body->n_yields), node->body->n_yields);
    copy_block(c, node->other);
    dlk_ir_if_end(to, branch, mapped_list(c, node->other->yields, node->other->n_yields));
    return branch;
}

static dlk_mem mem_of(const dlk_rewrite *rewrite, const dlk_node *node)
{
    return (dlk_mem){(int)node->imm,
                     dlk_rewrite_mapped(rewrite, node->a),
                     (dlk_step)node->step,
                     dlk_rewrite_mapped(rewrite, node->b),
                     dlk_rewrite_mapped(rewrite, node->count),
                     node->align,
                     node->nontemporal};
}

static dlk_val copy_node(copier *c, const dlk_node *node)
{
    if (node->op == DLK_IR_LOOP)
        return copy_loop(c, node);
    return node->op == DLK_IR_IF ? copy_if(c, node) : dlk_rewrite_copy(&c->rewrite, node);
}

static void copy_block(copier *c, const dlk_block *block)
{
    for (int k = 0; k < block->n; k++) {
        const dlk_val value = block->nodes[k];
        const dlk_node *node = &c->rewrite.from->nodes[value];
        if (c->live[value] && !c->replace(&c->rewrite, node, &c->map[value]))
            c->map[value] = copy_node(c, node);
    }
}

static dlk_val copy_prim(const dlk_rewrite *rewrite, const dlk_node *node)
{
    const dlk_prim prim = (dlk_prim)node->prim;
    const dlk_val a = dlk_rewrite_mapped(rewrite, node->a), b = dlk_rewrite_mapped(rewrite, node->b),
                  c = dlk_rewrite_mapped(rewrite, node->c);
    if (dlk_prims[prim].result == 'T')
        return dlk_ir_convert(rewrite->to, prim, (dlk_kind)node->type.kind, a);
    return dlk_ir_prim(rewrite->to, prim, a, b, c);
}

dlk_val dlk_rewrite_copy(const dlk_rewrite *rewrite, const dlk_node *node)
{
    dlk_func *to = rewrite->to;
    const dlk_val a = dlk_rewrite_mapped(rewrite, node->a);
    switch ((dlk_ir_op)node->op) {
    case DLK_IR_CONST:
        return dlk_ir_const(to, node->type, (uint64_t)node->imm);
    case DLK_IR_UNIFORM:
        return dlk_func_uniform(to, rewrite->from->uniforms[node->imm]);
    case DLK_IR_ITEM:
        return dlk_ir_item(to, (int)node->imm);
    case DLK_IR_THREAD:
        return dlk_ir_thread(to);
    case DLK_IR_IOTA:
        return dlk_ir_iota(to, node->type);
    case DLK_IR_PRIM:
        return copy_prim(rewrite, node);
    case DLK_IR_SPLAT:
        return dlk_ir_splat(to, a, node->type.lanes);
    case DLK_IR_PERM:
        return dlk_ir_perm(to, a, dlk_rewrite_mapped(rewrite, node->b), node->perm, node->type.lanes);
    case DLK_IR_ANY:
        return dlk_ir_any(to, a);
    case DLK_IR_SHFL_XOR:
        return dlk_ir_shfl_xor(to, a, (int)node->imm);
    case DLK_IR_LOAD:
        return dlk_ir_load(to, node->type, mem_of(rewrite, node));
    case DLK_IR_STORE:
        dlk_ir_store(to, dlk_rewrite_mapped(rewrite, node->d), mem_of(rewrite, node));
        return DLK_NONE;
    case DLK_IR_TABLE:
        return dlk_ir_table(to, (int)node->imm, a);
    case DLK_IR_RESULT:
        return dlk_ir_result(to, a, (int)node->imm);
    case DLK_IR_BARRIER:
        dlk_ir_barrier(to);
        return DLK_NONE;
    case DLK_IR_LOOP: /* copied with their blocks */
    case DLK_IR_IF:
    case DLK_IR_PARAM:
    case DLK_IR_OP_COUNT:
        break;
    }
    return DLK_NONE;
}

void dlk_rewrite_run(dlk_func *func, dlk_replace replace, void *state)
{
    dlk_func *from = dlk_arena_copy(func->arena, func, sizeof *func);
    copier c = {.replace = replace};
    c.map = DLK_NEW_ARRAY(func->arena, dlk_val, from->n_nodes + 1);
    c.live = DLK_NEW_ARRAY(func->arena, bool, from->n_nodes + 1);
    c.rewrite = (dlk_rewrite){from, func, c.map, state};
    mark_block(&c, from->body);
    func->nodes = NULL;
    func->n_nodes = func->cap_nodes = 0;
    func->body = func->at = DLK_NEW(func->arena, dlk_block);
    copy_block(&c, from->body);
}
