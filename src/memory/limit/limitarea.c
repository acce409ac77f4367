/*
 * limitarea.c
 *		The shared memory of limits: slots of rules, entries of keys, losses.
 *
 * Copyright (c) 2026, the dcounter developers
 *
 * limiter.h says which lock protects what.
 *
 * A loss is a moment before which nothing is known of what was used: the server came up after a
 * crash, or from a copy, or the file of the last shutdown cannot be used (limitfile.c); or a
 * standby was promoted, which has counted only its own calls. By the rule's choice, keys are new
 * then, or begin with a budget that was used up at that moment. Entries from before a loss, as a
 * promoted standby has them, count as such keys, too. A rule that was created later, which its slot
 * knows, has lost nothing.
 *
 * A server that starts for the first time with limits has lost nothing.
 */
#include "postgres.h"

#include <unistd.h>

#include "access/xlog.h"
#include "miscadmin.h"
#include "storage/ipc.h"

#include "base/crcfile.h"
#include "base/guc.h"
#include "base/shmem.h"
#include "memory/limit/limiter.h"
#include "memory/limit/limitinit.h"

DcLimitArea *limit_area = NULL;
DcMap *limit_map = NULL;

static Size map_bytes = 0;

static Size limit_map_size(void);
static void limitarea_area_init(void *new_area);
static void limit_map_init(void *new_map);
static DcLimitSlot *limitarea_slot_make(Oid database, const DcLimitOwner *owner, Oid holder);
static void limitarea_slot_begin(DcLimitSlot *slot, Oid database, const DcLimitOwner *owner);
static bool limitarea_share_is_used(Oid holder);
static DcLimitSlot *limitarea_take_unused(DcLimitSlot *slot);
static DcLimitSlot *limitarea_unused_of(Oid holder);
static DcLimitSlot *limitarea_slot_find(Oid database, const DcLimitOwner *owner);
static bool changes_keys(const DcLimitSlot *slot, const DcLimitUse *use);
static void put_rule(DcLimitSlot *slot, const DcLimitUse *use);
static void copy_slot(DcLimitUse *use, DcLimitSlot *slot);
static void limitarea_install(DcLimitSlot *slot, DcLimitUse *use);

/*
 * limiter_init sets up the room, and asks for the shared memory
 * if the library is being preloaded; called once.
 */
void
limiter_init(bool preloading)
{
	rule_kind_add(&limit_rules, preloading);
	if (!preloading)
		return;
	shmem_add("dcounter limits", sizeof(DcLimitArea), (void **) &limit_area, limitarea_area_init);
	shmem_add_raw("dcounter limits map", limit_map_size, (void **) &limit_map, limit_map_init);
}

/*
 * limit_map_size is called once, when the server starts. What the file has must fit.
 */
static Size
limit_map_size(void)
{
	map_bytes = map_size((Size) dc_limit_size * 1024 + 4 * limitfile_size());
	return map_bytes;
}

/*
 * Initialize the shared memory of limits: no slots in use, no losses. Generations begin with 1, so
 * a session's 0 is never current.
 */
static void
limitarea_area_init(void *new_area)
{
	DcLimitArea *area = new_area;

	shmem_init_lock(&area->lock);
	shmem_init_lock(&area->sweep);
	pg_atomic_init_u32(&area->is_standby, 0);
	pg_atomic_init_u32(&area->losses, 0);
	pg_atomic_init_u64(&area->lost_at, 0);
	pg_atomic_init_u64(&area->next_lease, 1);
	pg_atomic_init_u32(&area->hand, 0);
	pg_atomic_init_u64(&area->earliest, (uint64) LIMIT_NEVER);
	pg_atomic_init_u64(&area->sweeps, 0);
	pg_atomic_init_u64(&area->next_sweep, 0);
	pg_atomic_init_u64(&area->looked, 0);
	pg_atomic_init_u64(&area->ad_hoc_cells, 0);
	for (int i = 0; i < LIMIT_SLOTS; i++)
	{
		DcLimitSlot *slot = &area->slots[i];

		shmem_init_lock(&slot->install);
		pg_atomic_init_u32(&slot->generation, 1);
		pg_atomic_init_u64(&slot->keys, 0);
		pg_atomic_init_u64(&slot->cells, 0);
		pg_atomic_init_u64(&slot->earliest, (uint64) LIMIT_NEVER);
		pg_atomic_init_u64(&slot->full_allowed, 0);
		pg_atomic_init_u64(&slot->full_denied, 0);
		for (int j = 0; j < LIMIT_STRIPES; j++)
		{
			pg_atomic_init_u64(&slot->stripes[j].allowed, 0);
			pg_atomic_init_u64(&slot->stripes[j].denied, 0);
		}
	}
}

