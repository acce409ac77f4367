/*
 * algorithm.c
 *		The algorithms of limits: token bucket, fixed window, sliding window. Those that need a list
 *		are in listalgorithm.c.
 *
 * Copyright (c) 2026, the dcounter developers
 *
 * A call is allowed if it fits in whole, and only then changes the state. `now` never goes
 * back from one call about a key to the next. The state of an unused key becomes that of a new one
 * at idle_at: then it can be forgotten, and nobody gets more than they would otherwise.
 *
 * gcra: a bucket of `burst` units, which is filled with `rate` units in a period. The state is the
 * time at which it will be full (the theoretical arrival time of the literature): the emptier, the
 * later. A unit moves that by per/rate us, which is not a whole number: the fraction of a us is
 * kept in units of 1/rate, so the arithmetic is exact. In any interval T at most burst + T * rate /
 * per units are allowed: each moves the time by its share, the time begins at the interval's
 * beginning or later, and may end no more than `burst` units after its end.
 *
 * fixed: at most `rate` units in a window. It begins with the first call after the end of the one
 * before. Any window of that length overlaps at most two of these, so it has at most 2 * rate.
 *
 * sliding: windows that follow each other; the units of the last two are known. Units of the
 * previous one count in proportion to the part of it that is within `per` of now, as if they were
 * spread evenly:
 *		previous * (per - elapsed) / per + used + cost <= rate
 * That is an approximation. The guarantee is at most `rate` in each of these windows, so less than
 * 2 * rate in any window. If the calls of the window before were spread evenly, `rate` and one
 * more. (All of it at the end of one window, and the next call as soon as one is allowed, comes
 * close to 2 * rate.)
 *
 * When the state of keys was lost, by a crash, a key may begin with an empty budget, as if all of
 * it had been used at the time of the loss (limit_begin with lost_at).
 */
#include "memory/limit/algorithm.h"

typedef __int128 Wide;

#define MIN(a, b) ((a) < (b) ? (a) : (b))
#define MAX(a, b) ((a) > (b) ? (a) : (b))

static void windows_idle(const DcLimitNumbers *numbers, DcLimitState *state, int64_t now);

/*
 * limit_numbers_wrong returns a message that says why the numbers of a rule are wrong, or NULL.
 */
const char *
limit_numbers_wrong(const DcLimitNumbers *numbers)
{
	if (numbers->rate <= 0)
		return "rate must be greater than zero";
	if (numbers->per <= 0)
		return "per must be greater than zero";
	if (numbers->kind == LIMIT_GCRA && numbers->burst <= 0)
		return "burst must be greater than zero";
	if (numbers->rate > LIMIT_MAX_UNITS || (numbers->kind == LIMIT_GCRA && numbers->burst > LIMIT_MAX_UNITS))
		return "rate and burst must not be greater than 10^15";
	if (numbers->per > LIMIT_MAX_US / 10)
		return "per must not be longer than ten years";
	if (limit_has_list(numbers) && numbers->rate > LIMIT_MAX_LISTED)
		return "rate must not be greater than 1024 for algorithms \"log\" and \"concurrent\"";
	if (numbers->kind == LIMIT_GCRA && (Wide) numbers->burst * numbers->per / numbers->rate > LIMIT_MAX_US)
		return "the burst must be refilled within a hundred years";
	return NULL;
}

/*
 * algorithm_divide divides numbers that are not negative. Nearly all dividends fit into 64 bits,
 * where the processor does it.
 */
static int64_t
algorithm_divide(Wide dividend, int64_t divisor, int64_t *rest)
{
	if (dividend <= INT64_MAX)
	{
		*rest = (int64_t) dividend % divisor;
		return (int64_t) dividend / divisor;
	}
	*rest = (int64_t) (dividend % divisor);
	return (int64_t) (dividend / divisor);
}

/*
 * gcra_behind returns in how long after now the bucket will be full, in 1/rate us. gcra_set_behind
 * is the reverse.
 */
static Wide
gcra_behind(const DcLimitNumbers *numbers, const DcLimitState *state, int64_t now)
{
	Wide behind = (Wide) (state->at - now) * numbers->rate + state->used;

	return MAX(behind, 0);
}

/*
 * Set the bucket to be full in `behind` (in 1/rate us) after now.
 */
static void
gcra_set_behind(const DcLimitNumbers *numbers, DcLimitState *state, int64_t now, Wide behind)
{
	state->at = now + algorithm_divide(behind, numbers->rate, &state->used);
	state->idle_at = state->at + (state->used != 0);
}

/*
 * limit_begin makes the state of a new key. lost_at is the time at which states were lost, or 0: if
 * it matters, the budget counts as used up at that time.
 */
