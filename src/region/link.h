/*
 * link.h
 *		Subscriptions to other regions (see join.c), and what is seen of these.
 *
 * Copyright (c) 2026, the dcounter developers
 */
#ifndef DC_LINK_H
#define DC_LINK_H

#include "catalog/pg_subscription.h"
#include "nodes/pg_list.h"

#define PUBLICATION_OWN "dcounter_own"
#define PUBLICATION_ALL "dcounter_all"

#define LINK_PREFIX "dc_from_"
#define REFRESH_PREFIX "dc_refresh_"
#define ANEW_PREFIX "dc_anew_" /* one that is to take the place of another */

/* How much of a region's name is in the name of a slot, so that two of them and a hash fit. */
#define SLOT_REGION_BYTES 17

/* A region as this database sees it. */
typedef struct DcRegionLook
{
	const char *region;
	const char *own; /* this database's region, or NULL */
	const char *state;
	const Subscription *link; /* from it, or NULL */
	const char *link_state;	  /* likewise */
	int64 apply_errors;
	int64 conflicts; /* -1: they are not counted, as before PostgreSQL 18 */
	int64 late_ms;	 /* ms since the time before which all of its commits have come */
} DcRegionLook;

extern Subscription *link_find(const char *name);
extern Subscription *link_find_any(const char *name);
extern bool link_is_trusted(const Subscription *link);
extern List *links_all(void);
extern bool link_refreshes(void);
extern int link_not_copied(const Subscription *link);
extern int link_tables(const Subscription *link, bool not_copied);
extern bool link_brings(const Subscription *link, const char *publication);

/* linkerrors.c */
extern void link_errors_init(void);
extern bool link_is_refused(const Subscription *link);

/* advice.c */
extern char *region_advice(const DcRegionLook *look);

#endif /* DC_LINK_H */
