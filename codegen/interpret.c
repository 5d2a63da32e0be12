/* The interpreter: all threads of an item in lockstep, node by node, under an execution mask. Plain on purpose.
 *
 * Lockstep hides bugs that a GPU shows, so they are looked for: every byte of shared memory remembers which subgroup
 * touched it last and in which barrier epoch (race.h); a shuffle fails unless its whole subgroup is active; a barrier fails
 * unless every thread reaches it.
 *
 * Every node owns its lanes in all threads, for the whole run: nodes that are the same in every item (constants, uniforms,
 * thread numbers) are computed once. Primitives are total, so where no thread is masked out, and for the threads of one
 * range, they are one call over all lanes. */
#include "codegen/interpret.h"

#include <string.h>

#include "base/float_env.h"
#include "codegen/race.h"

enum { POISON = 0xCD }; /* what shared and private memory holds at first */

typedef struct local { /* the memory of a SHARED or PRIVATE buffer */
    unsigned char *bytes;
    int64_t size;         /* of one copy */
    dlk_race_cell *cells; /* SHARED */
} local;

typedef struct mask { /* which threads run */
    uint8_t *on;      /* one byte a thread: 1 where it does */
    int first, end;   /* none does outside */
    bool whole;       /* every one inside does */
} mask;

typedef struct machine {
    const dlk_func *func;
    const uint64_t *arguments;
    dlk_arena arena;
    uint64_t **values;   /* by node: lane l of thread t at [t * lanes + l] */
    uint64_t ***results; /* by LOOP or IF: one array like that for each result */
    struct mask *masks;  /* by LOOP or IF: the threads that are inside */
    int64_t **indices;   /* by LOOP: each thread's */
    local *locals;       /* by buffer */
    int64_t item;
    int32_t epoch;
    dlk_status status;
} machine;

static const dlk_node *node_at(const machine *m, dlk_val value)
{
    return &m->func->nodes[value];
}

static uint64_t *lanes_of(const machine *m, dlk_val value, int thread)
{
    return m->values[value] + (size_t)thread * node_at(m, value)->type.lanes;
}

static uint64_t *array_of(machine *m, dlk_type type)
{
    return DLK_NEW_ARRAY(&m->arena, uint64_t, (size_t)m->func->threads * type.lanes);
}

static void fail(machine *m, dlk_val value, const char *what)
{
    if (m->status == DLK_OK)
        m->status = dlk_fail(DLK_ERR_INTERNAL, "interpreter: node v%d: %s", value, what);
}

/* ---- Pure nodes ---- */

static uint64_t uniform_bits(const machine *m, int64_t index)
{
    int n_globals = 0;
    while (n_globals < m->func->n_buffers && m->func->buffers[n_globals].space == DLK_SPACE_GLOBAL)
        n_globals++;
    const uint64_t word = m->arguments[n_globals + index];
    const dlk_kind kind = (dlk_kind)m->func->uniforms[index].kind;
    if (kind == DLK_F32)
        return dlk_prim_eval(DLK_PRIM_FTRUNC, DLK_F64, DLK_F32, word, 0, 0, false);
    return kind == DLK_F64 ? word : dlk_prim_eval(DLK_PRIM_ITRUNC, DLK_I64, kind, word, 0, 0, false);
}

static uint64_t table_bits(const machine *m, const dlk_node *node, uint64_t index)
{
    const dlk_table *table = &m->func->tables[node->imm];
    const int64_t i = (int64_t)index;
    return table->bits[i < 0 ? 0 : i >= table->count ? table->count - 1 : i];
}

/* In threads [first, end). */
static void run_prim(machine *m, const dlk_node *node, int first, int end, uint64_t *out)
{
    const dlk_prim prim = (dlk_prim)node->prim;
    const uint64_t *a = lanes_of(m, node->a, first);
    const uint64_t *b = node->b == DLK_NONE ? a : lanes_of(m, node->b, first);
    const uint64_t *c = node->c == DLK_NONE ? a : lanes_of(m, node->c, first);
    const dlk_kind from = (dlk_kind)node_at(m, prim == DLK_PRIM_SELECT ? node->b : node->a)->type.kind;
    const size_t n = (size_t)(end - first) * node->type.lanes;
    dlk_prim_eval_lanes(prim, from, (dlk_kind)node->type.kind, a, b, c, m->func->target->fast_fma, n, out);
}

