/*
 * windowcalendar.c
 *		Buckets of days and months of a time zone.
 *
 * Copyright (c) 2026, the dcounter developers
 *
 * A bucket has n days, counted from Monday, 2000-01-03, or n months, counted from January 2000, of
 * the local calendar. Its number is a date. So when the rules of the zone change, no row gets
 * another number: only the instants at which later buckets begin are others.
 *
 * A day starts at the first instant whose local date is that day or a later one, and the bucket of
 * an instant is the last one that has started. So both are monotone, also where local time is not:
 * where midnight does not exist (America/Sao_Paulo until 2018), where clocks were set back over
 * midnight (America/St_Johns until 2011), and where a day was left out (Pacific/Apia, 2011-12-30):
 * that one has no length, and no instant is in it.
 *
 * The zone is the server's. Rules are those that the process has read when it used the zone first.
 */
#include "postgres.h"

#include "common/int.h"
#include "utils/datetime.h"
#include "utils/fmgrprotos.h"
#include "utils/timestamp.h"

#include "base/bucket.h"
#include "base/compat.h"
#include "time/window/windowcalendar.h"

#define EPOCH_DAYS (POSTGRES_EPOCH_JDATE - UNIX_EPOCH_JDATE)
#define ORIGIN_DAYS (BUCKET_ORIGIN / USECS_PER_DAY)

/* Days and months beyond which there are no times. */
#define LAST_DAY (END_TIMESTAMP / USECS_PER_DAY)
#define LAST_MONTH (LAST_DAY / 31)

/* Offsets of a zone are looked at until then: later ones follow the same rules. */
#define LAST_YEAR 2100

/* The bucket that was looked for last in each unit; zones are never freed. */
typedef struct DcCalendarBucket
{
	pg_tz *zone; /* NULL: none */
	int64 n;
	int64 bucket;
	TimestampTz start;
	TimestampTz end;
} DcCalendarBucket;

static DcCalendarBucket latest[DC_UNIT_MONTH + 1];

static Timestamp calendar_local(TimestampTz at, pg_tz *zone);
static TimestampTz calendar_instant(Timestamp local, pg_tz *zone);
pg_noreturn static void calendar_out_of_range(void);
static int64 calendar_div(int64 a, int64 b);
static bool next_offset(pg_time_t at, long int *offset, pg_time_t *next, pg_tz *zone);
static pg_time_t time_of(TimestampTz at);
static int64 day_of(TimestampTz at, pg_tz *zone);
static TimestampTz day_start(int64 day, pg_tz *zone);
static int64 month_of_day(int64 day);
static int64 first_of_month(int64 month);

/*
 * calendar_bucket returns the number of the bucket that a time is in. It remembers the last one, as
 * most calls are for the same.
 */
int64
calendar_bucket(TimestampTz at, DcUnit unit, int64 n, pg_tz *zone)
{
	DcCalendarBucket *last = &latest[unit];
	DcCalendarBucket found;
	int64 number;

	if (at >= last->start && at < last->end && last->zone == zone && last->n == n && zone != NULL)
		return last->bucket;
	at = Min(Max(at, MIN_TIMESTAMP), END_TIMESTAMP - 1);
	number = day_of(at, zone);
	if (unit == DC_UNIT_MONTH)
		number = month_of_day(number);
	found = (DcCalendarBucket){.zone = zone, .n = n, .bucket = calendar_div(number, n)};
	found.start = calendar_start(found.bucket, unit, n, zone);
	found.end = calendar_start(found.bucket + 1, unit, n, zone);
	*last = found;
	return found.bucket;
}

/*
 * calendar_start returns the instant at which a bucket begins. For one beyond the range of times it
 * returns the last or first time, as bucket_start() does.
 */
TimestampTz
calendar_start(int64 bucket, DcUnit unit, int64 n, pg_tz *zone)
{
	int64 limit = unit == DC_UNIT_MONTH ? LAST_MONTH : LAST_DAY;

	if (bucket > limit / n || bucket < -limit / n)
		return bucket < 0 ? PG_INT64_MIN : PG_INT64_MAX;
	return day_start(unit == DC_UNIT_MONTH ? first_of_month(bucket * n) : bucket * n, zone);
}

/*
 * calendar_before returns the time that is an interval before another one. Months and days are
 * those of the local calendar, as where an interval is subtracted from a timestamptz; the rest is a
 * duration. Before the start of a day is the start of a day: so from the start of a month on, it
 * goes by whole months. Raises 22008 for a time that is out of range.
 */
TimestampTz
calendar_before(TimestampTz at, const Interval *interval, pg_tz *zone)
{
	Interval dates = {.month = interval->month, .day = interval->day};
	TimestampTz result = at;

	if (TIMESTAMP_NOT_FINITE(at))
		return at;
	if (dates.month != 0 || dates.day != 0)
	{
		bool starts = at == day_start(day_of(at, zone), zone);
		Timestamp local = DatumGetTimestamp(DirectFunctionCall2(timestamp_mi_interval, TimestampGetDatum(calendar_local(at, zone)), IntervalPGetDatum(&dates)));

		result = starts ? day_start(calendar_div(local, USECS_PER_DAY) - ORIGIN_DAYS, zone) : calendar_instant(local, zone);
	}
	if (pg_sub_s64_overflow(result, interval->time, &result) || !IS_VALID_TIMESTAMP(result))
		calendar_out_of_range();
	return result;
}

