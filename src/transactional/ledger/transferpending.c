/*
 * transferpending.c
 *		Pending transfers: an amount is set aside, and posted or given back later.
 *
 * Copyright (c) 2026, the dcounter developers
 *
 * dc_transfer_pending() takes the units that a transfer would take from the limits of both
 * accounts, and notes it in the table of pending transfers; balances and entries do not
 * change. A pending transfer is open until it is posted, voided or expired. Each of these
 * three locks its row first, and changes it only if it is still open: so it ends exactly
 * once, by the first of them. To end it takes nothing from a limit. So it cannot fail for
 * lack of balance, and waits only for a transaction that ends the same one.
 *
 * Time is clock_timestamp(), read after the row is locked: a ttl is wall time, as users see it
 * and as rows outlive the server. If the clock is set, they last longer or shorter by that
 * much; each still ends exactly once. One whose time is up can no longer be posted or voided,
 * even if it has not been ended yet. The first of these ends it: the worker (ledgerjob.c), a
 * transfer that would otherwise fail for lack of the units that are set aside (accountbound.c),
 * a call that tries to post or void it.
 */
#include "postgres.h"

#include "catalog/pg_type.h"
#include "utils/builtins.h"
#include "utils/datum.h"
#include "utils/fmgrprotos.h"
#include "utils/timestamp.h"

#include "base/activity.h"
#include "base/args.h"
#include "base/compat.h"
#include "core/table/access.h"
#include "transactional/ledger/account.h"
#include "transactional/ledger/ledgersql.h"
#include "transactional/ledger/transfer.h"
#include "transactional/ledger/transferpending.h"
#include "transactional/stock/hold.h"

PG_FUNCTION_INFO_V1(dc_transfer_pending);
PG_FUNCTION_INFO_V1(dc_transfer_post);
PG_FUNCTION_INFO_V1(dc_transfer_void);

/* Number of expired pending transfers of an account that a transfer ends at a time. */
#define EXPIRE_KEY_BATCH 100

/* A pending transfer whose row is locked. */
typedef struct DcPendingTransfer
{
	int64 id;
	DcLine line;
	int64 posted;	   /* the amount, if it is posted */
	const char *state; /* as it is, but "expired" if its time is up */
	DcTransfer transfer;
} DcPendingTransfer;

#define PENDING_EXPIRE(condition, limit) \
	"UPDATE @pendings AS p SET state = 'expired', ended_at = $1" \
	" WHERE p.transfer_id IN (SELECT e.transfer_id FROM @pendings AS e" \
	" WHERE e.state = 'open' AND e.expires_at <= $1" condition \
	" ORDER BY e.expires_at LIMIT " limit " FOR NO KEY UPDATE SKIP LOCKED)" \
	" RETURNING p.from_key, p.to_key, p.amount"

/* transfer, from, to, amount, op, memo, now, expiry */
static const DcStatement sql_pending_insert = {
	.text = "INSERT INTO @pendings (transfer_id, from_key, to_key, amount, op_id, memo,"
			" created_at, expires_at) VALUES ($1, $2, $3, $4, $5, $6, $7, $8)",
	.argtypes = {INT8OID, TEXTOID, TEXTOID, INT8OID, TEXTOID, JSONBOID, TIMESTAMPTZOID, TIMESTAMPTZOID}};

/* transfer */
static const DcStatement sql_pending_lock = {
	.text = "SELECT p.from_key, p.to_key, p.amount, p.state, p.expires_at, p.op_id, p.memo, p.posted"
			" FROM @pendings AS p WHERE p.transfer_id = $1 FOR NO KEY UPDATE",
	.argtypes = {INT8OID},
	.columns = {DC_TEXT("from_key"), DC_TEXT("to_key"), DC_BIGINT("amount"), DC_TEXT("state"), DC_NULLABLE("expires_at", TIMESTAMPTZOID), DC_TEXT("op_id"), DC_NULLABLE("memo", JSONBOID), DC_BIGINT("posted")},
	.of = DC_OF_PENDINGS};

