/*
 * sharedhints.c
 *		The places of the shard rows of hot keys, for all sessions.
 *
 * Copyright (c) 2026, the dcounter developers
 *
 * A session that knows no row of a key searches the index (scan.c). While an old snapshot is
 * held, the index has an entry for each page that a row was ever on, in the order of the pages,
 * not of time. So the longer the snapshot is held, the longer it takes to find the live version
 * among them. And a session that knew the rows long ago has to follow the links
 * through all these pages. This table has the last known place of each row.
 *
 * A row is entered when it moves to another page, and when it is inserted beside other
 * rows of its key. The many keys with only one row would evict the others. A row is
 * removed when compaction deletes it.
 *
 * There is no lock (hinttable.c), and none is needed. A place that is read may be a mixture of
 * several rows, outdated, of a table that was rewritten or dropped, or of another key with the
 * same hash. It is a hint like those that a session remembers (hints.c), and never trusted:
 *
 *	- It may lead anywhere: the block is compared with the size of the table, and each line
 *	  pointer is checked before it is followed (rowversions.c).
 *	- The row there counts only if a snapshot sees it, and if it has the requested key and number
 *	  (probe.c): the caller's key, and the number for which the hint is used, whether or not that
 *	  belongs to the place.
 *	- It does not say which rows exist: a number counts as known only when its row was
 *	  found, and the index has all others.
 *
 * So a wrong hint costs time and nothing else.
 *
 * Without shared memory all of this does nothing.
 */
#include "postgres.h"

#include "common/pg_prng.h"
#include "miscadmin.h"
#include "storage/bufpage.h"

#include "base/shmem.h"
#include "core/rows/hinttable.h"
#include "core/rows/shardnumber.h"
#include "core/rows/sharedhints.h"

StaticAssertDecl(DC_MAX_SHARED_HINTS == HINT_WINDOW, "there is room for all rows of a key");

/* In shared memory, or NULL. */
static volatile DcHintTable *table = NULL;

/*
 * Initialize the table: there is nothing to do.
 */
static void
table_init(void *area)
{
	/* the area was cleared, and all places of it are empty */
}

/*
 * shared_hints_init asks for the shared memory; called once, at preload.
 */
void
shared_hints_init(void)
{
	shmem_add("dcounter shared hints", sizeof(DcHintTable), (void **) &table, table_init);
}

/*
 * entry_of returns an entry for a row, without its place.
 */
static DcHintEntry
entry_of(const DcDeltaKey *key, int32 shard)
{
	return (DcHintEntry){.database = MyDatabaseId, .counter = key->counter, .shard = shard};
}

/*
 * shared_hint_put tells all sessions where a row is now, unless it has amounts of other
 * regions: sessions do not write to such rows.
 */
void
shared_hint_put(const DcDeltaKey *key, int32 shard, ItemPointer root)
{
	DcHintEntry entry = entry_of(key, shard);

	if (table == NULL || shard_is_remote(shard))
		return;
	entry.block = ItemPointerGetBlockNumberNoCheck(root);
	entry.offset = ItemPointerGetOffsetNumberNoCheck(root);
	hinttable_put(table, delta_key_hash(key), &entry, pg_prng_uint32(&pg_global_prng_state));
}

/*
 * shared_hint_remove forgets a row that was deleted.
 */
void
shared_hint_remove(const DcDeltaKey *key, int32 shard)
{
	DcHintEntry entry = entry_of(key, shard);

	if (table != NULL)
		hinttable_remove(table, delta_key_hash(key), &entry);
}

/*
 * sharedhints_place_of sets *root to the place of an entry; false if no row can be there.
 */
static bool
sharedhints_place_of(const DcHintEntry *entry, ItemPointer root)
{
	if (entry->offset < FirstOffsetNumber || entry->offset > MaxOffsetNumber)
		return false;
	ItemPointerSet(root, entry->block, (OffsetNumber) entry->offset);
	return true;
}

/*
 * shared_hint_find sets a hint to where a row was last; false if that is not known.
 */
bool
shared_hint_find(const DcDeltaKey *key, int32 shard, ItemPointer root)
{
	DcHintEntry entry = entry_of(key, shard);

	return table != NULL && hinttable_find(table, delta_key_hash(key), &entry) &&
		sharedhints_place_of(&entry, root);
}

/*
 * shared_hints_read lists the rows of a key that are known, each number once, and
 * returns how many. There is room for DC_MAX_SHARED_HINTS.
 */
int
shared_hints_read(const DcDeltaKey *key, DcHint *hints)
{
	DcHintEntry entries[HINT_WINDOW];
	int count = 0;
	int found = 0;

	if (table != NULL)
		found = hinttable_read(table, delta_key_hash(key), MyDatabaseId, key->counter, entries);
	for (int i = 0; i < found; i++)
	{
		ItemPointerData root;

		if (!sharedhints_place_of(&entries[i], &root))
			continue;
		hint_set(&hints[count], &root, InvalidOffsetNumber, InvalidBuffer);
		hints[count++].shard = entries[i].shard;
	}
	return count;
}

/*
 * shared_hints_learn adds what is known of a key to what this backend remembers. Returns
 * its list, or NULL if it has none.
 */
DcHintList *
shared_hints_learn(const DcDeltaKey *key)
{
	DcHint hints[DC_MAX_SHARED_HINTS];
	int count = shared_hints_read(key, hints);
	DcHintList *list;

	if (count == 0)
		return hints_find(key);
	list = hints_get(key);
	for (int i = 0; i < count; i++)
		hints_add(list, &hints[i].root, hints[i].shard);
	return list;
}
