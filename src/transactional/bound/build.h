/*
 * build.h
 *		Building bound counter tables (see build.c).
 *
 * Copyright (c) 2026, the dcounter developers
 */
#ifndef DC_BUILD_H
#define DC_BUILD_H

#include "transactional/bound/sourcescan.h"

/* A build that is under way: some transactions. */
typedef struct DcBuild DcBuild;

/* The result of a step of a build. */
typedef enum DcBuildStep
{
	BUILD_GOES_ON,
	BUILD_DONE,
	BUILD_TOO_LONG /* the scan was not over when it had to be */
} DcBuildStep;

extern DcBuild *build_begin(Oid counter, int64 max_keys, MemoryContext parent);
extern bool build_needs_scan(const DcBuild *build);
extern DcBuildStep build_scan(DcBuild *build, DcSourceRead *read, DcMoment late);
extern DcBuildStep build_chunk(DcBuild *build, DcCounter *counter, const DcSourceRow *row);
extern void build_end(DcBuild *build);

/* all rows that there are, in this transaction, which keeps writers out (dc_bind()) */
extern void build_now(const DcSourceRow *row);

/*
 * the differences of some keys, which were read in the active snapshot, under the lock of the
 * binding
 */
extern void build_keys(DcSourceRead *read, Datum *keys, int nkeys, const DcSourceDiff *diffs,
					   int ndiffs);

/* buildjob.c */
extern void build_job_init(void);

#endif /* DC_BUILD_H */
