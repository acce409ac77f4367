/*
 * countercache.c
 *		The backend's cache of counter tables.
 *
 * Copyright (c) 2026, the dcounter developers
 *
 * There is one entry per counter table ever used by this backend. A relcache
 * invalidation of the counter table, of its shard table or of a partition (DDL,
 * ownership, privileges, dc_alter) marks the entry invalid. So does a change of the tables
 * that subscriptions feed, and, while there are any, of the settings of subscriptions and of
 * roles. The next look-up fills it again, and if an invalidation arrives
 * during the fill, it starts over (base/relcached.c). So no invalidation is lost.
 *
 * An entry is only trustworthy under a lock on the counter table. Callers lock
 * first (counter_open in access.c) and look up afterwards.
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "access/transam.h"
#include "catalog/pg_class.h"
#include "catalog/pg_foreign_table.h"
#include "utils/inval.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"
#include "utils/rel.h"
#include "utils/syscache.h"

#include "base/errors.h"
#include "base/hooks.h"
#include "base/relcached.h"
#include "base/relopen.h"
#include "core/table/catalog.h"
#include "core/table/distribution.h"
#include "core/table/subscription.h"

static void countercache_entry_changed(void *entry, Oid relid);

/* Entries (DcCounter) are never removed. */
static DcRelCached cached_counters = {
	.name = "dcounter tables",
	.keysize = sizeof(Oid),
	.size = sizeof(DcCounter),
	.changed = countercache_entry_changed,
	.watches = true,
};

/* An entry may depend on the rights of a subscription. */
static bool rights_matter = false;

/* The entry that was asked for last. */
static DcCounter *last_found = NULL;

static bool countercache_fill(void *entry, void *arg);
static void counter_fill(DcCounter *counter);
static void watch_tables(const DcCounter *counter);
static void prevent_other_kind(Oid relid);
static void note_altered(DcCounter *counter, HeapTuple tuple);
static void note_members_altered(DcCounter *counter, List *members);
static List *counter_foreign_leaves(Oid relid, List *leaves, List **members);
static Oid server_of(Oid relid);
static void subscription_callback(Datum arg, int cacheid, uint32 hashvalue);
static void subscriber_callback(Datum arg, int cacheid, uint32 hashvalue);

/*
 * counter_cache_init registers the callbacks for subscriptions; called once.
 */
void
counter_cache_init(void)
{
	CacheRegisterSyscacheCallback(SUBSCRIPTIONRELMAP, subscription_callback, (Datum) 0);
	CacheRegisterSyscacheCallback(SUBSCRIPTIONOID, subscriber_callback, (Datum) 0);
	CacheRegisterSyscacheCallback(AUTHOID, subscriber_callback, (Datum) 0);
	CacheRegisterSyscacheCallback(AUTHMEMROLEMEM, subscriber_callback, (Datum) 0);
}

/*
 * counter_forget removes a table that is being dropped, or has lost its shard table, from the
 * catalog, and tells the rooms that keep state about it.
 */
void
counter_forget(Oid counter)
{
	catalog_delete(counter);
	if (stats_hooks != NULL)
		stats_hooks->dropped(counter);
	if (outbox_hooks != NULL)
		outbox_hooks->dropped(counter);
	bound_hooks->dropped(counter);
}

/*
 * counter_changed notifies listeners that keys (text datums) have changed. The counter table is
 * locked.
 */
void
counter_changed(const DcCounter *counter, const Datum *keys, int nkeys)
{
	if (counter->events)
		outbox_hooks->changed(counter->relid, keys, nkeys);
}

/*
 * Return true if a relation is a foreign table or has
 * one among its partitions.
 */
bool
relation_has_foreign_part(Oid relid)
{
	return counter_foreign_leaves(relid, NIL, NULL) != NIL;
}

/*
 * Return true if there is still a relation that was a counter table
 * earlier in this transaction.
 */
bool
counter_exists(Oid relid)
{
	/* dropping it would have invalidated the entry */
	return (last_found != NULL && last_found->relid == relid && last_found->valid) ||
		SearchSysCacheExists1(RELOID, ObjectIdGetDatum(relid));
}

/*
 * counter_find returns the entry of a counter table, or NULL for a relation that is not one (or
 * does not exist).
 */
DcCounter *
counter_find(Oid relid)
{
	DcCounter *counter;

	if (last_found != NULL && last_found->relid == relid && last_found->valid)
		return last_found;

	counter = relcached_enter_relation(&cached_counters, relid);
	if (counter == NULL || (!counter->valid && !relcached_fill(counter, &counter->valid, countercache_fill, NULL)))
		return NULL;
	return last_found = counter;
}

/*
 * countercache_fill reads the row of a counter table and what the catalogs say of its tables.
 */
