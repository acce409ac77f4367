/*
 * opslot.c
 *		The catalog dcounter.op_slot, and the backend's cache of it.
 *
 * A writer must know the state of all partitions, as of a time when it had the
 * lock on the table of ops (op.c). So it locks first, which also receives
 * invalidations, and looks here afterwards. A change of a row sends a relcache
 * invalidation of the counter table; one of the table of ops or of a partition
 * empties the entry, too, since it also holds what is known of their layout.
 *
 * Reads use SnapshotSelf, for the reason that base/catalog.c gives. Such a read may
 * miss a row that is being replaced just then; what was read must be complete, or
 * is read again. Rows of one change may be seen in part. That is harmless: the states in
 * between are those that a transaction may have known when it began.
 */
#include "postgres.h"

#include "access/genam.h"
#include "access/heapam.h"
#include "access/htup_details.h"
#include "access/table.h"
#include "access/xact.h"
#include "base/rowread.h"
#include "catalog/indexing.h"
#include "catalog/pg_type.h"
#include "commands/trigger.h"
#include "miscadmin.h"
#include "once/opslot.h"
#include "utils/builtins.h"
#include "utils/fmgroids.h"
#include "utils/hsearch.h"
#include "utils/inval.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"
#include "utils/snapmgr.h"
#include "utils/syscache.h"

PG_FUNCTION_INFO_V1(on_op_slot_change);

#define SLOT_CATALOG "op_slot"
#define SLOT_CATALOG_INDEX "op_slot_pkey"
#define SLOT_CATALOG_PARTITION_INDEX "op_slot_partition_key"
#define SLOT_CATALOG_OPS_INDEX "op_slot_ops_idx"

/* Columns of dcounter.op_slot */
enum
{
	COL_COUNTER = 1,
	COL_SLOT,
	COL_OPS,
	COL_PARTITION,
	COL_STATE,
	COL_SINCE,
	COL_CLOSED_AT,
	COL_FORGOTTEN,
	NUM_COLS = COL_FORGOTTEN
};

static const char *const state_names[] = {
	"empty", "opening", "open", "closed", "expired"};

/* Reads of the catalog that may miss a row before it counts as incomplete. */
#define MAX_TRIES 100

/* In TopMemoryContext. Entries are never removed, and stay where they are. */
static HTAB *slot_cache = NULL;

/* How often anything about them has changed; 0 is never. */
static uint64 layout_changes = 1;

static bool read_once(Oid counter, DcOpSlot *slots, int *count);
static bool find_row(AttrNumber column, const char *index, Oid value,
					 DcOpSlot *slot, Oid *counter);
static void slot_deform(Relation rel, HeapTuple tuple, Oid *counter,
						DcOpSlot *slot);
static HeapTuple slot_form(Relation rel, Oid counter, const DcOpSlot *slot);
static void slot_relcache_callback(Datum arg, Oid relid);

/*
 * opslots_find returns what is known of the slots of a counter table, or NULL if
 * it has none. The caller has a lock on the table of ops, or asks again once he has.
 */
DcOpSlots *
opslots_find(Oid counter)
{
	static DcOpSlots *last_found = NULL;
	DcOpSlots *entry;
	bool found;

	if (last_found != NULL && last_found->counter == counter && last_found->valid)
		return last_found;
	if (slot_cache == NULL)
	{
		HASHCTL ctl = {0};

		ctl.keysize = sizeof(Oid);
		ctl.entrysize = sizeof(DcOpSlots);
		ctl.hcxt = TopMemoryContext;
		slot_cache = hash_create("dcounter ops", 16, &ctl,
								 HASH_ELEM | HASH_BLOBS | HASH_CONTEXT);
		CacheRegisterRelcacheCallback(slot_relcache_callback, (Datum) 0);
	}
	entry = hash_search(slot_cache, &counter, HASH_ENTER, &found);
	if (!found)
		memset((char *) entry + sizeof(Oid), 0,
			   sizeof(DcOpSlots) - sizeof(Oid));
	if (!entry->valid)
	{
		DcOpSlot slots[DC_OP_SLOTS];
		int nslots;

		entry->valid = true; /* an invalidation from here on resets it */
		PG_TRY();
		{
			nslots = opslots_read(counter, slots);
		}
		PG_CATCH();
		{
			entry->valid = false;
			PG_RE_THROW();
		}
		PG_END_TRY();
		entry->nslots = nslots;
		entry->forgotten = 0;
		entry->ops = nslots > 0 ? slots[0].ops : InvalidOid;
		for (int i = 0; i < nslots; i++)
		{
			entry->slots[i] = slots[i];
			entry->forgotten = Max(entry->forgotten, slots[i].forgotten);
		}
		if (nslots == 0)
		{
			entry->valid = false;
			return NULL;
		}
	}
	return last_found = entry;
}

