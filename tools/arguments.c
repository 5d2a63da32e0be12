/* A small reader that remembers where it stopped, so that a message can point there. */
#include "tools/arguments.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char how[] = "a tensor is written like 'f32[1024,1024]', with '.T' or ':strides(1,1024)' behind it for "
                          "another layout; a number like '2' or '0.5' is a weak scalar";

typedef struct reader {
    const char *text, *at;
    char *message;
    size_t message_bytes;
} reader;

static bool complain(const reader *r, const char *expected)
{
    snprintf(r->message, r->message_bytes, "'%s': expected %s at column %d; %s", r->text, expected,
             (int)(r->at - r->text) + 1, how);
    return false;
}

static void skip_blanks(reader *r)
{
    r->at += strspn(r->at, " ");
}

static bool accept(reader *r, const char *word)
{
    skip_blanks(r);
    const size_t length = strlen(word);
    if (strncmp(r->at, word, length) != 0)
        return false;
    r->at += length;
    return true;
}

static bool read_int(reader *r, int64_t least, int64_t *out)
{
    skip_blanks(r);
    char *end;
    errno = 0;
    const long long value = strtoll(r->at, &end, 10);
    if (end == r->at || errno || value < least)
        return false;
    r->at = end;
    *out = value;
    return true;
}

static int refuse_ints(const reader *r, const char *expected)
{
    complain(r, expected);
    return -1;
}

/* Numbers with commas between, up to `close`; the count, or -1 with the message set. */
static int read_ints(reader *r, int64_t least, const char *close, const char *what, int64_t out[DLK_NDIM_MAX])
{
    int n = 0;
    if (*close && accept(r, close))
        return 0;
    do {
        if (n == DLK_NDIM_MAX || !read_int(r, least, &out[n]))
            return refuse_ints(r, what);
        n++;
    } while (accept(r, ","));
    if (accept(r, close))
        return n;
    return refuse_ints(r, *close == ']' ? "',' or ']'" : "',' or ')'");
}

static bool fill_strides(reader *r, dlk_tool_argument *out)
{
    int64_t step = 1;
    for (int i = out->tensor.ndim - 1; i >= 0; i--) {
        out->strides[i] = step;
        if (__builtin_mul_overflow(step, out->shape[i], &step))
            return complain(r, "fewer elements");
    }
    out->tensor.strides = out->strides;
    return true;
}

static void reverse(int64_t *values, int n)
{
    for (int i = 0; i < n / 2; i++) {
        const int64_t value = values[i];
        values[i] = values[n - 1 - i];
        values[n - 1 - i] = value;
    }
}

static bool read_layout(reader *r, dlk_tool_argument *out)
{
    const int ndim = out->tensor.ndim;
    if (accept(r, ".T")) {
        if (!out->tensor.strides && !fill_strides(r, out))
            return false;
        reverse(out->shape, ndim);
        reverse(out->strides, ndim);
        return true;
    }
    if (!accept(r, ":strides("))
        return complain(r, "the end, '.T' or ':strides('");
    const int n = read_ints(r, INT64_MIN, ")", "a stride in elements", out->strides);
    if (n < 0)
        return false;
    out->tensor.strides = out->strides;
    return n == ndim || complain(r, "as many strides as extents");
}

static bool read_tensor(reader *r, dlk_tool_argument *out)
{
    char dtype[32];
    const size_t length = strcspn(r->at, "[");
    if (!r->at[length] || length >= sizeof dtype)
        return complain(r, "a dtype and '[', or a number,");
    memcpy(dtype, r->at, length);
    dtype[length] = '\0';
    if (dlk_dtype_parse(dtype, &out->tensor.dtype) != DLK_OK) {
        snprintf(r->message, r->message_bytes, "'%s': %s", r->text, dlk_last_error());
        return false;
    }
    r->at += length + 1;
    out->tensor.device = (DLDevice){kDLCPU, 0};
    out->tensor.shape = out->shape;
    out->tensor.ndim = read_ints(r, 0, "]", "an extent", out->shape);
    if (out->tensor.ndim < 0)
        return false;
    for (skip_blanks(r); *r->at; skip_blanks(r))
        if (!read_layout(r, out))
            return false;
    out->input = dlk_input_tensor(&out->tensor);
    return true;
}

bool dlk_tool_scalar_parse(const char *text, dlk_scalar *out)
{
    char *end;
    memset(out, 0, sizeof *out);
    if (!strcmp(text, "true") || !strcmp(text, "false")) {
        out->kind = DLK_SCALAR_BOOL;
        out->value.i = *text == 't';
        return true;
    }
    errno = 0;
    out->kind = DLK_SCALAR_INT;
    out->value.i = strtoll(text, &end, 0);
    if (end != text && !*end && !errno)
        return true;
    errno = 0;
    out->kind = DLK_SCALAR_UINT;
    out->value.u = strtoull(text, &end, 0);
    if (end != text && !*end && !errno && *text != '-')
        return true;
    out->kind = DLK_SCALAR_FLOAT;
    out->value.f = strtod(text, &end);
    return end != text && !*end;
}

int dlk_tool_axes_parse(const char *text, int32_t out[DLK_NDIM_MAX])
{
    char message[256];
    int64_t axes[DLK_NDIM_MAX];
    reader r = {text, text, message, sizeof message};
    const int n = read_ints(&r, -DLK_NDIM_MAX, "", "an axis", axes);
    for (int i = 0; i < n; i++) {
        if (axes[i] >= DLK_NDIM_MAX)
            return -1;
        out[i] = (int32_t)axes[i];
    }
    return n < 0 || *r.at ? -1 : n;
}

bool dlk_tool_argument_parse(const char *text, dlk_tool_argument *out, char *message, size_t message_bytes)
{
    memset(out, 0, sizeof *out);
    out->input = dlk_input_tensor(NULL);
    if (dlk_tool_scalar_parse(text, &out->input.scalar))
        return true;
    reader r = {text, text, message, message_bytes};
    return read_tensor(&r, out);
}
