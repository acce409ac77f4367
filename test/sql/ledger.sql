-- Ledgers: transfers, bounds, pending transfers, the guard, and what is refused
\set VERBOSITY terse
\set SHOW_CONTEXT never
\pset format unaligned
\pset tuples_only on
\pset null NULL
SET timezone = 'UTC';

-- What a statement does: "ok", or its error. A block with an exception: what it has
-- written is undone.
\getenv abs_srcdir PG_ABS_SRCDIR
\cd :abs_srcdir
\i include/try_line.sql
-- The ledger: each account, and what is wrong with it
CREATE FUNCTION books(l text = 'wallet') RETURNS SETOF text LANGUAGE plpgsql AS $$
BEGIN
	RETURN QUERY EXECUTE format('SELECT a.key || '': '' || concat_ws('' '', b.balance, ''out '' || nullif(b.pending_out, 0),
		''in '' || nullif(b.pending_in, 0), ''available '' || b.available)
		FROM %s AS a, dc_balance(%L, a.key) AS b ORDER BY a.key', l || '_account', l);
	RETURN QUERY SELECT 'WRONG: ' || c FROM dc_ledger_check(l) AS c;
	RETURN QUERY EXECUTE format('SELECT ''SUM OF ALL: '' || dc_sum(%1$L) || '' '' || count(*) FROM %2$s HAVING dc_sum(%1$L) <> 0 OR sum(amount) <> 0', l, l || '_entry');
END $$;

--
-- Creating
--
SELECT dc_ledger_create('wallet');
SELECT relname, relkind FROM pg_class WHERE relname LIKE 'wallet%' AND relkind NOT IN ('i', 'I') ORDER BY relname COLLATE "C";
SELECT ledger, limits, entries, entry_ids, accounts, pendings, openings, auto_open FROM dcounter.ledger;
SELECT counter, ledger, op_retention, holds FROM dcounter.counter WHERE ledger = 'wallet'::regclass ORDER BY counter::text COLLATE "C";
SELECT try('SELECT dc_ledger_create(''wallet'')');
SELECT try('SELECT dc_ledger_create(NULL)');
SELECT try('SELECT dc_ledger_create(''other'', NULL)');
SELECT try('SELECT dc_ledger_create(''other'', false, ''-1 day'')');
SELECT try('SELECT dc_ledger_create(''no_schema.other'')');
SELECT relname FROM pg_class WHERE relname LIKE 'other%';

--
-- Accounts
--
SELECT dc_account_open('wallet', 'bank', NULL);
SELECT dc_account_open('wallet', 'alice'), dc_account_open('wallet', 'bob', -50, 1000), dc_account_open('wallet', 'top', NULL, 100);
SELECT key, min_balance, max_balance, opened_at BETWEEN now() - interval '1 hour' AND clock_timestamp() FROM wallet_account ORDER BY key;
-- The same once more is nothing
SELECT xmin::text AS x FROM wallet_account WHERE key = 'bob' \gset
SELECT dc_account_open('wallet', 'bob', -50, 1000);
SELECT xmin::text = :'x' FROM wallet_account WHERE key = 'bob';
SELECT try(s) FROM unnest(ARRAY[
	$$SELECT dc_account_open(NULL, 'x')$$,
	$$SELECT dc_account_open('wallet', NULL)$$,
	$$SELECT dc_account_open('wallet', 'x', 1)$$,
	$$SELECT dc_account_open('wallet', 'x', NULL, -1)$$,
	$$SELECT dc_account_open('wallet', 'x', 5, 4)$$,
	$$SELECT dc_account_open('wallet', 'x', -9223372036854775808)$$,
	$$SELECT dc_account_open('wallet', 'x', -9223372036854775807)$$,
	$$SELECT dc_account_open('wallet', 'y', 0, 0)$$,
	$$SELECT dc_account_open('pg_class', 'x')$$,
	$$SELECT dc_account_open('wallet_limit', 'x')$$,
	$$SELECT dc_account_open('wallet_entry', 'x')$$,
	$$SELECT dc_account_open(1, 'x')$$]) AS s;
SELECT books();
SELECT key, min_balance, max_balance FROM wallet_account WHERE key IN ('x', 'y') ORDER BY key;

--
-- Transfers
--
SELECT * FROM dc_transfer('wallet', 'bank', 'alice', 100, 'e1');
SELECT * FROM dc_transfer('wallet', 'alice', 'bob', 30, 'e2', '{"why": "lunch"}');
SELECT books();
SELECT entry_id, transfer_id, key, amount, op_id, memo, at BETWEEN now() - interval '1 hour' AND clock_timestamp() FROM wallet_entry ORDER BY entry_id;
SELECT slot, op_id, key, delta, transfer_id, digest IS NOT NULL FROM wallet_op ORDER BY op_id;
-- The bounds, to the unit
SELECT try($$SELECT dc_transfer('wallet', 'alice', 'bank', 71, 'b1')$$);
SELECT try($$SELECT dc_transfer('wallet', 'bank', 'bob', 971, 'b2')$$);
SELECT try($$SELECT dc_transfer('wallet', 'bob', 'bank', 81, 'b3')$$);
SELECT try($$SELECT dc_transfer('wallet', 'bank', 'top', 101, 'b4')$$);
SELECT try($$SELECT dc_transfer('wallet', 'bank', 'carl', 1, 'b5')$$);
SELECT try($$SELECT dc_transfer('wallet', 'carl', 'bank', 1, 'b5')$$);
SELECT try($$SELECT dc_transfer('wallet', 'y', 'bank', 1, 'b5')$$), try($$SELECT dc_transfer('wallet', 'bank', 'y', 1, 'b5')$$);
-- ... none of these has left anything, and their ops can come again
SELECT books();
SELECT * FROM dc_transfer('wallet', 'alice', 'bank', 70, 'b1');
SELECT * FROM dc_transfer('wallet', 'bank', 'bob', 970, 'b2');
SELECT books();
SELECT * FROM dc_transfer('wallet', 'bob', 'bank', 1050, 'b3');
SELECT * FROM dc_transfer('wallet', 'bank', 'top', 100, 'b4');
SELECT * FROM dc_transfer('wallet', 'top', 'bank', 1000, 'b5');
SELECT * FROM dc_transfer('wallet', 'bank', 'top', 1000, 'b6');
SELECT books();
-- Arguments
SELECT try(s) FROM unnest(ARRAY[
	$$SELECT dc_transfer(NULL, 'bank', 'alice', 1, 'a1')$$,
	$$SELECT dc_transfer('wallet', NULL, 'alice', 1, 'a1')$$,
	$$SELECT dc_transfer('wallet', 'bank', NULL, 1, 'a1')$$,
	$$SELECT dc_transfer('wallet', 'bank', 'alice', NULL, 'a1')$$,
	$$SELECT dc_transfer('wallet', 'bank', 'alice', 1, NULL)$$,
	$$SELECT dc_transfer('wallet', 'bank', 'alice', 0, 'a1')$$,
	$$SELECT dc_transfer('wallet', 'bank', 'alice', -1, 'a1')$$,
	$$SELECT dc_transfer('wallet', 'bank', 'alice', -9223372036854775808, 'a1')$$,
	$$SELECT dc_transfer('wallet', 'bank', 'bank', 1, 'a1')$$,
	$$SELECT dc_transfer('wallet', 'bank', 'alice', 1, '')$$,
	$$SELECT dc_transfer('wallet', 'bank', 'alice', 1, repeat('x', 1025))$$,
	$$SELECT dc_transfer('wallet_limit', 'bank', 'alice', 1, 'a1')$$,
	$$SELECT dc_transfer('wallet_account', 'bank', 'alice', 1, 'a1')$$,
	$$SELECT dc_transfer(0, 'bank', 'alice', 1, 'a1')$$]) AS s;
