/*
 * refs.c
 *		Distinct values of a source: what a transaction does to their reference counts.
 *
 * Copyright (c) 2026, the dcounter developers
 *
 * A counter table that is bound with distinct_of has, for a key, the number of distinct items
 * (values of that expression) among the rows of the source. A table beside it, NAME_ref,
 * has how many rows there are of each item. The value of a key is the number of its items
 * with a count above zero. All changes of the table of counts keep that:
 *
 *	count goes from	 n <= 0 to n > 0	the key's value grows by 1
 *					 n > 0 to n <= 0	it shrinks by 1
 *					 any other way		it stays
 *
 * A row whose count becomes 0 is deleted. Counts may be negative while the counter table is
 * being built: rows of before dc_bind() that are deleted already, and are not counted yet.
 * They come to 0 in any order, as all changes are additions.
 *
 * The log. While the transaction runs, each row of the source is a record of the log, an item
 * of a key and +1 or -1: no row is touched. A mark says where the records of a subtransaction
 * begin. If it is rolled back, the log is cut there. When the log is full
 * (dcounter.pending_memory), the records of the current subtransaction are sorted, and those of
 * each item are merged into one. If that does not help, all are written early.
 *
 * Writing (refswrite.c). At PRE_COMMIT and PRE_PREPARE, before the pending deltas of all
 * counters, the log is summed up and written in the order of counter, key and item. Then the
 * changes of the values are pending deltas like any. So
 *
 *	- transactions wait for each other only if they change the count of the same item of the
 *	  same key, and only while the other commits. (For one that is prepared, until it is
 *	  finished.) Others of the key continue: it is not a hot row.
 *	- they cannot deadlock with each other, since all wait in one order, for those that have
 *	  written counts and are on their way to the end. What comes later at the commit, the
 *	  writing of the counters, does not wait for transactions in this phase (apply.c).
 *	- under REPEATABLE READ and SERIALIZABLE an item whose count was changed by another
 *	  transaction since the snapshot is a serialization failure (40001), as with any UPDATE,
 *	  unless its row has gone.
 *
 * Early writes, when memory runs out or before DDL (apply_early() in commit.c), lock rows until
 * the transaction ends. Such a transaction may be in a deadlock, like any that updates rows:
 * the server ends one of them. Reading does not write: the transaction's own records are
 * evaluated against the counts in the snapshot of the read (refs_pending).
 *
 * Early writes and savepoints. Rows written in a subtransaction L vanish if it aborts, and with
 * them its own records, which have the same fate, and are dropped at once. Those of outer
 * levels stay in the log, below `written`. L's mark has where that was before, so an abort
 * makes them pending again. (pending.c does so with deltas, which are written by levels, too. The
 * deltas that come of the counts belong to L as well.)
 *
 * Code of the owner (triggers on NAME_ref) may change rows of a source while the log is being
 * written. The records that are being written are not in the log any more; what is
 * added is written in the next round, or at once when the transaction is past this phase.
 *
 * Everything here is private to the backend.
 */
#include "postgres.h"

#include "access/xact.h"
#include "common/int.h"
#include "miscadmin.h"
#include "storage/lmgr.h"
#include "utils/memutils.h"

#include "base/guc.h"
#include "base/xactrooms.h"
#include "transactional/bound/refs.h"

/* Where a subtransaction's records begin. */
typedef struct DcRefMark
{
	int level; /* of nesting; the outermost has no mark */
	Size length;
	Size written; /* as it was then */
	struct DcRefMark *outer;
} DcRefMark;

/*
 * The memory of everything below, a child of TopTransactionContext; NULL: there are no records,
 * and the other variables mean nothing. Reset at the end of each transaction.
 */
static MemoryContext cxt = NULL;
static char *log_data; /* the records, one after the other */
static Size log_size;
static Size log_len;
static Size written; /* records up to here are written, by an inner level */
static DcRefMark *ref_marks;

/* The table of counts that was last locked, in which subtransaction; reset when one ends. */
static Oid locked_refs = InvalidOid;
static SubTransactionId locked_subid;

/*
 * The nesting level of the subtransaction that is writing records, or 0. Reset when that is
 * done, and when the (sub)transaction ends.
 */
static int writing_level = 0;

/* The log of this transaction has been written for its commit. */
static bool past_commit = false;

#define RECORD_SIZE(key_len, item_len) MAXALIGN(offsetof(DcRef, data) + (key_len) + (item_len))

static void start_refs(void);
static void lock_refs(Oid refs);
static Size own_start(void);
static void refs_mark_level(void);
static void refs_make_room(Size needed);
static Size refs_limit(void);
static void refs_coalesce(void);
static DcRef **sort_records(char *records, Size len, int *count);
static int compare_refs(const void *a, const void *b);
static void write_log(void);
static void read_log(Oid counter, const DcKey *key, DcRefScanned scanned, DcRefEffect effect,
					 void *arg);
