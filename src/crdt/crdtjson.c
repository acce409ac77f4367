/*
 * crdtjson.c
 *		The text forms of mergeable types, which are JSON (doc/crdt.md), and the JSON
 *		values of registers. crdtparse.c reads what is written here.
 */
#include "postgres.h"

#include "crdt/crdttype.h"

#include "crdt/amounts.h"
#include "crdt/dots.h"
#include "crdt/gset.h"
#include "crdt/stamp.h"
#include "lib/stringinfo.h"
#include "miscadmin.h"
#include "utils/builtins.h"
#include "utils/json.h"
#include "utils/jsonb.h"

static void
put_text(StringInfo out, CrdtString string)
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

static void
put_key(StringInfo out, CrdtString key, bool *first)
{
	put_comma(out, first);
	put_text(out, key);
	appendStringInfoString(out, ": ");
}

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
		put_text(out, element);
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

static void
put_stamp(StringInfo out, const Stamp *stamp)
{
	appendStringInfo(out, "\"time\": " INT64_FORMAT ", \"node\": ", stamp->time);
	put_text(out, stamp->node);
	appendStringInfoChar(out, '}');
}

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
	put_stamp(out, &lww.stamp);
}

static void
put_hlc(StringInfo out, CrdtBytes state)
{
	Stamp stamp = hlc_decode(state);

	appendStringInfoChar(out, '{');
	put_stamp(out, &stamp);
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

/*
 * crdt_jsonb_of makes a jsonb of its text.
 */
Datum
crdt_jsonb_of(CrdtString value)
{
	return DirectFunctionCall1(jsonb_in, CStringGetDatum(pnstrdup(value.data, value.len)));
}

/*
 * crdt_json_value is a jsonb as a register stores it: what jsonb prints.
 */
CrdtString
crdt_json_value(Datum jsonb)
{
	char *text = JsonbToCString(NULL, &DatumGetJsonbP(jsonb)->root, VARSIZE_ANY_EXHDR(DatumGetPointer(jsonb)));

	return (CrdtString){text, strlen(text)};
}
