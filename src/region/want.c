/*
 * want.c
 *		Wants: rows that say how many units a region asks others for (rights.h).
 *
 * Copyright (c) 2026, the dcounter developers
 *
 * The row of a key and this region is written by its sessions: by dc_want(), by sessions that wait
 * in dc_take_wait() when they begin and end, or find that the row no longer says what they lack,
 * and by the job, when its time is up. Each locks the row, reads the units that are here and those
 * that have come, in one snapshot, and writes what the region is short of now (escrow_want()). It
 * takes the lock after all locks on units, and keeps it until it commits, which is soon, except for
 * dc_want() in a longer transaction.
 *
 * A row is stamped with a new stamp of this database's clock each time, and merge_want() keeps the
 * one with the later stamp. Each row is complete: it says all that its region wants of a key.
 */
#include "postgres.h"

#include "catalog/pg_type.h"
#include "fmgr.h"
#include "utils/builtins.h"
#include "utils/timestamp.h"

#include "base/activity.h"
#include "base/args.h"
#include "base/compat.h"
#include "base/guc.h"
#include "core/table/access.h"
#include "region/merge.h"
#include "region/rights.h"
#include "transactional/stock/stock.h"
#include "types/crdt/hlcclock.h"

PG_FUNCTION_INFO_V1(dc_want);
PG_FUNCTION_INFO_V1(merge_want);

/* Microseconds from 1970, where stamps begin, to 2000. */
#define EPOCH_DIFF ((int64) (POSTGRES_EPOCH_JDATE - UNIX_EPOCH_JDATE) * USECS_PER_DAY)

/* key, region */
static const DcStatement sql_want_make = {
	.text = "INSERT INTO @wants (key, region, epoch, hlc, since, wanted, low, granted, kept, waits, asked, asked_at, until, units, given)"
			" VALUES ($1, $2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, '-infinity', 0, 0) ON CONFLICT (key, region) DO NOTHING",
	.argtypes = {TEXTOID, TEXTOID},
	.of = DC_OF_MORE + 1};

#define WANT_STATE \
	"SELECT w.epoch, w.granted, w.kept, w.waits, w.asked, w.asked_at, w.until, w.wanted FROM @wants AS w" \
	" WHERE w.key = $1 AND w.region = $2"
#define WANT_STATE_COLUMNS \
	{ \
		DC_BIGINT("epoch"), DC_BIGINT("granted"), DC_BIGINT("kept"), DC_BIGINT("waits"), DC_BIGINT("asked"), \
			DC_BIGINT("asked_at"), DC_TIME("until"), DC_BIGINT("wanted") \
	}

static const DcStatement sql_want_lock = {
	.text = WANT_STATE " FOR NO KEY UPDATE",
	.argtypes = {TEXTOID, TEXTOID},
	.columns = WANT_STATE_COLUMNS,
	.of = DC_OF_MORE + 1};

static const DcStatement sql_want_lock_free = {
	.text = WANT_STATE " FOR NO KEY UPDATE SKIP LOCKED",
	.argtypes = {TEXTOID, TEXTOID},
	.columns = WANT_STATE_COLUMNS,
	.of = DC_OF_MORE + 1};

static const DcStatement sql_want_look = {
	.text = WANT_STATE,
	.argtypes = {TEXTOID, TEXTOID},
	.columns = WANT_STATE_COLUMNS,
	.of = DC_OF_MORE + 1};

/* key, region, epoch */
static const DcStatement sql_want_facts = {
	.text = "SELECT least((SELECT coalesce(sum(s.units), 0) FROM @shards AS s WHERE s.key = $1), 9223372036854775807)::int8,"
			" least((SELECT coalesce(sum(g.units), 0) FROM @grants AS g WHERE g.key = $1"
			" AND g.to_region = $2 AND g.to_epoch = $3), 9223372036854775807)::int8,"
			" least((SELECT coalesce(sum(g.units), 0) FROM @grants AS g WHERE g.key = $1"
			" AND g.from_region = $2 AND g.from_epoch = $3), 9223372036854775807)::int8",
	.argtypes = {TEXTOID, TEXTOID, INT8OID},
	.columns = {DC_BIGINT("units"), DC_BIGINT("granted"), DC_BIGINT("given")},
	.of = DC_OF_MORE};

/*
 * key, region, epoch, hlc, since, wanted, low, granted, kept, waits, asked, asked_at, until, units,
 * given
 */
