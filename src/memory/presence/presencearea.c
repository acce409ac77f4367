/*
 * presencearea.c
 *		The shared memory of presences: slots of rules, the map, the wheel, the epoch.
 *
 * Copyright (c) 2026, the dcounter developers
 *
 * presence.h says which lock protects what.
 *
 * An epoch is a time in which each join and leave is known. A new one begins when the server comes
 * up and the file of the last shutdown (presencefile.c) is not there or cannot be used: all rooms
 * are empty then, and the members' next heartbeats fill them. Another begins when a standby is
 * promoted, which knows only its own members: they stay. Listeners are notified (presenceevents.c).
 */
#include "postgres.h"

#include <unistd.h>

#include "access/xlog.h"
#include "common/hashfn.h"
#include "common/pg_prng.h"
#include "miscadmin.h"
#include "storage/ipc.h"

#include "base/crcfile.h"
#include "base/guc.h"
#include "base/shmem.h"
#include "memory/presence/presence.h"
#include "memory/presence/presenceinit.h"

DcPresenceArea *presence_area = NULL;
DcMap *presence_map = NULL;

static Size map_bytes = 0;

static Size presence_map_size(void);
static void presencearea_area_init(void *new_area);
static void presence_map_init(void *new_map);
static void note_standby(void);
static DcPresenceSlot *presencearea_slot_make(Oid database, const DcPresenceOwner *owner, Oid holder);
static void presencearea_slot_begin(DcPresenceSlot *slot, Oid database, const DcPresenceOwner *owner);
static bool presencearea_share_is_used(Oid holder);
static DcPresenceSlot *presencearea_take_unused(DcPresenceSlot *slot);
static DcPresenceSlot *presencearea_unused_of(Oid holder);
static DcPresenceSlot *presencearea_slot_find(Oid database, const DcPresenceOwner *owner);

/*
 * presence_init sets up the room, and asks for the shared memory if the library is being
 * preloaded; called once.
 */
void
presence_init(bool preloading)
{
	rule_kind_add(&presence_rules, preloading);
	presence_events_init();
	if (!preloading)
		return;
	shmem_add("dcounter presence", sizeof(DcPresenceArea), (void **) &presence_area, presencearea_area_init);
	shmem_add_raw("dcounter presence map", presence_map_size, (void **) &presence_map, presence_map_init);
}

/*
 * presence_map_size is called once, when the server starts. What the file has must fit.
 */
static Size
presence_map_size(void)
{
	map_bytes = map_size(Max((Size) dc_presence_size * 1024, presencefile_memory()));
	return map_bytes;
}

/*
 * Initialize the shared memory of presences: no slots in use, the wheel at the present tick.
 * Generations begin with 1, so a session's 0 is never current.
 */
static void
presencearea_area_init(void *new_area)
{
	DcPresenceArea *area = new_area;

	shmem_init_lock(&area->lock);
	shmem_init_lock(&area->turn_lock);
	shmem_init_lock(&area->wheel_lock);
	shmem_init_lock(&area->events_lock);
	for (int i = 0; i < PRESENCE_ROOM_LOCKS; i++)
		shmem_init_lock(&area->room_locks[i].lock);
	pg_atomic_init_u32(&area->is_standby, 0);
	pg_atomic_init_u64(&area->epoch, 0);
	pg_atomic_init_u64(&area->looked, 0);
	pg_atomic_init_u64(&area->version, 0);
	pg_atomic_init_u64(&area->turned, (uint64) moment_now().us);
	area->seed = pg_prng_uint32(&pg_global_prng_state);
	if (!pg_strong_random(&area->salt, sizeof(area->salt)))
		area->salt = pg_prng_uint64(&pg_global_prng_state);
	wheel_init(&area->wheel, presence_tick(moment_now().us));
	for (int i = 0; i < PRESENCE_SLOTS; i++)
	{
		DcPresenceSlot *slot = &area->slots[i];

		pg_atomic_init_u32(&slot->generation, 1);
		pg_atomic_init_u64(&slot->events, 0);
		pg_atomic_init_u64(&slot->rooms, 0);
		pg_atomic_init_u64(&slot->members, 0);
		pg_atomic_init_u64(&slot->conns, 0);
		pg_atomic_init_u64(&slot->cells, 0);
		pg_atomic_init_u64(&slot->joined, 0);
		pg_atomic_init_u64(&slot->left, 0);
		pg_atomic_init_u64(&slot->expired, 0);
		pg_atomic_init_u64(&slot->refused, 0);
		pg_atomic_init_u64(&slot->told, 0);
		slot->dirty_first = slot->dirty_last = DC_MAP_NONE;
	}
}

/*
 * presence_map_init comes after presencearea_area_init, and fills both from the file. It is called
 * when the server starts over after a crash, too: then the file is of no use.
 */
