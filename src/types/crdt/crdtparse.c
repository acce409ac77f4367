/*
 * crdtparse.c
 *		States of JSON: the input of mergeable types.
 *
 * Copyright (c) 2026, the dcounter developers
 *
 * The server reads the JSON; here its values become a state. What has no order in
 * JSON is put in order, and the result goes through the type's check like bytes from
 * outside, so a text form cannot make what a binary form could not.
 *
 * The functions return false after an error that was reported softly.
 */
#include "postgres.h"

#include "base/compat.h"
#include "types/crdt/crdttype.h"

#include "common/int.h"
#include "miscadmin.h"
#include "utils/builtins.h"
#include "utils/jsonb.h"
#include "utils/memutils.h"
#include "utils/numeric.h"

#include "types/crdt/amounts.h"
#include "types/crdt/dots.h"
#include "types/crdt/gset.h"
#include "types/crdt/stamp.h"

typedef struct Parser
{
	const CrdtType *type;
	CompatNode escontext;
	size_t value_bytes; /* of the values of a register so far */
} Parser;

/* Goes through a container's members; an array's have no keys. */
typedef struct Members
{
	JsonbIterator *iterator;
	JsonbIteratorToken end;
	CrdtString key;
	JsonbValue value;
} Members;

/*
 * Report 22P02 with a reason as the DETAIL. Return false if the error was reported softly.
 */
static bool
crdtparse_refuse(const Parser *parser, const char *why)
{
	compat_ereturn(parser->escontext, false,
				   (errcode(ERRCODE_INVALID_TEXT_REPRESENTATION),
					errmsg("invalid input syntax for type %s", parser->type->name),
					errdetail_internal("%s", why)));
}

/*
 * open_members begins to go through an object, or an array.
 */
static void
open_members(Members *members, JsonbContainer *container)
{
	JsonbValue ignored;

	members->iterator = JsonbIteratorInit(container);
	members->end = JsonContainerIsObject(container) ? WJB_END_OBJECT : WJB_END_ARRAY;
	members->key = (CrdtString){NULL, 0};
	(void) JsonbIteratorNext(&members->iterator, &ignored, false);
}

/*
 * Read the next member into members->key and members->value; return false after the last.
 */
static bool
next_member(Members *members)
{
	JsonbIteratorToken token = JsonbIteratorNext(&members->iterator, &members->value, true);

	CHECK_FOR_INTERRUPTS();
	if (token == members->end)
		return false;
	if (token == WJB_KEY)
	{
		members->key = (CrdtString){members->value.val.string.val, members->value.val.string.len};
		(void) JsonbIteratorNext(&members->iterator, &members->value, true);
	}
	return true;
}

/*
 * Return true if a value is an object.
 */
static bool
crdtparse_is_object(const JsonbValue *value)
{
	return value->type == jbvBinary && JsonContainerIsObject(value->val.binary.data);
}

/*
 * Return true if a value is an array.
 */
static bool
is_array(const JsonbValue *value)
{
	return value->type == jbvBinary && JsonContainerIsArray(value->val.binary.data);
}

/*
 * Return true if a key is this name. The key need not end with a zero byte.
 */
static bool
key_is(CrdtString key, const char *name)
{
	return key.len == strlen(name) && memcmp(key.data, name, key.len) == 0;
}

/*
 * crdtparse_get_number gets a whole number from 0 to the greatest bigint.
 */
static bool
crdtparse_get_number(const JsonbValue *value, int64 *number)
{
	char *digits;
	const char *next;
	bool fits = true;

	if (value->type != jbvNumeric)
		return false;
	digits = DatumGetCString(DirectFunctionCall1(numeric_out, NumericGetDatum(value->val.numeric)));
	*number = 0;
	for (next = digits; fits && *next >= '0' && *next <= '9'; next++)
		fits = !pg_mul_s64_overflow(*number, 10, number) && !pg_add_s64_overflow(*number, *next - '0', number);
	fits = fits && *next == '\0';
	pfree(digits);
	return fits;
}

/*
 * read_json reads a register's value. The printed value may be far longer than its input, so values
 * that do not fit into a state are refused at once.
 */
