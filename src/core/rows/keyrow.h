/*
 * keyrow.h
 *		Rows that are known by a unique key, without SQL (see keyrow.c).
 *
 * Copyright (c) 2026, the dcounter developers
 */
#ifndef DC_KEYROW_H
#define DC_KEYROW_H

#include "access/genam.h"
#include "access/skey.h"
#include "catalog/pg_collation.h"
#include "executor/tuptable.h"
#include "nodes/lockoptions.h"
#include "utils/fmgroids.h"
#include "utils/relcache.h"
#include "utils/snapshot.h"

/* Set a scan key: a column of an index has this text. */
static inline void
keyrow_text(ScanKeyData *key, AttrNumber column, Datum value)
{
	ScanKeyEntryInitialize(key, 0, column, BTEqualStrategyNumber, InvalidOid, C_COLLATION_OID, F_TEXTEQ, value);
}

/* The same for a bigint. */
static inline void
keyrow_bigint(ScanKeyData *key, AttrNumber column, int64 value)
{
	ScanKeyEntryInitialize(key, 0, column, BTEqualStrategyNumber, InvalidOid, InvalidOid, F_INT8EQ, Int64GetDatum(value));
}

extern IndexScanDesc keyrow_scan(Relation heap, Relation index, ScanKeyData *keys, int nkeys, Snapshot snapshot);
extern bool keyrow_find(Relation heap, Relation index, ScanKeyData *keys, int nkeys, Snapshot snapshot,
						TupleTableSlot *slot);
extern bool keyrow_find_or_wait(Relation heap, Relation index, ScanKeyData *keys, int nkeys, TupleTableSlot *slot);
extern bool keyrow_wait(Relation heap, Relation index, ScanKeyData *keys, int nkeys, TupleTableSlot *slot);
extern bool keyrow_lock_version(Relation heap, const ItemPointerData *tid, LockTupleMode mode, LockWaitPolicy wait);
extern HeapTuple keyrow_form(Relation heap, const AttrNumber *atts, const Datum *values, const bool *nulls, int n);
extern void keyrow_store(TupleTableSlot *slot, Relation heap, const AttrNumber *atts, const Datum *values,
						 const bool *nulls, int n);
extern bool keyrow_replace(Relation heap, const ItemPointerData *tid, TupleTableSlot *slot, bool wait);
extern void keyrow_insert(Relation heap, TupleTableSlot *slot);
extern bool keyrow_try_insert(Relation heap, Relation index, TupleTableSlot *slot);

#endif /* DC_KEYROW_H */
