/* 128-bit hashes (XXH3) of keys and texts. */
#ifndef DLK_BASE_HASH_H
#define DLK_BASE_HASH_H

#include <stddef.h>
#include <stdint.h>

typedef struct dlk_hash {
    uint64_t lo, hi;
} dlk_hash;

dlk_hash dlk_hash_of(const void *data, size_t bytes);
uint64_t dlk_hash64_of(const void *data, size_t bytes);

#endif