/*
 * Return the local time of an instant.
 */
static Timestamp
calendar_local(TimestampTz at, pg_tz *zone)
{
	struct pg_tm tm;
	fsec_t fsec;
	int offset;
	Timestamp local;

	if (timestamp2tm(at, &offset, &tm, &fsec, NULL, zone) != 0 || tm2timestamp(&tm, fsec, NULL, &local) != 0)
		calendar_out_of_range();
	return local;
}

/*
 * Return the instant of a local time: where there are two, or none, that which the server takes.
 */
static TimestampTz
calendar_instant(Timestamp local, pg_tz *zone)
{
	struct pg_tm tm;
	fsec_t fsec;
	int offset;
	TimestampTz at;

	if (timestamp2tm(local, NULL, &tm, &fsec, NULL, NULL) != 0)
		calendar_out_of_range();
	offset = DetermineTimeZoneOffset(&tm, zone);
	if (tm2timestamp(&tm, fsec, &offset, &at) != 0)
		calendar_out_of_range();
	return at;
}

/*
 * Raise the server's error about a time that is out of range.
 */
static void
calendar_out_of_range(void)
{
	ereport(ERROR,
			(errcode(ERRCODE_DATETIME_VALUE_OUT_OF_RANGE),
			 errmsg("timestamp out of range")));
}

/*
 * calendar_offsets_fit returns true if all offsets that a zone has had from UTC since 2000 are
 * multiples of a width, so that buckets of that width do not lie across the start of a day.
 */
bool
calendar_offsets_fit(int64 width, pg_tz *zone)
{
	pg_time_t at = time_of(0);
	pg_time_t end = time_of((int64) (date2j(LAST_YEAR, 1, 1) - POSTGRES_EPOCH_JDATE) * USECS_PER_DAY);
	pg_time_t next;
	long int offset;
	bool more;

	do
	{
		more = next_offset(at, &offset, &next, zone) && next < end;
		if (offset * USECS_PER_SEC % width != 0)
			return false;
		at = next;
	} while (more);
	return true;
}

/*
 * Divide and round down; b must be positive.
 */
static int64
calendar_div(int64 a, int64 b)
{
	return a / b - (a % b < 0);
}

/*
 * Return the offset from UTC at a time, and when it changes next; false if it does not. An error if
 * the server does not know the zone.
 */
static bool
next_offset(pg_time_t at, long int *offset, pg_time_t *next, pg_tz *zone)
{
	long int after;
	int is_dst;
	int found = zone == NULL ? -1 : pg_next_dst_boundary(&at, offset, &is_dst, next, &after, &is_dst, zone);

	if (found < 0)
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("the time zone of the windowed counter is not known to this server"),
				 errhint("dc_windows shows its name. Install the time zone data that has it.")));
	return found > 0;
}

/*
 * Return the second that a time is in, counted from 1970.
 */
static pg_time_t
time_of(TimestampTz at)
{
	return calendar_div(at, USECS_PER_SEC) + (pg_time_t) EPOCH_DAYS * SECS_PER_DAY;
}

/*
 * Return the last day that has started at a time.
 */
static int64
day_of(TimestampTz at, pg_tz *zone)
{
	pg_time_t when = time_of(at);
	pg_time_t next;
	long int offset;
	int64 day;

	(void) next_offset(when, &offset, &next, zone);
	day = calendar_div(when + offset - (pg_time_t) EPOCH_DAYS * SECS_PER_DAY, SECS_PER_DAY) - ORIGIN_DAYS;
	while (day_start(day + 1, zone) <= at)
		day++;
	return day;
}

/*
 * Return the first instant whose local date is a day, or later: in the stretches of time between
 * two changes of the offset, one after the other, local midnight, or the beginning of the stretch.
 */
static TimestampTz
day_start(int64 day, pg_tz *zone)
{
	pg_time_t midnight = (day + ORIGIN_DAYS + EPOCH_DAYS) * SECS_PER_DAY;
	pg_time_t at = midnight - 8 * SECS_PER_DAY; /* no zone is that far ahead: POSIX ones may have 167 hours */
	pg_time_t start;
	pg_time_t next;
	long int offset;

	while (next_offset(at, &offset, &next, zone) && Max(at, midnight - offset) >= next)
		at = next;
	start = Max(at, midnight - offset);
	return (start - (pg_time_t) EPOCH_DAYS * SECS_PER_DAY) * USECS_PER_SEC;
}

/*
 * Return the month of a day.
 */
static int64
month_of_day(int64 day)
{
	int year;
	int month;
	int ignored;

	j2date((int) (day + ORIGIN_DAYS) + POSTGRES_EPOCH_JDATE, &year, &month, &ignored);
	return ((int64) year - 2000) * MONTHS_PER_YEAR + month - 1;
}

/*
 * Return the first day of a month.
 */
static int64
first_of_month(int64 month)
{
	int64 years = calendar_div(month, MONTHS_PER_YEAR);

	return date2j((int) (2000 + years), (int) (month - years * MONTHS_PER_YEAR) + 1, 1) - POSTGRES_EPOCH_JDATE - ORIGIN_DAYS;
}
