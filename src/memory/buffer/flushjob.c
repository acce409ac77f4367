/*
 * flushjob.c
 *		Flushing as a job of the worker, and dc_flush().
 *
 * Copyright (c) 2026, the dcounter developers
 *
 * A table is due when its flush interval has passed since something was added to it
 * for the first time after the last flush began, less the time that a flush takes:
 * so an increment is durable after about one interval. It is due at once if
 * a session waits for it, or the map is half full. Tables without increments are
 * never due, and the worker sleeps.
 *
 * The flush comes before the other jobs of a worker, and between their steps. Of the tables that
 * are due, those of the owner whose last flush was longest ago come first, and among these the
 * table flushed longest ago. So an owner's many tables do not delay those of others.
 *
 * A table that is locked by DDL, or being flushed by another transaction, is tried again
 * soon. A table whose flush fails is tried again at longer and longer intervals (of a
 * second at most, if a session waits). From then on its amounts are written to shard
 * rows, until that has succeeded. A table whose flush ended the last worker is left alone for the
 * longest of these intervals in any case. Its owner may flush it in the meantime.
 *
 * A step flushes up to FLUSH_KEYS keys, and continues at once with the rest. To come to the end of
 * a table that always has more, each of these steps takes twice as many as the one before, while it
 * is short. After a long step the next one takes half, and after a very long one all tables of the
 * owner rest (tablejob.h). If a step exceeds its time and fails, the next one takes few. What was
 * loaded from the file is one flush. When that has failed it may take longer, but only if the owner
 * is trusted. Otherwise, after it has exceeded its time LONG_TRIES times, the table is left to its
 * owner until that is written.
 *
 * A table that a subscription feeds is left alone. If a subscription has begun to feed it
 * while it was being flushed, the flush is rolled back (subscription.c). Its memory has
 * only amounts that were added before. They stay there until the subscription is dropped.
 * They go to shard rows only if a session waits for them, which has committed at that moment.
 *
 * A table on which code of its owner can run is left alone, too (ownercode.c). It is
 * marked, and increments go to rows from then on. The amounts in memory wait for the
 * owner to call dc_flush() or dc_maintain(), or the file keeps them. The worker looks
 * again every second.
 */
#include "postgres.h"

#include "fmgr.h"
#include "miscadmin.h"
#include "storage/ipc.h"
#include "storage/lmgr.h"
#include "utils/acl.h"
#include "utils/inval.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"
#include "utils/syscache.h"

#include "base/args.h"
#include "base/compat.h"
#include "base/job.h"
#include "core/compact/compact.h"
#include "core/table/access.h"
#include "core/table/layout.h"
#include "core/table/ownercode.h"
#include "core/table/subscription.h"
#include "core/table/tablejob.h"
#include "core/worker/flusher.h"
#include "memory/buffer/buffer.h"

PG_FUNCTION_INFO_V1(dc_flush);

/* us */
#define RETRY_LOCKED (INT64CONST(10) * 1000)
#define RETRY_FED (INT64CONST(1) * 1000 * 1000)
#define RETRY_LEFT (INT64CONST(1) * 1000 * 1000)
#define RETRY_FAILED_MIN (INT64CONST(100) * 1000)
#define RETRY_FAILED_MAX (INT64CONST(60) * 1000 * 1000)
#define RETRY_WAITED_MAX (INT64CONST(1) * 1000 * 1000)
#define LOOK_INTERVAL (INT64CONST(1) * 1000 * 1000)

/* A worker that leaves */
#define LEAVE_LOOK_MS 2	  /* looks again whether transactions are committing, */
#define LEAVE_MAX_MS 1000 /* for so long, */
#define LEAVE_PASSES 40	  /* and tries so often to flush tables that could not be flushed */
#define LEAVE_PAUSE_MS 50
#define LEAVE_FAILED (2 * RETRY_FAILED_MIN) /* but not those that have failed twice */

/* How often the flush of what was loaded from the file is tried for an owner who is not trusted. */
#define LONG_TRIES 2

/* How many keys a step flushes, and the fewest after one that has failed. */
#define FLUSH_KEYS 60000
#define FLUSH_KEYS_MIN 1000

/* Waiting for a crowd: how often and how long at most, and from how many on. */
#define GATHER_MAX 10
#define GATHER_US 30
#define GATHER_FROM 4

