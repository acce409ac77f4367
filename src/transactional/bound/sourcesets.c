/*
 * sourcesets.c
 *		The grouping sets of a binding: which elements of the key make keys of their own.
 *
 * Copyright (c) 2026, the dcounter developers
 *
 * dc_bind() takes what GROUP BY takes, and has the server's own parser analyse SELECT key FROM
 * source GROUP BY group_by. What it is expanded to is stored behind the expressions of the key, as
 * GROUP BY GROUPING SETS ((1, 2), (1), ()): with numbers, which no other command renames. A set is
 * a mask here, the bit 0 for the first element, in a constant: the expressions of a binding are one
 * tree of nodes.
 */
#include "postgres.h"

#include "catalog/pg_type.h"
#include "nodes/makefuncs.h"
#include "nodes/nodeFuncs.h"
#include "nodes/value.h"
#include "parser/analyze.h"
#include "parser/parse_agg.h"
#include "parser/parsetree.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"

#include "transactional/bound/sourceexpr.h"
#include "transactional/bound/sourcesets.h"

/* More sets are expanded before those that are the same are left out. */
#define MAX_EXPANDED 4096

static List *analysed_sets(const Query *query, int nkeys);
static int sourcesets_element(const Query *query, Index ref, int nkeys);
static Const *sourcesets_const(uint32 mask);
static uint32 stored_set(Node *node, int nkeys);
static uint32 stored_element(Node *node, int nkeys);

/*
 * source_sets_analyse returns the sets that a clause makes of the elements of a key. Errors: those
 * of the parser, 42803 for anything that is not an element of the key, 54000 for too many.
 */
List *
source_sets_analyse(List *key, List *group, bool distinct, Relation source)
{
	SelectStmt *select = makeNode(SelectStmt);
	RawStmt *raw = makeNode(RawStmt);
	ParseState *pstate = make_parsestate(NULL);
	List *sets;

	if (list_length(key) > SOURCE_MAX_ELEMENTS)
		ereport(ERROR,
				(errcode(ERRCODE_PROGRAM_LIMIT_EXCEEDED),
				 errmsg("key has more than %d elements", SOURCE_MAX_ELEMENTS)));
	select->targetList = copyObject(key);
	select->fromClause = list_make1(makeRangeVar(get_namespace_name(RelationGetNamespace(source)),
												 pstrdup(RelationGetRelationName(source)), -1));
	select->groupClause = copyObject(group);
	select->groupDistinct = distinct;
	raw->stmt = (Node *) select;
	pstate->p_sourcetext = "";
	sets = analysed_sets(transformTopLevelStmt(pstate, raw), list_length(key));
	free_parsestate(pstate);
	if (list_length(sets) > SOURCE_MAX_SETS)
		ereport(ERROR,
				(errcode(ERRCODE_PROGRAM_LIMIT_EXCEEDED),
				 errmsg("group_by makes more than %d grouping sets", SOURCE_MAX_SETS)));
	return sets;
}

/*
 * Return the grouping sets of an analysed query, without duplicates. 54000 if there are too many.
 */
static List *
analysed_sets(const Query *query, int nkeys)
{
	List *sets = NIL;
	uint32 all = 0;
	ListCell *lc;

	foreach(lc, query->groupClause)
		all |= 1U << sourcesets_element(query, lfirst_node(SortGroupClause, lc)->tleSortGroupRef, nkeys);
	if (query->groupingSets == NIL)
		return list_make1(sourcesets_const(all));
	foreach(lc, expand_grouping_sets(query->groupingSets, true, MAX_EXPANDED))
	{
		uint32 mask = 0;
		ListCell *lc2;

		foreach(lc2, (List *) lfirst(lc))
			mask |= 1U << sourcesets_element(query, lfirst_int(lc2), nkeys);
		sets = list_append_unique(sets, sourcesets_const(mask));
	}
	if (sets == NIL)
		ereport(ERROR,
				(errcode(ERRCODE_PROGRAM_LIMIT_EXCEEDED),
				 errmsg("group_by makes more than %d grouping sets", SOURCE_MAX_SETS)));
	return sets;
}

