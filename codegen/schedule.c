/* The one entry of the schedules. */
#include "codegen/schedule.h"

dlk_status dlk_schedule(const dlk_prog *prog, const dlk_nest *nest, const dlk_target *target, dlk_arena *arena,
                        dlk_func **out)
{
    if (target->family == DLK_TARGET_CPU)
        return dlk_schedule_cpu(prog, nest, target, arena, out);
    return dlk_fail(DLK_ERR_UNSUPPORTED, "target %s is not a CPU: there is no schedule for it", target->name);
}
