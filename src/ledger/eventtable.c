/*
 * eventtable.c
 *		Making the tables of events.
 *
 * They are made when a counter table gets its first event, as its owner, who may be
 * somebody else than the one who brings it. The lock that keeps two sessions
 * from making them at once is held to the end of the transaction.
 */
#include "postgres.h"

#include "access/table.h"
#include "base/rowread.h"
#include "base/runas.h"
#include "catalog/namespace.h"
#include "catalog/pg_class.h"
#include "catalog/pg_inherits.h"
#include "catalog/pg_type.h"
#include "counter/table.h"
#include "executor/spi.h"
#include "ledger/eventslot.h"
#include "ledger/ledger.h"
#include "miscadmin.h"
#include "storage/bufmgr.h"
#include "storage/lmgr.h"
#include "storage/lock.h"
#include "utils/builtins.h"
#include "utils/inval.h"
#include "utils/lsyscache.h"
#include "utils/timestamp.h"

/* See counter/locks.c for the classes. */
#define MAKING_LOCK_CLASS 86

#define EVENT_COLUMNS \
	"slot pg_catalog.int2 NOT NULL," \
	" event_id pg_catalog.text COLLATE pg_catalog.\"C\" NOT NULL," \
	" key pg_catalog.text COLLATE pg_catalog.\"C\" NOT NULL," \
	" delta pg_catalog.int8 NOT NULL," \
	" transfer_id pg_catalog.int8," \
	" digest pg_catalog.int8," \
	" at pg_catalog.timestamptz NOT NULL"

static void make_all(DcCounter *counter, int want);
static bool adopt(DcCounter *counter);
static bool has_rows(Oid relid);
static void lock_making(Oid counter, LOCKMODE mode);
static void make_partition(const DcCounter *counter, const char *schema,
						   const char *events, int number);
static void attach_partition(const DcCounter *counter, const char *schema,
							 const char *events, int number);
static void add_slot(Oid counter, Oid events, int number, DcSlotState state,
					 TimestampTz forgotten);
static TimestampTz oldest_event(Oid events);
static Oid partition_of(Oid events, int number);

/*
 * events_create makes the tables of events of a counter table, if they are not there
 * yet: one partition if events are kept for good, else a ring of them.
 */
void
events_create(DcCounter *counter)
{
	DcEventSlot slots[DC_EVENT_SLOTS];
	DcRunAs state;
	int have;
	int want = counter->row.event_retention == 0 ? 1 : DC_EVENT_SLOTS;

	have = eventslots_read(counter->relid, slots);
	if (have >= want)
		return;
	lock_making(counter->relid, ExclusiveLock);
	have = eventslots_read(counter->relid, slots);
	if (have >= want)
		return;
	runas_begin(&state, counter->owner);
	if (have == 0)
	{
		eventslots_delete(counter->relid); /* of a table that is gone */
		if (!adopt(counter))
			make_all(counter, want);
	}
	else
	{
		char *schema = get_namespace_name(get_rel_namespace(slots[0].events));
		char *events = get_rel_name(slots[0].events);

		for (int i = have; i < want; i++)
		{
			attach_partition(counter, schema, events, i);
			add_slot(counter->relid, slots[0].events, i, SLOT_EMPTY, 0);
		}
	}
	runas_end(&state);
}

/*
 * events_adopt finds the tables of events of a counter table that was adopted.
 */
void
events_adopt(DcCounter *counter)
{
	DcEventSlot slots[DC_EVENT_SLOTS];

	lock_making(counter->relid, ExclusiveLock);
	if (eventslots_read(counter->relid, slots) == 0)
		(void) adopt(counter);
}

/*
 * adopt finds the tables of events by their names; false if there are none of the same
 * owner. Partitions with events count as closed now. An empty one is open, or the first
 * one if none is empty. Events before the oldest one in a ring may be forgotten.
 */
static bool
adopt(DcCounter *counter)
{
	char *name = psprintf("%s%s", get_rel_name(counter->relid), DC_EVENT_SUFFIX);
	Oid events = get_relname_relid(name, get_rel_namespace(counter->relid));
	List *children;
	ListCell *lc;
	int number[DC_EVENT_SLOTS];
	bool full[DC_EVENT_SLOTS];
	TimestampTz oldest = 0;
	int open = -1;
	int n = 0;

	if (!OidIsValid(events) || get_rel_relkind(events) != RELKIND_PARTITIONED_TABLE ||
		relation_owner(events) != counter->owner)
		return false;
	LockRelationOid(events, ShareUpdateExclusiveLock);
	children = find_inheritance_children(events, AccessShareLock);
	for (int i = 0; i < DC_EVENT_SLOTS; i++)
	{
		foreach(lc, children)
		{
			char *child = get_rel_name(lfirst_oid(lc));

			/* elsewhere there may be any number of that name */
			if (child == NULL || strcmp(child, psprintf("%s_%d", name, i)) != 0 ||
				get_rel_namespace(lfirst_oid(lc)) != get_rel_namespace(events))
				continue;
			full[n] = has_rows(lfirst_oid(lc));
			number[n] = i;
			if (!full[n] && open < 0)
				open = n;
			n++;
			break;
		}
	}
	if (n == DC_EVENT_SLOTS)
		oldest = oldest_event(events);
	else
		n = n > 0 && number[0] == 0 ? 1 : 0;
	if (open >= n || open < 0 || n == 1)
		open = 0;
	for (int i = 0; i < n; i++)
		add_slot(counter->relid, events, i,
				 i == open ? SLOT_OPEN : full[i] ? SLOT_CLOSED
												 : SLOT_EMPTY,
				 i == 0 && n > 1 ? oldest : 0);
	return n > 0;
}

