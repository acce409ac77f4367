-- Counter tables and stocks: creating, altering, dropping, adopting, rights. The tables are those that dcounter makes, column for column.

CREATE FUNCTION dcounter_lite.on_counter_truncate() RETURNS trigger
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE COST 50 SET search_path = pg_catalog, pg_temp AS $$
DECLARE
	c dcounter_lite.counter;
	shard_part regclass;
BEGIN
	SELECT * INTO c FROM dcounter_lite.counter AS r WHERE r.counter = TG_RELID;
	-- of a partition, the partition of shard rows that has the same keys
	SELECT s.oid::regclass INTO shard_part FROM pg_inherits AS i JOIN pg_class AS p ON p.oid = i.inhrelid JOIN dcounter_lite.counter AS r ON r.counter = i.inhparent
		JOIN pg_inherits AS j ON j.inhparent = r.shards JOIN pg_class AS s ON s.oid = j.inhrelid AND pg_get_expr(s.relpartbound, s.oid) = pg_get_expr(p.relpartbound, p.oid)
		WHERE i.inhrelid = TG_RELID;
	IF shard_part IS NOT NULL THEN
		EXECUTE format('TRUNCATE %s', shard_part);
	ELSIF c.counter IS NOT NULL THEN
		PERFORM set_config('dcounter_lite.at_work', 'on', true);
		EXECUTE format('TRUNCATE %s', c.shards);
		IF c.holds IS NOT NULL THEN
			EXECUTE format('TRUNCATE %s', c.holds);
		END IF;
		PERFORM set_config('dcounter_lite.at_work', '', true);
	ELSIF coalesce(current_setting('dcounter_lite.at_work', true), '') <> 'on' THEN
		RAISE EXCEPTION USING ERRCODE = '55000', MESSAGE = format('cannot truncate "%s" by itself', TG_TABLE_NAME), DETAIL = 'Units would be lost, or sold twice.', HINT = 'TRUNCATE the stock, which empties all of its tables.';
	END IF;
	RETURN NULL;
END $$;
COMMENT ON FUNCTION dcounter_lite.on_counter_truncate() IS 'internal: truncates the tables of a counter together';

CREATE FUNCTION dcounter_lite.on_counter_delete() RETURNS trigger
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE COST 50 SET search_path = pg_catalog, pg_temp AS $$
BEGIN
	IF coalesce(current_setting('dcounter_lite.at_work', true), '') <> 'on' THEN
		RAISE EXCEPTION USING ERRCODE = '55000', MESSAGE = format('cannot delete from "%s"', TG_TABLE_NAME), DETAIL = 'Units would be lost, or sold twice.', HINT = 'Use dc_delete().';
	END IF;
	RETURN CASE WHEN TG_LEVEL = 'ROW' THEN OLD END;
END $$;
COMMENT ON FUNCTION dcounter_lite.on_counter_delete() IS 'internal: keeps rows of stocks from being deleted but by the functions';

-- add_triggers creates triggers with the names of dcounter's, which replaces them when it adopts the tables.
CREATE FUNCTION dcounter_lite.add_triggers(c dcounter_lite.counter) RETURNS void
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE COST 50 SET search_path = pg_catalog, pg_temp AS $$
DECLARE
	t regclass;
BEGIN
	FOR t IN SELECT p.relid FROM pg_partition_tree(c.counter) AS p UNION SELECT c.counter LOOP
		EXECUTE format('CREATE OR REPLACE TRIGGER dcounter_truncate AFTER TRUNCATE ON %s FOR EACH STATEMENT EXECUTE FUNCTION dcounter_lite.on_counter_truncate()', t);
		EXECUTE format('ALTER TABLE ONLY %s ENABLE ALWAYS TRIGGER dcounter_truncate', t);
	END LOOP;
	IF c.holds IS NOT NULL THEN
		EXECUTE format('CREATE OR REPLACE TRIGGER dcounter_truncate AFTER TRUNCATE ON %s FOR EACH STATEMENT EXECUTE FUNCTION dcounter_lite.on_counter_truncate()', c.shards);
		EXECUTE format('CREATE OR REPLACE TRIGGER dcounter_truncate AFTER TRUNCATE ON %s FOR EACH STATEMENT EXECUTE FUNCTION dcounter_lite.on_counter_truncate()', c.holds);
		EXECUTE format('CREATE OR REPLACE TRIGGER dcounter_delete BEFORE DELETE ON %s FOR EACH STATEMENT EXECUTE FUNCTION dcounter_lite.on_counter_delete()', c.counter);
		EXECUTE format('CREATE OR REPLACE TRIGGER dcounter_delete BEFORE DELETE ON %s FOR EACH STATEMENT EXECUTE FUNCTION dcounter_lite.on_counter_delete()', c.shards);
		EXECUTE format('CREATE OR REPLACE TRIGGER dcounter_delete BEFORE DELETE ON %s FOR EACH ROW WHEN (old.state = ''open'') EXECUTE FUNCTION dcounter_lite.on_counter_delete()', c.holds);
	END IF;
