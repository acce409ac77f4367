/*
 * protect.c
 *		Triggers that keep the tables of a counter together.
 *
 * Copyright (c) 2026, the dcounter developers
 *
 * The value of a key is the sum over several tables, so none of them may be emptied
 * alone. Statement triggers see to that; they need no preload, and the direct path
 * (layout.c), which neither deletes nor truncates, is not concerned.
 *
 *	- TRUNCATE of the table of totals truncates the shard table, the table of holds, and,
 *	  by way of the rooms below, all tables of a ledger, and what was read of the keys. TRUNCATE
 *	  of a partition deletes the shard rows of its keys, what was read of these, and
 *	  their weights in a trend. The trigger
 *	  fires always, in the worker of a subscription, too.
 *	- TRUNCATE of a shard table or of holds by themselves is refused for a stock and for a
 *	  ledger: units, or rows that balances must agree with, would be lost. The shard table of
 *	  a plain counter may be truncated; that forgets amounts that are not yet compacted.
 *	- TRUNCATE of any table of a counter that is bound to a source is refused: its values
 *	  are those of the source.
 *	- TRUNCATE of any table of a counter that is replicated between regions is refused: the
 *	  amounts of the regions come from all of them.
 *	- Direct DELETE is refused for a stock and for a ledger, for the same reason. Rows of a plain
 *	  counter may be deleted: that forgets the amounts in these rows.
 *	- Changing the amounts of a stock's totals directly is refused as well: they would be shown, but
 *	  no units could be taken. Further columns may be changed, and shard rows for repairs. Ledgers
 *	  have a guard of their own (guard.c).
 *	- Distinct tables have the same triggers (time/distinct/distinctddl.c).
 *
 * Protocol of TRUNCATE. The tables are locked in the order that all transactions use: totals
 * (by the statement itself), shards, holds, others. All writers to any of them have locked the
 * totals first, so from the first lock on no other session changes anything, and nothing can
 * deadlock with increments, takes, compaction or transfers; a table that is found empty under
 * that lock stays so. Increments of this transaction that are not written yet are written
 * before the statement runs (ddl.c): so they go, those that follow stay, and both come back
 * with ROLLBACK TO. Amounts in memory are discarded by memory/buffer/discard.c.
 *
 * All runs after the statement, and as the owner of the totals, in a security-restricted
 * operation: a role that may truncate the totals need not have rights to the other tables. But
 * only its owner may empty a ledger. Tables that the statement lists itself are in use, but empty
 * by then, and are skipped.
 *
 * The trigger belongs to the table, and is dropped with the extension, without CASCADE (DEPENDS
 * ON EXTENSION). Any role may put its function on any table: its effect follows from the
 * catalog alone, and on other tables it has none. There are none where Citus is installed,
 * which distributes no table with triggers, nor on foreign tables: there, both tables must be
 * truncated.
 */
#include "postgres.h"

#include "access/table.h"
#include "catalog/dependency.h"
#include "catalog/partition.h"
#include "catalog/pg_extension.h"
#include "catalog/pg_inherits.h"
#include "catalog/pg_trigger.h"
#include "catalog/pg_type.h"
#include "commands/extension.h"
#include "commands/trigger.h"
#include "executor/spi.h"
#include "miscadmin.h"
#include "parser/parse_func.h"
#include "storage/bufmgr.h"
#include "storage/lmgr.h"
#include "utils/datum.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"
#include "utils/reltrigger.h"
#include "utils/ruleutils.h"
#include "utils/snapmgr.h"

#include "base/compat.h"
#include "base/hooks.h"
#include "base/relopen.h"
#include "base/rowread.h"
#include "base/runas.h"
#include "core/table/access.h"
#include "core/table/guard.h"
#include "core/table/ownstatement.h"
#include "core/table/protect.h"

PG_FUNCTION_INFO_V1(on_counter_truncate);
PG_FUNCTION_INFO_V1(on_counter_delete);

#define TRUNCATE_TRIGGER "dcounter_truncate"
#define DELETE_TRIGGER "dcounter_delete"
#define CHANGE_TRIGGER "dcounter_change"

