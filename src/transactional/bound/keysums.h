/*
 * keysums.h
 *		Sums of both sides of a binding by key, within a bound of memory (see keysums.c).
 *
 * Copyright (c) 2026, the dcounter developers
 */
#ifndef DC_KEYSUMS_H
#define DC_KEYSUMS_H

#include "common/int128.h"
#include "utils/palloc.h"

/* The two sides whose amounts are added up. */
typedef enum DcSide
{
	DC_SIDE_SOURCE,
	DC_SIDE_COUNTER,
	DC_NUM_SIDES
} DcSide;

/* The sums of a key, which is any string of bytes. */
typedef struct DcKeySumsRow
{
	const char *data; /* until the next one is fetched */
	uint32 len;
	INT128 sums[DC_NUM_SIDES];
	bool marked; /* by key_sums_mark() */
} DcKeySumsRow;

typedef struct DcKeySums DcKeySums;

extern DcKeySums *key_sums_begin(int64 kilobytes, bool only_different);
extern bool key_sums_has(DcKeySums *sums, const char *data, uint32 len);
extern void key_sums_know(DcKeySums *sums, const char *data, uint32 len);
extern void key_sums_add(DcKeySums *sums, const char *data, uint32 len, DcSide side,
						 int64 plus, int64 minus);
extern void key_sums_mark(DcKeySums *sums, const char *data, uint32 len);
extern void key_sums_set(DcKeySums *sums, const char *data, uint32 len, DcSide side, int64 value);
extern void key_sums_set_sum(DcKeySums *sums, const char *data, uint32 len, DcSide side, INT128 sum);
extern void key_sums_sort(DcKeySums *sums);
extern bool key_sums_next(DcKeySums *sums, DcKeySumsRow *row);
extern void key_sums_end(DcKeySums *sums);

#endif /* DC_KEYSUMS_H */
