/* The CPU's schedules: places, operand access and items. Which schedule a nest gets is decided at the end. */
#include "codegen/schedule_cpu.h"

#include "codegen/dtype.h"

#include <string.h>

#define PRIVATE_BYTES (640 << 10)

/* ---- Slots -------------------------------------------------------------------------------------------------------- */

static dlk_slot operand_slot(dlk_cpu *cpu, dlk_buffer_role role, const dlk_access *access)
{
    const dlk_dtype_info *info = &dlk_dtypes[access->dtype];
    dlk_slot slot = {.role = role, .kind = info->storage, .parts = info->parts, .end = DLK_NONE};
    slot.align = access->is_aligned ? dlk_kind_bytes(slot.kind) : 1;
    slot.buffer = dlk_func_buffer(cpu->func, role, role.kind == DLK_BUFFER_OUTPUT);
    cpu->func->buffers[slot.buffer].noalias = cpu->nest->is_disjoint;
    memcpy(slot.stride, access->stride, sizeof slot.stride);
    return slot;
}

static dlk_slot state_slot(dlk_cpu *cpu, int component, dlk_kind kind)
{
    dlk_slot slot = {.role = {DLK_BUFFER_STATE_IN, (uint8_t)component}, .parts = 1};
    slot.kind = kind == DLK_P1 ? DLK_I8 : kind;
    slot.align = dlk_kind_bytes(slot.kind);
    slot.buffer = dlk_func_buffer(cpu->func, slot.role, false);
    cpu->func->buffers[slot.buffer].noalias = true;
    slot.stride[0] = slot.stride[1] = DLK_STRIDE_ANY;
    return slot;
}

static int count_components(const dlk_prog *prog)
{
    int n = 0;
    for (int r = 0; r < prog->n_reduces; r++)
        n += prog->reduces[r].in_leaf ? 0 : prog->reduces[r].n;
    return n;
}

static void make_state_slots(dlk_cpu *cpu)
{
    int component = 0;
    for (int r = 0; r < cpu->prog->n_reduces; r++) {
        const dlk_reduction *reduction = &cpu->prog->reduces[r];
        for (int k = 0; k < reduction->n && !reduction->in_leaf; k++, component++)
            cpu->slot[cpu->first_state + component] = state_slot(cpu, component, reduction->kind[k]);
    }
}

static void make_slots(dlk_cpu *cpu)
{
    const dlk_nest *nest = cpu->nest;
    const int n_states = nest->from == DLK_FROM_ELEMENTS ? 0 : count_components(cpu->prog);
    const int n_operands = nest->n_inputs + nest->n_outputs;
    cpu->first_output = nest->n_inputs;
    cpu->first_state = n_operands;
    cpu->n_slots = n_operands + n_states;
    cpu->slot = DLK_NEW_ARRAY(cpu->func->arena, dlk_slot, cpu->n_slots + DLK_KEPT_MAX);
    for (int i = 0; i < n_operands; i++) {
        const bool is_input = i < nest->n_inputs;
        const dlk_buffer_role role = {is_input ? DLK_BUFFER_INPUT : DLK_BUFFER_OUTPUT,
                                      (uint8_t)(is_input ? i : i - nest->n_inputs)};
        cpu->slot[i] = operand_slot(cpu, role, &nest->operand[i]);
    }
    if (n_states)
        make_state_slots(cpu);
}

/* ---- Places ------------------------------------------------------------------------------------------------------- */

static int element_bytes(const dlk_slot *slot)
{
    return dlk_kind_bytes(slot->kind) * slot->parts;
}

/* What one step along `axis` adds to the address. */
static dlk_val stride_bytes(dlk_cpu *cpu, const dlk_slot *slot, int axis)
{
    switch ((dlk_stride_class)slot->stride[axis]) {
    case DLK_STRIDE_ZERO:
        return dlk_ir_i64(cpu->func, 0);
    case DLK_STRIDE_UNIT:
        return dlk_ir_i64(cpu->func, element_bytes(slot));
    case DLK_STRIDE_REVERSE:
        return dlk_ir_i64(cpu->func, -element_bytes(slot));
    case DLK_STRIDE_ANY:
        break;
    }
    if (slot->fixed[axis])
        return dlk_ir_i64(cpu->func, slot->fixed[axis]);
    return dlk_emit_stride(cpu->func, slot->role, axis);
}

