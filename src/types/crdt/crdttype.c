/*
 * crdttype.c
 *		Mergeable types as the server sees them: values, input and output, and the
 *		functions that all of them have.
 *
 * Copyright (c) 2026, the dcounter developers
 *
 * A value is a varlena whose bytes are the state. Its first byte tells the type, so
 * most functions here serve all types; SQL declares them for each.
 *
 * Two states are equal if their bytes are. One is before the other or equal to it if
 * merging them gives the other, which is the order of the lattice. It is a partial one,
 * so there is a hash class but no B-tree class; dc_hlc, whose order is total, has both.
 */
#include "postgres.h"

#include "base/args.h"
#include "base/compat.h"
#include "types/crdt/crdttype.h"

#include "common/hashfn.h"
#include "libpq/pqformat.h"
#include "mb/pg_wchar.h"
#include "miscadmin.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"

#include "types/crdt/stamp.h"

PG_FUNCTION_INFO_V1(crdt_out);
PG_FUNCTION_INFO_V1(crdt_send);
PG_FUNCTION_INFO_V1(crdt_to_jsonb);
PG_FUNCTION_INFO_V1(crdt_eq);
PG_FUNCTION_INFO_V1(crdt_ne);
PG_FUNCTION_INFO_V1(crdt_le);
PG_FUNCTION_INFO_V1(crdt_lt);
PG_FUNCTION_INFO_V1(crdt_ge);
PG_FUNCTION_INFO_V1(crdt_gt);
PG_FUNCTION_INFO_V1(crdt_concurrent);
PG_FUNCTION_INFO_V1(crdt_hash);
PG_FUNCTION_INFO_V1(crdt_hash_extended);
PG_FUNCTION_INFO_V1(hlc_cmp);
PG_FUNCTION_INFO_V1(hlc_lt);
PG_FUNCTION_INFO_V1(hlc_le);
PG_FUNCTION_INFO_V1(hlc_ge);
PG_FUNCTION_INFO_V1(hlc_gt);
PG_FUNCTION_INFO_V1(dc_merge);
PG_FUNCTION_INFO_V1(dc_delta);

static Datum type_in(FunctionCallInfo fcinfo, const CrdtType *type);
static Datum type_recv(FunctionCallInfo fcinfo, const CrdtType *type);
static CrdtString crdt_text_arg(FunctionCallInfo fcinfo, int argno);
static bool crdt_valid(CrdtString string, CrdtStringKind kind);

/*
 * Define a type's input functions.
 */
#define CRDT_INPUT(type, in, recv) \
	PG_FUNCTION_INFO_V1(in); \
	PG_FUNCTION_INFO_V1(recv); \
	Datum in(PG_FUNCTION_ARGS) \
	{ \
		return type_in(fcinfo, &(type)); \
	} \
	Datum recv(PG_FUNCTION_ARGS) \
	{ \
		return type_recv(fcinfo, &(type)); \
	} \
	extern int crdt_input_end

CRDT_INPUT(crdt_gcounter, gcounter_in, gcounter_recv);
CRDT_INPUT(crdt_pncounter, pncounter_in, pncounter_recv);
CRDT_INPUT(crdt_gset, gset_in, gset_recv);
CRDT_INPUT(crdt_orset, orset_in, orset_recv);
CRDT_INPUT(crdt_lww, lww_in, lww_recv);
CRDT_INPUT(crdt_mvreg, mvreg_in, mvreg_recv);
CRDT_INPUT(crdt_hlc, hlc_in, hlc_recv);
CRDT_INPUT(crdt_vclock, vclock_in, vclock_recv);

typedef struct TypeEntry
{
	const CrdtType *type;
	PGFunction in;
} TypeEntry;

/* In order of CrdtKind. */
static const TypeEntry types[] = {
	{&crdt_gcounter, gcounter_in},
	{&crdt_pncounter, pncounter_in},
	{&crdt_gset, gset_in},
	{&crdt_orset, orset_in},
	{&crdt_lww, lww_in},
	{&crdt_mvreg, mvreg_in},
	{&crdt_hlc, hlc_in},
	{&crdt_vclock, vclock_in},
};

/*
 * crdt_type_of returns the mergeable type with that OID, or the domain's base type; NULL if it is
 * not mergeable. A type is recognized by its input function, which only a superuser can give to
 * another type.
 */
const CrdtType *
crdt_type_of(Oid type)
{
	Oid base = getBaseType(type);
	FmgrInfo in;
	Oid input;
	Oid param;

	if (!OidIsValid(base) || get_typtype(base) != TYPTYPE_BASE || get_typlen(base) != -1)
		return NULL;
	getTypeInputInfo(base, &input, &param);
	fmgr_info(input, &in);
	for (int i = 0; i < lengthof(types); i++)
	{
		if (types[i].in == in.fn_addr)
			return types[i].type;
	}
	return NULL;
}

