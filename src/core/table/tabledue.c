/*
 * tabledue.c
 *		Choosing the counter tables that a job of the worker must visit.
 *
 * Copyright (c) 2026, the dcounter developers
 *
 * With thousands of tables, only a few of them in use, a worker must neither read the catalog
 * in each round nor run a query on each table. So it remembers the rows of the catalog, and
 * each job when it has to look at a table again:
 *
 *	- A table in which a job has found something to do is due in the next round.
 *	- One in which it has found nothing is due when a transaction has published that it
 *	  has written to the table (activity.c), or when there is a relcache invalidation of
 *	  it, its shard table or its holds (DDL, privileges, settings), or the subscriptions
 *	  have changed.
 *	- In any case it is due after a pause: 1 s, 2 s, 4 s up to about a minute. That is the
 *	  safety net for changes that are not published: rows that were written by SQL, or restored,
 *	  or that were locked while the job looked. As the pause doubles from the last use of the
 *	  table on, an obstacle delays the job at most for as long again as it lasted.
 *	- A step may know that it has nothing to do until a time: the end of the first hold. That
 *	  is wall time. When the clock is set, all tables are due.
 *
 * A job collects what was published before a step takes its snapshot, so the next comparison
 * shows what that does not have. A table on which a step has failed, or which it could not
 * lock, is not idle. All this is memory of one process: a new worker looks at all tables once.
 *
 * The catalog is read again when a relcache invalidation says that it has changed
 * (catrow.c), and after a minute, for rows that were written in a way that sends none.
 *
 * Without preload nothing is published, and all tables are due each time.
 */
#include "postgres.h"

#include "common/hashfn.h"
#include "miscadmin.h"
#include "utils/inval.h"
#include "utils/memutils.h"
#include "utils/syscache.h"

#include "base/activity.h"
#include "base/relcached.h"
#include "core/table/ownercode.h"
#include "core/table/tabledue.h"

/* us */
#define DUE_PAUSE_MIN (INT64CONST(1) * 1000 * 1000)
#define PAUSE_MAX (INT64CONST(60) * 1000 * 1000)
#define LIST_MAX (INT64CONST(60) * 1000 * 1000)

/* A relation that belongs to a counter table. */
typedef struct Member
{
	Oid relid;
	Oid counter;
	Oid owner; /* of that, when the catalog was read */
} Member;

/* The rows of the catalog, in a context of their own. */
static MemoryContext list_cxt = NULL;
static DcCounterRow *rows = NULL;
static int nrows = 0;
static HTAB *members = NULL; /* Member */
static Oid catalog_relid = InvalidOid;
static bool list_valid = false; /* no invalidation has come since, */
static bool list_whole = false; /* and no error has interrupted it */
static DcMoment list_read;
static uint32 reading = 0; /* how often it was read */

/* State of the jobs. */
static DcDue *dues = NULL;

static void due_init(DcDue *due);
static bool clock_was_set(void);
static void add_member(Oid relid, Oid counter, Oid owner);
static void forget_unlisted(DcDue *due);
static bool tabledue_is_due(DcDue *due, DcTableDue *entry, DcMoment now);
static DcTableDue *find_due(DcDue *due, Oid table);
static void tabledue_relcache_callback(Oid relid);
static void due_subscription_callback(Datum arg, int cacheid, uint32 hashvalue);
static void all_changed(DcDue *due);

/*
 * Return true if the catalog need not be read again.
 */
bool
due_list_known(void)
{
	return list_valid && list_whole && activity_is_known() && moment_age(list_read) < LIST_MAX;
}

/*
 * due_list_read reads the catalog, which the caller has locked. An invalidation that comes
 * in the meantime makes it be read again the next time.
 */