SELECT count(*) FROM wallet_op WHERE op_id = 'a1';
-- NULL for memo is none
SELECT * FROM dc_transfer('wallet', 'bank', 'alice', 1, repeat('x', 1024), NULL);
SELECT count(*), count(memo) FROM wallet_entry WHERE op_id = repeat('x', 1024);

--
-- Duplicates
--
SELECT * FROM dc_transfer('wallet', 'bank', 'alice', 100, 'e1');
SELECT count(*) FROM (SELECT dc_transfer('wallet', 'alice', 'bob', 30, 'e2') FROM generate_series(1, 5)) AS d;
-- ... even if it could no longer be posted, or the memo is different
SELECT * FROM dc_transfer('wallet', 'alice', 'bank', 70, 'b1', '{"memo": "another"}');
SELECT memo FROM wallet_entry WHERE op_id = 'b1';
-- ... a duplicate writes nothing
BEGIN; SELECT duplicate FROM dc_transfer('wallet', 'bank', 'alice', 100, 'e1'); SELECT pg_current_xact_id_if_assigned(); COMMIT;
-- In one command, and in one transaction
SELECT i, t.* FROM generate_series(1, 3) AS i, dc_transfer('wallet', 'bank', 'alice', i * 0 + 5, 'once') AS t;
BEGIN;
SELECT * FROM dc_transfer('wallet', 'bank', 'alice', 7, 'twice');
SELECT * FROM dc_transfer('wallet', 'bank', 'alice', 7, 'twice');
SELECT try($$SELECT dc_transfer('wallet', 'bank', 'alice', 8, 'twice')$$);
COMMIT;
SELECT duplicate FROM dc_transfer('wallet', 'bank', 'alice', 7, 'twice');
-- Other arguments
SELECT try(s) FROM unnest(ARRAY[
	$$SELECT dc_transfer('wallet', 'bank', 'alice', 101, 'e1')$$,
	$$SELECT dc_transfer('wallet', 'alice', 'bank', 100, 'e1')$$,
	$$SELECT dc_transfer('wallet', 'bank', 'bob', 100, 'e1')$$,
	$$SELECT dc_transfer('wallet', 'bank', 'nobody', 100, 'e1')$$,
	$$SELECT dc_transfer_pending('wallet', 'bank', 'alice', 100, 'e1')$$,
	$$SELECT dc_transfer_many('wallet', '{bank,bank}', '{alice,alice}', '{100,100}', 'e1')$$]) AS s;
-- One line is one line
SELECT * FROM dc_transfer_many('wallet', '{bank}', '{alice}', '{100}', 'e1');
-- Rolled back, it has not happened
BEGIN; SELECT duplicate FROM dc_transfer('wallet', 'bank', 'alice', 9, 'undone'); ROLLBACK;
SELECT duplicate FROM dc_transfer('wallet', 'bank', 'alice', 90, 'undone');
SELECT duplicate FROM dc_transfer('wallet', 'bank', 'alice', 90, 'undone');
-- What became of it
SELECT applied, key, delta, at IS NOT NULL FROM dc_op_status('wallet', 'e1');
SELECT applied, key, delta, at IS NOT NULL FROM dc_op_status('wallet', 'a1');
SELECT books();

