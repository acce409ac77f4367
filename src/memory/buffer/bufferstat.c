/*
 * bufferstat.c
 *		The view dc_stat_buffer: amounts in memory now.
 *
 * Copyright (c) 2026, the dcounter developers
 */
#include "postgres.h"

#include "catalog/pg_authid.h"
#include "fmgr.h"
#include "funcapi.h"
#include "miscadmin.h"
#include "utils/acl.h"
#include "utils/syscache.h"

#include "base/compat.h"
#include "base/interval.h"
#include "memory/buffer/buffer.h"

PG_FUNCTION_INFO_V1(stat_buffer);

#define USECS_PER_MS 1000.0

enum
{
	COL_COUNTER,
	COL_KEYS,
	COL_INCREMENTS,
	COL_MEMORY,
	COL_OLDEST,
	COL_WAITING,
	COL_LAST_FLUSH,
	COL_LAST_FLUSH_MS,
	NUM_COLS
};

/* Sums over the entries of a table. */
typedef struct DcBufferSum
{
	int64 keys;
	int64 increments;
	int64 bytes;
} DcBufferSum;

static bool may_read(Oid relid);
static void sum_up(DcBufferTable *table, DcBufferSum *sum);
static void bufferstat_put_row(ReturnSetInfo *result, DcBufferTable *table);

/*
 * dcounter.stat_buffer() -> a row for each buffered counter table of this database
 * that has been written to since the server started, and that the caller may read.
 */
Datum
stat_buffer(PG_FUNCTION_ARGS)
{
	ReturnSetInfo *result = (ReturnSetInfo *) fcinfo->resultinfo;

	InitMaterializedSRF(fcinfo, 0);
	for (int i = 0; buffer_area != NULL && i < buffer_area->ntables; i++)
	{
		DcBufferTable *table = &buffer_area->tables[i];

		if (table->database == MyDatabaseId && may_read(table->counter))
			bufferstat_put_row(result, table);
	}
	return (Datum) 0;
}

/*
 * Return true if the current user may see the table's row: it still exists, and they have SELECT on
 * it or are a monitor.
 */
static bool
may_read(Oid relid)
{
	return SearchSysCacheExists1(RELOID, ObjectIdGetDatum(relid)) &&
		(pg_class_aclcheck(relid, GetUserId(), ACL_SELECT) == ACLCHECK_OK ||
		 has_privs_of_role(GetUserId(), ROLE_PG_MONITOR));
}

/*
 * Add a table's row to the result. Its numbers are read without a common lock, so they are not all
 * of one moment.
 */
static void
bufferstat_put_row(ReturnSetInfo *result, DcBufferTable *table)
{
	Datum values[NUM_COLS];
	bool nulls[NUM_COLS] = {false};
	TimestampTz last = (TimestampTz) pg_atomic_read_u64(&table->last_start); /* wall time */
	int64 age = Max(moment_age(moment_read(&table->since)), 0);
	DcBufferSum sum = {0};

	sum_up(table, &sum);
	values[COL_COUNTER] = ObjectIdGetDatum(table->counter);
	values[COL_KEYS] = Int64GetDatum(sum.keys);
	values[COL_INCREMENTS] = Int64GetDatum(sum.increments);
	values[COL_MEMORY] = Int64GetDatum(sum.bytes);
	values[COL_OLDEST] = IntervalPGetDatum(interval_from_us(age));
	nulls[COL_OLDEST] = pg_atomic_read_u32(&table->dirty) == 0;
	values[COL_WAITING] = Int32GetDatum((int32) pg_atomic_read_u32(&table->waiting));
	values[COL_LAST_FLUSH] = TimestampTzGetDatum(last);
	values[COL_LAST_FLUSH_MS] =
		Float8GetDatum(pg_atomic_read_u64(&table->last_us) / USECS_PER_MS);
	nulls[COL_LAST_FLUSH] = nulls[COL_LAST_FLUSH_MS] = last == 0;
	tuplestore_putvalues(result->setResult, result->setDesc, values, nulls);
}

/*
 * Sum up the keys, increments and bytes of a table's entries.
 */
static void
sum_up(DcBufferTable *table, DcBufferSum *sum)
{
	DcBufferScan scan = {.table = table};
	DcMapEntry *entry;

	while ((entry = buffer_scan_entry(&scan)) != NULL)
	{
		sum->keys++;
		sum->increments += pg_atomic_read_u64(&buffer_of(entry)->calls);
		sum->bytes += map_entry_size(buffer_map, entry);
		map_unpin(entry);
	}
}
