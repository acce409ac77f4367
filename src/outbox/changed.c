/*
 * changed.c
 *		Which counter tables emit events, and which of their keys have changed.
 *
 * Whoever changes the total of a key (compaction, dc_set() and relatives) leaves a
 * mark in dcounter.changed_key, in its own transaction. The job in changedjob.c
 * turns marks into events, changedsquash.c makes them fewer. To a mark belongs no value: it says that the key must
 * be read by a transaction that begins to read after the mark is visible.
 *
 * Nobody waits for anybody here: marks are only inserted, and there may be several
 * of a key. One lock for each counter table (lockclass.h) makes one round at a time
 * work on it, and keeps dc_alter() and rounds apart.
 *
 * As the catalog (catalog.c), both tables are read and written below the executor:
 * no role needs a right to them. A lock on the table of marks is held to the
 * end of the transaction, so that a round can tell whether marks may be on their way.
 */
#include "postgres.h"

#include "access/genam.h"
#include "access/htup_details.h"
#include "access/table.h"
#include "access/xact.h"
#include "base/hooks.h"
#include "base/lockclass.h"
#include "base/rowread.h"
#include "catalog/indexing.h"
#include "catalog/namespace.h"
#include "catalog/pg_type.h"
#include "commands/trigger.h"
#include "fmgr.h"
#include "miscadmin.h"
#include "outbox/changed.h"
#include "outbox/outbox.h"
#include "storage/lock.h"
#include "table/catalog.h"
#include "utils/builtins.h"
#include "utils/datum.h"
#include "utils/fmgroids.h"
#include "utils/fmgrprotos.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"
#include "utils/snapmgr.h"

PG_FUNCTION_INFO_V1(on_events_change);

/* Columns of dcounter.counter_events */
enum
{
	COL_COUNTER = 1,
	COL_EVERY,
	COL_CHANNEL,
	COL_LAST_ROUND,
	NUM_COLS = COL_LAST_ROUND
};

static bool wants(Oid counter);
static void changed(Oid counter, const Datum *keys, int nkeys);
static void alter(Oid counter, const Interval *every, const text *channel);
static void check_every(const Interval *every);
static int compare_intervals(const Interval *a, int32 days);
static bool events_find(Relation rel, Oid counter, ItemPointer tid,
						DcCounterEvents *row);
static void events_deform(Relation rel, HeapTuple tuple, DcCounterEvents *row);
static bool events_delete(Oid counter);

static const DcOutboxHooks hooks = {
	.wants = wants,
	.changed = changed,
	.alter = alter,
	.dropped = changed_forget,
};

/*
 * changed_init makes the rooms above tell of changes; called once.
 */
void
changed_init(void)
{
	outbox_hooks = &hooks;
}

/*
 * wants tells whether a counter table emits events. Without the table of settings,
 * as while the extension is being updated, none does.
 */
static bool
wants(Oid counter)
{
	Oid schema = get_namespace_oid(DC_SCHEMA, true);
	DcCounterEvents row;

	return OidIsValid(schema) &&
		OidIsValid(get_relname_relid(EVENTS_TABLE, schema)) &&
		events_read(counter, &row);
}

/*
 * changed leaves a mark for each of the keys.
 */
static void
changed(Oid counter, const Datum *keys, int nkeys)
{
	Relation rel = table_open(outbox_relation(MARKS_TABLE), RowExclusiveLock);
	CatalogIndexState indexes = CatalogOpenIndexes(rel);
	Datum values[MARK_NUM_COLUMNS];
	bool nulls[MARK_NUM_COLUMNS] = {false};

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
	CommandCounterIncrement(); /* so that they can be deleted */
}

/*
 * alter changes the settings of a counter table, for dc_alter(). NULL keeps one;
 * an interval of zero ends the events, an empty channel the notifications. Errors:
 * 22023 for values out of range, or a channel without events.
 */
static void
alter(Oid counter, const Interval *every, const text *channel)
{
	bool off = every != NULL && compare_intervals(every, 0) == 0;
	DcCounterEvents row = {0};
	bool exists;

	if (every != NULL)
		check_every(every);
	if (channel != NULL && VARSIZE_ANY_EXHDR(channel) >= NAMEDATALEN)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("channel name too long")));
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

static void
check_every(const Interval *every)
{
	if (compare_intervals(every, 0) < 0 || compare_intervals(every, 1) > 0)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("events must be between zero and one day")));
}

