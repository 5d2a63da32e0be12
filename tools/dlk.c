/* dlk, the command line: what devices and operations there are, and what code an operation becomes for given arguments. */
#include "tools/commands.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

typedef struct command {
    const char *name, *usage, *text;
    int (*run)(const dlk_tool_request *request);
} command;

static const command commands[] = {
    {"devices", "dlk devices", "devices, and what kernels are compiled for", dlk_tool_devices},
    {"ops", "dlk ops [NAME ...]", "operations: signature, formula, dtypes, documentation", dlk_tool_ops},
    {"show", "dlk show OP ARGUMENT ...", "the kernel that these arguments get: IR, source, assembly", dlk_tool_show},
    {"options", "dlk options", "options, their environment variables and values", dlk_tool_options},
};
enum { N_COMMANDS = sizeof commands / sizeof *commands };

/* A flag takes its value from the same word behind '=' or from the next word. False when the value is wrong. */
typedef struct flag {
    const char *name, *value, *text; /* value "": takes none */
    bool (*take)(dlk_tool_request *request, const char *value);
} flag;

static bool take_json(dlk_tool_request *request, const char *value)
{
    (void)value;
    request->is_json = true;
    return true;
}

static bool take_axes(dlk_tool_request *request, const char *value)
{
    request->params.axes = request->axes;
    if (!strcmp(value, "none"))
        return true;
    request->params.n_axes = dlk_tool_axes_parse(value, request->axes);
    return request->params.n_axes > 0;
}

static bool take_keepdims(dlk_tool_request *request, const char *value)
{
    (void)value;
    request->params.keepdims = 1;
    return true;
}

static bool take_dtype(dlk_tool_request *request, const char *value)
{
    return dlk_dtype_parse(value, &request->params.dtype) == DLK_OK;
}

static bool take_scalar(dlk_tool_request *request, const char *value)
{
    const char *equals = strchr(value, '=');
    if (!equals || equals == value || request->params.n_scalars == DLK_TOOL_ARGUMENTS_MAX)
        return false;
    dlk_named_scalar *scalar = &request->scalars[request->params.n_scalars++];
    scalar->name = strndup(value, (size_t)(equals - value)); /* lives as long as the program */
    request->params.scalars = request->scalars;
    return scalar->name && dlk_tool_scalar_parse(equals + 1, &scalar->value);
}

static bool take_stages(dlk_tool_request *request, const char *value)
{
    request->stages = value;
    return *value;
}

static bool take_option(dlk_tool_request *request, const char *value)
{
    (void)request;
    const char *equals = strchr(value, '=');
    char *name = equals ? strndup(value, (size_t)(equals - value)) : NULL;
    const bool is_set = name && dlk_option_set(name, equals + 1) == DLK_OK;
    free(name);
    return is_set;
}

static const flag flags[] = {
    {"--json", "", "for programs", take_json},
    {"--stages", "LIST", "of show: signature, plan, prog, ir, source, asm; without it ir,source,asm", take_stages},
    {"--axes", "LIST", "of show: axes to reduce, as 0,-1, or none; without it all", take_axes},
    {"--keepdims", "", "of show: reduced axes stay, with extent 1", take_keepdims},
    {"--dtype", "DTYPE", "of show: computed and returned in it, as f64", take_dtype},
    {"--scalar", "NAME=VALUE", "of show: a named scalar of the definition, as eps=1e-6", take_scalar},
    {"--option", "NAME=VALUE", "an option, as cpu_target=v3 (`dlk options` lists them)", take_option},
};
enum { N_FLAGS = sizeof flags / sizeof *flags };

static int print_help(FILE *out)
{
    fprintf(out, "dlk %d.%d: compute kernels for DLPack tensors\n\n", DLK_VERSION_MAJOR, DLK_VERSION_MINOR);
    for (int i = 0; i < N_COMMANDS; i++)
        fprintf(out, "  %-26s %s\n", commands[i].usage, commands[i].text);
    fputs("\nFlags:\n", out);
    for (int i = 0; i < N_FLAGS; i++)
        fprintf(out, "  %-10s %-15s %s\n", flags[i].name, flags[i].value, flags[i].text);
    fputs("\nArguments of show are tensors without data, as 'f32[1024,1024]', 'f32[8,8].T' or 'u8[4,3]:strides(1,4)',\n"
          "or numbers. OP is a name of `dlk ops`, or a definition:\n\n"
          "  dlk show add 'f32[1024]' 'f32[1024]'\n"
          "  dlk show sum 'f16[64,64].T' --axes 0\n"
          "  dlk show 'f(x, y) = x * y + 1' 'f32[1000]' 'f32[1000]' --stages source\n",
          out);
    return out == stdout ? DLK_TOOL_EXIT_OK : DLK_TOOL_EXIT_USAGE;
}

int dlk_tool_fail(const dlk_tool_request *request, int exit_status, dlk_status status, const char *format, ...)
{
    char text[8192];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    if (!request->is_json) {
        fprintf(stderr, "dlk: %s\n", text);
        return exit_status;
    }
    dlk_tool_json json = {.out = stdout};
    dlk_tool_json_open(&json, NULL, '{');
    dlk_tool_json_string(&json, "error", dlk_status_name(status));
    dlk_tool_json_string(&json, "message", text);
    dlk_tool_json_close(&json, '}');
    return exit_status;
}

