/* The walk from the scalar program to IR values. It knows nothing of axes, memory or machines: those are the schedule's,
 * behind dlk_source. */
#include "codegen/walk.h"

#include <string.h>

struct dlk_region {
    dlk_region *outer;
    int lanes;
    dlk_val *value; /* by node: the IR value + 1, or 0 */
    dlk_ref *set;   /* the nodes that have one */
    int n_set, cap_set;
};

/* ---- The program's shape ----------------------------------------------------------------------------------------- */

static int operand_count(const dlk_pnode *node)
{
    if (node->op == DLK_PROG_PRIM)
        return dlk_prims[node->prim].arity;
    return node->op == DLK_PROG_TABLE || node->op == DLK_PROG_RARE || node->op == DLK_PROG_PROJ;
}

static dlk_ref operand(const dlk_pnode *node, int i)
{
    return i == 0 ? node->a : i == 1 ? node->b : node->c;
}

static int list_length(const dlk_pnode *node)
{
    return node->op == DLK_PROG_RARE ? 2 * node->n : node->op == DLK_PROG_REPEAT ? 3 * node->n + 1 : 0;
}

/* The part of the list that is evaluated wherever the node is: not the rare arm, not the body of a loop. */
static void certain_part(const dlk_pnode *node, int *first, int *end)
{
    *first = node->op == DLK_PROG_RARE ? node->n : 0;
    *end = node->op == DLK_PROG_RARE ? 2 * node->n : node->op == DLK_PROG_REPEAT ? node->n : 0;
}

static void mark_certain(const dlk_pnode *node, bool *in)
{
    for (int k = 0, n = operand_count(node); k < n; k++)
        in[operand(node, k)] = true;
    int first, end;
    certain_part(node, &first, &end);
    for (int k = first; k < end; k++)
        in[node->list[k]] = true;
}

/* Sets of nodes come from a stack: an arm or a loop inside needs its own. All are empty between uses. Programs are
 * walked by index, operands first, and never by recursion over operands: they may be thousands of nodes deep. */
static bool *marks_take(dlk_walk *walk)
{
    bool **marks = DLK_PUSH(walk->func->arena, walk->marks, walk->n_marks, walk->cap_marks);
    if (walk->n_marks > walk->made_marks) {
        *marks = DLK_NEW_ARRAY(walk->func->arena, bool, walk->prog->n_nodes);
        walk->made_marks = walk->n_marks;
    }
    return *marks;
}

static void marks_give(dlk_walk *walk, dlk_ref last)
{
    memset(walk->marks[--walk->n_marks], 0, (size_t)last + 1);
}

/* ---- Regions ------------------------------------------------------------------------------------------------------ */

static dlk_val find(const dlk_walk *walk, dlk_ref node)
{
    for (const dlk_region *r = walk->region; r; r = r->outer)
        if (r->value[node])
            return r->value[node] - 1;
    return DLK_NONE;
}

static dlk_val fail(dlk_walk *walk, dlk_ref node, const char *what)
{
    if (walk->status == DLK_OK)
        walk->status = dlk_fail(DLK_ERR_INTERNAL, "schedule: program node %d %s", (int)node, what);
    return dlk_ir_const(walk->func, (dlk_type){walk->prog->nodes[node].kind, 1}, 0);
}

/* ---- Values ------------------------------------------------------------------------------------------------------- */

static int lanes_of(const dlk_walk *walk, dlk_val value)
{
    return dlk_val_type(walk->func, value).lanes;
}

static void widen_alike(dlk_walk *walk, dlk_val *values, int n)
{
    int lanes = 1;
    for (int i = 0; i < n; i++)
        if (lanes_of(walk, values[i]) > lanes)
            lanes = lanes_of(walk, values[i]);
    for (int i = 0; i < n; i++)
        values[i] = dlk_walk_widen(walk, values[i], lanes);
}

static dlk_val walk_prim(dlk_walk *walk, const dlk_pnode *node)
{
    const dlk_prim_info *info = &dlk_prims[node->prim];
    dlk_val v[3] = {DLK_NONE, DLK_NONE, DLK_NONE};
    for (int i = 0; i < info->arity; i++)
        v[i] = dlk_walk_value(walk, operand(node, i));
    widen_alike(walk, v, info->arity);
    if (info->result == 'T')
        return dlk_ir_convert(walk->func, node->prim, node->kind, v[0]);
    return dlk_ir_prim(walk->func, node->prim, v[0], v[1], v[2]);
}

