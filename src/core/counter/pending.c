/*
 * pending.c
 *		The deltas that this transaction has not yet written.
 *
 * Copyright (c) 2026, the dcounter developers
 *
 * dc_incr() touches no row: it adds to a hash table in this backend, which is
 * written to the shard tables at PRE_COMMIT (apply.c). Savepoints are honoured
 * by a stack of such tables, one for each nesting level of subtransactions
 * that has deltas of its own:
 *
 *	- A delta goes to the level of the current subtransaction.
 *	- ABORT_SUB drops the level. COMMIT_SUB renames it to its parent's level;
 *	  two levels of one number are merged by the next call that may fail. So the
 *	  callbacks neither allocate memory nor throw.
 *	- Deltas may be written early, in subtransaction L (a memory bound was
 *	  reached, or dc_apply() was called). The rows then belong to L and vanish if
 *	  L aborts. Levels of L itself have the same fate and are dropped at once;
 *	  levels below L are kept and marked applied_by = L, to be pending again if L
 *	  aborts. When L commits into its parent the mark moves to the parent, and a
 *	  level whose mark reaches its own number is dropped.
 *
 * The nesting level identifies a subtransaction because the stack never holds
 * anything of one that has ended.
 *
 * Memory: the deltas of all levels that are not applied stay within
 * dcounter.pending_memory (pending_memory_is_full); each level that is
 * kept with a mark may hold as much again.
 *
 * Everything here is private to the backend; there is nothing to lock. The
 * memory hangs under TopTransactionContext, which the server resets in any case.
 */
#include "postgres.h"

#include "access/xact.h"
#include "common/int.h"
#include "miscadmin.h"
#include "utils/fmgrprotos.h"
#include "utils/memutils.h"
#include "utils/numeric.h"

#include "base/guc.h"
#include "base/xactrooms.h"
#include "core/counter/pending.h"

/*
 * Return the hash of a key, which rows of others may have chosen.
 */
static inline uint32
pending_hash(const DcDeltaKey *key)
{
	return hash_combine(key_secret_hash(key->data, key->len), murmurhash32(key->counter));
}

#define SH_PREFIX deltas
#define SH_ELEMENT_TYPE DcDelta
#define SH_KEY_TYPE DcDeltaKey
#define SH_KEY key
#define SH_HASH_KEY(tb, k) pending_hash(&(k))
#define SH_EQUAL(tb, a, b) delta_key_equal(&(a), &(b))
#define SH_STORE_HASH
#define SH_GET_HASH(tb, a) (a)->hash
/*
 * It must grow at its threshold and never earlier, or pending_memory_is_full() could not
 * predict it.
 */
#define SH_GROW_MIN_FILLFACTOR 1.0
#define SH_SCOPE static inline
#define SH_DECLARE
#define SH_DEFINE
#include "lib/simplehash.h"

/* Sizes of the blocks that keys are copied to; a key fits into any. */
#define KEY_BLOCK_MIN ((Size) DC_MAX_KEY_BYTES)
#define KEY_BLOCK_MAX ((Size) 64 * 1024)

typedef struct DcLevel
{
	struct DcLevel *below; /* next outer level */
	int nest;			   /* nesting level of the subtransaction */
	int applied_by;		   /* nesting level that wrote it, or 0 */
	MemoryContext cxt;	   /* holds all of this */
	deltas_hash *deltas;
	DcDelta *newest;  /* the delta that was added last, often the only one */
	char *free_bytes; /* rest of the block that keys are copied to */
	Size nfree;		  /* its size */
	Size block_bytes; /* size of all such blocks */
} DcLevel;

/* The most that a level needs besides keys and deltas: its context, itself, headers. */
#define LEVEL_BYTES 1024

/* Below TopTransactionContext; forgotten when the transaction ends (pending_end_xact). */
static DcLevel *top_level = NULL;

/* Going over the deltas that are left to write, in no order. */
typedef struct DcPendingScan
{
	DcLevel *level; /* NULL: none left */
	bool begun;		/* with the level */
	deltas_iterator it;
} DcPendingScan;

static DcDelta *next_pending(DcPendingScan *scan);
static void level_push(int nest);
static void pending_level_pop(void);
static void pending_level_merge_top(void);
static Size level_next_block(DcLevel *level);
static const char *level_copy_key(DcLevel *level, const DcDeltaKey *key);
static void level_add(DcLevel *level, const DcDelta *amount);
static void delta_accumulate(DcDelta *delta, int64 inc, int64 dec);
static int delta_compare(const void *a, const void *b);

/*
 * pending_add adds an amount to the deltas that this transaction will write for a key.
 * inc and dec are not negative, and `back` is the part of inc that comes back to a stock. Raises
 * 22003, with nothing changed, when the sum of the key's pending amounts overflows bigint.
 */
