-- How a counter table behaves, whatever it is made of. The including test has
-- created the counter table c, empty, and the same must come out for each kind.
-- Nothing here needs two-phase commit. The variable rounds, if set, is the
-- number of transactions of the property test at the end.
\set VERBOSITY terse
\pset tuples_only on
\pset format unaligned
\set ON_ERROR_ROLLBACK off
SET client_min_messages = warning;

-- Adding and subtracting; text, bigint and uuid keys stand for their text
SELECT dc_incr('c', 'a');
SELECT dc_incr('c', 'a', 10), dc_decr('c', 'a', 3), dc_decr('c', 'a');
SELECT dc_get('c', 'a');
SELECT dc_incr('c', 42), dc_incr('c', 42::bigint, 4), dc_incr('c', '42', 2), dc_decr('c', 42);
SELECT dc_get('c', 42), dc_get('c', '42'), dc_get('c', '042');
SELECT dc_incr('c', -9223372036854775808), dc_incr('c', 9223372036854775807, 2);
SELECT dc_get('c', '-9223372036854775808'), dc_get('c', '9223372036854775807');
SELECT dc_incr('c', 'A0EEBC99-9C0B-4EF8-BB6D-6BB9BD380A11'::uuid), dc_decr('c', 'a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11'::uuid, 8);
SELECT dc_get('c', 'a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11'), dc_get('c', 'a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11'::uuid), dc_get('c', 'A0EEBC99-9C0B-4EF8-BB6D-6BB9BD380A11');
SELECT dc_incr(counter => 'c', key => 'named', delta => 6);
SELECT dc_get(key => 'named', counter => 'c'), dc_get('c', 'unknown');
-- A negative delta of one is a positive delta of the other
SELECT dc_incr('c', 'neg', -5), dc_decr('c', 'neg', -2), dc_incr('c', 'neg', 1);
SELECT value, inc, dec FROM dc_info('c', 'neg');
-- The largest amounts that fit
SELECT dc_incr('c', 'big', 9223372036854775807), dc_decr('c', 'big', 9223372036854775807);
SELECT value, inc, dec FROM dc_info('c', 'big');
SELECT dc_incr('c', 'min', -9223372036854775807);
SELECT dc_get('c', 'min'), dc_delete('c', 'min'), dc_delete('c', 'big');
-- Zero changes nothing, and leaves nothing
SELECT dc_incr('c', 'zero', 0), dc_decr('c', 'zero', 0), dc_incr_returning('c', 'zero', 0);
SELECT dc_get('c', 'zero'), count(*) FROM c_shard WHERE key = 'zero';
SELECT * FROM dc_info('c', 'zero');
-- dc_incr_hashed: the same `by` any number of times
SELECT dc_incr_hashed('c', 'hashed', 'writer ' || i % 3, i) FROM generate_series(1, 4) i;
SELECT dc_incr_hashed('c', 7, '', 2), dc_incr_hashed('c', 'a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11'::uuid, 'x'), dc_incr_hashed('c', 'hashed', 'x', -1);
SELECT dc_get('c', 'hashed'), dc_get('c', 7), dc_get('c', 'a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11');
-- dc_incr_many: repeated keys, deltas or none, and nothing if one is wrong
SELECT dc_incr_many('c', ARRAY['m1', 'm2', 'm1']);
SELECT dc_incr_many('c', ARRAY['m1', 'm2', 'm1'], ARRAY[10, -20, 30]);
SELECT dc_incr_many('c', '{}'), dc_incr_many('c', '{}', '{}');
SELECT dc_incr_many('c', '{m1,m2,m3,m3}', '{1,2,3,4}');
SELECT * FROM dc_get_many('c', ARRAY['m1', 'm2', 'm3']);
SELECT dc_incr_many('c', ARRAY['m1', 'm2'], ARRAY[1]);
SELECT dc_incr_many('c', ARRAY['m1', 'm2'], ARRAY[1, NULL]);
SELECT dc_incr_many('c', ARRAY['m1', NULL]);
SELECT * FROM dc_get_many('c', ARRAY['m1', 'm2', 'm3']);
-- dc_get_many: input order, repeats, unknown keys, none at all
SELECT * FROM dc_get_many('c', ARRAY['m3', 'unknown', 'm1', 'm3', '']);
SELECT * FROM dc_get_many('c', '{}');
SELECT DISTINCT value FROM dc_get_many('c', (SELECT array_agg('none ' || i) FROM generate_series(1, 2000) i));
-- A set of increments in one statement
SELECT count(dc_incr('c', 'k' || i % 10, i)) FROM generate_series(1, 1000) i;
SELECT * FROM dc_get_many('c', (SELECT array_agg('k' || i ORDER BY i) FROM generate_series(0, 9) i));

