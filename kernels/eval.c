/* The walk over a definition's syntax tree. It leaves by a jump where the text is wrong or the arena is out of memory, and
 * it is bounded: steps, nodes and calls inside calls are counted. */
#include "kernels/eval.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#define FRAMES_SHOWN 4

struct dlk_memo {
    const dlk_def *def;
    const dlk_value *args;
    int n;
    bool in_leaf, in_first;
    dlk_value value;
    dlk_memo *next;
};

/* ---- Errors ---------------------------------------------------------------------------------------------------------------- */

static void append(char *text, size_t bytes, const char *format, ...)
{
    const size_t used = strlen(text);
    va_list args;
    va_start(args, format);
    vsnprintf(text + used, bytes - used, format, args);
    va_end(args);
}

/* "math.dlk line 3, column 7: in log, called at line 1, column 12: " */
static void describe_place(const dlk_eval *eval, const dlk_expr *at, char *out, size_t bytes)
{
    const dlk_frame *frame = eval->frame;
    char where[96];
    out[0] = 0;
    if (!frame) {
        append(out, bytes, "%s: ", eval->op->name);
        return;
    }
    if (at)
        append(out, bytes, "%s: ", dlk_where(frame->def->file, at->line, at->column, where));
    append(out, bytes, "in %s", frame->def->name);
    for (int shown = 0; frame->call && frame->caller && shown < FRAMES_SHOWN; frame = frame->caller, shown++)
        append(out, bytes, ", called by %s at %s", frame->caller->def->name,
               dlk_where(frame->caller->def->file, frame->call->line, frame->call->column, where));
    append(out, bytes, ": ");
}

void dlk_eval_fail(dlk_eval *eval, const dlk_expr *at, dlk_status code, const char *format, ...)
{
    char place[800], what[1600];
    va_list args;
    va_start(args, format);
    vsnprintf(what, sizeof what, format, args);
    va_end(args);
    describe_place(eval, at, place, sizeof place);
    eval->status = dlk_fail(code, "%s%s", place, what);
    longjmp(eval->escape, 1);
}

/* Forwards a failure whose message is written, with the place and what was called before it. */
static _Noreturn void fail_as(dlk_eval *eval, const dlk_expr *at, dlk_status code, const char *called)
{
    char message[2000];
    snprintf(message, sizeof message, "%s", dlk_last_error());
    dlk_eval_fail(eval, at, code, "%s%s%s", called ? called : "", called ? ": " : "", message);
}

/* ---- Names ------------------------------------------------------------------------------------------------------------------- */

const dlk_overloads *dlk_eval_find(const dlk_eval *eval, const char *name)
{
    if (!eval->frame->is_library)
        for (int i = 0; i < eval->op->n_reached; i++)
            if (strcmp(eval->op->reached[i]->name, name) == 0)
                return eval->op->reached[i];
    return dlk_library_find(name);
}

static const dlk_value *find_in_scope(const dlk_scope_entry *scope, const char *name)
{
    for (; scope; scope = scope->next)
        if (strcmp(scope->name, name) == 0)
            return scope->value;
    return NULL;
}

static const dlk_scope_entry *bind_name(dlk_eval *eval, const char *name, const dlk_value *value,
                                        const dlk_scope_entry *scope)
{
    dlk_scope_entry *entry = DLK_NEW(eval->arena, dlk_scope_entry);
    entry->name = name;
    entry->value = dlk_arena_copy(eval->arena, value, sizeof *value);
    entry->next = scope;
    return entry;
}

const dlk_scope_entry *dlk_eval_bind(dlk_eval *eval, const dlk_pattern *pattern, dlk_value value,
                                     const dlk_scope_entry *scope)
{
    if (pattern->name)
        return bind_name(eval, pattern->name, &value, scope);
    const dlk_expr at = {.line = pattern->line, .column = pattern->column};
    char found[64];
    if (value.kind != DLK_VALUE_TUPLE || value.n != pattern->n)
        dlk_eval_fail(eval, &at, DLK_ERR_SYNTAX, "found %s, expected a tuple of %d for these names",
                      dlk_value_describe(&value, found), pattern->n);
    for (int i = 0; i < value.n; i++)
        scope = dlk_eval_bind(eval, &pattern->parts[i], value.items[i], scope);
    return scope;
}

