/*
 * life.h
 *		The identity of a region's database, and whether it may publish: shared by the files about
 *		that.
 *
 * Copyright (c) 2026, the dcounter developers
 *
 * The danger: a database counts under an epoch, and so does a copy of it, which was restored,
 * copied, promoted, or comes from a snapshot of the disk. Others keep the greater of the two
 * counts, and the rest is lost. So
 *
 *	- a copy that can see that it is one (self_is_here) takes a new epoch (renew.c);
 *	- each transaction that publishes raises the number of this region's heartbeat (beat.c), so a
 *	  region that knows more of an epoch than a copy also knows a heartbeat that the copy does not;
 *	- after each start of the server a database takes a new boot, sends it with a heartbeat, and
 *	  publishes nothing until each other region has confirmed it as the latest (boot.c). That
 *	  reveals a snapshot of the disk;
 *	- a start that begins before the previous one was confirmed takes a boot of the same series.
 *	  Others take a heartbeat only if it is of the series that they know, or they know of no
 *	  heartbeat as late as the first one of its series. If each start began a series, several starts
 *	  in a row would bring a snapshot past all that others know of the original. A series ends when
 *	  it is confirmed, or given up: rows are published under a boot of its own, which an earlier
 *	  snapshot does not have;
 *	- without another region there is nobody to compare with, and a snapshot of the disk may be from
 *	  such a time. So each start takes a new epoch then: later counts, and those of the original of
 *	  a snapshot, have different epochs. That is marked (alone). If another region reports later
 *	  that it knows more of an earlier epoch than this database has, there was an original: this
 *	  database takes a new epoch again, and gives up the units of its stocks (beatmerge.c);
 *	- counts from before the start are then sealed (seal.c): they may be published already, so they
 *	  can only go to the old epoch. Later counts can only go to the epoch that the database has when
 *	  it publishes again. So no session counts until the sealing is done (boot_await);
 *	- a row that has more of this database's epoch than the database itself is not merged, and marks
 *	  that the database must copy everything again (slot_is_foreign). In a table of a superuser,
 *	  where nobody writes such a row directly, it also marks that the database must renew, earlier
 *	  than heartbeats would.
 *
 * test/unit/regionsim_identity.c is a model of this (series.h is the same in both). It shows that
 * each of these rules is needed, except for the last mark: half of its runs do without it.
 *
 * Locks. A transaction that publishes holds the lock on the identity, shared, from when it reads it
 * until it ends; one that changes dcounter.self holds it exclusively. It is taken after locks on
 * tables, but before those on stocks (rights.h). The lock on this database's heartbeat is taken by
 * each publishing transaction at the very end of its commit, when it needs no other lock; a
 * heartbeat of others is inserted under a lock of its own (beatmerge.c).
 */
#ifndef DC_LIFE_H
#define DC_LIFE_H

#include "base/catrow.h"
#include "base/job.h"
#include "base/lockclass.h"
#include "region/region.h"

typedef enum DcSelfState
{
	SELF_ACTIVE,
	SELF_RENEW, /* it needs a new epoch first */
	SELF_RECOPY /* it may have missed rows that others have sent */
} DcSelfState;

/* The row of dcounter.self. */
typedef struct DcSelfRow
{
	char *region;
	int64 epoch;
	int64 system_id;
	int32 timeline;
	Oid dboid;
	TimestampTz postmaster_start; /* of the server that has begun */
	DcSelfState state;
	Datum boot;			  /* uuid */
	bool starting;		  /* it publishes nothing until others have confirmed the boot; earlier counts are sealed */
	TimestampTz begun_at; /* since when */
} DcSelfRow;

/* More facts about this database's epoch, from transactions that must not wait. */
typedef struct DcSelfMarks
{
	bool renew;
	bool recopy;
	bool retired;
	bool alone;			   /* it was taken when no other region was known (boot.c) */
	TimestampTz recopy_at; /* the last one */
	TimestampTz since;	   /* the others may confirm, for its epochs since then, that it lacks nothing (renew.c); or DT_NOBEGIN */
} DcSelfMarks;

/* A row of dcounter.region. */
typedef struct DcBeat
{
	char *region;
	int64 epoch;
	Datum boot; /* uuid, or 0 */
	int64 seq;
	int64 first;	 /* number of the first heartbeat of the series of the boot */
	int64 published; /* number of the last one that came with rows */
	TimestampTz beat_at;
	Datum seen; /* jsonb, or 0 */
	TimestampTz retired_at;
} DcBeat;

/* An epoch: microseconds since 1970, and random bits. */
#define EPOCH_RANDOM_BITS 10

/* Microseconds from 1970 to 2000, where TimestampTz begins. */
#define EPOCH_DIFF ((int64) (POSTGRES_EPOCH_JDATE - UNIX_EPOCH_JDATE) * USECS_PER_DAY)

/* Of a uuid as text. */
#define BOOT_TEXT_LEN 36

/* The length of the part that is the same in a series. */
#define BOOT_SERIES_LEN 18

/* A region's knowledge about another one. */
typedef struct DcSeen
{
	int64 epoch;
	int64 seq;
	char boot[BOOT_TEXT_LEN + 1];
	TimestampTz beat_at;
	TimestampTz retired_at;
} DcSeen;

