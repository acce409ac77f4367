/*
 * budgetgrant.c
 *		dc_grant(), dc_allowance(): what a key may spend, and until when.
 *
 * Copyright (c) 2026, the dcounter developers
 *
 * A grant is known by its key and its name: a call says what it has, not what is added. The row is
 * inserted with its units, or locked and changed with the difference; of two sessions that make the
 * same one, the unique index lets one wait for the other. A call that changes nothing reads one row
 * and locks none.
 *
 * An allowance is a grant for one period of a calendar, made by the first call within the period.
 * Nothing has to run when a period begins: the grant of the one before expires by itself, and a
 * clock that is set back finds the grants that were made.
 */
#include "postgres.h"

#include "catalog/dependency.h"
#include "catalog/pg_type.h"
#include "miscadmin.h"
#include "utils/builtins.h"
#include "utils/fmgrprotos.h"
#include "utils/lsyscache.h"
#include "utils/timestamp.h"

#include "base/args.h"
#include "base/compat.h"
#include "base/errors.h"
#include "base/key.h"
#include "transactional/budget/budget.h"
#include "transactional/stock/take.h"

PG_FUNCTION_INFO_V1(dc_grant);
PG_FUNCTION_INFO_V1(dc_allowance);

#define MAX_GRANT_NAME 1024

/* What the names of allowances begin with; their period follows. */
#define ALLOWANCE "allowance "

/* A grant as a call wants it. */
typedef struct DcGrant
{
	Datum key;
	Datum name;
	int64 amount;
	TimestampTz expires_at;
	int32 priority;
	TimestampTz effective_at;
	bool effective_given; /* otherwise that is for a new one */
} DcGrant;

#define GRANT_FIND \
	"SELECT g.grant_id, g.amount, g.expires_at, g.priority, g.effective_at FROM @grants AS g WHERE g.key = $1 AND g.name = $2"
#define GRANT_FIND_COLUMNS \
	{ \
		DC_BIGINT("grant_id"), DC_BIGINT("amount"), DC_TIME("expires_at"), DC_COLUMN("priority", INT4OID), DC_TIME("effective_at") \
	}

/* key, name */
static const DcStatement sql_grant_find = {
	.text = GRANT_FIND, .argtypes = {TEXTOID, TEXTOID}, .columns = GRANT_FIND_COLUMNS, .of = DC_OF_MORE};

/* the same */
static const DcStatement sql_grant_lock = {
	.text = GRANT_FIND " FOR NO KEY UPDATE", .argtypes = {TEXTOID, TEXTOID}, .columns = GRANT_FIND_COLUMNS, .of = DC_OF_MORE};

/* key, name, priority, when it begins, when it ends, amount, sequence */
static const DcStatement sql_grant_insert = {
	.text = "INSERT INTO @grants (grant_id, key, name, priority, effective_at, expires_at, amount)"
			" VALUES (nextval($7), $1, $2, $3, $4, $5, $6) ON CONFLICT (key, name) DO NOTHING RETURNING grant_id",
	.argtypes = {TEXTOID, TEXTOID, INT4OID, TIMESTAMPTZOID, TIMESTAMPTZOID, INT8OID, REGCLASSOID},
	.columns = {DC_BIGINT("grant_id")},
	.of = DC_OF_MORE};

/* grant, priority, when it begins, when it ends, amount */
static const DcStatement sql_grant_change = {
	.text = "UPDATE @grants AS g SET priority = $2, effective_at = $3, expires_at = $4, amount = $5, live = true WHERE g.grant_id = $1",
	.argtypes = {INT8OID, INT4OID, TIMESTAMPTZOID, TIMESTAMPTZOID, INT8OID}};

/* key, what names of allowances of this period begin with, now */
static const DcStatement sql_allowances_end = {
	.text = "UPDATE @grants AS g SET expires_at = $3 WHERE g.key = $1 AND g.live AND g.expires_at > $3"
			" AND starts_with(g.name, '" ALLOWANCE "') AND NOT starts_with(g.name, $2)",
	.argtypes = {TEXTOID, TEXTOID, TIMESTAMPTZOID}};

static int64 grant_set(const DcBudget *budget, const DcGrant *grant, bool *changed);
static bool grant_find(const DcBudget *budget, const DcGrant *grant, const DcStatement *statement, int64 *id, DcGrant *found);
static bool grant_insert(const DcBudget *budget, const DcGrant *grant, int64 *id);
static void grant_change(const DcBudget *budget, int64 id, const DcGrant *found, const DcGrant *grant);
static int64 grant_amount_arg(FunctionCallInfo fcinfo, int argno);
static void allowance_period(FunctionCallInfo fcinfo, char **name, DcGrant *grant);
static void allowances_end(const DcBudget *budget, Datum key, const char *kept);

