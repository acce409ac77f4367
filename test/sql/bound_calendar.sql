-- Roll-ups by local day and month: zones with days that are not one interval, sessions with other settings, and all that
-- moves a row to another period
\set VERBOSITY terse
SET client_min_messages = warning;
CREATE SCHEMA bound_calendar;
SET search_path = bound_calendar, public;

-- Sao Paulo: midnight that does not exist; Apia: a day that does not exist; Lord Howe: shifts of 30 minutes; St. John's: clocks
-- went back at 00:01; New York: an hour twice
CREATE TABLE events (id int GENERATED ALWAYS AS IDENTITY PRIMARY KEY, tenant int, tz text CHECK (now() AT TIME ZONE tz IS NOT NULL), at timestamptz, plan timestamp,
	day date GENERATED ALWAYS AS ((at AT TIME ZONE 'America/Sao_Paulo')::date) STORED);
SELECT dc_create(c) FROM unnest(ARRAY['by_zone', 'by_month', 'by_week', 'by_day', 'by_tenant', 'stored']) AS c;
SELECT dc_bind('by_zone', 'events', 'tz, (at AT TIME ZONE tz)::date', build => 'none');
SELECT dc_bind('by_month', 'events', 'tz, date_trunc(''month'', at AT TIME ZONE tz)::date', build => 'none');
SELECT dc_bind('by_week', 'events', 'date_trunc(''week'', at AT TIME ZONE ''Australia/Lord_Howe'')::date, tenant', build => 'none');
SELECT dc_bind('by_day', 'events', '(at AT TIME ZONE ''America/St_Johns'')::date', build => 'none');
SELECT dc_bind('by_tenant', 'events', 'tenant, date_trunc(''year'', plan)::date', build => 'none');
SELECT dc_bind('stored', 'events', 'day', value => 'tenant', build => 'none');
CREATE VIEW expected AS
	SELECT 'by_zone' AS counter, jsonb_build_array(tz, (at AT TIME ZONE tz)::date)::text AS key, count(*) AS value FROM events WHERE num_nulls(tz, at) = 0 GROUP BY 2 UNION ALL
	SELECT 'by_month', jsonb_build_array(tz, date_trunc('month', at AT TIME ZONE tz)::date)::text, count(*) FROM events WHERE num_nulls(tz, at) = 0 GROUP BY 2 UNION ALL
	SELECT 'by_week', jsonb_build_array(date_trunc('week', at AT TIME ZONE 'Australia/Lord_Howe')::date, tenant)::text, count(*) FROM events WHERE num_nulls(tenant, at) = 0 GROUP BY 2 UNION ALL
	SELECT 'by_day', to_jsonb((at AT TIME ZONE 'America/St_Johns')::date) #>> '{}', count(*) FROM events WHERE at IS NOT NULL GROUP BY 2 UNION ALL
	SELECT 'by_tenant', jsonb_build_array(tenant, date_trunc('year', plan)::date)::text, count(*) FROM events WHERE num_nulls(tenant, plan) = 0 GROUP BY 2 UNION ALL
	SELECT 'stored', to_jsonb(day) #>> '{}', sum(tenant) FROM events WHERE num_nulls(tenant, day) = 0 GROUP BY 2 HAVING sum(tenant) <> 0;
CREATE FUNCTION values_of(counter regclass) RETURNS TABLE (key text, value numeric) LANGUAGE plpgsql AS $$
BEGIN
	PERFORM dc_apply();
	RETURN QUERY EXECUTE format('SELECT key COLLATE "default", sum(inc - dec) FROM (SELECT key, inc, dec FROM %s UNION ALL SELECT key, inc, dec FROM %s_shard) AS u GROUP BY key HAVING sum(inc - dec) <> 0', counter, counter);
END $$;
CREATE FUNCTION differ(OUT counter text, OUT key text, OUT value numeric, OUT expected bigint) RETURNS SETOF record LANGUAGE sql AS $$
	SELECT * FROM (SELECT c AS counter, v.key, v.value FROM unnest(ARRAY['by_zone', 'by_month', 'by_week', 'by_day', 'by_tenant', 'stored']) AS c, values_of(c::regclass) AS v) AS v
		FULL JOIN expected AS e USING (counter, key) WHERE v.value IS DISTINCT FROM e.value UNION ALL
	SELECT c || ' is not what its source has', d.key, d.source, d.counter FROM unnest(ARRAY['by_zone', 'by_month', 'by_week', 'by_day', 'by_tenant', 'stored']) AS c, dc_source_check(c::regclass) AS d
