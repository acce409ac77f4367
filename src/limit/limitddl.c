/*
 * limitddl.c
 *		Creating, changing and dropping limits, and granting their use to roles.
 *
 * These are transactional, unlike what limits count. A transaction that changes a rule has the lock on
 * its id, and one that creates a rule that on its name, until it ends. The keys of a rule that is dropped
 * are removed from memory when that is committed. (Not if it was prepared: then they stay until they are
 * idle.) What was created or dropped is private to the backend, in TopTransactionContext; the callback
 * forgets it at each end, as it does that rules were changed.
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
#include "limit/limiter.h"
#include "miscadmin.h"
#include "table/access.h"
#include "utils/acl.h"
#include "utils/builtins.h"
#include "utils/memutils.h"
#include "utils/syscache.h"

PG_FUNCTION_INFO_V1(dc_limit_create);
PG_FUNCTION_INFO_V1(dc_limit_alter);
PG_FUNCTION_INFO_V1(dc_limit_drop);
PG_FUNCTION_INFO_V1(dc_limit_grant);
PG_FUNCTION_INFO_V1(dc_limit_revoke);

/* A rule that this transaction has created or dropped, at a nesting level. */
typedef struct Changed
{
	struct Changed *next;
	DcLimitOwner rule;
	bool is_new;
	int nest;
} Changed;

static Changed *changes = NULL; /* the last one first */

/* This transaction has changed rules. Savepoints are not honoured: to tell in vain does no harm. */
static bool rules_changed = false;

static char *name_arg(FunctionCallInfo fcinfo);
static void take_numbers(FunctionCallInfo fcinfo, DcLimitRow *row, int rate, int per, int burst);
static void take_choices(FunctionCallInfo fcinfo, DcLimitRow *row, int on_full, int after_crash, int max_keys);
static DcLimitRow *open_to_change(FunctionCallInfo fcinfo, const char *function);
static Oid role_arg(FunctionCallInfo fcinfo, int argno, bool must_exist);
static void note_changed(int32 id, bool is_new);
static void tell_changed(void);
static bool is_idle(void);
static void xact_callback(XactEvent event, void *arg);
static void subxact_callback(SubXactEvent event, SubTransactionId subid, SubTransactionId parent, void *arg);

/*
 * limit_ddl_init registers the callbacks; called once.
 */
void
limit_ddl_init(void)
{
	xact_room_add(DC_XACT_LIMIT_DDL, xact_callback, subxact_callback, is_idle);
}

/*
 * dc_limit_create(name text, algorithm text, rate bigint, per interval, burst bigint, on_full text,
 * after_crash text, max_keys bigint, if_not_exists boolean).
 *
 * Errors: 42710 if there is one of that name, 22004, 22023.
 */
Datum
dc_limit_create(PG_FUNCTION_ARGS)
{
	char *name = name_arg(fcinfo);
	bool may_exist = bool_arg(fcinfo, 8, "if_not_exists");
	DcLimitRow row = {.name = name, .version = 1};

	prevent_write("dc_limit_create()");
	for (int i = 1; i <= 3; i++)
		arg_not_null(fcinfo, i, i == 1 ? "algorithm" : i == 2 ? "rate"
															  : "per");
	arg_not_null(fcinfo, 5, "on_full");
	arg_not_null(fcinfo, 6, "after_crash");
	(void) advisory_lock(LIMIT_LOCK_CLASS, 0, hash_bytes((const unsigned char *) name, strlen(name)), ExclusiveLock, true);
	if (limit_row_read(name) != NULL)
	{
		ereport(may_exist ? NOTICE : ERROR,
				(errcode(ERRCODE_DUPLICATE_OBJECT),
				 errmsg("limit \"%s\" already exists%s", name, may_exist ? ", skipping" : "")));
		PG_RETURN_VOID();
	}
	row.algorithm = choice_from_text("algorithm", text_to_cstring(PG_GETARG_TEXT_PP(1)), limit_algorithms, 5);
	take_numbers(fcinfo, &row, 2, 3, 4);
	take_choices(fcinfo, &row, 5, 6, 7);
	row.id = (int32) nextval_internal(catalog_relation("limit_id"), false);
	row.owner = GetUserId();
	row.created_at = GetCurrentTimestamp(); /* wall time, to be shown */
	limit_row_insert(&row);
	note_changed(row.id, true);
	xact_mark(DC_XACT_LIMIT_DDL);
	rules_changed = true;
	if (limit_area == NULL)
		ereport(NOTICE,
				(errmsg("limit \"%s\" cannot be used yet: limits need shared memory", name),
				 errhint("Add dcounter to shared_preload_libraries and restart the server.")));
	PG_RETURN_VOID();
}

