/*
 * sharedhints.c
 *		Where the shard rows of hot keys are, for all sessions.
 *
 * A session that knows no row of a key asks the index (scan.c). While an old snapshot is held
 * that has an entry for each page that a row was ever on, in the order of the pages, not
 * of time: so finding the live version among them takes the longer, the longer the
 * snapshot is held. And a session that knew the rows long ago has to follow the links
 * through all these pages. Here is where each row has moved to last.
 *
 * A row is entered when it moves to another page, and when it is inserted beside other
 * rows of its key: keys with one row, which are many, would drive out the others. It is
 * removed when compaction deletes it. The entries of a key are within WINDOW places
 * from where its hash leads to; if all of these are in use, any of them makes room. A place
 * is never empty again, so the entries of a key end with the first empty place.
 *
 * There is no lock, and none is needed. Each field is read and written by itself, so
 * what is read may be a mixture of several rows, old, of a table that was rewritten or
 * dropped, or of another key with the same hash. It is a hint like those that a session
 * remembers (hints.c), and never trusted: a hint may lead anywhere (versions.c: the block is
 * compared with the size of the table, and each line pointer is checked), and what it
 * leads to counts only if a snapshot sees it, and it holds the key and the number
 * that are looked for (probe.c). The key that is compared is the caller's, not one from here,
 * and the number that is compared is the one that the hint is used for. So a wrong hint
 * costs time, and says nothing about what rows there are: only the index does.
 *
 * Two sessions that enter the same row at the same time may enter it twice. The
 * reader takes the first that it comes to for each number.
 *
 * Without shared memory all of this does nothing.
 */
#include "postgres.h"

#include "base/shmem.h"
#include "common/pg_prng.h"
#include "miscadmin.h"
#include "rows/sharedhints.h"
#include "storage/bufpage.h"

#define PLACES 16384 /* a power of 2 */
#define WINDOW DC_MAX_SHARED_HINTS

/* Instead of a hash: a place that was never used, and one that is free again. */
#define HASH_EMPTY 0
#define HASH_REMOVED 1
#define HASH_FIRST 2

typedef struct DcSharedHint
{
	Oid database;
	Oid counter;
	int32 shard;
	BlockNumber block;
	uint32 offset; /* as each field, no part of a word */
} DcSharedHint;

typedef struct DcSharedHints
{
	uint32 hashes[PLACES]; /* apart, so that looking takes few cache lines */
	DcSharedHint hints[PLACES];
} DcSharedHints;

/* In shared memory, or NULL. */
static volatile DcSharedHints *shared_hints = NULL;

static void
hints_init(void *area)
{
	/* all places are empty */
	StaticAssertStmt(HASH_EMPTY == 0, "the area is cleared");
}

/*
 * shared_hints_init is called once, while the library is being preloaded.
 */
void
shared_hints_init(void)
{
	shmem_add("dcounter shared hints", sizeof(DcSharedHints), (void **) &shared_hints,
			  hints_init);
}

static uint32
hash_of(const DcDeltaKey *key)
{
	return Max(delta_key_hash(key), HASH_FIRST);
}

/*
 * find_place finds the next entry of a key, from the i-th place of its window on; -1 if
 * there is none. *i moves on.
 */
static int
find_place(const DcDeltaKey *key, uint32 hash, int *i)
{
	while (*i < WINDOW)
	{
		int place = (hash + (*i)++) & (PLACES - 1);
		uint32 found = shared_hints->hashes[place];
		volatile DcSharedHint *hint = &shared_hints->hints[place];

		if (found == HASH_EMPTY)
			break;
		if (found == hash && hint->counter == key->counter && hint->database == MyDatabaseId)
			return place;
	}
	return -1;
}

/*
 * find_shard finds the entry of a row; -1 if there is none.
 */
static int
find_shard(const DcDeltaKey *key, uint32 hash, int32 shard)
{
	int i = 0;
	int place;

	do
		place = find_place(key, hash, &i);
	while (place >= 0 && shared_hints->hints[place].shard != shard);
	return place;
}

/*
 * find_room finds a place for an entry that is not there: one that is free, or any.
 */
static int
find_room(uint32 hash)
{
	for (int i = 0; i < WINDOW; i++)
	{
		int place = (hash + i) & (PLACES - 1);

		if (shared_hints->hashes[place] < HASH_FIRST)
			return place;
	}
	return (hash + pg_prng_uint32(&pg_global_prng_state) % WINDOW) & (PLACES - 1);
}

/*
 * shared_hint_put tells all sessions where a row is now.
 */
void
shared_hint_put(const DcDeltaKey *key, int32 shard, ItemPointer root)
{
	volatile DcSharedHint *hint;
	uint32 hash;
	int place;

	if (shared_hints == NULL)
		return;
	hash = hash_of(key);
	place = find_shard(key, hash, shard);
	if (place < 0)
		place = find_room(hash);
	hint = &shared_hints->hints[place];
	hint->database = MyDatabaseId;
	hint->counter = key->counter;
	hint->shard = shard;
	hint->block = ItemPointerGetBlockNumberNoCheck(root);
	hint->offset = ItemPointerGetOffsetNumberNoCheck(root);
	shared_hints->hashes[place] = hash;
}

/*
 * shared_hint_remove forgets a row that was deleted.
 */
void
shared_hint_remove(const DcDeltaKey *key, int32 shard)
{
	int place;

	if (shared_hints == NULL)
		return;
	place = find_shard(key, hash_of(key), shard);
	if (place >= 0)
		shared_hints->hashes[place] = HASH_REMOVED;
}

/*
 * read_place reads an entry; false if that cannot be the place of a row.
 */
static bool
read_place(int place, ItemPointer root)
{
	volatile DcSharedHint *hint = &shared_hints->hints[place];
	uint32 offset = hint->offset;

	if (offset < FirstOffsetNumber || offset > MaxOffsetNumber)
		return false;
	ItemPointerSet(root, hint->block, (OffsetNumber) offset);
	return true;
}

/*
 * shared_hint_find tells where a row was last; false if that is not known.
 */
bool
shared_hint_find(const DcDeltaKey *key, int32 shard, ItemPointer root)
{
	int place;

	if (shared_hints == NULL)
		return false;
	place = find_shard(key, hash_of(key), shard);
	return place >= 0 && read_place(place, root);
}

/*
 * shared_hints_read lists the rows of a key that are known, each number once, and
 * returns how many. There is room for DC_MAX_SHARED_HINTS.
 */
int
shared_hints_read(const DcDeltaKey *key, DcHint *hints)
{
	uint32 hash;
	int count = 0;
	int i = 0;
	int place;

	if (shared_hints == NULL)
		return 0;
	hash = hash_of(key);
	while ((place = find_place(key, hash, &i)) >= 0)
	{
		int32 shard = shared_hints->hints[place].shard;
		ItemPointerData root;
		int j = 0;

		while (j < count && hints[j].shard != shard)
			j++;
		if (j < count || !read_place(place, &root))
			continue;
		hint_set(&hints[count], &root, InvalidOffsetNumber, InvalidBuffer);
		hints[count++].shard = shard;
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
