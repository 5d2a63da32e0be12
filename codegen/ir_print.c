/* IR as text: one node a line, blocks indented, for people and for tests that look at what a schedule made. */
#include "codegen/ir.h"

static const char *const kind_names[DLK_KIND_COUNT] = {"p1", "i8", "i16", "i32", "i64", "f32", "f64"};
static const char *const op_names[DLK_IR_OP_COUNT] = {
    [DLK_IR_CONST] = "const",   [DLK_IR_UNIFORM] = "uniform",   [DLK_IR_ITEM] = "item",   [DLK_IR_THREAD] = "thread",
    [DLK_IR_IOTA] = "iota",     [DLK_IR_PRIM] = "prim",         [DLK_IR_SPLAT] = "splat", [DLK_IR_PERM] = "perm",
    [DLK_IR_ANY] = "any",       [DLK_IR_SHFL_XOR] = "shfl_xor", [DLK_IR_LOAD] = "load",   [DLK_IR_STORE] = "store",
    [DLK_IR_TABLE] = "table",   [DLK_IR_LOOP] = "loop",         [DLK_IR_IF] = "if",       [DLK_IR_PARAM] = "param",
    [DLK_IR_RESULT] = "result", [DLK_IR_BARRIER] = "barrier",
};
static const char *const step_names[] = {"unit", "zero", "reverse", "uniform", "gather"};
static const char *const buffer_names[] = {"input", "output", "state_in", "state_out"};
static const char *const space_names[] = {"global", "shared", "private"};
static const char *const role_names[] = {
    [DLK_UNIFORM_EXTENT] = "extent",
    [DLK_UNIFORM_STRIDE] = "stride",
    [DLK_UNIFORM_TILE] = "tile",
    [DLK_UNIFORM_TILES] = "tiles",
    [DLK_UNIFORM_COUNT] = "count",
    [DLK_UNIFORM_INDEX_STRIDE] = "index_stride",
    [DLK_UNIFORM_INDEX_BASE] = "index_base",
    [DLK_UNIFORM_ADDRESS] = "address",
    [DLK_UNIFORM_SCALAR] = "scalar",
    [DLK_UNIFORM_MAGIC] = "magic",
    [DLK_UNIFORM_SHIFT] = "shift",
};

static void print_buffer_role(dlk_buffer_role role, dlk_buffer *out)
{
    dlk_buffer_printf(out, "%s%d", buffer_names[role.kind], role.index);
}

static void print_header(const dlk_func *func, dlk_buffer *out)
{
    for (int b = 0; b < func->n_buffers; b++) {
        const dlk_ir_buffer *buffer = &func->buffers[b];
        dlk_buffer_printf(out, "buffer b%d: %s", b, space_names[buffer->space]);
        if (buffer->space == DLK_SPACE_GLOBAL) {
            dlk_buffer_puts(out, " ");
            print_buffer_role(buffer->role, out);
            dlk_buffer_printf(out, "%s%s\n", buffer->written ? " written" : "", buffer->noalias ? " noalias" : "");
        } else {
            dlk_buffer_printf(out, " %s[%lld]\n", kind_names[buffer->kind], (long long)buffer->count);
        }
    }
    for (int k = 0; k < func->n_uniforms; k++) {
        const dlk_uniform *u = &func->uniforms[k];
        dlk_buffer_printf(out, "uniform u%d: %s %s axis %d index %d", k, kind_names[u->kind], role_names[u->role],
                          u->axis, u->index);
        if (u->role == DLK_UNIFORM_STRIDE || u->role == DLK_UNIFORM_ADDRESS) {
            dlk_buffer_puts(out, " of ");
            print_buffer_role(u->buffer, out);
        }
        dlk_buffer_puts(out, "\n");
    }
    for (int k = 0; k < func->n_tables; k++)
        dlk_buffer_printf(out, "table t%d: %s[%d]\n", k, kind_names[func->tables[k].kind], func->tables[k].count);
    if (func->threads > 1)
        dlk_buffer_printf(out, "threads %d subgroup %d\n", func->threads, func->subgroup);
}

static void print_values(const dlk_val *values, int n, dlk_buffer *out)
{
    for (int k = 0; k < n; k++)
        dlk_buffer_printf(out, "%sv%d", k ? ", " : "", values[k]);
}