static char *
name_arg(FunctionCallInfo fcinfo)
{
	char *name;

	arg_not_null(fcinfo, 0, "limit name");
	name = text_to_cstring(PG_GETARG_TEXT_PP(0));
	if (name[0] == '\0' || strlen(name) > LIMIT_NAME_MAX)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("limit name must have 1 to %d bytes", LIMIT_NAME_MAX)));
	return name;
}

/*
 * take_numbers sets the numbers that a function was given in these arguments.
 */
static void
take_numbers(FunctionCallInfo fcinfo, DcLimitRow *row, int rate, int per, int burst)
{
	DcLimitNumbers numbers;
	const char *wrong;
	bool has_burst = row->algorithm == LIMIT_GCRA;

	if (!PG_ARGISNULL(burst) && !has_burst)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("burst is for algorithm \"gcra\" only")));
	if (!PG_ARGISNULL(rate))
		row->rate = PG_GETARG_INT64(rate);
	if (!PG_ARGISNULL(per))
		row->per = interval_to_duration(PG_GETARG_INTERVAL_P(per), "per");
	if (!PG_ARGISNULL(burst))
		row->burst = PG_GETARG_INT64(burst);
	else if (has_burst && row->id == 0)
		row->burst = row->rate; /* of a new one */
	numbers = limit_rule_of(row).numbers;
	wrong = limit_numbers_wrong(&numbers);
	if (wrong != NULL)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg_internal("%s", wrong)));
}

static void
take_choices(FunctionCallInfo fcinfo, DcLimitRow *row, int on_full, int after_crash, int max_keys)
{
	if (!PG_ARGISNULL(on_full))
		row->on_full = choice_from_text("on_full", text_to_cstring(PG_GETARG_TEXT_PP(on_full)), limit_on_full, 2);
	if (!PG_ARGISNULL(after_crash))
		row->after_crash = choice_from_text("after_crash", text_to_cstring(PG_GETARG_TEXT_PP(after_crash)), limit_after_crash, 2);
	if (!PG_ARGISNULL(max_keys))
	{
		row->max_keys = PG_GETARG_INT64(max_keys);
		if (row->max_keys < 0 || (row->max_keys == 0 && row->id == 0))
			ereport(ERROR,
					(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
					 errmsg("max_keys must be greater than zero")));
	}
}

/*
 * dc_limit_alter(name text, rate bigint, per interval, burst bigint, on_full text, after_crash text,
 * max_keys bigint). NULL keeps a setting; max_keys 0 removes it.
 */
Datum
dc_limit_alter(PG_FUNCTION_ARGS)
{
	DcLimitRow *row = open_to_change(fcinfo, "dc_limit_alter()");

	take_numbers(fcinfo, row, 1, 2, 3);
	take_choices(fcinfo, row, 4, 5, 6);
	row->version++;
	limit_row_update(row);
	PG_RETURN_VOID();
}

/*
 * dc_limit_drop(name text).
 */
Datum
dc_limit_drop(PG_FUNCTION_ARGS)
{
	DcLimitRow *row = open_to_change(fcinfo, "dc_limit_drop()");

	limit_row_delete(row);
	note_changed(row->id, false);
	PG_RETURN_VOID();
}

