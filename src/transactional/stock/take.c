/*
 * take.c
 *		Taking units of one key of a stock.
 *
 * Copyright (c) 2026, the dcounter developers
 *
 * A take changes rows at once, not when its transaction commits: it must know
 * whether there is enough. So its row is locked until the transaction ends,
 * and other takes use other rows:
 *
 *	1. The gate (gate.c) refuses a key that is sold out, before the tables are
 *	   opened.
 *	2. Take from a row that no transaction has locked and that has enough units: first the
 *	   one that this backend took from last, then the others that it knows, then those
 *	   that the index knows.
 *	3. Otherwise a survey of the key (survey.c) shows all of its rows. If the free rows
 *	   have enough together, take from several of them, in a subtransaction. If other
 *	   takes are faster, it is rolled back and all starts again, with nothing locked.
 *	4. A snapshot that shows less than is wanted settles it: no more was sure.
 *	   If it shows enough, an exact survey decides. If there is certainly enough, but in rows that
 *	   other transactions have locked, wait for one of these and start again. A survey in the middle
 *	   of a compaction decides nothing: wait for its end.
 *	5. If expired holds of the key would make it enough, their units are given back to a
 *	   row of this transaction. That is done for a few holds at a time: units that it
 *	   does not take come to others only when it commits.
 *	6. Otherwise there may be enough, if other transactions roll back. A take with
 *	   TAKE_WAIT waits for them. Any other take is refused, and every take is if there is
 *	   not enough in any case. Only then, and only if nothing at all is left, is the
 *	   gate shut.
 *
 * A take that waits has no row of the key locked, except for those of earlier takes of its
 * transaction. Two transactions that take of several keys in different orders may deadlock, as with
 * any row locks; dc_take_all() sorts its keys.
 *
 * Isolation. The latest committed versions decide, at any level. Under REPEATABLE
 * READ and SERIALIZABLE a version that is newer than the transaction's snapshot
 * must not be built upon (units.c): other rows are tried, and if only such
 * a version is left the error is 40001. Under SERIALIZABLE the gate is not asked. A take
 * that gets something leaves a mark for transactions that read the key (serial.c). For one
 * that gets less than was asked for the whole key is read in the snapshot, for the predicate
 * locks, and "no" is 40001 unless the snapshot shows as few units as there are.
 */
#include "postgres.h"

#include "access/xact.h"
#include "common/hashfn.h"
#include "miscadmin.h"
#include "storage/lmgr.h"
#include "utils/memutils.h"
#include "utils/snapmgr.h"

#include "base/compat.h"
#include "base/errors.h"
#include "base/hooks.h"
#include "base/subxact.h"
#include "core/counter/apply.h"
#include "core/counter/pending.h"
#include "core/counter/read.h"
#include "core/counter/serial.h"
#include "core/counter/units.h"
#include "core/rows/scan.h"
#include "core/stats/stats.h"
#include "core/table/access.h"
#include "transactional/stock/gate.h"
#include "transactional/stock/hold.h"
#include "transactional/stock/survey.h"
#include "transactional/stock/take.h"

/* How often to end expired holds; an owner's trigger may undo it. */
#define MAX_HOLD_ROUNDS 100

/* How often to look again when units may have come from a hold. */
#define MAX_RACES 10

/* A take after a survey. */
typedef struct DcAttempt
{
	DcDirectRel *rel;
	const DcDeltaKey *key;
	int64 wanted;
	int64 qty;		/* less than wanted, once that is known to be all */
	bool partly;	/* fewer are accepted, as many as there are */
	bool below;		/* a snapshot had too few */
	int64 holds;	/* expired ones to end next time; 0: none */
	int rounds;		/* of that */
	bool free_only; /* fewer are accepted, as many as are free */
	int failures;	/* of takes from several rows */
	int64 taken;
} DcAttempt;

/* A take from several rows. */
typedef struct DcParts
{
	DcDirectRel *rel;
	const DcDeltaKey *key;
	int64 qty;
	const DcSurvey *survey;
} DcParts;

/* The key has changed since the survey, or was waited for. */
#define AGAIN (-1)

static bool take_has_pending(Oid counter, const DcKey *key);
static bool is_refused(const DcDeltaKey *key, bool pending);
static int64 take_units(DcDirectRel *rel, const DcDeltaKey *key, int64 qty,
						int flags, uint64 epoch);
static int64 take_from_one(DcDirectRel *rel, const DcDeltaKey *key, int64 qty);
static int64 take_after_survey(DcDirectRel *rel, const DcDeltaKey *key,
							   int64 qty, int flags, uint64 epoch);
