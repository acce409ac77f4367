/*
 * event.c
 *		Events: what has been applied, by the ids that its callers gave to it.
 *
 * A record of an event is a row of the counter table's table of events, written by
 * the transaction that applies it, and found by whoever brings the event again. The
 * table is a ring of partitions, so that old records go without deletes
 * (eventjob.c). A partition is open (records are written to it), closed (they are
 * looked for in it) or expired and empty. While the next one is opening, records
 * are written to both.
 *
 * Why two transactions with the same event always meet in the unique index of
 * one partition: a writer locks the table of events (ROW EXCLUSIVE, to the end of
 * its transaction), reads the states, looks into all partitions that are not expired
 * or empty, and then inserts into all that are written to. The job makes one change at a
 * time, and before the next one waits for all who had the lock when it was committed;
 * so the states that two writers know are the same, or neighbours:
 *
 *	  {k open}, {k open, k+1 opening}		both insert into k
 *	  {k open, k+1 opening}, {k closed, k+1 open}	both insert into k+1
 *
 * and who has inserted into k alone has ended before k is closed. What the one has
 * committed in k, the other sees when it looks there. A dirty snapshot does not
 * depend on what the transaction's own snapshot sees; under REPEATABLE READ
 * and SERIALIZABLE a record that it does not see is a serialization failure.
 *
 * Both insert in the order of the ring, and look into closed partitions before they
 * insert anything, so waiting for each other they do not deadlock.
 *
 * An id that carries its time (eventtime.c) is refused when its record may
 * have been forgotten: when it is older than the retention, or made before the
 * time up to which records are gone, which the catalog keeps, so that no clock matters. A
 * record is written when the id's time is at most DC_EVENT_TOLERANCE ahead, and the
 * clock may have been set back as much since, so all ids up to twice that later than the
 * close of a partition may be in it.
 */
#include "postgres.h"

#include "access/xact.h"
#include "base/compat.h"
#include "base/key.h"
#include "ledger/event.h"
#include "ledger/eventslot.h"
#include "ledger/eventtime.h"
#include "ledger/ledger.h"
#include "miscadmin.h"
#include "storage/lmgr.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/snapmgr.h"
#include "utils/timestamp.h"

/* The first id with a time in it is younger than this. */
#define ULID_FROM_MS (INT64CONST(1451606400) * 1000) /* 2016 */
#define ULID_AHEAD_MS (INT64CONST(365) * SECS_PER_DAY * 1000)

#define ERRCODE_EVENT_EXPIRED MAKE_SQLSTATE('L', 'G', '0', '0', '4')

/*
 * An insertion by SQL waits by itself for others: if nothing was inserted, and nothing
 * is there, again and again, then something suppresses it.
 */
#define MAX_SQL_TRIES 10

/* The last event was new. That is a guess about the next one, and no more. */
static bool expect_new = false;

struct DcEventLog
{
	DcCounter *counter;
	bool write;
	int nslots;
	TimestampTz forgotten;
	DcEventSlot *entries; /* in the cache */
	DcEventSlot slots[DC_EVENT_SLOTS];
	DcEventRel rels[DC_EVENT_SLOTS];
};

static DcEventLog *open_log(DcCounter *counter, LOCKMODE mode);
static DcEventRel *log_rel(DcEventLog *log, int i);
static TimestampTz event_time(const DcEvent *event, TimestampTz now);
static bool may_be_forgotten(DcEventLog *log, TimestampTz made, TimestampTz now);
static void check_seen(DcEventLog *log, const DcEvent *event, bool exists);
static bool find_event(DcEventLog *log, const DcEvent *event, DcEventFind how,
					   DcEvent *found);
static bool find_in_slot(DcEventLog *log, int i, const DcEvent *event,
						 DcEventFind how, DcEvent *found);
static bool insert_into_slot(DcEventLog *log, int i, const DcEvent *event,
							 ItemPointer tid, DcEvent *found);

/*
 * event_id_arg reads an event's id from an argument of an SQL function. Errors: 22004
 * for NULL, 22023 for an empty or too long one.
 */
