/*
 * budget.c
 *		Opening a budget.
 *
 * Copyright (c) 2026, the dcounter developers
 *
 * A budget is a table of grants, a stock, and a table of reservations. A grant's units are those of
 * a key of the stock, its number. What a key of the budget owes is a key of the stock as well, "-"
 * and the key: a stock of units owed. "+" and the key has what was settled by reservations that
 * have been removed since. So who gets which unit, and who waits for whom, is as in
 * transactional/stock/take.c. Units and the row that says why they moved are written in one
 * transaction, so in each snapshot, and for each key:
 *
 *		granted - lapsed = units of its grants + reserved + settled - owed
 *
 * (dc_budget_check). Crashes, savepoints, prepared transactions and standbys need nothing else.
 *
 * Protocol. A call locks the table of grants, the stock and the reservations, in this order. It
 * goes over keys in the order of their bytes, and over the grants of a key in the order of use, so
 * calls do not deadlock with each other. A reservation ends under the lock of its row. The row of a
 * grant is locked by calls that change the grant, not by those that use it.
 *
 * All statements run as the owner of the budget. Roles need rights on the table of grants: INSERT
 * to grant, UPDATE to reserve and settle, SELECT to read.
 */
#include "postgres.h"

#include "access/detoast.h"
#include "access/parallel.h"
#include "catalog/pg_type.h"
#include "miscadmin.h"
#include "storage/lmgr.h"
#include "utils/array.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"

#include "base/args.h"
#include "base/compat.h"
#include "base/key.h"
#include "base/relcached.h"
#include "base/relopen.h"
#include "core/compact/compact.h"
#include "core/counter/units.h"
#include "core/table/access.h"
#include "core/table/subscription.h"
#include "transactional/budget/budget.h"
#include "transactional/stock/stock.h"

/* What a session remembers of a budget: its tables, and that these are as they were made. */
typedef struct DcKnownBudget
{
	Oid relid;
	bool valid;
	DcBudgetRow row;
} DcKnownBudget;

static void budget_changed(void *entry, Oid relid);

static DcRelCached known_budgets = {
	.name = "dcounter budgets",
	.keysize = sizeof(Oid),
	.size = sizeof(DcKnownBudget),
	.changed = budget_changed,
	.watches = true,
};

static bool budget_fill(void *entry, void *arg);
static DcCounter *budget_open_pool(const DcBudgetRow *row, const char *function, LOCKMODE mode);
static const char *budget_word(DcCounter *counter, const char *word);
pg_noreturn static void budget_missing_error(Oid relid);

/* The places of the two tables in a session. */
#define OF_GRANTS DC_OF_MORE
#define OF_RESERVATIONS (DC_OF_MORE + 1)

/* Longest array of a reservation that was not written by hand, in bytes. */
#define MAX_ROW_ARRAY (16 * 1024 * 1024)

/* With debug_discard_caches what is remembered never stays valid; it is fresh enough then. */
#define MAX_TRIES 3

/*
 * budget_open opens the budget in argument 0, for a role that has all of `rights` on its table of
 * grants. What is remembered of it was looked up before the locks were taken, or is looked up again.
 */
void
budget_open(FunctionCallInfo fcinfo, const char *function, LOCKMODE mode, AclMode rights, DcBudget *budget)
{
	DcKnownBudget *known;
	Oid relid;
	int tries = 0;

	arg_not_null(fcinfo, 0, "budget");
	relid = PG_GETARG_OID(0);
	if (mode > AccessShareLock)
		prevent_write(function);
	known = relcached_find(&known_budgets, &relid);
	if ((known == NULL || !known->valid) && !budget_read(relid, &budget->row))
		budget_missing_error(relid);
	table_check_rights(relid, rights);
	LockRelationOid(relid, mode);
	table_check_rights(relid, rights); /* they may have been revoked while we waited */
	known = relcached_enter(&known_budgets, &relid);
	do
	{
		if (!known->valid && !relcached_fill(known, &known->valid, budget_fill, NULL))
			budget_missing_error(relid); /* dropped while we waited */
		budget->row = known->row;
		budget->pool = budget_open_pool(&budget->row, function, mode);
		LockRelationOid(budget->row.reservations, mode);
	} while (!known->valid && ++tries < MAX_TRIES);
}

/*
 * budget_fill looks up the tables of a budget, and checks what they look like; false if there is no
 * such budget.
 */
static bool
budget_fill(void *entry, void *arg)
{
	DcKnownBudget *known = entry;

	if (!budget_read(known->relid, &known->row))
		return false;
	relcached_watch(known->relid);
	relcached_watch(known->row.pool);
	relcached_watch(known->row.reservations);
	(void) budget_check_shapes(&known->row);
	return true;
}

/*
 * Forget what is known of a budget of whose tables one has changed.
 */
static void
budget_changed(void *entry, Oid relid)
{
	DcKnownBudget *known = entry;

	if (!OidIsValid(relid) || relid == known->relid || relid == known->row.pool || relid == known->row.reservations)
		known->valid = false;
}

/*
 * Open the stock of a budget, as its owner.
 */
