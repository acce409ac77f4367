/*
 * take.c
 *		Taking units of one key of a stock.
 *
 * A take changes rows at once, not when its transaction commits: it must know
 * whether there is enough. So its row is locked until the transaction ends,
 * and others use other rows:
 *
 *	1. The gate (gate.c) refuses a key that is sold out, before the tables are
 *	   opened.
 *	2. A row that nobody has, with enough units in it: first the one that this backend
 *	   took from last, then the others that it knows, then those the index knows.
 *	3. A survey of the key (survey.c) tells what else there is. If the free rows
 *	   have enough together, it is taken from several of them, in a
 *	   subtransaction: what others snatch away in the meantime makes it start again,
 *	   with nothing locked.
 *	4. If there is enough for sure, but in rows that others have locked, wait for
 *	   one of these transactions and start again. A survey in the middle of a
 *	   compaction decides nothing: wait for its end.
 *	5. Expired holds of the key are given back, once, to a row of our own.
 *	6. Otherwise there may be enough, if others roll back; whoever wants to
 *	   know waits for them. All others are told no, as are all if there is not
 *	   enough in any case. Only then, and only if nothing at all is left, is the
 *	   gate shut.
 *
 * Whoever waits here has no row of the key locked, but for what earlier takes of
 * his transaction have. Two transactions that take of several keys in different
 * orders may deadlock, as with any row locks; dc_take_all() sorts its keys.
 *
 * Isolation. The latest committed versions decide, at any level. Under REPEATABLE
 * READ and SERIALIZABLE a version that is newer than the transaction's snapshot
 * must not be built upon (units.c): other rows are tried, and if it takes such
 * a version the error is 40001. Under SERIALIZABLE the whole key is read in the
 * snapshot as well, for the predicate locks, the gate is not asked, and "no" is
 * 40001 as well if the snapshot shows other units than there are.
 */
#include "postgres.h"

#include "access/xact.h"
#include "base/compat.h"
#include "common/hashfn.h"
#include "counter/access.h"
#include "counter/apply.h"
#include "counter/pending.h"
#include "counter/read.h"
#include "counter/scan.h"
#include "counter/units.h"
#include "miscadmin.h"
#include "stock/gate.h"
#include "stock/hold.h"
#include "stock/survey.h"
#include "stock/take.h"
#include "storage/lmgr.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"
#include "utils/resowner.h"
#include "utils/snapmgr.h"

/* What was surveyed has changed, or was waited for. */
#define AGAIN (-1)

static bool has_pending(Oid counter, const DcKey *key);
static bool is_refused(const DcDeltaKey *key, bool pending);
static int64 take_units(DcShardRel *rel, const DcDeltaKey *key, int64 qty,
						int flags, uint64 epoch);
static int64 take_from_one(DcShardRel *rel, const DcDeltaKey *key, int64 qty);
static int64 take_after_survey(DcShardRel *rel, const DcDeltaKey *key,
							   int64 qty, int flags, uint64 epoch);
static int64 survey_and_take(DcShardRel *rel, const DcDeltaKey *key,
							 int64 *qty, int flags, bool *looked_for_holds,
							 uint64 epoch);
static bool take_from_many(DcShardRel *rel, const DcDeltaKey *key, int64 qty,
						   const DcSurvey *survey);
static int64 take_parts(DcShardRel *rel, const DcDeltaKey *key, int64 qty,
						const DcSurvey *survey);
static int row_compare(const void *a, const void *b);
static void wait_for(DcShardRel *rel, TransactionId xid);
static void shut_gate(DcCounter *counter, const DcDeltaKey *key,
					  const DcSurvey *survey, uint64 epoch);
static void serialization_error(void);
static void count_take(DcCounter *counter, const DcDeltaKey *key,
					   DcShardRel *rel, bool taken);

/*
 * stock_open_to_write opens the stock in argument 0 for a function that changes
 * it. 42809 for a counter table that is none.
 */
