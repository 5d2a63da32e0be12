/* The passes between a schedule and a printer, in order. */
#include "codegen/rewrite.h"
#include "codegen/schedule.h"

static dlk_status run_pass(dlk_func *func, dlk_replace replace)
{
    dlk_rewrite_run(func, replace);
#ifndef NDEBUG
    DLK_TRY(dlk_ir_verify(func));
#endif
    return DLK_OK;
}

/* An exact f64 FMA without the instruction is work that nobody has asked for on such old processors. */
static dlk_status check_supported(const dlk_func *func)
{
    for (dlk_val v = 0; v < func->n_nodes; v++)
        if (func->nodes[v].op == DLK_IR_PRIM && func->nodes[v].prim == DLK_PRIM_FMA &&
            func->nodes[v].type.kind == DLK_F64 && !func->target->has_fma)
            return dlk_fail(DLK_ERR_UNSUPPORTED, "fma of float64 on %s, which has no fused multiply-add",
                            func->target->name);
    return DLK_OK;
}

dlk_status dlk_passes_run(dlk_func *func)
{
#ifndef NDEBUG
    DLK_TRY(dlk_ir_verify(func));
#endif
    DLK_TRY(check_supported(func));
    DLK_TRY(run_pass(func, dlk_lower_float));
    return func->target->family == DLK_TARGET_CPU ? run_pass(func, dlk_lower_partial) : DLK_OK;
}
