/*
 * mergerowcache.c
 *		dcounter.merge_row(): a session's cache of the tables with the trigger.
 *
 * Copyright (c) 2026, the dcounter developers
 *
 * Entries are found by the OID of the trigger: each partition has its own. An invalidation
 * only marks entries: it may come at any moment, even while one is in use. The next use makes a new
 * table of it, and the old one is freed by a later transaction, as no use lasts longer. All that
 * can be wrong with the trigger or its arguments is found when a table is created, at the first row
 * of a session.
 *
 * The statement that inserts a row is kept with the table. Its text names the table and
 * its columns, and the server looks names up again when it has invalidated a plan. A schema
 * can be renamed without an invalidation for the users of its tables, and another table can take
 * its place. So the plan is used only if it is still the server's own, and was made for this very
 * table. What is left of a race is seen by mergerow.c, by the triggers that the statement
 * fires.
 *
 * The key is the one that logical replication finds rows by: the index of REPLICA IDENTITY
 * USING INDEX, or the primary key.
 */
#include "postgres.h"

#include "access/genam.h"
#include "access/htup_details.h"
#include "catalog/partition.h"
#include "catalog/pg_am.h"
#include "catalog/pg_collation.h"
#include "catalog/pg_index.h"
#include "catalog/pg_opclass.h"
#include "catalog/pg_trigger.h"
#include "catalog/pg_type.h"
#include "lib/stringinfo.h"
#include "nodes/parsenodes.h"
#include "parser/parsetree.h"
#include "utils/builtins.h"
#include "utils/inval.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"
#include "utils/plancache.h"
#include "utils/rel.h"
#include "utils/syscache.h"
#include "utils/typcache.h"

#include "base/compat.h"
#include "base/relcached.h"
#include "core/table/subscription.h"
#include "types/crdt/crdttype.h"
#include "types/crdt/mergerow.h"

#define STAMP_ARGUMENT "stamp="

/* An entry; without a table it was never finished. */
typedef struct Entry
{
	Oid trigger; /* hash key */
	Oid relid;
	bool valid;
	bool subscribed; /* it was checked whether a subscription feeds the table */
	bool warned;
	MergeTable *table;
} Entry;

static void mergerowcache_entry_changed(void *entry, Oid relid);

/* Tables are in TopMemoryContext, too; those that were replaced are retired. */
static DcRelCached entries = {
	.name = "dcounter merge triggers",
	.keysize = sizeof(Oid),
	.size = sizeof(Entry),
	.changed = mergerowcache_entry_changed,
};

/* Tables to be freed by a later transaction; the list is in TopMemoryContext. */
static List *retired = NIL;
static LocalTransactionId retired_in = InvalidLocalTransactionId;

static Entry *entry_find(TriggerData *data);
static void on_subscription_change(Datum arg, int cacheid, uint32 hashvalue);
static void mergerowcache_retire(Entry *entry);
static void mergerowcache_free_retired(void);
static void warn_not_always(Entry *entry, TriggerData *data);
static MergeTable *table_make(TriggerData *data);
static void check_trigger(TriggerData *data);
static void mergerowcache_find_key(MergeTable *table, Relation rel);
static Oid mergerowcache_key_index(Relation rel);
static void add_columns(MergeTable *table, Relation rel, const Trigger *trigger);
static void add_argument(MergeTable *table, Relation rel, const char *name, MergeRole role);
static void add_rest(MergeTable *table, Relation rel, bool states);
static void add_group(MergeTable *table, Relation rel);
static void set_column_bytes(MergeTable *table, MergeColumn *column);
static SPIPlanPtr plan_make(const MergeTable *table, Relation rel);
static void append_key(StringInfo sql, const MergeTable *table, Relation rel);
static void check_plan(SPIPlanPtr plan, Relation rel);

/*
 * merge_table_find returns what is known of the table of a trigger that has fired.
 */
