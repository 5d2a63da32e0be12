/* What every backend is: four verbs, emit, compile, load, launch, each a function pointer in one struct. The cache, the
 * dumps and the tests are written once against this file; a backend knows neither operations nor other backends.
 *
 *     IR --emit--> source --compile--> image --load--> code --launch--> done
 *
 * An image is plain bytes without addresses, so that it can be kept on disk; code is what runs in this process. */
#ifndef DLK_RUNTIME_BACKEND_H
#define DLK_RUNTIME_BACKEND_H

#include "base/buffer.h"
#include "base/status.h"
#include "codegen/ir.h"

typedef struct dlk_image {
    void *bytes; /* from dlk_alloc; NULL for a backend without images */
    size_t size;
    size_t entry; /* of the kernel, from the start of `bytes` */
} dlk_image;

typedef struct dlk_code dlk_code; /* each backend's own */

/* One launch of one kernel. The kernel covers `items` items; around them the odometer walks n_outer further axes, whose
 * steps move some words of the arguments (addresses mostly) and change nothing else. Steps and items are independent of
 * each other: any order, any thread. */
typedef struct dlk_call {
    const uint64_t *arguments; /* as ir.h lays them out: n_buffers addresses, then the uniforms */
    int n_arguments, n_buffers;
    int64_t items;
    int n_outer;
    const int64_t *outer_extents; /* n_outer, outermost first */
    const uint16_t *moving;       /* n_moving: the words that move */
    int n_moving;
    const int64_t *outer_moves; /* what one step along an outer axis adds to each: n_outer rows of n_moving */
    int64_t outer_steps;        /* product of outer_extents; 1 when there are none */
    int threads;                /* that are worth waking, the caller's included; 1: run here */
    void *stream;               /* of the device; NULL: its default */
} dlk_call;

typedef struct dlk_backend {
    const char *name; /* "cpu", "interp": option BACKEND, dumps, dlk_device_list */
    bool keeps_ir;    /* code refers to the function it was loaded from: the cache keeps the IR's arena alive */
    /* What kernels are made for here and now (the options may change it); fails when this backend cannot work, with a
     * message that says what is missing. Cheap when nothing has changed: called for every new plan. */
    dlk_status (*target)(dlk_target *out);
    dlk_status (*emit)(const dlk_func *func, dlk_buffer *out);
    dlk_status (*compile)(const dlk_target *target, const char *source, size_t bytes, dlk_image *out);
    /* `image` stays the caller's. */
    dlk_status (*load)(const dlk_func *func, const dlk_image *image, dlk_code **out);
    dlk_status (*launch)(const dlk_code *code, const dlk_call *call);
    void (*unload)(dlk_code *code); /* NULL is a no-op */
    /* Assembly of a source, for people; NULL: there is none. */
    dlk_status (*listing)(const dlk_target *target, const char *source, size_t bytes, dlk_buffer *out);
    /* Fills in name and description. */
    void (*describe)(dlk_device_info *out);
} dlk_backend;

/* ORDER BACKEND: the order in which CPU tensors are offered; the first whose target() succeeds runs them. */
extern const dlk_backend dlk_backend_cpu;    /* LLVM */
extern const dlk_backend dlk_backend_interp; /* always there */

/* For backends that run on the host: cuts a call into ranges, gives them to the thread pool, and calls `run` for each with
 * arguments whose addresses are already moved: items [first, end) of one step of the odometer. */
typedef dlk_status (*dlk_run_items)(const dlk_code *code, const uint64_t *arguments, int64_t first, int64_t end);
dlk_status dlk_call_run(const dlk_call *call, dlk_run_items run, const dlk_code *code);

#endif
