-- Budgets: grants, reservations, what they have cost.
\pset null '(null)'
SELECT dc_budget_create('credits');
SELECT dc_budget_create('credits', if_not_exists => true);
\set VERBOSITY terse
SELECT dc_budget_create('credits');
\set VERBOSITY default
SELECT relname, relkind FROM pg_class WHERE relname ~ '^credits' AND relkind IN ('r', 'S') ORDER BY relname;


-- A grant has an amount, however often it is called.
SELECT dc_grant('credits', 'acme', 100, 'first'), dc_grant('credits', 'acme', 100, 'first'), dc_grant('credits', 'acme', 50, 'second');
SELECT grant_id, key, name, priority, expires_at, amount, lapsed, live FROM credits ORDER BY grant_id;
SELECT * FROM dc_budget('credits', 'acme');
SELECT dc_grant('credits', 'acme', 120, 'first');
SELECT available FROM dc_budget('credits', 'acme');
SELECT dc_grant('credits', 'acme', 100, 'first');
SELECT available FROM dc_budget('credits', 'acme');
SELECT * FROM dc_budget('credits', 'nobody');

-- Reserve and settle: the first grant is used before the second.
SELECT dc_reserve('credits', 'acme', 80, '00000000-0000-0000-0000-000000000001');
SELECT dc_reserve('credits', 'acme', 80, '00000000-0000-0000-0000-000000000001');
SELECT dc_reserve('credits', 'acme', 40, '00000000-0000-0000-0000-000000000002');
SELECT reserved, grants, taken, owners, state, settled FROM credits_reservation ORDER BY reservation_id;
SELECT * FROM dc_budget('credits', 'acme');
SELECT dc_reserve('credits', 'acme', 40, '00000000-0000-0000-0000-000000000003');
SELECT dc_reserve('credits', 'acme', 40, '00000000-0000-0000-0000-000000000003', at_least => 31);
SELECT dc_reserve('credits', 'acme', 40, '00000000-0000-0000-0000-000000000003', at_least => 30);
SELECT * FROM dc_budget('credits', 'acme');
SELECT dc_settle('credits', '00000000-0000-0000-0000-000000000002', 25);
SELECT dc_settle('credits', '00000000-0000-0000-0000-000000000002', 25);
SELECT dc_release('credits', '00000000-0000-0000-0000-000000000003'), dc_release('credits', '00000000-0000-0000-0000-000000000003');
SELECT key, dc_get('credits_pool', key) FROM (VALUES (1), (2)) AS g (key);
SELECT * FROM dc_budget('credits', 'acme');
SELECT * FROM dc_budget_check('credits');

-- More than was reserved is drawn, and what is not there is owed; the next reservation pays.
SELECT dc_settle('credits', '00000000-0000-0000-0000-000000000001', 200);
SELECT * FROM dc_budget('credits', 'acme');
SELECT * FROM dc_budget_check('credits');
SELECT dc_reserve('credits', 'acme', 1, '00000000-0000-0000-0000-000000000004');
SELECT dc_grant('credits', 'acme', 75, 'third');
SELECT dc_reserve('credits', 'acme', 1, '00000000-0000-0000-0000-000000000004');
SELECT * FROM dc_budget('credits', 'acme');
SELECT dc_grant('credits', 'acme', 85, 'third');
SELECT dc_reserve('credits', 'acme', 11, '00000000-0000-0000-0000-000000000004');
SELECT dc_reserve('credits', 'acme', 8, '00000000-0000-0000-0000-000000000004');
SELECT * FROM dc_budget('credits', 'acme');
SELECT * FROM dc_budget_check('credits');
\set VERBOSITY terse
SELECT dc_settle('credits', '00000000-0000-0000-0000-000000000004', 11, overdraft => false);
SELECT dc_settle('credits', '00000000-0000-0000-0000-000000000004', 10, overdraft => false);
SELECT * FROM dc_budget('credits', 'acme');
SELECT * FROM dc_budget_check('credits');

