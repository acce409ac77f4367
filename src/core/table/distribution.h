/*
 * distribution.h
 *		Counter tables that Citus distributes over several servers (see distribution.c).
 *
 * Copyright (c) 2026, the dcounter developers
 */
#ifndef DC_DISTRIBUTION_H
#define DC_DISTRIBUTION_H

#include "access/htup.h"
#include "utils/relcache.h"

#include "core/table/catalog.h"

extern bool relation_is_distributed(Oid relid);
extern bool relation_is_on_coordinator(Oid relid);
extern void distribution_fill(DcCounter *counter);
extern void distribution_check(const DcCounter *counter);
extern const char *elsewhere_detail(const DcCounter *counter);

/* what Citus has: a catalog, a column of its rows, a function of its library */
extern Relation citus_catalog(const char *name);
extern HeapTuple citus_row(const char *name, const char *column, Datum value, Relation *catalog);
extern Datum citus_attribute(Relation catalog, HeapTuple tuple, const char *name, Oid type);
extern void *citus_function(const char *name);

/* how this transaction commits what it writes to other servers */
extern void distribution_write(void);
extern void distribution_write_alone(bool alone);
extern bool distribution_is_alone(void);
extern bool distribution_has_committed(void);
extern bool distribution_in_block(void);
extern bool distribution_may_write_alone(void);
extern void distribution_before_commit(void);
extern void distribution_end_xact(void);

#endif /* DC_DISTRIBUTION_H */