DcCounter *
stock_open_to_write(FunctionCallInfo fcinfo, const char *function)
{
	DcCounter *counter = counter_open_to_write(fcinfo, function);

	if (!counter_is_stock(counter))
		ereport(ERROR,
				(errcode(ERRCODE_WRONG_OBJECT_TYPE),
				 errmsg("counter table \"%s\" is not a stock",
						get_rel_name(counter->relid)),
				 errhint("Create a stock with dc_create_stock().")));
	units_check(counter);
	return counter;
}

/*
 * stock_is_shut tells whether the gate refuses a key. Then the stock need not be
 * opened, which would cost more than to ask: what is marked is a stock.
 */
bool
stock_is_shut(FunctionCallInfo fcinfo, const DcKey *key, const char *function)
{
	DcDeltaKey delta_key;

	delta_key.counter = counter_arg(fcinfo);
	delta_key.data = key->data;
	delta_key.len = key->len;
	if (!is_refused(&delta_key, has_pending(delta_key.counter, key)))
		return false;
	counter_check_write(delta_key.counter, function);
	return true;
}

/*
 * has_pending tells whether this transaction has added units that are not
 * written yet.
 */
static bool
has_pending(Oid counter, const DcKey *key)
{
	int64 inc;
	int64 dec;

	pending_lookup(counter, key, &inc, &dec);
	return inc > 0;
}

/*
 * is_refused asks the gate, if it may decide.
 */
static bool
is_refused(const DcDeltaKey *key, bool pending)
{
	return !pending && !IsolationIsSerializable() && gate_is_shut(key);
}

/*
 * quantity_arg returns a quantity, which is a positive bigint (22004, 22023).
 */
int64
quantity_arg(FunctionCallInfo fcinfo, int argno)
{
	int64 qty = amount_arg(fcinfo, argno, "qty");

	if (qty <= 0)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("qty must be greater than zero")));
	return qty;
}

/*
 * stock_give adds units to a key, when this transaction commits.
 */
void
stock_give(DcCounter *counter, const DcKey *key, int64 qty)
{
	if (pending_memory_is_full(key))
		apply_when_full();
	pending_add(counter->relid, key, DC_NO_HINT, qty, 0);
	apply_if_late();
}

/*
 * stock_take takes units of a key and returns how many: all, or none, or with
 * TAKE_PARTLY as many as there are.
 */
int64
stock_take(DcCounter *counter, const DcKey *key, int64 qty, int flags)
{
	/* no code of a user runs below, so this is not entered twice */
	static MemoryContext cxt = NULL;
	MemoryContext old = CurrentMemoryContext;
	bool serializable = IsolationIsSerializable();
	DcShardRel rel;
	DcDeltaKey delta_key;
	uint64 epoch;
	int64 seen = 0;
	int64 taken;
	bool pending;

	delta_key.counter = counter->relid;
	delta_key.data = key->data;
	delta_key.len = key->len;
	pending = has_pending(counter->relid, key);
	if (is_refused(&delta_key, pending))
		return 0;

	/* what we have added ourselves can be taken */
	if (pending)
		apply_early();
	if (cxt == NULL)
		cxt = AllocSetContextCreate(TopMemoryContext, "dcounter take",
									ALLOCSET_DEFAULT_SIZES);
	MemoryContextReset(cxt);
	MemoryContextSwitchTo(cxt);

	if (serializable)
		seen = counter_value(counter, key); /* with predicate locks */
	epoch = gate_epoch(&delta_key);
	shardrel_open(&rel, counter, true);
	taken = take_units(&rel, &delta_key, qty, flags, epoch);
	if (serializable && taken == 0 &&
		seen != survey_key(&rel, &delta_key, PG_INT64_MAX)->committed)
		serialization_error();
	count_take(counter, &delta_key, &rel, taken > 0);
	shardrel_close(&rel);
	MemoryContextSwitchTo(old);
	if (taken > 0)
		CommandCounterIncrement(); /* the next take must find what we wrote */
	return taken;
}