/* Behind the last element of the nest. What lies between two elements of one tensor can be read. */
static dlk_val end_of(dlk_cpu *cpu, const dlk_slot *slot)
{
    dlk_func *func = cpu->func;
    if (slot->bytes)
        return dlk_ir_i64(func, slot->bytes);
    if (slot->role.kind == DLK_BUFFER_STATE_IN)
        return DLK_NONE;
    dlk_val end = dlk_ir_i64(func, element_bytes(slot));
    for (int axis = 0; axis < DLK_CPU_AXES; axis++) {
        if (slot->stride[axis] == DLK_STRIDE_ZERO)
            continue;
        const dlk_val last = dlk_emit_add_const(func, dlk_emit_role(func, DLK_UNIFORM_EXTENT, axis), -1);
        end = dlk_emit_add(func, end, dlk_emit_mul(func, last, stride_bytes(cpu, slot, axis)));
    }
    return end;
}

dlk_place dlk_cpu_start(dlk_cpu *cpu)
{
    for (int i = 0; i < cpu->n_slots; i++)
        cpu->slot[i].end = end_of(cpu, &cpu->slot[i]);
    dlk_place place = {.index = {DLK_NONE, DLK_NONE}, .lane_axis = -1, .lanes = 1, .count = DLK_NONE, .full = DLK_NONE};
    place.offset = DLK_NEW_ARRAY(cpu->func->arena, dlk_val, cpu->n_slots);
    for (int i = 0; i < cpu->n_slots; i++)
        place.offset[i] = dlk_ir_i64(cpu->func, 0);
    return place;
}

dlk_place dlk_cpu_enter(dlk_cpu *cpu, const dlk_place *from, int axis, dlk_val index)
{
    dlk_place place = *from;
    place.index[axis] = index;
    place.offset = DLK_NEW_ARRAY(cpu->func->arena, dlk_val, cpu->n_slots);
    for (int i = 0; i < cpu->n_slots; i++) {
        const dlk_slot *slot = &cpu->slot[i];
        place.offset[i] = from->offset[i];
        if (slot->stride[axis] == DLK_STRIDE_ZERO)
            continue;
        const dlk_val step = dlk_emit_mul(cpu->func, index, stride_bytes(cpu, slot, axis));
        place.offset[i] = dlk_emit_add(cpu->func, from->offset[i], step);
    }
    return place;
}

dlk_place dlk_cpu_enter_lanes(dlk_cpu *cpu, const dlk_place *from, int axis, dlk_val index, int lanes, dlk_val count)
{
    dlk_place place = dlk_cpu_enter(cpu, from, axis, index);
    place.lane_axis = axis;
    place.lanes = lanes;
    place.count = count;
    return place;
}

const dlk_place *dlk_cpu_push(dlk_cpu *cpu, const dlk_place *place)
{
    const dlk_place *before = cpu->place;
    dlk_walk_push(cpu->walk, place->lanes);
    cpu->place = place;
    return before;
}

void dlk_cpu_pop(dlk_cpu *cpu, const dlk_place *before)
{
    dlk_walk_pop(cpu->walk);
    cpu->place = before;
}

/* ---- Access ------------------------------------------------------------------------------------------------------- */

static dlk_mem slot_mem(dlk_cpu *cpu, const dlk_slot *slot, dlk_val offset, int part)
{
    return (dlk_mem){.buffer = slot->buffer,
                     .offset = dlk_emit_add_const(cpu->func, offset, (int64_t)part * dlk_kind_bytes(slot->kind)),
                     .step = DLK_STEP_UNIT,
                     .stride = DLK_NONE,
                     .count = DLK_NONE,
                     .align = slot->align};
}

/* Both words of a complex element lie side by side: one access of twice the lanes, when that is a vector. */
static bool is_interleaved(const dlk_slot *slot, const dlk_place *place)
{
    return slot->parts == 2 && slot->stride[place->lane_axis] == DLK_STRIDE_UNIT && 2 * place->lanes <= DLK_LANES_MAX;
}

