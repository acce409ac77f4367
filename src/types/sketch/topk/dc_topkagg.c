/*
 * dc_topkagg.c
 *		The aggregates that make and merge values of dc_topk.
 *
 * Copyright (c) 2026, the dcounter developers
 *
 * The transition state is a TopkState in the aggregate's memory context, items'
 * bytes included. The final and the serialization function only read it, so that
 * it can serve a window or another aggregate as well. The bytes of an item that
 * is dropped are freed.
 */
#include "postgres.h"

#include "fmgr.h"

#include "base/compat.h"
#include "types/sketch/io.h"
#include "types/sketch/topk/dc_topk.h"

PG_FUNCTION_INFO_V1(topk_trans);
PG_FUNCTION_INFO_V1(topk_union_trans);
PG_FUNCTION_INFO_V1(topk_combine);
PG_FUNCTION_INFO_V1(topk_union_combine);
PG_FUNCTION_INFO_V1(topk_serialize);
PG_FUNCTION_INFO_V1(topk_deserialize);
PG_FUNCTION_INFO_V1(topk_final);


/*
 * topk_trans(internal, item anyelement or text, k int [, weight bigint
 *		[, counters int]]) -> internal
 *
 * A row whose item or weight is NULL adds nothing.
 */
Datum
topk_trans(PG_FUNCTION_ARGS)
{
	MemoryContext context = sketch_aggregate_context(fcinfo);
	TopkState *state = sketch_state_arg(fcinfo, 0);
	int64 weight = 1;
	ItemBytes item;
	MemoryContext old;

	if (state == NULL)
	{
		old = MemoryContextSwitchTo(context);
		state = topk_state_new(fcinfo, 2, 4);
		MemoryContextSwitchTo(old);
	}
	else
	{
		if (PG_ARGISNULL(2) || PG_GETARG_INT32(2) != topk_k(state))
			sketch_rows_differ("k");
		if (PG_NARGS() > 4 && topk_counters(state) != (PG_ARGISNULL(4) ? topk_default_counters(topk_k(state)) : PG_GETARG_INT32(4)))
			sketch_rows_differ("the number of counters");
	}
	if (PG_ARGISNULL(1) || (PG_NARGS() > 3 && PG_ARGISNULL(3)))
		PG_RETURN_POINTER(state);
	if (PG_NARGS() > 3)
	{
		weight = PG_GETARG_INT64(3);
		topk_weight_check(weight);
	}
	topk_item_text(item_type_of_arg(fcinfo, 1), PG_GETARG_DATUM(1), &item);
	old = MemoryContextSwitchTo(context);
	topk_state_add(state, &item, weight);
	MemoryContextSwitchTo(old);
	PG_RETURN_POINTER(state);
}

/*
 * topkagg_merged adds a list to a state, or creates a state from it if there is none yet.
 */
static TopkState *
topkagg_merged(TopkState *state, const TopkList *list, MemoryContext context)
{
	MemoryContext old = MemoryContextSwitchTo(context);

	if (state == NULL)
		state = topk_state_load(list);
	else
		topk_state_merge(state, list);
	MemoryContextSwitchTo(old);
	return state;
}

/*
 * topk_union_trans(internal, dc_topk) -> internal
 */
Datum
topk_union_trans(PG_FUNCTION_ARGS)
{
	MemoryContext context = sketch_aggregate_context(fcinfo);
	TopkState *state = sketch_state_arg(fcinfo, 0);
	TopkList list;

	if (PG_ARGISNULL(1))
		return sketch_state_result(fcinfo, state);
	topk_value_decode(PG_GETARG_BYTEA_PP(1), &list);
	PG_RETURN_POINTER(topkagg_merged(state, &list, context));
}

/*
 * Merge the second state into the first. With `same`, raise 22023 unless k and the number of
 * counters are the same in both, as the arguments of all rows must be.
 */
static Datum
topkagg_combine(FunctionCallInfo fcinfo, bool same)
{
	MemoryContext context = sketch_aggregate_context(fcinfo);
	TopkState *state = sketch_state_arg(fcinfo, 0);
	TopkState *other = sketch_state_arg(fcinfo, 1);
	TopkList list;

	if (other == NULL)
		return sketch_state_result(fcinfo, state);
	topk_list(other, &list);
	if (state != NULL && same && list.k != topk_k(state))
		sketch_rows_differ("k");
	if (state != NULL && same && list.counters != topk_counters(state))
		sketch_rows_differ("the number of counters");
	state = topkagg_merged(state, &list, context);
	pfree(list.items);
	PG_RETURN_POINTER(state);
}

/*
 * topk_combine(internal, internal) -> internal, of states that topk_trans made
 */
Datum
topk_combine(PG_FUNCTION_ARGS)
{
	return topkagg_combine(fcinfo, true);
}

/*
 * topk_union_combine(internal, internal) -> internal
 */
Datum
topk_union_combine(PG_FUNCTION_ARGS)
{
	return topkagg_combine(fcinfo, false);
}

/*
 * topk_serialize(internal) -> bytea
 */
Datum
topk_serialize(PG_FUNCTION_ARGS)
{
	sketch_aggregate_context(fcinfo);
	PG_RETURN_BYTEA_P(topk_state_value((TopkState *) PG_GETARG_POINTER(0)));
}

/*
 * topk_deserialize(bytea, internal) -> internal
 */
Datum
topk_deserialize(PG_FUNCTION_ARGS)
{
	bytea *value = PG_GETARG_BYTEA_PP(0);
	const uint8 *data = (const uint8 *) VARDATA_ANY(value);
	const char *wrong = topk_check(data, VARSIZE_ANY_EXHDR(value));
	TopkList list;

	sketch_aggregate_context(fcinfo);
	if (wrong != NULL)
		elog(ERROR, "invalid transition state: %s", wrong);
	topk_decode(data, VARSIZE_ANY_EXHDR(value), &list);
	PG_RETURN_POINTER(topk_state_load(&list));
}

/*
 * topk_final(internal) -> dc_topk
 */
Datum
topk_final(PG_FUNCTION_ARGS)
{
	sketch_aggregate_context(fcinfo);
	if (PG_ARGISNULL(0))
		PG_RETURN_NULL();
	PG_RETURN_BYTEA_P(topk_state_value((TopkState *) PG_GETARG_POINTER(0)));
}