static DcMember member_of(Oid relid, DcCounterRow *row);
static void create_truncate(Oid relid, bool always);
static void create_delete(Oid relid, const char *when);
static void create_change(Oid relid);
static bool amounts_change(const TriggerData *data);
static void refuse_change(const DcCounterRow *row, DcMember member, Oid relid, bool deletes);
static bool is_truncated_too(Oid relid);
static void truncated_totals(const DcCounterRow *row);
static void truncated_partition(const DcCounterRow *row, Oid relid);
static void delete_unread(const DcCounterRow *row, char *condition);
static void delete_trend(const DcCounterRow *row, char *condition);
static char *protect_keys_of(Oid relid);
static void write_down(const DcCounterRow *row);
static void protect_delete_rows(Oid relid, char *condition);
static void refuse_truncate(const DcCounterRow *row, Oid relid);
static int must_agree_detail(const DcCounterRow *row);
pg_noreturn static void wrong_call(const char *function, const char *when);

/*
 * member_find returns what a table, or the table that it is a partition of, is to a counter.
 * Sets the counter's row, and *root to the table that the row names.
 */
DcMember
member_find(Oid relid, DcCounterRow *row, Oid *root)
{
	DcMember member = member_of(relid, row);
	List *ancestors;
	ListCell *lc;

	*root = relid;
	if (member != DC_MEMBER_NONE || !get_rel_relispartition(relid))
		return member;
	ancestors = get_partition_ancestors(relid);
	foreach(lc, ancestors)
	{
		*root = lfirst_oid(lc);
		member = member_of(*root, row);
		if (member != DC_MEMBER_NONE)
			break;
	}
	return member;
}

/*
 * Return what a table itself is to a counter, and set the counter's row.
 */
static DcMember
member_of(Oid relid, DcCounterRow *row)
{
	if (catalog_read(relid, row))
		return DC_MEMBER_TOTALS;
	if (catalog_read_by_shards(relid, row))
		return DC_MEMBER_SHARDS;
	if (catalog_read_by_holds(relid, row))
		return DC_MEMBER_HOLDS;
	if (catalog_read_by_regions(relid, row) || catalog_read_by_sets(relid, row) ||
		catalog_read_by_grants(relid, row) || catalog_read_by_wants(relid, row))
		return DC_MEMBER_REGIONS;
	return DC_MEMBER_NONE;
}

/*
 * Return true if a counter's tables must agree with each other row by row.
 */
static bool
is_whole(const DcCounterRow *row)
{
	return OidIsValid(row->holds) || OidIsValid(row->ledger);
}

/*
 * protect_create puts the triggers on the tables of a counter, where they are missing
 * or disabled. Runs as the current user, who owns the tables.
 */
void
protect_create(const DcCounterRow *row)
{
	List *members = relation_members(row->counter, NoLock);
	ListCell *lc;

	if (!is_whole(row) && OidIsValid(get_extension_oid("citus", true)))
		return;
	foreach(lc, members)
		create_truncate(lfirst_oid(lc), true);
	if (!is_whole(row))
		return;
	create_delete(row->counter, NULL);
	create_truncate(row->shards, false);
	create_delete(row->shards, NULL);
	if (!OidIsValid(row->holds))
		return;
	if (!OidIsValid(row->ledger))
		create_change(row->counter);
	create_truncate(row->holds, false);
	create_delete(row->holds, "OLD.state OPERATOR(pg_catalog.=) 'open'");
}

/*
 * protect_create_partition does the same for a table that has become a partition.
 */
void
protect_create_partition(Oid relid)
{
	List *members;
	ListCell *lc;
	DcCounterRow row;
	Oid root;

	if (member_find(relid, &row, &root) != DC_MEMBER_TOTALS ||
		OidIsValid(get_extension_oid("citus", true)))
		return;
	members = relation_members(relid, NoLock);
	foreach(lc, members)
		create_truncate(lfirst_oid(lc), true);
}

/*
 * protect_create_bound puts a trigger on the shard table of a counter that is being bound to a
 * source. It stays when that ends, and has no effect then. Runs as the current user.
 */
void
protect_create_bound(const DcCounterRow *row)
{
	ListCell *lc;

	if (OidIsValid(get_extension_oid("citus", true)))
		return;
	foreach(lc, relation_members(row->shards, NoLock))
		create_truncate(lfirst_oid(lc), true);
}

/*
 * protect_create_replicated does the same for a counter that is being replicated between
 * regions, and for its further tables.
 */
void
protect_create_replicated(const DcCounterRow *row)
{
	const Oid more[] = {row->regions, row->sets, row->grants, row->wants};

	protect_create_bound(row);
	for (int i = 0; i < lengthof(more); i++)
	{
		if (OidIsValid(more[i]))
			create_truncate(more[i], true);
	}
}

/*
 * protect_create_truncate puts the trigger for TRUNCATE on a table of another room.
 */
