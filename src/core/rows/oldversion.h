/*
 * oldversion.h
 *		Finding the version that a snapshot sees among many entries (see oldversion.c).
 *
 * Copyright (c) 2026, the dcounter developers
 */
#ifndef DC_OLDVERSION_H
#define DC_OLDVERSION_H

#include "access/skey.h"
#include "executor/tuptable.h"
#include "utils/relcache.h"
#include "utils/snapshot.h"

/*
 * The number of a row's entries that are visited from the last one backwards, before all of them
 * are listed.
 */
#define DC_NEWEST_ENTRIES 8

extern bool old_version_fetch(Relation heap, Relation index, ScanKey keys, int nkeys,
							  Snapshot snapshot, TupleTableSlot *slot, ItemPointer root);

#endif /* DC_OLDVERSION_H */
