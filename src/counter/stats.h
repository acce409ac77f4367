/*
 * stats.h
 *		Statistics of counter tables in shared memory (see stats.c).
 *
 * All of these do nothing when the server has not preloaded dcounter.
 */
#ifndef DC_STATS_H
#define DC_STATS_H

#include "base/catalog.h"
#include "utils/timestamp.h"

/* What one commit has done to one counter table. */
typedef struct DcApplyStats
{
	uint64 increments; /* calls of dc_incr() and its relatives */
	uint64 keys;	   /* rows written */
	uint64 busy_skips; /* busy rows passed over */
	uint64 splits;	   /* rows inserted for a key that had others */
	uint64 waits;	   /* waits for another commit */
	uint64 early;	   /* writes before the commit */
} DcApplyStats;

extern void stats_init(void);
extern bool stats_enabled(void);
extern void stats_applied(DcCounter *counter, const DcApplyStats *stats);
extern void stats_hot_key(DcCounter *counter, const char *data, uint32 len,
						  uint64 increments);
extern void stats_read(DcCounter *counter, TimestampTz started);

/* One sweep of a table by compaction, from its first key to its last. */
extern void stats_compacted(DcCounter *counter, int64 keys);
extern void stats_swept(DcCounter *counter, TimestampTz started);

#endif /* DC_STATS_H */