void
limit_begin(const DcLimitNumbers *numbers, DcLimitState *state, int64_t now, int64_t lost_at)
{
	*state = (DcLimitState){.idle_at = now, .first = LIMIT_NO_CHUNK, .last = LIMIT_NO_CHUNK};
	if (lost_at == 0)
		return;
	switch (numbers->kind)
	{
		case LIMIT_GCRA:
			gcra_set_behind(numbers, state, lost_at, (Wide) numbers->burst * numbers->per);
			break;
		case LIMIT_FIXED:
		case LIMIT_SLIDING:
			state->at = lost_at;
			state->used = numbers->rate;
			windows_idle(numbers, state, now);
			break;
		case LIMIT_LOG:
		case LIMIT_CONCURRENT:
			state->at = state->idle_at = lost_at + numbers->per;
			break;
	}
	limit_turn(numbers, state, now, NULL);
}

/*
 * Set the moment at which the windows of the state no longer count for any call.
 */
static void
windows_idle(const DcLimitNumbers *numbers, DcLimitState *state, int64_t now)
{
	if (state->used > 0)
		state->idle_at = state->at + numbers->per * (numbers->kind == LIMIT_SLIDING ? 2 : 1);
	else if (state->previous > 0)
		state->idle_at = state->at + numbers->per;
	else
		state->idle_at = now;
}

/*
 * limit_turn brings a state up to now: it forgets units that no longer count.
 */
void
limit_turn(const DcLimitNumbers *numbers, DcLimitState *state, int64_t now, const DcLimitStore *store)
{
	int64_t windows;

	if (limit_has_list(numbers))
	{
		limitlist_turn(numbers, state, now, store);
		return;
	}
	if (numbers->kind == LIMIT_GCRA)
		return;
	windows = (now - state->at) / numbers->per;
	if (windows <= 0)
		return;
	state->previous = numbers->kind == LIMIT_SLIDING && windows == 1 ? state->used : 0;
	state->used = 0;
	state->at += windows * numbers->per;
	windows_idle(numbers, state, now);
}

/*
 * Answer whether `cost` units fit into the bucket, how many are left, and if they do not fit, in
 * how many us they will.
 */
static void
gcra_test(const DcLimitNumbers *numbers, const DcLimitState *state, int64_t now, int64_t cost, DcLimitAnswer *answer)
{
	Wide behind = gcra_behind(numbers, state, now);
	Wide most = (Wide) numbers->burst * numbers->per;
	Wide after = behind + (Wide) cost * numbers->per;
	int64_t rest;

	answer->allowed = after <= most;
	if (!answer->allowed)
		answer->retry_after = algorithm_divide(after - most + numbers->rate - 1, numbers->rate, &rest);
	else
		behind = after;
	answer->remaining = behind < most ? algorithm_divide(most - behind, numbers->per, &rest) : 0;
}

/*
 * Answer for a fixed window. A call that does not fit may be repeated when the window ends.
 */
static void
fixed_test(const DcLimitNumbers *numbers, const DcLimitState *state, int64_t now, int64_t cost, DcLimitAnswer *answer)
{
	int64_t left = MAX(numbers->rate - state->used, 0);

	answer->allowed = cost <= left;
	if (!answer->allowed)
		answer->retry_after = state->at + numbers->per - now;
	answer->remaining = answer->allowed ? left - cost : left;
}

/*
 * sliding_reaches returns the time from the start of a window until fewer than `room` of the
 * `before` units of the previous window count.
 */
static int64_t
sliding_reaches(const DcLimitNumbers *numbers, int64_t before, int64_t room)
{
	Wide part;

	if (before <= room)
		return 0;
	part = (Wide) room * numbers->per / before;
	return numbers->per - (int64_t) part;
}

/*
 * Answer for a sliding window. A call that does not fit may fit later in this window, as the one
 * before it slides out, or in the next one. A cost above `rate` never fits, and has no time to
 * retry.
 */
static void
sliding_test(const DcLimitNumbers *numbers, const DcLimitState *state, int64_t now, int64_t cost, DcLimitAnswer *answer)
{
	int64_t elapsed = state->used + state->previous > 0 ? now - state->at : 0;
	Wide free = ((Wide) numbers->rate - state->used) * numbers->per - (Wide) state->previous * (numbers->per - elapsed);
	int64_t left = free > 0 ? (int64_t) (free / numbers->per) : 0;
	int64_t room = numbers->rate - state->used - cost;

	answer->allowed = cost <= left;
	answer->remaining = answer->allowed ? left - cost : left;
	if (answer->allowed || cost > numbers->rate)
		return;
	if (room >= 0)
		answer->retry_after = sliding_reaches(numbers, state->previous, room) - elapsed;
	else
		answer->retry_after = numbers->per - elapsed + sliding_reaches(numbers, state->used, numbers->rate - cost);
}

