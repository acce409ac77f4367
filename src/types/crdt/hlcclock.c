/*
 * hlcclock.c
 *		This database's hybrid logical clock, and its name.
 *
 * Copyright (c) 2026, the dcounter developers
 *
 * Rules. The time of a new stamp is that of stamp_next(): the wall clock's, but after all
 * that this database has given out, and after the stamp that the caller has seen. No time is given
 * out twice, whether or not the transaction commits, and when the wall clock is set back, times
 * continue one by one until it has caught up.
 *
 * Where it is. The last time is the value of the sequence dcounter.hlc_clock, so it
 * needs no shared memory, is that of all sessions, and is there after a restart, on a
 * standby that is promoted, and in a dump that is restored. It is read and raised under the
 * lock of the sequence's page (sequence_raise()), which also orders the stamps of
 * sessions. No other lock is held then or taken in the meantime.
 *
 * Crashes. What is logged is LOG_AHEAD later than the stamp for which it is logged,
 * and flushed before any session can see the page. So a stamp never leaves the server
 * before something durable is no less, even if its transaction writes nothing, or has not committed
 * yet. After a crash the clock continues from there, up to LOG_AHEAD ahead of its last stamp. While
 * the wall clock is the later one this is one record in LOG_AHEAD of time; after it was set back,
 * one in a million stamps.
 *
 * A standby has replayed the record before it shows anything that was committed with a
 * stamp under it. So when it is promoted, its stamps are later than all those it has. What
 * an asynchronous standby has not got before the primary is lost can, when the wall
 * clock of the standby is behind, have had stamps that are given out again; then only other
 * databases that got them from the primary first still have committed data with these.
 * synchronous_commit is the way to rule that out, as for anything else.
 *
 * A dump has the last time, no earlier than its snapshot. setval() sets it as any
 * sequence's; it takes a superuser.
 *
 * Stamps that come from elsewhere raise the clock, too. If all were accepted, a single one far
 * in the future would permanently drag the clocks of all databases there. So a stamp that is ahead
 * of the wall clock by more than dcounter.clock_drift is refused; but not if this clock
 * has already got there, since then it does no more harm. That is so after the wall clock
 * was set back: this database's stamps that return from other databases are not refused.
 *
 * Any role can make a stamp, and raise the clock with it, after which all stamps of this database
 * are as far ahead. So what does not come by a link, or as by one, may be only half as far ahead:
 * then what this database sends is not refused by one whose clock is behind by less than the other
 * half.
 */
#include "postgres.h"

#include "commands/trigger.h"
#include "mb/pg_wchar.h"
#include "miscadmin.h"
#include "utils/guc.h"
#include "utils/timestamp.h"

#include "base/catrow.h"
#include "base/hooks.h"
#include "base/sequence.h"
#include "types/crdt/hlcclock.h"
#include "types/crdt/stamp.h"

#include <limits.h>

#define LOG_AHEAD USECS_PER_SEC

/* Microseconds from 1970 to 2000, where TimestampTz begins. */
#define EPOCH_DIFF ((int64) (POSTGRES_EPOCH_JDATE - UNIX_EPOCH_JDATE) * USECS_PER_DAY)

static char *node = NULL;			/* dcounter.node; "" if there is none */
static int clock_drift = 60 * 1000; /* ms that a stamp from elsewhere may be ahead */

static bool check_node(char **value, void **extra, GucSource source);
static int64 wall_clock(void);
static bool is_receiving(void);
static void check_ahead(Oid clock, int64 time, int64 now);

/*
 * hlc_clock_init defines the settings.
 */
