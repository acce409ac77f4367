/*
 * unpublished.c
 *		Since when all that was committed here is published.
 *
 * The worker lists the local shard rows with amounts, as of a moment. When each of these has been published
 * since, all that was committed before that moment is published. A row is struck off the list when
 * a compaction of this process that has committed had it, or when a later look finds no amount in it: then
 * another one had. So it need not come to a moment at which there is nothing to publish, which
 * there may never be.
 *
 * What is counted in memory has been there for a flush interval at most. It is subtracted, if a
 * replicated counter is buffered.
 *
 * Rows are read below SQL, as a snapshot shows them: no code of an owner runs, and a table without the
 * columns is passed over, as it publishes nothing.
 */
#include "postgres.h"

#include "access/tableam.h"
#include "access/xact.h"
#include "base/clock.h"
#include "base/relopen.h"
#include "base/rowread.h"
#include "catalog/pg_type.h"
#include "common/hashfn.h"
#include "miscadmin.h"
#include "region/life.h"
#include "rows/shardnumber.h"
#include "storage/bufmgr.h"
#include "storage/lmgr.h"
#include "utils/hsearch.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"
#include "utils/snapmgr.h"

/*
 * With more rows than these on a list there is none. Nor is there if to read a table takes long: it has so many blocks, or rows that
 * are not listed, and all other jobs of the worker wait.
 */
#define MAX_ROWS 100000
#define MAX_BLOCKS 65536
#define READ_MAX_MS 1000

/* A row on the list. */
typedef struct Unpublished
{
	Oid counter;
	int32 shard;
	uint64 key; /* hash: if two share one, the list is longer than it must be, or a row is struck off with another one */
} Unpublished;

/* The list, in a context of its own; NULL: there is none. */
static MemoryContext cxt = NULL;
static HTAB *list = NULL;
static TimestampTz listed_at;

/* Rows that this transaction has published, in TopTransactionContext. */
static Unpublished *published = NULL;
static int npublished;
static int npublished_max;

static HTAB *list_rows(MemoryContext in, bool *known);
static bool list_table(HTAB *rows, const DcCounterRow *row);
static bool list_leaf(HTAB *rows, Oid counter, Oid relid);
static AttrNumber column(Oid relid, const char *name, Oid type);
static uint64 hash_key(Datum key);
static void drop_list(void);
static void unpublished_xact_callback(XactEvent event, void *arg);

/*
 * unpublished_look returns a time before which all was published, DT_NOBEGIN if that is not known now. A later
 * look may know.
 */
TimestampTz
unpublished_look(TimestampTz now)
{
	MemoryContext new_cxt = AllocSetContextCreate(TopMemoryContext, "dcounter unpublished", ALLOCSET_DEFAULT_SIZES);
	TimestampTz all_before = DT_NOBEGIN;
	int64 in_memory = 0;
	HASH_SEQ_STATUS status;
	Unpublished *row;
	ListCell *lc;
	bool known = true;
	HTAB *rows;

	PushActiveSnapshot(GetLatestSnapshot());
	rows = list_rows(new_cxt, &known);
	PopActiveSnapshot();
	foreach(lc, catalog_read_all())
	{
		const DcCounterRow *counter = lfirst(lc);

		if (OidIsValid(counter->regions) && counter->mode == DC_MODE_BUFFERED)
			in_memory = Max(in_memory, counter->flush_interval);
	}
	if (!known)
	{
		drop_list();
		MemoryContextDelete(new_cxt);
		return DT_NOBEGIN;
	}
	if (list != NULL && hash_get_num_entries(rows) > 0)
	{
		hash_seq_init(&status, list);
		while ((row = hash_seq_search(&status)) != NULL)
		{
			if (hash_search(rows, row, HASH_FIND, NULL) == NULL)
				(void) hash_search(list, row, HASH_REMOVE, NULL);
		}
		if (hash_get_num_entries(list) > 0)
		{
			MemoryContextDelete(new_cxt);
			return DT_NOBEGIN;
		}
		all_before = listed_at;
	}
	else if (hash_get_num_entries(rows) == 0)
		all_before = now;
	drop_list();
	cxt = new_cxt;
	list = rows;
	listed_at = now;
	return all_before == DT_NOBEGIN ? DT_NOBEGIN : all_before - in_memory;
}

/*
 * unpublished_end forgets the list, in a process that does not look again.
 */
void
unpublished_end(void)
{
	drop_list();
}

static void
drop_list(void)
{
	list = NULL;
	if (cxt != NULL)
		MemoryContextDelete(cxt);
	cxt = NULL;
}

static HTAB *
list_rows(MemoryContext in, bool *known)
{
	HASHCTL ctl = {.keysize = sizeof(Unpublished), .entrysize = sizeof(Unpublished), .hcxt = in};
	HTAB *rows = hash_create("dcounter unpublished", 256, &ctl, HASH_ELEM | HASH_BLOBS | HASH_CONTEXT);
	ListCell *lc;

	foreach(lc, catalog_read_all())
	{
		const DcCounterRow *row = lfirst(lc);

		if (OidIsValid(row->regions) && *known)
			*known = list_table(rows, row);
	}
	return rows;
}

