/*
 * compacttotals.c
 *		Adding amounts of keys to the table of totals.
 *
 * Copyright (c) 2026, the dcounter developers
 *
 * Compaction brings them from shard rows, and a flush from memory. Both hold the lock on the
 * table's compaction (locks.c). Rows that other transactions have locked are skipped, and so are
 * keys whose rows other transactions insert at the same time: commits (core/rows/totalrow.c), and
 * users (compactinserting.c).
 *
 * In an ordinary local table a row that is locked is updated by its place (ctid), not
 * by its key: that saves searching the index a second time.
 */
#include "postgres.h"

#include "access/xact.h"
#include "catalog/pg_type.h"
#include "common/int.h"
#include "utils/builtins.h"

#include "base/args.h"
#include "base/errors.h"
#include "base/hooks.h"
#include "base/key.h"
#include "core/compact/compactbatch.h"
#include "core/rows/shardnumber.h"
#include "core/rows/totalrow.h"

/* keys */
static const DcStatement sql_compact_lock = {
	.text = "SELECT t.key, t.inc, t.dec FROM @totals AS t WHERE t.key = ANY ($1)"
			" FOR NO KEY UPDATE SKIP LOCKED",
	.argtypes = {TEXTARRAYOID},
	.columns = {DC_TEXT("key"), DC_BIGINT("inc"), DC_BIGINT("dec")}};

/* the same, with where they are */
static const DcStatement sql_compact_lock_places = {
	.text = "SELECT t.key, t.inc, t.dec, t.ctid FROM @totals AS t WHERE t.key = ANY ($1)"
			" FOR NO KEY UPDATE SKIP LOCKED",
	.argtypes = {TEXTARRAYOID},
	.columns = {DC_TEXT("key"), DC_BIGINT("inc"), DC_BIGINT("dec"), DC_COLUMN("ctid", TIDOID)}};

/* keys */
static const DcStatement sql_compact_existing = {
	.text = "SELECT t.key FROM @totals AS t WHERE t.key = ANY ($1)",
	.argtypes = {TEXTARRAYOID},
	.columns = {DC_TEXT("key")}};

/* keys, incs, decs, times */
static const DcStatement sql_compact_update = {
	.text = "UPDATE @totals AS t SET inc = d.inc, dec = d.dec,"
			" updated_at = greatest(t.updated_at, d.at)"
			" FROM unnest($1, $2, $3, $4) AS d(key, inc, dec, at)"
			" WHERE t.key = d.key",
	.distributed = "UPDATE @totals AS t SET inc = d.inc, dec = d.dec,"
				   " updated_at = greatest(t.updated_at, d.at)"
				   " FROM unnest($1, $2, $3, $4) AS d(key, inc, dec, at)"
				   " WHERE t.key = ANY ($1) AND t.key = d.key",
	.argtypes = {TEXTARRAYOID, INT8ARRAYOID, INT8ARRAYOID, TIMESTAMPTZARRAYOID}};

/* keys, incs, decs, times, places: of rows that this transaction has locked */
static const DcStatement sql_compact_update_places = {
	.text = "UPDATE @totals AS t SET inc = d.inc, dec = d.dec,"
			" updated_at = greatest(t.updated_at, d.at)"
			" FROM unnest($1, $2, $3, $4, $5) AS d(key, inc, dec, at, place)"
			" WHERE t.ctid = d.place AND t.key = d.key",
	.argtypes = {TEXTARRAYOID, INT8ARRAYOID, INT8ARRAYOID, TIMESTAMPTZARRAYOID, TIDARRAYOID}};

/* keys, incs, decs, times: returns the keys that had no row */
static const DcStatement sql_compact_insert = {
	.text = "INSERT INTO @totals AS t (key, inc, dec, updated_at)"
			" SELECT d.key, d.inc, d.dec, d.at"
			" FROM unnest($1, $2, $3, $4) AS d(key, inc, dec, at)"
			" ON CONFLICT DO NOTHING RETURNING t.key",
	.argtypes = {TEXTARRAYOID, INT8ARRAYOID, INT8ARRAYOID, TIMESTAMPTZARRAYOID},
	.columns = {DC_TEXT("key")}};

