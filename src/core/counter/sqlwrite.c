/*
 * sqlwrite.c
 *		Adding to shard rows by SQL (see apply.c for when and why).
 *
 * Copyright (c) 2026, the dcounter developers
 *
 * Why the statements are written as they are:
 *
 *	- The shard row is chosen once, in an uncorrelated sub-select, which is
 *	  evaluated once for the statement. A choice inside the WHERE clause, as in
 *	  "WHERE shard = floor(random() * 16)", would be evaluated for each row, and
 *	  so match no row or several: lost or doubled counts.
 *	- Rows are tried in the order of a hash of shard number and seed (rendezvous
 *	  hashing): each seed sees its own random permutation, and keeps its first
 *	  choice while rows come and go.
 */
#include "postgres.h"

#include "catalog/pg_type.h"
#include "miscadmin.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"
#include "utils/timestamp.h"

#include "base/activity.h"
#include "base/args.h"
#include "base/compat.h"
#include "core/counter/sqlwrite.h"
#include "core/rows/locks.h"
#include "core/rows/shardnumber.h"

/* Keys that one statement writes; bounds the memory of an early write. */
#define BATCH_KEYS 1000

/* Numbers of rows that are tried for an amount that overflows bigint in the first of them. */
#define MAX_NUMBERS 8

#define SHARD_UPSERT \
	" ON CONFLICT (key, shard) DO UPDATE" \
	" SET inc = s.inc + excluded.inc, dec = s.dec + excluded.dec," \
	" updated_at = excluded.updated_at"

#define CHOSEN_SHARD \
	"(SELECT f.shard FROM @shards AS f WHERE f.key = $1 AND f.shard >= 0" \
	" ORDER BY hashint4extended(f.shard, $5) LIMIT 1 FOR NO KEY UPDATE"

#define UPDATE_CHOSEN \
	"UPDATE @shards AS s SET inc = s.inc + $2, dec = s.dec + $3," \
	" updated_at = $4 WHERE s.key = $1 AND s.shard = "

/* key, inc, dec, at, seed: adds to a row that is not locked */
static const DcStatement sql_update_free = {
	.text = UPDATE_CHOSEN CHOSEN_SHARD " SKIP LOCKED)",
	.argtypes = {TEXTOID, INT8OID, INT8OID, TIMESTAMPTZOID, INT8OID}};

/* as the first one, waiting for the first choice */
static const DcStatement sql_update_wait = {
	.text = UPDATE_CHOSEN CHOSEN_SHARD ")",
	.argtypes = {TEXTOID, INT8OID, INT8OID, TIMESTAMPTZOID, INT8OID}};

/* key, inc, dec, at, own shard, max shards */
static const DcStatement sql_insert_if_room = {
	.text = "INSERT INTO @shards AS s (key, shard, inc, dec, updated_at)"
			" SELECT $1, $5, $2, $3, $4 WHERE $6 >"
			" (SELECT count(*) FROM @shards AS c WHERE c.key = $1 AND c.shard >= 0)" SHARD_UPSERT,
	.argtypes = {TEXTOID, INT8OID, INT8OID, TIMESTAMPTZOID, INT4OID, INT4OID}};

/* keys, incs, decs, at, own shard: the own row of each key */
static const DcStatement sql_insert_batch = {
	.text = "INSERT INTO @shards AS s (key, shard, inc, dec, updated_at)"
			" SELECT d.key, $5, d.inc, d.dec, $4"
			" FROM unnest($1, $2, $3) AS d(key, inc, dec)" SHARD_UPSERT,
	.argtypes = {TEXTARRAYOID, INT8ARRAYOID, INT8ARRAYOID, TIMESTAMPTZOID, INT4OID}};

/* key, inc, dec, at, own shard */
static const DcStatement sql_update_own = {
	.text = "UPDATE @shards AS s SET inc = s.inc + $2, dec = s.dec + $3,"
			" updated_at = $4 WHERE s.key = $1 AND s.shard = $5",
	.argtypes = {TEXTOID, INT8OID, INT8OID, TIMESTAMPTZOID, INT4OID}};