/*
 * opslots_changes tells how often anything about partitions of ops has changed.
 */
uint64
opslots_changes(void)
{
	return layout_changes;
}

/*
 * slot_relcache_callback marks invalid the entries that a relation belongs to.
 */
static void
slot_relcache_callback(Datum arg, Oid relid)
{
	HASH_SEQ_STATUS status;
	DcOpSlots *entry;

	hash_seq_init(&status, slot_cache);
	while ((entry = hash_seq_search(&status)) != NULL)
	{
		bool hit = relid == InvalidOid || relid == entry->counter ||
			relid == entry->ops;

		for (int i = 0; !hit && i < entry->nslots; i++)
			hit = relid == entry->slots[i].table;
		if (hit)
		{
			entry->valid = false;
			layout_changes++; /* also for copies of an entry (opslot_layout) */
		}
	}
}

/*
 * opslots_read reads the slots of a counter table, and returns how many it has. A
 * table of ops that has gone without notice has none.
 */
int
opslots_read(Oid counter, DcOpSlot *slots)
{
	int count = 0;

	for (int i = 0; i < MAX_TRIES; i++)
	{
		CHECK_FOR_INTERRUPTS();
		if (read_once(counter, slots, &count) && (count > 0 || i > 0))
			break;
		if (i == MAX_TRIES - 1)
			ereport(ERROR,
					(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
					 errmsg("the ops of counter table \"%s\" are incomplete",
							get_rel_name(counter)),
					 errdetail("Rows of dcounter.op_slot are missing.")));
	}
	if (count > 0 &&
		!SearchSysCacheExists1(RELOID, ObjectIdGetDatum(slots[0].ops)))
		return 0;
	return count;
}

/*
 * read_once reads the slots as far as they are seen; false if some are missing.
 */
static bool
read_once(Oid counter, DcOpSlot *slots, int *count)
{
	Relation rel = table_open(catalog_relation(SLOT_CATALOG), AccessShareLock);
	bool seen[DC_OP_SLOTS] = {false};
	bool written = false;
	ScanKeyData key;
	SysScanDesc scan;
	HeapTuple tuple;
	int n = 0;

	ScanKeyInit(&key, COL_COUNTER, BTEqualStrategyNumber, F_OIDEQ,
				ObjectIdGetDatum(counter));
	scan = systable_beginscan(rel, catalog_relation(SLOT_CATALOG_INDEX), true,
							  SnapshotSelf, 1, &key);
	while (HeapTupleIsValid(tuple = systable_getnext(scan)))
	{
		DcOpSlot slot;
		Oid owner;

		slot_deform(rel, tuple, &owner, &slot);
		if (slot.number < 0 || slot.number >= DC_OP_SLOTS || slot.state > SLOT_EXPIRED)
			elog(ERROR, "unexpected row in dcounter.%s", SLOT_CATALOG);
		n += !seen[slot.number];
		seen[slot.number] = true;
		written |= slot_is_written(&slot);
		slots[slot.number] = slot;
	}
	systable_endscan(scan);
	table_close(rel, AccessShareLock);
	*count = n;
	if (n == 0)
		return true;
	return seen[0] && written && (n == 1 || n == DC_OP_SLOTS);
}

/*
 * opslots_read_first fetches any slot of a counter table, also of one that is being
 * dropped; false when it has none.
 */
bool
opslots_read_first(Oid counter, DcOpSlot *slot)
{
	return find_row(COL_COUNTER, SLOT_CATALOG_INDEX, counter, slot, &counter);
}

/*
 * opslots_find_table finds the counter table and the table of ops to which a
 * table of ops or a partition of one belongs.
 */
bool
opslots_find_table(Oid relid, Oid *counter, Oid *ops)
{
	DcOpSlot slot;

	if (!find_row(COL_OPS, SLOT_CATALOG_OPS_INDEX, relid, &slot, counter) &&
		!find_row(COL_PARTITION, SLOT_CATALOG_PARTITION_INDEX, relid, &slot, counter))
		return false;
	*ops = slot.ops;
	return true;
}

/*
 * find_row fetches a row by one of its columns.
 */