/* A slot that could not be flushed, as this process remembers it. */
typedef struct DcFlushRetry
{
	DcMoment at;	   /* DC_LONG_AGO: no need to wait */
	DcMoment waited;   /* the same, if a session waits for it */
	DcMoment off;	   /* not before this in any case; DC_LONG_AGO: it is not put off */
	int64 pause;	   /* 0: it has not failed */
	int keys;		   /* that the next step takes at most; 0: FLUSH_KEYS */
	bool goes_on;	   /* the last one has left some */
	bool trusted;	   /* the owner may make other sessions wait, as of the last step */
	int ntries;		   /* that exceeded their time, of what was loaded from the file */
	uint32 generation; /* of the slot */
	uint64 served;	   /* in the worker: the number of its last flush */
} DcFlushRetry;

/*
 * An owner of tables, as the worker remembers it. So the owner of a slot that is new or has changed
 * hands is known, too.
 */
typedef struct DcFlushOwner
{
	Oid owner;
	uint64 served;	/* the number of the last flush of a table of this owner */
	DcMoment until; /* its tables rest */
} DcFlushOwner;

typedef struct DcFlushStep
{
	int slot;
	bool all_owners;
	bool locked;	  /* out: could not be locked */
	bool fed;		  /* out: was left alone */
	DcFlushLeft left; /* out: was left to its owner */
	int keys;		  /* at most */
	bool goes_on;	  /* out: there are more */
	bool trusted;	  /* out: the owner may make the others wait */
} DcFlushStep;

static DcFlushRetry retries[DC_BUFFER_TABLES];

/* DcFlushOwner, in TopMemoryContext. Roles are few. */
static List *owners = NIL;

/* Flushes of this process. */
static uint64 served = 0;

/* When to wake sessions that wait for a flush by another process. */
static DcMoment next_look = {0};

/* The worker is leaving: everything is due. */
static bool leaving = false;
static DcMoment leave_until; /* nothing after that */

static void flusher_exit(int code, Datum arg);
static bool is_reserved(void);
static DcMoment table_due(int slot);
static DcFlushRetry *retry_of(int slot);
static void look_at_waiters(void);
static void flushjob_put_off(Oid counter);
static int next_slot(const DcJobRun *run, uint64 before);
static void note_turn(int slot);
static bool flush_slot(DcJobRun *run, int slot);
static DcFlushOwner *owner_of(int slot);
static void flush_step(void *arg);
static bool is_to_do(const DcJobRun *run, int slot);
static bool is_loaded(DcBufferTable *table);
static bool may_flush(DcFlushStep *step, DcBufferTable *table);
static bool is_too_long(const DcFlushStep *step, DcBufferTable *table);
static void flushjob_gather(DcBufferTable *table);
static bool is_gone(DcBufferTable *table);
static void flush_and_wait(DcCounter *counter);

/*
 * flush_due returns when the next table of this database is due.
 */
DcMoment
flush_due(void)
{
	DcMoment due = DC_NEVER;

	if (buffer_area == NULL)
		return due;
	for (int i = 0; i < buffer_area->ntables; i++)
	{
		DcBufferTable *table = &buffer_area->tables[i];

		if (table->database != MyDatabaseId)
			continue;
		due = moment_min(due, table_due(i));
		if (!leaving && pg_atomic_read_u32(&table->waiting) > 0)
			due = moment_min(due, next_look);
	}
	return due;
}

/*
 * Return the moment at which the slot's table is to be flushed, or DC_NEVER. While the worker is
 * leaving, every dirty table is due at once, unless its flush has failed too often or the time to
 * leave has passed.
 */
static DcMoment
table_due(int slot)
{
	DcBufferTable *table = &buffer_area->tables[slot];
	DcFlushRetry *retry = retry_of(slot);
	int64 interval = (int64) pg_atomic_read_u64(&table->interval);
	int64 last = (int64) pg_atomic_read_u64(&table->last_us);
	DcMoment due;

	if (pg_atomic_read_u32(&table->left) != DC_NOT_LEFT)
		return leaving ? DC_NEVER : retry->at;
	if (pg_atomic_read_u32(&table->dirty) == 0)
		return DC_NEVER;
	if (leaving && moment_is_reached(leave_until))
		return DC_NEVER;
	if (leaving)
		return !moment_is_reached(retry->off) || retry->pause >= LEAVE_FAILED ? DC_NEVER : DC_LONG_AGO;
	if (pg_atomic_read_u32(&table->waiting) > 0)
		return moment_max(retry->waited, owner_of(slot)->until);
	if (buffer_is_pressed() || retry->goes_on)
		due = DC_LONG_AGO;
	else
		due = moment_after(moment_read(&table->since), interval - Min(last, interval / 2));
	return moment_max(moment_max(due, retry->at), owner_of(slot)->until);
}