/* Reads all parts of an operand at once; the other part is remembered too. */
static dlk_val walk_leaf(dlk_walk *walk, dlk_ref ref, const dlk_pnode *node)
{
    dlk_val parts[2] = {DLK_NONE, DLK_NONE};
    if (!walk->source.reaches(walk->source.context, node))
        return fail(walk, ref, "is read where its position is not known");
    walk->source.read(walk->source.context, node, parts);
    if (node->op == DLK_PROG_INDEX)
        return parts[0];
    for (int part = 0; part < 2; part++) {
        const dlk_ref other = walk->input_part[node->imm][part];
        if (other != DLK_NONE && other != ref && parts[part] != DLK_NONE)
            dlk_walk_bind(walk, other, parts[part]);
    }
    return parts[node->part];
}

static dlk_val walk_scalar(dlk_walk *walk, const dlk_pnode *node)
{
    const dlk_uniform uniform = {
        .role = DLK_UNIFORM_SCALAR, .kind = node->kind, .axis = node->part, .index = (uint8_t)node->imm};
    return dlk_func_uniform(walk->func, uniform);
}

static dlk_val walk_table(dlk_walk *walk, const dlk_pnode *node)
{
    int *id = &walk->table[node->imm];
    const dlk_table *table = &walk->prog->tables[node->imm];
    if (*id < 0)
        *id = dlk_func_table(walk->func, table->kind, table->bits, table->count);
    return dlk_ir_table(walk->func, *id, dlk_walk_value(walk, node->a));
}

/* ---- RARE and REPEAT ---------------------------------------------------------------------------------------------- */

static dlk_val to_region(dlk_walk *walk, dlk_val value)
{
    return dlk_walk_widen(walk, value, walk->region->lanes);
}

/* One value of the rare arm: chosen lane by lane where lanes disagree about needing it. */
static dlk_val rare_value(dlk_walk *walk, dlk_ref ref, dlk_val p, dlk_val usual)
{
    dlk_val rare = dlk_walk_value(walk, ref);
    if (lanes_of(walk, p) == 1)
        return dlk_walk_widen(walk, rare, lanes_of(walk, usual));
    return dlk_emit_select(walk->func, p, to_region(walk, rare), to_region(walk, usual));
}

/* Gives the IF; the node's values are its results. */
static dlk_val walk_rare(dlk_walk *walk, const dlk_pnode *node)
{
    dlk_func *func = walk->func;
    const int n = node->n;
    dlk_val *usual = DLK_NEW_ARRAY(func->arena, dlk_val, n), *rare = DLK_NEW_ARRAY(func->arena, dlk_val, n);
    const dlk_val p = dlk_walk_value(walk, node->a);
    for (int k = 0; k < n; k++)
        usual[k] = dlk_walk_value(walk, node->list[n + k]);
    const dlk_val branch = dlk_ir_if_begin(func, lanes_of(walk, p) > 1 ? dlk_ir_any(func, p) : p, true);
    dlk_walk_push(walk, walk->region->lanes);
    for (int k = 0; k < n; k++)
        rare[k] = rare_value(walk, node->list[k], p, usual[k]);
    dlk_walk_pop(walk);
    dlk_ir_if_else(func, branch, rare, n);
    for (int k = 0; k < n; k++)
        usual[k] = dlk_walk_widen(walk, usual[k], lanes_of(walk, rare[k]));
    dlk_ir_if_end(func, branch, usual);
    return branch;
}

/* What the body of a REPEAT needs and no state changes is evaluated before the loop. */
static void evaluate_invariants(dlk_walk *walk, const dlk_pnode *repeat)
{
    bool *in = marks_take(walk);
    dlk_ref last = 0;
    for (int k = 2 * repeat->n; k <= 3 * repeat->n; k++) {
        in[repeat->list[k]] = true;
        last = repeat->list[k] > last ? repeat->list[k] : last;
    }
    for (dlk_ref i = last; i >= 0; i--)
        if (in[i] && walk->uses_var[i]) {
            in[i] = false;
            mark_certain(&walk->prog->nodes[i], in);
        }
    for (dlk_ref i = 0; i <= last; i++)
        if (in[i])
            dlk_walk_value(walk, i);
    marks_give(walk, last);
}

