/*
 * regionset.c
 *		Setting and deleting keys of a replicated counter.
 *
 * Copyright (c) 2026, the dcounter developers
 *
 * core/counter/setregion.c has locked the key, deleted its shard rows and locked its row of totals.
 * Then:
 *
 *	1. The slot that this database counts in is locked, so that compaction, which skips keys whose
 *	   slot is locked, does not add to it. Local counts in the deleted shard rows will be added to
 *	   it (folded), or to a new slot: then compaction is kept away until that exists. So the state
 *	   that a set observes is one that the slot has had. Otherwise two sets that have observed
 *	   different parts of it would not add up.
 *	2. Rows of sets, slots, totals and shard rows with amounts of other regions are read in one
 *	   snapshot. As each transaction changes totals or shard rows and slots by the same amount, the
 *	   new totals follow from these, whatever is merged or compacted in the meantime: the value of
 *	   the key, by the formula in sets.h, less the shard rows.
 *	3. This region's row of sets is written: a stamp after all of the key, the new value, and all
 *	   slots, with those that any row of sets has observed. dc_delete() closes them. It does so even
 *	   for a key that does not exist here: another region may have set it, and of two concurrent
 *	   sets the later one wins.
 *	4. This database's slot is written last (region.h).
 *
 * Increments that are committed after step 2 has read the rows are added to the new value; all
 * others belong to the old one. The same holds for increments of other regions: they are observed,
 * or not.
 *
 * A deletion waits for the slot's lock even if it has nothing to add, and compaction looks for
 * deletions when it has that lock. So when a deletion is committed, nothing more is added here to a
 * slot that it has closed. (There may be no slot yet. A compaction at the same time then inserts
 * one, which is open: the deletion has not observed it.)
 *
 * Under REPEATABLE READ and SERIALIZABLE rows of sets and slots that have changed since the
 * snapshot are a serialization failure, as are those of the counter's tables.
 */
#include "postgres.h"

#include "access/detoast.h"
#include "access/xact.h"
#include "catalog/pg_type.h"
#include "storage/lmgr.h"
#include "utils/builtins.h"
#include "utils/snapmgr.h"
#include "utils/timestamp.h"

#include "base/args.h"
#include "base/errors.h"
#include "core/compact/compactbatch.h"
#include "core/rows/locks.h"
#include "core/rows/sums.h"
#include "region/sets.h"
#include "types/crdt/crdttype.h"
#include "types/crdt/hlcclock.h"
#include "types/crdt/stamp.h"

/* key: the amounts in the totals, and those of other regions in shard rows */
static const DcStatement sql_amounts = {
	.text = "SELECT t.inc, t.dec, true FROM @totals AS t WHERE t.key = $1"
			" UNION ALL SELECT s.inc, s.dec, false FROM @shards AS s WHERE s.key = $1 AND s.shard < 0",
	.argtypes = {TEXTOID},
	.columns = {DC_BIGINT("inc"), DC_BIGINT("dec"), DC_COLUMN("is total", BOOLOID)}};

/* keys: totals that are zero */
static const DcStatement sql_drop_empty = {
	.text = "DELETE FROM @totals AS t WHERE t.key = ANY ($1) AND t.inc = 0 AND t.dec = 0",
	.argtypes = {TEXTARRAYOID}};

/* All that a database has of a key, in one snapshot. */
typedef struct DcKeyRows
{
	DcSetRows sets;
	List *slots;
	DcTally total;
	DcTally remote;
} DcKeyRows;

/* A key that is being set. */
typedef struct DcSetting
{
	DcSqlSession *session;
	DcRegionSetting *setting;
	DcIdentity identity;
	Datum key; /* text */
	DcRegionRel slots;
	DcRegionRel sets;
	DcKeyRows rows;
	bool has_own; /* there is an open slot, which is locked */
	bool opens;	  /* a slot has to be opened: compaction is kept away */
	DcRegionRow own;
	int64 own_inc; /* the amounts that are folded into it */
	int64 own_dec;
} DcSetting;

