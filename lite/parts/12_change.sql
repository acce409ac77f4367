-- Changes of the registry. Everybody may read it and add rows, of own tables; nobody but its owner may change rows, or others could lock it: UPDATE and
-- DELETE are what LOCK TABLE and FOR UPDATE need. So a change is an INSERT into dcounter_lite.change, which has two triggers, in the order of their names:
-- check_change looks, as the caller, whether the caller may do that; make_change does it, as the owner of the registry, and leaves no row. Nobody else can
-- call make_change: a trigger of one's own would need EXECUTE on it.
--
-- No change waits for a row of another owner's tables, and one that does not need a right waits for nobody.

-- Everybody may insert here, and no row stays: a row is a request.
CREATE TABLE dcounter_lite.change (
	what         text NOT NULL,
	counter      regclass,
	key          text,
	max_shards   int,
	op_retention interval,
	writer       text,
	writes       text,
	ops          regclass,
	slot         smallint,
	state        text,
	forgotten    timestamptz
);
COMMENT ON TABLE dcounter_lite.change IS 'requests to change the registry; always empty';

-- Rows to lock, as anybody could take advisory locks.
CREATE TABLE dcounter_lite.lock (
	counter regclass NOT NULL,
	kind    text NOT NULL CHECK (kind IN ('compaction', 'key')),
	key     text COLLATE "C" NOT NULL,
	PRIMARY KEY (counter, kind, key)
);
COMMENT ON TABLE dcounter_lite.lock IS 'rows that compactions and setters lock';
COMMENT ON COLUMN dcounter_lite.lock.counter IS 'the counter table';
COMMENT ON COLUMN dcounter_lite.lock.kind IS 'compaction (of the table, or a setter of a stock) or key (setters of a key)';
COMMENT ON COLUMN dcounter_lite.lock.key IS 'the key; empty for compaction';

-- on_registry_change lets a new row pass if the caller has the rights of the owner of all tables that it names. They exist: nobody takes the OID of a table
-- to come.
CREATE FUNCTION dcounter_lite.on_registry_change() RETURNS trigger
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE COST 50 SET search_path = pg_catalog, pg_temp AS $$
DECLARE
	-- OIDs, as names could be those of other tables
	named oid[];
BEGIN
	IF TG_TABLE_NAME = 'counter' THEN
		named := ARRAY[NEW.counter::oid, NEW.shards::oid, NEW.holds::oid, NEW.ops::oid, NEW.op_open::oid] || NEW.op_closed::oid[];
	ELSIF TG_TABLE_NAME = 'op_slot' THEN
		named := ARRAY[NEW.counter::oid, NEW.ops::oid, NEW.partition::oid];
	ELSE
		named := ARRAY[NEW.counter::oid, NEW.source::oid];
	END IF;
	IF EXISTS (SELECT FROM unnest(named) AS o WHERE o IS NOT NULL AND NOT EXISTS (SELECT FROM pg_class AS k WHERE k.oid = o)) THEN
		RAISE EXCEPTION USING ERRCODE = '42P01', MESSAGE = 'a table that the row names does not exist';
	END IF;
	IF EXISTS (SELECT FROM pg_class WHERE oid = ANY (named) AND NOT pg_has_role(relowner, 'USAGE')) THEN
		RAISE EXCEPTION USING ERRCODE = '42501', MESSAGE = 'must be owner of the tables';
	END IF;
	RETURN NEW;
END $$;
COMMENT ON FUNCTION dcounter_lite.on_registry_change() IS 'internal: lets owners add rows of their own tables only';

-- on_counter_insert makes the row that a compaction locks: a compaction that had to insert it would make the next one wait.
CREATE FUNCTION dcounter_lite.on_counter_insert() RETURNS trigger
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE COST 50 SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
	IF TG_RELID <> 'dcounter_lite.counter'::regclass THEN
		RAISE EXCEPTION USING ERRCODE = '42501', MESSAGE = 'permission denied for function on_counter_insert';
	END IF;
	INSERT INTO dcounter_lite.lock (counter, kind, key) VALUES (NEW.counter, 'compaction', '') ON CONFLICT DO NOTHING;
	RETURN NULL;
END $$;
COMMENT ON FUNCTION dcounter_lite.on_counter_insert() IS 'internal: makes the row that a compaction locks';
REVOKE EXECUTE ON FUNCTION dcounter_lite.on_counter_insert() FROM PUBLIC;

-- check_change raises an error if the caller may not make a change: the owner of the counter may, and of the table of ops that it names. They exist, as
-- another role's table may get an OID to come before the change is made. Who may write the shard table may lock. What is known of a counter that is gone
-- may be removed by anybody.
CREATE FUNCTION dcounter_lite.check_change() RETURNS trigger
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE COST 50 SET search_path = pg_catalog, pg_temp AS $$
DECLARE
	shards oid;
