/*
 * trendset.c
 *		The effect of setting and deleting a key on its weight.
 *
 * Copyright (c) 2026, the dcounter developers
 *
 * The value that a key is set to does not count. But dc_set() deletes the shard rows of the key,
 * and the increments in them do: compaction would have counted them. So they are counted here, as
 * of now. dc_delete() removes the weight.
 *
 * Both wait for a compaction that has the weight locked, which waits for nothing, and for each
 * other, by the lock on the key (core/rows/locks.c), before they come here.
 *
 * Keys that expire (core/compact/keyexpiry.c) are deleted without that lock, many at a time. So
 * their weights are locked before their totals, as here, but without waiting.
 */
#include "postgres.h"

#include "catalog/pg_type.h"
#include "storage/lmgr.h"
#include "utils/timestamp.h"

#include "base/args.h"
#include "base/compat.h"
#include "core/table/access.h"
#include "time/trend/trend.h"

/* key */
static const DcStatement sql_lock_weight = {
	.text = "SELECT r.weight, r.epoch FROM @trend AS r WHERE r.key = $1 FOR NO KEY UPDATE",
	.argtypes = {TEXTOID},
	.columns = {DC_COLUMN("weight", FLOAT8OID), DC_BIGINT("epoch")},
	.of = DC_OF_TREND};

/* key, weight, epoch */
static const DcStatement sql_update_weight = {
	.text = "UPDATE @trend AS r SET weight = $2, epoch = $3 WHERE r.key = $1",
	.argtypes = {TEXTOID, FLOAT8OID, INT8OID},
	.of = DC_OF_TREND};

/* key, weight, epoch */
static const DcStatement sql_insert_weight = {
	.text = "INSERT INTO @trend AS r (key, weight, epoch) VALUES ($1, $2, $3) ON CONFLICT DO NOTHING",
	.argtypes = {TEXTOID, FLOAT8OID, INT8OID},
	.of = DC_OF_TREND};

/* key */
static const DcStatement sql_delete_weight = {
	.text = "DELETE FROM @trend AS r WHERE r.key = $1", .argtypes = {TEXTOID}, .of = DC_OF_TREND};

/* keys */
static const DcStatement sql_lock_keys = {
	.text = "SELECT k.key FROM unnest($1) AS k (key)"
			" LEFT JOIN LATERAL (SELECT r.key FROM @trend AS r WHERE r.key = k.key FOR UPDATE SKIP LOCKED) AS l ON true"
			" WHERE l.key IS NOT NULL OR NOT EXISTS (SELECT FROM @trend AS r WHERE r.key = k.key)",
	.argtypes = {TEXTARRAYOID},
	.columns = {DC_TEXT("key")},
	.of = DC_OF_TREND};

/*
 * trend_set_begin locks the table, after those of the counter, as their writers do.
 */
void
trend_set_begin(DcCounter *counter)
{
	Oid relid = counter->relid;

	if (counter_lock(relid, RowExclusiveLock))
		LockRelationOid(counter_lookup(relid)->row.trends, RowExclusiveLock);
}

/*
 * Return true if the table is there and was locked by trend_set_begin(). A trend that has begun
 * since then is left alone.
 */
static bool
is_usable(DcCounter *counter)
{
	return compat_has_locked(counter->row.trends, RowExclusiveLock) && trend_fits(counter);
}

/*
 * trend_set counts the increments of a key that were in shard rows.
 */
void
trend_set(DcSqlSession *session, Datum key, const DcSums *shards)
{
	DcTrendSession trend;
	Datum values[3] = {key};
	double weight = 0;
	int64 epoch = 0;
	int64 net;
	bool found;

	if (!sums_fit(shards->net, &net) || net == 0 || !is_usable(session->counter))
		return;
	trend = trend_session_begin(session);
	found = sql_run(session, &sql_lock_weight, values) > 0;
	if (found)
	{
		weight = DatumGetFloat8(rows_datum(&session->rows, 0, 1));
		epoch = rows_bigint(&session->rows, 0, 2);
	}
	trend_add(session->counter, found, &weight, &epoch, (double) net, GetCurrentTimestamp());
	values[1] = Float8GetDatum(weight);
	values[2] = Int64GetDatum(epoch);
	sql_run(session, found ? &sql_update_weight : &sql_insert_weight, values);
	trend_session_end(&trend);
}

/*
 * trend_deleted forgets a key.
 */
void
trend_deleted(DcSqlSession *session, Datum key)
{
	DcTrendSession trend;

	if (!is_usable(session->counter))
		return;
	trend = trend_session_begin(session);
	sql_run(session, &sql_delete_weight, &key);
	trend_session_end(&trend);
}

/*
 * trend_lock_keys locks the weights of keys that are to be deleted, and leaves out keys whose
 * weights other transactions have locked. It returns how many remain.
 */
int
trend_lock_keys(DcSqlSession *session, Datum *keys, int n)
{
	DcTrendSession trend;
	Datum array;

	if (!is_usable(session->counter))
		return n;
	array = array_datum(keys, n, TEXTOID);
	trend = trend_session_begin(session);
	n = (int) sql_run(session, &sql_lock_keys, &array);
	for (int i = 0; i < n; i++)
		keys[i] = rows_datum(&session->rows, i, 1);
	trend_session_end(&trend);
	return n;
}
