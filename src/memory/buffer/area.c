/*
 * area.c
 *		The buffer's shared memory: slots of tables, flushers, entries.
 *
 * Copyright (c) 2026, the dcounter developers
 *
 * buffer.h says which lock protects what.
 */
#include "postgres.h"

#include "miscadmin.h"
#include "storage/latch.h"

#include "base/shmem.h"
#include "core/worker/flusher.h"
#include "memory/buffer/buffer.h"

DcBufferArea *buffer_area = NULL;
DcMap *buffer_map = NULL;

/* How many of the tables a role that is not a superuser may own. */
#define SLOTS_OF_OWNER (DC_BUFFER_TABLES / 2)

static void area_entry_init(DcMapEntry *entry, void *arg);
static bool entry_may_go(DcMapEntry *entry, void *arg);
static void area_press(void);
static DcFlusher *flusher_find(Oid database);
static int slots_of_owner(Oid owner);
static DcBufferTable *table_slot_known(DcCounter *counter);
static void table_slot_remember(DcCounter *counter, DcBufferTable *table);

/*
 * area_init sets up the memory, except for the map.
 */
void
area_init(void *new_area)
{
	DcBufferArea *init = new_area;

	shmem_init_lock(&init->lock);
	pg_atomic_init_u32(&init->restored, 0);
	pg_atomic_init_u32(&init->pressed, 0);
	for (int i = 0; i < DC_BUFFER_TABLES; i++)
	{
		DcBufferTable *table = &init->tables[i];

		shmem_init_lock(&table->lock);
		table->first = DC_MAP_NONE;
		pg_atomic_init_u32(&table->generation, 1);
		pg_atomic_init_u32(&table->users, 0);
		pg_atomic_init_u32(&table->reserving, 0);
		pg_atomic_init_u32(&table->dirty, 0);
		pg_atomic_init_u64(&table->since, 0);
		pg_atomic_init_u64(&table->interval, 0);
		pg_atomic_init_u32(&table->owner, InvalidOid);
		pg_atomic_init_u64(&table->begun, 0);
		pg_atomic_init_u64(&table->done, 0);
		pg_atomic_init_u64(&table->refused, 0);
		pg_atomic_init_u32(&table->waiting, 0);
		pg_atomic_init_u32(&table->left, DC_NOT_LEFT);
		pg_atomic_init_u64(&table->last_start, 0);
		pg_atomic_init_u64(&table->last_us, 0);
		pg_atomic_init_u64(&table->moves_begun, 0);
		pg_atomic_init_u64(&table->moves_ended, 0);
		pg_atomic_init_u32(&table->restored, DC_NOT_RESTORED);
	}
}

/*
 * table_slot returns the slot of a table of this database, on which the caller has a lock. NULL if
 * the table has no slot, and so nothing in memory.
 */
DcBufferTable *
table_slot(DcCounter *counter)
{
	DcBufferTable *table = table_slot_known(counter);

	if (table == NULL)
	{
		LWLockAcquire(&buffer_area->lock, LW_SHARED);
		table = table_slot_find(MyDatabaseId, counter->relid);
		LWLockRelease(&buffer_area->lock);
		table_slot_remember(counter, table);
	}
	return table;
}

/*
 * table_slot_to_add does the same, but creates one if there is none; NULL if none is left. It is
 * for transactions that are about to add something, not for readers: a slot is given back when the
 * table is dropped, or when a flusher finds that the table is gone. The table may be one that this
 * transaction has created, and is going to roll back. If nothing was added to its slot, no flusher
 * would look at it.
 */
DcBufferTable *
table_slot_to_add(DcCounter *counter)
{
	DcBufferTable *table = table_slot_known(counter);

	if (table == NULL)
	{
		table = table_slot_make(MyDatabaseId, counter->relid, counter->owner);
		table_slot_remember(counter, table);
	}
	return table;
}

/*
 * table_slot_known returns the slot that was found before, if it is still the table's.
 */
static DcBufferTable *
table_slot_known(DcCounter *counter)
{
	DcBufferTable *table = &buffer_area->tables[counter->buffer_table];

	return counter->buffer_generation != 0 &&
			pg_atomic_read_u32(&table->generation) == counter->buffer_generation
		? table
		: NULL;
}

/*
 * Note in the session's entry of the counter which slot its table has, and the slot's generation,
 * so that the next look-up needs no lock. Does nothing if there is no slot.
 */
static void
table_slot_remember(DcCounter *counter, DcBufferTable *table)
{
	if (table == NULL)
		return;
	counter->buffer_table = table - buffer_area->tables;
	counter->buffer_generation = pg_atomic_read_u32(&table->generation);
}

