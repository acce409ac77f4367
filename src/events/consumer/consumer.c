/*
 * consumer.c
 *		Creating, changing and dropping consumers, and granting their use to roles.
 *
 * Copyright (c) 2026, the dcounter developers
 */
#include "postgres.h"

#include "access/detoast.h"
#include "commands/sequence.h"
#include "fmgr.h"
#include "miscadmin.h"
#include "utils/acl.h"
#include "utils/builtins.h"
#include "utils/snapmgr.h"
#include "utils/timestamp.h"

#include "base/args.h"
#include "base/catrow.h"
#include "base/compat.h"
#include "events/consumer/consumer.h"
#include "events/consumer/retry.h"

PG_FUNCTION_INFO_V1(dc_consumer_create);
PG_FUNCTION_INFO_V1(dc_consumer_alter);
PG_FUNCTION_INFO_V1(dc_consumer_drop);
PG_FUNCTION_INFO_V1(dc_consumer_grant);
PG_FUNCTION_INFO_V1(dc_consumer_revoke);

#define LEASE_DEFAULT_US (30 * USECS_PER_SEC)
#define MAX_ATTEMPTS_DEFAULT 10

/* Consumers that a role can own. */
#define CONSUMERS_OF_ROLE 2000

/* Longest list of topics, as an array. */
#define MAX_TOPICS_BYTES (32 * 1024)

static void consumers_prevent_many(void);
static ArrayType *topics_arg(FunctionCallInfo fcinfo);
static void create_self(int32 id, int64 position);
static void set_limits(FunctionCallInfo fcinfo, DcConsumer *consumer);
static void set_on_nack(DcConsumer *consumer, const char *value);

/*
 * dc_consumer_create(name text, topics text[], start text, if_not_exists boolean).
 *
 * Errors: 42710 if there is one of that name, 54000 if the role has very many or the topics are too
 * long, 22004, 22023.
 */
Datum
dc_consumer_create(PG_FUNCTION_ARGS)
{
	char *name = consumer_name_arg(fcinfo, 0, "consumer name");
	DcConsumer consumer = {0};
	Interval lease = {.time = LEASE_DEFAULT_US};
	bool may_exist = bool_arg(fcinfo, 3, "if_not_exists");
	int64 position;

	arg_not_null(fcinfo, 2, "start");
	consumer_check_writable("dc_consumer_create()");
	/* the lock keeps others of that name away: no consumer has the id 0 */
	(void) member_lock(0, name, true, NULL);
	if (consumer_read(name) != NULL)
	{
		ereport(may_exist ? NOTICE : ERROR,
				(errcode(ERRCODE_DUPLICATE_OBJECT),
				 errmsg("consumer \"%s\" already exists%s", name, may_exist ? ", skipping" : "")));
		PG_RETURN_VOID();
	}
	consumers_prevent_many();
	if (!PG_ARGISNULL(1))
		consumer_set_topics(&consumer, topics_arg(fcinfo));
	positions_begin();
	position = position_from_text(text_to_cstring(PG_GETARG_TEXT_PP(2)));
	positions_end(position);

	consumer.id = (int32) nextval_internal(catalog_relation("consumer_id"), false);
	consumer.name = name;
	consumer.owner = GetUserId();
	consumer.lease_setting = IntervalPGetDatum(&lease);
	consumer.max_attempts = MAX_ATTEMPTS_DEFAULT;
	consumer.created_at = GetCurrentTimestamp();
	consumer_insert(&consumer);
	create_self(consumer.id, position);
	PG_RETURN_VOID();
}

/*
 * Raise 54000 if the user has very many consumers: the worker goes over all of them, for all
 * owners.
 */
static void
consumers_prevent_many(void)
{
	int n = 0;
	List *consumers;
	ListCell *lc;

	if (superuser())
		return;
	consumers = consumer_list(SnapshotSelf); /* those of this statement, too */
	foreach(lc, consumers)
		n += ((const DcConsumer *) lfirst(lc))->owner == GetUserId();
	list_free_deep(consumers);
	if (n >= CONSUMERS_OF_ROLE)
		ereport(ERROR,
				(errcode(ERRCODE_PROGRAM_LIMIT_EXCEEDED),
				 errmsg("a role cannot have more than %d consumers", CONSUMERS_OF_ROLE),
				 errhint("One consumer has any number of topics, and many members.")));
}

/*
 * Return the argument with the topics. Errors: 54000 if it is too long, as every reader and the
 * worker read it.
 */
