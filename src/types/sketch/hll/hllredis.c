/*
 * hllredis.c
 *		HyperLogLogs as Redis stores them, in and out.
 *
 * Copyright (c) 2026, the dcounter developers
 *
 *	bytes 0-3	"HYLL"
 *	byte 4		0 dense, 1 sparse
 *	bytes 5-7	not used
 *	bytes 8-15	the count when it was last asked for, in little-endian order; the
 *				highest bit of the last byte is set if it is not that any more
 *
 * Then, dense: 16,384 registers of six bits, from the lowest bit of each byte.
 * Sparse: runs of registers, that must add up to 16,384:
 *
 *	00xxxxxx			x + 1 registers are zero
 *	01xxxxxx yyyyyyyy	xy + 1 registers are zero
 *	1vvvvvxx			x + 1 registers are v + 1
 *
 * The hash of a string, the choice of its register and its rank are the same as
 * here at precision 14. How Redis splits runs depends on the order in which
 * items came. A value that is written here has the longest runs, and is sparse where
 * Redis would have it so by default. Its count is dc_hll's own: with
 * tokens that is better than the count that Redis would find in the registers.
 */
#include "types/sketch/hll/hllforeign.h"

#include <math.h>
#include <string.h>

#include "types/sketch/hash.h"
#include "types/sketch/memory.h"

#define REDIS_HEADER_BYTES 16
#define REGISTERS 16384
#define DENSE_BYTES (REDIS_HEADER_BYTES + REGISTERS / 8 * 6)
#define DENSE 0
#define SPARSE 1
#define MAX_RANK 51
#define MAX_SPARSE_BYTES 3000 /* hll-sparse-max-bytes */
#define MAX_SPARSE_VALUE 32
#define MAX_SPARSE_RUN 4
#define MAX_ZEROS 16384
#define MAX_SHORT_ZEROS 64

static bool get_dense(const uint8_t *data, size_t len, uint8_t *registers);
static bool get_redis_sparse(const uint8_t *data, size_t len, uint8_t *registers);
static uint8_t *put_redis_header(uint8_t *out, int encoding, double estimate);
static uint8_t *put_dense(uint8_t *out, const uint8_t *registers);
static uint8_t *put_sparse(uint8_t *out, const uint8_t *end, const uint8_t *registers);

/*
 * hll_from_redis reads the value of a Redis key.
 */
HllState *
hll_from_redis(const uint8_t *data, size_t len, const char **wrong)
{
	HllState *state;
	bool good;

	if (len < REDIS_HEADER_BYTES || memcmp(data, "HYLL", 4) != 0)
	{
		*wrong = "It does not begin like a HyperLogLog of Redis.";
		return NULL;
	}
	if (data[4] != DENSE && data[4] != SPARSE)
	{
		*wrong = "Its encoding is neither dense nor sparse.";
		return NULL;
	}
	state = hll_new_dense(HLL_REDIS_PRECISION, SKETCH_HASH_REDIS);
	if (data[4] == DENSE)
		good = get_dense(data + REDIS_HEADER_BYTES, len - REDIS_HEADER_BYTES, hll_registers(state));
	else
		good = get_redis_sparse(data + REDIS_HEADER_BYTES, len - REDIS_HEADER_BYTES, hll_registers(state));
	if (good)
		return state;
	*wrong = "Its registers are not well-formed.";
	sketch_free(state);
	return NULL;
}

/*
 * Read the registers of the dense encoding. Return false if the length is wrong, or a rank is out
 * of range.
 */
static bool
get_dense(const uint8_t *data, size_t len, uint8_t *registers)
{
	uint8_t highest = 0;

	if (len != DENSE_BYTES - REDIS_HEADER_BYTES)
		return false;
	for (int i = 0; i < REGISTERS; i += 4, data += 3)
	{
		uint32_t four = data[0] | (uint32_t) data[1] << 8 | (uint32_t) data[2] << 16;

		for (int j = 0; j < 4; j++)
		{
			registers[i + j] = four >> (6 * j) & 63;
			if (highest < registers[i + j])
				highest = registers[i + j];
		}
	}
	return highest <= MAX_RANK;
}

