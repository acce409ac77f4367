/*
 * tablejob.c
 *		Jobs that go over the counter tables of a database, step by step.
 *
 * When the time of a run is up it yields between two steps, and goes on from
 * there when it is called again. Its state belongs to this process
 * alone. Everything may have changed by the next step: each opens its table anew.
 *
 * In the worker, a job that goes over all tables skips those that it need not look at
 * (tabledue.c), and if there is no other, the round is over without a transaction.
 *
 * Fairness. In the worker a table's turn is one step. A table of which more is left to do is put
 * back: its state is kept, and it goes on after all others of the round that have not had a
 * turn. Those that were put back take turns until the time of the run is up. Then the round is over, so
 * that tables which have become due meanwhile come before them in the next one. So one table that is
 * never finished delays the others by a run and a step at most, whatever its backlog, and gets all the time that
 * others leave. Each round makes a step of at least one of them, so that they are not starved in turn.
 *
 * A table that has failed is put back, too, and left alone for a while, which doubles each time: so
 * it does not fill the log, or cost a time-out each round. One that a subscription feeds
 * is left alone, as long as it does (subscription.c). So is, by the worker, one on which
 * code of its owner can run (ownercode.c).
 *
 * In a session, CALL dc_maintain() finishes one table after the other.
 */
#include "postgres.h"

#include "table/ownercode.h"
#include "table/subscription.h"
#include "table/tablejob.h"
#include "utils/memutils.h"

#define PAUSE_MIN (INT64CONST(1000) * 1000)
#define PAUSE_MAX (INT64CONST(60) * 1000 * 1000)

/*
 * The job whose step is running: a static variable of its room. Turns, and what is in their
 * contexts and in job->cxt, are in TopMemoryContext.
 */
static DcTableJob *running;

/* Those that this process has run. */
static DcTableJob *jobs = NULL;

/* The table after which their first rounds begin, or InvalidOid. */
static Oid first_after = InvalidOid;

static void begin(DcTableJob *job, DcJobRun *run);
static bool skips(const DcTableJob *job);
static void list_due(DcTableJob *job);
static void set_tables(DcTableJob *job, List *tables);
static void end(DcTableJob *job);
static void suspect_failed(DcTableJob *job, Oid table);
static bool next_turn(DcTableJob *job);
static DcTableTurn *new_turn(Oid table);
static void take_step(DcTableJob *job, DcJobRun *run);
static void turn_resume(DcTableJob *job, DcTableTurn *turn);
static void turn_free(DcTableTurn *turn);
static void note_failure(DcTableTurn *turn, int64 pause);
static void note_due(DcTableJob *job, Oid table, DcMoment until);
static DcTableTurn *find_back(DcTableJob *job, Oid table);
static void put_back(DcTableJob *job, DcTableTurn *turn);
static bool any_unfinished(DcTableJob *job);
static void list_step(void *arg);
static List *list_wanted(DcTableJob *job);
static void table_step(void *arg);
static bool may_work(Oid table);

/*
 * table_job_run runs a job until it is done or has to yield; true if it has
 * yielded.
 */
bool
table_job_run(DcTableJob *job, DcJobRun *run)
{
	if (job->cxt != NULL && run->afresh)
		end(job);
	if (OidIsValid(run->suspect))
		suspect_failed(job, run->suspect);
	running = job;
	if (job->cxt == NULL)
		begin(job, run);
	while (next_turn(job))
	{
		take_step(job, run);
		if (job_is_late(run))
			break;
	}
	if (job->turn != NULL || job->current < job->ntables || (!job->back_served && any_unfinished(job)))
		return true;
	run->more = any_unfinished(job);
	end(job);
	return false;
}

/*
 * suspect_failed puts a table back at which the last worker has ended.
 */
static void
suspect_failed(DcTableJob *job, Oid table)
{
	DcTableTurn *turn = find_back(job, table);

	if (turn == NULL)
	{
		turn = new_turn(table);
		put_back(job, turn);
	}
	note_failure(turn, PAUSE_MAX);
}

/*
 * next_turn finds the table whose turn it is; false if there is none.
 */
static bool
next_turn(DcTableJob *job)
{
	ListCell *lc;

	if (job->turn != NULL)
		return true;
	if (job->current < job->ntables)
	{
		job->turn = new_turn(job->tables[job->current++]);
		return true;
	}
	foreach(lc, job->back)
	{
		DcTableTurn *turn = lfirst(lc);

		if (turn->cxt == NULL && !(turn->listed && moment_is_reached(turn->until)))
			continue;
		job->back = foreach_delete_current(job->back, lc);
		job->back_served = true;
		job->turn = turn;
		return true;
	}
	return false;
}

