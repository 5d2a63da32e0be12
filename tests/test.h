/* A small test program: TEST bodies register themselves; main runs those whose name contains argv[1], prints one line for
 * each failure, and ends with "N passed, N failed, N skipped". Exit status 0, 1, or 77 when all were skipped. */
#ifndef DLK_TESTS_TEST_H
#define DLK_TESTS_TEST_H

#include <inttypes.h>
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct test_case {
    const char *name;
    void (*run)(void);
    struct test_case *next;
} test_case;

static test_case *test_first, **test_last = &test_first;
static bool test_failed;
static const char *test_skipped;

/* Out of memory is NULL under sanitizers too, as tests of huge sizes expect. */
// NOLINTBEGIN(bugprone-reserved-identifier)
__attribute__((visibility("default"))) const char *__asan_default_options(void);
__attribute__((visibility("default"))) const char *__tsan_default_options(void);
const char *__asan_default_options(void)
{
    return "allocator_may_return_null=1:detect_stack_use_after_return=1";
}
const char *__tsan_default_options(void)
{
    return "allocator_may_return_null=1";
}
// NOLINTEND(bugprone-reserved-identifier)

#define TEST(id)                                                      \
    static void test_body_##id(void);                                 \
    static test_case test_case_##id = {#id, test_body_##id, NULL};    \
    __attribute__((constructor)) static void test_register_##id(void) \
    {                                                                 \
        *test_last = &test_case_##id;                                 \
        test_last = &test_case_##id.next;                             \
    }                                                                 \
    static void test_body_##id(void)

#define CHECK(condition)                                                   \
    do {                                                                   \
        if (!(condition)) {                                                \
            printf("%s:%d: failed: %s\n", __FILE__, __LINE__, #condition); \
            test_failed = true;                                            \
        }                                                                  \
    } while (0)
/* As CHECK, with more to say. */
#define CHECK_MSG(condition, ...)                                          \
    do {                                                                   \
        if (!(condition)) {                                                \
            printf("%s:%d: failed: %s: ", __FILE__, __LINE__, #condition); \
            printf(__VA_ARGS__);                                           \
            printf("\n");                                                  \
            test_failed = true;                                            \
        }                                                                  \
    } while (0)
#define CHECK_INT(found, expected)                                                                                 \
    do {                                                                                                           \
        const long long check_found = (long long)(found), check_expected = (long long)(expected);                  \
        if (check_found != check_expected) {                                                                       \
            printf("%s:%d: %s is %lld, expected %lld\n", __FILE__, __LINE__, #found, check_found, check_expected); \
            test_failed = true;                                                                                    \
        }                                                                                                          \
    } while (0)
#define CHECK_STR(found, expected)                                                                          \
    do {                                                                                                    \
        const char *check_found = (found), *check_expected = (expected);                                    \
        if (strcmp(check_found, check_expected) != 0) {                                                     \
            printf("%s:%d: %s is\n  \"%s\", expected\n  \"%s\"\n", __FILE__, __LINE__, #found, check_found, \
                   check_expected);                                                                         \
            test_failed = true;                                                                             \
        }                                                                                                   \
    } while (0)
#define SKIP(reason)             \
    do {                         \
        test_skipped = (reason); \
        return;                  \
    } while (0)

int main(int argc, char **argv)
{
    int passed = 0, failed = 0, skipped = 0;
    for (const test_case *t = test_first; t; t = t->next) {
        if (argc > 1 && !strstr(t->name, argv[1]))
            continue;
        test_failed = false;
        test_skipped = NULL;
        t->run();
        if (test_failed)
            printf("FAILED %s\n", t->name);
        else if (test_skipped)
            printf("skipped %s: %s\n", t->name, test_skipped);
        fflush(stdout);
        failed += test_failed;
        skipped += !test_failed && test_skipped;
        passed += !test_failed && !test_skipped;
    }
    printf("%d passed, %d failed, %d skipped\n", passed, failed, skipped);
    return failed ? 1 : passed || !skipped ? 0 : 77;
}

#endif
