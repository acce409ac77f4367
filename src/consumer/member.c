/*
 * member.c
 *		How the members of a consumer share its keys.
 *
 * Each key belongs to one of 64 lanes, by its hash, and each lane to one row of
 * dcounter.consumer_member: that of a member, or that of the consumer itself,
 * which has the lanes that no member has. A lane's position (everything up to it
 * is done) is part of the row and moves with the lane. A fetch returns events of the
 * member's own lanes after their positions, in the order of their numbers.
 *
 * Why the events of a key keep their order through any change of members:
 *
 *	1. A lane has one holder at a time. It moves from row to row in one transaction,
 *	   which has the locks on both rows; all others act upon a row only with its lock
 *	   held, and see the row as that transaction left it.
 *	2. The new holder begins at the lane's position. So the events that the old one had
 *	   fetched and not acknowledged come again, before anything later.
 *	3. The old holder is done with the lane. It gives lanes away only at the start of a
 *	   fetch of its own, when by contract it works on nothing; or it had let its lease
 *	   expire. In the latter case it may still be working, but cannot get that
 *	   acknowledged: its row has no lanes any more. If its work is in the transaction
 *	   of its dc_ack(), none of it counts. This is as much as can be said of work
 *	   outside of the database.
 *	4. A holder whose transaction is open has the lock on its row. So it cannot lose
 *	   lanes, whatever its lease says: its commit decides on what it has fetched or
 *	   acknowledged there.
 *	5. Retries: see retry.c.
 *
 * How many lanes a member has: the live members (with a lease that has not expired) share
 * evenly, ceil(64 / live). A fetch first takes over the lanes of expired members. Then it
 * gives those that are too many to the consumer's row, or takes those that it lacks
 * from there. A row that another session has locked is left for the next time, so
 * fetches never wait for each other. Every lane is in some row at all times. None is
 * lost when members come and go or transactions roll back, as rows change only
 * together.
 *
 * A call without member works on the consumer's row, and so on all lanes. While live
 * members have some of them it is refused.
 *
 * Leases are wall time: they are rows, which all sessions read, also after a restart.
 * When the clock is set forth they all end, and the next fetch takes over:
 * the events that had been fetched come again, as by 3. When the clock is set back, leases
 * would not end for so long. But then they end later than any that is given now. So the
 * next session that sees such a lease, a member's or the worker's, cuts it to a full
 * lease from now. The same happens when a lease is made shorter by dc_consumer_alter().
 */
#include "postgres.h"

#include "consumer/consumer.h"
#include "miscadmin.h"
#include "port/pg_bitutils.h"
#include "utils/snapmgr.h"

/* How soon a member that lacks lanes looks for some again. */
#define LACKING_US (1 * USECS_PER_SEC)

/* How often to look for rows that are just being replaced. */
#define MAX_TRIES 100

static void move_retries(const DcMember *from, DcMember *to);
static bool take_over(DcMember *from, DcMember *to, TimestampTz now);
static bool trade(DcMember *me, int lacking);
static uint64 some_lanes(uint64 lanes, int count);

/*
 * move_lanes moves lanes from one member to another, with their positions.
 * Neither may acknowledge after that what it has fetched before.
 */
static void
move_lanes(DcMember *from, DcMember *to, uint64 lanes)
{
	/* counts are kept only of events that come again */
	if (to->lanes == 0 || to->delivered <= member_acked(to))
	{
		to->delivered = 0;
		to->nattempts = 0;
	}
	if (from->delivered > member_acked(from))
		member_take_attempts(to, from);
	for (int i = 0; i < LANES; i++)
	{
		if (lanes_have(lanes, i))
			to->positions[i] = from->positions[i];
	}
	move_retries(from, to);
	to->lanes |= lanes;
	from->lanes &= ~lanes;
	to->fetched = from->fetched = 0;
	to->nretries = from->nretries = 0;
}

/*
 * move_retries makes what a member's row says of its retries true of another member's
 * lanes, too.
 */
static void
move_retries(const DcMember *from, DcMember *to)
{
	if (to->lanes == 0)
	{
		to->retry_due = 0;
		to->revived = from->revived;
	}
	if (from->retry_due != 0)
	{
		bool had = to->retry_due != 0;

		to->retry_due = had ? Min(to->retry_due, from->retry_due) : from->retry_due;
		to->retry_first = had ? Min(to->retry_first, from->retry_first) : from->retry_first;
	}
	to->retry_last = Max(to->retry_last, from->retry_last);
	to->revived = Min(to->revived, from->revived);
}

/*
 * member_share gives a member, whose lock is held, its share of the lanes. True if
 * lanes have moved; the caller then stores the member. *look_again is made earlier
 * if there may be more lanes by then.
 */
bool
member_share(DcConsumer *consumer, DcMember *me, DcMoment *look_again)
{
	TimestampTz now = GetCurrentTimestamp();
	List *all = member_read_all(consumer->id, SnapshotSelf);
	bool moved = false;
	uint64 spare = 0;
	int live = 1;
	int share;
	int mine;
	ListCell *lc;

	foreach(lc, all)
	{
		DcMember *other = lfirst(lc);

		if (other->name[0] == '\0')
			spare = other->lanes;
		else if (strcmp(other->name, me->name) == 0)
			continue;
		else if (other->lease_until > now)
		{
			live++;
			if (other->lease_until - now > consumer->lease &&
				member_cut_lease(consumer->id, other->name, consumer->lease))
				moved = true;
			*look_again = moment_min(*look_again, moment_at_wall(other->lease_until));
		}
		else if (other->lanes != 0)
		{
			if (take_over(other, me, now))
				moved = true;
			else
			{
				/* its transaction is open: as good as a lease */
				live++;
				*look_again = moment_min(*look_again, moment_after(moment_now(), LACKING_US));
			}
		}
	}
	list_free_deep(all);

	share = (LANES + live - 1) / live;
	mine = pg_popcount64(me->lanes);
	if ((mine > share || (mine < share && spare != 0)) && trade(me, share - mine))
		moved = true;
	if (pg_popcount64(me->lanes) < LANES / live)
		*look_again = moment_min(*look_again, moment_after(moment_now(), LACKING_US));
	return moved;
}

