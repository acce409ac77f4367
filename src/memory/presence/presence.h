/*
 * presence.h
 *		Presences: members of rooms, in shared memory.
 *
 * Copyright (c) 2026, the dcounter developers
 *
 * A presence is a row of dcounter.presence_rule (presencerule.c). Its rooms and their members are
 * entries of one map (map.h), and only there: nothing of this is transactional. The key of a room
 * is its name; that of a member has the number of the room's entry in it.
 *
 * A member has connections. One is without a name and in the member's entry, those with a name are
 * in cells of their own. It is in the room as long as one of them has sent a heartbeat within the
 * ttl: expires_at is the last moment of that. A member is in the room's tree (sorted.h) if, and
 * only if, it is counted in room->members: joining and leaving change both, so they alternate
 * (presenceenter.c).
 *
 * Access:
 *
 *	- The lock of a member's partition protects its entry: exclusively to join, leave, or change its
 *	  connections; shared to put off deadlines, which only grow under it and are atomic variables.
 *	  That is all that a heartbeat does.
 *	- The lock of a room's partition protects its entry: shared to find and pin it, exclusively to
 *	  make or free it.
 *	- A room's lock (presence_room_lock()) protects the room's tree, numbers and version, the
 *	  members' places in the tree, and their meta. The number of members and the version can be read
 *	  without it. Rooms share PRESENCE_ROOM_LOCKS of these locks, by the numbers of their entries.
 *	- area->wheel_lock protects the wheel (wheel.h), in which all members and rooms are. Members are
 *	  in it by expires_at. An empty room stays for a while, and is then due.
 *	- area->events_lock protects the lists of rooms that have something to report
 *	  (presenceevents.c).
 *	- area->turn_lock is held by the process that turns the wheel (presenceturn.c). An item that was
 *	  due has been taken out of the wheel, and no other process frees it (TAKEN): so the turner can
 *	  lock its partition afterwards.
 *	- Rooms of approximate presences have no members here, and other rules: presenceapprox.c.
 *	- area->lock protects the assignment of slots, and the rules in them.
 *	- All other fields are atomic variables.
 *
 * Order: turn_lock, a partition, a room's lock, then one of wheel_lock, events_lock, area->lock,
 * the map's mutex. No process locks two partitions, or two rooms, which may have one lock.
 *
 * A room's entry is pinned by each of its members' entries, and by calls about it. Rooms are freed
 * only under turn_lock, if they are empty, not pinned, and have nothing to report.
 *
 * A session copies a slot's generation, which changes when the slot is given to another rule. To
 * make a room, it is added to slot->rooms, then the generation is compared; a process that gives
 * the slot away changes the generation, then looks at slot->rooms. One of the two sees the other.
 */
#ifndef DC_PRESENCE_H
#define DC_PRESENCE_H

#include "fmgr.h"

#include "base/clock.h"
#include "base/compat.h"
#include "base/crcfile.h"
#include "base/map.h"
#include "base/rule.h"
#include "memory/presence/sorted.h"
#include "memory/presence/wheel.h"

#define PRESENCE_SLOTS 1024

/* Slots of rules that a role owns, in all databases, unless it is a superuser. */
#define PRESENCE_SLOTS_OF_ROLE (PRESENCE_SLOTS / 8)

#define PRESENCE_ROOM_LOCKS 128
#define PRESENCE_MAX_CONNS 64
#define PRESENCE_MAX_CONN_BYTES 128
#define PRESENCE_MAX_META_BYTES 1024

#define PRESENCE_TICK_US INT64CONST(100000)
#define PRESENCE_MIN_TTL_US (INT64CONST(1000000))
#define PRESENCE_MAX_TTL_US (INT64CONST(7) * USECS_PER_DAY)
#define PRESENCE_EMPTY_ROOM_US (INT64CONST(10) * USECS_PER_SEC)

/* The kinds of entries: the first byte of the key and of the payload. */
#define PRESENCE_ROOM 'R'
#define PRESENCE_MEMBER 'M'
#define PRESENCE_APPROX 'A' /* a room of an approximate presence */

/* The settings of a presence, as sessions use them. */
typedef struct DcPresenceRule
{
	int32 id;
	int32 version;
	int64 ttl;
	int64 events;	   /* us between events of a room; -1: none */
	int64 max_members; /* 0: half of the memory */
	bool approx;	   /* never changes */
} DcPresenceRule;

/* Of a room's or a member's entry, as far as it concerns the wheel. */
typedef struct DcPresenceItem
{
	uint8 kind;
	bool taken;	   /* by the turner; under wheel_lock */
	bool is_here;  /* member: counted in its room; under its partition's lock */
	bool is_dirty; /* room: has something to report; under its lock */
	DcWheelNode wheel;
} DcPresenceItem;

