/*
 * io.c
 *		Input, output and casts, the same for all sketch types; errors and aggregate
 *		states that they share.
 *
 * Copyright (c) 2026, the dcounter developers
 *
 * A sketch value is a varlena of bytes that its type describes and checks. As
 * text it is those bytes in hexadecimal, like a bytea; in binary, the bytes.
 * Bytes from outside are checked whole, so that the other functions can
 * trust a value.
 */
#include "postgres.h"

#include "types/sketch/io.h"

#include "fmgr.h"
#include "lib/stringinfo.h"
#include "libpq/pqformat.h"
#include "utils/builtins.h"

#include "base/compat.h"

/*
 * sketch_value creates a value from some bytes.
 */
bytea *
sketch_value(const void *data, size_t len)
{
	bytea *value = palloc(VARHDRSZ + len);

	SET_VARSIZE(value, VARHDRSZ + len);
	memcpy(VARDATA(value), data, len);
	return value;
}

/*
 * sketch_aggregate_context is the context of an aggregate's states, which its
 * functions are called with.
 */
MemoryContext
sketch_aggregate_context(FunctionCallInfo fcinfo)
{
	MemoryContext context;

	if (!AggCheckCallContext(fcinfo, &context))
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("aggregate function called in non-aggregate context")));
	return context;
}

/*
 * sketch_rows_differ reports that the rows of an aggregate differ in an argument that
 * must be the same for a sketch. `what` names the argument.
 */
void
sketch_rows_differ(const char *what)
{
	ereport(ERROR,
			(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
			 errmsg("%s must be the same for all rows of a group", what)));
}

/*
 * sketch_damaged reports a stored value that cannot be read. That values were checked
 * when they were made is no help against a damaged disk. wrong may be NULL.
 */
void
sketch_damaged(const SketchIo *io, const char *wrong)
{
	ereport(ERROR,
			(errcode(ERRCODE_DATA_CORRUPTED),
			 errmsg("stored value of type %s is corrupted", io->type),
			 wrong != NULL ? errdetail_internal("%s", wrong) : 0));
}

/*
 * check_whole raises an error of that code if bytes are no value of a type.
 */
static void
check_whole(const SketchIo *io, const uint8 *data, size_t len, int sqlstate)
{
	const char *wrong = io->check(data, len);

	if (wrong != NULL)
		ereport(ERROR,
				(errcode(sqlstate),
				 errmsg("invalid value for type %s", io->type),
				 errdetail_internal("%s", wrong)));
}

/*
 * Return the value of a hexadecimal digit, or -1 if it is none.
 */
static int
io_hex_digit(char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	if (c >= 'a' && c <= 'f')
		return c - 'a' + 10;
	if (c >= 'A' && c <= 'F')
		return c - 'A' + 10;
	return -1;
}

/*
 * sketch_in reads a value from text: \x and hexadecimal digits.
 */
Datum
sketch_in(FunctionCallInfo fcinfo, const SketchIo *io)
{
	const char *text = PG_GETARG_CSTRING(0);
	size_t digits = strlen(text);
	const char *wrong;
	bytea *value;
	uint8 *data;

	if (digits < 2 || digits % 2 != 0 || text[0] != '\\' || text[1] != 'x')
		compat_ereturn(fcinfo->context, (Datum) 0,
					   (errcode(ERRCODE_INVALID_TEXT_REPRESENTATION),
						errmsg("invalid input syntax for type %s", io->type),
						errdetail("A value consists of \\x and an even number of hexadecimal digits.")));
	digits -= 2;
	value = palloc(VARHDRSZ + digits / 2);
	data = (uint8 *) VARDATA(value);
	SET_VARSIZE(value, VARHDRSZ + digits / 2);
	for (size_t i = 0; i < digits / 2; i++)
	{
		int high = io_hex_digit(text[2 + 2 * i]);
		int low = io_hex_digit(text[3 + 2 * i]);

		if (high < 0 || low < 0)
			compat_ereturn(fcinfo->context, (Datum) 0,
						   (errcode(ERRCODE_INVALID_TEXT_REPRESENTATION),
							errmsg("invalid hexadecimal digit in a value of type %s", io->type)));
		data[i] = (uint8) (high << 4 | low);
	}
	wrong = io->check(data, digits / 2);
	if (wrong != NULL)
		compat_ereturn(fcinfo->context, (Datum) 0,
					   (errcode(ERRCODE_INVALID_TEXT_REPRESENTATION),
						errmsg("invalid value for type %s", io->type),
						errdetail_internal("%s", wrong)));
	if (io->coerce != NULL)
		return io->coerce(PointerGetDatum(value), PG_GETARG_INT32(2), fcinfo->context);
	return PointerGetDatum(value);
}

/*
 * Return a value as text: \x and hexadecimal digits.
 */
Datum
sketch_out(FunctionCallInfo fcinfo)
{
	bytea *value = PG_GETARG_BYTEA_PP(0);
	size_t len = VARSIZE_ANY_EXHDR(value);
	char *text = palloc(2 * len + 3);

	text[0] = '\\';
	text[1] = 'x';
	hex_encode(VARDATA_ANY(value), len, text + 2);
	text[2 + 2 * len] = '\0';
	PG_RETURN_CSTRING(text);
}

/*
 * Read a value from its binary form, which is not trusted (22P03 if it is wrong), and enforce the
 * type modifier if the type has one.
 */
Datum
sketch_recv(FunctionCallInfo fcinfo, const SketchIo *io)
{
	StringInfo message = (StringInfo) PG_GETARG_POINTER(0);
	int len = message->len - message->cursor;
	const uint8 *data = (const uint8 *) pq_getmsgbytes(message, len);
	bytea *value;

	check_whole(io, data, len, ERRCODE_INVALID_BINARY_REPRESENTATION);
	value = sketch_value(data, len);
	if (io->coerce != NULL)
		return io->coerce(PointerGetDatum(value), PG_GETARG_INT32(2), NULL);
	PG_RETURN_BYTEA_P(value);
}

/*
 * Return the bytea argument as a value; 22023 if it is none.
 */
Datum
sketch_from_bytea(FunctionCallInfo fcinfo, const SketchIo *io)
{
	bytea *bytes = PG_GETARG_BYTEA_PP(0);
	const uint8 *data = (const uint8 *) VARDATA_ANY(bytes);

	check_whole(io, data, VARSIZE_ANY_EXHDR(bytes), ERRCODE_INVALID_PARAMETER_VALUE);
	PG_RETURN_BYTEA_P(sketch_value(data, VARSIZE_ANY_EXHDR(bytes)));
}
