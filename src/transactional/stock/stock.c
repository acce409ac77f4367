/*
 * stock.c
 *		The room's entry, and the SQL functions that take units of one key and add to it.
 *
 * Copyright (c) 2026, the dcounter developers
 */
#include "postgres.h"

#include "base/args.h"
#include "base/compat.h"
#include "base/guc.h"
#include "base/hooks.h"
#include "core/table/access.h"
#include "transactional/stock/gate.h"
#include "transactional/stock/hold.h"
#include "transactional/stock/stock.h"
#include "transactional/stock/take.h"

PG_FUNCTION_INFO_V1(dc_restock);
PG_FUNCTION_INFO_V1(dc_take);
PG_FUNCTION_INFO_V1(dc_take_up_to);

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
 * units as are certainly available, at most qty, and returns how many.
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
