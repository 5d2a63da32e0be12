/* Calls of reducers. What where=, initial= and empty tensors mean is lowered here to ordinary nodes: a masked element's
 * state is the identity, an initial value is joined after the reduction, and nothing at all is a choice by the count. Where
 * a masked state has no identity, or one that is not the answer for nothing, a predicate "something was joined" becomes one
 * more component of it. */
#include "kernels/eval.h"

#include <string.h>

typedef struct state {
    dlk_value shape; /* of one element or leaf: numbers in tuples */
    dlk_value leaves[DLK_STATE_MAX];
    int n_leaves;
    dlk_ref part[DLK_STATE_MAX]; /* its components */
    uint8_t kind[DLK_STATE_MAX];
    int n;
} state;

typedef struct reduction {
    const dlk_def *def;
    const dlk_expr *at; /* the call */
    const dlk_scope_entry *scope;
    state first;
    bool has_identity, has_empty, has_presence;
    dlk_ref identity[DLK_STATE_MAX], empty[DLK_STATE_MAX];
    dlk_reduction out;
} reduction;

/* ---- States as components ---------------------------------------------------------------------------------------------------- */

static int components(dlk_eval *eval, const dlk_expr *at, const dlk_value *leaves, int n, dlk_ref *out)
{
    int count = 0;
    for (int i = 0; i < n; i++)
        for (int part = 0; part < dlk_dtypes[leaves[i].dtype].parts; part++) {
            if (count == DLK_STATE_MAX)
                dlk_eval_fail(eval, at, DLK_ERR_SYNTAX, "a state has more than %d numbers", DLK_STATE_MAX);
            out[count++] = dlk_value_part(eval, &leaves[i], part);
        }
    return count;
}

static void set_state(dlk_eval *eval, const dlk_expr *at, state *s, dlk_value value)
{
    s->n_leaves = dlk_value_flatten(eval, at, &value, s->leaves, DLK_STATE_MAX);
    for (int i = 0; i < s->n_leaves; i++)
        s->leaves[i] = dlk_value_settle(eval, at, s->leaves[i]);
    s->n = components(eval, at, s->leaves, s->n_leaves, s->part);
    for (int k = 0; k < s->n; k++)
        s->kind[k] = eval->prog->nodes[s->part[k]].kind;
    const dlk_value *next = s->leaves;
    s->shape = dlk_value_rebuild(eval, &value, &next);
}

/* The state whose components are `parts`. */
static dlk_value from_components(dlk_eval *eval, const state *s, const dlk_ref *parts)
{
    dlk_value leaves[DLK_STATE_MAX];
    int k = 0;
    for (int i = 0; i < s->n_leaves; i++) {
        leaves[i] = dlk_value_data(s->leaves[i].dtype, DLK_NONE, DLK_NONE);
        for (int part = 0; part < dlk_dtypes[s->leaves[i].dtype].parts; part++)
            leaves[i].part[part] = parts[k++];
    }
    const dlk_value *next = leaves;
    return dlk_value_rebuild(eval, &s->shape, &next);
}

/* Components of `value`, which must have the state's form and types. */
static void to_components(dlk_eval *eval, const dlk_expr *at, const state *s, dlk_value value, const char *what,
                          dlk_ref *out)
{
    dlk_value leaves[DLK_STATE_MAX];
    value = dlk_value_conform(eval, at, value, &s->shape, what);
    dlk_value_flatten(eval, at, &value, leaves, DLK_STATE_MAX);
    components(eval, at, leaves, s->n_leaves, out);
}

/* ---- Clauses ---------------------------------------------------------------------------------------------------------------------- */

/* The state of one element, or of one leaf by reductions over it. */
static dlk_value eval_first(dlk_eval *eval, const reduction *r)
{
    const bool in_leaf = eval->in_leaf, in_first = eval->in_first;
    eval->in_first = true;
    if (r->def->reducer.is_leaf) {
        eval->in_leaf = true;
        eval->tree_kind = r->out.tree_kind;
        eval->tree_parts = r->out.tree_parts;
    }
    const dlk_value value = dlk_eval_expr(eval, r->def->reducer.first, r->scope);
    eval->in_leaf = in_leaf;
    eval->in_first = in_first;
    return value;
}