--
-- Several lines
--
SELECT dc_account_open('wallet', k) FROM unnest('{carl,dora,erna}'::text[]) AS k;
-- What passes through an account need not be there
SELECT * FROM dc_transfer_many('wallet', '{bank,carl,dora}', '{carl,dora,erna}', '{10,10,10}', 'm1');
SELECT * FROM dc_transfer_many('wallet', '{erna,dora,carl}', '{dora,carl,bank}', '{10,9,8}', 'm2');
SELECT books();
SELECT e.entry_id - e.transfer_id, e.key, e.amount FROM wallet_entry AS e WHERE op_id IN ('m1', 'm2') ORDER BY e.entry_id;
-- An account in several lines: what counts is the sum
SELECT try($$SELECT dc_transfer_many('wallet', '{carl,carl}', '{bank,bank}', '{1,1}', 'm3')$$);
SELECT try($$SELECT dc_transfer_many('wallet', '{carl,bank,carl}', '{bank,carl,dora}', '{1,2,3}', 'm3')$$);
SELECT * FROM dc_transfer_many('wallet', '{carl,bank,carl}', '{bank,carl,dora}', '{1,2,2}', 'm3');
SELECT * FROM dc_transfer_many('wallet', '{bob,bank}', '{bank,bob}', '{5000,5000}', 'm4', '[1]');
-- All or nothing
SELECT try($$SELECT dc_transfer_many('wallet', '{bank,dora}', '{carl,alice}', '{1000,4}', 'm5')$$);
SELECT try($$SELECT dc_transfer_many('wallet', '{bank,bank}', '{carl,zoe}', '{1000,4}', 'm5')$$);
SELECT try($$SELECT dc_transfer_many('wallet', '{bank,bank}', '{carl,bob}', '{1000,1051}', 'm5')$$);
-- The order of the lines is part of what must be the same
SELECT * FROM dc_transfer_many('wallet', '{bank,carl,dora}', '{carl,dora,erna}', '{10,10,10}', 'm1');
SELECT try($$SELECT dc_transfer_many('wallet', '{carl,bank,dora}', '{dora,carl,erna}', '{10,10,10}', 'm1')$$);
SELECT try($$SELECT dc_transfer_many('wallet', '{bank,carl,dora}', '{carl,dora,erna}', '{10,10,9}', 'm1')$$);
SELECT try($$SELECT dc_transfer_many('wallet', '{bank,carl}', '{carl,dora}', '{10,10}', 'm1')$$);
SELECT try(s) FROM unnest(ARRAY[
	$$SELECT dc_transfer_many(NULL, '{bank}', '{alice}', '{1}', 'm6')$$,
	$$SELECT dc_transfer_many('wallet', NULL, '{alice}', '{1}', 'm6')$$,
	$$SELECT dc_transfer_many('wallet', '{bank}', NULL, '{1}', 'm6')$$,
	$$SELECT dc_transfer_many('wallet', '{bank}', '{alice}', NULL, 'm6')$$,
	$$SELECT dc_transfer_many('wallet', '{bank}', '{alice}', '{1}', NULL)$$,
	$$SELECT dc_transfer_many('wallet', '{NULL}', '{alice}', '{1}', 'm6')$$,
	$$SELECT dc_transfer_many('wallet', '{bank}', '{NULL}', '{1}', 'm6')$$,
	$$SELECT dc_transfer_many('wallet', '{bank}', '{alice}', '{NULL}', 'm6')$$,
	$$SELECT dc_transfer_many('wallet', '{bank,bank}', '{alice}', '{1}', 'm6')$$,
	$$SELECT dc_transfer_many('wallet', '{bank}', '{alice}', '{1,2}', 'm6')$$,
	$$SELECT dc_transfer_many('wallet', '{}', '{}', '{}', 'm6')$$,
	$$SELECT dc_transfer_many('wallet', '{bank,bank}', '{alice,alice}', '{1,0}', 'm6')$$,
	$$SELECT dc_transfer_many('wallet', '{bank,bank}', '{alice,bank}', '{1,1}', 'm6')$$,
	$$SELECT dc_transfer_many('wallet', array_fill('bank'::text, '{10001}'), array_fill('alice'::text, '{10001}'), array_fill(1::bigint, '{10001}'), 'm6')$$,
	$$SELECT dc_transfer_many('wallet', '{{bank,bank},{bank,bank}}', '{alice,alice,alice,alice}', '{1,1,1,1}', 'm6')$$,
	$$SELECT dc_transfer_many('wallet', '{bank,bank,bank,bank}', '{alice,alice,alice,alice}', '{1,1,1,1}', 'm6')$$]) AS s;
-- Many lines
SELECT transfer_id > 0, duplicate FROM dc_transfer_many('wallet', array_fill('bank'::text, '{1000}'), array_fill('alice'::text, '{1000}'), array_fill(1::bigint, '{1000}'), 'm7');
SELECT count(*), count(DISTINCT entry_id), max(entry_id) - min(entry_id), min(entry_id) = min(transfer_id), sum(amount) FROM wallet_entry WHERE op_id = 'm7';
SELECT transfer_id > 0, duplicate FROM dc_transfer_many('wallet', array_fill('alice'::text, '{1000}'), array_fill('bank'::text, '{1000}'), array_fill(1::bigint, '{1000}'), 'm8');
SELECT books();

--
-- Transactions: what is rolled back can be done again
--
BEGIN;
SAVEPOINT a;
SELECT duplicate FROM dc_transfer('wallet', 'bank', 'carl', 50, 's1');
SELECT books() LIMIT 4;
ROLLBACK TO a;
SELECT duplicate FROM dc_transfer('wallet', 'bank', 'carl', 5, 's1');
SAVEPOINT b;
SELECT duplicate FROM dc_transfer('wallet', 'carl', 'dora', 5, 's2');
SELECT try($$SELECT dc_transfer('wallet', 'carl', 'dora', 10, 's3')$$);
ROLLBACK TO b;
-- ... and the money is back, for the same op
SELECT duplicate FROM dc_transfer('wallet', 'carl', 'erna', 5, 's2');
RELEASE b;
SELECT duplicate FROM dc_transfer('wallet', 'carl', 'erna', 5, 's2');
COMMIT;
SELECT books();
-- What came in can go out, in the same transaction
BEGIN;
SELECT count(*) FROM (SELECT dc_transfer('wallet', 'bank', 'carl', 100, 's5'), dc_transfer('wallet', 'carl', 'dora', 100, 's6'), dc_transfer('wallet', 'dora', 'erna', 100, 's7')) AS t;
SELECT books();
ROLLBACK;
SELECT count(*) FROM wallet_entry WHERE op_id IN ('s5', 's6', 's7');
-- A block that catches its error
DO $$
BEGIN
	FOR i IN 1 .. 3 LOOP
		BEGIN
			PERFORM dc_transfer('wallet', 'bank', 'carl', 10, 'block');
			PERFORM dc_transfer('wallet', 'carl', 'dora', 25 - i, 'out');
		EXCEPTION WHEN SQLSTATE 'LG001' THEN
			RAISE NOTICE 'not enough';
		END;
	END LOOP;
	PERFORM dc_transfer('wallet', 'bank', 'carl', 10, 'block');
