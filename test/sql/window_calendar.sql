-- Windowed counters by calendar: days, months and years of a time zone.
SET timezone = 'UTC';
SET datestyle = 'ISO';

-- The start of a day is the first instant whose local date is that day, or later: for all days of zones in which midnight does not
-- exist, comes twice, or in which a day was left out.
CREATE TEMP TABLE cal_day AS SELECT z, n, date '2000-01-03' + n AS day, dcounter.window_calendar_bucket(E'k\x01' || lpad(to_hex(n), 8, '0'), 1, 'day', z) AS start
	FROM unnest(ARRAY['America/Sao_Paulo', 'Pacific/Apia', 'Australia/Lord_Howe', 'America/St_Johns', 'Europe/Berlin', 'America/Havana']) AS z, generate_series(2500, 8000) AS n;
SELECT count(*), count(*) FILTER (WHERE (start AT TIME ZONE z)::date < day) AS too_early, count(*) FILTER (WHERE ((start - interval '1 us') AT TIME ZONE z)::date >= day) AS too_late FROM cal_day;
-- no earlier instant of the three hours before is in it: looked at where the next day begins less, or more, than 24 hours later
SELECT count(*), count(*) FILTER (WHERE EXISTS (SELECT FROM generate_series(1, 180) AS m WHERE ((d.start - m * interval '1 minute') AT TIME ZONE d.z)::date >= d.day)) AS not_first
	FROM cal_day AS d JOIN cal_day AS e ON e.z = d.z AND e.n = d.n + 1 WHERE e.start - d.start <> interval '1 day';
SELECT z, day, start FROM cal_day WHERE (z, day) IN (('America/Sao_Paulo', '2017-10-15'), ('America/St_Johns', '2010-11-07'), ('America/Havana', '2020-11-01'), ('Europe/Berlin', '2021-03-29'))
	OR z = 'Pacific/Apia' AND day BETWEEN '2011-12-29' AND '2011-12-31' ORDER BY z, day;
-- months: PostgreSQL takes the second midnight of 2009-11-01
SELECT z, n, s, t FROM unnest(ARRAY['Pacific/Apia', 'Europe/Berlin', 'America/St_Johns']) AS z, generate_series(0, 359) AS n, LATERAL (SELECT dcounter.window_calendar_bucket(E'k\x01' || lpad(to_hex(n), 8, '0'), 1, 'month', z) AS s,
	('2000-01-01'::timestamp + n * interval '1 month') AT TIME ZONE z AS t) AS m WHERE s <> t;
SELECT dcounter.window_calendar_bucket(E'k\x0100000002', 12, 'month', 'Asia/Kolkata') AS year, dcounter.window_calendar_bucket(E'k\x0100000001', 7, 'day', 'Asia/Kolkata') AS week,
	dcounter.window_calendar_bucket('k', 1, 'day', 'UTC') AS no_bucket, dcounter.window_calendar_bucket(E'k\x01ffffffff', 1000, 'month', 'UTC') AS no_time,
	dcounter.window_calendar_bucket(E'k\x01ffffffff', 1, 'day', 'UTC') AS no_day;
SELECT dcounter.window_calendar_bucket(E'k\x0100000001', 1, 'fortnight', 'UTC');
SELECT dcounter.window_calendar_bucket(E'k\x0100000001', 1, 'day', 'Nowhere/Gone');

-- The bucket of an instant is the last one that has started, also while the local date goes back, and where a day was left out.
SELECT dc_window_create('cal_newfoundland', '1 day', '25 years', time_zone => 'America/St_Johns');
SELECT dc_window_create('cal_apia', '1 day', '25 years', '{"1 month": "30 years"}', time_zone => 'Pacific/Apia');
SELECT count(dc_incr_at('cal_newfoundland', 'k', 1, t)) FROM (SELECT t FROM generate_series('2010-11-06 00:00'::timestamptz, '2010-11-09 00:00', '10 minutes') AS t ORDER BY t::time, t) AS s; -- so that no bucket is the last one that was looked for
SELECT count(dc_incr_at('cal_apia', 'k', 1, t)) FROM generate_series('2011-12-29 00:00'::timestamptz, '2012-01-01 12:00', '10 minutes') AS t;
SELECT bucket, bucket AT TIME ZONE 'America/St_Johns' AS local, value FROM dc_buckets('cal_newfoundland', 'k', '2010-11-06', '2010-11-09');
SELECT dc_compact() >= 0 AS compacted;
SELECT (SELECT count(*) FROM (SELECT bucket, value FROM cal_newfoundland EXCEPT SELECT bucket, value FROM dc_buckets('cal_newfoundland', 'k', '2010-11-06', '2010-11-09')) AS d) AS differ;
SELECT bucket, bucket AT TIME ZONE 'Pacific/Apia' AS local, value FROM dc_buckets('cal_apia', 'k', '2011-12-29', '2012-01-01 12:00');
SELECT lower, upper, value FROM dc_window('cal_apia', 'k', '24 hours', '2011-12-30 10:00');

