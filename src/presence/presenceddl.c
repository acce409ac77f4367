/*
 * presenceddl.c
 *		Creating, changing and dropping presences, and granting their use to roles.
 *
 * These are transactional, unlike who is where. A transaction that changes a rule has the lock on
 * its id, and one that creates a rule that on its name, until it ends. The members of a rule that is dropped
 * leave when that is committed. (Not if it was prepared: then they leave when their time is up.) What is to
 * be dropped is private to the backend, in TopTransactionContext; the callback forgets it at each end, as
 * it does that rules were changed.
 */
#include "postgres.h"

#include "access/xact.h"
#include "base/args.h"
#include "base/catrow.h"
#include "base/compat.h"
#include "base/lockclass.h"
#include "base/xactrooms.h"
#include "commands/sequence.h"
#include "common/hashfn.h"
#include "fmgr.h"
#include "miscadmin.h"
#include "presence/presence.h"
#include "table/access.h"
#include "utils/acl.h"
#include "utils/builtins.h"
#include "utils/memutils.h"
#include "utils/syscache.h"

PG_FUNCTION_INFO_V1(dc_presence_create);
PG_FUNCTION_INFO_V1(dc_presence_alter);
PG_FUNCTION_INFO_V1(dc_presence_drop);
PG_FUNCTION_INFO_V1(dc_presence_grant);
PG_FUNCTION_INFO_V1(dc_presence_revoke);

/* A rule that this transaction has dropped, at a nesting level. */
typedef struct Dropped
{
	struct Dropped *next;
	DcPresenceOwner rule;
	int nest;
} Dropped;

static Dropped *dropped = NULL;

/* This transaction has changed rules. Savepoints are not honoured: to tell in vain does no harm. */
static bool rules_changed = false;

static char *name_arg(FunctionCallInfo fcinfo);
static void take_settings(FunctionCallInfo fcinfo, DcPresenceRow *row, int first);
static DcPresenceRow *open_to_change(FunctionCallInfo fcinfo, const char *function);
static Oid role_arg(FunctionCallInfo fcinfo, int argno, bool must_exist);
static void forget_dropped(void);
static bool ddl_is_idle(void);
static void ddl_xact_callback(XactEvent event, void *arg);
static void ddl_subxact_callback(SubXactEvent event, SubTransactionId subid, SubTransactionId parent, void *arg);

/*
 * presence_ddl_init registers the callbacks; called once.
 */
void
presence_ddl_init(void)
{
	xact_room_add(DC_XACT_PRESENCE_DDL, ddl_xact_callback, ddl_subxact_callback, ddl_is_idle);
}

/*
 * dc_presence_create(name text, ttl interval, events interval, notify text, max_members bigint, approx boolean, if_not_exists
 * boolean).
 *
 * Errors: 42710 if there is one of that name, 22004, 22023.
 */
Datum
dc_presence_create(PG_FUNCTION_ARGS)
{
	char *name = name_arg(fcinfo);
	bool may_exist = bool_arg(fcinfo, 6, "if_not_exists");
	DcPresenceRow row = {.name = name, .version = 1, .events = -1, .approx = bool_arg(fcinfo, 5, "approx")};

	prevent_write("dc_presence_create()");
	arg_not_null(fcinfo, 1, "ttl");
	(void) advisory_lock(PRESENCE_LOCK_CLASS, 0, hash_bytes((const unsigned char *) name, strlen(name)), ExclusiveLock, true);
	if (presence_row_read(name) != NULL)
	{
		ereport(may_exist ? NOTICE : ERROR,
				(errcode(ERRCODE_DUPLICATE_OBJECT),
				 errmsg("presence \"%s\" already exists%s", name, may_exist ? ", skipping" : "")));
		PG_RETURN_VOID();
	}
	take_settings(fcinfo, &row, 1);
	row.id = (int32) nextval_internal(catalog_relation("presence_id"), false);
	row.owner = GetUserId();
	row.created_at = GetCurrentTimestamp(); /* wall time, to be shown */
	presence_row_insert(&row);
	xact_mark(DC_XACT_PRESENCE_DDL);
	rules_changed = true;
	if (presence_area == NULL)
		ereport(NOTICE,
				(errmsg("presence \"%s\" cannot be used yet: presences need shared memory", name),
				 errhint("Add dcounter to shared_preload_libraries and restart the server.")));
	PG_RETURN_VOID();
}

