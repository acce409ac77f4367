/*
 * eventwrite.c
 *		Events: kept while the transaction runs, written when it commits.
 *
 * Copyright (c) 2026, the dcounter developers
 *
 * An event becomes a row of the outbox without its number and time, and waits in
 * the transaction's log (log.c). At PRE_COMMIT, after deferred triggers, the
 * transaction registers itself (registry.c), draws one block of numbers for all
 * its events, and writes them to the current partition. So:
 *
 *	- If one of two transactions has waited for the other, or has seen its changes, the one that
 *	  committed first has the lower numbers: it drew them before its commit, and the other after. In
 *	  particular the events of a key whose row each of them changes are in the order of the commits,
 *	  even if they have written other events before.
 *	- A long transaction holds nothing back while it runs.
 *	- Events of a savepoint that is rolled back are never written.
 *
 * Events that come later still, from SQL that another module runs in a callback of
 * its own, are written at once.
 *
 * PREPARE TRANSACTION is where a prepared transaction draws its numbers: it still has its row locks
 * then, so the above is true of it, too. It holds back all later events until it ends, so only
 * superusers may do that, and roles for which dcounter.prepare_events is on.
 *
 * None of this runs users' code: the rows are written below the executor, no trigger fires, and a
 * role that publishes needs no right to the tables. So an event may be queued in a
 * security-restricted operation.
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "access/table.h"
#include "access/tableam.h"
#include "access/xact.h"
#include "access/xlog.h"
#include "catalog/pg_type.h"
#include "common/pg_prng.h"
#include "executor/executor.h"
#include "miscadmin.h"
#include "port/pg_bswap.h"
#include "storage/lmgr.h"
#include "utils/memutils.h"
#include "utils/rel.h"
#include "utils/snapmgr.h"

#include "base/activity.h"
#include "base/args.h"
#include "base/compat.h"
#include "base/guc.h"
#include "base/relopen.h"
#include "base/sequence.h"
#include "base/xactrooms.h"
#include "events/outbox/capture.h"
#include "events/outbox/changed.h"
#include "events/outbox/log.h"
#include "events/outbox/outbox.h"
#include "events/outbox/registry.h"
#include "events/outbox/ring.h"
#include "events/outbox/wait.h"

/* How many events are written at a time, and about how many bytes. */
#define BATCH_EVENTS 256
#define BATCH_BYTES (256 * 1024)

/* Where the events go, while they are being written. */
typedef struct Target
{
	Relation rel;
	EState *estate;
	ResultRelInfo *indexes;
	MemoryContext cxt; /* of a batch */
	TupleTableSlot *slots[BATCH_EVENTS];
	int nslots;
	int nevents; /* in the batch */
	Size bytes;
} Target;

PG_FUNCTION_INFO_V1(on_outbox_insert);

static void prevent_many_events(bool applied);
static TupleDesc event_desc(void);
static bool eventwrite_is_idle(void);
static void eventwrite_xact_callback(XactEvent event, void *arg);
static void eventwrite_subxact_callback(SubXactEvent event, SubTransactionId mine,
										SubTransactionId parent, void *arg);
static void write_events(bool prepare);
static Target *target_open(void);
static void target_add(Target *target, char *data, uint32 len, int64 seq,
					   TimestampTz now);
static void target_flush(Target *target);
static void target_close(Target *target);

/*
 * outbox_init prepares the room; called once, by _PG_init.
 */
void
outbox_init(bool preloading)
{
	registry_init(preloading);
	wait_init(preloading);
	ring_init();
	changed_init();
	ddl_hook_add(&capture_ddl);
	job_register((DcJob){.name = "events", .interval = &dc_events_interval, .run = changed_job});
	job_register((DcJob){.name = "outbox", .interval = &dc_outbox_interval, .run = outbox_job, .is_needed = outbox_is_needed});
}

/*
 * outbox_xact_init registers the transaction callbacks; called once.
 */
void
outbox_xact_init(void)
{
	xact_room_add(DC_XACT_OUTBOX, eventwrite_xact_callback, eventwrite_subxact_callback, eventwrite_is_idle);
}

