/*
 * xactclock.c
 *		The start of a transaction, by the monotonic clock.
 *
 * Copyright (c) 2026, the dcounter developers
 *
 * PostgreSQL notes when a transaction starts by the wall clock only. Rows that a transaction
 * reads may be as old as its start (for example, by a snapshot of another server). How old they
 * are must not depend on a clock that is set in the meantime.
 *
 * So the clock is read at the first action of each transaction: its first statement is planned,
 * begins to run, or is a utility statement (BEGIN is one). Parsing comes before, and reads
 * catalogs only. A transaction is known by its local id. All of this is private to the backend,
 * and only exists with shared_preload_libraries.
 */
#include "postgres.h"

#include "executor/executor.h"
#include "optimizer/planner.h"

#include "base/compat.h"
#include "base/utility.h"
#include "base/xactclock.h"

static planner_hook_type previous_planner = NULL;
static ExecutorStart_hook_type previous_executor = NULL;

/* The last transaction, and when it began. */
static LocalTransactionId seen_xid = InvalidLocalTransactionId;
static DcMoment seen_at;

static PlannedStmt *planner_noting(Query *parse, const char *query,
								   int cursor_options, ParamListInfo params COMPAT_PLANNER_PARAMETER);
static void executor_noting(QueryDesc *query, int flags);
static void utility_noting(DcUtility *utility);

/*
 * xact_clock_init installs the hooks; called once, at preload.
 */
void
xact_clock_init(void)
{
	previous_planner = planner_hook;
	planner_hook = planner_noting;
	previous_executor = ExecutorStart_hook;
	ExecutorStart_hook = executor_noting;
	utility_add(utility_noting);
}

/*
 * xact_moment returns the moment at which the current transaction began; nothing
 * that it does, or has read from a table, is older.
 */
DcMoment
xact_moment(void)
{
	LocalTransactionId xid = compat_local_xid();

	if (xid != seen_xid)
	{
		seen_xid = xid;
		seen_at = moment_now();
	}
	return seen_at;
}

/*
 * Note the moment at which the transaction began before its first statement is planned; the
 * server's hook.
 */
static PlannedStmt *
planner_noting(Query *parse, const char *query, int cursor_options, ParamListInfo params COMPAT_PLANNER_PARAMETER)
{
	(void) xact_moment();
	return previous_planner != NULL
		? previous_planner(parse, query, cursor_options, params COMPAT_PLANNER_ARGUMENT)
		: standard_planner(parse, query, cursor_options, params COMPAT_PLANNER_ARGUMENT);
}

/*
 * Do the same before the executor starts.
 */
static void
executor_noting(QueryDesc *query, int flags)
{
	(void) xact_moment();
	if (previous_executor != NULL)
		previous_executor(query, flags);
	else
		standard_ExecutorStart(query, flags);
}

/*
 * Do the same before a utility statement.
 */
static void
utility_noting(DcUtility *utility)
{
	(void) xact_moment();
	utility_run(utility);
}