-- A grant is taken back as far as it is not spent.
SELECT dc_grant('credits', 'small', 10, 'one');
SELECT dc_reserve('credits', 'small', 6, '00000000-0000-0000-0000-000000000010');
SELECT dc_grant('credits', 'small', 2, 'one');
SELECT amount FROM credits WHERE key = 'small';
SELECT dc_settle('credits', '00000000-0000-0000-0000-000000000010', 1);
SELECT dc_grant('credits', 'small', 2, 'one');
SELECT amount, available FROM credits, dc_budget('credits', 'small') WHERE key = 'small';

-- Priority, then expiry, then number; not before it is effective, nor after it has expired.
SELECT dc_grant('credits', 'ord', 10, 'a', 'infinity', 1), dc_grant('credits', 'ord', 10, 'b', 'infinity', 0),
	dc_grant('credits', 'ord', 10, 'c', now() + interval '1 day', 0), dc_grant('credits', 'ord', 10, 'd', now() + interval '2 days', 0),
	dc_grant('credits', 'ord', 10, 'e', now() - interval '1 day', 0), dc_grant('credits', 'ord', 10, 'f', 'infinity', 0, now() + interval '1 day');
SELECT dc_reserve('credits', 'ord', 35, '00000000-0000-0000-0000-000000000020');
SELECT string_agg(c.name, ' ' ORDER BY u.place) FROM credits_reservation AS r, unnest(r.grants) WITH ORDINALITY AS u (grant_id, place) JOIN credits AS c USING (grant_id)
	WHERE r.reservation_id = '00000000-0000-0000-0000-000000000020';
SELECT available, reserved FROM dc_budget('credits', 'ord');
-- the rest goes back to the last ones
SELECT dc_settle('credits', '00000000-0000-0000-0000-000000000020', 15);
SELECT name, dc_get('credits_pool', grant_id) FROM credits WHERE key = 'ord' ORDER BY grant_id;

-- Several keys: all or nothing.
SELECT dc_grant('credits', 'user:7', 100, 'g'), dc_grant('credits', 'team:3', 50, 'g'), dc_grant('credits', 'org:1', 1000, 'g');
SELECT dc_reserve_all('credits', ARRAY['user:7', 'team:3', 'org:1'], ARRAY[60, 60, 60], '00000000-0000-0000-0000-000000000030');
SELECT dc_reserve_all('credits', ARRAY['user:7', 'team:3', 'org:1'], ARRAY[60, 60, 60], '00000000-0000-0000-0000-000000000030', at_least => ARRAY[60, 50, 1]);
SELECT dc_reserve_all('credits', ARRAY['user:7', 'team:3', 'org:1'], ARRAY[60, 60, 60], '00000000-0000-0000-0000-000000000030', at_least => ARRAY[60, 50, 1]);
SELECT keys, reserved, owners, taken FROM credits_reservation WHERE reservation_id = '00000000-0000-0000-0000-000000000030';
SELECT dc_settle('credits', '00000000-0000-0000-0000-000000000030', 10);
SELECT dc_settle('credits', '00000000-0000-0000-0000-000000000030', ARRAY[10, 70, 60]);
SELECT dc_settle('credits', '00000000-0000-0000-0000-000000000030', ARRAY[10, 70, 60]);
SELECT dc_settle('credits', '00000000-0000-0000-0000-000000000030', ARRAY[10, 70, 61]);
SELECT k, b.* FROM unnest(ARRAY['user:7', 'team:3', 'org:1']) AS k, dc_budget('credits', k) AS b;
SELECT * FROM dc_budget_check('credits');

-- Expiry: a call that would be refused ends what has expired; it can still be settled.
SELECT dc_grant('credits', 'late', 10, 'g');
SELECT dc_reserve('credits', 'late', 10, '00000000-0000-0000-0000-000000000040', '1 microsecond');
SELECT dc_reserve('credits', 'late', 7, '00000000-0000-0000-0000-000000000041');
SELECT state FROM credits_reservation WHERE reservation_id = '00000000-0000-0000-0000-000000000040';
SELECT dc_release('credits', '00000000-0000-0000-0000-000000000040');
SELECT dc_settle('credits', '00000000-0000-0000-0000-000000000040', 8), dc_settle('credits', '00000000-0000-0000-0000-000000000040', 8);
SELECT * FROM dc_budget('credits', 'late');
SELECT * FROM dc_budget_check('credits');
-- open until it is ended
SELECT dc_grant('credits', 'late', 30, 'g');
SELECT dc_reserve('credits', 'late', 5, '00000000-0000-0000-0000-000000000042', '1 microsecond');
SELECT dc_settle('credits', '00000000-0000-0000-0000-000000000042', 5);

