/*
 * rightstable.c
 *		The tables of grants and wants of a stock: making them, opening them, and what they must look like.
 *
 * Copyright (c) 2026, the dcounter developers
 *
 * They are like those of a counter (regiontable.c), with triggers made in the same way. SQL
 * statements write them, as the owner of the stock; but the worker does so as well, and the trigger
 * for what comes from other regions writes without SQL, so there must be no code of the owner on
 * them.
 */
#include "postgres.h"

#include "access/table.h"
#include "catalog/pg_authid.h"
#include "storage/lmgr.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"

#include "base/compat.h"
#include "base/relopen.h"
#include "base/runas.h"
#include "core/table/protect.h"
#include "core/table/table.h"
#include "region/rights.h"

#define GRANT_COLUMNS \
	"key pg_catalog.text COLLATE pg_catalog.\"C\" NOT NULL," \
	" from_region pg_catalog.text COLLATE pg_catalog.\"C\" NOT NULL," \
	" from_epoch pg_catalog.int8 NOT NULL," \
	" to_region pg_catalog.text COLLATE pg_catalog.\"C\" NOT NULL," \
	" to_epoch pg_catalog.int8 NOT NULL," \
	" units pg_catalog.int8 NOT NULL," \
	" PRIMARY KEY (key, from_region, from_epoch, to_region, to_epoch)"
#define WANT_COLUMNS \
	"key pg_catalog.text COLLATE pg_catalog.\"C\" NOT NULL," \
	" region pg_catalog.text COLLATE pg_catalog.\"C\" NOT NULL," \
	" epoch pg_catalog.int8 NOT NULL," \
	" hlc pg_catalog.int8 NOT NULL," \
	" since pg_catalog.int8 NOT NULL," \
	" wanted pg_catalog.int8 NOT NULL," \
	" low pg_catalog.int8 NOT NULL," \
	" granted pg_catalog.int8 NOT NULL," \
	" kept pg_catalog.int8 NOT NULL," \
	" waits pg_catalog.int8 NOT NULL," \
	" asked pg_catalog.int8 NOT NULL," \
	" asked_at pg_catalog.int8 NOT NULL," \
	" until pg_catalog.timestamptz NOT NULL," \
	" units pg_catalog.int8 NOT NULL," \
	" given pg_catalog.int8 NOT NULL," \
	" PRIMARY KEY (key, region)"

const char *const grant_columns = "key, from_region, from_epoch, to_region, to_epoch, units";
const char *const want_columns = "key, region, epoch, hlc, since, wanted, low, granted, kept, waits, asked, asked_at, until, units, given";

static void rightstable_create_triggers(const DcCounterRow *row);
static const char *rights_word(DcCounter *counter, const char *word);
static void rights_check_tables(DcCounter *counter);

/*
 * rights_tables_create makes the tables of a stock, as its owner, and sets them in its row.
 */
void
rights_tables_create(DcCounter *counter, DcCounterRow *row)
{
	DcRunAs state;

	runas_begin(&state, counter->owner);
	row->grants = sibling_create(counter->relid, DC_GRANT_SUFFIX, GRANT_COLUMNS, REGION_OPTIONS, false,
								 "units that regions have given to each other; see dc_replicate()");
	row->wants = sibling_create(counter->relid, DC_WANT_SUFFIX, WANT_COLUMNS, REGION_OPTIONS, false,
								"units that regions ask for; see dc_replicate()");
	runas_end(&state);
	row->rights_epoch = region_epoch_new();
	rightstable_create_triggers(row);
}

/*
 * Create the triggers for rows that come from other regions, as the bootstrap superuser.
 */
static void
rightstable_create_triggers(const DcCounterRow *row)
{
	DcRunAs state;

	runas_begin(&state, BOOTSTRAP_SUPERUSERID);
	merge_trigger_create(row->grants, "merge_grant");
	merge_trigger_create(row->wants, "merge_want");
	runas_end(&state);
}

/*
 * rights_tables_adopt finds the tables of a stock that is being adopted, if it was replicated, and
 * the user may replicate it. Units on their way to it are lost: its epoch is no longer known.
 */
