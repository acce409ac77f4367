/*
 * distribution.c
 *		Counter tables that Citus distributes over several servers.
 *
 * Copyright (c) 2026, the dcounter developers
 *
 * Citus keeps the rows of such a table in shards on its workers, by a hash of a column, and the
 * table itself is an empty shell on the coordinator. So none of its rows may be touched without
 * SQL, and SQL on it has rules of its own:
 *
 *	- A plan must be made with the values of its parameters: only then is it known which shard
 *	  has the key. That of an INSERT of one row need not: Citus looks for the shard each time that
 *	  it runs. But of a shard that the coordinator has itself Citus then keeps a plan that it does
 *	  not replace if only the shard has changed (by REINDEX CONCURRENTLY).
 *	- Rows can be locked (FOR UPDATE) if the condition leaves one shard, as "key = $1" does, and
 *	  "key = ANY ($1)" with keys of one shard.
 *	- Two tables are read in one snapshot if one query goes to each pair of their shards. That needs
 *	  both to be colocated, with the rows of a key on one server.
 *
 * What follows for counters. Both tables must be distributed by their key, with shards that are
 * colocated, and in one copy (the server's own replication makes others). Then the rows of a key
 * are on one server, and all that is said of them holds there: compaction moves an amount within
 * one transaction, a read sees it once. Functions work on the coordinator only, as the advisory
 * locks of setters and of compaction (core/rows/locks.c) are its own. Of the kinds of counters only
 * the plain one is supported; distribution_check() refuses the others.
 *
 * Commits. At PRE_COMMIT Citus, which is loaded before this library and whose callback so comes
 * after ours, commits the transactions on the workers: in two phases if there are several workers,
 * otherwise at once, before the local commit. A local transaction with an id has written something
 * here that must be there if, and only if, the increment is. So it asks for two phases, and for a
 * synchronous commit: the local commit record decides about the workers' part.
 *
 * Outside of a transaction block Citus lets a statement for one shard commit at once, by
 * itself. If something failed after that, the increment would count although the transaction
 * does not. So each write starts a coordinated transaction first. There is one exception, as it
 * saves two of three messages: an increment that is all that the transaction does, and is
 * written in the last of our callbacks (core/counter/commit.c). That is the moment at which
 * Citus would commit it anyway. From then on the statement cannot be canceled, as the increment
 * would count although the client is told that it has failed. Only the server's own later steps
 * may still fail: NOTIFY with a full queue, as with any commit of Citus on one worker.
 *
 * Citus runs parts of a query on connections to its nodes, and to itself if the coordinator has
 * shards. An increment in such a part would be written when that connection commits, and if it
 * cannot be, Citus says so in a warning only. So calls there are refused (distribution_check).
 *
 * undistribute_table() and alter_distributed_table() create a new table, copy the rows, drop
 * the old one and rename the new one. To the event trigger for drops that is a DROP TABLE,
 * after which the shard table would be dropped as well. So it asks (conversion.c), and only the
 * settings go. Increments that would be written to the old table after its rows were copied are
 * an error.
 *
 * What is known of a table is read from Citus' catalog, and kept in the counter's cache entry:
 * Citus sends a relcache invalidation of a table when it changes how that is distributed, and
 * holds a lock that keeps writers away. No function of Citus is called for that, so it does not
 * matter whether its library is loaded; where a table is distributed, it must be.
 */
#include "postgres.h"

#include "access/genam.h"
#include "access/htup_details.h"
#include "access/xact.h"
#include "catalog/namespace.h"
#include "catalog/pg_class.h"
#include "catalog/pg_namespace.h"
#include "catalog/pg_type.h"
#include "commands/extension.h"
#include "fmgr.h"
#include "miscadmin.h"
#include "nodes/primnodes.h"
#include "utils/builtins.h"
#include "utils/fmgroids.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"
#include "utils/snapmgr.h"

