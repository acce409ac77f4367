/*
 * ack.c
 *		dc_ack(): acknowledging events that were fetched.
 *
 * Copyright (c) 2026, the dcounter developers
 *
 * An acknowledgement moves the positions of the member's lanes, in the row that the
 * fetch has left. It waits for the lock on that row. If the consumer writes its results
 * in the same transaction, results and positions commit or fail together, so the results
 * are there exactly once. A member whose lease has expired is refused, and its
 * transaction fails with it, unless the transaction had the lock before.
 */
#include "postgres.h"

#include "fmgr.h"

#include "base/args.h"
#include "base/compat.h"
#include "events/consumer/consumer.h"
#include "events/consumer/retry.h"

PG_FUNCTION_INFO_V1(dc_ack);

static void check_lease(const DcConsumer *consumer, const DcMember *me, bool held);

/*
 * dc_ack(consumer text, seq bigint, member text).
 *
 * Errors: 42704 no such consumer, 42501, 22004; 55000 if the event has not been
 * fetched, or the member has lost its lease.
 */
Datum
dc_ack(PG_FUNCTION_ARGS)
{
	char *name = consumer_name_arg(fcinfo, 0, "consumer");
	char *member = member_arg(fcinfo, 2);
	DcConsumer *consumer;
	DcMember me;
	bool changed;
	int64 seq;

	if (PG_ARGISNULL(1))
		ereport(ERROR,
				(errcode(ERRCODE_NULL_VALUE_NOT_ALLOWED),
				 errmsg("seq must not be null"),
				 errhint("After a fetch without events there is nothing to acknowledge.")));
	seq = PG_GETARG_INT64(1);
	consumer_check_writable("dc_ack()");
	consumer_xact_enter();
	open_to_ack(name, member, &consumer, &me);
	changed = me.nretries > 0;
	if (changed)
		retries_ack(&me, seq);
	if (seq > member_acked(&me))
	{
		int64 done = seq >= me.delivered ? me.fetched : seq;

		if (seq > me.fetched)
			ereport(ERROR,
					(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
					 errmsg("event %lld of consumer \"%s\" has not been fetched",
							(long long) seq, name),
					 errhint("Fetch again: it has been fetched by somebody else, or before the consumer was moved.")));
		member_advance(&me, done);
		changed = true;
	}
	if (changed)
	{
		me.lease_until = GetCurrentTimestamp() + consumer->lease;
		member_write(&me);
	}
	consumer_xact_leave();
	PG_RETURN_VOID();
}

/*
 * open_to_ack finds a consumer, and locks and reads a member that has fetched.
 */
void
open_to_ack(const char *name, const char *member, DcConsumer **consumer,
			DcMember *me)
{
	bool held;

	*consumer = consumer_open_to_read(name);
	(void) member_lock((*consumer)->id, member, true, &held);
	if (!member_read((*consumer)->id, member, me))
	{
		if (member[0] == '\0')
			consumer_is_missing(name);
		member_new(me, (*consumer)->id, member);
	}
	if (member[0] != '\0')
		check_lease(*consumer, me, held);
}

/*
 * check_lease raises 55000 if a member has lost its lanes, or may lose them at any
 * time. held: this transaction had the lock before, so no other session could take them.
 */
static void
check_lease(const DcConsumer *consumer, const DcMember *me, bool held)
{
	if (me->lanes != 0 && (held || me->lease_until > GetCurrentTimestamp()))
		return;
	ereport(ERROR,
			(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
			 errmsg("member \"%s\" of consumer \"%s\" has lost its lease",
					me->name, consumer->name),
			 errdetail("Its events may have been given to other members."),
			 errhint("Fetch again; fetch fewer events at a time, or set a longer lease with dc_consumer_alter().")));
}
