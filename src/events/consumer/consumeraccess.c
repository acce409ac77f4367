/*
 * consumeraccess.c
 *		Arguments, rights and locks of the functions on consumers.
 *
 * Copyright (c) 2026, the dcounter developers
 *
 * A consumer has an owner, and readers: roles that may fetch and acknowledge. A user
 * with the privileges of one of these roles may do what the role may. Superusers may do
 * everything.
 *
 * There are two kinds of locks, both held to the end of the transaction:
 *
 *	- On a consumer's settings: a transaction that changes the row in dcounter.consumer
 *	  holds it alone. Reading the row needs no lock.
 *	- On positions: a transaction that puts a consumer where it was not (create, seek)
 *	  shares it. The retention job, which removes events, holds it alone, from before it
 *	  looks at positions until the events are gone. So a position that is not committed
 *	  yet cannot lose its events.
 *
 * Their tags are those of members (memberrow.c) with numbers that no member has.
 */
#include "postgres.h"

#include "miscadmin.h"
#include "utils/acl.h"

#include "base/args.h"
#include "base/compat.h"
#include "base/lockclass.h"
#include "events/consumer/consumer.h"

static bool may_change(const DcConsumer *consumer);
static DcConsumer *consumer_find(const char *name);

/*
 * consumer_check_writable raises 25006 where nothing may be written.
 */
void
consumer_check_writable(const char *function)
{
	PreventCommandIfReadOnly(function);
	PreventCommandIfParallelMode(function);
	PreventCommandDuringRecovery(function);
}

/*
 * consumer_name_arg returns a name that was passed as text argument n. Errors:
 * 22004 NULL, 22023 empty, 54000 too long.
 */
char *
consumer_name_arg(FunctionCallInfo fcinfo, int n, const char *what)
{
	return text_arg_limited(fcinfo, n, what, CONSUMER_NAME_MAX);
}

/*
 * member_arg returns the name of a member, "" if the argument is NULL.
 */
char *
member_arg(FunctionCallInfo fcinfo, int n)
{
	return PG_ARGISNULL(n) ? "" : consumer_name_arg(fcinfo, n, "member");
}

/*
 * consumer_open_to_read finds a consumer whose events the caller may read. Errors:
 * 42704 if there is none, 42501.
 */
DcConsumer *
consumer_open_to_read(const char *name)
{
	DcConsumer *consumer = consumer_find(name);

	if (!consumer_may_read(consumer))
		ereport(ERROR,
				(errcode(ERRCODE_INSUFFICIENT_PRIVILEGE),
				 errmsg("permission denied for consumer \"%s\"", name),
				 errhint("Its owner can allow it with dc_consumer_grant().")));
	return consumer;
}

/*
 * consumer_read_again reads a consumer's settings again after one of its members was locked: a
 * transaction that changes on_nack has the locks of all members. Error: 42704 if the consumer is
 * gone.
 */
DcConsumer *
consumer_read_again(const DcConsumer *consumer)
{
	DcConsumer *again = consumer_read_by_id(consumer->id);

	if (again == NULL)
		consumer_is_missing(consumer->name);
	return again;
}

/*
 * consumer_open_to_change finds the consumer named by the first argument, which the
 * caller owns, and locks its settings.
 */
DcConsumer *
consumer_open_to_change(FunctionCallInfo fcinfo, const char *function)
{
	char *name = consumer_name_arg(fcinfo, 0, "consumer name");
	DcConsumer *consumer;

	consumer_check_writable(function);
	consumer = consumer_find(name);
	if (may_change(consumer))
	{
		(void) consumer_lock_settings(consumer->id, true);
		consumer = consumer_find(name); /* as it is now */
	}
	if (!may_change(consumer))
		ereport(ERROR,
				(errcode(ERRCODE_INSUFFICIENT_PRIVILEGE),
				 errmsg("must be owner of consumer \"%s\"", name)));
	return consumer;
}

/*
 * Return a consumer by its name; an error if there is none.
 */
static DcConsumer *
consumer_find(const char *name)
{
	DcConsumer *consumer = consumer_read(name);

	if (consumer == NULL)
		consumer_is_missing(name);
	return consumer;
}

/*
 * Raise the error that there is no such consumer (42704).
 */
void
consumer_is_missing(const char *name)
{
	ereport(ERROR,
			(errcode(ERRCODE_UNDEFINED_OBJECT),
			 errmsg("consumer \"%s\" does not exist", name),
			 errhint("Create it with dc_consumer_create(). dc_stat_consumers lists the existing ones.")));
}

/*
 * Return true if the current user may change and drop the consumer.
 */
static bool
may_change(const DcConsumer *consumer)
{
	return has_privs_of_role(GetUserId(), consumer->owner);
}

/*
 * Return true if the current user may fetch, as owner or as reader.
 */
bool
consumer_may_read(const DcConsumer *consumer)
{
	ListCell *lc;

	foreach(lc, consumer->readers)
	{
		if (has_privs_of_role(GetUserId(), lfirst_oid(lc)))
			return true;
	}
	return may_change(consumer);
}

/*
 * duration_arg_us returns an argument as interval_setting_us does. Raises 22023 if it has months,
 * as their length varies.
 */
int64
duration_arg_us(Datum value, const char *what)
{
	Interval *interval = DatumGetIntervalP(value);

	/* not of an infinite one, which PostgreSQL 17 has */
	if (interval->month != PG_INT32_MAX && interval->month != PG_INT32_MIN)
		(void) interval_to_duration(interval, what);
	return interval_setting_us(value, what);
}

/*
 * consumer_lock_settings makes this transaction the only one that changes a
 * consumer's settings; false if it would have to wait, and may not.
 */
bool
consumer_lock_settings(int32 id, bool wait)
{
	return advisory_lock(CONSUMER_LOCK_CLASS, id, CONSUMER_LOCK_SETTINGS, ExclusiveLock, wait);
}

/*
 * positions_lock takes the lock on positions: shared, it keeps events from being removed; not
 * shared, it keeps other sessions from beginning to set positions. False if it would have to wait,
 * and may not.
 */
bool
positions_lock(bool shared, bool wait)
{
	return advisory_lock(CONSUMER_LOCK_CLASS, 0, CONSUMER_LOCK_SETTINGS,
						 shared ? ShareLock : ExclusiveLock, wait);
}

/*
 * positions_unlock gives back the shared lock.
 */
void
positions_unlock(void)
{
	advisory_unlock(CONSUMER_LOCK_CLASS, 0, CONSUMER_LOCK_SETTINGS, ShareLock);
}
