/*
 * cache.c
 *		The read cache: values of counter keys in shared memory.
 *
 * Copyright (c) 2026, the dcounter developers
 *
 * An entry of the map (map.c) has the value of a key and the time at which its
 * computation began. It answers calls that accept a value of that age. Otherwise
 * one session claims the entry, computes the value and stores it. Other sessions that
 * need it at the same time wait for that.
 *
 * Access: the lock of a partition protects all of the payload of its entries, in exclusive
 * mode to change it. `used` alone is set under the shared lock, always to the same value.
 * The beds are condition variables, one for each partition. A claim pins the entry, so that it
 * stays where it is.
 *
 * A value that is stored is never older than the entry says, and never one that has become
 * obsolete:
 *
 *	- A session that computes claims the entry, reads the clock, and then takes a new
 *	  snapshot (cacheget.c). So the value is that of the noted time or later.
 *	- A transaction that makes a value obsolete (dc_set(), DROP) commits, and then forgets
 *	  the entry: the value goes, and a computation in progress is marked, so that its
 *	  result is not kept. A computation that is claimed later has a snapshot that sees the
 *	  commit. A remote server's snapshot may be older than the claim (cacheget.c).
 *	  Therefore the partition's last forgetting must also be before the noted time.
 *	- The clock is the monotonic one (clock.h), so ages are right even if the wall clock is set.
 *	- An entry also says which files its table had. An entry of another table with the same OID, or
 *	  from before a TRUNCATE, is not used. That holds on a standby too, where nothing is forgotten.
 *
 * While it has a claim, a session waits only for locks and the disk, as any query does, and it
 * computes the values of a limited number of keys, however many it was asked for (cacheget.c). The
 * deadlock detector does not see a wait for a claim. So a waiter looks from time to time whether
 * the session that computes is itself waiting for a lock, and then computes the value alone
 * (cache_wait).
 *
 * When the map is full, a clock hand goes over the buckets: entries that were not used
 * since it came by last make room. It skips locks that are not free at once, and takes a limited
 * number of steps. If that frees nothing, the value is not cached.
 */
#include "postgres.h"

#include "common/hashfn.h"
#include "storage/condition_variable.h"
#include "utils/syscache.h"

#include "base/compat.h"
#include "base/guc.h"
#include "base/hooks.h"
#include "base/shmem.h"
#include "memory/cache/cache.h"

/* Buckets that the hand visits for one entry. */
#define EVICT_STEPS 1024

/* How often a waiter looks whether there might be a deadlock. */
#define LOOK_MS 1000

/* The payload of an entry. */
typedef struct DcCached
{
	uint64 table;
	int64 value;
	DcMoment at;	   /* of this moment or later; DC_LONG_AGO: there is no value */
	PGPROC *computing; /* the process that has claimed it, or NULL */
	bool forgotten;	   /* since it was claimed */
	bool used;		   /* since the hand came by */
} DcCached;

typedef struct DcCache
{
	pg_atomic_uint32 hand;
	pg_atomic_uint64 forgotten_at[DC_MAP_PARTITIONS]; /* DcMoment: the last time */
	ConditionVariable beds[DC_MAP_PARTITIONS];
} DcCache;

/* The map comes behind the area. */
#define MAP_OF(area) ((DcMap *) ((char *) (area) + CACHELINEALIGN(sizeof(DcCache))))
#define MAP MAP_OF(cache)

/* The keys to forget. */
typedef struct DcForget
{
	Oid database;
	Oid counter; /* InvalidOid: all */
} DcForget;

static DcCache *cache = NULL;

static Size area_size(void);
static void cache_area_init(void *area);
static void cache_entry_init(DcMapEntry *entry, void *arg);
static bool is_young(const DcCached *cached, uint64 table, DcMoment since);
static DcMapEntry *entry_get(const DcCacheKey *key, uint32 *evicted);
static bool may_evict(DcMapEntry *entry, void *arg);
static void claim_end(DcMapEntry *claim, const DcCached *result);
static bool forget_entry(DcMapEntry *entry, void *arg);
static Oid table_file(Oid relid);
static bool waits_for_lock(const PGPROC *proc);
static bool cache_age(DcCounter *counter, const DcKey *key, int64 *age);