static dlk_mem lanes_mem(dlk_cpu *cpu, const dlk_slot *slot, const dlk_place *place, dlk_val offset, dlk_val count,
                         int part)
{
    dlk_mem mem = slot_mem(cpu, slot, offset, part);
    const dlk_stride_class class_ = slot->stride[place->lane_axis];
    mem.count = count;
    if (slot->parts == 1 && class_ == DLK_STRIDE_UNIT)
        return mem;
    if (slot->parts == 1 && class_ == DLK_STRIDE_REVERSE) {
        mem.step = DLK_STEP_REVERSE;
        return mem;
    }
    mem.step = DLK_STEP_UNIFORM;
    mem.stride = stride_bytes(cpu, slot, place->lane_axis);
    return mem;
}

static dlk_mem interleaved_mem(dlk_cpu *cpu, const dlk_slot *slot, dlk_val offset, dlk_val count)
{
    dlk_mem mem = slot_mem(cpu, slot, offset, 0);
    mem.count = count == DLK_NONE ? DLK_NONE : dlk_emit_mul_const(cpu->func, count, 2);
    return mem;
}

static void load_interleaved(dlk_cpu *cpu, const dlk_slot *slot, int lanes, dlk_mem mem, dlk_val words[2])
{
    int8_t perm[DLK_LANES_MAX];
    const dlk_val both = dlk_ir_load(cpu->func, (dlk_type){slot->kind, (uint8_t)(2 * lanes)}, mem);
    for (int part = 0; part < 2; part++) {
        for (int i = 0; i < lanes; i++)
            perm[i] = (int8_t)(2 * i + part);
        words[part] = dlk_ir_perm(cpu->func, both, DLK_NONE, perm, lanes);
    }
}

static void store_interleaved(dlk_cpu *cpu, int lanes, dlk_mem mem, const dlk_val words[2])
{
    int8_t perm[DLK_LANES_MAX];
    for (int i = 0; i < lanes; i++) {
        perm[2 * i] = (int8_t)i;
        perm[2 * i + 1] = (int8_t)(lanes + i);
    }
    dlk_ir_store(cpu->func, dlk_ir_perm(cpu->func, words[0], words[1], perm, 2 * lanes), mem);
}

static bool is_one_lane(const dlk_slot *slot, const dlk_place *place)
{
    return place->lane_axis < 0 || place->lanes == 1 || slot->stride[place->lane_axis] == DLK_STRIDE_ZERO;
}

static void load_lanes(dlk_cpu *cpu, const dlk_slot *slot, const dlk_place *place, dlk_val offset, dlk_val count,
                       dlk_val words[2])
{
    if (is_interleaved(slot, place)) {
        load_interleaved(cpu, slot, place->lanes, interleaved_mem(cpu, slot, offset, count), words);
        return;
    }
    const dlk_type type = {slot->kind, (uint8_t)place->lanes};
    for (int part = 0; part < slot->parts; part++)
        words[part] = dlk_ir_load(cpu->func, type, lanes_mem(cpu, slot, place, offset, count, part));
}

/* True when all lanes can be read, though some may not count: partial loads are slow on many machines. NONE: unknown. */
static dlk_val is_readable(dlk_cpu *cpu, const dlk_slot *slot, const dlk_place *place, dlk_val offset)
{
    if (slot->stride[place->lane_axis] != DLK_STRIDE_UNIT || slot->end == DLK_NONE)
        return place->full;
    const dlk_val end = dlk_emit_add_const(cpu->func, offset, (int64_t)place->lanes * element_bytes(slot));
    const dlk_val inside = dlk_ir_prim(cpu->func, DLK_PRIM_SLE, end, slot->end, DLK_NONE);
    if (place->full == DLK_NONE)
        return inside;
    return dlk_ir_prim(cpu->func, DLK_PRIM_OR, place->full, inside, DLK_NONE);
}

