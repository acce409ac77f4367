/*
 * catcolumn.c
 *		Columns of the extension's own tables, and the fields that they are read into.
 *
 * Copyright (c) 2026, the dcounter developers
 *
 * A catalog names its columns once, in a function that hands each of them over, in
 * their order: it reads a row into a struct, and creates a row from one. A field may be turned into
 * another form on the way, in a local variable.
 *
 * In a column that may be null, null is the zero of the field. A struct is all zeros
 * before a row is read into it.
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "catalog/pg_type.h"
#include "utils/array.h"
#include "utils/builtins.h"
#include "utils/datum.h"
#include "utils/fmgroids.h"

#include "base/catrow.h"
#include "base/interval.h"

static int next_column(DcCatRow *io, Oid type);
static void catcolumn_put(DcCatRow *io, int column, Datum value, bool is_zero);
static void no_value(const DcCatRow *io, int column);

/*
 * cat_deform reads a tuple into a struct; false if a value is missing, as in a row that is
 * about to be inserted.
 */
bool
cat_deform(const DcCatalog *cat, TupleDesc desc, HeapTuple tuple, void *row)
{
	DcCatRow io;

	if (desc->natts > CAT_MAX_COLUMNS)
		elog(ERROR, "table \"%s.%s\" has columns of its own", DC_SCHEMA, cat->table);
	io.reading = true;
	io.desc = desc;
	io.column = 0;
	io.tid = tuple->t_self;
	io.xmin = HeapTupleHeaderGetXmin(tuple->t_data);
	heap_deform_tuple(tuple, desc, io.values, io.nulls);
	for (int i = 0; i < desc->natts; i++)
	{
		if (io.nulls[i] && TupleDescAttr(desc, i)->attnotnull)
			return false;
	}
	memset(row, 0, cat->size);
	cat->columns(&io, row);
	return true;
}

/*
 * cat_form creates a tuple from a struct; *io has its values.
 */
HeapTuple
cat_form(const DcCatalog *cat, TupleDesc desc, const void *row, DcCatRow *io)
{
	memset(io, 0, sizeof(*io));
	io->desc = desc;
	cat->columns(io, unconstify(void *, row));
	if (io->column != desc->natts)
		elog(ERROR, "table \"%s.%s\" has columns of its own", DC_SCHEMA, cat->table);
	return heap_form_tuple(desc, io->values, io->nulls);
}

/*
 * cat_key creates a key of a scan, for rows that have a value in a column.
 */
void
cat_key(ScanKey key, TupleDesc desc, AttrNumber column, Datum value)
{
	RegProcedure equal;

	switch (TupleDescAttr(desc, column - 1)->atttypid)
	{
		case INT2OID:
			equal = F_INT2EQ;
			break;
		case INT4OID:
			equal = F_INT4EQ;
			break;
		case INT8OID:
			equal = F_INT8EQ;
			break;
		case TEXTOID:
			equal = F_TEXTEQ;
			break;
		default:
			equal = F_OIDEQ;
	}
	ScanKeyInit(key, column, BTEqualStrategyNumber, equal, value);
}

/*
 * next_column returns the number of the next column, from 0, which must be of this type;
 * InvalidOid stands for all types that are OIDs.
 */
static int
next_column(DcCatRow *io, Oid type)
{
	Form_pg_attribute att;

	if (io->column >= Min(io->desc->natts, CAT_MAX_COLUMNS))
		elog(ERROR, "a catalog of dcounter has %d columns only", io->column);
	att = TupleDescAttr(io->desc, io->column);
	if (OidIsValid(type) ? att->atttypid != type : att->attlen != sizeof(Oid) || !att->attbyval)
		elog(ERROR, "column \"%s\" of a catalog of dcounter is of type %u", NameStr(att->attname),
			 att->atttypid);
	return io->column++;
}

/*
 * Set a column of the tuple that is created. A zero becomes null where the column allows that.
 */
static void
catcolumn_put(DcCatRow *io, int column, Datum value, bool is_zero)
{
	Form_pg_attribute att = TupleDescAttr(io->desc, column);

	if (value == (Datum) 0 && att->attnotnull && !att->attbyval)
		no_value(io, column);
	io->values[column] = value;
	io->nulls[column] = is_zero && !att->attnotnull;
}

/*
 * Raise an error: a column that must have a value has none.
 */
static void
no_value(const DcCatRow *io, int column)
{
	elog(ERROR, "column \"%s\" of a catalog of dcounter has no value",
		 NameStr(TupleDescAttr(io->desc, column)->attname));
}

/*
 * Return true if there is a further column. An older script of the extension's may not have it.
 */
bool
cat_has_more(const DcCatRow *io)
{
	return io->column < io->desc->natts;
}

/*
 * cat_skip leaves out columns, so that long texts in them cost nothing when a row is read.
 */
void
cat_skip(DcCatRow *io, int columns)
{
	io->column += columns;
}

/* A function for fields of a type that is passed by value. */
#define CAT_SCALAR(name, ctype, type, from_datum, to_datum) \
	void name(DcCatRow *io, ctype *field) \
	{ \
		int column = next_column(io, type); \
\
		if (io->reading) \
			*field = io->nulls[column] ? 0 : from_datum(io->values[column]); \
		else \
			catcolumn_put(io, column, to_datum(*field), *field == 0); \
	}

