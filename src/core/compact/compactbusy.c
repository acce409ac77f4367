/*
 * compactbusy.c
 *		Keys with rows that others were just writing: the worker looks at them again.
 *
 * Copyright (c) 2026, the dcounter developers
 *
 * A sweep leaves a row that another transaction is writing for the next sweep. A key that is
 * written most of the time (one row, and commits that wait for the disk) may be left several
 * times in a row. Its value is the same, as all rows count in it. But other regions learn of an
 * amount only when it is compacted. So for a replicated table the sweep notes such keys, up to
 * a limit (compactfind.c), and when it is over each of them is swept again, by itself, up to
 * TRIES times: after 2 ms, 4 ms, 8 ms and so on. No row is locked in the meantime. All tables wait
 * for that, but for no more than MAX_WAIT in a second. If they have many rows, the first ones are
 * swept, and the others are left for the next sweep.
 *
 * A row is still never waited for: dc_set() and other functions rely on that (compact.c). Tables
 * that are compacted with SQL are left out: SKIP LOCKED does not tell what it has skipped.
 */
#include "postgres.h"

#include "miscadmin.h"
#include "utils/lsyscache.h"

#include "base/clock.h"
#include "core/compact/compactbusy.h"
#include "core/compact/compactfind.h"

#define TRIES 5
#define MAX_WAIT 150000 /* us */
#define SECOND 1000000	/* us */
#define MAX_SWEEP 50000 /* us */

/*
 * busy_wait waits before the next try. If there is no time for that, the keys are forgotten.
 */
void
busy_wait(DcSweep *sweep)
{
	static DcMoment second;
	static int64 waited; /* since then */
	int64 pause = 2000 << sweep->tries;

	if (moment_age(second) >= SECOND)
	{
		second = moment_now();
		waited = 0;
	}
	if (sweep->tries >= TRIES || waited + pause > MAX_WAIT)
	{
		sweep->busy = NIL;
		return;
	}
	sweep->tries++;
	waited += pause;
	pg_usleep(pause);
	CHECK_FOR_INTERRUPTS();
}

/*
 * busy_sweep sweeps the keys that were noted, and notes those that still have rows which other
 * transactions are writing. Returns how many were compacted.
 */
int64
busy_sweep(DcSweep *sweep, DcCounter *counter)
{
	DcMoment began = moment_now();
	List *keys = sweep->busy;
	int64 count = 0;
	ListCell *lc;

	sweep->busy = NIL;
	foreach(lc, keys)
	{
		DcSweep one;

		if (!compacts_directly(counter) || moment_age(began) > MAX_SWEEP)
			break;
		sweep_start_of_key(&one, sweep->cxt, PointerGetDatum(lfirst(lc)));
		one.remembers = sweep->remembers;
		one.notes_busy = true;
		count += sweep_next(&one, counter, PG_INT64_MAX);
		if (one.busy != NIL)
			sweep_note_busy(sweep, PointerGetDatum(linitial(one.busy)));
		sweep_end(&one);
	}
	if (keys != NIL)
		ereport(DEBUG1,
				(errmsg_internal("counter table \"%s\": of %d keys that others were writing %lld were compacted at try %d",
								 get_rel_name(counter->relid), list_length(keys), (long long) count, sweep->tries)));
	list_free_deep(keys);
	return count;
}
