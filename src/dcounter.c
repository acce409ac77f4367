/*
 * dcounter.c
 *		Module entry of the dcounter extension.
 *
 * The extension works when loaded on demand by its first function call; being
 * in shared_preload_libraries is never needed for what is exact. It adds shared
 * memory, and with that the launcher of background workers and the statistics.
 */
#include "postgres.h"

#include "base/compat.h"
#include "base/guc.h"
#include "base/runas.h"
#include "base/shmem.h"
#include "base/xactclock.h"
#include "buffer/bufferinit.h"
#include "consumer/consumer.h"
#include "counter/counter.h"
#include "fmgr.h"
#include "ledger/ledgerinit.h"
#include "miscadmin.h"
#include "outbox/outbox.h"
#include "stats/stats.h"
#include "stock/stock.h"
#include "table/catalog.h"
#include "table/ddl.h"
#include "table/ownercode.h"
#include "table/ownstatement.h"
#include "worker/slots.h"
#include "worker/worker.h"

DC_MODULE_MAGIC;

void _PG_init(void);

void
_PG_init(void)
{
	guc_init();
	runas_init();
	own_statement_init();
	counter_cache_init();
	ownercode_init();
	/* a callback that is registered first runs last */
	consumer_init();	 /* looks at what all have written */
	counter_last_init(); /* when all is written but what goes to memory */
	outbox_xact_init();	 /* what others write may fire triggers that make events */
	counter_xact_init();
	counter_ddl_init();
	ledger_init();
	if (process_shared_preload_libraries_in_progress)
	{
		shmem_init();
		xact_clock_init();
		stats_init();
		buffering_init();
		stock_init(true);
		outbox_init(true);
		slots_init();
		if (!IsBinaryUpgrade)
		{
			hooks_init();
			launcher_register();
		}
	}
	else
	{
		stock_init(false);
		outbox_init(false);
	}
}
