/*
 * accountbound.c
 *		The amounts that the bounds of accounts let through.
 *
 * Copyright (c) 2026, the dcounter developers
 *
 * For each account with a lower bound the stock of limits has a key '-' || account,
 * with as many units as may still go out:
 *
 *		balance - min_balance - pending out
 *
 * and for each with an upper bound a key '+' || account, with units that may still come in:
 *
 *		max_balance - balance - pending in.
 *
 * A transfer takes from '-' of the one side and '+' of the other at once, by the stock's
 * algorithm (transactional/stock/take.c): that decides whether the bounds hold, waiting for other
 * transactions only where they hold the last units. It gives to the other two when it commits, like
 * an increment. The balances themselves are plain counters: so an account without bounds never
 * makes a transfer wait.
 *
 * Deadlocks: the takes of one call are in the order of their keys, so that calls that wait for
 * each other's units do so in one direction. Giving waits for no other transaction.
 */
#include "postgres.h"

#include "miscadmin.h"
#include "utils/snapmgr.h"

#include "core/counter/apply.h"
#include "core/counter/read.h"
#include "transactional/ledger/account.h"
#include "transactional/ledger/transferpending.h"
#include "transactional/stock/take.h"

/* The key of a limit; key.buf is too short for it. */
typedef struct DcLimitKey
{
	DcKey key;
	char bytes[DC_MAX_KEY_BYTES + 1];
} DcLimitKey;

static void ledger_limit_take(DcLedger *ledger, const DcLeg *leg, bool upper, int64 amount);
static int64 limit_left(DcLedger *ledger, const DcKey *key, bool upper);
static void limit_error(DcLedger *ledger, const DcLeg *leg, bool upper, int64 amount);

/*
 * Make the key of a limit: '+' (upper) or '-', and the key of the account. Raises 54000 if that
 * is too long.
 */
static void
limit_key(const DcKey *account, bool upper, DcLimitKey *limit)
{
	account_check_key(account);
	limit->bytes[0] = upper ? '+' : '-';
	memcpy(limit->bytes + 1, account->data, account->len);
	limit->key.data = limit->bytes;
	limit->key.len = account->len + 1;
}

/*
 * leg_out returns the amount that goes out of an account on balance; negative if more
 * comes in.
 */
static int64
leg_out(const DcLeg *leg)
{
	return leg->out - leg->in; /* both are not negative, so it fits */
}

/*
 * Return true if an account has an upper bound, or a lower one.
 */
static bool
is_bounded(const DcLeg *leg, bool upper)
{
	return upper ? leg->rules.has_max : leg->rules.has_min;
}

/*
 * limits_take takes the amounts that the bounds must let through; LG001 and LG002 if they
 * do not. The legs are in the order of their keys.
 */
void
limits_take(DcLedger *ledger, const DcLeg *legs, int nlegs)
{
	/* '+' comes before '-' */
	for (int upper = 1; upper >= 0; upper--)
	{
		for (int i = 0; i < nlegs; i++)
		{
			int64 amount = upper ? -leg_out(&legs[i]) : leg_out(&legs[i]);

			if (amount > 0 && is_bounded(&legs[i], upper))
				ledger_limit_take(ledger, &legs[i], upper, amount);
		}
	}
}

/*
 * limits_give gives to the bounds on the other sides, when the transaction commits.
 */
void
limits_give(DcLedger *ledger, const DcLeg *legs, int nlegs)
{
	for (int i = 0; i < nlegs; i++)
	{
		int64 out = leg_out(&legs[i]);

		if (out > 0 && legs[i].rules.has_max)
			limit_give(ledger, legs[i].key, true, out);
		if (out < 0 && legs[i].rules.has_min)
			limit_give(ledger, legs[i].key, false, -out);
	}
}

/*
 * limit_give adds to the amount that a bound lets through, when the transaction commits.
 */
void
limit_give(DcLedger *ledger, const DcKey *key, bool upper, int64 amount)
{
	DcLimitKey limit;

	if (amount == 0)
		return;
	limit_key(key, upper, &limit);
	stock_give(ledger->limits, &limit.key, amount);
}

/*
 * ledger_limit_take takes from one limit. If that has not enough, pending transfers whose time is
 * up may have.
 */
static void
ledger_limit_take(DcLedger *ledger, const DcLeg *leg, bool upper, int64 amount)
{
	DcLimitKey limit;

	limit_key(leg->key, upper, &limit);
	while (stock_take(ledger->limits, &limit.key, amount, 0) == 0)
	{
		CHECK_FOR_INTERRUPTS();
		if (!pendings_expire_key(ledger, leg->key))
			limit_error(ledger, leg, upper, amount);
		apply_early(); /* so that it can be taken */
	}
}

/*
 * Raise LG001 or LG002, with the balance and the amount that may still be moved as DETAIL.
 */
static void
limit_error(DcLedger *ledger, const DcLeg *leg, bool upper, int64 amount)
{
	int64 balance;
	int64 left;

	PushActiveSnapshot(GetLatestSnapshot());
	balance = counter_value(ledger->counter, leg->key);
	left = limit_left(ledger, leg->key, upper);
	PopActiveSnapshot();
	ereport(ERROR,
			(errcode(upper ? ERRCODE_DC_BALANCE_TOO_HIGH : ERRCODE_DC_BALANCE_TOO_LOW),
			 upper ? errmsg("the balance of account \"%.*s\" would be too high", (int) leg->key->len, leg->key->data)
				   : errmsg("not enough balance in account \"%.*s\"", (int) leg->key->len, leg->key->data),
			 upper ? errdetail("The balance is %lld, and %lld more may come in; the amount is %lld.",
							   (long long) balance, (long long) left, (long long) amount)
				   : errdetail("The balance is %lld, of which %lld may go out; the amount is %lld.",
							   (long long) balance, (long long) left, (long long) amount),
			 left >= amount ? errhint("It depends on transactions in progress: try again.") : 0));
}

/*
 * limit_left returns the amount that a bound lets through, in the active snapshot.
 */
static int64
limit_left(DcLedger *ledger, const DcKey *key, bool upper)
{
	DcLimitKey limit;

	limit_key(key, upper, &limit);
	return counter_value(ledger->limits, &limit.key);
}

/*
 * limit_set makes a limit exactly `amount`, while no transaction posts.
 */
void
limit_set(DcLedger *ledger, const DcKey *key, bool upper, int64 amount)
{
	DcLimitKey limit;
	int64 left;

	PushActiveSnapshot(GetLatestSnapshot());
	left = limit_left(ledger, key, upper);
	PopActiveSnapshot();
	limit_key(key, upper, &limit);
	if (amount > left)
		stock_give(ledger->limits, &limit.key, amount - left);
	else if (amount < left &&
			 stock_take(ledger->limits, &limit.key, left - amount, TAKE_WAIT) == 0)
		elog(ERROR, "limit of an account could not be changed");
}
