/*
 * dc_hll.h
 *		The SQL type dc_hll: functions that its files share.
 *
 * Copyright (c) 2026, the dcounter developers
 */
#ifndef DC_DC_HLL_H
#define DC_DC_HLL_H

#include "fmgr.h"

#include "types/sketch/hll/hll.h"

/* dc_hll.c */
extern void hll_check_precision(int precision);
extern void hll_check_same_hash(int hash, int other);
extern Datum hll_value(const HllState *state);
extern HllState *hll_state_of(Datum value);
extern const uint8_t *hll_bytes(bytea *flat, size_t *len);
extern HllState *hll_absorb_bytes(HllState *into, bytea *flat);
extern HllState *hll_merge_datum(HllState *into, Datum value);
extern int64 hll_rounded(double estimate);
extern double hll_confidence(double confidence);
extern Datum hll_bounds_record(FunctionCallInfo fcinfo, const double *bounds);

/* dc_hllexpanded.c */
extern const HllState *hll_from_datum(Datum value);
extern bool hll_datum_would_change(Datum value, uint64 hash);
extern Datum hll_datum_add(Datum value, const uint64 *hashes, int n);

#endif /* DC_DC_HLL_H */