/*
 * oldest_event returns when the first event of a ring was recorded, less the tolerance
 * that is added to what is forgotten (event.c); 0 if there is none.
 */
static TimestampTz
oldest_event(Oid events)
{
	static const DcResultColumn columns[ROWS_MAX_COLUMNS] = {DC_NULLABLE("at", TIMESTAMPTZOID)};
	TimestampTz oldest = 0;
	DcRows rows;
	Datum value;
	bool isnull;

	if (SPI_connect() != SPI_OK_CONNECT)
		elog(ERROR, "SPI_connect failed");
	if (SPI_execute(psprintf("SELECT pg_catalog.min(at) FROM %s",
							 relation_sql_name(events)),
					true, 0) != SPI_OK_SELECT)
		elog(ERROR, "SPI_execute failed");
	rows_take(&rows, columns, events);
	value = rows_nullable(&rows, 0, 1, &isnull);
	if (!isnull)
		oldest = DatumGetTimestampTz(value) - 2 * DC_EVENT_TOLERANCE;
	SPI_finish();
	return oldest;
}

static bool
has_rows(Oid relid)
{
	Relation rel = table_open(relid, NoLock);
	bool rows = rel->rd_rel->relkind != RELKIND_RELATION ||
		RelationGetNumberOfBlocks(rel) > 0;

	table_close(rel, NoLock);
	return rows;
}

/*
 * lock_making makes this transaction the only one that makes the tables of events of a
 * counter table, or waits for the one.
 */
static void
lock_making(Oid counter, LOCKMODE mode)
{
	LOCKTAG tag;

	SET_LOCKTAG_ADVISORY(tag, MyDatabaseId, counter, 0, MAKING_LOCK_CLASS);
	(void) LockAcquire(&tag, mode, false, false);
	if (mode == ExclusiveLock)
		return;
	(void) LockRelease(&tag, mode, false);
	AcceptInvalidationMessages();
}

/*
 * events_wait_made waits for a transaction that is making the tables of events.
 */
void
events_wait_made(DcCounter *counter)
{
	lock_making(counter->relid, ShareLock);
}

/*
 * make_all makes the table and its partitions, as the current user.
 */
static void
make_all(DcCounter *counter, int want)
{
	Oid namespace = get_rel_namespace(counter->relid);
	char *schema = get_namespace_name(namespace);
	char *name = get_rel_name(counter->relid);
	char *events = sibling_name(name, DC_EVENT_SUFFIX);
	Oid relid;

	(void) sibling_name(name, DC_EVENT_SUFFIX "_0");
	run_ddl(psprintf("CREATE TABLE %s (%s) PARTITION BY LIST (slot)",
					 quote_qualified_identifier(schema, events), EVENT_COLUMNS));
	relid = get_relname_relid(events, namespace);
	if (counter_is_ledger(counter))
		guard_create(relation_sql_name(relid));
	for (int i = 0; i < want; i++)
	{
		make_partition(counter, schema, events, i);
		add_slot(counter->relid, relid, i, i == 0 ? SLOT_OPEN : SLOT_EMPTY, 0);
	}
}

static void
make_partition(const DcCounter *counter, const char *schema, const char *events,
			   int number)
{
	char *name = psprintf("%s_%d", events, number);

	run_ddl(psprintf("CREATE TABLE %s PARTITION OF %s"
					 " (slot DEFAULT %d, PRIMARY KEY (event_id))"
					 " FOR VALUES IN (%d) WITH (vacuum_truncate=off)",
					 quote_qualified_identifier(schema, name),
					 quote_qualified_identifier(schema, events), number, number));
	if (counter_is_ledger(counter))
		guard_create_truncate(quote_qualified_identifier(schema, name));
}

/*
 * attach_partition makes one for a table that is in use. Unlike CREATE TABLE ...
 * PARTITION OF it waits for no writers, and keeps none waiting.
 */
static void
attach_partition(const DcCounter *counter, const char *schema, const char *events,
				 int number)
{
	char *parent = pstrdup(quote_qualified_identifier(schema, events));
	char *name = pstrdup(quote_qualified_identifier(schema, psprintf("%s_%d", events, number)));

	run_ddl(psprintf("CREATE TABLE %s (LIKE %s INCLUDING ALL, PRIMARY KEY (event_id))"
					 " WITH (vacuum_truncate=off)",
					 name, parent));
	run_ddl(psprintf("ALTER TABLE %s ALTER slot SET DEFAULT %d", name, number));
	run_ddl(psprintf("ALTER TABLE %s ATTACH PARTITION %s FOR VALUES IN (%d)",
					 parent, name, number));
	if (counter_is_ledger(counter))
		guard_create_truncate(name);
}

static void
add_slot(Oid counter, Oid events, int number, DcSlotState state,
		 TimestampTz forgotten)
{
	DcEventSlot slot = {0};

	slot.number = number;
	slot.events = events;
	slot.table = partition_of(events, number);
	slot.state = state;
	slot.since = GetCurrentTimestamp();
	slot.forgotten = forgotten;
	slot.closed_at = state == SLOT_CLOSED ? slot.since : 0;
	eventslot_insert(counter, &slot);
}

/*
 * partition_of finds a partition by its name.
 */
static Oid
partition_of(Oid events, int number)
{
	char *name = psprintf("%s_%d", get_rel_name(events), number);
	Oid relid = get_relname_relid(name, get_rel_namespace(events));

	if (!OidIsValid(relid))
		ereport(ERROR,
				(errcode(ERRCODE_UNDEFINED_TABLE),
				 errmsg("relation \"%s\" does not exist", name)));
	return relid;
}