-- The worker's part
SELECT dc_grant('credits', 'job', 10, 'spent'), dc_grant('credits', 'job', 10, 'over', now() + interval '1 day'), dc_grant('credits', 'job', 10, 'held', now() + interval '1 day', 1),
	dc_grant('credits', 'job', 10, 'left', 'infinity', 2);
SELECT dc_reserve('credits', 'job', 10, '00000000-0000-0000-0000-000000000050', '1 microsecond');
SELECT dc_reserve('credits', 'job', 15, '00000000-0000-0000-0000-000000000051');
SELECT dc_settle('credits', '00000000-0000-0000-0000-000000000051', 15);
SELECT dc_reserve('credits', 'job', 7, '00000000-0000-0000-0000-000000000052');
-- two of them end
SELECT dc_grant('credits', 'job', 10, 'over', now()), dc_grant('credits', 'job', 10, 'held', now(), 1);
CALL dc_maintain();
SELECT name, amount, lapsed, live, dc_get('credits_pool', grant_id) FROM credits WHERE key = 'job' ORDER BY grant_id;
SELECT dc_release('credits', '00000000-0000-0000-0000-000000000052');
CALL dc_maintain();
SELECT name, amount, lapsed, live, dc_get('credits_pool', grant_id) FROM credits WHERE key = 'job' ORDER BY grant_id;
SELECT state, count(*) FROM credits_reservation GROUP BY state ORDER BY state;
SELECT * FROM dc_budget_check('credits');
-- a grant that was closed lives again
SELECT dc_grant('credits', 'job', 15, 'spent');
SELECT name, amount, live FROM credits WHERE key = 'job' AND name = 'spent';

-- The check finds what was changed by hand.
BEGIN;
UPDATE credits SET amount = amount + 1 WHERE key = 'ord' AND name = 'a';
SELECT * FROM dc_budget_check('credits');
ROLLBACK;
-- and counts what this transaction has done
BEGIN;
SELECT dc_reserve('credits', 'job', 3, '00000000-0000-0000-0000-000000000060');
SELECT dc_grant('credits', 'job', 16, 'spent');
SELECT dc_settle('credits', '00000000-0000-0000-0000-000000000060', 1);
SELECT * FROM dc_budget_check('credits');
SAVEPOINT s;
SELECT dc_reserve('credits', 'job', 3, '00000000-0000-0000-0000-000000000061');
ROLLBACK TO s;
SELECT dc_settle('credits', '00000000-0000-0000-0000-000000000061', 1);
ROLLBACK;
SELECT * FROM dc_budget_check('credits');