/* keys, shards: the same from shard rows, which Citus has on the same server */
static const DcStatement sql_compact_insert_sums = {
	.text = "INSERT INTO @totals AS t (key, inc, dec, updated_at)"
			" SELECT s.key, sum(s.inc)::int8, sum(s.dec)::int8, max(s.updated_at)"
			" FROM @shards AS s, unnest($1, $2) AS d(key, shard)"
			" WHERE s.key = ANY ($1) AND s.key = d.key AND s.shard = d.shard GROUP BY s.key"
			" ON CONFLICT DO NOTHING RETURNING t.key",
	.argtypes = {TEXTARRAYOID, INT4ARRAYOID},
	.columns = {DC_TEXT("key")}};

/* The rows to write, as parameters of the statements. */
typedef struct DcTotalColumns
{
	int n;
	Datum *keys;
	Datum arrays[5]; /* keys, incs, decs, times, places */
} DcTotalColumns;

static int batch_key_compare(const void *a, const void *b);
static bool compacttotals_fits(int128 sum);
static void set_off(int128 *inc, int128 *dec);
static void batch_lock_totals(DcSqlSession *session, DcBatch *batch);
static bool has_no_total(const DcBatchKey *key);
static void batch_write_totals(DcSqlSession *session, DcBatch *batch);
static int batch_columns(DcBatch *batch, bool have_total, DcTotalColumns *columns);
static bool is_to_write(const DcBatchKey *key, bool has_total);
static void compacttotals_insert_by_sql(DcSqlSession *session, DcBatch *batch, DcTotalColumns *columns);
static uint64 insert_sums(DcSqlSession *session, DcBatch *batch);
static void compacttotals_insert_direct(DcCounter *counter, DcBatch *batch);
static void batch_key_add(DcCounter *counter, DcBatchKey *key, int64 inc, int64 dec);

/*
 * batch_to_totals adds the amounts of the keys to their rows of totals. If the table is replicated,
 * it also adds the amounts counted here to this region's own counts; if the table has a trend, it
 * adds them to the weights. Meanwhile nobody else inserts a row of totals of these keys, except for
 * an owner who does so directly.
 */
void
batch_to_totals(DcSqlSession *session, DcBatch *batch)
{
	batch_lock_totals(session, batch);
	if (counter_has_trend(session->counter))
		trend_hooks->lock(session, batch);
	if (counter_is_replicated(session->counter))
		region_hooks->publish(session->counter, batch);
	batch_write_totals(session, batch);
	if (counter_is_replicated(session->counter))
		region_hooks->written(session, batch);
	if (counter_has_trend(session->counter))
		trend_hooks->write(session, batch);
	for (int i = 0; i < batch->nkeys; i++)
	{
		if (batch->keys[i].published && batch->keys[i].skip)
			serialization_error();
	}
}

/*
 * batch_lock_totals locks the rows of totals and adds their amounts. It marks keys
 * whose row another transaction has locked, to be skipped.
 */
static void
batch_lock_totals(DcSqlSession *session, DcBatch *batch)
{
	Datum *keys = palloc(batch->nkeys * sizeof(Datum));
	bool places = session->counter->direct_read;
	Datum array;
	uint64 nrows;

	for (int i = 0; i < batch->nkeys; i++)
		keys[i] = batch->keys[i].key;
	array = array_datum(keys, batch->nkeys, TEXTOID);

	nrows = sql_run(session, places ? &sql_compact_lock_places : &sql_compact_lock,
					&array);
	for (uint64 i = 0; i < nrows; i++)
	{
		DcBatchKey *key = batch_find(batch, &session->rows, i);

		key->has_total = true;
		if (places)
			ItemPointerCopy((ItemPointer) DatumGetPointer(rows_datum(&session->rows, i, 4)),
							&key->place);
		batch_key_add(session->counter, key, rows_bigint(&session->rows, i, 2),
					  rows_bigint(&session->rows, i, 3));
	}
	if (nrows == batch->nkeys)
		return;

	nrows = sql_run(session, &sql_compact_existing, &array);
	for (uint64 i = 0; i < nrows; i++)
	{
		DcBatchKey *key = batch_find(batch, &session->rows, i);

		if (!key->has_total)
			key->skip = true;
	}
	/*
	 * compacttotals_insert_direct() finds out itself; rows that are elsewhere cannot be checked
	 */
	if (!session->counter->direct_totals && !session->counter->distributed && !session->counter->foreign)
		batch_skip_inserting(batch, session->counter->relid, has_no_total);
}

