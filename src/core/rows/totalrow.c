/*
 * totalrow.c
 *		Adding to rows of totals without SQL: totals first.
 *
 * Copyright (c) 2026, the dcounter developers
 *
 * Shard rows are for keys that several transactions write at once, which most keys are not. So a
 * commit adds its delta of a key to the key's row of totals, and writes a shard row only if it
 * cannot get the row of totals at once:
 *
 *	1. If this session knows a live shard row of the key (hints.c), the key is
 *	   contended, and the delta goes to shard rows (direct.c). Compaction deletes shard
 *	   rows that are idle: then the probe returns GONE, and the session is back here.
 *	2. The row of totals is found by the place where it was last seen, or else by
 *	   the index, newest entry first. A row that another transaction is changing is
 *	   busy. A free one is updated without waiting, as a shard row is (direct.c has why the
 *	   version that was read is the latest one if the update succeeds).
 *	3. If the update is refused, and others have only locked the row, it is locked once,
 *	   without waiting: FOR KEY SHARE, which foreign keys take, is compatible with
 *	   adding.
 *	4. A key without a row gets one by a speculative insertion, as ON CONFLICT makes them:
 *	   the row and its index entry are inserted, and the index says whether it knows another row of
 *	   the key, even one whose insertion or deletion is in progress. If it does, the new row is
 *	   taken back.
 *	5. In all other cases the delta goes to shard rows: busy, refused, a conflict, a sum that
 *	   overflows bigint, or no room.
 *
 * Nothing here waits for a row or for a transaction. So it can neither be part of a deadlock
 * nor make a commit fail. A row of totals stays locked from here to the end of the commit, so
 * setters (set.c) and users' own UPDATEs may wait for it.
 * Committing transactions wait for none of these: apply.c has the argument.
 *
 * Exactly once. An amount is in a row of totals or in a shard row, never in both, and one
 * transaction writes it there. Readers take the sum over both tables in one snapshot, so
 * where an amount went makes no difference to them. Compaction and dc_set() lock the row of totals
 * before they read it and until they have replaced it; an update that does not wait is
 * refused in the meantime.
 *
 * Rows of totals are inserted by commits (4), compaction, flushes of buffered tables, and
 * users. A commit never waits for another inserter, which may be a prepared transaction. Nor
 * does compaction of a table that qualifies: it inserts by total_insert(), too, and leaves a
 * key that another one is inserting for the next time. Others that insert the key find our row
 * while it is in the making, and then wait, for the insertion's token or for our commit, as for
 * any other.
 *
 * Compaction skips rows of totals that are locked, and one session that commits
 * increments of one key back to back keeps that row locked nearly all the time. So that the shard
 * rows of that key do not wait forever, each LOOK_EVERY-th update of a row looks for shard rows of
 * the key. If there are any, the session switches to them. It does so as well if a
 * transaction sets the key (locks.c), since that may be waiting for the row of totals, and
 * updates that do not wait do not queue behind it.
 *
 * Old snapshots. While one is held, the versions of a row cannot be removed. A row that has
 * many of them would make the table slow to read, so it is left to compaction, which changes it
 * only once per round. A row with few versions may move to another page: there are only as many
 * such keys as there is traffic on cold keys.
 *
 * The table qualifies (counter->direct_totals, layout.c) if an update needs to write the tuple
 * and nothing else, so the generated column is computed here: value is exactly inc - dec.
 * Whether it qualifies is asked again after the table was opened and for each key, since code
 * of the owner may run in between, and invalidations of other sessions may come in. An
 * invalidation that comes later than that does no harm: any change that would conflict with
 * writing a row takes a lock on the table that conflicts with ours. An index that is built without
 * such a lock waits for us before it relies on containing all changes, and a publication decodes
 * our rows like any others.
 */
#include "postgres.h"

#include "access/genam.h"
#include "access/heapam.h"
#include "access/htup_details.h"
#include "access/skey.h"
#include "access/tableam.h"
#include "access/xact.h"
#include "catalog/pg_collation.h"
#include "common/int.h"
#include "miscadmin.h"
#include "storage/bufmgr.h"
#include "storage/lmgr.h"
#include "utils/builtins.h"
#include "utils/fmgroids.h"
#include "utils/memutils.h"
#include "utils/timestamp.h"

#include "base/compat.h"
#include "core/rows/direct.h"
#include "core/rows/locks.h"
#include "core/rows/scan.h"
#include "core/rows/totalrow.h"
#include "core/table/layout.h"

/*
 * Places that are remembered, a power of two. Keys that share one push each other out.
 */
#define PLACES 4096