END $$;
COMMENT ON FUNCTION dcounter_lite.add_triggers(dcounter_lite.counter) IS 'internal: creates the triggers of a counter table';

-- resolve splits a name as in SQL. Without a schema in it, it is of the schema `path`, the first in the caller's search path.
CREATE FUNCTION dcounter_lite.resolve(name text, suffix text, path text, OUT nsp text, OUT rel text)
	LANGUAGE plpgsql STABLE PARALLEL RESTRICTED COST 20 SET search_path = pg_catalog, pg_temp AS $$
DECLARE
	parts text[];
BEGIN
	IF name IS NULL THEN
		RAISE EXCEPTION USING ERRCODE = '22004', MESSAGE = 'counter name must not be null';
	END IF;
	BEGIN
		parts := parse_ident(name);
	EXCEPTION WHEN OTHERS THEN
		RAISE EXCEPTION USING ERRCODE = '42602', MESSAGE = 'invalid name syntax', HINT = format('Quote the name as in SQL: ''%s''.', quote_ident(name));
	END;
	rel := parts[array_length(parts, 1)];
	nsp := CASE WHEN array_length(parts, 1) > 1 THEN parts[array_length(parts, 1) - 1] ELSE path END;
	IF nsp IS NULL THEN
		RAISE EXCEPTION USING ERRCODE = '3F000', MESSAGE = 'no schema has been selected to create in';
	END IF;
	IF nsp ~ '^pg_temp' THEN
		RAISE EXCEPTION USING ERRCODE = '0A000', MESSAGE = 'counter tables cannot be temporary';
	END IF;
	IF octet_length(rel || suffix) > 63 THEN
		RAISE EXCEPTION USING ERRCODE = '42622', MESSAGE = format('counter name "%s" is too long', rel),
			DETAIL = format('The name "%s" would have %s bytes; the limit is 63.', rel || suffix, octet_length(rel || suffix));
	END IF;
END $$;
COMMENT ON FUNCTION dcounter_lite.resolve(text, text, text) IS 'internal: splits a name as SQL does';

-- create_tables creates what dcounter creates, and registers it.
CREATE FUNCTION dcounter_lite.create_tables(nsp text, rel text, partitions int, stock boolean, max_shards int, op_retention interval) RETURNS regclass
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE COST 1000 SET search_path = pg_catalog, pg_temp AS $$
DECLARE
	full_name text := format('%I.%I', nsp, rel);
	shard_name text := format('%I.%I', nsp, rel || '_shard');
	made text := CASE WHEN stock THEN 'dc_stock_create()' ELSE 'dc_create()' END;
	by_key text := CASE WHEN partitions IS NOT NULL THEN ' PARTITION BY HASH (key)' ELSE '' END;
	totals_with text := ' WITH (fillfactor = 80)';
	shards_with text := ' WITH (fillfactor = 25, autovacuum_vacuum_scale_factor = 0.01, autovacuum_vacuum_threshold = 500, vacuum_truncate = off)';
	c dcounter_lite.counter;
