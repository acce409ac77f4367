/*
 * passedover.c
 *		Rows from other regions that no region would send: passing over them.
 *
 * Copyright (c) 2026, the dcounter developers
 *
 * One link brings the rows of all counters. If one row raised an error, all of them would stop, and
 * the row would come again each time. So a row that the owner of a table has written directly in
 * another region is skipped. It is counted in dc_stat_counters, and logged once per transaction.
 *
 * Everything that could make the merge fail is checked (mergetrigger.c). The amounts may have any
 * value; the code that adds them deals with sums that overflow bigint (core/rows/remote.c).
 */
#include "postgres.h"

#include "fmgr.h"
#include "storage/lmgr.h"
#include "utils/rel.h"
#include "utils/timestamp.h"

#include "base/compat.h"
#include "core/stats/stats.h"
#include "region/life.h"

PG_FUNCTION_INFO_V1(stat_passed_over);

/*
 * region_row_passed_over notes a row that is passed over. The counter is NULL for a heartbeat.
 * Returns the result by which a trigger passes over the row.
 */
Datum
region_row_passed_over(Relation rel, DcCounter *counter, const char *problem)
{
	static LocalTransactionId told_in = InvalidLocalTransactionId;

	if (counter != NULL)
	{
		if (ConditionalLockRelationOid(counter->relid, AccessShareLock))
			stats_attach_free(counter);
		stats_count(counter, DC_STATS_PASSED_OVER, 1);
	}
	if (told_in != compat_local_xid())
		ereport(WARNING,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("a row for \"%s\" is not valid as a row of a region, and is passed over", RelationGetRelationName(rel)),
				 errdetail_internal("%s", problem)));
	told_in = compat_local_xid();
	return PointerGetDatum(NULL);
}

/*
 * region_row_missed notes a valid row that cannot be merged because of changes that its owner has
 * made here. It does not come again, so everything must be copied.
 */
Datum
region_row_missed(Relation rel, DcCounter *counter, const char *problem)
{
	DcIdentity self;

	if (region_self(&self))
		self_mark(self.epoch, "recopy", GetCurrentTimestamp());
	return region_row_passed_over(rel, counter, problem);
}

/*
 * dcounter.stat_passed_over(counter regclass) -> bigint: how many rows were passed over, for the
 * view dc_stat_counters; NULL if there are no statistics, or the caller may not see them.
 */
Datum
stat_passed_over(PG_FUNCTION_ARGS)
{
	Oid relid = PG_GETARG_OID(0);
	DcTableStats stats;
	DcStatsNow now;

	if (!stats_enabled() || !stats_may_see(relid) || !stats_get(relid, &stats, &now))
		PG_RETURN_NULL();
	PG_RETURN_INT64((int64) stats.counts[DC_STATS_PASSED_OVER]);
}
