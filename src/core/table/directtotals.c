/*
 * directtotals.c
 *		Deciding if a commit may write rows of totals without SQL.
 *
 * Copyright (c) 2026, the dcounter developers
 *
 * With the setting totals => 'direct' a commit updates or inserts the row of a key in the
 * table of totals itself, if it need not wait for that. The table is the users' own more
 * than the shard table is: they index it, publish it, and put triggers on it. So the
 * question is what the executor would do for an INSERT of (key, inc, dec, updated_at), or
 * an UPDATE of the last three, beyond writing the tuple and the entry of one index. Where it
 * would do anything, or nearly so, committers write shard rows alone, and compaction does it,
 * by SQL:
 *
 *	rules		would replace the statement.
 *	triggers	for INSERT or UPDATE, of rows or statements. One that is disabled fires in no
 *				session. A foreign key of the table's own is such a trigger. One that refers to
 *				the table is not in the way: all of its columns are in a unique index, and the
 *				only one here is that of the key, which never changes. The executor leaves out
 *				these triggers as well then (RI_FKey_pk_upd_check_required()), and they have none
 *				for INSERT. Triggers for DELETE and TRUNCATE are not concerned.
 *	constraints	CHECK conditions. Bounds of partitions: a partition or a partitioned table is no
 *				counter's plain table. NOT NULL holds, as no amount, key or time is NULL, and
 *				`value` must not have it. Exclusion constraints are indexes.
 *	columns         further ones may have defaults. An identity column does not fit (shape.c).
 *				`value`, if it is there, is computed by the writer, so its expression must be
 *				inc - dec and nothing else; that is compared as a tree, not as text.
 *	indexes		one alone, on the key, and valid. A second one, also of the key, while that is
 *				being rebuilt, would need entries; one on another column would end HOT updates.
 *	publication	of updates: the replica identity must be there and have the columns of the row
 *				filter (CheckCmdReplicaIdentity()). And subscribers would be sent each increment
 *				instead of each compaction. One of inserts alone sends each key once, either way.
 *	rights		are those of dc_incr(): INSERT and UPDATE on this table. Row-level security is
 *				an error for counter tables.
 *	storage		heap_update() and heap_insert() do, so another access method is out of the
 *				question. Both tables are logged or none: rows of an unlogged one are gone after
 *				a crash, and those of the other may not be.
 *
 * Tables that depend on compaction, or have their own way of writing, are left to that: events,
 * trends, stocks, ledgers, buffered tables. A table that a subscription feeds is not written
 * to. And the shard table must be one that can be written directly (layout.c), as a commit
 * turns to it when the row of totals is busy.
 *
 * When the answer changes. A session asks when it opens the table, and again when it commits
 * (apply.c), after it has received what invalidations there are. From dc_incr() on it holds ROW
 * EXCLUSIVE. Most of the above needs a stronger lock (triggers, foreign keys and
 * dc_alter(events, mode, trend): SHARE ROW EXCLUSIVE; rules, constraints, columns, expressions,
 * storage: ACCESS EXCLUSIVE), so it comes before the session opens the table, or after it has
 * committed. Changes that need less, and may come in between or even just after the question is
 * asked:
 *
 *	- An index that is created, rebuilt or dropped CONCURRENTLY. The server's protocol is made
 *	  for writers that hold this lock. A session that has locked the table before the index was in
 *	  the catalog does not know it, inserts no entry, and may do HOT updates that the index would
 *	  not allow: the build waits for all such sessions, before it looks at any row. A session that
 *	  locks later gets the invalidation with the lock, sees two indexes, whatever their state, and
 *	  writes shard rows. So a session that may write directly knows of one index, and there is
 *	  either no other, or one whose build waits for it. If an invalidation arrives in between, the
 *	  answer at commit is "no", which is always right. An index that is dropped counts as the
 *	  second one until it is no longer in use, by the same waits; if the only index is being
 *	  dropped, it is not valid (layout.c).
 *	- A publication. A change that is committed after the publication was, by a session that did
 *	  not know it, is sent like that of any UPDATE that was already running. The record has what
 *	  the replica identity asks for: to change that needs ACCESS EXCLUSIVE.
 *	- A subscription: from then on sessions may not write here at all. Those that have opened
 *	  the table before may, as with plain SQL (subscription.c).
 *	- dc_alter(totals): either way is right at any time.
 *	- To distribute the table by Citus needs EXCLUSIVE.
 *
 * All of these send a relcache invalidation of the table or of its catalog row, or for all
 * tables, but the subscription, which countercache.c has a callback for.
 */
#include "postgres.h"

#include "catalog/pg_publication.h"
#include "catalog/pg_type.h"
#include "nodes/primnodes.h"
#include "utils/fmgroids.h"
#include "utils/lsyscache.h"
#include "utils/relcache.h"

#include "core/table/extras.h"
#include "core/table/layout.h"

static char *counter_problem(const DcCounter *counter);
static char *tables_problem(const DcCounter *counter, Relation totals, Relation shards);
static char *further_index(Relation totals, Oid index);
static char *column_problem(const DcCounter *counter, Relation totals);
static bool is_difference(TupleDesc desc, const AttrNumber *atts);
static bool directtotals_is_column(Node *node, AttrNumber attnum);
static bool is_published(Relation totals);

/*
 * totals_problem returns the reason why rows of totals cannot be written at commit (without SQL
 * or, for a table that Citus distributes, with it), as a phrase, or NULL. The layouts and
 * direct_write of the counter are known. It only looks at the catalogs: no code of the owner
 * runs.
 */
