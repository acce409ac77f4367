/*
 * presenceroom.c
 *		Rooms: finding and making them, their members' tree and numbers.
 *
 * Copyright (c) 2026, the dcounter developers
 *
 * presence.h says which lock protects what. Joining and leaving are here, under the lock of the
 * member's partition, which the caller has, and that of the room.
 */
#include "postgres.h"

#include "common/hashfn.h"
#include "miscadmin.h"

#include "memory/presence/presence.h"

static DcWheelNode *wheel_node(void *arg, uint32 item);
static uint64 wheel_deadline(void *arg, uint32 item);
static DcSortedNode *sorted_node(void *arg, uint32 item);
static uint32 sorted_priority(void *arg, uint32 item);
static int sorted_compare(void *arg, const void *key, uint32 item);
static DcMapEntry *room_get(DcPresenceUse *use, Oid database, const DcKey *name, const char **full);
static void room_init(DcMapEntry *entry, void *arg);

const DcWheelItems presence_items = {NULL, wheel_node, wheel_deadline};
const DcSortedItems presence_sorted = {NULL, sorted_node, sorted_priority, sorted_compare};

/* the kind, and of a room the catalog, of a member the room's number */
#define KEY_HEADER (1 + sizeof(uint32))

/* A room that is being made. */
typedef struct NewRoom
{
	DcPresenceUse *use;
} NewRoom;

/*
 * Return the node of an item in the wheel.
 */
static DcWheelNode *
wheel_node(void *arg, uint32 item)
{
	return &((DcPresenceItem *) map_payload(map_entry(presence_map, item)))->wheel;
}

/*
 * A room is due when it may have to be forgotten, because it is empty; how long it has been empty
 * does not matter.
 */
static uint64
wheel_deadline(void *arg, uint32 item)
{
	DcPresenceItem *payload = map_payload(map_entry(presence_map, item));

	if (payload->kind == PRESENCE_MEMBER)
		return presence_tick((int64) pg_atomic_read_u64(&((DcPresenceMember *) payload)->expires_at));
	return ((DcPresenceRoom *) payload)->due;
}

/*
 * Return the node of a member in its room's tree.
 */
static DcSortedNode *
sorted_node(void *arg, uint32 item)
{
	return &((DcPresenceMember *) map_payload(map_entry(presence_map, item)))->sorted;
}

/*
 * Return the priority of a member in its room's tree, which a user cannot foresee: it depends on a
 * random seed.
 */
static uint32
sorted_priority(void *arg, uint32 item)
{
	return murmurhash32(map_entry(presence_map, item)->hash ^ presence_area->seed);
}

/* the key is a DcKey */
static int
sorted_compare(void *arg, const void *key, uint32 item)
{
	const DcKey *name = key;
	DcMapEntry *entry = map_entry(presence_map, item);
	char bytes[DC_MAP_KEY_BYTES];

	map_key(presence_map, entry, bytes);
	return bytes_compare(name->data, name->len, bytes + KEY_HEADER, entry->len - KEY_HEADER);
}

/*
 * presence_room_lock returns the lock of the room with that entry.
 */
LWLock *
presence_room_lock(uint32 room)
{
	return &presence_area->room_locks[room % PRESENCE_ROOM_LOCKS].lock;
}

/*
 * Return the kind of rooms that the rule has.
 */
static uint8
room_kind(const DcPresenceUse *use)
{
	return use->rule.approx ? PRESENCE_APPROX : PRESENCE_ROOM;
}

/*
 * presence_room_key makes the key of a room, in the given bytes.
 */
void
presence_room_key(DcMapKey *key, const DcPresenceUse *use, Oid database, const DcKey *name, char *bytes)
{
	bytes[0] = (char) room_kind(use);
	memcpy(bytes + 1, &use->owner.catalog, sizeof(Oid));
	memcpy(bytes + KEY_HEADER, name->data, name->len);
	map_key_init(presence_map, key, database, (Oid) use->owner.id, bytes, KEY_HEADER + name->len);
}

/*
 * presence_member_key makes the key of a member, in the given bytes. The room is pinned.
 */
void
presence_member_key(DcMapKey *key, const DcMapEntry *room, const char *member, uint32 len, char *bytes)
{
	bytes[0] = PRESENCE_MEMBER;
	memcpy(bytes + 1, &room->number, sizeof(uint32));
	memcpy(bytes + KEY_HEADER, member, len);
	map_key_init(presence_map, key, room->database, room->counter, bytes, KEY_HEADER + len);
}

/*
 * presence_room_name copies the name of a room or a member. The caller keeps it from being freed.
 */
void
presence_room_name(DcMapEntry *room, char *name, uint32 *len)
{
	char bytes[DC_MAP_KEY_BYTES];

	map_key(presence_map, room, bytes);
	*len = room->len - KEY_HEADER;
	memcpy(name, bytes + KEY_HEADER, *len);
}

/*
 * presence_room_find returns a room, pinned, or NULL.
 */