static bool
find_row(AttrNumber column, const char *index, Oid value, DcOpSlot *slot,
		 Oid *counter)
{
	Relation rel = table_open(catalog_relation(SLOT_CATALOG), AccessShareLock);
	bool found = false;

	/* once more, if it was being replaced */
	for (int i = 0; i < 2 && !found; i++)
	{
		ScanKeyData key;
		SysScanDesc scan;
		HeapTuple tuple;

		ScanKeyInit(&key, column, BTEqualStrategyNumber, F_OIDEQ,
					ObjectIdGetDatum(value));
		scan = systable_beginscan(rel, catalog_relation(index), true,
								  SnapshotSelf, 1, &key);
		tuple = systable_getnext(scan);
		found = HeapTupleIsValid(tuple);
		if (found)
			slot_deform(rel, tuple, counter, slot);
		systable_endscan(scan);
	}
	table_close(rel, AccessShareLock);
	return found;
}

/*
 * opslots_counters lists the counter tables that have ops.
 */
List *
opslots_counters(void)
{
	Relation rel = table_open(catalog_relation(SLOT_CATALOG), AccessShareLock);
	SysScanDesc scan = systable_beginscan(rel, InvalidOid, false, SnapshotSelf,
										  0, NULL);
	List *counters = NIL;
	HeapTuple tuple;

	while (HeapTupleIsValid(tuple = systable_getnext(scan)))
	{
		Datum counter = tuple_datum(rel, tuple, COL_COUNTER, REGCLASSOID);

		counters = list_append_unique_oid(counters, DatumGetObjectId(counter));
	}
	systable_endscan(scan);
	table_close(rel, AccessShareLock);
	return counters;
}

/*
 * opslot_insert adds a row.
 */
void
opslot_insert(Oid counter, const DcOpSlot *slot)
{
	Relation rel = table_open(catalog_relation(SLOT_CATALOG), RowExclusiveLock);

	CatalogTupleInsert(rel, slot_form(rel, counter, slot));
	table_close(rel, RowExclusiveLock);
	relation_invalidate(counter);
	CommandCounterIncrement();
}

/*
 * opslot_update replaces the row of a slot. The caller keeps others from
 * changing it.
 */
void
opslot_update(Oid counter, const DcOpSlot *slot)
{
	Relation rel = table_open(catalog_relation(SLOT_CATALOG), RowExclusiveLock);
	ScanKeyData keys[2];
	SysScanDesc scan;
	HeapTuple old;

	ScanKeyInit(&keys[0], COL_COUNTER, BTEqualStrategyNumber, F_OIDEQ,
				ObjectIdGetDatum(counter));
	ScanKeyInit(&keys[1], COL_SLOT, BTEqualStrategyNumber, F_INT2EQ,
				Int16GetDatum(slot->number));
	scan = systable_beginscan(rel, catalog_relation(SLOT_CATALOG_INDEX), true,
							  SnapshotSelf, 2, keys);
	old = systable_getnext(scan);
	if (!HeapTupleIsValid(old))
		elog(ERROR, "row of dcounter.%s is missing", SLOT_CATALOG);
	CatalogTupleUpdate(rel, &old->t_self, slot_form(rel, counter, slot));
	systable_endscan(scan);
	table_close(rel, RowExclusiveLock);
	relation_invalidate(counter);
	CommandCounterIncrement();
}

/*
 * opslots_delete removes the rows of a counter table, and returns how many there
 * were.
 */
int
opslots_delete(Oid counter)
{
	Relation rel = table_open(catalog_relation(SLOT_CATALOG), RowExclusiveLock);
	ScanKeyData key;
	SysScanDesc scan;
	HeapTuple tuple;
	int n = 0;

	ScanKeyInit(&key, COL_COUNTER, BTEqualStrategyNumber, F_OIDEQ,
				ObjectIdGetDatum(counter));
	scan = systable_beginscan(rel, catalog_relation(SLOT_CATALOG_INDEX), true,
							  SnapshotSelf, 1, &key);
	while (HeapTupleIsValid(tuple = systable_getnext(scan)))
	{
		CatalogTupleDelete(rel, &tuple->t_self);
		n++;
	}
	systable_endscan(scan);
	table_close(rel, RowExclusiveLock);
	if (n > 0)
	{
		relation_invalidate(counter);
		CommandCounterIncrement();
	}
	return n;
}

/*
 * on_op_slot_change() -> trigger, BEFORE INSERT OR UPDATE OR DELETE FOR EACH ROW
 * on dcounter.op_slot. Tells sessions of the change; an INSERT of a slot that is
 * there already replaces it.
 */
