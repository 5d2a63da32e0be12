/* Cuts programs at their reductions. Each stage is a copy of the whole in which what earlier stages reduced is an input;
 * what it does not need is dropped. Nodes keep their meaning, so the bits are those of the uncut program. */
#include "kernels/cut.h"

#include <string.h>

#include "codegen/dtype.h"

typedef struct cutting {
    const dlk_prog *from;
    dlk_arena *arena;
    dlk_cut *cut;
    int *first_temporary; /* by reduce of `from`: that of its component 0 */
    bool *is_state;       /* by node of `from`: a VAR of a REPEAT, which may come to depend on elements */
    int n_levels;
} cutting;

typedef struct copier {
    const cutting *cutter;
    dlk_prog *to;
    dlk_ref *ref; /* by node of `from` */
    int level;    /* reductions of lower levels are inputs */
} copier;

/* A dtype whose storage is the word of `kind` as it is. */
static dlk_dtype dtype_of_kind(dlk_kind kind)
{
    static const uint8_t dtypes[DLK_KIND_COUNT] = {DLK_DTYPE_BOOL, DLK_DTYPE_I8,  DLK_DTYPE_I16, DLK_DTYPE_I32,
                                                   DLK_DTYPE_I64,  DLK_DTYPE_F32, DLK_DTYPE_F64};
    return (dlk_dtype)dtypes[kind];
}

static dlk_ref word_of(dlk_prog *prog, dlk_ref value)
{
    return prog->nodes[value].kind == DLK_P1 ? dlk_prog_encode(prog, DLK_DTYPE_BOOL, value, true, false) : value;
}

static dlk_ref value_of(dlk_prog *prog, dlk_kind kind, dlk_ref word)
{
    return kind == DLK_P1 ? dlk_prog_decode(prog, DLK_DTYPE_BOOL, word) : word;
}

/* ---- Copying ----------------------------------------------------------------------------------------------------- */

static dlk_ref mapped(const copier *c, dlk_ref ref)
{
    return ref == DLK_NONE ? DLK_NONE : c->ref[ref];
}

static const dlk_ref *mapped_list(const copier *c, const dlk_ref *list, int n)
{
    dlk_ref *out = DLK_NEW_ARRAY(c->to->arena, dlk_ref, n);
    for (int i = 0; i < n; i++)
        out[i] = mapped(c, list[i]);
    return out;
}

static dlk_ref copy_reduce(copier *c, const dlk_pnode *node)
{
    dlk_reduction reduction = c->cutter->from->reduces[node->imm];
    for (int k = 0; k < reduction.n; k++) {
        reduction.first[k] = mapped(c, reduction.first[k]);
        reduction.left[k] = mapped(c, reduction.left[k]);
        reduction.right[k] = mapped(c, reduction.right[k]);
        reduction.merge[k] = mapped(c, reduction.merge[k]);
    }
    return dlk_prog_reduce(c->to, &reduction);
}

/* A component of a reduction that an earlier stage has made. */
static dlk_ref copy_made(copier *c, int reduce, const dlk_pnode *proj)
{
    const dlk_kind kind = (dlk_kind)proj->kind;
    const int temporary = c->cutter->first_temporary[reduce] + (int)proj->imm;
    const int storage = dlk_dtypes[dtype_of_kind(kind)].storage;
    return value_of(c->to, kind, dlk_prog_input(c->to, c->cutter->from->n_inputs + temporary, 0, (dlk_kind)storage));
}

static dlk_ref copy_proj(copier *c, const dlk_pnode *node)
{
    const dlk_prog *from = c->cutter->from;
    const dlk_pnode *of = &from->nodes[node->a];
    if (of->op == DLK_PROG_REDUCE && !from->reduces[of->imm].in_leaf && from->reduces[of->imm].level < c->level)
        return copy_made(c, (int)of->imm, node);
    return dlk_prog_proj(c->to, mapped(c, node->a), (int)node->imm, (dlk_kind)node->kind);
}

static dlk_ref copy_prim(copier *c, const dlk_pnode *node)
{
    const dlk_prim prim = (dlk_prim)node->prim;
    if (dlk_prims[prim].result == 'T')
        return dlk_prog_convert(c->to, prim, (dlk_kind)node->kind, mapped(c, node->a));
    return dlk_prog_prim(c->to, prim, mapped(c, node->a), mapped(c, node->b), mapped(c, node->c));
}

