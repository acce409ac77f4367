-- Amounts that leave bigint, and other numbers at the ends of what a type has, come from other regions: no error of apply
\set VERBOSITY terse
\set SHOW_CONTEXT never
\pset format unaligned
\pset tuples_only on
SET client_min_messages = error; -- wal_level may be any
SELECT dc_region_init('eu') > 0;
-- one whose shard rows are written directly, and one where code of the owner is run
SELECT dc_create('likes'), dc_create('slow'), dc_stock_create('seats');
CREATE FUNCTION same() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN new; END';
CREATE TRIGGER same BEFORE INSERT OR UPDATE ON slow_shard FOR EACH ROW EXECUTE FUNCTION same();
SELECT dc_replicate('likes'), dc_replicate('slow'), dc_replicate('seats');
SELECT epoch AS e FROM dcounter.self \gset
CREATE FUNCTION come(what text) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
	SET session_replication_role = replica;
	EXECUTE what;
	RESET session_replication_role;
END $$;
CREATE VIEW is_sound AS SELECT l.keys = 0 AND l.inc = 0 AND l.dec = 0 AS likes, s.keys = 0 AND s.inc = 0 AND s.dec = 0 AS slow
	FROM dc_region_check('likes') AS l, dc_region_check('slow') AS s WHERE l.region IS NULL AND s.region IS NULL;

-- A key that has left bigint is reset elsewhere, by a region that has seen all: of what was counted here, in another region, in two
-- others
SELECT dc_incr(t, 'a', 9000000000000000000), dc_compact(t) FROM unnest('{likes,slow}'::regclass[]) AS t;
SELECT come(format($$INSERT INTO %I VALUES ('a', 'us', 7, 9000000000000000000, 0, now()), ('b', 'us', 7, 9223372036854775807, 0, now()),
	('b', 'asia', 8, 9223372036854775807, 9223372036854775807, now())$$, t || '_region')) FROM unnest('{likes,slow}'::text[]) AS t;
SELECT dc_compact(t) FROM unnest('{likes,slow}'::regclass[]) AS t;
SELECT dc_get('likes', 'a');
SELECT come(format($$INSERT INTO %I VALUES ('a', 'us', 1000000, 5, false, '{"us:7": {"inc": 9000000000000000000}, "eu:%s": {"inc": 9000000000000000000}}'),
	('b', 'us', 1000000, -6, false, '{"us:7": {"inc": 9223372036854775807}, "asia:8": {"inc": 9223372036854775807, "dec": 9223372036854775807}}')$$, t || '_set', :'e'))
	FROM unnest('{likes,slow}'::text[]) AS t;
SELECT dc_get(t, 'a'), dc_get(t, 'b') FROM unnest('{likes,slow}'::regclass[]) AS t;
SELECT dc_incr(t, 'a', 1), dc_incr(t, 'b', 1), dc_compact(t) FROM unnest('{likes,slow}'::regclass[]) AS t;
SELECT 'likes', key, value FROM likes UNION ALL SELECT 'slow', key, value FROM slow ORDER BY 1, 2;
SELECT count(*) FROM likes_shard WHERE inc <> 0 OR dec <> 0;
TABLE is_sound;

-- A value out of range for bigint is reset here, no matter who counted it
SELECT come(format($$INSERT INTO %I VALUES ('c', 'us', 7, 9223372036854775807, 3, now()), ('c', 'asia', 8, 9223372036854775807, 0, now())$$, t || '_region'))
	FROM unnest('{likes,slow}'::text[]) AS t;
SELECT dc_compact(t) FROM unnest('{likes,slow}'::regclass[]) AS t;
SELECT dc_get('likes', 'c');
SELECT dc_reset(t, 'c') FROM unnest('{likes,slow}'::regclass[]) AS t;
SELECT dc_incr(t, 'c', 1), dc_compact(t) FROM unnest('{likes,slow}'::regclass[]) AS t;
SELECT dc_get(t, 'c') FROM unnest('{likes,slow}'::regclass[]) AS t;
TABLE is_sound;

-- Anything that may be in a row, as an insertion and as an update of what is there. The database no longer has its epoch if
-- another row has more of that
CREATE TABLE numbers AS SELECT n FROM unnest('{-9223372036854775808,-9223372036854775807,-1,0,1,5,9223372036854775806,9223372036854775807}'::bigint[]) AS n;
CREATE FUNCTION storm(rows text, tables text[]) RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE
	statement text;
	done bigint := 0;
	name text;
BEGIN
	FOREACH name IN ARRAY tables LOOP
		FOR statement IN EXECUTE rows USING name LOOP
			BEGIN
				PERFORM come(statement);
			EXCEPTION WHEN OTHERS THEN
				RAISE 'error of apply: % at %', sqlerrm, statement;
			END;
			done := done + 1;
		END LOOP;
	END LOOP;
	RETURN done;
END $$;
SELECT storm($$SELECT format('INSERT INTO %I VALUES (%L, %L, %s, %s, %s, %L)', $1 || '_region', k, r, e.n, i.n, d.n, at)
	FROM numbers AS e, numbers AS i, numbers AS d, (VALUES ('us', 'x', timestamptz '-infinity'), ('asia', 'x', 'infinity'), ('eu', 'y', '294276-12-31'), ('US', 'y', now())) AS o(r, k, at)
	WHERE (e.n + 3 * d.n::numeric + 5 * i.n::numeric) % 7 = 0$$, '{likes,slow}');
