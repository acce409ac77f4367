/*
 * unpublished.c
 *		The time before which all local commits are published.
 *
 * Copyright (c) 2026, the dcounter developers
 *
 * The worker lists the local shard rows with amounts of each counter, as of a moment. When each of
 * these has been published since, everything that was committed in the counter before that moment
 * is published. A row is removed from the list when a committed compaction of this process included
 * it, or when a later look finds no amount in it: then another process has compacted it. So this
 * does not need a moment at which there is nothing to publish, which may never come. Each look at a
 * counter is a step of its own.
 *
 * Amounts in memory have been there for a flush interval at most. If the counter is buffered, that
 * is subtracted.
 *
 * Looks at all counters of an owner take OWNER_MS, or a step more, if others wait for theirs. The
 * rest is skipped this time, and comes first the next time.
 *
 * Amounts that can never be published, or not for long (a sum that would overflow bigint, a table
 * that its owner has locked, very many rows) must not hold back the time in the heartbeats of the
 * whole region, which others wait for before they remove something (seen.c). So a counter that has
 * made no progress for dcounter.region_handshake is put aside, with a warning: the heartbeats then
 * have the time of the other counters, and its name (seen.c), which dc_regions() and
 * dc_get_regions() consider. If no time could be sent for that long, counters of which nothing is
 * known yet are put aside as well, as an owner may replicate one after the other. Nothing is lost:
 * the counter is compacted as usual, and when a look finds progress, the heartbeats wait for it
 * again. The removal of deleted keys does not depend on it (regionvacuum.c): a deletion is
 * published by the transaction that deletes, and later counts come as a row of their own.
 *
 * Rows are read below SQL, as a snapshot shows them: no code of an owner runs, and a table without
 * the columns is passed over, as it publishes nothing.
 */
#include "postgres.h"

#include "access/detoast.h"
#include "access/tableam.h"
#include "access/xact.h"
#include "catalog/pg_type.h"
#include "common/hashfn.h"
#include "miscadmin.h"
#include "storage/lmgr.h"
#include "utils/hsearch.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"
#include "utils/snapmgr.h"

#include "base/compat.h"
#include "base/guc.h"
#include "base/relopen.h"
#include "base/rowread.h"
#include "base/xactrooms.h"
#include "core/rows/shardnumber.h"
#include "core/table/tablejob.h"
#include "region/life.h"

/*
 * There is no list if it would have more rows than this, or if reading them takes longer than
 * MAX_READ_MS.
 */
#define MAX_ROWS 100000

/* With this many rows on the lists of an owner, no more are listed. */
#define MAX_ROWS_OF_OWNER 300000
#define MAX_READ_MS 2000

/* How long the looks at an owner's counters may take together. */
#define OWNER_MS DC_STEP_MS

/* How many names of an owner's counters that are put aside are sent. */
#define MAX_ASIDE 20

/* A row on the list. */
typedef struct Unpublished
{
	Oid counter;
	int32 shard;
	uint64 key; /* hash: if two keys share one, the list is longer than it must be, or two rows are removed as one */
} Unpublished;

/* The unpublished keys of a counter, as far as this process knows. */
typedef struct Known
{
	Oid counter;	   /* hash key */
	MemoryContext cxt; /* the list is in it; NULL: there is none */
	HTAB *list;
	Oid owner;
	int nlisted; /* rows when it was made: removed rows free no memory */
	TimestampTz listed_at;
	TimestampTz all_before; /* DT_NOBEGIN: not known */
	bool held;				/* it had made no progress at the last look, */
	DcMoment held_since;
	bool aside;	   /* for long */
	DcMoment next; /* then it is looked at again */
} Known;

static HTAB *known_counters = NULL; /* Known */

/*
 * The counters that the worker has yet to look at (Oid, in TopMemoryContext), and whether it has
 * looked at all.
 */
static List *to_look = NIL;
static bool looked = false;
static bool is_worker = false;

/* Whether these are of several owners, and how long the looks have taken, for each (owner_time). */
static bool several_owners = false;
static List *times = NIL;

/* A look of the worker's. */
typedef struct Look
{
	Oid counter;
	Oid owner; /* out */
} Look;

