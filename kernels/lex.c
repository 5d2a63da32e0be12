/* The lexer: blanks and comments end here; documentation comments are remembered for the definition that follows. */
#include "kernels/lex.h"

#include <stdio.h>
#include <string.h>

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

static bool is_hex_digit(char c)
{
    return is_digit(c) || ((c | 0x20) >= 'a' && (c | 0x20) <= 'f');
}

static bool is_name_start(char c)
{
    return c == '_' || ((c | 0x20) >= 'a' && (c | 0x20) <= 'z');
}

static bool is_name_char(char c)
{
    return is_name_start(c) || is_digit(c);
}

static char peek(const dlk_lexer *lexer, int ahead)
{
    return lexer->end - lexer->at > ahead ? lexer->at[ahead] : 0;
}

static void skip_comment(dlk_lexer *lexer)
{
    const bool is_doc = peek(lexer, 1) == '#';
    const char *start = lexer->at;
    while (lexer->at < lexer->end && *lexer->at != '\n')
        lexer->at++;
    if (!is_doc) {
        lexer->doc = NULL;
    } else {
        if (!lexer->doc)
            lexer->doc = start;
        lexer->doc_end = lexer->at;
    }
}

static void skip_newline(dlk_lexer *lexer)
{
    lexer->at++;
    lexer->line++;
    lexer->line_start = lexer->at;
    const char *next = lexer->at;
    while (next < lexer->end && (*next == ' ' || *next == '\t' || *next == '\r'))
        next++;
    if (next < lexer->end && *next == '\n') /* an empty line parts a comment from what follows */
        lexer->doc = NULL;
}

static void skip_blanks(dlk_lexer *lexer)
{
    while (lexer->at < lexer->end) {
        const char c = *lexer->at;
        if (c == '#')
            skip_comment(lexer);
        else if (c == '\n')
            skip_newline(lexer);
        else if (c == ' ' || c == '\t' || c == '\r')
            lexer->at++;
        else
            return;
    }
}

static dlk_status fail_number(const dlk_lexer *lexer, const dlk_token *token, const char *expected)
{
    char where[96];
    return dlk_fail(DLK_ERR_SYNTAX, "%s: found the number '%.*s', expected %s",
                    dlk_where(lexer->file, token->line, token->column, where), token->length, token->text, expected);
}

static int skip_digits(dlk_lexer *lexer, bool is_hex)
{
    const char *start = lexer->at;
    while (lexer->at < lexer->end && (is_hex ? is_hex_digit(*lexer->at) : is_digit(*lexer->at)))
        lexer->at++;
    return (int)(lexer->at - start);
}

/* True when an exponent is there and whole, or there is none. */
static bool skip_exponent(dlk_lexer *lexer, char letter, dlk_token *token)
{
    if ((peek(lexer, 0) | 0x20) != letter)
        return true;
    token->is_float = true;
    lexer->at++;
    if (peek(lexer, 0) == '-' || peek(lexer, 0) == '+')
        lexer->at++;
    return skip_digits(lexer, false) > 0;
}

static dlk_status lex_number(dlk_lexer *lexer, dlk_token *token)
{
    const bool is_hex = peek(lexer, 0) == '0' && (peek(lexer, 1) | 0x20) == 'x';
    if (is_hex)
        lexer->at += 2;
    int digits = skip_digits(lexer, is_hex);
    if (peek(lexer, 0) == '.') {
        token->is_float = true;
        lexer->at++;
        digits += skip_digits(lexer, is_hex);
    }
    const bool has_point = token->is_float;
    bool is_whole = skip_exponent(lexer, is_hex ? 'p' : 'e', token) && digits > 0;
    while (lexer->at < lexer->end && (is_name_char(*lexer->at) || *lexer->at == '.')) {
        lexer->at++;
        is_whole = false;
    }
    token->length = (int)(lexer->at - token->text);
    if (is_hex && has_point && (!is_whole || !memchr(token->text, 'p', (size_t)token->length)))
        if (!memchr(token->text, 'P', (size_t)token->length))
            return fail_number(lexer, token, "an exponent as in 0x1.8p3 behind a hexadecimal point");
    if (!is_whole)
        return fail_number(lexer, token, "a number as 12, 1.5e-3, 0xff or 0x1.8p3");
    return DLK_OK;
}

static int sign_length(const dlk_lexer *lexer)
{
    static const char *const pairs[] = {"<<", ">>", "==", "!=", "<=", ">=", "&&", "||"};
    const char first = peek(lexer, 0), second = peek(lexer, 1);
    for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++)
        if (first == pairs[i][0] && second == pairs[i][1])
            return 2;
    return first && strchr("()[]{},;:=+-*/%<>&|^~!", first) ? 1 : 0;
}

static dlk_status lex_sign(dlk_lexer *lexer, dlk_token *token)
{
    char where[96];
    token->length = sign_length(lexer);
    if (token->length == 0) {
        const unsigned char c = (unsigned char)*lexer->at;
        dlk_where(lexer->file, token->line, token->column, where);
        if (c > ' ' && c < 127)
            return dlk_fail(DLK_ERR_SYNTAX, "%s: found '%c', expected a name, a number or an operator", where, c);
        return dlk_fail(DLK_ERR_SYNTAX, "%s: found the byte 0x%02x, expected a name, a number or an operator", where,
                        c);
    }
    token->kind = DLK_TOKEN_SIGN;
    lexer->at += token->length;
    return DLK_OK;
}

void dlk_lexer_make(dlk_lexer *lexer, const char *file, const char *text, size_t bytes)
{
    *lexer = (dlk_lexer){.file = file, .at = text, .end = text + bytes, .line_start = text, .line = 1};
}

dlk_status dlk_lexer_next(dlk_lexer *lexer, dlk_token *out)
{
    lexer->doc = NULL;
    skip_blanks(lexer);
    *out = (dlk_token){.kind = DLK_TOKEN_END,
                       .text = lexer->at,
                       .line = lexer->line,
                       .column = (int)(lexer->at - lexer->line_start) + 1};
    if (lexer->at == lexer->end)
        return DLK_OK;
    if (is_digit(*lexer->at) || (*lexer->at == '.' && is_digit(peek(lexer, 1)))) {
        out->kind = DLK_TOKEN_NUMBER;
        return lex_number(lexer, out);
    }
    if (!is_name_start(*lexer->at))
        return lex_sign(lexer, out);
    out->kind = DLK_TOKEN_NAME;
    while (lexer->at < lexer->end && is_name_char(*lexer->at))
        lexer->at++;
    out->length = (int)(lexer->at - out->text);
    return DLK_OK;
}

const char *dlk_where(const char *file, int line, int column, char *out)
{
    snprintf(out, 96, "%.60s%sline %d, column %d", file ? file : "", file ? " " : "", line, column);
    return out;
}
