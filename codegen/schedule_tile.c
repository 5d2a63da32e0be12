/* Maps whose operands disagree about the fast axis. The nest is walked in blocks that fit the first cache; an operand that
 * is contiguous along the rows' axis is read along it and transposed in registers into a private block, from which
 * the columns are mapped like those of any other operand; outputs go the other way. */
#include "codegen/schedule_cpu.h"

#include <string.h>

#define COLUMNS       128 /* of a block: some cache lines of each row */
#define ROW_RUN_BYTES 256 /* of a block along the rows' axis: whole cache lines of what is transposed */
#define BLOCKS_MAX    8   /* private ones: beyond, operands are read as they lie */
#define SQUARE_MAX    16

typedef struct tiles {
    dlk_cpu *cpu;
    int lane, outer;                   /* axes */
    int rows;                          /* of a block */
    int square;                        /* side of what is transposed in registers */
    dlk_slot before[DLK_OPERANDS_MAX]; /* the slots of staged operands as they were */
    bool is_staged[DLK_OPERANDS_MAX];
    dlk_range row, column; /* of the block */
} tiles;

static bool is_crosswise(const dlk_cpu *cpu, const dlk_slot *slot)
{
    const int lane = cpu->nest->lane_axis;
    return slot->stride[lane] == DLK_STRIDE_ANY && slot->stride[1 - lane] == DLK_STRIDE_UNIT;
}

bool dlk_cpu_wants_tiles(const dlk_cpu *cpu)
{
    int n = 0;
    for (int i = 0; i < cpu->n_slots; i++)
        n += is_crosswise(cpu, &cpu->slot[i]);
    return n > 0 && n <= BLOCKS_MAX;
}

/* ---- Transposing -------------------------------------------------------------------------------------------------- */

/* Elements l of a and b by bit `s` of l: the halves that stay and the halves that change places. An element is `parts`
 * lanes. */
static void exchange(dlk_func *func, dlk_val *a, dlk_val *b, int n, int s, int parts)
{
    int8_t low[DLK_LANES_MAX], high[DLK_LANES_MAX];
    for (int i = 0; i < n * parts; i++) {
        const int l = i / parts, part = i % parts;
        low[i] = (int8_t)(l & s ? (n + l - s) * parts + part : i);
        high[i] = (int8_t)(l & s ? n * parts + i : (l + s) * parts + part);
    }
    const dlk_val first = dlk_ir_perm(func, *a, *b, low, n * parts);
    *b = dlk_ir_perm(func, *a, *b, high, n * parts);
    *a = first;
}

static void transpose(dlk_func *func, dlk_val *v, int n, int parts)
{
    for (int s = n / 2; s; s /= 2)
        for (int k = 0; k < n; k++)
            if (!(k & s))
                exchange(func, &v[k], &v[k + s], n, s, parts);
}

/* ---- Staging ------------------------------------------------------------------------------------------------------ */

/* A square of an operand: rows along its own unit axis in memory, columns along them in the private block. */
typedef struct square {
    const tiles *t;
    const dlk_slot *outside, *block;
    dlk_val row, column; /* first ones */
    dlk_val count;       /* rows that exist; NONE: all of the square */
} square;

/* Square's column k, along the rows' axis. */
static dlk_mem outside_mem(const square *q, int k)
{
    dlk_func *func = q->t->cpu->func;
    const int64_t bytes = (int64_t)dlk_kind_bytes(q->outside->kind) * q->outside->parts;
    const dlk_val last = dlk_emit_add_const(func, q->t->column.hi, -1);
    const dlk_val column = dlk_emit_smin(func, dlk_emit_add_const(func, q->column, k), last);
    const dlk_val stride = dlk_emit_stride(func, q->outside->role, q->t->lane);
    const dlk_val offset =
        dlk_emit_add(func, dlk_emit_mul(func, column, stride), dlk_emit_mul_const(func, q->row, bytes));
    const dlk_val count = q->count == DLK_NONE ? DLK_NONE : dlk_emit_mul_const(func, q->count, q->outside->parts);
    return (dlk_mem){.buffer = q->outside->buffer,
                     .offset = offset,
                     .step = DLK_STEP_UNIT,
                     .stride = DLK_NONE,
                     .count = count,
                     .align = q->outside->align};
}

