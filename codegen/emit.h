/* Printers: each prints the IR as it stands, without knowing operations, tensors or devices. */
#ifndef DLK_CODEGEN_EMIT_H
#define DLK_CODEGEN_EMIT_H

#include "codegen/ir.h"

/* LLVM 19 text with one function `kernel` (ABI in ir.h). */
dlk_status dlk_emit_llvm(const dlk_func *func, dlk_buffer *out);

typedef enum dlk_c_dialect { DLK_C_CUDA, DLK_C_HIP } dlk_c_dialect;
/* Header-free CUDA or HIP C with one kernel called `name`: one pointer parameter per global buffer, then the uniforms. */
dlk_status dlk_emit_c(const dlk_func *func, dlk_c_dialect dialect, const char *name, dlk_buffer *out);

#endif