/* Is `word` this flag? Then its value, NULL when it has none though it needs one. */
static bool match_flag(const flag *f, char **words, int n_words, int *at, const char **value)
{
    const char *word = words[*at];
    const size_t length = strlen(f->name);
    if (strncmp(word, f->name, length) != 0 || (word[length] && word[length] != '='))
        return false;
    if (!*f->value)
        *value = word[length] ? NULL : "";
    else if (word[length])
        *value = word + length + 1;
    else
        *value = *at + 1 < n_words ? words[++*at] : NULL;
    return true;
}

static int take_flag(dlk_tool_request *request, char **words, int n_words, int *at)
{
    const char *word = words[*at], *value = NULL;
    for (int i = 0; i < N_FLAGS; i++) {
        if (!match_flag(&flags[i], words, n_words, at, &value))
            continue;
        if (value && flags[i].take(request, value))
            return DLK_TOOL_EXIT_OK;
        return dlk_tool_fail(request, DLK_TOOL_EXIT_USAGE, DLK_ERR_INVALID, "%s takes %s, not '%s': %s%s%s",
                             flags[i].name, *flags[i].value ? flags[i].value : "no value", value ? value : "",
                             flags[i].text, *dlk_last_error() ? "; " : "", dlk_last_error());
    }
    return dlk_tool_fail(request, DLK_TOOL_EXIT_USAGE, DLK_ERR_INVALID, "there is no flag '%s'; type: dlk help", word);
}

/* A negative number is an argument, not a flag. */
static bool is_flag(const char *word)
{
    dlk_scalar scalar;
    return word[0] == '-' && word[1] && !dlk_tool_scalar_parse(word, &scalar);
}

static int read_words(dlk_tool_request *request, int n_words, char **words)
{
    for (int i = 0; i < n_words; i++)
        request->is_json = request->is_json || !strcmp(words[i], "--json");
    for (int i = 0; i < n_words; i++) {
        if (is_flag(words[i])) {
            const int wrong = take_flag(request, words, n_words, &i);
            if (wrong)
                return wrong;
        } else if (request->n_words == DLK_TOOL_ARGUMENTS_MAX + 2) {
            return dlk_tool_fail(request, DLK_TOOL_EXIT_USAGE, DLK_ERR_INVALID, "more than %d arguments",
                                 DLK_TOOL_ARGUMENTS_MAX);
        } else {
            request->words[request->n_words++] = words[i];
        }
    }
    return DLK_TOOL_EXIT_OK;
}

/* How many letters to change, insert or leave out to make one word of the other. */
static int distance(const char *a, const char *b)
{
    int row[32];
    const int n = (int)strlen(b);
    if (n >= 31 || strlen(a) >= 31)
        return 99;
    for (int j = 0; j <= n; j++)
        row[j] = j;
    for (int i = 0; a[i]; i++) {
        int diagonal = row[0]++;
        for (int j = 0; j < n; j++) {
            const int changed = diagonal + (a[i] != b[j]), shorter = row[j] + 1, longer = row[j + 1] + 1;
            diagonal = row[j + 1];
            row[j + 1] = changed < shorter ? changed : shorter;
            row[j + 1] = row[j + 1] < longer ? row[j + 1] : longer;
        }
    }
    return row[n];
}

static int refuse_command(const dlk_tool_request *request)
{
    const command *close = NULL;
    int least = 3;
    for (int i = 0; i < N_COMMANDS; i++) {
        const int d = distance(request->words[0], commands[i].name);
        if (d < least) {
            least = d;
            close = &commands[i];
        }
    }
    if (close)
        return dlk_tool_fail(request, DLK_TOOL_EXIT_USAGE, DLK_ERR_INVALID,
                             "there is no command '%s'; did you mean: %s", request->words[0], close->usage);
    return dlk_tool_fail(request, DLK_TOOL_EXIT_USAGE, DLK_ERR_INVALID, "there is no command '%s'; type: dlk help",
                         request->words[0]);
}

int main(int argc, char **argv)
{
    static dlk_tool_request request;
    request.params.size = sizeof request.params;
    if (argc < 2)
        return print_help(stderr);
    if (!strcmp(argv[1], "help") || !strcmp(argv[1], "--help") || !strcmp(argv[1], "-h"))
        return print_help(stdout);
    if (!strcmp(argv[1], "--version")) {
        printf("dlk %d.%d\n", DLK_VERSION_MAJOR, DLK_VERSION_MINOR);
        return DLK_TOOL_EXIT_OK;
    }
    const int wrong = read_words(&request, argc - 1, argv + 1);
    if (wrong)
        return wrong;
    if (!request.n_words)
        return print_help(stderr);
    for (int i = 0; i < N_COMMANDS; i++)
        if (!strcmp(request.words[0], commands[i].name))
            return commands[i].run(&request);
    return refuse_command(&request);
}