$$;
CREATE FUNCTION hours(zone text, day date, days int) RETURNS void LANGUAGE sql AS $$
	INSERT INTO events (tenant, tz, at, plan) SELECT extract(hour FROM t)::int % 3, zone, t, t AT TIME ZONE 'UTC'
	FROM generate_series(day::timestamp AT TIME ZONE 'UTC' - interval '15 hours', day::timestamp AT TIME ZONE 'UTC' + interval '39 hours' + days * interval '1 day', interval '20 minutes') AS t
$$;
SET TimeZone = 'Asia/Tokyo';
SELECT hours('America/Sao_Paulo', '2018-11-04', 0), hours('Pacific/Apia', '2011-12-30', 1), hours('Australia/Lord_Howe', '2026-04-05', 0), hours('America/St_Johns', '2010-11-07', 0), hours('America/New_York', '2026-11-01', 0);
SELECT * FROM differ();
SELECT key, value FROM dc_scan('by_zone', '["Pacific/Apia"]');
SELECT key, value FROM dc_scan('by_zone', '["America/Sao_Paulo"]') UNION ALL SELECT key, value FROM dc_scan('by_zone', '["Australia/Lord_Howe"]') UNION ALL SELECT key, value FROM dc_scan('by_zone', '["America/St_Johns"]') UNION ALL SELECT key, value FROM dc_scan('by_zone', '["America/New_York"]');
-- the same rows are changed by a session with other settings
SET TimeZone = 'America/Los_Angeles';
SET DateStyle = 'SQL, DMY';
UPDATE events SET at = at + interval '1 month' WHERE id % 7 = 0;
UPDATE events SET tz = 'Australia/Lord_Howe' WHERE id % 11 = 0;
UPDATE events SET plan = plan - interval '1 year', tenant = tenant + 1 WHERE id % 5 = 0;
DELETE FROM events WHERE id % 3 = 0;
SELECT * FROM differ();
SET DateStyle = 'Postgres, MDY';
SET TimeZone = 'Pacific/Kiritimati';
UPDATE events SET at = NULL WHERE id % 13 = 0;
UPDATE events SET at = '2026-03-01 00:30+00' WHERE at IS NULL AND id % 2 = 0;
SELECT * FROM differ();
-- before 1970, far in the future, infinite
INSERT INTO events (tenant, tz, at, plan) VALUES (1, 'Pacific/Apia', '1891-01-01 00:00+00', 'infinity'), (2, 'America/St_Johns', '9999-12-31 23:59+00', '0044-03-15 BC'), (3, 'Pacific/Apia', '-infinity', '-infinity');
SELECT * FROM differ();
SELECT key FROM values_of('by_tenant') WHERE key ~ 'inf|BC' ORDER BY 1;
-- a zone that does not exist
INSERT INTO events (tenant, tz, at) VALUES (1, 'Mars/Phobos', now());
-- an upsert that changes the month, on a conflict of either kind
CREATE UNIQUE INDEX ON events (tenant, tz) WHERE plan = '2030-01-01';
INSERT INTO events (tenant, tz, at, plan) VALUES (900, 'America/New_York', '2026-01-31 23:00-05', '2030-01-01'), (901, 'America/New_York', '2026-01-31 23:00-05', '2030-01-01');
INSERT INTO events AS e (tenant, tz, at, plan) VALUES (900, 'America/New_York', '2026-02-01 00:30-05', '2030-01-01'), (902, 'America/New_York', '2026-02-01 00:30-05', '2030-01-01')
	ON CONFLICT (tenant, tz) WHERE plan = '2030-01-01' DO UPDATE SET at = excluded.at;