SELECT storm($$SELECT format('UPDATE %I SET inc = %s, dec = %s, epoch = epoch + %s WHERE key = %L', $1 || '_region', i.n, d.n, more, k)
	FROM numbers AS i, numbers AS d, (VALUES ('x', 0), ('y', 0), ('y', -1)) AS o(k, more)$$, '{likes,slow}');
SELECT storm($$SELECT format('INSERT INTO %I VALUES (%L, %L, %s, %s, %L, %L)', $1 || '_set', k, r, h.n, v.n, del, upto)
	FROM numbers AS h, numbers AS v, (VALUES (true), (false)) AS b(del), (VALUES ('us', 'x', '{"us:7": {"inc": 9223372036854775807, "dec": 9223372036854775807, "inc_reset": 9223372036854775807, "dec_reset": 1}}'),
		('asia', 'x', '{"asia:9223372036854775807": {"inc": 1}, "us:9": {"dec": 9223372036854775807}}'), ('eu', 'x', '{"x": {"inc": 5}}'), ('eu', 'y', '{"eu:1": {"inc": 9223372036854775807}}'),
		('us', 'z', (SELECT '{' || string_agg(format('"us:%s": {"inc": 9223372036854775807}', i), ', ') || '}' FROM generate_series(1, 40) AS i))) AS o(r, k, upto)$$, '{likes,slow}');
SELECT storm($$SELECT format('UPDATE %I SET hlc = %s, value = %s, deleted = %L WHERE key = %L', $1 || '_set', h.n, v.n, del, k)
	FROM numbers AS h, numbers AS v, (VALUES (true), (false)) AS b(del), (VALUES ('x'), ('y')) AS o(k)$$, '{likes,slow}');
SELECT storm($$SELECT format('INSERT INTO seats_grant VALUES (%L, %L, %s, %L, %s, %s)', 'x', f, e.n, t, e.n, u.n)
	FROM numbers AS e, numbers AS u, (VALUES ('us', 'eu'), ('eu', 'us'), ('us', 'us'), ('asia', '')) AS o(f, t)$$, '{seats}');
SELECT storm($$SELECT format('INSERT INTO seats_grant VALUES (%L, ''us'', %s, ''eu'', %s, %s)', 'y', e.n, (SELECT rights_epoch FROM dcounter.counter WHERE counter = 'seats'::regclass), u.n)
	FROM numbers AS e, numbers AS u$$, '{seats}');
SELECT storm($$SELECT format('UPDATE seats_grant SET units = %s', u.n) FROM numbers AS u$$, '{seats}');
SELECT storm($$SELECT format('INSERT INTO seats_want (key, region, epoch, hlc, since, wanted, low, granted, kept, waits, asked, asked_at, until, units, given)
	VALUES (%L, %L, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %L, %s, %s)', 'x', r, a.n, b.n, a.n, b.n, a.n, b.n, a.n, b.n, a.n, b.n, at, a.n, b.n)
	FROM numbers AS a, numbers AS b, (VALUES ('us', timestamptz 'infinity'), ('eu', '-infinity'), ('asia', now())) AS o(r, at)$$, '{seats}');
SELECT storm($$SELECT format('INSERT INTO dcounter.region (region, epoch, boot, seq, first, published, beat_at, seen, retired_at) VALUES (%L, %s, %L, %s, %s, %s, %L, %L, %L)', r, e.n, boot, s.n, f.n, s.n, at, seen, retired)
	FROM numbers AS e, numbers AS s, numbers AS f, (VALUES ('us', '00000000-0000-4000-8000-000000000000', timestamptz '-infinity', NULL, NULL),
		('us', NULL, NULL, '{"eu": [1e400, 1, "", 5, null]}', '294276-12-31'), ('asia', NULL, now(), '{"eu": [-9223372036854775808, 9223372036854775807, "x", -9223372036854775808, 9223372036854775807], "us": [1, 2]}', 'infinity'),
		('asia', '00000000-0000-4000-8000-000000000001', '294276-12-31', '[1, {"eu": 5}]', '4714-11-24 BC'), ('eu', NULL, now(), '"eu"', NULL)) AS o(r, boot, at, seen, retired)
	WHERE (e.n + 3 * s.n::numeric + 5 * f.n::numeric) % 7 = 0$$, '{any}');
SELECT storm($$SELECT format('UPDATE dcounter.region SET seq = %s, first = %s WHERE region <> ''eu''', s.n, f.n) FROM numbers AS s, numbers AS f$$, '{any}');
-- what came is there, or was passed over; keys that nobody has written are as they were
SELECT dc_get(t, 'a'), dc_get(t, 'b') FROM unnest('{likes,slow}'::regclass[]) AS t;
TABLE is_sound;
SELECT dc_region_renew() > 0;
SELECT dc_incr(t, 'after', 1), dc_compact(t) FROM unnest('{likes,slow}'::regclass[]) AS t;
SELECT inc FROM likes_region WHERE key = 'after' UNION ALL SELECT inc FROM slow_region WHERE key = 'after';

DROP VIEW is_sound;
SELECT dc_drop('likes'), dc_drop('slow'), dc_drop('seats');
DROP FUNCTION same, come, storm;
DROP TABLE numbers;
DELETE FROM dcounter.self;
DELETE FROM dcounter.self_mark;
DELETE FROM dcounter.region;
DROP PUBLICATION dcounter_own, dcounter_all;