/*
 * retry_of returns what is remembered of a slot; nothing, if it is another table's now.
 */
static DcFlushRetry *
retry_of(int slot)
{
	DcFlushRetry *retry = &retries[slot];
	uint32 generation = pg_atomic_read_u32(&buffer_area->tables[slot].generation);

	if (retry->generation != generation)
	{
		memset(retry, 0, sizeof(DcFlushRetry));
		retry->generation = generation;
	}
	return retry;
}

/*
 * flush_job flushes the tables that are due, each once; true if it has yielded.
 */
bool
flush_job(DcJobRun *run)
{
	bool any = true;

	if (buffer_area == NULL)
		return false;
	if (OidIsValid(run->suspect))
		flushjob_put_off(run->suspect);
	if (!leaving)
		look_at_waiters();
	for (int pass = 1; any; pass++)
	{
		uint64 before = served;
		int slot;

		if (leaving && pass > 1 && !moment_is_reached(leave_until))
			pg_usleep(LEAVE_PAUSE_MS * 1000L);
		any = false;
		pg_atomic_write_u32(&buffer_area->pressed, 0);
		while ((slot = next_slot(run, before)) >= 0)
		{
			note_turn(slot);
			if (flush_slot(run, slot))
				any = run->all_owners && (!leaving || pass < LEAVE_PASSES);
			if (!leaving && job_is_late(run))
				return any;
		}
	}
	return false;
}

/*
 * next_slot returns the slot whose turn it is, of those to be flushed that have had no turn after
 * turn `before`; -1 if there is none.
 */
static int
next_slot(const DcJobRun *run, uint64 before)
{
	const DcFlushRetry *first = NULL;
	uint64 first_owner = 0;

	for (int i = 0; i < buffer_area->ntables; i++)
	{
		const DcFlushRetry *retry = retry_of(i);
		uint64 owner;

		if (retry->served > before || !is_to_do(run, i))
			continue;
		owner = owner_of(i)->served;
		if (first == NULL || owner < first_owner || (owner == first_owner && retry->served < first->served))
		{
			first = retry;
			first_owner = owner;
		}
	}
	return first != NULL ? first - retries : -1;
}

/*
 * owner_of returns what is remembered of the owner of a slot's table.
 */
static DcFlushOwner *
owner_of(int slot)
{
	Oid owner = pg_atomic_read_u32(&buffer_area->tables[slot].owner);
	DcFlushOwner *entry;
	MemoryContext old;
	ListCell *lc;

	foreach(lc, owners)
	{
		entry = lfirst(lc);
		if (entry->owner == owner)
			return entry;
	}
	old = MemoryContextSwitchTo(TopMemoryContext);
	entry = palloc(sizeof(DcFlushOwner));
	*entry = (DcFlushOwner){.owner = owner, .until = DC_LONG_AGO};
	owners = lappend(owners, entry);
	MemoryContextSwitchTo(old);
	return entry;
}

/*
 * note_turn notes that a slot has its turn, and so has its owner.
 */
static void
note_turn(int slot)
{
	served++;
	owner_of(slot)->served = served;
	retry_of(slot)->served = served;
}

/*
 * Return true if a run is to flush a slot: in the worker one that is due, in a
 * session one that no flusher flushes, of a table of the current user's, or of one that is gone.
 */
static bool
is_to_do(const DcJobRun *run, int slot)
{
	DcBufferTable *table = &buffer_area->tables[slot];
	Oid owner;

	if (table->database != MyDatabaseId)
		return false;
	if (run->all_owners)
		return moment_is_reached(table_due(slot));
	if (flusher_flushes(table) || pg_atomic_read_u32(&table->dirty) == 0)
		return false;
	owner = relation_owner(table->counter);
	return !OidIsValid(owner) || has_privs_of_role(GetUserId(), owner);
}

/*
 * look_at_waiters wakes all who wait, now and then: see flushsleep.c.
 */
