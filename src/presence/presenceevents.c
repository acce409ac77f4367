/*
 * presenceevents.c
 *		Events: rooms that have changed are told of, in the outbox and by NOTIFY. And the job that turns the wheel.
 *
 * They are conflated: a room that has changed is put into its rule's list, once; the job makes one event of all that
 * has happened to it since the last. It has the number of members, how many have joined and left, and the
 * version of all that: the number of members of a lower version is older. A version is never used
 * again, as it is counted over all rooms.
 *
 * A room that is being told of is not in the list, and pinned (is_told). What was told is taken off when the transaction with the
 * events has committed; one that fails puts it back. So each join and each leave is told of once, or, if the
 * server ends in a crash, in no event; then there is another epoch, of which listeners are told: all they know
 * is void.
 *
 * A standby has no events of its own.
 */
#include "postgres.h"

#include "access/xact.h"
#include "base/guc.h"
#include "base/job.h"
#include "catalog/pg_type.h"
#include "commands/async.h"
#include "miscadmin.h"
#include "outbox/outbox.h"
#include "outbox/payload.h"
#include "presence/presence.h"
#include "storage/ipc.h"
#include "table/subscription.h"
#include "utils/acl.h"
#include "utils/builtins.h"
#include "utils/memutils.h"
#include "utils/numeric.h"

/* Rooms that are told of in one transaction, and steps of the wheel at a time. */
#define STEP_ROOMS 500
#define TURN_STEPS 4096

/* Payloads as long as that cannot be sent (async.c). */
#define NOTIFY_LIMIT (BLCKSZ - NAMEDATALEN - 128)

/* A room that was told of in a transaction that is not over. */
typedef struct Told
{
	DcMapEntry *room;
	uint32 joined;
	uint32 left;
	uint64 version;
} Told;

/* A step. */
typedef struct Step
{
	bool all_owners;
	bool more;
	int ntold;
	Told told[STEP_ROOMS];
	int nslots;
	DcPresenceSlot *slots[PRESENCE_SLOTS]; /* whose listeners were told of the epoch, */
	uint64 epoch;
} Step;

/* The one of this process; for good. */
static Step *step_now = NULL;

static void exit_callback(int code, Datum arg);
static bool presence_job(DcJobRun *run);
static void events_step(void *arg);
static void tell_rule(Step *step, const DcPresenceRow *row);
static void take_rooms(Step *step, DcPresenceSlot *slot, int64 every);
static void tell_room(const DcPresenceRow *row, Told *told);
static void tell_epoch(const DcPresenceRow *row, uint64 epoch);
static void tell(const DcPresenceRow *row, const char *type, text *key, Jsonb *payload);
static void settle_told(Step *step, bool committed);
static void unlink_dirty(DcMapEntry *entry);

/*
 * presence_events_init registers the job; called once.
 */
void
presence_events_init(void)
{
	job_register((DcJob){.name = "presence", .interval = &dc_presence_interval, .run = presence_job, .is_needed = presence_any_rule});
}

/*
 * presence_note_change puts a room into the list of those that have something to tell. The room is locked.
 */
void
presence_note_change(DcMapEntry *entry, uint32 joined, uint32 left)
{
	DcPresenceRoom *room = map_payload(entry);
	DcPresenceSlot *slot = &presence_area->slots[room->slot];

	if ((int64) pg_atomic_read_u64(&slot->events) < 0 || pg_atomic_read_u32(&presence_area->is_standby) != 0)
		return;
	room->joined += joined;
	room->left += left;
	if (room->item.is_dirty)
		return;
	LWLockAcquire(&presence_area->events_lock, LW_EXCLUSIVE);
	room->item.is_dirty = true;
	room->dirty_next = DC_MAP_NONE;
	room->dirty_prev = slot->dirty_last;
	if (slot->dirty_last != DC_MAP_NONE)
		((DcPresenceRoom *) map_payload(map_entry(presence_map, slot->dirty_last)))->dirty_next = entry->number;
	else
		slot->dirty_first = entry->number;
	slot->dirty_last = entry->number;
	slot->ndirty++;
	LWLockRelease(&presence_area->events_lock);
}

/*
 * presence_clean takes a room out of that list, if it is there. The room is locked.
 */
void
presence_clean(DcMapEntry *entry)
{
	DcPresenceRoom *room = map_payload(entry);

	room->joined = room->left = 0;
	if (!room->item.is_dirty || room->is_told)
		return;
	LWLockAcquire(&presence_area->events_lock, LW_EXCLUSIVE);
	unlink_dirty(entry);
	room->item.is_dirty = false;
	LWLockRelease(&presence_area->events_lock);
}