BEGIN
	EXECUTE format('CREATE TABLE %s (key text COLLATE "C" NOT NULL, inc bigint NOT NULL DEFAULT 0, dec bigint NOT NULL DEFAULT 0,
		value bigint GENERATED ALWAYS AS (inc - dec) STORED, updated_at timestamptz NOT NULL DEFAULT now(), PRIMARY KEY (key))', full_name)
		|| by_key || CASE WHEN partitions IS NULL THEN totals_with ELSE '' END;
	EXECUTE format('COMMENT ON TABLE %s IS %L', full_name, 'dcounter: totals; see ' || made);
	EXECUTE format('CREATE TABLE %s (key text COLLATE "C" NOT NULL, shard int NOT NULL, inc bigint NOT NULL DEFAULT 0, dec bigint NOT NULL DEFAULT 0,
		%s updated_at timestamptz NOT NULL DEFAULT now(), PRIMARY KEY (key, shard))', shard_name, CASE WHEN stock THEN 'units bigint NOT NULL DEFAULT 0,' END)
		|| by_key || CASE WHEN partitions IS NULL THEN shards_with ELSE '' END;
	EXECUTE format('COMMENT ON TABLE %s IS %L', shard_name, 'dcounter: shard rows, what is not in the totals yet; see ' || made);
	FOR i IN 0 .. coalesce(partitions, 0) - 1 LOOP
		EXECUTE format('CREATE TABLE %I.%I PARTITION OF %s FOR VALUES WITH (MODULUS %s, REMAINDER %s)', nsp, rel || '_p' || i, full_name, partitions, i) || totals_with;
		EXECUTE format('CREATE TABLE %I.%I PARTITION OF %s FOR VALUES WITH (MODULUS %s, REMAINDER %s)', nsp, rel || '_shard_p' || i, shard_name, partitions, i) || shards_with;
		EXECUTE format('COMMENT ON TABLE %I.%I IS %L', nsp, rel || '_p' || i, obj_description(full_name::regclass, 'pg_class'));
		EXECUTE format('COMMENT ON TABLE %I.%I IS %L', nsp, rel || '_shard_p' || i, obj_description(shard_name::regclass, 'pg_class'));
	END LOOP;
	IF stock THEN
		PERFORM dcounter_lite.create_holds(nsp, rel, made);
	END IF;
	INSERT INTO dcounter_lite.counter (counter, shards, holds, max_shards, op_retention)
		VALUES (full_name::regclass, shard_name::regclass, CASE WHEN stock THEN format('%I.%I', nsp, rel || '_hold')::regclass END, max_shards, op_retention) RETURNING * INTO c;
	PERFORM dcounter_lite.add_triggers(c);
	RETURN c.counter;
END $$;
COMMENT ON FUNCTION dcounter_lite.create_tables(text, text, int, boolean, int, interval) IS 'internal: creates the tables of a counter';

CREATE FUNCTION dcounter_lite.create_holds(nsp text, rel text, made text) RETURNS void
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE COST 1000 SET search_path = pg_catalog, pg_temp AS $$
DECLARE
	hold_name text := format('%I.%I', nsp, rel || '_hold');
BEGIN
	EXECUTE format('CREATE TABLE %s (hold_id uuid PRIMARY KEY, key text COLLATE "C" NOT NULL CHECK (octet_length(key) <= 1024),
		qty bigint NOT NULL CHECK (qty > 0), ttl interval NOT NULL, state text NOT NULL DEFAULT ''open'' CHECK (state = ANY (''{open,confirmed,released,expired}''::text[])),
		confirmed bigint, created_at timestamptz NOT NULL, expires_at timestamptz NOT NULL, ended_at timestamptz, keys text[] COLLATE "C", qtys bigint[]) WITH (fillfactor = 80)', hold_name);
	EXECUTE format('CREATE INDEX %I ON %s (ended_at) WHERE state <> ''open''', left(rel, 47) || '_hold_ended_at_idx', hold_name);
	EXECUTE format('CREATE INDEX %I ON %s (expires_at) WHERE state = ''open''', left(rel, 45) || '_hold_expires_at_idx', hold_name);
	EXECUTE format('CREATE INDEX %I ON %s (key, expires_at) WHERE state = ''open''', left(rel, 41) || '_hold_key_expires_at_idx', hold_name);
	EXECUTE format('COMMENT ON TABLE %s IS %L', hold_name, 'dcounter: holds; see ' || made);
END $$;
COMMENT ON FUNCTION dcounter_lite.create_holds(text, text, text) IS 'internal: creates the table of holds of a stock';

-- known_table returns the table if there is one of this name, for if_not_exists.
CREATE FUNCTION dcounter_lite.known_table(nsp text, rel text, stock boolean) RETURNS regclass
	LANGUAGE plpgsql STABLE PARALLEL RESTRICTED COST 20 SET search_path = pg_catalog, pg_temp AS $$
DECLARE
	known regclass := to_regclass(format('%I.%I', nsp, rel));
