/*
 * refs.h
 *		Reference counts of distinct values (see refs.c).
 */
#ifndef DC_REFS_H
#define DC_REFS_H

#include "bound/bound.h"

extern Oid refs_create(Oid counter);
extern void refs_add(const DcSourceRow *row, const DcKey *key, const DcKey *item, int sign);

#endif /* DC_REFS_H */
