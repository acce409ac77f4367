/*
 * limitevict.c
 *		Room for keys of limits: which entries are removed, and when.
 *
 * Copyright (c) 2026, the dcounter developers
 *
 * An entry is removed when it is idle: from then on, a key without an entry would get the same
 * answers. That moment is in the entry, and is moved by each call that counts. So making room opens
 * no limit. A flood of keys can use up memory: then new keys are answered by the rule's own choice,
 * on_full.
 *
 * Keys of dropped databases are removed when memory is used up.
 *
 * Idle entries go in two ways, both under the lock of their partition:
 *
 *	- With each new key a clock hand goes over some of the buckets, so that they do not pile up.
 *	- When there is no room, for any key or for more keys of one rule, one session goes over all
 *	  entries. It is done only if it may find something: a lower bound of the moment at which a key
 *	  becomes idle is kept for all of them, and for each rule. So while a flood lasts, calls that
 *	  find no room cost no more than others. And sweeps take a tenth of the time at most: after one,
 *	  there is none for ten times as long as it has taken.
 *
 * The bound: calls that count lower it, if necessary, after they have written (limit_note_idle). A
 * sweep sets it to never, and then lowers it to what it has found. So an entry that is written
 * before the sweep comes by is seen by it, and one that is written after lowers the bound itself.
 */
#include "postgres.h"

#include "miscadmin.h"
#include "utils/syscache.h"

#include "memory/limit/limiter.h"

/* After a sweep there is none for this many times as long as it took. */
#define SWEEP_PAUSE 10

/* How often to look for databases that are gone. */
#define LOOK_US (1 * USECS_PER_SEC)

/* Of a sweep over all entries */
typedef struct Sweep
{
	int64 now;
	const DcLimitGone *gone; /* rules that are gone, or NULL */
	/* a rule that has changed, or NULL */
	DcLimitUse *use;
	/* ad hoc limits: a role's, all or those of one key */
	Oid role;
	const DcKey *only;
	int64 forgotten;
} Sweep;

static bool may_go(DcMapEntry *entry, void *arg);
static bool is_forgotten(DcMapEntry *entry, void *arg);
static bool is_role_s(DcMapEntry *entry, void *arg);
static bool limitevict_convert(DcMapEntry *entry, void *arg);
static void lower_bound(pg_atomic_uint64 *bound, int64 us);
static bool sweep_all(uint64 seen, int64 *retry_at);
static bool forget_databases(void);

/*
 * limit_make_slots removes idle entries, so that there may be slots without keys; false if there
 * are none.
 */
bool
limit_make_slots(void)
{
	uint64 seen = pg_atomic_read_u64(&limit_area->sweeps);
	int64 retry_at;

	return ((int64) pg_atomic_read_u64(&limit_area->earliest) <= moment_now().us && sweep_all(seen, &retry_at)) || forget_databases();
}

/*
 * limit_make_room tries to make room for a key: in memory, or among the keys of its rule. True if
 * it is worth trying again. Otherwise *retry_after says when it may be.
 */
bool
limit_make_room(DcLimitUse *use, bool memory, int64 *retry_after)
{
	pg_atomic_uint64 *bound = memory ? &limit_area->earliest : &use->slot->earliest;
	uint64 seen = pg_atomic_read_u64(&limit_area->sweeps);
	int64 earliest = (int64) pg_atomic_read_u64(bound);
	int64 now = moment_now().us;
	int64 retry_at = earliest;

	if ((earliest <= now && sweep_all(seen, &retry_at)) || (memory && forget_databases()))
		return true;
	*retry_after = retry_at == LIMIT_NEVER ? LIMIT_NEVER : Max(retry_at - now, 1);
	return false;
}

/*
 * sweep_all removes idle entries, unless another process has done so since the caller read the
 * number of sweeps. Returns false, and the time of the next possible sweep, if it is too early.
 */
static bool
sweep_all(uint64 seen, int64 *retry_at)
{
	Sweep sweep = {0};
	int64 next;
	int64 took;

	LWLockAcquire(&limit_area->sweep, LW_EXCLUSIVE);
	if (pg_atomic_read_u64(&limit_area->sweeps) != seen)
	{
		LWLockRelease(&limit_area->sweep);
		return true;
	}
	next = (int64) pg_atomic_read_u64(&limit_area->next_sweep);
	sweep.now = moment_now().us;
	if (sweep.now < next)
	{
		LWLockRelease(&limit_area->sweep);
		*retry_at = next;
		return false;
	}
	pg_atomic_write_u64(&limit_area->earliest, (uint64) LIMIT_NEVER);
	for (int i = 0; i < LIMIT_SLOTS; i++)
		pg_atomic_write_u64(&limit_area->slots[i].earliest, (uint64) LIMIT_NEVER);
	pg_memory_barrier();
	map_sweep(limit_map, may_go, &sweep);
	took = moment_now().us - sweep.now;
	pg_atomic_write_u64(&limit_area->next_sweep, (uint64) (sweep.now + (1 + SWEEP_PAUSE) * took));
	pg_atomic_fetch_add_u64(&limit_area->sweeps, 1);
	LWLockRelease(&limit_area->sweep);
	return true;
}

/*
 * forget_databases removes the keys of databases that were dropped. At most once a second; true if
 * there were any.
 */