static void refs_add_amount(const DcKey *key, int64 change, void *arg);
static void refs_cut(int level, bool commit);
static bool refs_is_idle(void);
static void refs_xact_callback(XactEvent event, void *arg);
static void refs_subxact_callback(SubXactEvent event, SubTransactionId mine,
								  SubTransactionId parent, void *arg);

/*
 * refs_init registers the callbacks that look after the log; called once. commit.c has the one
 * that writes it.
 */
void
refs_init(void)
{
	xact_room_add(DC_XACT_BOUND, refs_xact_callback, refs_subxact_callback, refs_is_idle);
}

/*
 * refs_add changes the count of an item of a key when the transaction commits. The caller has
 * locked the counter tables.
 */
void
refs_add(const DcSourceRow *row, const DcKey *key, const DcKey *item, int64 delta)
{
	Size needed = RECORD_SIZE(key->len, item->len);
	DcRef *ref;

	lock_refs(row->refs);
	if (cxt == NULL)
		start_refs();
	refs_mark_level();
	refs_make_room(needed);
	ref = (DcRef *) (log_data + log_len);
	ref->counter = row->counter;
	ref->refs = row->refs;
	ref->delta = delta;
	ref->key_len = key->len;
	ref->item_len = item->len;
	memcpy(ref->data, key->data, key->len);
	memcpy(ref->data + key->len, item->data, item->len);
	log_len += needed;
	/* another extension, or code of an owner, may still change rows after that */
	if (past_commit || xact_has_passed(DC_XACT_COUNTER))
		refs_write_all(false);
}

/*
 * lock_refs keeps DDL from the table of counts until the transaction ends.
 */
static void
lock_refs(Oid refs)
{
	if (locked_refs == refs && locked_subid == GetCurrentSubTransactionId())
		return;
	LockRelationOid(refs, RowExclusiveLock);
	xact_mark(DC_XACT_BOUND);
	locked_refs = refs;
	locked_subid = GetCurrentSubTransactionId();
}

/*
 * start_refs creates an empty log. There is one only when nothing is left of an earlier one's
 * pointers, so the context comes last.
 */
static void
start_refs(void)
{
	MemoryContext fresh = AllocSetContextCreate(TopTransactionContext, "dcounter distinct values",
												ALLOCSET_DEFAULT_SIZES);

	log_size = 1024;
	log_data = MemoryContextAlloc(fresh, log_size);
	log_len = 0;
	written = 0;
	ref_marks = NULL;
	xact_mark(DC_XACT_BOUND);
	xact_mark(DC_XACT_COUNTER); /* commit.c then writes the log */
	cxt = fresh;
}

/*
 * refs_mark_level notes where the current subtransaction's records begin.
 */
static void
refs_mark_level(void)
{
	int level = GetCurrentTransactionNestLevel();
	DcRefMark *mark;

	if (level == 1 || (ref_marks != NULL && ref_marks->level == level))
		return;
	mark = MemoryContextAlloc(cxt, sizeof(DcRefMark));
	mark->level = level;
	mark->length = log_len;
	mark->written = written;
	mark->outer = ref_marks;
	ref_marks = mark;
}

/*
 * own_start returns where the records of the current subtransaction begin, which must have its
 * mark.
 */
static Size
own_start(void)
{
	return GetCurrentTransactionNestLevel() == 1 ? 0 : ref_marks->length;
}

/*
 * refs_make_room makes the log large enough for one more record, and its part that is not written
 * smaller if it is full.
 */
static void
refs_make_room(Size needed)
{
	if (log_len - written + needed > refs_limit())
	{
		refs_coalesce();
		/* one that stays nearly full would be sorted for each record */
		if (log_len - written + needed > refs_limit() / 2)
			refs_write_all(false);
	}
	if (log_len + needed > log_size)
	{
		Size size = Max(log_size * 2, log_len + needed);

		log_data = repalloc_huge(log_data, size);
		log_size = size;
	}
}

/*
 * Return how many bytes of records the log may hold: dcounter.pending_memory.
 */
static Size
refs_limit(void)
{
	return (Size) dc_pending_memory * 1024;
}

/*
 * refs_coalesce merges the records of each item into one, among those of the current
 * subtransaction.
 */
