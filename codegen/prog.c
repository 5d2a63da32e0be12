/* The scalar program's nodes: made here, and only here, so that equal ones are one, constants are folded by the very
 * arithmetic that the interpreter uses, and every node knows what it depends on. */
#include "codegen/prog.h"

#include <string.h>

#include "codegen/dtype.h"
#include "codegen/interpret.h"

#define FIRST_CONS 256

/* ---- Hash-consing ------------------------------------------------------------------------------------------------- */

static int list_length(const dlk_pnode *node)
{
    return node->op == DLK_PROG_RARE ? 2 * node->n : node->op == DLK_PROG_REPEAT ? 3 * node->n + 1 : 0;
}

static uint32_t mix(uint32_t hash, uint64_t value)
{
    uint64_t h = (hash ^ value) * 0x9e3779b97f4a7c15ull;
    h ^= h >> 29;
    h *= 0xbf58476d1ce4e5b9ull;
    return (uint32_t)(h ^ (h >> 32));
}

static uint32_t hash_node(const dlk_pnode *node)
{
    uint32_t hash = mix(node->op, (uint64_t)node->prim << 16 | (uint64_t)node->kind << 8 | node->part);
    hash = mix(hash, (uint64_t)(uint32_t)node->a << 32 | (uint32_t)node->b);
    hash = mix(hash, (uint32_t)node->c);
    hash = mix(hash, (uint64_t)node->imm);
    for (int i = 0, n = list_length(node); i < n; i++)
        hash = mix(hash, (uint32_t)node->list[i]);
    return hash;
}

static bool nodes_equal(const dlk_pnode *x, const dlk_pnode *y)
{
    if (x->op != y->op || x->prim != y->prim || x->kind != y->kind || x->part != y->part || x->a != y->a ||
        x->b != y->b || x->c != y->c || x->imm != y->imm || x->n != y->n)
        return false;
    const int n = list_length(x);
    return n == 0 || memcmp(x->list, y->list, sizeof *x->list * (size_t)n) == 0;
}

static void cons_insert(dlk_prog *prog, dlk_ref ref)
{
    uint32_t slot = hash_node(&prog->nodes[ref]) & (uint32_t)(prog->cap_cons - 1);
    while (prog->cons[slot])
        slot = (slot + 1) & (uint32_t)(prog->cap_cons - 1);
    prog->cons[slot] = (uint32_t)ref + 1;
}

static void cons_grow(dlk_prog *prog)
{
    prog->cap_cons = prog->cap_cons ? prog->cap_cons * 2 : FIRST_CONS;
    prog->cons = DLK_NEW_ARRAY(prog->arena, uint32_t, prog->cap_cons);
    for (int i = 0; i < prog->n_nodes; i++)
        cons_insert(prog, i);
}

static dlk_ref cons_find(const dlk_prog *prog, const dlk_pnode *node)
{
    if (prog->cap_cons == 0)
        return DLK_NONE;
    uint32_t slot = hash_node(node) & (uint32_t)(prog->cap_cons - 1);
    for (; prog->cons[slot]; slot = (slot + 1) & (uint32_t)(prog->cap_cons - 1))
        if (nodes_equal(&prog->nodes[prog->cons[slot] - 1], node))
            return (dlk_ref)prog->cons[slot] - 1;
    return DLK_NONE;
}

/* The node equal to `node`, found or appended; its list is copied when appended. */
static dlk_ref intern(dlk_prog *prog, dlk_pnode node)
{
    const dlk_ref found = cons_find(prog, &node);
    if (found != DLK_NONE)
        return found;
    const int n = list_length(&node);
    if (n)
        node.list = dlk_arena_copy(prog->arena, node.list, sizeof *node.list * (size_t)n);
    if (prog->n_nodes * 2 >= prog->cap_cons)
        cons_grow(prog);
    *DLK_PUSH(prog->arena, prog->nodes, prog->n_nodes, prog->cap_nodes) = node;
    cons_insert(prog, prog->n_nodes - 1);
    return prog->n_nodes - 1;
}

static dlk_pnode blank(dlk_prog_op op, dlk_kind kind, dlk_scope scope)
{
    return (dlk_pnode){
        .op = (uint8_t)op, .kind = (uint8_t)kind, .scope = (uint8_t)scope, .a = DLK_NONE, .b = DLK_NONE, .c = DLK_NONE};
}

