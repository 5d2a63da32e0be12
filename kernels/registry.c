/* One context's operations. Handles are made when they are asked for and keep their address; what one means is a version
 * that never changes, so that a build needs no lock while names are defined again. */
#include "kernels/registry.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/arena.h"
#include "base/buffer.h"
#include "base/lock.h"
#include "codegen/dtype.h"
#include "kernels/build.h"
#include "kernels/infer.h"
#include "kernels/lex.h"
#include "kernels/library.h"

typedef struct text_unit { /* one definition text that was accepted: trees, sets, versions */
    dlk_arena arena;
    struct text_unit *older;
} text_unit;

typedef struct description {
    const dlk_op_version *version;
    dlk_op_kind kind;
    int n_outputs;
    const char *dtypes;
} description;

typedef struct registered { /* for destroy, once each */
    void *user;
    void (*destroy)(void *user);
    struct registered *older;
} registered;

struct dlk_registry {
    dlk_lock lock;
    dlk_arena arena; /* handles, implementations, descriptions, the set of names */
    dlk_names names; /* of the context, over the library's */
    dlk_op *ops;
    text_unit *texts;
    registered *natives;
    _Atomic uint64_t epoch;
};

/* ---- Versions ------------------------------------------------------------------------------------------------------------------ */

typedef struct closure {
    const dlk_names *names; /* of the context, or of no one */
    dlk_arena *arena;
    const dlk_overloads **reached; /* everything, the library's too, in the order found */
    int n, cap;
} closure;

static const dlk_overloads *find_name(const dlk_names *names, const char *name)
{
    const dlk_overloads *found = dlk_names_find(names, name);
    return found ? found : dlk_library_find(name);
}

static void add_reached(closure *c, const dlk_overloads *set)
{
    for (int i = 0; i < c->n; i++)
        if (c->reached[i] == set)
            return;
    *DLK_PUSH(c->arena, c->reached, c->n, c->cap) = set;
}

/* `set` and all that it reaches, breadth first; the library's definitions see only the library. */
static void close_over(closure *c, const dlk_overloads *set)
{
    add_reached(c, set);
    for (int at = 0; at < c->n; at++) {
        const dlk_overloads *user = c->reached[at];
        for (int i = 0; i < user->n; i++)
            for (int k = 0; k < user->defs[i]->n_uses; k++) {
                const char *name = user->defs[i]->uses[k];
                const dlk_overloads *used = user->is_library ? dlk_library_find(name) : find_name(c->names, name);
                if (used)
                    add_reached(c, used);
            }
    }
    const dlk_overloads *remainder = dlk_library_find("remainder"); /* what % means for floats */
    if (remainder)
        add_reached(c, remainder);
}

static dlk_hash hash_closure(const closure *c)
{
    dlk_hash *texts = DLK_NEW_ARRAY(c->arena, dlk_hash, c->n);
    for (int i = 0; i < c->n; i++)
        texts[i] = c->reached[i]->text;
    return dlk_hash_of(texts, sizeof *texts * (size_t)c->n);
}

static dlk_scalar scalar_of(dlk_arena *arena, const dlk_literal *literal)
{
    dlk_scalar scalar = {.kind = DLK_SCALAR_NONE};
    uint64_t bits;
    if (!literal)
        return scalar;
    const bool is_integer = !literal->is_float && dlk_rational_to_u64(arena, literal->value, &bits);
    const bool is_negative = literal->value.is_negative;
    if (is_integer && bits <= (uint64_t)INT64_MAX + is_negative) {
        scalar.kind = DLK_SCALAR_INT;
        scalar.value.u = is_negative ? 0 - bits : bits;
        return scalar;
    }
    if (is_integer && !is_negative) {
        scalar.kind = DLK_SCALAR_UINT;
        scalar.value.u = bits;
        return scalar;
    }
    const uint64_t sign = (uint64_t)is_negative << 63;
    bits = literal->kind == DLK_LITERAL_INF   ? sign | 0x7ff0000000000000ull
           : literal->kind == DLK_LITERAL_NAN ? sign | 0x7ff8000000000000ull
                                              : dlk_rational_to_f64(arena, literal->value);
    scalar.kind = DLK_SCALAR_FLOAT;
    memcpy(&scalar.value.f, &bits, sizeof bits);
    return scalar;
}

