/*
 * rankread.c
 *		Reading ranks: dc_rank(), dc_around(), dc_at_rank().
 *
 * Copyright (c) 2026, the dcounter developers
 *
 * The rank of a key is 1 plus the number of keys with a greater total. That is the sum of the
 * buckets above the key's (rankbucket.c): those beside it at the lowest level, those beside the
 * bucket that it is in at the next one, and so on; and, if the key's bucket has more than one
 * value, the keys of it with a greater one, which an index on value finds. So equal totals have one
 * rank, and no call reads more than 3 times 64 buckets (at the highest level as many as there are,
 * at most 256) and the keys of one.
 *
 * The other way, the bucket at a position is found from the highest level downwards, and its keys
 * are read in the order of dc_top().
 *
 * All reads of a call are in one snapshot, the caller's. In each snapshot a bucket has as many keys
 * as the table of totals has rows (transactional/bound), so a rank is exactly that of rank() over
 * the table of totals, as old as the last compaction. Totals that this transaction has written
 * itself count in both.
 */
#include "postgres.h"

#include "catalog/pg_type.h"
#include "funcapi.h"
#include "utils/lsyscache.h"
#include "utils/snapmgr.h"

#include "base/args.h"
#include "base/compat.h"
#include "base/key.h"
#include "core/counter/range.h"
#include "core/counter/read.h"
#include "core/counter/sqlpath.h"
#include "core/rows/sums.h"
#include "core/table/access.h"
#include "transactional/bound/bound.h"
#include "transactional/rank/rank.h"
#include "transactional/rank/rankbucket.h"

PG_FUNCTION_INFO_V1(dc_rank);
PG_FUNCTION_INFO_V1(dc_around);
PG_FUNCTION_INFO_V1(dc_at_rank);

/* A level of buckets, the highest first. */
static const struct
{
	int shift;			/* bits of a bucket's number that it leaves out */
	const char *before; /* what keys of it begin with */
} levels[RANK_LEVELS] = {{12, "["}, {6, "[null, "}, {0, "[null, null, "}};

#define LEVEL_BUCKETS(level) ((RANK_BUCKETS >> levels[level].shift) + 1)
#define MOST_BUCKETS ((RANK_BUCKETS >> 12) + 1)

/* Room for a key up to a bucket's number. */
#define RANK_KEY_BYTES 32

/* a value, and the last one of its bucket */
static const DcStatement sql_rank_within = {
	.text = "SELECT count(*) FROM @totals AS t WHERE t.value > $1 AND t.value <= $2",
	.argtypes = {INT8OID, INT8OID},
	.columns = {DC_BIGINT("count")}};

/* the last value of a bucket, how many keys to leave out, and how many to return */
static const DcStatement sql_rank_page = {
	.text = "SELECT t.key, t.value FROM @totals AS t WHERE t.value <= $1"
			" ORDER BY t.value DESC, t.key COLLATE \"C\" LIMIT $3 OFFSET $2",
	.argtypes = {INT8OID, INT8OID, INT8OID},
	.columns = {DC_TEXT("key"), DC_BIGINT("value")}};

/*
 * a key, its value, and how many keys on either side; each part is one range of an index on (value
 * DESC, key)
 */
static const DcStatement sql_rank_around = {
	.text = "SELECT u.key, u.value FROM"
			" ((SELECT t.key, t.value FROM @totals AS t WHERE t.value > $2"
			" ORDER BY t.value, t.key COLLATE \"C\" DESC LIMIT $3) UNION ALL"
			" (SELECT t.key, t.value FROM @totals AS t WHERE t.value = $2 AND t.key < $1"
			" ORDER BY t.key COLLATE \"C\" DESC LIMIT $3) UNION ALL"
			" (SELECT t.key, t.value FROM @totals AS t WHERE t.value = $2 AND t.key >= $1"
			" ORDER BY t.key COLLATE \"C\" LIMIT $3 + 1) UNION ALL"
			" (SELECT t.key, t.value FROM @totals AS t WHERE t.value < $2"
			" ORDER BY t.value DESC, t.key COLLATE \"C\" LIMIT $3)) AS u"
			" ORDER BY u.value DESC, u.key COLLATE \"C\"",
	.argtypes = {TEXTOID, INT8OID, INT8OID},
	.columns = {DC_TEXT("key"), DC_BIGINT("value")}};

