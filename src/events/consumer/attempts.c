/*
 * attempts.c
 *		Counting the deliveries of a member's events.
 *
 * Copyright (c) 2026, the dcounter developers
 *
 * A fetch returns the first events after the position that are not acknowledged, as many as it may.
 * So the earlier an event, the more often it has been handed out. The counts are a staircase that
 * goes down. A step is noted as the last event on it, and its count. Events after the last step, up
 * to `delivered`, have been handed out once. So a member that acknowledges what it fetches has no
 * steps at all. There is a new step only when a fetch returns fewer events than one before it.
 *
 * A count that is too high would make a dead letter of an event before it was delivered
 * max_attempts times. So if there is no room for a step, it gets the lower count of
 * the next one. When lanes move from one member to another, their counts move too. If
 * both members have some, an event may get the counts of the other member's events, which
 * are of other keys.
 */
#include "postgres.h"

#include "events/consumer/consumer.h"

typedef struct Staircase
{
	int count;
	DcAttempts steps[2 * ATTEMPTS_MAX + 2];
} Staircase;

static void add_step(Staircase *stairs, int64 upto, int64 attempts);
static void attempts_store(DcMember *me, Staircase *stairs);

/*
 * member_attempts returns how often an event that is not acknowledged has been handed
 * out.
 */
int32
member_attempts(const DcMember *me, int64 seq)
{
	if (seq > me->delivered)
		return 0;
	for (int i = 0; i < me->nattempts; i++)
	{
		if (seq <= me->attempts[i].upto)
			return (int32) Min(me->attempts[i].attempts, PG_INT32_MAX);
	}
	return 1;
}

/*
 * member_hand_out counts what a fetch returns: one more attempt for each event up to `last`. Counts
 * of acknowledged events are forgotten.
 */
void
member_hand_out(DcMember *me, int64 last)
{
	int64 acked = member_acked(me);
	int64 repeated = Min(last, me->delivered);
	Staircase stairs = {0};

	for (int i = 0; i < me->nattempts; i++)
	{
		const DcAttempts *step = &me->attempts[i];

		if (step->upto <= acked)
			continue;
		add_step(&stairs, Min(step->upto, last), step->attempts + 1);
		add_step(&stairs, step->upto, step->attempts);
	}
	if (repeated > acked)
		add_step(&stairs, repeated, 2);
	attempts_store(me, &stairs);
	me->delivered = Max(me->delivered, last);
}

/*
 * member_take_attempts adds the counts of another member whose lanes move to this one.
 */
void
member_take_attempts(DcMember *to, const DcMember *from)
{
	Staircase stairs = {0};
	int i = 0;
	int j = 0;

	while (i < to->nattempts || j < from->nattempts)
	{
		int64 a = i < to->nattempts ? to->attempts[i].upto : PG_INT64_MAX;
		int64 b = j < from->nattempts ? from->attempts[j].upto : PG_INT64_MAX;
		int64 upto = Min(a, b);

		add_step(&stairs, upto, Max(member_attempts(to, upto), member_attempts(from, upto)));
		i += a == upto;
		j += b == upto;
	}
	attempts_store(to, &stairs);
	to->delivered = Max(to->delivered, from->delivered);
}

/*
 * add_step adds a step after those that are there, unless there is nothing on it.
 */
static void
add_step(Staircase *stairs, int64 upto, int64 attempts)
{
	DcAttempts *last = stairs->count > 0 ? &stairs->steps[stairs->count - 1] : NULL;

	if (last != NULL && upto <= last->upto)
		return;
	if (last != NULL && attempts == last->attempts)
		last->upto = upto;
	else
		stairs->steps[stairs->count++] = (DcAttempts){.upto = upto, .attempts = attempts};
}

/*
 * attempts_store keeps as many steps as there is room for: the first ones, whose events have been
 * handed out most often.
 */
static void
attempts_store(DcMember *me, Staircase *stairs)
{
	/* the last step that is kept goes up to the end, with the lowest count */
	if (stairs->count > ATTEMPTS_MAX)
		stairs->steps[ATTEMPTS_MAX - 1] = stairs->steps[stairs->count - 1];
	me->nattempts = Min(stairs->count, ATTEMPTS_MAX);
	memcpy(me->attempts, stairs->steps, me->nattempts * sizeof(DcAttempts));
}
