/*
 * set.c
 *		dc_set(), dc_reset(), dc_delete(): setting a key to an exact value.
 *
 * Copyright (c) 2026, the dcounter developers
 *
 * Unlike an increment these act at once, lock rows and may wait:
 *
 *	1. The transaction's own pending deltas are written, and the partitions of the
 *	   totals locked (counter_lock_partitions).
 *	2. A lock on the key (locks.c), held to the end of the transaction, serializes these functions
 *	   with each other, even for a key that has no row yet. Amounts that are in memory for the key
 *	   are flushed to rows. Amounts that come to memory from now on count as later than this.
 *	3. The key's shard rows are deleted, returning their amounts. This waits for
 *	   transactions that are just committing an increment, and takes the rows
 *	   away from compaction. It is done twice for rows of one transaction alone: a
 *	   SERIALIZABLE one may have taken such a row away and inserted it again with its amounts,
 *	   which the first snapshot does not show (core/rows/again.c).
 *	4. Only then is the row of totals locked and read: compaction moves amounts
 *	   from shard rows to totals, so all that it took before step 3 is found here
 *	   (READ COMMITTED: each step has a snapshot of its own). This waits for
 *	   transactions that are just committing, too.
 *	5. The sum is the old value. The new one is written to the row of totals, or,
 *	   if there is none, to this transaction's own shard row: another transaction
 *	   may be inserting a row of totals, and must not be waited for.
 *
 * Of a table that Citus distributes, step 3 writes, so its shard, and the colocated one of the
 * totals, does not move until the transaction ends (core/compact/compactdistributed.c).
 *
 * For a stock, compaction is blocked (locks.c) before step 3: it moves units between shard rows,
 * and to new ones, which the statement of that step would not see if it had begun before.
 *
 * The units of a stock must be in shard rows. So its row of totals gets amounts whose net is zero,
 * and the value goes to new shard rows. Setting a stock waits for open transactions that have taken
 * from it.
 *
 * Each increment counts once, in the value returned or on top of the value left. It is in one row,
 * and commits write rows of totals as well as shard rows (core/rows/totalrow.c). There are these
 * cases, by the row that the increment writes:
 *
 *	a shard row that step 3 sees: deleted with its latest amounts, after a wait for
 *		the commit if there must be one. From then on it is busy for others.
 *	a shard row that step 3 does not see, since it is inserted in the meantime: on top.
 *	the row of totals, before step 4 has locked it: the commit is waited for, and the
 *		latest version is read. So the increment is in the value returned, though it may
 *		have been committed after step 3.
 *	the row of totals, after that: it cannot be. The row is busy until this transaction
 *		ends, so the increment goes to a shard row, on top. If this transaction deletes the
 *		row, the key cannot be inserted before that either: the index says that it is there.
 *	a row of totals that it inserts, and that step 4 does not see: on top, since step 5 does
 *		not touch it.
 *
 * Under REPEATABLE READ and SERIALIZABLE a row that has changed since the snapshot is a
 * serialization failure (40001), as with any UPDATE; and as each increment may change the row of
 * totals, such a setter of a key in use fails nearly always. If it sees no row of totals, it looks
 * for newer rows (sql_check_newer). So does each setter of a buffered table after step 4: a flush
 * writes what was committed before the snapshot to rows that are newer than it, and if the row of
 * totals is locked, or compaction kept away, to shard rows, which nothing else would notice. Under
 * SERIALIZABLE transactions that read the key find a row of ours, or a mark (serial.c).
 *
 * A key may hold more than bigint can: rows that each fit, and a sum that does not. If so, or
 * if it would be close to that with the difference to the new value, it starts again: the new
 * value alone replaces all that it held, and its sums of increments and decrements so far are
 * forgotten, as by dc_delete(). An old value that overflows bigint is returned as NULL. Unread
 * tables, which note how many increments a member has read, are told of those that are forgotten
 * (transactional/unread/unreadlost.c).
 *
 * For a counter with a trend, setting a key is not an increment, but the increments that were
 * in its shard rows are: step 3 counts them for the trend. In step 5 a row of totals is
 * inserted if there is none, as compaction takes what is in shard rows for increments. Commits
 * insert none into such a table.
 *
 * For a counter of several regions, setregion.c continues after step 4.
 *
 * Other functions do not wait for these locks: compaction skips rows that are locked,
 * and increments use other rows, or a new one.
 */
