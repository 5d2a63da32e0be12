/* Indented, one value a line, so that it can be read and compared too. */
#include "tools/json.h"

#include <inttypes.h>
#include <math.h>

static void write_text(FILE *out, const char *text)
{
    putc('"', out);
    for (const unsigned char *p = (const unsigned char *)text; *p; p++) {
        if (*p == '"' || *p == '\\')
            fprintf(out, "\\%c", *p);
        else if (*p == '\n')
            fputs("\\n", out);
        else if (*p < 0x20 || *p == 0x7f)
            fprintf(out, "\\u%04x", *p);
        else
            putc(*p, out);
    }
    putc('"', out);
}

static void begin_value(dlk_tool_json *json, const char *key)
{
    if (json->depth)
        fprintf(json->out, "%s\n%*s", json->is_first ? "" : ",", 2 * json->depth, "");
    json->is_first = false;
    if (key) {
        write_text(json->out, key);
        fputs(": ", json->out);
    }
}

void dlk_tool_json_open(dlk_tool_json *json, const char *key, char bracket)
{
    begin_value(json, key);
    putc(bracket, json->out);
    json->depth++;
    json->is_first = true;
}

void dlk_tool_json_close(dlk_tool_json *json, char bracket)
{
    json->depth--;
    if (!json->is_first)
        fprintf(json->out, "\n%*s", 2 * json->depth, "");
    putc(bracket, json->out);
    json->is_first = false;
    if (!json->depth)
        putc('\n', json->out);
}

void dlk_tool_json_string(dlk_tool_json *json, const char *key, const char *value)
{
    begin_value(json, key);
    write_text(json->out, value ? value : "");
}

void dlk_tool_json_int(dlk_tool_json *json, const char *key, int64_t value)
{
    begin_value(json, key);
    fprintf(json->out, "%" PRId64, value);
}

void dlk_tool_json_bool(dlk_tool_json *json, const char *key, bool value)
{
    begin_value(json, key);
    fputs(value ? "true" : "false", json->out);
}

void dlk_tool_json_number(dlk_tool_json *json, const char *key, double value)
{
    begin_value(json, key);
    if (isfinite(value))
        fprintf(json->out, "%.17g", value);
    else
        fputs("null", json->out);
}
