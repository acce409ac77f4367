/*
 * sourcetriggerddl.c
 *		The triggers on a source: one set for all counters that are bound to it.
 *
 * Copyright (c) 2026, the dcounter developers
 *
 *	- dcounter_source_row, AFTER INSERT OR DELETE FOR EACH ROW.
 *	- dcounter_source_update, AFTER UPDATE FOR EACH ROW, with a condition that is true if a
 *	  column has changed that an expression names. So other updates cost next to nothing, and
 *	  since the server knows on what the condition depends, it refuses to drop such a column or to
 *	  change its type. Without such columns there is no such trigger. With a binding that does not
 *	  parse any more, the condition is always true.
 *	- dcounter_source_truncate, BEFORE TRUNCATE FOR EACH STATEMENT (sourcetruncate.c).
 *
 * They are ordinary triggers, made by SQL as the caller, so pg_dump has them, and partitions get
 * their copies of those for rows from the server. If a counter is bound with replicated => true
 * they fire always; the others then ignore what a subscription applies (sourcetrigger.c).
 */
#include "postgres.h"

#include "access/genam.h"
#include "access/htup_details.h"
#include "access/table.h"
#include "catalog/dependency.h"
#include "catalog/pg_trigger.h"
#include "catalog/pg_type.h"
#include "commands/trigger.h"
#include "fmgr.h"
#include "nodes/bitmapset.h"
#include "utils/builtins.h"
#include "utils/datum.h"
#include "utils/fmgroids.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"

#include "base/compat.h"
#include "base/relopen.h"
#include "base/runas.h"
#include "core/table/protect.h"
#include "transactional/bound/sourceddl.h"

PG_FUNCTION_INFO_V1(source_differs);

/* The table that make_trigger() is at work on, or InvalidOid. */
static Oid being_made = InvalidOid;
static bool being_enabled = false; /* and that did not fire before */

static void make_row_trigger(Oid source, const char *name, const char *event, const char *condition, bool always);
static void make_trigger(Oid relid, const char *name, const char *definition, bool always);
static void drop_trigger(Oid source, const char *name);
static void check_name(Oid relid, const char *name);
static bool sourcetriggerddl_is_ours(const Trigger *trigger);
static char *update_condition(Oid source, const List *rows);
static void sourcetriggerddl_add_column(StringInfo condition, Form_pg_attribute att);
static bool equal_is_same(Form_pg_attribute att);
static void make_truncate_trigger(Oid relid, bool always);
static bool fires_on(Relation triggers, Oid relid, bool replicated, Snapshot snapshot);

/*
 * source_triggers_make makes the triggers that the bindings of a source need, or replaces them.
 * The source and its partitions are locked SHARE ROW EXCLUSIVE, or stronger if it may turn out
 * that no trigger for updates is needed any more.
 */
void
source_triggers_make(Oid source)
{
	List *rows = source_rows_of(source);
	bool always = false;
	char *condition = update_condition(source, rows);
	ListCell *lc;

	foreach(lc, rows)
		always |= ((DcSourceRow *) lfirst(lc))->replicated;
	make_row_trigger(source, SOURCE_TRIGGER_ROW, "INSERT OR DELETE", NULL, always);
	if (condition != NULL)
		make_row_trigger(source, SOURCE_TRIGGER_UPDATE, "UPDATE", condition, always);
	else
		drop_trigger(source, SOURCE_TRIGGER_UPDATE);
	source_truncate_triggers(source, always);
}

/*
 * source_triggers_adapt makes the triggers of a source those that its bindings need, some of
 * which have ended, or drops them. The source and its partitions are locked ACCESS EXCLUSIVE.
 * The role that unbinds a counter need not own its source.
 */
void
source_triggers_adapt(Oid source)
{
	if (source_rows_of(source) != NIL)
	{
		source_triggers_make(source);
		return;
	}
	drop_trigger(source, SOURCE_TRIGGER_ROW);
	drop_trigger(source, SOURCE_TRIGGER_UPDATE);
	source_truncate_triggers_drop(source);
}