/*
 * Return the type of a stored value by its header byte; XX001 if that is not known.
 */
const CrdtType *
crdt_type_of_value(CrdtBytes state)
{
	int kind = state.len == 0 ? 0 : state.data[0] >> 4;

	if (kind < CRDT_GCOUNTER || kind > CRDT_VCLOCK || state.data[0] != CRDT_HEADER(kind))
		ereport(ERROR,
				(errcode(ERRCODE_DATA_CORRUPTED),
				 errmsg("stored value of a mergeable type is corrupted")));
	return types[kind - 1].type;
}

/*
 * Return the state in a varlena that is not compressed or stored elsewhere.
 */
static inline CrdtBytes
state_in(bytea *flat)
{
	return (CrdtBytes){(const uint8_t *) VARDATA_ANY(flat), VARSIZE_ANY_EXHDR(flat)};
}

/*
 * crdt_bytes_of is a value's state. It may be in memory of the current context.
 */
CrdtBytes
crdt_bytes_of(Datum value)
{
	return state_in(DatumGetByteaPP(value));
}

/*
 * crdt_too_large reports that a value would have too many bytes.
 */
void
crdt_too_large(const CrdtType *type, size_t len)
{
	ereport(ERROR,
			(errcode(ERRCODE_PROGRAM_LIMIT_EXCEEDED),
			 errmsg("a value of type %s would be too large", type->name),
			 errdetail("It would have %zu bytes; the limit is %d.", len, CRDT_MAX_SIZE)));
}

/*
 * crdt_datum creates a value from a state that was written, and frees the state.
 */
Datum
crdt_datum(CrdtBuf *buf)
{
	bytea *value;

	if (buf->len > CRDT_MAX_SIZE)
		crdt_too_large(crdt_type_of_value(crdt_bytes(buf)), buf->len);
	value = palloc(VARHDRSZ + buf->len);
	SET_VARSIZE(value, VARHDRSZ + buf->len);
	memcpy(VARDATA(value), buf->data, buf->len);
	crdt_buf_free(buf);
	return PointerGetDatum(value);
}

/*
 * crdt_text_arg is a text argument's bytes.
 */
static CrdtString
crdt_text_arg(FunctionCallInfo fcinfo, int argno)
{
	text *value = PG_GETARG_TEXT_PP(argno);

	return (CrdtString){VARDATA_ANY(value), VARSIZE_ANY_EXHDR(value)};
}

/*
 * Return a text argument as a node's name; 22023 if it cannot be one.
 */
CrdtString
crdt_node_arg(FunctionCallInfo fcinfo, int argno)
{
	CrdtString node = crdt_text_arg(fcinfo, argno);
	const char *wrong = crdt_node_wrong(node);

	if (wrong != NULL)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("invalid node name"),
				 errdetail_internal("%s", wrong)));
	return node;
}

/*
 * Return a text argument as an element of a set. It is an error if it has more than
 * CRDT_MAX_ELEMENT bytes.
 */
CrdtString
crdt_element_arg(FunctionCallInfo fcinfo, int argno)
{
	CrdtString element = crdt_text_arg(fcinfo, argno);

	check_length("element", element.len, 0, CRDT_MAX_ELEMENT);
	return element;
}

/*
 * Return a string as a new text datum.
 */
Datum
crdt_string_datum(CrdtString string)
{
	return PointerGetDatum(cstring_to_text_with_len(string.data, (int) string.len));
}

/*
 * Return true if a state from outside may contain a string: it must be valid text of this database,
 * or output of jsonb.
 */
static bool
crdt_valid(CrdtString string, CrdtStringKind kind)
{
	Datum jsonb;
	CrdtString again;
	bool is_same = false;

	CHECK_FOR_INTERRUPTS();
	if (!pg_verifymbstr(string.data, (int) string.len, true))
		return false;
	if (kind != CRDT_STRING_JSON)
		return true;
	jsonb = crdt_jsonb_of(string);
	if (crdt_json_value(jsonb, &again))
	{
		is_same = crdt_compare(again, string) == 0;
		pfree(unconstify(char *, again.data));
	}
	pfree(DatumGetPointer(jsonb));
	return is_same;
}

/* Input and output. */

/*
 * Read a value of a type from its text form, for the input functions. Return NULL after a soft
 * error.
 */