static void describe_parameters(dlk_arena *arena, const dlk_def *def, dlk_op_version *version)
{
    const char **names = DLK_NEW_ARRAY(arena, const char *, def->n_params);
    dlk_scalar *defaults = DLK_NEW_ARRAY(arena, dlk_scalar, def->n_params);
    for (int i = 0; i < def->n_params; i++) {
        names[i] = def->params[i].name;
        if (!def->params[i].type.is_scalar)
            version->n_inputs = i + 1;
        else
            defaults[version->n_parameters++] = scalar_of(arena, def->params[i].default_value);
    }
    version->input_names = names;
    version->parameter_names = names + version->n_inputs;
    version->parameter_defaults = defaults;
}

static void describe_text(dlk_arena *arena, const dlk_overloads *set, dlk_op_version *version)
{
    dlk_buffer signature = {.arena = arena}, formula = {.arena = arena};
    version->documentation = "";
    for (int i = 0; i < set->n; i++) {
        const dlk_def *def = set->defs[i];
        if (version->documentation[0] == 0)
            version->documentation = def->documentation;
        dlk_buffer_printf(&signature, "%s%s", i ? "\n" : "", def->signature);
        dlk_buffer_printf(&formula, "%s%.*s", i ? "\n" : "", def->text_bytes, def->text);
    }
    version->signature = signature.data;
    version->formula = formula.data;
}

static const dlk_op_version *new_version(dlk_arena *arena, const dlk_names *names, const dlk_overloads *set)
{
    closure c = {.names = names, .arena = arena};
    dlk_op_version *version = DLK_NEW(arena, dlk_op_version);
    close_over(&c, set);
    const dlk_overloads **reached = DLK_NEW_ARRAY(arena, const dlk_overloads *, c.n);
    for (int i = 0; i < c.n; i++)
        if (!c.reached[i]->is_library)
            reached[version->n_reached++] = c.reached[i];
    version->name = set->name;
    version->overloads = set;
    version->reached = reached;
    version->closure = hash_closure(&c);
    describe_parameters(arena, set->defs[0], version);
    describe_text(arena, set, version);
    return version;
}

/* ---- Handles -------------------------------------------------------------------------------------------------------------------- */

static bool is_operation(const dlk_overloads *set)
{
    return set->name[0] != '_' && set->defs[0]->kind != DLK_DEF_TABLE;
}

static dlk_op *find_handle(const dlk_registry *registry, const char *name)
{
    for (dlk_op *op = registry->ops; op; op = op->next)
        if (strcmp(op->name, name) == 0)
            return op;
    return NULL;
}

/* A handle for `set`, whose version is made in `arena`; not yet in the registry's list. */
static dlk_op *new_handle(dlk_registry *registry, dlk_arena *arena, const dlk_op_version *version)
{
    dlk_op *op = DLK_NEW(arena, dlk_op);
    op->name = version->name;
    op->registry = registry;
    atomic_init(&op->version, version);
    return op;
}

static dlk_op *get_handle(dlk_registry *registry, const dlk_overloads *set)
{
    dlk_op *op = find_handle(registry, set->name);
    if (op)
        return op;
    op = new_handle(registry, &registry->arena, new_version(&registry->arena, &registry->names, set));
    op->next = registry->ops;
    registry->ops = op;
    return op;
}

/* ---- Names that are close --------------------------------------------------------------------------------------------------------- */

#define NAME_MAX_COMPARED 32

/* Letters to change, add or leave out; a large number for long names. */
static int distance(const char *a, const char *b)
{
    const int n = (int)strlen(a), m = (int)strlen(b);
    int row[NAME_MAX_COMPARED + 1];
    if (n > NAME_MAX_COMPARED || m > NAME_MAX_COMPARED)
        return NAME_MAX_COMPARED;
    for (int j = 0; j <= m; j++)
        row[j] = j;
    for (int i = 1; i <= n; i++) {
        int diagonal = row[0];
        row[0] = i;
        for (int j = 1; j <= m; j++) {
            const int change = diagonal + (a[i - 1] != b[j - 1]);
            diagonal = row[j];
            const int skip = (row[j] < row[j - 1] ? row[j] : row[j - 1]) + 1;
            row[j] = change < skip ? change : skip;
        }
    }
    return row[m];
}

