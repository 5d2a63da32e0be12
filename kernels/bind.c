/* Binds a step to its kernel: the kernel asks for numbers by role, and here each role gets its word. What differs from
 * run to run, addresses and scalars, becomes a patch; what differs between the steps of the odometer becomes a move. */
#include <string.h>

#include "base/status.h"
#include "kernels/plan_shape.h"

/* An item should be worth at least this many elements, and a thread this much time. */
#define ITEM_ELEMENTS    8192
#define THREAD_NS        10000.0
#define ITEMS_PER_THREAD 4

typedef struct binder {
    dlk_launch_plan *plan;
    dlk_plan_step *step;
    dlk_step_shape *shape;
    const dlk_layout *layout;
    dlk_arena *arena;
    int64_t tile[2], tiles[2];
} binder;

static int64_t ceil_div(int64_t a, int64_t b)
{
    return a / b + (a % b != 0);
}

/* ---- Items ------------------------------------------------------------------------------------------------------- */

static double step_elements(const binder *b)
{
    double n = 1;
    for (int k = 0; k < b->shape->n_outer; k++)
        n *= (double)b->shape->outer[k].extent;
    for (int a = 0; a < 2; a++)
        n *= (double)b->shape->axis[a].extent;
    return n;
}

/* How many items, over all steps of the odometer, keep the threads busy. */
static int64_t wanted_items(binder *b)
{
    const double elements = step_elements(b);
    const double threads = elements * b->shape->element_ns / THREAD_NS;
    b->step->threads = threads < 2 ? 1 : threads > b->shape->threads ? b->shape->threads : (int)threads;
    if (b->step->threads == 1)
        return 1;
    const double most = elements / ITEM_ELEMENTS;
    const int64_t wanted = (int64_t)b->step->threads * ITEMS_PER_THREAD;
    return most < (double)wanted ? (int64_t)most + 1 : wanted;
}

/* A tile of `multiple` elements times a whole number (times a power of two for runs of leaves) that leaves about
 * `pieces` of the axis. */
static int64_t tile_for(int64_t extent, int64_t multiple, int64_t at_most, int64_t pieces, bool is_run)
{
    int64_t tile = multiple;
    if (is_run)
        while (ceil_div(extent, tile) > pieces && tile <= extent)
            tile *= 2;
    else
        tile = ceil_div(ceil_div(extent, pieces), multiple) * multiple;
    if (at_most && tile > at_most)
        tile = at_most / multiple * multiple;
    return tile < multiple ? multiple : tile;
}

static void choose_tiles(binder *b)
{
    int64_t pieces = ceil_div(wanted_items(b), b->step->outer_steps);
    for (int a = 0; a < 2; a++) {
        const int64_t extent = b->shape->axis[a].extent, multiple = b->layout->tiling.multiple[a];
        const bool is_run = a == 1 && b->step->signature.nest.has_runs;
        b->tile[a] = extent;
        b->tiles[a] = 1;
        if (!multiple || !extent)
            continue;
        b->tile[a] = tile_for(extent, multiple, b->layout->tiling.at_most[a], pieces, is_run);
        b->tiles[a] = ceil_div(extent, b->tile[a]);
        pieces = ceil_div(pieces, b->tiles[a]);
    }
    b->step->items = b->tiles[0] * b->tiles[1];
    b->shape->runs = b->step->signature.nest.has_runs ? b->tiles[1] : 1;
}

/* ---- States ------------------------------------------------------------------------------------------------------ */

/* Dense, the runs fastest, then axis 0, then the outer axes from the innermost. */
static dlk_status place_states(binder *b)
{
    dlk_states *states = b->shape->written;
    if (!states)
        return DLK_OK;
    int64_t n = 1;
    states->stride[DLK_AXIS_RUNS] = 1;
    n *= b->shape->runs;
    states->stride[b->shape->axis[0].number] = n;
    bool fits = !__builtin_mul_overflow(n, b->shape->axis[0].extent, &n);
    for (int k = b->shape->n_outer - 1; k >= 0; k--) {
        states->stride[b->shape->outer[k].number] = n;
        fits &= !__builtin_mul_overflow(n, b->shape->outer[k].extent, &n);
    }
    if (!fits || n > INT64_MAX / 64 / DLK_OPERANDS_MAX / 8)
        return dlk_fail(DLK_ERR_MEMORY, "the states of this reduction are beyond the address space");
    for (int i = 0; i < states->n; i++) {
        states->offset[i] = b->plan->scratch_bytes;
        b->plan->scratch_bytes += (n * states->bytes[i] + 63) / 64 * 64;
    }
    return DLK_OK;
}

/* ---- Words ------------------------------------------------------------------------------------------------------- */