static const DcStatement sql_want_write = {
	.text = "UPDATE @wants AS w SET epoch = $3, hlc = $4, since = $5, wanted = $6, low = $7, granted = $8, kept = $9,"
			" waits = $10, asked = $11, asked_at = $12, until = $13, units = $14, given = $15 WHERE w.key = $1 AND w.region = $2",
	.argtypes = {TEXTOID, TEXTOID, INT8OID, INT8OID, INT8OID, INT8OID, INT8OID, INT8OID, INT8OID, INT8OID, INT8OID, INT8OID, TIMESTAMPTZOID, INT8OID, INT8OID},
	.of = DC_OF_MORE + 1};

/* A row of wants that is being changed. */
typedef struct DcWantRow
{
	DcCounter *counter;
	Datum key;
	Datum region;
	DcIdentity identity;
	int64 epoch; /* of the row */
	DcWant want;
	TimestampTz until; /* when its sessions will have gone */
	int64 units;	   /* that are here, */
	int64 given;	   /* and that others have got */
} DcWantRow;

static void begin_want(DcSqlSession *session, DcWantRow *row, DcCounter *counter, const DcKey *key);
static bool lock_row(DcSqlSession *session, DcWantRow *row, bool wait);
static bool read_want(DcSqlSession *session, DcWantRow *row, const DcStatement *statement);
static void read_facts(DcSqlSession *session, DcWantRow *row, DcWantFacts *facts);
static void write_row(DcSqlSession *session, const DcWantRow *row, int64 hlc);
static const char *want_problem(DcMerge *merge);
static void want_raised(DcMerge *merge, int64 more);

static const DcMergeKind want_kind = {
	.function = "merge_want()",
	.table = TABLE_OF_WANTS,
	.problem = want_problem,
	.other = gettext_noop("It would become the row of another key or region."),
	.number = WANT_HLC,
	.raised = want_raised,
};

/*
 * dc_want(stock regclass, key text|bigint|uuid, qty bigint) -> void: asks the other regions for
 * units; 0 withdraws the request. Needs what dc_take() needs.
 *
 * Errors: 22023 for a negative quantity, 55000 if the stock is not replicated, or this database
 * needs a new epoch.
 */
Datum
dc_want(PG_FUNCTION_ARGS)
{
	DcKey buf;
	const DcKey *key = key_arg(fcinfo, 1, &buf);
	int64 qty = amount_arg(fcinfo, 2, "qty");
	DcCounter *counter;

	rights_await_and_lock(counter_arg(fcinfo), "dc_want()");
	counter = stock_open_to_write(fcinfo, "dc_want()");
	if (qty < 0)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("qty must not be negative")));
	rights_needed(counter);
	rights_lock(counter, RowExclusiveLock, true);
	(void) want_change(counter, key, (DcWantChange){.asks = qty > 0 ? qty : -1}, DT_NOBEGIN, true);
	PG_RETURN_VOID();
}

/*
 * want_stamp_at returns the stamp that a time by the wall clock stands for.
 */
int64
want_stamp_at(TimestampTz time)
{
	return time + EPOCH_DIFF;
}

/*
 * want_change changes what this region wants of a key; sessions that wait do so until `until`.
 * False if the row is locked, and `wait` is false. The tables are locked.
 */
bool
want_change(DcCounter *counter, const DcKey *key, DcWantChange change, TimestampTz until, bool wait)
{
	DcSqlSession session;
	DcWantRow row;
	DcWantFacts facts;
	bool locked;

	begin_want(&session, &row, counter, key);
	locked = lock_row(&session, &row, wait);
	if (locked)
	{
		change.restarts = row.epoch != row.identity.epoch;
		change.forgets |= row.until <= GetCurrentTimestamp();
		facts.now = hlc_clock_next(0);
		read_facts(&session, &row, &facts);
		escrow_want(&row.want, &facts, &change);
		row.until = row.want.kept > 0 ? Max(row.until, until) : DT_NOBEGIN;
		write_row(&session, &row, facts.now);
		activity_note(counter->relid);
	}
	sql_end(&session);
	return locked;
}

/*
 * Return true if the row does not cover a waiting session: it asks for less than is lacking, as
 * others have taken units here, or its oldest request is younger than the session's.
 */
bool
want_is_stale(DcCounter *counter, const DcKey *key, int64 since, TimestampTz until)
{
	DcSqlSession session;
	DcWantRow row;
	DcWantFacts facts;
	bool stale;

	begin_want(&session, &row, counter, key);
	if (!read_want(&session, &row, &sql_want_look) || row.epoch != row.identity.epoch)
		stale = true;
	else
	{
		DcWant now = row.want;
		int64 need;
		int64 low;
		int64 keep;

		facts.now = since;
		read_facts(&session, &row, &facts);
		escrow_need(&row.want, facts.granted, &need, &low, &keep);
		escrow_want(&now, &facts, &(DcWantChange){0});
		stale = now.wanted > need || row.until < until || row.want.waits == 0 || row.want.waits > since;
	}
	sql_end(&session);
	return stale;
}

