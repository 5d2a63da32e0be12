/* Reductions with lanes along the reduced axis: a leaf is 16 rows of L lanes, joined in registers, folded by halves,
 * and pushed on the counter. Where the target asks for vectors narrower than L, several stand side by side. */
#include "codegen/schedule_pass.h"

#include <string.h>

#define LEAF_LEVELS 48 /* of a counter: enough for 2^57 elements */

#define UNROLL_MAX 8

/* A leaf, or a part of its lanes. */
typedef struct leaf {
    dlk_cpu *cpu;
    const dlk_set *set;
    dlk_val first;   /* index of its first element */
    dlk_val present; /* elements that there are from there on, i64; NONE: all */
    int stride;      /* elements from one row to the next: L */
    dlk_val part;    /* elements of the leaf before `first`, i64 */
    int rows;        /* of a whole leaf */
    int lanes;       /* of a vector */
    int vectors;     /* side by side in a row, or in the part */
} leaf;

typedef dlk_state row_states[DLK_SET_MAX]; /* of one vector, by tally */

/* The leaf from its vector v on, as if that were the first one. */
static leaf beside(const leaf *l, int v)
{
    dlk_func *func = l->cpu->func;
    leaf out = *l;
    out.vectors = 1;
    out.first = dlk_emit_add_const(func, l->first, (int64_t)v * l->lanes);
    out.part = dlk_emit_add_const(func, l->part, (int64_t)v * l->lanes);
    if (l->present != DLK_NONE)
        out.present = dlk_emit_add_const(func, l->present, -(int64_t)v * l->lanes);
    return out;
}

/* ---- Rows of a leaf ----------------------------------------------------------------------------------------------- */

static dlk_place row_place(const leaf *l, dlk_val r)
{
    dlk_cpu *cpu = l->cpu;
    dlk_func *func = cpu->func;
    const dlk_val before = dlk_emit_mul_const(func, r, l->stride);
    const dlk_val number = dlk_ir_convert(func, DLK_PRIM_ITRUNC, DLK_I32, dlk_emit_add(func, before, l->part));
    const dlk_val at = dlk_emit_add(func, l->first, before);
    cpu->number = dlk_emit_add(func, dlk_ir_iota(func, (dlk_type){DLK_I32, (uint8_t)l->lanes}),
                               dlk_walk_widen(cpu->walk, number, l->lanes));
    return dlk_cpu_enter_lanes(cpu, cpu->place, cpu->nest->reduced_axis, at, l->lanes, DLK_NONE);
}

static void whole_row(const leaf *l, dlk_val r, dlk_state *out)
{
    const dlk_place place = row_place(l, r);
    const dlk_place *before = dlk_cpu_push(l->cpu, &place);
    dlk_set_elements(l->cpu, l->set, out);
    dlk_cpu_pop(l->cpu, before);
}

/* Lanes below `left` exist. */
static dlk_val lanes_below(const leaf *l, dlk_val left)
{
    dlk_func *func = l->cpu->func;
    const dlk_type type = {DLK_I32, (uint8_t)l->lanes};
    const dlk_val bound = dlk_ir_splat(func, dlk_ir_convert(func, DLK_PRIM_ITRUNC, DLK_I32, left), l->lanes);
    return dlk_emit_slt(func, dlk_ir_iota(func, type), bound);
}

static void partial_row(const leaf *l, dlk_val r, dlk_state *out)
{
    dlk_func *func = l->cpu->func;
    dlk_place place = row_place(l, r);
    const dlk_val left = dlk_emit_sub(func, l->present, dlk_emit_mul_const(func, r, l->stride));
    place.count = left;
    place.full = dlk_ir_prim(func, DLK_PRIM_SLE, dlk_ir_i64(func, l->lanes), left, DLK_NONE);
    const dlk_val exist = lanes_below(l, left);
    const dlk_place *before = dlk_cpu_push(l->cpu, &place);
    dlk_set_elements(l->cpu, l->set, out);
    for (int t = 0; t < l->set->n; t++)
        out[t] = dlk_state_mask(l->cpu->walk, l->set->tally[t]->rows, out[t], exist);
    dlk_cpu_pop(l->cpu, before);
}

static int pack_row(const leaf *l, const row_states *states, dlk_val *values)
{
    int n = 0;
    for (int v = 0; v < l->vectors; v++)
        n += dlk_set_pack(l->cpu, l->set, l->present != DLK_NONE, states[v], values + n);
    return n;
}

static void unpack_row(const leaf *l, int n, const dlk_val *values, row_states *states)
{
    for (int v = 0; v < l->vectors; v++)
        dlk_set_unpack(l->set, l->present != DLK_NONE, values + v * n / l->vectors, states[v]);
}

