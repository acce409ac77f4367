/*
 * distinctpending.c
 *		Items that this transaction has added and not written yet.
 *
 * Copyright (c) 2026, the dcounter developers
 *
 * An item touches no row: it goes to a small sketch of its key in this backend. When the
 * transaction commits, or is prepared, one row for each key is inserted into the table of deltas,
 * with those items that the session does not know to be there (distinctknown.c); often there are
 * none, and nothing is written. An insertion waits for nobody, so writers of one key neither wait
 * for each other nor deadlock, and no isolation level makes them fail. A SERIALIZABLE transaction
 * writes all its items, whatever is known: leaving one out would be a read, and the server must
 * know of each read. Then a reader that does not see its row conflicts with it, and adds do not.
 *
 * Savepoints work as for increments (core/counter/pending.c): a stack of levels, each with the
 * nesting level of its subtransaction. ABORT_SUB drops a level, COMMIT_SUB gives it to the parent.
 * Items may be written early, in subtransaction L (memory is full, or DDL is about to change the
 * table). The rows are L's: levels of L are dropped, and those below L are kept with applied_by =
 * L, to be pending again if L aborts.
 *
 * At COMMIT the levels are set aside, and the next call adds them to what the session knows: a
 * callback must not fail.
 *
 * All of this is private to the backend, in contexts below TopMemoryContext, which the callbacks
 * delete or set aside.
 */
#include "postgres.h"

#include "access/xact.h"
#include "access/xlog.h"
#include "miscadmin.h"
#include "storage/bufmgr.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"
#include "utils/snapmgr.h"

#include "base/guc.h"
#include "base/xactrooms.h"
#include "time/distinct/distinct.h"
#include "types/sketch/hash.h"
#include "types/sketch/hll/dc_hll.h"

/* If more keys than this are to be written, unknown ones are not read before that. */
#define MAX_LOADED_KEYS 1000

typedef struct DcItems
{
	DcRowKey key;
	HllState *state;
	uint64 generation; /* of the table when they were written; 0: they were not */
	uint32 hash;
	char status;
} DcItems;

#define SH_PREFIX items
#define SH_ELEMENT_TYPE DcItems
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

typedef struct DcLevel
{
	struct DcLevel *below; /* next outer level */
	int nest;			   /* nesting level of the subtransaction */
	int applied_by;		   /* nesting level that wrote it, or 0 */
	MemoryContext cxt;	   /* holds all of this */
	items_hash *items;
	Size bytes; /* of keys and sketches */
} DcLevel;

static DcLevel *top_level = NULL;

/* The levels that the last transaction has committed, and its LSN. */
static DcLevel *committed = NULL;
static XLogRecPtr committed_lsn;

static DcLevel *level_current(void);
static void distinctpending_level_pop(DcLevel **link);
static void distinctpending_level_merge_top(void);
static DcItems *level_items(DcLevel *level, const DcRowKey *key, int precision);
static Size level_size(const DcLevel *level);
static DcItems **all_items(int *count);
static int items_compare(const void *a, const void *b);
static void write_items(bool commits);
static void write_table(DcItems **items, int count, bool load, bool commits);
static void write_key(DcDistinctRel *rel, DcItems **items, int count, bool load, bool commits);
static void check_precision(const DcDistinct *distinct, const HllState *state);
static void mark_written(void);
static bool distinctpending_is_idle(void);
static void distinctpending_xact_callback(XactEvent event, void *arg);
static void distinctpending_subxact_callback(SubXactEvent event, SubTransactionId mine, SubTransactionId parent, void *arg);

/*
 * distinct_pending_init registers the callbacks; called once.
 */
void
distinct_pending_init(void)
{
	xact_room_add(DC_XACT_DISTINCT, distinctpending_xact_callback, distinctpending_subxact_callback, distinctpending_is_idle);
}

/*
 * distinct_pending_add adds an item to a key of a table that is locked.
 */
void
distinct_pending_add(DcDistinct *distinct, const DcRowKey *key, uint64 hash)
{
	DcLevel *level = level_current();
	DcItems *items = level_items(level, key, distinct->row.precision);
	Size before = hll_size(items->state);
	MemoryContext old = MemoryContextSwitchTo(level->cxt);
	Size used = 0;

	items->state = hll_add(items->state, hash);
	MemoryContextSwitchTo(old);
	level->bytes += hll_size(items->state) - before;
	for (DcLevel *l = top_level; l != NULL; l = l->below)
		used += l->applied_by == 0 ? level_size(l) : 0;
	/* or if another module runs SQL in a callback of its own, after ours */
	if (used > (Size) dc_pending_memory * 1024 || xact_has_passed(DC_XACT_DISTINCT))
		distinct_write_early();
}