DcMapEntry *
presence_room_find(const DcPresenceUse *use, const DcKey *name)
{
	DcMapKey key;
	char bytes[DC_MAP_KEY_BYTES];

	presence_room_key(&key, use, MyDatabaseId, name, bytes);
	return map_find(presence_map, &key);
}

/*
 * presence_members returns how many members a room has.
 */
int64
presence_members(const DcPresenceUse *use, const DcKey *name)
{
	DcMapKey key;
	char bytes[DC_MAP_KEY_BYTES];
	LWLock *lock;
	DcMapEntry *entry;
	int64 count = 0;

	if (use->rule.approx)
		return presence_approx_members(use, name);
	presence_room_key(&key, use, MyDatabaseId, name, bytes);
	lock = map_key_lock(presence_map, &key);
	LWLockAcquire(lock, LW_SHARED);
	entry = map_look(presence_map, &key);
	if (entry != NULL)
		count = pg_atomic_read_u32(&((DcPresenceRoom *) map_payload(entry))->members);
	LWLockRelease(lock);
	return count;
}

/*
 * Initialize a new, empty room. Its version begins with the highest of all, so it is above that of
 * any earlier room of this name. It is due when it has been empty for PRESENCE_EMPTY_ROOM_US.
 */
static void
room_init(DcMapEntry *entry, void *arg)
{
	DcPresenceRoom *room = map_payload(entry);
	NewRoom *new = arg;

	memset(room, 0, sizeof(*room));
	room->item.kind = room_kind(new->use);
	wheel_node_init(&room->item.wheel);
	room->slot = new->use->slot - presence_area->slots;
	room->root = SORTED_NONE;
	room->dirty_next = room->dirty_prev = DC_MAP_NONE;
	pg_atomic_init_u32(&room->members, 0);
	pg_atomic_init_u64(&room->version, pg_atomic_read_u64(&presence_area->version));
	room->due = presence_tick(moment_now().us + PRESENCE_EMPTY_ROOM_US);
}

/*
 * Return true if a rule may have more memory. One that has no other bound may have half of all.
 */
bool
presence_cells_fit(const DcPresenceRule *rule, DcPresenceSlot *slot, uint64 more)
{
	return rule->max_members != 0 ||
		pg_atomic_read_u64(&slot->cells) + more <= map_capacity(presence_map) / 2;
}

/*
 * presence_room_get returns a room, pinned; it is created if necessary. NULL if it cannot be made;
 * *full then says what is full.
 */
DcMapEntry *
presence_room_get(DcPresenceUse *use, const DcKey *name, const char **full)
{
	DcMapEntry *entry = presence_room_find(use, name);

	return entry != NULL ? entry : room_get(use, MyDatabaseId, name, full);
}

/*
 * presence_room_load creates a room of any database, when the file is loaded.
 */
DcMapEntry *
presence_room_load(DcPresenceUse *use, Oid database, const DcKey *name, const char **full)
{
	return room_get(use, database, name, full);
}

/*
 * Return a room, pinned; it is created if there is none. NULL if it cannot be, and *full says what
 * is full. If the slot was given to another rule in the meantime, the rule gets a slot again.
 */
static DcMapEntry *
room_get(DcPresenceUse *use, Oid database, const DcKey *name, const char **full)
{
	DcMapKey key;
	char bytes[DC_MAP_KEY_BYTES];
	DcMapEntry *entry = NULL;
	LWLock *lock;
	uint64 most = use->rule.max_members != 0 ? (uint64) use->rule.max_members : PG_UINT64_MAX;

	presence_room_key(&key, use, database, name, bytes);
	lock = map_key_lock(presence_map, &key);
	while (entry == NULL)
	{
		DcPresenceSlot *slot = use->slot;
		bool is_current;
		NewRoom new = {use};

		LWLockAcquire(lock, LW_EXCLUSIVE);
		entry = map_look(presence_map, &key);
		if (entry != NULL)
		{
			map_pin(entry);
			LWLockRelease(lock);
			break;
		}
		*full = NULL;
		if (pg_atomic_fetch_add_u64(&slot->rooms, 1) >= most || !presence_cells_fit(&use->rule, slot, 1))
			*full = "rooms";
		is_current = pg_atomic_read_u32(&slot->generation) == use->generation;
		if (is_current && *full == NULL)
			entry = map_add(presence_map, &key, room_init, &new);
		if (entry != NULL)
		{
			map_pin(entry);
			pg_atomic_fetch_add_u64(&slot->cells, map_entry_size(presence_map, entry) / map_cell_size(presence_map));
			LWLockAcquire(&presence_area->wheel_lock, LW_EXCLUSIVE);
			wheel_add(&presence_area->wheel, &presence_items, entry->number);
			LWLockRelease(&presence_area->wheel_lock);
		}
		else
		{
			if (*full == NULL)
				*full = "memory";
			pg_atomic_fetch_sub_u64(&slot->rooms, 1);
		}
		LWLockRelease(lock);
		if (entry == NULL && is_current)
			return NULL;
		if (!is_current)
			presence_use_slot(use);
	}
	return entry;
}

