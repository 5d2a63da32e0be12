/* What fuzz targets share: a target is one LLVMFuzzerTestOneInput, which libFuzzer or driver.c calls with bytes. */
#ifndef DLK_TESTS_FUZZ_FUZZ_H
#define DLK_TESTS_FUZZ_FUZZ_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* A target that finds a wrong answer stops the program, as a crash would, so that the fuzzer keeps the input. */
#define FUZZ_CHECK(condition)                                                       \
    do {                                                                            \
        if (!(condition)) {                                                         \
            fprintf(stderr, "%s:%d: failed: %s\n", __FILE__, __LINE__, #condition); \
            abort();                                                                \
        }                                                                           \
    } while (0)

/* Bytes as decisions: each call takes some; when there are none left, everything is 0. */
typedef struct fuzz_bytes {
    const uint8_t *at;
    size_t left;
} fuzz_bytes;

static inline uint8_t fuzz_byte(fuzz_bytes *in)
{
    if (!in->left)
        return 0;
    in->left--;
    return *in->at++;
}

static inline uint64_t fuzz_word(fuzz_bytes *in)
{
    uint64_t word = 0;
    for (int i = 0; i < 8; i++)
        word = word << 8 | fuzz_byte(in);
    return word;
}

/* A number from 0 to n - 1. */
static inline int fuzz_choice(fuzz_bytes *in, int n)
{
    return fuzz_byte(in) % n;
}

/* Mostly small, sometimes at an edge, sometimes anything. */
static inline int64_t fuzz_int(fuzz_bytes *in)
{
    static const int64_t edges[] = {INT64_MAX,           INT64_MIN,           INT64_C(1) << 32,  -(INT64_C(1) << 31),
                                    INT64_C(1) << 62,    -(INT64_C(1) << 62), INT64_MAX / 2 + 1, (INT64_C(1) << 31) - 1,
                                    INT64_C(4294967295), INT64_C(1000000007)};
    const uint8_t byte = fuzz_byte(in);
    if (byte < 224)
        return byte % 16 - 3;
    if (byte < 232)
        return (int64_t)fuzz_word(in);
    return edges[(size_t)byte % (sizeof edges / sizeof *edges)];
}

#endif