-- Errors
SELECT dc_reserve(NULL, 'acme', 1, '00000000-0000-0000-0000-000000000070');
SELECT dc_reserve('credits', NULL::text, 1, '00000000-0000-0000-0000-000000000070');
SELECT dc_reserve('credits', 'acme', NULL, '00000000-0000-0000-0000-000000000070');
SELECT dc_reserve('credits', 'acme', 1, NULL);
SELECT dc_reserve('credits', 'acme', 1, '00000000-0000-0000-0000-000000000070', NULL);
SELECT dc_reserve('credits', 'acme', 0, '00000000-0000-0000-0000-000000000070');
SELECT dc_reserve('credits', 'acme', 1, '00000000-0000-0000-0000-000000000070', '0');
SELECT dc_reserve('credits', 'acme', 1, '00000000-0000-0000-0000-000000000070', at_least => 2);
SELECT dc_reserve('credits', repeat('x', 1024), 1, '00000000-0000-0000-0000-000000000070');
SELECT dc_reserve('credits_pool', 'acme', 1, '00000000-0000-0000-0000-000000000070');
SELECT dc_reserve_all('credits', ARRAY['a', 'a'], ARRAY[1, 1], '00000000-0000-0000-0000-000000000070');
SELECT dc_reserve_all('credits', ARRAY['a', 'b'], ARRAY[1], '00000000-0000-0000-0000-000000000070');
SELECT dc_reserve_all('credits', '{}'::text[], '{}', '00000000-0000-0000-0000-000000000070');
SELECT dc_reserve_all('credits', ARRAY['a'], ARRAY[1, NULL], '00000000-0000-0000-0000-000000000070');
SELECT dc_reserve('credits', 'job', 3, '00000000-0000-0000-0000-000000000071');
SELECT dc_reserve('credits', 'job', 4, '00000000-0000-0000-0000-000000000071');
SELECT dc_settle('credits', '00000000-0000-0000-0000-000000000071', -1);
SELECT dc_settle('credits', '00000000-0000-0000-0000-000000000071', NULL::bigint);
SELECT dc_settle('credits', '00000000-0000-0000-0000-000000000071', ARRAY[1, 1]);
SELECT dc_settle('credits', '00000000-0000-0000-0000-000000000079', 1);
SELECT dc_release('credits', '00000000-0000-0000-0000-000000000079');
SELECT dc_settle('credits', '00000000-0000-0000-0000-000000000071', 1);
SELECT dc_release('credits', '00000000-0000-0000-0000-000000000071');
SELECT dc_reserve('credits', 'job', 3, '00000000-0000-0000-0000-000000000072');
SELECT dc_release('credits', '00000000-0000-0000-0000-000000000072');
SELECT dc_settle('credits', '00000000-0000-0000-0000-000000000072', 1);
SELECT dc_grant('credits', 'acme', -1, 'x');
SELECT dc_grant('credits', 'acme', 1, '');
SELECT dc_grant('credits', 'acme', 1, 'allowance P1M 3');
SELECT dc_grant('credits', 'acme', 1, 'x', NULL);

-- Rights: INSERT to grant, UPDATE to reserve and settle, SELECT to read; none on the other tables.
CREATE ROLE regress_budget;
SET ROLE regress_budget;
SELECT dc_grant('credits', 'r', 10, 'g');
SELECT dc_allowance('credits', 'r', 10, '1 day');
SELECT dc_reserve('credits', 'r', 1, '00000000-0000-0000-0000-000000000080');
SELECT dc_settle('credits', '00000000-0000-0000-0000-000000000080', 1);
SELECT dc_release('credits', '00000000-0000-0000-0000-000000000080');
SELECT * FROM dc_budget('credits', 'r');
SELECT * FROM dc_budget_check('credits');
RESET ROLE;
GRANT INSERT ON credits TO regress_budget;
SET ROLE regress_budget;
SELECT dc_grant('credits', 'r', 10, 'g') > 0;
SELECT dc_reserve('credits', 'r', 1, '00000000-0000-0000-0000-000000000080');
RESET ROLE;
GRANT SELECT, UPDATE ON credits TO regress_budget;
REVOKE INSERT ON credits FROM regress_budget;
SET ROLE regress_budget;
SELECT dc_grant('credits', 'r', 11, 'g');
SELECT dc_reserve('credits', 'r', 1, '00000000-0000-0000-0000-000000000080');
SELECT dc_settle('credits', '00000000-0000-0000-0000-000000000080', 1);
SELECT * FROM dc_budget('credits', 'r');
SELECT * FROM dc_budget_check('credits');
SELECT dc_take('credits_pool', 'r', 1);
RESET ROLE;
START TRANSACTION READ ONLY;
SELECT dc_reserve('credits', 'r', 1, '00000000-0000-0000-0000-000000000081');
ROLLBACK;
START TRANSACTION READ ONLY;
SELECT available FROM dc_budget('credits', 'r');
SELECT * FROM dc_budget_check('credits');
COMMIT;


