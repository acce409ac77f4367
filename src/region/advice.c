/*
 * advice.c
 *		Column advice of dc_regions(): what is wrong with a region, as this database sees it, and what to call.
 *
 * Copyright (c) 2026, the dcounter developers
 *
 * The sentences name the regions, so that dc_region can print those of all databases one after the
 * other. What is seen only by comparing databases (a slot that is gone at the peer, a missing
 * counter) is added by that program (bin/dc_region/ctlstatus.c). They have no numbers, so that they
 * stay the same while nothing changes, as labels of metrics should.
 */
#include "postgres.h"

#include "access/xlog.h"
#include "catalog/pg_type.h"
#include "executor/spi.h"
#include "miscadmin.h"
#include "utils/builtins.h"
#include "utils/guc.h"

#include "base/guc.h"
#include "base/runas.h"
#include "region/life.h"
#include "region/link.h"

/*
 * A region is late if it has missed this many heartbeats, and has sent nothing for at least this
 * time.
 */
#define LATE_BEATS 10
#define LATE_MS 60000

static char *advice_own(const DcRegionLook *look);
static bool any_stock_is_shut(void);
static char *advice_link(const DcRegionLook *look);
static char *advice_late(const DcRegionLook *look);
static bool links_are_mesh(void);
static bool keeps_slot(const char *region);

/*
 * region_advice returns a sentence, or NULL if there is nothing to do. This database is in an
 * active region. A standby has no links, so no advice.
 */
char *
region_advice(const DcRegionLook *look)
{
	if (RecoveryInProgress())
		return NULL;
	if (strcmp(look->region, look->own) == 0)
		return advice_own(look);
	if (strcmp(look->state, "retired") != 0)
		return advice_link(look);
	if (look->link == NULL && !keeps_slot(look->region))
		return NULL;
	return psprintf("%s has a link from %s, which is retired, or keeps a slot for it: dc_region forget %s", look->own, look->region, look->region);
}

/*
 * Return what is wrong with this database, and what to call, or NULL.
 */
static char *
advice_own(const DcRegionLook *look)
{
	const char *own = look->own;

	if (strcmp(look->state, "renew") == 0)
		return psprintf("%s must take a new epoch, because it was restored, copied or promoted: dc_region restore %s", own, own);
	if (strcmp(look->state, "starting") == 0)
		return psprintf("%s waits until the others have acknowledged its start; if it was restored to an earlier state: dc_region restore %s", own, own);
	if (strcmp(look->state, "recopy") == 0)
		return psprintf("%s may lack rows that others have: dc_region restore %s", own, own);
	if (strcmp(look->state, "behind") == 0)
		return psprintf("%s cannot publish some counters: its log says which, and why", own);
	if (any_stock_is_shut())
		return psprintf("stocks of %s are shut: dc_region_renew(lossless => true) if its server was only stopped; dc_region_renew() gives up the units of all its stocks", own);
	if (!publications_are_complete())
		return psprintf("%s does not publish everything that it should: dc_region_publish()", own);
	return NULL;
}

/*
 * Return true if a replicated stock is shut until an operator says whether units were lost.
 */
static bool
any_stock_is_shut(void)
{
	ListCell *lc;

	foreach(lc, catalog_read_all())
	{
		const DcCounterRow *row = lfirst(lc);

		CHECK_FOR_INTERRUPTS();
		if (OidIsValid(row->grants) && row->rights_epoch < 0)
			return true;
	}
	return false;
}

/*
 * Return what is wrong with the link from the region that is checked, and what to call, or NULL.
 */
static char *
advice_link(const DcRegionLook *look)
{
	if (look->link == NULL)
		return links_are_mesh() ? psprintf("there is no link from %s to %s: dc_region join", look->region, look->own)
								: advice_late(look);
	if (look->link->slotname == NULL)
		return psprintf("the link from %s to %s has no slot: dc_region join", look->region, look->own);
	if (strcmp(look->link_state, "disabled") == 0)
		return psprintf("the link from %s to %s is disabled: dc_region join", look->region, look->own);
	if (strcmp(look->link_state, "down") == 0 && link_is_refused(look->link))
		return psprintf("the link from %s to %s is refused by %s, because its slot is missing or no longer usable: dc_region join", look->region, look->own, look->region);
	if (strcmp(look->link_state, "down") == 0)
		return psprintf("the link from %s to %s is down: the log of %s says why; if its conninfo is wrong: dc_region join",
						look->region, look->own, look->own);
	if (strcmp(look->link_state, "copying") == 0 && look->apply_errors > 0)
		return psprintf("the link from %s to %s has had errors, and has not copied all tables: the log of %s says why", look->region, look->own, look->own);
	return advice_late(look);
}

/*
 * advice_late returns advice about a region that sends nothing, although no link is known to be
 * down.
 */
static char *
advice_late(const DcRegionLook *look)
{
	if (look->late_ms <= Max(LATE_BEATS * (int64) dc_region_beat_interval, LATE_MS))
		return NULL;
	return psprintf("nothing has arrived from %s in %s for a long time: dc_stat_worker of %s shows whether its worker runs", look->region, look->own, look->region);
}

/*
 * links_are_mesh returns false if rows may come by other links than one from each region: in a
 * star, a ring or a tree, or by subscriptions that dc_region_join() has not made.
 */
static bool
links_are_mesh(void)
{
	ListCell *lc;

	foreach(lc, links_all())
	{
		const Subscription *link = lfirst(lc);

		if (strncmp(link->name, REFRESH_PREFIX, strlen(REFRESH_PREFIX)) == 0)
			continue;
		if (strncmp(link->name, LINK_PREFIX, strlen(LINK_PREFIX)) != 0 || link_brings(link, PUBLICATION_ALL))
			return false;
	}
	return true;
}

/*
 * keeps_slot returns true if there is a slot here for a link to another region. src/region/join.c
 * makes its name.
 */
static bool
keeps_slot(const char *region)
{
	static const char *const sql = "SELECT FROM pg_catalog.pg_replication_slots AS s"
								   " WHERE s.database = pg_catalog.current_database() AND s.slot_name::pg_catalog.text OPERATOR(pg_catalog.~) $1";
	Oid type = TEXTOID;
	Datum prefix = CStringGetTextDatum(psprintf("^dc_%.*s_(from|anew)_", SLOT_REGION_BYTES, region));
	int level = search_path_pin();
	bool found;

	SPI_connect();
	if (SPI_execute_with_args(sql, 1, &type, &prefix, NULL, true, 1) != SPI_OK_SELECT)
		elog(ERROR, "SPI_execute_with_args failed");
	found = SPI_processed > 0;
	SPI_finish();
	AtEOXact_GUC(true, level);
	return found;
}
