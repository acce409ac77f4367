/*
 * sourcecheck.c
 *		dc_source_check() and dc_source_fix(): comparing a bound counter table with its source, and
 *		adding the differences of some keys.
 *
 * Copyright (c) 2026, the dcounter developers
 *
 * Both read both sides in one snapshot (sourceread.c), so what writers do in the meantime makes no
 * difference: either the snapshot shows a transaction, on both sides, or it does not.
 *
 * A fix takes the lock of the binding before the snapshot. What it adds is the difference, not
 * the value: so transactions that commit later are not overwritten, and of two fixes the second
 * one sees what the first has added. It changes values other than with rows of the source, so
 * it changes the epoch: a build that has read its differences before adds none of them
 * afterwards.
 */
#include "postgres.h"

#include "access/xact.h"
#include "catalog/pg_type.h"
#include "fmgr.h"
#include "funcapi.h"
#include "miscadmin.h"
#include "utils/acl.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/rls.h"
#include "utils/tuplestore.h"

#include "base/args.h"
#include "base/compat.h"
#include "core/counter/write.h"
#include "core/table/access.h"
#include "core/table/subscription.h"
#include "transactional/bound/build.h"
#include "transactional/bound/sourceprobe.h"
#include "transactional/bound/sourceread.h"
#include "transactional/bound/sourcescan.h"

PG_FUNCTION_INFO_V1(dc_source_check);
PG_FUNCTION_INFO_V1(dc_source_fix);

/* The arguments of dc_source_check(). */
enum
{
	CHECK_ARG_COUNTER,
	CHECK_ARG_KEYS,
	CHECK_ARG_FROM_KEY,
	CHECK_ARG_TO_KEY,
	CHECK_ARG_SAMPLE
};

static void check_may_read(Oid relid);
static void sample_options(FunctionCallInfo fcinfo, DcSourceScanOptions *options);
static void check_keys(FunctionCallInfo fcinfo, DcSourceRead *read, const DcSourceScanOptions *options);
static void put_diff(ReturnSetInfo *result, const DcSourceDiff *diff);
static void notice_state(Oid counter);

/*
 * dc_source_check(counter regclass, keys anycompatiblearray, from_key text, to_key text, sample
 * double precision)
 * -> setof (key text, source bigint, counter bigint, drift bigint): keys that differ; with
 * distinct_of also those whose reference counts do, though the value does not (drift 0). A key
 * whose sums overflow bigint is passed over with a warning if they differ, or raises 22003 if it is
 * named.
 *
 * Errors: 42501 without SELECT on both tables, or if row-level security applies; 55000 if the
 * counter is not bound, or a partition is being detached; 22023 for a sample that is not above
 * 0 and at most 1; 25001 and 55006: see sourceread.c.
 */
Datum
dc_source_check(PG_FUNCTION_ARGS)
{
	ReturnSetInfo *result = (ReturnSetInfo *) fcinfo->resultinfo;
	Oid relid = counter_arg(fcinfo);
	DcSourceScanOptions options = {.only_different = true, .passes_over = WARNING};
	DcCounter *counter;
	DcSourceRow row;
	DcSourceRead read;
	DcSourceScan *scan;
	DcSourceDiff diff;

	(void) counter_lookup(relid); /* "is not a counter table" comes first */
	if (!source_read(relid, &row))
		not_bound_error(relid);
	check_may_read(relid);
	check_may_read(row.source);
	if (!PG_ARGISNULL(CHECK_ARG_FROM_KEY))
		options.from = text_to_cstring(PG_GETARG_TEXT_PP(CHECK_ARG_FROM_KEY));
	if (!PG_ARGISNULL(CHECK_ARG_TO_KEY))
		options.to = text_to_cstring(PG_GETARG_TEXT_PP(CHECK_ARG_TO_KEY));
	sample_options(fcinfo, &options);
	InitMaterializedSRF(fcinfo, 0);
	if (!source_read_lock(&read, relid, "dc_source_check()", DC_SOURCE_WAIT))
		not_bound_error(relid);
	counter = counter_open_to_read(fcinfo, "dc_source_check()");
	check_may_read(relid);
	check_may_read(read.row.source);
	if (!source_read_begin(&read, counter, false))
		not_bound_error(relid);
	if (!PG_ARGISNULL(CHECK_ARG_KEYS))
		check_keys(fcinfo, &read, &options);
	else
	{
		scan = source_scan_begin(&read, &options);
		while (source_scan_next(scan, &diff))
			put_diff(result, &diff);
		source_scan_end(scan);
	}
	source_read_end(&read);
	PG_RETURN_NULL();
}

/*
 * check_may_read raises 42501 unless the caller may read all rows of a table.
 */
static void
check_may_read(Oid relid)
{
	if (pg_class_aclcheck(relid, GetUserId(), ACL_SELECT) != ACLCHECK_OK)
		permission_error(relid, ACL_SELECT);
	if (check_enable_rls(relid, InvalidOid, true) == RLS_ENABLED)
		ereport(ERROR,
				(errcode(ERRCODE_INSUFFICIENT_PRIVILEGE),
				 errmsg("cannot compare \"%s\": row-level security applies", get_rel_name(relid))));
}

/*
 * Set options->sample from the argument; 0 means all. Raises 22023 unless it is above 0 and at
 * most 1.
 */
