/*
 * tablejob.c
 *		Jobs that go over the counter tables of a database, step by step.
 *
 * Copyright (c) 2026, the dcounter developers
 *
 * When the time of a run is up it yields between two steps, and continues from there when it is
 * called again. Its state belongs to this process alone. Everything may have changed by the next
 * step: each opens its table again.
 *
 * In the worker, a job that goes over all tables skips those that it need not look at
 * (tabledue.c), and if there is no other, the round is over without a transaction.
 *
 * Fairness. In the worker a table's turn is one step, and each step is about the table of
 * another owner, in turn: first one table of each owner, beginning with the owner that was not
 * served for the longest, then a second one, and so on. Of the tables of one owner those come
 * first that have waited for the longest, for their turn in this round, or to continue; the
 * state of unfinished tables is kept. When all have had a step, the unfinished ones continue, until
 * the time of the run is up. A round takes no longer than ROUND_MAX, and ends with the run: then
 * the tables that have become due in the meantime are listed, too. So one owner delays another one
 * by a run and a step at most, whatever the number of the tables and their backlog, and gets all
 * the time that others leave. As those that were served last come last, none is starved.
 *
 * A step is bounded by what it reads and writes. If one takes a long time nevertheless, because of
 * rows that its owner has written or locked, it is cancelled after DC_STEP_MS, and however it has
 * ended, all jobs leave all tables of the owner alone for a multiple of its length. So an owner
 * delays others by one such step, whatever the number of the jobs and tables. A table that needs
 * more time than a step has is left to its owner's dc_maintain(), which has no limit, and the log
 * says so.
 *
 * A job whose steps are about all owners at once, such as that of the outbox, bounds them by the
 * same time, and rests after a long one (shared_step_run).
 *
 * For the owner of the database, for superusers, and if no other owner is known, only the table
 * is left alone, and each time that a step has failed the next ones may take twice as long, up
 * to the limit for all steps, until it is finished. Rooms whose jobs serve owners of anything
 * else make them known (table_jobs_know_owner).
 *
 * A table that has failed is left alone for a while, which doubles each time: so
 * it does not fill the log, or cost a timeout each round. One that a subscription feeds is left
 * alone, as long as it does (subscription.c). So is, by the worker, one on which code of its owner
 * can run (ownercode.c).
 *
 * In a session, CALL dc_maintain() finishes one table after the other.
 */
#include "postgres.h"

#include "miscadmin.h"
#include "utils/memutils.h"

#include "base/compat.h"
#include "core/table/ownercode.h"
#include "core/table/subscription.h"
#include "core/table/tablejob.h"

#define PAUSE_MIN (INT64CONST(1000) * 1000)
#define PAUSE_MAX (INT64CONST(60) * 1000 * 1000)

/* After this time (us) a round ends with the run. */
#define ROUND_MAX (INT64CONST(1) * 1000 * 1000)

/*
 * The job whose step is running: a static variable of its room. Its turns, and their contexts, are
 * in TopMemoryContext; its queue is in job->cxt, and empty when turns are removed (set_tables).
 */
static DcTableJob *running;

/* The jobs that this process has run. */
static DcTableJob *jobs = NULL;

/*
 * The last step of a job on a table of an owner, or, without a job, the owner; in TopMemoryContext,
 * never freed.
 */
typedef struct DcOwnerTurn
{
	DcTableJob *job; /* hash key, */
	uint64 owner;	 /* and that, without padding */
	uint64 served;
	DcMoment until; /* without a job: the owner's tables are left alone until then */
} DcOwnerTurn;

static HTAB *owner_turns = NULL;
static int nowners = 0;

/* The table after which the jobs' first rounds begin, or InvalidOid. */
static Oid first_after = InvalidOid;

