/*
 * shape.c
 *		Checking that a user's table still has the shape in which it was created.
 *
 * Copyright (c) 2026, the dcounter developers
 *
 * The tables that dcounter works on belong to users, and may be altered in any way at any time.
 * All code that touches their rows relies on what a DcShape says: which columns there are, of
 * which types and collations, which of them are never NULL, and that an index makes the key
 * unique. There is one check for the tables of all rooms, so that none checks less than the
 * others:
 *
 *	- The caller has a lock on the table, which keeps other sessions from altering
 *	  it. The caller's own session is not kept from that: code of an owner (a trigger, a
 *	  function in an index) may do so in between any two statements. An open
 *	  reference to the relation does keep it from that, as ALTER TABLE looks for these.
 *	- So code that reads tuples by number opens the relation first, and then makes sure
 *	  that the check is as new as the last relcache invalidation of the table. Each room
 *	  remembers the answer until then; asking for that costs next to nothing.
 *	- Numbers of columns and the index come from the check alone (DcTableLayout), and are not
 *	  looked up in any other way.
 *
 * Further columns are allowed, and so is a NOT NULL that was not there: SQL serves
 * these. Code that writes without SQL asks whether there are any (alone).
 *
 * Children by inheritance are not: their rows would be read as well, and they need not have the
 * constraints. To partitions the server gives all of these. Nor may the table be made a partition
 * of another one, which would limit what rows it takes, add its parent's triggers and write others'
 * rows into it. Exempt are rooms that have seen to that (part).
 */
#include "postgres.h"

#include "access/genam.h"
#include "access/htup_details.h"
#include "catalog/pg_am.h"
#include "catalog/pg_collation.h"
#include "catalog/pg_index.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/typcache.h"

#include "base/compat.h"
#include "base/relopen.h"
#include "core/table/catalog.h"
#include "core/table/distribution.h"
#include "core/table/shape.h"

static bool column_fits(TupleDesc desc, const DcShapeColumn *column, bool foreign,
						AttrNumber *attnum, DcShapeProblem *problem);
static AttrNumber find_column(TupleDesc desc, const char *name);
static bool column_is_generated_right(Form_pg_attribute att, const DcShapeColumn *column,
									  bool foreign);
static char *column_cure(Form_pg_attribute att, const DcShapeColumn *column);
static char *shape_column_problem(const DcShapeColumn *column);
static void compare_columns(TupleDesc desc, const DcShape *shape, DcTableLayout *layout);
static bool shape_find_key(Relation rel, const DcShape *shape, DcTableLayout *layout,
						   DcShapeProblem *problem);
static bool index_has_columns(Relation index, const DcShape *shape,
							  const AttrNumber *atts);
static char *key_names(const DcShape *shape);
static char *child_of(Relation rel);

/*
 * Return true and fill in the layout if a table, which is locked, has its shape; otherwise fill in
 * the problem. A table with data on other servers need not have the index, and its columns need
 * not be NOT NULL, as this server could not enforce either.
 */
bool
shape_fits(Relation rel, const DcShape *shape, DcTableLayout *layout,
		   DcShapeProblem *problem)
{
	TupleDesc desc = RelationGetDescr(rel);
	char kind = rel->rd_rel->relkind;
	bool foreign;
	char *child;

	memset(layout, 0, sizeof(*layout));
	problem->hint = NULL;
	if (strchr(shape->relkinds, kind) == NULL)
	{
		problem->detail = _("It is not a table of a kind that can be used.");
		return false;
	}
	if (strchr(shape->relkinds, RELKIND_FOREIGN_TABLE) == NULL && relation_is_distributed(RelationGetRelid(rel)))
	{
		problem->detail = _("It is distributed by Citus.");
		problem->hint = _("Use undistribute_table().");
		return false;
	}
	foreign = kind != RELKIND_RELATION && relation_has_foreign_part(RelationGetRelid(rel));
	layout->heap = kind == RELKIND_RELATION &&
		rel->rd_tableam == GetHeapamTableAmRoutine();
	for (int i = 0; i < shape->ncolumns; i++)
	{
		if (shape->columns[i].name != NULL &&
			!column_fits(desc, &shape->columns[i], foreign, &layout->atts[i], problem))
			return false;
	}
	compare_columns(desc, shape, layout);
	if (shape->logged && rel->rd_rel->relpersistence != RELPERSISTENCE_PERMANENT)
	{
		problem->detail = _("It is not logged: a crash would empty it.");
		problem->hint = _("Use ALTER TABLE ... SET LOGGED.");
		return false;
	}
	if (rel->rd_rel->relispartition && !shape->part)
	{
		problem->detail = _("It is a partition of another table.");
		problem->hint = _("Use ALTER TABLE ... DETACH PARTITION.");
		return false;
	}
	child = child_of(rel);
	if (child != NULL)
	{
		problem->detail = psprintf(_("Table \"%s\" inherits from it."), child);
		problem->hint = _("Use ALTER TABLE ... NO INHERIT.");
		return false;
	}
	return shape_find_key(rel, shape, layout, problem) || foreign;
}

