/* From signature to machine code. Each verb's failure is a status with its message; whatever was made before is released. */
#include "runtime/kernel.h"

#include <string.h>

#include "base/alloc.h"
#include "base/log.h"
#include "base/options.h"
#include "codegen/schedule.h"
#include "runtime/dump.h"

/* Everything up to the source: all of it in the arena. */
static dlk_status build_source(const dlk_backend *backend, const dlk_signature *signature, const dlk_prog *prog,
                               dlk_arena *arena, const dlk_func **out_func, dlk_buffer *out_source)
{
    dlk_func *func;
    dlk_target *target = dlk_arena_copy(arena, &signature->target, sizeof signature->target);
    DLK_TRY(dlk_schedule(prog, &signature->nest, target, arena, &func));
    DLK_TRY(dlk_ir_verify(func));
    DLK_TRY(dlk_passes_run(func));
    *out_source = (dlk_buffer){.arena = arena};
    *out_func = func;
    return backend->emit(func, out_source);
}

/* The same, with a full arena as a status: nothing but the arena's own is held in there. */
dlk_status dlk_kernel_source(const dlk_backend *backend, const dlk_signature *signature, const dlk_prog *prog,
                             dlk_arena *arena, const dlk_func **out_func, dlk_buffer *out_source)
{
    jmp_buf escape, *before = arena->escape;
    arena->escape = &escape;
    dlk_status status;
    if (setjmp(escape))
        status = dlk_fail(DLK_ERR_MEMORY, "out of memory building a kernel");
    else
        status = build_source(backend, signature, prog, arena, out_func, out_source);
    arena->escape = before;
    return status;
}

static dlk_status copy_layout(const dlk_func *func, dlk_arena *arena, dlk_layout *out)
{
    int n = 0;
    for (int i = 0; i < func->n_buffers; i++)
        n += func->buffers[i].space == DLK_SPACE_GLOBAL;
    dlk_buffer_role *roles = DLK_NEW_ARRAY(arena, dlk_buffer_role, n + 1);
    dlk_uniform *uniforms = DLK_NEW_ARRAY(arena, dlk_uniform, func->n_uniforms + 1);
    if (!roles || !uniforms)
        return dlk_fail(DLK_ERR_MEMORY, "out of memory keeping a kernel");
    n = 0;
    for (int i = 0; i < func->n_buffers; i++)
        if (func->buffers[i].space == DLK_SPACE_GLOBAL)
            roles[n++] = func->buffers[i].role;
    if (func->n_uniforms)
        memcpy(uniforms, func->uniforms, sizeof *uniforms * (size_t)func->n_uniforms);
    *out = (dlk_layout){n, func->n_uniforms, roles, uniforms, func->tiling};
    return DLK_OK;
}

static dlk_status compile_and_load(dlk_kernel *kernel, const dlk_target *target, const dlk_func *func,
                                   const dlk_buffer *source)
{
    dlk_image image = {0};
    if (dlk_fail_injected("compile"))
        return dlk_fail(DLK_ERR_COMPILE, "compilation failed on purpose (option FAIL)");
    dlk_status status = kernel->backend->compile(target, source->data, source->size, &image);
    if (status == DLK_OK && dlk_fail_injected("load"))
        status = dlk_fail(DLK_ERR_COMPILE, "loading a kernel failed on purpose (option FAIL)");
    if (status == DLK_OK)
        status = kernel->backend->load(func, &image, &kernel->code);
    dlk_free(image.bytes);
    return status;
}

/* The working arena lives on in the kernel where its code refers to the IR. */
static dlk_status fill_kernel(dlk_kernel *kernel, const dlk_signature *signature, const dlk_prog *prog)
{
    dlk_arena working = {0};
    dlk_arena *arena = kernel->backend->keeps_ir ? &kernel->arena : &working;
    const dlk_func *func = NULL;
    dlk_buffer source = {0};
    dlk_status status = dlk_kernel_source(kernel->backend, signature, prog, arena, &func, &source);
    if (status == DLK_OK)
        status = copy_layout(func, &kernel->arena, &kernel->layout);
    if (status == DLK_OK)
        status = compile_and_load(kernel, func->target, func, &source);
    dlk_arena_free(&working);
    return status;
}

dlk_status dlk_kernel_create(const dlk_backend *backend, const dlk_signature *signature, const dlk_prog *prog,
                             dlk_kernel **out)
{
    dlk_kernel *kernel = dlk_alloc(sizeof *kernel);
    if (!kernel)
        return dlk_fail(DLK_ERR_MEMORY, "out of memory compiling a kernel");
    atomic_init(&kernel->references, 1);
    kernel->backend = backend;
    const dlk_status status = fill_kernel(kernel, signature, prog);
    if (status != DLK_OK) {
        dlk_kernel_release(kernel);
        return status;
    }
    dlk_log(DLK_LOG_INFO, "compiled a kernel for %s %s", backend->name, signature->target.name);
    if (*dlk_option_string(DLK_OPTION_DUMP))
        dlk_dump_kernel(backend, signature, prog);
    *out = kernel;
    return DLK_OK;
}

dlk_kernel *dlk_kernel_hold(dlk_kernel *kernel)
{
    atomic_fetch_add_explicit(&kernel->references, 1, memory_order_relaxed);
    return kernel;
}

void dlk_kernel_release(dlk_kernel *kernel)
{
    if (!kernel || atomic_fetch_sub_explicit(&kernel->references, 1, memory_order_acq_rel) != 1)
        return;
    kernel->backend->unload(kernel->code);
    dlk_arena_free(&kernel->arena);
    dlk_free(kernel);
}