-- Spans have days, months and years of the zone: from the start of a month on, whole months, whatever its days are. The first instants of
-- months are given, for a zone in which the clock is set at midnight, and one in which a day has half an hour more.
CREATE TEMP TABLE cal_span_log AS SELECT '2015-01-01 UTC'::timestamptz + n * interval '21 hours 7 minutes' AS at, 1 + n % 11 AS delta FROM generate_series(0, 2900) AS n;
CREATE FUNCTION cal_spans(counter regclass, zone text, months int) RETURNS TABLE (checked bigint, differ bigint) LANGUAGE sql AS $$
	WITH month AS (SELECT n, dcounter.window_calendar_bucket(E'k\x01' || lpad(to_hex(n), 8, '0'), 1, 'month', zone) AS start FROM generate_series(180, 264) AS n),
	span AS (SELECT a.start AS since, b.start AS until, make_interval(months => b.n - a.n) AS span FROM month AS a JOIN month AS b ON b.n - a.n IN (months, 3, 12, 36) WHERE a.n % months = 0 AND b.n % months = 0)
	SELECT count(*), count(*) FILTER (WHERE (w.lower, w.value, w.upper) IS DISTINCT FROM (l.n, l.n, l.n))
	FROM span AS s, dc_window(counter, 'k', s.span, s.until) AS w, LATERAL (SELECT coalesce(sum(delta), 0)::bigint AS n FROM cal_span_log WHERE at >= s.since AND at < s.until) AS l
$$;
SELECT dc_window_create('cal_havana', '1 day', '30 years', time_zone => 'America/Havana'), dc_window_create('cal_lord_howe', '1 month', '30 years', time_zone => 'Australia/Lord_Howe'),
	dc_window_create('cal_quarter', '3 months', '30 years', time_zone => 'America/Havana'), dc_window_create('cal_mixed', '1 day', '30 days', '{"1 month": "20 months", "3 months": "30 months", "1 year": "60 years"}', time_zone => 'America/Havana');
SELECT c, count(dc_incr_at(c, 'k', delta, at)) FROM cal_span_log, unnest('{cal_havana,cal_lord_howe,cal_quarter,cal_mixed}'::regclass[]) AS c GROUP BY 1 ORDER BY 1;
SELECT * FROM cal_spans('cal_havana', 'America/Havana', 1);
SELECT * FROM cal_spans('cal_lord_howe', 'Australia/Lord_Howe', 1);
SELECT * FROM cal_spans('cal_quarter', 'America/Havana', 3);
SELECT * FROM cal_spans('cal_mixed', 'America/Havana', 12);
-- what is not whole has bounds: a month, a quarter, a year
SELECT lower <= n AND n <= upper AND lower < upper AS holds, value BETWEEN lower AND upper AS between FROM unnest('{cal_lord_howe,cal_quarter,cal_mixed}'::regclass[]) AS c, dc_window(c, 'k', '2 years 1 month 3 days 4 hours', '2019-08-17 12:00+00'),
	LATERAL (SELECT sum(delta) AS n FROM cal_span_log WHERE at >= '2017-07-14 08:00+00' AND at < '2019-08-17 12:00+00') AS l;
-- Days: that of 23 hours, which begins at 01:00, and the one of 25, with two midnights; a day ago is the same local time
SELECT u, d.lower = l.n AND d.upper = l.n AS day, h.lower = h.upper AS hours FROM unnest('{2018-03-11 05:00+00,2018-03-12 04:00+00,2018-11-04 04:00+00,2018-11-05 05:00+00}'::timestamptz[]) AS u, dc_window('cal_havana', 'k', '1 day', u) AS d, dc_window('cal_havana', 'k', '24 hours', u) AS h,
	LATERAL (SELECT coalesce(sum(delta), 0) AS n FROM cal_span_log WHERE (at AT TIME ZONE 'America/Havana')::date = ((u - interval '1 us') AT TIME ZONE 'America/Havana')::date) AS l;
