/* Passes: which reductions go over a row together, and the two ways of going over it: lanes along the reduced axis
 * (schedule_inner.c) or along the kept one (schedule_outer.c). schedule_row.c puts passes together. */
#ifndef DLK_CODEGEN_SCHEDULE_PASS_H
#define DLK_CODEGEN_SCHEDULE_PASS_H

#include "codegen/schedule_cpu.h"

/* One reduction of a pass. */
typedef struct dlk_tally {
    int index; /* in prog->reduces */
    const dlk_reduction *reduction;
    const dlk_reduction *rows; /* the same as it is carried over the rows of a leaf: some indices as 32-bit numbers */
    bool is_narrow[DLK_STATE_MAX]; /* those */
    bool takes_leaves;             /* its elements are states of whole leaves */
    dlk_counter counter;
} dlk_tally;

/* Reductions that go over the row together: they have one tree, so one shape of leaf. */
typedef struct dlk_pass {
    int lanes;        /* L */
    int rows;         /* of a leaf: K, or more where all are free */
    bool is_free;     /* all of them: rows and lanes may be visited in any order */
    dlk_tally *tally; /* element and leaf reducers: their results are wanted */
    int n_tallies;
    dlk_tally *inner; /* in_leaf reductions that the leaf reducers need */
    int n_inner, n_inner_levels;
    int use; /* of level 0; the following levels follow */
} dlk_pass;

static inline int64_t dlk_pass_leaf(const dlk_pass *pass)
{
    return (int64_t)pass->lanes * pass->rows;
}

/* The passes for the reductions of `level`, *n of them. */
dlk_pass *dlk_cpu_passes(dlk_cpu *cpu, int level, int *n);

/* State components number those of all reductions of the program, one after the other. */
int dlk_cpu_first_component(const dlk_prog *prog, int index);

/* What one going over a leaf computes: the in_leaf reductions of `level`, and with level 0 the element reducers. */
#define DLK_SET_MAX 32
typedef struct dlk_set {
    dlk_tally *tally[DLK_SET_MAX];
    int n;
    bool has_identity; /* all of them */
    int use;
} dlk_set;
dlk_set dlk_pass_set(dlk_pass *pass, int level);
/* The tallies of a pass with their states whole, as counters give them. */
dlk_set dlk_pass_results(dlk_cpu *cpu, const dlk_pass *pass);
/* Marks what its elements are made of. */
void dlk_set_mark(const dlk_set *set, bool *in);
/* Cost of its elements and joins. */
dlk_cost dlk_set_cost(dlk_cpu *cpu, const dlk_set *set);

/* Calls that evaluate the elements of a set in the innermost region. */
void dlk_set_elements(dlk_cpu *cpu, const dlk_set *set, dlk_state *out);
void dlk_set_join(dlk_cpu *cpu, const dlk_set *set, dlk_state *states, const dlk_state *right);
/* Nothing for each. */
void dlk_set_nothing(dlk_cpu *cpu, const dlk_set *set, int lanes, dlk_state *out);
/* States through the values that loops carry and arms yield. with_presence: of those without identity. */
#define DLK_SET_VALUES (DLK_SET_MAX * (DLK_STATE_MAX + 1))
int dlk_set_pack(dlk_cpu *cpu, const dlk_set *set, bool with_presence, const dlk_state *states, dlk_val *values);
void dlk_set_unpack(const dlk_set *set, bool with_presence, const dlk_val *values, dlk_state *states);

/* Sets `rows` and `is_narrow`. */
void dlk_tally_narrow(dlk_cpu *cpu, dlk_tally *tally);
/* Component k of the element at the innermost place, whose number is cpu->number. */
dlk_val dlk_tally_number(dlk_cpu *cpu, const dlk_tally *tally, int k);
/* The state with numbers made whole: number 0 is the element at `at`, each next one `step` elements further. */
dlk_state dlk_tally_widen(dlk_cpu *cpu, const dlk_tally *tally, dlk_state state, dlk_val at, int64_t step);

/* Evaluates what the elements of all reductions and the outputs need and can be had here. */
void dlk_cpu_hoist_all(dlk_cpu *cpu);
/* In this region a leaf has `count` elements (i64). */
void dlk_cpu_bind_leaf_count(dlk_cpu *cpu, dlk_val count);
/* The state of the leaf whose in_leaf reductions are bound. */
dlk_state dlk_cpu_leaf_state(dlk_cpu *cpu, const dlk_tally *tally);

/* Over the elements `range` of the row at the innermost place, lanes along the reduced axis: states of one lane, one for
 * each tally. */
void dlk_cpu_inner_pass(dlk_cpu *cpu, dlk_pass *pass, dlk_range range, dlk_state *out);
/* The same from partial results over runs of leaves. */
void dlk_cpu_leaves_pass(dlk_cpu *cpu, dlk_pass *pass, dlk_range range, dlk_state *out);

/* A reduction of an earlier stage: its results, by column. */
typedef struct dlk_finished {
    int index; /* in prog->reduces */
    dlk_state_array results;
} dlk_finished;

/* Columns side by side, lanes along the kept axis. */
typedef struct dlk_strip {
    int lanes;   /* of one vector */
    int vectors; /* of a whole strip */
    dlk_range columns;
    const dlk_place *outer; /* before the kept axis is entered */
    dlk_finished *finished;
    int n_finished;
} dlk_strip;

/* A loop over the vectors of a strip, with a region each: columns from `slot` on, and what is finished of them. */
typedef struct dlk_vectors {
    dlk_val loop, slot; /* i64 */
    dlk_place place;
    const dlk_place *before;
} dlk_vectors;
void dlk_cpu_vectors_begin(dlk_cpu *cpu, const dlk_strip *strip, dlk_vectors *v);
void dlk_cpu_vectors_end(dlk_cpu *cpu, dlk_vectors *v);

/* Scratch of one column in a pass; widest: raised to its widest state. */
int dlk_pass_column_bytes(const dlk_cpu *cpu, const dlk_pass *pass, int *widest);
void dlk_cpu_outer_pass(dlk_cpu *cpu, dlk_pass *pass, const dlk_strip *strip, dlk_range range);
/* After it: the states of the columns from `slot` on. */
void dlk_cpu_outer_states(dlk_cpu *cpu, const dlk_pass *pass, dlk_val slot, dlk_range range, dlk_state *out);

#endif
