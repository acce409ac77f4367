/*
 * sourceddl.c
 *		Effects of DDL on a source, or on a bound counter table.
 *
 * Copyright (c) 2026, the dcounter developers
 *
 *	- Dropping the counter table or the source ends the binding. The triggers go as well if
 *	  the source can be locked at once; otherwise they stay, and count nothing. The tables of
 *	  reference counts and of carried amounts follow the counter table, and cannot be dropped alone.
 *	- The triggers cannot be dropped, renamed or replaced by themselves (2BP01). If they go with
 *	  something else, a column with CASCADE, bindings whose expressions name it end with a WARNING,
 *	  even if the same command has added a column of that name; those that are left get their
 *	  triggers again. The server refuses to drop
 *	  such a column without CASCADE, or to change its type, by the condition of the trigger for
 *	  updates. Commands that it does not refuse are checked here: types that casts name.
 *	- Disabling a trigger lets changes go uncounted: the state becomes suspect, with a WARNING,
 *	  until the counter is built again. A build or a pass that is under way while triggers are
 *	  switched off or on begins again.
 *	- The tables must stay logged, or a crash would empty one side alone.
 *	- If the tables come to have different owners, rows are counted only while that of the
 *	  source may act as the counter's (sourcecache.c): a WARNING says so at once.
 *
 * sourceparts.c follows partitions, sourcerename.c names.
 */
#include "postgres.h"

#include "access/relation.h"
#include "access/table.h"
#include "catalog/namespace.h"
#include "catalog/pg_trigger.h"
#include "commands/trigger.h"
#include "miscadmin.h"
#include "nodes/parsenodes.h"
#include "storage/lmgr.h"
#include "utils/acl.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"
#include "utils/reltrigger.h"

#include "base/compat.h"
#include "base/relopen.h"
#include "base/runas.h"
#include "core/table/conversion.h"
#include "core/table/protect.h"
#include "core/table/storage.h"
#include "core/table/table.h"
#include "transactional/bound/refs.h"
#include "transactional/bound/sourceddl.h"

/* schema.name */
#define TYPE_KEY_SIZE (2 * NAMEDATALEN)

static void counter_dropped(const DcDdl *ddl, Oid relid);
static void source_dropped(const DcDdl *ddl, Oid source);
static void check_siblings(const DcDdl *ddl);
static bool lacks_sibling(const DcSourceRow *row, void *arg);
static void triggers_dropped(const DcDdl *ddl);
static List *bindings_over(Oid relid);
static void end_broken(const DcDdl *ddl);
static bool sourceddl_is_about(const DcSourceRow *row, void *arg);
static bool is_dropped_type(const char *schema, const char *name, void *arg);
static HTAB *dropped_types(const DcDdl *ddl);
static List *lacking_triggers(const DcDdl *ddl);
static bool is_broken(const DcSourceRow *row, const List *dropped);
static bool sourceddl_names(const DcSourceRow *row, Relation source, bool parses, const char *column);
static bool sourceddl_is_column(const char *schema, const char *name, void *arg);
static void drop_as_owner(Oid relid, bool cascade);
static void end_binding(const DcDdl *ddl, DcSourceRow *row);
static void source_altered(const DcDdl *ddl, Oid relid);
static void triggers_changed(const DcDdl *ddl);
static bool is_right(Oid relid, const char *name);
static void check_enabled(Oid relid, const List *rows);
static bool switches_triggers(const void *parsetree);
static void triggers_switched(const List *rows);
static void sourceddl_suspect(const DcSourceRow *row, Oid relid, const char *name);
static void check_logged(Oid relid, const char *what, Oid counter);
static void sourceddl_check_owner(const DcSourceRow *row);

/*
 * Do what DROP, or a command that drops columns or types, means for bindings: raise an error,
 * or end them.
 */
