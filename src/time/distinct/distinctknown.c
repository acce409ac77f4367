/*
 * distinctknown.c
 *		What a session knows of the rows of a key.
 *
 * Copyright (c) 2026, the dcounter developers
 *
 * Most items that are added have been there before, and of those that are new most raise no
 * register. To see that, a session remembers sketches of keys: the items that it has read, and
 * those that it has written itself. As registers only rise, a sketch that is out of date shows too
 * little, and at worst a row is written that was not needed.
 *
 * So a sketch must never have items that the rows may lack whenever a session relies on it:
 *
 *	- Uncommitted rows may be rolled back. A sketch is read in a snapshot, which shows rows that
 *	  others have committed, and rows that this transaction has written early: a sketch with any of
 *	  the latter is forgotten when the transaction, or any subtransaction, ends. Items that this
 *	  transaction writes get into its sketches after the commit (known_raise).
 *	- A crash may lose asynchronous commits. A commit that waits for the disk must not rely on them.
 *	  So a sketch has an LSN: once the WAL is flushed up to it, all that the sketch knows is
 *	  durable; until then, items are written as if they were not known. The WAL is flushed in order:
 *	  what this transaction writes is no safer than what came before it.
 *	- Rows may be taken away: TRUNCATE, dc_distinct_reset(), the end of a bucket. All of these
 *	  invalidate the relation, in the order of commits, and a sketch belongs to one generation of
 *	  the table's entry. The caller has processed invalidations. Direct DELETE and UPDATE invalidate
 *	  nothing, and are refused (distinctddl.c).
 *	- A snapshot that is older than what a sketch knows does not show it, so the caller's own item
 *	  would be missing in what it reads. `next` is a transaction id that follows those of all that
 *	  the sketch knows: a snapshot in which no older transaction is in progress shows all of them.
 *	  With any other snapshot the item is pending, and the commit decides whether it is written.
 *
 * Memory: sketches take dcounter.distinct_cache at most; the least recently used one is removed
 * first. All of this is private to the backend, in a context below TopMemoryContext.
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "access/transam.h"
#include "access/xact.h"
#include "access/xlog.h"
#include "common/hashfn.h"
#include "executor/tuptable.h"
#include "lib/ilist.h"
#include "utils/memutils.h"
#include "utils/snapmgr.h"

#include "base/guc.h"
#include "base/xactrooms.h"
#include "time/distinct/distinct.h"
#include "types/sketch/hash.h"
#include "types/sketch/hll/dc_hll.h"

struct DcKnown
{
	dlist_node node; /* the most recently used one comes first */
	DcRowKey key;	 /* its bytes follow */
	uint64 generation;
	HllState *state;
	Size size;			/* of all of this */
	XLogRecPtr lsn;		/* to be flushed */
	TransactionId next; /* follows all that is known */
	bool uncommitted;	/* rows of this transaction are among it */
};

typedef struct DcKnownSlot
{
	DcRowKey key;
	DcKnown *known;
	uint32 hash;
	char status;
} DcKnownSlot;

#define SH_PREFIX knowns
#define SH_ELEMENT_TYPE DcKnownSlot
#define SH_KEY_TYPE DcRowKey
#define SH_KEY key
#define SH_HASH_KEY(tb, k) rowkey_hash(&(k))
#define SH_EQUAL(tb, a, b) rowkey_equal(&(a), &(b))
#define SH_STORE_HASH
#define SH_GET_HASH(tb, a) (a)->hash
#define SH_SCOPE static inline
#define SH_DECLARE
#define SH_DEFINE
#include "lib/simplehash.h"

/* Never freed. */
static MemoryContext known_cxt = NULL;
static knowns_hash *knowns;
static dlist_head used = DLIST_STATIC_INIT(used);
static Size total_size = 0;
static int uncommitted = 0; /* sketches with rows of this transaction */

static DcKnown *known_new(const DcRowKey *key, int precision, uint64 generation);
static void known_remove(DcKnown *known);
static void known_resize(DcKnown *known);
static bool distinctknown_read_rows(DcDistinctRel *rel, const DcRowKey *key, DcKnown *known);
static HllState *take_state(DcKnown *known);
static bool distinctknown_is_ours(TupleTableSlot *slot);
static bool distinctknown_is_missing(const HllState *state, uint32 token);

/*
 * rowkey_hash and rowkey_equal are for tables of keys.
 */
uint32
rowkey_hash(const DcRowKey *key)
{
	return hash_bytes((const unsigned char *) key->data, key->len) ^ murmurhash32(key->relid);
}

/*
 * Return true if both are the same key of the same table.
 */
bool
rowkey_equal(const DcRowKey *a, const DcRowKey *b)
{
	return a->relid == b->relid && a->len == b->len && memcmp(a->data, b->data, a->len) == 0;
}