/*
 * cache_init asks for the shared memory; called once, at preload.
 */
void
cache_init(void)
{
	static const DcCacheHooks hooks = {
		.age = cache_age,
		.key_set = cache_key_set,
		.forget = cache_forget,
	};

	cache_hooks = &hooks;
	shmem_add_raw("dcounter read cache", area_size, (void **) &cache,
				  cache_area_init);
	cache_set_init();
}

/*
 * Return the size of the cache's map in bytes; the setting is in kilobytes.
 */
static Size
map_bytes(void)
{
	return (Size) dc_cache_size * 1024;
}

/*
 * Return the size of the cache's shared memory: its header and the map.
 */
static Size
area_size(void)
{
	return CACHELINEALIGN(sizeof(DcCache)) + map_size(map_bytes());
}

/*
 * Initialize the cache's shared memory, with an empty map.
 */
static void
cache_area_init(void *area)
{
	DcCache *init = area;

	pg_atomic_init_u32(&init->hand, 0);
	for (int i = 0; i < DC_MAP_PARTITIONS; i++)
	{
		pg_atomic_init_u64(&init->forgotten_at[i], 0);
		ConditionVariableInit(&init->beds[i]);
	}
	map_init(MAP_OF(area), map_bytes(), sizeof(DcCached));
}

/*
 * Return true if there is a cache.
 */
bool
cache_enabled(void)
{
	return cache != NULL;
}

/*
 * cache_table identifies a counter table by its OID and its files: the OID alone may be
 * used again.
 */
uint64
cache_table(const DcCounter *counter)
{
	uint64 table = counter->row.shards;

	table = hash_combine64(table, table_file(counter->relid));
	table = hash_combine64(table, table_file(counter->row.shards));
	for (int i = 0; i < counter->nmembers; i++)
		table = hash_combine64(table, table_file(counter->members[i]));
	return table;
}

/*
 * Return the relfilenode of a table, which changes with TRUNCATE and rewrites; InvalidOid if it was
 * dropped.
 */
static Oid
table_file(Oid relid)
{
	HeapTuple tuple = SearchSysCache1(RELOID, ObjectIdGetDatum(relid));
	Oid file = InvalidOid;

	if (HeapTupleIsValid(tuple))
	{
		file = ((Form_pg_class) GETSTRUCT(tuple))->relfilenode;
		ReleaseSysCache(tuple);
	}
	return file;
}

/*
 * cache_key_init makes the cache's key of a counter key, whose bytes it points to.
 */
void
cache_key_init(DcCacheKey *key, Oid counter, uint64 table,
			   const DcKey *counter_key)
{
	map_key_init(MAP, &key->map, MyDatabaseId, counter, counter_key->data, counter_key->len);
	key->table = table;
}

/*
 * cache_find gets a value that is younger than `since`.
 */
bool
cache_find(const DcCacheKey *key, DcMoment since, int64 *value)
{
	LWLock *lock = map_key_lock(MAP, &key->map);
	DcMapEntry *entry;
	bool found = false;

	LWLockAcquire(lock, LW_SHARED);
	entry = map_look(MAP, &key->map);
	if (entry != NULL)
	{
		DcCached *cached = map_payload(entry);

		found = is_young(cached, key->table, since);
		*value = cached->value;
		if (found && !cached->used)
			cached->used = true;
	}
	LWLockRelease(lock);
	return found;
}

/*
 * cache_claim gets a value as cache_find does, or claims the entry. A claim is ended by
 * cache_store() or cache_give_up().
 */
