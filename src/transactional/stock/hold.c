/*
 * hold.c
 *		Holds: ending them, and the list of the open ones.
 *
 * Copyright (c) 2026, the dcounter developers
 *
 * A hold is one row of the stock's table of holds (holdmake.c), even if it has units of several
 * keys. It is open until it is confirmed, released or expired. Each of these three locks its row
 * first, and changes it only if it is still open: so a hold ends exactly once, by the first of
 * them. Units that are given back are added to one row of their key when that transaction commits.
 * A hold that is confirmed with more than it has takes the rest as dc_take() does, while its row is
 * locked; if there are not enough units, it stays open.
 *
 * Time is clock_timestamp(), read after the row is locked: a ttl is wall time, as users see it
 * and as rows outlive the server. If the clock is set, holds last longer or shorter by that
 * much; each still ends exactly once. A hold whose time is up can no longer be confirmed or
 * released, even if it has not been ended yet. The first of these ends it, and gives its units
 * back: the worker (expire.c), a take that would otherwise fail (take.c), a call that tries to
 * confirm or release it. Until then reads add its units to what is left (holdexpired.c).
 *
 * Holds that have ended stay for dcounter.hold_retention, so that a call that is repeated
 * because its answer was lost gets an answer. A call that cannot do what was asked fails,
 * unless strict is false: a caller that does not look at the answer must not continue as if the
 * units were sold.
 *
 * All statements run as the owner of the stock.
 */
#include "postgres.h"

#include "access/genam.h"
#include "access/table.h"
#include "access/tableam.h"
#include "access/xact.h"
#include "funcapi.h"
#include "storage/lmgr.h"
#include "utils/builtins.h"
#include "utils/datum.h"
#include "utils/fmgroids.h"
#include "utils/fmgrprotos.h"
#include "utils/snapmgr.h"
#include "utils/timestamp.h"
#include "utils/uuid.h"

#include "base/args.h"
#include "base/compat.h"
#include "base/errors.h"
#include "base/hooks.h"
#include "base/key.h"
#include "base/relopen.h"
#include "core/counter/sqlpath.h"
#include "core/table/access.h"
#include "transactional/stock/hold.h"
#include "transactional/stock/stock.h"
#include "transactional/stock/take.h"

PG_FUNCTION_INFO_V1(dc_hold_confirm);
PG_FUNCTION_INFO_V1(dc_hold_release);
PG_FUNCTION_INFO_V1(dc_holds);

/* A hold whose row is locked. */
typedef struct DcHold
{
	Datum id;
	DcCartLine *lines; /* what it has, in the caller's memory */
	int count;
	int64 qty;		   /* of all lines */
	int64 confirmed;   /* units sold, if it is confirmed */
	const char *state; /* as it is, but "expired" if its time is up */
} DcHold;

/* hold */
static const DcStatement sql_hold_known = {
	.text = "SELECT h.qty FROM @holds AS h WHERE h.hold_id = $1", .argtypes = {UUIDOID}, .columns = {DC_BIGINT("qty")}, .of = DC_OF_HOLDS};

/* hold */
static const DcStatement sql_hold_lock = {
	.text = "SELECT h.key, h.qty, @keys, @qtys, h.state, h.expires_at, h.confirmed FROM @holds AS h"
			" WHERE h.hold_id = $1 FOR NO KEY UPDATE",
	.argtypes = {UUIDOID},
	.columns = {DC_HOLD_LINES, DC_TEXT("state"), DC_TIME("expires_at"), DC_NULLABLE("confirmed", INT8OID)},
	.of = DC_OF_HOLDS};

/* hold, state, confirmed quantity, now */
static const DcStatement sql_hold_end = {
	.text = "UPDATE @holds AS h SET state = $2, confirmed = $3, ended_at = $4"
			" WHERE h.hold_id = $1",
	.argtypes = {UUIDOID, TEXTOID, INT8OID, TIMESTAMPTZOID}};

