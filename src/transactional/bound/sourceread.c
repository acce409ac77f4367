/*
 * sourceread.c
 *		Opening a bound counter table and its source for reading both in one snapshot.
 *
 * Copyright (c) 2026, the dcounter developers
 *
 * For each key, source minus counter is the same in every snapshot that shows the binding, except
 * for what changes values other than with rows of the source, which changes the epoch. That is so
 * because each transaction changes both sides in one commit. A few things are not as MVCC has it,
 * so a snapshot must not be any:
 *
 *	- TRUNCATE, rewrites and COPY FREEZE put rows, or take them away, in the eyes of older
 *	  snapshots. So the tables are locked first, ACCESS SHARE, and then the snapshot is taken.
 *	  Under REPEATABLE READ it is there already: it must see the row of pg_class of each
 *	  table, which such commands replace. If it does not, that is error 25001.
 *	- ATTACH PARTITION does not wait for our lock on the parent. So the partitions that the
 *	  snapshot shows are compared with those that are locked; if others have come, all is done
 *	  again, with a new snapshot. DETACH has to wait for our locks, except for its first part, with
 *	  CONCURRENTLY: between its two transactions it is undecided whether the rows of the partition
 *	  count, and the error is 55000.
 *	- The snapshot of a REPEATABLE READ transaction may be older than the binding: 25001. A
 *	  binding that this transaction itself has made after it took the snapshot counts as newer:
 *	  other sessions may have committed in between.
 *	- Rows that a statement of this session has written, but whose triggers have not
 *	  run yet: a function that is called by such a statement, or by a trigger of it, would
 *	  see them on one side only: 55006.
 *
 * Order: source_read_lock() finds the binding and locks the source and its partitions. Then the
 * caller locks the counter tables, and the binding if it is going to add. Then
 * source_read_begin() takes the snapshot. Locks are kept until the transaction ends.
 */
#include "postgres.h"

#include "access/genam.h"
#include "access/htup_details.h"
#include "access/table.h"
#include "access/transam.h"
#include "access/xact.h"
#include "catalog/indexing.h"
#include "catalog/pg_class.h"
#include "catalog/pg_inherits.h"
#include "commands/trigger.h"
#include "miscadmin.h"
#include "storage/lmgr.h"
#include "utils/fmgroids.h"
#include "utils/lsyscache.h"
#include "utils/snapmgr.h"
#include "utils/syscache.h"

#include "base/catrow.h"
#include "base/compat.h"
#include "base/errors.h"
#include "base/relopen.h"
#include "transactional/bound/sourceread.h"

/* How often partitions may come while we look. */
#define MAX_TRIES 100

static bool lock_members(DcSourceRead *read);
static bool has_many(const DcSourceRead *read, const List *members);
static bool sourceread_lock_table(const DcSourceRead *read, Oid relid);
static List *list_members(DcSourceRead *read, Snapshot snapshot);
static List *list_children(DcSourceRead *read, Oid parent, Snapshot snapshot);
static void push_snapshot(bool newest);
static void sourceread_check_snapshot(DcSourceRead *read);
static void check_read_table(DcSourceRead *read, Oid relid);
pg_noreturn static void too_old_error(const DcSourceRead *read, const char *detail);
static void check_no_events(DcSourceRead *read);

/*
 * source_read_lock finds the binding of a counter table and locks the source ACCESS SHARE, with
 * all partitions and the tables that belong to the binding. Returns false if it is not bound,
 * or if a lock is taken and `wait` forbids waiting. Error messages name the SQL function as
 * `function` says.
 */
bool
source_read_lock(DcSourceRead *read, Oid counter, const char *function, DcSourceWait wait)
{
	Oid source;

	memset(read, 0, sizeof(*read));
	read->function = function;
	read->wait = wait;
	read->counter_id = counter;
	if (!source_read(counter, &read->row))
		return false;
	do
	{
		source = read->row.source;
		if (!sourceread_lock_table(read, source) || !lock_members(read) ||
			(OidIsValid(read->row.refs) && !sourceread_lock_table(read, read->row.refs)) ||
			(OidIsValid(read->row.carried) && !sourceread_lock_table(read, read->row.carried)))
			return false;
		if (!source_read(counter, &read->row))
			return false;
	} while (read->row.source != source);
	return true;
}

