/* Passes over a row: which reductions share one, and what both ways of going over a leaf have in common. */
#include "codegen/schedule_pass.h"

/* ---- Making passes ------------------------------------------------------------------------------------------------ */

typedef struct marks {
    const dlk_prog *prog;
    bool *in;
} marks;

static void mark(void *context, dlk_ref ref)
{
    const marks *m = context;
    const dlk_pnode *node = &m->prog->nodes[ref];
    /* What is reduced over rows is done before: nothing of it is computed in a leaf. */
    if (node->op != DLK_PROG_REDUCE || m->prog->reduces[node->imm].in_leaf)
        m->in[ref] = true;
}

static dlk_tally make_tally(dlk_cpu *cpu, int index)
{
    const dlk_reduction *reduction = &cpu->prog->reduces[index];
    dlk_tally tally = {.index = index, .reduction = reduction};
    tally.takes_leaves = reduction->has_leaf && cpu->nest->from == DLK_FROM_ELEMENTS;
    dlk_tally_narrow(cpu, &tally);
    return tally;
}

/* Marks the in_leaf reductions that the leaf reducers of a pass need. */
static void find_inner(dlk_cpu *cpu, dlk_pass *pass)
{
    const dlk_prog *prog = cpu->prog;
    marks m = {prog, DLK_NEW_ARRAY(cpu->func->arena, bool, prog->n_nodes)};
    for (int t = 0; t < pass->n_tallies; t++)
        for (int k = 0; k < pass->tally[t].reduction->n && pass->tally[t].takes_leaves; k++)
            mark(&m, pass->tally[t].reduction->first[k]);
    pass->inner = DLK_NEW_ARRAY(cpu->func->arena, dlk_tally, prog->n_reduces);
    for (int i = prog->n_nodes - 1; i >= 0; i--) {
        if (!m.in[i])
            continue;
        dlk_prog_operands(prog, i, mark, &m);
        if (prog->nodes[i].op != DLK_PROG_REDUCE)
            continue;
        const dlk_tally tally = make_tally(cpu, (int)prog->nodes[i].imm);
        pass->inner[pass->n_inner++] = tally;
        if (tally.reduction->level >= pass->n_inner_levels)
            pass->n_inner_levels = tally.reduction->level + 1;
    }
}

static dlk_pass *pass_of(dlk_cpu *cpu, dlk_pass *passes, int *n, const dlk_reduction *reduction)
{
    const int lanes = dlk_reduction_lanes(reduction);
    for (int p = 0; p < *n; p++)
        if (reduction->is_free || passes[p].lanes == lanes)
            return &passes[p];
    dlk_pass *pass = &passes[(*n)++];
    *pass = (dlk_pass){.lanes = lanes, .rows = DLK_LEAF_ROWS, .is_free = reduction->is_free};
    pass->tally = DLK_NEW_ARRAY(cpu->func->arena, dlk_tally, cpu->prog->n_reduces);
    return pass;
}

#define FREE_ROWS 128

/* Nothing asks for the tree's leaves where every order will do: as many lanes as suit the widest component, several
 * registers' worth for independent chains, and more rows. */
static void choose_free_leaf(dlk_cpu *cpu, dlk_pass *pass)
{
    const dlk_set set = dlk_pass_set(pass, 0);
    const dlk_cost cost = dlk_set_cost(cpu, &set);
    int lanes = dlk_cpu_lanes(cpu, cost);
    if (cost.has_logic && cost.weight <= DLK_CPU_HEAVY)
        lanes *= 4;
    pass->lanes = lanes < 8 ? 8 : lanes > DLK_LANES_MAX ? DLK_LANES_MAX : lanes;
    if (cpu->nest->lane_axis == cpu->nest->reduced_axis)
        pass->rows = FREE_ROWS;
}