static void lock_own(DcSetting *set);
static bool own_is_open(DcSetting *set);
static void regionset_read_rows(DcSetting *set, DcKeyRows *rows);
static void read_rows_of_snapshot(DcSetting *set, DcKeyRows *rows);
static void regionset_check_snapshot(DcSetting *set);
static bool same_rows(const DcKeyRows *a, const DcKeyRows *b);
static void fold_own(DcSetting *set);
static void make_row(DcSetting *set, DcSetRow *row);
static void write_set(DcSetting *set, const DcSetRow *row);
static void write_own(DcSetting *set);
static int keep_deleted(DcCounter *counter, Datum *keys, int n);

/*
 * region_lock locks the tables of regions and of sets of a replicated counter, before its other
 * tables.
 */
void
region_lock(DcCounter *counter)
{
	LockRelationOid(counter->row.regions, RowExclusiveLock);
	LockRelationOid(counter->row.sets, RowExclusiveLock);
}

/*
 * region_set_begin prepares for setting keys of a counter. 55000 if this database may not publish.
 */
void
region_set_begin(DcCounter *counter)
{
	DcIdentity identity;
	DcRegionRel sets;

	region_lock(counter); /* it may have become replicated just now */
	region_identity_needed(&identity);
	regionrel_open(&sets, counter, TABLE_OF_SETS, NoLock);
	sets_first(&sets);
	regionrel_close(&sets);
}

/*
 * region_set sets or deletes a key.
 */
void
region_set(DcSqlSession *session, const DcKey *key, DcRegionSetting *setting)
{
	DcSetting set = {.session = session, .setting = setting, .key = key_text_datum(key)};
	DcTally before;
	DcTally after;
	DcTally value;
	DcSetRows sets;
	DcSetRow row;

	region_identity_needed(&set.identity);
	regionrel_open(&set.slots, session->counter, TABLE_OF_REGIONS, NoLock);
	regionrel_open(&set.sets, session->counter, TABLE_OF_SETS, NoLock);
	set.own_inc = sums_to_bigint(setting->own->inc, "amount");
	set.own_dec = sums_to_bigint(setting->own->dec, "amount");
	lock_own(&set);
	regionset_read_rows(&set, &set.rows);
	regionset_check_snapshot(&set);
	fold_own(&set);
	before = sets_tally(&set.rows.sets);
	after = slots_tally(set.rows.slots);
	before.inc += after.inc;
	before.dec += after.dec;
	setting->known = before.inc - before.dec >= PG_INT64_MIN && before.inc - before.dec <= PG_INT64_MAX;
	setting->old = setting->known ? (int64) (before.inc - before.dec) : 0;
	make_row(&set, &row);
	sets = set.rows.sets;
	set_rows_put(&sets, &row);
	value = sets_tally(&sets);
	after.inc += value.inc - set.rows.remote.inc;
	after.dec += value.dec - set.rows.remote.dec;
	setting->total_inc = tally_to_bigint(after.inc);
	setting->total_dec = tally_to_bigint(after.dec);
	setting->inc = tally_to_bigint(after.inc - set.rows.total.inc);
	setting->dec = tally_to_bigint(after.dec - set.rows.total.dec);
	write_set(&set, &row);
	write_own(&set);
	region_published();
	if (set.opens)
		let_in_compaction(session->counter);
	regionrel_close(&set.sets);
	regionrel_close(&set.slots);
}

/*
 * lock_own finds the slot that this database counts in, and locks it. If a new one has to be opened
 * it keeps compaction from doing so.
 */
static void
lock_own(DcSetting *set)
{
	bool folds = set->own_inc != 0 || set->own_dec != 0;

	set->has_own = own_is_open(set);
	if (!set->has_own && folds)
	{
		lock_out_compaction(set->session->counter);
		set->opens = true;
		set->has_own = own_is_open(set);
	}
	while (set->has_own && !region_row_lock(&set->slots, &set->own))
	{
		CHECK_FOR_INTERRUPTS();
		set->has_own = own_is_open(set); /* removed by hand */
	}
}

/*
 * Find the slot that this database counts in, and return true if it is there and open. Otherwise
 * set->own has the epoch of the next one.
 */
static bool
own_is_open(DcSetting *set)
{
	if (!slot_find_own(&set->slots, set->key, &set->identity, &set->own))
	{
		set->own = (DcRegionRow){.epoch = slot_epoch_next(set->session->counter, &set->identity, NULL)};
		return false;
	}
	if (slot_is_open(&set->own, set_observed_now(&set->sets, set->key)))
		return true;
	set->own = (DcRegionRow){.epoch = slot_epoch_next(set->session->counter, &set->identity, &set->own)};
	return false;
}

