/* The texts that the build puts into the library are those of the .dlk files, byte for byte. */
#include "tests/test.h"

#include "kernels/embedded.h"

/* DLK_KERNELS_FOLDER is where the sources lie; the build defines it. */
static void check_same(const dlk_kernel_text *row)
{
    char path[4096];
    snprintf(path, sizeof path, "%s/%s", DLK_KERNELS_FOLDER, row->file);
    FILE *file = fopen(path, "rbe");
    CHECK_MSG(file, "%s", path);
    if (!file)
        return;
    char *bytes = malloc(row->bytes + 2);
    const size_t got = fread(bytes, 1, row->bytes + 2, file);
    fclose(file);
    CHECK_MSG(got == row->bytes && !memcmp(bytes, row->text, got), "%s differs", row->file);
    CHECK(!row->text[row->bytes]);
    free(bytes);
}

TEST(embedded_texts_are_the_files)
{
    if (!dlk_kernel_texts_count)
        SKIP("there are no kernels/*.dlk yet");
    for (int i = 0; i < dlk_kernel_texts_count; i++)
        check_same(&dlk_kernel_texts[i]);
}

TEST(embedded_texts_are_in_order)
{
    for (int i = 1; i < dlk_kernel_texts_count; i++)
        CHECK(strcmp(dlk_kernel_texts[i - 1].file, dlk_kernel_texts[i].file) < 0);
}