/* The next step of a database that begins, or must not go on under its epoch. */
typedef enum DcLifeChange
{
	LIFE_NONE,
	LIFE_BEGIN,		/* the first step after a start */
	LIFE_CONFIRMED, /* the last one */
	LIFE_RENEW,
	LIFE_LEFT /* no change, but some counters were left out (sealturns.c) */
} DcLifeChange;

/* The second half of the locks of their class. */
#define IDENTITY_LOCK 0
#define BEAT_LOCK 1
#define HEARD_LOCK 2

/* identity.c */
extern void identity_lock(void);
extern bool identity_try_lock(void);

/* self.c */
extern const DcCatalog selves;
extern bool self_read(DcSelfRow *row);
extern void self_insert(DcSelfRow *row);
extern void self_update(const DcSelfRow *row);
extern bool self_is_here(const DcSelfRow *row);
extern bool self_is_begun(const DcSelfRow *row);
extern void self_here(DcSelfRow *row);
extern Datum self_new_boot(void);
extern Datum self_next_boot(Datum boot);
extern bool boots_are_of_series(const char *a, const char *b);
extern void self_marks(const DcSelfRow *row, DcSelfMarks *marks);
extern void self_mark(int64 epoch, const char *what, TimestampTz at);
extern void self_mark_copied(int64 epoch, const char *peer, TimestampTz at);
extern TimestampTz self_copied_at(int64 epoch, const char *peer);
extern void self_forget_marks(int64 epoch, bool all);
extern bool self_needs_renew(const DcSelfRow *row);
extern TimestampTz epoch_time(int64 epoch);
extern Oid self_relation(void);

/* beatrow.c */
extern const char *const beat_columns;
extern List *beats_all(void);
extern List *beats_of(const char *region);
extern bool beat_find(const char *region, int64 epoch, DcBeat *beat, ItemPointer tid);
extern bool beat_lock(const char *region, int64 epoch, DcBeat *beat, ItemPointer tid);
extern void beat_store(ItemPointer tid, const DcBeat *beat);
extern bool beat_read_tuple(Relation rel, HeapTuple tuple, DcBeat *beat);
extern HeapTuple beat_form_tuple(Relation rel, const DcBeat *beat);
extern Oid beats_relation(void);
extern char *boot_text(Datum boot);

/* beat.c */
extern void beat_raise(const DcSelfRow *self, bool published);
extern void beat_tell(TimestampTz at);
extern bool beat_publishes(void);
extern bool beat_has_news(void);
extern void beat_forget_news(void);

/* seen.c */
extern List *seen_regions(const DcBeat *beat);
extern Datum seen_now(const DcSelfRow *self, Datum before, List *const *aside);
extern bool seen_is_behind(const DcBeat *beat);
extern bool seen_aside(const DcBeat *beat, const char *name);
extern bool seen_get(const DcBeat *beat, const char *region, DcSeen *seen);
extern bool seen_past(const DcBeat *beat, const char *region, List **past);
extern List *beats_current(List *beats);
extern bool region_has_others(const char *own);
extern bool beat_is_active(const DcBeat *beat);

/* unpublished.c */
extern void unpublished_looks_begin(void);
extern bool unpublished_looks(void);
extern bool unpublished_run(DcJobRun *run);
extern bool unpublished_looked(void);
extern TimestampTz unpublished_look_all(void);
extern TimestampTz unpublished_before(void);
extern List *unpublished_aside(bool *any);
extern void unpublished_forget(DcCounter *counter, const DcBatch *batch);
extern void unpublished_end(void);

/* boot.c */
extern bool boot_is_held(void);
extern void boot_await(void);
extern bool region_job(DcJobRun *run);
extern bool region_job_is_needed(void);
extern DcMoment region_job_due(void);

/* seal.c */
extern bool restore_is_under_way(bool worker);
extern bool worker_may(Oid counter);
extern List *replicated_lock(void);
extern DcCounter *replicated_lock_one(const DcCounterRow *row, bool worker);
extern void seal_all(List *counters, const DcSelfRow *self, bool free);
extern int64 fold_some(List *counters, const DcSelfRow *self, int64 limit, bool *more);
extern bool seal_and_fold(List *counters, const DcSelfRow *self, bool seals, bool folds);
extern bool is_owners_error(int code);
extern int64 *owner_time(List **times, Oid owner);

/* sealturns.c */
extern void turns_begin(DcSelfRow *self, DcLifeChange change, DcRights rights, bool seals, bool folds);
extern DcLifeChange turns_for(const DcSelfRow *self, DcRights *rights);
extern bool turns_are_over(void);
extern bool turns_lead_to_change(void);
extern bool turns_have_sealed(bool seals, bool folds);
extern void turns_end(const DcSelfRow *self, bool done);
extern DcMoment turns_due(void);
extern bool turns_run(DcJobRun *run);
extern bool worker_is_patient(void);

/* beatmerge.c */
extern bool epoch_was_continued(const char *region, const DcSeen *seen);

/* renew.c */
extern void region_renew(DcSelfRow *self, DcRights rights, bool worker);
extern bool fold_sealed(DcSelfRow *self, bool worker);
extern void region_copied(const char *peer, TimestampTz since);
extern bool lacks_nothing(const DcSelfRow *self);
extern void end_recopy(DcSelfRow *self);

/* counterpublication.c */
extern void counter_publish(const DcCounterRow *row, const char *region);
extern int publications_complete(const char *region, bool all);
extern bool publications_are_complete(void);

#endif /* DC_LIFE_H */
