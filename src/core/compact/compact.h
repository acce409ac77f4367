/*
 * compact.h
 *		Moving amounts from shard rows to totals, batch by batch (see compact.c).
 *
 * Copyright (c) 2026, the dcounter developers
 */
#ifndef DC_COMPACT_H
#define DC_COMPACT_H

#include "core/table/catalog.h"

/* The progress of a sweep over the shard rows of a table. */
typedef struct DcSweep
{
	Datum key; /* text: of the last row seen, */
	Datum shard;
	bool counted; /* which is one of a key that was counted */
	bool done;
	bool complete;	   /* has seen the last row */
	bool remembers;	   /* leaves out keys that are known to be stuck */
	bool keeps;		   /* keeps rows, as an old snapshot is held */
	bool only;		   /* of one key */
	bool notes_busy;   /* keys with rows that other transactions are writing (compactbusy.c) */
	List *busy;		   /* text: these, */
	int tries;		   /* and how often they were tried again */
	int stuck;		   /* keys met whose sum overflows bigint: they stay as they are */
	MemoryContext cxt; /* of key and busy */
} DcSweep;

extern void compact_init(bool preloading);
extern DcCounter *compact_open(Oid relid, bool all_owners);
extern void compact_note_fed(Oid relid);
extern void sweep_start(DcSweep *sweep, MemoryContext cxt);
extern void sweep_start_of_key(DcSweep *sweep, MemoryContext cxt, Datum key);
extern int64 sweep_next(DcSweep *sweep, DcCounter *counter, int64 max_keys);
extern void sweep_end(DcSweep *sweep);

#endif /* DC_COMPACT_H */
