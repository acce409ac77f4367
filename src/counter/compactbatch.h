/*
 * compactbatch.h
 *		A batch of compaction (see compact.c).
 */
#ifndef DC_COMPACTBATCH_H
#define DC_COMPACTBATCH_H

#include "counter/sqlpath.h"
#include "datatype/timestamp.h"

/* A shard row of the batch. */
typedef struct DcShardRow
{
	Datum key;
	Datum shard;
	bool empty;	 /* not used since it was set to zero */
	int64 units; /* of a stock */
} DcShardRow;

/* A key of the batch: rows first .. first + nrows - 1. */
typedef struct DcBatchKey
{
	Datum key;
	int first;
	int nrows;
	int64 inc;
	int64 dec;
	TimestampTz at; /* latest change */
	bool used;		/* a row holds an amount */
	bool skip;		/* locked by others, or the sum overflows */
	bool overflow;
	bool has_total;
} DcBatchKey;

typedef struct DcBatch
{
	DcShardRow *rows;
	DcBatchKey *keys;
	int max_rows;
	int nrows;
	int nkeys;
	bool last; /* no rows follow */
} DcBatch;

extern void batch_clear_units(DcSqlSession *session, DcBatch *batch);

#endif /* DC_COMPACTBATCH_H */