/*
 * event_id generates an id: a UUID of version 7 (RFC 9562), so ids generated later sort higher, by
 * the millisecond and, in rand_a, by a fraction of it. That is wall time, and nothing depends on
 * it: the order of events is that of their numbers.
 */
void
event_id(pg_uuid_t *id)
{
	/* the time of PostgreSQL's epoch since that of Unix, in us */
	const int64 epoch = (POSTGRES_EPOCH_JDATE - UNIX_EPOCH_JDATE) * USECS_PER_DAY;
	uint64 now = (uint64) (GetCurrentTimestamp() + epoch);
	uint64 high = pg_hton64((now / 1000) << 16 | UINT64CONST(0x7000) |
							(now % 1000) * 4096 / 1000);
	uint64 low = pg_prng_uint64(&pg_global_prng_state);

	low = pg_hton64((low & UINT64CONST(0x3FFFFFFFFFFFFFFF)) |
					UINT64CONST(0x8000000000000000));
	memcpy(id->data, &high, sizeof(high));
	memcpy(id->data + sizeof(high), &low, sizeof(low));
}

/*
 * Raise 54000 if the transaction has as many events as it may have. While they are written when it
 * commits, those of others are held back, and no timeout ends that. Events of rows that a trusted
 * subscription applies do not count: their worker could not commit more often than its publisher
 * has. Those of code that runs in the worker do.
 */
static void
prevent_many_events(bool applied)
{
	static int64 napplied; /* in this transaction */

	if (log_count() == 0)
		napplied = 0;
	napplied += applied;
	if (applied || dc_max_events == 0 || log_count() - napplied < dc_max_events || superuser())
		return;
	ereport(ERROR,
			(errcode(ERRCODE_PROGRAM_LIMIT_EXCEEDED),
			 errmsg("a transaction cannot have more than %d events", dc_max_events),
			 errhint("Commit more often. A superuser can raise dcounter.max_events_per_transaction.")));
}

/*
 * outbox_append adds an event to the current transaction. Errors: 25006 in a
 * read-only transaction and on a standby, 54000 if a part of it is too large, or there are too many.
 */
void
outbox_append(const DcEvent *event, const char *function)
{
	outbox_append_applied(event, function, false);
}

/*
 * outbox_append_applied does the same for an event of a row that a trusted subscription may have
 * applied; then the number of events has no limit.
 */
void
outbox_append_applied(const DcEvent *event, const char *function, bool applied)
{
	Datum values[OUTBOX_NUM_COLUMNS];
	bool nulls[OUTBOX_NUM_COLUMNS] = {false};
	HeapTuple tuple;

	PreventCommandIfReadOnly(function);
	PreventCommandIfParallelMode(function);
	PreventCommandDuringRecovery(function);
	event_check_sizes(event);
	prevent_many_events(applied);
	values[OUTBOX_SEQ - 1] = Int64GetDatum(0);
	values[OUTBOX_CREATED_AT - 1] = TimestampTzGetDatum(0);
	values[OUTBOX_ID - 1] = UUIDPGetDatum(&event->id);
	values[OUTBOX_TOPIC - 1] = PointerGetDatum(event->topic);
	values[OUTBOX_KEY - 1] = PointerGetDatum(event->key);
	values[OUTBOX_TYPE - 1] = PointerGetDatum(event->type);
	values[OUTBOX_PAYLOAD - 1] = PointerGetDatum(event->payload);
	values[OUTBOX_HEADERS - 1] = PointerGetDatum(event->headers);
	nulls[OUTBOX_KEY - 1] = event->key == NULL;
	nulls[OUTBOX_PAYLOAD - 1] = event->payload == NULL;
	nulls[OUTBOX_HEADERS - 1] = event->headers == NULL;
	/* the extension must not be dropped before the commit */
	if (log_count() == 0)
		LockRelationOid(catalog_relation(OUTBOX_TABLE), RowExclusiveLock);
	tuple = heap_form_tuple(event_desc(), values, nulls);
	log_add((char *) tuple->t_data, tuple->t_len);
	heap_freetuple(tuple);
	/* another module may run SQL in a callback of its own, after ours */
	if (xact_has_passed(DC_XACT_OUTBOX))
		write_events(dc_xact_prepares);
}

