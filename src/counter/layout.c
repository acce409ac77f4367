/*
 * layout.c
 *		What a counter's tables must look like, and which of them can be accessed
 *		without SQL.
 *
 * The tables are the user's, who may alter them in any way at any time. All code
 * that touches their rows relies on the types of the columns, so each use of a
 * counter table checks them anew when something has changed (counter_layout).
 *
 * The direct path (direct.c, scan.c) writes and reads heap tuples itself. It
 * leaves out what the executor would do for a table with triggers for INSERT or UPDATE, rules,
 * constraints, further columns, inheritance or further indexes, so it is taken
 * only for shard tables that have none of these; all others go through SQL
 * (sqlpath.c), and nothing is lost but speed. In particular the direct path never
 * runs code that a user has put on a table.
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
#include "catalog/pg_collation.h"
#include "catalog/pg_opfamily.h"
#include "catalog/pg_trigger.h"
#include "catalog/pg_type.h"
#include "commands/extension.h"
#include "commands/trigger.h"
#include "counter/layout.h"
#include "counter/protect.h"
#include "utils/builtins.h"
#include "utils/fmgroids.h"
#include "utils/lsyscache.h"
#include "utils/reltrigger.h"
#include "utils/syscache.h"

static const struct
{
	const char *name;
	Oid type;
} columns[DC_NUM_COLUMNS] = {
	[DC_COL_KEY] = {"key", TEXTOID},
	[DC_COL_SHARD] = {"shard", INT4OID},
	[DC_COL_INC] = {"inc", INT8OID},
	[DC_COL_DEC] = {"dec", INT8OID},
	[DC_COL_UPDATED_AT] = {"updated_at", TIMESTAMPTZOID},
	[DC_COL_UNITS] = {"units", INT8OID},
};

static char *layout_fill(DcCounter *counter, Oid *bad, const char **hint);
static bool has_deferrable_key(Relation rel, const DcTableLayout *layout, bool shards);
static bool find_index(Relation rel, DcTableLayout *layout, bool shards);
static bool is_unique_key(Relation index, const DcTableLayout *layout,
						  bool shards);
static bool has_key_columns(Relation index, const DcTableLayout *layout,
							bool shards);
static bool is_plain_btree(Relation index);
static const Trigger *deferred_trigger(Relation rel);
static bool is_plain_heap(Relation rel);
static bool is_bare(Relation rel, bool stock,
					const DcTableLayout *layout);
static bool has_own_indexes(Relation rel, const DcTableLayout *layout);

/*
 * counter_layout checks the tables of a counter and fills the layout fields of
 * its cache entry, once for each generation of it. The caller holds locks on both
 * tables. Raises 42809 when they cannot serve as a counter table any more.
 */
void
counter_layout(DcCounter *counter)
{
	const char *hint = NULL;
	Oid bad;
	char *problem = layout_fill(counter, &bad, &hint);

	if (problem != NULL)
		ereport(ERROR,
				(errcode(ERRCODE_WRONG_OBJECT_TYPE),
				 errmsg("\"%s\" cannot serve as a counter table any more",
						get_rel_name(bad)),
				 errdetail_internal("%s", problem),
				 hint != NULL ? errhint("%s", hint) : 0));
}

/*
 * counter_check_deferred raises 55000 if a trigger on the shard table, or on the table of
 * totals, is deferred: what is written as the owner cannot leave such work to the
 * commit, where it would be done as somebody else, so rows could not be inserted.
 */
void
counter_check_deferred(const DcCounter *counter, bool totals)
{
	Oid relid = totals ? counter->relid : counter->row.shards;
	const Trigger *trigger;
	Relation rel;

	if (!(totals ? counter->totals_deferred : counter->shards_deferred))
		return;
	rel = table_open(relid, NoLock);
	trigger = deferred_trigger(rel);
	if (trigger != NULL)
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("\"%s\" cannot be written to, as its constraint \"%s\" is deferred",
						RelationGetRelationName(rel),
						OidIsValid(trigger->tgconstraint) ? get_constraint_name(trigger->tgconstraint)
														  : trigger->tgname),
				 errdetail("What the functions of a counter table write is checked at once, as the table's owner."),
				 errhint("Drop the constraint, and create it as NOT DEFERRABLE.")));
	table_close(rel, NoLock);
}

/*
 * counter_has_layout is the same, with an answer instead of an error.
 */
bool
counter_has_layout(DcCounter *counter)
{
	const char *hint;
	Oid bad;

	return layout_fill(counter, &bad, &hint) == NULL;
}