static void job_init(DcTableJob *job);
static void tablejob_begin(DcTableJob *job, DcJobRun *run);
static bool tablejob_skips(const DcTableJob *job);
static void list_due(DcTableJob *job);
static void set_tables(DcTableJob *job, List *tables);
static void tablejob_end(DcTableJob *job);
static bool tablejob_next_turn(DcTableJob *job);
static void fill_queue(DcTableJob *job);
static bool tablejob_is_ready(const DcTableTurn *turn);
static void rank_queue(DcTableJob *job);
static DcOwnerTurn *owner_turn(DcTableJob *job, Oid owner);
static int compare_owners(const void *a, const void *b);
static int compare_ranks(const void *a, const void *b);
static int tablejob_compare_turns(const DcTableTurn *left, const DcTableTurn *right);
static DcTableTurn *find_turn(DcTableJob *job, Oid table);
static void take_step(DcTableJob *job, DcJobRun *run);
static void turn_resume(DcTableJob *job, DcTableTurn *turn);
static void turn_stop(DcTableTurn *turn);
static bool may_be_late(const DcTableTurn *turn);
static void note_length(DcTableTurn *turn, int64 took);
static void note_failure(DcTableTurn *turn, int64 pause);
static void note_due(DcTableJob *job, Oid table, DcMoment until);
static bool any_unfinished(DcTableJob *job, bool ready);
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
	if (job->turns == NULL)
		job_init(job);
	if (job->cxt != NULL && run->afresh)
		tablejob_end(job);
	if (OidIsValid(run->suspect))
		note_failure(find_turn(job, run->suspect), PAUSE_MAX);
	running = job;
	if (job->cxt == NULL)
		tablejob_begin(job, run);
	while (tablejob_next_turn(job))
	{
		take_step(job, run);
		if (job_is_late(run))
			break;
	}
	if (job->turn != NULL ||
		(job->current < job->nqueue && !(job->all_owners && moment_age(job->began) >= ROUND_MAX)))
		return true;
	if (job->current == job->nqueue)
		job->cut_after = InvalidOid;
	run->more = job->current < job->nqueue || any_unfinished(job, true);
	tablejob_end(job);
	return false;
}

/*
 * Make the empty table of turns of a job, which has not run yet in this process, and add the
 * job to the list.
 */
static void
job_init(DcTableJob *job)
{
	HASHCTL ctl = {.keysize = sizeof(Oid), .entrysize = sizeof(DcTableTurn), .hcxt = TopMemoryContext};

	job->turns = hash_create("dcounter turns of tables", 64, &ctl, HASH_ELEM | HASH_BLOBS | HASH_CONTEXT);
	job->next = jobs;
	jobs = job;
}

/*
 * tablejob_next_turn finds the table whose turn it is; false if there is none.
 */
static bool
tablejob_next_turn(DcTableJob *job)
{
	while (job->turn == NULL)
	{
		if (job->current == job->nqueue)
			fill_queue(job);
		if (job->current == job->nqueue)
			return false;
		if (tablejob_is_ready(job->queue[job->current]))
			job->turn = job->queue[job->current];
		job->current++;
	}
	return true;
}

/*
 * fill_queue queues the tables that are to have a step now.
 */
static void
fill_queue(DcTableJob *job)
{
	HASH_SEQ_STATUS status;
	DcTableTurn *turn;

	job->current = job->nqueue = 0;
	if (job->queue != NULL)
		pfree(job->queue);
	job->queue = MemoryContextAllocHuge(job->cxt, Max(hash_get_num_entries(job->turns), 1) * sizeof(DcTableTurn *));
	hash_seq_init(&status, job->turns);
	while ((turn = hash_seq_search(&status)) != NULL)
	{
		if (tablejob_is_ready(turn))
			job->queue[job->nqueue++] = turn;
	}
	rank_queue(job);
}

/*
 * Return true if a table may have a step now: it is listed or unfinished, and neither it nor
 * its owner is left alone.
 */
static bool
tablejob_is_ready(const DcTableTurn *turn)
{
	return (turn->listed || turn->cxt != NULL) && moment_is_reached(turn->until) &&
		(!OidIsValid(turn->owner) || moment_is_reached(owner_turn(NULL, turn->owner)->until));
}

/*
 * rank_queue puts the queue in order: one table of each owner, then a second one of each, and so
 * on.
 */
static void
rank_queue(DcTableJob *job)
{
	/* few: tables; and outside of transactions, where nothing may throw */
	qsort(job->queue, job->nqueue, sizeof(DcTableTurn *), compare_owners);
	for (int first = 0, tablejob_end; first < job->nqueue; first = tablejob_end)
	{
		Oid owner = job->queue[first]->owner;
		uint64 served = owner_turn(job, owner)->served;

		for (tablejob_end = first; tablejob_end < job->nqueue && job->queue[tablejob_end]->owner == owner; tablejob_end++)
		{
			job->queue[tablejob_end]->rank = tablejob_end - first;
			job->queue[tablejob_end]->owner_served = served;
		}
	}
	/* few: the same */
	qsort(job->queue, job->nqueue, sizeof(DcTableTurn *), compare_ranks);
}