void
event_id_arg(FunctionCallInfo fcinfo, int argno, DcEvent *event)
{
	if (PG_ARGISNULL(argno))
		ereport(ERROR,
				(errcode(ERRCODE_NULL_VALUE_NOT_ALLOWED),
				 errmsg("event_id must not be null")));
	event_id_from_text(PG_GETARG_DATUM(argno), event);
}

/*
 * event_id_from_text is the same for a text.
 */
void
event_id_from_text(Datum value, DcEvent *event)
{
	text *id = DatumGetTextPP(value);

	event->id = VARDATA_ANY(id);
	event->id_len = VARSIZE_ANY_EXHDR(id);
	if (event->id_len == 0)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("event_id must not be empty")));
	if (event->id_len > DC_MAX_EVENT_BYTES)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("event_id is too long"),
				 errdetail("It has %u bytes; the limit is %d.",
						   event->id_len, DC_MAX_EVENT_BYTES)));
}

/*
 * event_check_same raises 23505 if an event was applied with other arguments.
 */
void
event_check_same(const DcEvent *event, const DcEvent *found)
{
	DcKey key;
	DcKey first;

	key_from_text(event->key, &key);
	key_from_text(found->key, &first);
	if (event->delta == found->delta && event->digest == found->digest &&
		key_compare(&key, &first) == 0)
		return;
	ereport(ERROR,
			(errcode(ERRCODE_UNIQUE_VIOLATION),
			 errmsg("event \"%s\" was applied with other arguments",
					pnstrdup(event->id, event->id_len)),
			 errdetail("The first time, key was \"%s\" and delta was %lld.",
					   pnstrdup(first.data, first.len), (long long) found->delta)));
}

/*
 * events_open opens the events of a counter table, which is open to write. Makes
 * the tables if there are none yet.
 */
DcEventLog *
events_open(DcCounter *counter)
{
	DcEventLog *log;

	while ((log = open_log(counter, RowExclusiveLock)) == NULL)
		events_create(counter);
	return log;
}

/*
 * open_log locks the table of events, and looks up what its partitions are for; NULL
 * if there is none.
 */
static DcEventLog *
open_log(DcCounter *counter, LOCKMODE mode)
{
	DcEventLog *log;
	DcEventSlots *entry;

	for (;;)
	{
		Oid events;

		entry = eventslots_find(counter->relid);
		if (entry == NULL)
			return NULL;
		events = entry->events;
		LockRelationOid(events, mode);
		entry = eventslots_find(counter->relid);
		if (entry != NULL && entry->events == events)
			break; /* else dropped and made anew while we waited */
		UnlockRelationOid(events, mode);
	}
	log = palloc(sizeof(DcEventLog));
	log->counter = counter;
	log->write = mode >= RowExclusiveLock;
	log->nslots = entry->nslots;
	log->forgotten = entry->forgotten;
	log->entries = entry->slots;
	for (int i = 0; i < entry->nslots; i++)
	{
		log->slots[i] = entry->slots[i];
		log->rels[i].heap = NULL;
	}
	return log;
}

void
events_close(DcEventLog *log)
{
	for (int i = 0; i < log->nslots; i++)
	{
		if (log->rels[i].heap != NULL)
			eventrel_close(&log->rels[i]);
	}
	pfree(log);
}

/*
 * log_rel opens a partition when it is needed first, and keeps what was found out about
 * it in the cache.
 */
static DcEventRel *
log_rel(DcEventLog *log, int i)
{
	DcEventRel *rel = &log->rels[i];
	DcEventSlot *slot = &log->slots[i];
	uint64 known = slot->checked;

	if (rel->heap == NULL)
		eventrel_open(rel, slot, log->write && slot_is_written(slot));
	else
		eventrel_check(rel); /* code of the owner may have run since */
	if (slot->checked == known)
		return rel;
	if (counter_is_ledger(log->counter))
		guard_check(guard_is_on(rel->heap) ? InvalidOid : RelationGetRelid(rel->heap));
	if (eventslots_find(log->counter->relid) != NULL && log->entries[i].table == slot->table)
	{
		log->entries[i].checked = slot->checked;
		log->entries[i].direct = slot->direct;
		log->entries[i].by_index = slot->by_index;
		log->entries[i].index = slot->index;
	}
	return rel;
}

