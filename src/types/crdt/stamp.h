/*
 * stamp.h
 *		Stamps of a hybrid logical clock, and the registers that go by them (see
 *		stamp.c).
 *
 * Copyright (c) 2026, the dcounter developers
 */
#ifndef DC_STAMP_H
#define DC_STAMP_H

#include "types/crdt/crdt.h"

/* Microseconds since 1970 that fit a bigint as well as a timestamptz: to the year 9999. */
#define STAMP_MAX_TIME INT64_C(253402300799999999)

typedef struct Stamp
{
	int64_t time; /* microseconds since 1970-01-01 00:00 UTC */
	CrdtString node;
} Stamp;

/* A last-writer-wins register. */
typedef struct Lww
{
	bool written; /* the rest is without meaning if it never was */
	Stamp stamp;
	CrdtString value;
} Lww;

extern int stamp_compare(const Stamp *a, const Stamp *b);
extern int64_t stamp_next(int64_t now, int64_t last, int64_t seen);

extern void hlc_encode(CrdtBuf *out, const Stamp *stamp);
extern Stamp hlc_decode(CrdtBytes state);

extern void lww_empty(CrdtBuf *out);
extern void lww_encode(CrdtBuf *out, const Lww *lww);
extern Lww lww_decode(CrdtBytes state);

#endif /* DC_STAMP_H */
