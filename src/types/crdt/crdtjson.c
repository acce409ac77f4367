/*
 * crdtjson.c
 *		The text forms of mergeable types, which are JSON (doc/crdt-formats.md), and the JSON
 *		values of registers. crdtparse.c reads what is written here.
 *
 * Copyright (c) 2026, the dcounter developers
 */
#include "postgres.h"

#include "base/compat.h"
#include "types/crdt/crdttype.h"

#include "lib/stringinfo.h"
#include "miscadmin.h"
#include "utils/builtins.h"
#include "utils/json.h"
#include "utils/jsonb.h"
#include "utils/memutils.h"
#include "utils/numeric.h"

#include "types/crdt/amounts.h"
#include "types/crdt/dots.h"
#include "types/crdt/gset.h"
#include "types/crdt/stamp.h"

/*
 * Append a string as a JSON string, escaped.
 */
static void
crdtjson_put_text(StringInfo out, CrdtString string)
{
	char *text = pnstrdup(string.data, string.len);

	escape_json(out, text);
	pfree(text);
}

/*
 * put_comma separates the members of an object or array.
 */
static void
put_comma(StringInfo out, bool *first)
{
	CHECK_FOR_INTERRUPTS();
	if (!*first)
		appendStringInfoString(out, ", ");
	*first = false;
}

/*
 * Append a comma if needed, and a member's key. *first is true before the first member.
 */
static void
put_key(StringInfo out, CrdtString key, bool *first)
{
	put_comma(out, first);
	crdtjson_put_text(out, key);
	appendStringInfoString(out, ": ");
}

/*
 * Append a node's amounts as an object, without those that are zero.
 */
static void
put_pncounter_entry(StringInfo out, const AmountsEntry *entry)
{
	static const char *const names[] = {"inc", "dec", "inc_reset", "dec_reset"};
	bool first = true;

	appendStringInfoChar(out, '{');
	for (int i = 0; i < AMOUNTS_FIELDS; i++)
	{
		if (entry->amounts[i] == 0)
			continue;
		put_comma(out, &first);
		appendStringInfo(out, "\"%s\": " INT64_FORMAT, names[i], entry->amounts[i]);
	}
	appendStringInfoChar(out, '}');
}

/*
 * Append a counter or a vector clock: an object with a member for each node. Its value is a
 * number, or for a dc_pncounter an object of amounts.
 */
static void
put_amounts(StringInfo out, CrdtBytes state)
{
	AmountsIter iter = amounts_iter(state);
	AmountsEntry entry;
	bool first = true;

	appendStringInfoChar(out, '{');
	while (amounts_next(&iter, &entry))
	{
		put_key(out, entry.node, &first);
		if (iter.fields == 1)
			appendStringInfo(out, INT64_FORMAT, entry.amounts[AMOUNT_INC]);
		else
			put_pncounter_entry(out, &entry);
	}
	appendStringInfoChar(out, '}');
}

/*
 * Append a dc_gset: an array of its elements.
 */
static void
put_gset(StringInfo out, CrdtBytes state)
{
	GsetIter iter = gset_iter(state);
	CrdtString element;
	bool first = true;

	appendStringInfoChar(out, '[');
	while (gset_next(&iter, &element))
	{
		put_comma(out, &first);
		crdtjson_put_text(out, element);
	}
	appendStringInfoChar(out, ']');
}

/*
 * put_ranges: 7 is dots 1 to 7; [[2, 3], [9, 9]] are 2, 3 and 9.
 */
static void
put_ranges(StringInfo out, const DotsNode *node)
{
	bool first = true;

	if (node->n == 1 && node->ranges[0].first == 1)
	{
		appendStringInfo(out, INT64_FORMAT, node->ranges[0].last);
		return;
	}
	appendStringInfoChar(out, '[');
	for (size_t i = 0; i < node->n; i++)
	{
		put_comma(out, &first);
		appendStringInfo(out, "[" INT64_FORMAT ", " INT64_FORMAT "]", node->ranges[i].first, node->ranges[i].last);
	}
	appendStringInfoChar(out, ']');
}

/*
 * Append a context as the member "seen": {"node": ranges, ...}.
 */
static void
put_seen(StringInfo out, const DotsContext *context)
{
	bool first = true;

	appendStringInfoString(out, "\"seen\": {");
	for (size_t i = 0; i < context->n; i++)
	{
		put_key(out, context->nodes[i].node, &first);
		put_ranges(out, &context->nodes[i]);
	}
	appendStringInfoChar(out, '}');
}

