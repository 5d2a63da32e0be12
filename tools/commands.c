/* Each command asks the library and prints, as lines for people or as JSON. */
#include "tools/commands.h"

#include <stdlib.h>
#include <string.h>

static const char usual_stages[] = "ir,source,asm";

static int fail_with_last(const dlk_tool_request *request, dlk_status status)
{
    return dlk_tool_fail(request, DLK_TOOL_EXIT_FAILED, status, "%s", dlk_last_error());
}

static int refuse_words(const dlk_tool_request *request, const char *usage)
{
    return dlk_tool_fail(request, DLK_TOOL_EXIT_USAGE, DLK_ERR_INVALID, "'%s' is too much; type: %s", request->words[1],
                         usage);
}

/* ---- devices ----------------------------------------------------------------------------------------------------- */

static void print_device(const dlk_device_info *info)
{
    printf("%-8s %-40s %-12s %s%s\n", info->backend, info->name, info->target,
           info->is_available ? "" : "not available: ", info->description);
}

static void write_device(dlk_tool_json *json, const dlk_device_info *info)
{
    dlk_tool_json_open(json, NULL, '{');
    dlk_tool_json_string(json, "backend", info->backend);
    dlk_tool_json_int(json, "device_type", info->device.device_type);
    dlk_tool_json_int(json, "device_id", info->device.device_id);
    dlk_tool_json_string(json, "name", info->name);
    dlk_tool_json_string(json, "target", info->target);
    dlk_tool_json_string(json, "description", info->description);
    dlk_tool_json_bool(json, "is_available", info->is_available);
    dlk_tool_json_close(json, '}');
}

int dlk_tool_devices(const dlk_tool_request *request)
{
    enum { MOST = 64 };
    dlk_device_info infos[MOST];
    int count = 0;
    if (request->n_words > 1)
        return refuse_words(request, "dlk devices");
    const dlk_status status = dlk_device_list(NULL, infos, MOST, &count);
    if (status != DLK_OK)
        return fail_with_last(request, status);
    dlk_tool_json json = {.out = stdout};
    if (request->is_json)
        dlk_tool_json_open(&json, NULL, '[');
    for (int i = 0; i < count && i < MOST; i++) {
        if (request->is_json)
            write_device(&json, &infos[i]);
        else
            print_device(&infos[i]);
    }
    if (request->is_json)
        dlk_tool_json_close(&json, ']');
    return DLK_TOOL_EXIT_OK;
}

/* ---- options ----------------------------------------------------------------------------------------------------- */

static void write_option(dlk_tool_json *json, const dlk_option_info *info)
{
    dlk_tool_json_open(json, NULL, '{');
    dlk_tool_json_string(json, "name", info->name);
    dlk_tool_json_string(json, "variable", info->variable);
    dlk_tool_json_string(json, "value", info->value);
    dlk_tool_json_string(json, "unit", info->unit);
    dlk_tool_json_string(json, "documentation", info->documentation);
    dlk_tool_json_close(json, '}');
}

int dlk_tool_options(const dlk_tool_request *request)
{
    enum { MOST = 256 };
    static dlk_option_info infos[MOST];
    int count = 0;
    if (request->n_words > 1)
        return refuse_words(request, "dlk options");
    const dlk_status status = dlk_option_list(infos, MOST, &count);
    if (status != DLK_OK)
        return fail_with_last(request, status);
    dlk_tool_json json = {.out = stdout};
    if (request->is_json)
        dlk_tool_json_open(&json, NULL, '[');
    for (int i = 0; i < count && i < MOST; i++) {
        if (request->is_json)
            write_option(&json, &infos[i]);
        else
            printf("%-14s %-18s %-12s %s\n", infos[i].name, infos[i].variable, *infos[i].value ? infos[i].value : "-",
                   infos[i].documentation);
    }
    if (request->is_json)
        dlk_tool_json_close(&json, ']');
    return DLK_TOOL_EXIT_OK;
}

/* ---- ops --------------------------------------------------------------------------------------------------------- */

