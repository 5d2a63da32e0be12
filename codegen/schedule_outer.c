/* Reductions with lanes along the kept axis: strips of columns. The 16 rows of a lane of the tree are 16 streams joined
 * in registers; lanes are visited in bit-reversed order, in which folding them by halves is the binary counter itself,
 * and since a leaf is a power of two of visits, one counter serves lanes and leaves. */
#include "codegen/schedule_pass.h"

#define STRIP_LEAF_LEVELS 34 /* leaves: 2^34, days of reading */

static int lane_levels(const dlk_pass *pass)
{
    return __builtin_ctz((unsigned)pass->lanes);
}

/* ---- Strips ------------------------------------------------------------------------------------------------------- */

static int state_bytes(const dlk_tally *tally)
{
    int bytes = !tally->reduction->has_identity;
    for (int k = 0; k < tally->reduction->n; k++)
        bytes += tally->reduction->kind[k] == DLK_P1 ? 1 : dlk_kind_bytes(tally->reduction->kind[k]);
    return bytes;
}

static bool is_free(const dlk_tally *tally)
{
    return tally->reduction->is_free && !tally->takes_leaves;
}

static int levels(const dlk_pass *pass, const dlk_tally *tally)
{
    if (is_free(tally))
        return 1;
    if (tally->reduction->in_leaf)
        return lane_levels(pass) + 1;
    return STRIP_LEAF_LEVELS + (tally->takes_leaves ? 0 : lane_levels(pass));
}

int dlk_pass_column_bytes(const dlk_cpu *cpu, const dlk_pass *pass, int *widest)
{
    int bytes = 0;
    for (int t = 0; t < pass->n_tallies + pass->n_inner; t++) {
        const dlk_tally *tally = t < pass->n_tallies ? &pass->tally[t] : &pass->inner[t - pass->n_tallies];
        const int one = state_bytes(tally);
        bytes += one * (levels(pass, tally) + 1); /* and the result */
        bytes += cpu->nest->is_narrow ? one * pass->lanes : 0;
        *widest = one > *widest ? one : *widest;
    }
    return bytes;
}

static dlk_place strip_place(dlk_cpu *cpu, const dlk_strip *strip, dlk_val slot)
{
    dlk_func *func = cpu->func;
    const dlk_val column = dlk_emit_add(func, strip->columns.lo, slot);
    const dlk_val left = dlk_emit_sub(func, strip->columns.hi, column);
    dlk_place place = dlk_cpu_enter_lanes(cpu, strip->outer, 1 - cpu->nest->reduced_axis, column, strip->lanes, left);
    place.full = dlk_ir_prim(func, DLK_PRIM_SLE, dlk_ir_i64(func, strip->lanes), left, DLK_NONE);
    return place;
}

void dlk_cpu_vectors_begin(dlk_cpu *cpu, const dlk_strip *strip, dlk_vectors *v)
{
    dlk_func *func = cpu->func;
    const dlk_val width = dlk_emit_sub(func, strip->columns.hi, strip->columns.lo);
    v->loop = dlk_cpu_loop(cpu, dlk_ir_i64(func, 0), width, strip->lanes);
    v->slot = dlk_ir_loop_index(func, v->loop);
    v->place = strip_place(cpu, strip, v->slot);
    v->before = dlk_cpu_push(cpu, &v->place);
    for (int k = 0; k < strip->n_finished; k++) {
        const dlk_finished *f = &strip->finished[k];
        const dlk_state state = dlk_state_array_load(cpu->walk, &f->results, v->slot, strip->lanes);
        dlk_walk_bind_reduce(cpu->walk, f->index, state.part);
    }
}

void dlk_cpu_vectors_end(dlk_cpu *cpu, dlk_vectors *v)
{
    dlk_cpu_pop(cpu, v->before);
    dlk_cpu_loop_end(cpu, v->loop);
}

/* ---- A visit: one lane of a leaf, for one vector of columns ------------------------------------------------------- */

