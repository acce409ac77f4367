/*
 * opslot.c
 *		The catalog dcounter.op_slot, and the backend's cache of it.
 *
 * Copyright (c) 2026, the dcounter developers
 *
 * A writer must know the state of all partitions, as of a time when it had the
 * lock on the table of ops (op.c). So it locks first, which also receives
 * invalidations, and looks here afterwards. A change of a row sends a relcache
 * invalidation of the counter table; one of the table of ops or of a partition
 * empties the entry, too, since it also has their layouts.
 *
 * A read of all rows may miss one that is being replaced just then (base/catrow.c).
 * So the rows must be complete, or they are read again. Rows of one change may be seen in
 * part. That is harmless: the states in between are those that a transaction may have
 * known when it began.
 */
#include "postgres.h"

#include "miscadmin.h"
#include "utils/fmgroids.h"
#include "utils/lsyscache.h"
#include "utils/snapmgr.h"
#include "utils/syscache.h"

#include "base/catrow.h"
#include "base/compat.h"
#include "base/relcached.h"
#include "transactional/once/opslot.h"

PG_FUNCTION_INFO_V1(on_op_slot_change);

static const char *const state_names[] = {
	"empty", "opening", "open", "closed", "expired"};

static void opslot_columns(DcCatRow *io, void *data);

static const DcCatalog catalog = {
	.table = "op_slot",
	.pkey = "op_slot_pkey",
	.nkeys = 2,
	.size = sizeof(DcOpSlot),
	.columns = opslot_columns,
	.tells = true,
};

/* Columns that have an index, besides the first. */
#define COL_OPS 3
#define COL_PARTITION 4

/* Reads of the catalog that may miss a row before it counts as incomplete. */
#define MAX_TRIES 100

/* How often anything about them has changed; 0 is never. */
static uint64 layout_changes = 1;

static bool opslot_read_once(Oid counter, DcOpSlot *slots, int *count);
static void slots_changed(void *entry, Oid relid);
static bool opslot_fill(void *entry, void *arg);

/* Entries (DcOpSlots) are never removed. */
static DcRelCached slot_cache = {
	.name = "dcounter ops",
	.keysize = sizeof(Oid),
	.size = sizeof(DcOpSlots),
	.changed = slots_changed,
};

/*
 * Read or write the columns of a row of dcounter.op_slot.
 */
static void
opslot_columns(DcCatRow *io, void *data)
{
	DcOpSlot *slot = data;

	cat_oid(io, &slot->counter);
	cat_int2(io, &slot->number);
	cat_oid(io, &slot->ops);
	cat_oid(io, &slot->table);
	slot->state = cat_choice(io, slot->state, state_names, lengthof(state_names));
	cat_time(io, &slot->since);
	cat_time(io, &slot->closed_at);
	cat_time(io, &slot->forgotten);
	if (io->reading)
		slot->changed_by = io->xmin;
}

/*
 * opslots_find returns the slots of a counter table from the cache, or NULL if it has
 * none. The caller has a lock on the table of ops, or asks again once it has one.
 */
DcOpSlots *
opslots_find(Oid counter)
{
	static DcOpSlots *last_found = NULL;
	DcOpSlots *entry;

	if (last_found != NULL && last_found->counter == counter && last_found->valid)
		return last_found;
	entry = relcached_enter(&slot_cache, &counter);
	if (!entry->valid && !relcached_fill(entry, &entry->valid, opslot_fill, NULL))
		return NULL;
	return last_found = entry;
}

/*
 * Fill a cache entry with the slots of its counter table; false if it has none.
 */
static bool
opslot_fill(void *data, void *arg)
{
	DcOpSlots *entry = data;
	DcOpSlot slots[DC_OP_SLOTS];
	int nslots = opslots_read(entry->counter, slots);

	entry->nslots = nslots;
	entry->forgotten = 0;
	entry->ops = nslots > 0 ? slots[0].ops : InvalidOid;
	for (int i = 0; i < nslots; i++)
	{
		entry->slots[i] = slots[i];
		entry->forgotten = Max(entry->forgotten, slots[i].forgotten);
	}
	return nslots > 0;
}

