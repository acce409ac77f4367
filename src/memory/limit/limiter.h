/*
 * limiter.h
 *		Rate limits in shared memory.
 *
 * Copyright (c) 2026, the dcounter developers
 *
 * A rule is a row of dcounter.limit_rule (limitrule.c). What is used of it by a key is in an entry
 * of a map (map.h), and only there: limits are not transactional. A call that was counted stays
 * counted if its transaction rolls back, so that a failed login counts.
 *
 * Access:
 *
 *	- The lock of a partition, held exclusively, protects the payload of its entries, the chunks
 *	  that they refer to, and everything else that is done with a key: a call looks, decides and
 *	  writes under one lock, or, if it is about several keys, under those of all their partitions,
 *	  which it takes in the order of their numbers (limitcall.c). The clock is read under the lock:
 *	  so the times in an entry do not go back. There are no pins.
 *	- area->lock protects the assignment of slots, and the rules in them. A slot is for a rule that
 *	  has been used since the start, or for the ad hoc limits of a role. A session copies the rule,
 *	  and notes the slot's generation, which changes whenever the slot or its rule does. Under the
 *	  lock of a partition it compares: so no key is counted by a rule that is no longer the slot's.
 *	  To count a new key, it is added to slot->keys, and then the generation is compared; a process
 *	  that gives the slot away changes the generation, and then looks at slot->keys. One of the two
 *	  sees the other.
 *	- slot->install is held while a rule with other numbers is put into the slot and all of its keys
 *	  are changed to these. So a slot has keys of two versions at most, of which it knows the
 *	  numbers.
 *	- area->sweep protects sweeps over all entries (limitevict.c). It is taken before a partition's
 *	  lock, and with none held.
 *	- All other fields are atomic variables. A slot with keys keeps its owner, so a process that has
 *	  locked an entry may read the owner without area->lock.
 *
 * Order: slot->install or area->sweep, partitions by number, area->lock (which is not held when a
 * partition's lock is taken), the map's mutex.
 *
 * An entry is removed when it is idle, that is, equivalent to none (limitevict.c), or its rule is
 * dropped, or a role resets its ad hoc limits. So a limit is never opened by a lack of memory. One
 * rule may have half of the cells, unless max_keys is set; the ad hoc limits of all roles together,
 * LIMIT_AD_HOC_SHARE.
 */
#ifndef DC_LIMITER_H
#define DC_LIMITER_H

#include "fmgr.h"

#include "base/clock.h"
#include "base/compat.h"
#include "base/map.h"
#include "base/rule.h"
#include "memory/limit/algorithm.h"

#define LIMIT_SLOTS 1024

/* Slots of rules that a role owns, in all databases, unless it is a superuser. */
#define LIMIT_SLOTS_OF_ROLE (LIMIT_SLOTS / 8)

#define LIMIT_STRIPES 8
#define LIMIT_MAX_CALLS 64

/* Ad hoc limits of all roles, in all databases, may use one cell in this number. */
#define LIMIT_AD_HOC_SHARE 4

/* The numbers that decide how a key is counted. */
typedef struct DcLimitRule
{
	int32 id;
	int32 version; /* grows with each change of the row; 0: there is no rule here */
	int32 counted; /* in a slot: the first version that has these numbers */
	DcLimitNumbers numbers;
	int64 max_keys;		/* 0: half of the memory */
	bool allow_if_full; /* a key for which there is no memory */
	bool full_if_lost;	/* after a loss, budgets have been used up */
	bool is_young;		/* in a slot: it was created after the last loss */
} DcLimitRule;

/* Whose a slot is, in its database. */
typedef struct DcLimitOwner
{
	Oid catalog; /* dcounter.limit_rule: another one if the extension was created again, with the same ids */
	int32 id;	 /* of the rule; 0: ad hoc limits, */
	Oid role;	 /* of this role */
} DcLimitOwner;

typedef struct DcLimitStripe
{
	pg_atomic_uint64 allowed;
	pg_atomic_uint64 denied;
	char padding[PG_CACHE_LINE_SIZE - 2 * sizeof(pg_atomic_uint64)];
} DcLimitStripe;

typedef struct DcLimitSlot
{
	LWLock install; /* of a rule with other numbers, until all keys are by these */

	/* under area->lock, except for the generation */
	Oid database; /* invalid: free */
	DcLimitOwner owner;
	Oid holder; /* the rule's owner, of whose share the slot is; InvalidOid: of nobody's */
	pg_atomic_uint32 generation;
	DcLimitRule rule;
	DcLimitRule previous; /* with other numbers; version 0: none */

	pg_atomic_uint64 keys;
	pg_atomic_uint64 cells;
	pg_atomic_uint64 earliest; /* no key is idle before (us, as DcMoment) */
	pg_atomic_uint64 full_allowed;
	pg_atomic_uint64 full_denied;
	DcLimitStripe stripes[LIMIT_STRIPES];
} DcLimitSlot;

/* The payload of an entry. */
typedef struct DcLimitKey
{
	DcLimitState state;
	int64 idle_at;
	uint32 slot;
	int32 counted; /* of the rule that the state is by */
	uint32 loss;   /* the last one when it was written */
} DcLimitKey;