/* A counter table whose ranks are read, in the active snapshot. */
typedef struct DcRanked
{
	DcCounter *counter;
	DcCounter *buckets;
} DcRanked;

/* What is read of a level: the sums of buckets from one on. */
typedef struct DcBucketSums
{
	uint32 digits; /* where a key has the number */
	uint32 from;
	uint32 n;
	DcSums *sums;
} DcBucketSums;

static void ranked_open(FunctionCallInfo fcinfo, const char *function, DcRanked *ranked);
static DcCounter *ranked_buckets(const DcCounter *counter, const char *function);
static bool ranked_value(const DcRanked *ranked, Datum key, int64 *value);
static int64 ranked_of(const DcRanked *ranked, int64 value);
static bool ranked_find(const DcRanked *ranked, int64 position, uint32 *bucket, int64 *above);
static void level_read(const DcRanked *ranked, int level, uint32 from, uint32 end, DcRangeVisit visit, void *arg);
static void level_sum(void *sums, const DcKey *key, int64 inc, int64 dec);
static void level_sum_each(void *sums, const DcKey *key, int64 inc, int64 dec);
static void ranked_return(FunctionCallInfo fcinfo, const DcRanked *ranked, const DcRows *rows, uint64 from, uint64 end);
static int64 count_arg(FunctionCallInfo fcinfo, int argno);

/*
 * dc_rank(counter regclass, key text|bigint|uuid|date|jsonb) -> bigint, NULL for a key without a
 * total
 *
 * Errors: 42501 without SELECT on the counter table, 55000 if it has no ranks, or they are not
 * built yet.
 */
Datum
dc_rank(PG_FUNCTION_ARGS)
{
	Datum key = key_text_arg(fcinfo, 1, "counter key");
	DcRanked ranked;
	int64 value;
	int64 rank = 0;
	bool found;

	ranked_open(fcinfo, "dc_rank()", &ranked);
	found = ranked_value(&ranked, key, &value);
	if (found)
		rank = ranked_of(&ranked, value);
	PopActiveSnapshot();
	if (!found)
		PG_RETURN_NULL();
	PG_RETURN_INT64(rank);
}

/*
 * dc_around(counter regclass, key text|bigint|uuid|date|jsonb, n int) -> setof (key text, value
 * bigint, rank bigint)
 *
 * The key, and n keys above and below it, highest first: nothing for a key without a total. Errors:
 * as dc_rank(), 22004 when n is NULL, 22023 when it is negative.
 */
Datum
dc_around(PG_FUNCTION_ARGS)
{
	Datum values[] = {key_text_arg(fcinfo, 1, "counter key"), (Datum) 0, Int64GetDatum(count_arg(fcinfo, 2))};
	uint64 n = PG_GETARG_INT32(2);
	DcSqlSession session;
	DcRanked ranked;
	uint64 place = 0;
	int64 value;

	InitMaterializedSRF(fcinfo, 0);
	ranked_open(fcinfo, "dc_around()", &ranked);
	if (ranked_value(&ranked, values[0], &value))
	{
		values[1] = Int64GetDatum(value);
		sql_begin(&session, ranked.counter);
		sql_read(&session, &sql_rank_around, values);
		while (place < session.rows.count && texts_compare(rows_datum(&session.rows, place, 1), values[0]) != 0)
			place++;
		ranked_return(fcinfo, &ranked, &session.rows, place > n ? place - n : 0, Min(place + n + 1, session.rows.count));
		sql_end(&session);
	}
	PopActiveSnapshot();
	return (Datum) 0;
}

/*
 * dc_at_rank(counter regclass, rank bigint, n int) -> setof (key text, value bigint, rank bigint)
 *
 * The n keys from a position on, in the order of dc_top(), whose first is at 1. Errors: as
 * dc_rank(), 22004 for NULL, 22023 for a rank below 1 or a negative n.
 */