/*
 * opslots_changes returns how often anything about partitions of ops has changed.
 */
uint64
opslots_changes(void)
{
	return layout_changes;
}

/*
 * slots_changed marks an entry invalid, if a relation belongs to it.
 */
static void
slots_changed(void *data, Oid relid)
{
	DcOpSlots *entry = data;
	bool hit = relid == InvalidOid || relid == entry->counter || relid == entry->ops;

	for (int i = 0; !hit && i < entry->nslots; i++)
		hit = relid == entry->slots[i].table;
	if (hit)
	{
		entry->valid = false;
		layout_changes++; /* also for copies of an entry (opslot_check) */
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
		if (opslot_read_once(counter, slots, &count) && (count > 0 || i > 0))
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
 * opslot_read_once reads the slots as far as they are seen; false if some are missing.
 */
static bool
opslot_read_once(Oid counter, DcOpSlot *slots, int *count)
{
	bool seen[DC_OP_SLOTS] = {false};
	bool written = false;
	ScanKeyData key;
	DcCatScan scan;
	DcOpSlot slot;
	int n = 0;

	ScanKeyInit(&key, 1, BTEqualStrategyNumber, F_OIDEQ, ObjectIdGetDatum(counter));
	cat_scan_begin(&scan, &catalog, catalog.pkey, AccessShareLock, &key, 1);
	while (cat_scan_next(&scan, ForwardScanDirection, &slot))
	{
		if (slot.number < 0 || slot.number >= DC_OP_SLOTS)
			elog(ERROR, "unexpected row in dcounter.%s", catalog.table);
		n += !seen[slot.number];
		seen[slot.number] = true;
		written |= slot_is_written(&slot);
		slots[slot.number] = slot;
	}
	cat_scan_end(&scan);
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
	return cat_read(&catalog, slot, ObjectIdGetDatum(counter));
}

/*
 * opslots_find_table finds the counter table and the table of ops to which a
 * table of ops or a partition of one belongs.
 */
bool
opslots_find_table(Oid relid, Oid *counter, Oid *ops)
{
	Datum key = ObjectIdGetDatum(relid);
	DcOpSlot slot;

	if (!cat_read_by(&catalog, &slot, "op_slot_ops_idx", COL_OPS, key) &&
		!cat_read_by(&catalog, &slot, "op_slot_partition_key", COL_PARTITION, key))
		return false;
	*counter = slot.counter;
	*ops = slot.ops;
	return true;
}

/*
 * opslots_counters lists the counter tables that have ops.
 */
List *
opslots_counters(void)
{
	List *counters = NIL;
	ListCell *lc;

	foreach(lc, cat_read_all(&catalog, SnapshotSelf))
	{
		CHECK_FOR_INTERRUPTS();
		counters = lappend_oid(counters, ((DcOpSlot *) lfirst(lc))->counter);
	}
	list_sort(counters, list_oid_cmp);
	list_deduplicate_oid(counters);
	return counters;
}

/*
 * opslot_insert adds a row.
 */
void
opslot_insert(const DcOpSlot *slot)
{
	cat_insert(&catalog, slot);
}

/*
 * opslot_update replaces the row of a slot. The caller keeps other sessions from changing it.
 */
void
opslot_update(const DcOpSlot *slot)
{
	if (!cat_update(&catalog, slot))
		elog(ERROR, "row of dcounter.%s is missing", catalog.table);
}

/*
 * opslots_delete removes the rows of a counter table, and returns how many there
 * were.
 */
int
opslots_delete(Oid counter)
{
	return cat_delete(&catalog, ObjectIdGetDatum(counter));
}

/*
 * on_op_slot_change() -> trigger on dcounter.op_slot
 */
Datum
on_op_slot_change(PG_FUNCTION_ARGS)
{
	return cat_on_change(fcinfo, &catalog, "on_op_slot_change()");
}
