/*
 * trend.h
 *		Trending: decayed weights of the keys of a counter table (see trend.c).
 *
 * Copyright (c) 2026, the dcounter developers
 */
#ifndef DC_TREND_H
#define DC_TREND_H

#include "fmgr.h"

#include "core/compact/compactbatch.h"
#include "core/counter/sqlpath.h"
#include "core/rows/sums.h"
#include "core/table/catalog.h"

/* Where the table is kept open in a session of statements. */
#define DC_OF_TREND (DC_OF_TABLES - 1)

/* Columns of the table of a trend. */
enum
{
	TREND_KEY,
	TREND_WEIGHT,
	TREND_EPOCH,
	TREND_NUM_COLUMNS
};

/* A session whose statements know the table as @trend, and what it had known before. */
typedef struct DcTrendSession
{
	DcSqlSession *session;
	DcSqlWord word;
} DcTrendSession;

/* trend.c */
extern void trend_init(void);

/* trendtable.c */
extern int64 trend_half_life_arg(FunctionCallInfo fcinfo, int argno);
extern void trend_create(DcCounterRow *row);
extern void trend_alter(DcCounter *counter, DcCounterRow *row, int64 half_life);
extern const char *trend_problem(const DcCounter *counter);
extern bool trend_fits(DcCounter *counter);

/* trendbatch.c */
extern bool trend_ready(DcCounter *counter);
extern void trend_lock(DcSqlSession *session, DcBatch *batch);
extern void trend_write(DcSqlSession *session, DcBatch *batch);
extern void trend_add(const DcCounter *counter, bool has_weight, double *weight, int64 *epoch, double delta,
					  TimestampTz at);
extern DcTrendSession trend_session_begin(DcSqlSession *session);
extern void trend_session_end(DcTrendSession *trend);

/* trendset.c */
extern void trend_set_begin(DcCounter *counter);
extern void trend_set(DcSqlSession *session, Datum key, const DcSums *shards);
extern void trend_deleted(DcSqlSession *session, Datum key);
extern int trend_lock_keys(DcSqlSession *session, Datum *keys, int n);

/* trendmove.c */
extern void trend_swept(DcCounter *counter);
extern void trend_rescale(DcCounter *counter, int64 half_life);

/* hotalarm.c */
extern void hot_alarm_init(void);

/* trendddl.c */
extern const struct DcDdlHook trend_ddl;

#endif /* DC_TREND_H */
