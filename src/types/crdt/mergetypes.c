/*
 * mergetypes.c
 *		dcounter.merge_row(): its knowledge of types.
 *
 * Copyright (c) 2026, the dcounter developers
 *
 * Which of two states of a sketch that adds up is later: dc_cms and dc_topk have no union that may
 * be done twice, so each database writes to its own row, and the other databases take the later
 * state of that row. Each addition makes the total weight greater. So the later state is that with
 * the greater total. Of two states with the same total, which one database does not make of each
 * other by additions, the greater bytes win: any order will do, if all databases have the same.
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "catalog/pg_type.h"
#include "miscadmin.h"
#include "utils/hsearch.h"
#include "utils/lsyscache.h"
#include "utils/syscache.h"
#include "utils/typcache.h"

#include "types/crdt/crdttype.h"
#include "types/crdt/mergerow.h"
#include "types/sketch/cms/dc_cms.h"
#include "types/sketch/topk/dc_topk.h"

extern Datum dc_hll_in(PG_FUNCTION_ARGS);
extern Datum dc_cms_in(PG_FUNCTION_ARGS);
extern Datum dc_topk_in(PG_FUNCTION_ARGS);

static bool has_send_itself(Oid type);
static void add_part_types(HTAB *known, List **types, Oid type);
static void add_part_type(HTAB *known, List **types, Oid type);

/*
 * Return true if a column is of a type whose values merge, and note how they merge. A sketch is
 * known as crdt_type_of() knows other types: by its input function.
 */
bool
merge_set_type(MergeColumn *column)
{
	Oid input;
	Oid param;
	FmgrInfo function;

	column->total = NULL;
	column->state = crdt_type_of(column->type);
	if (column->state != NULL)
		return true;
	getTypeInputInfo(getBaseType(column->type), &input, &param);
	fmgr_info(input, &function);
	if (function.fn_addr == dc_cms_in)
		column->total = dc_cms_total;
	else if (function.fn_addr == dc_topk_in)
		column->total = dc_topk_total;
	return column->total != NULL || function.fn_addr == dc_hll_in;
}

/*
 * Return true if a state of a sketch that adds up is later than another one.
 */
bool
merge_sketch_is_later(const MergeColumn *column, Datum a, Datum b)
{
	int64 a_total = column->total(a);
	int64 b_total = column->total(b);
	bytea *a_bytes;
	bytea *b_bytes;

	if (a_total != b_total)
		return a_total > b_total;
	a_bytes = DatumGetByteaPP(a);
	b_bytes = DatumGetByteaPP(b);
	return crdt_compare((CrdtString){VARDATA_ANY(a_bytes), VARSIZE_ANY_EXHDR(a_bytes)},
						(CrdtString){VARDATA_ANY(b_bytes), VARSIZE_ANY_EXHDR(b_bytes)}) > 0;
}

/*
 * Return true if a type has a send function, and so do all types that it consists of: otherwise
 * that of an array, a range or a row fails. The types are kept in a list, each once: a user may
 * have nested them deeper than the stack allows, and used each in several places of the next one.
 */
bool
merge_has_send(Oid type)
{
	HASHCTL ctl = {.keysize = sizeof(Oid), .entrysize = sizeof(Oid), .hcxt = CurrentMemoryContext};
	HTAB *known = hash_create("dcounter parts of a type", 16, &ctl, HASH_ELEM | HASH_BLOBS | HASH_CONTEXT);
	List *types = NIL;
	bool has = true;

	add_part_type(known, &types, type);
	for (int i = 0; has && i < list_length(types); i++)
	{
		CHECK_FOR_INTERRUPTS();
		has = has_send_itself(list_nth_oid(types, i));
		if (has)
			add_part_types(known, &types, list_nth_oid(types, i));
	}
	hash_destroy(known);
	list_free(types);
	return has;
}

/*
 * Return true if a type has a send function.
 */
static bool
has_send_itself(Oid type)
{
	HeapTuple tuple = SearchSysCache1(TYPEOID, ObjectIdGetDatum(type));
	bool has;

	if (!HeapTupleIsValid(tuple))
		elog(ERROR, "cache lookup failed for type %u", type);
	has = OidIsValid(((Form_pg_type) GETSTRUCT(tuple))->typsend);
	ReleaseSysCache(tuple);
	return has;
}

/*
 * add_part_types adds the types that a type is made of to a list.
 */
static void
add_part_types(HTAB *known, List **types, Oid type)
{
	TupleDesc desc;

	add_part_type(known, types, get_element_type(type));
	add_part_type(known, types, get_range_subtype(type));
	add_part_type(known, types, get_multirange_range(type));
	if (!type_is_rowtype(type) || type == RECORDOID)
		return;
	desc = lookup_rowtype_tupdesc(type, -1);
	for (int i = 0; i < desc->natts; i++)
	{
		if (!TupleDescAttr(desc, i)->attisdropped)
			add_part_type(known, types, TupleDescAttr(desc, i)->atttypid);
	}
	ReleaseTupleDesc(desc);
}

/*
 * add_part_type adds a type, of a domain the one below, unless it is invalid or already on the list.
 */
static void
add_part_type(HTAB *known, List **types, Oid type)
{
	Oid base;
	bool found;

	if (!OidIsValid(type))
		return;
	base = getBaseType(type);
	(void) hash_search(known, &base, HASH_ENTER, &found);
	if (!found)
		*types = lappend_oid(*types, base);
}