void
rights_tables_adopt(DcCounterRow *row, Oid functions)
{
	row->grants = sibling_find(row->counter, DC_GRANT_SUFFIX);
	row->wants = sibling_find(row->counter, DC_WANT_SUFFIX);
	if (!OidIsValid(row->grants) || !OidIsValid(row->wants) ||
		relation_owner(row->grants) != relation_owner(row->counter) ||
		relation_owner(row->wants) != relation_owner(row->counter) ||
		!region_may_adopt(row, functions))
	{
		row->grants = row->wants = InvalidOid;
		return;
	}
	for (DcRegionTable table = TABLE_OF_GRANTS; table <= TABLE_OF_WANTS; table++)
	{
		Oid relid = region_table_of(row, table);
		DcTableLayout layout;
		Relation rel;

		lock_own_table(relid, ShareRowExclusiveLock);
		rel = table_open_present(relid, NoLock);
		shape_check(rel, region_shape_of(table), &layout);
		table_close(rel, NoLock);
	}
	row->rights_epoch = region_epoch_new();
	rightstable_create_triggers(row);
}

/*
 * rights_lock locks the tables of a stock; false if it would have to wait, and `wait` is false.
 */
bool
rights_lock(const DcCounter *counter, LOCKMODE mode, bool wait)
{
	Oid tables[] = {counter->row.grants, counter->row.wants};

	for (int i = 0; i < lengthof(tables); i++)
	{
		if (wait)
			LockRelationOid(tables[i], mode);
		else if (!ConditionalLockRelationOid(tables[i], mode))
			return false;
	}
	return true;
}

/*
 * rights_check_tables checks the tables of a stock that are locked.
 */
static void
rights_check_tables(DcCounter *counter)
{
	for (DcRegionTable table = TABLE_OF_GRANTS; table <= TABLE_OF_WANTS; table++)
	{
		Oid relid = region_table_of(&counter->row, table);
		Relation rel;

		if ((counter->valid && counter->region_generations[table] == counter->generation) ||
			!compat_has_locked(relid, AccessShareLock))
			continue;
		rel = table_open_present(relid, NoLock);
		(void) region_layout(counter, rel, table);
		table_close(rel, NoLock);
	}
}

/*
 * rights_problem returns a sentence if the owner lacks the privileges to merge rows into the two
 * tables, which is done as the owner; or NULL. A superuser, or the role that has granted them to a
 * group of the owner, may have revoked them.
 */
const char *
rights_problem(const DcCounter *counter)
{
	const DcCounterRow *row = &counter->row;
	const AclMode write = ACL_SELECT | ACL_INSERT | ACL_UPDATE;

	if (compat_may_use_schema(get_rel_namespace(row->counter), counter->owner) &&
		pg_class_aclcheck(row->shards, counter->owner, ACL_SELECT) == ACLCHECK_OK &&
		pg_class_aclmask(row->grants, counter->owner, write, ACLMASK_ALL) == write &&
		pg_class_aclmask(row->wants, counter->owner, write, ACLMASK_ALL) == write)
		return NULL;
	return _("Its owner lacks the right to use its schema, to read shard rows, or to write to the tables of rights.");
}

/*
 * rights_begin begins a session of statements that name the two tables; those that they use are
 * locked.
 */
void
rights_begin(DcSqlSession *session, DcCounter *counter)
{
	rights_check_tables(counter);
	sql_begin(session, counter);
	session->word = rights_word;
	sql_keep_open(session, DC_OF_MORE, counter->row.grants);
	sql_keep_open(session, DC_OF_MORE + 1, counter->row.wants);
}

/*
 * rights_word puts the two tables into statements.
 */
static const char *
rights_word(DcCounter *counter, const char *word)
{
	if (strcmp(word, "grants") == 0)
		return relation_sql_name(counter->row.grants);
	if (strcmp(word, "wants") == 0)
		return relation_sql_name(counter->row.wants);
	elog(ERROR, "unrecognized word: %s", word);
}

/*
 * rights_key copies a key from a result, to a context that outlives it.
 */
void
rights_key(Datum value, MemoryContext cxt, DcKey *key)
{
	MemoryContext old = MemoryContextSwitchTo(cxt);

	key_from_text(PointerGetDatum(PG_DETOAST_DATUM_COPY(value)), key);
	MemoryContextSwitchTo(old);
}

/*
 * rights_needed raises 55000 for a stock that is not replicated.
 */
void
rights_needed(const DcCounter *counter)
{
	if (!counter_has_rights(counter))
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("\"%s\" is not replicated between regions", get_rel_name(counter->relid)),
				 errhint("Call dc_replicate() first.")));
}
