/*
 * holdexpired.c
 *		Holds of a key whose time is up, and their units.
 *
 * Copyright (c) 2026, the dcounter developers
 *
 * The worker ends such holds (expire.c); a take (take.c), or setting the key, ends them earlier
 * if it needs their units. So these units belong to what is left, although the rows of the
 * stock do not have them yet. A read adds them in the snapshot in which it reads the rows: a
 * hold that is being ended is then in the one or in the other.
 */
#include "postgres.h"

#include "access/xact.h"
#include "catalog/pg_type.h"
#include "miscadmin.h"
#include "storage/lmgr.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/snapmgr.h"
#include "utils/timestamp.h"

#include "core/counter/apply.h"
#include "core/counter/sqlpath.h"
#include "transactional/stock/hold.h"
#include "transactional/stock/take.h"

/* Expired holds of a key that a take ends at a time, at most. */
#define EXPIRE_BATCH 1000

/* now, key, how many */
static const DcStatement sql_hold_expire_key = {
	.text = "UPDATE @holds AS h SET state = 'expired', confirmed = 0, ended_at = $1"
			" WHERE h.hold_id IN (SELECT e.hold_id FROM @holds AS e"
			" WHERE e.state = 'open' AND e.key = $2 AND e.expires_at <= $1"
			" ORDER BY e.expires_at LIMIT $3 FOR NO KEY UPDATE SKIP LOCKED)"
			" RETURNING h.key, h.qty, @keys, @qtys",
	.argtypes = {TIMESTAMPTZOID, TEXTOID, INT4OID},
	.columns = {DC_HOLD_LINES},
	.of = DC_OF_HOLDS};

/* now, key */
static const DcStatement sql_hold_expired = {
	.text = "SELECT least(coalesce(sum(@first), 0), 9223372036854775807)::int8 FROM @holds AS h"
			" WHERE h.state = 'open' AND h.key = $2 AND h.expires_at <= $1",
	.argtypes = {TIMESTAMPTZOID, TEXTOID},
	.columns = {DC_BIGINT("qty")},
	.of = DC_OF_HOLDS};

/* key */
static const DcStatement sql_hold_first = {
	.text = "SELECT min(h.expires_at) FROM @holds AS h WHERE h.state = 'open' AND h.key = $1", .argtypes = {TEXTOID}, .columns = {DC_NULLABLE("expires_at", TIMESTAMPTZOID)}, .of = DC_OF_HOLDS};

/* now, keys */
static const DcStatement sql_expired_keys = {
	.text = "SELECT h.key, least(sum(@first), 9223372036854775807)::int8 FROM @holds AS h WHERE h.state = 'open' AND h.expires_at <= $1 AND h.key = ANY ($2)"
			" GROUP BY h.key",
	.argtypes = {TIMESTAMPTZOID, TEXTARRAYOID},
	.columns = {DC_TEXT("key"), DC_BIGINT("qty")},
	.of = DC_OF_HOLDS};

/* now */
static const DcStatement sql_expired_all = {
	.text = "SELECT h.key, least(sum(@first), 9223372036854775807)::int8 FROM @holds AS h WHERE h.state = 'open' AND h.expires_at <= $1 GROUP BY h.key",
	.argtypes = {TIMESTAMPTZOID},
	.columns = {DC_TEXT("key"), DC_BIGINT("qty")},
	.of = DC_OF_HOLDS};

/*
 * holds_give_back gives back the units of the expired holds in the last result,
 * when the transaction commits. Returns of how many keys, each once for a hold.
 */
int64
holds_give_back(DcSqlSession *session)
{
	int64 all = 0;

	for (uint64 i = 0; i < session->rows.count; i++)
	{
		int count;
		DcCartLine *lines = hold_lines(session, i, &count);

		hold_lines_give_back(session->counter, lines, count);
		all += count;
	}
	return all;
}

/*
 * holds_expire_key ends some expired holds of a key, the oldest first, and gives
 * their units back at once, for this transaction to take. Returns how many to end next
 * time, twice as many; 0 if there are no more.
 */
