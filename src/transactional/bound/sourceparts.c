/*
 * sourceparts.c
 *		Partitions of a source that come and go.
 *
 * Copyright (c) 2026, the dcounter developers
 *
 * ATTACH PARTITION makes rows of a source that no trigger has seen, DETACH takes some away.
 * The event trigger counts them at the end of the command, in its transaction and under its
 * locks (sourcecount.c): nobody else can write to these tables until it has committed.
 *
 *	- ATTACH has locked the table and its partitions ACCESS EXCLUSIVE. It has given them the
 *	  triggers for rows; the one for TRUNCATE is added here, to new partitions as well.
 *	- DETACH has locked the partition ACCESS EXCLUSIVE. Its own partitions were locked when their
 *	  triggers were dropped, and are locked again here. Sums are subtracted, or carried over
 *	  (sourcecarried.c), as each binding says.
 *	- DETACH CONCURRENTLY is two transactions. After the first one the partition cannot be seen
 *	  by way of its parents, but rows that are written to it directly continue to count, as its
 *	  triggers are there, and source_lineage() takes it for what it was. The second one, or
 *	  FINALIZE, is as a plain DETACH. So whatever happens in between, exactly what was counted is
 *	  subtracted.
 *	- DROP of a partition that is attached is refused, as its rows are gone when the event
 *	  trigger is called; with all of the source it may go. The hook that is called before each
 *	  object is dropped notes which table was a partition of which source. The library must be
 *	  there by then: an event trigger for the start of commands loads it (core/table/ddlhooks.c).
 *	- A foreign or unlogged table cannot become a partition: rows would change without a
 *	  trigger, or vanish in a crash.
 *
 * Children by inheritance are not part of a source: a source has none, and cannot get one.
 */
#include "postgres.h"

#include "access/table.h"
#include "access/xact.h"
#include "catalog/namespace.h"
#include "catalog/objectaccess.h"
#include "catalog/pg_class.h"
#include "commands/tablecmds.h"
#include "miscadmin.h"
#include "nodes/parsenodes.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"

#include "base/compat.h"
#include "base/relopen.h"
#include "base/version.h"
#include "core/table/codeddl.h"
#include "transactional/bound/sourceddl.h"

/* A partition that is being dropped. */
typedef struct DcDropped
{
	Oid relid;
	Oid source;
	char *name;
} DcDropped;

/* DcDropped *, in TopTransactionContext of the transaction with this number. */
static List *dropped_parts = NIL;
static LocalTransactionId dropped_in = InvalidLocalTransactionId;

static object_access_hook_type previous_hook = NULL;

static void sourceparts_access_hook(ObjectAccessType access, Oid class, Oid relid, int column, void *arg);
static void note_dropped(Oid relid);
static void sourceparts_attached(Oid parent, Oid relid);
static void sourceparts_detached(Oid parent, Oid relid);
static void sourceparts_joined(Oid relid);
static void count_table(List *rows, Oid relid, bool add);
static void check_not_in_use(Oid relid);
static void check_partition(Oid relid, Oid source);

/*
 * Install the hook that sees tables before they are dropped.
 */
void
source_parts_init(void)
{
	previous_hook = object_access_hook;
	object_access_hook = sourceparts_access_hook;
}

/*
 * Note tables that are about to be dropped, for source_parts_dropped().
 */
static void
sourceparts_access_hook(ObjectAccessType access, Oid class, Oid relid, int column, void *arg)
{
	if (previous_hook != NULL)
		previous_hook(access, class, relid, column, arg);
	if (access == OAT_DROP && class == RelationRelationId && column == 0)
		note_dropped(relid);
}

/*
 * note_dropped notes what a table that is about to be dropped is a partition of.
 */
static void
note_dropped(Oid relid)
{
	char kind;
	ListCell *lc;

	if (!get_rel_relispartition(relid) || get_rel_persistence(relid) == RELPERSISTENCE_TEMP || version_is_older())
		return;
	kind = get_rel_relkind(relid);
	if (kind != RELKIND_RELATION && kind != RELKIND_PARTITIONED_TABLE)
		return;
	if (dropped_in != compat_local_xid())
		dropped_parts = NIL;
	dropped_in = compat_local_xid();
	foreach(lc, source_lineage(relid))
	{
		MemoryContext old;
		DcDropped *note;

		if (lfirst_oid(lc) == relid || source_rows_of(lfirst_oid(lc)) == NIL)
			continue;
		old = MemoryContextSwitchTo(TopTransactionContext);
		note = palloc(sizeof(DcDropped));
		note->relid = relid;
		note->source = lfirst_oid(lc);
		note->name = get_rel_name(relid);
		dropped_parts = lappend(dropped_parts, note);
		MemoryContextSwitchTo(old);
	}
}

