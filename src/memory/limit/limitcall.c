/*
 * limitcall.c
 *		Calls of limits: look, decide, count.
 *
 * Copyright (c) 2026, the dcounter developers
 *
 * A call about several limits is allowed if all of them allow it, and only then counts in any. So
 * all partitions are locked before the first one is checked, in the order of their numbers, and the
 * clock is read when they are. Nothing in between can fail or wait: all memory is taken before
 * anything is written. If there is none, the locks are released, room is made (limitevict.c), and
 * the call starts over. If there is still none, the limit's rule decides.
 *
 * Only an allowed call creates an entry. So a refused call takes no memory.
 *
 * The rule that a session knows may be an older one than that of the slot. This is noticed under
 * the lock (limiter.h). Then the locks are released, the rule is copied, and the call starts over.
 * An entry is changed to the rule's numbers, and for a loss, by the first call that comes to it
 * (limit_bring_up).
 */
#include "postgres.h"

#include "miscadmin.h"

#include "base/guc.h"
#include "memory/limit/limiter.h"

/* Buckets that the clock hand visits for a new key. */
#define HAND_STEPS 2

/* How often room is made for one call: other sessions may have been faster. */
#define MAX_TRIES 3

/*
 * How often rules are copied. If there are fewer slots than a call needs, its limits take them from
 * each other.
 */
#define MAX_COPIES 100

typedef struct Partitions
{
	int n;
	uint32 numbers[LIMIT_MAX_CALLS]; /* ascending */
} Partitions;

static void partitions_lock(const DcLimitCall *calls, int n, Partitions *partitions);
static void partitions_unlock(const Partitions *partitions);
static bool is_current(const DcLimitUse *use);
static LWLock *key_lock(DcLimitCall *call, int64 *now);
static DcLimitKey *limitcall_find(DcLimitCall *call, int64 now);
static void limitcall_look(DcLimitCall *call, int64 now);
static bool all_are_current(DcLimitCall *calls, int n);
static DcLimitCall *limitcall_prepare(DcLimitCall *calls, int n, bool *memory, int *added);
static bool prepare_one(DcLimitCall *call, bool *memory, int *added);
static void limitcall_give_up(DcLimitCall *calls, int n);
static void limitcall_take_back(DcLimitCall *calls, int n);
static void take_out(DcLimitCall *call);
static inline void count_call(DcLimitCall *call, int64 now);
static inline void note_result(DcLimitCall *calls, int n, bool allowed);
static void answer_full(DcLimitCall *call, int64 retry_after);
static void clear_entry(DcLimitCall *call, const DcLimitRule *rule, int64 now);

/*
 * Return the moment of the last loss, if keys of the rule begin with their budget used up at that
 * moment; otherwise 0.
 */
static int64
lost_at(const DcLimitRule *rule)
{
	return rule->full_if_lost && !rule->is_young ? (int64) pg_atomic_read_u64(&limit_area->lost_at) : 0;
}

/*
 * set_idle notes when an entry will be equivalent to none. After a loss, a key without an entry
 * begins with a used-up budget, so a key that was cleared must not be forgotten until that has
 * passed.
 */
static void
set_idle(DcLimitKey *key, const DcLimitRule *rule, int64 now)
{
	int64 lost = lost_at(rule);

	key->idle_at = key->state.idle_at;
	if (lost != 0)
	{
		DcLimitState fresh;

		limit_begin(&rule->numbers, &fresh, now, lost);
		key->idle_at = Max(key->idle_at, fresh.idle_at);
	}
}

/*
 * limit_bring_up changes an entry's state to the rule as it is now, and to the time. The partition
 * is locked. If it was counted by numbers that are not known, or counts are lost, the worst is
 * assumed.
 */
void
limit_bring_up(DcLimitKey *key, const DcLimitUse *use, int64 now)
{
	DcLimitStore store = limit_store(use->slot);
	const DcLimitRule *rule = &use->rule;
	uint32 losses = pg_atomic_read_u32(&limit_area->losses);

	if (key->counted != rule->counted)
	{
		if (key->counted == use->previous.counted)
			limit_convert(&use->previous.numbers, &rule->numbers, &key->state, now, &store);
		else
		{
			limitlist_free(&key->state, &store);
			limit_begin(&rule->numbers, &key->state, now, now);
		}
		key->counted = rule->counted;
		set_idle(key, rule, now);
		limit_note_idle(use->slot, key->idle_at);
	}
	if (key->loss != losses)
	{
		key->loss = losses;
		if (lost_at(rule) != 0)
		{
			limitlist_free(&key->state, &store);
			limit_begin(&rule->numbers, &key->state, now, lost_at(rule));
			set_idle(key, rule, now);
			limit_note_idle(use->slot, key->idle_at);
		}
	}
	limit_turn(&rule->numbers, &key->state, now, &store);
}

