/*
 * tablejob.c
 *		Jobs that go over the counter tables of a database, step by step.
 *
 * When the time of a run is up it yields between two steps, and goes on from
 * there when it is called again. Its state belongs to this process
 * alone. Everything may have changed by the next step: each opens its table anew.
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

static void begin(DcTableJob *job, bool all_owners);
static void end(DcTableJob *job);
static void note_step(DcTableJob *job, Oid table, bool succeeded);
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
	{
		begin(job, run->all_owners);
		if (!run->step(run, list_step, NULL, InvalidOid))
			job->ntables = 0;
	}
	while (job->current < job->ntables)
	{
		Oid table = job->tables[job->current];
		DcFailing *failing = run->all_owners ? find_failing(job, table) : NULL;

		if (failing != NULL && !moment_is_reached(failing->until))
			job->last = TABLE_DONE;
		else
		{
			if (!job->started && job->start != NULL)
				job->start(job->cxt);
			job->started = true;
			job->left = false;
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

static void
begin(DcTableJob *job, bool all_owners)
{
	job->cxt = AllocSetContextCreate(TopMemoryContext, "dcounter job",
									 ALLOCSET_DEFAULT_SIZES);
	job->ntables = 0;
	job->current = 0;
	job->started = false;
	job->all_owners = all_owners;
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
	if (job->last == TABLE_DONE)
		forget_failure(job, table);
	else if (job->last == TABLE_LATER && job->all_owners)
		note_failure(job, table, PAUSE_MIN);
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

	if (catalog_lock_at_once())
		tables = job->list != NULL ? job->list() : list_wanted(job);
	job->tables = MemoryContextAlloc(job->cxt,
									 Max(list_length(tables), 1) * sizeof(Oid));
	foreach(lc, tables)
		job->tables[job->ntables++] = lfirst_oid(lc);
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
