/*
 * map.c
 *		A hash table in shared memory, for keys of counters and limits.
 *
 * Copyright (c) 2026, the dcounter developers
 *
 * It has a fixed size, and callers must expect it to be full. Its memory is divided into cells
 * of one size. An entry is a cell: a header, the user's payload, and the first bytes of the
 * key. A longer key continues in further cells. So no key is too long, nothing is fragmented, and a
 * short key, as most are, costs one cell. A payload may also refer to cells of its own, which the
 * user takes and gives back.
 *
 * The protocol:
 *
 *	- The buckets are divided among partitions, each with a lock. It protects the
 *	  chains of its buckets: shared to look, exclusive to insert and remove.
 *	- Chains are walked under that lock, and some after a commit record, so they must stay short
 *	  whatever keys a role chooses: the hash has a secret key, a new one each time that the map is
 *	  created, which is not stored anywhere else.
 *	- Cells that were never used, and a list of the free ones, are protected by a
 *	  spinlock. It is taken while a partition's lock is held, never the other way.
 *	- A pin keeps an entry from being removed: it is taken under the partition's
 *	  lock, and given back without. A process that has pinned an entry may go on using it
 *	  without a lock. The user of the map protects the payload.
 *
 * Memory is touched when it is first used, so a large map that stays empty costs address space only
 * (except for the buckets).
 */
#include "postgres.h"

#include "common/hashfn.h"
#include "port/pg_bitutils.h"
#include "storage/spin.h"

#include "base/map.h"
#include "base/shmem.h"
#include "base/siphash.h"

#define KEY_BYTES_INLINE 64
#define MAX_BUCKETS (UINT32_C(1) << 31)

struct DcMap
{
	LWLockPadded locks[DC_MAP_PARTITIONS];
	slock_t mutex;		   /* protects the next three */
	uint32 fresh;		   /* cells from here on were never used */
	uint32 free;		   /* first of a list, or DC_MAP_NONE */
	pg_atomic_uint32 used; /* cells; written under the mutex */
	/* fixed from here on */
	uint64 secret[2]; /* of the hash */
	uint32 ncells;
	uint32 bucket_mask;
	Size payload;
	Size cell_size;
	Size cells_offset;
	uint32 buckets[FLEXIBLE_ARRAY_MEMBER];
};

/* A cell that is free, or has more bytes of a key. */
typedef struct DcMapCell
{
	uint32 next;
	char data[FLEXIBLE_ARRAY_MEMBER];
} DcMapCell;

static void *cell_at(const DcMap *map, uint32 number);
static uint32 map_take_cells(DcMap *map, uint32 count);
static void cells_give_back(DcMap *map, uint32 first, uint32 last, uint32 count);
static uint32 bucket_sweep(DcMap *map, uint32 bucket, DcMapMayGo may_go, void *arg);
static void map_entry_free(DcMap *map, DcMapEntry *entry);
static uint32 cells_wanted(const DcMap *map, uint32 len);
static bool entry_is(DcMap *map, const DcMapEntry *entry, const DcMapKey *key);
static DcMapEntry *entry_create(DcMap *map, const DcMapKey *key);

/*
 * Return where an entry keeps the first bytes of its key.
 */
static char *
entry_inline_key(const DcMap *map, const DcMapEntry *entry)
{
	return (char *) entry + MAXALIGN(sizeof(DcMapEntry)) + map->payload;
}

/*
 * Return the lock of the partition that a hash belongs to.
 */
static LWLock *
partition_lock(DcMap *map, uint32 hash)
{
	return &map->locks[hash % DC_MAP_PARTITIONS].lock;
}

/*
 * Return the size of a cell for entries with this payload.
 */
static Size
cell_size_for(Size payload)
{
	return MAXALIGN(sizeof(DcMapEntry)) + MAXALIGN(payload) + KEY_BYTES_INLINE;
}

