/* XXH3 from xxHash's header, compiled in: nothing is linked for it. */
#define XXH_INLINE_ALL
#define XXH_NO_STREAM
#include "base/hash.h"

#include <xxhash.h>

dlk_hash dlk_hash_of(const void *data, size_t bytes)
{
    const XXH128_hash_t hash = XXH3_128bits(data, bytes);
    return (dlk_hash){.lo = hash.low64, .hi = hash.high64};
}

uint64_t dlk_hash64_of(const void *data, size_t bytes)
{
    return XXH3_64bits(data, bytes);
}
