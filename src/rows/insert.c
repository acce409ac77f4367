/*
 * insert.c
 *		Inserting without SQL into tables that have nothing but indexes.
 *
 * Entries of a ledger and records of ops are inserted as the executor would, without its
 * state: making that costs more than the rows. Only plain indexes are served: an
 * expression or a condition of an index is code of its owner, and would run as the
 * user that inserts.
 *
 * A concurrent build may add an index at any time after insert_problem() was asked. So
 * each index is looked at again when it is open, before anything is inserted into it.
 */
#include "postgres.h"

#include "access/genam.h"
#include "access/htup_details.h"
#include "base/compat.h"
#include "catalog/index.h"
#include "catalog/pg_am.h"
#include "executor/executor.h"
#include "rows/insert.h"
#include "table/guard.h"
#include "table/layout.h"
#include "utils/rel.h"

static bool indexes_are_btrees(Relation rel);
static bool is_plain(Relation index);
static bool is_key(Relation index, Relation key);
static bool insert_entry(const DcIndexes *indexes, int i, Relation rel,
						 TupleTableSlot *slot, IndexUniqueCheck check);

/*
 * insert_problem returns the reason why rows of a table cannot be inserted without SQL,
 * as a sentence, or NULL. The caller checks the columns.
 */
const char *
insert_problem(Relation rel)
{
	TupleDesc desc = RelationGetDescr(rel);

	if (rel->rd_rules != NULL)
		return _("It has a rule.");
	if (!guard_is_all(rel))
		return _("It has a trigger.");
	if (desc->constr != NULL && desc->constr->num_check > 0)
		return _("It has a check constraint.");
	if (!indexes_are_plain(rel))
		return _("It has an index with an expression or a condition, or one whose check is deferrable or excludes more than equal values.");
	return NULL;
}

/*
 * write_problem is the same for a table whose rows are updated as well. `alone` is whether its columns are ours, without further
 * constraints (table/shape.c). An index that summarizes pages needs to be told of updates that leave the others alone.
 */
const char *
write_problem(Relation rel, bool alone)
{
	if (rel->rd_rel->relispartition)
		return _("It is a partition, which takes certain rows alone.");
	if (!alone)
		return _("It has further columns, or constraints NOT NULL.");
	if (!indexes_are_btrees(rel))
		return _("It has an index that is not a btree.");
	return insert_problem(rel);
}

static bool
indexes_are_btrees(Relation rel)
{
	List *indexes = RelationGetIndexList(rel);
	bool btrees = true;
	ListCell *lc;

	foreach(lc, indexes)
	{
		Relation index = index_open(lfirst_oid(lc), AccessShareLock);

		btrees &= index->rd_rel->relam == BTREE_AM_OID;
		index_close(index, NoLock);
	}
	list_free(indexes);
	return btrees;
}

/*
 * indexes_are_plain tells whether all indexes of a table are plain.
 */
bool
indexes_are_plain(Relation rel)
{
	List *indexes = RelationGetIndexList(rel);
	bool plain = true;
	ListCell *lc;

	foreach(lc, indexes)
	{
		Relation index = index_open(lfirst_oid(lc), AccessShareLock);

		plain &= is_plain(index);
		index_close(index, NoLock);
	}
	list_free(indexes);
	return plain;
}

/*
 * is_plain tells whether an index runs no code of its owner, and defers nothing.
 */
static bool
is_plain(Relation index)
{
	return index->rd_index->indimmediate && !index->rd_index->indisexclusion &&
		heap_attisnull(index->rd_indextuple, Anum_pg_index_indexprs, NULL) &&
		heap_attisnull(index->rd_indextuple, Anum_pg_index_indpred, NULL);
}

/*
 * indexes_open opens the indexes that are inserted into. Raises 55000 for one that is not
 * plain.
 */
void
indexes_open(DcIndexes *indexes, Relation rel)
{
	List *oids = RelationGetIndexList(rel);
	ListCell *lc;

	indexes->n = 0;
	indexes->rels = palloc(list_length(oids) * sizeof(Relation));
	indexes->infos = palloc(list_length(oids) * sizeof(IndexInfo *));
	foreach(lc, oids)
	{
		Relation index = index_open(lfirst_oid(lc), RowExclusiveLock);

		if (!index->rd_index->indisready)
		{
			index_close(index, NoLock);
			continue;
		}
		if (!is_plain(index))
			layout_altered_error(rel);
		indexes->rels[indexes->n] = index;
		indexes->infos[indexes->n++] = BuildIndexInfo(index);
	}
	list_free(oids);
}

/*
 * Insert the entries of rows that were inserted, but not into unique indexes on the columns of `but`,
 * which may be NULL. One index is served after the other, since its pages are at hand then.
 */
void
indexes_insert(const DcIndexes *indexes, Relation rel, Relation but, TupleTableSlot **slots, int n)
{
	for (int i = 0; i < indexes->n; i++)
	{
		bool unique = indexes->rels[i]->rd_index->indisunique;

		if (but != NULL && is_key(indexes->rels[i], but))
			continue;
		for (int j = 0; j < n; j++)
			(void) insert_entry(indexes, i, rel, slots[j],
								unique ? UNIQUE_CHECK_YES : UNIQUE_CHECK_NO);
	}
}

/*
 * Return true if an index is unique, and has the columns of another one.
 */
static bool
is_key(Relation index, Relation key)
{
	int n = key->rd_index->indnkeyatts;

	return index->rd_index->indisunique && index->rd_index->indnkeyatts == n &&
		memcmp(index->rd_index->indkey.values, key->rd_index->indkey.values, n * sizeof(int16)) == 0 &&
		memcmp(index->rd_indcollation, key->rd_indcollation, n * sizeof(Oid)) == 0;
}

/*
 * Insert the entries without waiting for other transactions, and without an error, into unique indexes on
 * the columns of `key`, or all indexes (NULL). Set taken[i] if the values of row i, in a unique index, may be those of another
 * row, committed or not. The caller deletes that one of ours then. Of two sessions that
 * insert the same values, the second one to come to the index page finds the first.
 */
void
indexes_try_insert(const DcIndexes *indexes, Relation rel, Relation key, TupleTableSlot **slots,
				   int n, bool *taken)
{
	memset(taken, 0, n * sizeof(bool));
	for (int i = 0; i < indexes->n; i++)
	{
		bool unique = indexes->rels[i]->rd_index->indisunique;

		if (key != NULL && !is_key(indexes->rels[i], key))
			continue;
		for (int j = 0; j < n; j++)
			taken[j] |= !insert_entry(indexes, i, rel, slots[j],
									  unique ? UNIQUE_CHECK_PARTIAL : UNIQUE_CHECK_NO) &&
				unique;
	}
}

/*
 * insert_entry inserts an entry into index i. With UNIQUE_CHECK_PARTIAL, false if it may
 * not be unique.
 */
static bool
insert_entry(const DcIndexes *indexes, int i, Relation rel, TupleTableSlot *slot,
			 IndexUniqueCheck check)
{
	Datum values[INDEX_MAX_KEYS];
	bool nulls[INDEX_MAX_KEYS];

	FormIndexDatum(indexes->infos[i], slot, NULL, values, nulls);
	return index_insert(indexes->rels[i], values, nulls, &slot->tts_tid, rel, check, false,
						indexes->infos[i]);
}

void
indexes_close(DcIndexes *indexes)
{
	for (int i = 0; i < indexes->n; i++)
	{
		compat_index_insert_cleanup(indexes->rels[i], indexes->infos[i]);
		index_close(indexes->rels[i], NoLock);
	}
}
