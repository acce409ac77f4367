/*
 * keysums.c
 *		Sums of both sides of a binding by key, within a bound of memory.
 *
 * Copyright (c) 2026, the dcounter developers
 *
 * Amounts are added up in a hash table. When that has taken half of the memory, it keeps the
 * keys that it has, and what comes for others is written to files, one for each part of the
 * hash values. In the end the table is given to a sort, and then each of the files is read, and
 * added up in a table of its own. If even that is too large, it is given to the sort and begun
 * again: then a key comes out of the sort several times in a row, and is added up when it is
 * fetched. Keys whose sums are the same on both sides can be left out of the sort. As long as
 * there is room, there are no files, and the sort is one of pointers.
 *
 * Keys come out in the order of their bytes, which is that of COLLATE "C".
 *
 * Sums are kept in 128 bits: amounts that fit bigint may have a sum that does not.
 */
#include "postgres.h"

#include "access/tupdesc.h"
#include "catalog/pg_collation.h"
#include "catalog/pg_operator.h"
#include "catalog/pg_type.h"
#include "commands/tablespace.h"
#include "common/hashfn.h"
#include "common/int.h"
#include "executor/tuptable.h"
#include "miscadmin.h"
#include "storage/buffile.h"
#include "utils/builtins.h"
#include "utils/memutils.h"
#include "utils/tuplesort.h"

#include "base/compat.h"
#include "base/key.h"
#include "base/rowread.h"
#include "transactional/bound/keysums.h"

typedef struct DcBytes
{
	const char *data;
	uint32 len;
} DcBytes;

/* A key and its sums. */
typedef struct DcKeySumsEntry
{
	INT128 sums[DC_NUM_SIDES];
	DcBytes key; /* in the blocks */
	uint32 hash;
	char status; /* for simplehash */
	bool marked;
} DcKeySumsEntry;

#define SH_PREFIX sumtable
#define SH_ELEMENT_TYPE DcKeySumsEntry
#define SH_KEY_TYPE DcBytes
#define SH_KEY key
#define SH_HASH_KEY(tb, k) key_secret_hash((k).data, (k).len)
#define SH_EQUAL(tb, a, b) ((a).len == (b).len && memcmp((a).data, (b).data, (a).len) == 0)
#define SH_STORE_HASH
#define SH_GET_HASH(tb, a) (a)->hash
/* It must grow at its threshold and never earlier, or is_full() could not predict it. */
#define SH_GROW_MIN_FILLFACTOR 1.0
#define SH_SCOPE static inline
#define SH_DECLARE
#define SH_DEFINE
#include "lib/simplehash.h"

/* Keys are copied to blocks of this size; a key fits into any. */
#define BLOCK_SIZE (128 * 1024)

#define FIRST_ENTRIES 256

/* Files for the keys for which there is no room, by the highest bits of a hash. */
#define PART_BITS 6
#define PARTS (1 << PART_BITS)

/* An amount in such a file. The bytes of the key follow. */
typedef struct DcPartRecord
{
	int64 amount;
	uint16 len;
	uint8 side;
	bool marks;
} DcPartRecord;

/* Columns of what is sorted: the key, an amount of each side, and whether it is marked. */
#define SORT_MARKED (1 + DC_NUM_SIDES)
#define SORT_COLUMNS (2 + DC_NUM_SIDES)

struct DcKeySums
{
	MemoryContext cxt; /* of everything here */
	int64 memory;	   /* bytes that the table and its keys may have */
	sumtable_hash *table;
	MemoryContext blocks;
	int64 block_bytes; /* of all blocks */
	char *block;
	size_t block_used;
	bool only_different;   /* the sort gets no keys whose sums are the same */
	BufFile *parts[PARTS]; /* NULL: not created */
	bool has_parts;		   /* some exist: the table accepts no more keys */
	Tuplesortstate *sort;  /* NULL: nothing has spilled to it */
	TupleDesc desc;
	TupleTableSlot *slot;	 /* the next row of its result, or empty */
	char *fetched;			 /* the key of the last one */
	DcKeySumsEntry **sorted; /* without a sort: the entries in order, */
	uint32 next;			 /* and which comes next */
};

