/*
 * sourceprobe.h
 *		Reading some keys of a source by indexes (see sourceprobe.c).
 *
 * Copyright (c) 2026, the dcounter developers
 */
#ifndef DC_SOURCEPROBE_H
#define DC_SOURCEPROBE_H

#include "transactional/bound/sourcescan.h"

/* How much to read. Zero: all. */
typedef struct DcProbeLimits
{
	const int64 *values; /* the counter's values of the keys, in the snapshot of `read`; keys whose sums overflow bigint are left out then. Or NULL */
	int64 key_rows;		 /* a key with more rows is left out, */
	DcMoment late;		 /* and one whose rows are not all read then */
	int64 rows;			 /* no other key is begun when this many rows are read, or when it is late */
	int read;			 /* set: how many keys of those that were given were gone over */
	int left_out;		 /* of these, how many were left out */
} DcProbeLimits;

/* source_probe() with limits, where indexes serve. */
extern DcSourceDiff *source_probe_within(DcSourceRead *read, Datum *keys, int nkeys, DcProbeLimits *limits,
										 int *ndiffs, int64 *rows);

/*
 * The values of some keys (texts), in the order of the keys, by indexes if all leaves have one,
 * otherwise by a scan. Sets *rows to the rows of the source that were read. Returns an array
 * with one member for each different key. Both sides are those of the snapshot of `read`.
 */
extern DcSourceDiff *source_probe(DcSourceRead *read, Datum *keys, int nkeys, int *ndiffs,
								  int64 *rows);

/*
 * Return true if all leaves have an index that begins with the key.
 */
extern bool source_probe_is_indexed(DcSourceRead *read);

/*
 * The next keys of the source after a position, at most max, in the order of these indexes, which
 * all leaves must have. `after` is a key that an earlier call has returned, or NULL to begin. Fewer
 * than max: there are no more. Keys may be of rows that are dead. *visits is the cost, in entries
 * of indexes.
 */
extern Datum *source_walk(DcSourceRead *read, const char *after, int max, int *nkeys,
						  int64 *visits);

#endif /* DC_SOURCEPROBE_H */