/* ---- Calls ------------------------------------------------------------------------------------------------------------------- */

static bool is_active(void *context, const dlk_def *def)
{
    for (const dlk_frame *frame = ((const dlk_eval *)context)->frame; frame; frame = frame->caller)
        if (frame->def == def)
            return true;
    return false;
}

static dlk_arg_type arg_type(dlk_eval *eval, const dlk_expr *at, const dlk_value *value)
{
    if (value->kind == DLK_VALUE_TUPLE)
        return (dlk_arg_type){.dtype = DLK_DTYPE_NONE};
    const dlk_value data = dlk_value_materialise(eval, at, *value);
    return (dlk_arg_type){.dtype = data.dtype, .is_weak = data.is_weak};
}

/* The bucket of a call, or -1 when its value is not kept. */
static int memo_bucket(const dlk_def *def, const dlk_value *args, int n)
{
    uint64_t hash = (uint64_t)(uintptr_t)def >> 4;
    for (int i = 0; i < n; i++) {
        if (args[i].kind == DLK_VALUE_TUPLE)
            return -1;
        hash = hash * 31 + (uint64_t)(uint32_t)args[i].part[0];
    }
    return (int)(hash * 0x9e3779b97f4a7c15ull >> 57);
}

static bool same_data(const dlk_value *a, const dlk_value *b)
{
    return a->kind == b->kind && a->literal == b->literal && a->dtype == b->dtype && a->source == b->source &&
           a->is_weak == b->is_weak && a->part[0] == b->part[0] && a->part[1] == b->part[1];
}

static const dlk_memo *memo_find(const dlk_eval *eval, int bucket, const dlk_def *def, const dlk_value *args, int n)
{
    for (const dlk_memo *memo = eval->memo[bucket]; memo; memo = memo->next) {
        int i = 0;
        if (memo->def != def || memo->n != n || memo->in_leaf != eval->in_leaf || memo->in_first != eval->in_first)
            continue;
        while (i < n && same_data(&memo->args[i], &args[i]))
            i++;
        if (i == n)
            return memo;
    }
    return NULL;
}

static void memo_add(dlk_eval *eval, int bucket, const dlk_def *def, const dlk_value *args, int n, dlk_value value)
{
    dlk_memo *memo = DLK_NEW(eval->arena, dlk_memo);
    *memo = (dlk_memo){.def = def,
                       .args = dlk_arena_copy(eval->arena, args, sizeof *args * (size_t)n),
                       .n = n,
                       .in_leaf = eval->in_leaf,
                       .in_first = eval->in_first,
                       .value = value,
                       .next = eval->memo[bucket]};
    eval->memo[bucket] = memo;
}

/* Sorts the arguments of a call to the parameters of `def`: by place, then by name, then defaults. */
static void place_arguments(dlk_eval *eval, const dlk_expr *at, const dlk_def *def, const dlk_value *args, int n,
                            const char *const *names, dlk_value *out)
{
    bool is_given[DLK_DEF_INPUTS_MAX + DLK_PARAMETERS_MAX] = {false};
    for (int i = 0; i < n; i++) {
        int to = i;
        if (names && names[i])
            for (to = 0; to < def->n_params && strcmp(def->params[to].name, names[i]) != 0;)
                to++;
        if (to >= def->n_params && names && names[i])
            dlk_eval_fail(eval, at, DLK_ERR_SYNTAX, "%s has no parameter called '%s': %s", def->name, names[i],
                          def->signature);
        if (to >= def->n_params)
            dlk_eval_fail(eval, at, DLK_ERR_SYNTAX, "%s: found %d arguments, expected %d: %s", def->name, n,
                          def->n_params, def->signature);
        if (is_given[to])
            dlk_eval_fail(eval, at, DLK_ERR_SYNTAX, "%s: '%s' is given twice", def->name, def->params[to].name);
        is_given[to] = true;
        out[to] = args[i];
    }
    for (int i = 0; i < def->n_params; i++) {
        if (!is_given[i] && !def->params[i].default_value)
            dlk_eval_fail(eval, at, DLK_ERR_SYNTAX, "%s: '%s' is missing: %s", def->name, def->params[i].name,
                          def->signature);
        if (!is_given[i])
            out[i] = (dlk_value){.kind = DLK_VALUE_LITERAL, .literal = def->params[i].default_value};
    }
}