/*
 * map_size returns the size of the shared memory for a map of this many bytes.
 */
Size
map_size(Size bytes)
{
	return MAXALIGN(bytes);
}

/*
 * map_size_of returns the bytes for a map that has at least this many cells.
 */
Size
map_size_of(uint32 cells, Size payload)
{
	Size header = offsetof(DcMap, buckets) + DC_MAP_PARTITIONS * sizeof(uint32) + 2 * PG_CACHE_LINE_SIZE;

	/* there are as many buckets as cells, up to the next power of two */
	return map_size(header + cells * (cell_size_for(payload) + 4 * sizeof(uint32)));
}

/*
 * map_init creates an empty map in `bytes` of shared memory.
 */
void
map_init(DcMap *map, Size bytes, Size payload)
{
	Size header = offsetof(DcMap, buckets);
	uint32 nbuckets = DC_MAP_PARTITIONS;
	Size ncells;

	if (!pg_strong_random(map->secret, sizeof(map->secret)))
		ereport(ERROR,
				(errcode(ERRCODE_INTERNAL_ERROR),
				 errmsg("could not generate random values")));
	map->payload = MAXALIGN(payload);
	map->cell_size = cell_size_for(payload);
	while (nbuckets < MAX_BUCKETS && nbuckets < (bytes - header) / map->cell_size)
		nbuckets *= 2;
	map->bucket_mask = nbuckets - 1;
	map->cells_offset = CACHELINEALIGN(header + nbuckets * sizeof(uint32));
	ncells = bytes > map->cells_offset
		? (bytes - map->cells_offset) / map->cell_size
		: 0;
	map->ncells = Min(ncells, DC_MAP_NONE - 1);
	for (int i = 0; i < DC_MAP_PARTITIONS; i++)
		shmem_init_lock(&map->locks[i].lock);
	SpinLockInit(&map->mutex);
	map->fresh = 0;
	map->free = DC_MAP_NONE;
	pg_atomic_init_u32(&map->used, 0);
	for (uint32 i = 0; i < nbuckets; i++)
		map->buckets[i] = DC_MAP_NONE;
}

/*
 * map_key_init makes the map's key of a counter key, to whose bytes it points.
 */
void
map_key_init(const DcMap *map, DcMapKey *key, Oid database, Oid counter, const char *data, uint32 len)
{
	uint32 hash = siphash_hash(map->secret, data, len);

	hash = hash_combine(hash, murmurhash32(counter ^ murmurhash32(database)));
	*key = (DcMapKey){database, counter, data, len, hash};
}

/*
 * map_find returns the entry of a key, pinned, or NULL.
 */
DcMapEntry *
map_find(DcMap *map, const DcMapKey *key)
{
	LWLock *lock = partition_lock(map, key->hash);
	DcMapEntry *entry;

	LWLockAcquire(lock, LW_SHARED);
	entry = map_look(map, key);
	if (entry != NULL)
		map_pin(entry);
	LWLockRelease(lock);
	return entry;
}

/*
 * map_look returns the entry of a key, or NULL, without a pin. The caller has
 * locked the key's partition.
 */
DcMapEntry *
map_look(DcMap *map, const DcMapKey *key)
{
	uint32 number = map->buckets[key->hash & map->bucket_mask];

	while (number != DC_MAP_NONE)
	{
		DcMapEntry *entry = cell_at(map, number);

		if (entry_is(map, entry, key))
			return entry;
		number = entry->next;
	}
	return NULL;
}

/*
 * map_get returns the entry of a key, pinned. If there is none it makes one, and
 * has its payload prepared; NULL if the map is full.
 */
DcMapEntry *
map_get(DcMap *map, const DcMapKey *key, DcMapInit init, void *arg)
{
	LWLock *lock = partition_lock(map, key->hash);
	DcMapEntry *entry = map_find(map, key);

	if (entry != NULL)
		return entry;
	LWLockAcquire(lock, LW_EXCLUSIVE);
	entry = map_look(map, key);
	if (entry == NULL)
		entry = map_add(map, key, init, arg);
	if (entry != NULL)
		map_pin(entry);
	LWLockRelease(lock);
	return entry;
}