DcCacheState
cache_claim(const DcCacheKey *key, DcMoment since, int64 *value,
			DcMapEntry **claim, uint32 *evicted)
{
	DcMapEntry *entry = entry_get(key, evicted);
	LWLock *lock = map_key_lock(MAP, &key->map);
	DcCached *cached;
	DcCacheState state;

	if (entry == NULL)
		return CACHE_FULL;
	cached = map_payload(entry);
	LWLockAcquire(lock, LW_EXCLUSIVE);
	if (is_young(cached, key->table, since))
	{
		*value = cached->value;
		cached->used = true;
		state = CACHE_FOUND;
	}
	else if (cached->computing != NULL)
		state = CACHE_BUSY;
	else
	{
		cached->computing = MyProc;
		cached->forgotten = false;
		state = CACHE_CLAIMED;
	}
	LWLockRelease(lock);
	if (state == CACHE_CLAIMED)
		*claim = entry;
	else
		map_unpin(entry);
	return state;
}

/*
 * cache_store ends a claim with a value, which is kept unless it was forgotten
 * in the meantime. `fresh` says that its snapshot was taken after the claim.
 */
void
cache_store(DcMapEntry *claim, uint64 table, int64 value, DcMoment at, bool fresh)
{
	DcCached result = {.table = table, .value = value, .at = at};

	if (fresh ||
		moment_is_before(moment_read(&cache->forgotten_at[claim->hash % DC_MAP_PARTITIONS]), at))
		claim_end(claim, &result);
	else
		claim_end(claim, NULL);
}

/*
 * cache_give_up ends a claim without one. Does not throw.
 */
void
cache_give_up(DcMapEntry *claim)
{
	claim_end(claim, NULL);
}

/*
 * End a claim: store the result, if there is one and the key was not forgotten in the meantime,
 * unpin the entry, and wake the sessions that wait for it.
 */
static void
claim_end(DcMapEntry *claim, const DcCached *result)
{
	LWLock *lock = map_lock(MAP, claim);
	DcCached *cached = map_payload(claim);
	uint32 partition = claim->hash % DC_MAP_PARTITIONS;

	LWLockAcquire(lock, LW_EXCLUSIVE);
	if (result != NULL && !cached->forgotten)
	{
		cached->table = result->table;
		cached->value = result->value;
		cached->at = result->at;
	}
	cached->computing = NULL;
	map_unpin(claim);
	LWLockRelease(lock);
	ConditionVariableBroadcast(&cache->beds[partition]);
}

/*
 * cache_wait waits until no session is computing a value. CACHE_FOUND: it is there;
 * CACHE_BUSY: it is not, but the caller may claim it; CACHE_FULL: the caller is to
 * compute it without a claim.
 */
DcCacheState
cache_wait(const DcCacheKey *key, DcMoment since, int64 *value)
{
	static uint32 wait_event = 0;
	ConditionVariable *bed = &cache->beds[map_partition(&key->map)];
	LWLock *lock = map_key_lock(MAP, &key->map);
	DcCacheState state;
	bool stuck = false;

	if (wait_event == 0)
		wait_event = compat_wait_event("DcounterCacheFill");
	ConditionVariablePrepareToSleep(bed);
	for (;;)
	{
		const PGPROC *computing = NULL;
		DcMapEntry *entry;

		state = CACHE_BUSY;
		LWLockAcquire(lock, LW_SHARED);
		entry = map_look(MAP, &key->map);
		if (entry != NULL)
		{
			DcCached *cached = map_payload(entry);

			computing = cached->computing;
			if (is_young(cached, key->table, since))
			{
				*value = cached->value;
				state = CACHE_FOUND;
			}
			else if (computing != NULL && stuck && waits_for_lock(computing))
				state = CACHE_FULL;
		}
		LWLockRelease(lock);
		if (computing == NULL || state != CACHE_BUSY)
			break;
		stuck = ConditionVariableTimedSleep(bed, LOOK_MS, wait_event);
	}
	ConditionVariableCancelSleep();
	return state;
}

/*
 * Return true if a process is waiting for a heavyweight lock. It is
 * not exact, and need not be.
 */
static bool
waits_for_lock(const PGPROC *proc)
{
	uint32 wait = *(const volatile uint32 *) &proc->wait_event_info;

	return (wait & 0xFF000000) == PG_WAIT_LOCK;
}

/*
 * cache_age returns true and sets *age to the age of a key's value in microseconds; false if the
 * value is not in the cache.
 */
