/*
 * member.c
 *		Sharing the keys of a consumer between its members.
 *
 * Copyright (c) 2026, the dcounter developers
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
 *	3. The old holder has finished with the lane. It gives lanes away only at the start of a fetch
 *	   of its own, when by contract it is not working on anything; or it had let its lease expire.
 *	   In the latter case it may still be working, but cannot get that acknowledged: its row no
 *	   longer has lanes. If its work is in the transaction of its dc_ack(), none of it counts.
 *	   Nothing more can be guaranteed for work outside of the database.
 *	4. A holder whose transaction is open has the lock on its row. So it cannot lose
 *	   lanes, whatever its lease says: its commit decides on what it has fetched or
 *	   acknowledged there.
 *	5. Retries: see retry.c.
 *
 * How many lanes a member has: the live members (with a lease that has not expired) share
 * evenly, ceil(64 / live). A fetch first takes over the lanes of expired members. Then it gives
 * surplus lanes to the consumer's row, or takes the ones that it lacks from there. A row that
 * another session has locked is left for the next time, so fetches never wait for each other. Every
 * lane is in some row at all times. None is lost when members come and go or transactions roll
 * back, as rows change only together.
 *
 * A fetch that waits cannot commit, and others see nothing of what it has changed. So lanes that it
 * gave away before waiting would belong to nobody during that time. Therefore it changes rows in
 * memory (DcTrade), and stores them when it returns: with events, or because its time is up. As
 * long as it has no events, it drops the trade, unlocks the others' rows, waits, and starts over.
 * That is right for these reasons:
 *
 *	- No member misses a lane that is not given away. A member with too many lanes that has no
 *	  events needs no help, and one that has some returns them, and gives lanes away with the same
 *	  commit.
 *	- It returns an event if any of its lanes has some: the lane of the first one that it
 *	  comes to is among those that it keeps (trade_keeps). In the same way, a member that lacks
 *	  lanes looks at all that nobody has, and takes one with events, if there is one.
 *	- A new member that waits has no row that others see. It makes itself known by a lock
 *	  (CONSUMER_LOCK_JOINING); the others count such locks as live members.
 *
 * A call without member works on the consumer's row, and so on all lanes. While live
 * members have some of them it is refused.
 *
 * Leases are wall time: they are rows, which all sessions read, even after a restart. When the
 * clock is set forward they all end, and the next fetch takes over: the events that had been
 * fetched come again, as by 3. When the clock is set back, leases would last that much longer. But
 * then they end later than any lease given now. So the next session that sees such a lease, a
 * member's or the worker's, cuts it to a full lease from now. The same happens when
 * dc_consumer_alter() shortens a lease.
 */
#include "postgres.h"

#include "access/detoast.h"
#include "miscadmin.h"
#include "port/pg_bitutils.h"
#include "utils/snapmgr.h"

#include "base/key.h"
#include "events/consumer/consumer.h"

/* How soon a member that lacks lanes looks for lanes again. */
#define LACKING_US (1 * USECS_PER_SEC)

/* How soon it does so if there were lanes, and another fetch was about to choose some. */
#define LOCKED_US (100 * INT64CONST(1000))

/* How often to look for rows that are just being replaced. */
#define MAX_TRIES 100

/* Members of a consumer that have a row, those that have left a while ago among them. */
#define MEMBERS_MAX 1000

/* The same for all consumers of a role: each round of the worker reads them all, for all roles. */
#define MEMBERS_OF_ROLE 5000

static void prevent_very_many_members(const DcConsumer *consumer, const DcMember *me, int nrows);
static int64 members_of_role(Oid owner);
static void move_retries(const DcMember *from, DcMember *to);
static void cut_lease(DcMember *other, DcTrade *trade, TimestampTz now, int64 lease);
static bool take_over(DcMember *from, DcMember *to, DcTrade *trade, TimestampTz now);
static bool open_spare(DcTrade *trade, DcMember *me, int share);
static uint64 some_lanes(uint64 lanes, int count);

/*
 * move_lanes moves lanes from one member to another, with their positions.
 * After that, neither may acknowledge events that it has fetched before.
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
 * move_retries adjusts the retries in a member's row, so that they also cover another member's
 * lanes.
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
 * trade_begin creates a trade in which nothing has changed.
 */
void
trade_begin(DcTrade *trade)
{
	memset(trade, 0, sizeof(DcTrade));
	trade->keep = ALL_LANES;
}

/*
 * Return true if a fetch may return an event of a lane that it has now. It may return the first
 * event that it comes to: it keeps that lane instead of another one.
 */
bool
trade_keeps(DcTrade *trade, int lane)
{
	if (!trade->chosen && !lanes_have(trade->keep, lane))
		trade->keep = (trade->keep & (trade->keep - 1)) | UINT64CONST(1) << lane;
	trade->chosen = true;
	return lanes_have(trade->keep, lane);
}