/*
 * source_parts_dropped raises 2BP01 if a command has dropped a partition of a source that stays.
 */
void
source_parts_dropped(const DcDdl *ddl)
{
	ListCell *lc;

	if (dropped_in != compat_local_xid())
		return;
	foreach(lc, dropped_parts)
	{
		DcDropped *note = lfirst(lc);

		if (list_member_oid(ddl->relations, note->relid) &&
			!list_member_oid(ddl->relations, note->source))
			ereport(ERROR,
					(errcode(ERRCODE_DEPENDENT_OBJECTS_STILL_EXIST),
					 errmsg("cannot drop table \"%s\" because it is a partition of \"%s\", whose rows are counted",
							note->name, get_rel_name(note->source)),
					 errdetail("The counters that are bound to it would go on counting its rows."),
					 errhint("Use ALTER TABLE ... DETACH PARTITION first.")));
	}
}

/*
 * source_parts_changed counts the rows of partitions that a command has attached or detached.
 */
void
source_parts_changed(const DcDdl *ddl)
{
	ListCell *lc;

	foreach(lc, ddl->partitions)
	{
		DcDdlPartition *partition = lfirst(lc);

		if (partition->attached)
			sourceparts_attached(partition->parent, partition->relid);
		else
			sourceparts_detached(partition->parent, partition->relid);
	}
	if (IsA(ddl->parsetree, AlterTableStmt) || !makes_relatives(ddl->parsetree))
		return;
	foreach(lc, ddl->relations)
	{
		if (get_rel_relispartition(lfirst_oid(lc)))
			sourceparts_joined(lfirst_oid(lc));
	}
}

/*
 * source_children_check raises 0A000 if a command has made a table a child, by inheritance, of a
 * source.
 */
void
source_children_check(const DcDdl *ddl)
{
	ListCell *lc;

	if (!makes_relatives(ddl->parsetree))
		return;
	foreach(lc, ddl->relations)
	{
		ListCell *lc2;

		foreach(lc2, relation_ancestors(lfirst_oid(lc)))
		{
			Oid source = lfirst_oid(lc2);

			if (source == lfirst_oid(lc) || get_rel_relkind(source) != RELKIND_RELATION || source_rows_of(source) == NIL)
				continue;
			ereport(ERROR,
					(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
					 errmsg("a table cannot inherit from \"%s\", whose rows are counted", get_rel_name(source)),
					 errhint("Use partitions.")));
		}
	}
}

/*
 * Before ALTER TABLE ... ATTACH PARTITION: the server would find our triggers on both. The tables
 * are not locked yet.
 */
void
source_parts_begins(const DcDdl *ddl)
{
	AlterTableStmt *stmt = IsA(ddl->parsetree, AlterTableStmt) ? castNode(AlterTableStmt, ddl->parsetree) : NULL;
	Oid parent = InvalidOid;
	ListCell *lc;

	if (stmt != NULL && makes_relatives((Node *) stmt))
		parent = RangeVarGetRelid(stmt->relation, NoLock, true);
	if (!OidIsValid(parent) || get_rel_relkind(parent) != RELKIND_PARTITIONED_TABLE)
		return;
	foreach(lc, stmt->cmds)
	{
		AlterTableCmd *cmd = lfirst_node(AlterTableCmd, lc);
		Oid relid = InvalidOid;
		ListCell *lc2;

		if (cmd->subtype == AT_AttachPartition)
			relid = RangeVarGetRelid(castNode(PartitionCmd, cmd->def)->name, NoLock, true);
		if (!OidIsValid(relid))
			continue;
		foreach(lc2, source_lineage(parent))
			source_parts_prevent(lfirst_oid(lc2), relation_members(relid, NoLock));
	}
}

/*
 * Raise 0A000 if a table and a partition of it are both sources: the partition has a copy of the
 * triggers of one of them, which does not fire for all that the other one counts.
 */
