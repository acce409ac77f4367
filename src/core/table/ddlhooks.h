/*
 * ddlhooks.h
 *		Following DDL on the tables of a counter (see ddlhooks.c).
 *
 * Copyright (c) 2026, the dcounter developers
 */
#ifndef DC_DDLHOOKS_H
#define DC_DDLHOOKS_H

#include "nodes/pg_list.h"
#include "tcop/cmdtag.h"

/* A column that a command has dropped or altered. */
typedef struct DcDdlColumn
{
	Oid relid;
	char *name;	   /* of one that was dropped */
	bool original; /* likewise: the command is about it */
} DcDdlColumn;

/* A trigger that a command has dropped. */
typedef struct DcDdlTrigger
{
	char *schema; /* of its table */
	char *table;
	char *name;
	bool original; /* the command is about it */
} DcDdlTrigger;

/* The former name of a type or a collation. */
typedef struct DcDdlName
{
	const char *schema;
	const char *name;
} DcDdlName;

/* A table that a command has attached as a partition, or detached. */
typedef struct DcDdlPartition
{
	Oid parent;
	Oid relid;
	bool attached;
} DcDdlPartition;

/* A command at its end. */
typedef struct DcDdl
{
	CommandTag tag;
	Node *parsetree;
	List *relations;  /* OIDs of those that it has dropped, or has altered or created */
	bool has_index;	  /* it has dropped one */
	bool has_shard;	  /* a table that was dropped has the name of a shard of Citus */
	List *columns;	  /* DcDdlColumn *, likewise */
	List *triggers;	  /* DcDdlTrigger *, dropped */
	List *partitions; /* DcDdlPartition * */
	List *types;	  /* DcDdlName *, types and collations that it has dropped */
} DcDdl;

/*
 * The functions of a room: after a drop, after another command, and, unless NULL, before a
 * command.
 */
typedef struct DcDdlHook
{
	void (*dropped)(const DcDdl *ddl);
	void (*altered)(const DcDdl *ddl);
	void (*begins)(const DcDdl *ddl);
} DcDdlHook;

/* of this room */
extern const DcDdlHook table_ddl;

extern void ddl_hook_add(const DcDdlHook *hook);
extern bool ddl_alters(const DcDdl *ddl);
extern bool ddl_cascades(const DcDdl *ddl);
extern bool ddl_keeps(const DcDdl *ddl, Oid relid);
extern void sibling_drop(Oid relid, const DcDdl *ddl);
extern void sibling_follow(const DcDdl *ddl, Oid relid, Oid sibling,
						   const char *suffix);
extern void siblings_follow(const DcDdl *ddl, Oid (*sibling_of)(Oid relid), const char *suffix);

#endif /* DC_DDLHOOKS_H */
