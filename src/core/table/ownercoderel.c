/*
 * ownercoderel.c
 *		Finding the parts of a relation that can run code of its owner, or of any user: not of
 *		the server or this extension.
 *
 * Copyright (c) 2026, the dcounter developers
 *
 * Only parts that are known to be harmless are let through, all others count as code:
 *
 *	- a heap table, or a partitioned one, whose partition key is harmless;
 *	- columns of the server's types and collations: a domain has constraints, and the output
 *	  function of another type may be any user's;
 *	- triggers of this extension, with a harmless condition, and those that are disabled; the
 *	  second look of a deferrable unique constraint. Those of a foreign key read and write another
 *	  table, whose owner may be any role;
 *	- bindings of bound counters (dc_bind) whose expressions are harmless: rows are counted by a
 *	  trigger of this extension;
 *	- defaults, generated columns, CHECK constraints, index expressions and predicates,
 *	  and extended statistics, whose expressions are harmless;
 *	- B-trees of the server's operator classes and collations that exclude nothing: others may add
 *	  the millions of elements of one value without a check for interrupts;
 *	- no rules, no row security.
 *
 * ownercodeexpr.c says which expressions are harmless.
 *
 * The expressions are read as they are stored. The relation cache is of no use: it
 * evaluates constant parts, and so would run the code that is being looked for.
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "catalog/dependency.h"
#include "catalog/partition.h"
#include "catalog/pg_am.h"
#include "catalog/pg_class.h"
#include "catalog/pg_collation.h"
#include "catalog/pg_index.h"
#include "catalog/pg_opclass.h"
#include "catalog/pg_partitioned_table.h"
#include "catalog/pg_statistic_ext.h"
#include "catalog/pg_type.h"
#include "commands/extension.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"
#include "utils/syscache.h"

#include "base/hooks.h"
#include "core/table/extras.h"
#include "core/table/ownercode.h"

static char *kind_reason(Relation rel);
static char *column_reason(Relation rel);
static char *default_reason(Relation rel);
static char *check_reason(Relation rel);
static char *trigger_reason(Relation rel);
static char *partition_reason(Relation rel);
static bool partition_key_is_harmless(Oid relid);
static char *index_reason(Relation rel);
static Oid method_of(Oid index);
static char *statistics_reason(Relation rel);
static char *binding_reason(Relation rel);
static bool attribute_is_harmless(int cache, HeapTuple tuple, AttrNumber att);
static bool are_trusted(int cache, HeapTuple tuple, AttrNumber att, Oid classid, int n);

/*
 * ownercode_of_relation returns the part of a relation that can run code, or NULL. The caller has
 * a lock on it.
 */
char *
ownercode_of_relation(Relation rel)
{
	static char *(*const looks[])(Relation rel) = {
		kind_reason, column_reason, default_reason, check_reason, trigger_reason,
		partition_reason, index_reason, statistics_reason, binding_reason};

	ownercode_expressions_begin();
	for (int i = 0; i < lengthof(looks); i++)
	{
		char *reason = looks[i](rel);

		if (reason != NULL)
			return reason;
	}
	return NULL;
}

/*
 * Return the name of a relation with its schema, for messages; not quoted.
 */
static char *
name_of(Relation rel)
{
	return psprintf("%s.%s", get_namespace_name(RelationGetNamespace(rel)),
					RelationGetRelationName(rel));
}

/*
 * Return which of these can run code, or NULL: the kind and access method of the relation, its
 * rules, row-level security.
 */
static char *
kind_reason(Relation rel)
{
	char kind = rel->rd_rel->relkind;

	if (kind == RELKIND_FOREIGN_TABLE)
		return psprintf(_("foreign table \"%s\""), name_of(rel));
	if (kind != RELKIND_PARTITIONED_TABLE &&
		(kind != RELKIND_RELATION || !is_trusted_object(AccessMethodRelationId, rel->rd_rel->relam)))
		return psprintf(_("access method of \"%s\""), name_of(rel));
	if (rel->rd_rel->relhasrules || rel->rd_rules != NULL)
		return psprintf(_("rules on \"%s\""), name_of(rel));
	if (rel->rd_rel->relrowsecurity || rel->rd_rel->relforcerowsecurity)
		return psprintf(_("row-level security on \"%s\""), name_of(rel));
	return NULL;
}

