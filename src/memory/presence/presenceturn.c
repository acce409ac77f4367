/*
 * presenceturn.c
 *		Turning the wheel: members without heartbeats leave, empty rooms are freed.
 *
 * Copyright (c) 2026, the dcounter developers
 *
 * One process at a time turns it, under turn_lock: the worker, each second; and calls, a little, if
 * it is late.
 *
 * The order of locks is a partition, then the wheel. So items that are due are taken out of the
 * wheel first, some at a time, and marked as taken; then each is settled under its partition's
 * lock. By then it may have had a heartbeat, or have left and come again. But a process that finds
 * it taken neither frees it nor puts it into the wheel: that is left to this file. Nothing between
 * the two can fail.
 */
#include "postgres.h"

#include "miscadmin.h"
#include "utils/syscache.h"

#include "memory/presence/presence.h"

/* Items that are taken at a time. */
#define BATCH 64

/* How late the wheel may be before calls turn it. */
#define LATE_US (2 * USECS_PER_SEC)

/* How often to look for databases that are gone. */
#define TURN_LOOK_US (1 * USECS_PER_SEC)

/*
 * An empty room that has something to report stays for this many times PRESENCE_EMPTY_ROOM_US:
 * after that, there is no worker.
 */
#define MAX_ROUNDS 60

static void presenceturn_settle(uint32 number, int64 now);
static void settle_member(DcMapEntry *entry, int64 now);
static void settle_room(DcMapEntry *entry, int64 now);

/*
 * presence_turn turns the wheel, by about `steps` steps; true if there is more to do. Also false if
 * another process turns it, and the caller need not wait.
 */
bool
presence_turn(uint32 steps, bool wait)
{
	int64 now;
	uint64 tick;
	bool done = false;

	if (wait)
		LWLockAcquire(&presence_area->turn_lock, LW_EXCLUSIVE);
	else if (!LWLockConditionalAcquire(&presence_area->turn_lock, LW_EXCLUSIVE))
		return false;
	now = moment_now().us;
	tick = (uint64) (now / PRESENCE_TICK_US);
	while (steps > 0 && !done)
	{
		uint32 items[BATCH];
		uint32 some = Min(steps, BATCH);
		int n = 0;

		steps -= some;
		LWLockAcquire(&presence_area->wheel_lock, LW_EXCLUSIVE);
		while (some > 0)
		{
			uint32 item = wheel_next(&presence_area->wheel, &presence_items, tick, &some);

			if (item == WHEEL_NONE)
				break;
			((DcPresenceItem *) map_payload(map_entry(presence_map, item)))->taken = true;
			items[n++] = item;
		}
		done = presence_area->wheel.tick > tick;
		LWLockRelease(&presence_area->wheel_lock);
		for (int i = 0; i < n; i++)
			presenceturn_settle(items[i], now);
	}
	if (done)
		pg_atomic_write_u64(&presence_area->turned, (uint64) now);
	LWLockRelease(&presence_area->turn_lock);
	return !done;
}

/*
 * presence_turn_if_late is for calls: so members leave without a worker, too.
 */
void
presence_turn_if_late(void)
{
	if (moment_age(moment_read(&presence_area->turned)) > LATE_US)
		(void) presence_turn(BATCH, false);
}

/*
 * Settle an item that was taken out of the wheel as due, under its partition's lock.
 */
static void
presenceturn_settle(uint32 number, int64 now)
{
	DcMapEntry *entry = map_entry(presence_map, number);
	LWLock *lock = map_lock(presence_map, entry);
	DcPresenceItem *item = map_payload(entry);

	LWLockAcquire(lock, LW_EXCLUSIVE);
	if (item->kind == PRESENCE_MEMBER)
		settle_member(entry, now);
	else
		settle_room(entry, now);
	LWLockRelease(lock);
}

/*
 * Let a member leave if its deadline has passed. Put it back into the wheel if it is still there,
 * and free it otherwise.
 */
static void
settle_member(DcMapEntry *entry, int64 now)
{
	DcPresenceMember *member = map_payload(entry);

	if (member->item.is_here && (int64) pg_atomic_read_u64(&member->expires_at) < now)
		presence_leave(map_entry(presence_map, member->room), entry, true);
	LWLockAcquire(&presence_area->wheel_lock, LW_EXCLUSIVE);
	member->item.taken = false;
	if (member->item.is_here)
		wheel_add(&presence_area->wheel, &presence_items, entry->number);
	LWLockRelease(&presence_area->wheel_lock);
	if (!member->item.is_here)
		presence_free_member(entry);
}