static const char *kind_name(dlk_op_kind kind)
{
    switch (kind) {
    case DLK_OP_MAP:
        return "map";
    case DLK_OP_REDUCTION:
        return "reduction";
    case DLK_OP_ROW:
        return "row";
    }
    return "unknown";
}

static void write_default(dlk_tool_json *json, const dlk_scalar *value)
{
    switch (value->kind) {
    case DLK_SCALAR_BOOL:
        dlk_tool_json_bool(json, "default", value->value.i);
        break;
    case DLK_SCALAR_INT:
        dlk_tool_json_int(json, "default", value->value.i);
        break;
    case DLK_SCALAR_FLOAT:
        dlk_tool_json_number(json, "default", value->value.f);
        break;
    case DLK_SCALAR_NONE:
    case DLK_SCALAR_UINT:
    case DLK_SCALAR_COMPLEX:
        break; /* has none, or none that JSON can say */
    }
}

static void write_op(dlk_tool_json *json, const dlk_op_info *info)
{
    dlk_tool_json_open(json, NULL, '{');
    dlk_tool_json_string(json, "name", info->name);
    dlk_tool_json_string(json, "kind", kind_name(info->kind));
    dlk_tool_json_string(json, "signature", info->signature);
    dlk_tool_json_string(json, "formula", info->formula);
    dlk_tool_json_string(json, "dtypes", info->dtypes);
    dlk_tool_json_string(json, "documentation", info->documentation);
    dlk_tool_json_int(json, "n_outputs", info->n_outputs);
    dlk_tool_json_open(json, "inputs", '[');
    for (int i = 0; i < info->n_inputs; i++)
        dlk_tool_json_string(json, NULL, info->input_names[i]);
    dlk_tool_json_close(json, ']');
    dlk_tool_json_open(json, "parameters", '[');
    for (int i = 0; i < info->n_parameters; i++) {
        dlk_tool_json_open(json, NULL, '{');
        dlk_tool_json_string(json, "name", info->parameter_names[i]);
        write_default(json, &info->parameter_defaults[i]);
        dlk_tool_json_close(json, '}');
    }
    dlk_tool_json_close(json, ']');
    dlk_tool_json_close(json, '}');
}

static void print_indented(const char *text)
{
    while (*text) {
        const size_t length = strcspn(text, "\n");
        printf("  %.*s\n", (int)length, text);
        text += length + (text[length] == '\n');
    }
}

static void print_op(const dlk_op_info *info)
{
    printf("%s\n", info->signature);
    print_indented(info->documentation);
    printf("  kind: %s, %d result%s\n", kind_name(info->kind), info->n_outputs, info->n_outputs == 1 ? "" : "s");
    printf("  dtypes: %s\n", info->dtypes);
    if (*info->formula)
        print_indented(info->formula);
}

/* To the end of the first sentence, or of the line. */
static int first_sentence(const char *text)
{
    int n = 0;
    while (text[n] && text[n] != '\n' && !(text[n] == '.' && (text[n + 1] == ' ' || text[n + 1] == '\n')))
        n++;
    return n + (text[n] == '.');
}

static void print_op_line(const dlk_op_info *info)
{
    printf("%-20s %-10s %.*s\n", info->name, kind_name(info->kind), first_sentence(info->documentation),
           info->documentation);
}

/* What the library says of `ops`, in memory of the caller; NULL after a message. */
static dlk_op_info *ask_ops(const dlk_tool_request *request, const dlk_op **ops, int count)
{
    dlk_op_info *infos = calloc((size_t)count + 1, sizeof *infos);
    dlk_status status = infos ? DLK_OK : DLK_ERR_MEMORY;
    for (int i = 0; status == DLK_OK && i < count; i++) {
        infos[i].size = sizeof infos[i];
        status = dlk_op_get_info(NULL, ops[i], &infos[i]);
    }
    if (status == DLK_OK)
        return infos;
    fail_with_last(request, status);
    free(infos);
    return NULL;
}

