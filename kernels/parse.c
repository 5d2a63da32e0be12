/* A recursive-descent parser with one token of lookahead. The first error leaves by a jump: nothing is held that the arena
 * does not own. */
#include "kernels/parse.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/buffer.h"
#include "codegen/dtype.h"
#include "kernels/infer.h"
#include "kernels/lex.h"

typedef struct parser {
    dlk_arena *arena;
    dlk_lexer lexer;
    dlk_token token; /* the next one */
    const char *previous_end;
    int nesting;
    const char **uses; /* of the definition being parsed */
    int n_uses, cap_uses;
    bool uses_dtype;
    const dlk_type_variable *variables;
    int n_variables;
    jmp_buf escape;
    dlk_status status;
} parser;

static const struct {
    const char *text;
    int level; /* of binding; 0: not binary */
} signs[] = {
    /* ORDER SIGN */
    {"||", 1}, {"&&", 2}, {"==", 3}, {"!=", 3}, {"<", 3}, {"<=", 3}, {">", 3}, {">=", 3}, {"|", 4}, {"^", 5}, {"&", 6},
    {"<<", 7}, {">>", 7}, {"+", 8},  {"-", 8},  {"*", 9}, {"/", 9},  {"%", 9}, {"-", 0},  {"!", 0}, {"~", 0}};
#define LEVEL_COMPARISON 3

const char *dlk_sign_text(dlk_sign sign)
{
    return signs[sign].text;
}

/* ---- Errors ----------------------------------------------------------------------------------------------------------- */

static _Noreturn void leave(parser *p, dlk_status status)
{
    p->status = status;
    longjmp(p->escape, 1);
}

__attribute__((format(printf, 4, 5))) static _Noreturn void fail_at(parser *p, int line, int column, const char *format,
                                                                    ...)
{
    char where[96], what[400];
    va_list args;
    va_start(args, format);
    vsnprintf(what, sizeof what, format, args);
    va_end(args);
    leave(p, dlk_fail(DLK_ERR_SYNTAX, "%s: %s", dlk_where(p->lexer.file, line, column, where), what));
}

static _Noreturn void fail_expected(parser *p, const char *expected)
{
    const dlk_token *t = &p->token;
    if (t->kind == DLK_TOKEN_END)
        fail_at(p, t->line, t->column, "found the end of the text, expected %s", expected);
    fail_at(p, t->line, t->column, "found '%.*s', expected %s", t->length > 40 ? 40 : t->length, t->text, expected);
}

/* ---- Tokens ----------------------------------------------------------------------------------------------------------- */

static void advance(parser *p)
{
    if (p->token.text) /* NULL before the first token */
        p->previous_end = p->token.text + p->token.length;
    const dlk_status status = dlk_lexer_next(&p->lexer, &p->token);
    if (status != DLK_OK)
        leave(p, status);
}

static bool is_text(const dlk_token *token, const char *text)
{
    return (size_t)token->length == strlen(text) && memcmp(token->text, text, (size_t)token->length) == 0;
}

static bool at_sign(const parser *p, const char *text)
{
    const dlk_token *t = &p->token;
    return t->kind == DLK_TOKEN_SIGN && t->text[0] == text[0] && (t->length == 1 ? !text[1] : t->text[1] == text[1]);
}

static bool at_word(const parser *p, const char *text)
{
    return p->token.kind == DLK_TOKEN_NAME && is_text(&p->token, text);
}

static bool accept(parser *p, const char *sign)
{
    if (!at_sign(p, sign))
        return false;
    advance(p);
    return true;
}

static void expect(parser *p, const char *sign, const char *expected)
{
    if (!accept(p, sign))
        fail_expected(p, expected);
}

static bool accept_word(parser *p, const char *word)
{
    if (!at_word(p, word))
        return false;
    advance(p);
    return true;
}

static void expect_word(parser *p, const char *word, const char *expected)
{
    if (!accept_word(p, word))
        fail_expected(p, expected);
}

static const char *token_copy(parser *p, const dlk_token *token)
{
    char *name = dlk_arena_alloc(p->arena, (size_t)token->length + 1);
    memcpy(name, token->text, (size_t)token->length);
    return name;
}