static void run_perm(const machine *m, const dlk_node *node, int thread, uint64_t *out)
{
    const uint64_t *a = lanes_of(m, node->a, thread);
    const uint64_t *b = node->b == DLK_NONE ? NULL : lanes_of(m, node->b, thread);
    const int from = node_at(m, node->a)->type.lanes;
    for (int l = 0; l < node->type.lanes; l++)
        out[l] = node->perm[l] < 0 ? POISON : node->perm[l] < from ? a[node->perm[l]] : b[node->perm[l] - from];
}

static void run_shuffle(machine *m, dlk_val value, const dlk_node *node, int thread, const mask *active, uint64_t *out)
{
    const int subgroup = m->func->subgroup, start = thread / subgroup * subgroup;
    for (int t = start; t < start + subgroup; t++)
        if (t >= m->func->threads || !active->on[t] || node->imm >= subgroup) {
            fail(m, value, "shuffle in a subgroup of which not every thread is active");
            return;
        }
    memcpy(out, lanes_of(m, node->a, thread ^ (int)node->imm), sizeof *out * node->type.lanes);
}

/* ---- Memory ---- */

/* Bytes from one lane to the next, modulo 2^64; not of a GATHER. */
static uint64_t lane_stride(const machine *m, const dlk_node *node, int thread)
{
    const uint64_t bytes = (uint64_t)dlk_kind_bytes((dlk_kind)node->type.kind);
    switch ((dlk_step)node->step) {
    case DLK_STEP_UNIT:
        return bytes;
    case DLK_STEP_REVERSE:
        return 0 - bytes;
    case DLK_STEP_UNIFORM:
        return lanes_of(m, node->b, thread)[0];
    default: /* DLK_STEP_ZERO */
        return 0;
    }
}

static uint64_t lane_offset(const machine *m, const dlk_node *node, int thread, int lane)
{
    const uint64_t base = lanes_of(m, node->a, thread)[0];
    if (node->step == DLK_STEP_GATHER)
        return base + lanes_of(m, node->b, thread)[lane];
    return base + (uint64_t)lane * lane_stride(m, node, thread);
}

/* The address of one lane, NULL after a failure. */
static unsigned char *address_of(machine *m, dlk_val value, const dlk_node *node, int thread, int lane)
{
    const dlk_ir_buffer *buffer = &m->func->buffers[node->imm];
    const uint64_t offset = lane_offset(m, node, thread, lane);
    if (buffer->space == DLK_SPACE_GLOBAL)
        return (unsigned char *)(uintptr_t)(m->arguments[node->imm] + offset);
    const local *l = &m->locals[node->imm];
    const uint64_t bytes = (uint64_t)dlk_kind_bytes((dlk_kind)node->type.kind);
    if ((uint64_t)l->size < bytes || offset > (uint64_t)l->size - bytes) {
        fail(m, value, "access outside a local buffer");
        return NULL;
    }
    return l->bytes + (buffer->space == DLK_SPACE_PRIVATE ? (uint64_t)thread * (uint64_t)l->size : 0) + offset;
}

/* `stored`: the word about to be written at `at`, NULL for a load. */
static void check_race(machine *m, dlk_val value, const dlk_node *node, int thread, const unsigned char *at,
                       const uint64_t *stored)
{
    const local *l = &m->locals[node->imm];
    if (!l->cells)
        return;
    const int bytes = dlk_kind_bytes((dlk_kind)node->type.kind);
    dlk_race_cell *cells = l->cells + (at - l->bytes);
    const int32_t subgroup = thread / m->func->subgroup;
    const char *wrong = stored
                            ? dlk_race_write(cells, bytes, subgroup, m->epoch, memcmp(at, stored, (size_t)bytes) != 0)
                            : dlk_race_read(cells, bytes, subgroup, m->epoch);
    if (wrong)
        fail(m, value, wrong);
}

/* Lanes of global memory at regular steps: most of what kernels do. Little-endian: an element is a word's low bytes. */
static void load_regular(const void *first, uint64_t stride, int bytes, int n, uint64_t *out)
{
    for (int l = 0; l < n; l++) {
        const unsigned char *at = (const unsigned char *)((uintptr_t)first + (uintptr_t)l * stride);
        switch (bytes) {
        case 1:
            out[l] = *at;
            break;
        case 2:
            memcpy(&out[l], at, 2);
            break;
        case 4:
            memcpy(&out[l], at, 4);
            break;
        default:
            memcpy(&out[l], at, 8);
        }
    }
}

static void store_regular(void *first, uint64_t stride, int bytes, int n, const uint64_t *from)
{
    for (int l = 0; l < n; l++) {
        unsigned char *at = (unsigned char *)((uintptr_t)first + (uintptr_t)l * stride);
        switch (bytes) {
        case 1:
            *at = (unsigned char)from[l];
            break;
        case 2:
            memcpy(at, &from[l], 2);
            break;
        case 4:
            memcpy(at, &from[l], 4);
            break;
        default:
            memcpy(at, &from[l], 8);
        }
    }
}