static void check_first_scope(dlk_eval *eval, const reduction *r)
{
    uint8_t scope = DLK_SCOPE_UNIFORM;
    for (int k = 0; k < r->first.n; k++)
        if (eval->prog->nodes[r->first.part[k]].scope > scope)
            scope = eval->prog->nodes[r->first.part[k]].scope;
    if (r->def->reducer.is_leaf && scope == DLK_SCOPE_ELEMENT)
        dlk_eval_fail(eval, r->def->reducer.first, DLK_ERR_SYNTAX,
                      "the state of a leaf depends on single elements; reduce them: sum(...), max(...)");
    if (scope != (r->def->reducer.is_leaf ? DLK_SCOPE_LEAF : DLK_SCOPE_ELEMENT))
        dlk_eval_fail(eval, r->at, DLK_ERR_SYNTAX,
                      "%s reduces a value that is the same for all elements; expected one that depends on an input",
                      r->def->name);
}

/* A clause of constants. */
static bool eval_constant_clause(dlk_eval *eval, const reduction *r, const dlk_expr *clause, const char *what,
                                 dlk_ref *out)
{
    if (!clause)
        return false;
    to_components(eval, clause, &r->first, dlk_eval_expr(eval, clause, r->scope), what, out);
    for (int k = 0; k < r->first.n; k++)
        if (eval->prog->nodes[out[k]].op != DLK_PROG_CONST)
            dlk_eval_fail(eval, clause, DLK_ERR_SYNTAX, "%s is not constant", what);
    return true;
}

static dlk_value merge_states(dlk_eval *eval, const reduction *r, dlk_value left, dlk_value right)
{
    const dlk_reducer *reducer = &r->def->reducer;
    const char *outer = eval->no_reduction;
    eval->no_reduction = "the merge clause";
    const dlk_scope_entry *scope = dlk_eval_bind(eval, &reducer->left, left, r->scope);
    scope = dlk_eval_bind(eval, &reducer->right, right, scope);
    const dlk_value value = dlk_eval_expr(eval, reducer->merge, scope);
    eval->no_reduction = outer;
    return value;
}

/* Formals of merges may be shared: each merge gives them values of its own. */
static dlk_ref formal(dlk_eval *eval, dlk_kind kind, int side, int k)
{
    dlk_ref *var = &eval->formals[kind][side][k];
    if (*var == 0)
        *var = dlk_prog_var(eval->prog, kind, DLK_SCOPE_ELEMENT) + 1;
    return *var - 1;
}

static void eval_merge(dlk_eval *eval, reduction *r)
{
    const state *s = &r->first;
    for (int k = 0; k < s->n; k++) {
        r->out.left[k] = formal(eval, s->kind[k], 0, k);
        r->out.right[k] = formal(eval, s->kind[k], 1, k);
    }
    const dlk_value merged =
        merge_states(eval, r, from_components(eval, s, r->out.left), from_components(eval, s, r->out.right));
    to_components(eval, r->def->reducer.merge, s, merged, "the merged state", r->out.merge);
}

/* ---- Masks ------------------------------------------------------------------------------------------------------------------------- */

static dlk_ref choose(dlk_eval *eval, dlk_ref p, dlk_ref a, dlk_ref b)
{
    return dlk_prog_prim(eval->prog, DLK_PRIM_SELECT, p, a, b);
}

/* Whether any element of the leaf is selected. */
static dlk_ref leaf_presence(dlk_eval *eval, const reduction *r)
{
    dlk_reduction any = {.n = 1, .in_leaf = true, .is_free = true, .has_identity = true, .name = "any"};
    any.tree_kind = r->out.tree_kind;
    any.tree_parts = r->out.tree_parts;
    any.kind[0] = DLK_P1;
    any.first[0] = eval->mask;
    any.left[0] = formal(eval, DLK_P1, 0, 0);
    any.right[0] = formal(eval, DLK_P1, 1, 0);
    any.merge[0] = dlk_prog_prim(eval->prog, DLK_PRIM_OR, any.left[0], any.right[0], DLK_NONE);
    return dlk_prog_proj(eval->prog, dlk_prog_reduce(eval->prog, &any), 0, DLK_P1);
}

static bool constants_equal(const dlk_ref *a, const dlk_ref *b, int n)
{
    return memcmp(a, b, sizeof *a * (size_t)n) == 0;
}

/* A leaf of which nothing is selected has no state, whatever its formula gives; and the identity may not be the answer for
 * nothing at all (a sum's is -0, of nothing +0). */
static bool needs_presence(const dlk_eval *eval, const reduction *r)
{
    if (r->def->reducer.is_leaf || !r->has_identity)
        return true;
    if (eval->in_leaf || eval->has_initial)
        return false;
    return !r->has_empty || !constants_equal(r->identity, r->empty, r->first.n);
}

