/*
 * write.c
 *		dc_incr() and its relatives.
 *
 * Copyright (c) 2026, the dcounter developers
 *
 * None of them touches a row: they add to the transaction's pending deltas
 * (pending.c), which are written when it commits (apply.c).
 *
 * For a sampled table they add a randomly rounded delta (sample.h): usually zero. Such a call only
 * costs the evaluation of its arguments, and takes no lock if an earlier one in the session has.
 */
#include "postgres.h"

#include "common/hashfn.h"
#include "common/int.h"
#include "common/pg_prng.h"
#include "fmgr.h"
#include "miscadmin.h"
#include "utils/lsyscache.h"

#include "base/args.h"
#include "base/compat.h"
#include "base/key.h"
#include "core/counter/apply.h"
#include "core/counter/foreign.h"
#include "core/counter/pending.h"
#include "core/counter/read.h"
#include "core/counter/sample.h"
#include "core/counter/units.h"
#include "core/counter/write.h"
#include "core/table/access.h"

PG_FUNCTION_INFO_V1(dc_incr);
PG_FUNCTION_INFO_V1(dc_decr);
PG_FUNCTION_INFO_V1(dc_incr_hashed);
PG_FUNCTION_INFO_V1(dc_incr_returning);
PG_FUNCTION_INFO_V1(dc_incr_many);
PG_FUNCTION_INFO_V1(dc_apply);

/*
 * check_stock raises an error if a stock cannot be added to, or if units are to be taken: that
 * needs a decision now, not at commit.
 */
static void
check_stock(DcCounter *counter, bool decrement)
{
	if (decrement)
		ereport(ERROR,
				(errcode(ERRCODE_WRONG_OBJECT_TYPE),
				 errmsg("cannot decrement \"%s\": it is a stock",
						get_rel_name(counter->relid)),
				 errhint("Use dc_take(), which returns false if there are not enough units.")));
	units_check(counter);
}

/*
 * counter_add adds a delta to the pending ones; a negative delta is a decrement. Errors: 22003 when
 * an amount overflows bigint.
 */
void
counter_add(DcCounter *counter, const DcKey *key, uint64 hint, int64 delta,
			bool subtract)
{
	int64 amount = delta;
	bool negative = (delta < 0);

	if (negative && pg_sub_s64_overflow(0, delta, &amount))
		ereport(ERROR,
				(errcode(ERRCODE_NUMERIC_VALUE_OUT_OF_RANGE),
				 errmsg("bigint out of range"),
				 errdetail("The amount of a delta must fit into bigint.")));
	if (counter_is_stock(counter))
		check_stock(counter, negative != subtract && delta != 0);
	if (counter->foreign)
		foreign_ready(counter);
	if (negative != subtract)
		counter_add_amounts(counter, key, hint, 0, amount);
	else
		counter_add_amounts(counter, key, hint, amount, 0);
}

/*
 * add_amounts adds amounts, of which `back` are returned units, to the pending ones, or to rows if
 * the pending ones are being written.
 */
static inline void
add_amounts(DcCounter *counter, const DcKey *key, uint64 hint, int64 inc, int64 dec, int64 back)
{
	if (unlikely(apply_is_writing()))
	{
		DcDelta delta = {.key = delta_key(counter->relid, key), .inc = inc, .dec = dec, .back = back};
		DcDelta *deltas = &delta;

		apply_amounts(counter, &deltas, 1);
		return;
	}
	if (pending_memory_is_full(key))
		apply_when_full();
	pending_add(counter->relid, key, hint, inc, dec, back);
	apply_if_late();
}

/*
 * counter_add_amounts adds amounts, which are not negative, when the transaction commits.
 */
void
counter_add_amounts(DcCounter *counter, const DcKey *key, uint64 hint,
					int64 inc, int64 dec)
{
	add_amounts(counter, key, hint, inc, dec, 0);
}

/*
 * counter_add_back adds units to a stock that were taken from it before: they go to one row of the
 * key.
 */
void
counter_add_back(DcCounter *counter, const DcKey *key, int64 units)
{
	add_amounts(counter, key, DC_NO_HINT, units, 0, units);
}

/*
 * write_sampled returns what is counted of a delta: all of it, unless the table is sampled.
 */
static inline int64
write_sampled(const DcCounter *counter, int64 delta)
{
	return counter_is_sampled(counter)
		? sample_round(delta, counter->row.sample, pg_prng_uint64(&pg_global_prng_state))
		: delta;
}

/*
 * add_arg adds the argument "delta" to the key in argument 1. If the table is sampled, the delta
 * may become 0: then the call need not lock the table, if the user is known to have the right to
 * write to it.
 */