static int tell_ops(const dlk_tool_request *request, const dlk_op **ops, int count, bool in_full)
{
    dlk_op_info *infos = ask_ops(request, ops, count);
    if (!infos)
        return DLK_TOOL_EXIT_FAILED;
    dlk_tool_json json = {.out = stdout};
    if (request->is_json)
        dlk_tool_json_open(&json, NULL, '[');
    for (int i = 0; i < count; i++) {
        if (request->is_json)
            write_op(&json, &infos[i]);
        else if (in_full)
            print_op(&infos[i]);
        else
            print_op_line(&infos[i]);
    }
    if (request->is_json)
        dlk_tool_json_close(&json, ']');
    free(infos);
    return DLK_TOOL_EXIT_OK;
}

static int tell_all_ops(const dlk_tool_request *request)
{
    int count = 0;
    dlk_status status = dlk_op_list(NULL, NULL, 0, &count);
    if (status != DLK_OK)
        return fail_with_last(request, status);
    const dlk_op **ops = calloc((size_t)count + 1, sizeof *ops);
    status = ops ? dlk_op_list(NULL, ops, count, &count) : DLK_ERR_MEMORY;
    const int exit_status = status == DLK_OK ? tell_ops(request, ops, count, false) : fail_with_last(request, status);
    free(ops);
    return exit_status;
}

int dlk_tool_ops(const dlk_tool_request *request)
{
    const dlk_op *ops[DLK_TOOL_ARGUMENTS_MAX + 2];
    if (request->n_words == 1)
        return tell_all_ops(request);
    for (int i = 1; i < request->n_words; i++) {
        const dlk_status status = dlk_find(NULL, request->words[i], &ops[i - 1]);
        if (status != DLK_OK)
            return dlk_tool_fail(request, DLK_TOOL_EXIT_FAILED, status, "%s; type: dlk ops", dlk_last_error());
    }
    return tell_ops(request, ops, request->n_words - 1, true);
}

/* ---- show -------------------------------------------------------------------------------------------------------- */

enum { STAGES_MAX = 8 };

typedef struct stage {
    char name[32];
    char *text;         /* NULL when it is not available */
    char missing[1024]; /* why */
} stage;

typedef struct shown {
    const dlk_tool_request *request;
    const dlk_op *op;
    dlk_op_info info;
    dlk_tool_argument arguments[DLK_TOOL_ARGUMENTS_MAX];
    dlk_input inputs[DLK_TOOL_ARGUMENTS_MAX];
    dlk_output outputs[DLK_TOOL_ARGUMENTS_MAX];
    int n_inputs;
    stage stages[STAGES_MAX];
    int n_stages;
} shown;

/* A word with an equals sign is the text of a definition. */
static int find_op(shown *s, const char *word)
{
    const dlk_status status = strchr(word, '=') ? dlk_define(NULL, word, &s->op) : dlk_find(NULL, word, &s->op);
    if (status != DLK_OK)
        return dlk_tool_fail(s->request, DLK_TOOL_EXIT_FAILED, status, "%s%s", dlk_last_error(),
                             status == DLK_ERR_NOT_FOUND ? "; type: dlk ops" : "");
    s->info.size = sizeof s->info;
    const dlk_status told = dlk_op_get_info(NULL, s->op, &s->info);
    return told == DLK_OK ? DLK_TOOL_EXIT_OK : fail_with_last(s->request, told);
}

/* A command that would have been right: "dlk show add 'f32[1024]' 'f32[1024]'". */
static void write_example(const shown *s, char *out, size_t bytes)
{
    size_t used = (size_t)snprintf(out, bytes, "dlk show '%s'", s->request->words[1]);
    for (int i = 0; i < s->info.n_inputs && used < bytes; i++)
        used += (size_t)snprintf(out + used, bytes - used, " 'f32[1024]'");
}

