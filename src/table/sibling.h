/*
 * sibling.h
 *		What DDL on one table of a counter does to the others (see ddlhooks.c).
 */
#ifndef DC_SIBLING_H
#define DC_SIBLING_H

#include "nodes/nodes.h"
#include "nodes/pg_list.h"

extern List *ddl_relations(const char *query);
extern void sibling_drop(Oid relid, List *dropped, Node *parsetree);
extern void sibling_follow(Node *parsetree, Oid relid, Oid sibling,
						   const char *suffix);

#endif /* DC_SIBLING_H */