static bool is_full(const DcKeySums *sums);
static void keysums_add(DcKeySums *sums, const DcBytes *key, uint32 hash, const DcPartRecord *record);
static DcKeySumsEntry *keysums_enter(DcKeySums *sums, const DcBytes *key, uint32 hash);
static void write_part(DcKeySums *sums, const DcBytes *key, uint32 hash, const DcPartRecord *record);
static void add_part(DcKeySums *sums, BufFile *file);
static void keysums_spill(DcKeySums *sums, bool whole);
static void spill_entry(DcKeySums *sums, const DcKeySumsEntry *entry, TupleTableSlot *slot);
static int64 take_part(INT128 *sum);
static void sort_begin(DcKeySums *sums);
static const char *keep_bytes(DcKeySums *sums, const char *data, uint32 len);
static bool next_in_memory(DcKeySums *sums, DcKeySumsRow *row);
static bool next_of_sort(DcKeySums *sums, DcKeySumsRow *row);
static int entry_compare(const void *a, const void *b);

/*
 * key_sums_begin creates an empty set of sums in the current memory context, which uses up to
 * `memory` bytes. With only_different, keys whose sums are equal may be left out at the end.
 */
DcKeySums *
key_sums_begin(int64 kilobytes, bool only_different)
{
	MemoryContext cxt = AllocSetContextCreate(CurrentMemoryContext, "dcounter sums",
											  ALLOCSET_DEFAULT_SIZES);
	DcKeySums *sums = MemoryContextAllocZero(cxt, sizeof(DcKeySums));

	sums->cxt = cxt;
	sums->memory = kilobytes * 1024 / 2;
	sums->only_different = only_different;
	sums->blocks = AllocSetContextCreate(cxt, "dcounter sums: keys", ALLOCSET_DEFAULT_SIZES);
	sums->block_used = BLOCK_SIZE;
	sums->table = sumtable_create(cxt, FIRST_ENTRIES, NULL);
	return sums;
}

/*
 * Return true if the set has a key. Valid only while nothing has spilled.
 */
bool
key_sums_has(DcKeySums *sums, const char *data, uint32 len)
{
	DcBytes key = {data, len};

	return sumtable_lookup(sums->table, key) != NULL;
}

/*
 * key_sums_know adds a key with sums of 0, unless it is there. It does so even if there is no
 * room.
 */
void
key_sums_know(DcKeySums *sums, const char *data, uint32 len)
{
	DcBytes key = {data, len};

	(void) keysums_enter(sums, &key, key_secret_hash(data, len));
}

/*
 * Return the entry of a key in the table, with sums of 0 if it is new. Copies the bytes of the
 * key.
 */
static DcKeySumsEntry *
keysums_enter(DcKeySums *sums, const DcBytes *key, uint32 hash)
{
	bool found;
	DcKeySumsEntry *entry = sumtable_insert_hash(sums->table, *key, hash, &found);

	if (found)
		return entry;
	entry->marked = false;
	entry->key.data = keep_bytes(sums, key->data, key->len);
	for (int i = 0; i < DC_NUM_SIDES; i++)
		entry->sums[i] = int64_to_int128(0);
	return entry;
}

/*
 * key_sums_add adds `plus` - `minus` to a sum of a key.
 */
void
key_sums_add(DcKeySums *sums, const char *data, uint32 len, DcSide side, int64 plus,
			 int64 minus)
{
	DcBytes key = {data, len};
	uint32 hash = key_secret_hash(data, len);
	DcPartRecord record = {.amount = plus, .len = len, .side = side};

	if (minus == PG_INT64_MIN)
	{
		keysums_add(sums, &key, hash, &record);
		record.amount = 1;
		minus = -PG_INT64_MAX;
	}
	if (minus != 0 && pg_sub_s64_overflow(record.amount, minus, &record.amount))
	{
		record.amount = plus;
		keysums_add(sums, &key, hash, &record);
		record.amount = -minus;
	}
	keysums_add(sums, &key, hash, &record);
}

/*
 * key_sums_mark sets `marked` in the row of a key, which must be in the set.
 */
void
key_sums_mark(DcKeySums *sums, const char *data, uint32 len)
{
	DcBytes key = {data, len};
	DcPartRecord record = {.len = len, .marks = true};

	keysums_add(sums, &key, key_secret_hash(data, len), &record);
}

/*
 * keysums_add adds an amount to the table, or keeps it in a file.
 */