static void
bound_dropped(const DcDdl *ddl)
{
	ListCell *lc;

	source_parts_dropped(ddl);
	check_siblings(ddl);
	foreach(lc, ddl->relations)
	{
		counter_dropped(ddl, lfirst_oid(lc));
		source_dropped(ddl, lfirst_oid(lc));
	}
	triggers_dropped(ddl);
	if (ddl->types != NIL || ddl->columns != NIL || ddl->triggers != NIL)
		end_broken(ddl);
}

/*
 * End the binding of a dropped counter table, if it has one.
 */
static void
counter_dropped(const DcDdl *ddl, Oid relid)
{
	DcSourceRow row;

	if (source_read(relid, &row))
		bound_forget(&row, source_lock_at_once(row.source), ddl_cascades(ddl));
}

/*
 * source_lock_at_once locks a source and its partitions ACCESS EXCLUSIVE without waiting; false
 * if one of them is locked.
 */
bool
source_lock_at_once(Oid source)
{
	ListCell *lc;

	if (get_rel_name(source) == NULL || !ConditionalLockRelationOid(source, AccessExclusiveLock))
		return false;
	if (get_rel_relkind(source) != RELKIND_PARTITIONED_TABLE)
		return true;
	foreach(lc, relation_members(source, NoLock))
	{
		if (!ConditionalLockRelationOid(lfirst_oid(lc), AccessExclusiveLock))
			return false;
	}
	return true;
}

/*
 * End the bindings of a dropped source, with a NOTICE for each counter table that stays.
 */
static void
source_dropped(const DcDdl *ddl, Oid source)
{
	ListCell *lc;

	foreach(lc, source_rows_of(source))
	{
		const DcSourceRow *row = lfirst(lc);

		if (ddl_keeps(ddl, row->counter))
			ereport(NOTICE,
					(errmsg("counter table \"%s\" is no longer bound, as its source was dropped", get_rel_name(row->counter)),
					 errdetail("Its values remain.")));
		bound_forget(row, false, ddl_cascades(ddl));
	}
}

/*
 * check_siblings raises 2BP01 if a table that a bound counter needs is dropped alone. Commands of
 * any role come here: with the indexes of the current script, they do not read all bindings.
 */
static void
check_siblings(const DcDdl *ddl)
{
	List *counters = NIL;
	ListCell *lc;

	if (!source_finds_siblings())
		counters = ddl->relations != NIL ? source_select(lacks_sibling, (void *) ddl) : NIL;
	else
	{
		foreach(lc, ddl->relations)
		{
			DcSourceRow row;

			if (source_read_by_sibling(lfirst_oid(lc), &row) && lacks_sibling(&row, (void *) ddl))
				counters = lappend_oid(counters, row.counter);
		}
	}
	if (counters != NIL)
		ereport(ERROR,
				(errcode(ERRCODE_DEPENDENT_OBJECTS_STILL_EXIST),
				 errmsg("cannot drop a table that the bound counter table \"%s\" needs", get_rel_name(linitial_oid(counters))),
				 errhint("Call dc_unbind() first, which drops it.")));
}

/*
 * Return true if a command (`arg` is its DcDdl) has dropped a table of a binding, and neither the
 * counter table nor the source.
 */
static bool
lacks_sibling(const DcSourceRow *row, void *arg)
{
	const DcDdl *ddl = arg;

	return ((OidIsValid(row->refs) && list_member_oid(ddl->relations, row->refs)) ||
			(OidIsValid(row->carried) && list_member_oid(ddl->relations, row->carried))) &&
		ddl_keeps(ddl, row->counter) && !list_member_oid(ddl->relations, row->source);
}

/*
 * triggers_dropped raises 2BP01 if a trigger of ours is dropped by itself.
 */
