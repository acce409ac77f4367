/*
 * sums.c
 *		Adding up the rows of a key.
 *
 * Copyright (c) 2026, the dcounter developers
 *
 * Sums of rows are kept in 128 bits: rows that fit into bigint may have a sum that does not, and
 * inc may exceed bigint where inc - dec is well within.
 */
#include "postgres.h"

#include "utils/builtins.h"
#include "utils/timestamp.h"

#include "core/rows/sums.h"

/*
 * Set the sums to 0.
 */
void
sums_init(DcSums *sums)
{
	sums->inc = int64_to_int128(0);
	sums->dec = int64_to_int128(0);
	sums->net = int64_to_int128(0);
}

/*
 * sums_add adds one row. In a row that was written directly, dec may be anything.
 */
void
sums_add(DcSums *sums, int64 inc, int64 dec)
{
	int128_add_int64(&sums->inc, inc);
	int128_add_int64(&sums->dec, dec);
	int128_add_int64(&sums->net, inc);
	if (dec == PG_INT64_MIN)
		int128_add_int64(&sums->net, 1);
	int128_add_int64(&sums->net, -Max(dec, -PG_INT64_MAX));
}

/*
 * sums_to_bigint returns a sum as bigint, or raises 22003.
 */
int64
sums_to_bigint(INT128 sum, const char *what)
{
	int64 value;

	if (!sums_fit(sum, &value))
		ereport(ERROR,
				(errcode(ERRCODE_NUMERIC_VALUE_OUT_OF_RANGE),
				 errmsg("bigint out of range"),
				 errdetail("The %s of the counter key is too large.", what)));
	return value;
}

/*
 * sums_value returns the value of one of many keys (a text), or raises 22003 with its name.
 */
int64
sums_value(const DcSums *sums, Datum key)
{
	int64 value;

	if (!sums_fit(sums->net, &value))
		ereport(ERROR,
				(errcode(ERRCODE_NUMERIC_VALUE_OUT_OF_RANGE),
				 errmsg("bigint out of range"),
				 errdetail("The value of key \"%s\" is too large.", TextDatumGetCString(key))));
	return value;
}

/*
 * sums_fit sets *value to a sum, or returns false if that overflows bigint.
 */
bool
sums_fit(INT128 sum, int64 *value)
{
	if (int128_compare(sum, int64_to_int128(PG_INT64_MAX)) > 0 ||
		int128_compare(sum, int64_to_int128(PG_INT64_MIN)) < 0)
		return false;
	*value = int128_to_int64(sum);
	return true;
}

/*
 * key_state_init sets the state of a key without rows.
 */
void
key_state_init(DcKeyState *state)
{
	sums_init(&state->sums);
	state->shards = 0;
	TIMESTAMP_NOBEGIN(state->updated_at);
}

/*
 * key_state_add adds one row.
 */
void
key_state_add(DcKeyState *state, int64 inc, int64 dec, TimestampTz at,
			  bool is_shard)
{
	sums_add(&state->sums, inc, dec);
	state->updated_at = Max(state->updated_at, at);
	if (is_shard)
		state->shards++;
}
