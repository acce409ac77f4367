/*
 * sourceread.h
 *		Opening a bound counter table and its source for reading both in one snapshot (see
 *		sourceread.c).
 *
 * Copyright (c) 2026, the dcounter developers
 */
#ifndef DC_SOURCEREAD_H
#define DC_SOURCEREAD_H

#include "utils/snapshot.h"

#include "transactional/bound/bound.h"

/* How to wait for locks. */
typedef enum DcSourceWait
{
	DC_SOURCE_WAIT,
	DC_SOURCE_AT_ONCE /* not at all: the worker */
} DcSourceWait;

/* Both sides of a binding. Lives until source_read_end(), or the end of the (sub)transaction. */
typedef struct DcSourceRead
{
	const char *function; /* for error messages */
	DcSourceWait wait;
	Oid counter_id;
	DcCounter *counter;		/* locked by the caller, between _lock() and _begin() */
	DcSourceRow row;		/* as it is now; the snapshot shows the same binding */
	DcSourceStateRow state; /* that the snapshot shows */
	List *members;			/* OIDs: the source and all its partitions, which are locked; */
	List *leaves;			/* those of them that have rows */
	Snapshot snapshot;		/* the active one, NULL before _begin() */
} DcSourceRead;

extern bool source_read_lock(DcSourceRead *read, Oid counter, const char *function,
							 DcSourceWait wait);
extern bool source_read_begin(DcSourceRead *read, DcCounter *counter, bool newest);
extern void source_read_end(DcSourceRead *read);

#endif /* DC_SOURCEREAD_H */