void
pending_add(Oid counter, const DcKey *key, uint64 hint, int64 inc, int64 dec, int64 back)
{
	int nest = GetCurrentTransactionNestLevel();
	DcDelta amount = {
		.key = delta_key(counter, key),
		.hint = hint,
		.inc = inc,
		.dec = dec,
		.back = back,
		.calls = 1,
	};

	amount.hash = pending_hash(&amount.key);
	pending_level_merge_top();
	if (top_level == NULL || top_level->nest != nest ||
		top_level->applied_by != 0)
		level_push(nest);
	level_add(top_level, &amount);
}

/*
 * Return true if there is nothing left to write.
 */
bool
pending_is_empty(void)
{
	for (DcLevel *level = top_level; level != NULL; level = level->below)
	{
		if (level->applied_by == 0 && level->deltas->members > 0)
			return false;
	}
	return true;
}

/*
 * Return true if there is a delta left to write that has an amount greater than `above`, or is
 * of a counter table for which is() returns true.
 */
bool
pending_any(bool (*is)(Oid counter), int64 above)
{
	Oid other = InvalidOid; /* a table for which is() has returned false */
	DcPendingScan scan = {.level = top_level};
	DcDelta *delta;

	while ((delta = next_pending(&scan)) != NULL)
	{
		if (delta->inc > above || delta->dec > above ||
			(delta->key.counter != other && is(delta->key.counter)))
			return true;
		other = delta->key.counter;
	}
	return false;
}

/*
 * next_pending returns the next delta of a scan, or NULL.
 */
static inline DcDelta *
next_pending(DcPendingScan *scan)
{
	for (; scan->level != NULL; scan->level = scan->level->below, scan->begun = false)
	{
		DcLevel *level = scan->level;
		DcDelta *delta = NULL;

		if (level->applied_by != 0)
			continue;
		if (level->deltas->members == 1)
			delta = scan->begun ? NULL : level->newest; /* the usual transaction has a single delta */
		else
		{
			if (!scan->begun)
				deltas_start_iterate(level->deltas, &scan->it);
			delta = deltas_iterate(level->deltas, &scan->it);
		}
		scan->begun = true;
		if (delta != NULL)
			return delta;
	}
	return NULL;
}

/*
 * Return true if one more key could exceed
 * dcounter.pending_memory, counting the copy that a growing hash table makes.
 */
bool
pending_memory_is_full(const DcKey *key)
{
	Size used = 0;

	for (DcLevel *level = top_level; level != NULL; level = level->below)
	{
		deltas_hash *h = level->deltas;

		if (level->applied_by != 0)
			continue;
		used += LEVEL_BYTES + level->block_bytes + h->size * sizeof(DcDelta);
		if (h->members + 1 >= h->grow_threshold)
			used += 2 * h->size * sizeof(DcDelta);
		if (level->free_bytes == NULL || level->nfree < key->len)
			used += level_next_block(level);
	}
	return used > (Size) dc_pending_memory * 1024;
}

/*
 * pending_lookup returns this transaction's unwritten amounts for a key.
 * Raises 22003 when their sum overflows bigint.
 */
void
pending_lookup(Oid counter, const DcKey *key, int64 *inc, int64 *dec)
{
	DcDelta sum = {0};
	DcDeltaKey probe = delta_key(counter, key);

	for (DcLevel *level = top_level; level != NULL; level = level->below)
	{
		DcDelta *delta;

		if (level->applied_by != 0)
			continue;
		delta = deltas_lookup(level->deltas, probe);
		if (delta != NULL)
			delta_accumulate(&sum, delta->inc, delta->dec);
	}
	*inc = sum.inc;
	*dec = sum.dec;
}

/*
 * pending_total returns the sum of the unwritten deltas of a counter table.
 */
Numeric
pending_total(Oid counter)
{
	Datum total = NumericGetDatum(int64_to_numeric(0));
	DcPendingScan scan = {.level = top_level};
	DcDelta *delta;

	while ((delta = next_pending(&scan)) != NULL)
	{
		CHECK_FOR_INTERRUPTS();
		/* both are not negative, so the difference fits */
		if (delta->key.counter == counter && delta->inc != delta->dec)
			total = DirectFunctionCall2(numeric_add, total,
										NumericGetDatum(int64_to_numeric(delta->inc - delta->dec)));
	}
	return DatumGetNumeric(total);
}

/*
 * pending_each calls a function for each unwritten delta of a counter table, in no order; a key may
 * have several.
 */