/* It does not know a time before which everything was published, and since when that is so. */
static bool unknown = false;
static DcMoment unknown_since;

/* Rows that this transaction has published, in TopTransactionContext. */
static Unpublished *published = NULL;
static int npublished;
static int npublished_max;

static void unpublished_forget_dropped(void);
static void recall_aside(void);
static void unpublished_look_step(void *arg);
static void hold_step(void *arg);
static void unpublished_look_at(Oid counter);
static int64 rows_of_owner(const Known *but);
static Known *known_of(Oid counter);
static void forget_list(Known *of);
static bool strike_off(HTAB *list, HTAB *rows);
static void unpublished_hold(Known *of, const char *reason);
static void put_aside(Known *of, const char *reason);
static int count_aside(Oid owner);
static void come_further(Known *of, TimestampTz all_before);
static const char *list_counter(HTAB *rows, const DcCounterRow *row);
static const char *list_leaf(HTAB *rows, Oid counter, Oid relid, DcMoment began);
static AttrNumber unpublished_column(Oid relid, const char *name, Oid type);
static uint64 hash_key(Datum key);
static bool unpublished_is_idle(void);
static void unpublished_xact_callback(XactEvent event, void *arg);

/*
 * unpublished_looks_begin lets the worker look at all counters.
 */
void
unpublished_looks_begin(void)
{
	MemoryContext old;
	ListCell *lc;

	if (known_counters == NULL)
		recall_aside();
	unpublished_forget_dropped();
	list_free(to_look);
	to_look = NIL;
	list_free_deep(times);
	times = NIL;
	several_owners = false;
	foreach(lc, catalog_read_all())
	{
		const DcCounterRow *row = lfirst(lc);

		CHECK_FOR_INTERRUPTS();
		if (!OidIsValid(row->regions))
			continue;
		several_owners |= to_look != NIL && relation_owner(row->counter) != relation_owner(linitial_oid(to_look));
		old = MemoryContextSwitchTo(TopMemoryContext);
		to_look = known_of(row->counter)->held ? lcons_oid(row->counter, to_look) : lappend_oid(to_look, row->counter);
		MemoryContextSwitchTo(old);
	}
	looked = to_look == NIL;
}

/*
 * unpublished_looks returns true while the worker has counters to look at.
 */
bool
unpublished_looks(void)
{
	return to_look != NIL;
}

/*
 * Forget what is known of counters that were dropped.
 */
static void
unpublished_forget_dropped(void)
{
	HASH_SEQ_STATUS status;
	Known *of;

	if (known_counters == NULL)
		return;
	hash_seq_init(&status, known_counters);
	while ((of = hash_seq_search(&status)) != NULL)
	{
		if (get_rel_name(of->counter) != NULL)
			continue;
		forget_list(of);
		(void) hash_search(known_counters, &of->counter, HASH_REMOVE, NULL);
	}
}

/*
 * recall_aside puts counters aside that the previous worker had put aside: the heartbeat still has
 * their names.
 */
static void
recall_aside(void)
{
	ItemPointerData tid;
	DcSelfRow self;
	DcBeat beat;
	ListCell *lc;

	is_worker = true;
	if (!self_read(&self) || !beat_find(self.region, self.epoch, &beat, &tid))
		return;
	foreach(lc, catalog_read_all())
	{
		const DcCounterRow *row = lfirst(lc);
		Known *of;

		CHECK_FOR_INTERRUPTS();
		if (!OidIsValid(row->regions) || get_rel_name(row->counter) == NULL || !seen_aside(&beat, relation_sql_name(row->counter)))
			continue;
		of = known_of(row->counter);
		of->held = of->aside = true;
		of->held_since = DC_LONG_AGO;
	}
}

/*
 * unpublished_run looks at the counters that the worker has yet to look at; true if it has to
 * yield.
 */
bool
unpublished_run(DcJobRun *run)
{
	while (to_look != NIL)
	{
		Look look = {.counter = linitial_oid(to_look)};
		bool done;

		if (job_is_late(run))
			return true;
		to_look = list_delete_first(to_look);
		run->limit = DC_STEP_MS;
		done = run->step(run, unpublished_look_step, &look, look.counter);
		if (OidIsValid(look.owner))
			*owner_time(&times, look.owner) += run->took;
		if (!done)
			(void) run->step(run, hold_step, &look.counter, InvalidOid);
		run->limit = 0;
		looked = to_look == NIL;
	}
	return false;
}

