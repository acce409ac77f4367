/*
 * budgetreserve.c
 *		dc_reserve(), dc_reserve_all(): setting units of grants aside.
 *
 * Copyright (c) 2026, the dcounter developers
 *
 * A reservation is one row, also if it has units of several keys:
 *
 *	1. If its id is known, the answer is that of the first call, whatever has become of it since.
 *	2. For each key, in order, the grants and the debt are read. If the units that are left when the
 *	   debt is paid are fewer than `at_least`, the answer is no, and nothing was written.
 *	3. If the first grant that has units has all of them, and there is no debt, they are taken.
 *	   Otherwise, in a subtransaction: take the units owed, and as many of the grants; then take
 *	   up to `amount` of grant after grant. If others were faster, it is rolled back.
 *	4. Before "no" is said, reservations of these keys whose time is up are ended, and all starts
 *	   again, once. If another session is making the same reservation, it is waited for.
 *	5. The row is inserted. If another session has inserted it since, the units are given back.
 *
 * Units of a later grant are used only if no unit of an earlier one was free or sure when it was
 * looked at. A debt that is committed after step 2 is paid by the next reservation.
 */
#include "postgres.h"

#include "access/table.h"
#include "access/xact.h"
#include "catalog/pg_type.h"
#include "miscadmin.h"
#include "storage/lmgr.h"
#include "utils/builtins.h"
#include "utils/fmgrprotos.h"
#include "utils/snapmgr.h"
#include "utils/timestamp.h"

#include "base/args.h"
#include "base/compat.h"
#include "base/errors.h"
#include "base/key.h"
#include "base/relopen.h"
#include "base/subxact.h"
#include "core/table/access.h"
#include "transactional/budget/budget.h"
#include "transactional/stock/hold.h"
#include "transactional/stock/take.h"

PG_FUNCTION_INFO_V1(dc_reserve);
PG_FUNCTION_INFO_V1(dc_reserve_all);

/* How many keys a reservation can have: it is ended in one transaction. */
#define MAX_RESERVED_KEYS 1000

/* Reservations whose time is up that a call ends before it says no. */
#define EXPIRE_FIRST 100

/* What is wanted of a key. */
typedef struct DcWanted
{
	Datum key;
	int64 amount;
	int64 at_least;
	int64 reserved;
	int64 owed; /* as last read */
	DcUsable *grants;
	int ngrants;
	int place; /* in the arguments */
} DcWanted;

typedef struct DcReserve
{
	DcBudget budget;
	int count;
	DcWanted *wanted; /* in the order of keys */
	Datum id;
	Datum ttl;
	Datum keys; /* the arguments, as arrays */
	Datum amounts;
	Datum at_least;
	Datum reserved; /* bigint[], the result */
	DcDrawn drawn;
} DcReserve;

/* id, keys, amounts, at least, time to live */
static const DcStatement sql_reservation_find = {
	.text = "SELECT r.reserved, r.keys = $2 AND r.amounts = $3 AND r.at_least = $4 AND r.ttl = $5"
			" FROM @reservations AS r WHERE r.reservation_id = $1",
	.argtypes = {UUIDOID, TEXTARRAYOID, INT8ARRAYOID, INT8ARRAYOID, INTERVALOID},
	.columns = {DC_COLUMN("reserved", INT8ARRAYOID), DC_COLUMN("is the same", BOOLOID)},
	.of = DC_OF_MORE + 1};

/* the same, reserved, grants, taken, owners, now, expiry */
static const DcStatement sql_reservation_insert = {
	.text = "INSERT INTO @reservations (reservation_id, keys, amounts, at_least, ttl, reserved, grants, taken, owners, created_at, expires_at)"
			" VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11) ON CONFLICT (reservation_id) DO NOTHING",
	.argtypes = {UUIDOID, TEXTARRAYOID, INT8ARRAYOID, INT8ARRAYOID, INTERVALOID, INT8ARRAYOID, INT8ARRAYOID, INT8ARRAYOID, INT8ARRAYOID,
				 TIMESTAMPTZOID, TIMESTAMPTZOID}};

static void reserve_args(FunctionCallInfo fcinfo, int argno, DcReserve *reserve, const char *function);
static void wanted_check(DcReserve *reserve);
static int wanted_compare(const void *a, const void *b);
static bool reserve_make(DcReserve *reserve);
static bool reserve_find(DcReserve *reserve, bool if_any);
static bool reserve_try(DcReserve *reserve);
static bool reserve_look(DcReserve *reserve);
static bool reserve_simply(DcReserve *reserve);
static bool reserve_take(void *arg);
static bool reserve_wait(const DcReserve *reserve);
static bool reserve_insert(DcReserve *reserve);

