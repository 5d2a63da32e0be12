/* Shared memory as a GPU sees it: subgroups meet only at barriers. */
#ifndef DLK_CODEGEN_RACE_H
#define DLK_CODEGEN_RACE_H

#include <stdbool.h>
#include <stdint.h>

typedef struct dlk_race_cell { /* who touched a byte last, and in which epoch (the number of barriers before) */
    int32_t writer, written;
    int32_t reader, read;
} dlk_race_cell;

void dlk_race_reset(dlk_race_cell *cells, int64_t n);
/* What is wrong with the subgroup's access to n bytes, or NULL. changes: the bytes written differ from those there. */
const char *dlk_race_read(dlk_race_cell *cells, int n, int32_t subgroup, int32_t epoch);
const char *dlk_race_write(dlk_race_cell *cells, int n, int32_t subgroup, int32_t epoch, bool changes);

#endif