BEGIN
	IF known IS NULL THEN
		RETURN NULL;
	END IF;
	IF NOT EXISTS (SELECT FROM dcounter_lite.counter AS c WHERE c.counter = known AND (c.holds IS NOT NULL) = stock) THEN
		RAISE EXCEPTION USING ERRCODE = '42809', MESSAGE = format('relation "%s" already exists, and is not a %s', rel, CASE WHEN stock THEN 'stock' ELSE 'counter table' END);
	END IF;
	RAISE NOTICE USING ERRCODE = '42P07', MESSAGE = format('relation "%s" already exists, skipping', rel);
	RETURN known;
END $$;
COMMENT ON FUNCTION dcounter_lite.known_table(text, text, boolean) IS 'internal: a table of this name, if there is one';

-- prevent_taken raises an error if dc_create() cannot make a table of this name, with what else to do.
CREATE FUNCTION dcounter_lite.prevent_taken(nsp text, rel text) RETURNS void
	LANGUAGE plpgsql STABLE PARALLEL RESTRICTED COST 20 SET search_path = pg_catalog, pg_temp AS $$
DECLARE
	taken regclass := to_regclass(format('%I.%I', nsp, rel));
BEGIN
	IF taken IS NULL OR NOT has_schema_privilege(nsp, 'CREATE') THEN
		RETURN;
	END IF;
	RAISE EXCEPTION USING ERRCODE = '42P07', MESSAGE = format('relation "%s" already exists', rel),
		HINT = CASE WHEN EXISTS (SELECT FROM dcounter_lite.counter AS c WHERE c.counter = taken) THEN 'To accept an existing counter table, use if_not_exists => true.'
			WHEN (SELECT c.relkind FROM pg_class AS c WHERE c.oid = taken) = ANY ('{r,p}'::"char"[])
				THEN format('Choose another name. To count the rows of "%s", bind the new counter table to it with dc_bind().', rel)
			ELSE 'Choose another name.' END;
END $$;
COMMENT ON FUNCTION dcounter_lite.prevent_taken(text, text) IS 'internal: raises an error if the name of a new counter table is taken';

-- check_settings raises an error for what dcounter would not accept, and for what dcounter_lite lacks. NULL is not looked at.
CREATE FUNCTION dcounter_lite.check_settings(shard_by text, max_shards int, partitions int, mode text, op_retention interval, totals text, sample int, trend interval, idle interval) RETURNS void
	LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE COST 10 SET search_path = pg_catalog, pg_temp AS $$
BEGIN
	IF mode <> 'exact' OR sample <> 1 OR trend IS NOT NULL THEN
		RAISE EXCEPTION USING ERRCODE = '0A000', MESSAGE = 'dcounter_lite has exact counters only', HINT = 'Buffered and sampled counters and trends are in the extension dcounter.';
	END IF;
	IF idle <> '0'::interval THEN
		RAISE EXCEPTION USING ERRCODE = '0A000', MESSAGE = 'keys do not expire in dcounter_lite', HINT = 'They do in the extension dcounter. Here, call dc_delete() for the keys whose updated_at is old.';
	END IF;
	IF shard_by <> ALL ('{random,backend,hash}'::text[]) THEN
		RAISE EXCEPTION USING ERRCODE = '22023', MESSAGE = format('invalid value for "shard_by": "%s"', shard_by), HINT = 'Valid values are "random", "backend" and "hash".';
	END IF;
	IF totals <> ALL ('{direct,compacted}'::text[]) THEN
		RAISE EXCEPTION USING ERRCODE = '22023', MESSAGE = format('invalid value for "totals": "%s"', totals), HINT = 'Valid values are "direct" and "compacted".';
	END IF;
	IF max_shards < 1 OR max_shards > 4096 THEN
		RAISE EXCEPTION USING ERRCODE = '22023', MESSAGE = 'max_shards must be between 1 and 4096';
	END IF;
	IF partitions < 1 OR partitions > 256 THEN
		RAISE EXCEPTION USING ERRCODE = '22023', MESSAGE = 'partitions must be between 1 and 256';
	END IF;
	IF op_retention < '1 minute'::interval OR op_retention > '36525 days'::interval THEN
		RAISE EXCEPTION USING ERRCODE = '22023', MESSAGE = 'op_retention must be between 1 minute and 100 years';
	END IF;
END $$;
COMMENT ON FUNCTION dcounter_lite.check_settings(text, int, int, text, interval, text, int, interval, interval) IS 'internal: raises what is wrong with the settings of a counter table';