/*
 * Return a column whose type or collation can run code, or NULL.
 */
static char *
column_reason(Relation rel)
{
	TupleDesc desc = RelationGetDescr(rel);

	for (int i = 0; i < desc->natts; i++)
	{
		Form_pg_attribute att = TupleDescAttr(desc, i);

		if (att->attisdropped || (is_trusted_object(TypeRelationId, att->atttypid) && is_trusted_object(CollationRelationId, att->attcollation)))
			continue;
		return psprintf(_("type of column \"%s\" of \"%s\""), NameStr(att->attname), name_of(rel));
	}
	return NULL;
}

/*
 * default_reason returns a default or a generated column that can run code, or NULL.
 */
static char *
default_reason(Relation rel)
{
	TupleConstr *constr = RelationGetDescr(rel)->constr;

	for (int i = 0; constr != NULL && i < constr->num_defval; i++)
	{
		Form_pg_attribute att = TupleDescAttr(RelationGetDescr(rel), constr->defval[i].adnum - 1);

		if (ownercode_in_stored(constr->defval[i].adbin))
			return psprintf(att->attgenerated != '\0' ? _("generated column \"%s\" of \"%s\"")
													  : _("default of column \"%s\" of \"%s\""),
							NameStr(att->attname), name_of(rel));
	}
	return NULL;
}

/*
 * Return a CHECK constraint that can run code, or NULL.
 */
static char *
check_reason(Relation rel)
{
	TupleConstr *constr = RelationGetDescr(rel)->constr;

	for (int i = 0; constr != NULL && i < constr->num_check; i++)
	{
		if (ownercode_in_stored(constr->check[i].ccbin))
			return psprintf(_("constraint \"%s\" on \"%s\""), constr->check[i].ccname,
							name_of(rel));
	}
	return NULL;
}

/*
 * Return a trigger or a foreign key that can run code, or NULL.
 */
static char *
trigger_reason(Relation rel)
{
	const Trigger *trigger = relation_trigger(rel, EXTRA_OWNER_TRIGGERS);

	if (trigger == NULL)
		return NULL;
	if (trigger->tgisinternal && OidIsValid(trigger->tgconstraint))
		return psprintf(_("foreign key \"%s\" on \"%s\""), get_constraint_name(trigger->tgconstraint), name_of(rel));
	return psprintf(_("trigger \"%s\" on \"%s\""), trigger->tgname, name_of(rel));
}

/*
 * partition_reason returns a partition key that can run code, or NULL. It looks at those of the
 * relation and of its ancestors, which are checked when a row is written to the partition
 * itself.
 */
static char *
partition_reason(Relation rel)
{
	List *ancestors = rel->rd_rel->relispartition
		? get_partition_ancestors(RelationGetRelid(rel))
		: NIL;
	ListCell *lc;

	if (rel->rd_rel->relkind == RELKIND_PARTITIONED_TABLE)
		ancestors = lcons_oid(RelationGetRelid(rel), ancestors);
	foreach(lc, ancestors)
	{
		if (!partition_key_is_harmless(lfirst_oid(lc)))
			return psprintf(_("partition key of \"%s\""), name_of(rel));
	}
	return NULL;
}

/*
 * Return true if the partition key of a table runs no code of its owner.
 */
static bool
partition_key_is_harmless(Oid relid)
{
	HeapTuple tuple = SearchSysCache1(PARTRELID, ObjectIdGetDatum(relid));
	int n;
	bool harmless;

	if (!HeapTupleIsValid(tuple))
		return false;
	n = ((Form_pg_partitioned_table) GETSTRUCT(tuple))->partnatts;
	harmless = are_trusted(PARTRELID, tuple, Anum_pg_partitioned_table_partclass, OperatorClassRelationId, n) &&
		are_trusted(PARTRELID, tuple, Anum_pg_partitioned_table_partcollation, CollationRelationId, n) &&
		attribute_is_harmless(PARTRELID, tuple, Anum_pg_partitioned_table_partexprs);
	ReleaseSysCache(tuple);
	return harmless;
}

/*
 * index_reason returns an index that can run code, or NULL; it looks at those that are not
 * ready yet, too.
 */