static bool is_regular(const machine *m, const dlk_node *node)
{
    return m->func->buffers[node->imm].space == DLK_SPACE_GLOBAL && node->step != DLK_STEP_GATHER;
}

static int active_lanes(const machine *m, const dlk_node *node, int thread)
{
    if (node->count == DLK_NONE)
        return node->type.lanes;
    const int64_t count = (int64_t)lanes_of(m, node->count, thread)[0];
    return count < 0 ? 0 : count < node->type.lanes ? (int)count : node->type.lanes;
}

static void run_load(machine *m, dlk_val value, const dlk_node *node, int thread, uint64_t *out)
{
    const int bytes = dlk_kind_bytes((dlk_kind)node->type.kind), n = active_lanes(m, node, thread);
    memset(out, 0, sizeof *out * node->type.lanes);
    if (n && is_regular(m, node)) {
        load_regular(address_of(m, value, node, thread, 0), lane_stride(m, node, thread), bytes, n, out);
        return;
    }
    for (int l = 0; l < n; l++) {
        const unsigned char *at = address_of(m, value, node, thread, l);
        if (!at)
            return;
        check_race(m, value, node, thread, at, NULL);
        load_regular(at, 0, bytes, 1, &out[l]);
    }
}

static void run_store(machine *m, dlk_val value, const dlk_node *node, int thread)
{
    const int bytes = dlk_kind_bytes((dlk_kind)node->type.kind), n = active_lanes(m, node, thread);
    const uint64_t *from = lanes_of(m, node->d, thread);
    if (n && is_regular(m, node)) {
        store_regular(address_of(m, value, node, thread, 0), lane_stride(m, node, thread), bytes, n, from);
        return;
    }
    for (int l = 0; l < n; l++) {
        unsigned char *at = address_of(m, value, node, thread, l);
        if (!at)
            return;
        check_race(m, value, node, thread, at, &from[l]);
        store_regular(at, 0, bytes, 1, &from[l]);
    }
}

/* ---- Control ---- */

static void run_block(machine *m, const dlk_block *block, const mask *active);

static void copy_value(const machine *m, uint64_t *to, dlk_val from, int thread)
{
    const size_t lanes = node_at(m, from)->type.lanes;
    memcpy(to + (size_t)thread * lanes, lanes_of(m, from, thread), sizeof *to * lanes);
}

/* Finds the range of a mask whose bytes are set. False when no thread runs. */
static bool mask_settle(mask *k, int threads)
{
    int n = 0;
    k->first = k->end = 0;
    for (int t = 0; t < threads; t++) {
        if (!k->on[t])
            continue;
        k->first = n++ ? k->first : t;
        k->end = t + 1;
    }
    k->whole = n == k->end - k->first;
    return n > 0;
}

static void run_barrier(machine *m, dlk_val value, const mask *active)
{
    if (!active->whole || active->first != 0 || active->end != m->func->threads)
        fail(m, value, "barrier that not every thread reaches");
    m->epoch++;
}

static void run_if(machine *m, dlk_val value, const dlk_node *node, const mask *active)
{
    mask *arm = &m->masks[value];
    const dlk_block *blocks[2] = {node->body, node->other};
    for (int k = 0; k < 2; k++) {
        for (int t = 0; t < m->func->threads; t++)
            arm->on[t] = active->on[t] && (lanes_of(m, node->a, t)[0] & 1) == (k == 0);
        if (!mask_settle(arm, m->func->threads))
            continue;
        run_block(m, blocks[k], arm);
        for (int t = arm->first; t < arm->end; t++)
            for (int y = 0; arm->on[t] && y < blocks[k]->n_yields; y++)
                copy_value(m, m->results[value][y], blocks[k]->yields[y], t);
    }
}

/* Which threads run the next round; sets their parameters. False when none does. */
static bool loop_round(machine *m, dlk_val value, const dlk_node *node)
{
    mask *running = &m->masks[value];
    for (int t = running->first; t < running->end; t++) {
        if (!running->on[t])
            continue;
        if (m->indices[value][t] >= (int64_t)lanes_of(m, node->b, t)[0]) {
            running->on[t] = 0;
            continue;
        }
        lanes_of(m, node->body->params[0], t)[0] = (uint64_t)m->indices[value][t];
        for (int k = 0; k < node->n_inits; k++) {
            const size_t lanes = node_at(m, node->inits[k])->type.lanes;
            memcpy(lanes_of(m, node->body->params[k + 1], t), m->results[value][k] + (size_t)t * lanes,
                   sizeof(uint64_t) * lanes);
        }
    }
    return mask_settle(running, m->func->threads);
}