/* key, inc, dec, at, own shard */
const DcStatement sql_insert_own = {
	.text = "INSERT INTO @shards (key, shard, inc, dec, updated_at)"
			" VALUES ($1, $5, $2, $3, $4)",
	.argtypes = {TEXTOID, INT8OID, INT8OID, TIMESTAMPTZOID, INT4OID}};

/* key, own shard */
const DcStatement sql_delete_own = {
	.text = "DELETE FROM @shards AS s WHERE s.key = $1 AND s.shard = $2", .argtypes = {TEXTOID, INT4OID}};

/*
 * key, inc, dec, at: adds to the row of totals, or inserts it; no row if the sum would overflow
 */
static const DcStatement sql_upsert_total = {
	.text = "INSERT INTO @totals AS t (key, inc, dec, updated_at) VALUES ($1, $2, $3, $4)"
			" ON CONFLICT (key) DO UPDATE SET inc = t.inc + excluded.inc, dec = t.dec + excluded.dec,"
			" updated_at = greatest(t.updated_at, excluded.updated_at)"
			" WHERE t.inc BETWEEN 0 AND 9223372036854775807 - excluded.inc"
			" AND t.dec BETWEEN 0 AND 9223372036854775807 - excluded.dec",
	.argtypes = {TEXTOID, INT8OID, INT8OID, TIMESTAMPTZOID},
	.inserts_row = true};

/*
 * key, amount, at, greatest sum to which that may be added: the same for one of the amounts, with
 * less for Citus to write out, and for its worker to parse and plan, for each increment
 */
#define UPSERT_ONE(column, other) \
	"INSERT INTO @totals AS t (key, " column ", " other ", updated_at) VALUES ($1, $2, 0, $3)" \
	" ON CONFLICT (key) DO UPDATE SET " column " = t." column " + excluded." column "," \
	" updated_at = greatest(t.updated_at, excluded.updated_at) WHERE t." column " <= $4"

static const DcStatement sql_upsert_inc = {
	.text = UPSERT_ONE("inc", "dec"),
	.argtypes = {TEXTOID, INT8OID, TIMESTAMPTZOID, INT8OID},
	.inserts_row = true};

static const DcStatement sql_upsert_dec = {
	.text = UPSERT_ONE("dec", "inc"),
	.argtypes = {TEXTOID, INT8OID, TIMESTAMPTZOID, INT8OID},
	.inserts_row = true};

/* key, inc, dec, at, shard: adds to a row, or inserts it */
static const DcStatement sql_upsert = {
	.text = "INSERT INTO @shards AS s (key, shard, inc, dec, updated_at)"
			" VALUES ($1, $5, $2, $3, $4)" SHARD_UPSERT,
	.argtypes = {TEXTOID, INT8OID, INT8OID, TIMESTAMPTZOID, INT4OID},
	.inserts_row = true};

/* the same, unless a sum would overflow bigint */
static const DcStatement sql_upsert_fitting = {
	.text = "INSERT INTO @shards AS s (key, shard, inc, dec, updated_at)"
			" VALUES ($1, $5, $2, $3, $4)" SHARD_UPSERT
			" WHERE s.inc::numeric + excluded.inc BETWEEN -9223372036854775808 AND 9223372036854775807"
			" AND s.dec::numeric + excluded.dec BETWEEN -9223372036854775808 AND 9223372036854775807",
	.argtypes = {TEXTOID, INT8OID, INT8OID, TIMESTAMPTZOID, INT4OID},
	.inserts_row = true};

static void blind_batch(DcSqlSession *session, DcDelta **deltas, int count,
						int32 own_shard);
static void blind_foreign(DcSqlSession *session, const DcDelta *delta,
						  int32 own_shard, bool written);
static void add_to_shard(DcSqlSession *session, Datum *values);
static bool add_to_total(DcSqlSession *session, const DcDelta *delta, Datum *values);
static void delta_values(const DcDelta *delta, Datum *values);

/*
 * sql_add_shared adds a delta to any row of its key that is free, or to a new
 * one with number own_shard. Works under READ COMMITTED, on local tables. Returns
 * how often it has waited.
 */