/*
 * event_desc returns the layout of the rows. A relation that has it is open only when they are
 * written.
 */
static TupleDesc
event_desc(void)
{
	static TupleDesc desc = NULL;

	if (desc == NULL)
	{
		static const struct
		{
			const char *name;
			Oid type;
		} columns[OUTBOX_NUM_COLUMNS] = {
			{"seq", INT8OID}, {"created_at", TIMESTAMPTZOID}, {"id", UUIDOID}, {"aggregatetype", TEXTOID}, {"aggregateid", TEXTOID}, {"type", TEXTOID}, {"payload", JSONBOID}, {"headers", JSONBOID}};
		MemoryContext old = MemoryContextSwitchTo(TopMemoryContext);
		TupleDesc fresh = CreateTemplateTupleDesc(OUTBOX_NUM_COLUMNS);

		for (int i = 0; i < OUTBOX_NUM_COLUMNS; i++)
			TupleDescInitEntry(fresh, i + 1, columns[i].name, columns[i].type, -1, 0);
		desc = compat_described(fresh);
		MemoryContextSwitchTo(old);
	}
	return desc;
}

/*
 * Return true if the transaction has no events, and has not registered as a writer.
 */
static bool
eventwrite_is_idle(void)
{
	return log_is_closed() && !registry_is_entered();
}

/*
 * Raise 42501 if a role prepares a transaction that has events, and is not trusted with that: it
 * could hold back the events of all others as long as it likes.
 */
static void
prevent_prepare(void)
{
	if ((log_count() == 0 && !registry_is_entered()) || dc_prepare_events || superuser())
		return;
	ereport(ERROR,
			(errcode(ERRCODE_INSUFFICIENT_PRIVILEGE),
			 errmsg("permission denied to PREPARE a transaction that has written events"),
			 errdetail("Until a prepared transaction ends, it holds back all later events of the database."),
			 errhint("A superuser can allow a role to do so with ALTER ROLE ... SET dcounter.prepare_events = on.")));
}

/*
 * Write the transaction's events when it commits or is prepared. When it has ended, leave the
 * registry and wake readers.
 */
static void
eventwrite_xact_callback(XactEvent event, void *arg)
{
	switch (event)
	{
		case XACT_EVENT_PRE_COMMIT:
		case XACT_EVENT_PRE_PREPARE:
			if (event == XACT_EVENT_PRE_PREPARE)
				prevent_prepare();
			if (log_count() > 0)
				write_events(event == XACT_EVENT_PRE_PREPARE);
			else
				log_close(); /* all events have been rolled back */
			break;
		case XACT_EVENT_COMMIT:
		case XACT_EVENT_ABORT:
		case XACT_EVENT_PREPARE:
			log_forget();
			if (registry_leave())
				wait_wake();
			break;
		default:
			break;
	}
}

/*
 * Hand the events of a subtransaction to its parent, or drop them.
 */
static void
eventwrite_subxact_callback(SubXactEvent event, SubTransactionId mine,
							SubTransactionId parent, void *arg)
{
	if (event == SUBXACT_EVENT_COMMIT_SUB || event == SUBXACT_EVENT_ABORT_SUB)
		log_end_subxact(GetCurrentTransactionNestLevel(),
						event == SUBXACT_EVENT_COMMIT_SUB);
}

/*
 * write_events writes all events of this transaction.
 */
static void
write_events(bool prepare)
{
	TimestampTz now = GetCurrentTimestamp();
	Target *target;
	int64 seq;
	uint32 len;
	char *data;

	xact_end_temporary();
	PushActiveSnapshot(GetTransactionSnapshot());
	target = target_open();
	activity_note(DC_ACTIVITY_THINGS);
	registry_enter(prepare);
	seq = sequence_draw(catalog_relation(OUTBOX_SEQUENCE), log_count());
	log_rewind();
	while ((data = log_next(&len)) != NULL)
	{
		CHECK_FOR_INTERRUPTS();
		target_add(target, data, len, seq++, now);
	}
	target_close(target);
	PopActiveSnapshot();
	log_close();
}

