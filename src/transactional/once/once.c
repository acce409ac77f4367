/*
 * once.c
 *		Increments that are applied once, however often they are sent.
 *
 * Copyright (c) 2026, the dcounter developers
 *
 * The record of the op (op.c) is written first, then the increment is added as
 * by dc_incr(). Both are of one transaction, so they commit or roll back together.
 * In a buffered table the increment goes to rows at once: in memory it would be less
 * durable than its record, and lost in a crash that leaves "applied" behind.
 */
#include "postgres.h"

#include "fmgr.h"
#include "funcapi.h"
#include "miscadmin.h"
#include "utils/lsyscache.h"

#include "base/args.h"
#include "base/compat.h"
#include "base/key.h"
#include "core/counter/apply.h"
#include "core/counter/write.h"
#include "core/table/access.h"
#include "core/table/distribution.h"
#include "transactional/once/op.h"

PG_FUNCTION_INFO_V1(dc_incr_once);
PG_FUNCTION_INFO_V1(dc_incr_once_many);
PG_FUNCTION_INFO_V1(dc_op_status);

/* An increment of a batch. */
typedef struct DcOnce
{
	DcKey key;
	DcOp op;
} DcOnce;

static bool apply_once(DcCounter *counter, DcOpLog *log, const DcKey *key,
					   DcOp *op);
static DcOnce *batch_args(FunctionCallInfo fcinfo, int *count);
static int once_compare_ids(const void *a, const void *b);
static void check_local(const DcCounter *counter);
static void add_now(DcCounter *counter, const DcKey *key, int64 delta);

/*
 * dc_incr_once(counter regclass, key text|bigint|uuid, delta bigint, op_id text)
 * -> boolean: false if this op was applied before.
 *
 * Errors: 23505 if it was applied with another key or delta, LG004 and 22023 as of
 * ops_lookup().
 */
Datum
dc_incr_once(PG_FUNCTION_ARGS)
{
	DcKey buf;
	const DcKey *key = key_arg(fcinfo, 1, &buf);
	DcCounter *counter = counter_open_to_write(fcinfo, "dc_incr_once()");
	DcOp op = {0};
	DcOpLog *log;
	bool applied;

	op.delta = amount_arg(fcinfo, 2, "delta");
	op_id_arg(fcinfo, 3, &op);
	op.key = key_text_datum(key);
	check_local(counter);
	prevent_sampled(counter, "dc_incr_once()");
	log = ops_open(counter);
	applied = apply_once(counter, log, key, &op);
	ops_close(log);
	PG_RETURN_BOOL(applied);
}

/*
 * check_local raises 0A000 for a table on other servers, even in part: they commit before the op
 * does, and after a crash in between the increment would be applied again.
 */
static void
check_local(const DcCounter *counter)
{
	if (counter->foreign)
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("\"%s\" does not support idempotent increments", get_rel_name(counter->relid)),
				 errdetail_internal("%s", elsewhere_detail(counter))));
}

/*
 * apply_once records an op and adds its delta, unless it was applied before.
 */
static bool
apply_once(DcCounter *counter, DcOpLog *log, const DcKey *key,
		   DcOp *op)
{
	DcOp found;

	if (ops_lookup(log, op, &found) || !ops_insert(log, op, &found))
	{
		op_check_same(op, &found);
		return false;
	}
	add_now(counter, key, op->delta);
	return true;
}

/*
 * add_now adds a delta so that it is as durable as its op.
 */
static void
add_now(DcCounter *counter, const DcKey *key, int64 delta)
{
	if (!counter_is_buffered(counter))
		counter_add(counter, key, DC_NO_HINT, delta, false);
	else if (delta == PG_INT64_MIN)
		counter_add(counter, key, DC_NO_HINT, delta, false); /* the error */
	else if (delta < 0)
		apply_blind(counter, key, 0, -delta);
	else
		apply_blind(counter, key, delta, 0);
}

/*
 * dc_incr_once_many(counter regclass, keys text[]|bigint[]|uuid[], deltas bigint[],
 * op_ids text[]) -> bigint: how many were new.
 *
 * They are recorded in the order of their ids, so that batches do not deadlock.
 * Errors as of dc_incr_once(), also for an id that is twice in the batch, and 2202E when
 * the lengths differ.
 */
