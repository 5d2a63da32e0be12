/* States, joins and the binary counter. The order of joins is the meaning of a reduction (its bits), so it is written
 * here once and not in each schedule. */
#include "codegen/fold.h"

/* ---- What a reduction asks for ------------------------------------------------------------------------------------ */

int dlk_reduction_lanes(const dlk_reduction *reduction)
{
    return 128 / (dlk_kind_bytes(reduction->tree_kind) * reduction->tree_parts);
}

/* ---- Joins -------------------------------------------------------------------------------------------------------- */

static int state_lanes(const dlk_walk *walk, const dlk_state *state)
{
    return dlk_val_type(walk->func, state->part[0]).lanes;
}

static void merge(dlk_walk *walk, const dlk_reduction *reduction, const dlk_state *a, const dlk_state *b,
                  dlk_state *out)
{
    dlk_walk_push(walk, state_lanes(walk, a));
    for (int k = 0; k < reduction->n; k++) {
        dlk_walk_bind(walk, reduction->left[k], a->part[k]);
        dlk_walk_bind(walk, reduction->right[k], b->part[k]);
    }
    for (int k = 0; k < reduction->n; k++)
        out->part[k] = dlk_walk_vector(walk, reduction->merge[k]);
    dlk_walk_pop(walk);
}

static void choose(dlk_walk *walk, const dlk_reduction *reduction, dlk_val p, dlk_state *a, const dlk_state *b)
{
    for (int k = 0; k < reduction->n; k++)
        a->part[k] = dlk_emit_select(walk->func, p, a->part[k], b->part[k]);
}

dlk_state dlk_state_join(dlk_walk *walk, const dlk_reduction *reduction, const dlk_state *a, const dlk_state *b)
{
    dlk_state out = {.present = DLK_NONE};
    merge(walk, reduction, a, b, &out);
    if (!reduction->has_identity && b->present != DLK_NONE)
        choose(walk, reduction, b->present, &out, a);
    if (!reduction->has_identity && a->present != DLK_NONE)
        choose(walk, reduction, a->present, &out, b);
    if (a->present != DLK_NONE && b->present != DLK_NONE)
        out.present = dlk_ir_prim(walk->func, DLK_PRIM_OR, a->present, b->present, DLK_NONE);
    return out;
}

static dlk_val half(dlk_walk *walk, dlk_val value, int first, int lanes)
{
    int8_t perm[DLK_LANES_MAX];
    for (int i = 0; i < lanes; i++)
        perm[i] = (int8_t)(first + i);
    return dlk_ir_perm(walk->func, value, DLK_NONE, perm, lanes);
}

static dlk_state half_state(dlk_walk *walk, const dlk_reduction *reduction, const dlk_state *state, int first,
                            int lanes)
{
    dlk_state out = {.present = DLK_NONE};
    for (int k = 0; k < reduction->n; k++)
        out.part[k] = half(walk, state->part[k], first, lanes);
    if (state->present != DLK_NONE)
        out.present = half(walk, state->present, first, lanes);
    return out;
}

dlk_state dlk_state_fold(dlk_walk *walk, const dlk_reduction *reduction, dlk_state state)
{
    for (int h = state_lanes(walk, &state) / 2; h >= 1; h /= 2) {
        const dlk_state low = half_state(walk, reduction, &state, 0, h);
        const dlk_state high = half_state(walk, reduction, &state, h, h);
        state = dlk_state_join(walk, reduction, &low, &high);
    }
    return state;
}

dlk_state dlk_state_nothing(dlk_walk *walk, const dlk_reduction *reduction, int lanes)
{
    dlk_state out = {.present = DLK_NONE};
    for (int k = 0; k < reduction->n; k++) {
        const uint64_t bits = reduction->has_identity ? reduction->identity[k] : 0;
        out.part[k] = dlk_ir_const(walk->func, (dlk_type){reduction->kind[k], (uint8_t)lanes}, bits);
    }
    out.present = dlk_ir_const(walk->func, (dlk_type){DLK_P1, (uint8_t)lanes}, 0);
    return out;
}