SELECT dc_window_create('cal_minutes', '30 minutes', '3650 days', '{"1 day": "30 years"}', time_zone => 'Australia/Lord_Howe');
SELECT dc_incr_at('cal_minutes', 'k', 1, '2026-04-03 10:00+00'), dc_incr_at('cal_minutes', 'k', 2, '2026-04-03 15:30+00'), dc_incr_at('cal_minutes', 'k', 4, '2026-04-04 10:00+00'), dc_incr_at('cal_minutes', 'k', 8, '2026-04-04 15:30+00'), dc_incr_at('cal_minutes', 'k', 16, '2026-04-05 02:30+00'), dc_incr_at('cal_minutes', 'k', 32, '2026-04-04 03:00+00'), dc_incr_at('cal_minutes', 'k', 64, '2026-04-04 02:30+00');
SELECT s, value, lower, upper FROM unnest('{1 day,2 days,24:30,24:00,1 day 1 hour,1 month,1 month -29 days}'::interval[]) AS s, dc_window('cal_minutes', 'k', s, '2026-04-05 03:30+00'); -- 14:00 of the day with half an hour more
-- the keys of the last months, and of this one: buckets that have begun in the span
SELECT dc_incr_at('cal_lord_howe', 'now', 1000), dc_incr_at('cal_quarter', 'now', 1000), dc_incr_at('cal_mixed', 'now', 1000);
SELECT c, key, value FROM unnest('{cal_lord_howe,cal_quarter,cal_mixed}'::regclass[]) AS c, dc_top_window(c, CASE WHEN c = 'cal_quarter'::regclass THEN '3 months' ELSE '1 month' END::interval, 1);
SELECT value = (SELECT sum(delta) FROM cal_span_log) AS all FROM dc_top_window('cal_mixed', '60 years') WHERE key = 'k';
-- errors, and times without an end
SELECT dc_window('cal_mixed', 'k', '0');
SELECT dc_window('cal_mixed', 'k', '1 month -40 days');
SELECT dc_top_window('cal_mixed', '-1 month');
SELECT dc_window('cal_mixed', 'k', '100000 years');
SELECT dc_window('cal_mixed', 'k', '1 day', '-infinity'), dc_window('cal_mixed', 'k', '1 day', 'infinity');
SELECT dc_window_drop('cal_havana'), dc_window_drop('cal_lord_howe'), dc_window_drop('cal_quarter'), dc_window_drop('cal_mixed'), dc_window_drop('cal_minutes');
DROP FUNCTION cal_spans(regclass, text, int);

-- Days in months: what is counted in a day goes to the month of its local date, whenever it is moved.
SELECT dc_window_create('cal', '1 day', '90 days', '{"1 month": "5 years"}', time_zone => 'europe/berlin');
SELECT bucket, keep, rollup, levels, time_zone FROM dc_windows WHERE name = 'public.cal';
SELECT widths, keeps, units FROM dcounter.time_window WHERE windowed = 'cal'::regclass;
CREATE TEMP TABLE cal_log AS SELECT now() - n * interval '10 hours 17 minutes' AS at, n % 7 AS delta FROM generate_series(0, 450) AS n;
SELECT count(dc_incr_at('cal', 'k', delta, at)) FROM cal_log;
CREATE VIEW cal_floors AS SELECT windowed::text, '2000-01-01 UTC'::timestamptz + floors[1] * interval '1 us' AS first, '2000-01-01 UTC'::timestamptz + floors[2] * interval '1 us' AS second FROM dcounter.time_window;
CREATE FUNCTION cal_differences() RETURNS bigint LANGUAGE sql AS $$
	SELECT count(*) FROM (SELECT bucket, value FROM dc_buckets('cal', 'k', now() - interval '1 year') WHERE value <> 0) AS w
		FULL JOIN (SELECT date_trunc(CASE WHEN at >= date_trunc('month', first + interval '12 hours', 'Europe/Berlin') THEN 'day' ELSE 'month' END, at, 'Europe/Berlin') AS bucket, sum(delta) AS value
			FROM cal_log, cal_floors WHERE windowed = 'cal' GROUP BY 1 HAVING sum(delta) <> 0) AS l USING (bucket)
	WHERE w.value IS DISTINCT FROM l.value
$$;
SELECT cal_differences();
DO $$
DECLARE
	wrong bigint := 0;