typedef struct DcPresenceRoom
{
	DcPresenceItem item;
	uint16 slot;
	bool is_told;			  /* is_dirty, and not in the list, as it is being reported; under its lock and events_lock */
	pg_atomic_uint32 members; /* or the estimate */
	uint32 root;			  /* of the tree, or the ring */
	uint32 joined;			  /* since the last event */
	uint32 left;
	uint32 dirty_next;
	uint32 dirty_prev;
	uint32 rounds; /* that it was empty, and had something to report; in the file: its place there */
	uint64 due;	   /* tick, under wheel_lock while it is in the wheel */
	pg_atomic_uint64 version;
} DcPresenceRoom;

typedef struct DcPresenceMember
{
	DcPresenceItem item;
	uint32 room;				 /* its entry */
	pg_atomic_uint64 expires_at; /* us, as DcMoment: of all connections */
	pg_atomic_uint64 unnamed;	 /* of the one without a name; 0: there is none */
	DcSortedNode sorted;
	uint32 conns; /* cells; DC_MAP_NONE: none */
	uint32 meta;  /* cells */
} DcPresenceMember;

#define PRESENCE_PAYLOAD Max(sizeof(DcPresenceRoom), sizeof(DcPresenceMember))

/* A connection with a name, in a cell. */
typedef struct DcPresenceConn
{
	uint32 next;
	uint32 len;
	pg_atomic_uint64 expires_at;
	char name[PRESENCE_MAX_CONN_BYTES];
} DcPresenceConn;

/* A part of a member's meta, a jsonb, in a cell. The first one has the length of all. */
typedef struct DcPresenceMeta
{
	uint32 next;
	uint32 len;
	char data[FLEXIBLE_ARRAY_MEMBER];
} DcPresenceMeta;

/* Whose a slot is. */
typedef struct DcPresenceOwner
{
	Oid catalog; /* dcounter.presence_rule: another one if the extension was created again, with the same ids */
	int32 id;
} DcPresenceOwner;

typedef struct DcPresenceSlot
{
	/* under area->lock, except for the generation */
	Oid database;
	DcPresenceOwner owner;
	Oid holder;		/* the rule's owner, of whose share the slot is; InvalidOid: of nobody's */
	int32 version;	/* of the rule that events is of */
	uint32 counted; /* partitions whose rooms have yet to be reported from scratch; also under the lock on the rule's events */
	pg_atomic_uint32 generation;

	pg_atomic_uint64 events; /* as in the rule, as int64 */
	pg_atomic_uint64 rooms;
	pg_atomic_uint64 members; /* entries of members; or the sum of the rooms' estimates */
	pg_atomic_uint64 conns;	  /* with names */
	pg_atomic_uint64 cells;
	pg_atomic_uint64 joined;
	pg_atomic_uint64 left;
	pg_atomic_uint64 expired; /* of these */
	pg_atomic_uint64 refused;
	pg_atomic_uint64 told; /* the epoch that listeners know of */
	/* under area->events_lock */
	uint32 dirty_first;
	uint32 dirty_last;
	uint64 ndirty;
	int64 events_at; /* DcMoment: not before */
} DcPresenceSlot;

typedef struct DcPresenceArea
{
	LWLock lock;
	LWLock turn_lock;
	LWLock wheel_lock;
	LWLock events_lock;
	LWLockPadded room_locks[PRESENCE_ROOM_LOCKS];
	int nslots;					 /* those beyond were never used */
	pg_atomic_uint32 is_standby; /* a promotion is still to come, or to be noticed */
	pg_atomic_uint64 epoch;		 /* when it changes, all that was known before is void */
	pg_atomic_uint64 looked;	 /* DcMoment: for databases that are gone */
	pg_atomic_uint64 version;	 /* the last one of any room */
	pg_atomic_uint64 turned;	 /* DcMoment up to which the wheel was turned */
	uint32 seed;				 /* of priorities in trees */
	uint64 salt;				 /* of members' hashes in sketches */
	DcWheel wheel;
	DcPresenceSlot slots[PRESENCE_SLOTS];
} DcPresenceArea;

/* A slot as a session knows it. */
typedef struct DcPresenceUse
{
	DcPresenceSlot *slot;
	uint32 generation;
	DcPresenceOwner owner;
	Oid holder; /* as in the slot */
	DcPresenceRule rule;
} DcPresenceUse;

/* A rule that a session has used. */
typedef struct DcPresenceKnown
{
	DcRuleKnown rule;
	DcPresenceUse use;
} DcPresenceKnown;

/* A row of dcounter.presence_rule. */
typedef struct DcPresenceRow
{
	DcRuleRow rule;
	int64 ttl;
	int64 events;	   /* -1: none */
	char *channel;	   /* or NULL */
	int64 max_members; /* 0: none is set */
	bool approx;
	int64 epoch; /* the last one that was reported; 0: none since it has events */
} DcPresenceRow;