/* The next states: lanes that are done keep theirs. Gives true when no lane has anything left to do. */
static dlk_val repeat_body(dlk_walk *walk, const dlk_pnode *node, dlk_val *state)
{
    dlk_func *func = walk->func;
    const int n = node->n;
    for (int k = 0; k < n; k++)
        dlk_walk_bind(walk, node->list[n + k], state[k]);
    const dlk_val done = dlk_walk_vector(walk, node->list[3 * n]);
    for (int k = 0; k < n; k++)
        state[k] = dlk_emit_select(func, done, state[k], dlk_walk_vector(walk, node->list[2 * n + k]));
    const dlk_val busy = dlk_ir_prim(func, DLK_PRIM_NOT, done, DLK_NONE, DLK_NONE);
    return dlk_ir_prim(func, DLK_PRIM_NOT, lanes_of(walk, busy) > 1 ? dlk_ir_any(func, busy) : busy, DLK_NONE,
                       DLK_NONE);
}

/* Gives the LOOP; the node's values are its results. States have the region's lanes. */
static dlk_val walk_repeat(dlk_walk *walk, const dlk_pnode *node)
{
    dlk_func *func = walk->func;
    const int n = node->n;
    dlk_val *state = DLK_NEW_ARRAY(func->arena, dlk_val, n);
    for (int k = 0; k < n; k++)
        state[k] = dlk_walk_vector(walk, node->list[k]);
    evaluate_invariants(walk, node);
    const dlk_val loop =
        dlk_ir_loop_begin(func, dlk_ir_i64(func, 0), dlk_ir_i64(func, node->imm), dlk_ir_i64(func, 1), state, n);
    for (int k = 0; k < n; k++)
        state[k] = dlk_ir_loop_carried(func, loop, k);
    dlk_walk_push(walk, walk->region->lanes);
    const dlk_val until = repeat_body(walk, node, state);
    dlk_walk_pop(walk);
    dlk_ir_loop_end(func, loop, state, until);
    return loop;
}

/* ---- Evaluation --------------------------------------------------------------------------------------------------- */

static dlk_val evaluate(dlk_walk *walk, dlk_ref ref)
{
    const dlk_pnode *node = &walk->prog->nodes[ref];
    switch ((dlk_prog_op)node->op) {
    case DLK_PROG_CONST:
        return dlk_ir_const(walk->func, (dlk_type){node->kind, 1}, (uint64_t)node->imm);
    case DLK_PROG_INPUT:
    case DLK_PROG_INDEX:
        return walk_leaf(walk, ref, node);
    case DLK_PROG_SCALAR:
        return walk_scalar(walk, node);
    case DLK_PROG_COUNT:
        return dlk_emit_role(walk->func, DLK_UNIFORM_COUNT, 0);
    case DLK_PROG_PRIM:
        return walk_prim(walk, node);
    case DLK_PROG_TABLE:
        return walk_table(walk, node);
    case DLK_PROG_RARE:
        return walk_rare(walk, node);
    case DLK_PROG_REPEAT:
        return walk_repeat(walk, node);
    case DLK_PROG_PROJ:
        if (walk->prog->nodes[node->a].op == DLK_PROG_REDUCE)
            return fail(walk, ref, "uses a reduction before it is done");
        return dlk_ir_result(walk->func, dlk_walk_value(walk, node->a), (int)node->imm);
    case DLK_PROG_LEAF_COUNT:
        return fail(walk, ref, "counts a leaf that the schedule has not bound it for");
    case DLK_PROG_VAR:
        return fail(walk, ref, "is a formal without a value");
    case DLK_PROG_REDUCE:
        return fail(walk, ref, "is a reduction used without PROJ");
    }
    return fail(walk, ref, "has an unknown operation");
}

/* ---- Hoisting ----------------------------------------------------------------------------------------------------- */

static bool are_operands_reached(const dlk_walk *walk, const dlk_pnode *node)
{
    for (int i = 0, n = operand_count(node); i < n; i++)
        if (!walk->reached[operand(node, i)])
            return false;
    for (int i = 0, n = list_length(node); i < n; i++)
        if (!walk->reached[node->list[i]])
            return false;
    return true;
}

/* Whether the whole of `ref` can be evaluated here, its operands being judged. A VAR counts as reached: only what lies
 * inside its own REPEAT uses it, and that is evaluated with its REPEAT or not at all. */
static bool is_reached(const dlk_walk *walk, dlk_ref ref)
{
    const dlk_pnode *node = &walk->prog->nodes[ref];
    if (find(walk, ref) != DLK_NONE || node->op == DLK_PROG_VAR)
        return true;
    if (node->op == DLK_PROG_INPUT || node->op == DLK_PROG_INDEX)
        return walk->source.reaches(walk->source.context, node);
    return node->op != DLK_PROG_REDUCE && node->op != DLK_PROG_LEAF_COUNT && are_operands_reached(walk, node);
}