static void
triggers_dropped(const DcDdl *ddl)
{
	ListCell *lc;

	foreach(lc, ddl->triggers)
	{
		const DcDdlTrigger *trigger = lfirst(lc);
		Oid relid;
		List *rows;

		if (!trigger->original || !source_trigger_is_name(trigger->name))
			continue;
		relid = get_relname_relid(trigger->table, get_namespace_oid(trigger->schema, true));
		rows = bindings_over(relid);
		if (rows != NIL)
			ereport(ERROR,
					(errcode(ERRCODE_DEPENDENT_OBJECTS_STILL_EXIST),
					 errmsg("cannot drop trigger \"%s\" of \"%s\" because counter table \"%s\" needs it",
							trigger->name, trigger->table, get_rel_name(((DcSourceRow *) linitial(rows))->counter)),
					 errhint("Call dc_unbind() first.")));
	}
}

/*
 * bindings_over lists the bindings of a table and of all tables that it is a partition of.
 */
static List *
bindings_over(Oid relid)
{
	List *rows = NIL;
	ListCell *lc;

	if (get_rel_name(relid) == NULL)
		return NIL;
	foreach(lc, source_lineage(relid))
		rows = list_concat(rows, source_rows_of(lfirst_oid(lc)));
	return rows;
}

/*
 * end_broken ends the bindings whose expressions name what was dropped with CASCADE, and raises
 * 2BP01 without it. Triggers are adapted afterwards, as that needs the expressions of those
 * that are left.
 */
static void
end_broken(const DcDdl *ddl)
{
	HTAB *types = dropped_types(ddl);
	List *counters = NIL;
	List *sources = lacking_triggers(ddl);
	ListCell *lc;

	/*
	 * with a table goes its row type, which no expression can name: commands of any role do not
	 * look through all texts for it
	 */
	if (hash_get_num_entries(types) > 0)
		counters = source_select(sourceddl_is_about, types);
	foreach(lc, ddl->columns)
	{
		ListCell *lc2;

		foreach(lc2, source_rows_of(((DcDdlColumn *) lfirst(lc))->relid))
			counters = lappend_oid(counters, ((DcSourceRow *) lfirst(lc2))->counter);
	}
	list_sort(counters, list_oid_cmp);
	list_deduplicate_oid(counters);
	foreach(lc, counters)
	{
		DcSourceRow row;

		CHECK_FOR_INTERRUPTS();
		if (get_rel_name(lfirst_oid(lc)) == NULL || !source_read(lfirst_oid(lc), &row) || !is_broken(&row, ddl->columns))
			continue;
		end_binding(ddl, &row);
		sources = list_append_unique_oid(sources, row.source);
	}
	hash_destroy(types);
	foreach(lc, sources)
	{
		if (source_lock_at_once(lfirst_oid(lc)))
			source_triggers_adapt(lfirst_oid(lc));
	}
}

/*
 * Return the sources that a command has dropped a trigger of ours from, with something else.
 */
static List *
lacking_triggers(const DcDdl *ddl)
{
	List *sources = NIL;
	ListCell *lc;

	foreach(lc, ddl->triggers)
	{
		const DcDdlTrigger *trigger = lfirst(lc);
		Oid relid;

		if (trigger->original || !source_trigger_is_name(trigger->name))
			continue;
		relid = get_relname_relid(trigger->table, get_namespace_oid(trigger->schema, true));
		if (OidIsValid(relid) && source_rows_most(relid, 0) != NIL)
			sources = list_append_unique_oid(sources, relid);
	}
	return sources;
}

/*
 * Return true if a command may have dropped a type or a collation that a binding names: a binding
 * that does not parse for another reason must not keep other sessions from dropping their objects.
 */
static bool
sourceddl_is_about(const DcSourceRow *row, void *arg)
{
	return source_any_name(row, is_dropped_type, arg);
}

/*
 * Return true if a name in a text is that of a type or collation that was dropped.
 */