static bool
read_json(Parser *parser, JsonbValue *value, CrdtString *text)
{
	if (!crdt_json_value_of(value, text))
		return crdtparse_refuse(parser, "The text of a register's value must not be larger than 1 MB.");
	parser->value_bytes += text->len;
	if (parser->value_bytes > CRDT_MAX_SIZE)
		return crdtparse_refuse(parser, "A value must not be larger than 10 MB.");
	return true;
}

/*
 * array_for allocates an array of n members of this size; n comes from a jsonb that is in
 * memory, so the result is in proportion to that.
 */
static void *
array_for(size_t n, size_t size)
{
	return MemoryContextAllocHuge(CurrentMemoryContext, Max(n, 1) * size);
}

/*
 * crdtparse_compare is crdt_compare() for sorting: there are orders of many strings for which
 * sorting with that takes very long.
 */
static int
crdtparse_compare(CrdtString a, CrdtString b)
{
	CHECK_FOR_INTERRUPTS();
	return crdt_compare(a, b);
}

/* Counters and vector clocks */

/*
 * Read a node's amounts: {"inc": ..., "dec": ..., "inc_reset": ..., "dec_reset": ...}. The caller
 * has set them to zero; missing ones stay zero.
 */
static bool
read_pncounter_entry(const Parser *parser, const JsonbValue *value, AmountsEntry *entry)
{
	static const char *const names[] = {"inc", "dec", "inc_reset", "dec_reset"};
	Members members;

	if (!crdtparse_is_object(value))
		return crdtparse_refuse(parser, "The amounts of a node must be an object.");
	open_members(&members, value->val.binary.data);
	while (next_member(&members))
	{
		int field = 0;

		while (field < AMOUNTS_FIELDS && !key_is(members.key, names[field]))
			field++;
		if (field == AMOUNTS_FIELDS)
			return crdtparse_refuse(parser, "The amounts of a node must be inc, dec, inc_reset and dec_reset.");
		if (!crdtparse_get_number(&members.value, &entry->amounts[field]))
			return crdtparse_refuse(parser, "An amount must be an integer between 0 and 9223372036854775807.");
	}
	return true;
}

/*
 * Compare two AmountsEntry by their nodes, for qsort().
 */
static int
by_node(const void *a, const void *b)
{
	CHECK_FOR_INTERRUPTS(); /* of a long qsort() */
	return crdtparse_compare(((const AmountsEntry *) a)->node, ((const AmountsEntry *) b)->node);
}

/*
 * Read a counter or vector clock, and write its state. The nodes may come in any order.
 */
static bool
crdtparse_read_amounts(CrdtBuf *out, const Parser *parser, JsonbContainer *root)
{
	Members members;
	AmountsEntry *entries;
	size_t n = 0;

	if (!JsonContainerIsObject(root))
		return crdtparse_refuse(parser, "A value must be an object with the names of nodes as keys.");
	entries = array_for(JsonContainerSize(root), sizeof(AmountsEntry));
	open_members(&members, root);
	while (next_member(&members))
	{
		AmountsEntry entry = {members.key, {0}};

		if (parser->type->kind == CRDT_PNCOUNTER)
		{
			if (!read_pncounter_entry(parser, &members.value, &entry))
				return false;
		}
		else if (!crdtparse_get_number(&members.value, &entry.amounts[AMOUNT_INC]))
			return crdtparse_refuse(parser, "An amount must be an integer between 0 and 9223372036854775807.");
		entries[n++] = entry;
	}
	qsort(entries, n, sizeof(AmountsEntry), by_node);
	amounts_encode(out, parser->type->kind, entries, n);
	pfree(entries);
	return true;
}

/* Grow-only sets */

/*
 * Compare two strings by their bytes, for qsort().
 */
static int
by_bytes(const void *a, const void *b)
{
	CHECK_FOR_INTERRUPTS(); /* of a long qsort() */
	return crdtparse_compare(*(const CrdtString *) a, *(const CrdtString *) b);
}

/*
 * Read an array of strings, in any order and with duplicates, and write a dc_gset.
 */