static void
refs_coalesce(void)
{
	Size from = Max(own_start(), written);
	Size len = log_len - from;
	MemoryContext sorting = AllocSetContextCreate(cxt, "dcounter distinct values being sorted",
												  ALLOCSET_DEFAULT_SIZES);
	MemoryContext old = MemoryContextSwitchTo(sorting);
	char *copy = MemoryContextAllocHuge(sorting, Max(len, 1));
	DcRef **refs;
	int count;

	memcpy(copy, log_data + from, len);
	refs = sort_records(copy, len, &count);
	log_len = from;
	for (int i = 0; i < count; i++)
	{
		Size size = RECORD_SIZE(refs[i]->key_len, refs[i]->item_len);

		memcpy(log_data + log_len, refs[i], size);
		log_len += size;
	}
	MemoryContextSwitchTo(old);
	MemoryContextDelete(sorting);
}

/*
 * sort_records sorts records and sums up those of one item, in place. Sums of 0 are left out.
 * Raises 22003, before the log has changed, if a sum overflows bigint.
 */
static DcRef **
sort_records(char *records, Size len, int *count)
{
	DcRef **refs;
	int n = 0;
	int kept = 0;

	for (Size at = 0; at < len; n++)
	{
		DcRef *ref = (DcRef *) (records + at);

		at += RECORD_SIZE(ref->key_len, ref->item_len);
	}
	refs = palloc_extended(Max(n, 1) * sizeof(DcRef *), MCXT_ALLOC_HUGE);
	n = 0;
	for (Size at = 0; at < len; n++)
	{
		refs[n] = (DcRef *) (records + at);
		at += RECORD_SIZE(refs[n]->key_len, refs[n]->item_len);
	}
	qsort(refs, n, sizeof(DcRef *), compare_refs);
	for (int i = 0, end; i < n; i = end)
	{
		DcRef *sum = refs[i];

		for (end = i + 1; end < n && compare_refs(&sum, &refs[end]) == 0; end++)
		{
			if (pg_add_s64_overflow(sum->delta, refs[end]->delta, &sum->delta))
				ereport(ERROR,
						(errcode(ERRCODE_NUMERIC_VALUE_OUT_OF_RANGE),
						 errmsg("bigint out of range")));
		}
		if (sum->delta != 0)
			refs[kept++] = sum;
	}
	*count = kept;
	return refs;
}

/*
 * compare_refs orders records by counter, key and item; all transactions write in this order.
 */
static int
compare_refs(const void *a, const void *b)
{
	const DcRef *left = *(DcRef *const *) a;
	const DcRef *right = *(DcRef *const *) b;
	int cmp;

	CHECK_FOR_INTERRUPTS(); /* of a long qsort() */
	if (left->counter != right->counter)
		return left->counter < right->counter ? -1 : 1;
	cmp = bytes_compare(left->data, left->key_len, right->data, right->key_len);
	if (cmp != 0)
		return cmp;
	return bytes_compare(left->data + left->key_len, left->item_len,
						 right->data + right->key_len, right->item_len);
}

/*
 * refs_write_all writes all records of the log, in the current subtransaction. When the
 * transaction commits, or is prepared, what comes later is written at once.
 */
void
refs_write_all(bool committing)
{
	while (cxt != NULL && log_len > written)
	{
		CHECK_FOR_INTERRUPTS();
		write_log();
	}
	if (committing)
	{
		xact_mark(DC_XACT_BOUND);
		past_commit = true;
	}
}

/*
 * write_log takes all records out of the log and writes them.
 */
static void
write_log(void)
{
	MemoryContext writing = AllocSetContextCreate(CurTransactionContext,
												  "dcounter distinct values being written",
												  ALLOCSET_DEFAULT_SIZES);
	MemoryContext old = MemoryContextSwitchTo(writing);
	Size len = log_len - written;
	char *records = MemoryContextAllocHuge(writing, len);
	int outer_level = writing_level;
	DcRef **refs;
	int count;

	memcpy(records, log_data + written, len);
	refs = sort_records(records, len, &count);
	refs_mark_level();
	log_len = own_start();
	written = log_len;
	MemoryContextSwitchTo(old);
	writing_level = GetCurrentTransactionNestLevel();
	refs_write(refs, count);
	writing_level = outer_level;
	MemoryContextDelete(writing);
}

/*
 * Return true if records are being written: code of an owner is running in the meantime, and
 * nothing tells which counts have changed already.
 */
bool
refs_are_written(void)
{
	return writing_level > 0;
}

/*
 * Return true if this transaction has changes of a counter table's distinct values
 * that are not written yet.
 */
bool
refs_any(Oid counter)
{
	if (cxt == NULL)
		return false;
	for (Size at = written; at < log_len;)
	{
		DcRef *ref = (DcRef *) (log_data + at);

		if (ref->counter == counter)
			return true;
		at += RECORD_SIZE(ref->key_len, ref->item_len);
	}
	return false;
}

/*
 * refs_pending returns how pending changes of counts change the value of a key, or the sum of
 * all (NULL), in the snapshot that the caller reads the value in.
 */
