/*
 * dc_hllagg.c
 *		Aggregates over items and over dc_hll values.
 *
 * Copyright (c) 2026, the dcounter developers
 *
 * Their state is an HllState in the aggregate's context: 64 bytes at first, then
 * as large as its tokens or registers need. Functions that finish or serialize
 * it only read it. So aggregates may share a state, and window frames may
 * be extended after a result was taken.
 */
#include "postgres.h"

#include "fmgr.h"

#include "base/args.h"
#include "base/compat.h"
#include "types/sketch/hash.h"
#include "types/sketch/hll/dc_hll.h"
#include "types/sketch/io.h"
#include "types/sketch/item.h"

PG_FUNCTION_INFO_V1(dc_hll_agg_add);
PG_FUNCTION_INFO_V1(dc_hll_agg_union);
PG_FUNCTION_INFO_V1(dc_hll_agg_combine);
PG_FUNCTION_INFO_V1(dc_hll_agg_combine_union);
PG_FUNCTION_INFO_V1(dc_hll_agg_serialize);
PG_FUNCTION_INFO_V1(dc_hll_agg_deserialize);
PG_FUNCTION_INFO_V1(dc_hll_agg_final);
PG_FUNCTION_INFO_V1(dc_hll_agg_count);

/* The state of a group's first row. */
static HllState *
first_state(FunctionCallInfo fcinfo)
{
	int precision = HLL_DEFAULT_PRECISION;

	if (PG_NARGS() > 2)
	{
		arg_not_null(fcinfo, 2, "precision");
		precision = PG_GETARG_INT32(2);
		hll_check_precision(precision);
	}
	return hll_new(precision, SKETCH_HASH_REDIS);
}

/*
 * add_item is dc_hll_agg_add without its short cut.
 */
static pg_noinline Datum
add_item(FunctionCallInfo fcinfo)
{
	HllState *state = sketch_state_arg(fcinfo, 0);
	MemoryContext before;
	HllEffect effect;
	uint64 hash;
	uint32 cell;
	uint32 value;

	if (state == NULL)
	{
		before = MemoryContextSwitchTo(sketch_aggregate_context(fcinfo));
		state = first_state(fcinfo);
		MemoryContextSwitchTo(before);
	}
	else if (PG_NARGS() > 2 && (PG_ARGISNULL(2) || PG_GETARG_INT32(2) != state->precision))
		sketch_rows_differ("precision");
	if (PG_ARGISNULL(1))
		PG_RETURN_POINTER(state);

	hash = item_hash(item_type_of_arg(fcinfo, 1), PG_GETARG_DATUM(1), SKETCH_HASH_REDIS);
	effect = hll_probe(state, hash, &cell, &value);
	if (effect == HLL_CHANGE)
		hll_put(state, cell, value);
	else if (effect == HLL_FULL)
	{
		before = MemoryContextSwitchTo(sketch_aggregate_context(fcinfo));
		state = hll_add(state, hash);
		MemoryContextSwitchTo(before);
	}
	PG_RETURN_POINTER(state);
}

/*
 * Transition of dc_hll_agg and dc_count_distinct: (state, item [, precision]).
 */
Datum
dc_hll_agg_add(PG_FUNCTION_ARGS)
{
	HllState *state;
	ItemType *type = fcinfo->flinfo->fn_extra;
	uint64 hash;
	uint32 rank;
	uint8 *cell;

	/* Most rows of a large group: no memory is needed, nothing can fail. */
	if (PG_NARGS() > 2 || PG_ARGISNULL(0) || PG_ARGISNULL(1) || type == NULL)
		return add_item(fcinfo);
	state = (HllState *) PG_GETARG_POINTER(0);
	if (!state->dense)
		return add_item(fcinfo);
	if (type->kind == ITEM_INT8)
		hash = hash_redis_decimal(PG_GETARG_INT64(1));
	else
		hash = item_hash(type, PG_GETARG_DATUM(1), SKETCH_HASH_REDIS);
	cell = hll_registers(state) + (hash & (hll_nregisters(state->precision) - 1));
	rank = hll_rank(hash >> state->precision, 64 - state->precision);
	if (*cell < rank)
		*cell = (uint8) rank;
	PG_RETURN_POINTER(state);
}