dlk_state dlk_state_mask(dlk_walk *walk, const dlk_reduction *reduction, dlk_state state, dlk_val p)
{
    const int lanes = state_lanes(walk, &state);
    p = dlk_walk_widen(walk, p, lanes);
    if (reduction->has_identity) {
        const dlk_state nothing = dlk_state_nothing(walk, reduction, lanes);
        choose(walk, reduction, p, &state, &nothing);
    }
    if (state.present == DLK_NONE)
        state.present = p;
    else
        state.present = dlk_ir_prim(walk->func, DLK_PRIM_AND, state.present, p, DLK_NONE);
    return state;
}

void dlk_state_make_presence(dlk_walk *walk, dlk_state *state)
{
    if (state->present == DLK_NONE)
        state->present = dlk_ir_const(walk->func, (dlk_type){DLK_P1, (uint8_t)state_lanes(walk, state)}, 1);
}

int dlk_state_pack(dlk_walk *walk, const dlk_reduction *reduction, const dlk_state *state, bool with_presence,
                   dlk_val *out)
{
    dlk_state copy = *state;
    for (int k = 0; k < reduction->n; k++)
        out[k] = copy.part[k];
    if (!with_presence)
        return reduction->n;
    dlk_state_make_presence(walk, &copy);
    out[reduction->n] = copy.present;
    return reduction->n + 1;
}

dlk_state dlk_state_unpack(const dlk_reduction *reduction, bool with_presence, const dlk_val *values)
{
    dlk_state out = {.present = with_presence ? values[reduction->n] : DLK_NONE};
    for (int k = 0; k < reduction->n; k++)
        out.part[k] = values[k];
    return out;
}

/* ---- Arrays of states --------------------------------------------------------------------------------------------- */

static dlk_kind memory_kind(dlk_kind kind)
{
    return kind == DLK_P1 ? DLK_I8 : kind;
}

dlk_state_array dlk_state_array_create(dlk_func *func, const dlk_reduction *reduction, bool has_presence, int64_t count)
{
    dlk_state_array array = {.reduction = reduction, .has_presence = has_presence};
    for (int k = 0; k < reduction->n; k++)
        array.buffer[k] = dlk_func_local(func, DLK_SPACE_PRIVATE, memory_kind(reduction->kind[k]), count);
    if (has_presence)
        array.buffer[reduction->n] = dlk_func_local(func, DLK_SPACE_PRIVATE, DLK_I8, count);
    return array;
}

static dlk_mem array_mem(dlk_func *func, int buffer, dlk_kind kind, dlk_val index)
{
    return (dlk_mem){.buffer = buffer,
                     .offset = dlk_emit_mul_const(func, index, dlk_kind_bytes(kind)),
                     .step = DLK_STEP_UNIT,
                     .stride = DLK_NONE,
                     .count = DLK_NONE};
}

static dlk_val array_load(dlk_func *func, int buffer, dlk_kind kind, dlk_val index, int lanes)
{
    const dlk_kind memory = memory_kind(kind);
    dlk_val value = dlk_ir_load(func, (dlk_type){memory, (uint8_t)lanes}, array_mem(func, buffer, memory, index));
    return kind == DLK_P1 ? dlk_ir_convert(func, DLK_PRIM_ITRUNC, DLK_P1, value) : value;
}

static void array_store(dlk_func *func, int buffer, dlk_kind kind, dlk_val index, dlk_val value)
{
    const dlk_kind memory = memory_kind(kind);
    if (kind == DLK_P1)
        value = dlk_ir_convert(func, DLK_PRIM_ZEXT, DLK_I8, value);
    dlk_ir_store(func, value, array_mem(func, buffer, memory, index));
}