/*
 * Updates at one place after which to look for shard rows. A prime: keys that share
 * the place by turns have their turns to look as well.
 */
#define LOOK_EVERY 61

/* Index entries of a key to follow before a commit gives up. */
#define MAX_ENTRIES 8

/* Versions of a row on a full page from which on it is left to compaction. */
#define MANY_VERSIONS 4

/*
 * Where this session last saw the row of totals of a key. As the row is checked (probe.c),
 * the hash is enough for a key.
 */
typedef struct DcPlace
{
	uint32 hash;
	Oid counter; /* InvalidOid: none */
	DcHint hint;
	uint8 uses; /* of this place, by any key; up to LOOK_EVERY */
} DcPlace;

/* The answer of the index. */
typedef enum DcTotalState
{
	TOTAL_FREE, /* the probe has it */
	TOTAL_BUSY, /* another transaction changes, inserts or deletes it */
	TOTAL_NONE, /* there is no row */
	TOTAL_FAR	/* too many entries lead nowhere */
} DcTotalState;

/* In TopMemoryContext, made when first needed, and kept until the session ends. */
static DcPlace *places = NULL;

static DcPlace *delta_place(const DcDeltaKey *key);
static bool must_leave(DcDirectTables *tables, const DcDelta *delta, DcPlace *place);
static DcTotalState find_total(DcDirectRel *rel, const DcDeltaKey *key, DcHint *hint,
							   DcProbe *probe);
static DcTotalState totalrow_find_by_index(DcDirectRel *rel, const DcDeltaKey *key, DcHint *hint,
										   DcProbe *probe);
static bool update_total(DcDirectRel *rel, const DcDelta *delta, DcHint *hint,
						 DcVersion *version);
static bool totalrow_has_room(DcDirectRel *rel, const DcHint *hint, const DcVersion *version);
static DcVersionStep count_version(DcVersion *version, void *arg);
static bool may_be_lockable(const DcVersion *version);
static bool totalrow_insert_total(DcDirectRel *rel, const DcDeltaKey *key, int64 inc, int64 dec,
								  TimestampTz at, ItemPointer tid);
static bool set_total(DcDirectRel *rel, int64 inc, int64 dec, TimestampTz at);
static bool insert_speculatively(DcDirectRel *rel);

/*
 * total_add adds a delta to the key's row of totals, or inserts that. Returns false if it has
 * to go to shard rows.
 */
bool
total_add(DcDirectTables *tables, const DcDelta *delta)
{
	DcDirectRel *rel = direct_tables_open(tables, DC_TABLE_TOTALS);
	DcPlace *place = delta_place(&delta->key);
	DcProbe probe;
	ItemPointerData root;
	bool done = false;

	CHECK_FOR_INTERRUPTS();
	counter_layout(tables->counter);
	if (!tables->counter->direct_totals || must_leave(tables, delta, place))
		return false;
	switch (find_total(rel, &delta->key, &place->hint, &probe))
	{
		case TOTAL_FREE:
			done = update_total(rel, delta, &place->hint, &probe.version);
			version_release(&probe.version); /* not before: rel->values point there */
			break;
		case TOTAL_NONE:
			done = totalrow_insert_total(rel, &delta->key, delta->inc, delta->dec,
										 GetCurrentTimestamp(), &root);
			if (done)
				hint_set(&place->hint, &root, InvalidOffsetNumber, InvalidBuffer);
			break;
		case TOTAL_BUSY:
		case TOTAL_FAR:
			break;
	}
	if (done)
		rel->stats.totals++;
	else
		rel->stats.busy_skips++;
	return done;
}

/*
 * delta_place returns what is remembered of a key. If that is of another key, it is emptied,
 * except for the number of uses.
 */
static DcPlace *
delta_place(const DcDeltaKey *key)
{
	uint32 hash = delta_key_hash(key);
	DcPlace *place;

	if (places == NULL)
		places = MemoryContextAllocZero(TopMemoryContext, PLACES * sizeof(DcPlace));
	place = &places[hash & (PLACES - 1)];
	if (place->hash != hash || place->counter != key->counter)
	{
		place->hash = hash;
		place->counter = key->counter;
		ItemPointerSetInvalid(&place->hint.root);
	}
	return place;
}

/*
 * must_leave looks, each LOOK_EVERY-th time, and returns true if the row of totals is to be
 * left to others: the key has shard rows, or is being set.
 */