/* ---- Creation ----------------------------------------------------------------------------------------------------- */

static bool node_uses_var(const dlk_walk *walk, const dlk_pnode *node)
{
    bool uses = node->op == DLK_PROG_VAR;
    for (int i = 0, n = operand_count(node); i < n; i++)
        uses |= walk->uses_var[operand(node, i)];
    for (int i = 0, n = list_length(node); i < n; i++)
        uses |= walk->uses_var[node->list[i]];
    return uses;
}

static void index_nodes(dlk_walk *walk)
{
    const dlk_prog *prog = walk->prog;
    for (int i = 0; i < DLK_OPERANDS_MAX; i++)
        walk->input_part[i][0] = walk->input_part[i][1] = DLK_NONE;
    for (int i = 0; i < prog->n_tables; i++)
        walk->table[i] = -1;
    for (int i = 0; i < prog->n_nodes; i++) {
        const dlk_pnode *node = &prog->nodes[i];
        walk->uses_var[i] = node_uses_var(walk, node);
        if (node->op == DLK_PROG_INPUT)
            walk->input_part[node->imm][node->part] = i;
    }
}

dlk_walk *dlk_walk_create(dlk_func *func, const dlk_prog *prog, dlk_source source)
{
    dlk_arena *arena = func->arena;
    dlk_walk *walk = DLK_NEW(arena, dlk_walk);
    walk->func = func;
    walk->prog = prog;
    walk->source = source;
    walk->uses_var = DLK_NEW_ARRAY(arena, bool, prog->n_nodes);
    walk->reached = DLK_NEW_ARRAY(arena, bool, prog->n_nodes);
    walk->input_part = dlk_arena_alloc(arena, sizeof *walk->input_part * DLK_OPERANDS_MAX);
    walk->table = DLK_NEW_ARRAY(arena, int, prog->n_tables);
    walk->status = DLK_OK;
    index_nodes(walk);
    dlk_walk_push(walk, 1);
    return walk;
}

/* ---- What schedules call ------------------------------------------------------------------------------------------ */

void dlk_walk_push(dlk_walk *walk, int lanes)
{
    dlk_region *region = walk->spare;
    if (region) {
        walk->spare = region->outer;
    } else {
        region = DLK_NEW(walk->func->arena, dlk_region);
        region->value = DLK_NEW_ARRAY(walk->func->arena, dlk_val, walk->prog->n_nodes);
    }
    region->lanes = lanes;
    region->outer = walk->region;
    walk->region = region;
}

void dlk_walk_pop(dlk_walk *walk)
{
    dlk_region *region = walk->region;
    for (int i = 0; i < region->n_set; i++)
        region->value[region->set[i]] = 0;
    region->n_set = 0;
    walk->region = region->outer;
    region->outer = walk->spare;
    walk->spare = region;
}

int dlk_walk_lanes(const dlk_walk *walk)
{
    return walk->region->lanes;
}

void dlk_walk_bind(dlk_walk *walk, dlk_ref node, dlk_val value)
{
    dlk_region *region = walk->region;
    if (!region->value[node])
        *DLK_PUSH(walk->func->arena, region->set, region->n_set, region->cap_set) = node;
    region->value[node] = value + 1;
}

void dlk_walk_bind_reduce(dlk_walk *walk, int reduce, const dlk_val *parts)
{
    const dlk_prog *prog = walk->prog;
    for (int i = 0; i < prog->n_nodes; i++) {
        const dlk_pnode *node = &prog->nodes[i];
        if (node->op != DLK_PROG_PROJ || prog->nodes[node->a].op != DLK_PROG_REDUCE)
            continue;
        if (prog->nodes[node->a].imm == reduce)
            dlk_walk_bind(walk, i, parts[node->imm]);
    }
}

dlk_val dlk_walk_value(dlk_walk *walk, dlk_ref node)
{
    const dlk_val known = find(walk, node);
    if (known != DLK_NONE)
        return known;
    bool *in = marks_take(walk);
    in[node] = true;
    for (dlk_ref i = node; i >= 0; i--)
        if (in[i]) {
            in[i] = find(walk, i) == DLK_NONE;
            if (in[i])
                mark_certain(&walk->prog->nodes[i], in);
        }
    /* Reading one part of an operand gives the others too. */
    for (dlk_ref i = 0; i <= node; i++)
        if (in[i] && find(walk, i) == DLK_NONE)
            dlk_walk_bind(walk, i, evaluate(walk, i));
    marks_give(walk, node);
    return find(walk, node);
}

