/* The leaves: every function of base/, with its failures. */
#define _GNU_SOURCE
#include "tests/test.h"

#include <limits.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdatomic.h>
#include <stdint.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/arena.h"
#include "base/buffer.h"
#include "base/hash.h"
#include "base/lock.h"
#include "base/log.h"
#include "base/options.h"
#include "base/os.h"
#include "base/status.h"

/* ---- status ---- */

TEST(status_keeps_the_message)
{
    CHECK_INT(dlk_fail(DLK_ERR_SHAPE, "axis %d has extent %d", 3, 7), DLK_ERR_SHAPE);
    CHECK_STR(dlk_last_error(), "axis 3 has extent 7");
    CHECK_INT(dlk_fail_in(DLK_ERR_COMPILE, "while compiling %s", "add"), DLK_ERR_COMPILE);
    CHECK_STR(dlk_last_error(), "while compiling add: axis 3 has extent 7");
    dlk_fail(DLK_ERR_IO, "again: %s", dlk_last_error());
    CHECK_STR(dlk_last_error(), "again: while compiling add: axis 3 has extent 7");
}

TEST(status_marks_truncation)
{
    static char text[10000];
    memset(text, 'x', sizeof text - 1);
    dlk_fail(DLK_ERR_IO, "%s", text);
    CHECK_INT(strlen(dlk_last_error()), 4095);
    CHECK(strstr(dlk_last_error(), "xxx [truncated]"));
    dlk_fail_in(DLK_ERR_IO, "%s", text);
    CHECK_INT(strlen(dlk_last_error()), 4095);
}

static void *other_thread(void *out)
{
    *(bool *)out = !*dlk_last_error();
    dlk_fail(DLK_ERR_IO, "of the other thread");
    return NULL;
}

TEST(status_is_of_the_thread)
{
    bool was_empty = false;
    pthread_t thread;
    dlk_fail(DLK_ERR_IO, "mine");
    CHECK_INT(pthread_create(&thread, NULL, other_thread, &was_empty), 0);
    pthread_join(thread, NULL);
    CHECK(was_empty);
    CHECK_STR(dlk_last_error(), "mine");
}

TEST(status_names)
{
    CHECK_STR(dlk_status_name(DLK_OK), "DLK_OK");
    CHECK_STR(dlk_status_name(DLK_ERR_SHAPE), "DLK_ERR_SHAPE");
    CHECK_STR(dlk_status_name((dlk_status)77), "unknown status");
}

static dlk_status forwards(dlk_status status)
{
    DLK_TRY(status);
    return DLK_OK;
}

static dlk_status forwards_and_releases(dlk_status given, int *released)
{
    dlk_status status = DLK_OK;
    DLK_TRY_GOTO(given, done);
done:
    ++*released;
    return status;
}

TEST(status_forwarding)
{
    int released = 0;
    CHECK_INT(forwards(DLK_OK), DLK_OK);
    CHECK_INT(forwards(DLK_ERR_IO), DLK_ERR_IO);
    CHECK_INT(forwards_and_releases(DLK_ERR_IO, &released), DLK_ERR_IO);
    CHECK_INT(forwards_and_releases(DLK_OK, &released), DLK_OK);
    CHECK_INT(released, 2);
}

/* ---- alloc ---- */

static bool is_zero(const void *data, size_t bytes)
{
    const unsigned char *p = data;
    for (size_t i = 0; i < bytes; i++)
        if (p[i])
            return false;
    return true;
}

TEST(alloc_counts)
{
    const uint64_t calls = dlk_alloc_calls();
    const int64_t live = dlk_alloc_live();
    char *block = dlk_alloc(100);
    CHECK(block && is_zero(block, 100));
    block[99] = 7;
    CHECK_INT(dlk_alloc_live(), live + 1);
    block = dlk_realloc(block, 200);
    CHECK(block && block[99] == 7);
    CHECK_INT(dlk_alloc_live(), live + 1);
    char *other = dlk_realloc(NULL, 10), *empty = dlk_alloc(0);
    CHECK(other && empty && other != empty);
    CHECK_INT(dlk_alloc_live(), live + 3);
    dlk_free(block);
    dlk_free(other);
    dlk_free(empty);
    dlk_free(NULL);
    CHECK_INT(dlk_alloc_live(), live);
    CHECK_INT(dlk_alloc_calls() - calls, 4);
}

