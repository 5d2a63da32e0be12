/* The thread's last message. It is formatted aside before it replaces the old one, because callers pass parts of the
 * old message as arguments of the new one. */
#include "base/status.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#undef dlk_fail
#define MESSAGE_BYTES 4096

static const char truncation_mark[] = " [truncated]";
static _Thread_local char message[MESSAGE_BYTES];

#define STATUS(name, number, text) _Static_assert(DLK_##name == (number), "status.def and dlk.h disagree on " #name);
#include "base/status.def"
#undef STATUS

static void mark_if_truncated(char *text, int wanted)
{
    if (wanted >= MESSAGE_BYTES)
        memcpy(text + MESSAGE_BYTES - sizeof truncation_mark, truncation_mark, sizeof truncation_mark);
}

dlk_status dlk_fail(dlk_status code, const char *format, ...)
{
    char fresh[MESSAGE_BYTES];
    va_list args;
    va_start(args, format);
    const int wanted = vsnprintf(fresh, sizeof fresh, format, args);
    va_end(args);
    mark_if_truncated(fresh, wanted);
    memcpy(message, fresh, sizeof message);
    return code;
}

dlk_status dlk_fail_in(dlk_status code, const char *format, ...)
{
    char frame[MESSAGE_BYTES];
    va_list args;
    va_start(args, format);
    vsnprintf(frame, sizeof frame, format, args);
    va_end(args);
    return dlk_fail(code, "%s: %s", frame, message);
}

const char *dlk_last_error(void)
{
    return message;
}

const char *dlk_status_name(dlk_status status)
{
    switch (status) {
#define STATUS(name, number, text) \
    case DLK_##name:               \
        return "DLK_" #name;
#include "base/status.def"
#undef STATUS
    }
    return "unknown status";
}
