/*
 * hinttable_test.c
 *		The table of places of shard rows: what it finds, and that nothing in it does harm.
 */
#include "core/rows/hinttable.h"

#include <stdlib.h>
#include <string.h>

#include "unit.h"

static DcHintTable table;
static uint64_t state = 1;

static DcHintEntry
entry(uint32_t counter, int32_t shard, uint32_t block)
{
	return (DcHintEntry){.database = 5, .counter = counter, .shard = shard, .block = block, .offset = 1};
}

static void
put(uint32_t hash, uint32_t counter, int32_t shard, uint32_t block)
{
	DcHintEntry e = entry(counter, shard, block);

	hinttable_put(&table, hash, &e, (uint32_t) unit_random(&state));
}

/* the block of a row, or -1 */
static int64_t
find(uint32_t hash, uint32_t counter, int32_t shard)
{
	DcHintEntry e = entry(counter, shard, 0);

	return hinttable_find(&table, hash, &e) ? (int64_t) e.block : -1;
}

static int
count(uint32_t hash, uint32_t database, uint32_t counter)
{
	DcHintEntry entries[HINT_WINDOW];

	return hinttable_read(&table, hash, database, counter, entries);
}

static void
test_rows(void)
{
	DcHintEntry e = entry(7, 2, 0);

	memset(&table, 0, sizeof(table));
	ok(count(100, 5, 7) == 0 && find(100, 7, 1) == -1, "an empty table knows nothing");
	put(100, 7, 1, 11);
	put(100, 7, 2, 12);
	put(100, 7, 1, 13);
	ok(count(100, 5, 7) == 2 && find(100, 7, 1) == 13 && find(100, 7, 2) == 12,
	   "a row is at the place that was put last");
	put(100, 8, 1, 21);
	put(101, 7, 1, 31);
	ok(count(100, 5, 7) == 2 && count(100, 5, 8) == 1 && count(101, 5, 7) == 1 &&
		   count(100, 6, 7) == 0,
	   "rows of other counters, databases and hashes are others");
	hinttable_remove(&table, 100, &e);
	ok(count(100, 5, 7) == 1 && find(100, 7, 1) == 13 && find(100, 7, 2) == -1,
	   "a row that was removed is not found, and those after it are");
	put(100, 7, 3, 14);
	put(100, 7, 1, 15);
	ok(count(100, 5, 7) == 2 && find(100, 7, 1) == 15 && find(100, 7, 3) == 14,
	   "its place is used again, and a row after it is not put twice");
	put(0, 7, 1, 41);
	put(1, 7, 2, 42);
	ok(find(0, 7, 1) == 41 && find(1, 7, 2) == 42, "hashes that stand for places without a row");
	put(UINT32_MAX, 7, 1, 51);
	put(UINT32_MAX, 7, 2, 52);
	ok(find(UINT32_MAX, 7, 1) == 51 && find(UINT32_MAX, 7, 2) == 52, "a window that goes round");
}

static void
test_full(void)
{
	memset(&table, 0, sizeof(table));
	for (int i = 0; i < 1000; i++)
		put(100, 7, i, (uint32_t) i);
	ok(count(100, 5, 7) == HINT_WINDOW, "of a key with many rows as many are known as there is room for");
	ok(find(100, 7, 999) == 999, "the last one among them");
	put(100, 8, 1, 21);
	ok(find(100, 8, 1) == 21, "another key gets a place");
}

/*
 * Anything may be in the table: each call ends, leaves nothing outside of it, and a result is of
 * the key, each number once. (The sanitizer sees what is outside.)
 */
static void
test_garbage(void)
{
	bool right = true;

	for (int round = 0; round < 200; round++)
	{
		uint32_t few = 1 + (uint32_t) unit_random(&state) % 4;

		for (int i = 0; i < HINT_PLACES; i++)
		{
			/* few values, so that much of it fits together */
			table.hashes[i] = unit_random(&state) % 3 == 0 ? (uint32_t) unit_random(&state) : (uint32_t) (unit_random(&state) % few);
			table.entries[i] = (DcHintEntry){
				.database = (uint32_t) unit_random(&state) % few,
				.counter = (uint32_t) unit_random(&state) % few,
				.shard = (int32_t) (unit_random(&state) % (16 * few)),
				.block = (uint32_t) unit_random(&state),
				.offset = (uint32_t) unit_random(&state),
			};
		}
		for (int i = 0; i < 1000; i++)
		{
			uint32_t hash = i % 2 == 0 ? (uint32_t) unit_random(&state) % 8 : (uint32_t) unit_random(&state);
			uint32_t database = (uint32_t) unit_random(&state) % few;
			uint32_t counter = (uint32_t) unit_random(&state) % few;
			DcHintEntry entries[HINT_WINDOW];
			DcHintEntry e = {.database = database, .counter = counter, .shard = (int32_t) (unit_random(&state) % 16), .block = 1, .offset = 1};
			DcHintEntry asked = e;
			int n = hinttable_read(&table, hash, database, counter, entries);

			right &= n >= 0 && n <= HINT_WINDOW;
			for (int a = 0; a < n; a++)
			{
				right &= entries[a].database == database && entries[a].counter == counter;
				for (int b = 0; b < a; b++)
					right &= entries[a].shard != entries[b].shard;
			}
			if (hinttable_find(&table, hash, &asked))
				right &= asked.database == database && asked.counter == counter && asked.shard == e.shard;
			if (i % 3 == 0)
				hinttable_put(&table, hash, &e, (uint32_t) unit_random(&state));
			if (i % 3 == 1)
				hinttable_remove(&table, hash, &e);
		}
	}
	ok(right, "whatever is in the table, a result is of the key that was asked for, each number once");
}

int
main(void)
{
	test_rows();
	test_full();
	test_garbage();
	return done_testing();
}