static const char *const reserved[] = {"if",  "rare", "else", "repeat", "until", "table",  "reducer",
                                       "inf", "nan",  "pi",   "true",   "false", "scalar", "dtype"};

static bool is_reserved(const dlk_token *token)
{
    for (size_t i = 0; i < sizeof reserved / sizeof *reserved; i++)
        if (is_text(token, reserved[i]))
            return true;
    return false;
}

/* A name that may be bound. */
static const char *parse_new_name(parser *p, const char *expected)
{
    if (p->token.kind != DLK_TOKEN_NAME)
        fail_expected(p, expected);
    if (is_reserved(&p->token))
        fail_at(p, p->token.line, p->token.column, "found the reserved word '%.*s', expected %s", p->token.length,
                p->token.text, expected);
    const char *name = token_copy(p, &p->token);
    advance(p);
    return name;
}

static void enter(parser *p)
{
    if (++p->nesting > DLK_NESTING_MAX)
        fail_at(p, p->token.line, p->token.column, "expressions are nested deeper than %d", DLK_NESTING_MAX);
}

/* ---- Expressions -------------------------------------------------------------------------------------------------------- */

static const dlk_expr *parse_expr(parser *p);
static const dlk_expr *parse_level(parser *p, int level);

static dlk_expr *new_expr(parser *p, dlk_expr_kind kind, const dlk_token *at)
{
    dlk_expr *e = DLK_NEW(p->arena, dlk_expr);
    e->kind = (uint8_t)kind;
    e->line = at->line;
    e->column = at->column;
    return e;
}

static void set_args(parser *p, dlk_expr *e, const dlk_expr *const *args, int n)
{
    e->args = dlk_arena_copy(p->arena, args, sizeof *args * (size_t)n);
    e->n = n;
}

static void note_use(parser *p, const char *name)
{
    for (int i = 0; i < p->n_uses; i++)
        if (strcmp(p->uses[i], name) == 0)
            return;
    *DLK_PUSH(p->arena, p->uses, p->n_uses, p->cap_uses) = name;
}

static dlk_literal *parse_number(parser *p)
{
    dlk_literal *literal = DLK_NEW(p->arena, dlk_literal);
    literal->is_float = p->token.is_float;
    if (!dlk_rational_parse(p->arena, p->token.text, (size_t)p->token.length, &literal->value))
        fail_at(p, p->token.line, p->token.column, "the number '%.*s%s' is out of range",
                p->token.length > 40 ? 40 : p->token.length, p->token.text, p->token.length > 40 ? "..." : "");
    advance(p);
    return literal;
}

/* inf, nan and pi; NULL when the token is none of them. */
static dlk_literal *parse_named_number(parser *p)
{
    static const char digits[] = "3.14159265358979323846264338327950288419716939937510582097494459230781640628620899";
    if (!at_word(p, "inf") && !at_word(p, "nan") && !at_word(p, "pi"))
        return NULL;
    dlk_literal *literal = DLK_NEW(p->arena, dlk_literal);
    literal->is_float = true;
    literal->kind = at_word(p, "inf") ? DLK_LITERAL_INF : at_word(p, "nan") ? DLK_LITERAL_NAN : DLK_LITERAL_RATIONAL;
    if (literal->kind == DLK_LITERAL_RATIONAL)
        dlk_rational_parse(p->arena, digits, sizeof digits - 1, &literal->value);
    advance(p);
    return literal;
}

/* Arguments up to the closing parenthesis; names may be NULL where no argument may be named. */
static int parse_list(parser *p, const dlk_expr **args, const char **names)
{
    int n = 0;
    while (!at_sign(p, ")")) {
        if (n == DLK_TUPLE_MAX)
            fail_at(p, p->token.line, p->token.column, "there are more than %d values between parentheses",
                    DLK_TUPLE_MAX);
        const dlk_token first = p->token;
        const dlk_expr *value = parse_expr(p);
        if (names)
            names[n] = NULL;
        if (names && value->kind == DLK_EXPR_NAME && value->n == 0 && accept(p, "=")) {
            names[n] = token_copy(p, &first);
            value = parse_expr(p);
        }
        args[n++] = value;
        if (!accept(p, ","))
            break;
    }
    expect(p, ")", "',' or ')'");
    return n;
}

