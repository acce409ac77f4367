/*
 * consumerneeds.c
 *		The retention job's view of consumers, and its changes to them.
 *
 * Copyright (c) 2026, the dcounter developers
 *
 * The job removes events that every consumer has passed. It first takes the lock on
 * positions (needs), and keeps it until it has removed the events and committed. So no consumer
 * begins to be created or moved back in the meantime, those that are being so hold their positions
 * (consumerposition.c), and all others only go forward. Locks are taken without waiting here: a
 * consumer or member that is locked is left for the next time.
 */
#include "postgres.h"

#include "miscadmin.h"
#include "utils/snapmgr.h"

#include "events/consumer/consumer.h"
#include "events/consumer/retry.h"

/*
 * How many events consumerneeds_advance() looks at for all members, at most, and for how long: each
 * may be large.
 */
#define ADVANCE_MAX 100000
#define ADVANCE_MS 250

/*
 * Rows of discarded dead letters that consumerneeds_cleanup() looks at, at most, of all consumers.
 */
#define CLEANUP_ROWS 10000

/* About how many rows it changes at most, as each takes a lock until the end of the transaction. */
#define CLEANUP_LOCKS 500

/* How long rows of members that have left are kept. */
#define LEFT_US USECS_PER_HOUR

typedef struct Looks
{
	int left;
	DcMoment end;
} Looks;

static List *consumerneeds_needs(bool *busy);
static int64 first_needed(char **name);
static bool cut_off(int32 id, int64 seq);
static int consumerneeds_advance(int32 id);
static bool consumerneeds_cleanup(void);
static int cleanup_members(const DcConsumer *consumer, TimestampTz now, int max);
static int64 passed_by(int32 id, Snapshot snapshot, bool *shared);
static bool advance_member(DcConsumer *consumer, DcMember *me, Looks *looks);
static int64 next_of_interest(DcConsumer *consumer, const DcMember *me, int64 upto, Looks *looks);
static int consumerneeds_compare_ids(const ListCell *a, const ListCell *b);
static bool remove_if_left(int32 consumer, const char *name);

/*
 * consumer_init registers the consumers' hooks with the outbox; called once, before other rooms
 * register their callbacks.
 */
void
consumer_init(void)
{
	static const DcConsumerHooks hooks = {
		.needs = consumerneeds_needs,
		.cut_off = cut_off,
		.advance = consumerneeds_advance,
		.cleanup = consumerneeds_cleanup,
		.first_needed = first_needed,
	};

	consumer_hooks = &hooks;
	consumer_xact_init();
}

/*
 * consumerneeds_needs returns a list of DcConsumerNeed: which events the consumers still need. A
 * consumer that was cut off needs none. One without an id stands for all that are just being
 * created or moved. *busy: a position is being looked for, so nothing is known, and nothing may
 * be removed. Rows are read as the last committed transactions
 * have left them, also in a transaction with an older snapshot.
 */
static List *
consumerneeds_needs(bool *busy)
{
	List *result = NIL;
	List *consumers;
	Snapshot snapshot;
	int64 held;
	ListCell *lc;

	*busy = !positions_lock(false, false);
	if (*busy)
		return NIL;
	/* before the rows are read: positions that are no longer held are in them */
	if (positions_held(&held))
	{
		DcConsumerNeed *need = palloc0(sizeof(DcConsumerNeed));

		need->passed = held;
		result = lappend(result, need);
	}
	snapshot = RegisterSnapshot(GetLatestSnapshot());
	consumers = consumer_list(snapshot);
	foreach(lc, consumers)
	{
		DcConsumer *consumer = lfirst(lc);
		DcConsumerNeed *need;
		bool shared;

		CHECK_FOR_INTERRUPTS();
		if (consumer->cut_off != 0)
			continue;
		need = palloc(sizeof(DcConsumerNeed));
		need->id = consumer->id;
		need->name = consumer->name;
		need->passed = passed_by(consumer->id, snapshot, &shared);
		need->max_age = consumer->max_age;
		need->max_size = consumer->max_size;
		need->filtered = shared || consumer->filtered;
		result = lappend(result, need);
	}
	UnregisterSnapshot(snapshot);
	return result;
}

