/*
 * worker.h
 *		The worker room's own parts.
 *
 * Copyright (c) 2026, the dcounter developers
 */
#ifndef DC_WORKER_H
#define DC_WORKER_H

#include <signal.h>

#include "postmaster/bgworker.h"

#include "base/compat.h"
#include "base/job.h"

struct DcWorkerSlot;

/* Arguments of a worker, in bgw_extra. */
typedef struct DcWorkerArgs
{
	Oid database;
	Oid role;  /* invalid: the bootstrap superuser */
	bool slot; /* the launcher has made a slot for it */
	bool only_flushes;
} DcWorkerArgs;

/* jobrun.c */
extern volatile sig_atomic_t job_in_step;
extern volatile DcMoment job_asked_at;
extern Oid job_step_table;
extern Oid job_suspect;
extern const char *job_step_name;
extern void job_timer_init(void);
extern bool job_step_hangs(DcMoment began);
extern void job_run_in_worker(int job);
extern volatile sig_atomic_t job_hurries;
extern void job_leave(void);
extern DcMoment job_due(int job);
extern bool job_all_have_run(void);
extern bool job_any_is_needed(void);

/* jobhere.c */
extern char job_subject[2 * NAMEDATALEN + 64];
extern void job_run_here(int job, bool atomic);
extern void job_report_failure(DcJobRun *run, int elevel, const ErrorData *error);
extern void job_name_subject(DcJobRun *run, Oid table);

/* jobnote.c */
extern void jobnote_run(int job, TimestampTz at, int64 us, int64 work, int64 left);
extern void jobnote_error(const char *job, const char *message);
extern void jobnote_end(struct DcWorkerSlot *slot, const char *job);
extern void jobnote_step(DcMoment began);

/* launcher.c */
extern void launcher_register(void);

/* worker.c */
extern void worker_fill(BackgroundWorker *worker, const DcWorkerArgs *args);
extern Oid worker_role_oid(bool *missing);

/* workerhooks.c */
extern void hooks_init(void);


/* called by name */
extern PGDLLEXPORT void dc_launcher_main(Datum arg);
extern PGDLLEXPORT void dc_worker_main(Datum arg);

#endif /* DC_WORKER_H */