#define HOLD_LIST(condition) \
	"SELECT l.key, h.hold_id, l.qty, h.expires_at, $1 - h.created_at FROM @holds AS h, LATERAL (@lines) AS l (key, qty)" \
	" WHERE h.state = 'open' AND h.expires_at > $2" condition " ORDER BY h.expires_at, h.hold_id, l.key"
#define HOLD_LIST_COLUMNS \
	{ \
		DC_TEXT("key"), DC_COLUMN("hold_id", UUIDOID), DC_BIGINT("qty"), DC_TIME("expires_at"), DC_COLUMN("created_at", INTERVALOID) \
	}

/* now, start of the statement, key */
static const DcStatement sql_hold_list = {
	.text = HOLD_LIST(" AND l.key = $3 AND @has"),
	.argtypes = {TIMESTAMPTZOID, TIMESTAMPTZOID, TEXTOID},
	.columns = HOLD_LIST_COLUMNS,
	.of = DC_OF_HOLDS};

/* now, start of the statement */
static const DcStatement sql_hold_list_all = {
	.text = HOLD_LIST(""),
	.argtypes = {TIMESTAMPTZOID, TIMESTAMPTZOID},
	.columns = HOLD_LIST_COLUMNS,
	.of = DC_OF_HOLDS};

static DcCounter *open_for_hold(FunctionCallInfo fcinfo, const char *function);
static bool strict_arg(FunctionCallInfo fcinfo, int n);
static void check_same_quantity(const DcHold *hold, int64 qty);
static bool take_missing(DcCounter *counter, DcHold *hold, int64 qty, bool strict);
pg_noreturn static void hold_lacks_units(const DcHold *hold, int64 qty);
pg_noreturn static void hold_is_over(const DcHold *hold);
static bool lock_hold(DcCounter *counter, Datum id, DcHold *hold);
static void end_hold(DcCounter *counter, const DcHold *hold, const char *state,
					 int64 confirmed);

/*
 * dc_hold_confirm(stock regclass, hold_id uuid, qty bigint, strict boolean) -> text: ends a hold
 * with its units sold, or with as many as qty says; any other units are given back, and missing
 * units are taken. The answer is "confirmed" if this call did it, "confirmed already" if another
 * one did, or, unless strict, why it is not: "expired", "released", "unknown"; "open" if units were
 * missing.
 *
 * Errors: 22023 if it was confirmed with another quantity, or has several keys and qty is given. If
 * strict, 42704 for an unknown hold, 55000 for one that has ended in another way or lacks units.
 */
Datum
dc_hold_confirm(PG_FUNCTION_ARGS)
{
	DcCounter *counter = open_for_hold(fcinfo, "dc_hold_confirm()");
	int64 qty = PG_ARGISNULL(2) ? 0 : quantity_arg(fcinfo, 2);
	bool strict = strict_arg(fcinfo, 3);
	DcHold hold;

	if (!lock_hold(counter, PG_GETARG_DATUM(1), &hold))
	{
		if (strict && strcmp(hold.state, "confirmed") != 0)
			hold_is_over(&hold);
		check_same_quantity(&hold, qty);
		PG_RETURN_TEXT_P(ended_answer(hold.state, "confirmed"));
	}
	if (counter_has_rights(counter))
		region_hooks->check_rights(counter); /* another database may have ended it otherwise, and sold its units */
	if (qty > 0 && hold.count > 1)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("hold %s has several keys, and can only be confirmed as a whole",
						DatumGetCString(DirectFunctionCall1(uuid_out, hold.id)))));
	if (qty > hold.qty && !take_missing(counter, &hold, qty, strict))
		PG_RETURN_TEXT_P(cstring_to_text(hold.state));
	end_hold(counter, &hold, "confirmed", qty > 0 ? qty : hold.qty);
	PG_RETURN_TEXT_P(cstring_to_text("confirmed"));
}

/*
 * take_missing takes what an open hold lacks of `qty` units. False if they are not there, or if the
 * time of the hold has come meanwhile; an error if strict. Its state is as it is then.
 */