-- Keys: empty, 1,024 bytes, any characters, "C" order
SELECT dc_incr('c', ''), dc_incr('c', repeat('x', 1024), 2), dc_incr('c', repeat('x', 1023), 3);
SELECT dc_incr('c', E'\xC3\xA9', 4), dc_incr('c', E'e\xCC\x81', 5), dc_incr('c', E'\xE2\x82\xAC', 6);
SELECT dc_incr('c', 'Key', 7), dc_incr('c', 'key', 8), dc_incr('c', ' key', 9), dc_incr('c', 'key ', 10), dc_incr('c', E'k\n\t''"\\%_', 11);
SELECT dc_get('c', ''), dc_get('c', repeat('x', 1024)), dc_get('c', repeat('x', 1023)), dc_get('c', repeat('x', 1022));
SELECT dc_get('c', E'\xC3\xA9'), dc_get('c', E'e\xCC\x81'), dc_get('c', E'\xE2\x82\xAC'), dc_get('c', E'\xC3\xA8');
SELECT dc_get('c', 'Key'), dc_get('c', 'key'), dc_get('c', ' key'), dc_get('c', 'key '), dc_get('c', E'k\n\t''"\\%_');
SELECT value FROM dc_get_many('c', ARRAY[E'\xE2\x82\xAC', repeat('x', 1024), '', E'\xC3\xA9']);

-- Compaction: totals and shards together are the count, before and after
SELECT dc_sum('c') = (SELECT sum(inc - dec) FROM c_shard), count(*) FROM c;
SELECT dc_compact('c') = count(DISTINCT key) FROM c_shard;
SELECT dc_sum('c') = sum(value), count(*) FROM c;
SELECT sum(inc), sum(dec) FROM c_shard;
SELECT left(key, 12), octet_length(key), inc, dec, value FROM c WHERE key !~ '[^ -~]' ORDER BY key;
SELECT dc_compact('c'), dc_compact('c');
SELECT count(*) FROM c_shard;
SELECT dc_incr('c', 'a', 100), dc_incr('c', 'new', 1);
SELECT value, dc_get('c', key) FROM c WHERE key = 'a';
SELECT dc_compact('c', 0), dc_compact('c', 1), dc_compact('c', 10), dc_compact('c');
SELECT key, inc, dec, value, updated_at IS NOT NULL FROM c WHERE key IN ('a', 'new') ORDER BY key;
SELECT dc_compact('c', -1);

-- Within its transaction an increment is visible at once, everywhere
BEGIN;
SELECT dc_incr('c', 'own', 5), dc_decr('c', 'own', 2);
SELECT dc_get('c', 'own'), dc_incr_returning('c', 'own', 10), dc_get('c', 'own');
SELECT dc_incr_returning('c', 1234567890123, 3), dc_incr_returning('c', 'c0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11'::uuid), dc_incr_returning('c', 'a', -1);
SELECT value, inc, dec, updated_at >= now(), shards FROM dc_info('c', 'own');
SELECT to_jsonb(dc_info('c', 'own')) - 'updated_at';
SELECT * FROM dc_get_many('c', ARRAY['own', 'a', 'own', 'new']);
SELECT dc_sum('c') - (SELECT sum(value) FROM c);
-- ... but not to plain SQL, until it is written
SELECT count(*) FROM c_shard;
SELECT dc_apply(), dc_apply();
SELECT key, inc, dec FROM c_shard ORDER BY key;
SELECT dc_incr('c', 'own', 100);
SELECT dc_get('c', 'own'), (SELECT sum(inc) FROM c_shard WHERE key = 'own');
SELECT value, inc, dec FROM dc_info('c', 'own');
SELECT * FROM dc_get_many('c', ARRAY['a', 'own']);
SELECT dc_sum('c') - (SELECT sum(value) FROM c);
ROLLBACK;
SELECT dc_get('c', 'own'), dc_get('c', 'a'), dc_get('c', 1234567890123);
SELECT count(*) FROM c_shard;