CREATE FUNCTION dcounter_lite.create_counter(name text, path text, partitions int, stock boolean, max_shards int, op_retention interval, if_not_exists boolean) RETURNS regclass
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE COST 1000 SET search_path = pg_catalog, pg_temp AS $$
DECLARE
	n record := dcounter_lite.resolve(name, CASE WHEN partitions IS NULL THEN '_shard' ELSE '_shard_p' || partitions - 1 END, path);
	known regclass;
BEGIN
	IF if_not_exists THEN
		known := dcounter_lite.known_table(n.nsp, n.rel, stock);
	ELSIF NOT stock THEN
		PERFORM dcounter_lite.prevent_taken(n.nsp, n.rel);
	END IF;
	RETURN coalesce(known, dcounter_lite.create_tables(n.nsp, n.rel, partitions, stock, max_shards, op_retention));
END $$;
COMMENT ON FUNCTION dcounter_lite.create_counter(text, text, int, boolean, int, interval, boolean) IS 'internal: creates a counter table or a stock';

-- dc_create has no pinned search_path, since the table is created in the first schema of the caller's. shard_by and totals are accepted and ignored: each
-- session has shard rows of its own, and only compaction writes totals.
CREATE FUNCTION dc_create(counter text, shard_by text DEFAULT 'backend', max_shards int DEFAULT 64, partitions int DEFAULT NULL,
	mode text DEFAULT 'exact', flush_interval interval DEFAULT '1 second', durability text DEFAULT 'async', op_retention interval DEFAULT '7 days', totals text DEFAULT 'direct',
	sample int DEFAULT 1, trend interval DEFAULT NULL, if_not_exists boolean DEFAULT false, idle interval DEFAULT NULL) RETURNS regclass
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE COST 1000 AS $$
BEGIN
	PERFORM dcounter_lite.check_settings(shard_by, max_shards, partitions, mode, op_retention, totals, sample, trend, idle);
	RETURN dcounter_lite.create_counter(counter, pg_catalog.current_schema()::pg_catalog.text, partitions, false, max_shards, op_retention, if_not_exists);
END $$;
COMMENT ON FUNCTION dc_create(text, text, int, int, text, interval, text, interval, text, int, interval, boolean, interval) IS 'creates a counter table';

CREATE FUNCTION dc_stock_create(stock text, max_shards int DEFAULT 64, if_not_exists boolean DEFAULT false) RETURNS regclass
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE COST 1000 AS $$
BEGIN
	PERFORM dcounter_lite.not_null(stock, 'stock'), dcounter_lite.check_settings(NULL, max_shards, NULL, NULL, NULL, NULL, NULL, NULL, NULL);
	RETURN dcounter_lite.create_counter(stock, pg_catalog.current_schema()::pg_catalog.text, NULL, true, max_shards, '7 days', if_not_exists);
END $$;
COMMENT ON FUNCTION dc_stock_create(text, int, boolean) IS 'creates a stock: a counter table that never goes below zero';

CREATE FUNCTION dc_alter(counter regclass, shard_by text DEFAULT NULL, max_shards int DEFAULT NULL, events interval DEFAULT NULL, notify text DEFAULT NULL,
	mode text DEFAULT NULL, flush_interval interval DEFAULT NULL, durability text DEFAULT NULL, op_retention interval DEFAULT NULL, totals text DEFAULT NULL,
	on_drift text DEFAULT NULL, sample int DEFAULT NULL, trend interval DEFAULT NULL, idle interval DEFAULT NULL) RETURNS void
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE COST 1000 SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_column
DECLARE
	c dcounter_lite.counter := dcounter_lite.find(dc_alter.counter);
BEGIN
	IF events IS NOT NULL OR notify IS NOT NULL OR on_drift IS NOT NULL THEN
		RAISE EXCEPTION USING ERRCODE = '0A000', MESSAGE = 'dcounter_lite has neither events nor drift', HINT = 'They are in the extension dcounter.';
	END IF;
	PERFORM dcounter_lite.check_settings(shard_by, dc_alter.max_shards, NULL, mode, dc_alter.op_retention, totals, sample, trend, idle);
	INSERT INTO dcounter_lite.change (what, counter, max_shards, op_retention) VALUES ('alter', c.counter, dc_alter.max_shards, dc_alter.op_retention);
END $$;
COMMENT ON FUNCTION dc_alter(regclass, text, int, interval, text, text, interval, text, interval, text, text, int, interval, interval) IS 'changes the settings of a counter table';

