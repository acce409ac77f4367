-- Which tables the worker leaves to their owners: those on which code of theirs could run.
-- Each case is undone, so it says what this one thing makes of it.
\set VERBOSITY terse
SET client_min_messages = warning;
CREATE ROLE regress_coder;
CREATE SCHEMA coder AUTHORIZATION regress_coder;
-- what only superusers can make
CREATE OPERATOR CLASS coder.btree_ops FOR TYPE text USING btree AS
	OPERATOR 1 <, OPERATOR 2 <=, OPERATOR 3 =, OPERATOR 4 >=, OPERATOR 5 >, FUNCTION 1 bttextcmp(text, text);
CREATE OPERATOR CLASS coder.hash_ops FOR TYPE text USING hash AS
	OPERATOR 1 =, FUNCTION 1 hashtext(text), FUNCTION 2 hashtextextended(text, bigint);
CREATE ACCESS METHOD regress_coder_heap TYPE TABLE HANDLER heap_tableam_handler;
CREATE ACCESS METHOD regress_coder_gist TYPE INDEX HANDLER gisthandler;
CREATE OPERATOR CLASS coder.own_ops DEFAULT FOR TYPE box USING regress_coder_gist AS OPERATOR 3 &&, FUNCTION 1 gist_box_consistent(internal, box, smallint, oid, internal),
	FUNCTION 2 gist_box_union(internal, internal), FUNCTION 5 gist_box_penalty(internal, internal, internal), FUNCTION 6 gist_box_picksplit(internal, internal), FUNCTION 7 gist_box_same(box, box, internal);
CREATE FOREIGN DATA WRAPPER regress_coder_wrapper;
CREATE SERVER regress_coder_server FOREIGN DATA WRAPPER regress_coder_wrapper;
GRANT USAGE ON FOREIGN SERVER regress_coder_server TO regress_coder;
DO $$ BEGIN EXECUTE format('GRANT CREATE ON DATABASE %I TO regress_coder', current_database()); END $$;

SET ROLE regress_coder;
SET search_path = coder, public;
SELECT dc_create('c', totals => 'compacted'), dc_create('p', partitions => 1), dc_stock_create('s'), dc_ledger_create('l'), dc_ledger_create('m', partition_by => 'month');
SELECT dc_incr_once('c', 'k', 1, 'e');
SELECT dc_budget_create('b'), dc_create('r'), dc_create('n'), dc_create('d');
CREATE INDEX ON r (value DESC, key);
SELECT dc_rank_create('r', build => 'none');
CREATE FUNCTION code() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RETURN NEW; END $$;
CREATE FUNCTION code(text) RETURNS boolean LANGUAGE sql IMMUTABLE AS 'SELECT true';
CREATE DOMAIN own_text AS text;
CREATE TYPE own_enum AS ENUM ('a', 'b');
CREATE TYPE own_row AS (a int);
CREATE FUNCTION code(bigint, bigint) RETURNS boolean LANGUAGE sql IMMUTABLE AS 'SELECT false';
CREATE OPERATOR === (FUNCTION = int8eq, LEFTARG = bigint, RIGHTARG = bigint, NEGATOR = !===);
CREATE OPERATOR !=== (FUNCTION = code, LEFTARG = bigint, RIGHTARG = bigint, NEGATOR = ===);
CREATE OPERATOR === (FUNCTION = texteq, LEFTARG = text, RIGHTARG = text);
CREATE COLLATION own_order (provider = libc, locale = 'C');
CREATE TABLE other (key text COLLATE "C" PRIMARY KEY);
CREATE TABLE cases (n int GENERATED ALWAYS AS IDENTITY, harmless boolean, counter regclass, command text);