/*
 * put_dots puts an element's dots: {"node": [numbers], ...}.
 */
static void
put_dots(StringInfo out, const DotsReader *reader)
{
	const DotsElement *element = &reader->current;
	bool first = true;

	appendStringInfoChar(out, '{');
	for (size_t i = 0; i < element->n; i++)
	{
		Dot dot = element->dots[i];

		if (i > 0 && element->dots[i - 1].node == dot.node)
			appendStringInfo(out, ", " INT64_FORMAT, dot.counter);
		else
		{
			if (i > 0)
				appendStringInfoChar(out, ']');
			put_key(out, reader->context.nodes[dot.node].node, &first);
			appendStringInfo(out, "[" INT64_FORMAT, dot.counter);
		}
	}
	appendStringInfoString(out, "]}");
}

/*
 * Append a dc_orset: {"elements": {"element": dots, ...}, "seen": {...}}.
 */
static void
put_orset(StringInfo out, CrdtBytes state)
{
	DotsReader reader;
	bool first = true;

	dots_reader_open(&reader, state);
	appendStringInfoString(out, "{\"elements\": {");
	while (dots_reader_next(&reader))
	{
		put_key(out, reader.current.element, &first);
		put_dots(out, &reader);
	}
	appendStringInfoString(out, "}, ");
	put_seen(out, &reader.context);
	appendStringInfoChar(out, '}');
	dots_reader_close(&reader);
}

/*
 * Append a dc_mvreg: {"values": [{"value": ..., "dots": ...}, ...], "seen": {...}}.
 */
static void
put_mvreg(StringInfo out, CrdtBytes state)
{
	DotsReader reader;
	bool first = true;

	dots_reader_open(&reader, state);
	appendStringInfoString(out, "{\"values\": [");
	while (dots_reader_next(&reader))
	{
		put_comma(out, &first);
		appendStringInfoString(out, "{\"value\": ");
		appendBinaryStringInfo(out, reader.current.element.data, (int) reader.current.element.len);
		appendStringInfoString(out, ", \"dots\": ");
		put_dots(out, &reader);
		appendStringInfoChar(out, '}');
	}
	appendStringInfoString(out, "], ");
	put_seen(out, &reader.context);
	appendStringInfoChar(out, '}');
	dots_reader_close(&reader);
}

/*
 * Append a stamp's time, in microseconds since 1970, and node as the last members of an object
 * that the caller has begun, and end that object.
 */
static void
put_json_stamp(StringInfo out, const Stamp *stamp)
{
	appendStringInfo(out, "\"time\": " INT64_FORMAT ", \"node\": ", stamp->time);
	crdtjson_put_text(out, stamp->node);
	appendStringInfoChar(out, '}');
}

/*
 * Append a dc_lww: {"value": ..., "time": ..., "node": ...}, or {} if it was never written.
 */
static void
put_lww(StringInfo out, CrdtBytes state)
{
	Lww lww = lww_decode(state);

	appendStringInfoChar(out, '{');
	if (!lww.written)
	{
		appendStringInfoChar(out, '}');
		return;
	}
	appendStringInfoString(out, "\"value\": ");
	appendBinaryStringInfo(out, lww.value.data, (int) lww.value.len);
	appendStringInfoString(out, ", ");
	put_json_stamp(out, &lww.stamp);
}

/*
 * Append a dc_hlc: {"time": ..., "node": ...}.
 */
static void
put_hlc(StringInfo out, CrdtBytes state)
{
	Stamp stamp = hlc_decode(state);

	appendStringInfoChar(out, '{');
	put_json_stamp(out, &stamp);
}

/*
 * crdt_to_json is the text form of a state.
 */
char *
crdt_to_json(CrdtBytes state)
{
	StringInfoData out;

	initStringInfo(&out);
	switch (crdt_type_of_value(state)->kind)
	{
		case CRDT_GCOUNTER:
		case CRDT_PNCOUNTER:
		case CRDT_VCLOCK:
			put_amounts(&out, state);
			break;
		case CRDT_GSET:
			put_gset(&out, state);
			break;
		case CRDT_ORSET:
			put_orset(&out, state);
			break;
		case CRDT_LWW:
			put_lww(&out, state);
			break;
		case CRDT_MVREG:
			put_mvreg(&out, state);
			break;
		case CRDT_HLC:
			put_hlc(&out, state);
			break;
	}
	return out.data;
}

