/*
 * access.c
 *		Opening a counter table for an SQL function: arguments, locks, rights.
 *
 * Copyright (c) 2026, the dcounter developers
 *
 * Each function locks the table of totals and then the shard table, always in
 * this order and until the end of the transaction: ROW EXCLUSIVE to write,
 * ACCESS SHARE to read. DDL on either table therefore waits from the first
 * increment on, and the checks made here still hold when the deltas are
 * written at commit. Only afterwards is the cache asked (countercache.c).
 *
 * Checking costs more than adding to a hash table, so the last table that was
 * opened to write is remembered, with the role that was checked, for the
 * current statement and subtransaction (the abort of which would release the locks). A
 * relcache invalidation of the table (GRANT and REVOKE send one) or a change of role
 * memberships ends that. The rights that a role was found to have are remembered until
 * then, beyond the statement and the transaction.
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "access/parallel.h"
#include "access/transam.h"
#include "access/xact.h"
#include "catalog/objectaddress.h"
#include "storage/lmgr.h"
#include "storage/procarray.h"
#include "storage/sinval.h"
#include "utils/builtins.h"
#include "utils/inval.h"
#include "utils/lsyscache.h"
#include "utils/snapmgr.h"
#include "utils/syscache.h"

#include "base/args.h"
#include "base/compat.h"
#include "base/hooks.h"
#include "base/relopen.h"
#include "base/roles.h"
#include "base/xactrooms.h"
#include "core/table/access.h"
#include "core/table/distribution.h"
#include "core/table/layout.h"
#include "core/table/subscription.h"

/* An entry of the cache that was checked. Entries are never freed (base/relcached.c). */
typedef struct DcChecked
{
	DcCounter *counter; /* NULL: nothing */
	uint32 generation;
	uint32 roles; /* role_changes */
	Oid userid;
} DcChecked;

/*
 * The counter table that was last opened to write. The locks are gone when a
 * subtransaction ends: counter_forget_open().
 */
static DcChecked last_write;
static SubTransactionId last_write_subid;
static TimestampTz last_write_statement; /* the start of that statement, which tells statements apart */

/* The rights that were last found. */
static DcChecked last_rights;
static AclMode last_rights_found;

/*
 * The transaction that last altered one of the tables of the counter that was last opened
 * (DcCounter.altered_by).
 */
static TransactionId opened_altered_by = InvalidTransactionId;

static void parallel_error(const char *function);
static void prevent_ledger(const DcCounter *counter, const char *function);
static void prevent_bound(const DcCounter *counter, const char *function);
static bool lock_at_once(Oid relid, LOCKMODE mode);
static DcCounter *counter_open(Oid relid, LOCKMODE mode, AclMode rights);
static bool rights_are_known(const DcCounter *counter, AclMode rights);
static DcCounter *open_to_change(Oid relid, const char *function, AclMode rights);
static void note_checked(DcChecked *checked, DcCounter *counter, uint32 roles);
static bool still_holds(const DcChecked *checked);

/*
 * counter_arg returns argument 0, the counter table (22004 for NULL).
 */
Oid
counter_arg(FunctionCallInfo fcinfo)
{
	arg_not_null(fcinfo, 0, "counter");
	return PG_GETARG_OID(0);
}

/*
 * Sampled tables that this session has written to: counter_known_writer() knows no others.
 * Entries are never moved or freed.
 */
static DcCounter *sampled[8];

/*
 * counter_open_to_write opens the counter table in argument 0 for increments. The caller needs
 * INSERT and UPDATE on it. Error messages name the SQL function as `function` says.
 */