static const dlk_expr *parse_call(parser *p, const dlk_token *name)
{
    const dlk_expr *args[DLK_TUPLE_MAX];
    const char *names[DLK_TUPLE_MAX];
    dlk_expr *e = new_expr(p, DLK_EXPR_CALL, name);
    e->name = token_copy(p, name);
    note_use(p, e->name);
    set_args(p, e, args, parse_list(p, args, names));
    e->arg_names = dlk_arena_copy(p->arena, names, sizeof *names * (size_t)e->n);
    return e;
}

static const dlk_expr *parse_index(parser *p, const dlk_token *name)
{
    dlk_expr *e = new_expr(p, DLK_EXPR_INDEX, name);
    e->name = token_copy(p, name);
    note_use(p, e->name);
    const dlk_expr *index = parse_expr(p);
    set_args(p, e, &index, 1);
    expect(p, "]", "']' behind the index");
    return e;
}

static const dlk_expr *parse_name(parser *p)
{
    const dlk_token name = p->token;
    const bool is_value = at_word(p, "true") || at_word(p, "false") || at_word(p, "dtype");
    p->uses_dtype |= at_word(p, "dtype");
    if (is_reserved(&name) && !is_value)
        fail_expected(p, "a value");
    advance(p);
    if (!is_value && accept(p, "("))
        return parse_call(p, &name);
    if (!is_value && accept(p, "["))
        return parse_index(p, &name);
    dlk_expr *e = new_expr(p, DLK_EXPR_NAME, &name);
    e->name = token_copy(p, &name);
    return e;
}

/* Behind the opening parenthesis: a value in parentheses, or a tuple. */
static const dlk_expr *parse_parentheses(parser *p, const dlk_token *open)
{
    const dlk_expr *args[DLK_TUPLE_MAX];
    const int n = parse_list(p, args, NULL);
    if (n == 0)
        fail_at(p, open->line, open->column, "found '()', expected a value between the parentheses");
    if (n == 1)
        return args[0];
    dlk_expr *e = new_expr(p, DLK_EXPR_TUPLE, open);
    set_args(p, e, args, n);
    return e;
}

/* ---- Blocks, branches, loops ---------------------------------------------------------------------------------------------- */

static dlk_pattern parse_pattern(parser *p, const char *expected)
{
    dlk_pattern pattern = {.line = p->token.line, .column = p->token.column}, parts[DLK_TUPLE_MAX];
    if (!accept(p, "(")) {
        pattern.name = parse_new_name(p, expected);
        return pattern;
    }
    enter(p);
    do {
        if (pattern.n == DLK_TUPLE_MAX)
            fail_at(p, p->token.line, p->token.column, "a tuple has more than %d names", DLK_TUPLE_MAX);
        parts[pattern.n++] = parse_pattern(p, "a name in the tuple");
    } while (accept(p, ","));
    expect(p, ")", "',' or ')'");
    p->nesting--;
    if (pattern.n == 1)
        return parts[0];
    pattern.parts = dlk_arena_copy(p->arena, parts, sizeof *parts * (size_t)pattern.n);
    return pattern;
}

/* An expression read as what a binding binds. */
static dlk_pattern pattern_of(parser *p, const dlk_expr *e)
{
    dlk_pattern pattern = {.line = e->line, .column = e->column};
    if (e->kind == DLK_EXPR_NAME && strcmp(e->name, "true") && strcmp(e->name, "false") && strcmp(e->name, "dtype")) {
        pattern.name = e->name;
        return pattern;
    }
    if (e->kind != DLK_EXPR_TUPLE)
        fail_at(p, e->line, e->column, "only a name or a tuple of names can stand before '='");
    dlk_pattern *parts = DLK_NEW_ARRAY(p->arena, dlk_pattern, e->n);
    for (int i = 0; i < e->n; i++)
        parts[i] = pattern_of(p, e->args[i]);
    pattern.parts = parts;
    pattern.n = e->n;
    return pattern;
}