const MergeTable *
merge_table_find(TriggerData *data)
{
	Entry *entry = entry_find(data);

	if (unlikely(!entry->subscribed))
		warn_not_always(entry, data);
	return entry->table;
}

/*
 * Return the entry of a trigger that has fired, with a valid table. Build the table if there
 * is none yet or it was invalidated; raise an error if the trigger cannot work.
 */
static Entry *
entry_find(TriggerData *data)
{
	static bool registered = false;
	Oid oid = data->tg_trigger->tgoid;
	Entry *entry = relcached_find(&entries, &oid);

	if (likely(entry != NULL && entry->valid && entry->table != NULL))
		return entry;
	if (!registered)
		CacheRegisterSyscacheCallback(SUBSCRIPTIONRELMAP, on_subscription_change, (Datum) 0);
	registered = true;
	entry = relcached_enter(&entries, &oid);
	mergerowcache_retire(entry);
	entry->relid = RelationGetRelid(data->tg_relation);
	/* if an invalidation comes in the meantime, this use is the last */
	entry->valid = true;
	entry->subscribed = false;
	entry->table = table_make(data);
	return entry;
}

/*
 * Mark an entry as invalid if its relation has changed; InvalidOid stands for all relations.
 * Called on relcache invalidations.
 */
static void
mergerowcache_entry_changed(void *data, Oid relid)
{
	Entry *entry = data;

	if (!OidIsValid(relid) || entry->relid == relid)
		entry->valid = false;
}

/*
 * Have each table's next use look again whether a subscription feeds it. Called when
 * pg_subscription_rel changes.
 */
static void
on_subscription_change(Datum arg, int cacheid, uint32 hashvalue)
{
	HASH_SEQ_STATUS scan;
	Entry *entry;

	if (entries.hash == NULL)
		return;
	hash_seq_init(&scan, entries.hash);
	while ((entry = hash_seq_search(&scan)) != NULL)
		entry->subscribed = false;
}

/*
 * mergerowcache_retire puts aside an entry's table, and frees those of earlier transactions.
 */
static void
mergerowcache_retire(Entry *entry)
{
	MemoryContext old;

	mergerowcache_free_retired();
	if (entry->table == NULL)
		return;
	old = MemoryContextSwitchTo(TopMemoryContext);
	retired = lappend(retired, entry->table);
	MemoryContextSwitchTo(old);
	entry->table = NULL;
	retired_in = compat_local_xid();
}

/*
 * Free the tables that were retired, unless that was in this transaction, which may use them.
 */
static void
mergerowcache_free_retired(void)
{
	if (retired == NIL || retired_in == compat_local_xid())
		return;
	while (retired != NIL)
	{
		MergeTable *table = linitial(retired);

		retired = list_delete_first(retired);
		if (table->plan != NULL)
			SPI_freeplan(table->plan);
		MemoryContextDelete(table->cxt);
	}
}

/*
 * warn_not_always warns, once per session, of a trigger that fires for users alone while rows come
 * by a subscription.
 */
static void
warn_not_always(Entry *entry, TriggerData *data)
{
	entry->subscribed = true;
	if (entry->warned || data->tg_trigger->tgenabled != TRIGGER_FIRES_ON_ORIGIN ||
		!relation_is_fed(entry->relid))
		return;
	entry->warned = true;
	ereport(WARNING,
			(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
			 errmsg("rows that a subscription applies to \"%s\" are not merged",
					RelationGetRelationName(data->tg_relation)),
			 errdetail("Trigger \"%s\" does not fire for them.", data->tg_trigger->tgname),
			 errhint("Use ALTER TABLE %s ENABLE ALWAYS TRIGGER %s.",
					 quote_identifier(RelationGetRelationName(data->tg_relation)),
					 quote_identifier(data->tg_trigger->tgname))));
}

/*
 * Read the definition of a trigger and its table. The memory belongs to the current context until
 * all is done, so that an error frees it.
 */
