/*
 * dc_hllorder.c
 *		Comparison of dc_hll values, for GROUP BY, DISTINCT, joins and indexes.
 *
 * Equal sketches are equal bytes, so values are compared as bytes. The order has
 * no meaning but to be one.
 */
#include "postgres.h"

#include "base/compat.h"
#include "common/hashfn.h"
#include "fmgr.h"

PG_FUNCTION_INFO_V1(dc_hll_eq);
PG_FUNCTION_INFO_V1(dc_hll_ne);
PG_FUNCTION_INFO_V1(dc_hll_lt);
PG_FUNCTION_INFO_V1(dc_hll_le);
PG_FUNCTION_INFO_V1(dc_hll_gt);
PG_FUNCTION_INFO_V1(dc_hll_ge);
PG_FUNCTION_INFO_V1(dc_hll_cmp);
PG_FUNCTION_INFO_V1(dc_hll_hash);
PG_FUNCTION_INFO_V1(dc_hll_hash_extended);

static int
compare(FunctionCallInfo fcinfo)
{
	bytea *a = PG_GETARG_BYTEA_PP(0);
	bytea *b = PG_GETARG_BYTEA_PP(1);
	size_t a_len = VARSIZE_ANY_EXHDR(a);
	size_t b_len = VARSIZE_ANY_EXHDR(b);
	int order = memcmp(VARDATA_ANY(a), VARDATA_ANY(b), Min(a_len, b_len));

	if (order == 0)
		order = (a_len > b_len) - (a_len < b_len);
	PG_FREE_IF_COPY(a, 0);
	PG_FREE_IF_COPY(b, 1);
	return order;
}

Datum
dc_hll_eq(PG_FUNCTION_ARGS)
{
	PG_RETURN_BOOL(compare(fcinfo) == 0);
}

Datum
dc_hll_ne(PG_FUNCTION_ARGS)
{
	PG_RETURN_BOOL(compare(fcinfo) != 0);
}

Datum
dc_hll_lt(PG_FUNCTION_ARGS)
{
	PG_RETURN_BOOL(compare(fcinfo) < 0);
}

Datum
dc_hll_le(PG_FUNCTION_ARGS)
{
	PG_RETURN_BOOL(compare(fcinfo) <= 0);
}

Datum
dc_hll_gt(PG_FUNCTION_ARGS)
{
	PG_RETURN_BOOL(compare(fcinfo) > 0);
}

Datum
dc_hll_ge(PG_FUNCTION_ARGS)
{
	PG_RETURN_BOOL(compare(fcinfo) >= 0);
}

Datum
dc_hll_cmp(PG_FUNCTION_ARGS)
{
	PG_RETURN_INT32(compare(fcinfo));
}

Datum
dc_hll_hash(PG_FUNCTION_ARGS)
{
	bytea *value = PG_GETARG_BYTEA_PP(0);
	Datum hash = hash_any((unsigned char *) VARDATA_ANY(value), VARSIZE_ANY_EXHDR(value));

	PG_FREE_IF_COPY(value, 0);
	return hash;
}

Datum
dc_hll_hash_extended(PG_FUNCTION_ARGS)
{
	bytea *value = PG_GETARG_BYTEA_PP(0);
	Datum hash = hash_any_extended((unsigned char *) VARDATA_ANY(value),
								   VARSIZE_ANY_EXHDR(value), PG_GETARG_INT64(1));

	PG_FREE_IF_COPY(value, 0);
	return hash;
}
