/*
 * tablesview.c
 *		Whether the worker, the owner or a publisher maintains a counter table, and how
 *		its totals are written, for the view dc_tables.
 *
 * Copyright (c) 2026, the dcounter developers
 *
 * The table is examined in a subtransaction, which is rolled back: that releases its locks. One
 * that is locked by DDL is not waited for.
 */
#include "postgres.h"

#include "access/table.h"
#include "fmgr.h"
#include "funcapi.h"
#include "utils/builtins.h"

#include "base/compat.h"
#include "base/guc.h"
#include "base/hooks.h"
#include "base/relopen.h"
#include "base/subxact.h"
#include "core/table/access.h"
#include "core/table/catalog.h"
#include "core/table/layout.h"
#include "core/table/ownercode.h"
#include "core/table/subscription.h"

PG_FUNCTION_INFO_V1(maintainer);
PG_FUNCTION_INFO_V1(totals_way);

/* The answer for a table, in the caller's memory context. */
typedef struct DcTableLook
{
	DcCounterRow row;
	MemoryContext caller;
	const char *answer; /* NULL: it is locked */
	const char *reason;
} DcTableLook;

static Datum tablesview_answer(FunctionCallInfo fcinfo, bool (*look)(void *arg));
static bool look_for_maintainer(void *arg);
static bool look_for_way(void *arg);

/*
 * dcounter.maintainer(counter regclass) -> (maintained_by text, left_because text)
 */
Datum
maintainer(PG_FUNCTION_ARGS)
{
	return tablesview_answer(fcinfo, look_for_maintainer);
}

/*
 * dcounter.totals_way(counter regclass) -> (totals text, compacted_because text)
 */
Datum
totals_way(PG_FUNCTION_ARGS)
{
	return tablesview_answer(fcinfo, look_for_way);
}

/*
 * tablesview_answer returns what a look at the table in argument 0 has found out: nulls, if it
 * is not a counter table.
 */
static Datum
tablesview_answer(FunctionCallInfo fcinfo, bool (*look)(void *arg))
{
	DcTableLook found = {.caller = CurrentMemoryContext};
	TupleDesc desc;
	Datum values[2] = {0};
	bool nulls[2];

	if (get_call_result_type(fcinfo, NULL, &desc) != TYPEFUNC_COMPOSITE)
		elog(ERROR, "return type must be a row type");
	if (!PG_ARGISNULL(0) && catalog_read(PG_GETARG_OID(0), &found.row))
		(void) subxact_run(look, &found);
	nulls[0] = found.answer == NULL;
	if (!nulls[0])
		values[0] = CStringGetTextDatum(found.answer);
	nulls[1] = found.reason == NULL;
	if (!nulls[1])
		values[1] = CStringGetTextDatum(found.reason);
	return HeapTupleGetDatum(heap_form_tuple(BlessTupleDesc(desc), values, nulls));
}

/*
 * look_for_maintainer finds out who maintains a table. It always returns false, so that the
 * subtransaction releases its locks.
 */
static bool
look_for_maintainer(void *arg)
{
	DcTableLook *found = arg;
	const char *reason;

	if (counter_is_fed(&found->row))
		found->answer = "publisher";
	else if (buffer_hooks != NULL && buffer_hooks->takes_too_long(found->row.counter))
	{
		found->answer = "owner";
		found->reason = "what was in memory at the last shutdown takes too long to flush";
	}
	else if (dc_worker_runs_owner_code)
		found->answer = "worker";
	else
	{
		switch (ownercode_look(&found->row, AccessShareLock, false, &reason))
		{
			case DC_CODE_NONE:
				found->answer = "worker";
				break;
			case DC_CODE_FOUND:
				found->answer = "owner";
				found->reason = MemoryContextStrdup(found->caller, reason);
				break;
			case DC_CODE_LOCKED:
				break;
		}
	}
	return false;
}

/*
 * look_for_way finds out how totals are written. It always returns false, too. A table that
 * cannot be written to in its state has no answer.
 */
static bool
look_for_way(void *arg)
{
	DcTableLook *found = arg;
	DcCounter *counter = counter_open_in_passing(found->row.counter);
	Relation totals;
	Relation shards;
	char *reason = NULL;

	if (counter == NULL)
		return false;
	if (found->row.totals == DC_TOTALS_DIRECT)
	{
		totals = table_open_present(counter->relid, NoLock);
		shards = table_open_present(counter->row.shards, NoLock);
		reason = totals_problem(counter, totals, shards);
		table_close(totals, NoLock);
		table_close(shards, NoLock);
	}
	if (reason != NULL)
		found->reason = MemoryContextStrdup(found->caller, reason);
	found->answer = totals_to_text(reason == NULL ? found->row.totals : DC_TOTALS_COMPACTED);
	return false;
}
