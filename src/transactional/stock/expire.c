/*
 * expire.c
 *		Giving back expired holds, as a job.
 *
 * Copyright (c) 2026, the dcounter developers
 *
 * A step ends a batch of holds whose time is up, and gives their units back in
 * the same transaction, and removes a batch of holds that have ended longer ago than
 * dcounter.hold_retention. Both skip rows that another transaction has locked, which may be ending
 * the hold.
 *
 * As with compaction, the commit need not wait for the disk: if it is lost, the
 * hold is open again, and expired.
 */
#include "postgres.h"

#include "catalog/pg_type.h"
#include "storage/lmgr.h"
#include "utils/timestamp.h"

#include "base/guc.h"
#include "base/relopen.h"
#include "core/compact/compact.h"
#include "core/counter/sqlpath.h"
#include "core/counter/units.h"
#include "core/table/tablejob.h"
#include "transactional/stock/hold.h"
#include "transactional/stock/stock.h"

#define BATCH 500

/* A step gives back this many units of keys at most, besides those of one more hold. */
#define BATCH_LINES 2000

/*
 * Return true for a stock.
 */
static bool
expire_wants(const DcCounterRow *row)
{
	return OidIsValid(row->holds);
}

/* now, how many, and with how many lines before the last one */
static const DcStatement sql_hold_expire = {
	.text = "UPDATE @holds AS h SET state = 'expired', confirmed = 0, ended_at = $1"
			" WHERE h.hold_id IN (SELECT b.hold_id FROM"
			" (SELECT h.hold_id, sum(@nlines) OVER (ORDER BY h.expires_at, h.hold_id) - @nlines AS lines FROM"
			" (SELECT e.* FROM @holds AS e WHERE e.state = 'open' AND e.expires_at <= $1"
			" ORDER BY e.expires_at LIMIT $2 FOR NO KEY UPDATE SKIP LOCKED) AS h) AS b WHERE b.lines < $3)"
			" RETURNING h.key, h.qty, @keys, @qtys",
	.argtypes = {TIMESTAMPTZOID, INT4OID, INT8OID},
	.columns = {DC_HOLD_LINES},
	.of = DC_OF_HOLDS};

/* ended before, how many */
static const DcStatement sql_hold_purge = {
	.text = "DELETE FROM @holds AS h WHERE h.hold_id IN (SELECT e.hold_id FROM @holds AS e"
			" WHERE e.state <> 'open' AND e.ended_at < $1"
			" ORDER BY e.ended_at LIMIT $2 FOR UPDATE SKIP LOCKED)",
	.argtypes = {TIMESTAMPTZOID, INT4OID}};

/* when the first open one ends */
static const DcStatement sql_hold_next = {
	.text = "SELECT h.expires_at FROM @holds AS h WHERE h.state = 'open'"
			" ORDER BY h.expires_at LIMIT 1",
	.columns = {DC_TIME("expires_at")},
	.of = DC_OF_HOLDS};

static DcTableJob job;

/*
 * expire_step ends or removes a batch of a stock's holds. If there were none, there will be when
 * the first open one ends.
 */
static DcTableStep
expire_step(Oid table, bool all_owners)
{
	DcCounter *counter = compact_open(table, all_owners);
	TimestampTz now = GetCurrentTimestamp(); /* holds have wall time */
	DcSqlSession session;
	Datum values[3];
	uint64 expired;
	int64 lines;
	uint64 purged = 0;

	if (counter == NULL || !counter_is_stock(counter) || relation_lacks_indexes(counter->row.holds) ||
		!ConditionalLockRelationOid(counter->row.holds, RowExclusiveLock))
		return TABLE_DONE;
	units_check(counter);
	counter_holds_layout(counter);
	values[0] = TimestampTzGetDatum(now);
	values[1] = Int32GetDatum(BATCH);
	values[2] = Int64GetDatum(BATCH_LINES);
	holds_session(&session, counter);
	expired = sql_run(&session, &sql_hold_expire, values);
	lines = holds_give_back(&session);
	if (dc_hold_retention >= 0)
	{
		values[0] = TimestampTzGetDatum(now - dc_hold_retention * USECS_PER_SEC);
		purged = sql_run(&session, &sql_hold_purge, values);
	}
	if (all_owners && expired == 0 && purged == 0 &&
		sql_read(&session, &sql_hold_next, NULL) == 1)
		job.until = moment_at_wall(DatumGetTimestampTz(rows_datum(&session.rows, 0, 1)));
	sql_end(&session);
	if (expired == 0 && purged == 0)
		return TABLE_IDLE;
	return expired == BATCH || lines >= BATCH_LINES || purged == BATCH ? TABLE_GOES_ON : TABLE_DONE;
}

static DcTableJob job = {.wants = expire_wants, .step = expire_step};

/*
 * expire_job goes over the stocks; true if it has yielded.
 */
bool
expire_job(DcJobRun *run)
{
	return table_job_run(&job, run);
}
