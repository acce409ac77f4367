/*
 * oldsnapshot.h
 *		Detecting old snapshots that keep dead rows (see oldsnapshot.c).
 *
 * Copyright (c) 2026, the dcounter developers
 */
#ifndef DC_OLDSNAPSHOT_H
#define DC_OLDSNAPSHOT_H

#include "utils/relcache.h"

extern void old_snapshot_init(void);
extern bool old_snapshot_held(Relation rel);

#endif /* DC_OLDSNAPSHOT_H */