static inline void
add_arg(FunctionCallInfo fcinfo, const char *function, bool subtract)
{
	DcKey buf;
	const DcKey *key = key_arg(fcinfo, 1, &buf);
	DcCounter *counter = counter_known_writer(counter_arg(fcinfo));
	int64 delta = amount_arg(fcinfo, 2, "delta");

	if (counter != NULL)
	{
		delta = write_sampled(counter, delta);
		if (delta == 0)
			return;
		counter = counter_open_to_write(fcinfo, function);
	}
	else
	{
		counter = counter_open_to_write(fcinfo, function);
		delta = write_sampled(counter, delta);
		if (delta == 0 && counter_is_sampled(counter))
			return;
	}
	counter_add(counter, key, DC_NO_HINT, delta, subtract);
}

/*
 * add_sampled adds what is counted of a delta.
 */
static void
add_sampled(DcCounter *counter, const DcKey *key, uint64 hint, int64 delta)
{
	int64 counted = write_sampled(counter, delta);

	if (counted != 0 || delta == 0)
		counter_add(counter, key, hint, counted, false);
}

/*
 * dc_incr(counter regclass, key text|bigint|uuid, delta bigint) -> void
 */
Datum
dc_incr(PG_FUNCTION_ARGS)
{
	add_arg(fcinfo, "dc_incr()", false);
	PG_RETURN_VOID();
}

/*
 * dc_decr(counter regclass, key text|bigint|uuid, delta bigint) -> void
 */
Datum
dc_decr(PG_FUNCTION_ARGS)
{
	add_arg(fcinfo, "dc_decr()", true);
	PG_RETURN_VOID();
}

/*
 * dc_incr_hashed(counter regclass, key text|bigint|uuid, by text, delta bigint)
 * -> void. Equal values of `by` prefer the same shard row of the key.
 */
Datum
dc_incr_hashed(PG_FUNCTION_ARGS)
{
	DcKey buf;
	const DcKey *key = key_arg(fcinfo, 1, &buf);
	DcCounter *counter = counter_open_to_write(fcinfo, "dc_incr_hashed()");
	text *by;
	uint64 hint;

	arg_not_null(fcinfo, 2, "by");
	by = PG_GETARG_TEXT_PP(2);
	hint = hash_bytes_extended((const unsigned char *) VARDATA_ANY(by),
							   VARSIZE_ANY_EXHDR(by), 0);
	if (hint == DC_NO_HINT)
		hint = 1;
	add_sampled(counter, key, hint, amount_arg(fcinfo, 3, "delta"));
	PG_FREE_IF_COPY(by, 2);
	PG_RETURN_VOID();
}

/*
 * dc_incr_returning(counter regclass, key text|bigint|uuid, delta bigint)
 * -> bigint, the value that this transaction now sees. Needs SELECT as well.
 */
Datum
dc_incr_returning(PG_FUNCTION_ARGS)
{
	DcKey buf;
	const DcKey *key = key_arg(fcinfo, 1, &buf);
	DcCounter *counter = counter_open_to_write(fcinfo, "dc_incr_returning()");

	add_sampled(counter, key, DC_NO_HINT, amount_arg(fcinfo, 2, "delta"));
	counter = counter_open_to_read(fcinfo, "dc_incr_returning()");
	PG_RETURN_INT64(counter_value(counter, key));
}

/*
 * dc_incr_many(counter regclass, keys text[]|bigint[]|uuid[], deltas bigint[]) -> void
 *
 * NULL for deltas means 1 each. Errors: 2202E when the lengths differ.
 */
Datum
dc_incr_many(PG_FUNCTION_ARGS)
{
	DcCounter *counter;
	Datum *keys;
	Datum *deltas = NULL;
	int nkeys;
	int ndeltas;

	counter_arg(fcinfo);
	keys = key_array_arg(fcinfo, 1, &nkeys, NULL);
	if (!PG_ARGISNULL(2))
	{
		deltas = array_arg(fcinfo, 2, "deltas", "delta", &ndeltas);
		if (ndeltas != nkeys)
			ereport(ERROR,
					(errcode(ERRCODE_ARRAY_SUBSCRIPT_ERROR),
					 errmsg("keys and deltas must have the same length"),
					 errdetail("There are %d keys and %d deltas.",
							   nkeys, ndeltas)));
	}

	counter = counter_open_to_write(fcinfo, "dc_incr_many()");
	for (int i = 0; i < nkeys; i++)
	{
		DcKey key;

		CHECK_FOR_INTERRUPTS();
		key_from_text(keys[i], &key);
		add_sampled(counter, &key, DC_NO_HINT, deltas ? DatumGetInt64(deltas[i]) : 1);
	}
	PG_RETURN_VOID();
}

/*
 * dc_apply() -> void: writes this transaction's pending deltas now, so that
 * plain SQL on the tables sees them.
 */
Datum
dc_apply(PG_FUNCTION_ARGS)
{
	prevent_write("dc_apply()");
	apply_early();
	PG_RETURN_VOID();
}