typedef struct visit {
    dlk_cpu *cpu;
    const dlk_set *set;
    dlk_val first; /* index of the lane's first element */
    dlk_val rows;  /* elements of the lane */
    int stride;    /* from one to the next */
} visit;

static void element(const visit *v, dlk_val r, dlk_state *out)
{
    dlk_cpu *cpu = v->cpu;
    const dlk_val at = dlk_emit_add(cpu->func, v->first, dlk_emit_mul_const(cpu->func, r, v->stride));
    const dlk_val number = dlk_ir_convert(cpu->func, DLK_PRIM_ITRUNC, DLK_I32, r);
    cpu->number = dlk_walk_widen(cpu->walk, number, cpu->place->lanes);
    const dlk_place place = dlk_cpu_enter(cpu, cpu->place, cpu->nest->reduced_axis, at);
    const dlk_place *before = dlk_cpu_push(cpu, &place);
    dlk_set_elements(cpu, v->set, out);
    dlk_cpu_pop(cpu, before);
}

static void join_elements(const visit *v, int64_t lo, dlk_state *states)
{
    dlk_cpu *cpu = v->cpu;
    dlk_func *func = cpu->func;
    dlk_val values[DLK_SET_VALUES];
    dlk_state right[DLK_SET_MAX];
    const int n = dlk_set_pack(cpu, v->set, false, states, values);
    const dlk_val loop = dlk_ir_loop_begin(func, dlk_ir_i64(func, lo), v->rows, dlk_ir_i64(func, 1), values, n);
    for (int k = 0; k < n; k++)
        values[k] = dlk_ir_loop_carried(func, loop, k);
    dlk_set_unpack(v->set, false, values, states);
    element(v, dlk_ir_loop_index(func, loop), right);
    dlk_set_join(cpu, v->set, states, right);
    dlk_set_pack(cpu, v->set, false, states, values);
    dlk_ir_loop_end(func, loop, values, DLK_NONE);
    for (int k = 0; k < n; k++)
        values[k] = dlk_ir_result(func, loop, k);
    dlk_set_unpack(v->set, false, values, states);
}

/* The elements of the lane joined. With an identity an absent lane is that; without, it is not there. */
static void join_lane(const visit *v, dlk_state *states)
{
    dlk_cpu *cpu = v->cpu;
    dlk_func *func = cpu->func;
    const int lanes = cpu->place->lanes;
    if (v->set->has_identity) {
        dlk_set_nothing(cpu, v->set, lanes, states);
        join_elements(v, 0, states);
        return;
    }
    dlk_val values[DLK_SET_VALUES];
    const dlk_val any = dlk_emit_slt(func, dlk_ir_i64(func, 0), v->rows);
    const dlk_val branch = dlk_ir_if_begin(func, any, false);
    element(v, dlk_ir_i64(func, 0), states);
    join_elements(v, 1, states);
    const int n = dlk_set_pack(cpu, v->set, true, states, values);
    dlk_ir_if_else(func, branch, values, n);
    dlk_set_nothing(cpu, v->set, lanes, states);
    dlk_set_pack(cpu, v->set, true, states, values);
    dlk_ir_if_end(func, branch, values);
    for (int k = 0; k < n; k++)
        values[k] = dlk_ir_result(func, branch, k);
    dlk_set_unpack(v->set, true, values, states);
}

/* ---- A leaf ------------------------------------------------------------------------------------------------------- */

typedef struct strip_leaf {
    dlk_cpu *cpu;
    dlk_pass *pass;
    const dlk_strip *strip;
    dlk_val first;  /* index of its first element */
    dlk_val count;  /* elements */
    dlk_val number; /* leaves before it */
} strip_leaf;

static bool any_order(const dlk_pass *pass)
{
    return pass->is_free && pass->n_inner == 0;
}

