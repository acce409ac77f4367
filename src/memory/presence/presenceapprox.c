/*
 * presenceapprox.c
 *		Approximate presences: rooms that do not know their members, but estimate their number.
 *
 * Copyright (c) 2026, the dcounter developers
 *
 * Such a room has a ring of sketches (sketchring.c) instead of members, in cells of the map; their
 * number grows with that of the members, up to RING_MAX_CELLS. room->root is that ring, or
 * DC_MAP_NONE while the room is empty; room->members is the estimate, always that of the ring as it
 * is.
 *
 * The lock of the room's partition protects the ring: shared for a heartbeat that does not change
 * the estimate, as nearly all do, exclusively for all else. So the ring needs no pin and no lock of
 * its own. room->members is written under the room's lock, too, as events read it.
 *
 * A ring is turned by the first to find that its slot is over: a heartbeat, dc_present(), or the
 * turn of the wheel, in which these rooms always are. So the estimate needs no worker.
 *
 * Members' hashes have a secret salt: otherwise somebody could choose names that count for
 * millions.
 */
#include "postgres.h"

#include <math.h>

#include "miscadmin.h"

#include "memory/presence/presence.h"
#include "memory/presence/sketchring.h"
#include "types/sketch/hash.h"

/* A room that is not empty is checked this often at most. */
#define LOOK_US USECS_PER_SEC

/* A user of cells for a ring. */
typedef struct Taker
{
	DcPresenceSlot *slot;
	const DcPresenceRule *rule; /* whose bound applies; NULL: none */
	DcRingCells cells;
	bool full; /* there was none */
} Taker;

/* Before the leaves of a ring in the file. */
typedef struct FileRing
{
	DcRingTime time;
	uint32 leaves;
	uint32 unused;
} FileRing;

static void *presenceapprox_cell(void *arg, uint32 number);
static uint32 presenceapprox_take(void *arg);
static void presenceapprox_give_back(void *arg, uint32 number);
static bool presenceapprox_is_known(const DcPresenceCall *call, DcMapEntry *entry, uint64 hash);
static const char *beat_once(DcPresenceCall *call, const DcMapKey *key, uint64 hash, DcRingAdded *added, int64 *members);
static DcRingAdded add_locked(const DcPresenceCall *call, DcMapEntry *entry, uint64 hash);
static void presenceapprox_note(DcMapEntry *entry);

/* For those who only look. */
static const DcRingCells looking = {NULL, presenceapprox_cell, NULL, NULL};

/*
 * Return a cell of the map by its number.
 */
static void *
presenceapprox_cell(void *arg, uint32 number)
{
	return map_cell(presence_map, number);
}

/*
 * Take a cell for the ring; RING_NONE if the map is full, or the rule has used up its share of it.
 * taker->full is set only in the former case.
 */
static uint32
presenceapprox_take(void *arg)
{
	Taker *taker = arg;
	uint32 number;

	if (taker->rule != NULL && !presence_cells_fit(taker->rule, taker->slot, 1))
		return RING_NONE;
	number = map_cells_take(presence_map, 1);
	if (number != DC_MAP_NONE)
		pg_atomic_fetch_add_u64(&taker->slot->cells, 1);
	else
		taker->full = true;
	return number;
}

/*
 * Give a cell of the ring back, and count it down in the slot.
 */
static void
presenceapprox_give_back(void *arg, uint32 number)
{
	presence_cells_give_back(((const Taker *) arg)->slot, number);
}

/*
 * Prepare the functions by which a room's ring takes cells and gives them back. Without a rule,
 * cells are not limited.
 */
static void
taker_init(Taker *taker, const DcPresenceRoom *room, const DcPresenceRule *rule)
{
	Assert(map_cell_size(presence_map) >= RING_CELL);
	*taker = (Taker){&presence_area->slots[room->slot], rule, {taker, presenceapprox_cell, presenceapprox_take, presenceapprox_give_back}, false};
}