static int count_inputs(const dlk_def *def)
{
    int n = 0;
    while (n < def->n_params && !def->params[n].type.is_scalar)
        n++;
    return n;
}

/* Results of type float32 are called what the arguments were. */
static dlk_value relabel(dlk_eval *eval, const dlk_expr *at, dlk_value value, dlk_dtype label)
{
    if (value.kind == DLK_VALUE_DATA && value.dtype == DLK_DTYPE_F32 && !value.is_weak)
        return dlk_value_convert(eval, at, value, label);
    if (value.kind != DLK_VALUE_TUPLE)
        return value;
    dlk_value *items = dlk_arena_copy(eval->arena, value.items, sizeof *items * (size_t)value.n);
    for (int i = 0; i < value.n; i++)
        items[i] = relabel(eval, at, items[i], label);
    value.items = items;
    return value;
}

static dlk_value run_definition(dlk_eval *eval, const dlk_expr *at, const dlk_def *def, bool is_library,
                                const dlk_value *args)
{
    const dlk_frame frame = {.def = def,
                             .is_library = is_library,
                             .call = at,
                             .caller = eval->frame,
                             .depth = eval->frame ? eval->frame->depth + 1 : 1};
    if (frame.depth > DLK_BUILD_DEPTH_MAX)
        dlk_eval_fail(eval, at, DLK_ERR_SYNTAX, "definitions call each other deeper than %d", DLK_BUILD_DEPTH_MAX);
    const dlk_scope_entry *scope = NULL;
    for (int i = 0; i < def->n_params; i++)
        scope = bind_name(eval, def->params[i].name, &args[i], scope);
    eval->frame = &frame;
    const dlk_value value = def->kind == DLK_DEF_REDUCER ? dlk_call_reducer(eval, at, def, scope, &args[0])
                                                         : dlk_eval_expr(eval, def->body, scope);
    eval->frame = frame.caller;
    return value;
}

/* The arguments as the overload takes them. */
static void convert_arguments(dlk_eval *eval, const dlk_expr *at, const dlk_resolution *resolution, dlk_value *args)
{
    for (int i = 0; i < count_inputs(resolution->def); i++) {
        if (resolution->convert[i] == DLK_DTYPE_NONE)
            continue;
        args[i] = dlk_value_convert(eval, at, args[i], resolution->convert[i]);
        args[i].part[0] = dlk_value_part(eval, &args[i], 0);
        args[i].source = args[i].dtype;
    }
}

dlk_value dlk_eval_call(dlk_eval *eval, const dlk_expr *at, const dlk_overloads *overloads, const dlk_value *args,
                        int n, const char *const *names)
{
    dlk_resolution resolution;
    const dlk_def *shape = overloads->defs[0];
    dlk_value *placed = DLK_NEW_ARRAY(eval->arena, dlk_value, shape->n_params);
    dlk_arg_type *types = DLK_NEW_ARRAY(eval->arena, dlk_arg_type, shape->n_params);
    if (shape->kind == DLK_DEF_TABLE)
        dlk_eval_fail(eval, at, DLK_ERR_SYNTAX, "'%s' is a table; expected an index: %s[i]", shape->name, shape->name);
    place_arguments(eval, at, shape, args, n, names, placed); /* all overloads have the same parameters */
    const int n_inputs = count_inputs(shape);
    for (int i = 0; i < n_inputs; i++)
        types[i] = arg_type(eval, at, &placed[i]);
    const dlk_status status = dlk_resolve(overloads, types, n_inputs, is_active, eval, &resolution);
    if (status != DLK_OK)
        fail_as(eval, at, status, at ? overloads->name : NULL);
    const dlk_def *def = resolution.def;
    convert_arguments(eval, at, &resolution, placed);
    const int bucket = memo_bucket(def, placed, def->n_params);
    const dlk_memo *memo = bucket < 0 ? NULL : memo_find(eval, bucket, def, placed, def->n_params);
    dlk_value value = memo ? memo->value : run_definition(eval, at, def, overloads->is_library, placed);
    if (!memo && bucket >= 0)
        memo_add(eval, bucket, def, placed, def->n_params, value);
    if (resolution.relabel != DLK_DTYPE_NONE)
        value = relabel(eval, at, value, resolution.relabel);
    return value;
}

