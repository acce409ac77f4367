-- Rate limits, on a server that is preloaded. Periods are so long that no time which the test takes matters.
\pset tuples_only on
\pset format unaligned
\set SHOW_CONTEXT never
SET client_min_messages = warning;
SET intervalstyle = postgres;
\getenv abs_srcdir PG_ABS_SRCDIR
\cd :abs_srcdir
\i include/try_value.sql
-- An answer, with the time to wait rounded up to hours, and what is wrong with it
CREATE FUNCTION show(allowed boolean, remaining bigint, retry_after interval, reset_at timestamptz, rule text) RETURNS text LANGUAGE sql AS $$
	SELECT concat_ws(' ', CASE WHEN allowed THEN 'yes' ELSE 'no' END, remaining,
		CASE WHEN NOT allowed THEN coalesce('retry ' || ceil(extract(epoch FROM retry_after) / 3600) || ' h', 'never') END,
		CASE WHEN allowed AND retry_after <> '0' OR NOT allowed AND retry_after <= '0' THEN 'WRONG RETRY' END,
		CASE WHEN reset_at < clock_timestamp() - interval '1 s' THEN 'WRONG RESET' END, rule) $$;
CREATE FUNCTION ask(name text, key text, cost bigint DEFAULT 1, calls int DEFAULT 1) RETURNS SETOF text LANGUAGE sql VOLATILE AS $$
	SELECT show(l.allowed, l.remaining, l.retry_after, l.reset_at, CASE WHEN l.rule <> name THEN 'WRONG RULE' END)
	FROM generate_series(1, calls), dc_limit(name, key, cost + generate_series * 0) AS l $$;
CREATE FUNCTION peek(name text, key text, cost bigint DEFAULT 1) RETURNS text LANGUAGE sql VOLATILE AS $$
	SELECT show(l.allowed, l.remaining, l.retry_after, l.reset_at, NULL) FROM dc_limit_peek(name, key, cost) AS l $$;
CREATE FUNCTION ask_all(names text[], keys text[], costs bigint[] DEFAULT NULL) RETURNS text LANGUAGE sql VOLATILE AS $$
	SELECT show(l.allowed, l.remaining, l.retry_after, l.reset_at, l.rule) || coalesce(' leases ' || (SELECT string_agg(CASE WHEN i IS NULL THEN '-' ELSE '+' END, '') FROM unnest(leases) AS i), '') FROM dc_limit_all(names, keys, costs) AS l $$;

-- Rules
SELECT dc_limit_create('login', 'gcra', rate => 5, per => '1 day');
SELECT dc_limit_create('burst', 'gcra', 24, '1 day', burst => 2, on_full => 'allow', after_crash => 'full', max_keys => 100);
SELECT dc_limit_create('fixed', 'fixed', 3, '10 days'), dc_limit_create('log', 'log', 3, '10 days'),
	dc_limit_create('sliding', 'sliding', 3, '10 days'), dc_limit_create('jobs', 'concurrent', 2, '30 days 12:00');
SELECT name, owner = current_user::regrole, users, refunders, algorithm, rate, per, burst, max_keys, on_full, after_crash, version FROM dcounter.limit_rule ORDER BY id;
SELECT try($$SELECT dc_limit_create('login', 'fixed', 1, '1 s')$$);
SET client_min_messages = notice;
SELECT dc_limit_create('noticed', 'gcra', 5, '1 s');
SELECT dc_limit_drop('noticed');
SELECT dc_limit_create('login', 'fixed', 1, '1 s', if_not_exists => true);
SET client_min_messages = warning;
SELECT try($$SELECT dc_limit_create(NULL, 'gcra', 1, '1 s')$$), try($$SELECT dc_limit_create('x', NULL, 1, '1 s')$$),
	try($$SELECT dc_limit_create('x', 'gcra', NULL, '1 s')$$), try($$SELECT dc_limit_create('x', 'gcra', 1, NULL)$$),
	try($$SELECT dc_limit_create('x', 'gcra', 1, '1 s', on_full => NULL)$$), try($$SELECT dc_limit_create('x', 'gcra', 1, '1 s', after_crash => NULL)$$);