#include "postgres.h"

#include "access/xact.h"
#include "catalog/pg_type.h"
#include "common/int.h"
#include "utils/lsyscache.h"
#include "utils/timestamp.h"

#include "base/activity.h"
#include "base/compat.h"
#include "base/hooks.h"
#include "base/key.h"
#include "core/counter/apply.h"
#include "core/counter/foreign.h"
#include "core/counter/read.h"
#include "core/counter/serial.h"
#include "core/counter/set.h"
#include "core/counter/sqlpath.h"
#include "core/counter/units.h"
#include "core/rows/locks.h"
#include "core/table/access.h"
#include "core/table/distribution.h"
#include "core/table/layout.h"

/* Amounts above this are forgotten when a key is set. */
#define NEARLY_FULL (PG_INT64_MAX / 2)

PG_FUNCTION_INFO_V1(dc_set);
PG_FUNCTION_INFO_V1(dc_reset);
PG_FUNCTION_INFO_V1(dc_delete);

/* key */
const DcStatement sql_lock_total = {
	.text = "SELECT t.inc, t.dec FROM @totals AS t WHERE t.key = $1"
			" FOR NO KEY UPDATE",
	.argtypes = {TEXTOID},
	.columns = {DC_BIGINT("inc"), DC_BIGINT("dec")}};

/* key, inc, dec, at */
const DcStatement sql_update_total = {
	.text = "UPDATE @totals AS t SET inc = $2, dec = $3, updated_at = $4"
			" WHERE t.key = $1",
	.argtypes = {TEXTOID, INT8OID, INT8OID, TIMESTAMPTZOID}};

/* key */
const DcStatement sql_delete_total = {
	.text = "DELETE FROM @totals AS t WHERE t.key = $1 RETURNING t.inc, t.dec", .argtypes = {TEXTOID}, .columns = {DC_BIGINT("inc"), DC_BIGINT("dec")}};

/* key, at */
static const DcStatement sql_insert_total = {
	.text = "INSERT INTO @totals AS t (key, inc, dec, updated_at) VALUES ($1, 0, 0, $2)"
			" ON CONFLICT DO NOTHING",
	.argtypes = {TEXTOID, TIMESTAMPTZOID}};

/* key */
static const DcStatement sql_take_shards = {
	.text = "DELETE FROM @shards AS s WHERE s.key = $1 RETURNING s.inc, s.dec", .argtypes = {TEXTOID}, .columns = {DC_BIGINT("inc"), DC_BIGINT("dec")}, .of = DC_OF_SHARDS};

/* key */
static const DcStatement sql_read_shards = {
	.text = "SELECT s.shard FROM @shards AS s WHERE s.key = $1", .argtypes = {TEXTOID}, .columns = {DC_COLUMN("shard", INT4OID)}, .of = DC_OF_SHARDS};

/* key: of these, the rows that belong to one transaction alone (core/rows/shardnumber.h) */
static const DcStatement sql_take_own = {
	.text = "DELETE FROM @shards AS s WHERE s.key = $1 AND s.shard < 1 << 30"
			" RETURNING s.inc, s.dec",
	.argtypes = {TEXTOID},
	.columns = {DC_BIGINT("inc"), DC_BIGINT("dec")},
	.of = DC_OF_SHARDS};

static DcCounter *set_open(FunctionCallInfo fcinfo, const char *function);
static DcCounter *delete_open(FunctionCallInfo fcinfo);
static void prevent_rights(const DcCounter *counter, const char *function);
static void prevent_snapshot(const DcCounter *counter, const char *function);
static Datum set_key(FunctionCallInfo fcinfo, DcCounter *counter,
					 const DcKey *key, int64 value);