#include "base/relopen.h"
#include "base/xactrooms.h"
#include "core/table/conversion.h"
#include "core/table/distribution.h"

/* Citus' entry for a table: a row of its catalog pg_dist_partition. */
typedef struct DcDistribution
{
	char method; /* 'h': by hash */
	char copies; /* 's': one copy of each shard */
	int32 colocation;
	AttrNumber column;
} DcDistribution;

/* Functions of Citus that are not in SQL. NULL until they are needed. */
static void (*use_coordinated)(void) = NULL;
static void (*use_two_phases)(void) = NULL;
static bool (*is_coordinated)(void) = NULL;
static bool (*is_internal)(void) = NULL;
static bool (*is_multi_statement)(void) = NULL;
static bool (*has_been_loaded)(void) = NULL;

/*
 * This transaction has written to a distributed table; distribution_end_xact() resets this and what
 * follows.
 */
static bool has_written = false;

/* What is being written may commit by itself, */
static bool writes_alone = false;

/* or has done so. */
static bool holds_cancel = false;

static void unsupported_catalog(Relation catalog, const char *column);
static int32 local_group(void);
static bool distribution_find(Oid relid, DcDistribution *found);
static bool is_elsewhere(Oid relid);
static bool has_local_shards(void);
static AttrNumber column_of(const char *partkey);
static char *distribution_problem_of(const DcCounter *counter, char **hint);
static char *kind_problem(const DcCounter *counter, char **hint);
static char *layout_problem(const DcCounter *counter, char **hint);
static char *method_problem(Oid counter, Oid relid, const DcDistribution *found, char **hint);
static bool schema_is_distributed(Oid schema);
static void find_functions(void);
static void prevent_part(const DcCounter *counter);
static void agree_with_workers(void);

/*
 * citus_catalog opens a catalog of Citus. Returns NULL if this database has no Citus.
 */
Relation
citus_catalog(const char *name)
{
	Oid relid;

	if (!OidIsValid(get_extension_oid("citus", true)))
		return NULL;
	relid = get_relname_relid(name, PG_CATALOG_NAMESPACE);
	return OidIsValid(relid) ? table_open_present(relid, AccessShareLock) : NULL;
}

/*
 * citus_attribute returns a value of a row of such a catalog. Other versions may have the columns
 * in another order.
 */
Datum
citus_attribute(Relation catalog, HeapTuple tuple, const char *name, Oid type)
{
	TupleDesc desc = RelationGetDescr(catalog);
	Datum *values = palloc(desc->natts * sizeof(Datum));
	bool *nulls = palloc(desc->natts * sizeof(bool));
	AttrNumber att = get_attnum(RelationGetRelid(catalog), name);

	heap_deform_tuple(tuple, desc, values, nulls);
	if (att <= 0 || TupleDescAttr(desc, att - 1)->atttypid != type || nulls[att - 1])
		unsupported_catalog(catalog, name);
	return values[att - 1];
}

/*
 * citus_row finds a row of such a catalog, by a column of type integer, bigint or regclass, or the
 * first one if column is NULL. It returns a copy, and the catalog, which is open then; NULL if
 * there is no such row, or no Citus.
 */
HeapTuple
citus_row(const char *name, const char *column, Datum value, Relation *catalog)
{
	Relation rel = *catalog = citus_catalog(name);
	ScanKeyData key;
	SysScanDesc scan;
	HeapTuple tuple;

	if (rel == NULL)
		return NULL;
	if (column != NULL)
	{
		AttrNumber att = get_attnum(RelationGetRelid(rel), column);
		Oid type;

		if (att <= 0)
			unsupported_catalog(rel, column);
		type = TupleDescAttr(RelationGetDescr(rel), att - 1)->atttypid;
		ScanKeyInit(&key, att, BTEqualStrategyNumber,
					type == INT8OID ? F_INT8EQ : type == INT4OID ? F_INT4EQ
																 : F_OIDEQ,
					value);
	}
	scan = systable_beginscan(rel, InvalidOid, false, NULL, column != NULL ? 1 : 0, &key);
	tuple = systable_getnext(scan);
	tuple = HeapTupleIsValid(tuple) ? heap_copytuple(tuple) : NULL;
	systable_endscan(scan);
	if (tuple == NULL)
		table_close(rel, AccessShareLock);
	return tuple;
}

