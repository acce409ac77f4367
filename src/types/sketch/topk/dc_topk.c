/*
 * dc_topk.c
 *		The type dc_topk and its functions.
 *
 * Copyright (c) 2026, the dcounter developers
 *
 * A value is the bytes that topkformat.c describes; to change it, they are loaded
 * into a state (topk.c) and stored again. Items are their canonical text (item.c),
 * in the encoding of the database.
 */
#include "postgres.h"

#include "base/args.h"
#include "types/sketch/topk/dc_topk.h"

#include <math.h>

#include "funcapi.h"
#include "mb/pg_wchar.h"
#include "miscadmin.h"
#include "utils/builtins.h"
#include "utils/memutils.h"
#include "utils/tuplestore.h"

#include "base/compat.h"
#include "types/sketch/io.h"

PG_FUNCTION_INFO_V1(dc_topk);
PG_FUNCTION_INFO_V1(dc_topk_add);
PG_FUNCTION_INFO_V1(dc_topk_union);
PG_FUNCTION_INFO_V1(dc_topk_list);
PG_FUNCTION_INFO_V1(dc_topk_heavy);
PG_FUNCTION_INFO_V1(dc_topk_estimate);
PG_FUNCTION_INFO_V1(dc_topk_bounds);
PG_FUNCTION_INFO_V1(dc_topk_info);

static const char *topk_check_value(const uint8_t *data, size_t len);

static const SketchIo io = {"dc_topk", topk_check_value, NULL};

DC_SKETCH_FUNCTION(dc_topk_in, sketch_in(fcinfo, &io));
DC_SKETCH_FUNCTION(dc_topk_out, sketch_out(fcinfo));
DC_SKETCH_FUNCTION(dc_topk_recv, sketch_recv(fcinfo, &io));
DC_SKETCH_FUNCTION(dc_topk_send, PointerGetDatum(PG_GETARG_BYTEA_P_COPY(0)));
DC_SKETCH_FUNCTION(dc_topk_from_bytea, sketch_from_bytea(fcinfo, &io));
DC_SKETCH_FUNCTION(dc_topk_to_bytea, PointerGetDatum(PG_GETARG_BYTEA_P(0)));

/*
 * topk_check_value returns what is wrong with bytes from outside, or NULL.
 */
static const char *
topk_check_value(const uint8_t *data, size_t len)
{
	const char *wrong = topk_check(data, len);
	TopkReader reader;
	TopkList list;

	if (wrong != NULL)
		return wrong;
	topk_read(&reader, data, len, &list);
	for (int i = 0; i < list.n; i++)
	{
		TopkItem item;

		CHECK_FOR_INTERRUPTS();
		topk_read_item(&reader, &item);
		if (!pg_verifymbstr(item.data, (int) item.len, true))
			return "An item is not valid text in the encoding of this database.";
	}
	return NULL;
}

/*
 * use_secret keys the hash tables of this process, so that no user can know which items
 * collide in them.
 */
static void
use_secret(void)
{
	static bool used = false;
	uint64 secret;

	if (!used && pg_strong_random(&secret, sizeof(secret)))
		topk_set_secret(secret);
	used = true;
}

/*
 * topk_state_new creates an empty state in the current memory context, of a function's arguments.
 * There need not be one for the counters.
 */
TopkState *
topk_state_new(FunctionCallInfo fcinfo, int k_arg, int counters_arg)
{
	int32 k;
	int32 counters;

	arg_not_null(fcinfo, k_arg, "k");
	k = PG_GETARG_INT32(k_arg);
	if (k < 1 || k > TOPK_MAX_COUNTERS)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("k must be between 1 and %d", TOPK_MAX_COUNTERS)));
	if (counters_arg < PG_NARGS() && !PG_ARGISNULL(counters_arg))
		counters = PG_GETARG_INT32(counters_arg);
	else
		counters = topk_default_counters(k);
	if (counters < k || counters > TOPK_MAX_COUNTERS)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("the number of counters must be between k (%d) and %d", k, TOPK_MAX_COUNTERS)));
	use_secret();
	return topk_new(k, counters);
}

/*
 * Make a state of a list, with hash tables that are keyed by this process's secret.
 */
TopkState *
topk_state_load(const TopkList *list)
{
	use_secret();
	return topk_load(list);
}

/*
 * Raise 22003: the total weight would be out of range for bigint.
 */
static void
refuse_overflow(void)
{
	ereport(ERROR,
			(errcode(ERRCODE_NUMERIC_VALUE_OUT_OF_RANGE),
			 errmsg("bigint out of range"),
			 errdetail("The total weight would be too large.")));
}

/*
 * Add a weight, which is not negative, to an item; 22003 if the total would overflow bigint.
 */
void
topk_state_add(TopkState *state, const ItemBytes *item, int64 weight)
{
	if (!topk_add(state, item->data, item->len, weight))
		refuse_overflow();
}

/*
 * Merge a list into a state; 22003 if the total weight would be out of range for bigint.
 */
void
topk_state_merge(TopkState *state, const TopkList *other)
{
	if (!topk_merge(state, other))
		refuse_overflow();
}