/* transfer */
static const DcStatement sql_pending_find = {
	.text = "SELECT FROM @pendings AS p WHERE p.transfer_id = $1", .argtypes = {INT8OID}};

/* transfer, state, posted amount, now */
static const DcStatement sql_pending_end = {
	.text = "UPDATE @pendings AS p SET state = $2, posted = $3, ended_at = $4"
			" WHERE p.transfer_id = $1 AND p.state = 'open'",
	.argtypes = {INT8OID, TEXTOID, INT8OID, TIMESTAMPTZOID}};

/* now, how many */
static const DcStatement sql_pending_expire = {.text = PENDING_EXPIRE("", "$2"), .argtypes = {TIMESTAMPTZOID, INT4OID}, .columns = {DC_TEXT("from_key"), DC_TEXT("to_key"), DC_BIGINT("amount")}, .of = DC_OF_PENDINGS};

/* now, how many, key */
static const DcStatement sql_pending_expire_key = {.text = PENDING_EXPIRE(" AND (e.from_key = $3 OR e.to_key = $3)", "$2"),
												   .argtypes = {TIMESTAMPTZOID, INT4OID, TEXTOID},
												   .columns = {DC_TEXT("from_key"), DC_TEXT("to_key"), DC_BIGINT("amount")},
												   .of = DC_OF_PENDINGS};

/* when the first one expires */
static const DcStatement sql_pending_next = {
	.text = "SELECT p.expires_at FROM @pendings AS p"
			" WHERE p.state = 'open' AND p.expires_at IS NOT NULL ORDER BY p.expires_at LIMIT 1",
	.columns = {DC_TIME("expires_at")},
	.of = DC_OF_PENDINGS};

static void note_pending(DcLedger *ledger, const DcTransfer *transfer, bool expires,
						 TimestampTz expires_at);
static bool lock_pending(DcLedger *ledger, int64 id, DcPendingTransfer *pending);
static void read_pending(DcLedger *ledger, DcPendingTransfer *pending, TimestampTz *expires_at);
static void read_line(const DcRows *rows, uint64 row, DcLine *line);
static void end_pending(DcLedger *ledger, const DcPendingTransfer *pending,
						const char *state, int64 posted);
static void transferpending_give_back(DcLedger *ledger, const DcLine *line, int64 amount);
static uint64 transferpending_expire(DcLedger *ledger, const DcStatement *statement, int limit,
									 const DcKey *key);
static void check_same_amount(const DcPendingTransfer *pending, int64 amount);
static int64 id_arg(FunctionCallInfo fcinfo, int argno);

/*
 * dc_transfer_pending(ledger regclass, from_key text|bigint|uuid, to_key, amount bigint, op_id
 * text, memo jsonb, ttl interval) -> (transfer_id, duplicate): sets an amount aside. NULL for
 * ttl: it does not expire. Errors as of dc_transfer(); 22023 for a ttl that is not positive.
 */
Datum
dc_transfer_pending(PG_FUNCTION_ARGS)
{
	DcTransfer transfer = {0};
	bool expires = !PG_ARGISNULL(6);
	TimestampTz expires_at = 0;
	int64 ttl = 0;
	DcLedger *ledger;
	DcLine line;
	DcLeg *legs;
	int nlegs;

	line_args(fcinfo, &line, &transfer);
	if (expires)
	{
		ttl = interval_to_duration(PG_GETARG_INTERVAL_P(6), "ttl");
		if (ttl <= 0)
			ereport(ERROR,
					(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
					 errmsg("ttl must be greater than zero")));
	}
	ledger = ledger_open(fcinfo, "dc_transfer_pending()", RowExclusiveLock, ACL_INSERT | ACL_UPDATE);
	if (!transfer_begin(ledger, &transfer, expires ? ttl : -1))
		return transfer_result(fcinfo, transfer.op.transfer_id, true);
	legs = transfer_legs(ledger, &line, 1, &nlegs);
	limits_take(ledger, legs, nlegs);
	if (expires)
		expires_at = DatumGetTimestampTz(DirectFunctionCall2(timestamptz_pl_interval,
															 TimestampTzGetDatum(transfer.op.at),
															 PG_GETARG_DATUM(6)));
	note_pending(ledger, &transfer, expires, expires_at);
	return transfer_result(fcinfo, transfer.op.transfer_id, false);
}

