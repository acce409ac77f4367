/*
 * presenceevents.c
 *		Events about rooms that have changed, in the outbox and by NOTIFY. And the job that turns the wheel.
 *
 * Copyright (c) 2026, the dcounter developers
 *
 * They are conflated: a room that has changed is put into its rule's list, once; the job makes one
 * event of all that has happened to it since the last. It has the number of members, how many have
 * joined and left, and the version of all that: the number of members of a lower version is older.
 * A version is never used again, as it is counted over all rooms.
 *
 * A room that is being reported is not in the list, and is pinned (is_told). The reported changes
 * are subtracted when the transaction with the events has committed; if it, or the savepoint that
 * they are in, is rolled back, the room is put back. So each join and each leave is in one event,
 * or, if the server crashes, in none. Then there is a new epoch, and listeners are notified that
 * all they know is void. They are also notified when a presence has been created, as there may have
 * been another one of that name, and when it gets events again. Then rooms that have members are
 * reported, with all of these as joined (count_anew).
 *
 * One transaction at a time reports on a presence, under a lock on it; others leave it out.
 *
 * Owners take turns, and so do the rules of each: a step is limited in rooms and time, and begins
 * with the owner whose last turn was longest ago. So rooms that change all the time do not keep
 * others from being reported. An epoch is reported when all memory has been scanned for rooms of
 * the presence, which may take several steps.
 *
 * The slot has the epoch that was reported. As the slot may be given away when the presence has no
 * rooms, the epoch is written into the rule, too, if slots are getting scarce.
 *
 * In the worker, presences with a channel are reported in transactions of their own, after the
 * others: a commit with notifications takes a lock that all databases of the server share, and
 * fails if their queue is full. So events without a channel do not depend on it.
 *
 * A standby has no events of its own.
 */
#include "postgres.h"

#include "access/xact.h"
#include "catalog/pg_type.h"
#include "commands/async.h"
#include "miscadmin.h"
#include "storage/ipc.h"
#include "utils/acl.h"
#include "utils/builtins.h"
#include "utils/memutils.h"
#include "utils/numeric.h"

#include "base/guc.h"
#include "base/job.h"
#include "base/lockclass.h"
#include "base/xactrooms.h"
#include "core/table/subscription.h"
#include "core/table/tablejob.h"
#include "events/outbox/outbox.h"
#include "events/outbox/payload.h"
#include "memory/presence/presence.h"

/* ms after which a step of the worker begins nothing more; the next step continues. */
#define STEP_MS 500

/* Rooms and epochs that are reported in one transaction, and steps of the wheel at a time. */
#define STEP_ROOMS 500
#define STEP_EPOCHS 16
#define STEP_RULES 128 /* each is a lock until the end of the transaction */
#define TURN_STEPS 4096

/* Entries about rules that are gone, until all are forgotten. */
#define SERVED_SPARE 1024

/* Slots are scarce if more than this number are in use or wanted. */
#define SCARCE_SLOTS (PRESENCE_SLOTS / 2)

/* Payloads of this length or more cannot be sent (async.c). */
#define NOTIFY_LIMIT (BLCKSZ - NAMEDATALEN - 128)

/* A room that was reported in a transaction that has not ended. */
typedef struct Told
{
	DcMapEntry *room;
	uint32 joined;
	uint32 left;
	uint64 version;
	int nest; /* level of the transaction */
} Told;

/* A presence whose listeners were notified of the epoch. */
typedef struct ToldEpoch
{
	DcPresenceSlot *slot;
	uint32 generation;
	int32 version; /* of the rule */
	uint64 epoch;
	int nest;
} ToldEpoch;

/* The presences that a step is about. */
typedef enum Part
{
	PART_QUIET,
	PART_NOTIFIED,
	PART_ALL,
} Part;

/* A step, and all that this transaction has reported, in this step and earlier ones. */
typedef struct Step
{
	bool all_owners;
	Part part;
	bool has_notified; /* there are some with a channel */
	bool more;
	DcMoment end;
	bool is_scarce; /* there are few slots left */
	uint64 epoch;
	int ntold;
	Told told[STEP_ROOMS];
	int nepochs;
	ToldEpoch epochs[STEP_EPOCHS];
	int nrules;
} Step;

