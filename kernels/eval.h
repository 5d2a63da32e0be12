/* Inside build: symbolic values, and the walk over a definition's syntax tree that computes them. */
#ifndef DLK_KERNELS_EVAL_H
#define DLK_KERNELS_EVAL_H

#include <setjmp.h>

#include "kernels/build.h"
#include "kernels/infer.h"
#include "kernels/lex.h"
#include "kernels/library.h"
#include "kernels/parse.h"

typedef enum dlk_value_kind {
    DLK_VALUE_LITERAL, /* exact, without a type yet */
    DLK_VALUE_DATA,
    DLK_VALUE_TUPLE
} dlk_value_kind;

/* DATA: a number of type `dtype`. Its parts have the compute kind of `source`, which differs from `dtype` only where a
 * value was relabelled to a narrower float and nothing was computed since: so that it is rounded once, from what it is. A
 * weak value takes the dtype of the strong one it meets. */
typedef struct dlk_value {
    uint8_t kind; /* dlk_value_kind */
    uint8_t dtype, source;
    bool is_weak;
    dlk_ref part[2];
    const dlk_literal *literal;
    const struct dlk_value *items;
    int n;
} dlk_value;

typedef struct dlk_scope_entry { /* what a name means, innermost first */
    const char *name;
    const dlk_value *value;
    const struct dlk_scope_entry *next;
} dlk_scope_entry;

typedef struct dlk_frame { /* a definition being evaluated */
    const dlk_def *def;
    bool is_library;
    const dlk_expr *call; /* where, in the caller's text; NULL: the launch */
    const struct dlk_frame *caller;
    int depth;
} dlk_frame;

typedef struct dlk_memo dlk_memo; /* a call and its value */
#define DLK_MEMO_BUCKETS 128

typedef struct dlk_eval {
    dlk_arena *arena;
    dlk_prog *prog;
    const dlk_op_version *op;
    const dlk_build_request *request;
    dlk_built *built;
    const dlk_frame *frame;
    int steps, nesting;
    dlk_memo *memo[DLK_MEMO_BUCKETS];

    /* reductions */
    bool in_leaf;                  /* inside the leaf formula of a reducer: reductions are over the leaf */
    bool in_first;                 /* inside the formula of an element's or leaf's state: index() is known */
    const char *no_reduction;      /* where none may be: "the merge clause" */
    uint8_t tree_kind, tree_parts; /* in_leaf: of the reducer's tree */
    dlk_ref formals[DLK_KIND_COUNT][2][DLK_STATE_MAX]; /* of merges: VARs + 1 */
    dlk_ref mask;                                      /* predicate of where=, or DLK_NONE */
    bool has_initial;
    dlk_value initial; /* weak */
    dlk_value joined;  /* has_initial: the reduction that it was joined with */
    int n_joined;
    bool uses_reduction;

    jmp_buf escape;
    dlk_status status;
} dlk_eval;

/* Fails at `at` in the text of the current definition, and says from where that was called. */
__attribute__((format(printf, 4, 5))) _Noreturn void dlk_eval_fail(dlk_eval *eval, const dlk_expr *at, dlk_status code,
                                                                   const char *format, ...);

/* eval.c */
dlk_value dlk_eval_expr(dlk_eval *eval, const dlk_expr *e, const dlk_scope_entry *scope);
const dlk_scope_entry *dlk_eval_bind(dlk_eval *eval, const dlk_pattern *pattern, dlk_value value,
                                     const dlk_scope_entry *scope);
/* Calls the overload of `overloads` that takes the arguments: inputs, then scalars (missing ones have their default). */
dlk_value dlk_eval_call(dlk_eval *eval, const dlk_expr *at, const dlk_overloads *overloads, const dlk_value *args,
                        int n, const char *const *names);
/* Calls the library's own definition of `name`. */
dlk_value dlk_eval_call_library(dlk_eval *eval, const dlk_expr *at, const char *name, const dlk_value *args, int n);
/* The current definition's view of `name`, or NULL. */
const dlk_overloads *dlk_eval_find(const dlk_eval *eval, const char *name);