END $$;
SELECT books();
SELECT count(*) FROM wallet_op WHERE op_id IN ('block', 'out');

--
-- Bounds that change
--
SELECT dc_account_open('wallet', 'carl', -20, 500);
SELECT try($$SELECT dc_transfer('wallet', 'carl', 'bank', 100, 'r1')$$), try($$SELECT dc_transfer('wallet', 'bank', 'carl', 1000, 'r1')$$);
SELECT try($$SELECT dc_account_open('wallet', 'carl', 12)$$), try($$SELECT dc_account_open('wallet', 'carl', NULL, 1)$$);
SELECT b.* FROM dc_balance('wallet', 'carl') AS b;
SELECT dc_account_open('wallet', 'carl', 3, NULL);
SELECT try($$SELECT dc_transfer('wallet', 'carl', 'bank', 100, 'r1')$$);
SELECT duplicate FROM dc_transfer('wallet', 'carl', 'bank', (dc_balance('wallet', 'carl')).available, 'r2');
SELECT b.* FROM dc_balance('wallet', 'carl') AS b;
SELECT dc_account_open('wallet', 'carl', NULL, NULL);
SELECT duplicate FROM dc_transfer('wallet', 'carl', 'bank', 1000, 'r3');
SELECT b.* FROM dc_balance('wallet', 'carl') AS b;
SELECT try($$SELECT dc_account_open('wallet', 'carl')$$);
SELECT dc_account_open('wallet', 'carl', -1000, -900);
SELECT try($$SELECT dc_transfer('wallet', 'carl', 'bank', 4, 'r4')$$), try($$SELECT dc_transfer('wallet', 'bank', 'carl', 98, 'r4')$$);
SELECT duplicate FROM dc_transfer('wallet', 'bank', 'carl', 97, 'r4');
SELECT books();
-- ... undone, they are as before
BEGIN;
SELECT dc_account_open('wallet', 'carl', NULL, NULL);
SELECT duplicate FROM dc_transfer('wallet', 'bank', 'carl', 97, 'r5');
SELECT dc_account_open('wallet', 'new');
SELECT duplicate FROM dc_transfer('wallet', 'bank', 'new', 97, 'r6');
SELECT books();
ROLLBACK;
SELECT try($$SELECT dc_transfer('wallet', 'bank', 'carl', 1, 'r5')$$), try($$SELECT dc_transfer('wallet', 'bank', 'new', 1, 'r6')$$);
BEGIN;
SAVEPOINT a;
SELECT dc_account_open('wallet', 'carl', -2000, 0);
ROLLBACK TO a;
SELECT try($$SELECT dc_transfer('wallet', 'bank', 'carl', 1, 'r5')$$);
SELECT duplicate FROM dc_transfer('wallet', 'carl', 'bank', 1, 'r7');
SELECT dc_account_open('wallet', 'carl', -901, -900);
SELECT try($$SELECT dc_transfer('wallet', 'carl', 'bank', 1, 'r5')$$);
SELECT duplicate FROM dc_transfer('wallet', 'bank', 'carl', 1, 'r5');
COMMIT;
SELECT books();
SELECT dc_account_open('wallet', 'carl', NULL, NULL);
SELECT duplicate FROM dc_transfer('wallet', 'bank', 'carl', 900, 'r8');
SELECT dc_account_open('wallet', 'carl');

--
-- Pending transfers
--
SELECT duplicate FROM dc_transfer('wallet', 'bank', 'dora', 100 - (dc_balance('wallet', 'dora')).balance, 'p0');
SELECT dc_account_open('wallet', 'erna', 0, 200);
SELECT transfer_id AS p1, duplicate FROM dc_transfer_pending('wallet', 'dora', 'erna', 40, 'p1', '{"order": 1}') \gset
SELECT state, posted, op_id, memo, expires_at - created_at, ended_at FROM wallet_pending;
SELECT b.* FROM unnest('{dora,erna}'::text[]) AS k, dc_balance('wallet', k) AS b;
SELECT count(*) FROM wallet_entry WHERE transfer_id = :p1;
SELECT books();
-- A duplicate, whatever the time until it expires is by now
SELECT transfer_id = :p1, duplicate FROM dc_transfer_pending('wallet', 'dora', 'erna', 40, 'p1');
SELECT try(s) FROM unnest(ARRAY[
	$$SELECT dc_transfer_pending('wallet', 'dora', 'erna', 41, 'p1')$$,
	$$SELECT dc_transfer_pending('wallet', 'dora', 'erna', 40, 'p1', NULL, '1 hour')$$,
	$$SELECT dc_transfer_pending('wallet', 'dora', 'erna', 40, 'p1', NULL, NULL)$$,
	$$SELECT dc_transfer('wallet', 'dora', 'erna', 40, 'p1')$$,
	-- what is set aside cannot be spent
	$$SELECT dc_transfer('wallet', 'dora', 'bank', 61, 'p2')$$,
	$$SELECT dc_transfer_pending('wallet', 'dora', 'bank', 61, 'p2')$$,
	-- ... nor can its place be taken
	$$SELECT dc_transfer('wallet', 'bank', 'erna', 161, 'p2')$$,
	$$SELECT dc_transfer_pending('wallet', 'bank', 'erna', 161, 'p2')$$,
	$$SELECT dc_transfer_pending('wallet', 'bank', 'zoe', 1, 'p2')$$]) AS s;