TEST(alloc_fails_on_purpose)
{
    const int64_t live = dlk_alloc_live();
    CHECK_INT(dlk_option_set("fail", "alloc:2"), DLK_OK);
    char *first = dlk_alloc(1), *second = dlk_alloc(1), *third = dlk_alloc(1);
    CHECK(first && !second && third);
    CHECK_INT(dlk_option_set("fail", "alloc:1"), DLK_OK);
    CHECK(!dlk_realloc(first, 1000)); /* the old block lives */
    CHECK_INT(dlk_option_set("fail", ""), DLK_OK);
    dlk_free(first);
    dlk_free(third);
    CHECK_INT(dlk_alloc_live(), live);
}

TEST(alloc_refuses_what_does_not_exist)
{
    CHECK(!dlk_alloc(SIZE_MAX / 2 + 1));
}

TEST(alloc_checked_arithmetic)
{
    int64_t out = 0;
    CHECK(dlk_mul_i64(INT64_C(1) << 31, INT64_C(1) << 31, &out) && out == INT64_C(1) << 62);
    CHECK(!dlk_mul_i64(INT64_C(1) << 32, INT64_C(1) << 31, &out));
    CHECK(dlk_add_i64(INT64_MAX, INT64_MIN, &out) && out == -1);
    CHECK(!dlk_add_i64(INT64_MAX, 1, &out));
    CHECK(dlk_sub_i64(INT64_MIN, -1, &out) && out == -INT64_MAX);
    CHECK(!dlk_sub_i64(INT64_MAX, -1, &out));
}

/* ---- arena ---- */

TEST(arena_gives_aligned_zeroed_memory)
{
    dlk_arena arena = {0};
    char *last = NULL;
    for (size_t bytes = 0; bytes < 3000; bytes += 7) {
        char *block = dlk_arena_alloc(&arena, bytes);
        CHECK(block && block != last && (uintptr_t)block % 16 == 0 && is_zero(block, bytes));
        memset(block, 0xff, bytes);
        last = block;
    }
    char *large = dlk_arena_alloc(&arena, 5 << 20);
    CHECK(large && is_zero(large, 5 << 20));
    dlk_arena_free(&arena);
    CHECK(!arena.head);
    CHECK(DLK_NEW(&arena, int));
    dlk_arena_free(&arena);
    dlk_arena_free(&arena);
}

TEST(arena_copies_and_prints)
{
    dlk_arena arena = {0};
    CHECK_STR(dlk_arena_copy(&arena, "text", 5), "text");
    CHECK(dlk_arena_copy(&arena, NULL, 0));
    CHECK_STR(dlk_arena_printf(&arena, "%d-%s", 12, "x"), "12-x");
    CHECK_INT(strlen(dlk_arena_printf(&arena, "%9000d", 1)), 9000);
    dlk_arena_free(&arena);
}

TEST(arena_grows_arrays)
{
    dlk_arena arena = {0};
    int *array = NULL, n = 0, cap = 0;
    for (int i = 0; i < 1000; i++)
        *DLK_PUSH(&arena, array, n, cap) = i;
    CHECK_INT(n, 1000);
    CHECK(cap >= n);
    for (int i = 0; i < n; i++)
        CHECK_INT(array[i], i);
    int full = INT_MAX;
    CHECK(!dlk_arena_grow(&arena, array, INT_MAX, &full, sizeof(int)));
    CHECK_INT(full, INT_MAX);
    dlk_arena_free(&arena);
}

/* True when the n-th allocation failed and came back here. */
static bool jumps_out(const char *failure)
{
    jmp_buf escape;
    dlk_arena arena = {.escape = &escape};
    dlk_option_set("fail", failure);
    if (setjmp(escape)) {
        dlk_option_set("fail", "");
        dlk_arena_free(&arena);
        return true;
    }
    for (int i = 0; i < 100; i++)
        dlk_arena_alloc(&arena, 1000);
    dlk_option_set("fail", "");
    dlk_arena_free(&arena);
    return false;
}

TEST(arena_escapes_when_out_of_memory)
{
    const int64_t live = dlk_alloc_live();
    CHECK(jumps_out("alloc:1"));
    CHECK(jumps_out("alloc:3"));
    CHECK(!jumps_out("alloc:1000"));
    CHECK_INT(dlk_alloc_live(), live);
}

