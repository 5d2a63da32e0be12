/* The interpreter as a backend: nothing to compile or load, slow and right. The oracle of the tests, and the answer where
 * no compiler or no executable memory is to be had. */
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "codegen/interpret.h"
#include "runtime/backend.h"

struct dlk_code {
    const dlk_func *func; /* borrowed: the cache keeps it (keeps_ir) */
};

static dlk_status interp_target(dlk_target *out)
{
    memset(out, 0, sizeof *out);
    snprintf(out->name, sizeof out->name, "interp");
    out->family = DLK_TARGET_CPU;
    out->vector_bytes = 32;
    out->registers = 16;
    out->fast_fma = 1;
    out->has_fma = 1;
    out->has_f16c = 1;
    out->masked_bytes = 1 | 2 | 4 | 8;
    out->subgroup = 1;
    out->index_bits = 64;
    out->has_f64 = 1;
    out->has_i64 = 1;
    return DLK_OK;
}

static dlk_status interp_emit(const dlk_func *func, dlk_buffer *out)
{
    dlk_ir_print(func, out);
    return DLK_OK;
}

static dlk_status interp_compile(const dlk_target *target, const char *source, size_t bytes, dlk_image *out)
{
    (void)target, (void)source, (void)bytes;
    memset(out, 0, sizeof *out);
    return DLK_OK;
}

static dlk_status interp_load(const dlk_func *func, const dlk_image *image, dlk_code **out)
{
    (void)image;
    dlk_code *code = dlk_alloc(sizeof *code);
    if (!code)
        return dlk_fail(DLK_ERR_MEMORY, "out of memory loading a kernel");
    code->func = func;
    *out = code;
    return DLK_OK;
}

static dlk_status run_items(const dlk_code *code, const uint64_t *arguments, int64_t first, int64_t end)
{
    return dlk_interpret(code->func, arguments, first, end);
}

static dlk_status interp_launch(const dlk_code *code, const dlk_call *call)
{
    return dlk_call_run(call, run_items, code);
}

static void interp_unload(dlk_code *code)
{
    dlk_free(code);
}

static void interp_describe(dlk_device_info *out)
{
    snprintf(out->name, sizeof out->name, "interpreter");
    snprintf(out->description, sizeof out->description, "runs the IR itself: slow, needs no compiler");
}

const dlk_backend dlk_backend_interp = {
    .name = "interp",
    .keeps_ir = true,
    .target = interp_target,
    .emit = interp_emit,
    .compile = interp_compile,
    .load = interp_load,
    .launch = interp_launch,
    .unload = interp_unload,
    .describe = interp_describe,
};
