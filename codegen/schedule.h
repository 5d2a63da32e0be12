/* From a scalar program and a nest to IR. A schedule is a list of axis bindings (schedule.c splits axes and binds each part
 * to items, threads, lanes, loops or unrolled copies); schedule_cpu and schedule_gpu only choose the bindings. */
#ifndef DLK_CODEGEN_SCHEDULE_H
#define DLK_CODEGEN_SCHEDULE_H

#include "codegen/ir.h"
#include "codegen/prog.h"

/* The CPU's or the GPU's bindings, by target->family. DLK_ERR_UNSUPPORTED names what the target lacks. */
dlk_status dlk_schedule(const dlk_prog *prog, const dlk_nest *nest, const dlk_target *target, dlk_arena *arena,
                        dlk_func **out);
dlk_status dlk_schedule_cpu(const dlk_prog *prog, const dlk_nest *nest, const dlk_target *target, dlk_arena *arena,
                            dlk_func **out);
dlk_status dlk_schedule_gpu(const dlk_prog *prog, const dlk_nest *nest, const dlk_target *target, dlk_arena *arena,
                            dlk_func **out);

/* passes.c: expands what the target lacks (FMA, HTOF, FTOH, partial accesses), merges equal nodes, drops dead ones. */
dlk_status dlk_passes_run(dlk_func *func);

#endif
