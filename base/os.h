/* What dlk asks of the operating system: the only file of base that knows which one it is. */
#ifndef DLK_BASE_OS_H
#define DLK_BASE_OS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

int dlk_os_cores(void);       /* processors this process may run on, at least 1 */
int64_t dlk_os_time_ns(void); /* monotonic */
size_t dlk_os_page_bytes(void);
int64_t dlk_os_cache_bytes(void); /* last-level cache; 32 MiB when unknown */

/* Private read-write pages, huge ones asked for from 2 MiB up; NULL when out of memory. */
void *dlk_os_map(size_t bytes);
void dlk_os_unmap(void *pages, size_t bytes);
/* Makes pages read-execute for good; false when the system refuses. */
bool dlk_os_protect_exec(void *pages, size_t bytes);

/* A library opened at run time with local symbols; NULL when absent. */
void *dlk_os_library_open(const char *path);
void *dlk_os_library_symbol(void *library, const char *name);
/* The folder of the file that holds `address`, without the last slash; false when unknown. */
bool dlk_os_folder_of(const void *address, char *out, size_t out_bytes);

#endif