static bool
must_leave(DcDirectTables *tables, const DcDelta *delta, DcPlace *place)
{
	DcHintList *list;

	if (++place->uses < LOOK_EVERY)
		return false;
	place->uses = 0;
	list = hints_get(&delta->key);
	scan_hints(direct_tables_open(tables, DC_TABLE_SHARDS), list);
	return list->nhints > 0 ||
		locked_for_long(tables->counter, delta->key.data, delta->key.len) ||
		!tables->counter->direct_totals;
}

/*
 * find_total finds the row of totals by its remembered place, or by the index.
 */
static DcTotalState
find_total(DcDirectRel *rel, const DcDeltaKey *key, DcHint *hint, DcProbe *probe)
{
	if (ItemPointerIsValid(&hint->root))
	{
		switch (probe_row(rel, key, hint, probe))
		{
			case DC_PROBE_FREE:
				return TOTAL_FREE;
			case DC_PROBE_BUSY:
				return TOTAL_BUSY;
			case DC_PROBE_GONE:
				break;
		}
	}
	return totalrow_find_by_index(rel, key, hint, probe);
}

/*
 * totalrow_find_by_index asks the index. Entries of old versions lead to the row as well, along
 * its versions; the newest is the shortest way. A key that is deleted and inserted again and
 * again while an old snapshot is held has many that lead nowhere.
 */
static DcTotalState
totalrow_find_by_index(DcDirectRel *rel, const DcDeltaKey *key, DcHint *hint, DcProbe *probe)
{
	Datum text_key = delta_key_text(key);
	IndexScanDesc scan = compat_index_beginscan(rel->heap, directrel_index(rel), SnapshotAny, 1);
	DcTotalState state = TOTAL_NONE;
	ScanKeyData keys[1];
	ItemPointer tid;
	int entries = 0;

	ScanKeyEntryInitialize(&keys[0], 0, 1, BTEqualStrategyNumber, InvalidOid,
						   C_COLLATION_OID, F_TEXTEQ, text_key);
	index_rescan(scan, keys, 1, NULL, 0);
	while (state == TOTAL_NONE &&
		   (tid = index_getnext_tid(scan, BackwardScanDirection)) != NULL)
	{
		DcProbeResult found;

		hint_set(hint, tid, InvalidOffsetNumber, InvalidBuffer);
		found = probe_row(rel, key, hint, probe);
		if (found == DC_PROBE_FREE)
			state = TOTAL_FREE;
		else if (found == DC_PROBE_BUSY || TransactionIdIsValid(probe->xid))
			state = TOTAL_BUSY;
		else if (++entries >= MAX_ENTRIES)
			state = TOTAL_FAR;
	}
	index_endscan(scan);
	pfree(DatumGetPointer(text_key));
	if (state == TOTAL_NONE || state == TOTAL_FAR)
		ItemPointerSetInvalid(&hint->root);
	return state;
}

/*
 * update_total adds a delta to the version that was probed; false if that is refused, the sum
 * overflows bigint, or there is no room.
 */
static bool
update_total(DcDirectRel *rel, const DcDelta *delta, DcHint *hint, DcVersion *version)
{
	const AttrNumber *atts = rel->layout->atts;
	int64 inc = DatumGetInt64(rel->values[atts[DC_COL_INC] - 1]);
	int64 dec = DatumGetInt64(rel->values[atts[DC_COL_DEC] - 1]);
	TimestampTz at = DatumGetTimestampTz(rel->values[atts[DC_COL_UPDATED_AT] - 1]);

	if (pg_add_s64_overflow(inc, delta->inc, &inc) ||
		pg_add_s64_overflow(dec, delta->dec, &dec) ||
		!totalrow_has_room(rel, hint, version) ||
		!set_total(rel, inc, dec, Max(at, GetCurrentTimestamp())))
		return false;
	if (COMPAT_UPDATE_NEED_NOT_WAIT)
	{
		if (direct_replace(rel, hint, version, false))
			return true;
		if (!may_be_lockable(version))
			return false;
	}
	if (!direct_lock(rel, version, false))
		return false;
	if (!direct_replace(rel, hint, version, true))
		elog(ERROR, "locked row of totals could not be updated");
	return true;
}

/*
 * Return true if the new version may go into the table: it stays on its page, or
 * the row has few versions there.
 */
static bool
totalrow_has_room(DcDirectRel *rel, const DcHint *hint, const DcVersion *version)
{
	DcVersion unused;
	int count = 0;

	/* without a lock: this is policy */
	if (PageGetHeapFreeSpace(BufferGetPage(version->buffer)) >= MAXALIGN(version->tuple.t_len))
		return true;
	(void) versions_walk(rel, hint, ItemPointerGetOffsetNumberNoCheck(&hint->root),
						 count_version, &count, &unused);
	return count <= MANY_VERSIONS;
}

