/*
 * transfer.c
 *		Transfers: dc_transfer() and dc_transfer_many().
 *
 * Copyright (c) 2026, the dcounter developers
 *
 * Protocol of a call:
 *
 *	1. Lock the tables, the balances first (ledger.c).
 *	2. The op (op.h): if it was posted before, answer with that transfer, and
 *	   change nothing. A concurrent duplicate waits here for the first, holding nothing that
 *	   others could wait for. Otherwise record the op.
 *	3. Find the rules of all accounts, and the amounts that go out of each and come in.
 *	4. Take from the limits of those that have some (accountbound.c), in the order of
 *	   their keys.
 *	5. Write the entries.
 *	6. Add to the balances, and to the limits on the other sides: pending increments,
 *	   which are written when the transaction commits, without waiting for another.
 *
 * So balances, limits, entries and op are written by one transaction, and a transaction keeps
 * nothing but rows of limits locked until it ends. Two calls wait for each other's rows of
 * limits in one direction only; so no order of accounts can make them deadlock. Several calls
 * in one transaction may deadlock, as several statements that lock rows may.
 */
#include "postgres.h"

#include "catalog/pg_type.h"
#include "common/hashfn.h"
#include "common/int.h"
#include "funcapi.h"
#include "miscadmin.h"
#include "utils/builtins.h"
#include "utils/timestamp.h"

#include "base/args.h"
#include "base/compat.h"
#include "core/counter/write.h"
#include "core/table/access.h"
#include "transactional/ledger/transfer.h"

PG_FUNCTION_INFO_V1(dc_transfer);
PG_FUNCTION_INFO_V1(dc_transfer_many);

/* Lines of one call. */
#define MAX_LINES 10000

static Datum transfer_post_entries(FunctionCallInfo fcinfo, const char *function, DcTransfer *transfer);
static DcLine *transfer_lines_arg(FunctionCallInfo fcinfo, int *n);
static void line_check(const DcLine *line);
static void rest_args(FunctionCallInfo fcinfo, DcTransfer *transfer);
static int64 transfer_digest(const DcTransfer *transfer, int64 pending);
static void check_same(const DcOp *op, const DcOp *first);
static int leg_compare(const void *a, const void *b);
static void leg_add(DcLeg *leg, int64 in, int64 out);

/*
 * dc_transfer(ledger regclass, from_key text|bigint|uuid, to_key, amount bigint,
 * op_id text, memo jsonb) -> (transfer_id bigint, duplicate boolean)
 *
 * Errors: 22023 for an amount that is not positive or equal accounts; LG001 when the
 * balance is too low, LG002 when it would be too high, LG003 when an account is not
 * open; 23505 when the op was posted with other arguments, LG004 when it is too old to
 * tell; 22003 when a balance overflows bigint. Needs INSERT and UPDATE on the ledger.
 */
Datum
dc_transfer(PG_FUNCTION_ARGS)
{
	DcTransfer transfer = {0};
	DcLine line;

	line_args(fcinfo, &line, &transfer);
	return transfer_post_entries(fcinfo, "dc_transfer()", &transfer);
}

/*
 * dc_transfer_many(ledger regclass, from_keys text[]|bigint[]|uuid[], to_keys,
 * amounts bigint[], op_id text, memo jsonb) -> (transfer_id, duplicate): several
 * lines as one transfer, all or nothing. The bounds of an account must hold after all
 * of them. Errors as of dc_transfer(); 2202E when the lengths differ.
 */
Datum
dc_transfer_many(PG_FUNCTION_ARGS)
{
	DcTransfer transfer = {0};

	counter_arg(fcinfo);
	transfer.lines = transfer_lines_arg(fcinfo, &transfer.n);
	rest_args(fcinfo, &transfer);
	return transfer_post_entries(fcinfo, "dc_transfer_many()", &transfer);
}

/*
 * Do what dc_transfer() and dc_transfer_many() share: post the lines of a transfer, unless its
 * op was posted before.
 */
static Datum
transfer_post_entries(FunctionCallInfo fcinfo, const char *function, DcTransfer *transfer)
{
	DcLedger *ledger = ledger_open(fcinfo, function, RowExclusiveLock, ACL_INSERT | ACL_UPDATE);
	DcLeg *legs;
	int nlegs;

	if (!transfer_begin(ledger, transfer, 0))
		return transfer_result(fcinfo, transfer->op.transfer_id, true);
	legs = transfer_legs(ledger, transfer->lines, transfer->n, &nlegs);
	limits_take(ledger, legs, nlegs);
	transfer_post(ledger, transfer, transfer->op.transfer_id, legs, nlegs);
	limits_give(ledger, legs, nlegs);
	return transfer_result(fcinfo, transfer->op.transfer_id, false);
}

