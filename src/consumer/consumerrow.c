/*
 * consumerrow.c
 *		Reading and writing the catalog dcounter.consumer.
 *
 * As in base/catalog.c, rows are read and written below the executor, with the
 * extension's own checks in front, and read with SnapshotSelf: what is not found
 * is looked for once more, as it may be being replaced just then. Who changes a row
 * holds the lock on the consumer's settings (consumeraccess.c).
 */
#include "postgres.h"

#include "access/genam.h"
#include "access/htup_details.h"
#include "access/table.h"
#include "access/xact.h"
#include "base/compat.h"
#include "catalog/indexing.h"
#include "catalog/namespace.h"
#include "catalog/pg_authid.h"
#include "catalog/pg_type.h"
#include "consumer/consumer.h"
#include "table/catalog.h"
#include "utils/builtins.h"
#include "utils/datum.h"
#include "utils/fmgroids.h"
#include "utils/inval.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"
#include "utils/snapmgr.h"
#include "utils/syscache.h"

/* Columns of dcounter.consumer */
enum
{
	COL_ID = 1,
	COL_NAME,
	COL_OWNER,
	COL_READERS,
	COL_TOPICS,
	COL_LEASE,
	COL_MAX_ATTEMPTS,
	COL_ON_NACK,
	COL_MAX_AGE,
	COL_MAX_SIZE,
	COL_CUT_OFF,
	COL_CREATED_AT,
	COL_REVIVED,
	NUM_COLS = COL_REVIVED
};

static const char *const relation_names[NUM_CONSUMER_RELATIONS] = {
	[REL_CONSUMER] = "consumer",
	[REL_CONSUMER_PKEY] = "consumer_pkey",
	[REL_CONSUMER_NAME] = "consumer_name_key",
	[REL_CONSUMER_ID] = "consumer_id",
	[REL_MEMBER] = "consumer_member",
	[REL_MEMBER_PKEY] = "consumer_member_pkey",
	[REL_RETRY] = "consumer_retry",
	[REL_RETRY_PKEY] = "consumer_retry_pkey",
	[REL_RETRY_DUE] = "consumer_retry_due",
	[REL_RETRY_KEY] = "consumer_retry_key",
};

/* What this backend knows; forgotten when one of the relations changes. */
static Oid known[NUM_CONSUMER_RELATIONS];

static void invalidate(Datum arg, Oid relid);
static DcConsumer *scan_for(DcConsumerRelation index, ScanKey key);
static DcConsumer *consumer_deform(Relation rel, HeapTuple tuple);
static Datum copy_value(Relation rel, int column, Datum value);
static bool is_lost(Oid role);
static void forget_lost_roles(Relation rel, DcConsumer *consumer);
static HeapTuple consumer_form(Relation rel, const DcConsumer *consumer);

/*
 * consumer_init registers the callbacks; called once.
 */
void
consumer_init(void)
{
	static const DcConsumerHooks hooks = {
		.needs = consumer_needs,
		.cut_off = consumer_cut_off,
		.advance = consumer_advance,
		.cleanup = consumer_cleanup,
		.first_needed = consumer_first_needed,
	};

	consumer_hooks = &hooks;
	CacheRegisterRelcacheCallback(invalidate, (Datum) 0);
	ack_init();
}

static void
invalidate(Datum arg, Oid relid)
{
	bool ours = !OidIsValid(relid);

	for (int i = 0; i < NUM_CONSUMER_RELATIONS && !ours; i++)
		ours = relid == known[i];
	if (ours)
		memset(known, 0, sizeof(known));
}

/*
 * consumer_relation finds one of the consumers' relations.
 */
Oid
consumer_relation(DcConsumerRelation which)
{
	if (!OidIsValid(known[which]))
	{
		Oid schema = get_namespace_oid(DC_SCHEMA, true);
		Oid relid = InvalidOid;

		if (OidIsValid(schema))
			relid = get_relname_relid(relation_names[which], schema);
		if (!OidIsValid(relid))
			ereport(ERROR,
					(errcode(ERRCODE_UNDEFINED_TABLE),
					 errmsg("relation \"%s.%s\" does not exist", DC_SCHEMA,
							relation_names[which]),
					 errhint("Is the extension dcounter created in this database?")));
		known[which] = relid;
	}
	return known[which];
}

/*
 * consumer_read finds a consumer by its name, or returns NULL.
 */
DcConsumer *
consumer_read(const char *name)
{
	ScanKeyData key;
	DcConsumer *consumer;

	ScanKeyInit(&key, COL_NAME, BTEqualStrategyNumber, F_TEXTEQ,
				CStringGetTextDatum(name));
	consumer = scan_for(REL_CONSUMER_NAME, &key);
	return consumer != NULL ? consumer : scan_for(REL_CONSUMER_NAME, &key);
}

