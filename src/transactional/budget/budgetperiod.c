/*
 * budgetperiod.c
 *		Periods of allowances: which one a time is in, and when it begins.
 *
 * Copyright (c) 2026, the dcounter developers
 *
 * Period n begins at anchor + n * period, always reckoned from the anchor: so months that begin on
 * the 31st do not drift, and no period depends on when the one before was used. Times are those of
 * a time zone, without it; the caller converts them.
 */
#include "postgres.h"

#include <math.h>

#include "common/int.h"
#include "lib/stringinfo.h"
#include "miscadmin.h"
#include "utils/fmgrprotos.h"
#include "utils/timestamp.h"

#include "base/compat.h"
#include "transactional/budget/budget.h"

#define MAX_MONTHS (10000 * MONTHS_PER_YEAR)
#define MAX_DAYS 3660000

/* The length of a month on the average, in us, to guess the number of a period. */
#define MONTH_US (365.2425 / MONTHS_PER_YEAR * USECS_PER_DAY)

static Timestamp period_begin(const Interval *period, Timestamp anchor, int64 n);

/*
 * period_check raises 22023 for a period that is shorter than a second or longer than 10,000 years,
 * or has a negative part.
 */
void
period_check(const Interval *period, const char *name)
{
	if (period->month < 0 || period->day < 0 || period->time < 0 ||
		(period->month == 0 && period->day == 0 && period->time < USECS_PER_SEC) ||
		period->month > MAX_MONTHS || period->day > MAX_DAYS || period->time > MAX_DAYS * USECS_PER_DAY)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("%s must be between 1 second and 10000 years", name)));
}

/*
 * period_name returns a name of a period, which does not depend on settings: as in ISO 8601, but
 * with all of its time in seconds.
 */
char *
period_name(const Interval *period)
{
	StringInfoData name;

	initStringInfo(&name);
	appendStringInfoChar(&name, 'P');
	if (period->month > 0)
		appendStringInfo(&name, "%dM", period->month);
	if (period->day > 0)
		appendStringInfo(&name, "%dD", period->day);
	if (period->time > 0)
		appendStringInfo(&name, "T%lld", (long long) (period->time / USECS_PER_SEC));
	if (period->time % USECS_PER_SEC > 0)
		appendStringInfo(&name, ".%06d", (int) (period->time % USECS_PER_SEC));
	if (period->time > 0)
		appendStringInfoChar(&name, 'S');
	return name.data;
}

/*
 * period_find returns the number of the period that a time is in, and when it begins.
 */
int64
period_find(const Interval *period, Timestamp anchor, Timestamp here, Timestamp *begins)
{
	double length = period->month * MONTH_US + (double) period->day * USECS_PER_DAY + period->time;
	int64 n = (int64) floor(((double) here - (double) anchor) / length);

	*begins = period_begin(period, anchor, n);
	while (*begins > here)
	{
		CHECK_FOR_INTERRUPTS();
		*begins = period_begin(period, anchor, --n);
	}
	for (;;)
	{
		Timestamp next = period_begin(period, anchor, n + 1);

		CHECK_FOR_INTERRUPTS();
		if (next > here)
			return n;
		*begins = next;
		n++;
	}
}

/*
 * period_end returns when period n ends, if each lasts as long as `valid_for`: for that of the
 * period itself, when the next one begins.
 *
 * What is added to the anchor is one interval, as 31 January and a month, and another month, is not
 * 31 January and two months.
 */
Timestamp
period_end(const Interval *period, Timestamp anchor, int64 n, const Interval *valid_for)
{
	Interval since;
	int64 month;
	int64 day;

	if (pg_mul_s64_overflow(period->time, n, &since.time) ||
		pg_add_s64_overflow(since.time, valid_for->time, &since.time) ||
		pg_mul_s64_overflow(period->month, n, &month) || month + valid_for->month != (int32) (month + valid_for->month) ||
		pg_mul_s64_overflow(period->day, n, &day) || day + valid_for->day != (int32) (day + valid_for->day))
		ereport(ERROR,
				(errcode(ERRCODE_DATETIME_VALUE_OUT_OF_RANGE),
				 errmsg("anchor is too far away for that period")));
	since.month = (int32) (month + valid_for->month);
	since.day = (int32) (day + valid_for->day);
	return DatumGetTimestamp(DirectFunctionCall2(timestamp_pl_interval, TimestampGetDatum(anchor), IntervalPGetDatum(&since)));
}

/*
 * Return when a period begins.
 */
static Timestamp
period_begin(const Interval *period, Timestamp anchor, int64 n)
{
	Interval none = {0};

	return period_end(period, anchor, n, &none);
}