static uint8_t widest_scope(const dlk_prog *prog, uint8_t scope, const dlk_ref *refs, int n)
{
    for (int i = 0; i < n; i++)
        if (refs[i] != DLK_NONE && prog->nodes[refs[i]].scope > scope)
            scope = prog->nodes[refs[i]].scope;
    return scope;
}

/* ---- Folding ------------------------------------------------------------------------------------------------------ */

static bool is_const(const dlk_prog *prog, dlk_ref ref)
{
    return ref == DLK_NONE || prog->nodes[ref].op == DLK_PROG_CONST;
}

static uint64_t const_bits(const dlk_prog *prog, dlk_ref ref)
{
    return ref == DLK_NONE ? 0 : (uint64_t)prog->nodes[ref].imm;
}

/* The choice of a SELECT that is known, or DLK_NONE. */
static dlk_ref known_choice(const dlk_prog *prog, dlk_ref a, dlk_ref b, dlk_ref c)
{
    if (b == c)
        return b;
    return is_const(prog, a) ? (const_bits(prog, a) ? b : c) : DLK_NONE;
}

/* a joined with a constant predicate. */
static dlk_ref known_predicate(dlk_prog *prog, dlk_prim prim, dlk_ref a, dlk_ref b)
{
    if (is_const(prog, a)) {
        const dlk_ref swapped = a;
        a = b;
        b = swapped;
    }
    if (!is_const(prog, b))
        return a == b ? a : DLK_NONE;
    const bool value = const_bits(prog, b) != 0;
    return value == (prim == DLK_PRIM_AND) ? a : b;
}

static dlk_ref simplify(dlk_prog *prog, dlk_prim prim, dlk_ref a, dlk_ref b, dlk_ref c)
{
    if (prim == DLK_PRIM_SELECT)
        return known_choice(prog, a, b, c);
    if ((prim == DLK_PRIM_AND || prim == DLK_PRIM_OR) && prog->nodes[a].kind == DLK_P1)
        return known_predicate(prog, prim, a, b);
    return DLK_NONE;
}

/* MAD stays: how often it rounds is the target's. */
static bool folds(const dlk_prog *prog, dlk_prim prim, dlk_ref a, dlk_ref b, dlk_ref c)
{
    return prim != DLK_PRIM_MAD && is_const(prog, a) && is_const(prog, b) && is_const(prog, c);
}

static dlk_ref make_prim(dlk_prog *prog, dlk_prim prim, dlk_kind kind, dlk_ref a, dlk_ref b, dlk_ref c)
{
    if (folds(prog, prim, a, b, c)) {
        const dlk_kind from = prog->nodes[a].kind;
        return dlk_prog_const(
            prog, kind,
            dlk_prim_eval(prim, from, kind, const_bits(prog, a), const_bits(prog, b), const_bits(prog, c), true));
    }
    dlk_pnode node = blank(DLK_PROG_PRIM, kind, DLK_SCOPE_UNIFORM);
    node.prim = (uint8_t)prim;
    node.a = a;
    node.b = b;
    node.c = c;
    node.scope = widest_scope(prog, DLK_SCOPE_UNIFORM, (dlk_ref[]){a, b, c}, 3);
    return intern(prog, node);
}

/* ---- Reductions ---------------------------------------------------------------------------------------------------- */

static bool reductions_equal(const dlk_reduction *x, const dlk_reduction *y)
{
    if (x->n != y->n || x->has_leaf != y->has_leaf || x->in_leaf != y->in_leaf || x->is_free != y->is_free ||
        x->has_identity != y->has_identity || x->needs_elements != y->needs_elements || x->tree_kind != y->tree_kind ||
        x->tree_parts != y->tree_parts)
        return false;
    for (int k = 0; k < x->n; k++)
        if (x->kind[k] != y->kind[k] || x->first[k] != y->first[k] || x->left[k] != y->left[k] ||
            x->right[k] != y->right[k] || x->merge[k] != y->merge[k] || x->identity[k] != y->identity[k])
            return false;
    return true;
}

typedef struct reach {
    const dlk_prog *prog;
    uint8_t *mark;
} reach;

