/* Definition text to syntax trees (docs/language.md has the grammar). Nothing is resolved or typed here. */
#ifndef DLK_KERNELS_PARSE_H
#define DLK_KERNELS_PARSE_H

#include "base/arena.h"
#include "base/hash.h"
#include "base/status.h"
#include "kernels/rational.h"

#include <stdbool.h>
#include <stdint.h>

#define DLK_TEXT_BYTES_MAX 65536 /* of a user's text */
#define DLK_NESTING_MAX    64    /* parentheses, blocks, operators before an operand */
#define DLK_DEF_INPUTS_MAX 64
#define DLK_TABLE_MAX      4096
#define DLK_TUPLE_MAX      64
#define DLK_REPEAT_MAX     65536

typedef struct dlk_expr dlk_expr;

typedef struct dlk_literal {
    enum { DLK_LITERAL_RATIONAL, DLK_LITERAL_INF, DLK_LITERAL_NAN } kind;
    bool is_float;      /* written with a point or an exponent, or computed by a division; always for INF and NAN */
    dlk_rational value; /* of INF and NAN the sign alone */
} dlk_literal;

/* What a binding binds: a name, or a tuple of patterns. */
typedef struct dlk_pattern {
    const char *name; /* NULL: a tuple */
    const struct dlk_pattern *parts;
    int n;
    int line, column;
} dlk_pattern;

typedef struct dlk_binding {
    dlk_pattern pattern;
    const dlk_expr *value;
} dlk_binding;

typedef enum dlk_expr_kind {
    DLK_EXPR_NUMBER,
    DLK_EXPR_NAME,
    DLK_EXPR_CALL,   /* name(args), arg_names[i] NULL or the name of the parameter */
    DLK_EXPR_INDEX,  /* name[args[0]] */
    DLK_EXPR_UNARY,  /* sign args[0] */
    DLK_EXPR_BINARY, /* args[0] sign args[1] */
    DLK_EXPR_TUPLE,
    DLK_EXPR_BLOCK, /* bindings, then args[0] */
    DLK_EXPR_RARE,  /* if rare(args[0]) args[1] else args[2] */
    DLK_EXPR_REPEAT /* at most `count` times; bindings are the states; until args[0] (may be NULL); next state args[1] */
} dlk_expr_kind;

typedef enum dlk_sign { /* operators, by falling looseness; ORDER SIGN with the table in parse.c */
                        DLK_SIGN_OR,
                        DLK_SIGN_AND,
                        DLK_SIGN_EQ,
                        DLK_SIGN_NE,
                        DLK_SIGN_LT,
                        DLK_SIGN_LE,
                        DLK_SIGN_GT,
                        DLK_SIGN_GE,
                        DLK_SIGN_BIT_OR,
                        DLK_SIGN_BIT_XOR,
                        DLK_SIGN_BIT_AND,
                        DLK_SIGN_SHL,
                        DLK_SIGN_SHR,
                        DLK_SIGN_ADD,
                        DLK_SIGN_SUB,
                        DLK_SIGN_MUL,
                        DLK_SIGN_DIV,
                        DLK_SIGN_REM,
                        DLK_SIGN_NEGATE, /* unary */
                        DLK_SIGN_NOT,
                        DLK_SIGN_BIT_NOT
} dlk_sign;
const char *dlk_sign_text(dlk_sign sign);

struct dlk_expr {
    uint8_t kind; /* dlk_expr_kind */
    uint8_t sign; /* dlk_sign */
    int line, column;
    const char *name;
    const dlk_literal *number;
    const dlk_expr *const *args;
    const char *const *arg_names;
    int n;
    const dlk_binding *bindings;
    int n_bindings;
    int64_t count;
};

/* A set of dtype classes: bit c for dlk_dtype_class c. */
typedef uint8_t dlk_class_set;

typedef struct dlk_param_type {
    dlk_class_set classes; /* all where nothing is said */
    uint8_t exact;         /* dlk_dtype, or DLK_DTYPE_NONE */
    int8_t variable;       /* index into the definition's type variables, or -1 */
    bool is_scalar;        /* a named scalar */
} dlk_param_type;

typedef struct dlk_param {
    const char *name;
    dlk_param_type type;
    const dlk_literal *default_value; /* of a scalar; NULL: must be given */
    int line, column;
} dlk_param;

typedef struct dlk_type_variable {
    const char *name;
    dlk_class_set classes;
} dlk_type_variable;

typedef enum dlk_def_kind { DLK_DEF_FORMULA, DLK_DEF_REDUCER, DLK_DEF_TABLE } dlk_def_kind;

typedef struct dlk_reducer {
    const dlk_expr *first; /* of an element, or of a leaf */
    bool is_leaf, is_unordered;
    dlk_pattern left, right, state;
    const dlk_expr *merge;
    const dlk_expr *identity; /* NULL: none */
    const dlk_expr *empty;    /* NULL: nothing at all has no answer */
    const dlk_expr *finish;   /* over `state`; NULL: the state itself */
} dlk_reducer;

/* One definition: an overload of an operation, a reducer, or a table. */
typedef struct dlk_def {
    const char *name;
    dlk_def_kind kind;
    const char *file; /* NULL: the user's text */
    int line, column;
    const char *text; /* the definition as written */
    int text_bytes;
    const char *documentation; /* "" when there is none */
    const char *signature;     /* "leaky_relu(x: float, slope: scalar = 0.01)" */
    const dlk_param *params;
    int n_params;
    const dlk_type_variable *variables;
    int n_variables;
    const dlk_expr *body; /* FORMULA */
    dlk_reducer reducer;
    uint8_t table_dtype;
    const dlk_literal *const *table;
    int n_table;
    const char *const *uses; /* names that it calls or indexes, each once */
    int n_uses;
    bool uses_dtype; /* says itself where the launch's dtype goes */
} dlk_def;

/* All definitions of one name, in the order of the text. */
struct dlk_overloads {
    const char *name;
    const dlk_def *const *defs;
    int n;
    bool is_library;
    dlk_hash text; /* of the texts of the definitions */
};
typedef struct dlk_overloads dlk_overloads;

typedef struct dlk_parsed {
    const dlk_def *const *defs;
    int n;
} dlk_parsed;

/* Parses `text` into `arena`, which must outlive the trees. `file` NULL: a user's text, which has its caps. Failures are
 * DLK_ERR_SYNTAX with line and column, what was found and what was expected. */
dlk_status dlk_parse(dlk_arena *arena, const char *file, const char *text, size_t bytes, dlk_parsed *out);

#endif