BEGIN
	IF NEW.what = 'gone' THEN
		RETURN NEW;
	ELSIF NEW.what IN ('compaction', 'try compaction', 'key') THEN
		SELECT r.shards INTO shards FROM dcounter_lite.counter AS r WHERE r.counter = NEW.counter;
		IF has_any_column_privilege(shards, 'UPDATE') THEN
			RETURN NEW;
		END IF;
		RAISE EXCEPTION USING ERRCODE = '42501', MESSAGE = format('permission denied for table %s', (SELECT relname FROM pg_class WHERE oid = shards));
	ELSIF NOT EXISTS (SELECT FROM pg_class WHERE oid IN (NEW.counter, NEW.ops) AND NOT pg_has_role(relowner, 'USAGE'))
			AND EXISTS (SELECT FROM pg_class WHERE oid = NEW.counter)
			AND (NEW.ops IS NULL OR EXISTS (SELECT FROM pg_class WHERE oid = NEW.ops)) THEN
		RETURN NEW;
	END IF;
	RAISE EXCEPTION USING ERRCODE = '42501', MESSAGE = format('must be owner of table %s', (SELECT relname FROM pg_class WHERE oid = NEW.counter));
END $$;
COMMENT ON FUNCTION dcounter_lite.check_change() IS 'internal: lets a request to change the registry pass, or raises an error';

-- lock_row locks a row of dcounter_lite.lock to the end of the transaction, which it inserts if it is not there; once more if it was deleted in between.
CREATE FUNCTION dcounter_lite.lock_row(counter regclass, kind text, key text) RETURNS void
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE COST 50 SET search_path = pg_catalog, pg_temp SET enable_seqscan = off AS $$
BEGIN
	LOOP
		PERFORM FROM dcounter_lite.lock AS l WHERE l.counter = $1 AND l.kind = $2 AND l.key = $3 FOR UPDATE;
		EXIT WHEN FOUND;
		INSERT INTO dcounter_lite.lock (counter, kind, key) VALUES ($1, $2, $3) ON CONFLICT DO NOTHING;
	END LOOP;
END $$;
COMMENT ON FUNCTION dcounter_lite.lock_row(regclass, text, text) IS 'internal: locks a row of dcounter_lite.lock';

-- try_compaction locks the row of a compaction unless somebody else has locked it; returns whether it has.
CREATE FUNCTION dcounter_lite.try_compaction(counter regclass) RETURNS boolean
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE COST 50 SET search_path = pg_catalog, pg_temp SET enable_seqscan = off AS $$
BEGIN
	PERFORM FROM dcounter_lite.lock AS l WHERE l.counter = $1 AND l.kind = 'compaction' FOR UPDATE SKIP LOCKED;
	IF NOT FOUND THEN
		INSERT INTO dcounter_lite.lock (counter, kind, key) VALUES ($1, 'compaction', '') ON CONFLICT DO NOTHING;
	END IF;
	RETURN FOUND;
END $$;
COMMENT ON FUNCTION dcounter_lite.try_compaction(regclass) IS 'internal: locks the row of a compaction if it is free';

-- forget_gone removes the rows of counters that are gone, and waits for nobody who has locked some.
CREATE FUNCTION dcounter_lite.forget_gone() RETURNS void
	LANGUAGE sql VOLATILE PARALLEL UNSAFE COST 100 SET search_path = pg_catalog, pg_temp AS $$
	WITH g AS MATERIALIZED (SELECT r.counter FROM dcounter_lite.counter AS r WHERE NOT EXISTS (SELECT FROM pg_class AS k WHERE k.oid = r.counter) FOR UPDATE SKIP LOCKED)
	DELETE FROM dcounter_lite.counter AS r USING g WHERE r.counter = g.counter;
	WITH g AS MATERIALIZED (SELECT l.counter, l.kind, l.key FROM dcounter_lite.lock AS l WHERE NOT EXISTS (SELECT FROM pg_class AS k WHERE k.oid = l.counter) FOR UPDATE SKIP LOCKED)
	DELETE FROM dcounter_lite.lock AS l USING g WHERE l.counter = g.counter AND l.kind = g.kind AND l.key = g.key $$;
COMMENT ON FUNCTION dcounter_lite.forget_gone() IS 'internal: removes what is known of counters that are gone';

-- copy_slots repeats in the row of a counter which partitions of ops are open and closed, as each op looks for that.
CREATE FUNCTION dcounter_lite.copy_slots(counter regclass) RETURNS void
	LANGUAGE sql VOLATILE PARALLEL UNSAFE COST 50 SET search_path = pg_catalog, pg_temp AS $$
	UPDATE dcounter_lite.counter AS r SET op_open = (SELECT o.partition FROM dcounter_lite.op_slot AS o WHERE o.counter = $1 AND o.state = 'open'),
		op_closed = ARRAY(SELECT o.partition FROM dcounter_lite.op_slot AS o WHERE o.counter = $1 AND o.state = 'closed' ORDER BY o.slot)
	WHERE r.counter = $1 $$;
