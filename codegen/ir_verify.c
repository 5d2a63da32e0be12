/* Checks of IR: what ir.h promises to printers and to the interpreter. Schedules and passes are checked by it in debug
 * builds and in tests. */
#include "codegen/ir.h"

#include <string.h>

typedef struct checker {
    const dlk_func *func;
    dlk_arena arena;
    bool *visible;  /* by node: made, and in a block that is still open */
    bool *diverges; /* by node: may differ between the threads of an item */
    dlk_status status;
    bool divergent_control;
} checker;

static bool complain(checker *c, dlk_val value, const char *what)
{
    if (c->status == DLK_OK)
        c->status = dlk_fail(DLK_ERR_INTERNAL, "IR: node v%d: %s", value, what);
    return false;
}

static dlk_type type_of(const checker *c, dlk_val value)
{
    return c->func->nodes[value].type;
}

static bool check_visible(checker *c, dlk_val user, dlk_val value)
{
    if (value < 0 || value >= c->func->n_nodes)
        return complain(c, user, "operand is missing or out of range");
    if (!c->visible[value])
        return complain(c, user, "operand is not made before its use in this block or one outside");
    return true;
}

static bool is_scalar_i64(checker *c, dlk_val user, dlk_val value)
{
    if (!check_visible(c, user, value))
        return false;
    const dlk_type t = type_of(c, value);
    return (t.kind == DLK_I64 && t.lanes == 1) || complain(c, user, "expected one lane of i64");
}

static bool kind_fits(char letter, dlk_kind kind)
{
    return letter == 'A' || (letter == 'I' && dlk_kind_is_int(kind)) || (letter == 'F' && dlk_kind_is_float(kind));
}

static bool conversion_fits(dlk_prim prim, dlk_kind from, dlk_kind to)
{
    const int f = dlk_kind_bits(from), t = dlk_kind_bits(to);
    switch (prim) {
    case DLK_PRIM_SEXT:
        return dlk_kind_is_int(from) && dlk_kind_is_int(to) && t > f;
    case DLK_PRIM_ZEXT:
        return !dlk_kind_is_float(from) && dlk_kind_is_int(to) && t > f;
    case DLK_PRIM_ITRUNC:
        return dlk_kind_is_int(from) && !dlk_kind_is_float(to) && t < f;
    case DLK_PRIM_SITOF:
    case DLK_PRIM_UITOF:
        return dlk_kind_is_int(from) && dlk_kind_is_float(to);
    case DLK_PRIM_FTOSI:
    case DLK_PRIM_FTOUI:
        return dlk_kind_is_float(from) && dlk_kind_is_int(to);
    case DLK_PRIM_FEXT:
        return from == DLK_F32 && to == DLK_F64;
    case DLK_PRIM_FTRUNC:
        return from == DLK_F64 && to == DLK_F32;
    case DLK_PRIM_BITCAST:
        return f == t && from != DLK_P1 && to != DLK_P1;
    case DLK_PRIM_HTOF:
        return from == DLK_I16 && to == DLK_F32;
    default: /* DLK_PRIM_FTOH */
        return from == DLK_F32 && to == DLK_I16;
    }
}

static bool check_prim(checker *c, dlk_val value, const dlk_node *node)
{
    const dlk_prim_info *info = &dlk_prims[node->prim];
    const dlk_val operands[3] = {node->a, node->b, node->c};
    for (int k = 0; k < info->arity; k++) {
        if (!check_visible(c, value, operands[k]))
            return false;
        if (type_of(c, operands[k]).lanes != node->type.lanes)
            return complain(c, value, "operand has another number of lanes");
    }
    if (node->prim == DLK_PRIM_SELECT)
        return (type_of(c, node->a).kind == DLK_P1 && type_of(c, node->b).kind == node->type.kind &&
                type_of(c, node->c).kind == node->type.kind) ||
               complain(c, value, "select takes a predicate and two values of its kind");
    const dlk_kind kind = (dlk_kind)type_of(c, node->a).kind;
    if (info->result == 'T')
        return conversion_fits((dlk_prim)node->prim, kind, (dlk_kind)node->type.kind) ||
               complain(c, value, "conversion between these kinds does not exist");
    for (int k = 0; k < info->arity; k++)
        if (type_of(c, operands[k]).kind != kind)
            return complain(c, value, "operands have different kinds");
    const bool operands_fit = kind_fits(info->args, kind) && (info->args != 'A' || !dlk_kind_is_float(kind));
    const bool result_fits = info->result == 'P' ? node->type.kind == DLK_P1 : node->type.kind == kind;
    return (operands_fit && result_fits) || complain(c, value, "primitive does not take or give this kind");
}