/*
 * Transition of dc_hll_union_agg: (state, sketch).
 */
Datum
dc_hll_agg_union(PG_FUNCTION_ARGS)
{
	MemoryContext before = MemoryContextSwitchTo(sketch_aggregate_context(fcinfo));
	HllState *state = sketch_state_arg(fcinfo, 0);

	if (!PG_ARGISNULL(1) && state != NULL)
		state = hll_merge_datum(state, PG_GETARG_DATUM(1));
	else if (!PG_ARGISNULL(1))
		state = hll_state_of(PG_GETARG_DATUM(1));
	MemoryContextSwitchTo(before);
	return sketch_state_result(fcinfo, state);
}

/* Merge the second state into the first, which alone may be changed. */
static Datum
hllagg_combine(FunctionCallInfo fcinfo)
{
	MemoryContext before = MemoryContextSwitchTo(sketch_aggregate_context(fcinfo));
	HllState *into = sketch_state_arg(fcinfo, 0);
	const HllState *from = sketch_state_arg(fcinfo, 1);

	if (into == NULL && from != NULL)
		into = hll_copy(from);
	else if (from != NULL)
	{
		hll_check_same_hash(into->hash, from->hash);
		into = hll_merge(into, from);
	}
	MemoryContextSwitchTo(before);
	return sketch_state_result(fcinfo, into);
}

/*
 * Combination of dc_hll_agg and dc_count_distinct, whose rows say the precision.
 */
Datum
dc_hll_agg_combine(PG_FUNCTION_ARGS)
{
	const HllState *into = sketch_state_arg(fcinfo, 0);
	const HllState *from = sketch_state_arg(fcinfo, 1);

	if (into != NULL && from != NULL && into->precision != from->precision)
		sketch_rows_differ("precision");
	return hllagg_combine(fcinfo);
}

/*
 * Combination of dc_hll_union_agg, where the lower precision is right.
 */
Datum
dc_hll_agg_combine_union(PG_FUNCTION_ARGS)
{
	return hllagg_combine(fcinfo);
}

/*
 * hll_agg_serialize(state): Return a state as the bytes of a dc_hll, for another process.
 */
Datum
dc_hll_agg_serialize(PG_FUNCTION_ARGS)
{
	(void) sketch_aggregate_context(fcinfo);
	return hll_value(sketch_state_arg(fcinfo, 0));
}

/*
 * hll_agg_deserialize(bytes): Return a state made of the bytes of a dc_hll.
 */
Datum
dc_hll_agg_deserialize(PG_FUNCTION_ARGS)
{
	bytea *flat = PG_GETARG_BYTEA_PP(0);

	(void) sketch_aggregate_context(fcinfo);
	PG_RETURN_POINTER(hll_absorb_bytes(NULL, flat));
}

/*
 * hll_agg_final(state): Return the sketch of a state; NULL if there were no rows.
 */
Datum
dc_hll_agg_final(PG_FUNCTION_ARGS)
{
	const HllState *state = sketch_state_arg(fcinfo, 0);

	(void) sketch_aggregate_context(fcinfo);
	if (state == NULL)
		PG_RETURN_NULL();
	return hll_value(state);
}

/*
 * hll_agg_count(state): Return the estimated number of distinct items, rounded; 0 if there were no
 * rows.
 */
Datum
dc_hll_agg_count(PG_FUNCTION_ARGS)
{
	const HllState *state = sketch_state_arg(fcinfo, 0);

	(void) sketch_aggregate_context(fcinfo);
	PG_RETURN_INT64(state == NULL ? 0 : hll_rounded(hll_estimate(state)));
}