TEST(arena_without_escape_returns_null)
{
    dlk_arena arena = {0};
    dlk_option_set("fail", "alloc:1");
    CHECK(!dlk_arena_alloc(&arena, 10));
    dlk_option_set("fail", "");
    CHECK(!dlk_arena_alloc(&arena, SIZE_MAX));
    CHECK(!DLK_NEW_ARRAY(&arena, int, -1));
    dlk_arena_free(&arena);
}

/* ---- buffer ---- */

TEST(buffer_appends)
{
    dlk_arena arena = {0};
    dlk_buffer buffer = {.arena = &arena};
    dlk_buffer_append(&buffer, "", 0);
    CHECK_STR(buffer.data, "");
    for (int i = 0; i < 1000; i++) {
        dlk_buffer_printf(&buffer, "%d,", i);
        dlk_buffer_puts(&buffer, "ab");
        dlk_buffer_append(&buffer, "cde", 1);
    }
    CHECK_INT(buffer.size, 2890 + 1000 + 3000);
    CHECK_INT(strlen(buffer.data), buffer.size);
    CHECK(!strncmp(buffer.data, "0,abc1,abc2,abc", 15));
    CHECK_STR(buffer.data + buffer.size - 7, "999,abc");
    dlk_arena_free(&arena);
}

TEST(buffer_prints_what_just_fits)
{
    dlk_arena arena = {0};
    for (int width = 250; width < 260; width++) {
        dlk_buffer buffer = {.arena = &arena};
        dlk_buffer_printf(&buffer, "%*d", width, 1);
        dlk_buffer_printf(&buffer, "%*d", width, 2);
        CHECK_INT(buffer.size, 2 * width);
        CHECK(buffer.data[width - 1] == '1' && buffer.data[2 * width - 1] == '2' && !buffer.data[2 * width]);
    }
    dlk_arena_free(&arena);
}

TEST(buffer_stays_whole_when_out_of_memory)
{
    dlk_arena arena = {0};
    dlk_buffer buffer = {.arena = &arena};
    dlk_buffer_puts(&buffer, "kept");
    dlk_option_set("fail", "alloc:1");
    dlk_buffer_printf(&buffer, "%9000d", 1);
    dlk_option_set("fail", "");
    CHECK_STR(buffer.data, "kept");
    CHECK_INT(buffer.size, 4);
    dlk_arena_free(&arena);
}

/* ---- hash ---- */

TEST(hash_is_xxh3)
{
    /* Of nothing, with seed 0: the values that xxHash's specification gives. */
    const dlk_hash nothing = dlk_hash_of("", 0);
    CHECK(nothing.hi == UINT64_C(0x99aa06d3014798d8) && nothing.lo == UINT64_C(0x6001c324468d497f));
    CHECK(dlk_hash64_of("", 0) == UINT64_C(0x2d06800538d394c2));
    const dlk_hash a = dlk_hash_of("abc", 3), b = dlk_hash_of("abd", 3);
    CHECK(a.lo != b.lo && a.hi != b.hi);
    CHECK(dlk_hash64_of("abc", 3) != dlk_hash64_of("abd", 3));
}

/* ---- options ---- */

TEST(options_have_values)
{
    CHECK_INT(dlk_option_set("num_threads", "3"), DLK_OK);
    CHECK_INT(dlk_option_int(DLK_OPTION_NUM_THREADS), 3);
    CHECK_STR(dlk_option_get("num_threads"), "3");
    CHECK_INT(dlk_option_set("num_threads", NULL), DLK_OK);
    CHECK_INT(dlk_option_set("cpu_target", "v2"), DLK_OK);
    const char *v2 = dlk_option_string(DLK_OPTION_CPU_TARGET);
    CHECK_INT(dlk_option_set("cpu_target", "v3"), DLK_OK);
    CHECK_STR(v2, "v2"); /* still there */
    CHECK_INT(dlk_option_set("cpu_target", "v2"), DLK_OK);
    CHECK(dlk_option_string(DLK_OPTION_CPU_TARGET) == v2);
    CHECK_INT(dlk_option_set("cpu_target", NULL), DLK_OK);
}

