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
 * A table that has failed is left alone for a while, which doubles each time: so
 * it does not fill the log, or cost a time-out each round. One that a subscription feeds
 * is left alone, as long as it does (subscription.c). So is, by the worker, one on which
 * code of its owner can run (ownercode.c).
 */
#include "postgres.h"

#include "table/ownercode.h"
#include "table/subscription.h"
#include "table/tablejob.h"
#include "utils/memutils.h"

typedef struct DcFailing
{
	Oid table;
	int64 pause; /* us */
	DcMoment until;
} DcFailing;

#define PAUSE_MIN (INT64CONST(1000) * 1000)
#define PAUSE_MAX (INT64CONST(60) * 1000 * 1000)

/*
 * The job whose step is running: a static variable of its room. What is in job->cxt
 * is in TopMemoryContext: end() frees it, at the latest when the job starts afresh.
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
static void note_step(DcTableJob *job, Oid table, bool succeeded);
static void note_due(DcTableJob *job, Oid table);
static DcFailing *find_failing(DcTableJob *job, Oid table);
static void note_failure(DcTableJob *job, Oid table, int64 pause);
static void forget_failure(DcTableJob *job, Oid table);
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
		note_failure(job, run->suspect, PAUSE_MAX);
	running = job;
	if (job->cxt == NULL)
		begin(job, run);
	while (job->current < job->ntables)
	{
		Oid table = job->tables[job->current];
		DcFailing *failing = run->all_owners ? find_failing(job, table) : NULL;

		if (failing != NULL && !moment_is_reached(failing->until))
			job->last = TABLE_DONE;
		else
		{
			if (!job->started && skips(job))
				due_begin(&job->due, table);
			if (!job->started && job->start != NULL)
				job->start(job->cxt);
			job->started = true;
			job->left = false;
			job->until = DC_NEVER;
			note_step(job, table, run->step(run, table_step, &table, table));
			run->left += job->left;
		}
		if (job->last != TABLE_GOES_ON)
		{
			job->started = false;
			job->current++;
		}
		if (job_is_late(run) && job->current < job->ntables)
			return true;
	}
	end(job);
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
	job->started = false;
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
		job->ntables = 0;
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

static void
set_tables(DcTableJob *job, List *tables)
{
	int n = list_length(tables);
	int skip = 0;

	for (int i = 0; job->is_first && i < n && OidIsValid(first_after); i++)
	{
		if (list_nth_oid(tables, i) == first_after)
			skip = i + 1;
	}
	job->is_first = false;
	job->tables = MemoryContextAlloc(job->cxt, Max(n, 1) * sizeof(Oid));
	for (int i = 0; i < n; i++)
		job->tables[i] = list_nth_oid(tables, (skip + i) % n);
	job->ntables = n;
}

static void
end(DcTableJob *job)
{
	MemoryContextDelete(job->cxt);
	job->cxt = NULL;
}

/*
 * note_step notes the result of a step. Only the worker comes back by itself.
 */
static void
note_step(DcTableJob *job, Oid table, bool succeeded)
{
	if (!succeeded)
		job->last = TABLE_LATER; /* on with the next table */
	if (job->last == TABLE_DONE || job->last == TABLE_IDLE)
		forget_failure(job, table);
	else if (job->last == TABLE_LATER && job->all_owners)
		note_failure(job, table, PAUSE_MIN);
	if (skips(job))
		note_due(job, table);
}

/*
 * note_due notes when the job has to look at a table again. One that is left to its owner
 * waits for news, too.
 */
static void
note_due(DcTableJob *job, Oid table)
{
	if (job->last == TABLE_IDLE || (job->last == TABLE_DONE && job->left))
		due_idle(&job->due, table, job->until, job->left);
	else if (job->last == TABLE_LATER)
		due_again(&job->due, table, find_failing(job, table)->until);
	else if (job->last == TABLE_DONE)
		due_again(&job->due, table, DC_LONG_AGO);
}

static DcFailing *
find_failing(DcTableJob *job, Oid table)
{
	ListCell *lc;

	foreach(lc, job->failing)
	{
		if (((DcFailing *) lfirst(lc))->table == table)
			return lfirst(lc);
	}
	return NULL;
}

static void
note_failure(DcTableJob *job, Oid table, int64 pause)
{
	MemoryContext old = MemoryContextSwitchTo(TopMemoryContext);
	DcFailing *entry = find_failing(job, table);

	if (entry == NULL)
	{
		entry = palloc0(sizeof(DcFailing));
		entry->table = table;
		job->failing = lappend(job->failing, entry);
	}
	entry->pause = Min(Max(entry->pause * 2, pause), PAUSE_MAX);
	entry->until = moment_after(moment_now(), entry->pause);
	MemoryContextSwitchTo(old);
}

static void
forget_failure(DcTableJob *job, Oid table)
{
	DcFailing *entry = find_failing(job, table);

	if (entry == NULL)
		return;
	job->failing = list_delete_ptr(job->failing, entry);
	pfree(entry);
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
		if (job->failing == NIL)
			return;
	}
	tables = job->list != NULL ? job->list() : list_wanted(job);
	if (!skips(job))
		set_tables(job, tables);
	if (tables == NIL)
		return;
	foreach(lc, job->failing)
	{
		DcFailing *entry = lfirst(lc);

		if (!list_member_oid(tables, entry->table))
		{
			job->failing = foreach_delete_current(job->failing, lc);
			pfree(entry);
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
		if (job->cxt != NULL)
			return DC_LONG_AGO; /* it goes on */
		if (skips(job))
			next = moment_min(next, due_next(&job->due));
	}
	return next;
}

/*
 * table_jobs_current returns the table that a job of this worker is in the middle of, or
 * InvalidOid.
 */
Oid
table_jobs_current(void)
{
	for (DcTableJob *job = jobs; job != NULL; job = job->next)
	{
		if (job->cxt != NULL && skips(job) && job->current < job->ntables)
			return job->tables[job->current];
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