-- In part, to the end
SELECT try(format($$SELECT dc_transfer_post('wallet', %s, %s)$$, :p1, a)) FROM unnest('{0,-1,41}'::bigint[]) AS a;
SELECT dc_transfer_post('wallet', :p1, 15);
SELECT dc_transfer_post('wallet', :p1, 15), dc_transfer_void('wallet', :p1);
-- ... once, so another amount is an error, and so is all of it
SELECT try(format($$SELECT dc_transfer_post('wallet', %s, %L)$$, :p1, a)) FROM unnest('{14,40,41,NULL}'::bigint[]) AS a;
SELECT state, posted, ended_at >= created_at FROM wallet_pending;
SELECT transfer_id = :p1, entry_id > transfer_id, key, amount, op_id, memo FROM wallet_entry WHERE transfer_id = :p1 ORDER BY entry_id;
SELECT books();
-- All of it; nothing of it
SELECT transfer_id AS p2, duplicate FROM dc_transfer_pending('wallet', 'dora', 'erna', 85, 'p2', NULL, NULL) \gset
SELECT transfer_id AS p3, duplicate FROM dc_transfer_pending('wallet', 'bank', 'erna', 90, 'p3', NULL, '1 day') \gset
SELECT expires_at IS NULL, state FROM wallet_pending ORDER BY transfer_id;
SELECT books();
SELECT dc_transfer_post('wallet', :p2, NULL);
SELECT dc_transfer_void('wallet', :p3), dc_transfer_void('wallet', :p3), dc_transfer_post('wallet', :p3);
SELECT transfer_id = :p2, duplicate FROM dc_transfer_pending('wallet', 'dora', 'erna', 85, 'p2', NULL, NULL);
SELECT transfer_id = :p3, duplicate FROM dc_transfer_pending('wallet', 'bank', 'erna', 90, 'p3', NULL, '24:00');
SELECT books();
-- In one transaction, and undone
BEGIN;
SELECT transfer_id AS p4 FROM dc_transfer_pending('wallet', 'erna', 'dora', 10, 'p4') \gset
SAVEPOINT a;
SELECT dc_transfer_post('wallet', :p4);
ROLLBACK TO a;
SELECT dc_transfer_void('wallet', :p4);
ROLLBACK TO a;
SELECT dc_transfer_post('wallet', :p4, 4), dc_transfer_post('wallet', :p4, 4);
COMMIT;
SELECT dc_transfer_post('wallet', :p4, 4), dc_transfer_void('wallet', :p4);
BEGIN; SELECT count(*) FROM dc_transfer_pending('wallet', 'erna', 'dora', 10, 'p5'); ROLLBACK;
SELECT duplicate FROM dc_transfer_pending('wallet', 'erna', 'dora', 11, 'p5');
SELECT books();
-- Expired: what it has set aside is found when it is needed
SELECT transfer_id AS p6 FROM dc_transfer_pending('wallet', 'erna', 'bank', (dc_balance('wallet', 'erna')).available, 'p6', NULL, '1 microsecond') \gset
SELECT expires_at - created_at FROM wallet_pending WHERE transfer_id = :p6;
SELECT duplicate FROM dc_transfer('wallet', 'erna', 'bank', 5, 'p7');
SELECT state, posted, ended_at IS NOT NULL FROM wallet_pending WHERE transfer_id = :p6;
SELECT dc_transfer_post('wallet', :p6), dc_transfer_void('wallet', :p6);
-- ... and the place that it has set aside
SELECT transfer_id AS p8 FROM dc_transfer_pending('wallet', 'bank', 'erna', 200 - (dc_balance('wallet', 'erna')).balance, 'p8', NULL, '1 microsecond') \gset
SELECT duplicate FROM dc_transfer('wallet', 'bank', 'erna', 5, 'p9');
SELECT state FROM wallet_pending WHERE transfer_id = :p8;
-- ... or when a session wants to end it
SELECT transfer_id AS p10 FROM dc_transfer_pending('wallet', 'erna', 'bank', 6, 'p10', NULL, '1 microsecond') \gset
SELECT transfer_id AS p11 FROM dc_transfer_pending('wallet', 'erna', 'bank', 6, 'p11', NULL, '1 microsecond') \gset
SELECT dc_transfer_post('wallet', :p10), dc_transfer_void('wallet', :p11), dc_transfer_post('wallet', :p10, 1);
SELECT transfer_id, state, posted FROM wallet_pending WHERE transfer_id IN (:p10, :p11) AND NOT (state = 'expired' AND posted = 0);
SELECT transfer_id = :p10, duplicate FROM dc_transfer_pending('wallet', 'erna', 'bank', 6, 'p10', NULL, '1 microsecond');
SELECT books();
-- Before anything ends it, it is not shown, weighs on no balance, and stands in the way of no bound
SELECT available AS av FROM dc_balance('wallet', 'erna') \gset
SELECT transfer_id AS p17 FROM dc_transfer_pending('wallet', 'erna', 'bank', :av, 'p17', NULL, '1 microsecond') \gset
SELECT pending_out, available = :av AS available FROM dc_balance('wallet', 'erna');
SELECT pending_in FROM dc_balance('wallet', 'bank');
SELECT count(*) FROM dc_transfers_pending('wallet', 'erna') WHERE transfer_id = :p17;
SELECT count(*) FROM dc_transfers_pending('wallet') WHERE transfer_id = :p17;
SELECT state FROM wallet_pending WHERE transfer_id = :p17;
SELECT min_balance AS min, max_balance AS max FROM wallet_account WHERE key = 'erna' \gset
SELECT dc_account_open('wallet', 'erna', :min + 1, :max);
SELECT state FROM wallet_pending WHERE transfer_id = :p17;
SELECT dc_account_open('wallet', 'erna', :min, :max);
SELECT books();
-- Bounds that change while some are open
SELECT transfer_id AS p12 FROM dc_transfer_pending('wallet', 'dora', 'carl', 3, 'p12', NULL, NULL) \gset
SELECT duplicate FROM dc_transfer('wallet', 'bank', 'carl', 20, 'p14');
SELECT transfer_id AS p13 FROM dc_transfer_pending('wallet', 'carl', 'dora', 2, 'p13', NULL, NULL) \gset
SELECT transfer_id AS p15 FROM dc_transfer_pending('wallet', 'carl', 'dora', 4, 'p15', NULL, NULL) \gset
SELECT transfer_id AS p16 FROM dc_transfer_pending('wallet', 'dora', 'carl', 1, 'p16', NULL, NULL) \gset
SELECT k, b.* FROM unnest('{carl,dora}'::text[]) AS k, dc_balance('wallet', k) AS b;
SELECT try($$SELECT dc_account_open('wallet', 'carl', 15)$$), try($$SELECT dc_account_open('wallet', 'carl', 0, 23)$$);
SELECT dc_account_open('wallet', 'carl', 14, 24);
SELECT books();
SELECT dc_account_open('wallet', 'carl', NULL, NULL), dc_account_open('wallet', 'dora', NULL, NULL);
SELECT books();
SELECT dc_transfer_post('wallet', :p12, 2), dc_transfer_void('wallet', :p13);
SELECT books();
SELECT dc_account_open('wallet', 'carl', 0, 100), dc_account_open('wallet', 'dora', -10, 100);
SELECT books();
SELECT dc_transfer_post('wallet', :p15, 3), dc_transfer_void('wallet', :p16);
SELECT books();
SELECT try(s) FROM unnest(ARRAY[
	$$SELECT dc_transfer_pending(NULL, 'bank', 'alice', 1, 'q1')$$,
	$$SELECT dc_transfer_pending('wallet', NULL, 'alice', 1, 'q1')$$,
	$$SELECT dc_transfer_pending('wallet', 'bank', NULL, 1, 'q1')$$,
	$$SELECT dc_transfer_pending('wallet', 'bank', 'alice', NULL, 'q1')$$,
	$$SELECT dc_transfer_pending('wallet', 'bank', 'alice', 1, NULL)$$,
	$$SELECT dc_transfer_pending('wallet', 'bank', 'alice', 0, 'q1')$$,
	$$SELECT dc_transfer_pending('wallet', 'bank', 'bank', 1, 'q1')$$,
	$$SELECT dc_transfer_pending('wallet', 'bank', 'alice', 1, 'q1', NULL, '0')$$,
	$$SELECT dc_transfer_pending('wallet', 'bank', 'alice', 1, 'q1', NULL, '-1 second')$$,
	$$SELECT dc_transfer_pending('wallet', 'bank', 'alice', 1, 'q1', NULL, '2000000000 days')$$,
	$$SELECT dc_transfer_post(NULL, 1)$$,
	$$SELECT dc_transfer_post('wallet', NULL)$$,
	$$SELECT dc_transfer_void(NULL, 1)$$,
	$$SELECT dc_transfer_void('wallet', NULL)$$,
	$$SELECT dc_transfer_post('wallet_entry', 1)$$,
	$$SELECT dc_transfer_void('wallet_entry', 1)$$]) AS s;