CREATE FUNCTION dc_drop(counter regclass) RETURNS void
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE COST 1000 SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_column
DECLARE
	c dcounter_lite.counter := dcounter_lite.find(dc_drop.counter);
BEGIN
	PERFORM dcounter_lite.unbind(c.counter), dcounter_lite.drop_writer(c.counter);
	INSERT INTO dcounter_lite.change (what, counter) VALUES ('forget', c.counter);
	EXECUTE format('DROP TABLE %s', concat_ws(', ', c.counter, c.shards, c.holds, CASE WHEN ascii(c.ops::text) >= 58 THEN c.ops END));
END $$;
COMMENT ON FUNCTION dc_drop(regclass) IS 'drops a counter table';

-- columns_of returns names and types of a table's columns, in the order of the names.
CREATE FUNCTION dcounter_lite.columns_of(t regclass) RETURNS text
	LANGUAGE sql STABLE PARALLEL RESTRICTED COST 20 SET search_path = pg_catalog, pg_temp AS $$
	SELECT string_agg(attname || ' ' || format_type(atttypid, atttypmod) || CASE WHEN attname = 'key' AND attcollation <> '"C"'::regcollation THEN ' of another collation' ELSE '' END, ',' ORDER BY attname COLLATE "C")
	FROM pg_attribute WHERE attrelid = t AND attnum > 0 AND NOT attisdropped $$;
COMMENT ON FUNCTION dcounter_lite.columns_of(regclass) IS 'internal: names and types of the columns of a table';

-- unique_on returns whether a table has a unique index on exactly these columns, in this order, which ON CONFLICT can use.
CREATE FUNCTION dcounter_lite.unique_on(t regclass, columns text) RETURNS boolean
	LANGUAGE sql STABLE PARALLEL RESTRICTED COST 20 SET search_path = pg_catalog, pg_temp AS $$
	SELECT EXISTS (SELECT FROM pg_index AS i WHERE i.indrelid = t AND i.indisunique AND i.indimmediate AND i.indisvalid AND i.indpred IS NULL AND i.indexprs IS NULL
		AND columns = (SELECT string_agg(a.attname, ',' ORDER BY k.n) FROM unnest(i.indkey::int2[]) WITH ORDINALITY AS k(attnum, n)
			JOIN pg_attribute AS a ON a.attrelid = t AND a.attnum = k.attnum WHERE k.n <= i.indnkeyatts)) $$;
COMMENT ON FUNCTION dcounter_lite.unique_on(regclass, text) IS 'internal: whether a table has a unique index on these columns';

-- adopt_problem returns why the tables of this name are not those of a counter or stock that dcounter_lite can have; NULL if they are.
CREATE FUNCTION dcounter_lite.adopt_problem(nsp text, rel text) RETURNS text
	LANGUAGE plpgsql STABLE PARALLEL RESTRICTED COST 50 SET search_path = pg_catalog, pg_temp AS $$
DECLARE
	shards regclass := to_regclass(format('%I.%I', nsp, rel || '_shard'));
	shard_columns text := dcounter_lite.columns_of(shards);
	other text;
BEGIN
	IF shards IS NULL THEN
		RETURN format('There is no shard table "%s_shard" in the same schema.', rel);
	ELSIF dcounter_lite.columns_of(to_regclass(format('%I.%I', nsp, rel))) IS DISTINCT FROM 'dec bigint,inc bigint,key text,updated_at timestamp with time zone,value bigint' THEN
		RETURN 'Its columns are not those of a counter table.';
	ELSIF shard_columns IS DISTINCT FROM 'dec bigint,inc bigint,key text,shard integer,updated_at timestamp with time zone'
			AND shard_columns IS DISTINCT FROM 'dec bigint,inc bigint,key text,shard integer,units bigint,updated_at timestamp with time zone' THEN
		RETURN 'The columns of its shard table are not those of one.';
	ELSIF shard_columns LIKE '%units%' AND to_regclass(format('%I.%I', nsp, rel || '_hold')) IS NULL THEN
		RETURN format('There is no table of holds "%s_hold" in the same schema.', rel);
	ELSIF NOT dcounter_lite.unique_on(to_regclass(format('%I.%I', nsp, rel)), 'key') THEN
		RETURN 'It needs a primary key on (key).';
	ELSIF NOT dcounter_lite.unique_on(shards, 'key,shard') THEN
		RETURN 'Its shard table needs a primary key on (key, shard).';
	END IF;
	-- rows of other products say what part of a value is whose: plain counting beside them would be wrong
	FOREACH other IN ARRAY '{entry,region,set,grant,want}'::text[] LOOP
		IF obj_description(to_regclass(format('%I.%I', nsp, rel || '_' || other)), 'pg_class') LIKE 'dcounter: %' THEN
			RETURN CASE other WHEN 'entry' THEN 'It belongs to a ledger.' ELSE 'It is replicated between regions.' END;
		END IF;
	END LOOP;
	RETURN NULL;