/* In the region of a vector: results of in_leaf reductions below `level`. */
static void bind_inner(const strip_leaf *l, dlk_val slot, int level)
{
    dlk_cpu *cpu = l->cpu;
    dlk_cpu_bind_leaf_count(cpu, l->count);
    for (int t = 0; t < l->pass->n_inner; t++) {
        const dlk_tally *tally = &l->pass->inner[t];
        if (tally->reduction->level >= level)
            continue;
        const dlk_val n = dlk_ir_i64(cpu->func, l->pass->lanes);
        const dlk_state total = dlk_counter_finish(cpu->walk, &tally->counter, slot, n);
        dlk_walk_bind_reduce(cpu->walk, tally->index, total.part);
    }
}

static dlk_val bit_reversed(const strip_leaf *l, dlk_val j)
{
    const int lanes = l->pass->lanes, bits = lane_levels(l->pass);
    uint64_t *table = DLK_NEW_ARRAY(l->cpu->func->arena, uint64_t, lanes);
    for (int i = 0; i < lanes; i++)
        for (int b = 0; b < bits; b++)
            table[i] |= (uint64_t)((i >> b) & 1) << (bits - 1 - b);
    return dlk_ir_table(l->cpu->func, dlk_func_table(l->cpu->func, DLK_I64, table, lanes), j);
}

/* Elements lane, lane + L, ... below count. */
static dlk_val rows_of_lane(const strip_leaf *l, dlk_val lane)
{
    dlk_func *func = l->cpu->func;
    const dlk_val up = dlk_emit_add_const(func, dlk_emit_sub(func, l->count, lane), l->pass->lanes - 1);
    return dlk_ir_prim(func, DLK_PRIM_ASHR, up, dlk_ir_i64(func, lane_levels(l->pass)), DLK_NONE);
}

static void push_lane(const strip_leaf *l, const dlk_set *set, dlk_val slot, dlk_val j, const dlk_state *states)
{
    dlk_func *func = l->cpu->func;
    const dlk_val before = dlk_emit_mul_const(func, l->number, l->pass->lanes);
    for (int t = 0; t < set->n; t++) {
        const dlk_tally *tally = set->tally[t];
        const dlk_val number = tally->reduction->in_leaf ? j : dlk_emit_add(func, before, j);
        dlk_counter_push(l->cpu->walk, &tally->counter, slot, number, states[t]);
    }
}

/* Visit j of a leaf: lane j of the tree in bit-reversed order; or simply the next rows. */
static visit make_visit(const strip_leaf *l, const dlk_set *set, dlk_val j)
{
    dlk_func *func = l->cpu->func;
    if (!any_order(l->pass)) {
        const dlk_val lane = bit_reversed(l, j);
        return (visit){l->cpu, set, dlk_emit_add(func, l->first, lane), rows_of_lane(l, lane), l->pass->lanes};
    }
    const dlk_val before = dlk_emit_mul_const(func, j, l->pass->rows), left = dlk_emit_sub(func, l->count, before);
    const dlk_val rows = dlk_emit_smin(func, left, dlk_ir_i64(func, l->pass->rows));
    return (visit){l->cpu, set, dlk_emit_add(func, l->first, before), rows, 1};
}

static void set_over_leaf(const strip_leaf *l, const dlk_set *set, int level)
{
    dlk_cpu *cpu = l->cpu;
    dlk_func *func = cpu->func;
    const dlk_val visits = dlk_cpu_loop(cpu, dlk_ir_i64(func, 0), dlk_ir_i64(func, l->pass->lanes), 1);
    const dlk_val j = dlk_ir_loop_index(func, visits);
    const visit v = make_visit(l, set, j);
    dlk_state states[DLK_SET_MAX];
    dlk_vectors each;
    dlk_cpu_vectors_begin(cpu, l->strip, &each);
    bind_inner(l, each.slot, level);
    dlk_cpu_hoist_all(cpu);
    join_lane(&v, states);
    for (int t = 0; t < set->n; t++)
        states[t] = dlk_tally_widen(cpu, set->tally[t], states[t], v.first, v.stride);
    push_lane(l, set, each.slot, j, states);
    dlk_cpu_vectors_end(cpu, &each);
    dlk_cpu_loop_end(cpu, visits);
}