/*
 * limit_take asks for all of the calls, and if they are allowed, counts them, unless `count` is
 * false. The keys differ.
 */
bool
limit_take(DcLimitCall *calls, int n, bool count)
{
	Partitions partitions;
	bool allowed;
	int added = 0;
	int tries = 0;
	int copies = 0;

	limit_note_promotion();
	for (;;)
	{
		DcLimitCall *lacks = NULL;
		bool memory = false;
		int64 now;

		partitions_lock(calls, n, &partitions);
		now = moment_now().us;
		if (!all_are_current(calls, n))
		{
			partitions_unlock(&partitions);
			if (++copies > MAX_COPIES)
				limit_slots_error(calls[n - 1].use->holder);
			for (int i = 0; i < n; i++)
				limit_use_slot(calls[i].use);
			continue;
		}
		allowed = true;
		for (int i = 0; i < n; i++)
		{
			limitcall_look(&calls[i], now);
			allowed &= calls[i].answer.allowed;
		}
		if (allowed)
			lacks = limitcall_prepare(calls, n, &memory, &added);
		for (int i = 0; i < n && allowed && lacks == NULL && count; i++)
			count_call(&calls[i], now);
		if (allowed && lacks == NULL && !count)
			limitcall_take_back(calls, n);
		if (lacks == NULL && count)
			note_result(calls, n, allowed);
		partitions_unlock(&partitions);
		if (lacks == NULL)
			break;
		else if (is_current(lacks->use)) /* otherwise its rule is copied, and the call starts over */
		{
			int64 retry_after = 1;
			bool again = limit_make_room(lacks->use, memory, &retry_after);

			if (!again || ++tries > MAX_TRIES)
			{
				lacks->full = true;
				answer_full(lacks, retry_after);
			}
		}
	}
	if (added > 0)
		limit_hand(HAND_STEPS * added);
	return allowed;
}

/*
 * limit_take_up_to counts as many of a call's units as are allowed, 0 to all, and returns how many.
 * It is not a case of limit_take, which decides for each request of an application.
 */
int64
limit_take_up_to(DcLimitCall *call)
{
	const DcLimitRule *rule = &call->use->rule;
	int64 wanted = call->cost;
	int added = 0;
	int tries = 0;

	for (;;)
	{
		bool memory = false;
		int64 retry_after = 1;
		bool fits = true;
		int64 now;
		LWLock *lock = key_lock(call, &now);

		if (!call->full)
		{
			DcLimitStore store = limit_store(call->use->slot);
			DcLimitKey *key = limitcall_find(call, now);

			call->chunks = DC_MAP_NONE;
			call->is_made = false;
			call->cost = limit_fits(&rule->numbers, &key->state, now, wanted, &store);
			call->answer.allowed = call->cost > 0;
			fits = call->cost == 0 || prepare_one(call, &memory, &added);
			if (!fits)
				limitcall_give_up(call, 1);
			else if (call->cost > 0)
				count_call(call, now);
		}
		if (fits)
			note_result(call, 1, call->answer.allowed);
		LWLockRelease(lock);
		if (fits)
			break;
		if (!is_current(call->use))
			continue; /* its rule is copied, and all is done again */
		if (!limit_make_room(call->use, memory, &retry_after) || ++tries > MAX_TRIES)
		{
			call->full = true;
			answer_full(call, retry_after);
			call->cost = call->answer.allowed ? wanted : 0;
		}
	}
	if (added > 0)
		limit_hand(HAND_STEPS * added);
	return call->cost;
}

/*
 * Compare two partition numbers, for qsort().
 */
static int
compare_numbers(const void *a, const void *b)
{
	uint32 x = *(const uint32 *) a;
	uint32 y = *(const uint32 *) b;

	return x < y ? -1 : x > y;
}

/*
 * Lock the partitions of all calls exclusively, each of them once. They are locked in the order of
 * their numbers, so two calls cannot deadlock.
 */
static void
partitions_lock(const DcLimitCall *calls, int n, Partitions *partitions)
{
	for (int i = 0; i < n; i++)
		partitions->numbers[i] = map_partition(&calls[i].key);
	if (n > 1)
		/* few: keys of a call */
		qsort(partitions->numbers, n, sizeof(uint32), compare_numbers);
	partitions->n = 0;
	for (int i = 0; i < n; i++)
	{
		if (i > 0 && partitions->numbers[i] == partitions->numbers[partitions->n - 1])
			continue;
		partitions->numbers[partitions->n++] = partitions->numbers[i];
	}
	for (int i = 0; i < partitions->n; i++)
		LWLockAcquire(map_partition_lock(limit_map, partitions->numbers[i]), LW_EXCLUSIVE);
}

