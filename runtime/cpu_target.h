/* What the CPU's kernels are compiled for: a psABI level (x86-64-v2, v3, v4), chosen by option CPU_TARGET among those that
 * this processor has. */
#ifndef DLK_RUNTIME_CPU_TARGET_H
#define DLK_RUNTIME_CPU_TARGET_H

#include "base/status.h"
#include "codegen/target.h"

/* DLK_ERR_UNSUPPORTED names the feature that the processor lacks; DLK_ERR_INVALID an unknown level. */
dlk_status dlk_cpu_target(const char *level, dlk_target *out);
/* The processor's own name, into `out`. */
void dlk_cpu_name(char *out, int out_bytes);

#endif