Datum
dc_at_rank(PG_FUNCTION_ARGS)
{
	int64 position = amount_arg(fcinfo, 1, "rank");
	int64 n = count_arg(fcinfo, 2);
	DcSqlSession session;
	DcRanked ranked;
	uint32 bucket;
	int64 above;

	if (position < 1)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("rank must be at least 1")));
	InitMaterializedSRF(fcinfo, 0);
	ranked_open(fcinfo, "dc_at_rank()", &ranked);
	if (n > 0 && ranked_find(&ranked, position, &bucket, &above))
	{
		Datum values[] = {Int64GetDatum(rank_bucket_last(bucket)), Int64GetDatum(position - above - 1), Int64GetDatum(n)};

		sql_begin(&session, ranked.counter);
		sql_read(&session, &sql_rank_page, values);
		ranked_return(fcinfo, &ranked, &session.rows, 0, session.rows.count);
		sql_end(&session);
	}
	PopActiveSnapshot();
	return (Datum) 0;
}

/*
 * Return argument n: 22004 for NULL, 22023 if it is negative.
 */
static int64
count_arg(FunctionCallInfo fcinfo, int argno)
{
	arg_not_null(fcinfo, argno, "n");
	if (PG_GETARG_INT32(argno) < 0)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("n must not be negative")));
	return PG_GETARG_INT32(argno);
}

/*
 * ranked_open opens a counter table and its buckets, and makes the snapshot active in which both
 * are read; the caller pops it.
 */
static void
ranked_open(FunctionCallInfo fcinfo, const char *function, DcRanked *ranked)
{
	DcSourceStateRow state;

	ranked->counter = counter_open_to_read(fcinfo, function);
	ranked->buckets = ranked_buckets(ranked->counter, function);
	read_snapshot_note(ranked->counter->relid);
	read_snapshot_push();
	if (!source_state_read_in(ranked->buckets->relid, GetActiveSnapshot(), &state) || state.state == DC_SOURCE_BUILDING)
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("the ranks of \"%s\" are not built yet", get_rel_name(ranked->counter->relid)),
				 errhint("The worker builds them, or its owner by CALL dc_build('%s').", relation_sql_name(ranked->buckets->relid))));
}

/*
 * Open the table of buckets of a counter table, as its owner: whoever may read the totals may read
 * their ranks.
 */
static DcCounter *
ranked_buckets(const DcCounter *counter, const char *function)
{
	Oid relid = rank_table(counter->relid);
	DcCounter *buckets;
	DcRunAs as;

	if (!OidIsValid(relid))
		rank_missing_error(counter->relid);
	runas_begin(&as, counter->owner);
	buckets = counter_open_read(relid, function);
	runas_end(&as);
	return buckets;
}

/*
 * ranked_value returns the total of a key; false if it has none.
 */
static bool
ranked_value(const DcRanked *ranked, Datum text, int64 *value)
{
	DcKeyState state;
	DcKey key;

	key_from_text(text, &key);
	counter_total(ranked->counter, &key, &state);
	*value = sums_to_bigint(state.sums.net, "value");
	return !TIMESTAMP_IS_NOBEGIN(state.updated_at);
}

/*
 * ranked_of returns the rank of a value, whether or not a key has it.
 */
static int64
ranked_of(const DcRanked *ranked, int64 value)
{
	uint32 bucket = rank_bucket_of(value);
	int64 last = rank_bucket_last(bucket);
	DcSums sums;

	sums_init(&sums);
	sums_add(&sums, 1, 0);
	for (int level = 0; level < RANK_LEVELS; level++)
	{
		uint32 own = bucket >> levels[level].shift;
		uint32 end = level == 0 ? LEVEL_BUCKETS(0) : ((own >> RANK_LEVEL_BITS) + 1) << RANK_LEVEL_BITS;

		if (own + 1 < end)
			level_read(ranked, level, own + 1, end, level_sum, &sums);
	}
	if (last > value)
	{
		Datum values[] = {Int64GetDatum(value), Int64GetDatum(last)};
		DcSqlSession session;

		sql_begin(&session, ranked->counter);
		sql_read(&session, &sql_rank_within, values);
		sums_add(&sums, rows_bigint(&session.rows, 0, 1), 0);
		sql_end(&session);
	}
	return sums_to_bigint(sums.net, "rank");
}