INSERT INTO events AS e (tenant, tz, at, plan) VALUES (901, 'America/New_York', '2026-02-01 00:30-05', '2030-01-01') ON CONFLICT (tenant, tz) WHERE plan = '2030-01-01' DO UPDATE SET at = excluded.at WHERE e.tenant <> 901;
SELECT * FROM dc_scan('by_month', '["America/New_York"]') WHERE key ->> 1 IN ('2026-01-01', '2026-02-01');
SELECT * FROM differ();
RESET ALL;
SET client_min_messages = warning;
SET search_path = bound_calendar, public;
-- rules that change: a build adds the differences only. The amounts are what the old rules would have made.
SET session_replication_role = replica;
UPDATE events SET at = at + interval '1 hour' WHERE id % 4 = 0;
RESET session_replication_role;
SELECT count(*) > 0 AS differs FROM differ();
CALL dc_build('by_zone'); CALL dc_build('by_month'); CALL dc_build('by_week'); CALL dc_build('by_day'); CALL dc_build('by_tenant'); CALL dc_build('stored');
SELECT * FROM differ();

-- Partitioned by the timestamp: an update moves the row
CREATE TABLE orders (id int, tenant int, amount int, at timestamptz NOT NULL, PRIMARY KEY (id, at)) PARTITION BY RANGE (at);
CREATE TABLE orders_1 PARTITION OF orders FOR VALUES FROM ('2026-01-01 00:00+00') TO ('2026-02-01 00:00+00');
CREATE TABLE orders_2 PARTITION OF orders FOR VALUES FROM ('2026-02-01 00:00+00') TO ('2026-03-01 00:00+00');
CREATE TABLE orders_3 (gone text, at timestamptz NOT NULL, amount int, id int NOT NULL, tenant int);
ALTER TABLE orders_3 DROP COLUMN gone;
ALTER TABLE orders ATTACH PARTITION orders_3 FOR VALUES FROM ('2026-03-01 00:00+00') TO ('2026-04-01 00:00+00');
SELECT dc_create('o_day'), dc_create('o_month'), dc_create('o_kept');
SELECT dc_bind('o_day', 'orders', 'tenant, (at AT TIME ZONE ''Europe/Berlin'')::date', value => 'amount', build => 'now');
SELECT dc_bind('o_month', 'orders', 'date_trunc(''month'', at AT TIME ZONE ''Europe/Berlin'')::date', value => 'amount', build => 'now');
SELECT dc_bind('o_kept', 'orders', 'tenant, date_trunc(''month'', at AT TIME ZONE ''Europe/Berlin'')::date', build => 'now', on_detach => 'keep');
INSERT INTO orders SELECT i, i % 2, i, '2026-01-01 00:00+00'::timestamptz + i * interval '90 minutes' FROM generate_series(1, 1400) AS i;
CREATE VIEW o_expected AS
	SELECT 'o_day' AS counter, jsonb_build_array(tenant, (at AT TIME ZONE 'Europe/Berlin')::date)::text AS key, sum(amount) AS value FROM orders GROUP BY 2 UNION ALL
	SELECT 'o_month', to_jsonb(date_trunc('month', at AT TIME ZONE 'Europe/Berlin')::date) #>> '{}', sum(amount) FROM orders GROUP BY 2 UNION ALL
	SELECT 'o_kept', jsonb_build_array(tenant, date_trunc('month', at AT TIME ZONE 'Europe/Berlin')::date)::text, count(*) FROM orders GROUP BY 2;
CREATE FUNCTION o_differ(OUT counter text, OUT key text, OUT value numeric, OUT expected bigint) RETURNS SETOF record LANGUAGE sql AS $$
	SELECT * FROM (SELECT c AS counter, v.key, v.value FROM unnest(ARRAY['o_day', 'o_month', 'o_kept']) AS c, values_of(c::regclass) AS v) AS v
		FULL JOIN o_expected AS e USING (counter, key) WHERE v.value IS DISTINCT FROM e.value ORDER BY 1, 2