/*
 * Raise 0A000: a catalog of Citus lacks a column that this library needs.
 */
static void
unsupported_catalog(Relation catalog, const char *column)
{
	ereport(ERROR,
			(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
			 errmsg("this version of Citus is not supported"),
			 errdetail("\"%s\" has no column \"%s\" of the type that was expected.",
					   RelationGetRelationName(catalog), column)));
}

/*
 * local_group returns the number of this server among those of Citus. The coordinator has 0.
 */
static int32
local_group(void)
{
	Relation catalog;
	HeapTuple tuple = citus_row("pg_dist_local_group", NULL, (Datum) 0, &catalog);
	int32 group;

	if (tuple == NULL)
		return 0;
	group = DatumGetInt32(citus_attribute(catalog, tuple, "groupid", INT4OID));
	table_close(catalog, AccessShareLock);
	return group;
}

/*
 * distribution_find reads how Citus distributes a table. Returns false if it does not.
 */
static bool
distribution_find(Oid relid, DcDistribution *found)
{
	Relation catalog;
	HeapTuple tuple = citus_row("pg_dist_partition", "logicalrelid", ObjectIdGetDatum(relid), &catalog);

	if (tuple == NULL)
		return false;
	*found = (DcDistribution){
		.method = DatumGetChar(citus_attribute(catalog, tuple, "partmethod", CHAROID)),
		.copies = DatumGetChar(citus_attribute(catalog, tuple, "repmodel", CHAROID)),
		.colocation = DatumGetInt32(citus_attribute(catalog, tuple, "colocationid", INT4OID)),
	};
	if (found->method == 'h') /* others may have none */
		found->column = column_of(TextDatumGetCString(citus_attribute(catalog, tuple, "partkey", TEXTOID)));
	table_close(catalog, AccessShareLock);
	return true;
}

/*
 * column_of returns the column in a stored partition key, which is a Var.
 */
static AttrNumber
column_of(const char *partkey)
{
	Node *node = stringToNode(partkey);

	return node != NULL && IsA(node, Var) ? ((Var *) node)->varattno : InvalidAttrNumber;
}

/*
 * Return true if Citus has a table's rows elsewhere.
 */
bool
relation_is_distributed(Oid relid)
{
	DcDistribution found;

	return OidIsValid(relid) && distribution_find(relid, &found);
}

/*
 * Return true if Citus distributes the table and this is a worker: only the coordinator's
 * functions can use it.
 */
bool
relation_is_on_coordinator(Oid relid)
{
	return relation_is_distributed(relid) && local_group() != 0;
}

/*
 * Return true if Citus manages a table.
 */
static bool
is_elsewhere(Oid relid)
{
	return relation_is_distributed(relid) || relation_is_shard(relid);
}

/*
 * distribution_fill sets the fields of a cache entry that are about this. It comes after the
 * others.
 */
void
distribution_fill(DcCounter *counter)
{
	char *hint;

	counter->distributed = OidIsValid(get_extension_oid("citus", true)) &&
		(is_elsewhere(counter->relid) || is_elsewhere(counter->row.shards) || is_elsewhere(counter->row.holds));
	counter->misplaced = counter->local_shards = false;
	if (!counter->distributed)
		return;
	counter->misplaced = distribution_problem_of(counter, &hint) != NULL;
	if (!counter->misplaced)
		find_functions();
	counter->foreign = true;
	counter->local_shards = has_local_shards();
}

/*
 * Return true if the coordinator has shards itself, of any table.
 */
