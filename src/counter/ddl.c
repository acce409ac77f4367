/*
 * ddl.c
 *		DDL in a transaction that has increments to write.
 *
 * dc_incr() has checked the tables, and locked them against others, but not against its
 * own transaction. That might drop or alter them before it commits, and the commit
 * would find nothing to write to. So before a statement that may change a table, the
 * increments are written: it finds their rows, as it would after an INSERT, and takes
 * them along, truncates them, or fails on them. What is counted after it looks at
 * the tables anew, and says at once if they will not do. A commit then never fails for
 * what DDL has done.
 *
 * Whoever has increments to write has called a function of this library, so the hook is
 * there. Code that a table's owner has put on it runs while increments are being
 * written, always in a security-restricted operation: there nothing is written a
 * second time.
 */
#include "postgres.h"

#include "access/xact.h"
#include "counter/apply.h"
#include "counter/codeddl.h"
#include "counter/ddl.h"
#include "counter/pending.h"
#include "miscadmin.h"
#include "nodes/parsenodes.h"
#include "tcop/utility.h"

static ProcessUtility_hook_type previous_utility_hook = NULL;

static void utility_hook(PlannedStmt *pstmt, const char *query,
						 bool read_only_tree, ProcessUtilityContext context,
						 ParamListInfo params, QueryEnvironment *environment,
						 DestReceiver *dest, QueryCompletion *completion);
static bool changes_tables(Node *statement);

/*
 * counter_ddl_init installs the hook; called once.
 */
void
counter_ddl_init(void)
{
	previous_utility_hook = ProcessUtility_hook;
	ProcessUtility_hook = utility_hook;
}

static void
utility_hook(PlannedStmt *pstmt, const char *query, bool read_only_tree,
			 ProcessUtilityContext context, ParamListInfo params,
			 QueryEnvironment *environment, DestReceiver *dest,
			 QueryCompletion *completion)
{
	if (IsA(pstmt->utilityStmt, IndexStmt) &&
		((IndexStmt *) pstmt->utilityStmt)->concurrent && IsTransactionState())
		code_prevent_index((IndexStmt *) pstmt->utilityStmt, query);
	if (!pending_is_empty() && changes_tables(pstmt->utilityStmt) &&
		IsTransactionState() && !XactReadOnly && !InSecurityRestrictedOperation())
		apply_early();
	if (previous_utility_hook != NULL)
		previous_utility_hook(pstmt, query, read_only_tree, context, params,
							  environment, dest, completion);
	else
		standard_ProcessUtility(pstmt, query, read_only_tree, context, params,
								environment, dest, completion);
}

/*
 * changes_tables tells whether a statement may change a table that is there, or what
 * hangs on it.
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
		case T_ClusterStmt:
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
