/*
 * jobnote.c
 *		Noting in a worker's slot what its jobs do: for dc_stat_worker, and the launcher.
 *
 * Copyright (c) 2026, the dcounter developers
 *
 * Each function takes the lock of the slots for a moment, unless its comment says that the
 * caller has it. Without slots these functions do nothing.
 */
#include "postgres.h"

#include "mb/pg_wchar.h"
#include "miscadmin.h"
#include "utils/timestamp.h"

#include "core/worker/slots.h"
#include "core/worker/worker.h"

static void jobnote_count_error(DcWorkerSlot *slot, const char *job, const char *text, int len);

/*
 * jobnote_run notes a run of a job in the worker's slot: when it began and how long it took
 * (us). `left` is how many tables it has left to their owners; -1 if it continues.
 */
void
jobnote_run(int job, TimestampTz at, int64 us, int64 work, int64 left)
{
	DcWorkerSlot *slot;

	if (dc_workers == NULL)
		return;
	slot = slot_lock(MyDatabaseId, LW_EXCLUSIVE);
	if (slot != NULL)
	{
		slot->jobs[job].last_start = at;
		slot->jobs[job].last_us = us;
		slot->jobs[job].runs++;
		slot->jobs[job].work_us += work;
		if (left >= 0)
			slot->jobs[job].left = left;
	}
	slots_unlock();
}

/*
 * jobnote_error counts a failed step of a job, and keeps its message, in the worker's slot.
 */
void
jobnote_error(const char *job, const char *message)
{
	char *text;

	if (dc_workers == NULL)
		return;
	text = psprintf("%s: %s", job_subject, message);
	slots_lock(LW_EXCLUSIVE);
	jobnote_count_error(slot_find(MyDatabaseId), job, text,
						pg_mbcliplen(text, strlen(text), DC_ERROR_BYTES - 1));
	slots_unlock();
	pfree(text);
}

/*
 * jobnote_end counts the step of a job in which the worker ends, before its end, as a failed one.
 * The caller has locked the slot. Must not throw.
 */
void
jobnote_end(DcWorkerSlot *slot, const char *job)
{
	char text[DC_ERROR_BYTES];
	int len = snprintf(text, sizeof(text), "%s: the worker was ended", job_subject);

	jobnote_count_error(slot, job, text, Min(len, DC_ERROR_BYTES - 1));
}

/*
 * jobnote_count_error counts a failed step and keeps its message. The caller has locked the
 * slot.
 */
static void
jobnote_count_error(DcWorkerSlot *slot, const char *job, const char *text, int len)
{
	for (int i = 0; slot != NULL && i < dc_njobs; i++)
	{
		if (dc_jobs[i].name != job)
			continue;
		memcpy(slot->jobs[i].last_error, text, len);
		slot->jobs[i].last_error[len] = '\0';
		slot->jobs[i].last_error_at = GetCurrentTimestamp(); /* to be shown */
		slot->jobs[i].failures++;
	}
}

/*
 * jobnote_step tells the launcher when the current step began; DC_LONG_AGO: none is running.
 */
void
jobnote_step(DcMoment began)
{
	DcWorkerSlot *slot;

	if (dc_workers == NULL)
		return;
	slot = slot_lock(MyDatabaseId, LW_EXCLUSIVE);
	if (slot != NULL && slot->pid == MyProcPid)
		slot->step_began = began;
	slots_unlock();
}
