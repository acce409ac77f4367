/*
 * cart.c
 *		Units of several keys, which are taken together or not at all.
 *
 * Copyright (c) 2026, the dcounter developers
 *
 * All carts take in the order of keys, so two of them do not deadlock with each other. Lines before
 * one that fails are taken back with the subtransaction that they are in, which also unlocks their
 * rows.
 */
#include "postgres.h"

#include "common/int.h"
#include "miscadmin.h"

#include "base/args.h"
#include "base/compat.h"
#include "base/subxact.h"
#include "core/table/access.h"
#include "transactional/stock/cart.h"
#include "transactional/stock/stock.h"
#include "transactional/stock/take.h"

PG_FUNCTION_INFO_V1(dc_take_all);

static DcCartLine *stock_lines_arg(FunctionCallInfo fcinfo, int *count);
static int lines_merge(DcCartLine *lines, int count);
static int line_compare(const void *a, const void *b);
static bool take_lines(void *arg);

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

	cart_args(fcinfo, &cart, "dc_take_all()");
	PG_RETURN_BOOL(cart_take(&cart));
}

/*
 * cart_args opens the stock in argument 0, and reads the lines in arguments 1 and 2.
 */
void
cart_args(FunctionCallInfo fcinfo, DcCart *cart, const char *function)
{
	counter_arg(fcinfo);
	cart->lines = stock_lines_arg(fcinfo, &cart->count);
	cart->counter = stock_open_to_write(fcinfo, function);
	cart->count = lines_merge(cart->lines, cart->count);
}

/*
 * cart_take takes all lines; false, and nothing is taken, if there is not enough for one.
 */
bool
cart_take(DcCart *cart)
{
	return cart->count <= 1 ? take_lines(cart) : subxact_run(take_lines, cart);
}

/*
 * stock_lines_arg reads the arrays in arguments 1 and 2.
 */
static DcCartLine *
stock_lines_arg(FunctionCallInfo fcinfo, int *count)
{
	Datum *keys = key_array_arg(fcinfo, 1, count, NULL);
	DcCartLine *lines = palloc(Max(*count, 1) * sizeof(DcCartLine));
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
lines_merge(DcCartLine *lines, int count)
{
	int kept = 0;

	qsort(lines, count, sizeof(DcCartLine), line_compare);
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
	return key_compare(&((const DcCartLine *) a)->key, &((const DcCartLine *) b)->key);
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
