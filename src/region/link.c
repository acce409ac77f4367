/*
 * link.c
 *		Subscriptions to other regions, as the catalogs of the server have them.
 *
 * Copyright (c) 2026, the dcounter developers
 *
 * Any subscription to one of the publications of a region counts, whatever its name.
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

#include "region/link.h"

/*
 * link_find returns a subscription of this database; NULL if there is none of that name.
 */
Subscription *
link_find(const char *name)
{
	Oid oid = get_subscription_oid(name, true);

	return OidIsValid(oid) ? GetSubscription(oid, true) : NULL;
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
		if (link != NULL && (link_brings(link, PUBLICATION_OWN) || link_brings(link, PUBLICATION_ALL)))
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
	Relation rel = table_open(SubscriptionRelRelationId, AccessShareLock);
	ScanKeyData key;
	SysScanDesc scan;
	HeapTuple tuple;
	int tables = 0;

	ScanKeyInit(&key, Anum_pg_subscription_rel_srsubid, BTEqualStrategyNumber, F_OIDEQ, ObjectIdGetDatum(link->oid));
	scan = systable_beginscan(rel, InvalidOid, false, NULL, 1, &key);
	while (HeapTupleIsValid(tuple = systable_getnext(scan)))
	{
		if (((Form_pg_subscription_rel) GETSTRUCT(tuple))->srsubstate != SUBREL_STATE_READY)
			tables++;
	}
	systable_endscan(scan);
	table_close(rel, AccessShareLock);
	return tables;
}