void
source_parts_prevent(Oid outer, const List *members)
{
	ListCell *lc;

	if (source_rows_of(outer) == NIL)
		return;
	foreach(lc, members)
	{
		if (lfirst_oid(lc) != outer && source_rows_of(lfirst_oid(lc)) != NIL)
			ereport(ERROR,
					(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
					 errmsg("counters cannot be bound to both \"%s\" and its partition \"%s\"", get_rel_name(outer),
							get_rel_name(lfirst_oid(lc))),
					 errhint("Bind all of them to \"%s\", with a filter for the rows of the partition.", get_rel_name(outer))));
	}
}

/*
 * Check a new partition, give it our trigger, and add its rows to all counters that are bound
 * to a table above it.
 */
static void
sourceparts_attached(Oid parent, Oid relid)
{
	ListCell *lc;

	if (get_rel_relkind(relid) == RELKIND_PARTITIONED_INDEX || get_rel_relkind(relid) == RELKIND_INDEX)
		return;
	sourceparts_joined(relid);
	foreach(lc, source_lineage(parent))
		count_table(source_rows_of(lfirst_oid(lc)), relid, true);
}

/*
 * Subtract the rows of a partition that was detached, unless it was dropped, and drop our
 * trigger on it.
 */
static void
sourceparts_detached(Oid parent, Oid relid)
{
	ListCell *lc;

	if (get_rel_name(relid) == NULL)
		return;
	foreach(lc, source_lineage(parent))
		count_table(source_rows_of(lfirst_oid(lc)), relid, false);
	source_truncate_triggers_drop(relid);
}

/*
 * sourceparts_joined checks a new partition, and gives it its trigger.
 */
static void
sourceparts_joined(Oid relid)
{
	bool any = false;
	bool always = false;
	ListCell *lc;

	foreach(lc, source_lineage(relid))
	{
		List *rows = lfirst_oid(lc) == relid ? NIL : source_rows_of(lfirst_oid(lc));
		ListCell *lc2;

		if (rows == NIL)
			continue;
		any = true;
		foreach(lc2, source_leaves(relid, ShareRowExclusiveLock))
			check_partition(lfirst_oid(lc2), lfirst_oid(lc));
		foreach(lc2, rows)
			always |= ((DcSourceRow *) lfirst(lc2))->replicated;
	}
	if (any)
		source_truncate_triggers(relid, always);
}

/*
 * Raise 42809 or 0A000 for a partition whose rows may change without a trigger: a foreign
 * table, or one that is not logged.
 */
static void
check_partition(Oid relid, Oid source)
{
	if (get_rel_relkind(relid) == RELKIND_FOREIGN_TABLE)
		ereport(ERROR,
				(errcode(ERRCODE_WRONG_OBJECT_TYPE),
				 errmsg("foreign table \"%s\" cannot be a partition of \"%s\", whose rows are counted",
						get_rel_name(relid), get_rel_name(source)),
				 errdetail("Rows can change on the other server without a trigger here.")));
	if (get_rel_persistence(relid) != RELPERSISTENCE_PERMANENT)
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("\"%s\" cannot be a partition of \"%s\", whose rows are counted, because it is not logged",
						get_rel_name(relid), get_rel_name(source)),
				 errdetail("A crash would empty it, but not the counter.")));
}

/*
 * count_table counts the rows of a table that was attached (`add`) or detached, for the bindings of
 * a source.
 */
static void
count_table(List *rows, Oid relid, bool add)
{
	List *leaves;
	ListCell *lc;

	if (rows == NIL)
		return;
	leaves = source_leaves(relid, ShareRowExclusiveLock);
	foreach(lc, leaves)
		check_not_in_use(lfirst_oid(lc));
	foreach(lc, rows)
	{
		DcSourceRow *row = lfirst(lc);
		ListCell *leaf;

		if (!source_begin_change(row))
		{
			rows = foreach_delete_current(rows, lc);
			continue;
		}
		if (add || row->on_detach == DC_DETACH_SUBTRACT)
			continue;
		foreach(leaf, leaves)
			source_carry_rows(row, lfirst_oid(leaf));
		rows = foreach_delete_current(rows, lc);
	}
	if (rows == NIL)
		return;
	foreach(lc, leaves)
		source_count_rows(rows, lfirst_oid(lc), add ? 1 : -1);
}

/*
 * check_not_in_use raises 55006 if a statement of this session is still changing rows of a table,
 * and has called the function that attaches or detaches it: its rows were written with the previous
 * triggers.
 */
static void
check_not_in_use(Oid relid)
{
	Relation rel = table_open_present(relid, NoLock);

	CheckTableNotInUse(rel, "ALTER TABLE");
	table_close(rel, NoLock);
}
