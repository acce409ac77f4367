/*
 * capturecache.c
 *		A session's cache of the triggers that write events.
 *
 * Copyright (c) 2026, the dcounter developers
 *
 * Entries are found by the OID of the trigger: each partition has its own. An invalidation only
 * marks entries: it may come at any moment, even while one is in use (an output function may run
 * SQL, which may even fire the same trigger). The next use creates a new one. The old one is freed
 * when the transaction ends, as no use lasts longer.
 *
 * An entry depends on its table, on the name of the table that was attached,
 * which may be a partition's root, and on the name of a schema. Types need not be
 * watched: payload.c and this file remember only types and casts of the server
 * itself, or what cannot change.
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "access/table.h"
#include "catalog/objectaddress.h"
#include "catalog/pg_index.h"
#include "catalog/pg_trigger.h"
#include "catalog/pg_type.h"
#include "commands/trigger.h"
#include "nodes/pg_list.h"
#include "parser/parse_coerce.h"
#include "utils/builtins.h"
#include "utils/catcache.h"
#include "utils/inval.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"
#include "utils/rel.h"
#include "utils/syscache.h"

#include "base/args.h"
#include "base/compat.h"
#include "base/relcached.h"
#include "events/outbox/capture.h"

/* An entry; without a capture it was never finished. */
typedef struct Entry
{
	Oid trigger; /* hash key */
	Oid relid;
	Oid root; /* the table that was attached */
	bool valid;
	DcCapture *capture;
} Entry;

static void capturecache_entry_changed(void *entry, Oid relid);

/*
 * The captures of entries are in TopMemoryContext, too, until capturecache_sweep() leaves them to
 * the transaction.
 */
static DcRelCached entries = {
	.name = "dcounter triggers",
	.keysize = sizeof(Oid),
	.size = sizeof(Entry),
	.changed = capturecache_entry_changed,
};

static void on_namespace_change(Datum arg, int cacheid, uint32 hashvalue);
static void capturecache_sweep(void);
static DcCapture *capture_make(Entry *entry, TriggerData *data);
static List *columns_arg(const Trigger *trigger, int n);
static char *array_element(const char **at);
static void check_args(const Trigger *trigger);
static Oid attached_table(Oid relid, const Trigger *trigger);
static AttrNumber *column_numbers(Relation rel, List *names, int *n);
static AttrNumber *all_columns(Relation rel, int *n);
static void key_make(DcCapture *capture, Relation rel, const AttrNumber *attnums, int n);

/*
 * capture_find returns the capture of a trigger that has fired. It stays valid
 * until the transaction ends.
 */
DcCapture *
capture_find(TriggerData *data)
{
	Oid oid = data->tg_trigger->tgoid;
	Entry *entry = relcached_find(&entries, &oid);

	if (likely(entry != NULL && entry->valid && entry->capture != NULL))
		return entry->capture;

	if (entries.hash == NULL)
		CacheRegisterSyscacheCallback(NAMESPACEOID, on_namespace_change, (Datum) 0);
	else
		capturecache_sweep();
	entry = relcached_enter(&entries, &oid);
	entry->relid = RelationGetRelid(data->tg_relation);
	entry->root = InvalidOid;
	entry->capture = NULL;
	/* if an invalidation comes in the meantime, this use is the last */
	entry->valid = true;
	entry->capture = capture_make(entry, data);
	return entry->capture;
}

/*
 * Mark an entry as invalid if its table, or the one that was attached, has changed; InvalidOid
 * stands for all tables.
 */
static void
capturecache_entry_changed(void *data, Oid relid)
{
	Entry *entry = data;

	if (!OidIsValid(relid) || entry->relid == relid || entry->root == relid)
		entry->valid = false;
}

/*
 * Mark all entries as invalid: events name their table with its schema.
 */
static void
on_namespace_change(Datum arg, int cacheid, uint32 hashvalue)
{
	relcached_changed(&entries, InvalidOid);
}

/*
 * capturecache_sweep removes entries that are not valid; their memory is freed when the transaction
 * ends. Entries that are being made further up the stack are kept.
 */
static void
capturecache_sweep(void)
{
	HASH_SEQ_STATUS scan;
	Entry *entry;

	hash_seq_init(&scan, entries.hash);
	while ((entry = hash_seq_search(&scan)) != NULL)
	{
		if (entry->valid || entry->capture == NULL)
			continue;
		MemoryContextSetParent(entry->capture->cxt, TopTransactionContext);
		hash_search(entries.hash, &entry->trigger, HASH_REMOVE, NULL);
	}
}

/*
 * Prepare all that a trigger needs for each row, in a context of its own. That is kept for the
 * session only once nothing can fail any more.
 */
