/*
 * verify.h
 *		Verifying bound counter tables, and reporting differences (see verify.c, drift.c).
 *
 * Copyright (c) 2026, the dcounter developers
 */
#ifndef DC_VERIFY_H
#define DC_VERIFY_H

#include "transactional/bound/sourcescan.h"

/* Differences that were found by a step. */
typedef struct DcDrifts
{
	DcSourceDiff *diffs; /* some of them, */
	int n;				 /* and how many these are */
	int64 total;		 /* how many there are */
	Numeric sum;		 /* of all, without signs */
} DcDrifts;

/* verify.c */
extern void verify_init(void);

/* verifyread.c: what a step has compared */
typedef struct DcVerified
{
	DcDrifts drifts;
	int64 keys;
	int64 rows;		/* of the source, and entries of its indexes */
	int64 left_out; /* keys with too many rows, or sums that overflow bigint */
	char *last;		/* the last key that was gone over, NULL: none */
	bool end;		/* there are no more */
	bool counted;	/* triggers fire, in the same snapshot */
} DcVerified;

/* How the keys of a source can be read within a budget. */
typedef enum DcVerifyHow
{
	VERIFY_NOT,
	VERIFY_BY_INDEX,
	VERIFY_BY_SCAN
} DcVerifyHow;

extern DcVerifyHow verify_how(DcSourceRead *read);
extern void verify_counter_keys(DcSourceRead *read, const char *after, int64 max_rows, DcVerified *done);
extern void verify_source_keys(DcSourceRead *read, const char *after, bool all, int64 max_rows, DcVerified *done);
extern bool verify_all_keys(DcSourceRead *read, DcVerified *done);

/* drift.c */
extern Numeric drift_add(Numeric sum, int64 drift);
extern int64 drift_epoch(Oid counter);
extern int64 drift_count(Oid counter, int64 epoch);
extern void drift_new(Oid counter, int64 epoch, int64 known, DcDrifts *drifts);
extern void drift_note(Oid counter, int64 epoch, const DcDrifts *drifts, bool repaired);
extern void drift_events(Oid counter, const DcDrifts *drifts, int64 max, bool repaired);
extern void drift_notify(Oid counter);
extern void drift_warn(const DcSourceRow *row, int64 found, int64 repaired);
extern void drift_alter(Oid counter, const char *on_drift);

#endif /* DC_VERIFY_H */