/*
 * event_time returns when an event's id was made, or 0 if it does not say.
 */
static TimestampTz
event_time(const DcEvent *event, TimestampTz now)
{
	int64 ms;
	DcIdKind kind = id_time(event->id, event->id_len, &ms);
	TimestampTz at;

	if (kind == ID_OPAQUE)
		return 0;
	at = ms * 1000 - (POSTGRES_EPOCH_JDATE - UNIX_EPOCH_JDATE) * USECS_PER_DAY;
	/* other ids may look like a ULID by chance */
	if (kind == ID_ULID &&
		(ms < ULID_FROM_MS || at > now + ULID_AHEAD_MS * 1000))
		return 0;
	return at;
}

/*
 * may_be_forgotten tells whether the record of an event that was made then may be
 * gone.
 */
static bool
may_be_forgotten(DcEventLog *log, TimestampTz made, TimestampTz now)
{
	return made != 0 &&
		(made < now - log->counter->row.event_retention ||
		 (log->forgotten != 0 && made <= log->forgotten + 2 * DC_EVENT_TOLERANCE));
}

/*
 * events_lookup looks for an event, and waits for a transaction in progress that
 * has recorded it. If the last one was new, so will be this one, and inserting it will
 * tell: then it does not look where that is going to. *found is in the caller's memory.
 * Errors: LG004 when it is so old that its record may be gone, 22023 when it says that it is
 * from the future.
 */
bool
events_lookup(DcEventLog *log, DcEvent *event, DcEvent *found)
{
	TimestampTz made = 0;

	if (log->counter->row.event_retention > 0)
	{
		TimestampTz now = GetCurrentTimestamp();

		made = event_time(event, now);
		if (made > now + DC_EVENT_TOLERANCE)
			ereport(ERROR,
					(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
					 errmsg("event \"%s\" is from the future",
							pnstrdup(event->id, event->id_len)),
					 errdetail("It says that it was made at %s.",
							   timestamptz_to_str(made))));
		if (may_be_forgotten(log, made, now))
			ereport(ERROR,
					(errcode(ERRCODE_EVENT_EXPIRED),
					 errmsg("event \"%s\" has expired",
							pnstrdup(event->id, event->id_len)),
					 errdetail("It was made at %s, and it is not known any more whether it was applied.",
							   timestamptz_to_str(made))));
	}
	return find_event(log, event, FIND_TO_WRITE, found);
}

/*
 * events_status tells what is known of an event, as of now at any isolation level. It
 * waits for a transaction in progress that has recorded it, but not on a standby. Under
 * SERIALIZABLE what is now must also be true in the transaction's snapshot.
 */
DcEventStatus
events_status(DcCounter *counter, DcEvent *event, DcEvent *found)
{
	DcEventLog *log = open_log(counter, AccessShareLock);
	TimestampTz now = GetCurrentTimestamp();
	TimestampTz made = 0;
	DcEventStatus status = EVENT_NOT_APPLIED;

	if (log == NULL && !RecoveryInProgress())
	{
		/* the first event of all may be in progress */
		events_wait_made(counter);
		log = open_log(counter, AccessShareLock);
	}
	if (log == NULL)
		return EVENT_NOT_APPLIED;
	if (counter->row.event_retention > 0)
		made = event_time(event, now);
	PushActiveSnapshot(GetLatestSnapshot());
	if (find_event(log, event, RecoveryInProgress() ? FIND_NOW : FIND_AND_WAIT,
				   found))
		status = EVENT_APPLIED;
	else if (may_be_forgotten(log, made, now))
		status = EVENT_UNKNOWN;
	PopActiveSnapshot();
	if (IsolationIsSerializable())
		check_seen(log, event, status == EVENT_APPLIED);
	events_close(log);
	return status;
}