static char *
name_arg(FunctionCallInfo fcinfo)
{
	char *name;

	arg_not_null(fcinfo, 0, "presence name");
	name = text_to_cstring(PG_GETARG_TEXT_PP(0));
	if (name[0] == '\0' || strlen(name) > PRESENCE_NAME_MAX)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("presence name must have 1 to %d bytes", PRESENCE_NAME_MAX)));
	return name;
}

/*
 * take_settings sets what a function was given from this argument on: ttl, events, notify, max_members.
 */
static void
take_settings(FunctionCallInfo fcinfo, DcPresenceRow *row, int first)
{
	bool is_new = row->id == 0;

	if (!PG_ARGISNULL(first))
	{
		row->ttl = interval_to_duration(PG_GETARG_INTERVAL_P(first), "ttl");
		if (row->ttl < PRESENCE_MIN_TTL_US || row->ttl > PRESENCE_MAX_TTL_US)
			ereport(ERROR,
					(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
					 errmsg("ttl must be from 1 second to 7 days")));
	}
	if (!PG_ARGISNULL(first + 1))
	{
		row->events = interval_to_duration(PG_GETARG_INTERVAL_P(first + 1), "events");
		if (row->events < 0 || row->events > PRESENCE_MAX_TTL_US || (is_new && row->events == 0))
			ereport(ERROR,
					(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
					 errmsg("events must be greater than zero, and 7 days at most")));
		if (row->events == 0)
			row->events = -1;
	}
	if (!PG_ARGISNULL(first + 2))
	{
		row->channel = text_to_cstring(PG_GETARG_TEXT_PP(first + 2));
		if (strlen(row->channel) >= NAMEDATALEN || (is_new && row->channel[0] == '\0'))
			ereport(ERROR,
					(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
					 errmsg("notify must have 1 to %d bytes", NAMEDATALEN - 1)));
		if (row->channel[0] == '\0')
			row->channel = NULL;
	}
	if (row->channel != NULL && row->events < 0)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("notify needs events")));
	if (!PG_ARGISNULL(first + 3))
	{
		row->max_members = PG_GETARG_INT64(first + 3);
		if (row->max_members < 0 || (is_new && row->max_members == 0))
			ereport(ERROR,
					(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
					 errmsg("max_members must be greater than zero")));
	}
}

/*
 * dc_presence_alter(name text, ttl interval, events interval, notify text, max_members bigint). NULL keeps a setting;
 * events and max_members 0 and an empty notify remove it.
 */
Datum
dc_presence_alter(PG_FUNCTION_ARGS)
{
	DcPresenceRow *row = open_to_change(fcinfo, "dc_presence_alter()");
	bool had_events = row->events >= 0;

	take_settings(fcinfo, row, 1);
	if (!had_events)
		row->epoch = 0; /* a reset is told */
	row->version++;
	presence_row_update(row);
	PG_RETURN_VOID();
}

/*
 * dc_presence_drop(name text).
 */
Datum
dc_presence_drop(PG_FUNCTION_ARGS)
{
	DcPresenceRow *row = open_to_change(fcinfo, "dc_presence_drop()");
	Dropped *drop = MemoryContextAlloc(TopTransactionContext, sizeof(Dropped));

	presence_row_delete(row);
	*drop = (Dropped){dropped, presence_row_owner(row->id), GetCurrentTransactionNestLevel()};
	xact_mark(DC_XACT_PRESENCE_DDL);
	dropped = drop;
	PG_RETURN_VOID();
}

