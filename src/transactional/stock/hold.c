/*
 * hold.c
 *		Holds: units that are set aside for a checkout.
 *
 * Copyright (c) 2026, the dcounter developers
 *
 * dc_hold() takes units and notes them in the stock's table of holds, in one
 * transaction. A hold is open until it is confirmed, released or expired. Each of these
 * three locks its row first, and changes it only if it is still open: so a hold
 * ends exactly once, by the first of them. Units that are given back are added to the key
 * when that transaction commits, as by dc_restock().
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
 * unless strict is false: a caller that does not look at the answer must not go on as if the
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

PG_FUNCTION_INFO_V1(dc_hold);
PG_FUNCTION_INFO_V1(dc_hold_confirm);
PG_FUNCTION_INFO_V1(dc_hold_release);
PG_FUNCTION_INFO_V1(dc_holds);

/* A hold whose row is locked. */
typedef struct DcHold
{
	Datum id;
	Datum key; /* text, in the caller's memory */
	int64 qty;
	int64 confirmed;   /* units sold, if it is confirmed */
	const char *state; /* as it is, but "expired" if its time is up */
} DcHold;

/* hold */
static const DcStatement sql_hold_find = {
	.text = "SELECT h.key, h.qty, h.ttl FROM @holds AS h WHERE h.hold_id = $1", .argtypes = {UUIDOID}, .columns = {DC_TEXT("key"), DC_BIGINT("qty"), DC_COLUMN("ttl", INTERVALOID)}, .of = DC_OF_HOLDS};

/* hold, key, quantity, time to live, now, expiry */
static const DcStatement sql_hold_insert = {
	.text = "INSERT INTO @holds (hold_id, key, qty, ttl, created_at, expires_at)"
			" VALUES ($1, $2, $3, $4, $5, $6) ON CONFLICT (hold_id) DO NOTHING",
	.argtypes = {UUIDOID, TEXTOID, INT8OID, INTERVALOID, TIMESTAMPTZOID, TIMESTAMPTZOID}};

/* hold */
static const DcStatement sql_hold_lock = {
	.text = "SELECT h.key, h.qty, h.state, h.expires_at, h.confirmed FROM @holds AS h"
			" WHERE h.hold_id = $1 FOR NO KEY UPDATE",
	.argtypes = {UUIDOID},
	.columns = {DC_TEXT("key"), DC_BIGINT("qty"), DC_TEXT("state"), DC_TIME("expires_at"), DC_NULLABLE("confirmed", INT8OID)},
	.of = DC_OF_HOLDS};

/* hold, state, confirmed quantity, now */
static const DcStatement sql_hold_end = {
	.text = "UPDATE @holds AS h SET state = $2, confirmed = $3, ended_at = $4"
			" WHERE h.hold_id = $1",
	.argtypes = {UUIDOID, TEXTOID, INT8OID, TIMESTAMPTZOID}};

#define HOLD_LIST(condition) \
	"SELECT h.key, h.hold_id, h.qty, h.expires_at, $1 - h.created_at FROM @holds AS h" \
	" WHERE h.state = 'open' AND h.expires_at > $2" condition " ORDER BY h.expires_at, h.hold_id"
#define HOLD_LIST_COLUMNS \
	{ \
		DC_TEXT("key"), DC_COLUMN("hold_id", UUIDOID), DC_BIGINT("qty"), DC_TIME("expires_at"), DC_COLUMN("created_at", INTERVALOID) \
	}

/* now, start of the statement, key */
static const DcStatement sql_hold_list = {
	.text = HOLD_LIST(" AND h.key = $3"),
	.argtypes = {TIMESTAMPTZOID, TIMESTAMPTZOID, TEXTOID},
	.columns = HOLD_LIST_COLUMNS,
	.of = DC_OF_HOLDS};

/* now, start of the statement */
static const DcStatement sql_hold_list_all = {
	.text = HOLD_LIST(""),
	.argtypes = {TIMESTAMPTZOID, TIMESTAMPTZOID},
	.columns = HOLD_LIST_COLUMNS,
	.of = DC_OF_HOLDS};

static bool find_hold(DcCounter *counter, Datum id, const DcKey *key,
					  int64 qty, Datum ttl, bool if_any);
static bool wait_for_maker(DcCounter *counter, Datum id);
static TransactionId find_maker(Relation heap, Oid index_oid, Datum id);
static bool insert_hold(DcCounter *counter, Datum id, const DcKey *key,
						int64 qty, Datum ttl);
