/*
 * trust.c
 *		Whose code would run as a superuser if rows came to their tables.
 *
 * Before PostgreSQL 16 an apply worker is the owner of its subscription, a superuser, in all that
 * it does. What an owner puts on a table that rows come into is code that it calls: triggers
 * that are ENABLE REPLICA or ALWAYS, of which those with lesser names fire before that of dcounter;
 * defaults of columns that are not sent; domains, whose checks run when a value is read. Nothing in an
 * extension can come before these. So links are not made if rows would come to tables of owners who
 * are no superusers, unless it is said that these are trusted.
 *
 * A subscription finds its tables by name, and these are named by the peer. What they are is not known
 * before it is made, and tables that are added later are fed at once. But rows only
 * come to a table that has all columns that are sent. So besides the tables of counters that are replicated here,
 * each table of this database that has those columns counts.
 *
 * From 16 on, with run_as_owner = false, that code runs as the owner of the table, in a
 * security-restricted operation.
 */
#include "postgres.h"

#include "access/genam.h"
#include "access/htup_details.h"
#include "access/table.h"
#include "base/catrow.h"
#include "base/compat.h"
#include "catalog/pg_class.h"
#include "miscadmin.h"
#include "region/link.h"
#include "region/rights.h"
#include "table/subscription.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"

/* The most names that a message has. */
#define NAMES_MAX 10

static List *untrusted_tables(void);
static List *fed_tables(void);
static bool is_like_one(Oid relid);
static bool has_columns(Oid relid, const char *columns);
static char *names_of(List *tables);

/*
 * owners_check raises 55000 if links may not be made because of owners of tables, unless they are
 * trusted.
 */
void
owners_check(bool trusted)
{
	List *tables;

	if (!COMPAT_APPLY_IS_SUBSCRIBER || trusted)
		return;
	tables = untrusted_tables();
	if (tables == NIL)
		return;
	ereport(ERROR,
			(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
			 errmsg("owners of tables that rows of other regions come to are no superusers: %s", names_of(tables)),
			 errdetail("Before PostgreSQL 16 rows are applied as the owner of the subscription, a superuser. So what these owners put on their tables, as triggers, would run as a superuser."),
			 errhint("Use ALTER TABLE ... OWNER TO a superuser, or PostgreSQL 16. If you trust the owners as you trust a superuser, use trust_owners => true.")));
}

/*
 * owner_warn says the same when a counter is replicated, while there are links that could bring rows to it.
 * It takes another dc_region_join() for that, by somebody else.
 */
void
owner_warn(const DcCounter *counter)
{
	if (!COMPAT_APPLY_IS_SUBSCRIBER || superuser_arg(counter->owner) || links_all() == NIL)
		return;
	ereport(WARNING,
			(errmsg("owner \"%s\" of \"%s\" is no superuser", GetUserNameFromId(counter->owner, false), get_rel_name(counter->relid)),
			 errdetail("Before PostgreSQL 16, no rows of other regions come to it before dc_region_join() was told to trust its owner as a superuser."),
			 errhint("Use ALTER TABLE ... OWNER TO a superuser, or PostgreSQL 16, or dc_region_join() with trust_owners => true.")));
}

/*
 * owner_warn_fed says the same when a counter that links bring rows to is given to another owner.
 */
void
owner_warn_fed(const DcCounterRow *row)
{
	const Oid tables[] = {row->regions, row->sets, row->grants, row->wants};

	for (int i = 0; i < lengthof(tables) && COMPAT_APPLY_IS_SUBSCRIBER; i++)
	{
		Oid owner = relation_owner(tables[i]);
		char *links;

		if (!OidIsValid(owner) || superuser_arg(owner) || (links = table_fed_by(tables[i])) == NULL)
			continue;
		ereport(WARNING,
				(errmsg("owner \"%s\" of \"%s\" is no superuser", GetUserNameFromId(owner, false), get_rel_name(row->counter)),
				 errdetail("The subscription \"%s\" brings rows to its tables. Before PostgreSQL 16 what the owner puts on them, as triggers, runs as a superuser.", links)));
		return;
	}
}

/*
 * untrusted_tables lists those of owners who are no superusers that rows may come to, by OID.
 */
static List *
untrusted_tables(void)
{
	List *fed = fed_tables();
	List *tables = NIL;
	Relation rel = table_open(RelationRelationId, AccessShareLock);
	SysScanDesc scan = systable_beginscan(rel, InvalidOid, false, NULL, 0, NULL);
	HeapTuple tuple;

	while (HeapTupleIsValid(tuple = systable_getnext(scan)))
	{
		Form_pg_class form = (Form_pg_class) GETSTRUCT(tuple);

		CHECK_FOR_INTERRUPTS();
		if ((form->relkind != RELKIND_RELATION && form->relkind != RELKIND_PARTITIONED_TABLE) ||
			form->relpersistence == RELPERSISTENCE_TEMP)
			continue;
		if (superuser_arg(form->relowner))
			continue;
		if (list_member_oid(fed, form->oid) || is_like_one(form->oid))
			tables = lappend_oid(tables, form->oid);
	}
	systable_endscan(scan);
	table_close(rel, AccessShareLock);
	list_sort(tables, list_oid_cmp);
	return tables;
}

/*
 * fed_tables lists the tables that are there to be written to by links.
 */
static List *
fed_tables(void)
{
	List *tables = list_make1_oid(catalog_relation("region"));
	ListCell *lc;

	foreach(lc, catalog_read_all())
	{
		const DcCounterRow *row = lfirst(lc);

		tables = list_concat(tables, list_make4_oid(row->regions, row->sets, row->grants, row->wants));
	}
	return tables;
}

/*
 * is_like_one tells whether a table has what a link can write.
 */
static bool
is_like_one(Oid relid)
{
	return has_columns(relid, region_columns) || has_columns(relid, set_columns) ||
		has_columns(relid, grant_columns) || has_columns(relid, want_columns);
}

/*
 * has_columns tells whether a table has all columns of a list.
 */
static bool
has_columns(Oid relid, const char *columns)
{
	char *list = pstrdup(columns);
	char *rest;
	bool all = true;

	for (char *name = strtok_r(list, ", ", &rest); name != NULL && all; name = strtok_r(NULL, ", ", &rest))
		all = get_attnum(relid, name) > 0;
	pfree(list);
	return all;
}

static char *
names_of(List *tables)
{
	StringInfoData names;
	int n = 0;
	ListCell *lc;

	initStringInfo(&names);
	foreach(lc, tables)
	{
		char *name = get_rel_name(lfirst_oid(lc));
		char *owner = GetUserNameFromId(relation_owner(lfirst_oid(lc)), true);

		if (name == NULL || owner == NULL) /* it was dropped just now */
			continue;
		if (n++ == NAMES_MAX)
		{
			appendStringInfoString(&names, ", ...");
			break;
		}
		appendStringInfo(&names, "%s\"%s\" of \"%s\"", n > 1 ? ", " : "", name, owner);
	}
	return names.data;
}