void dlk_cpu_load(dlk_cpu *cpu, int slot_index, const dlk_place *place, dlk_val words[2])
{
    const dlk_slot *slot = &cpu->slot[slot_index];
    const dlk_val offset = place->offset[slot_index];
    words[0] = words[1] = DLK_NONE;
    if (is_one_lane(slot, place)) {
        for (int part = 0; part < slot->parts; part++)
            words[part] = dlk_ir_load(cpu->func, (dlk_type){slot->kind, 1}, slot_mem(cpu, slot, offset, part));
        return;
    }
    const dlk_val readable = place->count == DLK_NONE ? DLK_NONE : is_readable(cpu, slot, place, offset);
    if (readable == DLK_NONE) {
        load_lanes(cpu, slot, place, offset, place->count, words);
        return;
    }
    const dlk_val branch = dlk_ir_if_begin(cpu->func, readable, false);
    load_lanes(cpu, slot, place, offset, DLK_NONE, words);
    dlk_ir_if_else(cpu->func, branch, words, slot->parts);
    load_lanes(cpu, slot, place, offset, place->count, words);
    dlk_ir_if_end(cpu->func, branch, words);
    for (int part = 0; part < slot->parts; part++)
        words[part] = dlk_ir_result(cpu->func, branch, part);
}

static void store_lanes(dlk_cpu *cpu, const dlk_slot *slot, const dlk_place *place, dlk_val offset, dlk_val count,
                        const dlk_val words[2], int nontemporal)
{
    if (place->lane_axis >= 0 && is_interleaved(slot, place)) {
        dlk_mem mem = interleaved_mem(cpu, slot, offset, count);
        mem.nontemporal = nontemporal > 0;
        mem.align = nontemporal ? nontemporal : mem.align;
        store_interleaved(cpu, place->lanes, mem, words);
        return;
    }
    for (int part = 0; part < slot->parts; part++) {
        dlk_mem mem =
            place->lane_axis < 0 ? slot_mem(cpu, slot, offset, part) : lanes_mem(cpu, slot, place, offset, count, part);
        mem.nontemporal = nontemporal > 0;
        mem.align = nontemporal ? nontemporal : mem.align;
        dlk_ir_store(cpu->func, words[part], mem);
    }
}

void dlk_cpu_store(dlk_cpu *cpu, int slot_index, const dlk_place *place, const dlk_val words[2], int nontemporal)
{
    const dlk_slot *slot = &cpu->slot[slot_index];
    const dlk_val offset = place->offset[slot_index];
    if (place->full == DLK_NONE) {
        store_lanes(cpu, slot, place, offset, place->count, words, nontemporal);
        return;
    }
    const dlk_val branch = dlk_ir_if_begin(cpu->func, place->full, false);
    store_lanes(cpu, slot, place, offset, DLK_NONE, words, nontemporal);
    dlk_ir_if_else(cpu->func, branch, NULL, 0);
    store_lanes(cpu, slot, place, offset, place->count, words, 0);
    dlk_ir_if_end(cpu->func, branch, NULL);
}

void dlk_cpu_store_output(dlk_cpu *cpu, int k, int nontemporal)
{
    const dlk_prog_output *output = &cpu->prog->outputs[k];
    const int slot = cpu->first_output + k;
    dlk_val words[2] = {DLK_NONE, DLK_NONE};
    for (int part = 0; part < cpu->slot[slot].parts; part++)
        words[part] = dlk_walk_vector(cpu->walk, output->part[part]);
    dlk_cpu_store(cpu, slot, cpu->place, words, nontemporal);
}

/* ---- The source of the walk --------------------------------------------------------------------------------------- */

static bool source_reaches(void *context, const dlk_pnode *leaf)
{
    const dlk_cpu *cpu = context;
    for (int axis = 0; axis < DLK_CPU_AXES; axis++) {
        if (cpu->place->index[axis] != DLK_NONE)
            continue;
        if (leaf->op == DLK_PROG_INDEX || cpu->slot[leaf->imm].stride[axis] != DLK_STRIDE_ZERO)
            return false;
    }
    return true;
}