static void one_row(const leaf *l, dlk_val r, row_states *out)
{
    for (int v = 0; v < l->vectors; v++) {
        const leaf part = beside(l, v);
        if (l->present == DLK_NONE)
            whole_row(&part, r, out[v]);
        else
            partial_row(&part, r, out[v]);
    }
}

static void join_rows(const leaf *l, dlk_val lo, dlk_val hi, row_states *states)
{
    dlk_cpu *cpu = l->cpu;
    dlk_func *func = cpu->func;
    dlk_val values[DLK_SET_VALUES * UNROLL_MAX];
    row_states right[UNROLL_MAX];
    const int n = pack_row(l, states, values);
    const dlk_val loop = dlk_ir_loop_begin(func, lo, hi, dlk_ir_i64(func, 1), values, n);
    for (int k = 0; k < n; k++)
        values[k] = dlk_ir_loop_carried(func, loop, k);
    unpack_row(l, n, values, states);
    one_row(l, dlk_ir_loop_index(func, loop), right);
    for (int v = 0; v < l->vectors; v++)
        dlk_set_join(cpu, l->set, states[v], right[v]);
    pack_row(l, states, values);
    dlk_ir_loop_end(func, loop, values, DLK_NONE);
    for (int k = 0; k < n; k++)
        values[k] = dlk_ir_result(func, loop, k);
    unpack_row(l, n, values, states);
}

static void no_row(const leaf *l, row_states *states)
{
    for (int v = 0; v < l->vectors; v++)
        dlk_set_nothing(l->cpu, l->set, l->lanes, states[v]);
}

/* Lane l of a row with lane l + half of it: what folding by halves does first. */
static void join_vectors(const leaf *l, row_states *states)
{
    for (int h = l->vectors / 2; h; h /= 2)
        for (int v = 0; v < h; v++)
            dlk_set_join(l->cpu, l->set, states[v], states[v + h]);
}

/* The rows of a leaf, or of a part of its lanes, joined lane by lane, then its vectors. */
static void join_leaf_rows(const leaf *l, dlk_state *out)
{
    dlk_func *func = l->cpu->func;
    const dlk_val zero = dlk_ir_i64(func, 0), rows = dlk_ir_i64(func, l->rows);
    row_states states[UNROLL_MAX];
    if (l->present != DLK_NONE) {
        const dlk_val up = dlk_emit_add_const(func, l->present, l->stride - 1);
        const dlk_val shift = dlk_ir_i64(func, __builtin_ctz((unsigned)l->stride));
        no_row(l, states);
        join_rows(l, zero, dlk_ir_prim(func, DLK_PRIM_ASHR, up, shift, DLK_NONE), states);
    } else if (l->set->has_identity) {
        no_row(l, states);
        join_rows(l, zero, rows, states);
    } else {
        one_row(l, zero, states);
        join_rows(l, dlk_ir_i64(func, 1), rows, states);
    }
    join_vectors(l, states);
    memcpy(out, states[0], sizeof states[0]);
}

/* ---- Lanes of a leaf ---------------------------------------------------------------------------------------------- */

/* L lanes from the scratch; two vectors of them joined where a vector cannot hold L. */
static dlk_state load_row(dlk_cpu *cpu, const dlk_state_array *array, int lanes)
{
    dlk_func *func = cpu->func;
    if (lanes <= DLK_LANES_MAX)
        return dlk_state_array_load(cpu->walk, array, dlk_ir_i64(func, 0), lanes);
    const dlk_state low = dlk_state_array_load(cpu->walk, array, dlk_ir_i64(func, 0), lanes / 2);
    const dlk_state high = dlk_state_array_load(cpu->walk, array, dlk_ir_i64(func, lanes / 2), lanes / 2);
    return dlk_state_join(cpu->walk, array->reduction, &low, &high);
}

/* Long formulas go over a few lanes of the leaf at a time, so that their values stay in registers and their code is
 * there once. */
static void join_leaf_by_parts(const leaf *whole, int lanes, dlk_state *states)
{
    dlk_cpu *cpu = whole->cpu;
    dlk_func *func = cpu->func;
    const int row = whole->stride;
    dlk_state_array scratch[DLK_SET_MAX];
    for (int t = 0; t < whole->set->n; t++) {
        const dlk_reduction *reduction = whole->set->tally[t]->rows;
        scratch[t] = dlk_state_array_create(func, reduction, !reduction->has_identity, row);
    }
    const dlk_val loop = dlk_cpu_loop(cpu, dlk_ir_i64(func, 0), dlk_ir_i64(func, row), lanes);
    const dlk_val lane = dlk_ir_loop_index(func, loop);
    leaf part = *whole;
    part.lanes = lanes;
    part.vectors = 1;
    part.first = dlk_emit_add(func, whole->first, lane);
    part.part = lane;
    if (whole->present != DLK_NONE)
        part.present = dlk_emit_sub(func, whole->present, lane);
    join_leaf_rows(&part, states);
    for (int t = 0; t < whole->set->n; t++)
        dlk_state_array_store(cpu->walk, &scratch[t], lane, states[t]);
    dlk_cpu_loop_end(cpu, loop);
    for (int t = 0; t < whole->set->n; t++)
        states[t] = load_row(cpu, &scratch[t], row);
}