/*
 * table_slot_find returns the slot of a table, or NULL. Under area->lock.
 */
DcBufferTable *
table_slot_find(Oid database, Oid counter)
{
	for (int i = 0; i < buffer_area->ntables; i++)
	{
		DcBufferTable *table = &buffer_area->tables[i];

		if (table->database == database && table->counter == counter)
			return table;
	}
	return NULL;
}

/*
 * Return how many slots the tables of a role have. Under area->lock.
 */
static int
slots_of_owner(Oid owner)
{
	int n = 0;

	for (int i = 0; i < buffer_area->ntables; i++)
	{
		DcBufferTable *table = &buffer_area->tables[i];

		n += OidIsValid(table->database) && pg_atomic_read_u32(&table->owner) == owner;
	}
	return n;
}

/*
 * table_slot_make returns the slot of a table, a new one if it has none; NULL if
 * there is none left, or if the owner's tables have as many as they may.
 */
DcBufferTable *
table_slot_make(Oid database, Oid counter, Oid owner)
{
	bool may_make = !OidIsValid(owner) || superuser_arg(owner);
	DcBufferTable *table;

	LWLockAcquire(&buffer_area->lock, LW_EXCLUSIVE);
	table = table_slot_find(database, counter);
	may_make = may_make || slots_of_owner(owner) < SLOTS_OF_OWNER;
	for (int i = 0; table == NULL && i < DC_BUFFER_TABLES && may_make; i++)
	{
		DcBufferTable *slot = &buffer_area->tables[i];

		if (OidIsValid(slot->database) || pg_atomic_read_u32(&slot->users) != 0)
			continue;
		table = slot;
		table->database = database;
		table->counter = counter;
		table->file_generation = 0;
		pg_atomic_write_u32(&table->dirty, 0);
		pg_atomic_write_u32(&table->left, DC_NOT_LEFT);
		pg_atomic_write_u32(&table->owner, owner);
		pg_atomic_write_u64(&table->last_start, 0);
		pg_atomic_write_u64(&table->last_us, 0);
		pg_atomic_write_u32(&table->restored, DC_NOT_RESTORED);
		buffer_area->ntables = Max(buffer_area->ntables, i + 1);
	}
	LWLockRelease(&buffer_area->lock);
	return table;
}

/*
 * table_slot_free gives back a slot without entries. Under area->lock.
 */
void
table_slot_free(DcBufferTable *table)
{
	if (table->nentries > 0)
		return;
	/* generation 0 means "none" in DcCounter */
	if (pg_atomic_add_fetch_u32(&table->generation, 1) == 0)
		pg_atomic_write_u32(&table->generation, 1);
	table->database = InvalidOid;
	table->counter = InvalidOid;
}

/*
 * table_mark_dirty notes that the table has something to flush, and wakes the flusher unless that
 * was noted already. The slot is one of this database.
 */
void
table_mark_dirty(DcBufferTable *table)
{
	if (pg_atomic_read_u32(&table->dirty) != 0)
		return;
	moment_write(&table->since, moment_now());
	if (pg_atomic_exchange_u32(&table->dirty, 1) == 0)
		flusher_wake();
}

/*
 * flusher_find returns the flusher of a database, or NULL. The caller holds area->lock, unless an
 * answer that is out of date will do.
 */
static DcFlusher *
flusher_find(Oid database)
{
	static int last = 0;

	if (buffer_area->flushers[last].database == database)
		return &buffer_area->flushers[last];
	for (int i = 0; i < DC_BUFFER_FLUSHERS; i++)
	{
		if (buffer_area->flushers[i].database == database)
		{
			last = i;
			return &buffer_area->flushers[i];
		}
	}
	return NULL;
}

/*
 * Return true if this database has a flusher.
 */
bool
flusher_runs(void)
{
	DcFlusher *flusher = flusher_find(MyDatabaseId);

	return flusher != NULL && flusher->latch != NULL;
}

/*
 * Return true if a table of this database is flushed: there is a flusher,
 * and it has not left the table to its owner.
 */
bool
flusher_flushes(DcBufferTable *table)
{
	return flusher_runs() && pg_atomic_read_u32(&table->left) == DC_NOT_LEFT;
}

/*
 * Return true if the flusher leaves a table of this database to its owner because what was loaded
 * for it from the file takes too long to flush.
 */
bool
flusher_takes_too_long(Oid counter)
{
	DcBufferTable *table;
	bool too_long;

	LWLockAcquire(&buffer_area->lock, LW_SHARED);
	table = table_slot_find(MyDatabaseId, counter);
	too_long = table != NULL && pg_atomic_read_u32(&table->left) == DC_LEFT_LONG;
	LWLockRelease(&buffer_area->lock);
	return too_long;
}