dlk_val dlk_cpu_index(dlk_cpu *cpu, const dlk_place *place)
{
    dlk_func *func = cpu->func;
    dlk_val index = dlk_emit_role(func, DLK_UNIFORM_INDEX_BASE, 0);
    for (int axis = 0; axis < DLK_CPU_AXES; axis++) {
        const dlk_val stride = dlk_emit_role(func, DLK_UNIFORM_INDEX_STRIDE, axis);
        index = dlk_emit_add(func, index, dlk_emit_mul(func, place->index[axis], stride));
    }
    if (place->lane_axis < 0 || place->lanes == 1)
        return index;
    const dlk_val stride = dlk_emit_role(func, DLK_UNIFORM_INDEX_STRIDE, place->lane_axis);
    const dlk_val iota = dlk_ir_iota(func, (dlk_type){DLK_I64, (uint8_t)place->lanes});
    return dlk_emit_add(func, dlk_ir_splat(func, index, place->lanes),
                        dlk_emit_mul(func, iota, dlk_ir_splat(func, stride, place->lanes)));
}

static void source_read(void *context, const dlk_pnode *leaf, dlk_val parts[2])
{
    dlk_cpu *cpu = context;
    if (leaf->op == DLK_PROG_INDEX)
        parts[0] = dlk_cpu_index(cpu, cpu->place);
    else
        dlk_cpu_load(cpu, (int)leaf->imm, cpu->place, parts);
}

/* ---- Items -------------------------------------------------------------------------------------------------------- */

dlk_val dlk_cpu_tile_number(dlk_cpu *cpu, int axis)
{
    dlk_func *func = cpu->func;
    const dlk_tiling *tiling = &func->tiling;
    if (!tiling->multiple[axis])
        return dlk_ir_i64(func, 0);
    const dlk_val item = dlk_ir_item(func, 0);
    if (!tiling->multiple[1 - axis])
        return item;
    const dlk_prim prim = axis == 0 ? DLK_PRIM_UDIV : DLK_PRIM_UREM;
    return dlk_ir_prim(func, prim, item, dlk_emit_role(func, DLK_UNIFORM_TILES, 1), DLK_NONE);
}

dlk_range dlk_cpu_tile(dlk_cpu *cpu, int axis)
{
    dlk_func *func = cpu->func;
    const dlk_val extent = dlk_emit_role(func, DLK_UNIFORM_EXTENT, axis);
    if (!func->tiling.multiple[axis])
        return (dlk_range){dlk_ir_i64(func, 0), extent};
    const dlk_val tile = dlk_emit_role(func, DLK_UNIFORM_TILE, axis);
    const dlk_val lo = dlk_emit_mul(func, dlk_cpu_tile_number(cpu, axis), tile);
    return (dlk_range){lo, dlk_emit_smin(func, dlk_emit_add(func, lo, tile), extent)};
}

dlk_val dlk_cpu_loop(dlk_cpu *cpu, dlk_val lo, dlk_val hi, int64_t step)
{
    return dlk_ir_loop_begin(cpu->func, lo, hi, dlk_ir_i64(cpu->func, step), NULL, 0);
}

void dlk_cpu_loop_end(dlk_cpu *cpu, dlk_val loop)
{
    dlk_ir_loop_end(cpu->func, loop, NULL, DLK_NONE);
}

/* ---- Cost --------------------------------------------------------------------------------------------------------- */

static int node_weight(const dlk_cpu *cpu, const dlk_pnode *node)
{
    if (node->op == DLK_PROG_TABLE)
        return 4;
    if (node->op == DLK_PROG_REPEAT)
        return (int)(node->imm > 64 ? 64 : node->imm) * 4;
    if (node->op != DLK_PROG_PRIM)
        return 0;
    switch ((dlk_prim)node->prim) {
    case DLK_PRIM_FDIV:
    case DLK_PRIM_FSQRT:
        return 4;
    case DLK_PRIM_SDIV:
    case DLK_PRIM_UDIV:
    case DLK_PRIM_SREM:
    case DLK_PRIM_UREM:
        return 16;
    case DLK_PRIM_HTOF:
    case DLK_PRIM_FTOH:
        return cpu->target->has_f16c ? 1 : 12;
    default: /* one instruction, or few */
        return 1;
    }
}

/* Predicates computed from predicates. */
static bool is_logic(const dlk_prog *prog, const dlk_pnode *node)
{
    return node->op == DLK_PROG_PRIM && node->kind == DLK_P1 && node->b != DLK_NONE &&
           prog->nodes[node->b].kind == DLK_P1;
}

dlk_cost dlk_cost_join(dlk_cost a, dlk_cost b)
{
    return (dlk_cost){a.weight + b.weight, a.widest > b.widest ? a.widest : b.widest, a.has_logic || b.has_logic};
}