/*
 * known_find returns what is known of a key, or NULL. The table's entry is valid.
 */
DcKnown *
known_find(const DcRowKey *key, const DcDistinct *distinct)
{
	DcKnownSlot *slot = known_cxt != NULL ? knowns_lookup(knowns, *key) : NULL;
	DcKnown *known;

	if (slot == NULL)
		return NULL;
	known = slot->known;
	if (known->state == NULL || known->generation != distinct->generation)
	{
		known_remove(known);
		return NULL;
	}
	if (dlist_head_node(&used) != &known->node)
		dlist_move_head(&used, &known->node);
	return known;
}

/*
 * Return true if adding an item would change nothing.
 */
bool
known_has(DcKnown *known, uint64 hash)
{
	uint32 cell;
	uint32 value;

	return hll_probe(known->state, hash, &cell, &value) == HLL_SAME;
}

/*
 * Return true if this transaction may rely on what is known: the active snapshot shows it, and it
 * is on disk. Whether the commit waits for the disk is not known yet, as a function may have its
 * own setting.
 */
bool
known_is_safe(DcKnown *known)
{
	if (!ActiveSnapshotSet() || !TransactionIdFollowsOrEquals(GetActiveSnapshot()->xmin, known->next))
		return false;
	return known_is_durable(known, false);
}

/*
 * Return true if what is known is on disk, or need not be when this transaction commits.
 */
bool
known_is_durable(DcKnown *known, bool commits)
{
	static XLogRecPtr flushed = 0;

	if ((commits && synchronous_commit == SYNCHRONOUS_COMMIT_OFF) || known->lsn <= flushed)
		return true;
	flushed = GetFlushRecPtr(NULL);
	return known->lsn <= flushed;
}

/*
 * known_load reads what the rows of a key have, as of now.
 */
DcKnown *
known_load(DcDistinctRel *rel, const DcRowKey *key)
{
	DcKnown *known = known_find(key, rel->distinct);
	Snapshot snapshot;

	if (known != NULL)
		return known;
	known = known_new(key, rel->distinct->row.precision, rel->distinct->generation);
	PushActiveSnapshot(GetLatestSnapshot());
	snapshot = GetActiveSnapshot();
	known->next = snapshot->xmax;
	known->uncommitted = true; /* should an error be raised in the meantime */
	uncommitted++;
	xact_mark(DC_XACT_DISTINCT);
	if (!distinctknown_read_rows(rel, key, known))
	{
		known->uncommitted = false;
		uncommitted--;
	}
	PopActiveSnapshot();
	/*
	 * every transaction that the snapshot shows as committed has written its commit to the WAL
	 * before now
	 */
	known->lsn = GetXLogInsertRecPtr();
	known_resize(known);
	return known;
}

/*
 * distinctknown_read_rows reads the rows of a key into a sketch. True if rows of this transaction
 * are among them.
 */
static bool
distinctknown_read_rows(DcDistinctRel *rel, const DcRowKey *key, DcKnown *known)
{
	bool ours = false;

	for (int which = 0; which < 2; which++)
	{
		DcDistinctScan scan;

		distinctscan_begin(&scan, rel, which, GetActiveSnapshot(), key->data, key->len, key->data, key->len);
		while (distinctscan_next(&scan))
		{
			MemoryContext old;
			HllState *merged;
			HllState *state;

			if (scan.key.len != key->len || memcmp(scan.key.data, key->data, key->len) != 0)
				continue;
			ours |= distinctknown_is_ours(scan.slot);
			merged = hll_merge_datum(hll_copy(known->state), scan.sketch); /* in the caller's memory, as this may raise an error */
			old = MemoryContextSwitchTo(known_cxt);
			state = hll_copy(merged);
			MemoryContextSwitchTo(old);
			pfree(merged);
			pfree(known->state);
			known->state = state;
		}
		distinctscan_end(&scan);
	}
	return ours;
}

/*
 * take_state takes the state out of a sketch while it is merged with another one: that may free it,
 * and fail after that. A sketch without a state is never used.
 */
static HllState *
take_state(DcKnown *known)
{
	HllState *state = known->state;

	known->state = NULL;
	return state;
}

/*
 * Return true if the row was written by this transaction or one of its subtransactions that have
 * not aborted.
 */
static bool
distinctknown_is_ours(TupleTableSlot *slot)
{
	HeapTupleHeader tuple = ExecFetchSlotHeapTuple(slot, false, NULL)->t_data;

	return TransactionIdIsCurrentTransactionId(HeapTupleHeaderGetXmin(tuple));
}

/*
 * known_missing returns those of some items that are not known, or NULL if all are.
 */