static bool
has_local_shards(void)
{
	Relation catalog;
	HeapTuple tuple = citus_row("pg_dist_placement", "groupid", Int32GetDatum(local_group()), &catalog);

	if (tuple != NULL)
		table_close(catalog, AccessShareLock);
	return tuple != NULL;
}

/*
 * distribution_check raises 0A000 if a counter table is distributed in a way in which it cannot be
 * used.
 */
void
distribution_check(const DcCounter *counter)
{
	char *hint = NULL;
	char *problem;

	if (likely(!counter->misplaced))
	{
		if (counter->distributed)
			prevent_part(counter);
		return;
	}
	problem = distribution_problem_of(counter, &hint);
	ereport(ERROR,
			(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
			 errmsg("counter table \"%s\" cannot be used the way Citus distributes it", get_rel_name(counter->relid)),
			 problem != NULL ? errdetail_internal("%s", problem) : 0,
			 hint != NULL ? errhint("%s", hint) : 0));
}

/*
 * prevent_part raises 0A000 if this process works on a part of another one's query.
 */
static void
prevent_part(const DcCounter *counter)
{
	find_functions();
	if (is_internal())
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("counter table \"%s\" cannot be used in a part of a query that Citus pushes down to the shards",
						get_rel_name(counter->relid)),
				 errhint("Call the function with the result of the query: WITH r AS MATERIALIZED (...) SELECT dc_incr(..., r.key) FROM r.")));
}

/*
 * distribution_problem_of returns why a counter table that is distributed cannot be used, with
 * a hint; NULL if it can.
 */
static char *
distribution_problem_of(const DcCounter *counter, char **hint)
{
	char *problem;

	*hint = NULL;
	if (local_group() != 0)
	{
		*hint = _("Call it on the coordinator.");
		return _("This is a worker of Citus.");
	}
	if (!citus_is_loaded())
	{
		*hint = _("Put it into shared_preload_libraries again.");
		return _("The library of Citus is not loaded.");
	}
	if (relation_is_shard(counter->relid) || relation_is_shard(counter->row.shards))
	{
		*hint = _("Make the table that it is a shard of local again with undistribute_table(), and register that with dc_adopt().");
		return _("It has become a shard of Citus.");
	}
	problem = kind_problem(counter, hint);
	return problem != NULL ? problem : layout_problem(counter, hint);
}

/*
 * kind_problem returns why counters of this kind cannot be distributed, and sets *hint; NULL if
 * they can.
 */
static char *
kind_problem(const DcCounter *counter, char **hint)
{
	*hint = _("Make it local again with undistribute_table(), and register it with dc_adopt().");
	if (counter_is_stock(counter))
		return _("It is a stock, whose units are taken without SQL.");
	if (OidIsValid(counter->row.ledger))
		return _("It belongs to a ledger.");
	if (counter_is_replicated(counter))
		return _("It is replicated between regions.");
	if (counter_is_buffered(counter))
	{
		*hint = _("Call dc_alter(..., mode => 'exact'), which writes what is in memory.");
		return _("It is buffered: amounts in memory cannot be committed together with rows on other servers.");
	}
	if (counter->bound)
	{
		*hint = _("Call dc_unbind() first.");
		return _("It is bound to a source, which cannot be read in one snapshot with rows on other servers.");
	}
	if (counter_has_trend(counter))
	{
		*hint = _("Call dc_alter(..., trend => '0') first.");
		return _("It has a trend, whose weights are in this database.");
	}
	if (catalog_has(catalog_relation("window_slot"), counter->relid))
	{
		*hint = _("undistribute_table() makes it local again, with its amounts, but outside of any windowed counter. Move the amounts elsewhere with dc_load().");
		return _("It is part of a windowed counter, which empties it.");
	}
	if (counter->nforeign > 0)
		return _("It has foreign partitions.");
	if (get_rel_relkind(counter->relid) != RELKIND_RELATION || get_rel_relkind(counter->row.shards) != RELKIND_RELATION)
		return _("It is partitioned. Only plain counter tables can be distributed.");
	*hint = NULL;
	return NULL;
}

