/*
 * sourceprobe.h
 *		Reading some keys of a source by indexes (see sourceprobe.c).
 */
#ifndef DC_SOURCEPROBE_H
#define DC_SOURCEPROBE_H

#include "bound/sourcescan.h"

/*
 * The values of some keys (texts), in the order of the keys, by indexes if all leaves have one,
 * else by a scan. Sets *rows to the rows of the source that were read. An array of one for each
 * different key. Both sides are those of the snapshot of `read`.
 */
extern DcSourceDiff *source_probe(DcSourceRead *read, Datum *keys, int nkeys, int *ndiffs,
								  int64 *rows);

/*
 * source_probe_is_indexed tells whether all leaves have an index that begins with the key.
 */
extern bool source_probe_is_indexed(DcSourceRead *read);

/*
 * The next keys of the source after a position, at most max, in the order of these indexes, which
 * all leaves must have. `after` is a key that an earlier call has returned, or NULL to begin. Fewer than
 * max: there are no more. Keys may be of rows that are dead. *visits is the cost, in
 * entries of indexes.
 */
extern Datum *source_walk(DcSourceRead *read, const char *after, int max, int *nkeys,
						  int64 *visits);

#endif /* DC_SOURCEPROBE_H */