/*
 * transfer_lines_arg reads the arrays in arguments 1 to 3.
 */
static DcLine *
transfer_lines_arg(FunctionCallInfo fcinfo, int *n)
{
	int nfrom;
	int nto;
	int namounts;
	Datum *from = key_array_arg(fcinfo, 1, &nfrom, NULL);
	Datum *to = key_array_arg(fcinfo, 2, &nto, NULL);
	Datum *amounts = array_arg(fcinfo, 3, "amounts", "amount", &namounts);
	DcLine *lines;

	if (nfrom != nto || nfrom != namounts)
		ereport(ERROR,
				(errcode(ERRCODE_ARRAY_SUBSCRIPT_ERROR),
				 errmsg("from_keys, to_keys and amounts must have the same length"),
				 errdetail("There are %d, %d and %d.", nfrom, nto, namounts)));
	if (nfrom == 0 || nfrom > MAX_LINES)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("a transfer must have between 1 and %d lines", MAX_LINES)));
	lines = palloc(nfrom * sizeof(DcLine));
	for (int i = 0; i < nfrom; i++)
	{
		key_from_text(from[i], &lines[i].from);
		key_from_text(to[i], &lines[i].to);
		lines[i].amount = DatumGetInt64(amounts[i]);
		line_check(&lines[i]);
	}
	*n = nfrom;
	return lines;
}

/*
 * line_args reads the arguments of a transfer of one line.
 */
void
line_args(FunctionCallInfo fcinfo, DcLine *line, DcTransfer *transfer)
{
	counter_arg(fcinfo);
	key_arg(fcinfo, 1, &line->from);
	key_arg(fcinfo, 2, &line->to);
	line->amount = amount_arg(fcinfo, 3, "amount");
	line_check(line);
	transfer->lines = line;
	transfer->n = 1;
	rest_args(fcinfo, transfer);
}

/*
 * line_check raises 22023 for an amount that is not positive, or for equal accounts.
 */
static void
line_check(const DcLine *line)
{
	if (line->amount <= 0)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("amount must be greater than zero")));
	if (key_compare(&line->from, &line->to) == 0)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("a transfer must be between two accounts")));
	account_check_key(&line->from);
	account_check_key(&line->to);
}

/*
 * rest_args reads op_id and memo, arguments 4 and 5.
 */
static void
rest_args(FunctionCallInfo fcinfo, DcTransfer *transfer)
{
	op_id_arg(fcinfo, 4, &transfer->op);
	transfer->has_memo = !PG_ARGISNULL(5);
	transfer->memo = transfer->has_memo ? PG_GETARG_DATUM(5) : (Datum) 0;
}

/*
 * transfer_begin notes the op of a transfer, with a new number of it. If it was noted before,
 * it returns false, and the op has the number of that transfer. `pending` must be the same
 * then, too: the time to live of a pending transfer (in microseconds, -1 if it does not
 * expire), 0 for one that is posted at once.
 */
bool
transfer_begin(DcLedger *ledger, DcTransfer *transfer, int64 pending)
{
	DcOp *op = &transfer->op;
	DcOpLog *log = ops_open(ledger->counter);
	DcOp first;
	bool duplicate;

	op->key = key_text_datum(&transfer->lines[0].from);
	op->delta = transfer->lines[0].amount;
	op->digest = transfer_digest(transfer, pending);
	op->at = GetCurrentTimestamp();
	duplicate = ops_lookup(log, op, &first);
	if (!duplicate)
	{
		op->transfer_id = entries_draw(ledger, 2 * transfer->n);
		duplicate = !ops_insert(log, op, &first);
	}
	ops_close(log);
	if (duplicate)
	{
		check_same(op, &first);
		op->transfer_id = first.transfer_id;
	}
	return !duplicate;
}

/*
 * transfer_digest returns a hash of the arguments that a duplicate must repeat.
 */
static int64
transfer_digest(const DcTransfer *transfer, int64 pending)
{
	uint64 hash = hash_combine64(transfer->n, pending);

	for (int i = 0; i < transfer->n; i++)
	{
		const DcLine *line = &transfer->lines[i];

		hash = hash_bytes_extended((const unsigned char *) line->from.data, line->from.len, hash);
		hash = hash_bytes_extended((const unsigned char *) line->to.data, line->to.len, hash);
		hash = hash_bytes_extended((const unsigned char *) &line->amount, sizeof(int64), hash);
	}
	return hash != 0 ? (int64) hash : 1;
}

/*
 * check_same raises 23505 if an op was noted with other arguments.
 */