static int read_arguments(shown *s)
{
    char message[512], example[2048];
    s->n_inputs = s->request->n_words - 2;
    if (s->n_inputs != s->info.n_inputs) {
        write_example(s, example, sizeof example);
        return dlk_tool_fail(s->request, DLK_TOOL_EXIT_USAGE, DLK_ERR_INVALID,
                             "%s takes %d argument%s, not %d; type: %s", s->info.signature, s->info.n_inputs,
                             s->info.n_inputs == 1 ? "" : "s", s->n_inputs, example);
    }
    for (int i = 0; i < s->n_inputs; i++) {
        if (!dlk_tool_argument_parse(s->request->words[2 + i], &s->arguments[i], message, sizeof message))
            return dlk_tool_fail(s->request, DLK_TOOL_EXIT_USAGE, DLK_ERR_INVALID, "argument %d (%s): %s", i + 1,
                                 s->info.input_names[i], message);
        s->inputs[i] = s->arguments[i].input;
    }
    return DLK_TOOL_EXIT_OK;
}

/* Stages that were not asked for by name may be missing (a backend without assembly): a note, not a failure. */
static int ask_stage(shown *s, const char *name, size_t length)
{
    if (s->n_stages == STAGES_MAX)
        return dlk_tool_fail(s->request, DLK_TOOL_EXIT_USAGE, DLK_ERR_INVALID, "more than %d stages", STAGES_MAX);
    stage *asked = &s->stages[s->n_stages++];
    snprintf(asked->name, sizeof asked->name, "%.*s", (int)length, name);
    const dlk_status status = dlk_dump(NULL, s->op, s->inputs, s->n_inputs, s->outputs, s->info.n_outputs,
                                       &s->request->params, asked->name, &asked->text);
    if (status == DLK_OK)
        return DLK_TOOL_EXIT_OK;
    if (s->request->stages || (status != DLK_ERR_UNSUPPORTED && status != DLK_ERR_NO_LIBRARY))
        return fail_with_last(s->request, status);
    snprintf(asked->missing, sizeof asked->missing, "%s", dlk_last_error());
    return DLK_TOOL_EXIT_OK;
}

static int ask_stages(shown *s)
{
    const char *list = s->request->stages ? s->request->stages : usual_stages;
    int exit_status = DLK_TOOL_EXIT_OK;
    while (*list && !exit_status) {
        const size_t length = strcspn(list, ",");
        exit_status = ask_stage(s, list, length);
        list += length + (list[length] == ',');
    }
    return exit_status;
}

static void write_stages(const shown *s)
{
    dlk_tool_json json = {.out = stdout};
    dlk_tool_json_open(&json, NULL, '{');
    dlk_tool_json_string(&json, "operation", s->info.name);
    dlk_tool_json_open(&json, "stages", '{');
    for (int i = 0; i < s->n_stages; i++)
        if (s->stages[i].text)
            dlk_tool_json_string(&json, s->stages[i].name, s->stages[i].text);
    dlk_tool_json_close(&json, '}');
    dlk_tool_json_close(&json, '}');
}

static void print_stages(const shown *s)
{
    for (int i = 0; i < s->n_stages; i++) {
        printf("---- %s ----\n", s->stages[i].name);
        if (s->stages[i].text)
            printf("%s\n", s->stages[i].text);
        else
            printf("not available: %s\n\n", s->stages[i].missing);
    }
}

int dlk_tool_show(const dlk_tool_request *request)
{
    static shown s;
    s.request = request;
    if (request->n_words < 2)
        return dlk_tool_fail(request, DLK_TOOL_EXIT_USAGE, DLK_ERR_INVALID,
                             "which operation? type: dlk show add 'f32[1024]' 'f32[1024]'");
    int exit_status = find_op(&s, request->words[1]);
    if (!exit_status)
        exit_status = read_arguments(&s);
    if (exit_status)
        return exit_status;
    exit_status = ask_stages(&s);
    if (!exit_status && request->is_json)
        write_stages(&s);
    else if (!exit_status)
        print_stages(&s);
    for (int i = 0; i < s.n_stages; i++)
        dlk_text_free(s.stages[i].text);
    return exit_status;
}