static DcCounter *open_for_hold(FunctionCallInfo fcinfo, const char *function);
static bool strict_arg(FunctionCallInfo fcinfo, int n);
static void check_same_quantity(const DcHold *hold, int64 qty);
pg_noreturn static void hold_is_over(const DcHold *hold);
static bool lock_hold(DcCounter *counter, Datum id, DcHold *hold);
static void end_hold(DcCounter *counter, const DcHold *hold, const char *state,
					 int64 confirmed);

/*
 * dc_hold(stock regclass, key text|bigint|uuid, qty bigint, ttl interval,
 * hold_id uuid) -> uuid, the hold; NULL if there are not enough units.
 *
 * Errors: 22023 for a quantity or time that is not positive, or for a hold_id that
 * was used with other arguments.
 */
Datum
dc_hold(PG_FUNCTION_ARGS)
{
	DcKey buf;
	const DcKey *key = key_arg(fcinfo, 1, &buf);
	DcCounter *counter = stock_open_to_write(fcinfo, "dc_hold()");
	int64 qty = quantity_arg(fcinfo, 2);
	Interval zero = {0};
	bool taken;
	Datum ttl;
	Datum id;

	arg_not_null(fcinfo, 3, "ttl");
	arg_not_null(fcinfo, 4, "hold_id");
	ttl = PG_GETARG_DATUM(3);
	id = PG_GETARG_DATUM(4);
	if (DatumGetBool(DirectFunctionCall2(interval_le, ttl, IntervalPGetDatum(&zero))))
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("ttl must be greater than zero")));

	do
	{
		if (find_hold(counter, id, key, qty, ttl, false))
			PG_RETURN_DATUM(id);
		taken = stock_take(counter, key, qty, 0) > 0;
		/* if not, perhaps because another session is making the same hold */
	} while (!taken && wait_for_maker(counter, id));
	if (!taken)
	{
		/* made while the take has waited for others */
		if (find_hold(counter, id, key, qty, ttl, true))
			PG_RETURN_DATUM(id);
		PG_RETURN_NULL();
	}
	if (!insert_hold(counter, id, key, qty, ttl))
	{
		/* another session has made it since we looked */
		stock_give(counter, key, qty);
		if (!find_hold(counter, id, key, qty, ttl, false))
			serialization_error();
	}
	PG_RETURN_DATUM(id);
}

/*
 * Return true if a hold exists, with these arguments. If `if_any`, 40001 for one
 * that is too new for this transaction's snapshot.
 */
static bool
find_hold(DcCounter *counter, Datum id, const DcKey *key, int64 qty, Datum ttl,
		  bool if_any)
{
	DcSqlSession session;
	bool found;

	holds_begin(&session, counter, RowExclusiveLock);
	found = sql_run(&session, &sql_hold_find, &id) > 0;
	if (found)
	{
		DcKey held;

		key_from_text(rows_datum(&session.rows, 0, 1), &held);
		if (key_compare(&held, key) != 0 || rows_bigint(&session.rows, 0, 2) != qty ||
			!DatumGetBool(DirectFunctionCall2(interval_eq, ttl,
											  rows_datum(&session.rows, 0, 3))))
			ereport(ERROR,
					(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
					 errmsg("hold %s exists with other arguments",
							DatumGetCString(DirectFunctionCall1(uuid_out, id)))));
	}
	else if (if_any)
		sql_check_newer(&session, &sql_hold_find, &id);
	sql_end(&session);
	return found;
}

/*
 * wait_for_maker waits for the end of another transaction that has made a hold and
 * is in progress; false if there is none.
 */
static bool
wait_for_maker(DcCounter *counter, Datum id)
{
	Relation heap = table_open_present(counter->row.holds, NoLock);
	TransactionId maker = InvalidTransactionId;

	counter_holds_layout(counter); /* code of the owner may have run since */
	if (OidIsValid(counter->holds.index))
		maker = find_maker(heap, counter->holds.index, id);
	table_close(heap, NoLock);
	if (!TransactionIdIsValid(maker))
		return false;
	XactLockTableWait(maker, NULL, NULL, XLTW_None);
	return true;
}

/*
 * find_maker returns the transaction in progress that has made a hold, by the unique index;
 * InvalidTransactionId if there is none.
 */
