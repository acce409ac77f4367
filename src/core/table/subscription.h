/*
 * subscription.h
 *		Tables that a subscription feeds (see subscription.c).
 *
 * Copyright (c) 2026, the dcounter developers
 */
#ifndef DC_SUBSCRIPTION_H
#define DC_SUBSCRIPTION_H

#include "core/table/catalog.h"

extern bool any_table_is_fed(void);
extern bool subscription_may_write(Oid subscription, Oid relid);
extern bool counter_is_fed(const DcCounterRow *row);
extern List *counter_tables(const DcCounterRow *row);
extern bool table_is_fed(Oid counter);
extern bool relation_is_fed(Oid relid);
extern char *counter_fed_by(const DcCounterRow *row);
extern char *table_fed_by(Oid relid);
extern void check_still_not_fed(Oid counter);
extern bool extension_is_fed(void);
extern void prevent_fed(const DcCounter *counter, const char *function);

#endif /* DC_SUBSCRIPTION_H */