static MergeTable *
table_make(TriggerData *data)
{
	Relation rel = data->tg_relation;
	MemoryContext cxt = AllocSetContextCreate(CurrentMemoryContext, "dcounter merge trigger",
											  ALLOCSET_SMALL_SIZES);
	MemoryContext old = MemoryContextSwitchTo(cxt);
	MergeTable *table = palloc0(sizeof(MergeTable));

	check_trigger(data);
	table->cxt = cxt;
	table->natts = RelationGetNumberOfAttributes(rel);
	table->columns = palloc0(table->natts * sizeof(MergeColumn));
	mergerowcache_find_key(table, rel);
	add_columns(table, rel, data->tg_trigger);
	add_group(table, rel);
	MemoryContextSetParent(cxt, TopMemoryContext);
	MemoryContextSwitchTo(old);
	return table;
}

/*
 * check_trigger raises an error if the trigger or its table is of a kind that cannot work.
 */
static void
check_trigger(TriggerData *data)
{
	Relation rel = data->tg_relation;
	const Trigger *trigger = data->tg_trigger;

	if (!TRIGGER_FOR_INSERT(trigger->tgtype) || !TRIGGER_FOR_UPDATE(trigger->tgtype) ||
		trigger->tgnattr > 0 || trigger->tgqual != NULL)
		ereport(ERROR,
				(errcode(ERRCODE_E_R_I_E_TRIGGER_PROTOCOL_VIOLATED),
				 errmsg("trigger \"%s\" of merge_row() does not see all rows that are written", trigger->tgname),
				 errhint("It must be BEFORE INSERT OR UPDATE, without columns and without a condition.")));
	if (rel->rd_rel->relkind != RELKIND_RELATION)
		ereport(ERROR,
				(errcode(ERRCODE_WRONG_OBJECT_TYPE),
				 errmsg("merge_row() cannot work on \"%s\"", RelationGetRelationName(rel)),
				 errdetail("It is not a table of this server.")));
	if (rel->rd_rules != NULL)
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("merge_row() cannot work on table \"%s\", which has rules", RelationGetRelationName(rel))));
}

/*
 * mergerowcache_find_key finds the key, and the index that it is unique by.
 */
static void
mergerowcache_find_key(MergeTable *table, Relation rel)
{
	HeapTuple tuple;
	Form_pg_index form;
	Relation index;

	table->index = mergerowcache_key_index(rel);
	tuple = SearchSysCache1(INDEXRELID, ObjectIdGetDatum(table->index));
	if (!HeapTupleIsValid(tuple))
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("table \"%s\" has no key to merge rows by", RelationGetRelationName(rel)),
				 errhint("Give it a primary key, or use ALTER TABLE ... REPLICA IDENTITY USING INDEX.")));
	form = (Form_pg_index) GETSTRUCT(tuple);
	index = index_open(table->index, AccessShareLock);
	if (!form->indimmediate || !form->indisvalid || !form->indisunique ||
		index->rd_rel->relam != BTREE_AM_OID)
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("rows of table \"%s\" cannot be merged by index \"%s\"",
						RelationGetRelationName(rel), RelationGetRelationName(index)),
				 errhint("The key must be a unique B-tree index that is valid and not deferrable.")));
	table->nkeys = form->indnkeyatts;
	table->keys = palloc(table->nkeys * sizeof(AttrNumber));
	for (int i = 0; i < table->nkeys; i++)
	{
		/* neither kind of key has expressions */
		table->keys[i] = form->indkey.values[i];
		table->columns[table->keys[i] - 1].role = MERGE_KEY;
	}
	index_close(index, NoLock);
	ReleaseSysCache(tuple);
}

/*
 * Return the index of REPLICA IDENTITY USING INDEX, or else that of the primary key; InvalidOid if
 * there is neither.
 */