static void collect_close(const dlk_names *names, const char *name, int wanted, char *out, size_t bytes)
{
    for (int i = 0; i < names->n; i++) {
        const size_t used = strlen(out);
        if (is_operation(names->sets[i]) && distance(names->sets[i]->name, name) == wanted && used + 48 < bytes)
            snprintf(out + used, bytes - used, "%s%.40s", used ? ", " : "", names->sets[i]->name);
    }
}

static dlk_status fail_not_found(const dlk_registry *registry, const char *name)
{
    char close[256] = "";
    for (int wanted = 1; wanted <= 2 && !close[0]; wanted++) {
        collect_close(&registry->names, name, wanted, close, sizeof close);
        collect_close(dlk_library_names(), name, wanted, close, sizeof close);
    }
    if (name[0] == '_')
        return dlk_fail(DLK_ERR_NOT_FOUND,
                        "'%.80s' is no operation: names that begin with '_' are for definitions only", name);
    return dlk_fail(DLK_ERR_NOT_FOUND, "there is no operation called '%.80s'%s%s%s", name,
                    close[0] ? "; did you mean " : "", close, close[0] ? "?" : "");
}

/* ---- Defining ---------------------------------------------------------------------------------------------------------------------- */

typedef struct definition {
    dlk_registry *registry;
    dlk_arena *arena; /* of the new text */
    dlk_names added, merged;
    dlk_op *new_ops; /* handles of names that had none */
    const dlk_op **changed;
    const dlk_op_version **versions; /* of `changed` */
    int n_changed;
} definition;

/* The context's names with the new ones in their places. */
static void merge_names(definition *d)
{
    const dlk_names *old = &d->registry->names;
    const dlk_overloads **sets = DLK_NEW_ARRAY(d->arena, const dlk_overloads *, old->n + d->added.n);
    int n = 0, i = 0, k = 0;
    while (i < old->n || k < d->added.n) {
        const int order = i == old->n ? 1 : k == d->added.n ? -1 : strcmp(old->sets[i]->name, d->added.sets[k]->name);
        sets[n++] = order < 0 ? old->sets[i] : d->added.sets[k];
        i += order <= 0;
        k += order >= 0;
    }
    d->merged = (dlk_names){sets, n};
}

static bool reaches_added(const definition *d, const dlk_overloads *set)
{
    closure c = {.names = &d->merged, .arena = d->arena};
    if (set->is_library)
        return false;
    close_over(&c, set);
    for (int i = 0; i < c.n; i++)
        if (dlk_names_find(&d->added, c.reached[i]->name) == c.reached[i])
            return true;
    return false;
}

/* Versions of all handles that mean something new, made before anything changes. */
static void prepare_versions(definition *d)
{
    int n = 0;
    for (const dlk_op *op = d->registry->ops; op; op = op->next)
        n++;
    d->changed = DLK_NEW_ARRAY(d->arena, const dlk_op *, n);
    d->versions = DLK_NEW_ARRAY(d->arena, const dlk_op_version *, n);
    for (dlk_op *op = d->registry->ops; op; op = op->next) {
        const dlk_overloads *set = find_name(&d->merged, op->name);
        if (!set || !reaches_added(d, set))
            continue;
        d->changed[d->n_changed] = op;
        d->versions[d->n_changed++] = new_version(d->arena, &d->merged, set);
    }
    for (int i = 0; i < d->added.n; i++) {
        if (!is_operation(d->added.sets[i]) || find_handle(d->registry, d->added.sets[i]->name))
            continue;
        dlk_op *op = new_handle(d->registry, d->arena, new_version(d->arena, &d->merged, d->added.sets[i]));
        op->next = d->new_ops;
        d->new_ops = op;
    }
}

static void commit(definition *d)
{
    dlk_registry *registry = d->registry;
    for (int i = 0; i < d->n_changed; i++)
        atomic_store_explicit(&((dlk_op *)d->changed[i])->version, d->versions[i], memory_order_release);
    for (dlk_op *op = d->new_ops, *next; op; op = next) {
        next = op->next;
        op->next = registry->ops;
        registry->ops = op;
    }
    registry->names = d->merged;
    atomic_fetch_add(&registry->epoch, 1);
}

/* The last operation of the text, or NULL. */
static const char *last_operation(const dlk_parsed *parsed)
{
    for (int i = parsed->n - 1; i >= 0; i--)
        if (parsed->defs[i]->name[0] != '_' && parsed->defs[i]->kind != DLK_DEF_TABLE)
            return parsed->defs[i]->name;
    return NULL;
}

