/*
 * sqltext.h
 *		The texts of the statements of sqlpath.h.
 */
#ifndef DC_SQLTEXT_H
#define DC_SQLTEXT_H

#include "counter/sqlpath.h"

#define SQL_MAX_ARGS 6

typedef struct DcStatementText
{
	/* with @totals, @shards and @holds for the tables, @units for a column */
	const char *text;
	Oid argtypes[SQL_MAX_ARGS]; /* up to the first 0 */
} DcStatementText;

extern const DcStatementText sql_texts[DC_NUM_STATEMENTS];

#endif /* DC_SQLTEXT_H */