/*
 * shape_check raises 42809 if a table does not have its shape.
 */
void
shape_check(Relation rel, const DcShape *shape, DcTableLayout *layout)
{
	DcShapeProblem problem;

	if (!shape_fits(rel, shape, layout, &problem))
		shape_error(RelationGetRelationName(rel), &problem);
}

/*
 * shape_error raises 42809 for a problem with the shape of a table.
 */
void
shape_error(const char *table, const DcShapeProblem *problem)
{
	ereport(ERROR,
			(errcode(ERRCODE_WRONG_OBJECT_TYPE),
			 errmsg("\"%s\" is not as dcounter created it", table),
			 errdetail_internal("%s", problem->detail),
			 problem->hint != NULL ? errhint("%s", problem->hint) : 0));
}

/*
 * column_fits looks a column up, and returns true if it still has the shape in which it was
 * created.
 */
static bool
column_fits(TupleDesc desc, const DcShapeColumn *column, bool foreign,
			AttrNumber *attnum, DcShapeProblem *problem)
{
	Form_pg_attribute att;

	*attnum = find_column(desc, column->name);
	if (*attnum == InvalidAttrNumber)
	{
		if (column->flags & SHAPE_OPTIONAL)
			return true;
		problem->detail = shape_column_problem(column);
		problem->hint = _("Use ALTER TABLE ... RENAME COLUMN, if it has another name now.");
		return false;
	}
	att = TupleDescAttr(desc, *attnum - 1);
	if (att->atttypid == column->type && att->attcollation == column->collation &&
		att->attidentity == '\0' &&
		column_is_generated_right(att, column, foreign) &&
		(foreign || (column->flags & SHAPE_NULLABLE) || compat_is_not_null(desc, *attnum)))
		return true;
	problem->detail = shape_column_problem(column);
	problem->hint = column_cure(att, column);
	return false;
}

/*
 * find_column returns the number of a column; not from the catalog, which may be newer
 * than the descriptor by which tuples are read.
 */
static AttrNumber
find_column(TupleDesc desc, const char *name)
{
	for (int i = 0; i < desc->natts; i++)
	{
		Form_pg_attribute att = TupleDescAttr(desc, i);

		if (!att->attisdropped && strcmp(NameStr(att->attname), name) == 0)
			return att->attnum;
	}
	return InvalidAttrNumber;
}

/*
 * Return true if a column is generated, and stored, or not generated, as it was created.
 */
static bool
column_is_generated_right(Form_pg_attribute att, const DcShapeColumn *column,
						  bool foreign)
{
	if (!(column->flags & SHAPE_GENERATED))
		return att->attgenerated == '\0';
	/* another server may generate it */
	return att->attgenerated == ATTRIBUTE_GENERATED_STORED ||
		(foreign && att->attgenerated == '\0');
}

/*
 * shape_column_problem returns how a column must be, as a sentence.
 */
static char *
shape_column_problem(const DcShapeColumn *column)
{
	if (column->flags & SHAPE_GENERATED)
		return psprintf(_("Its column \"%s\", if it has one, must be of type %s, generated and stored."),
						column->name, format_type_be(column->type));
	return psprintf(_("It needs a column \"%s\" of type %s%s%s."),
					column->name, format_type_be(column->type),
					column->collation == C_COLLATION_OID ? _(" with collation \"C\"") : "",
					column->flags & SHAPE_NULLABLE ? "" : _(" that is not null"));
}

/*
 * column_cure returns the statement that makes a column as it must be, as a hint; NULL where a
 * single statement cannot.
 */
static char *
column_cure(Form_pg_attribute att, const DcShapeColumn *column)
{
	if (att->attidentity != '\0' || att->attgenerated != '\0' || (column->flags & SHAPE_GENERATED))
		return NULL;
	if (att->atttypid != column->type || att->attcollation != column->collation)
		return psprintf(_("Use ALTER TABLE ... ALTER COLUMN %s TYPE %s%s."),
						quote_identifier(column->name), format_type_be(column->type),
						column->collation == C_COLLATION_OID ? " COLLATE \"C\"" : "");
	return psprintf(_("Use ALTER TABLE ... ALTER COLUMN %s SET NOT NULL."), quote_identifier(column->name));
}

/*
 * compare_columns finds out in which ways a table may differ from its shape.
 */
static void
compare_columns(TupleDesc desc, const DcShape *shape, DcTableLayout *layout)
{
	int live = 0;
	int found = 0;

	layout->in_order = true;
	layout->alone = true;
	for (int i = 0; i < desc->natts; i++)
		live += !TupleDescAttr(desc, i)->attisdropped;
	for (int i = 0; i < shape->ncolumns; i++)
	{
		AttrNumber attnum = layout->atts[i];

		layout->in_order &= attnum == i + 1;
		if (attnum == InvalidAttrNumber)
			continue;
		found++;
		layout->alone &= !(shape->columns[i].flags & SHAPE_NULLABLE) ||
			!TupleDescAttr(desc, attnum - 1)->attnotnull;
	}
	layout->alone &= live == found;
	layout->exact = layout->alone && layout->in_order && desc->natts == shape->ncolumns;
}