static void loop_advance(machine *m, dlk_val value, const dlk_node *node)
{
    mask *running = &m->masks[value];
    int64_t *index = m->indices[value];
    for (int t = running->first; t < running->end; t++) {
        if (!running->on[t])
            continue;
        for (int k = 0; k < node->n_inits; k++)
            copy_value(m, m->results[value][k], node->body->yields[k], t);
        if (node->has_until && lanes_of(m, node->body->yields[node->n_inits], t)[0] & 1)
            running->on[t] = 0;
        if (__builtin_add_overflow(index[t], (int64_t)lanes_of(m, node->c, t)[0], &index[t]))
            running->on[t] = 0;
    }
}

static void run_loop(machine *m, dlk_val value, const dlk_node *node, const mask *active)
{
    mask *running = &m->masks[value];
    running->first = active->first;
    running->end = active->end;
    memcpy(running->on, active->on, (size_t)m->func->threads);
    for (int t = active->first; t < active->end; t++) {
        if (!active->on[t])
            continue;
        m->indices[value][t] = (int64_t)lanes_of(m, node->a, t)[0];
        for (int k = 0; k < node->n_inits; k++)
            copy_value(m, m->results[value][k], node->inits[k], t);
    }
    while (m->status == DLK_OK && loop_round(m, value, node)) {
        run_block(m, node->body, running);
        loop_advance(m, value, node);
    }
}

/* ---- Running ---- */

/* One thread's lanes of a node that is neither a primitive nor control nor fixed. */
static void run_lanes(machine *m, dlk_val value, const dlk_node *node, int thread, const mask *active)
{
    uint64_t *out = lanes_of(m, value, thread);
    switch ((dlk_ir_op)node->op) {
    case DLK_IR_SPLAT:
        for (int l = 0; l < node->type.lanes; l++)
            out[l] = lanes_of(m, node->a, thread)[0];
        break;
    case DLK_IR_PERM:
        run_perm(m, node, thread, out);
        break;
    case DLK_IR_ANY:
        out[0] = 0;
        for (int l = 0; l < node_at(m, node->a)->type.lanes; l++)
            out[0] |= lanes_of(m, node->a, thread)[l] & 1;
        break;
    case DLK_IR_SHFL_XOR:
        run_shuffle(m, value, node, thread, active, out);
        break;
    case DLK_IR_LOAD:
        run_load(m, value, node, thread, out);
        break;
    case DLK_IR_STORE:
        run_store(m, value, node, thread);
        break;
    case DLK_IR_TABLE:
        for (int l = 0; l < node->type.lanes; l++)
            out[l] = table_bits(m, node, lanes_of(m, node->a, thread)[l]);
        break;
    case DLK_IR_RESULT:
        memcpy(out, m->results[node->a][node->imm] + (size_t)thread * node->type.lanes, sizeof *out * node->type.lanes);
        break;
    default: /* parameters, which their loop sets, and what is fixed */
        break;
    }
}

static void run_node(machine *m, dlk_val value, const mask *active)
{
    const dlk_node *node = node_at(m, value);
    if (node->op == DLK_IR_LOOP)
        run_loop(m, value, node, active);
    else if (node->op == DLK_IR_IF)
        run_if(m, value, node, active);
    else if (node->op == DLK_IR_BARRIER)
        run_barrier(m, value, active);
    else if (node->op == DLK_IR_PRIM && active->whole)
        run_prim(m, node, active->first, active->end, lanes_of(m, value, active->first));
    else
        for (int t = active->first; t < active->end && m->status == DLK_OK; t++) {
            if (!active->on[t])
                continue;
            if (node->op == DLK_IR_PRIM)
                run_prim(m, node, t, t + 1, lanes_of(m, value, t));
            else
                run_lanes(m, value, node, t, active);
        }
}

static void run_block(machine *m, const dlk_block *block, const mask *active)
{
    for (int k = 0; k < block->n && m->status == DLK_OK; k++)
        run_node(m, block->nodes[k], active);
}

