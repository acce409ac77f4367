/*
 * relopen.c
 *		Tables that may have gone.
 *
 * Copyright (c) 2026, the dcounter developers
 *
 * The number of a table is known from a row of a catalog, or from a cache. It may be of a table
 * that another session drops while this one waits for the lock, or that code of its owner drops
 * in this session. That is a normal situation, for which the server's functions raise an
 * internal error. So they are called only for the server's own catalogs and from this file
 * (`make lint`): where a table that has gone can be skipped, try_table_open() opens it, otherwise
 * table_open_present().
 */
#include "postgres.h"

#include "access/genam.h"
#include "access/relation.h"
#include "access/table.h"
#include "catalog/pg_class.h"
#include "catalog/pg_inherits.h"
#include "storage/lmgr.h"
#include "utils/builtins.h"
#include "utils/fmgroids.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"
#include "utils/syscache.h"

#include "base/errors.h"
#include "base/relopen.h"

static bool relopen_lock_all_at_once(Oid relid, List **locked);

/*
 * table_open_present opens a table; 42P01 if it has gone.
 */
Relation
table_open_present(Oid relid, LOCKMODE mode)
{
	Relation rel = try_table_open(relid, mode);

	if (rel == NULL)
		relation_missing_error(relid);
	return rel;
}

/*
 * relation_members lists a table, and its partitions or children of all levels, which it locks;
 * NIL if the table was dropped. It does not lock the table itself. Without locks, any of them may
 * have been dropped when this returns.
 */
List *
relation_members(Oid relid, LOCKMODE mode)
{
	return relation_members_most(relid, mode, INT_MAX);
}

/*
 * relation_members_most does the same, but stops when it has more than `most`.
 */
List *
relation_members_most(Oid relid, LOCKMODE mode, int most)
{
	List *members;

	if (!SearchSysCacheExists1(RELOID, ObjectIdGetDatum(relid)))
		return NIL;
	members = list_make1_oid(relid);
	for (int i = 0; i < list_length(members) && list_length(members) <= most; i++)
	{
		Oid member = list_nth_oid(members, i);
		List *children = relation_children(member, mode);
		ListCell *lc;

		CHECK_FOR_INTERRUPTS();
		/* a partition has one parent, a child may have several */
		if (get_rel_relkind(member) == RELKIND_PARTITIONED_TABLE)
			members = list_concat(members, children);
		else
		{
			foreach(lc, children)
			{
				CHECK_FOR_INTERRUPTS();
				if (list_length(members) <= most)
					members = list_append_unique_oid(members, lfirst_oid(lc));
			}
		}
		list_free(children);
	}
	return members;
}

/*
 * relation_children lists the partitions or children of a table, which it locks in the order that
 * all sessions use; NIL if the table was dropped. The server's function also reads this row of
 * pg_class, so it is in the cache then.
 */
List *
relation_children(Oid relid, LOCKMODE mode)
{
	HeapTuple tuple = SearchSysCache1(RELOID, ObjectIdGetDatum(relid));
	bool may = HeapTupleIsValid(tuple) && ((Form_pg_class) GETSTRUCT(tuple))->relhassubclass;

	if (HeapTupleIsValid(tuple))
		ReleaseSysCache(tuple);
	return may ? find_inheritance_children(relid, mode) : NIL;
}

/*
 * relation_parents lists the tables that another one is a partition or a child of, even if it is
 * being detached concurrently, in the order in which it inherits from them. It locks none.
 */
List *
relation_parents(Oid relid)
{
	Relation rel = table_open(InheritsRelationId, AccessShareLock);
	List *parents = NIL;
	ScanKeyData key;
	SysScanDesc scan;
	HeapTuple tuple;

	ScanKeyInit(&key, Anum_pg_inherits_inhrelid, BTEqualStrategyNumber, F_OIDEQ, ObjectIdGetDatum(relid));
	scan = systable_beginscan(rel, InheritsRelidSeqnoIndexId, true, NULL, 1, &key);
	while (HeapTupleIsValid(tuple = systable_getnext(scan)))
	{
		CHECK_FOR_INTERRUPTS();
		parents = lappend_oid(parents, ((Form_pg_inherits) GETSTRUCT(tuple))->inhparent);
	}
	systable_endscan(scan);
	table_close(rel, AccessShareLock);
	return parents;
}