void
refs_pending(Oid counter, const DcKey *key, int64 *inc, int64 *dec)
{
	int64 amounts[2] = {0, 0};

	read_log(counter, key, NULL, refs_add_amount, amounts);
	*inc = amounts[0];
	*dec = amounts[1];
}

/*
 * Add a change to amounts[0] if it is positive, and its amount to amounts[1] if it is negative.
 */
static void
refs_add_amount(const DcKey *key, int64 change, void *arg)
{
	int64 *amounts = arg;

	amounts[0] += Max(change, 0);
	amounts[1] += Max(-change, 0);
}

/*
 * refs_pending_counts and refs_pending_values call a function for each count, or each value,
 * that the pending changes affect, in order.
 */
void
refs_pending_counts(Oid counter, DcRefScanned take, void *arg)
{
	read_log(counter, NULL, take, NULL, arg);
}

/*
 * Call a function with each change of a value; see above.
 */
void
refs_pending_values(Oid counter, DcRefEffect take, void *arg)
{
	read_log(counter, NULL, NULL, take, arg);
}

/*
 * read_log sums up the records of a counter table, and of a key unless that is NULL, and calls
 * one of two functions, with these or with the resulting changes of values.
 */
static void
read_log(Oid counter, const DcKey *key, DcRefScanned scanned, DcRefEffect effect, void *arg)
{
	MemoryContext reading;
	MemoryContext old;
	char *records;
	Size len = 0;
	DcRef **refs;
	int count;

	if (!refs_any(counter))
		return;
	reading = AllocSetContextCreate(CurrentMemoryContext, "dcounter distinct values being read",
									ALLOCSET_DEFAULT_SIZES);
	old = MemoryContextSwitchTo(reading);
	records = MemoryContextAllocHuge(reading, log_len - written);
	for (Size at = written; at < log_len;)
	{
		DcRef *ref = (DcRef *) (log_data + at);
		Size size = RECORD_SIZE(ref->key_len, ref->item_len);

		if (ref->counter == counter &&
			(key == NULL || bytes_compare(ref->data, ref->key_len, key->data, key->len) == 0))
		{
			memcpy(records + len, ref, size);
			len += size;
		}
		at += size;
	}
	refs = sort_records(records, len, &count);
	MemoryContextSwitchTo(old);
	if (effect != NULL && count > 0)
		refs_effect(refs, count, effect, arg);
	for (int i = 0; scanned != NULL && i < count; i++)
	{
		DcKey item = ref_item(refs[i]);
		DcKey of = ref_key(refs[i]);

		scanned(&of, &item, refs[i]->delta, arg);
	}
	MemoryContextDelete(reading);
}

/*
 * refs_cut gives the records of a subtransaction to its parent (commit), or removes them. It
 * runs in callbacks: must not throw.
 */
static void
refs_cut(int level, bool commit)
{
	while (cxt != NULL && ref_marks != NULL && ref_marks->level >= level)
	{
		DcRefMark *mark = ref_marks;

		if (!commit)
		{
			log_len = mark->length;
			written = mark->written;
		}
		else if (level > 2 && (mark->outer == NULL || mark->outer->level < level - 1))
		{
			mark->level = level - 1;
			return;
		}
		ref_marks = mark->outer;
		pfree(mark);
	}
}

/*
 * Return true if nothing is left of a transaction, so that its callbacks need not be called.
 */
static bool
refs_is_idle(void)
{
	return cxt == NULL && !OidIsValid(locked_refs) && writing_level == 0 && !past_commit;
}

/*
 * Forget the transaction when it ends; the memory of the log goes with it. Must not throw.
 */
static void
refs_xact_callback(XactEvent event, void *arg)
{
	if (event != XACT_EVENT_COMMIT && event != XACT_EVENT_ABORT && event != XACT_EVENT_PREPARE)
		return;
	cxt = NULL;
	locked_refs = InvalidOid;
	writing_level = 0;
	past_commit = false;
}

/*
 * Keep or cut the records of a subtransaction that ends, and forget the lock on the table of
 * counts. Must not throw.
 */
static void
refs_subxact_callback(SubXactEvent event, SubTransactionId mine, SubTransactionId parent, void *arg)
{
	if (event != SUBXACT_EVENT_COMMIT_SUB && event != SUBXACT_EVENT_ABORT_SUB)
		return;
	locked_refs = InvalidOid; /* an abort releases the lock */
	if (event == SUBXACT_EVENT_ABORT_SUB && writing_level >= GetCurrentTransactionNestLevel())
		writing_level = 0;
	refs_cut(GetCurrentTransactionNestLevel(), event == SUBXACT_EVENT_COMMIT_SUB);
}
