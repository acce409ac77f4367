/*
 * presenceenter.c
 *		Entering a room, heartbeats, and leaving.
 *
 * Copyright (c) 2026, the dcounter developers
 *
 * A heartbeat of a connection that is known stores two deadlines, under a shared lock (presence.h).
 * Everything else is done under the exclusive lock of the member's partition: the memory that is
 * needed is taken first, so nothing is left half done if there is none.
 *
 * A member whose deadline has passed is still there until the wheel is turned, or it exits: if it
 * sends a heartbeat before that, it has not left.
 *
 * Errors are raised when no lock and no pin is held.
 */
#include "postgres.h"

#include "miscadmin.h"

#include "memory/presence/presence.h"

static const char *enter_once(DcPresenceCall *call, int64 *members);
static const char *enter_locked(DcPresenceCall *call, DcMapEntry *room, LWLock *lock, const DcMapKey *key, int64 *joined);
static const char *presenceenter_make_entry(DcPresenceCall *call, DcMapEntry *room, const DcMapKey *key, DcMapEntry **entry);
static const char *connect_member(DcPresenceCall *call, DcMapEntry *room, DcMapEntry *entry, int64 now);
static bool beat_locked(const DcPresenceCall *call, DcPresenceMember *member, int64 deadline);
static void leave_or_shorten(DcPresenceCall *call, DcMapEntry *room, DcMapEntry *entry, int64 now);
static void presenceenter_purge(DcPresenceSlot *slot, DcPresenceMember *member, int64 now, int *left);

/*
 * Return the slot of a room's rule.
 */
static DcPresenceSlot *
slot_of_room(DcMapEntry *room)
{
	return &presence_area->slots[((DcPresenceRoom *) map_payload(room))->slot];
}

/*
 * Return how many members the presence may have, in all rooms.
 */
static uint64
most_members(const DcPresenceCall *call)
{
	return call->use->rule.max_members != 0 ? (uint64) call->use->rule.max_members : PG_UINT64_MAX;
}

/*
 * presence_full_error raises 53200, and says what is full.
 */
void
presence_full_error(const DcPresenceRule *rule, const char *full)
{
	if (strcmp(full, "connections") == 0)
		ereport(ERROR,
				(errcode(ERRCODE_PROGRAM_LIMIT_EXCEEDED),
				 errmsg("too many connections for one member"),
				 errdetail("A member can have %d named connections.", PRESENCE_MAX_CONNS)));
	if (rule->max_members != 0 && strcmp(full, "memory") != 0)
		ereport(ERROR,
				(errcode(ERRCODE_OUT_OF_MEMORY),
				 errmsg("out of %s for a presence", full),
				 errdetail("Its max_members is %lld.", (long long) rule->max_members),
				 errhint("Increase it with dc_presence_alter().")));
	ereport(ERROR,
			(errcode(ERRCODE_OUT_OF_MEMORY),
			 errmsg("out of %s for a presence", full),
			 rule->max_members == 0 ? errdetail("A presence without max_members can use half of the memory.") : 0,
			 errhint("Increase dcounter.presence_size.")));
}

/*
 * presence_enter lets a member enter a room, or enter it again, and returns the number of members.
 * Errors: 53200, 54000.
 */
int64
presence_enter(DcPresenceCall *call)
{
	int64 members = 0;
	const char *full;

	if (call->use->rule.approx)
	{
		(void) presence_approx_beat(call, &members);
		return members;
	}
	presence_turn_if_late();
	presence_note_promotion();
	full = enter_once(call, &members);
	if (full != NULL && strcmp(full, "memory") == 0 && presence_forget_databases())
		full = enter_once(call, &members);
	if (full != NULL)
	{
		pg_atomic_fetch_add_u64(&call->use->slot->refused, 1);
		presence_full_error(&call->use->rule, full);
	}
	return members;
}

/*
 * Enter the room, which is created if necessary. Return NULL, or what is full. *members is the
 * number of members then.
 */
static const char *
enter_once(DcPresenceCall *call, int64 *members)
{
	DcMapKey key;
	char bytes[DC_MAP_KEY_BYTES];
	const char *full = NULL;
	DcMapEntry *room = presence_room_get(call->use, &call->room, &full);

	if (room == NULL)
		return full;
	presence_member_key(&key, room, call->member.data, call->member.len, bytes);
	full = enter_locked(call, room, map_key_lock(presence_map, &key), &key, members);
	map_unpin(room);
	return full;
}

/*
 * enter_locked lets the member enter, under `lock`. Returns NULL, and the number of members, or
 * what is full.
 */