/*
 * list_table lists the rows of a counter table; false if it is locked, or has too many.
 */
static bool
list_table(HTAB *rows, const DcCounterRow *row)
{
	List *members;
	ListCell *lc;

	if (!ConditionalLockRelationOid(row->shards, AccessShareLock))
		return false;
	if (get_rel_name(row->shards) == NULL)
		return true;
	members = get_rel_relkind(row->shards) == RELKIND_PARTITIONED_TABLE ? relation_members(row->shards, NoLock)
																		: list_make1_oid(row->shards);
	foreach(lc, members)
	{
		Oid relid = lfirst_oid(lc);

		if (!ConditionalLockRelationOid(relid, AccessShareLock))
			return false;
		if (get_rel_relkind(relid) == RELKIND_RELATION && !list_leaf(rows, row->counter, relid))
			return false;
	}
	return true;
}

static bool
list_leaf(HTAB *rows, Oid counter, Oid relid)
{
	AttrNumber key = column(relid, "key", TEXTOID);
	AttrNumber shard = column(relid, "shard", INT4OID);
	AttrNumber inc = column(relid, "inc", INT8OID);
	AttrNumber dec = column(relid, "dec", INT8OID);
	Relation rel;
	TableScanDesc scan;
	TupleTableSlot *slot;
	DcMoment end = moment_in(READ_MAX_MS);
	bool fits;

	if (key == 0 || shard == 0 || inc == 0 || dec == 0)
		return true;
	rel = table_open_present(relid, NoLock);
	fits = RelationGetNumberOfBlocks(rel) <= MAX_BLOCKS;
	slot = table_slot_create(rel, NULL);
	scan = table_beginscan(rel, GetActiveSnapshot(), 0, NULL);
	while (fits && table_scan_getnextslot(scan, ForwardScanDirection, slot))
	{
		Unpublished row = {.counter = counter};
		bool isnull[4];
		Datum number = slot_nullable(slot, shard, INT4OID, &isnull[0]);
		Datum more = slot_nullable(slot, inc, INT8OID, &isnull[1]);
		Datum less = slot_nullable(slot, dec, INT8OID, &isnull[2]);
		Datum text = slot_nullable(slot, key, TEXTOID, &isnull[3]);

		CHECK_FOR_INTERRUPTS();
		fits = !moment_is_reached(end);
		if (isnull[0] || isnull[1] || isnull[2] || isnull[3] || shard_is_remote(DatumGetInt32(number)) ||
			(DatumGetInt64(more) == 0 && DatumGetInt64(less) == 0))
			continue;
		row.shard = DatumGetInt32(number);
		row.key = hash_key(text);
		(void) hash_search(rows, &row, HASH_ENTER, NULL);
		fits &= hash_get_num_entries(rows) <= MAX_ROWS;
	}
	table_endscan(scan);
	ExecDropSingleTupleTableSlot(slot);
	table_close(rel, NoLock);
	return fits;
}

static AttrNumber
column(Oid relid, const char *name, Oid type)
{
	AttrNumber att = get_attnum(relid, name);

	return att > 0 && get_atttype(relid, att) == type ? att : 0;
}

static uint64
hash_key(Datum key)
{
	text *value = DatumGetTextPP(key);

	return hash_bytes_extended((const unsigned char *) VARDATA_ANY(value), VARSIZE_ANY_EXHDR(value), 0);
}

/*
 * unpublished_forget strikes off the rows of a batch that was published, when this transaction has committed.
 */
void
unpublished_forget(DcCounter *counter, const DcBatch *batch)
{
	static bool registered = false;

	if (list == NULL || batch->rows == NULL || hash_get_num_entries(list) == 0)
		return;
	if (!registered)
		RegisterXactCallback(unpublished_xact_callback, NULL);
	registered = true;
	for (int i = 0; i < batch->nkeys; i++)
	{
		const DcBatchKey *key = &batch->keys[i];

		for (int r = key->first; key->published && r < key->first + key->nrows; r++)
		{
			Unpublished row = {.counter = counter->relid, .shard = DatumGetInt32(batch->rows[r].shard), .key = hash_key(key->key)};

			if (published == NULL || npublished == npublished_max)
			{
				int max = published == NULL ? 64 : 2 * npublished_max;

				published = published == NULL
					? MemoryContextAlloc(TopTransactionContext, max * sizeof(Unpublished))
					: repalloc(published, max * sizeof(Unpublished));
				npublished_max = max;
			}
			published[npublished++] = row;
		}
	}
}

static void
unpublished_xact_callback(XactEvent event, void *arg)
{
	if (event != XACT_EVENT_COMMIT && event != XACT_EVENT_ABORT && event != XACT_EVENT_PREPARE)
		return;
	if (event == XACT_EVENT_COMMIT && list != NULL)
	{
		for (int i = 0; i < npublished; i++)
			(void) hash_search(list, &published[i], HASH_REMOVE, NULL);
	}
	published = NULL;
	npublished = 0;
}
