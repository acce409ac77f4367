/*
 * region.h
 *		Counters that several databases count in: shared by the files of this room.
 *
 * Copyright (c) 2026, the dcounter developers
 *
 * The counts of a key in a region, under an epoch, are a row of the counter's table of regions.
 * Only that database writes it, by compaction, and it only grows. Others get it by logical
 * replication, and keep the greater of the existing and the incoming row (regionmerge.c). If it
 * grows, they add the difference to a shard row with a negative number. So in each database, for
 * each key, at any time,
 *
 *		totals + shard rows with negative numbers = sum over the rows of regions,
 *
 * since each transaction changes both sides by the same amount. Shard rows with other numbers are
 * local counts that are not published yet. If the key was set, the right side has the value that it
 * was set to, less the amounts that were observed then (sets.h).
 *
 * Locks are taken in this order: table of regions, table of sets, tables of the counter, the lock
 * on compaction if it is the first set (setrow.c), the lock on the key, rows. Compaction, which has
 * the locks of the counter already, takes the lock on the table of regions without waiting. An
 * apply worker comes from either table. So to keep other sessions from writing, it is enough to
 * lock the table of regions, which all writers of either table have locked by then.
 *
 * Of the rows of a key, dc_set() writes the one of sets before the slot, since an apply worker
 * elsewhere needs the lock on the key for the former: two workers of different links might
 * otherwise wait for each other. Two transactions that set several keys in different orders still
 * may; the server detects that, and the worker of a subscription tries again.
 */
#ifndef DC_REGION_H
#define DC_REGION_H

#include "access/genam.h"

#include "core/compact/compactbatch.h"
#include "core/rows/keyrow.h"
#include "core/table/catalog.h"
#include "core/table/shape.h"

/* Columns of a table of regions, by number. */
enum
{
	REGION_KEY,
	REGION_REGION,
	REGION_EPOCH,
	REGION_INC,
	REGION_DEC,
	REGION_UPDATED_AT,
	REGION_NUM_COLUMNS
};

/*
 * A database has this many epochs, from its own on. Those of two are further apart: by time, 1024
 * in a microsecond.
 */
#define REGION_EPOCH_SLOTS (INT64CONST(1) << 20)

/* The identity of this database in its region. */
typedef struct DcIdentity
{
	char *region;
	int64 epoch;
} DcIdentity;

/*
 * The tables of a counter that rows of other regions come to: two of a plain one, two of a stock.
 */
typedef enum DcRegionTable
{
	TABLE_OF_REGIONS,
	TABLE_OF_SETS,
	TABLE_OF_GRANTS,
	TABLE_OF_WANTS /* the last (DC_REGION_TABLES) */
} DcRegionTable;

/* A row of a table of regions. */
typedef struct DcRegionRow
{
	Datum key;	  /* text */
	Datum region; /* text */
	int64 epoch;
	int64 inc;
	int64 dec;
	TimestampTz at;
	ItemPointerData tid; /* where it was found */
} DcRegionRow;

/* One of the tables, open to write. */
typedef struct DcRegionRel
{
	DcCounter *counter;
	const DcTableLayout *layout;
	Relation heap;
	Relation index;
	TupleTableSlot *slot; /* for what is written */
	TupleTableSlot *found;
} DcRegionRel;

/* Longest name of a region. */
#define MAX_REGION_BYTES 40

/* identity.c */
extern bool region_identity_is_kept;
extern bool region_identity(DcIdentity *identity);
extern bool region_identity_at_once(DcIdentity *identity);
extern void region_identity_needed(DcIdentity *identity);
extern void region_identity_awaited(DcIdentity *identity);
extern void region_stock_is_locked(void);
extern bool region_name_is_valid(const char *region);
extern void region_identity_received(DcIdentity *identity);
extern bool region_epoch_is_own(const DcIdentity *identity, int64 epoch);
extern int64 region_epoch_later(int64 epoch);
extern const char *region_node(void);
extern int64 region_epoch_new(void);
extern void region_check_name(const char *region);
extern void region_check_role(void);
extern void region_check_owner(void);
extern bool boot_can_wait(void);
extern void boot_sleep(long ms);

/* self.c */
extern bool region_self(DcIdentity *identity);
extern void region_forget_self(void);

/* regiontable.c */
#define REGION_OPTIONS "fillfactor=50" /* of all tables of regions */
extern const char *const region_columns;
extern const char *const set_columns;
extern void merge_trigger_create(Oid relid, const char *function);
extern void region_tables_create(DcCounter *counter, DcCounterRow *row, Oid types);
extern void region_tables_adopt(DcCounterRow *row, Oid functions);
extern bool region_may_adopt(const DcCounterRow *row, Oid functions);
extern bool has_merge_trigger(Relation rel);
extern Oid region_table_of(const DcCounterRow *row, DcRegionTable table);
extern const struct DcShape *region_shape_of(DcRegionTable table);
extern bool region_columns_fit(Relation rel, DcRegionTable table, DcTableLayout *layout, DcShapeProblem *problem);
extern bool region_table_fits(Relation rel, DcRegionTable table, DcTableLayout *layout, DcShapeProblem *problem);
extern const DcTableLayout *region_layout(DcCounter *counter, Relation rel, DcRegionTable table);

