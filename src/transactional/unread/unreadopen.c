/*
 * unreadopen.c
 *		Opening an unread table: rights, locks, shape.
 *
 * Copyright (c) 2026, the dcounter developers
 *
 * Such a table belongs to a user, who may alter it in any way at any time. It is read and
 * written without SQL alone (unreadseen.c), so that neither code of its owner nor row security
 * applies: to be read it must be a plain table of its shape, and to be written it must have
 * nothing on it but plain indexes. Otherwise the call is refused, which harms only the owner.
 *
 * The counter table is locked first, then this one (ACCESS SHARE to read, ROW EXCLUSIVE to
 * write), both to the end of the transaction. Nothing that was known before the locks is
 * trusted after them. The relation is open before the shape is checked: as long as it is, this
 * session's own code cannot alter it (core/table/shape.c). That code may add a trigger or an index
 * even to an open table, so these are searched for again before a row is written (seenrel_check).
 *
 * The two tables have one owner. What dc_delete() of the counter has to write here would
 * otherwise depend on another role. When they do not, calls are refused, and dc_delete() passes
 * the table over.
 */
#include "postgres.h"

#include "access/genam.h"
#include "access/table.h"
#include "catalog/pg_class.h"
#include "catalog/pg_collation.h"
#include "catalog/pg_type.h"
#include "executor/executor.h"
#include "storage/lmgr.h"
#include "utils/inval.h"
#include "utils/lsyscache.h"
#include "utils/syscache.h"

#include "base/args.h"
#include "base/errors.h"
#include "base/relcached.h"
#include "base/relopen.h"
#include "core/rows/insert.h"
#include "core/table/access.h"
#include "core/table/layout.h"
#include "transactional/unread/unread.h"

static void unreadopen_entry_changed(void *data, Oid relid);
static bool unreadopen_fill(void *entry, void *arg);
static void unreadopen_check_owner(const DcUnread *unread, const DcCounter *counter);
static void unreadopen_check_shape(DcUnread *unread, Relation heap);
pg_noreturn static void write_error(Relation heap, const char *detail);

static const DcShape unread_shape = {
	.relkinds = "r",
	.part = true, /* such a table can be read (write_problem) */
	.logged = true,
	.nkeys = 2,
	.keys = {SEEN_MEMBER, SEEN_KEY},
	.ncolumns = SEEN_NUM_COLUMNS,
	.columns = {[SEEN_MEMBER] = {"member", TEXTOID, C_COLLATION_OID},
				[SEEN_KEY] = {"key", TEXTOID, C_COLLATION_OID},
				[SEEN_SEEN] = {"seen", INT8OID}}};

static DcRelCached entries = {
	.name = "dcounter unread",
	.keysize = sizeof(Oid),
	.size = sizeof(DcUnread),
	.changed = unreadopen_entry_changed,
};

/*
 * Mark the entry of a table that has changed as invalid; InvalidOid stands for all tables. Must
 * not throw.
 */
static void
unreadopen_entry_changed(void *data, Oid relid)
{
	DcUnread *entry = data;

	if (!OidIsValid(relid) || entry->relid == relid)
		entry->valid = false;
}

/*
 * unread_find returns the entry of a table, or NULL if it is not an unread table.
 */
DcUnread *
unread_find(Oid relid)
{
	DcUnread *entry = relcached_enter_relation(&entries, relid);

	if (entry == NULL)
		return NULL;
	if (entry->valid || relcached_fill(entry, &entry->valid, unreadopen_fill, NULL))
		return entry;
	return NULL;
}

/*
 * Fill an entry from the catalogs; false if the table is not an unread table.
 */
static bool
unreadopen_fill(void *data, void *arg)
{
	DcUnread *entry = data;
	HeapTuple tuple;

	if (!unread_read(entry->relid, &entry->row))
		return false;
	tuple = SearchSysCache1(RELOID, ObjectIdGetDatum(entry->relid));
	if (!HeapTupleIsValid(tuple))
		return false;
	entry->owner = ((Form_pg_class) GETSTRUCT(tuple))->relowner;
	entry->rls = ((Form_pg_class) GETSTRUCT(tuple))->relrowsecurity;
	entry->checked = false;
	ReleaseSysCache(tuple);
	return true;
}

