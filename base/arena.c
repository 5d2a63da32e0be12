/* Chunks of memory in a list, newest first. Chunks double up to a limit, so that a small unit of work costs one heap
 * call and a large one costs few. */
#include "base/arena.h"

#include <limits.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"

#define ALIGNMENT         16
#define FIRST_CHUNK_BYTES ((size_t)4 << 10)
#define LAST_CHUNK_BYTES  ((size_t)1 << 20)

struct dlk_arena_chunk {
    dlk_arena_chunk *older;
    size_t used, capacity; /* bytes of data */
    _Alignas(ALIGNMENT) char data[];
};

static void *give_up(const dlk_arena *arena)
{
    if (arena->escape)
        longjmp(*arena->escape, 1);
    return NULL;
}

static size_t next_capacity(const dlk_arena *arena, size_t bytes)
{
    size_t capacity = arena->head ? arena->head->capacity * 2 : FIRST_CHUNK_BYTES;
    if (capacity > LAST_CHUNK_BYTES)
        capacity = LAST_CHUNK_BYTES;
    return bytes > capacity ? bytes : capacity;
}

static dlk_arena_chunk *add_chunk(dlk_arena *arena, size_t bytes)
{
    const size_t capacity = next_capacity(arena, bytes);
    dlk_arena_chunk *chunk = dlk_alloc(sizeof *chunk + capacity);
    if (!chunk)
        return NULL;
    chunk->older = arena->head;
    chunk->capacity = capacity;
    arena->head = chunk;
    return chunk;
}

void *dlk_arena_alloc(dlk_arena *arena, size_t bytes)
{
    if (bytes > SIZE_MAX / 2) /* also what a negative count becomes */
        return give_up(arena);
    const size_t taken = bytes ? (bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT : ALIGNMENT;
    dlk_arena_chunk *chunk = arena->head;
    if (!chunk || chunk->capacity - chunk->used < taken)
        chunk = add_chunk(arena, taken);
    if (!chunk)
        return give_up(arena);
    void *block = chunk->data + chunk->used;
    chunk->used += taken;
    return block;
}

void *dlk_arena_copy(dlk_arena *arena, const void *data, size_t bytes)
{
    void *block = dlk_arena_alloc(arena, bytes);
    if (block && bytes)
        memcpy(block, data, bytes);
    return block;
}

char *dlk_arena_printf(dlk_arena *arena, const char *format, ...)
{
    va_list args, again;
    va_start(args, format);
    va_copy(again, args);
    const int length = vsnprintf(NULL, 0, format, args);
    va_end(args);
    char *text = length < 0 ? NULL : dlk_arena_alloc(arena, (size_t)length + 1);
    if (text)
        vsnprintf(text, (size_t)length + 1, format, again);
    va_end(again);
    return text;
}

void dlk_arena_free(dlk_arena *arena)
{
    for (dlk_arena_chunk *chunk = arena->head, *older; chunk; chunk = older) {
        older = chunk->older;
        dlk_free(chunk);
    }
    arena->head = NULL;
}

void *dlk_arena_grow(dlk_arena *arena, void *array, int n, int *cap, size_t elem_bytes)
{
    if (n < *cap)
        return array;
    if (n > INT_MAX / 2 || (size_t)n > SIZE_MAX / 4 / elem_bytes)
        return give_up(arena);
    const int wanted = n < 4 ? 8 : n * 2;
    void *grown = dlk_arena_alloc(arena, (size_t)wanted * elem_bytes);
    if (!grown)
        return NULL;
    if (n > 0)
        memcpy(grown, array, (size_t)n * elem_bytes);
    *cap = wanted;
    return grown;
}
