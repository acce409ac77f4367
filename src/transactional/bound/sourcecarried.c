/*
 * sourcecarried.c
 *		Amounts that are carried over from detached partitions: the table NAME_carried.
 *
 * Copyright (c) 2026, the dcounter developers
 *
 * Rows of a detached partition continue to count if the counter was bound with on_detach => 'keep'.
 * Their amounts, by key, are added to this table, which belongs to the counter's owner as the other
 * tables of the counter do, is created when it is needed, and follows the counter table when that
 * is renamed, moved or dropped. A comparison of source and counter adds it to the source. So the
 * difference of the two does not change.
 *
 * It is written by SQL, as its owner and in a security-restricted operation, under the lock of the
 * binding. It is read without SQL, in the snapshot of the comparison.
 */
#include "postgres.h"

#include "access/relation.h"
#include "access/tableam.h"
#include "catalog/pg_collation.h"
#include "catalog/pg_type.h"
#include "common/int.h"
#include "storage/lmgr.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"
#include "utils/rel.h"

#include "base/args.h"
#include "base/compat.h"
#include "base/errors.h"
#include "base/key.h"
#include "base/runas.h"
#include "core/counter/sqlpath.h"
#include "core/table/access.h"
#include "core/table/table.h"
#include "transactional/bound/sourceddl.h"
#include "transactional/bound/sourcetrigger.h"

/* A row is updated a few times at most. */
#define CARRIED_OPTIONS "fillfactor=100"
#define CARRIED_COLUMNS \
	"key pg_catalog.text COLLATE pg_catalog.\"C\" PRIMARY KEY," \
	" amount pg_catalog.int8 NOT NULL"

typedef struct DcCarriedKey
{
	const char *data;
	uint32 len;
} DcCarriedKey;

typedef struct DcCarriedEntry
{
	DcCarriedKey key;
	int64 amount;
	uint32 hash;
	char status; /* for simplehash */
} DcCarriedEntry;

#define SH_PREFIX carriedtable
#define SH_ELEMENT_TYPE DcCarriedEntry
#define SH_KEY_TYPE DcCarriedKey
#define SH_KEY key
#define SH_HASH_KEY(tb, k) key_secret_hash((k).data, (k).len)
#define SH_EQUAL(tb, a, b) ((a).len == (b).len && memcmp((a).data, (b).data, (a).len) == 0)
#define SH_STORE_HASH
#define SH_GET_HASH(tb, a) (a)->hash
#define SH_SCOPE static inline
#define SH_DECLARE
#define SH_DEFINE
#include "lib/simplehash.h"

/* Keys that one statement writes. */
#define MAX_CARRIED 10000

struct DcCarrying
{
	DcSourceRow *row;
	MemoryContext cxt; /* of the table and its keys */
	carriedtable_hash *keys;
};

enum
{
	COL_KEY,
	COL_AMOUNT
};

static const DcShape carried_shape = {
	.relkinds = "r",
	.logged = true,
	.nkeys = 1,
	.keys = {COL_KEY},
	.ncolumns = 2,
	.columns = {[COL_KEY] = {"key", TEXTOID, C_COLLATION_OID}, [COL_AMOUNT] = {"amount", INT8OID}}};

/* keys, amounts */
static const DcStatement sql_carry = {
	.text = "INSERT INTO @carried AS c (key, amount)"
			" SELECT k.key, k.amount FROM ROWS FROM (pg_catalog.unnest($1), pg_catalog.unnest($2)) AS k (key, amount)"
			" ORDER BY k.key COLLATE \"C\""
			" ON CONFLICT (key) DO UPDATE SET amount = c.amount + excluded.amount",
	.argtypes = {TEXTARRAYOID, INT8ARRAYOID}};

static Oid carried_create(const DcSourceRow *row);
static void start_table(DcCarrying *carrying);
static void sourcecarried_flush(DcCarrying *carrying);
static const char *carried_word(DcCounter *counter, const char *word);

/*
 * carried_begin prepares for adding to the table of carried amounts of a binding, whose lock this
 * transaction has, and creates the table if there is none.
 */
DcCarrying *
carried_begin(DcSourceRow *row)
{
	DcCarrying *carrying = palloc0(sizeof(DcCarrying));

	if (!OidIsValid(row->carried) || get_rel_name(row->carried) == NULL)
	{
		row->carried = carried_create(row);
		source_update(row);
		CommandCounterIncrement();
	}
	carrying->row = row;
	carrying->cxt = AllocSetContextCreate(CurrentMemoryContext, "dcounter carried amounts", ALLOCSET_DEFAULT_SIZES);
	start_table(carrying);
	return carrying;
}

/*
 * Create NAME_carried for a counter table, as its owner; return its OID.
 */
static Oid
carried_create(const DcSourceRow *row)
{
	DcRunAs state;
	Oid relid;

	runas_begin(&state, relation_owner(row->counter));
	relid = sibling_create(row->counter, DC_CARRIED_SUFFIX, CARRIED_COLUMNS, CARRIED_OPTIONS, true,
						   "amounts of partitions that were detached; see dc_bind()");
	runas_end(&state);
	return relid;
}

