/*
 * insert.c
 *		Inserting without SQL into tables that have only indexes.
 *
 * Copyright (c) 2026, the dcounter developers
 *
 * Entries of a ledger and records of ops are inserted as the executor would, without its
 * state: making that costs more than the rows. Only plain indexes are served: an
 * expression or a condition of an index is code of its owner, and would run as the
 * user that inserts.
 *
 * A concurrent build may add an index at any time after extras_problem() was asked. So each index
 * is checked again when it is open, before anything is inserted into it.
 */
#include "postgres.h"

#include "access/genam.h"
#include "catalog/index.h"
#include "executor/executor.h"
#include "utils/rel.h"

#include "base/compat.h"
#include "core/rows/insert.h"
#include "core/table/extras.h"
#include "core/table/layout.h"

static bool is_key(Relation index, Relation key);
static bool insert_entry(const DcIndexes *indexes, int i, Relation rel,
						 TupleTableSlot *slot, IndexUniqueCheck check);

/*
 * Return the reason why rows of a table cannot be inserted and updated without SQL, as a
 * sentence, or NULL. `alone` says that its columns are ours, without further constraints
 * (core/table/shape.c).
 */
const char *
write_problem(Relation rel, bool alone)
{
	if (!alone)
		return _("It has additional columns, or NOT NULL constraints.");
	return extras_problem(rel, EXTRAS_OF_UPDATE);
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
		if (!index_is_plain(index->rd_indextuple))
			layout_altered_error(rel);
		indexes->rels[indexes->n] = index;
		indexes->infos[indexes->n++] = BuildIndexInfo(index);
	}
	list_free(oids);
}

/*
 * Insert the entries of rows that were inserted, but not into unique indexes on the columns of
 * `but`, which may be NULL. All rows are inserted into one index before the next, since its
 * pages are at hand then.
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
 * Insert the entries of a new version of a row, whose primary key is that of the old one. The check
 * that this is unique would visit every dead entry of the row, of which a snapshot that is held
 * keeps any number.
 */
void
indexes_insert_version(const DcIndexes *indexes, Relation rel, TupleTableSlot *slot)
{
	for (int i = 0; i < indexes->n; i++)
	{
		Form_pg_index form = indexes->rels[i]->rd_index;

		(void) insert_entry(indexes, i, rel, slot,
							form->indisunique && !form->indisprimary ? UNIQUE_CHECK_YES : UNIQUE_CHECK_NO);
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
 * Insert the entries without waiting for other transactions, and without an error, into unique
 * indexes on the columns of `key`, or all indexes (NULL). Set taken[i] if the values of row i, in a
 * unique index, may be those of another row, committed or not. The caller deletes that one of ours
 * then. Of two sessions that insert the same values, the second one to come to the index page finds
 * the first.
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

/*
 * Close the indexes; their locks are kept.
 */
void
indexes_close(DcIndexes *indexes)
{
	for (int i = 0; i < indexes->n; i++)
	{
		compat_index_insert_cleanup(indexes->rels[i], indexes->infos[i]);
		index_close(indexes->rels[i], NoLock);
	}
}
