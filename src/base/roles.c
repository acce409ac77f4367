/*
 * roles.c
 *		Counting changes of roles, for all files that remember the rights of a role; roles that were dropped.
 *
 * Copyright (c) 2026, the dcounter developers
 */
#include "postgres.h"

#include "utils/inval.h"
#include "utils/syscache.h"

#include "base/roles.h"

uint32 role_changes = 0;

/*
 * Count a change of roles, memberships or the database's owner. Must not throw.
 */
static void
role_callback(Datum arg, int cacheid, uint32 hashvalue)
{
	role_changes++;
}

/*
 * roles_init registers the callback; called once.
 */
void
roles_init(void)
{
	CacheRegisterSyscacheCallback(AUTHOID, role_callback, (Datum) 0);
	CacheRegisterSyscacheCallback(AUTHMEMROLEMEM, role_callback, (Datum) 0);
	/* the owner of a database is a member of pg_database_owner */
	CacheRegisterSyscacheCallback(DATABASEOID, role_callback, (Datum) 0);
}

/*
 * role_is_lost returns true if a role has been dropped.
 */
bool
role_is_lost(Oid role)
{
	return !SearchSysCacheExists1(AUTHOID, ObjectIdGetDatum(role));
}

/*
 * roles_without_lost removes roles that have been dropped from a list, as another role may get
 * the number, here or where a dump is restored. InvalidOid, which stands for all roles, stays.
 */
List *
roles_without_lost(List *roles)
{
	ListCell *lc;

	foreach(lc, roles)
	{
		if (OidIsValid(lfirst_oid(lc)) && role_is_lost(lfirst_oid(lc)))
			roles = foreach_delete_current(roles, lc);
	}
	return roles;
}