void
due_list_read(void)
{
	HASHCTL ctl = {.keysize = sizeof(Oid), .entrysize = sizeof(Member)};
	List *all;
	ListCell *lc;
	MemoryContext old;

	if (list_cxt == NULL)
	{
		list_cxt = AllocSetContextCreate(TopMemoryContext, "dcounter known tables",
										 ALLOCSET_DEFAULT_SIZES);
		relcached_on_change(tabledue_relcache_callback);
		CacheRegisterSyscacheCallback(SUBSCRIPTIONRELMAP, due_subscription_callback, (Datum) 0);
	}
	catalog_relid = catalog_relation("counter");
	list_whole = false;
	list_valid = true; /* an invalidation from here on resets it */
	list_read = moment_now();
	all = catalog_read_all();

	members = NULL; /* the callback may look at it */
	nrows = 0;
	MemoryContextReset(list_cxt);
	old = MemoryContextSwitchTo(list_cxt);
	rows = palloc(Max(list_length(all), 1) * sizeof(DcCounterRow));
	foreach(lc, all)
		rows[nrows++] = *(DcCounterRow *) lfirst(lc);
	ctl.hcxt = list_cxt;
	members = hash_create("dcounter known relations", 3 * nrows + 16, &ctl,
						  HASH_ELEM | HASH_BLOBS | HASH_CONTEXT);
	MemoryContextSwitchTo(old);
	for (int i = 0; i < nrows; i++)
	{
		Oid owner = relation_owner(rows[i].counter);

		add_member(rows[i].counter, rows[i].counter, owner);
		add_member(rows[i].shards, rows[i].counter, owner);
		add_member(rows[i].holds, rows[i].counter, owner);
	}
	list_whole = true;
	reading++;
}

/*
 * Note that a relation, unless it is InvalidOid, belongs to a counter table of this owner.
 */
static void
add_member(Oid relid, Oid counter, Oid owner)
{
	Member *member;

	if (!OidIsValid(relid))
		return;
	member = hash_search(members, &relid, HASH_ENTER, NULL);
	member->counter = counter;
	member->owner = owner;
}

/*
 * due_owner returns the owner of a counter table, as of the last reading of the catalog;
 * InvalidOid if there was none, or it did not have the table.
 */
Oid
due_owner(Oid table)
{
	Member *member = members != NULL ? hash_search(members, &table, HASH_FIND, NULL) : NULL;

	return member != NULL ? member->owner : InvalidOid;
}

/*
 * due_tables lists the tables that a job wants and has to look at now.
 */
List *
due_tables(DcDue *due, bool (*wants)(const DcCounterRow *row))
{
	DcMoment now = moment_now();
	List *tables = NIL;

	due_init(due);
	if (clock_was_set())
		due_all();
	if (activity_differs(MyDatabaseId, DC_ACTIVITY_ALL, due->all_seen))
	{
		due->all_seen = activity_collect(MyDatabaseId, DC_ACTIVITY_ALL);
		all_changed(due);
	}
	due->left = 0;
	for (int i = 0; i < nrows; i++)
	{
		DcTableDue *entry;

		if (wants != NULL && !wants(&rows[i]))
			continue;
		entry = find_due(due, rows[i].counter);
		entry->listed = reading;
		if (tabledue_is_due(due, entry, now))
			tables = lappend_oid(tables, entry->table);
		else
			due->left += entry->left;
	}
	if (due->reading != reading)
		forget_unlisted(due);
	due->reading = reading;
	return tables;
}

/*
 * Make the empty table of a job, once, and add it to the list of all of them.
 */
static void
due_init(DcDue *due)
{
	HASHCTL ctl = {.keysize = sizeof(Oid), .entrysize = sizeof(DcTableDue), .hcxt = TopMemoryContext};

	if (due->tables != NULL)
		return;
	due->tables = hash_create("dcounter due tables", 64, &ctl, HASH_ELEM | HASH_BLOBS | HASH_CONTEXT);
	due->next = dues;
	dues = due;
}

/*
 * Return true if the wall clock was set since the last time. Then the times that steps have
 * noted are no longer right.
 */
static bool
clock_was_set(void)
{
	static int64 ahead = 0; /* of the monotonic clock, us */
	int64 before = ahead;

	ahead = GetCurrentTimestamp() - moment_now().us;
	return Max(ahead, before) - Min(ahead, before) > USECS_PER_SEC;
}

/*
 * forget_unlisted forgets tables that the catalog does not have any more.
 */
static void
forget_unlisted(DcDue *due)
{
	HASH_SEQ_STATUS status;
	DcTableDue *entry;

	hash_seq_init(&status, due->tables);
	while ((entry = hash_seq_search(&status)) != NULL)
	{
		if (entry->listed != reading)
			(void) hash_search(due->tables, &entry->table, HASH_REMOVE, NULL);
	}
}

/*
 * due_knows returns true if a table was among those that a job wants when it listed them last.
 */
bool
due_knows(const DcDue *due, Oid table)
{
	return hash_search(due->tables, &table, HASH_FIND, NULL) != NULL;
}