-- A transfer that was posted at once is not a pending one
SELECT dc_transfer_post('wallet', 1), dc_transfer_void('wallet', 1), dc_transfer_post('wallet', -5), dc_transfer_void('wallet', 9223372036854775807);

--
-- Balances and statements
--
SELECT * FROM dc_balance('wallet', 'nobody');
SELECT dc_balance_at('wallet', 'nobody', now()), dc_balance_at('wallet', 'alice', '-infinity'), dc_balance_at('wallet', 'alice', 'infinity') = (SELECT balance FROM dc_balance('wallet', 'alice'));
SELECT try(s) FROM unnest(ARRAY[
	$$SELECT dc_balance(NULL, 'alice')$$,
	$$SELECT dc_balance('wallet', NULL)$$,
	$$SELECT dc_balance('wallet_limit', 'alice')$$,
	$$SELECT dc_balance_at(NULL, 'alice', now())$$,
	$$SELECT dc_balance_at('wallet', NULL, now())$$,
	$$SELECT dc_balance_at('wallet', 'alice', NULL)$$,
	$$SELECT dc_account_statement(NULL, 'alice', now(), now())$$,
	$$SELECT dc_account_statement('wallet', NULL, now(), now())$$,
	$$SELECT dc_account_statement('wallet', 'alice', NULL, now())$$,
	$$SELECT dc_account_statement('wallet', 'alice', now(), NULL)$$,
	$$SELECT dc_ledger_check(NULL)$$,
	$$SELECT dc_ledger_check('wallet_limit')$$,
	$$SELECT dc_ledger_check('pg_class')$$]) AS s;
SELECT entry_id, transfer_id, amount, balance, op_id, memo FROM dc_account_statement('wallet', 'bob', '-infinity', 'infinity');
-- From a time on, before another; with the balance that it had
SELECT at AS t3 FROM wallet_entry WHERE op_id = 'b3' AND key = 'bob' \gset
SELECT at AS t4 FROM wallet_entry WHERE op_id = 'm4' AND key = 'bob' LIMIT 1 \gset
SELECT amount, balance, op_id FROM dc_account_statement('wallet', 'bob', :'t3', :'t4');
SELECT amount, balance, op_id FROM dc_account_statement('wallet', 'bob', :'t4', :'t3');
SELECT dc_balance_at('wallet', 'bob', :'t3'), dc_balance_at('wallet', 'bob', :'t3'::timestamptz - interval '1 microsecond');
SELECT op_id, count(*) FROM dc_account_statement('wallet', 'bob', :'t4', :'t4'::timestamptz + interval '1 microsecond') GROUP BY 1;
-- Each balance is that of its time
SELECT count(*) > 5, bool_and(balance = dc_balance_at('wallet', 'alice', at)) FROM dc_account_statement('wallet', 'alice', '-infinity', 'infinity') WHERE op_id NOT LIKE 'm%';
-- In a transaction: its own transfers are in all of them
BEGIN;
SELECT duplicate FROM dc_transfer('wallet', 'bank', 'bob', 11, 'own');
SELECT (SELECT balance FROM dc_balance('wallet', 'bob')), dc_balance_at('wallet', 'bob', 'infinity'), (SELECT balance FROM dc_account_statement('wallet', 'bob', '-infinity', 'infinity') ORDER BY entry_id DESC LIMIT 1);
SELECT * FROM dc_ledger_check('wallet');
ROLLBACK;
BEGIN READ ONLY;
SELECT count(*) FROM (SELECT dc_balance('wallet', 'bob'), dc_balance_at('wallet', 'bob', now()), dc_account_statement('wallet', 'bob', now(), now()), dc_ledger_check('wallet'), dc_op_status('wallet', 'e1')) AS r;
SELECT try(s) FROM unnest(ARRAY[
	$$SELECT dc_transfer('wallet', 'bank', 'bob', 11, 'ro')$$,
	$$SELECT dc_transfer('wallet', 'bank', 'alice', 100, 'e1')$$,
	$$SELECT dc_transfer_many('wallet', '{bank}', '{bob}', '{11}', 'ro')$$,
	$$SELECT dc_transfer_pending('wallet', 'bank', 'bob', 11, 'ro')$$,
	$$SELECT dc_transfer_post('wallet', 1)$$,
	$$SELECT dc_transfer_void('wallet', 1)$$,
	$$SELECT dc_account_open('wallet', 'ro')$$,
	$$SELECT dc_ledger_create('ro')$$]) AS s;