/*
 * settle_room frees a room that is empty and not in use, and turns the ring of an approximate one.
 * Pins are taken under its partition's lock, or by a process that has one.
 */
static void
settle_room(DcMapEntry *entry, int64 now)
{
	DcPresenceRoom *room = map_payload(entry);
	DcPresenceSlot *slot = &presence_area->slots[room->slot];
	LWLock *lock = presence_room_lock(entry->number);
	bool is_approx = room->item.kind == PRESENCE_APPROX;
	int64 next = is_approx ? presence_approx_turn(entry, now) : now + PRESENCE_EMPTY_ROOM_US;
	bool empty;
	bool gone;

	LWLockAcquire(lock, LW_EXCLUSIVE);
	empty = is_approx ? room->root == DC_MAP_NONE : pg_atomic_read_u32(&room->members) == 0;
	if (empty && room->item.is_dirty && ++room->rounds > MAX_ROUNDS)
	{
		presence_clean(entry);
		pg_atomic_write_u64(&slot->told, 1); /* an epoch that has never been */
	}
	gone = empty && !room->item.is_dirty && pg_atomic_read_u32(&entry->pins) == 0;
	LWLockAcquire(&presence_area->wheel_lock, LW_EXCLUSIVE);
	room->item.taken = false;
	if ((empty || is_approx) && !gone)
	{
		room->due = presence_tick(next);
		wheel_add(&presence_area->wheel, &presence_items, entry->number);
	}
	LWLockRelease(&presence_area->wheel_lock);
	LWLockRelease(lock);
	if (!gone)
		return;
	pg_atomic_fetch_sub_u64(&slot->cells, map_entry_size(presence_map, entry) / map_cell_size(presence_map));
	map_take_out(presence_map, entry);
	pg_atomic_fetch_sub_u64(&slot->rooms, 1); /* last: then the slot may be given away */
}

/*
 * Return the room of an entry whose rule is gone: itself, or that of a member; NULL if it is not.
 * Its partition is locked.
 */
static DcMapEntry *
room_of(const DcPresenceGone *gone, DcMapEntry *entry)
{
	DcPresenceItem *item = map_payload(entry);
	DcMapEntry *room = item->kind != PRESENCE_MEMBER ? entry : map_entry(presence_map, ((DcPresenceMember *) item)->room);
	uint32 slot = ((DcPresenceRoom *) map_payload(room))->slot;

	/* another rule may have the slot by now */
	return entry->database == gone->rules[slot].database && entry->counter == gone->rules[slot].id ? room : NULL;
}

/*
 * Let a member of a rule that is gone leave, and free it: the result is true then. A room drops its
 * pending changes, and stays until it has no members.
 */
static bool
presenceturn_forget(DcMapEntry *entry, void *arg)
{
	DcPresenceItem *item = map_payload(entry);
	DcMapEntry *room = room_of(arg, entry);
	DcPresenceSlot *slot;
	bool taken;

	if (room == NULL)
		return false;
	slot = &presence_area->slots[((DcPresenceRoom *) map_payload(room))->slot];
	if (item->kind == PRESENCE_APPROX)
		presence_approx_clear(entry);
	if (item->kind != PRESENCE_MEMBER)
	{
		LWLockAcquire(presence_room_lock(room->number), LW_EXCLUSIVE);
		presence_clean(room);
		LWLockRelease(presence_room_lock(room->number));
		return false; /* it may have members still */
	}
	if (item->is_here)
		presence_leave(room, entry, false);
	LWLockAcquire(&presence_area->wheel_lock, LW_EXCLUSIVE);
	taken = item->taken;
	if (!taken && wheel_has(&item->wheel))
		wheel_remove(&presence_area->wheel, &presence_items, entry->number);
	LWLockRelease(&presence_area->wheel_lock);
	if (taken)
		return false;
	pg_atomic_fetch_sub_u64(&slot->cells, map_entry_size(presence_map, entry) / map_cell_size(presence_map));
	pg_atomic_fetch_sub_u64(&slot->members, 1);
	map_unpin(room);
	return true; /* no member is ever pinned */
}

