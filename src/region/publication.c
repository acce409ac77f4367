/*
 * publication.c
 *		The publications by which regions tell each other.
 *
 * Copyright (c) 2026, the dcounter developers
 *
 *		dcounter_own	the rows of this region: for a mesh, where each region gets each
 *						other's by a link of its own
 *		dcounter_all	the rows of all regions: for a hub, a ring, or a region that was damaged
 *
 * They are of the database, and belong to its owner, who has called dc_region_init(). Tables
 * belong to the owners of counters. To put a table into a publication takes the rights of
 * both, which nobody may have but a superuser. So it is done as the one that every cluster
 * has, in a security-restricted operation, by a statement that names one table and runs no code:
 * after the caller was found to own the table, and the publication to belong to a role that
 * may act as the owner of the database. Neither of the two could do more with it than their
 * own: what is published is a table of dcounter's making, whose rows its owner has asked to be
 * sent, to whom the owner of the database lets replicate.
 *
 * A publication of that name that was there before, as in a database that was restored, is taken
 * if it is as it would have been made. A dump does not say that the extension's own table of heartbeats is in them, and may
 * lack them. So what is missing is added when a database renews or makes a link, and by dc_region_publish().
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

/* The first has the rows of this region alone. */
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
 * check_publication raises 55000 if a publication is not as it was made: if somebody else has
 * it, it says what is published, and who knows.
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
				 errmsg("publication \"%s\" does not exist", name)));
	form = (Form_pg_publication) GETSTRUCT(tuple);
	owned = compat_owns_database(MyDatabaseId, form->pubowner);
	right = form->pubinsert && form->pubupdate && !form->pubdelete && !form->pubtruncate &&
		!form->puballtables && !form->pubviaroot;
	ReleaseSysCache(tuple);
	if (!owned || !right)
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("publication \"%s\" is not as dcounter makes it", name),
				 owned ? errdetail("It must publish 'insert, update' of single tables.")
					   : errdetail("It must belong to the owner of the database.")));
}

/*
 * publications_add adds a table of the extension, or of a counter whose owner has asked for
 * that, to both: some columns, and of these in dcounter_own the rows of this region, by the
 * column that has its name.
 */
void
publications_add(Oid relid, const char *columns, const char *column, const char *region)
{
	publications_add_filtered(relid, columns, column, region, NULL);
}

/*
 * publications_add_filtered is the same, of the rows of both those that a filter lets through.
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
 * publications_lack returns true if a table is missing in one of the two, or that itself is.
 */
bool
publications_lack(Oid relid)
{
	return publication_lacks(names[0], relid) || publication_lacks(names[1], relid);
}

static bool
publication_lacks(const char *name, Oid relid)
{
	return !OidIsValid(get_publication_oid(name, true)) || !is_member(name, relid);
}

static bool
is_member(const char *name, Oid relid)
{
	return list_member_oid(compat_relation_publications(relid), get_publication_oid(name, false));
}