void
hlc_clock_init(void)
{
	DefineCustomStringVariable("dcounter.node",
							   "Sets the name of this database among its replicas.",
							   "Mergeable values record the writes of this database under this name. "
							   "No two databases may ever use the same one.",
							   &node, "", PGC_SUSET, 0, check_node, NULL, NULL);
	DefineCustomIntVariable("dcounter.clock_drift",
							"Sets how far stamps of other databases may be ahead of this server's clock.",
							"Stamps that are further ahead are refused.",
							&clock_drift, clock_drift, 0, INT_MAX, PGC_SUSET, GUC_UNIT_MS,
							NULL, NULL, NULL);
}

/*
 * Check the setting dcounter.node: a node's name, or empty for none.
 */
static bool
check_node(char **value, void **extra, GucSource source)
{
	const char *wrong;

	if (**value == '\0')
		return true;
	wrong = crdt_node_wrong((CrdtString){*value, strlen(*value)});
	if (wrong != NULL)
		GUC_check_errdetail("%s", wrong);
	return wrong == NULL;
}

/*
 * node_name returns this database's name, which is that of its region and epoch if none is set
 * (55000 if it has none). A setting in postgresql.conf may be in another encoding than the
 * database.
 */
const char *
node_name(void)
{
	const char *name = node != NULL && *node != '\0' ? node : region_hooks->node();

	if (name == NULL)
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("this database has no node name"),
				 errhint("Use ALTER DATABASE to set \"dcounter.node\" to a name that no other database uses.")));
	(void) pg_verifymbstr(name, (int) strlen(name), false);
	return name;
}

/*
 * hlc_clock_next returns the time of a new stamp of this database, which is after `seen`
 * as well (0 for none). 25006 in a transaction that may not write.
 */
int64
hlc_clock_next(int64 seen)
{
	Oid clock = catalog_relation("hlc_clock");
	int64 now = wall_clock();
	int64 time;

	PreventCommandIfReadOnly("dc_hlc_now()");
	PreventCommandIfParallelMode("dc_hlc_now()");
	PreventCommandDuringRecovery("dc_hlc_now()");
	check_ahead(clock, seen, now);
	time = stamp_next(now, 0, seen);
	if (time <= STAMP_MAX_TIME)
		time = sequence_raise(clock, time, LOG_AHEAD);
	if (time > STAMP_MAX_TIME)
		ereport(ERROR,
				(errcode(ERRCODE_DATETIME_VALUE_OUT_OF_RANGE),
				 errmsg("stamp out of range")));
	return time;
}

/*
 * hlc_clock_observe ensures that stamps of this database are after `time` from now on (22023 if
 * that is too far ahead). Mostly they are already. If not, it goes to the wall clock's time at
 * once, so that the next ones to come need not.
 */
void
hlc_clock_observe(int64 time)
{
	Oid clock = catalog_relation("hlc_clock");
	int64 now;

	if (time <= sequence_last(clock))
		return;
	now = wall_clock();
	check_ahead(clock, time, now);
	(void) sequence_raise(clock, Max(now, time), LOG_AHEAD);
}

/*
 * wall_clock returns the microseconds since 1970, by the clock that can be set.
 */
static int64
wall_clock(void)
{
	return GetCurrentTimestamp() + EPOCH_DIFF;
}

/*
 * Return true in an apply worker, and in a session that writes as one does.
 */
static bool
is_receiving(void)
{
	return SessionReplicationRole == SESSION_REPLICATION_ROLE_REPLICA;
}

/*
 * check_ahead raises 22023 if a stamp's time is too far ahead. The look at the clock needs no lock:
 * it only goes forward.
 */
static void
check_ahead(Oid clock, int64 time, int64 now)
{
	int drift = is_receiving() ? clock_drift : clock_drift / 2;

	if (time <= now + drift * INT64CONST(1000) || time <= sequence_last(clock))
		return;
	ereport(ERROR,
			(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
			 errmsg("stamp is " INT64_FORMAT " ms ahead of this server's clock", (time - now) / 1000),
			 errdetail("Stamps may be %d ms ahead.", drift),
			 errhint("Check the clocks of the servers, and \"dcounter.clock_drift\".")));
}
