/*
 * sqltext.h
 *		The texts of the statements of sqlpath.h.
 */
#ifndef DC_SQLTEXT_H
#define DC_SQLTEXT_H

#include "counter/sqlpath.h"

extern const DcStatementText sql_texts[DC_NUM_STATEMENTS];

#endif /* DC_SQLTEXT_H */