/*
 * distinct_pending_merge adds the pending items of a key to a sketch, which may move.
 */
HllState *
distinct_pending_merge(const DcRowKey *key, HllState *into)
{
	for (DcLevel *level = top_level; level != NULL; level = level->below)
	{
		DcItems *items = level->applied_by == 0 ? items_lookup(level->items, *key) : NULL;

		if (items != NULL)
			into = hll_merge(into, items->state);
	}
	return into;
}

/*
 * distinct_pending_keys lists the keys (DcRowKey *) of a table that have pending items and are
 * wanted; not in order, and perhaps more than once.
 */
List *
distinct_pending_keys(Oid relid, bool (*wanted)(const void *arg, const DcRowKey *key), const void *arg)
{
	List *keys = NIL;

	for (DcLevel *level = top_level; level != NULL; level = level->below)
	{
		items_iterator it;
		DcItems *items;

		if (level->applied_by != 0)
			continue;
		items_start_iterate(level->items, &it);
		while ((items = items_iterate(level->items, &it)) != NULL)
		{
			if (items->key.relid == relid && wanted(arg, &items->key))
				keys = lappend(keys, &items->key);
		}
	}
	return keys;
}

/*
 * distinct_pending_absorb adds items that the last transaction has committed to what the session
 * knows.
 */
void
distinct_pending_absorb(void)
{
	while (committed != NULL)
	{
		DcLevel *level = committed;
		items_iterator it;
		DcItems *items;

		items_start_iterate(level->items, &it);
		while ((items = items_iterate(level->items, &it)) != NULL)
		{
			if (items->generation != 0)
				known_raise(&items->key, items->generation, items->state, committed_lsn);
		}
		distinctpending_level_pop(&committed);
	}
}

/*
 * distinct_write_early writes what is pending now, in the current subtransaction.
 */
void
distinct_write_early(void)
{
	if (top_level == NULL)
		return;
	write_items(false);
	mark_written();
	CommandCounterIncrement();
}

/*
 * mark_written notes that the current subtransaction has written all pending items.
 */
static void
mark_written(void)
{
	int nest = GetCurrentTransactionNestLevel();

	while (top_level != NULL && top_level->nest == nest)
		distinctpending_level_pop(&top_level);
	for (DcLevel *level = top_level; level != NULL; level = level->below)
	{
		if (level->applied_by == 0)
			level->applied_by = nest;
	}
}

/*
 * level_current returns the level of the current subtransaction.
 */
static DcLevel *
level_current(void)
{
	int nest = GetCurrentTransactionNestLevel();
	MemoryContext cxt;
	DcLevel *level;

	distinctpending_level_merge_top();
	if (top_level != NULL && top_level->nest == nest && top_level->applied_by == 0)
		return top_level;
	cxt = AllocSetContextCreate(TopMemoryContext, "dcounter distinct items", ALLOCSET_SMALL_SIZES);
	level = MemoryContextAllocZero(cxt, sizeof(DcLevel));
	level->cxt = cxt;
	level->nest = nest;
	level->items = items_create(cxt, 8, NULL);
	level->below = top_level;
	xact_mark(DC_XACT_DISTINCT);
	top_level = level;
	return level;
}

/*
 * Take a level off the stack, and free it.
 */
static void
distinctpending_level_pop(DcLevel **link)
{
	DcLevel *level = *link;

	*link = level->below;
	MemoryContextDelete(level->cxt);
}

/*
 * distinctpending_level_merge_top merges levels that came to have the same number when a
 * subtransaction committed.
 */
static void
distinctpending_level_merge_top(void)
{
	while (top_level != NULL && top_level->below != NULL && top_level->nest == top_level->below->nest &&
		   top_level->applied_by == 0 && top_level->below->applied_by == 0)
	{
		DcLevel *into = top_level->below;
		items_iterator it;
		DcItems *from;

		items_start_iterate(top_level->items, &it);
		while ((from = items_iterate(top_level->items, &it)) != NULL)
		{
			DcItems *items = level_items(into, &from->key, from->state->precision);
			Size before = hll_size(items->state);
			MemoryContext old = MemoryContextSwitchTo(into->cxt);

			items->state = hll_merge(items->state, from->state);
			MemoryContextSwitchTo(old);
			into->bytes += hll_size(items->state) - before;
		}
		distinctpending_level_pop(&top_level);
	}
}