/*
 * Release the locks that partitions_lock has taken.
 */
static void
partitions_unlock(const Partitions *partitions)
{
	for (int i = partitions->n - 1; i >= 0; i--)
		LWLockRelease(map_partition_lock(limit_map, partitions->numbers[i]));
}

/*
 * Return true if the session's copy of the rule is that of the slot. The answer holds while a
 * partition is locked.
 */
static bool
is_current(const DcLimitUse *use)
{
	return pg_atomic_read_u32(&use->slot->generation) == use->generation;
}

/*
 * Return true if the copies of all rules are current.
 */
static bool
all_are_current(DcLimitCall *calls, int n)
{
	for (int i = 0; i < n; i++)
	{
		if (!is_current(calls[i].use))
			return false;
	}
	return true;
}

/*
 * limitcall_find finds the state of a call's key: its entry's, or, in the call, that of a new key.
 */
static DcLimitKey *
limitcall_find(DcLimitCall *call, int64 now)
{
	DcMapEntry *entry = map_look(limit_map, &call->key);

	call->now = now;
	if (entry != NULL && &limit_area->slots[((DcLimitKey *) map_payload(entry))->slot] != call->use->slot)
	{
		/* of a rule that had the same id, before the extension was created again */
		limit_entry_free(entry);
		map_take_out(limit_map, entry);
		entry = NULL;
	}
	if (entry != NULL)
	{
		call->entry = map_payload(entry);
		limit_bring_up(call->entry, call->use, now);
		return call->entry;
	}
	call->entry = NULL;
	call->fresh = (DcLimitKey){
		.slot = call->use->slot - limit_area->slots,
		.counted = call->use->rule.counted,
		.loss = pg_atomic_read_u32(&limit_area->losses),
	};
	limit_begin(&call->use->rule.numbers, &call->fresh.state, now, lost_at(&call->use->rule));
	set_idle(&call->fresh, &call->use->rule, now);
	return &call->fresh;
}

/*
 * limitcall_look sets a call's answer by its rule.
 */
static void
limitcall_look(DcLimitCall *call, int64 now)
{
	DcLimitStore store = limit_store(call->use->slot);
	DcLimitKey *key;

	if (call->full)
		return; /* it has its answer */
	key = limitcall_find(call, now);
	limit_test(&call->use->rule.numbers, &key->state, now, call->cost, &store, &call->answer);
	call->idle_at = Max(key->idle_at, now);
}

/*
 * limitcall_prepare takes the memory that the calls need. If there is not enough for one, that call
 * is returned, and *memory says whether the map is full. Memory taken for the others is given back,
 * or stays in entries that are as good as new.
 */
static DcLimitCall *
limitcall_prepare(DcLimitCall *calls, int n, bool *memory, int *added)
{
	for (int i = 0; i < n; i++)
	{
		calls[i].chunks = DC_MAP_NONE;
		calls[i].is_made = false;
	}
	for (int i = 0; i < n; i++)
	{
		if (!calls[i].full && !prepare_one(&calls[i], memory, added))
		{
			limitcall_give_up(calls, n);
			return &calls[i];
		}
	}
	return NULL;
}

/*
 * Initialize a new entry of the map with the state that the call has prepared.
 */
static void
limitcall_entry_init(DcMapEntry *entry, void *arg)
{
	*(DcLimitKey *) map_payload(entry) = *(const DcLimitKey *) arg;
}

/*
 * Return how many keys the rule may have in memory; dc_throttle() has a setting for that.
 */
static uint64
most_keys(const DcLimitUse *use)
{
	if (use->owner.id == 0)
		return dc_throttle_max_keys;
	return use->rule.max_keys != 0 ? (uint64) use->rule.max_keys : PG_UINT64_MAX;
}

/*
 * cells_fit returns true if a slot may have `more` further cells. A rule without another bound may
 * have half of them. If the share of ad hoc limits is used up, *memory is set: any role's entries
 * may make room.
 */
static bool
cells_fit(const DcLimitUse *use, uint64 more, bool *memory)
{
	*memory = use->owner.id == 0 &&
		pg_atomic_read_u64(&limit_area->ad_hoc_cells) + more > map_capacity(limit_map) / LIMIT_AD_HOC_SHARE;
	return !*memory && (use->rule.max_keys != 0 || pg_atomic_read_u64(&use->slot->cells) + more <= map_capacity(limit_map) / 2);
}