/*
 * Return the hash of a member's name, with the salt.
 */
static uint64
member_hash(const DcKey *member)
{
	char bytes[sizeof(uint64) + DC_MAX_KEY_BYTES];

	memcpy(bytes, &presence_area->salt, sizeof(uint64));
	memcpy(bytes + sizeof(uint64), member->data, member->len);
	return hash_murmur3(bytes, sizeof(uint64) + member->len);
}

/*
 * Return the estimated number of members of a room. Takes no lock.
 */
static int64
members_of(DcMapEntry *entry)
{
	return pg_atomic_read_u32(&((DcPresenceRoom *) map_payload(entry))->members);
}

/*
 * presence_approx_beat notes that a member is there. Returns false if it certainly was not there
 * before. Errors: 53200.
 */
bool
presence_approx_beat(DcPresenceCall *call, int64 *members)
{
	uint64 hash = member_hash(&call->member);
	DcMapKey key;
	char bytes[DC_MAP_KEY_BYTES];
	LWLock *lock;
	DcMapEntry *entry;
	const char *full;
	DcRingAdded added = RING_FULL;
	bool known;

	presence_room_key(&key, call->use, MyDatabaseId, &call->room, bytes);
	lock = map_key_lock(presence_map, &key);
	LWLockAcquire(lock, LW_SHARED);
	entry = map_look(presence_map, &key);
	known = entry != NULL && presenceapprox_is_known(call, entry, hash);
	if (known)
		*members = members_of(entry);
	LWLockRelease(lock);
	if (known)
		return true;

	presence_turn_if_late();
	presence_note_promotion();
	full = beat_once(call, &key, hash, &added, members);
	if (full != NULL && strcmp(full, "memory") == 0 && presence_forget_databases())
		full = beat_once(call, &key, hash, &added, members);
	if (full != NULL)
	{
		pg_atomic_fetch_add_u64(&call->use->slot->refused, 1);
		presence_full_error(&call->use->rule, full);
	}
	return added == RING_SEEN;
}

/*
 * beat_once notes a member under an exclusive lock, in a room that is created if necessary. Returns
 * NULL, or what is full.
 */
static const char *
beat_once(DcPresenceCall *call, const DcMapKey *key, uint64 hash, DcRingAdded *added, int64 *members)
{
	LWLock *lock = map_key_lock(presence_map, key);
	const char *full = NULL;
	DcMapEntry *entry = presence_room_get(call->use, &call->room, &full);

	if (entry == NULL)
		return full;
	LWLockAcquire(lock, LW_EXCLUSIVE);
	*added = add_locked(call, entry, hash);
	*members = members_of(entry);
	LWLockRelease(lock);
	map_unpin(entry);
	return *added == RING_FULL ? "memory" : NULL;
}

/*
 * presenceapprox_is_known notes a member if that does not change the estimate. The partition is
 * locked.
 */
static bool
presenceapprox_is_known(const DcPresenceCall *call, DcMapEntry *entry, uint64 hash)
{
	uint32 root = ((DcPresenceRoom *) map_payload(entry))->root;

	return root != RING_NONE && ring_time(root, &looking)->version >= (uint32) call->use->rule.version &&
		ring_beat(root, &looking, hash, moment_now().us);
}

/*
 * make_due puts a room into the wheel again. If it is being taken out of the wheel, the process
 * that does so puts it back.
 */
static void
make_due(DcMapEntry *entry, int64 at)
{
	DcPresenceRoom *room = map_payload(entry);

	LWLockAcquire(&presence_area->wheel_lock, LW_EXCLUSIVE);
	if (!room->item.taken)
	{
		if (wheel_has(&room->item.wheel))
			wheel_remove(&presence_area->wheel, &presence_items, entry->number);
		room->due = presence_tick(at);
		wheel_add(&presence_area->wheel, &presence_items, entry->number);
	}
	LWLockRelease(&presence_area->wheel_lock);
}