SELECT try($$SELECT dc_limit_create('', 'gcra', 1, '1 s')$$), try($$SELECT dc_limit_create(repeat('x', 64), 'gcra', 1, '1 s')$$),
	try($$SELECT dc_limit_create('x', 'leaky', 1, '1 s')$$), try($$SELECT dc_limit_create('x', 'gcra', 0, '1 s')$$),
	try($$SELECT dc_limit_create('x', 'gcra', 1, '0')$$), try($$SELECT dc_limit_create('x', 'gcra', 1, '-1 s')$$),
	try($$SELECT dc_limit_create('x', 'gcra', 1, '1 s', 0)$$), try($$SELECT dc_limit_create('x', 'fixed', 1, '1 s', 1)$$),
	try($$SELECT dc_limit_create('x', 'gcra', 2000000000000000, '1 s')$$), try($$SELECT dc_limit_create('x', 'gcra', 1, '4000 days')$$),
	try($$SELECT dc_limit_create('x', 'gcra', 1, '366 days', 102)$$), try($$SELECT dc_limit_create('x', 'log', 1025, '1 s')$$),
	try($$SELECT dc_limit_create('x', 'fixed', 1, '1 month')$$), try($$SELECT dc_limit_alter('fixed', per => '1 year')$$), try($$SELECT dc_throttle('k', 1, 1, '1 month')$$),
	try($$SELECT dc_limit_create('x', 'concurrent', 1025, '1 s')$$), try($$SELECT dc_limit_create('x', 'gcra', 1, '1 s', max_keys => 0)$$),
	try($$SELECT dc_limit_create('x', 'gcra', 1, '1 s', on_full => 'x')$$), try($$SELECT dc_limit_create('x', 'gcra', 1, '1 s', after_crash => 'deny')$$);
SELECT try($$SELECT dc_limit_alter('nothing', 1)$$), try($$SELECT dc_limit_drop('nothing')$$), try($$SELECT dc_limit_alter('login', 0)$$),
	try($$SELECT dc_limit_alter('fixed', burst => 1)$$), try($$SELECT dc_limit_alter('login', max_keys => -1)$$);
-- A server that has crashed would answer for that
SELECT dc_limit_alter('burst', after_crash => 'open');
BEGIN READ ONLY;
SELECT dc_limit_create('x', 'gcra', 1, '1 s');
ROLLBACK;

-- Token bucket
SELECT ask('login', 'a', calls => 6);
SELECT ask('login', 'b', 3), peek('login', 'b'), peek('login', 'b', 2), peek('login', 'b', 3), peek('login', 'b', 6), ask('login', 'b', 3), ask('login', 'b', 2);
-- The column alone
SELECT dc_allow('login', 'allow', 3), dc_allow('login', 'allow', 3), peek('login', 'allow'), dc_allow('login', 'allow'), dc_allow('login', 'allow', cost => 1), dc_allow('login', 'allow');
SELECT dc_allow('fixed', 'allow', 4), dc_allow('fixed', 'allow', 3), dc_allow('log', 'allow', 3), dc_allow('log', 'allow'), dc_allow('sliding', 'allow', 3), dc_allow('sliding', 'allow');
SELECT try($$SELECT dc_allow('jobs', 'allow')$$), try($$SELECT dc_allow('nothing', 'a')$$), try($$SELECT dc_allow(NULL, 'a')$$), try($$SELECT dc_allow('login', NULL)$$),
	try($$SELECT dc_allow('login', 'a', NULL)$$), try($$SELECT dc_allow('login', 'a', 0)$$), try($$SELECT dc_allow('login', repeat('x', 1025))$$);
