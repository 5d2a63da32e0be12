/* Maps: rows are a loop, columns are lanes. Row kernels end with the same columns. */
#include "codegen/schedule_cpu.h"

/* In a program without reductions every output has the full shape. */
bool dlk_cpu_is_mapped(const dlk_cpu *cpu, int k)
{
    return cpu->prog->n_reduces == 0 || cpu->prog->outputs[k].scope == DLK_SCOPE_ELEMENT;
}

/* Calls `visit` for every word of every mapped output. */
static void each_word(dlk_cpu *cpu, void (*visit)(dlk_walk *walk, dlk_ref word))
{
    for (int k = 0; k < cpu->prog->n_outputs; k++)
        for (int part = 0; part < cpu->slot[cpu->first_output + k].parts && dlk_cpu_is_mapped(cpu, k); part++)
            visit(cpu->walk, cpu->prog->outputs[k].part[part]);
}

static void evaluate(dlk_walk *walk, dlk_ref word)
{
    dlk_walk_value(walk, word);
}

void dlk_cpu_hoist_outputs(dlk_cpu *cpu)
{
    each_word(cpu, dlk_walk_hoist);
}

dlk_cost dlk_cpu_map_cost(dlk_cpu *cpu)
{
    const dlk_prog *prog = cpu->prog;
    bool *in = DLK_NEW_ARRAY(cpu->func->arena, bool, prog->n_nodes);
    for (int k = 0; k < prog->n_outputs; k++)
        for (int part = 0; part < cpu->slot[cpu->first_output + k].parts && dlk_cpu_is_mapped(cpu, k); part++)
            in[prog->outputs[k].part[part]] = true;
    dlk_walk_close(prog, in, true);
    return dlk_cpu_cost(cpu, in);
}

/* All are computed before the first is stored, as an output may lie exactly on an input. */
void dlk_cpu_store_mapped(dlk_cpu *cpu, int use, int streamed, int alignment)
{
    dlk_cpu_recall(cpu, use);
    each_word(cpu, evaluate);
    for (int k = 0; k < cpu->prog->n_outputs; k++)
        if (dlk_cpu_is_mapped(cpu, k))
            dlk_cpu_store_output(cpu, k, k == streamed ? alignment : 0);
}

/* ---- Columns ------------------------------------------------------------------------------------------------------ */

typedef struct columns {
    dlk_cpu *cpu;
    const dlk_place *row;
    int axis, lanes, use;
    int streamed;  /* the output whose stores go past the cache; -1: none */
    int alignment; /* bytes that these are a multiple of */
} columns;

/* One vector of every output from column `at` on. */
static void vector(const columns *c, dlk_val at, dlk_val count, dlk_val full, bool is_aligned)
{
    dlk_cpu *cpu = c->cpu;
    dlk_place place = dlk_cpu_enter_lanes(cpu, c->row, c->axis, at, c->lanes, count);
    place.full = full;
    const dlk_place *before = dlk_cpu_push(cpu, &place);
    dlk_cpu_store_mapped(cpu, c->use, is_aligned ? c->streamed : -1, c->alignment);
    dlk_cpu_pop(cpu, before);
}

static void partial_vector(const columns *c, dlk_val at, dlk_val count)
{
    dlk_func *func = c->cpu->func;
    const dlk_val branch = dlk_ir_if_begin(func, dlk_emit_slt(func, dlk_ir_i64(func, 0), count), false);
    vector(c, at, count, DLK_NONE, false);
    dlk_ir_if_else(func, branch, NULL, 0);
    dlk_ir_if_end(func, branch, NULL);
}

/* Whole vectors from lo on, then what is left. */
static void whole_and_rest(const columns *c, dlk_range range)
{
    dlk_func *func = c->cpu->func;
    const dlk_val left = dlk_emit_sub(func, range.hi, range.lo);
    const dlk_val whole = dlk_ir_prim(func, DLK_PRIM_AND, left, dlk_ir_i64(func, -(int64_t)c->lanes), DLK_NONE);
    const dlk_val end = dlk_emit_add(func, range.lo, whole);
    const dlk_val loop = dlk_cpu_loop(c->cpu, range.lo, end, c->lanes);
    vector(c, dlk_ir_loop_index(func, loop), DLK_NONE, DLK_NONE, true);
    dlk_cpu_loop_end(c->cpu, loop);
    partial_vector(c, end, dlk_emit_sub(func, range.hi, end));
}

