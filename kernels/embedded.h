/* The library's own definitions, the .dlk files beside this one, as the build put them into the library
 * (cmake/embed.cmake). */
#ifndef DLK_KERNELS_EMBEDDED_H
#define DLK_KERNELS_EMBEDDED_H

#include <stddef.h>

typedef struct dlk_kernel_text {
    const char *file; /* "math.dlk" */
    const char *text; /* NUL-terminated */
    size_t bytes;     /* without the NUL */
} dlk_kernel_text;

/* In the order of the file names; a file may use operations of any other. */
extern const dlk_kernel_text dlk_kernel_texts[];
extern const int dlk_kernel_texts_count;

#endif