/*
 * Open the current partition and its indexes for writing, until the transaction ends.
 */
static Target *
target_open(void)
{
	MemoryContext old = MemoryContextSwitchTo(TopTransactionContext);
	Target *target = palloc0(sizeof(Target));

	target->rel = table_open_present(outbox_partition(outbox_current(NULL)),
									 RowExclusiveLock);
	if (RelationGetDescr(target->rel)->natts != OUTBOX_NUM_COLUMNS)
		elog(ERROR, "table \"%s\" has columns of its own",
			 RelationGetRelationName(target->rel));
	target->estate = CreateExecutorState();
	target->indexes = makeNode(ResultRelInfo);
	InitResultRelInfo(target->indexes, target->rel, 1, NULL, 0);
	ExecOpenIndices(target->indexes, false);
	target->cxt = AllocSetContextCreate(TopTransactionContext, "dcounter events being written",
										ALLOCSET_DEFAULT_SIZES);
	MemoryContextSwitchTo(old);
	return target;
}

/*
 * target_add gives a row its number and time, and adds it to the batch. Number and
 * time are the first columns, of fixed size and never null.
 */
static void
target_add(Target *target, char *data, uint32 len, int64 seq, TimestampTz now)
{
	MemoryContext old;
	HeapTuple tuple;
	int64 *fixed;

	if (target->nevents == BATCH_EVENTS || target->bytes > BATCH_BYTES)
		target_flush(target);
	old = MemoryContextSwitchTo(target->cxt);
	tuple = palloc(HEAPTUPLESIZE + len);
	tuple->t_len = len;
	ItemPointerSetInvalid(&tuple->t_self);
	tuple->t_tableOid = RelationGetRelid(target->rel);
	tuple->t_data = (HeapTupleHeader) ((char *) tuple + HEAPTUPLESIZE);
	memcpy(tuple->t_data, data, len);
	fixed = (int64 *) ((char *) tuple->t_data + tuple->t_data->t_hoff);
	fixed[OUTBOX_SEQ - 1] = seq;
	fixed[OUTBOX_CREATED_AT - 1] = now;
	MemoryContextSwitchTo(TopTransactionContext);
	if (target->nevents == target->nslots)
		target->slots[target->nslots++] = table_slot_create(target->rel, NULL);
	ExecForceStoreHeapTuple(tuple, target->slots[target->nevents++], false);
	target->bytes += len;
	MemoryContextSwitchTo(old);
}

/*
 * target_flush writes the batch.
 */
static void
target_flush(Target *target)
{
	MemoryContext old = MemoryContextSwitchTo(target->cxt);

	if (target->nevents == 1)
		table_tuple_insert(target->rel, target->slots[0],
						   GetCurrentCommandId(true), 0, NULL);
	else if (target->nevents > 1)
		table_multi_insert(target->rel, target->slots, target->nevents,
						   GetCurrentCommandId(true), 0, NULL);
	for (int i = 0; i < target->nevents; i++)
	{
		compat_insert_index_entries(target->indexes, target->slots[i],
									target->estate);
		ExecClearTuple(target->slots[i]);
		ResetPerTupleExprContext(target->estate);
	}
	target->nevents = 0;
	target->bytes = 0;
	MemoryContextSwitchTo(old);
	MemoryContextReset(target->cxt);
}

/*
 * target_close writes the last batch. The lock stays until the end of the
 * transaction.
 */
static void
target_close(Target *target)
{
	target_flush(target);
	for (int i = 0; i < target->nslots; i++)
		ExecDropSingleTupleTableSlot(target->slots[i]);
	ExecCloseIndices(target->indexes);
	FreeExecutorState(target->estate);
	table_close(target->rel, NoLock);
	MemoryContextDelete(target->cxt);
	pfree(target);
}

/*
 * on_outbox_insert() -> trigger: refuses rows inserted by SQL, whose numbers would
 * mean nothing.
 */
Datum
on_outbox_insert(PG_FUNCTION_ARGS)
{
	trigger_check(fcinfo, "on_outbox_insert()");
	ereport(ERROR,
			(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
			 errmsg("the outbox cannot be written to with SQL"),
			 errhint("Use dc_publish().")));
}