DcCounter *
counter_open_to_write(FunctionCallInfo fcinfo, const char *function)
{
	Oid relid = counter_arg(fcinfo);
	DcCounter *counter = last_write.counter;
	uint32 roles;

	if (counter != NULL && counter->relid == relid && counter->valid &&
		still_holds(&last_write) &&
		last_write_subid == GetCurrentSubTransactionId() &&
		last_write_statement == GetCurrentStatementStartTimestamp() &&
		!XactReadOnly && !InSecurityRestrictedOperation())
		return counter;

	last_write.counter = NULL;
	roles = role_changes;
	counter = open_to_change(relid, function, ACL_INSERT | ACL_UPDATE);
	xact_mark(DC_XACT_COUNTER); /* forgotten at the end (counter_forget_open) */
	note_checked(&last_write, counter, roles);
	if (counter_is_sampled(counter))
	{
		counter->writer_generation = last_write.generation;
		counter->writer_roles = last_write.roles;
		counter->writer = last_write.userid;
		sampled[relid % lengthof(sampled)] = counter;
	}
	last_write_subid = GetCurrentSubTransactionId();
	last_write_statement = GetCurrentStatementStartTimestamp();
	return counter;
}

/*
 * note_checked notes that an entry was checked now, with role_changes from before that, and
 * still_holds returns true if that check is still valid.
 */
static void
note_checked(DcChecked *checked, DcCounter *counter, uint32 roles)
{
	*checked = (DcChecked){counter, counter->generation, roles, GetUserId()};
}

/*
 * See note_checked().
 */
static bool
still_holds(const DcChecked *checked)
{
	return checked->generation == checked->counter->generation &&
		checked->roles == role_changes && checked->userid == GetUserId();
}

/*
 * open_to_change opens a counter table for a function that changes it, and is not one of
 * ledgers.
 */
static DcCounter *
open_to_change(Oid relid, const char *function, AclMode rights)
{
	DcCounter *counter;

	prevent_write(function);
	counter = counter_open(relid, RowExclusiveLock, rights);
	prevent_ledger(counter, function);
	prevent_bound(counter, function);
	prevent_fed(counter, function);
	return counter;
}

/*
 * counter_open_bound opens a counter table for what its source's rows add to it. The role that
 * writes those rows needs no rights on it.
 */
DcCounter *
counter_open_bound(Oid relid)
{
	DcCounter *counter;

	while (!counter_lock(relid, RowExclusiveLock))
		(void) counter_lookup(relid); /* raises an error if it is not a counter table */
	counter = counter_lookup(relid);
	distribution_check(counter);
	counter_layout(counter);
	counter_check_deferred(counter, false);
	prevent_fed(counter, "an increment");
	if (stats_hooks != NULL)
		stats_hooks->attach(counter);
	return counter;
}

/*
 * counter_check_write makes the checks of counter_open_to_write() alone, without
 * locks: for a call that then need not touch the table.
 */
void
counter_check_write(Oid relid, const char *function)
{
	prevent_write(function);
	AcceptInvalidationMessages();
	table_check_rights(relid, ACL_INSERT | ACL_UPDATE);
}

/*
 * counter_open_to_read opens the counter table in argument 0 for reading. The
 * caller needs SELECT on it. A parallel worker does not know the leader's
 * pending deltas, so it must not answer.
 */
DcCounter *
counter_open_to_read(FunctionCallInfo fcinfo, const char *function)
{
	return counter_open_read(counter_arg(fcinfo), function);
}

/*
 * counter_open_read does the same for a table that is not an argument.
 */
DcCounter *
counter_open_read(Oid relid, const char *function)
{
	if (IsParallelWorker())
		parallel_error(function);
	return counter_open(relid, AccessShareLock, ACL_SELECT);
}

/*
 * Raise 25000: a function was called in a parallel worker.
 */
static void
parallel_error(const char *function)
{
	ereport(ERROR,
			(errcode(ERRCODE_INVALID_TRANSACTION_STATE),
			 errmsg("cannot execute %s in a parallel worker", function),
			 errhint("Mark the function that calls it PARALLEL RESTRICTED.")));
}

/*
 * counter_open_to_delete opens the counter table in argument 0 for removing a
 * key. The caller needs SELECT and DELETE on it.
 */
