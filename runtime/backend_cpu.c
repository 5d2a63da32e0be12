/* The CPU backend: LLVM text, compiled by libdlk-llvm, loaded as a flat image, run by the thread pool. */
#include <limits.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#ifdef __SSE__
#    include <xmmintrin.h>
#endif

#include "base/alloc.h"
#include "base/lock.h"
#include "base/options.h"
#include "base/os.h"
#include "codegen/emit.h"
#include "runtime/backend.h"
#include "runtime/code.h"
#include "runtime/cpu_target.h"
#include "runtime/llvm_module.h"
#include "runtime/pool.h"

typedef void (*kernel_function)(const uint64_t *arguments, int64_t first, int64_t end);

struct dlk_code {
    kernel_function run;
    dlk_code_block block;
};

/* ---- The compiler module ---- */

/* Held while the module is opened and while it compiles for the first time, when LLVM makes its tables: a child forked in
 * the middle of either would find them half made. */
DLK_STATIC_LOCK(module_lock);
static _Atomic bool module_is_warm;
static pthread_once_t module_once = PTHREAD_ONCE_INIT;
static dlk_llvm_compile_function module_compile; /* NULL: not to be had */
static char module_path[PATH_MAX + 32];

static void find_module_path(void)
{
    const char *given = dlk_option_string(DLK_OPTION_LLVM_MODULE);
    char folder[PATH_MAX];
    if (*given)
        snprintf(module_path, sizeof module_path, "%s", given);
    else if (dlk_os_folder_of((const void *)find_module_path, folder, sizeof folder))
        snprintf(module_path, sizeof module_path, "%s/libdlk-llvm.so", folder);
    else
        snprintf(module_path, sizeof module_path, "libdlk-llvm.so");
}

static void open_module(void)
{
    find_module_path();
    dlk_lock_take(&module_lock);
    void *library = dlk_os_library_open(module_path);
    void *symbol = library ? dlk_os_library_symbol(library, DLK_LLVM_COMPILE_NAME) : NULL;
    memcpy(&module_compile, &symbol, sizeof module_compile);
    dlk_lock_give(&module_lock);
}

static dlk_status need_module(void)
{
    pthread_once(&module_once, open_module);
    if (module_compile)
        return DLK_OK;
    return dlk_fail(DLK_ERR_NO_LIBRARY,
                    "the compiler module '%s' cannot be opened: option llvm_module says where it lies", module_path);
}

static int call_module(const dlk_llvm_request *request, dlk_llvm_answer *answer)
{
    if (atomic_load_explicit(&module_is_warm, memory_order_acquire))
        return module_compile(request, answer);
    dlk_lock_take(&module_lock);
    const int failed = module_compile(request, answer);
    atomic_store_explicit(&module_is_warm, true, memory_order_release);
    dlk_lock_give(&module_lock);
    return failed;
}

static dlk_status ask_module(const dlk_target *target, const char *source, size_t bytes, bool listing,
                             dlk_llvm_answer *answer)
{
    DLK_TRY(need_module());
    const dlk_llvm_request request = {.size = sizeof request,
                                      .text = source,
                                      .text_bytes = bytes,
                                      .cpu = target->name,
                                      .features = "",
                                      .want_listing = listing,
                                      .allocate = dlk_alloc,
                                      .release = dlk_free};
    if (call_module(&request, answer) != 0)
        return dlk_fail(DLK_ERR_COMPILE, "%s: %s", target->name, answer->error);
    return DLK_OK;
}

/* ---- The verbs ---- */

static dlk_status cpu_target(dlk_target *out)
{
    DLK_TRY(dlk_cpu_target(dlk_option_string(DLK_OPTION_CPU_TARGET), out));
    return need_module();
}

static dlk_status cpu_compile(const dlk_target *target, const char *source, size_t bytes, dlk_image *out)
{
    dlk_llvm_answer answer;
    if (dlk_fail_injected("compile"))
        return dlk_fail(DLK_ERR_COMPILE, "a compile failed on purpose: option fail");
    DLK_TRY(ask_module(target, source, bytes, false, &answer));
    *out = (dlk_image){answer.bytes, answer.size, answer.entry};
    return DLK_OK;
}

static dlk_status cpu_load(const dlk_func *func, const dlk_image *image, dlk_code **out)
{
    (void)func;
    dlk_code *code = dlk_alloc(sizeof *code);
    if (!code)
        return dlk_fail(DLK_ERR_MEMORY, "out of memory loading a kernel");
    const dlk_status status = dlk_fail_injected("load")
                                  ? dlk_fail(DLK_ERR_UNSUPPORTED, "a load failed on purpose: option fail")
                                  : dlk_code_load(image->bytes, image->size, &code->block);
    if (status != DLK_OK) {
        dlk_free(code);
        return status;
    }
    void *entry = (char *)code->block.address + image->entry;
    memcpy(&code->run, &entry, sizeof entry);
    *out = code;
    return DLK_OK;
}

/* Kernels round to nearest and keep subnormals whatever the caller's thread does. */
static dlk_status run_items(const dlk_code *code, const uint64_t *arguments, int64_t first, int64_t end)
{
#ifdef __SSE__
    const unsigned caller = _mm_getcsr(), standard = 0x1f80;
    if ((caller & ~0x3fu) != standard)
        _mm_setcsr(standard);
    code->run(arguments, first, end);
    if ((caller & ~0x3fu) != standard)
        _mm_setcsr(caller);
#else
    code->run(arguments, first, end);
#endif
    return DLK_OK;
}

static dlk_status cpu_launch(const dlk_code *code, const dlk_call *call)
{
    return dlk_call_run(call, run_items, code);
}

static void cpu_unload(dlk_code *code)
{
    if (!code)
        return;
    dlk_code_unload(code->block);
    dlk_free(code);
}

static dlk_status cpu_listing(const dlk_target *target, const char *source, size_t bytes, dlk_buffer *out)
{
    dlk_llvm_answer answer;
    DLK_TRY(ask_module(target, source, bytes, true, &answer));
    dlk_buffer_append(out, answer.bytes, answer.size);
    dlk_free(answer.bytes);
    return DLK_OK;
}

static void cpu_describe(dlk_device_info *out)
{
    char name[64];
    dlk_cpu_name(name, sizeof name);
    snprintf(out->name, sizeof out->name, "%s", name);
    snprintf(out->description, sizeof out->description, "%d threads, last-level cache %lld KiB", dlk_pool_threads(),
             (long long)dlk_os_cache_bytes() / 1024);
}

const dlk_backend dlk_backend_cpu = {
    .name = "cpu",
    .target = cpu_target,
    .emit = dlk_emit_llvm,
    .compile = cpu_compile,
    .load = cpu_load,
    .launch = cpu_launch,
    .unload = cpu_unload,
    .listing = cpu_listing,
    .describe = cpu_describe,
};
