/* Texts of stages. The only file of the runtime that writes to the terminal, and only when option DUMP asks for it. */
#include "runtime/dump.h"

#include <stdio.h>
#include <string.h>

#include "base/options.h"

/* ---- Kernels ----------------------------------------------------------------------------------------------------- */

static dlk_status dump_code(const dlk_backend *backend, const dlk_signature *signature, const dlk_prog *prog,
                            const char *stage, dlk_arena *arena, dlk_buffer *out)
{
    const dlk_func *func = NULL;
    dlk_buffer source = {0};
    DLK_TRY(dlk_kernel_source(backend, signature, prog, arena, &func, &source));
    if (!strcmp(stage, "ir"))
        dlk_ir_print(func, out);
    else if (!strcmp(stage, "source"))
        dlk_buffer_append(out, source.data, source.size);
    else if (!backend->listing)
        return dlk_fail(DLK_ERR_UNSUPPORTED, "stage asm: backend %s has no assembly", backend->name);
    else
        return backend->listing(func->target, source.data, source.size, out);
    return DLK_OK;
}

dlk_status dlk_dump_text(const dlk_backend *backend, const dlk_signature *signature, const dlk_prog *prog,
                         const char *stage, dlk_buffer *out)
{
    if (!strcmp(stage, "signature")) {
        dlk_signature_print(signature, out);
        return DLK_OK;
    }
    if (!strcmp(stage, "prog")) {
        dlk_prog_print(prog, out);
        return DLK_OK;
    }
    if (strcmp(stage, "ir") != 0 && strcmp(stage, "source") != 0 && strcmp(stage, "asm") != 0)
        return dlk_fail(DLK_ERR_NOT_FOUND, "there is no stage '%s'; there are: signature plan prog ir source asm",
                        stage);
    dlk_arena arena = {0};
    const dlk_status status = dump_code(backend, signature, prog, stage, &arena, out);
    dlk_arena_free(&arena);
    return status;
}

/* ---- Option DUMP ------------------------------------------------------------------------------------------------- */

static void print_stage(const char *stage, const dlk_buffer *text)
{
    fprintf(stderr, "---- %s\n%s\n", stage, text->data ? text->data : "");
}

void dlk_dump_kernel(const dlk_backend *backend, const dlk_signature *signature, const dlk_prog *prog)
{
    static const char *const stages[] = {"signature", "prog", "ir", "source", "asm"};
    for (size_t i = 0; i < sizeof stages / sizeof *stages; i++) {
        dlk_arena arena = {0};
        dlk_buffer text = {.arena = &arena};
        if (dlk_dump_wanted(stages[i]) && dlk_dump_text(backend, signature, prog, stages[i], &text) == DLK_OK)
            print_stage(stages[i], &text);
        dlk_arena_free(&arena);
    }
}

void dlk_dump_plan(const dlk_launch_plan *plan)
{
    dlk_arena arena = {0};
    dlk_buffer text = {.arena = &arena};
    if (dlk_dump_wanted("plan")) {
        dlk_launch_plan_print(plan, &text);
        print_stage("plan", &text);
    }
    dlk_arena_free(&arena);
}
