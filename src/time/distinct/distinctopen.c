/*
 * distinctopen.c
 *		Opening a distinct table and its deltas: rights, locks, shape.
 *
 * Copyright (c) 2026, the dcounter developers
 *
 * Both belong to a user, who may alter them in any way at any time. They are read and written only
 * without SQL, so that neither code of their owner nor row security applies: to be read they must
 * be plain tables of their shape, and to be written they must have nothing on them but plain
 * indexes. Otherwise the call is refused, so owners can only harm themselves.
 *
 * The table is locked first, then its deltas (ACCESS SHARE to read, ROW EXCLUSIVE to write), both
 * to the end of the transaction. What was known before the locks were taken is not trusted after
 * that. Both relations are open when the shape is checked, and as long as they are used: until then
 * this session's own code cannot alter them.
 *
 * An entry gets another generation each time that it is filled. What a session remembers of keys is
 * tied to it (distinctknown.c): any change of either table, including TRUNCATE and its rollback,
 * and each call that removes rows, invalidates the relation, and with it all of this.
 */
#include "postgres.h"

#include "access/genam.h"
#include "access/htup_details.h"
#include "access/table.h"
#include "catalog/pg_am.h"
#include "catalog/pg_collation.h"
#include "catalog/pg_type.h"
#include "executor/executor.h"
#include "miscadmin.h"
#include "storage/lmgr.h"
#include "utils/inval.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"
#include "utils/syscache.h"
#include "utils/typcache.h"

#include "base/errors.h"
#include "base/relcached.h"
#include "base/relopen.h"
#include "base/roles.h"
#include "core/rows/insert.h"
#include "core/table/access.h"
#include "core/table/layout.h"
#include "time/distinct/distinct.h"

extern Datum dc_hll_in(PG_FUNCTION_ARGS);

static void distinctopen_entry_changed(void *data, Oid relid);
static bool distinctopen_fill(void *entry, void *arg);
static bool lock_both(Oid relid, LOCKMODE mode, bool wait);
static bool lock_one(Oid relid, LOCKMODE mode, bool wait);
static void open_both(DcDistinctRel *rel);
static void check_shapes(DcDistinctRel *rel);
static void distinctopen_check_shape(DcDistinct *distinct, int which, Relation heap);
static Oid sketch_type(Relation heap, int precision, DcShapeProblem *problem);
static Oid distinctopen_key_index(Relation heap, AttrNumber att);
static bool is_key_index(Relation index, AttrNumber att);
static void distinctopen_check_owner(const DcDistinct *distinct);

static DcRelCached entries = {
	.name = "dcounter distinct",
	.keysize = sizeof(Oid),
	.size = sizeof(DcDistinct),
	.changed = distinctopen_entry_changed,
};

/*
 * Mark an entry as invalid if its table or its deltas have changed; InvalidOid stands for all
 * relations.
 */
static void
distinctopen_entry_changed(void *data, Oid relid)
{
	DcDistinct *entry = data;

	if (!OidIsValid(relid) || entry->relid == relid || entry->row.delta == relid)
		entry->valid = false;
}

/*
 * distinct_find returns the entry of a table, or NULL if it is no distinct table.
 */
DcDistinct *
distinct_find(Oid relid)
{
	DcDistinct *entry = relcached_enter_relation(&entries, relid);

	if (entry == NULL)
		return NULL;
	if (entry->valid || relcached_fill(entry, &entry->valid, distinctopen_fill, NULL))
		return entry;
	return NULL;
}

/*
 * Fill what the session remembers of a distinct table. Return false if it is none.
 */
static bool
distinctopen_fill(void *data, void *arg)
{
	static uint64 generations = 0;
	DcDistinct *entry = data;
	DcDistinctRow row;
	HeapTuple tuple;

	if (!distinct_row_read(entry->relid, &row))
		return false;
	tuple = SearchSysCache1(RELOID, ObjectIdGetDatum(entry->relid));
	if (!HeapTupleIsValid(tuple))
		return false;
	entry->row = row;
	entry->owner = ((Form_pg_class) GETSTRUCT(tuple))->relowner;
	entry->rls = ((Form_pg_class) GETSTRUCT(tuple))->relrowsecurity;
	entry->checked = false;
	entry->rights = ACL_NO_RIGHTS;
	entry->generation = ++generations;
	ReleaseSysCache(tuple);
	return true;
}