/*
 * flusher_wake wakes the flusher of this database, if it runs.
 */
void
flusher_wake(void)
{
	DcFlusher *flusher = flusher_find(MyDatabaseId);
	struct Latch *latch = flusher != NULL ? flusher->latch : NULL;

	/* latches are never freed: at worst this wakes another process needlessly */
	if (latch != NULL)
		SetLatch(latch);
}

/*
 * buffer_altered applies a new flush interval to amounts that are in memory already.
 * (If dc_alter() is rolled back, the next increment sets it right.)
 */
void
buffer_altered(DcCounter *counter, int64 flush_interval)
{
	DcBufferTable *table = counter_is_buffered(counter) ? table_slot(counter) : NULL;

	if (table == NULL)
		return;
	pg_atomic_write_u64(&table->interval, (uint64) flush_interval);
	flusher_wake();
}

/*
 * flusher_enter makes this process the flusher of its database.
 */
void
flusher_enter(void)
{
	DcFlusher *flusher;

	LWLockAcquire(&buffer_area->lock, LW_EXCLUSIVE);
	flusher = flusher_find(MyDatabaseId);
	if (flusher == NULL)
		flusher = flusher_find(InvalidOid);
	if (flusher != NULL)
	{
		flusher->database = MyDatabaseId;
		flusher->pid = MyProcPid;
		flusher->latch = MyLatch;
	}
	LWLockRelease(&buffer_area->lock);
}

/*
 * flusher_leave undoes flusher_enter.
 */
void
flusher_leave(void)
{
	DcFlusher *flusher;

	LWLockAcquire(&buffer_area->lock, LW_EXCLUSIVE);
	flusher = flusher_find(MyDatabaseId);
	if (flusher != NULL && flusher->pid == MyProcPid)
	{
		flusher->latch = NULL;
		flusher->pid = 0;
		flusher->database = InvalidOid;
	}
	LWLockRelease(&buffer_area->lock);
}

/*
 * Return true if something is in memory for a database, or is about to
 * be added, that is in no file and not left to the owner of its table. It is asked when
 * the database has no flusher. From then on amounts come only from transactions that are
 * counted already (reserving), and from a flush that fails and gives back the amounts that
 * it has taken. The next flusher also has to visit entries without amounts, which frees them.
 */
bool
buffer_is_left(Oid database)
{
	bool left = false;

	for (int i = 0; buffer_area != NULL && i < buffer_area->ntables; i++)
	{
		DcBufferTable *table = &buffer_area->tables[i];

		if (table->database != database || pg_atomic_read_u32(&table->left) != DC_NOT_LEFT ||
			pg_atomic_read_u32(&table->restored) == DC_UNRESOLVED)
			continue;
		if (table->nentries > 0)
			table_mark_dirty(table);
		left |= table->nentries > 0 || pg_atomic_read_u32(&table->reserving) > 0;
	}
	return left;
}

/*
 * buffer_map_key fills in the map's key for a key of this database.
 */
void
buffer_map_key(DcMapKey *map_key, Oid counter, const char *data, uint32 len)
{
	map_key_init(buffer_map, map_key, MyDatabaseId, counter, data, len);
}

/*
 * buffer_entry returns the entry of a key, pinned; a new one if there is none. NULL
 * if the map is full.
 */
DcMapEntry *
buffer_entry(DcBufferTable *table, const DcMapKey *key)
{
	DcMapEntry *entry = map_get(buffer_map, key, area_entry_init, table);

	if (buffer_is_pressed())
		area_press();
	return entry;
}

/*
 * area_entry_init makes a new entry the first of its table's list.
 */
static void
area_entry_init(DcMapEntry *entry, void *arg)
{
	DcBufferTable *table = arg;
	DcBuffer *buffer = buffer_of(entry);

	memset(buffer, 0, sizeof(DcBuffer));
	pg_atomic_init_u64(&buffer->inc, 0);
	pg_atomic_init_u64(&buffer->dec, 0);
	pg_atomic_init_u64(&buffer->calls, 0);
	pg_atomic_init_u64(&buffer->at, (uint64) DT_NOBEGIN);
	pg_atomic_init_u64(&buffer->version, 0);
	buffer->table = table - buffer_area->tables;
	buffer->previous = DC_MAP_NONE;
	LWLockAcquire(&table->lock, LW_EXCLUSIVE);
	buffer->next = table->first;
	if (table->first != DC_MAP_NONE)
		buffer_of(map_entry(buffer_map, table->first))->previous = entry->number;
	table->first = entry->number;
	table->nentries++;
	LWLockRelease(&table->lock);
}

/*
 * buffer_remove gives back the caller's pin on an entry, and frees the entry if
 * there is nothing in it and no other process has pinned it.
 */