DcCounter *
counter_open_to_delete(FunctionCallInfo fcinfo, const char *function)
{
	return open_to_change(counter_arg(fcinfo), function, ACL_SELECT | ACL_DELETE);
}

/*
 * counter_open_ledger opens the table of balances in argument 0 for a function of
 * ledgers (42809 for another one), with all of `rights`, or as its owner if there
 * are none.
 */
DcCounter *
counter_open_ledger(FunctionCallInfo fcinfo, const char *function,
					LOCKMODE mode, AclMode rights)
{
	DcCounter *counter;

	if (mode > AccessShareLock)
		prevent_write(function);
	else if (IsParallelWorker())
		parallel_error(function);
	counter = counter_open(counter_arg(fcinfo), mode, rights);
	if (!counter_is_ledger(counter))
		ereport(ERROR,
				(errcode(ERRCODE_WRONG_OBJECT_TYPE),
				 errmsg("\"%s\" is not a ledger", get_rel_name(counter->relid)),
				 errhint("Create a ledger with dc_ledger_create().")));
	if (rights != ACL_SELECT)
		prevent_fed(counter, function);
	return counter;
}

/*
 * prevent_ledger raises 42809 for a table that only the functions of ledgers may
 * change.
 */
static void
prevent_ledger(const DcCounter *counter, const char *function)
{
	if (!OidIsValid(counter->row.ledger))
		return;
	ereport(ERROR,
			(errcode(ERRCODE_WRONG_OBJECT_TYPE),
			 errmsg("cannot execute %s on \"%s\": it belongs to a ledger",
					function, get_rel_name(counter->relid)),
			 errhint("Use dc_transfer(), which writes the entries as well.")));
}

/*
 * prevent_bound raises 55000 for a table whose values come from a source.
 */
static void
prevent_bound(const DcCounter *counter, const char *function)
{
	if (!counter->bound)
		return;
	ereport(ERROR,
			(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
			 errmsg("cannot execute %s on \"%s\": it is bound to a source",
					function, get_rel_name(counter->relid)),
			 errhint("Change the rows of the source, or call dc_unbind() first.")));
}

/*
 * prevent_replicated raises 0A000 for a table that other regions count in as well, for a
 * function that does not know of them.
 */
void
prevent_replicated(const DcCounter *counter, const char *function)
{
	if (counter_is_replicated(counter) || counter_has_rights(counter))
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("cannot execute %s on \"%s\": it is replicated between regions",
						function, get_rel_name(counter->relid)),
				 counter_has_rights(counter) ? errhint("Use dc_restock() or dc_take().") : 0));
}

/*
 * prevent_sampled raises 42809 for a sampled table, for functions that need exact counts.
 */
void
prevent_sampled(const DcCounter *counter, const char *function)
{
	if (counter_is_sampled(counter))
		ereport(ERROR,
				(errcode(ERRCODE_WRONG_OBJECT_TYPE),
				 errmsg("cannot execute %s on \"%s\": it is sampled",
						function, get_rel_name(counter->relid)),
				 errdetail("Its counts have an error, which dc_info() returns.")));
}

/*
 * prevent_idle raises 0A000 for a table whose keys expire, for what needs them to stay.
 */
void
prevent_idle(const DcCounter *counter, const char *function)
{
	if (counter->row.idle > 0)
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("cannot execute %s on \"%s\": its keys expire",
						function, get_rel_name(counter->relid)),
				 errhint("Call dc_alter(..., idle => '0') first.")));
}

/*
 * counter_known_writer returns a sampled counter table if the current user may write to it now,
 * as counter_open_to_write() has found with the entry as it is; else NULL. It takes no lock: it
 * is for calls whose increment was rounded to nothing. Invalidations are received, so that a
 * REVOKE takes effect.
 */