/*
 * Return true if there is a unique index on the key, and sets layout->index to
 * one that is plain enough for scans.
 */
static bool
shape_find_key(Relation rel, const DcShape *shape, DcTableLayout *layout,
			   DcShapeProblem *problem)
{
	List *indexes;
	ListCell *lc;
	bool found = false;

	if (shape->nkeys == 0)
		return true;
	indexes = RelationGetIndexList(rel);
	layout->only_index = list_length(indexes) == 1;
	problem->detail = psprintf(_("It needs a primary key on (%s)."), key_names(shape));
	problem->hint = psprintf(_("Use ALTER TABLE ... ADD PRIMARY KEY (%s)."), key_names(shape));
	foreach(lc, indexes)
	{
		Relation index = index_open(lfirst_oid(lc), AccessShareLock);
		Form_pg_index form = index->rd_index;

		if (index_has_columns(index, shape, layout->atts) && !form->indimmediate)
		{
			problem->detail = psprintf(_("Its primary key on (%s) is deferrable."), key_names(shape));
			problem->hint = _("Drop the constraint and create it again as NOT DEFERRABLE.");
		}
		else if (shape_is_key(index, shape, layout->atts) && !form->indisvalid)
		{
			problem->detail = psprintf(_("Its index \"%s\" is not valid."),
									   RelationGetRelationName(index));
			problem->hint = _("Use REINDEX.");
		}
		else if (shape_is_key(index, shape, layout->atts))
		{
			found = true;
			if (layout->heap && shape_is_plain_key(index, shape))
			{
				layout->index = RelationGetRelid(index);
				layout->index_is_young = form->indcheckxmin;
			}
		}
		index_close(index, AccessShareLock);
	}
	list_free(indexes);
	return found;
}

/*
 * Return true if an index makes the key unique, at once and for all rows, as
 * soon as it is valid.
 */
bool
shape_is_key(Relation index, const DcShape *shape, const AttrNumber *atts)
{
	Form_pg_index form = index->rd_index;

	return index_has_columns(index, shape, atts) && form->indimmediate &&
		!form->indisexclusion && form->indislive &&
		(form->indisready || !form->indisvalid) &&
		(!OidIsValid(index->rd_indcollation[0]) ||
		 get_collation_isdeterministic(index->rd_indcollation[0]));
}

/*
 * Return true if an index is unique on the columns of the key, without a predicate. This does
 * not use RelationGetIndexPredicate(), which evaluates constants, and so may run an owner's
 * functions.
 */
static bool
index_has_columns(Relation index, const DcShape *shape, const AttrNumber *atts)
{
	Form_pg_index form = index->rd_index;

	if (!form->indisunique || form->indnkeyatts != shape->nkeys ||
		!heap_attisnull(index->rd_indextuple, Anum_pg_index_indpred, NULL) ||
		!heap_attisnull(index->rd_indextuple, Anum_pg_index_indexprs, NULL))
		return false;
	for (int i = 0; i < shape->nkeys; i++)
	{
		if (form->indkey.values[i] != atts[shape->keys[i]])
			return false;
	}
	return true;
}

/*
 * Return true if such an index has the usual order and operators,
 * and nothing but the key.
 */
bool
shape_is_plain_key(Relation index, const DcShape *shape)
{
	for (int i = 0; i < shape->nkeys; i++)
	{
		const DcShapeColumn *column = &shape->columns[shape->keys[i]];

		if (index->rd_indoption[i] != 0 || index->rd_opcintype[i] != column->type ||
			index->rd_indcollation[i] != column->collation ||
			index->rd_opfamily[i] != lookup_type_cache(column->type, TYPECACHE_BTREE_OPFAMILY)->btree_opf)
			return false;
	}
	return index->rd_rel->relkind == RELKIND_INDEX &&
		index->rd_rel->relam == BTREE_AM_OID &&
		index->rd_index->indnatts == shape->nkeys;
}

/*
 * Return the columns of the key, separated by commas, for messages.
 */
static char *
key_names(const DcShape *shape)
{
	StringInfoData names;

	initStringInfo(&names);
	for (int i = 0; i < shape->nkeys; i++)
		appendStringInfo(&names, "%s%s", i > 0 ? ", " : "",
						 shape->columns[shape->keys[i]].name);
	return names.data;
}

/*
 * child_of returns the name of a table that inherits from one that is not partitioned, or NULL.
 * relhassubclass may still be set when none is left.
 */
static char *
child_of(Relation rel)
{
	List *children = NIL;
	char *name = NULL;

	if (rel->rd_rel->relhassubclass && rel->rd_rel->relkind != RELKIND_PARTITIONED_TABLE)
		children = relation_children(RelationGetRelid(rel), NoLock);
	if (children != NIL)
	{
		name = get_rel_name(linitial_oid(children));
		if (name == NULL) /* another session is dropping it */
			name = pstrdup("?");
	}
	list_free(children);
	return name;
}