/* Bytes that one step along an axis moves a buffer. */
static int64_t stride_of(const binder *b, dlk_buffer_role role, const dlk_step_axis *axis)
{
    const dlk_step_shape *s = b->shape;
    switch ((dlk_buffer_kind)role.kind) {
    case DLK_BUFFER_INPUT:
        return axis->stride ? axis->stride[role.index] : 0;
    case DLK_BUFFER_OUTPUT:
        return axis->stride ? axis->stride[s->n_inputs + role.index] : 0;
    case DLK_BUFFER_STATE_IN:
        return axis->number == DLK_AXIS_NONE ? 0 : s->read->stride[axis->number] * s->read->bytes[role.index];
    case DLK_BUFFER_STATE_OUT:
        return axis->number == DLK_AXIS_NONE ? 0 : s->written->stride[axis->number] * s->written->bytes[role.index];
    }
    return 0;
}

static dlk_home home_of(const binder *b, dlk_buffer_role role)
{
    const dlk_step_shape *s = b->shape;
    if (role.kind == DLK_BUFFER_STATE_IN)
        return (dlk_home){DLK_PATCH_SCRATCH, 0, s->read->offset[role.index]};
    if (role.kind == DLK_BUFFER_STATE_OUT)
        return (dlk_home){DLK_PATCH_SCRATCH, 0, s->written->offset[role.index]};
    const int operand = role.kind == DLK_BUFFER_INPUT ? role.index : s->n_inputs + role.index;
    dlk_home home = s->operands[operand].home;
    home.offset += s->offset[operand];
    return home;
}

static void patch(binder *b, int word, dlk_home home)
{
    b->step->patches[b->step->n_patches++] =
        (dlk_patch){.word = (uint16_t)word, .source = home.source, .index = home.index, .offset = home.offset};
}

/* A word that the odometer moves, by `moves[k]` for each step along outer axis k. */
static int64_t *add_moving(binder *b, int word)
{
    dlk_plan_step *step = b->step;
    step->moving[step->n_moving] = (uint16_t)word;
    return &step->outer_moves[step->n_moving++ * step->n_outer]; /* by columns for now: see transpose_moves */
}

static void bind_address(binder *b, int word, dlk_buffer_role role)
{
    patch(b, word, home_of(b, role));
    int64_t *moves = add_moving(b, word);
    for (int k = 0; k < b->step->n_outer; k++)
        moves[k] = stride_of(b, role, &b->shape->outer[k]);
}

static void bind_index_base(binder *b, int word)
{
    int64_t *moves = add_moving(b, word);
    for (int k = 0; k < b->step->n_outer; k++)
        moves[k] = b->shape->outer[k].index_step;
}

static dlk_status bind_uniform(binder *b, int word, const dlk_uniform *u)
{
    uint64_t *at = &b->step->arguments[word];
    const int a = u->axis;
    switch ((dlk_uniform_role)u->role) {
    case DLK_UNIFORM_EXTENT:
        *at = (uint64_t)b->shape->axis[a].extent;
        return DLK_OK;
    case DLK_UNIFORM_STRIDE:
        *at = (uint64_t)stride_of(b, u->buffer, &b->shape->axis[a]);
        return DLK_OK;
    case DLK_UNIFORM_TILE:
        *at = (uint64_t)b->tile[a];
        return DLK_OK;
    case DLK_UNIFORM_TILES:
        *at = (uint64_t)b->tiles[a];
        return DLK_OK;
    case DLK_UNIFORM_COUNT:
        *at = (uint64_t)b->shape->count;
        return DLK_OK;
    case DLK_UNIFORM_INDEX_STRIDE:
        *at = (uint64_t)b->shape->axis[a].index_step;
        return DLK_OK;
    case DLK_UNIFORM_INDEX_BASE:
        bind_index_base(b, word);
        return DLK_OK;
    case DLK_UNIFORM_ADDRESS:
        bind_address(b, word, u->buffer);
        return DLK_OK;
    case DLK_UNIFORM_SCALAR:
        b->step->patches[b->step->n_patches++] =
            (dlk_patch){.word = (uint16_t)word, .source = DLK_PATCH_SCALAR, .part = u->axis, .index = u->index};
        return DLK_OK;
    case DLK_UNIFORM_MAGIC:
    case DLK_UNIFORM_SHIFT:
        break;
    }
    return dlk_fail(DLK_ERR_INTERNAL, "a kernel asks for uniform role %d, which no plan supplies", u->role);
}

