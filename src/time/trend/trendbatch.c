/*
 * trendbatch.c
 *		Adding what a compaction moves to the weights of its keys.
 *
 * Copyright (c) 2026, the dcounter developers
 *
 * Protocol, within that of compact.c: the table is locked without waiting before a batch begins
 * (trend_ready). When the rows of totals are locked, so are the weights, with SKIP LOCKED
 * (trend_lock). A key whose weight exists, but is locked by another transaction, is left alone
 * altogether. When the totals are written, the new weights are, too (trend_write), but only of the
 * keys that were moved. All of this is one transaction, so amounts that were moved are in the
 * weight. One compaction at a time works on a table, so only dc_set(), which has the shard rows of
 * its key, and the owner, directly, can insert weights at the same time. A key whose weight the
 * owner has inserted in an open transaction is left alone as well
 * (core/compact/compactinserting.c). If the owner inserts one after that look-up, the batch waits
 * for the owner's transaction, and its amounts for this key are lost to the trend.
 */
#include "postgres.h"

#include <math.h>

#include "catalog/pg_type.h"
#include "common/int.h"
#include "storage/lmgr.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/timestamp.h"

#include "base/args.h"
#include "base/compat.h"
#include "time/trend/decay.h"
#include "time/trend/trend.h"

/* keys */
static const DcStatement sql_lock_weights = {
	.text = "SELECT r.key, r.weight, r.epoch FROM @trend AS r WHERE r.key = ANY ($1)"
			" FOR NO KEY UPDATE SKIP LOCKED",
	.argtypes = {TEXTARRAYOID},
	.columns = {DC_TEXT("key"), DC_COLUMN("weight", FLOAT8OID), DC_BIGINT("epoch")},
	.of = DC_OF_TREND};

/* keys */
static const DcStatement sql_existing_weights = {
	.text = "SELECT r.key FROM @trend AS r WHERE r.key = ANY ($1)",
	.argtypes = {TEXTARRAYOID},
	.columns = {DC_TEXT("key")},
	.of = DC_OF_TREND};

/* keys, weights, epochs */
static const DcStatement sql_update_weights = {
	.text = "UPDATE @trend AS r SET weight = d.weight, epoch = d.epoch"
			" FROM unnest($1, $2, $3) AS d(key, weight, epoch) WHERE r.key = d.key",
	.argtypes = {TEXTARRAYOID, FLOAT8ARRAYOID, INT8ARRAYOID},
	.of = DC_OF_TREND};

/* keys, weights, epochs */
static const DcStatement sql_insert_weights = {
	.text = "INSERT INTO @trend AS r (key, weight, epoch)"
			" SELECT d.key, d.weight, d.epoch FROM unnest($1, $2, $3) AS d(key, weight, epoch)"
			" ON CONFLICT DO NOTHING",
	.argtypes = {TEXTARRAYOID, FLOAT8ARRAYOID, INT8ARRAYOID},
	.of = DC_OF_TREND};

static const char *trend_word(DcCounter *counter, const char *word);
static bool trendbatch_counts(const DcBatchKey *key);
static bool has_no_weight(const DcBatchKey *key);
static void add_to_weight(const DcCounter *counter, DcBatchKey *key);
static void write_weights(DcSqlSession *session, DcBatch *batch, bool have_weight,
						  const DcStatement *statement);

/*
 * trend_ready locks the table, without waiting; false if somebody has it locked. A table that no
 * longer exists is no obstacle: the result is true.
 */
bool
trend_ready(DcCounter *counter)
{
	return ConditionalLockRelationOid(counter->row.trends, RowExclusiveLock);
}

/*
 * trend_session_begin makes the table, which this transaction has locked, known to the statements
 * of a session, and keeps it open until the session ends. Undone by trend_session_end().
 */
DcTrendSession
trend_session_begin(DcSqlSession *session)
{
	DcTrendSession trend = {session, session->word};

	session->word = trend_word;
	if (session->tables[DC_OF_TREND] == NULL)
		sql_keep_open(session, DC_OF_TREND, session->counter->row.trends);
	return trend;
}

/*
 * Undo trend_session_begin: the session's statements have the caller's words again.
 */
void
trend_session_end(DcTrendSession *trend)
{
	trend->session->word = trend->word;
}

/*
 * Return what a word in a statement's text stands for: the table of weights.
 */
static const char *
trend_word(DcCounter *counter, const char *word)
{
	if (strcmp(word, "trend") == 0)
		return relation_sql_name(counter->row.trends);
	elog(ERROR, "unrecognized word: %s", word);
}

/*
 * trend_lock locks and reads the weights of the keys of a batch.
 */