BEGIN
	FOR i IN 1..8 LOOP
		PERFORM dc_compact(), dc_window_rotate('cal', now() + i * interval '23 days');
		wrong := wrong + cal_differences() + (SELECT count(*) FROM dc_window('cal', 'k', '400 days') WHERE value <> (SELECT sum(delta) FROM cal_log));
	END LOOP;
	RAISE NOTICE '% differences', wrong;
END $$;
SELECT dc_compact() >= 0 AS compacted;
SELECT (SELECT sum(value) FROM cal) = (SELECT sum(delta) FROM cal_log) AS same, (SELECT count(*) FROM cal WHERE bucket <> date_trunc('day', bucket, 'Europe/Berlin')) AS not_at_midnight;
-- floors are where months begin; turns are not
SELECT count(*) FROM cal_floors WHERE windowed = 'cal' AND first = date_trunc('month', first, 'Europe/Berlin');
SELECT dc_window_reopen('cal'), cal_differences();

-- Rules of the zone that have changed since: the same days are shown, by what their borders are now
UPDATE dcounter.time_window SET floors = ARRAY[floors[1] + 3600000000, floors[2] - 3600000000] WHERE windowed = 'cal'::regclass;
SELECT cal_differences(), dc_window_reopen('cal'), cal_differences();
SELECT sum(value) = (SELECT sum(delta) FROM cal_log) AS same FROM dc_buckets('cal', 'k', now() - interval '1 year');

-- the future: tomorrow is one bucket ahead, the day after is not (of a new one, as this one was rolled up far ahead)
SELECT dc_window_drop('cal');
SELECT dc_window_create('cal', '1 day', '90 days', '{"1 month": "5 years"}', time_zone => 'europe/berlin');
SELECT count(dc_incr_at('cal', 'k', delta, at)) FROM cal_log;
SELECT date_trunc('day', now(), 'Europe/Berlin') AS today \gset
SELECT dc_incr_at('cal', 'soon', 1, (:'today'::timestamptz AT TIME ZONE 'Europe/Berlin' + interval '2 days') AT TIME ZONE 'Europe/Berlin' - interval '1 us');
\set VERBOSITY sqlstate
SELECT dc_incr_at('cal', 'soon', 1, (:'today'::timestamptz AT TIME ZONE 'Europe/Berlin' + interval '2 days') AT TIME ZONE 'Europe/Berlin');
SELECT dc_incr_at('cal', 'old', 1, now() - interval '23 years');
\set VERBOSITY default
SELECT key FROM dc_top_window('cal', '10 days', 2);

-- sealing, and exact totals of a day
CALL dc_seal('cal', :'today');
SELECT sealed = :'today' AS sealed FROM dc_windows WHERE name = 'public.cal';
SELECT dc_window_reconcile('cal', date_trunc('day', :'today'::timestamptz - interval '1 hour', 'Europe/Berlin'), ARRAY['x'], ARRAY[42]);
SELECT value FROM dc_buckets('cal', 'x', :'today'::timestamptz - interval '1 hour', :'today');
\set VERBOSITY sqlstate
SELECT dc_window_reconcile('cal', :'today'::timestamptz - interval '1 hour', ARRAY['x'], ARRAY[42]) IS NULL;
\set VERBOSITY default

-- a span that is not positive is an error whatever it ends at
\set VERBOSITY sqlstate
SELECT dc_window('cal', 'k', '-1 month', 'infinity');
SELECT dc_window('cal', 'k', '0', '-infinity');
\set VERBOSITY default
SELECT value FROM dc_window('cal', 'none', '1 month', 'infinity');
-- keep: in days, within the room of the tables
SELECT dc_window_alter('cal', keep => '3 months');
SELECT keep FROM dc_windows WHERE name = 'public.cal';
SELECT dc_window_alter('cal', keep => '1 year');

-- registered anew
SELECT sum(value) AS before FROM dc_buckets('cal', 'k', now() - interval '1 year') \gset
DELETE FROM dcounter.window_slot WHERE windowed = 'cal'::regclass;
DELETE FROM dcounter.window_claim WHERE windowed = 'cal'::regclass;
DELETE FROM dcounter.time_window WHERE windowed = 'cal'::regclass;
SELECT dc_window_adopt('cal', '1 day', '90 days', '{"1 month": "5 years"}', time_zone => 'Europe/Berlin');
SELECT sum(value) = :before AS same FROM dc_buckets('cal', 'k', now() - interval '1 year');

