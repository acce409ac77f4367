/*
 * trendmove.c
 *		Weights that grow old: moving them to the present epoch, and to another half-life.
 *
 * Copyright (c) 2026, the dcounter developers
 *
 * The weight of a key that is counted moves to the present epoch. Weights of idle keys stay where
 * they are: dc_trending() can compare weights of the previous epoch. After a sweep of compaction
 * some of them are moved, or removed if they are below 2^-40, up to a batch at a time, until none
 * is left. Those of earlier epochs are worth nothing, and those of one that no clock has reached
 * (decay_is_ahead) are removed as well. Nobody waits for this, and it waits for nobody: rows that
 * are locked are left for the next time.
 */
#include "postgres.h"

#include <float.h>
#include <math.h>

#include "access/xact.h"
#include "catalog/pg_type.h"
#include "storage/lmgr.h"
#include "utils/timestamp.h"

#include "base/compat.h"
#include "base/guc.h"
#include "time/trend/decay.h"
#include "time/trend/trend.h"

/* No score is as high as 2 to this power. */
#define MOST_SCORE 200

static void move_epoch(DcSqlSession *session, int64 epoch, double score, double weight);

/* epoch: is there a weight of an earlier epoch, or of a much later one? */
static const DcStatement sql_any_old = {
	.text = "SELECT o.epoch FROM ((SELECT r.epoch FROM @trend AS r WHERE r.epoch < $1 LIMIT 1)"
			" UNION ALL (SELECT r.epoch FROM @trend AS r WHERE r.epoch > $1 + 1 LIMIT 1)) AS o LIMIT 1",
	.argtypes = {INT8OID},
	.columns = {DC_BIGINT("epoch")},
	.of = DC_OF_TREND};

/* epoch, least weight in the epoch before, how many */
static const DcStatement sql_remove_old = {
	.text = "DELETE FROM @trend AS r USING (SELECT o.key FROM @trend AS o"
			" WHERE o.epoch < $1 - 1 OR o.epoch > $1 + 1 OR (o.epoch = $1 - 1 AND NOT o.weight >= $2"
			" AND NOT o.weight <= -$2) LIMIT $3 FOR UPDATE SKIP LOCKED) AS d WHERE r.key = d.key",
	.argtypes = {INT8OID, FLOAT8OID, INT4OID},
	.of = DC_OF_TREND};

/* epoch, factor, how many, least weight in the epoch before: a smaller one would be an underflow */
static const DcStatement sql_move_old = {
	.text = "UPDATE @trend AS r SET weight = r.weight * $2, epoch = $1 FROM (SELECT o.key FROM @trend AS o"
			" WHERE o.epoch = $1 - 1 AND (o.weight >= $4 OR o.weight <= -$4) LIMIT $3 FOR UPDATE SKIP LOCKED) AS d"
			" WHERE r.key = d.key",
	.argtypes = {INT8OID, FLOAT8OID, INT4OID, FLOAT8OID},
	.of = DC_OF_TREND};

/* epoch, the least weight of it to keep, and the first that is too high to be true (as NaN is) */
static const DcStatement sql_remove_beyond = {
	.text = "DELETE FROM @trend AS r WHERE r.epoch = $1"
			" AND ((r.weight < $2 AND r.weight > -$2) OR r.weight >= $3 OR r.weight <= -$3)",
	.argtypes = {INT8OID, FLOAT8OID, FLOAT8OID},
	.reads_all = true,
	.of = DC_OF_TREND};

/* epochs to keep, from and to */
static const DcStatement sql_remove_others = {
	.text = "DELETE FROM @trend AS r WHERE r.epoch < $1 OR r.epoch > $2",
	.argtypes = {INT8OID, INT8OID},
	.reads_all = true,
	.of = DC_OF_TREND};

/* old epoch, factor, new epoch */
static const DcStatement sql_rescale = {
	.text = "UPDATE @trend AS r SET weight = r.weight * $2, epoch = $3 WHERE r.epoch = $1",
	.argtypes = {INT8OID, FLOAT8OID, INT8OID},
	.reads_all = true,
	.of = DC_OF_TREND};

/*
 * trend_swept moves weights of earlier epochs, after a sweep over the shard rows. The table is
 * locked.
 */
void
trend_swept(DcCounter *counter)
{
	DcSqlSession session;
	DcTrendSession trend;
	Datum values[4];

	if (IsolationUsesXactSnapshot() || !trend_fits(counter))
		return;
	values[0] = Int64GetDatum(decay_epoch(GetCurrentTimestamp(), counter->row.half_life));
	sql_begin(&session, counter);
	trend = trend_session_begin(&session);
	if (sql_run(&session, &sql_any_old, values) > 0)
	{
		values[1] = values[3] = Float8GetDatum(ldexp(1, DECAY_EPOCH + DECAY_LEAST));
		values[2] = Int32GetDatum(dc_compact_batch);
		sql_run(&session, &sql_remove_old, values);
		values[1] = Float8GetDatum(ldexp(1, -DECAY_EPOCH));
		sql_run(&session, &sql_move_old, values);
	}
	trend_session_end(&trend);
	sql_end(&session);
}

/*
 * trend_rescale gives all weights another half-life, as the owner, so that the scores are what they
 * were. Scores below 2^-40 are removed, so no factor leaves the range of a double.
 */
void
trend_rescale(DcCounter *counter, int64 half_life)
{
	int64 now = GetCurrentTimestamp();
	int64 old = decay_epoch(now, counter->row.half_life);
	int64 new = decay_epoch(now, half_life);
	DcSqlSession session;
	DcTrendSession trend;
	Datum values[3];

	LockRelationOid(counter->row.trends, ShareRowExclusiveLock);
	if (!trend_fits(counter))
		return;
	sql_begin(&session, counter);
	trend = trend_session_begin(&session);
	values[0] = Int64GetDatum(old - 1);
	values[1] = Int64GetDatum(old + 1);
	sql_run(&session, &sql_remove_others, values);
	/* first to an epoch beyond all others, as new numbers may be among the old ones */
	for (int64 epoch = old - 1; epoch <= old + 1; epoch++)
		move_epoch(&session, epoch, decay_score(1, epoch, counter->row.half_life, now),
				   decay_weight(1, now, half_life, new));
	values[0] = Int64GetDatum(PG_INT64_MAX);
	values[1] = Float8GetDatum(1);
	values[2] = Int64GetDatum(new);
	sql_run(&session, &sql_rescale, values);
	trend_session_end(&trend);
	sql_end(&session);
}

/*
 * move_epoch multiplies the weights of an epoch. A weight of 1 has the given score, and a score of
 * 1 will have the given weight. Impossible scores are removed, so the products are within a double.
 */
static void
move_epoch(DcSqlSession *session, int64 epoch, double score, double weight)
{
	Datum values[] = {Int64GetDatum(epoch), Float8GetDatum(0), Float8GetDatum(0)};
	double factor = score * weight;

	if (score > DBL_MIN && factor > DBL_MIN && factor < DBL_MAX)
	{
		values[1] = Float8GetDatum(Min(ldexp(1, DECAY_LEAST) / score, DBL_MAX));
		values[2] = Float8GetDatum(Min(ldexp(1, MOST_SCORE) / score, DBL_MAX));
	}
	sql_run(session, &sql_remove_beyond, values);
	values[1] = Float8GetDatum(factor);
	values[2] = Int64GetDatum(PG_INT64_MAX);
	sql_run(session, &sql_rescale, values);
}