/*
 * unpublished_looked returns true if the worker has looked at all counters since the last
 * unpublished_before().
 */
bool
unpublished_looked(void)
{
	return looked && to_look == NIL;
}

/*
 * Look at a counter, unless the tables of its owner have used up the time of this round.
 */
static void
unpublished_look_step(void *arg)
{
	Look *look = arg;

	if (get_rel_name(look->counter) == NULL)
		return;
	look->owner = relation_owner(look->counter);
	if (!several_owners || table_is_trusted(look->counter) || *owner_time(&times, look->owner) < OWNER_MS * INT64CONST(1000))
		unpublished_look_at(look->counter);
	else
		unpublished_hold(known_of(look->counter), _("Other tables of its owner took too long."));
}

/*
 * hold_step holds a counter that could not be checked.
 */
static void
hold_step(void *arg)
{
	unpublished_hold(known_of(*(Oid *) arg), _("It could not be examined in time."));
}

/*
 * unpublished_look_all looks at all counters now, in a process that has not done so before, and
 * returns as unpublished_before().
 */
TimestampTz
unpublished_look_all(void)
{
	ListCell *lc;

	unpublished_end();
	foreach(lc, catalog_read_all())
	{
		const DcCounterRow *row = lfirst(lc);

		CHECK_FOR_INTERRUPTS();
		if (OidIsValid(row->regions))
			unpublished_look_at(row->counter);
	}
	return unpublished_before();
}

/*
 * unpublished_before returns a time before which everything was published, except for counters that
 * are put aside; DT_NOBEGIN if that is not known now. A later look may know.
 */
TimestampTz
unpublished_before(void)
{
	TimestampTz before = GetCurrentTimestamp();
	bool waits = !is_worker || !unknown || moment_age(unknown_since) < dc_region_handshake * INT64CONST(1000);
	ListCell *lc;

	looked = false;
	foreach(lc, catalog_read_all())
	{
		const DcCounterRow *row = lfirst(lc);
		Known *of;

		CHECK_FOR_INTERRUPTS();
		if (!OidIsValid(row->regions))
			continue;
		of = known_of(row->counter);
		if (of->all_before == DT_NOBEGIN && !waits)
			put_aside(of, _("It was replicated recently, and others were replicated before it."));
		if (!of->aside)
			before = Min(before, of->all_before);
	}
	if (!unknown)
		unknown_since = moment_now();
	unknown = before == DT_NOBEGIN;
	return before;
}

/*
 * unpublished_aside returns the names of the counters that are put aside (char *), if this process
 * is the worker; *any: it is.
 */
List *
unpublished_aside(bool *any)
{
	List *names = NIL;
	List *owners = NIL; /* of these */
	ListCell *lc;

	*any = is_worker && known_counters != NULL;
	foreach(lc, known_counters == NULL ? NIL : catalog_read_all())
	{
		const DcCounterRow *row = lfirst(lc);
		const Known *of = hash_search(known_counters, &row->counter, HASH_FIND, NULL);
		int told = 0;
		ListCell *owner;

		CHECK_FOR_INTERRUPTS();
		if (of == NULL || !of->aside || get_rel_name(row->counter) == NULL)
			continue;
		foreach(owner, owners)
			told += lfirst_oid(owner) == of->owner;
		if (told == MAX_ASIDE)
			continue;
		names = lappend(names, relation_sql_name(row->counter));
		owners = lappend_oid(owners, of->owner);
	}
	return names;
}

/*
 * unpublished_end forgets all, in a process that does not look again.
 */
void
unpublished_end(void)
{
	HASH_SEQ_STATUS status;
	Known *of;

	if (known_counters == NULL)
		return;
	hash_seq_init(&status, known_counters);
	while ((of = hash_seq_search(&status)) != NULL)
		forget_list(of);
	hash_destroy(known_counters);
	known_counters = NULL;
}

/*
 * unpublished_look_at looks at a counter.
 */
