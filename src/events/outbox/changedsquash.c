/*
 * changedsquash.c
 *		Removing redundant marks of changed keys (changed.c); sets of keys.
 *
 * Copyright (c) 2026, the dcounter developers
 *
 * A key that changes all the time gets a mark at each compaction. For a counter table with a long
 * interval between events, marks would pile up. So between two rounds all but the first mark of
 * each key are removed: that one makes the next round read the key, which is later than all of
 * them. The lock keeps rounds away.
 *
 * A set distinguishes keys by 128 bits of hashes with a secret seed, so that many of them fit into
 * memory.
 */
#include "postgres.h"

#include "catalog/pg_type.h"
#include "common/hashfn.h"
#include "common/pg_prng.h"
#include "miscadmin.h"
#include "utils/hsearch.h"
#include "utils/memutils.h"

#include "base/key.h"
#include "base/rowread.h"
#include "events/outbox/changed.h"

/* How many marks a transaction deletes, and how many keys it remembers. */
#define SQUASH_MARKS 20000
#define SQUASH_KEYS 500000

typedef struct KeyHash
{
	uint64 parts[2];
} KeyHash;

/*
 * marks_squash leaves one mark of each key, of those from a time on, where the next
 * round starts to read; true if there is more to do. The caller has the lock of the
 * counter table's events. One scan, in one transaction, meets each mark once.
 */
bool
marks_squash(Oid counter, TimestampTz from)
{
	MemoryContext cxt = AllocSetContextCreate(CurrentMemoryContext,
											  "dcounter changed keys",
											  ALLOCSET_DEFAULT_SIZES);
	HTAB *seen = key_set_make(cxt);
	DcCatScan scan;
	bool more = true;
	int deleted = 0;

	marks_scan(&scan, RowExclusiveLock, counter, from, DT_NOEND);
	while (deleted < SQUASH_MARKS && (more = cat_scan_next(&scan, ForwardScanDirection, NULL)))
	{
		Datum key = tuple_datum(scan.rel, scan.tuple, MARK_KEY, TEXTOID);

		CHECK_FOR_INTERRUPTS();
		/* when too many are remembered, any other key counts as a new one */
		if (!key_set_has(seen, key, hash_get_num_entries(seen) < SQUASH_KEYS))
			continue;
		cat_scan_delete(&scan);
		deleted++;
	}
	cat_scan_end(&scan);
	MemoryContextDelete(cxt);
	return more;
}

/*
 * key_set_make creates an empty set of keys, in a memory context.
 */
HTAB *
key_set_make(MemoryContext cxt)
{
	HASHCTL ctl = {0};

	ctl.keysize = sizeof(KeyHash);
	ctl.entrysize = sizeof(KeyHash);
	ctl.hcxt = cxt;
	return hash_create("dcounter changed keys", 1024, &ctl,
					   HASH_ELEM | HASH_BLOBS | HASH_CONTEXT);
}

/*
 * Return true if a key (a text datum) is in a set, and adds it if `add`.
 */
bool
key_set_has(HTAB *set, Datum key, bool add)
{
	static uint64 seeds[2] = {0, 0};
	KeyHash hash;
	text *copy = DatumGetTextPP(key);
	bool found;

	while (seeds[0] == seeds[1])
	{
		seeds[0] = pg_prng_uint64(&pg_global_prng_state);
		seeds[1] = pg_prng_uint64(&pg_global_prng_state);
	}
	for (int i = 0; i < 2; i++)
		hash.parts[i] = hash_bytes_extended((const unsigned char *) VARDATA_ANY(copy), VARSIZE_ANY_EXHDR(copy), seeds[i]);
	free_detoasted(copy, key);
	(void) hash_search(set, &hash, add ? HASH_ENTER : HASH_FIND, &found);
	return found;
}
