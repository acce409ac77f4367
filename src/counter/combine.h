/*
 * combine.h
 *		Increments of several sessions in one statement (see combine.c).
 */
#ifndef DC_COMBINE_H
#define DC_COMBINE_H

#include "rows/delta.h"

/* Writes a delta, in which are those of several sessions (many), and commits it. */
typedef void (*DcCombinedWrite)(void *arg, const DcDelta *delta, bool many);

extern void combine_init(void);
extern void combine_add(const DcDelta *delta, DcCombinedWrite write, void *arg);
extern void combine_commit(void);
extern void combine_abort(void);

#endif /* DC_COMBINE_H */