dlk_value dlk_eval_call_library(dlk_eval *eval, const dlk_expr *at, const char *name, const dlk_value *args, int n)
{
    const dlk_overloads *overloads = dlk_library_find(name);
    if (!overloads)
        dlk_eval_fail(eval, at, DLK_ERR_INTERNAL, "the library has no definition of '%s'", name);
    return dlk_eval_call(eval, at, overloads, args, n, NULL);
}

/* Inside a definition of its own name a primitive or built-in function is meant. */
static bool means_itself(const dlk_eval *eval, const dlk_expr *e)
{
    return eval->frame && strcmp(eval->frame->def->name, e->name) == 0;
}

static bool has_names(const dlk_expr *e)
{
    for (int i = 0; i < e->n; i++)
        if (e->arg_names[i])
            return true;
    return false;
}

static bool call_primitive(dlk_eval *eval, const dlk_expr *e, const dlk_value *args, dlk_value *out)
{
    const int prim = dlk_prim_find(e->name, e->n);
    if (has_names(e))
        return false;
    if (prim < 0)
        return dlk_call_builtin(eval, e, args, e->n, out);
    *out = dlk_call_prim(eval, e, (dlk_prim)prim, args);
    return true;
}

static dlk_value eval_call(dlk_eval *eval, const dlk_expr *e, const dlk_scope_entry *scope)
{
    dlk_value *args = DLK_NEW_ARRAY(eval->arena, dlk_value, e->n), value;
    for (int i = 0; i < e->n; i++) {
        const bool is_dtype_word = i == 1 && strcmp(e->name, "convert") == 0 && e->args[1]->kind == DLK_EXPR_NAME &&
                                   strcmp(e->args[1]->name, "dtype") == 0;
        args[i] = is_dtype_word ? args[0] : dlk_eval_expr(eval, e->args[i], scope);
    }
    if (means_itself(eval, e) && call_primitive(eval, e, args, &value))
        return value;
    const dlk_overloads *overloads = dlk_eval_find(eval, e->name);
    if (overloads)
        return dlk_eval_call(eval, e, overloads, args, e->n, e->arg_names);
    if (call_primitive(eval, e, args, &value))
        return value;
    dlk_eval_fail(eval, e, DLK_ERR_SYNTAX, "found '%s' with %d arguments, expected an operation, primitive or type",
                  e->name, e->n);
}

/* ---- Other expressions ----------------------------------------------------------------------------------------------------------- */

static dlk_value eval_name(dlk_eval *eval, const dlk_expr *e, const dlk_scope_entry *scope)
{
    const dlk_value *value = find_in_scope(scope, e->name);
    if (value)
        return *value;
    if (strcmp(e->name, "true") == 0 || strcmp(e->name, "false") == 0)
        return dlk_value_bool(dlk_prog_const(eval->prog, DLK_P1, e->name[0] == 't'));
    if (strcmp(e->name, "dtype") == 0)
        dlk_eval_fail(eval, e, DLK_ERR_SYNTAX, "'dtype' can stand in convert(x, dtype) only");
    dlk_eval_fail(eval, e, DLK_ERR_SYNTAX, "found '%s', expected a parameter or a name bound before", e->name);
}

static dlk_value eval_tuple(dlk_eval *eval, const dlk_expr *e, const dlk_scope_entry *scope)
{
    dlk_value *items = DLK_NEW_ARRAY(eval->arena, dlk_value, e->n);
    for (int i = 0; i < e->n; i++)
        items[i] = dlk_eval_expr(eval, e->args[i], scope);
    return dlk_value_tuple(eval, items, e->n);
}

static dlk_value eval_block(dlk_eval *eval, const dlk_expr *e, const dlk_scope_entry *scope)
{
    for (int i = 0; i < e->n_bindings; i++)
        scope = dlk_eval_bind(eval, &e->bindings[i].pattern, dlk_eval_expr(eval, e->bindings[i].value, scope), scope);
    return dlk_eval_expr(eval, e->args[0], scope);
}