/*
 * add_locked turns the ring and adds a member. The partition is locked exclusively. A ring keeps
 * the length of its slots until it hears of a newer version of the rule: then all members that are
 * there get the new ttl.
 */
static DcRingAdded
add_locked(const DcPresenceCall *call, DcMapEntry *entry, uint64 hash)
{
	const DcPresenceRule *rule = &call->use->rule;
	DcPresenceRoom *room = map_payload(entry);
	int64 now = moment_now().us;
	DcRingTime new_time = {.length = ring_length(rule->ttl), .version = (uint32) rule->version};
	DcRingTime *old_time;
	DcRingAdded added;
	Taker taker;
	bool changed = false;

	taker_init(&taker, room, rule);
	new_time.until = now + new_time.length;
	if (room->root == RING_NONE)
	{
		room->root = ring_new(&taker.cells, &new_time);
		if (room->root == RING_NONE)
			return RING_FULL;
		room->rounds = 0;
		make_due(entry, Max(new_time.until, now + LOOK_US)); /* an empty room is looked at rarely */
	}
	changed = ring_turn(room->root, &taker.cells, now);
	old_time = ring_time(room->root, &taker.cells);
	if (old_time->version < new_time.version)
	{
		bool shorter = new_time.length < old_time->length;

		if (new_time.length != old_time->length)
			ring_restart(room->root, &taker.cells, &new_time);
		else
			old_time->version = new_time.version;
		if (shorter)
			make_due(entry, new_time.until);
	}
	added = ring_add(room->root, &taker.cells, hash);
	if (changed || added == RING_NEW)
		presenceapprox_note(entry);
	return added;
}

/*
 * presenceapprox_recount sets room->members to the estimate of the ring; true if that has changed
 * it. The room is locked, too.
 */
static bool
presenceapprox_recount(DcMapEntry *entry)
{
	DcPresenceRoom *room = map_payload(entry);
	uint32 before = pg_atomic_read_u32(&room->members);
	double estimate = room->root == RING_NONE ? 0 : ring_estimate(room->root, &looking);
	uint32 members = (uint32) rint(Min(estimate, (double) PG_UINT32_MAX));

	if (members == before)
		return false;
	pg_atomic_write_u32(&room->members, members);
	pg_atomic_fetch_add_u64(&presence_area->slots[room->slot].members, (int64) members - (int64) before);
	return true;
}

/*
 * presenceapprox_note takes note of a change of the ring.
 */
static void
presenceapprox_note(DcMapEntry *entry)
{
	DcPresenceRoom *room = map_payload(entry);
	LWLock *lock = presence_room_lock(entry->number);

	LWLockAcquire(lock, LW_EXCLUSIVE);
	if (presenceapprox_recount(entry))
	{
		pg_atomic_write_u64(&room->version, pg_atomic_add_fetch_u64(&presence_area->version, 1));
		presence_note_change(entry, 0, 0);
	}
	LWLockRelease(lock);
}

/*
 * presence_approx_turn turns the ring of a room, and frees one that is empty. The partition is
 * locked exclusively. Returns when to look again.
 */
int64
presence_approx_turn(DcMapEntry *entry, int64 now)
{
	DcPresenceRoom *room = map_payload(entry);
	Taker taker;
	bool changed;

	if (room->root == RING_NONE)
		return now + PRESENCE_EMPTY_ROOM_US;
	taker_init(&taker, room, NULL);
	changed = ring_turn(room->root, &taker.cells, now);
	if (ring_is_empty(room->root, &taker.cells))
	{
		ring_free(room->root, &taker.cells);
		room->root = RING_NONE;
		presenceapprox_note(entry);
		return now + PRESENCE_EMPTY_ROOM_US;
	}
	if (changed)
		presenceapprox_note(entry);
	return Max(ring_time(room->root, &looking)->until, now + LOOK_US);
}

/*
 * presence_approx_clear empties a room whose rule is gone. The partition is locked exclusively.
 * Must not throw.
 */
