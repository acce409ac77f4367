/*
 * read.h
 *		Reading counter values (see read.c).
 */
#ifndef DC_READ_H
#define DC_READ_H

#include "base/key.h"
#include "common/int128.h"
#include "datatype/timestamp.h"
#include "table/catalog.h"

/* Sums over the rows of a key; they may exceed bigint until checked. */
typedef struct DcSums
{
	INT128 inc;
	INT128 dec;
	INT128 net; /* inc - dec */
} DcSums;

/* What the rows of one key add up to. */
typedef struct DcKeyState
{
	DcSums sums;
	TimestampTz updated_at; /* DT_NOBEGIN: no row */
	int shards;
} DcKeyState;

extern void sums_init(DcSums *sums);
extern void sums_add(DcSums *sums, int64 inc, int64 dec);
extern int64 sums_to_bigint(INT128 sum, const char *what);
extern bool sums_fit(INT128 sum, int64 *value);

extern void key_state_init(DcKeyState *state);
extern void key_state_add(DcKeyState *state, int64 inc, int64 dec,
						  TimestampTz at, bool is_shard);

extern int64 counter_value(DcCounter *counter, const DcKey *key);
extern void counter_values(DcCounter *counter, Datum *keys, int nkeys,
						   int64 *values);
extern bool counter_value_below(DcCounter *counter, const DcKey *key,
								int64 limit);

#endif /* DC_READ_H */
