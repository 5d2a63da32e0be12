/* Making IR: functions, regions, and builders that fold what is known already, keeping every bit. */
#include "codegen/ir.h"

#include <string.h>

#include "codegen/interpret.h"

static dlk_block *block_create(dlk_func *func, dlk_block *outer)
{
    dlk_block *block = DLK_NEW(func->arena, dlk_block);
    block->outer = outer;
    return block;
}

static dlk_val node_create(dlk_func *func, dlk_ir_op op, dlk_type type)
{
    dlk_node *node = DLK_PUSH(func->arena, func->nodes, func->n_nodes, func->cap_nodes);
    *node = (dlk_node){.op = (uint8_t)op,
                       .type = type,
                       .align = 1,
                       .a = DLK_NONE,
                       .b = DLK_NONE,
                       .c = DLK_NONE,
                       .d = DLK_NONE,
                       .count = DLK_NONE};
    return func->n_nodes - 1;
}

static void block_append(dlk_func *func, dlk_block *block, dlk_val value)
{
    *DLK_PUSH(func->arena, block->nodes, block->n, block->cap) = value;
}

static dlk_val append(dlk_func *func, dlk_ir_op op, dlk_type type)
{
    const dlk_val value = node_create(func, op, type);
    block_append(func, func->at, value);
    return value;
}

static dlk_type type_of(const dlk_func *func, dlk_val value)
{
    return func->nodes[value].type;
}

static dlk_type scalar(dlk_kind kind)
{
    return (dlk_type){(uint8_t)kind, 1};
}

/* ---- Functions ---- */

dlk_func *dlk_func_create(dlk_arena *arena, const dlk_target *target)
{
    dlk_func *func = DLK_NEW(arena, dlk_func);
    func->arena = arena;
    func->target = target;
    func->threads = func->subgroup = 1;
    func->body = func->at = block_create(func, NULL);
    return func;
}

int dlk_func_buffer(dlk_func *func, dlk_buffer_role role, bool written)
{
    int n = 0;
    for (; n < func->n_buffers && func->buffers[n].space == DLK_SPACE_GLOBAL; n++)
        if (!memcmp(&func->buffers[n].role, &role, sizeof role)) {
            func->buffers[n].written |= written;
            return n;
        }
    if (n < func->n_buffers) /* numbers of local buffers are in use already: global ones come first by contract */
        return -1;
    dlk_ir_buffer *buffer = DLK_PUSH(func->arena, func->buffers, func->n_buffers, func->cap_buffers);
    *buffer = (dlk_ir_buffer){.space = DLK_SPACE_GLOBAL, .role = role, .written = written};
    return func->n_buffers - 1;
}

int dlk_func_local(dlk_func *func, dlk_space space, dlk_kind kind, int64_t count)
{
    dlk_ir_buffer *buffer = DLK_PUSH(func->arena, func->buffers, func->n_buffers, func->cap_buffers);
    *buffer = (dlk_ir_buffer){.space = (uint8_t)space, .kind = (uint8_t)kind, .count = count, .written = true};
    return func->n_buffers - 1;
}

static bool same_uniform(dlk_uniform a, dlk_uniform b)
{
    return a.role == b.role && a.kind == b.kind && a.axis == b.axis && a.index == b.index &&
           a.buffer.kind == b.buffer.kind && a.buffer.index == b.buffer.index;
}

static int uniform_index(dlk_func *func, dlk_uniform uniform)
{
    for (int k = 0; k < func->n_uniforms; k++)
        if (same_uniform(func->uniforms[k], uniform))
            return k;
    *DLK_PUSH(func->arena, func->uniforms, func->n_uniforms, func->cap_uniforms) = uniform;
    return func->n_uniforms - 1;
}

/* Uniforms stand at the start of the body, so that one node serves every region. */
dlk_val dlk_func_uniform(dlk_func *func, dlk_uniform uniform)
{
    const int index = uniform_index(func, uniform);
    dlk_block *body = func->body;
    int at = 0;
    for (; at < body->n && func->nodes[body->nodes[at]].op == DLK_IR_UNIFORM; at++)
        if (func->nodes[body->nodes[at]].imm == index)
            return body->nodes[at];
    const dlk_val value = node_create(func, DLK_IR_UNIFORM, scalar((dlk_kind)uniform.kind));
    func->nodes[value].imm = index;
    block_append(func, body, value);
    memmove(&body->nodes[at + 1], &body->nodes[at], sizeof(dlk_val) * (size_t)(body->n - 1 - at));
    body->nodes[at] = value;
    return value;
}