/*
 * Return the last step of a job on a table of an owner, also of one that is not in the queue now;
 * without a job, the owner.
 */
static DcOwnerTurn *
owner_turn(DcTableJob *job, Oid owner)
{
	HASHCTL ctl = {.keysize = offsetof(DcOwnerTurn, served), .entrysize = sizeof(DcOwnerTurn), .hcxt = TopMemoryContext};
	DcOwnerTurn key = {.job = job, .owner = owner};
	DcOwnerTurn *turn;
	bool found;

	if (owner_turns == NULL)
		owner_turns = hash_create("dcounter turns of owners", 64, &ctl, HASH_ELEM | HASH_BLOBS | HASH_CONTEXT);
	turn = hash_search(owner_turns, &key, HASH_ENTER, &found);
	if (!found)
	{
		turn->served = 0;
		turn->until = DC_LONG_AGO;
		nowners += job == NULL;
	}
	return turn;
}

/*
 * Order turns by owner, and those of an owner by tablejob_compare_turns(), for qsort().
 */
static int
compare_owners(const void *a, const void *b)
{
	const DcTableTurn *left = *(DcTableTurn *const *) a;
	const DcTableTurn *right = *(DcTableTurn *const *) b;

	if (left->owner != right->owner)
		return left->owner < right->owner ? -1 : 1;
	return tablejob_compare_turns(left, right);
}

/*
 * Order turns by rank, then the owner first that was not served for the longest, for qsort().
 */
static int
compare_ranks(const void *a, const void *b)
{
	const DcTableTurn *left = *(DcTableTurn *const *) a;
	const DcTableTurn *right = *(DcTableTurn *const *) b;

	if (left->rank != right->rank)
		return left->rank - right->rank;
	if (left->owner_served != right->owner_served)
		return left->owner_served < right->owner_served ? -1 : 1;
	return tablejob_compare_turns(left, right);
}

/*
 * Order turns of an owner: the table first that was not served for the longest, then as listed.
 */
static int
tablejob_compare_turns(const DcTableTurn *left, const DcTableTurn *right)
{
	if (left->served != right->served)
		return left->served < right->served ? -1 : 1;
	return left->place - right->place;
}

/*
 * find_turn returns what the job remembers of a table.
 */
static DcTableTurn *
find_turn(DcTableJob *job, Oid table)
{
	bool found;
	DcTableTurn *turn = hash_search(job->turns, &table, HASH_ENTER, &found);

	if (!found)
		*turn = (DcTableTurn){.table = table};
	return turn;
}

/*
 * take_step takes a step on the current table, and notes its result. Only the worker continues
 * the table by itself later.
 */
static void
take_step(DcTableJob *job, DcJobRun *run)
{
	DcTableTurn *turn = job->turn;

	turn->listed = false;
	if (job->all_owners)
		turn->served = owner_turn(job, turn->owner)->served = ++job->served;
	turn_resume(job, turn);
	job->left = false;
	job->until = DC_NEVER;
	job->cut_after = turn->table;
	run->limit = job->all_owners ? DC_STEP_MS * (may_be_late(turn) ? Max(1, 2 * turn->pause / PAUSE_MIN) : 1) : 0;
	if (!run->step(run, table_step, &turn->table, turn->table))
		job->last = TABLE_LATER; /* on with the next table */
	run->limit = 0;
	run->left += job->left;
	if (job->all_owners)
		note_length(turn, run->took);
	if (job->last == TABLE_GOES_ON)
	{
		if (job->state != NULL)
			memcpy(turn->state, job->state, job->state_size);
		if (job->all_owners)
			job->turn = NULL;
		return;
	}
	job->turn = NULL;
	turn_stop(turn);
	if (job->last != TABLE_LATER)
		turn->pause = 0;
	else if (job->all_owners)
		note_failure(turn, PAUSE_MIN);
	if (tablejob_skips(job))
		note_due(job, turn->table, turn->until);
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
	if (tablejob_skips(job))
		due_begin(&job->due, turn->table);
	if (job->start != NULL)
		job->start(turn->cxt);
}

