/* Inputs at which elementary functions are tried: the edges, and random numbers of every size. */
#ifndef DLK_TESTS_ACCURACY_POINTS_H
#define DLK_TESTS_ACCURACY_POINTS_H

#include <math.h>
#include <stdint.h>
#include <string.h>

static inline uint64_t points_random(uint64_t *state) /* splitmix64 */
{
    uint64_t z = *state += 0x9e3779b97f4a7c15u;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return z ^ z >> 31;
}

/* Where functions bend: zero, subnormals, 1, thresholds of overflow, underflow and saturation, multiples of pi / 2. */
static const double points_edges[] = {0.0,
                                      0x1p-1074,
                                      0x1p-1023,
                                      0x1p-1022,
                                      0x1p-149,
                                      0x1p-126,
                                      0x1p-54,
                                      0x1p-53,
                                      0x1p-30,
                                      0x1p-25,
                                      0x1p-24,
                                      0x1p-12,
                                      0.1,
                                      0.25,
                                      0x1.62e42fefa39efp-2,
                                      0.5,
                                      0.55,
                                      0x1.62e42fefa39efp-1,
                                      0.7071067811865476,
                                      1.0,
                                      1.4142135623730951,
                                      2.0,
                                      3.0,
                                      1.5707963267948966,
                                      3.141592653589793,
                                      4.0,
                                      4.71238898038469,
                                      6.283185307179586,
                                      7.0,
                                      8.664339756999316,
                                      9.0,
                                      10.0,
                                      12.0,
                                      15.0,
                                      17.0,
                                      18.0,
                                      18.5,
                                      19.0,
                                      20.0,
                                      36.04365338911715,
                                      37.0,
                                      37.5,
                                      38.0,
                                      38.4,
                                      38.6,
                                      39.0,
                                      50.0,
                                      80.0,
                                      87.0,
                                      87.33654475,
                                      88.0,
                                      88.72283905206835,
                                      89.0,
                                      90.0,
                                      100.0,
                                      103.27892990343185,
                                      103.972,
                                      104.0,
                                      105.0,
                                      120.0,
                                      150.0,
                                      500.0,
                                      700.0,
                                      708.3964185322641,
                                      709.782712893384,
                                      710.0,
                                      720.0,
                                      744.4400719213812,
                                      745.1332191019411,
                                      745.2,
                                      746.0,
                                      750.0,
                                      760.0,
                                      1000.0,
                                      1e6,
                                      1e9,
                                      0x1p52,
                                      0x1p53,
                                      0x1p62,
                                      0x1p63,
                                      0x1p64,
                                      0x1p127,
                                      0x1.fffffep127,
                                      0x1p1023,
                                      0x1.fffffffffffffp1023,
                                      INFINITY};
enum { POINTS_EDGES = sizeof points_edges / sizeof points_edges[0] };

/* Point number i: around the edges first, then by turns any bit pattern, any size up to 2^11, and up to 50. */
static inline double points_f64(uint64_t i, uint64_t *state)
{
    if (i < (uint64_t)POINTS_EDGES * 64) {
        uint64_t bits;
        memcpy(&bits, &points_edges[i / 64], sizeof bits);
        bits += (i / 2 & 31) - (bits >= 16 ? 16 : 0);
        bits |= (i & 1) << 63;
        double x;
        memcpy(&x, &bits, sizeof x);
        return x;
    }
    const uint64_t r = points_random(state);
    double x;
    if (i % 4 == 0) {
        memcpy(&x, &r, sizeof x);
    } else if (i % 4 == 1) {
        const uint64_t bits = (r & 0x800fffffffffffff) | (uint64_t)(1023 - 60 + points_random(state) % 71) << 52;
        memcpy(&x, &bits, sizeof x);
    } else {
        const double unit = (double)(int64_t)r * 0x1p-63;
        x = unit * (i % 4 == 2 ? 50 : 1);
    }
    return x;
}

#endif