ROLLBACK;

--
-- Numbers at the end of their range
--
SELECT dc_ledger_create('big');
-- One row a key: there it shows when a transfer is written
SELECT dc_alter('big', 'random', 1), dc_alter('big_limit', 'random', 1);
SELECT dc_account_open('big', k, NULL) FROM unnest('{a,b,c}'::text[]) AS k;
BEGIN;
SELECT duplicate FROM dc_transfer('big', 'a', 'b', 9223372036854775807, 'g1');
SELECT dc_apply();
SELECT duplicate FROM dc_transfer('big', 'c', 'b', 1, 'g2');
COMMIT;
BEGIN;
SELECT duplicate FROM dc_transfer('big', 'a', 'b', 9223372036854775807, 'g1');
SELECT dc_apply();
SELECT duplicate FROM dc_transfer('big', 'a', 'c', 2, 'g2');
COMMIT;
-- ... nothing of it is there
SELECT books('big'), (SELECT count(*) FROM big_op), (SELECT count(*) FROM big_entry);
SELECT duplicate FROM dc_transfer('big', 'a', 'b', 9223372036854775807, 'g1');
SELECT books('big');
-- There and back: compaction sets off what came in against what went out
SELECT duplicate FROM dc_transfer('big', 'b', 'a', 9223372036854775807, 'g3');
SELECT count(*) >= 0 FROM (SELECT dc_compact('big')) AS c;
SELECT duplicate FROM dc_transfer('big', 'a', 'b', 9223372036854775807, 'g4');
SELECT books('big');
SELECT dc_ledger_create('huge');
SELECT dc_account_open('huge', k, NULL) FROM unnest('{a,b,c}'::text[]) AS k;
-- The sum of an account's lines
SELECT try($$SELECT dc_transfer_many('huge', '{a,a}', '{b,c}', '{9223372036854775807,1}', 'g5')$$);
SELECT try($$SELECT dc_transfer_many('huge', '{a,b}', '{c,c}', '{9223372036854775807,1}', 'g5')$$);
-- ... in one transaction
BEGIN;
SELECT duplicate FROM dc_transfer('huge', 'a', 'b', 9223372036854775807, 'g6');
SELECT try($$SELECT dc_transfer('huge', 'c', 'b', 1, 'g7')$$);
COMMIT;
SELECT try($$SELECT dc_transfer_many('huge', '{b,c}', '{c,a}', '{9223372036854775807,9223372036854775807}', 'g5')$$);
SELECT books('huge');
-- Bounds far from the balance
SELECT try($$SELECT dc_account_open('huge', 'a', -9223372036854775808)$$), try($$SELECT dc_account_open('huge', 'a', NULL, 1)$$), try($$SELECT dc_account_open('huge', 'a', -9223372036854775807)$$);
SELECT try($$SELECT dc_account_open('huge', 'b', -1)$$), try($$SELECT dc_account_open('huge', 'b', 0, 9223372036854775806)$$);
SELECT dc_account_open('huge', 'd', -2305843009213693952, 2305843009213693951), dc_account_open('huge', 'e', NULL);
SELECT duplicate FROM dc_transfer('huge', 'e', 'd', 2305843009213693951, 'g8');
SELECT try($$SELECT dc_transfer('huge', 'e', 'd', 1, 'g9')$$);
SELECT duplicate FROM dc_transfer('huge', 'd', 'e', 4611686018427387903, 'g9');
SELECT try($$SELECT dc_transfer('huge', 'd', 'e', 1, 'g10')$$);
SELECT books('huge');