static bool
take_missing(DcCounter *counter, DcHold *hold, int64 qty, bool strict)
{
	int64 missing = qty - hold->qty;
	bool taken = stock_take(counter, &hold->lines[0].key, missing, 0) > 0;

	/* looked at again, as the take may have waited, and ends holds whose time has come: also this one */
	if (!lock_hold(counter, hold->id, hold))
	{
		if (taken)
			stock_give_back(counter, &hold->lines[0].key, missing);
		if (strict)
			hold_is_over(hold);
		return false;
	}
	if (!taken && strict)
		hold_lacks_units(hold, qty);
	return taken;
}

/*
 * dc_hold_release(stock regclass, hold_id uuid, strict boolean) -> text: ends a hold and
 * gives its units back. The answer is "released" if this call did it, "released already" or
 * "expired" if they were given back before, or, unless strict, why they were not: "confirmed",
 * "unknown".
 *
 * Errors, if strict: 42704 for a hold that is unknown, 55000 for one that is confirmed.
 */
Datum
dc_hold_release(PG_FUNCTION_ARGS)
{
	DcCounter *counter = open_for_hold(fcinfo, "dc_hold_release()");
	bool strict = strict_arg(fcinfo, 2);
	DcHold hold;

	if (!lock_hold(counter, PG_GETARG_DATUM(1), &hold))
	{
		if (strict && strcmp(hold.state, "released") != 0 && strcmp(hold.state, "expired") != 0)
			hold_is_over(&hold);
		PG_RETURN_TEXT_P(ended_answer(hold.state, "released"));
	}
	end_hold(counter, &hold, "released", 0);
	PG_RETURN_TEXT_P(cstring_to_text("released"));
}

/*
 * Raise 22023 if a hold was confirmed with another quantity than this call's, 0 for all its units.
 */
static void
check_same_quantity(const DcHold *hold, int64 qty)
{
	if (strcmp(hold->state, "confirmed") == 0 && hold->confirmed != (qty > 0 ? qty : hold->qty))
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("hold %s was already confirmed with a different quantity",
						DatumGetCString(DirectFunctionCall1(uuid_out, hold->id))),
				 errdetail("%lld units were sold, and it had %lld.", (long long) hold->confirmed,
						   (long long) hold->qty)));
}

/*
 * hold_lacks_units raises an error: a hold was to be confirmed with more units than it has, and
 * there are no more.
 */
static void
hold_lacks_units(const DcHold *hold, int64 qty)
{
	ereport(ERROR,
			(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
			 errmsg("there are not enough units to confirm hold %s with %lld",
					DatumGetCString(DirectFunctionCall1(uuid_out, hold->id)), (long long) qty),
			 errdetail("It has %lld, and stays open.", (long long) hold->qty),
			 errhint("With strict => false the result is \"open\" instead of an error.")));
}

/*
 * Return the argument "strict" (22004 for NULL).
 */
static bool
strict_arg(FunctionCallInfo fcinfo, int n)
{
	arg_not_null(fcinfo, n, "strict");
	return PG_GETARG_BOOL(n);
}

/*
 * hold_is_over raises an error: a hold is not open any more, or never was.
 */
