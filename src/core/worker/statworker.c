/*
 * statworker.c
 *		The rows of dc_stat_worker.
 *
 * Copyright (c) 2026, the dcounter developers
 */
#include "postgres.h"

#include "catalog/pg_authid.h"
#include "commands/dbcommands.h"
#include "fmgr.h"
#include "funcapi.h"
#include "mb/pg_wchar.h"
#include "miscadmin.h"
#include "utils/acl.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/timestamp.h"

#include "base/compat.h"
#include "base/guc.h"
#include "core/worker/slots.h"

PG_FUNCTION_INFO_V1(stat_worker);

#define STAT_COLUMNS 12

static const char *statworker_readable(const char *message);
static const char *state_name(const DcWorkerSlot *slot);
static const char *not_wanted(const DcWorkerSlot *slot);
static void show_slot(ReturnSetInfo *result, const DcWorkerSlot *slot, bool monitor);

/*
 * dcounter.stat_worker() -> a row for each database and job. Without preload
 * there are none. Only members of pg_monitor see other databases than the current
 * one, and error messages.
 */
Datum
stat_worker(PG_FUNCTION_ARGS)
{
	bool monitor = has_privs_of_role(GetUserId(), ROLE_PG_MONITOR);
	DcWorkerSlot *slots;

	InitMaterializedSRF(fcinfo, 0);
	if (dc_workers == NULL)
		return (Datum) 0;
	slots = palloc(sizeof(dc_workers->slots));
	slots_lock(LW_SHARED);
	memcpy(slots, dc_workers->slots, sizeof(dc_workers->slots));
	slots_unlock();
	for (int i = 0; i < DC_MAX_DATABASES; i++)
	{
		if (OidIsValid(slots[i].database) &&
			(monitor || slots[i].database == MyDatabaseId))
			show_slot((ReturnSetInfo *) fcinfo->resultinfo, &slots[i], monitor);
	}
	return (Datum) 0;
}

/*
 * Add a row for each job of a slot to the result; error messages only if `monitor`.
 */
static void
show_slot(ReturnSetInfo *result, const DcWorkerSlot *slot, bool monitor)
{
	char *database = get_database_name(slot->database);

	if (database == NULL)
		return; /* dropped just now */
	for (int i = 0; i < dc_njobs; i++)
	{
		const DcJobStats *job = &slot->jobs[i];
		Datum values[STAT_COLUMNS];
		bool nulls[STAT_COLUMNS] = {false};

		values[0] = DirectFunctionCall1(namein, CStringGetDatum(database));
		values[1] = Int32GetDatum(slot->pid);
		nulls[1] = (slot->pid == 0);
		values[2] = CStringGetTextDatum(state_name(slot));
		values[3] = CStringGetTextDatum(dc_jobs[i].name);
		values[4] = TimestampTzGetDatum(job->last_start);
		nulls[4] = (job->last_start == 0);
		values[5] = Float8GetDatum(job->last_us / 1000.0);
		nulls[5] = nulls[4];
		values[6] = Int64GetDatum(job->runs);
		values[7] = Float8GetDatum(job->work_us / 1000.0);
		values[8] = Int64GetDatum(job->failures);
		values[9] = CStringGetTextDatum(statworker_readable(job->last_error));
		nulls[9] = (job->last_error_at == 0 || !monitor);
		values[10] = TimestampTzGetDatum(job->last_error_at);
		nulls[10] = (job->last_error_at == 0);
		values[11] = Int64GetDatum(job->left);
		tuplestore_putvalues(result->setResult, result->setDesc, values, nulls);
	}
}

/*
 * statworker_readable returns an error message, or a note if it is in the encoding of another
 * database and cannot be shown here.
 */
static const char *
statworker_readable(const char *message)
{
	return pg_verifymbstr(message, strlen(message), true) ? message : "(in the encoding of another database)";
}

/*
 * Return the state of a database's worker, as dc_stat_worker shows it.
 */
static const char *
state_name(const DcWorkerSlot *slot)
{
	if (slot->only_flushes)
		return "flushing";
	switch (slot->state)
	{
		case DC_WORKER_RUNNING:
			return "running";
		case DC_WORKER_STARTING:
			return "starting";
		case DC_WORKER_NO_EXTENSION:
			return "no extension";
		case DC_WORKER_NO_TABLES:
			return dc_worker && !slot->stopped ? "no tables" : not_wanted(slot);
		case DC_WORKER_NOT_ALLOWED:
			return "not allowed";
		case DC_WORKER_NONE:
			break;
	}
	if (!dc_worker || slot->stopped)
		return not_wanted(slot);
	if (slot->waits)
		return "waiting for its turn";
	if (slot->failed_starts > 0)
		return "waiting to restart";
	return slot->turn_ended.us != DC_LONG_AGO.us ? "idle" : "not running";
}

/*
 * Return the state of a worker that is not wanted: "off" by the setting, "stopped" by
 * dc_worker_stop().
 */
static const char *
not_wanted(const DcWorkerSlot *slot)
{
	return dc_worker ? "stopped" : "off";
}
