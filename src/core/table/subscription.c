/*
 * subscription.c
 *		Tables that a subscription feeds: in this database only logical replication may write to
 *		them.
 *
 * Copyright (c) 2026, the dcounter developers
 *
 * Rows that come by a subscription are those of the publisher, where they are compacted,
 * flushed and expired as well. If that was done here too, the next change would not find its
 * row, or meet another one under its key, and the subscription would fail forever. So the jobs
 * leave such a counter table alone, and writing to it is an error (55000), as on a standby. A
 * counter table is fed if any of its tables is listed in pg_subscription_rel, or a partition of
 * one, or a table that one is a partition of; of a ledger, all tables belong together. A
 * disabled subscription counts. When the subscription is dropped, the table is maintained and
 * written to again.
 *
 * From PostgreSQL 16 on, a role that is not a superuser may create subscriptions, and list any table
 * in one without a right to it. So a subscription counts only where its apply worker could write
 * (subscription_may_write). A role that may write rows to a table by a subscription may do as much
 * with SQL.
 *
 * Protocol:
 *
 *	1. Calls that write look at DcCounter.fed, which is looked up with the rest of the
 *	   entry. Whenever a row of pg_subscription_rel changes, or the rights of a subscription may
 *	   have, entries are looked up again (countercache.c). As with any DDL that takes no lock on the
 *	   table, a transaction that has opened the table before continues.
 *	2. A job looks into the catalog itself, and does so twice in a step: before it
 *	   changes anything, and when it has (tablejob.c, compact.c). The second check is what makes
 *	   this correct. A row that has come by a subscription was committed later than the
 *	   subscription's row for the table. So a step that has seen the one, and then takes a new
 *	   snapshot, sees the other, and is rolled back. The same is true of the
 *	   rights without which the row could not have been applied.
 *
 * Without subscriptions each look is a scan of an empty table.
 */
#include "postgres.h"

#include "access/genam.h"
#include "access/htup_details.h"
#include "access/table.h"
#include "catalog/namespace.h"
#include "catalog/partition.h"
#include "catalog/pg_class.h"
#include "catalog/pg_inherits.h"
#include "catalog/pg_subscription.h"
#include "catalog/pg_subscription_rel.h"
#include "lib/stringinfo.h"
#include "miscadmin.h"
#include "utils/acl.h"
#include "utils/fmgroids.h"
#include "utils/lsyscache.h"
#include "utils/snapmgr.h"
#include "utils/syscache.h"

#include "base/compat.h"
#include "base/hooks.h"
#include "base/relopen.h"
#include "core/table/subscription.h"

static char *names_in(List *tables);
static List *add_relatives(List *tables);
static List *subscriptions_of(List *tables, bool one);

/*
 * Return true if a subscription feeds a counter table, as of now.
 */
bool
counter_is_fed(const DcCounterRow *row)
{
	return any_table_is_fed() && subscriptions_of(add_relatives(counter_tables(row)), true) != NIL;
}

/*
 * table_is_fed does the same for a counter table that was not looked up. If its
 * settings cannot be read at once, it is to be left alone as well.
 */
bool
table_is_fed(Oid counter)
{
	DcCounterRow row;

	if (!any_table_is_fed())
		return false;
	return !catalog_lock_at_once() || (catalog_read(counter, &row) && counter_is_fed(&row));
}

/*
 * Return true if a subscription feeds any table.
 */
bool
relation_is_fed(Oid relid)
{
	return any_table_is_fed() && subscriptions_of(add_relatives(list_make1_oid(relid)), true) != NIL;
}

/*
 * check_still_not_fed raises an error if a subscription feeds a counter table that this
 * transaction has changed, as it did not when the transaction looked before.
 */
void
check_still_not_fed(Oid counter)
{
	if (table_is_fed(counter))
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_IN_USE),
				 errmsg("a subscription has begun to feed counter table \"%s\"",
						get_rel_name(counter))));
}

/*
 * counter_fed_by returns the names of the subscriptions that feed a counter table,
 * separated by commas, or NULL if there are none.
 */
char *
counter_fed_by(const DcCounterRow *row)
{
	return any_table_is_fed() ? names_in(counter_tables(row)) : NULL;
}

/*
 * table_fed_by does the same for any table.
 */
char *
table_fed_by(Oid relid)
{
	return any_table_is_fed() ? names_in(list_make1_oid(relid)) : NULL;
}

/*
 * Return the names of the subscriptions that feed any of some tables or their relatives,
 * separated by commas, in the order of their OIDs; NULL if there are none.
 */
static char *
names_in(List *tables)
{
	StringInfoData names;
	List *subscriptions = subscriptions_of(add_relatives(tables), false);
	ListCell *lc;

	list_sort(subscriptions, list_oid_cmp);
	initStringInfo(&names);
	foreach(lc, subscriptions)
	{
		const char *name = get_subscription_name(lfirst_oid(lc), true);

		if (name != NULL) /* or it was dropped just now */
			appendStringInfo(&names, "%s%s", names.len > 0 ? ", " : "", name);
	}
	return names.len > 0 ? names.data : NULL;
}

/*
 * Return true if a subscription feeds one of the extension's own tables, as one to a
 * publication FOR ALL TABLES does. The catalogs that regions replicate to each other do not
 * count.
 */