void
trend_lock(DcSqlSession *session, DcBatch *batch)
{
	DcTrendSession trend;
	Datum *keys;
	Datum array;
	uint64 nrows;
	int n = 0;

	if (!trend_fits(session->counter))
		return;
	keys = palloc(batch->nkeys * sizeof(Datum));
	for (int i = 0; i < batch->nkeys; i++)
	{
		if (trendbatch_counts(&batch->keys[i]))
			keys[n++] = batch->keys[i].key;
	}
	if (n == 0)
		return;
	array = array_datum(keys, n, TEXTOID);
	trend = trend_session_begin(session);
	nrows = sql_run(session, &sql_lock_weights, &array);
	for (uint64 i = 0; i < nrows; i++)
	{
		DcBatchKey *key = batch_find(batch, &session->rows, i);

		key->has_weight = true;
		key->weight = DatumGetFloat8(rows_datum(&session->rows, i, 2));
		key->epoch = rows_bigint(&session->rows, i, 3);
	}
	if (nrows < n)
	{
		nrows = sql_run(session, &sql_existing_weights, &array);
		for (uint64 i = 0; i < nrows; i++)
		{
			DcBatchKey *key = batch_find(batch, &session->rows, i);

			key->skip |= !key->has_weight;
		}
		batch_skip_inserting(batch, session->counter->row.trends, has_no_weight);
	}
	trend_session_end(&trend);
}

/*
 * Return true if the key counts for the trend, and its weight is to be inserted.
 */
static bool
has_no_weight(const DcBatchKey *key)
{
	return trendbatch_counts(key) && !key->has_weight;
}

/*
 * trend_write adds to the weights.
 */
void
trend_write(DcSqlSession *session, DcBatch *batch)
{
	DcTrendSession trend;

	if (!trend_fits(session->counter))
		return;
	for (int i = 0; i < batch->nkeys; i++)
	{
		if (trendbatch_counts(&batch->keys[i]))
			add_to_weight(session->counter, &batch->keys[i]);
	}
	trend = trend_session_begin(session);
	write_weights(session, batch, true, &sql_update_weights);
	write_weights(session, batch, false, &sql_insert_weights);
	trend_session_end(&trend);
}

/*
 * Return true if a key has something for the trend.
 */
static bool
trendbatch_counts(const DcBatchKey *key)
{
	return !key->skip && key->used && key->own_inc != key->own_dec;
}

/*
 * add_to_weight adds the delta of a key as of the time of its last change; a time in the future, as
 * after the clock was set back, counts as now.
 */
static void
add_to_weight(const DcCounter *counter, DcBatchKey *key)
{
	TimestampTz at = counter_is_replicated(counter) ? key->own_at : key->at;
	int64 net;
	double delta = pg_sub_s64_overflow(key->own_inc, key->own_dec, &net)
		? (double) key->own_inc - (double) key->own_dec
		: (double) net;

	trend_add(counter, key->has_weight, &key->weight, &key->epoch, delta, at);
}

/*
 * trend_add adds a delta at a time to a weight, which becomes one of the later of the two epochs.
 */
void
trend_add(const DcCounter *counter, bool has_weight, double *weight, int64 *epoch, double delta, TimestampTz at)
{
	int64 half_life = counter->row.half_life;
	TimestampTz now = GetCurrentTimestamp();
	int64 since;

	at = Min(at, now);
	since = decay_epoch(at, half_life);
	if (!has_weight || !isfinite(*weight) || decay_is_ahead(*epoch, half_life, now))
	{
		*weight = 0;
		*epoch = since;
	}
	else if (*epoch < since)
	{
		*weight = decay_move(*weight, *epoch, since);
		*epoch = since;
	}
	*weight += decay_weight(delta, at, half_life, *epoch);
}

/*
 * write_weights updates the weights that exist, or inserts those that do not.
 */
static void
write_weights(DcSqlSession *session, DcBatch *batch, bool have_weight,
			  const DcStatement *statement)
{
	static const Oid types[] = {TEXTOID, FLOAT8OID, INT8OID};
	Datum *items[lengthof(types)];
	Datum arrays[lengthof(types)];
	int n = 0;

	for (int c = 0; c < lengthof(types); c++)
		items[c] = palloc(batch->nkeys * sizeof(Datum));
	for (int i = 0; i < batch->nkeys; i++)
	{
		const DcBatchKey *key = &batch->keys[i];

		if (!trendbatch_counts(key) || key->has_weight != have_weight)
			continue;
		items[0][n] = key->key;
		items[1][n] = Float8GetDatum(key->weight);
		items[2][n] = Int64GetDatum(key->epoch);
		n++;
	}
	if (n == 0)
		return;
	for (int c = 0; c < lengthof(types); c++)
		arrays[c] = array_datum(items[c], n, types[c]);
	sql_run(session, statement, arrays);
}