static bool set_value(DcCounter *counter, const DcKey *key, int64 value,
					  int64 *old);
static void set_check_value(DcCounter *counter, int64 value);
static bool amounts_for(const DcSums *sums, int64 value, int64 *inc, int64 *dec);
static uint64 take_shards(DcSqlSession *session, Datum *values, DcSums *sums);
static void set_check_buffered(DcSqlSession *session, const DcStatement *statement, Datum *values);
static void set_insert_total(DcSqlSession *session, Datum *values);
static uint64 take_rows(DcSqlSession *session, const DcStatement *statement,
						Datum *values, DcSums *sums);

/*
 * dc_set(counter regclass, key text|bigint|uuid, value bigint) -> bigint, the
 * old value; NULL if it overflowed bigint. Needs SELECT, INSERT and UPDATE.
 */
Datum
dc_set(PG_FUNCTION_ARGS)
{
	DcKey buf;
	const DcKey *key = key_arg(fcinfo, 1, &buf);
	DcCounter *counter = set_open(fcinfo, "dc_set()");

	return set_key(fcinfo, counter, key, amount_arg(fcinfo, 2, "value"));
}

/*
 * dc_reset(counter regclass, key text|bigint|uuid) -> bigint: dc_set() to 0
 */
Datum
dc_reset(PG_FUNCTION_ARGS)
{
	DcKey buf;
	const DcKey *key = key_arg(fcinfo, 1, &buf);
	return set_key(fcinfo, set_open(fcinfo, "dc_reset()"), key, 0);
}

/*
 * Set a key for an SQL function, and return the old value, or NULL if that overflowed bigint.
 */
static Datum
set_key(FunctionCallInfo fcinfo, DcCounter *counter, const DcKey *key, int64 value)
{
	int64 old;

	if (!set_value(counter, key, value, &old))
		PG_RETURN_NULL();
	PG_RETURN_INT64(old);
}

/*
 * dc_delete(counter regclass, key text|bigint|uuid) -> bigint: removes the key
 * and returns its last value; NULL if that overflowed bigint. Needs SELECT and DELETE.
 */
Datum
dc_delete(PG_FUNCTION_ARGS)
{
	DcKey buf;
	const DcKey *key = key_arg(fcinfo, 1, &buf);
	DcCounter *counter = delete_open(fcinfo);
	DcSqlSession session;
	DcSums sums;
	Datum values[1];
	uint64 rows;
	int64 last;

	if (counter_is_replicated(counter))
	{
		if (!set_replicated(counter, key, 0, true, &last))
			PG_RETURN_NULL();
		PG_RETURN_INT64(last);
	}
	key_take(counter, key);
	sums_init(&sums);
	values[0] = key_text_datum(key);
	sql_begin(&session, counter);
	rows = take_shards(&session, values, &sums);
	rows += take_rows(&session, &sql_delete_total, values, &sums);
	set_check_buffered(&session, &sql_read_key, values);
	if (counter_has_trend(counter))
		trend_hooks->deleted(&session, values[0]);
	if (rows > 0)
		serial_mark_key(&session, key);
	sql_end(&session);
	if (rows > 0)
	{
		unread_hooks->lost(counter, values[0], &sums);
		counter_changed(counter, values, 1);
	}
	if (!sums_fit(sums.net, &last))
		PG_RETURN_NULL();
	PG_RETURN_INT64(last);
}

/*
 * Open the counter in argument 0 to set a key: with the rights to write and to read.
 */
static DcCounter *
set_open(FunctionCallInfo fcinfo, const char *function)
{
	DcCounter *counter;

	set_lock_first(fcinfo);
	counter = counter_open_to_write(fcinfo, function);
	prevent_rights(counter, function);
	prevent_snapshot(counter, function);
	return counter_open_to_read(fcinfo, function);
}

/*
 * Open the counter in argument 0 to delete a key.
 */