/*
 * dc_reserve(budget regclass, key text|bigint|uuid, amount bigint, reservation_id uuid, ttl
 * interval, at_least bigint) -> bigint, how much was reserved; 0 if there is not enough
 *
 * Errors: 22023 for amounts or times that are not positive, or an id that was used with other
 * arguments; 54000 for a key that is too long.
 */
Datum
dc_reserve(PG_FUNCTION_ARGS)
{
	DcReserve reserve = {.count = 1, .wanted = palloc0(sizeof(DcWanted))};
	DcWanted *wanted = reserve.wanted;
	int count;

	wanted->key = budget_key_arg(fcinfo, 1);
	wanted->amount = amount_arg(fcinfo, 2, "amount");
	wanted->at_least = PG_ARGISNULL(5) ? wanted->amount : PG_GETARG_INT64(5);
	wanted_check(&reserve);
	reserve_args(fcinfo, 3, &reserve, "dc_reserve()");
	if (!reserve_make(&reserve))
		PG_RETURN_INT64(0);
	PG_RETURN_INT64(int8_array(reserve.reserved, &count)[0]);
}

/*
 * dc_reserve_all(budget regclass, keys text[]|bigint[]|uuid[], amounts bigint[], reservation_id
 * uuid, ttl interval, at_least bigint[]) -> bigint[], how much was reserved of each key; NULL, and
 * nothing is, if there is not enough of one
 *
 * Errors: as of dc_reserve(); 22023 without keys or for a key that comes twice, 54000 for more than
 * 1,000, 2202E when the lengths differ.
 */
Datum
dc_reserve_all(PG_FUNCTION_ARGS)
{
	DcReserve reserve = {0};
	Datum *keys = key_array_arg(fcinfo, 1, &reserve.count, NULL);
	int namounts;
	Datum *amounts = array_arg(fcinfo, 2, "amounts", "amount", &namounts);
	int nleast = namounts;
	Datum *least = PG_ARGISNULL(5) ? amounts : array_arg(fcinfo, 5, "at_least", "at_least", &nleast);

	if (namounts != reserve.count || nleast != reserve.count)
		ereport(ERROR,
				(errcode(ERRCODE_ARRAY_SUBSCRIPT_ERROR),
				 errmsg("keys, amounts and at_least must have the same length")));
	if (reserve.count == 0)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("keys must not be empty")));
	if (reserve.count > MAX_RESERVED_KEYS)
		ereport(ERROR,
				(errcode(ERRCODE_PROGRAM_LIMIT_EXCEEDED),
				 errmsg("a reservation can have units of at most %d keys", MAX_RESERVED_KEYS),
				 errdetail("There are %d keys.", reserve.count)));
	reserve.wanted = palloc0(reserve.count * sizeof(DcWanted));
	for (int i = 0; i < reserve.count; i++)
	{
		budget_key_check(keys[i]);
		reserve.wanted[i] = (DcWanted){.key = keys[i], .amount = DatumGetInt64(amounts[i]), .at_least = DatumGetInt64(least[i]), .place = i};
	}
	wanted_check(&reserve);
	reserve_args(fcinfo, 3, &reserve, "dc_reserve_all()");
	if (!reserve_make(&reserve))
		PG_RETURN_NULL();
	PG_RETURN_DATUM(reserve.reserved);
}

/*
 * Check what is wanted, which is in the order of the arguments, make arrays of it, and bring it
 * into the order of keys.
 */
static void
wanted_check(DcReserve *reserve)
{
	DcWanted *wanted = reserve->wanted;
	int count = reserve->count;
	Datum *keys = palloc(count * sizeof(Datum));
	Datum *amounts = palloc(count * sizeof(Datum));
	Datum *at_least = palloc(count * sizeof(Datum));

	for (int i = 0; i < count; i++)
	{
		if (wanted[i].amount <= 0)
			ereport(ERROR,
					(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
					 errmsg("amount must be greater than zero")));
		if (wanted[i].at_least <= 0 || wanted[i].at_least > wanted[i].amount)
			ereport(ERROR,
					(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
					 errmsg("at_least must be greater than zero, and not greater than amount")));
		keys[i] = wanted[i].key;
		amounts[i] = Int64GetDatum(wanted[i].amount);
		at_least[i] = Int64GetDatum(wanted[i].at_least);
	}
	reserve->keys = array_datum(keys, count, TEXTOID);
	reserve->amounts = array_datum(amounts, count, INT8OID);
	reserve->at_least = array_datum(at_least, count, INT8OID);
	qsort(wanted, count, sizeof(DcWanted), wanted_compare);
	for (int i = 1; i < count; i++)
	{
		if (wanted_compare(&wanted[i - 1], &wanted[i]) == 0)
			ereport(ERROR,
					(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
					 errmsg("a key can be in a reservation only once"),
					 errdetail("Key \"%s\" comes twice.", TextDatumGetCString(wanted[i].key))));
	}
}