static Oid
mergerowcache_key_index(Relation rel)
{
	List *indexes = RelationGetIndexList(rel);
	Oid primary = InvalidOid;
	Oid identity = InvalidOid;
	ListCell *lc;

	foreach(lc, indexes)
	{
		HeapTuple tuple = SearchSysCache1(INDEXRELID, ObjectIdGetDatum(lfirst_oid(lc)));
		Form_pg_index form;

		if (!HeapTupleIsValid(tuple))
			continue;
		form = (Form_pg_index) GETSTRUCT(tuple);
		if (form->indisprimary)
			primary = lfirst_oid(lc);
		if (form->indisreplident && rel->rd_rel->relreplident == REPLICA_IDENTITY_INDEX)
			identity = lfirst_oid(lc);
		ReleaseSysCache(tuple);
	}
	list_free(indexes);
	return OidIsValid(identity) ? identity : primary;
}

/*
 * add_columns determines how each column is merged.
 */
static void
add_columns(MergeTable *table, Relation rel, const Trigger *trigger)
{
	bool named = false;

	for (int i = 0; i < table->natts; i++)
	{
		Form_pg_attribute att = TupleDescAttr(RelationGetDescr(rel), i);
		MergeColumn *column = &table->columns[i];

		column->type = att->atttypid;
		column->len = att->attlen;
		column->by_value = att->attbyval;
		column->is_domain = !att->attisdropped && getBaseType(att->atttypid) != att->atttypid;
		column->identity_always = att->attidentity == ATTRIBUTE_IDENTITY_ALWAYS;
	}
	for (int i = 0; i < trigger->tgnargs; i++)
	{
		const char *argument = trigger->tgargs[i];
		bool is_stamp = strncmp(argument, STAMP_ARGUMENT, strlen(STAMP_ARGUMENT)) == 0;

		if (is_stamp)
			add_argument(table, rel, argument + strlen(STAMP_ARGUMENT), MERGE_STAMP);
		else
			add_argument(table, rel, argument, MERGE_STATE);
		named |= !is_stamp;
	}
	add_rest(table, rel, !named);
}

/*
 * Give a column that the trigger's arguments name its role, MERGE_STATE or MERGE_STAMP. Raise an
 * error if it does not exist, is of the key, generated, named twice or of the wrong type.
 */
static void
add_argument(MergeTable *table, Relation rel, const char *name, MergeRole role)
{
	const char *table_name = RelationGetRelationName(rel);
	AttrNumber attnum = get_attnum(RelationGetRelid(rel), name);
	MergeColumn *column;

	if (attnum <= 0)
		ereport(ERROR,
				(errcode(ERRCODE_UNDEFINED_COLUMN),
				 errmsg("column \"%s\" of relation \"%s\" does not exist", name, table_name)));
	column = &table->columns[attnum - 1];
	if (column->role == MERGE_KEY)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_COLUMN_REFERENCE),
				 errmsg("column \"%s\" of table \"%s\" cannot be merged, because it is part of the key", name, table_name)));
	if (column->role != MERGE_IGNORED || (role == MERGE_STAMP && table->stamp != 0))
		ereport(ERROR,
				(errcode(ERRCODE_DUPLICATE_COLUMN),
				 errmsg("merge_row() names column \"%s\" of table \"%s\" twice, or a second stamp", name, table_name)));
	if (TupleDescAttr(RelationGetDescr(rel), attnum - 1)->attgenerated != '\0')
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_COLUMN_REFERENCE),
				 errmsg("column \"%s\" of table \"%s\" cannot be merged, because it is generated", name, table_name)));
	if (!merge_set_type(column) ||
		(role == MERGE_STAMP && column->state != &crdt_hlc))
		ereport(ERROR,
				(errcode(ERRCODE_DATATYPE_MISMATCH),
				 errmsg("column \"%s\" of table \"%s\" is of type %s", name, table_name, format_type_be(column->type)),
				 role == MERGE_STAMP ? errdetail("A stamp is of type dc_hlc.")
									 : errdetail("That is not a mergeable type.")));
	column->role = role;
	if (role == MERGE_STAMP)
		table->stamp = attnum;
}

