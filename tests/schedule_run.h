/* Runs a scheduled kernel on arrays: fills the argument block by role as a plan would, and walks all items. */
#ifndef DLK_TESTS_SCHEDULE_RUN_H
#define DLK_TESTS_SCHEDULE_RUN_H

#include "codegen/dtype.h"
#include "codegen/interpret.h"
#include "codegen/schedule.h"

#include "tests/test.h"

typedef struct array {
    void *data;        /* of element [0][0] */
    int64_t stride[2]; /* bytes */
} array;

typedef struct launch {
    int64_t extent[2];
    int64_t tile[2]; /* at least; rounded up to the schedule's multiple. 0: the whole axis */
    array operand[DLK_OPERANDS_MAX];
    array state_in[16];
    void *state_out[16];
    int64_t count, index_base, index_stride[2];
    double scalar[4];
    int64_t tiles[2]; /* out */
} launch;

static int64_t launch_tile(const launch *l, const dlk_func *func, int axis)
{
    const int64_t multiple = func->tiling.multiple[axis];
    const int64_t wanted = l->tile[axis] ? l->tile[axis] : l->extent[axis];
    if (!multiple)
        return l->extent[axis];
    int64_t tile = (wanted + multiple - 1) / multiple * multiple;
    return tile < multiple ? multiple : tile;
}

static uint64_t launch_buffer(const launch *l, const dlk_nest *nest, dlk_buffer_role role)
{
    switch ((dlk_buffer_kind)role.kind) {
    case DLK_BUFFER_INPUT:
        return (uintptr_t)l->operand[role.index].data;
    case DLK_BUFFER_OUTPUT:
        return (uintptr_t)l->operand[nest->n_inputs + role.index].data;
    case DLK_BUFFER_STATE_IN:
        return (uintptr_t)l->state_in[role.index].data;
    case DLK_BUFFER_STATE_OUT:
        return (uintptr_t)l->state_out[role.index];
    }
    return 0;
}

static int64_t launch_stride(const launch *l, const dlk_nest *nest, const dlk_uniform *u)
{
    if (u->buffer.kind == DLK_BUFFER_STATE_IN)
        return l->state_in[u->buffer.index].stride[u->axis];
    return l->operand[u->buffer.index + (u->buffer.kind == DLK_BUFFER_OUTPUT ? nest->n_inputs : 0)].stride[u->axis];
}

static uint64_t launch_uniform(const launch *l, const dlk_nest *nest, const dlk_func *func, const dlk_uniform *u)
{
    uint64_t word = 0;
    switch ((dlk_uniform_role)u->role) {
    case DLK_UNIFORM_EXTENT:
        return (uint64_t)l->extent[u->axis];
    case DLK_UNIFORM_STRIDE:
        return (uint64_t)launch_stride(l, nest, u);
    case DLK_UNIFORM_TILE:
        return (uint64_t)launch_tile(l, func, u->axis);
    case DLK_UNIFORM_TILES:
        return (uint64_t)l->tiles[u->axis];
    case DLK_UNIFORM_COUNT:
        return (uint64_t)l->count;
    case DLK_UNIFORM_INDEX_STRIDE:
        return (uint64_t)l->index_stride[u->axis];
    case DLK_UNIFORM_INDEX_BASE:
        return (uint64_t)l->index_base;
    case DLK_UNIFORM_ADDRESS:
        return launch_buffer(l, nest, u->buffer);
    case DLK_UNIFORM_SCALAR:
        memcpy(&word, &l->scalar[u->index], sizeof word);
        return word;
    default:
        CHECK(!"a uniform that the CPU does not have");
        return 0;
    }
}

static void launch_tiles(launch *l, const dlk_func *func)
{
    for (int axis = 0; axis < 2; axis++) {
        const int64_t tile = launch_tile(l, func, axis);
        const bool is_cut = func->tiling.multiple[axis] != 0;
        l->tiles[axis] = is_cut ? (l->extent[axis] + tile - 1) / tile : 1;
    }
}

static void launch_run(launch *l, const dlk_nest *nest, const dlk_func *func)
{
    uint64_t arguments[256];
    int n = 0;
    launch_tiles(l, func);
    for (int b = 0; b < func->n_buffers; b++)
        if (func->buffers[b].space == DLK_SPACE_GLOBAL)
            arguments[n++] = launch_buffer(l, nest, func->buffers[b].role);
    for (int u = 0; u < func->n_uniforms; u++)
        arguments[n++] = launch_uniform(l, nest, func, &func->uniforms[u]);
    const dlk_status status = dlk_interpret(func, arguments, 0, l->tiles[0] * l->tiles[1]);
    CHECK_MSG(status == DLK_OK, "%s", dlk_last_error());
}

static dlk_target cpu_target(int level)
{
    dlk_target target = {.name = "test", .family = DLK_TARGET_CPU, .vector_bytes = 16, .registers = 16};
    target.has_f64 = target.has_i64 = target.subgroup = 1;
    target.index_bits = 64;
    if (level >= 3) {
        target.vector_bytes = 32;
        target.fast_fma = target.has_fma = target.has_f16c = 1;
        target.masked_bytes = 4 | 8;
    }
    if (level >= 4) {
        target.vector_bytes = 64;
        target.registers = 32;
        target.masked_bytes = 1 | 2 | 4 | 8;
    }
    return target;
}

#endif