static bool take_with_holds(DcAttempt *attempt);
static bool wait_for_possible(DcAttempt *attempt);
static bool try_until_decided(void *arg);
static int64 survey_and_take(DcAttempt *attempt);
static int64 take_what_is_sure(DcAttempt *attempt);
static bool committed_below(DcCounter *counter, const DcDeltaKey *key,
							int64 qty);
static int64 pause_after_failure(DcAttempt *attempt);
static bool take_parts(void *arg);
static int compare_taken(const void *a, const void *b);
static int64 take_wait_for(DcAttempt *attempt, TransactionId xid);
static void shut_gate(DcDirectRel *rel, const DcDeltaKey *key, uint64 epoch);
static void take_check_snapshot(DcDirectRel *rel, const DcKey *key, int64 qty,
								int flags);
static void count_take(DcCounter *counter, const DcDeltaKey *key,
					   DcDirectRel *rel, bool taken);

/*
 * Return true if the gate refuses a key. Then the stock need not be opened, which would cost more
 * than asking the gate: only keys of stocks are marked.
 */
bool
stock_is_shut(FunctionCallInfo fcinfo, const DcKey *key, const char *function)
{
	DcDeltaKey shard_key = delta_key(counter_arg(fcinfo), key);

	if (!is_refused(&shard_key, take_has_pending(shard_key.counter, key)))
		return false;
	counter_check_write(shard_key.counter, function);
	return true;
}

/*
 * Return true if this transaction has added units that are not
 * written yet.
 */
static bool
take_has_pending(Oid counter, const DcKey *key)
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
 * stock_take takes units of a key and returns how many: all, or none, or with
 * TAKE_PARTLY as many as there are.
 */
int64
stock_take(DcCounter *counter, const DcKey *key, int64 qty, int flags)
{
	/* code that an owner has put on the tables may run below, but cannot come here:
	 * it runs in a security-restricted operation (prevent_write) */
	static MemoryContext cxt = NULL;
	MemoryContext old = CurrentMemoryContext;
	DcDirectRel rel;
	DcDeltaKey shard_key = delta_key(counter->relid, key);
	uint64 epoch;
	int64 taken;
	bool pending;

	if (counter_has_rights(counter))
		region_hooks->check_rights(counter);
	pending = take_has_pending(counter->relid, key);
	if (is_refused(&shard_key, pending))
		return 0;

	/* units that this transaction has added can be taken */
	if (pending)
		apply_early();
	if (cxt == NULL)
		cxt = AllocSetContextCreate(TopMemoryContext, "dcounter take",
									ALLOCSET_DEFAULT_SIZES);
	MemoryContextReset(cxt);
	MemoryContextSwitchTo(cxt);

	epoch = gate_epoch(&shard_key);
	directrel_open(&rel, counter, DC_TABLE_SHARDS, true);
	taken = take_units(&rel, &shard_key, qty, flags, epoch);
	if (taken > 0)
	{
		CommandCounterIncrement(); /* the next take must find the row */
		serial_mark(&rel, &shard_key);
	}
	if (taken < qty && IsolationIsSerializable())
		take_check_snapshot(&rel, key, qty, flags);
	count_take(counter, &shard_key, &rel, taken > 0);
	directrel_close(&rel);
	MemoryContextSwitchTo(old);
	return taken;
}

/*
 * Take units from the rows that this backend knows, then from those in the index, and then after a
 * survey. Return the number of units taken.
 */
