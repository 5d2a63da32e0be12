/* Executable memory: images become callable. Memory is never writable and executable at once. Kernels lie one behind the
 * other in large regions, so that thousands of them are few mappings. */
#ifndef DLK_RUNTIME_CODE_H
#define DLK_RUNTIME_CODE_H

#include "base/status.h"

typedef struct dlk_code_block { /* one image in place */
    void *address;
    size_t bytes; /* whole pages */
} dlk_code_block;

/* Copies `size` bytes to fresh pages and makes them executable. Thread-safe. DLK_ERR_DRIVER when the system refuses
 * executable memory. */
dlk_status dlk_code_load(const void *image, size_t size, dlk_code_block *out);
/* Gives the pages back. No thread may be in the code. */
void dlk_code_unload(dlk_code_block block);

#endif
