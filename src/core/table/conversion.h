/*
 * conversion.h
 *		Tables that Citus rebuilds, or turns into shards (see conversion.c).
 *
 * Copyright (c) 2026, the dcounter developers
 */
#ifndef DC_CONVERSION_H
#define DC_CONVERSION_H

#include "core/table/ddlhooks.h"

extern void conversion_init(void);
extern bool citus_is_loaded(void);
extern bool distribution_is_converting(void);
extern bool name_is_of_shard(const char *name);
extern bool relation_is_shard(Oid relid);
extern bool catalog_has(Oid catalog, Oid relid);
extern void conversion_prevent(const DcDdl *ddl);

#endif /* DC_CONVERSION_H */