static bool
cache_age(DcCounter *counter, const DcKey *key, int64 *age)
{
	DcCacheKey cache_key;
	LWLock *lock;
	DcMapEntry *entry;
	bool found = false;

	cache_key_init(&cache_key, counter->relid, cache_table(counter), key);
	lock = map_key_lock(MAP, &cache_key.map);
	LWLockAcquire(lock, LW_SHARED);
	entry = map_look(MAP, &cache_key.map);
	if (entry != NULL)
	{
		DcCached *cached = map_payload(entry);

		found = cached->at.us != DC_LONG_AGO.us && cached->table == cache_key.table;
		*age = moment_age(cached->at);
	}
	LWLockRelease(lock);
	return found;
}

/*
 * cache_capacity returns about how many keys there is room for.
 */
uint32
cache_capacity(void)
{
	return map_capacity(MAP);
}

/*
 * cache_forget_key forgets a key's value, after the commit that has changed it.
 */
void
cache_forget_key(Oid database, Oid counter, const DcKey *key)
{
	DcForget what = {.database = database, .counter = counter};
	DcMapKey probe;
	LWLock *lock;
	DcMapEntry *entry;

	if (cache == NULL)
		return;
	map_key_init(MAP, &probe, database, counter, key->data, key->len);
	lock = map_key_lock(MAP, &probe);
	LWLockAcquire(lock, LW_EXCLUSIVE);
	moment_write(&cache->forgotten_at[map_partition(&probe)], moment_now());
	entry = map_look(MAP, &probe);
	if (entry != NULL)
		(void) forget_entry(entry, &what);
	LWLockRelease(lock);
}

/*
 * cache_forget forgets all keys of a table, or (InvalidOid) of a database.
 */
void
cache_forget(Oid database, Oid counter)
{
	DcForget what = {.database = database, .counter = counter};
	DcMoment now;

	if (cache == NULL)
		return;
	/*
	 * this comes first: a session that stores later sees it; the sweep finds values stored earlier
	 */
	now = moment_now();
	for (int i = 0; i < DC_MAP_PARTITIONS; i++)
		moment_write(&cache->forgotten_at[i], now);
	if (map_used(MAP) > 0)
		map_sweep(MAP, forget_entry, &what);
}

/*
 * forget_entry forgets the value of an entry of the table or database, and returns true if the
 * entry may be removed.
 */
static bool
forget_entry(DcMapEntry *entry, void *arg)
{
	const DcForget *what = arg;
	DcCached *cached = map_payload(entry);

	if (entry->database != what->database ||
		(OidIsValid(what->counter) && entry->counter != what->counter))
		return false;
	cached->at = DC_LONG_AGO;
	cached->forgotten = true;
	return true;
}

/*
 * Initialize a new entry of the map: it has no value yet. Called under the partition's lock.
 */
static void
cache_entry_init(DcMapEntry *entry, void *arg)
{
	memset(map_payload(entry), 0, sizeof(DcCached));
}

/*
 * Return true if an entry has a value of the table, younger than `since`.
 */
static bool
is_young(const DcCached *cached, uint64 table, DcMoment since)
{
	return moment_is_before(since, cached->at) && cached->table == table &&
		cached->at.us != DC_LONG_AGO.us;
}

/*
 * entry_get returns a key's entry, pinned, and evicts others if necessary. NULL if there is no
 * room.
 */
static DcMapEntry *
entry_get(const DcCacheKey *key, uint32 *evicted)
{
	DcMapEntry *entry = map_get(MAP, &key->map, cache_entry_init, NULL);

	for (int step = 0; entry == NULL && step < EVICT_STEPS; step++)
	{
		uint32 turn = pg_atomic_fetch_add_u32(&cache->hand, 1);
		uint32 gone = map_evict(MAP, turn, may_evict, NULL);

		*evicted += gone;
		if (gone > 0)
			entry = map_get(MAP, &key->map, cache_entry_init, NULL);
	}
	return entry;
}

/*
 * Return true if the entry was not used since the clock hand last came by, and clear its mark.
 */
static bool
may_evict(DcMapEntry *entry, void *arg)
{
	DcCached *cached = map_payload(entry);
	bool used = cached->used;

	cached->used = false;
	return !used;
}