typedef struct DcLimitArea
{
	LWLock lock;
	LWLock sweep;
	int nslots;					 /* those beyond were never used */
	uint32 next_slot;			 /* where to look for one without keys */
	uint32 chunk_words;			 /* fixed */
	pg_atomic_uint32 is_standby; /* a promotion is still to come, or to be noticed */
	pg_atomic_uint32 losses;
	pg_atomic_uint64 lost_at; /* DcMoment of the last one; 0: none */
	pg_atomic_uint64 next_lease;
	pg_atomic_uint32 hand;
	pg_atomic_uint64 earliest; /* no key of any rule is idle before */
	pg_atomic_uint64 sweeps;
	pg_atomic_uint64 next_sweep; /* DcMoment: not before */
	pg_atomic_uint64 looked;	 /* DcMoment: for databases that are gone */
	pg_atomic_uint64 ad_hoc_cells;
	DcLimitSlot slots[LIMIT_SLOTS];
} DcLimitArea;

/*
 * The key of an ad hoc limit includes its numbers, so that with other numbers it is another limit.
 */
typedef struct DcLimitAdHoc
{
	int64 burst;
	int64 rate;
	int64 per;
	Oid role;
	char key[DC_MAX_KEY_BYTES];
} DcLimitAdHoc;

/* A slot as a session knows it. */
typedef struct DcLimitUse
{
	DcLimitOwner owner;
	Oid holder;		   /* as in the slot */
	DcLimitSlot *slot; /* NULL: not looked for yet */
	uint32 generation;
	DcLimitRule rule;
	DcLimitRule previous;
} DcLimitUse;

/* A rule that a session has used. */
typedef struct DcLimitKnown
{
	DcRuleKnown rule;
	DcLimitUse use;
} DcLimitKnown;

/* A row of dcounter.limit_rule. */
typedef struct DcLimitRow
{
	DcRuleRow rule; /* trusted: roles that may refund, too */
	int algorithm;	/* DcLimitKind */
	int64 rate;
	int64 per;
	int64 burst;	 /* 0: none */
	int64 max_keys;	 /* 0: none is set */
	int on_full;	 /* 1: allow */
	int after_crash; /* 1: full */
} DcLimitRow;

/* One limit of a call. */
typedef struct DcLimitCall
{
	DcLimitUse *use;
	const char *name; /* NULL: ad hoc */
	DcMapKey key;
	int64 cost;
	/* results */
	DcLimitAnswer answer;
	int64 now;
	int64 idle_at;
	int64 lease;
	/* while it is counted */
	DcLimitKey *entry; /* in the map, or NULL */
	DcLimitKey fresh;  /* if entry is NULL */
	uint32 chunks;
	bool is_made; /* the entry is of this call */
	bool full;	  /* there is not enough memory for it */
} DcLimitCall;

/* A rule that is gone. */
typedef struct DcLimitGoneRule
{
	Oid database;
	DcLimitOwner owner;
} DcLimitGoneRule;

/* Rules that are gone, each at its slot; starts with zeros. */
typedef struct DcLimitGone
{
	bool any;
	DcLimitGoneRule rules[LIMIT_SLOTS];
} DcLimitGone;

extern DcLimitArea *limit_area;
extern DcMap *limit_map;

/* limitarea.c */
extern void limit_check_memory(void);
extern void limit_note_loss(void);
pg_noreturn extern void limit_slots_error(Oid holder);
extern void limit_use_slot(DcLimitUse *use);
extern void limit_note_young(Oid database, const DcLimitOwner *owner);
extern void limit_gone_add(DcLimitGone *gone, Oid database, const DcLimitOwner *owner);
extern void limit_note_promotion(void);
extern DcLimitChunk *limit_chunk_at(void *arg, uint32 number);
extern void limit_chunk_free(void *arg, uint32 number);
extern void limit_entry_made(DcMapEntry *entry);
extern void limit_entry_free(DcMapEntry *entry);

/* limitevict.c */
extern bool limit_make_slots(void);
extern bool limit_make_room(DcLimitUse *use, bool memory, int64 *retry_after);
extern void limit_note_idle(DcLimitSlot *slot, int64 idle_at);
extern void limit_hand(int steps);
extern void limit_forget(const DcLimitGone *gone);
extern int64 limit_forget_ad_hoc(Oid role, const DcKey *only);
extern void limit_convert_keys(DcLimitUse *use);

/* limitcall.c */
extern void limit_bring_up(DcLimitKey *key, const DcLimitUse *use, int64 now);
extern bool limit_take(DcLimitCall *calls, int n, bool count);
extern int64 limit_take_up_to(DcLimitCall *call);
extern int64 limit_give_back(DcLimitCall *call, int64 units);
extern bool limit_lease(DcLimitCall *call, int64 lease, bool renew);
extern bool limit_clear(DcLimitCall *call);

/* limitrule.c */
extern DcRuleKind limit_rules;
extern DcLimitKnown *limit_known(const char *name, bool refund);
extern DcLimitOwner limit_row_owner(int32 id);
extern DcLimitRule limit_rule_of(const DcLimitRow *row);

/* limitstat.c has the view */

/* limitfile.c */
extern Size limitfile_size(void);
extern void limitfile_load(uint64 lsn);
extern void limitfile_save(int code, Datum arg);

static inline bool
limit_owner_is(const DcLimitOwner *a, const DcLimitOwner *b)
{
	return a->id == b->id && a->catalog == b->catalog && a->role == b->role;
}

/*
 * limit_store returns the storage of the lists of a slot's keys. It is in the path of each call.
 */
static inline DcLimitStore
limit_store(DcLimitSlot *slot)
{
	return (DcLimitStore){slot, limit_area->chunk_words, limit_chunk_at, limit_chunk_free};
}

#endif /* DC_LIMITER_H */