/*
 * member_cut_lease makes the lease of a member end when one ends that is given now;
 * false if it does not end later than that, or its row is locked: then the member
 * is at work, and will renew it.
 */
bool
member_cut_lease(int32 consumer, const char *name, int64 lease)
{
	TimestampTz until = GetCurrentTimestamp() + lease;
	DcMember member;

	if (!member_try_open(consumer, name, &member))
		return false;
	if (member.lease_until <= until)
	{
		member_unlock(consumer, name);
		return false;
	}
	member.lease_until = until;
	member_write(&member);
	return true;
}

/*
 * take_over moves all lanes of a member that has expired; false if it has not, or
 * if its row is locked.
 */
static bool
take_over(DcMember *from, DcMember *to, TimestampTz now)
{
	char name[CONSUMER_NAME_MAX + 1];

	strlcpy(name, from->name, sizeof(name));
	if (!member_try_open(to->consumer, name, from))
		return false;
	if (from->lanes == 0 || from->lease_until > now)
	{
		member_unlock(to->consumer, name);
		return false;
	}
	move_lanes(from, to, from->lanes);
	member_write(from);
	return true;
}

/*
 * trade takes lanes that a member lacks from the consumer itself, or gives it those
 * that are too many (lacking < 0); false if its row is locked, or has none to take.
 */
static bool
trade(DcMember *me, int lacking)
{
	DcMember self;

	if (!member_try_open(me->consumer, "", &self))
		return false;
	if (lacking > 0 && self.lanes == 0)
	{
		member_unlock(me->consumer, "");
		return false;
	}
	if (lacking > 0)
		move_lanes(&self, me, some_lanes(self.lanes, lacking));
	else
		move_lanes(me, &self, some_lanes(me->lanes, -lacking));
	member_write(&self);
	return true;
}

/*
 * some_lanes returns at most `count` of the lanes.
 */
static uint64
some_lanes(uint64 lanes, int count)
{
	uint64 some = 0;

	while (count-- > 0 && lanes != 0)
	{
		uint64 lane = lanes & -lanes;

		some |= lane;
		lanes &= ~lane;
	}
	return some;
}

/*
 * member_take_all gives all lanes to the consumer itself, whose row is locked and
 * then to be stored; or returns a live member that has some of them.
 */
const DcMember *
member_take_all(DcConsumer *consumer, DcMember *self)
{
	TimestampTz now = GetCurrentTimestamp();

	for (int i = 0; i < 2 && self->lanes != ALL_LANES; i++)
	{
		List *all = member_read_all(consumer->id, SnapshotSelf);
		ListCell *lc;

		foreach(lc, all)
		{
			DcMember *other = lfirst(lc);

			if (other->name[0] == '\0' || other->lanes == 0)
				continue;
			if (other->lease_until > now || !take_over(other, self, now))
				return other;
		}
		list_free_deep(all);
	}
	return NULL;
}

/*
 * members_lock_all locks all members of a consumer, waiting for those that work, and
 * returns them (DcMember *), the consumer itself first. No new member can have lanes, as
 * it would have to take them from one of these.
 */
List *
members_lock_all(int32 consumer)
{
	for (int i = 0; i < MAX_TRIES; i++)
	{
		List *members = NIL;
		uint64 lanes = 0;
		List *all;
		ListCell *lc;

		CHECK_FOR_INTERRUPTS();
		(void) member_lock(consumer, "", true, NULL);
		all = member_read_all(consumer, SnapshotSelf);
		foreach(lc, all)
		{
			DcMember *member = lfirst(lc);
			char name[CONSUMER_NAME_MAX + 1];

			strlcpy(name, member->name, sizeof(name));
			(void) member_lock(consumer, name, true, NULL);
			if (!member_read(consumer, name, member))
				continue; /* removed meanwhile */
			lanes |= member->lanes;
			members = name[0] == '\0' ? lcons(member, members) : lappend(members, member);
		}
		if (lanes == ALL_LANES)
			return members;
	}
	elog(ERROR, "consumer %d has lost lanes", consumer);
}

/*
 * event_key returns the key of an event, or NULL.
 */
text *
event_key(const DcStoredEvent *event)
{
	return event->isnull[OUTBOX_KEY - 1] ? NULL : DatumGetTextPP(event->values[OUTBOX_KEY - 1]);
}

int
event_lane(const DcStoredEvent *event)
{
	return lane_of(event_key(event));
}

/*
 * event_is_of tells whether a member of a consumer is to get an event: it has a topic
 * that the consumer wants, a lane that the member has, and is not done.
 */
bool
event_is_of(const DcConsumer *consumer, const DcMember *me, const DcStoredEvent *event)
{
	int lane;

	if (consumer->topics != NULL &&
		!consumer_wants(consumer, DatumGetTextPP(event->values[OUTBOX_TOPIC - 1])))
		return false;
	lane = event_lane(event);
	return lanes_have(me->lanes, lane) && me->positions[lane] < event->seq;
}