/* The value of a block may be several, with commas between: a tuple without parentheses. */
static const dlk_expr *parse_block_value(parser *p, const dlk_expr *first)
{
    const dlk_expr *args[DLK_TUPLE_MAX] = {first};
    int n = 1;
    while (accept(p, ",")) {
        if (n == DLK_TUPLE_MAX)
            fail_at(p, p->token.line, p->token.column, "a tuple has more than %d values", DLK_TUPLE_MAX);
        args[n++] = parse_expr(p);
    }
    if (n == 1)
        return first;
    const dlk_token at = {.line = first->line, .column = first->column};
    dlk_expr *e = new_expr(p, DLK_EXPR_TUPLE, &at);
    set_args(p, e, args, n);
    return e;
}

/* Behind '{'. */
static const dlk_expr *parse_block(parser *p, const dlk_token *open)
{
    dlk_expr *e = new_expr(p, DLK_EXPR_BLOCK, open);
    dlk_binding *bindings = NULL;
    int cap = 0;
    for (;;) {
        if (at_sign(p, "}"))
            fail_expected(p, "the value of the block: its last expression, without ';'");
        const dlk_expr *value = parse_expr(p);
        if (!accept(p, "=")) {
            const dlk_expr *result = parse_block_value(p, value);
            set_args(p, e, &result, 1);
            break;
        }
        dlk_binding binding = {.pattern = pattern_of(p, value)};
        binding.value = parse_expr(p);
        *DLK_PUSH(p->arena, bindings, e->n_bindings, cap) = binding;
        expect(p, ";", "';' behind the binding");
    }
    e->bindings = bindings;
    expect(p, "}", at_sign(p, ";") ? "'}': the value of a block has no ';'" : "'}'");
    return e;
}

static const dlk_expr *parse_rare(parser *p, const dlk_token *at)
{
    const dlk_expr *args[3];
    dlk_expr *e = new_expr(p, DLK_EXPR_RARE, at);
    expect_word(p, "rare", "'rare': if rare(condition) value else value");
    expect(p, "(", "'(' before the condition");
    args[0] = parse_expr(p);
    expect(p, ")", "')' behind the condition");
    args[1] = parse_expr(p);
    expect_word(p, "else", "'else'");
    args[2] = parse_expr(p);
    set_args(p, e, args, 3);
    return e;
}

static int64_t parse_repeat_count(parser *p)
{
    uint64_t count;
    const dlk_token at = p->token;
    if (at.kind != DLK_TOKEN_NUMBER)
        fail_expected(p, "how often to repeat at most, a number");
    const dlk_literal *literal = parse_number(p);
    if (literal->is_float || !dlk_rational_to_u64(p->arena, literal->value, &count) || count > DLK_REPEAT_MAX)
        fail_at(p, at.line, at.column, "found '%.*s', expected an integer up to %d", at.length > 40 ? 40 : at.length,
                at.text, DLK_REPEAT_MAX);
    return (int64_t)count;
}

/* repeat N (state = first, ...) until done { next, ... } */
static const dlk_expr *parse_repeat(parser *p, const dlk_token *at)
{
    dlk_expr *e = new_expr(p, DLK_EXPR_REPEAT, at);
    const dlk_expr *args[2] = {NULL, NULL};
    dlk_binding *states = NULL;
    int cap = 0;
    e->count = parse_repeat_count(p);
    expect(p, "(", "'(' before the states");
    do {
        dlk_binding state = {.pattern = {.line = p->token.line, .column = p->token.column}};
        state.pattern.name = parse_new_name(p, "the name of a state");
        expect(p, "=", "'=' and the first value of the state");
        state.value = parse_expr(p);
        *DLK_PUSH(p->arena, states, e->n_bindings, cap) = state;
    } while (accept(p, ","));
    expect(p, ")", "',' or ')'");
    e->bindings = states;
    if (accept_word(p, "until"))
        args[0] = parse_expr(p);
    const dlk_token open = p->token;
    expect(p, "{", "'{' before the next values of the states");
    args[1] = parse_block(p, &open);
    set_args(p, e, args, 2);
    return e;
}

/* ---- Operators ------------------------------------------------------------------------------------------------------------ */

static const dlk_expr *parse_primary(parser *p)
{
    const dlk_token at = p->token;
    const dlk_literal *number = at.kind == DLK_TOKEN_NUMBER ? parse_number(p) : parse_named_number(p);
    if (number) {
        dlk_expr *e = new_expr(p, DLK_EXPR_NUMBER, &at);
        e->number = number;
        return e;
    }
    if (accept(p, "("))
        return parse_parentheses(p, &at);
    if (accept(p, "{"))
        return parse_block(p, &at);
    if (accept_word(p, "if"))
        return parse_rare(p, &at);
    if (accept_word(p, "repeat"))
        return parse_repeat(p, &at);
    if (at.kind != DLK_TOKEN_NAME)
        fail_expected(p, "a value");
    return parse_name(p);
}

