/* Devices: today the host. Memory that the host can read, whoever allocated it, is its own; everything else is named in the
 * error. */
#include "runtime/device.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "base/log.h"
#include "base/options.h"

typedef struct device_row {
    int32_t type;
    const char *name;
    bool is_host; /* its memory is readable by the host */
} device_row;

static const device_row rows[] = {
    {kDLCPU, "cpu", true},
    {kDLCUDA, "cuda", false},
    {kDLCUDAHost, "cuda_host", true},
    {kDLOpenCL, "opencl", false},
    {kDLVulkan, "vulkan", false},
    {kDLMetal, "metal", false},
    {kDLVPI, "vpi", false},
    {kDLROCM, "rocm", false},
    {kDLROCMHost, "rocm_host", true},
    {kDLExtDev, "ext_dev", false},
    {kDLCUDAManaged, "cuda_managed", true},
    {kDLOneAPI, "oneapi", false},
    {kDLWebGPU, "webgpu", false},
    {kDLHexagon, "hexagon", false},
    {kDLMAIA, "maia", false},
    {kDLTrn, "trn", false},
};

/* The LLVM backend may be left out of a build. */
static const dlk_backend *const backends[] = {&dlk_backend_cpu, &dlk_backend_interp};
#define BACKENDS ((int)(sizeof backends / sizeof *backends))

static _Atomic bool is_given_up[BACKENDS];

static const device_row *row_of(int32_t type)
{
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if (rows[i].type == type)
            return &rows[i];
    return NULL;
}

dlk_status dlk_device_check(DLDevice device, dlk_argument argument)
{
    const device_row *row = row_of((int32_t)device.device_type);
    if (row && row->is_host)
        return DLK_OK;
    char index[16] = "";
    if (argument.index >= 0)
        snprintf(index, sizeof index, " %d", argument.index);
    if (!row)
        return dlk_fail(DLK_ERR_DEVICE, "%s%s: device.device_type is %d, which is no known device", argument.role,
                        index, (int)device.device_type);
    return dlk_fail(DLK_ERR_DEVICE,
                    "%s%s: the tensor is on %s:%d; expected memory of the host (cpu, cuda_host, rocm_host, "
                    "cuda_managed)",
                    argument.role, index, row->name, (int)device.device_id);
}

static dlk_status forced_backend(const char *name, const dlk_backend **out, dlk_target *out_target)
{
    for (int i = 0; i < BACKENDS; i++) {
        if (strcmp(backends[i]->name, name) != 0)
            continue;
        DLK_TRY(backends[i]->target(out_target));
        *out = backends[i];
        return DLK_OK;
    }
    return dlk_fail(DLK_ERR_NOT_FOUND, "option backend is '%s'; expected cpu, interp or nothing", name);
}

static dlk_status choose_backend(const dlk_backend **out, dlk_target *out_target)
{
    const char *forced = dlk_option_string(DLK_OPTION_BACKEND);
    if (*forced)
        return forced_backend(forced, out, out_target);
    dlk_status status = DLK_ERR_INTERNAL;
    for (int i = 0; i < BACKENDS; i++) {
        if (atomic_load(&is_given_up[i]))
            continue;
        status = backends[i]->target(out_target);
        if (status == DLK_OK) {
            *out = backends[i];
            return DLK_OK;
        }
    }
    return status;
}

/* The last choice: right until an option changes or a backend is given up. Asking a processor what it has can take longer
 * than all the rest of a plan. */
static struct {
    pthread_mutex_t lock;
    const dlk_backend *backend; /* NULL: nothing chosen yet */
    dlk_target target;
    uint32_t epoch;
} chosen = {.lock = PTHREAD_MUTEX_INITIALIZER};

static void lock_chosen(void)
{
    pthread_mutex_lock(&chosen.lock);
}
static void unlock_chosen(void)
{
    pthread_mutex_unlock(&chosen.lock);
}
/* A fork in the middle of another thread's copy must not leave the child a locked choice. */
static void watch_forks(void)
{
    pthread_atfork(lock_chosen, unlock_chosen, unlock_chosen);
}

static bool recall_backend(uint32_t epoch, const dlk_backend **out, dlk_target *out_target)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, watch_forks);
    pthread_mutex_lock(&chosen.lock);
    const bool is_known = chosen.backend && chosen.epoch == epoch;
    if (is_known) {
        *out = chosen.backend;
        *out_target = chosen.target;
    }
    pthread_mutex_unlock(&chosen.lock);
    return is_known;
}

static void remember_backend(uint32_t epoch, const dlk_backend *backend, const dlk_target *target)
{
    pthread_mutex_lock(&chosen.lock);
    chosen.backend = backend;
    if (target)
        chosen.target = *target;
    chosen.epoch = epoch;
    pthread_mutex_unlock(&chosen.lock);
}

dlk_status dlk_device_backend(const dlk_backend **out, dlk_target *out_target)
{
    const uint32_t epoch = dlk_option_epoch();
    if (recall_backend(epoch, out, out_target))
        return DLK_OK;
    DLK_TRY(choose_backend(out, out_target));
    remember_backend(epoch, *out, out_target);
    return DLK_OK;
}

bool dlk_device_give_up(const dlk_backend *backend, dlk_status why)
{
    const bool is_missing = why == DLK_ERR_NO_LIBRARY || why == DLK_ERR_DRIVER;
    if (!is_missing || backend == &dlk_backend_interp || *dlk_option_string(DLK_OPTION_BACKEND))
        return false;
    for (int i = 0; i < BACKENDS; i++)
        if (backends[i] == backend && !atomic_exchange(&is_given_up[i], true))
            dlk_log(DLK_LOG_WARNING, "backend %s does not work here (%s); using the interpreter", backend->name,
                    dlk_last_error());
    remember_backend(0, NULL, NULL);
    return true;
}

static void describe(const dlk_backend *backend, dlk_device_info *out)
{
    memset(out, 0, sizeof *out);
    out->device = (DLDevice){kDLCPU, 0};
    snprintf(out->backend, sizeof out->backend, "%s", backend->name);
    backend->describe(out);
    dlk_target target;
    if (backend->target(&target) == DLK_OK) {
        out->is_available = 1;
        snprintf(out->target, sizeof out->target, "%s", target.name);
    } else {
        snprintf(out->description, sizeof out->description, "%s", dlk_last_error());
    }
}

dlk_status dlk_device_list(dlk_context *context, dlk_device_info *out, int capacity, int *out_count)
{
    (void)context;
    if (!out_count || capacity < 0 || (capacity && !out))
        return dlk_fail(DLK_ERR_INVALID, "dlk_device_list: out_count is NULL, or out is NULL with a capacity");
    for (int i = 0; i < BACKENDS && i < capacity; i++)
        describe(backends[i], &out[i]);
    *out_count = BACKENDS;
    return DLK_OK;
}