/* Nodes that have one value for the whole run (an item's number: for the item), in every thread and lane. */
static void fix_value(machine *m, dlk_val value, bool for_item)
{
    const dlk_node *node = node_at(m, value);
    if ((node->op == DLK_IR_ITEM) != for_item)
        return;
    for (int t = 0; t < m->func->threads; t++)
        for (int l = 0; l < node->type.lanes; l++) {
            uint64_t *out = lanes_of(m, value, t) + l;
            if (node->op == DLK_IR_CONST)
                *out = (uint64_t)node->imm;
            else if (node->op == DLK_IR_UNIFORM)
                *out = uniform_bits(m, node->imm);
            else if (node->op == DLK_IR_THREAD)
                *out = (uint64_t)t;
            else if (node->op == DLK_IR_IOTA)
                *out = (uint64_t)l;
            else if (node->op == DLK_IR_ITEM)
                *out = node->imm == 0 ? (uint64_t)m->item : 0;
        }
}

static void make_values(machine *m)
{
    const dlk_func *func = m->func;
    m->values = DLK_NEW_ARRAY(&m->arena, uint64_t *, func->n_nodes + 1);
    m->results = DLK_NEW_ARRAY(&m->arena, uint64_t **, func->n_nodes + 1);
    m->masks = DLK_NEW_ARRAY(&m->arena, mask, func->n_nodes + 1);
    m->indices = DLK_NEW_ARRAY(&m->arena, int64_t *, func->n_nodes + 1);
    for (dlk_val v = 0; v < func->n_nodes; v++) {
        const dlk_node *node = node_at(m, v);
        m->values[v] = array_of(m, node->type);
        fix_value(m, v, false);
        if (node->op != DLK_IR_LOOP && node->op != DLK_IR_IF)
            continue;
        const int n = node->op == DLK_IR_LOOP ? node->n_inits : node->body->n_yields;
        m->masks[v].on = DLK_NEW_ARRAY(&m->arena, uint8_t, func->threads);
        m->indices[v] = DLK_NEW_ARRAY(&m->arena, int64_t, func->threads);
        m->results[v] = DLK_NEW_ARRAY(&m->arena, uint64_t *, n + 1);
        for (int k = 0; k < n; k++)
            m->results[v][k] =
                array_of(m, node_at(m, node->op == DLK_IR_LOOP ? node->inits[k] : node->body->yields[k])->type);
    }
}

static void make_locals(machine *m)
{
    const dlk_func *func = m->func;
    m->locals = DLK_NEW_ARRAY(&m->arena, local, func->n_buffers + 1);
    for (int b = 0; b < func->n_buffers; b++) {
        const dlk_ir_buffer *buffer = &func->buffers[b];
        if (buffer->space == DLK_SPACE_GLOBAL)
            continue;
        local *l = &m->locals[b];
        l->size = buffer->count * dlk_kind_bytes((dlk_kind)buffer->kind);
        l->bytes = dlk_arena_alloc(&m->arena,
                                   (size_t)l->size * (buffer->space == DLK_SPACE_PRIVATE ? (size_t)func->threads : 1));
        if (buffer->space == DLK_SPACE_SHARED)
            l->cells = DLK_NEW_ARRAY(&m->arena, dlk_race_cell, l->size);
    }
}

static void poison_locals(machine *m)
{
    for (int b = 0; b < m->func->n_buffers; b++) {
        local *l = &m->locals[b];
        const bool is_private = m->func->buffers[b].space == DLK_SPACE_PRIVATE;
        if (l->bytes)
            memset(l->bytes, POISON, (size_t)l->size * (is_private ? (size_t)m->func->threads : 1));
        if (l->cells)
            dlk_race_reset(l->cells, l->size);
    }
}

static void run_item(machine *m, const mask *all)
{
    m->epoch = 1; /* race.h: 0 is before all */
    poison_locals(m);
    for (dlk_val v = 0; v < m->func->n_nodes; v++)
        if (node_at(m, v)->op == DLK_IR_ITEM)
            fix_value(m, v, true);
    run_block(m, m->func->body, all);
}

static void run_items(machine *m, int64_t first, int64_t end)
{
    const int threads = m->func->threads;
    make_values(m);
    make_locals(m);
    mask all = {.on = DLK_NEW_ARRAY(&m->arena, uint8_t, threads), .end = threads, .whole = true};
    memset(all.on, 1, (size_t)threads);
    for (m->item = first; m->item < end && m->status == DLK_OK; m->item++)
        run_item(m, &all);
}

dlk_status dlk_interpret(const dlk_func *func, const uint64_t *arguments, int64_t first, int64_t end)
{
    jmp_buf escape;
    machine m = {.func = func, .arguments = arguments};
    m.arena.escape = &escape;
    const uint64_t caller = dlk_float_env_enter();
    if (setjmp(escape))
        m.status = dlk_fail(DLK_ERR_MEMORY, "interpreter: out of memory");
    else
        run_items(&m, first, end);
    dlk_float_env_leave(caller);
    dlk_arena_free(&m.arena);
    return m.status;
}