/*
 * layout_fill does the work of counter_layout. Returns what is wrong, and with
 * which table, and perhaps a hint.
 */
static char *
layout_fill(DcCounter *counter, Oid *bad, const char **hint)
{
	uint32 generation = counter->generation;
	Relation totals;
	Relation shards;
	char *problem;
	bool stock = counter_is_stock(counter);

	if (counter->layout_generation == generation)
		return NULL;

	totals = table_open(counter->relid, NoLock);
	shards = table_open(counter->row.shards, NoLock);
	*bad = counter->relid;
	problem = layout_problem(totals, false, stock, &counter->totals, hint);
	if (problem == NULL)
	{
		*bad = counter->row.shards;
		problem = layout_problem(shards, true, stock, &counter->shards, hint);
	}
	if (problem == NULL)
	{
		bool direct = is_plain_heap(totals) && OidIsValid(counter->totals.index) &&
			is_plain_heap(shards) && OidIsValid(counter->shards.index) &&
			!OidIsValid(get_extension_oid("citus", true));

		/* an index that is not for old snapshots is left to the planner */
		counter->direct_read = direct && !counter->totals.index_is_young &&
			!counter->shards.index_is_young;
		/* whoever takes from a stock looks at the latest versions */
		counter->direct_write = (stock ? direct : counter->direct_read) &&
			is_bare(shards, stock, &counter->shards);
		counter->totals_deferred = deferred_trigger(totals) != NULL;
		counter->shards_deferred = deferred_trigger(shards) != NULL;
		counter->layout_generation = generation;
	}
	table_close(totals, NoLock);
	table_close(shards, NoLock);
	return problem;
}

/*
 * layout_problem looks up the columns and the index, and returns what is wrong
 * with the table, as a full sentence, or NULL. The index is 0 if there is none
 * that can be scanned without SQL. A table that lies on other servers has none. Sets a
 * hint if there is one.
 */
char *
layout_problem(Relation rel, bool shards, bool stock, DcTableLayout *layout,
			   const char **hint)
{
	Oid relid = RelationGetRelid(rel);
	bool foreign = relation_has_foreign_part(relid);

	for (int i = 0; i < DC_NUM_COLUMNS; i++)
	{
		AttrNumber attnum;
		Form_pg_attribute att;

		layout->atts[i] = InvalidAttrNumber;
		if ((i == DC_COL_SHARD && !shards) ||
			(i == DC_COL_UNITS && !(shards && stock)))
			continue;
		attnum = get_attnum(relid, columns[i].name);
		att = attnum > 0 ? TupleDescAttr(RelationGetDescr(rel), attnum - 1) : NULL;
		if (att == NULL || att->atttypid != columns[i].type ||
			att->attgenerated != '\0' || (!foreign && !att->attnotnull) ||
			(i == DC_COL_KEY && att->attcollation != C_COLLATION_OID))
			return psprintf("It needs a column \"%s\" of type %s%s that is not null.",
							columns[i].name, format_type_be(columns[i].type),
							i == DC_COL_KEY ? " with collation \"C\"" : "");
		layout->atts[i] = attnum;
	}
	if (find_index(rel, layout, shards) || foreign)
		return NULL;
	if (has_deferrable_key(rel, layout, shards))
	{
		*hint = _("Drop the constraint, and create it as NOT DEFERRABLE.");
		return psprintf("Its primary key on (%s) is deferrable.", shards ? "key, shard" : "key");
	}
	return psprintf("It needs a primary key on (%s).", shards ? "key, shard" : "key");
}

/*
 * has_deferrable_key tells whether there is a unique index on the right columns that is
 * of no use, because it does not check at once.
 */
static bool
has_deferrable_key(Relation rel, const DcTableLayout *layout, bool shards)
{
	List *indexes = RelationGetIndexList(rel);
	ListCell *lc;
	bool found = false;

	foreach(lc, indexes)
	{
		Relation index = index_open(lfirst_oid(lc), AccessShareLock);
		Form_pg_index form = index->rd_index;

		found |= form->indisunique && !form->indimmediate &&
			form->indnkeyatts == (shards ? 2 : 1) &&
			form->indkey.values[0] == layout->atts[DC_COL_KEY] &&
			(!shards || form->indkey.values[1] == layout->atts[DC_COL_SHARD]);
		index_close(index, AccessShareLock);
	}
	list_free(indexes);
	return found;
}

/*
 * find_index tells whether there is a unique index on the key (and the shard
 * number), and sets layout->index to one that is plain enough for scans.
 */
