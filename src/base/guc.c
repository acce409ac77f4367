/*
 * guc.c
 *		The extension's settings, all named dcounter.*.
 */
#include "postgres.h"

#include <limits.h>

#include "base/guc.h"
#include "utils/guc.h"

#define DC_PENDING_MEMORY_DEFAULT (16 * 1024) /* kB */
#define DC_PENDING_MEMORY_MIN 64			  /* kB */

int dc_pending_memory = DC_PENDING_MEMORY_DEFAULT;

/*
 * guc_init defines the settings and reserves their prefix.
 */
void
guc_init(void)
{
	DefineCustomIntVariable("dcounter.pending_memory",
							"Sets the memory for increments that wait for commit.",
							"A transaction that would exceed it writes its "
							"pending increments to the shard tables early. "
							"Each open savepoint that holds increments of its "
							"own may keep as much again.",
							&dc_pending_memory,
							DC_PENDING_MEMORY_DEFAULT,
							DC_PENDING_MEMORY_MIN,
							MAX_KILOBYTES,
							PGC_USERSET,
							GUC_UNIT_KB,
							NULL, NULL, NULL);

	MarkGUCPrefixReserved("dcounter");
}