/* Reductions with a tree first, so that free ones join a pass that there is anyway. */
dlk_pass *dlk_cpu_passes(dlk_cpu *cpu, int level, int *n)
{
    const dlk_prog *prog = cpu->prog;
    dlk_pass *passes = DLK_NEW_ARRAY(cpu->func->arena, dlk_pass, prog->n_reduces);
    *n = 0;
    for (int is_free = 0; is_free < 2; is_free++)
        for (int r = 0; r < prog->n_reduces; r++) {
            const dlk_reduction *reduction = &prog->reduces[r];
            if (reduction->in_leaf || reduction->level != level || reduction->is_free != is_free)
                continue;
            dlk_pass *pass = pass_of(cpu, passes, n, reduction);
            pass->tally[pass->n_tallies++] = make_tally(cpu, r);
        }
    for (int p = 0; p < *n; p++) {
        find_inner(cpu, &passes[p]);
        if (passes[p].is_free && passes[p].n_inner == 0)
            choose_free_leaf(cpu, &passes[p]);
    }
    return passes;
}

dlk_set dlk_pass_set(dlk_pass *pass, int level)
{
    dlk_set set = {.has_identity = true, .use = pass->use + level};
    for (int t = 0; t < pass->n_tallies && level == 0; t++)
        if (!pass->tally[t].takes_leaves)
            set.tally[set.n++] = &pass->tally[t];
    for (int t = 0; t < pass->n_inner; t++)
        if (pass->inner[t].reduction->level == level)
            set.tally[set.n++] = &pass->inner[t];
    for (int t = 0; t < set.n; t++)
        set.has_identity &= set.tally[t]->reduction->has_identity;
    return set;
}

dlk_set dlk_pass_results(dlk_cpu *cpu, const dlk_pass *pass)
{
    dlk_set set = {.n = pass->n_tallies, .use = -1};
    dlk_tally *whole = dlk_arena_copy(cpu->func->arena, pass->tally, sizeof *whole * (size_t)pass->n_tallies);
    for (int t = 0; t < set.n; t++) {
        whole[t].rows = whole[t].reduction;
        set.tally[t] = &whole[t];
    }
    return set;
}

void dlk_set_mark(const dlk_set *set, bool *in)
{
    for (int t = 0; t < set->n; t++)
        for (int k = 0; k < set->tally[t]->reduction->n; k++)
            in[set->tally[t]->reduction->first[k]] = true;
}

/* Joins have the width of the state. */
dlk_cost dlk_set_cost(dlk_cpu *cpu, const dlk_set *set)
{
    bool *first = DLK_NEW_ARRAY(cpu->func->arena, bool, cpu->prog->n_nodes);
    bool *merge = DLK_NEW_ARRAY(cpu->func->arena, bool, cpu->prog->n_nodes);
    int widest = 1;
    for (int t = 0; t < set->n; t++)
        for (int k = 0; k < set->tally[t]->reduction->n; k++) {
            const dlk_reduction *rows = set->tally[t]->rows;
            merge[rows->merge[k]] = true;
            first[rows->first[k]] |= !set->tally[t]->is_narrow[k];
            if (dlk_kind_bytes(rows->kind[k]) > widest)
                widest = dlk_kind_bytes(rows->kind[k]);
        }
    dlk_walk_close(cpu->prog, first, true);
    dlk_walk_close(cpu->prog, merge, true);
    dlk_cost joins = dlk_cpu_cost(cpu, merge);
    joins.widest = widest;
    return dlk_cost_join(dlk_cpu_cost(cpu, first), joins);
}

/* ---- Elements of a set -------------------------------------------------------------------------------------------- */

int dlk_cpu_first_component(const dlk_prog *prog, int index)
{
    int n = 0;
    for (int r = 0; r < index; r++)
        n += prog->reduces[r].in_leaf ? 0 : prog->reduces[r].n;
    return n;
}

static dlk_state load_state(dlk_cpu *cpu, const dlk_tally *tally)
{
    const int first = cpu->first_state + dlk_cpu_first_component(cpu->prog, tally->index);
    dlk_state out = {.present = DLK_NONE};
    for (int k = 0; k < tally->reduction->n; k++) {
        dlk_val words[2];
        dlk_cpu_load(cpu, first + k, cpu->place, words);
        out.part[k] = words[0];
        if (tally->reduction->kind[k] == DLK_P1)
            out.part[k] = dlk_ir_convert(cpu->func, DLK_PRIM_ITRUNC, DLK_P1, words[0]);
    }
    return out;
}

