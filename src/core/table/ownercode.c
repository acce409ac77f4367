/*
 * ownercode.c
 *		The worker runs no code of a table's owner.
 *
 * Copyright (c) 2026, the dcounter developers
 *
 * Code that an owner puts on a table (a trigger, a constraint, an index expression) may take as
 * long as it likes, and catch a cancel; a foreign server may never answer. In a session of the
 * owner that hurts only the owner. In the worker it would block the maintenance of all other
 * tables. So the worker's jobs skip a counter table on which such code could run, and its owner
 * maintains it: dc_maintain(), dc_compact(), dc_flush(). All tables of a counter, of the ledger or
 * budget that it belongs to, and of the bound counters that rows of these are counted in, go
 * together. A table of a superuser is let through, as superusers control the
 * worker in any case; and so is every table if dcounter.worker_runs_owner_code is on. A counter
 * with very many partitions, which make each step long, is left to the owner in the same way. The
 * outbox job touches the extension's own tables only.
 *
 * Protocol of a step (ownercode_begin, before anything is read or planned):
 *
 *	1. Lock all tables and their partitions ROW EXCLUSIVE, and each one's code lock (an
 *	   advisory lock), shared; none of them is waited for.
 *	2. Look at each (ownercoderel.c). The answer is remembered until an invalidation of any
 *	   of them comes.
 *	3. Turn on the guard (ownercodeguard.c) until the transaction has ended.
 *
 * Why the answer holds until then:
 *
 *	- ROW EXCLUSIVE keeps away commands that add triggers (foreign keys of others among
 *	  them), rules, constraints, columns, defaults, policies, plain indexes, and that
 *	  change the owner.
 *	- It does not keep away CREATE INDEX CONCURRENTLY and CREATE STATISTICS. The new expressions
 *	  are evaluated where they are immutable. If they consist of the server's functions,
 *	  they may delay the step that is running, and no other; all other functions are refused by the
 *	  guard. A new operator class is a superuser's.
 *	- Nor does it keep a table from becoming a child or a partition, with all that is on it. The
 *	  session that does so takes the parent's code lock at the end of the command (an event
 *	  trigger, codeddl.c), and holds it until it commits. So its commit is either before the look
 *	  or after the step.
 *	- CREATE OR REPLACE FUNCTION, ALTER DOMAIN and the like need no lock on the table. But
 *	  the objects that they change count as code in any case.
 *	- If a role becomes a superuser, or ceases to be one, the next step notices it.
 *
 * Code that reads the tables in passing, as statistics do, takes the same steps with weaker
 * locks, and without the code lock. The guard holds there as well.
 *
 * Amounts of such a table in memory would never be flushed. So no buffered table becomes one
 * (codeddl.c). If it has nevertheless, because its owner is no longer a superuser or the setting
 * was turned off, increments go to rows, and amounts in memory stay there until the owner flushes
 * (memory/buffer/flushjob.c).
 */
#include "postgres.h"

#include "access/relation.h"
#include "miscadmin.h"
#include "storage/lmgr.h"
#include "utils/inval.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"
#include "utils/syscache.h"

#include "base/compat.h"
#include "base/guc.h"
#include "base/hooks.h"
#include "base/lockclass.h"
#include "base/relcached.h"
#include "base/relopen.h"
#include "base/roles.h"
#include "core/table/ownercode.h"
#include "core/table/subscription.h"

/* Looks that invalidations may undo before the result is used anyway. */
#define MAX_TRIES 16

/* The answer for a counter. */
typedef struct DcFound
{
	Oid counter;  /* hash key */
	bool valid;	  /* no invalidation has come since the members were listed */
	int nroots;	  /* its tables; partitions and tables of bound counters follow */
	int nmembers; /* all of both */
	Oid *members; /* in TopMemoryContext */
	bool is_cut;  /* there are more */
	bool looked;  /* what follows is known, */
	uint32 roles; /* since this role_changes */
	bool exempt;  /* all belong to superusers */
	char *reason; /* in TopMemoryContext; NULL: no code can run */
	char *logged; /* the reason that the worker has logged; the same */
} DcFound;

