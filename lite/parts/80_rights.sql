-- Everybody may read the registry, and add rows, as dc_create() does it with the rights of its caller: a trigger lets owners add rows of their own tables
-- only. (Row level security could do that, but then only a superuser could dump the registry.) INSERT allows no lock that counting or reading waits for.
CREATE TRIGGER on_change BEFORE INSERT ON dcounter_lite.counter FOR EACH ROW EXECUTE FUNCTION dcounter_lite.on_registry_change();
CREATE TRIGGER on_change BEFORE INSERT ON dcounter_lite.op_slot FOR EACH ROW EXECUTE FUNCTION dcounter_lite.on_registry_change();
CREATE TRIGGER on_change BEFORE INSERT ON dcounter_lite.source FOR EACH ROW EXECUTE FUNCTION dcounter_lite.on_registry_change();
CREATE TRIGGER on_insert AFTER INSERT ON dcounter_lite.counter FOR EACH ROW EXECUTE FUNCTION dcounter_lite.on_counter_insert();
CREATE TRIGGER check_change BEFORE INSERT ON dcounter_lite.change FOR EACH ROW EXECUTE FUNCTION dcounter_lite.check_change();
CREATE TRIGGER make_change BEFORE INSERT ON dcounter_lite.change FOR EACH ROW EXECUTE FUNCTION dcounter_lite.make_change();
ALTER TABLE dcounter_lite.change ENABLE ALWAYS TRIGGER check_change, ENABLE ALWAYS TRIGGER make_change;
REVOKE UPDATE, DELETE ON dcounter_lite.counter, dcounter_lite.op_slot, dcounter_lite.source FROM PUBLIC;
GRANT SELECT, INSERT ON dcounter_lite.counter, dcounter_lite.op_slot, dcounter_lite.source, dcounter_lite.change TO PUBLIC;
GRANT SELECT ON dcounter_lite.lock TO PUBLIC;
INSERT INTO dcounter_lite.lock (counter, kind, key) SELECT counter, 'compaction', '' FROM dcounter_lite.counter ON CONFLICT DO NOTHING;
