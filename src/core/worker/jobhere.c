/*
 * jobhere.c
 *		Running a job to its end in a session, for dc_maintain(), and code that steps in a
 *		session and in the worker share.
 *
 * Copyright (c) 2026, the dcounter developers
 *
 * A step that fails is reported, by a warning here, and the job continues with the next.
 */
#include "postgres.h"

#include "access/xact.h"
#include "executor/spi.h"
#include "mb/pg_wchar.h"
#include "miscadmin.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"
#include "utils/resowner.h"
#include "utils/snapmgr.h"

#include "base/subxact.h"
#include "core/worker/worker.h"

/* The job and the table of a step, for error messages and pg_stat_activity. */
char job_subject[2 * NAMEDATALEN + 64];

static bool step_in_procedure(DcJobRun *run, DcJobStep step, void *arg, Oid table);
static bool commit_in_procedure(DcJobRun *run);
static void warn_of_failure(DcJobRun *run, ErrorData *error);
static bool warn_client(DcJobRun *run, ErrorData *error);
static bool step_in_transaction(DcJobRun *run, DcJobStep step, void *arg, Oid table);
static void subject_context(void *arg);

/*
 * job_run_here runs a job to its end as the current user, in this session: a
 * transaction for each step, or all in this one when atomic.
 */
void
job_run_here(int job, bool atomic)
{
	DcJobRun run = {0};

	run.step = atomic ? step_in_transaction : step_in_procedure;
	run.job = dc_jobs[job].name;
	run.deadline = DC_NEVER;
	run.afresh = true;
	while (dc_jobs[job].run(&run))
		run.afresh = false;
}

/*
 * step_in_procedure runs a step within a procedure. The step is in a
 * subtransaction, whose abort also ends the SPI connections that an error has left
 * open. The user's cancel ends the procedure.
 */
static bool
step_in_procedure(DcJobRun *run, DcJobStep step, void *arg, Oid table)
{
	MemoryContext caller = CurrentMemoryContext;
	ResourceOwner owner = CurrentResourceOwner;
	volatile bool done = false;

	CHECK_FOR_INTERRUPTS();
	BeginInternalSubTransaction(NULL);
	PG_TRY();
	{
		step_in_transaction(run, step, arg, table);
		ReleaseCurrentSubTransaction();
		done = true;
	}
	PG_CATCH();
	{
		ErrorData *error = error_caught(caller);

		RollbackAndReleaseCurrentSubTransaction();
		MemoryContextSwitchTo(caller);
		CurrentResourceOwner = owner;
		warn_of_failure(run, error);
	}
	PG_END_TRY();
	MemoryContextSwitchTo(caller);
	CurrentResourceOwner = owner;
	return commit_in_procedure(run) && done;
}

/*
 * commit_in_procedure commits; returns false if that fails, which then counts as a failure of
 * the step.
 */
static bool
commit_in_procedure(DcJobRun *run)
{
	MemoryContext caller = CurrentMemoryContext;
	volatile bool done = false;

	PG_TRY();
	{
		SPI_commit(); /* if it fails, it starts another transaction */
		done = true;
	}
	PG_CATCH();
	{
		ErrorData *error = error_caught(caller);

		warn_of_failure(run, error);
	}
	PG_END_TRY();
	return done;
}

/*
 * warn_of_failure reports a failed step to the caller of a procedure. A cancel is raised again
 * and ends the procedure, unless a table's owner has raised it.
 */
static void
warn_of_failure(DcJobRun *run, ErrorData *error)
{
	if (error->funcname != NULL && strcmp(error->funcname, "ProcessInterrupts") == 0)
		ReThrowError(error);
	if (!warn_client(run, error))
	{
		ErrorContextCallback *context = error_context_stack;

		error_context_stack = NULL;
		ereport(WARNING,
				(errcode(error->sqlerrcode),
				 errmsg("a step of dcounter job \"%s\" failed", run->job),
				 errdetail("The message cannot be converted to the encoding of the client."),
				 errhint("Set client_encoding to \"%s\" to see it.", GetDatabaseEncodingName())));
		error_context_stack = context;
	}
	FreeErrorData(error);
}

/*
 * Send the warning of a failed step; return false if the client's encoding lacks characters of it:
 * of a name, or of the context.
 */
static bool
warn_client(DcJobRun *run, ErrorData *error)
{
	MemoryContext caller = CurrentMemoryContext;
	volatile bool sent = false;

	PG_TRY();
	{
		job_report_failure(run, WARNING, error);
		sent = true;
	}
	PG_CATCH();
	{
		ErrorData *failure = error_caught(caller);

		if (failure->sqlerrcode != ERRCODE_UNTRANSLATABLE_CHARACTER)
			ReThrowError(failure);
		FreeErrorData(failure);
	}
	PG_END_TRY();
	return sent;
}

/*
 * job_report_failure counts a failed step, and reports it.
 */
void
job_report_failure(DcJobRun *run, int elevel, const ErrorData *error)
{
	run->failures++;
	ereport(elevel,
			(errcode(error->sqlerrcode),
			 errmsg("%s failed: %s", job_subject, error->message),
			 error->detail ? errdetail_internal("%s", error->detail) : 0,
			 error->hint ? errhint("%s", error->hint) : 0,
			 elevel == LOG && error->context ? errcontext("%s", error->context) : 0));
}

/*
 * step_in_transaction runs a step in the current transaction.
 */
static bool
step_in_transaction(DcJobRun *run, DcJobStep step, void *arg, Oid table)
{
	ErrorContextCallback context = {.previous = error_context_stack, .callback = subject_context};

	PushActiveSnapshot(GetTransactionSnapshot());
	job_name_subject(run, table);
	error_context_stack = &context;
	step(arg);
	error_context_stack = context.previous;
	PopActiveSnapshot();
	return true;
}

/*
 * job_name_subject sets the subject of the step to come.
 */
void
job_name_subject(DcJobRun *run, Oid table)
{
	char *name = OidIsValid(table) ? get_rel_name(table) : NULL;

	if (name != NULL)
		snprintf(job_subject, sizeof(job_subject), "dcounter job \"%s\" on \"%s\"",
				 run->job, name);
	else
		snprintf(job_subject, sizeof(job_subject), "dcounter job \"%s\"", run->job);
}

/*
 * Name the job and the table of the step in CONTEXT of errors.
 */
static void
subject_context(void *arg)
{
	errcontext("%s", job_subject);
}