static void
unlink_dirty(DcMapEntry *entry)
{
	DcPresenceRoom *room = map_payload(entry);
	DcPresenceSlot *slot = &presence_area->slots[room->slot];

	if (room->dirty_prev != DC_MAP_NONE)
		((DcPresenceRoom *) map_payload(map_entry(presence_map, room->dirty_prev)))->dirty_next = room->dirty_next;
	else
		slot->dirty_first = room->dirty_next;
	if (room->dirty_next != DC_MAP_NONE)
		((DcPresenceRoom *) map_payload(map_entry(presence_map, room->dirty_next)))->dirty_prev = room->dirty_prev;
	else
		slot->dirty_last = room->dirty_prev;
	room->dirty_next = room->dirty_prev = DC_MAP_NONE;
	slot->ndirty--;
}

/*
 * presence_job turns the wheel, and tells of rooms that have changed; true if it has yielded.
 */
static bool
presence_job(DcJobRun *run)
{
	static bool registered = false;
	bool more = false;

	if (presence_area == NULL)
		return false;
	presence_note_promotion();
	while (presence_turn(TURN_STEPS, true))
	{
		CHECK_FOR_INTERRUPTS();
		if (job_is_late(run))
			return true;
	}
	if (pg_atomic_read_u32(&presence_area->is_standby) != 0)
		return false;
	if (!registered)
		before_shmem_exit(exit_callback, (Datum) 0);
	registered = true;
	if (step_now == NULL)
		step_now = MemoryContextAllocZero(TopMemoryContext, sizeof(Step));
	do
	{
		volatile bool done = false;

		step_now->all_owners = run->all_owners;
		step_now->more = false;
		PG_TRY();
		{
			done = run->step(run, events_step, step_now, InvalidOid);
		}
		PG_FINALLY();
		{
			settle_told(step_now, done);
		}
		PG_END_TRY();
		more = done && step_now->more;
	} while (more && !job_is_late(run));
	return more;
}

static void
events_step(void *arg)
{
	Step *step = arg;
	List *rows;
	ListCell *lc;

	if (extension_is_fed())
		return;
	step->epoch = pg_atomic_read_u64(&presence_area->epoch);
	rows = presence_row_read_all();
	foreach(lc, rows)
	{
		const DcPresenceRow *row = lfirst(lc);

		if (row->events >= 0 && (step->all_owners || has_privs_of_role(GetUserId(), row->owner)))
			tell_rule(step, row);
	}
}

static void
tell_rule(Step *step, const DcPresenceRow *row)
{
	DcPresenceUse use = {.owner = presence_row_owner(row->id), .rule = presence_rule_of(row)};
	int first = step->ntold;
	uint64 told;

	presence_use_slot(&use);
	told = pg_atomic_read_u64(&use.slot->told);
	if (told != step->epoch && step->nslots < PRESENCE_SLOTS)
	{
		step->slots[step->nslots++] = use.slot;
		/* a rule that is newer than the epoch has told nobody anything */
		if (told != 0 || row->created_at < (TimestampTz) pg_atomic_read_u64(&presence_area->began_at))
			tell_epoch(row, step->epoch);
	}
	take_rooms(step, use.slot, row->events);
	for (int i = first; i < step->ntold; i++)
		tell_room(row, &step->told[i]);
}

/*
 * take_rooms takes, and pins, the rooms of a rule that are told of next, if it is time. Rooms that
 * change now come again at the end of the list.
 */
static void
take_rooms(Step *step, DcPresenceSlot *slot, int64 every)
{
	int64 now = moment_now().us;
	uint32 number;

	LWLockAcquire(&presence_area->events_lock, LW_EXCLUSIVE);
	if (now >= slot->events_at)
	{
		number = slot->dirty_first;
		while (number != DC_MAP_NONE && step->ntold < STEP_ROOMS)
		{
			DcMapEntry *entry = map_entry(presence_map, number);

			map_pin(entry); /* it does not go while it is in the list */
			unlink_dirty(entry);
			((DcPresenceRoom *) map_payload(entry))->is_told = true;
			step->told[step->ntold++] = (Told){.room = entry};
			number = slot->dirty_first;
		}
		if (number != DC_MAP_NONE)
			step->more = true;
		else
			slot->events_at = now + every;
	}
	LWLockRelease(&presence_area->events_lock);
}