static DcTableTurn *
new_turn(Oid table)
{
	DcTableTurn *turn = MemoryContextAllocZero(TopMemoryContext, sizeof(DcTableTurn));

	turn->table = table;
	return turn;
}

/*
 * take_step takes a step on the table at hand, and notes its result. Only the worker comes back
 * by itself.
 */
static void
take_step(DcTableJob *job, DcJobRun *run)
{
	DcTableTurn *turn = job->turn;

	turn_resume(job, turn);
	job->left = false;
	job->until = DC_NEVER;
	if (!run->step(run, table_step, &turn->table, turn->table))
		job->last = TABLE_LATER; /* on with the next table */
	run->left += job->left;
	if (job->last == TABLE_GOES_ON)
	{
		if (job->state != NULL)
			memcpy(turn->state, job->state, job->state_size);
		if (job->all_owners)
		{
			put_back(job, turn);
			job->turn = NULL;
		}
		return;
	}
	job->turn = NULL;
	MemoryContextDelete(turn->cxt);
	turn->cxt = NULL;
	if (job->last == TABLE_LATER && job->all_owners)
		note_failure(turn, PAUSE_MIN);
	if (skips(job))
		note_due(job, turn->table, turn->until);
	if (job->last == TABLE_LATER && job->all_owners)
		put_back(job, turn);
	else
		turn_free(turn);
}

/*
 * turn_resume lets the job remember what it did about the table at hand, or start with it.
 */
static void
turn_resume(DcTableJob *job, DcTableTurn *turn)
{
	if (turn->cxt != NULL)
	{
		if (job->state != NULL)
			memcpy(job->state, turn->state, job->state_size);
		return;
	}
	turn->cxt = AllocSetContextCreate(TopMemoryContext, "dcounter job of a table", ALLOCSET_SMALL_SIZES);
	turn->state = MemoryContextAlloc(turn->cxt, Max(job->state_size, 1));
	if (skips(job))
		due_begin(&job->due, turn->table);
	if (job->start != NULL)
		job->start(turn->cxt);
}

static void
turn_free(DcTableTurn *turn)
{
	if (turn->cxt != NULL)
		MemoryContextDelete(turn->cxt);
	pfree(turn);
}

static void
note_failure(DcTableTurn *turn, int64 pause)
{
	turn->pause = Min(Max(turn->pause * 2, pause), PAUSE_MAX);
	turn->until = moment_after(moment_now(), turn->pause);
}

/*
 * note_due notes when the job has to look at a table again. One that is left to its owner
 * waits for news, too.
 */
static void
note_due(DcTableJob *job, Oid table, DcMoment until)
{
	if (job->last == TABLE_IDLE || (job->last == TABLE_DONE && job->left))
		due_idle(&job->due, table, job->until, job->left);
	else if (job->last == TABLE_LATER)
		due_again(&job->due, table, until);
	else
		due_again(&job->due, table, DC_LONG_AGO);
}

static DcTableTurn *
find_back(DcTableJob *job, Oid table)
{
	ListCell *lc;

	foreach(lc, job->back)
	{
		if (((DcTableTurn *) lfirst(lc))->table == table)
			return lfirst(lc);
	}
	return NULL;
}

static void
put_back(DcTableJob *job, DcTableTurn *turn)
{
	MemoryContext old = MemoryContextSwitchTo(TopMemoryContext);

	job->back = lappend(job->back, turn);
	MemoryContextSwitchTo(old);
}

/*
 * any_unfinished returns true if a table was put back before it was finished.
 */
static bool
any_unfinished(DcTableJob *job)
{
	ListCell *lc;

	foreach(lc, job->back)
	{
		if (((DcTableTurn *) lfirst(lc))->cxt != NULL)
			return true;
	}
	return false;
}

/*
 * begin makes the list of tables. One that the job remembers, and that is not due, is not
 * on it.
 */
static void
begin(DcTableJob *job, DcJobRun *run)
{
	job->cxt = AllocSetContextCreate(TopMemoryContext, "dcounter job",
									 ALLOCSET_DEFAULT_SIZES);
	job->ntables = 0;
	job->current = 0;
	job->back_served = false;
	job->all_owners = run->all_owners;
	if (!job->known)
	{
		job->known = job->is_first = true;
		job->next = jobs;
		jobs = job;
	}
	if (skips(job) && due_list_known())
		list_due(job);
	else if (!run->step(run, list_step, NULL, InvalidOid))
		set_tables(job, NIL);
	if (skips(job))
		run->left += job->due.left;
}

/*
 * skips tells whether a job leaves tables alone that are not due.
 */
static bool
skips(const DcTableJob *job)
{
	return job->all_owners && job->list == NULL;
}

/*
 * list_due lists those that are.
 */