static const char *
enter_locked(DcPresenceCall *call, DcMapEntry *room, LWLock *lock, const DcMapKey *key, int64 *members)
{
	DcMapEntry *entry;
	const char *full = NULL;

	LWLockAcquire(lock, LW_EXCLUSIVE);
	entry = map_look(presence_map, key);
	if (entry == NULL)
		full = presenceenter_make_entry(call, room, key, &entry);
	if (full == NULL)
		full = connect_member(call, room, entry, moment_now().us);
	if (full != NULL && entry != NULL)
	{
		DcPresenceItem *item = map_payload(entry);
		bool taken;

		LWLockAcquire(&presence_area->wheel_lock, LW_EXCLUSIVE);
		taken = item->taken;
		LWLockRelease(&presence_area->wheel_lock);
		if (!item->is_here && !taken)
			presence_free_member(entry);
	}
	*members = pg_atomic_read_u32(&((DcPresenceRoom *) map_payload(room))->members);
	LWLockRelease(lock);
	return full;
}

/*
 * Initialize the new entry of a member of the room `arg`: not there yet, in no list.
 */
static void
member_init(DcMapEntry *entry, void *arg)
{
	DcPresenceMember *member = map_payload(entry);

	memset(member, 0, sizeof(*member));
	member->item.kind = PRESENCE_MEMBER;
	wheel_node_init(&member->item.wheel);
	member->room = ((DcMapEntry *) arg)->number;
	pg_atomic_init_u64(&member->expires_at, 0);
	pg_atomic_init_u64(&member->unnamed, 0);
	member->conns = member->meta = DC_MAP_NONE;
}

/*
 * Make an entry for a member, which pins the room. Return NULL, or what is full. The caller has
 * locked the member's partition exclusively.
 */
static const char *
presenceenter_make_entry(DcPresenceCall *call, DcMapEntry *room, const DcMapKey *key, DcMapEntry **entry)
{
	DcPresenceSlot *slot = slot_of_room(room);
	const char *full = NULL;

	if (pg_atomic_fetch_add_u64(&slot->members, 1) >= most_members(call) ||
		!presence_cells_fit(&call->use->rule, slot, 1))
		full = "members";
	else
	{
		*entry = map_add(presence_map, key, member_init, room);
		if (*entry == NULL)
			full = "memory";
	}
	if (full != NULL)
	{
		pg_atomic_fetch_sub_u64(&slot->members, 1);
		return full;
	}
	pg_atomic_fetch_add_u64(&slot->cells, map_entry_size(presence_map, *entry) / map_cell_size(presence_map));
	map_pin(room);
	return NULL;
}

/*
 * presence_member_load creates a member of a room when the file is loaded. NULL if there is no
 * memory, or there is one already.
 */
DcMapEntry *
presence_member_load(DcMapEntry *room, const char *name, uint32 len, int64 expires_at)
{
	DcPresenceUse use = {.rule = {.max_members = PG_INT64_MAX}};
	DcPresenceCall call = {.use = &use};
	DcMapKey key;
	char bytes[DC_MAP_KEY_BYTES];
	DcMapEntry *entry = NULL;

	presence_member_key(&key, room, name, len, bytes);
	if (map_look(presence_map, &key) != NULL || presenceenter_make_entry(&call, room, &key, &entry) != NULL)
		return NULL;
	pg_atomic_write_u64(&((DcPresenceMember *) map_payload(entry))->expires_at, (uint64) expires_at);
	presence_count(room, entry);
	wheel_add(&presence_area->wheel, &presence_items, entry->number);
	return entry;
}

/*
 * Return the connection in a cell of the map.
 */
static DcPresenceConn *
conn_at(uint32 cell)
{
	return map_cell(presence_map, cell);
}

/*
 * find_conn returns the link to the cell of the connection that a call is about, or NULL.
 */
static uint32 *
find_conn(const DcPresenceCall *call, DcPresenceMember *member)
{
	for (uint32 *link = &member->conns; *link != DC_MAP_NONE; link = &conn_at(*link)->next)
	{
		const DcPresenceConn *conn = conn_at(*link);

		if (conn->len == call->conn_len && memcmp(conn->name, call->conn, conn->len) == 0)
			return link;
	}
	return NULL;
}

/*
 * Take `count` cells, linked to each other. Return false if the map or the rule's share of it is
 * full; *first is DC_MAP_NONE then.
 */
static bool
presenceenter_cells_take(const DcPresenceCall *call, DcPresenceSlot *slot, uint32 count, uint32 *first)
{
	*first = DC_MAP_NONE;
	if (!presence_cells_fit(&call->use->rule, slot, count))
		return false;
	*first = map_cells_take(presence_map, count);
	if (*first == DC_MAP_NONE)
		return false;
	pg_atomic_fetch_add_u64(&slot->cells, count);
	return true;
}

/*
 * meta_make stores a meta in new cells; false if there are none.
 */
