/* Common subexpressions: of nodes that compute the same from the same, the first one stays, and serves its block and the
 * blocks inside. Lowering makes many (constants, offsets, products), and the interpreter and the GPU's text are no smaller
 * for a compiler's later effort.
 *
 * Loads are merged only from buffers whose bytes cannot change: never written here, and no other buffer's bytes. */
#include "codegen/rewrite.h"

#include <string.h>

typedef struct entry {
    uint64_t hash;
    dlk_val value;    /* in the new function; DLK_NONE: free */
    dlk_block *block; /* where it was made */
} entry;

typedef struct table { /* open addressing; a power of two slots */
    entry *entries;
    size_t n, capacity;
} table;

static bool is_constant_buffer(const dlk_func *func, int64_t buffer)
{
    const dlk_ir_buffer *b = &func->buffers[buffer];
    return b->space == DLK_SPACE_GLOBAL && b->noalias && !b->written;
}

static bool is_pure(const dlk_func *func, const dlk_node *node)
{
    switch ((dlk_ir_op)node->op) {
    case DLK_IR_CONST:
    case DLK_IR_ITEM:
    case DLK_IR_THREAD:
    case DLK_IR_IOTA:
    case DLK_IR_PRIM:
    case DLK_IR_SPLAT:
    case DLK_IR_PERM:
    case DLK_IR_ANY:
    case DLK_IR_TABLE:
        return true;
    case DLK_IR_LOAD:
        return is_constant_buffer(func, node->imm);
    default: /* a uniform is one node already; the others act, or depend on where they stand */
        return false;
    }
}

/* ---- Equality ---- */

/* All of a node that decides its value, in one comparable piece; its perm apart. */
typedef struct key {
    uint8_t op, prim, step, align;
    dlk_type type;
    uint8_t zero[2];
    dlk_val a, b, c, count;
    int64_t imm;
} key;

static key key_of(const dlk_node *node)
{
    return (key){.op = node->op,
                 .prim = node->prim,
                 .step = node->step,
                 .align = node->op == DLK_IR_LOAD ? node->align : 0,
                 .type = node->type,
                 .a = node->a,
                 .b = node->b,
                 .c = node->c,
                 .count = node->count,
                 .imm = node->imm};
}

static uint64_t mix(uint64_t hash, uint64_t word)
{
    hash = (hash ^ word) * 0x9E3779B97F4A7C15ull;
    return hash ^ hash >> 29;
}

static uint64_t hash_of(const dlk_node *node)
{
    uint64_t hash = 0;
    hash = mix(hash, (uint64_t)node->op << 32 | (uint64_t)node->prim << 24 | (uint64_t)node->type.kind << 8 |
                         node->type.lanes);
    hash = mix(hash, (uint64_t)(uint32_t)node->a << 32 | (uint32_t)node->b);
    hash = mix(hash, (uint64_t)(uint32_t)node->c << 32 | (uint32_t)node->count);
    hash = mix(hash, (uint64_t)node->imm);
    for (int l = 0; node->perm && l < node->type.lanes; l++)
        hash = mix(hash, (uint8_t)node->perm[l]);
    return hash;
}

static bool is_equal(const dlk_node *x, const dlk_node *y)
{
    const key a = key_of(x), b = key_of(y);
    if (memcmp(&a, &b, sizeof a) != 0)
        return false;
    return !x->perm || memcmp(x->perm, y->perm, x->type.lanes) == 0;
}

/* ---- The table ---- */

static bool is_visible(const dlk_func *func, const dlk_block *block)
{
    for (const dlk_block *at = func->at; at; at = at->outer)
        if (at == block)
            return true;
    return false;
}

/* The slot of an equal node, or a free one. An equal node that cannot be seen from here stands in a block that is closed for
 * good, so its slot may be taken over. */
static entry *find(const table *t, const dlk_func *func, const dlk_node *node, uint64_t hash)
{
    for (size_t slot = hash & (t->capacity - 1);; slot = (slot + 1) & (t->capacity - 1)) {
        entry *e = &t->entries[slot];
        if (e->value == DLK_NONE)
            return e;
        if (e->hash == hash && is_equal(&func->nodes[e->value], node))
            return e;
    }
}

static entry *make_entries(dlk_arena *arena, size_t capacity)
{
    entry *entries = DLK_NEW_ARRAY(arena, entry, capacity);
    for (size_t k = 0; k < capacity; k++)
        entries[k].value = DLK_NONE;
    return entries;
}

static void grow(table *t, dlk_arena *arena)
{
    const table old = *t;
    t->capacity *= 2;
    t->entries = make_entries(arena, t->capacity);
    for (size_t k = 0; k < old.capacity; k++) {
        if (old.entries[k].value == DLK_NONE)
            continue;
        size_t slot = old.entries[k].hash & (t->capacity - 1);
        while (t->entries[slot].value != DLK_NONE)
            slot = (slot + 1) & (t->capacity - 1);
        t->entries[slot] = old.entries[k];
    }
}

static dlk_node with_mapped_operands(const dlk_rewrite *rewrite, const dlk_node *node)
{
    dlk_node mapped = *node;
    mapped.a = dlk_rewrite_mapped(rewrite, node->a);
    mapped.b = dlk_rewrite_mapped(rewrite, node->b);
    mapped.c = dlk_rewrite_mapped(rewrite, node->c);
    mapped.count = dlk_rewrite_mapped(rewrite, node->count);
    return mapped;
}

static bool merge(dlk_rewrite *rewrite, const dlk_node *node, dlk_val *out)
{
    table *t = rewrite->state;
    dlk_func *func = rewrite->to;
    if (!is_pure(func, node))
        return false;
    const dlk_node mapped = with_mapped_operands(rewrite, node);
    const uint64_t hash = hash_of(&mapped);
    entry *e = find(t, func, &mapped, hash);
    if (e->value != DLK_NONE && is_visible(func, e->block)) {
        *out = e->value;
        return true;
    }
    const int before = func->n_nodes;
    *out = dlk_rewrite_copy(rewrite, node);
    if (*out < before || !is_equal(&func->nodes[*out], &mapped)) /* the builder made something simpler */
        return true;
    t->n += e->value == DLK_NONE;
    *e = (entry){hash, *out, func->at};
    if (2 * t->n > t->capacity)
        grow(t, func->arena);
    return true;
}

void dlk_merge_run(dlk_func *func)
{
    table t = {.capacity = 1024};
    t.entries = make_entries(func->arena, t.capacity);
    dlk_rewrite_run(func, merge, &t);
}
