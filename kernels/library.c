/* The library's definitions are parsed once in a process and never change; contexts share them. */
#include "kernels/library.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "base/buffer.h"
#include "base/lock.h"
#include "codegen/dtype.h"
#include "kernels/embedded.h"
#include "kernels/eval.h"
#include "kernels/lex.h"

DLK_STATIC_LOCK(library_lock);
static dlk_arena library_arena;
static dlk_names library_names;
static atomic_bool library_is_loaded;

/* ---- Grouping ---------------------------------------------------------------------------------------------------------------- */

typedef struct grouping {
    dlk_arena *arena;
    const dlk_def **defs; /* ordered by name, then by place in the text */
    int n;
} grouping;

static int count_params(const dlk_def *def, bool scalars)
{
    int n = 0;
    for (int i = 0; i < def->n_params; i++)
        n += def->params[i].type.is_scalar == scalars;
    return n;
}

static bool same_parameters(const dlk_def *a, const dlk_def *b)
{
    const int inputs = count_params(a, false);
    if (a->n_params != b->n_params || inputs != count_params(b, false))
        return false;
    for (int i = inputs; i < a->n_params; i++)
        if (strcmp(a->params[i].name, b->params[i].name) != 0)
            return false;
    return true;
}

static dlk_status check_overload(const dlk_def *first, const dlk_def *def)
{
    char where[96];
    dlk_where(def->file, def->line, def->column, where);
    if (first->kind == DLK_DEF_TABLE || def->kind == DLK_DEF_TABLE)
        return dlk_fail(DLK_ERR_SYNTAX, "%s: there is another definition called '%s', expected a name of its own",
                        where, def->name);
    if (!same_parameters(first, def))
        return dlk_fail(DLK_ERR_SYNTAX, "%s: found %s, expected the same inputs and scalars as in %s", where,
                        def->signature, first->signature);
    return DLK_OK;
}

static dlk_status make_set(grouping *g, int from, int to, bool is_library, const dlk_overloads **out)
{
    dlk_overloads *set = DLK_NEW(g->arena, dlk_overloads);
    dlk_buffer text = {.arena = g->arena};
    for (int i = from; i < to; i++) {
        if (i > from)
            DLK_TRY(check_overload(g->defs[from], g->defs[i]));
        dlk_buffer_append(&text, g->defs[i]->text, (size_t)g->defs[i]->text_bytes);
        dlk_buffer_append(&text, "\n", 1);
    }
    *set = (dlk_overloads){.name = g->defs[from]->name,
                           .defs = dlk_arena_copy(g->arena, &g->defs[from], sizeof *g->defs * (size_t)(to - from)),
                           .n = to - from,
                           .is_library = is_library,
                           .text = dlk_hash_of(text.data, text.size)};
    *out = set;
    return DLK_OK;
}

static int compare_defs(const void *a, const void *b)
{
    const dlk_def *x = *(const dlk_def *const *)a, *y = *(const dlk_def *const *)b;
    const int names = strcmp(x->name, y->name);
    return names ? names : x->text < y->text ? -1 : x->text > y->text;
}

dlk_status dlk_names_make(dlk_arena *arena, const dlk_parsed *parsed, int n_parsed, bool is_library, dlk_names *out)
{
    grouping g = {.arena = arena};
    int n = 0, n_sets = 0;
    for (int i = 0; i < n_parsed; i++)
        n += parsed[i].n;
    g.defs = DLK_NEW_ARRAY(arena, const dlk_def *, n);
    for (int i = 0; i < n_parsed; i++)
        for (int k = 0; k < parsed[i].n; k++)
            g.defs[g.n++] = parsed[i].defs[k];
    qsort(g.defs, (size_t)n, sizeof *g.defs, compare_defs);
    const dlk_overloads **sets = DLK_NEW_ARRAY(arena, const dlk_overloads *, n);
    for (int from = 0, to; from < n; from = to) {
        for (to = from + 1; to < n && strcmp(g.defs[from]->name, g.defs[to]->name) == 0;)
            to++;
        DLK_TRY(make_set(&g, from, to, is_library, &sets[n_sets++]));
    }
    *out = (dlk_names){sets, n_sets};
    return DLK_OK;
}