/*
 * Start an empty table of amounts by key.
 */
static void
start_table(DcCarrying *carrying)
{
	MemoryContextReset(carrying->cxt);
	carrying->keys = carriedtable_create(carrying->cxt, 256, NULL);
}

/*
 * carried_add adds what a row counts for.
 */
void
carried_add(DcCarrying *carrying, const DcCounted *counted)
{
	DcCarriedKey probe = {counted->key.data, counted->key.len};
	DcCarriedEntry *entry = carriedtable_lookup(carrying->keys, probe);

	if (entry == NULL)
	{
		bool found;
		char *copy;

		if (carrying->keys->members >= MAX_CARRIED)
			sourcecarried_flush(carrying);
		copy = MemoryContextAlloc(carrying->cxt, probe.len + 1);
		memcpy(copy, probe.data, probe.len);
		probe.data = copy;
		entry = carriedtable_insert(carrying->keys, probe, &found);
		entry->amount = 0;
	}
	if (pg_add_s64_overflow(entry->amount, counted->value, &entry->amount))
		ereport(ERROR,
				(errcode(ERRCODE_NUMERIC_VALUE_OUT_OF_RANGE),
				 errmsg("bigint out of range"),
				 errdetail("The sum of the amounts of a counter key that are carried over is too large.")));
}

/*
 * carried_end writes what is left.
 */
void
carried_end(DcCarrying *carrying)
{
	sourcecarried_flush(carrying);
	MemoryContextDelete(carrying->cxt);
}

/*
 * Write the amounts by one upsert, as the owner of the counter table, and start an empty table.
 * Raises 42809 if the table of carried amounts has a different shape, 55000 if it has a different
 * owner.
 */
static void
sourcecarried_flush(DcCarrying *carrying)
{
	MemoryContext old = MemoryContextSwitchTo(carrying->cxt);
	int n = carrying->keys->members;
	Datum *keys = palloc((n + 1) * sizeof(Datum));
	Datum *amounts = palloc((n + 1) * sizeof(Datum));
	carriedtable_iterator it;
	DcCarriedEntry *entry;
	DcSqlSession session;
	Datum values[2];

	n = 0;
	carriedtable_start_iterate(carrying->keys, &it);
	while ((entry = carriedtable_iterate(carrying->keys, &it)) != NULL)
	{
		keys[n] = PointerGetDatum(cstring_to_text_with_len(entry->key.data, entry->key.len));
		amounts[n++] = Int64GetDatum(entry->amount);
	}
	values[0] = array_datum(keys, n, TEXTOID);
	values[1] = array_datum(amounts, n, INT8OID);
	if (n > 0)
	{
		Oid carried = carrying->row->carried;
		Relation rel = try_relation_open(carried, RowExclusiveLock);
		DcTableLayout layout;

		if (rel == NULL)
			relation_missing_error(carried);
		shape_check(rel, &carried_shape, &layout);
		sibling_check_owner(carrying->row->counter, carried);
		sql_begin(&session, counter_lookup(carrying->row->counter));
		session.word = carried_word;
		sql_keep_open(&session, DC_OF_MORE, carried);
		if (sql_run(&session, &sql_carry, values) != n)
			ereport(ERROR,
					(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
					 errmsg("carried amounts of \"%s\" were not written", get_rel_name(carrying->row->counter)),
					 errdetail("A trigger or rule prevented rows from being written.")));
		sql_end(&session);
		relation_close(rel, NoLock);
	}
	MemoryContextSwitchTo(old);
	start_table(carrying);
}

/*
 * Return the SQL name of the table of carried amounts, for the word "carried" in a statement;
 * NULL for other words.
 */
static const char *
carried_word(DcCounter *counter, const char *word)
{
	DcSourceRow row;

	if (strcmp(word, "carried") != 0 || !source_read(counter->relid, &row))
		return NULL;
	return relation_sql_name(row.carried);
}

/*
 * carried_read calls a function with each amount that a snapshot shows.
 */
void
carried_read(const DcSourceRow *row, Snapshot snapshot, DcCarriedTake take, void *arg)
{
	Relation rel = try_relation_open(row->carried, AccessShareLock);
	DcTableLayout layout;
	TupleTableSlot *slot;
	TableScanDesc scan;

	if (rel == NULL)
		return; /* dropped while event triggers were off */
	shape_check(rel, &carried_shape, &layout);
	slot = table_slot_create(rel, NULL);
	scan = compat_table_beginscan(rel, snapshot, 0, NULL);
	while (table_scan_getnextslot(scan, ForwardScanDirection, slot))
	{
		DcKey key;

		CHECK_FOR_INTERRUPTS();
		key_from_text(slot_datum(slot, layout.atts[COL_KEY], TEXTOID), &key);
		take(arg, &key, DatumGetInt64(slot_datum(slot, layout.atts[COL_AMOUNT], INT8OID)));
	}
	table_endscan(scan);
	ExecDropSingleTupleTableSlot(slot);
	relation_close(rel, AccessShareLock);
}