static char *
index_reason(Relation rel)
{
	List *indexes = RelationGetIndexList(rel);
	ListCell *lc;

	foreach(lc, indexes)
	{
		HeapTuple tuple = SearchSysCache1(INDEXRELID, ObjectIdGetDatum(lfirst_oid(lc)));
		char *name = get_rel_name(lfirst_oid(lc));
		bool harmless;

		if (!HeapTupleIsValid(tuple))
			continue; /* DROP INDEX CONCURRENTLY */
		harmless = ownercode_index_is_harmless(tuple, method_of(lfirst_oid(lc)));
		ReleaseSysCache(tuple);
		if (!harmless)
			return psprintf(_("index \"%s\" on \"%s\""), name != NULL ? name : "", name_of(rel));
	}
	return NULL;
}

/*
 * Return true if an index, by its row of pg_index and its access method, runs no code of its
 * owner.
 */
bool
ownercode_index_is_harmless(HeapTuple tuple, Oid am)
{
	Form_pg_index form = (Form_pg_index) GETSTRUCT(tuple);

	return !form->indisexclusion && am == BTREE_AM_OID &&
		are_trusted(INDEXRELID, tuple, Anum_pg_index_indclass, OperatorClassRelationId, form->indnkeyatts) &&
		are_trusted(INDEXRELID, tuple, Anum_pg_index_indcollation, CollationRelationId, form->indnkeyatts) &&
		attribute_is_harmless(INDEXRELID, tuple, Anum_pg_index_indexprs) &&
		attribute_is_harmless(INDEXRELID, tuple, Anum_pg_index_indpred);
}

/*
 * Return the access method of an index, InvalidOid if it is gone.
 */
static Oid
method_of(Oid index)
{
	HeapTuple tuple = SearchSysCache1(RELOID, ObjectIdGetDatum(index));
	Oid am = HeapTupleIsValid(tuple) ? ((Form_pg_class) GETSTRUCT(tuple))->relam : InvalidOid;

	if (HeapTupleIsValid(tuple))
		ReleaseSysCache(tuple);
	return am;
}

/*
 * statistics_reason returns extended statistics that can run code, or NULL: the planner
 * evaluates constant parts of their expressions.
 */
static char *
statistics_reason(Relation rel)
{
	List *statistics = RelationGetStatExtList(rel);
	ListCell *lc;

	foreach(lc, statistics)
	{
		HeapTuple tuple = SearchSysCache1(STATEXTOID, ObjectIdGetDatum(lfirst_oid(lc)));
		NameData name;
		bool harmless;

		if (!HeapTupleIsValid(tuple))
			continue;
		name = ((Form_pg_statistic_ext) GETSTRUCT(tuple))->stxname;
		harmless = attribute_is_harmless(STATEXTOID, tuple, Anum_pg_statistic_ext_stxexprs);
		ReleaseSysCache(tuple);
		if (!harmless)
			return psprintf(_("statistics \"%s\" on \"%s\""), NameStr(name), name_of(rel));
	}
	return NULL;
}

/*
 * binding_reason returns a bound counter whose expressions, which our trigger evaluates for each
 * row, can run for long, or NULL.
 */
static char *
binding_reason(Relation rel)
{
	Oid counter = bound_hooks != NULL ? bound_hooks->code(rel) : InvalidOid;
	char *name;

	if (!OidIsValid(counter))
		return NULL;
	name = get_rel_name(counter);
	return psprintf(_("binding of \"%s\" to \"%s\""), name != NULL ? name : "", name_of(rel));
}

/*
 * Return true if the expressions in an attribute, if it has any, are harmless.
 */
static bool
attribute_is_harmless(int cache, HeapTuple tuple, AttrNumber att)
{
	bool isnull;
	Datum value = SysCacheGetAttr(cache, tuple, att, &isnull);

	return isnull || !ownercode_in_stored(TextDatumGetCString(value));
}

/*
 * Return true if the first n objects of an oidvector are the server's or this extension's.
 */
static bool
are_trusted(int cache, HeapTuple tuple, AttrNumber att, Oid classid, int n)
{
	bool isnull;
	oidvector *oids = (oidvector *) DatumGetPointer(SysCacheGetAttr(cache, tuple, att, &isnull));

	if (isnull || oids->dim1 < n)
		return false;
	for (int i = 0; i < n; i++)
	{
		if (!is_trusted_object(classid, oids->values[i]))
			return false;
	}
	return true;
}