void
protect_create_truncate(Oid relid)
{
	if (!OidIsValid(get_extension_oid("citus", true)))
		create_truncate(relid, true);
}

/*
 * protect_create_change puts a trigger that refuses DELETE and UPDATE on a table of another
 * room.
 */
void
protect_create_change(Oid relid)
{
	if (OidIsValid(get_extension_oid("citus", true)))
		return;
	trigger_create(relid, DELETE_TRIGGER,
				   psprintf("BEFORE DELETE OR UPDATE ON %s FOR EACH STATEMENT"
							" EXECUTE FUNCTION " DC_SCHEMA "." PROTECT_DELETE_FUNCTION "()",
							relation_sql_name(relid)));
}

/*
 * Put the trigger for TRUNCATE on a table, unless it is a foreign one; `always` has it fire for
 * a subscription, too.
 */
static void
create_truncate(Oid relid, bool always)
{
	if (get_rel_relkind(relid) == RELKIND_FOREIGN_TABLE)
		return;
	trigger_create(relid, TRUNCATE_TRIGGER,
				   psprintf("AFTER TRUNCATE ON %s FOR EACH STATEMENT"
							" EXECUTE FUNCTION " DC_SCHEMA "." PROTECT_TRUNCATE_FUNCTION "()",
							relation_sql_name(relid)));
	if (always)
		run_ddl(psprintf("ALTER TABLE %s ENABLE ALWAYS TRIGGER " TRUNCATE_TRIGGER,
						 relation_sql_name(relid)));
}

/*
 * create_delete creates a trigger that refuses DELETE statements, or, with a condition, rows.
 */
static void
create_delete(Oid relid, const char *when)
{
	if (get_rel_relkind(relid) == RELKIND_FOREIGN_TABLE)
		return;
	trigger_create(relid, DELETE_TRIGGER,
				   psprintf("BEFORE DELETE ON %s FOR EACH %s"
							" EXECUTE FUNCTION " DC_SCHEMA "." PROTECT_DELETE_FUNCTION "()",
							relation_sql_name(relid),
							when == NULL ? "STATEMENT" : psprintf("ROW WHEN (%s)", when)));
}

/*
 * create_change creates a trigger that refuses rows that have, or get, other amounts.
 */
static void
create_change(Oid relid)
{
	trigger_create(relid, CHANGE_TRIGGER,
				   psprintf("BEFORE INSERT OR UPDATE ON %s FOR EACH ROW"
							" EXECUTE FUNCTION " DC_SCHEMA "." PROTECT_DELETE_FUNCTION "()",
							relation_sql_name(relid)));
}

/*
 * trigger_create creates a trigger, or replaces it. It does what ALTER TRIGGER ... DEPENDS ON
 * EXTENSION does, but without the lock on the extension, which is exclusive until the
 * transaction ends: no other session could create a counter in the meantime.
 */
void
trigger_create(Oid relid, const char *name, const char *definition)
{
	ObjectAddress trigger;
	ObjectAddress extension;

	run_ddl(psprintf("CREATE OR REPLACE TRIGGER %s %s", name, definition));
	ObjectAddressSet(trigger, TriggerRelationId, get_trigger_oid(relid, name, false));
	ObjectAddressSet(extension, ExtensionRelationId, get_extension_oid("dcounter", false));
	LockDatabaseObject(ExtensionRelationId, extension.objectId, 0, AccessShareLock);
	if (!list_member_oid(getAutoExtensionsOfObject(trigger.classId, trigger.objectId),
						 extension.objectId))
		recordDependencyOn(&trigger, &extension, DEPENDENCY_AUTO_EXTENSION);
}

/*
 * protect_keeps_rows returns true if a table has the trigger that keeps the rows of a stock or a
 * ledger.
 */
bool
protect_keeps_rows(Oid relid)
{
	return OidIsValid(get_trigger_oid(relid, DELETE_TRIGGER, true));
}

/*
 * on_counter_truncate() -> trigger, AFTER TRUNCATE: empties the other tables of a counter
 * whose table of totals was truncated; 55000 for a table of a stock or a ledger that must not
 * be truncated by itself.
 */