static void
presence_map_init(void *new_map)
{
	uint64 lsn;

	map_init(new_map, map_bytes, PRESENCE_PAYLOAD);
	note_standby();
	presence_new_epoch();
	if (!server_was_shut_down(&lsn))
		lsn = 0;
	presencefile_load(lsn);
	on_shmem_exit(presencefile_save, (Datum) 0);
}

/*
 * Note that this server is a standby if it has one of the signal files. This is called before
 * recovery has begun.
 */
static void
note_standby(void)
{
	if (access("standby.signal", F_OK) == 0 || access("recovery.signal", F_OK) == 0)
		pg_atomic_write_u32(&presence_area->is_standby, 1);
}

/*
 * presence_start_empty starts without members, if the file could be loaded only in part. There are
 * no other processes yet.
 */
void
presence_start_empty(void)
{
	memset(presence_area, 0, sizeof(DcPresenceArea));
	presencearea_area_init(presence_area);
	map_init(presence_map, map_bytes, PRESENCE_PAYLOAD);
	note_standby();
	presence_new_epoch();
}

/*
 * presence_new_epoch begins a new epoch. Its number is the wall time, or the last number plus one
 * if the clock was set back.
 */
void
presence_new_epoch(void)
{
	uint64 now = (uint64) GetCurrentTimestamp();
	uint64 last = pg_atomic_read_u64(&presence_area->epoch);

	pg_atomic_write_u64(&presence_area->epoch, Max(now, last + 1));
}

/*
 * presence_check_memory raises 55000 without preload.
 */
void
presence_check_memory(void)
{
	if (presence_area == NULL)
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("presences need shared memory"),
				 errhint("Add dcounter to shared_preload_libraries and restart the server.")));
}

/*
 * presence_note_promotion notices that a standby has become a primary.
 */
void
presence_note_promotion(void)
{
	if (likely(pg_atomic_read_u32(&presence_area->is_standby) == 0) || RecoveryInProgress())
		return;
	LWLockAcquire(&presence_area->lock, LW_EXCLUSIVE);
	if (pg_atomic_read_u32(&presence_area->is_standby) != 0)
	{
		presence_new_epoch();
		pg_atomic_write_u32(&presence_area->is_standby, 0);
	}
	LWLockRelease(&presence_area->lock);
}

/*
 * presence_tick returns the tick of the wheel at which a moment has passed.
 */
uint64
presence_tick(int64 us)
{
	return (uint64) (us / PRESENCE_TICK_US) + 1;
}

/*
 * presence_use_slot finds the slot of use->owner. If use->rule is newer, it becomes the slot's.
 * Errors: 53200 if there is no slot, or none for rules of this owner.
 */
void
presence_use_slot(DcPresenceUse *use)
{
	bool of_role;

	if (presence_find_slot(use))
		return;
	LWLockAcquire(&presence_area->lock, LW_SHARED);
	of_role = presencearea_share_is_used(use->holder);
	LWLockRelease(&presence_area->lock);
	if (of_role)
		ereport(ERROR,
				(errcode(ERRCODE_OUT_OF_MEMORY),
				 errmsg("too many presences of one owner are in use"),
				 errdetail("A role that is not a superuser can have %d presences with rooms in memory, in all databases together.", PRESENCE_SLOTS_OF_ROLE),
				 errhint("Try again once one presence has no members, or use one presence with many rooms instead of many presences.")));
	ereport(ERROR,
			(errcode(ERRCODE_OUT_OF_MEMORY),
			 errmsg("too many presences are in use"),
			 errdetail("There can be %d presences with rooms in memory, in all databases together.", PRESENCE_SLOTS),
			 errhint("Try again once one presence has no members, or use one presence with many rooms instead of many presences.")));
}

/*
 * presence_find_slot finds the slot as presence_use_slot does, but makes none: it returns false if
 * there is none.
 */
bool
presence_find_slot(DcPresenceUse *use)
{
	DcPresenceSlot *slot;

	LWLockAcquire(&presence_area->lock, LW_EXCLUSIVE);
	slot = presencearea_slot_make(MyDatabaseId, &use->owner, use->holder);
	if (slot != NULL)
	{
		if (use->rule.version > slot->version)
		{
			slot->version = use->rule.version;
			slot->counted = 0;
			if ((int64) pg_atomic_read_u64(&slot->events) < 0)
				pg_atomic_write_u64(&slot->told, 0); /* listeners have missed changes */
			pg_atomic_write_u64(&slot->events, (uint64) use->rule.events);
		}
		use->slot = slot;
		use->generation = pg_atomic_read_u32(&slot->generation);
	}
	LWLockRelease(&presence_area->lock);
	return slot != NULL;
}