static void
look_at_waiters(void)
{
	if (!moment_is_reached(next_look))
		return;
	next_look = moment_after(moment_now(), LOOK_INTERVAL);
	waiters_wake_all();
}

/*
 * flushjob_put_off leaves a table alone for a while, at which the last worker has ended: code of
 * its owner could keep this worker from all other tables.
 */
static void
flushjob_put_off(Oid counter)
{
	for (int i = 0; i < buffer_area->ntables; i++)
	{
		DcFlushRetry *retry = retry_of(i);

		if (buffer_area->tables[i].database != MyDatabaseId ||
			buffer_area->tables[i].counter != counter)
			continue;
		retry->pause = RETRY_FAILED_MAX;
		retry->off = retry->at = moment_after(moment_now(), retry->pause);
	}
}

/*
 * flush_enter makes this process the one that flushes the tables of its database.
 */
void
flush_enter(void)
{
	if (buffer_area == NULL)
		return;
	flusher_enter();
	before_shmem_exit(flusher_exit, (Datum) 0);
}

/*
 * End this process's role as the flusher, at its exit, and wake all sessions that wait for a flush.
 */
static void
flusher_exit(int code, Datum arg)
{
	LWLockReleaseAll(); /* an error may have been raised under one */
	flusher_leave();
	waiters_wake_all();
}

/*
 * flush_leave makes everything due, for the last time: the worker leaves. From now on increments go
 * to rows, except for those of transactions that are committing at this moment. A commit that
 * hangs, as without a synchronous standby, is not waited for: the amounts that it adds are left to
 * the next worker, which the launcher starts if necessary, or to the file. So are amounts of tables
 * that are locked, that cannot be written, or that are not written by the time `until`.
 */
void
flush_leave(DcMoment until)
{
	if (buffer_area == NULL)
		return;
	flusher_leave();
	waiters_wake_all();
	leaving = true;
	leave_until = until;
	for (int i = 0; i < DC_BUFFER_TABLES; i++)
		retries[i].pause = 0;
	for (int ms = 0; ms < LEAVE_MAX_MS && is_reserved(); ms += LEAVE_LOOK_MS)
		pg_usleep(LEAVE_LOOK_MS * 1000L);
}

/*
 * Return true if a transaction is about to add to the memory.
 */
static bool
is_reserved(void)
{
	for (int i = 0; i < buffer_area->ntables; i++)
	{
		if (buffer_area->tables[i].database == MyDatabaseId &&
			pg_atomic_read_u32(&buffer_area->tables[i].reserving) > 0)
			return true;
	}
	return false;
}

/*
 * flush_slot runs a step that flushes a table, and notes when to try again. Returns false if trying
 * again soon is of no use.
 */
static bool
flush_slot(DcJobRun *run, int slot)
{
	DcFlushStep step = {.slot = slot, .all_owners = run->all_owners};
	DcFlushRetry *retry = retry_of(slot);
	DcBufferTable *table = &buffer_area->tables[slot];

	if (!moment_is_reached(retry->off))
	{
		flush_wait_refused(table);
		retry->waited = moment_after(moment_now(), RETRY_WAITED_MAX);
		return false;
	}
	step.keys = retry->keys > 0 ? retry->keys : FLUSH_KEYS;
	if (!run->all_owners)
		step.keys = INT_MAX;
	run->limit = run->all_owners && (retry->pause == 0 || !retry->trusted || !is_loaded(table)) ? DC_STEP_MS : 0;
	if (!run->step(run, flush_step, &step, table->counter))
	{
		retry->ntries += is_loaded(table) && !leaving && run->took >= DC_STEP_MS * INT64CONST(1000);
		flush_wait_refused(table); /* it may have failed before the flush began */
		retry->pause = Min(Max(2 * retry->pause, RETRY_FAILED_MIN), RETRY_FAILED_MAX);
		retry->at = moment_after(moment_now(), retry->pause);
		retry->waited = moment_after(moment_now(), Min(retry->pause, RETRY_WAITED_MAX));
		retry->keys = Max(step.keys / 8, FLUSH_KEYS_MIN);
	}
	else if (step.locked || step.left)
	{
		flush_wait_refused(table);
		retry->at = retry->waited =
			moment_after(moment_now(), step.left ? RETRY_LEFT : RETRY_LOCKED);
		run->left += step.left != DC_NOT_LEFT;
	}
	else
	{
		retry->at = step.fed ? moment_after(moment_now(), RETRY_FED) : DC_LONG_AGO;
		retry->waited = retry->off = DC_LONG_AGO;
		retry->pause = 0;
		retry->ntries = 0;
		retry->goes_on = step.goes_on;
		if (run->took > DC_STEP_LONG_OWNER)
			retry->keys = Max(step.keys / 2, FLUSH_KEYS_MIN);
		else if (step.goes_on)
			retry->keys = Min(2 * step.keys, INT_MAX / 2);
	}
	retry->trusted = step.trusted;
	/* after a long step all tables of the owner rest, as in the other jobs (tablejob.c) */
	if (run->all_owners && !leaving && !step.trusted && run->took > DC_STEP_LONG && pg_atomic_read_u32(&table->owner) != InvalidOid)
		owner_of(slot)->until = moment_after(moment_now(), DC_STEP_PAUSE * run->took);
	return !step.fed && !step.left;
}