/* How the lanes of a leaf are taken: vectors side by side in registers, or parts one after the other. */
typedef struct split {
    int lanes; /* of a vector */
    bool by_parts;
} split;

static split split_of(dlk_cpu *cpu, const dlk_set *set, int row)
{
    const dlk_cost cost = dlk_set_cost(cpu, set);
    const bool is_long = cost.weight > DLK_CPU_HEAVY;
    int lanes = is_long || cost.has_logic ? dlk_cpu_lanes(cpu, cost) : DLK_LANES_MAX;
    lanes = lanes < row ? lanes : row;
    return (split){lanes, lanes < row && (is_long || row / lanes > UNROLL_MAX)};
}

/* Lanes that a leaf is joined down to. */
static int joined_lanes(dlk_cpu *cpu, const dlk_set *set, int row)
{
    const split s = split_of(cpu, set, row);
    const int most = s.by_parts ? DLK_LANES_MAX : s.lanes;
    return row < most ? row : most;
}

static void join_leaf(const leaf *whole, dlk_state *states)
{
    const split s = split_of(whole->cpu, whole->set, whole->stride);
    if (s.by_parts) {
        join_leaf_by_parts(whole, s.lanes, states);
        return;
    }
    leaf l = *whole;
    l.lanes = s.lanes;
    l.vectors = whole->stride / s.lanes;
    join_leaf_rows(&l, states);
}

/* ---- A leaf ------------------------------------------------------------------------------------------------------- */

/* In a leaf there is always an element. */
static dlk_state fold(dlk_cpu *cpu, const dlk_tally *tally, dlk_state state)
{
    state = dlk_state_fold(cpu->walk, tally->reduction, state);
    state.present = DLK_NONE;
    return state;
}

static void take_joined(dlk_cpu *cpu, dlk_tally *tally, dlk_val number, dlk_state state)
{
    const dlk_val slot = dlk_ir_i64(cpu->func, 0);
    if (tally->reduction->in_leaf) {
        const dlk_state folded = fold(cpu, tally, state);
        dlk_walk_bind_reduce(cpu->walk, tally->index, folded.part);
    } else if (tally->counter.is_free) {
        dlk_counter_push(cpu->walk, &tally->counter, slot, number, state);
    } else {
        dlk_counter_push(cpu->walk, &tally->counter, slot, number, fold(cpu, tally, state));
    }
}

/* present: elements of a leaf that is not whole, or NONE. */
static void one_leaf(dlk_cpu *cpu, dlk_pass *pass, dlk_val first, dlk_val present, dlk_val number)
{
    dlk_func *func = cpu->func;
    const dlk_val slot = dlk_ir_i64(func, 0);
    const dlk_place *before = dlk_cpu_push(cpu, cpu->place);
    dlk_cpu_bind_leaf_count(cpu, present == DLK_NONE ? dlk_ir_i64(func, dlk_pass_leaf(pass)) : present);
    for (int level = 0; level == 0 || level < pass->n_inner_levels; level++) {
        const dlk_set set = dlk_pass_set(pass, level);
        const leaf l = {cpu, &set, first, present, pass->lanes, slot, pass->rows, pass->lanes, 1};
        dlk_state states[DLK_SET_MAX];
        if (set.n == 0)
            continue;
        join_leaf(&l, states);
        for (int t = 0; t < set.n; t++)
            take_joined(cpu, set.tally[t], number, dlk_tally_widen(cpu, set.tally[t], states[t], first, 1));
        dlk_cpu_hoist_all(cpu);
    }
    for (int t = 0; t < pass->n_tallies; t++)
        if (pass->tally[t].takes_leaves)
            dlk_counter_push(cpu->walk, &pass->tally[t].counter, slot, number,
                             dlk_cpu_leaf_state(cpu, &pass->tally[t]));
    dlk_cpu_pop(cpu, before);
}

/* ---- A row -------------------------------------------------------------------------------------------------------- */

