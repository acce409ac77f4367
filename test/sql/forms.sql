-- In which forms functions can be called: keys of which types, arrays of them, if_not_exists
\set VERBOSITY default
\set SHOW_CONTEXT never
\pset format unaligned
\pset tuples_only on
CREATE SCHEMA forms;
SET search_path = forms, public;
SELECT dc_create('t');

-- A key: texts, integers and uuids are read as their text
CREATE DOMAIN short AS varchar(10);
CREATE DOMAIN small AS int CHECK (VALUE < 1000);
CREATE DOMAIN smaller AS small;
CREATE TABLE typed (c char(5), n name, v varchar, t text, d short, q "char");
INSERT INTO typed VALUES ('x', 'x', 'x', 'x', 'x', 'x');
SELECT dc_incr('t', c), dc_incr('t', n), dc_incr('t', v), dc_incr('t', t), dc_incr('t', d), dc_incr('t', q), dc_incr('t', 'x'), dc_incr('t', E'x'::text COLLATE "C") FROM typed;
SELECT dc_incr('t', 7), dc_incr('t', 7::smallint), dc_incr('t', 7::bigint), dc_incr('t', 7::oid), dc_incr('t', 7::smaller), dc_incr('t', '7'), dc_incr('t', 7::regtype);
SELECT dc_incr('t', -9223372036854775808), dc_incr('t', (-32768)::smallint), dc_incr('t', 4294967295::oid), dc_incr('t', 'C0FFEE00-0000-4000-8000-00000000000A'::uuid);
SELECT key, dc_get('t', key) FROM dc_get_many('t', ARRAY['x', '7', '-9223372036854775808', '-32768', '4294967295', 'c0ffee00-0000-4000-8000-00000000000a']);

-- A value without a type is a text, so nothing is ambiguous
PREPARE one AS SELECT dc_incr($1, $2, $3);
PREPARE two AS SELECT dc_get($1, $2, max_staleness => $3);
PREPARE three AS SELECT dc_incr_many($1, $2, $3);
PREPARE four AS SELECT * FROM dc_get_many($1, $2);
PREPARE five AS SELECT * FROM dc_transfer($1, $2, $3, $4, $5);
PREPARE six AS SELECT dc_take_all($1, $2, $3), dc_incr_once_many($1, $2, $3, $4);
PREPARE seven AS SELECT * FROM dc_holds($1, $2);
SELECT name, parameter_types FROM pg_prepared_statements ORDER BY prepare_time;
EXECUTE one ('t', 'a', 5);
EXECUTE three ('t', '{a,b}', '{1,2}');
EXECUTE four ('t', '{a,b}');
SELECT dc_incr('t', NULL);
SELECT dc_incr_many('t', NULL);
SELECT dc_incr_many('t', '{a,NULL}');

-- Other types say what to do
SELECT dc_incr('t', 1.5);
SELECT dc_get('t', true);
SELECT dc_delete('t', '{"a": 1}'::json);
SELECT dc_set('t', ARRAY['a'], 1);
SELECT dc_incr_many('t', ARRAY[1.5]);
SELECT * FROM dc_get_many('t', ARRAY[now()]);
SELECT dc_incr('t', typed) FROM typed;
-- Amounts are bigint to PostgreSQL's own rules
\set VERBOSITY sqlstate
SELECT dc_incr('t', 'a', 1.5);
\set VERBOSITY default

