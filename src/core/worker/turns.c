/*
 * turns.c
 *		Sharing the workers between databases.
 *
 * Copyright (c) 2026, the dcounter developers
 *
 * At most dcounter.max_workers databases have a worker at a time. As long as no more databases
 * than that have something to maintain, each keeps its worker. Otherwise they take
 * turns:
 *
 *	- A database is due when a transaction has changed one of its counter tables since its last
 *	  worker has looked (activity.c), when that has left something to do or to flush, when the
 *	  first hold or pending transfer ends that it knew of, and after a minute in any case. One
 *	  that had no turn yet is due. So an idle database costs one turn a minute.
 *	- The one that is due and has had no worker for the longest comes next.
 *	  dc_worker_start() puts one in front.
 *	- If there is no worker left for it, that of another database makes room, the one that has run
 *	  for the longest: when it has run each job to its end once and had its turn for a second, or
 *	  after ten seconds. It ends the step that it is in, flushes what is in memory, and leaves. A
 *	  job yields within a second between two steps, and a step has its own limit (jobrun.c), so each
 *	  turn ends.
 *	- The next worker of that database begins after the table that this one was working on,
 *	  so a table with a backlog does not keep the others from theirs.
 *
 * So with n databases that are due at the same time, each has a turn after n / max_workers seconds
 * if all are short, and after ten times that in the worst case. Meanwhile the same work waits as
 * without a worker, and nothing is lost: amounts stay in shard rows, increments of buffered tables
 * are written to rows at once (there is no flusher, commit.c), expired holds are given back by the
 * first take that would otherwise get no unit.
 *
 * A database that has the extension and nothing else (no counter table, no event, no
 * consumer) has no worker at all: one that finds that leaves. The first row of a catalog and the
 * first event are published (DC_ACTIVITY_THINGS), and request one again; every five minutes the
 * launcher has one look again, for what came in a way that publishes nothing.
 *
 * Of max_worker_processes, some stay free for others: as many as the parallel workers of a
 * query (max_parallel_workers_per_gather, two at least), less those that are running, and one
 * in any case. Only the first worker is started regardless of that. Those of others that are
 * about to start are not seen; then they, or we, find no room, and try again.
 *
 * Everything here but the worker's own variables is in the slots, under their lock.
 */
#include "postgres.h"

#include "miscadmin.h"
#include "optimizer/cost.h"
#include "postmaster/bgworker.h"
#include "storage/latch.h"
#include "utils/backend_status.h"

#include "base/activity.h"
#include "base/compat.h"
#include "base/guc.h"
#include "core/table/tablejob.h"
#include "core/worker/flusher.h"
#include "core/worker/turns.h"
#include "core/worker/worker.h"

/* How long a turn lasts at least if another database waits, and if its jobs continue. */
#define TURN_MIN_US (INT64CONST(1) * 1000 * 1000)
#define TURN_MAX_US (INT64CONST(10) * 1000 * 1000)

/* How often a database without a worker is checked in any case, and one without tables. */
#define REST_MS (60 * 1000)
#define NOTHING_MS (300 * 1000)

/* When to check again for room. */
#define ROOM_MS (5 * 1000)

/*
 * How often a worker checks if there is still something to look after; and when it checks a
 * second time, as the first check may have met the locks of the session that has just created
 * the extension.
 */
#define LOOK_MS (60 * 1000)
#define LOOK_AGAIN_MS 1000

/* At least this many of max_worker_processes are left to others, if these use none. */
#define SPARE 2

/* Of this worker, to be stored in its slot when it leaves. */
static DcMoment my_due = {0};
static uint32 my_seen = 0;
static Oid my_table = InvalidOid;
static bool my_pass_is_noted = false;
static DcMoment my_next_look = {0};
static int64 my_looks = 0;

static void turns_add_slots(DcTurns *turns, int *due, int *ndue, int *resting, int *nresting, int *workers);
static DcMoment slot_due(const DcWorkerSlot *slot);
static bool may_have_worker(const DcWorkerSlot *slot);
static int compare_slots(const void *a, const void *b);
static void give_way(DcTurns *turns, int count);
static DcMoment may_give_way(const DcWorkerSlot *slot);
static int compare_running(const void *a, const void *b);

/*
 * Return true if a database is to have workers.
 */
bool
turns_is_wanted(const DcWorkerSlot *slot)
{
	return dc_worker && slot->allowed && !slot->stopped;
}

/*
 * Return true if a slot has a worker, or one was asked for.
 */
bool
slot_has_worker(const DcWorkerSlot *slot)
{
	return slot->state == DC_WORKER_STARTING || slot->state == DC_WORKER_RUNNING;
}

/*
 * database_has_worker returns true if this database has a worker when there is something to do. One
 * that the launcher does not know yet will be known soon.
 */
bool
database_has_worker(void)
{
	DcWorkerSlot *slot = slot_lock(MyDatabaseId, LW_SHARED);
	bool wanted = slot == NULL ? dc_worker : turns_is_wanted(slot);

	slots_unlock();
	return wanted;
}

/*
 * turns_plan decides which databases get a worker, and whose worker has to make room. `room` is how
 * many more workers can be started.
 */