/* The step of this process; never freed. */
static Step *step_now = NULL;

/* The number of the last turn of a rule or an owner; never freed. */
typedef struct Served
{
	uint64 whose; /* hash key: an id, or an owner in the upper half */
	uint64 at;
} Served;

static HTAB *served = NULL;
static uint64 served_last = 0;

static void exit_callback(int code, Datum arg);
static bool presence_job(DcJobRun *run);
static bool tell_part(DcJobRun *run, Part part);
static void events_step(void *arg);
static int presenceevents_compare_turns(const ListCell *a, const ListCell *b);
static Served *served_of(uint64 whose);
static void tell_rule(Step *step, const DcPresenceRow *row);
static bool count_all_anew(const Step *step, const DcPresenceUse *use);
static void note_counted(const DcPresenceUse *use, uint32 partition);
static bool count_anew(DcMapEntry *entry, void *slot);
static bool keep_epoch(const DcPresenceRow *row, uint64 epoch);
static void note_known(const DcPresenceUse *use, uint64 epoch);
static bool epoch_is_told(const Step *step, const DcPresenceUse *use);
static void take_rooms(Step *step, DcPresenceSlot *slot, int64 every);
static void tell_room(const DcPresenceRow *row, Told *told);
static void tell_epoch(const DcPresenceRow *row, uint64 epoch);
static void presenceevents_tell(const DcPresenceRow *row, const char *type, text *key, Jsonb *payload);
static void settle_told(int nest, bool committed);
static void settle_told_room(const Told *told, bool committed);
static bool presenceevents_is_idle(void);
static void presenceevents_xact_callback(XactEvent event, void *arg);
static void presenceevents_subxact_callback(SubXactEvent event, SubTransactionId subid, SubTransactionId parent, void *arg);
static void unlink_dirty(DcMapEntry *entry);

/*
 * presence_events_init registers the job and the callbacks; called once.
 */
void
presence_events_init(void)
{
	xact_room_add(DC_XACT_PRESENCE, presenceevents_xact_callback, presenceevents_subxact_callback, presenceevents_is_idle);
	job_register((DcJob){.name = "presence", .interval = &dc_presence_interval, .run = presence_job, .is_needed = presence_any_rule});
}

/*
 * presence_note_change puts a room into the list of those that have something to report. The room
 * is locked.
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
	if (!room->item.is_dirty)
		return;
	LWLockAcquire(&presence_area->events_lock, LW_EXCLUSIVE);
	if (!room->is_told)
	{
		unlink_dirty(entry);
		room->item.is_dirty = false;
	}
	LWLockRelease(&presence_area->events_lock);
}

/*
 * Take a room out of its rule's list of changed rooms. The caller holds the lock on events.
 */
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
 * presence_job turns the wheel, and makes events of rooms that have changed; true if it has
 * yielded.
 */
static bool
presence_job(DcJobRun *run)
{
	static bool registered = false;
	bool more;

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
	if (!run->all_owners)
		return tell_part(run, PART_ALL);
	step_now->has_notified = true; /* if the first step fails */
	more = tell_part(run, PART_QUIET);
	if (step_now->has_notified)
		more |= tell_part(run, PART_NOTIFIED);
	return more;
}

/*
 * Make the events of a part of the presences, in steps. Return true if more is left to do at once.
 */
static bool
tell_part(DcJobRun *run, Part part)
{
	static DcSharedStep shared[PART_ALL + 1] = {0};
	bool more;

	do
	{
		step_now->all_owners = run->all_owners;
		step_now->part = part;
		step_now->more = false;
		/* the rest is reported in another transaction, if this one goes on */
		more = shared_step_run(&shared[part], run, events_step, step_now) && step_now->more && step_now->ntold + step_now->nepochs == 0;
	} while (more && !job_is_late(run));
	return more;
}

/*
 * Make events of what has changed in the presences, or in those of the current user, until the
 * step's time is up. The owners and rules that have waited for the longest come first. step->more
 * says that some are left.
 */