static void mark_operand(void *context, dlk_ref operand)
{
    ((reach *)context)->mark[operand] = 1;
}

/* Spreads marks to all operands. Operands precede users, so one pass from the last node does. */
static void mark_operands(const dlk_prog *prog, uint8_t *mark)
{
    reach r = {prog, mark};
    for (dlk_ref i = prog->n_nodes - 1; i >= 0; i--)
        if (mark[i])
            dlk_prog_operands(prog, i, mark_operand, &r);
}

static uint8_t level_of(const dlk_prog *prog, const dlk_reduction *reduce)
{
    uint8_t *mark = DLK_NEW_ARRAY(prog->arena, uint8_t, prog->n_nodes), level = 0;
    for (int k = 0; k < reduce->n; k++)
        mark[reduce->first[k]] = mark[reduce->merge[k]] = 1;
    mark_operands(prog, mark);
    for (dlk_ref i = 0; i < prog->n_nodes; i++) {
        if (!mark[i] || prog->nodes[i].op != DLK_PROG_REDUCE)
            continue;
        const dlk_reduction *inner = &prog->reduces[prog->nodes[i].imm];
        if (inner->in_leaf == reduce->in_leaf && inner->level >= level)
            level = inner->level + 1;
    }
    return level;
}

static int find_or_add_reduction(dlk_prog *prog, const dlk_reduction *reduce)
{
    for (int i = 0; i < prog->n_reduces; i++)
        if (reductions_equal(&prog->reduces[i], reduce))
            return i;
    const uint8_t level = level_of(prog, reduce);
    dlk_reduction *added = DLK_PUSH(prog->arena, prog->reduces, prog->n_reduces, prog->cap_reduces);
    *added = *reduce;
    added->level = level;
    return prog->n_reduces - 1;
}

/* ---- Compaction ----------------------------------------------------------------------------------------------------- */

typedef struct copy {
    const dlk_prog *from;
    dlk_prog *to;
    dlk_ref *ref; /* by node of `from` */
} copy;

static dlk_ref copied(const copy *c, dlk_ref ref)
{
    return ref == DLK_NONE ? DLK_NONE : c->ref[ref];
}

static int copy_reduction(copy *c, int index)
{
    dlk_reduction reduce = c->from->reduces[index];
    for (int k = 0; k < reduce.n; k++) {
        reduce.first[k] = copied(c, reduce.first[k]);
        reduce.left[k] = copied(c, reduce.left[k]);
        reduce.right[k] = copied(c, reduce.right[k]);
        reduce.merge[k] = copied(c, reduce.merge[k]);
    }
    *DLK_PUSH(c->to->arena, c->to->reduces, c->to->n_reduces, c->to->cap_reduces) = reduce;
    return c->to->n_reduces - 1;
}

static int copy_table(copy *c, int index)
{
    const dlk_table *table = &c->from->tables[index];
    return dlk_prog_add_table(c->to, table->kind, table->bits, table->count);
}

static dlk_ref copy_node(copy *c, const dlk_pnode *from)
{
    dlk_pnode node = *from;
    const int n = list_length(from);
    dlk_ref *list = n ? DLK_NEW_ARRAY(c->to->arena, dlk_ref, n) : NULL;
    for (int i = 0; i < n; i++)
        list[i] = copied(c, from->list[i]);
    node.list = list;
    node.a = copied(c, from->a);
    node.b = copied(c, from->b);
    node.c = copied(c, from->c);
    if (node.op == DLK_PROG_REDUCE)
        node.imm = copy_reduction(c, (int)from->imm);
    if (node.op == DLK_PROG_TABLE)
        node.imm = copy_table(c, (int)from->imm);
    return intern(c->to, node);
}

static void mark_outputs(const dlk_prog *prog, uint8_t *mark)
{
    for (int i = 0; i < prog->n_outputs; i++)
        for (int part = 0; part < 2; part++)
            if (prog->outputs[i].part[part] != DLK_NONE)
                mark[prog->outputs[i].part[part]] = 1;
    mark_operands(prog, mark);
}

/* ---- Printing ------------------------------------------------------------------------------------------------------ */