static void found_changed(void *entry, Oid relid);

/* Entries (DcFound) are never removed; their pointers are freed when they are filled again. */
static DcRelCached found_cache = {
	.name = "dcounter owners' code",
	.keysize = sizeof(Oid),
	.size = sizeof(DcFound),
	.changed = found_changed,
	.watches = true,
};

static DcFound *found_of(Oid counter);
static bool ownercode_find(DcFound *found, const DcCounterRow *row, LOCKMODE mode, bool wait,
						   bool code);
static bool lock_roots(List *roots, LOCKMODE mode, bool wait);
static bool ownercode_lock_table(Oid relid, LOCKMODE mode, bool wait);
static bool lock_code(Oid relid, LOCKMODE mode, bool wait);
static bool has_roots(const DcFound *found, List *roots);
static void find_members(DcFound *found, List *roots, int most);
static List *add_tables_counted_in(List *tables, Oid relid);
static void ownercode_look_at(DcFound *found);
static void note_reason(DcFound *found, char *reason, bool exempt);

/*
 * ownercode_look locks all tables of a counter, waiting or not, and returns whether code of
 * their owner can run on them. *reason names that code, until the next look.
 */
DcOwnerCode
ownercode_look(const DcCounterRow *row, LOCKMODE mode, bool wait, const char **reason)
{
	DcFound *found = found_of(row->counter);

	*reason = NULL;
	if (!ownercode_find(found, row, mode, wait, false))
		return DC_CODE_LOCKED;
	*reason = found->reason;
	return found->reason != NULL ? DC_CODE_FOUND : DC_CODE_NONE;
}

/*
 * Return true if the current user may read the tables of a counter,
 * which the caller has locked, in passing: the user owns them, or they run no code. In the
 * latter case it turns on the guard.
 */
bool
ownercode_may_read(const DcCounter *counter)
{
	const char *reason;

	if (counter->owner == GetUserId())
		return true;
	if (ownercode_look(&counter->row, AccessShareLock, false, &reason) != DC_CODE_NONE)
		return false;
	if (!found_of(counter->relid)->exempt)
		(void) ownercode_guard(true);
	return true;
}

/*
 * Return true if a step of the worker may work on a counter table, and
 * turns on the guard. One that does not exist any more is left to the step.
 */
DcOwnerCode
ownercode_begin(Oid counter, const char **reason)
{
	DcCounterRow row;
	DcFound *found;

	*reason = NULL;
	if (dc_worker_runs_owner_code)
		return DC_CODE_NONE;
	if (!catalog_lock_at_once())
		return DC_CODE_LOCKED;
	if (!catalog_read(counter, &row))
		return DC_CODE_NONE;
	found = found_of(counter);
	if (!ownercode_find(found, &row, RowExclusiveLock, false, true))
	{
		/* if it vanished, the jobs clear up what is left of it */
		return SearchSysCacheExists1(RELOID, ObjectIdGetDatum(counter)) ? DC_CODE_LOCKED : DC_CODE_NONE;
	}
	*reason = found->reason;
	if (found->reason != NULL)
		return DC_CODE_FOUND;
	if (!found->exempt)
		(void) ownercode_guard(true);
	return DC_CODE_NONE;
}

/*
 * Return true if what was found on a counter's tables is what would be
 * found now.
 */
bool
ownercode_is_known(Oid counter)
{
	DcFound *found = relcached_find(&found_cache, &counter);

	return found != NULL && found->valid && found->looked && found->roles == role_changes &&
		!dc_worker_runs_owner_code;
}

/*
 * ownercode_lock_member waits for steps of the worker that use a table, which is about to get a
 * child or a partition, and keeps new steps from beginning.
 */
void
ownercode_lock_member(Oid relid)
{
	(void) lock_code(relid, ExclusiveLock, true);
}

