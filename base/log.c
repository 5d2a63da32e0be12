/* One line of a message in one write, so that lines of several threads do not mix. */
#include "base/log.h"

#include <stdarg.h>
#include <stdio.h>

#include "base/options.h"

void dlk_log(dlk_log_level level, const char *format, ...)
{
    if (dlk_option_int(DLK_OPTION_LOG) < (int64_t)level)
        return;
    char text[1024];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    fprintf(stderr, "dlk: %s%s\n", level == DLK_LOG_WARNING ? "warning: " : "", text);
}