static bool check_perm(checker *c, dlk_val value, const dlk_node *node)
{
    if (!check_visible(c, value, node->a) || (node->b != DLK_NONE && !check_visible(c, value, node->b)))
        return false;
    const dlk_type from = type_of(c, node->a);
    if (from.kind != node->type.kind ||
        (node->b != DLK_NONE && memcmp(&from, &c->func->nodes[node->b].type, sizeof from)))
        return complain(c, value, "operands of perm differ in type");
    const int n = from.lanes * (node->b == DLK_NONE ? 1 : 2);
    for (int l = 0; l < node->type.lanes; l++)
        if (node->perm[l] < -1 || node->perm[l] >= n)
            return complain(c, value, "perm names a lane that there is not");
    return true;
}

static bool check_memory(checker *c, dlk_val value, const dlk_node *node)
{
    if (node->imm < 0 || node->imm >= c->func->n_buffers)
        return complain(c, value, "no such buffer");
    if (node->type.kind == DLK_P1)
        return complain(c, value, "a predicate has no form in memory");
    if (!is_scalar_i64(c, value, node->a) || (node->count != DLK_NONE && !is_scalar_i64(c, value, node->count)))
        return false;
    if (node->step == DLK_STEP_UNIFORM && !is_scalar_i64(c, value, node->b))
        return false;
    if (node->step == DLK_STEP_GATHER && (!check_visible(c, value, node->b) || type_of(c, node->b).kind != DLK_I64 ||
                                          type_of(c, node->b).lanes != node->type.lanes))
        return complain(c, value, "gather takes one i64 offset a lane");
    if (node->op == DLK_IR_LOAD)
        return true;
    if (node->step == DLK_STEP_ZERO && node->type.lanes > 1)
        return complain(c, value, "store of several lanes to one place");
    const dlk_ir_buffer *buffer = &c->func->buffers[node->imm];
    if (buffer->space == DLK_SPACE_GLOBAL && !buffer->written)
        return complain(c, value, "store to a buffer that is not declared written");
    if (!check_visible(c, value, node->d))
        return false;
    const dlk_type stored = type_of(c, node->d);
    return (stored.kind == node->type.kind && stored.lanes == node->type.lanes) ||
           complain(c, value, "stored value has another type");
}

static void check_block(checker *c, const dlk_block *block);

static void mark(checker *c, const dlk_block *block, bool visible)
{
    for (int k = 0; k < block->n_params; k++)
        c->visible[block->params[k]] = visible;
    for (int k = 0; !visible && k < block->n; k++)
        c->visible[block->nodes[k]] = false;
}

static void check_yields(checker *c, dlk_val owner, const dlk_block *block)
{
    for (int k = 0; k < block->n_yields && c->status == DLK_OK; k++)
        check_visible(c, owner, block->yields[k]);
}

static void check_loop(checker *c, dlk_val value, const dlk_node *node)
{
    if (!is_scalar_i64(c, value, node->a) || !is_scalar_i64(c, value, node->b) || !is_scalar_i64(c, value, node->c))
        return;
    const bool outside = c->divergent_control;
    c->divergent_control |= c->diverges[node->a] || c->diverges[node->b];
    for (int k = 0; k < node->n_inits; k++) /* conservative: what is carried may come to differ */
        if (check_visible(c, value, node->inits[k]))
            c->diverges[node->body->params[k + 1]] = c->func->threads > 1;
    c->diverges[node->body->params[0]] = c->diverges[node->a] || c->diverges[node->b];
    mark(c, node->body, true);
    check_block(c, node->body);
    check_yields(c, value, node->body);
    if (c->status == DLK_OK && node->body->n_yields != node->n_inits + node->has_until)
        complain(c, value, "loop yields another number of values than it carries");
    for (int k = 0; k < node->n_inits && c->status == DLK_OK; k++) {
        const dlk_type a = type_of(c, node->inits[k]), b = type_of(c, node->body->yields[k]);
        if (a.kind != b.kind || a.lanes != b.lanes)
            complain(c, value, "what a loop carries changes its type");
    }
    mark(c, node->body, false);
    c->divergent_control = outside;
}