int dlk_func_table(dlk_func *func, dlk_kind kind, const uint64_t *bits, int count)
{
    for (int k = 0; k < func->n_tables; k++)
        if (func->tables[k].kind == kind && func->tables[k].count == count &&
            !memcmp(func->tables[k].bits, bits, sizeof *bits * (size_t)count))
            return k;
    dlk_table *table = DLK_PUSH(func->arena, func->tables, func->n_tables, func->cap_tables);
    *table = (dlk_table){(uint8_t)kind, count, dlk_arena_copy(func->arena, bits, sizeof *bits * (size_t)count)};
    return func->n_tables - 1;
}

/* ---- Leaves ---- */

static uint64_t kind_mask(dlk_kind kind)
{
    return dlk_kind_bits(kind) == 64 ? ~0ull : (1ull << dlk_kind_bits(kind)) - 1;
}

dlk_val dlk_ir_const(dlk_func *func, dlk_type type, uint64_t bits)
{
    const dlk_val value = append(func, DLK_IR_CONST, type);
    func->nodes[value].imm = (int64_t)(bits & kind_mask((dlk_kind)type.kind));
    return value;
}

dlk_val dlk_ir_i64(dlk_func *func, int64_t value)
{
    return dlk_ir_const(func, scalar(DLK_I64), (uint64_t)value);
}

dlk_val dlk_ir_item(dlk_func *func, int dim)
{
    const dlk_val value = append(func, DLK_IR_ITEM, scalar(DLK_I64));
    func->nodes[value].imm = dim;
    return value;
}

dlk_val dlk_ir_thread(dlk_func *func)
{
    return append(func, DLK_IR_THREAD, scalar(DLK_I64));
}

dlk_val dlk_ir_iota(dlk_func *func, dlk_type type)
{
    if (type.lanes == 1)
        return dlk_ir_const(func, type, 0);
    return append(func, DLK_IR_IOTA, type);
}

/* ---- Primitives ---- */

static bool is_const(const dlk_func *func, dlk_val value)
{
    return value != DLK_NONE && func->nodes[value].op == DLK_IR_CONST;
}
static bool is_const_bits(const dlk_func *func, dlk_val value, uint64_t bits)
{
    return is_const(func, value) && (uint64_t)func->nodes[value].imm == bits;
}
static uint64_t const_bits(const dlk_func *func, dlk_val value)
{
    return value == DLK_NONE ? 0 : (uint64_t)func->nodes[value].imm;
}

/* Integer and predicate identities, which keep every bit; DLK_NONE where there is none. */
static dlk_val simplify(const dlk_func *func, dlk_prim prim, dlk_val a, dlk_val b, dlk_val c)
{
    const uint64_t ones = kind_mask((dlk_kind)type_of(func, a).kind);
    switch (prim) {
    case DLK_PRIM_ADD:
        return is_const_bits(func, b, 0) ? a : is_const_bits(func, a, 0) ? b : DLK_NONE;
    case DLK_PRIM_SUB:
    case DLK_PRIM_SHL:
    case DLK_PRIM_LSHR:
    case DLK_PRIM_ASHR:
        return is_const_bits(func, b, 0) ? a : DLK_NONE;
    case DLK_PRIM_MUL:
        return is_const_bits(func, b, 1) || is_const_bits(func, a, 0)   ? a
               : is_const_bits(func, a, 1) || is_const_bits(func, b, 0) ? b
                                                                        : DLK_NONE;
    case DLK_PRIM_AND:
        return a == b || is_const_bits(func, b, ones) || is_const_bits(func, a, 0) ? a
               : is_const_bits(func, a, ones) || is_const_bits(func, b, 0)         ? b
                                                                                   : DLK_NONE;
    case DLK_PRIM_OR:
        return a == b || is_const_bits(func, b, 0) || is_const_bits(func, a, ones) ? a
               : is_const_bits(func, a, 0) || is_const_bits(func, b, ones)         ? b
                                                                                   : DLK_NONE;
    case DLK_PRIM_SELECT:
        if (b == c)
            return b;
        return is_const(func, a) ? (func->nodes[a].imm & 1 ? b : c) : DLK_NONE;
    default:
        return DLK_NONE;
    }
}