static void
events_step(void *arg)
{
	Step *step = arg;
	Oid owner = InvalidOid; /* of the rule that was looked at last */
	List *rows;
	ListCell *lc;

	if (extension_is_fed())
		return;
	if (step->all_owners)
		(void) presence_forget_databases();
	step->nrules = 0;
	step->has_notified = false;
	step->epoch = pg_atomic_read_u64(&presence_area->epoch);
	rows = rule_read_all(&presence_rules);
	/* it still has rules that are gone; a new table only lacks the order for the next step */
	if (served != NULL && hash_get_num_entries(served) > 2 * list_length(rows) + SERVED_SPARE)
	{
		hash_destroy(served);
		served = NULL;
	}
	list_sort(rows, presenceevents_compare_turns);
	step->end = step->all_owners ? moment_in(STEP_MS) : DC_NEVER;
	step->is_scarce = Max(list_length(rows), presence_area->nslots) > SCARCE_SLOTS;
	foreach(lc, rows)
	{
		const DcPresenceRow *row = lfirst(lc);

		CHECK_FOR_INTERRUPTS();
		if (step->ntold == STEP_ROOMS || moment_is_reached(step->end))
		{
			/* the owner that has used that up comes last in the next step, behind those that had no turn */
			if (OidIsValid(owner))
				served_of((uint64) owner << 32)->at = ++served_last;
			step->more = step->has_notified = true; /* the rest was not looked at */
			break;
		}
		owner = row->rule.owner;
		step->has_notified |= row->channel != NULL;
		if (row->events < 0 || (step->part != PART_ALL && (step->part == PART_NOTIFIED) != (row->channel != NULL)) || !(step->all_owners || has_privs_of_role(GetUserId(), row->rule.owner)))
			continue;
		if (step->all_owners)
			table_jobs_know_owner(row->rule.owner);
		tell_rule(step, row);
	}
}

/*
 * presenceevents_compare_turns puts rules in the order of their turns.
 */
static int
presenceevents_compare_turns(const ListCell *a, const ListCell *b)
{
	const DcPresenceRow *left = lfirst(a);
	const DcPresenceRow *right = lfirst(b);
	uint64 left_at = served_of((uint64) left->rule.owner << 32)->at;
	uint64 right_at = served_of((uint64) right->rule.owner << 32)->at;

	CHECK_FOR_INTERRUPTS(); /* of a long qsort() */
	if (left_at == right_at)
	{
		left_at = served_of(left->rule.id)->at;
		right_at = served_of(right->rule.id)->at;
	}
	if (left_at == right_at)
		return left->rule.id - right->rule.id;
	return left_at < right_at ? -1 : 1;
}

/*
 * Return the entry that says when an owner (shifted by 32 bits) or a rule has had its last turn; a
 * new one has had none.
 */
static Served *
served_of(uint64 whose)
{
	HASHCTL ctl = {.keysize = sizeof(uint64), .entrysize = sizeof(Served), .hcxt = TopMemoryContext};
	Served *entry;
	bool found;

	if (served == NULL)
		served = hash_create("dcounter turns of presences", 64, &ctl, HASH_ELEM | HASH_BLOBS | HASH_CONTEXT);
	entry = hash_search(served, &whose, HASH_ENTER, &found);
	entry->at = found ? entry->at : 0;
	return entry;
}

/*
 * Make events of a rule's changed rooms, and of a new epoch, as far as the step has room for them.
 * A rule that another transaction is working on is left out.
 */