static void
sample_options(FunctionCallInfo fcinfo, DcSourceScanOptions *options)
{
	if (PG_ARGISNULL(CHECK_ARG_SAMPLE))
		return;
	options->sample = PG_GETARG_FLOAT8(CHECK_ARG_SAMPLE);
	if (!(options->sample > 0 && options->sample <= 1))
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("sample must be greater than 0 and at most 1")));
	if (options->sample == 1)
		options->sample = 0; /* all */
}

/*
 * check_keys compares some keys; other arguments may exclude some of them.
 */
static void
check_keys(FunctionCallInfo fcinfo, DcSourceRead *read, const DcSourceScanOptions *options)
{
	int nkeys;
	Datum *keys = key_array_arg(fcinfo, CHECK_ARG_KEYS, &nkeys, NULL);
	DcSourceFilter filter;
	DcSourceDiff *diffs;
	int64 rows;
	int kept = 0;

	source_filter_init(&filter, options);
	for (int i = 0; i < nkeys; i++)
	{
		DcKey key;

		CHECK_FOR_INTERRUPTS();
		key_from_text(keys[i], &key);
		if (source_filter(&filter, key.data, key.len))
			keys[kept++] = keys[i];
	}
	diffs = source_probe(read, keys, kept, &nkeys, &rows);
	for (int i = 0; i < nkeys; i++)
		put_diff((ReturnSetInfo *) fcinfo->resultinfo, &diffs[i]);
}

/*
 * Add a row to the result, if there is something to repair.
 */
static void
put_diff(ReturnSetInfo *result, const DcSourceDiff *diff)
{
	Datum values[4];
	bool nulls[4] = {false};

	CHECK_FOR_INTERRUPTS();
	if (!diff_to_repair(diff))
		return;
	values[0] = key_text_datum(&diff->key);
	values[1] = Int64GetDatum(diff->source);
	values[2] = Int64GetDatum(diff->counter);
	values[3] = Int64GetDatum(diff->drift);
	tuplestore_putvalues(result->setResult, result->setDesc, values, nulls);
	pfree(DatumGetPointer(values[0]));
}

/*
 * dc_source_fix(counter regclass, keys anycompatiblearray) -> setof (key text, drift bigint): what
 * was added
 *
 * The state of the binding stays as it is, as other keys may differ; a NOTICE says so.
 *
 * Errors: 42501 if the caller does not own both tables, 22004 for NULL, 25001 but under READ
 * COMMITTED, 55000 if the counter is not bound, or a partition is being detached, 55006: see
 * sourceread.c.
 */
Datum
dc_source_fix(PG_FUNCTION_ARGS)
{
	ReturnSetInfo *result = (ReturnSetInfo *) fcinfo->resultinfo;
	Oid relid = counter_arg(fcinfo);
	DcCounter *counter;
	DcSourceRead read;
	DcSourceRow row;
	DcSourceDiff *diffs;
	int nkeys;
	int ndiffs;
	Datum *keys;
	int64 rows;

	prevent_write("dc_source_fix()");
	keys = key_array_arg(fcinfo, 1, &nkeys, NULL);
	(void) counter_lookup(relid);
	prevent_not_owner(relid);
	if (!source_read(relid, &row))
		not_bound_error(relid);
	prevent_not_owner(row.source);
	if (IsolationUsesXactSnapshot())
		ereport(ERROR,
				(errcode(ERRCODE_ACTIVE_SQL_TRANSACTION),
				 errmsg("dc_source_fix() must run under READ COMMITTED"),
				 errdetail("It needs a snapshot that is taken after its locks.")));
	InitMaterializedSRF(fcinfo, 0);
	if (!source_read_lock(&read, relid, "dc_source_fix()", DC_SOURCE_WAIT))
		not_bound_error(relid);
	counter = counter_open_as_owner(fcinfo, "dc_source_fix()", RowExclusiveLock);
	prevent_fed(counter, "dc_source_fix()");
	(void) bound_lock(relid, true);
	if (!source_read_begin(&read, counter, true))
		not_bound_error(relid);
	prevent_not_owner(read.row.source);
	diffs = source_probe(&read, keys, nkeys, &ndiffs, &rows);
	build_keys(&read, keys, nkeys, diffs, ndiffs);
	source_read_end(&read);
	notice_state(relid);
	for (int i = 0; i < ndiffs; i++)
	{
		Datum values[2];
		bool nulls[2] = {false};

		if (!diff_to_repair(&diffs[i]))
			continue;
		values[0] = key_text_datum(&diffs[i].key);
		values[1] = Int64GetDatum(diffs[i].drift);
		tuplestore_putvalues(result->setResult, result->setDesc, values, nulls);
	}
	PG_RETURN_NULL();
}

/*
 * Raise a NOTICE if a binding is not known to be exact although keys were repaired.
 */
static void
notice_state(Oid counter)
{
	DcSourceStateRow state;

	if (source_state_read(counter, &state) && (state.state == DC_SOURCE_DRIFTED || state.state == DC_SOURCE_SUSPECT))
		ereport(NOTICE,
				(errmsg("the state of \"%s\" stays \"%s\" until all of its keys have been compared", get_rel_name(counter),
						state.state == DC_SOURCE_DRIFTED ? "drifted" : "suspect"),
				 errhint("The worker compares them in its next pass. CALL dc_build('%s') does it now.", relation_sql_name(counter))));
}
