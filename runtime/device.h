/* Which memory a tensor lies in, and which backend works there. */
#ifndef DLK_RUNTIME_DEVICE_H
#define DLK_RUNTIME_DEVICE_H

#include "kernels/view.h"
#include "runtime/backend.h"

/* DLK_ERR_DEVICE unless the argument's memory can be read by this process's processors. */
dlk_status dlk_device_check(DLDevice device, dlk_argument argument);

/* The backend for host memory, by option BACKEND and by what works here, and its target. */
dlk_status dlk_device_backend(const dlk_backend **out, dlk_target *out_target);

/* Called when a backend turned out not to work after all: true when another one was chosen, to be tried instead. */
bool dlk_device_give_up(const dlk_backend *backend, dlk_status why);

#endif
