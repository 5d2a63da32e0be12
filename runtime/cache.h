/* What one context keeps for good: kernels by signature, and scalar programs by definition and dtypes. Sharded, so that
 * threads with different kernels do not meet; a kernel that several threads want at once is compiled by one of them. */
#ifndef DLK_RUNTIME_CACHE_H
#define DLK_RUNTIME_CACHE_H

#include "kernels/build.h"
#include "runtime/kernel.h"

typedef struct dlk_cache dlk_cache;

dlk_cache *dlk_cache_create(void); /* NULL when out of memory */
void dlk_cache_destroy(dlk_cache *cache);

/* The kernel of a signature, compiled from `prog` when there is none yet. The caller gets a reference. */
dlk_status dlk_cache_kernel(dlk_cache *cache, const dlk_backend *backend, const dlk_signature *signature,
                            const dlk_prog *prog, dlk_kernel **out);

typedef struct dlk_program { /* a typed definition */
    _Atomic int references;
    dlk_arena arena;
    dlk_hash closure; /* of the definition */
    dlk_build_request request;
    dlk_hash hash; /* of both: part of the signatures */
    dlk_built built;
    struct dlk_program *next;
} dlk_program;

/* The program of a definition for given dtypes and kinds, built when there is none yet. The caller gets a reference. */
dlk_status dlk_cache_program(dlk_cache *cache, const dlk_op_version *op, const dlk_build_request *request,
                             dlk_program **out);
void dlk_program_release(dlk_program *program); /* NULL is a no-op */

/* Forgets everything; what is in use lives on until it is released. */
void dlk_cache_forget(dlk_cache *cache);
uint64_t dlk_cache_epoch(const dlk_cache *cache); /* changes with every forgetting */
/* Fills in kernel_hits, compiles, compile_waits, compile_ns, kernels. */
void dlk_cache_count(dlk_cache *cache, dlk_counters *out);

#endif