/*
 * presence_count puts a member into its room's tree and counts it. The room is locked.
 */
void
presence_count(DcMapEntry *room_entry, DcMapEntry *entry)
{
	DcPresenceRoom *room = map_payload(room_entry);
	DcKey name;
	char bytes[DC_MAP_KEY_BYTES];

	presence_room_name(entry, bytes, &name.len);
	name.data = bytes;
	sorted_insert(&room->root, &presence_sorted, entry->number, &name);
	((DcPresenceItem *) map_payload(entry))->is_here = true;
	pg_atomic_write_u32(&room->members, pg_atomic_read_u32(&room->members) + 1);
}

/*
 * presence_join counts a member in its room, if it is not there, and gives it a new meta, or NULL:
 * keep it. The old one's cells are returned.
 */
void
presence_join(DcMapEntry *room_entry, DcMapEntry *entry, uint32 *meta)
{
	DcPresenceRoom *room = map_payload(room_entry);
	DcPresenceMember *member = map_payload(entry);
	DcPresenceSlot *slot = &presence_area->slots[room->slot];
	LWLock *lock = presence_room_lock(room_entry->number);
	bool joins = !member->item.is_here;

	LWLockAcquire(lock, LW_EXCLUSIVE);
	if (meta != NULL)
	{
		uint32 old = member->meta;

		member->meta = *meta;
		*meta = old;
	}
	if (joins)
	{
		presence_count(room_entry, entry);
		pg_atomic_fetch_add_u64(&slot->joined, 1);
	}
	pg_atomic_write_u64(&room->version, pg_atomic_add_fetch_u64(&presence_area->version, 1));
	presence_note_change(room_entry, joins ? 1 : 0, 0);
	LWLockRelease(lock);
}

/*
 * presence_leave takes a member out of its room, with its connections and meta. The entry is still
 * there.
 */
void
presence_leave(DcMapEntry *room_entry, DcMapEntry *entry, bool expired)
{
	DcPresenceRoom *room = map_payload(room_entry);
	DcPresenceMember *member = map_payload(entry);
	DcPresenceSlot *slot = &presence_area->slots[room->slot];
	LWLock *lock = presence_room_lock(room_entry->number);
	uint32 meta;
	uint32 conns = member->conns;

	LWLockAcquire(lock, LW_EXCLUSIVE);
	sorted_remove(&room->root, &presence_sorted, entry->number);
	member->item.is_here = false;
	meta = member->meta;
	member->meta = DC_MAP_NONE;
	pg_atomic_write_u32(&room->members, pg_atomic_read_u32(&room->members) - 1);
	pg_atomic_fetch_add_u64(&slot->left, 1);
	if (expired)
		pg_atomic_fetch_add_u64(&slot->expired, 1);
	pg_atomic_write_u64(&room->version, pg_atomic_add_fetch_u64(&presence_area->version, 1));
	presence_note_change(room_entry, 0, 1);
	if (pg_atomic_read_u32(&room->members) == 0)
	{
		room->rounds = 0;
		LWLockAcquire(&presence_area->wheel_lock, LW_EXCLUSIVE);
		if (!room->item.taken && !wheel_has(&room->item.wheel))
		{
			room->due = presence_tick(moment_now().us + PRESENCE_EMPTY_ROOM_US);
			wheel_add(&presence_area->wheel, &presence_items, room_entry->number);
		}
		LWLockRelease(&presence_area->wheel_lock);
	}
	LWLockRelease(lock);
	member->conns = DC_MAP_NONE;
	pg_atomic_write_u64(&member->unnamed, 0);
	for (uint32 cell = conns; cell != DC_MAP_NONE; cell = ((DcPresenceConn *) map_cell(presence_map, cell))->next)
		pg_atomic_fetch_sub_u64(&slot->conns, 1);
	presence_cells_give_back(slot, conns);
	presence_cells_give_back(slot, meta);
}

/*
 * presence_cells_give_back gives back a list of cells, which may be empty.
 */
void
presence_cells_give_back(DcPresenceSlot *slot, uint32 first)
{
	while (first != DC_MAP_NONE)
	{
		uint32 next = *(uint32 *) map_cell(presence_map, first);

		map_cell_give_back(presence_map, first);
		pg_atomic_fetch_sub_u64(&slot->cells, 1);
		first = next;
	}
}

/*
 * presence_free_member frees an entry of a member that has left, and is not in the wheel. Its
 * partition is locked exclusively.
 */
void
presence_free_member(DcMapEntry *entry)
{
	DcPresenceMember *member = map_payload(entry);
	DcMapEntry *room_entry = map_entry(presence_map, member->room);
	DcPresenceSlot *slot = &presence_area->slots[((DcPresenceRoom *) map_payload(room_entry))->slot];

	pg_atomic_fetch_sub_u64(&slot->cells, map_entry_size(presence_map, entry) / map_cell_size(presence_map));
	pg_atomic_fetch_sub_u64(&slot->members, 1);
	map_take_out(presence_map, entry);
	map_unpin(room_entry); /* last: after that the room and its slot may be freed */
}