int64
holds_expire_key(DcCounter *counter, const DcDeltaKey *key, int64 limit)
{
	DcSqlSession session;
	Datum values[3];
	uint64 count;

	values[0] = TimestampTzGetDatum(GetCurrentTimestamp());
	values[1] = PointerGetDatum(cstring_to_text_with_len(key->data, key->len));
	values[2] = Int32GetDatum((int32) limit);
	holds_begin(&session, counter, RowExclusiveLock);
	count = sql_run(&session, &sql_hold_expire_key, values);
	(void) holds_give_back(&session);
	sql_end(&session);
	if (count == 0)
		return 0;
	apply_early();
	return Min(2 * limit, EXPIRE_BATCH);
}

/*
 * holds_expired_units returns how many units the expired holds of a key have that
 * have not been ended yet: the latest ones, or those that the transaction sees.
 */
int64
holds_expired_units(DcCounter *counter, const DcDeltaKey *key, bool latest)
{
	DcSqlSession session;
	Datum values[2];
	int64 units;

	LockRelationOid(counter->row.holds, AccessShareLock); /* before the snapshot */
	values[0] = TimestampTzGetDatum(GetCurrentTimestamp());
	values[1] = PointerGetDatum(cstring_to_text_with_len(key->data, key->len));
	PushActiveSnapshot(latest ? GetLatestSnapshot() : GetTransactionSnapshot());
	holds_begin(&session, counter, AccessShareLock);
	sql_read(&session, &sql_hold_expired, values);
	units = rows_bigint(&session.rows, 0, 1);
	sql_end(&session);
	PopActiveSnapshot();
	return units;
}

/*
 * holds_first_expiry returns when the first open hold of a key expires, or the
 * end of time.
 */
TimestampTz
holds_first_expiry(DcCounter *counter, const DcDeltaKey *key)
{
	TimestampTz first = DT_NOEND;
	DcSqlSession session;
	Datum text_key;
	bool isnull;
	Datum value;

	text_key = PointerGetDatum(cstring_to_text_with_len(key->data, key->len));
	holds_begin(&session, counter, AccessShareLock);
	sql_run(&session, &sql_hold_first, &text_key);
	value = rows_nullable(&session.rows, 0, 1, &isnull);
	if (!isnull)
		first = DatumGetTimestampTz(value);
	sql_end(&session);
	return first;
}

/*
 * Call a function for each of some keys, or of all if `keys` is 0, with the units of holds that
 * have not been ended, and had expired when the statement began: so all reads of a statement agree.
 * A stock whose table of holds has been dropped has none.
 */
void
holds_expired_each(DcCounter *counter, Datum keys, void (*each)(void *arg, Datum key, int64 units), void *arg)
{
	DcSqlSession session;
	Datum values[2];

	LockRelationOid(counter->row.holds, AccessShareLock);
	if (get_rel_relkind(counter->row.holds) == '\0')
		return;
	values[0] = TimestampTzGetDatum(GetCurrentStatementStartTimestamp());
	values[1] = keys;
	holds_begin(&session, counter, AccessShareLock);
	sql_read(&session, keys == (Datum) 0 ? &sql_expired_all : &sql_expired_keys, values);
	for (uint64 i = 0; i < session.rows.count; i++)
	{
		CHECK_FOR_INTERRUPTS();
		each(arg, rows_datum(&session.rows, i, 1), rows_bigint(&session.rows, i, 2));
	}
	sql_end(&session);
}

/*
 * End the expired holds of a key that is about to be set. Otherwise their units would be added to
 * its new value later.
 */
void
holds_key_set(DcCounter *counter, const DcKey *key)
{
	DcDeltaKey delta = delta_key(counter->relid, key);
	int64 limit = EXPIRE_BATCH;

	while ((limit = holds_expire_key(counter, &delta, limit)) > 0)
		CHECK_FOR_INTERRUPTS();
}