static bool
is_dropped_type(const char *schema, const char *name, void *arg)
{
	char key[TYPE_KEY_SIZE];

	snprintf(key, sizeof(key), "%s.%s", schema != NULL ? schema : "pg_catalog", name);
	return hash_search(arg, key, HASH_FIND, NULL) != NULL;
}

/*
 * Return the names of the types and collations that a command has dropped, but those of row types:
 * with a schema they may be very many.
 */
static HTAB *
dropped_types(const DcDdl *ddl)
{
	HASHCTL ctl = {.keysize = TYPE_KEY_SIZE, .entrysize = TYPE_KEY_SIZE, .hcxt = CurrentMemoryContext};
	HTAB *types = hash_create("dcounter dropped types", Max(list_length(ddl->types), 1), &ctl, HASH_ELEM | HASH_STRINGS | HASH_CONTEXT);
	ListCell *lc;

	foreach(lc, ddl->types)
	{
		const DcDdlName *type = lfirst(lc);
		char key[TYPE_KEY_SIZE];

		snprintf(key, sizeof(key), "%s.%s", type->schema, type->name);
		(void) hash_search(types, key, HASH_ENTER, NULL);
	}
	foreach(lc, ddl->row_types)
	{
		const DcDdlName *type = lfirst(lc);
		char key[TYPE_KEY_SIZE];

		snprintf(key, sizeof(key), "%s.%s", type->schema, type->name);
		(void) hash_search(types, key, HASH_REMOVE, NULL);
	}
	return types;
}

/*
 * Return true if the expressions of a binding name something that does not exist, or one of the
 * columns (DcDdlColumn *) that a command has dropped, which may have added another one of that name.
 * A source that another session has locked against reading is being altered there, and that session
 * will find out itself.
 */
static bool
is_broken(const DcSourceRow *row, const List *dropped)
{
	Relation source;
	bool parses;
	bool missing;
	bool broken;
	ListCell *lc;

	if (!ConditionalLockRelationOid(row->source, AccessShareLock))
		return false;
	source = try_relation_open(row->source, NoLock);
	if (source == NULL)
		return false;
	parses = source_parses(row, source, &missing);
	broken = missing;
	foreach(lc, dropped)
	{
		const DcDdlColumn *column = lfirst(lc);

		broken = broken || (column->relid == row->source && sourceddl_names(row, source, parses, column->name));
	}
	relation_close(source, broken ? NoLock : AccessShareLock); /* there may be very many */
	return broken;
}

/*
 * Return true if the expressions of a binding name a column. If they do not parse, any word of
 * their texts may be its name.
 */
static bool
sourceddl_names(const DcSourceRow *row, Relation source, bool parses, const char *column)
{
	AttrNumber number = get_attnum(row->source, column);

	if (!parses)
		return source_any_name(row, sourceddl_is_column, unconstify(char *, column));
	return number > 0 && bms_is_member(number, source_columns(row, source));
}

/*
 * Return true if a name in a text is that of a column (arg), which has no schema.
 */
static bool
sourceddl_is_column(const char *schema, const char *name, void *arg)
{
	return schema == NULL && strcmp(name, arg) == 0;
}

/*
 * bound_forget ends a binding. The triggers are adapted to those that the source still has if it is
 * locked ACCESS EXCLUSIVE, which the caller says. With `cascade`, what users have put on the tables
 * that belong to it goes as well.
 */
void
bound_forget(const DcSourceRow *row, bool drop_triggers, bool cascade)
{
	Oid tables[] = {row->refs, row->carried};

	if (distribution_is_converting()) /* the tables below have amounts that are nowhere else */
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("a bound counter table or its source cannot be re-created"),
				 errhint("Call dc_unbind() first.")));
	(void) bound_lock(row->counter, true);
	(void) source_delete(row->counter);
	if (drop_triggers && get_rel_name(row->source) != NULL)
		source_triggers_adapt(row->source);
	for (int i = 0; i < lengthof(tables); i++)
	{
		if (OidIsValid(tables[i]) && get_rel_name(tables[i]) != NULL)
			drop_as_owner(tables[i], cascade);
	}
}

