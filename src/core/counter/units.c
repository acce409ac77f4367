/*
 * units.c
 *		The shard rows of a stock: adding units and taking them.
 *
 * Copyright (c) 2026, the dcounter developers
 *
 * A stock's shard row has, besides the amounts that are not compacted yet, the
 * number of units that may be taken from it (column "units"). Compaction moves the
 * amounts away and leaves the units. So for each key
 *
 *		base.inc - base.dec + sum(inc - dec)  =  sum(units),
 *
 * both sides being what is available, and each row's units are never negative.
 * A transaction that takes n units from a row updates it: dec + n, units - n. The lock
 * on the row makes the decision: no other transaction can take from the row until this
 * one has ended, and it then finds either the new version or the old one. So no
 * combination of commits and aborts can oversell, and nothing has to be checked at
 * commit.
 *
 * How units get to rows. A transaction that adds does so when it commits, as with any increment
 * (apply.c), so that it locks no row others could take from for longer than that. Many units are
 * spread over several rows: about twice the square root of their number, so that an open
 * transaction that took one unit keeps few others from the rest, and a small stock needs few rows.
 * Units that come back (from a hold) go to one row: they were taken from one, and as each backend
 * gives them to its own, they stay spread. Where increments use a row of the transaction's own,
 * units do too.
 *
 * Units that are already there are moved from row to row by compaction only, whose
 * transactions are short. A take does not move any: it would keep other takes from those
 * units until its transaction ends.
 */
#include "postgres.h"

#include <math.h>

#include "access/htup_details.h"
#include "access/xact.h"
#include "miscadmin.h"
#include "utils/lsyscache.h"
#include "utils/snapmgr.h"

#include "base/hooks.h"
#include "core/counter/serial.h"
#include "core/counter/units.h"
#include "core/rows/scan.h"
#include "core/rows/shardnumber.h"

static void add_to_own(DcDirectRel *rel, const DcDelta *delta, DcHintList *list,
					   int32 number);
static void add_to_many(DcDirectRel *rel, const DcDelta *delta,
						DcHintList *list, int rows, int32 number, bool own);
static bool is_seen(DcVersion *version);

/*
 * units_check raises 55000 if a stock's tables have something, such as a trigger, that the direct
 * path would skip (layout.c).
 */
void
units_check(DcCounter *counter)
{
	if (counter->direct_write)
		return;
	ereport(ERROR,
			(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
			 errmsg("stock \"%s\" cannot be used with its tables as they are",
					get_rel_name(counter->relid)),
			 errdetail("The tables of a stock must be plain tables, and \"%s\" must have no triggers, rules, check constraints, additional columns or indexes.",
					   get_rel_name(counter->row.shards))));
}

/*
 * units_rows returns the number of rows that units should be spread over. A ledger has many
 * accounts, whose amounts are taken in large parts, so there only contention creates rows.
 */
int
units_rows(const DcCounter *counter, int64 units)
{
	double rows = 2 * ceil(sqrt((double) Max(units, 0)));

	if (counter_is_limit(counter))
		return 1;
	if (rows > units)
		rows = units;
	return (int) Max(Min(rows, counter->row.max_shards), 1);
}

/*
 * units_add adds units to a key: to its rows, or, if `own`, to rows that no other
 * transaction sees before this one has committed.
 */
void
units_add(DcDirectRel *rel, const DcDelta *delta, DcShardChoice choice,
		  int32 number, bool own)
{
	DcHintList *list = hints_get(&delta->key);
	int rows = units_rows(rel->counter, delta->inc - delta->back - delta->dec);

	/* the first amounts of a key cannot be split (dc_set) */
	if (rows > 1 && delta->dec == 0)
		add_to_many(rel, delta, list, rows, number, own);
	else if (own)
		add_to_own(rel, delta, list, number);
	else
		direct_add(rel, delta, choice, number, NULL);
	/* after the rows are written, and before they can be seen (gate.c) */
	if (stock_hooks != NULL)
		stock_hooks->units_added(rel->counter, &delta->key);
}

/*
 * add_to_own adds to the row of this transaction's own number. In rare cases the transaction has
 * not inserted that row itself (serial.c).
 */