/*
 * add_rest gives each other column its role.
 */
static void
add_rest(MergeTable *table, Relation rel, bool states)
{
	for (int i = 0; i < table->natts; i++)
	{
		Form_pg_attribute att = TupleDescAttr(RelationGetDescr(rel), i);
		MergeColumn *column = &table->columns[i];

		if (column->role != MERGE_IGNORED || att->attisdropped || att->attgenerated != '\0')
			continue;
		column->role = states && merge_set_type(column) ? MERGE_STATE : MERGE_ORDINARY;
		if (column->role == MERGE_ORDINARY)
			table->ngroup++;
	}
	if (table->ngroup > 0 && table->stamp == 0)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_TABLE_DEFINITION),
				 errmsg("table \"%s\" has columns that cannot be merged, and no stamp", RelationGetRelationName(rel)),
				 errhint("Add a column of type dc_hlc, and name it in the trigger: merge_row('stamp=...').")));
}

/*
 * add_group lists the columns of the group, in the order of their names.
 */
static void
add_group(MergeTable *table, Relation rel)
{
	TupleDesc desc = RelationGetDescr(rel);
	int n = 0;

	table->group = palloc(Max(table->ngroup, 1) * sizeof(AttrNumber));
	for (int i = 0; i < table->natts; i++)
	{
		int at;

		if (table->columns[i].role != MERGE_ORDINARY)
			continue;
		set_column_bytes(table, &table->columns[i]);
		for (at = n++; at > 0; at--)
		{
			if (strcmp(NameStr(TupleDescAttr(desc, table->group[at - 1] - 1)->attname),
					   NameStr(TupleDescAttr(desc, i)->attname)) < 0)
				break;
			table->group[at] = table->group[at - 1];
		}
		table->group[at] = i + 1;
	}
}

/*
 * set_column_bytes prepares the function whose bytes tell which of two values is greater.
 */
static void
set_column_bytes(MergeTable *table, MergeColumn *column)
{
	Oid function;
	bool varlena;

	column->bytes_are_text = !merge_has_send(column->type);
	if (column->bytes_are_text)
		getTypeOutputInfo(column->type, &function, &varlena);
	else
		getTypeBinaryOutputInfo(column->type, &function, &varlena);
	fmgr_info_cxt(function, &column->bytes, table->cxt);
}

/*
 * merge_table_plan returns the plan that inserts a row. The table may have changed since it
 * was found: code of its owner may have run, as to compare values. Then it is found again, with all
 * that is wrong with it by now.
 */
SPIPlanPtr
merge_table_plan(TriggerData *data, const MergeTable **table)
{
	Entry *entry = entry_find(data);

	if (entry->table->plan != NULL && !SPI_plan_is_valid(entry->table->plan))
	{
		entry->valid = false;
		entry = entry_find(data);
	}
	if (entry->table->plan == NULL)
		entry->table->plan = plan_make(entry->table, data->tg_relation);
	*table = entry->table;
	return entry->table->plan;
}

/*
 * plan_make prepares the statement. All columns that a row can be given are its parameters. The
 * table has an alias, as its own name may be "excluded".
 */