/*
 * unread_lookup does the same, but raises an error: 42P01 if there is no such relation, 42809
 * if it is not an unread table.
 */
DcUnread *
unread_lookup(Oid relid)
{
	DcUnread *unread = unread_find(relid);
	char *name = unread == NULL ? get_rel_name(relid) : NULL;

	if (unread != NULL)
		return unread;
	if (name == NULL)
		relation_missing_error(relid);
	ereport(ERROR,
			(errcode(ERRCODE_WRONG_OBJECT_TYPE),
			 errmsg("\"%s\" is not an unread table", name),
			 errhint("Create one with dc_unread_create(), or register a restored one with dc_unread_adopt().")));
}

/*
 * seenrel_open opens the table in argument 0, and its counter table, which it returns. The caller
 * needs SELECT on the counter table, and on this one SELECT to read, INSERT and UPDATE to write.
 *
 * Errors: 22004 for NULL, those of unread_lookup() and counter_lookup(), 42501 without these
 * rights, 25006 to write in a read-only transaction, 0A000 for row security, 55000 for
 * different owners, 42809 for a table that is not as it was created.
 */
DcCounter *
seenrel_open(FunctionCallInfo fcinfo, const char *function, bool write, DcSeenRel *rel)
{
	AclMode rights = write ? ACL_INSERT | ACL_UPDATE : ACL_SELECT;
	LOCKMODE mode = write ? RowExclusiveLock : AccessShareLock;
	DcCounter *counter;
	DcUnread *unread;
	Oid relid;

	arg_not_null(fcinfo, 0, "unread");
	relid = PG_GETARG_OID(0);
	if (write)
		prevent_write(function);
	AcceptInvalidationMessages(); /* to notice a REVOKE, for example; plain SQL does so too */
	for (;;)
	{
		Oid of = unread_lookup(relid)->row.counter;

		table_check_rights(relid, rights); /* before a lock, so that it cannot be used to disturb other sessions */
		counter = counter_open_read(of, function);
		LockRelationOid(relid, mode);
		unread = unread_lookup(relid);
		if (unread->row.counter == of)
			break;
		UnlockRelationOid(relid, mode); /* replaced while we waited */
	}
	table_check_rights(relid, rights);
	unread_check_counter(counter, function);
	unreadopen_check_owner(unread, counter);
	*rel = (DcSeenRel){.unread = unread, .mode = mode};
	rel->heap = table_open_present(relid, NoLock);
	seenrel_check(rel);
	return counter;
}

/*
 * seenrel_open_at opens a table to write, for a function of its counter table, which is locked.
 * Returns false if it is no longer an unread table, or has another owner.
 */
bool
seenrel_open_at(Oid relid, const DcCounter *counter, DcSeenRel *rel)
{
	DcUnread *unread;

	LockRelationOid(relid, RowExclusiveLock);
	unread = unread_find(relid);
	return unread != NULL && unread->row.counter == counter->relid && unread->owner == counter->owner &&
		seenrel_open_again(relid, rel);
}

/*
 * seenrel_open_again opens a table that this transaction has locked to write. Returns false if
 * it is no longer an unread table.
 */
bool
seenrel_open_again(Oid relid, DcSeenRel *rel)
{
	DcUnread *unread = unread_find(relid);

	if (unread == NULL)
		return false;
	*rel = (DcSeenRel){.unread = unread, .mode = RowExclusiveLock};
	rel->heap = table_open_present(relid, NoLock);
	seenrel_check(rel);
	return true;
}

/*
 * seenrel_check checks the shape again, if something may have changed, and opens the index.
 */
