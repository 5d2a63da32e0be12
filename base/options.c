/* Options as rows of options.def. Values are interned: each text that an option ever had is kept, so that a reader's
 * pointer never dangles, whatever other threads set, and setting the same values again and again costs nothing. */
#define _GNU_SOURCE
#include "base/options.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/lock.h"
#include "base/log.h"
#include "base/status.h"

typedef enum option_kind { KIND_INT, KIND_STRING } option_kind;

typedef struct option_row {
    const char *name, *variable, *initial, *unit, *documentation;
    option_kind kind;
} option_row;

typedef struct option_text {
    struct option_text *next;
    char text[];
} option_text;

typedef struct option_state {
    char name[32]; /* of the API: the row's in lower case */
    _Atomic(const char *) text;
    _Atomic int64_t number;  /* of INT options */
    const char *start;       /* what the environment or the default said */
    option_text *texts_seen; /* guarded by `lock` */
} option_state;

static const option_row rows[DLK_OPTION_COUNT] = {
#define OPTION(name, kind, value, unit, text) {#name, "DLK_" #name, value, unit, text, KIND_##kind},
#include "base/options.def"
#undef OPTION
};
static option_state states[DLK_OPTION_COUNT];
static char all_names[DLK_OPTION_COUNT * 34];
static pthread_once_t once = PTHREAD_ONCE_INIT;
DLK_STATIC_LOCK(lock);
static _Atomic bool is_ready;
static _Atomic uint32_t epoch;
static _Atomic int64_t calls_before_failure; /* of the resource that option FAIL names */

static bool parse_number(const char *text, int64_t *out)
{
    char *end;
    errno = 0;
    const long long number = strtoll(text, &end, 10);
    *out = number;
    return end != text && !*end && !errno && number >= 0;
}

/* "resource:n" with n from 1, or nothing. */
static bool parse_failure(const char *text, int64_t *out)
{
    *out = 0;
    const char *colon = strchr(text, ':');
    return !*text || (colon && colon != text && parse_number(colon + 1, out) && *out >= 1);
}

/* An own copy of `text`, the same one for the same text; NULL when out of memory. */
static const char *intern(option_state *state, const char *text)
{
    for (const option_text *seen = state->texts_seen; seen; seen = seen->next)
        if (!strcmp(seen->text, text))
            return seen->text;
    const size_t bytes = strlen(text) + 1;
    option_text *fresh = dlk_alloc_forever(sizeof *fresh + bytes);
    if (!fresh)
        return NULL;
    memcpy(fresh->text, text, bytes);
    fresh->next = state->texts_seen;
    state->texts_seen = fresh;
    return fresh->text;
}

static dlk_status store(dlk_option option, const char *text)
{
    int64_t number = 0;
    if (rows[option].kind == KIND_INT && !parse_number(text, &number))
        return dlk_fail(DLK_ERR_INVALID, "option %s is '%s'; expected a whole number from 0", rows[option].variable,
                        text);
    if (option == DLK_OPTION_FAIL && !parse_failure(text, &number))
        return dlk_fail(DLK_ERR_INVALID, "option %s is '%s'; expected a resource and a count, as alloc:17",
                        rows[option].variable, text);
    const char *kept = intern(&states[option], text);
    if (!kept)
        return dlk_fail(DLK_ERR_MEMORY, "option %s: out of memory", rows[option].variable);
    if (option == DLK_OPTION_FAIL)
        atomic_store(&calls_before_failure, number);
    atomic_store(&states[option].number, number);
    atomic_store(&states[option].text, kept);
    return DLK_OK;
}

static void name_options(void)
{
    size_t used = 0;
    for (int i = 0; i < DLK_OPTION_COUNT; i++) {
        char *name = states[i].name;
        for (size_t k = 0; rows[i].name[k] && k + 1 < sizeof states[i].name; k++)
            name[k] = (char)(rows[i].name[k] == '_' ? '_' : rows[i].name[k] + ('a' - 'A'));
        used += (size_t)snprintf(all_names + used, sizeof all_names - used, "%s %s", i ? "," : "", name);
    }
}