SELECT peek('jobs', 'allow', 2);
-- As many as are allowed; of "login" 5, of the others 3 units
SELECT name, rate, burst FROM dcounter.limit_rule WHERE name IN ('login', 'fixed', 'log', 'sliding') ORDER BY name;
SELECT dc_allow_up_to('login', 'up', 3), dc_allow_up_to('login', 'up', 3), dc_allow_up_to('login', 'up', 3), dc_allow('login', 'up'), peek('login', 'up');
SELECT dc_allow_up_to('fixed', 'up', 1), dc_allow_up_to('fixed', 'up', 9223372036854775807), dc_allow_up_to('fixed', 'up', 1), peek('fixed', 'up');
SELECT dc_allow_up_to('log', 'up', 9223372036854775807), dc_allow_up_to('log', 'up', 1), dc_allow_up_to('sliding', 'up', 1), dc_allow_up_to('sliding', 'up', 1000), dc_allow_up_to('sliding', 'up', 1000);
SELECT dc_limit_refund('fixed', 'up', 2), dc_allow_up_to('fixed', 700, 2), dc_allow_up_to('fixed', '700', 100), dc_allow_up_to('fixed', 'up', 100);
SELECT try($$SELECT dc_allow_up_to('jobs', 'up', 1)$$), try($$SELECT dc_allow_up_to('nothing', 'a', 1)$$), try($$SELECT dc_allow_up_to(NULL, 'a', 1)$$), try($$SELECT dc_allow_up_to('login', NULL, 1)$$),
	try($$SELECT dc_allow_up_to('login', 'a', NULL)$$), try($$SELECT dc_allow_up_to('login', 'a', 0)$$), try($$SELECT dc_allow_up_to('login', repeat('x', 1025), 1)$$);
SELECT ask('login', 'c', 6), ask('login', 'c', 9223372036854775807), peek('login', 'c');
SELECT ask('burst', 'a', 2), ask('burst', 'a');
-- What rolls back stays counted
BEGIN;
SELECT ask('login', 'd');
SAVEPOINT s;
SELECT ask('login', 'd');
ROLLBACK TO s;
SELECT ask('login', 'd');
ROLLBACK;
SELECT ask('login', 'd');
BEGIN READ ONLY;
SELECT ask('login', 'd');
COMMIT;
SELECT ask('login', 'd');

-- Windows
SELECT ask('fixed', 'a', 2), ask('fixed', 'a', 2), ask('fixed', 'a', 1), ask('fixed', 'a', 4);
SELECT ask('log', 'a', 2), ask('log', 'a', 2), ask('log', 'a', 1), ask('log', 'a', 4);
SELECT ask('sliding', 'a', 2), ask('sliding', 'a', 2), ask('sliding', 'a', 1), ask('sliding', 'a', 4);

-- Keys of any type that counters take
SELECT dc_allow('fixed', 7), dc_allow('fixed', '7'), (dc_limit('fixed', 7::bigint)).remaining, (dc_limit_peek('fixed', 7::smallint)).allowed, dc_limit_refund('fixed', 7), dc_limit_reset('fixed', 7), dc_limit_reset('fixed', '7'),
	dc_allow('fixed', '7'::name), dc_allow('fixed', '1f0e4ee0-8e3b-4a8f-9a39-8d8b7f0c8a10'::uuid), peek('fixed', '1f0e4ee0-8e3b-4a8f-9a39-8d8b7f0c8a10');
SELECT (dc_throttle(7, 2, 2, '1 day')).remaining, (dc_throttle('7', 2, 2, '1 day')).remaining, dc_throttle_reset(7), dc_throttle_reset('7');
SELECT try($$SELECT dc_allow('fixed', 1.5)$$), try($$SELECT dc_allow('fixed', NULL::int)$$), try($$SELECT dc_limit_release('jobs', 7, 1)$$), try($$SELECT dc_limit_renew('jobs', 7, 1)$$);
SELECT allowed, remaining FROM dc_limit_all(ARRAY['fixed', 'fixed'], ARRAY[8, 9]);
SELECT dc_limit_reset('fixed', '8'), dc_limit_reset('fixed', 9), try($$SELECT dc_limit_all(ARRAY['fixed'], ARRAY[1.5])$$), try($$SELECT dc_limit_all(ARRAY['fixed'], ARRAY[NULL::int])$$);

-- Leases
SELECT lease IS NOT NULL FROM dc_limit('login', 'e');
SELECT allowed, remaining, lease IS NOT NULL FROM dc_limit('jobs', 'a', 2);
\set first 0
\set second 0
SELECT lease AS first FROM dc_limit('jobs', 'b') \gset
SELECT lease AS second FROM dc_limit('jobs', 'b') \gset
SELECT ask('jobs', 'b');
SELECT ask('jobs', 'b', 3);
SELECT CASE WHEN :'first' ~ '^\d+$' THEN dc_limit_renew('jobs', 'b', :'first') END, CASE WHEN :'first' ~ '^\d+$' THEN dc_limit_release('jobs', 'b', :'second') END,
	CASE WHEN :'first' ~ '^\d+$' THEN dc_limit_release('jobs', 'b', :'second') END, CASE WHEN :'first' ~ '^\d+$' THEN dc_limit_renew('jobs', 'b', :'second') END;