/*
 * distinct_lookup returns the entry of a table, with the errors that a user should see: 42P01 for
 * no relation, 42809 for another one.
 */
DcDistinct *
distinct_lookup(Oid relid)
{
	DcDistinct *distinct = distinct_find(relid);
	char *name = distinct == NULL ? get_rel_name(relid) : NULL;

	if (distinct != NULL)
		return distinct;
	if (name == NULL)
		relation_missing_error(relid);
	ereport(ERROR,
			(errcode(ERRCODE_WRONG_OBJECT_TYPE),
			 errmsg("\"%s\" is not a distinct table", name),
			 errhint("Create one with dc_distinct_create(), or register a restored one with dc_distinct_adopt().")));
}

/*
 * Return true if the current role has all of `rights`, as this session has found before.
 */
bool
distinct_rights_known(const DcDistinct *distinct, AclMode rights)
{
	return distinct->valid && distinct->role == GetUserId() && distinct->role_changes == role_changes &&
		(distinct->rights & rights) == rights;
}

/*
 * distinct_lock locks a table and its deltas, and checks the rights of the current role; without
 * rights, that it is the owner. Errors: those of distinct_lookup(), 42501, 0A000 for row security.
 */
DcDistinct *
distinct_lock(Oid relid, LOCKMODE mode, AclMode rights)
{
	DcDistinct *distinct;

	AcceptInvalidationMessages(); /* for example of a REVOKE; plain SQL does so too */
	do
	{
		distinct = distinct_lookup(relid);
		if (rights == ACL_NO_RIGHTS || !distinct_rights_known(distinct, rights))
			table_check_rights(relid, rights); /* before a lock, so that it cannot be used to disturb other sessions */
	} while (!lock_both(relid, mode, true));
	distinct = distinct_lookup(relid);
	if (rights == ACL_NO_RIGHTS || !distinct_rights_known(distinct, rights))
	{
		uint32 roles = role_changes; /* a change that comes in the meantime is noticed the next time */

		table_check_rights(relid, rights);
		if (distinct->role != GetUserId() || distinct->role_changes != roles)
			distinct->rights = ACL_NO_RIGHTS;
		distinct->role = GetUserId();
		distinct->role_changes = roles;
		distinct->rights |= rights;
	}
	distinctopen_check_owner(distinct);
	return distinct;
}

/*
 * lock_both locks both tables; false if they are not a distinct table, have other deltas by then,
 * or a lock is not available.
 */
static bool
lock_both(Oid relid, LOCKMODE mode, bool wait)
{
	DcDistinct *distinct = distinct_find(relid);
	Oid delta;

	if (distinct == NULL || !lock_one(relid, mode, wait))
		return false;
	distinct = distinct_find(relid);
	if (distinct == NULL)
		return false;
	delta = distinct->row.delta;
	if (!lock_one(delta, mode, wait))
		return false;
	distinct = distinct_find(relid);
	return distinct != NULL && distinct->row.delta == delta;
}

/*
 * Lock a relation. Return false if that would have to wait and the caller does not want to.
 */
static bool
lock_one(Oid relid, LOCKMODE mode, bool wait)
{
	if (!wait)
		return ConditionalLockRelationOid(relid, mode);
	LockRelationOid(relid, mode);
	return true;
}

/*
 * distinctrel_open opens a table and its deltas, which are locked. Errors: 42809 for tables that
 * are not as they were created.
 */
void
distinctrel_open(DcDistinctRel *rel, DcDistinct *distinct, LOCKMODE mode)
{
	rel->distinct = distinct;
	open_both(rel);
	if (mode == RowExclusiveLock && distinct->problem != NULL)
	{
		DcShapeProblem problem = {
			.detail = distinct->problem,
			.hint = _("Only plain indexes may be added to a distinct table and its deltas."),
		};

		shape_error(get_rel_name(distinct->relid), &problem);
	}
	for (int i = 0; i < 2; i++)
		rel->indexes[i] = index_open(distinct->indexes[i], mode);
}

/*
 * distinctrel_open_again locks and opens a table to write, without asking for rights; false if it
 * is no longer a distinct table, or cannot be locked at once and `wait` is false.
 */
bool
distinctrel_open_again(DcDistinctRel *rel, Oid relid, bool wait)
{
	if (!lock_both(relid, RowExclusiveLock, wait))
		return false;
	distinctrel_open(rel, distinct_lookup(relid), RowExclusiveLock);
	return true;
}