/*
 * presence_slot_of returns the slot of a rule of this database, or NULL. It may be given away at
 * any time, so this is for statistics.
 */
DcPresenceSlot *
presence_slot_of(const DcPresenceOwner *owner)
{
	DcPresenceSlot *slot;

	if (presence_area == NULL)
		return NULL;
	LWLockAcquire(&presence_area->lock, LW_SHARED);
	slot = presencearea_slot_find(MyDatabaseId, owner);
	LWLockRelease(&presence_area->lock);
	return slot;
}

/*
 * presence_slot_end ends the events of a rule that is gone, in any database. Returns its slot, if
 * it has one; without a room it may be given away at any time. Must not throw.
 */
DcPresenceSlot *
presence_slot_end(Oid database, const DcPresenceOwner *owner)
{
	DcPresenceSlot *slot;

	LWLockAcquire(&presence_area->lock, LW_EXCLUSIVE);
	slot = presencearea_slot_find(database, owner);
	if (slot != NULL)
		pg_atomic_write_u64(&slot->events, (uint64) -1);
	LWLockRelease(&presence_area->lock);
	return slot;
}

/*
 * Return the slot of an owner in a database, or NULL. The caller holds the area's lock.
 */
static DcPresenceSlot *
presencearea_slot_find(Oid database, const DcPresenceOwner *owner)
{
	for (int i = 0; i < presence_area->nslots; i++)
	{
		DcPresenceSlot *slot = &presence_area->slots[i];

		if (slot->database == database && slot->owner.id == owner->id && slot->owner.catalog == owner->catalog)
			return slot;
	}
	return NULL;
}

/*
 * Return true if a role has all slots that are for rules of its own. Under area->lock.
 */
static bool
presencearea_share_is_used(Oid holder)
{
	int n = 0;

	for (int i = 0; OidIsValid(holder) && i < presence_area->nslots; i++)
		n += presence_area->slots[i].holder == holder;
	return n >= PRESENCE_SLOTS_OF_ROLE;
}

/*
 * Return the slot if it has no room in memory, so that it can be another rule's; else NULL. Under
 * area->lock.
 */
static DcPresenceSlot *
presencearea_take_unused(DcPresenceSlot *slot)
{
	if (pg_atomic_read_u64(&slot->rooms) != 0)
		return NULL;
	pg_atomic_fetch_add_u32(&slot->generation, 1); /* then look again: see presence.h */
	return pg_atomic_read_u64(&slot->rooms) == 0 ? slot : NULL;
}

/*
 * Return a slot of a role's share that has no room in memory, or NULL. Under area->lock.
 */
static DcPresenceSlot *
presencearea_unused_of(Oid holder)
{
	DcPresenceSlot *slot = NULL;

	for (int i = 0; slot == NULL && i < presence_area->nslots; i++)
	{
		if (presence_area->slots[i].holder == holder)
			slot = presencearea_take_unused(&presence_area->slots[i]);
	}
	return slot;
}

/*
 * presencearea_slot_make returns a slot, a new one if there is none, or the slot of another rule
 * that has no room in memory; NULL if all are in use, or the share of the holder is. A slot that
 * was loaded from the file becomes the holder's even if the share is used up. Under area->lock.
 */
static DcPresenceSlot *
presencearea_slot_make(Oid database, const DcPresenceOwner *owner, Oid holder)
{
	DcPresenceSlot *slot = presencearea_slot_find(database, owner);
	bool found = slot != NULL;

	if (!found && presencearea_share_is_used(holder))
	{
		slot = presencearea_unused_of(holder);
		if (slot == NULL)
			return NULL;
	}
	if (slot == NULL && presence_area->nslots < PRESENCE_SLOTS)
		slot = &presence_area->slots[presence_area->nslots++];
	for (int i = 0; slot == NULL && i < PRESENCE_SLOTS; i++)
		slot = presencearea_take_unused(&presence_area->slots[i]);
	if (slot == NULL)
		return NULL;
	if (!found)
		presencearea_slot_begin(slot, database, owner);
	slot->holder = holder;
	return slot;
}

/*
 * Give a slot without rooms to an owner in a database. Under area->lock.
 */
static void
presencearea_slot_begin(DcPresenceSlot *slot, Oid database, const DcPresenceOwner *owner)
{
	slot->database = database;
	slot->owner = *owner;
	slot->version = 0;
	slot->counted = 0;
	slot->events_at = 0;
	pg_atomic_write_u64(&slot->joined, 0);
	pg_atomic_write_u64(&slot->left, 0);
	pg_atomic_write_u64(&slot->expired, 0);
	pg_atomic_write_u64(&slot->refused, 0);
	pg_atomic_write_u64(&slot->told, 0);
}
