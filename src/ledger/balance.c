/*
 * balance.c
 *		Reading a ledger: balances, statements, and the check of all of it.
 *
 * Each function answers from one snapshot, which also shows what this transaction has
 * posted. None waits for who posts, or keeps him waiting.
 */
#include "postgres.h"

#include "common/int.h"
#include "counter/apply.h"
#include "counter/pending.h"
#include "counter/read.h"
#include "funcapi.h"
#include "ledger/account.h"
#include "ledger/detach.h"
#include "ledger/ledgersql.h"
#include "miscadmin.h"
#include "table/access.h"
#include "utils/builtins.h"
#include "utils/snapmgr.h"
#include "utils/timestamp.h"

PG_FUNCTION_INFO_V1(dc_balance);
PG_FUNCTION_INFO_V1(dc_balance_at);
PG_FUNCTION_INFO_V1(dc_account_statement);
PG_FUNCTION_INFO_V1(dc_transfers_pending);
PG_FUNCTION_INFO_V1(dc_ledger_check);

static void return_rows(FunctionCallInfo fcinfo, const DcRows *rows);
static TimestampTz time_arg(FunctionCallInfo fcinfo, int argno, const char *name);
static void check_kept(TimestampTz at, bool all_kept, Datum before);

/*
 * dc_balance(ledger regclass, key text|bigint|uuid) -> (balance, pending_out, pending_in,
 * available): what is posted, what pending transfers have set aside, and what may go
 * out; NULL where nothing bounds that. Needs SELECT.
 */
Datum
dc_balance(PG_FUNCTION_ARGS)
{
	DcLedger *ledger = ledger_open(fcinfo, "dc_balance()", AccessShareLock, ACL_SELECT);
	DcSqlSession session;
	TupleDesc desc;
	Datum values[4];
	Datum args[1];
	bool nulls[4] = {false};
	bool opened;
	int64 balance;
	int64 available;
	int64 min;
	DcKey key;

	key_arg(fcinfo, 1, &key);
	if (get_call_result_type(fcinfo, NULL, &desc) != TYPEFUNC_COMPOSITE)
		elog(ERROR, "return type must be a row type");
	read_snapshot_push();
	balance = counter_value(ledger->counter, &key);
	args[0] = key_text_datum(&key);
	ledger_sql_begin(&session, ledger);
	ledger_sql_read(&session, DC_SQL_BALANCE, args);
	values[0] = Int64GetDatum(balance);
	values[1] = rows_datum(&session.rows, 0, 1);
	values[2] = rows_datum(&session.rows, 0, 2);
	min = DatumGetInt64(rows_nullable(&session.rows, 0, 3, &nulls[3]));
	opened = DatumGetBool(rows_datum(&session.rows, 0, 4));
	sql_end(&session);
	PopActiveSnapshot();
	if (!opened)
	{
		/* nothing can go out of it */
		values[3] = Int64GetDatum(0);
		nulls[3] = false;
	}
	else if (!nulls[3])
	{
		if (pg_sub_s64_overflow(balance, min, &available) ||
			pg_sub_s64_overflow(available, DatumGetInt64(values[1]), &available))
			ereport(ERROR,
					(errcode(ERRCODE_NUMERIC_VALUE_OUT_OF_RANGE),
					 errmsg("bigint out of range")));
		values[3] = Int64GetDatum(available);
	}
	PG_RETURN_DATUM(HeapTupleGetDatum(heap_form_tuple(BlessTupleDesc(desc), values, nulls)));
}

/*
 * dc_balance_at(ledger regclass, key text|bigint|uuid, at timestamptz) -> bigint: the sum of the
 * entries up to a time. Entries bear the time of the call that posted them, so
 * transactions that are still in progress may add to the past. Needs SELECT.
 * Errors: 55000 for a time whose entries were detached.
 */
Datum
dc_balance_at(PG_FUNCTION_ARGS)
{
	DcLedger *ledger = ledger_open(fcinfo, "dc_balance_at()", AccessShareLock, ACL_SELECT);
	DcSqlSession session;
	Datum values[2];
	int64 balance;
	bool all_kept;
	Datum before;
	TimestampTz at;
	DcKey key;

	key_arg(fcinfo, 1, &key);
	at = time_arg(fcinfo, 2, "at");
	values[0] = key_text_datum(&key);
	values[1] = TimestampTzGetDatum(at);
	openings_snapshot_push(ledger);
	ledger_sql_begin(&session, ledger);
	ledger_sql_read(&session, DC_SQL_BALANCE_AT, values);
	balance = rows_bigint(&session.rows, 0, 1);
	before = rows_nullable(&session.rows, 0, 2, &all_kept);
	sql_end(&session);
	PopActiveSnapshot();
	check_kept(at, all_kept, before);
	PG_RETURN_INT64(balance);
}

/*
 * check_kept raises an error for a time whose entries were detached.
 */
