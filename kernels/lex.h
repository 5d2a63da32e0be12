/* Tokens of definition text. */
#ifndef DLK_KERNELS_LEX_H
#define DLK_KERNELS_LEX_H

#include "base/arena.h"
#include "base/status.h"

#include <stdbool.h>

typedef enum dlk_token_kind {
    DLK_TOKEN_END,
    DLK_TOKEN_NAME,
    DLK_TOKEN_NUMBER,
    DLK_TOKEN_SIGN /* punctuation and operators, one or two characters */
} dlk_token_kind;

typedef struct dlk_token {
    dlk_token_kind kind;
    const char *text; /* in the source */
    int length;
    int line, column; /* from 1; columns count bytes */
    bool is_float;    /* NUMBER: written with a point or an exponent */
} dlk_token;

typedef struct dlk_lexer {
    const char *file; /* NULL: the user's own text */
    const char *at, *end;
    const char *line_start;
    int line;
    const char *doc, *doc_end; /* the `##` lines right above where the lexer stands, or NULL */
} dlk_lexer;

void dlk_lexer_make(dlk_lexer *lexer, const char *file, const char *text, size_t bytes);
/* DLK_ERR_SYNTAX where no token can begin, or a number is not one. */
dlk_status dlk_lexer_next(dlk_lexer *lexer, dlk_token *out);

/* "math.dlk line 3, column 7", or without the file; into `out` of at least 96 bytes; returns out. */
const char *dlk_where(const char *file, int line, int column, char *out);

#endif