/*
 * Insert a row for a pending transfer, as the owner; 55000 if code of the owner keeps it from
 * being inserted.
 */
static void
note_pending(DcLedger *ledger, const DcTransfer *transfer, bool expires,
			 TimestampTz expires_at)
{
	const DcLine *line = &transfer->lines[0];
	char nulls[] = "        ";
	DcSqlSession session;
	Datum values[8];

	values[0] = Int64GetDatum(transfer->op.transfer_id);
	values[1] = key_text_datum(&line->from);
	values[2] = key_text_datum(&line->to);
	values[3] = Int64GetDatum(line->amount);
	values[4] = PointerGetDatum(cstring_to_text_with_len(transfer->op.id,
														 transfer->op.id_len));
	values[5] = transfer->memo;
	values[6] = TimestampTzGetDatum(transfer->op.at);
	values[7] = TimestampTzGetDatum(expires_at);
	if (!transfer->has_memo)
		nulls[5] = 'n';
	if (!expires)
		nulls[7] = 'n';
	activity_note(ledger->relid);
	ledger_sql_begin(&session, ledger);
	if (sql_run_nulls(&session, &sql_pending_insert, values, nulls) != 1)
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("a pending transfer could not be noted"),
				 errdetail("A trigger or rule prevented it from being inserted.")));
	sql_end(&session);
}

/*
 * dc_transfer_post(ledger regclass, transfer_id bigint, amount bigint) -> text: posts a pending
 * transfer, or this amount of it; the rest is given back. The answer is "posted" if this call
 * did it, or why not: "expired", "voided", "posted already", "unknown".
 *
 * Errors: 23505 if it was posted with another amount.
 */
Datum
dc_transfer_post(PG_FUNCTION_ARGS)
{
	int64 id = id_arg(fcinfo, 1);
	DcLedger *ledger = ledger_open(fcinfo, "dc_transfer_post()", RowExclusiveLock, ACL_INSERT | ACL_UPDATE);
	DcPendingTransfer pending;
	int64 set_aside;
	DcLeg *legs;
	int nlegs;

	if (!PG_ARGISNULL(2) && PG_GETARG_INT64(2) <= 0)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("amount must be greater than zero")));
	if (!lock_pending(ledger, id, &pending))
	{
		check_same_amount(&pending, PG_ARGISNULL(2) ? pending.line.amount : PG_GETARG_INT64(2));
		PG_RETURN_TEXT_P(ended_answer(pending.state, "posted"));
	}
	set_aside = pending.line.amount;
	if (!PG_ARGISNULL(2))
		pending.line.amount = PG_GETARG_INT64(2);
	if (pending.line.amount > set_aside)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("amount must not be greater than that of the pending transfer"),
				 errdetail("The pending transfer sets aside %lld.", (long long) set_aside)));
	end_pending(ledger, &pending, "posted", pending.line.amount);
	legs = transfer_legs(ledger, &pending.line, 1, &nlegs);
	pending.transfer.op.transfer_id = entries_draw(ledger, 2);
	transfer_post(ledger, &pending.transfer, id, legs, nlegs);
	limits_give(ledger, legs, nlegs);
	if (set_aside > pending.line.amount)
		transferpending_give_back(ledger, &pending.line, set_aside - pending.line.amount);
	PG_RETURN_TEXT_P(cstring_to_text("posted"));
}

/*
 * Raise 23505 if a pending transfer was posted with another amount.
 */
