/* Text that doubles. Old copies are left to the arena, which costs at most as much again as the text. */
#include "base/buffer.h"

#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

/* Room for `bytes` more and the NUL. False when out of memory in an arena that has no escape: the text stays as it is. */
static bool reserve(dlk_buffer *buffer, size_t bytes)
{
    if (bytes < buffer->capacity - buffer->size)
        return true;
    const size_t wanted = bytes > SIZE_MAX / 4 ? SIZE_MAX : buffer->size + bytes + 1;
    const size_t capacity = wanted < 128 ? 256 : wanted > SIZE_MAX / 2 ? SIZE_MAX : wanted * 2;
    char *data = dlk_arena_alloc(buffer->arena, capacity);
    if (!data)
        return false;
    if (buffer->size)
        memcpy(data, buffer->data, buffer->size);
    buffer->data = data;
    buffer->capacity = capacity;
    return true;
}

void dlk_buffer_append(dlk_buffer *buffer, const void *data, size_t bytes)
{
    if (!reserve(buffer, bytes))
        return;
    if (bytes)
        memcpy(buffer->data + buffer->size, data, bytes);
    buffer->size += bytes;
    buffer->data[buffer->size] = '\0';
}

void dlk_buffer_puts(dlk_buffer *buffer, const char *text)
{
    dlk_buffer_append(buffer, text, strlen(text));
}

void dlk_buffer_printf(dlk_buffer *buffer, const char *format, ...)
{
    va_list args, again;
    va_start(args, format);
    va_copy(again, args);
    const size_t room = buffer->capacity - buffer->size;
    const int length = vsnprintf(room ? buffer->data + buffer->size : NULL, room, format, args);
    va_end(args);
    if (length >= 0 && (size_t)length >= room && reserve(buffer, (size_t)length))
        vsnprintf(buffer->data + buffer->size, (size_t)length + 1, format, again);
    va_end(again);
    if (length >= 0 && (size_t)length < buffer->capacity - buffer->size)
        buffer->size += (size_t)length;
    else if (room)
        buffer->data[buffer->size] = '\0';
}
