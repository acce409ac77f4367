/*
 * map.h
 *		A hash table in shared memory, for keys of counters and limits (see map.c).
 *
 * Copyright (c) 2026, the dcounter developers
 */
#ifndef DC_MAP_H
#define DC_MAP_H

#include "port/atomics.h"
#include "storage/lwlock.h"

#include "base/key.h"

#define DC_MAP_NONE PG_UINT32_MAX
#define DC_MAP_PARTITIONS 128 /* a power of two; see map_partition() */

/* The longest key: a counter's key with a prefix. */
#define DC_MAP_KEY_BYTES (DC_MAX_KEY_BYTES + 64)

/* The subject of an entry. */
typedef struct DcMapKey
{
	Oid database;
	Oid counter;
	const char *data; /* the counter key's bytes */
	uint32 len;
	uint32 hash; /* of the above */
} DcMapKey;

/*
 * An entry. The room's own fields follow it (map_payload), and these the first
 * bytes of the key.
 */
typedef struct DcMapEntry
{
	uint32 next; /* in its bucket; protected by the partition's lock */
	uint32 hash; /* this and the following fields are fixed while it exists */
	Oid database;
	Oid counter;
	uint32 len;
	uint32 rest;		   /* a cell with more bytes of the key, or DC_MAP_NONE */
	uint32 number;		   /* of its cell */
	pg_atomic_uint32 pins; /* it is not freed while there are any */
} DcMapEntry;

typedef struct DcMap DcMap;

/* Prepares the payload of a new entry; the partition is locked. */
typedef void (*DcMapInit)(DcMapEntry *entry, void *arg);

/* Returns true if an entry may be removed now; its partition is locked exclusively. */
typedef bool (*DcMapMayGo)(DcMapEntry *entry, void *arg);

static inline void *
map_payload(DcMapEntry *entry)
{
	return (char *) entry + MAXALIGN(sizeof(DcMapEntry));
}

/*
 * map_partition returns the number of the partition of a key: its entry is under
 * that partition's lock.
 */
static inline uint32
map_partition(const DcMapKey *key)
{
	return key->hash % DC_MAP_PARTITIONS;
}

extern Size map_size(Size bytes);
extern Size map_size_of(uint32 cells, Size payload);
extern void map_init(DcMap *map, Size bytes, Size payload);
extern void map_key_init(const DcMap *map, DcMapKey *key, Oid database, Oid counter, const char *data, uint32 len);
extern DcMapEntry *map_find(DcMap *map, const DcMapKey *key);
extern DcMapEntry *map_look(DcMap *map, const DcMapKey *key);
extern DcMapEntry *map_get(DcMap *map, const DcMapKey *key, DcMapInit init, void *arg);
extern DcMapEntry *map_add(DcMap *map, const DcMapKey *key, DcMapInit init, void *arg);
extern void map_take_out(DcMap *map, DcMapEntry *entry);
extern void map_pin(DcMapEntry *entry);
extern void map_unpin(DcMapEntry *entry);
extern bool map_remove(DcMap *map, DcMapEntry *entry, DcMapMayGo may_go, void *arg);
extern uint32 map_evict(DcMap *map, uint32 turn, DcMapMayGo may_go, void *arg);
extern void map_sweep(DcMap *map, DcMapMayGo may_go, void *arg);
extern void map_sweep_partition(DcMap *map, uint32 partition, DcMapMayGo may_go, void *arg);
extern LWLock *map_lock(DcMap *map, const DcMapEntry *entry);
extern LWLock *map_key_lock(DcMap *map, const DcMapKey *key);
extern LWLock *map_partition_lock(DcMap *map, uint32 partition);
extern DcMapEntry *map_entry(DcMap *map, uint32 number);
extern uint32 map_capacity(const DcMap *map);
extern uint32 map_used(DcMap *map);
extern Size map_entry_size(const DcMap *map, const DcMapEntry *entry);
extern void map_key(DcMap *map, const DcMapEntry *entry, char *data);

/* Cells that an entry's payload refers to; they are linked by their first four bytes. */
extern uint32 map_cells_take(DcMap *map, uint32 count);
extern void map_cell_give_back(DcMap *map, uint32 number);
extern void *map_cell(DcMap *map, uint32 number);
extern Size map_cell_size(const DcMap *map);

#endif /* DC_MAP_H */
