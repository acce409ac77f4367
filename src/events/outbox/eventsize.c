/*
 * eventsize.c
 *		How large an event may be.
 *
 * Copyright (c) 2026, the dcounter developers
 *
 * An event that no reader can take would come first with each fetch, and hold up all events after
 * it. So the limit is not only that of the row, but also that of the text that a client gets for
 * it. The text of a string is at most six times as long as the string in jsonb, as that of a
 * control character is. That of a number has no such bound: 1e131071 takes ten bytes in jsonb, and
 * 131,072 as text. Such numbers are counted.
 */
#include "postgres.h"

#include "access/detoast.h"
#include "miscadmin.h"
#include "utils/builtins.h"
#include "utils/fmgrprotos.h"
#include "utils/jsonb.h"
#include "utils/memutils.h"
#include "utils/numeric.h"

#include "base/args.h"
#include "events/outbox/outbox.h"

/* Limit of topic, type and key. */
#define MAX_NAME_BYTES 8192

/*
 * Numbers below this one, with at most LONG_SCALE decimals, have a text of at most six times their
 * bytes in jsonb, which are 12 at least. The texts of others may take MAX_LONG_BYTES in all.
 */
#define LONG_NUMBER "1e50"
#define LONG_SCALE 16
#define MAX_LONG_BYTES (256 * 1024)

static void check_json(const char *what, struct varlena *stored);
static bool number_is_long(Numeric number);
static Datum numeric_constant(const char *number);
static Size long_number_bytes(Numeric number);

/*
 * event_check_sizes raises 54000 for an event that readers could not take.
 */
void
event_check_sizes(const DcEvent *event)
{
	check_length("topic", VARSIZE_ANY_EXHDR(event->topic), 0, MAX_NAME_BYTES);
	check_length("type", VARSIZE_ANY_EXHDR(event->type), 0, MAX_NAME_BYTES);
	if (event->key != NULL)
		check_length("key of an event", VARSIZE_ANY_EXHDR(event->key), 0, MAX_NAME_BYTES);
	if (event->payload != NULL)
		check_json("payload", (struct varlena *) event->payload);
	if (event->headers != NULL)
		check_json("value of headers", (struct varlena *) event->headers);
}

/*
 * Raise 54000 if a jsonb value is too long, or if the texts of its long numbers are.
 */
static void
check_json(const char *what, struct varlena *stored)
{
	Jsonb *json;
	JsonbIterator *it;
	JsonbIteratorToken token;
	JsonbValue value;
	Size bytes = 0;

	check_length(what, toast_raw_datum_size(PointerGetDatum(stored)) - VARHDRSZ, 0, EVENT_MAX_JSON_BYTES);
	json = (Jsonb *) PG_DETOAST_DATUM(PointerGetDatum(stored));
	it = JsonbIteratorInit(&json->root);
	while ((token = JsonbIteratorNext(&it, &value, false)) != WJB_DONE)
	{
		CHECK_FOR_INTERRUPTS();
		if ((token == WJB_ELEM || token == WJB_VALUE) && value.type == jbvNumeric && number_is_long(value.val.numeric))
			bytes += long_number_bytes(value.val.numeric);
		if (bytes > MAX_LONG_BYTES)
			ereport(ERROR,
					(errcode(ERRCODE_PROGRAM_LIMIT_EXCEEDED),
					 errmsg("long numbers of the %s take more than %d bytes as text", what, MAX_LONG_BYTES),
					 errhint("Write them as strings, or write fewer of them.")));
	}
	if ((struct varlena *) json != stored)
		pfree(json);
}

/*
 * Return true if the text of a number may be more than six times as long as the number.
 */
static bool
number_is_long(Numeric number)
{
	static Datum limit = (Datum) 0;
	static Datum negative = (Datum) 0;

	if (negative == (Datum) 0)
	{
		MemoryContext old = MemoryContextSwitchTo(TopMemoryContext);

		limit = numeric_constant(LONG_NUMBER);
		negative = numeric_constant("-" LONG_NUMBER);
		MemoryContextSwitchTo(old);
	}
	return DatumGetInt32(DirectFunctionCall1(numeric_scale, NumericGetDatum(number))) > LONG_SCALE ||
		DatumGetBool(DirectFunctionCall2(numeric_ge, NumericGetDatum(number), limit)) ||
		DatumGetBool(DirectFunctionCall2(numeric_le, NumericGetDatum(number), negative));
}

/*
 * Return a number that is written in a text, as a Datum.
 */
static Datum
numeric_constant(const char *number)
{
	return DirectFunctionCall3(numeric_in, CStringGetDatum(number), ObjectIdGetDatum(InvalidOid), Int32GetDatum(-1));
}

/*
 * Return the length of a number's text.
 */
static Size
long_number_bytes(Numeric number)
{
	char *digits = DatumGetCString(DirectFunctionCall1(numeric_out, NumericGetDatum(number)));
	Size bytes = strlen(digits);

	pfree(digits);
	return bytes;
}
