/*
 * mergetypes.c
 *		dcounter.merge_row(): what it has to know of types.
 *
 * Copyright (c) 2026, the dcounter developers
 *
 * Which of two states of a sketch that adds up is later: dc_cms and dc_topk have no union that may
 * be done twice, so each database writes to a row of its own, and others take the later state of
 * that row. Each addition makes the total weight greater. So the later state is that with the
 * greater total. Of two states with the same total, which one database does not make of each other
 * by additions, the greater bytes win: any order will do, if all databases have the same.
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "catalog/pg_type.h"
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

/*
 * Return true if a column is of a type whose values merge, and notes how. A
 * sketch is known as crdt_type_of() knows other types: by its input function.
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
 * Return true if a type has a send function, and so have all that it is made of: else
 * that of an array, a range or a row fails.
 */
bool
merge_has_send(Oid type)
{
	Oid base = getBaseType(type);
	HeapTuple tuple = SearchSysCache1(TYPEOID, ObjectIdGetDatum(base));
	bool has;

	if (!HeapTupleIsValid(tuple))
		elog(ERROR, "cache lookup failed for type %u", base);
	has = OidIsValid(((Form_pg_type) GETSTRUCT(tuple))->typsend);
	ReleaseSysCache(tuple);
	if (has && OidIsValid(get_element_type(base)))
		has = merge_has_send(get_element_type(base));
	if (has && OidIsValid(get_range_subtype(base)))
		has = merge_has_send(get_range_subtype(base));
	if (has && OidIsValid(get_multirange_range(base)))
		has = merge_has_send(get_multirange_range(base));
	if (has && type_is_rowtype(base) && base != RECORDOID)
	{
		TupleDesc desc = lookup_rowtype_tupdesc(base, -1);

		for (int i = 0; i < desc->natts && has; i++)
			has = TupleDescAttr(desc, i)->attisdropped || merge_has_send(TupleDescAttr(desc, i)->atttypid);
		ReleaseTupleDesc(desc);
	}
	return has;
}