Datum
on_counter_truncate(PG_FUNCTION_ARGS)
{
	TriggerData *data = (TriggerData *) fcinfo->context;
	DcCounterRow row;
	DcMember member;
	Oid relid;
	Oid root;

	if (!CALLED_AS_TRIGGER(fcinfo) || !TRIGGER_FIRED_BY_TRUNCATE(data->tg_event) ||
		!TRIGGER_FIRED_AFTER(data->tg_event))
		wrong_call(PROTECT_TRUNCATE_FUNCTION "()", "AFTER TRUNCATE");
	relid = RelationGetRelid(data->tg_relation);
	member = member_find(relid, &row, &root);
	if (member != DC_MEMBER_NONE && bound_hooks->is_bound(row.counter))
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("cannot truncate \"%s\": counter table \"%s\" is bound to a source",
						get_rel_name(relid), get_rel_name(row.counter)),
				 errhint("TRUNCATE the source, or call dc_unbind() first.")));
	if (member != DC_MEMBER_NONE && (OidIsValid(row.regions) || OidIsValid(row.grants)))
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("cannot truncate \"%s\": counter table \"%s\" is replicated between regions",
						get_rel_name(relid), get_rel_name(row.counter)),
				 OidIsValid(row.grants)
					 ? errdetail("The other regions would keep the units given to them, and send them again.")
					 : errdetail("The other regions would keep their amounts, and send them again.")));
	switch (member)
	{
		case DC_MEMBER_NONE:
			distinct_hooks->truncated(relid);
			break;
		case DC_MEMBER_REGIONS:
			break;
		case DC_MEMBER_TOTALS:
			if (relid != root)
				truncated_partition(&row, relid);
			else if (OidIsValid(row.ledger) && row.ledger != relid && !own_truncate_fires(relid))
				refuse_truncate(&row, relid);
			else
				truncated_totals(&row);
			break;
		case DC_MEMBER_SHARDS:
			if (is_whole(&row) && !own_truncate_fires(relid) &&
				(OidIsValid(row.ledger) || !is_truncated_too(row.counter)))
				refuse_truncate(&row, relid);
			break;
		case DC_MEMBER_HOLDS:
			if (!own_truncate_fires(relid) &&
				(OidIsValid(row.ledger) || !is_truncated_too(row.counter) || !is_truncated_too(row.shards)))
				refuse_truncate(&row, relid);
			break;
	}
	PG_RETURN_POINTER(NULL);
}

/*
 * Return true if this transaction has truncated another table, perhaps by the same statement.
 * An empty table is no proof: before the first compaction the totals are empty, too. A session
 * that has it locked against us is changing it; to wait for that session could be a deadlock,
 * as all others lock the totals first.
 */
static bool
is_truncated_too(Oid relid)
{
	Relation rel;
	bool locked;

	if (!ConditionalLockRelationOid(relid, AccessShareLock))
		return false;
	rel = try_table_open(relid, NoLock);
	if (rel == NULL)
		return false; /* dropped while event triggers were off */
	locked = CheckRelationLockedByMe(rel, AccessExclusiveLock, false);
	table_close(rel, NoLock);
	return locked && relation_is_empty(relid);
}

/*
 * truncated_totals empties the other tables.
 */
static void
truncated_totals(const DcCounterRow *row)
{
	List *unread = unread_hooks->tables(row->counter);
	ListCell *lc;
	DcRunAs state;

	if (row->ledger == row->counter && !compat_owns_relation(row->counter, GetUserId()))
		ereport(ERROR,
				(errcode(ERRCODE_INSUFFICIENT_PRIVILEGE),
				 errmsg("must be owner of ledger \"%s\" to truncate it",
						get_rel_name(row->counter))));
	if (buffer_hooks != NULL)
		buffer_hooks->truncated(row->counter);
	runas_begin(&state, relation_owner(row->counter));
	relation_truncate(row->shards);
	if (OidIsValid(row->holds))
		relation_truncate(row->holds);
	if (ledger_hooks != NULL)
		ledger_hooks->emptied(row);
	foreach(lc, unread)
		relation_truncate(lfirst_oid(lc));
	if (OidIsValid(row->trends))
		relation_truncate(row->trends);
	runas_end(&state);
}

/*
 * relation_truncate truncates a table that is not empty, as the current user.
 */
void
relation_truncate(Oid relid)
{
	if (get_rel_name(relid) != NULL && !relation_is_empty(relid))
		own_truncate(relid, false);
}

/*
 * Return true if a table and its partitions have no pages, or are not there any more. Tables on
 * other servers are not looked at.
 */
