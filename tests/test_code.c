/* Executable memory: images run where they are put, thousands of them are few mappings, freed pages are used again and
 * never run again, nothing is writable and executable at once, and a system that refuses is a status. */
#include "tests/test.h"

#include <pthread.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/os.h"
#include "base/status.h"
#include "runtime/code.h"

#ifdef __x86_64__

enum { N = 2000, CODE_BYTES = 6, THREADS = 4 };

/* mov eax, value; ret */
static void write_code(unsigned char *bytes, uint32_t value)
{
    bytes[0] = 0xb8;
    memcpy(bytes + 1, &value, sizeof value);
    bytes[5] = 0xc3;
}

static uint32_t call_at(const void *address)
{
    uint32_t (*function)(void);
    memcpy(&function, &address, sizeof function);
    return function();
}

static dlk_status load_value(uint32_t value, dlk_code_block *out)
{
    unsigned char bytes[CODE_BYTES];
    write_code(bytes, value);
    return dlk_code_load(bytes, sizeof bytes, out);
}

/* Mappings of this process whose rights begin with `rights`; "" counts all. */
static int count_maps(const char *rights)
{
    char line[512];
    int n = 0;
    FILE *maps = fopen("/proc/self/maps", "r");
    if (!maps)
        return -1;
    while (fgets(line, sizeof line, maps)) {
        const char *field = strchr(line, ' ');
        n += field && !strncmp(field + 1, rights, strlen(rights));
    }
    fclose(maps);
    return n;
}

TEST(many_images_are_few_mappings)
{
    static dlk_code_block blocks[N];
    const int before = count_maps("r-x");
    for (uint32_t k = 0; k < N; k++)
        CHECK_INT(load_value(k, &blocks[k]), DLK_OK);
    for (uint32_t k = 0; k < N; k++)
        CHECK_INT(call_at(blocks[k].address), k);
    CHECK_MSG(count_maps("r-x") - before <= 2, "%d mappings of code, %d before", count_maps("r-x"), before);
    for (int k = 0; k < N; k++)
        dlk_code_unload(blocks[k]);
    CHECK_INT(count_maps("r-x"), before);
}

TEST(nothing_is_writable_and_executable)
{
    dlk_code_block block;
    const int before = count_maps("rwx"); /* a sanitizer's own, if any */
    CHECK_INT(load_value(7, &block), DLK_OK);
    CHECK_INT(count_maps("rwx"), before);
    dlk_code_unload(block);
}

TEST(an_image_of_several_pages)
{
    const size_t page = dlk_os_page_bytes(), size = 3 * page;
    unsigned char *bytes = dlk_alloc(size);
    dlk_code_block block;
    if (!bytes)
        SKIP("out of memory");
    write_code(bytes, 1);
    write_code(bytes + size - CODE_BYTES, 2); /* the last byte of the last page */
    CHECK_INT(dlk_code_load(bytes, size, &block), DLK_OK);
    CHECK_INT(block.bytes, size);
    CHECK_INT((uintptr_t)block.address % page, 0);
    CHECK_INT(call_at(block.address), 1);
    CHECK_INT(call_at((const char *)block.address + size - CODE_BYTES), 2);
    dlk_code_unload(block);
    dlk_free(bytes);
}

/* Every other image of a row goes; new ones, of one page and of two, find pages, and those that stayed are as they were. */
TEST(freed_pages_are_used_again)
{
    enum { ROW = 64 };
    dlk_code_block row[ROW], wide;
    unsigned char *bytes = dlk_alloc(2 * dlk_os_page_bytes());
    for (uint32_t k = 0; k < ROW; k++)
        CHECK_INT(load_value(k, &row[k]), DLK_OK);
    char *const freed = row[0].address;
    for (int k = 0; k < ROW; k += 2)
        dlk_code_unload(row[k]);
    CHECK(bytes);
    if (!bytes)
        return;
    write_code(bytes, 4711);
    CHECK_INT(dlk_code_load(bytes, 2 * dlk_os_page_bytes(), &wide), DLK_OK);
    CHECK_INT(call_at(wide.address), 4711);
    bool is_reused = false;
    for (uint32_t k = 0; k < ROW; k += 2) {
        CHECK_INT(load_value(1000 + k, &row[k]), DLK_OK);
        is_reused |= row[k].address == freed;
    }
    CHECK(is_reused);
    for (uint32_t k = 0; k < ROW; k++)
        CHECK_INT(call_at(row[k].address), k % 2 ? k : 1000 + k);
    for (int k = 0; k < ROW; k++)
        dlk_code_unload(row[k]);
    dlk_code_unload(wide);
    dlk_free(bytes);
}

static void *load_and_run(void *first)
{
    const uint32_t base = *(const uint32_t *)first;
    intptr_t wrong = 0;
    for (uint32_t round = 0; round < 300; round++) {
        dlk_code_block a, b;
        if (load_value(base + round, &a) != DLK_OK)
            return (void *)(intptr_t)-1;
        if (load_value(~(base + round), &b) != DLK_OK)
            return (void *)(intptr_t)-1;
        wrong += call_at(a.address) != base + round;
        dlk_code_unload(a);
        wrong += call_at(b.address) != ~(base + round);
        dlk_code_unload(b);
    }
    return (void *)wrong;
}

TEST(threads_load_and_unload)
{
    pthread_t threads[THREADS];
    uint32_t bases[THREADS];
    for (int t = 0; t < THREADS; t++) {
        bases[t] = (uint32_t)t << 16;
        CHECK_INT(pthread_create(&threads[t], NULL, load_and_run, &bases[t]), 0);
    }
    for (int t = 0; t < THREADS; t++) {
        void *wrong = NULL;
        pthread_join(threads[t], &wrong);
        CHECK_INT((intptr_t)wrong, 0);
    }
}

/* Whether code can be had in a child that has forbidden itself memory that becomes executable: 0 means refused as it should
 * be, 77 that this system has no such ban. */
static int load_where_it_is_refused(void)
{
    enum { SET_MDWE = 65, REFUSE_EXEC_GAIN = 1 }; /* of linux/prctl.h, since 6.3 */
    dlk_code_block block;
    if (prctl(SET_MDWE, REFUSE_EXEC_GAIN, 0L, 0L, 0L) != 0)
        return 77;
    if (load_value(1, &block) != DLK_ERR_DRIVER || !strstr(dlk_last_error(), "executable"))
        return 1;
    return load_value(1, &block) == DLK_ERR_DRIVER ? 0 : 2; /* and again, with the first one's pages on the list */
}

TEST(a_system_that_refuses)
{
    const pid_t child = fork();
    if (!child)
        _exit(load_where_it_is_refused());
    int status = -1;
    CHECK(waitpid(child, &status, 0) == child);
    if (WIFEXITED(status) && WEXITSTATUS(status) == 77)
        SKIP("this system cannot refuse executable memory");
    CHECK_MSG(WIFEXITED(status) && WEXITSTATUS(status) == 0, "the child's status is %x", status);
}

#else
TEST(code)
{
    SKIP("the images are x86-64 code");
}
#endif