/* add_moving wrote one column after the other; the odometer reads rows. */
static void transpose_moves(binder *b)
{
    dlk_plan_step *step = b->step;
    int64_t *rows = DLK_NEW_ARRAY(b->arena, int64_t, step->n_outer * step->n_moving + 1);
    for (int k = 0; k < step->n_outer; k++)
        for (int m = 0; m < step->n_moving; m++)
            rows[k * step->n_moving + m] = step->outer_moves[m * step->n_outer + k];
    step->outer_moves = rows;
}

static dlk_status bind_words(binder *b)
{
    dlk_plan_step *step = b->step;
    const int n = b->layout->n_buffers + b->layout->n_uniforms;
    step->n_buffers = b->layout->n_buffers;
    step->n_arguments = n;
    step->arguments = DLK_NEW_ARRAY(b->arena, uint64_t, n + 1);
    step->patches = DLK_NEW_ARRAY(b->arena, dlk_patch, n + 1);
    step->moving = DLK_NEW_ARRAY(b->arena, uint16_t, n + 1);
    step->outer_moves = DLK_NEW_ARRAY(b->arena, int64_t, n * step->n_outer + 1);
    for (int i = 0; i < b->layout->n_buffers; i++)
        bind_address(b, i, b->layout->buffers[i]);
    for (int i = 0; i < b->layout->n_uniforms; i++)
        DLK_TRY(bind_uniform(b, b->layout->n_buffers + i, &b->layout->uniforms[i]));
    transpose_moves(b);
    return DLK_OK;
}

/* ---- Entry ------------------------------------------------------------------------------------------------------- */

static void set_outer(binder *b)
{
    dlk_plan_step *step = b->step;
    step->n_outer = b->shape->n_outer;
    step->outer_extents = DLK_NEW_ARRAY(b->arena, int64_t, step->n_outer + 1);
    step->outer_steps = 1;
    for (int k = 0; k < step->n_outer; k++) {
        step->outer_extents[k] = b->shape->outer[k].extent;
        step->outer_steps *= b->shape->outer[k].extent;
    }
}

dlk_status dlk_launch_plan_bind(dlk_launch_plan *plan, int index, const dlk_layout *layout, dlk_arena *arena)
{
    binder b = {.plan = plan, .step = &plan->steps[index], .layout = layout, .arena = arena};
    b.shape = b.step->shape;
    if (b.shape->before)
        b.shape->axis[1].extent = b.shape->before->runs;
    set_outer(&b);
    choose_tiles(&b);
    DLK_TRY(place_states(&b));
    return bind_words(&b);
}

/* ---- Dump -------------------------------------------------------------------------------------------------------- */

static void print_axis(const dlk_step_shape *shape, const dlk_step_axis *axis, const char *what, dlk_buffer *out)
{
    dlk_buffer_printf(out, "    %s axis: extent %lld, strides", what, (long long)axis->extent);
    for (int i = 0; i < shape->n_operands; i++)
        dlk_buffer_printf(out, " %lld", (long long)(axis->stride ? axis->stride[i] : 0));
    dlk_buffer_puts(out, "\n");
}

static void print_step(const dlk_plan_step *step, int index, dlk_buffer *out)
{
    const dlk_step_shape *shape = step->shape;
    dlk_buffer_printf(out, "  step %d: %lld x %lld items on at most %d threads\n", index, (long long)step->outer_steps,
                      (long long)step->items, step->threads);
    for (int k = 0; k < shape->n_outer; k++)
        print_axis(shape, &shape->outer[k], "walked", out);
    print_axis(shape, &shape->axis[0], "outer", out);
    print_axis(shape, &shape->axis[1], step->signature.nest.reduced_axis == 1 ? "reduced" : "inner", out);
}

static void print_result(const dlk_launch_plan *plan, int k, dlk_buffer *out)
{
    const dlk_result *r = &plan->results[k];
    dlk_buffer_printf(out, "  output %d: %s%s, strides %s, %s%s\n", k, dlk_dtypes[r->dtype].name,
                      dlk_shape_describe(r->shape, r->ndim, (char[DLK_VIEW_TEXT]){0}),
                      dlk_shape_describe(r->strides, r->ndim, (char[DLK_VIEW_TEXT]){0}),
                      r->is_given ? "given" : "allocated", r->is_temporary ? ", through a temporary" : "");
}

void dlk_launch_plan_print(const dlk_launch_plan *plan, dlk_buffer *out)
{
    dlk_buffer_printf(out, "plan of %s: %d steps, %lld bytes of scratch\n", plan->operation, plan->n_steps,
                      (long long)plan->scratch_bytes);
    for (int k = 0; k < plan->n_outputs; k++)
        print_result(plan, k, out);
    for (int i = 0; i < plan->n_steps; i++)
        print_step(&plan->steps[i], i, out);
}
