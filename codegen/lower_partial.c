/* Accesses of only the first lanes, on a CPU without masked instructions for them: the lanes go one by one through a
 * private buffer, and the vector moves between that and a register whole. */
#include "codegen/rewrite.h"

static dlk_mem whole(int buffer)
{
    return (dlk_mem){
        .buffer = buffer, .offset = DLK_NONE, .step = DLK_STEP_UNIT, .stride = DLK_NONE, .count = DLK_NONE};
}

static dlk_val add(dlk_func *func, dlk_val a, dlk_val b)
{
    return dlk_ir_prim(func, DLK_PRIM_ADD, a, b, DLK_NONE);
}
static dlk_val multiply(dlk_func *func, dlk_val a, int64_t b)
{
    return dlk_ir_prim(func, DLK_PRIM_MUL, a, dlk_ir_i64(func, b), DLK_NONE);
}

static dlk_val load_one(dlk_func *func, dlk_kind kind, int buffer, dlk_val offset, int align)
{
    dlk_mem mem = whole(buffer);
    mem.offset = offset;
    mem.align = align;
    return dlk_ir_load(func, (dlk_type){(uint8_t)kind, 1}, mem);
}
static void store_one(dlk_func *func, dlk_val value, int buffer, dlk_val offset, int align)
{
    dlk_mem mem = whole(buffer);
    mem.offset = offset;
    mem.align = align;
    dlk_ir_store(func, value, mem);
}

/* Offsets of a gather, where a loop can index them; -1 for other steps. */
static int keep_offsets(dlk_rewrite *rewrite, const dlk_node *node)
{
    if (node->step != DLK_STEP_GATHER)
        return -1;
    dlk_func *func = rewrite->to;
    const int buffer = dlk_func_local(func, DLK_SPACE_PRIVATE, DLK_I64, node->type.lanes);
    dlk_mem mem = whole(buffer);
    mem.offset = dlk_ir_i64(func, 0);
    dlk_ir_store(func, rewrite->map[node->b], mem);
    return buffer;
}

/* The byte offset of lane `k`, a value. */
static dlk_val lane_offset(dlk_rewrite *rewrite, const dlk_node *node, dlk_val k, int offsets)
{
    dlk_func *func = rewrite->to;
    const int64_t bytes = dlk_kind_bytes((dlk_kind)node->type.kind);
    const dlk_val base = rewrite->map[node->a];
    switch ((dlk_step)node->step) {
    case DLK_STEP_UNIT:
        return add(func, base, multiply(func, k, bytes));
    case DLK_STEP_ZERO:
        return base;
    case DLK_STEP_REVERSE:
        return add(func, base, multiply(func, k, -bytes));
    case DLK_STEP_UNIFORM:
        return add(func, base, dlk_ir_prim(func, DLK_PRIM_MUL, k, rewrite->map[node->b], DLK_NONE));
    default: /* DLK_STEP_GATHER */
        return add(func, base, load_one(func, DLK_I64, offsets, multiply(func, k, 8), 8));
    }
}

static dlk_val begin_lanes(dlk_rewrite *rewrite, const dlk_node *node)
{
    dlk_func *func = rewrite->to;
    const dlk_val n =
        dlk_ir_prim(func, DLK_PRIM_SMIN, rewrite->map[node->count], dlk_ir_i64(func, node->type.lanes), DLK_NONE);
    return dlk_ir_loop_begin(func, dlk_ir_i64(func, 0), n, dlk_ir_i64(func, 1), NULL, 0);
}

static dlk_val lower_load(dlk_rewrite *rewrite, const dlk_node *node)
{
    dlk_func *func = rewrite->to;
    const dlk_kind kind = (dlk_kind)node->type.kind;
    const int bytes = dlk_kind_bytes(kind), buffer = dlk_func_local(func, DLK_SPACE_PRIVATE, kind, node->type.lanes);
    const int offsets = keep_offsets(rewrite, node);
    dlk_mem all = whole(buffer);
    all.offset = dlk_ir_i64(func, 0);
    dlk_ir_store(func, dlk_ir_const(func, node->type, 0), all);
    const dlk_val loop = begin_lanes(rewrite, node), k = dlk_ir_loop_index(func, loop);
    const dlk_val value = load_one(func, kind, (int)node->imm, lane_offset(rewrite, node, k, offsets), 1);
    store_one(func, value, buffer, multiply(func, k, bytes), bytes);
    dlk_ir_loop_end(func, loop, NULL, DLK_NONE);
    return dlk_ir_load(func, node->type, all);
}

static void lower_store(dlk_rewrite *rewrite, const dlk_node *node)
{
    dlk_func *func = rewrite->to;
    const dlk_kind kind = (dlk_kind)node->type.kind;
    const int bytes = dlk_kind_bytes(kind), buffer = dlk_func_local(func, DLK_SPACE_PRIVATE, kind, node->type.lanes);
    const int offsets = keep_offsets(rewrite, node);
    dlk_mem all = whole(buffer);
    all.offset = dlk_ir_i64(func, 0);
    dlk_ir_store(func, rewrite->map[node->d], all);
    const dlk_val loop = begin_lanes(rewrite, node), k = dlk_ir_loop_index(func, loop);
    const dlk_val value = load_one(func, kind, buffer, multiply(func, k, bytes), bytes);
    store_one(func, value, (int)node->imm, lane_offset(rewrite, node, k, offsets), 1);
    dlk_ir_loop_end(func, loop, NULL, DLK_NONE);
}

bool dlk_lower_partial(dlk_rewrite *rewrite, const dlk_node *node, dlk_val *out)
{
    if ((node->op != DLK_IR_LOAD && node->op != DLK_IR_STORE) || node->count == DLK_NONE)
        return false;
    const bool is_native = node->step == DLK_STEP_UNIT && node->type.lanes > 1 &&
                           rewrite->to->target->masked_bytes & dlk_kind_bytes((dlk_kind)node->type.kind);
    if (is_native)
        return false;
    if (node->op == DLK_IR_LOAD)
        *out = lower_load(rewrite, node);
    else
        lower_store(rewrite, node);
    return true;
}