void
seenrel_check(DcSeenRel *rel)
{
	DcUnread *unread = rel->unread;

	if (!unread->valid && unread_find(unread->relid) == NULL) /* the same entry */
		layout_altered_error(rel->heap);
	if (!unread->checked)
	{
		unreadopen_check_shape(unread, rel->heap);
		unread->checked = true;
	}
	if (rel->mode == RowExclusiveLock && !unread->writable)
		write_error(rel->heap, write_problem(rel->heap, unread->layout.alone));
	if (rel->index != NULL && RelationGetRelid(rel->index) == unread->layout.index)
		return;
	if (rel->index != NULL)
		index_close(rel->index, NoLock);
	else if (rel->mode == RowExclusiveLock)
		CheckCmdReplicaIdentity(rel->heap, CMD_UPDATE);
	rel->index = index_open(unread->layout.index, rel->mode);
}

/*
 * seenrel_end_reads ends the reads of a table, before their snapshot is popped; later reads use
 * another one.
 */
void
seenrel_end_reads(DcSeenRel *rel)
{
	if (rel->scan != NULL)
		index_endscan(rel->scan);
	rel->scan = NULL;
	if (rel->slot != NULL)
		ExecDropSingleTupleTableSlot(rel->slot);
	rel->slot = NULL;
}

/*
 * Close an unread table; its lock is kept.
 */
void
seenrel_close(DcSeenRel *rel)
{
	seenrel_end_reads(rel);
	index_close(rel->index, NoLock);
	table_close(rel->heap, NoLock);
}

/*
 * unread_check_shape raises 42809 if a table, which is locked and open, cannot be an unread
 * table.
 */
void
unread_check_shape(Relation heap)
{
	DcUnread unread = {0};

	unreadopen_check_shape(&unread, heap);
	if (!unread.writable)
		write_error(heap, write_problem(heap, unread.layout.alone));
}

/*
 * Check the shape of an open table, and note whether it can be written. Raises 42809 if it
 * cannot be read without SQL.
 */
static void
unreadopen_check_shape(DcUnread *unread, Relation heap)
{
	DcShapeProblem problem = {0};

	shape_check(heap, &unread_shape, &unread->layout);
	if (!unread->layout.heap)
		problem.detail = _("It is not stored as a heap.");
	else if (!OidIsValid(unread->layout.index))
		problem.detail = _("Its index on (member, key) has a different order, or additional columns.");
	if (problem.detail != NULL)
		shape_error(RelationGetRelationName(heap), &problem);
	unread->writable = write_problem(heap, unread->layout.alone) == NULL;
}

/*
 * Raise 42809 with the reason why a table cannot be written.
 */
static void
write_error(Relation heap, const char *detail)
{
	DcShapeProblem problem = {
		.detail = detail,
		.hint = _("Only plain indexes may be added to an unread table."),
	};

	shape_error(RelationGetRelationName(heap), &problem);
}

/*
 * unread_check_counter raises an error for a counter table whose increments cannot be read by
 * members: 42809 for a stock and for a ledger, which have other numbers, and 0A000 if other
 * regions count in it. Setting a key in one region takes away increments of the others, in each
 * region at another moment, so their number does not only grow.
 */
void
unread_check_counter(const DcCounter *counter, const char *function)
{
	prevent_replicated(counter, function);
	prevent_sampled(counter, function);
	prevent_idle(counter, function);
	if (!counter_is_stock(counter) && !OidIsValid(counter->row.ledger))
		return;
	ereport(ERROR,
			(errcode(ERRCODE_WRONG_OBJECT_TYPE),
			 errmsg("cannot execute %s on \"%s\": it is not a plain counter table",
					function, get_rel_name(counter->relid)),
			 counter_is_stock(counter) ? errdetail("It is a stock.") : errdetail("It belongs to a ledger.")));
}

/*
 * Raise 0A000 if the table has row-level security, 55000 if its owner is not the counter
 * table's.
 */
static void
unreadopen_check_owner(const DcUnread *unread, const DcCounter *counter)
{
	if (unread->rls)
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("row-level security is not supported on \"%s\"", get_rel_name(unread->relid)),
				 errhint("Use ALTER TABLE ... DISABLE ROW LEVEL SECURITY.")));
	if (unread->owner != counter->owner)
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("\"%s\" and its counter table \"%s\" have different owners",
						get_rel_name(unread->relid), get_rel_name(counter->relid)),
				 errhint("Use ALTER TABLE ... OWNER TO to give both to one role.")));
}