-- Savepoints: an early write at each level or none, with all combinations of
-- RELEASE and ROLLBACK TO of two levels. Shown before and after the commit.
CREATE PROCEDURE levels(key text, write_at text, inner_end text, outer_end text) LANGUAGE plpgsql AS $$
DECLARE
	result bigint;
BEGIN
	PERFORM dc_incr('c', key, 1);
	BEGIN
		PERFORM dc_incr('c', key, 10);
		BEGIN
			PERFORM dc_incr('c', key, 100);
			BEGIN
				PERFORM dc_incr('c', key, 1000);
				IF write_at = 'inner' THEN PERFORM dc_apply(); END IF;
				PERFORM dc_incr('c', key, 2000);
				IF inner_end = 'rollback' THEN RAISE data_exception; END IF;
			EXCEPTION WHEN data_exception THEN NULL;
			END;
			IF write_at = 'middle' THEN PERFORM dc_apply(); END IF;
			PERFORM dc_incr('c', key, 10000);
			IF outer_end = 'rollback' THEN RAISE data_exception; END IF;
		EXCEPTION WHEN data_exception THEN NULL;
		END;
		PERFORM dc_incr('c', key, 100000);
		IF write_at = 'outer' THEN PERFORM dc_apply(); END IF;
	END;
	result := dc_get('c', key);
	COMMIT;
	RAISE WARNING 'written % inner % outer %: %, %', write_at, inner_end, outer_end, result, dc_get('c', key);
END $$;
DO $$
DECLARE
	w text; i text; o text; n int := 0;
BEGIN
	FOREACH w IN ARRAY ARRAY['never', 'inner', 'middle', 'outer'] LOOP
		FOREACH i IN ARRAY ARRAY['release', 'rollback'] LOOP
			FOREACH o IN ARRAY ARRAY['release', 'rollback'] LOOP
				n := n + 1;
				CALL levels('level ' || n, w, i, o);
			END LOOP;
		END LOOP;
	END LOOP;
END $$;
DROP PROCEDURE levels;
-- The same with the statements themselves, and a savepoint rolled back to twice
BEGIN;
SELECT dc_incr('c', 's', 1);
SAVEPOINT a;
SELECT dc_incr('c', 's', 2);
SAVEPOINT b;
SELECT dc_incr('c', 's', 4);
SELECT dc_apply();
SELECT dc_incr('c', 's', 8);
RELEASE b;
SELECT dc_get('c', 's');
ROLLBACK TO a;
SELECT dc_get('c', 's');
SELECT dc_incr('c', 's', 16);
SAVEPOINT b;
SELECT dc_apply();
SELECT dc_incr('c', 's', 32);
ROLLBACK TO b;
SELECT dc_get('c', 's'), (SELECT count(*) FROM c_shard WHERE key = 's');
SELECT dc_incr('c', 's', 64);
RELEASE a;
SELECT dc_get('c', 's');
SAVEPOINT c;
SELECT dc_apply();
ROLLBACK TO c;
SELECT dc_get('c', 's'), (SELECT count(*) FROM c_shard WHERE key = 's');
SELECT dc_apply();
SELECT 1 / 0;
SELECT dc_get('c', 's');
ROLLBACK TO c;
SELECT dc_get('c', 's');
COMMIT;
SELECT dc_get('c', 's');
-- Written early, rolled back, written again, and more at commit
BEGIN;
SAVEPOINT a;
SELECT dc_incr('c', 'again', 1), dc_apply();
ROLLBACK TO a;
SELECT dc_incr('c', 'again', 2), dc_apply();
RELEASE a;
SELECT dc_incr('c', 'again', 4), dc_apply();
SELECT dc_incr('c', 'again', 128);
COMMIT;
SELECT dc_get('c', 'again');
BEGIN;
SELECT dc_incr('c', 'again', 8), dc_apply();
SAVEPOINT a;
SELECT dc_incr('c', 'again', 16), dc_apply();
ROLLBACK TO a;
SELECT dc_incr('c', 'again', 32), dc_apply(), dc_incr('c', 'again', 64);
COMMIT;
SELECT dc_get('c', 'again'), dc_delete('c', 'again');
-- Failed and rolled back transactions leave nothing
BEGIN;
SELECT dc_incr('c', 's', 1000), dc_apply(), dc_incr('c', 's', 1000);
SELECT 1 / 0;
COMMIT;
SELECT dc_incr('c', 's', 1000), 1 / (dc_get('c', 's') - 1081);
BEGIN;
SELECT dc_incr('c', 's', 1000);
ROLLBACK AND CHAIN;
SELECT dc_incr('c', 's', 19);
COMMIT AND CHAIN;
SELECT dc_get('c', 's');
SELECT dc_incr('c', 's', 1000);
ROLLBACK;
SELECT dc_get('c', 's');

