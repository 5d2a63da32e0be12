/* A growing text, owned by an arena: what printers print into. */
#ifndef DLK_BASE_BUFFER_H
#define DLK_BASE_BUFFER_H

#include "base/arena.h"

typedef struct dlk_buffer {
    dlk_arena *arena;
    char *data;  /* NUL-terminated once something was appended; NULL before */
    size_t size; /* bytes, without the NUL */
    size_t capacity;
} dlk_buffer;

void dlk_buffer_append(dlk_buffer *buffer, const void *data, size_t bytes);
void dlk_buffer_puts(dlk_buffer *buffer, const char *text);
void dlk_buffer_printf(dlk_buffer *buffer, const char *format, ...) __attribute__((format(printf, 2, 3)));

#endif