static void
list_due(DcTableJob *job)
{
	MemoryContext old = MemoryContextSwitchTo(job->cxt);

	set_tables(job, due_tables(&job->due, job->wants));
	MemoryContextSwitchTo(old);
}

/*
 * set_tables takes over the list of a round. Those that were put back stay where they are.
 */
static void
set_tables(DcTableJob *job, List *tables)
{
	int n = list_length(tables);
	int skip = 0;
	ListCell *lc;

	for (int i = 0; job->is_first && i < n && OidIsValid(first_after); i++)
	{
		if (list_nth_oid(tables, i) == first_after)
			skip = i + 1;
	}
	job->is_first = false;
	foreach(lc, job->back)
		((DcTableTurn *) lfirst(lc))->listed = false;
	job->tables = MemoryContextAlloc(job->cxt, Max(n, 1) * sizeof(Oid));
	job->ntables = 0;
	for (int i = 0; i < n; i++)
	{
		Oid table = list_nth_oid(tables, (skip + i) % n);
		DcTableTurn *turn = find_back(job, table);

		if (turn != NULL)
			turn->listed = true;
		else
			job->tables[job->ntables++] = table;
	}
}

static void
end(DcTableJob *job)
{
	if (job->turn != NULL)
		turn_free(job->turn);
	job->turn = NULL;
	MemoryContextDelete(job->cxt);
	job->cxt = NULL;
}

/*
 * list_step is the job's first step. Failures of tables that are gone are
 * forgotten.
 */
static void
list_step(void *arg)
{
	DcTableJob *job = running;
	List *tables = NIL;
	ListCell *lc;

	if (!catalog_lock_at_once())
		return;
	if (skips(job))
	{
		due_list_read();
		list_due(job);
		if (job->back == NIL)
			return;
	}
	tables = job->list != NULL ? job->list() : list_wanted(job);
	if (!skips(job))
		set_tables(job, tables);
	if (tables == NIL)
		return;
	foreach(lc, job->back)
	{
		DcTableTurn *turn = lfirst(lc);

		if (turn->cxt == NULL && !list_member_oid(tables, turn->table))
		{
			job->back = foreach_delete_current(job->back, lc);
			turn_free(turn);
		}
	}
}

/*
 * list_wanted lists the counter tables that a job wants.
 */
static List *
list_wanted(DcTableJob *job)
{
	List *rows = catalog_read_all();
	List *tables = NIL;
	ListCell *lc;

	foreach(lc, rows)
	{
		DcCounterRow *row = lfirst(lc);

		if (job->wants == NULL || job->wants(row))
			tables = lappend_oid(tables, row->counter);
	}
	return tables;
}

/*
 * table_step does one transaction's work on a table, unless a subscription feeds it,
 * or has begun to, or it is left to its owner.
 */
static void
table_step(void *arg)
{
	Oid table = *(Oid *) arg;
	bool fed;

	running->last = TABLE_DONE; /* whatever becomes of it */
	if (running->all_owners && !may_work(table))
		return;
	fed = table_is_fed(table);
	if (!fed)
		running->last = running->step(table, running->all_owners);
	else if (running->step_fed != NULL)
		running->last = running->step_fed(table, running->all_owners);
	else
		running->last = TABLE_IDLE; /* news of subscriptions make it due */
	if (!fed && running->step_fed != running->step)
		check_still_not_fed(table);
}

/*
 * may_work tells whether the worker may work on a table now, and logs once why it may not.
 */
static bool
may_work(Oid table)
{
	const char *reason;
	DcOwnerCode code = ownercode_begin(table, &reason);

	if (code == DC_CODE_FOUND)
	{
		running->left = true;
		ownercode_log(table, reason);
	}
	return code == DC_CODE_NONE;
}

/*
 * table_jobs_next returns when one of the jobs that this worker has run has something to do,
 * as far as it knows.
 */
DcMoment
table_jobs_next(void)
{
	DcMoment next = DC_NEVER;

	for (DcTableJob *job = jobs; job != NULL; job = job->next)
	{
		if (job->cxt != NULL || any_unfinished(job))
			return DC_LONG_AGO; /* it goes on */
		if (skips(job))
			next = moment_min(next, due_next(&job->due));
	}
	return next;
}

/*
 * table_jobs_current returns the last table that a job of this worker has looked at in a round
 * that is not over, or InvalidOid.
 */
Oid
table_jobs_current(void)
{
	for (DcTableJob *job = jobs; job != NULL; job = job->next)
	{
		if (job->cxt != NULL && skips(job) && job->current > 0 && job->current < job->ntables)
			return job->tables[job->current - 1];
	}
	return InvalidOid;
}

/*
 * table_jobs_begin_after lets the first round of each job of this worker begin with the table
 * that comes after one.
 */
void
table_jobs_begin_after(Oid table)
{
	first_after = table;
}