/* value.c: values and their types */
dlk_value dlk_value_data(dlk_dtype dtype, dlk_ref re, dlk_ref im);
dlk_value dlk_value_bool(dlk_ref predicate);
dlk_value dlk_value_tuple(dlk_eval *eval, const dlk_value *items, int n);
/* "float32", "a tuple of 2", "a number": for messages; in `out` of at least 64 bytes. */
const char *dlk_value_describe(const dlk_value *value, char *out);
/* A literal as weak data of the type it has by itself; everything else as it is. */
dlk_value dlk_value_materialise(dlk_eval *eval, const dlk_expr *at, dlk_value value);
/* The same, and strong. */
dlk_value dlk_value_settle(dlk_eval *eval, const dlk_expr *at, dlk_value value);
/* The type that all have together; weak when all are. */
dlk_arg_type dlk_value_common(dlk_eval *eval, const dlk_expr *at, const dlk_value *values, int n, const char *what);
/* As `dtype`; narrow floats are a label until the value is stored. Fails from complex to real. */
dlk_value dlk_value_convert(dlk_eval *eval, const dlk_expr *at, dlk_value value, dlk_dtype dtype);
/* The same, rounded to a narrow float here: a conversion that the formula spells out. */
dlk_value dlk_value_round(dlk_eval *eval, const dlk_expr *at, dlk_value value, dlk_dtype dtype);
/* The node of a part, of the dtype's compute kind. */
dlk_ref dlk_value_part(dlk_eval *eval, const dlk_value *value, int part);
/* The numbers in a value, tuples opened, at most `max`; gives how many. */
int dlk_value_flatten(dlk_eval *eval, const dlk_expr *at, const dlk_value *value, dlk_value *leaves, int max);
/* A value of the shape of `shape` with these numbers in it. */
dlk_value dlk_value_rebuild(dlk_eval *eval, const dlk_value *shape, const dlk_value **leaves);
/* Values of the same shapes, number by number brought to the types they have together. */
void dlk_value_unify(dlk_eval *eval, const dlk_expr *at, dlk_value *a, dlk_value *b, const char *what);
/* `value` with exactly the shape and the types of `like`. */
dlk_value dlk_value_conform(dlk_eval *eval, const dlk_expr *at, dlk_value value, const dlk_value *like,
                            const char *what);

/* operators.c: what operators, primitives and built-in functions mean for each type */
dlk_value dlk_operate(dlk_eval *eval, const dlk_expr *at, dlk_sign sign, dlk_value a, dlk_value b);
dlk_value dlk_operate_unary(dlk_eval *eval, const dlk_expr *at, dlk_sign sign, dlk_value a);
dlk_value dlk_select(dlk_eval *eval, const dlk_expr *at, dlk_value p, dlk_value a, dlk_value b);
/* -1 when there is none of that name and number of arguments. */
int dlk_prim_find(const char *name, int n_args);
dlk_value dlk_call_prim(dlk_eval *eval, const dlk_expr *at, dlk_prim prim, const dlk_value *args);

/* comparison.c: exact across all real types */
dlk_value dlk_compare(dlk_eval *eval, const dlk_expr *at, dlk_sign sign, dlk_value a, dlk_value b);

/* builtin.c: bits, convert, count, f32, ...: false when there is none of that name */
bool dlk_builtin_exists(const char *name);
bool dlk_call_builtin(dlk_eval *eval, const dlk_expr *at, const dlk_value *args, int n, dlk_value *out);

/* reducers.c */
dlk_value dlk_call_reducer(dlk_eval *eval, const dlk_expr *at, const dlk_def *def, const dlk_scope_entry *scope,
                           const dlk_value *first_arg);
dlk_value dlk_count_elements(dlk_eval *eval, const dlk_expr *at);

#endif
