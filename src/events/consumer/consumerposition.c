/*
 * consumerposition.c
 *		Positions by name, number and time.
 *
 * Copyright (c) 2026, the dcounter developers
 *
 * A transaction that sets a position needs the events after it, but nobody sees the position before
 * the commit. So until then the transaction has a lock with the position in its tag. The retention
 * job, which has the lock on positions, looks which of these locks are held, and takes them for
 * consumers that need what comes after. It waits for none of them: a transaction that stays open
 * keeps no more events than a consumer that does not acknowledge. To be seen, the lock is taken
 * before the transaction has had the lock on positions for a moment: a job that has not seen it is
 * over by then. While the position is being determined, all events are kept.
 */
#include "postgres.h"

#include "fmgr.h"
#include "miscadmin.h"
#include "utils/fmgrprotos.h"
#include "utils/timestamp.h"

#include "base/lockclass.h"
#include "events/consumer/consumer.h"

/*
 * By how much an event may seem older than one before it. Times are those of the wall
 * clock. If the clock was set back by more, the position of a time may be found too late;
 * the manual says to seek a number then.
 */
#define DISORDER_US (60 * USECS_PER_SEC)

static void position_hold(int64 position);
static int64 position_from_time(TimestampTz time);
static bool first_after(int64 after, int64 upto, int64 *seq, TimestampTz *time);

/*
 * positions_begin is called before a position is searched for. From here on no events are removed.
 */
void
positions_begin(void)
{
	(void) advisory_lock(POSITION_LOCK_CLASS, 0, 0, ShareLock, true); /* there are some */
	position_hold(0);
	(void) positions_lock(true, true);
	positions_unlock();
}

/*
 * positions_end is called when the position is known. Until the end of the transaction no events
 * after it are removed.
 */
void
positions_end(int64 position)
{
	position_hold(position);
	advisory_unlock(POSITION_LOCK_CLASS, 0, 1, ShareLock);
}

/*
 * Keep the events after a position until the end of the transaction.
 */
static void
position_hold(int64 position)
{
	uint64 number = (uint64) position + 1;

	(void) advisory_lock(POSITION_LOCK_CLASS, (uint32) (number >> 32), (uint32) number, ShareLock, true);
}

/*
 * positions_held returns true if transactions hold positions in this database, and the lowest of
 * these. The caller has the lock on positions. Copies the server's whole lock table, if there are
 * any.
 */
bool
positions_held(int64 *lowest)
{
	LOCKTAG marker;
	LockData *data;
	uint64 first = PG_UINT64_MAX;
	int count;

	SET_LOCKTAG_ADVISORY(marker, MyDatabaseId, 0, 0, POSITION_LOCK_CLASS);
	pfree(GetLockConflicts(&marker, ExclusiveLock, &count));
	if (count == 0)
		return false;
	data = GetLockStatusData();
	for (int i = 0; i < data->nelements; i++)
	{
		const LOCKTAG *tag = &data->locks[i].locktag;
		uint64 number = ((uint64) tag->locktag_field2 << 32) | tag->locktag_field3;

		if (tag->locktag_type == LOCKTAG_ADVISORY && tag->locktag_field4 == POSITION_LOCK_CLASS &&
			tag->locktag_field1 == MyDatabaseId && data->locks[i].holdMask != 0 && number > 0)
			first = Min(first, number);
	}
	pfree(data->locks);
	pfree(data);
	*lowest = (int64) (first - 1);
	return first != PG_UINT64_MAX;
}

/*
 * position_from_text returns the position that is called 'now' or 'beginning', or that
 * of a number, or of a time: just before the first event that is not older. Errors:
 * 22023, 22007, 22008.
 */
int64
position_from_text(const char *start)
{
	const char *digits = "0123456789";

	if (strcmp(start, "now") == 0)
		return outbox_horizon(NULL);
	if (strcmp(start, "beginning") == 0)
		return 0;
	if (start[0] != '\0' && strspn(start, digits) == strlen(start))
		return position_from_int8(DatumGetInt64(DirectFunctionCall1(int8in, CStringGetDatum(start))));
	if (strpbrk(start, digits) == NULL)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("invalid position: \"%s\"", start),
				 errhint("A position is \"now\", \"beginning\", the seq of an event or a time.")));
	return position_from_time(DatumGetTimestampTz(DirectFunctionCall3(timestamptz_in,
																	  CStringGetDatum(start),
																	  ObjectIdGetDatum(InvalidOid),
																	  Int32GetDatum(-1))));
}

/*
 * position_from_int8 returns the position just after an event. 22023 for a number that no
 * event can have had.
 */
int64
position_from_int8(int64 seq)
{
	if (seq < 0 || seq > outbox_last_seq())
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("invalid position: %lld", (long long) seq),
				 errdetail("Events have been numbered up to %lld.",
						   (long long) outbox_last_seq())));
	return seq;
}

/*
 * position_from_time returns the position before the first event that was written at a
 * time or later. The order of numbers is nearly that of times: halving finds an event that
 * is surely earlier, and a scan continues from there.
 */
static int64
position_from_time(TimestampTz time)
{
	int64 horizon = outbox_horizon(NULL);
	int64 low = 0; /* the position is not before this one */
	int64 high = horizon;
	int64 seq;
	TimestampTz written;

	while (low < high)
	{
		int64 middle = low + (high - low) / 2;

		CHECK_FOR_INTERRUPTS();
		if (first_after(middle, horizon, &seq, &written) &&
			written < time - DISORDER_US)
			low = seq;
		else
			high = middle;
	}
	while (first_after(low, horizon, &seq, &written) && written < time)
	{
		CHECK_FOR_INTERRUPTS();
		low = seq;
	}
	return low;
}

/*
 * Find the first event after a number and up to another; false if there is none.
 */
static bool
first_after(int64 after, int64 upto, int64 *seq, TimestampTz *time)
{
	DcReader *reader = reader_begin(after, upto);
	DcStoredEvent event;
	bool found = reader_next(reader, &event);

	if (found)
	{
		*seq = event.seq;
		*time = DatumGetTimestampTz(event.values[OUTBOX_CREATED_AT - 1]);
	}
	reader_end(reader);
	return found;
}