static void
check_same(const DcOp *op, const DcOp *first)
{
	char *key;

	if (op->digest == first->digest)
		return;
	key = TextDatumGetCString(first->key);
	ereport(ERROR,
			(errcode(ERRCODE_UNIQUE_VIOLATION),
			 errmsg("op \"%.*s\" was already posted with different arguments",
					(int) op->id_len, op->id),
			 errdetail("It was posted by transfer %lld, whose first line moves %lld from \"%s\".",
					   (long long) first->transfer_id, (long long) first->delta, key)));
}

/*
 * transfer_legs returns by how much each account changes, in the order of their keys, and
 * under which rules.
 */
DcLeg *
transfer_legs(DcLedger *ledger, const DcLine *lines, int n, int *nlegs)
{
	DcLeg *legs = palloc0(2 * n * sizeof(DcLeg));
	int kept = 0;

	for (int i = 0; i < n; i++)
	{
		legs[2 * i].key = &lines[i].from;
		legs[2 * i].out = lines[i].amount;
		legs[2 * i + 1].key = &lines[i].to;
		legs[2 * i + 1].in = lines[i].amount;
	}
	qsort(legs, 2 * n, sizeof(DcLeg), leg_compare);
	for (int i = 0; i < 2 * n; i++)
	{
		if (kept > 0 && leg_compare(&legs[kept - 1], &legs[i]) == 0)
			leg_add(&legs[kept - 1], legs[i].in, legs[i].out);
		else
			legs[kept++] = legs[i];
	}
	for (int i = 0; i < kept; i++)
	{
		CHECK_FOR_INTERRUPTS();
		account_rules(ledger, legs[i].key, &legs[i].rules);
	}
	*nlegs = kept;
	return legs;
}

/*
 * Compare two legs by the keys of their accounts, for qsort().
 */
static int
leg_compare(const void *a, const void *b)
{
	CHECK_FOR_INTERRUPTS(); /* of a long qsort() */
	return key_compare(((const DcLeg *) a)->key, ((const DcLeg *) b)->key);
}

/*
 * Add amounts to a leg; 22003 if a sum overflows bigint.
 */
static void
leg_add(DcLeg *leg, int64 in, int64 out)
{
	if (pg_add_s64_overflow(leg->in, in, &leg->in) ||
		pg_add_s64_overflow(leg->out, out, &leg->out))
		ereport(ERROR,
				(errcode(ERRCODE_NUMERIC_VALUE_OUT_OF_RANGE),
				 errmsg("bigint out of range"),
				 errdetail("The sum of the amounts of one account is too large.")));
}

/*
 * transfer_post writes the entries, and adds to the balances. The numbers of the
 * entries were drawn with that of the transfer, unless the transfer is older.
 */
void
transfer_post(DcLedger *ledger, const DcTransfer *transfer, int64 transfer_id,
			  const DcLeg *legs, int nlegs)
{
	DcEntry *entries = palloc(2 * transfer->n * sizeof(DcEntry));
	DcEntries batch = {
		.entries = entries,
		.n = 2 * transfer->n,
		.transfer_id = transfer_id,
		.first_id = transfer->op.transfer_id,
		.memo = transfer->memo,
		.has_memo = transfer->has_memo,
		.at = transfer->op.at,
	};

	for (int i = 0; i < transfer->n; i++)
	{
		const DcLine *line = &transfer->lines[i];

		entries[2 * i].key = &line->from;
		entries[2 * i].amount = -line->amount;
		entries[2 * i + 1].key = &line->to;
		entries[2 * i + 1].amount = line->amount;
	}
	batch.op_id = PointerGetDatum(cstring_to_text_with_len(transfer->op.id,
														   transfer->op.id_len));
	entries_insert(ledger, &batch);
	for (int i = 0; i < nlegs; i++)
		counter_add_amounts(ledger->counter, legs[i].key, DC_NO_HINT, legs[i].in, legs[i].out);
}

/*
 * transfer_result returns (transfer_id, duplicate) from a function.
 */
Datum
transfer_result(FunctionCallInfo fcinfo, int64 transfer_id, bool duplicate)
{
	static TupleDesc desc = NULL;
	Datum values[2];
	bool nulls[2] = {false, false};

	if (desc == NULL)
	{
		MemoryContext old = MemoryContextSwitchTo(TopMemoryContext);
		TupleDesc fresh = CreateTemplateTupleDesc(2);

		TupleDescInitEntry(fresh, 1, "transfer_id", INT8OID, -1, 0);
		TupleDescInitEntry(fresh, 2, "duplicate", BOOLOID, -1, 0);
		desc = BlessTupleDesc(compat_described(fresh));
		MemoryContextSwitchTo(old);
	}
	values[0] = Int64GetDatum(transfer_id);
	values[1] = BoolGetDatum(duplicate);
	return HeapTupleGetDatum(heap_form_tuple(desc, values, nulls));
}
