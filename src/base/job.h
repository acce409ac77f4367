/*
 * job.h
 *		The interface between the rooms' periodic jobs and the code that runs them.
 *
 * Copyright (c) 2026, the dcounter developers
 *
 * A job is run by the worker, or by CALL dc_maintain(). It does its work in steps, each a
 * transaction of its own. Between two steps it checks whether its time is up. If so, it returns
 * true, is called again soon, and continues where it stopped. Rooms register their jobs when the
 * library is loaded.
 */
#ifndef DC_JOB_H
#define DC_JOB_H

#include "base/clock.h"

/* A step; runs in a transaction, with a snapshot. */
typedef void (*DcJobStep)(void *arg);

typedef struct DcJobRun
{
	/* runs a step about a table (or InvalidOid); false if it failed */
	bool (*step)(struct DcJobRun *run, DcJobStep step, void *arg, Oid table);
	const char *job;
	bool afresh;	   /* start again instead of continuing where the last run yielded */
	bool more;		   /* out: the run is over, but the next one has something to do at once */
	bool all_owners;   /* not only the tables of the current user */
	Oid suspect;	   /* a table that has ended a worker, or InvalidOid */
	DcMoment deadline; /* when to yield; a step may bring it forward */
	int64 limit;	   /* ms that a step may take; 0: as long as any step may */
	int64 took;		   /* out: us that the last step took */
	int64 failures;	   /* steps that failed */
	int64 left;		   /* tables that are left to their owners (ownercode.c) */
} DcJobRun;

#define DC_MAX_JOBS 20

typedef struct DcJob
{
	const char *name;
	const int *interval; /* setting, in ms */
	bool (*run)(DcJobRun *run);
	/* instead of an interval: when it is due. Such a job runs between the steps of others, too */
	DcMoment (*due)(void);
	/* does this database have work for the job? NULL: unknown. Does not wait */
	bool (*is_needed)(void);
} DcJob;

/*
 * Return true if a run should yield.
 */
static inline bool
job_is_late(const DcJobRun *run)
{
	return moment_is_reached(run->deadline);
}

/* does a worker run the jobs in this database, or will one? NULL: none ever does */
extern bool (*job_has_worker)(void);

extern DcJob dc_jobs[DC_MAX_JOBS];
extern int dc_njobs;

extern void job_register(DcJob job);

#endif /* DC_JOB_H */
