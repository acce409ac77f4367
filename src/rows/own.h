/*
 * own.h
 *		Rows of a transaction's own while an old snapshot is held (see own.c).
 */
#ifndef DC_OWN_H
#define DC_OWN_H

#include "rows/direct.h"

extern bool own_rows_are_reused(DcCounter *counter);
extern void direct_add_own(DcDirectRel *rel, const DcDelta *delta, bool committing);

#endif /* DC_OWN_H */
