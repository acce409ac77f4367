/*
 * budgetdraw.c
 *		Units of grants, and units owed.
 *
 * Copyright (c) 2026, the dcounter developers
 *
 * The grants of a key are used in one order: priority, then the time at which they expire, then
 * their number. Which there are is read in the latest snapshot, whatever the transaction's is: a
 * take decides by the latest state, too, and a grant that was just made would be refused otherwise.
 * A grant without units in that snapshot is passed over: of such a key no more is sure, so nothing
 * could be taken (transactional/stock/take.c).
 */
#include "postgres.h"

#include "catalog/pg_type.h"
#include "common/int.h"
#include "miscadmin.h"
#include "utils/builtins.h"
#include "utils/snapmgr.h"

#include "base/compat.h"
#include "base/key.h"
#include "core/counter/read.h"
#include "core/table/access.h"
#include "transactional/budget/budget.h"
#include "transactional/stock/take.h"

/* key, now */
static const DcStatement sql_grants_usable = {
	.text = "SELECT g.grant_id, g.expires_at FROM @grants AS g"
			" WHERE g.key = $1 AND g.live AND g.effective_at <= $2 AND g.expires_at > $2"
			" ORDER BY g.priority, g.expires_at, g.grant_id",
	.argtypes = {TEXTOID, TIMESTAMPTZOID},
	.columns = {DC_BIGINT("grant_id"), DC_TIME("expires_at")},
	.of = DC_OF_MORE};

/* A key of the stock that belongs to a key of the budget. */
typedef struct DcMarkedKey
{
	DcKey key;
	char text[DC_MAX_KEY_BYTES];
} DcMarkedKey;

static void marked_key(DcMarkedKey *marked, char mark, Datum key);

/*
 * usable_grants lists the grants of a key that can be used now and have units, in the order of use,
 * in the active snapshot. Returns how many there are.
 */
int
usable_grants(const DcBudget *budget, Datum key, DcUsable **grants)
{
	MemoryContext caller = CurrentMemoryContext;
	Datum values[] = {key, TimestampTzGetDatum(GetCurrentTimestamp())};
	DcSqlSession session;
	int listed;
	int count = 0;

	budget_sql_begin(&session, budget);
	listed = (int) sql_read(&session, &sql_grants_usable, values);
	*grants = MemoryContextAlloc(caller, Max(listed, 1) * sizeof(DcUsable));
	for (int i = 0; i < listed; i++)
		(*grants)[i] = (DcUsable){rows_bigint(&session.rows, i, 1), 0, DatumGetTimestampTz(rows_datum(&session.rows, i, 2))};
	sql_end(&session);
	for (int i = 0; i < listed; i++)
	{
		DcUsable grant = (*grants)[i];
		DcKey number;

		CHECK_FOR_INTERRUPTS();
		key_from_value(Int64GetDatum(grant.grant), INT8OID, &number);
		grant.units = counter_rows_value(budget->pool, &number);
		if (grant.units > 0)
			(*grants)[count++] = grant;
	}
	return count;
}

/*
 * usable_grants_latest does so in the latest snapshot.
 */
int
usable_grants_latest(const DcBudget *budget, Datum key, DcUsable **grants)
{
	int count;

	latest_snapshot_push();
	count = usable_grants(budget, key, grants);
	PopActiveSnapshot();
	return count;
}

/*
 * usable_sum returns how many units grants have; the largest number if there are more.
 */
int64
usable_sum(const DcUsable *grants, int count)
{
	int64 sum = 0;

	for (int i = 0; i < count; i++)
	{
		if (pg_add_s64_overflow(sum, grants[i].units, &sum))
			return PG_INT64_MAX;
	}
	return sum;
}

/*
 * Make the key of the stock for a key of the budget.
 */
static void
marked_key(DcMarkedKey *marked, char mark, Datum key)
{
	text *value = DatumGetTextPP(key);
	uint32 len = VARSIZE_ANY_EXHDR(value);

	budget_key_check(PointerGetDatum(value)); /* it may be of a row that was written by hand */
	marked->text[0] = mark;
	memcpy(marked->text + 1, VARDATA_ANY(value), len);
	marked->key.data = marked->text;
	marked->key.len = len + 1;
}

