/*
 * oldversion.h
 *		Finding the version that an old snapshot sees (see oldversion.c).
 */
#ifndef DC_OLDVERSION_H
#define DC_OLDVERSION_H

#include "access/skey.h"
#include "executor/tuptable.h"
#include "utils/relcache.h"
#include "utils/snapshot.h"

/* Entries of a row to visit, the newest first, before its oldest ones are looked at, too. */
#define DC_NEWEST_ENTRIES 8

extern bool old_version_fetch(Relation heap, Relation index, ScanKey keys, int nkeys,
							  Snapshot snapshot, TupleTableSlot *slot);

#endif /* DC_OLDVERSION_H */