/*
 * trade_store gives away surplus lanes, and stores all rows that have changed, except for the
 * member's own, which the caller stores.
 */
void
trade_store(DcTrade *trade, DcMember *me)
{
	ListCell *lc;

	if (trade->self != NULL && (me->lanes & ~trade->keep) != 0)
		move_lanes(me, trade->self, me->lanes & ~trade->keep);
	foreach(lc, trade->others)
		member_write(lfirst(lc));
}

/*
 * trade_forget leaves all rows as they are, and unlocks them. The caller's copies in memory are no
 * longer valid.
 */
void
trade_forget(DcTrade *trade)
{
	ListCell *lc;

	foreach(lc, trade->others)
	{
		DcMember *other = lfirst(lc);

		member_unlock(other->consumer, other->name);
	}
	trade_begin(trade);
}

/*
 * member_share gives a member, whose lock is held, the lanes from which it may choose its
 * share: its own, those of expired members and, if these are not enough, those without a member.
 * *look_again is made earlier if there may be more lanes by then. Error: 54000 for a new member of
 * a consumer that has very many.
 */
void
member_share(DcConsumer *consumer, DcMember *me, DcTrade *trade, DcMoment *look_again)
{
	TimestampTz now = GetCurrentTimestamp();
	List *all = member_read_all(consumer->id, SnapshotSelf);
	int live = 1 + member_count_joining(consumer->id);
	uint64 spare = 0;
	int share;
	int mine;
	ListCell *lc;

	prevent_very_many_members(consumer, me, list_length(all));
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
			cut_lease(other, trade, now, consumer->lease);
			*look_again = moment_min(*look_again, moment_at_wall(other->lease_until));
		}
		else if (other->lanes != 0 && !take_over(other, me, trade, now))
		{
			/* its transaction is open: as good as a lease */
			live++;
			*look_again = moment_min(*look_again, moment_after(moment_now(), LACKING_US));
		}
	}

	share = (LANES + live - 1) / live;
	mine = pg_popcount64(me->lanes);
	if ((mine > share || (mine < share && spare != 0)) && !open_spare(trade, me, share))
		*look_again = moment_min(*look_again, moment_after(moment_now(), LOCKED_US));
	if (pg_popcount64(me->lanes) < LANES / live)
		*look_again = moment_min(*look_again, moment_after(moment_now(), LACKING_US));
}

/*
 * prevent_very_many_members raises 54000 if a member that has no row yet would exceed the limit:
 * each fetch reads all rows, that of the consumer itself among them, and so does the worker.
 */
static void
prevent_very_many_members(const DcConsumer *consumer, const DcMember *me, int nrows)
{
	if (!ItemPointerIsValid(&me->tid) && nrows > MEMBERS_MAX)
		ereport(ERROR,
				(errcode(ERRCODE_PROGRAM_LIMIT_EXCEEDED),
				 errmsg("consumer \"%s\" cannot have more than %d members", consumer->name, MEMBERS_MAX),
				 errhint("Reuse the names of members. Members that have left are forgotten after an hour.")));
	if (!ItemPointerIsValid(&me->tid) && members_of_role(consumer->owner) > MEMBERS_OF_ROLE)
		ereport(ERROR,
				(errcode(ERRCODE_PROGRAM_LIMIT_EXCEEDED),
				 errmsg("the consumers of a role cannot have more than %d members", MEMBERS_OF_ROLE),
				 errhint("Reuse the names of members. Members that have left are forgotten after an hour.")));
}

/*
 * Return how many members the consumers of a role have, as committed by now.
 */
static int64
members_of_role(Oid owner)
{
	int64 n = 0;
	List *consumers = consumer_list(SnapshotSelf);
	ListCell *lc;

	foreach(lc, consumers)
	{
		const DcConsumer *consumer = lfirst(lc);

		CHECK_FOR_INTERRUPTS();
		if (consumer->owner == owner)
			n += list_length(member_read_all(consumer->id, SnapshotSelf));
	}
	return n;
}

/*
 * cut_lease cuts the lease of a member to a full lease from now, if it would end later. A member
 * whose row is locked is working, and will renew its lease itself.
 */
static void
cut_lease(DcMember *other, DcTrade *trade, TimestampTz now, int64 lease)
{
	DcMember *member;

	if (other->lease_until - now <= lease)
		return;
	member = palloc(sizeof(DcMember));
	if (!member_try_open(other->consumer, other->name, member))
		return;
	member->lease_until = Min(member->lease_until, now + lease);
	trade->others = lappend(trade->others, member);
}