dlk_val dlk_walk_vector(dlk_walk *walk, dlk_ref node)
{
    return to_region(walk, dlk_walk_value(walk, node));
}

void dlk_walk_hoist(dlk_walk *walk, dlk_ref node)
{
    bool *in = marks_take(walk);
    for (dlk_ref i = 0; i <= node; i++)
        walk->reached[i] = is_reached(walk, i);
    in[node] = true;
    for (dlk_ref i = node; i >= 0; i--) {
        const dlk_pnode *at = &walk->prog->nodes[i];
        if (!in[i] || walk->reached[i])
            continue;
        in[i] = false;
        if (at->op != DLK_PROG_REDUCE && at->op != DLK_PROG_LEAF_COUNT)
            mark_certain(at, in);
    }
    for (dlk_ref i = 0; i <= node; i++)
        if (in[i])
            dlk_walk_value(walk, i);
    marks_give(walk, node);
}

dlk_val dlk_walk_widen(dlk_walk *walk, dlk_val value, int lanes)
{
    const dlk_node *node = &walk->func->nodes[value];
    if (node->type.lanes == lanes)
        return value;
    if (node->op == DLK_IR_CONST)
        return dlk_ir_const(walk->func, (dlk_type){node->type.kind, (uint8_t)lanes}, (uint64_t)node->imm);
    return dlk_ir_splat(walk->func, value, lanes);
}

void dlk_walk_close(const dlk_prog *prog, bool *in, bool usual)
{
    for (int i = prog->n_nodes - 1; i >= 0; i--) {
        const dlk_pnode *node = &prog->nodes[i];
        if (!in[i])
            continue;
        for (int k = 0, n = operand_count(node); k < n; k++)
            in[operand(node, k)] = true;
        const int first = usual && node->op == DLK_PROG_RARE ? node->n : 0;
        for (int k = first, n = list_length(node); k < n; k++)
            in[node->list[k]] = true;
    }
}

/* ---- Small helpers ------------------------------------------------------------------------------------------------ */

dlk_val dlk_emit_add(dlk_func *func, dlk_val a, dlk_val b)
{
    return dlk_ir_prim(func, DLK_PRIM_ADD, a, b, DLK_NONE);
}

dlk_val dlk_emit_sub(dlk_func *func, dlk_val a, dlk_val b)
{
    return dlk_ir_prim(func, DLK_PRIM_SUB, a, b, DLK_NONE);
}

dlk_val dlk_emit_mul(dlk_func *func, dlk_val a, dlk_val b)
{
    return dlk_ir_prim(func, DLK_PRIM_MUL, a, b, DLK_NONE);
}

dlk_val dlk_emit_add_const(dlk_func *func, dlk_val a, int64_t b)
{
    return b == 0 ? a : dlk_emit_add(func, a, dlk_ir_i64(func, b));
}

dlk_val dlk_emit_mul_const(dlk_func *func, dlk_val a, int64_t b)
{
    return b == 1 ? a : dlk_emit_mul(func, a, dlk_ir_i64(func, b));
}

dlk_val dlk_emit_smin(dlk_func *func, dlk_val a, dlk_val b)
{
    return dlk_ir_prim(func, DLK_PRIM_SMIN, a, b, DLK_NONE);
}

dlk_val dlk_emit_smax(dlk_func *func, dlk_val a, dlk_val b)
{
    return dlk_ir_prim(func, DLK_PRIM_SMAX, a, b, DLK_NONE);
}

dlk_val dlk_emit_slt(dlk_func *func, dlk_val a, dlk_val b)
{
    return dlk_ir_prim(func, DLK_PRIM_SLT, a, b, DLK_NONE);
}

dlk_val dlk_emit_select(dlk_func *func, dlk_val p, dlk_val a, dlk_val b)
{
    const int lanes = dlk_val_type(func, a).lanes;
    if (dlk_val_type(func, p).lanes != lanes)
        p = dlk_ir_splat(func, p, lanes);
    return dlk_ir_prim(func, DLK_PRIM_SELECT, p, a, b);
}

dlk_val dlk_emit_role(dlk_func *func, dlk_uniform_role role, int axis)
{
    return dlk_func_uniform(func, (dlk_uniform){.role = (uint8_t)role, .kind = DLK_I64, .axis = (uint8_t)axis});
}

dlk_val dlk_emit_stride(dlk_func *func, dlk_buffer_role buffer, int axis)
{
    return dlk_func_uniform(
        func, (dlk_uniform){.role = DLK_UNIFORM_STRIDE, .kind = DLK_I64, .axis = (uint8_t)axis, .buffer = buffer});
}
