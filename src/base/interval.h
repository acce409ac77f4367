/*
 * interval.h
 *		Intervals as settings and arguments.
 *
 * Copyright (c) 2026, the dcounter developers
 */
#ifndef DC_INTERVAL_H
#define DC_INTERVAL_H

#include "common/int.h"
#include "datatype/timestamp.h"

/*
 * interval_to_us returns an interval in microseconds, with months of 30 days; one
 * that does not fit becomes the nearest number that does.
 */
static inline int64
interval_to_us(const Interval *interval)
{
	int64 days = (int64) interval->month * DAYS_PER_MONTH + interval->day;
	int64 us;

	if (pg_mul_s64_overflow(days, USECS_PER_DAY, &us))
		return days < 0 ? PG_INT64_MIN : PG_INT64_MAX;
	if (pg_add_s64_overflow(us, interval->time, &us))
		return us < 0 ? PG_INT64_MIN : PG_INT64_MAX;
	return us;
}

/*
 * interval_from_us returns an interval of this many microseconds.
 */
static inline Interval *
interval_from_us(int64 us)
{
	Interval *interval = palloc0(sizeof(Interval));

	interval->time = us;
	return interval;
}

#endif /* DC_INTERVAL_H */