int
sql_add_shared(DcSqlSession *session, const DcDelta *delta, uint64 seed,
			   int32 own_shard)
{
	Datum values[6];
	int waits = 0;

	if (delta->inc == 0 && delta->dec == 0)
		return 0;
	delta_values(delta, values);

	for (;;)
	{
		CHECK_FOR_INTERRUPTS();

		values[4] = Int64GetDatum((int64) seed);
		if (sql_run(session, &sql_update_free, values) > 0)
			return waits;

		values[4] = Int32GetDatum(own_shard);
		values[5] = Int32GetDatum(session->counter->row.max_shards);
		if (sql_run(session, &sql_insert_if_room, values) > 0)
			return waits;

		/* all taken, and no room for another: do not wait if that may take a long time */
		if (locked_for_long(session->counter, delta->key.data, delta->key.len))
		{
			DcDelta *deltas = (DcDelta *) delta;

			blind_batch(session, &deltas, 1, own_shard);
			return waits;
		}

		/* wait, unless all rows have gone in the meantime */
		waits++;
		values[4] = Int64GetDatum((int64) seed);
		if (sql_run(session, &sql_update_wait, values) > 0)
			return waits;
	}
}

/*
 * sql_add_blind adds deltas to rows with number own_shard, which no other transaction uses.
 * `written` says that this transaction may have such rows already.
 */
void
sql_add_blind(DcSqlSession *session, DcDelta **deltas, int count,
			  int32 own_shard, bool written)
{
	if (session->counter->foreign)
	{
		for (int i = 0; i < count; i++)
			blind_foreign(session, deltas[i], own_shard, written);
		return;
	}
	for (int i = 0; i < count; i += BATCH_KEYS)
		blind_batch(session, deltas + i, Min(BATCH_KEYS, count - i), own_shard);
}

/*
 * blind_batch adds deltas to this transaction's own rows, in one
 * statement.
 */
static void
blind_batch(DcSqlSession *session, DcDelta **deltas, int count,
			int32 own_shard)
{
	MemoryContext cxt = AllocSetContextCreate(CurrentMemoryContext,
											  "dcounter batch",
											  ALLOCSET_DEFAULT_SIZES);
	MemoryContext old = MemoryContextSwitchTo(cxt);
	Datum *keys = palloc(count * sizeof(Datum));
	Datum *incs = palloc(count * sizeof(Datum));
	Datum *decs = palloc(count * sizeof(Datum));
	Datum values[5];
	int n = 0;

	CHECK_FOR_INTERRUPTS();
	for (int i = 0; i < count; i++)
	{
		const DcDelta *delta = deltas[i];

		if (delta->inc == 0 && delta->dec == 0)
			continue;
		keys[n] = delta_key_text(&delta->key);
		incs[n] = Int64GetDatum(delta->inc);
		decs[n] = Int64GetDatum(delta->dec);
		n++;
	}
	values[0] = array_datum(keys, n, TEXTOID);
	values[1] = array_datum(incs, n, INT8OID);
	values[2] = array_datum(decs, n, INT8OID);
	values[3] = TimestampTzGetDatum(GetCurrentTimestamp());
	values[4] = Int32GetDatum(own_shard);
	MemoryContextSwitchTo(old);
	if (n > 0)
		sql_run(session, &sql_insert_batch, values);
	MemoryContextDelete(cxt);
}

/*
 * blind_foreign does the same for one delta without ON CONFLICT, which
 * foreign tables lack.
 */
static void
blind_foreign(DcSqlSession *session, const DcDelta *delta,
			  int32 own_shard, bool written)
{
	Datum values[5];

	if (delta->inc == 0 && delta->dec == 0)
		return;
	CHECK_FOR_INTERRUPTS();
	delta_values(delta, values);
	values[4] = Int32GetDatum(own_shard);
	if (written && sql_run(session, &sql_update_own, values) > 0)
		return;
	sql_run(session, &sql_insert_own, values);
}