/*
 * Return true if a key has no row of totals that could be locked.
 */
static bool
has_no_total(const DcBatchKey *key)
{
	return !key->has_total;
}

/*
 * batch_find returns the key of row i of the last result. It is of the batch, unless a trigger
 * of the owner's has changed it while it was written: this refuses to go on then, since the
 * amounts would stay where they are, and be written again.
 */
DcBatchKey *
batch_find(DcBatch *batch, const DcRows *rows, uint64 i)
{
	DcBatchKey probe;
	DcBatchKey *found;

	probe.key = rows_datum(rows, i, 1);
	found = bsearch(&probe, batch->keys, batch->nkeys, sizeof(DcBatchKey),
					batch_key_compare);
	if (found == NULL)
		ereport(ERROR, errcode(ERRCODE_TRIGGERED_DATA_CHANGE_VIOLATION),
				errmsg("a trigger has changed the key of a total"));
	return found;
}

/*
 * Compare two keys of a batch, for bsearch().
 */
static int
batch_key_compare(const void *a, const void *b)
{
	return texts_compare(((const DcBatchKey *) a)->key, ((const DcBatchKey *) b)->key);
}

/*
 * Return true if two keys, which are texts, are the same.
 */
bool
batch_key_equal(Datum a, Datum b)
{
	return texts_compare(a, b) == 0;
}

/*
 * batch_key_add adds amounts to a key. A key whose sum overflows bigint is to stay as it is, even
 * if only the value does: the owner may have made an amount negative. That is known only when all
 * has been added: a set in another region (region/setmerge.c) may bring back a sum that had
 * overflowed bigint. The amounts of a ledger are set off against each other: the entries have the
 * turnover of an account, which may be greater than its balance can be.
 */
static void
batch_key_add(DcCounter *counter, DcBatchKey *key, int64 inc, int64 dec)
{
	if (key->skip && !key->overflow)
		return;
	key->inc += inc;
	key->dec += dec;
	if (OidIsValid(counter->row.ledger))
		set_off(&key->inc, &key->dec);
	key->overflow = key->own_overflow || !compacttotals_fits(key->inc) || !compacttotals_fits(key->dec) || !compacttotals_fits(key->inc - key->dec);
	key->skip = key->overflow;
}

/*
 * Return true if a sum fits bigint.
 */
static bool
compacttotals_fits(int128 sum)
{
	return sum >= PG_INT64_MIN && sum <= PG_INT64_MAX;
}

/*
 * batch_key_add_shard adds the amounts of a shard row. Of a replicated table, and of one with a
 * trend, those that were counted in this database are added up by themselves, too.
 */
void
batch_key_add_shard(DcCounter *counter, DcBatchKey *key, int32 shard,
					int64 inc, int64 dec, TimestampTz at)
{
	bool own = (counter_is_replicated(counter) || counter_has_trend(counter)) && !shard_is_remote(shard);

	key->at = Max(key->at, at);
	if (own)
	{
		key->own_at = Max(key->own_at, at);
		key->own_overflow |= pg_add_s64_overflow(key->own_inc, inc, &key->own_inc) ||
			pg_add_s64_overflow(key->own_dec, dec, &key->own_dec);
	}
	batch_key_add(counter, key, inc, dec);
}

/*
 * Subtract from both sums the smaller one, as long as that is positive: the difference stays.
 */
static void
set_off(int128 *inc, int128 *dec)
{
	int128 both = Min(*inc, *dec);

	if (both > 0)
	{
		*inc -= both;
		*dec -= both;
	}
}

/*
 * batch_write_totals writes the keys' new totals: first those that have a row
 * already, then the others. A key whose row another transaction has inserted in the meantime is to
 * be skipped.
 */
static void
batch_write_totals(DcSqlSession *session, DcBatch *batch)
{
	DcTotalColumns columns;

	if (batch_columns(batch, true, &columns) > 0)
	{
		if (sql_run(session,
					session->counter->direct_read ? &sql_compact_update_places
												  : &sql_compact_update,
					columns.arrays) != columns.n)
			serialization_error();
		counter_changed(session->counter, columns.keys, columns.n);
	}
	if (batch_columns(batch, false, &columns) == 0)
		return;
	if (session->counter->direct_totals)
		compacttotals_insert_direct(session->counter, batch);
	else
		compacttotals_insert_by_sql(session, batch, &columns);
}