static bool
forget_databases(void)
{
	uint64 last = pg_atomic_read_u64(&limit_area->looked);
	DcLimitGone gone = {0};

	if (moment_age((DcMoment){(int64) last}) < LOOK_US ||
		!pg_atomic_compare_exchange_u64(&limit_area->looked, &last, (uint64) moment_now().us))
		return false;
	for (int i = 0; i < LIMIT_SLOTS; i++)
	{
		DcLimitSlot *slot = &limit_area->slots[i];
		Oid database;
		DcLimitOwner owner;

		LWLockAcquire(&limit_area->lock, LW_SHARED);
		database = slot->database;
		owner = slot->owner;
		LWLockRelease(&limit_area->lock);
		if (pg_atomic_read_u64(&slot->keys) == 0 || SearchSysCacheExists1(DATABASEOID, ObjectIdGetDatum(database)))
			continue;
		limit_gone_add(&gone, database, &owner);
	}
	limit_forget(&gone);
	return gone.any;
}

/*
 * Free an entry and return true if it is idle. Otherwise note when it becomes idle, which lowers
 * the sweep's bound again.
 */
static bool
may_go(DcMapEntry *entry, void *arg)
{
	const Sweep *sweep = arg;
	const DcLimitKey *key = map_payload(entry);

	if (key->idle_at > sweep->now)
	{
		limit_note_idle(&limit_area->slots[key->slot], key->idle_at);
		return false;
	}
	limit_entry_free(entry);
	return true;
}

/*
 * limit_note_idle lowers the bounds to the moment at which an entry of a slot will be idle.
 */
void
limit_note_idle(DcLimitSlot *slot, int64 idle_at)
{
	lower_bound(&slot->earliest, idle_at);
	lower_bound(&limit_area->earliest, idle_at);
}

/*
 * Lower the bound to `us`, if it is not below already. Takes no lock.
 */
static void
lower_bound(pg_atomic_uint64 *bound, int64 us)
{
	uint64 old = pg_atomic_read_u64(bound);

	while ((uint64) us < old && !pg_atomic_compare_exchange_u64(bound, &old, (uint64) us))
		;
}

/*
 * limit_hand moves the clock hand over some buckets. The caller has no lock of a partition.
 */
void
limit_hand(int steps)
{
	Sweep sweep = {.now = moment_now().us};

	while (steps-- > 0)
		(void) map_evict(limit_map, pg_atomic_fetch_add_u32(&limit_area->hand, 1), may_go, &sweep);
}

/*
 * limit_forget removes the keys of rules that are gone. A transaction may drop many of them, and
 * can no longer be canceled: so the memory is scanned once for all of them. Must not throw.
 */
void
limit_forget(const DcLimitGone *gone)
{
	Sweep sweep = {.gone = gone};

	if (gone->any)
		map_sweep(limit_map, is_forgotten, &sweep);
}

/*
 * Free an entry and return true if it is of a rule that was dropped.
 */
static bool
is_forgotten(DcMapEntry *entry, void *arg)
{
	const Sweep *sweep = arg;
	const DcLimitKey *key = map_payload(entry);
	const DcLimitGoneRule *gone = &sweep->gone->rules[key->slot];

	/* another rule may have the slot by now */
	if (entry->database != gone->database || !limit_owner_is(&limit_area->slots[key->slot].owner, &gone->owner))
		return false;
	limit_entry_free(entry);
	return true;
}

/*
 * limit_forget_ad_hoc removes a role's ad hoc limits in this database, or those of one key. Returns
 * how many there were.
 */
int64
limit_forget_ad_hoc(Oid role, const DcKey *only)
{
	Sweep sweep = {.role = role, .only = only};

	map_sweep(limit_map, is_role_s, &sweep);
	return sweep.forgotten;
}

/*
 * Free an entry and return true if it is of the role's dc_throttle() keys, and of the key asked for
 * if there is one.
 */
static bool
is_role_s(DcMapEntry *entry, void *arg)
{
	Sweep *sweep = arg;
	const DcLimitKey *key = map_payload(entry);

	if (entry->database != MyDatabaseId || entry->counter != InvalidOid || limit_area->slots[key->slot].owner.role != sweep->role)
		return false;
	if (sweep->only != NULL)
	{
		DcLimitAdHoc bytes;

		map_key(limit_map, entry, (char *) &bytes);
		if (bytes_compare(bytes.key, entry->len - offsetof(DcLimitAdHoc, key), sweep->only->data, sweep->only->len) != 0)
			return false;
	}
	limit_entry_free(entry);
	sweep->forgotten++;
	return true;
}

/*
 * limit_convert_keys changes the keys of a rule to its new numbers, under slot->install. A call
 * that comes earlier converts its own key.
 */
void
limit_convert_keys(DcLimitUse *use)
{
	Sweep sweep = {.use = use};

	map_sweep(limit_map, limitevict_convert, &sweep);
}

/*
 * Bring an entry of the rule up to the rule's present numbers. Always return false, as the entry
 * stays.
 */
static bool
limitevict_convert(DcMapEntry *entry, void *arg)
{
	const Sweep *sweep = arg;
	DcLimitKey *key = map_payload(entry);
	const DcLimitUse *use = sweep->use;

	/* another rule may have the slot by now */
	if (&limit_area->slots[key->slot] == use->slot && use->slot->database == MyDatabaseId &&
		limit_owner_is(&use->slot->owner, &use->owner) && key->counted < use->rule.counted)
		limit_bring_up(key, sweep->use, moment_now().us);
	return false;
}