/*
 * Open both tables, which the caller has locked, and check their shape unless that was done. An
 * error if they were altered since the entry was filled.
 */
static void
open_both(DcDistinctRel *rel)
{
	DcDistinct *distinct = rel->distinct;

	rel->heaps[DISTINCT_TABLE] = table_open_present(distinct->relid, NoLock);
	rel->heaps[DISTINCT_DELTA] = table_open_present(distinct->row.delta, NoLock);
	if (!distinct->valid && distinct_find(distinct->relid) == NULL)
		layout_altered_error(rel->heaps[DISTINCT_TABLE]);
	if (RelationGetRelid(rel->heaps[DISTINCT_DELTA]) != distinct->row.delta)
		layout_altered_error(rel->heaps[DISTINCT_TABLE]);
	if (!distinct->checked)
		check_shapes(rel);
}

/*
 * Close the tables and their indexes. The locks stay until the transaction ends.
 */
void
distinctrel_close(DcDistinctRel *rel)
{
	for (int i = 0; i < 2; i++)
	{
		index_close(rel->indexes[i], NoLock);
		table_close(rel->heaps[i], NoLock);
	}
}

/*
 * distinct_check_shape raises 42809 if two tables, which are locked, cannot serve as one.
 */
void
distinct_check_shape(const DcDistinctRow *row)
{
	DcDistinct distinct = {.relid = row->relid, .row = *row, .valid = true};
	DcDistinctRel rel = {.distinct = &distinct};

	rel.heaps[DISTINCT_TABLE] = table_open_present(row->relid, NoLock);
	rel.heaps[DISTINCT_DELTA] = table_open_present(row->delta, NoLock);
	check_shapes(&rel);
	for (int i = 0; i < 2; i++)
		table_close(rel.heaps[i], NoLock);
	if (distinct.problem != NULL)
	{
		DcShapeProblem problem = {.detail = distinct.problem};

		shape_error(get_rel_name(row->relid), &problem);
	}
}

/*
 * Check that both tables can be read; an error says why not. What keeps them from being written is
 * noted in distinct->problem, and is an error only for writers.
 */
static void
check_shapes(DcDistinctRel *rel)
{
	DcDistinct *distinct = rel->distinct;

	distinct->problem = NULL;
	if (rel->heaps[0]->rd_rel->relowner != rel->heaps[1]->rd_rel->relowner)
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("\"%s\" and its table of deltas \"%s\" have different owners",
						RelationGetRelationName(rel->heaps[0]), RelationGetRelationName(rel->heaps[1])),
				 errhint("Use ALTER TABLE ... OWNER TO to give both to one role.")));
	if (rel->heaps[0]->rd_rel->relpersistence != rel->heaps[1]->rd_rel->relpersistence)
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("either \"%s\" or its table of deltas \"%s\" is unlogged: a crash would empty one of them alone",
						RelationGetRelationName(rel->heaps[0]), RelationGetRelationName(rel->heaps[1])),
				 errhint("Use ALTER TABLE ... SET LOGGED.")));
	for (int i = 0; i < 2; i++)
	{
		const char *problem;

		distinctopen_check_shape(distinct, i, rel->heaps[i]);
		problem = write_problem(rel->heaps[i], distinct->layouts[i].alone);
		if (problem == NULL || distinct->problem != NULL)
			continue;
		strlcpy(distinct->problem_text, problem, sizeof(distinct->problem_text));
		distinct->problem = distinct->problem_text;
	}
	distinct->checked = true;
}

/*
 * Check that one of the tables has the columns, the type of sketches and the index that it needs to
 * be read.
 */