static bool
find_index(Relation rel, DcTableLayout *layout, bool shards)
{
	List *indexes = RelationGetIndexList(rel);
	ListCell *lc;
	bool found = false;

	layout->index = InvalidOid;
	foreach(lc, indexes)
	{
		Relation index = index_open(lfirst_oid(lc), AccessShareLock);

		if (is_unique_key(index, layout, shards))
		{
			found = true;
			if (is_plain_btree(index))
			{
				layout->index = RelationGetRelid(index);
				layout->index_is_young = index->rd_index->indcheckxmin;
			}
		}
		index_close(index, AccessShareLock);
	}
	list_free(indexes);
	return found;
}

/*
 * is_unique_key tells whether an index makes the key columns unique.
 */
static bool
is_unique_key(Relation index, const DcTableLayout *layout, bool shards)
{
	return index->rd_index->indisvalid && has_key_columns(index, layout, shards);
}

/*
 * has_key_columns is the same for an index that may not be valid yet.
 */
static bool
has_key_columns(Relation index, const DcTableLayout *layout, bool shards)
{
	Form_pg_index form = index->rd_index;
	int nkeys = shards ? 2 : 1;

	if (!form->indisunique || !form->indimmediate || form->indnkeyatts != nkeys ||
		!heap_attisnull(index->rd_indextuple, Anum_pg_index_indpred, NULL))
		return false;
	for (int i = 0; i < nkeys; i++)
	{
		if (form->indkey.values[i] != layout->atts[DC_COL_KEY + i])
			return false;
	}
	return get_collation_isdeterministic(index->rd_indcollation[0]);
}

/*
 * is_plain_btree tells whether such an index has the usual order, and nothing
 * but the key columns.
 */
static bool
is_plain_btree(Relation index)
{
	static const Oid families[] = {TEXT_BTREE_FAM_OID, INTEGER_BTREE_FAM_OID};

	for (int i = 0; i < index->rd_index->indnkeyatts; i++)
	{
		if (index->rd_indoption[i] != 0 || index->rd_opfamily[i] != families[i])
			return false;
	}
	return index->rd_rel->relam == BTREE_AM_OID &&
		index->rd_index->indnatts == index->rd_index->indnkeyatts &&
		index->rd_indcollation[0] == C_COLLATION_OID;
}

/*
 * deferred_trigger returns a trigger for INSERT or UPDATE that waits for the commit, or
 * NULL. That of a unique constraint does so only for rows that are not unique.
 */
static const Trigger *
deferred_trigger(Relation rel)
{
	for (int i = 0; rel->trigdesc != NULL && i < rel->trigdesc->numtriggers; i++)
	{
		const Trigger *trigger = &rel->trigdesc->triggers[i];

		if (trigger->tginitdeferred && trigger->tgenabled != TRIGGER_DISABLED &&
			(TRIGGER_FOR_INSERT(trigger->tgtype) || TRIGGER_FOR_UPDATE(trigger->tgtype)) &&
			trigger->tgfoid != F_UNIQUE_KEY_RECHECK)
			return trigger;
	}
	return NULL;
}

static bool
is_plain_heap(Relation rel)
{
	return rel->rd_rel->relkind == RELKIND_RELATION &&
		rel->rd_tableam == GetHeapamTableAmRoutine() &&
		!rel->rd_rel->relhassubclass;
}

/*
 * is_bare tells whether writing to a table entails no more than the tuple and
 * one index entry: it has the columns that it needs and no others, and nothing
 * hangs on it.
 */
static bool
is_bare(Relation rel, bool stock, const DcTableLayout *layout)
{
	TupleDesc desc = RelationGetDescr(rel);
	int live = 0;

	for (int i = 0; i < desc->natts; i++)
		live += !TupleDescAttr(desc, i)->attisdropped;
	return live == (stock ? DC_NUM_COLUMNS : DC_NUM_COLUMNS - 1) &&
		protect_lets_insert(rel) && rel->rd_rules == NULL &&
		!rel->rd_rel->relispartition &&
		(desc->constr == NULL || desc->constr->num_check == 0) &&
		has_own_indexes(rel, layout);
}

/*
 * has_own_indexes tells whether all indexes are of the one kind that the direct
 * way keeps: there are two while the primary key is rebuilt without a lock.
 */
static bool
has_own_indexes(Relation rel, const DcTableLayout *layout)
{
	List *indexes = RelationGetIndexList(rel);
	ListCell *lc;
	bool own = true;

	foreach(lc, indexes)
	{
		Relation index = index_open(lfirst_oid(lc), AccessShareLock);

		own &= has_key_columns(index, layout, true) && is_plain_btree(index);
		index_close(index, AccessShareLock);
	}
	list_free(indexes);
	return own;
}