/*
 * relation_ancestors lists a table, its parents, and theirs, of all levels.
 */
List *
relation_ancestors(Oid relid)
{
	List *tables = list_make1_oid(relid);

	for (int i = 0; i < list_length(tables); i++)
		tables = list_concat_unique_oid(tables, relation_parents(list_nth_oid(tables, i)));
	return tables;
}

/*
 * relation_partition_parent returns the table that another one is a partition of, even if it is
 * being detached concurrently; InvalidOid if it is no longer a partition.
 */
Oid
relation_partition_parent(Oid relid)
{
	List *parents = relation_parents(relid);

	return parents != NIL ? linitial_oid(parents) : InvalidOid;
}

/*
 * relation_of_type returns the composite type that a table was created from; InvalidOid if there is
 * none.
 */
Oid
relation_of_type(Oid relid)
{
	HeapTuple tuple = SearchSysCache1(RELOID, ObjectIdGetDatum(relid));
	Oid type = InvalidOid;

	if (HeapTupleIsValid(tuple))
	{
		type = ((Form_pg_class) GETSTRUCT(tuple))->reloftype;
		ReleaseSysCache(tuple);
	}
	return type;
}

/*
 * Return true if a table has no index at all. Tables with a primary key are in this state during a
 * restore, between the data and the constraints. The worker then skips them without a failure.
 */
bool
relation_lacks_indexes(Oid relid)
{
	HeapTuple tuple = SearchSysCache1(RELOID, ObjectIdGetDatum(relid));
	bool lacks;

	if (!HeapTupleIsValid(tuple))
		return false;
	lacks = !((Form_pg_class) GETSTRUCT(tuple))->relhasindex;
	ReleaseSysCache(tuple);
	return lacks;
}

/*
 * indexes_lock_at_once locks the indexes of a locked table as a reader does, without waiting.
 * Returns false if one is locked.
 */
bool
indexes_lock_at_once(Oid relid)
{
	Relation rel = try_relation_open(relid, NoLock);
	bool locked = true;
	List *indexes;
	ListCell *lc;

	if (rel == NULL)
		return true; /* dropped, which the caller finds out */
	indexes = RelationGetIndexList(rel);
	foreach(lc, indexes)
		locked = locked && ConditionalLockRelationOid(lfirst_oid(lc), AccessShareLock);
	list_free(indexes);
	relation_close(rel, NoLock);
	return locked;
}

/*
 * relation_size_at_once sets the size of a table, with its indexes and TOAST table. Returns
 * false if one of these is locked. No lock is kept: looking at sizes must not keep other sessions
 * from TRUNCATE.
 */
bool
relation_size_at_once(Oid relid, int64 *size)
{
	List *locked = NIL;
	bool known = relopen_lock_all_at_once(relid, &locked);
	ListCell *lc;

	if (known)
		*size = DatumGetInt64(DirectFunctionCall1(pg_total_relation_size, ObjectIdGetDatum(relid)));
	foreach(lc, locked)
		UnlockRelationOid(lfirst_oid(lc), AccessShareLock);
	list_free(locked);
	return known;
}

/*
 * relopen_lock_all_at_once locks a relation, its indexes, and its TOAST table with the indexes of
 * that, and adds them to a list.
 */
static bool
relopen_lock_all_at_once(Oid relid, List **locked)
{
	List *others = NIL;
	bool done = true;
	Relation rel;
	ListCell *lc;

	if (!ConditionalLockRelationOid(relid, AccessShareLock))
		return false;
	*locked = lappend_oid(*locked, relid);
	rel = try_relation_open(relid, NoLock);
	if (rel == NULL)
		return false;
	if (rel->rd_rel->relkind != RELKIND_INDEX)
		others = list_copy(RelationGetIndexList(rel));
	if (OidIsValid(rel->rd_rel->reltoastrelid))
		others = lappend_oid(others, rel->rd_rel->reltoastrelid);
	relation_close(rel, NoLock);
	foreach(lc, others)
		done = done && relopen_lock_all_at_once(lfirst_oid(lc), locked);
	list_free(others);
	return done;
}