static const dlk_expr *parse_unary(parser *p)
{
    const dlk_token at = p->token;
    const dlk_sign sign = at_sign(p, "-")   ? DLK_SIGN_NEGATE
                          : at_sign(p, "!") ? DLK_SIGN_NOT
                          : at_sign(p, "~") ? DLK_SIGN_BIT_NOT
                                            : DLK_SIGN_OR;
    if (sign == DLK_SIGN_OR)
        return parse_primary(p);
    advance(p);
    enter(p);
    const dlk_expr *operand = parse_unary(p);
    p->nesting--;
    dlk_expr *e = new_expr(p, DLK_EXPR_UNARY, &at);
    e->sign = (uint8_t)sign;
    set_args(p, e, &operand, 1);
    return e;
}

/* The binary operator at the token; -1 when there is none. */
static int binary_sign(const parser *p)
{
    if (p->token.kind != DLK_TOKEN_SIGN)
        return -1;
    for (int i = 0; i < DLK_SIGN_NEGATE; i++)
        if (at_sign(p, signs[i].text))
            return i;
    return -1;
}

/* Operands and the operators between them that bind at `level` or tighter. */
static const dlk_expr *parse_level(parser *p, int level)
{
    const dlk_expr *left = parse_unary(p);
    int last = 0, sign;
    while ((sign = binary_sign(p)) >= 0 && signs[sign].level >= level) {
        const dlk_token at = p->token;
        if (signs[sign].level == LEVEL_COMPARISON && last == LEVEL_COMPARISON)
            fail_expected(p, "no second comparison: write a < b && b < c");
        last = signs[sign].level;
        advance(p);
        const dlk_expr *args[2] = {left, parse_level(p, last + 1)};
        dlk_expr *e = new_expr(p, DLK_EXPR_BINARY, &at);
        e->sign = (uint8_t)sign;
        set_args(p, e, args, 2);
        left = e;
    }
    return left;
}

static const dlk_expr *parse_expr(parser *p)
{
    enter(p);
    const dlk_expr *e = parse_level(p, 1);
    p->nesting--;
    return e;
}

/* ---- Types and parameters ------------------------------------------------------------------------------------------------- */

static int find_variable(const parser *p, const dlk_token *token)
{
    for (int i = 0; i < p->n_variables; i++)
        if (is_text(token, p->variables[i].name))
            return i;
    return -1;
}

/* class | class ... */
static dlk_class_set parse_classes(parser *p)
{
    dlk_class_set set = 0;
    do {
        const dlk_class_set one =
            p->token.kind == DLK_TOKEN_NAME ? dlk_class_set_from_name(p->token.text, p->token.length) : 0;
        if (!one)
            fail_expected(p, "a class (bool, int, uint, integer, float, real, complex, number, any), an exact type as "
                             "f32, or a type variable");
        set |= one;
        advance(p);
    } while (accept(p, "|"));
    return set;
}

static dlk_param_type parse_type(parser *p)
{
    dlk_param_type type = {.classes = DLK_CLASSES_ANY, .exact = DLK_DTYPE_NONE, .variable = -1};
    if (p->token.kind == DLK_TOKEN_NAME && (type.variable = (int8_t)find_variable(p, &p->token)) >= 0) {
        advance(p);
        return type;
    }
    if (accept_word(p, "scalar")) {
        type.is_scalar = true;
        return type;
    }
    const dlk_dtype exact =
        p->token.kind == DLK_TOKEN_NAME ? dlk_dtype_from_name(p->token.text, (size_t)p->token.length) : DLK_DTYPE_NONE;
    if (exact != DLK_DTYPE_NONE && exact != DLK_DTYPE_BOOL) {
        type.exact = (uint8_t)exact;
        type.classes = dlk_class_bit(exact);
        advance(p);
        return type;
    }
    type.classes = parse_classes(p);
    return type;
}