static bool
read_gset(CrdtBuf *out, const Parser *parser, JsonbContainer *root)
{
	Members members;
	CrdtString *elements;
	size_t n = 0;
	size_t kept = 0;

	if (!JsonContainerIsArray(root) || JsonContainerIsScalar(root))
		return crdtparse_refuse(parser, "A value must be an array of strings.");
	elements = array_for(JsonContainerSize(root), sizeof(CrdtString));
	open_members(&members, root);
	while (next_member(&members))
	{
		if (members.value.type != jbvString)
			return crdtparse_refuse(parser, "A value must be an array of strings.");
		elements[n++] = (CrdtString){members.value.val.string.val, members.value.val.string.len};
	}
	qsort(elements, n, sizeof(CrdtString), by_bytes);
	for (size_t i = 0; i < n; i++)
	{
		if (i == 0 || crdt_compare(elements[kept - 1], elements[i]) != 0)
			elements[kept++] = elements[i];
	}
	gset_encode(out, elements, kept);
	pfree(elements);
	return true;
}

/* Elements with dots */

/*
 * Read a range of dots: [first, last]. `last` is the end of the previous range, 0 if there is none;
 * ranges that overlap or touch are refused.
 */
static bool
read_range(const Parser *parser, const JsonbValue *value, int64 last, DotsRange *range)
{
	Members members;
	int64 ends[2];
	int n = 0;

	if (!is_array(value) || JsonContainerSize(value->val.binary.data) != 2)
		return crdtparse_refuse(parser, "A range of dots must be an array of two numbers.");
	open_members(&members, value->val.binary.data);
	while (next_member(&members))
	{
		if (!crdtparse_get_number(&members.value, &ends[n++]))
			return crdtparse_refuse(parser, "A range of dots must be an array of two numbers.");
	}
	*range = (DotsRange){ends[0], ends[1]};
	if (range->first < 1 || range->first > range->last ||
		(last > 0 && range->first - 1 <= last))
		return crdtparse_refuse(parser, "Ranges of dots must be in order, with gaps between them.");
	return true;
}

/*
 * Read what was seen of a node: a number n for dots 1 to n, or an array of ranges.
 */
static bool
read_ranges(const Parser *parser, const JsonbValue *value, DotsNode *node)
{
	Members members;
	int64 last = 0;

	node->n = 0;
	if (!is_array(value))
	{
		node->ranges = array_for(1, sizeof(DotsRange));
		node->ranges[node->n++].first = 1;
		if (!crdtparse_get_number(value, &node->ranges[0].last) || node->ranges[0].last < 1)
			return crdtparse_refuse(parser, "What was seen of a node must be a number or an array of ranges.");
		return true;
	}
	node->ranges = array_for(JsonContainerSize(value->val.binary.data), sizeof(DotsRange));
	open_members(&members, value->val.binary.data);
	while (next_member(&members))
	{
		if (!read_range(parser, &members.value, last, &node->ranges[node->n]))
			return false;
		last = node->ranges[node->n++].last;
	}
	return true;
}

/*
 * Compare two DotsNode by their names, for qsort() and bsearch().
 */
static int
by_name(const void *a, const void *b)
{
	CHECK_FOR_INTERRUPTS(); /* of a long qsort() */
	return crdtparse_compare(((const DotsNode *) a)->node, ((const DotsNode *) b)->node);
}

/*
 * Read a context from the object "seen", and put its nodes in order.
 */
static bool
read_seen(const Parser *parser, const JsonbValue *seen, DotsContext *context)
{
	Members members;

	context->n = 0;
	context->nodes = array_for(JsonContainerSize(seen->val.binary.data), sizeof(DotsNode));
	open_members(&members, seen->val.binary.data);
	while (next_member(&members))
	{
		DotsNode *node = &context->nodes[context->n++];

		node->node = members.key;
		if (!read_ranges(parser, &members.value, node))
			return false;
	}
	qsort(context->nodes, context->n, sizeof(DotsNode), by_name);
	return true;
}

/*
 * add_counters adds a node's dots to an element; their numbers are in an array.
 */
static bool
add_counters(const Parser *parser, DotsElement *element, size_t node, const JsonbValue *counters)
{
	Members members;

	if (!is_array(counters))
		return crdtparse_refuse(parser, "The dots of a node must be an array of numbers.");
	element->size += JsonContainerSize(counters->val.binary.data);
	element->dots = element->dots == NULL ? array_for(element->size, sizeof(Dot))
										  : repalloc_huge(element->dots, Max(element->size, 1) * sizeof(Dot));
	open_members(&members, counters->val.binary.data);
	while (next_member(&members))
	{
		if (!crdtparse_get_number(&members.value, &element->dots[element->n].counter))
			return crdtparse_refuse(parser, "The dots of a node must be an array of numbers.");
		element->dots[element->n++].node = node;
	}
	return true;
}