/* publication.c */
extern void publications_create(void);
extern void publications_create_as_owner(void);
extern bool publications_exist(void);
extern bool publications_lack(Oid relid);
extern void publications_add(Oid relid, const char *columns, const char *column, const char *region);
extern void publications_add_filtered(Oid relid, const char *columns, const char *column, const char *region,
									  const char *filter);

/* regionrow.c */
extern void regionrel_open(DcRegionRel *rel, DcCounter *counter, DcRegionTable table, LOCKMODE mode);
extern void regionrel_close(DcRegionRel *rel);
extern bool regionrel_find(DcRegionRel *rel, ScanKeyData *keys, int nkeys);
extern bool regionrel_lock(DcRegionRel *rel, ItemPointer tid);
extern bool region_row_find(DcRegionRel *rel, const DcRegionRow *wanted, DcRegionRow *row);
extern bool region_row_find_last(DcRegionRel *rel, const DcRegionRow *wanted, int64 before, DcRegionRow *row);
extern List *region_rows_read(DcRegionRel *rel, Datum key, Snapshot snapshot);
extern bool region_row_insert(DcRegionRel *rel, DcRegionRow *row);
extern bool region_row_lock(DcRegionRel *rel, DcRegionRow *row);
extern bool region_row_try_lock(DcRegionRel *rel, const DcRegionRow *row);
extern bool region_row_replace(DcRegionRel *rel, const DcRegionRow *row, bool locked);
extern bool region_row_wait(DcRegionRel *rel, const DcRegionRow *wanted);

/* regionmerge.c */
extern bool region_row_is_foreign(DcRegionRel *rel, const DcRegionRow *wanted);
extern void region_row_raise(DcRegionRel *rel, DcRegionRow *wanted, int64 *inc, int64 *dec);

/* passedover.c */
extern Datum region_row_passed_over(Relation rel, DcCounter *counter, const char *problem);
extern Datum region_row_missed(Relation rel, DcCounter *counter, const char *problem);

/* regionpublish.c */
extern bool region_ready(DcCounter *counter);
extern void region_publish(DcCounter *counter, DcBatch *batch);

/* regioncheck.c */
extern void region_check_replicated(const DcCounter *counter);

/* regionshape.c: what to look at */
typedef enum DcShapeLooks
{
	LOOK_NOTHING = 0,
	LOOK_COLUMNS = 1 << 0,		  /* columns and primary key */
	LOOK_INDEXES = 1 << 1,		  /* no other index */
	LOOK_EXTRAS = 1 << 2,		  /* no rules, checks, triggers, policies, or further columns */
	LOOK_IDENTITY = 1 << 3,		  /* the replica identity */
	LOOK_PUBLICATIONS = 1 << 4,	  /* publications that let rows be updated */
	LOOK_OPTIONS = 1 << 5,		  /* storage parameters */
	LOOK_RIGHTS = 1 << 6,		  /* privileges of the owner */
	LOOK_MERGE = 1 << 7,		  /* the trigger that merges */
	LOOK_SHARDS = 1 << 8,		  /* shard tables that can be written to without SQL */
	LOOK_CODE = 1 << 9,			  /* no code of the owner */
	LOOK_ALTERED = (1 << 10) - 1, /* all of these, but only in tables that this transaction has locked as DDL does */
	LOOK_UNLOCKED = 1 << 10,	  /* other tables as well */
	LOOK_ALL = LOOK_ALTERED | LOOK_UNLOCKED,
	LOOK_AT_ONCE = 1 << 11 /* no lock is waited for */
} DcShapeLooks;

extern const char *regions_problem(const DcCounterRow *row, int looks);

/* regionddl.c */
extern void region_ddl_init(void);
extern void region_prevent_drop(const DcCounter *counter);

/* rightsrenew.c */
typedef enum DcRights
{
	RIGHTS_GIVEN_UP,
	RIGHTS_KEPT,
	RIGHTS_SHUT, /* kept, but not sold until the operator says so */
	RIGHTS_ALONE /* kept as they are: no other region is known */
} DcRights;

extern void rights_renew(const char *region, DcRights rights, bool worker);

/* beat.c */
extern void region_xact_init(void);
extern void region_published(void);

/* beatmerge.c */
extern bool slot_is_foreign(DcCounter *counter, Relation rel, const DcRegionRow *come, int64 have_inc, int64 have_dec);
extern bool slot_is_own(const DcRegionRow *row, DcIdentity *self);
extern bool slot_is_sealed(DcRegionRel *rel, const DcRegionRow *come);

/* boot.c */
extern void region_await(struct DcCounter *counter);

/* seen.c */
extern TimestampTz region_seen_by_all(const char *region);

/* replicate.c */
extern void region_init(bool preloading);

#endif /* DC_REGION_H */
