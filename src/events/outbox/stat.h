/*
 * stat.h
 *		Shared parts of the outbox's views (see statoutbox.c, statconsumers.c).
 *
 * Copyright (c) 2026, the dcounter developers
 */
#ifndef DC_OUTBOX_STAT_H
#define DC_OUTBOX_STAT_H

#include "events/outbox/outbox.h"

/* A partition that has events. */
typedef struct DcPartitionStat
{
	int64 first; /* event; 0: it has none that are settled */
	int64 last;
	int64 bytes; /* with indexes and TOAST */
	bool used;
} DcPartitionStat;

extern void stat_partitions(DcPartitionStat *partitions);
extern void stat_holder(const DcHolder *holder, Datum *pid, bool *pid_null,
						Datum *xid, bool *xid_null);

#endif /* DC_OUTBOX_STAT_H */
