/*
 * optable.c
 *		Making the tables of ops.
 *
 * Copyright (c) 2026, the dcounter developers
 *
 * They are created when a counter table gets its first op, as the owner of the counter table, even
 * if another role sends the op. The lock that keeps two sessions from making them at once is held
 * to the end of the transaction.
 */
#include "postgres.h"

#include "catalog/pg_class.h"
#include "catalog/pg_type.h"
#include "executor/spi.h"
#include "miscadmin.h"
#include "storage/lmgr.h"
#include "storage/lock.h"
#include "utils/builtins.h"
#include "utils/inval.h"
#include "utils/lsyscache.h"
#include "utils/timestamp.h"

#include "base/guc.h"
#include "base/hooks.h"
#include "base/lockclass.h"
#include "base/relopen.h"
#include "base/rowread.h"
#include "base/runas.h"
#include "core/table/guard.h"
#include "core/table/partition.h"
#include "core/table/protect.h"
#include "core/table/table.h"
#include "transactional/once/opslot.h"

#define OP_COLUMNS \
	"slot pg_catalog.int2 NOT NULL," \
	" op_id pg_catalog.text COLLATE pg_catalog.\"C\" NOT NULL," \
	" key pg_catalog.text COLLATE pg_catalog.\"C\" NOT NULL," \
	" delta pg_catalog.int8 NOT NULL," \
	" transfer_id pg_catalog.int8," \
	" digest pg_catalog.int8," \
	" at pg_catalog.timestamptz NOT NULL"

#define OP_COMMENT "ops, which count once; see dc_incr_once()"

static void make_all(DcCounter *counter, int want);
static Oid ops_counter(Oid relid);
static void ops_adopt(DcCounter *counter);
static bool optable_adopt(DcCounter *counter);
static void lock_making(Oid counter, LOCKMODE mode);
static void make_slot(const DcCounter *counter, Oid ops, int number, DcSlotState state);
static void optable_add_slot(Oid counter, Oid ops, int number, DcSlotState state,
							 TimestampTz forgotten);
static TimestampTz oldest_op(DcCounter *counter, Oid ops);
static Oid optable_partition_of(Oid ops, int number);

/*
 * ops_create makes the tables of ops of a counter table, if they are not there
 * yet: one partition if ops are kept forever, otherwise a ring of them.
 */
void
ops_create(DcCounter *counter)
{
	DcOpSlot slots[DC_OP_SLOTS];
	DcRunAs state;
	int have;
	int want = counter->row.op_retention == 0 ? 1 : DC_OP_SLOTS;

	have = opslots_read(counter->relid, slots);
	if (have >= want)
		return;
	lock_making(counter->relid, ExclusiveLock);
	have = opslots_read(counter->relid, slots);
	if (have >= want)
		return;
	runas_begin(&state, counter->owner);
	if (have == 0)
	{
		opslots_delete(counter->relid); /* of a table that is gone */
		if (!optable_adopt(counter))
			make_all(counter, want);
	}
	else
	{
		for (int i = have; i < want; i++)
			make_slot(counter, slots[0].ops, i, SLOT_EMPTY);
	}
	runas_end(&state);
}

/*
 * once_init sets the hooks and registers the job of this room; called once.
 */
void
once_init(void)
{
	static const DcOnceHooks hooks = {.tables = ops_tables, .counter = ops_counter, .adopted = ops_adopt};

	once_hooks = &hooks;
	job_register((DcJob){.name = "ledger_ops", .interval = &dc_op_interval, .run = op_job});
}

/*
 * ops_tables adds the table of ops of a counter table, if it has one.
 */
List *
ops_tables(Oid counter, List *tables)
{
	DcOpSlot slot;

	if (opslots_read_first(counter, &slot))
		tables = lappend_oid(tables, slot.ops);
	return tables;
}

/*
 * Return the counter table that a table of ops, or a partition of one, belongs to; InvalidOid if it
 * is no such table.
 */
static Oid
ops_counter(Oid relid)
{
	Oid counter;
	Oid ops;

	return opslots_find_table(relid, &counter, &ops) ? counter : InvalidOid;
}

/*
 * ops_adopt finds the tables of ops of a counter table that was adopted.
 */
static void
ops_adopt(DcCounter *counter)
{
	DcOpSlot slots[DC_OP_SLOTS];

	lock_making(counter->relid, ExclusiveLock);
	if (opslots_read(counter->relid, slots) == 0)
		(void) optable_adopt(counter);
}

/*
 * optable_adopt finds the tables of ops by their names; false if there are none of the same
 * owner. Partitions with ops count as closed now. An empty one is open, or the first
 * one if none is empty. Ops before the oldest one in a ring may be forgotten.
 */