/*
 * level_items returns the items of a key, none at first.
 */
static DcItems *
level_items(DcLevel *level, const DcRowKey *key, int precision)
{
	DcItems *items = items_lookup(level->items, *key);
	MemoryContext old;
	HllState *state;
	DcRowKey copy;
	char *data;
	bool found;

	if (items != NULL)
		return items;
	old = MemoryContextSwitchTo(level->cxt);
	data = palloc(key->len + 1);
	memcpy(data, key->data, key->len);
	copy = (DcRowKey){key->relid, key->len, data};
	state = hll_new(precision, SKETCH_HASH_REDIS);
	items = items_insert(level->items, copy, &found);
	items->state = state;
	items->generation = 0;
	MemoryContextSwitchTo(old);
	level->bytes += key->len + hll_size(state);
	return items;
}

/*
 * Return about how many bytes a level takes.
 */
static Size
level_size(const DcLevel *level)
{
	return level->bytes + level->items->size * sizeof(DcItems);
}

/*
 * all_items lists what is pending, in the order of tables and keys. A key of several levels comes
 * several times.
 */
static DcItems **
all_items(int *count)
{
	DcItems **all;
	int n = 0;

	for (DcLevel *level = top_level; level != NULL; level = level->below)
		n += level->applied_by == 0 ? level->items->members : 0;
	all = palloc_extended(Max(n, 1) * sizeof(DcItems *), MCXT_ALLOC_HUGE);
	*count = 0;
	for (DcLevel *level = top_level; level != NULL; level = level->below)
	{
		items_iterator it;
		DcItems *items;

		if (level->applied_by != 0)
			continue;
		items_start_iterate(level->items, &it);
		while ((items = items_iterate(level->items, &it)) != NULL)
			all[(*count)++] = items;
	}
	if (n > 1)
		qsort(all, n, sizeof(DcItems *), items_compare);
	return all;
}

/*
 * Compare two items by table and key, for qsort(): the order in which rows are written.
 */
static int
items_compare(const void *a, const void *b)
{
	const DcRowKey *left = &(*(DcItems *const *) a)->key;
	const DcRowKey *right = &(*(DcItems *const *) b)->key;

	CHECK_FOR_INTERRUPTS(); /* of a long qsort() */
	if (left->relid != right->relid)
		return left->relid < right->relid ? -1 : 1;
	return bytes_compare(left->data, left->len, right->data, right->len);
}

/*
 * Write what is pending. `commits`: the transaction is about to commit, with synchronous_commit as
 * it is now.
 */
static void
write_items(bool commits)
{
	MemoryContext cxt;
	MemoryContext old;
	DcItems **all;
	int count;

	distinct_pending_absorb();
	cxt = AllocSetContextCreate(CurrentMemoryContext, "dcounter distinct write", ALLOCSET_DEFAULT_SIZES);
	old = MemoryContextSwitchTo(cxt);
	all = all_items(&count);
	for (int start = 0, end; start < count; start = end)
	{
		end = start + 1;
		while (end < count && all[end]->key.relid == all[start]->key.relid)
			end++;
		write_table(all + start, end - start, count <= MAX_LOADED_KEYS && !IsolationIsSerializable(), commits);
	}
	MemoryContextSwitchTo(old);
	MemoryContextDelete(cxt);
}

/*
 * write_table writes the items of a table; nothing if this transaction has dropped the table since.
 */
static void
write_table(DcItems **items, int count, bool load, bool commits)
{
	MemoryContext one = AllocSetContextCreate(CurrentMemoryContext, "dcounter distinct key", ALLOCSET_DEFAULT_SIZES);
	MemoryContext old = CurrentMemoryContext;
	DcDistinctRel rel;

	if (!distinctrel_open_again(&rel, items[0]->key.relid, true))
		return;
	for (int start = 0, end; start < count; start = end)
	{
		CHECK_FOR_INTERRUPTS();
		end = start + 1;
		while (end < count && rowkey_equal(&items[end]->key, &items[start]->key))
			end++;
		MemoryContextSwitchTo(one);
		write_key(&rel, items + start, end - start, load, commits);
		MemoryContextSwitchTo(old);
		MemoryContextReset(one);
	}
	distinctrel_close(&rel);
	MemoryContextDelete(one);
}