-- PL/pgSQL: exception blocks in a loop, procedures that commit and roll back
DO $$
BEGIN
	FOR i IN 1 .. 200 LOOP
		BEGIN
			PERFORM dc_incr('c', 'loop'), dc_incr('c', 'loop ' || i % 5);
			IF i % 3 = 0 THEN RAISE data_exception; END IF;
			IF i % 50 = 1 THEN PERFORM dc_apply(); END IF;
		EXCEPTION WHEN data_exception THEN
			PERFORM dc_decr('c', 'loop', 1000);
		END;
	END LOOP;
END $$;
SELECT value, inc, dec FROM dc_info('c', 'loop');
SELECT sum(value) FROM dc_get_many('c', ARRAY['loop 0', 'loop 1', 'loop 2', 'loop 3', 'loop 4']);
CREATE PROCEDURE commits() LANGUAGE plpgsql AS $$
BEGIN
	FOR i IN 1 .. 30 LOOP
		PERFORM dc_incr('c', 'proc', i);
		IF i % 4 = 0 THEN PERFORM dc_apply(); END IF;
		IF i % 3 = 0 THEN ROLLBACK; ELSE COMMIT; END IF;
	END LOOP;
	PERFORM dc_incr('c', 'proc', 1000);
END $$;
CALL commits();
SELECT dc_get('c', 'proc');
DROP PROCEDURE commits;

-- Setting, resetting, deleting: with pending deltas, in savepoints
SELECT dc_set('c', 'set', 5), dc_set('c', 'set', 3), dc_set('c', 'set', 3), dc_get('c', 'set');
SELECT value, inc, dec FROM dc_info('c', 'set');
SELECT dc_set('c', 77, -4), dc_set('c', 'd0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11'::uuid, 6), dc_reset('c', 77), dc_get('c', 77), dc_delete('c', 77);
SELECT dc_reset('c', 'd0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11'::uuid), dc_delete('c', 'd0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11'::uuid), dc_reset('c', 'nothing'), dc_delete('c', 'nothing');
BEGIN;
SELECT dc_incr('c', 'set', 10), dc_set('c', 'set', 100), dc_incr('c', 'set', 1), dc_get('c', 'set');
SAVEPOINT a;
SELECT dc_reset('c', 'set'), dc_incr('c', 'set', 7), dc_get('c', 'set');
SAVEPOINT b;
SELECT dc_delete('c', 'set'), dc_get('c', 'set'), dc_incr('c', 'set', 2), dc_delete('c', 'set');
ROLLBACK TO b;
SELECT dc_get('c', 'set');
ROLLBACK TO a;
SELECT dc_get('c', 'set');
COMMIT;
SELECT dc_get('c', 'set'), dc_compact('c') > 0, dc_get('c', 'set');
SELECT value FROM c WHERE key = 'set';
BEGIN;
SELECT dc_decr('c', 'set', 1), dc_set('c', 'set', 40), dc_incr('c', 'set', 2);
COMMIT;
SELECT dc_get('c', 'set'), dc_delete('c', 'set'), dc_get('c', 'set');
SELECT count(*) FROM c WHERE key = 'set';
SELECT count(*) FROM c_shard WHERE key = 'set';
BEGIN;
SELECT dc_incr('c', 'set', 3), dc_delete('c', 'set'), dc_incr('c', 'set', 4);
COMMIT;
SELECT dc_get('c', 'set');