static void
keysums_add(DcKeySums *sums, const DcBytes *key, uint32 hash, const DcPartRecord *record)
{
	DcKeySumsEntry *entry = sumtable_lookup_hash(sums->table, *key, hash);

	if (entry == NULL)
	{
		if (sums->has_parts || is_full(sums))
		{
			write_part(sums, key, hash, record);
			return;
		}
		entry = keysums_enter(sums, key, hash);
	}
	int128_add_int64(&entry->sums[record->side], record->amount);
	entry->marked |= record->marks;
}

/*
 * write_part keeps an amount in the file of its key's part.
 */
static void
write_part(DcKeySums *sums, const DcBytes *key, uint32 hash, const DcPartRecord *record)
{
	BufFile **file = &sums->parts[murmurhash32(hash) >> (32 - PART_BITS)];

	if (*file == NULL)
	{
		MemoryContext old = MemoryContextSwitchTo(sums->cxt);

		PrepareTempTablespaces();
		*file = BufFileCreateTemp(false);
		sums->has_parts = true;
		MemoryContextSwitchTo(old);
	}
	BufFileWrite(*file, (void *) record, sizeof(*record));
	BufFileWrite(*file, (void *) key->data, key->len);
}

/*
 * add_part adds up the contents of a file, and passes the sums to the sort.
 */
static void
add_part(DcKeySums *sums, BufFile *file)
{
	bool whole = true;
	char *data = MemoryContextAlloc(sums->cxt, PG_UINT16_MAX);
	DcPartRecord record;
	size_t n;

	if (BufFileSeek(file, 0, 0, SEEK_SET) != 0)
		ereport(ERROR, (errcode_for_file_access(), errmsg("could not rewind a temporary file")));
	while ((n = BufFileRead(file, &record, sizeof(record))) == sizeof(record))
	{
		DcBytes key = {data, record.len};
		uint32 hash;
		DcKeySumsEntry *entry;

		CHECK_FOR_INTERRUPTS();
		if (BufFileRead(file, data, record.len) != record.len)
			break;
		hash = key_secret_hash(data, record.len);
		entry = sumtable_lookup_hash(sums->table, key, hash);
		if (entry == NULL && is_full(sums))
		{
			whole = false;
			keysums_spill(sums, whole);
		}
		if (entry == NULL)
			entry = keysums_enter(sums, &key, hash);
		int128_add_int64(&entry->sums[record.side], record.amount);
		entry->marked |= record.marks;
	}
	if (n != 0)
		ereport(ERROR, (errcode_for_file_access(), errmsg("could not read from a temporary file")));
	pfree(data);
	keysums_spill(sums, whole);
}

/*
 * key_sums_set sets a sum of a key to which nothing was added on that side. It never spills,
 * so it may be repeated.
 */
void
key_sums_set(DcKeySums *sums, const char *data, uint32 len, DcSide side, int64 value)
{
	key_sums_set_sum(sums, data, len, side, int64_to_int128(value));
}

/*
 * Set a sum of a key, which is added if it is new. Like key_sums_set(), it never spills.
 */
void
key_sums_set_sum(DcKeySums *sums, const char *data, uint32 len, DcSide side, INT128 sum)
{
	DcBytes key = {data, len};
	DcKeySumsEntry *entry;

	key_sums_know(sums, data, len);
	entry = sumtable_lookup(sums->table, key);
	entry->sums[side] = sum;
}

/*
 * Return true if one more key may take more memory than there is: while the table
 * grows there are an old one and one of twice the size.
 */
static bool
is_full(const DcKeySums *sums)
{
	uint64 entries = sums->table->size;

	if (sums->table->members >= sums->table->grow_threshold)
		entries *= 3;
	return sums->table->members > 0 &&
		sums->block_bytes + entries * sizeof(DcKeySumsEntry) > sums->memory;
}

/*
 * Copy the bytes of a key into the current block, or into a new one if they do not fit; return
 * the copy.
 */
static const char *
keep_bytes(DcKeySums *sums, const char *data, uint32 len)
{
	char *kept;

	Assert(len <= BLOCK_SIZE);
	if (sums->block_used + len > BLOCK_SIZE)
	{
		sums->block = MemoryContextAlloc(sums->blocks, BLOCK_SIZE);
		sums->block_used = 0;
		sums->block_bytes += BLOCK_SIZE;
	}
	kept = sums->block + sums->block_used;
	memcpy(kept, data, len);
	sums->block_used += len;
	return kept;
}

/*
 * keysums_spill gives all sums to the sort, and empties the table. They may be partial sums.
 */