/*
 * drop_as_owner drops a table that belongs to a binding, as its owner: the role that drops the
 * source may be another one.
 */
static void
drop_as_owner(Oid relid, bool cascade)
{
	DcRunAs state;

	runas_begin(&state, relation_owner(relid));
	table_drop(relid, cascade);
	runas_end(&state);
}

/*
 * End a binding whose expressions name something that was dropped. Raises 2BP01 without
 * CASCADE, warns with it.
 */
static void
end_binding(const DcDdl *ddl, DcSourceRow *row)
{
	if (!ddl_cascades(ddl))
		ereport(ERROR,
				(errcode(ERRCODE_DEPENDENT_OBJECTS_STILL_EXIST),
				 errmsg("cannot drop an object that the binding of counter table \"%s\" to \"%s\" refers to",
						get_rel_name(row->counter), get_rel_name(row->source)),
				 errhint("Call dc_unbind() first, or use DROP ... CASCADE.")));
	ereport(WARNING,
			(errmsg("counter table \"%s\" is no longer bound to \"%s\"",
					get_rel_name(row->counter), get_rel_name(row->source)),
			 errdetail("An object that its expressions refer to was dropped.")));
	bound_forget(row, false, true);
}

/*
 * Do what any other DDL means for bindings, when the command has run.
 */
static void
bound_altered(const DcDdl *ddl)
{
	ListCell *lc;

	triggers_changed(ddl);
	source_renamed(ddl);
	source_parts_changed(ddl);
	source_children_check(ddl);
	source_swapped();
	foreach(lc, ddl->relations)
	{
		Oid relid = lfirst_oid(lc);
		DcSourceRow row;

		source_altered(ddl, relid);
		if (ddl_alters(ddl) && source_read(relid, &row))
		{
			sibling_follow(ddl, relid, row.refs, DC_REF_SUFFIX);
			sibling_follow(ddl, relid, row.carried, DC_CARRIED_SUFFIX);
			if (has_command(ddl->parsetree, AT_ChangeOwner))
				sourceddl_check_owner(&row);
		}
	}
}

/*
 * source_altered looks at a table that was altered, and may belong to a binding.
 */
static void
source_altered(const DcDdl *ddl, Oid relid)
{
	DcCounterRow counter;
	DcSourceRow row;
	Oid root;
	List *rows;
	ListCell *lc;

	if (get_rel_name(relid) == NULL)
		return;
	if (has_command(ddl->parsetree, AT_SetUnLogged) &&
		member_find(relid, &counter, &root) != DC_MEMBER_NONE && source_read(counter.counter, &row))
		check_logged(relid, "source", row.counter);
	rows = bindings_over(relid);
	if (rows == NIL)
		return;
	check_logged(relid, "counter", InvalidOid);
	if (IsA(ddl->parsetree, AlterTableStmt))
	{
		check_enabled(relid, rows);
		if (switches_triggers(ddl->parsetree) && (!source_triggers_being_made(relid) || source_triggers_being_enabled()))
			triggers_switched(rows);
	}
	foreach(lc, rows)
	{
		if (has_command(ddl->parsetree, COMPAT_AT_SET_EXPRESSION))
			sourceddl_suspect(lfirst(lc), relid, NULL);
		if (has_command(ddl->parsetree, AT_ChangeOwner) && ((DcSourceRow *) lfirst(lc))->source == relid)
			sourceddl_check_owner(lfirst(lc));
	}
}

/*
 * triggers_changed does what follows from CREATE TRIGGER and ALTER TRIGGER, for which the event
 * trigger lists no table.
 */