static dlk_status define_in(definition *d, const char *text, const dlk_op **opt_out)
{
    dlk_parsed parsed;
    const size_t bytes = strlen(text);
    const char *copy = bytes > DLK_TEXT_BYTES_MAX ? text : dlk_arena_copy(d->arena, text, bytes + 1);
    DLK_TRY(dlk_parse(d->arena, NULL, copy, bytes, &parsed));
    const char *last = last_operation(&parsed);
    if (!last)
        return dlk_fail(DLK_ERR_SYNTAX, "line 1, column 1: the text defines no operation, expected at least one");
    DLK_TRY(dlk_names_make(d->arena, &parsed, 1, false, &d->added));
    merge_names(d);
    DLK_TRY(dlk_names_check(d->arena, &d->merged, dlk_library_names()));
    prepare_versions(d);
    commit(d);
    if (opt_out)
        *opt_out = find_handle(d->registry, last);
    return DLK_OK;
}

/* With the lock held. The unit is the registry's once the text is accepted. */
static dlk_status define_locked(dlk_registry *registry, text_unit *unit, const char *text, const dlk_op **opt_out)
{
    jmp_buf escape;
    unit->arena.escape = &escape;
    definition d = {.registry = registry, .arena = &unit->arena};
    volatile dlk_status status = DLK_ERR_MEMORY;
    if (setjmp(escape) == 0)
        status = define_in(&d, text, opt_out);
    else
        dlk_fail(DLK_ERR_MEMORY, "out of memory while defining an operation");
    unit->arena.escape = NULL;
    return status;
}

/* ---- Native implementations ----------------------------------------------------------------------------------------------------------- */

static char *copy_string(dlk_arena *arena, const char *text)
{
    return dlk_arena_copy(arena, text, strlen(text) + 1);
}

static dlk_implementation *new_implementation(dlk_arena *arena, const dlk_native *native)
{
    dlk_implementation *out = DLK_NEW(arena, dlk_implementation);
    *out = (dlk_implementation){
        .name = copy_string(arena, native->name),
        .device_type = native->device_type,
        .priority = native->priority,
        .dtypes = dlk_arena_copy(arena, native->dtypes, sizeof *native->dtypes * (size_t)native->n_dtypes),
        .n_dtypes = native->n_dtypes,
        .run = native->run,
        .user = native->user,
        .destroy = native->destroy};
    return out;
}

/* The list with `added` in it, before the first of lower priority: what stands before is copied, since others read it. */
static const dlk_implementation *insert(dlk_arena *arena, const dlk_implementation *list, dlk_implementation *added)
{
    if (!list || list->priority < added->priority) {
        added->next = (dlk_implementation *)list;
        return added;
    }
    dlk_implementation *copy = dlk_arena_copy(arena, list, sizeof *list);
    copy->next = (dlk_implementation *)insert(arena, list->next, added);
    return copy;
}

static dlk_status register_in(dlk_registry *registry, const dlk_native *native)
{
    const dlk_overloads *set = find_name(&registry->names, native->operation);
    if (!set || !is_operation(set))
        return fail_not_found(registry, native->operation);
    dlk_op *op = get_handle(registry, set);
    bool exists = strcmp(native->name, "definition") == 0;
    const dlk_implementation *list = dlk_op_get_implementations(op);
    for (const dlk_implementation *i = list; i; i = i->next)
        exists |= strcmp(i->name, native->name) == 0;
    if (exists)
        return dlk_fail(DLK_ERR_INVALID, "%s has an implementation called '%.80s' already", op->name, native->name);
    registered *entry = DLK_NEW(&registry->arena, registered);
    dlk_implementation *added = new_implementation(&registry->arena, native);
    list = insert(&registry->arena, list, added);
    *entry = (registered){native->user, native->destroy, registry->natives};
    registry->natives = entry;
    atomic_store_explicit(&op->implementations, list, memory_order_release);
    atomic_fetch_add(&registry->epoch, 1);
    return DLK_OK;
}