static DcCounter *
delete_open(FunctionCallInfo fcinfo)
{
	DcCounter *counter;

	set_lock_first(fcinfo);
	counter = counter_open_to_delete(fcinfo, "dc_delete()");
	prevent_rights(counter, "dc_delete()");
	prevent_snapshot(counter, "dc_delete()");
	return counter;
}

/*
 * prevent_rights raises 0A000 for a stock whose units several regions have.
 */
static void
prevent_rights(const DcCounter *counter, const char *function)
{
	if (counter_has_rights(counter))
		prevent_replicated(counter, function);
}

/*
 * prevent_snapshot raises 0A000 for a table that Citus distributes if the transaction keeps one
 * snapshot: a Citus worker cannot tell whether there are rows that are too new for that snapshot
 * (sql_check_newer).
 */
static void
prevent_snapshot(const DcCounter *counter, const char *function)
{
	if (counter->distributed && IsolationUsesXactSnapshot())
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("cannot execute %s on \"%s\" at this isolation level", function, get_rel_name(counter->relid)),
				 errdetail_internal("%s", elsewhere_detail(counter)),
				 errhint("Call it in a READ COMMITTED transaction.")));
}

/*
 * set_value makes a key's value exactly `value`, and sets *old to the old value; false if that
 * overflowed bigint.
 */
static bool
set_value(DcCounter *counter, const DcKey *key, int64 value, int64 *old)
{
	DcSqlSession session;
	DcSums sums;
	Datum values[4];
	bool has_total;
	bool known;
	bool anew;
	int64 inc;
	int64 dec;

	set_check_value(counter, value);
	counter_check_deferred(counter, true);
	if (counter_is_replicated(counter))
		return set_replicated(counter, key, value, false, old);
	key_take(counter, key);
	sums_init(&sums);
	values[0] = key_text_datum(key);
	sql_begin(&session, counter);
	take_shards(&session, values, &sums);
	if (counter_has_trend(counter))
		trend_hooks->set(&session, values[0], &sums);
	has_total = take_rows(&session, &sql_lock_total, values, &sums) > 0;
	set_check_newer(&session, values, has_total);
	if (!has_total && counter_has_trend(counter))
	{
		set_insert_total(&session, values);
		has_total = take_rows(&session, &sql_lock_total, values, &sums) > 0;
	}

	known = sums_fit(sums.net, old);
	anew = !amounts_for(&sums, value, &inc, &dec);
	if (anew)
	{
		inc = Max(value, 0);
		dec = -Min(value, 0);
		int128_add_int64(&sums.inc, -inc); /* what the key loses */
	}
	if (has_total)
	{
		bool shards_follow = counter_is_stock(counter) && value > 0;

		if (shards_follow)
			inc -= value; /* to be added below, where it can be taken */
		values[1] = Int64GetDatum(inc);
		values[2] = Int64GetDatum(dec);
		values[3] = TimestampTzGetDatum(GetCurrentTimestamp());
		sql_run(&session, &sql_update_total, values);
		if (!shards_follow)
			serial_mark_key(&session, key);
	}
	sql_end(&session);
	if (!has_total)
		apply_blind(counter, key, inc, dec);
	else if (counter_is_stock(counter) && value > 0)
		apply_blind(counter, key, value, 0);
	if (anew)
		unread_hooks->lost(counter, key_text_datum(key), &sums);
	counter_changed(counter, values, 1);
	return known;
}

/*
 * set_check_value raises 22003 for a value that the key of a table cannot have.
 */
static void
set_check_value(DcCounter *counter, int64 value)
{
	if (value == PG_INT64_MIN)
		ereport(ERROR,
				(errcode(ERRCODE_NUMERIC_VALUE_OUT_OF_RANGE),
				 errmsg("bigint out of range"),
				 errdetail("The amount of a decrement must fit into bigint.")));
	if (!counter_is_stock(counter))
		return;
	units_check(counter);
	if (value < 0)
		ereport(ERROR,
				(errcode(ERRCODE_NUMERIC_VALUE_OUT_OF_RANGE),
				 errmsg("a stock cannot be less than zero")));
}