static void add_presence(dlk_eval *eval, reduction *r)
{
    const int n = r->first.n;
    if (n == DLK_STATE_MAX)
        dlk_eval_fail(eval, r->at, DLK_ERR_SYNTAX, "%s: a masked state has more than %d numbers", r->def->name,
                      DLK_STATE_MAX - 1);
    const dlk_ref left = formal(eval, DLK_P1, 0, n), right = formal(eval, DLK_P1, 1, n);
    for (int k = 0; k < n && !r->has_identity; k++)
        r->out.merge[k] = choose(eval, left, choose(eval, right, r->out.merge[k], r->out.left[k]), r->out.right[k]);
    r->has_presence = true;
    r->out.left[n] = left;
    r->out.right[n] = right;
    r->out.merge[n] = dlk_prog_prim(eval->prog, DLK_PRIM_OR, left, right, DLK_NONE);
    r->out.kind[n] = DLK_P1;
    r->out.identity[n] = 0;
    r->out.first[n] = r->def->reducer.is_leaf ? leaf_presence(eval, r) : eval->mask;
    r->out.n++;
    r->out.has_identity = true;
}

static void apply_mask(dlk_eval *eval, reduction *r)
{
    const bool has_presence = needs_presence(eval, r);
    if (has_presence)
        add_presence(eval, r);
    const dlk_ref selected = has_presence ? r->out.first[r->first.n] : eval->mask;
    for (int k = 0; k < r->first.n && r->has_identity; k++)
        r->out.first[k] = choose(eval, selected, r->first.part[k], r->identity[k]);
}

/* ---- Results ------------------------------------------------------------------------------------------------------------------------- */

/* What stands for nothing at all, where that is not what joining nothing leaves. */
static void choose_empty(dlk_eval *eval, reduction *r, dlk_ref reduce, dlk_ref *parts)
{
    const int n = r->first.n;
    dlk_ref something;
    if (r->has_presence) { /* and something's answer, as the caller checked */
        something = dlk_prog_proj(eval->prog, reduce, n, DLK_P1);
    } else {
        if (!r->has_empty || (r->has_identity && constants_equal(r->identity, r->empty, n)))
            return;
        const dlk_ref zero = dlk_prog_const(eval->prog, DLK_I64, 0);
        something = dlk_prog_prim(eval->prog, DLK_PRIM_NE, dlk_prog_count(eval->prog), zero, DLK_NONE);
    }
    for (int k = 0; k < n && r->has_empty; k++)
        parts[k] = choose(eval, something, parts[k], r->empty[k]);
}

static dlk_value join_initial(dlk_eval *eval, const reduction *r, dlk_value value)
{
    if (!r->has_identity || r->first.shape.kind == DLK_VALUE_TUPLE)
        dlk_eval_fail(eval, r->at, DLK_ERR_INVALID, "%s takes no initial value", r->def->name);
    const dlk_value initial = dlk_value_convert(eval, r->at, eval->initial, r->first.shape.dtype);
    const dlk_value joined = merge_states(eval, r, initial, value);
    eval->joined = dlk_value_conform(eval, r->def->reducer.merge, joined, &r->first.shape, "the merged state");
    eval->n_joined++;
    return eval->joined;
}

static dlk_value finish(dlk_eval *eval, const reduction *r, dlk_value value)
{
    const dlk_reducer *reducer = &r->def->reducer;
    if (!reducer->finish)
        return value;
    return dlk_eval_expr(eval, reducer->finish, dlk_eval_bind(eval, &reducer->state, value, r->scope));
}

static void fill_tree(dlk_eval *eval, const dlk_value *first_arg, dlk_reduction *out)
{
    if (eval->in_leaf) { /* the lanes are those of the reducer around */
        out->tree_kind = eval->tree_kind;
        out->tree_parts = eval->tree_parts;
        return;
    }
    const dlk_dtype_info *info = &dlk_dtypes[first_arg->dtype];
    out->tree_kind = info->compute == DLK_P1 ? DLK_I8 : info->compute;
    out->tree_parts = info->parts;
}

static void check_place(dlk_eval *eval, const dlk_expr *at, const dlk_def *def)
{
    if (eval->no_reduction)
        dlk_eval_fail(eval, at, DLK_ERR_SYNTAX, "%s: a reduction inside %s", def->name, eval->no_reduction);
    if (eval->in_leaf && def->reducer.is_leaf)
        dlk_eval_fail(eval, at, DLK_ERR_SYNTAX, "%s: a reducer over leaves inside a leaf", def->name);
    if (def->n_params == 0)
        dlk_eval_fail(eval, at, DLK_ERR_SYNTAX, "%s: a reducer needs a parameter", def->name);
}