-- months in years, which have the same number of them
SELECT dc_window_create('cal_fine', '3 months', '5 years', '{"1 year": "20 years"}', time_zone => 'Asia/Kolkata');
SELECT spans, units FROM dcounter.time_window WHERE windowed = 'cal_fine'::regclass;
SELECT rollup FROM dc_windows WHERE name = 'public.cal_fine';
SELECT dc_window_drop('cal_fine');

-- minutes in days: a fixed number of minutes in a turn, and floors at local midnight
SELECT dc_window_create('cal_fine', '30 minutes', '2 days', '{"1 day": "1 year"}', time_zone => 'Australia/Lord_Howe');
-- (a turn has the minutes of the longest day)
SELECT spans, units FROM dcounter.time_window WHERE windowed = 'cal_fine'::regclass;
SELECT count(dc_incr_at('cal_fine', 'k', 1, now() - n * interval '49 minutes')) FROM generate_series(0, 300) AS n;
DO $$
DECLARE
	wrong bigint := 0;
BEGIN
	FOR i IN 1..6 LOOP
		PERFORM dc_compact(), dc_window_rotate('cal_fine', now() + i * interval '31 hours');
		wrong := wrong + (SELECT count(*) FROM cal_floors WHERE windowed = 'cal_fine' AND (first <> date_trunc('day', first, 'Australia/Lord_Howe') OR first > now() + i * interval '31 hours' - interval '2 days'))
			+ (SELECT count(*) FROM (SELECT sum(value) AS s FROM dc_buckets('cal_fine', 'k', now() - interval '20 days')) AS b WHERE s <> 301);
	END LOOP;
	RAISE NOTICE '% differences', wrong;
END $$;

-- what does not fit
SELECT dc_window_create('cal_no', '1 day', '90 days', time_zone => 'Nowhere/Gone');
-- a zone by its rules, of which there is no end; but names may have digits
SELECT dc_window_create('cal_no', '1 day', '90 days', time_zone => 'EVER+1:00:01');
SELECT dc_window_create('cal_no', '1 day', '90 days', time_zone => '<+01>-1<+02>,M3.5.0,M10.5.0/3');
BEGIN;
SELECT dc_window_create('cal_gmt', '1 day', '90 days', time_zone => 'etc/gmt+5');
SELECT time_zone FROM dc_windows WHERE name = 'public.cal_gmt';
ROLLBACK;
SELECT dc_window_create('cal_no', '1 month', '1 year');
SELECT dc_window_create('cal_no', '1 day', '1 hour', time_zone => NULL);
SELECT dc_window_create('cal_no', '1 month 3 days', '1 year', time_zone => 'UTC');
SELECT dc_window_create('cal_no', '1 day 1 hour', '1 year', time_zone => 'UTC');
SELECT dc_window_create('cal_no', '7 days', '90 days', '{"1 month": "5 years"}', time_zone => 'UTC');
SELECT dc_window_create('cal_no', '1 month', '90 months', '{"1 day": "50 years"}', time_zone => 'UTC');
SELECT dc_window_create('cal_no', '2 months', '90 months', '{"3 months": "50 years"}', time_zone => 'UTC');
SELECT dc_window_create('cal_no', '1 hour', '2 days', '{"1 day": "90 days"}', time_zone => 'Australia/Lord_Howe');
SELECT dc_window_create('cal_no', '1 hour', '2 days', '{"1 month": "90 months"}', time_zone => 'Asia/Kolkata');
SELECT dc_window_create('cal_no', '7 minutes', '2 days', '{"1 day": "90 days"}', time_zone => 'UTC');
SELECT dc_window_create('cal_no', '1 day', '2 years', '{"1 month": "2 years"}', time_zone => 'UTC');
SELECT dc_window_create('cal_no', '1 month', '101 years', time_zone => 'UTC');
SELECT dc_window_create('cal_no', '1 hour', '2 days', time_zone => 'UTC');
-- a server that does not know the zone any more: the data can be dropped, not counted
UPDATE dcounter.time_window SET time_zone = 'Nowhere/Gone' WHERE windowed = 'cal'::regclass;
SELECT dc_incr_at('cal', 'k');
SELECT sum(value) > 0 FROM dc_buckets('cal', 'k', now() - interval '1 day');
SET client_min_messages = warning;
DROP VIEW cal CASCADE;
SELECT dc_window_drop('cal_fine'), dc_window_drop('cal_apia'), dc_window_drop('cal_newfoundland');
SELECT count(*) FROM pg_class WHERE relname ~ '^cal_.*w\d+$';
DROP FUNCTION cal_differences();
DROP VIEW cal_floors;