/*
 * dc_limit_grant(name text, role regrole, refund boolean).
 */
Datum
dc_limit_grant(PG_FUNCTION_ARGS)
{
	DcLimitRow *row = open_to_change(fcinfo, "dc_limit_grant()");
	Oid role = role_arg(fcinfo, 1, true);
	bool refund = bool_arg(fcinfo, 2, "refund");

	row->users = list_append_unique_oid(row->users, role);
	if (refund)
		row->refunders = list_append_unique_oid(row->refunders, role);
	limit_row_update(row);
	PG_RETURN_VOID();
}

/*
 * dc_limit_revoke(name text, role regrole); of a dropped role, too.
 */
Datum
dc_limit_revoke(PG_FUNCTION_ARGS)
{
	DcLimitRow *row = open_to_change(fcinfo, "dc_limit_revoke()");
	Oid role = role_arg(fcinfo, 1, false);

	row->users = list_delete_oid(row->users, role);
	row->refunders = list_delete_oid(row->refunders, role);
	limit_row_update(row);
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
static DcLimitRow *
open_to_change(FunctionCallInfo fcinfo, const char *function)
{
	char *name = name_arg(fcinfo);
	DcLimitRow *row;

	prevent_write(function);
	row = limit_row_read(name);
	if (row != NULL && has_privs_of_role(GetUserId(), row->owner))
	{
		(void) advisory_lock(LIMIT_LOCK_CLASS, row->id, 0, ExclusiveLock, true);
		xact_mark(DC_XACT_LIMIT_DDL);
		rules_changed = true;
		row = limit_row_read(name); /* as it is now */
	}
	if (row == NULL)
		limit_missing_error(name);
	if (!has_privs_of_role(GetUserId(), row->owner))
		ereport(ERROR,
				(errcode(ERRCODE_INSUFFICIENT_PRIVILEGE),
				 errmsg("must be owner of limit \"%s\"", name)));
	return row;
}

static void
note_changed(int32 id, bool is_new)
{
	Changed *change = MemoryContextAlloc(TopTransactionContext, sizeof(Changed));

	*change = (Changed){changes, limit_row_owner(id), is_new, GetCurrentTransactionNestLevel()};
	xact_mark(DC_XACT_LIMIT_DDL);
	changes = change;
}

/*
 * tell_changed does what a commit that has created or dropped rules entails in memory. Must not throw.
 */
static void
tell_changed(void)
{
	DcLimitGone gone = {0};

	for (const Changed *change = changes; change != NULL; change = change->next)
	{
		if (!change->is_new)
			limit_gone_add(&gone, MyDatabaseId, &change->rule);
	}
	limit_forget(&gone);
	for (const Changed *change = changes; change != NULL; change = change->next)
	{
		if (change->is_new)
			limit_note_young(MyDatabaseId, &change->rule);
	}
}

static bool
is_idle(void)
{
	return changes == NULL && !rules_changed;
}

static void
xact_callback(XactEvent event, void *arg)
{
	switch (event)
	{
		case XACT_EVENT_COMMIT:
			if (rules_changed && limit_area != NULL)
				limit_rules_committed();
			rules_changed = false;
			if (changes != NULL && limit_area != NULL)
				tell_changed();
			changes = NULL;
			break;
		case XACT_EVENT_ABORT:
		case XACT_EVENT_PREPARE:
			changes = NULL;
			rules_changed = false;
			break;
		default:
			break;
	}
}

static void
subxact_callback(SubXactEvent event, SubTransactionId subid, SubTransactionId parent, void *arg)
{
	int nest = GetCurrentTransactionNestLevel();

	if (event == SUBXACT_EVENT_ABORT_SUB)
	{
		while (changes != NULL && changes->nest >= nest)
			changes = changes->next;
	}
	else if (event == SUBXACT_EVENT_COMMIT_SUB)
	{
		for (Changed *change = changes; change != NULL && change->nest >= nest; change = change->next)
			change->nest = nest - 1;
	}
}