/* ---- A leaf of narrow rows ---------------------------------------------------------------------------------------- */

/* Rows so short that 16 of them at a distance are 16 scraps: read one after the other, into a row of states for each
 * lane of the tree. */
typedef struct narrow_leaf {
    const strip_leaf *l;
    const dlk_set *set;
    int level;
    dlk_state_array lanes[DLK_SET_MAX];
} narrow_leaf;

static dlk_val narrow_at(const narrow_leaf *n, dlk_val lane, dlk_val slot)
{
    dlk_func *func = n->l->cpu->func;
    const int64_t width = (int64_t)n->l->strip->vectors * n->l->strip->lanes;
    return dlk_emit_add(func, dlk_emit_mul_const(func, lane, width), slot);
}

/* Row r of the lane, for one vector of columns: the first one is the state, others are joined to it. */
static void narrow_join(const narrow_leaf *n, dlk_val r, dlk_val lane, dlk_val slot)
{
    dlk_cpu *cpu = n->l->cpu;
    dlk_func *func = cpu->func;
    const visit v = {cpu, n->set, dlk_emit_add(func, n->l->first, lane), DLK_NONE, n->l->pass->lanes};
    const dlk_val at = narrow_at(n, lane, slot);
    dlk_state right[DLK_SET_MAX], states[DLK_SET_MAX];
    dlk_val values[DLK_SET_VALUES];
    element(&v, r, right);
    const dlk_val branch = dlk_ir_if_begin(func, dlk_emit_slt(func, dlk_ir_i64(func, 0), r), false);
    for (int t = 0; t < n->set->n; t++)
        states[t] = dlk_state_array_load(cpu->walk, &n->lanes[t], at, cpu->place->lanes);
    dlk_set_join(cpu, n->set, states, right);
    const int count = dlk_set_pack(cpu, n->set, false, states, values);
    dlk_ir_if_else(func, branch, values, count);
    dlk_set_pack(cpu, n->set, false, right, values);
    dlk_ir_if_end(func, branch, values);
    for (int k = 0; k < count; k++)
        values[k] = dlk_ir_result(func, branch, k);
    dlk_set_unpack(n->set, false, values, states);
    for (int t = 0; t < n->set->n; t++)
        dlk_state_array_store(cpu->walk, &n->lanes[t], at, states[t]);
}

static void narrow_rows(const narrow_leaf *n)
{
    const strip_leaf *l = n->l;
    dlk_func *func = l->cpu->func;
    const dlk_val rows = dlk_cpu_loop(l->cpu, dlk_ir_i64(func, 0), rows_of_lane(l, dlk_ir_i64(func, 0)), 1);
    const dlk_val r = dlk_ir_loop_index(func, rows);
    const dlk_val left = dlk_emit_sub(func, l->count, dlk_emit_mul_const(func, r, l->pass->lanes));
    const dlk_val end = dlk_emit_smin(func, left, dlk_ir_i64(func, l->pass->lanes));
    const dlk_val lanes = dlk_cpu_loop(l->cpu, dlk_ir_i64(func, 0), end, 1);
    dlk_vectors each;
    dlk_cpu_vectors_begin(l->cpu, l->strip, &each);
    bind_inner(l, each.slot, n->level);
    dlk_cpu_hoist_all(l->cpu);
    narrow_join(n, r, dlk_ir_loop_index(func, lanes), each.slot);
    dlk_cpu_vectors_end(l->cpu, &each);
    dlk_cpu_loop_end(l->cpu, lanes);
    dlk_cpu_loop_end(l->cpu, rows);
}