DcCounter *
counter_known_writer(Oid relid)
{
	DcCounter *counter = sampled[relid % lengthof(sampled)];

	if (likely(counter == NULL || counter->relid != relid))
		return NULL;
	AcceptInvalidationMessages();
	if (!counter->valid || counter->writer_generation != counter->generation ||
		counter->writer_roles != role_changes || counter->writer != GetUserId() ||
		!counter_is_sampled(counter) || counter->held || XactReadOnly || IsInParallelMode() ||
		InSecurityRestrictedOperation())
		return NULL;
	return counter;
}

/*
 * counter_open_as_owner opens the counter table in argument 0 for its owner.
 */
DcCounter *
counter_open_as_owner(FunctionCallInfo fcinfo, const char *function, LOCKMODE mode)
{
	prevent_write(function);
	return counter_open_own(counter_arg(fcinfo), mode);
}

/*
 * counter_open_own does the same for a table that is not the first argument.
 */
DcCounter *
counter_open_own(Oid relid, LOCKMODE mode)
{
	return counter_open(relid, mode, ACL_NO_RIGHTS);
}

/*
 * counter_open_at_once opens a counter table without waiting for any lock, and
 * without asking for rights. Returns NULL if it is locked by DDL, or cannot be
 * used in its state.
 */
DcCounter *
counter_open_at_once(Oid relid, LOCKMODE mode)
{
	DcCounter *counter;
	DcCounterRow row;

	if (!counter_lock_at_once(relid, mode, &row))
		return NULL;
	counter = counter_find(relid);
	if (counter == NULL || counter->row.shards != row.shards ||
		counter->rls || !OidIsValid(counter->owner) ||
		!counter_has_layout(counter))
		return NULL;
	return counter;
}

/*
 * counter_open_in_passing does the same for statistics and views, which only look. It returns
 * NULL also for a counter with very many partitions, unless a superuser owns it: their locks
 * could fill the lock table of the server.
 */
DcCounter *
counter_open_in_passing(Oid relid)
{
	DcCounterRow row;

	if (!catalog_lock_at_once() || !catalog_read(relid, &row))
		return NULL;
	if (!superuser_arg(relation_owner(relid)) &&
		(list_length(relation_members_most(relid, NoLock, DC_MANY_MEMBERS)) > DC_MANY_MEMBERS ||
		 list_length(relation_members_most(row.shards, NoLock, DC_MANY_MEMBERS)) > DC_MANY_MEMBERS))
		return NULL;
	return counter_open_at_once(relid, AccessShareLock);
}

/*
 * counter_lock_at_once locks a counter table, its shard table, and the partitions of both
 * without waiting; not through the cache, which would wait for these. Sets the row with its
 * settings. Returns false if not all can be locked, or it is not a counter table.
 */
bool
counter_lock_at_once(Oid relid, LOCKMODE mode, DcCounterRow *row)
{
	return catalog_lock_at_once() && lock_at_once(relid, mode) &&
		catalog_read(relid, row) && lock_at_once(row->shards, mode);
}

/*
 * lock_at_once locks a table and its partitions, without waiting, and their indexes as a reader
 * does: REINDEX locks one of these alone.
 */
static bool
lock_at_once(Oid relid, LOCKMODE mode)
{
	List *members;
	ListCell *lc;

	if (!ConditionalLockRelationOid(relid, mode) || !indexes_lock_at_once(relid))
		return false;
	if (get_rel_relkind(relid) != RELKIND_PARTITIONED_TABLE)
		return true;
	members = relation_members(relid, NoLock);
	foreach(lc, members)
	{
		if (!ConditionalLockRelationOid(lfirst_oid(lc), mode) || !indexes_lock_at_once(lfirst_oid(lc)))
			return false;
	}
	list_free(members);
	return true;
}

