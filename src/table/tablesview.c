/*
 * tablesview.c
 *		The view dc_tables: all counter tables, and who maintains them.
 *
 * Each is looked at in a subtransaction of its own, which is rolled back: that releases
 * its locks. One that is locked by DDL is not waited for.
 */
#include "postgres.h"

#include "base/guc.h"
#include "base/subxact.h"
#include "catalog/pg_class.h"
#include "fmgr.h"
#include "funcapi.h"
#include "miscadmin.h"
#include "storage/lmgr.h"
#include "table/ownercode.h"
#include "table/subscription.h"
#include "table/table.h"
#include "utils/acl.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/syscache.h"

PG_FUNCTION_INFO_V1(dc_tables);

enum
{
	COL_COUNTER,
	COL_OWNER,
	COL_KIND,
	COL_MODE,
	COL_MAINTAINED_BY,
	COL_LEFT_BECAUSE,
	NUM_COLS
};

/* What is found of a table, in the caller's memory context. */
typedef struct DcTableLook
{
	const DcCounterRow *row;
	MemoryContext caller;
	const char *maintained_by; /* NULL: it is locked */
	char *reason;
} DcTableLook;

static bool look(void *arg);
static const char *kind_of(const DcCounterRow *row);

/*
 * dcounter.tables() -> a row for each counter table
 */
Datum
dc_tables(PG_FUNCTION_ARGS)
{
	ReturnSetInfo *result = (ReturnSetInfo *) fcinfo->resultinfo;
	ListCell *lc;

	InitMaterializedSRF(fcinfo, 0);
	foreach(lc, catalog_read_all())
	{
		const DcCounterRow *row = lfirst(lc);
		DcTableLook found = {row, CurrentMemoryContext, NULL, NULL};
		Datum values[NUM_COLS];
		bool nulls[NUM_COLS] = {false};

		CHECK_FOR_INTERRUPTS();
		(void) subxact_run(look, &found);
		if (!SearchSysCacheExists1(RELOID, ObjectIdGetDatum(row->counter)))
			continue; /* dropped, or never restored */
		values[COL_COUNTER] = ObjectIdGetDatum(row->counter);
		values[COL_OWNER] = ObjectIdGetDatum(relation_owner(row->counter));
		values[COL_KIND] = CStringGetTextDatum(kind_of(row));
		values[COL_MODE] = CStringGetTextDatum(row->mode == DC_MODE_BUFFERED ? "buffered" : "exact");
		nulls[COL_MAINTAINED_BY] = found.maintained_by == NULL;
		if (found.maintained_by != NULL)
			values[COL_MAINTAINED_BY] = CStringGetTextDatum(found.maintained_by);
		nulls[COL_LEFT_BECAUSE] = found.reason == NULL;
		if (found.reason != NULL)
			values[COL_LEFT_BECAUSE] = CStringGetTextDatum(found.reason);
		tuplestore_putvalues(result->setResult, result->setDesc, values, nulls);
	}
	return (Datum) 0;
}

/*
 * look finds out who maintains a table. It is false in any case, for the locks.
 */
static bool
look(void *arg)
{
	DcTableLook *found = arg;
	const char *reason;

	if (counter_is_fed(found->row))
	{
		found->maintained_by = "publisher";
		return false;
	}
	if (dc_worker_runs_owner_code)
	{
		found->maintained_by = "worker";
		return false;
	}
	switch (ownercode_look(found->row, AccessShareLock, false, &reason))
	{
		case DC_CODE_NONE:
			found->maintained_by = "worker";
			break;
		case DC_CODE_FOUND:
			found->maintained_by = "owner";
			found->reason = MemoryContextStrdup(found->caller, reason);
			break;
		case DC_CODE_LOCKED:
			break;
	}
	return false;
}

static const char *
kind_of(const DcCounterRow *row)
{
	if (OidIsValid(row->ledger))
		return row->ledger == row->counter ? "ledger" : "limits";
	return OidIsValid(row->holds) ? "stock" : "counter";
}