void
pending_each(Oid counter, void (*visit)(void *arg, const DcDelta *delta), void *arg)
{
	DcPendingScan scan = {.level = top_level};
	DcDelta *delta;

	while ((delta = next_pending(&scan)) != NULL)
	{
		if (delta->key.counter == counter)
			visit(arg, delta);
	}
}

/*
 * pending_sorted returns all unwritten deltas in the order of counter and key,
 * each key once. The array and its members live until the end of the
 * (sub)transaction or pending_mark_applied(), whichever comes first.
 */
DcDelta **
pending_sorted(int *count)
{
	DcPendingScan scan = {.level = top_level};
	DcDelta **sorted;
	int n = 0;
	int kept = 0;

	for (DcLevel *level = top_level; level != NULL; level = level->below)
	{
		if (level->applied_by == 0)
			n += level->deltas->members;
	}
	*count = n;
	if (n == 0)
		return NULL;
	if (n == 1 && top_level->deltas->members == 1 && top_level->applied_by == 0)
		return &top_level->newest; /* the usual transaction */

	sorted = MemoryContextAllocHuge(top_level->cxt, n * sizeof(DcDelta *));
	for (int i = 0; i < n; i++)
		sorted[i] = next_pending(&scan);
	if (n > 1)
		qsort(sorted, n, sizeof(DcDelta *), delta_compare);

	/* A key may be pending on several levels: sum into a copy of the first. */
	for (int i = 0; i < n; i++)
	{
		if (kept > 0 && delta_key_equal(&sorted[kept - 1]->key, &sorted[i]->key))
		{
			DcDelta *sum = MemoryContextAlloc(top_level->cxt, sizeof(DcDelta));

			*sum = *sorted[kept - 1];
			delta_accumulate(sum, sorted[i]->inc, sorted[i]->dec);
			sum->back += sorted[i]->back; /* not above inc, so it fits */
			sum->calls += sorted[i]->calls;
			sorted[kept - 1] = sum;
		}
		else
			sorted[kept++] = sorted[i];
	}
	*count = kept;
	return sorted;
}

/*
 * pending_mark_applied records that all deltas have been written by the
 * current subtransaction.
 */
void
pending_mark_applied(void)
{
	int nest = GetCurrentTransactionNestLevel();

	while (top_level != NULL && top_level->nest == nest)
		pending_level_pop();
	for (DcLevel *level = top_level; level != NULL; level = level->below)
	{
		if (level->applied_by == 0)
			level->applied_by = nest;
	}
}

/*
 * pending_keep records, when the transaction commits, that the deltas of all counter tables but
 * these have been written. Their keys stay, with amounts of 0.
 */
void
pending_keep(const List *counters)
{
	Oid last = InvalidOid;
	bool keep = false;
	DcPendingScan scan = {.level = top_level};
	DcDelta *delta;

	while ((delta = next_pending(&scan)) != NULL)
	{
		if (delta->key.counter != last)
			keep = list_member_oid(counters, delta->key.counter);
		last = delta->key.counter;
		if (keep)
			continue;
		delta->inc = delta->dec = delta->back = 0;
		delta->calls = 0;
	}
}

/*
 * pending_end_xact forgets everything: the transaction has ended, and its
 * memory is about to go.
 */
void
pending_end_xact(void)
{
	top_level = NULL;
}

/*
 * Return true if there are no levels, so that the callbacks need not be called.
 */
bool
pending_is_idle(void)
{
	return top_level == NULL;
}

/*
 * pending_commit_subxact gives the deltas of the ending subtransaction to its
 * parent. Runs inside COMMIT_SUB: must not throw.
 */
void
pending_commit_subxact(void)
{
	int nest = GetCurrentTransactionNestLevel();
	DcLevel **link = &top_level;

	while (*link != NULL)
	{
		DcLevel *level = *link;

		if (level->nest == nest)
			level->nest--;
		if (level->applied_by == nest)
			level->applied_by--;
		if (level->applied_by != 0 && level->applied_by <= level->nest)
		{
			*link = level->below;
			MemoryContextDelete(level->cxt);
		}
		else
			link = &level->below;
	}
}

/*
 * pending_abort_subxact drops the deltas of the ending subtransaction, and makes
 * pending again those that it had written. Runs inside ABORT_SUB: must not throw.
 */
void
pending_abort_subxact(void)
{
	int nest = GetCurrentTransactionNestLevel();

	while (top_level != NULL && top_level->nest >= nest)
		pending_level_pop();
	for (DcLevel *level = top_level; level != NULL; level = level->below)
	{
		if (level->applied_by >= nest)
			level->applied_by = 0;
	}
}

/*
 * delta_accumulate adds amounts to a delta, or raises 22003 and adds nothing.
 */