SELECT ask('jobs', 'b');
SELECT try($$SELECT dc_limit_refund('jobs', 'b')$$), try($$SELECT dc_limit_release('jobs', 'b', -1)$$), try($$SELECT dc_limit_release('jobs', 'b', NULL)$$), try($$SELECT dc_limit_release('login', 'a', 1)$$);
SELECT dc_limit_reset('jobs', 'b');
SELECT ask('jobs', 'b', 2);

-- Giving back
SELECT dc_limit_refund('login', 'a'), dc_limit_refund('login', 'a', 2), dc_limit_refund('login', 'a', 1000), dc_limit_refund('login', 'new');
SELECT ask('login', 'a', 6), ask('login', 'a', 5);
SELECT dc_limit_refund('fixed', 'a', 2), dc_limit_refund('log', 'a', 2), dc_limit_refund('sliding', 'a', 2);
SELECT ask('fixed', 'a', 3), ask('log', 'a', 3), ask('sliding', 'a', 3), ask('fixed', 'a', 2), ask('log', 'a', 2), ask('sliding', 'a', 2);
SELECT dc_limit_reset('login', 'a'), dc_limit_reset('login', 'a'), peek('login', 'a'), dc_limit_reset('log', 'a'), peek('log', 'a'), dc_limit_reset('fixed', 'a'), peek('fixed', 'a');

-- Several at once: all or none
SELECT ask_all(ARRAY['login', 'fixed'], ARRAY['f', 'f']);
SELECT ask_all(ARRAY['login', 'fixed'], ARRAY['f', 'f'], ARRAY[1, 3]), peek('login', 'f'), peek('fixed', 'f');
SELECT ask_all(ARRAY['login', 'fixed', 'login'], ARRAY['f', 'f', 'f'], ARRAY[2, 1, 3]), peek('login', 'f'), peek('fixed', 'f');
SELECT ask_all(ARRAY['login', 'fixed', 'login'], ARRAY['f', 'f', 'f'], ARRAY[2, 1, 2]), peek('login', 'f'), peek('fixed', 'f');
SELECT ask_all(ARRAY['login', 'fixed', 'log', 'sliding', 'jobs'], ARRAY['g', 'g', 'g', 'g', 'g']);
SELECT ask_all(ARRAY['login', 'fixed'], ARRAY['f', 'f'], ARRAY[6, 4]), ask_all(ARRAY['log', 'log'], ARRAY['h', 'h'], ARRAY[9223372036854775807, 9223372036854775807]);
SELECT try($$SELECT dc_limit_all('{}', '{}')$$), try($$SELECT dc_limit_all(NULL, '{}')$$), try($$SELECT dc_limit_all('{login}', NULL)$$), try($$SELECT dc_limit_all('{login,NULL}', '{a,b}')$$),
	try($$SELECT dc_limit_all('{login}', '{NULL}')$$), try($$SELECT dc_limit_all('{login}', '{a,b}')$$), try($$SELECT dc_limit_all('{login}', '{a}', '{1,2}')$$), try($$SELECT dc_limit_all('{login}', '{a}', '{0}')$$),
	try($$SELECT dc_limit_all('{login,nothing}', '{a,b}')$$), try($$SELECT dc_limit_all(array_agg('login'::text), array_agg(i::text)) FROM generate_series(1, 65) AS i$$);
SELECT (dc_limit_all(array_agg('login'::text), array_agg('all ' || i))).allowed FROM generate_series(1, 64) AS i;