/*
 * turn_stop forgets what was done about a table.
 */
static void
turn_stop(DcTableTurn *turn)
{
	if (turn->cxt != NULL)
		MemoryContextDelete(turn->cxt);
	turn->cxt = NULL;
}

/*
 * Return true if the owner of a table may delay others, or there are none.
 */
static bool
may_be_late(const DcTableTurn *turn)
{
	return turn->trusted || nowners <= 1;
}

/*
 * Note that the worker has something to do for a role, which others should not delay.
 */
void
table_jobs_know_owner(Oid owner)
{
	(void) owner_turn(NULL, owner);
}

/*
 * Run a step that is about all owners at once. In the worker, if it knows several of them, the
 * step is cancelled after DC_STEP_MS; the next one may take twice as long then, so that work
 * that needs that time gets done. After a long step the job rests, and the others continue. Return
 * false if the step has failed, or the job rests.
 */
bool
shared_step_run(DcSharedStep *shared, DcJobRun *run, DcJobStep step, void *arg)
{
	int64 limit = DC_STEP_MS << shared->longer;
	bool done;

	if (!run->all_owners)
		return run->step(run, step, arg, InvalidOid);
	if (!moment_is_reached(shared->rests))
		return false;
	run->limit = nowners > 1 ? limit : 0;
	done = run->step(run, step, arg, InvalidOid);
	run->limit = 0;
	if (!done && run->took >= limit * 1000)
		shared->longer = Min(shared->longer + 1, 4);
	else if (done)
		shared->longer = 0;
	if (run->took > DC_STEP_LONG && nowners > 1)
		shared->rests = moment_in(DC_STEP_PAUSE * run->took / 1000);
	return done;
}

/*
 * Leave a table alone after a step that took long, or all tables of its owner.
 */
static void
note_length(DcTableTurn *turn, int64 took)
{
	DcMoment until = moment_in(DC_STEP_PAUSE * took / 1000);

	if (took > DC_STEP_LONG)
		turn->until = until;
	if (took > DC_STEP_LONG_OWNER && !may_be_late(turn))
		owner_turn(NULL, turn->owner)->until = until;
}

/*
 * Leave a table alone for a while (us, twice the last pause, `pause` at least), as a step on it
 * has failed.
 */
static void
note_failure(DcTableTurn *turn, int64 pause)
{
	turn->pause = Min(Max(turn->pause * 2, pause), PAUSE_MAX);
	turn->until = moment_max(turn->until, moment_after(moment_now(), turn->pause));
}

/*
 * note_due notes when the job has to look at a table again. One that is left to its owner waits
 * for changes, too.
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

/*
 * any_unfinished returns true if there is a table that was not finished, or, with `ready`, one that
 * need not be left alone now.
 */
static bool
any_unfinished(DcTableJob *job, bool ready)
{
	HASH_SEQ_STATUS status;
	DcTableTurn *turn;
	bool found = false;

	if (job->turns == NULL)
		return false;
	hash_seq_init(&status, job->turns);
	while ((turn = hash_seq_search(&status)) != NULL)
		found |= turn->cxt != NULL && (!ready || tablejob_is_ready(turn));
	return found;
}

/*
 * table_job_goes_on returns true if a job is under way, or has left a table unfinished.
 */
bool
table_job_goes_on(DcTableJob *job)
{
	return job->cxt != NULL || any_unfinished(job, false);
}

/*
 * tablejob_begin makes the list of tables. One that the job remembers, and that is not due, is not
 * on it.
 */
static void
tablejob_begin(DcTableJob *job, DcJobRun *run)
{
	job->cxt = AllocSetContextCreate(TopMemoryContext, "dcounter job",
									 ALLOCSET_DEFAULT_SIZES);
	job->began = moment_now();
	job->queue = NULL;
	job->nqueue = job->current = 0;
	job->all_owners = run->all_owners;
	run->limit = run->all_owners ? DC_STEP_MS << Min(job->unlisted, 4) : 0;
	if (tablejob_skips(job) && due_list_known())
		list_due(job);
	else if (run->step(run, list_step, NULL, InvalidOid))
		job->unlisted = 0;
	else
	{
		set_tables(job, NIL);
		job->unlisted++;
	}
	run->limit = 0;
	if (tablejob_skips(job))
		run->left += job->due.left;
}