/*
 * Take all memory that counting the call will need: its entry and the chunks of its list. Return
 * false if there is not enough. *memory then says whether the map is full, or only the rule's own
 * share is. *added counts the entries made.
 */
static bool
prepare_one(DcLimitCall *call, bool *memory, int *added)
{
	DcLimitSlot *slot = call->use->slot;
	const DcLimitNumbers *numbers = &call->use->rule.numbers;
	DcLimitStore store = limit_store(slot);
	uint32 wanted = 0;

	if (call->entry == NULL)
	{
		DcMapEntry *entry = NULL;

		*memory = false;
		if (pg_atomic_fetch_add_u64(&slot->keys, 1) < most_keys(call->use) && is_current(call->use) &&
			cells_fit(call->use, 1, memory))
		{
			entry = map_add(limit_map, &call->key, limitcall_entry_init, &call->fresh);
			*memory = entry == NULL;
		}
		if (entry == NULL)
		{
			pg_atomic_fetch_sub_u64(&slot->keys, 1);
			return false;
		}
		limit_entry_made(entry);
		call->entry = map_payload(entry);
		call->is_made = true;
		(*added)++;
	}
	if (limit_has_list(numbers))
		wanted = limitlist_chunks_wanted(numbers, &call->entry->state, call->cost, &store);
	if (wanted == 0)
		return true;
	if (!cells_fit(call->use, wanted, memory))
		return false;
	call->chunks = map_cells_take(limit_map, wanted);
	*memory = call->chunks == DC_MAP_NONE;
	if (!*memory)
		pg_atomic_fetch_add_u64(&slot->cells, wanted);
	return !*memory;
}

/*
 * Give back the chunks that were taken for calls that are not counted. Entries that were created
 * stay, idle.
 */
static void
limitcall_give_up(DcLimitCall *calls, int n)
{
	for (int i = 0; i < n; i++)
	{
		DcLimitStore store = limit_store(calls[i].use->slot);

		if (calls[i].entry != NULL)
			limit_note_idle(calls[i].use->slot, calls[i].entry->idle_at);

		while (calls[i].chunks != DC_MAP_NONE)
		{
			uint32 number = calls[i].chunks;

			calls[i].chunks = store.chunk(store.arg, number)->next;
			store.give_back(store.arg, number);
		}
	}
}

/*
 * limitcall_take_back gives back what prepare took for calls that are not counted.
 */
static void
limitcall_take_back(DcLimitCall *calls, int n)
{
	limitcall_give_up(calls, n);
	for (int i = 0; i < n; i++)
	{
		if (calls[i].is_made)
			take_out(&calls[i]);
	}
}

/*
 * take_out removes a call's entry.
 */
static void
take_out(DcLimitCall *call)
{
	DcMapEntry *entry = map_look(limit_map, &call->key);

	limit_entry_free(entry);
	map_take_out(limit_map, entry);
	call->entry = NULL;
}

/*
 * Count an allowed call in its entry, and note when the key becomes idle. This cannot fail:
 * prepare_one has taken the memory. A call that was allowed for lack of memory is not counted.
 */
static inline void
count_call(DcLimitCall *call, int64 now)
{
	const DcLimitRule *rule = &call->use->rule;
	DcLimitStore store = limit_store(call->use->slot);

	if (call->full)
		return;
	if (rule->numbers.kind == LIMIT_CONCURRENT)
		call->lease = (int64) pg_atomic_fetch_add_u64(&limit_area->next_lease, 1);
	limit_add(&rule->numbers, &call->entry->state, now, call->cost, call->lease, call->chunks, &store);
	set_idle(call->entry, rule, now);
	call->idle_at = call->entry->idle_at;
	limit_note_idle(call->use->slot, call->idle_at);
}

/*
 * Return the part of the slot's statistics that the key counts in. Stripes keep sessions from
 * sharing a cache line.
 */
static DcLimitStripe *
stripe_of(DcLimitCall *call)
{
	return &call->use->slot->stripes[map_partition(&call->key) % LIMIT_STRIPES];
}

/*
 * note_result counts the answer for the view: as allowed in all limits, or as denied in those that
 * denied it.
 */
static inline void
note_result(DcLimitCall *calls, int n, bool allowed)
{
	for (int i = 0; i < n; i++)
	{
		DcLimitSlot *slot = calls[i].use->slot;

		if (allowed)
			pg_atomic_fetch_add_u64(&stripe_of(&calls[i])->allowed, 1);
		else if (!calls[i].answer.allowed)
			pg_atomic_fetch_add_u64(&stripe_of(&calls[i])->denied, 1);
		if (calls[i].full)
			pg_atomic_fetch_add_u64(calls[i].answer.allowed ? &slot->full_allowed : &slot->full_denied, 1);
	}
}