static void check_if(checker *c, dlk_val value, const dlk_node *node)
{
    if (!check_visible(c, value, node->a))
        return;
    if (type_of(c, node->a).kind != DLK_P1 || type_of(c, node->a).lanes != 1) {
        complain(c, value, "if takes one lane of a predicate");
        return;
    }
    const bool outside = c->divergent_control;
    c->divergent_control |= c->diverges[node->a];
    const dlk_block *arms[2] = {node->body, node->other};
    for (int k = 0; k < 2 && c->status == DLK_OK; k++) {
        check_block(c, arms[k]);
        check_yields(c, value, arms[k]);
        mark(c, arms[k], false);
    }
    if (c->status == DLK_OK && node->body->n_yields != node->other->n_yields)
        complain(c, value, "arms yield different numbers of values");
    for (int k = 0; k < node->body->n_yields && c->status == DLK_OK; k++)
        if (memcmp(&c->func->nodes[node->body->yields[k]].type, &c->func->nodes[node->other->yields[k]].type,
                   sizeof(dlk_type)))
            complain(c, value, "arms yield values of different types");
    c->divergent_control = outside;
}

static void check_synchronised(checker *c, dlk_val value)
{
    if (c->divergent_control)
        complain(c, value, "barrier or shuffle where threads may have gone different ways");
}

/* What a node computes differs between threads when an operand does, or it is the thread or memory itself. */
static bool node_diverges(const checker *c, const dlk_node *node)
{
    const dlk_val operands[4] = {node->a, node->b, node->c, node->d};
    bool diverges = node->op == DLK_IR_THREAD || node->op == DLK_IR_SHFL_XOR;
    for (int k = 0; k < 4; k++)
        diverges |= operands[k] != DLK_NONE && c->diverges[operands[k]];
    if (node->op == DLK_IR_LOOP || node->op == DLK_IR_IF)
        diverges |= c->func->threads > 1;
    return diverges && c->func->threads > 1;
}

static void check_node(checker *c, dlk_val value)
{
    const dlk_node *node = &c->func->nodes[value];
    if (node->type.lanes < 1 || node->type.lanes > DLK_LANES_MAX) {
        complain(c, value, "number of lanes is not 1 to 64");
        return;
    }
    switch ((dlk_ir_op)node->op) {
    case DLK_IR_PRIM:
        check_prim(c, value, node);
        break;
    case DLK_IR_SPLAT:
        if (check_visible(c, value, node->a) &&
            (type_of(c, node->a).lanes != 1 || type_of(c, node->a).kind != node->type.kind))
            complain(c, value, "splat takes one lane of its kind");
        break;
    case DLK_IR_PERM:
        check_perm(c, value, node);
        break;
    case DLK_IR_ANY:
        if (check_visible(c, value, node->a) && type_of(c, node->a).kind != DLK_P1)
            complain(c, value, "any takes a predicate");
        break;
    case DLK_IR_SHFL_XOR:
        check_visible(c, value, node->a);
        if (node->imm <= 0 || node->imm & (node->imm - 1) || node->imm >= c->func->subgroup)
            complain(c, value, "shuffle distance is not a power of two below the subgroup");
        check_synchronised(c, value);
        break;
    case DLK_IR_LOAD:
    case DLK_IR_STORE:
        check_memory(c, value, node);
        break;
    case DLK_IR_TABLE:
        if (node->imm < 0 || node->imm >= c->func->n_tables)
            complain(c, value, "no such table");
        else if (check_visible(c, value, node->a) && type_of(c, node->a).kind != DLK_I64)
            complain(c, value, "a table's index is i64");
        break;
    case DLK_IR_LOOP:
        check_loop(c, value, node);
        break;
    case DLK_IR_IF:
        check_if(c, value, node);
        break;
    case DLK_IR_RESULT:
        check_visible(c, value, node->a);
        break;
    case DLK_IR_UNIFORM:
        if (node->imm < 0 || node->imm >= c->func->n_uniforms)
            complain(c, value, "no such uniform");
        break;
    case DLK_IR_BARRIER:
        check_synchronised(c, value);
        break;
    default:
        break;
    }
    if (c->status == DLK_OK)
        c->diverges[value] = node_diverges(c, node);
    c->visible[value] = true;
}

static void check_block(checker *c, const dlk_block *block)
{
    for (int k = 0; k < block->n && c->status == DLK_OK; k++)
        check_node(c, block->nodes[k]);
}

dlk_status dlk_ir_verify(const dlk_func *func)
{
    jmp_buf escape;
    checker c = {.func = func};
    if (setjmp(escape)) {
        dlk_arena_free(&c.arena);
        return dlk_fail(DLK_ERR_MEMORY, "IR: out of memory while checking");
    }
    c.arena.escape = &escape;
    c.visible = DLK_NEW_ARRAY(&c.arena, bool, func->n_nodes + 1);
    c.diverges = DLK_NEW_ARRAY(&c.arena, bool, func->n_nodes + 1);
    check_block(&c, func->body);
    dlk_arena_free(&c.arena);
    return c.status;
}
