/*
 * regiontable.c
 *		The tables of a replicated counter: making them, and what they must look like.
 *
 * Copyright (c) 2026, the dcounter developers
 *
 * They belong to the owner of the counter, as the shard table does. Both are plain tables, even if
 * the counter is partitioned. NAME_region is written without SQL (regionrow.c), so it must be as it
 * was created. It has one index, so that updates stay on their page. That is cheaper; also, an
 * apply worker of the server may not find a row that is being moved to another page, and then
 * continues as if the row had never been there.
 *
 * The trigger for rows that come from other regions fires only in apply workers (ENABLE REPLICA).
 * Of the roles that could create such a trigger, only the owner of the database, who restores
 * dumps, may execute its function. So it is created as the bootstrap superuser, in a
 * security-restricted operation.
 */
#include "postgres.h"

#include "access/table.h"
#include "catalog/namespace.h"
#include "catalog/pg_authid.h"
#include "catalog/pg_collation.h"
#include "catalog/pg_trigger.h"
#include "catalog/pg_type.h"
#include "commands/trigger.h"
#include "miscadmin.h"
#include "nodes/value.h"
#include "parser/parse_func.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"
#include "utils/reltrigger.h"

#include "base/compat.h"
#include "base/relopen.h"
#include "base/runas.h"
#include "core/table/extras.h"
#include "core/table/layout.h"
#include "core/table/protect.h"
#include "core/table/table.h"
#include "region/rights.h"
#include "region/sets.h"

#define REGION_COLUMNS \
	"key pg_catalog.text COLLATE pg_catalog.\"C\" NOT NULL," \
	" region pg_catalog.text COLLATE pg_catalog.\"C\" NOT NULL," \
	" epoch pg_catalog.int8 NOT NULL," \
	" inc pg_catalog.int8 NOT NULL," \
	" dec pg_catalog.int8 NOT NULL," \
	" updated_at pg_catalog.timestamptz NOT NULL," \
	" PRIMARY KEY (key, region, epoch)"
#define SET_COLUMNS \
	"key pg_catalog.text COLLATE pg_catalog.\"C\" NOT NULL," \
	" region pg_catalog.text COLLATE pg_catalog.\"C\" NOT NULL," \
	" hlc pg_catalog.int8 NOT NULL," \
	" value pg_catalog.int8 NOT NULL," \
	" deleted pg_catalog.bool NOT NULL," \
	" upto %s NOT NULL," \
	" PRIMARY KEY (key, region)"

const char *const region_columns = "key, region, epoch, inc, dec, updated_at";
const char *const set_columns = "key, region, hlc, value, deleted, upto";

#define MERGE_TRIGGER "dcounter_merge"

static const DcShape region_shape = {
	.relkinds = "r",
	.logged = true,
	.nkeys = 3,
	.keys = {REGION_KEY, REGION_REGION, REGION_EPOCH},
	.ncolumns = REGION_NUM_COLUMNS,
	.columns = {[REGION_KEY] = {"key", TEXTOID, C_COLLATION_OID},
				[REGION_REGION] = {"region", TEXTOID, C_COLLATION_OID},
				[REGION_EPOCH] = {"epoch", INT8OID},
				[REGION_INC] = {"inc", INT8OID},
				[REGION_DEC] = {"dec", INT8OID},
				[REGION_UPDATED_AT] = {"updated_at", TIMESTAMPTZOID}}};

static const DcShape grant_shape = {
	.relkinds = "r",
	.logged = true,
	.nkeys = 5,
	.keys = {GRANT_KEY, GRANT_FROM_REGION, GRANT_FROM_EPOCH, GRANT_TO_REGION, GRANT_TO_EPOCH},
	.ncolumns = GRANT_NUM_COLUMNS,
	.columns = {[GRANT_KEY] = {"key", TEXTOID, C_COLLATION_OID},
				[GRANT_FROM_REGION] = {"from_region", TEXTOID, C_COLLATION_OID},
				[GRANT_FROM_EPOCH] = {"from_epoch", INT8OID},
				[GRANT_TO_REGION] = {"to_region", TEXTOID, C_COLLATION_OID},
				[GRANT_TO_EPOCH] = {"to_epoch", INT8OID},
				[GRANT_UNITS] = {"units", INT8OID}}};

static const DcShape want_shape = {
	.relkinds = "r",
	.logged = true,
	.nkeys = 2,
	.keys = {WANT_KEY, WANT_REGION},
	.ncolumns = WANT_NUM_COLUMNS,
	.columns = {[WANT_KEY] = {"key", TEXTOID, C_COLLATION_OID},
				[WANT_REGION] = {"region", TEXTOID, C_COLLATION_OID},
				[WANT_EPOCH] = {"epoch", INT8OID},
				[WANT_HLC] = {"hlc", INT8OID},
				[WANT_SINCE] = {"since", INT8OID},
				[WANT_WANTED] = {"wanted", INT8OID},
				[WANT_LOW] = {"low", INT8OID},
				[WANT_GRANTED] = {"granted", INT8OID},
				[WANT_KEPT] = {"kept", INT8OID},
				[WANT_WAITS] = {"waits", INT8OID},
				[WANT_ASKED] = {"asked", INT8OID},
				[WANT_ASKED_AT] = {"asked_at", INT8OID},
				[WANT_UNTIL] = {"until", TIMESTAMPTZOID},
				[WANT_UNITS] = {"units", INT8OID},
				[WANT_GIVEN] = {"given", INT8OID}}};