/*
 * layout_problem returns what is wrong with how the two tables are distributed, and sets *hint;
 * NULL if nothing is.
 */
static char *
layout_problem(const DcCounter *counter, char **hint)
{
	Oid relids[] = {counter->relid, counter->row.shards};
	DcDistribution found[2];

	for (int i = 0; i < 2; i++)
	{
		DcDistribution one;
		char *problem = distribution_find(relids[i], &one) ? method_problem(counter->relid, relids[i], &one, hint) : NULL;

		if (problem != NULL)
			return problem;
	}
	*hint = psprintf(_("Use create_distributed_table('%s', 'key') and create_distributed_table('%s', 'key', colocate_with => '%s')."),
					 relation_sql_name(counter->relid), relation_sql_name(counter->row.shards),
					 relation_sql_name(counter->relid));
	for (int i = 0; i < 2; i++)
	{
		char *name = get_rel_name(relids[i]);

		if (name == NULL || !distribution_find(relids[i], &found[i]))
			return psprintf(_("\"%s\" is not distributed, but the other of its two tables is."), name != NULL ? name : "");
		if (found[i].method != 'h' || found[i].column == InvalidAttrNumber ||
			found[i].column != get_attnum(relids[i], "key"))
			return psprintf(_("\"%s\" is not distributed by a hash of its key."), name);
		if (found[i].copies != 's')
			return psprintf(_("The shards of \"%s\" have several copies, which Citus writes itself."), name);
	}
	if (found[0].colocation == 0 || found[0].colocation != found[1].colocation)
		return _("Its two tables are not colocated, so the rows of a key are on several servers.");
	*hint = NULL;
	return NULL;
}

/*
 * method_problem returns what Citus has made of one of them, if that is not a table with
 * shards.
 */
static char *
method_problem(Oid counter, Oid relid, const DcDistribution *found, char **hint)
{
	char *name = get_rel_name(relid);

	if (found->method == 'h' || name == NULL)
		return NULL;
	if (schema_is_distributed(get_rel_namespace(relid)))
	{
		*hint = _("Use a schema that is not distributed. Make its tables local again with citus_schema_undistribute(), and register them with dc_adopt().");
		return psprintf(_("\"%s\" is in a distributed schema, with all rows in one shard."), name);
	}
	*hint = psprintf(_("Call undistribute_table() for each of its tables of that kind, then dc_adopt('%s'). Then distribute both by their key with create_distributed_table()."),
					 relation_sql_name(counter));
	if (found->method == 'n' && found->copies == 't')
		return psprintf(_("\"%s\" is a reference table, of which each server has a copy."), name);
	if (found->method == 'n' && found->colocation == 0)
		return psprintf(_("\"%s\" is a local table that was added to Citus' metadata."), name);
	if (found->method == 'n')
		return psprintf(_("\"%s\" has a single shard."), name);
	return psprintf(_("\"%s\" is not distributed by a hash."), name);
}

/*
 * Return true if Citus turns each table in a schema into one shard.
 */
static bool
schema_is_distributed(Oid schema)
{
	Relation catalog;
	HeapTuple tuple = citus_row("pg_dist_schema", "schemaid", ObjectIdGetDatum(schema), &catalog); /* since Citus 12 */

	if (tuple != NULL)
		table_close(catalog, AccessShareLock);
	return tuple != NULL;
}

/*
 * elsewhere_detail says, of a counter table with rows on other servers, how they got there.
 */
const char *
elsewhere_detail(const DcCounter *counter)
{
	return counter->distributed ? _("It is distributed by Citus.") : _("It is a foreign table or has foreign partitions.");
}

