/* What the CPU's schedules share: where they stand in the nest, how operands are read and written there, how wide their
 * vectors are. Internal to schedule_cpu.c, schedule_map.c, schedule_tile.c, schedule_reduce.c and schedule_row.c. */
#ifndef DLK_CODEGEN_SCHEDULE_CPU_H
#define DLK_CODEGEN_SCHEDULE_CPU_H

#include "codegen/fold.h"
#include "codegen/schedule.h"

#define DLK_CPU_AXES 2

/* A buffer that is read or written at a place: inputs, outputs, state components read, in this order. */
typedef struct dlk_slot {
    dlk_buffer_role role;
    int buffer;
    dlk_kind kind;                /* of the word in memory */
    int parts;                    /* words of one element */
    int align;                    /* bytes */
    uint8_t stride[DLK_CPU_AXES]; /* dlk_stride_class */
    int64_t fixed[DLK_CPU_AXES];  /* bytes of a stride ANY that the schedule made itself; 0: the plan's */
    int64_t bytes;                /* of a private buffer; 0: the caller's */
    dlk_val end;                  /* offset behind its last element, i64; NONE: unknown */
} dlk_slot;

/* A position in the nest. An axis without index is not entered yet: only what is constant along it can be read. */
typedef struct dlk_place {
    dlk_val index[DLK_CPU_AXES]; /* i64, of the first lane */
    dlk_val *offset;             /* by slot: bytes, over the axes entered */
    int lane_axis;               /* the axis whose neighbours are the lanes; -1: one lane */
    int lanes;
    dlk_val count; /* lanes that exist; NONE: all */
    dlk_val full;  /* P1: all do, worth a branch around partial accesses; NONE: count alone says it */
} dlk_place;

#define DLK_KEPT_MAX 4
struct dlk_keep;

typedef struct dlk_cpu {
    dlk_func *func;
    const dlk_prog *prog;
    const dlk_nest *nest;
    const dlk_target *target;
    dlk_walk *walk;
    dlk_slot *slot;
    int n_slots, first_output, first_state;
    const dlk_place *place; /* where the walk reads */
    struct dlk_keep *kept;  /* values of a row that go through cache */
    int n_kept;
    dlk_val number; /* of the elements at the innermost place in their leaf: I32, see schedule_index.c */
} dlk_cpu;

/* The place before any axis is entered; made once. */
dlk_place dlk_cpu_start(dlk_cpu *cpu);
/* `from` with `axis` entered at `index`. */
dlk_place dlk_cpu_enter(dlk_cpu *cpu, const dlk_place *from, int axis, dlk_val index);
/* The same with lanes along it. */
dlk_place dlk_cpu_enter_lanes(dlk_cpu *cpu, const dlk_place *from, int axis, dlk_val index, int lanes, dlk_val count);

/* The row-major index over the reduced axes at a place, one value for each of its lanes. */
dlk_val dlk_cpu_index(dlk_cpu *cpu, const dlk_place *place);

/* Opens and closes a region of the walk that reads at `place`. */
const dlk_place *dlk_cpu_push(dlk_cpu *cpu, const dlk_place *place);
void dlk_cpu_pop(dlk_cpu *cpu, const dlk_place *before);

/* Words of a slot at a place, one lane where the slot is constant along the lanes. Lanes that do not exist hold
 * anything. */
void dlk_cpu_load(dlk_cpu *cpu, int slot, const dlk_place *place, dlk_val words[2]);
/* nontemporal: bytes that the address is a multiple of, or 0 for ordinary stores. */
void dlk_cpu_store(dlk_cpu *cpu, int slot, const dlk_place *place, const dlk_val words[2], int nontemporal);
/* Evaluates output `k` at the place of the innermost region and stores it. */
void dlk_cpu_store_output(dlk_cpu *cpu, int k, int nontemporal);

/* What this item covers of `axis`, by func->tiling. */
typedef struct dlk_range {
    dlk_val lo, hi;
} dlk_range;
dlk_range dlk_cpu_tile(dlk_cpu *cpu, int axis);
dlk_val dlk_cpu_tile_number(dlk_cpu *cpu, int axis);

/* How much work the nodes `in` are for each element, in simple instructions, and the bytes of the widest value. */
typedef struct dlk_cost {
    int weight;
    int widest;
    bool has_logic; /* on predicates: without mask registers they must fill a register as their operands do */
} dlk_cost;
/* The cost of two formulas in one vector. */
dlk_cost dlk_cost_join(dlk_cost a, dlk_cost b);
dlk_cost dlk_cpu_cost(const dlk_cpu *cpu, const bool *in);
/* Lanes of a vector for formulas of this cost: several registers' worth when they are short, so that independent chains
 * hide latency; one when they are long, so that their values stay in registers. A power of two. */
int dlk_cpu_lanes(const dlk_cpu *cpu, dlk_cost cost);
/* A formula of this weight is worth a copy of the code less, or a trip through cache. */
#define DLK_CPU_HEAVY 40

/* A counted loop from lo while below hi, whose body is between begin and end. */
dlk_val dlk_cpu_loop(dlk_cpu *cpu, dlk_val lo, dlk_val hi, int64_t step);
void dlk_cpu_loop_end(dlk_cpu *cpu, dlk_val loop);

/* Output k has the full shape. */
bool dlk_cpu_is_mapped(const dlk_cpu *cpu, int k);
dlk_cost dlk_cpu_map_cost(dlk_cpu *cpu);
/* Evaluates and stores the outputs of full shape at the innermost place; `streamed` past the cache, or -1. `use`: see
 * dlk_cpu_choose_kept; -1 where nothing is kept. */
void dlk_cpu_store_mapped(dlk_cpu *cpu, int use, int streamed, int alignment);
/* Evaluates what outputs of full shape need and can be had here. */
void dlk_cpu_hoist_outputs(dlk_cpu *cpu);
/* Outputs of full shape, along `axis` over `range`, from the place of a row. */
void dlk_cpu_map_columns(dlk_cpu *cpu, const dlk_place *row, int axis, dlk_range range, int use, bool nontemporal);

/* A use is one going over the row; uses are numbered in their order. Chooses what is kept, given the nodes that each
 * evaluates (the sets are closed downwards by the call). */
void dlk_cpu_choose_kept(dlk_cpu *cpu, bool *const *roots, int n_uses);
/* In the region of some elements: binds what earlier uses kept; stores what this one keeps. */
void dlk_cpu_recall(dlk_cpu *cpu, int use);
void dlk_cpu_keep(dlk_cpu *cpu, int use);

dlk_status dlk_cpu_map(dlk_cpu *cpu);
/* Some operand is contiguous along the other axis than the lanes. */
bool dlk_cpu_wants_tiles(const dlk_cpu *cpu);
dlk_status dlk_cpu_map_tiles(dlk_cpu *cpu);
dlk_status dlk_cpu_reduce(dlk_cpu *cpu);

#endif
