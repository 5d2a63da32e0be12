/* Passes over a row: which reductions share one, and what both ways of going over a leaf have in common. */
#include "codegen/schedule_pass.h"

/* ---- Making passes ------------------------------------------------------------------------------------------------ */

static bool takes_leaves(const dlk_cpu *cpu, const dlk_reduction *reduction)
{
    return reduction->has_leaf && cpu->nest->from == DLK_FROM_ELEMENTS;
}

static void add_needed_inner(dlk_cpu *cpu, dlk_pass *pass, const dlk_reduction *reduction)
{
    const dlk_prog *prog = cpu->prog;
    bool *in = DLK_NEW_ARRAY(cpu->func->arena, bool, prog->n_nodes);
    for (int k = 0; k < reduction->n; k++)
        in[reduction->first[k]] = true;
    for (int i = prog->n_nodes - 1; i >= 0; i--) {
        dlk_walk_close_node(prog, in, i, false);
        const dlk_pnode *node = &prog->nodes[i];
        if (!in[i] || node->op != DLK_PROG_REDUCE || !prog->reduces[node->imm].in_leaf)
            continue;
        for (int k = 0; k < prog->reduces[node->imm].n; k++)
            in[prog->reduces[node->imm].first[k]] = true;
        pass->wanted_inner[node->imm] = true;
    }
}