static const char *const kind_names[DLK_KIND_COUNT] = {"p1", "i8", "i16", "i32", "i64", "f32", "f64"};
static const char *const scope_names[] = {"uniform", "row", "leaf", "element"};
static const char *const op_names[] = {"const", "input", "scalar", "count", "leaf_count", "index", "prim",
                                       "table", "rare",  "repeat", "var",   "reduce",     "proj"};

static double const_as_double(const dlk_pnode *node)
{
    double d;
    float f;
    const uint32_t low = (uint32_t)node->imm;
    memcpy(&d, &node->imm, sizeof d);
    memcpy(&f, &low, sizeof f);
    return node->kind == DLK_F64 ? d : (double)f;
}

static void print_operands(const dlk_pnode *node, dlk_buffer *out)
{
    const dlk_ref operand[3] = {node->a, node->b, node->c};
    for (int i = 0; i < 3 && operand[i] != DLK_NONE; i++)
        dlk_buffer_printf(out, " %%%d", (int)operand[i]);
    for (int i = 0, n = list_length(node); i < n; i++)
        dlk_buffer_printf(out, "%s%%%d", i == 0 ? " [" : " ", (int)node->list[i]);
    if (list_length(node))
        dlk_buffer_puts(out, "]");
}

static void print_node(const dlk_prog *prog, dlk_ref ref, dlk_buffer *out)
{
    const dlk_pnode *node = &prog->nodes[ref];
    dlk_buffer_printf(out, "  %%%d: %s %s = ", (int)ref, scope_names[node->scope], kind_names[node->kind]);
    dlk_buffer_puts(out, node->op == DLK_PROG_PRIM ? dlk_prims[node->prim].name : op_names[node->op]);
    if (node->op == DLK_PROG_CONST && dlk_kind_is_float(node->kind))
        dlk_buffer_printf(out, " %.17g", const_as_double(node));
    else if (node->op == DLK_PROG_CONST)
        dlk_buffer_printf(out, " 0x%llx", (unsigned long long)node->imm);
    else if (node->op != DLK_PROG_PRIM && node->op != DLK_PROG_RARE && node->op != DLK_PROG_COUNT)
        dlk_buffer_printf(out, " %lld", (long long)node->imm);
    if (node->part)
        dlk_buffer_puts(out, " imaginary");
    print_operands(node, out);
    dlk_buffer_puts(out, "\n");
}

static void print_reduction(const dlk_prog *prog, int index, dlk_buffer *out)
{
    const dlk_reduction *reduce = &prog->reduces[index];
    dlk_buffer_printf(out, "  reduce %d %s: level %d, tree %s%s%s%s%s\n", index, reduce->name ? reduce->name : "",
                      reduce->level, kind_names[reduce->tree_kind], reduce->tree_parts == 2 ? " complex" : "",
                      reduce->has_leaf ? ", by leaf" : "", reduce->in_leaf ? ", in leaf" : "",
                      reduce->is_free ? ", any order" : "");
    for (int k = 0; k < reduce->n; k++) {
        dlk_buffer_printf(out, "    %s: first %%%d, merge(%%%d, %%%d) = %%%d", kind_names[reduce->kind[k]],
                          (int)reduce->first[k], (int)reduce->left[k], (int)reduce->right[k], (int)reduce->merge[k]);
        if (reduce->has_identity)
            dlk_buffer_printf(out, ", identity 0x%llx", (unsigned long long)reduce->identity[k]);
        dlk_buffer_puts(out, "\n");
    }
}

/* ---- Node makers --------------------------------------------------------------------------------------------------- */

dlk_prog *dlk_prog_create(dlk_arena *arena)
{
    dlk_prog *prog = DLK_NEW(arena, dlk_prog);
    prog->arena = arena;
    return prog;
}

dlk_ref dlk_prog_const(dlk_prog *prog, dlk_kind kind, uint64_t bits)
{
    dlk_pnode node = blank(DLK_PROG_CONST, kind, DLK_SCOPE_UNIFORM);
    const int width = dlk_kind_bits(kind);
    node.imm = (int64_t)(width == 64 ? bits : bits & ((1ull << width) - 1));
    return intern(prog, node);
}