static bool
countercache_fill(void *entry, void *arg)
{
	DcCounter *counter = entry;
	DcCounterRow row;

	if (!catalog_read(counter->relid, &row))
		return false;
	counter->row = row;
	if (!SearchSysCacheExists1(RELOID, ObjectIdGetDatum(row.shards)))
		return false;
	counter_fill(counter);
	watch_tables(counter);
	return true;
}

/*
 * watch_tables names all relations that countercache_entry_changed() asks for.
 */
static void
watch_tables(const DcCounter *counter)
{
	const DcCounterRow *row = &counter->row;
	const Oid tables[] = {row->shards, row->holds, row->regions, row->sets, row->grants, row->wants, row->trends};

	for (int i = 0; i < lengthof(tables); i++)
		relcached_watch(tables[i]);
	for (int i = 0; i < counter->nmembers; i++)
		relcached_watch(counter->members[i]);
}

/*
 * Raise 42809 for a table that another room has made, with the functions of that room as HINT.
 */
static void
prevent_other_kind(Oid relid)
{
	const char *kind = NULL;
	const char *hint = NULL;

	if (window_hooks->is_window(relid))
	{
		kind = "windowed counter";
		hint = "Use dc_incr_at() to count, dc_window() or dc_buckets() to read.";
	}
	else if (distinct_hooks->is_distinct(relid))
	{
		kind = "distinct table";
		hint = "Use dc_add() to count, dc_distinct() to read.";
	}
	else if (unread_hooks->is_unread(relid))
	{
		kind = "unread table";
		hint = "Use dc_mark_read() and dc_unread(); the counter table has another name.";
	}
	if (kind != NULL)
		ereport(ERROR,
				(errcode(ERRCODE_WRONG_OBJECT_TYPE),
				 errmsg("\"%s\" is %s %s, not a counter table", get_rel_name(relid), kind[0] == 'u' ? "an" : "a", kind),
				 errhint("%s", hint)));
}

/*
 * counter_lookup does the same as counter_find(), but raises an error: 42P01 for no relation,
 * 42809 for one that is not a counter table, 0A000 for row security, 55000 for mixed ownership.
 */
DcCounter *
counter_lookup(Oid relid)
{
	DcCounter *counter = counter_find(relid);

	if (counter == NULL)
	{
		char *name = get_rel_name(relid);
		char kind = get_rel_relkind(relid);

		if (name == NULL)
			relation_missing_error(relid);
		prevent_other_kind(relid);
		ereport(ERROR,
				(errcode(ERRCODE_WRONG_OBJECT_TYPE),
				 errmsg("\"%s\" is not a counter table", name),
				 kind != RELKIND_RELATION && kind != RELKIND_PARTITIONED_TABLE && kind != RELKIND_FOREIGN_TABLE
					 ? errdetail_relkind_not_supported(kind)
					 : 0,
				 relation_is_on_coordinator(relid)
					 ? errhint("It is distributed by Citus: call the functions on the coordinator.")
					 : errhint("Create a counter table with dc_create(), register a restored one with dc_adopt(), or count the rows of a table with dc_bind().")));
	}
	if (counter->rls)
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("row-level security is not supported on counter table \"%s\"",
						get_rel_name(relid)),
				 errhint("Use ALTER TABLE ... DISABLE ROW LEVEL SECURITY on it and on its shard table.")));
	if (!OidIsValid(counter->owner))
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("counter table \"%s\" and its shard table \"%s\" have different owners",
						get_rel_name(relid), get_rel_name(counter->row.shards)),
				 errhint("Use ALTER TABLE ... OWNER TO to give all of its tables to one role.")));
	return counter;
}

/*
 * counter_fill fills an entry from the catalogs of its tables.
 */