END $$;
COMMENT ON FUNCTION dcounter_lite.adopt_problem(text, text) IS 'internal: why tables cannot be adopted';

-- dc_adopt registers tables that dcounter_lite does not know: restored ones, and those of the extension dcounter after it was dropped.
CREATE FUNCTION dc_adopt(counter regclass) RETURNS void
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE COST 1000 SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_column
DECLARE
	nsp text; rel text; problem text;
	c dcounter_lite.counter;
BEGIN
	PERFORM dcounter_lite.not_null(dc_adopt.counter, 'counter');
	SELECT n.nspname, k.relname INTO nsp, rel FROM pg_class AS k JOIN pg_namespace AS n ON n.oid = k.relnamespace WHERE k.oid = dc_adopt.counter;
	IF rel IS NULL THEN
		RAISE EXCEPTION USING ERRCODE = '42P01', MESSAGE = format('relation with OID %s does not exist', dc_adopt.counter::oid);
	END IF;
	-- one whose other tables have gone may have new ones
	INSERT INTO dcounter_lite.change (what, counter) SELECT 'forget', r.counter FROM dcounter_lite.counter AS r WHERE r.counter = dc_adopt.counter AND (ascii(r.shards::text) < 58 OR ascii(r.holds::text) < 58);
	IF EXISTS (SELECT FROM dcounter_lite.counter AS r WHERE r.counter = dc_adopt.counter) THEN
		RAISE EXCEPTION USING ERRCODE = '42710', MESSAGE = format('"%s" is already a counter table', rel);
	END IF;
	problem := dcounter_lite.adopt_problem(nsp, rel);
	IF problem IS NOT NULL THEN
		RAISE EXCEPTION USING ERRCODE = '42809', MESSAGE = format('cannot adopt "%s" as a counter table', rel), DETAIL = problem;
	END IF;
	c.shards := to_regclass(format('%I.%I', nsp, rel || '_shard'));
	-- a plain counter may have a table of another kind beside it that is called so
	IF dcounter_lite.columns_of(c.shards) LIKE '%units%' THEN
		c.holds := to_regclass(format('%I.%I', nsp, rel || '_hold'));
	END IF;
	INSERT INTO dcounter_lite.counter (counter, shards, holds, ops)
		VALUES (dc_adopt.counter, c.shards, c.holds, to_regclass(format('%I.%I', nsp, rel || '_op'))) RETURNING * INTO c;
	PERFORM dcounter_lite.add_triggers(c);
	IF c.ops IS NOT NULL THEN
		PERFORM dcounter_lite.adopt_ops(c);
	END IF;
END $$;
COMMENT ON FUNCTION dc_adopt(regclass) IS 'registers existing tables as a counter table or a stock';

-- grant_to grants rights on all tables of a counter, as no function runs as their owner. DELETE on partitions of ops: when the ring of ops turns in the
-- middle of a call, the session deletes what it has just recorded.
CREATE FUNCTION dcounter_lite.grant_to(counter regclass, role regrole, what text DEFAULT 'count') RETURNS void
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE COST 50 SET search_path = pg_catalog, pg_temp AS $$
DECLARE
	c dcounter_lite.counter := dcounter_lite.find(counter);
	tables text := concat_ws(', ', c.counter, c.shards, c.holds, c.ops, (SELECT string_agg(o.partition::text, ', ') FROM dcounter_lite.op_slot AS o WHERE o.counter = c.counter));
