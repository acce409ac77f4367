/*
 * protect.h
 *		Triggers that keep the tables of a counter together (see protect.c).
 *
 * Copyright (c) 2026, the dcounter developers
 */
#ifndef DC_PROTECT_H
#define DC_PROTECT_H

#include "core/table/catalog.h"

/* The role of a table in a counter. */
typedef enum DcMember
{
	DC_MEMBER_NONE,
	DC_MEMBER_TOTALS,
	DC_MEMBER_SHARDS,
	DC_MEMBER_HOLDS,
	DC_MEMBER_REGIONS
} DcMember;

/* Functions of triggers. */
#define PROTECT_DELETE_FUNCTION "on_counter_delete"
#define PROTECT_TRUNCATE_FUNCTION "on_counter_truncate"

extern DcMember member_find(Oid relid, DcCounterRow *row, Oid *root);

extern void protect_create(const DcCounterRow *row);
extern void protect_create_partition(Oid relid);
extern void protect_create_bound(const DcCounterRow *row);
extern void protect_create_replicated(const DcCounterRow *row);
extern void protect_create_truncate(Oid relid);
extern void protect_create_change(Oid relid);
extern bool protect_keeps_rows(Oid relid);
extern void trigger_create(Oid relid, const char *name, const char *definition);

extern bool relation_is_empty(Oid relid);
extern void relation_truncate(Oid relid);

#endif /* DC_PROTECT_H */