static bool
meta_make(const DcPresenceCall *call, DcPresenceSlot *slot, uint32 *first)
{
	uint32 room = map_cell_size(presence_map) - offsetof(DcPresenceMeta, data);
	uint32 done = 0;

	*first = DC_MAP_NONE;
	if (!call->has_meta)
		return true;
	if (!presenceenter_cells_take(call, slot, (call->meta_len + room - 1) / room, first))
		return false;
	for (uint32 cell = *first; cell != DC_MAP_NONE; cell = *(uint32 *) map_cell(presence_map, cell))
	{
		DcPresenceMeta *meta = map_cell(presence_map, cell);
		uint32 part = Min(call->meta_len - done, room);

		meta->len = call->meta_len;
		memcpy(meta->data, call->meta + done, part);
		done += part;
	}
	return true;
}

/*
 * conn_make creates a connection with a name in a new cell that is not linked yet. Returns NULL, or
 * what is full. Those that have expired are forgotten first.
 */
static const char *
conn_make(const DcPresenceCall *call, DcPresenceSlot *slot, DcPresenceMember *member, int64 now, uint32 *cell)
{
	int nconns;
	DcPresenceConn *conn;

	presenceenter_purge(slot, member, now, &nconns);
	if (nconns >= PRESENCE_MAX_CONNS)
		return "connections";
	if (!presenceenter_cells_take(call, slot, 1, cell))
		return "memory";
	conn = conn_at(*cell);
	conn->len = call->conn_len;
	memcpy(conn->name, call->conn, conn->len);
	pg_atomic_init_u64(&conn->expires_at, 0);
	return NULL;
}

/*
 * connect_member notes the connection by which a member enters, and its meta. Returns NULL, or what
 * is full.
 */
static const char *
connect_member(DcPresenceCall *call, DcMapEntry *room, DcMapEntry *entry, int64 now)
{
	DcPresenceMember *member = map_payload(entry);
	DcPresenceSlot *slot = slot_of_room(room);
	uint32 meta;
	uint32 conn = DC_MAP_NONE;

	if (!meta_make(call, slot, &meta))
		return "memory";
	if (call->conn_len > 0 && find_conn(call, member) == NULL)
	{
		const char *full = conn_make(call, slot, member, now, &conn);

		if (full != NULL)
		{
			presence_cells_give_back(slot, meta);
			return full;
		}
		conn_at(conn)->next = member->conns;
		member->conns = conn;
		pg_atomic_fetch_add_u64(&slot->conns, 1);
	}
	else if (call->conn_len == 0 && pg_atomic_read_u64(&member->unnamed) == 0)
		pg_atomic_write_u64(&member->unnamed, 1); /* ages ago */
	if (!member->item.is_here)
		pg_atomic_write_u64(&member->expires_at, 0);
	(void) beat_locked(call, member, now + call->use->rule.ttl);
	if (!member->item.is_here || call->has_meta)
		presence_join(room, entry, call->has_meta ? &meta : NULL);
	presence_cells_give_back(slot, meta);
	LWLockAcquire(&presence_area->wheel_lock, LW_EXCLUSIVE);
	if (!member->item.taken && !wheel_has(&member->item.wheel))
		wheel_add(&presence_area->wheel, &presence_items, entry->number);
	LWLockRelease(&presence_area->wheel_lock);
	return NULL;
}

/*
 * presenceenter_put_off moves a deadline to a later time; it never moves back.
 */
static void
presenceenter_put_off(pg_atomic_uint64 *place, int64 deadline)
{
	uint64 old = pg_atomic_read_u64(place);

	while (old < (uint64) deadline && !pg_atomic_compare_exchange_u64(place, &old, (uint64) deadline))
		;
}

/*
 * beat_locked puts off the deadlines of a connection that is known, and of its member; false if it
 * is not known. The partition is locked, shared at least.
 */
static bool
beat_locked(const DcPresenceCall *call, DcPresenceMember *member, int64 deadline)
{
	if (call->conn_len == 0)
	{
		if (pg_atomic_read_u64(&member->unnamed) == 0)
			return false;
		presenceenter_put_off(&member->unnamed, deadline);
	}
	else
	{
		uint32 *link = find_conn(call, member);

		if (link == NULL)
			return false;
		presenceenter_put_off(&conn_at(*link)->expires_at, deadline);
	}
	presenceenter_put_off(&member->expires_at, deadline);
	return true;
}

/*
 * presence_beat notes that a connection is alive. An unknown one enters, and the result is false.
 * Errors: as of presence_enter.
 */
