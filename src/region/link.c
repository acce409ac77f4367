/*
 * link.c
 *		Subscriptions to other regions, as the catalogs of the server have them.
 *
 * Copyright (c) 2026, the dcounter developers
 *
 * Any subscription to one of the publications of a region counts, whatever its name, if its owner
 * may write the heartbeats that come by each link. From PostgreSQL 16 on, a role that is not a
 * superuser may create subscriptions of any name, to any publication.
 */
#include "postgres.h"

#include "access/genam.h"
#include "access/htup_details.h"
#include "access/table.h"
#include "catalog/pg_subscription_rel.h"
#include "miscadmin.h"
#include "nodes/parsenodes.h"
#include "utils/fmgroids.h"
#include "utils/lsyscache.h"

#include "core/table/subscription.h"
#include "region/life.h"
#include "region/link.h"

/*
 * link_find returns the link of a name; NULL if there is none, or it is a subscription that cannot
 * be a link.
 */
Subscription *
link_find(const char *name)
{
	Subscription *link = link_find_any(name);

	return link != NULL && link_is_trusted(link) ? link : NULL;
}

/*
 * link_find_any returns a subscription of this database, whoever owns it; NULL if there is none of
 * that name.
 */
Subscription *
link_find_any(const char *name)
{
	Oid oid = get_subscription_oid(name, true);

	return OidIsValid(oid) ? GetSubscription(oid, true) : NULL;
}

/*
 * Return true if a subscription may write heartbeats, as each link does.
 */
bool
link_is_trusted(const Subscription *link)
{
	return subscription_may_write(link->oid, beats_relation());
}

/*
 * links_all returns this database's subscriptions to other regions.
 */
List *
links_all(void)
{
	Relation rel = table_open(SubscriptionRelationId, AccessShareLock);
	List *links = NIL;
	SysScanDesc scan;
	HeapTuple tuple;

	scan = systable_beginscan(rel, InvalidOid, false, NULL, 0, NULL);
	while (HeapTupleIsValid(tuple = systable_getnext(scan)))
	{
		Form_pg_subscription form = (Form_pg_subscription) GETSTRUCT(tuple);
		Subscription *link;

		if (form->subdbid != MyDatabaseId)
			continue;
		link = GetSubscription(form->oid, true);
		if (link != NULL && (link_brings(link, PUBLICATION_OWN) || link_brings(link, PUBLICATION_ALL)) && link_is_trusted(link))
			links = lappend(links, link);
	}
	systable_endscan(scan);
	table_close(rel, AccessShareLock);
	return links;
}

/*
 * link_refreshes returns true if a copy of all that another region knows is under way.
 */
bool
link_refreshes(void)
{
	ListCell *lc;

	foreach(lc, links_all())
	{
		const Subscription *link = lfirst(lc);

		if (strncmp(link->name, REFRESH_PREFIX, strlen(REFRESH_PREFIX)) == 0)
			return true;
	}
	return false;
}

/*
 * Return true if a subscription is to a publication.
 */
bool
link_brings(const Subscription *link, const char *publication)
{
	ListCell *lc;

	foreach(lc, link->publications)
	{
		if (strcmp(strVal(lfirst(lc)), publication) == 0)
			return true;
	}
	return false;
}

/*
 * link_not_copied returns how many tables of a link are not copied yet.
 */
int
link_not_copied(const Subscription *link)
{
	return link_tables(link, true);
}

/*
 * link_tables returns how many tables a link has, or how many of them are not copied yet.
 */
int
link_tables(const Subscription *link, bool not_copied)
{
	Relation rel = table_open(SubscriptionRelRelationId, AccessShareLock);
	ScanKeyData key;
	SysScanDesc scan;
	HeapTuple tuple;
	int tables = 0;

	ScanKeyInit(&key, Anum_pg_subscription_rel_srsubid, BTEqualStrategyNumber, F_OIDEQ, ObjectIdGetDatum(link->oid));
	scan = systable_beginscan(rel, InvalidOid, false, NULL, 1, &key);
	while (HeapTupleIsValid(tuple = systable_getnext(scan)))
	{
		if (!not_copied || ((Form_pg_subscription_rel) GETSTRUCT(tuple))->srsubstate != SUBREL_STATE_READY)
			tables++;
	}
	systable_endscan(scan);
	table_close(rel, AccessShareLock);
	return tables;
}