/* The state of a lane, nothing where it has no row. */
static dlk_state narrow_state(const narrow_leaf *n, int t, dlk_val lane, dlk_val slot)
{
    dlk_cpu *cpu = n->l->cpu;
    const dlk_reduction *rows = n->set->tally[t]->rows;
    const int lanes = cpu->place->lanes;
    const dlk_val exists = dlk_emit_slt(cpu->func, lane, n->l->count);
    dlk_state state = dlk_state_array_load(cpu->walk, &n->lanes[t], narrow_at(n, lane, slot), lanes);
    state = dlk_state_mask(cpu->walk, rows, state, dlk_walk_widen(cpu->walk, exists, lanes));
    return dlk_tally_widen(cpu, n->set->tally[t], state, dlk_emit_add(cpu->func, n->l->first, lane), n->l->pass->lanes);
}

static void narrow_fold(const narrow_leaf *n)
{
    const strip_leaf *l = n->l;
    dlk_func *func = l->cpu->func;
    const dlk_val visits = dlk_cpu_loop(l->cpu, dlk_ir_i64(func, 0), dlk_ir_i64(func, l->pass->lanes), 1);
    const dlk_val j = dlk_ir_loop_index(func, visits), lane = bit_reversed(l, j);
    dlk_state states[DLK_SET_MAX];
    dlk_vectors each;
    dlk_cpu_vectors_begin(l->cpu, l->strip, &each);
    for (int t = 0; t < n->set->n; t++)
        states[t] = narrow_state(n, t, lane, each.slot);
    push_lane(l, n->set, each.slot, j, states);
    dlk_cpu_vectors_end(l->cpu, &each);
    dlk_cpu_loop_end(l->cpu, visits);
}

static void set_over_narrow_leaf(const strip_leaf *l, const dlk_set *set, int level)
{
    narrow_leaf n = {.l = l, .set = set, .level = level};
    const int64_t states = (int64_t)l->pass->lanes * l->strip->vectors * l->strip->lanes;
    for (int t = 0; t < set->n; t++)
        n.lanes[t] = dlk_state_array_create(l->cpu->func, set->tally[t]->rows, false, states);
    narrow_rows(&n);
    narrow_fold(&n);
}

/* ---- Leaves ------------------------------------------------------------------------------------------------------- */

static void push_leaf_states(const strip_leaf *l)
{
    dlk_cpu *cpu = l->cpu;
    bool any = false;
    for (int t = 0; t < l->pass->n_tallies; t++)
        any |= l->pass->tally[t].takes_leaves;
    if (!any)
        return;
    dlk_vectors each;
    dlk_cpu_vectors_begin(cpu, l->strip, &each);
    bind_inner(l, each.slot, l->pass->n_inner_levels);
    for (int t = 0; t < l->pass->n_tallies; t++)
        if (l->pass->tally[t].takes_leaves)
            dlk_counter_push(cpu->walk, &l->pass->tally[t].counter, each.slot, l->number,
                             dlk_cpu_leaf_state(cpu, &l->pass->tally[t]));
    dlk_cpu_vectors_end(cpu, &each);
}

static void reset_free(const strip_leaf *l, dlk_tally *tallies, int n)
{
    bool any = false;
    for (int t = 0; t < n; t++)
        any |= is_free(&tallies[t]);
    if (!any)
        return;
    dlk_vectors each;
    dlk_cpu_vectors_begin(l->cpu, l->strip, &each);
    for (int t = 0; t < n; t++)
        dlk_counter_reset(l->cpu->walk, &tallies[t].counter, each.slot);
    dlk_cpu_vectors_end(l->cpu, &each);
}

static void one_leaf(const strip_leaf *l)
{
    reset_free(l, l->pass->inner, l->pass->n_inner);
    for (int level = 0; level == 0 || level < l->pass->n_inner_levels; level++) {
        const dlk_set set = dlk_pass_set(l->pass, level);
        if (set.n && l->cpu->nest->is_narrow && !any_order(l->pass))
            set_over_narrow_leaf(l, &set, level);
        else if (set.n)
            set_over_leaf(l, &set, level);
    }
    push_leaf_states(l);
}