Datum
dc_incr_once_many(PG_FUNCTION_ARGS)
{
	DcCounter *counter;
	DcOpLog *log;
	DcOnce *batch;
	MemoryContext cxt;
	MemoryContext old;
	int64 applied = 0;
	int count;

	counter_arg(fcinfo);
	batch = batch_args(fcinfo, &count);
	counter = counter_open_to_write(fcinfo, "dc_incr_once_many()");
	if (count == 0)
		PG_RETURN_INT64(0);
	qsort(batch, count, sizeof(DcOnce), once_compare_ids);
	check_local(counter);
	log = ops_open(counter);
	cxt = AllocSetContextCreate(CurrentMemoryContext, "dcounter ops",
								ALLOCSET_DEFAULT_SIZES);
	old = MemoryContextSwitchTo(cxt);
	for (int i = 0; i < count; i++)
	{
		CHECK_FOR_INTERRUPTS();
		applied += apply_once(counter, log, &batch[i].key, &batch[i].op);
		MemoryContextReset(cxt);
	}
	MemoryContextSwitchTo(old);
	MemoryContextDelete(cxt);
	ops_close(log);
	PG_RETURN_INT64(applied);
}

/*
 * batch_args reads the arrays of a batch.
 */
static DcOnce *
batch_args(FunctionCallInfo fcinfo, int *count)
{
	Datum *keys = key_array_arg(fcinfo, 1, count, NULL);
	int ndeltas;
	int nids;
	Datum *deltas = array_arg(fcinfo, 2, "deltas", "delta", &ndeltas);
	Datum *ids = array_arg(fcinfo, 3, "op_ids", "op_id", &nids);
	DcOnce *batch;

	if (ndeltas != *count || nids != *count)
		ereport(ERROR,
				(errcode(ERRCODE_ARRAY_SUBSCRIPT_ERROR),
				 errmsg("keys, deltas and op_ids must have the same length"),
				 errdetail("There are %d keys, %d deltas and %d op_ids.",
						   *count, ndeltas, nids)));
	batch = MemoryContextAllocHuge(CurrentMemoryContext,
								   Max(*count, 1) * sizeof(DcOnce));
	for (int i = 0; i < *count; i++)
	{
		DcOnce *once = &batch[i];

		memset(&once->op, 0, sizeof(DcOp));
		key_from_text(keys[i], &once->key);
		op_id_from_text(ids[i], &once->op);
		once->op.key = keys[i];
		once->op.delta = DatumGetInt64(deltas[i]);
	}
	return batch;
}

/*
 * Compare two ops of a batch by their ids, for qsort().
 */
static int
once_compare_ids(const void *a, const void *b)
{
	const DcOp *left = &((const DcOnce *) a)->op;
	const DcOp *right = &((const DcOnce *) b)->op;
	int cmp = memcmp(left->id, right->id, Min(left->id_len, right->id_len));

	CHECK_FOR_INTERRUPTS(); /* of a long qsort() */
	if (cmp == 0 && left->id_len != right->id_len)
		cmp = left->id_len < right->id_len ? -1 : 1;
	return cmp;
}

/*
 * dc_op_status(counter regclass, op_id text) -> (applied boolean, key text, delta
 * bigint, at timestamptz). Always one row; applied is NULL when the op is so old that its
 * record may be gone. Needs SELECT.
 */
Datum
dc_op_status(PG_FUNCTION_ARGS)
{
	DcCounter *counter = counter_open_to_read(fcinfo, "dc_op_status()");
	ReturnSetInfo *result = (ReturnSetInfo *) fcinfo->resultinfo;
	bool nulls[4] = {false, true, true, true};
	Datum values[4] = {0};
	DcOpStatus status;
	DcOp op = {0};
	DcOp found;

	op_id_arg(fcinfo, 1, &op);
	status = ops_status(counter, &op, &found);
	InitMaterializedSRF(fcinfo, 0);
	values[0] = BoolGetDatum(status == OP_APPLIED);
	nulls[0] = status == OP_UNKNOWN;
	if (status == OP_APPLIED)
	{
		nulls[1] = nulls[2] = nulls[3] = false;
		values[1] = found.key;
		values[2] = Int64GetDatum(found.delta);
		values[3] = TimestampTzGetDatum(found.at);
	}
	tuplestore_putvalues(result->setResult, result->setDesc, values, nulls);
	return (Datum) 0;
}
