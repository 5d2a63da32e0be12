/* The passes between a schedule and a printer, in order: what the target lacks is expanded, then equal nodes are merged and
 * unused ones dropped (every rewrite drops those). */
#include "codegen/rewrite.h"
#include "codegen/schedule.h"

static dlk_status check(const dlk_func *func)
{
#ifndef NDEBUG
    return dlk_ir_verify(func);
#else
    (void)func;
    return DLK_OK;
#endif
}

dlk_status dlk_passes_run(dlk_func *func)
{
    DLK_TRY(check(func));
    dlk_rewrite_run(func, dlk_lower_float, NULL);
    DLK_TRY(check(func));
    if (func->target->family == DLK_TARGET_CPU) /* a GPU's printer guards lanes one by one */
        dlk_rewrite_run(func, dlk_lower_partial, NULL);
    DLK_TRY(check(func));
    dlk_merge_run(func);
    return check(func);
}
