/*
 * distinct.h
 *		Distinct tables: how many different items each key has had (see distinct.c).
 *
 * Copyright (c) 2026, the dcounter developers
 */
#ifndef DC_DISTINCT_H
#define DC_DISTINCT_H

#include "fmgr.h"
#include "nodes/pg_list.h"
#include "storage/lockdefs.h"
#include "utils/snapshot.h"

#include "base/key.h"
#include "core/table/shape.h"
#include "types/sketch/hll/hll.h"

struct IndexScanDescData;
struct ScanKeyData;
struct TupleTableSlot;

#define DISTINCT_DELTA_SUFFIX "_delta"

/* A row of dcounter.distinct_table. */
typedef struct DcDistinctRow
{
	Oid relid;
	Oid delta;
	int precision;
	int64 bucket;		/* us; 0: it has no buckets */
	int64 keep;			/* us; 0: forever */
	TimestampTz newest; /* start of the newest bucket that was folded; 0: none */
} DcDistinctRow;

/* The columns of either table. */
enum
{
	DISTINCT_KEY,
	DISTINCT_SKETCH,
	DISTINCT_NUM_COLUMNS
};

/* A table as a session remembers it. Entries are never moved or freed. */
typedef struct DcDistinct
{
	Oid relid; /* hash key */
	bool valid;
	DcDistinctRow row;
	Oid owner;
	bool rls;
	bool checked;		 /* the layouts are known */
	const char *problem; /* why it cannot be written, or NULL; in the next field */
	char problem_text[200];
	DcTableLayout layouts[2]; /* of the table, and of its deltas */
	Oid indexes[2];			  /* on their keys */
	Oid type;				  /* dc_hll */
	uint64 generation;		  /* another one after each invalidation */
	Oid role;				  /* who may do this: */
	uint64 role_changes;
	AclMode rights;
} DcDistinct;

/* Such a table, open for a call. */
typedef struct DcDistinctRel
{
	DcDistinct *distinct;
	Relation heaps[2]; /* the table, and its deltas */
	Relation indexes[2];
} DcDistinctRel;

#define DISTINCT_TABLE 0
#define DISTINCT_DELTA 1

/* The rows of some keys of one of the two, in the order of keys (distinctscan.c). */
typedef struct DcDistinctScan
{
	DcDistinctRel *rel;
	int which;
	struct IndexScanDescData *scan;
	struct TupleTableSlot *slot;
	MemoryContext cxt;	  /* of the scan */
	Datum from;			  /* text: the beginning of the range */
	int visits;			  /* how many rows that the snapshot does not show it may visit; 0: any number; */
	bool cut;			  /* there were more of them */
	ItemPointerData past; /* entries of the range's first key up to this place are skipped; invalid: none */
	char *key_copy;		  /* of a key that had to be fetched, or NULL */
	bool any;			  /* there is a row, of */
	DcKey key;			  /* this key, */
	Datum sketch;
} DcDistinctScan;

/* The bytes of a row's key. */
typedef struct DcRowKey
{
	Oid relid;
	uint32 len;
	const char *data;
} DcRowKey;

/* What a session knows that a row of a key has, or will have (distinctknown.c). */
typedef struct DcKnown DcKnown;

/* distinct.c */
extern void distinct_init(void);

/* distinctname.c */
extern void distinct_name_init(void);
extern Oid distinct_by_name(text *name);

/* distinctrow.c */
extern bool distinct_row_read(Oid relid, DcDistinctRow *row);
extern bool distinct_row_read_delta(Oid delta, DcDistinctRow *row);
extern List *distinct_rows(void);
extern void distinct_row_insert(const DcDistinctRow *row);
extern bool distinct_row_update(const DcDistinctRow *row);
extern bool distinct_row_delete(Oid relid);

/* distinctopen.c */
extern DcDistinct *distinct_find(Oid relid);
extern DcDistinct *distinct_lookup(Oid relid);
extern bool distinct_rights_known(const DcDistinct *distinct, AclMode rights);
extern DcDistinct *distinct_lock(Oid relid, LOCKMODE mode, AclMode rights);
extern void distinctrel_open(DcDistinctRel *rel, DcDistinct *distinct, LOCKMODE mode);
extern bool distinctrel_open_again(DcDistinctRel *rel, Oid relid, bool wait);
extern void distinctrel_close(DcDistinctRel *rel);
extern void distinct_check_shape(const DcDistinctRow *row);
extern int distinct_precision_of(Oid relid);

/* distinctscan.c */
extern void distinctscan_begin(DcDistinctScan *scan, DcDistinctRel *rel, int which, Snapshot snapshot,
							   const char *from, uint32 from_len, const char *to, uint32 to_len);
extern bool distinctscan_next(DcDistinctScan *scan);
extern ItemPointer distinctscan_place(DcDistinctScan *scan, DcKey *key);
extern void distinctscan_end(DcDistinctScan *scan);
extern struct TupleTableSlot *distinct_make_row(DcDistinctRel *rel, int which, const char *key, uint32 len, Datum sketch);
extern void distinct_insert_row(DcDistinctRel *rel, int which, const char *key, uint32 len, Datum sketch);
extern bool distinct_insert_row_at_once(DcDistinctRel *rel, int which, const char *key, uint32 len, Datum sketch);

/* distinctknown.c */
extern DcKnown *known_find(const DcRowKey *key, const DcDistinct *distinct);
extern bool known_has(DcKnown *known, uint64 hash);
extern bool known_is_safe(DcKnown *known);
extern bool known_is_durable(DcKnown *known, bool commits);
extern DcKnown *known_load(DcDistinctRel *rel, const DcRowKey *key);
extern HllState *known_missing(DcKnown *known, const HllState *items);
extern void known_raise(const DcRowKey *key, uint64 generation, const HllState *items, XLogRecPtr lsn);
extern bool known_any_uncommitted(void);
extern void known_forget_uncommitted(void);
extern uint32 rowkey_hash(const DcRowKey *key);
extern bool rowkey_equal(const DcRowKey *a, const DcRowKey *b);

/* distinctpending.c */
extern void distinct_pending_init(void);
extern void distinct_pending_add(DcDistinct *distinct, const DcRowKey *key, uint64 hash);
extern HllState *distinct_pending_merge(const DcRowKey *key, HllState *into);
extern List *distinct_pending_keys(Oid relid, bool (*wanted)(const void *arg, const DcRowKey *key), const void *arg);
extern void distinct_pending_absorb(void);
extern void distinct_write_early(void);

/* distinctfold.c */
extern void distinct_fold_init(void);
extern void distinct_take_turn(Oid relid);

/* distinctddl.c */
extern const struct DcDdlHook distinct_ddl;
extern void distinct_protect(const DcDistinctRow *row);
extern void distinct_truncated(Oid relid);
extern void distinct_prevent_change(Oid relid);

/* distinctadd.c */
extern uint32 distinct_row_key(const DcDistinct *distinct, const DcKey *key, int64 bucket, char *buf);
extern const DcKey *distinct_key_arg(FunctionCallInfo fcinfo, int argno, DcKey *key);

#endif /* DC_DISTINCT_H */
