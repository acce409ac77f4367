/*
 * holdmake.c
 *		Making holds: units that are set aside for a checkout.
 *
 * Copyright (c) 2026, the dcounter developers
 *
 * dc_hold() takes units and notes them in the stock's table of holds, in one transaction.
 * dc_hold_all() does so for units of several keys, of all or none, as one row: so the code that
 * ends holds (hold.c, expire.c) locks one row and changes it. The columns keys and qtys of that row
 * list its units; they are NULL for one key. "key" is the first of the keys then, and "qty" the
 * sum. Tables of stocks that were created by an older version do not have these columns, and cannot
 * have such holds until they are added.
 *
 * A hold_id is created once. Two sessions that make the same one conflict at its row, which the
 * second one cannot insert: it returns the units that it has taken. If it could not take anything,
 * since the first one has, it waits for that one.
 */
#include "postgres.h"

#include "access/genam.h"
#include "access/table.h"
#include "access/tableam.h"
#include "catalog/pg_type.h"
#include "common/int.h"
#include "storage/lmgr.h"
#include "utils/array.h"
#include "utils/builtins.h"
#include "utils/fmgroids.h"
#include "utils/fmgrprotos.h"
#include "utils/lsyscache.h"
#include "utils/snapmgr.h"
#include "utils/timestamp.h"
#include "utils/uuid.h"

#include "base/args.h"
#include "base/compat.h"
#include "base/errors.h"
#include "base/key.h"
#include "base/relopen.h"
#include "core/counter/sqlpath.h"
#include "core/table/access.h"
#include "transactional/stock/cart.h"
#include "transactional/stock/hold.h"
#include "transactional/stock/stock.h"
#include "transactional/stock/take.h"

PG_FUNCTION_INFO_V1(dc_hold);
PG_FUNCTION_INFO_V1(dc_hold_all);

/* A hold to make. */
typedef struct DcNewHold
{
	DcCart cart; /* in the order of keys, each once */
	int64 qty;	 /* of all lines */
	Datum ttl;
	Datum id;
} DcNewHold;

/* hold */
static const DcStatement sql_hold_find = {
	.text = "SELECT h.key, h.qty, @keys, @qtys, h.ttl FROM @holds AS h WHERE h.hold_id = $1", .argtypes = {UUIDOID}, .columns = {DC_HOLD_LINES, DC_COLUMN("ttl", INTERVALOID)}, .of = DC_OF_HOLDS};

#define HOLD_INSERT(columns, values) \
	"INSERT INTO @holds (hold_id, key, qty, ttl, created_at, expires_at" columns ")" \
	" VALUES ($1, $2, $3, $4, $5, $6" values ") ON CONFLICT (hold_id) DO NOTHING"

/* hold, key, quantity, time to live, now, expiry */
static const DcStatement sql_hold_insert = {
	.text = HOLD_INSERT("", ""),
	.argtypes = {UUIDOID, TEXTOID, INT8OID, INTERVALOID, TIMESTAMPTZOID, TIMESTAMPTZOID}};

/* the same, keys, quantities */
static const DcStatement sql_hold_insert_lines = {
	.text = HOLD_INSERT(", keys, qtys", ", $7, $8"),
	.argtypes = {UUIDOID, TEXTOID, INT8OID, INTERVALOID, TIMESTAMPTZOID, TIMESTAMPTZOID, TEXTARRAYOID, INT8ARRAYOID}};

static void hold_args(FunctionCallInfo fcinfo, int argno, DcNewHold *hold);
static Datum make_hold(DcNewHold *hold);
static bool find_hold(DcNewHold *hold, bool if_any);
static bool wait_for_maker(DcCounter *counter, Datum id);

static bool insert_hold(const DcNewHold *hold);
static void hold_line_values(const DcNewHold *hold, Datum *keys, Datum *qtys);

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
	DcNewHold hold;
	DcCartLine line;
	DcKey buf;

	line.key = *key_arg(fcinfo, 1, &buf);
	hold.cart = (DcCart){stock_open_to_write(fcinfo, "dc_hold()"), &line, 1};
	line.qty = hold.qty = quantity_arg(fcinfo, 2);
	hold_args(fcinfo, 3, &hold);
	if (make_hold(&hold) == (Datum) 0)
		PG_RETURN_NULL();
	PG_RETURN_DATUM(hold.id);
}

/*
 * dc_hold_all(stock regclass, keys text[]|bigint[]|uuid[], qtys bigint[], ttl interval, hold_id
 * uuid) -> uuid, the hold, which has units of all these keys; NULL if there are not enough of one.
 * A key may come more than once.
 *
 * Errors: those of dc_hold() and dc_take_all(); 22023 without keys, 54000 for more than 1,000, 22003
 * for a sum that overflows bigint, 42809 if the table of holds was created by an older version.
 */
Datum
dc_hold_all(PG_FUNCTION_ARGS)
{
	DcNewHold hold;

	cart_args(fcinfo, &hold.cart, "dc_hold_all()");
	if (hold.cart.count == 0)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("keys must not be empty")));
	if (hold.cart.count > HOLD_MAX_LINES)
		ereport(ERROR,
				(errcode(ERRCODE_PROGRAM_LIMIT_EXCEEDED),
				 errmsg("a hold can have units of at most %d keys", HOLD_MAX_LINES),
				 errdetail("There are %d keys.", hold.cart.count)));
	hold.qty = 0;
	for (int i = 0; i < hold.cart.count; i++)
	{
		if (pg_add_s64_overflow(hold.qty, hold.cart.lines[i].qty, &hold.qty))
			ereport(ERROR,
					(errcode(ERRCODE_NUMERIC_VALUE_OUT_OF_RANGE),
					 errmsg("bigint out of range"),
					 errdetail("The sum of the quantities is too large.")));
	}
	hold_args(fcinfo, 3, &hold);
	if (make_hold(&hold) == (Datum) 0)
		PG_RETURN_NULL();
	PG_RETURN_DATUM(hold.id);
}

