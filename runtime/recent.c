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
    recent_entry *last; /* the one that was found last: in a loop, the next one too */
} recent_table;

static pthread_once_t once = PTHREAD_ONCE_INIT;
static pthread_key_t at_exit;
static bool has_key;
static _Thread_local recent_table *table; /* made on first use */

/* ---- The key ----------------------------------------------------------------------------------------------------- */

/* Writers of words: each gets the place where it writes and gives the place behind. Room was checked before. */

static uint64_t *put_text(uint64_t *to, const char *text)
{
    const size_t bytes = text ? strlen(text) : 0;
    *to++ = text ? bytes + 1 : 0;
    for (size_t at = 0; at < bytes; at += sizeof *to) {
        *to = 0;
        memcpy(to++, text + at, bytes - at < sizeof *to ? bytes - at : sizeof *to);
    }
    return to;
}

static uint64_t *put_tensor(uint64_t *to, const DLTensor *t, uint64_t flags)
{
    const unsigned part =
        t->dtype.bits / (t->dtype.code == kDLComplex ? 16u : 8u); /* a power of two, where it counts */
    const bool is_misaligned = part && ((uintptr_t)dlk_tensor_address(t) & (part - 1)) != 0;
    *to++ = (uint64_t)(uint32_t)t->ndim | (uint64_t)t->dtype.code << 32 | (uint64_t)t->dtype.bits << 40 |
            (uint64_t)t->dtype.lanes << 48;
    *to++ = (uint64_t)(uint32_t)t->device.device_type << 32 | (flags & 0xffff) << 8 | (uint64_t)(t->data == NULL) << 2 |
            (uint64_t)is_misaligned << 1 | (t->strides != NULL);
    for (int i = 0; i < t->ndim; i++)
        *to++ = (uint64_t)t->shape[i];
    for (int i = 0; i < t->ndim && t->strides; i++)
        *to++ = (uint64_t)t->strides[i];
    return to;
}

static uint64_t *put_params(uint64_t *to, const dlk_params *p)
{
    *to++ = (uint64_t)(uint32_t)p->n_axes | (uint64_t)(p->axes != NULL) << 32 | (uint64_t)(p->keepdims != 0) << 33 |
            (uint64_t)(p->saturate != 0) << 34 | (uint64_t)(p->where != NULL) << 35 |
            (uint64_t)(p->initial.kind & 0xff) << 40 | (uint64_t)(p->n_scalars & 0xff) << 48;
    *to++ = (uint64_t)p->dtype.code | (uint64_t)p->dtype.bits << 8 | (uint64_t)p->dtype.lanes << 16;
    for (int i = 0; i < p->n_axes; i++)
        *to++ = (uint64_t)(int64_t)p->axes[i];
    for (int i = 0; i < p->n_scalars; i++) {
        *to++ = (uint64_t)p->scalars[i].value.kind;
        to = put_text(to, p->scalars[i].name);
    }
    return put_text(to, p->implementation);
}

/* Words that the tensor takes; too many for one that is wrong in itself, so that it never gets in. */
static size_t tensor_words(const DLTensor *t)
{
    if (t->ndim < 0 || t->ndim > DLK_NDIM_MAX || (t->ndim && !t->shape))
        return DLK_KEY_WORDS + 1;
    return 3 + 2 * (size_t)t->ndim;
}

static bool has_room(const dlk_arguments *a)
{
    size_t words = 6 + (size_t)a->n_inputs + (size_t)a->n_outputs + (size_t)a->params.n_axes;
    for (int i = 0; i < a->n_tensors; i++)
        words += tensor_words(a->tensors[i]);
    for (int k = 0; k < a->n_outputs; k++)
        words += a->outputs[k].tensor ? tensor_words(a->outputs[k].tensor) : 0;
    for (int i = 0; i < a->params.n_scalars; i++)
        words += 3 + strlen(a->params.scalars[i].name) / sizeof(uint64_t);
    words += a->params.implementation ? 2 + strlen(a->params.implementation) / sizeof(uint64_t) : 1;
    return words <= DLK_KEY_WORDS;
}

void dlk_recent_key_make(const dlk_arguments *a, dlk_recent_key *out)
{
    out->n = 0;
    if (!has_room(a))
        return;
    uint64_t *to = out->words;
    *to++ = a->context->serial;
    *to++ = (uint64_t)(uintptr_t)a->op;
    *to++ = (uint64_t)a->n_inputs | (uint64_t)a->n_outputs << 32;
    to = put_params(to, &a->params);
    for (int i = 0, tensor = 0; i < a->n_inputs; i++) {
        const dlk_input *input = &a->inputs[i];
        const bool is_tensor = input->tensor || input->owner || input->legacy;
        *to++ = is_tensor ? 0 : (uint64_t)input->scalar.kind;
        if (is_tensor) {
            to = put_tensor(to, a->tensors[tensor], a->flags[tensor]);
            tensor++;
        }
    }
    if (a->params.where)
        to = put_tensor(to, a->tensors[a->n_tensors - 1], a->flags[a->n_tensors - 1]);
    for (int k = 0; k < a->n_outputs; k++) {
        *to++ = a->outputs[k].tensor != NULL;
        if (a->outputs[k].tensor)
            to = put_tensor(to, a->outputs[k].tensor, a->outputs[k].flags);
    }
    out->n = (int)(to - out->words);
    out->epoch = dlk_context_epoch(a->context);
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
    return e->prepared && e->epoch == key->epoch && e->n == key->n &&
           !memcmp(e->words, key->words, sizeof *e->words * (size_t)e->n);
}

const dlk_prepared *dlk_recent_find(dlk_recent_key *key, char *const *inputs, char *const *outputs)
{
    recent_table *t = table;
    if (!key->n)
        return NULL;
    if (t && t->last && is_key(t->last, key) && dlk_prepared_fits(t->last->prepared, inputs, outputs))
        return t->last->prepared;
    key->hash = dlk_hash64_of(key->words, sizeof *key->words * (size_t)key->n);
    for (int w = 0; t && w < WAYS; w++) {
        recent_entry *e = &t->sets[key->hash % SETS][w];
        if (e->hash == key->hash && is_key(e, key) && dlk_prepared_fits(e->prepared, inputs, outputs)) {
            t->last = e;
            return e->prepared;
        }
    }
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
    t->last = &set[0];
}