/*
 * Compare what is wanted by its keys, for qsort().
 */
static int
wanted_compare(const void *a, const void *b)
{
	return texts_compare(((const DcWanted *) a)->key, ((const DcWanted *) b)->key);
}

/*
 * Read the arguments reservation_id and ttl, from number `argno` on, and open the budget.
 */
static void
reserve_args(FunctionCallInfo fcinfo, int argno, DcReserve *reserve, const char *function)
{
	Interval zero = {0};

	arg_not_null(fcinfo, argno, "reservation_id");
	arg_not_null(fcinfo, argno + 1, "ttl");
	reserve->id = PG_GETARG_DATUM(argno);
	reserve->ttl = PG_GETARG_DATUM(argno + 1);
	if (DatumGetBool(DirectFunctionCall2(interval_le, reserve->ttl, IntervalPGetDatum(&zero))))
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("ttl must be greater than zero")));
	reserve->drawn.cxt = CurrentMemoryContext;
	budget_open(fcinfo, function, RowExclusiveLock, ACL_UPDATE, &reserve->budget);
}

/*
 * reserve_make makes a reservation, or finds it; false if there is not enough.
 */
static bool
reserve_make(DcReserve *reserve)
{
	bool expired = false;
	bool more;

	for (;;)
	{
		CHECK_FOR_INTERRUPTS();
		if (reserve_find(reserve, false))
			return true;
		if (reserve_try(reserve))
			break;
		if (!expired && reservations_expire(&reserve->budget, reserve->keys, EXPIRE_FIRST, &more) > 0)
			expired = true;
		else if (!reserve_wait(reserve))
			return reserve_find(reserve, true); /* made meanwhile */
	}
	if (!reserve_insert(reserve))
	{
		/* another session has made it since we looked */
		for (int i = 0; i < reserve->drawn.count; i++)
			grant_give_back(&reserve->budget, reserve->drawn.grants[i], reserve->drawn.taken[i]);
		if (!reserve_find(reserve, false))
			serialization_error();
	}
	return true;
}

/*
 * Return true if the reservation exists, with the same arguments. If `if_any`, 40001 for one that
 * is too new for this transaction's snapshot.
 */
static bool
reserve_find(DcReserve *reserve, bool if_any)
{
	MemoryContext caller = CurrentMemoryContext;
	Datum values[] = {reserve->id, reserve->keys, reserve->amounts, reserve->at_least, reserve->ttl};
	DcSqlSession session;
	bool found;

	budget_sql_begin(&session, &reserve->budget);
	found = sql_run(&session, &sql_reservation_find, values) > 0;
	if (found)
	{
		MemoryContext old;
		int count;
		int64 *reserved;

		if (!DatumGetBool(rows_datum(&session.rows, 0, 2)))
			ereport(ERROR,
					(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
					 errmsg("reservation %s already exists with different arguments",
							DatumGetCString(DirectFunctionCall1(uuid_out, reserve->id)))));
		old = MemoryContextSwitchTo(caller);
		reserved = int8_array(rows_datum(&session.rows, 0, 1), &count);
		if (count != reserve->count)
			reservation_broken(reserve->id);
		reserve->reserved = int8_array_datum(reserved, count);
		MemoryContextSwitchTo(old);
	}
	else if (if_any)
		sql_check_newer(&session, &sql_reservation_find, values);
	sql_end(&session);
	return found;
}

/*
 * reserve_try takes the units of all keys, or none; false if there are not enough.
 *
 * At SERIALIZABLE "no" must be true in the transaction's snapshot as well.
 */
