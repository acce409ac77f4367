/*
 * table.h
 *		Creating counter tables, for the rooms that build upon them (see table.c).
 */
#ifndef DC_TABLE_H
#define DC_TABLE_H

#include "fmgr.h"
#include "nodes/primnodes.h"
#include "storage/lockdefs.h"
#include "table/catalog.h"

extern RangeVar *table_name_arg(FunctionCallInfo fcinfo, int argno);
extern Oid table_create(RangeVar *name, DcCounterRow row, bool stock,
						int partitions, const char *maker);
extern Oid table_existing(FunctionCallInfo fcinfo, int argno, RangeVar *name,
						  const char *kind);
extern void table_adopt(DcCounterRow *row);
extern void lock_own_table(Oid relid, LOCKMODE mode);
extern void op_retention_arg(FunctionCallInfo fcinfo, int argno,
							 DcCounterRow *row);
extern char *sibling_name(const char *name, const char *suffix);
extern void create_table(const char *schema, const char *name,
						 const char *columns, const char *options,
						 const char *what);
extern void comment_table(const char *schema, const char *name, const char *what);

#endif /* DC_TABLE_H */