$$;
SELECT * FROM o_differ();
UPDATE orders SET at = at + interval '31 days' WHERE id % 10 = 0 AND at < '2026-02-20';
UPDATE orders SET at = at - interval '40 days', tenant = tenant + 5 WHERE id % 21 = 0 AND at > '2026-03-01';
BEGIN;
UPDATE orders SET at = at - interval '27 days' WHERE id % 10 = 1 AND at > '2026-02-01';
SAVEPOINT a;
DELETE FROM orders WHERE id % 10 = 2;
ROLLBACK TO a;
UPDATE orders SET amount = -amount WHERE id % 10 = 3;
COMMIT;
SELECT * FROM o_differ();
-- TRUNCATE of one partition, then a correction
TRUNCATE orders_1;
UPDATE orders SET at = '2026-01-31 22:59+00' WHERE id = 700;
UPDATE orders SET at = '2026-01-31 23:01+00' WHERE id = 703;
SELECT * FROM o_differ();
SELECT * FROM dc_scan('o_day', '[0]') WHERE key ->> 1 < '2026-02-01';
-- DETACH with keep, then a correction of what is left, and a late row
ALTER TABLE orders DETACH PARTITION orders_1;
SELECT counter, count(*) FROM o_differ() GROUP BY 1;
SELECT (SELECT count(*) FROM dc_source_check('o_kept')) + (SELECT count(*) FROM dc_source_check('o_day')) + (SELECT count(*) FROM dc_source_check('o_month')) AS differ;
UPDATE orders SET at = at + interval '1 day' WHERE tenant = 0 AND at < '2026-02-27';
UPDATE orders SET at = '2026-01-15' WHERE id = 800;
INSERT INTO orders VALUES (-1, 0, 1, '2026-01-15');
SELECT (SELECT count(*) FROM dc_source_check('o_kept')) + (SELECT count(*) FROM dc_source_check('o_day')) + (SELECT count(*) FROM dc_source_check('o_month')) AS differ;
ALTER TABLE orders ATTACH PARTITION orders_1 FOR VALUES FROM ('2026-01-01 00:00+00') TO ('2026-02-01 00:00+00');
SELECT counter, count(*) FROM o_differ() GROUP BY 1;
SELECT (SELECT count(*) FROM dc_source_check('o_kept')) + (SELECT count(*) FROM dc_source_check('o_day')) + (SELECT count(*) FROM dc_source_check('o_month')) AS differ;

-- A parent that is moved, deleted, and both ends in one statement
CREATE TABLE blogs (id int PRIMARY KEY);
CREATE TABLE posts (id int PRIMARY KEY, blog_id int NOT NULL REFERENCES blogs ON UPDATE CASCADE ON DELETE CASCADE, month date NOT NULL, UNIQUE (id, blog_id, month));
CREATE TABLE comments (id int GENERATED ALWAYS AS IDENTITY, post_id int NOT NULL, blog_id int NOT NULL, month date NOT NULL,
	FOREIGN KEY (post_id, blog_id, month) REFERENCES posts (id, blog_id, month) ON UPDATE CASCADE ON DELETE CASCADE);
SELECT dc_create('b');
SELECT dc_bind('b', 'comments', 'blog_id, month', build => 'now');
INSERT INTO blogs VALUES (1), (2);
INSERT INTO posts VALUES (1, 1, '2026-01-01'), (2, 1, '2026-02-01'), (3, 2, '2026-01-01');
INSERT INTO comments (post_id, blog_id, month) SELECT id, blog_id, month FROM posts, generate_series(1, 3);
UPDATE posts SET blog_id = 2 WHERE id = 1;
SELECT * FROM dc_scan('b');
WITH moved AS (UPDATE posts SET blog_id = 1, month = '2026-03-01' WHERE id = 3 RETURNING *)
	INSERT INTO comments (post_id, blog_id, month) SELECT id, blog_id, month FROM moved, generate_series(1, 2);
SELECT * FROM dc_scan('b');
UPDATE blogs SET id = 10 WHERE id = 1;
SELECT * FROM dc_scan('b');
WITH gone AS (DELETE FROM posts WHERE id = 2) UPDATE posts SET month = '2026-04-01' WHERE id = 3;
SELECT * FROM dc_scan('b');
DELETE FROM blogs WHERE id = 10;
SELECT * FROM dc_scan('b');
SELECT * FROM dc_source_check('b');
DROP SCHEMA bound_calendar CASCADE;