/*
 * amounts_for computes the amounts that make the value of a key exactly this. inc and dec only
 * grow: the difference goes to one of them. Returns false if one would overflow bigint, or come so
 * close to the limit that further increments soon would.
 */
static bool
amounts_for(const DcSums *sums, int64 value, int64 *inc, int64 *dec)
{
	int64 old;
	int64 diff;

	if (!sums_fit(sums->net, &old) || !sums_fit(sums->inc, inc) ||
		!sums_fit(sums->dec, dec) || pg_sub_s64_overflow(value, old, &diff) ||
		diff == PG_INT64_MIN)
		return false;
	if (diff > 0 ? pg_add_s64_overflow(*inc, diff, inc)
				 : pg_add_s64_overflow(*dec, -diff, dec))
		return false;
	return *inc <= NEARLY_FULL && *dec <= NEARLY_FULL;
}

/*
 * key_take does steps 1 and 2: it writes pending deltas and locks the key.
 */
void
key_take(DcCounter *counter, const DcKey *key)
{
	if (counter->foreign)
	{
		foreign_ready(counter);
		foreign_note_early(counter);
	}
	if (counter_is_stock(counter))
		stock_hooks->key_set(counter, key);
	apply_early();
	counter_lock_partitions(counter);
	lock_key(counter, key->data, key->len);
	activity_note(counter->relid); /* a compaction passes the key over in the meantime */
	if (cache_hooks != NULL)
		cache_hooks->key_set(counter, key);
	if (buffer_hooks != NULL)
		buffer_hooks->key_set(counter, key);
	if (counter_is_stock(counter))
		lock_out_compaction(counter);
}

/*
 * take_shards deletes the shard rows of a key. Rows that were deleted since the snapshot, and
 * inserted again, are a serialization failure where there is only one snapshot.
 */
static uint64
take_shards(DcSqlSession *session, Datum *values, DcSums *sums)
{
	uint64 rows = take_rows(session, &sql_take_shards, values, sums);

	if (session->counter->direct_write && !IsolationUsesXactSnapshot())
		rows += take_rows(session, &sql_take_own, values, sums);
	return rows;
}

/*
 * set_check_newer raises 40001 if the transaction's snapshot is too old for the state of the key
 * when its shard rows are deleted and its row of totals, if there is one, is locked. Without one,
 * another setter may have created the key, and left nothing for us to lock.
 */
void
set_check_newer(DcSqlSession *session, Datum *values, bool has_total)
{
	if (!has_total)
		sql_check_newer(session, &sql_read_key, values);
	else
		set_check_buffered(session, &sql_read_shards, values);
}

/*
 * set_check_buffered raises 40001 if a query finds rows that are newer than the transaction's
 * snapshot, in a table that may have been flushed since the snapshot was taken: such rows may
 * contain amounts that were committed before it.
 */
static void
set_check_buffered(DcSqlSession *session, const DcStatement *statement, Datum *values)
{
	if (counter_may_be_buffered(session->counter))
		sql_check_newer(session, statement, values);
}

/*
 * set_insert_total inserts a row of totals for a key that has none. Compaction counts amounts in
 * shard rows for the trend, and setting a key is not an increment. If a compaction is inserting
 * one, this waits for it.
 */
static void
set_insert_total(DcSqlSession *session, Datum *values)
{
	values[1] = TimestampTzGetDatum(GetCurrentTimestamp());
	sql_run(session, &sql_insert_total, values);
}

/*
 * take_rows runs a statement that returns inc and dec of the rows it locks or
 * deletes, adds them up, and returns the number of rows.
 */
static uint64
take_rows(DcSqlSession *session, const DcStatement *statement, Datum *values,
		  DcSums *sums)
{
	uint64 rows = sql_run(session, statement, values);

	for (uint64 i = 0; i < rows; i++)
		sums_add(sums, rows_bigint(&session->rows, i, 1), rows_bigint(&session->rows, i, 2));
	return rows;
}
