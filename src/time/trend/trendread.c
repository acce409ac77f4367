/*
 * trendread.c
 *		dc_trending(): the keys with the highest scores.
 *
 * Copyright (c) 2026, the dcounter developers
 *
 * The order of scores is that of weights within an epoch, which the index has. Weights of the epoch
 * before that were not moved yet (trendmove.c) may be among the highest for a while after an epoch
 * has begun: so they are read, too, unless all of the first ones are higher than a weight of the
 * previous epoch can be. It reads only one table, in the caller's snapshot, and is as old as the
 * last compaction.
 */
#include "postgres.h"

#include <math.h>

#include "catalog/pg_type.h"
#include "funcapi.h"
#include "miscadmin.h"
#include "storage/lmgr.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/timestamp.h"

#include "base/args.h"
#include "base/compat.h"
#include "base/key.h"
#include "core/table/access.h"
#include "time/trend/decay.h"
#include "time/trend/trend.h"

PG_FUNCTION_INFO_V1(dc_trending);

/* The increments of a key are less than 2 to this power, even if it is reset from time to time. */
#define MOST_BITS 128

/* A key that is listed. */
typedef struct DcTrending
{
	Datum key;
	double score;
} DcTrending;

/* first and last epoch, how many */
static const DcStatement sql_trending = {
	.text = "SELECT r.key, r.weight, r.epoch FROM @trend AS r WHERE r.epoch <= $1 AND r.epoch >= $2 AND r.weight > 0"
			" AND r.weight < 'Infinity' ORDER BY r.epoch DESC, r.weight DESC LIMIT $3",
	.argtypes = {INT8OID, INT8OID, INT4OID},
	.columns = {DC_TEXT("key"), DC_COLUMN("weight", FLOAT8OID), DC_BIGINT("epoch")},
	.of = DC_OF_TREND};

static DcCounter *open_trend(FunctionCallInfo fcinfo);
static int read_epochs(DcSqlSession *session, int32 n, TimestampTz now, DcTrending **list);
static int read_from(DcSqlSession *session, int64 from, int64 to, int32 n, TimestampTz now, DcTrending **list,
					 int count);
static int trendread_compare(const void *a, const void *b);

/*
 * dc_trending(counter regclass, n int) -> setof (key text, score float8, rank bigint)
 *
 * The n keys with the highest scores, highest first; equal ones have the same rank and come in the
 * order of their keys. A score is the sum of increments, each halved once per half-life that has
 * passed. Scores below 2^-40 count as none. Errors: 55000 when the counter has no trend, 22004 when
 * n is NULL, 22023 when it is negative.
 */
Datum
dc_trending(PG_FUNCTION_ARGS)
{
	ReturnSetInfo *result = (ReturnSetInfo *) fcinfo->resultinfo;
	TimestampTz now = GetCurrentTimestamp();
	DcCounter *counter = open_trend(fcinfo);
	DcSqlSession session;
	DcTrendSession trend;
	DcTrending *list;
	int64 rank = 0;
	int count;

	arg_not_null(fcinfo, 1, "n");
	if (PG_GETARG_INT32(1) < 0)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("n must not be negative")));
	InitMaterializedSRF(fcinfo, 0);
	sql_begin(&session, counter);
	trend = trend_session_begin(&session);
	count = read_epochs(&session, PG_GETARG_INT32(1), now, &list);
	for (int i = 0; i < count; i++)
	{
		bool nulls[3] = {false};
		Datum values[3];

		if (i == 0 || list[i].score != list[i - 1].score)
			rank = i + 1;
		values[0] = list[i].key;
		values[1] = Float8GetDatum(list[i].score);
		values[2] = Int64GetDatum(rank);
		tuplestore_putvalues(result->setResult, result->setDesc, values, nulls);
	}
	trend_session_end(&trend);
	sql_end(&session);
	return (Datum) 0;
}

/*
 * open_trend opens the counter table, which must have a trend, and locks its table.
 */
static DcCounter *
open_trend(FunctionCallInfo fcinfo)
{
	DcCounter *counter = counter_open_to_read(fcinfo, "dc_trending()");
	const char *problem;

	while (counter_has_trend(counter) && !compat_has_locked(counter->row.trends, AccessShareLock))
	{
		LockRelationOid(counter->row.trends, AccessShareLock);
		counter = counter_open_to_read(fcinfo, "dc_trending()"); /* it may have another one by now */
	}
	if (!counter_has_trend(counter) || get_rel_name(counter->row.trends) == NULL)
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("counter table \"%s\" has no trend", get_rel_name(counter->relid)),
				 errhint("Its owner can start one with dc_alter(..., trend => '1 hour').")));
	problem = counter->trend_fits && counter->trend_generation == counter->generation ? NULL : trend_problem(counter);
	if (problem != NULL)
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("the trend of counter table \"%s\" cannot be read", get_rel_name(counter->relid)),
				 errdetail_internal("%s", problem),
				 errhint("Correct that, or remove the trend with dc_alter(..., trend => '0').")));
	return counter;
}

/*
 * read_epochs lists the keys with the highest scores.
 */
static int
read_epochs(DcSqlSession *session, int32 n, TimestampTz now, DcTrending **list)
{
	int64 half_life = session->counter->row.half_life;
	int64 epoch = decay_epoch(now, half_life);
	double beyond = decay_score(ldexp(1, MOST_BITS), epoch, half_life, now);
	int count;

	*list = palloc(sizeof(DcTrending));
	if (n == 0)
		return 0;
	/* all epochs in the order of the index ... */
	count = read_from(session, epoch + 1, epoch - 1, n, now, list, 0);
	/* ... which is that of scores as long as no earlier weight can be among the first */
	if (count == n && (*list)[n - 1].score < beyond)
	{
		count = read_from(session, epoch + 1, epoch + 1, n, now, list, 0);
		count = read_from(session, epoch, epoch, n, now, list, count);
		count = read_from(session, epoch - 1, epoch - 1, n, now, list, count);
	}
	if (count > 1)
		qsort(*list, count, sizeof(DcTrending), trendread_compare);
	count = Min(count, n);
	while (count > 0 && (*list)[count - 1].score < ldexp(1, DECAY_LEAST))
		count--;
	return count;
}

/*
 * read_from adds the first keys of some epochs to a list of `count` keys, and returns the new
 * count.
 */
static int
read_from(DcSqlSession *session, int64 from, int64 to, int32 n, TimestampTz now, DcTrending **list, int count)
{
	Datum values[] = {Int64GetDatum(from), Int64GetDatum(to), Int32GetDatum(n)};
	uint64 nrows = sql_read(session, &sql_trending, values);

	*list = repalloc_huge(*list, (count + nrows + 1) * sizeof(DcTrending));
	for (uint64 i = 0; i < nrows; i++)
	{
		double weight = DatumGetFloat8(rows_datum(&session->rows, i, 2));

		(*list)[count++] = (DcTrending){
			.key = rows_datum(&session->rows, i, 1),
			.score = decay_score(weight, rows_bigint(&session->rows, i, 3),
								 session->counter->row.half_life, now),
		};
	}
	return count;
}

/*
 * Compare two results by score, the highest first, and by key, for qsort().
 */
static int
trendread_compare(const void *a, const void *b)
{
	const DcTrending *left = a;
	const DcTrending *right = b;
	DcKey left_key;
	DcKey right_key;

	CHECK_FOR_INTERRUPTS(); /* of a long qsort() */
	if (left->score != right->score)
		return left->score > right->score ? -1 : 1;
	key_from_text(left->key, &left_key);
	key_from_text(right->key, &right_key);
	return key_compare(&left_key, &right_key);
}
