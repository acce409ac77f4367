/*
 * changed.c
 *		The counter tables that emit events, and their changed keys.
 *
 * Copyright (c) 2026, the dcounter developers
 *
 * A transaction that changes the total of a key (compaction, dc_set() and relatives) leaves
 * a mark in dcounter.changed_key. The job in changedjob.c
 * turns marks into events, changedsquash.c makes them fewer. A mark has no value: it
 * says that the key must be read by a transaction that begins to read after the mark is
 * visible.
 *
 * No transaction waits for another here: marks are only inserted, and there may be several
 * of a key. One lock for each counter table (lockclass.h) lets one round at a time work on it, and
 * keeps dc_alter() and rounds apart.
 *
 * Both tables are catalogs (catrow.c). A lock on the table of marks is held to the
 * end of the transaction, so that a round can see whether marks may be on their way.
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "access/table.h"
#include "access/xact.h"
#include "catalog/indexing.h"
#include "catalog/pg_type.h"
#include "fmgr.h"
#include "utils/fmgroids.h"
#include "utils/fmgrprotos.h"
#include "utils/rel.h"
#include "utils/snapmgr.h"

#include "base/args.h"
#include "base/catrow.h"
#include "base/compat.h"
#include "base/hooks.h"
#include "base/lockclass.h"
#include "base/relopen.h"
#include "core/table/catalog.h"
#include "events/outbox/changed.h"

PG_FUNCTION_INFO_V1(on_events_change);

static bool changed_wants(Oid counter);
static void changed_changed(Oid counter, const Datum *keys, int nkeys);
static void changed_alter(Oid counter, const Interval *every, const text *channel);
static int compare_intervals(const Interval *a, int32 days);
static void changed_columns(DcCatRow *io, void *data);

static const DcCatalog events = {
	.table = EVENTS_TABLE,
	.pkey = "counter_events_pkey",
	.nkeys = 1,
	.size = sizeof(DcCounterEvents),
	.columns = changed_columns,
};

/* Its rows are not read into a struct. */
static const DcCatalog marks = {
	.table = MARKS_TABLE,
	.pkey = "changed_key_marked_at",
	.keeps_lock = true,
};

static const DcOutboxHooks hooks = {
	.wants = changed_wants,
	.changed = changed_changed,
	.alter = changed_alter,
	.dropped = changed_forget,
};

/*
 * changed_init installs the hooks by which other rooms report changes; called once.
 */
void
changed_init(void)
{
	outbox_hooks = &hooks;
}

/*
 * Return true if a counter table emits events. Without the table of settings,
 * as while the extension is being updated, none does.
 */
static bool
changed_wants(Oid counter)
{
	DcCounterEvents row;

	return OidIsValid(catalog_relation_if_any(EVENTS_TABLE)) && events_read(counter, &row);
}

/*
 * changed_changed leaves a mark for each of the keys.
 */
static void
changed_changed(Oid counter, const Datum *keys, int nkeys)
{
	Relation rel = table_open_present(catalog_relation(MARKS_TABLE), RowExclusiveLock);
	CatalogIndexState indexes = CatalogOpenIndexes(rel);
	Datum values[MARK_NUM_COLUMNS];
	bool nulls[MARK_NUM_COLUMNS] = {false};

	if (RelationGetDescr(rel)->natts != MARK_NUM_COLUMNS)
		elog(ERROR, "table \"%s.%s\" has columns of its own", DC_SCHEMA, MARKS_TABLE);
	values[MARK_COUNTER - 1] = ObjectIdGetDatum(counter);
	values[MARK_AT - 1] = TimestampTzGetDatum(GetCurrentTimestamp());
	for (int i = 0; i < nkeys; i++)
	{
		HeapTuple tuple;

		values[MARK_KEY - 1] = keys[i];
		tuple = heap_form_tuple(RelationGetDescr(rel), values, nulls);
		CatalogTupleInsertWithInfo(rel, tuple, indexes);
		heap_freetuple(tuple);
	}
	CatalogCloseIndexes(indexes);
	table_close(rel, NoLock);
	CommandCounterIncrement(); /* so that marks can be deleted */
}

/*
 * changed_alter changes the settings of a counter table, for dc_alter(). NULL keeps one;
 * an interval of zero ends the events, an empty channel the notifications. Errors:
 * 22023 for values out of range, or a channel without events, 54000 for a channel that is too long.
 */