static DcCapture *
capture_make(Entry *entry, TriggerData *data)
{
	Relation rel = data->tg_relation;
	char **args = data->tg_trigger->tgargs;
	MemoryContext cxt = AllocSetContextCreate(CurrentMemoryContext, "dcounter trigger",
											  ALLOCSET_SMALL_SIZES);
	MemoryContext old = MemoryContextSwitchTo(cxt);
	DcCapture *capture = palloc0(sizeof(DcCapture));
	List *columns;
	List *keys;
	AttrNumber *attnums;
	int n;

	check_args(data->tg_trigger);
	capture->cxt = cxt;
	capture->topic = cstring_to_text(args[CAPTURE_TOPIC]);
	capture->wal = capture_to_wal(args[CAPTURE_SINK]);
	entry->root = attached_table(entry->relid, data->tg_trigger);
	capture->table = cstring_to_text(quote_qualified_identifier(
		get_namespace_name(get_rel_namespace(entry->root)), get_rel_name(entry->root)));

	columns = columns_arg(data->tg_trigger, CAPTURE_COLUMNS);
	attnums = columns == NIL ? all_columns(rel, &n) : column_numbers(rel, columns, &n);
	json_row_make(&capture->row, RelationGetDescr(rel), attnums, n, false);

	keys = columns_arg(data->tg_trigger, CAPTURE_KEY_COLUMNS);
	attnums = keys == NIL ? primary_key_columns(rel, &n) : column_numbers(rel, keys, &n);
	key_make(capture, rel, attnums, n);

	MemoryContextSetParent(cxt, TopMemoryContext);
	MemoryContextSwitchTo(old);
	return capture;
}

/*
 * Return the names of columns in a trigger's argument; NIL if it is empty. An error if it is not an
 * array's text.
 */
static List *
columns_arg(const Trigger *trigger, int n)
{
	bool valid;
	List *names = capture_columns(trigger->tgargs[n], &valid);

	if (!valid)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("invalid list of columns \"%s\"", trigger->tgargs[n]),
				 errdetail("It must be the text of an array, such as {a,b}, or empty."),
				 errhint("Use dc_outbox_attach().")));
	return names;
}

/*
 * Check the trigger's arguments: how many there are, and the topic. They may have been written by
 * hand.
 */
static void
check_args(const Trigger *trigger)
{
	if (trigger->tgnargs != CAPTURE_NUM_ARGS)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("trigger \"%s\" must have %d arguments: topic, sink, key columns, columns",
						trigger->tgname, CAPTURE_NUM_ARGS),
				 errhint("Use dc_outbox_attach().")));
	check_length("topic", strlen(trigger->tgargs[CAPTURE_TOPIC]), 1, MaxAllocSize);
}

/*
 * capture_to_wal returns true if a text names the WAL as the sink, false if it names the table;
 * 22023 for any other.
 */
bool
capture_to_wal(const char *sink)
{
	if (strcmp(sink, SINK_WAL) == 0)
		return true;
	if (strcmp(sink, SINK_TABLE) != 0)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("invalid sink \"%s\"", sink),
				 errhint("A sink is \"%s\" or \"%s\".", SINK_TABLE, SINK_WAL)));
	return false;
}

/*
 * attached_table returns the table whose trigger this one is a copy of.
 */
static Oid
attached_table(Oid relid, const Trigger *trigger)
{
	Oid oid = trigger->tgoid;
	Relation catalog;
	HeapTuple tuple;

	if (!trigger->tgisclone)
		return relid;
	catalog = table_open(TriggerRelationId, AccessShareLock);
	while (OidIsValid(oid) &&
		   (tuple = get_catalog_object_by_oid(catalog, Anum_pg_trigger_oid, oid)) != NULL)
	{
		relid = ((Form_pg_trigger) GETSTRUCT(tuple))->tgrelid;
		oid = ((Form_pg_trigger) GETSTRUCT(tuple))->tgparentid;
		heap_freetuple(tuple);
	}
	table_close(catalog, AccessShareLock);
	return relid;
}

/*
 * capture_columns returns the column names in a trigger argument, which is the text of an array;
 * NIL for an empty array, which stands for the default. *valid is set to false if the argument is
 * no such text: any role may have written it, and DDL must not fail because of it.
 */
List *
capture_columns(const char *arg, bool *valid)
{
	List *names = NIL;
	const char *at = arg;

	*valid = true;
	if (arg[0] == '\0' || strcmp(arg, "{}") == 0)
		return NIL;
	*valid = *at == '{';
	while (*valid)
	{
		char *name = array_element(&at);

		*valid = name != NULL && (*at == ',' || strcmp(at, "}") == 0);
		names = lappend(names, name);
		if (*at == '}')
			break;
	}
	return *valid ? names : NIL;
}

/*
 * array_element reads an element of the text of an array, as array_out() writes it.
 * *at is before it, and then behind it. NULL if there is none.
 */
static char *
array_element(const char **at)
{
	const char *from = *at + 1;
	bool quoted;
	StringInfoData name;

	initStringInfo(&name);
	while (*from == ' ')
		from++;
	quoted = *from == '"';
	if (quoted)
		from++;
	while (*from != '\0' && (quoted ? *from != '"' : strchr(",{}\"", *from) == NULL))
	{
		if (*from == '\\' && from[1] != '\0')
			from++;
		appendStringInfoChar(&name, *from++);
	}
	*at = quoted && *from == '"' ? from + 1 : from;
	return name.len > 0 && (!quoted || *from == '"') ? name.data : NULL;
}