/*
 * map_add makes the entry of a key that has none, without a pin, and has its payload
 * prepared; NULL if the map is full. The caller has locked the key's partition exclusively.
 */
DcMapEntry *
map_add(DcMap *map, const DcMapKey *key, DcMapInit init, void *arg)
{
	uint32 *bucket = &map->buckets[key->hash & map->bucket_mask];
	DcMapEntry *entry = entry_create(map, key);

	if (entry == NULL)
		return NULL;
	init(entry, arg);
	entry->next = *bucket;
	*bucket = entry->number;
	return entry;
}

/*
 * map_take_out removes an entry that no process has pinned. The caller has locked its partition
 * exclusively.
 */
void
map_take_out(DcMap *map, DcMapEntry *entry)
{
	uint32 *link = &map->buckets[entry->hash & map->bucket_mask];

	while (*link != entry->number)
		link = &((DcMapEntry *) cell_at(map, *link))->next;
	*link = entry->next;
	map_entry_free(map, entry);
}

/*
 * map_pin pins an entry that is pinned already, or whose partition is locked.
 */
void
map_pin(DcMapEntry *entry)
{
	pg_atomic_fetch_add_u32(&entry->pins, 1);
}

/*
 * Give back a pin. The entry may be removed at any time after that.
 */
void
map_unpin(DcMapEntry *entry)
{
	pg_atomic_fetch_sub_u32(&entry->pins, 1);
}

/*
 * map_remove removes an entry that the caller has pinned, if no other process has and
 * may_go agrees. Gives back the caller's pin in any case.
 */
bool
map_remove(DcMap *map, DcMapEntry *entry, DcMapMayGo may_go, void *arg)
{
	LWLock *lock = map_lock(map, entry);
	bool may;

	LWLockAcquire(lock, LW_EXCLUSIVE);
	may = pg_atomic_read_u32(&entry->pins) == 1;
	pg_read_barrier(); /* a process that has unpinned it has added before */
	if (!may || !may_go(entry, arg))
	{
		map_unpin(entry);
		LWLockRelease(lock);
		return false;
	}
	map_take_out(map, entry);
	LWLockRelease(lock);
	return true;
}

/*
 * map_evict removes those entries of one bucket that may go and are not pinned,
 * and returns how many. Consecutive turns visit all buckets. A bucket that is locked
 * is left alone.
 */
uint32
map_evict(DcMap *map, uint32 turn, DcMapMayGo may_go, void *arg)
{
	uint32 bucket = turn & map->bucket_mask;
	LWLock *lock = partition_lock(map, bucket);
	uint32 removed;

	if (map->buckets[bucket] == DC_MAP_NONE ||
		!LWLockConditionalAcquire(lock, LW_EXCLUSIVE))
		return 0;
	removed = bucket_sweep(map, bucket, may_go, arg);
	LWLockRelease(lock);
	return removed;
}

/*
 * map_sweep asks about all entries, and removes those that may go and are not
 * pinned. Does not throw.
 */
void
map_sweep(DcMap *map, DcMapMayGo may_go, void *arg)
{
	for (uint32 partition = 0; partition < DC_MAP_PARTITIONS; partition++)
		map_sweep_partition(map, partition, may_go, arg);
}

/*
 * map_sweep_partition does the same for one partition, so that the caller can pause between two
 * partitions.
 */
void
map_sweep_partition(DcMap *map, uint32 partition, DcMapMayGo may_go, void *arg)
{
	LWLock *lock = partition_lock(map, partition);

	LWLockAcquire(lock, LW_EXCLUSIVE);
	for (uint32 bucket = partition; bucket <= map->bucket_mask;
		 bucket += DC_MAP_PARTITIONS)
		bucket_sweep(map, bucket, may_go, arg);
	LWLockRelease(lock);
}