/*
 * Count versions, up to one more than MANY_VERSIONS; arg points to the number.
 */
static DcVersionStep
count_version(DcVersion *version, void *arg)
{
	return ++*(int *) arg > MANY_VERSIONS ? VERSION_STOP : VERSION_NEXT;
}

/*
 * Return true if a version whose update was refused may be locked rather than replaced. This is
 * read without a lock on its page: locking the row decides.
 */
static bool
may_be_lockable(const DcVersion *version)
{
	uint16 infomask = version->tuple.t_data->t_infomask;

	return (infomask & HEAP_XMAX_INVALID) == 0 &&
		(HEAP_XMAX_IS_LOCKED_ONLY(infomask) || (infomask & HEAP_XMAX_IS_MULTI) != 0);
}

/*
 * set_total sets the amounts in rel->values; false if their difference overflows bigint.
 */
static bool
set_total(DcDirectRel *rel, int64 inc, int64 dec, TimestampTz at)
{
	const AttrNumber *atts = rel->layout->atts;
	int64 value;

	if (pg_sub_s64_overflow(inc, dec, &value))
		return false;
	rel->values[atts[DC_COL_INC] - 1] = Int64GetDatum(inc);
	rel->values[atts[DC_COL_DEC] - 1] = Int64GetDatum(dec);
	rel->values[atts[DC_COL_UPDATED_AT] - 1] = TimestampTzGetDatum(at);
	if (atts[DC_COL_VALUE] != InvalidAttrNumber)
		rel->values[atts[DC_COL_VALUE] - 1] = Int64GetDatum(value);
	return true;
}

/*
 * total_insert inserts the row of totals of a key, and sets *tid to its place. Returns false,
 * with nothing done, if there is another one, or a transaction in progress has one; it waits
 * for none. The caller has asked for counter->direct_totals.
 */
bool
total_insert(DcDirectRel *rel, const DcDeltaKey *key, int64 inc, int64 dec, TimestampTz at,
			 ItemPointer tid)
{
	DcHint hint = {0};
	DcProbe probe;

	switch (totalrow_find_by_index(rel, key, &hint, &probe))
	{
		case TOTAL_NONE:
		case TOTAL_FAR:
			return totalrow_insert_total(rel, key, inc, dec, at, tid);
		case TOTAL_FREE:
			version_release(&probe.version);
			break;
		case TOTAL_BUSY:
			break;
	}
	return false;
}

/*
 * totalrow_insert_total inserts the row of a key that the index did not know; by now it may.
 */
static bool
totalrow_insert_total(DcDirectRel *rel, const DcDeltaKey *key, int64 inc, int64 dec, TimestampTz at,
					  ItemPointer tid)
{
	const AttrNumber *atts = rel->layout->atts;
	TupleDesc desc = RelationGetDescr(rel->heap);
	bool inserted;

	if (!set_total(rel, inc, dec, at))
		return false;
	for (int i = 0; i < desc->natts; i++)
		rel->nulls[i] = true;
	for (int i = 0; i < DC_NUM_COLUMNS; i++)
	{
		if (atts[i] != InvalidAttrNumber)
			rel->nulls[atts[i] - 1] = false;
	}
	rel->values[atts[DC_COL_KEY] - 1] = delta_key_text(key);
	ExecStoreHeapTuple(heap_form_tuple(desc, rel->values, rel->nulls), rel->slot, true);
	inserted = insert_speculatively(rel);
	*tid = rel->slot->tts_tid;
	ExecClearTuple(rel->slot);
	pfree(DatumGetPointer(rel->values[atts[DC_COL_KEY] - 1]));
	return inserted;
}

/*
 * insert_speculatively inserts the tuple in rel->slot, as ExecInsert() does for ON CONFLICT.
 * Sessions that come across it in the making wait for the token, which is released when it
 * is known whether the row stays. An error in between aborts this transaction, which
 * releases it, too.
 */
static bool
insert_speculatively(DcDirectRel *rel)
{
	TransactionId xid = GetCurrentTransactionId();
	uint32 token;
	bool unique;

	(void) directrel_index(rel); /* opened before the row is there */
	token = SpeculativeInsertionLockAcquire(xid);
	table_tuple_insert_speculative(rel->heap, rel->slot, GetCurrentCommandId(true), 0, NULL,
								   token);
	unique = direct_index_entries(rel, &rel->slot->tts_tid, UNIQUE_CHECK_PARTIAL);
	table_tuple_complete_speculative(rel->heap, rel->slot, token, unique);
	SpeculativeInsertionLockRelease(xid);
	return unique;
}