bool
extension_is_fed(void)
{
	Oid schema = get_namespace_oid(DC_SCHEMA, true);
	Relation rel;
	SysScanDesc scan;
	HeapTuple tuple;
	bool found = false;

	if (!any_table_is_fed())
		return false;
	rel = table_open(SubscriptionRelRelationId, AccessShareLock);
	scan = systable_beginscan(rel, InvalidOid, false, NULL, 0, NULL);
	while (!found && HeapTupleIsValid(tuple = systable_getnext(scan)))
	{
		Form_pg_subscription_rel form = (Form_pg_subscription_rel) GETSTRUCT(tuple);

		found = get_rel_namespace(form->srrelid) == schema && form->srrelid != get_relname_relid("region", schema) &&
			subscription_may_write(form->srsubid, form->srrelid);
	}
	systable_endscan(scan);
	table_close(rel, AccessShareLock);
	return found;
}

/*
 * prevent_fed raises an error if a subscription feeds a counter table. One that is replicated
 * between regions waits here after a start of the server: both conditions share a flag, so that
 * other tables pay nothing for it.
 */
void
prevent_fed(const DcCounter *counter, const char *function)
{
	char *name;

	if (!counter->held)
		return;
	if (!counter->fed)
	{
		region_hooks->await_begun();
		unconstify(DcCounter *, counter)->held = false;
		return;
	}
	name = counter_fed_by(&counter->row);
	ereport(ERROR,
			(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
			 errmsg("cannot execute %s on \"%s\": it is fed by a subscription",
					function, get_rel_name(counter->relid)),
			 name != NULL ? errdetail("What is written here would be overwritten, or stop the subscription \"%s\".", name) : 0,
			 errhint("Write on the publisher, or drop the subscription first.")));
}

/*
 * Return true if the apply worker of a subscription may insert rows into a table: as the role that
 * owns the subscription, or from PostgreSQL 16 on as the owner of the table, whom that role must be
 * able to become.
 */
bool
subscription_may_write(Oid subscription, Oid relid)
{
	HeapTuple tuple = SearchSysCache1(SUBSCRIPTIONOID, ObjectIdGetDatum(subscription));
	Oid table_owner = relation_owner(relid);
	bool missing = false;
	bool as_subscriber;
	Oid owner;

	if (!HeapTupleIsValid(tuple))
		return false;
	owner = ((Form_pg_subscription) GETSTRUCT(tuple))->subowner;
	as_subscriber = compat_applies_as_subscriber((Form_pg_subscription) GETSTRUCT(tuple));
	ReleaseSysCache(tuple);
	if (superuser_arg(owner))
		return true;
	if (!as_subscriber)
		return OidIsValid(table_owner) && compat_may_set_role(owner, table_owner);
	return pg_class_aclcheck_ext(relid, owner, ACL_INSERT, &missing) == ACLCHECK_OK;
}

/*
 * Return true if any table of this database is listed in pg_subscription_rel, be it by a
 * subscription that may not write to it. It takes a new catalog snapshot, for this look and those
 * that follow.
 */
bool
any_table_is_fed(void)
{
	Relation rel = table_open(SubscriptionRelRelationId, AccessShareLock);
	SysScanDesc scan;
	bool found;

	InvalidateCatalogSnapshot();
	scan = systable_beginscan(rel, InvalidOid, false, NULL, 0, NULL);
	found = HeapTupleIsValid(systable_getnext(scan));
	systable_endscan(scan);
	table_close(rel, AccessShareLock);
	return found;
}

/*
 * counter_tables lists all tables that belong to a counter table, without partitions.
 */
List *
counter_tables(const DcCounterRow *row)
{
	List *tables = list_make2_oid(row->counter, row->shards);

	if (OidIsValid(row->holds))
		tables = lappend_oid(tables, row->holds);
	if (OidIsValid(row->trends) && get_rel_name(row->trends) != NULL)
		tables = lappend_oid(tables, row->trends);
	if (once_hooks != NULL)
		tables = once_hooks->tables(row->counter, tables);
	if (ledger_hooks != NULL)
		tables = ledger_hooks->tables(row, tables);
	if (bound_hooks != NULL)
		tables = bound_hooks->tables(row->counter, tables);
	if (budget_hooks != NULL)
		tables = budget_hooks->tables(row->counter, tables);
	return tables;
}

/*
 * add_relatives adds the partitions of tables, and the tables that they are partitions of.
 */
static List *
add_relatives(List *tables)
{
	List *all = NIL;
	ListCell *lc;

	foreach(lc, tables)
	{
		Oid relid = lfirst_oid(lc);

		all = list_append_unique_oid(all, relid);
		if (get_rel_relispartition(relid))
			all = list_concat_unique_oid(all, get_partition_ancestors(relid));
		if (get_rel_relkind(relid) == RELKIND_PARTITIONED_TABLE)
			all = list_concat_unique_oid(all, relation_members(relid, NoLock));
	}
	return all;
}

/*
 * subscriptions_of lists the subscriptions that feed any of some tables, or one of
 * them only.
 */
static List *
subscriptions_of(List *tables, bool one)
{
	Relation rel = table_open(SubscriptionRelRelationId, AccessShareLock);
	List *found = NIL;
	ListCell *lc;

	foreach(lc, tables)
	{
		ScanKeyData key;
		SysScanDesc scan;
		HeapTuple tuple;

		ScanKeyInit(&key, Anum_pg_subscription_rel_srrelid, BTEqualStrategyNumber,
					F_OIDEQ, ObjectIdGetDatum(lfirst_oid(lc)));
		scan = systable_beginscan(rel, SubscriptionRelSrrelidSrsubidIndexId, true,
								  NULL, 1, &key);
		while (HeapTupleIsValid(tuple = systable_getnext(scan)))
		{
			Oid subscription = ((Form_pg_subscription_rel) GETSTRUCT(tuple))->srsubid;

			if (subscription_may_write(subscription, lfirst_oid(lc)))
				found = list_append_unique_oid(found, subscription);
		}
		systable_endscan(scan);
		if (one && found != NIL)
			break;
	}
	table_close(rel, AccessShareLock);
	return found;
}
