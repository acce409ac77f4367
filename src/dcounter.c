/*
 * dcounter.c
 *		Module entry of the dcounter extension.
 *
 * The extension works when loaded on demand by its first function call; being
 * in shared_preload_libraries is never needed for what is exact.
 */
#include "postgres.h"

#include "base/catalog.h"
#include "base/compat.h"
#include "base/guc.h"
#include "counter/counter.h"
#include "fmgr.h"

DC_MODULE_MAGIC;

void _PG_init(void);

void
_PG_init(void)
{
	guc_init();
	counter_cache_init();
	counter_xact_init();
}