/*
 * ranked_find finds the bucket with the key at a position, and how many keys are above that bucket.
 * Returns false if there are fewer keys.
 */
static bool
ranked_find(const DcRanked *ranked, int64 position, uint32 *bucket, int64 *above)
{
	DcSums sums[MOST_BUCKETS];
	uint32 parent = 0;

	*above = 0;
	for (int level = 0; level < RANK_LEVELS; level++)
	{
		DcBucketSums read = {strlen(levels[level].before), parent << RANK_LEVEL_BITS, level == 0 ? LEVEL_BUCKETS(0) : RANK_FAN, sums};
		bool found = false;

		for (uint32 i = 0; i < read.n; i++)
			sums_init(&sums[i]);
		level_read(ranked, level, read.from, read.from + read.n, level_sum_each, &read);
		for (uint32 i = read.n; i > 0 && !found; i--)
		{
			int64 keys = sums_to_bigint(sums[i - 1].net, "rank");

			found = keys >= position - *above;
			if (found)
				parent = read.from + i - 1;
			else
				*above += Max(keys, 0); /* an owner may have edited them */
		}
		if (!found)
			return false;
	}
	*bucket = parent;
	return true;
}

/*
 * level_read calls a function for the amounts of buckets of a level, from one up to another, which
 * is not among them.
 */
static void
level_read(const DcRanked *ranked, int level, uint32 from, uint32 end, DcRangeVisit visit, void *arg)
{
	char texts[2][RANK_KEY_BYTES];
	DcKey first = {.data = texts[0]};
	DcKey last = {.data = texts[1]};

	first.len = snprintf(texts[0], RANK_KEY_BYTES, "%s%u", levels[level].before, RANK_KEY_BASE + from);
	last.len = snprintf(texts[1], RANK_KEY_BYTES, "%s%u", levels[level].before, RANK_KEY_BASE + end);
	counter_range_read(ranked->buckets, &first, &last, visit, arg);
}

/*
 * Add the amounts of a bucket to those of all.
 */
static void
level_sum(void *sums, const DcKey *key, int64 inc, int64 dec)
{
	sums_add(sums, inc, dec);
}

/*
 * Add the amounts of a bucket to its own. A key without a number was not written by dcounter's
 * functions.
 */
static void
level_sum_each(void *arg, const DcKey *key, int64 inc, int64 dec)
{
	DcBucketSums *read = arg;
	uint32 number = 0;

	if (key->len < read->digits + RANK_KEY_DIGITS)
		return;
	for (int i = 0; i < RANK_KEY_DIGITS; i++)
		number = number * 10 + (uint32) (key->data[read->digits + i] - '0') % 10;
	number -= RANK_KEY_BASE;
	if (number >= read->from && number - read->from < read->n)
		sums_add(&read->sums[number - read->from], inc, dec);
}

/*
 * ranked_return returns rows of keys and values which follow each other in the order of dc_top(),
 * with their ranks: that of the first and that of the next value are looked up, all others follow
 * from these.
 */
static void
ranked_return(FunctionCallInfo fcinfo, const DcRanked *ranked, const DcRows *rows, uint64 from, uint64 end)
{
	ReturnSetInfo *result = (ReturnSetInfo *) fcinfo->resultinfo;
	int64 first = 0; /* the rank that the row `from` would have by its position */
	int64 rank = 0;
	bool known = false;

	for (uint64 i = from; i < end; i++)
	{
		int64 value = rows_bigint(rows, i, 2);
		bool nulls[3] = {false};
		Datum values[3];

		CHECK_FOR_INTERRUPTS();
		if (i == from)
			rank = ranked_of(ranked, value);
		else if (value != rows_bigint(rows, i - 1, 2))
		{
			if (!known)
				first = ranked_of(ranked, value) - (int64) (i - from);
			known = true;
			rank = first + (int64) (i - from);
		}
		values[0] = rows_datum(rows, i, 1);
		values[1] = Int64GetDatum(value);
		values[2] = Int64GetDatum(rank);
		tuplestore_putvalues(result->setResult, result->setDesc, values, nulls);
	}
}