/*
 * Return true if `cost` units are allowed now. The state must have been turned.
 */
void
limit_test(const DcLimitNumbers *numbers, const DcLimitState *state, int64_t now, int64_t cost,
		   const DcLimitStore *store, DcLimitAnswer *answer)
{
	int64_t most = numbers->kind == LIMIT_GCRA ? numbers->burst : numbers->rate;
	int64_t asked = MIN(cost, most + 1); /* the rest does not depend on how far a cost is above the limit */

	*answer = (DcLimitAnswer){0};
	switch (numbers->kind)
	{
		case LIMIT_GCRA:
			gcra_test(numbers, state, now, asked, answer);
			break;
		case LIMIT_FIXED:
			fixed_test(numbers, state, now, asked, answer);
			break;
		case LIMIT_SLIDING:
			sliding_test(numbers, state, now, asked, answer);
			break;
		case LIMIT_LOG:
		case LIMIT_CONCURRENT:
			limitlist_test(numbers, state, now, asked, store, answer);
			break;
	}
	if (cost > most)
		answer->retry_after = LIMIT_NEVER;
}

/*
 * limit_fits returns how many of the units are allowed now, from 0 to all, for a state that was
 * turned.
 */
int64_t
limit_fits(const DcLimitNumbers *numbers, const DcLimitState *state, int64_t now, int64_t units, const DcLimitStore *store)
{
	DcLimitAnswer answer;

	limit_test(numbers, state, now, 1, store, &answer);
	return answer.allowed ? MIN(units, answer.remaining + 1) : 0;
}

/*
 * limit_add counts units that were allowed. A list gets the chunks that it wants from `fresh`.
 */
void
limit_add(const DcLimitNumbers *numbers, DcLimitState *state, int64_t now, int64_t cost, int64_t lease, uint32_t fresh,
		  const DcLimitStore *store)
{
	switch (numbers->kind)
	{
		case LIMIT_GCRA:
			gcra_set_behind(numbers, state, now, gcra_behind(numbers, state, now) + (Wide) cost * numbers->per);
			break;
		case LIMIT_FIXED:
		case LIMIT_SLIDING:
			if (state->used == 0 && state->previous == 0)
				state->at = now;
			state->used += cost;
			windows_idle(numbers, state, now);
			break;
		case LIMIT_LOG:
		case LIMIT_CONCURRENT:
			limitlist_add(numbers, state, now, cost, lease, fresh, store);
			break;
	}
}

/*
 * limit_refund takes back units that were counted, as many as there are. In a list these are the
 * units that would have ended first, so that no window ever counts fewer units than it has allowed.
 */
void
limit_refund(const DcLimitNumbers *numbers, DcLimitState *state, int64_t now, int64_t units, const DcLimitStore *store)
{
	Wide behind;
	int64_t taken;

	switch (numbers->kind)
	{
		case LIMIT_GCRA:
			behind = gcra_behind(numbers, state, now) - (Wide) units * numbers->per;
			gcra_set_behind(numbers, state, now, MAX(behind, 0));
			break;
		case LIMIT_FIXED:
		case LIMIT_SLIDING:
			taken = MIN(units, state->used);
			state->used -= taken;
			state->previous -= MIN(units - taken, state->previous);
			windows_idle(numbers, state, now);
			break;
		case LIMIT_LOG:
		case LIMIT_CONCURRENT:
			limitlist_drop(numbers, state, units, store);
			break;
	}
}

/*
 * limit_convert converts a key's state from a rule's old numbers to the new ones: as many units as
 * were used remain used.
 */
void
limit_convert(const DcLimitNumbers *old, const DcLimitNumbers *numbers, DcLimitState *state, int64_t now,
			  const DcLimitStore *store)
{
	Wide behind;
	Wide most;

	limit_turn(old, state, now, store);
	switch (numbers->kind)
	{
		case LIMIT_GCRA:
			behind = gcra_behind(old, state, now);
			most = (Wide) numbers->burst * numbers->per;
			behind = behind / old->per * numbers->per + (behind % old->per * numbers->per + old->per - 1) / old->per;
			gcra_set_behind(numbers, state, now, MIN(behind, most));
			break;
		case LIMIT_FIXED:
		case LIMIT_SLIDING:
			/* what was counted in a longer window counts from its start in a shorter one */
			windows_idle(numbers, state, now);
			limit_turn(numbers, state, now, store);
			break;
		case LIMIT_LOG:
		case LIMIT_CONCURRENT:
			limitlist_convert(old, numbers, state, now, store);
			break;
	}
}