-- Ad hoc
SELECT show(allowed, remaining, retry_after, reset_at, NULL) FROM generate_series(1, 3) AS i, dc_throttle('a', 2, 24, '1 day', i * 0 + 1);
SELECT show(allowed, remaining, retry_after, reset_at, NULL) FROM dc_throttle('a', 3, 24, '1 day'), pg_sleep(0);
SELECT show(allowed, remaining, retry_after, reset_at, NULL) FROM dc_throttle('a', 2, 24, '1 day', 3);
SELECT try($$SELECT dc_throttle(NULL, 1, 1, '1 s')$$), try($$SELECT dc_throttle('a', NULL, 1, '1 s')$$), try($$SELECT dc_throttle('a', 0, 1, '1 s')$$), try($$SELECT dc_throttle('a', 1, 0, '1 s')$$),
	try($$SELECT dc_throttle('a', 1, 1, '0')$$), try($$SELECT dc_throttle('a', 1, 1, NULL)$$), try($$SELECT dc_throttle('a', 1, 1, '1 s', 0)$$), try($$SELECT dc_throttle(repeat('a', 1025), 1, 1, '1 s')$$);
SELECT (dc_throttle(repeat('a', 1024), 1, 1, '1 day')).allowed, (dc_throttle(repeat('a', 1024), 1, 1, '1 day')).allowed, (dc_throttle(repeat('a', 1023) || 'b', 1, 1, '1 day')).allowed;

-- Errors
SELECT try($$SELECT dc_limit(NULL, 'a')$$), try($$SELECT dc_limit('login', NULL)$$), try($$SELECT dc_limit('login', 'a', NULL)$$), try($$SELECT dc_limit('login', 'a', 0)$$), try($$SELECT dc_limit('login', 'a', -1)$$),
	try($$SELECT dc_limit('nothing', 'a')$$), try($$SELECT dc_limit(repeat('x', 64), 'a')$$), try($$SELECT dc_limit('', 'a')$$), try($$SELECT dc_limit('login', repeat('a', 1025))$$);
SELECT try($$SELECT dc_limit_peek('login', NULL)$$), try($$SELECT dc_limit_peek('login', 'a', 0)$$), try($$SELECT dc_limit_refund('login', 'a', 0)$$), try($$SELECT dc_limit_reset('nothing', 'a')$$);
SELECT ask('login', '', calls => 2), ask('login', repeat('ä', 512)), peek('login', repeat('ä', 512));
-- Not by the transaction that has made it, which may roll back
BEGIN;
SELECT dc_limit_create('mine', 'gcra', 1, '1 day');
SELECT try($$SELECT dc_limit('mine', 'a')$$);
COMMIT;
SELECT ask('mine', 'a', calls => 2);
BEGIN;
SELECT dc_limit_alter('mine', 100, burst => 100);
SELECT try($$SELECT dc_limit('mine', 'a')$$);
ROLLBACK;
SELECT ask('mine', 'a');
BEGIN;
SELECT dc_limit_drop('mine');
SELECT try($$SELECT dc_limit('mine', 'a')$$);
SAVEPOINT s;
SELECT dc_limit_drop('fixed');
ROLLBACK TO s;
COMMIT;
SELECT peek('fixed', 'f');
SELECT dc_limit_create('mine', 'gcra', 2, '1 day');
SELECT ask('mine', 'a');
SELECT dc_limit_drop('mine');
-- Nor in what runs as the owner of something
CREATE TABLE t (a int);
CREATE FUNCTION sneaky(int) RETURNS boolean LANGUAGE sql IMMUTABLE AS $$ SELECT allowed FROM public.dc_limit('login', 'sneaky') $$;
INSERT INTO t VALUES (1);
CREATE INDEX ON t (sneaky(a));
DROP TABLE t;

-- A change keeps what was used
SELECT ask('login', 'alter', 3);
SELECT dc_limit_alter('login', rate => 10, burst => 10);
SELECT peek('login', 'alter'), peek('login', 'other'), ask('login', 'alter', 8);
SELECT dc_limit_alter('login', per => '2 days');
SELECT peek('login', 'alter', 8);
SELECT dc_limit_alter('login', burst => 2);
SELECT peek('login', 'alter'), peek('login', 'other');
SELECT dc_limit_alter('login', 5, '1 day', 5);
SELECT peek('login', 'alter');
SELECT dc_limit_alter('log', 4), dc_limit_alter('fixed', 2), dc_limit_alter('sliding', per => '100 days'), dc_limit_alter('jobs', per => '1 hour');
SELECT peek('log', 'g'), peek('fixed', 'g'), peek('fixed', 'f'), peek('sliding', 'a'), peek('jobs', 'g', 2);
SELECT name, rate, per, burst, version FROM dcounter.limit_rule ORDER BY id;

