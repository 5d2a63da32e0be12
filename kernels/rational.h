/* Exact rational numbers, what literals are until they meet a type: so that a constant is rounded once, to the type it is
 * used in, whatever was computed from it before. */
#ifndef DLK_KERNELS_RATIONAL_H
#define DLK_KERNELS_RATIONAL_H

#include "base/arena.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define DLK_RATIONAL_LIMBS_MAX 256 /* of numerator and denominator: 8192 bits */

typedef struct dlk_natural {
    const uint32_t *limb; /* least significant first; the last is not 0 */
    int n;                /* 0: zero */
} dlk_natural;

typedef struct dlk_rational {
    bool is_negative;                   /* may be set for zero: -0.0 */
    dlk_natural numerator, denominator; /* not reduced; the denominator is not 0 */
} dlk_rational;

/* All of these give false when the result needs more limbs than there may be, or is a division by zero. */
bool dlk_rational_add(dlk_arena *arena, dlk_rational a, dlk_rational b, dlk_rational *out);
bool dlk_rational_multiply(dlk_arena *arena, dlk_rational a, dlk_rational b, dlk_rational *out);
bool dlk_rational_divide(dlk_arena *arena, dlk_rational a, dlk_rational b, dlk_rational *out);

/* The number written in `text`: decimal ("12", "1.5e-3"), a hexadecimal integer ("0xff") or a hexadecimal float
 * ("0x1.8p3"), without sign. The text must have that form already. */
bool dlk_rational_parse(dlk_arena *arena, const char *text, size_t length, dlk_rational *out);

dlk_rational dlk_rational_negate(dlk_rational a);
bool dlk_rational_is_zero(dlk_rational a);
int dlk_rational_compare(dlk_arena *arena, dlk_rational a, dlk_rational b); /* -1, 0, 1; both within the limbs */

/* The magnitude as an integer; false when it is none, or 2^64 or more. */
bool dlk_rational_to_u64(dlk_arena *arena, dlk_rational a, uint64_t *out);
/* Bits of the nearest float64 or float32, ties to even, infinity from where IEEE 754 has it. */
uint64_t dlk_rational_to_f64(dlk_arena *arena, dlk_rational a);
uint32_t dlk_rational_to_f32(dlk_arena *arena, dlk_rational a);

#endif