-- Allowances: the period that it is now, reckoned from the anchor; made once.
SELECT dc_allowance('credits', 'tenant', 1000, '1 month') = date_trunc('month', now() AT TIME ZONE 'UTC' + interval '1 month') AT TIME ZONE 'UTC';
SELECT dc_allowance('credits', 'tenant', 1000, '1 month') > now();
SELECT count(*), min(name) ~ '^allowance P1M [0-9]+$', min(amount), min(effective_at) <= now() FROM credits WHERE key = 'tenant';
SELECT dc_reserve('credits', k, 400, '00000000-0000-0000-0000-000000000090') FROM (VALUES ('tenant')) AS t (k), dc_allowance('credits', k, 1000, '1 month');
SELECT dc_reserve('credits', k, 400, '00000000-0000-0000-0000-000000000091') FROM (VALUES ('new')) AS t (k), dc_allowance('credits', k, 1000, '1 month');
SELECT dc_allowance('credits', 'tenant', 2000, '1 month') > now(), available FROM dc_budget('credits', 'tenant');
SELECT available FROM dc_budget('credits', 'tenant');
-- another period ends the first one, and back
SELECT dc_allowance('credits', 'tenant', 10, '1 day') > now();
SELECT available FROM dc_budget('credits', 'tenant');
SELECT dc_allowance('credits', 'tenant', 2000, '1 month') > now();
SELECT available FROM dc_budget('credits', 'tenant');
-- valid for longer than its period: the former one is used first
UPDATE credits SET name = 'allowance P1M 0' WHERE key = 'tenant' AND name ~ 'P1M';
SELECT dc_allowance('credits', 'tenant', 500, '1 month', valid_for => '2 months') > now() + interval '27 days';
SELECT available FROM dc_budget('credits', 'tenant');
SELECT dc_reserve('credits', 'tenant', 1700, '00000000-0000-0000-0000-000000000092');
SELECT regexp_replace(c.name, ' [1-9].*', ' n'), u.taken FROM credits_reservation AS r, unnest(r.grants, r.taken) AS u (grant_id, taken) JOIN credits AS c USING (grant_id)
	WHERE r.reservation_id = '00000000-0000-0000-0000-000000000092' ORDER BY c.expires_at;
-- whatever period, anchor and time zone: as generate_series() has it, before or after the call
CREATE FUNCTION budget_period_end(period interval, zone text, anchor timestamp, at timestamptz) RETURNS timestamptz LANGUAGE sql AS $$
	SELECT min(b) AT TIME ZONE zone FROM (SELECT floor(extract(epoch FROM (at AT TIME ZONE zone) - anchor)
		/ extract(epoch FROM '2001-01-01'::timestamptz + period * 1000 - '2001-01-01'::timestamptz) * 1000)::int AS guess) AS g,
		generate_series(guess - 3, guess + 3) AS n, LATERAL (SELECT anchor + n * period AS b) AS begins WHERE b > at AT TIME ZONE zone
$$;
CREATE TABLE budget_period AS SELECT p::interval AS period, z AS zone, a::timestamp AS anchor, clock_timestamp() AS before, null::timestamptz AS found, null::timestamptz AS after
	FROM unnest(ARRAY['1 month', '1 day', '7 days', '1 hour', '36 hours', '1 year', '3 months', '2 months 10 days', '400 days 1:30']) AS p, unnest(ARRAY['UTC', 'Europe/Berlin', 'America/New_York', 'Australia/Lord_Howe', 'Asia/Kolkata']) AS z,
		unnest(ARRAY['2000-01-01', '2000-01-31', '2024-02-29 12:00', '1999-12-30 23:59:59', '2040-08-31 02:30']) AS a;
UPDATE budget_period SET found = dc_allowance('credits', 'period ' || period || zone || anchor, 7, period, zone, anchor);
UPDATE budget_period SET after = clock_timestamp();
SELECT count(*) FROM budget_period;
SELECT * FROM budget_period WHERE found NOT IN (budget_period_end(period, zone, anchor, before), budget_period_end(period, zone, anchor, after));
SELECT count(*) FROM budget_period AS p WHERE (SELECT available FROM dc_budget('credits', 'period ' || period || zone || anchor)) <> 7;
DROP TABLE budget_period;
DROP FUNCTION budget_period_end;
SELECT dc_allowance('credits', 'tenant', 1, '0');
SELECT dc_allowance('credits', 'tenant', 1, '-1 month');
SELECT dc_allowance('credits', 'tenant', 1, '1 month -1 day');
SELECT dc_allowance('credits', 'tenant', 1, '1 ms');
SELECT dc_allowance('credits', 'tenant', 1, '1 month', 'Nowhere');
SELECT dc_allowance('credits', 'tenant', 1, '1 second', anchor => '-infinity');
SELECT dc_allowance('credits', 'tenant', 1, '1 month', valid_for => '0');
SELECT dc_allowance('credits', 'tenant', -1, '1 month');
UPDATE credits SET name = 'something' WHERE name = 'allowance P1M 0';
SELECT * FROM dc_budget_check('credits');