/*
 * read_snapshot_push makes active the snapshot that a read function answers from: the caller's,
 * unless this transaction has written something since that was taken. Then, under READ
 * COMMITTED, it is a new one: our own compaction, for example, may have moved amounts that the
 * caller's snapshot does not see yet, and such a row must be seen in its old place or in its
 * new one. Under REPEATABLE READ it is the transaction's snapshot with our own writes, which
 * cannot have touched rows that it does not see. Undone by PopActiveSnapshot().
 *
 * The lock on a table may have been waited for, while the table was rewritten, by REPACK
 * (CONCURRENTLY) or some forms of ALTER TABLE: its rows are as if they were inserted by that, and a
 * snapshot from before shows none. SQL takes its snapshots when it has the locks. So under READ
 * COMMITTED a new one is taken here as well.
 */
void
read_snapshot_push(void)
{
	if (!ActiveSnapshotSet())
		PushActiveSnapshot(GetTransactionSnapshot());
	else if (!IsolationUsesXactSnapshot() && TransactionIdIsNormal(opened_altered_by) &&
			 XidInMVCCSnapshot(opened_altered_by, GetActiveSnapshot()))
		latest_snapshot_push();
	else if (IsInParallelMode() ||
			 GetActiveSnapshot()->curcid == GetCurrentCommandId(false))
		PushActiveSnapshot(GetActiveSnapshot());
	else if (IsolationUsesXactSnapshot())
	{
		PushCopiedSnapshot(GetActiveSnapshot());
		UpdateActiveSnapshotCommandId();
	}
	else
		PushActiveSnapshot(GetLatestSnapshot());
}

/*
 * read_snapshot_note notes that a further table of the counter that was opened last is to be read,
 * and is locked.
 */
void
read_snapshot_note(Oid relid)
{
	HeapTuple tuple = SearchSysCache1(RELOID, ObjectIdGetDatum(relid));
	TransactionId xid;

	if (!HeapTupleIsValid(tuple))
		return; /* code of an owner has dropped it, which its reader will notice */
	xid = HeapTupleHeaderGetXmin(tuple->t_data);
	ReleaseSysCache(tuple);
	if (TransactionIdIsNormal(xid) &&
		(!TransactionIdIsNormal(opened_altered_by) || TransactionIdFollows(xid, opened_altered_by)))
		opened_altered_by = xid;
}

/*
 * latest_snapshot_push makes a new snapshot active, also in the leader of a parallel query, where
 * GetLatestSnapshot() raises an error. Undone by PopActiveSnapshot().
 */
void
latest_snapshot_push(void)
{
	static SnapshotData own = {SNAPSHOT_MVCC};

	PushActiveSnapshot(IsInParallelMode() ? GetSnapshotData(&own) : GetLatestSnapshot());
}

/*
 * counter_lock locks a counter table and its shard table, and returns false if it is no longer
 * a counter table once it is locked.
 */
bool
counter_lock(Oid relid, LOCKMODE mode)
{
	DcCounter *counter = counter_find(relid);
	Oid shards;

	if (counter == NULL)
		return false;
	LockRelationOid(relid, mode);
	counter = counter_find(relid);
	if (counter == NULL)
		return false;
	shards = counter->row.shards;
	LockRelationOid(shards, mode);
	counter = counter_find(relid);
	return counter != NULL && counter->row.shards == shards;
}

/*
 * counter_lock_partitions locks the partitions of a table of totals, if it has any, as
 * the statements that write to it will. A call that locks shard rows before it writes to
 * the totals does this first: TRUNCATE of a partition has that locked, and waits for shard
 * rows.
 */
void
counter_lock_partitions(const DcCounter *counter)
{
	if (get_rel_relkind(counter->relid) == RELKIND_PARTITIONED_TABLE)
		list_free(relation_members(counter->relid, RowExclusiveLock));
}

/*
 * counter_forget_open forgets the table that was opened to write, when a transaction or
 * subtransaction ends and may release the locks.
 */
void
counter_forget_open(void)
{
	last_write.counter = NULL;
}

/*
 * counter_open checks rights, then locks and looks up: all of `rights` on the
 * table of totals, or its ownership when rights is ACL_NO_RIGHTS.
 */
