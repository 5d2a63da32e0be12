/* What this thread launched lately, ready to run again: exact arguments to prepared launch. No other thread looks in here,
 * so it takes no lock; the epoch tells when an entry is out of date. */
#ifndef DLK_RUNTIME_RECENT_H
#define DLK_RUNTIME_RECENT_H

#include "runtime/prepare.h"

#define DLK_KEY_WORDS 1024

typedef struct dlk_recent_key { /* everything that a prepared launch depends on but addresses and values */
    int n;                      /* words; 0: too many to be kept */
    uint64_t epoch;
    uint64_t hash; /* set by dlk_recent_find when it does not find it at once */
    uint64_t words[DLK_KEY_WORDS];
} dlk_recent_key;

void dlk_recent_key_make(const dlk_arguments *arguments, dlk_recent_key *out);

/* The prepared launch of these arguments and addresses; NULL: none. Borrowed until this thread's next dlk_recent_put. */
const dlk_prepared *dlk_recent_find(dlk_recent_key *key, char *const *inputs, char *const *outputs);
/* Keeps what was not found: takes a reference of its own. Does nothing when it cannot. */
void dlk_recent_put(const dlk_recent_key *key, dlk_prepared *prepared);

#endif