TEST(options_refuse)
{
    const uint32_t epoch = dlk_option_epoch();
    CHECK_INT(dlk_option_set("no_such", "1"), DLK_ERR_NOT_FOUND);
    CHECK(strstr(dlk_last_error(), "no_such") && strstr(dlk_last_error(), " num_threads, cpu_target,"));
    CHECK_INT(dlk_option_set("NUM_THREADS", "1"), DLK_ERR_NOT_FOUND);
    CHECK_INT(dlk_option_set("num_thread", "1"), DLK_ERR_NOT_FOUND);
    CHECK_INT(dlk_option_set(NULL, "1"), DLK_ERR_NOT_FOUND);
    CHECK(!dlk_option_get("no_such"));
    static const char *const wrong[] = {"", "x", "-1", "1x", "99999999999999999999"};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        CHECK_INT(dlk_option_set("num_threads", wrong[i]), DLK_ERR_INVALID);
    CHECK(strstr(dlk_last_error(), "DLK_NUM_THREADS") && strstr(dlk_last_error(), "99999999999999999999"));
    static const char *const no_failure[] = {"alloc", ":1", "alloc:0", "alloc:x"};
    for (size_t i = 0; i < sizeof no_failure / sizeof *no_failure; i++)
        CHECK_INT(dlk_option_set("fail", no_failure[i]), DLK_ERR_INVALID);
    CHECK_INT(dlk_option_epoch(), epoch);
    CHECK_INT(dlk_option_set("fail", ""), DLK_OK);
    CHECK_INT(dlk_option_epoch(), epoch + 1);
}

TEST(options_are_listed)
{
    dlk_option_info infos[DLK_OPTION_COUNT + 1];
    int count = 0;
    CHECK_INT(dlk_option_list(NULL, 0, &count), DLK_OK);
    CHECK_INT(count, DLK_OPTION_COUNT);
    memset(infos, 0, sizeof infos);
    CHECK_INT(dlk_option_list(infos, DLK_OPTION_COUNT + 1, &count), DLK_OK);
    CHECK_STR(infos[DLK_OPTION_NUM_THREADS].name, "num_threads");
    CHECK_STR(infos[DLK_OPTION_NUM_THREADS].variable, "DLK_NUM_THREADS");
    CHECK_STR(infos[DLK_OPTION_CPU_TARGET].value, "host");
    CHECK_STR(infos[DLK_OPTION_LLVM_MODULE].unit, "path");
    for (int i = 0; i < DLK_OPTION_COUNT; i++) {
        CHECK(*infos[i].documentation);
        CHECK_STR(infos[i].value, dlk_option_get(infos[i].name));
    }
    CHECK(!infos[DLK_OPTION_COUNT].name);
    CHECK_INT(dlk_option_list(NULL, 1, &count), DLK_ERR_INVALID);
    CHECK_INT(dlk_option_list(NULL, 0, NULL), DLK_ERR_INVALID);
}

TEST(options_dump_list)
{
    CHECK_INT(dlk_option_set("dump", "ir,asm"), DLK_OK);
    CHECK(dlk_dump_wanted("ir") && dlk_dump_wanted("asm"));
    CHECK(!dlk_dump_wanted("i") && !dlk_dump_wanted("irx") && !dlk_dump_wanted("plan") && !dlk_dump_wanted(""));
    CHECK_INT(dlk_option_set("dump", ""), DLK_OK);
    CHECK(!dlk_dump_wanted("ir"));
}

TEST(options_inject_failures)
{
    CHECK_INT(dlk_option_set("fail", "compile:3"), DLK_OK);
    CHECK(!dlk_fail_injected("compile"));
    CHECK(!dlk_fail_injected("comp"));
    CHECK(!dlk_fail_injected("alloc"));
    CHECK(!dlk_fail_injected("compile"));
    CHECK(dlk_fail_injected("compile"));
    CHECK(!dlk_fail_injected("compile"));
    CHECK_INT(dlk_option_set("fail", ""), DLK_OK);
    CHECK(!dlk_fail_injected("compile"));
}

