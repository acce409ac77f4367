/*
 * compactunits.c
 *		Compaction of the shard rows of a stock.
 *
 * Copyright (c) 2026, the dcounter developers
 *
 * The amounts have been moved to the totals. The units stay in the shard rows, where they are
 * taken. Only compaction may move units between rows (levelling), since its transactions
 * are short, and it has locked most rows of the key anyway:
 *
 *	- Rows without units that were not used since the last time are deleted, and
 *	  so are those without units that belonged to one transaction alone.
 *	- If there are many more rows than this number of units needs (units_rows), or a row has
 *	  much less than its share, the units are spread evenly again.
 *	- If there are far too few rows, more are inserted, but only for a key that is in
 *	  use.
 *	- An account of a ledger keeps the rows that contention has made while it is in
 *	  use, and then shrinks to one.
 *
 * All of this concerns only the rows that compaction could lock. The others are left for the
 * next time.
 */
#include "postgres.h"

#include "catalog/pg_type.h"
#include "common/int.h"
#include "utils/timestamp.h"

#include "base/args.h"
#include "core/compact/compactbatch.h"
#include "core/counter/units.h"
#include "core/rows/shardnumber.h"

/* Rows of some keys that a statement is to work on: keys, shards, units. */
typedef struct DcRowList
{
	Datum *columns[3];
	int n;
	int capacity;
} DcRowList;

/* Changes to make. */
typedef struct DcUnitsPlan
{
	DcRowList remove;
	DcRowList set;
	DcRowList add;
} DcUnitsPlan;

/* keys, shards, units: the same for a stock */
static const DcStatement sql_compact_units = {
	.text = "UPDATE @shards AS s SET inc = 0, dec = 0, units = d.units"
			" FROM unnest($1, $2, $3) AS d(key, shard, units)"
			" WHERE s.key = d.key AND s.shard = d.shard",
	.argtypes = {TEXTARRAYOID, INT4ARRAYOID, INT8ARRAYOID}};

/* keys, shards, units, at: more rows of a stock */
static const DcStatement sql_compact_spread = {
	.text = "INSERT INTO @shards (key, shard, units, updated_at)"
			" SELECT d.key, d.shard, d.units, $4"
			" FROM unnest($1, $2, $3) AS d(key, shard, units)",
	.argtypes = {TEXTARRAYOID, INT4ARRAYOID, INT8ARRAYOID, TIMESTAMPTZOID}};

/* key */
static const DcStatement sql_count_rows = {
	.text = "SELECT count(*) FROM @shards AS s WHERE s.key = $1", .argtypes = {TEXTOID}, .columns = {DC_BIGINT("count")}, .of = DC_OF_SHARDS};

static void plan_key(DcSqlSession *session, DcBatch *batch,
					 const DcBatchKey *key, DcUnitsPlan *plan);
static int rows_wanted(DcSqlSession *session, const DcBatchKey *key,
					   int64 units);
static bool is_uneven(const DcShardRow *rows, int n, int64 units, int wanted);
static void plan_even(const DcShardRow *rows, const DcBatchKey *key,
					  int64 units, int wanted, DcUnitsPlan *plan);
static void plan_kept(const DcShardRow *rows, const DcBatchKey *key,
					  DcUnitsPlan *plan);
static void list_add(DcRowList *list, Datum key, Datum shard, int64 units);
static void run_list(DcSqlSession *session, const DcStatement *statement,
					 const DcRowList *list);

/*
 * batch_clear_units deletes, zeroes or levels the shard rows whose amounts are
 * in the totals now.
 */
void
batch_clear_units(DcSqlSession *session, DcBatch *batch)
{
	DcUnitsPlan plan = {0};

	for (int i = 0; i < batch->nkeys; i++)
	{
		if (!batch->keys[i].skip)
			plan_key(session, batch, &batch->keys[i], &plan);
	}
	run_list(session, &sql_compact_delete, &plan.remove);
	run_list(session, &sql_compact_units, &plan.set);
	run_list(session, &sql_compact_spread, &plan.add);
}

/*
 * plan_key decides what to do with the rows of one key.
 */
static void
plan_key(DcSqlSession *session, DcBatch *batch, const DcBatchKey *key,
		 DcUnitsPlan *plan)
{
	const DcShardRow *rows = &batch->rows[key->first];
	int64 units = 0;
	int wanted;

	for (int i = 0; i < key->nrows; i++)
	{
		/* a key whose value overflows bigint is not worth moving anything */
		if (pg_add_s64_overflow(units, rows[i].units, &units))
		{
			plan_kept(rows, key, plan);
			return;
		}
	}
	wanted = rows_wanted(session, key, units);
	if (units > 0 && is_uneven(rows, key->nrows, units, wanted))
		plan_even(rows, key, units, wanted, plan);
	else
		plan_kept(rows, key, plan);
}

