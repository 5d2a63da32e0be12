/* Reductions and row kernels: stages over a row, each of which needs what the ones before it reduced; then what is of
 * the row is stored, and what is of full shape is a map over the row once more. */
#include "codegen/schedule_pass.h"

#define STAGES_MAX 16
#define CACHE_LINE 64 /* bytes: what one row of many gives at a time */

typedef struct row {
    dlk_cpu *cpu;
    dlk_pass *passes[STAGES_MAX];
    int n_passes[STAGES_MAX], n_stages;
    bool has_map; /* an output of full shape */
    int n_uses;   /* times that elements of the row are gone over */
    int reduced, kept;
} row;

/* ---- What is left of a row ---------------------------------------------------------------------------------------- */

static dlk_val number_of_runs(dlk_cpu *cpu)
{
    return cpu->nest->has_runs ? dlk_emit_role(cpu->func, DLK_UNIFORM_TILES, cpu->nest->reduced_axis)
                               : dlk_ir_i64(cpu->func, 1);
}

/* Where the states of the innermost place go: [kept index][run]. */
static dlk_mem state_mem(dlk_cpu *cpu, int component, dlk_kind kind)
{
    dlk_func *func = cpu->func;
    const dlk_place *place = cpu->place;
    const int64_t bytes = dlk_kind_bytes(kind);
    const dlk_val runs = number_of_runs(cpu), run = dlk_cpu_tile_number(cpu, cpu->nest->reduced_axis);
    const dlk_val at = dlk_emit_add(func, dlk_emit_mul(func, place->index[1 - cpu->nest->reduced_axis], runs),
                                    cpu->nest->has_runs ? run : dlk_ir_i64(func, 0));
    dlk_mem mem = {.buffer = dlk_func_buffer(func, (dlk_buffer_role){DLK_BUFFER_STATE_OUT, (uint8_t)component}, true),
                   .offset = dlk_emit_mul_const(func, at, bytes),
                   .step = DLK_STEP_UNIT,
                   .stride = DLK_NONE,
                   .count = place->count};
    if (place->lanes > 1 && cpu->nest->has_runs) {
        mem.step = DLK_STEP_UNIFORM;
        mem.stride = dlk_emit_mul_const(func, runs, bytes);
    }
    return mem;
}

static void store_states(dlk_cpu *cpu, const dlk_tally *tally, const dlk_state *state)
{
    int component = dlk_cpu_first_component(cpu->prog, tally->index);
    for (int k = 0; k < tally->reduction->n; k++, component++) {
        const bool is_p1 = tally->reduction->kind[k] == DLK_P1;
        const dlk_val value = is_p1 ? dlk_ir_convert(cpu->func, DLK_PRIM_ZEXT, DLK_I8, state->part[k]) : state->part[k];
        dlk_ir_store(cpu->func, value, state_mem(cpu, component, is_p1 ? DLK_I8 : tally->reduction->kind[k]));
    }
}

/* In the region of the row: what later stages and outputs may use from now on. */
static void take_results(const row *r, const dlk_pass *pass, const dlk_state *states)
{
    for (int t = 0; t < pass->n_tallies; t++) {
        if (r->cpu->nest->to == DLK_TO_STATES)
            store_states(r->cpu, &pass->tally[t], &states[t]);
        else
            dlk_walk_bind_reduce(r->cpu->walk, pass->tally[t].index, states[t].part);
    }
}

static void store_reduced_outputs(const row *r)
{
    dlk_cpu *cpu = r->cpu;
    for (int k = 0; k < cpu->prog->n_outputs && cpu->nest->to == DLK_TO_RESULT; k++)
        if (!dlk_cpu_is_mapped(cpu, k))
            dlk_cpu_store_output(cpu, k, 0);
}

/* ---- Lanes along the reduced axis --------------------------------------------------------------------------------- */

static void inner_row(row *r)
{
    dlk_cpu *cpu = r->cpu;
    const dlk_range range = dlk_cpu_tile(cpu, r->reduced);
    dlk_state states[DLK_SET_MAX];
    for (int stage = 0; stage < r->n_stages; stage++) {
        for (int p = 0; p < r->n_passes[stage]; p++) {
            dlk_pass *pass = &r->passes[stage][p];
            if (cpu->nest->from == DLK_FROM_LEAVES)
                dlk_cpu_leaves_pass(cpu, pass, range, states);
            else
                dlk_cpu_inner_pass(cpu, pass, range, states);
            take_results(r, pass, states);
        }
        dlk_cpu_hoist_all(cpu);
    }
    store_reduced_outputs(r);
    if (r->has_map)
        dlk_cpu_map_columns(cpu, cpu->place, r->reduced, range, r->n_uses - 1, cpu->nest->is_nontemporal);
}