/* A literal with sign, for defaults and tables. */
static const dlk_literal *parse_constant(parser *p, const char *expected)
{
    bool is_negative = false;
    while (accept(p, "-"))
        is_negative = !is_negative;
    dlk_literal *literal = p->token.kind == DLK_TOKEN_NUMBER ? parse_number(p) : parse_named_number(p);
    if (!literal)
        fail_expected(p, expected);
    if (is_negative)
        literal->value = dlk_rational_negate(literal->value);
    return literal;
}

static dlk_param parse_param(parser *p)
{
    dlk_param param = {.line = p->token.line, .column = p->token.column};
    param.type = (dlk_param_type){.classes = DLK_CLASSES_ANY, .exact = DLK_DTYPE_NONE, .variable = -1};
    param.name = parse_new_name(p, "the name of a parameter");
    if (accept(p, ":"))
        param.type = parse_type(p);
    if (at_sign(p, "=") && !param.type.is_scalar)
        fail_expected(p, "',' or ')': only a scalar parameter has a default");
    if (accept(p, "="))
        param.default_value = parse_constant(p, "the default, a number");
    return param;
}

static void parse_params(parser *p, dlk_def *def)
{
    dlk_param *params = NULL;
    int cap = 0, n_scalars = 0;
    expect(p, "(", "'(' and the parameters");
    while (!at_sign(p, ")")) {
        const dlk_param param = parse_param(p);
        for (int i = 0; i < def->n_params; i++)
            if (strcmp(params[i].name, param.name) == 0)
                fail_at(p, param.line, param.column, "there are two parameters called '%s'", param.name);
        n_scalars += param.type.is_scalar;
        if (n_scalars && !param.type.is_scalar)
            fail_at(p, param.line, param.column, "'%s' stands behind a scalar parameter; scalars come last",
                    param.name);
        if (n_scalars > 16 || def->n_params - n_scalars >= DLK_DEF_INPUTS_MAX)
            fail_at(p, param.line, param.column, "there are more than %d inputs or 16 scalars", DLK_DEF_INPUTS_MAX);
        *DLK_PUSH(p->arena, params, def->n_params, cap) = param;
        if (!accept(p, ","))
            break;
    }
    expect(p, ")", "',' or ')'");
    def->params = params;
}

/* [T: class, U] behind the name. */
static void parse_variables(parser *p, dlk_def *def)
{
    dlk_type_variable *variables = NULL;
    int cap = 0;
    p->n_variables = 0;
    if (!accept(p, "["))
        return;
    do {
        dlk_type_variable variable = {.classes = DLK_CLASSES_ANY};
        variable.name = parse_new_name(p, "the name of a type variable");
        if (accept(p, ":"))
            variable.classes = parse_classes(p);
        if (def->n_variables == 16)
            fail_at(p, p->token.line, p->token.column, "there are more than 16 type variables");
        *DLK_PUSH(p->arena, variables, def->n_variables, cap) = variable;
    } while (accept(p, ","));
    expect(p, "]", "',' or ']'");
    p->variables = def->variables = variables;
    p->n_variables = def->n_variables;
}

/* ---- Definitions -------------------------------------------------------------------------------------------------------- */

/* `##` lines without their marks. */
static const char *documentation(parser *p)
{
    if (!p->lexer.doc)
        return "";
    dlk_buffer text = {.arena = p->arena};
    for (const char *at = p->lexer.doc; at < p->lexer.doc_end;) {
        const char *end = memchr(at, '\n', (size_t)(p->lexer.doc_end - at));
        end = end ? end : p->lexer.doc_end;
        while (at < end && (*at == ' ' || *at == '\t' || *at == '#'))
            at++;
        if (text.size)
            dlk_buffer_puts(&text, "\n");
        dlk_buffer_append(&text, at, (size_t)(end - at));
        at = end + 1;
    }
    return text.data ? text.data : "";
}

/* The header as written, with single blanks. */
static const char *signature(parser *p, const char *start, const char *end)
{
    dlk_buffer text = {.arena = p->arena};
    bool is_blank = false;
    for (const char *at = start; at < end; at++) {
        if (*at == '#')
            while (at < end && *at != '\n')
                at++;
        const bool blank = at < end && (*at == ' ' || *at == '\t' || *at == '\n' || *at == '\r');
        if (blank && !is_blank)
            dlk_buffer_puts(&text, " ");
        else if (!blank && at < end)
            dlk_buffer_append(&text, at, 1);
        is_blank = blank;
    }
    return text.data;
}

