/* Sets of definitions by name, and the one that is the library's own. */
#ifndef DLK_KERNELS_LIBRARY_H
#define DLK_KERNELS_LIBRARY_H

#include "kernels/parse.h"

typedef struct dlk_names { /* ordered by name, each once */
    const dlk_overloads *const *sets;
    int n;
} dlk_names;

/* NULL when there is none. */
const dlk_overloads *dlk_names_find(const dlk_names *names, const char *name);

/* The definitions of `parsed` by name. Overloads of one name must have the same number of inputs and the same scalars; a
 * table has one definition. DLK_ERR_SYNTAX names the place. `arena` must have an escape. */
dlk_status dlk_names_make(dlk_arena *arena, const dlk_parsed *parsed, int n_parsed, bool is_library, dlk_names *out);

/* Parses the library on the first call of the process; DLK_ERR_MEMORY, and a later call tries again. */
dlk_status dlk_library_load(void);
/* After a dlk_library_load that succeeded. */
const dlk_names *dlk_library_names(void);
const dlk_overloads *dlk_library_find(const char *name);

/* True when `name` means something without a definition: a primitive, a built-in function or a type. */
bool dlk_name_is_builtin(const char *name);
/* DLK_ERR_SYNTAX when a definition of `names` uses a name that neither it nor `outer` (may be NULL) nor the language
 * knows, or when definitions call themselves or each other in a circle. */
dlk_status dlk_names_check(dlk_arena *arena, const dlk_names *names, const dlk_names *outer);

#endif