static void
tell_rule(Step *step, const DcPresenceRow *row)
{
	DcPresenceUse use = {.owner = presence_row_owner(row->rule.id), .holder = presence_row_holder(row), .rule = presence_rule_of(row)};
	int first = step->ntold;
	bool is_of_epoch = (uint64) row->epoch == step->epoch;
	bool keeps = step->is_scarce && !is_of_epoch;
	bool is_new;
	bool is_reset;

	if (!presence_find_slot(&use)) /* then it has no room either */
		return;
	if (use.slot->ndirty == 0 && epoch_is_told(step, &use) && !keeps) /* later changes are reported the next time */
		return;
	is_new = is_of_epoch && pg_atomic_read_u64(&use.slot->told) == 0;
	if (step->nrules == STEP_RULES || (step->nepochs == STEP_EPOCHS && !is_new && !epoch_is_told(step, &use)))
	{
		step->more = true;
		return;
	}
	if (!advisory_lock(PRESENCE_LOCK_CLASS, row->rule.id, 1, ExclusiveLock, false))
		return;
	step->nrules++;
	served_of(row->rule.id)->at = served_of((uint64) row->rule.owner << 32)->at = ++served_last;
	if (is_new)
		note_known(&use, step->epoch); /* listeners know of it by the rule */
	if (!epoch_is_told(step, &use))
	{
		is_reset = pg_atomic_read_u64(&use.slot->told) != 0 || !is_of_epoch;
		if (step->nepochs == STEP_EPOCHS || (is_reset && !count_all_anew(step, &use)))
		{
			step->more = true;
			return;
		}
		if (keeps && !keep_epoch(row, step->epoch))
			return;
		xact_mark(DC_XACT_PRESENCE);
		step->epochs[step->nepochs++] = (ToldEpoch){use.slot, use.generation, row->rule.version, step->epoch, GetCurrentTransactionNestLevel()};
		if (is_reset)
		{
			tell_epoch(row, step->epoch);
			note_counted(&use, 0);
		}
	}
	else if (keeps)
		(void) keep_epoch(row, step->epoch); /* if it fails, the next step tries again */
	take_rooms(step, use.slot, row->events);
	for (int i = first; i < step->ntold; i++)
		tell_room(row, &step->told[i]);
}

/*
 * Make all rooms of a slot report as if they had been empty. Return false if the step's time is up,
 * and the next one has to continue. Meanwhile no process reports on a room of the slot, as its
 * listeners have yet to be notified of the epoch.
 */
static bool
count_all_anew(const Step *step, const DcPresenceUse *use)
{
	uint32 partition = pg_atomic_read_u64(&use->slot->rooms) != 0 ? use->slot->counted : DC_MAP_PARTITIONS;

	for (bool first = true; partition < DC_MAP_PARTITIONS && (first || !moment_is_reached(step->end)); first = false)
	{
		CHECK_FOR_INTERRUPTS();
		map_sweep_partition(presence_map, partition++, count_anew, use->slot);
	}
	note_counted(use, partition);
	return partition == DC_MAP_PARTITIONS;
}

/*
 * Note in a slot up to which partition its rooms are recounted, unless the slot was given away, or
 * its rule was altered.
 */
static void
note_counted(const DcPresenceUse *use, uint32 partition)
{
	LWLockAcquire(&presence_area->lock, LW_EXCLUSIVE);
	if (pg_atomic_read_u32(&use->slot->generation) == use->generation && use->slot->version == use->rule.version)
		use->slot->counted = partition;
	LWLockRelease(&presence_area->lock);
}

/*
 * Make a room of a slot report as if it had been empty. Doing so again changes nothing.
 */
static bool
count_anew(DcMapEntry *entry, void *slot)
{
	DcPresenceRoom *room = map_payload(entry);

	if (room->item.kind == PRESENCE_MEMBER || &presence_area->slots[room->slot] != slot)
		return false;
	LWLockAcquire(presence_room_lock(entry->number), LW_EXCLUSIVE);
	room->joined = room->left + pg_atomic_read_u32(&room->members);
	if (room->joined != 0)
	{
		/* it may have been reported */
		pg_atomic_write_u64(&room->version, pg_atomic_add_fetch_u64(&presence_area->version, 1));
		presence_note_change(entry, 0, 0);
	}
	LWLockRelease(presence_room_lock(entry->number));
	return false;
}

/*
 * keep_epoch writes into the rule that its listeners know of an epoch. False if somebody is
 * changing the rule, or has, since it was read.
 */
