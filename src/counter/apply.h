/*
 * apply.h
 *		Writing the pending deltas to the shard tables (see apply.c).
 */
#ifndef DC_APPLY_H
#define DC_APPLY_H

#include "base/key.h"
#include "table/catalog.h"

struct DcDelta;

/*
 * The numbers of shard rows: those that one transaction alone adds to (blind),
 * and those that are for all.
 */
static inline int32
own_shard_number(uint32 number, bool shared)
{
	return (int32) (shared ? number | 0x40000000 : number & 0x3FFFFFFF) &
		PG_INT32_MAX;
}

static inline bool
shard_is_shared(int32 shard)
{
	return (shard & 0x40000000) != 0;
}

extern int32 own_shard(bool shared);
extern void apply_early(void);
extern void apply_when_full(void);
extern void apply_if_late(void);
extern void apply_blind(DcCounter *counter, const DcKey *key,
						int64 inc, int64 dec);
extern void apply_amounts(DcCounter *counter, struct DcDelta **deltas, int count);
extern void xact_callback_move(void);

#endif /* DC_APPLY_H */
