/*
 * link.c
 *		Subscriptions to other regions, as the catalogs of the server have them; and waiting until
 *		they have copied their tables. When one that was made to refresh this database from a peer has
 *		done so, that is noted (region_copied).
 *
 * Any subscription to one of the publications of a region counts, whatever its name.
 */
#include "postgres.h"

#include "access/genam.h"
#include "access/htup_details.h"
#include "access/table.h"
#include "access/xact.h"
#include "base/args.h"
#include "base/clock.h"
#include "base/compat.h"
#include "catalog/pg_subscription_rel.h"
#include "executor/spi.h"
#include "fmgr.h"
#include "miscadmin.h"
#include "nodes/parsenodes.h"
#include "region/life.h"
#include "region/link.h"
#include "replication/logicallauncher.h"
#include "storage/latch.h"
#include "utils/builtins.h"
#include "utils/fmgroids.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"
#include "utils/snapmgr.h"
#include "utils/timestamp.h"

PG_FUNCTION_INFO_V1(dc_region_wait_copied);

#define LINK_LOOK_AGAIN_MS 100
#define TELL_AGAIN_MS 30000

static int look(const char *name, char **waiting);
static List *links_named(const char *name);

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
 * links_all returns those to other regions.
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
 * link_refreshes returns true if all that another region knows is being copied.
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
 * link_brings tells whether a subscription is to a publication.
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
 * dc_region_wait_copied(subscription text), a procedure: waits until a link has copied all its
 * tables; without a name, until all links have. Meanwhile it holds no snapshot, unless it is
 * called in a transaction block, and says now and then what it waits for.
 *
 * Errors: 42704 if there is no such subscription, 55000 if it is disabled.
 */
Datum
dc_region_wait_copied(PG_FUNCTION_ARGS)
{
	bool atomic = fcinfo->context == NULL || !IsA(fcinfo->context, CallContext) ||
		castNode(CallContext, fcinfo->context)->atomic;
	char *name = PG_ARGISNULL(0) ? NULL : text_to_cstring(PG_GETARG_TEXT_PP(0));
	MemoryContext cxt = AllocSetContextCreate(PortalContext, "dcounter links", ALLOCSET_SMALL_SIZES);
	DcMoment tell = moment_in(TELL_AGAIN_MS);
	TimestampTz began = GetCurrentTimestamp();
	char *waiting = NULL;
	int tables;

	SPI_connect_ext(atomic ? 0 : SPI_OPT_NONATOMIC);
	for (;;)
	{
		MemoryContext old = MemoryContextSwitchTo(cxt);

		tables = look(name, &waiting);
		MemoryContextSwitchTo(old);
		if (tables == 0)
			break;
		if (moment_ms_left(tell) <= 0)
		{
			ereport(NOTICE,
					(errmsg("%d tables are not copied yet, as of subscription \"%s\"", tables, waiting),
					 errhint("If that does not change, see the server's log.")));
			tell = moment_in(TELL_AGAIN_MS);
		}
		MemoryContextReset(cxt);
		if (!atomic)
			SPI_commit();
		(void) WaitLatch(MyLatch, WL_LATCH_SET | WL_TIMEOUT | WL_EXIT_ON_PM_DEATH, LINK_LOOK_AGAIN_MS,
						 compat_wait_event("DcounterRegionCopy"));
		ResetLatch(MyLatch);
		CHECK_FOR_INTERRUPTS();
	}
	if (name != NULL && strncmp(name, REFRESH_PREFIX, strlen(REFRESH_PREFIX)) == 0 && !XactReadOnly)
		region_copied(name + strlen(REFRESH_PREFIX), began);
	SPI_finish();
	MemoryContextDelete(cxt);
	PG_RETURN_VOID();
}

/*
 * look counts the tables that are not copied; *waiting is a subscription of them.
 */
static int
look(const char *name, char **waiting)
{
	int tables = 0;
	ListCell *lc;

	InvalidateCatalogSnapshot();
	foreach(lc, links_named(name))
	{
		Subscription *link = lfirst(lc);
		int more = link_not_copied(link);

		if (more == 0)
			continue;
		if (!link->enabled)
			ereport(ERROR,
					(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
					 errmsg("subscription \"%s\" is disabled", link->name)));
		if (max_logical_replication_workers == 0)
			ereport(ERROR,
					(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
					 errmsg("no tables can be copied: max_logical_replication_workers is 0"),
					 errhint("Start the server without that setting.")));
		tables += more;
		*waiting = link->name;
	}
	InvalidateCatalogSnapshot();
	return tables;
}

/*
 * links_named returns the subscription of a name (42704 if there is none), or all links if it is
 * NULL.
 */
static List *
links_named(const char *name)
{
	Subscription *link;

	if (name == NULL)
		return links_all();
	link = link_find(name);
	if (link == NULL)
		ereport(ERROR,
				(errcode(ERRCODE_UNDEFINED_OBJECT),
				 errmsg("subscription \"%s\" does not exist", name)));
	return list_make1(link);
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