INSERT INTO cases (harmless, counter, command) VALUES
	-- triggers
	(false, 'c', 'CREATE TRIGGER t BEFORE INSERT ON c FOR EACH ROW EXECUTE FUNCTION code()'),
	(false, 'c', 'CREATE TRIGGER t AFTER DELETE ON c_shard FOR EACH STATEMENT EXECUTE FUNCTION code()'),
	(false, 'c', 'CREATE TRIGGER t BEFORE TRUNCATE ON c FOR EACH STATEMENT EXECUTE FUNCTION code()'),
	(false, 'c', 'CREATE CONSTRAINT TRIGGER t AFTER UPDATE ON c DEFERRABLE FOR EACH ROW EXECUTE FUNCTION code()'),
	(false, 'c', 'CREATE TRIGGER t BEFORE INSERT ON c FOR EACH ROW WHEN (false) EXECUTE FUNCTION code()'),
	(false, 'c', 'CREATE TRIGGER t BEFORE UPDATE ON c FOR EACH ROW EXECUTE FUNCTION suppress_redundant_updates_trigger()'),
	(false, 'c', 'CREATE TRIGGER t BEFORE DELETE ON c FOR EACH ROW WHEN (code(old.key)) EXECUTE FUNCTION dcounter.on_counter_delete()'),
	(false, 'p', 'CREATE TRIGGER t BEFORE INSERT ON p FOR EACH ROW EXECUTE FUNCTION code()'),
	(false, 'p', 'CREATE TRIGGER t BEFORE INSERT ON p_p0 FOR EACH ROW EXECUTE FUNCTION code()'),
	(false, 'c', 'CREATE TRIGGER t BEFORE INSERT ON c FOR EACH ROW EXECUTE FUNCTION code(); ALTER TABLE c ENABLE REPLICA TRIGGER t'),
	(false, 'c', $$CREATE TRIGGER t BEFORE UPDATE ON c FOR EACH ROW WHEN (pg_sleep(0)::text = 'x') EXECUTE FUNCTION unique_key_recheck()$$),
	(true, 'c', 'CREATE TRIGGER t BEFORE INSERT ON c FOR EACH ROW EXECUTE FUNCTION code(); ALTER TABLE c DISABLE TRIGGER t'),
	(true, 'c', $$CREATE TRIGGER t AFTER INSERT ON c FOR EACH ROW EXECUTE FUNCTION dcounter.outbox_capture('topic')$$),
	-- foreign keys: the other table may be anybody's
	(false, 'c', 'ALTER TABLE c ADD FOREIGN KEY (key) REFERENCES other'),
	(false, 'c', 'CREATE TABLE refers (key text COLLATE "C" REFERENCES c)'),
	-- rules and policies
	(false, 'c', 'CREATE RULE r AS ON UPDATE TO c DO ALSO SELECT pg_sleep(1)'),
	(false, 'c', 'ALTER TABLE c ENABLE ROW LEVEL SECURITY'),
	(false, 'c', 'ALTER TABLE c FORCE ROW LEVEL SECURITY'),
	-- columns
	(false, 'c', 'ALTER TABLE c ADD x own_text'),
	(false, 'c', 'ALTER TABLE c ADD x own_enum'),
	(false, 'c', 'ALTER TABLE c ADD x own_row'),
	(false, 'c', 'ALTER TABLE c ADD x own_row[]'),
	(false, 'c', 'ALTER TABLE c ADD x information_schema.sql_identifier'),
	(false, 'c', 'ALTER TABLE c ADD x text COLLATE own_order'),
	(true, 'c', 'ALTER TABLE c ADD x text COLLATE "C", ADD y jsonb, ADD z int[], ADD a int4range'),
	(true, 'c', 'ALTER TABLE c ADD x dc_hll, ADD y dc_topk'),
	(true, 'c', 'ALTER TABLE c ADD x own_text; ALTER TABLE c DROP x'),
	-- defaults and generated columns
	(false, 'c', $$ALTER TABLE c ADD x boolean DEFAULT code('x')$$),
	(false, 'c', $$ALTER TABLE c_shard ADD x boolean; ALTER TABLE c_shard ALTER x SET DEFAULT code('x')$$),
	(false, 'c', 'ALTER TABLE c ADD x text; ALTER TABLE c ALTER x SET DEFAULT pg_sleep(1)::text'),
	(false, 'c', $$ALTER TABLE c ADD x text DEFAULT current_setting('DateStyle')$$),
	(false, 'c', $$ALTER TABLE c ADD x text; ALTER TABLE c ALTER x SET DEFAULT query_to_xml('SELECT 1', true, true, '')::text$$),
	(false, 'c', 'ALTER TABLE c ADD x boolean GENERATED ALWAYS AS (code(key)) STORED'),
	(false, 'c', $$ALTER TABLE c ADD x text DEFAULT 'x' || 'y'$$),
	(false, 'c', 'ALTER TABLE c ADD x text DEFAULT current_user'),
	(true, 'c', $$ALTER TABLE c ADD x text DEFAULT 'x', ADD y timestamptz DEFAULT now(), ADD z date DEFAULT current_date$$),
	(true, 'c', $$ALTER TABLE c ADD x varchar(20) DEFAULT 'x', ADD y char(1) DEFAULT 'N', ADD z numeric DEFAULT 0, ADD v varchar CHECK (v = 'open' OR v IS NULL)$$),
	(true, 'c', 'ALTER TABLE c ADD x serial, ADD y bigint GENERATED ALWAYS AS IDENTITY, ADD z uuid DEFAULT gen_random_uuid()'),
	(true, 'c', 'ALTER TABLE c ADD x bigint GENERATED ALWAYS AS (coalesce(inc, 0) * 2) STORED'),
	-- constraints
	(false, 'c', 'ALTER TABLE c ADD CHECK (code(key))'),
	(false, 'c', 'ALTER TABLE c_shard ADD CHECK (code(key)) NOT VALID'),
	(false, 'c', 'ALTER TABLE c ADD CHECK (pg_sleep(1) IS NOT NULL) NOT VALID'),
	(false, 'c', 'ALTER TABLE c ADD CHECK (NOT inc === 1000::bigint)'),
	(false, 'c', $$ALTER TABLE c ADD x text CHECK (NOT x === 'a')$$),
	(false, 'c', 'ALTER TABLE c ADD CHECK (key::own_text IS NOT NULL)'),
	(false, 'c', 'ALTER TABLE c ADD CHECK (ROW(inc)::own_row IS NOT NULL)'),
	(false, 'c', $$ALTER TABLE c ADD CHECK (inc > 0 OR 'a'::own_enum < 'b')$$),
	(false, 'c', $$ALTER TABLE c ADD CHECK (pg_try_advisory_lock(1))$$),
	(false, 'p', $$ALTER TABLE p ADD CHECK (satisfies_hash_partition('p'::regclass::oid, 1, 0, key))$$),
	(false, 'c', 'ALTER TABLE c ADD EXCLUDE USING hash (key WITH =)'),
	-- the server's functions of strings, some of which take long, or much memory, and cannot be cancelled
	(false, 'c', $$ALTER TABLE c ADD CHECK ((key || '1')::numeric * 7 > 0) NOT VALID$$),
	(false, 'c', $$ALTER TABLE c ADD CHECK (length(repeat(key, 1000000)) > 0)$$),
	(false, 'c', $$ALTER TABLE c ADD CHECK (replace(key, 'a', key) <> '')$$),
	(false, 'c', $$ALTER TABLE c ADD CHECK (xpath_exists(key, '<a/>'::xml))$$),
	(false, 'c', $$ALTER TABLE c ADD CHECK (key !~ '^(a+)(a+)(a+)(a+)(a+)(a+)\1\2\3\4\5\6$')$$),
	(false, 'c', $$ALTER TABLE c ADD CHECK (key ~* 'a')$$),
	(false, 'c', $$ALTER TABLE c ADD CHECK (substring(key from 'a') = 'a')$$),
	(false, 'c', $$ALTER TABLE c ADD CHECK (key SIMILAR TO 'a')$$),
	(false, 'c', $$ALTER TABLE c ADD CHECK (key LIKE 'a%')$$),
	(false, 'c', $$ALTER TABLE c ADD CHECK (strpos(key, 'x') = 0)$$),
	(false, 'c', 'ALTER TABLE c ADD CHECK (btrim(key) = key)'),
	(false, 'c', $$ALTER TABLE c ADD CHECK (updated_at AT TIME ZONE key > '2000-01-01')$$),
	(false, 'c', $$CREATE INDEX i ON c (split_part(key, ':', 1))$$),
	(false, 'c', $$CREATE INDEX i ON c USING gin (to_tsvector('simple', key))$$),
	(false, 'c', $$ALTER TABLE c ADD x text, ADD CHECK (x LIKE '%a')$$),
	(false, 'c', 'ALTER TABLE c ADD x text, ADD y text, ADD CHECK (x = y)'),
	(false, 'c', 'ALTER TABLE c ADD x numeric, ADD CHECK (x > 0)'),
	(false, 'c', $$ALTER TABLE c ADD x text; ALTER TABLE c ALTER x SET DEFAULT repeat('a', 1000000000)$$),
	(false, 'c', $$DO 'BEGIN EXECUTE format(''ALTER TABLE c ADD CHECK (key <> %L)'', repeat(''long'', 1000)); END'$$),
	(true, 'c', $$ALTER TABLE c ADD x text CHECK (x IS NULL OR octet_length(x) < 10 AND x <> 'a' AND x IN ('b', 'c'))$$),
	(false, 'c', $$ALTER TABLE c ADD CHECK (inc < 1e6)$$),
	(false, 'c', $$ALTER TABLE c ADD CHECK (inc::text <> '1')$$),
	(false, 'c', 'ALTER TABLE c ADD CHECK (updated_at::text IS NOT NULL)'),
	(true, 'c', 'ALTER TABLE c ADD CHECK (inc::text IS NOT NULL)'),
	(false, 'c', $$ALTER TABLE c ADD CHECK (lower(key) <> 'x')$$),
	(false, 'c', $$ALTER TABLE c ADD CHECK (length(key) < 10)$$),
	(false, 'c', $$ALTER TABLE c ADD CHECK (key < 'x')$$),
	(false, 'c', $$ALTER TABLE c ADD CHECK (nullif(key, 'x') IS NULL)$$),
	(true, 'c', $$ALTER TABLE c ADD CHECK (inc < 1000000 AND inc * interval '1 s' < '9 years' AND octet_length(key) < 10)$$),
	(true, 'c', $$ALTER TABLE c ADD CHECK (inc >= 0 AND key <> 'a' AND inc IN (1, 2) AND dec BETWEEN 0 AND 5)$$),
	(true, 'c', $$ALTER TABLE c ADD CHECK (CASE WHEN inc > dec THEN greatest(inc, 1) ELSE nullif(dec, 0) END IS DISTINCT FROM 3 OR NOT (inc > 0) IS TRUE)$$),
	(true, 'c', 'ALTER TABLE c ADD UNIQUE (key, inc) DEFERRABLE'),
	(true, 'c', 'ALTER TABLE c_shard ALTER inc SET NOT NULL'),
	-- indexes
	(false, 'c', 'CREATE INDEX i ON c (code(key))'),
	(false, 'c', 'CREATE INDEX i ON c_shard (key) WHERE code(key)'),
	(false, 'c', $$CREATE INDEX i ON c (key) WHERE code('constant')$$),
	(false, 'c', 'CREATE INDEX i ON c (key) INCLUDE (inc) WHERE inc > 0 AND code(key)'),
	(false, 'c', 'CREATE INDEX i ON c (key coder.btree_ops)'),
	(false, 'c', 'CREATE INDEX i ON c (key COLLATE own_order)'),
	(false, 'c', 'ALTER TABLE c ADD b box; CREATE INDEX i ON c USING regress_coder_gist (b)'),
	(false, 'c', 'ALTER TABLE c ADD b box; CREATE INDEX i ON c USING gist (b)'),
	(false, 'c', 'CREATE INDEX i ON c USING hash (key)'),
	(false, 'c', 'CREATE INDEX i ON c USING brin (updated_at)'),
	(false, 'p', 'CREATE INDEX i ON p_shard_p0 (code(key))'),
	(false, 'c', 'CREATE INDEX i ON c ((key::own_text))'),
	(false, 'c', 'ALTER TABLE c ADD x int[]; CREATE INDEX i ON c USING gin (x)'),
	(true, 'c', 'ALTER TABLE c ADD x text; CREATE INDEX i ON c (x)'),
	(true, 'c', 'CREATE INDEX i ON c (value DESC)'),
	(false, 'c', 'CREATE INDEX i ON c (lower(key))'),
	(true, 'c', 'CREATE INDEX i ON c ((inc - dec), (inc::text)) WHERE inc > 0'),
	(true, 'c', 'CREATE INDEX i ON c (key text_pattern_ops) INCLUDE (inc, value)'),
	(true, 'c', $$CREATE INDEX i ON c (inc) WHERE key = ANY ('{a,b}')$$),
	-- extended statistics
	(false, 'c', $$CREATE STATISTICS x ON (code('constant')), key FROM c$$),
	(true, 'c', 'CREATE STATISTICS x ON inc, dec FROM c; CREATE STATISTICS y ON (inc % 2), key FROM c'),
	-- how a table is kept
	(false, 'c', 'ALTER TABLE c SET ACCESS METHOD regress_coder_heap'),
	(false, 'p', 'ALTER TABLE p DROP CONSTRAINT p_pkey; ALTER TABLE p DETACH PARTITION p_p0; CREATE FOREIGN TABLE f PARTITION OF p FOR VALUES WITH (MODULUS 1, REMAINDER 0) SERVER regress_coder_server'),
	(false, 'p', 'ALTER TABLE p_shard DETACH PARTITION p_shard_p0; CREATE TABLE q PARTITION OF p_shard FOR VALUES WITH (MODULUS 1, REMAINDER 0) PARTITION BY HASH (key coder.hash_ops)'),
	(true, 'p', 'ALTER TABLE p_shard DETACH PARTITION p_shard_p0; CREATE TABLE q PARTITION OF p_shard FOR VALUES WITH (MODULUS 1, REMAINDER 0) PARTITION BY LIST (shard)'),
	(true, 'p', 'ALTER TABLE p DETACH PARTITION p_p0; ALTER TABLE p ATTACH PARTITION p_p0 FOR VALUES WITH (MODULUS 1, REMAINDER 0)'),
	(true, 'c', 'ALTER TABLE c SET UNLOGGED'),
	-- all tables of a stock or a ledger count
	(false, 's', 'CREATE TRIGGER t BEFORE INSERT ON s_hold FOR EACH ROW EXECUTE FUNCTION code()'),
	(false, 'l', 'CREATE TRIGGER t BEFORE INSERT ON l_account FOR EACH ROW EXECUTE FUNCTION code()'),
	(false, 'l', 'CREATE TRIGGER t BEFORE INSERT ON l_pending FOR EACH ROW EXECUTE FUNCTION code()'),
	(false, 'l', 'CREATE TRIGGER t BEFORE INSERT ON l_entry FOR EACH ROW EXECUTE FUNCTION code()'),
	(false, 'l_limit', 'CREATE TRIGGER t BEFORE INSERT ON l_entry FOR EACH ROW EXECUTE FUNCTION code()'),
	(false, 'l', 'CREATE TRIGGER t BEFORE INSERT ON l_limit_shard FOR EACH ROW EXECUTE FUNCTION code()'),
	(false, 'l', 'CREATE TRIGGER t BEFORE INSERT ON l_op_0 FOR EACH ROW EXECUTE FUNCTION code()'),
	(false, 'm', 'CREATE TRIGGER t BEFORE INSERT ON m_entry FOR EACH ROW EXECUTE FUNCTION code()'),
	(false, 'c', 'CREATE TRIGGER t BEFORE INSERT ON c_op_0 FOR EACH ROW EXECUTE FUNCTION code()'),
	(false, 'l', 'CREATE SCHEMA child CREATE TABLE t (CHECK (coder.code(key))) INHERITS (coder.l_account)'),
	(true, 'c', 'CREATE TRIGGER t BEFORE INSERT ON l_entry FOR EACH ROW EXECUTE FUNCTION code()'),
	-- bindings: each row that is written is counted
	(false, 'b_pool', $$SELECT dc_bind('n', 'b_reservation', 'reservation_id', filter => 'ln(repeat(''9'', 16000)::numeric) > uuid_hash(reservation_id)')$$),
	(false, 'b_pool', $$SELECT dc_bind('n', 'b', 'grant_id', value => 'length(repeat(''9'', 16000))')$$),
	(false, 'l', $$SELECT dc_bind('n', 'l_pending', 'ln(repeat(''9'', 16000)::numeric + amount)')$$),
	(false, 'm', $$SELECT dc_bind('n', 'm_entry', 'amount % repeat(''9'', 16000)::numeric')$$),
	(true, 'b_pool', $$SELECT dc_bind('n', 'b_reservation', 'reservation_id')$$),
	(true, 'l', $$SELECT dc_bind('n', 'l_pending', 'transfer_id, amount', value => 'amount, 1 AS n')$$),
	-- the text of a column may be long, but for some types; a trigger that names the column is another reason
	(false, 'l', $$SELECT dc_bind('n', 'l_pending', 'memo'); ALTER TABLE l_pending DISABLE TRIGGER dcounter_source_update$$),
	(false, 'l', $$ALTER TABLE l_pending ADD x tsvector; SELECT dc_bind('n', 'l_pending', 'transfer_id', distinct_of => 'x'); ALTER TABLE l_pending DISABLE TRIGGER dcounter_source_update$$),
	(true, 'b_pool', $$SELECT dc_bind('n', 'b_reservation', 'state', distinct_of => 'state'); ALTER TABLE b_reservation DISABLE TRIGGER dcounter_source_update$$),
	(true, 'l', $$ALTER TABLE l_pending ADD x varchar, ADD y numeric, ADD z date; SELECT dc_bind('n', 'l_pending', 'x, amount, y'), dc_bind('d', 'l_pending', 'y', distinct_of => 'z'); ALTER TABLE l_pending DISABLE TRIGGER dcounter_source_update$$),
	-- tables of the counters that it is counted in
	(false, 'b_pool', $$SELECT dc_bind('n', 'b_reservation', 'reservation_id'); CREATE TRIGGER t BEFORE INSERT ON n FOR EACH ROW EXECUTE FUNCTION code()$$),
	(false, 'l', $$SELECT dc_bind('n', 'l_pending', 'transfer_id'); ALTER TABLE n_shard ADD CHECK (code(key))$$),
	(false, 'b_pool', $$SELECT dc_bind('n', 'b_reservation', 'reservation_id', distinct_of => 'expires_at IS NULL'); ALTER TABLE n_ref ADD CHECK (code(key))$$),
	(false, 'r', 'ALTER TABLE r_rank ADD CHECK (code(key))'),
	(false, 'r', 'ALTER TABLE r_rank_shard ADD CHECK (code(key))'),
	(false, 'l', $$SELECT dc_bind('r', 'l_pending', 'transfer_id'); ALTER TABLE r_rank_shard ADD CHECK (code(key))$$),
	(true, 'r', 'ALTER TABLE n ADD CHECK (code(key))');

