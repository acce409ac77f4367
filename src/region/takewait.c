/*
 * takewait.c
 *		dc_take_wait(): taking units, and waiting for them if there are not enough.
 *
 * Copyright (c) 2026, the dcounter developers
 *
 * A session that gets none writes what it lacks to its region's row of wants, commits that, so that
 * the row is sent and others can take, and sleeps for a moment. Then it tries again, in a new
 * transaction each time: it has nothing locked while it sleeps, and sees units that have come, were
 * restocked or were given back. If the row of wants no longer says what it lacks, it rewrites the
 * row. When it has got its units, or its time is up, it withdraws its wish in the same transaction.
 * A session that is canceled or killed leaves its wish there, until its time is up.
 *
 * It looks again after POLL_MIN_MS, and then less often, up to POLL_MAX_MS. So even many sessions
 * that wait for a long time cost little.
 *
 * Since it commits, it must be called outside of a transaction block (2D000 otherwise), like other
 * such procedures. A stock that is not replicated has no wants; there it waits for units that are
 * given back here.
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
	TimestampTz until; /* the end of the wait, by the wall clock, for others to see */
} DcWaiting;

static bool wait_for_units(FunctionCallInfo fcinfo, DcWaiting *waiting, int64 timeout);
static bool try_once(FunctionCallInfo fcinfo, DcWaiting *waiting, bool last);
static void takewait_wish(DcCounter *counter, DcWaiting *waiting, bool over);
static void sleep_until(DcMoment until, int64 waited);

/*
 * dc_take_wait(stock regclass, key text|bigint|uuid, qty bigint, timeout interval, INOUT ok
 * boolean), a procedure that takes units, and waits for them up to `timeout`; ok says whether it
 * has taken them. It commits while it waits.
 *
 * Errors: 22023 for a quantity that is not positive, or a negative timeout, 2D000 in a transaction
 * block, 55000 if this database needs a new epoch, and those of dc_take().
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
 * try_once tries to take, and writes what the session lacks if it could not and goes on waiting.
 */
static bool
try_once(FunctionCallInfo fcinfo, DcWaiting *waiting, bool last)
{
	DcCounter *counter;
	bool taken;

	/* in a new transaction: each try sees the present units */
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
 * takewait_wish ensures that the row of wants says what this session lacks or, at the end of the
 * wait, no longer says it. It waits for other writers of the row only if that must be done now.
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