dlk_state dlk_state_array_load(dlk_walk *walk, const dlk_state_array *array, dlk_val index, int lanes)
{
    const dlk_reduction *reduction = array->reduction;
    dlk_state out = {.present = DLK_NONE};
    for (int k = 0; k < reduction->n; k++)
        out.part[k] = array_load(walk->func, array->buffer[k], reduction->kind[k], index, lanes);
    if (array->has_presence)
        out.present = array_load(walk->func, array->buffer[reduction->n], DLK_P1, index, lanes);
    return out;
}

void dlk_state_array_store(dlk_walk *walk, const dlk_state_array *array, dlk_val index, dlk_state state)
{
    const dlk_reduction *reduction = array->reduction;
    for (int k = 0; k < reduction->n; k++)
        array_store(walk->func, array->buffer[k], reduction->kind[k], index, state.part[k]);
    if (!array->has_presence)
        return;
    dlk_state_make_presence(walk, &state);
    array_store(walk->func, array->buffer[reduction->n], DLK_P1, index, state.present);
}

/* ---- The binary counter ------------------------------------------------------------------------------------------- */

dlk_counter dlk_counter_create(dlk_func *func, const dlk_reduction *reduction, bool has_presence, int n_levels,
                               int64_t width, int lanes, bool is_free)
{
    if (is_free)
        n_levels = 1;
    /* A free total starts from nothing, which only an identity can say without a presence. */
    if (is_free && !reduction->has_identity)
        has_presence = true;
    return (dlk_counter){.levels_of = dlk_state_array_create(func, reduction, has_presence, width * n_levels),
                         .n_levels = n_levels,
                         .width = width,
                         .lanes = lanes,
                         .is_free = is_free};
}

void dlk_counter_reset(dlk_walk *walk, const dlk_counter *counter, dlk_val slot)
{
    if (!counter->is_free)
        return;
    const dlk_reduction *reduction = counter->levels_of.reduction;
    dlk_state_array_store(walk, &counter->levels_of, slot, dlk_state_nothing(walk, reduction, counter->lanes));
}

static dlk_state level_load(dlk_walk *walk, const dlk_counter *counter, dlk_val slot, dlk_val level)
{
    const dlk_val index = dlk_emit_add(walk->func, slot, dlk_emit_mul_const(walk->func, level, counter->width));
    return dlk_state_array_load(walk, &counter->levels_of, index, counter->lanes);
}

static void push_free(dlk_walk *walk, const dlk_counter *counter, dlk_val slot, const dlk_state *state)
{
    const dlk_state total = dlk_state_array_load(walk, &counter->levels_of, slot, counter->lanes);
    const dlk_state next = dlk_state_join(walk, counter->levels_of.reduction, &total, state);
    dlk_state_array_store(walk, &counter->levels_of, slot, next);
}

/* Levels beyond the last one would take years to reach; the bound keeps them inside the array all the same. */
static dlk_val at_most_level(dlk_func *func, const dlk_counter *counter, dlk_val level, int bound)
{
    return dlk_emit_smin(func, level, dlk_ir_i64(func, counter->n_levels - 1 + bound));
}

static dlk_val count_trailing_zeros(dlk_func *func, dlk_val value)
{
    return dlk_ir_prim(func, DLK_PRIM_CTZ, value, DLK_NONE, DLK_NONE);
}