/*
 * Make the trigger for an event (INSERT OR DELETE, UPDATE), or replace it; condition may be
 * NULL.
 */
static void
make_row_trigger(Oid source, const char *name, const char *event, const char *condition, bool always)
{
	char *when = condition != NULL ? psprintf(" WHEN (%s)", condition) : "";

	make_trigger(source, name,
				 psprintf("AFTER %s ON %s FOR EACH ROW%s EXECUTE FUNCTION " DC_SCHEMA "." SOURCE_ROW_FUNCTION "()",
						  event, relation_sql_name(source), when),
				 always);
}

/*
 * check_name raises 42710 if a trigger that is not ours has the name.
 */
static void
check_name(Oid relid, const char *name)
{
	Relation rel = table_open_present(relid, NoLock);
	TriggerDesc *triggers = CopyTriggerDesc(rel->trigdesc); /* looking up functions may rebuild the relcache entry */

	for (int i = 0; triggers != NULL && i < triggers->numtriggers; i++)
	{
		const Trigger *trigger = &triggers->triggers[i];

		if (strcmp(trigger->tgname, name) == 0 && !sourcetriggerddl_is_ours(trigger))
			ereport(ERROR,
					(errcode(ERRCODE_DUPLICATE_OBJECT),
					 errmsg("trigger \"%s\" for relation \"%s\" already exists", name, RelationGetRelationName(rel))));
	}
	table_close(rel, NoLock);
}

/*
 * Return true if a trigger calls one of the functions of this room.
 */
static bool
sourcetriggerddl_is_ours(const Trigger *trigger)
{
	return trigger->tgfoid == extension_function(SOURCE_ROW_FUNCTION) ||
		trigger->tgfoid == extension_function(SOURCE_TRUNCATE_FUNCTION);
}

/*
 * make_trigger creates a trigger on a source or a partition of one, or replaces it. It does so as
 * the owner of the table: a partition may have another one, and a role that unbinds one of several
 * counters need not own the source.
 */
static void
make_trigger(Oid relid, const char *name, const char *definition, bool always)
{
	DcRunAs state;
	char *table = relation_sql_name(relid);
	Oid outer = being_made;
	bool outer_enabled = being_enabled;
	bool fired = source_triggers_fire(relation_members(relid, NoLock), false, NULL);

	check_name(relid, name);
	runas_begin(&state, relation_owner(relid));
	PG_TRY();
	{
		being_made = relid;
		being_enabled = !fired;
		trigger_create(relid, name, definition);
		run_ddl(psprintf("ALTER TABLE %s ENABLE %s TRIGGER %s", table, always ? "ALWAYS" : "", name));
	}
	PG_FINALLY();
	{
		being_made = outer;
		being_enabled = outer_enabled;
	}
	PG_END_TRY();
	runas_end(&state);
	run_ddl_done(OidIsValid(get_trigger_oid(relid, name, true)), table);
}

/*
 * Return true if this backend is creating the triggers of the table: some may
 * still be missing, or not have their final form.
 */
bool
source_triggers_being_made(Oid relid)
{
	return relid == being_made;
}

/*
 * Return true if the triggers that are being made did not all fire before.
 */
bool
source_triggers_being_enabled(void)
{
	return being_enabled;
}

/*
 * Return true if a trigger of ours has a name.
 */
bool
source_trigger_is_name(const char *name)
{
	return strcmp(name, SOURCE_TRIGGER_ROW) == 0 || strcmp(name, SOURCE_TRIGGER_UPDATE) == 0 ||
		strcmp(name, SOURCE_TRIGGER_TRUNCATE) == 0;
}

/*
 * update_condition returns the condition of the trigger for updates; NULL if no column is used. With
 * a binding that does not parse it is always true: that binding raises an error for each change, and
 * the others can be unbound. It names the columns of the others all the same, so they cannot be
 * dropped.
 */