const dlk_overloads *dlk_names_find(const dlk_names *names, const char *name)
{
    int low = 0, high = names->n;
    while (low < high) {
        const int middle = low + (high - low) / 2, order = strcmp(names->sets[middle]->name, name);
        if (order == 0)
            return names->sets[middle];
        if (order < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return NULL;
}

/* ---- Checks -------------------------------------------------------------------------------------------------------------------- */

bool dlk_name_is_builtin(const char *name)
{
    for (int arity = 0; arity <= 3; arity++)
        if (dlk_prim_find(name, arity) >= 0)
            return true;
    return dlk_builtin_exists(name) || dlk_dtype_from_name(name, strlen(name)) != DLK_DTYPE_NONE;
}

static dlk_status fail_use(const dlk_def *def, const char *format, const char *name)
{
    char where[96];
    dlk_where(def->file, def->line, def->column, where);
    const dlk_status status = dlk_fail(DLK_ERR_SYNTAX, format, name);
    return dlk_fail_in(status, "%s: in %s", where, def->name);
}

enum { NOT_SEEN, OPEN, DONE };

typedef struct walk {
    const dlk_names *names, *outer;
    uint8_t *seen; /* by index of names->sets */
    int depth;
} walk;

static int index_of(const dlk_names *names, const char *name)
{
    const dlk_overloads *set = dlk_names_find(names, name);
    for (int i = 0; set && i < names->n; i++)
        if (names->sets[i] == set)
            return i;
    return -1;
}

static dlk_status check_set(walk *w, int index);

static dlk_status check_use(walk *w, const dlk_overloads *set, const dlk_def *def, const char *name)
{
    const int used = index_of(w->names, name);
    if (used < 0 && !(w->outer && dlk_names_find(w->outer, name)) && !dlk_name_is_builtin(name))
        return fail_use(def, "found '%s', expected an operation, table, primitive or type", name);
    if (used < 0)
        return DLK_OK;
    if (w->names->sets[used] == set) /* another overload, or the primitive of that name; the build sees which */
        return set->n > 1 || dlk_name_is_builtin(name)
                   ? DLK_OK
                   : fail_use(def, "'%s' calls itself, and a definition cannot", name);
    if (w->seen[used] == OPEN && w->names->sets[used]->n == 1) /* of several overloads another may be meant */
        return fail_use(def, "'%s' calls this definition in turn: a circle", name);
    return w->seen[used] == NOT_SEEN ? check_set(w, used) : DLK_OK;
}

static dlk_status check_set(walk *w, int index)
{
    const dlk_overloads *set = w->names->sets[index];
    w->seen[index] = OPEN;
    if (++w->depth > DLK_BUILD_DEPTH_MAX)
        return fail_use(set->defs[0], "'%s' is the end of too many definitions that call each other", set->name);
    for (int i = 0; i < set->n; i++)
        for (int k = 0; k < set->defs[i]->n_uses; k++)
            DLK_TRY(check_use(w, set, set->defs[i], set->defs[i]->uses[k]));
    w->depth--;
    w->seen[index] = DONE;
    return DLK_OK;
}

dlk_status dlk_names_check(dlk_arena *arena, const dlk_names *names, const dlk_names *outer)
{
    walk w = {.names = names, .outer = outer, .seen = DLK_NEW_ARRAY(arena, uint8_t, names->n)};
    for (int i = 0; i < names->n; i++)
        if (w.seen[i] == NOT_SEEN)
            DLK_TRY(check_set(&w, i));
    return DLK_OK;
}

/* ---- The library ----------------------------------------------------------------------------------------------------------------- */

/* That all names in it mean something is for a test to check, not for every process. */
static dlk_status parse_library(dlk_names *out)
{
    dlk_parsed *parsed = DLK_NEW_ARRAY(&library_arena, dlk_parsed, dlk_kernel_texts_count);
    for (int i = 0; i < dlk_kernel_texts_count; i++)
        DLK_TRY(dlk_parse(&library_arena, dlk_kernel_texts[i].file, dlk_kernel_texts[i].text, dlk_kernel_texts[i].bytes,
                          &parsed[i]));
    return dlk_names_make(&library_arena, parsed, dlk_kernel_texts_count, true, out);
}

static dlk_status load_locked(void)
{
    jmp_buf escape;
    library_arena.escape = &escape;
    volatile dlk_status status = DLK_ERR_MEMORY;
    if (setjmp(escape) == 0)
        status = parse_library(&library_names);
    else
        dlk_fail(DLK_ERR_MEMORY, "out of memory while parsing the library's definitions");
    library_arena.escape = NULL;
    if (status != DLK_OK)
        dlk_arena_free(&library_arena);
    return status;
}

dlk_status dlk_library_load(void)
{
    if (atomic_load_explicit(&library_is_loaded, memory_order_acquire))
        return DLK_OK;
    dlk_lock_take(&library_lock);
    const bool is_loaded = atomic_load_explicit(&library_is_loaded, memory_order_relaxed);
    const dlk_status status = is_loaded ? DLK_OK : load_locked();
    if (status == DLK_OK)
        atomic_store_explicit(&library_is_loaded, true, memory_order_release);
    dlk_lock_give(&library_lock);
    return status;
}

const dlk_names *dlk_library_names(void)
{
    return &library_names;
}

const dlk_overloads *dlk_library_find(const char *name)
{
    return dlk_names_find(&library_names, name);
}
