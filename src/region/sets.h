/*
 * sets.h
 *		Sets of keys of a replicated counter: dc_set(), dc_reset(), dc_delete().
 *
 * Copyright (c) 2026, the dcounter developers
 *
 * Each region has one row per key in the table of sets: the value that it was last set to, a stamp,
 * and the amounts of the rows of regions (the slots) that were observed then. In each database
 *
 *		value of a key = W + sum over the slots of (slot - base)
 *
 * where W is the value of the row with the greatest (stamp, region), and the base of a slot is
 * the greatest amount of it that any of the rows has observed. So amounts that a set has not
 * observed are added on top, two sets do not subtract the same amounts twice, and of two values the
 * later one stays. Increments and decrements are summed separately: a W below zero counts as
 * decrements.
 *
 * Rows merge as slots do: the one of a region with the later stamp, and the greatest observed
 * amounts. A set is merged after the slots have been raised to what it has observed. So the base of
 * a slot is never greater than the slot, in any order in which rows come.
 *
 * Deleting a key sets it to 0 and closes all slots that are observed: their amounts of resets in
 * `upto`, which are not used otherwise, become the observed ones. The region of a closed slot goes
 * on counting in another one, with a greater epoch. So a region that has removed the rows of a key
 * that was deleted long ago misses nothing (regionvacuum.c).
 *
 * Writing a row of sets needs the lock on the key (core/rows/locks.c). So the rows of sets of a key
 * do not change then. Slots do, as compaction and merges of slots do not take that lock; but the
 * change of a value by a set depends only on the rows of sets.
 */
#ifndef DC_SETS_H
#define DC_SETS_H

#include "region/region.h"
#include "types/crdt/amounts.h"

/* Columns of a table of sets, by number. */
enum
{
	SET_KEY,
	SET_REGION,
	SET_HLC,
	SET_VALUE,
	SET_DELETED,
	SET_UPTO,
	SET_NUM_COLUMNS
};

/* A row of a table of sets. */
typedef struct DcSetRow
{
	Datum key;	  /* text */
	Datum region; /* text */
	int64 hlc;
	int64 value;
	bool deleted;
	Datum upto;			 /* dc_pncounter; its nodes are region:epoch */
	ItemPointerData tid; /* where it was found */
} DcSetRow;

/* Those of a key. */
typedef struct DcSetRows
{
	int n;
	DcSetRow *rows;
	bool too_many; /* not all were read (SET_ROWS_MAX) */
} DcSetRows;

/*
 * There is one row for each region. An owner may write more directly: at most this many, of
 * SET_BYTES_MAX, are read.
 */
#define SET_ROWS_MAX 256
/* The greatest size of a row's observed state, in bytes: thousands of slots. */
#define SET_OBSERVED_MAX (256 * 1024)
#define SET_BYTES_MAX (1024 * 1024)

/* Amounts whose sums overflow bigint. */
typedef struct DcTally
{
	__int128 inc;
	__int128 dec;
} DcTally;

/* observed.c */
extern const char *observed_wrong(Datum upto);
extern bool observed_node(CrdtString node, DcRegionRow *row);
extern Datum observed_slots(const List *slots);
extern bool observed_covers(Datum state, Datum by);
extern Datum observed_close(Datum state);
extern bool observed_find(Datum state, const DcRegionRow *row, AmountsEntry *entry);
extern bool observed_is_closed(Datum state, const DcRegionRow *row);
extern Datum sets_observed(const DcSetRows *rows);
extern const DcSetRow *sets_last(const DcSetRows *rows);
extern void set_rows_put(DcSetRows *rows, const DcSetRow *row);
extern bool set_wins(const DcSetRow *come, const DcSetRow *have);
extern DcTally sets_tally(const DcSetRows *rows);
extern DcTally slots_tally(const List *slots);
extern int64 tally_to_bigint(__int128 sum);

/* setrow.c */
extern const struct DcShape set_shape;
extern Datum set_observed_now(DcRegionRel *rel, Datum key);
extern Oid set_upto_type(Relation rel);
extern bool setrel_is_empty(DcRegionRel *rel);
extern void set_rows_check(DcRegionRel *rel, const DcSetRows *rows);
extern void set_rows_read(DcRegionRel *rel, Datum key, Snapshot snapshot, DcSetRows *rows);
extern DcSetRow *set_rows_find(const DcSetRows *rows, Datum region);
extern bool set_row_try_insert(DcRegionRel *rel, DcSetRow *row);
extern void set_row_insert(DcRegionRel *rel, const DcSetRow *row);
extern void set_row_delete(DcRegionRel *rel, const DcSetRow *row);
extern bool set_row_wait(DcRegionRel *rel, const DcSetRow *row);
extern void set_row_update(DcRegionRel *rel, const DcSetRow *row);
extern void set_row_insert_again(DcRegionRel *rel, const DcSetRow *row);
extern void sets_first(DcRegionRel *rel);

/*
 * regionslot.c; the time of an own slot that was removed, and has come back
 */
#define SLOT_IS_BACK DT_NOBEGIN

extern bool slot_find_own(DcRegionRel *rel, Datum key, const DcIdentity *identity, DcRegionRow *row);
extern bool slot_has_next(const DcCounter *counter, const DcIdentity *identity, const DcRegionRow *last);
extern int64 slot_epoch_next(const DcCounter *counter, const DcIdentity *identity, const DcRegionRow *last);
extern bool slot_comes_back(const DcCounter *counter, const DcIdentity *identity, const DcRegionRow *have,
							const DcRegionRow *come);
extern bool slot_is_open(const DcRegionRow *row, Datum observed);

/* regionset.c */
extern void region_lock(DcCounter *counter);
extern void region_set_begin(DcCounter *counter);
extern void region_set(DcSqlSession *session, const DcKey *key, DcRegionSetting *setting);
extern void region_written(DcSqlSession *session, DcBatch *batch);

#endif /* DC_SETS_H */