CAT_SCALAR(cat_bool, bool, BOOLOID, DatumGetBool, BoolGetDatum)
CAT_SCALAR(cat_int2, int, INT2OID, DatumGetInt16, Int16GetDatum)
CAT_SCALAR(cat_int4, int32, INT4OID, DatumGetInt32, Int32GetDatum)
CAT_SCALAR(cat_int8, int64, INT8OID, DatumGetInt64, Int64GetDatum)
CAT_SCALAR(cat_time, TimestampTz, TIMESTAMPTZOID, DatumGetTimestampTz, TimestampTzGetDatum)
CAT_SCALAR(cat_oid, Oid, InvalidOid, DatumGetObjectId, ObjectIdGetDatum) /* regclass, regrole */

/*
 * cat_duration reads or writes an interval, which is microseconds in the struct. It is stored
 * as days and time, or as time alone.
 */
void
cat_duration(DcCatRow *io, int64 *field, bool days)
{
	int column = next_column(io, INTERVALOID);

	if (io->reading)
		*field = io->nulls[column] ? 0 : interval_to_us(DatumGetIntervalP(io->values[column]));
	else
	{
		Interval *interval = interval_from_us(days ? *field % USECS_PER_DAY : *field);

		interval->day = days ? *field / USECS_PER_DAY : 0;
		catcolumn_put(io, column, IntervalPGetDatum(interval), *field == 0);
	}
}

/*
 * cat_string reads or writes a text that is not null; what is read is a copy.
 */
void
cat_string(DcCatRow *io, char **field)
{
	int column = next_column(io, TEXTOID);

	cat_not_null(io);
	if (io->reading)
		*field = TextDatumGetCString(io->values[column]);
	else
		catcolumn_put(io, column, *field != NULL ? CStringGetTextDatum(*field) : (Datum) 0,
					  *field == NULL);
}

/*
 * cat_choice reads or writes a text that is one of `names`, and returns the number of the name.
 */
int
cat_choice(DcCatRow *io, int field, const char *const *names, int n)
{
	int column = io->column;
	char *name = unconstify(char *, names[field]);

	cat_string(io, &name);
	return io->reading ? choice_from_text(NameStr(TupleDescAttr(io->desc, column)->attname),
										  name, names, n)
					   : field;
}

/*
 * choice_from_text returns the number of the name that is equal to a value (22023 if
 * there is none).
 */
int
choice_from_text(const char *what, const char *value, const char *const *names, int n)
{
	StringInfoData valid;

	for (int i = 0; i < n; i++)
	{
		if (strcmp(value, names[i]) == 0)
			return i;
	}
	initStringInfo(&valid);
	for (int i = 0; i < n; i++)
		appendStringInfo(&valid, "%s\"%s\"", i == 0 ? "" : i < n - 1 ? ", "
																	 : " and ",
						 names[i]);
	ereport(ERROR,
			(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
			 errmsg("invalid value for \"%s\": \"%s\"", what, value),
			 errhint("Valid values are %s.", valid.data)));
}

/*
 * cat_datum reads or writes a value of any type; what is read is a copy.
 */
void
cat_datum(DcCatRow *io, Oid type, Datum *field)
{
	int column = next_column(io, type);
	Form_pg_attribute att = TupleDescAttr(io->desc, column);

	if (!io->reading)
		catcolumn_put(io, column, *field, *field == (Datum) 0);
	else if (!io->nulls[column])
		*field = datumCopy(io->values[column], att->attbyval, att->attlen);
}

/*
 * cat_not_null raises an error if the column that was read last is null: a superuser may have
 * dropped the constraint.
 */
void
cat_not_null(const DcCatRow *io)
{
	if (io->reading && io->nulls[io->column - 1])
		no_value(io, io->column - 1);
}

/*
 * cat_roles reads or writes an array of roles, which is never null. An array with a null in it
 * is read as empty.
 */
void
cat_roles(DcCatRow *io, List **roles)
{
	Datum value = (Datum) 0;

	if (!io->reading)
	{
		int count = list_length(*roles);
		Datum *values = palloc((count + 1) * sizeof(Datum));

		for (int i = 0; i < count; i++)
			values[i] = ObjectIdGetDatum(list_nth_oid(*roles, i));
		value = PointerGetDatum(construct_array(values, count, REGROLEOID, sizeof(Oid), true, TYPALIGN_INT));
	}
	cat_datum(io, REGROLEARRAYOID, &value);
	cat_not_null(io);
	if (io->reading)
	{
		ArrayType *array = DatumGetArrayTypeP(value);
		const Oid *oids = (const Oid *) ARR_DATA_PTR(array);
		int count = array_contains_nulls(array) ? 0 : ArrayGetNItems(ARR_NDIM(array), ARR_DIMS(array));

		for (int i = 0; i < count; i++)
			*roles = lappend_oid(*roles, oids[i]);
	}
}

/*
 * cat_int8s reads or writes an array of bigint; at most `max` are read.
 */
void
cat_int8s(DcCatRow *io, int64 *items, int *count, int max)
{
	int column = next_column(io, INT8ARRAYOID);

	if (!io->reading)
	{
		Datum *values = palloc((*count + 1) * sizeof(Datum));

		for (int i = 0; i < *count; i++)
			values[i] = Int64GetDatum(items[i]);
		catcolumn_put(io, column, PointerGetDatum(construct_array(values, *count, INT8OID, sizeof(int64), FLOAT8PASSBYVAL, TYPALIGN_DOUBLE)),
					  *count == 0);
	}
	else if (!io->nulls[column])
	{
		ArrayType *array = DatumGetArrayTypeP(io->values[column]);

		if (array_contains_nulls(array))
			no_value(io, column);
		*count = Min(ArrayGetNItems(ARR_NDIM(array), ARR_DIMS(array)), max);
		memcpy(items, ARR_DATA_PTR(array), *count * sizeof(int64));
	}
}