/*
 * regionset_read_rows reads all rows of the key, as of now.
 */
static void
regionset_read_rows(DcSetting *set, DcKeyRows *rows)
{
	Snapshot snapshot = RegisterSnapshot(GetLatestSnapshot());

	PushActiveSnapshot(snapshot);
	read_rows_of_snapshot(set, rows);
	PopActiveSnapshot();
	UnregisterSnapshot(snapshot);
}

/*
 * Read the rows of sets and slots of the key, and the sums of its totals and of its remote shard
 * rows, in the active snapshot.
 */
static void
read_rows_of_snapshot(DcSetting *set, DcKeyRows *rows)
{
	DcSqlSession *session = set->session;
	uint64 n;

	memset(rows, 0, sizeof(*rows));
	set_rows_read(&set->sets, set->key, GetActiveSnapshot(), &rows->sets);
	set_rows_check(&set->sets, &rows->sets);
	rows->slots = region_rows_read(&set->slots, set->key, GetActiveSnapshot());
	n = sql_read(session, &sql_amounts, &set->key);
	for (uint64 i = 0; i < n; i++)
	{
		DcTally *tally = DatumGetBool(rows_datum(&session->rows, i, 3)) ? &rows->total : &rows->remote;

		tally->inc += rows_bigint(&session->rows, i, 1);
		tally->dec += rows_bigint(&session->rows, i, 2);
	}
}

/*
 * regionset_check_snapshot raises 40001 if this transaction has a single snapshot that does not
 * show the present rows.
 */
static void
regionset_check_snapshot(DcSetting *set)
{
	DcKeyRows rows;

	if (!IsolationUsesXactSnapshot())
		return;
	PushCopiedSnapshot(GetTransactionSnapshot());
	UpdateActiveSnapshotCommandId();
	read_rows_of_snapshot(set, &rows);
	PopActiveSnapshot();
	if (!same_rows(&rows, &set->rows))
		serialization_error();
}

/*
 * Return true if both have the same versions of rows, and the same sums: nothing has changed in
 * between.
 */
static bool
same_rows(const DcKeyRows *a, const DcKeyRows *b)
{
	if (a->sets.n != b->sets.n || list_length(a->slots) != list_length(b->slots) ||
		a->total.inc != b->total.inc || a->total.dec != b->total.dec ||
		a->remote.inc != b->remote.inc || a->remote.dec != b->remote.dec)
		return false;
	for (int i = 0; i < a->sets.n; i++)
	{
		if (!ItemPointerEquals(&a->sets.rows[i].tid, &b->sets.rows[i].tid))
			return false;
	}
	for (int i = 0; i < list_length(a->slots); i++)
	{
		DcRegionRow *left = list_nth(a->slots, i);
		DcRegionRow *right = list_nth(b->slots, i);

		if (!ItemPointerEquals(&left->tid, &right->tid))
			return false;
	}
	return true;
}

/*
 * fold_own adds local counts to this database's slot among those that were read. It is not written
 * yet.
 */
static void
fold_own(DcSetting *set)
{
	DcRegionRow *own = NULL;
	ListCell *lc;

	if (set->own_inc == 0 && set->own_dec == 0)
		return;
	foreach(lc, set->rows.slots)
	{
		DcRegionRow *row = lfirst(lc);

		if (set->has_own && ItemPointerEquals(&row->tid, &set->own.tid))
			own = row;
	}
	if (own == NULL)
	{
		if (set->has_own)
			serialization_error(); /* changed by hand */
		own = palloc0(sizeof(DcRegionRow));
		own->key = set->key;
		own->region = CStringGetTextDatum(set->identity.region);
		own->epoch = set->own.epoch;
		set->rows.slots = lappend(set->rows.slots, own);
	}
	own->inc = tally_to_bigint((__int128) own->inc + set->own_inc);
	own->dec = tally_to_bigint((__int128) own->dec + set->own_dec);
	own->at = GetCurrentTimestamp();
	set->own = *own;
}

/*
 * make_row makes this region's row of sets.
 */
