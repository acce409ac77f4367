/*
 * ownstatement.c
 *		Distinguishing the extension's own statements from all others.
 *
 * Copyright (c) 2026, the dcounter developers
 *
 * Some tables may be changed only by the extension, and triggers on them refuse all other
 * statements. While a statement of ours runs, code of the table's owner may run as well: functions
 * in CHECK constraints, index expressions and defaults are called by that very statement, at its
 * own depth of triggers, and run statements of their own. Those must not pass, so it is not enough
 * to know that a statement of ours is running. It matters which statement calls the trigger.
 *
 * A row or statement trigger is called by an executor, which keeps the FmgrInfos that it calls
 * its triggers with in its own state: an array for each table that it changes. So the trigger
 * checks whether it was called with one of those of our statement. No other statement can have
 * that: each execution has its own state. Our statement's state is known from the hook that starts
 * executors, by the text of the statement: not its content, but its address, which is in our plan.
 * The tables that a state has are those that our statement changes, and their partitions. If a rule
 * has put other statements in its place, or beside it, these do not count as ours: only the one
 * that the rewriter calls the original does.
 *
 * TRUNCATE has no such state, but only one can run for a table at a time: while ours has the
 * table in use, any other for it is refused by the server. So there it is enough to compare the
 * table.
 *
 * If another library's hook keeps ours from being called, our statements are refused.
 */
#include "postgres.h"

#include "catalog/partition.h"
#include "executor/executor.h"
#include "nodes/execnodes.h"
#include "utils/lsyscache.h"
#include "utils/plancache.h"
#include "utils/reltrigger.h"

#include "base/runas.h"
#include "core/table/catalog.h"
#include "core/table/ownstatement.h"

/* A statement of ours, on the stack of own_statement_run(). */
typedef struct DcOwnStatement
{
	struct DcOwnStatement *outer; /* further up that stack, or NULL */
	CachedPlanSource *source;
	bool started;
	EState *estate; /* of its executor, while that is at work, or NULL */
} DcOwnStatement;

/* The innermost one, or NULL; own_statement_run() sets it back on every way out. */
static DcOwnStatement *running_statement = NULL;

/* The table that own_truncate() is truncating, or InvalidOid; likewise. */
static Oid truncating = InvalidOid;

static ExecutorStart_hook_type previous_start_hook = NULL;

static void start_hook(QueryDesc *desc, int eflags);
static bool is_original(const DcOwnStatement *statement, const QueryDesc *desc);
static bool is_called_by(List *result_rels, const FmgrInfo *function);

/*
 * own_statement_init installs the hook that starts executors; called once.
 */
void
own_statement_init(void)
{
	previous_start_hook = ExecutorStart_hook;
	ExecutorStart_hook = start_hook;
}

/*
 * own_statement_run executes a plan of one statement, which may write, as ours.
 */
int
own_statement_run(SPIPlanPtr plan, Datum *values, const char *nulls)
{
	DcOwnStatement statement = {0};
	List *sources = SPI_plan_get_plan_sources(plan);
	volatile int result = 0;

	if (list_length(sources) != 1)
		elog(ERROR, "a plan of one statement was expected");
	statement.outer = running_statement;
	statement.source = linitial(sources);
	running_statement = &statement;
	PG_TRY();
	{
		result = SPI_execute_plan(plan, values, nulls, false, 0);
	}
	PG_FINALLY();
	{
		running_statement = statement.outer;
	}
	PG_END_TRY();
	return result;
}

/*
 * start_hook learns the state of our statement's executor. A statement that runs with the
 * same text afterwards was added by a rule, and that state is gone.
 */
static void
start_hook(QueryDesc *desc, int eflags)
{
	DcOwnStatement *statement = running_statement;
	bool ours = statement != NULL && desc->sourceText == statement->source->query_string;

	if (ours)
		statement->estate = NULL;
	if (previous_start_hook != NULL)
		previous_start_hook(desc, eflags);
	else
		standard_ExecutorStart(desc, eflags);
	if (ours && !statement->started && is_original(statement, desc))
	{
		statement->started = true;
		statement->estate = desc->estate;
	}
}

/*
 * Return true if the executor is about to run the statement as it was written,
 * which if it is still there is the one whose tag is reported.
 */
static bool
is_original(const DcOwnStatement *statement, const QueryDesc *desc)
{
	ListCell *lc;

	foreach(lc, statement->source->query_list)
	{
		if (lfirst_node(Query, lc)->querySource == QSRC_ORIGINAL)
			return desc->plannedstmt->canSetTag;
	}
	return false;
}

/*
 * Return true if a trigger's function was called by the statement of
 * ours that is running.
 */
bool
own_statement_fires(FunctionCallInfo fcinfo)
{
	EState *estate = running_statement != NULL ? running_statement->estate : NULL;

	return estate != NULL &&
		(is_called_by(estate->es_opened_result_relations, fcinfo->flinfo) ||
		 is_called_by(estate->es_tuple_routing_result_relations, fcinfo->flinfo));
}

/*
 * Return true if a function was called as a trigger of one of some tables.
 */
static bool
is_called_by(List *result_rels, const FmgrInfo *function)
{
	ListCell *lc;

	foreach(lc, result_rels)
	{
		const ResultRelInfo *rel = lfirst_node(ResultRelInfo, lc);

		if (rel->ri_TrigDesc != NULL && function >= rel->ri_TrigFunctions &&
			function < rel->ri_TrigFunctions + rel->ri_TrigDesc->numtriggers)
			return true;
	}
	return false;
}

/*
 * own_truncate truncates a table, with its partitions or without, as the current user.
 */
void
own_truncate(Oid relid, bool only)
{
	Oid before = truncating;

	truncating = relid;
	PG_TRY();
	{
		run_ddl(psprintf("TRUNCATE TABLE %s%s", only ? "ONLY " : "", relation_sql_name(relid)));
	}
	PG_FINALLY();
	{
		truncating = before;
	}
	PG_END_TRY();
}

/*
 * Return true if a table is being truncated by own_truncate().
 */
bool
own_truncate_fires(Oid relid)
{
	return OidIsValid(truncating) &&
		(relid == truncating ||
		 (get_rel_relispartition(relid) &&
		  list_member_oid(get_partition_ancestors(relid), truncating)));
}