-- What the job may meet: rows written by hand, more grants than it looks at in a step, and a role that owns nothing
SELECT dc_budget_create('rough');
INSERT INTO rough_reservation (reservation_id, keys, amounts, at_least, ttl, reserved, grants, taken, owners, state, settled, created_at, expires_at, ended_at)
	SELECT gen_random_uuid(), keys, '{1}', '{1}', '1 s', '{1}', '{}', '{}', '{}', 'settled', settled, '2000-01-01', '2000-01-01', '2000-01-01'
	FROM (VALUES (ARRAY[repeat('x', 5000)], ARRAY[1]::int8[]), (ARRAY['k', NULL], '{3,4}'), ('{}', '{}'), ('{m}', '{9223372036854775807}'), ('{m}', '{9223372036854775807}')) AS r (keys, settled);
SELECT count(dc_grant('rough', 'many', 1, i::text, '2001-01-01')) FROM generate_series(1, 450) AS i;
SET default_transaction_isolation = 'repeatable read';
CALL dc_maintain();
RESET default_transaction_isolation;
SELECT count(*) FILTER (WHERE live), sum(lapsed) FROM rough;
CALL dc_maintain();
SELECT count(*) FILTER (WHERE live), sum(lapsed) FROM rough;
SELECT (SELECT count(*) FROM rough_reservation), dc_get('rough_pool', '+k'), dc_get('rough_pool', '+m'), (SELECT count(*) FROM rough_pool WHERE length(key) > 10);
BEGIN;
SET LOCAL ROLE regress_budget;
CALL dc_maintain();
SELECT count(*) FROM pg_locks WHERE pid = pg_backend_pid() AND relation IN ('rough'::regclass, 'rough_reservation'::regclass);
ROLLBACK;
-- more lines of reservations than are read to see which grants have none: then none is closed
SELECT dc_grant('rough', 'lines', 1, 'spent'), dc_reserve('rough', 'lines', 1, '00000000-0000-0000-0000-000000000060'), dc_settle('rough', '00000000-0000-0000-0000-000000000060', 1);
BEGIN;
INSERT INTO rough_reservation (reservation_id, keys, amounts, at_least, ttl, reserved, grants, taken, owners, state, created_at, expires_at)
	SELECT gen_random_uuid(), '{k}', '{1}', '{1}', '1 s', '{1}', array_fill(0::int8, ARRAY[2500000]), '{}', '{}', 'open', now(), 'infinity';
CALL dc_maintain();
SELECT live FROM rough WHERE key = 'lines';
ROLLBACK;
CALL dc_maintain();
SELECT live FROM rough WHERE key = 'lines';
-- a key that is compressed where it is stored
CREATE TABLE budget_keys (k text) WITH (toast_tuple_target = 128);
INSERT INTO budget_keys VALUES (repeat('k', 1000));
SELECT dc_grant('rough', k, 10, 'g') IS NOT NULL, dc_reserve('rough', k, 5, '00000000-0000-0000-0000-000000000090') FROM budget_keys;
SELECT dc_settle('rough', '00000000-0000-0000-0000-000000000090', 1000000000000001);
SELECT dc_settle('rough', '00000000-0000-0000-0000-000000000090', 30);
SELECT available, owed FROM budget_keys, dc_budget('rough', k);
SELECT dc_reserve('rough', k, 1, '00000000-0000-0000-0000-000000000091') FROM budget_keys;
-- arrays that do not match
SELECT dc_reserve('rough', 'two', 1, '00000000-0000-0000-0000-000000000092') FROM dc_grant('rough', 'two', 5, 'g');
UPDATE rough_reservation SET reserved = '{1,1}' WHERE keys = '{two}';
SELECT dc_reserve('rough', 'two', 1, '00000000-0000-0000-0000-000000000092');
UPDATE rough_reservation SET reserved = '{1}', taken = '{}' WHERE keys = '{two}';
SELECT dc_settle('rough', '00000000-0000-0000-0000-000000000092', 1);
DROP TABLE rough, budget_keys;

