/* The stages of a launch as text: asked for by dlk_dump, or printed as they happen by option DUMP. */
#ifndef DLK_RUNTIME_DUMP_H
#define DLK_RUNTIME_DUMP_H

#include "runtime/kernel.h"

/* The text of one stage of a kernel: "signature", "prog", "ir", "source", "asm". */
dlk_status dlk_dump_text(const dlk_backend *backend, const dlk_signature *signature, const dlk_prog *prog,
                         const char *stage, dlk_buffer *out);

/* Prints the stages of a new kernel, and of a new plan, that option DUMP lists. */
void dlk_dump_kernel(const dlk_backend *backend, const dlk_signature *signature, const dlk_prog *prog);
void dlk_dump_plan(const dlk_launch_plan *plan);

#endif
