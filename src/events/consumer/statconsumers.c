/*
 * statconsumers.c
 *		The rows of dc_stat_consumers: how far behind consumers are, and why.
 *
 * Copyright (c) 2026, the dcounter developers
 *
 * A consumer's backlog is read from its position on, up to LOOK_MAX events, as
 * dc_fetch() would read it. So a short backlog is counted exactly. Of a long one the number is an
 * upper bound, so that the view does not take longer for it.
 *
 * A consumer is shown to its owner, its readers, and roles that may read all statistics.
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "catalog/pg_authid.h"
#include "fmgr.h"
#include "funcapi.h"
#include "miscadmin.h"
#include "utils/acl.h"
#include "utils/builtins.h"
#include "utils/memutils.h"
#include "utils/rel.h"
#include "utils/snapmgr.h"

#include "base/compat.h"
#include "events/consumer/consumer.h"
#include "events/consumer/retry.h"
#include "events/outbox/outbox.h"
#include "events/outbox/stat.h"

PG_FUNCTION_INFO_V1(stat_consumers);

/* How many events are checked for a consumer. */
#define LOOK_MAX 10000

/* Columns of dcounter.stat_consumers() */
enum
{
	STAT_NAME,
	STAT_OWNER,
	STAT_TOPICS,
	STAT_POSITION,
	STAT_LAG_EVENTS,
	STAT_LAG_SECONDS,
	STAT_LAG_BYTES,
	STAT_OUTSTANDING,
	STAT_RETRIES,
	STAT_DEAD,
	STAT_ATTEMPTS,
	STAT_MEMBERS,
	STAT_LEASE_UNTIL,
	STAT_EXPIRED,
	STAT_CUT_OFF,
	STAT_HELD_PID,
	STAT_HELD_XID,
	STAT_COLS
};

/* Facts that are the same for all consumers. */
typedef struct Outbox
{
	int64 horizon;
	DcHolder holder;
	DcPartitionStat partitions[OUTBOX_PARTITIONS];
	Snapshot snapshot;
	TimestampTz now;
} Outbox;

/* Facts about one consumer. */
typedef struct Backlog
{
	DcMember *holders[LANES]; /* of each lane; NULL: being dropped */
	int64 position;
	int64 events;
	int64 outstanding;
	TimestampTz oldest; /* event; 0: none */
	int64 retries;
	int64 dead;
	int32 attempts;
	int live;				 /* members whose lease has not expired */
	int expired;			 /* others, with keys */
	TimestampTz lease_until; /* that ends first; 0: none */
} Backlog;

static void read_members(const Outbox *outbox, DcConsumer *consumer,
						 Backlog *backlog);
static void read_backlog(const Outbox *outbox, DcConsumer *consumer,
						 Backlog *backlog);
static const DcMember *find_member(const Backlog *backlog, DcConsumer *consumer,
								   const DcStoredEvent *event);
static void statconsumers_show(ReturnSetInfo *result, const Outbox *outbox,
							   DcConsumer *consumer, const Backlog *backlog);

/*
 * dcounter.stat_consumers() -> setof record: the rows of dc_stat_consumers.
 */
Datum
stat_consumers(PG_FUNCTION_ARGS)
{
	ReturnSetInfo *result = (ReturnSetInfo *) fcinfo->resultinfo;
	Outbox outbox = {0};
	List *consumers;
	ListCell *lc;
	MemoryContext cxt = AllocSetContextCreate(CurrentMemoryContext, "dcounter consumer", ALLOCSET_DEFAULT_SIZES);
	MemoryContext old;

	InitMaterializedSRF(fcinfo, 0);
	/* positions are below the horizon: events that were fetched had been settled */
	outbox.snapshot = RegisterSnapshot(GetLatestSnapshot());
	outbox.horizon = outbox_horizon(&outbox.holder);
	outbox.now = GetCurrentTimestamp();
	stat_partitions(outbox.partitions);
	consumers = consumer_list(outbox.snapshot);
	old = MemoryContextSwitchTo(cxt);
	foreach(lc, consumers)
	{
		DcConsumer *consumer = lfirst(lc);
		Backlog backlog = {0};

		CHECK_FOR_INTERRUPTS();
		MemoryContextReset(cxt);
		if (!stat_may_see(consumer) || (consumer = consumer_read_by_id(consumer->id)) == NULL)
			continue;
		read_members(&outbox, consumer, &backlog);
		read_backlog(&outbox, consumer, &backlog);
		retry_count(consumer->id, &backlog.retries, &backlog.attempts, &backlog.dead);
		statconsumers_show(result, &outbox, consumer, &backlog);
	}
	MemoryContextSwitchTo(old);
	MemoryContextDelete(cxt);
	UnregisterSnapshot(outbox.snapshot);
	return (Datum) 0;
}

/*
 * Return true if the current user may know of a consumer.
 */
bool
stat_may_see(const DcConsumer *consumer)
{
	return consumer_may_read(consumer) ||
		has_privs_of_role(GetUserId(), ROLE_PG_READ_ALL_STATS);
}

/*
 * read_members reads positions and leases. The row without a name has the lanes that
 * no member has, and no lease of its own.
 */