--
-- Keys
--
SELECT dc_ledger_create('keys');
SELECT dc_account_open('keys', 'c', NULL);
SELECT try(format($$SELECT dc_account_open('keys', repeat('k', %s))$$, n)) FROM unnest('{1023,1024,1025}'::int[]) AS n;
SELECT duplicate FROM dc_transfer('keys', 'c', repeat('k', 1023), 5, 'k1');
SELECT try($$SELECT dc_transfer('keys', 'c', repeat('k', 1024), 5, 'k2')$$), try($$SELECT dc_transfer('keys', repeat('k', 1024), 'c', 5, 'k2')$$), try($$SELECT dc_transfer_pending('keys', 'c', repeat('k', 1024), 5, 'k2')$$);
SELECT dc_account_open('keys', k, 0, 10) FROM unnest(ARRAY['+', '-', '++', '--', '+-', '-+', '+a', '-a', '', ' ', 'Ä', 'ä', 'a' || chr(776), '世界', U&'\+01F4B0', repeat('Ä', 511), '%', E'\\', '"', '''']) AS k;
SELECT count(*) FROM (SELECT dc_transfer('keys', 'c', key, 7, 'u' || key) FROM keys_account WHERE max_balance = 10) AS t;
SELECT min(b.balance), max(b.balance), min(b.available), max(b.available), count(*) FROM keys_account AS a, dc_balance('keys', a.key) AS b WHERE max_balance = 10;
SELECT count(*) FROM (SELECT try(format('SELECT dc_transfer(''keys'', ''c'', %L, 4, ''v'')', key)) FROM keys_account WHERE max_balance = 10) AS t(e) WHERE e LIKE 'LG002 %';
SELECT count(*) FROM (SELECT try(format('SELECT dc_transfer(''keys'', %L, ''c'', 8, ''v'')', key)) FROM keys_account WHERE max_balance = 10) AS t(e) WHERE e LIKE 'LG001 %';
SELECT duplicate FROM dc_transfer('keys', '+', '-', 3, 'w1');
SELECT duplicate FROM dc_transfer('keys', 'Ä', '++', 3, 'w2');
SELECT try($$SELECT dc_transfer('keys', 'Ä', 'c', 5, 'Ö')$$);
SELECT * FROM dc_ledger_check('keys');
SELECT try($$SELECT dc_transfer('keys', 'c', E'\xC3', 5, 'k2')$$);

--
-- Accounts that open themselves
--
SELECT dc_ledger_create('"Auto Wallet"', true, '30 days');
SELECT l.auto_open, c.op_retention FROM dcounter.ledger AS l JOIN dcounter.counter AS c ON c.counter = l.ledger WHERE l.ledger = '"Auto Wallet"'::regclass;
SELECT count(*) FROM "Auto Wallet_op";
SELECT try($$SELECT dc_transfer('"Auto Wallet"', 'a', 'b', 1, 'e1')$$);
SELECT * FROM "Auto Wallet_account";
SELECT dc_account_open('"Auto Wallet"', 'cash', NULL);
SELECT duplicate FROM dc_transfer('"Auto Wallet"', 'cash', 'a', 10, 'e1');
SELECT duplicate FROM dc_transfer_many('"Auto Wallet"', '{a,a,b}', '{b,c,c}', '{3,3,1}', 'e2');
SELECT duplicate FROM dc_transfer_pending('"Auto Wallet"', 'a', 'd', 1, 'e3', NULL, NULL);
SELECT key, min_balance, max_balance, (dc_balance('"Auto Wallet"', key)).balance FROM "Auto Wallet_account" ORDER BY key;
BEGIN; SELECT duplicate FROM dc_transfer('"Auto Wallet"', 'a', 'e', 1, 'e4'); ROLLBACK;
SELECT count(*) FROM "Auto Wallet_account" WHERE key = 'e';
SELECT duplicate FROM dc_transfer('"Auto Wallet"', 'a', 'e', 1, 'e4');
SELECT dc_account_open('"Auto Wallet"', 'e', -5, 5);
SELECT duplicate FROM dc_transfer('"Auto Wallet"', 'e', 'a', 6, 'e5');
SELECT try($$SELECT dc_transfer('"Auto Wallet"', 'e', repeat('k', 1024), 1, 'e6')$$);
SELECT * FROM dc_ledger_check('"Auto Wallet"');
-- Its ops may expire
SELECT try($$SELECT dc_transfer('"Auto Wallet"', 'cash', 'a', 1, '01890a5d-ac96-774b-bcce-b302099a8057')$$);
SELECT duplicate FROM dc_transfer('wallet', 'bank', 'alice', 1, '01890a5d-ac96-774b-bcce-b302099a8057');
SELECT duplicate FROM dc_transfer('wallet', 'bank', 'alice', 1, '01890a5d-ac96-774b-bcce-b302099a8057');

--
-- Other functions of counters and stocks
--
SELECT f, try('SELECT ' || f) FROM unnest(ARRAY[
	$$dc_incr('wallet', 'alice')$$, $$dc_decr('wallet', 'alice')$$, $$dc_incr_many('wallet', '{alice}')$$,
	$$dc_incr_hashed('wallet', 'alice', 'x')$$, $$dc_incr_returning('wallet', 'alice')$$, $$dc_incr_once('wallet', 'alice', 1, 'e')$$,
	$$dc_incr_once_many('wallet', '{alice}', '{1}', '{e}')$$,
	$$dc_set('wallet', 'alice', 1)$$, $$dc_reset('wallet', 'alice')$$, $$dc_delete('wallet', 'alice')$$,
	$$dc_take('wallet', 'alice')$$, $$dc_hold('wallet', 'alice')$$,
	$$dc_incr('wallet_limit', '-alice')$$, $$dc_set('wallet_limit', '-alice', 1)$$, $$dc_delete('wallet_limit', '-alice')$$,
	$$dc_reset('wallet_limit', '-alice')$$, $$dc_incr_once('wallet_limit', '-alice', 1, 'e')$$,
	$$dc_take('wallet_limit', '-alice')$$, $$dc_take_up_to('wallet_limit', '-alice', 1)$$, $$dc_take_all('wallet_limit', '{-alice}', '{1}')$$,
	$$dc_restock('wallet_limit', '-alice', 1)$$, $$dc_hold('wallet_limit', '-alice')$$]) AS f;
SELECT try($$SELECT dc_alter('wallet', mode => 'buffered')$$) = 'ok', try($$SELECT dc_alter('wallet_limit', mode => 'buffered')$$) = 'ok';
SELECT dc_get('wallet', 'bob'), dc_get('wallet', 'bob') = (SELECT balance FROM dc_balance('wallet', 'bob')), dc_sum('wallet');
SELECT count(*) > 0 FROM (SELECT dc_compact('wallet'), dc_compact('wallet_limit')) AS c;
SELECT key, value FROM wallet WHERE key IN ('alice', 'bob') ORDER BY key;
SELECT * FROM dc_ledger_check('wallet');
SELECT try($$SELECT dc_transfer('wallet', 'alice', 'bank', 1000000, 'z1')$$);
SELECT dc_alter('wallet', 'random', 4), dc_alter('wallet_limit', 'random', 4);
SELECT duplicate FROM dc_transfer('wallet', 'alice', 'bank', 1, 'z1');
SELECT count(*) >= 0 FROM (SELECT dc_compact('wallet'), dc_compact('wallet_limit')) AS c;
SELECT books();

SELECT dc_drop(ledger) FROM dcounter.ledger WHERE ledger IN ('wallet'::regclass, 'big'::regclass, 'huge'::regclass, 'keys'::regclass, '"Auto Wallet"'::regclass);
SELECT relname FROM pg_class WHERE relname ~ '^(wallet|big|huge|keys|Auto)' AND relkind NOT IN ('i', 'I', 't');
DROP FUNCTION try, books;