static void fill_reduction(dlk_eval *eval, reduction *r)
{
    dlk_reduction *out = &r->out;
    out->n = (uint8_t)r->first.n;
    out->has_leaf = r->def->reducer.is_leaf;
    out->in_leaf = eval->in_leaf;
    out->is_free = r->def->reducer.is_unordered;
    out->has_identity = r->has_identity;
    out->needs_elements = !r->has_empty && !eval->in_leaf && !eval->has_initial;
    out->name = r->def->name;
    memcpy(out->kind, r->first.kind, sizeof out->kind);
    memcpy(out->first, r->first.part, sizeof out->first);
    for (int k = 0; k < out->n && r->has_identity; k++)
        out->identity[k] = (uint64_t)eval->prog->nodes[r->identity[k]].imm;
}

dlk_value dlk_call_reducer(dlk_eval *eval, const dlk_expr *at, const dlk_def *def, const dlk_scope_entry *scope,
                           const dlk_value *first_arg)
{
    const dlk_reducer *reducer = &def->reducer;
    reduction *r = DLK_NEW(eval->arena, reduction);
    *r = (reduction){.def = def, .at = at, .scope = scope};
    check_place(eval, at, def);
    const dlk_value arg = dlk_value_materialise(eval, at, *first_arg);
    if (arg.kind == DLK_VALUE_TUPLE)
        dlk_eval_fail(eval, at, DLK_ERR_DTYPE, "%s: found a tuple, expected a number", def->name);
    eval->uses_reduction = true;
    fill_tree(eval, &arg, &r->out);
    set_state(eval, reducer->first, &r->first, eval_first(eval, r));
    check_first_scope(eval, r);
    r->has_identity = eval_constant_clause(eval, r, reducer->identity, "the identity", r->identity);
    r->has_empty = eval_constant_clause(eval, r, reducer->empty, "the state of nothing", r->empty);
    if (eval->mask != DLK_NONE && !r->has_empty && !eval->has_initial && !eval->in_leaf)
        dlk_eval_fail(eval, at, DLK_ERR_INVALID,
                      "%s of nothing has no answer: with where= it needs an initial value (initial=)", def->name);
    fill_reduction(eval, r);
    eval_merge(eval, r);
    if (eval->mask != DLK_NONE)
        apply_mask(eval, r);
    const dlk_ref reduce = dlk_prog_reduce(eval->prog, &r->out);
    dlk_ref parts[DLK_STATE_MAX];
    for (int k = 0; k < r->first.n; k++)
        parts[k] = dlk_prog_proj(eval->prog, reduce, k, r->first.kind[k]);
    if (!eval->in_leaf && !eval->has_initial)
        choose_empty(eval, r, reduce, parts);
    dlk_value value = from_components(eval, &r->first, parts);
    if (eval->has_initial && !eval->in_leaf)
        value = join_initial(eval, r, value);
    return finish(eval, r, value);
}

/* An integer sum of how many elements are selected. In a leaf there are few. */
static dlk_ref count_selected(dlk_eval *eval)
{
    const dlk_kind kind = eval->in_leaf ? DLK_I32 : DLK_I64;
    dlk_reduction count = {.n = 1, .in_leaf = eval->in_leaf, .is_free = true, .has_identity = true, .name = "count"};
    count.tree_kind = eval->in_leaf ? eval->tree_kind : DLK_I64;
    count.tree_parts = eval->in_leaf ? eval->tree_parts : 1;
    count.kind[0] = (uint8_t)kind;
    count.first[0] = dlk_prog_convert(eval->prog, DLK_PRIM_ZEXT, kind, eval->mask);
    count.left[0] = formal(eval, kind, 0, 0);
    count.right[0] = formal(eval, kind, 1, 0);
    count.merge[0] = dlk_prog_prim(eval->prog, DLK_PRIM_ADD, count.left[0], count.right[0], DLK_NONE);
    const dlk_ref sum = dlk_prog_proj(eval->prog, dlk_prog_reduce(eval->prog, &count), 0, kind);
    return eval->in_leaf ? dlk_prog_convert(eval->prog, DLK_PRIM_ZEXT, DLK_I64, sum) : sum;
}

dlk_value dlk_count_elements(dlk_eval *eval, const dlk_expr *at)
{
    if (eval->no_reduction)
        dlk_eval_fail(eval, at, DLK_ERR_SYNTAX, "count: a reduction inside %s", eval->no_reduction);
    eval->uses_reduction = true;
    dlk_ref count;
    if (eval->mask != DLK_NONE)
        count = count_selected(eval);
    else
        count = eval->in_leaf ? dlk_prog_leaf_count(eval->prog) : dlk_prog_count(eval->prog);
    return dlk_value_data(DLK_DTYPE_I64, count, DLK_NONE);
}