static bool
optable_adopt(DcCounter *counter)
{
	char *name = psprintf("%s%s", get_rel_name(counter->relid), DC_OP_SUFFIX);
	Oid ops = get_relname_relid(name, get_rel_namespace(counter->relid));
	List *children;
	ListCell *lc;
	int number[DC_OP_SLOTS];
	bool full[DC_OP_SLOTS];
	TimestampTz oldest = 0;
	int open = -1;
	int n = 0;

	if (!OidIsValid(ops) || get_rel_relkind(ops) != RELKIND_PARTITIONED_TABLE ||
		relation_owner(ops) != counter->owner)
		return false;
	LockRelationOid(ops, ShareUpdateExclusiveLock);
	children = relation_children(ops, AccessShareLock);
	for (int i = 0; i < DC_OP_SLOTS; i++)
	{
		foreach(lc, children)
		{
			char *child = get_rel_name(lfirst_oid(lc));

			/* elsewhere there may be any number of that name */
			if (child == NULL || strcmp(child, psprintf("%s_%d", name, i)) != 0 ||
				get_rel_namespace(lfirst_oid(lc)) != get_rel_namespace(ops))
				continue;
			full[n] = !relation_is_empty(lfirst_oid(lc));
			number[n] = i;
			if (!full[n] && open < 0)
				open = n;
			n++;
			break;
		}
	}
	if (n == DC_OP_SLOTS)
		oldest = oldest_op(counter, ops);
	else
		n = n > 0 && number[0] == 0 ? 1 : 0;
	if (open >= n || open < 0 || n == 1)
		open = 0;
	for (int i = 0; i < n; i++)
		optable_add_slot(counter->relid, ops, i,
						 i == open ? SLOT_OPEN : full[i] ? SLOT_CLOSED
														 : SLOT_EMPTY,
						 i == 0 && n > 1 ? oldest : 0);
	return n > 0;
}

/*
 * oldest_op returns when the first op of a ring was recorded, less the tolerance
 * that is added to the time up to which ops are forgotten (op.c); 0 if there is none. Code of the
 * owner, such as a cast of the column, runs as the owner. A time that no op can have been recorded at
 * counts as now.
 */
static TimestampTz
oldest_op(DcCounter *counter, Oid ops)
{
	static const DcResultColumn columns[ROWS_MAX_COLUMNS] = {DC_NULLABLE("at", TIMESTAMPTZOID)};
	TimestampTz now = GetCurrentTimestamp();
	TimestampTz oldest = 0;
	DcRunAs state;
	DcRows rows;
	Datum value;
	bool isnull;

	runas_begin(&state, counter->owner);
	SPI_connect();
	if (SPI_execute(psprintf("SELECT pg_catalog.min(at) FROM %s",
							 relation_sql_name(ops)),
					true, 0) != SPI_OK_SELECT)
		elog(ERROR, "SPI_execute failed");
	rows_take(&rows, columns, ops);
	value = rows_nullable(&rows, 0, 1, &isnull);
	if (!isnull)
	{
		oldest = DatumGetTimestampTz(value);
		if (oldest < 0 || oldest > now) /* before 2000, or infinite */
			oldest = now;
		oldest -= 2 * DC_OP_TOLERANCE;
	}
	SPI_finish();
	runas_end(&state);
	return oldest;
}

/*
 * lock_making makes this transaction the only one that makes the tables of ops of a
 * counter table, or waits for the one that does.
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
 * ops_wait_made waits for a transaction that is making the tables of ops.
 */
void
ops_wait_made(DcCounter *counter)
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
	char *ops = sibling_name(name, DC_OP_SUFFIX);
	Oid relid;

	(void) sibling_name(name, DC_OP_SUFFIX "_0");
	run_ddl(psprintf("CREATE TABLE %s (%s) PARTITION BY LIST (slot)",
					 quote_qualified_identifier(schema, ops), OP_COLUMNS));
	comment_table(schema, ops, OP_COMMENT);
	relid = get_relname_relid(ops, namespace);
	if (counter_is_ledger(counter))
		guard_create(relation_sql_name(relid));
	for (int i = 0; i < want; i++)
		make_slot(counter, relid, i, i == 0 ? SLOT_OPEN : SLOT_EMPTY);
}

/*
 * make_slot creates a partition of a table that may be in use, as the current user.
 */
static void
make_slot(const DcCounter *counter, Oid ops, int number, DcSlotState state)
{
	char *schema = get_namespace_name(get_rel_namespace(ops));
	char *parent = get_rel_name(ops);
	char *name = psprintf("%s_%d", parent, number);
	char *table = quote_qualified_identifier(schema, name);

	partition_attach(schema, parent, name, "INCLUDING ALL, PRIMARY KEY (op_id)",
					 "USING heap WITH (vacuum_truncate=off)", psprintf("IN (%d)", number));
	comment_table(schema, name, OP_COMMENT);
	run_ddl(psprintf("ALTER TABLE %s ALTER slot SET DEFAULT %d", table, number));
	if (counter_is_ledger(counter))
		guard_create_truncate(table);
	optable_add_slot(counter->relid, ops, number, state, 0);
}

/*
 * Insert a row of dcounter.op_slot for the partition of a number, which exists.
 */
static void
optable_add_slot(Oid counter, Oid ops, int number, DcSlotState state,
				 TimestampTz forgotten)
{
	DcOpSlot slot = {0};

	slot.counter = counter;
	slot.number = number;
	slot.ops = ops;
	slot.table = optable_partition_of(ops, number);
	slot.state = state;
	slot.since = GetCurrentTimestamp();
	slot.forgotten = forgotten;
	slot.closed_at = state == SLOT_CLOSED ? slot.since : 0;
	opslot_insert(&slot);
}

/*
 * optable_partition_of finds a partition by its name.
 */
static Oid
optable_partition_of(Oid ops, int number)
{
	char *name = psprintf("%s_%d", get_rel_name(ops), number);
	Oid relid = get_relname_relid(name, get_rel_namespace(ops));

	if (!OidIsValid(relid))
		ereport(ERROR,
				(errcode(ERRCODE_UNDEFINED_TABLE),
				 errmsg("relation \"%s\" does not exist", name)));
	return relid;
}