-- Compaction in the transaction of the increments, kept and rolled back
BEGIN;
SELECT dc_incr('c', 'comp', 5), dc_compact('c') > 0, dc_get('c', 'comp');
SELECT key, inc, value FROM c WHERE key = 'comp';
SAVEPOINT a;
SELECT dc_incr('c', 'comp', 2), dc_compact('c'), dc_incr('c', 'comp', 1), dc_get('c', 'comp');
ROLLBACK TO a;
SELECT dc_get('c', 'comp'), dc_incr('c', 'comp', 10), dc_get('c', 'comp');
COMMIT;
SELECT key, value, dc_get('c', key) FROM c WHERE key = 'comp';
BEGIN;
SELECT dc_compact('c'), dc_get('c', 'comp');
ROLLBACK;
SELECT key, value, dc_get('c', key) FROM c WHERE key = 'comp';
SELECT dc_compact('c'), dc_get('c', 'comp');
SELECT key, value FROM c WHERE key = 'comp';

-- Cursors: increments made meanwhile, and by a holdable one at commit
BEGIN;
SELECT dc_incr('c', 'cur', 1);
DECLARE d CURSOR FOR SELECT i, dc_get('c', 'cur'), dc_incr_returning('c', 'cur', i) FROM generate_series(1, 4) i;
FETCH 2 FROM d;
SAVEPOINT a;
SELECT dc_incr('c', 'cur', 100), dc_apply();
FETCH 1 FROM d;
ROLLBACK TO a;
SELECT dc_get('c', 'cur');
CLOSE d;
DECLARE h CURSOR WITH HOLD FOR SELECT i, dc_incr_returning('c', 'hold', i) FROM generate_series(1, 3) i;
COMMIT;
FETCH ALL FROM h;
CLOSE h;
SELECT dc_get('c', 'cur'), dc_get('c', 'hold');

-- Triggers: row by row, and at commit; what they count goes with the rows
CREATE TABLE post (id int PRIMARY KEY, kind text);
CREATE FUNCTION count_post() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
	IF TG_OP = 'DELETE' THEN
		PERFORM dc_decr('c', 'post ' || OLD.kind);
		RETURN OLD;
	END IF;
	PERFORM dc_incr('c', 'post ' || NEW.kind);
	RETURN NEW;
END $$;
CREATE FUNCTION count_late() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
	PERFORM dc_incr('c', 'late');
	IF NEW.kind = 'bad' AND dc_get('c', 'late') > 0 THEN RAISE 'bad post'; END IF;
	RETURN NULL;
END $$;
CREATE TRIGGER count_post BEFORE INSERT OR DELETE ON post FOR EACH ROW EXECUTE FUNCTION count_post();
CREATE CONSTRAINT TRIGGER count_late AFTER INSERT ON post DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION count_late();
INSERT INTO post SELECT i, 'even' FROM generate_series(2, 20, 2) i;
DELETE FROM post WHERE id > 12;
BEGIN;
INSERT INTO post VALUES (1, 'odd');
SELECT dc_get('c', 'post odd'), dc_get('c', 'late');
INSERT INTO post VALUES (2, 'odd');
ROLLBACK;
INSERT INTO post VALUES (1, 'odd'), (3, 'odd');
SELECT * FROM dc_get_many('c', ARRAY['post even', 'post odd', 'late']);
SELECT count(*) FROM post;
-- An error at commit takes all of the transaction's increments with it
BEGIN;
SELECT dc_incr('c', 'failing', 1), dc_apply(), dc_incr('c', 'failing', 2);
INSERT INTO post VALUES (5, 'odd'), (7, 'bad');
SELECT dc_get('c', 'failing');
COMMIT;
SELECT * FROM dc_get_many('c', ARRAY['failing', 'post odd', 'post bad', 'late']);
DROP TABLE post;
DROP FUNCTION count_post, count_late;

-- A SECURITY DEFINER function
CREATE FUNCTION like_it(key text) RETURNS bigint LANGUAGE sql SECURITY DEFINER
	SET search_path FROM CURRENT AS $$ SELECT dc_incr('c', key); SELECT dc_get('c', key) $$;
SELECT like_it('definer'), like_it('definer'), dc_get('c', 'definer');
DROP FUNCTION like_it;

-- Other isolation levels
BEGIN ISOLATION LEVEL REPEATABLE READ;
SELECT dc_get('c', 'iso');
SELECT dc_incr('c', 'iso', 1), dc_incr('c', 'a', 1), dc_apply(), dc_incr('c', 'iso', 2), dc_get('c', 'iso');
COMMIT;
BEGIN ISOLATION LEVEL SERIALIZABLE;
SELECT dc_incr('c', 'iso', 4), dc_set('c', 'a', 500), dc_incr('c', 'a', 7), dc_compact('c') > 0, dc_get('c', 'iso');
COMMIT;
SELECT dc_get('c', 'iso'), dc_get('c', 'a');
BEGIN READ ONLY;
SELECT dc_get('c', 'iso'), count(*) FROM dc_get_many('c', ARRAY['iso', 'a']);
SELECT dc_incr('c', 'iso');
ROLLBACK;