/*
 * answer_full sets a rule's answer to a call for which there is no memory.
 */
static void
answer_full(DcLimitCall *call, int64 retry_after)
{
	bool allowed = call->use->owner.id != 0 && call->use->rule.allow_if_full;

	call->answer = (DcLimitAnswer){.allowed = allowed, .retry_after = allowed ? 0 : retry_after};
	call->idle_at = call->now;
	call->entry = NULL; /* its lock has been released */
}

/*
 * key_lock locks a call's key and ensures that its rule is current. Returns the lock and the time.
 */
static LWLock *
key_lock(DcLimitCall *call, int64 *now)
{
	LWLock *lock = map_key_lock(limit_map, &call->key);

	limit_note_promotion();
	for (;;)
	{
		LWLockAcquire(lock, LW_EXCLUSIVE);
		if (is_current(call->use))
			break;
		LWLockRelease(lock);
		limit_use_slot(call->use);
	}
	*now = moment_now().us;
	return lock;
}

/*
 * limit_give_back takes back units that a key has been allowed, and returns how many it can have
 * now.
 */
int64
limit_give_back(DcLimitCall *call, int64 units)
{
	const DcLimitRule *rule = &call->use->rule;
	DcLimitStore store;
	DcLimitKey *key;
	int64 now;
	LWLock *lock = key_lock(call, &now);

	store = limit_store(call->use->slot);
	key = limitcall_find(call, now);
	if (call->entry != NULL)
	{
		limit_refund(&rule->numbers, &key->state, now, units, &store);
		set_idle(key, rule, now);
		limit_note_idle(call->use->slot, key->idle_at);
	}
	limit_test(&rule->numbers, &key->state, now, 1, &store, &call->answer);
	LWLockRelease(lock);
	return call->answer.remaining + (call->answer.allowed ? 1 : 0);
}

/*
 * limit_lease ends a lease, or renews it; false if it no longer exists.
 */
bool
limit_lease(DcLimitCall *call, int64 lease, bool renew)
{
	const DcLimitRule *rule = &call->use->rule;
	DcLimitStore store;
	int64 now;
	LWLock *lock = key_lock(call, &now);
	bool found = false;

	store = limit_store(call->use->slot);
	(void) limitcall_find(call, now);
	if (call->entry != NULL && rule->numbers.kind == LIMIT_CONCURRENT)
	{
		found = renew ? limitlist_renew(&rule->numbers, &call->entry->state, now, lease, &store)
					  : limitlist_release(&call->entry->state, lease, &store);
		set_idle(call->entry, rule, now);
		limit_note_idle(call->use->slot, call->entry->idle_at);
	}
	LWLockRelease(lock);
	return found;
}

/*
 * limit_clear makes a key as if it were new, with its whole budget; false if it had that. After a
 * loss that needs an entry: 53200 if there is not enough memory for it.
 */
bool
limit_clear(DcLimitCall *call)
{
	const DcLimitRule *rule = &call->use->rule;
	bool memory;
	int added = 0;
	bool fits;
	DcLimitKey *key;
	int64 now;
	LWLock *lock;
	bool is_new;

	do
	{
		fits = true;
		lock = key_lock(call, &now);
		key = limitcall_find(call, now);
		is_new = key->state.idle_at <= now;
		call->cost = 0; /* a list does not need it */
		if (call->entry == NULL && !is_new)
			fits = prepare_one(call, &memory, &added);
		if (call->entry != NULL)
			clear_entry(call, rule, now);
		LWLockRelease(lock);
	} while (!fits && !is_current(call->use));
	if (!fits)
		ereport(ERROR,
				(errcode(ERRCODE_OUT_OF_MEMORY),
				 errmsg("out of memory for keys of limits"),
				 errhint("Increase dcounter.limit_size, or max_keys of the limit.")));
	return !is_new;
}

/*
 * Give the key its whole budget back. The entry is removed unless it must stay to say so, as after
 * a loss.
 */
static void
clear_entry(DcLimitCall *call, const DcLimitRule *rule, int64 now)
{
	DcLimitStore store = limit_store(call->use->slot);

	limitlist_free(&call->entry->state, &store);
	limit_begin(&rule->numbers, &call->entry->state, now, 0);
	set_idle(call->entry, rule, now);
	if (call->entry->idle_at > now)
		limit_note_idle(call->use->slot, call->entry->idle_at);
	else
		take_out(call);
}
