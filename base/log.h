/* Messages to standard error, only when option LOG asks for them. */
#ifndef DLK_BASE_LOG_H
#define DLK_BASE_LOG_H

typedef enum dlk_log_level { DLK_LOG_WARNING = 1, DLK_LOG_INFO = 2 } dlk_log_level;

void dlk_log(dlk_log_level level, const char *format, ...) __attribute__((format(printf, 2, 3)));

#endif