static void
make_row(DcSetting *set, DcSetRow *row)
{
	const DcSetRow *last = sets_last(&set->rows.sets);

	*row = (DcSetRow){
		.key = set->key,
		.region = CStringGetTextDatum(set->identity.region),
		.hlc = stamp_next(hlc_clock_next(0), 0, last != NULL ? last->hlc : 0),
		.value = set->setting->value,
		.deleted = set->setting->deleted,
		.upto = crdt_merge_datums(sets_observed(&set->rows.sets), observed_slots(set->rows.slots)),
	};
	if (row->deleted)
		row->upto = observed_close(row->upto);
	if (toast_raw_datum_size(row->upto) > SET_OBSERVED_MAX)
		ereport(ERROR,
				(errcode(ERRCODE_PROGRAM_LIMIT_EXCEEDED),
				 errmsg("key \"%s\" has been deleted and counted again too often", TextDatumGetCString(set->key)),
				 errhint("Call dc_region_vacuum() in each region while the key is deleted.")));
	if (row->hlc > STAMP_MAX_TIME)
		ereport(ERROR,
				(errcode(ERRCODE_DATETIME_VALUE_OUT_OF_RANGE),
				 errmsg("stamp out of range")));
}

/*
 * write_set writes the row of sets. It updates this region's existing row only if no other region
 * can have removed that (setrow.c).
 */
static void
write_set(DcSetting *set, const DcSetRow *row)
{
	const DcSetRow *last = sets_last(&set->rows.sets);
	const DcSetRow *have = set_rows_find(&set->rows.sets, row->region);
	DcSetRow new = *row;

	if (have == NULL)
	{
		set_row_insert(&set->sets, row);
		return;
	}
	new.tid = have->tid;
	if (have == last && !have->deleted)
		set_row_update(&set->sets, &new);
	else
		set_row_insert_again(&set->sets, &new);
}

/*
 * write_own writes this database's slot, if it has grown.
 */
static void
write_own(DcSetting *set)
{
	if (set->own_inc == 0 && set->own_dec == 0)
		return;
	if (set->has_own ? !region_row_replace(&set->slots, &set->own, true)
					 : !region_row_insert(&set->slots, &set->own))
		serialization_error(); /* written by hand, or by a copy of this database */
	CommandCounterIncrement();
}

/*
 * region_written removes totals that are zero after a batch, if their keys are deleted. The rows
 * are locked.
 */
void
region_written(DcSqlSession *session, DcBatch *batch)
{
	Datum *keys = palloc(Max(batch->nkeys, 1) * sizeof(Datum));
	int n = 0;

	for (int i = 0; i < batch->nkeys; i++)
	{
		const DcBatchKey *key = &batch->keys[i];

		if (!key->skip && (key->used || key->has_total) && key->inc == 0 && key->dec == 0)
			keys[n++] = key->key;
	}
	n = keep_deleted(session->counter, keys, n);
	if (n > 0)
	{
		Datum array = array_datum(keys, n, TEXTOID);

		sql_run(session, &sql_drop_empty, &array);
	}
}

/*
 * keep_deleted keeps only the deleted ones of some keys, and returns how many there are.
 */
static int
keep_deleted(DcCounter *counter, Datum *keys, int n)
{
	MemoryContext cxt;
	MemoryContext old;
	int kept = 0;
	Snapshot snapshot;
	DcRegionRel sets;

	if (n == 0)
		return 0;
	cxt = AllocSetContextCreate(CurrentMemoryContext, "dcounter deleted keys", ALLOCSET_DEFAULT_SIZES);
	regionrel_open(&sets, counter, TABLE_OF_SETS, RowExclusiveLock);
	snapshot = RegisterSnapshot(GetLatestSnapshot());
	old = MemoryContextSwitchTo(cxt);
	for (int i = 0; i < n && !setrel_is_empty(&sets); i++)
	{
		const DcSetRow *last;
		DcSetRows rows;

		set_rows_read(&sets, keys[i], snapshot, &rows);
		last = sets_last(&rows);
		if (last != NULL && last->deleted && !rows.too_many)
			keys[kept++] = keys[i];
		MemoryContextReset(cxt);
	}
	MemoryContextSwitchTo(old);
	MemoryContextDelete(cxt);
	UnregisterSnapshot(snapshot);
	regionrel_close(&sets);
	return kept;
}