static bool
reserve_try(DcReserve *reserve)
{
	bool enough;

	reserve->drawn.count = 0;
	latest_snapshot_push();
	enough = reserve_look(reserve);
	PopActiveSnapshot();
	if (!enough)
	{
		if (!IsolationIsSerializable())
			return false;
		PushActiveSnapshot(GetTransactionSnapshot());
		enough = reserve_look(reserve);
		PopActiveSnapshot();
		if (enough)
			serialization_error();
		return false;
	}
	return reserve_simply(reserve) || subxact_run(reserve_take, reserve);
}

/*
 * reserve_look reads the grants and debts of all keys in the active snapshot, and returns true if
 * there is enough of each.
 */
static bool
reserve_look(DcReserve *reserve)
{
	for (int i = 0; i < reserve->count; i++)
	{
		DcWanted *wanted = &reserve->wanted[i];

		CHECK_FOR_INTERRUPTS();
		wanted->owed = owed_units(&reserve->budget, wanted->key);
		wanted->ngrants = usable_grants(&reserve->budget, wanted->key, &wanted->grants);
		if (usable_sum(wanted->grants, wanted->ngrants) - wanted->owed < wanted->at_least)
			return false;
	}
	return true;
}

/*
 * reserve_simply takes all units of one grant, if that is enough; false, and nothing is taken, if
 * it is not that simple.
 */
static bool
reserve_simply(DcReserve *reserve)
{
	DcWanted *wanted = reserve->wanted;

	if (reserve->count > 1 || wanted->owed > 0 || wanted->grants[0].units < wanted->amount ||
		grant_take(&reserve->budget, wanted->grants[0].grant, wanted->amount, 0) == 0)
		return false;
	wanted->reserved = wanted->amount;
	drawn_add(&reserve->drawn, wanted->grants[0].grant, wanted->amount, 0);
	return true;
}

/*
 * reserve_take pays the debts of the keys and takes their units; false if there are not enough any
 * more.
 */
static bool
reserve_take(void *arg)
{
	DcReserve *reserve = arg;

	for (int i = 0; i < reserve->count; i++)
	{
		DcWanted *wanted = &reserve->wanted[i];

		CHECK_FOR_INTERRUPTS();
		if (wanted->owed > 0)
		{
			int64 owed = debt_take(&reserve->budget, wanted->key, wanted->owed);

			if (grants_draw(&reserve->budget, wanted->grants, wanted->ngrants, owed, NULL, 0) < owed)
				return false;
		}
		wanted->reserved = grants_draw(&reserve->budget, wanted->grants, wanted->ngrants, wanted->amount, &reserve->drawn, wanted->place);
		if (wanted->reserved < wanted->at_least)
			return false;
	}
	return true;
}

/*
 * reserve_wait waits for the end of another transaction that is making the same reservation; false
 * if there is none.
 */
static bool
reserve_wait(const DcReserve *reserve)
{
	Oid index = budget_check_shapes(&reserve->budget.row); /* code of the owner may have run since */
	TransactionId maker;
	Relation rel;

	if (!OidIsValid(index))
		return false;
	rel = table_open_present(reserve->budget.row.reservations, NoLock);
	maker = hold_maker(rel, index, reserve->id);
	table_close(rel, NoLock);
	if (!TransactionIdIsValid(maker))
		return false;
	XactLockTableWait(maker, NULL, NULL, XLTW_None);
	return true;
}

/*
 * reserve_insert notes a reservation; false if there is one of that id. Waits for another session
 * that is about to make it.
 */
static bool
reserve_insert(DcReserve *reserve)
{
	const DcDrawn *drawn = &reserve->drawn;
	Datum now = TimestampTzGetDatum(GetCurrentTimestamp());
	int64 *reserved = palloc(reserve->count * sizeof(int64));
	DcSqlSession session;
	bool inserted;

	for (int i = 0; i < reserve->count; i++)
		reserved[reserve->wanted[i].place] = reserve->wanted[i].reserved;
	reserve->reserved = int8_array_datum(reserved, reserve->count);
	{
		Datum values[] = {reserve->id, reserve->keys, reserve->amounts, reserve->at_least, reserve->ttl, reserve->reserved,
						  int8_array_datum(drawn->grants, drawn->count), int8_array_datum(drawn->taken, drawn->count),
						  int8_array_datum(drawn->owners, drawn->count), now,
						  DirectFunctionCall2(timestamptz_pl_interval, now, reserve->ttl)};

		budget_sql_begin(&session, &reserve->budget);
		inserted = sql_run(&session, &sql_reservation_insert, values) > 0;
		sql_end(&session);
	}
	return inserted;
}