/* Of fewer bytes than this, jsonb prints some MB at most. */
#define PRINTS_SHORT 1024

/*
 * begin_scratch creates a context for memory that the server leaves behind when it reads or prints
 * a jsonb, a kB and more of the smallest one. A register may have very many.
 */
static MemoryContext
begin_scratch(MemoryContext *before)
{
	MemoryContext scratch = AllocSetContextCreate(CurrentMemoryContext, "dcounter JSON", ALLOCSET_DEFAULT_SIZES);

	*before = MemoryContextSwitchTo(scratch);
	return scratch;
}

/*
 * Free the scratch context, and switch back to the context that was current before.
 */
static void
end_scratch(MemoryContext scratch, MemoryContext before)
{
	MemoryContextSwitchTo(before);
	MemoryContextDelete(scratch);
}

/*
 * crdt_jsonb_in creates a jsonb from its text. Returns false after a soft error.
 */
bool
crdt_jsonb_in(const char *text, CompatNode escontext, Datum *jsonb)
{
	MemoryContext before;
	MemoryContext scratch = begin_scratch(&before);
	char *copy;

	if (!compat_jsonb_in(text, escontext, jsonb))
	{
		/* the scratch context has the error */
		MemoryContextSwitchTo(before);
		return false;
	}
	copy = MemoryContextAlloc(before, VARSIZE(DatumGetPointer(*jsonb)));
	memcpy(copy, DatumGetPointer(*jsonb), VARSIZE(DatumGetPointer(*jsonb)));
	*jsonb = PointerGetDatum(copy);
	end_scratch(scratch, before);
	return true;
}

/*
 * crdt_jsonb_of creates a jsonb from a register's value.
 */
Datum
crdt_jsonb_of(CrdtString value)
{
	char *text = pnstrdup(value.data, value.len);
	Datum jsonb;

	(void) crdt_jsonb_in(text, NULL, &jsonb);
	pfree(text);
	return jsonb;
}

/*
 * Return true if a jsonb is too long for a register when it is printed. A number
 * of some bytes, as 1e131071, may have very many digits: they are not kept to be counted.
 */
static bool
prints_long(Jsonb *jsonb)
{
	JsonbIterator *iterator;
	JsonbIteratorToken token;
	JsonbValue value;
	size_t len = 0;

	if (VARSIZE(jsonb) < PRINTS_SHORT)
		return false;
	iterator = JsonbIteratorInit(&jsonb->root);
	while ((token = JsonbIteratorNext(&iterator, &value, false)) != WJB_DONE)
	{
		CHECK_FOR_INTERRUPTS();
		if (token != WJB_KEY && token != WJB_VALUE && token != WJB_ELEM)
			continue;
		if (value.type == jbvString)
			len += value.val.string.len;
		else if (value.type == jbvNumeric)
		{
			char *digits = DatumGetCString(DirectFunctionCall1(numeric_out, NumericGetDatum(value.val.numeric)));

			len += strlen(digits);
			pfree(digits);
		}
		if (len > CRDT_MAX_ELEMENT)
			return true;
	}
	return false;
}

/*
 * print_value prints a jsonb, in the context `before`; the current one is a scratch context.
 */
static bool
print_value(Jsonb *jsonb, CrdtString *value, MemoryContext before)
{
	char *text;
	size_t len;

	if (prints_long(jsonb))
		return false;
	text = JsonbToCString(NULL, &jsonb->root, VARSIZE(jsonb));
	len = strlen(text);
	if (len > CRDT_MAX_ELEMENT)
		return false;
	*value = (CrdtString){memcpy(MemoryContextAlloc(before, len), text, len), len};
	return true;
}

/*
 * crdt_json_value gets a jsonb as a register stores it: what jsonb prints. False if that
 * is too long.
 */
bool
crdt_json_value(Datum jsonb, CrdtString *value)
{
	MemoryContext before;
	MemoryContext scratch = begin_scratch(&before);
	bool fits = print_value(DatumGetJsonbP(jsonb), value, before);

	end_scratch(scratch, before);
	return fits;
}

/*
 * crdt_json_value_of does so with a part of a jsonb.
 */
bool
crdt_json_value_of(JsonbValue *json, CrdtString *value)
{
	MemoryContext before;
	MemoryContext scratch = begin_scratch(&before);
	bool fits = print_value(JsonbValueToJsonb(json), value, before);

	end_scratch(scratch, before);
	return fits;
}
