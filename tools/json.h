/* JSON, written as it comes. */
#ifndef DLK_TOOLS_JSON_H
#define DLK_TOOLS_JSON_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

typedef struct dlk_tool_json {
    FILE *out;
    int depth;
    bool is_first; /* nothing stands yet in the innermost object or array */
} dlk_tool_json;

/* `key` is NULL inside arrays and at the top. */
void dlk_tool_json_open(dlk_tool_json *json, const char *key, char bracket); /* '{' or '[' */
void dlk_tool_json_close(dlk_tool_json *json, char bracket);                 /* '}' or ']' */
void dlk_tool_json_string(dlk_tool_json *json, const char *key, const char *value);
void dlk_tool_json_int(dlk_tool_json *json, const char *key, int64_t value);
void dlk_tool_json_bool(dlk_tool_json *json, const char *key, bool value);
void dlk_tool_json_number(dlk_tool_json *json, const char *key, double value); /* null when not finite */

#endif