static void
unpublished_look_at(Oid counter)
{
	Known *of = known_of(counter);
	HASHCTL ctl = {.keysize = sizeof(Unpublished), .entrysize = sizeof(Unpublished)};
	TimestampTz now = GetCurrentTimestamp();
	TimestampTz all_before = DT_NOBEGIN;
	DcCounterRow row;
	const char *reason;
	HTAB *rows;

	if (!moment_is_reached(of->next) || !catalog_read(counter, &row) || !OidIsValid(row.regions))
		return;
	ctl.hcxt = AllocSetContextCreate(CurrentMemoryContext, "dcounter unpublished", ALLOCSET_DEFAULT_SIZES);
	PushActiveSnapshot(GetLatestSnapshot());
	rows = hash_create("dcounter unpublished", 256, &ctl, HASH_ELEM | HASH_BLOBS | HASH_CONTEXT);
	of->owner = relation_owner(counter);
	reason = list_counter(rows, &row);
	PopActiveSnapshot();
	if (reason == NULL && rows_of_owner(of) + hash_get_num_entries(rows) > MAX_ROWS_OF_OWNER)
		reason = _("The counters of its owner have too many unpublished rows.");
	if (reason != NULL)
	{
		forget_list(of);
		MemoryContextDelete(ctl.hcxt);
		unpublished_hold(of, reason);
		return;
	}
	if (of->list != NULL && hash_get_num_entries(rows) > 0)
	{
		if (!strike_off(of->list, rows))
		{
			MemoryContextDelete(ctl.hcxt);
			unpublished_hold(of, _("Rows that have existed for a long time are locked, or their sums would be out of range for bigint."));
			return;
		}
		all_before = of->listed_at;
	}
	else if (hash_get_num_entries(rows) == 0)
		all_before = now;
	forget_list(of);
	MemoryContextSetParent(ctl.hcxt, TopMemoryContext);
	of->cxt = ctl.hcxt;
	of->list = rows;
	of->nlisted = hash_get_num_entries(rows);
	of->listed_at = now;
	if (all_before != DT_NOBEGIN)
		come_further(of, all_before - (row.mode == DC_MODE_BUFFERED ? row.flush_interval : 0));
}

/*
 * Return how many rows are on the lists of the other counters of an owner.
 */
static int64
rows_of_owner(const Known *but)
{
	HASH_SEQ_STATUS status;
	Known *of;
	int64 n = 0;

	hash_seq_init(&status, known_counters);
	while ((of = hash_seq_search(&status)) != NULL)
		n += of != but && of->owner == but->owner && of->list != NULL ? of->nlisted : 0;
	return n;
}

/*
 * Return what this process knows of a counter; a new entry knows of nothing that is published.
 */
static Known *
known_of(Oid counter)
{
	HASHCTL ctl = {.keysize = sizeof(Oid), .entrysize = sizeof(Known), .hcxt = TopMemoryContext};
	bool found;
	Known *of;

	if (known_counters == NULL)
		known_counters = hash_create("dcounter published", 64, &ctl, HASH_ELEM | HASH_BLOBS | HASH_CONTEXT);
	of = hash_search(known_counters, &counter, HASH_ENTER, &found);
	if (!found)
		*of = (Known){.counter = counter, .owner = relation_owner(counter), .all_before = DT_NOBEGIN, .next = DC_LONG_AGO};
	return of;
}

/*
 * Drop the list of rows that are not known to be published.
 */
static void
forget_list(Known *of)
{
	of->list = NULL;
	if (of->cxt != NULL)
		MemoryContextDelete(of->cxt);
	of->cxt = NULL;
}

/*
 * strike_off keeps only the rows on a list that are in `rows`; true if none are left.
 */
static bool
strike_off(HTAB *list, HTAB *rows)
{
	HASH_SEQ_STATUS status;
	Unpublished *row;

	hash_seq_init(&status, list);
	while ((row = hash_seq_search(&status)) != NULL)
	{
		if (hash_search(rows, row, HASH_FIND, NULL) == NULL)
			(void) hash_search(list, row, HASH_REMOVE, NULL);
	}
	return hash_get_num_entries(list) == 0;
}

/*
 * unpublished_hold notes that a counter has made no progress, and puts it aside if that lasts. Then
 * it is checked less often.
 */