/*
 * rows_wanted returns how many rows the key's units should be in, of those that
 * compaction has locked.
 */
static int
rows_wanted(DcSqlSession *session, const DcBatchKey *key, int64 units)
{
	const DcCounter *counter = session->counter;
	int wanted = units_rows(counter, units);
	Datum value = key->key;
	int64 others;

	if (counter_is_limit(counter))
		return key->used ? Min(key->nrows, counter->row.max_shards) : 1;
	if (key->nrows > 2 * wanted || key->nrows > counter->row.max_shards)
		return wanted;
	if (wanted <= 2 * key->nrows || !key->used)
		return key->nrows; /* near enough */
	/* there may be more, from which other transactions are taking just now */
	sql_run(session, &sql_count_rows, &value);
	others = rows_bigint(&session->rows, 0, 1) - key->nrows;
	return (int) Max(wanted - Max(others, 0), key->nrows);
}

/*
 * Return true if the units have to be moved between rows.
 */
static bool
is_uneven(const DcShardRow *rows, int n, int64 units, int wanted)
{
	int64 share = units / wanted;

	if (n != wanted)
		return true;
	for (int i = 0; i < n; i++)
	{
		if (rows[i].units < share / 2)
			return true;
	}
	return false;
}

/*
 * plan_even spreads units over the wanted number of rows: first those that are used, then other
 * existing rows, then new ones. The remaining rows are deleted.
 */
static void
plan_even(const DcShardRow *rows, const DcBatchKey *key, int64 units,
		  int wanted, DcUnitsPlan *plan)
{
	int done = 0;

	for (int pass = 0; pass < 2; pass++)
	{
		for (int i = 0; i < key->nrows; i++)
		{
			int64 share = units / wanted + (done < units % wanted ? 1 : 0);

			if (rows[i].empty != (pass == 1))
				continue;
			if (done >= wanted)
				list_add(&plan->remove, key->key, rows[i].shard, 0);
			else
			{
				if (!rows[i].empty || rows[i].units != share)
					list_add(&plan->set, key->key, rows[i].shard, share);
				done++;
			}
		}
	}
	for (; done < wanted; done++)
	{
		int32 number = random_shard();

		list_add(&plan->add, key->key, Int32GetDatum(number),
				 units / wanted + (done < units % wanted ? 1 : 0));
	}
}

/*
 * plan_kept leaves the units where they are.
 */
static void
plan_kept(const DcShardRow *rows, const DcBatchKey *key, DcUnitsPlan *plan)
{
	for (int i = 0; i < key->nrows; i++)
	{
		bool keep = rows[i].units > 0 ||
			(key->nrows > 1 && !rows[i].empty &&
			 shard_is_shared(DatumGetInt32(rows[i].shard)));

		if (!keep)
			list_add(&plan->remove, key->key, rows[i].shard, 0);
		else if (!rows[i].empty)
			list_add(&plan->set, key->key, rows[i].shard, rows[i].units);
	}
}

/*
 * Add a row to a list, which grows as needed.
 */
static void
list_add(DcRowList *list, Datum key, Datum shard, int64 units)
{
	Datum row[] = {key, shard, Int64GetDatum(units)};

	if (list->n == list->capacity)
	{
		list->capacity = Max(64, 2 * list->capacity);
		for (int c = 0; c < lengthof(row); c++)
			list->columns[c] = list->n == 0
				? palloc(list->capacity * sizeof(Datum))
				: repalloc(list->columns[c], list->capacity * sizeof(Datum));
	}
	for (int c = 0; c < lengthof(row); c++)
		list->columns[c][list->n] = row[c];
	list->n++;
}

/*
 * run_list runs a statement on the rows of a list.
 */
static void
run_list(DcSqlSession *session, const DcStatement *statement, const DcRowList *list)
{
	static const Oid types[] = {TEXTOID, INT4OID, INT8OID};
	Datum values[lengthof(types) + 1];

	if (list->n == 0)
		return;
	for (int c = 0; c < lengthof(types); c++)
		values[c] = array_datum(list->columns[c], list->n, types[c]);
	values[3] = TimestampTzGetDatum(GetCurrentTimestamp());
	if (sql_run(session, statement, values) != list->n)
		elog(ERROR, "locked shard rows have changed");
}
