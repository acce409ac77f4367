/*
 * probe.h
 *		From a hint to a version of its row (see probe.c).
 *
 * Copyright (c) 2026, the dcounter developers
 */
#ifndef DC_PROBE_H
#define DC_PROBE_H

#include "core/rows/rowversions.h"

/* The state of the row that a hint leads to. */
typedef enum DcProbeResult
{
	DC_PROBE_FREE, /* a live row that no transaction is changing */
	DC_PROBE_BUSY, /* a live row that another one is changing */
	DC_PROBE_GONE  /* nothing there, or another row */
} DcProbeResult;

typedef struct DcProbe
{
	DcVersion version; /* of a free row: kept */
	TransactionId xid; /* of a busy row: the transaction that is changing it; of one that is
						* gone: the one that is inserting a version that was found, if any */
} DcProbe;

extern DcProbeResult probe_row(DcDirectRel *rel, const DcDeltaKey *key,
							   DcHint *hint, DcProbe *probe);
extern bool probe_visible(DcDirectRel *rel, const DcDeltaKey *key,
						  DcHint *hint, Snapshot snapshot);

#endif /* DC_PROBE_H */