static void
read_members(const Outbox *outbox, DcConsumer *consumer, Backlog *backlog)
{
	List *members = member_read_all(consumer->id, outbox->snapshot);
	ListCell *lc;

	backlog->position = PG_INT64_MAX;
	foreach(lc, members)
	{
		DcMember *member = lfirst(lc);
		bool named = member->name[0] != '\0';

		for (int i = 0; i < LANES; i++)
		{
			if (lanes_have(member->lanes, i))
				backlog->holders[i] = member;
		}
		if (member->lanes != 0)
			backlog->position = Min(backlog->position, member_acked(member));
		backlog->outstanding += member->nretries;
		if (member_has_outstanding(member))
			backlog->attempts = Max(backlog->attempts, member_attempts(member, member_acked(member) + 1));
		if (named && member->lease_until > outbox->now)
		{
			backlog->live++;
			if (backlog->lease_until == 0 || member->lease_until < backlog->lease_until)
				backlog->lease_until = member->lease_until;
		}
		else if (named && member->lanes != 0)
			backlog->expired++;
	}
	if (backlog->position == PG_INT64_MAX) /* being dropped */
		backlog->position = outbox->horizon;
}

/*
 * read_backlog looks at the events from the position on, up to LOOK_MAX. All events after
 * that count as if they were for this consumer.
 */
static void
read_backlog(const Outbox *outbox, DcConsumer *consumer, Backlog *backlog)
{
	int64 seq = backlog->position;
	TimestampTz at = 0;
	DcStoredEvent event;
	DcReader *reader;
	bool more = false;
	int looked = 0;

	if (seq >= outbox->horizon)
		return;
	reader = reader_begin(seq, outbox->horizon);
	while (looked++ < LOOK_MAX && (more = reader_next(reader, &event)))
	{
		const DcMember *member = find_member(backlog, consumer, &event);

		CHECK_FOR_INTERRUPTS();
		seq = event.seq;
		at = DatumGetTimestampTz(event.values[OUTBOX_CREATED_AT - 1]);
		if (member == NULL)
			continue;
		backlog->events++;
		if (event.seq <= member->delivered)
			backlog->outstanding++;
		if (backlog->oldest == 0)
			backlog->oldest = at;
	}
	reader_end(reader);
	if (!more)
		return;
	backlog->events += outbox->horizon - seq;
	if (backlog->oldest == 0)
		backlog->oldest = at; /* the first event of interest is younger */
}

/*
 * find_member finds the member that an event is for; NULL if it is not for this consumer,
 * or done.
 */
static const DcMember *
find_member(const Backlog *backlog, DcConsumer *consumer,
			const DcStoredEvent *event)
{
	const DcMember *member;
	int lane;

	if (!event_is_wanted(consumer, event))
		return NULL;
	lane = event_lane(event);
	member = backlog->holders[lane];
	return member != NULL && member->positions[lane] < event->seq ? member : NULL;
}

/*
 * bytes_after returns how many bytes of the outbox are beyond a position. The partition that has
 * the position counts in proportion to its numbers.
 */
static int64
bytes_after(const Outbox *outbox, int64 position)
{
	double bytes = 0;

	for (int i = 0; i < OUTBOX_PARTITIONS; i++)
	{
		const DcPartitionStat *stat = &outbox->partitions[i];

		if (stat->first != 0 && stat->last > position)
			bytes += stat->bytes * (double) (stat->last - Max(stat->first - 1, position)) /
				(stat->last - stat->first + 1);
	}
	return (int64) bytes;
}

/*
 * Add a consumer's row to the result.
 */
static void
statconsumers_show(ReturnSetInfo *result, const Outbox *outbox, DcConsumer *consumer,
				   const Backlog *backlog)
{
	Datum values[STAT_COLS];
	bool nulls[STAT_COLS] = {false};
	double age = 0;

	if (backlog->oldest != 0)
		age = Max(outbox->now - backlog->oldest, 0) / (double) USECS_PER_SEC;
	values[STAT_NAME] = CStringGetTextDatum(consumer->name);
	values[STAT_OWNER] = ObjectIdGetDatum(consumer->owner);
	values[STAT_TOPICS] = PointerGetDatum(consumer->topics);
	nulls[STAT_TOPICS] = consumer->topics == NULL;
	values[STAT_POSITION] = Int64GetDatum(backlog->position);
	values[STAT_LAG_EVENTS] = Int64GetDatum(backlog->events);
	values[STAT_LAG_SECONDS] = Float8GetDatum(age);
	values[STAT_LAG_BYTES] = Int64GetDatum(bytes_after(outbox, backlog->position));
	values[STAT_OUTSTANDING] = Int64GetDatum(backlog->outstanding);
	values[STAT_RETRIES] = Int64GetDatum(backlog->retries);
	values[STAT_DEAD] = Int64GetDatum(backlog->dead);
	values[STAT_ATTEMPTS] = Int32GetDatum(backlog->attempts);
	values[STAT_MEMBERS] = Int32GetDatum(backlog->live);
	values[STAT_LEASE_UNTIL] = TimestampTzGetDatum(backlog->lease_until);
	nulls[STAT_LEASE_UNTIL] = backlog->lease_until == 0;
	values[STAT_EXPIRED] = Int32GetDatum(backlog->expired);
	values[STAT_CUT_OFF] = Int64GetDatum(consumer->cut_off);
	nulls[STAT_CUT_OFF] = consumer->cut_off == 0;
	stat_holder(&outbox->holder, &values[STAT_HELD_PID], &nulls[STAT_HELD_PID],
				&values[STAT_HELD_XID], &nulls[STAT_HELD_XID]);
	tuplestore_putvalues(result->setResult, result->setDesc, values, nulls);
}
