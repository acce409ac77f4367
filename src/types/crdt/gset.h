/*
 * gset.h
 *		Grow-only sets (see gset.c).
 *
 * Copyright (c) 2026, the dcounter developers
 */
#ifndef DC_GSET_H
#define DC_GSET_H

#include "types/crdt/crdt.h"

/* Goes through the elements of a set, in their order. */
typedef struct GsetIter
{
	const uint8_t *next;
	int64_t left;
} GsetIter;

extern void gset_empty(CrdtBuf *out);
extern GsetIter gset_iter(CrdtBytes state);
extern bool gset_next(GsetIter *iter, CrdtString *element);
extern bool gset_contains(CrdtBytes state, CrdtString element);
extern void gset_add(CrdtBuf *out, CrdtBytes state, CrdtString element);
extern void gset_encode(CrdtBuf *out, const CrdtString *elements, size_t n);

#endif /* DC_GSET_H */