/*
 * Return true if a job has to look at a table now.
 */
static bool
tabledue_is_due(DcDue *due, DcTableDue *entry, DcMoment now)
{
	if (!activity_is_known() || entry->changed || !moment_is_before(now, entry->at))
		return true;
	return activity_differs(MyDatabaseId, entry->table, entry->seen) ||
		(entry->left && !ownercode_is_known(entry->table));
}

/*
 * due_begin notes that a job begins with a table: changes from now on are news. Called before
 * the first step on it.
 */
void
due_begin(DcDue *due, Oid table)
{
	DcTableDue *entry = find_due(due, table);

	/* it is due by the safety net, not by a change: its pause goes on growing */
	if (entry->changed || activity_differs(MyDatabaseId, table, entry->seen))
		entry->pause = 0;
	entry->changed = false; /* from here on the callback sets it */
	entry->seen = activity_collect(MyDatabaseId, table);
}

/*
 * due_again notes that a table has to be checked again at a moment, in any case.
 */
void
due_again(DcDue *due, Oid table, DcMoment at)
{
	DcTableDue *entry = find_due(due, table);

	entry->at = entry->work = at;
	entry->pause = 0;
	entry->left = false;
}

/*
 * due_idle notes that there was nothing to do on a table, and will not be before `until` unless
 * it is changed. Pauses of many tables that were last used together end at different times.
 */
void
due_idle(DcDue *due, Oid table, DcMoment until, bool left)
{
	DcTableDue *entry = find_due(due, table);
	int64 pause;

	entry->pause = Min(Max(2 * entry->pause, DUE_PAUSE_MIN), PAUSE_MAX);
	pause = entry->pause / 1024 * (896 + murmurhash32(table) % 256);
	entry->work = until;
	entry->at = moment_min(moment_after(moment_now(), pause), until);
	entry->left = left;
}

/*
 * due_next returns when a job has something to do, as far as it is known now. It does not cover
 * what is published from now on, nor the safety net.
 */
DcMoment
due_next(const DcDue *due)
{
	DcMoment next = DC_NEVER;
	HASH_SEQ_STATUS status;
	DcTableDue *entry;

	if (due->tables == NULL || due->reading != reading || !list_valid)
		return DC_LONG_AGO;
	hash_seq_init(&status, due->tables);
	while ((entry = hash_seq_search(&status)) != NULL)
	{
		if (entry->changed || activity_differs(MyDatabaseId, entry->table, entry->seen))
			next = DC_LONG_AGO;
		else
			next = moment_min(next, entry->work);
	}
	return next;
}

/*
 * due_all makes all tables due, for all jobs: settings have changed.
 */
void
due_all(void)
{
	for (DcDue *due = dues; due != NULL; due = due->next)
		all_changed(due);
}

/*
 * Make all tables of a job due.
 */
static void
all_changed(DcDue *due)
{
	HASH_SEQ_STATUS status;
	DcTableDue *entry;

	hash_seq_init(&status, due->tables);
	while ((entry = hash_seq_search(&status)) != NULL)
		entry->changed = true;
}

/*
 * Return the entry of a table, a new one, which is due, if there is none.
 */
static DcTableDue *
find_due(DcDue *due, Oid table)
{
	bool found;
	DcTableDue *entry = hash_search(due->tables, &table, HASH_ENTER, &found);

	if (!found)
		*entry = (DcTableDue){.table = table, .at = DC_LONG_AGO, .work = DC_LONG_AGO};
	return entry;
}

/*
 * tabledue_relcache_callback makes a table due that has changed, for all jobs. Must not throw.
 */
static void
tabledue_relcache_callback(Oid relid)
{
	Member *member = NULL;

	if (!OidIsValid(relid))
		due_all();
	if (!OidIsValid(relid) || relid == catalog_relid)
		list_valid = false;
	else if (members != NULL)
		member = hash_search(members, &relid, HASH_FIND, NULL);
	for (DcDue *due = dues; member != NULL && due != NULL; due = due->next)
	{
		DcTableDue *entry = hash_search(due->tables, &member->counter, HASH_FIND, NULL);

		if (entry != NULL)
			entry->changed = true;
	}
}

/*
 * Make all tables due, as subscriptions have changed. Must not throw.
 */
static void
due_subscription_callback(Datum arg, int cacheid, uint32 hashvalue)
{
	due_all();
}