/*
 * lock_members locks all partitions that there are.
 */
static bool
lock_members(DcSourceRead *read)
{
	ListCell *lc;
	List *now;

	for (int i = 0; i < MAX_TRIES; i++)
	{
		now = list_members(read, NULL);
		if (has_many(read, now))
			return false;
		if (list_difference_oid(now, read->members) == NIL)
		{
			read->members = now;
			return true;
		}
		read->members = now;
		foreach(lc, now)
		{
			if (!sourceread_lock_table(read, lfirst_oid(lc)))
				return false;
		}
	}
	return false;
}

/*
 * Return true if the worker is to leave a source to its owner, as it has very many partitions: each
 * is a lock.
 */
static bool
has_many(const DcSourceRead *read, const List *members)
{
	return list_length(members) > DC_MANY_MEMBERS && compat_is_background_worker() &&
		!superuser_arg(relation_owner(read->row.source));
}

/*
 * Lock a table ACCESS SHARE; false if that would have to wait, and read->wait forbids it.
 */
static bool
sourceread_lock_table(const DcSourceRead *read, Oid relid)
{
	if (read->wait == DC_SOURCE_AT_ONCE)
		return ConditionalLockRelationOid(relid, AccessShareLock);
	LockRelationOid(relid, AccessShareLock);
	return true;
}

/*
 * list_members lists the source and its partitions, as a snapshot shows them, or as they are now
 * (NULL).
 */
static List *
list_members(DcSourceRead *read, Snapshot snapshot)
{
	List *members = list_make1_oid(read->row.source);
	ListCell *lc;

	if (get_rel_relkind(read->row.source) != RELKIND_PARTITIONED_TABLE)
		return members;
	foreach(lc, members) /* which grows in the meantime */
	{
		CHECK_FOR_INTERRUPTS();
		members = list_concat(members, list_children(read, lfirst_oid(lc), snapshot));
	}
	return members;
}

/*
 * List the direct partitions of a table, as a snapshot or (NULL) the catalog now shows them.
 * Raises 55000 if the snapshot shows one that is being detached concurrently.
 */
static List *
list_children(DcSourceRead *read, Oid parent, Snapshot snapshot)
{
	Relation rel = table_open(InheritsRelationId, AccessShareLock);
	List *children = NIL;
	Oid detached = InvalidOid;
	SysScanDesc scan;
	ScanKeyData key;
	HeapTuple tuple;

	ScanKeyInit(&key, Anum_pg_inherits_inhparent, BTEqualStrategyNumber, F_OIDEQ,
				ObjectIdGetDatum(parent));
	scan = systable_beginscan(rel, InheritsParentIndexId, true, snapshot, 1, &key);
	while (HeapTupleIsValid(tuple = systable_getnext(scan)))
	{
		Form_pg_inherits inherits = (Form_pg_inherits) GETSTRUCT(tuple);

		children = lappend_oid(children, inherits->inhrelid);
		if (inherits->inhdetachpending)
			detached = inherits->inhrelid;
	}
	systable_endscan(scan);
	table_close(rel, AccessShareLock);
	if (OidIsValid(detached) && snapshot != NULL)
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("cannot execute %s while partition \"%s\" of \"%s\" is being detached",
						read->function, get_rel_name(detached), get_rel_name(parent)),
				 errhint("Wait until that is done. If it was interrupted, use ALTER TABLE ... DETACH PARTITION ... FINALIZE.")));
	return children;
}

/*
 * source_read_begin makes a snapshot active, and checks that it can be used. The caller has
 * locked the counter tables. With `newest` it is taken now, under all isolation levels. Returns
 * false if the table is not bound any more, or partitions come too fast.
 */