static void
check_same_amount(const DcPendingTransfer *pending, int64 amount)
{
	if (strcmp(pending->state, "posted") == 0 && pending->posted != amount)
		ereport(ERROR,
				(errcode(ERRCODE_UNIQUE_VIOLATION),
				 errmsg("pending transfer %lld was already posted with a different amount", (long long) pending->id),
				 errdetail("%lld of %lld were posted.", (long long) pending->posted,
						   (long long) pending->line.amount)));
}

/*
 * dc_transfer_void(ledger regclass, transfer_id bigint) -> text: gives back the
 * amount that a pending transfer has set aside. The answer is "voided" if this call did it, or why
 * not: "expired", "posted", "voided already", "unknown".
 */
Datum
dc_transfer_void(PG_FUNCTION_ARGS)
{
	int64 id = id_arg(fcinfo, 1);
	DcLedger *ledger = ledger_open(fcinfo, "dc_transfer_void()", RowExclusiveLock, ACL_INSERT | ACL_UPDATE);
	DcPendingTransfer pending;

	if (!lock_pending(ledger, id, &pending))
		PG_RETURN_TEXT_P(ended_answer(pending.state, "voided"));
	end_pending(ledger, &pending, "voided", 0);
	transferpending_give_back(ledger, &pending.line, pending.line.amount);
	PG_RETURN_TEXT_P(cstring_to_text("voided"));
}

/*
 * Return argument transfer_id; 22004 if that or the ledger is NULL.
 */
static int64
id_arg(FunctionCallInfo fcinfo, int argno)
{
	counter_arg(fcinfo);
	return amount_arg(fcinfo, argno, "transfer_id");
}

/*
 * lock_pending locks a pending transfer and reads it; false if it is not open. One whose
 * time is up is ended here. The state of one that does not exist is "unknown".
 */
static bool
lock_pending(DcLedger *ledger, int64 id, DcPendingTransfer *pending)
{
	TimestampTz expires_at = DT_NOEND;

	memset(pending, 0, sizeof(*pending));
	pending->id = id;
	pending->state = "unknown";
	read_pending(ledger, pending, &expires_at);
	if (strcmp(pending->state, "open") != 0)
		return false;
	pending->transfer.op.at = GetCurrentTimestamp();
	if (expires_at > pending->transfer.op.at)
		return true;
	end_pending(ledger, pending, "expired", 0);
	transferpending_give_back(ledger, &pending->line, pending->line.amount);
	pending->state = "expired";
	return false;
}

/*
 * Lock the row of a pending transfer and read it into the caller's memory; changes nothing if
 * there is none.
 */
static void
read_pending(DcLedger *ledger, DcPendingTransfer *pending, TimestampTz *expires_at)
{
	MemoryContext caller = CurrentMemoryContext;
	Datum id = Int64GetDatum(pending->id);
	DcSqlSession session;

	ledger_sql_begin(&session, ledger);
	if (sql_run(&session, &sql_pending_lock, &id) > 0)
	{
		const DcRows *rows = &session.rows;
		MemoryContext old = MemoryContextSwitchTo(caller);
		DcTransfer *transfer = &pending->transfer;
		bool isnull;
		Datum value;
		text *op;

		read_line(rows, 0, &pending->line);
		pending->state = TextDatumGetCString(rows_datum(rows, 0, 4));
		value = rows_nullable(rows, 0, 5, &isnull);
		if (!isnull)
			*expires_at = DatumGetTimestampTz(value);
		op = DatumGetTextPCopy(rows_datum(rows, 0, 6));
		transfer->op.id = VARDATA_ANY(op);
		transfer->op.id_len = VARSIZE_ANY_EXHDR(op);
		value = rows_nullable(rows, 0, 7, &isnull);
		transfer->has_memo = !isnull;
		transfer->memo = isnull ? (Datum) 0 : datumCopy(value, false, -1);
		pending->posted = rows_bigint(rows, 0, 8);
		transfer->lines = &pending->line;
		transfer->n = 1;
		MemoryContextSwitchTo(old);
	}
	else
		sql_check_newer(&session, &sql_pending_find, &id);
	sql_end(&session);
}