/*
 * Return true if a table has amounts from the file, which are flushed at once or not at all.
 */
static bool
is_loaded(DcBufferTable *table)
{
	return pg_atomic_read_u32(&table->restored) != DC_NOT_RESTORED;
}

/*
 * Flush a table, or a part of it, in a transaction of its own. It sets in the step whether the
 * table was locked, and whether it continues. A table that no longer exists is discarded instead.
 */
static void
flush_step(void *arg)
{
	DcFlushStep *step = arg;
	DcBufferTable *table = &buffer_area->tables[step->slot];
	DcCounter *counter;
	DcCounterRow row;

	if (table->database != MyDatabaseId)
		return; /* dropped in the meantime */
	step->trusted = table_is_trusted(table->counter);
	pg_atomic_write_u32(&table->owner, relation_owner(table->counter));
	if (step->all_owners && !may_flush(step, table))
		return;
	counter = compact_open(table->counter, step->all_owners);
	if (counter != NULL && table_slot(counter) == table &&
		flush_lock(table->counter, false))
	{
		bool fed = counter_is_fed(&counter->row);

		step->fed = fed && pg_atomic_read_u32(&table->waiting) == 0;
		if (step->fed)
			return;
		flushjob_gather(table);
		step->goes_on = !flush_table(counter, table, fed || retries[step->slot].pause > 0, step->keys);
		if (!fed)
			check_still_not_fed(table->counter);
		return;
	}
	if (is_gone(table))
	{
		discard_gone(table);
		return;
	}
	/* if a lock is not the reason, this raises the error that says what is */
	if (counter_lock_at_once(table->counter, RowExclusiveLock, &row))
		counter_layout(counter_lookup(table->counter));
	step->locked = true;
}

/*
 * Return true if the worker may flush a table now, and marks one that it leaves
 * to its owner.
 */
static bool
may_flush(DcFlushStep *step, DcBufferTable *table)
{
	const char *reason;
	DcOwnerCode code = ownercode_begin(table->counter, &reason);

	if (code == DC_CODE_LOCKED)
	{
		step->locked = true;
		return false;
	}
	if (code == DC_CODE_FOUND)
	{
		step->left = DC_LEFT_CODE;
		ownercode_log(table->counter, reason);
	}
	else if (is_too_long(step, table))
		step->left = DC_LEFT_LONG;
	pg_atomic_write_u32(&table->left, step->left);
	return step->left == DC_NOT_LEFT;
}

/*
 * Return true if the flush of what was loaded from the file has exceeded its time too often, in
 * this worker or in one before, and the owner is not trusted. Logs that once.
 */
static bool
is_too_long(const DcFlushStep *step, DcBufferTable *table)
{
	bool known = pg_atomic_read_u32(&table->left) == DC_LEFT_LONG;

	if (step->trusted || !is_loaded(table) || (!known && retry_of(step->slot)->ntries < LONG_TRIES))
		return false;
	if (!known)
		ereport(LOG,
				(errmsg("dcounter worker leaves counter table \"%s\" to its owner", get_rel_name(table->counter)),
				 errdetail("Increments that were in memory at the last shutdown must be written in one step, which took too long."),
				 errhint("The owner can call dc_flush().")));
	return true;
}