static dlk_ref copy_rare(copier *c, const dlk_pnode *node)
{
    const dlk_ref *list = mapped_list(c, node->list, 2 * node->n);
    return dlk_prog_rare(c->to, mapped(c, node->a), list, list + node->n, node->n);
}

static dlk_ref copy_repeat(copier *c, const dlk_pnode *node)
{
    const int n = node->n;
    const dlk_ref *list = mapped_list(c, node->list, 3 * n + 1);
    return dlk_prog_repeat(c->to, node->imm, list, list + n, list + 2 * n, list[3 * n], n);
}

static dlk_ref copy_table(copier *c, const dlk_pnode *node)
{
    const dlk_table *table = &c->cutter->from->tables[node->imm];
    return dlk_prog_table(c->to, dlk_prog_add_table(c->to, (dlk_kind)table->kind, table->bits, table->count),
                          mapped(c, node->a));
}

static dlk_ref copy_node(copier *c, dlk_ref ref)
{
    const dlk_pnode *node = &c->cutter->from->nodes[ref];
    const dlk_kind kind = (dlk_kind)node->kind;
    switch ((dlk_prog_op)node->op) {
    case DLK_PROG_CONST:
        return dlk_prog_const(c->to, kind, (uint64_t)node->imm);
    case DLK_PROG_INPUT:
        return dlk_prog_input(c->to, (int)node->imm, node->part, kind);
    case DLK_PROG_SCALAR:
        return dlk_prog_scalar(c->to, (int)node->imm, node->part, kind);
    case DLK_PROG_COUNT:
        return dlk_prog_count(c->to);
    case DLK_PROG_LEAF_COUNT:
        return dlk_prog_leaf_count(c->to);
    case DLK_PROG_INDEX:
        return dlk_prog_index(c->to);
    case DLK_PROG_PRIM:
        return copy_prim(c, node);
    case DLK_PROG_TABLE:
        return copy_table(c, node);
    case DLK_PROG_RARE:
        return copy_rare(c, node);
    case DLK_PROG_REPEAT:
        return copy_repeat(c, node);
    case DLK_PROG_VAR:
        return dlk_prog_var(c->to, kind, c->cutter->is_state[ref] ? DLK_SCOPE_ELEMENT : (dlk_scope)node->scope);
    case DLK_PROG_REDUCE:
        return copy_reduce(c, node);
    case DLK_PROG_PROJ:
        return copy_proj(c, node);
    }
    return DLK_NONE;
}

static copier copy_from_level(const cutting *cutter, int level)
{
    const dlk_prog *from = cutter->from;
    copier c = {.cutter = cutter, .to = dlk_prog_create(cutter->arena), .level = level};
    c.ref = DLK_NEW_ARRAY(cutter->arena, dlk_ref, from->n_nodes);
    for (dlk_ref i = 0; i < from->n_nodes; i++)
        c.ref[i] = copy_node(&c, i);
    memcpy(c.to->input_dtype, from->input_dtype, sizeof from->input_dtype);
    c.to->n_inputs = from->n_inputs;
    for (int i = 0; i < cutter->cut->n_temporaries; i++)
        c.to->input_dtype[c.to->n_inputs++] = cutter->cut->temporary_dtype[i];
    return c;
}

/* ---- Stages ------------------------------------------------------------------------------------------------------ */

static dlk_stage *push_stage(const cutting *cutter, dlk_stage_kind kind)
{
    dlk_stage *stage = &cutter->cut->stages[cutter->cut->n_stages++];
    stage->kind = (uint8_t)kind;
    return stage;
}

static void add_output(copier *c, dlk_stage *stage, int number, dlk_prog_output output)
{
    stage->output[c->to->n_outputs] = (uint8_t)number;
    c->to->outputs[c->to->n_outputs++] = output;
}