static int
compare_intervals(const Interval *a, int32 days)
{
	Interval b = {.day = days};

	return DatumGetInt32(DirectFunctionCall2(interval_cmp,
											 IntervalPGetDatum(a),
											 IntervalPGetDatum(&b)));
}

/*
 * events_lock makes this transaction the only one to work on the marks of a counter
 * table; false if another does and we are not to wait.
 */
bool
events_lock(Oid counter, bool wait)
{
	return advisory_lock(EVENTS_LOCK_CLASS, counter, 0, ExclusiveLock, wait);
}

/*
 * events_read fetches the settings of a counter table; false if it emits no
 * events. A read may miss a row that is being replaced just then, so it is looked
 * for once more.
 */
bool
events_read(Oid counter, DcCounterEvents *row)
{
	Relation rel = table_open(outbox_relation(EVENTS_TABLE), AccessShareLock);
	ItemPointerData tid;
	bool found = events_find(rel, counter, &tid, row) ||
		events_find(rel, counter, &tid, row);

	table_close(rel, AccessShareLock);
	return found;
}

/*
 * events_read_all returns a list of all settings (DcCounterEvents *).
 */
List *
events_read_all(void)
{
	Relation rel = table_open(outbox_relation(EVENTS_TABLE), AccessShareLock);
	SysScanDesc scan = systable_beginscan(rel, InvalidOid, false, SnapshotSelf,
										  0, NULL);
	HeapTuple tuple;
	List *rows = NIL;

	while (HeapTupleIsValid(tuple = systable_getnext(scan)))
	{
		DcCounterEvents *row = palloc(sizeof(DcCounterEvents));

		events_deform(rel, tuple, row);
		rows = lappend(rows, row);
	}
	systable_endscan(scan);
	table_close(rel, AccessShareLock);
	return rows;
}

/*
 * events_write replaces the settings of a counter table, or makes them. The caller
 * has the lock.
 */
void
events_write(const DcCounterEvents *row)
{
	Relation rel = table_open(outbox_relation(EVENTS_TABLE), RowExclusiveLock);
	Datum values[NUM_COLS];
	bool nulls[NUM_COLS] = {false};
	DcCounterEvents old;
	ItemPointerData tid;
	HeapTuple tuple;

	values[COL_COUNTER - 1] = ObjectIdGetDatum(row->counter);
	values[COL_EVERY - 1] = IntervalPGetDatum(&row->every);
	values[COL_CHANNEL - 1] = PointerGetDatum(row->channel);
	nulls[COL_CHANNEL - 1] = row->channel == NULL;
	values[COL_LAST_ROUND - 1] = TimestampTzGetDatum(row->last_round);
	nulls[COL_LAST_ROUND - 1] = TIMESTAMP_IS_NOBEGIN(row->last_round);
	tuple = heap_form_tuple(RelationGetDescr(rel), values, nulls);
	if (events_find(rel, row->counter, &tid, &old))
		CatalogTupleUpdate(rel, &tid, tuple);
	else
		CatalogTupleInsert(rel, tuple);
	table_close(rel, RowExclusiveLock);
	CommandCounterIncrement();
}

/*
 * changed_forget removes the settings and the marks of a counter table, or of what
 * was one. A transaction that has begun before the events were ended may have left
 * marks though there are no settings.
 */
void
changed_forget(Oid counter)
{
	Relation rel;
	ScanKeyData key;
	SysScanDesc scan;
	HeapTuple tuple;

	(void) events_delete(counter);
	rel = table_open(outbox_relation(MARKS_TABLE), RowExclusiveLock);
	ScanKeyInit(&key, MARK_COUNTER, BTEqualStrategyNumber, F_OIDEQ,
				ObjectIdGetDatum(counter));
	scan = systable_beginscan(rel, outbox_relation(MARKS_INDEX), true,
							  SnapshotSelf, 1, &key);
	while (HeapTupleIsValid(tuple = systable_getnext(scan)))
		CatalogTupleDelete(rel, &tuple->t_self);
	systable_endscan(scan);
	table_close(rel, NoLock);
	CommandCounterIncrement();
}

/*
 * marks_scan reads a counter table's marks that were made from one time to another.
 */
