/*
 * sqlpath.h
 *		The counter tables' SQL statements, and running them (see sqlpath.c).
 */
#ifndef DC_SQLPATH_H
#define DC_SQLPATH_H

#include "base/rowread.h"
#include "base/runas.h"
#include "table/catalog.h"

/*
 * The statements that are kept prepared for each counter table. Their text, and
 * what their parameters mean, stands in sqlpath.c in this order.
 */
typedef enum DcStatement
{
	DC_SQL_UPDATE_FREE,
	DC_SQL_UPDATE_WAIT,
	DC_SQL_INSERT_IF_ROOM,
	DC_SQL_INSERT_BATCH,
	DC_SQL_UPDATE_OWN,
	DC_SQL_INSERT_OWN,
	DC_SQL_DELETE_OWN,
	DC_SQL_READ_KEY,
	DC_SQL_READ_KEYS,
	DC_SQL_READ_ALL,
	DC_SQL_READ_CHANGED,
	DC_SQL_READ_TOTAL,
	DC_SQL_TOP,
	DC_SQL_STATS,
	DC_SQL_LOCK_TOTAL,
	DC_SQL_UPDATE_TOTAL,
	DC_SQL_DELETE_TOTAL,
	DC_SQL_DELETE_SHARDS,
	DC_SQL_COMPACT_SHARDS,
	DC_SQL_COMPACT_LOCK,
	DC_SQL_COMPACT_LOCK_PLACES,
	DC_SQL_COMPACT_EXISTING,
	DC_SQL_COMPACT_UPDATE,
	DC_SQL_COMPACT_UPDATE_PLACES,
	DC_SQL_COMPACT_INSERT,
	DC_SQL_COMPACT_DELETE,
	DC_SQL_COMPACT_ZERO,
	DC_SQL_COMPACT_UNITS,
	DC_SQL_COMPACT_SPREAD,
	DC_SQL_COUNT_ROWS,
	DC_SQL_HOLD_FIND,
	DC_SQL_HOLD_INSERT,
	DC_SQL_HOLD_LOCK,
	DC_SQL_HOLD_END,
	DC_SQL_HOLD_EXPIRE,
	DC_SQL_HOLD_EXPIRE_KEY,
	DC_SQL_HOLD_EXPIRED,
	DC_SQL_HOLD_PURGE,
	DC_SQL_HOLD_FIRST,
	DC_SQL_HOLD_LIST,
	DC_SQL_HOLD_LIST_ALL,
	DC_NUM_STATEMENTS /* those of another room follow (sql_extend) */
} DcStatement;

#define SQL_MAX_MORE 40
#define SQL_MAX_ARGS 10

/* The tables that are kept open during a session; those of another room follow. */
typedef enum DcSqlTable
{
	DC_OF_TOTALS,
	DC_OF_SHARDS,
	DC_OF_HOLDS,
	DC_OF_MORE,
	DC_OF_TABLES = DC_OF_MORE + 6
} DcSqlTable;

typedef struct DcStatementText
{
	/* with @totals, @shards and @holds for the tables, @units for a column */
	const char *text;
	Oid argtypes[SQL_MAX_ARGS];				  /* up to the first 0 */
	bool reads_all;							  /* scans of whole tables are right for it */
	DcResultColumn columns[ROWS_MAX_COLUMNS]; /* of its result */
	int of;									  /* which table errors name */
} DcStatementText;

/* Returns what a word after @ stands for that is none of these. */
typedef const char *(*DcSqlWord)(DcCounter *counter, const char *word);

/* A session of statements on one counter table, as its owner. */
typedef struct DcSqlSession
{
	DcCounter *counter;
	DcRunAs runas;
	Relation tables[DC_OF_TABLES]; /* those that it uses; else NULL */
	DcRows rows;				   /* of the last statement */
} DcSqlSession;

extern void sql_extend(const DcStatementText *texts, int count, DcSqlWord word);
extern void sql_forget(DcCounter *counter);
extern void sql_begin(DcSqlSession *session, DcCounter *counter);
extern void sql_keep_open(DcSqlSession *session, int place, Oid relid);
extern void sql_end(DcSqlSession *session);
extern uint64 sql_run(DcSqlSession *session, DcStatement statement,
					  Datum *values);
extern uint64 sql_run_nulls(DcSqlSession *session, DcStatement statement,
							Datum *values, const char *nulls);
extern uint64 sql_read(DcSqlSession *session, DcStatement statement,
					   Datum *values);
extern void sql_check_newer(DcSqlSession *session, DcStatement statement,
							Datum *values);

#endif /* DC_SQLPATH_H */
