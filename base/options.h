/* Options: rows of options.def, read once from the environment, changeable by dlk_option_set. */
#ifndef DLK_BASE_OPTIONS_H
#define DLK_BASE_OPTIONS_H

#include <stdbool.h>
#include <stdint.h>

typedef enum dlk_option {
#define OPTION(name, kind, value, unit, text) DLK_OPTION_##name,
#include "base/options.def"
#undef OPTION
    DLK_OPTION_COUNT
} dlk_option;

int64_t dlk_option_int(dlk_option option);
/* Valid until the option is set again; never NULL. */
const char *dlk_option_string(dlk_option option);
/* Changes with every dlk_option_set, so that cached decisions know when to look again. */
uint32_t dlk_option_epoch(void);
/* True when the option DUMP lists `stage`. */
bool dlk_dump_wanted(const char *stage);
/* True when DLK_FAIL says that this call of `resource` must fail. */
bool dlk_fail_injected(const char *resource);

#endif