/*
 * map_lock returns the lock of an entry's partition.
 */
LWLock *
map_lock(DcMap *map, const DcMapEntry *entry)
{
	return partition_lock(map, entry->hash);
}

/*
 * map_key_lock and map_partition_lock return the lock of a key's partition, and of any.
 */
LWLock *
map_key_lock(DcMap *map, const DcMapKey *key)
{
	return partition_lock(map, key->hash);
}

/*
 * See map_key_lock().
 */
LWLock *
map_partition_lock(DcMap *map, uint32 partition)
{
	return partition_lock(map, partition);
}

/*
 * map_entry returns the entry with a number that the caller knows to be in use.
 */
DcMapEntry *
map_entry(DcMap *map, uint32 number)
{
	return cell_at(map, number);
}

/*
 * map_capacity and map_used return the number of cells: of all, and of those in use.
 */
uint32
map_capacity(const DcMap *map)
{
	return map->ncells;
}

/*
 * See map_capacity(). The number may be outdated at once.
 */
uint32
map_used(DcMap *map)
{
	return pg_atomic_read_u32(&map->used);
}

/*
 * map_entry_size returns the memory that an entry takes.
 */
Size
map_entry_size(const DcMap *map, const DcMapEntry *entry)
{
	return cells_wanted(map, entry->len) * map->cell_size;
}

/*
 * map_key copies the bytes of an entry's key, entry->len of them.
 */
void
map_key(DcMap *map, const DcMapEntry *entry, char *data)
{
	uint32 room = map->cell_size - offsetof(DcMapCell, data);
	uint32 len = Min(entry->len, KEY_BYTES_INLINE);
	uint32 rest = entry->rest;

	memcpy(data, entry_inline_key(map, entry), len);
	while (len < entry->len)
	{
		DcMapCell *cell = cell_at(map, rest);
		uint32 part = Min(entry->len - len, room);

		memcpy(data + len, cell->data, part);
		len += part;
		rest = cell->next;
	}
}

/*
 * map_cells_take takes cells for the payload of an entry, and returns the first one;
 * DC_MAP_NONE if there are not enough. Their contents are undefined, except for the links.
 */
uint32
map_cells_take(DcMap *map, uint32 count)
{
	return map_take_cells(map, count);
}

/*
 * Give back a cell that a payload has got from map_cells_take().
 */
void
map_cell_give_back(DcMap *map, uint32 number)
{
	cells_give_back(map, number, number, 1);
}

/*
 * Return the address of the cell with a number.
 */
void *
map_cell(DcMap *map, uint32 number)
{
	return cell_at(map, number);
}

/*
 * Return the size of a cell in bytes, the link included.
 */
Size
map_cell_size(const DcMap *map)
{
	return map->cell_size;
}

/*
 * Return the address of the cell with a number.
 */
static void *
cell_at(const DcMap *map, uint32 number)
{
	return (char *) map + map->cells_offset + number * map->cell_size;
}

/*
 * map_take_cells takes cells, linked by their first field, and returns the first one;
 * DC_MAP_NONE if there are not enough.
 */
static uint32
map_take_cells(DcMap *map, uint32 count)
{
	uint32 first = DC_MAP_NONE;

	SpinLockAcquire(&map->mutex);
	if (map->ncells - pg_atomic_read_u32(&map->used) >= count)
	{
		pg_atomic_write_u32(&map->used, pg_atomic_read_u32(&map->used) + count);
		for (uint32 i = 0; i < count; i++)
		{
			uint32 number = map->free;
			DcMapCell *cell;

			if (number != DC_MAP_NONE)
				map->free = ((DcMapCell *) cell_at(map, number))->next;
			else
				number = map->fresh++;
			cell = cell_at(map, number);
			cell->next = first;
			first = number;
		}
	}
	SpinLockRelease(&map->mutex);
	return first;
}

