/*
 * table.h
 *		Creating counter tables, for the rooms that build upon them (see create.c).
 *
 * Copyright (c) 2026, the dcounter developers
 */
#ifndef DC_TABLE_H
#define DC_TABLE_H

#include "fmgr.h"
#include "nodes/primnodes.h"
#include "storage/lockdefs.h"

#include "core/table/catalog.h"

/* create.c */
extern RangeVar *table_name_arg(FunctionCallInfo fcinfo, int argno);
extern Oid table_schema(RangeVar *name, const char *what);
extern Oid table_create(RangeVar *name, DcCounterRow row, bool stock,
						int partitions, const char *maker);
extern Oid table_existing(FunctionCallInfo fcinfo, int argno, RangeVar *name,
						  const char *kind);
extern Oid table_of_name(RangeVar *name);
extern void table_skip(const RangeVar *name, bool is_kind, const char *kind);
extern Oid sibling_create(Oid relid, const char *suffix, const char *columns, const char *options, bool anew, const char *what);
extern Oid sibling_find(Oid relid, const char *suffix);
extern void create_shards(const char *schema, const char *name, bool stock, int partitions, const char *maker);
extern char *sibling_name(const char *name, const char *suffix);
extern void create_table(const char *schema, const char *name,
						 const char *columns, const char *options,
						 const char *what);
extern void comment_table(const char *schema, const char *name, const char *what);

/* table.c */
extern void table_adopt(DcCounterRow *row, Oid functions);
extern void adopt_error(const char *name, const char *detail);
extern void lock_own_table(Oid relid, LOCKMODE mode);
extern void op_retention_arg(FunctionCallInfo fcinfo, int argno, DcCounterRow *row);
extern void idle_arg(FunctionCallInfo fcinfo, int argno, DcCounterRow *row);
extern const char *idle_refused(const DcCounter *counter);
extern void table_drop(Oid relid, bool cascade);
extern void sample_arg(FunctionCallInfo fcinfo, int argno, DcCounterRow *row);
extern int max_shards_arg(FunctionCallInfo fcinfo, int argno);
extern void buffer_args(FunctionCallInfo fcinfo, int argno, DcCounterRow *row);

#endif /* DC_TABLE_H */