/*
 * dc_grant(budget regclass, key text|bigint|uuid, amount bigint, name text, expires_at timestamptz,
 * priority int, effective_at timestamptz) -> bigint, the number of the grant
 *
 * The key's grant of that name has this amount from then on. If that is less than before, as many
 * units are taken back as are left. effective_at is now for a new grant if it is NULL.
 *
 * Errors: 22023 for a negative amount, or a name that allowances have; 54000 for a name that is too
 * long.
 */
Datum
dc_grant(PG_FUNCTION_ARGS)
{
	DcGrant grant;
	DcBudget budget;
	bool changed;

	grant.key = budget_key_arg(fcinfo, 1);
	grant.amount = grant_amount_arg(fcinfo, 2);
	arg_not_null(fcinfo, 3, "name");
	grant.name = PointerGetDatum(PG_GETARG_TEXT_PP(3));
	check_length("grant name", VARSIZE_ANY_EXHDR(DatumGetPointer(grant.name)), 1, MAX_GRANT_NAME);
	if (VARSIZE_ANY_EXHDR(DatumGetPointer(grant.name)) >= strlen(ALLOWANCE) &&
		memcmp(VARDATA_ANY(DatumGetPointer(grant.name)), ALLOWANCE, strlen(ALLOWANCE)) == 0)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("grant name must not begin with \"%s\"", ALLOWANCE),
				 errhint("Use dc_allowance() for a grant that is renewed.")));
	arg_not_null(fcinfo, 4, "expires_at");
	grant.expires_at = PG_GETARG_TIMESTAMPTZ(4);
	arg_not_null(fcinfo, 5, "priority");
	grant.priority = PG_GETARG_INT32(5);
	grant.effective_given = !PG_ARGISNULL(6);
	grant.effective_at = grant.effective_given ? PG_GETARG_TIMESTAMPTZ(6) : GetCurrentTimestamp();
	budget_open(fcinfo, "dc_grant()", RowExclusiveLock, ACL_INSERT, &budget);
	PG_RETURN_INT64(grant_set(&budget, &grant, &changed));
}

/*
 * dc_allowance(budget regclass, key text|bigint|uuid, amount bigint, period interval, time_zone
 * text, anchor timestamp, valid_for interval, priority int) -> timestamptz, when the allowance of
 * this period expires
 *
 * Makes the allowance of the period that it is now, if no call has before; changes it to this
 * amount otherwise. One of another period ends. Errors: 22023 for a period or time zone that makes
 * no sense.
 */
Datum
dc_allowance(PG_FUNCTION_ARGS)
{
	DcGrant grant;
	DcBudget budget;
	char *name;
	bool changed;

	grant.key = budget_key_arg(fcinfo, 1);
	grant.amount = grant_amount_arg(fcinfo, 2);
	arg_not_null(fcinfo, 7, "priority");
	grant.priority = PG_GETARG_INT32(7);
	allowance_period(fcinfo, &name, &grant);
	budget_open(fcinfo, "dc_allowance()", RowExclusiveLock, ACL_INSERT, &budget);
	(void) grant_set(&budget, &grant, &changed);
	if (changed)
		allowances_end(&budget, grant.key, name);
	PG_RETURN_TIMESTAMPTZ(grant.expires_at);
}

/*
 * Return an amount, which must not be negative (22004, 22023).
 */
static int64
grant_amount_arg(FunctionCallInfo fcinfo, int argno)
{
	int64 amount = amount_arg(fcinfo, argno, "amount");

	if (amount < 0)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("amount must not be negative")));
	return amount;
}

/*
 * Read arguments 3 to 6 of dc_allowance(): sets the name and times of the grant, and *name to what
 * the names of its period begin with.
 *
 * A day on which clocks are set back has an hour twice, and a period may begin within it: the grant
 * is in effect from now on at the latest.
 */
static void
allowance_period(FunctionCallInfo fcinfo, char **name, DcGrant *grant)
{
	TimestampTz now = GetCurrentTimestamp();
	TimestampTz begins_at;
	const Interval *period;
	const Interval *valid_for;
	Timestamp begins;
	Timestamp ends;
	Datum zone;
	int64 n;

	arg_not_null(fcinfo, 3, "period");
	arg_not_null(fcinfo, 4, "time_zone");
	arg_not_null(fcinfo, 5, "anchor");
	period = PG_GETARG_INTERVAL_P(3);
	period_check(period, "period");
	zone = PG_GETARG_DATUM(4);
	valid_for = PG_ARGISNULL(6) ? period : PG_GETARG_INTERVAL_P(6);
	period_check(valid_for, "valid_for");
	if (TIMESTAMP_NOT_FINITE(PG_GETARG_TIMESTAMP(5)))
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("anchor must be finite")));
	n = period_find(period, PG_GETARG_TIMESTAMP(5),
					DatumGetTimestamp(DirectFunctionCall2(timestamptz_zone, zone, TimestampTzGetDatum(now))), &begins);
	begins_at = DatumGetTimestampTz(DirectFunctionCall2(timestamp_zone, zone, TimestampGetDatum(begins)));
	*name = psprintf("%s%s ", ALLOWANCE, period_name(period));
	grant->name = CStringGetTextDatum(psprintf("%s%lld", *name, (long long) n));
	grant->effective_given = false;
	grant->effective_at = Min(begins_at, now);
	ends = period_end(period, PG_GETARG_TIMESTAMP(5), n, valid_for);
	grant->expires_at = DatumGetTimestampTz(DirectFunctionCall2(timestamp_zone, zone, TimestampGetDatum(ends)));
}