dlk_cost dlk_cpu_cost(const dlk_cpu *cpu, const bool *in)
{
    dlk_cost cost = {0, 1, false};
    for (int i = 0; i < cpu->prog->n_nodes; i++) {
        const dlk_pnode *node = &cpu->prog->nodes[i];
        if (!in[i] || (node->scope != DLK_SCOPE_ELEMENT && !cpu->walk->uses_var[i]))
            continue;
        cost.weight += node_weight(cpu, node);
        cost.has_logic |= is_logic(cpu->prog, node);
        if (dlk_kind_bytes(node->kind) > cost.widest)
            cost.widest = dlk_kind_bytes(node->kind);
    }
    return cost;
}

/* Complex elements take two registers each, and both words in one access at most DLK_LANES_MAX. */
static bool has_pairs(const dlk_cpu *cpu)
{
    for (int i = 0; i < cpu->n_slots; i++)
        if (cpu->slot[i].parts == 2)
            return true;
    return false;
}

int dlk_cpu_lanes(const dlk_cpu *cpu, dlk_cost cost)
{
    const bool has_mask_registers = cpu->target->vector_bytes == 64;
    int registers = cost.weight <= 12 ? 4 : cost.weight <= 4 * DLK_CPU_HEAVY ? 2 : 1;
    if (cost.has_logic && !has_mask_registers)
        registers = 1;
    const int pair = has_pairs(cpu) ? 2 : 1;
    const int lanes = registers * cpu->target->vector_bytes / (cost.widest * pair);
    const int most = DLK_LANES_MAX / pair;
    return lanes > most ? most : lanes < 1 ? 1 : lanes;
}

/* ---- Entry -------------------------------------------------------------------------------------------------------- */

static dlk_status check_nest(const dlk_nest *nest)
{
    if (nest->n_axes != DLK_CPU_AXES)
        return dlk_fail(DLK_ERR_INTERNAL, "schedule: a CPU nest has 2 axes, this one has %d", nest->n_axes);
    if (nest->lane_axis >= DLK_CPU_AXES)
        return dlk_fail(DLK_ERR_INTERNAL, "schedule: lane_axis %d of a nest of 2 axes", nest->lane_axis);
    if (nest->reduced_axis != 0xff && nest->reduced_axis >= DLK_CPU_AXES)
        return dlk_fail(DLK_ERR_INTERNAL, "schedule: reduced_axis %d of a nest of 2 axes", nest->reduced_axis);
    return DLK_OK;
}

/* Private memory is on the stack of a thread that may have little. */
static dlk_status check_private(const dlk_func *func)
{
    int64_t bytes = 0;
    for (int b = 0; b < func->n_buffers; b++)
        if (func->buffers[b].space == DLK_SPACE_PRIVATE)
            bytes += func->buffers[b].count * dlk_kind_bytes(func->buffers[b].kind);
    if (bytes > PRIVATE_BYTES)
        return dlk_fail(DLK_ERR_UNSUPPORTED, "a kernel needs %lld bytes of private memory; at most %d are supported",
                        (long long)bytes, PRIVATE_BYTES);
    return DLK_OK;
}

dlk_status dlk_schedule_cpu(const dlk_prog *prog, const dlk_nest *nest, const dlk_target *target, dlk_arena *arena,
                            dlk_func **out)
{
    DLK_TRY(check_nest(nest));
    dlk_cpu cpu = {.prog = prog, .nest = nest, .target = target};
    cpu.func = dlk_func_create(arena, target);
    cpu.func->threads = cpu.func->subgroup = 1;
    make_slots(&cpu);
    cpu.walk = dlk_walk_create(cpu.func, prog, (dlk_source){&cpu, source_reaches, source_read});
    if (nest->reduced_axis != 0xff)
        DLK_TRY(dlk_cpu_reduce(&cpu));
    else
        DLK_TRY(dlk_cpu_wants_tiles(&cpu) ? dlk_cpu_map_tiles(&cpu) : dlk_cpu_map(&cpu));
    DLK_TRY(cpu.walk->status);
    DLK_TRY(check_private(cpu.func));
    *out = cpu.func;
    return DLK_OK;
}