static void inner_rows(row *r)
{
    dlk_cpu *cpu = r->cpu;
    const dlk_range rows = dlk_cpu_tile(cpu, r->kept);
    const dlk_val loop = dlk_cpu_loop(cpu, rows.lo, rows.hi, 1);
    const dlk_place place = dlk_cpu_enter(cpu, cpu->place, r->kept, dlk_ir_loop_index(cpu->func, loop));
    const dlk_place *before = dlk_cpu_push(cpu, &place);
    dlk_cpu_hoist_all(cpu);
    inner_row(r);
    dlk_cpu_pop(cpu, before);
    dlk_cpu_loop_end(cpu, loop);
}

/* ---- Lanes along the kept axis ------------------------------------------------------------------------------------ */

/* Of formulas that take turns. */
static void widen_cost(dlk_cost *cost, dlk_cost other)
{
    const int weight = other.weight > cost->weight ? other.weight : cost->weight;
    *cost = dlk_cost_join(*cost, other);
    cost->weight = weight;
}

static int strip_lanes(row *r)
{
    dlk_cost cost = {0, 1, false};
    for (int stage = 0; stage < r->n_stages; stage++)
        for (int p = 0; p < r->n_passes[stage]; p++)
            for (int level = 0; level == 0 || level < r->passes[stage][p].n_inner_levels; level++) {
                const dlk_set set = dlk_pass_set(&r->passes[stage][p], level);
                widen_cost(&cost, dlk_set_cost(r->cpu, &set));
            }
    if (r->has_map)
        widen_cost(&cost, dlk_cpu_map_cost(r->cpu));
    const int lanes = dlk_cpu_lanes(r->cpu, cost);
    const int most = (r->cpu->nest->is_narrow ? r->cpu->target->vector_bytes : CACHE_LINE) / cost.widest;
    return lanes > most ? most : lanes;
}

#define STRIP_BYTES   4096   /* of one row of a strip: long enough for the prefetcher */
#define SCRATCH_BYTES 196608 /* of a strip */
#define MAP_ROWS      4      /* of a strip that are mapped together */

static int strip_columns(const row *r)
{
    int bytes = 0, widest = 1;
    for (int stage = 0; stage < r->n_stages; stage++)
        for (int p = 0; p < r->n_passes[stage]; p++)
            bytes += dlk_pass_column_bytes(r->cpu, &r->passes[stage][p], &widest);
    const int columns = r->cpu->nest->is_narrow ? DLK_NARROW_MAX : STRIP_BYTES / widest;
    return bytes > 0 && columns > SCRATCH_BYTES / bytes ? SCRATCH_BYTES / bytes : columns;
}

/* The results of a stage: to the state buffers, or for what comes after. */
static void finish_stage(row *r, int stage, dlk_strip *strip, dlk_range range)
{
    dlk_cpu *cpu = r->cpu;
    const int64_t width = (int64_t)strip->vectors * strip->lanes;
    dlk_finished *next = &strip->finished[strip->n_finished];
    dlk_vectors each;
    int n = 0;
    dlk_cpu_vectors_begin(cpu, strip, &each);
    for (int p = 0; p < r->n_passes[stage]; p++) {
        const dlk_pass *pass = &r->passes[stage][p];
        dlk_state states[DLK_SET_MAX];
        dlk_cpu_outer_states(cpu, pass, each.slot, range, states);
        for (int t = 0; t < pass->n_tallies; t++) {
            if (cpu->nest->to == DLK_TO_STATES) {
                store_states(cpu, &pass->tally[t], &states[t]);
                continue;
            }
            next[n].index = pass->tally[t].index;
            next[n].results = dlk_state_array_create(cpu->func, pass->tally[t].reduction, false, width);
            dlk_state_array_store(cpu->walk, &next[n++].results, each.slot, states[t]);
        }
    }
    dlk_cpu_vectors_end(cpu, &each);
    strip->n_finished += n;
}