static dlk_val make_prim(dlk_func *func, dlk_prim prim, dlk_type type, dlk_val a, dlk_val b, dlk_val c)
{
    const dlk_val operand = prim == DLK_PRIM_SELECT ? b : a;
    if (is_const(func, a) && (b == DLK_NONE || is_const(func, b)) && (c == DLK_NONE || is_const(func, c)))
        return dlk_ir_const(func, type,
                            dlk_prim_eval(prim, (dlk_kind)type_of(func, operand).kind, (dlk_kind)type.kind,
                                          const_bits(func, a), const_bits(func, b), const_bits(func, c),
                                          func->target->fast_fma));
    const dlk_val simpler = simplify(func, prim, a, b, c);
    if (simpler != DLK_NONE)
        return simpler;
    const dlk_val value = append(func, DLK_IR_PRIM, type);
    dlk_node *node = &func->nodes[value];
    node->prim = (uint8_t)prim;
    node->a = a;
    node->b = b;
    node->c = c;
    return value;
}

dlk_val dlk_ir_prim(dlk_func *func, dlk_prim prim, dlk_val a, dlk_val b, dlk_val c)
{
    dlk_type type = type_of(func, prim == DLK_PRIM_SELECT ? b : a);
    if (dlk_prims[prim].result == 'P')
        type.kind = DLK_P1;
    return make_prim(func, prim, type, a, b, c);
}

dlk_val dlk_ir_convert(dlk_func *func, dlk_prim prim, dlk_kind kind, dlk_val a)
{
    const dlk_type from = type_of(func, a);
    if (from.kind == kind &&
        (prim == DLK_PRIM_BITCAST || prim == DLK_PRIM_SEXT || prim == DLK_PRIM_ZEXT || prim == DLK_PRIM_ITRUNC))
        return a;
    return make_prim(func, prim, (dlk_type){(uint8_t)kind, from.lanes}, a, DLK_NONE, DLK_NONE);
}

dlk_val dlk_ir_splat(dlk_func *func, dlk_val a, int lanes)
{
    const dlk_type from = type_of(func, a);
    const dlk_type type = {from.kind, (uint8_t)lanes};
    if (from.lanes == lanes)
        return a;
    if (is_const(func, a))
        return dlk_ir_const(func, type, const_bits(func, a));
    const dlk_val value = append(func, DLK_IR_SPLAT, type);
    func->nodes[value].a = a;
    return value;
}

static bool is_identity_perm(const int8_t *perm, int lanes, int from)
{
    if (lanes != from)
        return false;
    for (int k = 0; k < lanes; k++)
        if (perm[k] != k)
            return false;
    return true;
}

dlk_val dlk_ir_perm(dlk_func *func, dlk_val a, dlk_val b, const int8_t *perm, int lanes)
{
    const dlk_type from = type_of(func, a);
    const dlk_type type = {from.kind, (uint8_t)lanes};
    if (is_identity_perm(perm, lanes, from.lanes))
        return a;
    if (is_const(func, a) && b == DLK_NONE)
        return dlk_ir_const(func, type, const_bits(func, a));
    if (func->nodes[a].op == DLK_IR_SPLAT && b == DLK_NONE)
        return dlk_ir_splat(func, func->nodes[a].a, lanes);
    const dlk_val value = append(func, DLK_IR_PERM, type);
    int8_t *copy = dlk_arena_copy(func->arena, perm, (size_t)lanes);
    func->nodes[value].a = a;
    func->nodes[value].b = b;
    func->nodes[value].perm = copy;
    return value;
}

dlk_val dlk_ir_extract(dlk_func *func, dlk_val a, int lane)
{
    const int8_t index = (int8_t)lane;
    return dlk_ir_perm(func, a, DLK_NONE, &index, 1);
}

dlk_val dlk_ir_any(dlk_func *func, dlk_val a)
{
    if (type_of(func, a).lanes == 1)
        return a;
    if (is_const(func, a))
        return dlk_ir_const(func, scalar(DLK_P1), const_bits(func, a));
    if (func->nodes[a].op == DLK_IR_SPLAT)
        return func->nodes[a].a;
    const dlk_val value = append(func, DLK_IR_ANY, scalar(DLK_P1));
    func->nodes[value].a = a;
    return value;
}

dlk_val dlk_ir_shfl_xor(dlk_func *func, dlk_val a, int mask)
{
    const dlk_val value = append(func, DLK_IR_SHFL_XOR, type_of(func, a));
    func->nodes[value].a = a;
    func->nodes[value].imm = mask;
    return value;
}

dlk_val dlk_ir_table(dlk_func *func, int table, dlk_val index)
{
    const dlk_type type = {func->tables[table].kind, type_of(func, index).lanes};
    const dlk_val value = append(func, DLK_IR_TABLE, type);
    func->nodes[value].imm = table;
    func->nodes[value].a = index;
    return value;
}

void dlk_ir_barrier(dlk_func *func)
{
    append(func, DLK_IR_BARRIER, scalar(DLK_P1));
}

/* ---- Memory ---- */

