/*
 * compactbatch.c
 *		The shard rows of a batch, by SQL: adding them to it, and clearing them.
 *
 * Copyright (c) 2026, the dcounter developers
 *
 * compact.c describes the protocol. Statements of its own lock the rows, of one table or of one
 * shard (compactdistributed.c). The rest is the same for both.
 */
#include "postgres.h"

#include "catalog/pg_type.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/timestamp.h"

#include "base/args.h"
#include "core/compact/compactbatch.h"
#include "core/compact/compactstuck.h"
#include "core/rows/shardnumber.h"

/* keys, shards */
const DcStatement sql_compact_delete = {
	.text = "DELETE FROM @shards AS s USING unnest($1, $2) AS d(key, shard)"
			" WHERE s.key = d.key AND s.shard = d.shard",
	.distributed = "DELETE FROM @shards AS s USING unnest($1, $2) AS d(key, shard)"
				   " WHERE s.key = ANY ($1) AND s.key = d.key AND s.shard = d.shard",
	.argtypes = {TEXTARRAYOID, INT4ARRAYOID}};

/* keys, shards */
static const DcStatement sql_compact_zero = {
	.text = "UPDATE @shards AS s SET inc = 0, dec = 0"
			" FROM unnest($1, $2) AS d(key, shard)"
			" WHERE s.key = d.key AND s.shard = d.shard",
	.argtypes = {TEXTARRAYOID, INT4ARRAYOID}};

/*
 * batch_add_row adds a row to the batch, to its last key if it is of that key.
 * Rows that would exceed bigint make the key one to skip.
 */
void
batch_add_row(DcCounter *counter, DcBatch *batch, const DcRows *rows, uint64 i)
{
	DcShardRow *row = &batch->rows[batch->nrows];
	DcBatchKey *key = &batch->keys[batch->nkeys - 1];
	int64 inc = rows_bigint(rows, i, 3);
	int64 dec = rows_bigint(rows, i, 4);
	TimestampTz at = DatumGetTimestampTz(rows_datum(rows, i, 5));

	row->key = rows_datum(rows, i, 1);
	key_check_text(row->key);
	row->shard = rows_datum(rows, i, 2);
	row->units = rows_bigint(rows, i, 6);
	row->empty = (inc == 0 && dec == 0);

	if (batch->nkeys == 0 || !batch_key_equal(key->key, row->key))
	{
		key = &batch->keys[batch->nkeys++];
		memset(key, 0, sizeof(*key));
		key->key = row->key;
		key->first = batch->nrows;
		key->at = at;
	}
	key->nrows++;
	batch->nrows++;
	key->used |= !row->empty;
	batch_key_add_shard(counter, key, DatumGetInt32(row->shard), inc, dec, at);
}

/*
 * batch_clear_shards deletes or zeroes the shard rows whose amounts are in the
 * totals now.
 */
void
batch_clear_shards(DcSqlSession *session, DcBatch *batch)
{
	Datum *keys = palloc(batch->nrows * sizeof(Datum));
	Datum *shards = palloc(batch->nrows * sizeof(Datum));

	for (int zero = 0; zero <= 1; zero++)
	{
		Datum values[2];
		int n = 0;

		for (int i = 0; i < batch->nkeys; i++)
		{
			DcBatchKey *key = &batch->keys[i];

			for (int r = key->first; r < key->first + key->nrows; r++)
			{
				bool keep = key->nrows > 1 && !batch->rows[r].empty &&
					shard_is_shared(DatumGetInt32(batch->rows[r].shard)) &&
					!session->counter->foreign;

				if (key->skip || keep != (zero == 1))
					continue;
				keys[n] = key->key;
				shards[n] = batch->rows[r].shard;
				n++;
			}
		}
		if (n == 0)
			continue;
		values[0] = array_datum(keys, n, TEXTOID);
		values[1] = array_datum(shards, n, INT4OID);
		if (sql_run(session, zero ? &sql_compact_zero : &sql_compact_delete,
					values) != n)
			elog(ERROR, "locked shard rows have changed");
	}
}

/*
 * batch_count counts the keys whose amounts were moved; a key with many rows that the batch
 * before has counted is not counted again.
 */
int64
batch_count(DcBatch *batch, Datum previous)
{
	int64 count = 0;

	for (int i = 0; i < batch->nkeys; i++)
	{
		DcBatchKey *key = &batch->keys[i];

		if (!key->skip && key->used &&
			(previous == (Datum) 0 || !batch_key_equal(key->key, previous)))
			count++;
	}
	return count;
}

/*
 * batch_tell_stuck warns of keys whose sum overflows bigint: their amounts stay where they are. A
 * sweep that remembers such keys warns of those that are new.
 */
void
batch_tell_stuck(DcSweep *sweep, DcCounter *counter, const DcBatch *batch)
{
	for (int i = 0; i < batch->nkeys; i++)
	{
		if (!batch->keys[i].overflow)
			continue;
		sweep->stuck++;
		if (sweep->remembers && !stuck_note(counter->relid, batch->keys[i].key))
			continue;
		ereport(WARNING,
				(errcode(ERRCODE_NUMERIC_VALUE_OUT_OF_RANGE),
				 errmsg("cannot compact key \"%s\" of counter table \"%s\": bigint out of range",
						TextDatumGetCString(batch->keys[i].key),
						get_rel_name(counter->relid)),
				 OidIsValid(counter->row.ledger)
					 ? 0
					 : errhint("Use dc_set(), dc_reset() or dc_delete() to start the key over.")));
	}
}