static void read_environment(void)
{
    name_options();
    bool was_refused[DLK_OPTION_COUNT] = {false};
    for (int i = 0; i < DLK_OPTION_COUNT; i++) {
        atomic_store(&states[i].text, rows[i].initial);
        store((dlk_option)i, rows[i].initial);
        const char *given = secure_getenv(rows[i].variable);
        was_refused[i] = given && store((dlk_option)i, given) != DLK_OK;
        states[i].start = atomic_load(&states[i].text);
    }
    atomic_store(&is_ready, true);
    for (int i = 0; i < DLK_OPTION_COUNT; i++)
        if (was_refused[i])
            dlk_log(DLK_LOG_WARNING, "%s has a value that the option does not take; using '%s'", rows[i].variable,
                    states[i].start);
}

static void make_ready(void)
{
    if (!atomic_load_explicit(&is_ready, memory_order_acquire))
        pthread_once(&once, read_environment);
}

static dlk_status find_option(const char *name, dlk_option *out)
{
    make_ready();
    for (int i = 0; name && i < DLK_OPTION_COUNT; i++) {
        if (!strcmp(states[i].name, name)) {
            *out = (dlk_option)i;
            return DLK_OK;
        }
    }
    return dlk_fail(DLK_ERR_NOT_FOUND, "there is no option '%s'; there are%s", name ? name : "(NULL)", all_names);
}

int64_t dlk_option_int(dlk_option option)
{
    make_ready();
    return atomic_load_explicit(&states[option].number, memory_order_relaxed);
}

const char *dlk_option_string(dlk_option option)
{
    make_ready();
    return atomic_load_explicit(&states[option].text, memory_order_acquire);
}

uint32_t dlk_option_epoch(void)
{
    return atomic_load_explicit(&epoch, memory_order_acquire);
}

bool dlk_dump_wanted(const char *stage)
{
    const char *list = dlk_option_string(DLK_OPTION_DUMP);
    const size_t length = strlen(stage);
    while (*list) {
        const size_t item = strcspn(list, ",");
        if (item == length && !memcmp(list, stage, length))
            return true;
        list += item + (list[item] == ',');
    }
    return false;
}

bool dlk_fail_injected(const char *resource)
{
    const char *text = dlk_option_string(DLK_OPTION_FAIL);
    if (!*text)
        return false;
    const size_t length = strlen(resource);
    if (strncmp(text, resource, length) != 0 || text[length] != ':')
        return false;
    return atomic_fetch_sub(&calls_before_failure, 1) == 1;
}

dlk_status dlk_option_set(const char *name, const char *value)
{
    dlk_option option;
    DLK_TRY(find_option(name, &option));
    dlk_lock_take(&lock);
    const dlk_status status = store(option, value ? value : states[option].start);
    dlk_lock_give(&lock);
    if (status == DLK_OK)
        atomic_fetch_add_explicit(&epoch, 1, memory_order_release);
    return status;
}

const char *dlk_option_get(const char *name)
{
    dlk_option option;
    return find_option(name, &option) == DLK_OK ? dlk_option_string(option) : NULL;
}

dlk_status dlk_option_list(dlk_option_info *out, int capacity, int *out_count)
{
    make_ready();
    if (!out_count || capacity < 0 || (capacity > 0 && !out))
        return dlk_fail(DLK_ERR_INVALID, "dlk_option_list: out_count must be set, and out unless capacity is 0");
    for (int i = 0; i < capacity && i < DLK_OPTION_COUNT; i++)
        out[i] = (dlk_option_info){.name = states[i].name,
                                   .variable = rows[i].variable,
                                   .value = dlk_option_string((dlk_option)i),
                                   .unit = rows[i].unit,
                                   .documentation = rows[i].documentation};
    *out_count = DLK_OPTION_COUNT;
    return DLK_OK;
}
