/*
 * bound.h
 *		Counter tables that are bound to a source table: what the files of this room share.
 *
 * Copyright (c) 2026, the dcounter developers
 *
 * The catalogs are read and written by sourcerow.c. A row of dcounter.source is changed only by
 * transactions that hold SHARE ROW EXCLUSIVE, or a stronger lock, on the source and on the
 * counter tables, so a transaction that writes to one of these knows all its bindings. The only
 * exception is the text of the expressions: DDL that renames a column or a type changes it.
 *
 * A row of dcounter.source_state is changed by transactions that hold the lock of the binding
 * (bound_lock): builders, repairers, what follows TRUNCATE, ATTACH and DETACH, and the worker when
 * it notes what it has checked. Those that change values other than with rows of the source change
 * `epoch` as well. So differences that were read in a snapshot may be added later, under that lock,
 * as long as the epoch is the one that the same snapshot has shown.
 *
 * Locks are taken in this order: source, its partitions, counter tables, binding, rows.
 */
#ifndef DC_BOUND_H
#define DC_BOUND_H

#include "executor/tuptable.h"
#include "storage/lockdefs.h"
#include "utils/numeric.h"

#include "base/catrow.h"
#include "base/key.h"
#include "core/table/catalog.h"

/* The treatment of the rows of a detached partition. */
typedef enum DcOnDetach
{
	DC_DETACH_SUBTRACT,
	DC_DETACH_KEEP
} DcOnDetach;

/* The worker's reaction when values differ. */
typedef enum DcOnDrift
{
	DC_DRIFT_ALARM,
	DC_DRIFT_REPAIR
} DcOnDrift;

/* The ways to count the existing rows. */
typedef enum DcBuildBy
{
	DC_BUILD_WORKER,
	DC_BUILD_NONE,
	DC_BUILD_NOW /* dc_bind() itself did */
} DcBuildBy;

/* The state of a bound counter table compared with its source. */
typedef enum DcSourceState
{
	DC_SOURCE_BUILDING, /* the rows from before dc_bind() are not all counted yet */
	DC_SOURCE_EXACT,
	DC_SOURCE_SUSPECT, /* something was done that is not counted */
	DC_SOURCE_DRIFTED  /* a difference was found, and not repaired */
} DcSourceState;

/* A row of dcounter.source. */
typedef struct DcSourceRow
{
	Oid counter;
	Oid source;
	char *key; /* expressions, as the server deparses them with search_path pinned */
	char *value;
	char *filter;	   /* NULL: all rows */
	char *distinct_of; /* NULL: rows count */
	Oid refs;		   /* the table of reference counts, or InvalidOid */
	Oid carried;	   /* the table of amounts of detached partitions, or InvalidOid */
	DcBuildBy build;
	bool replicated;
	DcOnDetach on_detach;
	DcOnDrift on_drift;
	TransactionId xmin; /* the transaction that has written this row */
} DcSourceRow;

/* A row of dcounter.source_state. */
typedef struct DcSourceStateRow
{
	Oid counter;
	DcSourceState state;
	int64 epoch;
	char *built_to; /* NULL: nothing is built, or all */
	char *pass_to;	/* NULL: no pass is under way */
	int64 passes;
	TimestampTz last_pass; /* 0: never */
	int64 keys_checked;
	int64 rows_checked;
	int64 drifted_keys;
	Numeric drift_sum;
	int64 repaired;
	TimestampTz last_drift_at; /* 0: never */
} DcSourceStateRow;

/* sourcerow.c */
extern bool source_read(Oid counter, DcSourceRow *row);
extern bool source_read_in(Oid counter, Snapshot snapshot, DcSourceRow *row);
extern List *source_rows_of(Oid source);
extern List *source_rows_most(Oid source, int most);
extern List *source_list(void);
extern List *source_select(bool (*wanted)(const DcSourceRow *row, void *arg), void *arg);
extern bool source_finds_siblings(void);
extern bool source_read_by_sibling(Oid relid, DcSourceRow *row);
extern bool source_is_bound(Oid counter);
extern void source_insert(const DcSourceRow *row);
extern void source_update(const DcSourceRow *row);
extern bool source_texts_equal(const DcSourceRow *a, const DcSourceRow *b);
extern bool source_delete(Oid counter);
extern bool bound_lock(Oid counter, bool wait);
extern bool source_state_read(Oid counter, DcSourceStateRow *row);
extern bool source_state_read_in(Oid counter, Snapshot snapshot, DcSourceStateRow *row);
extern void source_state_store(const DcSourceStateRow *row);
extern void source_state_change(Oid counter, DcSourceState state, bool new_epoch);
extern DcOnDrift on_drift_from_text(const char *value);
extern DcOnDetach on_detach_from_text(const char *value);
extern DcBuildBy build_from_text(const char *value);
extern List *source_lineage(Oid relid);
extern List *source_leaves(Oid relid, LOCKMODE mode);
extern void sibling_check_owner(Oid counter, Oid sibling);
pg_noreturn extern void not_bound_error(Oid counter);

/* bind.c */
extern void bound_init(bool preloading);
extern void bind_make(DcSourceRow *row, const char *group_by, int64 timeout, bool totals);
extern void bind_end(Oid relid);

#endif /* DC_BOUND_H */