static bool is_merge_trigger(const Trigger *trigger);
static const char *region_table_problem(Relation rel, const DcTableLayout *layout);

/*
 * region_tables_create makes the tables of a counter table, as its owner, and sets them in its
 * row. The types of this extension are in schema `types`.
 */
void
region_tables_create(DcCounter *counter, DcCounterRow *row, Oid types)
{
	char *upto = quote_qualified_identifier(get_namespace_name(types), "dc_pncounter");
	DcRunAs state;

	runas_begin(&state, counter->owner);
	row->regions = sibling_create(counter->relid, DC_REGION_SUFFIX, REGION_COLUMNS, REGION_OPTIONS, false,
								  "what each region has counted; see dc_replicate()");
	row->sets = sibling_create(counter->relid, DC_SET_SUFFIX, psprintf(SET_COLUMNS, upto), REGION_OPTIONS, false,
							   "what each region has set keys to; see dc_replicate()");
	runas_end(&state);
	runas_begin(&state, BOOTSTRAP_SUPERUSERID);
	merge_trigger_create(row->regions, "merge_region");
	merge_trigger_create(row->sets, "merge_set");
	runas_end(&state);
}

/*
 * merge_trigger_create puts the trigger for rows that come from other regions on a table, as the
 * current user.
 */
void
merge_trigger_create(Oid relid, const char *function)
{
	char *table = relation_sql_name(relid);

	trigger_create(relid, MERGE_TRIGGER,
				   psprintf("BEFORE INSERT OR UPDATE ON %s FOR EACH ROW EXECUTE FUNCTION " DC_SCHEMA ".%s()",
							table, function));
	run_ddl(psprintf("ALTER TABLE %s ENABLE REPLICA TRIGGER " MERGE_TRIGGER, table));
}

/*
 * region_tables_adopt finds the tables of a counter table that is being adopted, if it was
 * replicated, and the user may replicate it. Its totals are then published. The triggers exist, as
 * they are part of a dump.
 */
void
region_tables_adopt(DcCounterRow *row, Oid functions)
{
	DcIdentity identity;
	DcTableLayout layout;
	DcShapeProblem problem = {0};
	Relation rel;

	row->regions = sibling_find(row->counter, DC_REGION_SUFFIX);
	row->sets = sibling_find(row->counter, DC_SET_SUFFIX);
	if (!OidIsValid(row->regions) || !OidIsValid(row->sets) ||
		relation_owner(row->regions) != relation_owner(row->counter) ||
		relation_owner(row->sets) != relation_owner(row->counter) ||
		!region_may_adopt(row, functions))
	{
		row->regions = row->sets = InvalidOid;
		return;
	}
	lock_own_table(row->regions, ShareUpdateExclusiveLock);
	lock_own_table(row->sets, ShareUpdateExclusiveLock);
	rel = table_open_present(row->regions, NoLock);
	shape_check(rel, &region_shape, &layout);
	table_close(rel, NoLock);
	rel = table_open_present(row->sets, NoLock);
	if (!region_table_fits(rel, TABLE_OF_SETS, &layout, &problem))
		shape_error(RelationGetRelationName(rel), &problem);
	table_close(rel, NoLock);
	/* the epochs removed with deleted keys are not known; at most half of a key's slots were */
	row->rights_epoch = region_self(&identity) ? identity.epoch + REGION_EPOCH_SLOTS / 2 : 0;
	row->totals = DC_TOTALS_COMPACTED;
}

/*
 * Return true if the user may make a counter replicated with existing tables: as with
 * dc_replicate(), the jobs and links that all counters share then process these. The owner of the
 * database, who restores dumps, may do so as well. A notice says what is missing.
 */
bool
region_may_adopt(const DcCounterRow *row, Oid functions)
{
	const Oid args[] = {REGCLASSOID, BOOLOID};
	char *schema = get_namespace_name(functions);
	Oid function = LookupFuncName(list_make2(makeString(schema), makeString("dc_replicate")), lengthof(args), args, true);

	if (compat_owns_database(MyDatabaseId, GetUserId()) ||
		(OidIsValid(function) && compat_may_execute(function, GetUserId())))
		return true;
	ereport(NOTICE,
			(errmsg("\"%s\" is adopted as a counter table that is not replicated; its region tables are not used", get_rel_name(row->counter)),
			 errdetail("To adopt them, you need the privilege EXECUTE on function dc_replicate."),
			 errhint("Ask a superuser for GRANT EXECUTE ON FUNCTION %s TO %s. Then drop the region tables, and call dc_replicate().",
					 quote_qualified_identifier(schema, "dc_replicate"), quote_identifier(GetUserNameFromId(GetUserId(), false)))));
	return false;
}

