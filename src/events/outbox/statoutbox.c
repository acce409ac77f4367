/*
 * statoutbox.c
 *		The view dc_stat_outbox: the outbox as it is now.
 *
 * Copyright (c) 2026, the dcounter developers
 *
 * Everything is read on demand, nothing is counted: the first and the last event of each partition,
 * by its index, and the sizes of its files.
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "access/table.h"
#include "fmgr.h"
#include "funcapi.h"
#include "storage/bufmgr.h"
#include "utils/builtins.h"
#include "utils/fmgrprotos.h"
#include "utils/rel.h"

#include "base/compat.h"
#include "base/hooks.h"
#include "base/relopen.h"
#include "events/outbox/outbox.h"
#include "events/outbox/ring.h"
#include "events/outbox/stat.h"

PG_FUNCTION_INFO_V1(stat_outbox);

/* Columns of dcounter.stat_outbox() */
enum
{
	COL_LAST_SEQ,
	COL_HORIZON,
	COL_HELD,
	COL_HELD_PID,
	COL_HELD_XID,
	COL_EVENTS,
	COL_BYTES,
	COL_PARTITIONS,
	COL_CURRENT,
	COL_SINCE,
	COL_OLDEST_SEQ,
	COL_OLDEST_AT,
	COL_NEEDED_SEQ,
	COL_NEEDED_BY,
	NUM_COLS
};

static void partition_read(int number, DcPartitionStat *stat,
						   TimestampTz *first_at);
static void set_stored(Datum *values, bool *nulls, int64 horizon);
static void set_needed(Datum *values, bool *nulls);
static void statoutbox_set(Datum *values, bool *nulls, int column, Datum value);
static void set_bigint(Datum *values, bool *nulls, int column, int64 value);

/*
 * dcounter.stat_outbox() -> record: the only row of dc_stat_outbox.
 */
Datum
stat_outbox(PG_FUNCTION_ARGS)
{
	Datum values[NUM_COLS] = {0};
	bool nulls[NUM_COLS];
	TupleDesc desc;
	DcHolder holder;
	int64 horizon;
	int64 last;
	TimestampTz since;

	if (get_call_result_type(fcinfo, NULL, &desc) != TYPEFUNC_COMPOSITE)
		elog(ERROR, "return type must be a row type");
	memset(nulls, true, sizeof(nulls));
	horizon = outbox_horizon(&holder);
	last = Max(outbox_last_seq(), horizon);
	set_bigint(values, nulls, COL_LAST_SEQ, last);
	set_bigint(values, nulls, COL_HORIZON, horizon);
	set_bigint(values, nulls, COL_HELD, last - horizon);
	stat_holder(&holder, &values[COL_HELD_PID], &nulls[COL_HELD_PID],
				&values[COL_HELD_XID], &nulls[COL_HELD_XID]);
	set_stored(values, nulls, horizon);
	statoutbox_set(values, nulls, COL_CURRENT, Int32GetDatum(outbox_current(&since)));
	statoutbox_set(values, nulls, COL_SINCE, TimestampTzGetDatum(since));
	set_needed(values, nulls);
	PG_RETURN_DATUM(HeapTupleGetDatum(heap_form_tuple(BlessTupleDesc(desc),
													  values, nulls)));
}

/*
 * set_stored shows what is stored. Partitions are truncated as a whole, and numbers have few gaps:
 * so there are about as many events as numbers from the oldest event on, and no more.
 */
static void
set_stored(Datum *values, bool *nulls, int64 horizon)
{
	int64 oldest = 0;
	TimestampTz oldest_at = 0;
	int64 bytes = 0;
	int used = 0;

	for (int i = 0; i < OUTBOX_PARTITIONS; i++)
	{
		DcPartitionStat stat;
		TimestampTz at = 0;

		partition_read(i, &stat, &at);
		bytes += stat.bytes;
		used += stat.used ? 1 : 0;
		if (stat.first != 0 && stat.first <= horizon &&
			(oldest == 0 || stat.first < oldest))
		{
			oldest = stat.first;
			oldest_at = at;
		}
	}
	set_bigint(values, nulls, COL_EVENTS, oldest != 0 ? horizon - oldest + 1 : 0);
	set_bigint(values, nulls, COL_BYTES, bytes);
	statoutbox_set(values, nulls, COL_PARTITIONS, Int32GetDatum(used));
	if (oldest == 0)
		return;
	set_bigint(values, nulls, COL_OLDEST_SEQ, oldest);
	statoutbox_set(values, nulls, COL_OLDEST_AT, TimestampTzGetDatum(oldest_at));
}

/*
 * set_needed shows the first event that a consumer still needs, and which one it
 * is, if the caller may know of it.
 */
static void
set_needed(Datum *values, bool *nulls)
{
	char *name;
	int64 seq = consumer_hooks->first_needed(&name);

	if (seq == 0)
		return;
	set_bigint(values, nulls, COL_NEEDED_SEQ, seq);
	if (name != NULL)
		statoutbox_set(values, nulls, COL_NEEDED_BY, CStringGetTextDatum(name));
}

/*
 * stat_holder shows the session or the prepared transaction that holds delivery back,
 * if there is one.
 */
void
stat_holder(const DcHolder *holder, Datum *pid, bool *pid_null, Datum *xid,
			bool *xid_null)
{
	*pid_null = !holder->held || holder->pid == 0;
	*pid = Int32GetDatum(holder->pid);
	*xid_null = !holder->held || holder->pid != 0 || !TransactionIdIsValid(holder->xid);
	*xid = TransactionIdGetDatum(holder->xid);
}

/*
 * stat_partitions reads the content of all partitions, into an array of OUTBOX_PARTITIONS.
 */
void
stat_partitions(DcPartitionStat *partitions)
{
	for (int i = 0; i < OUTBOX_PARTITIONS; i++)
		partition_read(i, &partitions[i], NULL);
}

/*
 * Read the size of a partition with its indexes, and its first and last event.
 */
static void
partition_read(int number, DcPartitionStat *stat, TimestampTz *first_at)
{
	Oid relid = outbox_partition(number);
	Relation rel = table_open_present(relid, AccessShareLock);
	Datum size = DirectFunctionCall1(pg_total_relation_size,
									 ObjectIdGetDatum(relid));

	memset(stat, 0, sizeof(*stat));
	stat->bytes = DatumGetInt64(size);
	stat->used = RelationGetNumberOfBlocks(rel) > 0;
	if (stat->used)
	{
		stat->first = ring_edge_event(rel, ForwardScanDirection, first_at);
		stat->last = ring_edge_event(rel, BackwardScanDirection, NULL);
	}
	table_close(rel, AccessShareLock);
}

/*
 * Set a column of the result, which is NULL otherwise.
 */
static void
statoutbox_set(Datum *values, bool *nulls, int column, Datum value)
{
	values[column] = value;
	nulls[column] = false;
}

/*
 * Set a column of the result to a bigint.
 */
static void
set_bigint(Datum *values, bool *nulls, int column, int64 value)
{
	statoutbox_set(values, nulls, column, Int64GetDatum(value));
}
