/* Indices inside a leaf. An argmax carries a 64-bit index beside each value, twice the width of the values it compares.
 * Where a reduction only compares and chooses indices, any numbering in the same order will do, so within a leaf they
 * are carried as 32-bit numbers of elements and made whole when the leaf is done. */
#include "codegen/schedule_pass.h"

#define NOTHING INT32_MAX /* the number of an absent element; its index is INT64_MAX */

/* ---- Which components --------------------------------------------------------------------------------------------- */

static bool is_const(const dlk_prog *prog, dlk_ref ref, int64_t value)
{
    return prog->nodes[ref].op == DLK_PROG_CONST && prog->nodes[ref].imm == value;
}

/* INDEX, or INDEX where a mask selects the element. */
static bool is_index(const dlk_prog *prog, dlk_ref ref)
{
    const dlk_pnode *node = &prog->nodes[ref];
    if (node->op == DLK_PROG_INDEX)
        return true;
    return node->op == DLK_PROG_PRIM && node->prim == DLK_PRIM_SELECT && prog->nodes[node->b].op == DLK_PROG_INDEX &&
           is_const(prog, node->c, INT64_MAX);
}

typedef struct uses {
    const bool *is_index; /* by node: its value is one of the two indices */
    bool any;
} uses;

static void find_use(void *context, dlk_ref operand)
{
    uses *u = context;
    u->any |= u->is_index[operand];
}

/* True when `node` keeps the order of indices the only thing that matters; is_index[ref] is set when it is one itself. */
static bool keeps_order(const dlk_prog *prog, dlk_ref ref, bool *is_index_)
{
    const dlk_pnode *node = &prog->nodes[ref];
    uses u = {is_index_, false};
    dlk_prog_operands(prog, ref, find_use, &u);
    if (!u.any)
        return true;
    if (node->op != DLK_PROG_PRIM)
        return false;
    switch ((dlk_prim)node->prim) {
    case DLK_PRIM_SELECT:
        is_index_[ref] = is_index_[node->b] && is_index_[node->c];
        return is_index_[ref];
    case DLK_PRIM_SMIN:
    case DLK_PRIM_SMAX:
        is_index_[ref] = is_index_[node->a] && is_index_[node->b];
        return is_index_[ref];
    case DLK_PRIM_SLT:
    case DLK_PRIM_SLE:
    case DLK_PRIM_EQ:
    case DLK_PRIM_NE:
        return is_index_[node->a] && is_index_[node->b];
    default:
        return false;
    }
}

static bool only_orders(dlk_cpu *cpu, const dlk_reduction *reduction, int k)
{
    const dlk_prog *prog = cpu->prog;
    bool *in = DLK_NEW_ARRAY(cpu->func->arena, bool, prog->n_nodes);
    bool *is_index_ = DLK_NEW_ARRAY(cpu->func->arena, bool, prog->n_nodes);
    for (int m = 0; m < reduction->n; m++)
        in[reduction->merge[m]] = true;
    dlk_walk_close(prog, in, false);
    is_index_[reduction->left[k]] = is_index_[reduction->right[k]] = true;
    for (int i = 0; i < prog->n_nodes; i++)
        if (in[i] && !is_index_[i] && !keeps_order(prog, i, is_index_))
            return false;
    for (int m = 0; m < reduction->n; m++)
        if (is_index_[reduction->merge[m]] != (m == k))
            return false;
    return true;
}

void dlk_tally_narrow(dlk_cpu *cpu, dlk_tally *tally)
{
    const dlk_reduction *reduction = tally->reduction;
    dlk_reduction *narrow = dlk_arena_copy(cpu->func->arena, reduction, sizeof *reduction);
    tally->rows = narrow;
    if (tally->takes_leaves || cpu->nest->from != DLK_FROM_ELEMENTS)
        return;
    for (int k = 0; k < reduction->n; k++) {
        const bool identity_fits = !reduction->has_identity || reduction->identity[k] == (uint64_t)INT64_MAX;
        if (!is_index(cpu->prog, reduction->first[k]) || !identity_fits || !only_orders(cpu, reduction, k))
            continue;
        tally->is_narrow[k] = true;
        narrow->kind[k] = DLK_I32;
        narrow->identity[k] = (uint64_t)NOTHING;
    }
}

/* ---- Numbers and indices ------------------------------------------------------------------------------------------ */

dlk_val dlk_tally_number(dlk_cpu *cpu, const dlk_tally *tally, int k)
{
    const dlk_pnode *node = &cpu->prog->nodes[tally->reduction->first[k]];
    if (node->op == DLK_PROG_INDEX)
        return cpu->number;
    const dlk_type type = dlk_val_type(cpu->func, cpu->number);
    const dlk_val nothing = dlk_ir_const(cpu->func, type, (uint64_t)NOTHING);
    return dlk_emit_select(cpu->func, dlk_walk_value(cpu->walk, node->a), cpu->number, nothing);
}

static dlk_val index_of(dlk_cpu *cpu, dlk_val number, dlk_val first, int64_t step)
{
    dlk_func *func = cpu->func;
    const dlk_type narrow = dlk_val_type(func, number);
    const int lanes = narrow.lanes;
    const dlk_val unit = dlk_emit_role(func, DLK_UNIFORM_INDEX_STRIDE, cpu->nest->reduced_axis);
    const dlk_val stride = dlk_walk_widen(cpu->walk, dlk_emit_mul_const(func, unit, step), lanes);
    const dlk_val distance = dlk_emit_mul(func, dlk_ir_convert(func, DLK_PRIM_SEXT, DLK_I64, number), stride);
    const dlk_val nothing = dlk_ir_const(func, narrow, (uint64_t)NOTHING);
    const dlk_val absent = dlk_ir_prim(func, DLK_PRIM_EQ, number, nothing, DLK_NONE);
    const dlk_val highest = dlk_ir_const(func, (dlk_type){DLK_I64, (uint8_t)lanes}, (uint64_t)INT64_MAX);
    return dlk_emit_select(func, absent, highest,
                           dlk_emit_add(func, dlk_walk_widen(cpu->walk, first, lanes), distance));
}

dlk_state dlk_tally_widen(dlk_cpu *cpu, const dlk_tally *tally, dlk_state state, dlk_val at, int64_t step)
{
    for (int k = 0; k < tally->reduction->n; k++) {
        if (!tally->is_narrow[k])
            continue;
        const dlk_place place = dlk_cpu_enter(cpu, cpu->place, cpu->nest->reduced_axis, at);
        state.part[k] = index_of(cpu, state.part[k], dlk_cpu_index(cpu, &place), step);
    }
    return state;
}
