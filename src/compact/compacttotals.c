/*
 * compacttotals.c
 *		Adding amounts of keys to the table of totals.
 *
 * Compaction brings them from shard rows, and a flush from memory. Both hold the
 * lock on the table's compaction (locks.c), so only one transaction inserts rows of
 * totals. Rows that others have locked are passed over.
 *
 * In an ordinary local table a row that is locked is updated by its place (ctid), not
 * by its key: that saves searching the index a second time.
 */
#include "postgres.h"

#include "base/errors.h"
#include "base/key.h"
#include "catalog/pg_type.h"
#include "common/int.h"
#include "compact/compactbatch.h"
#include "utils/array.h"
#include "utils/builtins.h"

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
	.text = "SELECT t.key FROM @totals AS t WHERE t.key = ANY ($1)", .argtypes = {TEXTARRAYOID}, .columns = {DC_TEXT("key")}};

/* keys, incs, decs, times */
static const DcStatement sql_compact_update = {
	.text = "UPDATE @totals AS t SET inc = d.inc, dec = d.dec,"
			" updated_at = greatest(t.updated_at, d.at)"
			" FROM unnest($1, $2, $3, $4) AS d(key, inc, dec, at)"
			" WHERE t.key = d.key",
	.argtypes = {TEXTARRAYOID, INT8ARRAYOID, INT8ARRAYOID, TIMESTAMPTZARRAYOID}};

/* keys, incs, decs, times, places: of rows that this transaction has locked */
static const DcStatement sql_compact_update_places = {
	.text = "UPDATE @totals AS t SET inc = d.inc, dec = d.dec,"
			" updated_at = greatest(t.updated_at, d.at)"
			" FROM unnest($1, $2, $3, $4, $5) AS d(key, inc, dec, at, place)"
			" WHERE t.ctid = d.place AND t.key = d.key",
	.argtypes = {TEXTARRAYOID, INT8ARRAYOID, INT8ARRAYOID, TIMESTAMPTZARRAYOID, TIDARRAYOID}};

/* keys, incs, decs, times */
static const DcStatement sql_compact_insert = {
	.text = "INSERT INTO @totals (key, inc, dec, updated_at)"
			" SELECT d.key, d.inc, d.dec, d.at"
			" FROM unnest($1, $2, $3, $4) AS d(key, inc, dec, at)"
			" ON CONFLICT DO NOTHING",
	.argtypes = {TEXTARRAYOID, INT8ARRAYOID, INT8ARRAYOID, TIMESTAMPTZARRAYOID}};

static bool has_places(const DcCounter *counter);
static DcBatchKey *batch_find(DcBatch *batch, const DcRows *rows, uint64 i);
static int batch_key_compare(const void *a, const void *b);
static void set_off(int64 *inc, int64 *dec);

/*
 * batch_lock_totals locks the rows of totals and adds their amounts; marks keys
 * whose row somebody else has locked.
 */
void
batch_lock_totals(DcSqlSession *session, DcBatch *batch)
{
	Datum *keys = palloc(batch->nkeys * sizeof(Datum));
	bool places = has_places(session->counter);
	Datum values[1];
	uint64 nrows;

	for (int i = 0; i < batch->nkeys; i++)
		keys[i] = batch->keys[i].key;
	values[0] = PointerGetDatum(construct_array(keys, batch->nkeys, TEXTOID, -1,
												false, TYPALIGN_INT));

	nrows = sql_run(session, places ? &sql_compact_lock_places : &sql_compact_lock,
					values);
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

	nrows = sql_run(session, &sql_compact_existing, values);
	for (uint64 i = 0; i < nrows; i++)
	{
		DcBatchKey *key = batch_find(batch, &session->rows, i);

		if (!key->has_total)
			key->skip = true;
	}
}

/*
 * has_places tells whether rows of totals can be found by their place.
 */
static bool
has_places(const DcCounter *counter)
{
	return counter->direct_read;
}

/*
 * batch_find returns the key of row i of the last result.
 */
static DcBatchKey *
batch_find(DcBatch *batch, const DcRows *rows, uint64 i)
{
	DcBatchKey probe;
	DcBatchKey *found;

	probe.key = rows_datum(rows, i, 1);
	found = bsearch(&probe, batch->keys, batch->nkeys, sizeof(DcBatchKey),
					batch_key_compare);
	if (found == NULL)
		elog(ERROR, "unexpected counter key");
	return found;
}

static int
batch_key_compare(const void *a, const void *b)
{
	DcKey left;
	DcKey right;

	key_from_text(((const DcBatchKey *) a)->key, &left);
	key_from_text(((const DcBatchKey *) b)->key, &right);
	return key_compare(&left, &right);
}

/*
 * batch_key_add adds amounts to a key. A key whose sum leaves bigint is to stay as
 * it is. In a ledger, what came in and went out is in the entries, so here it is set off:
 * the turnover of an account may be greater than its balance can be.
 */
void
batch_key_add(DcCounter *counter, DcBatchKey *key, int64 inc, int64 dec)
{
	if (key->skip)
		return;
	if (OidIsValid(counter->row.ledger))
	{
		set_off(&inc, &dec);
		set_off(&key->inc, &dec);
		set_off(&inc, &key->dec);
	}
	if (pg_add_s64_overflow(key->inc, inc, &key->inc) ||
		pg_add_s64_overflow(key->dec, dec, &key->dec))
	{
		key->skip = true;
		key->overflow = true;
	}
}

static void
set_off(int64 *inc, int64 *dec)
{
	int64 both = Min(*inc, *dec);

	if (both > 0)
	{
		*inc -= both;
		*dec -= both;
	}
}

/*
 * batch_write_totals writes the keys' new totals: first those that have a row
 * already, then the others.
 */
void
batch_write_totals(DcSqlSession *session, DcBatch *batch)
{
	bool places = has_places(session->counter);
	Datum *columns[5];

	for (int c = 0; c < lengthof(columns); c++)
		columns[c] = palloc(batch->nkeys * sizeof(Datum));
	for (int exists = 1; exists >= 0; exists--)
	{
		const DcStatement *statement = &sql_compact_insert;
		Datum values[5];
		int n = 0;

		for (int i = 0; i < batch->nkeys; i++)
		{
			DcBatchKey *key = &batch->keys[i];

			if (key->skip || !key->used || key->has_total != (exists == 1))
				continue;
			columns[0][n] = key->key;
			columns[1][n] = Int64GetDatum(key->inc);
			columns[2][n] = Int64GetDatum(key->dec);
			columns[3][n] = TimestampTzGetDatum(key->at);
			columns[4][n] = PointerGetDatum(&key->place);
			n++;
		}
		if (n == 0)
			continue;
		values[0] = PointerGetDatum(construct_array(columns[0], n, TEXTOID, -1,
													false, TYPALIGN_INT));
		for (int c = 1; c < 4; c++)
			values[c] = PointerGetDatum(construct_array(columns[c], n,
														c == 3 ? TIMESTAMPTZOID : INT8OID,
														8, FLOAT8PASSBYVAL,
														TYPALIGN_DOUBLE));
		if (exists)
			statement = places ? &sql_compact_update_places : &sql_compact_update;
		if (statement == &sql_compact_update_places)
			values[4] = PointerGetDatum(construct_array(columns[4], n, TIDOID,
														sizeof(ItemPointerData),
														false, TYPALIGN_SHORT));
		if (sql_run(session, statement, values) != n)
			serialization_error();
		counter_changed(session->counter, columns[0], n);
	}
}