void
presence_approx_clear(DcMapEntry *entry)
{
	DcPresenceRoom *room = map_payload(entry);
	Taker taker;

	if (room->root != RING_NONE)
	{
		taker_init(&taker, room, NULL);
		ring_free(room->root, &taker.cells);
		room->root = RING_NONE;
		presenceapprox_note(entry);
	}
	make_due(entry, moment_now().us + PRESENCE_EMPTY_ROOM_US);
}

/*
 * presence_approx_members returns about how many members a room has.
 */
int64
presence_approx_members(const DcPresenceUse *use, const DcKey *name)
{
	DcMapKey key;
	char bytes[DC_MAP_KEY_BYTES];
	LWLock *lock;
	DcMapEntry *entry;
	int64 now = moment_now().us;
	int64 members = 0;
	bool is_late = false;

	presence_room_key(&key, use, MyDatabaseId, name, bytes);
	lock = map_key_lock(presence_map, &key);
	LWLockAcquire(lock, LW_SHARED);
	entry = map_look(presence_map, &key);
	if (entry != NULL)
	{
		uint32 root = ((DcPresenceRoom *) map_payload(entry))->root;

		is_late = root != RING_NONE && now >= ring_time(root, &looking)->until;
		members = members_of(entry);
	}
	LWLockRelease(lock);
	if (!is_late)
		return members;
	members = 0;
	LWLockAcquire(lock, LW_EXCLUSIVE);
	entry = map_look(presence_map, &key);
	if (entry != NULL)
	{
		(void) presence_approx_turn(entry, now);
		members = members_of(entry);
	}
	LWLockRelease(lock);
	return members;
}

/*
 * presence_approx_save writes the ring of a room to the file. The server has been shut down.
 */
void
presence_approx_save(DcCrcFile *file, DcMapEntry *entry)
{
	uint32 root = ((DcPresenceRoom *) map_payload(entry))->root;
	FileRing saved;

	memset(&saved, 0, sizeof(saved));
	if (root != RING_NONE)
	{
		saved.time = *ring_time(root, &looking);
		for (uint32 i = 0; i < RING_LEAVES; i++)
			saved.leaves += ring_leaf(root, &looking, i) != NULL;
	}
	crcfile_put(file, &saved, sizeof(saved));
	for (uint32 i = 0; saved.leaves > 0 && i < RING_LEAVES; i++)
	{
		const uint64 *words = (const uint64 *) ring_leaf(root, &looking, i);

		if (words == NULL)
			continue;
		crcfile_put(file, &i, sizeof(i));
		crcfile_put(file, words, RING_LEAF_WORDS * sizeof(uint64));
	}
}

/*
 * presence_approx_load reads a ring from the file into an empty room. `shift` converts times in the
 * file to this server's clock. Returns false if that fails, and sets *full if memory is the reason.
 */
bool
presence_approx_load(DcCrcFile *file, DcMapEntry *entry, int64 shift, bool *full)
{
	DcPresenceRoom *room = map_payload(entry);
	FileRing saved;
	Taker taker;

	if (!crcfile_get(file, &saved, sizeof(saved)))
		return false;
	if (saved.leaves == 0)
		return true;
	if (saved.time.length <= 0 || saved.time.slot >= RING_SLOTS || room->root != RING_NONE)
		return false;
	saved.time.until += shift;
	taker_init(&taker, room, NULL);
	room->root = ring_new(&taker.cells, &saved.time);
	*full |= taker.full;
	if (room->root == RING_NONE)
		return false;
	for (uint32 i = 0; i < saved.leaves; i++)
	{
		uint32 leaf;
		uint64_t words[RING_LEAF_WORDS];

		if (!crcfile_get(file, &leaf, sizeof(leaf)) || !crcfile_get(file, words, sizeof(words)) ||
			!ring_put_leaf(room->root, &taker.cells, leaf, words))
		{
			*full |= taker.full;
			return false;
		}
	}
	(void) presenceapprox_recount(entry);
	return true;
}
