/* Checks of IR: what ir.h promises to printers and to the interpreter. Schedules and passes are checked by it in debug
 * builds and in tests; every kernel is, once, before its passes. */
#include "codegen/ir.h"

#include <string.h>

#include "codegen/diverge.h"

typedef struct checker {
    const dlk_func *func;
    dlk_arena arena;
    bool *placed;    /* by node: stands in a block */
    bool *visible;   /* by node: made, and in a block that is still open */
    bool *diverging; /* dlk_ir_diverging */
    dlk_status status;
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
static bool same_type(dlk_type a, dlk_type b)
{
    return a.kind == b.kind && a.lanes == b.lanes;
}
static bool is_type(dlk_type type, dlk_kind kind, int lanes)
{
    return type.kind == kind && type.lanes == lanes;
}
static bool is_power_of_two(int64_t n)
{
    return n > 0 && !(n & (n - 1));
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
    return check_visible(c, user, value) &&
           (is_type(type_of(c, value), DLK_I64, 1) || complain(c, user, "expected one lane of i64"));
}

/* ---- Primitives ---- */

static bool kind_fits(char letter, dlk_kind kind)
{
    return letter == 'I' ? dlk_kind_is_int(kind) : letter == 'F' ? dlk_kind_is_float(kind) : !dlk_kind_is_float(kind);
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

static bool check_operands(checker *c, dlk_val value, const dlk_node *node)
{
    const int arity = dlk_prims[node->prim].arity;
    const dlk_val operands[3] = {node->a, node->b, node->c};
    for (int k = 0; k < arity; k++) {
        if (!check_visible(c, value, operands[k]))
            return false;
        if (type_of(c, operands[k]).lanes != node->type.lanes)
            return complain(c, value, "operand has another number of lanes");
    }
    for (int k = arity; k < 3; k++)
        if (operands[k] != DLK_NONE)
            return complain(c, value, "primitive has more operands than its arity");
    return true;
}

static bool check_select(checker *c, dlk_val value, const dlk_node *node)
{
    return (type_of(c, node->a).kind == DLK_P1 && type_of(c, node->b).kind == node->type.kind &&
            type_of(c, node->c).kind == node->type.kind) ||
           complain(c, value, "select takes a predicate and two values of its kind");
}

static bool check_prim(checker *c, dlk_val value, const dlk_node *node)
{
    if (node->prim >= DLK_PRIM_COUNT)
        return complain(c, value, "no such primitive");
    if (!check_operands(c, value, node))
        return false;
    if (node->prim == DLK_PRIM_SELECT)
        return check_select(c, value, node);
    const dlk_prim_info *info = &dlk_prims[node->prim];
    const dlk_kind kind = (dlk_kind)type_of(c, node->a).kind;
    if (info->result == 'T')
        return conversion_fits((dlk_prim)node->prim, kind, (dlk_kind)node->type.kind) ||
               complain(c, value, "conversion between these kinds does not exist");
    const dlk_val operands[3] = {node->a, node->b, node->c};
    for (int k = 1; k < info->arity; k++)
        if (type_of(c, operands[k]).kind != kind)
            return complain(c, value, "operands have different kinds");
    const bool result_fits = node->type.kind == (info->result == 'P' ? DLK_P1 : kind);
    return (kind_fits(info->args, kind) && result_fits) ||
           complain(c, value, "primitive does not take or give this kind");
}

/* ---- Other pure nodes ---- */

static void check_const(checker *c, dlk_val value, const dlk_node *node)
{
    const int bits = dlk_kind_bits((dlk_kind)node->type.kind);
    if (bits < 64 && (uint64_t)node->imm >> bits)
        complain(c, value, "constant has bits beyond its kind");
}

static void check_leaf(checker *c, dlk_val value, const dlk_node *node)
{
    if (node->op == DLK_IR_IOTA) {
        if (!dlk_kind_is_int((dlk_kind)node->type.kind))
            complain(c, value, "iota is of an integer kind");
    } else if (!is_type(node->type, DLK_I64, 1)) {
        complain(c, value, "an item's or thread's number is one lane of i64");
    } else if (node->op == DLK_IR_ITEM && (node->imm < 0 || node->imm > 2)) {
        complain(c, value, "dimension of the item is not 0 to 2");
    }
}

static void check_uniform(checker *c, dlk_val value, const dlk_node *node)
{
    if (node->imm < 0 || node->imm >= c->func->n_uniforms)
        complain(c, value, "no such uniform");
    else if (!is_type(node->type, (dlk_kind)c->func->uniforms[node->imm].kind, 1))
        complain(c, value, "uniform is one lane of its declared kind");
}

static void check_splat(checker *c, dlk_val value, const dlk_node *node)
{
    if (check_visible(c, value, node->a) && !is_type(type_of(c, node->a), (dlk_kind)node->type.kind, 1))
        complain(c, value, "splat takes one lane of its kind");
}

static void check_perm(checker *c, dlk_val value, const dlk_node *node)
{
    if (!check_visible(c, value, node->a) || (node->b != DLK_NONE && !check_visible(c, value, node->b)))
        return;
    const dlk_type from = type_of(c, node->a);
    if (from.kind != node->type.kind || (node->b != DLK_NONE && !same_type(from, type_of(c, node->b)))) {
        complain(c, value, "operands of perm differ in type");
        return;
    }
    const int n = from.lanes * (node->b == DLK_NONE ? 1 : 2);
    for (int l = 0; l < node->type.lanes; l++)
        if (!node->perm || node->perm[l] < -1 || node->perm[l] >= n) {
            complain(c, value, "perm names a lane that there is not");
            return;
        }
}

static void check_any(checker *c, dlk_val value, const dlk_node *node)
{
    if (check_visible(c, value, node->a) && (type_of(c, node->a).kind != DLK_P1 || !is_type(node->type, DLK_P1, 1)))
        complain(c, value, "any takes a predicate and gives one lane of one");
}

static void check_shuffle(checker *c, dlk_val value, const dlk_node *node)
{
    if (!check_visible(c, value, node->a))
        return;
    if (!same_type(type_of(c, node->a), node->type))
        complain(c, value, "shuffle changes the type");
    if (!is_power_of_two(node->imm) || node->imm >= c->func->subgroup)
        complain(c, value, "shuffle distance is not a power of two below the subgroup");
}

static void check_table(checker *c, dlk_val value, const dlk_node *node)
{
    if (node->imm < 0 || node->imm >= c->func->n_tables) {
        complain(c, value, "no such table");
    } else if (check_visible(c, value, node->a)) {
        const dlk_type index = type_of(c, node->a);
        if (index.kind != DLK_I64 || index.lanes != node->type.lanes)
            complain(c, value, "a table's index is i64, of the result's lanes");
        else if (node->type.kind != c->func->tables[node->imm].kind)
            complain(c, value, "table is of another kind");
    }
}

/* ---- Memory ---- */

static bool check_place(checker *c, dlk_val value, const dlk_node *node)
{
    if (node->imm < 0 || node->imm >= c->func->n_buffers)
        return complain(c, value, "no such buffer");
    if (node->type.kind == DLK_P1)
        return complain(c, value, "a predicate has no form in memory");
    if (!is_power_of_two(node->align))
        return complain(c, value, "alignment is not a power of two");
    return is_scalar_i64(c, value, node->a) && (node->count == DLK_NONE || is_scalar_i64(c, value, node->count));
}

static bool check_step(checker *c, dlk_val value, const dlk_node *node)
{
    if (node->step == DLK_STEP_UNIFORM)
        return is_scalar_i64(c, value, node->b);
    if (node->step == DLK_STEP_GATHER)
        return check_visible(c, value, node->b) && (is_type(type_of(c, node->b), DLK_I64, node->type.lanes) ||
                                                    complain(c, value, "gather takes one i64 offset a lane"));
    return (node->step <= DLK_STEP_GATHER && node->b == DLK_NONE) || complain(c, value, "step has a stride it ignores");
}

static void check_load(checker *c, dlk_val value, const dlk_node *node)
{
    if (check_place(c, value, node) && check_step(c, value, node) && node->nontemporal)
        complain(c, value, "only stores go past the cache");
}

static void check_store(checker *c, dlk_val value, const dlk_node *node)
{
    if (!check_place(c, value, node) || !check_step(c, value, node) || !check_visible(c, value, node->d))
        return;
    const dlk_ir_buffer *buffer = &c->func->buffers[node->imm];
    if (node->step == DLK_STEP_ZERO && node->type.lanes > 1)
        complain(c, value, "store of several lanes to one place");
    if (buffer->space == DLK_SPACE_GLOBAL && !buffer->written)
        complain(c, value, "store to a buffer that is not declared written");
    if (node->nontemporal && (node->step != DLK_STEP_UNIT || node->count != DLK_NONE))
        complain(c, value, "stores past the cache are whole and dense");
    if (!same_type(type_of(c, node->d), node->type))
        complain(c, value, "stored value has another type");
}

/* ---- Control ---- */

static void check_block(checker *c, const dlk_block *block);

static bool place(checker *c, dlk_val user, dlk_val value)
{
    if (value < 0 || value >= c->func->n_nodes)
        return complain(c, user, "block holds a node that there is not");
    if (c->placed[value])
        return complain(c, value, "node stands in two places");
    return c->placed[value] = true;
}

static void close_block(checker *c, const dlk_block *block)
{
    for (int k = 0; k < block->n_params; k++)
        c->visible[block->params[k]] = false;
    for (int k = 0; k < block->n && c->status == DLK_OK; k++)
        c->visible[block->nodes[k]] = false;
}

/* A LOOP's or IF's block, with what it yields, while its values are visible. */
static void check_region(checker *c, dlk_val owner, const dlk_block *block, int n_yields)
{
    check_block(c, block);
    if (c->status == DLK_OK && block->n_yields != n_yields)
        complain(c, owner, "block yields another number of values than it must");
    for (int k = 0; k < block->n_yields && c->status == DLK_OK; k++)
        check_visible(c, owner, block->yields[k]);
}

static bool open_params(checker *c, dlk_val value, const dlk_node *node)
{
    const dlk_block *body = node->body;
    if (body->n_params != node->n_inits + 1)
        return complain(c, value, "loop has another number of parameters than it carries values");
    for (int k = 0; k < body->n_params; k++) {
        if (!place(c, value, body->params[k]))
            return false;
        const dlk_node *param = &c->func->nodes[body->params[k]];
        const dlk_type type = k ? type_of(c, node->inits[k - 1]) : (dlk_type){DLK_I64, 1};
        if (param->op != DLK_IR_PARAM || param->imm != k || !same_type(param->type, type))
            return complain(c, value, "parameter of a loop is not one, or has another type than its first value");
        c->visible[body->params[k]] = true;
    }
    return true;
}

static bool check_bounds(checker *c, dlk_val value, const dlk_node *node)
{
    if (!is_scalar_i64(c, value, node->a) || !is_scalar_i64(c, value, node->b) || !is_scalar_i64(c, value, node->c))
        return false;
    const dlk_node *step = &c->func->nodes[node->c];
    if (step->op == DLK_IR_CONST && step->imm <= 0)
        return complain(c, value, "step of a loop is not positive");
    for (int k = 0; k < node->n_inits; k++)
        if (!check_visible(c, value, node->inits[k]))
            return false;
    return true;
}

static void check_loop(checker *c, dlk_val value, const dlk_node *node)
{
    if (!node->body || node->other) {
        complain(c, value, "loop has one block");
        return;
    }
    if (!check_bounds(c, value, node) || !open_params(c, value, node))
        return;
    const int n = node->n_inits;
    const dlk_val *yields = node->body->yields;
    check_region(c, value, node->body, n + node->has_until);
    for (int k = 0; k < n && c->status == DLK_OK; k++)
        if (!same_type(type_of(c, node->inits[k]), type_of(c, yields[k])))
            complain(c, value, "what a loop carries changes its type");
    if (c->status == DLK_OK && node->has_until && !is_type(type_of(c, yields[n]), DLK_P1, 1))
        complain(c, value, "condition to leave a loop is not one lane of a predicate");
    close_block(c, node->body);
}

static void check_if(checker *c, dlk_val value, const dlk_node *node)
{
    if (!node->body || !node->other || node->body->n_params || node->other->n_params) {
        complain(c, value, "if has two blocks without parameters");
        return;
    }
    if (!check_visible(c, value, node->a))
        return;
    if (!is_type(type_of(c, node->a), DLK_P1, 1)) {
        complain(c, value, "if takes one lane of a predicate");
        return;
    }
    const int n = node->body->n_yields;
    const dlk_block *arms[2] = {node->body, node->other};
    for (int k = 0; k < 2 && c->status == DLK_OK; k++) {
        check_region(c, value, arms[k], n);
        close_block(c, arms[k]);
    }
    for (int k = 0; k < n && c->status == DLK_OK; k++)
        if (!same_type(type_of(c, node->body->yields[k]), type_of(c, node->other->yields[k])))
            complain(c, value, "arms yield values of different types");
}

static void check_result(checker *c, dlk_val value, const dlk_node *node)
{
    if (!check_visible(c, value, node->a))
        return;
    const dlk_node *owner = &c->func->nodes[node->a];
    if (owner->op != DLK_IR_LOOP && owner->op != DLK_IR_IF) {
        complain(c, value, "result of what is neither loop nor if");
        return;
    }
    const dlk_val *from = owner->op == DLK_IR_LOOP ? owner->inits : owner->body->yields;
    const int n = owner->op == DLK_IR_LOOP ? owner->n_inits : owner->body->n_yields;
    if (node->imm < 0 || node->imm >= n)
        complain(c, value, "no such result");
    else if (!same_type(type_of(c, from[node->imm]), node->type))
        complain(c, value, "result has another type than what is yielded");
}

/* ---- Walking ---- */

static void check_node(checker *c, dlk_val value, const dlk_block *block)
{
    const dlk_node *node = &c->func->nodes[value];
    switch ((dlk_ir_op)node->op) {
    case DLK_IR_CONST:
        check_const(c, value, node);
        break;
    case DLK_IR_UNIFORM:
        check_uniform(c, value, node);
        break;
    case DLK_IR_ITEM:
    case DLK_IR_THREAD:
    case DLK_IR_IOTA:
        check_leaf(c, value, node);
        break;
    case DLK_IR_PRIM:
        check_prim(c, value, node);
        break;
    case DLK_IR_SPLAT:
        check_splat(c, value, node);
        break;
    case DLK_IR_PERM:
        check_perm(c, value, node);
        break;
    case DLK_IR_ANY:
        check_any(c, value, node);
        break;
    case DLK_IR_SHFL_XOR:
        check_shuffle(c, value, node);
        break;
    case DLK_IR_LOAD:
        check_load(c, value, node);
        break;
    case DLK_IR_STORE:
        check_store(c, value, node);
        break;
    case DLK_IR_TABLE:
        check_table(c, value, node);
        break;
    case DLK_IR_LOOP:
        check_loop(c, value, node);
        break;
    case DLK_IR_IF:
        check_if(c, value, node);
        break;
    case DLK_IR_RESULT:
        check_result(c, value, node);
        break;
    case DLK_IR_BARRIER:
        break;
    default: /* a PARAM stands with its block */
        complain(c, value, "not a node that a block lists");
        break;
    }
    if ((node->body && node->body->outer != block) || (node->other && node->other->outer != block))
        complain(c, value, "its block says that it stands elsewhere");
}

static void check_block(checker *c, const dlk_block *block)
{
    for (int k = 0; k < block->n && c->status == DLK_OK; k++) {
        const dlk_val value = block->nodes[k];
        if (!place(c, value, value))
            return;
        const dlk_type type = type_of(c, value);
        if (type.kind >= DLK_KIND_COUNT || type.lanes < 1 || type.lanes > DLK_LANES_MAX)
            complain(c, value, "no such kind, or number of lanes that is not 1 to 64");
        else
            check_node(c, value, block);
        c->visible[value] = true;
    }
}

/* Needs a well-formed function, hence a second walk. */
static void check_synchronised(checker *c, const dlk_block *block, bool split)
{
    for (int k = 0; k < block->n && c->status == DLK_OK; k++) {
        const dlk_val value = block->nodes[k];
        const dlk_node *node = &c->func->nodes[value];
        if (split && (node->op == DLK_IR_BARRIER || node->op == DLK_IR_SHFL_XOR))
            complain(c, value, "barrier or shuffle where threads may have gone different ways");
        const bool inside = node->body && (split || dlk_ir_splits(c->func, c->diverging, value));
        if (node->body)
            check_synchronised(c, node->body, inside);
        if (node->other)
            check_synchronised(c, node->other, inside);
    }
}

static void check_header(checker *c)
{
    const dlk_func *func = c->func;
    bool local = false;
    if (func->threads < 1 || !is_power_of_two(func->subgroup) || func->threads % func->subgroup)
        c->status =
            dlk_fail(DLK_ERR_INTERNAL, "IR: %d threads in subgroups of %d, expected whole ones of a power of two",
                     func->threads, func->subgroup);
    for (int b = 0; b < func->n_buffers && c->status == DLK_OK; b++) {
        const dlk_ir_buffer *buffer = &func->buffers[b];
        if (buffer->space == DLK_SPACE_GLOBAL ? local : buffer->kind == DLK_P1 || buffer->count < 1)
            c->status = dlk_fail(DLK_ERR_INTERNAL, "IR: buffer b%d: %s", b,
                                 local ? "global buffers come first" : "local buffers hold at least one number");
        local |= buffer->space != DLK_SPACE_GLOBAL;
    }
}

static void check_func(checker *c)
{
    const int n = c->func->n_nodes + 1;
    c->placed = DLK_NEW_ARRAY(&c->arena, bool, n);
    c->visible = DLK_NEW_ARRAY(&c->arena, bool, n);
    check_header(c);
    if (c->status == DLK_OK)
        check_block(c, c->func->body);
    if (c->status != DLK_OK)
        return;
    c->diverging = dlk_ir_diverging(c->func, &c->arena);
    check_synchronised(c, c->func->body, false);
}

dlk_status dlk_ir_verify(const dlk_func *func)
{
    jmp_buf escape;
    checker c = {.func = func};
    c.arena.escape = &escape;
    if (setjmp(escape))
        c.status = dlk_fail(DLK_ERR_MEMORY, "IR: out of memory while checking");
    else
        check_func(&c);
    dlk_arena_free(&c.arena);
    return c.status;
}