static void
add_number(DcJsonWriter *writer, int64 value)
{
	json_add_numeric(writer, int64_to_numeric(value));
}

static void
tell_room(const DcPresenceRow *row, Told *told)
{
	/* in the order of jsonb; an approximate one does not know who has joined and left */
	static const char *const members[] = {"left", "room", "count", "epoch", "joined", "version", "presence"};
	static const char *const approx_members[] = {"room", "count", "epoch", "version", "presence"};
	static DcJsonKeys keys = {0};
	static DcJsonKeys approx_keys = {0};
	DcPresenceRoom *room = map_payload(told->room);
	char name[DC_MAP_KEY_BYTES];
	uint32 len;
	int64 count;
	StringInfoData buf;
	DcJsonWriter writer;

	presence_room_name(told->room, name, &len);
	LWLockAcquire(presence_room_lock(told->room->number), LW_SHARED);
	told->joined = room->joined;
	told->left = room->left;
	told->version = pg_atomic_read_u64(&room->version);
	count = pg_atomic_read_u32(&room->members);
	LWLockRelease(presence_room_lock(told->room->number));
	json_keys_keep(&keys, members, lengthof(members));
	json_keys_keep(&approx_keys, approx_members, lengthof(approx_members));
	json_begin(&buf);
	json_begin_object(&writer, &buf, row->approx ? &approx_keys : &keys);
	if (!row->approx)
		add_number(&writer, told->left);
	json_add_string(&writer, name, len);
	add_number(&writer, count);
	add_number(&writer, (int64) pg_atomic_read_u64(&presence_area->epoch));
	if (!row->approx)
		add_number(&writer, told->joined);
	add_number(&writer, (int64) told->version);
	json_add_string(&writer, row->name, strlen(row->name));
	tell(row, "presence.changed", cstring_to_text_with_len(name, len), json_end(&buf));
}

static void
tell_epoch(const DcPresenceRow *row, uint64 epoch)
{
	static const char *const members[] = {"epoch", "presence"};
	static DcJsonKeys keys = {0};
	StringInfoData buf;
	DcJsonWriter writer;

	json_keys_keep(&keys, members, lengthof(members));
	json_begin(&buf);
	json_begin_object(&writer, &buf, &keys);
	add_number(&writer, (int64) epoch);
	json_add_string(&writer, row->name, strlen(row->name));
	tell(row, "presence.reset", NULL, json_end(&buf));
}

/*
 * tell queues an event of a presence, and the notification.
 */
static void
tell(const DcPresenceRow *row, const char *type, text *key, Jsonb *payload)
{
	DcEvent event = {0};

	event_id(&event.id);
	event.topic = cstring_to_text(row->name);
	event.key = key;
	event.type = cstring_to_text(type);
	event.payload = (struct varlena *) payload;
	outbox_append(&event, "dc_maintain()");
	if (row->channel != NULL)
	{
		char *message = JsonbToCString(NULL, &payload->root, VARSIZE(payload));

		if (strlen(message) < NOTIFY_LIMIT)
			Async_Notify(row->channel, message);
	}
}

/*
 * settle_told takes off what was told of, if that has committed, and gives the pins back. A room that has changed since
 * has something to tell again.
 */
static void
settle_told(Step *step, bool committed)
{
	for (int i = 0; i < step->ntold; i++)
	{
		const Told *told = &step->told[i];
		DcPresenceRoom *room = map_payload(told->room);
		LWLock *lock = presence_room_lock(told->room->number);
		uint32 joined;
		uint32 left;

		LWLockAcquire(lock, LW_EXCLUSIVE);
		/* less than what was told, if the rule was dropped */
		joined = room->joined - (committed ? Min(told->joined, room->joined) : 0);
		left = room->left - (committed ? Min(told->left, room->left) : 0);
		room->joined = room->left = 0;
		room->item.is_dirty = room->is_told = false;
		if (!committed || pg_atomic_read_u64(&room->version) != told->version)
			presence_note_change(told->room, joined, left);
		LWLockRelease(lock);
		map_unpin(told->room);
	}
	for (int i = 0; committed && i < step->nslots; i++)
		pg_atomic_write_u64(&step->slots[i]->told, step->epoch);
	step->ntold = step->nslots = 0;
}

/*
 * exit_callback is for a process that ends within a step.
 */
static void
exit_callback(int code, Datum arg)
{
	if (step_now != NULL)
		settle_told(step_now, false);
}
