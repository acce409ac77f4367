/*
 * dc_hllforeign.c
 *		dc_hll values to and from other systems.
 *
 * Copyright (c) 2026, the dcounter developers
 */
#include "postgres.h"

#include "fmgr.h"

#include "base/compat.h"
#include "types/sketch/hash.h"
#include "types/sketch/hll/dc_hll.h"
#include "types/sketch/hll/hllforeign.h"
#include "types/sketch/io.h"

PG_FUNCTION_INFO_V1(dc_hll_from_redis);
PG_FUNCTION_INFO_V1(dc_hll_to_redis);
PG_FUNCTION_INFO_V1(dc_hll_from_postgresql_hll);
PG_FUNCTION_INFO_V1(dc_hll_to_postgresql_hll);

/*
 * Return a dc_hll of the bytea argument, in the format that `read` takes. 22023 with this message,
 * and what is wrong as the DETAIL, if `read` returns NULL.
 */
static Datum
hllforeign_imported(FunctionCallInfo fcinfo,
					HllState *(*read)(const uint8_t *data, size_t len, const char **wrong),
					const char *message)
{
	bytea *bytes = PG_GETARG_BYTEA_PP(0);
	const char *wrong;
	HllState *state = read((const uint8_t *) VARDATA_ANY(bytes), VARSIZE_ANY_EXHDR(bytes), &wrong);

	if (state == NULL)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg_internal("%s", message),
				 errdetail_internal("%s", wrong)));
	return hll_value(state);
}

/*
 * dc_hll_from_redis(bytea): the value of a Redis key, as GET returns it.
 */
Datum
dc_hll_from_redis(PG_FUNCTION_ARGS)
{
	return hllforeign_imported(fcinfo, hll_from_redis, "invalid HyperLogLog of Redis");
}

/*
 * dc_hll_to_redis(h): a value for SET. Redis can add to it, since its items were
 * hashed as Redis hashes them; others cannot be exported.
 */
Datum
dc_hll_to_redis(PG_FUNCTION_ARGS)
{
	HllState *state = hll_state_of(PG_GETARG_DATUM(0));
	size_t len;
	uint8_t *bytes;

	if (state->hash != SKETCH_HASH_REDIS)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("only a sketch with the hash function of Redis can be exported to Redis"),
				 errdetail("Redis would count its items a second time.")));
	if (state->precision < HLL_REDIS_PRECISION)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("a sketch of precision %d cannot be exported to Redis", state->precision),
				 errdetail("Redis has a precision of %d. Precision can be reduced, but not increased.",
						   HLL_REDIS_PRECISION)));
	bytes = hll_to_redis(hll_reduce(state, HLL_REDIS_PRECISION), &len);
	PG_RETURN_BYTEA_P(sketch_value(bytes, len));
}

/*
 * dc_hll_from_postgresql_hll(bytea): a value of the extension hll, cast to bytea.
 */
Datum
dc_hll_from_postgresql_hll(PG_FUNCTION_ARGS)
{
	return hllforeign_imported(fcinfo, hll_from_postgresql, "invalid value of postgresql-hll");
}

/*
 * dc_hll_to_postgresql_hll(h): a value for the extension hll, as bytea. That
 * extension leaves the hash function to its users, so any sketch may be exported.
 */
Datum
dc_hll_to_postgresql_hll(PG_FUNCTION_ARGS)
{
	const HllState *state = hll_from_datum(PG_GETARG_DATUM(0));
	size_t len;
	uint8_t *bytes;

	if (state->precision > HLL_POSTGRESQL_MAX_PRECISION)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("postgresql-hll has no precision %d", state->precision),
				 errhint("Reduce it with dc_hll_reduce().")));
	bytes = hll_to_postgresql(state, &len);
	PG_RETURN_BYTEA_P(sketch_value(bytes, len));
}