/*
 * limit_map_init comes after limitarea_area_init, and fills both from the file. It is called when
 * the server starts over after a crash, too: then the file is of no use.
 */
static void
limit_map_init(void *new_map)
{
	uint64 lsn;

	map_init(new_map, map_bytes, sizeof(DcLimitKey));
	limit_area->chunk_words = (map_cell_size(new_map) - offsetof(DcLimitChunk, words)) / sizeof(int64);
	if (access("standby.signal", F_OK) == 0 || access("recovery.signal", F_OK) == 0)
		pg_atomic_write_u32(&limit_area->is_standby, 1);
	if (!server_was_shut_down(&lsn))
	{
		limit_note_loss();
		lsn = 0;
	}
	limitfile_load(lsn);
	on_shmem_exit(limitfile_save, (Datum) 0);
}

/*
 * limit_check_memory raises 55000 without preload.
 */
void
limit_check_memory(void)
{
	if (limit_area == NULL)
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("limits need shared memory"),
				 errhint("Add dcounter to shared_preload_libraries and restart the server.")));
}

/*
 * limit_note_promotion notices that a standby has become a primary. What the old primary has
 * counted is unknown here.
 */
void
limit_note_promotion(void)
{
	if (likely(pg_atomic_read_u32(&limit_area->is_standby) == 0) || RecoveryInProgress())
		return;
	LWLockAcquire(&limit_area->lock, LW_EXCLUSIVE);
	if (pg_atomic_read_u32(&limit_area->is_standby) != 0)
	{
		limit_note_loss();
		pg_atomic_fetch_add_u32(&limit_area->losses, 1);
		pg_atomic_write_u32(&limit_area->is_standby, 0);
	}
	LWLockRelease(&limit_area->lock);
}

/*
 * limit_note_loss notes that counts from before now are lost. In the postmaster, or under
 * area->lock.
 */
void
limit_note_loss(void)
{
	for (int i = 0; i < limit_area->nslots; i++)
	{
		limit_area->slots[i].rule.is_young = false;
		pg_atomic_fetch_add_u32(&limit_area->slots[i].generation, 1);
	}
	pg_atomic_write_u64(&limit_area->lost_at, (uint64) moment_now().us);
}

/*
 * limit_note_young notes that a rule was created, which has lost nothing so far. If there is no
 * slot for that, or the slot is needed for another rule before this one is used, it counts as an
 * old one. Must not throw.
 */
void
limit_note_young(Oid database, const DcLimitOwner *owner)
{
	DcLimitSlot *slot;

	LWLockAcquire(&limit_area->lock, LW_EXCLUSIVE);
	slot = limitarea_slot_make(database, owner, InvalidOid);
	if (slot != NULL)
	{
		slot->rule.is_young = true;
		pg_atomic_fetch_add_u32(&slot->generation, 1); /* others may have used it since the commit */
	}
	LWLockRelease(&limit_area->lock);
}

/*
 * limit_use_slot finds the slot of use->owner and copies what is in it. If
 * use->rule is newer, it becomes the slot's. Errors: 53200 if there is no slot.
 */
void
limit_use_slot(DcLimitUse *use)
{
	bool has_made_room = false;

	for (;;)
	{
		DcLimitSlot *slot;
		bool is_newer;

		LWLockAcquire(&limit_area->lock, LW_EXCLUSIVE);
		slot = limitarea_slot_make(MyDatabaseId, &use->owner, use->holder);
		is_newer = slot != NULL && use->owner.id != 0 && use->rule.version > slot->rule.version;
		if (is_newer && !changes_keys(slot, use))
		{
			put_rule(slot, use);
			is_newer = false;
		}
		if (slot != NULL && !is_newer)
			copy_slot(use, slot);
		LWLockRelease(&limit_area->lock);
		if (slot != NULL && !is_newer)
			break;
		if (slot != NULL)
			limitarea_install(slot, use);
		else if (has_made_room || !limit_make_slots())
			limit_slots_error(use->holder);
		else
			has_made_room = true;
	}
}

/*
 * changes_keys returns true if keys of a slot were counted by other numbers than those of a rule.
 */
static bool
changes_keys(const DcLimitSlot *slot, const DcLimitUse *use)
{
	const DcLimitNumbers *old = &slot->rule.numbers;
	const DcLimitNumbers *new = &use->rule.numbers;

	return slot->rule.version != 0 && (old->kind != new->kind || old->rate != new->rate || old->per != new->per || old->burst != new->burst);
}

/*
 * put_rule puts a newer rule into its slot. Under area->lock, and, if that changes keys,
 * slot->install.
 */
