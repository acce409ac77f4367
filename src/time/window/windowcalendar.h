/*
 * windowcalendar.h
 *		Buckets of days and months of a time zone (see windowcalendar.c).
 *
 * Copyright (c) 2026, the dcounter developers
 */
#ifndef DC_WINDOWCALENDAR_H
#define DC_WINDOWCALENDAR_H

#include "datatype/timestamp.h"
#include "pgtime.h"

/* Days of months. */
#define SHORTEST_MONTH 28
#define LONGEST_MONTH 31

/* What the width of a bucket is counted in. */
typedef enum DcUnit
{
	DC_UNIT_TIME, /* microseconds; the others are those of a time zone */
	DC_UNIT_DAY,
	DC_UNIT_MONTH
} DcUnit;

extern int64 calendar_bucket(TimestampTz at, DcUnit unit, int64 n, pg_tz *zone);
extern TimestampTz calendar_start(int64 bucket, DcUnit unit, int64 n, pg_tz *zone);
extern TimestampTz calendar_before(TimestampTz at, const Interval *interval, pg_tz *zone);
extern bool calendar_offsets_fit(int64 width, pg_tz *zone);

#endif /* DC_WINDOWCALENDAR_H */
