/*
 * version.c
 *		Checking that the library and the SQL of the extension have the same version.
 *
 * Copyright (c) 2026, the dcounter developers
 *
 * They change at different times: the library when its package is installed and the server (or
 * a session, if it is not preloaded) is restarted, the SQL by ALTER EXTENSION in each database.
 * In between, a newer library works with an older script: no C function that a released script
 * names is ever taken out of it, and it reads the catalogs of that script. The first use of a
 * catalog in a session says in a warning what to run; the worker is such a session, so it is in
 * the server's log. An older library cannot know the catalogs of a newer script, and says so in
 * an error instead. It refuses only DDL that concerns tables of ours (core/table/olderddl.c).
 *
 * A script says which library it needs by a function library_MAJOR_MINOR(), which it creates first:
 * an older library has no function of that name, so neither CREATE EXTENSION nor an update has an
 * effect with it, and the error has the name.
 *
 * This is checked once in a session, and again after an error. Nothing here is shared.
 */
#include "postgres.h"

#include "access/genam.h"
#include "access/parallel.h"
#include "access/stratnum.h"
#include "access/table.h"
#include "catalog/pg_extension.h"
#include "catalog/pg_type.h"
#include "commands/extension.h"
#include "fmgr.h"
#include "utils/builtins.h"
#include "utils/fmgroids.h"
#include "utils/rel.h"

#include "base/compat.h"
#include "base/rowread.h"
#include "base/version.h"

bool version_checked = false;

static char *script_version(void);
static int version_compare(const char *a, const char *b);

/*
 * version_check compares them, and warns or raises an error.
 */
void
version_check(void)
{
	char *script = script_version();
	int order;

	if (script == NULL)
		return;
	order = version_compare(DCOUNTER_VERSION, script);
	if (order < 0)
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("the library of dcounter has version %s, which is older than version %s of the extension in this database", DCOUNTER_VERSION, script),
				 errhint("Install version %s of the library and reconnect; if dcounter is preloaded, restart the server.", script)));
	version_checked = true;
	if (order > 0 && !IsParallelWorker())
		ereport(WARNING,
				(errmsg("the extension dcounter in this database has version %s, but the library has version %s", script, DCOUNTER_VERSION),
				 errhint("Run \"ALTER EXTENSION dcounter UPDATE\" in this database.")));
}

/*
 * Return true if the library is older than the script, so that version_check() would raise its
 * error.
 */
bool
version_is_older(void)
{
	char *script = version_checked ? NULL : script_version();

	return script != NULL && version_compare(DCOUNTER_VERSION, script) < 0;
}

/*
 * script_version returns the version that the database's extension has; NULL if there is none,
 * or while its script is running, when there is nothing to compare yet.
 */
static char *
script_version(void)
{
	Relation rel = table_open(ExtensionRelationId, AccessShareLock);
	char *version = NULL;
	ScanKeyData key;
	SysScanDesc scan;
	HeapTuple tuple;

	ScanKeyInit(&key, Anum_pg_extension_extname, BTEqualStrategyNumber, F_NAMEEQ, CStringGetDatum("dcounter"));
	scan = systable_beginscan(rel, ExtensionNameIndexId, true, NULL, 1, &key);
	tuple = systable_getnext(scan);
	if (HeapTupleIsValid(tuple) && !(creating_extension && ((Form_pg_extension) GETSTRUCT(tuple))->oid == CurrentExtensionObject))
	{
		bool isnull;
		Datum value = tuple_nullable(rel, tuple, Anum_pg_extension_extversion, TEXTOID, &isnull);

		version = isnull ? NULL : TextDatumGetCString(value);
	}
	systable_endscan(scan);
	table_close(rel, AccessShareLock);
	return version;
}

/*
 * version_compare orders versions, number by number: 0.9.0 is before 0.10.0. A part that is not
 * a number counts as 0.
 */
static int
version_compare(const char *a, const char *b)
{
	for (;;)
	{
		long x = strtol(a, NULL, 10);
		long y = strtol(b, NULL, 10);

		if (x != y)
			return x < y ? -1 : 1;
		a = strchr(a, '.');
		b = strchr(b, '.');
		if (a == NULL && b == NULL)
			return 0;
		a = a != NULL ? a + 1 : "";
		b = b != NULL ? b + 1 : "";
	}
}

PG_FUNCTION_INFO_V1(library_0_2);
/*
 * dcounter.library_0_2() returns the version of the library.
 */
Datum
library_0_2(PG_FUNCTION_ARGS)
{
	PG_RETURN_TEXT_P(cstring_to_text(DCOUNTER_VERSION));
}
