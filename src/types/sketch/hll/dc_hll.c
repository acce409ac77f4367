/*
 * dc_hll.c
 *		The SQL type dc_hll: input, output, comparison, type modifier, and functions
 *		of one value or of two.
 *
 * Copyright (c) 2026, the dcounter developers
 *
 * A value is flat (see hllformat.c) or an expanded object (dc_hllexpanded.c).
 */
#include "postgres.h"

#include "types/sketch/hll/dc_hll.h"

#include <math.h>

#include "utils/array.h"
#include "utils/builtins.h"
#include "utils/fmgrprotos.h"
#include "utils/lsyscache.h"

#include "base/args.h"
#include "base/compat.h"
#include "types/sketch/hash.h"
#include "types/sketch/io.h"
#include "types/sketch/item.h"

static Datum coerce_precision(Datum value, int32 typmod, CompatNode escontext);

static const SketchIo io = {"dc_hll", hll_check, coerce_precision};

DC_SKETCH_FUNCTION(dc_hll_in, sketch_in(fcinfo, &io));
DC_SKETCH_FUNCTION(dc_hll_out, sketch_out(fcinfo));
DC_SKETCH_FUNCTION(dc_hll_recv, sketch_recv(fcinfo, &io));
DC_SKETCH_FUNCTION(dc_hll_send, PointerGetDatum(PG_GETARG_BYTEA_P_COPY(0)));
DC_SKETCH_FUNCTION(dc_hll_from_bytea, sketch_from_bytea(fcinfo, &io));
DC_SKETCH_FUNCTION(dc_hll_to_bytea, PointerGetDatum(PG_GETARG_BYTEA_P(0)));

/*
 * Comparison, for GROUP BY, DISTINCT, joins and indexes. Equal sketches are equal
 * bytes, so values are compared as bytes. The order has no meaning but to be one.
 */
DC_SKETCH_FUNCTION(dc_hll_eq, byteaeq(fcinfo));
DC_SKETCH_FUNCTION(dc_hll_ne, byteane(fcinfo));
DC_SKETCH_FUNCTION(dc_hll_lt, bytealt(fcinfo));
DC_SKETCH_FUNCTION(dc_hll_le, byteale(fcinfo));
DC_SKETCH_FUNCTION(dc_hll_gt, byteagt(fcinfo));
DC_SKETCH_FUNCTION(dc_hll_ge, byteage(fcinfo));
DC_SKETCH_FUNCTION(dc_hll_cmp, byteacmp(fcinfo));
DC_SKETCH_FUNCTION(dc_hll_hash, hashvarlena(fcinfo));
DC_SKETCH_FUNCTION(dc_hll_hash_extended, hashvarlenaextended(fcinfo));

PG_FUNCTION_INFO_V1(dc_hll_typmod_in);
PG_FUNCTION_INFO_V1(dc_hll_typmod_out);
PG_FUNCTION_INFO_V1(dc_hll_enforce);
PG_FUNCTION_INFO_V1(dc_hll);
PG_FUNCTION_INFO_V1(dc_hll_add);
PG_FUNCTION_INFO_V1(dc_hll_add_many);
PG_FUNCTION_INFO_V1(dc_hll_would_change);
PG_FUNCTION_INFO_V1(dc_hll_union);
PG_FUNCTION_INFO_V1(dc_hll_reduce);
PG_FUNCTION_INFO_V1(dc_hll_count);
PG_FUNCTION_INFO_V1(dc_hll_estimate);
PG_FUNCTION_INFO_V1(dc_hll_bounds);
PG_FUNCTION_INFO_V1(dc_hll_info);

/*
 * hll_check_precision throws unless there are sketches of that precision.
 */
void
hll_check_precision(int precision)
{
	if (precision < HLL_MIN_PRECISION || precision > HLL_MAX_PRECISION)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("precision %d is out of range", precision),
				 errdetail("The precision of a dc_hll must be between %d and %d.",
						   HLL_MIN_PRECISION, HLL_MAX_PRECISION)));
}

/*
 * hll_check_same_hash throws if two sketches cannot be merged.
 */
void
hll_check_same_hash(int hash, int other)
{
	if (hash != other)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("sketches with different hash functions cannot be combined"),
				 errdetail("The same item has different registers in each of them, and would be counted twice.")));
}