/* A chain of operators leans to the left, as deep as the text is long: it is walked without recursion. */
static dlk_value eval_chain(dlk_eval *eval, const dlk_expr *e, const dlk_scope_entry *scope)
{
    int length = 0;
    for (const dlk_expr *at = e; at->kind == DLK_EXPR_BINARY; at = at->args[0])
        length++;
    const dlk_expr **chain = DLK_NEW_ARRAY(eval->arena, const dlk_expr *, length);
    for (int i = length; i > 0; e = e->args[0])
        chain[--i] = e;
    dlk_value value = dlk_eval_expr(eval, e, scope);
    for (int i = 0; i < length; i++)
        value = dlk_operate(eval, chain[i], chain[i]->sign, value, dlk_eval_expr(eval, chain[i]->args[1], scope));
    return value;
}

static dlk_value eval_index(dlk_eval *eval, const dlk_expr *e, const dlk_scope_entry *scope)
{
    const dlk_overloads *found = dlk_eval_find(eval, e->name);
    if (!found || found->defs[0]->kind != DLK_DEF_TABLE)
        dlk_eval_fail(eval, e, DLK_ERR_SYNTAX, "found '%s[', expected the name of a table before '['", e->name);
    const dlk_def *def = found->defs[0];
    uint64_t *bits = DLK_NEW_ARRAY(eval->arena, uint64_t, def->n_table);
    for (int i = 0; i < def->n_table; i++) {
        const dlk_value literal = {.kind = DLK_VALUE_LITERAL, .literal = def->table[i]};
        const dlk_value value = dlk_value_convert(eval, e, literal, def->table_dtype);
        bits[i] = (uint64_t)eval->prog->nodes[value.part[0]].imm;
    }
    const int table = dlk_prog_add_table(eval->prog, dlk_dtypes[def->table_dtype].compute, bits, def->n_table);
    const dlk_value index = dlk_value_materialise(eval, e, dlk_eval_expr(eval, e->args[0], scope));
    if (index.kind == DLK_VALUE_TUPLE || !(dlk_class_bit(index.dtype) & dlk_class_set_from_name("integer", 7)))
        dlk_eval_fail(eval, e, DLK_ERR_DTYPE, "the index of table '%s' is no integer", e->name);
    const dlk_value wide = dlk_value_convert(eval, e, index, DLK_DTYPE_I64);
    return dlk_value_data(def->table_dtype, dlk_prog_table(eval->prog, table, wide.part[0]), DLK_NONE);
}

/* ---- Branches and loops ------------------------------------------------------------------------------------------------------------ */

/* The parts of numbers, one after the other. */
static int parts_of(dlk_eval *eval, const dlk_value *leaves, int n, dlk_ref *out)
{
    int count = 0;
    for (int i = 0; i < n; i++)
        for (int part = 0; part < dlk_dtypes[leaves[i].dtype].parts; part++)
            out[count++] = dlk_value_part(eval, &leaves[i], part);
    return count;
}

/* The numbers of `shape` with their parts taken from `of` by PROJ. */
static dlk_value projected(dlk_eval *eval, const dlk_value *shape, const dlk_value *leaves, int n, dlk_ref of)
{
    dlk_value results[DLK_TUPLE_MAX];
    int k = 0;
    for (int i = 0; i < n; i++) {
        results[i] = dlk_value_data(leaves[i].dtype, DLK_NONE, DLK_NONE);
        results[i].is_weak = leaves[i].is_weak;
        for (int part = 0; part < dlk_dtypes[leaves[i].dtype].parts; part++)
            results[i].part[part] = dlk_prog_proj(eval->prog, of, k++, dlk_dtypes[leaves[i].dtype].compute);
    }
    const dlk_value *next = results;
    return dlk_value_rebuild(eval, shape, &next);
}

/* The predicate of `condition`; fails where it is none. */
static dlk_ref condition_of(dlk_eval *eval, const dlk_expr *e, const dlk_value *condition, const char *what)
{
    char found[64];
    if (condition->kind != DLK_VALUE_DATA || condition->dtype != DLK_DTYPE_BOOL)
        dlk_eval_fail(eval, e, DLK_ERR_DTYPE, "%s: found %s, expected bool", what,
                      dlk_value_describe(condition, found));
    return condition->part[0];
}