/*
 * topk_state_value makes the value of a state, which stays as it is.
 */
bytea *
topk_state_value(const TopkState *state)
{
	TopkList list;
	size_t size;
	bytea *value;

	topk_list(state, &list);
	size = topk_encoded_size(&list);
	if (size > MaxAllocSize - VARHDRSZ)
		ereport(ERROR,
				(errcode(ERRCODE_PROGRAM_LIMIT_EXCEEDED),
				 errmsg("a value of type dc_topk would be too large"),
				 errdetail("It lists %d items with a total of %zu bytes.", list.n, size),
				 errhint("Use fewer counters or shorter items.")));
	value = palloc(VARHDRSZ + size);
	SET_VARSIZE(value, VARHDRSZ + size);
	topk_encode(&list, (uint8 *) VARDATA(value));
	pfree(list.items);
	return value;
}

/*
 * topk_item_text creates an item's text. A value must be read back by its input function, so text
 * that some type's output function makes is checked.
 */
void
topk_item_text(ItemType *type, Datum value, ItemBytes *item)
{
	item_text(type, value, item);
	if (type->kind == ITEM_OTHER)
		pg_verifymbstr(item->data, (int) item->len, false);
}

/*
 * Raise 22023 if a weight is negative.
 */
void
topk_weight_check(int64 weight)
{
	if (weight < 0)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("weight must not be negative")));
}

/*
 * topk_value_decode makes the list of a stored value.
 */
void
topk_value_decode(bytea *value, TopkList *list)
{
	if (!topk_decode((const uint8 *) VARDATA_ANY(value), VARSIZE_ANY_EXHDR(value), list))
		sketch_damaged(&io, NULL);
}

/*
 * dc_topk_total returns the total weight of a stored value, of which it reads the header only.
 */
int64
dc_topk_total(Datum value)
{
	bytea *header = DatumGetByteaPSlice(value, 0, TOPK_MAX_HEADER_BYTES);
	TopkReader reader;
	TopkList list;

	if (!topk_read(&reader, (const uint8 *) VARDATA_ANY(header), VARSIZE_ANY_EXHDR(header), &list))
		sketch_damaged(&io, NULL);
	return list.total;
}

/*
 * dc_topk(k int, counters int) -> dc_topk
 */
Datum
dc_topk(PG_FUNCTION_ARGS)
{
	PG_RETURN_BYTEA_P(topk_state_value(topk_state_new(fcinfo, 0, 1)));
}

/*
 * dc_topk_add(sketch dc_topk, item anyelement or text, weight bigint) -> dc_topk
 */
Datum
dc_topk_add(PG_FUNCTION_ARGS)
{
	ItemBytes item;
	TopkList list;
	TopkState *state;
	int64 weight;

	if (PG_ARGISNULL(0))
		PG_RETURN_NULL();
	if (PG_ARGISNULL(1) || PG_ARGISNULL(2))
		PG_RETURN_DATUM(PG_GETARG_DATUM(0));
	weight = PG_GETARG_INT64(2);
	topk_weight_check(weight);
	if (weight == 0)
		PG_RETURN_DATUM(PG_GETARG_DATUM(0));
	topk_item_text(item_type_of_arg(fcinfo, 1), PG_GETARG_DATUM(1), &item);
	topk_value_decode(PG_GETARG_BYTEA_PP(0), &list);
	state = topk_state_load(&list);
	topk_state_add(state, &item, weight);
	PG_RETURN_BYTEA_P(topk_state_value(state));
}

/*
 * dc_topk_union(a dc_topk, b dc_topk) -> dc_topk
 */
Datum
dc_topk_union(PG_FUNCTION_ARGS)
{
	TopkList a;
	TopkList b;
	TopkState *state;

	topk_value_decode(PG_GETARG_BYTEA_PP(0), &a);
	topk_value_decode(PG_GETARG_BYTEA_PP(1), &b);
	state = topk_state_load(&a);
	topk_state_merge(state, &b);
	PG_RETURN_BYTEA_P(topk_state_value(state));
}

/*
 * Add a row of dc_topk_list() to the result: rank, item, estimate, lower and upper bound, and
 * whether it is guaranteed to be among the heaviest.
 */
static void
topk_put_row(ReturnSetInfo *result, int64 rank, const TopkItem *item, bool guaranteed)
{
	Datum values[6];
	bool nulls[6] = {0};
	text *name;

	CHECK_FOR_INTERRUPTS();
	name = cstring_to_text_with_len(item->data, (int) item->len);
	values[0] = Int64GetDatum(rank);
	values[1] = PointerGetDatum(name);
	values[2] = Int64GetDatum(item->count);
	values[3] = Int64GetDatum(item->count - item->error);
	values[4] = Int64GetDatum(item->count);
	values[5] = BoolGetDatum(guaranteed);
	tuplestore_putvalues(result->setResult, result->setDesc, values, nulls);
	pfree(name);
}

/*
 * dc_topk_list(sketch dc_topk, n int)
 *		-> table (rank, item, estimate, lower, upper, guaranteed)
 *
 * An item is guaranteed to be among the n heaviest if no item that is not shown
 * can be heavier, be it listed further down or not at all.
 */