void dlk_counter_push(dlk_walk *walk, const dlk_counter *counter, dlk_val slot, dlk_val number, dlk_state state)
{
    dlk_func *func = walk->func;
    const dlk_reduction *reduction = counter->levels_of.reduction;
    const bool presence = counter->levels_of.has_presence;
    if (counter->is_free) {
        push_free(walk, counter, slot, &state);
        return;
    }
    const dlk_val carries =
        at_most_level(func, counter, count_trailing_zeros(func, dlk_emit_add_const(func, number, 1)), 0);
    dlk_val values[DLK_STATE_MAX + 1];
    const int n = dlk_state_pack(walk, reduction, &state, presence, values);
    const dlk_val loop = dlk_ir_loop_begin(func, dlk_ir_i64(func, 0), carries, dlk_ir_i64(func, 1), values, n);
    for (int k = 0; k < n; k++)
        values[k] = dlk_ir_loop_carried(func, loop, k);
    dlk_state right = dlk_state_unpack(reduction, presence, values);
    const dlk_state left = level_load(walk, counter, slot, dlk_ir_loop_index(func, loop));
    const dlk_state joined = dlk_state_join(walk, reduction, &left, &right);
    dlk_state_pack(walk, reduction, &joined, presence, values);
    dlk_ir_loop_end(func, loop, values, DLK_NONE);
    for (int k = 0; k < n; k++)
        values[k] = dlk_ir_result(func, loop, k);
    const dlk_val index = dlk_emit_add(func, slot, dlk_emit_mul_const(func, carries, counter->width));
    dlk_state_array_store(walk, &counter->levels_of, index, dlk_state_unpack(reduction, presence, values));
}

/* One level of the end: joined on the left where bit `level` of n is set. */
static void finish_level(dlk_walk *walk, const dlk_counter *counter, dlk_val slot, dlk_val n, dlk_val level,
                         dlk_val *values)
{
    dlk_func *func = walk->func;
    const dlk_reduction *reduction = counter->levels_of.reduction;
    const bool presence = counter->levels_of.has_presence;
    const dlk_val shifted = dlk_ir_prim(func, DLK_PRIM_LSHR, n, level, DLK_NONE);
    const dlk_val branch = dlk_ir_if_begin(func, dlk_ir_convert(func, DLK_PRIM_ITRUNC, DLK_P1, shifted), false);
    const dlk_state right = dlk_state_unpack(reduction, presence, values);
    const dlk_state left = level_load(walk, counter, slot, level);
    const dlk_state joined = dlk_state_join(walk, reduction, &left, &right);
    dlk_val taken[DLK_STATE_MAX + 1];
    const int count = dlk_state_pack(walk, reduction, &joined, presence, taken);
    dlk_ir_if_else(func, branch, taken, count);
    dlk_ir_if_end(func, branch, values);
    for (int k = 0; k < count; k++)
        values[k] = dlk_ir_result(func, branch, k);
}

dlk_state dlk_counter_finish(dlk_walk *walk, const dlk_counter *counter, dlk_val slot, dlk_val n)
{
    dlk_func *func = walk->func;
    const dlk_reduction *reduction = counter->levels_of.reduction;
    const bool presence = counter->levels_of.has_presence;
    if (counter->is_free)
        return dlk_state_array_load(walk, &counter->levels_of, slot, counter->lanes);
    const dlk_val first = at_most_level(func, counter, count_trailing_zeros(func, n), 0);
    const dlk_state lowest = level_load(walk, counter, slot, first);
    const dlk_val bits =
        dlk_emit_sub(func, dlk_ir_i64(func, 64), dlk_ir_prim(func, DLK_PRIM_CLZ, n, DLK_NONE, DLK_NONE));
    dlk_val values[DLK_STATE_MAX + 1];
    const int count = dlk_state_pack(walk, reduction, &lowest, presence, values);
    const dlk_val loop = dlk_ir_loop_begin(func, dlk_emit_add_const(func, first, 1),
                                           at_most_level(func, counter, bits, 1), dlk_ir_i64(func, 1), values, count);
    for (int k = 0; k < count; k++)
        values[k] = dlk_ir_loop_carried(func, loop, k);
    finish_level(walk, counter, slot, n, dlk_ir_loop_index(func, loop), values);
    dlk_ir_loop_end(func, loop, values, DLK_NONE);
    for (int k = 0; k < count; k++)
        values[k] = dlk_ir_result(func, loop, k);
    return dlk_state_unpack(reduction, presence, values);
}