/*
 * check_seen looks for an event in the transaction's snapshot, with predicate locks, so
 * that who records it later conflicts with us. Raises 40001 if it does not show what is
 * now.
 */
static void
check_seen(DcEventLog *log, const DcEvent *event, bool exists)
{
	DcEvent seen;
	bool is_seen;

	PushCopiedSnapshot(GetTransactionSnapshot());
	UpdateActiveSnapshotCommandId();
	is_seen = find_event(log, event, FIND_NOW, &seen);
	PopActiveSnapshot();
	if (is_seen != exists)
		ereport(ERROR,
				(errcode(ERRCODE_T_R_SERIALIZATION_FAILURE),
				 errmsg("could not serialize access due to concurrent update")));
}

/*
 * find_event looks into all partitions that may have an event. Those that are
 * written to come first, as most of what is brought again was brought of late.
 */
static bool
find_event(DcEventLog *log, const DcEvent *event, DcEventFind how, DcEvent *found)
{
	for (int i = 0; i < log->nslots; i++)
	{
		if (slot_is_written(&log->slots[i]) &&
			!(how == FIND_TO_WRITE && expect_new && log_rel(log, i)->slot->direct) &&
			find_in_slot(log, i, event, how, found))
		{
			expect_new = false;
			return true;
		}
	}
	for (int i = 0; i < log->nslots; i++)
	{
		if (log->slots[i].state == SLOT_CLOSED &&
			find_in_slot(log, i, event, how, found))
			return true;
	}
	return false;
}

static bool
find_in_slot(DcEventLog *log, int i, const DcEvent *event, DcEventFind how,
			 DcEvent *found)
{
	DcEventRel *rel = log_rel(log, i);

	if (rel->index != NULL)
		return direct_find(rel, event, how, found);
	return sql_find_event(log->counter->owner, rel->slot, event, how, found);
}

/*
 * events_insert records an event that events_lookup() has not found; false if
 * somebody else has recorded it since. Waits for one who is about to.
 */
bool
events_insert(DcEventLog *log, const DcEvent *event, DcEvent *found)
{
	ItemPointerData tids[DC_EVENT_SLOTS];
	int order[DC_EVENT_SLOTS];
	int n = 0;

	/* the open one comes before the one that is opening */
	for (int pass = 0; pass < 2; pass++)
	{
		for (int i = 0; i < log->nslots; i++)
		{
			if (log->slots[i].state == (pass == 0 ? SLOT_OPEN : SLOT_OPENING))
				order[n++] = i;
		}
	}
	for (int i = 0; i < n; i++)
	{
		if (insert_into_slot(log, order[i], event, &tids[i], found))
			continue;
		while (--i >= 0)
		{
			DcEventRel *rel = log_rel(log, order[i]);

			if (rel->slot->direct)
				direct_delete_event(rel, &tids[i]);
			else
				sql_delete_event(log->counter->owner, rel->slot, event);
		}
		expect_new = false;
		return false;
	}
	expect_new = true;
	return true;
}

static bool
insert_into_slot(DcEventLog *log, int i, const DcEvent *event, ItemPointer tid,
				 DcEvent *found)
{
	for (int tries = 0;; tries++)
	{
		DcEventRel *rel = log_rel(log, i);

		CHECK_FOR_INTERRUPTS();
		if (rel->slot->direct ? direct_insert_event(rel, event, tid)
							  : sql_insert_event(log->counter->owner, rel->slot, event))
			return true;
		if (find_in_slot(log, i, event, FIND_TO_WRITE, found))
			return false;
		if (!rel->slot->direct && tries >= MAX_SQL_TRIES)
			ereport(ERROR,
					(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
					 errmsg("could not record event \"%s\" in \"%s\"",
							pnstrdup(event->id, event->id_len),
							RelationGetRelationName(rel->heap)),
					 errhint("A trigger or a policy of that table may suppress it.")));
	}
}