static ArrayType *
topics_arg(FunctionCallInfo fcinfo)
{
	check_length("list of topics", toast_raw_datum_size(PG_GETARG_DATUM(1)) - VARHDRSZ, 0, MAX_TOPICS_BYTES);
	return PG_GETARG_ARRAYTYPE_P(1);
}

/*
 * create_self stores the row of the consumer itself, which begins with all lanes.
 */
static void
create_self(int32 id, int64 position)
{
	DcMember self;

	member_new(&self, id, "");
	self.lanes = ALL_LANES;
	member_advance(&self, position);
	self.fetched = self.delivered = position;
	member_write(&self);
}

/*
 * dc_consumer_alter(name text, topics text[], lease interval, max_attempts int,
 * on_nack text, max_retention_age interval, max_retention_size bigint).
 */
Datum
dc_consumer_alter(PG_FUNCTION_ARGS)
{
	DcConsumer *consumer = consumer_open_to_change(fcinfo, "dc_consumer_alter()");

	if (!PG_ARGISNULL(1))
		consumer_set_topics(consumer, topics_arg(fcinfo));
	set_limits(fcinfo, consumer);
	if (!PG_ARGISNULL(4))
		set_on_nack(consumer, text_to_cstring(PG_GETARG_TEXT_PP(4)));
	consumer_update(consumer);
	PG_RETURN_VOID();
}

/*
 * set_limits sets the numbers and intervals that dc_consumer_alter was given.
 */
static void
set_limits(FunctionCallInfo fcinfo, DcConsumer *consumer)
{
	if (!PG_ARGISNULL(2))
	{
		if (duration_arg_us(PG_GETARG_DATUM(2), "lease") == 0)
			ereport(ERROR,
					(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
					 errmsg("lease must be greater than zero")));
		consumer->lease_setting = PG_GETARG_DATUM(2);
	}
	if (!PG_ARGISNULL(3))
	{
		consumer->max_attempts = PG_GETARG_INT32(3);
		if (consumer->max_attempts < 1)
			ereport(ERROR,
					(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
					 errmsg("max_attempts must be greater than zero")));
	}
	if (!PG_ARGISNULL(5))
	{
		consumer->max_age = duration_arg_us(PG_GETARG_DATUM(5), "max_retention_age");
		consumer->age_setting = PG_GETARG_DATUM(5);
	}
	if (!PG_ARGISNULL(6))
	{
		consumer->max_size = PG_GETARG_INT64(6);
		if (consumer->max_size < 0)
			ereport(ERROR,
					(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
					 errmsg("max_retention_size must not be negative")));
	}
}

/*
 * Set whether a key waits for a nacked event, and let pending retries block their keys accordingly.
 * Raises an error for an unknown value.
 */
static void
set_on_nack(DcConsumer *consumer, const char *value)
{
	bool skip = strcmp(value, "skip") == 0;

	if (!skip && strcmp(value, "wait") != 0)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("invalid value for \"%s\": \"%s\"", "on_nack", value),
				 errhint("Valid values are \"wait\" and \"skip\".")));
	if (skip == consumer->skip)
		return;
	consumer->skip = skip;
	retries_rehash(consumer);
}

/*
 * dc_consumer_drop(name text).
 */
Datum
dc_consumer_drop(PG_FUNCTION_ARGS)
{
	DcConsumer *consumer = consumer_open_to_change(fcinfo, "dc_consumer_drop()");
	ListCell *lc;

	foreach(lc, members_lock_all(consumer->id))
		member_delete(lfirst(lc));
	foreach(lc, retry_read_all(consumer->id))
	{
		CHECK_FOR_INTERRUPTS();
		retry_delete(lfirst(lc));
	}
	consumer_delete(consumer);
	PG_RETURN_VOID();
}

/*
 * dc_consumer_grant(name text, role regrole).
 */
Datum
dc_consumer_grant(PG_FUNCTION_ARGS)
{
	DcConsumer *consumer = consumer_open_to_change(fcinfo, "dc_consumer_grant()");
	Oid role = role_arg(fcinfo, 1, true, false);

	if (list_member_oid(consumer->readers, role))
		PG_RETURN_VOID();
	consumer->readers = lappend_oid(consumer->readers, role);
	consumer_update(consumer);
	PG_RETURN_VOID();
}

/*
 * dc_consumer_revoke(name text, role regrole); works for a dropped role, too.
 */
Datum
dc_consumer_revoke(PG_FUNCTION_ARGS)
{
	DcConsumer *consumer = consumer_open_to_change(fcinfo, "dc_consumer_revoke()");
	Oid role = role_arg(fcinfo, 1, false, false);

	consumer->readers = list_delete_oid(consumer->readers, role);
	consumer_update(consumer);
	PG_RETURN_VOID();
}