/* Runs this program again with an environment, and gives what its test `which` prints. */
static void run_again(const char *environment, const char *which, char *out, size_t out_bytes)
{
    char self[PATH_MAX], command[2 * PATH_MAX];
    const ssize_t length = readlink("/proc/self/exe", self, sizeof self - 1);
    CHECK(length > 0);
    self[length > 0 ? length : 0] = '\0';
    snprintf(command, sizeof command, "%s '%s' %s 2>&1", environment, self, which);
    FILE *pipe = popen(command, "re"); // NOLINT(bugprone-command-processor)
    CHECK(pipe);
    if (!pipe)
        return;
    const size_t got = fread(out, 1, out_bytes - 1, pipe);
    out[got] = '\0';
    pclose(pipe);
}

TEST(child_prints_options)
{
    if (!getenv("DLK_TEST_CHILD"))
        return;
    dlk_log(DLK_LOG_INFO, "informed of %d", 5);
    printf("threads %d, target %s, epoch %u\n", (int)dlk_option_int(DLK_OPTION_NUM_THREADS),
           dlk_option_string(DLK_OPTION_CPU_TARGET), dlk_option_epoch());
    dlk_option_set("num_threads", "9");
    dlk_option_set("num_threads", NULL);
    printf("again %s\n", dlk_option_get("num_threads"));
}

TEST(options_of_the_environment)
{
    char out[4096];
    run_again("DLK_TEST_CHILD=1 DLK_NUM_THREADS=5 DLK_CPU_TARGET=v4", "child_prints_options", out, sizeof out);
    CHECK_MSG(strstr(out, "threads 5, target v4, epoch 0"), "%s", out);
    CHECK_MSG(strstr(out, "again 5"), "%s", out);
    CHECK_MSG(!strstr(out, "informed"), "%s", out);
    run_again("DLK_TEST_CHILD=1 DLK_LOG=1 DLK_NUM_THREADS=many", "child_prints_options", out, sizeof out);
    CHECK_MSG(strstr(out, "dlk: warning: DLK_NUM_THREADS"), "%s", out);
    CHECK_MSG(strstr(out, "threads 0, target host"), "%s", out);
    CHECK_MSG(!strstr(out, "informed"), "%s", out);
    run_again("DLK_TEST_CHILD=1 DLK_LOG=2", "child_prints_options", out, sizeof out);
    CHECK_MSG(strstr(out, "dlk: informed of 5\n"), "%s", out);
}

static void *set_and_read(void *out)
{
    bool *is_right = out;
    for (int i = 0; i < 1000; i++) {
        char text[8];
        snprintf(text, sizeof text, "%d", i % 7);
        dlk_option_set("num_threads", text);
        const char *seen = dlk_option_string(DLK_OPTION_NUM_THREADS);
        *is_right = *is_right && strlen(seen) == 1 && *seen >= '0' && *seen < '7';
        const int64_t number = dlk_option_int(DLK_OPTION_NUM_THREADS);
        *is_right = *is_right && number >= 0 && number < 7;
    }
    return NULL;
}

TEST(options_race)
{
    enum { N = 4 };
    pthread_t threads[N];
    bool is_right[N];
    for (int i = 0; i < N; i++) {
        is_right[i] = true;
        CHECK_INT(pthread_create(&threads[i], NULL, set_and_read, &is_right[i]), 0);
    }
    for (int i = 0; i < N; i++) {
        pthread_join(threads[i], NULL);
        CHECK(is_right[i]);
    }
    dlk_option_set("num_threads", NULL);
}

/* ---- lock ---- */

DLK_STATIC_LOCK(static_lock);
static _Atomic bool stop;

static void *take_and_give(void *arg)
{
    dlk_lock *locks = arg;
    for (int i = 0; !atomic_load(&stop); i = (i + 1) % 3) {
        dlk_lock *lock = i ? &locks[i - 1] : &static_lock;
        dlk_lock_take(lock);
        dlk_lock_give(lock);
    }
    return NULL;
}