bool
presence_beat(DcPresenceCall *call)
{
	DcMapEntry *room;
	DcMapKey key;
	char bytes[DC_MAP_KEY_BYTES];
	LWLock *lock;
	DcMapEntry *entry;
	bool known;
	int64 members;

	if (call->use->rule.approx)
		return presence_approx_beat(call, &members);
	room = presence_room_find(call->use, &call->room);
	if (room != NULL)
	{
		presence_member_key(&key, room, call->member.data, call->member.len, bytes);
		lock = map_key_lock(presence_map, &key);
		LWLockAcquire(lock, LW_SHARED);
		entry = map_look(presence_map, &key);
		known = entry != NULL && ((DcPresenceItem *) map_payload(entry))->is_here &&
			beat_locked(call, map_payload(entry), moment_now().us + call->use->rule.ttl);
		LWLockRelease(lock);
		map_unpin(room);
		if (known)
			return true;
	}
	(void) presence_enter(call);
	return false;
}

/*
 * presence_exit lets a connection of a member go, or all, and returns how many members are there
 * then. Nobody can be taken out of a sketch: in an approximate presence the member goes when its
 * time is up.
 */
int64
presence_exit(DcPresenceCall *call)
{
	DcMapEntry *room;
	DcMapKey key;
	char bytes[DC_MAP_KEY_BYTES];
	LWLock *lock;
	DcMapEntry *entry;
	int64 members;

	presence_turn_if_late();
	presence_note_promotion();
	if (call->use->rule.approx)
		return presence_approx_members(call->use, &call->room);
	room = presence_room_find(call->use, &call->room);
	if (room == NULL)
		return 0;
	presence_member_key(&key, room, call->member.data, call->member.len, bytes);
	lock = map_key_lock(presence_map, &key);
	LWLockAcquire(lock, LW_EXCLUSIVE);
	entry = map_look(presence_map, &key);
	if (entry != NULL && ((DcPresenceItem *) map_payload(entry))->is_here)
		leave_or_shorten(call, room, entry, moment_now().us);
	members = pg_atomic_read_u32(&((DcPresenceRoom *) map_payload(room))->members);
	LWLockRelease(lock);
	map_unpin(room);
	return members;
}

/*
 * End one connection of a member, or all. If no other is left, the member leaves the room;
 * otherwise its deadline is that of the last one. The caller has locked the member's partition
 * exclusively. An entry that is just being taken out of the wheel is freed there (presenceturn.c).
 */
static void
leave_or_shorten(DcPresenceCall *call, DcMapEntry *room, DcMapEntry *entry, int64 now)
{
	DcPresenceMember *member = map_payload(entry);
	DcPresenceSlot *slot = slot_of_room(room);
	uint64 last;
	bool taken;

	if (call->conn_len == 0)
		pg_atomic_write_u64(&member->unnamed, 0);
	else
	{
		uint32 *link = find_conn(call, member);

		if (link != NULL)
		{
			uint32 cell = *link;

			*link = conn_at(cell)->next;
			conn_at(cell)->next = DC_MAP_NONE;
			presence_cells_give_back(slot, cell);
			pg_atomic_fetch_sub_u64(&slot->conns, 1);
		}
	}
	last = pg_atomic_read_u64(&member->unnamed);
	for (uint32 cell = member->conns; cell != DC_MAP_NONE; cell = conn_at(cell)->next)
		last = Max(last, pg_atomic_read_u64(&conn_at(cell)->expires_at));
	if (call->all_conns || last <= (uint64) now)
	{
		presence_leave(room, entry, false);
		LWLockAcquire(&presence_area->wheel_lock, LW_EXCLUSIVE);
		taken = member->item.taken;
		if (!taken && wheel_has(&member->item.wheel))
			wheel_remove(&presence_area->wheel, &presence_items, entry->number);
		LWLockRelease(&presence_area->wheel_lock);
		if (!taken)
			presence_free_member(entry);
	}
	else if (last < pg_atomic_read_u64(&member->expires_at))
	{
		LWLockAcquire(&presence_area->wheel_lock, LW_EXCLUSIVE);
		pg_atomic_write_u64(&member->expires_at, last);
		if (wheel_has(&member->item.wheel))
		{
			wheel_remove(&presence_area->wheel, &presence_items, entry->number);
			wheel_add(&presence_area->wheel, &presence_items, entry->number);
		}
		LWLockRelease(&presence_area->wheel_lock);
	}
}

/*
 * presenceenter_purge forgets a member's connections that have expired, and counts the others with
 * names.
 */
static void
presenceenter_purge(DcPresenceSlot *slot, DcPresenceMember *member, int64 now, int *left)
{
	uint32 *link = &member->conns;

	*left = 0;
	while (*link != DC_MAP_NONE)
	{
		uint32 cell = *link;
		DcPresenceConn *conn = conn_at(cell);

		if (pg_atomic_read_u64(&conn->expires_at) > (uint64) now)
		{
			(*left)++;
			link = &conn->next;
			continue;
		}
		*link = conn->next;
		conn->next = DC_MAP_NONE;
		presence_cells_give_back(slot, cell);
		pg_atomic_fetch_sub_u64(&slot->conns, 1);
	}
}
