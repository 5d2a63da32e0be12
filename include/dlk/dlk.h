/* dlk: elementwise and reduction kernels for tensors that it does not own. */
#ifndef DLK_DLK_H
#define DLK_DLK_H

#include "dlk/dlpack.h"

#ifdef __cplusplus
extern "C" {
#endif

#define DLK_VERSION_MAJOR 0
#define DLK_VERSION_MINOR 1

#if defined(__GNUC__)
#define DLK_API __attribute__((visibility("default")))
#else
#define DLK_API
#endif

/* ---- Errors ------------------------------------------------------------------------------------------------------ */

typedef enum dlk_status {
    DLK_OK = 0,
    DLK_ERR_INVALID = 10,     /* an argument is wrong in itself */
    DLK_ERR_SHAPE = 11,       /* shapes do not broadcast, or an output has another shape */
    DLK_ERR_DTYPE = 12,       /* the operation does not take these dtypes */
    DLK_ERR_LAYOUT = 13,      /* strides, alignment or overlap are not allowed there */
    DLK_ERR_DEVICE = 14,      /* tensors on different or foreign devices */
    DLK_ERR_SYNTAX = 15,      /* definition text is wrong: line and column are in the message */
    DLK_ERR_NOT_FOUND = 16,   /* no such operation, implementation or option */
    DLK_ERR_UNSUPPORTED = 20, /* right, but this device or build cannot do it */
    DLK_ERR_NO_DEVICE = 30,
    DLK_ERR_NO_LIBRARY = 31,
    DLK_ERR_DRIVER = 32,
    DLK_ERR_COMPILE = 40,
    DLK_ERR_MEMORY = 50,
    DLK_ERR_IO = 60,
    DLK_ERR_INTERNAL = 90
} dlk_status;

#ifdef __cplusplus
}
#endif

#endif /* DLK_DLK_H */