/*
 * Begin a session that writes this region's want of a key, with the stock's epoch. Raises an error
 * if this database must renew or the stock is shut.
 */
static void
begin_want(DcSqlSession *session, DcWantRow *row, DcCounter *counter, const DcKey *key)
{
	row->counter = counter;
	row->key = key_text_datum(key);
	region_identity_needed(&row->identity);
	rights_identity_check(counter);
	row->identity.epoch = counter->row.rights_epoch;
	row->region = CStringGetTextDatum(row->identity.region);
	rights_begin(session, counter);
}

/*
 * lock_row locks and reads the row, which it makes if there is none.
 */
static bool
lock_row(DcSqlSession *session, DcWantRow *row, bool wait)
{
	const DcStatement *lock = wait ? &sql_want_lock : &sql_want_lock_free;
	Datum values[] = {row->key, row->region};

	if (read_want(session, row, lock))
		return true;
	if (!wait && sql_run(session, &sql_want_look, values) > 0)
		return false;
	(void) sql_run(session, &sql_want_make, values);
	return read_want(session, row, lock);
}

/*
 * Read this region's row of the key by a statement, which may lock it. Return false if there is
 * none.
 */
static bool
read_want(DcSqlSession *session, DcWantRow *row, const DcStatement *statement)
{
	Datum values[] = {row->key, row->region};
	const DcRows *rows = &session->rows;

	if (sql_run(session, statement, values) == 0)
		return false;
	row->epoch = rows_bigint(rows, 0, 1);
	row->want = (DcWant){.granted = rows_bigint(rows, 0, 2),
						 .kept = rows_bigint(rows, 0, 3),
						 .waits = rows_bigint(rows, 0, 4),
						 .asked = rows_bigint(rows, 0, 5),
						 .asked_at = rows_bigint(rows, 0, 6),
						 .wanted = rows_bigint(rows, 0, 8)};
	row->until = DatumGetTimestampTz(rows_datum(rows, 0, 7));
	return true;
}

/*
 * read_facts reads the units that are here and those that have come, in one snapshot.
 */
static void
read_facts(DcSqlSession *session, DcWantRow *row, DcWantFacts *facts)
{
	Datum values[] = {row->key, row->region, Int64GetDatum(row->identity.epoch)};

	(void) sql_run(session, &sql_want_facts, values);
	facts->units = row->units = rows_bigint(&session->rows, 0, 1);
	facts->granted = rows_bigint(&session->rows, 0, 2);
	row->given = rows_bigint(&session->rows, 0, 3);
	facts->low = dc_rights_low;
}

/*
 * Write the row with a stamp. The statement inserts or updates it.
 */
static void
write_row(DcSqlSession *session, const DcWantRow *row, int64 hlc)
{
	const DcWant *want = &row->want;
	Datum values[] = {row->key, row->region, Int64GetDatum(row->identity.epoch), Int64GetDatum(hlc),
					  Int64GetDatum(want->since), Int64GetDatum(want->wanted), Int64GetDatum(want->low),
					  Int64GetDatum(want->granted), Int64GetDatum(want->kept), Int64GetDatum(want->waits),
					  Int64GetDatum(want->asked), Int64GetDatum(want->asked_at),
					  TimestampTzGetDatum(row->until), Int64GetDatum(row->units), Int64GetDatum(row->given)};

	(void) sql_run(session, &sql_want_write, values);
}

/*
 * merge_want() -> trigger, BEFORE INSERT OR UPDATE FOR EACH ROW: keeps the row with the later
 * stamp.
 */
Datum
merge_want(PG_FUNCTION_ARGS)
{
	static DcCounter *last = NULL; /* entries stay where they are */

	return merge_trigger(fcinfo, &want_kind, &last);
}

/*
 * Return what is wrong with a row that has come, or NULL.
 */
static const char *
want_problem(DcMerge *merge)
{
	static const int amounts[] = {WANT_HLC, WANT_SINCE, WANT_WANTED, WANT_LOW, WANT_GRANTED, WANT_KEPT, WANT_WAITS, WANT_ASKED, WANT_ASKED_AT, WANT_UNITS, WANT_GIVEN};

	for (int i = 0; i < lengthof(amounts); i++)
	{
		if (DatumGetInt64(merge->come[amounts[i]]) < 0)
			return _("A number is negative.");
	}
	return NULL;
}

/*
 * Wake the job, which may have units to give, when a row has come.
 */
static void
want_raised(DcMerge *merge, int64 more)
{
	activity_note(merge->counter->relid); /* the job may have something to do */
}