static void place(dlk_func *func, dlk_val value, dlk_mem mem)
{
    dlk_node *node = &func->nodes[value];
    node->imm = mem.buffer;
    node->a = mem.offset;
    node->step = (uint8_t)mem.step;
    node->b = mem.step == DLK_STEP_UNIFORM || mem.step == DLK_STEP_GATHER ? mem.stride : DLK_NONE;
    node->count = mem.count;
    node->align = (uint8_t)(mem.align ? mem.align : dlk_kind_bytes((dlk_kind)node->type.kind));
    node->nontemporal = mem.nontemporal;
}

dlk_val dlk_ir_load(dlk_func *func, dlk_type type, dlk_mem mem)
{
    const dlk_val value = append(func, DLK_IR_LOAD, type);
    place(func, value, mem);
    return value;
}

void dlk_ir_store(dlk_func *func, dlk_val stored, dlk_mem mem)
{
    const dlk_val value = append(func, DLK_IR_STORE, type_of(func, stored));
    place(func, value, mem);
    func->nodes[value].d = stored;
}

/* ---- Control ---- */

static void add_param(dlk_func *func, dlk_block *block, dlk_type type)
{
    const dlk_val value = node_create(func, DLK_IR_PARAM, type);
    func->nodes[value].imm = block->n_params;
    block->params[block->n_params++] = value;
}

static dlk_val open_region(dlk_func *func, dlk_ir_op op)
{
    const dlk_val value = append(func, op, scalar(DLK_P1));
    func->at = func->nodes[value].body = block_create(func, func->at);
    return value;
}

dlk_val dlk_ir_loop_begin(dlk_func *func, dlk_val lo, dlk_val hi, dlk_val step, const dlk_val *carried, int n)
{
    const dlk_val loop = open_region(func, DLK_IR_LOOP);
    dlk_node *node = &func->nodes[loop];
    dlk_block *body = node->body;
    node->a = lo;
    node->b = hi;
    node->c = step;
    node->inits = n ? dlk_arena_copy(func->arena, carried, sizeof *carried * (size_t)n) : NULL;
    node->n_inits = n;
    body->params = DLK_NEW_ARRAY(func->arena, dlk_val, n + 1);
    add_param(func, body, scalar(DLK_I64));
    for (int k = 0; k < n; k++)
        add_param(func, body, type_of(func, carried[k]));
    return loop;
}

dlk_val dlk_ir_loop_index(const dlk_func *func, dlk_val loop)
{
    return func->nodes[loop].body->params[0];
}

dlk_val dlk_ir_loop_carried(const dlk_func *func, dlk_val loop, int k)
{
    return func->nodes[loop].body->params[k + 1];
}

static void set_yields(dlk_func *func, dlk_block *block, const dlk_val *values, int n, dlk_val last)
{
    block->yields = DLK_NEW_ARRAY(func->arena, dlk_val, n + 1);
    block->n_yields = n;
    if (n)
        memcpy(block->yields, values, sizeof *values * (size_t)n);
    if (last != DLK_NONE)
        block->yields[block->n_yields++] = last;
}

void dlk_ir_loop_end(dlk_func *func, dlk_val loop, const dlk_val *next, dlk_val until)
{
    dlk_node *node = &func->nodes[loop];
    node->has_until = until != DLK_NONE;
    set_yields(func, node->body, next, node->n_inits, until);
    func->at = node->body->outer;
}

dlk_val dlk_ir_if_begin(dlk_func *func, dlk_val condition, bool rare)
{
    const dlk_val branch = open_region(func, DLK_IR_IF);
    func->nodes[branch].a = condition;
    func->nodes[branch].imm = rare;
    return branch;
}

void dlk_ir_if_else(dlk_func *func, dlk_val branch, const dlk_val *yields, int n)
{
    dlk_node *node = &func->nodes[branch];
    set_yields(func, node->body, yields, n, DLK_NONE);
    func->at = node->other = block_create(func, node->body->outer);
}

void dlk_ir_if_end(dlk_func *func, dlk_val branch, const dlk_val *yields)
{
    const dlk_node *node = &func->nodes[branch];
    set_yields(func, node->other, yields, node->body->n_yields, DLK_NONE);
    func->at = node->other->outer;
}

dlk_val dlk_ir_result(dlk_func *func, dlk_val owner, int k)
{
    const dlk_node *node = &func->nodes[owner];
    const dlk_type type =
        node->op == DLK_IR_LOOP ? type_of(func, node->inits[k]) : type_of(func, node->body->yields[k]);
    const dlk_val value = append(func, DLK_IR_RESULT, type);
    func->nodes[value].a = owner;
    func->nodes[value].imm = k;
    return value;
}