/*
 * hll_value creates a flat value from a state.
 */
Datum
hll_value(const HllState *state)
{
	size_t len;
	uint8_t *bytes = hll_encode(state, &len);
	bytea *value = sketch_value(bytes, len);

	pfree(bytes);
	return PointerGetDatum(value);
}

/*
 * hll_state_of creates a separate state from any dc_hll, in the current context.
 */
HllState *
hll_state_of(Datum value)
{
	const HllState *state = hll_from_datum(value);

	if (VARATT_IS_EXTERNAL_EXPANDED(DatumGetPointer(value)))
		return hll_copy(state);
	return (HllState *) state;
}

/*
 * hll_bytes returns the bytes of a value that is fetched. Values were checked when
 * they came in, but a stored one may have been damaged since. So the header is checked
 * again, as the size of memory depends on it.
 */
const uint8_t *
hll_bytes(bytea *flat, size_t *len)
{
	const uint8_t *data = (const uint8_t *) VARDATA_ANY(flat);
	const char *wrong;

	*len = VARSIZE_ANY_EXHDR(flat);
	wrong = hll_check_header(data, *len);
	if (wrong != NULL)
		sketch_damaged(&io, wrong);
	return data;
}

/*
 * hll_absorb_bytes merges a value that is fetched into a state, whose memory is
 * the current context's; without a state, it makes one. The result is the state,
 * which may have moved.
 */
HllState *
hll_absorb_bytes(HllState *into, bytea *flat)
{
	const char *wrong = NULL;
	size_t len;
	const uint8_t *data = hll_bytes(flat, &len);

	if (into == NULL)
		into = hll_empty_for(data);
	else
		hll_check_same_hash(into->hash, hll_value_hash(data));
	into = hll_absorb(into, data, len, &wrong);
	if (wrong != NULL)
		sketch_damaged(&io, wrong);
	return into;
}

/*
 * hll_merge_datum merges any dc_hll into a state, as hll_absorb_bytes does.
 */
HllState *
hll_merge_datum(HllState *into, Datum value)
{
	bytea *flat;

	if (VARATT_IS_EXTERNAL_EXPANDED(DatumGetPointer(value)))
	{
		const HllState *from = hll_from_datum(value);

		hll_check_same_hash(into->hash, from->hash);
		return hll_merge(into, from);
	}
	flat = DatumGetByteaPP(value);
	into = hll_absorb_bytes(into, flat);
	if ((Pointer) flat != DatumGetPointer(value))
		pfree(flat);
	return into;
}

/*
 * Round an estimate to a bigint; 22003 if it is out of range.
 */
int64
hll_rounded(double estimate)
{
	/* A sketch of full registers is an import, and stands for no number. */
	if (!(estimate < 9.2e18))
		ereport(ERROR,
				(errcode(ERRCODE_NUMERIC_VALUE_OUT_OF_RANGE),
				 errmsg("bigint out of range")));
	return llround(estimate);
}

/*
 * Type modifier: the precision.
 */

/*
 * hll_typmod_in(modifiers): Return the precision of dc_hll(precision); 22023 if there is not one
 * modifier, or it is out of range.
 */
Datum
dc_hll_typmod_in(PG_FUNCTION_ARGS)
{
	int n;
	int32 *modifiers = ArrayGetIntegerTypmods(PG_GETARG_ARRAYTYPE_P(0), &n);

	if (n != 1)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("type dc_hll takes one modifier, its precision")));
	hll_check_precision(modifiers[0]);
	PG_RETURN_INT32(modifiers[0]);
}

/*
 * hll_typmod_out(typmod): Return the precision in parentheses.
 */
Datum
dc_hll_typmod_out(PG_FUNCTION_ARGS)
{
	PG_RETURN_CSTRING(psprintf("(%d)", PG_GETARG_INT32(0)));
}

/*
 * dc_hll_enforce(dc_hll, int, boolean): the cast that a column's precision is
 * enforced with. Too much precision of a value is dropped, as a numeric's
 * digits are. Too little is an error.
 */
Datum
dc_hll_enforce(PG_FUNCTION_ARGS)
{
	return coerce_precision(PG_GETARG_DATUM(0), PG_GETARG_INT32(1), NULL);
}