bool
relation_is_empty(Oid relid)
{
	List *members;
	ListCell *lc;
	bool empty = true;

	LockRelationOid(relid, AccessShareLock);
	members = relation_members(relid, AccessShareLock);
	foreach(lc, members)
	{
		Relation rel = try_table_open(lfirst_oid(lc), NoLock);

		if (rel == NULL)
			continue; /* dropped while we waited */
		if (rel->rd_rel->relkind == RELKIND_FOREIGN_TABLE)
			empty = false;
		else if (RELKIND_HAS_STORAGE(rel->rd_rel->relkind))
			empty &= RelationGetNumberOfBlocks(rel) == 0;
		table_close(rel, NoLock);
	}
	list_free(members);
	return empty;
}

/*
 * truncated_partition deletes the shard rows of the keys that belong to a partition of
 * the totals. Increments that are committed while it waits for a row come afterwards.
 */
static void
truncated_partition(const DcCounterRow *row, Oid relid)
{
	bool buffered = row->mode == DC_MODE_BUFFERED && buffer_hooks != NULL;
	DcRunAs state;

	if (get_rel_name(row->shards) == NULL)
		return; /* dropped while event triggers were off */
	if (buffered)
		write_down(row);
	LockRelationOid(row->shards, RowExclusiveLock);
	runas_begin(&state, relation_owner(row->counter));
	if (buffered)
		protect_delete_rows(relid, "true"); /* amounts from memory may be there now */
	if (!relation_is_empty(row->shards))
		protect_delete_rows(row->shards, protect_keys_of(relid));
	delete_unread(row, protect_keys_of(relid));
	delete_trend(row, protect_keys_of(relid));
	runas_end(&state);
}

/*
 * delete_unread deletes the rows of the keys in unread tables.
 */
static void
delete_unread(const DcCounterRow *row, char *condition)
{
	List *tables = unread_hooks->tables(row->counter);
	ListCell *lc;

	foreach(lc, tables)
	{
		if (relation_is_empty(lfirst_oid(lc)))
			continue;
		LockRelationOid(lfirst_oid(lc), RowExclusiveLock);
		protect_delete_rows(lfirst_oid(lc), condition);
	}
}

/*
 * delete_trend deletes the weights of the keys, if there is a trend.
 */
static void
delete_trend(const DcCounterRow *row, char *condition)
{
	if (!OidIsValid(row->trends))
		return;
	LockRelationOid(row->trends, RowExclusiveLock);
	if (get_rel_name(row->trends) != NULL && !relation_is_empty(row->trends))
		protect_delete_rows(row->trends, condition);
}

/*
 * protect_keys_of returns the condition for the keys that belong to a partition, of rows s. A
 * default partition that is the only one has all.
 */
static char *
protect_keys_of(Oid relid)
{
	char *condition = pg_get_partconstrdef_string(relid, "s");

	return condition[0] == '\0' ? "true" : condition;
}

/*
 * write_down writes the amounts in memory to rows, and keeps other sessions from adding to it
 * before this transaction has ended.
 */
static void
write_down(const DcCounterRow *row)
{
	if (counter_lock(row->counter, ShareRowExclusiveLock))
		buffer_hooks->write_down(counter_lookup(row->counter));
}

/*
 * protect_delete_rows deletes all committed rows, whatever this transaction's snapshot shows,
 * as TRUNCATE does.
 */
static void
protect_delete_rows(Oid relid, char *condition)
{
	SPIPlanPtr plan;
	char *sql = psprintf("DELETE FROM %s AS s WHERE %s", relation_sql_name(relid), condition);

	SPI_connect();
	plan = SPI_prepare(sql, 0, NULL);
	if (plan == NULL)
		elog(ERROR, "SPI_prepare failed for \"%s\": %s", sql,
			 SPI_result_code_string(SPI_result));
	CommandCounterIncrement();
	if (SPI_execute_snapshot(plan, NULL, NULL, GetLatestSnapshot(), InvalidSnapshot,
							 false, true, 0) != SPI_OK_DELETE)
		elog(ERROR, "SPI_execute_snapshot failed");
	SPI_finish();
}

/*
 * Raise 55000: a table of a stock or a ledger cannot be truncated by itself.
 */
static void
refuse_truncate(const DcCounterRow *row, Oid relid)
{
	ereport(ERROR,
			(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
			 errmsg("cannot truncate \"%s\" by itself", get_rel_name(relid)),
			 must_agree_detail(row),
			 errhint("Use TRUNCATE on \"%s\" alone, which empties all of its tables.",
					 get_rel_name(OidIsValid(row->ledger) ? row->ledger : row->counter))));
}

/*
 * Set the DETAIL for a change that would make tables disagree.
 */