-- A random tree of savepoints, beside the same amounts in an ordinary table,
-- whose rows the server itself keeps or takes back
CREATE TEMP TABLE oracle (key text, amount bigint);
CREATE FUNCTION branch(depth int) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
	k text; n bigint; what float8; got bigint; want bigint;
BEGIN
	FOR i IN 1 .. 1 + floor(random() * 4) LOOP
		k := 'tree ' || floor(random() * 4);
		n := floor(random() * 100) - 30;
		what := random();
		IF what < 0.35 THEN
			PERFORM dc_incr('c', k, n);
			INSERT INTO oracle VALUES (k, n);
		ELSIF what < 0.45 THEN
			PERFORM dc_incr_many('c', ARRAY['tree 0', k], ARRAY[-n, n]);
			INSERT INTO oracle VALUES ('tree 0', -n), (k, n);
		ELSIF what < 0.5 THEN
			got := dc_set('c', k, n);
			SELECT coalesce(sum(amount), 0) INTO want FROM oracle WHERE key = k;
			IF got <> want THEN RAISE 'dc_set of % returned % instead of %', k, got, want; END IF;
			INSERT INTO oracle VALUES (k, n - want);
		ELSIF what < 0.55 THEN
			got := dc_delete('c', k);
			SELECT coalesce(sum(amount), 0) INTO want FROM oracle WHERE key = k;
			IF got <> want THEN RAISE 'dc_delete of % returned % instead of %', k, got, want; END IF;
			DELETE FROM oracle WHERE key = k;
		ELSIF what < 0.65 THEN
			PERFORM dc_apply();
		ELSIF what < 0.7 THEN
			PERFORM dc_compact('c');
		ELSIF depth < 6 THEN
			BEGIN
				PERFORM branch(depth + 1);
				IF random() < 0.45 THEN RAISE data_exception; END IF;
			EXCEPTION WHEN data_exception THEN NULL;
			END;
		END IF;
	END LOOP;
	SELECT string_agg(m.key || ' is ' || m.value || ' instead of ' || coalesce(o.sum, 0), ', ') INTO k
	FROM dc_get_many('c', ARRAY['tree 0', 'tree 1', 'tree 2', 'tree 3']) m
		LEFT JOIN (SELECT key, sum(amount) FROM oracle GROUP BY key) o USING (key)
	WHERE m.value <> coalesce(o.sum, 0);
	IF k IS NOT NULL THEN RAISE 'at depth %: %', depth, k; END IF;
END $$;
CREATE PROCEDURE forest(rounds int) LANGUAGE plpgsql AS $$
BEGIN
	PERFORM setseed(0.4711);
	FOR i IN 1 .. rounds LOOP
		PERFORM branch(0);
		IF random() < 0.3 THEN ROLLBACK; ELSE COMMIT; END IF;
		PERFORM branch(6);
	END LOOP;
END $$;
\if :{?rounds}
\else
\set rounds 300
\endif
\set ECHO none
CALL forest(:rounds);
\set ECHO all
SELECT m.value = coalesce(sum(amount), 0) FROM dc_get_many('c', ARRAY['tree 0', 'tree 1', 'tree 2', 'tree 3']) m LEFT JOIN oracle o USING (key) GROUP BY m.key, m.value;
DROP PROCEDURE forest;
DROP FUNCTION branch;
DROP TABLE oracle;

-- All of it again, from the tables themselves
SELECT dc_sum('c') = (SELECT sum(value) FROM c) + (SELECT coalesce(sum(inc - dec), 0) FROM c_shard);
SELECT dc_compact('c') >= 0, dc_compact('c') >= 0;
SELECT dc_sum('c') = (SELECT sum(value) FROM c), (SELECT coalesce(sum(inc + dec), 0) FROM c_shard);
RESET client_min_messages;
\pset format aligned
\pset tuples_only off
\unset VERBOSITY
-- End of the common behaviour
