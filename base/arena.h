/* Memory that lives as long as one unit of work (one compile, one parse) and is freed all at once.
 *
 * Out of memory: code that builds syntax trees, scalar programs and IR does not check each allocation. The entry of
 * the unit of work declares a jmp_buf, stores it in `escape`, and a failed allocation jumps there. Between the two
 * nothing may be held that the arena does not own. */
#ifndef DLK_BASE_ARENA_H
#define DLK_BASE_ARENA_H

#include <setjmp.h>
#include <stddef.h>

typedef struct dlk_arena_chunk dlk_arena_chunk;

typedef struct dlk_arena {
    dlk_arena_chunk *head; /* newest chunk, linked to older ones; NULL when nothing was allocated */
    jmp_buf *escape;       /* where a failed allocation goes; NULL: it returns NULL */
} dlk_arena;

/* Zeroed memory aligned to 16 bytes. */
void *dlk_arena_alloc(dlk_arena *arena, size_t bytes);
/* A copy of `bytes` bytes. */
void *dlk_arena_copy(dlk_arena *arena, const void *data, size_t bytes);
char *dlk_arena_printf(dlk_arena *arena, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* Frees everything; the arena is empty and usable again. */
void dlk_arena_free(dlk_arena *arena);

#define DLK_NEW(arena, type)          ((type *)dlk_arena_alloc((arena), sizeof(type)))
#define DLK_NEW_ARRAY(arena, type, n) ((type *)dlk_arena_alloc((arena), sizeof(type) * (size_t)(n)))

/* Makes room for element `n` (0-based) in an arena array of `*cap` elements; the old array is left to the arena. */
void *dlk_arena_grow(dlk_arena *arena, void *array, int n, int *cap, size_t elem_bytes);
#define DLK_PUSH(arena, array, n, cap) \
    ((array) = dlk_arena_grow((arena), (array), (n), &(cap), sizeof *(array)), &(array)[(n)++])

#endif
