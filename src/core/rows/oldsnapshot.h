/*
 * oldsnapshot.h
 *		Whether an old snapshot keeps dead rows (see oldsnapshot.c).
 */
#ifndef DC_OLDSNAPSHOT_H
#define DC_OLDSNAPSHOT_H

#include "utils/relcache.h"

extern void old_snapshot_init(void);
extern bool old_snapshot_held(Relation rel);

#endif /* DC_OLDSNAPSHOT_H */
