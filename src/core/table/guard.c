/*
 * guard.c
 *		Allowing changes of a ledger's tables only by its functions.
 *
 * Copyright (c) 2026, the dcounter developers
 *
 * The tables belong to a user, the ledger's owner, who could change a row. A trigger refuses
 * that, for the owner and for superusers as well. Statements of the ledger's functions pass.
 * Statements that the owner's code runs during these do not (ownstatement.c). The guard can be
 * dropped or disabled only by DDL. While it is off, the ledger's functions refuse to post
 * (guard_check), and dc_ledger_check() finds changes that were made in the meantime. The guard does
 * not fire where session_replication_role is replica, as in logical replication's workers. The
 * rooms ledger and once say which tables have it.
 *
 * The counter tables of a ledger, for balances and for limits, have the part for rows alone. A
 * role that may post has rights to the table of balances. These are for the ledger's functions
 * to use, not to change balances without entries. Shard rows are still written without SQL: the
 * direct way knows the guard (extras.c). TRUNCATE is for the triggers of protect.c.
 */
#include "postgres.h"

#include "access/table.h"
#include "catalog/namespace.h"
#include "catalog/pg_trigger.h"
#include "commands/trigger.h"
#include "nodes/makefuncs.h"
#include "nodes/value.h"
#include "parser/parse_func.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"

#include "base/args.h"
#include "base/compat.h"
#include "base/runas.h"
#include "core/table/guard.h"
#include "core/table/ownstatement.h"
#include "core/table/protect.h"

PG_FUNCTION_INFO_V1(on_ledger_change);

static int16 guard_ops(Relation rel);

/*
 * guard_create puts the guard on a table, whose name is qualified and quoted.
 */
void
guard_create(const char *table)
{
	guard_create_rows(table);
	guard_create_truncate(table);
}

/*
 * guard_create_rows puts the part of the guard that is for rows on a table.
 */
void
guard_create_rows(const char *table)
{
	run_ddl(psprintf("CREATE OR REPLACE TRIGGER dcounter_guard BEFORE INSERT OR UPDATE OR DELETE ON %s"
					 " FOR EACH ROW EXECUTE FUNCTION " DC_SCHEMA "." LEDGER_GUARD_FUNCTION "()",
					 table));
}

/*
 * guard_create_truncate puts the part of the guard that is for TRUNCATE on a table. A
 * partition does not get it from its parent.
 */
void
guard_create_truncate(const char *table)
{
	run_ddl(psprintf("CREATE OR REPLACE TRIGGER " GUARD_TRUNCATE " BEFORE TRUNCATE ON %s"
					 " FOR EACH STATEMENT EXECUTE FUNCTION " DC_SCHEMA "." LEDGER_GUARD_FUNCTION "()",
					 table));
}

/*
 * Return true if the guard is on a table, and enabled.
 */
bool
guard_is_on(Relation rel)
{
	return guard_keeps_rows(rel) && TRIGGER_FOR_TRUNCATE(guard_ops(rel));
}

/*
 * Return true if the part for rows is on a table, and enabled.
 */
bool
guard_keeps_rows(Relation rel)
{
	int16 ops = guard_ops(rel);

	return TRIGGER_FOR_INSERT(ops) && TRIGGER_FOR_UPDATE(ops) &&
		TRIGGER_FOR_DELETE(ops);
}

/*
 * Return for which operations (bits of tgtype) the guard is on a table and enabled.
 */
static int16
guard_ops(Relation rel)
{
	Oid function = guard_function();
	int16 ops = 0;

	for (int i = 0; rel->trigdesc != NULL && i < rel->trigdesc->numtriggers; i++)
	{
		const Trigger *trigger = &rel->trigdesc->triggers[i];

		if (trigger->tgfoid == function && TRIGGER_FOR_BEFORE(trigger->tgtype) &&
			trigger->tgqual == NULL && trigger->tgnattr == 0 &&
			(trigger->tgenabled == TRIGGER_FIRES_ON_ORIGIN ||
			 trigger->tgenabled == TRIGGER_FIRES_ALWAYS))
			ops |= trigger->tgtype;
	}
	return ops;
}

/*
 * guard_check raises 55000 for a table that is not guarded.
 */
void
guard_check(Oid unguarded)
{
	if (OidIsValid(unguarded))
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("\"%s\" is not protected against changes",
						get_rel_name(unguarded)),
				 errdetail("A trigger of the ledger is missing or disabled."),
				 errhint("Use ALTER TABLE ... ENABLE TRIGGER, or dc_ledger_adopt().")));
}

/*
 * Return the OID of the guard's trigger function.
 */
Oid
guard_function(void)
{
	return extension_function(LEDGER_GUARD_FUNCTION);
}

/*
 * on_ledger_change() -> trigger: refuses changes that do not come from the
 * ledger's functions (55000).
 */
Datum
on_ledger_change(PG_FUNCTION_ARGS)
{
	TriggerData *data = (TriggerData *) fcinfo->context;

	trigger_check(fcinfo, LEDGER_GUARD_FUNCTION "()");
	if (!(TRIGGER_FIRED_BY_TRUNCATE(data->tg_event)
			  ? own_truncate_fires(RelationGetRelid(data->tg_relation))
			  : own_statement_fires(fcinfo)))
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("\"%s\" can only be changed by the functions of its ledger",
						RelationGetRelationName(data->tg_relation)),
				 errhint("Use dc_transfer(), dc_account_open() and the like.")));
	if (TRIGGER_FIRED_BY_UPDATE(data->tg_event))
		PG_RETURN_POINTER(data->tg_newtuple);
	PG_RETURN_POINTER(data->tg_trigtuple);
}