bool
buffer_remove(DcMapEntry *entry)
{
	return map_remove(buffer_map, entry, entry_may_go, NULL);
}

/*
 * Take an entry out of its table's list and return true, unless it has an amount that is pending or
 * taken, or is pinned by other processes. The caller, map_remove(), holds the partition's lock
 * exclusively and one pin.
 */
static bool
entry_may_go(DcMapEntry *entry, void *arg)
{
	DcBuffer *buffer = buffer_of(entry);
	DcBufferTable *table = &buffer_area->tables[buffer->table];
	bool may_go;

	if (buffer_has_pending(buffer) || TransactionIdIsValid(buffer->taker))
		return false;
	LWLockAcquire(&table->lock, LW_EXCLUSIVE);
	may_go = pg_atomic_read_u32(&entry->pins) == 1; /* lists pin without the partition's lock */
	if (may_go)
	{
		if (buffer->previous != DC_MAP_NONE)
			buffer_of(map_entry(buffer_map, buffer->previous))->next = buffer->next;
		else
			table->first = buffer->next;
		if (buffer->next != DC_MAP_NONE)
			buffer_of(map_entry(buffer_map, buffer->next))->previous = buffer->previous;
		table->nentries--;
	}
	LWLockRelease(&table->lock);
	return may_go;
}

/*
 * buffer_scan_next lists the next entries of a table, pinned, and returns how many
 * there are. The last one gets another pin, so that the scan can continue from there. Entries that
 * are created during the scan may be missing.
 */
int
buffer_scan_next(DcBufferScan *scan)
{
	DcBufferTable *table = scan->table;
	DcMapEntry *before = scan->last;
	uint32 number;

	scan->count = 0;
	LWLockAcquire(&table->lock, LW_SHARED);
	number = before == NULL ? table->first : buffer_of(before)->next;
	while (scan->count < DC_SCAN_CHUNK && number != DC_MAP_NONE)
	{
		DcMapEntry *entry = map_entry(buffer_map, number);

		map_pin(entry);
		scan->entries[scan->count++] = entry;
		number = buffer_of(entry)->next;
	}
	scan->last = scan->count > 0 ? scan->entries[scan->count - 1] : NULL;
	if (scan->last != NULL)
		map_pin(scan->last);
	LWLockRelease(&table->lock);
	if (before != NULL)
		(void) buffer_remove(before);
	return scan->count;
}

/*
 * buffer_scan_entry returns the next entry of a scan, whose pin is the caller's; NULL
 * if there is none left.
 */
DcMapEntry *
buffer_scan_entry(DcBufferScan *scan)
{
	if (scan->count == 0 && buffer_scan_next(scan) == 0)
		return NULL;
	return scan->entries[--scan->count];
}

/*
 * buffer_scan_end gives back the pins of a scan. Must not throw.
 */
void
buffer_scan_end(DcBufferScan *scan)
{
	while (scan->count > 0)
		map_unpin(scan->entries[--scan->count]);
	if (scan->last != NULL)
		map_unpin(scan->last);
	scan->last = NULL;
}

/*
 * buffer_forget_amounts forgets the pending amounts of a table, to which no transaction can add
 * at this time. Under area->lock; does not throw.
 */
void
buffer_forget_amounts(DcBufferTable *table)
{
	DcBufferScan scan = {.table = table};
	DcMapEntry *entry;

	while ((entry = buffer_scan_entry(&scan)) != NULL)
	{
		DcBuffer *buffer = buffer_of(entry);

		LWLockAcquire(map_lock(buffer_map, entry), LW_EXCLUSIVE);
		pg_atomic_write_u64(&buffer->inc, 0);
		pg_atomic_write_u64(&buffer->dec, 0);
		pg_atomic_write_u64(&buffer->calls, 0);
		pg_atomic_fetch_add_u64(&buffer->version, 1);
		LWLockRelease(map_lock(buffer_map, entry));
		(void) buffer_remove(entry);
	}
}

/*
 * Return true if the map is half full.
 */
bool
buffer_is_pressed(void)
{
	return map_used(buffer_map) > map_capacity(buffer_map) / 2;
}

/*
 * area_press wakes all flushers, once until one of them has come.
 */
static void
area_press(void)
{
	if (pg_atomic_read_u32(&buffer_area->pressed) != 0 ||
		pg_atomic_exchange_u32(&buffer_area->pressed, 1) != 0)
		return;
	for (int i = 0; i < DC_BUFFER_FLUSHERS; i++)
	{
		struct Latch *latch = buffer_area->flushers[i].latch;

		if (latch != NULL)
			SetLatch(latch);
	}
}