static dlk_status check_native(const dlk_native *native)
{
    if (!native->operation || !native->name || !native->name[0])
        return dlk_fail(DLK_ERR_INVALID, "native: operation or name is NULL or empty, expected names");
    if (!native->run)
        return dlk_fail(DLK_ERR_INVALID, "native '%.80s': run is NULL, expected a function", native->name);
    if (native->n_dtypes < 0 || (native->n_dtypes && !native->dtypes))
        return dlk_fail(DLK_ERR_INVALID, "native '%.80s': n_dtypes is %d and dtypes is %s", native->name,
                        native->n_dtypes, native->dtypes ? "given" : "NULL");
    return DLK_OK;
}

/* ---- Descriptions ----------------------------------------------------------------------------------------------------------------------- */

/* All inputs of `dtype`, but for those that want a bool. */
static void trial_request(const dlk_op_version *version, dlk_dtype dtype, dlk_build_request *request)
{
    const dlk_def *def = version->overloads->defs[0];
    dlk_build_request_make(request);
    request->n_inputs = (uint8_t)version->n_inputs;
    for (int i = 0; i < version->n_inputs; i++)
        request->input[i] = def->params[i].type.classes == 1u << DLK_CLASS_BOOL ? DLK_DTYPE_BOOL : dtype;
    for (int i = 0; i < version->n_parameters; i++)
        if (version->parameter_defaults[i].kind == DLK_SCALAR_NONE)
            request->parameter[i] = DLK_SCALAR_FLOAT;
    if (def->uses_dtype)
        request->dtype = dtype;
}

static dlk_status describe_by_trial(const dlk_op_version *version, description *out, char *dtypes, size_t bytes)
{
    dlk_status first_failure = DLK_OK;
    for (int dtype = 0; dtype < DLK_DTYPE_COUNT; dtype++) {
        dlk_arena arena = {0};
        dlk_build_request request;
        dlk_built built;
        trial_request(version, dtype, &request);
        const dlk_status status = dlk_build(version, &request, &arena, &built);
        if (status == DLK_OK) {
            const size_t used = strlen(dtypes);
            out->kind = built.kind;
            out->n_outputs = built.prog->n_outputs;
            snprintf(dtypes + used, bytes - used, "%s%s", used ? " " : "", dlk_dtypes[dtype].name);
        }
        dlk_arena_free(&arena);
        first_failure = first_failure == DLK_OK ? status : first_failure;
        if (status == DLK_ERR_MEMORY)
            return status;
    }
    return dtypes[0] ? DLK_OK : first_failure;
}

static dlk_status keep_description(dlk_registry *registry, const dlk_op *op, const description *found,
                                   const char *dtypes, const description **out)
{
    jmp_buf escape;
    dlk_lock_take(&registry->lock);
    registry->arena.escape = &escape;
    volatile dlk_status status = DLK_OK;
    if (setjmp(escape) == 0) {
        description *kept = dlk_arena_copy(&registry->arena, found, sizeof *found);
        kept->dtypes = copy_string(&registry->arena, dtypes);
        atomic_store_explicit(&((dlk_op *)op)->description, kept, memory_order_release);
        *out = kept;
    } else {
        status = dlk_fail(DLK_ERR_MEMORY, "out of memory while describing %s", op->name);
    }
    registry->arena.escape = NULL;
    dlk_lock_give(&registry->lock);
    return status;
}

/* ---- Exported ------------------------------------------------------------------------------------------------------------------------------ */

dlk_status dlk_registry_create(dlk_registry **out)
{
    DLK_TRY(dlk_library_load());
    dlk_registry *registry = dlk_alloc(sizeof *registry);
    if (!registry)
        return dlk_fail(DLK_ERR_MEMORY, "out of memory while making a context");
    dlk_lock_init(&registry->lock);
    *out = registry;
    return DLK_OK;
}

void dlk_registry_destroy(dlk_registry *registry)
{
    if (!registry)
        return;
    for (const registered *entry = registry->natives; entry; entry = entry->older)
        if (entry->destroy)
            entry->destroy(entry->user);
    for (text_unit *unit = registry->texts, *older; unit; unit = older) {
        older = unit->older;
        dlk_arena_free(&unit->arena);
        dlk_free(unit);
    }
    dlk_arena_free(&registry->arena);
    dlk_lock_destroy(&registry->lock);
    dlk_free(registry);
}

uint64_t dlk_registry_epoch(const dlk_registry *registry)
{
    return atomic_load_explicit(&((dlk_registry *)registry)->epoch, memory_order_acquire);
}

