/*
 * storage.h
 *		ALTER TABLE commands about how and where a table is kept (see storage.c).
 *
 * Copyright (c) 2026, the dcounter developers
 */
#ifndef DC_STORAGE_H
#define DC_STORAGE_H

#include "nodes/parsenodes.h"

#include "core/table/catalog.h"

extern void storage_altered(AlterTableStmt *stmt, Oid relid);
extern void storage_created(CreateStmt *stmt, Oid relid);
extern bool has_command(const void *parsetree, AlterTableType type);
extern void persistence_follow(Oid relid, Oid sibling);
extern char *storage_problem(const DcCounterRow *row);

#endif /* DC_STORAGE_H */
