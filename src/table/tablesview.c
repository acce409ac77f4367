/*
 * tablesview.c
 *		Who maintains a counter table, for the view dc_tables.
 *
 * The table is looked at in a subtransaction, which is rolled back: that releases its
 * locks. One that is locked by DDL is not waited for.
 */
#include "postgres.h"

#include "base/guc.h"
#include "base/subxact.h"
#include "fmgr.h"
#include "funcapi.h"
#include "table/catalog.h"
#include "table/ownercode.h"
#include "table/subscription.h"
#include "utils/builtins.h"

PG_FUNCTION_INFO_V1(maintainer);

/* What is found of a table, in the caller's memory context. */
typedef struct DcTableLook
{
	DcCounterRow row;
	MemoryContext caller;
	const char *maintained_by; /* NULL: it is locked */
	char *reason;
} DcTableLook;

static bool look(void *arg);

/*
 * dcounter.maintainer(counter regclass) -> (maintained_by text, left_because text)
 */
Datum
maintainer(PG_FUNCTION_ARGS)
{
	DcTableLook found = {.caller = CurrentMemoryContext};
	TupleDesc desc;
	Datum values[2] = {0};
	bool nulls[2];

	if (get_call_result_type(fcinfo, NULL, &desc) != TYPEFUNC_COMPOSITE)
		elog(ERROR, "return type must be a row type");
	if (!PG_ARGISNULL(0) && catalog_read(PG_GETARG_OID(0), &found.row))
		(void) subxact_run(look, &found);
	nulls[0] = found.maintained_by == NULL;
	if (!nulls[0])
		values[0] = CStringGetTextDatum(found.maintained_by);
	nulls[1] = found.reason == NULL;
	if (!nulls[1])
		values[1] = CStringGetTextDatum(found.reason);
	PG_RETURN_DATUM(HeapTupleGetDatum(heap_form_tuple(BlessTupleDesc(desc), values, nulls)));
}

/*
 * look finds out who maintains a table. It is false in any case, for the locks.
 */
static bool
look(void *arg)
{
	DcTableLook *found = arg;
	const char *reason;

	if (counter_is_fed(&found->row))
		found->maintained_by = "publisher";
	else if (dc_worker_runs_owner_code)
		found->maintained_by = "worker";
	else
	{
		switch (ownercode_look(&found->row, AccessShareLock, false, &reason))
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
	}
	return false;
}
