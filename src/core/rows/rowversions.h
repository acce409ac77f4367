/*
 * rowversions.h
 *		Walking along the versions of a shard row (see rowversions.c).
 *
 * Copyright (c) 2026, the dcounter developers
 */
#ifndef DC_ROWVERSIONS_H
#define DC_ROWVERSIONS_H

#include "access/htup.h"
#include "storage/buf.h"
#include "utils/snapshot.h"

#include "core/rows/directrel.h"

/* The version that a walk is at. */
typedef struct DcVersion
{
	Buffer buffer;		  /* its page */
	ItemPointerData root; /* of the row's versions on that page */
	HeapTupleData tuple;
} DcVersion;

/* Where a walk continues, as its callback says. */
typedef enum DcVersionStep
{
	VERSION_NEXT, /* the version that replaced this one */
	VERSION_STOP, /* no more */
	VERSION_KEEP  /* no more, and the page stays pinned */
} DcVersionStep;

typedef DcVersionStep (*DcVersionVisit)(DcVersion *version, void *arg);

extern bool versions_walk(DcDirectRel *rel, const DcHint *hint, OffsetNumber from,
						  DcVersionVisit visit, void *arg, DcVersion *version);
extern bool version_is_visible(DcVersion *version, Snapshot snapshot);
extern void version_release(DcVersion *version);
extern int64 versions_needed(Relation rel, int64 limit, DcMoment end);

#endif /* DC_ROWVERSIONS_H */