-- Rights
CREATE ROLE regress_dcounter_limit;
CREATE ROLE regress_dcounter_limit_member IN ROLE regress_dcounter_limit;
CREATE VIEW stat AS SELECT rule, owner::text ~ 'regress' AS of_regress, keys, memory > 0, allowed, denied, full_allowed, full_denied FROM dc_stat_limits;
GRANT SELECT ON stat TO PUBLIC;
SET ROLE regress_dcounter_limit_member;
SELECT try($$SELECT dc_limit_create('x', 'gcra', 1, '1 s')$$), try($$SELECT dc_limit('login', 'a')$$), try($$SELECT dc_limit_peek('login', 'a')$$), try($$SELECT dc_limit_all('{login}', '{a}')$$),
	try($$SELECT dc_limit_refund('login', 'a')$$), try($$SELECT dc_limit_reset('login', 'a')$$), try($$SELECT dc_limit_alter('login', 1)$$), try($$SELECT dc_limit_drop('login')$$),
	try($$SELECT dc_limit_grant('login', 'regress_dcounter_limit')$$), try($$SELECT dc_limit_revoke('login', 'regress_dcounter_limit')$$);
SELECT try($$SELECT dc_allow('login', 'a')$$);
SELECT count(*) FROM dc_stat_limits;
RESET ROLE;
SELECT dc_limit_grant('login', 'regress_dcounter_limit'), dc_limit_grant('log', 'regress_dcounter_limit', refund => true), dc_limit_grant('fixed', '-');
SELECT try($$SELECT dc_limit_grant('login', NULL)$$), try($$SELECT dc_limit_grant('login', 123456789::regrole)$$), try($$SELECT dc_limit_grant('login', '-', NULL)$$);
SELECT name, users, refunders FROM dcounter.limit_rule WHERE name IN ('login', 'log', 'fixed') ORDER BY id;
SET ROLE regress_dcounter_limit_member;
SELECT ask('login', 'member'), ask('log', 'member'), ask('fixed', 'member');
SELECT try($$SELECT dc_limit_refund('login', 'member')$$), try($$SELECT dc_limit_refund('log', 'member')$$), try($$SELECT dc_limit_reset('fixed', 'member')$$), try($$SELECT dc_limit_drop('log')$$);
SELECT rule FROM dc_stat_limits WHERE rule IS NOT NULL ORDER BY rule COLLATE "C";
RESET ROLE;
SELECT dc_limit_revoke('login', 'regress_dcounter_limit'), dc_limit_revoke('fixed', '-');
SET ROLE regress_dcounter_limit_member;
SELECT try($$SELECT dc_limit('login', 'member')$$), try($$SELECT dc_limit('fixed', 'member')$$);
-- Ad hoc limits are each role's own
SELECT try($$SELECT dc_throttle('a', 2, 24, '1 day')$$), try($$SELECT dc_throttle_reset()$$);
RESET ROLE;
GRANT EXECUTE ON FUNCTION dc_throttle(text, bigint, bigint, interval, bigint), dc_throttle_reset TO regress_dcounter_limit_member;
SET ROLE regress_dcounter_limit_member;
SELECT show(allowed, remaining, retry_after, reset_at, NULL) FROM dc_throttle('a', 2, 24, '1 day');
SELECT try($$SELECT dc_throttle_reset('a', 'regress_dcounter_limit')$$), try(format($$SELECT dc_throttle_reset(role => %L)$$, session_user)), try($$SELECT dc_throttle_reset(repeat('a', 1025))$$);
SELECT (dc_throttle('a', 5, 1, '1 day')).allowed, (dc_throttle('b', 5, 1, '1 day')).allowed;
SELECT dc_throttle_reset('a'), dc_throttle_reset('a'), dc_throttle_reset('b'), dc_throttle_reset(NULL, NULL);
SELECT show(allowed, remaining, retry_after, reset_at, NULL) FROM dc_throttle('a', 2, 24, '1 day');
RESET ROLE;
SELECT dc_throttle_reset(role => 'regress_dcounter_limit_member'), dc_throttle_reset('nothing');
REVOKE EXECUTE ON FUNCTION dc_throttle(text, bigint, bigint, interval, bigint), dc_throttle_reset FROM regress_dcounter_limit_member;
-- Others' keys go with a role that is dropped, and its rights with the next change
DROP ROLE regress_dcounter_limit_member, regress_dcounter_limit;
SELECT dc_limit_grant('log', '-');
SELECT users, refunders FROM dcounter.limit_rule WHERE name = 'log';

