/*
 * balance.c
 *		Reading a ledger: balances, statements, and the check of all of it.
 *
 * Copyright (c) 2026, the dcounter developers
 *
 * Each function answers from one snapshot, which also shows the transfers of this
 * transaction. None waits for a transaction that posts, or makes one wait.
 */
#include "postgres.h"

#include "access/xact.h"
#include "catalog/pg_type.h"
#include "common/int.h"
#include "funcapi.h"
#include "utils/snapmgr.h"
#include "utils/timestamp.h"

#include "base/args.h"
#include "base/compat.h"
#include "core/counter/apply.h"
#include "core/counter/pending.h"
#include "core/counter/read.h"
#include "core/table/access.h"
#include "transactional/ledger/detach.h"
#include "transactional/ledger/ledgersql.h"

PG_FUNCTION_INFO_V1(dc_balance);
PG_FUNCTION_INFO_V1(dc_balance_at);
PG_FUNCTION_INFO_V1(dc_account_statement);
PG_FUNCTION_INFO_V1(dc_transfers_pending);
PG_FUNCTION_INFO_V1(dc_ledger_check);

/*
 * All amounts of a key that are kept: entries, and the opening that was carried forward.
 * `before`, the same in all openings, is the time from which entries are kept.
 */
#define POSTED \
	"SELECT e.key, e.amount FROM @entries AS e UNION ALL SELECT o.key, o.amount FROM @openings AS o"

/* Pending transfers that are open at time $2. The sweep ends expired ones a little later. */
#define OPEN_PENDINGS "@pendings AS p WHERE p.state = 'open' AND (p.expires_at IS NULL OR p.expires_at > $2)"

/*
 * key, time: the amounts pending out of it and into it, its lower bound, whether it is open. Time
 * is the start of the statement, to leave out expired pending transfers; or -infinity, to count
 * them until they are ended, as the limits do.
 */
const DcStatement sql_balance = {
	.text = "SELECT coalesce((SELECT sum(p.amount) FROM " OPEN_PENDINGS " AND p.from_key = $1), 0)::int8,"
			" coalesce((SELECT sum(p.amount) FROM " OPEN_PENDINGS " AND p.to_key = $1), 0)::int8,"
			" (SELECT a.min_balance FROM @accounts AS a WHERE a.key = $1),"
			" EXISTS (SELECT FROM @accounts AS a WHERE a.key = $1)",
	.argtypes = {TEXTOID, TIMESTAMPTZOID},
	.columns = {DC_BIGINT("amount"), DC_BIGINT("amount"), DC_NULLABLE("min_balance", INT8OID), DC_COLUMN("key", BOOLOID)},
	.of = DC_OF_PENDINGS};

/* key, at: its entries up to a time; when the kept ones begin */
static const DcStatement sql_balance_at = {
	.text = "SELECT (coalesce((SELECT sum(e.amount) FROM @entries AS e WHERE e.key = $1 AND e.at <= $2), 0)"
			" + coalesce((SELECT o.amount FROM @openings AS o WHERE o.key = $1), 0))::int8,"
			" (SELECT o.before FROM @openings AS o LIMIT 1)",
	.argtypes = {TEXTOID, TIMESTAMPTZOID},
	.columns = {DC_BIGINT("amount"), DC_NULLABLE("before", TIMESTAMPTZOID)},
	.of = DC_OF_ENTRIES};

/* key, from, to */
static const DcStatement sql_statement = {
	.text = "SELECT e.at, e.entry_id, e.transfer_id, e.amount,"
			" (coalesce((SELECT sum(b.amount) FROM @entries AS b WHERE b.key = $1 AND b.at < $2), 0)"
			" + coalesce((SELECT o.amount FROM @openings AS o WHERE o.key = $1), 0)"
			" + sum(e.amount) OVER (ORDER BY e.at, e.entry_id))::int8, e.op_id, e.memo"
			" FROM @entries AS e WHERE e.key = $1 AND e.at >= $2 AND e.at < $3"
			" ORDER BY e.at, e.entry_id",
	.argtypes = {TEXTOID, TIMESTAMPTZOID, TIMESTAMPTZOID},
	.columns = {DC_TIME("at"), DC_BIGINT("entry_id"), DC_BIGINT("transfer_id"), DC_BIGINT("amount"), DC_BIGINT("amount"), DC_TEXT("op_id"), DC_NULLABLE("memo", JSONBOID)},
	.of = DC_OF_ENTRIES};

#define PENDING_LIST(condition) \
	"SELECT p.transfer_id, p.from_key, p.to_key, p.amount, p.op_id, p.memo, p.expires_at, $1 - p.created_at" \
	" FROM " OPEN_PENDINGS condition \
	" ORDER BY p.transfer_id"
#define PENDING_LIST_COLUMNS \
	{ \
		DC_BIGINT("transfer_id"), DC_TEXT("from_key"), DC_TEXT("to_key"), DC_BIGINT("amount"), DC_TEXT("op_id"), DC_NULLABLE("memo", JSONBOID), DC_NULLABLE("expires_at", TIMESTAMPTZOID), DC_COLUMN("created_at", INTERVALOID) \
	}