/*
 * consumer_read_by_id finds a consumer by its id, or returns NULL.
 */
DcConsumer *
consumer_read_by_id(int32 id)
{
	ScanKeyData key;
	DcConsumer *consumer;

	ScanKeyInit(&key, COL_ID, BTEqualStrategyNumber, F_INT4EQ, Int32GetDatum(id));
	consumer = scan_for(REL_CONSUMER_PKEY, &key);
	return consumer != NULL ? consumer : scan_for(REL_CONSUMER_PKEY, &key);
}

static DcConsumer *
scan_for(DcConsumerRelation index, ScanKey key)
{
	Relation rel = table_open(consumer_relation(REL_CONSUMER), AccessShareLock);
	ScanKeyData copy = *key; /* the scan changes it */
	SysScanDesc scan = systable_beginscan(rel, consumer_relation(index), true,
										  SnapshotSelf, 1, &copy);
	HeapTuple tuple = systable_getnext(scan);
	DcConsumer *consumer = NULL;

	if (HeapTupleIsValid(tuple))
		consumer = consumer_deform(rel, tuple);
	systable_endscan(scan);
	table_close(rel, AccessShareLock);
	return consumer;
}

/*
 * consumer_read_all returns all consumers, as a snapshot shows them.
 */
List *
consumer_read_all(Snapshot snapshot)
{
	Relation rel = table_open(consumer_relation(REL_CONSUMER), AccessShareLock);
	SysScanDesc scan = systable_beginscan(rel, InvalidOid, false, snapshot, 0, NULL);
	HeapTuple tuple;
	List *all = NIL;

	while (HeapTupleIsValid(tuple = systable_getnext(scan)))
		all = lappend(all, consumer_deform(rel, tuple));
	systable_endscan(scan);
	table_close(rel, AccessShareLock);
	return all;
}

/*
 * consumer_insert adds a consumer; a unique violation is raised as usual.
 */
void
consumer_insert(DcConsumer *consumer)
{
	Relation rel = table_open(consumer_relation(REL_CONSUMER), RowExclusiveLock);
	HeapTuple tuple = consumer_form(rel, consumer);

	CatalogTupleInsert(rel, tuple);
	consumer->tid = tuple->t_self;
	table_close(rel, NoLock);
	CommandCounterIncrement();
}

/*
 * consumer_has_lost_roles tells whether roles of a consumer have been dropped.
 */
bool
consumer_has_lost_roles(const DcConsumer *consumer)
{
	bool lost = is_lost(consumer->owner);

	for (int i = 0; i < consumer->nreaders; i++)
		lost |= is_lost(consumer->readers[i]);
	return lost;
}

static bool
is_lost(Oid role)
{
	return !SearchSysCacheExists1(AUTHOID, ObjectIdGetDatum(role));
}

/*
 * forget_lost_roles removes readers that have been dropped, as another role may get the
 * number, here or where a dump is restored. What has lost its owner belongs to the owner
 * of the extension's tables.
 */
static void
forget_lost_roles(Relation rel, DcConsumer *consumer)
{
	int left = 0;

	if (is_lost(consumer->owner))
		consumer->owner = rel->rd_rel->relowner;
	for (int i = 0; i < consumer->nreaders; i++)
	{
		if (!is_lost(consumer->readers[i]))
			consumer->readers[left++] = consumer->readers[i];
	}
	consumer->nreaders = left;
}

/*
 * consumer_update stores changed settings, without roles that have been dropped.
 */
void
consumer_update(DcConsumer *consumer)
{
	Relation rel = table_open(consumer_relation(REL_CONSUMER), RowExclusiveLock);
	HeapTuple tuple;

	forget_lost_roles(rel, consumer);
	tuple = consumer_form(rel, consumer);
	CatalogTupleUpdate(rel, &consumer->tid, tuple);
	consumer->tid = tuple->t_self;
	table_close(rel, NoLock);
	CommandCounterIncrement();
}

void
consumer_delete(DcConsumer *consumer)
{
	Relation rel = table_open(consumer_relation(REL_CONSUMER), RowExclusiveLock);

	CatalogTupleDelete(rel, &consumer->tid);
	table_close(rel, NoLock);
	CommandCounterIncrement();
}

/*
 * consumer_wants tells whether a consumer is interested in a topic, a text that is
 * not compressed or stored elsewhere.
 */
bool
consumer_wants(const DcConsumer *consumer, const text *topic)
{
	Size len = VARSIZE_ANY_EXHDR(topic);

	if (consumer->topics == NULL)
		return true;
	for (int i = 0; i < consumer->ntopics; i++)
	{
		text *other = (text *) DatumGetPointer(consumer->topic_list[i]);

		if (VARSIZE_ANY_EXHDR(other) == len &&
			memcmp(VARDATA_ANY(other), VARDATA_ANY(topic), len) == 0)
			return true;
	}
	return false;
}