/*
 * Return the number up to which all members have acknowledged; 0 if some lanes are seen with no
 * member, as a lane that moves just now is. *shared says whether several members share the lanes.
 */
static int64
passed_by(int32 id, Snapshot snapshot, bool *shared)
{
	List *members = member_read_all(id, snapshot);
	int64 passed = PG_INT64_MAX;
	uint64 lanes = 0;
	ListCell *lc;

	*shared = false;
	foreach(lc, members)
	{
		DcMember *member = lfirst(lc);

		if (member->lanes == 0)
			continue;
		passed = Min(passed, member_acked(member));
		lanes |= member->lanes;
		*shared |= member->lanes != ALL_LANES;
	}
	list_free_deep(members);
	return lanes == ALL_LANES ? passed : 0;
}

/*
 * first_needed returns the first event that a consumer still needs, 0 if there is
 * none. A consumer that was cut off no longer needs any. *name: which consumer, if the current user
 * may know of it, or NULL.
 */
static int64
first_needed(char **name)
{
	Snapshot snapshot = RegisterSnapshot(GetLatestSnapshot());
	List *consumers = consumer_list(snapshot);
	int64 passed = PG_INT64_MAX;
	DcConsumer *last = NULL;
	ListCell *lc;
	ListCell *lc2;

	foreach(lc, consumers)
	{
		DcConsumer *consumer = lfirst(lc);
		List *members = consumer->cut_off == 0
			? member_read_all(consumer->id, snapshot)
			: NIL;

		CHECK_FOR_INTERRUPTS();
		foreach(lc2, members)
		{
			DcMember *member = lfirst(lc2);

			if (member->lanes == 0 || member_acked(member) > passed)
				continue;
			if (last == NULL || member_acked(member) < passed ||
				strcmp(consumer->name, last->name) < 0)
				last = consumer;
			passed = member_acked(member);
		}
		list_free_deep(members);
	}
	UnregisterSnapshot(snapshot);
	*name = last != NULL && stat_may_see(last) ? last->name : NULL;
	return last != NULL ? passed + 1 : 0;
}

/*
 * cut_off notes that events up to a number are removed although the consumer has not had them;
 * false if its settings are being changed. Its fetches fail from then on, until dc_seek().
 */
static bool
cut_off(int32 id, int64 seq)
{
	DcConsumer *consumer;

	if (!consumer_lock_settings(id, false))
		return false;
	consumer = consumer_read_by_id(id);
	if (consumer != NULL)
	{
		consumer->cut_off = seq;
		consumer_update(consumer);
	}
	return true;
}

/*
 * consumerneeds_advance moves members that have nothing to do, and would keep events that are of no
 * interest to them from being removed, past these events; returns how many.
 */
static int
consumerneeds_advance(int32 id)
{
	DcConsumer *consumer = consumer_read_by_id(id);
	int advanced = 0;
	Looks looks = {ADVANCE_MAX, moment_in(ADVANCE_MS)};
	DcMember member;
	List *members;
	ListCell *lc;

	if (consumer == NULL)
		return 0;
	members = member_read_all(id, SnapshotSelf);
	foreach(lc, members)
	{
		const char *name = ((DcMember *) lfirst(lc))->name;

		if (looks.left > 0 && member_try_open(id, name, &member))
		{
			if (advance_member(consumer, &member, &looks))
				advanced++;
			else
				member_unlock(id, name);
		}
	}
	list_free_deep(members);
	return advanced;
}

/*
 * Move a member that has nothing outstanding past events of no interest to it, and return true if
 * that was possible. The caller has locked the member.
 */
static bool
advance_member(DcConsumer *consumer, DcMember *me, Looks *looks)
{
	int64 done;

	if (me->lanes == 0 || member_has_outstanding(me))
		return false;
	done = next_of_interest(consumer, me, outbox_horizon(NULL), looks);
	if (done <= member_acked(me))
		return false;
	member_advance(me, done);
	me->fetched = Max(me->fetched, done);
	member_write(me);
	return true;
}

