/* Texts of stages. The only file of the runtime that writes to the terminal, and only when option DUMP asks for it. */
#include "runtime/dump.h"

#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/options.h"
#include "runtime/prepare.h"

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

static dlk_status dump_kernel(const dlk_backend *backend, const dlk_signature *signature, const dlk_prog *prog,
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
        if (dlk_dump_wanted(stages[i]) && dump_kernel(backend, signature, prog, stages[i], &text) == DLK_OK)
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

/* ---- dlk_dump ---------------------------------------------------------------------------------------------------- */

static dlk_status dump_steps(const dlk_prepared *prepared, const char *stage, dlk_buffer *out)
{
    const dlk_launch_plan *plan = prepared->plan;
    if (prepared->native)
        dlk_buffer_printf(out, "implementation %s\n", prepared->native->name);
    for (int i = 0; i < plan->n_steps; i++) {
        if (plan->n_steps > 1)
            dlk_buffer_printf(out, "%sstep %d of %d\n", i ? "\n" : "", i + 1, plan->n_steps);
        DLK_TRY(dump_kernel(prepared->backend, &plan->steps[i].signature, plan->steps[i].prog, stage, out));
    }
    return DLK_OK;
}

static dlk_status dump(const dlk_arguments *arguments, const char *stage, dlk_buffer *out)
{
    const bool is_plan = !strcmp(stage, "plan");
    dlk_prepared *prepared;
    DLK_TRY(dlk_prepare(arguments, is_plan ? DLK_PREPARE_KERNELS : DLK_PREPARE_PLAN, &prepared));
    dlk_status status = DLK_OK;
    if (is_plan)
        dlk_launch_plan_print(prepared->plan, out);
    else
        status = dump_steps(prepared, stage, out);
    dlk_prepared_release(prepared);
    return status;
}

static dlk_status keep_text(const dlk_buffer *text, char **out)
{
    char *kept = dlk_alloc(text->size + 1);
    if (!kept)
        return dlk_fail(DLK_ERR_MEMORY, "out of memory dumping");
    if (text->size)
        memcpy(kept, text->data, text->size);
    *out = kept;
    return DLK_OK;
}

dlk_status dlk_dump(dlk_context *context, const dlk_op *op, const dlk_input *inputs, int n_inputs,
                    const dlk_output *outputs, int n_outputs, const dlk_params *opt_params, const char *stage,
                    char **out)
{
    if (!stage || !out)
        return dlk_fail(DLK_ERR_INVALID, "dlk_dump: %s is NULL", stage ? "out" : "stage");
    dlk_arguments arguments;
    DLK_TRY(dlk_arguments_read(context, op, inputs, n_inputs, outputs, n_outputs, opt_params, false, &arguments));
    dlk_arena arena = {0};
    dlk_buffer text = {.arena = &arena};
    dlk_status status = dump(&arguments, stage, &text);
    if (status == DLK_OK)
        status = keep_text(&text, out);
    dlk_arena_free(&arena);
    return status;
}

void dlk_text_free(char *text)
{
    dlk_free(text);
}