static DcCounter *
budget_open_pool(const DcBudgetRow *row, const char *function, LOCKMODE mode)
{
	DcCounter *pool;
	DcRunAs as;

	runas_begin(&as, relation_owner(row->budget));
	if (mode > AccessShareLock)
	{
		pool = counter_open_own(row->pool, mode);
		stock_check(pool);
		units_check(pool);
		prevent_replicated(pool, function);
		prevent_fed(pool, function);
	}
	else
	{
		pool = counter_open_read(row->pool, function);
		stock_check(pool);
	}
	runas_end(&as);
	return pool;
}

/*
 * budget_open_at_once opens the budget whose units are in a stock without waiting for a lock, and
 * without asking for rights; false if it is locked, cannot be used in its state, or is not the
 * current user's (unless all_owners).
 */
bool
budget_open_at_once(Oid pool, bool all_owners, DcBudget *budget)
{
	/* nothing is locked for who does not own it */
	if ((!all_owners && !compat_owns_relation(pool, GetUserId())) ||
		!budget_read_by_pool(pool, &budget->row) ||
		!ConditionalLockRelationOid(budget->row.budget, RowExclusiveLock) ||
		(budget->pool = compact_open(pool, all_owners)) == NULL || !counter_is_stock(budget->pool) ||
		relation_lacks_indexes(budget->row.budget) || relation_lacks_indexes(budget->row.reservations) ||
		!ConditionalLockRelationOid(budget->row.reservations, RowExclusiveLock) ||
		!budget_read_by_pool(pool, &budget->row))
		return false;
	units_check(budget->pool);
	(void) budget_check_shapes(&budget->row);
	return true;
}

/*
 * budget_sql_begin connects to SPI and becomes the owner of the budget.
 */
void
budget_sql_begin(DcSqlSession *session, const DcBudget *budget)
{
	sql_begin(session, budget->pool);
	session->word = budget_word;
	sql_keep_open(session, OF_GRANTS, budget->row.budget);
	sql_keep_open(session, OF_RESERVATIONS, budget->row.reservations);
}

/*
 * Return the SQL that a word in a statement's text stands for.
 */
static const char *
budget_word(DcCounter *counter, const char *word)
{
	DcBudgetRow row;

	if (!budget_read_by_pool(counter->relid, &row))
		elog(ERROR, "budget of \"%s\" is not registered", get_rel_name(counter->relid));
	if (strcmp(word, "grants") == 0)
		return relation_sql_name(row.budget);
	if (strcmp(word, "reservations") == 0)
		return relation_sql_name(row.reservations);
	elog(ERROR, "unrecognized word: %s", word);
}

/*
 * Raise 42809: a relation is not a budget.
 */
static void
budget_missing_error(Oid relid)
{
	ereport(ERROR,
			(errcode(ERRCODE_WRONG_OBJECT_TYPE),
			 errmsg("\"%s\" is not a budget", get_rel_name(relid)),
			 errhint("Create one with dc_budget_create(), or register its tables with dc_budget_adopt().")));
}

/*
 * budget_key_arg returns a key argument as text. Errors: 22004 for NULL, 42804, 54000 for a key
 * that is too long.
 */
Datum
budget_key_arg(FunctionCallInfo fcinfo, int argno)
{
	Datum key = key_text_arg(fcinfo, argno, "budget key");

	budget_key_check(key);
	return key;
}

/*
 * budget_key_check raises 54000 for a key that is too long: a text datum that is not compressed or
 * stored elsewhere.
 */
void
budget_key_check(Datum text)
{
	check_length("budget key", VARSIZE_ANY_EXHDR(DatumGetPointer(text)), 0, MAX_BUDGET_KEY);
}

/*
 * int8_array returns the members of a bigint[] of a row; 42809 if one is null.
 */
int64 *
int8_array(Datum array, int *count)
{
	Datum *values;
	bool *nulls;
	int64 *result;

	if (toast_raw_datum_size(array) > MAX_ROW_ARRAY)
		ereport(ERROR,
				(errcode(ERRCODE_WRONG_OBJECT_TYPE),
				 errmsg("a reservation is not as dcounter created it"),
				 errdetail("An array is too long.")));
	deconstruct_array(DatumGetArrayTypePCopy(array), INT8OID, sizeof(int64), FLOAT8PASSBYVAL, TYPALIGN_DOUBLE,
					  &values, &nulls, count);
	result = palloc(Max(*count, 1) * sizeof(int64));
	for (int i = 0; i < *count; i++)
	{
		if (nulls[i])
			ereport(ERROR,
					(errcode(ERRCODE_WRONG_OBJECT_TYPE),
					 errmsg("a reservation is not as dcounter created it"),
					 errdetail("An array has a null value.")));
		result[i] = DatumGetInt64(values[i]);
	}
	return result;
}

/*
 * int8_array_datum makes a bigint[].
 */
Datum
int8_array_datum(const int64 *values, int count)
{
	Datum *datums = palloc(Max(count, 1) * sizeof(Datum));

	for (int i = 0; i < count; i++)
		datums[i] = Int64GetDatum(values[i]);
	return array_datum(datums, count, INT8OID);
}