/*
 * forget_room frees an empty room. The turn_lock is held, so no other process has taken it out of
 * the wheel, or frees it.
 */
static bool
forget_room(DcMapEntry *entry, void *arg)
{
	DcPresenceGone *gone = arg;
	DcPresenceRoom *room = map_payload(entry);
	bool empty;

	if (room->item.kind == PRESENCE_MEMBER || room_of(gone, entry) == NULL)
		return false;
	empty = room->item.kind == PRESENCE_APPROX ? room->root == DC_MAP_NONE : pg_atomic_read_u32(&room->members) == 0;
	if (!empty || room->item.is_dirty || pg_atomic_read_u32(&entry->pins) != 0)
		return false; /* it is freed when it is due */
	LWLockAcquire(&presence_area->wheel_lock, LW_EXCLUSIVE);
	if (wheel_has(&room->item.wheel))
		wheel_remove(&presence_area->wheel, &presence_items, entry->number);
	LWLockRelease(&presence_area->wheel_lock);
	pg_atomic_fetch_sub_u64(&presence_area->slots[room->slot].cells, map_entry_size(presence_map, entry) / map_cell_size(presence_map));
	gone->rules[room->slot].rooms++;
	return true;
}

/*
 * presence_gone_add adds a rule to those that are gone, if it has anything in memory. Must not
 * throw.
 */
void
presence_gone_add(DcPresenceGone *gone, Oid database, const DcPresenceOwner *rule)
{
	DcPresenceSlot *slot = presence_slot_end(database, rule);

	if (slot == NULL)
		return;
	gone->rules[slot - presence_area->slots] = (DcPresenceGoneRule){.database = database, .id = (Oid) rule->id};
	gone->any = true;
}

/*
 * presence_forget removes the members of rules that are gone, then their rooms: other sessions may
 * need the memory at once, and no view shows what uses it. If the wheel is being turned just now,
 * the rooms are freed when they are due. A member that still enters, because its session does not
 * know of the drop yet, leaves when its time is up. A transaction may drop many rules, and can no
 * longer be canceled: so the memory is scanned once for all of them. Must not throw.
 */
void
presence_forget(DcPresenceGone *gone)
{
	if (!gone->any)
		return;
	map_sweep(presence_map, presenceturn_forget, gone);
	for (uint32 partition = 0; partition < DC_MAP_PARTITIONS; partition++)
	{
		if (!LWLockConditionalAcquire(&presence_area->turn_lock, LW_EXCLUSIVE))
			continue;
		map_sweep_partition(presence_map, partition, forget_room, gone);
		LWLockRelease(&presence_area->turn_lock); /* the worker may be waiting for it */
	}
	for (int i = 0; i < PRESENCE_SLOTS; i++) /* last: then the slot may be given away */
	{
		if (gone->rules[i].rooms > 0)
			pg_atomic_fetch_sub_u64(&presence_area->slots[i].rooms, gone->rules[i].rooms);
	}
}

/*
 * presence_forget_databases removes the members of databases that were dropped, which would
 * otherwise stay until their time is up. At most once a second; true if there were any. Call it in
 * a transaction, with no lock held.
 */
bool
presence_forget_databases(void)
{
	uint64 last = pg_atomic_read_u64(&presence_area->looked);
	DcPresenceGone gone = {0};

	if (moment_age((DcMoment){(int64) last}) < TURN_LOOK_US ||
		!pg_atomic_compare_exchange_u64(&presence_area->looked, &last, (uint64) moment_now().us))
		return false;
	for (int i = 0; i < PRESENCE_SLOTS; i++)
	{
		DcPresenceSlot *slot = &presence_area->slots[i];
		Oid database;
		DcPresenceOwner owner;

		LWLockAcquire(&presence_area->lock, LW_SHARED);
		database = slot->database;
		owner = slot->owner;
		LWLockRelease(&presence_area->lock);
		if (pg_atomic_read_u64(&slot->members) == 0 || SearchSysCacheExists1(DATABASEOID, ObjectIdGetDatum(database)))
			continue;
		presence_gone_add(&gone, database, &owner);
	}
	presence_forget(&gone);
	return gone.any;
}
