/* Memory of results and scratch: a pool, because new pages cost more than most kernels. Blocks are kept by size class and
 * given out again, warmest first; what the pool keeps at the most is option POOL_MAX. */
#ifndef DLK_RUNTIME_MEMORY_H
#define DLK_RUNTIME_MEMORY_H

#include "base/status.h"

#define DLK_DATA_ALIGN 64 /* bytes: a cache line, and the widest vector */

/* A tensor with dense storage for `elements_bytes` bytes, aligned to DLK_DATA_ALIGN (data is NULL when there are none).
 * Struct, shape and strides lie in the same block as the data; its deleter gives the block back, from any thread. */
dlk_status dlk_memory_tensor(DLDataType dtype, DLDevice device, int ndim, const int64_t *shape, const int64_t *strides,
                             int64_t data_bytes, DLManagedTensorVersioned **out);

/* Scratch for one launch, aligned as tensors; NULL when out of memory. */
void *dlk_memory_scratch(int64_t bytes);
void dlk_memory_scratch_free(void *scratch); /* NULL is a no-op */

/* Gives all unused blocks back to the system. */
void dlk_memory_trim(void);
/* Fills in the counters that this file keeps: results, result_maps, pool_bytes, live_bytes. */
void dlk_memory_count(dlk_counters *out);

#endif