static int64
take_units(DcDirectRel *rel, const DcDeltaKey *key, int64 qty, int flags,
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
 * take_from_one takes from one of the rows that this backend knows. It stays with a row until
 * that is busy or empty, so each backend soon has a row of its own.
 */
static int64
take_from_one(DcDirectRel *rel, const DcDeltaKey *key, int64 qty)
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
 * take_after_survey performs the steps in the file's head from 3 on, and all of them again after it
 * has waited for units that may come.
 */
static int64
take_after_survey(DcDirectRel *rel, const DcDeltaKey *key, int64 qty, int flags,
				  uint64 epoch)
{
	DcAttempt attempt = {.rel = rel, .key = key, .wanted = qty};
	int races = 0;

	(void) directrel_index(rel); /* not in a subtransaction, which would own it */
	if (flags & TAKE_FREE)
	{
		attempt.free_only = true;
		return try_until_decided(&attempt) ? attempt.taken : 0;
	}
	for (;;)
	{
		attempt.partly = false;
		if (try_until_decided(&attempt))
			return attempt.taken;
		attempt.partly = (flags & TAKE_PARTLY) != 0;
		if (take_with_holds(&attempt))
			return attempt.taken;
		if (attempt.partly && try_until_decided(&attempt))
			return attempt.taken;
		if ((flags & TAKE_WAIT) && wait_for_possible(&attempt))
			continue;
		/* holds may have been ended by others since we counted the units */
		if (!attempt.below || committed_below(rel->counter, key, qty) ||
			++races > MAX_RACES)
			break;
	}
	shut_gate(rel, key, epoch);
	return 0;
}

/*
 * take_with_holds ends expired holds of the key, if their units would be enough, and tries again.
 * If that does not help, it must be undone, so it is done in a subtransaction.
 */
static bool
take_with_holds(DcAttempt *attempt)
{
	DcCounter *counter = attempt->rel->counter;
	int64 expired = holds_expired_units(counter, attempt->key, true);
	bool done;

	if (expired == 0 ||
		(!attempt->partly &&
		 committed_below(counter, attempt->key, attempt->wanted - expired)))
		return false;
	/* units that are too new for this transaction's snapshot */
	if (IsolationUsesXactSnapshot() &&
		holds_expired_units(counter, attempt->key, false) < expired)
		serialization_error();
	attempt->holds = 1;
	attempt->rounds = 0;
	done = subxact_run(try_until_decided, attempt);
	attempt->holds = 0;
	return done;
}

/*
 * wait_for_possible waits for a transaction that may leave enough; false if there is
 * none.
 */
static bool
wait_for_possible(DcAttempt *attempt)
{
	DcSurvey *survey = survey_exactly(attempt->rel, attempt->key, attempt->wanted);

	if (survey == NULL)
		return true; /* too much is changing to tell */
	if (survey->possible < attempt->wanted)
		return false;
	if (TransactionIdIsValid(survey->holder))
		take_wait_for(attempt, survey->holder);
	return true;
}

/*
 * try_until_decided makes surveys until one decides; returns true if anything was taken.
 */
static bool
try_until_decided(void *arg)
{
	DcAttempt *attempt = arg;
	MemoryContext cxt = AllocSetContextCreate(CurrentMemoryContext,
											  "dcounter survey",
											  ALLOCSET_DEFAULT_SIZES);
	MemoryContext old = MemoryContextSwitchTo(cxt);

	attempt->qty = attempt->wanted;
	do
	{
		CHECK_FOR_INTERRUPTS();
		MemoryContextReset(cxt);
		attempt->taken = survey_and_take(attempt);
	} while (attempt->taken == AGAIN);
	MemoryContextSwitchTo(old);
	MemoryContextDelete(cxt);
	return attempt->taken > 0;
}

/*
 * survey_and_take looks at the key once, and returns what was taken, or AGAIN.
 */
static int64
survey_and_take(DcAttempt *attempt)
{
	DcDirectRel *rel = attempt->rel;
	int64 qty = attempt->qty;
	DcSurvey *survey = survey_quickly(rel, attempt->key);

	if (survey->free - survey->unseen >= qty)
	{
		DcParts parts = {rel, attempt->key, qty, survey};

		return subxact_run(take_parts, &parts) ? qty : pause_after_failure(attempt);
	}
	if (attempt->free_only)
	{
		attempt->qty = survey->free - survey->unseen;
		return attempt->qty > 0 ? AGAIN : 0;
	}
	attempt->below = committed_below(rel->counter, attempt->key, qty);
	if (!attempt->below)
	{
		/* it depends on transactions in progress */
		survey = survey_exactly(rel, attempt->key, qty);
		if (survey == NULL || survey->free - survey->unseen >= qty)
			return pause_after_failure(attempt);
		if (survey->sure >= qty)
		{
			if (survey->free >= qty || !TransactionIdIsValid(survey->holder))
				serialization_error(); /* units that are too new */
			return take_wait_for(attempt, survey->holder);
		}
		if (TransactionIdIsValid(survey->compactor))
			return take_wait_for(attempt, survey->compactor);
	}
	if (attempt->holds > 0 && attempt->rounds++ < MAX_HOLD_ROUNDS)
	{
		attempt->holds = holds_expire_key(rel->counter, attempt->key,
										  attempt->holds);
		if (attempt->holds > 0)
			return AGAIN;
	}
	return attempt->partly ? take_what_is_sure(attempt) : 0;
}

/*
 * take_what_is_sure continues with the units that are certainly there, if any.
 */
static int64
take_what_is_sure(DcAttempt *attempt)
{
	DcSurvey *survey = survey_exactly(attempt->rel, attempt->key, attempt->qty);

	if (survey == NULL)
		return pause_after_failure(attempt);
	if (TransactionIdIsValid(survey->compactor))
		return take_wait_for(attempt, survey->compactor);
	if (survey->sure <= 0)
		return 0;
	attempt->qty = Min(attempt->qty, survey->sure);
	return AGAIN;
}

/*
 * Return true if fewer units than qty were committed at some
 * moment of this call: then fewer were certain. One snapshot shows that, whatever happens in the
 * meantime.
 */
static bool
committed_below(DcCounter *counter, const DcDeltaKey *key, int64 qty)
{
	DcKey plain = {.data = key->data, .len = key->len};
	bool below;

	PushActiveSnapshot(GetLatestSnapshot());
	below = counter_value_below(counter, &plain, qty);
	PopActiveSnapshot();
	return below;
}

/*
 * pause_after_failure gives other transactions a moment, if they have made this one fail
 * more than a few times.
 */
static int64
pause_after_failure(DcAttempt *attempt)
{
	if (++attempt->failures > 3)
		pg_usleep(Min(attempt->failures, 20) * 100L);
	return AGAIN;
}

/*
 * take_parts takes from the free rows of a survey, those with the most units
 * first; false if they no longer have enough.
 */
static bool
take_parts(void *arg)
{
	DcParts *parts = arg;
	const DcSurvey *survey = parts->survey;
	DcSurveyRow *rows = palloc(Max(survey->nrows, 1) * sizeof(DcSurveyRow));
	int64 missing = parts->qty;

	memcpy(rows, survey->rows, survey->nrows * sizeof(DcSurveyRow));
	qsort(rows, survey->nrows, sizeof(DcSurveyRow), compare_taken);
	for (int i = 0; i < survey->nrows && missing > 0; i++)
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
		result = units_take(parts->rel, parts->key, &hint, 1, missing, false,
							&taken);
		if (result == TAKE_REFUSED)
			result = units_take(parts->rel, parts->key, &hint, 1, missing, true,
								&taken);
		if (result == TAKE_DONE)
			missing -= taken;
	}
	pfree(rows);
	return missing == 0;
}

