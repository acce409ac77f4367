/*
 * rowread.c
 *		Reading the values of rows that are in users' tables.
 *
 * Copyright (c) 2026, the dcounter developers
 *
 * A value is bytes until a type is given to it. The tables belong to users, who may alter a
 * column, or drop its NOT NULL, whenever no lock is in their way. Our locks do not keep out
 * code that runs within our transaction, as an owner's trigger does. The planner replaces a
 * plan after such a change, and the same statement then returns other types. So facts about a
 * table that were found before a statement ran do not tell the types of its result: only the
 * descriptor that comes with the rows does.
 *
 * So this is the only file that takes values out of rows (lint):
 *
 *	- A statement declares the columns of its result. rows_take() compares them with the
 *	  descriptor of the result, each time, before a value is read.
 *	- Code that reads tuples of a table gives the type with each value, which is compared with
 *	  the descriptor that the tuple is read with. The relation is open in the meantime, so no ALTER
 *	  TABLE can give it another descriptor, not even in this session.
 *	- A null where none is declared is an error.
 *
 * The error is 42809, "is not as dcounter created it". The same error is raised for a table
 * whose shape is wrong when it is opened. Rows of the extension's own tables are read the same
 * way.
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "catalog/pg_type.h"
#include "nodes/execnodes.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"
#include "utils/tuplestore.h"

#include "base/rowread.h"

static void check_columns(const DcRows *rows, TupleDesc desc);
static void check_attribute(Oid table, TupleDesc desc, AttrNumber att, Oid type);
pg_noreturn static void column_is_null(Oid table, const char *column);
pg_noreturn static void column_has_type(Oid table, const char *column, Oid type, Oid wanted);
pg_noreturn static void not_made_error(Oid table, const char *detail);

/*
 * rows_take takes the result of the SPI call that has just returned. Columns are
 * declared up to ROWS_MAX_COLUMNS; with none, only their number counts. Errors name
 * `table`.
 */
void
rows_take(DcRows *rows, const DcResultColumn *columns, Oid table)
{
	rows->table = table;
	rows->columns = columns;
	rows->ncolumns = 0;
	while (rows->ncolumns < ROWS_MAX_COLUMNS && OidIsValid(columns[rows->ncolumns].type))
		rows->ncolumns++;
	rows->result = SPI_tuptable;
	rows->count = SPI_processed;
	if (rows->ncolumns == 0)
		return;
	if (rows->result == NULL) /* a rule has replaced the statement */
		not_made_error(table, _("A statement on it returned no rows."));
	rows->count = rows->result->numvals;
	check_columns(rows, rows->result->tupdesc);
}

/*
 * Raise 42809 unless a result has the declared columns.
 */
static void
check_columns(const DcRows *rows, TupleDesc desc)
{
	if (desc->natts != rows->ncolumns)
		not_made_error(rows->table,
					   psprintf(_("A statement on it returned %d columns instead of %d."),
								desc->natts, rows->ncolumns));
	for (int i = 0; i < rows->ncolumns; i++)
	{
		Oid type = TupleDescAttr(desc, i)->atttypid;

		if (type != rows->columns[i].type)
			column_has_type(rows->table, rows->columns[i].name, type,
							rows->columns[i].type);
	}
}

/*
 * rows_datum returns a value, which must not be null. Rows count from 0, columns from 1.
 */
Datum
rows_datum(const DcRows *rows, uint64 row, int column)
{
	bool isnull;
	Datum value = rows_nullable(rows, row, column, &isnull);

	if (isnull)
		column_is_null(rows->table, rows->columns[column - 1].name);
	return value;
}

/*
 * rows_nullable returns a value of a column that may be null, if it was declared so.
 */
Datum
rows_nullable(const DcRows *rows, uint64 row, int column, bool *isnull)
{
	Datum value;

	if (row >= rows->count || column < 1 || column > rows->ncolumns)
		elog(ERROR, "no such value: row %llu, column %d",
			 (unsigned long long) row, column);
	value = SPI_getbinval(rows->result->vals[row], rows->result->tupdesc, column, isnull);
	if (*isnull && !rows->columns[column - 1].nullable)
		column_is_null(rows->table, rows->columns[column - 1].name);
	return *isnull ? (Datum) 0 : value;
}

/*
 * rows_bigint returns a bigint, which must not be null.
 */
int64
rows_bigint(const DcRows *rows, uint64 row, int column)
{
	Assert(rows->columns[column - 1].type == INT8OID);
	return DatumGetInt64(rows_datum(rows, row, column));
}

