-- All that the extension consists of, a line for each fact: its members with their definitions, privileges and comments. Two
-- databases that print the same have the same extension, but for OIDs.
\set ON_ERROR_STOP on
\set QUIET on
\pset format unaligned
\pset tuples_only on
SET search_path = pg_catalog;

CREATE TEMP TABLE member AS
	SELECT d.classid, d.objid, i.type, i.identity
	FROM pg_depend AS d, pg_identify_object(d.classid, d.objid, 0) AS i
	WHERE d.refclassid = 'pg_extension'::regclass AND d.deptype = 'e' AND d.refobjid = (SELECT oid FROM pg_extension WHERE extname = 'dcounter');
CREATE TEMP VIEW facts AS
	SELECT format('%s %s', m.type, m.identity) AS object, 'comment' AS what, obj_description(m.objid, m.classid::regclass::name) AS fact FROM member AS m
	UNION ALL SELECT format('%s %s', m.type, m.identity), 'initial privileges', (SELECT array_agg(format('%s %s', i.objsubid, (SELECT array_agg(a::text ORDER BY a::text) FROM unnest(i.initprivs) AS a)) ORDER BY i.objsubid)::text
		FROM pg_init_privs AS i WHERE i.classoid = m.classid AND i.objoid = m.objid) FROM member AS m

	UNION ALL SELECT p.oid::regprocedure::text, 'function', CASE WHEN p.prokind <> 'a' THEN pg_get_functiondef(p.oid) END FROM pg_proc AS p
	UNION ALL SELECT p.oid::regprocedure::text, 'result', format('%s | %s | %s', p.prokind, pg_get_function_arguments(p.oid), pg_get_function_result(p.oid)) FROM pg_proc AS p
	UNION ALL SELECT p.oid::regprocedure::text, 'privileges', (SELECT array_agg(a::text ORDER BY a::text) FROM unnest(p.proacl) AS a)::text FROM pg_proc AS p
	UNION ALL SELECT a.aggfnoid::regprocedure::text, 'aggregate', (to_jsonb(a) - 'aggfnoid' - 'aggtranstype' - 'aggmtranstype' - 'aggsortop')::text || a.aggtranstype::regtype || a.aggmtranstype::regtype || a.aggsortop::regoperator FROM pg_aggregate AS a

	UNION ALL SELECT c.oid::regclass::text, 'relation', format('%s %s %s %s %s', c.relkind, c.relpersistence, c.reloptions, c.relreplident, c.relrowsecurity) FROM pg_class AS c
	UNION ALL SELECT c.oid::regclass::text, 'privileges', (SELECT array_agg(a::text ORDER BY a::text) FROM unnest(c.relacl) AS a)::text FROM pg_class AS c
	UNION ALL SELECT c.oid::regclass::text, 'view', CASE WHEN c.relkind = 'v' THEN pg_get_viewdef(c.oid) END FROM pg_class AS c
	UNION ALL SELECT c.oid::regclass::text, format('column %s', row_number() OVER (PARTITION BY c.oid ORDER BY a.attnum)),
		format('%s %s %s %s %s %s %s %s | %s | %s', a.attname, format_type(a.atttypid, a.atttypmod), a.attnotnull, a.attcollation::regcollation, a.attstorage, a.attidentity, a.attgenerated, a.attacl,
			(SELECT pg_get_expr(d.adbin, d.adrelid) FROM pg_attrdef AS d WHERE d.adrelid = a.attrelid AND d.adnum = a.attnum), col_description(a.attrelid, a.attnum))
		FROM pg_class AS c JOIN pg_attribute AS a ON a.attrelid = c.oid WHERE a.attnum > 0 AND NOT a.attisdropped
	UNION ALL SELECT i.indrelid::regclass::text, 'index', format('%s | %s %s', pg_get_indexdef(i.indexrelid), i.indisprimary, i.indisvalid) FROM pg_index AS i
	UNION ALL SELECT o.conrelid::regclass::text, 'constraint', format('%s %s', o.conname, pg_get_constraintdef(o.oid)) FROM pg_constraint AS o WHERE o.conrelid <> 0
	UNION ALL SELECT t.tgrelid::regclass::text, 'trigger', format('%s | %s', pg_get_triggerdef(t.oid), t.tgenabled) FROM pg_trigger AS t WHERE NOT t.tgisinternal
	UNION ALL SELECT h.inhrelid::regclass::text, 'inherits', h.inhparent::regclass::text FROM pg_inherits AS h
	UNION ALL SELECT s.seqrelid::regclass::text, 'sequence', (to_jsonb(s) - 'seqrelid')::text FROM pg_sequence AS s

	UNION ALL SELECT format('type %s', format_type(t.oid, NULL)), 'type', (to_jsonb(t) - '{oid,typname,typnamespace,typowner,typrelid,typelem,typarray,typbasetype,typacl}'::text[])::text FROM pg_type AS t
	UNION ALL SELECT format('type %s', format_type(t.oid, NULL)), 'privileges', t.typacl::text FROM pg_type AS t
	UNION ALL SELECT format('operator %s', o.oid::regoperator), 'operator', format('%s %s %s %s %s %s %s', o.oprcode, o.oprcom::regoperator, o.oprnegate::regoperator, o.oprrest, o.oprjoin, o.oprcanhash, o.oprcanmerge) FROM pg_operator AS o
	UNION ALL SELECT format('cast %s to %s', format_type(c.castsource, NULL), format_type(c.casttarget, NULL)), 'cast', format('%s %s %s', c.castfunc::regprocedure, c.castcontext, c.castmethod) FROM pg_cast AS c
	UNION ALL SELECT format('operator class %s.%s', c.opcnamespace::regnamespace, c.opcname), 'operator class', format('%s %s %s %s', c.opcintype::regtype, c.opcdefault, c.opckeytype::regtype, c.opcmethod) FROM pg_opclass AS c
	UNION ALL SELECT format('operator family %s.%s', f.opfnamespace::regnamespace, f.opfname), 'operator of it', format('%s %s %s', o.amopstrategy, o.amopopr::regoperator, o.amoppurpose) FROM pg_amop AS o JOIN pg_opfamily AS f ON f.oid = o.amopfamily
	UNION ALL SELECT format('operator family %s.%s', f.opfnamespace::regnamespace, f.opfname), 'function of it', format('%s %s', p.amprocnum, p.amproc::regprocedure) FROM pg_amproc AS p JOIN pg_opfamily AS f ON f.oid = p.amprocfamily
	UNION ALL SELECT format('event trigger %s', e.evtname), 'event trigger', format('%s %s %s %s', e.evtevent, e.evtfoid::regproc, e.evtenabled, e.evttags) FROM pg_event_trigger AS e
	UNION ALL SELECT format('schema %s', n.nspname), 'privileges', n.nspacl::text FROM pg_namespace AS n
	UNION ALL SELECT 'extension', 'extension', format('%s %s %s', e.extversion, e.extrelocatable, e.extnamespace::regnamespace) FROM pg_extension AS e WHERE e.extname = 'dcounter'
	UNION ALL SELECT 'extension', 'is dumped', format('%s %s', c.relid::regclass, c.condition) FROM pg_extension AS e, unnest(e.extconfig, e.extcondition) AS c (relid, condition) WHERE e.extname = 'dcounter';
-- Those of the schemas that it is in; the database has nothing else there.
SELECT f.t FROM (SELECT format('%s %s', type, identity) AS t FROM member) AS f ORDER BY f.t COLLATE "C";
SELECT object, what, fact FROM facts WHERE fact IS NOT NULL AND (object ~ '(dcounter|dc_)' OR object IN ('extension', 'schema dcounter')) ORDER BY object COLLATE "C", what COLLATE "C", fact COLLATE "C";