/*
 * sourcesets_element returns which element of the key an expression of the clause is, from 0.
 */
static int
sourcesets_element(const Query *query, Index ref, int nkeys)
{
	ListCell *lc;

	foreach(lc, query->targetList)
	{
		const TargetEntry *target = lfirst_node(TargetEntry, lc);

		if (target->ressortgroupref == ref && !target->resjunk && target->resno <= nkeys)
			return target->resno - 1;
	}
	ereport(ERROR,
			(errcode(ERRCODE_GROUPING_ERROR),
			 errmsg("group_by must name elements of key"),
			 errhint("A name that is also a column of the source means the column. Use the element's number.")));
}

/*
 * Make a node of the mask of a set.
 */
static Const *
sourcesets_const(uint32 mask)
{
	return makeConst(INT4OID, -1, InvalidOid, sizeof(int32), Int32GetDatum((int32) mask), false, true);
}

/*
 * source_sets_read returns the sets that are stored behind a key. Raises an error for another
 * clause than what source_sets_append() writes.
 */
List *
source_sets_read(List *group, int nkeys)
{
	const GroupingSet *all = group != NIL ? linitial(group) : NULL;
	List *sets = NIL;
	ListCell *lc;

	if (group == NIL)
		return NIL;
	if (list_length(group) != 1 || !IsA(all, GroupingSet) || all->kind != GROUPING_SET_SETS || list_length(all->content) > SOURCE_MAX_SETS ||
		nkeys > SOURCE_MAX_ELEMENTS)
		elog(ERROR, "the grouping sets of a binding are not such as dc_bind() has written");
	foreach(lc, all->content)
		sets = lappend(sets, sourcesets_const(stored_set(lfirst(lc), nkeys)));
	return sets;
}

/*
 * Return the mask of a set that is stored: an element, several, or none.
 */
static uint32
stored_set(Node *node, int nkeys)
{
	uint32 mask = 0;
	ListCell *lc;

	if (IsA(node, GroupingSet) && ((GroupingSet *) node)->kind == GROUPING_SET_EMPTY)
		return 0;
	if (!IsA(node, RowExpr))
		return stored_element(node, nkeys);
	foreach(lc, ((RowExpr *) node)->args)
		mask |= stored_element(lfirst(lc), nkeys);
	return mask;
}

/*
 * Return the mask of an element that is stored, by its number.
 */
static uint32
stored_element(Node *node, int nkeys)
{
	const A_Const *number = (const A_Const *) node;

	if (!IsA(node, A_Const) || number->isnull || !IsA(&number->val, Integer) || intVal(&number->val) < 1 || intVal(&number->val) > nkeys)
		elog(ERROR, "the grouping sets of a binding are not such as dc_bind() has written");
	return 1U << (intVal(&number->val) - 1);
}

/*
 * source_sets_append appends the clause that is stored.
 */
void
source_sets_append(StringInfo key, List *sets)
{
	ListCell *lc;

	if (sets == NIL)
		return;
	appendStringInfoString(key, " GROUP BY GROUPING SETS (");
	foreach(lc, sets)
	{
		uint32 mask = source_set_mask(lfirst(lc));
		bool any = false;

		appendStringInfoString(key, foreach_current_index(lc) > 0 ? ", (" : "(");
		for (int i = 0; i < SOURCE_MAX_ELEMENTS; i++)
		{
			if ((mask & (1U << i)) == 0)
				continue;
			appendStringInfo(key, "%s%d", any ? ", " : "", i + 1);
			any = true;
		}
		appendStringInfoChar(key, ')');
	}
	appendStringInfoChar(key, ')');
}

/*
 * source_set_mask returns the elements of a set.
 */
uint32
source_set_mask(const Const *set)
{
	return (uint32) DatumGetInt32(set->constvalue);
}