static void
delta_accumulate(DcDelta *delta, int64 inc, int64 dec)
{
	int64 new_inc;
	int64 new_dec;

	if (pg_add_s64_overflow(delta->inc, inc, &new_inc) ||
		pg_add_s64_overflow(delta->dec, dec, &new_dec))
		ereport(ERROR,
				(errcode(ERRCODE_NUMERIC_VALUE_OUT_OF_RANGE),
				 errmsg("bigint out of range"),
				 errdetail("The sum of the amounts that this transaction adds to one counter key is too large.")));
	delta->inc = new_inc;
	delta->dec = new_dec;
}

/*
 * Push an empty level for a nesting level; its context is a child of TopTransactionContext. May
 * throw before it is on the stack.
 */
static void
level_push(int nest)
{
	MemoryContext cxt = AllocSetContextCreate(TopTransactionContext,
											  "dcounter pending deltas",
											  ALLOCSET_DEFAULT_SIZES);
	DcLevel *level = MemoryContextAllocZero(cxt, sizeof(DcLevel));

	level->cxt = cxt;
	level->nest = nest;
	level->deltas = deltas_create(cxt, 16, NULL);
	level->below = top_level;
	xact_mark(DC_XACT_COUNTER);
	xact_mark(DC_XACT_LAST);
	top_level = level;
}

/*
 * Remove the top level, and free its memory.
 */
static void
pending_level_pop(void)
{
	DcLevel *level = top_level;

	top_level = level->below;
	MemoryContextDelete(level->cxt);
}

/*
 * pending_level_merge_top merges levels that came to have the same number when a
 * subtransaction committed. If a sum overflows, the amounts stay where they
 * were and the error is raised again by the next call or by the commit.
 */
static void
pending_level_merge_top(void)
{
	while (top_level != NULL && top_level->below != NULL &&
		   top_level->nest == top_level->below->nest &&
		   top_level->applied_by == 0 && top_level->below->applied_by == 0)
	{
		DcLevel *into = top_level->below;
		deltas_iterator it;
		DcDelta *delta;

		deltas_start_iterate(top_level->deltas, &it);
		while ((delta = deltas_iterate(top_level->deltas, &it)) != NULL)
		{
			level_add(into, delta);
			/* in case a later one overflows */
			delta->inc = delta->dec = delta->back = 0;
			delta->calls = 0;
		}
		pending_level_pop();
	}
}

/*
 * level_next_block returns the size of the next block for keys.
 */
static Size
level_next_block(DcLevel *level)
{
	return Min(Max(level->block_bytes, KEY_BLOCK_MIN), KEY_BLOCK_MAX);
}

/*
 * level_copy_key copies a key's bytes. Keys are packed into blocks that grow
 * with their number: most are short, and an allocation each would double them.
 */
static const char *
level_copy_key(DcLevel *level, const DcDeltaKey *key)
{
	char *copy;

	if (level->free_bytes == NULL || level->nfree < key->len) /* the empty key needs a pointer, too */
	{
		Size size = level_next_block(level);

		level->free_bytes = MemoryContextAlloc(level->cxt, size);
		level->nfree = size;
		level->block_bytes += size;
	}
	copy = level->free_bytes;
	memcpy(copy, key->data, key->len);
	level->free_bytes += key->len;
	level->nfree -= key->len;
	return copy;
}

/*
 * level_add adds the amounts of a delta, which may belong to another level.
 */
static void
level_add(DcLevel *level, const DcDelta *amount)
{
	DcDelta *delta = deltas_lookup_hash(level->deltas, amount->key,
										amount->hash);

	if (delta == NULL)
	{
		DcDeltaKey key = amount->key;
		bool found;

		key.data = level_copy_key(level, &key);
		delta = deltas_insert_hash(level->deltas, key, amount->hash, &found);
		delta->inc = delta->dec = delta->back = 0;
		delta->calls = 0;
		delta->hint = DC_NO_HINT;
		level->newest = delta;
	}
	delta_accumulate(delta, amount->inc, amount->dec);
	delta->back += amount->back; /* not above inc, so it fits */
	delta->calls += amount->calls;
	if (delta->hint == DC_NO_HINT)
		delta->hint = amount->hint;
}

/*
 * delta_compare orders deltas by counter and then by key, as the "C" collation
 * does; all transactions write in this order.
 */
static int
delta_compare(const void *a, const void *b)
{
	const DcDeltaKey *left = &(*(DcDelta *const *) a)->key;
	const DcDeltaKey *right = &(*(DcDelta *const *) b)->key;

	CHECK_FOR_INTERRUPTS(); /* of a long qsort() */
	if (left->counter != right->counter)
		return left->counter < right->counter ? -1 : 1;
	return bytes_compare(left->data, left->len, right->data, right->len);
}
