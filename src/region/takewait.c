/*
 * takewait.c
 *		dc_take_wait(): taking units, and waiting for them if there are not enough.
 *
 * Copyright (c) 2026, the dcounter developers
 *
 * A session that gets none says what it lacks in its region's row of wants, commits that, so that it goes out and
 * others can take, and sleeps for a moment. Then it tries again, in a transaction of its own each time:
 * it has nothing locked while it sleeps, and sees what has come, been restocked or been given back. If
 * the row of wants does not say any more what it lacks, it writes it anew. When it has got its
 * units, or its time is up, it takes its wish back in the same transaction. One that is cancelled or killed
 * leaves it there, until its time is up.
 *
 * It looks again after POLL_MIN_MS, and then less often, up to POLL_MAX_MS. So many sessions that wait for
 * long cost little.
 *
 * Since it commits, it must be called outside of a transaction block: as other procedures
 * that do, 2D000. A stock that is not replicated has no wants; there it waits for what comes back here.
 */
#include "postgres.h"

#include "access/xact.h"
#include "executor/spi.h"
#include "fmgr.h"
#include "miscadmin.h"
#include "nodes/parsenodes.h"
#include "storage/latch.h"
#include "utils/snapmgr.h"
#include "utils/timestamp.h"

#include "base/args.h"
#include "base/compat.h"
#include "core/table/access.h"
#include "region/rights.h"
#include "transactional/stock/stock.h"
#include "transactional/stock/take.h"
#include "types/crdt/hlcclock.h"

PG_FUNCTION_INFO_V1(dc_take_wait);

#define WAIT_NAME "dc_take_wait()"
#define POLL_MIN_MS 50
#define POLL_MAX_MS 500

/* A session that waits. */
typedef struct DcWaiting
{
	const DcKey *key;
	int64 qty;
	int64 since;	   /* the stamp of its wish; 0: it has none */
	TimestampTz until; /* its end, by the wall clock, for others to see */
} DcWaiting;

static bool wait_for_units(FunctionCallInfo fcinfo, DcWaiting *waiting, int64 timeout);
static bool try_once(FunctionCallInfo fcinfo, DcWaiting *waiting, bool last);
static void takewait_wish(DcCounter *counter, DcWaiting *waiting, bool over);
static void sleep_until(DcMoment until, int64 waited);

/*
 * dc_take_wait(stock regclass, key text|bigint|uuid, qty bigint, timeout interval, INOUT ok boolean), a
 * procedure that waits for units for so long; ok is whether it has taken them. It commits while it waits.
 *
 * Errors: 22023 for a quantity that is not positive, or a negative timeout, 2D000 in a transaction block, 55000 if
 * this database needs a new epoch, and those of dc_take().
 */
Datum
dc_take_wait(PG_FUNCTION_ARGS)
{
	bool atomic = fcinfo->context == NULL || !IsA(fcinfo->context, CallContext) ||
		castNode(CallContext, fcinfo->context)->atomic;
	DcKey buf;
	DcWaiting waiting = {.key = key_arg(fcinfo, 1, &buf), .qty = quantity_arg(fcinfo, 2)};
	Datum result[1];
	bool nulls[1] = {false};
	int64 timeout;

	arg_not_null(fcinfo, 3, "timeout");
	timeout = interval_to_duration(PG_GETARG_INTERVAL_P(3), "timeout");
	if (timeout < 0)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("timeout must not be negative")));
	prevent_write(WAIT_NAME);
	if (atomic)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_TRANSACTION_TERMINATION),
				 errmsg("%s cannot run inside a transaction block", WAIT_NAME),
				 errdetail("It commits while it waits."),
				 errhint("In a transaction use dc_take(), and dc_want() to ask other regions.")));
	SPI_connect_ext(SPI_OPT_NONATOMIC);
	result[0] = BoolGetDatum(wait_for_units(fcinfo, &waiting, timeout));
	SPI_finish();
	return record_result(fcinfo, result, nulls);
}

/*
 * wait_for_units tries until it has the units or the time is up.
 */
static bool
wait_for_units(FunctionCallInfo fcinfo, DcWaiting *waiting, int64 timeout)
{
	DcMoment began = moment_now();
	DcMoment until = moment_after(began, timeout);

	waiting->until = GetCurrentTimestamp();
	if (pg_add_s64_overflow(waiting->until, timeout, &waiting->until))
		waiting->until = DT_NOEND;
	for (;;)
	{
		bool last = moment_is_reached(until);

		if (try_once(fcinfo, waiting, last))
			return true;
		if (last)
			return false;
		SPI_commit();
		sleep_until(until, moment_age(began));
	}
}

/*
 * try_once tries to take, and says what it lacks if it could not and goes on to wait.
 */
static bool
try_once(FunctionCallInfo fcinfo, DcWaiting *waiting, bool last)
{
	DcCounter *counter;
	bool taken;

	/* in a transaction that is new: each try sees what is there now */
	if (!FirstSnapshotSet)
		XactIsoLevel = XACT_READ_COMMITTED;
	rights_await_and_lock(counter_arg(fcinfo), WAIT_NAME);
	counter = stock_open_to_write(fcinfo, WAIT_NAME);
	PushActiveSnapshot(GetTransactionSnapshot());
	taken = stock_take(counter, waiting->key, waiting->qty, 0) > 0;
	if (counter_has_rights(counter) && (waiting->since != 0 || !(taken || last)))
		takewait_wish(counter, waiting, taken || last);
	PopActiveSnapshot();
	return taken;
}

/*
 * takewait_wish sees to it that the row of wants says what this session lacks, or, if that is over, does not say it any
 * more. Others who write the row are waited for where that must be done now.
 */
static void
takewait_wish(DcCounter *counter, DcWaiting *waiting, bool over)
{
	DcWantChange change = {.keeps = over ? -waiting->qty : waiting->qty};

	rights_lock(counter, RowExclusiveLock, true);
	if (waiting->since != 0 && !over)
	{
		if (!want_is_stale(counter, waiting->key, waiting->since, waiting->until))
			return;
		change.keeps = 0;
	}
	if (waiting->since == 0)
		waiting->since = hlc_clock_next(0);
	change.since = waiting->since;
	(void) want_change(counter, waiting->key, change, waiting->until, change.keeps != 0);
}

/*
 * sleep_until sleeps a while: a quarter of what has been waited so far, within limits.
 */
static void
sleep_until(DcMoment until, int64 waited)
{
	static uint32 wait_event = 0;
	long ms = Min(Max(waited / 4000, POLL_MIN_MS), POLL_MAX_MS);

	if (wait_event == 0)
		wait_event = compat_wait_event("DcounterTakeWait");
	(void) WaitLatch(MyLatch, WL_LATCH_SET | WL_TIMEOUT | WL_EXIT_ON_PM_DEATH,
					 Min(ms, moment_ms_left(until)), wait_event);
	ResetLatch(MyLatch);
	CHECK_FOR_INTERRUPTS();
}