/*
 * member_cut_lease does the same at once, for a caller that is not a member; returns false if there
 * was nothing to cut.
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
take_over(DcMember *from, DcMember *to, DcTrade *trade, TimestampTz now)
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
	trade->others = lappend(trade->others, from);
	return true;
}

/*
 * open_spare locks the row of the consumer itself, and takes all of its lanes; surplus lanes are
 * given back at the end. Returns false if it is locked.
 */
static bool
open_spare(DcTrade *trade, DcMember *me, int share)
{
	DcMember *self = palloc(sizeof(DcMember));
	int lacking = share - pg_popcount64(me->lanes);

	if (!member_try_open(me->consumer, "", self))
		return false;
	if (lacking >= 0 && self->lanes == 0)
	{
		member_unlock(me->consumer, "");
		return true;
	}
	trade->others = lappend(trade->others, self);
	trade->self = self;
	if (lacking < 0)
		trade->keep = me->lanes & ~some_lanes(me->lanes, -lacking);
	else
		trade->keep = me->lanes | some_lanes(self->lanes, lacking);
	if (self->lanes != 0)
		move_lanes(self, me, self->lanes);
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
 * member_take_all gives all lanes to the consumer itself, whose row is locked; or returns
 * a live member that has some of them.
 */
const DcMember *
member_take_all(DcConsumer *consumer, DcMember *self, DcTrade *trade)
{
	TimestampTz now = GetCurrentTimestamp();

	for (int i = 0; i < 2 && self->lanes != ALL_LANES; i++)
	{
		List *all = member_read_all(consumer->id, SnapshotSelf);
		ListCell *lc;

		foreach(lc, all)
		{
			DcMember *other = lfirst(lc);

			/* it has none, or was taken over the first time */
			if (other->name[0] == '\0' || (other->lanes & ~self->lanes) == 0)
				continue;
			if (other->lease_until > now || !take_over(other, self, trade, now))
				return other;
		}
	}
	return NULL;
}

/*
 * members_lock_all locks all members of a consumer, waiting for those at work, and returns them
 * (DcMember *), the consumer itself first. No new member can have lanes, as it would have to take
 * them from one of these.
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
				continue; /* removed in the meantime */
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

/*
 * Return the lane of an event, by its key.
 */
int
event_lane(const DcStoredEvent *event)
{
	text *key = event_key(event);
	int lane = lane_of(key);

	if (key != NULL)
		free_detoasted(key, event->values[OUTBOX_KEY - 1]);
	return lane;
}

/*
 * event_put adds an event to the result of a fetch, and returns how many bytes its payload and
 * headers have.
 */
Size
event_put(ReturnSetInfo *result, const DcStoredEvent *event, int attempt)
{
	static const int columns[] = {OUTBOX_SEQ, OUTBOX_ID, OUTBOX_TOPIC, OUTBOX_KEY,
								  OUTBOX_TYPE, OUTBOX_PAYLOAD, OUTBOX_HEADERS,
								  OUTBOX_CREATED_AT};
	Datum values[lengthof(columns) + 1];
	bool nulls[lengthof(columns) + 1];
	Size bytes = 0;

	for (int i = 0; i < lengthof(columns); i++)
	{
		values[i] = event->values[columns[i] - 1];
		nulls[i] = event->isnull[columns[i] - 1];
	}
	values[lengthof(columns)] = Int32GetDatum(attempt);
	nulls[lengthof(columns)] = false;
	tuplestore_putvalues(result->setResult, result->setDesc, values, nulls);
	if (!event->isnull[OUTBOX_PAYLOAD - 1])
		bytes += toast_raw_datum_size(event->values[OUTBOX_PAYLOAD - 1]);
	if (!event->isnull[OUTBOX_HEADERS - 1])
		bytes += toast_raw_datum_size(event->values[OUTBOX_HEADERS - 1]);
	return bytes;
}

/*
 * Return true if an event is for a member of a consumer: it has a topic that the consumer wants and
 * a lane that the member has, and has not been acknowledged.
 */
bool
event_is_of(const DcConsumer *consumer, const DcMember *me, const DcStoredEvent *event)
{
	int lane;

	if (!event_is_wanted(consumer, event))
		return false;
	lane = event_lane(event);
	return lanes_have(me->lanes, lane) && me->positions[lane] < event->seq;
}

/*
 * Return true if an event has a topic that a consumer wants.
 */
bool
event_is_wanted(const DcConsumer *consumer, const DcStoredEvent *event)
{
	text *topic;
	bool wanted;

	if (consumer->topics == NULL)
		return true;
	topic = DatumGetTextPP(event->values[OUTBOX_TOPIC - 1]);
	wanted = consumer_wants(consumer, topic);
	free_detoasted(topic, event->values[OUTBOX_TOPIC - 1]);
	return wanted;
}