static void
triggers_changed(const DcDdl *ddl)
{
	RangeVar *relation = NULL;
	const char *name = NULL;
	Oid relid;
	List *rows;

	if (IsA(ddl->parsetree, CreateTrigStmt))
	{
		relation = ((CreateTrigStmt *) ddl->parsetree)->relation;
		name = ((CreateTrigStmt *) ddl->parsetree)->trigname;
	}
	else if (IsA(ddl->parsetree, RenameStmt) && ((RenameStmt *) ddl->parsetree)->renameType == OBJECT_TRIGGER)
	{
		relation = ((RenameStmt *) ddl->parsetree)->relation;
		name = ((RenameStmt *) ddl->parsetree)->subname;
	}
	if (name == NULL || !source_trigger_is_name(name))
		return;
	relid = RangeVarGetRelid(relation, NoLock, true);
	rows = OidIsValid(relid) && !source_triggers_being_made(relid) ? bindings_over(relid) : NIL;
	if (rows != NIL && (IsA(ddl->parsetree, RenameStmt) || ((CreateTrigStmt *) ddl->parsetree)->replace || !is_right(relid, name)))
		ereport(ERROR,
				(errcode(ERRCODE_DEPENDENT_OBJECTS_STILL_EXIST),
				 errmsg("cannot replace or rename trigger \"%s\" of \"%s\" because counter table \"%s\" needs it",
						name, get_rel_name(relid), get_rel_name(((DcSourceRow *) linitial(rows))->counter)),
				 errhint("Call dc_unbind() first.")));
}

/*
 * Return true if a trigger that was just created is what dc_bind() makes: a dump brings it
 * when the binding is there.
 */
static bool
is_right(Oid relid, const char *name)
{
	bool truncate = strcmp(name, SOURCE_TRIGGER_TRUNCATE) == 0;
	Oid function = extension_function(truncate ? SOURCE_TRUNCATE_FUNCTION : SOURCE_ROW_FUNCTION);
	int16 type = truncate ? TRIGGER_TYPE_BEFORE | TRIGGER_TYPE_TRUNCATE : TRIGGER_TYPE_ROW | TRIGGER_TYPE_UPDATE;
	Relation rel = table_open_present(relid, NoLock);
	bool right = false;

	if (strcmp(name, SOURCE_TRIGGER_ROW) == 0)
		type = TRIGGER_TYPE_ROW | TRIGGER_TYPE_INSERT | TRIGGER_TYPE_DELETE;
	for (int i = 0; rel->trigdesc != NULL && i < rel->trigdesc->numtriggers; i++)
	{
		const Trigger *trigger = &rel->trigdesc->triggers[i];

		right |= strcmp(trigger->tgname, name) == 0 && trigger->tgfoid == function &&
			trigger->tgtype == type && trigger->tgnattr == 0;
	}
	table_close(rel, NoLock);
	return right;
}

/*
 * check_enabled makes bindings suspect if triggers of a table are not enabled for all changes
 * that they count.
 */
static void
check_enabled(Oid relid, const List *rows)
{
	Relation rel;
	TriggerDesc *triggers;

	if (source_triggers_being_made(relid))
		return;
	rel = table_open_present(relid, NoLock);
	triggers = CopyTriggerDesc(rel->trigdesc); /* waiting for locks below may rebuild the relcache entry */
	for (int i = 0; triggers != NULL && i < triggers->numtriggers; i++)
	{
		const Trigger *trigger = &triggers->triggers[i];
		ListCell *lc;

		if (!source_trigger_is_name(trigger->tgname) || trigger->tgenabled == TRIGGER_FIRES_ALWAYS)
			continue;
		foreach(lc, rows)
		{
			if (trigger->tgenabled != TRIGGER_FIRES_ON_ORIGIN || ((DcSourceRow *) lfirst(lc))->replicated)
				sourceddl_suspect(lfirst(lc), relid, trigger->tgname);
		}
	}
	table_close(rel, NoLock);
}

/*
 * Return true if a command enables or disables triggers.
 */