/*
 * flushjob_gather waits for more sessions that want a flush, if many waited for the last one:
 * these come back as soon as they are woken. It continues while their number grows, until nearly
 * all are back. (commit_delay is the same idea.) It takes no longer than half a flush: with a slow
 * disk all share each flush; with a fast one, the processors would be idle while all wait for the
 * same flush, so sessions that are late had better take the next one.
 */
static void
flushjob_gather(DcBufferTable *table)
{
	static uint32 last_crowd = 0;
	uint32 crowd = pg_atomic_read_u32(&table->waiting);
	DcMoment until = moment_after(moment_now(), (int64) pg_atomic_read_u64(&table->last_us) / 2);

	for (int i = 0; i < GATHER_MAX && Max(crowd, last_crowd) >= GATHER_FROM; i++)
	{
		uint32 before = crowd;

		if (crowd >= last_crowd - last_crowd / 8 || moment_is_reached(until))
			break;
		pg_usleep(GATHER_US);
		crowd = pg_atomic_read_u32(&table->waiting);
		if (crowd <= before)
			break;
	}
	last_crowd = crowd;
}

/*
 * Return true if the table of a slot is no longer a counter table: it was dropped by a session
 * without the extension loaded.
 */
static bool
is_gone(DcBufferTable *table)
{
	DcCounterRow row;

	if (!SearchSysCacheExists1(RELOID, ObjectIdGetDatum(table->counter)))
		return true;
	/* with this lock its settings cannot change */
	return catalog_lock_at_once() &&
		ConditionalLockRelationOid(table->counter, ShareUpdateExclusiveLock) &&
		!catalog_read(table->counter, &row);
}

/*
 * dc_flush(counter regclass) -> void: returns when all increments of a buffered
 * counter table that were committed before are durable in rows. NULL: of all
 * tables of the caller; those that are locked by DDL are skipped, with a warning, and so are, with
 * a notice, those that a subscription feeds. For the table's owner.
 */
Datum
dc_flush(PG_FUNCTION_ARGS)
{
	ListCell *lc;

	prevent_write("dc_flush()");
	if (!PG_ARGISNULL(0))
	{
		DcCounter *counter = counter_open_as_owner(fcinfo, "dc_flush()", RowExclusiveLock);

		prevent_fed(counter, "dc_flush()");
		flush_and_wait(counter);
		PG_RETURN_VOID();
	}
	foreach(lc, catalog_read_all())
	{
		DcCounterRow *row = lfirst(lc);
		DcCounter *counter = compact_open(row->counter, false);

		CHECK_FOR_INTERRUPTS();
		if (counter != NULL && counter->fed)
			compact_note_fed(row->counter);
		else if (counter != NULL)
			flush_and_wait(counter);
		else if (row->mode == DC_MODE_BUFFERED &&
				 relation_owner(row->counter) == GetUserId())
			ereport(WARNING,
					(errcode(ERRCODE_LOCK_NOT_AVAILABLE),
					 errmsg("counter table \"%s\" was not flushed: it is locked",
							get_rel_name(row->counter))));
	}
	PG_RETURN_VOID();
}

/*
 * Return when all amounts in memory of the table are in rows. If no flusher has done it, this
 * session flushes.
 */
static void
flush_and_wait(DcCounter *counter)
{
	DcBufferTable *table;

	if (buffer_area == NULL || !counter_is_buffered(counter))
		return;
	table = table_slot(counter);
	if (table != NULL && table->nentries > 0 && !flush_wait(table))
		flush_here(counter);
}

/*
 * flush_database writes the amounts in memory of all tables of this database to rows, for
 * DROP EXTENSION, and keeps writers away from them until the transaction ends. Writers that wait
 * for it then find that the table is no longer a counter table.
 */
void
flush_database(void)
{
	ListCell *lc;

	foreach(lc, catalog_read_all())
	{
		const DcCounterRow *row = lfirst(lc);
		DcCounter *counter;

		CHECK_FOR_INTERRUPTS();
		if (row->mode != DC_MODE_BUFFERED ||
			!counter_lock(row->counter, ShareRowExclusiveLock))
			continue;
		counter = counter_find(row->counter);
		if (counter_is_buffered(counter) && table_slot(counter) != NULL &&
			table_slot(counter)->nentries > 0)
			flush_here(counter_lookup(row->counter));
		CacheInvalidateRelcacheByRelid(row->counter);
	}
}