static void
keysums_spill(DcKeySums *sums, bool whole)
{
	MemoryContext old = MemoryContextSwitchTo(sums->cxt);
	MemoryContext row = AllocSetContextCreate(sums->cxt, "dcounter sums: row", ALLOCSET_SMALL_SIZES);
	sumtable_iterator i;
	DcKeySumsEntry *entry;
	TupleTableSlot *slot;

	if (sums->sort == NULL)
		sort_begin(sums);
	slot = MakeSingleTupleTableSlot(sums->desc, &TTSOpsVirtual);
	sumtable_start_iterate(sums->table, &i);
	while ((entry = sumtable_iterate(sums->table, &i)) != NULL)
	{
		CHECK_FOR_INTERRUPTS();
		if (whole && sums->only_different && !entry->marked &&
			int128_compare(entry->sums[DC_SIDE_SOURCE], entry->sums[DC_SIDE_COUNTER]) == 0)
			continue;
		MemoryContextReset(row);
		MemoryContextSwitchTo(row);
		spill_entry(sums, entry, slot);
		MemoryContextSwitchTo(sums->cxt);
	}
	ExecDropSingleTupleTableSlot(slot);
	MemoryContextDelete(row);
	sumtable_destroy(sums->table);
	sums->table = sumtable_create(sums->cxt, FIRST_ENTRIES, NULL);
	MemoryContextReset(sums->blocks);
	sums->block_bytes = 0;
	sums->block_used = BLOCK_SIZE;
	MemoryContextSwitchTo(old);
}

/*
 * spill_entry gives the sums of a key to the sort, in parts that fit bigint.
 */
static void
spill_entry(DcKeySums *sums, const DcKeySumsEntry *entry, TupleTableSlot *slot)
{
	Datum key = PointerGetDatum(cstring_to_text_with_len(entry->key.data, entry->key.len));
	INT128 rest[DC_NUM_SIDES];
	bool more;

	memcpy(rest, entry->sums, sizeof(rest));
	do
	{
		more = false;
		ExecClearTuple(slot);
		memset(slot->tts_isnull, false, SORT_COLUMNS * sizeof(bool));
		slot->tts_values[0] = key;
		for (int side = 0; side < DC_NUM_SIDES; side++)
		{
			slot->tts_values[1 + side] = Int64GetDatum(take_part(&rest[side]));
			more |= int128_compare(rest[side], int64_to_int128(0)) != 0;
		}
		slot->tts_values[SORT_MARKED] = BoolGetDatum(entry->marked);
		ExecStoreVirtualTuple(slot);
		tuplesort_puttupleslot(sums->sort, slot);
	} while (more);
}

/*
 * take_part subtracts from a sum as much as fits bigint, and returns that.
 */
static int64
take_part(INT128 *sum)
{
	int64 part;

	if (int128_compare(*sum, int64_to_int128(PG_INT64_MAX)) > 0)
		part = PG_INT64_MAX;
	else if (int128_compare(*sum, int64_to_int128(-PG_INT64_MAX)) < 0)
		part = -PG_INT64_MAX;
	else
		part = int128_to_int64(*sum);
	int128_add_int64(sum, -part);
	return part;
}

/*
 * Begin a sort of rows (key, amounts, marked) by key, in "C" order. It may use as much memory
 * as the sums, and 64 kB at least.
 */
static void
sort_begin(DcKeySums *sums)
{
	AttrNumber column = 1;
	Oid less = TextLessOperator;
	Oid collation = C_COLLATION_OID;
	bool nulls_first = false;

	sums->desc = CreateTemplateTupleDesc(SORT_COLUMNS);
	TupleDescInitEntry(sums->desc, 1, "key", TEXTOID, -1, 0);
	TupleDescInitEntryCollation(sums->desc, 1, C_COLLATION_OID);
	for (int i = 2; i <= SORT_MARKED; i++)
		TupleDescInitEntry(sums->desc, i, "amount", INT8OID, -1, 0);
	TupleDescInitEntry(sums->desc, SORT_COLUMNS, "marked", BOOLOID, -1, 0);
	sums->sort = tuplesort_begin_heap(compat_described(sums->desc), 1, &column, &less, &collation, &nulls_first,
									  Max(sums->memory / 1024, 64), NULL, TUPLESORT_NONE);
}

/*
 * key_sums_sort ends adding: from now on sums can be fetched.
 */