static dlk_value make_rare(dlk_eval *eval, const dlk_expr *e, const dlk_value *condition, dlk_value a, dlk_value b)
{
    dlk_value left[DLK_TUPLE_MAX], right[DLK_TUPLE_MAX];
    dlk_ref if_true[2 * DLK_TUPLE_MAX], if_false[2 * DLK_TUPLE_MAX];
    const dlk_ref p = condition_of(eval, e->args[0], condition, "rare");
    if (eval->prog->nodes[p].op == DLK_PROG_CONST)
        return dlk_select(eval, e, *condition, a, b);
    dlk_value_unify(eval, e, &a, &b, "rare");
    const int n = dlk_value_flatten(eval, e, &a, left, DLK_TUPLE_MAX);
    dlk_value_flatten(eval, e, &b, right, DLK_TUPLE_MAX);
    const int n_parts = parts_of(eval, left, n, if_true);
    parts_of(eval, right, n, if_false);
    return projected(eval, &a, left, n, dlk_prog_rare(eval->prog, p, if_true, if_false, n_parts));
}

static dlk_value eval_rare(dlk_eval *eval, const dlk_expr *e, const dlk_scope_entry *scope)
{
    const dlk_value condition = dlk_eval_expr(eval, e->args[0], scope);
    const dlk_value a = dlk_eval_expr(eval, e->args[1], scope), b = dlk_eval_expr(eval, e->args[2], scope);
    return make_rare(eval, e, &condition, a, b);
}

typedef struct loop {
    dlk_value states[DLK_TUPLE_MAX]; /* first values */
    dlk_value vars[DLK_TUPLE_MAX];
    dlk_ref first[2 * DLK_TUPLE_MAX], var[2 * DLK_TUPLE_MAX], next[2 * DLK_TUPLE_MAX];
    int n, n_parts;
    dlk_value shape; /* of the result */
} loop;

static uint8_t widest_scope(const dlk_eval *eval, const dlk_ref *refs, int n)
{
    uint8_t scope = DLK_SCOPE_UNIFORM;
    for (int i = 0; i < n; i++)
        if (eval->prog->nodes[refs[i]].scope > scope)
            scope = eval->prog->nodes[refs[i]].scope;
    return scope;
}

static void first_states(dlk_eval *eval, const dlk_expr *e, const dlk_scope_entry *scope, loop *l)
{
    char found[64];
    if (e->n_bindings > DLK_TUPLE_MAX)
        dlk_eval_fail(eval, e, DLK_ERR_SYNTAX, "a loop has more than %d states", DLK_TUPLE_MAX);
    l->n = e->n_bindings;
    for (int i = 0; i < l->n; i++) {
        const dlk_value value = dlk_eval_expr(eval, e->bindings[i].value, scope);
        if (value.kind == DLK_VALUE_TUPLE)
            dlk_eval_fail(eval, e, DLK_ERR_DTYPE, "state '%s': found %s, expected a number",
                          e->bindings[i].pattern.name, dlk_value_describe(&value, found));
        l->states[i] = dlk_value_settle(eval, e, value);
    }
    l->n_parts = parts_of(eval, l->states, l->n, l->first);
    l->shape = l->n == 1 ? l->states[0] : dlk_value_tuple(eval, l->states, l->n);
}

/* New formals for the states, bound to their names. */
static const dlk_scope_entry *bind_states(dlk_eval *eval, const dlk_expr *e, const dlk_scope_entry *scope, loop *l,
                                          uint8_t var_scope)
{
    int k = 0;
    for (int i = 0; i < l->n; i++) {
        l->vars[i] = dlk_value_data(l->states[i].dtype, DLK_NONE, DLK_NONE);
        for (int part = 0; part < dlk_dtypes[l->states[i].dtype].parts; part++) {
            l->var[k] = dlk_prog_var(eval->prog, dlk_dtypes[l->states[i].dtype].compute, var_scope);
            l->vars[i].part[part] = l->var[k++];
        }
        scope = bind_name(eval, e->bindings[i].pattern.name, &l->vars[i], scope);
    }
    return scope;
}