/*
 * Compare two dots by node and counter, for qsort().
 */
static int
by_dot(const void *a, const void *b)
{
	CHECK_FOR_INTERRUPTS();
	return dots_order(a, b);
}

/*
 * Read an element's dots, {"node": [numbers], ...}, and put them in order. Nodes that are not in
 * the context are refused.
 */
static bool
read_dots(const Parser *parser, const DotsContext *context, const JsonbValue *dots, DotsElement *element)
{
	Members members;

	if (!crdtparse_is_object(dots))
		return crdtparse_refuse(parser, "The dots of an element must be an object with the names of nodes as keys.");
	open_members(&members, dots->val.binary.data);
	while (next_member(&members))
	{
		DotsNode wanted = {members.key, NULL, 0};
		DotsNode *node = bsearch(&wanted, context->nodes, context->n, sizeof(DotsNode), by_name);

		if (node == NULL)
			return crdtparse_refuse(parser, "A dot has not been seen.");
		if (!add_counters(parser, element, node - context->nodes, &members.value))
			return false;
	}
	if (element->n > 1)
		qsort(element->dots, element->n, sizeof(Dot), by_dot);
	return true;
}

/*
 * read_value reads a member of a multi-value register: {"value": ..., "dots": {...}}.
 */
static bool
read_value(Parser *parser, const DotsContext *context, const JsonbValue *value, DotsElement *element)
{
	Members members;
	bool have_value = false;
	bool have_dots = false;

	if (!crdtparse_is_object(value))
		return crdtparse_refuse(parser, "A member of \"values\" must be an object.");
	open_members(&members, value->val.binary.data);
	while (next_member(&members))
	{
		if (key_is(members.key, "value"))
		{
			if (!read_json(parser, &members.value, &element->element))
				return false;
			have_value = true;
		}
		else if (key_is(members.key, "dots"))
		{
			if (!read_dots(parser, context, &members.value, element))
				return false;
			have_dots = true;
		}
		else
			return crdtparse_refuse(parser, "A member of \"values\" must have \"value\" and \"dots\".");
	}
	if (!have_value || !have_dots)
		return crdtparse_refuse(parser, "A member of \"values\" must have \"value\" and \"dots\".");
	return true;
}

/*
 * Compare two DotsElement by their elements, for qsort().
 */
static int
by_element(const void *a, const void *b)
{
	CHECK_FOR_INTERRUPTS(); /* of a long qsort() */
	return crdtparse_compare(((const DotsElement *) a)->element, ((const DotsElement *) b)->element);
}

/*
 * read_elements reads the elements of a set, which are keys, or the values of a
 * register, and writes the state.
 */
static bool
read_elements(CrdtBuf *out, Parser *parser, const DotsContext *context, JsonbContainer *container)
{
	Members members;
	DotsWriter writer = {{NULL, 0, 0}, 0};
	DotsElement *elements = array_for(JsonContainerSize(container), sizeof(DotsElement));
	size_t n = 0;

	open_members(&members, container);
	while (next_member(&members))
	{
		DotsElement *element = &elements[n++];

		*element = (DotsElement){members.key, NULL, 0, 0};
		if (parser->type->kind == CRDT_MVREG)
		{
			if (!read_value(parser, context, &members.value, element))
				return false;
		}
		else if (!read_dots(parser, context, &members.value, element))
			return false;
		if (element->n == 0)
			return crdtparse_refuse(parser, "An element must have at least one dot.");
	}
	qsort(elements, n, sizeof(DotsElement), by_element);
	for (size_t i = 0; i < n; i++)
		dots_put(&writer, elements[i].element, elements[i].dots, elements[i].n);
	dots_finish(&writer, out, parser->type->kind, context);
	return true;
}

/*
 * Read a dc_orset or dc_mvreg, and write its state. Its two keys may come in either order.
 */
