/*
 * publication.c
 *		The publications by which regions send their rows.
 *
 * Copyright (c) 2026, the dcounter developers
 *
 *		dcounter_own	the rows of this region: for a mesh, where each region gets each
 *						other's by a link of its own
 *		dcounter_all	the rows of all regions: for a hub, a ring, or a region that was damaged
 *
 * They belong to the owner of the database, who has called dc_region_init(). Tables belong to the
 * owners of counters. Adding a table to a publication needs the rights of both, and only superusers
 * may have both. So it is done as the bootstrap superuser, in a security-restricted operation, by a
 * statement that names one table and runs no code, after two checks: the caller owns the table, and
 * the publication belongs to a role that may act as the owner of the database. Neither can do more
 * with it than with their own rights: the table was created by dcounter, its owner has asked for
 * its rows to be sent, and the owner of the database decides who may replicate.
 *
 * An existing publication of that name, as in a database that was restored, is used if it is as
 * dcounter would make it. A dump does not include that the extension's own table of heartbeats is
 * in them, and may lack the publications. So missing tables are added when a database renews or
 * creates a link, and by dc_region_publish().
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "catalog/pg_authid.h"
#include "catalog/pg_database.h"
#include "catalog/pg_publication.h"
#include "miscadmin.h"
#include "utils/acl.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/syscache.h"

#include "base/compat.h"
#include "base/runas.h"
#include "region/link.h"
#include "region/region.h"

/* The first has only the rows of this region. */
static const char *const names[] = {PUBLICATION_OWN, PUBLICATION_ALL};

static void check_publication(const char *name);
static bool is_member(const char *name, Oid relid);
static bool publication_lacks(const char *name, Oid relid);
static void publication_add(const char *name, Oid relid, const char *columns, const char *filter);

/*
 * publications_create makes them, as the current user.
 */
void
publications_create(void)
{
	for (int i = 0; i < lengthof(names); i++)
	{
		if (!OidIsValid(get_publication_oid(names[i], true)))
			run_ddl(psprintf("CREATE PUBLICATION %s WITH (publish = 'insert, update')", names[i]));
		check_publication(names[i]);
	}
}

/*
 * publications_create_as_owner makes them as the owner of the database.
 */
void
publications_create_as_owner(void)
{
	HeapTuple tuple = SearchSysCache1(DATABASEOID, ObjectIdGetDatum(MyDatabaseId));
	DcRunAs state;
	Oid owner;

	if (!HeapTupleIsValid(tuple))
		elog(ERROR, "cache lookup failed for database %u", MyDatabaseId);
	owner = ((Form_pg_database) GETSTRUCT(tuple))->datdba;
	ReleaseSysCache(tuple);
	runas_begin(&state, owner);
	publications_create();
	runas_end(&state);
}

/*
 * check_publication raises 55000 if a publication is not as dcounter makes it: another owner could
 * decide what is published.
 */
static void
check_publication(const char *name)
{
	HeapTuple tuple = SearchSysCache1(PUBLICATIONNAME, CStringGetDatum(name));
	Form_pg_publication form;
	bool owned;
	bool right;

	if (!HeapTupleIsValid(tuple))
		ereport(ERROR,
				(errcode(ERRCODE_UNDEFINED_OBJECT),
				 errmsg("publication \"%s\" does not exist", name),
				 errhint("Call dc_region_publish(), which creates it.")));
	form = (Form_pg_publication) GETSTRUCT(tuple);
	owned = compat_owns_database(MyDatabaseId, form->pubowner);
	right = form->pubinsert && form->pubupdate && !form->pubdelete && !form->pubtruncate &&
		!form->puballtables && !form->pubviaroot;
	ReleaseSysCache(tuple);
	if (!owned || !right)
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("publication \"%s\" is not as dcounter creates it", name),
				 owned ? errdetail("It must publish 'insert, update' of single tables.")
					   : errdetail("It must belong to the owner of the database.")));
}

/*
 * publications_add adds some columns of a table of the extension, or of a counter whose owner has
 * asked for that, to both publications; to dcounter_own, only the rows whose `column` is the name
 * of this region.
 */
void
publications_add(Oid relid, const char *columns, const char *column, const char *region)
{
	publications_add_filtered(relid, columns, column, region, NULL);
}

/*
 * publications_add_filtered does the same, but in both publications only for rows that pass a
 * filter.
 */
void
publications_add_filtered(Oid relid, const char *columns, const char *column, const char *region,
						  const char *filter)
{
	char *own = psprintf("%s OPERATOR(pg_catalog.=) %s", column, quote_literal_cstr(region));
	DcRunAs state;

	for (int i = 0; i < lengthof(names); i++)
		check_publication(names[i]);
	runas_begin(&state, BOOTSTRAP_SUPERUSERID);
	if (filter == NULL)
	{
		publication_add(names[0], relid, columns, psprintf(" WHERE (%s)", own));
		publication_add(names[1], relid, columns, "");
	}
	else
	{
		publication_add(names[0], relid, columns, psprintf(" WHERE (%s AND %s)", own, filter));
		publication_add(names[1], relid, columns, psprintf(" WHERE (%s)", filter));
	}
	runas_end(&state);
}

/*
 * Add a table to a publication, unless it is in it. The current role must be a superuser.
 */
static void
publication_add(const char *name, Oid relid, const char *columns, const char *filter)
{
	char *table = relation_sql_name(relid);

	if (is_member(name, relid))
		return;
	run_ddl(psprintf("ALTER PUBLICATION %s ADD TABLE ONLY %s (%s)%s", name, table, columns, filter));
	run_ddl_done(is_member(name, relid), table);
}

/*
 * Return true if both publications are there.
 */
bool
publications_exist(void)
{
	return OidIsValid(get_publication_oid(names[0], true)) && OidIsValid(get_publication_oid(names[1], true));
}

/*
 * publications_lack returns true if a table is missing in one of the two, or a publication does not
 * exist.
 */
bool
publications_lack(Oid relid)
{
	return publication_lacks(names[0], relid) || publication_lacks(names[1], relid);
}

/*
 * Return true if there is no such publication, or the table is not in it.
 */
static bool
publication_lacks(const char *name, Oid relid)
{
	return !OidIsValid(get_publication_oid(name, true)) || !is_member(name, relid);
}

/*
 * Return true if the table is in the publication, which must exist.
 */
static bool
is_member(const char *name, Oid relid)
{
	return list_member_oid(compat_relation_publications(relid), get_publication_oid(name, false));
}
