/*
 * stock.c
 *		The SQL functions that take from a stock and add to it.
 *
 * Copyright (c) 2026, the dcounter developers
 */
#include "postgres.h"

#include "common/int.h"
#include "miscadmin.h"

#include "base/args.h"
#include "base/compat.h"
#include "base/guc.h"
#include "base/hooks.h"
#include "base/subxact.h"
#include "core/table/access.h"
#include "transactional/stock/gate.h"
#include "transactional/stock/hold.h"
#include "transactional/stock/stock.h"
#include "transactional/stock/take.h"

PG_FUNCTION_INFO_V1(dc_restock);
PG_FUNCTION_INFO_V1(dc_take);
PG_FUNCTION_INFO_V1(dc_take_up_to);
PG_FUNCTION_INFO_V1(dc_take_all);

/* A line of a cart. */
typedef struct DcLine
{
	DcKey key;
	int64 qty;
} DcLine;

typedef struct DcCart
{
	DcCounter *counter;
	DcLine *lines;
	int count;
} DcCart;

static DcLine *stock_lines_arg(FunctionCallInfo fcinfo, int *count);
static int lines_merge(DcLine *lines, int count);
static int line_compare(const void *a, const void *b);
static bool take_lines(void *arg);

/*
 * stock_init sets the hooks and registers the job of this room, and the gate if preloaded;
 * called once.
 */
void
stock_init(bool preloaded)
{
	static const DcStockHooks hooks = {
		.units_added = gate_open,
		.holds_shape = &holds_shape,
		.create_holds = create_holds,
		.find_holds = find_holds,
		.expired_each = holds_expired_each,
		.key_set = holds_key_set,
	};

	if (preloaded)
		gate_init();
	stock_hooks = &hooks;
	job_register((DcJob){.name = "expiry", .interval = &dc_expire_interval, .run = expire_job});
}

/*
 * dc_restock(stock regclass, key text|bigint|uuid, qty bigint) -> void: adds
 * units, when the transaction commits.
 */
Datum
dc_restock(PG_FUNCTION_ARGS)
{
	DcKey buf;
	const DcKey *key = key_arg(fcinfo, 1, &buf);
	DcCounter *counter = stock_open_to_write(fcinfo, "dc_restock()");

	if (counter_has_rights(counter))
		region_hooks->check_rights(counter);
	stock_give(counter, key, quantity_arg(fcinfo, 2));
	PG_RETURN_VOID();
}

/*
 * dc_take(stock regclass, key text|bigint|uuid, qty bigint, wait boolean)
 * -> boolean: takes units, or changes nothing and answers false.
 *
 * Errors: 22023 for a quantity that is not positive; 40001 under REPEATABLE
 * READ and SERIALIZABLE when the units are in rows that have changed since.
 */
Datum
dc_take(PG_FUNCTION_ARGS)
{
	DcKey buf;
	const DcKey *key = key_arg(fcinfo, 1, &buf);
	int64 qty = quantity_arg(fcinfo, 2);
	bool wait = bool_arg(fcinfo, 3, "wait");
	DcCounter *counter;

	if (stock_is_shut(fcinfo, key, "dc_take()"))
		PG_RETURN_BOOL(false);
	counter = stock_open_to_write(fcinfo, "dc_take()");
	PG_RETURN_BOOL(stock_take(counter, key, qty,
							  wait ? TAKE_WAIT : 0) > 0);
}

/*
 * dc_take_up_to(stock regclass, key text|bigint|uuid, qty bigint) -> bigint: takes as many
 * units as are available for sure, at most qty, and returns how many.
 */
Datum
dc_take_up_to(PG_FUNCTION_ARGS)
{
	DcKey buf;
	const DcKey *key = key_arg(fcinfo, 1, &buf);
	int64 qty = quantity_arg(fcinfo, 2);

	if (stock_is_shut(fcinfo, key, "dc_take_up_to()"))
		PG_RETURN_INT64(0);
	PG_RETURN_INT64(stock_take(stock_open_to_write(fcinfo, "dc_take_up_to()"),
							   key, qty, TAKE_PARTLY));
}

/*
 * dc_take_all(stock regclass, keys text[]|bigint[]|uuid[], qtys bigint[]) -> boolean: takes all
 * lines, or changes nothing and answers false. A key may come more than once.
 *
 * Errors: 2202E when the lengths differ, and those of dc_take().
 */
Datum
dc_take_all(PG_FUNCTION_ARGS)
{
	DcCart cart;

	counter_arg(fcinfo);
	cart.lines = stock_lines_arg(fcinfo, &cart.count);
	cart.counter = stock_open_to_write(fcinfo, "dc_take_all()");
	cart.count = lines_merge(cart.lines, cart.count);
	/* if a line fails, the units of those before are given back, and unlocked */
	PG_RETURN_BOOL(cart.count <= 1 ? take_lines(&cart) : subxact_run(take_lines, &cart));
}

/*
 * stock_lines_arg reads the arrays in arguments 1 and 2.
 */
static DcLine *
stock_lines_arg(FunctionCallInfo fcinfo, int *count)
{
	Datum *keys = key_array_arg(fcinfo, 1, count, NULL);
	DcLine *lines = palloc(Max(*count, 1) * sizeof(DcLine));
	int nqtys;
	Datum *qtys = array_arg(fcinfo, 2, "qtys", "qty", &nqtys);

	if (nqtys != *count)
		ereport(ERROR,
				(errcode(ERRCODE_ARRAY_SUBSCRIPT_ERROR),
				 errmsg("keys and qtys must have the same length"),
				 errdetail("There are %d keys and %d quantities.", *count, nqtys)));
	for (int i = 0; i < nqtys; i++)
	{
		lines[i].qty = DatumGetInt64(qtys[i]);
		if (lines[i].qty <= 0)
			ereport(ERROR,
					(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
					 errmsg("qty must be greater than zero")));
		key_from_text(keys[i], &lines[i].key);
	}
	return lines;
}

/*
 * lines_merge sorts lines by key, the order in which all carts take, and merges
 * those of one key. Returns how many are left.
 */
static int
lines_merge(DcLine *lines, int count)
{
	int kept = 0;

	qsort(lines, count, sizeof(DcLine), line_compare);
	for (int i = 0; i < count; i++)
	{
		if (kept == 0 || line_compare(&lines[kept - 1], &lines[i]) != 0)
			lines[kept++] = lines[i];
		else if (pg_add_s64_overflow(lines[kept - 1].qty, lines[i].qty,
									 &lines[kept - 1].qty))
			ereport(ERROR,
					(errcode(ERRCODE_NUMERIC_VALUE_OUT_OF_RANGE),
					 errmsg("bigint out of range"),
					 errdetail("The sum of the quantities of one key is too large.")));
	}
	return kept;
}

/*
 * Compare two lines by their keys, for qsort().
 */
static int
line_compare(const void *a, const void *b)
{
	CHECK_FOR_INTERRUPTS(); /* of a long qsort() */
	return key_compare(&((const DcLine *) a)->key, &((const DcLine *) b)->key);
}

/*
 * take_lines takes line after line; false if there is not enough for one.
 */
static bool
take_lines(void *arg)
{
	DcCart *cart = arg;

	for (int i = 0; i < cart->count; i++)
	{
		CHECK_FOR_INTERRUPTS();
		if (stock_take(cart->counter, &cart->lines[i].key, cart->lines[i].qty,
					   0) == 0)
			return false;
	}
	return true;
}