Datum
dc_topk_list(PG_FUNCTION_ARGS)
{
	TopkList list;
	int64 others;
	int n;

	InitMaterializedSRF(fcinfo, 0);
	if (PG_ARGISNULL(0))
		PG_RETURN_NULL();
	topk_value_decode(PG_GETARG_BYTEA_PP(0), &list);
	n = PG_ARGISNULL(1) ? list.k : PG_GETARG_INT32(1);
	if (n < 0)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("the number of items to list must not be negative")));
	others = n < list.n ? list.items[n].count : list.floor;
	for (int i = 0; i < n && i < list.n; i++)
	{
		const TopkItem *item = &list.items[i];

		topk_put_row((ReturnSetInfo *) fcinfo->resultinfo, i + 1, item, item->count - item->error >= others);
	}
	PG_RETURN_NULL();
}

/*
 * dc_topk_heavy(sketch dc_topk, share float8)
 *		-> table (rank, item, estimate, lower, upper, guaranteed)
 */
Datum
dc_topk_heavy(PG_FUNCTION_ARGS)
{
	float8 share = PG_GETARG_FLOAT8(1);
	TopkList list;

	InitMaterializedSRF(fcinfo, 0);
	if (isnan(share) || share < 0 || share > 1)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("share must be between 0 and 1")));
	topk_value_decode(PG_GETARG_BYTEA_PP(0), &list);
	if (list.floor > 0 && topk_has_share(list.floor, list.total, share, false))
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("items with such a small share may be missing from this sketch"),
				 errdetail("An item that is not listed may have a weight of up to %lld out of %lld.",
						   (long long) list.floor, (long long) list.total),
				 errhint("Ask for a larger share, or use more counters than the %d of this sketch.", list.counters)));
	for (int i = 0; i < list.n; i++)
	{
		const TopkItem *item = &list.items[i];

		if (!topk_has_share(item->count, list.total, share, false))
			break;
		topk_put_row((ReturnSetInfo *) fcinfo->resultinfo, i + 1, item,
					 topk_has_share(item->count - item->error, list.total, share, true));
	}
	PG_RETURN_NULL();
}

/*
 * topk_look_up finds the bounds of an item, the second argument, in the first.
 */
static void
topk_look_up(FunctionCallInfo fcinfo, int64 *lower, int64 *upper)
{
	bytea *value = PG_GETARG_BYTEA_PP(0);
	ItemBytes wanted;
	TopkReader reader;
	TopkList list;

	topk_item_text(item_type_of_arg(fcinfo, 1), PG_GETARG_DATUM(1), &wanted);
	if (!topk_read(&reader, (const uint8 *) VARDATA_ANY(value), VARSIZE_ANY_EXHDR(value), &list))
		sketch_damaged(&io, NULL);
	for (int i = 0; i < list.n; i++)
	{
		TopkItem item;

		if (!topk_read_item(&reader, &item))
			sketch_damaged(&io, NULL);
		if (item.len == wanted.len && memcmp(item.data, wanted.data, item.len) == 0)
		{
			*lower = item.count - item.error;
			*upper = item.count;
			return;
		}
	}
	*lower = 0;
	*upper = list.floor;
}

/*
 * dc_topk_estimate(sketch dc_topk, item anyelement or text) -> bigint
 */
Datum
dc_topk_estimate(PG_FUNCTION_ARGS)
{
	int64 lower;
	int64 upper;

	topk_look_up(fcinfo, &lower, &upper);
	PG_RETURN_INT64(upper);
}

/*
 * dc_topk_bounds(sketch dc_topk, item anyelement or text) -> (lower, estimate, upper)
 */
Datum
dc_topk_bounds(PG_FUNCTION_ARGS)
{
	int64 lower;
	int64 upper;
	Datum values[3];
	bool nulls[3] = {false};

	topk_look_up(fcinfo, &lower, &upper);
	values[0] = Int64GetDatum(lower);
	values[1] = Int64GetDatum(upper);
	values[2] = Int64GetDatum(upper);
	return record_result(fcinfo, values, nulls);
}

/*
 * dc_topk_info(sketch dc_topk)
 *		-> (k, counters, items, total_weight, max_error, exact, bytes)
 */
Datum
dc_topk_info(PG_FUNCTION_ARGS)
{
	bytea *value = PG_GETARG_BYTEA_PP(0);
	TopkReader reader;
	TopkList list;
	Datum values[7];
	bool nulls[7] = {false};

	if (!topk_read(&reader, (const uint8 *) VARDATA_ANY(value), VARSIZE_ANY_EXHDR(value), &list))
		sketch_damaged(&io, NULL);
	values[0] = Int32GetDatum(list.k);
	values[1] = Int32GetDatum(list.counters);
	values[2] = Int32GetDatum(list.n);
	values[3] = Int64GetDatum(list.total);
	values[4] = Int64GetDatum(list.floor);
	values[5] = BoolGetDatum(list.floor == 0);
	values[6] = Int32GetDatum((int32) VARSIZE_ANY_EXHDR(value));
	return record_result(fcinfo, values, nulls);
}
