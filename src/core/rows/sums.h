/*
 * sums.h
 *		Adding up the rows of a key (see sums.c).
 *
 * Copyright (c) 2026, the dcounter developers
 */
#ifndef DC_SUMS_H
#define DC_SUMS_H

#include "common/int128.h"
#include "datatype/timestamp.h"

/* Sums over the rows of a key; they may exceed bigint until checked. */
typedef struct DcSums
{
	INT128 inc;
	INT128 dec;
	INT128 net; /* inc - dec */
} DcSums;

/* The sums over the rows of one key. */
typedef struct DcKeyState
{
	DcSums sums;
	TimestampTz updated_at; /* DT_NOBEGIN: no row */
	int shards;
} DcKeyState;

extern void sums_init(DcSums *sums);
extern void sums_add(DcSums *sums, int64 inc, int64 dec);
extern int64 sums_to_bigint(INT128 sum, const char *what);
extern int64 sums_value(const DcSums *sums, Datum key);
extern bool sums_fit(INT128 sum, int64 *value);

extern void key_state_init(DcKeyState *state);
extern void key_state_add(DcKeyState *state, int64 inc, int64 dec,
						  TimestampTz at, bool is_shard);

#endif /* DC_SUMS_H */