dlk_state dlk_cpu_leaf_state(dlk_cpu *cpu, const dlk_tally *tally)
{
    dlk_state out = {.present = DLK_NONE};
    for (int k = 0; k < tally->reduction->n; k++)
        out.part[k] = dlk_walk_vector(cpu->walk, tally->reduction->first[k]);
    return out;
}

static dlk_state element_state(dlk_cpu *cpu, const dlk_tally *tally)
{
    dlk_state out = {.present = DLK_NONE};
    for (int k = 0; k < tally->reduction->n; k++)
        out.part[k] = tally->is_narrow[k] ? dlk_tally_number(cpu, tally, k)
                                          : dlk_walk_vector(cpu->walk, tally->reduction->first[k]);
    return out;
}

void dlk_set_elements(dlk_cpu *cpu, const dlk_set *set, dlk_state *out)
{
    dlk_cpu_recall(cpu, set->use);
    for (int t = 0; t < set->n; t++) {
        const bool is_loaded = cpu->nest->from != DLK_FROM_ELEMENTS && !set->tally[t]->reduction->in_leaf;
        out[t] = is_loaded ? load_state(cpu, set->tally[t]) : element_state(cpu, set->tally[t]);
    }
    dlk_cpu_keep(cpu, set->use);
}

void dlk_set_join(dlk_cpu *cpu, const dlk_set *set, dlk_state *states, const dlk_state *right)
{
    for (int t = 0; t < set->n; t++)
        states[t] = dlk_state_join(cpu->walk, set->tally[t]->rows, &states[t], &right[t]);
}

void dlk_set_nothing(dlk_cpu *cpu, const dlk_set *set, int lanes, dlk_state *out)
{
    for (int t = 0; t < set->n; t++)
        out[t] = dlk_state_nothing(cpu->walk, set->tally[t]->rows, lanes);
}

static bool carries_presence(const dlk_set *set, int t, bool with_presence)
{
    return with_presence && !set->tally[t]->reduction->has_identity;
}

int dlk_set_pack(dlk_cpu *cpu, const dlk_set *set, bool with_presence, const dlk_state *states, dlk_val *values)
{
    int n = 0;
    for (int t = 0; t < set->n; t++)
        n += dlk_state_pack(cpu->walk, set->tally[t]->rows, &states[t], carries_presence(set, t, with_presence),
                            values + n);
    return n;
}

void dlk_set_unpack(const dlk_set *set, bool with_presence, const dlk_val *values, dlk_state *states)
{
    int n = 0;
    for (int t = 0; t < set->n; t++) {
        const bool presence = carries_presence(set, t, with_presence);
        states[t] = dlk_state_unpack(set->tally[t]->rows, presence, values + n);
        n += set->tally[t]->reduction->n + presence;
    }
}

/* ---- Regions ------------------------------------------------------------------------------------------------------ */

void dlk_cpu_hoist_all(dlk_cpu *cpu)
{
    const dlk_prog *prog = cpu->prog;
    for (int r = 0; r < prog->n_reduces && cpu->nest->from == DLK_FROM_ELEMENTS; r++)
        for (int k = 0; k < prog->reduces[r].n; k++)
            dlk_walk_hoist(cpu->walk, prog->reduces[r].first[k]);
    if (cpu->nest->to == DLK_TO_RESULT)
        dlk_cpu_hoist_outputs(cpu);
}

void dlk_cpu_bind_leaf_count(dlk_cpu *cpu, dlk_val count)
{
    for (int i = 0; i < cpu->prog->n_nodes; i++)
        if (cpu->prog->nodes[i].op == DLK_PROG_LEAF_COUNT)
            dlk_walk_bind(cpu->walk, i, count);
}