/*
 * Return true if a job leaves tables alone that are not due.
 */
static bool
tablejob_skips(const DcTableJob *job)
{
	return job->all_owners && job->list == NULL;
}

/*
 * list_due lists the tables that are due.
 */
static void
list_due(DcTableJob *job)
{
	MemoryContext old = MemoryContextSwitchTo(job->cxt);

	set_tables(job, due_tables(&job->due, job->wants));
	MemoryContextSwitchTo(old);
}

/*
 * set_tables takes over the list of a round, of tables that are to have a turn. Others that are
 * gone, or not the job's any more, are forgotten, unless they are unfinished, or were left alone
 * not long ago: a list may have a part of the tables.
 */
static void
set_tables(DcTableJob *job, List *tables)
{
	int n = list_length(tables);
	int skip = 0;
	HASH_SEQ_STATUS status;
	DcTableTurn *turn;

	for (int i = 0; i < n && OidIsValid(first_after); i++)
	{
		if (list_nth_oid(tables, i) == first_after)
			skip = i + 1;
	}
	hash_seq_init(&status, job->turns);
	while ((turn = hash_seq_search(&status)) != NULL)
		turn->listed = false;
	for (int i = 0; i < n; i++)
	{
		turn = find_turn(job, list_nth_oid(tables, (skip + i) % n));
		turn->listed = turn->cxt == NULL;
		turn->place = i;
		if (job->all_owners)
			turn->owner = tablejob_skips(job) ? due_owner(turn->table) : relation_owner(turn->table);
	}
	hash_seq_init(&status, job->turns);
	while ((turn = hash_seq_search(&status)) != NULL)
	{
		if (n > 0 && !turn->listed && turn->cxt == NULL && moment_age(turn->until) > PAUSE_MAX &&
			!(tablejob_skips(job) && due_knows(&job->due, turn->table)))
			(void) hash_search(job->turns, &turn->table, HASH_REMOVE, NULL);
	}
}

/*
 * End a round: forget its list, and the state of the table at hand.
 */
static void
tablejob_end(DcTableJob *job)
{
	if (job->turn != NULL)
		turn_stop(job->turn);
	job->turn = NULL;
	job->queue = NULL;
	job->nqueue = job->current = 0;
	MemoryContextDelete(job->cxt);
	job->cxt = NULL;
}

/*
 * list_step makes the list of a round's tables, as the job's first step.
 */
static void
list_step(void *arg)
{
	DcTableJob *job = running;

	if (!catalog_lock_at_once())
		return;
	if (tablejob_skips(job))
	{
		due_list_read();
		list_due(job);
	}
	else
		set_tables(job, job->list != NULL ? job->list() : list_wanted(job));
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

	running->last = TABLE_DONE; /* set first, in case the step fails */
	if (running->all_owners)
		running->turn->trusted = table_is_trusted(table);
	if (running->all_owners && !may_work(table))
		return;
	fed = table_is_fed(table);
	if (!fed)
		running->last = running->step(table, running->all_owners);
	else if (running->step_fed != NULL)
		running->last = running->step_fed(table, running->all_owners);
	else
		running->last = TABLE_IDLE; /* a change of subscriptions makes it due */
	if (!fed && running->step_fed != running->step)
		check_still_not_fed(table);
}

/*
 * Return true if the owner of a table may delay others.
 */
bool
table_is_trusted(Oid table)
{
	Oid owner = relation_owner(table);

	return OidIsValid(owner) && compat_owns_database(MyDatabaseId, owner);
}

/*
 * Return true if the worker may work on a table now, and logs once why it may not.
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
		if (table_job_goes_on(job))
			return DC_LONG_AGO; /* it goes on */
		if (tablejob_skips(job))
			next = moment_min(next, due_next(&job->due));
	}
	return next;
}

/*
 * table_jobs_current returns the last table that a job of this worker has looked at in a round
 * that was not to its end, or InvalidOid.
 */
Oid
table_jobs_current(void)
{
	for (DcTableJob *job = jobs; job != NULL; job = job->next)
	{
		if (tablejob_skips(job) && OidIsValid(job->cut_after) && (job->cxt == NULL || job->current < job->nqueue))
			return job->cut_after;
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