/*
 * batch_columns makes arrays of the keys to be written that have a row of totals, or
 * of those that have none, and returns how many there are.
 */
static int
batch_columns(DcBatch *batch, bool have_total, DcTotalColumns *columns)
{
	static const Oid types[] = {TEXTOID, INT8OID, INT8OID, TIMESTAMPTZOID, TIDOID};
	Datum *items[lengthof(types)];

	for (int c = 0; c < lengthof(types); c++)
		items[c] = palloc(batch->nkeys * sizeof(Datum));
	columns->n = 0;
	for (int i = 0; i < batch->nkeys; i++)
	{
		DcBatchKey *key = &batch->keys[i];
		int n = columns->n;

		if (!is_to_write(key, have_total))
			continue;
		items[0][n] = key->key;
		items[1][n] = Int64GetDatum(key->inc);
		items[2][n] = Int64GetDatum(key->dec);
		items[3][n] = TimestampTzGetDatum(key->at);
		items[4][n] = PointerGetDatum(&key->place);
		columns->n++;
	}
	columns->keys = items[0];
	for (int c = 0; c < lengthof(types) && columns->n > 0; c++)
		columns->arrays[c] = array_datum(items[c], columns->n, types[c]);
	return columns->n;
}

/*
 * Return true if the total of a key is to be written, and it has a row of totals (has_total),
 * or has none.
 */
static bool
is_to_write(const DcBatchKey *key, bool has_total)
{
	return !key->skip && key->used && key->has_total == has_total;
}

/*
 * compacttotals_insert_by_sql inserts rows of totals. Commits do not insert into such a table
 * (layout.c), though some may have a moment ago; users may at any time.
 */
static void
compacttotals_insert_by_sql(DcSqlSession *session, DcBatch *batch, DcTotalColumns *columns)
{
	uint64 nrows = session->counter->distributed
		? insert_sums(session, batch)
		: sql_run(session, &sql_compact_insert, columns->arrays);
	Datum *keys = palloc(Max(nrows, 1) * sizeof(Datum));

	for (int i = 0; i < batch->nkeys; i++)
		batch->keys[i].skip |= is_to_write(&batch->keys[i], false);
	for (uint64 i = 0; i < nrows; i++)
	{
		DcBatchKey *key = batch_find(batch, &session->rows, i);

		key->skip = false;
		keys[i] = key->key;
	}
	if (nrows > 0)
		counter_changed(session->counter, keys, (int) nrows);
}

/*
 * insert_sums inserts the rows of totals of a table that Citus distributes: their amounts are those
 * of the shard rows, which are locked. It returns the number of rows of the result.
 */
static uint64
insert_sums(DcSqlSession *session, DcBatch *batch)
{
	Datum *keys = palloc(batch->nrows * sizeof(Datum));
	Datum *shards = palloc(batch->nrows * sizeof(Datum));
	Datum values[2];
	int n = 0;

	for (int i = 0; i < batch->nkeys; i++)
	{
		DcBatchKey *key = &batch->keys[i];

		for (int r = key->first; r < key->first + key->nrows && is_to_write(key, false); r++)
		{
			keys[n] = key->key;
			shards[n] = batch->rows[r].shard;
			n++;
		}
	}
	values[0] = array_datum(keys, n, TEXTOID);
	values[1] = array_datum(shards, n, INT4OID);
	return sql_run(session, &sql_compact_insert_sums, values);
}

/*
 * compacttotals_insert_direct inserts them into a table into which commits may be inserting the
 * same keys, so it must not wait (totalrow.c). No event is needed: no table with events is
 * written like this.
 */
static void
compacttotals_insert_direct(DcCounter *counter, DcBatch *batch)
{
	DcDirectRel rel;

	directrel_open(&rel, counter, DC_TABLE_TOTALS, true);
	for (int i = 0; i < batch->nkeys; i++)
	{
		DcBatchKey *key = &batch->keys[i];
		DcKey text;
		DcDeltaKey delta;

		if (!is_to_write(key, false))
			continue;
		key_from_text(key->key, &text);
		delta = delta_key(counter->relid, &text);
		key->skip = !total_insert(&rel, &delta, key->inc, key->dec, key->at, &key->place);
	}
	directrel_close(&rel);
	CommandCounterIncrement();
}