/* A few rows at a time, so that what belongs to a column is computed once for them. */
static void map_rows(row *r, const dlk_strip *strip, dlk_range range)
{
    dlk_cpu *cpu = r->cpu;
    dlk_func *func = cpu->func;
    dlk_vectors each;
    const dlk_val blocks = dlk_cpu_loop(cpu, range.lo, range.hi, MAP_ROWS);
    const dlk_val lo = dlk_ir_loop_index(func, blocks);
    const dlk_val hi = dlk_emit_smin(func, dlk_emit_add_const(func, lo, MAP_ROWS), range.hi);
    dlk_cpu_vectors_begin(cpu, strip, &each);
    dlk_cpu_hoist_all(cpu);
    const dlk_val rows = dlk_cpu_loop(cpu, lo, hi, 1);
    const dlk_place place = dlk_cpu_enter(cpu, cpu->place, r->reduced, dlk_ir_loop_index(func, rows));
    const dlk_place *before = dlk_cpu_push(cpu, &place);
    dlk_cpu_store_mapped(cpu, r->n_uses - 1, -1, 0);
    dlk_cpu_pop(cpu, before);
    dlk_cpu_loop_end(cpu, rows);
    dlk_cpu_vectors_end(cpu, &each);
    dlk_cpu_loop_end(cpu, blocks);
}

static void one_strip(row *r, dlk_strip *strip, dlk_range range)
{
    dlk_cpu *cpu = r->cpu;
    for (int stage = 0; stage < r->n_stages; stage++) {
        for (int p = 0; p < r->n_passes[stage]; p++)
            dlk_cpu_outer_pass(cpu, &r->passes[stage][p], strip, range);
        finish_stage(r, stage, strip, range);
    }
    if (cpu->nest->to == DLK_TO_STATES)
        return;
    dlk_vectors each;
    dlk_cpu_vectors_begin(cpu, strip, &each);
    store_reduced_outputs(r);
    dlk_cpu_vectors_end(cpu, &each);
    if (r->has_map)
        map_rows(r, strip, range);
}

static void outer_columns(row *r)
{
    dlk_cpu *cpu = r->cpu;
    dlk_func *func = cpu->func;
    const dlk_range columns = dlk_cpu_tile(cpu, r->kept), range = dlk_cpu_tile(cpu, r->reduced);
    dlk_strip strip = {.lanes = strip_lanes(r), .outer = cpu->place};
    const int wanted = strip_columns(r);
    strip.vectors = wanted < strip.lanes ? 1 : wanted / strip.lanes;
    strip.finished = DLK_NEW_ARRAY(func->arena, dlk_finished, cpu->prog->n_reduces);
    const int64_t step = (int64_t)strip.vectors * strip.lanes;
    const dlk_val loop = dlk_cpu_loop(cpu, columns.lo, columns.hi, step);
    strip.columns.lo = dlk_ir_loop_index(func, loop);
    strip.columns.hi = dlk_emit_smin(func, dlk_emit_add_const(func, strip.columns.lo, step), columns.hi);
    one_strip(r, &strip, range);
    dlk_cpu_loop_end(cpu, loop);
}

/* ---- Entry -------------------------------------------------------------------------------------------------------- */

static dlk_status make_stages(row *r)
{
    const dlk_prog *prog = r->cpu->prog;
    for (int i = 0; i < prog->n_reduces; i++)
        if (!prog->reduces[i].in_leaf && prog->reduces[i].level >= r->n_stages)
            r->n_stages = prog->reduces[i].level + 1;
    if (r->n_stages > STAGES_MAX || prog->n_reduces > DLK_SET_MAX)
        return dlk_fail(DLK_ERR_UNSUPPORTED,
                        "a kernel has %d reductions in %d stages; at most %d in %d stages are supported",
                        prog->n_reduces, r->n_stages, DLK_SET_MAX, STAGES_MAX);
    for (int stage = 0; stage < r->n_stages; stage++)
        r->passes[stage] = dlk_cpu_passes(r->cpu, stage, &r->n_passes[stage]);
    for (int k = 0; k < prog->n_outputs && r->cpu->nest->to == DLK_TO_RESULT; k++)
        r->has_map |= dlk_cpu_is_mapped(r->cpu, k);
    return DLK_OK;
}