/* Adds the components of reductions of `level` to the temporaries and as outputs. */
static dlk_status add_components(copier *c, dlk_stage *stage)
{
    const dlk_prog *from = c->cutter->from;
    dlk_cut *cut = c->cutter->cut;
    for (dlk_ref i = 0; i < from->n_nodes; i++) {
        const dlk_pnode *node = &from->nodes[i];
        if (node->op != DLK_PROG_REDUCE || from->reduces[node->imm].in_leaf ||
            from->reduces[node->imm].level != c->level)
            continue;
        const dlk_reduction *reduction = &from->reduces[node->imm];
        if (from->n_inputs + 2 * (cut->n_temporaries + reduction->n) > DLK_OPERANDS_MAX)
            return dlk_fail(DLK_ERR_UNSUPPORTED,
                            "an operation whose reductions have more than %d components over axes "
                            "that do not merge",
                            cut->n_temporaries);
        c->cutter->first_temporary[node->imm] = cut->n_temporaries;
        for (int k = 0; k < reduction->n; k++) {
            const dlk_kind kind = (dlk_kind)reduction->kind[k];
            const dlk_ref value = dlk_prog_proj(c->to, mapped(c, i), k, kind);
            cut->temporary_dtype[cut->n_temporaries] = (uint8_t)dtype_of_kind(kind);
            add_output(
                c, stage, cut->n_temporaries++,
                (dlk_prog_output){{word_of(c->to, value), DLK_NONE}, (uint8_t)dtype_of_kind(kind), DLK_SCOPE_ROW});
        }
    }
    return DLK_OK;
}

static dlk_status cut_level(const cutting *cutter, int level)
{
    copier c = copy_from_level(cutter, level);
    dlk_stage *stage = push_stage(cutter, DLK_STAGE_REDUCTION);
    DLK_TRY(add_components(&c, stage));
    stage->prog = dlk_prog_compact(c.to, cutter->arena);
    return DLK_OK;
}

/* The outputs of the whole program of full shape, or of reduced shape, as one map; none when there are none. */
static void cut_outputs(const cutting *cutter, dlk_stage_kind kind)
{
    const dlk_prog *from = cutter->from;
    copier c = copy_from_level(cutter, cutter->n_levels);
    dlk_stage stage = {.kind = (uint8_t)kind};
    for (int i = 0; i < from->n_outputs; i++) {
        dlk_prog_output output = from->outputs[i];
        if ((output.scope == DLK_SCOPE_ELEMENT) != (kind == DLK_STAGE_FULL))
            continue;
        output.scope = DLK_SCOPE_ELEMENT;
        output.part[0] = mapped(&c, output.part[0]);
        output.part[1] = mapped(&c, output.part[1]);
        add_output(&c, &stage, i, output);
    }
    if (!c.to->n_outputs)
        return;
    stage.prog = dlk_prog_compact(c.to, cutter->arena);
    *push_stage(cutter, kind) = stage;
}

static void find_states(cutting *cutter)
{
    const dlk_prog *from = cutter->from;
    for (dlk_ref i = 0; i < from->n_nodes; i++)
        for (int k = 0; from->nodes[i].op == DLK_PROG_REPEAT && k < from->nodes[i].n; k++)
            cutter->is_state[from->nodes[i].list[from->nodes[i].n + k]] = true;
}

dlk_status dlk_prog_cut(const dlk_prog *prog, dlk_arena *arena, dlk_cut *out)
{
    memset(out, 0, sizeof *out);
    cutting cutter = {.from = prog, .arena = arena, .cut = out};
    cutter.first_temporary = DLK_NEW_ARRAY(arena, int, prog->n_reduces);
    cutter.is_state = DLK_NEW_ARRAY(arena, bool, prog->n_nodes);
    for (int i = 0; i < prog->n_reduces; i++)
        if (!prog->reduces[i].in_leaf && prog->reduces[i].level >= cutter.n_levels)
            cutter.n_levels = prog->reduces[i].level + 1;
    find_states(&cutter);
    out->stages = DLK_NEW_ARRAY(arena, dlk_stage, cutter.n_levels + 2);
    for (int level = 0; level < cutter.n_levels; level++)
        DLK_TRY(cut_level(&cutter, level));
    if (prog->n_inputs + out->n_temporaries + prog->n_outputs > DLK_OPERANDS_MAX)
        return dlk_fail(DLK_ERR_UNSUPPORTED,
                        "an operation of %d operands whose reductions have %d components over axes "
                        "that do not merge; at most %d together",
                        prog->n_inputs + prog->n_outputs, out->n_temporaries, DLK_OPERANDS_MAX);
    cut_outputs(&cutter, DLK_STAGE_FULL);
    cut_outputs(&cutter, DLK_STAGE_REDUCED);
    return DLK_OK;
}