/*
 * owed_units returns how many units a key owes, in the active snapshot.
 */
int64
owed_units(const DcBudget *budget, Datum key)
{
	DcMarkedKey debt;
	int64 owed;

	marked_key(&debt, '-', key);
	owed = counter_rows_value(budget->pool, &debt.key);
	return Max(owed, 0);
}

/*
 * debt_take reduces what a key owes, by as much as is sure, at most `units`. Returns by how much:
 * as many units have to be taken from grants.
 */
int64
debt_take(const DcBudget *budget, Datum key, int64 units)
{
	DcMarkedKey debt;

	marked_key(&debt, '-', key);
	return stock_take(budget->pool, &debt.key, units, TAKE_PARTLY);
}

/*
 * debt_add adds to what a key owes, when the transaction commits.
 */
void
debt_add(const DcBudget *budget, Datum key, int64 units)
{
	DcMarkedKey debt;

	marked_key(&debt, '-', key);
	stock_give_back(budget->pool, &debt.key, units);
}

/*
 * spent_add adds to what reservations that have been removed had settled, when the transaction
 * commits.
 */
void
spent_add(const DcBudget *budget, Datum key, int64 units)
{
	DcMarkedKey spent;

	marked_key(&spent, '+', key);
	stock_give_back(budget->pool, &spent.key, units);
}

/*
 * grant_take takes units of a grant as stock_take() does.
 */
int64
grant_take(const DcBudget *budget, int64 grant, int64 units, int flags)
{
	DcKey key;

	key_from_value(Int64GetDatum(grant), INT8OID, &key);
	return stock_take(budget->pool, &key, units, flags);
}

/*
 * grant_give adds new units to a grant, when the transaction commits.
 */
void
grant_give(const DcBudget *budget, int64 grant, int64 units)
{
	DcKey key;

	key_from_value(Int64GetDatum(grant), INT8OID, &key);
	stock_give(budget->pool, &key, units);
}

/*
 * grant_give_back adds units to a grant that were taken of it.
 */
void
grant_give_back(const DcBudget *budget, int64 grant, int64 units)
{
	DcKey key;

	key_from_value(Int64GetDatum(grant), INT8OID, &key);
	stock_give_back(budget->pool, &key, units);
}

/*
 * grants_draw takes up to `amount` units from grants, in their order. What was taken of which is
 * added to `drawn`, unless that is NULL. Returns how many were taken.
 */
int64
grants_draw(const DcBudget *budget, const DcUsable *grants, int count, int64 amount, DcDrawn *drawn, int owner)
{
	int64 got = 0;

	for (int i = 0; i < count && got < amount; i++)
	{
		int64 taken;

		CHECK_FOR_INTERRUPTS();
		taken = grant_take(budget, grants[i].grant, amount - got, TAKE_PARTLY);
		if (taken > 0 && drawn != NULL)
			drawn_add(drawn, grants[i].grant, taken, owner);
		got += taken;
	}
	return got;
}

/*
 * drawn_add notes units that were taken of a grant.
 */
void
drawn_add(DcDrawn *drawn, int64 grant, int64 taken, int owner)
{
	if (drawn->count == drawn->size)
	{
		MemoryContext old = MemoryContextSwitchTo(drawn->cxt);
		int size = drawn->size == 0 ? 4 : 2 * drawn->size;

		drawn->grants = drawn->size == 0 ? palloc(size * sizeof(int64)) : repalloc(drawn->grants, size * sizeof(int64));
		drawn->taken = drawn->size == 0 ? palloc(size * sizeof(int64)) : repalloc(drawn->taken, size * sizeof(int64));
		drawn->owners = drawn->size == 0 ? palloc(size * sizeof(int64)) : repalloc(drawn->owners, size * sizeof(int64));
		drawn->size = size;
		MemoryContextSwitchTo(old);
	}
	drawn->grants[drawn->count] = grant;
	drawn->taken[drawn->count] = taken;
	drawn->owners[drawn->count++] = owner;
}
