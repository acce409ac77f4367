/*
 * slots.h
 *		The slots by which the launcher, its workers and the sessions know of each
 *		other (see slots.c).
 *
 * Copyright (c) 2026, the dcounter developers
 */
#ifndef DC_SLOTS_H
#define DC_SLOTS_H

#include "storage/lwlock.h"

#include "base/job.h"

/* Databases that can have a worker. */
#define DC_MAX_DATABASES 128

#define DC_ERROR_BYTES 256

typedef enum DcWorkerState
{
	DC_WORKER_NONE,			/* none is running; start one when it is time */
	DC_WORKER_STARTING,		/* asked for */
	DC_WORKER_RUNNING,		/* connected, pid is set */
	DC_WORKER_NO_EXTENSION, /* has run, and found no dcounter, */
	DC_WORKER_NO_TABLES,	/* or nothing to look after */
	DC_WORKER_NOT_ALLOWED	/* a template, or no connections allowed */
} DcWorkerState;

/* The runs of a job in this database since the server started. */
typedef struct DcJobStats
{
	TimestampTz last_start; /* to be shown; 0: never */
	int64 last_us;			/* how long that took */
	int64 runs;
	int64 work_us;			   /* in steps, of all runs */
	int64 failures;			   /* failed steps */
	int64 left;				   /* tables that the last run left to their owners */
	TimestampTz last_error_at; /* to be shown */
	char last_error[DC_ERROR_BYTES];
} DcJobStats;

typedef struct DcWorkerSlot
{
	Oid database; /* invalid: the slot is free */
	DcWorkerState state;
	pid_t pid;				/* while RUNNING */
	bool allowed;			/* pg_database allows it to have one */
	bool stopped;			/* by dc_worker_stop() */
	bool unseen;			/* made by dc_worker_stop(); the launcher may not know the database */
	bool only_flushes;		/* the worker that is STARTING or RUNNING */
	DcMoment paused_until;	/* by DDL on the database */
	DcMoment start_after;	/* back-off */
	Oid suspect;			/* the table that the last worker ended on */
	DcMoment suspect_until; /* for those that only flush */
	bool ended_well;		/* the last worker was asked to end */
	int failed_starts;		/* one after another */
	DcMoment flush_after;	/* the same for one that only flushes */
	int flush_tries;
	DcMoment running_since; /* while RUNNING */
	DcMoment step_began;	/* DC_LONG_AGO: no step is running */

	/* turns (turns.c) */
	struct Latch *latch; /* of the worker, while RUNNING */
	bool passed;		 /* it has run each job to its end once, */
	bool gives_way;		 /* and is to leave for another database */
	bool stays;			 /* it has found something to look after */
	bool asked_for;		 /* by dc_worker_start(): its turn comes first */
	bool waits;			 /* it has something to do, and no worker is left for it */
	DcMoment turn_ended; /* DC_LONG_AGO: it had none */
	DcMoment due;		 /* when it has something to do in any case */
	uint32 seen;		 /* by the last worker, of what was changed (activity.c) */
	Oid last_table;		 /* that it was working on, */
	bool ends;			 /* and whose process has not ended yet; only the launcher uses this */

	DcJobStats jobs[DC_MAX_JOBS];
} DcWorkerSlot;

/* In shared memory. The lock protects all of it. */
typedef struct DcWorkerArea
{
	LWLock lock;
	pid_t launcher_pid;
	struct Latch *launcher_latch; /* NULL: no launcher */
	DcWorkerSlot slots[DC_MAX_DATABASES];
} DcWorkerArea;

extern DcWorkerArea *dc_workers; /* NULL without preload */

extern void slots_init(void);
extern void slots_lock(LWLockMode mode);
extern void slots_unlock(void);
extern DcWorkerSlot *slot_lock(Oid database, LWLockMode mode);
extern DcWorkerSlot *slot_find(Oid database);
extern DcWorkerSlot *slot_get(Oid database);
extern bool slot_terminate(const DcWorkerSlot *slot);
extern bool worker_terminate(pid_t pid, Oid database);
extern bool is_worker(pid_t pid);
extern void launcher_wake(void);
extern void launcher_recheck(Oid database);
extern void sleep_on_latch(long ms, const char *wait_event);


#endif /* DC_SLOTS_H */