static void print_memory(const dlk_node *node, dlk_buffer *out)
{
    dlk_buffer_printf(out, " b%lld[v%d] %s", (long long)node->imm, node->a, step_names[node->step]);
    if (node->b != DLK_NONE)
        dlk_buffer_printf(out, " v%d", node->b);
    if (node->count != DLK_NONE)
        dlk_buffer_printf(out, " count v%d", node->count);
    dlk_buffer_printf(out, " align %d%s", node->align, node->nontemporal ? " nontemporal" : "");
}

static void print_operands(const dlk_node *node, dlk_buffer *out)
{
    const dlk_val operands[3] = {node->a, node->b, node->c};
    int n = 0;
    while (n < 3 && operands[n] != DLK_NONE)
        n++;
    if (n) {
        dlk_buffer_puts(out, " ");
        print_values(operands, n, out);
    }
    if (node->op == DLK_IR_PERM) {
        dlk_buffer_puts(out, " [");
        for (int l = 0; l < node->type.lanes; l++)
            dlk_buffer_printf(out, "%s%d", l ? " " : "", node->perm[l]);
        dlk_buffer_puts(out, "]");
    }
}

static void print_block(const dlk_func *func, const dlk_block *block, int indent, dlk_buffer *out);

static void print_immediate(const dlk_node *node, dlk_buffer *out)
{
    switch ((dlk_ir_op)node->op) {
    case DLK_IR_CONST:
        dlk_buffer_printf(out, " 0x%llx", (unsigned long long)node->imm);
        break;
    case DLK_IR_UNIFORM:
        dlk_buffer_printf(out, " u%lld", (long long)node->imm);
        break;
    case DLK_IR_TABLE:
        dlk_buffer_printf(out, " t%lld", (long long)node->imm);
        break;
    case DLK_IR_ITEM:
    case DLK_IR_SHFL_XOR:
    case DLK_IR_RESULT:
        dlk_buffer_printf(out, " #%lld", (long long)node->imm);
        break;
    default:
        break;
    }
}

static void print_region(const dlk_func *func, const char *label, const dlk_block *block, int indent, dlk_buffer *out)
{
    dlk_buffer_printf(out, "%*s%s", indent, "", label);
    if (block->n_params) {
        dlk_buffer_puts(out, " (");
        print_values(block->params, block->n_params, out);
        dlk_buffer_puts(out, ")");
    }
    dlk_buffer_puts(out, "\n");
    print_block(func, block, indent + 2, out);
    if (!block->n_yields)
        return;
    dlk_buffer_printf(out, "%*syield ", indent + 2, "");
    print_values(block->yields, block->n_yields, out);
    dlk_buffer_puts(out, "\n");
}

static bool has_value(const dlk_node *node)
{
    return node->op != DLK_IR_LOOP && node->op != DLK_IR_IF && node->op != DLK_IR_STORE && node->op != DLK_IR_BARRIER;
}

static void print_node(const dlk_func *func, dlk_val value, int indent, dlk_buffer *out)
{
    const dlk_node *node = &func->nodes[value];
    dlk_buffer_printf(out, "%*sv%d: ", indent, "", value);
    if (has_value(node))
        dlk_buffer_printf(out, "%sx%d = ", kind_names[node->type.kind], node->type.lanes);
    dlk_buffer_puts(out, node->op == DLK_IR_PRIM ? dlk_prims[node->prim].name : op_names[node->op]);
    print_immediate(node, out);
    if (node->op == DLK_IR_LOAD || node->op == DLK_IR_STORE) {
        print_memory(node, out);
        if (node->op == DLK_IR_STORE)
            dlk_buffer_printf(out, " v%d", node->d);
    } else {
        print_operands(node, out);
    }
    if (node->n_inits) {
        dlk_buffer_puts(out, " carrying ");
        print_values(node->inits, node->n_inits, out);
    }
    dlk_buffer_printf(out, "%s%s\n", node->has_until ? " until" : "",
                      node->op == DLK_IR_IF && node->imm ? " rare" : "");
    if (node->body)
        print_region(func, node->op == DLK_IR_LOOP ? "do" : "then", node->body, indent, out);
    if (node->other)
        print_region(func, "else", node->other, indent, out);
}

static void print_block(const dlk_func *func, const dlk_block *block, int indent, dlk_buffer *out)
{
    for (int k = 0; k < block->n; k++)
        print_node(func, block->nodes[k], indent, out);
}

void dlk_ir_print(const dlk_func *func, dlk_buffer *out)
{
    print_header(func, out);
    print_block(func, func->body, 0, out);
}