/*
 * Return a dc_hll with the precision of a type modifier; a negative one leaves it as it is. 22023
 * if the value's precision is lower, as a soft error if escontext takes it.
 */
static Datum
coerce_precision(Datum value, int32 typmod, CompatNode escontext)
{
	int precision;

	if (typmod < 0)
		return value;
	/* Anyone may call a cast's function, with any number. */
	hll_check_precision(typmod);
	if (VARATT_IS_EXTERNAL_EXPANDED(DatumGetPointer(value)))
		precision = hll_from_datum(value)->precision;
	else
	{
		bytea *head = (bytea *) PG_DETOAST_DATUM_SLICE(value, 0, 3);
		size_t len;

		precision = hll_value_precision(hll_bytes(head, &len));
	}
	if (precision == typmod)
		return value;
	if (precision < typmod)
		compat_ereturn(escontext, (Datum) 0,
					   (errcode(ERRCODE_INVALID_PARAMETER_VALUE),
						errmsg("a sketch of precision %d cannot be stored as dc_hll(%d)",
							   precision, typmod),
						errdetail("Precision can be reduced, but not increased.")));
	return hll_value(hll_reduce(hll_state_of(value), typmod));
}

/*
 * dc_hll(precision int = 14): an empty sketch.
 */
Datum
dc_hll(PG_FUNCTION_ARGS)
{
	int precision = PG_GETARG_INT32(0);

	hll_check_precision(precision);
	return hll_value(hll_new(precision, SKETCH_HASH_REDIS));
}

/* A dc_hll that is fetched and decompressed, if it is flat. */
static Datum
hll_fetched(Datum value)
{
	if (VARATT_IS_EXTERNAL_EXPANDED(DatumGetPointer(value)))
		return value;
	return PointerGetDatum(DatumGetByteaPP(value));
}

/* The hash function of a dc_hll that is fetched. */
static int
hash_of(Datum value)
{
	size_t len;

	if (VARATT_IS_EXTERNAL_EXPANDED(DatumGetPointer(value)))
		return hll_from_datum(value)->hash;
	return hll_value_hash(hll_bytes((bytea *) DatumGetPointer(value), &len));
}

/*
 * dc_hll_add(h, item): with one more item. A NULL item, and one that changes
 * nothing, give the sketch as it was: as a table's row has it, so that storing
 * it writes no copy of an out-of-line value.
 */
Datum
dc_hll_add(PG_FUNCTION_ARGS)
{
	Datum value;
	Datum result;
	uint64 hash;

	if (PG_ARGISNULL(0))
		PG_RETURN_NULL();
	if (PG_ARGISNULL(1))
		PG_RETURN_DATUM(PG_GETARG_DATUM(0));
	value = hll_fetched(PG_GETARG_DATUM(0));
	hash = item_hash(item_type_of_arg(fcinfo, 1), PG_GETARG_DATUM(1), hash_of(value));
	result = hll_datum_add(value, &hash, 1);
	PG_RETURN_DATUM(result == value ? PG_GETARG_DATUM(0) : result);
}

/*
 * dc_hll_add_many(h, items[]): with all items of an array but NULLs.
 */
Datum
dc_hll_add_many(PG_FUNCTION_ARGS)
{
	Datum value = hll_fetched(PG_GETARG_DATUM(0));
	ArrayType *array = PG_GETARG_ARRAYTYPE_P(1);
	int hash = hash_of(value);
	ItemType type;
	Datum *items;
	Datum result;
	bool *nulls;
	uint64 *hashes;
	int16 typlen;
	bool typbyval;
	char typalign;
	int n;
	int nhashes = 0;

	get_typlenbyvalalign(ARR_ELEMTYPE(array), &typlen, &typbyval, &typalign);
	deconstruct_array(array, ARR_ELEMTYPE(array), typlen, typbyval, typalign,
					  &items, &nulls, &n);
	item_type_init(&type, ARR_ELEMTYPE(array), PG_GET_COLLATION(), CurrentMemoryContext);
	hashes = palloc(Max(n, 1) * sizeof(uint64));
	for (int i = 0; i < n; i++)
	{
		CHECK_FOR_INTERRUPTS();
		if (!nulls[i])
			hashes[nhashes++] = item_hash(&type, items[i], hash);
	}
	result = hll_datum_add(value, hashes, nhashes);
	PG_RETURN_DATUM(result == value ? PG_GETARG_DATUM(0) : result);
}

