/*
 * dcounter.c
 *		Module entry of the dcounter extension.
 *
 * Copyright (c) 2026, the dcounter developers
 *
 * The extension works when loaded on demand by its first function call; being
 * in shared_preload_libraries is never needed for exact counting. It adds shared
 * memory, and with that the launcher of background workers and the statistics.
 */
#include "postgres.h"

#include "fmgr.h"
#include "miscadmin.h"

#include "base/activity.h"
#include "base/compat.h"
#include "base/guc.h"
#include "base/roles.h"
#include "base/runas.h"
#include "base/shmem.h"
#include "base/xactclock.h"
#include "base/xactrooms.h"
#include "core/compact/compact.h"
#include "core/counter/counter.h"
#include "core/rows/oldsnapshot.h"
#include "core/rows/sharedhints.h"
#include "core/stats/stats.h"
#include "core/table/catalog.h"
#include "core/table/conversion.h"
#include "core/table/ddl.h"
#include "core/table/ownercode.h"
#include "core/table/ownstatement.h"
#include "core/worker/slots.h"
#include "core/worker/worker.h"
#include "events/consumer/consumer.h"
#include "events/outbox/outbox.h"
#include "memory/buffer/bufferinit.h"
#include "memory/cache/cache.h"
#include "memory/limit/limitinit.h"
#include "memory/presence/presenceinit.h"
#include "region/region.h"
#include "time/distinct/distinct.h"
#include "time/trend/trend.h"
#include "time/window/window.h"
#include "transactional/bound/bound.h"
#include "transactional/budget/budget.h"
#include "transactional/ledger/ledgerinit.h"
#include "transactional/once/op.h"
#include "transactional/rank/rank.h"
#include "transactional/stock/stock.h"
#include "transactional/unread/unread.h"
#include "types/crdt/hlcclock.h"

DC_MODULE_MAGIC;

extern PGDLLEXPORT void _PG_init(void);

/*
 * Called when the library is loaded, by the postmaster or by a session.
 */
void
_PG_init(void)
{
	bool preloading = process_shared_preload_libraries_in_progress;

	hlc_clock_init(); /* settings, before the prefix is reserved */
	guc_init();
	roles_init();
	runas_init();
	own_statement_init();
	counter_cache_init();
	ownercode_guard_init();
	xact_rooms_init();
	if (preloading)
	{
		shmem_init();
		activity_init();
		stats_init();
		shared_hints_init();
		old_snapshot_init();
	}
	consumer_init();
	region_xact_init();
	outbox_xact_init();
	counter_xact_init();
	counter_ddl_init();
	conversion_init();
	if (preloading)
	{
		xact_clock_init();
		cache_init();
	}
	/* their jobs are run, and shown, in this order */
	buffering_init(preloading);
	compact_init(preloading);
	stock_init(preloading);
	ledger_init();
	outbox_init(preloading);
	once_init();
	bound_init(preloading);
	rank_init();
	budget_init();
	region_init(preloading);
	limiter_init(preloading);
	presence_init(preloading);
	unread_init();
	window_init();
	distinct_init();
	trend_init();
	if (preloading)
		slots_init();
	if (preloading && !IsBinaryUpgrade)
	{
		hooks_init();
		launcher_register();
	}
}