void
turns_plan(DcTurns *turns, int room)
{
	int due[DC_MAX_DATABASES];
	int resting[DC_MAX_DATABASES];
	int ndue = 0;
	int nresting = 0;
	int workers = 0;

	turns->nstart = 0;
	turns->next = DC_NEVER;
	turns->short_of_room = false;
	turns_add_slots(turns, due, &ndue, resting, &nresting, &workers);
	/* few: databases with a worker */
	qsort(due, ndue, sizeof(int), compare_slots);
	/* few: databases with a worker */
	qsort(resting, nresting, sizeof(int), compare_slots);

	/* those that are due, and if all of them have one, the others, too */
	turns->nwaiting = ndue;
	for (int i = 0; i < ndue + nresting && workers < dc_max_workers; i++)
	{
		if (workers > 0 && room <= 0)
		{
			turns->short_of_room = i < ndue;
			break;
		}
		turns->start[turns->nstart++] = i < ndue ? due[i] : resting[i - ndue];
		workers++;
		room--;
	}
	turns->nwaiting = Max(ndue - turns->nstart, 0);
	for (int i = turns->nstart; i < ndue; i++)
		dc_workers->slots[due[i]].waits = true;
	if (turns->short_of_room)
		turns->next = moment_min(turns->next, moment_in(ROOM_MS));
	give_way(turns, Max(turns->nwaiting, workers - dc_max_workers));
}

/*
 * turns_add_slots sorts out the slots: those without a worker that are due, those that are not, and
 * the number of workers.
 */
static void
turns_add_slots(DcTurns *turns, int *due, int *ndue, int *resting, int *nresting, int *workers)
{
	DcMoment now = moment_now();

	for (int i = 0; i < DC_MAX_DATABASES; i++)
	{
		DcWorkerSlot *slot = &dc_workers->slots[i];
		DcMoment at;

		slot->waits = false;
		*workers += slot_has_worker(slot) || slot->ends;
		if (slot->ends || !may_have_worker(slot))
			continue;
		at = slot_due(slot);
		if (!moment_is_before(now, at))
			due[(*ndue)++] = i;
		else
			turns->next = moment_min(turns->next, at);
		if (moment_is_before(now, at) && turns_is_wanted(slot) && slot->state == DC_WORKER_NONE &&
			!moment_is_before(now, moment_max(slot->start_after, slot->paused_until)))
			resting[(*nresting)++] = i;
	}
}

/*
 * Return true if a slot without a worker is to get one some time: a lasting one,
 * or one that flushes. A database that allows no connections is left alone until it does, or
 * is dropped.
 */
static bool
may_have_worker(const DcWorkerSlot *slot)
{
	if (!OidIsValid(slot->database) ||
		(slot->state != DC_WORKER_NONE && slot->state != DC_WORKER_NO_TABLES))
		return false;
	return turns_is_wanted(slot) || (slot->allowed && buffer_is_left(slot->database));
}

/*
 * slot_due returns when a slot without a worker is due.
 */
static DcMoment
slot_due(const DcWorkerSlot *slot)
{
	bool wanted = turns_is_wanted(slot);
	DcMoment at = moment_max(wanted ? slot->start_after : slot->flush_after, slot->paused_until);
	Oid what = slot->state == DC_WORKER_NO_TABLES ? DC_ACTIVITY_THINGS : DC_ACTIVITY_ANY;

	if (!wanted || slot->asked_for || slot->turn_ended.us == DC_LONG_AGO.us ||
		activity_differs(slot->database, what, slot->seen))
		return at;
	if (buffer_is_left(slot->database))
		return moment_max(at, moment_min(slot->flush_after, slot->due));
	return moment_max(at, slot->due);
}

/*
 * compare_slots orders slots by whose turn comes first, for qsort().
 */
static int
compare_slots(const void *a, const void *b)
{
	const DcWorkerSlot *left = &dc_workers->slots[*(const int *) a];
	const DcWorkerSlot *right = &dc_workers->slots[*(const int *) b];

	if (left->asked_for != right->asked_for)
		return left->asked_for ? -1 : 1;
	if (left->turn_ended.us != right->turn_ended.us)
		return moment_is_before(left->turn_ended, right->turn_ended) ? -1 : 1;
	return *(const int *) a - *(const int *) b;
}

/*
 * give_way has this many workers leave for others, as soon as they may.
 */
static void
give_way(DcTurns *turns, int count)
{
	DcMoment now = moment_now();
	int running[DC_MAX_DATABASES];
	int n = 0;

	for (int i = 0; i < DC_MAX_DATABASES; i++)
	{
		const DcWorkerSlot *slot = &dc_workers->slots[i];

		if (slot->state != DC_WORKER_RUNNING || slot->only_flushes)
			count -= slot->ends; /* about to make room */
		else if (slot->gives_way)
			count--;
		else
			running[n++] = i;
	}
	/* few: databases with a worker */
	qsort(running, n, sizeof(int), compare_running);
	for (int i = 0; i < n && count > 0; i++)
	{
		DcWorkerSlot *slot = &dc_workers->slots[running[i]];
		DcMoment at = may_give_way(slot);

		if (moment_is_before(now, at))
		{
			turns->next = moment_min(turns->next, at);
			continue;
		}
		slot->gives_way = true;
		if (slot->latch != NULL)
			SetLatch(slot->latch);
		count--;
	}
}

