/* Divergence: what depends on the thread, by its operands, by private memory, or by the way that a thread went. */
#include "codegen/diverge.h"

typedef struct analysis {
    const dlk_func *func;
    bool *diverging;
    bool changed;
} analysis;

static bool is_diverging(const bool *diverging, dlk_val value)
{
    return value != DLK_NONE && diverging[value];
}

static void set(analysis *an, dlk_val value, bool diverges)
{
    if (diverges && !an->diverging[value]) {
        an->diverging[value] = true;
        an->changed = true;
    }
}

static bool result_diverges(const analysis *an, const dlk_node *node)
{
    const dlk_node *owner = &an->func->nodes[node->a];
    const bool *d = an->diverging;
    const bool split = dlk_ir_splits(an->func, d, node->a);
    if (owner->op == DLK_IR_LOOP)
        return split || d[owner->inits[node->imm]] || d[owner->body->yields[node->imm]];
    return split || d[owner->body->yields[node->imm]] || d[owner->other->yields[node->imm]];
}

static bool node_diverges(const analysis *an, const dlk_node *node)
{
    const bool *d = an->diverging;
    if (node->op == DLK_IR_THREAD)
        return true;
    if (node->op == DLK_IR_RESULT)
        return result_diverges(an, node);
    if (node->op == DLK_IR_LOAD && an->func->buffers[node->imm].space == DLK_SPACE_PRIVATE)
        return true;
    return is_diverging(d, node->a) || is_diverging(d, node->b) || is_diverging(d, node->c) ||
           is_diverging(d, node->d) || is_diverging(d, node->count);
}

static void visit_block(analysis *an, const dlk_block *block);

static void visit_loop(analysis *an, const dlk_node *node)
{
    const bool *d = an->diverging;
    set(an, node->body->params[0], d[node->a] || d[node->c]);
    for (int k = 0; k < node->n_inits; k++)
        set(an, node->body->params[k + 1], d[node->inits[k]] || d[node->body->yields[k]]);
    visit_block(an, node->body);
}

static void visit_block(analysis *an, const dlk_block *block)
{
    for (int k = 0; k < block->n; k++) {
        const dlk_val value = block->nodes[k];
        const dlk_node *node = &an->func->nodes[value];
        if (node->op == DLK_IR_LOOP) {
            visit_loop(an, node);
        } else if (node->op == DLK_IR_IF) {
            visit_block(an, node->body);
            visit_block(an, node->other);
        } else {
            set(an, value, node_diverges(an, node));
        }
    }
}

bool dlk_ir_splits(const dlk_func *func, const bool *diverging, dlk_val loop_or_if)
{
    const dlk_node *node = &func->nodes[loop_or_if];
    if (node->op == DLK_IR_IF)
        return diverging[node->a];
    return diverging[node->a] || diverging[node->b] || diverging[node->c] ||
           (node->has_until && diverging[node->body->yields[node->n_inits]]);
}

bool *dlk_ir_diverging(const dlk_func *func, dlk_arena *arena)
{
    analysis an = {.func = func, .diverging = DLK_NEW_ARRAY(arena, bool, func->n_nodes + 1)};
    if (func->threads == 1)
        return an.diverging;
    do { /* what a loop carries may come to diverge only by its body */
        an.changed = false;
        visit_block(&an, func->body);
    } while (an.changed);
    return an.diverging;
}