/* Square's row k, along the columns. */
static dlk_mem block_mem(const square *q, int k)
{
    dlk_func *func = q->t->cpu->func;
    const int64_t bytes = (int64_t)dlk_kind_bytes(q->block->kind) * q->block->parts;
    const dlk_val row = dlk_emit_add_const(func, dlk_emit_sub(func, q->row, q->t->row.lo), k);
    const dlk_val column = dlk_emit_sub(func, q->column, q->t->column.lo);
    const dlk_val offset =
        dlk_emit_add(func, dlk_emit_mul_const(func, row, bytes * COLUMNS), dlk_emit_mul_const(func, column, bytes));
    return (dlk_mem){
        .buffer = q->block->buffer, .offset = offset, .step = DLK_STEP_UNIT, .stride = DLK_NONE, .count = DLK_NONE};
}

static void stage_in(const square *q)
{
    dlk_func *func = q->t->cpu->func;
    const int n = q->t->square, parts = q->outside->parts;
    const dlk_type type = {(uint8_t)q->outside->kind, (uint8_t)(n * parts)};
    dlk_val v[SQUARE_MAX];
    for (int k = 0; k < n; k++)
        v[k] = dlk_ir_load(func, type, outside_mem(q, k));
    transpose(func, v, n, parts);
    for (int k = 0; k < n; k++)
        dlk_ir_store(func, v[k], block_mem(q, k));
}

/* Columns that do not exist are not stored. */
static void stage_out(const square *q)
{
    dlk_func *func = q->t->cpu->func;
    const int n = q->t->square, parts = q->outside->parts;
    const dlk_type type = {(uint8_t)q->outside->kind, (uint8_t)(n * parts)};
    dlk_val v[SQUARE_MAX];
    for (int k = 0; k < n; k++)
        v[k] = dlk_ir_load(func, type, block_mem(q, k));
    transpose(func, v, n, parts);
    for (int k = 0; k < n; k++) {
        const dlk_val exists = dlk_emit_slt(func, dlk_emit_add_const(func, q->column, k), q->t->column.hi);
        const dlk_val branch = dlk_ir_if_begin(func, exists, false);
        dlk_ir_store(func, v[k], outside_mem(q, k));
        dlk_ir_if_else(func, branch, NULL, 0);
        dlk_ir_if_end(func, branch, NULL);
    }
}

/* All squares of the block, by whole ones where the rows last. */
static void stage(const tiles *t, int slot, void (*move)(const square *q))
{
    dlk_cpu *cpu = t->cpu;
    dlk_func *func = cpu->func;
    square q = {.t = t, .outside = &t->before[slot], .block = &cpu->slot[slot], .count = DLK_NONE};
    const dlk_val columns = dlk_cpu_loop(cpu, t->column.lo, t->column.hi, t->square);
    q.column = dlk_ir_loop_index(func, columns);
    const dlk_val rows = dlk_cpu_loop(cpu, t->row.lo, t->row.hi, t->square);
    q.row = dlk_ir_loop_index(func, rows);
    const dlk_val left = dlk_emit_sub(func, t->row.hi, q.row);
    const dlk_val full = dlk_ir_prim(func, DLK_PRIM_SLE, dlk_ir_i64(func, t->square), left, DLK_NONE);
    const dlk_val branch = dlk_ir_if_begin(func, full, false);
    move(&q);
    dlk_ir_if_else(func, branch, NULL, 0);
    q.count = left;
    move(&q);
    dlk_ir_if_end(func, branch, NULL);
    dlk_cpu_loop_end(cpu, rows);
    dlk_cpu_loop_end(cpu, columns);
}

/* ---- Blocks ------------------------------------------------------------------------------------------------------- */

/* While a block is mapped, a staged operand is its private block. */
static void redirect(tiles *t)
{
    dlk_cpu *cpu = t->cpu;
    for (int i = 0; i < cpu->n_slots; i++) {
        dlk_slot *slot = &cpu->slot[i];
        t->is_staged[i] = is_crosswise(cpu, slot);
        if (!t->is_staged[i])
            continue;
        t->before[i] = *slot;
        const int64_t words = (int64_t)t->rows * COLUMNS * slot->parts;
        slot->buffer = dlk_func_local(cpu->func, DLK_SPACE_PRIVATE, slot->kind, words);
        slot->align = dlk_kind_bytes(slot->kind);
        slot->bytes = words * dlk_kind_bytes(slot->kind);
        slot->stride[t->lane] = DLK_STRIDE_UNIT;
        slot->stride[t->outer] = DLK_STRIDE_ANY;
        slot->fixed[t->outer] = (int64_t)dlk_kind_bytes(slot->kind) * slot->parts * COLUMNS;
    }
}