/*
 * next_of_interest returns the number before the next event for a member, or the number up to which
 * it has looked; *looks is how many events it may look at, and for how long.
 */
static int64
next_of_interest(DcConsumer *consumer, const DcMember *me, int64 upto, Looks *looks)
{
	int64 done = member_acked(me);
	DcReader *reader;
	DcStoredEvent event;

	if (upto <= done)
		return done;
	reader = reader_begin(done, upto);
	for (;;)
	{
		CHECK_FOR_INTERRUPTS();
		if (!reader_next(reader, &event))
			done = upto;
		else if (event_is_of(consumer, me, &event))
			done = event.seq - 1;
		else
		{
			done = event.seq;
			if (--looks->left > 0 && !moment_is_reached(looks->end))
				continue;
			looks->left = 0;
		}
		break;
	}
	reader_end(reader);
	return done;
}

/*
 * consumerneeds_cleanup removes members that have left long ago, roles that have been dropped, and
 * rows of discarded dead letters. It cuts leases that are too long because the clock was set back.
 * Returns true if it has reached a limit, and may have left some.
 */
static bool
consumerneeds_cleanup(void)
{
	static int32 last = 0;
	List *consumers = consumer_list(SnapshotSelf);
	TimestampTz now = GetCurrentTimestamp(); /* leases are wall time: member.c */
	int32 reached = 0;
	int rows = 0;
	int changed = 0; /* what need not be looked at again */
	int locks = 0;
	ListCell *lc;

	list_sort(consumers, consumerneeds_compare_ids);
	foreach(lc, consumers)
	{
		DcConsumer *consumer = lfirst(lc);
		int32 id = consumer->id;
		int n;

		CHECK_FOR_INTERRUPTS();
		if (locks >= CLEANUP_LOCKS)
			break;
		n = cleanup_members(consumer, now, CLEANUP_LOCKS - locks);
		if (consumer_has_lost_roles(consumer) && consumer_lock_settings(id, false))
		{
			n++;
			if ((consumer = consumer_read_by_id(id)) != NULL)
				consumer_update(consumer);
		}
		changed += n;
		locks += n;
		if (rows < CLEANUP_ROWS && id > last && retry_read_discarded(id, 1) != NIL && consumer_lock_settings(id, false))
		{
			locks++;
			rows += retries_forget_discarded(id);
			reached = id;
		}
	}
	last = rows < CLEANUP_ROWS && locks < CLEANUP_LOCKS ? 0 : reached; /* from there on the next time */
	return locks >= CLEANUP_LOCKS && changed > 0;
}

/*
 * cleanup_members removes members of a consumer that have left, and cuts leases, at most `max` in
 * all. Returns how many.
 */
static int
cleanup_members(const DcConsumer *consumer, TimestampTz now, int max)
{
	List *members = member_read_all(consumer->id, SnapshotSelf);
	int changed = 0;
	ListCell *lc;

	foreach(lc, members)
	{
		const DcMember *member = lfirst(lc);

		CHECK_FOR_INTERRUPTS();
		if (changed >= max)
			break;
		if (member->name[0] == '\0')
			continue;
		if (member->lanes == 0 && member->lease_until < now - LEFT_US)
			changed += remove_if_left(consumer->id, member->name);
		else if (member->lanes != 0 && member->lease_until - now > consumer->lease)
			changed += member_cut_lease(consumer->id, member->name, consumer->lease);
	}
	list_free_deep(members);
	return changed;
}

/*
 * Compare two consumers by their ids, for list_sort().
 */
static int
consumerneeds_compare_ids(const ListCell *a, const ListCell *b)
{
	return ((const DcConsumer *) lfirst(a))->id - ((const DcConsumer *) lfirst(b))->id;
}

/*
 * remove_if_left returns true if it has removed a member, whose lock is kept.
 */
static bool
remove_if_left(int32 consumer, const char *name)
{
	DcMember member;

	if (!member_try_open(consumer, name, &member))
		return false;
	if (member.lanes != 0 || member.lease_until >= GetCurrentTimestamp() - LEFT_US)
	{
		member_unlock(consumer, name);
		return false;
	}
	member_delete(&member);
	return true;
}