static void
hold_is_over(const DcHold *hold)
{
	bool unknown = strcmp(hold->state, "unknown") == 0;

	ereport(ERROR,
			(errcode(unknown ? ERRCODE_UNDEFINED_OBJECT : ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
			 unknown
				 ? errmsg("hold %s does not exist", DatumGetCString(DirectFunctionCall1(uuid_out, hold->id)))
				 : errmsg("hold %s %s %s", DatumGetCString(DirectFunctionCall1(uuid_out, hold->id)),
						  strcmp(hold->state, "expired") == 0 ? "has" : "was", hold->state),
			 unknown ? errdetail("There were not enough units for it, or it has been removed since it ended.") : 0,
			 errhint("With strict => false the result says so instead of raising an error.")));
}

/*
 * ended_answer returns why a hold or pending transfer cannot be ended as wanted: the state that
 * it is in, or that state and " already" if it is the wanted one.
 */
text *
ended_answer(const char *state, const char *wanted)
{
	if (strcmp(state, wanted) == 0)
		state = psprintf("%s already", wanted);
	return cstring_to_text(state);
}

/*
 * open_for_hold opens the stock in argument 0 to end the hold in argument 1.
 */
static DcCounter *
open_for_hold(FunctionCallInfo fcinfo, const char *function)
{
	DcCounter *counter = stock_open_to_write(fcinfo, function);

	arg_not_null(fcinfo, 1, "hold_id");
	return counter;
}

/*
 * lock_hold locks a hold and reads it; false if it is not open. One whose time is
 * up is ended here. The state of one that does not exist is "unknown".
 */
static bool
lock_hold(DcCounter *counter, Datum id, DcHold *hold)
{
	MemoryContext caller = CurrentMemoryContext;
	TimestampTz expires_at = 0;
	DcSqlSession session;

	hold->id = id;
	hold->state = "unknown";
	holds_begin(&session, counter, RowExclusiveLock);
	if (sql_run(&session, &sql_hold_lock, &id) > 0)
	{
		MemoryContext old = MemoryContextSwitchTo(caller);
		bool isnull;
		Datum value;

		hold->lines = hold_lines(&session, 0, &hold->count);
		hold->qty = rows_bigint(&session.rows, 0, 2);
		hold->state = TextDatumGetCString(rows_datum(&session.rows, 0, 5));
		expires_at = DatumGetTimestampTz(rows_datum(&session.rows, 0, 6));
		value = rows_nullable(&session.rows, 0, 7, &isnull);
		hold->confirmed = isnull ? 0 : DatumGetInt64(value);
		MemoryContextSwitchTo(old);
	}
	else
		sql_check_newer(&session, &sql_hold_known, &id);
	sql_end(&session);
	if (strcmp(hold->state, "open") != 0)
		return false;
	if (expires_at > GetCurrentTimestamp())
		return true;
	end_hold(counter, hold, "expired", 0);
	hold->state = "expired";
	return false;
}

/*
 * end_hold ends an open hold whose row is locked, and gives back what is not
 * confirmed; of several keys, it gives back all or none.
 */
static void
end_hold(DcCounter *counter, const DcHold *hold, const char *state,
		 int64 confirmed)
{
	DcSqlSession session;
	Datum values[4];

	values[0] = hold->id;
	values[1] = CStringGetTextDatum(state);
	values[2] = Int64GetDatum(confirmed);
	values[3] = TimestampTzGetDatum(GetCurrentTimestamp());
	holds_begin(&session, counter, RowExclusiveLock);
	if (sql_run(&session, &sql_hold_end, values) != 1)
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("hold %s could not be ended",
						DatumGetCString(DirectFunctionCall1(uuid_out, hold->id)))));
	sql_end(&session);
	if (hold->count > 1 && confirmed == 0)
		hold_lines_give_back(counter, hold->lines, hold->count);
	else if (hold->count == 1 && confirmed < hold->qty)
		stock_give_back(counter, &hold->lines[0].key, hold->qty - confirmed);
}

/*
 * dc_holds(stock regclass, key text|bigint|uuid) -> setof (key, hold_id, qty, expires_at, age): the
 * open holds of a key, or of all keys if it is NULL, without those that had expired when the
 * statement began. Needs SELECT.
 */
Datum
dc_holds(PG_FUNCTION_ARGS)
{
	DcCounter *counter = counter_open_to_read(fcinfo, "dc_holds()");
	const DcStatement *statement = &sql_hold_list_all;
	DcSqlSession session;
	Datum values[3];
	DcKey key;

	stock_check(counter);
	values[0] = TimestampTzGetDatum(GetCurrentTimestamp());
	values[1] = TimestampTzGetDatum(GetCurrentStatementStartTimestamp());
	if (!PG_ARGISNULL(1))
	{
		values[2] = key_text_datum(key_arg(fcinfo, 1, &key));
		statement = &sql_hold_list;
	}
	InitMaterializedSRF(fcinfo, 0);
	holds_begin(&session, counter, AccessShareLock);
	sql_read(&session, statement, values);
	rows_return(fcinfo, &session.rows);
	sql_end(&session);
	return (Datum) 0;
}
