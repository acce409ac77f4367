/*
 * entry.c
 *		Writing the entries of a ledger.
 *
 * Copyright (c) 2026, the dcounter developers
 *
 * Entries are only ever added. Where nothing but the guard and indexes is on the table, or on
 * the partition of the month (entrymonth.c), those of a transfer are inserted together without
 * SQL; otherwise by SQL, as the owner, so that triggers, partitions and constraints apply.
 */
#include "postgres.h"

#include "access/table.h"
#include "access/tableam.h"
#include "access/xact.h"
#include "catalog/pg_type.h"
#include "executor/executor.h"
#include "miscadmin.h"
#include "utils/rel.h"

#include "base/relopen.h"
#include "base/sequence.h"
#include "core/rows/insert.h"
#include "transactional/ledger/entry.h"
#include "transactional/ledger/entrymonth.h"
#include "transactional/ledger/ledgersql.h"

#define NUM_ATTS 7

/* Number of entries inserted at a time. */
#define MAX_BATCH 100

/* the columns of an entry */
static const DcStatement sql_entry_insert = {
	.text = "INSERT INTO @entries (entry_id, transfer_id, key, amount, op_id, at, memo)"
			" VALUES ($1, $2, $3, $4, $5, $6, $7)",
	.argtypes = {INT8OID, INT8OID, TEXTOID, INT8OID, TEXTOID, TIMESTAMPTZOID, JSONBOID}};

static void entry_insert_direct(Oid table, const DcEntries *batch);
static void entry_insert_by_sql(DcLedger *ledger, const DcEntries *batch);

/*
 * entries_draw returns the first of n new numbers of entries.
 */
int64
entries_draw(DcLedger *ledger, int n)
{
	return sequence_draw(ledger->row.entry_ids, n);
}

/*
 * entries_insert writes the entries of one transfer.
 */
void
entries_insert(DcLedger *ledger, const DcEntries *batch)
{
	Oid table = ledger->direct ? ledger->row.entries : InvalidOid;

	if (ledger->by_month)
		table = month_table(ledger, batch->at);
	/* a concurrent build may have added an index with code since they were checked */
	if (OidIsValid(table) && ledger->valid)
		entry_insert_direct(table, batch);
	else
		entry_insert_by_sql(ledger, batch);
}

/*
 * entry_values fills in the columns of an entry, in their order.
 */
static void
entry_values(const DcEntries *batch, int i, Datum *values)
{
	values[0] = Int64GetDatum(batch->first_id + i);
	values[1] = Int64GetDatum(batch->transfer_id != 0 ? batch->transfer_id : batch->first_id);
	values[2] = key_text_datum(batch->entries[i].key);
	values[3] = Int64GetDatum(batch->entries[i].amount);
	values[4] = batch->op_id;
	values[5] = TimestampTzGetDatum(batch->at);
	values[6] = batch->memo;
}

/*
 * entry_insert_direct inserts into a table that is locked, and has nothing but indexes
 * (core/rows/insert.c).
 */
static void
entry_insert_direct(Oid table, const DcEntries *batch)
{
	Relation rel = table_open_present(table, NoLock);
	TupleTableSlot *slots[MAX_BATCH];
	int nslots = Min(batch->n, MAX_BATCH);
	int filled = 0;
	DcIndexes indexes;

	indexes_open(&indexes, rel);
	for (int i = 0; i < nslots; i++)
		slots[i] = MakeSingleTupleTableSlot(RelationGetDescr(rel), &TTSOpsHeapTuple);
	for (int i = 0; i < batch->n; i++)
	{
		Datum values[NUM_ATTS];
		bool nulls[NUM_ATTS] = {false};

		CHECK_FOR_INTERRUPTS();
		entry_values(batch, i, values);
		nulls[NUM_ATTS - 1] = !batch->has_memo;
		ExecStoreHeapTuple(heap_form_tuple(RelationGetDescr(rel), values, nulls),
						   slots[filled++], true);
		if (filled == nslots || i == batch->n - 1)
		{
			table_multi_insert(rel, slots, filled, GetCurrentCommandId(true), 0, NULL);
			indexes_insert(&indexes, rel, NULL, slots, filled);
			while (filled > 0)
				ExecClearTuple(slots[--filled]);
		}
	}
	for (int i = 0; i < nslots; i++)
		ExecDropSingleTupleTableSlot(slots[i]);
	indexes_close(&indexes);
	table_close(rel, NoLock);
}

/*
 * Insert the entries one by one with SQL, as the owner; raises 55000 if code of the owner keeps
 * one from being inserted.
 */
static void
entry_insert_by_sql(DcLedger *ledger, const DcEntries *batch)
{
	DcSqlSession session;

	ledger_sql_begin(&session, ledger);
	for (int i = 0; i < batch->n; i++)
	{
		Datum values[NUM_ATTS];

		CHECK_FOR_INTERRUPTS();
		entry_values(batch, i, values);
		if (sql_run_nulls(&session, &sql_entry_insert, values,
						  batch->has_memo ? NULL : "      n") != 1)
			ereport(ERROR,
					(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
					 errmsg("an entry of the ledger could not be written"),
					 errdetail("A trigger or rule has kept it from being inserted.")));
	}
	sql_end(&session);
}
