/* The one seam to the heap: counted, and able to fail on purpose (option DLK_FAIL=alloc:N, for tests).
 * `malloc` and its kin appear in alloc.c alone. */
#ifndef DLK_BASE_ALLOC_H
#define DLK_BASE_ALLOC_H

#include <stddef.h>
#include <stdint.h>

void *dlk_alloc(size_t bytes); /* zeroed; NULL when out of memory */
/* The old block lives on when this is NULL; bytes beyond the old size are not zeroed. */
void *dlk_realloc(void *block, size_t bytes);
void dlk_free(void *block); /* NULL is a no-op */
/* For what is kept until the process ends and stays reachable: neither counted nor made to fail. */
void *dlk_alloc_forever(size_t bytes);

uint64_t dlk_alloc_calls(void); /* allocations since start, for the test that a warm launch makes none */
int64_t dlk_alloc_live(void);   /* blocks not yet freed */

/* a * b, a + b and a - b for sizes; false on overflow. */
static inline _Bool dlk_mul_i64(int64_t a, int64_t b, int64_t *out)
{
    return !__builtin_mul_overflow(a, b, out);
}
static inline _Bool dlk_add_i64(int64_t a, int64_t b, int64_t *out)
{
    return !__builtin_add_overflow(a, b, out);
}
static inline _Bool dlk_sub_i64(int64_t a, int64_t b, int64_t *out)
{
    return !__builtin_sub_overflow(a, b, out);
}

#endif