/*
 * sql_add_distributed adds a delta to a table that Citus distributes, by one statement for one of
 * its shards.
 *
 * Totals first, as elsewhere (core/rows/totalrow.c). A statement cannot test whether the row of
 * totals is free; it would wait. But all commits are made here, on the coordinator, so a lock
 * can tell (lock_total): the transaction that gets it adds to the row of totals. The others, of
 * a contended key, add to shard rows; and so will the first one, the next time. A session has a
 * row of each key, or shares it with others if there are more sessions than max_shards: they
 * wait for each other's commits.
 *
 * If the transaction must not wait (it is not at its end, or the key, or the table for
 * compaction, is locked for an unknown time), it adds to a shard row with a random number. That
 * waits only for another transaction that has drawn the same one of 2^30 for the same key.
 *
 * We do wait for a transaction that takes such a lock after we have looked, and has the row
 * before our statement gets there, and for one that has changed the row of totals directly. Looking
 * at the row first would cost a second message for each increment. If such a transaction stays open
 * and continues with a key of ours, that is a deadlock, which Citus finds: one of the two fails
 * with 40P01.
 */
void
sql_add_distributed(DcSqlSession *session, const DcDelta *delta, DcShardChoice choice, bool shared, bool totals)
{
	DcCounter *counter = session->counter;
	int32 max_shards = counter->row.max_shards;
	Datum values[5];
	int32 shard;

	if (delta->inc == 0 && delta->dec == 0)
		return;
	CHECK_FOR_INTERRUPTS();
	delta_values(delta, values);
	shared = shared && !locked_for_long(counter, delta->key.data, delta->key.len);
	if (shared && totals && lock_total(counter, delta->key.data, delta->key.len) &&
		add_to_total(session, delta, values))
		return;
	if (!shared)
		shard = blind_shard();
	else if (choice.by == DC_SHARD_BY_BACKEND)
		shard = SHARED_SHARD + compat_backend_number() % max_shards;
	else
		shard = SHARED_SHARD + (int32) (choice.seed % max_shards);
	values[4] = Int32GetDatum(shard);
	add_to_shard(session, values);
}

/*
 * add_to_shard adds to a shard row, or inserts it.
 */
static void
add_to_shard(DcSqlSession *session, Datum *values)
{
	/* the table of totals alone leaves nothing to compact */
	activity_note(session->counter->relid);
	if (sql_run(session, &sql_upsert, values) != 1)
		ereport(ERROR,
				(errcode(ERRCODE_TRIGGERED_DATA_CHANGE_VIOLATION),
				 errmsg("an increment of \"%s\" was not written", get_rel_name(session->counter->relid)),
				 errdetail("A trigger or rule prevented it.")));
}

/*
 * add_to_total adds a delta, as these parameters, to the row of totals. Returns false if the sum
 * would overflow bigint.
 */
static bool
add_to_total(DcSqlSession *session, const DcDelta *delta, Datum *values)
{
	int64 amount = Max(delta->inc, delta->dec);
	Datum one[] = {values[0], Int64GetDatum(amount), values[3], Int64GetDatum(PG_INT64_MAX - amount)};

	if (delta->inc != 0 && delta->dec != 0)
		return sql_run(session, &sql_upsert_total, values) > 0;
	return sql_run(session, delta->dec == 0 ? &sql_upsert_inc : &sql_upsert_dec, one) > 0;
}

/*
 * sql_add_remote adds what another region has counted to a row of the number, or makes one,
 * also for no amounts, so that compaction looks at the key. An amount that would overflow bigint
 * there goes to the row of another number. If code of the owner keeps all rows from being written,
 * there is none.
 */
void
sql_add_remote(DcSqlSession *session, const DcDelta *delta, int32 number)
{
	Datum values[5];

	delta_values(delta, values);
	for (int i = 0; i < MAX_NUMBERS; i++)
	{
		values[4] = Int32GetDatum(number);
		if (sql_run(session, &sql_upsert_fitting, values) > 0)
			return;
		number = remote_shard(random_shard());
	}
}

/*
 * delta_values sets the parameters key, inc, dec and at.
 */
static void
delta_values(const DcDelta *delta, Datum *values)
{
	values[0] = delta_key_text(&delta->key);
	values[1] = Int64GetDatum(delta->inc);
	values[2] = Int64GetDatum(delta->dec);
	values[3] = TimestampTzGetDatum(GetCurrentTimestamp());
}