dlk_ref dlk_prog_input(dlk_prog *prog, int operand, int part, dlk_kind storage)
{
    dlk_pnode node = blank(DLK_PROG_INPUT, storage, DLK_SCOPE_ELEMENT);
    node.imm = operand;
    node.part = (uint8_t)part;
    return intern(prog, node);
}

dlk_ref dlk_prog_scalar(dlk_prog *prog, int index, int part, dlk_kind kind)
{
    dlk_pnode node = blank(DLK_PROG_SCALAR, kind, DLK_SCOPE_UNIFORM);
    node.imm = index;
    node.part = (uint8_t)part;
    return intern(prog, node);
}

dlk_ref dlk_prog_count(dlk_prog *prog)
{
    return intern(prog, blank(DLK_PROG_COUNT, DLK_I64, DLK_SCOPE_UNIFORM));
}

dlk_ref dlk_prog_leaf_count(dlk_prog *prog)
{
    return intern(prog, blank(DLK_PROG_LEAF_COUNT, DLK_I64, DLK_SCOPE_LEAF));
}

dlk_ref dlk_prog_index(dlk_prog *prog)
{
    return intern(prog, blank(DLK_PROG_INDEX, DLK_I64, DLK_SCOPE_ELEMENT));
}

dlk_ref dlk_prog_prim(dlk_prog *prog, dlk_prim prim, dlk_ref a, dlk_ref b, dlk_ref c)
{
    const dlk_ref simple = simplify(prog, prim, a, b, c);
    if (simple != DLK_NONE)
        return simple;
    const dlk_kind operand = prim == DLK_PRIM_SELECT ? prog->nodes[b].kind : prog->nodes[a].kind;
    return make_prim(prog, prim, dlk_prims[prim].result == 'P' ? DLK_P1 : operand, a, b, c);
}

dlk_ref dlk_prog_convert(dlk_prog *prog, dlk_prim prim, dlk_kind kind, dlk_ref a)
{
    return make_prim(prog, prim, kind, a, DLK_NONE, DLK_NONE);
}

dlk_ref dlk_prog_table(dlk_prog *prog, int table, dlk_ref index)
{
    dlk_pnode node = blank(DLK_PROG_TABLE, prog->tables[table].kind, prog->nodes[index].scope);
    node.imm = table;
    node.a = index;
    return intern(prog, node);
}

int dlk_prog_add_table(dlk_prog *prog, dlk_kind kind, const uint64_t *bits, int count)
{
    const size_t bytes = sizeof *bits * (size_t)count;
    for (int i = 0; i < prog->n_tables; i++)
        if (prog->tables[i].kind == kind && prog->tables[i].count == count &&
            memcmp(prog->tables[i].bits, bits, bytes) == 0)
            return i;
    *DLK_PUSH(prog->arena, prog->tables, prog->n_tables, prog->cap_tables) =
        (dlk_table){(uint8_t)kind, count, dlk_arena_copy(prog->arena, bits, bytes)};
    return prog->n_tables - 1;
}

dlk_ref dlk_prog_var(dlk_prog *prog, dlk_kind kind, dlk_scope scope)
{
    dlk_pnode node = blank(DLK_PROG_VAR, kind, scope);
    node.imm = prog->n_vars++;
    return intern(prog, node);
}

dlk_ref dlk_prog_rare(dlk_prog *prog, dlk_ref condition, const dlk_ref *if_true, const dlk_ref *if_false, int n)
{
    dlk_pnode node = blank(DLK_PROG_RARE, DLK_P1, DLK_SCOPE_UNIFORM);
    dlk_ref *list = DLK_NEW_ARRAY(prog->arena, dlk_ref, 2 * n);
    memcpy(list, if_true, sizeof *list * (size_t)n);
    memcpy(list + n, if_false, sizeof *list * (size_t)n);
    node.a = condition;
    node.list = list;
    node.n = n;
    node.scope = widest_scope(prog, prog->nodes[condition].scope, list, 2 * n);
    return intern(prog, node);
}

