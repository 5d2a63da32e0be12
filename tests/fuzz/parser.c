/* Fuzz target: the text of definitions. Any text is taken or refused with a message that names line and column; what is
 * taken can be described, which builds it for every dtype; and the text of a refused definition leaves nothing behind. */
#include "tests/fuzz/fuzz.h"

#include "kernels/registry.h"

static int count_ops(dlk_registry *registry)
{
    int count = 0;
    FUZZ_CHECK(dlk_registry_list(registry, NULL, 0, &count) == DLK_OK);
    return count;
}

static bool names_a_place(const char *message)
{
    const char *line = strstr(message, "line ");
    return line && strstr(line, ", column ");
}

static void describe(const dlk_op *op)
{
    dlk_op_kind kind = DLK_OP_MAP;
    int n_outputs = 0;
    const char *dtypes = NULL;
    if (dlk_op_describe(op, &kind, &n_outputs, &dtypes) != DLK_OK) {
        FUZZ_CHECK(*dlk_last_error());
        return;
    }
    FUZZ_CHECK(kind <= DLK_OP_ROW && n_outputs >= 0 && dtypes);
}

static void define(dlk_registry *registry, const char *text)
{
    const dlk_op *op = NULL;
    const int before = count_ops(registry);
    const dlk_status status = dlk_registry_define(registry, text, &op);
    if (status != DLK_OK) {
        FUZZ_CHECK(*dlk_last_error() && count_ops(registry) == before);
        FUZZ_CHECK(status != DLK_ERR_SYNTAX || names_a_place(dlk_last_error()));
        return;
    }
    const dlk_op *found = NULL;
    FUZZ_CHECK(op && dlk_registry_find(registry, op->name, &found) == DLK_OK && found == op);
    describe(op);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    dlk_registry *registry = NULL;
    char *text = malloc(size + 1);
    if (!text)
        return 0;
    memcpy(text, data, size);
    text[size] = '\0';
    FUZZ_CHECK(dlk_registry_create(&registry) == DLK_OK);
    define(registry, text);
    dlk_registry_destroy(registry);
    free(text);
    return 0;
}
