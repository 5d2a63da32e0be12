/* A compiled kernel, and how a signature becomes one: schedule, passes, emit, compile, load. */
#ifndef DLK_RUNTIME_KERNEL_H
#define DLK_RUNTIME_KERNEL_H

#include <stdatomic.h>

#include "kernels/plan.h"
#include "runtime/backend.h"

typedef struct dlk_kernel {
    _Atomic int references;
    const dlk_backend *backend;
    dlk_code *code;
    dlk_layout layout;
    dlk_arena arena; /* the layout; the IR where the backend keeps it */
} dlk_kernel;

/* One reference is the caller's. */
dlk_status dlk_kernel_create(const dlk_backend *backend, const dlk_signature *signature, const dlk_prog *prog,
                             dlk_kernel **out);
dlk_kernel *dlk_kernel_hold(dlk_kernel *kernel);
void dlk_kernel_release(dlk_kernel *kernel); /* NULL is a no-op */

/* Everything up to the source; in the arena, whose being full is a status. */
dlk_status dlk_kernel_source(const dlk_backend *backend, const dlk_signature *signature, const dlk_prog *prog,
                             dlk_arena *arena, const dlk_func **out_func, dlk_buffer *out_source);

#endif
