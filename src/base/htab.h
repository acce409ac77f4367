/*
 * htab.h
 *		Hash tables in the memory of a session (see htab.c).
 */
#ifndef DC_HTAB_H
#define DC_HTAB_H

#include "utils/hsearch.h"

extern HTAB *htab_create(const char *name, Size keysize, Size entrysize,
						 MemoryContext cxt);
extern void *htab_oid_entry(HTAB **htab, const char *name, Size entrysize, Oid oid);

#endif /* DC_HTAB_H */
