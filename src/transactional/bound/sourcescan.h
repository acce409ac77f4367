/*
 * sourcescan.h
 *		Reading all of a source and of its counter table, or some keys, in one snapshot (see
 *		sourcescan.c).
 *
 * Copyright (c) 2026, the dcounter developers
 */
#ifndef DC_SOURCESCAN_H
#define DC_SOURCESCAN_H

#include "base/clock.h"
#include "transactional/bound/sourceread.h"

/* What is compared with what. The last two are for bindings with distinct_of. */
typedef enum DcScanLayer
{
	DC_LAYER_ALL,	 /* source and counter, by key */
	DC_LAYER_REFS,	 /* source and reference counts, by key and item */
	DC_LAYER_COUNTER /* reference counts (how many items have one) and counter, by key */
} DcScanLayer;

/* The pace of one scan or several (scanpace.c). */
typedef struct DcScanPace
{
	Oid relid; /* the table that is being read, and those of the binding: */
	Oid source;
	Oid counter;
	DcMoment since; /* it has worked, or DC_LONG_AGO: not yet */
	int64 slept;	/* us */
} DcScanPace;

/* Which keys to compare. All members zero: all, source and counter. */
typedef struct DcSourceScanOptions
{
	DcScanLayer layer;
	const char *from; /* those after this, in "C" order, or NULL */
	const char *to;	  /* those up to this, or NULL */
	Datum *keys;	  /* these (texts), if any_keys */
	int nkeys;
	bool any_keys;
	bool only_different; /* those without a difference may be left out */
	int passes_over;	 /* level of the message about a key whose sums overflow bigint and differ; 0: that is an error */
	int64 *left_out;	 /* if not NULL, these are counted */
	double sample;		 /* compare this fraction of the keys, drawn afresh for each scan; 0: all */
	DcMoment late;		 /* if it is reached the scan gives up, except for what it has slept; DC_LONG_AGO: never */
	DcScanPace *pace;	 /* the worker's; NULL: at full speed */
} DcSourceScanOptions;

/* The same, ready for use, without `keys`. */
typedef struct DcSourceFilter
{
	DcSourceScanOptions options;
	DcKey from;
	DcKey to;
	uint64 seed; /* of the sample */
} DcSourceFilter;

/* What both sides have for a key. */
typedef struct DcSourceDiff
{
	DcKey key;	/* lives until the next one, */
	DcKey item; /* as does this; data is NULL except for DC_LAYER_REFS */
	int64 source;
	int64 counter;
	int64 drift; /* source - counter */
	bool items;	 /* reference counts of the key differ, perhaps so that the values do not */
} DcSourceDiff;

/*
 * Return true if a difference has something to repair.
 */
static inline bool
diff_to_repair(const DcSourceDiff *diff)
{
	return diff->drift != 0 || diff->items;
}

typedef struct DcSourceScan DcSourceScan;


extern void scan_pace(DcScanPace *pace);
extern void source_filter_init(DcSourceFilter *filter, const DcSourceScanOptions *options);
extern bool source_filter(const DcSourceFilter *filter, const char *data, uint32 len);
extern DcSourceScan *source_scan_begin(DcSourceRead *read, const DcSourceScanOptions *options);
extern bool source_scan_next(DcSourceScan *scan, DcSourceDiff *diff);
extern int64 source_scan_rows(const DcSourceScan *scan);
extern void source_diff_set(DcSourceDiff *diff, int64 source, int64 counter);
extern void source_scan_end(DcSourceScan *scan);

#endif /* DC_SOURCESCAN_H */