/* now, start of the statement, key */
static const DcStatement sql_pending_list = {
	.text = PENDING_LIST(" AND (p.from_key = $3 OR p.to_key = $3)"),
	.argtypes = {TIMESTAMPTZOID, TIMESTAMPTZOID, TEXTOID},
	.columns = PENDING_LIST_COLUMNS,
	.of = DC_OF_PENDINGS};

/* now, start of the statement */
static const DcStatement sql_pending_list_all = {
	.text = PENDING_LIST(""),
	.argtypes = {TIMESTAMPTZOID, TIMESTAMPTZOID},
	.columns = PENDING_LIST_COLUMNS,
	.of = DC_OF_PENDINGS};

/* a table that is not guarded; for each problem: key, balance, sum of the entries, problem */
static const DcStatement sql_ledger_check = {
	.text = "WITH balance AS MATERIALIZED (SELECT b.key, sum(b.inc) - sum(b.dec) AS amount FROM"
			" (SELECT t.key, t.inc, t.dec FROM @totals AS t UNION ALL"
			" SELECT s.key, s.inc, s.dec FROM @shards AS s) AS b GROUP BY b.key),"
			" posted AS MATERIALIZED (SELECT p.key, sum(p.amount) AS amount FROM (" POSTED ") AS p GROUP BY p.key),"
			" pending AS MATERIALIZED (SELECT u.key, sum(u.outgoing) AS outgoing, sum(u.incoming) AS incoming FROM"
			" (SELECT p.from_key AS key, p.amount AS outgoing, 0 AS incoming FROM @pendings AS p WHERE p.state = 'open' UNION ALL"
			" SELECT p.to_key, 0, p.amount FROM @pendings AS p WHERE p.state = 'open') AS u GROUP BY u.key),"
			" units AS MATERIALIZED (SELECT s.key, sum(s.units) AS amount FROM @limitshards AS s GROUP BY s.key),"
			" amounts AS MATERIALIZED (SELECT b.key, sum(b.inc) - sum(b.dec) AS amount FROM"
			" (SELECT t.key, t.inc, t.dec FROM @limits AS t UNION ALL"
			" SELECT s.key, s.inc, s.dec FROM @limitshards AS s) AS b GROUP BY b.key),"
			" account AS MATERIALIZED (SELECT coalesce(a.key, b.key, e.key, p.key) AS key, a.key IS NOT NULL AS opened,"
			" a.min_balance, a.max_balance, coalesce(b.amount, 0) AS balance, coalesce(e.amount, 0) AS posted,"
			" coalesce(p.outgoing, 0) AS outgoing, coalesce(p.incoming, 0) AS incoming,"
			" coalesce(l.amount, 0) AS lower, coalesce(u.amount, 0) AS upper,"
			" coalesce(lv.amount, 0) AS lower_value, coalesce(uv.amount, 0) AS upper_value"
			" FROM @accounts AS a FULL JOIN balance AS b ON b.key = a.key"
			" FULL JOIN posted AS e ON e.key = coalesce(a.key, b.key)"
			" FULL JOIN pending AS p ON p.key = coalesce(a.key, b.key, e.key)"
			" LEFT JOIN units AS l ON l.key = '-' || coalesce(a.key, b.key, e.key, p.key)"
			" LEFT JOIN units AS u ON u.key = '+' || coalesce(a.key, b.key, e.key, p.key)"
			" LEFT JOIN amounts AS lv ON lv.key = '-' || coalesce(a.key, b.key, e.key, p.key)"
			" LEFT JOIN amounts AS uv ON uv.key = '+' || coalesce(a.key, b.key, e.key, p.key)),"
			" transfer AS MATERIALIZED (SELECT e.transfer_id, sum(e.amount) AS net, sum(e.amount) FILTER (WHERE e.amount > 0) AS amount"
			" FROM @entries AS e GROUP BY e.transfer_id)"
			" SELECT a.key, a.balance, a.posted, w.problem FROM account AS a, LATERAL (VALUES"
			" (NOT a.opened, 'the account is not open'),"
			" (a.balance <> a.posted, 'the balance is not the sum of the entries'),"
			" (a.balance < a.min_balance, 'the balance is below its bound'),"
			" (a.balance > a.max_balance, 'the balance is above its bound'),"
			" (a.lower <> coalesce(a.balance - a.outgoing - a.min_balance, 0), 'what may go out is not what is left of the balance'),"
			" (a.upper <> coalesce(a.max_balance - a.balance - a.incoming, 0), 'what may come in is not what is left of the bound'),"
			" (a.lower <> a.lower_value OR a.upper <> a.upper_value, 'the units of the limits are not their value'))"
			" AS w(wrong, problem) WHERE w.wrong"
			" UNION ALL SELECT NULL, NULL, NULL, 'transfer ' || t.transfer_id || ' does not sum to zero'"
			" FROM transfer AS t WHERE t.net <> 0"
			" UNION ALL SELECT NULL, NULL, NULL, 'pending transfer ' || p.transfer_id || ' is ' || p.state || ', but its entries amount to '"
			" || coalesce(t.amount, 0) FROM @pendings AS p LEFT JOIN transfer AS t ON t.transfer_id = p.transfer_id"
			" WHERE coalesce(t.amount, 0) <> CASE p.state WHEN 'posted' THEN p.posted ELSE 0 END"
			" AND (p.ended_at IS NULL OR p.ended_at >= coalesce((SELECT o.before FROM @openings AS o LIMIT 1), '-infinity'))"
			" UNION ALL SELECT NULL, NULL, NULL, 'transfer ' || x.transfer_id || ' has no op'"
			" FROM (SELECT e.transfer_id, e.op_id FROM @entries AS e UNION"
			" SELECT p.transfer_id, p.op_id FROM @pendings AS p) AS x WHERE @noop"
			" UNION ALL SELECT NULL, NULL, NULL, c.relname || ' is not protected against changes'"
			" FROM pg_catalog.pg_class AS c WHERE c.oid = $1"
			" ORDER BY 1, 4",
	.argtypes = {OIDOID},
	.reads_all = true,
	.columns = {DC_NULLABLE("key", TEXTOID), DC_NULLABLE("inc", NUMERICOID), DC_NULLABLE("amount", NUMERICOID), DC_TEXT("problem")}};