static bool
read_dotted(CrdtBuf *out, Parser *parser, JsonbContainer *root)
{
	bool is_register = parser->type->kind == CRDT_MVREG;
	const char *name = is_register ? "values" : "elements";
	JsonbValue elements = {jbvNull};
	JsonbValue seen = {jbvNull};
	Members members;
	DotsContext context;

	if (!JsonContainerIsObject(root))
		return crdtparse_refuse(parser, is_register ? "A value must be an object with \"values\" and \"seen\"." : "A value must be an object with \"elements\" and \"seen\".");
	open_members(&members, root);
	while (next_member(&members))
	{
		if (key_is(members.key, name))
			elements = members.value;
		else if (key_is(members.key, "seen"))
			seen = members.value;
		else
			return crdtparse_refuse(parser, "There is an unknown key.");
	}
	if (!crdtparse_is_object(&seen) || !(is_register ? is_array(&elements) : crdtparse_is_object(&elements)))
		return crdtparse_refuse(parser, is_register ? "\"values\" must be an array, and \"seen\" an object." : "\"elements\" and \"seen\" must be objects.");
	return read_seen(parser, &seen, &context) &&
		read_elements(out, parser, &context, elements.val.binary.data);
}

/* Stamps and registers that go by them */

/*
 * Read a dc_hlc or dc_lww, and write its state. {} is a register that was never written.
 */
static bool
read_stamped(CrdtBuf *out, Parser *parser, JsonbContainer *root)
{
	bool is_register = parser->type->kind == CRDT_LWW;
	bool have_time = false;
	Lww lww = {false, {0, {NULL, 0}}, {NULL, 0}};
	Members members;

	if (!JsonContainerIsObject(root))
		return crdtparse_refuse(parser, "A value must be an object.");
	open_members(&members, root);
	while (next_member(&members))
	{
		if (key_is(members.key, "time"))
		{
			have_time = true;
			if (!crdtparse_get_number(&members.value, &lww.stamp.time))
				return crdtparse_refuse(parser, "\"time\" must be an integer, in microseconds.");
		}
		else if (key_is(members.key, "node") && members.value.type == jbvString)
			lww.stamp.node = (CrdtString){members.value.val.string.val, members.value.val.string.len};
		else if (is_register && key_is(members.key, "value"))
		{
			if (!read_json(parser, &members.value, &lww.value))
				return false;
		}
		else
			return crdtparse_refuse(parser, "There is an unknown key, or a value of the wrong type.");
	}
	if (is_register && !have_time && lww.stamp.node.data == NULL && lww.value.data == NULL)
	{
		lww_empty(out);
		return true;
	}
	if (!have_time || lww.stamp.node.data == NULL || (is_register && lww.value.data == NULL))
		return crdtparse_refuse(parser, is_register ? "A value must have \"value\", \"time\" and \"node\", or nothing." : "A value must have \"time\" and \"node\".");
	lww.written = true;
	if (is_register)
		lww_encode(out, &lww);
	else
		hlc_encode(out, &lww.stamp);
	return true;
}

/*
 * Read a state of the parser's type, and write it. crdt_from_json() checks the result as a whole.
 */
static bool
read_state(CrdtBuf *out, Parser *parser, JsonbContainer *root)
{
	switch (parser->type->kind)
	{
		case CRDT_GCOUNTER:
		case CRDT_PNCOUNTER:
		case CRDT_VCLOCK:
			return crdtparse_read_amounts(out, parser, root);
		case CRDT_GSET:
			return read_gset(out, parser, root);
		case CRDT_ORSET:
		case CRDT_MVREG:
			return read_dotted(out, parser, root);
		case CRDT_LWW:
		case CRDT_HLC:
			return read_stamped(out, parser, root);
	}
	return false; /* not reached */
}

/*
 * crdt_from_json creates a state from a text form.
 */
bool
crdt_from_json(CrdtBuf *out, const CrdtType *type, const char *text, CompatNode escontext)
{
	Parser parser = {type, escontext, 0};
	Datum jsonb;
	const char *wrong;

	if (!crdt_jsonb_in(text, escontext, &jsonb))
		return false;
	if (!read_state(out, &parser, &DatumGetJsonbP(jsonb)->root))
		return false;
	wrong = crdt_check(type, crdt_bytes(out), NULL);
	return wrong == NULL || crdtparse_refuse(&parser, wrong);
}
