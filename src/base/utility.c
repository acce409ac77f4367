/*
 * utility.c
 *		The hook of utility statements, which all rooms share.
 *
 * Copyright (c) 2026, the dcounter developers
 *
 * A room adds a function when the library is loaded. The function is called around each
 * statement: it does its work before the statement, calls utility_run(), which continues with the
 * next function and in the end with the statement, and does its work after it. An error passes
 * through all of them; a function that has something to undo catches it. The state of a call is on
 * the stack, so statements may be nested.
 *
 * The function that was added first is called last, next to the statement. So, in the order
 * of dcounter.c, a worker that would block the statement is stopped before anything is locked. Then
 * increments in memory and those of the transaction are written, and tables are locked. Last,
 * statements that code of an owner must not run are refused.
 */
#include "postgres.h"

#include "base/utility.h"

#define MAX_HOOKS 12

static DcUtilityHook hooks[MAX_HOOKS];
static int nhooks = 0;
static ProcessUtility_hook_type previous_hook = NULL;

/*
 * Run a utility statement with the functions of all rooms around it; the server's hook.
 */
static void
utility_hook(PlannedStmt *pstmt, const char *query, bool read_only_tree,
			 ProcessUtilityContext context, ParamListInfo params,
			 QueryEnvironment *environment, DestReceiver *dest,
			 QueryCompletion *completion)
{
	DcUtility utility = {pstmt->utilityStmt, pstmt, query, read_only_tree, context,
						 params, environment, dest, completion, nhooks};

	utility_run(&utility);
}

/*
 * utility_add adds a function; the first one also installs the server's hook.
 */
void
utility_add(DcUtilityHook hook)
{
	Assert(nhooks < MAX_HOOKS);
	if (nhooks == 0)
	{
		previous_hook = ProcessUtility_hook;
		ProcessUtility_hook = utility_hook;
	}
	hooks[nhooks++] = hook;
}

/*
 * utility_run calls the next function, or runs the statement.
 */
void
utility_run(DcUtility *utility)
{
	ProcessUtility_hook_type run = previous_hook != NULL ? previous_hook : standard_ProcessUtility;

	if (utility->left > 0)
		hooks[--utility->left](utility);
	else
		run(utility->pstmt, utility->query, utility->read_only_tree, utility->context,
			utility->params, utility->environment, utility->dest, utility->completion);
}