/*
 * Compare two rows of a survey, the one with more units first, for qsort().
 */
static int
compare_taken(const void *a, const void *b)
{
	int64 left = ((const DcSurveyRow *) a)->units;
	int64 right = ((const DcSurveyRow *) b)->units;

	CHECK_FOR_INTERRUPTS(); /* of a long qsort() */
	return left > right ? -1 : left < right;
}

/*
 * take_wait_for waits until a transaction that a survey has met has ended; then the take starts
 * over. The wait can be cancelled, and lock_timeout applies.
 */
static int64
take_wait_for(DcAttempt *attempt, TransactionId xid)
{
	attempt->rel->stats.waits++;
	XactLockTableWait(xid, NULL, NULL, XLTW_None);
	attempt->qty = attempt->wanted;
	return AGAIN;
}

/*
 * shut_gate shuts the gate if nothing is left, and units can come back only by a transaction that
 * opens it: see gate.c.
 */
static void
shut_gate(DcDirectRel *rel, const DcDeltaKey *key, uint64 epoch)
{
	DcSurvey *survey;

	if (!gate_can_shut(key) || IsolationUsesXactSnapshot() ||
		TransactionIdIsValid(GetTopTransactionIdIfAny()))
		return;
	survey = survey_once(rel, key);
	if (survey != NULL && survey->committed == 0 && survey->settled)
		gate_shut(key, epoch, holds_first_expiry(rel->counter, key));
}

/*
 * take_check_snapshot reads the key in the snapshot of a SERIALIZABLE transaction, with
 * predicate locks, and raises 40001 if that does not explain why not all that was asked for was
 * taken: other transactions have changed the key, or hold units in open transactions.
 */
static void
take_check_snapshot(DcDirectRel *rel, const DcKey *key, int64 qty, int flags)
{
	DcDeltaKey shard_key = delta_key(rel->counter->relid, key);
	DcSurvey *survey;
	int64 left = counter_rows_value(rel->counter, key);

	survey = survey_exactly(rel, &shard_key, PG_INT64_MAX);
	if (left >= ((flags & TAKE_PARTLY) ? 1 : qty) || survey == NULL ||
		left != survey->committed)
		serialization_error();
}

/*
 * count_take adds a take to the statistics, with the rows and waits that it has met. A refusal
 * writes nothing, so that it can stay in a transaction that writes nothing.
 */
static void
count_take(DcCounter *counter, const DcDeltaKey *key, DcDirectRel *rel,
		   bool taken)
{
	if (!taken || !stats_enabled())
		return;
	rel->stats.increments = 1;
	rel->stats.keys = 1;
	stats_applied(counter, &rel->stats);
	stats_hot_key(counter, key->data, key->len, 1);
}