/* lanes: of what free ones are given. */
static void make_counters(dlk_cpu *cpu, dlk_pass *pass, int lanes)
{
    for (int t = 0; t < pass->n_tallies; t++) {
        dlk_tally *tally = &pass->tally[t];
        const bool is_free = tally->reduction->is_free && !tally->takes_leaves;
        const int wide = is_free ? lanes : 1;
        tally->counter = dlk_counter_create(cpu->func, tally->reduction, false, LEAF_LEVELS, wide, wide, is_free);
        dlk_counter_reset(cpu->walk, &tally->counter, dlk_ir_i64(cpu->func, 0));
    }
}

static dlk_state tally_result(dlk_cpu *cpu, const dlk_tally *tally, dlk_val n)
{
    const dlk_state total = dlk_counter_finish(cpu->walk, &tally->counter, dlk_ir_i64(cpu->func, 0), n);
    return fold(cpu, tally, total);
}

/* The results after n pushes; nothing when there was none. */
static void results(dlk_cpu *cpu, const dlk_pass *pass, dlk_val n, dlk_state *out)
{
    dlk_func *func = cpu->func;
    const dlk_set all = dlk_pass_results(cpu, pass);
    dlk_state nothing[DLK_SET_MAX];
    dlk_val values[DLK_SET_VALUES];
    const dlk_val branch = dlk_ir_if_begin(func, dlk_emit_slt(func, dlk_ir_i64(func, 0), n), false);
    for (int t = 0; t < all.n; t++)
        out[t] = tally_result(cpu, &pass->tally[t], n);
    const int count = dlk_set_pack(cpu, &all, false, out, values);
    dlk_ir_if_else(func, branch, values, count);
    dlk_set_nothing(cpu, &all, 1, nothing);
    dlk_set_pack(cpu, &all, false, nothing, values);
    dlk_ir_if_end(func, branch, values);
    for (int k = 0; k < count; k++)
        values[k] = dlk_ir_result(func, branch, k);
    dlk_set_unpack(&all, false, values, out);
}

void dlk_cpu_inner_pass(dlk_cpu *cpu, dlk_pass *pass, dlk_range range, dlk_state *out)
{
    dlk_func *func = cpu->func;
    const int64_t leaf_elements = dlk_pass_leaf(pass);
    const dlk_val n = dlk_emit_sub(func, range.hi, range.lo);
    const dlk_val whole =
        dlk_ir_prim(func, DLK_PRIM_ASHR, n, dlk_ir_i64(func, __builtin_ctzll((uint64_t)leaf_elements)), DLK_NONE);
    const dlk_set first = dlk_pass_set(pass, 0);
    make_counters(cpu, pass, joined_lanes(cpu, &first, pass->lanes));
    const dlk_val loop = dlk_cpu_loop(cpu, dlk_ir_i64(func, 0), whole, 1);
    const dlk_val number = dlk_ir_loop_index(func, loop);
    one_leaf(cpu, pass, dlk_emit_add(func, range.lo, dlk_emit_mul_const(func, number, leaf_elements)), DLK_NONE,
             number);
    dlk_cpu_loop_end(cpu, loop);

    const dlk_val done = dlk_emit_mul_const(func, whole, leaf_elements), rest = dlk_emit_sub(func, n, done);
    const dlk_val has_rest = dlk_emit_slt(func, dlk_ir_i64(func, 0), rest);
    const dlk_val branch = dlk_ir_if_begin(func, has_rest, false);
    one_leaf(cpu, pass, dlk_emit_add(func, range.lo, done), rest, whole);
    dlk_ir_if_else(func, branch, NULL, 0);
    dlk_ir_if_end(func, branch, NULL);
    results(cpu, pass, dlk_emit_add(func, whole, dlk_ir_convert(func, DLK_PRIM_ZEXT, DLK_I64, has_rest)), out);
}

void dlk_cpu_leaves_pass(dlk_cpu *cpu, dlk_pass *pass, dlk_range range, dlk_state *out)
{
    dlk_func *func = cpu->func;
    make_counters(cpu, pass, 1);
    const dlk_val loop = dlk_cpu_loop(cpu, range.lo, range.hi, 1);
    const dlk_val at = dlk_ir_loop_index(func, loop);
    const dlk_place place = dlk_cpu_enter(cpu, cpu->place, cpu->nest->reduced_axis, at);
    const dlk_place *before = dlk_cpu_push(cpu, &place);
    const dlk_set set = dlk_pass_set(pass, 0);
    dlk_state states[DLK_SET_MAX];
    dlk_set_elements(cpu, &set, states);
    for (int t = 0; t < set.n; t++)
        dlk_counter_push(cpu->walk, &set.tally[t]->counter, dlk_ir_i64(func, 0), dlk_emit_sub(func, at, range.lo),
                         states[t]);
    dlk_cpu_pop(cpu, before);
    dlk_cpu_loop_end(cpu, loop);
    results(cpu, pass, dlk_emit_sub(func, range.hi, range.lo), out);
}
