/* The interpreter: all threads of an item in lockstep, node by node, under an execution mask. Slow and plain on purpose.
 *
 * Lockstep hides two bugs that a GPU shows, so they are looked for: every byte of shared memory remembers the subgroup
 * that wrote it and the barrier epoch, and a read by another subgroup in the same epoch fails; a shuffle fails where a
 * partner is not active; a barrier fails unless every thread reaches it. */
#include "codegen/interpret.h"

#include <string.h>

#ifdef __SSE__
#    include <xmmintrin.h>
#endif

enum { POISON = 0xCD }; /* what shared and private memory holds at first */

typedef struct cell { /* who wrote a byte of shared memory, and when */
    int32_t subgroup; /* -1: nobody */
    int32_t epoch;
} cell;

typedef struct local { /* the memory of a SHARED or PRIVATE buffer */
    unsigned char *bytes;
    int64_t size;  /* of one copy */
    cell *written; /* SHARED */
} local;

typedef struct machine {
    const dlk_func *func;
    const uint64_t *arguments;
    dlk_arena arena;
    uint64_t **values;   /* by node: lane l of thread t at [t * lanes + l] */
    uint64_t ***results; /* by LOOP or IF: one array like that for each result */
    uint8_t **masks;     /* by LOOP or IF: the threads that are inside */
    int64_t **indices;   /* by LOOP: each thread's */
    local *locals;       /* by buffer */
    int64_t item;
    int32_t epoch;
    dlk_status status;
} machine;

typedef uint8_t *mask; /* one byte a thread: 1 where it runs */

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

static void run_prim(machine *m, const dlk_node *node, int thread, uint64_t *out)
{
    const dlk_prim prim = (dlk_prim)node->prim;
    const uint64_t *a = lanes_of(m, node->a, thread);
    const uint64_t *b = node->b == DLK_NONE ? a : lanes_of(m, node->b, thread);
    const uint64_t *c = node->c == DLK_NONE ? a : lanes_of(m, node->c, thread);
    const dlk_kind from = (dlk_kind)node_at(m, prim == DLK_PRIM_SELECT ? node->b : node->a)->type.kind;
    for (int l = 0; l < node->type.lanes; l++)
        out[l] = dlk_prim_eval(prim, from, (dlk_kind)node->type.kind, a[l], b[l], c[l], m->func->target->fast_fma);
}

static void run_perm(const machine *m, const dlk_node *node, int thread, uint64_t *out)
{
    const uint64_t *a = lanes_of(m, node->a, thread);
    const uint64_t *b = node->b == DLK_NONE ? NULL : lanes_of(m, node->b, thread);
    const int from = node_at(m, node->a)->type.lanes;
    for (int l = 0; l < node->type.lanes; l++)
        out[l] = node->perm[l] < 0 ? POISON : node->perm[l] < from ? a[node->perm[l]] : b[node->perm[l] - from];
}

static void run_shuffle(machine *m, dlk_val value, const dlk_node *node, int thread, const mask active, uint64_t *out)
{
    const int partner = thread ^ (int)node->imm;
    if (partner >= m->func->threads || !active[partner] || node->imm >= m->func->subgroup) {
        fail(m, value, "shuffle with a thread that is not active or not of the subgroup");
        return;
    }
    memcpy(out, lanes_of(m, node->a, partner), sizeof *out * node->type.lanes);
}

/* ---- Memory ---- */

static int64_t lane_offset(const machine *m, const dlk_node *node, int thread, int lane)
{
    const int64_t bytes = dlk_kind_bytes((dlk_kind)node->type.kind);
    switch ((dlk_step)node->step) {
    case DLK_STEP_UNIT:
        return lane * bytes;
    case DLK_STEP_ZERO:
        return 0;
    case DLK_STEP_REVERSE:
        return -lane * bytes;
    case DLK_STEP_UNIFORM:
        return lane * (int64_t)lanes_of(m, node->b, thread)[0];
    default: /* DLK_STEP_GATHER */
        return (int64_t)lanes_of(m, node->b, thread)[lane];
    }
}

static void check_shared(machine *m, dlk_val value, const local *l, int64_t offset, int bytes, int thread,
                         bool is_store)
{
    const int32_t subgroup = thread / m->func->subgroup;
    for (int64_t k = offset; k < offset + bytes; k++) {
        cell *c = &l->written[k];
        if (is_store)
            *c = (cell){subgroup, m->epoch};
        else if (c->subgroup >= 0 && c->subgroup != subgroup && c->epoch == m->epoch)
            fail(m, value, "shared memory read without a barrier after another subgroup wrote it");
    }
}