-- A reservation and settling a part of it write 15 records at most: the units that come back go to one row, not to as many as a grant's. (The first of them
-- make pages, and a page may be pruned, so the fewest of three.)
\getenv abs_srcdir PG_ABS_SRCDIR
\set file :abs_srcdir '/include/wal_records.sql'
\i :file
CREATE TABLE wal (i int, n bigint);
SELECT dc_grant('credits', 'wal', 1000000, 'g') > 0;
SELECT format('INSERT INTO wal SELECT %s, wal_records(%L)', i, format(call, i)) FROM generate_series(1, 3) AS i,
	unnest(ARRAY['SELECT dc_reserve(''credits'', ''wal'', 10000, ''00000000-0000-0000-0001-00000000000%s''), dc_apply()',
		'SELECT dc_settle(''credits'', ''00000000-0000-0000-0001-00000000000%s'', 5000), dc_apply()']) WITH ORDINALITY AS c (call, place) ORDER BY i, place \gexec
SELECT min(records) <= 15 AS few, count(*) FROM (SELECT sum(n) AS records FROM wal GROUP BY i) AS w;
-- What is refused writes nothing, also with a debt, which is paid only by a reservation that is made.
SELECT dc_grant('credits', 'debtor', 100, 'g') > 0, dc_reserve('credits', 'debtor', 1, '00000000-0000-0000-0001-000000000010');
SELECT dc_settle('credits', '00000000-0000-0000-0001-000000000010', 150), dc_grant('credits', 'debtor', 140, 'g') > 0;
SELECT available, owed FROM dc_budget('credits', 'debtor');
SELECT min(wal_records('SELECT dc_reserve(''credits'', ''debtor'', 1, gen_random_uuid()), dc_apply()')), min(wal_records('SELECT dc_reserve(''credits'', ''wal'', 1000000, gen_random_uuid()), dc_apply()')) FROM generate_series(1, 3);
SELECT available, owed FROM dc_budget('credits', 'debtor');
DROP TABLE wal;
DROP FUNCTION wal_records;

-- DDL
DROP TABLE credits_pool;
DROP TABLE credits_reservation;
CREATE SCHEMA budget_schema;
ALTER TABLE credits RENAME TO tokens;
ALTER TABLE tokens SET SCHEMA budget_schema;
ALTER TABLE budget_schema.tokens OWNER TO regress_budget;
SELECT c.oid::regclass, relowner::regrole FROM pg_class AS c WHERE relnamespace = 'budget_schema'::regnamespace AND relkind = 'r' ORDER BY relname;
GRANT USAGE, CREATE ON SCHEMA budget_schema TO regress_budget;
SET ROLE regress_budget;
SELECT dc_reserve('budget_schema.tokens', 'r', 1, '00000000-0000-0000-0000-000000000082');
SELECT * FROM dc_budget_check('budget_schema.tokens');
RESET ROLE;
-- adopted again
DELETE FROM dcounter.budget;
SELECT dc_reserve('budget_schema.tokens', 'r', 1, '00000000-0000-0000-0000-000000000083');
SELECT dc_budget_adopt('budget_schema.tokens_pool');
SELECT dc_budget_adopt('budget_schema.tokens'), dc_budget_adopt('budget_schema.tokens');
SELECT dc_reserve('budget_schema.tokens', 'r', 1, '00000000-0000-0000-0000-000000000083');
SELECT * FROM dcounter.budget;
DROP TABLE budget_schema.tokens;
SELECT relname FROM pg_class WHERE relnamespace = 'budget_schema'::regnamespace;
SELECT count(*) FROM dcounter.budget;
SELECT dc_budget_create('budget_schema.again');
DROP SCHEMA budget_schema CASCADE;
SELECT count(*) FROM dcounter.budget;
DROP ROLE regress_budget;
