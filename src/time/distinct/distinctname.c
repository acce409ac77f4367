/*
 * distinctname.c
 *		Distinct tables by name, as text.
 *
 * Copyright (c) 2026, the dcounter developers
 *
 * dc_add() is also a function of mergeable sets. For a literal, the server chooses the variant with
 * a text argument, so the name of a table comes as text, and is looked up with each call, as in any
 * statement. The look-up costs about as much as the rest of a call that changes nothing. So a
 * session remembers a few names. What a name means depends on the search_path, the current role and
 * its rights on schemas, and on all relations and schemas that there are: with any change of these
 * it is looked up again.
 */
#include "postgres.h"

#include "catalog/namespace.h"
#include "common/hashfn.h"
#include "miscadmin.h"
#include "utils/builtins.h"
#include "utils/inval.h"
#include "utils/syscache.h"
#include "utils/varlena.h"

#include "base/relcached.h"
#include "base/roles.h"
#include "time/distinct/distinct.h"

#define NAMES 16
#define NAME_BYTES 136 /* longer names are not remembered */

typedef struct DcName
{
	uint64 changes; /* when it was looked up; 0: nothing is remembered */
	Oid role;
	uint32 role_changes;
	Oid relid;
	uint32 len;
	char name[NAME_BYTES];
	char path[NAME_BYTES];
} DcName;

static DcName names[NAMES];
static uint64 changes = 1; /* of any relation or schema */

static Oid distinctname_look_up(text *name);

/*
 * Note that the meaning of names may have changed with a relation.
 */
static void
relation_changed(Oid relid)
{
	changes++;
}

/*
 * Note that the meaning of names may have changed with a schema.
 */
static void
schema_changed(Datum arg, int cacheid, uint32 hash)
{
	changes++;
}

/*
 * distinct_name_init is called when the library is loaded.
 */
void
distinct_name_init(void)
{
	relcached_on_change(relation_changed);
	CacheRegisterSyscacheCallback(NAMESPACEOID, schema_changed, (Datum) 0);
}

/*
 * distinct_by_name returns the relation of a name; 42P01 if there is none. The caller has processed
 * invalidations.
 */
Oid
distinct_by_name(text *name)
{
	const char *data = VARDATA_ANY(name);
	uint32 len = VARSIZE_ANY_EXHDR(name);
	DcName *entry = &names[hash_bytes((const unsigned char *) data, len) % NAMES];
	uint64 before;

	if (entry->changes == changes && entry->len == len && memcmp(entry->name, data, len) == 0 &&
		entry->role == GetUserId() && entry->role_changes == role_changes &&
		strcmp(entry->path, namespace_search_path) == 0)
		return entry->relid;
	if (len >= NAME_BYTES || strlen(namespace_search_path) >= NAME_BYTES)
		return distinctname_look_up(name);
	*entry = (DcName){.role = GetUserId(), .role_changes = role_changes, .len = len};
	memcpy(entry->name, data, len);
	strlcpy(entry->path, namespace_search_path, NAME_BYTES);
	before = changes;
	entry->relid = distinctname_look_up(name);
	entry->changes = before; /* if something has changed in the meantime, it is looked up again */
	return entry->relid;
}

/*
 * Return the relation of a name, which may be qualified; an error if there is none. It is not
 * locked.
 */
static Oid
distinctname_look_up(text *name)
{
	return RangeVarGetRelid(makeRangeVarFromNameList(textToQualifiedNameList(name)), NoLock, false);
}