static bool
keep_epoch(const DcPresenceRow *row, uint64 epoch)
{
	DcPresenceRow *now;

	if (!advisory_lock(PRESENCE_LOCK_CLASS, row->rule.id, 0, ExclusiveLock, false))
		return false;
	now = rule_read(&presence_rules, row->rule.name);
	if (now == NULL || !ItemPointerEquals(&now->rule.tid, (ItemPointer) &row->rule.tid))
		return false;
	now->epoch = (int64) epoch;
	rule_update(&presence_rules, &now->rule);
	return true;
}

/*
 * note_known notes in a slot that listeners know of an epoch, as the rule says that was committed,
 * unless the slot was given away.
 */
static void
note_known(const DcPresenceUse *use, uint64 epoch)
{
	LWLockAcquire(&presence_area->lock, LW_EXCLUSIVE);
	if (pg_atomic_read_u32(&use->slot->generation) == use->generation)
		pg_atomic_write_u64(&use->slot->told, epoch);
	LWLockRelease(&presence_area->lock);
}

/*
 * Return true if listeners of the rule have been notified of the step's epoch, by this transaction
 * or an earlier one.
 */
static bool
epoch_is_told(const Step *step, const DcPresenceUse *use)
{
	for (int i = 0; i < step->nepochs; i++)
	{
		if (step->epochs[i].slot == use->slot && step->epochs[i].generation == use->generation &&
			step->epochs[i].version == use->rule.version && step->epochs[i].epoch == step->epoch)
			return true;
	}
	return pg_atomic_read_u64(&use->slot->told) == step->epoch;
}

/*
 * take_rooms takes, and pins, the rooms of a rule that are to be reported next, if it is time.
 * Rooms that change now come again at the end of the list.
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

			map_pin(entry); /* it is not freed while it is in the list */
			unlink_dirty(entry);
			((DcPresenceRoom *) map_payload(entry))->is_told = true;
			xact_mark(DC_XACT_PRESENCE);
			step->told[step->ntold++] = (Told){.room = entry, .nest = GetCurrentTransactionNestLevel()};
			number = slot->dirty_first;
		}
		if (number != DC_MAP_NONE)
			step->more = true;
		else
			slot->events_at = now + every;
	}
	LWLockRelease(&presence_area->events_lock);
}

/*
 * Make the event of a room's changes, and note in `told` which changes it covers.
 */
static void
tell_room(const DcPresenceRow *row, Told *told)
{
	DcPresenceRoom *room = map_payload(told->room);
	char name[DC_MAP_KEY_BYTES];
	uint32 len;
	int64 count;
	DcJsonWriter writer;

	presence_room_name(told->room, name, &len);
	LWLockAcquire(presence_room_lock(told->room->number), LW_SHARED);
	told->joined = room->joined;
	told->left = room->left;
	told->version = pg_atomic_read_u64(&room->version);
	count = pg_atomic_read_u32(&room->members);
	LWLockRelease(presence_room_lock(told->room->number));
	json_begin(&writer);
	json_add_string(&writer, "presence", row->rule.name, strlen(row->rule.name));
	json_add_string(&writer, "room", name, len);
	json_add_int(&writer, "count", count);
	if (!row->approx) /* an approximate one does not know these */
	{
		json_add_int(&writer, "joined", told->joined);
		json_add_int(&writer, "left", told->left);
	}
	json_add_int(&writer, "epoch", (int64) pg_atomic_read_u64(&presence_area->epoch));
	json_add_int(&writer, "version", (int64) told->version);
	presenceevents_tell(row, "presence.changed", cstring_to_text_with_len(name, len), json_end(&writer));
}

/*
 * Make the event that all a listener knows of the presence is void.
 */
static void
tell_epoch(const DcPresenceRow *row, uint64 epoch)
{
	DcJsonWriter writer;

	json_begin(&writer);
	json_add_string(&writer, "presence", row->rule.name, strlen(row->rule.name));
	json_add_int(&writer, "epoch", (int64) epoch);
	presenceevents_tell(row, "presence.reset", NULL, json_end(&writer));
}

/*
 * presenceevents_tell queues an event of a presence, and the notification.
 */
