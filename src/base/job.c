/*
 * job.c
 *		The table of jobs.
 *
 * Copyright (c) 2026, the dcounter developers
 */
#include "postgres.h"

#include "base/job.h"

/* In the order in which they are run, and shown. */
DcJob dc_jobs[DC_MAX_JOBS];
int dc_njobs = 0;
bool (*job_has_worker)(void) = NULL;

/*
 * job_register adds a job; called once for each.
 */
void
job_register(DcJob job)
{
	if (dc_njobs >= DC_MAX_JOBS)
		elog(ERROR, "too many jobs");
	dc_jobs[dc_njobs++] = job;
}