/*
 * find_functions finds Citus' functions. If its library is not preloaded, Citus' own error says
 * what to do.
 */
static void
find_functions(void)
{
	if (is_coordinated != NULL)
		return;
	use_coordinated = citus_function("UseCoordinatedTransaction");
	use_two_phases = citus_function("Use2PCForCoordinatedTransaction");
	has_been_loaded = citus_function("CitusHasBeenLoaded");
	is_internal = citus_function("IsCitusInternalBackend");
	is_multi_statement = citus_function("IsMultiStatementTransaction");
	is_coordinated = citus_function("InCoordinatedTransaction");
}

/*
 * Return the address of a function in Citus' library, which is loaded if necessary. Raises
 * 0A000 if it has none of this name.
 */
void *
citus_function(const char *name)
{
	void *function = load_external_function("$libdir/citus", name, false, NULL);

	if (function == NULL)
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("this version of Citus is not supported"),
				 errdetail("Its library has no function %s().", name)));
	return function;
}

/*
 * distribution_write begins a coordinated transaction of Citus, before a statement that may
 * write to a distributed table.
 */
void
distribution_write(void)
{
	find_functions();
	if (distribution_is_converting())
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("a table cannot be re-created while this transaction has pending increments of it"),
				 errhint("Call dc_apply() or commit first.")));
	if (writes_alone)
		return;
	xact_mark(DC_XACT_COUNTER);
	xact_mark(DC_XACT_LAST);
	has_written = true;
	/* initialize Citus here; it does so itself only in client backends and in the planner */
	(void) has_been_loaded();
	use_coordinated();
	agree_with_workers();
	/* Citus may take two phases by itself, and its record of them is in the local commit */
	ForceSyncCommit();
}

/*
 * agree_with_workers makes the local commit decide about the commits on the workers, if
 * something was written here.
 */
static void
agree_with_workers(void)
{
	if (!TransactionIdIsValid(GetTopTransactionIdIfAny()))
		return;
	use_two_phases();
	ForceSyncCommit();
}

/*
 * Return true if this transaction has done nothing that is to be committed, so that
 * a single statement may commit by itself.
 */
bool
distribution_may_write_alone(void)
{
	return is_coordinated != NULL && !TransactionIdIsValid(GetTopTransactionIdIfAny()) && !is_coordinated();
}

/*
 * distribution_write_alone lets the next statement commit by itself, or ends that. A request to
 * cancel waits until the transaction has ended: an error resets the server's count of holds on
 * interrupts.
 */
void
distribution_write_alone(bool alone)
{
	xact_mark(DC_XACT_COUNTER);
	writes_alone = alone;
	if (alone && !holds_cancel)
	{
		HOLD_CANCEL_INTERRUPTS();
		holds_cancel = true;
	}
}

/*
 * Return true if such a statement has committed; if not, it is part of this transaction.
 */
bool
distribution_has_committed(void)
{
	return !TransactionIdIsValid(GetTopTransactionIdIfAny()) && !is_coordinated();
}

/*
 * Return true if this transaction is more than one statement of a client. Citus commits the
 * statements of a DO block or a procedure together.
 */
bool
distribution_in_block(void)
{
	return IsTransactionBlock() || is_multi_statement();
}

/*
 * Return true between distribution_write_alone(true) and (false).
 */
bool
distribution_is_alone(void)
{
	return writes_alone;
}

/*
 * distribution_before_commit makes the commits on the workers depend on the local one, if
 * needed; called when this library has written everything.
 */
void
distribution_before_commit(void)
{
	if (has_written)
		agree_with_workers();
}

/*
 * distribution_end_xact forgets the state of a transaction that has ended.
 */
void
distribution_end_xact(void)
{
	has_written = false;
	writes_alone = false;
	if (holds_cancel && QueryCancelHoldoffCount > 0)
		RESUME_CANCEL_INTERRUPTS();
	holds_cancel = false;
}