static void
put_rule(DcLimitSlot *slot, const DcLimitUse *use)
{
	bool other = slot->rule.version == 0 || changes_keys(slot, use);
	int32 counted = other ? use->rule.version : slot->rule.counted;
	bool is_young = slot->rule.is_young;

	if (other)
		slot->previous = slot->rule;
	slot->rule = use->rule;
	slot->rule.counted = counted;
	slot->rule.is_young = is_young;
	pg_atomic_fetch_add_u32(&slot->generation, 1);
}

/*
 * Note a slot and its generation in the session's use, and copy the slot's rule if it is not for
 * dc_throttle(), whose calls bring their numbers along. The caller holds a lock that protects the
 * slot.
 */
static void
copy_slot(DcLimitUse *use, DcLimitSlot *slot)
{
	use->slot = slot;
	use->generation = pg_atomic_read_u32(&slot->generation);
	if (use->owner.id != 0)
	{
		use->rule = slot->rule;
		use->previous = slot->previous;
	}
}

/*
 * limitarea_install puts a rule with other numbers into its slot, if it is still newer, and
 * converts the keys to it. A session with the next version waits here until that is done: so keys
 * have these numbers or the ones before, never others.
 */
static void
limitarea_install(DcLimitSlot *slot, DcLimitUse *use)
{
	bool is_newer;

	LWLockAcquire(&slot->install, LW_EXCLUSIVE);
	LWLockAcquire(&limit_area->lock, LW_EXCLUSIVE);
	is_newer = slot->database == MyDatabaseId && limit_owner_is(&slot->owner, &use->owner) && use->rule.version > slot->rule.version;
	if (is_newer)
	{
		put_rule(slot, use);
		copy_slot(use, slot);
	}
	LWLockRelease(&limit_area->lock);
	if (is_newer)
		limit_convert_keys(use);
	LWLockRelease(&slot->install);
}

/*
 * Raise the error that all slots are in use, or all that are for limits of this owner (53200).
 */
void
limit_slots_error(Oid holder)
{
	bool of_role;

	LWLockAcquire(&limit_area->lock, LW_SHARED);
	of_role = limitarea_share_is_used(holder);
	LWLockRelease(&limit_area->lock);
	if (of_role)
		ereport(ERROR,
				(errcode(ERRCODE_OUT_OF_MEMORY),
				 errmsg("too many limits of one owner are in use"),
				 errdetail("A role that is not a superuser can have %d limits with keys in memory, in all databases together.", LIMIT_SLOTS_OF_ROLE),
				 errhint("Try again once all keys of one limit have their full budget, or use one limit with many keys instead of many limits.")));
	ereport(ERROR,
			(errcode(ERRCODE_OUT_OF_MEMORY),
			 errmsg("too many limits are in use"),
			 errdetail("There can be %d limits with keys in memory, in all databases together.", LIMIT_SLOTS),
			 errhint("Try again once all keys of one limit have their full budget, or use one limit with many keys instead of many limits.")));
}

/*
 * Return the slot of an owner in a database, or NULL. The caller holds the area's lock.
 */
static DcLimitSlot *
limitarea_slot_find(Oid database, const DcLimitOwner *owner)
{
	for (int i = 0; i < limit_area->nslots; i++)
	{
		DcLimitSlot *slot = &limit_area->slots[i];

		if (slot->database == database && limit_owner_is(&slot->owner, owner))
			return slot;
	}
	return NULL;
}

/*
 * limit_gone_add adds a rule to those that are gone, if it has keys in memory. Must not throw.
 */
void
limit_gone_add(DcLimitGone *gone, Oid database, const DcLimitOwner *owner)
{
	DcLimitSlot *slot;

	LWLockAcquire(&limit_area->lock, LW_SHARED);
	slot = limitarea_slot_find(database, owner);
	if (slot != NULL && pg_atomic_read_u64(&slot->keys) > 0)
	{
		gone->rules[slot - limit_area->slots] = (DcLimitGoneRule){database, *owner};
		gone->any = true;
	}
	LWLockRelease(&limit_area->lock);
}

/*
 * Return true if a role has all slots that are for limits of its own. Under area->lock.
 */
static bool
limitarea_share_is_used(Oid holder)
{
	int n = 0;

	for (int i = 0; OidIsValid(holder) && i < limit_area->nslots; i++)
		n += limit_area->slots[i].holder == holder;
	return n >= LIMIT_SLOTS_OF_ROLE;
}

/*
 * Return the slot if it has no key in memory, so that it can be another rule's; else NULL. Under
 * area->lock.
 */
static DcLimitSlot *
limitarea_take_unused(DcLimitSlot *slot)
{
	if (pg_atomic_read_u64(&slot->keys) != 0)
		return NULL;
	pg_atomic_fetch_add_u32(&slot->generation, 1); /* then look again: see limiter.h */
	return pg_atomic_read_u64(&slot->keys) == 0 ? slot : NULL;
}

/*
 * Return a slot of a role's share that has no key in memory, or NULL. They are taken in turn, as in
 * limitarea_slot_make. Under area->lock.
 */