static void parse_header(parser *p, dlk_def *def, const char *expected)
{
    const char *start = p->token.text;
    def->name = parse_new_name(p, expected);
    parse_variables(p, def);
    parse_params(p, def);
    def->signature = signature(p, start, p->previous_end);
}

static void parse_formula(parser *p, dlk_def *def)
{
    def->kind = DLK_DEF_FORMULA;
    parse_header(p, def, "a definition: name(parameters) = formula");
    const dlk_token at = p->token;
    if (accept(p, "="))
        def->body = parse_expr(p);
    else if (accept(p, "{"))
        def->body = parse_block(p, &at);
    else
        fail_expected(p, "'=' or '{' and the formula");
}

/* A value of a clause, with an optional ';' behind. */
static const dlk_expr *parse_clause_value(parser *p)
{
    expect(p, ":", "':' behind the name of the clause");
    const dlk_expr *value = parse_expr(p);
    accept(p, ";");
    return value;
}

static void parse_merge(parser *p, dlk_reducer *reducer)
{
    expect(p, "(", "'(' and the two states: merge(a, b)");
    reducer->left = parse_pattern(p, "the state on the left");
    expect(p, ",", "',' and the state on the right");
    reducer->right = parse_pattern(p, "the state on the right");
    expect(p, ")", "')' behind the two states");
    reducer->merge = parse_clause_value(p);
}

static void parse_finish(parser *p, dlk_reducer *reducer)
{
    expect(p, "(", "'(' and the state: finish(a)");
    reducer->state = parse_pattern(p, "the state");
    expect(p, ")", "')' behind the state");
    reducer->finish = parse_clause_value(p);
}

static void parse_clause(parser *p, dlk_reducer *reducer)
{
    const dlk_token at = p->token;
    static const char *const names[] = {"first", "leaf", "merge", "identity", "empty", "finish", "unordered"};
    const void *const present[] = {reducer->first,
                                   reducer->first,
                                   reducer->merge,
                                   reducer->identity,
                                   reducer->empty,
                                   reducer->finish,
                                   reducer->is_unordered ? reducer : NULL};
    int which = 0;
    while (which < 7 && !at_word(p, names[which]))
        which++;
    if (which == 7)
        fail_expected(p, "a clause of a reducer: first, leaf, merge, identity, empty, finish or unordered");
    if (present[which])
        fail_at(p, at.line, at.column, "there is a second '%s' (a reducer has either first or leaf)", names[which]);
    advance(p);
    switch (which) {
    case 0:
    case 1:
        reducer->is_leaf = which == 1;
        reducer->first = parse_clause_value(p);
        return;
    case 2:
        parse_merge(p, reducer);
        return;
    case 3:
        reducer->identity = parse_clause_value(p);
        return;
    case 4:
        reducer->empty = parse_clause_value(p);
        return;
    case 5:
        parse_finish(p, reducer);
        return;
    default:
        reducer->is_unordered = true;
        accept(p, ";");
    }
}

static void parse_reducer(parser *p, dlk_def *def)
{
    def->kind = DLK_DEF_REDUCER;
    parse_header(p, def, "the name of the reducer");
    expect(p, "{", "'{' and the clauses of the reducer");
    while (!at_sign(p, "}"))
        parse_clause(p, &def->reducer);
    if (!def->reducer.first)
        fail_expected(p, "a clause 'first: ...' (or 'leaf: ...'): the state of one element (or leaf)");
    if (!def->reducer.merge)
        fail_expected(p, "a clause 'merge(a, b): ...': how two states join");
    advance(p);
}

static void parse_table_elements(parser *p, dlk_def *def)
{
    const dlk_literal **elements = NULL;
    int cap = 0;
    expect(p, "{", "'{' and the elements");
    while (!at_sign(p, "}")) {
        if (def->n_table == DLK_TABLE_MAX)
            fail_at(p, p->token.line, p->token.column, "a table has more than %d elements", DLK_TABLE_MAX);
        *DLK_PUSH(p->arena, elements, def->n_table, cap) = parse_constant(p, "an element of the table, a number");
        if (!accept(p, ","))
            break;
    }
    expect(p, "}", "',' or '}'");
    def->table = elements;
}

