/* The commands of the program: what each takes from the command line, and what it does. */
#ifndef DLK_TOOLS_COMMANDS_H
#define DLK_TOOLS_COMMANDS_H

#include "tools/arguments.h"
#include "tools/json.h"

enum { DLK_TOOL_ARGUMENTS_MAX = 64, DLK_TOOL_EXIT_OK = 0, DLK_TOOL_EXIT_FAILED = 1, DLK_TOOL_EXIT_USAGE = 2 };

/* The command line, taken apart. */
typedef struct dlk_tool_request {
    const char *words[DLK_TOOL_ARGUMENTS_MAX + 2]; /* without flags: command, operation, arguments */
    int n_words;
    bool is_json;
    dlk_params params;
    int32_t axes[DLK_NDIM_MAX];
    dlk_named_scalar scalars[DLK_TOOL_ARGUMENTS_MAX];
    const char *stages; /* of show, with commas between; NULL: the usual ones */
} dlk_tool_request;

/* Each gives the exit status. */
int dlk_tool_devices(const dlk_tool_request *request);
int dlk_tool_options(const dlk_tool_request *request);
int dlk_tool_ops(const dlk_tool_request *request);
int dlk_tool_show(const dlk_tool_request *request);

/* Says what went wrong, in the form that the request asks for; gives `exit_status`. `status` is DLK_ERR_INVALID for what
 * the program itself refuses. */
int dlk_tool_fail(const dlk_tool_request *request, int exit_status, dlk_status status, const char *format, ...)
    __attribute__((format(printf, 4, 5)));

#endif