-- Arrays of ids, as drivers send them
PREPARE i4 (int4[]) AS SELECT dc_incr_many('t', $1);
PREPARE i8 (int8[]) AS SELECT dc_incr_many('t', $1, '{10,20}');
PREPARE u (uuid[]) AS SELECT dc_incr_many('t', $1);
EXECUTE i4 ('{1,2}');
EXECUTE i8 ('{1,2}');
EXECUTE u ('{c0ffee00-0000-4000-8000-00000000000a}');
SELECT dc_incr_many('t', ARRAY[1, 2]), dc_incr_many('t', ARRAY[1, 2]::smaller[], ARRAY[100, 200]);
SELECT pg_typeof(key), key + 1 AS next, value FROM dc_get_many('t', ARRAY[2, 1, 2]);
SELECT pg_typeof(key), key, value FROM dc_get_many('t', ARRAY[1]::bigint[]);
SELECT pg_typeof(key), key, value FROM dc_get_many('t', ARRAY['C0FFEE00-0000-4000-8000-00000000000A']::uuid[]);
SELECT pg_typeof(key), key, value FROM dc_get_many('t', ARRAY['1 ', '2']::char(3)[]);
SELECT dc_incr('t', (('1' || repeat(' ', 3000))::char(3001))) IS NULL AS counted, dc_get('t', '1'::char(10000000)), dc_get('t', repeat(' ', 2000)::char(2000));
SELECT dc_get('t', repeat('1', 1025)::char(1030));
SELECT dc_get('t', repeat(' ', 1073741820 / 64)::bpchar);
SELECT pg_typeof(key), key, value FROM dc_get_many('t', ARRAY['1']::varchar[]);
SELECT pg_typeof(key), key, value FROM dc_get_many('t', '{1}');
SELECT pg_typeof(key), key, value FROM dc_get_many('t', ARRAY[[1, 2], [3, 4]]);
SELECT * FROM dc_get_many('t', ARRAY[]::int[]);
SELECT dc_incr_many('t', ARRAY[1, 2], ARRAY[1]);
SELECT dc_incr_many('t', ARRAY[1, NULL]);
SELECT dc_incr_once_many('t', ARRAY[1, 2], ARRAY[1, 1], ARRAY['op1', 'op2']), dc_incr_once_many('t', '{1,3}', '{1,1}', '{op1,op3}');
SELECT dc_incr_once('t', 4, 1, 'op4'), dc_incr_once('t', '4', 1, 'op4');

-- Stocks
SELECT dc_stock_create('s');
SELECT dc_restock('s', 1, 10), dc_restock('s', 'c0ffee00-0000-4000-8000-00000000000a'::uuid, 10);
SELECT dc_take_all('s', ARRAY[1, 1], ARRAY[2, 3]), dc_take_all('s', ARRAY['c0ffee00-0000-4000-8000-00000000000a']::uuid[], ARRAY[11]);
SELECT dc_hold('s', 1, 1, hold_id => 'c0ffee00-0000-4000-8000-000000000001') IS NOT NULL AS held;
SELECT key, qty FROM dc_holds('s', 1) UNION ALL SELECT key, qty FROM dc_holds('s') UNION ALL SELECT key, qty FROM dc_holds('s', NULL) UNION ALL SELECT key, qty FROM dc_holds('s', '2');
SELECT * FROM dc_holds('t');
SELECT dc_take('t', 1);

-- Ledgers
SELECT dc_ledger_create('l');
SELECT dc_account_open('l', 1, NULL), dc_account_open('l', 2::bigint), dc_account_open('l', 'c0ffee00-0000-4000-8000-00000000000a'::uuid);
SELECT * FROM dc_transfer('l', 1, 2, 100, 'o1');
SELECT * FROM dc_transfer('l', 1::bigint, '2', 100, 'o1');
SELECT * FROM dc_transfer('l', '1', '2', 100, 'o1');
SELECT * FROM dc_transfer('l', 2::text, 'c0ffee00-0000-4000-8000-00000000000a', 10, 'o2');
SELECT * FROM dc_transfer_many('l', ARRAY[1, 1], ARRAY[2, 2], ARRAY[1, 2], 'o3');
SELECT * FROM dc_transfer('l', 1, 1.5, 100, 'o4');
SELECT * FROM dc_transfer_pending('l', 2, 1, 5, 'p1', '{"for": "rent"}');
SELECT * FROM dc_transfer_pending('l', '2', 'c0ffee00-0000-4000-8000-00000000000a', 6, 'p2', ttl => NULL);
SELECT * FROM dc_balance('l', 2);
SELECT dc_balance_at('l', 2, 'infinity'), count(*) FROM dc_account_statement('l', 2, '-infinity', 'infinity');

