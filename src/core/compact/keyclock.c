/*
 * keyclock.c
 *		Whether the wall clock can be trusted to tell which keys have expired.
 *
 * Copyright (c) 2026, the dcounter developers
 *
 * If the clock is set forward by months, all keys of a table have expired at once. So steps forward
 * are noted in shared memory: each process that reads the clock compares it with the monotonic one,
 * and with the last process' readings. Workers look each time their job "keys" runs. A clock that
 * was set back and is right again has made such a step, too. While it is back, keys only stay
 * longer.
 *
 * For a day after a step of more than half of the time after which the keys of a table expire, or
 * for that time if it is shorter, they do not expire. By then either somebody has set the clock
 * right, or what was not written since is old by any clock.
 *
 * Nobody knows what the clock did before the server was started. So for the same time after a
 * start, rows decide: the clock is trusted if a key was written, by that clock, within the last
 * half of the time, but at least a day before the start. (Clients may have written others since the
 * start, and since the step if the clock was set before it.) But a table that is not used any more
 * has no such row. Its keys have to wait until that day is over.
 *
 * Without preload there is no shared memory. A session only knows what has happened since it loaded
 * the library, and trusts the clock if any key was written in the last half of the time.
 */
#include "postgres.h"

#include "common/int.h"
#include "storage/spin.h"

#include "base/shmem.h"
#include "core/compact/keyclock.h"

/* us: smaller steps are not noted. */
#define STEP_MIN USECS_PER_MINUTE

typedef struct DcKeyClock
{
	/* set once */
	DcMoment started;
	TimestampTz started_at; /* by the wall clock; DT_NOEND: this is a session's */

	slock_t lock;	  /* protects: */
	int64 ahead;	  /* us that the wall clock was before the monotonic one when it was last read */
	DcMoment stepped; /* when it has last gone forward, */
	int64 step;		  /* and by how much (us) */
} DcKeyClock;

/* In shared memory, or of this session. */
static DcKeyClock *key_clock = NULL;

static void keyclock_area_init(void *area);
static int64 keyclock_ahead(void);

/*
 * keyclock_init is called once, when the library is loaded.
 */
void
keyclock_init(bool preloading)
{
	static DcKeyClock mine;

	if (preloading)
	{
		shmem_add("dcounter clock", sizeof(DcKeyClock), (void **) &key_clock, keyclock_area_init);
		return;
	}
	keyclock_area_init(&mine);
	mine.started_at = DT_NOEND;
	key_clock = &mine;
}

/*
 * keyclock_area_init notes the start of the server.
 */
static void
keyclock_area_init(void *area)
{
	DcKeyClock *clock = area;

	SpinLockInit(&clock->lock);
	clock->started = moment_now();
	clock->started_at = GetCurrentTimestamp(); /* wall time: compared with updated_at */
	clock->ahead = keyclock_ahead();
	clock->stepped = DC_LONG_AGO;
	clock->step = 0;
}

/*
 * Return by how much (us) the wall clock is before the monotonic one.
 */
static int64
keyclock_ahead(void)
{
	return GetCurrentTimestamp() - moment_now().us; /* only its changes mean something */
}

/*
 * keyclock_is_shared returns true if the clock was checked since the server was started.
 */
bool
keyclock_is_shared(void)
{
	return !TIMESTAMP_IS_NOEND(key_clock->started_at);
}

/*
 * keyclock_look notes a step of the clock since the last look.
 */
void
keyclock_look(void)
{
	int64 ahead = keyclock_ahead();
	DcMoment now = moment_now();
	int64 step;

	SpinLockAcquire(&key_clock->lock);
	step = ahead - key_clock->ahead;
	key_clock->ahead = ahead;
	if (step >= STEP_MIN)
	{
		/* several steps in a day are one */
		if (moment_diff(key_clock->stepped, now) > USECS_PER_DAY)
			key_clock->step = 0;
		if (pg_add_s64_overflow(key_clock->step, step, &key_clock->step))
			key_clock->step = PG_INT64_MAX;
		key_clock->stepped = now;
	}
	SpinLockRelease(&key_clock->lock);
}

/*
 * keyclock_trust returns whether the clock can be trusted for a table whose keys expire after
 * `idle` (us). What it did up to the moment `trusted` is no obstacle.
 */
DcClockTrust
keyclock_trust(int64 idle, DcMoment trusted)
{
	int64 pause = Min(idle, USECS_PER_DAY);
	DcMoment stepped;
	int64 step;
	DcClockTrust trust = {0};

	keyclock_look();
	SpinLockAcquire(&key_clock->lock);
	stepped = key_clock->stepped;
	step = key_clock->step;
	SpinLockRelease(&key_clock->lock);
	trust.state = CLOCK_STEPPED;
	trust.until = moment_after(stepped, pause);
	if (step > idle / 2 && moment_is_before(trusted, stepped) && !moment_is_reached(trust.until))
		return trust;
	trust.state = CLOCK_UNKNOWN;
	trust.until = moment_after(key_clock->started, pause);
	trust.written_before = keyclock_is_shared() ? key_clock->started_at - Min(idle / 4, USECS_PER_DAY) : GetCurrentTimestamp();
	if (!moment_is_before(trusted, key_clock->started) || moment_is_reached(trust.until))
		trust.state = CLOCK_TRUSTED;
	return trust;
}