/*
 * Return the numbers of the named columns, *n of them. An error if the table lacks one, or one is
 * named twice.
 */
static AttrNumber *
column_numbers(Relation rel, List *names, int *n)
{
	AttrNumber *attnums = palloc(sizeof(AttrNumber) * list_length(names));
	ListCell *lc;

	*n = 0;
	foreach(lc, names)
	{
		AttrNumber attnum = column_number(RelationGetDescr(rel), lfirst(lc));

		if (attnum == InvalidAttrNumber)
			ereport(ERROR,
					(errcode(ERRCODE_UNDEFINED_COLUMN),
					 errmsg("column \"%s\" of relation \"%s\" does not exist",
							(char *) lfirst(lc), RelationGetRelationName(rel)),
					 errhint("Call dc_outbox_detach(), then dc_outbox_attach() with other columns.")));
		for (int i = 0; i < *n; i++)
		{
			if (attnums[i] == attnum)
				ereport(ERROR,
						(errcode(ERRCODE_DUPLICATE_COLUMN),
						 errmsg("column \"%s\" specified more than once", (char *) lfirst(lc))));
		}
		attnums[(*n)++] = attnum;
	}
	return attnums;
}

/*
 * column_number returns the number of a column; InvalidAttrNumber if there is none
 * of that name.
 */
AttrNumber
column_number(TupleDesc desc, const char *name)
{
	for (int i = 0; i < desc->natts; i++)
	{
		Form_pg_attribute att = TupleDescAttr(desc, i);

		if (!att->attisdropped && strcmp(NameStr(att->attname), name) == 0)
			return att->attnum;
	}
	return InvalidAttrNumber;
}

/*
 * Return the numbers of all columns of the table, *n of them.
 */
static AttrNumber *
all_columns(Relation rel, int *n)
{
	TupleDesc desc = RelationGetDescr(rel);
	AttrNumber *attnums = palloc(sizeof(AttrNumber) * Max(desc->natts, 1));

	*n = 0;
	for (int i = 0; i < desc->natts; i++)
	{
		if (!TupleDescAttr(desc, i)->attisdropped)
			attnums[(*n)++] = i + 1;
	}
	return attnums;
}

/*
 * primary_key_columns returns the columns of the primary key, in its order. A deferrable one is
 * accepted, so rd_pkindex cannot be used.
 */
AttrNumber *
primary_key_columns(Relation rel, int *n)
{
	AttrNumber *attnums = palloc(sizeof(AttrNumber) * INDEX_MAX_KEYS);
	List *indexes = RelationGetIndexList(rel);
	ListCell *lc;

	*n = 0;
	foreach(lc, indexes)
	{
		HeapTuple tuple = SearchSysCache1(INDEXRELID, ObjectIdGetDatum(lfirst_oid(lc)));
		Form_pg_index index;

		if (!HeapTupleIsValid(tuple))
			continue;
		index = (Form_pg_index) GETSTRUCT(tuple);
		if (index->indisprimary)
		{
			for (int i = 0; i < index->indnkeyatts; i++)
				attnums[(*n)++] = index->indkey.values[i];
		}
		ReleaseSysCache(tuple);
	}
	return attnums;
}

/*
 * key_make prepares how keys are created: the text of one column, as a cast shows it, or a JSON
 * array of several.
 */
static void
key_make(DcCapture *capture, Relation rel, const AttrNumber *attnums, int n)
{
	TupleDesc desc = RelationGetDescr(rel);
	Oid function;
	Oid type;
	bool varlena;

	for (int i = 0; i < n; i++)
	{
		Form_pg_attribute att = TupleDescAttr(desc, attnums[i] - 1);

		if (compat_is_virtual(att))
			ereport(ERROR,
					(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
					 errmsg("virtual generated column \"%s\" cannot be a key",
							NameStr(att->attname))));
	}
	if (n == 0)
		capture->key_kind = KEY_NONE;
	else if (n > 1)
	{
		capture->key_kind = KEY_SEVERAL;
		json_row_make(&capture->keys, desc, attnums, n, true);
	}
	if (n != 1)
		return;

	capture->key = attnums[0];
	type = getBaseType(TupleDescAttr(desc, attnums[0] - 1)->atttypid);
	switch (find_coercion_pathway(TEXTOID, type, COERCION_EXPLICIT, &function))
	{
		case COERCION_PATH_RELABELTYPE:
			capture->key_kind = KEY_BYTES;
			return;
		case COERCION_PATH_FUNC:
			/* it is the server's, so it will not be dropped */
			if (function < FirstNormalObjectId)
			{
				capture->key_kind = KEY_CAST;
				fmgr_info_cxt(function, &capture->key_function, CurrentMemoryContext);
				return;
			}
			pg_fallthrough;
		default:
			capture->key_kind = KEY_OUTPUT;
			getTypeOutputInfo(type, &function, &varlena);
			fmgr_info_cxt(function, &capture->key_function, CurrentMemoryContext);
	}
}
