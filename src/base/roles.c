/*
 * roles.c
 *		Counting changes of roles, for all files that remember the rights of a role.
 */
#include "postgres.h"

#include "base/roles.h"
#include "utils/inval.h"
#include "utils/syscache.h"

uint32 role_changes = 0;

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
