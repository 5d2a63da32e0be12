/* States of reductions, how they join, and the binary counter that makes the fixed tree (docs/architecture.md): shared by
 * all schedules. A state is a value for each component, and whether it is there at all: nothing joined with y is y. */
#ifndef DLK_CODEGEN_FOLD_H
#define DLK_CODEGEN_FOLD_H

#include "codegen/walk.h"

/* Lanes of the fixed tree, L of the definition: 1024 bits of the compute type. */
int dlk_reduction_lanes(const dlk_reduction *reduction);
#define DLK_LEAF_ROWS 16 /* K of the definition: a leaf is L * K elements */

typedef struct dlk_state {
    dlk_val part[DLK_STATE_MAX]; /* as many lanes each */
    dlk_val present;             /* P1, as many lanes; NONE: in every lane */
} dlk_state;

/* a joined with b, a the lower. Both have as many lanes. */
dlk_state dlk_state_join(dlk_walk *walk, const dlk_reduction *reduction, const dlk_state *a, const dlk_state *b);
/* Folds the lanes of one state by halves down to one lane. */
dlk_state dlk_state_fold(dlk_walk *walk, const dlk_reduction *reduction, dlk_state state);
/* Nothing, in every lane: the identity, or a state that is not there. */
dlk_state dlk_state_nothing(dlk_walk *walk, const dlk_reduction *reduction, int lanes);
/* Nothing where p is false: by identity, or by presence. */
dlk_state dlk_state_mask(dlk_walk *walk, const dlk_reduction *reduction, dlk_state state, dlk_val p);
/* `present` is a value afterwards. */
void dlk_state_make_presence(dlk_walk *walk, dlk_state *state);

/* A state as a list of values, for what loops carry; presence last if with_presence. */
int dlk_state_pack(dlk_walk *walk, const dlk_reduction *reduction, const dlk_state *state, bool with_presence,
                   dlk_val *out);
dlk_state dlk_state_unpack(const dlk_reduction *reduction, bool with_presence, const dlk_val *values);

/* An array of states in private memory, one buffer a component. */
typedef struct dlk_state_array {
    const dlk_reduction *reduction;
    int buffer[DLK_STATE_MAX + 1]; /* the presence last, if has_presence */
    bool has_presence;
} dlk_state_array;
dlk_state_array dlk_state_array_create(dlk_func *func, const dlk_reduction *reduction, bool has_presence,
                                       int64_t count);
/* `lanes` states from element `index` (i64) on. */
dlk_state dlk_state_array_load(dlk_walk *walk, const dlk_state_array *array, dlk_val index, int lanes);
void dlk_state_array_store(dlk_walk *walk, const dlk_state_array *array, dlk_val index, dlk_state state);

/* Joins pushed states 0, 1, 2, ... by T(n) of the definition. Level k holds the join of 2^k neighbours that wait for
 * their right half. Reductions that are free in their order have one level. `width` counters run side by side; each
 * call serves `lanes` of them from `slot` (i64) on. */
typedef struct dlk_counter {
    dlk_state_array levels_of;
    int n_levels;
    int64_t width;
    int lanes;
    bool is_free;
} dlk_counter;
dlk_counter dlk_counter_create(dlk_func *func, const dlk_reduction *reduction, bool has_presence, int n_levels,
                               int64_t width, int lanes, bool is_free);
/* Before the first push; only needed where is_free. */
void dlk_counter_reset(dlk_walk *walk, const dlk_counter *counter, dlk_val slot);
/* `number`: how many were pushed before (i64). */
void dlk_counter_push(dlk_walk *walk, const dlk_counter *counter, dlk_val slot, dlk_val number, dlk_state state);
/* The join of all `n` (at least 1) that were pushed. */
dlk_state dlk_counter_finish(dlk_walk *walk, const dlk_counter *counter, dlk_val slot, dlk_val n);

#endif