static DcLimitSlot *
limitarea_unused_of(Oid holder)
{
	DcLimitSlot *slot = NULL;

	for (int i = 0; slot == NULL && i < LIMIT_SLOTS; i++)
	{
		DcLimitSlot *other = &limit_area->slots[limit_area->next_slot++ % LIMIT_SLOTS];

		if (other->holder == holder)
			slot = limitarea_take_unused(other);
	}
	return slot;
}

/*
 * limitarea_slot_make returns a slot, a new one if there is none, or the slot of another rule that
 * has no key in memory; NULL if all are in use, or the share of the holder is. Such slots are taken
 * in turn: the rules of one call, which have no key yet, must not take each other's slots. A slot
 * that is nobody's becomes the holder's, unless that is not known. One that has keys, as it was
 * loaded from the file, does so even if the share is used up. Under area->lock.
 */
static DcLimitSlot *
limitarea_slot_make(Oid database, const DcLimitOwner *owner, Oid holder)
{
	DcLimitSlot *slot = limitarea_slot_find(database, owner);
	bool found = slot != NULL;

	if (found && (!OidIsValid(holder) || slot->holder == holder))
		return slot;
	if ((!found || pg_atomic_read_u64(&slot->keys) == 0) && limitarea_share_is_used(holder))
	{
		DcLimitSlot *own = limitarea_unused_of(holder);

		if (own == NULL)
			return NULL;
		if (found)
			own->database = own->holder = InvalidOid;
		else
			slot = own;
	}
	if (slot == NULL && limit_area->nslots < LIMIT_SLOTS)
		slot = &limit_area->slots[limit_area->nslots++];
	for (int i = 0; slot == NULL && i < LIMIT_SLOTS; i++)
		slot = limitarea_take_unused(&limit_area->slots[limit_area->next_slot++ % LIMIT_SLOTS]);
	if (slot == NULL)
		return NULL;
	if (!found)
		limitarea_slot_begin(slot, database, owner);
	slot->holder = holder;
	return slot;
}

/*
 * Give a slot without keys to an owner in a database. Under area->lock.
 */
static void
limitarea_slot_begin(DcLimitSlot *slot, Oid database, const DcLimitOwner *owner)
{
	slot->database = database;
	slot->owner = *owner;
	slot->rule = slot->previous = (DcLimitRule){0};
	pg_atomic_write_u64(&slot->earliest, (uint64) LIMIT_NEVER);
	pg_atomic_write_u64(&slot->full_allowed, 0);
	pg_atomic_write_u64(&slot->full_denied, 0);
	for (int j = 0; j < LIMIT_STRIPES; j++)
	{
		pg_atomic_write_u64(&slot->stripes[j].allowed, 0);
		pg_atomic_write_u64(&slot->stripes[j].denied, 0);
	}
}

/*
 * limit_chunk_at and limit_chunk_free implement limit_store, in which the lists of a slot's keys
 * are kept: in cells of the map.
 */
DcLimitChunk *
limit_chunk_at(void *arg, uint32 number)
{
	return map_cell(limit_map, number);
}

/*
 * Give a chunk of a list back to the map and count it down in the slot.
 */
void
limit_chunk_free(void *arg, uint32 number)
{
	DcLimitSlot *slot = arg;

	map_cell_give_back(limit_map, number);
	pg_atomic_fetch_sub_u64(&slot->cells, 1);
}

/*
 * Return how many cells of the map an entry takes.
 */
static uint32
entry_cells(const DcMapEntry *entry)
{
	return map_entry_size(limit_map, entry) / map_cell_size(limit_map);
}

/*
 * limit_entry_made counts the cells of a new entry. It is in slot->keys already.
 */
void
limit_entry_made(DcMapEntry *entry)
{
	DcLimitKey *key = map_payload(entry);

	pg_atomic_fetch_add_u64(&limit_area->slots[key->slot].cells, entry_cells(entry));
	if (entry->counter == InvalidOid)
		pg_atomic_fetch_add_u64(&limit_area->ad_hoc_cells, entry_cells(entry));
}

/*
 * limit_entry_free frees the memory that an entry refers to, before the entry itself is freed.
 */
void
limit_entry_free(DcMapEntry *entry)
{
	DcLimitKey *key = map_payload(entry);
	DcLimitSlot *slot = &limit_area->slots[key->slot];
	DcLimitStore store = limit_store(slot);

	limitlist_free(&key->state, &store);
	pg_atomic_fetch_sub_u64(&slot->cells, entry_cells(entry));
	if (entry->counter == InvalidOid)
		pg_atomic_fetch_sub_u64(&limit_area->ad_hoc_cells, entry_cells(entry));
	pg_atomic_fetch_sub_u64(&slot->keys, 1);
}
