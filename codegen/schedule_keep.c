/* Values of a row that are worth a trip through cache: what is expensive and needed by more than one going over the row
 * (exp(x - m) by a sum and by the map behind it) is written to a private row by the first and read by the others. */
#include "codegen/schedule_pass.h"

#define WORTH_KEEPING 12     /* weight */
#define KEPT_BYTES    131072 /* of all that is kept of a row */

struct dlk_keep {
    dlk_ref node;
    int slot;
    bool *used; /* by use */
    int first;  /* the use that computes it */
};

/* ---- Choosing ----------------------------------------------------------------------------------------------------- */

static int weight_of(dlk_cpu *cpu, dlk_ref node)
{
    bool *in = DLK_NEW_ARRAY(cpu->func->arena, bool, cpu->prog->n_nodes);
    in[node] = true;
    dlk_walk_close(cpu->prog, in, true);
    return dlk_cpu_cost(cpu, in).weight;
}

static bool can_be_kept(dlk_cpu *cpu, dlk_ref ref)
{
    const dlk_pnode *node = &cpu->prog->nodes[ref];
    if (node->scope != DLK_SCOPE_ELEMENT || node->kind == DLK_P1)
        return false;
    if (node->op != DLK_PROG_PRIM && node->op != DLK_PROG_TABLE && node->op != DLK_PROG_PROJ)
        return false;
    int64_t bytes = (int64_t)DLK_ROW_CACHED_MAX * dlk_kind_bytes(node->kind);
    for (int k = 0; k < cpu->n_kept; k++) {
        bytes += cpu->slot[cpu->kept[k].slot].bytes;
        if (cpu->kept[k].node == ref)
            return false;
    }
    return bytes <= KEPT_BYTES && weight_of(cpu, ref) >= WORTH_KEEPING;
}

static int row_slot(dlk_cpu *cpu, dlk_kind kind)
{
    dlk_slot *slot = &cpu->slot[cpu->n_slots];
    *slot = (dlk_slot){.kind = kind, .parts = 1, .align = dlk_kind_bytes(kind)};
    slot->buffer = dlk_func_local(cpu->func, DLK_SPACE_PRIVATE, kind, DLK_ROW_CACHED_MAX);
    slot->bytes = (int64_t)DLK_ROW_CACHED_MAX * dlk_kind_bytes(kind);
    slot->stride[cpu->nest->reduced_axis] = DLK_STRIDE_UNIT;
    slot->stride[1 - cpu->nest->reduced_axis] = DLK_STRIDE_ZERO;
    return cpu->n_slots++;
}

static void keep(dlk_cpu *cpu, dlk_ref node, bool *const *cone, int n_uses)
{
    struct dlk_keep *kept = &cpu->kept[cpu->n_kept++];
    *kept = (struct dlk_keep){.node = node, .first = -1};
    kept->used = DLK_NEW_ARRAY(cpu->func->arena, bool, n_uses);
    kept->slot = row_slot(cpu, cpu->prog->nodes[node].kind);
    for (int use = 0; use < n_uses; use++) {
        kept->used[use] = cone[use][node];
        if (kept->first < 0 && cone[use][node])
            kept->first = use;
    }
}

static void cover(void *context, dlk_ref operand)
{
    ((bool *)context)[operand] = true;
}

/* The greatest nodes that both uses need. */
static void keep_shared(dlk_cpu *cpu, bool *const *cone, int n_uses, int a, int b)
{
    const dlk_prog *prog = cpu->prog;
    bool *covered = DLK_NEW_ARRAY(cpu->func->arena, bool, prog->n_nodes);
    for (int i = prog->n_nodes - 1; i >= 0; i--) {
        if (!cone[a][i] || !cone[b][i])
            continue;
        if (!covered[i] && cpu->n_kept < DLK_KEPT_MAX && can_be_kept(cpu, i))
            keep(cpu, i, cone, n_uses);
        if (prog->nodes[i].op != DLK_PROG_REDUCE)
            dlk_prog_operands(prog, i, cover, covered);
    }
}

void dlk_cpu_choose_kept(dlk_cpu *cpu, bool *const *roots, int n_uses)
{
    cpu->kept = DLK_NEW_ARRAY(cpu->func->arena, struct dlk_keep, DLK_KEPT_MAX);
    for (int use = 0; use < n_uses; use++)
        dlk_walk_close(cpu->prog, roots[use], true);
    for (int a = 0; a < n_uses; a++)
        for (int b = a + 1; b < n_uses; b++)
            keep_shared(cpu, roots, n_uses, a, b);
}

/* ---- Using -------------------------------------------------------------------------------------------------------- */

void dlk_cpu_recall(dlk_cpu *cpu, int use)
{
    for (int k = 0; k < cpu->n_kept; k++) {
        const struct dlk_keep *kept = &cpu->kept[k];
        dlk_val words[2];
        if (!kept->used[use] || kept->first >= use)
            continue;
        dlk_cpu_load(cpu, kept->slot, cpu->place, words);
        dlk_walk_bind(cpu->walk, kept->node, words[0]);
    }
}

void dlk_cpu_keep(dlk_cpu *cpu, int use)
{
    for (int k = 0; k < cpu->n_kept; k++) {
        const struct dlk_keep *kept = &cpu->kept[k];
        if (kept->first != use)
            continue;
        const dlk_val words[2] = {dlk_walk_vector(cpu->walk, kept->node), DLK_NONE};
        dlk_cpu_store(cpu, kept->slot, cpu->place, words, 0);
    }
}