/*
 * rows_return adds all rows, as they are, to the result of a set-returning function, which has the
 * same columns.
 */
void
rows_return(FunctionCallInfo fcinfo, const DcRows *rows)
{
	ReturnSetInfo *result = (ReturnSetInfo *) fcinfo->resultinfo;
	TupleDesc desc = result->setDesc;

	if (desc->natts != rows->ncolumns)
		elog(ERROR, "unexpected number of columns: %d", desc->natts);
	for (int i = 0; i < rows->ncolumns; i++)
	{
		if (TupleDescAttr(desc, i)->atttypid != rows->columns[i].type)
			elog(ERROR, "unexpected type of column %d", i + 1);
	}
	for (uint64 row = 0; row < rows->count; row++)
	{
		Datum values[ROWS_MAX_COLUMNS];
		bool nulls[ROWS_MAX_COLUMNS];

		for (int i = 0; i < rows->ncolumns; i++)
			values[i] = rows_nullable(rows, row, i + 1, &nulls[i]);
		tuplestore_putvalues(result->setResult, desc, values, nulls);
	}
}

/*
 * tuple_datum returns a value of a tuple of an open relation, which must not be null.
 */
Datum
tuple_datum(Relation rel, HeapTuple tuple, AttrNumber att, Oid type)
{
	bool isnull;
	Datum value = tuple_nullable(rel, tuple, att, type, &isnull);

	if (isnull)
		column_is_null(RelationGetRelid(rel),
					   NameStr(TupleDescAttr(RelationGetDescr(rel), att - 1)->attname));
	return value;
}

/*
 * tuple_nullable does the same for a value that may be null.
 */
Datum
tuple_nullable(Relation rel, HeapTuple tuple, AttrNumber att, Oid type, bool *isnull)
{
	check_attribute(RelationGetRelid(rel), RelationGetDescr(rel), att, type);
	return heap_getattr(tuple, att, RelationGetDescr(rel), isnull);
}

/*
 * slot_datum returns a value of a row that was scanned, which must not be null.
 */
Datum
slot_datum(TupleTableSlot *slot, AttrNumber att, Oid type)
{
	bool isnull;
	Datum value = slot_nullable(slot, att, type, &isnull);

	if (isnull)
		column_is_null(slot->tts_tableOid,
					   NameStr(TupleDescAttr(slot->tts_tupleDescriptor, att - 1)->attname));
	return value;
}

/*
 * slot_nullable does the same for a value that may be null.
 */
Datum
slot_nullable(TupleTableSlot *slot, AttrNumber att, Oid type, bool *isnull)
{
	Datum value;

	check_attribute(slot->tts_tableOid, slot->tts_tupleDescriptor, att, type);
	value = slot_getattr(slot, att, isnull);
	return *isnull ? (Datum) 0 : value;
}

/*
 * Raise 42809 unless a table has a column of this number and type.
 */
static void
check_attribute(Oid table, TupleDesc desc, AttrNumber att, Oid type)
{
	if (att < 1 || att > desc->natts)
		not_made_error(table, psprintf(_("It has no column %d."), att));
	if (TupleDescAttr(desc, att - 1)->atttypid != type) /* 0 for one that was dropped */
		column_has_type(table, NameStr(TupleDescAttr(desc, att - 1)->attname),
						TupleDescAttr(desc, att - 1)->atttypid, type);
}

/*
 * column_is_null raises the error for a null where none may be.
 */
static void
column_is_null(Oid table, const char *column)
{
	not_made_error(table, psprintf(_("Its column \"%s\" has a null value."), column));
}

/*
 * column_has_type raises the error for a column of another type.
 */
static void
column_has_type(Oid table, const char *column, Oid type, Oid wanted)
{
	if (!OidIsValid(type))
		not_made_error(table, psprintf(_("Its column \"%s\" was dropped."), column));
	not_made_error(table, psprintf(_("Its column \"%s\" is of type %s instead of %s."), column, format_type_be(type), format_type_be(wanted)));
}

/*
 * not_made_error raises 42809 for a table that is not as it was created.
 */
static void
not_made_error(Oid table, const char *detail)
{
	ereport(ERROR,
			(errcode(ERRCODE_WRONG_OBJECT_TYPE),
			 errmsg("\"%s\" is not as dcounter created it", get_rel_name(table)),
			 errdetail_internal("%s", detail)));
}