/*
 * cells_give_back puts a list of cells at the head of the free ones.
 */
static void
cells_give_back(DcMap *map, uint32 first, uint32 last, uint32 count)
{
	SpinLockAcquire(&map->mutex);
	((DcMapCell *) cell_at(map, last))->next = map->free;
	map->free = first;
	pg_atomic_write_u32(&map->used, pg_atomic_read_u32(&map->used) - count);
	SpinLockRelease(&map->mutex);
}

/*
 * bucket_sweep removes from a bucket the entries that may go and are not pinned. The partition
 * is locked exclusively.
 */
static uint32
bucket_sweep(DcMap *map, uint32 bucket, DcMapMayGo may_go, void *arg)
{
	uint32 *link = &map->buckets[bucket];
	uint32 removed = 0;

	while (*link != DC_MAP_NONE)
	{
		DcMapEntry *entry = cell_at(map, *link);

		if (may_go(entry, arg) && pg_atomic_read_u32(&entry->pins) == 0)
		{
			*link = entry->next;
			map_entry_free(map, entry);
			removed++;
		}
		else
			link = &entry->next;
	}
	return removed;
}

/*
 * map_entry_free gives back the cells of an entry that is in no bucket any more.
 */
static void
map_entry_free(DcMap *map, DcMapEntry *entry)
{
	uint32 last = entry->number;
	uint32 count = 1;

	/* the entry's link is now that of a free cell */
	entry->next = entry->rest;
	for (uint32 cell = entry->rest; cell != DC_MAP_NONE;
		 cell = ((DcMapCell *) cell_at(map, cell))->next)
	{
		last = cell;
		count++;
	}
	cells_give_back(map, entry->number, last, count);
}

/*
 * cells_wanted returns how many cells an entry takes.
 */
static uint32
cells_wanted(const DcMap *map, uint32 len)
{
	uint32 room = map->cell_size - offsetof(DcMapCell, data);

	if (len <= KEY_BYTES_INLINE)
		return 1;
	return 1 + (len - KEY_BYTES_INLINE + room - 1) / room;
}

/*
 * Return true if an entry is that of a key.
 */
static bool
entry_is(DcMap *map, const DcMapEntry *entry, const DcMapKey *key)
{
	char data[DC_MAP_KEY_BYTES];

	if (entry->hash != key->hash || entry->len != key->len ||
		entry->counter != key->counter || entry->database != key->database)
		return false;
	if (key->len <= KEY_BYTES_INLINE)
		return memcmp(entry_inline_key(map, entry), key->data, key->len) == 0;
	map_key(map, entry, data);
	return memcmp(data, key->data, key->len) == 0;
}

/*
 * entry_create creates an entry without pins that is not in a bucket yet; NULL if the map is full.
 */
static DcMapEntry *
entry_create(DcMap *map, const DcMapKey *key)
{
	uint32 room = map->cell_size - offsetof(DcMapCell, data);
	uint32 len = Min(key->len, KEY_BYTES_INLINE);
	uint32 number = map_take_cells(map, cells_wanted(map, key->len));
	DcMapEntry *entry;
	uint32 rest;

	if (number == DC_MAP_NONE)
		return NULL;
	entry = cell_at(map, number);
	entry->rest = entry->next; /* the list of cells that were taken */
	entry->hash = key->hash;
	entry->database = key->database;
	entry->counter = key->counter;
	entry->len = key->len;
	entry->number = number;
	pg_atomic_init_u32(&entry->pins, 0);
	memcpy(entry_inline_key(map, entry), key->data, len);
	rest = entry->rest;
	while (len < key->len)
	{
		DcMapCell *cell = cell_at(map, rest);
		uint32 part = Min(key->len - len, room);

		memcpy(cell->data, key->data + len, part);
		len += part;
		rest = cell->next;
	}
	return entry;
}
