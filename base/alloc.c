/* The heap behind one door, so that tests can count allocations and make each of them fail. */
#include "base/alloc.h"

#include <stdatomic.h>
#include <stdlib.h>

#include "base/options.h"

static _Atomic uint64_t calls;
static _Atomic int64_t live;

static void *counted(void *block)
{
    if (block) {
        atomic_fetch_add_explicit(&calls, 1, memory_order_relaxed);
        atomic_fetch_add_explicit(&live, 1, memory_order_relaxed);
    }
    return block;
}

void *dlk_alloc(size_t bytes)
{
    if (bytes > PTRDIFF_MAX || dlk_fail_injected("alloc"))
        return NULL;
    return counted(calloc(1, bytes ? bytes : 1));
}

void *dlk_realloc(void *block, size_t bytes)
{
    if (!block)
        return dlk_alloc(bytes);
    if (bytes > PTRDIFF_MAX || dlk_fail_injected("alloc"))
        return NULL;
    void *grown = realloc(block, bytes ? bytes : 1);
    if (grown)
        atomic_fetch_add_explicit(&calls, 1, memory_order_relaxed);
    return grown;
}

void dlk_free(void *block)
{
    if (!block)
        return;
    atomic_fetch_sub_explicit(&live, 1, memory_order_relaxed);
    free(block);
}

void *dlk_alloc_forever(size_t bytes)
{
    return calloc(1, bytes ? bytes : 1);
}

uint64_t dlk_alloc_calls(void)
{
    return atomic_load_explicit(&calls, memory_order_relaxed);
}

int64_t dlk_alloc_live(void)
{
    return atomic_load_explicit(&live, memory_order_relaxed);
}