static SPIPlanPtr
plan_make(const MergeTable *table, Relation rel)
{
	StringInfoData columns;
	StringInfoData values;
	StringInfoData updates;
	StringInfoData sql;
	Oid *types = palloc(table->natts * sizeof(Oid));
	SPIPlanPtr plan;
	int n = 0;

	initStringInfo(&columns);
	initStringInfo(&values);
	initStringInfo(&updates);
	initStringInfo(&sql);
	for (int i = 0; i < table->natts; i++)
	{
		const char *name = quote_identifier(NameStr(TupleDescAttr(RelationGetDescr(rel), i)->attname));
		const MergeColumn *column = &table->columns[i];

		if (column->role == MERGE_IGNORED)
			continue;
		types[n++] = column->type;
		appendStringInfo(&columns, "%s%s", n > 1 ? ", " : "", name);
		appendStringInfo(&values, "%s$%d", n > 1 ? ", " : "", n);
		if (column->role != MERGE_KEY && !column->identity_always)
			appendStringInfo(&updates, "%s%s = EXCLUDED.%s", updates.len > 0 ? ", " : "", name, name);
	}
	appendStringInfo(&sql, "INSERT INTO %s AS merged (%s) OVERRIDING SYSTEM VALUE VALUES (%s) ON CONFLICT (",
					 quote_qualified_identifier(get_namespace_name(RelationGetNamespace(rel)),
												RelationGetRelationName(rel)),
					 columns.data, values.data);
	append_key(&sql, table, rel);
	if (updates.len > 0)
		appendStringInfo(&sql, ") DO UPDATE SET %s", updates.data);
	else
		appendStringInfoString(&sql, ") DO NOTHING");

	plan = SPI_prepare(sql.data, n, types);
	if (plan == NULL)
		elog(ERROR, "SPI_prepare failed for \"%s\": %s", sql.data, SPI_result_code_string(SPI_result));
	check_plan(plan, rel);
	SPI_keepplan(plan);
	return plan;
}

/*
 * append_key names the columns of the key, with the collations and classes of operators of the
 * index: there may be another one on the same columns.
 */
static void
append_key(StringInfo sql, const MergeTable *table, Relation rel)
{
	Relation index = index_open(table->index, AccessShareLock);

	for (int i = 0; i < table->nkeys; i++)
	{
		Oid collation = index->rd_indcollation[i];
		HeapTuple tuple;
		Form_pg_opclass opclass;

		appendStringInfo(sql, "%s%s", i > 0 ? ", " : "",
						 quote_identifier(NameStr(TupleDescAttr(RelationGetDescr(rel), table->keys[i] - 1)->attname)));
		if (OidIsValid(collation))
		{
			tuple = SearchSysCache1(COLLOID, ObjectIdGetDatum(collation));
			if (!HeapTupleIsValid(tuple))
				elog(ERROR, "cache lookup failed for collation %u", collation);
			appendStringInfo(sql, " COLLATE %s",
							 quote_qualified_identifier(get_namespace_name(((Form_pg_collation) GETSTRUCT(tuple))->collnamespace),
														NameStr(((Form_pg_collation) GETSTRUCT(tuple))->collname)));
			ReleaseSysCache(tuple);
		}
		tuple = SearchSysCache1(CLAOID, ObjectIdGetDatum(get_index_column_opclass(table->index, i + 1)));
		if (!HeapTupleIsValid(tuple))
			elog(ERROR, "cache lookup failed for a class of operators of index %u", table->index);
		opclass = (Form_pg_opclass) GETSTRUCT(tuple);
		appendStringInfo(sql, " %s", quote_qualified_identifier(get_namespace_name(opclass->opcnamespace), NameStr(opclass->opcname)));
		ReleaseSysCache(tuple);
	}
	index_close(index, NoLock);
}

/*
 * check_plan raises 55000 if the table's name stood for another table when it was parsed.
 */
static void
check_plan(SPIPlanPtr plan, Relation rel)
{
	CachedPlanSource *source = linitial(SPI_plan_get_plan_sources(plan));
	Query *query = source->query_list != NIL ? linitial_node(Query, source->query_list) : NULL;

	if (query == NULL || query->resultRelation == 0 ||
		rt_fetch(query->resultRelation, query->rtable)->relid != RelationGetRelid(rel))
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("\"%s\" was renamed while it was being used", RelationGetRelationName(rel))));
}