/*
 * ownercode_prevent_buffered raises an error if a counter table, which is to be buffered,
 * or is, cannot be flushed by the worker.
 */
void
ownercode_prevent_buffered(const DcCounterRow *row)
{
	const char *reason;

	if (dc_worker_runs_owner_code ||
		ownercode_look(row, AccessShareLock, true, &reason) != DC_CODE_FOUND)
		return;
	ereport(ERROR,
			(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
			 errmsg("\"%s\" cannot be buffered with code of its owner",
					get_rel_name(row->counter)),
			 errdetail("The worker, which would flush it, does not run such code: %s.", reason),
			 errhint("Use dc_alter(..., mode => 'exact') first.")));
}

/*
 * ownercode_log logs that the worker leaves a counter table to its owner, unless it has
 * done so for this reason.
 */
void
ownercode_log(Oid counter, const char *reason)
{
	DcFound *found = found_of(counter);

	if (found->logged != NULL && strcmp(found->logged, reason) == 0)
		return;
	if (found->logged != NULL)
		pfree(found->logged);
	found->logged = NULL;
	found->logged = MemoryContextStrdup(TopMemoryContext, reason);
	ereport(LOG,
			(errmsg("dcounter worker leaves counter table \"%s\" to its owner", get_rel_name(counter)),
			 found->nmembers > DC_MANY_MEMBERS ? errdetail("Each step would take long: %s.", reason)
											   : errdetail("Code of the owner could run: %s.", reason),
			 errhint("The owner can call dc_maintain().")));
}

/*
 * Return the entry of a counter, a new one if there is none.
 */
static DcFound *
found_of(Oid counter)
{
	return relcached_enter(&found_cache, &counter);
}

/*
 * ownercode_find locks all tables of a counter and looks at them, unless the answer is known.
 * Returns false if one cannot be locked at once. Taking the locks may show that there are other
 * tables.
 */
static bool
ownercode_find(DcFound *found, const DcCounterRow *row, LOCKMODE mode, bool wait, bool code)
{
	bool trusted = superuser_arg(relation_owner(row->counter));
	int tries = 0;

	do
	{
		List *roots = counter_tables(row);

		if (!found->valid || !has_roots(found, roots) || (found->is_cut && trusted))
		{
			if (!lock_roots(roots, mode, wait))
				return false;
			find_members(found, roots, trusted ? INT_MAX : DC_MANY_MEMBERS);
		}
		if (found->nmembers > DC_MANY_MEMBERS && !trusted)
		{
			found->roles = role_changes;
			note_reason(found, psprintf("more than %d partitions", DC_MANY_MEMBERS), false);
			return true;
		}
		for (int i = 0; i < found->nmembers; i++)
		{
			if (!ownercode_lock_table(found->members[i], mode, wait) ||
				(code && !lock_code(found->members[i], ShareLock, wait)))
				return false;
		}
		AcceptInvalidationMessages(); /* from a transaction that had the code lock before */
		if (!found->looked || found->roles != role_changes)
			ownercode_look_at(found);
		/* with debug_discard_caches it never stays valid; it is fresh enough */
	} while ((!found->valid || found->roles != role_changes) && ++tries < MAX_TRIES);
	return true;
}

/*
 * Lock the tables of a counter, without their partitions; false if one cannot be locked without
 * waiting.
 */
static bool
lock_roots(List *roots, LOCKMODE mode, bool wait)
{
	ListCell *lc;

	foreach(lc, roots)
	{
		if (!ownercode_lock_table(lfirst_oid(lc), mode, wait))
			return false;
	}
	return true;
}

/*
 * Lock a table; false if that would have to wait and `wait` is false.
 */
static bool
ownercode_lock_table(Oid relid, LOCKMODE mode, bool wait)
{
	if (!wait)
		return ConditionalLockRelationOid(relid, mode);
	LockRelationOid(relid, mode);
	return true;
}

/*
 * Take the code lock of a table; false if another session has it and `wait` is false.
 */