static char *
update_condition(Oid source, const List *rows)
{
	Relation rel = table_open_present(source, NoLock);
	Bitmapset *columns = NULL;
	StringInfoData condition;
	ListCell *lc;
	int column = -1;

	initStringInfo(&condition);
	foreach(lc, rows)
	{
		bool missing;

		if (source_parses(lfirst(lc), rel, &missing))
			columns = bms_join(columns, source_columns(lfirst(lc), rel));
		else if (condition.len == 0)
			appendStringInfoString(&condition, "true");
	}
	while ((column = bms_next_member(columns, column)) >= 0)
		sourcetriggerddl_add_column(&condition, TupleDescAttr(RelationGetDescr(rel), column - 1));
	table_close(rel, NoLock);
	return condition.len > 0 ? condition.data : NULL;
}

/*
 * sourcetriggerddl_add_column adds the test for a change of a column. Values that are equal may
 * still yield different results of an expression: 1.0 and 1.00, an hour and sixty minutes, 'a'
 * and 'A' in a collation that says so. For types where the server's equality is not that
 * strict, their bytes are compared.
 */
static void
sourcetriggerddl_add_column(StringInfo condition, Form_pg_attribute att)
{
	const char *name = quote_identifier(NameStr(att->attname));

	appendStringInfo(condition,
					 equal_is_same(att) ? "%sOLD.%s IS DISTINCT FROM NEW.%s" : "%s" DC_SCHEMA ".source_differs(OLD.%s, NEW.%s)",
					 condition->len > 0 ? " OR " : "", name, name);
}

/*
 * Return true if values of a column that are equal are the same in every respect.
 */
static bool
equal_is_same(Form_pg_attribute att)
{
	Oid type = getBaseType(att->atttypid);

	switch (type)
	{
		case BOOLOID:
		case INT2OID:
		case INT4OID:
		case INT8OID:
		case OIDOID:
		case DATEOID:
		case TIMESTAMPOID:
		case TIMESTAMPTZOID:
		case UUIDOID:
		case BYTEAOID:
			return true;
		case TEXTOID:
		case VARCHAROID:
			return get_collation_isdeterministic(att->attcollation);
		default:
			return get_typtype(type) == TYPTYPE_ENUM;
	}
}

/*
 * source_differs(anyelement, anyelement) -> boolean
 *
 * True if two values, or nulls, differ in a byte. It calls no function of their type.
 */
Datum
source_differs(PG_FUNCTION_ARGS)
{
	Oid type = get_fn_expr_argtype(fcinfo->flinfo, 0);
	int16 len;
	bool byval;

	if (!OidIsValid(type))
		elog(ERROR, "source_differs() does not know the type of its arguments");
	if (PG_ARGISNULL(0) || PG_ARGISNULL(1))
		PG_RETURN_BOOL(PG_ARGISNULL(0) != PG_ARGISNULL(1));
	get_typlenbyval(type, &len, &byval);
	PG_RETURN_BOOL(!datum_image_eq(PG_GETARG_DATUM(0), PG_GETARG_DATUM(1), byval, len));
}

/*
 * drop_trigger drops a trigger that is one of ours, if it is there. Its copies on partitions go
 * with it.
 */
static void
drop_trigger(Oid source, const char *name)
{
	Relation rel = table_open_present(source, NoLock);
	TriggerDesc *triggers = CopyTriggerDesc(rel->trigdesc); /* as in check_name() */
	ObjectAddress address = {0};

	for (int i = 0; triggers != NULL && i < triggers->numtriggers; i++)
	{
		const Trigger *trigger = &triggers->triggers[i];

		if (strcmp(trigger->tgname, name) == 0 && !trigger->tgisclone && sourcetriggerddl_is_ours(trigger))
			ObjectAddressSet(address, TriggerRelationId, trigger->tgoid);
	}
	table_close(rel, NoLock);
	if (OidIsValid(address.objectId))
	{
		performDeletion(&address, DROP_RESTRICT, PERFORM_DELETION_INTERNAL);
		CommandCounterIncrement();
	}
}