/* Every child finds every lock free, whatever the other threads were at. */
TEST(lock_survives_forks)
{
    enum { THREADS = 3 };
    dlk_lock locks[2];
    pthread_t threads[THREADS];
    dlk_lock_init(&locks[0]);
    dlk_lock_init(&locks[1]);
    for (int i = 0; i < THREADS; i++)
        CHECK_INT(pthread_create(&threads[i], NULL, take_and_give, locks), 0);
    for (int i = 0; i < 50; i++) {
        const pid_t child = fork();
        if (!child) {
            alarm(20);
            for (int k = 0; k < 3; k++) {
                dlk_lock_take(k < 2 ? &locks[k] : &static_lock);
                dlk_lock_give(k < 2 ? &locks[k] : &static_lock);
            }
            _exit(dlk_option_set("num_threads", "1") == DLK_OK ? 0 : 1);
        }
        int status = -1;
        CHECK(waitpid(child, &status, 0) == child);
        CHECK_MSG(WIFEXITED(status) && WEXITSTATUS(status) == 0, "child %d: %x", i, status);
    }
    atomic_store(&stop, true);
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    dlk_lock_destroy(&locks[0]);
    dlk_lock_destroy(&locks[1]);
}

/* ---- os ---- */

TEST(os_facts)
{
    CHECK(dlk_os_cores() >= 1);
    const size_t page = dlk_os_page_bytes();
    CHECK(page >= 4096 && (page & (page - 1)) == 0);
    CHECK(dlk_os_cache_bytes() >= 1 << 15);
    const int64_t before = dlk_os_time_ns();
    usleep(2000);
    const int64_t passed = dlk_os_time_ns() - before;
    CHECK_MSG(passed >= 2000000 && passed < INT64_C(60000000000), "%" PRId64, passed);
}

TEST(os_maps_pages)
{
    static const size_t sizes[] = {1, 4096, 5000, (2 << 20) - 1, 2 << 20, (3 << 20) + 5};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        unsigned char *pages = dlk_os_map(sizes[i]);
        CHECK(pages && (uintptr_t)pages % dlk_os_page_bytes() == 0 && is_zero(pages, sizes[i]));
        if (sizes[i] >= 2 << 20)
            CHECK((uintptr_t)pages % (2 << 20) == 0);
        memset(pages, 1, sizes[i]);
        dlk_os_unmap(pages, sizes[i]);
    }
    dlk_os_unmap(NULL, 5);
    CHECK(!dlk_os_map(SIZE_MAX / 4));
    CHECK(!dlk_os_map(SIZE_MAX));
    dlk_option_set("fail", "map:1");
    CHECK(!dlk_os_map(1));
    dlk_option_set("fail", "");
}

TEST(os_makes_code)
{
#if defined(__x86_64__)
    static const unsigned char code[] = {0xf3, 0x0f, 0x1e, 0xfa, 0xb8,
                                         0x2a, 0,    0,    0,    0xc3}; /* endbr64; mov eax, 42; ret */
#elif defined(__aarch64__)
    static const uint32_t code[] = {0xd503245f, 0x52800540, 0xd65f03c0}; /* bti c; mov w0, 42; ret */
#else
    SKIP("no machine code for this architecture in the test");
#endif
    void *pages = dlk_os_map(sizeof code);
    CHECK(pages);
    memcpy(pages, code, sizeof code);
    CHECK(dlk_os_protect_exec(pages, sizeof code));
    int (*function)(void);
    memcpy(&function, &pages, sizeof function);
    CHECK_INT(function(), 42);
    dlk_os_unmap(pages, sizeof code);
    dlk_option_set("fail", "exec:1");
    CHECK(!dlk_os_protect_exec(pages, sizeof code));
    dlk_option_set("fail", "");
}

TEST(os_opens_libraries)
{
    CHECK(!dlk_os_library_open("libno-such-library.so.9"));
    void *library = dlk_os_library_open("libc.so.6");
    CHECK(library);
    CHECK(dlk_os_library_symbol(library, "strlen"));
    CHECK(!dlk_os_library_symbol(library, "dlk_no_such_symbol"));
    dlk_option_set("fail", "library:1");
    CHECK(!dlk_os_library_open("libc.so.6"));
    dlk_option_set("fail", "");
}

TEST(os_folder_of_this_program)
{
    char folder[PATH_MAX], self[PATH_MAX];
    const ssize_t length = readlink("/proc/self/exe", self, sizeof self - 1);
    CHECK(length > 0);
    self[length > 0 ? length : 0] = '\0';
    *strrchr(self, '/') = '\0';
    CHECK(dlk_os_folder_of(&test_first, folder, sizeof folder));
    CHECK_STR(folder, self);
    char tight[2];
    CHECK(!dlk_os_folder_of(&test_first, tight, sizeof tight));
    CHECK(!dlk_os_folder_of(NULL, folder, sizeof folder));
}