/*
 * hold_args reads the arguments ttl and hold_id, from number `argno` on.
 */
static void
hold_args(FunctionCallInfo fcinfo, int argno, DcNewHold *hold)
{
	Interval zero = {0};

	arg_not_null(fcinfo, argno, "ttl");
	arg_not_null(fcinfo, argno + 1, "hold_id");
	hold->ttl = PG_GETARG_DATUM(argno);
	hold->id = PG_GETARG_DATUM(argno + 1);
	if (DatumGetBool(DirectFunctionCall2(interval_le, hold->ttl, IntervalPGetDatum(&zero))))
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("ttl must be greater than zero")));
}

/*
 * make_hold takes the units and notes the hold. Returns its id, or 0 if there are not enough.
 */
static Datum
make_hold(DcNewHold *hold)
{
	DcCounter *counter = hold->cart.counter;
	bool taken;

	do
	{
		if (find_hold(hold, false))
			return hold->id;
		taken = cart_take(&hold->cart);
		/* if not, perhaps because another session is making the same hold */
	} while (!taken && wait_for_maker(counter, hold->id));
	if (!taken)
	{
		/* made while the take has waited for other transactions */
		return find_hold(hold, true) ? hold->id : (Datum) 0;
	}
	if (!insert_hold(hold))
	{
		/* another session has made it since we looked */
		hold_lines_give_back(counter, hold->cart.lines, hold->cart.count);
		if (!find_hold(hold, false))
			serialization_error();
	}
	return hold->id;
}

/*
 * Return true if the hold exists, with the same arguments. If `if_any`, 40001 for one that is too
 * new for this transaction's snapshot. Raise 42809 if it has several keys, and the table cannot
 * have such holds.
 */
static bool
find_hold(DcNewHold *hold, bool if_any)
{
	const DcCart *cart = &hold->cart;
	DcSqlSession session;
	bool found;

	holds_begin(&session, cart->counter, RowExclusiveLock);
	if (cart->count > 1)
		holds_check_lines(cart->counter);
	found = sql_run(&session, &sql_hold_find, &hold->id) > 0;
	if (found)
	{
		int count;
		DcCartLine *lines = hold_lines(&session, 0, &count);
		bool same = count == cart->count &&
			DatumGetBool(DirectFunctionCall2(interval_eq, hold->ttl, rows_datum(&session.rows, 0, 5)));

		for (int i = 0; same && i < count; i++)
			same = key_compare(&lines[i].key, &cart->lines[i].key) == 0 && lines[i].qty == cart->lines[i].qty;
		if (!same)
			ereport(ERROR,
					(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
					 errmsg("hold %s already exists with different arguments",
							DatumGetCString(DirectFunctionCall1(uuid_out, hold->id)))));
	}
	else if (if_any)
		sql_check_newer(&session, &sql_hold_find, &hold->id);
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
		maker = hold_maker(heap, counter->holds.index, id);
	table_close(heap, NoLock);
	if (!TransactionIdIsValid(maker))
		return false;
	XactLockTableWait(maker, NULL, NULL, XLTW_None);
	return true;
}

/*
 * hold_maker looks for a hold, or whatever has a uuid, in its unique index, and returns the
 * transaction that has made it and is in progress.
 */
TransactionId
hold_maker(Relation heap, Oid index_oid, Datum id)
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
insert_hold(const DcNewHold *hold)
{
	const DcCart *cart = &hold->cart;
	DcSqlSession session;
	Datum values[8];
	bool inserted;

	values[0] = hold->id;
	values[1] = key_text_datum(&cart->lines[0].key);
	values[2] = Int64GetDatum(hold->qty);
	values[3] = hold->ttl;
	values[4] = TimestampTzGetDatum(GetCurrentTimestamp());
	values[5] = DirectFunctionCall2(timestamptz_pl_interval, values[4], hold->ttl);
	if (cart->count > 1)
		hold_line_values(hold, &values[6], &values[7]);
	holds_begin(&session, cart->counter, RowExclusiveLock);
	if (cart->count > 1)
		holds_check_lines(cart->counter); /* code of the owner may have run since */
	inserted = sql_run(&session, cart->count > 1 ? &sql_hold_insert_lines : &sql_hold_insert, values) > 0;
	sql_end(&session);
	return inserted;
}

/*
 * hold_line_values makes arrays of the keys and quantities of a hold.
 */
static void
hold_line_values(const DcNewHold *hold, Datum *keys, Datum *qtys)
{
	const DcCart *cart = &hold->cart;
	Datum *key_values = palloc(cart->count * sizeof(Datum));
	Datum *qty_values = palloc(cart->count * sizeof(Datum));

	for (int i = 0; i < cart->count; i++)
	{
		key_values[i] = key_text_datum(&cart->lines[i].key);
		qty_values[i] = Int64GetDatum(cart->lines[i].qty);
	}
	*keys = PointerGetDatum(construct_array(key_values, cart->count, TEXTOID, -1, false, TYPALIGN_INT));
	*qtys = PointerGetDatum(construct_array(qty_values, cart->count, INT8OID, sizeof(int64), FLOAT8PASSBYVAL, TYPALIGN_DOUBLE));
}