/*
 * write_key writes the items of a key that are not known.
 */
static void
write_key(DcDistinctRel *rel, DcItems **items, int count, bool load, bool commits)
{
	const DcRowKey *key = &items[0]->key;
	DcDistinct *distinct = rel->distinct;
	DcKnown *known = NULL;
	HllState *state = items[0]->state;

	if (count > 1)
	{
		state = hll_copy(state);
		for (int i = 1; i < count; i++)
			state = hll_merge(state, items[i]->state);
	}
	check_precision(distinct, state);
	if (load)
		known = known_load(rel, key);
	else if (!IsolationIsSerializable())
		known = known_find(key, distinct);
	if (known != NULL && known_is_durable(known, commits))
		state = known_missing(known, state);
	for (int i = 0; i < count; i++)
		items[i]->generation = distinct->generation;
	if (state != NULL)
		distinct_insert_row(rel, DISTINCT_DELTA, key->data, key->len, hll_value(state));
}

/*
 * check_precision raises 55000 if items are of another precision than the table is now. DDL in a
 * function that REFRESH MATERIALIZED VIEW calls comes without what is pending being written before.
 * The type of the column would not keep them out, as rows are written without SQL, and whoever reads
 * one relies on the table's precision.
 */
static void
check_precision(const DcDistinct *distinct, const HllState *state)
{
	if (state->precision != distinct->row.precision)
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("cannot write items of precision %d to distinct table \"%s\" of precision %d", state->precision,
						get_rel_name(distinct->relid), distinct->row.precision),
				 errdetail("The table has changed since this transaction added them."),
				 errhint("Change a distinct table in a transaction that has not added items to it.")));
}

/*
 * Return true if the transaction has added no items, and the session remembers nothing uncommitted.
 */
static bool
distinctpending_is_idle(void)
{
	return top_level == NULL && !known_any_uncommitted();
}

/*
 * Write the pending items when the transaction commits or is prepared. After a commit, set them
 * aside for what the session knows; after an abort, drop them. The items of a prepared transaction
 * are dropped, too: it may still be rolled back.
 */
static void
distinctpending_xact_callback(XactEvent event, void *arg)
{
	switch (event)
	{
		case XACT_EVENT_PRE_COMMIT:
		case XACT_EVENT_PRE_PREPARE:
			if (top_level == NULL)
				break;
			PushActiveSnapshot(GetTransactionSnapshot());
			write_items(true);
			PopActiveSnapshot();
			for (DcLevel *level = top_level; level != NULL; level = level->below)
				level->applied_by = 1;
			break;
		case XACT_EVENT_COMMIT:
			if (top_level != NULL) /* levels that were set aside before were absorbed when this was written */
			{
				committed = top_level;
				committed_lsn = XactLastCommitEnd;
				top_level = NULL;
			}
			known_forget_uncommitted();
			break;
		case XACT_EVENT_ABORT:
		case XACT_EVENT_PREPARE:
			while (top_level != NULL)
				distinctpending_level_pop(&top_level);
			known_forget_uncommitted();
			break;
		default:
			break;
	}
}

/*
 * Hand the levels and rows of a subtransaction to its parent. If it has aborted, drop its levels,
 * and make items pending again that it has written for others.
 */
static void
distinctpending_subxact_callback(SubXactEvent event, SubTransactionId mine, SubTransactionId parent, void *arg)
{
	int nest = GetCurrentTransactionNestLevel();
	DcLevel **link = &top_level;

	if (event == SUBXACT_EVENT_ABORT_SUB)
	{
		while (top_level != NULL && top_level->nest >= nest)
			distinctpending_level_pop(&top_level);
		for (DcLevel *level = top_level; level != NULL; level = level->below)
			level->applied_by = level->applied_by >= nest ? 0 : level->applied_by;
		known_forget_uncommitted();
	}
	else if (event == SUBXACT_EVENT_COMMIT_SUB)
	{
		while (*link != NULL)
		{
			DcLevel *level = *link;

			if (level->nest == nest)
				level->nest--;
			if (level->applied_by == nest)
				level->applied_by--;
			if (level->applied_by != 0 && level->applied_by <= level->nest)
				distinctpending_level_pop(link);
			else
				link = &level->below;
		}
		/* its rows are the parent's now: sketches that were read from them stay uncommitted */
	}
}