/* ---- A strip ------------------------------------------------------------------------------------------------------ */

static void make_counters(dlk_cpu *cpu, const dlk_pass *pass, dlk_tally *tallies, int n, const dlk_strip *strip)
{
    for (int t = 0; t < n; t++) {
        dlk_tally *tally = &tallies[t];
        const bool may_be_absent = !tally->reduction->has_identity && !tally->takes_leaves;
        tally->counter = dlk_counter_create(cpu->func, tally->reduction, may_be_absent, levels(pass, tally),
                                            (int64_t)strip->vectors * strip->lanes, strip->lanes, is_free(tally));
    }
}

static dlk_val leaves_of(dlk_cpu *cpu, const dlk_pass *pass, dlk_range range)
{
    dlk_func *func = cpu->func;
    const int64_t leaf = dlk_pass_leaf(pass);
    const dlk_val up = dlk_emit_add_const(func, dlk_emit_sub(func, range.hi, range.lo), leaf - 1);
    return dlk_ir_prim(func, DLK_PRIM_ASHR, up, dlk_ir_i64(func, __builtin_ctzll((uint64_t)leaf)), DLK_NONE);
}

void dlk_cpu_outer_pass(dlk_cpu *cpu, dlk_pass *pass, const dlk_strip *strip, dlk_range range)
{
    dlk_func *func = cpu->func;
    const int64_t leaf = dlk_pass_leaf(pass);
    strip_leaf l = {.cpu = cpu, .pass = pass, .strip = strip};
    make_counters(cpu, pass, pass->tally, pass->n_tallies, strip);
    make_counters(cpu, pass, pass->inner, pass->n_inner, strip);
    reset_free(&l, pass->tally, pass->n_tallies);
    const dlk_val loop = dlk_cpu_loop(cpu, dlk_ir_i64(func, 0), leaves_of(cpu, pass, range), 1);
    l.number = dlk_ir_loop_index(func, loop);
    l.first = dlk_emit_add(func, range.lo, dlk_emit_mul_const(func, l.number, leaf));
    l.count = dlk_emit_smin(func, dlk_ir_i64(func, leaf), dlk_emit_sub(func, range.hi, l.first));
    one_leaf(&l);
    dlk_cpu_loop_end(cpu, loop);
}

static dlk_state tally_total(dlk_cpu *cpu, const dlk_pass *pass, const dlk_tally *tally, dlk_val slot, dlk_val leaves)
{
    const int64_t pushes = tally->takes_leaves ? 1 : pass->lanes;
    const dlk_val n = dlk_emit_mul_const(cpu->func, leaves, pushes);
    dlk_state total = dlk_counter_finish(cpu->walk, &tally->counter, slot, n);
    total.present = DLK_NONE;
    return total;
}

void dlk_cpu_outer_states(dlk_cpu *cpu, const dlk_pass *pass, dlk_val slot, dlk_range range, dlk_state *out)
{
    dlk_func *func = cpu->func;
    const dlk_val leaves = leaves_of(cpu, pass, range);
    const dlk_set all = dlk_pass_results(cpu, pass);
    dlk_val values[DLK_SET_VALUES];
    dlk_state nothing[DLK_SET_MAX];
    const dlk_val branch = dlk_ir_if_begin(func, dlk_emit_slt(func, dlk_ir_i64(func, 0), leaves), false);
    for (int t = 0; t < all.n; t++)
        out[t] = tally_total(cpu, pass, &pass->tally[t], slot, leaves);
    const int n = dlk_set_pack(cpu, &all, false, out, values);
    dlk_ir_if_else(func, branch, values, n);
    dlk_set_nothing(cpu, &all, cpu->place->lanes, nothing);
    dlk_set_pack(cpu, &all, false, nothing, values);
    dlk_ir_if_end(func, branch, values);
    for (int k = 0; k < n; k++)
        values[k] = dlk_ir_result(func, branch, k);
    dlk_set_unpack(&all, false, values, out);
}
