/* How every function of dlk reports failure: a status, and a thread-local message that says what was found and
 * what was expected. The message is written once, where the failure is seen; callers only forward the status. */
#ifndef DLK_BASE_STATUS_H
#define DLK_BASE_STATUS_H

#include "dlk/dlk.h"

/* Writes the thread's message (truncated to 4 KiB, which is marked) and returns `code`. */
dlk_status dlk_fail(dlk_status code, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Puts "<frame>: " before the thread's message, for a caller that knows more; returns `code`. */
dlk_status dlk_fail_in(dlk_status code, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* So that compilers and analysers see that a failure is the code given, hence not DLK_OK, without looking into status.c. */
#define dlk_fail(code, ...)                  \
    ({                                       \
        const dlk_status fail_code = (code); \
        dlk_fail(fail_code, __VA_ARGS__);    \
        fail_code;                           \
    })

#define DLK_TRY(call)                   \
    do {                                \
        dlk_status try_status = (call); \
        if (try_status != DLK_OK)       \
            return try_status;          \
    } while (0)

/* As DLK_TRY for a function that has something to release: sets the local `status` and goes to `label`. */
#define DLK_TRY_GOTO(call, label) \
    do {                          \
        status = (call);          \
        if (status != DLK_OK)     \
            goto label;           \
    } while (0)

#endif
