/* Pages for code. A region of address space is reserved without access; each image takes the next pages of it: they become
 * writable, are filled, become read-execute for good. Neighbours with equal rights are one mapping to the kernel, so a
 * region costs a handful however many images it holds. Freed pages go back to no access and wait on a list. */
#include "runtime/code.h"

#include <string.h>
#include <sys/mman.h>

#include "base/alloc.h"
#include "base/lock.h"
#include "base/os.h"

#define REGION_BYTES ((size_t)64 << 20)

typedef struct hole { /* pages of a region that were freed */
    struct hole *next;
    char *address;
    size_t bytes;
} hole;

/* Held for page bookkeeping, never while a kernel runs or compiles. */
DLK_STATIC_LOCK(lock);
static char *region_next, *region_end;
static hole *holes;

static char *take_hole(size_t bytes)
{
    for (hole **at = &holes; *at; at = &(*at)->next) {
        hole *h = *at;
        if (h->bytes < bytes)
            continue;
        char *address = h->address;
        h->address += bytes;
        h->bytes -= bytes;
        if (!h->bytes) {
            *at = h->next;
            dlk_free(h);
        }
        return address;
    }
    return NULL;
}

/* Pages that nobody uses, without access; NULL when address space ran out. */
static char *take_pages(size_t bytes)
{
    char *address = take_hole(bytes);
    if (address)
        return address;
    if ((size_t)(region_end - region_next) < bytes) {
        const size_t size = bytes > REGION_BYTES ? bytes : REGION_BYTES;
        char *region = mmap(NULL, size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (region == MAP_FAILED)
            return NULL;
        region_next = region;
        region_end = region + size;
    }
    address = region_next;
    region_next += bytes;
    return address;
}

static void give_pages(char *address, size_t bytes)
{
    /* A fresh mapping over the old pages drops their contents and rights in one call; if refused, they are not reused. */
    if (mmap(address, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0) == MAP_FAILED)
        return;
    hole *h = dlk_alloc(sizeof *h);
    if (!h)
        return; /* the pages stay reserved: address space, not memory */
    h->address = address;
    h->bytes = bytes;
    h->next = holes;
    holes = h;
}

static dlk_status fill(char *address, size_t bytes, const void *image, size_t size)
{
    if (mprotect(address, bytes, PROT_READ | PROT_WRITE) != 0)
        return dlk_fail(DLK_ERR_MEMORY, "no memory for %zu bytes of code", bytes);
    memcpy(address, image, size);
    if (mprotect(address, bytes, PROT_READ | PROT_EXEC) != 0)
        return dlk_fail(DLK_ERR_DRIVER, "the system refuses executable memory");
    return DLK_OK;
}

dlk_status dlk_code_load(const void *image, size_t size, dlk_code_block *out)
{
    const size_t page = dlk_os_page_bytes(), bytes = (size + page - 1) / page * page;
    dlk_lock_take(&lock);
    char *address = take_pages(bytes);
    dlk_status status = address ? fill(address, bytes, image, size)
                                : dlk_fail(DLK_ERR_MEMORY, "no address space for %zu bytes of code", bytes);
    if (address && status != DLK_OK)
        give_pages(address, bytes);
    dlk_lock_give(&lock);
    if (status == DLK_OK)
        *out = (dlk_code_block){address, bytes};
    return status;
}

void dlk_code_unload(dlk_code_block block)
{
    dlk_lock_take(&lock);
    give_pages(block.address, block.bytes);
    dlk_lock_give(&lock);
}