BEGIN
	IF what NOT IN ('count', 'read', 'delete') THEN
		RAISE EXCEPTION USING ERRCODE = '22023', MESSAGE = 'what must be count, read or delete';
	END IF;
	EXECUTE format('GRANT SELECT ON %s TO %s', tables, role);
	IF what <> 'read' THEN
		EXECUTE format('GRANT INSERT, UPDATE ON %s TO %s', tables, role);
		IF c.ops IS NOT NULL THEN
			EXECUTE format('GRANT DELETE ON %s TO %s', (SELECT string_agg(o.partition::text, ', ') FROM dcounter_lite.op_slot AS o WHERE o.counter = c.counter), role);
		END IF;
	END IF;
	IF what = 'delete' THEN
		EXECUTE format('GRANT DELETE ON %s, %s TO %s', c.counter, c.shards, role);
	END IF;
END $$;
COMMENT ON FUNCTION dcounter_lite.grant_to(regclass, regrole, text) IS 'grants rights on all tables of a counter: count, read or delete';

-- follow gives the other tables the name and the schema of the table of totals after that was renamed or moved. Without it all works, since the
-- registry has OIDs; but the extension dcounter finds the tables by their names.
CREATE FUNCTION dcounter_lite.follow(counter regclass) RETURNS void
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE COST 50 SET search_path = pg_catalog, pg_temp AS $$
DECLARE
	c dcounter_lite.counter := dcounter_lite.find(counter);
	r record;
BEGIN
	FOR r IN SELECT t.oid::regclass AS t, k.relname AS is_name, m.relname || t.suffix AS name, k.relnamespace <> m.relnamespace AS moved, m.relnamespace::regnamespace AS nsp
		FROM (SELECT c.shards::oid, '_shard' UNION ALL SELECT c.holds::oid, '_hold' UNION ALL SELECT c.ops::oid, '_op' UNION ALL SELECT o.partition::oid, '_op_' || o.slot FROM dcounter_lite.op_slot AS o WHERE o.counter = c.counter
			UNION ALL SELECT i.inhrelid, substring(k.relname FROM '(_shard_p[0-9]+)$') FROM pg_inherits AS i JOIN pg_class AS k ON k.oid = i.inhrelid WHERE i.inhparent = c.shards
			UNION ALL SELECT i.inhrelid, substring(k.relname FROM '(_p[0-9]+)$') FROM pg_inherits AS i JOIN pg_class AS k ON k.oid = i.inhrelid WHERE i.inhparent = c.counter) AS t(oid, suffix)
		JOIN pg_class AS k ON k.oid = t.oid JOIN pg_class AS m ON m.oid = c.counter LOOP
		IF r.moved THEN
			EXECUTE format('ALTER TABLE %s SET SCHEMA %s', r.t, r.nsp);
		END IF;
		IF r.is_name <> r.name THEN
			EXECUTE format('ALTER TABLE %s RENAME TO %I', r.t, r.name);
		END IF;
	END LOOP;
END $$;
COMMENT ON FUNCTION dcounter_lite.follow(regclass) IS 'gives the other tables of a counter the name and schema of its totals';

-- leave removes all that dcounter_lite has put on the tables, so that the extension can adopt them, and empties the registry.
CREATE FUNCTION dcounter_lite.leave() RETURNS SETOF regclass
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE COST 50 ROWS 10 SET search_path = pg_catalog, pg_temp SET client_min_messages = warning AS $$
#variable_conflict use_column
DECLARE
	c dcounter_lite.counter;
	t regclass;
BEGIN
	FOR c IN SELECT r.* FROM dcounter_lite.counter AS r JOIN pg_class AS k ON k.oid = r.counter ORDER BY r.counter LOOP
		PERFORM dcounter_lite.unbind(c.counter) FROM dcounter_lite.source AS s WHERE s.counter = c.counter;
		PERFORM dcounter_lite.drop_writer(c.counter), dcounter_lite.follow(c.counter);
		FOR t IN SELECT p.relid FROM pg_partition_tree(c.counter) AS p UNION SELECT u FROM unnest(ARRAY[c.counter, c.shards, c.holds]) AS u WHERE u IS NOT NULL LOOP
			EXECUTE format('DROP TRIGGER IF EXISTS dcounter_truncate ON %s', t);
			EXECUTE format('DROP TRIGGER IF EXISTS dcounter_delete ON %s', t);
		END LOOP;
		INSERT INTO dcounter_lite.change (what, counter) VALUES ('forget', c.counter);
		RETURN NEXT c.counter;
	END LOOP;
	INSERT INTO dcounter_lite.change (what) VALUES ('gone');
END $$;
COMMENT ON FUNCTION dcounter_lite.leave() IS 'takes all that dcounter_lite has made off the tables, so that the extension can adopt them';