static TimestampTz time_arg(FunctionCallInfo fcinfo, int argno, const char *name);
static void check_kept(TimestampTz at, bool all_kept, Datum before);

/*
 * dc_balance(ledger regclass, key text|bigint|uuid) -> (balance, pending_out, pending_in,
 * available): the amounts that are posted, that pending transfers have set aside, and that may go
 * out; NULL where nothing bounds the last. Pending transfers whose time was up when the statement
 * began set nothing aside, as a transfer that needs their amount ends them (accountbound.c). Needs
 * SELECT.
 */
Datum
dc_balance(PG_FUNCTION_ARGS)
{
	DcLedger *ledger = ledger_open(fcinfo, "dc_balance()", AccessShareLock, ACL_SELECT);
	DcSqlSession session;
	TupleDesc desc;
	Datum values[4];
	Datum args[2];
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
	args[1] = TimestampTzGetDatum(GetCurrentStatementStartTimestamp());
	ledger_sql_begin(&session, ledger);
	sql_read(&session, &sql_balance, args);
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
	sql_read(&session, &sql_balance_at, values);
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
 * dc_account_statement(ledger regclass, key text|bigint|uuid, from_at timestamptz, to_at
 * timestamptz)
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
	sql_read(&session, &sql_balance_at, values);
	before = rows_nullable(&session.rows, 0, 2, &all_kept);
	check_kept(DatumGetTimestampTz(values[1]), all_kept, before);
	sql_read(&session, &sql_statement, values);
	rows_return(fcinfo, &session.rows);
	sql_end(&session);
	PopActiveSnapshot();
	return (Datum) 0;
}

/*
 * dc_transfers_pending(ledger regclass, key text|bigint|uuid) -> setof (transfer_id,
 * from_key, to_key, amount, op_id, memo, expires_at, age): the open pending transfers out
 * of an account and into it, or all for NULL. Needs SELECT.
 */
Datum
dc_transfers_pending(PG_FUNCTION_ARGS)
{
	DcLedger *ledger = ledger_open(fcinfo, "dc_transfers_pending()", AccessShareLock, ACL_SELECT);
	const DcStatement *statement = &sql_pending_list_all;
	DcSqlSession session;
	Datum values[3];
	DcKey key;

	values[0] = TimestampTzGetDatum(GetCurrentTimestamp());
	values[1] = TimestampTzGetDatum(GetCurrentStatementStartTimestamp());
	if (!PG_ARGISNULL(1))
	{
		values[2] = key_text_datum(key_arg(fcinfo, 1, &key));
		statement = &sql_pending_list;
	}
	InitMaterializedSRF(fcinfo, 0);
	ledger_sql_begin(&session, ledger);
	sql_read(&session, statement, values);
	rows_return(fcinfo, &session.rows);
	sql_end(&session);
	return (Datum) 0;
}

/*
 * Return a time argument; 22004 for NULL.
 */
static TimestampTz
time_arg(FunctionCallInfo fcinfo, int argno, const char *name)
{
	arg_not_null(fcinfo, argno, name);
	return PG_GETARG_TIMESTAMPTZ(argno);
}

/*
 * dc_ledger_check(ledger regclass) -> setof (key, balance, entries_sum, problem): all that
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
	sql_read(&session, &sql_ledger_check, values);
	rows_return(fcinfo, &session.rows);
	sql_end(&session);
	PopActiveSnapshot();
	return (Datum) 0;
}
