/*
 * ddl.c
 *		DDL in a transaction that has increments to write.
 *
 * Copyright (c) 2026, the dcounter developers
 *
 * dc_incr() has checked the tables, and locked them against other sessions, but not against its own
 * transaction. That might drop or alter them before it commits, and the commit would find nothing
 * to write to. So before a statement that may change a table, the increments are written: the
 * statement finds their rows, as it would after an INSERT, and moves them, truncates them, or fails
 * on them. A later increment checks the tables again, and fails at once if they are not suitable. A
 * commit then never fails for changes that DDL has made.
 *
 * A session that has increments to write has called a function of this library, so the
 * hook is there. Code that a table's owner has put on it runs while increments are being
 * written, always in a security-restricted operation: there nothing is written a
 * second time.
 *
 * TRUNCATE of a partition of a buffered table takes amounts in memory as well. It has to keep other
 * sessions from adding to them (protect.c), with a lock on the table of totals. The statement
 * itself locks the partition alone, and first. All others lock the partition last: a transaction
 * that has counted in the table, and reads it before it commits, would wait for the partition, and
 * the statement for the transaction. So the lock on the table is taken here, before the statement
 * takes its own. But a transaction that has read the table or the partition, and counts only then,
 * must not wait behind that either. So both locks are held only if the partition need not be waited
 * for. Otherwise it is waited for without the table, and both are tried again. (If the name comes
 * to mean another partition only after that, this one is locked in the other order, and may
 * deadlock. So may the apply worker of a subscription, which runs no statement.)
 */
#include "postgres.h"

#include "access/xact.h"
#include "access/xlog.h"
#include "catalog/namespace.h"
#include "commands/extension.h"
#include "miscadmin.h"
#include "nodes/parsenodes.h"
#include "storage/lmgr.h"
#include "utils/acl.h"
#include "utils/lsyscache.h"

#include "base/compat.h"
#include "base/hooks.h"
#include "base/relopen.h"
#include "base/utility.h"
#include "base/version.h"
#include "core/table/access.h"
#include "core/table/codeddl.h"
#include "core/table/ddl.h"
#include "core/table/protect.h"

static void before_ddl(DcUtility *utility);
static bool changes_tables(Node *statement);
static void lock_before_truncate(TruncateStmt *statement);
static void lock_table_and_partition(Oid counter, Oid partition);
static Oid ddl_lock_all_at_once(List *relations);

/*
 * counter_ddl_init registers what this room does around DDL; called once.
 */
void
counter_ddl_init(void)
{
	utility_add(before_ddl);
	ddl_hook_add(&table_ddl);
	code_ddl_init();
}

/*
 * Write pending increments before a statement that may change tables, and lock buffered tables
 * before TRUNCATE of a partition; then run the statement.
 */
static void
before_ddl(DcUtility *utility)
{
	Node *statement = utility->statement;

	if (changes_tables(statement) && IsTransactionState() && !XactReadOnly &&
		!InSecurityRestrictedOperation())
		counter_hooks->apply_early();
	if (IsA(statement, TruncateStmt) && IsTransactionState() && !XactReadOnly &&
		!RecoveryInProgress() && buffer_hooks != NULL && !version_is_older())
		lock_before_truncate((TruncateStmt *) statement);
	utility_run(utility);
}

/*
 * Return true if a statement may change an existing table, or objects that belong to it.
 */
static bool
changes_tables(Node *statement)
{
	switch (nodeTag(statement))
	{
		case T_AlterDomainStmt:
		case T_AlterEnumStmt:
		case T_AlterObjectDependsStmt:
		case T_AlterObjectSchemaStmt:
		case T_AlterOwnerStmt:
		case T_AlterTableMoveAllStmt:
		case T_AlterTableStmt:
		case T_AlterTypeStmt:
		case COMPAT_CLUSTER_STMT:
		case T_CreatePolicyStmt:
		case T_CreateTrigStmt:
		case T_DropOwnedStmt:
		case T_DropStmt:
		case T_IndexStmt:
		case T_ReassignOwnedStmt:
		case T_ReindexStmt:
		case T_RenameStmt:
		case T_RuleStmt:
		case T_TruncateStmt:
			return true;
		case T_CreateStmt: /* of a child or a partition */
		case T_CreateForeignTableStmt:
			return ((CreateStmt *) statement)->inhRelations != NIL;
		default:
			return false;
	}
}

/*
 * lock_before_truncate locks the buffered tables whose partitions a statement names, as
 * the trigger on these will. A role that may not truncate them gets the server's error, and
 * no lock.
 */
static void
lock_before_truncate(TruncateStmt *statement)
{
	ListCell *lc;

	foreach(lc, statement->relations)
	{
		Oid relid = RangeVarGetRelid(lfirst_node(RangeVar, lc), NoLock, true);
		DcCounterRow row;
		Oid root;

		if (OidIsValid(relid) && get_rel_relispartition(relid) &&
			pg_class_aclcheck(relid, GetUserId(), ACL_TRUNCATE) == ACLCHECK_OK &&
			OidIsValid(get_extension_oid("dcounter", true)) &&
			member_find(relid, &row, &root) == DC_MEMBER_TOTALS &&
			row.mode == DC_MODE_BUFFERED)
			lock_table_and_partition(row.counter, relid);
	}
}

/*
 * lock_table_and_partition locks a counter table against all increments, and a
 * partition, with the partitions below it, as TRUNCATE does. It waits for one lock at a time,
 * without holding another.
 */
static void
lock_table_and_partition(Oid counter, Oid partition)
{
	for (;;)
	{
		Oid busy;

		CHECK_FOR_INTERRUPTS();
		if (!counter_lock(counter, ShareRowExclusiveLock))
			return; /* none any more */
		busy = ddl_lock_all_at_once(relation_members(partition, NoLock));
		if (!OidIsValid(busy))
			return;
		UnlockRelationOid(counter_lookup(counter)->row.shards, ShareRowExclusiveLock);
		UnlockRelationOid(counter, ShareRowExclusiveLock);
		LockRelationOid(busy, AccessExclusiveLock);
		UnlockRelationOid(busy, AccessExclusiveLock);
	}
}

/*
 * ddl_lock_all_at_once locks all relations, or none: then it returns one that could not be
 * locked without waiting.
 */
static Oid
ddl_lock_all_at_once(List *relations)
{
	for (int i = 0; i < list_length(relations); i++)
	{
		Oid busy = list_nth_oid(relations, i);

		if (ConditionalLockRelationOid(busy, AccessExclusiveLock))
			continue;
		while (--i >= 0)
			UnlockRelationOid(list_nth_oid(relations, i), AccessExclusiveLock);
		return busy;
	}
	return InvalidOid;
}