static TransactionId
find_maker(Relation heap, Oid index_oid, Datum id)
{
	Relation index = index_open(index_oid, AccessShareLock);
	TupleTableSlot *slot = table_slot_create(heap, NULL);
	TransactionId maker = InvalidTransactionId;
	IndexScanDesc scan;
	SnapshotData dirty;
	ScanKeyData key;

	InitDirtySnapshot(dirty);
	ScanKeyInit(&key, 1, BTEqualStrategyNumber, F_UUID_EQ, id);
	scan = compat_index_beginscan(heap, index, &dirty, 1);
	index_rescan(scan, &key, 1, NULL, 0);
	while (!TransactionIdIsValid(maker) &&
		   index_getnext_slot(scan, ForwardScanDirection, slot))
		maker = dirty.xmin;
	index_endscan(scan);
	ExecDropSingleTupleTableSlot(slot);
	index_close(index, NoLock);
	return maker;
}

/*
 * insert_hold notes a hold; false if there is one of that id. Waits for another
 * session that is about to make it.
 */
static bool
insert_hold(DcCounter *counter, Datum id, const DcKey *key, int64 qty,
			Datum ttl)
{
	DcSqlSession session;
	Datum values[6];
	bool inserted;

	values[0] = id;
	values[1] = key_text_datum(key);
	values[2] = Int64GetDatum(qty);
	values[3] = ttl;
	values[4] = TimestampTzGetDatum(GetCurrentTimestamp());
	values[5] = DirectFunctionCall2(timestamptz_pl_interval, values[4], ttl);
	holds_begin(&session, counter, RowExclusiveLock);
	inserted = sql_run(&session, &sql_hold_insert, values) > 0;
	sql_end(&session);
	return inserted;
}

/*
 * dc_hold_confirm(stock regclass, hold_id uuid, qty bigint, strict boolean) -> text: ends a
 * hold with its units sold, or with as many as qty says; the others are given back. The
 * answer is "confirmed" if this call did it, "confirmed already" if another one did, or, unless
 * strict, why it is not: "expired", "released", "unknown".
 *
 * Errors: 22023 if it was confirmed with another quantity. If strict, 42704 for a hold that is
 * unknown, 55000 for one that has ended otherwise.
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
	if (qty > hold.qty)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("qty must not be greater than that of the hold"),
				 errdetail("The hold has %lld units.", (long long) hold.qty)));
	end_hold(counter, &hold, "confirmed", qty > 0 ? qty : hold.qty);
	PG_RETURN_TEXT_P(cstring_to_text("confirmed"));
}

/*
 * dc_hold_release(stock regclass, hold_id uuid, strict boolean) -> text: ends a hold and
 * gives its units back. The answer is "released" if this call did it, "released already" or
 * "expired" if they were given back before, or, unless strict, why they are not: "confirmed",
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
				 errmsg("hold %s was confirmed with another quantity",
						DatumGetCString(DirectFunctionCall1(uuid_out, hold->id))),
				 errdetail("%lld of its %lld units were sold.", (long long) hold->confirmed,
						   (long long) hold->qty)));
}

/*
 * Return argument strict; 22004 for NULL.
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
			 errhint("With strict => false the answer says so, without an error.")));
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

		hold->key = datumCopy(rows_datum(&session.rows, 0, 1), false, -1);
		hold->qty = rows_bigint(&session.rows, 0, 2);
		hold->state = TextDatumGetCString(rows_datum(&session.rows, 0, 3));
		expires_at = DatumGetTimestampTz(rows_datum(&session.rows, 0, 4));
		value = rows_nullable(&session.rows, 0, 5, &isnull);
		hold->confirmed = isnull ? 0 : DatumGetInt64(value);
		MemoryContextSwitchTo(old);
	}
	else
		sql_check_newer(&session, &sql_hold_find, &id);
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
 * confirmed.
 */
static void
end_hold(DcCounter *counter, const DcHold *hold, const char *state,
		 int64 confirmed)
{
	DcSqlSession session;
	Datum values[4];
	DcKey key;

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
	if (confirmed < hold->qty)
	{
		key_from_text(hold->key, &key);
		stock_give(counter, &key, hold->qty - confirmed);
	}
}

/*
 * dc_holds(stock regclass, key text|bigint|uuid) -> setof (key, hold_id, qty, expires_at, age):
 * the open holds of a key, or of all for NULL, without those that had expired when the statement began. Needs SELECT.
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