static Datum
type_in(FunctionCallInfo fcinfo, const CrdtType *type)
{
	CrdtBuf buf = {NULL, 0, 0};

	if (!crdt_from_json(&buf, type, PG_GETARG_CSTRING(0), fcinfo->context))
		PG_RETURN_NULL(); /* a soft error */
	return crdt_datum(&buf);
}

/*
 * Read a value of a type from its binary form, for the receive functions. The bytes are not
 * trusted: 22P03 if they are no state of this type.
 */
static Datum
type_recv(FunctionCallInfo fcinfo, const CrdtType *type)
{
	StringInfo message = (StringInfo) PG_GETARG_POINTER(0);
	int len = message->len - message->cursor;
	CrdtBytes state = {(const uint8_t *) pq_getmsgbytes(message, len), len};
	const char *wrong = crdt_check(type, state, crdt_valid);
	bytea *value;

	if (wrong != NULL)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_BINARY_REPRESENTATION),
				 errmsg("invalid value for type %s", type->name),
				 errdetail_internal("%s", wrong)));
	value = palloc(VARHDRSZ + len);
	SET_VARSIZE(value, VARHDRSZ + len);
	memcpy(VARDATA(value), state.data, len);
	PG_RETURN_BYTEA_P(value);
}

/*
 * crdt_out(value): Return the text form, which is JSON.
 */
Datum
crdt_out(PG_FUNCTION_ARGS)
{
	PG_RETURN_CSTRING(crdt_to_json(CRDT_ARG(0)));
}

/* A copy, since its caller may free the result. */
Datum
crdt_send(PG_FUNCTION_ARGS)
{
	PG_RETURN_BYTEA_P(PG_GETARG_BYTEA_P_COPY(0));
}

/*
 * crdt_to_jsonb(value): Return the text form as jsonb, for the casts.
 */
Datum
crdt_to_jsonb(PG_FUNCTION_ARGS)
{
	char *text = crdt_to_json(CRDT_ARG(0));

	return crdt_jsonb_of((CrdtString){text, strlen(text)});
}

/* Comparison. */

/*
 * merged_bytes gives the merge of two states of one type, in the current context.
 */
static CrdtBytes
merged_bytes(CrdtBytes a, CrdtBytes b)
{
	CrdtBuf buf = {NULL, 0, 0};

	crdt_type_of_value(a)->merge(&buf, a, b);
	return crdt_bytes(&buf);
}

/*
 * Return true if state a is before b in the lattice, or equal to it with or_equal.
 */
static bool
is_before(CrdtBytes a, CrdtBytes b, bool or_equal)
{
	if (crdt_same(a, b))
		return or_equal;
	return crdt_same(merged_bytes(a, b), b);
}

/*
 * Functions that indexes call free their copies of values that were compressed or stored out of
 * line, because otherwise these would not be freed until the index is created.
 */
static bool
are_same(FunctionCallInfo fcinfo)
{
	bytea *a = PG_GETARG_BYTEA_PP(0);
	bytea *b = PG_GETARG_BYTEA_PP(1);
	bool same = crdt_same(state_in(a), state_in(b));

	PG_FREE_IF_COPY(a, 0);
	PG_FREE_IF_COPY(b, 1);
	return same;
}

/*
 * a = b: Return true if both states have the same bytes.
 */
Datum
crdt_eq(PG_FUNCTION_ARGS)
{
	PG_RETURN_BOOL(are_same(fcinfo));
}

/*
 * a <> b: Return true if the states differ.
 */
Datum
crdt_ne(PG_FUNCTION_ARGS)
{
	PG_RETURN_BOOL(!are_same(fcinfo));
}

/*
 * a <= b: Return true if b has seen all that a has.
 */
Datum
crdt_le(PG_FUNCTION_ARGS)
{
	PG_RETURN_BOOL(is_before(CRDT_ARG(0), CRDT_ARG(1), true));
}

/*
 * a < b: Return true if b has seen all that a has, and more.
 */
Datum
crdt_lt(PG_FUNCTION_ARGS)
{
	PG_RETURN_BOOL(is_before(CRDT_ARG(0), CRDT_ARG(1), false));
}

/*
 * a >= b: Return true if a has seen all that b has.
 */
Datum
crdt_ge(PG_FUNCTION_ARGS)
{
	PG_RETURN_BOOL(is_before(CRDT_ARG(1), CRDT_ARG(0), true));
}

/*
 * a > b: Return true if a has seen all that b has, and more.
 */
Datum
crdt_gt(PG_FUNCTION_ARGS)
{
	PG_RETURN_BOOL(is_before(CRDT_ARG(1), CRDT_ARG(0), false));
}

