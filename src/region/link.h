/*
 * link.h
 *		Subscriptions to other regions (see join.c).
 */
#ifndef DC_LINK_H
#define DC_LINK_H

#include "catalog/pg_subscription.h"
#include "nodes/pg_list.h"

#define PUBLICATION_OWN "dcounter_own"
#define PUBLICATION_ALL "dcounter_all"

#define LINK_PREFIX "dc_from_"
#define REFRESH_PREFIX "dc_refresh_"

extern Subscription *link_find(const char *name);
extern List *links_all(void);
extern bool link_refreshes(void);
extern int link_not_copied(const Subscription *link);
extern bool link_brings(const Subscription *link, const char *publication);

#endif /* DC_LINK_H */
