/*
 * build.h
 *		Building bound counter tables (see build.c).
 */
#ifndef DC_BUILD_H
#define DC_BUILD_H

#include "bound/sourcescan.h"

/* A build that is under way: some transactions. */
typedef struct DcBuild DcBuild;

/* The result of a step of a build, a transaction. */
typedef enum DcBuildStep
{
	BUILD_GOES_ON,
	BUILD_DONE,
	BUILD_GONE,	   /* it is not bound any more */
	BUILD_LOCKED,  /* a lock is held by others: only where we do not wait */
	BUILD_TOO_LONG /* the scan was not over when it had to be */
} DcBuildStep;

extern DcBuild *build_begin(Oid counter, int64 max_keys, DcSourceWait wait);
extern bool build_needs_scan(const DcBuild *build);
extern DcBuildStep build_scan(DcBuild *build, DcSourceRead *read, DcMoment late);
extern DcBuildStep build_chunk(DcBuild *build, DcCounter *counter);
extern void build_end(DcBuild *build);

/* all rows that there are, in this transaction, which keeps writers out (dc_bind()) */
extern void build_now(DcSourceRow *row);

/* buildjob.c */
extern void build_job_init(void);

#endif /* DC_BUILD_H */