/*
 * read_line copies the first three columns of a row: the accounts and the amount.
 */
static void
read_line(const DcRows *rows, uint64 row, DcLine *line)
{
	key_from_text(datumCopy(rows_datum(rows, row, 1), false, -1), &line->from);
	key_from_text(datumCopy(rows_datum(rows, row, 2), false, -1), &line->to);
	line->amount = rows_bigint(rows, row, 3);
}

/*
 * end_pending ends a pending transfer that is open, and whose row is locked.
 */
static void
end_pending(DcLedger *ledger, const DcPendingTransfer *pending,
			const char *state, int64 posted)
{
	DcSqlSession session;
	Datum values[4];

	values[0] = Int64GetDatum(pending->id);
	values[1] = CStringGetTextDatum(state);
	values[2] = Int64GetDatum(posted);
	values[3] = TimestampTzGetDatum(pending->transfer.op.at); /* as the entries */
	ledger_sql_begin(&session, ledger);
	if (sql_run(&session, &sql_pending_end, values) != 1)
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("pending transfer %lld could not be ended", (long long) pending->id)));
	sql_end(&session);
}

/*
 * transferpending_give_back gives to the limits of both accounts the amount that a pending transfer
 * has taken from them. Those that have no such bound by now get nothing.
 */
static void
transferpending_give_back(DcLedger *ledger, const DcLine *line, int64 amount)
{
	DcRules rules;

	if (account_find(ledger, &line->from, &rules) && rules.has_min)
		limit_give(ledger, &line->from, false, amount);
	if (account_find(ledger, &line->to, &rules) && rules.has_max)
		limit_give(ledger, &line->to, true, amount);
}

/*
 * pendings_expire_key ends some pending transfers of an account whose time is up;
 * false if there is none. Those that other transactions are ending are skipped.
 */
bool
pendings_expire_key(DcLedger *ledger, const DcKey *key)
{
	return transferpending_expire(ledger, &sql_pending_expire_key, EXPIRE_KEY_BATCH, key) > 0;
}

/*
 * pendings_expire ends up to `limit` pending transfers whose time is up, and returns
 * how many.
 */
uint64
pendings_expire(DcLedger *ledger, int limit)
{
	return transferpending_expire(ledger, &sql_pending_expire, limit, NULL);
}

/*
 * pendings_next returns when the first open pending transfer expires, DT_NOEND if none does.
 */
TimestampTz
pendings_next(DcLedger *ledger)
{
	TimestampTz next = DT_NOEND;
	DcSqlSession session;

	ledger_sql_begin(&session, ledger);
	if (sql_read(&session, &sql_pending_next, NULL) == 1)
		next = DatumGetTimestampTz(rows_datum(&session.rows, 0, 1));
	sql_end(&session);
	return next;
}

/*
 * End up to `limit` pending transfers whose time is up, of an account or (NULL) of all, give
 * their amounts back, and return how many there were.
 */
static uint64
transferpending_expire(DcLedger *ledger, const DcStatement *statement, int limit,
					   const DcKey *key)
{
	MemoryContext caller = CurrentMemoryContext;
	DcSqlSession session;
	DcLine *lines;
	Datum values[3];
	uint64 rows;

	values[0] = TimestampTzGetDatum(GetCurrentTimestamp());
	values[1] = Int32GetDatum(limit);
	values[2] = key != NULL ? key_text_datum(key) : (Datum) 0;
	ledger_sql_begin(&session, ledger);
	rows = sql_run(&session, statement, values);
	lines = MemoryContextAlloc(caller, Max(rows, 1) * sizeof(DcLine));
	for (uint64 i = 0; i < rows; i++)
	{
		MemoryContext old = MemoryContextSwitchTo(caller);

		read_line(&session.rows, i, &lines[i]);
		MemoryContextSwitchTo(old);
	}
	sql_end(&session);
	for (uint64 i = 0; i < rows; i++)
		transferpending_give_back(ledger, &lines[i], lines[i].amount);
	return rows;
}
