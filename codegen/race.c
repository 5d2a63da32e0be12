/* Races on shared memory. The interpreter runs all threads in lockstep, where a missing barrier does no harm; this is how it
 * is found all the same. */
#include "codegen/race.h"

#include <stddef.h>

enum { NOBODY = -1, SEVERAL = -2 };

static bool is_other(int32_t who, int32_t subgroup)
{
    return who != NOBODY && who != subgroup;
}

void dlk_race_reset(dlk_race_cell *cells, int64_t n)
{
    for (int64_t k = 0; k < n; k++)
        cells[k] = (dlk_race_cell){NOBODY, 0, NOBODY, 0};
}

const char *dlk_race_read(dlk_race_cell *cells, int n, int32_t subgroup, int32_t epoch)
{
    const char *wrong = NULL;
    for (int k = 0; k < n; k++) {
        dlk_race_cell *c = &cells[k];
        if (c->written == epoch && is_other(c->writer, subgroup))
            wrong = "shared memory read without a barrier after another subgroup wrote it";
        c->reader = c->read == epoch && is_other(c->reader, subgroup) ? SEVERAL : subgroup;
        c->read = epoch;
    }
    return wrong;
}

const char *dlk_race_write(dlk_race_cell *cells, int n, int32_t subgroup, int32_t epoch, bool changes)
{
    const char *wrong = NULL;
    for (int k = 0; k < n; k++) {
        dlk_race_cell *c = &cells[k];
        if (c->read == epoch && is_other(c->reader, subgroup))
            wrong = "shared memory written without a barrier after another subgroup read it";
        if (c->written == epoch && is_other(c->writer, subgroup) && changes)
            wrong = "shared memory written by two subgroups without a barrier between";
        c->writer = subgroup;
        c->written = epoch;
    }
    return wrong;
}