static dlk_ref eval_loop_body(dlk_eval *eval, const dlk_expr *e, const dlk_scope_entry *scope, loop *l)
{
    dlk_ref done = dlk_prog_const(eval->prog, DLK_P1, 0);
    if (e->args[0]) {
        const dlk_value until = dlk_eval_expr(eval, e->args[0], scope);
        done = condition_of(eval, e->args[0], &until, "until");
    }
    dlk_value next = dlk_eval_expr(eval, e->args[1], scope);
    next = dlk_value_conform(eval, e->args[1], next, &l->shape, "the next values of the states");
    dlk_value_flatten(eval, e, &next, l->vars, DLK_TUPLE_MAX);
    parts_of(eval, l->vars, l->n, l->next);
    return done;
}

/* The states vary with all that their next values depend on, which is known only afterwards: then once more. */
static dlk_value eval_repeat(dlk_eval *eval, const dlk_expr *e, const dlk_scope_entry *scope)
{
    loop *l = DLK_NEW(eval->arena, loop);
    first_states(eval, e, scope, l);
    uint8_t var_scope = widest_scope(eval, l->first, l->n_parts);
    for (;;) {
        const dlk_ref done = eval_loop_body(eval, e, bind_states(eval, e, scope, l, var_scope), l);
        const dlk_ref repeat = dlk_prog_repeat(eval->prog, e->count, l->first, l->var, l->next, done, l->n_parts);
        if (eval->prog->nodes[repeat].scope == var_scope)
            return projected(eval, &l->shape, l->states, l->n, repeat);
        var_scope = eval->prog->nodes[repeat].scope;
    }
}

/* ---- One expression ------------------------------------------------------------------------------------------------------------------ */

static void check_caps(dlk_eval *eval, const dlk_expr *e)
{
    if (eval->nesting > DLK_BUILD_NESTING_MAX)
        dlk_eval_fail(eval, e, DLK_ERR_SYNTAX, "expressions are nested deeper than %d after inlining",
                      DLK_BUILD_NESTING_MAX);
    if (++eval->steps > DLK_BUILD_STEPS_MAX)
        dlk_eval_fail(eval, e, DLK_ERR_SYNTAX, "the program needs more than %d steps after inlining",
                      DLK_BUILD_STEPS_MAX);
    if (eval->prog->n_nodes > DLK_BUILD_NODES_MAX)
        dlk_eval_fail(eval, e, DLK_ERR_SYNTAX, "the program has more than %d nodes after inlining",
                      DLK_BUILD_NODES_MAX);
}

static dlk_value eval_kind(dlk_eval *eval, const dlk_expr *e, const dlk_scope_entry *scope)
{
    switch ((dlk_expr_kind)e->kind) {
    case DLK_EXPR_NUMBER:
        return (dlk_value){.kind = DLK_VALUE_LITERAL, .literal = e->number};
    case DLK_EXPR_NAME:
        return eval_name(eval, e, scope);
    case DLK_EXPR_CALL:
        return eval_call(eval, e, scope);
    case DLK_EXPR_INDEX:
        return eval_index(eval, e, scope);
    case DLK_EXPR_UNARY:
        return dlk_operate_unary(eval, e, e->sign, dlk_eval_expr(eval, e->args[0], scope));
    case DLK_EXPR_BINARY:
        return eval_chain(eval, e, scope);
    case DLK_EXPR_TUPLE:
        return eval_tuple(eval, e, scope);
    case DLK_EXPR_BLOCK:
        return eval_block(eval, e, scope);
    case DLK_EXPR_RARE:
        return eval_rare(eval, e, scope);
    case DLK_EXPR_REPEAT:
        return eval_repeat(eval, e, scope);
    }
    dlk_eval_fail(eval, e, DLK_ERR_INTERNAL, "unknown kind of expression %d", e->kind);
}

dlk_value dlk_eval_expr(dlk_eval *eval, const dlk_expr *e, const dlk_scope_entry *scope)
{
    eval->nesting++;
    check_caps(eval, e);
    const dlk_value value = eval_kind(eval, e, scope);
    eval->nesting--;
    return value;
}