CREATE FUNCTION look(counter regclass, command text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	found text;
BEGIN
	EXECUTE command;
	SELECT coalesce(maintained_by || ': ' || left_because, maintained_by) INTO found FROM dc_tables WHERE dc_tables.counter = look.counter;
	RAISE EXCEPTION USING ERRCODE = 'ZZ001', MESSAGE = coalesce(found, 'nothing');
EXCEPTION
	WHEN SQLSTATE 'ZZ001' THEN RETURN SQLERRM;
	WHEN OTHERS THEN RETURN 'failed: ' || SQLERRM;
END $$;

-- as they are made, all are harmless
SELECT counter, name, kind, mode, owner, maintained_by, left_because FROM dc_tables WHERE owner = 'regress_coder'::regrole ORDER BY counter::text;
SELECT count(*), count(*) FILTER (WHERE harmless) FROM cases;
-- what is not harmless, and what says so
SELECT command, look(counter, command) FROM cases WHERE NOT harmless ORDER BY n;
SELECT command, look(counter, command) FROM cases WHERE harmless AND look(counter, command) IS DISTINCT FROM 'worker' ORDER BY n;

-- so many bindings that reading them would take long
BEGIN;
SELECT dc_bind('n', 'l_pending', 'transfer_id', build => 'none');
SELECT maintained_by, left_because FROM dc_tables WHERE counter = 'l'::regclass;
RESET ROLE;
INSERT INTO dcounter.source (counter, source, key, value, build, replicated, on_detach, on_drift)
	SELECT s.counter::bigint + 1000000 + i, s.source, s.key, s.value, s.build, s.replicated, s.on_detach, s.on_drift FROM dcounter.source AS s, generate_series(1, 100) AS i WHERE s.counter = 'coder.n'::regclass;
SELECT maintained_by, left_because FROM dc_tables WHERE counter = 'coder.l'::regclass;
ROLLBACK;

-- Tables of counters, and their partitions, count no rows of others
SELECT dc_bind('n', 'p_p0', 'key');
SELECT dc_bind('n', 'p_shard_p0', 'key');
SELECT dc_bind('n', 'c_shard', 'key');
SELECT dc_bind('n', 's_hold', 'key');

-- It is left to its owner, who maintains it
CREATE TRIGGER t BEFORE INSERT OR UPDATE ON c FOR EACH ROW EXECUTE FUNCTION code();
SELECT maintained_by, left_because FROM dc_tables WHERE counter = 'c'::regclass;
SELECT dc_incr('c', 'a', 2);
CALL dc_maintain();
SELECT key, inc FROM c ORDER BY key;
-- Statistics: owners run their own code, others do not
SELECT shard_rows IS NOT NULL AS shown FROM dc_stat_shards WHERE counter = 'c'::regclass;
RESET ROLE;
SELECT shard_rows IS NOT NULL AS shown FROM dc_stat_shards WHERE counter = 'coder.c'::regclass;
SELECT shard_rows IS NOT NULL AS shown FROM dc_stat_shards WHERE counter = 'coder.p'::regclass;
-- a superuser may do anything
ALTER ROLE regress_coder SUPERUSER;
SELECT maintained_by, left_because FROM dc_tables WHERE counter = 'coder.c'::regclass;
SELECT shard_rows IS NOT NULL AS shown FROM dc_stat_shards WHERE counter = 'coder.c'::regclass;
ALTER ROLE regress_coder NOSUPERUSER;
SELECT maintained_by, left_because FROM dc_tables WHERE counter = 'coder.c'::regclass;
CREATE ROLE regress_coder_boss SUPERUSER;
ALTER TABLE coder.c OWNER TO regress_coder_boss;
SELECT maintained_by, left_because FROM dc_tables WHERE counter = 'coder.c'::regclass;
ALTER TABLE coder.c OWNER TO regress_coder;
-- as soon as that code is gone, the worker maintains it again
DROP TRIGGER t ON coder.c;
SELECT maintained_by, left_because FROM dc_tables WHERE counter = 'coder.c'::regclass;

DROP SCHEMA coder CASCADE;
DROP ACCESS METHOD regress_coder_heap;
DROP ACCESS METHOD regress_coder_gist CASCADE;
DROP FOREIGN DATA WRAPPER regress_coder_wrapper CASCADE;
DO $$ BEGIN EXECUTE format('REVOKE CREATE ON DATABASE %I FROM regress_coder', current_database()); END $$;
DROP ROLE regress_coder, regress_coder_boss;