/*
 * Each has something that the other has not seen.
 */
Datum
crdt_concurrent(PG_FUNCTION_ARGS)
{
	CrdtBytes a = CRDT_ARG(0);
	CrdtBytes b = CRDT_ARG(1);
	CrdtBytes merged = merged_bytes(a, b);

	PG_RETURN_BOOL(!crdt_same(merged, a) && !crdt_same(merged, b));
}

/*
 * crdt_hash(value): Return the hash of the state's bytes, for hash indexes and hash joins.
 */
Datum
crdt_hash(PG_FUNCTION_ARGS)
{
	bytea *flat = PG_GETARG_BYTEA_PP(0);
	Datum hash = hash_any((unsigned char *) VARDATA_ANY(flat), (int) VARSIZE_ANY_EXHDR(flat));

	PG_FREE_IF_COPY(flat, 0);
	return hash;
}

/*
 * crdt_hash_extended(value, seed): Return the 64-bit hash of the state's bytes.
 */
Datum
crdt_hash_extended(PG_FUNCTION_ARGS)
{
	bytea *flat = PG_GETARG_BYTEA_PP(0);
	Datum hash = hash_any_extended((unsigned char *) VARDATA_ANY(flat), (int) VARSIZE_ANY_EXHDR(flat), PG_GETARG_INT64(1));

	PG_FREE_IF_COPY(flat, 0);
	return hash;
}

/* Merging. */

/*
 * crdt_merge_datums merges two values of one type. Where one of them is the result, it
 * is that one itself.
 */
Datum
crdt_merge_datums(Datum a, Datum b)
{
	CrdtBytes state_a = crdt_bytes_of(a);
	CrdtBytes state_b = crdt_bytes_of(b);
	CrdtBuf buf = {NULL, 0, 0};

	if (crdt_same(state_a, state_b))
		return a;
	crdt_type_of_value(state_a)->merge(&buf, state_a, state_b);
	if (crdt_same(crdt_bytes(&buf), state_a))
	{
		crdt_buf_free(&buf);
		return a;
	}
	return crdt_datum(&buf);
}

/*
 * dc_merge(a, b): the least state that has what either has.
 */
Datum
dc_merge(PG_FUNCTION_ARGS)
{
	return crdt_merge_datums(PG_GETARG_DATUM(0), PG_GETARG_DATUM(1));
}

/*
 * dc_delta(after, before): what merged into `before` gives what merging `after` would.
 */
Datum
dc_delta(PG_FUNCTION_ARGS)
{
	CrdtBytes after = CRDT_ARG(0);
	CrdtBuf buf = {NULL, 0, 0};

	crdt_type_of_value(after)->delta(&buf, after, CRDT_ARG(1));
	return crdt_datum(&buf);
}

/* Stamps are in one order: by time, then by node. */

/*
 * Compare the two dc_hlc arguments. Free detoasted copies, since index builds call this.
 */
static int
compare_stamps(FunctionCallInfo fcinfo)
{
	bytea *flat_a = PG_GETARG_BYTEA_PP(0);
	bytea *flat_b = PG_GETARG_BYTEA_PP(1);
	Stamp a = hlc_decode(state_in(flat_a));
	Stamp b = hlc_decode(state_in(flat_b));
	int order = stamp_compare(&a, &b);

	PG_FREE_IF_COPY(flat_a, 0);
	PG_FREE_IF_COPY(flat_b, 1);
	return order;
}

/*
 * hlc_cmp(a, b): Return the order of two stamps, for B-tree indexes.
 */
Datum
hlc_cmp(PG_FUNCTION_ARGS)
{
	PG_RETURN_INT32(compare_stamps(fcinfo));
}

/*
 * a < b: Return true if stamp a is earlier than b.
 */
Datum
hlc_lt(PG_FUNCTION_ARGS)
{
	PG_RETURN_BOOL(compare_stamps(fcinfo) < 0);
}

/*
 * a <= b: Return true if stamp a is not later than b.
 */
Datum
hlc_le(PG_FUNCTION_ARGS)
{
	PG_RETURN_BOOL(compare_stamps(fcinfo) <= 0);
}

/*
 * a >= b: Return true if stamp a is not earlier than b.
 */
Datum
hlc_ge(PG_FUNCTION_ARGS)
{
	PG_RETURN_BOOL(compare_stamps(fcinfo) >= 0);
}

/*
 * a > b: Return true if stamp a is later than b.
 */
Datum
hlc_gt(PG_FUNCTION_ARGS)
{
	PG_RETURN_BOOL(compare_stamps(fcinfo) > 0);
}
