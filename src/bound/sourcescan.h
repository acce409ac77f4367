/*
 * sourcescan.h
 *		Reading all of a source and of its counter table, or some keys, in one snapshot (see
 *		sourcescan.c).
 */
#ifndef DC_SOURCESCAN_H
#define DC_SOURCESCAN_H

#include "base/clock.h"
#include "bound/sourceread.h"

/* Which keys to compare. All members zero: all. */
typedef struct DcSourceScanOptions
{
	const char *from; /* those after this, in "C" order, or NULL */
	const char *to;	  /* those up to this, or NULL */
	Datum *keys;	  /* these (texts), if any_keys */
	int nkeys;
	bool any_keys;
	double sample; /* of the keys, this part, which is drawn anew each time; 0: all */
	DcMoment late; /* if it is reached the scan gives up; us 0: never */
	bool refs;	   /* of a binding with distinct_of: compare source and reference counts, of
					* (key, item); else the number of items, and the counter */
} DcSourceScanOptions;

/* What both sides have for a key. */
typedef struct DcSourceDiff
{
	DcKey key;	/* lives until the next one, */
	DcKey item; /* as does this; data is NULL unless options.refs */
	int64 source;
	int64 counter;
	int64 drift; /* source - counter */
} DcSourceDiff;

typedef struct DcSourceScan DcSourceScan;

extern DcSourceScan *source_scan_begin(DcSourceRead *read, const DcSourceScanOptions *options);
extern bool source_scan_next(DcSourceScan *scan, DcSourceDiff *diff);
extern int64 source_scan_rows(const DcSourceScan *scan);
extern void source_diff_set(DcSourceDiff *diff, int64 source, int64 counter);
extern void source_scan_end(DcSourceScan *scan);

#endif /* DC_SOURCESCAN_H */