Datum
on_op_slot_change(PG_FUNCTION_ARGS)
{
	TriggerData *data = (TriggerData *) fcinfo->context;
	HeapTuple tuple;
	DcOpSlot slots[DC_OP_SLOTS];
	DcOpSlot slot;
	Oid counter;
	int count;

	if (!CALLED_AS_TRIGGER(fcinfo))
		ereport(ERROR,
				(errcode(ERRCODE_E_R_I_E_TRIGGER_PROTOCOL_VIOLATED),
				 errmsg("%s can only be called as a trigger",
						"on_op_slot_change()")));
	if (RelationGetRelid(data->tg_relation) != catalog_relation(SLOT_CATALOG) ||
		!TRIGGER_FIRED_BEFORE(data->tg_event) ||
		!TRIGGER_FIRED_FOR_ROW(data->tg_event))
		ereport(ERROR,
				(errcode(ERRCODE_E_R_I_E_TRIGGER_PROTOCOL_VIOLATED),
				 errmsg("%s can only be a trigger of the extension's own table",
						"on_op_slot_change()")));
	tuple = TRIGGER_FIRED_BY_UPDATE(data->tg_event) ? data->tg_newtuple : data->tg_trigtuple;
	for (int i = COL_COUNTER; i <= COL_SINCE; i++)
	{
		if (heap_attisnull(tuple, i, NULL))
			return PointerGetDatum(tuple); /* the NOT NULL constraint will tell */
	}
	slot_deform(data->tg_relation, tuple, &counter, &slot);
	relation_invalidate(counter);
	if (TRIGGER_FIRED_BY_INSERT(data->tg_event) && slot.number >= 0 &&
		slot.number < DC_OP_SLOTS)
	{
		slots[slot.number].table = InvalidOid;
		(void) read_once(counter, slots, &count);
		if (OidIsValid(slots[slot.number].table))
		{
			opslot_update(counter, &slot);
			return PointerGetDatum(NULL);
		}
	}
	return PointerGetDatum(tuple);
}

static void
slot_deform(Relation rel, HeapTuple tuple, Oid *counter, DcOpSlot *slot)
{
	Datum values[NUM_COLS];
	bool nulls[NUM_COLS];
	const char *state;

	heap_deform_tuple(tuple, RelationGetDescr(rel), values, nulls);
	memset(slot, 0, sizeof(*slot));
	*counter = DatumGetObjectId(values[COL_COUNTER - 1]);
	slot->number = DatumGetInt16(values[COL_SLOT - 1]);
	slot->ops = DatumGetObjectId(values[COL_OPS - 1]);
	slot->table = DatumGetObjectId(values[COL_PARTITION - 1]);
	slot->since = DatumGetTimestampTz(values[COL_SINCE - 1]);
	if (!nulls[COL_CLOSED_AT - 1])
		slot->closed_at = DatumGetTimestampTz(values[COL_CLOSED_AT - 1]);
	if (!nulls[COL_FORGOTTEN - 1])
		slot->forgotten = DatumGetTimestampTz(values[COL_FORGOTTEN - 1]);
	state = TextDatumGetCString(values[COL_STATE - 1]);
	while (slot->state <= SLOT_EXPIRED && strcmp(state, state_names[slot->state]) != 0)
		slot->state++;
	slot->changed_by = HeapTupleHeaderGetXmin(tuple->t_data);
}

static HeapTuple
slot_form(Relation rel, Oid counter, const DcOpSlot *slot)
{
	Datum values[NUM_COLS];
	bool nulls[NUM_COLS] = {false};

	values[COL_COUNTER - 1] = ObjectIdGetDatum(counter);
	values[COL_SLOT - 1] = Int16GetDatum(slot->number);
	values[COL_OPS - 1] = ObjectIdGetDatum(slot->ops);
	values[COL_PARTITION - 1] = ObjectIdGetDatum(slot->table);
	values[COL_STATE - 1] = CStringGetTextDatum(slot_state_name(slot->state));
	values[COL_SINCE - 1] = TimestampTzGetDatum(slot->since);
	values[COL_CLOSED_AT - 1] = TimestampTzGetDatum(slot->closed_at);
	nulls[COL_CLOSED_AT - 1] = slot->closed_at == 0;
	values[COL_FORGOTTEN - 1] = TimestampTzGetDatum(slot->forgotten);
	nulls[COL_FORGOTTEN - 1] = slot->forgotten == 0;
	return heap_form_tuple(RelationGetDescr(rel), values, nulls);
}

const char *
slot_state_name(DcSlotState state)
{
	return state_names[state];
}