static void
unpublished_hold(Known *of, const char *reason)
{
	if (!of->held)
		of->held_since = moment_now();
	of->held = true;
	if (moment_age(of->held_since) < dc_region_handshake * INT64CONST(1000))
		return;
	of->next = moment_in(dc_region_handshake * (int64) (1 + count_aside(of->owner)));
	put_aside(of, reason);
}

/*
 * count_aside returns how many counters of an owner are put aside: the more, the less often each is
 * checked, so that together they take no more time than one.
 */
static int
count_aside(Oid owner)
{
	HASH_SEQ_STATUS status;
	Known *of;
	int count = 0;

	hash_seq_init(&status, known_counters);
	while ((of = hash_seq_search(&status)) != NULL)
		count += of->aside && of->owner == owner;
	return count;
}

/*
 * Put a counter aside, with a warning that says why. From then on heartbeats do not wait for it.
 */
static void
put_aside(Known *of, const char *reason)
{
	DcSelfRow self;

	if (of->aside || !self_read(&self))
		return;
	of->aside = true;
	ereport(WARNING,
			(errmsg("counter table \"%s\" is put aside: heartbeats of region \"%s\" no longer wait until it is published", get_rel_name(of->counter), self.region),
			 errdetail_internal("%s", reason),
			 errhint("Once the reason is gone, it is published like the others, and dc_regions() no longer shows \"behind\".")));
}

/*
 * come_further notes that everything that was committed in a counter before a time is published.
 */
static void
come_further(Known *of, TimestampTz all_before)
{
	if (of->aside)
		ereport(LOG,
				(errmsg("counter table \"%s\" is published again", get_rel_name(of->counter))));
	of->held = of->aside = false;
	of->next = DC_LONG_AGO;
	of->all_before = Max(of->all_before, all_before);
}

/*
 * list_counter lists the rows of a counter table. Returns why that cannot be done, as a sentence,
 * or NULL.
 */
static const char *
list_counter(HTAB *rows, const DcCounterRow *row)
{
	DcMoment began = moment_now();
	const char *reason = NULL;
	List *members;
	ListCell *lc;

	if (!ConditionalLockRelationOid(row->shards, AccessShareLock))
		return _("One of its tables is locked.");
	if (get_rel_name(row->shards) == NULL)
		return NULL;
	members = get_rel_relkind(row->shards) == RELKIND_PARTITIONED_TABLE ? relation_members_most(row->shards, NoLock, DC_MANY_MEMBERS)
																		: list_make1_oid(row->shards);
	if (list_length(members) > DC_MANY_MEMBERS)
		return _("It has too many partitions.");
	foreach(lc, members)
	{
		Oid relid = lfirst_oid(lc);

		if (!ConditionalLockRelationOid(relid, AccessShareLock))
			return _("One of its tables is locked.");
		if (reason == NULL && get_rel_relkind(relid) == RELKIND_RELATION)
			reason = list_leaf(rows, row->counter, relid, began);
	}
	return reason;
}

/*
 * Add the local shard rows with amounts of one table to the list. Return why that had to be given
 * up, or NULL. A table whose owner has changed its columns has no such rows.
 */