COMMENT ON FUNCTION dcounter_lite.copy_slots(regclass) IS 'internal: copies the states of the partitions of ops into the row of the counter';

-- make_change makes a change that check_change has let pass. It is a trigger of the one table only: while dcounter_lite is installed or upgraded, a role
-- could have made one of its own.
CREATE FUNCTION dcounter_lite.make_change() RETURNS trigger
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE COST 100 SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
	IF TG_RELID <> 'dcounter_lite.change'::regclass THEN
		RAISE EXCEPTION USING ERRCODE = '42501', MESSAGE = 'permission denied for function make_change';
	END IF;
	CASE NEW.what
	WHEN 'compaction', 'key' THEN
		PERFORM dcounter_lite.lock_row(NEW.counter, NEW.what, coalesce(NEW.key, ''));
	WHEN 'try compaction' THEN
		PERFORM set_config('dcounter_lite.locked', dcounter_lite.try_compaction(NEW.counter)::text, true);
	WHEN 'clean' THEN
		WITH g AS MATERIALIZED (SELECT l.key FROM dcounter_lite.lock AS l WHERE l.counter = NEW.counter AND l.kind = 'key' FOR UPDATE SKIP LOCKED)
			DELETE FROM dcounter_lite.lock AS l USING g WHERE l.counter = NEW.counter AND l.kind = 'key' AND l.key = g.key;
	WHEN 'lock' THEN
		PERFORM FROM dcounter_lite.counter AS r WHERE r.counter = NEW.counter FOR NO KEY UPDATE;
	WHEN 'alter' THEN
		UPDATE dcounter_lite.counter AS r SET max_shards = coalesce(NEW.max_shards, r.max_shards), op_retention = coalesce(NEW.op_retention, r.op_retention) WHERE r.counter = NEW.counter;
	WHEN 'writer' THEN
		UPDATE dcounter_lite.counter AS r SET writer = NEW.writer, writes = NEW.writes, once_writer = NULL WHERE r.counter = NEW.counter;
	WHEN 'once_writer' THEN
		UPDATE dcounter_lite.counter AS r SET once_writer = NEW.writer WHERE r.counter = NEW.counter;
	WHEN 'ops' THEN
		DELETE FROM dcounter_lite.op_slot AS o WHERE o.counter = NEW.counter;
		UPDATE dcounter_lite.counter AS r SET ops = NEW.ops, op_open = NULL, op_closed = NULL WHERE r.counter = NEW.counter;
	WHEN 'slot' THEN
		UPDATE dcounter_lite.op_slot AS o SET state = NEW.state, since = clock_timestamp(), forgotten = coalesce(NEW.forgotten, o.forgotten) WHERE o.counter = NEW.counter AND o.slot = NEW.slot;
	WHEN 'copy' THEN
		PERFORM dcounter_lite.copy_slots(NEW.counter);
	WHEN 'unbind' THEN
		DELETE FROM dcounter_lite.source AS s WHERE s.counter = NEW.counter;
	WHEN 'forget' THEN
		DELETE FROM dcounter_lite.counter AS r WHERE r.counter = NEW.counter;
	WHEN 'gone' THEN
		PERFORM dcounter_lite.forget_gone();
	END CASE;
	RETURN NULL;
END $$;
COMMENT ON FUNCTION dcounter_lite.make_change() IS 'internal: changes the registry as its owner';
REVOKE EXECUTE ON FUNCTION dcounter_lite.make_change() FROM PUBLIC;

-- lock_key makes setters of one key wait for each other. Writers and compaction do not take this lock.
CREATE FUNCTION dcounter_lite.lock_key(counter regclass, key text) RETURNS void
	LANGUAGE sql VOLATILE PARALLEL UNSAFE COST 50 SET search_path = pg_catalog, pg_temp AS $$
	INSERT INTO dcounter_lite.change (what, counter, key) VALUES ('key', $1, $2) $$;
COMMENT ON FUNCTION dcounter_lite.lock_key(regclass, text) IS 'internal: locks a key against other setters';

-- lock_compaction keeps other compactions of a table away, and setters of a stock. It does not wait, and returns whether it has the lock.
CREATE FUNCTION dcounter_lite.lock_compaction(counter regclass) RETURNS boolean
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE COST 50 SET search_path = pg_catalog, pg_temp AS $$
BEGIN
	INSERT INTO dcounter_lite.change (what, counter) VALUES ('try compaction', $1);
	IF current_setting('dcounter_lite.locked')::boolean THEN
		RETURN true;
	END IF;
	RAISE NOTICE USING ERRCODE = '55P03', MESSAGE = format('skipping compaction of "%s": another transaction compacts or sets it', (SELECT relname FROM pg_class WHERE oid = $1));
	RETURN false;
END $$;
COMMENT ON FUNCTION dcounter_lite.lock_compaction(regclass) IS 'internal: locks a table against other compactions, unless one is at work';
