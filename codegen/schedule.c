/* The one entry of the schedules. */
#include "codegen/schedule.h"

dlk_status dlk_schedule(const dlk_prog *prog, const dlk_nest *nest, const dlk_target *target, dlk_arena *arena,
                        dlk_func **out)
{
    if (target->family == DLK_TARGET_GPU)
        return dlk_schedule_gpu(prog, nest, target, arena, out);
    return dlk_schedule_cpu(prog, nest, target, arena, out);
}