static const char *
list_leaf(HTAB *rows, Oid counter, Oid relid, DcMoment began)
{
	AttrNumber key = unpublished_column(relid, "key", TEXTOID);
	AttrNumber shard = unpublished_column(relid, "shard", INT4OID);
	AttrNumber inc = unpublished_column(relid, "inc", INT8OID);
	AttrNumber dec = unpublished_column(relid, "dec", INT8OID);
	const char *reason = NULL;
	uint32 n = 0;
	Relation rel;
	TableScanDesc scan;
	TupleTableSlot *slot;

	if (key == 0 || shard == 0 || inc == 0 || dec == 0)
		return NULL;
	rel = table_open_present(relid, NoLock);
	slot = table_slot_create(rel, NULL);
	scan = compat_table_beginscan(rel, GetActiveSnapshot(), 0, NULL);
	while (reason == NULL && table_scan_getnextslot(scan, ForwardScanDirection, slot))
	{
		Unpublished row = {.counter = counter};
		bool isnull[4];
		Datum number = slot_nullable(slot, shard, INT4OID, &isnull[0]);
		Datum more = slot_nullable(slot, inc, INT8OID, &isnull[1]);
		Datum less = slot_nullable(slot, dec, INT8OID, &isnull[2]);
		Datum text = slot_nullable(slot, key, TEXTOID, &isnull[3]);

		CHECK_FOR_INTERRUPTS();
		if (++n % 1024 == 0 && moment_age(began) > MAX_READ_MS * INT64CONST(1000))
			reason = _("Reading its shard rows takes too long.");
		if (isnull[0] || isnull[1] || isnull[2] || isnull[3] || shard_is_remote(DatumGetInt32(number)) ||
			(DatumGetInt64(more) == 0 && DatumGetInt64(less) == 0) ||
			toast_raw_datum_size(text) > DC_MAX_KEY_BYTES + VARHDRSZ) /* that is never published: it is not a valid key */
			continue;
		row.shard = DatumGetInt32(number);
		row.key = hash_key(text);
		(void) hash_search(rows, &row, HASH_ENTER, NULL);
		if (hash_get_num_entries(rows) > MAX_ROWS)
			reason = _("It has too many unpublished rows.");
	}
	table_endscan(scan);
	ExecDropSingleTupleTableSlot(slot);
	table_close(rel, NoLock);
	return reason;
}

/*
 * Return the number of a column of this type, or 0 if there is none.
 */
static AttrNumber
unpublished_column(Oid relid, const char *name, Oid type)
{
	AttrNumber att = get_attnum(relid, name);

	return att > 0 && get_atttype(relid, att) == type ? att : 0;
}

/*
 * Return a hash of a key's bytes. Two keys that share it are taken for one, which only delays the
 * answer.
 */
static uint64
hash_key(Datum key)
{
	text *value = DatumGetTextPP(key);
	uint64 hash = hash_bytes_extended((const unsigned char *) VARDATA_ANY(value), VARSIZE_ANY_EXHDR(value), 0);

	free_detoasted(value, key);
	return hash;
}

/*
 * unpublished_forget strikes off the rows of a batch that was published, when this transaction has
 * committed.
 */
void
unpublished_forget(DcCounter *counter, const DcBatch *batch)
{
	const Known *of = known_counters == NULL ? NULL : hash_search(known_counters, &counter->relid, HASH_FIND, NULL);

	if (of == NULL || of->list == NULL || batch->rows == NULL || hash_get_num_entries(of->list) == 0)
		return;
	xact_mark(DC_XACT_UNPUBLISHED);
	xact_room_add(DC_XACT_UNPUBLISHED, unpublished_xact_callback, NULL, unpublished_is_idle);
	for (int i = 0; i < batch->nkeys; i++)
	{
		const DcBatchKey *key = &batch->keys[i];

		for (int r = key->first; key->published && r < key->first + key->nrows; r++)
		{
			Unpublished row = {.counter = counter->relid, .shard = DatumGetInt32(batch->rows[r].shard), .key = hash_key(key->key)};

			if (published == NULL || npublished == npublished_max)
			{
				int max = published == NULL ? 64 : 2 * npublished_max;

				published = published == NULL
					? MemoryContextAlloc(TopTransactionContext, max * sizeof(Unpublished))
					: repalloc(published, max * sizeof(Unpublished));
				npublished_max = max;
			}
			published[npublished++] = row;
		}
	}
}

/*
 * Return true if the transaction has published no rows that are on the list.
 */
static bool
unpublished_is_idle(void)
{
	return published == NULL;
}

/*
 * After a commit, strike the published rows off the list.
 */
static void
unpublished_xact_callback(XactEvent event, void *arg)
{
	if (event != XACT_EVENT_COMMIT && event != XACT_EVENT_ABORT && event != XACT_EVENT_PREPARE)
		return;
	if (event == XACT_EVENT_COMMIT && known_counters != NULL)
	{
		for (int i = 0; i < npublished; i++)
		{
			const Known *of = hash_search(known_counters, &published[i].counter, HASH_FIND, NULL);

			if (of != NULL && of->list != NULL)
				(void) hash_search(of->list, &published[i], HASH_REMOVE, NULL);
		}
	}
	published = NULL;
	npublished = 0;
}
