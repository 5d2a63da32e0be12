/* The thread's own cache of launches. Sets of two, so that two launches that take turns never push each other out. */
#include "runtime/recent.h"

#include <pthread.h>
#include <string.h>

#include "base/alloc.h"

#define SETS 128
#define WAYS 2

typedef struct recent_entry {
    uint64_t hash, epoch;
    dlk_prepared *prepared; /* NULL: unused */
    uint64_t *words;
    int n;
} recent_entry;

typedef struct recent_table {
    recent_entry sets[SETS][WAYS];
} recent_table;

static pthread_once_t once = PTHREAD_ONCE_INIT;
static pthread_key_t at_exit;
static bool has_key;
static _Thread_local recent_table *table; /* made on first use */

/* ---- The key ----------------------------------------------------------------------------------------------------- */

static void add(dlk_recent_key *key, uint64_t word)
{
    if (key->n < DLK_KEY_WORDS)
        key->words[key->n] = word;
    key->n++;
}

static void add_text(dlk_recent_key *key, const char *text)
{
    const size_t bytes = text ? strlen(text) : 0;
    add(key, text ? bytes + 1 : 0);
    for (size_t at = 0; at < bytes; at += sizeof(uint64_t)) {
        uint64_t word = 0;
        memcpy(&word, text + at, bytes - at < sizeof word ? bytes - at : sizeof word);
        add(key, word);
    }
}

static void add_words(dlk_recent_key *key, const int64_t *words, int n)
{
    if (key->n + n <= DLK_KEY_WORDS)
        memcpy(key->words + key->n, words, sizeof *words * (size_t)n);
    key->n += n;
}

static void add_tensor(dlk_recent_key *key, const DLTensor *t, uint64_t flags)
{
    const char *address = dlk_tensor_address(t);
    const uint64_t part = t->dtype.bits / (t->dtype.code == kDLComplex ? 16u : 8u);
    const uint64_t misaligned = part > 1 ? (uintptr_t)address % part : 0;
    add(key, (uint64_t)(uint32_t)t->ndim | (uint64_t)t->dtype.code << 32 | (uint64_t)t->dtype.bits << 40 |
                 (uint64_t)t->dtype.lanes << 48);
    add(key, (uint64_t)(uint32_t)t->device.device_type << 32 | (flags & 0xffff) << 8 |
                 (uint64_t)(t->data == NULL) << 2 | (uint64_t)(misaligned != 0) << 1 | (t->strides != NULL));
    if (t->ndim <= 0 || t->ndim > DLK_NDIM_MAX || !t->shape) { /* wrong ones never get in */
        if (t->ndim)
            key->n = DLK_KEY_WORDS + 1;
        return;
    }
    add_words(key, t->shape, t->ndim);
    if (t->strides)
        add_words(key, t->strides, t->ndim);
}

static void add_params(dlk_recent_key *key, const dlk_params *p)
{
    add(key, (uint64_t)(uint32_t)p->n_axes | (uint64_t)(p->axes != NULL) << 32 | (uint64_t)(p->keepdims != 0) << 33 |
                 (uint64_t)(p->saturate != 0) << 34 | (uint64_t)(p->where != NULL) << 35 |
                 (uint64_t)(p->initial.kind & 0xff) << 40 | (uint64_t)(p->n_scalars & 0xff) << 48);
    add(key, (uint64_t)p->dtype.code | (uint64_t)p->dtype.bits << 8 | (uint64_t)p->dtype.lanes << 16);
    for (int i = 0; i < p->n_axes; i++)
        add(key, (uint64_t)(int64_t)p->axes[i]);
    for (int i = 0; i < p->n_scalars; i++) {
        add(key, (uint64_t)p->scalars[i].value.kind);
        add_text(key, p->scalars[i].name);
    }
    add_text(key, p->implementation);
}

void dlk_recent_key_make(const dlk_arguments *a, dlk_recent_key *out)
{
    out->n = 0;
    add(out, a->context->serial);
    add(out, (uint64_t)(uintptr_t)a->op);
    add(out, (uint64_t)a->n_inputs | (uint64_t)a->n_outputs << 32);
    add_params(out, &a->params);
    for (int i = 0, tensor = 0; i < a->n_inputs; i++) {
        const dlk_input *input = &a->inputs[i];
        const bool is_tensor = input->tensor || input->owner || input->legacy;
        add(out, is_tensor ? 0 : (uint64_t)input->scalar.kind);
        if (is_tensor) {
            add_tensor(out, a->tensors[tensor], a->flags[tensor]);
            tensor++;
        }
    }
    if (a->params.where)
        add_tensor(out, a->tensors[a->n_tensors - 1], a->flags[a->n_tensors - 1]);
    for (int k = 0; k < a->n_outputs; k++) {
        add(out, a->outputs[k].tensor != NULL);
        if (a->outputs[k].tensor)
            add_tensor(out, a->outputs[k].tensor, a->outputs[k].flags);
    }
    if (out->n > DLK_KEY_WORDS)
        out->n = 0;
    out->epoch = dlk_context_epoch(a->context);
    out->hash = dlk_hash64_of(out->words, sizeof *out->words * (size_t)out->n);
}

/* ---- The table --------------------------------------------------------------------------------------------------- */

static void drop(recent_entry *e)
{
    dlk_prepared_release(e->prepared);
    dlk_free(e->words);
    *e = (recent_entry){0};
}

static void drop_table(void *given)
{
    recent_table *t = given;
    for (int s = 0; s < SETS; s++)
        for (int w = 0; w < WAYS; w++)
            drop(&t->sets[s][w]);
    dlk_free(t);
    table = NULL;
}

static void make_key(void)
{
    has_key = !pthread_key_create(&at_exit, drop_table);
}

/* Without the system's promise to call drop_table at the thread's end, nothing is kept. */
static recent_table *own_table(void)
{
    if (table)
        return table;
    pthread_once(&once, make_key);
    recent_table *fresh = has_key ? dlk_alloc(sizeof *fresh) : NULL;
    if (fresh && pthread_setspecific(at_exit, fresh)) {
        dlk_free(fresh);
        fresh = NULL;
    }
    table = fresh;
    return table;
}

static bool is_key(const recent_entry *e, const dlk_recent_key *key)
{
    return e->prepared && e->hash == key->hash && e->epoch == key->epoch && e->n == key->n &&
           !memcmp(e->words, key->words, sizeof *e->words * (size_t)e->n);
}

const dlk_prepared *dlk_recent_find(const dlk_recent_key *key, char *const *inputs, char *const *outputs)
{
    if (!table || !key->n)
        return NULL;
    recent_entry *set = table->sets[key->hash % SETS];
    for (int w = 0; w < WAYS; w++)
        if (is_key(&set[w], key) && dlk_prepared_fits(set[w].prepared, inputs, outputs))
            return set[w].prepared;
    return NULL;
}

void dlk_recent_put(const dlk_recent_key *key, dlk_prepared *prepared)
{
    recent_table *t = key->n ? own_table() : NULL;
    uint64_t *words = t ? dlk_alloc(sizeof *words * (size_t)key->n) : NULL;
    if (!words)
        return;
    memcpy(words, key->words, sizeof *words * (size_t)key->n);
    recent_entry *set = t->sets[key->hash % SETS];
    drop(&set[WAYS - 1]);
    memmove(set + 1, set, sizeof *set * (WAYS - 1));
    set[0] = (recent_entry){key->hash, key->epoch, dlk_prepared_hold(prepared), words, key->n};
}