/*
 * Return when the worker of a slot may be asked to leave for another database.
 */
static DcMoment
may_give_way(const DcWorkerSlot *slot)
{
	return moment_after(slot->running_since, slot->passed ? TURN_MIN_US : TURN_MAX_US);
}

/*
 * Order slots with a worker by when they may make room, the first one first, for qsort().
 */
static int
compare_running(const void *a, const void *b)
{
	DcMoment left = may_give_way(&dc_workers->slots[*(const int *) a]);
	DcMoment right = may_give_way(&dc_workers->slots[*(const int *) b]);

	return moment_is_before(right, left) - moment_is_before(left, right);
}

/*
 * turns_room returns how many more workers may be started, when `own` of ours are there.
 */
int
turns_room(int own)
{
	int others = 0;
	int parallel = 0;
	int spare = Max(Min(max_parallel_workers_per_gather, max_parallel_workers), SPARE);
	int count;

	pgstat_clear_backend_activity_snapshot();
	count = pgstat_fetch_stat_numbackends();
	for (int i = 1; i <= count; i++)
	{
		PgBackendStatus *status = compat_backend_status(i);
		const char *type;

		if (status->st_backendType != B_BG_WORKER || is_worker(status->st_procpid))
			continue;
		others++; /* the launcher is one of them */
		type = GetBackgroundWorkerTypeByPid(status->st_procpid);
		parallel += type != NULL && strcmp(type, "parallel worker") == 0;
	}
	pgstat_clear_backend_activity_snapshot();
	return max_worker_processes - others - own - Max(spare - parallel, 1);
}

/*
 * turn_enter begins a worker's turn, when it enters its slot. The caller holds the lock.
 */
void
turn_enter(DcWorkerSlot *slot)
{
	slot->latch = MyLatch;
	slot->stays = slot->passed = slot->gives_way = slot->asked_for = slot->waits = false;
	table_jobs_begin_after(slot->last_table);
}

/*
 * turn_stay tells dc_worker_start() that this worker has something to look after.
 */
void
turn_stay(void)
{
	DcWorkerSlot *slot;

	if (dc_workers == NULL)
		return;
	slot = slot_lock(MyDatabaseId, LW_EXCLUSIVE);
	if (slot != NULL && slot->pid == MyProcPid)
		slot->stays = true;
	slots_unlock();
}

/*
 * turn_note_pass tells the launcher that all jobs have been run once.
 */
void
turn_note_pass(void)
{
	DcWorkerSlot *slot;

	if (dc_workers == NULL || my_pass_is_noted || !job_all_have_run())
		return;
	my_pass_is_noted = true;
	slot = slot_lock(MyDatabaseId, LW_EXCLUSIVE);
	if (slot != NULL && slot->pid == MyProcPid)
		slot->passed = true;
	slots_unlock();
	launcher_wake();
}

/*
 * Return true if this worker has to leave for another database.
 */
bool
turn_is_over(void)
{
	DcWorkerSlot *slot;
	bool over;

	if (dc_workers == NULL)
		return false;
	slot = slot_lock(MyDatabaseId, LW_SHARED);
	over = slot != NULL && slot->pid == MyProcPid && slot->gives_way;
	slots_unlock();
	return over;
}

/*
 * Return true if this database has nothing to look after, which it checks now and then. Changes
 * after the number is collected call another worker.
 */
bool
turn_is_for_nothing(void)
{
	if (dc_workers == NULL || !moment_is_reached(my_next_look))
		return false;
	my_next_look = moment_in(my_looks++ == 0 ? LOOK_AGAIN_MS : LOOK_MS);
	my_seen = activity_collect(MyDatabaseId, DC_ACTIVITY_THINGS);
	my_due = moment_in(NOTHING_MS);
	if (!job_any_is_needed() && !buffer_is_left(MyDatabaseId))
		return true;
	my_seen = 0;
	my_due = DC_LONG_AGO;
	return false;
}

/*
 * turn_leave is called when this worker leaves for another database. Changes that are published
 * from now on make the database due, and so does all that this worker has not looked at.
 */
void
turn_leave(void)
{
	my_seen = activity_collect(MyDatabaseId, DC_ACTIVITY_ANY);
	my_due = moment_min(table_jobs_next(), moment_in(REST_MS));
	if (!job_all_have_run())
		my_due = DC_LONG_AGO; /* a step took all of the turn, and a job does not know yet what it has to do */
	my_table = table_jobs_current();
}

/*
 * turn_end is called when a worker leaves its slot, under the lock. One that has not left by
 * itself has left the database due. Must not throw.
 */
void
turn_end(DcWorkerSlot *slot)
{
	slot->latch = NULL;
	slot->gives_way = false;
	slot->turn_ended = moment_now();
	slot->due = my_due;
	slot->seen = my_seen;
	slot->last_table = my_table;
}