/* The address of one lane, NULL after a failure. */
static unsigned char *address_of(machine *m, dlk_val value, const dlk_node *node, int thread, int lane)
{
    const dlk_ir_buffer *buffer = &m->func->buffers[node->imm];
    const int bytes = dlk_kind_bytes((dlk_kind)node->type.kind);
    const int64_t offset = (int64_t)lanes_of(m, node->a, thread)[0] + lane_offset(m, node, thread, lane);
    if (buffer->space == DLK_SPACE_GLOBAL)
        return (unsigned char *)(uintptr_t)(m->arguments[node->imm] + (uint64_t)offset);
    const local *l = &m->locals[node->imm];
    if (offset < 0 || offset + bytes > l->size) {
        fail(m, value, "access outside a local buffer");
        return NULL;
    }
    if (buffer->space == DLK_SPACE_SHARED) {
        check_shared(m, value, l, offset, bytes, thread, node->op == DLK_IR_STORE);
        return l->bytes + offset;
    }
    return l->bytes + (int64_t)thread * l->size + offset;
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
    const size_t bytes = (size_t)dlk_kind_bytes((dlk_kind)node->type.kind);
    const int n = active_lanes(m, node, thread);
    memset(out, 0, sizeof *out * node->type.lanes);
    for (int l = 0; l < n; l++) {
        const unsigned char *at = address_of(m, value, node, thread, l);
        if (at)
            memcpy(&out[l], at, bytes); /* little-endian: the low bytes */
    }
}

static void run_store(machine *m, dlk_val value, const dlk_node *node, int thread)
{
    const size_t bytes = (size_t)dlk_kind_bytes((dlk_kind)node->type.kind);
    const uint64_t *from = lanes_of(m, node->d, thread);
    const int n = active_lanes(m, node, thread);
    for (int l = 0; l < n; l++) {
        unsigned char *at = address_of(m, value, node, thread, l);
        if (at)
            memcpy(at, &from[l], bytes);
    }
}

/* ---- Control ---- */

static void run_block(machine *m, const dlk_block *block, const mask active);

static void copy_value(const machine *m, uint64_t *to, dlk_val from, int thread)
{
    const size_t lanes = node_at(m, from)->type.lanes;
    memcpy(to + (size_t)thread * lanes, lanes_of(m, from, thread), sizeof *to * lanes);
}

static void run_barrier(machine *m, dlk_val value, const mask active)
{
    for (int t = 0; t < m->func->threads; t++)
        if (!active[t]) {
            fail(m, value, "barrier that not every thread reaches");
            return;
        }
    m->epoch++;
}

static void run_if(machine *m, dlk_val value, const dlk_node *node, const mask active)
{
    const int threads = m->func->threads;
    mask arm = m->masks[value];
    const dlk_block *blocks[2] = {node->body, node->other};
    for (int k = 0; k < 2; k++) {
        bool some = false;
        for (int t = 0; t < threads; t++)
            some |= arm[t] = active[t] && (lanes_of(m, node->a, t)[0] & 1) == (k == 0);
        if (some)
            run_block(m, blocks[k], arm);
        for (int t = 0; t < threads; t++)
            for (int y = 0; arm[t] && y < blocks[k]->n_yields; y++)
                copy_value(m, m->results[value][y], blocks[k]->yields[y], t);
    }
}

/* Which threads run the next round; sets their parameters. False when none does. */
static bool loop_round(machine *m, dlk_val value, const dlk_node *node)
{
    mask running = m->masks[value];
    bool some = false;
    for (int t = 0; t < m->func->threads; t++) {
        if (!running[t])
            continue;
        if (m->indices[value][t] >= (int64_t)lanes_of(m, node->b, t)[0]) {
            running[t] = 0;
            continue;
        }
        some = true;
        lanes_of(m, node->body->params[0], t)[0] = (uint64_t)m->indices[value][t];
        for (int k = 0; k < node->n_inits; k++) {
            const size_t lanes = node_at(m, node->inits[k])->type.lanes;
            memcpy(lanes_of(m, node->body->params[k + 1], t), m->results[value][k] + (size_t)t * lanes,
                   sizeof(uint64_t) * lanes);
        }
    }
    return some;
}

static void loop_advance(machine *m, dlk_val value, const dlk_node *node)
{
    mask running = m->masks[value];
    int64_t *index = m->indices[value];
    for (int t = 0; t < m->func->threads; t++) {
        if (!running[t])
            continue;
        for (int k = 0; k < node->n_inits; k++)
            copy_value(m, m->results[value][k], node->body->yields[k], t);
        if (node->has_until && lanes_of(m, node->body->yields[node->n_inits], t)[0] & 1)
            running[t] = 0;
        if (__builtin_add_overflow(index[t], (int64_t)lanes_of(m, node->c, t)[0], &index[t]))
            running[t] = 0;
    }
}