static bool
lock_code(Oid relid, LOCKMODE mode, bool wait)
{
	return advisory_lock(CODE_LOCK_CLASS, relid, 0, mode, wait);
}

/*
 * Return true if an entry was made for just these tables.
 */
static bool
has_roots(const DcFound *found, List *roots)
{
	if (list_length(roots) != found->nroots)
		return false;
	for (int i = 0; i < found->nroots; i++)
	{
		if (found->members[i] != list_nth_oid(roots, i))
			return false;
	}
	return true;
}

/*
 * find_members lists tables, then their partitions and children, and the tables of bound counters
 * that rows of all these are counted in, with theirs; or somewhat more than `most` of them. The
 * answer is forgotten.
 */
static void
find_members(DcFound *found, List *roots, int most)
{
	List *tables = list_copy(roots);
	List *members = list_copy(roots);
	uint64 changes = relcached_changes();

	found->nroots = -1; /* so that it is done again if this fails */
	found->valid = false;
	for (int i = 0; i < list_length(tables) && list_length(members) <= most; i++)
	{
		List *more = relation_members_most(list_nth_oid(tables, i), NoLock, most);
		ListCell *lc;

		/* removing duplicates takes quadratic time, and looking at a table twice costs little */
		if (list_length(members) + list_length(more) > DC_MANY_MEMBERS)
			members = list_concat(members, more);
		else
			members = list_concat_unique_oid(members, more);
		foreach(lc, more)
			tables = add_tables_counted_in(tables, lfirst_oid(lc)); /* for the turns to come */
	}
	relcached_set_oids(&found->members, &found->nmembers, members);
	for (int i = 0; i < found->nmembers; i++)
		relcached_watch(found->members[i]);
	found->nroots = list_length(roots);
	found->looked = false;
	found->is_cut = list_length(members) > most;
	found->valid = changes == relcached_changes();
}

/*
 * Add the tables of the bound counters that rows of a table are counted in: whoever writes to it
 * also writes to these.
 */
static List *
add_tables_counted_in(List *tables, Oid relid)
{
	List *counters = bound_hooks != NULL ? bound_hooks->counters(relid, NIL) : NIL;
	ListCell *lc;

	CHECK_FOR_INTERRUPTS();
	foreach(lc, counters)
	{
		DcCounterRow row;

		if (catalog_read(lfirst_oid(lc), &row))
			tables = list_concat_unique_oid(tables, counter_tables(&row));
	}
	return tables;
}

/*
 * ownercode_look_at looks at tables that are locked. Those that are gone are skipped.
 */
static void
ownercode_look_at(DcFound *found)
{
	char *reason = NULL;
	bool exempt = true;
	uint32 roles = role_changes;

	found->looked = false; /* so that it is done again if this fails */
	for (int i = 0; i < found->nmembers && reason == NULL; i++)
	{
		Relation rel = try_relation_open(found->members[i], NoLock);

		if (rel == NULL)
			continue;
		if (!superuser_arg(rel->rd_rel->relowner))
		{
			reason = ownercode_of_relation(rel);
			exempt = false;
		}
		relation_close(rel, NoLock);
	}
	note_reason(found, reason, exempt);
	found->roles = roles;
}

/*
 * Remember what was found (NULL: nothing), and whether it does not matter, as the tables are
 * superusers'.
 */
static void
note_reason(DcFound *found, char *reason, bool exempt)
{
	if (reason != NULL)
		reason = MemoryContextStrdup(TopMemoryContext, reason);
	if (found->reason != NULL)
		pfree(found->reason);
	found->reason = reason;
	found->exempt = exempt;
	found->looked = true;
}

/*
 * found_changed forgets the answer for a counter if a relation belongs to it.
 */
static void
found_changed(void *entry, Oid relid)
{
	DcFound *found = entry;

	if (!OidIsValid(relid))
		found->valid = false;
	for (int i = 0; found->valid && i < found->nmembers; i++)
		found->valid = found->members[i] != relid;
}
