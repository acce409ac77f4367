/*
 * sourceddl.h
 *		Effects of DDL on a source, or on a bound counter table.
 *
 * Copyright (c) 2026, the dcounter developers
 */
#ifndef DC_SOURCEDDL_H
#define DC_SOURCEDDL_H

#include "core/table/ddlhooks.h"
#include "transactional/bound/sourcetrigger.h"

#define DC_CARRIED_SUFFIX "_carried"

/* sourceddl.c */
extern void source_ddl_init(void);
extern bool source_lock_at_once(Oid source);
extern void bound_forget(const DcSourceRow *row, bool drop_triggers, bool cascade);

/* sourcecount.c */
extern bool source_begin_change(DcSourceRow *row);
extern void source_count_rows(const List *rows, Oid leaf, int sign);
extern void source_carry_rows(DcSourceRow *row, Oid leaf);
extern void source_count_nothing(const DcSourceRow *row);

/* sourcecarried.c */
typedef struct DcCarrying DcCarrying;
typedef void (*DcCarriedTake)(void *arg, const DcKey *key, int64 amount);

extern DcCarrying *carried_begin(DcSourceRow *row);
extern void carried_add(DcCarrying *carrying, const DcCounted *counted);
extern void carried_end(DcCarrying *carrying);
extern void carried_read(const DcSourceRow *row, Snapshot snapshot, DcCarriedTake take, void *arg);

/* sourcetruncate.c */
extern void source_truncate_init(void);

/* sourceparts.c */
extern void source_parts_init(void);
extern void source_parts_begins(const DcDdl *ddl);
extern void source_parts_prevent(Oid outer, const List *members);
extern void source_parts_changed(const DcDdl *ddl);
extern void source_children_check(const DcDdl *ddl);
extern void source_parts_dropped(const DcDdl *ddl);

/* An object that a statement renames. */
typedef struct DcNamed
{
	bool column;
	const char *schema; /* of a type or collation, or that of all of them */
	const char *name;	/* NULL: all in the schema */
	List *tables;		/* that have the column, */
	Oid type;			/* or those that were made of this type */
} DcNamed;

/* sourcenames.c */
typedef bool (*DcNameTest)(const char *schema, const char *name, void *arg);

extern bool source_named_by(Node *statement, DcNamed *named);
extern bool source_names(const DcSourceRow *row, void *arg);
extern bool source_any_name(const DcSourceRow *row, DcNameTest test, void *arg);

/* sourcerename.c */
extern void source_rename_begins(const DcDdl *ddl);
extern bool source_parses(const DcSourceRow *row, Relation source, bool *missing);
extern void source_renamed(const DcDdl *ddl);
extern void source_swapped(void);

#endif /* DC_SOURCEDDL_H */