static void
counter_fill(DcCounter *counter)
{
	Oid relids[3];
	Oid owners[3] = {InvalidOid, InvalidOid, InvalidOid};
	List *leaves = NIL;
	List *members = NIL;
	bool rls = false;

	counter->altered_by = InvalidTransactionId;
	relids[0] = counter->row.counter;
	relids[1] = counter->row.shards;
	relids[2] = counter->row.holds;
	for (int i = 0; i < 3; i++)
	{
		HeapTuple tuple = SearchSysCache1(RELOID, ObjectIdGetDatum(relids[i]));
		Form_pg_class form;

		if (!HeapTupleIsValid(tuple))
			continue; /* none, or dropped in the meantime: locks were not taken */
		form = (Form_pg_class) GETSTRUCT(tuple);
		note_altered(counter, tuple);
		owners[i] = form->relowner;
		rls |= form->relrowsecurity;
		if (form->relkind == RELKIND_FOREIGN_TABLE ||
			form->relkind == RELKIND_PARTITIONED_TABLE)
			leaves = counter_foreign_leaves(relids[i], leaves, &members);
		ReleaseSysCache(tuple);
	}

	note_members_altered(counter, members);
	relcached_set_oids(&counter->foreign_leaves, &counter->nforeign, leaves);
	relcached_set_oids(&counter->members, &counter->nmembers, members);
	counter->owner = (owners[0] == owners[1] &&
					  (!OidIsValid(owners[2]) || owners[0] == owners[2]))
		? owners[0]
		: InvalidOid;
	counter->rls = rls;
	counter->foreign = (leaves != NIL);
	counter->events = outbox_hooks != NULL && outbox_hooks->wants(counter->relid);
	counter->bound = bound_hooks->is_bound(counter->relid);
	rights_matter |= any_table_is_fed(); /* first: what changes from here on must be noticed */
	counter->fed = rights_matter && counter_is_fed(&counter->row);
	distribution_fill(counter);
	counter->held = counter->fed || (counter_is_replicated(counter) && region_hooks->is_held());
	counter->generation++;
}

/*
 * note_altered notes which transaction has written a row of pg_class, as one that gives a table a
 * new file does.
 */
static void
note_altered(DcCounter *counter, HeapTuple tuple)
{
	TransactionId xid = HeapTupleHeaderGetXmin(tuple->t_data);

	if (TransactionIdIsNormal(xid) &&
		(!TransactionIdIsValid(counter->altered_by) || TransactionIdFollows(xid, counter->altered_by)))
		counter->altered_by = xid;
}

/*
 * Do the same for the rows of partitions.
 */
static void
note_members_altered(DcCounter *counter, List *members)
{
	ListCell *lc;

	foreach(lc, members)
	{
		HeapTuple tuple = SearchSysCache1(RELOID, ObjectIdGetDatum(lfirst_oid(lc)));

		if (!HeapTupleIsValid(tuple))
			continue; /* dropped in the meantime */
		note_altered(counter, tuple);
		ReleaseSysCache(tuple);
	}
}

/*
 * counter_foreign_leaves adds to `leaves` one foreign table for each foreign
 * server that has none in it yet, of a relation and its partitions, and all of
 * these to `members` unless that is NULL.
 */
static List *
counter_foreign_leaves(Oid relid, List *leaves, List **members)
{
	List *children = relation_members(relid, AccessShareLock);
	ListCell *lc;

	foreach(lc, children)
	{
		Oid child = lfirst_oid(lc);
		Oid server;
		bool known = false;
		ListCell *lc2;

		if (get_rel_relkind(child) != RELKIND_FOREIGN_TABLE)
			continue;
		server = server_of(child);
		foreach(lc2, leaves)
			known |= (server_of(lfirst_oid(lc2)) == server);
		if (!known && OidIsValid(server))
			leaves = lappend_oid(leaves, child);
	}
	if (members != NULL)
		*members = list_concat(*members, children);
	else
		list_free(children);
	return leaves;
}

/*
 * server_of returns the server of a foreign table; InvalidOid if that was dropped in the meantime,
 * as locks were not taken.
 */
static Oid
server_of(Oid relid)
{
	HeapTuple tuple = SearchSysCache1(FOREIGNTABLEREL, ObjectIdGetDatum(relid));
	Oid server = InvalidOid;

	if (HeapTupleIsValid(tuple))
	{
		server = ((Form_pg_foreign_table) GETSTRUCT(tuple))->ftserver;
		ReleaseSysCache(tuple);
	}
	return server;
}

/*
 * countercache_entry_changed marks an entry invalid if it uses a relation, or any. All that it asks
 * for is in watch_tables().
 */
static void
countercache_entry_changed(void *entry, Oid relid)
{
	DcCounter *counter = entry;

	if (relid == InvalidOid || relid == counter->relid || relid == counter->row.shards ||
		relid == counter->row.holds || relid == counter->row.regions || relid == counter->row.sets ||
		relid == counter->row.grants || relid == counter->row.wants || relid == counter->row.trends)
		counter->valid = false;
	for (int i = 0; counter->valid && i < counter->nmembers; i++)
		counter->valid = relid != counter->members[i];
}

/*
 * subscription_callback marks all entries invalid: tables were added to a subscription,
 * or taken from one. Must not throw.
 */
static void
subscription_callback(Datum arg, int cacheid, uint32 hashvalue)
{
	relcached_changed(&cached_counters, InvalidOid);
}

/*
 * subscriber_callback does the same when a subscription has another owner, or a role other rights.
 * Must not throw.
 */
static void
subscriber_callback(Datum arg, int cacheid, uint32 hashvalue)
{
	if (rights_matter)
		relcached_changed(&cached_counters, InvalidOid);
	rights_matter = false;
}