SysScanDesc
marks_scan(Relation rel, Oid counter, TimestampTz from, TimestampTz upto)
{
	ScanKeyData keys[3];

	ScanKeyInit(&keys[0], MARK_COUNTER, BTEqualStrategyNumber, F_OIDEQ,
				ObjectIdGetDatum(counter));
	ScanKeyInit(&keys[1], MARK_AT, BTGreaterEqualStrategyNumber,
				F_TIMESTAMPTZ_GE, TimestampTzGetDatum(from));
	ScanKeyInit(&keys[2], MARK_AT, BTLessEqualStrategyNumber,
				F_TIMESTAMPTZ_LE, TimestampTzGetDatum(upto));
	return systable_beginscan(rel, outbox_relation(MARKS_INDEX), true,
							  SnapshotSelf, lengthof(keys), keys);
}

static bool
events_delete(Oid counter)
{
	Relation rel = table_open(outbox_relation(EVENTS_TABLE), RowExclusiveLock);
	DcCounterEvents row;
	ItemPointerData tid;
	bool found = events_find(rel, counter, &tid, &row);

	if (found)
		CatalogTupleDelete(rel, &tid);
	table_close(rel, NoLock);
	return found;
}

static bool
events_find(Relation rel, Oid counter, ItemPointer tid, DcCounterEvents *row)
{
	ScanKeyData key;
	SysScanDesc scan;
	HeapTuple tuple;

	ScanKeyInit(&key, COL_COUNTER, BTEqualStrategyNumber, F_OIDEQ,
				ObjectIdGetDatum(counter));
	scan = systable_beginscan(rel, outbox_relation(EVENTS_INDEX), true,
							  SnapshotSelf, 1, &key);
	tuple = systable_getnext(scan);
	if (HeapTupleIsValid(tuple))
	{
		*tid = tuple->t_self;
		events_deform(rel, tuple, row);
	}
	systable_endscan(scan);
	return HeapTupleIsValid(tuple);
}

static void
events_deform(Relation rel, HeapTuple tuple, DcCounterEvents *row)
{
	Datum values[NUM_COLS];
	bool nulls[NUM_COLS];

	heap_deform_tuple(tuple, RelationGetDescr(rel), values, nulls);
	row->counter = DatumGetObjectId(values[COL_COUNTER - 1]);
	row->every = *DatumGetIntervalP(values[COL_EVERY - 1]);
	row->channel = nulls[COL_CHANNEL - 1]
		? NULL
		: DatumGetTextPCopy(values[COL_CHANNEL - 1]);
	row->last_round = nulls[COL_LAST_ROUND - 1]
		? DT_NOBEGIN
		: DatumGetTimestampTz(values[COL_LAST_ROUND - 1]);
}

/*
 * on_events_change() -> trigger, BEFORE INSERT OR UPDATE OR DELETE FOR EACH ROW on
 * dcounter.counter_events: when a dump is restored, an INSERT replaces a row that
 * is there, and sessions are told.
 */
Datum
on_events_change(PG_FUNCTION_ARGS)
{
	TriggerData *data = (TriggerData *) fcinfo->context;
	HeapTuple tuple;
	DcCounterEvents row;
	Datum counter;
	bool isnull;

	if (!CALLED_AS_TRIGGER(fcinfo) ||
		RelationGetRelid(data->tg_relation) != outbox_relation(EVENTS_TABLE) ||
		!TRIGGER_FIRED_BEFORE(data->tg_event) ||
		!TRIGGER_FIRED_FOR_ROW(data->tg_event))
		ereport(ERROR,
				(errcode(ERRCODE_E_R_I_E_TRIGGER_PROTOCOL_VIOLATED),
				 errmsg("%s can only be a trigger of the extension's own table",
						"on_events_change()")));
	tuple = TRIGGER_FIRED_BY_UPDATE(data->tg_event) ? data->tg_newtuple : data->tg_trigtuple;
	counter = tuple_nullable(data->tg_relation, tuple, COL_COUNTER, REGCLASSOID, &isnull);
	if (isnull)
		return PointerGetDatum(tuple); /* the NOT NULL constraint will tell */
	counter_invalidate(DatumGetObjectId(counter));
	if (TRIGGER_FIRED_BY_INSERT(data->tg_event) &&
		events_read(DatumGetObjectId(counter), &row))
		(void) events_delete(DatumGetObjectId(counter));
	return PointerGetDatum(tuple);
}