static DcCounter *
counter_open(Oid relid, LOCKMODE mode, AclMode rights)
{
	DcCounter *counter;
	uint64 invalidations;

	AcceptInvalidationMessages(); /* to notice a REVOKE; plain SQL does so too */
	do
	{
		counter = counter_lookup(relid); /* "is not a counter table" comes first */
		invalidations = SharedInvalidMessageCounter;
		if (!rights_are_known(counter, rights))
			table_check_rights(relid, rights);
		/* the table may have been replaced while we waited */
	} while (!counter_lock(relid, mode));
	counter = counter_lookup(relid);
	if (SharedInvalidMessageCounter != invalidations)
		table_check_rights(relid, rights); /* and the rights may have changed */
	else
	{
		note_checked(&last_rights, counter, role_changes);
		last_rights_found = rights;
	}
	if (rights != ACL_NO_RIGHTS) /* the owner may repair it */
		distribution_check(counter);
	counter_layout(counter);
	opened_altered_by = counter->altered_by;
	if (mode == RowExclusiveLock)
		counter_check_deferred(counter, false);
	if (stats_hooks != NULL)
		stats_hooks->attach(counter);
	return counter;
}

/*
 * Return true if the rights that are needed have been checked, and nothing
 * has changed since.
 */
static bool
rights_are_known(const DcCounter *counter, AclMode rights)
{
	return last_rights.counter == counter && still_holds(&last_rights) &&
		last_rights_found == rights;
}

/*
 * table_check_rights checks all of `rights` on a table, or ownership if there are none.
 */
void
table_check_rights(Oid relid, AclMode rights)
{
	AclMode missing;

	if (rights == ACL_NO_RIGHTS)
	{
		prevent_not_owner(relid);
		return;
	}
	missing = rights & ~pg_class_aclmask(relid, GetUserId(), rights, ACLMASK_ALL);
	if (missing != ACL_NO_RIGHTS)
		permission_error(relid, missing);
}

/*
 * Raise 42501, as the server does, with the privileges that are missing and the statement that
 * grants them. Nobody may write to a bound counter, so a privilege would be of no use there.
 */
void
permission_error(Oid relid, AclMode missing)
{
	static const struct
	{
		AclMode right;
		const char *name;
	} names[] = {{ACL_SELECT, "SELECT"}, {ACL_INSERT, "INSERT"}, {ACL_UPDATE, "UPDATE"}, {ACL_DELETE, "DELETE"}};
	char kind = get_rel_relkind(relid);
	DcCounter *counter = (missing & ~ACL_SELECT) != 0 ? counter_find(relid) : NULL;
	StringInfoData privileges;

	initStringInfo(&privileges);
	for (int i = 0; i < lengthof(names); i++)
	{
		if (missing & names[i].right)
			appendStringInfo(&privileges, "%s%s", privileges.len == 0 ? "" : ", ", names[i].name);
	}
	ereport(ERROR,
			(errcode(ERRCODE_INSUFFICIENT_PRIVILEGE),
			 errmsg("permission denied for %s %s",
					kind == RELKIND_VIEW ? "view" : kind == RELKIND_FOREIGN_TABLE ? "foreign table"
																				  : "table",
					get_rel_name(relid)),
			 counter != NULL && counter->bound
				 ? errhint("It is bound to a source table: change the rows of that table instead.")
				 : errhint("Its owner can allow it with GRANT %s ON %s TO %s.", privileges.data, relation_sql_name(relid),
						   quote_identifier(GetUserNameFromId(GetUserId(), false)))));
}

/*
 * prevent_not_owner raises 42501 if the current user does not own a table, or the view of a window.
 */
void
prevent_not_owner(Oid relid)
{
	if (!compat_owns_relation(relid, GetUserId()))
		aclcheck_error(ACLCHECK_NOT_OWNER, get_relkind_objtype(get_rel_relkind(relid)), get_rel_name(relid));
}