static int64
take_units(DcShardRel *rel, const DcDeltaKey *key, int64 qty, int flags,
		   uint64 epoch)
{
	int64 taken = take_from_one(rel, key, qty);

	if (taken == 0)
	{
		scan_hints(rel, hints_get(key));
		taken = take_from_one(rel, key, qty);
	}
	if (taken == 0)
		taken = take_after_survey(rel, key, qty, flags, epoch);
	return taken;
}

/*
 * take_from_one takes from one of the rows that this backend knows. It stays with a
 * row until that is busy or empty, so backends soon have a row each.
 */
static int64
take_from_one(DcShardRel *rel, const DcDeltaKey *key, int64 qty)
{
	DcHintList *list = hints_get(key);
	int n = list->nhints;
	int i = list->last;
	int64 taken;

	if (i < 0 && n > 0)
		i = (int) (murmurhash32((uint32) compat_backend_number()) % n);
	while (n-- > 0)
	{
		if (i >= list->nhints)
			i = 0;
		switch (units_take(rel, key, &list->hints[i], qty, qty, false, &taken))
		{
			case TAKE_DONE:
				list->last = i;
				return taken;
			case TAKE_GONE:
				hints_remove(list, i);
				break;
			default:
				i++;
		}
	}
	return 0;
}

/*
 * take_after_survey does what the file's head says from step 3 on.
 */
static int64
take_after_survey(DcShardRel *rel, const DcDeltaKey *key, int64 qty, int flags,
				  uint64 epoch)
{
	MemoryContext cxt = AllocSetContextCreate(CurrentMemoryContext,
											  "dcounter survey",
											  ALLOCSET_DEFAULT_SIZES);
	MemoryContext old = MemoryContextSwitchTo(cxt);
	bool looked_for_holds = false;
	int64 taken;

	do
	{
		CHECK_FOR_INTERRUPTS();
		MemoryContextReset(cxt);
		taken = survey_and_take(rel, key, &qty, flags, &looked_for_holds, epoch);
	} while (taken == AGAIN);
	MemoryContextSwitchTo(old);
	MemoryContextDelete(cxt);
	return taken;
}

/*
 * survey_and_take makes one survey, and returns what was taken, or AGAIN. Where
 * a part will do, *qty becomes what there is.
 */
static int64
survey_and_take(DcShardRel *rel, const DcDeltaKey *key, int64 *qty, int flags,
				bool *looked_for_holds, uint64 epoch)
{
	DcSurvey *survey = survey_key(rel, key, *qty);

	if (survey->free - survey->unseen >= *qty)
		return take_from_many(rel, key, *qty, survey) ? *qty : AGAIN;
	if (survey->sure >= *qty)
	{
		if (survey->free >= *qty || !TransactionIdIsValid(survey->holder))
			serialization_error(); /* units that are too new */
		wait_for(rel, survey->holder);
		return AGAIN;
	}
	if (TransactionIdIsValid(survey->compactor))
	{
		wait_for(rel, survey->compactor);
		return AGAIN;
	}
	if (!*looked_for_holds)
	{
		*looked_for_holds = holds_expire_key(rel->counter, key) == 0;
		if (!*looked_for_holds)
			return AGAIN;
	}
	if ((flags & TAKE_PARTLY) && survey->sure > 0)
	{
		*qty = survey->sure;
		return AGAIN;
	}
	if ((flags & TAKE_WAIT) && survey->possible >= *qty)
	{
		wait_for(rel, survey->holder);
		return AGAIN;
	}
	shut_gate(rel->counter, key, survey, epoch);
	return 0;
}

/*
 * take_from_many takes from several free rows; false, with nothing done, if
 * they have not enough any more.
 */