static int level_count(const dlk_pass *pass)
{
    return pass->n_inner_levels ? pass->n_inner_levels : 1;
}

static void number_uses(row *r)
{
    for (int stage = 0; stage < r->n_stages; stage++)
        for (int p = 0; p < r->n_passes[stage]; p++) {
            r->passes[stage][p].use = r->n_uses;
            r->n_uses += level_count(&r->passes[stage][p]);
        }
    r->n_uses += r->has_map;
}

/* Where the row fits, values may be kept from one use to another. */
static void choose_kept(row *r)
{
    const dlk_prog *prog = r->cpu->prog;
    bool **roots = DLK_NEW_ARRAY(r->cpu->func->arena, bool *, r->n_uses);
    for (int use = 0; use < r->n_uses; use++)
        roots[use] = DLK_NEW_ARRAY(r->cpu->func->arena, bool, prog->n_nodes);
    for (int stage = 0; stage < r->n_stages; stage++)
        for (int p = 0; p < r->n_passes[stage]; p++)
            for (int level = 0; level < level_count(&r->passes[stage][p]); level++) {
                const dlk_set set = dlk_pass_set(&r->passes[stage][p], level);
                dlk_set_mark(&set, roots[set.use]);
            }
    for (int k = 0; k < prog->n_outputs && r->has_map; k++)
        for (int part = 0; part < 2 && dlk_cpu_is_mapped(r->cpu, k); part++)
            if (prog->outputs[k].part[part] != DLK_NONE)
                roots[r->n_uses - 1][prog->outputs[k].part[part]] = true;
    dlk_cpu_choose_kept(r->cpu, roots, r->n_uses);
}

static dlk_status check_levels(const row *r)
{
    const dlk_nest *nest = r->cpu->nest;
    const bool is_part = nest->to == DLK_TO_STATES || nest->from != DLK_FROM_ELEMENTS;
    if (is_part && (r->n_stages > 1 || r->has_map))
        return dlk_fail(DLK_ERR_INTERNAL, "schedule: a row kernel cannot be cut at its states");
    if (nest->has_runs && nest->to != DLK_TO_STATES)
        return dlk_fail(DLK_ERR_INTERNAL, "schedule: runs of leaves leave states, not results");
    return DLK_OK;
}

/* Runs begin at whole leaves of every tree in the program. */
static int64_t longest_leaf(const row *r)
{
    int64_t leaf = 1;
    for (int p = 0; p < r->n_passes[0]; p++)
        if (dlk_pass_leaf(&r->passes[0][p]) > leaf)
            leaf = dlk_pass_leaf(&r->passes[0][p]);
    return leaf;
}

/* Global buffers come before local ones. */
static void declare_states(dlk_cpu *cpu)
{
    for (int r = 0, component = 0; r < cpu->prog->n_reduces; r++)
        for (int k = 0; k < cpu->prog->reduces[r].n && !cpu->prog->reduces[r].in_leaf; k++, component++) {
            const dlk_buffer_role role = {DLK_BUFFER_STATE_OUT, (uint8_t)component};
            const int buffer = dlk_func_buffer(cpu->func, role, true);
            cpu->func->buffers[buffer].noalias = true;
        }
}

dlk_status dlk_cpu_reduce(dlk_cpu *cpu)
{
    const dlk_nest *nest = cpu->nest;
    row r = {.cpu = cpu, .reduced = nest->reduced_axis, .kept = 1 - nest->reduced_axis};
    DLK_TRY(make_stages(&r));
    DLK_TRY(check_levels(&r));
    if (nest->to == DLK_TO_STATES)
        declare_states(cpu);
    number_uses(&r);
    const bool is_inner = nest->lane_axis == nest->reduced_axis || nest->from == DLK_FROM_LEAVES;
    cpu->func->tiling.multiple[r.kept] = is_inner ? 1 : DLK_LANES_MAX;
    cpu->func->tiling.multiple[r.reduced] = nest->has_runs ? longest_leaf(&r) : 0;
    if (is_inner && r.has_map && nest->row_bucket != DLK_ROW_STREAM)
        choose_kept(&r);
    const dlk_place start = dlk_cpu_start(cpu);
    cpu->place = &start;
    dlk_cpu_hoist_all(cpu);
    if (is_inner)
        inner_rows(&r);
    else
        outer_columns(&r);
    return DLK_OK;
}