-- Memory: keys of a rule, and of a role
SELECT dc_limit_create('few', 'fixed', 1, '10 days', max_keys => 2), dc_limit_create('open', 'fixed', 1, '10 days', max_keys => 2, on_full => 'allow');
SELECT ask('few', i::text) FROM generate_series(1, 3) AS i;
SELECT ask('open', i::text) FROM generate_series(1, 3) AS i;
SELECT ask('few', '1'), ask('open', '1'), peek('few', '3'), dc_limit_reset('few', '1'), ask('few', '3');
-- a key that has its whole budget again is as new
SELECT ask('fixed', 'whole'), dc_limit_refund('fixed', 'whole'), dc_limit_reset('fixed', 'whole');
SELECT ask_all('{fixed,few}', '{full,4}'), peek('fixed', 'full'), ask_all('{fixed,open}', '{full,4}'), peek('fixed', 'full');
SELECT dc_allow_up_to('few', 'full', 5), dc_allow_up_to('open', 'full', 5), peek('open', 'full');
SELECT dc_limit_alter('few', max_keys => 3);
SELECT ask('few', '4'), ask('few', '5');
SET dcounter.throttle_max_keys = 5;
SELECT allowed FROM generate_series(1, 5) AS i, dc_throttle('many ' || i, 1, 1, '1 day');
RESET dcounter.throttle_max_keys;
SELECT * FROM stat ORDER BY rule, allowed;
SELECT dc_limit_drop(name) FROM unnest('{login,burst,fixed,log,sliding,jobs,few,open}'::text[]) AS name;
SELECT count(*), coalesce(sum(keys), 0) FROM dc_stat_limits WHERE rule IS NOT NULL;

-- A role's limits can have an eighth of the slots, wherever they are; those of others have theirs
CREATE ROLE regress_dcounter_limit;
GRANT EXECUTE ON FUNCTION dc_limit_create(text, text, bigint, interval, bigint, text, text, bigint, boolean) TO regress_dcounter_limit;
SET ROLE regress_dcounter_limit;
SELECT count(dc_limit_create('slot ' || i, 'fixed', 1, '10 days')) FROM generate_series(1, 140) AS i;
SELECT count(*) FROM generate_series(1, 128) AS i, dc_limit('slot ' || i, 'a') AS l WHERE l.allowed;
SELECT try($$SELECT ask('slot 129', 'a')$$);
SELECT ask('slot 128', 'b');
-- one without keys makes room for another one
SELECT dc_limit_reset('slot 1', 'a');
SELECT ask('slot 129', 'a'), try($$SELECT ask('slot 1', 'a')$$);
RESET ROLE;
SELECT count(dc_limit_create('other ' || i, 'fixed', 1, '10 days')) FROM generate_series(1, 200) AS i;
SELECT count(*) FROM generate_series(1, 200) AS i, dc_limit('other ' || i, 'a') AS l WHERE l.allowed;
SELECT sum(keys) FROM dc_stat_limits WHERE rule LIKE 'slot %';
SELECT count(dc_limit_drop(name)) FROM (SELECT 'slot ' || generate_series(1, 140) UNION SELECT 'other ' || generate_series(1, 200)) AS r (name);
SELECT count(*) FROM dc_stat_limits WHERE rule IS NOT NULL;
REVOKE EXECUTE ON FUNCTION dc_limit_create(text, text, bigint, interval, bigint, text, text, bigint, boolean) FROM regress_dcounter_limit;
DROP ROLE regress_dcounter_limit;
DROP VIEW stat;
DROP FUNCTION try, show, ask, peek, ask_all, sneaky;
