/*
 * unreadtable.c
 *		Creating, adopting and dropping unread tables.
 *
 * Copyright (c) 2026, the dcounter developers
 *
 * Such a table is an ordinary one, made with plain DDL in the name of the counter table's
 * owner, and a row of dcounter.unread that ties it to that. Both calls that make the row lock
 * the counter table against writers until it is committed: a transaction that deletes a key
 * later sees the row (unreadlost.c), and one that has deleted a key before has committed, so no
 * member has read what it has taken away.
 */
#include "postgres.h"

#include "access/table.h"
#include "catalog/namespace.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"

#include "base/args.h"
#include "base/compat.h"
#include "base/relopen.h"
#include "base/runas.h"
#include "core/table/access.h"
#include "core/table/table.h"
#include "transactional/unread/unread.h"

PG_FUNCTION_INFO_V1(dc_unread_create);
PG_FUNCTION_INFO_V1(dc_unread_adopt);
PG_FUNCTION_INFO_V1(dc_unread_drop);

/* Rows are updated in place, as members read on. */
#define UNREAD_OPTIONS "fillfactor=80"
#define UNREAD_COLUMNS \
	"member pg_catalog.text COLLATE pg_catalog.\"C\" NOT NULL," \
	" key pg_catalog.text COLLATE pg_catalog.\"C\" NOT NULL," \
	" seen pg_catalog.int8 NOT NULL," \
	" PRIMARY KEY (member, key)"

static Oid unreadtable_existing(FunctionCallInfo fcinfo, RangeVar *name, Oid counter);
static DcCounter *unreadtable_open_counter(FunctionCallInfo fcinfo, int argno, const char *function);
static Oid unread_arg(FunctionCallInfo fcinfo);

/*
 * dc_unread_create(unread text, counter regclass, if_not_exists boolean) -> regclass
 *
 * For the owner of the counter table. Errors: 42P07 when a table of that name exists; with
 * if_not_exists 42809, if it is not one of this counter; 42809 and 0A000 for a counter table that
 * cannot have one.
 */
Datum
dc_unread_create(PG_FUNCTION_ARGS)
{
	DcUnreadRow row;
	DcCounter *counter;
	DcRunAs state;
	RangeVar *name;
	Oid schema;

	(void) unread_arg(fcinfo);
	arg_not_null(fcinfo, 1, "counter");
	(void) bool_arg(fcinfo, 2, "if_not_exists");
	prevent_write("dc_unread_create()");
	name = table_name_arg(fcinfo, 0);
	row.unread = unreadtable_existing(fcinfo, name, PG_GETARG_OID(1));
	if (OidIsValid(row.unread))
		PG_RETURN_OID(row.unread);
	counter = unreadtable_open_counter(fcinfo, 1, "dc_unread_create()");
	schema = table_schema(name, "unread tables");
	runas_begin(&state, counter->owner);
	create_table(name->schemaname, name->relname, UNREAD_COLUMNS, UNREAD_OPTIONS,
				 "what members have read; see dc_unread_create()");
	runas_end(&state);
	row.unread = get_relname_relid(name->relname, schema);
	row.counter = counter->relid;
	run_ddl_done(relation_owner(row.unread) == counter->owner, name->relname);
	unread_insert(&row);
	PG_RETURN_OID(row.unread);
}

/*
 * unreadtable_existing returns the table of that name, if argument 2, if_not_exists, accepts an
 * existing one.
 */
static Oid
unreadtable_existing(FunctionCallInfo fcinfo, RangeVar *name, Oid counter)
{
	DcUnreadRow row;
	Oid relid;

	if (!PG_GETARG_BOOL(2))
		return InvalidOid;
	relid = table_of_name(name);
	if (OidIsValid(relid))
		table_skip(name, unread_read(relid, &row) && row.counter == counter,
				   "unread table of that counter table");
	return relid;
}

/*
 * dc_unread_adopt(unread regclass, counter regclass) -> void: registers a table that exists but is
 * not in the catalog, as after restoring one schema or re-creating the extension. For the owner of
 * both. Errors: 42809 for a table that is not as dc_unread_create() makes it, 42710 if it is
 * registered.
 */
Datum
dc_unread_adopt(PG_FUNCTION_ARGS)
{
	DcUnreadRow row = {.unread = unread_arg(fcinfo)};
	DcUnreadRow other;
	DcCounter *counter;
	Relation heap;

	arg_not_null(fcinfo, 1, "counter");
	prevent_write("dc_unread_adopt()");
	counter = unreadtable_open_counter(fcinfo, 1, "dc_unread_adopt()");
	row.counter = counter->relid;
	lock_own_table(row.unread, ShareRowExclusiveLock);
	if (unread_read(row.unread, &other))
		ereport(ERROR,
				(errcode(ERRCODE_DUPLICATE_OBJECT),
				 errmsg("\"%s\" is already an unread table", get_rel_name(row.unread)),
				 errdetail("Its counter table is \"%s\".", get_rel_name(other.counter))));
	if (relation_owner(row.unread) != counter->owner)
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("\"%s\" and its counter table \"%s\" have different owners",
						get_rel_name(row.unread), get_rel_name(row.counter)),
				 errhint("Use ALTER TABLE ... OWNER TO to give both to one role.")));
	heap = table_open_present(row.unread, NoLock);
	unread_check_shape(heap);
	table_close(heap, NoLock);
	unread_insert(&row);
	PG_RETURN_VOID();
}

/*
 * dc_unread_drop(unread regclass) -> void: drops an unread table, as a plain DROP TABLE does.
 */
Datum
dc_unread_drop(PG_FUNCTION_ARGS)
{
	Oid relid = unread_arg(fcinfo);

	prevent_write("dc_unread_drop()");
	(void) unread_lookup(relid);
	lock_own_table(relid, AccessExclusiveLock);
	(void) unread_lookup(relid);
	(void) unread_delete(relid); /* so that the event trigger has nothing to do */
	table_drop(relid, false);
	PG_RETURN_VOID();
}

/*
 * unreadtable_open_counter opens the counter table, of the caller's, against writers.
 */
static DcCounter *
unreadtable_open_counter(FunctionCallInfo fcinfo, int argno, const char *function)
{
	DcCounter *counter = counter_open_own(PG_GETARG_OID(argno), ShareRowExclusiveLock);

	unread_check_counter(counter, function);
	return counter;
}

/*
 * Return argument unread; 22004 for NULL.
 */
static Oid
unread_arg(FunctionCallInfo fcinfo)
{
	arg_not_null(fcinfo, 0, "unread");
	return PG_GETARG_OID(0);
}