dlk_status dlk_registry_define(dlk_registry *registry, const char *text, const dlk_op **opt_out)
{
    text_unit *unit = dlk_alloc(sizeof *unit);
    if (!unit)
        return dlk_fail(DLK_ERR_MEMORY, "out of memory while defining an operation");
    dlk_lock_take(&registry->lock);
    const dlk_status status = define_locked(registry, unit, text, opt_out);
    if (status == DLK_OK) {
        unit->older = registry->texts;
        registry->texts = unit;
    }
    dlk_lock_give(&registry->lock);
    if (status != DLK_OK) {
        dlk_arena_free(&unit->arena);
        dlk_free(unit);
    }
    return status;
}

static dlk_status find_in(dlk_registry *registry, const char *name, const dlk_op **out)
{
    const dlk_op *op = find_handle(registry, name);
    const dlk_overloads *set = op ? NULL : find_name(&registry->names, name);
    if (!op && (!set || !is_operation(set)))
        return fail_not_found(registry, name);
    *out = op ? op : get_handle(registry, set);
    return DLK_OK;
}

typedef struct listing {
    const dlk_op **out;
    int capacity, n;
} listing;

static void list_names(dlk_registry *registry, const dlk_names *names, const dlk_names *but, listing *l)
{
    for (int i = 0; i < names->n; i++) {
        if (!is_operation(names->sets[i]) || (but && dlk_names_find(but, names->sets[i]->name)))
            continue;
        if (l->n < l->capacity)
            l->out[l->n] = get_handle(registry, names->sets[i]);
        l->n++;
    }
}

static int compare_ops(const void *a, const void *b)
{
    return strcmp((*(const dlk_op *const *)a)->name, (*(const dlk_op *const *)b)->name);
}

/* Runs one of the calls below with the lock held and an escape for the registry's arena. */
typedef struct locked_call {
    const char *name;
    const dlk_op **out;
    const dlk_native *native;
    listing *listing;
} locked_call;

static dlk_status run_call(dlk_registry *registry, const locked_call *call)
{
    if (call->native)
        return register_in(registry, call->native);
    if (call->name)
        return find_in(registry, call->name, call->out);
    list_names(registry, &registry->names, NULL, call->listing);
    list_names(registry, dlk_library_names(), &registry->names, call->listing);
    return DLK_OK;
}

static dlk_status run_locked(dlk_registry *registry, const locked_call *call)
{
    jmp_buf escape;
    dlk_lock_take(&registry->lock);
    registry->arena.escape = &escape;
    volatile dlk_status status = DLK_ERR_MEMORY;
    if (setjmp(escape) == 0)
        status = run_call(registry, call);
    else
        dlk_fail(DLK_ERR_MEMORY, "out of memory in the registry of operations");
    registry->arena.escape = NULL;
    dlk_lock_give(&registry->lock);
    return status;
}

dlk_status dlk_registry_find(dlk_registry *registry, const char *name, const dlk_op **out)
{
    return run_locked(registry, &(locked_call){.name = name, .out = out});
}

dlk_status dlk_registry_register(dlk_registry *registry, const dlk_native *native)
{
    DLK_TRY(check_native(native));
    return run_locked(registry, &(locked_call){.native = native});
}

dlk_status dlk_registry_list(dlk_registry *registry, const dlk_op **out, int capacity, int *out_count)
{
    listing l = {.out = out, .capacity = out ? capacity : 0};
    DLK_TRY(run_locked(registry, &(locked_call){.listing = &l}));
    if (l.capacity > 0)
        qsort(out, (size_t)(l.n < l.capacity ? l.n : l.capacity), sizeof(const dlk_op *), compare_ops);
    *out_count = l.n;
    return DLK_OK;
}

dlk_status dlk_op_describe(const dlk_op *op, dlk_op_kind *out_kind, int *out_n_outputs, const char **out_dtypes)
{
    const dlk_op_version *version = dlk_op_get_version(op);
    const description *found = atomic_load_explicit(&((dlk_op *)op)->description, memory_order_acquire);
    if (!found || found->version != version) {
        char dtypes[512] = "";
        description made = {.version = version};
        DLK_TRY(describe_by_trial(version, &made, dtypes, sizeof dtypes));
        DLK_TRY(keep_description(op->registry, op, &made, dtypes, &found));
    }
    *out_kind = found->kind;
    *out_n_outputs = found->n_outputs;
    *out_dtypes = found->dtypes;
    return DLK_OK;
}