static void
presenceevents_tell(const DcPresenceRow *row, const char *type, text *key, Jsonb *payload)
{
	DcEvent event = {0};

	event_id(&event.id);
	event.topic = cstring_to_text(row->rule.name);
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
 * settle_told settles the rooms and epochs reported at this nesting level or deeper: it subtracts
 * the reported changes, or puts the rooms back into the list. The pins are given back.
 */
static void
settle_told(int nest, bool committed)
{
	Step *step = step_now;

	if (step == NULL)
		return;
	while (step->ntold > 0 && step->told[step->ntold - 1].nest >= nest)
		settle_told_room(&step->told[--step->ntold], committed);
	while (step->nepochs > 0 && step->epochs[step->nepochs - 1].nest >= nest)
	{
		const ToldEpoch *told = &step->epochs[--step->nepochs];

		LWLockAcquire(&presence_area->lock, LW_SHARED);
		/*
		 * the last one comes first; a rule that was altered in the meantime may have been without
		 * events
		 */
		if (committed && pg_atomic_read_u32(&told->slot->generation) == told->generation &&
			told->slot->version == told->version && pg_atomic_read_u64(&told->slot->told) < told->epoch)
			pg_atomic_write_u64(&told->slot->told, told->epoch);
		LWLockRelease(&presence_area->lock);
	}
}

/*
 * settle_told_room settles a room. One that has changed since has something to report again.
 */
static void
settle_told_room(const Told *told, bool committed)
{
	DcPresenceRoom *room = map_payload(told->room);
	LWLock *lock = presence_room_lock(told->room->number);
	uint32 joined;
	uint32 left;

	LWLockAcquire(lock, LW_EXCLUSIVE);
	/* less than was reported, if the rule was dropped */
	joined = room->joined - (committed ? Min(told->joined, room->joined) : 0);
	left = room->left - (committed ? Min(told->left, room->left) : 0);
	room->joined = room->left = 0;
	room->item.is_dirty = room->is_told = false;
	if (!committed || pg_atomic_read_u64(&room->version) != told->version)
		presence_note_change(told->room, joined, left);
	LWLockRelease(lock);
	map_unpin(told->room);
}

/*
 * Return true if the transaction has made no events of presences.
 */
static bool
presenceevents_is_idle(void)
{
	return step_now == NULL || step_now->ntold + step_now->nepochs == 0;
}

/*
 * Settle the rooms and epochs that the transaction has made events of: as notified if it has
 * committed, as still to do if not. Such a transaction cannot be prepared, as nobody would be left
 * to settle them.
 */
static void
presenceevents_xact_callback(XactEvent event, void *arg)
{
	switch (event)
	{
		case XACT_EVENT_PRE_PREPARE:
			if (step_now != NULL && step_now->ntold + step_now->nepochs > 0)
				ereport(ERROR,
						(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
						 errmsg("cannot PREPARE a transaction that has written events of a presence")));
			break;
		case XACT_EVENT_COMMIT:
			settle_told(0, true);
			break;
		case XACT_EVENT_ABORT:
			settle_told(0, false);
			break;
		default:
			break;
	}
}

/*
 * Hand the events of a subtransaction to its parent, or put their rooms back into the list. The
 * latest come last, so those of the subtransaction are at the end.
 */
static void
presenceevents_subxact_callback(SubXactEvent event, SubTransactionId subid, SubTransactionId parent, void *arg)
{
	int nest = GetCurrentTransactionNestLevel();

	if (step_now == NULL)
		return;
	if (event == SUBXACT_EVENT_ABORT_SUB)
		settle_told(nest, false);
	else if (event == SUBXACT_EVENT_COMMIT_SUB)
	{
		for (int i = step_now->ntold - 1; i >= 0 && step_now->told[i].nest >= nest; i--)
			step_now->told[i].nest = nest - 1;
		for (int i = step_now->nepochs - 1; i >= 0 && step_now->epochs[i].nest >= nest; i--)
			step_now->epochs[i].nest = nest - 1;
	}
}

/*
 * exit_callback is for a process that ends within a step.
 */
static void
exit_callback(int code, Datum arg)
{
	LWLockReleaseAll(); /* an error may have been raised under one */
	settle_told(0, false);
}