static void
add_to_own(DcDirectRel *rel, const DcDelta *delta, DcHintList *list,
		   int32 number)
{
	for (int attempt = 0; attempt < 2; attempt++)
	{
		for (int i = 0; i < list->nhints; i++)
		{
			DcProbe probe;

			if (list->hints[i].shard != number ||
				probe_row(rel, &delta->key, &list->hints[i], &probe) != DC_PROBE_FREE)
				continue;
			if (!direct_has_room(rel, delta)) /* only if the row was written by hand */
				version_release(&probe.version);
			else if (direct_update(rel, delta, &list->hints[i], &probe.version, ROW_LOCK))
			{
				serial_mark(rel, &delta->key);
				return;
			}
		}
		scan_hints(rel, list);
	}
	direct_insert_row(rel, delta, list, number);
}

/*
 * add_to_many spreads units evenly over free rows of the key and new ones; units that are given
 * back go to the first row.
 */
static void
add_to_many(DcDirectRel *rel, const DcDelta *delta, DcHintList *list, int rows,
			int32 number, bool own)
{
	DcDelta part = *delta;
	int64 back = delta->back;
	int64 left = delta->inc - back;
	int done = 0;
	int known;

	scan_hints(rel, list); /* also to learn which numbers are in use */
	known = own ? 0 : list->nhints;
	for (int i = 0; i < Min(known, list->nhints) && done < rows; i++)
	{
		int64 share = left / (rows - done); /* all of it for the last */
		DcProbe probe;

		part.inc = share + back;
		if (probe_row(rel, &delta->key, &list->hints[i], &probe) == DC_PROBE_FREE &&
			direct_update(rel, &part, &list->hints[i], &probe.version, ROW_TRY))
		{
			left -= share;
			back = 0;
			done++;
		}
	}
	/* the last part is all that is left, should there be no room for more rows */
	while (left > 0)
	{
		bool last = done >= rows - 1 ||
			(!own && list->nhints + 1 >= rel->counter->row.max_shards);
		int64 share = last ? left : left / (rows - done);

		CHECK_FOR_INTERRUPTS();
		part.inc = share + back;
		direct_insert_row(rel, &part, list, number);
		number = random_shard();
		left -= share;
		back = 0;
		done++;
	}
}

/*
 * units_take takes from a row between `least` and `most` units, as many as it
 * has, and sets *taken. If `lock`, it locks the row first, as direct_update() says.
 */
DcTakeResult
units_take(DcDirectRel *rel, const DcDeltaKey *key, DcHint *hint, int64 least,
		   int64 most, bool lock, int64 *taken)
{
	AttrNumber att = rel->layout->atts[DC_COL_UNITS];
	DcDelta delta = {0};
	DcProbe probe;
	int64 units;

	switch (probe_row(rel, key, hint, &probe))
	{
		case DC_PROBE_FREE:
			break;
		case DC_PROBE_BUSY:
			rel->stats.busy_skips++;
			return TAKE_BUSY;
		case DC_PROBE_GONE:
			return TAKE_GONE;
	}
	units = DatumGetInt64(rel->values[att - 1]);
	if (units < least || units <= 0)
	{
		version_release(&probe.version);
		return TAKE_SHORT;
	}
	if (!is_seen(&probe.version))
	{
		version_release(&probe.version);
		return TAKE_UNSEEN;
	}
	delta.key = *key;
	delta.dec = Min(units, most);
	if (!direct_update(rel, &delta, hint, &probe.version, lock ? ROW_LOCK : ROW_TRY))
	{
		rel->stats.busy_skips++;
		return TAKE_REFUSED;
	}
	*taken = delta.dec;
	return TAKE_DONE;
}

/*
 * Return true if this transaction sees a live version. A transaction with one
 * snapshot must not build upon a version that is newer than it: a read of the key would
 * show the transaction's own new version next to rows, and the row of totals, as they
 * were before.
 */
static bool
is_seen(DcVersion *version)
{
	if (!IsolationUsesXactSnapshot() ||
		TransactionIdIsCurrentTransactionId(HeapTupleHeaderGetXmin(version->tuple.t_data)))
		return true;
	return version_is_visible(version, GetTransactionSnapshot());
}
