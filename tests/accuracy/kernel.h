/* A unary operation as a kernel on a block of numbers, for an instruction set of choice: x86-64-v2 has no fma, so that mad
 * rounds twice there; from v3 on it rounds once. */
#ifndef DLK_TESTS_ACCURACY_KERNEL_H
#define DLK_TESTS_ACCURACY_KERNEL_H

#include <stdbool.h>
#include <string.h>

#include "dlk/dlk.h"

enum { KERNEL_BLOCK = 1 << 16 };

typedef struct kernel {
    dlk_context *context;
    dlk_plan *plan;
    int64_t count;
} kernel;

/* `target`: an instruction set, or "interp". Fails where the machine has not got it. */
static inline dlk_status kernel_open(kernel *k, const char *operation, int bits, int64_t count, const char *target)
{
    const bool interpret = strcmp(target, "interp") == 0;
    const dlk_op *op;
    *k = (kernel){.count = count};
    dlk_status status = dlk_option_set(interpret ? "backend" : "cpu_target", target);
    if (status == DLK_OK && !interpret)
        status = dlk_option_set("backend", "cpu");
    if (status == DLK_OK)
        status = dlk_context_create(&k->context);
    if (status == DLK_OK)
        status = dlk_find(k->context, operation, &op);
    if (status == DLK_OK) {
        const DLTensor x = {
            .device = {kDLCPU, 0}, .ndim = 1, .dtype = {kDLFloat, (uint8_t)bits, 1}, .shape = &k->count};
        const dlk_input in = {.tensor = &x};
        const dlk_output out = {.tensor = &x};
        status = dlk_plan_create(k->context, op, &in, 1, &out, 1, NULL, &k->plan);
    }
    dlk_option_set("backend", NULL);
    dlk_option_set("cpu_target", NULL);
    return status;
}

static inline dlk_status kernel_run(const kernel *k, const void *x, void *y)
{
    void *in[1] = {(void *)(uintptr_t)x}, *out[1] = {y};
    return dlk_plan_run(k->plan, in, out);
}

static inline void kernel_close(kernel *k)
{
    dlk_plan_destroy(k->plan);
    dlk_context_destroy(k->context);
}

#endif