/*
 * source_truncate_triggers puts the trigger on a source, or on a partition of one, and on all their
 * partitions, which are locked SHARE ROW EXCLUSIVE.
 */
void
source_truncate_triggers(Oid relid, bool always)
{
	ListCell *lc;

	make_truncate_trigger(relid, always);
	if (get_rel_relkind(relid) != RELKIND_PARTITIONED_TABLE)
		return;
	foreach(lc, source_leaves(relid, ShareRowExclusiveLock))
		make_truncate_trigger(lfirst_oid(lc), always);
}

/*
 * Make the trigger for TRUNCATE on a table, or replace it.
 */
static void
make_truncate_trigger(Oid relid, bool always)
{
	make_trigger(relid, SOURCE_TRIGGER_TRUNCATE,
				 psprintf("BEFORE TRUNCATE ON %s FOR EACH STATEMENT EXECUTE FUNCTION " DC_SCHEMA "." SOURCE_TRUNCATE_FUNCTION "()",
						  relation_sql_name(relid)),
				 always);
}

/*
 * source_truncate_triggers_drop drops the triggers for TRUNCATE where no source is left. The
 * tables are locked ACCESS EXCLUSIVE.
 */
void
source_truncate_triggers_drop(Oid relid)
{
	List *members = get_rel_relkind(relid) == RELKIND_PARTITIONED_TABLE
		? relation_members(relid, AccessExclusiveLock)
		: list_make1_oid(relid);
	ListCell *lc;

	foreach(lc, members)
	{
		bool counts = false;
		ListCell *lc2;

		foreach(lc2, source_lineage(lfirst_oid(lc)))
			counts |= source_rows_of(lfirst_oid(lc2)) != NIL;
		if (!counts)
			drop_trigger(lfirst_oid(lc), SOURCE_TRIGGER_TRUNCATE);
	}
}

/*
 * Return true if a snapshot shows triggers on a source and its partitions (members)
 * that count all that is written, also by a subscription if that counts, except for sessions that
 * have turned off all triggers. NULL: as they are now.
 */
bool
source_triggers_fire(const List *members, bool replicated, Snapshot snapshot)
{
	Relation rel = table_open(TriggerRelationId, AccessShareLock);
	bool fire = true;
	ListCell *lc;

	foreach(lc, members)
		fire = fire && fires_on(rel, lfirst_oid(lc), replicated, snapshot);
	table_close(rel, AccessShareLock);
	return fire;
}

/*
 * Return true if a snapshot shows our triggers on a table, all of them enabled: ALWAYS if the
 * binding is replicated.
 */
static bool
fires_on(Relation triggers, Oid relid, bool replicated, Snapshot snapshot)
{
	Oid row = extension_function(SOURCE_ROW_FUNCTION);
	Oid truncate = extension_function(SOURCE_TRUNCATE_FUNCTION);
	SysScanDesc scan;
	ScanKeyData key;
	HeapTuple tuple;
	bool any = false;
	bool all = true;

	ScanKeyInit(&key, Anum_pg_trigger_tgrelid, BTEqualStrategyNumber, F_OIDEQ, ObjectIdGetDatum(relid));
	scan = systable_beginscan(triggers, TriggerRelidNameIndexId, true, snapshot, 1, &key);
	while (HeapTupleIsValid(tuple = systable_getnext(scan)))
	{
		Form_pg_trigger trigger = (Form_pg_trigger) GETSTRUCT(tuple);

		if (trigger->tgfoid != row && trigger->tgfoid != truncate)
			continue;
		any |= trigger->tgfoid == row && TRIGGER_FOR_INSERT(trigger->tgtype);
		all &= trigger->tgenabled == TRIGGER_FIRES_ALWAYS ||
			(trigger->tgenabled == TRIGGER_FIRES_ON_ORIGIN && !replicated);
	}
	systable_endscan(scan);
	return any && all;
}