/* Elements before the first aligned address of the streamed output. */
static dlk_val head_count(const columns *c, dlk_range range)
{
    dlk_cpu *cpu = c->cpu;
    dlk_func *func = cpu->func;
    const dlk_slot *slot = &cpu->slot[cpu->first_output + c->streamed];
    const dlk_place first = dlk_cpu_enter(cpu, c->row, c->axis, range.lo);
    const dlk_val base =
        dlk_func_uniform(func, (dlk_uniform){.role = DLK_UNIFORM_ADDRESS, .kind = DLK_I64, .buffer = slot->role});
    const dlk_val address = dlk_emit_add(func, base, first.offset[cpu->first_output + c->streamed]);
    const dlk_val before = dlk_ir_prim(func, DLK_PRIM_AND, dlk_emit_sub(func, dlk_ir_i64(func, 0), address),
                                       dlk_ir_i64(func, c->alignment - 1), DLK_NONE);
    const dlk_val elements =
        dlk_ir_prim(func, DLK_PRIM_UDIV, before, dlk_ir_i64(func, dlk_kind_bytes(slot->kind)), DLK_NONE);
    return dlk_emit_smin(func, elements, dlk_emit_sub(func, range.hi, range.lo));
}

/* The first output whose stores can be whole aligned vectors. */
static void choose_streamed(columns *c)
{
    const dlk_cpu *cpu = c->cpu;
    c->streamed = -1;
    for (int k = cpu->prog->n_outputs - 1; k >= 0; k--) {
        const dlk_slot *slot = &cpu->slot[cpu->first_output + k];
        const int bytes = dlk_kind_bytes(slot->kind);
        if (!dlk_cpu_is_mapped(cpu, k) || slot->parts != 1 || slot->stride[c->axis] != DLK_STRIDE_UNIT ||
            slot->align != bytes)
            continue;
        if (c->lanes * bytes < 16)
            continue;
        c->streamed = k;
        c->alignment = cpu->target->vector_bytes < c->lanes * bytes ? cpu->target->vector_bytes : c->lanes * bytes;
    }
}

/* Long formulas: one copy of the code, with branches around its accesses for the last vector. */
static void one_body(const columns *c, dlk_range range)
{
    dlk_func *func = c->cpu->func;
    const dlk_val loop = dlk_cpu_loop(c->cpu, range.lo, range.hi, c->lanes);
    const dlk_val at = dlk_ir_loop_index(func, loop);
    const dlk_val left = dlk_emit_sub(func, range.hi, at);
    vector(c, at, left, dlk_ir_prim(func, DLK_PRIM_SLE, dlk_ir_i64(func, c->lanes), left, DLK_NONE), false);
    dlk_cpu_loop_end(c->cpu, loop);
}

void dlk_cpu_map_columns(dlk_cpu *cpu, const dlk_place *row, int axis, dlk_range range, int use, bool nontemporal)
{
    dlk_func *func = cpu->func;
    const dlk_cost cost = dlk_cpu_map_cost(cpu);
    columns c = {cpu, row, axis, dlk_cpu_lanes(cpu, cost), use, -1, 0};
    if (nontemporal)
        choose_streamed(&c);
    if (c.streamed < 0 && cost.weight > DLK_CPU_HEAVY) {
        one_body(&c, range);
        return;
    }
    if (c.streamed >= 0) {
        const dlk_val head = head_count(&c, range);
        partial_vector(&c, range.lo, head);
        range.lo = dlk_emit_add(func, range.lo, head);
    }
    whole_and_rest(&c, range);
}

/* ---- Rows --------------------------------------------------------------------------------------------------------- */

dlk_status dlk_cpu_map(dlk_cpu *cpu)
{
    const int axis = cpu->nest->lane_axis, outer = 1 - axis;
    const dlk_place start = dlk_cpu_start(cpu);
    cpu->place = &start;
    cpu->func->tiling.multiple[outer] = 1;
    cpu->func->tiling.multiple[axis] = DLK_LANES_MAX;
    dlk_cpu_hoist_outputs(cpu);
    const dlk_range rows = dlk_cpu_tile(cpu, outer), range = dlk_cpu_tile(cpu, axis);
    const dlk_val loop = dlk_cpu_loop(cpu, rows.lo, rows.hi, 1);
    const dlk_place row = dlk_cpu_enter(cpu, cpu->place, outer, dlk_ir_loop_index(cpu->func, loop));
    const dlk_place *before = dlk_cpu_push(cpu, &row);
    dlk_cpu_hoist_outputs(cpu);
    dlk_cpu_map_columns(cpu, &row, axis, range, -1, cpu->nest->is_nontemporal);
    dlk_cpu_pop(cpu, before);
    dlk_cpu_loop_end(cpu, loop);
    return DLK_OK;
}