static bool
switches_triggers(const void *parsetree)
{
	static const AlterTableType types[] = {
		AT_EnableTrig, AT_EnableAlwaysTrig, AT_EnableReplicaTrig, AT_DisableTrig,
		AT_EnableTrigAll, AT_DisableTrigAll, AT_EnableTrigUser, AT_DisableTrigUser};

	for (int i = 0; i < lengthof(types); i++)
	{
		if (has_command(parsetree, types[i]))
			return true;
	}
	return false;
}

/*
 * triggers_switched makes comparisons that are under way start again: rows may have been
 * written that were not counted, until now.
 */
static void
triggers_switched(const List *rows)
{
	ListCell *lc;

	foreach(lc, rows)
	{
		const DcSourceRow *row = lfirst(lc);
		DcSourceStateRow state;

		(void) bound_lock(row->counter, true);
		if (!source_state_read(row->counter, &state))
			continue;
		state.built_to = NULL;
		state.epoch++;
		source_state_store(&state);
	}
}

/*
 * sourceddl_suspect makes a binding suspect: a trigger (name) does not fire, or a rewrite has
 * changed values (NULL).
 */
static void
sourceddl_suspect(const DcSourceRow *row, Oid relid, const char *name)
{
	DcSourceStateRow state;

	(void) bound_lock(row->counter, true);
	if (!source_state_read(row->counter, &state))
		return;
	if (state.state != DC_SOURCE_SUSPECT)
		ereport(WARNING,
				(errmsg("changes of \"%s\" may not be counted in \"%s\"", get_rel_name(relid), get_rel_name(row->counter)),
				 name != NULL ? errdetail("Trigger \"%s\" does not fire for all of them.", name)
							  : errdetail("No trigger fires for the new values of a generated column."),
				 name != NULL ? errhint("Enable it, and then call dc_build().") : errhint("Call dc_build().")));
	/* even if it was suspect before: a build may be under way */
	source_state_change(row->counter, DC_SOURCE_SUSPECT, false);
}

/*
 * check_logged raises 0A000 for a table of a binding that is not logged.
 */
static void
check_logged(Oid relid, const char *what, Oid counter)
{
	if (get_rel_persistence(relid) != RELPERSISTENCE_UNLOGGED)
		return;
	ereport(ERROR,
			(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
			 OidIsValid(counter)
				 ? errmsg("\"%s\" must be logged, because \"%s\" is bound to a source", get_rel_name(relid), get_rel_name(counter))
				 : errmsg("\"%s\" must be logged, because counters are bound to it", get_rel_name(relid)),
			 errdetail("A crash would empty it, but not the %s.", what)));
}

/*
 * Warn if the owner of the source may no longer act as the counter's, so that changes of rows
 * fail.
 */
static void
sourceddl_check_owner(const DcSourceRow *row)
{
	Oid owner = relation_owner(row->source);
	Oid wanted = relation_owner(row->counter);
	DcCounterRow totals;

	if (owner == wanted || has_privs_of_role(owner, wanted) ||
		catalog_read(row->source, &totals)) /* its table of ranks follows it */
		return;
	ereport(WARNING,
			(errmsg("rows of \"%s\" can no longer be changed: its owner may not count them in \"%s\"",
					get_rel_name(row->source), get_rel_name(row->counter)),
			 errhint("Give both tables to one owner, or call dc_unbind().")));
}

/*
 * Note the state before a command: names in expressions, partitions, names of sources.
 */
static void
bound_begins(const DcDdl *ddl)
{
	source_rename_begins(ddl);
	source_parts_begins(ddl);
}

static const DcDdlHook bound_ddl = {bound_dropped, bound_altered, bound_begins};

/*
 * source_ddl_init registers what this room does around DDL; called when the library is loaded.
 */
void
source_ddl_init(void)
{
	ddl_hook_add(&bound_ddl);
	source_truncate_init();
	source_parts_init();
}