/* Whom a call is about. The bytes are the caller's. */
typedef struct DcPresenceCall
{
	DcPresenceUse *use;
	DcKey room;
	DcKey member;
	const char *conn;
	uint32 conn_len; /* 0: the one without a name */
	bool all_conns;	 /* exit: whatever they are called */
	const char *meta;
	uint32 meta_len;
	bool has_meta;
} DcPresenceCall;

/* A rule that is gone. */
typedef struct DcPresenceGoneRule
{
	Oid database;
	Oid id;		  /* as in keys of the map */
	uint64 rooms; /* that were freed */
} DcPresenceGoneRule;

/* Rules that are gone, each at its slot; starts with zeros. */
typedef struct DcPresenceGone
{
	bool any;
	DcPresenceGoneRule rules[PRESENCE_SLOTS];
} DcPresenceGone;

extern DcPresenceArea *presence_area;
extern DcMap *presence_map;
extern const DcWheelItems presence_items;
extern const DcSortedItems presence_sorted;

/* presencearea.c */
extern void presence_start_empty(void);
extern void presence_check_memory(void);
extern void presence_note_promotion(void);
extern void presence_use_slot(DcPresenceUse *use);
extern bool presence_find_slot(DcPresenceUse *use);
extern DcPresenceSlot *presence_slot_of(const DcPresenceOwner *owner);
extern DcPresenceSlot *presence_slot_end(Oid database, const DcPresenceOwner *owner);
extern uint64 presence_tick(int64 us);
extern void presence_new_epoch(void);

/* presenceroom.c */
extern LWLock *presence_room_lock(uint32 room);
extern void presence_room_key(DcMapKey *key, const DcPresenceUse *use, Oid database, const DcKey *name, char *bytes);
extern DcMapEntry *presence_room_find(const DcPresenceUse *use, const DcKey *name);
extern DcMapEntry *presence_room_get(DcPresenceUse *use, const DcKey *name, const char **full);
extern DcMapEntry *presence_room_load(DcPresenceUse *use, Oid database, const DcKey *name, const char **full);
extern void presence_count(DcMapEntry *room, DcMapEntry *entry);
extern void presence_member_key(DcMapKey *key, const DcMapEntry *room, const char *member, uint32 len, char *bytes);
extern void presence_room_name(DcMapEntry *room, char *name, uint32 *len);
extern int64 presence_members(const DcPresenceUse *use, const DcKey *name);
extern void presence_join(DcMapEntry *room, DcMapEntry *entry, uint32 *meta);
extern void presence_leave(DcMapEntry *room, DcMapEntry *entry, bool expired);
extern void presence_free_member(DcMapEntry *entry);
extern void presence_cells_give_back(DcPresenceSlot *slot, uint32 first);
extern bool presence_cells_fit(const DcPresenceRule *rule, DcPresenceSlot *slot, uint64 more);

/* presenceenter.c */
extern int64 presence_enter(DcPresenceCall *call);
extern DcMapEntry *presence_member_load(DcMapEntry *room, const char *name, uint32 len, int64 expires_at);
extern bool presence_beat(DcPresenceCall *call);
extern int64 presence_exit(DcPresenceCall *call);
pg_noreturn extern void presence_full_error(const DcPresenceRule *rule, const char *full);

/* presenceapprox.c */
extern bool presence_approx_beat(DcPresenceCall *call, int64 *members);
extern int64 presence_approx_members(const DcPresenceUse *use, const DcKey *name);
extern int64 presence_approx_turn(DcMapEntry *entry, int64 now);
extern void presence_approx_clear(DcMapEntry *entry);
extern void presence_approx_save(DcCrcFile *file, DcMapEntry *entry);
extern bool presence_approx_load(DcCrcFile *file, DcMapEntry *entry, int64 shift, bool *full);

/* presenceturn.c */
extern bool presence_turn(uint32 steps, bool wait);
extern void presence_turn_if_late(void);
extern void presence_gone_add(DcPresenceGone *gone, Oid database, const DcPresenceOwner *rule);
extern void presence_forget(DcPresenceGone *gone);
extern bool presence_forget_databases(void);

/* presenceevents.c */
extern void presence_events_init(void);
extern void presence_note_change(DcMapEntry *room, uint32 joined, uint32 left);
extern void presence_clean(DcMapEntry *room);

/* presencerule.c */
extern DcRuleKind presence_rules;
extern DcPresenceKnown *presence_known(const char *name);
extern DcPresenceOwner presence_row_owner(int32 id);
extern Oid presence_row_holder(const DcPresenceRow *row);
extern DcPresenceRule presence_rule_of(const DcPresenceRow *row);
extern bool presence_any_rule(void);

/* presencefile.c */
extern Size presencefile_memory(void);
extern void presencefile_load(uint64 lsn);
extern void presencefile_save(int code, Datum arg);

#endif /* DC_PRESENCE_H */