static void check_table_size(parser *p, const dlk_def *def, const dlk_token *at)
{
    uint64_t size = 0;
    dlk_rational value;
    if (at->is_float || !dlk_rational_parse(p->arena, at->text, (size_t)at->length, &value) ||
        !dlk_rational_to_u64(p->arena, value, &size) || size != (uint64_t)def->n_table || size == 0)
        fail_at(p, at->line, at->column, "table '%s' is declared with %.*s elements, but %d are given", def->name,
                at->length > 40 ? 40 : at->length, at->text, def->n_table);
}

/* table NAME: f64[128] = { ... } */
static void parse_table(parser *p, dlk_def *def)
{
    def->kind = DLK_DEF_TABLE;
    def->name = parse_new_name(p, "the name of the table");
    expect(p, ":", "':' and the type of the elements");
    const dlk_dtype dtype =
        p->token.kind == DLK_TOKEN_NAME ? dlk_dtype_from_name(p->token.text, (size_t)p->token.length) : DLK_DTYPE_NONE;
    if (dtype == DLK_DTYPE_NONE || dlk_dtypes[dtype].parts != 1 || dlk_dtypes[dtype].class_ == DLK_CLASS_BOOL ||
        dlk_dtypes[dtype].storage != dlk_dtypes[dtype].compute)
        fail_expected(p, "the type of the elements: f32, f64, or an integer type as i64");
    def->table_dtype = (uint8_t)dtype;
    advance(p);
    expect(p, "[", "'[' and the number of elements");
    const dlk_token size = p->token;
    if (size.kind != DLK_TOKEN_NUMBER)
        fail_expected(p, "the number of elements");
    advance(p);
    expect(p, "]", "']' behind the number of elements");
    def->signature = signature(p, def->text, p->previous_end);
    expect(p, "=", "'=' and the elements in braces");
    parse_table_elements(p, def);
    check_table_size(p, def, &size);
}

static const dlk_def *parse_definition(parser *p)
{
    dlk_def *def = DLK_NEW(p->arena, dlk_def);
    def->documentation = documentation(p);
    def->file = p->lexer.file;
    def->line = p->token.line;
    def->column = p->token.column;
    def->text = p->token.text;
    p->n_uses = p->cap_uses = p->n_variables = 0;
    p->uses_dtype = false;
    p->uses = NULL;
    if (accept_word(p, "table"))
        parse_table(p, def);
    else if (accept_word(p, "reducer"))
        parse_reducer(p, def);
    else
        parse_formula(p, def);
    def->text_bytes = (int)(p->previous_end - def->text);
    def->uses = p->uses;
    def->n_uses = p->n_uses;
    def->uses_dtype = p->uses_dtype;
    accept(p, ";");
    return def;
}

static void parse_all(parser *p, dlk_parsed *out)
{
    const dlk_def **defs = NULL;
    int cap = 0;
    advance(p);
    while (p->token.kind != DLK_TOKEN_END)
        *DLK_PUSH(p->arena, defs, out->n, cap) = parse_definition(p);
    out->defs = defs;
}

dlk_status dlk_parse(dlk_arena *arena, const char *file, const char *text, size_t bytes, dlk_parsed *out)
{
    if (!file && bytes > DLK_TEXT_BYTES_MAX)
        return dlk_fail(DLK_ERR_SYNTAX, "line 1, column 1: the text has %zu bytes, expected at most %d", bytes,
                        DLK_TEXT_BYTES_MAX);
    jmp_buf *outer = arena->escape;
    parser *p = dlk_arena_alloc(arena, sizeof *p);
    if (!p)
        return dlk_fail(DLK_ERR_MEMORY, "out of memory while parsing a definition");
    p->arena = arena;
    dlk_lexer_make(&p->lexer, file, text, bytes);
    *out = (dlk_parsed){0};
    arena->escape = &p->escape;
    if (setjmp(p->escape) == 0)
        parse_all(p, out);
    else if (p->status == DLK_OK)
        p->status = dlk_fail(DLK_ERR_MEMORY, "out of memory while parsing a definition");
    arena->escape = outer;
    return p->status;
}
