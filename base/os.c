/* Linux and glibc: pages, processors, time, libraries opened at run time. */
#define _GNU_SOURCE
#include "base/os.h"

#include <dlfcn.h>
#include <limits.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "base/options.h"

#define HUGE_BYTES          ((size_t)2 << 20)
#define UNKNOWN_CACHE_BYTES ((int64_t)32 << 20)
#define CORES_AT_MOST       65536

static int count_affinity(int cores)
{
    cpu_set_t *set = CPU_ALLOC((size_t)cores);
    const size_t bytes = CPU_ALLOC_SIZE((size_t)cores);
    int found = 0;
    if (set && !sched_getaffinity(0, bytes, set))
        found = CPU_COUNT_S(bytes, set);
    CPU_FREE(set);
    return found;
}

static size_t round_up(size_t bytes, size_t unit)
{
    return bytes > SIZE_MAX - unit ? SIZE_MAX : (bytes + unit - 1) / unit * unit;
}

static void *map_pages(size_t bytes)
{
    void *pages = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    return pages == MAP_FAILED ? NULL : pages;
}

/* Pages that begin at a multiple of the huge page's size: more is mapped, and both ends are given back. */
static void *map_huge_aligned(size_t bytes)
{
    if (bytes > SIZE_MAX / 2)
        return NULL;
    char *raw = map_pages(bytes + HUGE_BYTES);
    if (!raw)
        return map_pages(bytes);
    const size_t before = (size_t)(-(uintptr_t)raw % HUGE_BYTES);
    if (before)
        munmap(raw, before);
    munmap(raw + before + bytes, HUGE_BYTES - before);
    madvise(raw + before, bytes, MADV_HUGEPAGE); /* a wish: refusing it changes only the speed */
    return raw + before;
}

static int64_t cache_bytes_of_sysfs(void)
{
    FILE *file = fopen("/sys/devices/system/cpu/cpu0/cache/index3/size", "re");
    if (!file)
        return 0;
    long long kib = 0;
    char unit = 0;
    const int fields = fscanf(file, "%lld%c", &kib, &unit);
    fclose(file);
    return fields == 2 && unit == 'K' && kib > 0 && kib < (1LL << 40) ? (int64_t)kib * 1024 : 0;
}

/* Where the file is that `address` was loaded from. The loader knows the program itself only as it was called. */
static bool path_of(const void *address, char *out)
{
    Dl_info info;
    if (!dladdr(address, &info) || !info.dli_fname)
        return false;
    return realpath(strchr(info.dli_fname, '/') ? info.dli_fname : "/proc/self/exe", out);
}

int dlk_os_cores(void)
{
    for (int cores = 1024; cores <= CORES_AT_MOST; cores *= 2) {
        const int found = count_affinity(cores);
        if (found > 0)
            return found;
    }
    const long online = sysconf(_SC_NPROCESSORS_ONLN);
    return online > 0 && online <= CORES_AT_MOST ? (int)online : 1;
}

int64_t dlk_os_time_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

size_t dlk_os_page_bytes(void)
{
    return (size_t)sysconf(_SC_PAGESIZE);
}

/* The cache that this processor's core reaches. sysconf may count those of other sockets and core complexes too, so it is
 * asked last. */
static int64_t find_cache_bytes(void)
{
    static const int levels[] = {_SC_LEVEL3_CACHE_SIZE, _SC_LEVEL2_CACHE_SIZE};
    const int64_t bytes = cache_bytes_of_sysfs();
    if (bytes)
        return bytes;
    for (size_t i = 0; i < sizeof levels / sizeof *levels; i++) {
        const long found = sysconf(levels[i]);
        if (found > 0)
            return found;
    }
    return UNKNOWN_CACHE_BYTES;
}

int64_t dlk_os_cache_bytes(void)
{
    static _Atomic int64_t known; /* asking opens a file */
    if (!atomic_load(&known))
        atomic_store(&known, find_cache_bytes());
    return atomic_load(&known);
}

void *dlk_os_map(size_t bytes)
{
    if (dlk_fail_injected("map"))
        return NULL;
    const size_t whole = round_up(bytes ? bytes : 1, dlk_os_page_bytes());
    return whole < HUGE_BYTES ? map_pages(whole) : map_huge_aligned(whole);
}

void dlk_os_unmap(void *pages, size_t bytes)
{
    if (pages)
        munmap(pages, round_up(bytes ? bytes : 1, dlk_os_page_bytes()));
}

bool dlk_os_protect_exec(void *pages, size_t bytes)
{
    if (dlk_fail_injected("exec"))
        return false;
    __builtin___clear_cache(pages, (char *)pages + bytes);
    return !mprotect(pages, round_up(bytes ? bytes : 1, dlk_os_page_bytes()), PROT_READ | PROT_EXEC);
}

void *dlk_os_library_open(const char *path)
{
    return dlk_fail_injected("library") ? NULL : dlopen(path, RTLD_NOW | RTLD_LOCAL);
}

void *dlk_os_library_symbol(void *library, const char *name)
{
    return dlsym(library, name);
}

bool dlk_os_folder_of(const void *address, char *out, size_t out_bytes)
{
    char path[PATH_MAX];
    if (!path_of(address, path))
        return false;
    char *slash = strrchr(path, '/');
    if (!slash || (size_t)(slash - path) >= out_bytes)
        return false;
    memcpy(out, path, (size_t)(slash - path));
    out[slash - path] = '\0';
    return true;
}
