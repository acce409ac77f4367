/*
 * scanpace.c
 *		A scan by the worker takes only a part of a processor's time.
 *
 * Copyright (c) 2026, the dcounter developers
 *
 * A scan reads one snapshot, so it is one step of the worker: it cannot be cut in pieces with
 * pauses in between, as other work is (core/worker/jobrun.c). Instead it sleeps while it runs,
 * every few milliseconds, for so long that it works dcounter.worker_load percent of the time. It
 * stops doing so, and continues at full speed,
 *
 *	- when it has slept for SLEEP_MAX_US in all: all other work of the worker waits for the step,
 *	  and vacuum waits for the snapshot;
 *	- as soon as the urgent job is due, which has to wait for the end of the step;
 *	- as soon as a lock on the table that it reads, its source or the counter table is asked for
 *	  that does not go the fast path: one that has to wait for us, and that writers then wait for.
 *	  (Which lock it is makes no difference here: to sleep less is never wrong.)
 */
#include "postgres.h"

#include "miscadmin.h"
#include "pgstat.h"
#include "storage/lock.h"

#include "base/compat.h"
#include "base/guc.h"
#include "base/job.h"
#include "transactional/bound/sourcescan.h"

/* How long it works before it sleeps, how long it sleeps before it looks again, and in all. */
#define WORK_US 10000
#define LOOK_US 20000
#define SLEEP_MAX_US (1 * 1000 * 1000)

static bool is_hurried(const DcScanPace *pace);
static bool is_asked_for(Oid relid);
static void sleep_for(int64 us);

/*
 * scan_pace is called now and then, and may sleep.
 */
void
scan_pace(DcScanPace *pace)
{
	int64 worked = pace->since.us == DC_LONG_AGO.us ? 0 : moment_age(pace->since);
	int64 sleep;

	if (worked < WORK_US && pace->since.us != DC_LONG_AGO.us)
		return;
	sleep = Min(worked * (100 - dc_worker_load) / dc_worker_load, SLEEP_MAX_US - pace->slept);
	while (sleep > 0 && !is_hurried(pace))
	{
		DcMoment start = moment_now();
		int64 slept;

		CHECK_FOR_INTERRUPTS();
		sleep_for(Min(sleep, LOOK_US));
		slept = moment_age(start);
		sleep -= slept;
		pace->slept += slept;
	}
	pace->since = moment_now();
}

/*
 * Return true if the scan should continue at full speed: the urgent job is due, or a lock on one of
 * its tables is asked for.
 */
static bool
is_hurried(const DcScanPace *pace)
{
	/* the urgent job is the first */
	if (dc_njobs > 0 && dc_jobs[0].due != NULL && moment_is_reached(dc_jobs[0].due()))
		return true;
	return is_asked_for(pace->relid) || is_asked_for(pace->source) || is_asked_for(pace->counter);
}

/*
 * Return true if the main table of locks has one on a relation. Ours, like those of writers, are
 * not there, unless another has been asked for.
 */
static bool
is_asked_for(Oid relid)
{
	LOCKTAG tag;

	SET_LOCKTAG_RELATION(tag, MyDatabaseId, relid);
	return LockWaiterCount(&tag) > 0;
}

/*
 * Sleep, shown in pg_stat_activity as the wait event DcounterScanPace.
 */
static void
sleep_for(int64 us)
{
	static uint32 wait_event = 0;

	if (wait_event == 0)
		wait_event = compat_wait_event("DcounterScanPace");
	pgstat_report_wait_start(wait_event);
	pg_usleep((long) us);
	pgstat_report_wait_end();
}