/*
 * Return one of the tables of a counter, or InvalidOid.
 */
Oid
region_table_of(const DcCounterRow *row, DcRegionTable table)
{
	const Oid tables[] = {row->regions, row->sets, row->grants, row->wants};

	return tables[table];
}

/*
 * Return what such a table looks like. The column "upto" of a table of sets has its type from a
 * table.
 */
const DcShape *
region_shape_of(DcRegionTable table)
{
	static const DcShape *const shapes[] = {&region_shape, &set_shape, &grant_shape, &want_shape};

	return shapes[table];
}

/*
 * Return true if a table has its columns and its key.
 */
bool
region_columns_fit(Relation rel, DcRegionTable table, DcTableLayout *layout, DcShapeProblem *problem)
{
	DcShape shape = *region_shape_of(table);

	if (table == TABLE_OF_SETS && !OidIsValid(shape.columns[SET_UPTO].type = set_upto_type(rel)))
	{
		problem->detail = _("It needs a column \"upto\" of type dc_pncounter that is not null.");
		return false;
	}
	if (!shape_fits(rel, &shape, layout, problem))
		return false;
	if (table == TABLE_OF_SETS && TupleDescAttr(RelationGetDescr(rel), layout->atts[SET_UPTO] - 1)->attstorage == TYPSTORAGE_PLAIN)
	{
		problem->detail = _("Its column \"upto\" has storage PLAIN, in which large values do not fit.");
		return false;
	}
	return true;
}

/*
 * Return true if a table can be written to without SQL as well.
 */
bool
region_table_fits(Relation rel, DcRegionTable table, DcTableLayout *layout, DcShapeProblem *problem)
{
	if (region_columns_fit(rel, table, layout, problem))
		problem->detail = region_table_problem(rel, layout);
	return problem->detail == NULL;
}

/*
 * Check one of the tables of a counter, which is open, as counter_layout() checks the others. Raise
 * 42809 also if it cannot be written without SQL, since there is no other way.
 */
const DcTableLayout *
region_layout(DcCounter *counter, Relation rel, DcRegionTable table)
{
	DcTableLayout *layout = &counter->region_layouts[table];
	DcShapeProblem problem = {0};
	uint32 generation;

	if (counter->valid && counter->region_generations[table] == counter->generation)
		return layout;
	if (!counter->valid)
		(void) counter_lookup(counter->relid); /* the same entry */
	generation = counter->generation;
	if (!region_table_fits(rel, table, layout, &problem))
		shape_error(RelationGetRelationName(rel), &problem);
	counter->region_generations[table] = generation;
	return layout;
}

/*
 * region_table_problem returns, as a sentence, why writing a row would do more than write it, or
 * NULL. The server calls triggers that fire in apply workers, some of them before this can be
 * checked; but then the row is not written.
 */
static const char *
region_table_problem(Relation rel, const DcTableLayout *layout)
{
	if (!layout->heap || !layout->alone || !OidIsValid(layout->index))
		return _("It must be a plain table, without additional columns.");
	for (int i = 0; rel->trigdesc != NULL && i < rel->trigdesc->numtriggers; i++)
	{
		const Trigger *trigger = &rel->trigdesc->triggers[i];

		if (trigger->tgenabled != TRIGGER_DISABLED && !is_merge_trigger(trigger) &&
			(TRIGGER_FOR_INSERT(trigger->tgtype) || TRIGGER_FOR_UPDATE(trigger->tgtype) || TRIGGER_FOR_DELETE(trigger->tgtype)))
			return _("It has a trigger.");
	}
	return extras_problem(rel, EXTRAS_OF_REGIONS);
}

/*
 * Return true if a trigger is the one for rows that come from other regions. There is one of that
 * name; a second one with another name would add the amounts twice. Only the owner of the extension
 * can create functions in its schema.
 */
static bool
is_merge_trigger(const Trigger *trigger)
{
	return strcmp(trigger->tgname, MERGE_TRIGGER) == 0 && trigger->tgenabled == TRIGGER_FIRES_ON_REPLICA &&
		get_func_namespace(trigger->tgfoid) == get_namespace_oid(DC_SCHEMA, true);
}

/*
 * Return true if it is there.
 */
bool
has_merge_trigger(Relation rel)
{
	for (int i = 0; rel->trigdesc != NULL && i < rel->trigdesc->numtriggers; i++)
	{
		if (is_merge_trigger(&rel->trigdesc->triggers[i]))
			return true;
	}
	return false;
}