static void
changed_alter(Oid counter, const Interval *every, const text *channel)
{
	bool off = every != NULL && compare_intervals(every, 0) == 0;
	DcCounterEvents row = {0};
	bool exists;

	if (every != NULL && (compare_intervals(every, 0) < 0 || compare_intervals(every, 1) > 0))
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("events must be between zero and one day")));
	if (channel != NULL)
		check_length("channel name", VARSIZE_ANY_EXHDR(channel), 0, NAMEDATALEN - 1);
	(void) events_lock(counter, true);
	exists = events_read(counter, &row);
	if (channel != NULL && VARSIZE_ANY_EXHDR(channel) > 0 &&
		(off || (!exists && every == NULL)))
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("notify needs events"),
				 errhint("Set events to an interval greater than zero.")));
	if (off || (!exists && every == NULL))
	{
		changed_forget(counter);
		return;
	}
	if (!exists)
		row.last_round = DT_NOBEGIN;
	row.counter = counter;
	if (every != NULL)
		row.every = *every;
	if (channel != NULL)
		row.channel = VARSIZE_ANY_EXHDR(channel) > 0 ? (text *) channel : NULL;
	events_write(&row);
}

/*
 * Compare an interval with a number of days.
 */
static int
compare_intervals(const Interval *a, int32 days)
{
	Interval b = {.day = days};

	return DatumGetInt32(DirectFunctionCall2(interval_cmp,
											 IntervalPGetDatum(a),
											 IntervalPGetDatum(&b)));
}

/*
 * events_lock makes this transaction the only one to work on the marks of a counter table; false if
 * another does, and `wait` is false.
 */
bool
events_lock(Oid counter, bool wait)
{
	return advisory_lock(EVENTS_LOCK_CLASS, counter, 0, ExclusiveLock, wait);
}

/*
 * Read or write the columns of the settings of a counter table's events, in their order. Without a
 * round so far, the time of the last one is NULL in the row, and -infinity in memory.
 */
static void
changed_columns(DcCatRow *io, void *data)
{
	DcCounterEvents *row = data;
	Datum every = IntervalPGetDatum(&row->every);
	Datum channel = PointerGetDatum(row->channel);
	TimestampTz last_round = TIMESTAMP_IS_NOBEGIN(row->last_round) ? 0 : row->last_round;

	cat_oid(io, &row->counter);
	cat_datum(io, INTERVALOID, &every);
	cat_datum(io, TEXTOID, &channel);
	cat_time(io, &last_round);
	if (!io->reading)
		return;
	row->every = *DatumGetIntervalP(every);
	row->channel = channel != (Datum) 0 ? DatumGetTextPP(channel) : NULL;
	row->last_round = last_round != 0 ? last_round : DT_NOBEGIN;
}

/*
 * events_read fetches the settings of a counter table; false if it emits no
 * events.
 */
bool
events_read(Oid counter, DcCounterEvents *row)
{
	return cat_read(&events, row, ObjectIdGetDatum(counter));
}

/*
 * events_read_all returns a list of all settings (DcCounterEvents *).
 */
List *
events_read_all(void)
{
	return cat_read_all(&events, SnapshotSelf);
}

/*
 * events_write replaces the settings of a counter table, or creates them. The caller
 * holds the lock.
 */
void
events_write(const DcCounterEvents *row)
{
	if (!cat_update(&events, row))
		cat_insert(&events, row);
}

/*
 * changed_forget removes the settings and the marks of a table that is a counter table, or
 * was one. A transaction that has begun before the events were ended may have left
 * marks though there are no settings.
 */
void
changed_forget(Oid counter)
{
	(void) cat_delete(&events, ObjectIdGetDatum(counter));
	(void) cat_delete(&marks, ObjectIdGetDatum(counter));
}

/*
 * marks_scan reads a counter table's marks that were made from one time to another.
 */
void
marks_scan(DcCatScan *scan, LOCKMODE mode, Oid counter, TimestampTz from, TimestampTz upto)
{
	ScanKeyData keys[3];

	ScanKeyInit(&keys[0], MARK_COUNTER, BTEqualStrategyNumber, F_OIDEQ,
				ObjectIdGetDatum(counter));
	ScanKeyInit(&keys[1], MARK_AT, BTGreaterEqualStrategyNumber,
				F_TIMESTAMPTZ_GE, TimestampTzGetDatum(from));
	ScanKeyInit(&keys[2], MARK_AT, BTLessEqualStrategyNumber,
				F_TIMESTAMPTZ_LE, TimestampTzGetDatum(upto));
	cat_scan_begin(scan, &marks, marks.pkey, mode, keys, lengthof(keys));
}

/*
 * on_events_change() -> trigger on dcounter.counter_events
 */
Datum
on_events_change(PG_FUNCTION_ARGS)
{
	return cat_on_change(fcinfo, &events, "on_events_change()");
}