-- Pending transfers
SELECT transfer_id, from_key, to_key, amount, op_id, memo, expires_at - now() > '9 min' AS later, age < '5 min' AS young FROM dc_transfers_pending('l');
SELECT op_id FROM dc_transfers_pending('l', 1);
SELECT op_id FROM dc_transfers_pending('l', '2');
SELECT op_id FROM dc_transfers_pending('l', 'c0ffee00-0000-4000-8000-00000000000a'::uuid);
SELECT op_id FROM dc_transfers_pending('l', NULL);
BEGIN;
SELECT dc_transfer_post('l', transfer_id) FROM dc_transfers_pending('l', 1);
SELECT op_id FROM dc_transfers_pending('l');
ROLLBACK;
SELECT dc_transfer_void('l', transfer_id) FROM dc_transfers_pending('l');
SELECT count(*) FROM dc_transfers_pending('l');
SELECT * FROM dc_transfers_pending('t');
CREATE ROLE regress_forms;
GRANT USAGE ON SCHEMA forms TO regress_forms;
SET ROLE regress_forms;
SELECT * FROM dc_transfers_pending('l');
RESET ROLE;
GRANT SELECT ON l TO regress_forms;
SET ROLE regress_forms;
SELECT * FROM dc_transfers_pending('l');
RESET ROLE;

-- if_not_exists: what exists is returned if it is of that kind
SELECT dc_create('t', if_not_exists => true), dc_stock_create('s', if_not_exists => true), dc_ledger_create('l', if_not_exists => true);
SELECT dc_create('new', if_not_exists => true), dc_stock_create('forms.new_stock', if_not_exists => true), dc_ledger_create('new_ledger', if_not_exists => true);
SELECT dc_create('t');
SELECT dc_create('t', if_not_exists => NULL);
SELECT dc_create('s', if_not_exists => true);
SELECT dc_create('t_shard', if_not_exists => true);
SELECT dc_create('typed', if_not_exists => true);
SELECT dc_stock_create('t', if_not_exists => true);
SELECT dc_stock_create('l_limit', if_not_exists => true);
SELECT dc_ledger_create('t', if_not_exists => true);
CREATE ROLE regress_dc_forms;
SET ROLE regress_dc_forms;
SELECT dc_create('forms.t', if_not_exists => true);
RESET ROLE;
DROP ROLE regress_dc_forms;
SELECT dc_consumer_create('forms'), dc_consumer_create('forms', if_not_exists => true), dc_consumer_create('forms2', if_not_exists => true);
SELECT dc_consumer_create('forms');
SELECT dc_consumer_drop('forms'), dc_consumer_drop('forms2');
CREATE TABLE source (id int PRIMARY KEY);
SELECT dc_outbox_attach('source', if_not_exists => true);
SELECT dc_outbox_attach('source', if_not_exists => true);
SELECT dc_outbox_attach('source');
DROP TRIGGER dcounter_outbox_insert ON source;
SELECT dc_outbox_attach('source', if_not_exists => true);
SELECT dc_outbox_detach('source');

-- Names are written as in SQL
SELECT dc_create('Mixed Name');
SELECT dc_create('"Mixed Name"'), dc_stock_create('Folded');
SELECT dc_incr('"Mixed Name"', 1);
SELECT dc_ledger_create('a-b');
SELECT dc_stock_create('x.');

-- What is no counter table says so
CREATE VIEW v AS SELECT 1 AS key;
CREATE SEQUENCE seq;
SELECT dc_incr('v', 1);
SELECT dc_get('seq', 1);
SELECT dc_get('t_pkey', 1);
SELECT dc_incr('typed', 1);
SELECT dc_transfer('t', 1, 2, 1, 'x');

-- What was created has comments, and the view has all of it
SELECT relname, obj_description(oid, 'pg_class') FROM pg_class WHERE relnamespace = 'forms'::regnamespace AND relkind IN ('r', 'p') AND relname ~ '^[tsl](_|$)' ORDER BY relname COLLATE "C";
SELECT dc_create('parts', partitions => 2);
SELECT relname, obj_description(oid, 'pg_class') FROM pg_class WHERE relnamespace = 'forms'::regnamespace AND relname ~ '^parts' AND relkind IN ('r', 'p') ORDER BY relname COLLATE "C";
SELECT dc_alter('t', max_shards => 7, events => '2 s', notify => 'news', op_retention => '1 day');
SELECT counter, name, kind, mode, owner = current_user::regrole AS mine, settings FROM dc_tables WHERE name ~ '^forms\.' ORDER BY name COLLATE "C";
SELECT * FROM dcounter.maintainer(NULL);
SELECT * FROM dcounter.maintainer('typed');

\set VERBOSITY terse
DROP SCHEMA forms CASCADE;
DROP ROLE regress_forms;