bool
source_read_begin(DcSourceRead *read, DcCounter *counter, bool newest)
{
	newest |= !IsolationUsesXactSnapshot();
	read->counter = counter;
	for (int i = 0; i < MAX_TRIES; i++)
	{
		List *members;
		Oid source = read->row.source;

		push_snapshot(newest);
		if (!source_read(read->counter_id, &read->row) || read->row.source != source)
		{
			PopActiveSnapshot();
			return false;
		}
		members = list_members(read, GetActiveSnapshot());
		if (list_difference_oid(members, read->members) == NIL &&
			(newest || list_difference_oid(read->members, members) == NIL))
		{
			read->members = members;
			read->snapshot = GetActiveSnapshot();
			break;
		}
		if (!newest)
			too_old_error(read, "Partitions were attached or detached since it was taken.");
		PopActiveSnapshot();
		if (!lock_members(read))
			return false;
	}
	if (read->snapshot == NULL)
		return false;
	if (!newest)
		sourceread_check_snapshot(read);
	else if (!source_state_read_in(read->counter_id, read->snapshot, &read->state))
		elog(ERROR, "no state of counter table %u", read->counter_id);
	read->leaves = NIL;
	for (int i = 0; i < list_length(read->members); i++)
	{
		Oid relid = list_nth_oid(read->members, i);

		if (get_rel_relkind(relid) == RELKIND_RELATION)
			read->leaves = lappend_oid(read->leaves, relid);
	}
	check_no_events(read);
	return true;
}

/*
 * push_snapshot makes active a snapshot with all that this transaction has written so far.
 */
static void
push_snapshot(bool newest)
{
	if (newest)
		PushActiveSnapshot(GetLatestSnapshot());
	else
	{
		PushCopiedSnapshot(GetTransactionSnapshot());
		UpdateActiveSnapshotCommandId();
	}
}

/*
 * source_read_end undoes source_read_begin().
 */
void
source_read_end(DcSourceRead *read)
{
	Assert(read->snapshot == GetActiveSnapshot());
	PopActiveSnapshot();
	read->snapshot = NULL;
}

/*
 * sourceread_check_snapshot raises 25001 if a snapshot that was taken before the locks is too old.
 */
static void
sourceread_check_snapshot(DcSourceRead *read)
{
	DcSourceRow row;
	ListCell *lc;

	if (!source_read_in(read->counter_id, read->snapshot, &row) ||
		!source_state_read_in(read->counter_id, read->snapshot, &read->state) ||
		TransactionIdIsCurrentTransactionId(row.xmin))
		too_old_error(read, "It is older than the binding.");
	if (row.source != read->row.source || !source_texts_equal(&row, &read->row) || row.refs != read->row.refs || row.carried != read->row.carried)
		too_old_error(read, "The binding was changed since it was taken.");
	foreach(lc, read->members)
		check_read_table(read, lfirst_oid(lc));
	check_read_table(read, read->counter_id);
}

/*
 * check_read_table raises 25001 if the snapshot does not show what the last DDL has made of a
 * table.
 */
static void
check_read_table(DcSourceRead *read, Oid relid)
{
	HeapTuple tuple = SearchSysCache1(RELOID, ObjectIdGetDatum(relid));
	TransactionId xmin;

	if (!HeapTupleIsValid(tuple))
		relation_missing_error(relid);
	xmin = HeapTupleHeaderGetXmin(tuple->t_data);
	ReleaseSysCache(tuple);
	if (TransactionIdIsCurrentTransactionId(xmin) || XidInMVCCSnapshot(xmin, read->snapshot))
		too_old_error(read, psprintf(_("\"%s\" was truncated, rewritten or altered since it was taken."), get_rel_name(relid)));
}

/*
 * Raise 25001: the transaction's snapshot is too old, with the reason as DETAIL.
 */
static void
too_old_error(const DcSourceRead *read, const char *detail)
{
	ereport(ERROR,
			(errcode(ERRCODE_ACTIVE_SQL_TRANSACTION),
			 errmsg("the snapshot of this transaction is too old for %s", read->function),
			 errdetail_internal("%s", _(detail)),
			 errhint("Use READ COMMITTED, or begin another transaction.")));
}

/*
 * check_no_events raises 55006 if there are rows whose triggers have not run yet.
 */
static void
check_no_events(DcSourceRead *read)
{
	ListCell *lc;

	if (!TransactionIdIsValid(GetTopTransactionIdIfAny()))
		return; /* nothing was written */
	foreach(lc, read->members)
	{
		if (AfterTriggerPendingOnRel(lfirst_oid(lc)))
			ereport(ERROR,
					(errcode(ERRCODE_OBJECT_IN_USE),
					 errmsg("cannot execute %s while \"%s\" has pending trigger events", read->function, get_rel_name(lfirst_oid(lc))),
					 errhint("Call it as a statement of its own, after SET CONSTRAINTS ALL IMMEDIATE if constraints are deferred.")));
	}
}