HllState *
known_missing(DcKnown *known, const HllState *items)
{
	HllState *missing;

	if (items->precision != known->state->precision)
		return hll_copy(items); /* the rows of one table have one precision: see write_key() */
	if (items->dense)
	{
		const uint8 *registers = hll_registers(items);

		if (!known->state->dense)
			return hll_copy(items);
		for (uint32 i = 0; i < hll_nregisters(items->precision); i++)
		{
			if (registers[i] > hll_registers(known->state)[i])
				return hll_copy(items);
		}
		return NULL;
	}
	missing = hll_new(items->precision, items->hash);
	if (items->count > 0)
	{
		uint32 *tokens = hll_sorted_tokens(items);

		for (uint32 i = 0; i < items->count; i++)
		{
			if (distinctknown_is_missing(known->state, tokens[i]))
				missing = hll_add_token(missing, tokens[i]);
		}
		pfree(tokens);
	}
	if (missing->count > 0)
		return missing;
	pfree(missing);
	return NULL;
}

/*
 * Return true if the item, a token of its hash, would change the sketch.
 */
static bool
distinctknown_is_missing(const HllState *state, uint32 token)
{
	uint32 cell;
	uint32 value;

	if (!state->dense)
		return hll_probe_token(state, token, &cell, &value) != HLL_SAME;
	cell = hll_token_register(state->precision, token, &value);
	return hll_registers(state)[cell] < value;
}

/*
 * known_raise adds items that this session has committed; the rows of that generation have all of
 * them. The LSN is that of their commit.
 */
void
known_raise(const DcRowKey *key, uint64 generation, const HllState *items, XLogRecPtr lsn)
{
	DcKnownSlot *slot = known_cxt != NULL ? knowns_lookup(knowns, *key) : NULL;
	DcKnown *known = slot != NULL ? slot->known : NULL;
	MemoryContext old;

	if (known == NULL || known->state == NULL || known->generation != generation)
		return;
	known->next = ReadNextTransactionId();
	known->lsn = Max(known->lsn, lsn);
	old = MemoryContextSwitchTo(known_cxt);
	known->state = hll_merge(take_state(known), items);
	MemoryContextSwitchTo(old);
	known_resize(known);
}

/*
 * known_any_uncommitted returns true if a sketch has rows of this transaction.
 */
bool
known_any_uncommitted(void)
{
	return uncommitted > 0;
}

/*
 * known_forget_uncommitted forgets the sketches with rows of this transaction. Runs when a
 * transaction or subtransaction ends: must not throw.
 */
void
known_forget_uncommitted(void)
{
	dlist_mutable_iter iter;

	if (uncommitted == 0)
		return;
	dlist_foreach_modify(iter, &used)
	{
		DcKnown *known = dlist_container(DcKnown, node, iter.cur);

		if (known->uncommitted)
			known_remove(known);
	}
}

/*
 * Make an empty sketch for a key, and remember it as the one used last. It lives until it is
 * removed.
 */
static DcKnown *
known_new(const DcRowKey *key, int precision, uint64 generation)
{
	DcKnownSlot *slot;
	MemoryContext old;
	DcKnown *known;
	bool found;

	if (known_cxt == NULL)
	{
		MemoryContext cxt = AllocSetContextCreate(TopMemoryContext, "dcounter distinct", ALLOCSET_DEFAULT_SIZES);

		knowns = knowns_create(cxt, 64, NULL);
		known_cxt = cxt;
	}
	old = MemoryContextSwitchTo(known_cxt);
	known = palloc0(sizeof(DcKnown) + key->len);
	known->key = *key;
	known->key.data = (char *) (known + 1);
	memcpy(known + 1, key->data, key->len);
	known->generation = generation;
	known->state = hll_new(precision, SKETCH_HASH_REDIS);
	slot = knowns_insert(knowns, known->key, &found);
	slot->key = known->key;
	slot->known = known;
	MemoryContextSwitchTo(old);
	dlist_push_head(&used, &known->node);
	return known;
}

/*
 * Forget a sketch, and free it.
 */
static void
known_remove(DcKnown *known)
{
	uncommitted -= known->uncommitted;
	total_size -= known->size;
	dlist_delete(&known->node);
	knowns_delete(knowns, known->key);
	if (known->state != NULL)
		pfree(known->state);
	pfree(known);
}

/*
 * known_resize notes the size of a sketch, and removes others if all take too much.
 */
static void
known_resize(DcKnown *known)
{
	total_size -= known->size;
	known->size = sizeof(DcKnown) + sizeof(DcKnownSlot) + known->key.len + hll_size(known->state);
	total_size += known->size;
	while (total_size > (Size) dc_distinct_cache * 1024 && dlist_tail_node(&used) != &known->node)
		known_remove(dlist_container(DcKnown, node, dlist_tail_node(&used)));
}