static void
check_kept(TimestampTz at, bool all_kept, Datum before)
{
	if (all_kept || at >= DatumGetTimestampTz(before))
		return;
	ereport(ERROR,
			(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
			 errmsg("the entries of that time were detached"),
			 errdetail("The ledger has entries from %s on.",
					   timestamptz_to_str(DatumGetTimestampTz(before)))));
}

/*
 * dc_account_statement(ledger regclass, key text|bigint|uuid, from_at timestamptz, to_at timestamptz)
 * -> setof (at, entry_id, transfer_id, amount, balance, op_id, memo): the entries of
 * an account from a time on and before another, with the balance after each. Needs
 * SELECT. Errors as of dc_balance_at().
 */
Datum
dc_account_statement(PG_FUNCTION_ARGS)
{
	DcLedger *ledger = ledger_open(fcinfo, "dc_account_statement()", AccessShareLock, ACL_SELECT);
	DcSqlSession session;
	Datum values[3];
	bool all_kept;
	Datum before;
	DcKey key;

	key_arg(fcinfo, 1, &key);
	values[0] = key_text_datum(&key);
	values[1] = TimestampTzGetDatum(time_arg(fcinfo, 2, "from_at"));
	values[2] = TimestampTzGetDatum(time_arg(fcinfo, 3, "to_at"));
	InitMaterializedSRF(fcinfo, 0);
	openings_snapshot_push(ledger);
	ledger_sql_begin(&session, ledger);
	ledger_sql_read(&session, DC_SQL_BALANCE_AT, values);
	before = rows_nullable(&session.rows, 0, 2, &all_kept);
	check_kept(DatumGetTimestampTz(values[1]), all_kept, before);
	ledger_sql_read(&session, DC_SQL_STATEMENT, values);
	return_rows(fcinfo, &session.rows);
	sql_end(&session);
	PopActiveSnapshot();
	return (Datum) 0;
}

/*
 * dc_transfers_pending(ledger regclass, key text|bigint|uuid) -> setof (transfer_id,
 * from_key, to_key, amount, op_id, memo, expires_at, age): the open pending transfers out
 * of an account and into it, or all for NULL. Needs SELECT. Those whose time is up are
 * shown until they are ended.
 */
Datum
dc_transfers_pending(PG_FUNCTION_ARGS)
{
	DcLedger *ledger = ledger_open(fcinfo, "dc_transfers_pending()", AccessShareLock, ACL_SELECT);
	DcLedgerStatement statement = DC_SQL_PENDING_LIST_ALL;
	DcSqlSession session;
	Datum values[2];
	DcKey key;

	values[0] = TimestampTzGetDatum(GetCurrentTimestamp());
	if (!PG_ARGISNULL(1))
	{
		values[1] = key_text_datum(key_arg(fcinfo, 1, &key));
		statement = DC_SQL_PENDING_LIST;
	}
	InitMaterializedSRF(fcinfo, 0);
	ledger_sql_begin(&session, ledger);
	ledger_sql_read(&session, statement, values);
	return_rows(fcinfo, &session.rows);
	sql_end(&session);
	return (Datum) 0;
}

static TimestampTz
time_arg(FunctionCallInfo fcinfo, int argno, const char *name)
{
	arg_not_null(fcinfo, argno, name);
	return PG_GETARG_TIMESTAMPTZ(argno);
}

/*
 * dc_ledger_check(ledger regclass) -> setof (key, balance, entries_sum, problem): what
 * does not fit together: accounts and their entries, bounds and limits, transfers that
 * do not sum to zero or have no op, pending transfers and their state, a guard that is
 * not there. No row: the ledger is sound.
 * Needs SELECT. Reads all of it, in one snapshot.
 */
Datum
dc_ledger_check(PG_FUNCTION_ARGS)
{
	DcLedger *ledger = ledger_open(fcinfo, "dc_ledger_check()", AccessShareLock, ACL_SELECT);
	DcSqlSession session;
	Datum values[1];

	if (!pending_is_empty())
	{
		prevent_write("dc_ledger_check()");
		apply_early(); /* it reads rows alone */
		CommandCounterIncrement();
	}
	InitMaterializedSRF(fcinfo, 0);
	openings_snapshot_push(ledger);
	values[0] = ObjectIdGetDatum(ledger->unguarded);
	ledger_sql_begin(&session, ledger);
	ledger_sql_read(&session, DC_SQL_LEDGER_CHECK, values);
	return_rows(fcinfo, &session.rows);
	sql_end(&session);
	PopActiveSnapshot();
	return (Datum) 0;
}

static void
return_rows(FunctionCallInfo fcinfo, const DcRows *rows)
{
	ReturnSetInfo *result = (ReturnSetInfo *) fcinfo->resultinfo;

	for (uint64 i = 0; i < rows->count; i++)
		rows_put(rows, i, result->setResult, result->setDesc);
}