/*
 * dc_hll_would_change(h, item): whether dc_hll_add would change the sketch.
 */
Datum
dc_hll_would_change(PG_FUNCTION_ARGS)
{
	Datum value;
	uint64 hash;

	if (PG_ARGISNULL(0))
		PG_RETURN_NULL();
	if (PG_ARGISNULL(1))
		PG_RETURN_BOOL(false);
	value = hll_fetched(PG_GETARG_DATUM(0));
	hash = item_hash(item_type_of_arg(fcinfo, 1), PG_GETARG_DATUM(1), hash_of(value));
	PG_RETURN_BOOL(hll_datum_would_change(value, hash));
}

/*
 * dc_hll_union(a, b): the items of both.
 */
Datum
dc_hll_union(PG_FUNCTION_ARGS)
{
	HllState *state = hll_state_of(PG_GETARG_DATUM(0));

	return hll_value(hll_merge_datum(state, PG_GETARG_DATUM(1)));
}

/*
 * dc_hll_reduce(h, precision): with less precision, or as it is.
 */
Datum
dc_hll_reduce(PG_FUNCTION_ARGS)
{
	Datum value = PG_GETARG_DATUM(0);
	int precision = PG_GETARG_INT32(1);

	hll_check_precision(precision);
	if (hll_from_datum(value)->precision <= precision)
		PG_RETURN_DATUM(value);
	return hll_value(hll_reduce(hll_state_of(value), precision));
}

/*
 * dc_hll_count(h): Return the estimated number of distinct items, rounded.
 */
Datum
dc_hll_count(PG_FUNCTION_ARGS)
{
	PG_RETURN_INT64(hll_rounded(hll_estimate(hll_from_datum(PG_GETARG_DATUM(0)))));
}

/*
 * dc_hll_estimate(h): Return the estimated number of distinct items, not rounded.
 */
Datum
dc_hll_estimate(PG_FUNCTION_ARGS)
{
	PG_RETURN_FLOAT8(hll_estimate(hll_from_datum(PG_GETARG_DATUM(0))));
}

/*
 * dc_hll_bounds(h, confidence = 0.95): an interval that holds the true number
 * with that probability.
 */
Datum
dc_hll_bounds(PG_FUNCTION_ARGS)
{
	double bounds[3];

	hll_bounds(hll_from_datum(PG_GETARG_DATUM(0)),
			   hll_confidence(PG_GETARG_FLOAT8(1)),
			   &bounds[0], &bounds[1], &bounds[2]);
	return hll_bounds_record(fcinfo, bounds);
}

/*
 * hll_confidence checks a probability for bounds.
 */
double
hll_confidence(double confidence)
{
	if (!(confidence > 0 && confidence < 1))
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("confidence must be between 0 and 1")));
	return confidence;
}

/*
 * hll_bounds_record makes the result (lower, estimate, upper).
 */
Datum
hll_bounds_record(FunctionCallInfo fcinfo, const double *bounds)
{
	Datum values[3];
	bool nulls[3] = {false};

	for (int i = 0; i < 3; i++)
		values[i] = Float8GetDatum(bounds[i]);
	return record_result(fcinfo, values, nulls);
}

/*
 * dc_hll_info(h): how a sketch is stored.
 */
Datum
dc_hll_info(PG_FUNCTION_ARGS)
{
	const HllState *state = hll_from_datum(PG_GETARG_DATUM(0));
	Datum values[7];
	bool nulls[7] = {false};
	size_t len;
	uint8_t *flat = hll_encode(state, &len);

	values[0] = Int32GetDatum(state->precision);
	values[1] = CStringGetTextDatum(state->hash == SKETCH_HASH_REDIS ? "redis" : "murmur3");
	values[2] = CStringGetTextDatum(hll_form_name(flat));
	values[3] = Int32GetDatum(hll_nregisters(state->precision));
	values[4] = Int32GetDatum((int32) state->count);
	nulls[4] = state->dense;
	values[5] = Float8GetDatum(hll_error(state->precision));
	values[6] = Int32GetDatum((int32) (VARHDRSZ + len));
	return record_result(fcinfo, values, nulls);
}