char *
totals_problem(const DcCounter *counter, Relation totals, Relation shards)
{
	char *problem = counter_problem(counter);

	if (problem == NULL && !counter->distributed)
		problem = tables_problem(counter, totals, shards);
	else if (problem == NULL && !counter->totals.only_index)
		problem = further_index(totals, counter->totals.index);
	if (problem == NULL)
		problem = totals_row_problem(counter, totals);
	if (problem == NULL && is_published(totals))
		problem = _("its updates are published");
	return problem;
}

/*
 * totals_row_problem looks for work that the executor would do for each row, apart from
 * indexes. If there is none, rows may be inserted without SQL, whatever the setting is
 * (core/counter/load.c).
 */
char *
totals_row_problem(const DcCounter *counter, Relation totals)
{
	char *problem = column_problem(counter, totals);
	const Trigger *trigger;
	int extras;

	if (problem != NULL)
		return problem;
	if (!counter->totals.heap || totals->rd_rel->relispartition)
		return _("it is not a plain local table");
	extras = relation_extras(totals, EXTRAS_OF_TOTALS);
	if (extras & EXTRA_RULES)
		return _("it has rules");
	if (extras & EXTRA_CHECK)
		return psprintf(_("constraint \"%s\""), RelationGetDescr(totals)->constr->check[0].ccname);
	trigger = relation_trigger(totals, EXTRAS_OF_TOTALS);
	if (trigger != NULL && OidIsValid(trigger->tgconstraint))
		return psprintf(_("constraint \"%s\""), get_constraint_name(trigger->tgconstraint));
	if (trigger != NULL)
		return psprintf(_("trigger \"%s\""), trigger->tgname);
	return NULL;
}

/*
 * counter_problem returns a reason in the kind and settings of the counter table, or NULL.
 */
static char *
counter_problem(const DcCounter *counter)
{
	if (OidIsValid(counter->row.ledger))
		return _("it belongs to a ledger");
	if (counter_is_stock(counter))
		return _("it is a stock");
	if (counter_is_buffered(counter))
		return _("it is buffered");
	if (counter->fed)
		return _("a subscription feeds it");
	if (counter->events)
		return _("its changes are events");
	if (counter_has_trend(counter))
		return _("it has a trend");
	return NULL;
}

/*
 * tables_problem returns a reason in the tables as a whole, or in their indexes, or NULL.
 */
static char *
tables_problem(const DcCounter *counter, Relation totals, Relation shards)
{
	if (!counter->totals.heap || !counter->shards.heap)
		return _("it is not a plain local table");
	if (!OidIsValid(counter->totals.index))
		return _("its primary key is not a plain one");
	if (!counter->totals.only_index)
		return further_index(totals, counter->totals.index);
	if (!counter->direct_write)
		return counter->totals.index_is_young
			? psprintf(_("index \"%s\" is not for all snapshots"), get_rel_name(counter->totals.index))
			: psprintf(_("what there is on \"%s\""), RelationGetRelationName(shards));
	if (totals->rd_rel->relpersistence != shards->rd_rel->relpersistence)
		return _("not all of its tables are logged");
	return NULL;
}

/*
 * further_index returns the name of an index that is not the one of the key, or NULL.
 */
static char *
further_index(Relation totals, Oid index)
{
	List *indexes = RelationGetIndexList(totals);
	char *name = NULL;
	ListCell *lc;

	foreach(lc, indexes)
	{
		if (lfirst_oid(lc) != (OidIsValid(totals->rd_pkindex) ? totals->rd_pkindex : index))
			name = get_rel_name(lfirst_oid(lc));
	}
	list_free(indexes);
	return psprintf(_("index \"%s\""), name != NULL ? name : "");
}

/*
 * column_problem returns a reason in the columns, whose values the executor may have to
 * compute, or NULL.
 */
static char *
column_problem(const DcCounter *counter, Relation totals)
{
	TupleDesc desc = RelationGetDescr(totals);

	if (!counter->totals.alone)
		return _("it has further columns, or a column that must not be null");
	if (counter->totals.atts[DC_COL_VALUE] != InvalidAttrNumber &&
		!is_difference(desc, counter->totals.atts))
		return _("column \"value\" is not just inc - dec");
	return NULL;
}

/*
 * Return true if the generated column is inc - dec.
 */
static bool
is_difference(TupleDesc desc, const AttrNumber *atts)
{
	for (int i = 0; desc->constr != NULL && i < desc->constr->num_defval; i++)
	{
		OpExpr *expr;

		if (desc->constr->defval[i].adnum != atts[DC_COL_VALUE])
			continue;
		expr = stringToNode(desc->constr->defval[i].adbin);
		return IsA(expr, OpExpr) && get_opcode(expr->opno) == F_INT8MI &&
			list_length(expr->args) == 2 &&
			directtotals_is_column(linitial(expr->args), atts[DC_COL_INC]) &&
			directtotals_is_column(lsecond(expr->args), atts[DC_COL_DEC]);
	}
	return false;
}

/*
 * Return true if an expression is this bigint column of the table.
 */
static bool
directtotals_is_column(Node *node, AttrNumber attnum)
{
	Var *var = (Var *) node;

	return IsA(node, Var) && var->varno == 1 && var->varlevelsup == 0 &&
		var->varattno == attnum && var->vartype == INT8OID;
}

/*
 * Return true if a publication has the updates of a table: by name, with its
 * schema, or with all tables.
 */
static bool
is_published(Relation totals)
{
	PublicationDesc desc;

	RelationBuildPublicationDesc(totals, &desc);
	return desc.pubactions.pubupdate;
}