static void
distinctopen_check_shape(DcDistinct *distinct, int which, Relation heap)
{
	DcShapeProblem problem = {0};
	DcShape shape = {
		.relkinds = "r",
		.nkeys = which == DISTINCT_TABLE ? 1 : 0,
		.keys = {DISTINCT_KEY},
		.ncolumns = DISTINCT_NUM_COLUMNS,
		.columns = {[DISTINCT_KEY] = {"key", TEXTOID, C_COLLATION_OID},
					[DISTINCT_SKETCH] = {"sketch"}}};

	distinct->type = sketch_type(heap, distinct->row.precision, &problem);
	if (problem.detail != NULL)
		shape_error(RelationGetRelationName(heap), &problem);
	shape.columns[DISTINCT_SKETCH].type = distinct->type;
	shape_check(heap, &shape, &distinct->layouts[which]);
	distinct->indexes[which] = distinctopen_key_index(heap, distinct->layouts[which].atts[DISTINCT_KEY]);
	if (!distinct->layouts[which].heap)
		problem.detail = _("It is not stored as a heap.");
	else if (heap->rd_rel->relrowsecurity)
	{
		problem.detail = _("It has row-level security.");
		problem.hint = _("Use ALTER TABLE ... DISABLE ROW LEVEL SECURITY.");
	}
	else if (!OidIsValid(distinct->indexes[which]))
	{
		problem.detail = _("It has no ascending index on (key) alone.");
		problem.hint = _("Use CREATE INDEX.");
	}
	if (problem.detail != NULL)
		shape_error(RelationGetRelationName(heap), &problem);
}

/*
 * sketch_type returns the type of the column of sketches, which it knows by its input function.
 */
static Oid
sketch_type(Relation heap, int precision, DcShapeProblem *problem)
{
	AttrNumber att = get_attnum(RelationGetRelid(heap), "sketch");
	Form_pg_attribute form = att > 0 ? TupleDescAttr(RelationGetDescr(heap), att - 1) : NULL;
	FmgrInfo function;
	Oid input;
	Oid param;

	if (form != NULL && !form->attisdropped && get_typtype(form->atttypid) == TYPTYPE_BASE)
	{
		getTypeInputInfo(form->atttypid, &input, &param);
		fmgr_info(input, &function);
		if (function.fn_addr == dc_hll_in && form->atttypmod == precision)
			return form->atttypid;
	}
	problem->detail = psprintf(_("It needs a column \"sketch\" of type dc_hll(%d)."), precision);
	return InvalidOid;
}

/*
 * distinct_precision_of returns the precision of a table that is to become a distinct table.
 */
int
distinct_precision_of(Oid relid)
{
	AttrNumber att = get_attnum(relid, "sketch");
	int32 typmod = -1;
	Oid type;
	Oid collation;

	if (att > 0)
		get_atttypetypmodcoll(relid, att, &type, &typmod, &collation);
	return typmod >= HLL_MIN_PRECISION && typmod <= HLL_MAX_PRECISION ? typmod : HLL_DEFAULT_PRECISION;
}

/*
 * distinctopen_key_index returns an index on the key, or InvalidOid. It may be newer than the
 * snapshot: rows never change their keys, so the index finds all versions of a row in any snapshot.
 */
static Oid
distinctopen_key_index(Relation heap, AttrNumber att)
{
	List *indexes = RelationGetIndexList(heap);
	Oid found = InvalidOid;
	ListCell *lc;

	foreach(lc, indexes)
	{
		Relation index = index_open(lfirst_oid(lc), AccessShareLock);

		if (!OidIsValid(found) && is_key_index(index, att))
			found = RelationGetRelid(index);
		index_close(index, AccessShareLock);
	}
	list_free(indexes);
	return found;
}

/*
 * Return true if the index can be scanned for keys in order: a valid btree on (key) alone, in the
 * "C" collation, of all rows.
 */
static bool
is_key_index(Relation index, AttrNumber att)
{
	Form_pg_index form = index->rd_index;

	return index->rd_rel->relkind == RELKIND_INDEX && index->rd_rel->relam == BTREE_AM_OID &&
		form->indnatts == 1 && form->indnkeyatts == 1 && form->indkey.values[0] == att &&
		form->indisvalid && form->indisready && form->indislive && !form->indisexclusion &&
		heap_attisnull(index->rd_indextuple, Anum_pg_index_indexprs, NULL) &&
		heap_attisnull(index->rd_indextuple, Anum_pg_index_indpred, NULL) &&
		index->rd_indoption[0] == 0 && index->rd_indcollation[0] == C_COLLATION_OID &&
		index->rd_opfamily[0] == lookup_type_cache(TEXTOID, TYPECACHE_BTREE_OPFAMILY)->btree_opf;
}

/*
 * Raise an error if row-level security is on, as it would not be applied here.
 */
static void
distinctopen_check_owner(const DcDistinct *distinct)
{
	if (distinct->rls)
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("row-level security is not supported on \"%s\"", get_rel_name(distinct->relid)),
				 errhint("Use ALTER TABLE ... DISABLE ROW LEVEL SECURITY.")));
}
