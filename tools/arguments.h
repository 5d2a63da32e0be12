/* Launch arguments as a person types them: 'f32[1024,1024]', 'f32[8,8].T', 'u8[4,3]:strides(1,4)', '2.5', 'true'. */
#ifndef DLK_TOOLS_ARGUMENTS_H
#define DLK_TOOLS_ARGUMENTS_H

#include <stdbool.h>
#include <stddef.h>

#include "dlk/dlk.h"

typedef struct dlk_tool_argument {
    dlk_input input; /* its tensor, when it is one, is `tensor` below */
    DLTensor tensor; /* without data */
    int64_t shape[DLK_NDIM_MAX], strides[DLK_NDIM_MAX];
} dlk_tool_argument;

/* False with a message that shows how an argument is written. `out` may not be moved afterwards. */
bool dlk_tool_argument_parse(const char *text, dlk_tool_argument *out, char *message, size_t message_bytes);
/* "2", "0.5", "true" as a weak scalar; false when it is none. */
bool dlk_tool_scalar_parse(const char *text, dlk_scalar *out);
/* "1,-2" as axes; the number of them, or -1. */
int dlk_tool_axes_parse(const char *text, int32_t out[DLK_NDIM_MAX]);

#endif