dlk_ref dlk_prog_repeat(dlk_prog *prog, int64_t at_most, const dlk_ref *first, const dlk_ref *vars, const dlk_ref *next,
                        dlk_ref done, int n)
{
    dlk_pnode node = blank(DLK_PROG_REPEAT, DLK_P1, DLK_SCOPE_UNIFORM);
    const size_t bytes = sizeof(dlk_ref) * (size_t)n;
    dlk_ref *list = DLK_NEW_ARRAY(prog->arena, dlk_ref, 3 * n + 1);
    memcpy(list, first, bytes);
    memcpy(list + n, vars, bytes);
    memcpy(list + 2 * n, next, bytes);
    list[3 * n] = done;
    node.imm = at_most;
    node.list = list;
    node.n = n;
    node.scope = widest_scope(prog, DLK_SCOPE_UNIFORM, list, 3 * n + 1);
    return intern(prog, node);
}

dlk_ref dlk_prog_reduce(dlk_prog *prog, const dlk_reduction *reduce)
{
    dlk_pnode node = blank(DLK_PROG_REDUCE, DLK_P1, reduce->in_leaf ? DLK_SCOPE_LEAF : DLK_SCOPE_ROW);
    node.imm = find_or_add_reduction(prog, reduce);
    return intern(prog, node);
}

dlk_ref dlk_prog_proj(dlk_prog *prog, dlk_ref of, int k, dlk_kind kind)
{
    dlk_pnode node = blank(DLK_PROG_PROJ, kind, prog->nodes[of].scope);
    node.a = of;
    node.imm = k;
    return intern(prog, node);
}

/* ---- The program as a whole ----------------------------------------------------------------------------------------- */

void dlk_prog_operands(const dlk_prog *prog, dlk_ref ref, void (*visit)(void *context, dlk_ref operand), void *context)
{
    const dlk_pnode *node = &prog->nodes[ref];
    const dlk_ref operand[3] = {node->a, node->b, node->c};
    for (int i = 0; i < 3; i++)
        if (operand[i] != DLK_NONE)
            visit(context, operand[i]);
    for (int i = 0, n = list_length(node); i < n; i++)
        visit(context, node->list[i]);
    if (node->op != DLK_PROG_REDUCE)
        return;
    const dlk_reduction *reduce = &prog->reduces[node->imm];
    for (int k = 0; k < reduce->n; k++) {
        visit(context, reduce->first[k]);
        visit(context, reduce->left[k]);
        visit(context, reduce->right[k]);
        visit(context, reduce->merge[k]);
    }
}

dlk_prog *dlk_prog_compact(const dlk_prog *prog, dlk_arena *arena)
{
    copy c = {.from = prog, .to = dlk_prog_create(arena), .ref = DLK_NEW_ARRAY(arena, dlk_ref, prog->n_nodes)};
    uint8_t *mark = DLK_NEW_ARRAY(arena, uint8_t, prog->n_nodes);
    mark_outputs(prog, mark);
    for (dlk_ref i = 0; i < prog->n_nodes; i++)
        c.ref[i] = mark[i] ? copy_node(&c, &prog->nodes[i]) : DLK_NONE;
    c.to->n_vars = prog->n_vars;
    c.to->n_inputs = prog->n_inputs;
    memcpy(c.to->input_dtype, prog->input_dtype, sizeof prog->input_dtype);
    c.to->n_outputs = prog->n_outputs;
    for (int i = 0; i < prog->n_outputs; i++) {
        c.to->outputs[i] = prog->outputs[i];
        for (int part = 0; part < 2; part++)
            c.to->outputs[i].part[part] = copied(&c, prog->outputs[i].part[part]);
    }
    return c.to;
}

void dlk_prog_print(const dlk_prog *prog, dlk_buffer *out)
{
    dlk_buffer_printf(out, "program: %d inputs, %d outputs\n", prog->n_inputs, prog->n_outputs);
    for (dlk_ref i = 0; i < prog->n_nodes; i++)
        print_node(prog, i, out);
    for (int i = 0; i < prog->n_reduces; i++)
        print_reduction(prog, i, out);
    for (int i = 0; i < prog->n_outputs; i++) {
        const dlk_prog_output *output = &prog->outputs[i];
        dlk_buffer_printf(out, "  output %d: %s, %s, %%%d", i, dlk_dtypes[output->dtype].name,
                          scope_names[output->scope], (int)output->part[0]);
        if (output->part[1] != DLK_NONE)
            dlk_buffer_printf(out, " %%%d", (int)output->part[1]);
        dlk_buffer_puts(out, "\n");
    }
}