/* Runs are counted against the registers that are left, so that no sum can overflow. */
static bool
get_redis_sparse(const uint8_t *data, size_t len, uint8_t *registers)
{
	const uint8_t *end = data + len;
	size_t left = REGISTERS;

	while (data < end)
	{
		uint8_t code = *data++;
		uint8_t value = 0;
		size_t run;

		if (code & 128)
		{
			value = (code >> 2 & 31) + 1;
			run = (code & 3) + 1;
		}
		else if (code & 64)
		{
			if (data == end)
				return false;
			run = ((size_t) (code & 63) << 8 | *data++) + 1;
		}
		else
			run = code + 1;
		if (run > left)
			return false;
		memset(registers, value, run);
		registers += run;
		left -= run;
	}
	return left == 0;
}

/*
 * hll_to_redis writes a state of Redis's hash and precision.
 */
uint8_t *
hll_to_redis(const HllState *state, size_t *len)
{
	double estimate = hll_estimate(state);
	HllState *dense = hll_densified(hll_copy(state));
	uint8_t *out = sketch_alloc(DENSE_BYTES);
	uint8_t *end = put_redis_header(out, SPARSE, estimate);

	end = put_sparse(end, out + MAX_SPARSE_BYTES, hll_registers(dense));
	if (end == NULL)
		end = put_dense(put_redis_header(out, DENSE, estimate), hll_registers(dense));
	sketch_free(dense);
	*len = (size_t) (end - out);
	return out;
}

/*
 * Write the header, with the estimate as the count. If that is out of range, mark the count as one
 * that Redis has to recompute. Return the first register.
 */
static uint8_t *
put_redis_header(uint8_t *out, int encoding, double estimate)
{
	bool known = estimate < 9e18;
	uint64_t count = known ? (uint64_t) llround(estimate) : UINT64_C(1) << 63;

	memcpy(out, "HYLL", 4);
	memset(out + 4, 0, 4);
	out[4] = (uint8_t) encoding;
	for (int i = 0; i < 8; i++)
		out[8 + i] = (uint8_t) (count >> (8 * i));
	return out + REDIS_HEADER_BYTES;
}

/*
 * Write the registers in the dense encoding. Return the end.
 */
static uint8_t *
put_dense(uint8_t *out, const uint8_t *registers)
{
	for (int i = 0; i < REGISTERS; i += 4)
	{
		uint32_t four = registers[i] | (uint32_t) registers[i + 1] << 6 |
			(uint32_t) registers[i + 2] << 12 | (uint32_t) registers[i + 3] << 18;

		*out++ = (uint8_t) four;
		*out++ = (uint8_t) (four >> 8);
		*out++ = (uint8_t) (four >> 16);
	}
	return out;
}

/* NULL if it would be too long, or cannot be. */
static uint8_t *
put_sparse(uint8_t *out, const uint8_t *end, const uint8_t *registers)
{
	int next;

	for (int i = 0; i < REGISTERS; i = next)
	{
		uint8_t value = registers[i];
		int most = value == 0 ? MAX_ZEROS : MAX_SPARSE_RUN;
		int run;

		for (next = i + 1; next < REGISTERS && next - i < most && registers[next] == value;)
			next++;
		run = next - i - 1;
		if (value > MAX_SPARSE_VALUE || end - out < 2)
			return NULL;
		if (value > 0)
			*out++ = (uint8_t) (128 | (value - 1) << 2 | run);
		else if (run < MAX_SHORT_ZEROS)
			*out++ = (uint8_t) run;
		else
		{
			*out++ = (uint8_t) (64 | run >> 8);
			*out++ = (uint8_t) run;
		}
	}
	return out;
}