static int
must_agree_detail(const DcCounterRow *row)
{
	return errdetail("It must agree with the other tables of %s \"%s\".",
					 OidIsValid(row->ledger) ? "ledger" : "stock",
					 get_rel_name(OidIsValid(row->ledger) ? row->ledger : row->counter));
}

/*
 * on_counter_delete() -> trigger, BEFORE DELETE, or, of a statement or a stock's rows, BEFORE
 * INSERT OR UPDATE: refuses what does not come from the functions of a stock or a ledger, and
 * changes of a distinct table (55000).
 */
Datum
on_counter_delete(PG_FUNCTION_ARGS)
{
	TriggerData *data = (TriggerData *) fcinfo->context;
	bool deletes;
	DcCounterRow row;
	DcMember member;
	Oid relid;
	Oid root;

	if (!CALLED_AS_TRIGGER(fcinfo) || !TRIGGER_FIRED_BEFORE(data->tg_event) || TRIGGER_FIRED_BY_TRUNCATE(data->tg_event))
		wrong_call(PROTECT_DELETE_FUNCTION "()", "BEFORE DELETE");
	relid = RelationGetRelid(data->tg_relation);
	deletes = TRIGGER_FIRED_BY_DELETE(data->tg_event);
	if (!own_statement_fires(fcinfo))
	{
		member = member_find(relid, &row, &root);
		if (member == DC_MEMBER_NONE)
			distinct_hooks->prevent_change(relid);
		else if (is_whole(&row) && (deletes || TRIGGER_FIRED_FOR_STATEMENT(data->tg_event) || amounts_change(data)))
			refuse_change(&row, member, relid, deletes);
	}
	if (!TRIGGER_FIRED_FOR_ROW(data->tg_event))
		PG_RETURN_POINTER(NULL);
	PG_RETURN_POINTER(TRIGGER_FIRED_BY_UPDATE(data->tg_event) ? data->tg_newtuple : data->tg_trigtuple);
}

/*
 * Return true if a row that is being inserted has an amount, or one that is being updated gets
 * another amount or key.
 */
static bool
amounts_change(const TriggerData *data)
{
	static const DcResultColumn columns[] = {DC_BIGINT("inc"), DC_BIGINT("dec"), DC_TEXT("key")};
	Relation rel = data->tg_relation;
	bool updates = TRIGGER_FIRED_BY_UPDATE(data->tg_event);

	for (int i = 0; i < (updates ? lengthof(columns) : 2); i++)
	{
		int att = SPI_fnumber(RelationGetDescr(rel), columns[i].name);
		Oid type = columns[i].type;
		bool nulls[2] = {false};
		Datum old = Int64GetDatum(0);
		Datum new;

		if (att <= 0 || TupleDescAttr(RelationGetDescr(rel), att - 1)->atttypid != type)
			return true;
		new = tuple_nullable(rel, updates ? data->tg_newtuple : data->tg_trigtuple, att, type, &nulls[1]);
		if (updates)
			old = tuple_nullable(rel, data->tg_trigtuple, att, type, &nulls[0]);
		if (nulls[0] != nulls[1] || (!nulls[0] && !datum_image_eq(old, new, type == INT8OID, type == INT8OID ? 8 : -1)))
			return true;
	}
	return false;
}

/*
 * Raise 55000: rows of a stock or a ledger cannot be deleted or changed directly.
 */
static void
refuse_change(const DcCounterRow *row, DcMember member, Oid relid, bool deletes)
{
	ereport(ERROR,
			(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
			 deletes ? errmsg("cannot delete from \"%s\"", get_rel_name(relid))
					 : errmsg("cannot change amounts in \"%s\"", get_rel_name(relid)),
			 must_agree_detail(row),
			 OidIsValid(row->ledger)		 ? errhint("Use dc_transfer() to change balances.")
				 : !deletes					 ? errhint("Use dc_restock() to add units, dc_take() to take some, or dc_set() to set how many there are.")
				 : member == DC_MEMBER_HOLDS ? errhint("Use dc_hold_release() or dc_hold_confirm() to end a hold.")
											 : errhint("Use dc_delete() to remove a key.")));
}

/*
 * wrong_call raises 39P01: a trigger's function was called in another way than `when`.
 */
static void
wrong_call(const char *function, const char *when)
{
	ereport(ERROR,
			(errcode(ERRCODE_E_R_I_E_TRIGGER_PROTOCOL_VIOLATED),
			 errmsg("%s can only be called as a trigger, %s", function, when)));
}
