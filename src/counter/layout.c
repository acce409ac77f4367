/*
 * layout.c
 *		Which counter tables can be accessed without SQL, and where their
 *		columns are.
 *
 * The direct path (direct.c, scan.c) writes and reads heap tuples itself. It
 * leaves out what the executor would do for a table with triggers, rules,
 * check constraints, generated columns, inheritance or further indexes, so it
 * is taken only for shard tables that have none of these; all others go through
 * SQL (sqlpath.c), and nothing is lost but speed. In particular the direct path
 * never runs code that a user has put on a table.
 *
 * Where Citus is installed, a table that looks local may be distributed: then
 * all goes through SQL.
 */
#include "postgres.h"

#include "access/genam.h"
#include "access/heapam.h"
#include "access/table.h"
#include "catalog/index.h"
#include "catalog/pg_am.h"
#include "commands/extension.h"
#include "counter/layout.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"
#include "utils/syscache.h"

static const char *const column_names[DC_NUM_COLUMNS] = {
	"key", "shard", "inc", "dec", "updated_at"};

static bool layout_find(Relation rel, bool shards, DcTableLayout *layout);
static bool index_matches(Oid indexid, const AttrNumber *keys, int nkeys);
static bool is_plain_heap(Relation rel);
static bool has_side_effects(Relation rel);

/*
 * counter_layout fills the layout fields of a cache entry, once for each
 * generation of it. The caller holds locks on both tables.
 */
void
counter_layout(DcCounter *counter)
{
	uint32 generation = counter->generation;
	Relation totals;
	Relation shards;
	bool read;
	bool write;

	if (counter->layout_generation == generation)
		return;

	totals = table_open(counter->relid, NoLock);
	shards = table_open(counter->row.shards, NoLock);
	read = is_plain_heap(totals) && is_plain_heap(shards) &&
		layout_find(totals, false, &counter->totals) &&
		layout_find(shards, true, &counter->shards) &&
		!OidIsValid(get_extension_oid("citus", true));
	write = read && !has_side_effects(shards) &&
		list_length(RelationGetIndexList(shards)) == 1;
	table_close(totals, NoLock);
	table_close(shards, NoLock);

	counter->direct_read = read;
	counter->direct_write = write;
	counter->layout_generation = generation;
}

/*
 * layout_find looks up the columns and the unique index; false if something is
 * not as it should be.
 */
static bool
layout_find(Relation rel, bool shards, DcTableLayout *layout)
{
	List *indexes;
	ListCell *lc;
	AttrNumber keys[2];

	for (int i = 0; i < DC_NUM_COLUMNS; i++)
	{
		layout->atts[i] = InvalidAttrNumber;
		if (i == DC_COL_SHARD && !shards)
			continue;
		layout->atts[i] = get_attnum(RelationGetRelid(rel), column_names[i]);
		if (layout->atts[i] <= 0)
			return false;
	}

	keys[0] = layout->atts[DC_COL_KEY];
	keys[1] = layout->atts[DC_COL_SHARD];
	indexes = RelationGetIndexList(rel);
	layout->index = InvalidOid;
	foreach(lc, indexes)
	{
		if (index_matches(lfirst_oid(lc), keys, shards ? 2 : 1))
			layout->index = lfirst_oid(lc);
	}
	list_free(indexes);
	return OidIsValid(layout->index);
}

/*
 * index_matches tells whether an index is a valid, unique, complete btree on
 * just these columns.
 */
static bool
index_matches(Oid indexid, const AttrNumber *keys, int nkeys)
{
	Relation index = index_open(indexid, AccessShareLock);
	Form_pg_index form = index->rd_index;
	bool match = form->indisunique && form->indisvalid &&
		form->indimmediate && form->indnkeyatts == nkeys &&
		form->indnatts == nkeys && index->rd_rel->relam == BTREE_AM_OID &&
		heap_attisnull(index->rd_indextuple, Anum_pg_index_indpred, NULL);

	for (int i = 0; match && i < nkeys; i++)
		match = (form->indkey.values[i] == keys[i]);
	index_close(index, AccessShareLock);
	return match;
}

static bool
is_plain_heap(Relation rel)
{
	return rel->rd_rel->relkind == RELKIND_RELATION &&
		rel->rd_tableam == GetHeapamTableAmRoutine() &&
		!rel->rd_rel->relhassubclass;
}

/*
 * has_side_effects tells whether writing to the table entails more than the
 * tuple and its index entries.
 */
static bool
has_side_effects(Relation rel)
{
	TupleConstr *constr = RelationGetDescr(rel)->constr;

	return rel->trigdesc != NULL || rel->rd_rules != NULL ||
		(constr != NULL &&
		 (constr->num_check > 0 || constr->has_generated_stored));
}