static bool
take_from_many(DcShardRel *rel, const DcDeltaKey *key, int64 qty,
			   const DcSurvey *survey)
{
	MemoryContext cxt = CurrentMemoryContext;
	ResourceOwner owner = CurrentResourceOwner;
	bool done;

	(void) shardrel_index(rel); /* opened by now, so by our resource owner */
	BeginInternalSubTransaction(NULL);
	MemoryContextSwitchTo(cxt);
	done = take_parts(rel, key, qty, survey) == 0;
	if (done)
		ReleaseCurrentSubTransaction();
	else
		RollbackAndReleaseCurrentSubTransaction();
	MemoryContextSwitchTo(cxt);
	CurrentResourceOwner = owner;
	return done;
}

/*
 * take_parts takes from the free rows of a survey, those with the most units
 * first, and returns how many are still missing.
 */
static int64
take_parts(DcShardRel *rel, const DcDeltaKey *key, int64 qty,
		   const DcSurvey *survey)
{
	DcSurveyRow *rows = palloc(Max(survey->nrows, 1) * sizeof(DcSurveyRow));

	memcpy(rows, survey->rows, survey->nrows * sizeof(DcSurveyRow));
	qsort(rows, survey->nrows, sizeof(DcSurveyRow), row_compare);
	for (int i = 0; i < survey->nrows && qty > 0; i++)
	{
		DcTakeResult result;
		DcHint hint;
		int64 taken;

		if (rows[i].units <= 0 ||
			TransactionIdIsValid(rows[i].inserter) ||
			TransactionIdIsValid(rows[i].changer))
			continue;
		/* where the version is; there is no root to fall back to */
		hint.shard = rows[i].shard;
		ItemPointerSet(&hint.root, ItemPointerGetBlockNumber(&rows[i].tid),
					   InvalidOffsetNumber);
		hint.newest = ItemPointerGetOffsetNumber(&rows[i].tid);
		hint.buffer = InvalidBuffer;
		result = units_take(rel, key, &hint, 1, qty, false, &taken);
		if (result == TAKE_REFUSED)
			result = units_take(rel, key, &hint, 1, qty, true, &taken);
		if (result == TAKE_DONE)
			qty -= taken;
	}
	pfree(rows);
	return qty;
}

static int
row_compare(const void *a, const void *b)
{
	int64 left = ((const DcSurveyRow *) a)->units;
	int64 right = ((const DcSurveyRow *) b)->units;

	return left > right ? -1 : left < right;
}

/*
 * wait_for waits until a transaction has ended that a survey has met. It may be
 * cancelled, and lock_timeout counts.
 */
static void
wait_for(DcShardRel *rel, TransactionId xid)
{
	rel->stats.waits++;
	XactLockTableWait(xid, NULL, NULL, XLTW_None);
}

/*
 * shut_gate shuts the gate if nothing is left, and nothing can come back but by
 * somebody who opens it: see gate.c.
 */
static void
shut_gate(DcCounter *counter, const DcDeltaKey *key, const DcSurvey *survey,
		  uint64 epoch)
{
	if (survey->committed == 0 && survey->settled &&
		!IsolationUsesXactSnapshot() &&
		!TransactionIdIsValid(GetTopTransactionIdIfAny()))
		gate_shut(key, epoch, holds_first_expiry(counter, key));
}

static void
serialization_error(void)
{
	ereport(ERROR,
			(errcode(ERRCODE_T_R_SERIALIZATION_FAILURE),
			 errmsg("could not serialize access due to concurrent update")));
}

/*
 * count_take adds to the statistics what a take has met. A refusal writes
 * nothing, so that it can stay in a transaction that writes nothing.
 */
static void
count_take(DcCounter *counter, const DcDeltaKey *key, DcShardRel *rel,
		   bool taken)
{
	if (!taken || !stats_enabled())
		return;
	rel->stats.increments = 1;
	rel->stats.keys = 1;
	stats_applied(counter, &rel->stats);
	stats_hot_key(counter, key->data, key->len, 1);
}
