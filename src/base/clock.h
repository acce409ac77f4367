/*
 * clock.h
 *		Moments: times by a clock that cannot be set.
 *
 * Copyright (c) 2026, the dcounter developers
 *
 * The wall clock (TimestampTz) steps back and forth: by NTP, an administrator, a
 * virtual machine that wakes up. So durations, and times at which something is to be
 * done next, are measured by the monotonic clock. Its times have a type of their own,
 * so that the compiler tells the two apart.
 *
 * Wall time is used only for times that users give and see, for times in rows (they must
 * mean the same after a restart and on a standby), and for ids that carry a time. A
 * comment says so at each place.
 *
 * All processes of a server have the same clock, so moments may be in shared
 * memory. They mean nothing to another machine or after a reboot, and so are never written to a
 * file or a row; shared memory ends with the server in any case, even when it restarts after a
 * crash. Zero, as in cleared memory, is long before all moments, and so is any interval after it,
 * even if the machine was booted a short time ago. On Linux the clock stops while the machine is
 * suspended.
 *
 * instr_time is CLOCK_MONOTONIC, or the like, wherever PostgreSQL has one.
 */
#ifndef DC_CLOCK_H
#define DC_CLOCK_H

#include <limits.h>

#include "common/int.h"
#include "port/atomics.h"
#include "portability/instr_time.h"
#include "utils/timestamp.h"

typedef struct DcMoment
{
	int64 us;
} DcMoment;

/* The clock may begin with 0 when the machine is booted; moments begin later. */
#define DC_FIRST_MOMENT (INT64CONST(1) << 61)

#define DC_LONG_AGO ((DcMoment){0})
#define DC_NEVER ((DcMoment){PG_INT64_MAX})

static inline DcMoment
moment_now(void)
{
	instr_time now;

	INSTR_TIME_SET_CURRENT(now);
	return (DcMoment){DC_FIRST_MOMENT + (int64) INSTR_TIME_GET_MICROSEC(now)};
}

/*
 * moment_after returns the moment this many microseconds after (or, if negative, before)
 * another.
 */
static inline DcMoment
moment_after(DcMoment moment, int64 us)
{
	int64 sum;

	if (!pg_add_s64_overflow(moment.us, us, &sum))
		return (DcMoment){sum};
	return us < 0 ? DC_LONG_AGO : DC_NEVER;
}

/*
 * moment_in returns the moment in this many milliseconds.
 */
static inline DcMoment
moment_in(int64 ms)
{
	return moment_after(moment_now(), ms * 1000);
}

/*
 * moment_diff returns the microseconds from one moment to another.
 */
static inline int64
moment_diff(DcMoment from, DcMoment to)
{
	return to.us - from.us;
}

static inline int64
moment_age(DcMoment moment)
{
	return moment_diff(moment, moment_now());
}

static inline bool
moment_is_before(DcMoment moment, DcMoment other)
{
	return moment.us < other.us;
}

static inline bool
moment_is_reached(DcMoment moment)
{
	return moment.us <= moment_now().us;
}

static inline DcMoment
moment_min(DcMoment moment, DcMoment other)
{
	return moment_is_before(moment, other) ? moment : other;
}

static inline DcMoment
moment_max(DcMoment moment, DcMoment other)
{
	return moment_is_before(moment, other) ? other : moment;
}

/*
 * moment_ms_left returns how long to sleep until a moment: milliseconds, rounded up, as
 * WaitLatch() takes them.
 */
static inline long
moment_ms_left(DcMoment moment)
{
	int64 left = moment_diff(moment_now(), moment);

	if (left <= 0)
		return 0;
	return (long) Min(left / 1000 + (left % 1000 != 0), INT_MAX);
}

/*
 * moment_at_wall returns the moment at which the wall clock will show a time, unless the
 * clock is set in the meantime: a caller that waits until then has to check again occasionally.
 */
static inline DcMoment
moment_at_wall(TimestampTz time)
{
	int64 left;

	if (TIMESTAMP_IS_NOEND(time))
		return DC_NEVER;
	if (TIMESTAMP_IS_NOBEGIN(time) ||
		pg_sub_s64_overflow(time, GetCurrentTimestamp(), &left))
		return DC_LONG_AGO;
	return moment_after(moment_now(), left);
}

/*
 * moment_read and moment_write read and write a moment in shared memory that no lock protects.
 */
static inline DcMoment
moment_read(pg_atomic_uint64 *place)
{
	return (DcMoment){(int64) pg_atomic_read_u64(place)};
}

static inline void
moment_write(pg_atomic_uint64 *place, DcMoment moment)
{
	pg_atomic_write_u64(place, (uint64) moment.us);
}

#endif /* DC_CLOCK_H */