void
key_sums_sort(DcKeySums *sums)
{
	MemoryContext old = MemoryContextSwitchTo(sums->cxt);

	if (sums->has_parts)
	{
		keysums_spill(sums, true);
		for (int i = 0; i < PARTS; i++)
		{
			if (sums->parts[i] == NULL)
				continue;
			add_part(sums, sums->parts[i]);
			BufFileClose(sums->parts[i]);
			sums->parts[i] = NULL;
		}
		tuplesort_performsort(sums->sort);
		sums->fetched = palloc(BLOCK_SIZE);
		sums->slot = MakeSingleTupleTableSlot(sums->desc, &TTSOpsMinimalTuple);
		(void) tuplesort_gettupleslot(sums->sort, true, false, sums->slot, NULL);
	}
	else
	{
		sumtable_iterator i;
		DcKeySumsEntry *entry;
		uint32 n = 0;

		sums->sorted = palloc_extended(Max(sums->table->members, 1) * sizeof(DcKeySumsEntry *),
									   MCXT_ALLOC_HUGE);
		sumtable_start_iterate(sums->table, &i);
		while ((entry = sumtable_iterate(sums->table, &i)) != NULL)
			sums->sorted[n++] = entry;
		qsort(sums->sorted, n, sizeof(DcKeySumsEntry *), entry_compare);
	}
	MemoryContextSwitchTo(old);
}

/*
 * Compare two entries by the bytes of their keys, for qsort().
 */
static int
entry_compare(const void *a, const void *b)
{
	const DcBytes *left = &(*(DcKeySumsEntry *const *) a)->key;
	const DcBytes *right = &(*(DcKeySumsEntry *const *) b)->key;

	CHECK_FOR_INTERRUPTS(); /* of a long qsort() */
	return bytes_compare(left->data, left->len, right->data, right->len);
}

/*
 * key_sums_next fetches the sums of the next key; false when there is none left.
 */
bool
key_sums_next(DcKeySums *sums, DcKeySumsRow *row)
{
	return sums->sort != NULL ? next_of_sort(sums, row) : next_in_memory(sums, row);
}

/*
 * Set *row to the next entry of the sorted array; false when there is none left.
 */
static bool
next_in_memory(DcKeySums *sums, DcKeySumsRow *row)
{
	DcKeySumsEntry *entry;

	if (sums->next >= sums->table->members)
		return false;
	entry = sums->sorted[sums->next++];
	row->data = entry->key.data;
	row->len = entry->key.len;
	memcpy(row->sums, entry->sums, sizeof(row->sums));
	row->marked = entry->marked;
	return true;
}

/*
 * next_of_sort adds up the rows of the next key, and stops at the first of another one.
 */
static bool
next_of_sort(DcKeySums *sums, DcKeySumsRow *row)
{
	bool first = true;

	row->data = sums->fetched;
	while (!TTS_EMPTY(sums->slot))
	{
		text *key = DatumGetTextPP(slot_datum(sums->slot, 1, TEXTOID));
		uint32 len = VARSIZE_ANY_EXHDR(key);

		CHECK_FOR_INTERRUPTS();
		if (first)
		{
			row->len = len;
			memcpy(sums->fetched, VARDATA_ANY(key), len);
			for (int side = 0; side < DC_NUM_SIDES; side++)
				row->sums[side] = int64_to_int128(0);
			row->marked = false;
			first = false;
		}
		else if (len != row->len || memcmp(sums->fetched, VARDATA_ANY(key), len) != 0)
			break;
		for (int side = 0; side < DC_NUM_SIDES; side++)
			int128_add_int64(&row->sums[side], DatumGetInt64(slot_datum(sums->slot, 2 + side, INT8OID)));
		row->marked |= DatumGetBool(slot_datum(sums->slot, SORT_COLUMNS, BOOLOID));
		(void) tuplesort_gettupleslot(sums->sort, true, false, sums->slot, NULL);
	}
	return !first;
}

/*
 * key_sums_end frees the sums. After an abort that is not necessary.
 */
void
key_sums_end(DcKeySums *sums)
{
	for (int i = 0; i < PARTS; i++)
	{
		if (sums->parts[i] != NULL)
			BufFileClose(sums->parts[i]);
	}
	if (sums->slot != NULL)
		ExecDropSingleTupleTableSlot(sums->slot);
	if (sums->sort != NULL)
		tuplesort_end(sums->sort);
	MemoryContextDelete(sums->cxt);
}
