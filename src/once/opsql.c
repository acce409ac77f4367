/*
 * opsql.c
 *		Finding and inserting ops with SQL, in a partition that was altered.
 *
 * All of it runs as the owner of the counter table.
 */
#include "postgres.h"

#include "access/xact.h"
#include "base/errors.h"
#include "base/rowread.h"
#include "base/runas.h"
#include "catalog/pg_type.h"
#include "executor/spi.h"
#include "ledger/ledger.h"
#include "once/opslot.h"
#include "table/ownstatement.h"
#include "utils/builtins.h"
#include "utils/snapmgr.h"

static uint64 run(const DcOpSlot *slot, const char *sql, int nargs, Oid *types,
				  Datum *values, const char *nulls, DcRows *rows);
static bool select_op(Oid owner, const DcOpSlot *slot,
					  const DcOp *op, DcOp *found);
static Datum id_datum(const DcOp *op);

/*
 * sql_find_op looks for a committed op; one of a transaction in progress makes
 * the insertion wait.
 */
bool
sql_find_op(Oid owner, const DcOpSlot *slot, const DcOp *op,
			DcOpFind how, DcOp *found)
{
	bool exists;
	DcOp seen;

	PushActiveSnapshot(how == FIND_NOW ? GetActiveSnapshot() : GetLatestSnapshot());
	exists = select_op(owner, slot, op, found);
	PopActiveSnapshot();
	if (exists && how == FIND_TO_WRITE && IsolationUsesXactSnapshot())
	{
		PushCopiedSnapshot(GetTransactionSnapshot());
		UpdateActiveSnapshotCommandId();
		if (!select_op(owner, slot, op, &seen))
			serialization_error();
		PopActiveSnapshot();
	}
	return exists;
}

/*
 * select_op reads an op with the active snapshot.
 */
static bool
select_op(Oid owner, const DcOpSlot *slot, const DcOp *op,
		  DcOp *found)
{
	MemoryContext caller = CurrentMemoryContext;
	Oid types[1] = {TEXTOID};
	Datum values[1];
	bool exists;
	DcRunAs state;
	DcRows rows;

	values[0] = id_datum(op);
	if (SPI_connect() != SPI_OK_CONNECT)
		elog(ERROR, "SPI_connect failed");
	runas_begin(&state, owner);
	exists = run(slot,
				 psprintf("SELECT key, delta, transfer_id, digest, at FROM %s"
						  " WHERE op_id OPERATOR(pg_catalog.=) $1",
						  relation_sql_name(slot->table)),
				 1, types, values, NULL, &rows) > 0;
	if (exists)
	{
		MemoryContext old = MemoryContextSwitchTo(caller);
		bool isnull;

		found->id = pnstrdup(op->id, op->id_len);
		found->id_len = op->id_len;
		found->key = PointerGetDatum(DatumGetTextPCopy(rows_datum(&rows, 0, 1)));
		found->delta = rows_bigint(&rows, 0, 2);
		found->transfer_id = DatumGetInt64(rows_nullable(&rows, 0, 3, &isnull));
		if (isnull)
			found->transfer_id = 0;
		found->digest = DatumGetInt64(rows_nullable(&rows, 0, 4, &isnull));
		if (isnull)
			found->digest = 0;
		found->at = DatumGetTimestampTz(rows_datum(&rows, 0, 5));
		MemoryContextSwitchTo(old);
	}
	runas_end(&state);
	SPI_finish();
	return exists;
}

/*
 * sql_insert_op inserts an op; false if there is one of that id. Waits for one
 * who is about to insert it.
 */
bool
sql_insert_op(Oid owner, const DcOpSlot *slot, const DcOp *op)
{
	Oid types[7] = {INT2OID, TEXTOID, TEXTOID, INT8OID, INT8OID, INT8OID, TIMESTAMPTZOID};
	char nulls[8] = "       ";
	Datum values[7];
	bool inserted;
	DcRunAs state;

	values[0] = Int16GetDatum(slot->number);
	values[1] = id_datum(op);
	values[2] = op->key;
	values[3] = Int64GetDatum(op->delta);
	values[4] = Int64GetDatum(op->transfer_id);
	nulls[4] = op->transfer_id == 0 ? 'n' : ' ';
	values[5] = Int64GetDatum(op->digest);
	nulls[5] = op->digest == 0 ? 'n' : ' ';
	values[6] = TimestampTzGetDatum(op->at != 0 ? op->at : GetCurrentTimestamp());
	if (SPI_connect() != SPI_OK_CONNECT)
		elog(ERROR, "SPI_connect failed");
	runas_begin(&state, owner);
	inserted = run(slot,
				   psprintf("INSERT INTO %s (slot, op_id, key, delta, transfer_id, digest, at)"
							" VALUES ($1, $2, $3, $4, $5, $6, $7)"
							" ON CONFLICT (op_id) DO NOTHING",
							relation_sql_name(slot->table)),
				   7, types, values, nulls, NULL) > 0;
	runas_end(&state);
	SPI_finish();
	return inserted;
}

/*
 * sql_delete_op takes back an op that this transaction has inserted.
 */
void
sql_delete_op(Oid owner, const DcOpSlot *slot, const DcOp *op)
{
	Oid types[1] = {TEXTOID};
	Datum values[1];
	DcRunAs state;

	values[0] = id_datum(op);
	if (SPI_connect() != SPI_OK_CONNECT)
		elog(ERROR, "SPI_connect failed");
	runas_begin(&state, owner);
	(void) run(slot,
			   psprintf("DELETE FROM %s WHERE op_id OPERATOR(pg_catalog.=) $1",
						relation_sql_name(slot->table)),
			   1, types, values, NULL, NULL);
	runas_end(&state);
	SPI_finish();
}

/*
 * run executes a statement, a query if its rows are asked for, and returns the number of
 * rows.
 */
static uint64
run(const DcOpSlot *slot, const char *sql, int nargs, Oid *types,
	Datum *values, const char *nulls, DcRows *rows)
{
	static const DcResultColumn columns[ROWS_MAX_COLUMNS] = {
		DC_TEXT("key"), DC_BIGINT("delta"), DC_NULLABLE("transfer_id", INT8OID),
		DC_NULLABLE("digest", INT8OID), DC_TIME("at")};
	SPIPlanPtr plan = SPI_prepare(sql, nargs, types);
	int result;

	if (plan == NULL)
		elog(ERROR, "SPI_prepare failed for \"%s\": %s", sql,
			 SPI_result_code_string(SPI_result));
	/* those of a ledger are guarded */
	result = rows != NULL ? SPI_execute_plan(plan, values, nulls, true, 0)
						  : own_statement_run(plan, values, nulls);
	if (result < 0)
		elog(ERROR, "SPI_execute_plan failed: %s", SPI_result_code_string(result));
	if (rows == NULL)
		return SPI_processed;
	rows_take(rows, columns, slot->table);
	return rows->count;
}

static Datum
id_datum(const DcOp *op)
{
	return PointerGetDatum(cstring_to_text_with_len(op->id, op->id_len));
}