/* The place of the block: offsets of staged operands count from its corner. */
static dlk_place block_place(const tiles *t, const dlk_place *start)
{
    dlk_cpu *cpu = t->cpu;
    dlk_func *func = cpu->func;
    dlk_place place = *start;
    place.offset = dlk_arena_copy(func->arena, start->offset, sizeof *place.offset * (size_t)cpu->n_slots);
    for (int i = 0; i < cpu->n_slots; i++) {
        if (!t->is_staged[i])
            continue;
        const int64_t row = cpu->slot[i].fixed[t->outer];
        const dlk_val corner = dlk_emit_add(func, dlk_emit_mul_const(func, t->row.lo, row),
                                            dlk_emit_mul_const(func, t->column.lo, row / COLUMNS));
        place.offset[i] = dlk_emit_sub(func, dlk_ir_i64(func, 0), corner);
    }
    return place;
}

static void map_block(const tiles *t)
{
    dlk_cpu *cpu = t->cpu;
    const dlk_place block = block_place(t, cpu->place);
    const dlk_val loop = dlk_cpu_loop(cpu, t->row.lo, t->row.hi, 1);
    const dlk_place row = dlk_cpu_enter(cpu, &block, t->outer, dlk_ir_loop_index(cpu->func, loop));
    const dlk_place *before = dlk_cpu_push(cpu, &row);
    dlk_cpu_hoist_outputs(cpu);
    dlk_cpu_map_columns(cpu, &row, t->lane, t->column, -1, cpu->nest->is_nontemporal);
    dlk_cpu_pop(cpu, before);
    dlk_cpu_loop_end(cpu, loop);
}

static void one_block(const tiles *t)
{
    for (int i = 0; i < t->cpu->first_output; i++)
        if (t->is_staged[i])
            stage(t, i, stage_in);
    map_block(t);
    for (int i = t->cpu->first_output; i < t->cpu->n_slots; i++)
        if (t->is_staged[i])
            stage(t, i, stage_out);
}

static dlk_range part_of(dlk_func *func, dlk_val lo, int64_t size, dlk_val end)
{
    return (dlk_range){lo, dlk_emit_smin(func, dlk_emit_add_const(func, lo, size), end)};
}

/* Squares as wide as a register, so that an exchange is one instruction or two. */
static void choose_sizes(tiles *t)
{
    const dlk_cpu *cpu = t->cpu;
    int widest = 1;
    for (int i = 0; i < cpu->n_slots; i++) {
        const int bytes = dlk_kind_bytes(cpu->slot[i].kind) * cpu->slot[i].parts;
        if (is_crosswise(cpu, &cpu->slot[i]) && bytes > widest)
            widest = bytes;
    }
    const int fit = cpu->target->vector_bytes / widest;
    t->square = fit < 4 ? 4 : fit > SQUARE_MAX ? SQUARE_MAX : fit;
    t->rows = ROW_RUN_BYTES / widest;
}

dlk_status dlk_cpu_map_tiles(dlk_cpu *cpu)
{
    dlk_func *func = cpu->func;
    tiles t = {.cpu = cpu, .lane = cpu->nest->lane_axis, .outer = 1 - cpu->nest->lane_axis};
    choose_sizes(&t);
    redirect(&t);
    func->tiling.multiple[t.outer] = t.rows;
    func->tiling.multiple[t.lane] = COLUMNS;
    const dlk_place start = dlk_cpu_start(cpu);
    cpu->place = &start;
    dlk_cpu_hoist_outputs(cpu);
    const dlk_range rows = dlk_cpu_tile(cpu, t.outer), columns = dlk_cpu_tile(cpu, t.lane);
    const dlk_val down = dlk_cpu_loop(cpu, rows.lo, rows.hi, t.rows);
    t.row = part_of(func, dlk_ir_loop_index(func, down), t.rows, rows.hi);
    const dlk_val along = dlk_cpu_loop(cpu, columns.lo, columns.hi, COLUMNS);
    t.column = part_of(func, dlk_ir_loop_index(func, along), COLUMNS, columns.hi);
    one_block(&t);
    dlk_cpu_loop_end(cpu, along);
    dlk_cpu_loop_end(cpu, down);
    return DLK_OK;
}