/*
 * dc_presence_grant(name text, role regrole), dc_presence_revoke(name text, role regrole); the latter of a dropped
 * role, too.
 */
Datum
dc_presence_grant(PG_FUNCTION_ARGS)
{
	DcPresenceRow *row = open_to_change(fcinfo, "dc_presence_grant()");

	row->users = list_append_unique_oid(row->users, role_arg(fcinfo, 1, true));
	presence_row_update(row);
	PG_RETURN_VOID();
}

Datum
dc_presence_revoke(PG_FUNCTION_ARGS)
{
	DcPresenceRow *row = open_to_change(fcinfo, "dc_presence_revoke()");

	row->users = list_delete_oid(row->users, role_arg(fcinfo, 1, false));
	presence_row_update(row);
	PG_RETURN_VOID();
}

/*
 * role_arg returns a role, or InvalidOid ('-' as a regrole), which stands for everybody.
 */
static Oid
role_arg(FunctionCallInfo fcinfo, int argno, bool must_exist)
{
	Oid role;

	arg_not_null(fcinfo, argno, "role");
	role = PG_GETARG_OID(argno);
	if (must_exist && OidIsValid(role) && !SearchSysCacheExists1(AUTHOID, ObjectIdGetDatum(role)))
		ereport(ERROR,
				(errcode(ERRCODE_UNDEFINED_OBJECT),
				 errmsg("role with OID %u does not exist", role)));
	return role;
}

/*
 * open_to_change finds the rule named by the first argument, which the caller owns, and locks it.
 */
static DcPresenceRow *
open_to_change(FunctionCallInfo fcinfo, const char *function)
{
	char *name = name_arg(fcinfo);
	DcPresenceRow *row;

	prevent_write(function);
	row = presence_row_read(name);
	if (row != NULL && has_privs_of_role(GetUserId(), row->owner))
	{
		(void) advisory_lock(PRESENCE_LOCK_CLASS, row->id, 0, ExclusiveLock, true);
		xact_mark(DC_XACT_PRESENCE_DDL);
		rules_changed = true;
		row = presence_row_read(name); /* as it is now */
	}
	if (row == NULL)
		presence_missing_error(name);
	if (!has_privs_of_role(GetUserId(), row->owner))
		ereport(ERROR,
				(errcode(ERRCODE_INSUFFICIENT_PRIVILEGE),
				 errmsg("must be owner of presence \"%s\"", name)));
	return row;
}

static void
forget_dropped(void)
{
	DcPresenceGone gone = {0};

	for (Dropped *drop = dropped; drop != NULL; drop = drop->next)
		presence_gone_add(&gone, MyDatabaseId, &drop->rule);
	presence_forget(&gone);
}

static bool
ddl_is_idle(void)
{
	return dropped == NULL && !rules_changed;
}

static void
ddl_xact_callback(XactEvent event, void *arg)
{
	switch (event)
	{
		case XACT_EVENT_COMMIT:
			if (rules_changed && presence_area != NULL)
				presence_rules_committed();
			rules_changed = false;
			if (dropped != NULL && presence_area != NULL)
				forget_dropped();
			dropped = NULL;
			break;
		case XACT_EVENT_ABORT:
		case XACT_EVENT_PREPARE:
			dropped = NULL;
			rules_changed = false;
			break;
		default:
			break;
	}
}

static void
ddl_subxact_callback(SubXactEvent event, SubTransactionId subid, SubTransactionId parent, void *arg)
{
	int nest = GetCurrentTransactionNestLevel();

	if (event == SUBXACT_EVENT_ABORT_SUB)
	{
		while (dropped != NULL && dropped->nest >= nest)
			dropped = dropped->next;
	}
	else if (event == SUBXACT_EVENT_COMMIT_SUB)
	{
		for (Dropped *drop = dropped; drop != NULL && drop->nest >= nest; drop = drop->next)
			drop->nest = nest - 1;
	}
}
