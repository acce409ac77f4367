/*
 * compactbatch.h
 *		A batch of compaction (see compact.c), or of a flush.
 *
 * Copyright (c) 2026, the dcounter developers
 */
#ifndef DC_COMPACTBATCH_H
#define DC_COMPACTBATCH_H

#include "datatype/timestamp.h"

#include "core/compact/compact.h"
#include "core/counter/sqlpath.h"
#include "core/rows/clear.h"

/* A shard row of the batch. */
typedef struct DcShardRow
{
	Datum key;
	Datum shard;
	bool empty;		/* not used since it was set to zero */
	int64 units;	/* of a stock */
	DcLiveRow live; /* without SQL: its place and its contents */
} DcShardRow;

/* A key of the batch: rows first .. first + nrows - 1. */
typedef struct DcBatchKey
{
	Datum key;
	int first;
	int nrows;
	int128 inc; /* sums, which fit bigint unless the key is to be skipped */
	int128 dec;
	TimestampTz at; /* latest change */
	int64 own_inc;	/* of a replicated counter, or one with a trend: of these, counted here, */
	int64 own_dec;
	TimestampTz own_at; /* with the latest change */
	double weight;		/* of a counter with a trend: the weight that the key has there, */
	int64 epoch;		/* of this epoch, */
	bool has_weight;	/* if it has one */
	bool published;		/* and that this transaction has added to what the region has */
	bool used;			/* a row holds an amount */
	bool own_overflow;	/* the amounts counted here overflow bigint */
	bool skip;			/* locked by other transactions, or the sum overflows, */
	bool overflow;		/* as far as it has been added up */
	bool has_total;
	ItemPointerData place; /* of its row of totals, if that has one to find it by */
} DcBatchKey;

typedef struct DcBatch
{
	DcShardRow *rows;
	DcBatchKey *keys;
	int max_rows;
	int nrows;
	int nkeys;
	bool last;			 /* no rows follow */
	Datum reached;		 /* 0, or: the batch was cut within this key, */
	int32 reached_shard; /* where lower numbers are left */
	DcDirectRel *direct; /* the shard table, without SQL; else NULL */
	bool keep;			 /* zero rows instead of deleting them */
} DcBatch;

/* compacttotals.c */
extern bool batch_key_equal(Datum a, Datum b);
extern DcBatchKey *batch_find(DcBatch *batch, const DcRows *rows, uint64 i);

/* compactinserting.c */
extern void batch_skip_inserting(DcBatch *batch, Oid relid, bool (*asks)(const DcBatchKey *key));
extern void batch_key_add_shard(DcCounter *counter, DcBatchKey *key, int32 shard,
								int64 inc, int64 dec, TimestampTz at);
extern void batch_to_totals(DcSqlSession *session, DcBatch *batch);

/* compactunits.c */
extern void batch_clear_units(DcSqlSession *session, DcBatch *batch);

/* compactdirect.c */
extern bool compacts_directly(const DcCounter *counter);
extern void batch_fetch_direct(DcCounter *counter, DcBatch *batch, DcSweep *sweep, int64 max_keys);
extern void batch_clear_direct(DcBatch *batch);

/* compactdistributed.c */
extern int64 sweep_distributed(DcSqlSession *session, DcSweep *sweep, int64 max_keys);

/* compactbatch.c; keys, shards */
extern const DcStatement sql_compact_delete;
extern void batch_add_row(DcCounter *counter, DcBatch *batch, const DcRows *rows, uint64 i);
extern void batch_clear_shards(DcSqlSession *session, DcBatch *batch);
extern int64 batch_count(DcBatch *batch, Datum previous);
extern void batch_tell_stuck(DcSweep *sweep, DcCounter *counter, const DcBatch *batch);

#endif /* DC_COMPACTBATCH_H */