/*
 * consumer_deform reads a row into the current memory context.
 */
static DcConsumer *
consumer_deform(Relation rel, HeapTuple tuple)
{
	DcConsumer *consumer = palloc0(sizeof(DcConsumer));
	Datum values[NUM_COLS];
	bool nulls[NUM_COLS];
	Datum *readers;

	heap_deform_tuple(tuple, RelationGetDescr(rel), values, nulls);
	consumer->tid = tuple->t_self;
	consumer->id = DatumGetInt32(values[COL_ID - 1]);
	consumer->name = TextDatumGetCString(values[COL_NAME - 1]);
	consumer->owner = DatumGetObjectId(values[COL_OWNER - 1]);
	deconstruct_array(DatumGetArrayTypeP(values[COL_READERS - 1]), REGROLEOID,
					  sizeof(Oid), true, TYPALIGN_INT, &readers, NULL,
					  &consumer->nreaders);
	consumer->readers = palloc((consumer->nreaders + 1) * sizeof(Oid));
	for (int i = 0; i < consumer->nreaders; i++)
		consumer->readers[i] = DatumGetObjectId(readers[i]);
	if (!nulls[COL_TOPICS - 1])
		consumer_set_topics(consumer,
							DatumGetArrayTypePCopy(values[COL_TOPICS - 1]));
	consumer->lease_setting = copy_value(rel, COL_LEASE, values[COL_LEASE - 1]);
	consumer->lease = interval_arg_us(consumer->lease_setting, "lease");
	consumer->max_attempts = DatumGetInt32(values[COL_MAX_ATTEMPTS - 1]);
	consumer->skip = strcmp(TextDatumGetCString(values[COL_ON_NACK - 1]), "skip") == 0;
	if (!nulls[COL_MAX_AGE - 1])
	{
		consumer->age_setting = copy_value(rel, COL_MAX_AGE, values[COL_MAX_AGE - 1]);
		consumer->max_age = interval_arg_us(consumer->age_setting, "max_retention_age");
	}
	if (!nulls[COL_MAX_SIZE - 1])
		consumer->max_size = DatumGetInt64(values[COL_MAX_SIZE - 1]);
	if (!nulls[COL_CUT_OFF - 1])
		consumer->cut_off = DatumGetInt64(values[COL_CUT_OFF - 1]);
	consumer->created_at = values[COL_CREATED_AT - 1];
	consumer->revived = DatumGetInt64(values[COL_REVIVED - 1]);
	return consumer;
}

/*
 * copy_value copies a value that lies within a tuple.
 */
static Datum
copy_value(Relation rel, int column, Datum value)
{
	Form_pg_attribute att = TupleDescAttr(RelationGetDescr(rel), column - 1);

	return datumCopy(value, att->attbyval, att->attlen);
}

static HeapTuple
consumer_form(Relation rel, const DcConsumer *consumer)
{
	Datum values[NUM_COLS];
	bool nulls[NUM_COLS] = {false};
	Datum *readers = palloc((consumer->nreaders + 1) * sizeof(Datum));

	for (int i = 0; i < consumer->nreaders; i++)
		readers[i] = ObjectIdGetDatum(consumer->readers[i]);
	values[COL_ID - 1] = Int32GetDatum(consumer->id);
	values[COL_NAME - 1] = CStringGetTextDatum(consumer->name);
	values[COL_OWNER - 1] = ObjectIdGetDatum(consumer->owner);
	values[COL_READERS - 1] =
		PointerGetDatum(construct_array(readers, consumer->nreaders, REGROLEOID,
										sizeof(Oid), true, TYPALIGN_INT));
	values[COL_TOPICS - 1] = PointerGetDatum(consumer->topics);
	nulls[COL_TOPICS - 1] = consumer->topics == NULL;
	values[COL_LEASE - 1] = consumer->lease_setting;
	values[COL_MAX_ATTEMPTS - 1] = Int32GetDatum(consumer->max_attempts);
	values[COL_ON_NACK - 1] = CStringGetTextDatum(consumer->skip ? "skip" : "wait");
	values[COL_MAX_AGE - 1] = consumer->age_setting;
	nulls[COL_MAX_AGE - 1] = consumer->max_age == 0;
	values[COL_MAX_SIZE - 1] = Int64GetDatum(consumer->max_size);
	nulls[COL_MAX_SIZE - 1] = consumer->max_size == 0;
	values[COL_CUT_OFF - 1] = Int64GetDatum(consumer->cut_off);
	nulls[COL_CUT_OFF - 1] = consumer->cut_off == 0;
	values[COL_CREATED_AT - 1] = consumer->created_at;
	values[COL_REVIVED - 1] = Int64GetDatum(consumer->revived);
	return heap_form_tuple(RelationGetDescr(rel), values, nulls);
}
