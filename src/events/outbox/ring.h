/*
 * ring.h
 *		The ring of partitions (see ring.c).
 *
 * Copyright (c) 2026, the dcounter developers
 */
#ifndef DC_RING_H
#define DC_RING_H

#include "access/genam.h"
#include "access/sdir.h"
#include "utils/rel.h"

extern void ring_init(void);
extern Oid ring_seq_index(Relation partition);
extern bool ring_rotate(void);
extern int64 ring_lock_to_truncate(int number);
extern void ring_unlock(int number);
extern int64 ring_edge_event(Relation partition, ScanDirection direction,
							 TimestampTz *created_at);

#endif /* DC_RING_H */