static void run_loop(machine *m, dlk_val value, const dlk_node *node, const mask active)
{
    mask running = m->masks[value];
    for (int t = 0; t < m->func->threads; t++) {
        running[t] = active[t];
        if (!active[t])
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

static void run_lanes(machine *m, dlk_val value, const dlk_node *node, int thread, const mask active)
{
    uint64_t *out = lanes_of(m, value, thread);
    switch ((dlk_ir_op)node->op) {
    case DLK_IR_CONST:
        for (int l = 0; l < node->type.lanes; l++)
            out[l] = (uint64_t)node->imm;
        break;
    case DLK_IR_UNIFORM:
        out[0] = uniform_bits(m, node->imm);
        break;
    case DLK_IR_ITEM:
        out[0] = node->imm == 0 ? (uint64_t)m->item : 0;
        break;
    case DLK_IR_THREAD:
        out[0] = (uint64_t)thread;
        break;
    case DLK_IR_IOTA:
        for (int l = 0; l < node->type.lanes; l++)
            out[l] = (uint64_t)l;
        break;
    case DLK_IR_PRIM:
        run_prim(m, node, thread, out);
        break;
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
    default: /* control, and parameters, which their loop sets */
        break;
    }
}

static void run_node(machine *m, dlk_val value, const mask active)
{
    const dlk_node *node = node_at(m, value);
    if (node->op == DLK_IR_LOOP)
        run_loop(m, value, node, active);
    else if (node->op == DLK_IR_IF)
        run_if(m, value, node, active);
    else if (node->op == DLK_IR_BARRIER)
        run_barrier(m, value, active);
    else
        for (int t = 0; t < m->func->threads && m->status == DLK_OK; t++)
            if (active[t])
                run_lanes(m, value, node, t, active);
}

static void run_block(machine *m, const dlk_block *block, const mask active)
{
    for (int k = 0; k < block->n && m->status == DLK_OK; k++)
        run_node(m, block->nodes[k], active);
}

static void make_values(machine *m)
{
    const dlk_func *func = m->func;
    m->values = DLK_NEW_ARRAY(&m->arena, uint64_t *, func->n_nodes + 1);
    m->results = DLK_NEW_ARRAY(&m->arena, uint64_t **, func->n_nodes + 1);
    m->masks = DLK_NEW_ARRAY(&m->arena, uint8_t *, func->n_nodes + 1);
    m->indices = DLK_NEW_ARRAY(&m->arena, int64_t *, func->n_nodes + 1);
    for (dlk_val v = 0; v < func->n_nodes; v++) {
        const dlk_node *node = node_at(m, v);
        m->values[v] = array_of(m, node->type);
        if (node->op != DLK_IR_LOOP && node->op != DLK_IR_IF)
            continue;
        const int n = node->op == DLK_IR_LOOP ? node->n_inits : node->body->n_yields;
        m->masks[v] = DLK_NEW_ARRAY(&m->arena, uint8_t, func->threads);
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
            l->written = DLK_NEW_ARRAY(&m->arena, cell, l->size);
    }
}

static void poison_locals(machine *m)
{
    for (int b = 0; b < m->func->n_buffers; b++) {
        local *l = &m->locals[b];
        const bool is_private = m->func->buffers[b].space == DLK_SPACE_PRIVATE;
        if (l->bytes)
            memset(l->bytes, POISON, (size_t)l->size * (is_private ? (size_t)m->func->threads : 1));
        for (int64_t k = 0; l->written && k < l->size; k++)
            l->written[k] = (cell){-1, 0};
    }
}

static dlk_status run_items(machine *m, int64_t first, int64_t end)
{
    make_values(m);
    make_locals(m);
    mask all = DLK_NEW_ARRAY(&m->arena, uint8_t, m->func->threads);
    memset(all, 1, (size_t)m->func->threads);
    for (m->item = first; m->item < end && m->status == DLK_OK; m->item++) {
        m->epoch = 0;
        poison_locals(m);
        run_block(m, m->func->body, all);
    }
    return m->status;
}

dlk_status dlk_interpret(const dlk_func *func, const uint64_t *arguments, int64_t first, int64_t end)
{
    jmp_buf escape;
    machine m = {.func = func, .arguments = arguments};
    m.arena.escape = &escape;
#ifdef __SSE__
    const unsigned caller = _mm_getcsr(); /* round to nearest, keep subnormals, mask all exceptions */
    _mm_setcsr(0x1f80);
#endif
    const dlk_status status =
        setjmp(escape) ? dlk_fail(DLK_ERR_MEMORY, "interpreter: out of memory") : run_items(&m, first, end);
#ifdef __SSE__
    _mm_setcsr(caller);
#endif
    dlk_arena_free(&m.arena);
    return status;
}