/*
 * End the allowances of a key that are not of the period whose names begin with `kept`.
 */
static void
allowances_end(const DcBudget *budget, Datum key, const char *kept)
{
	Datum values[] = {key, CStringGetTextDatum(kept), TimestampTzGetDatum(GetCurrentTimestamp())};
	DcSqlSession session;

	budget_sql_begin(&session, budget);
	(void) sql_run(&session, &sql_allowances_end, values);
	sql_end(&session);
}

/*
 * grant_set makes a grant as it is wanted. Returns its number.
 */
static int64
grant_set(const DcBudget *budget, const DcGrant *grant, bool *changed)
{
	DcGrant found;
	int64 id;
	bool known = grant_find(budget, grant, &sql_grant_find, &id, &found);

	*changed = !known || found.amount != grant->amount || found.expires_at != grant->expires_at || found.priority != grant->priority ||
		(grant->effective_given && found.effective_at != grant->effective_at);
	if (!*changed || (!known && grant_insert(budget, grant, &id)))
		return id;
	if (!grant_find(budget, grant, &sql_grant_lock, &id, &found))
		serialization_error(); /* deleted by hand since */
	grant_change(budget, id, &found, grant);
	return id;
}

/*
 * Read a grant; false if there is none.
 */
static bool
grant_find(const DcBudget *budget, const DcGrant *grant, const DcStatement *statement, int64 *id, DcGrant *found)
{
	Datum values[] = {grant->key, grant->name};
	DcSqlSession session;
	bool exists;

	budget_sql_begin(&session, budget);
	exists = sql_run(&session, statement, values) > 0;
	if (exists)
	{
		*id = rows_bigint(&session.rows, 0, 1);
		found->amount = rows_bigint(&session.rows, 0, 2);
		found->expires_at = DatumGetTimestampTz(rows_datum(&session.rows, 0, 3));
		found->priority = DatumGetInt32(rows_datum(&session.rows, 0, 4));
		found->effective_at = DatumGetTimestampTz(rows_datum(&session.rows, 0, 5));
	}
	sql_end(&session);
	return exists;
}

/*
 * Insert a grant with its units; false if there is one of that name.
 */
static bool
grant_insert(const DcBudget *budget, const DcGrant *grant, int64 *id)
{
	Datum values[] = {grant->key, grant->name, Int32GetDatum(grant->priority), TimestampTzGetDatum(grant->effective_at),
					  TimestampTzGetDatum(grant->expires_at), Int64GetDatum(grant->amount), (Datum) 0};
	List *sequences = getOwnedSequences(budget->row.budget);
	DcSqlSession session;
	bool inserted;

	if (sequences == NIL)
		ereport(ERROR,
				(errcode(ERRCODE_WRONG_OBJECT_TYPE),
				 errmsg("\"%s\" is not as dcounter created it", get_rel_name(budget->row.budget)),
				 errdetail("It has no sequence for the numbers of grants."),
				 errhint("Use CREATE SEQUENCE ... OWNED BY %s.grant_id, and setval().", relation_sql_name(budget->row.budget))));
	values[6] = ObjectIdGetDatum(linitial_oid(sequences));

	budget_sql_begin(&session, budget);
	inserted = sql_run(&session, &sql_grant_insert, values) > 0;
	if (inserted)
		*id = rows_bigint(&session.rows, 0, 1);
	sql_end(&session);
	if (inserted && grant->amount > 0)
		grant_give(budget, *id, grant->amount);
	return inserted;
}

/*
 * Change a grant whose row is locked.
 */
static void
grant_change(const DcBudget *budget, int64 id, const DcGrant *found, const DcGrant *grant)
{
	int64 amount = grant->amount;
	DcSqlSession session;

	if (amount > found->amount)
		grant_give(budget, id, amount - found->amount);
	else if (amount < found->amount)
		amount = found->amount - grant_take(budget, id, found->amount - amount, TAKE_PARTLY);
	{
		Datum values[] = {Int64GetDatum(id), Int32GetDatum(grant->priority),
						  TimestampTzGetDatum(grant->effective_given ? grant->effective_at : found->effective_at),
						  TimestampTzGetDatum(grant->expires_at), Int64GetDatum(amount)};

		budget_sql_begin(&session, budget);
		(void) sql_run(&session, &sql_grant_change, values);
		sql_end(&session);
	}
}
