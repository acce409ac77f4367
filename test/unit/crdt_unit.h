/*
 * crdt_unit.h
 *		Shared parts of the tests of mergeable types: states that are owned, and operations
 *		by number.
 */
#ifndef CRDT_UNIT_H
#define CRDT_UNIT_H

#include "types/crdt/amounts.h"
#include "types/crdt/dots.h"
#include "types/crdt/gset.h"
#include "types/crdt/stamp.h"

#include <stdlib.h>

#include "unit.h"

static const CrdtBuf no_bytes = {NULL, 0, 0};

static const CrdtType *const crdt_types[] = {
	&crdt_gcounter, &crdt_pncounter, &crdt_vclock, &crdt_gset, &crdt_orset, &crdt_mvreg, &crdt_lww, &crdt_hlc};

#define CRDT_TYPES 8

/* In order; one is the beginning of another, one has a zero byte, one is empty. */
static const CrdtString unit_elements[] = {{"", 0}, {"a", 1}, {"a\0", 2}, {"ab", 2}, {"b", 1}, {"longer", 6}};
static const CrdtString unit_nodes[] = {{"eu", 2}, {"eu:1", 4}, {"m", 1}, {"us", 2}, {"zz", 2}};

#define UNIT_ELEMENTS 6
#define UNIT_NODES 5

static inline CrdtString
unit_string(const char *text)
{
	return (CrdtString){text, strlen(text)};
}

static inline CrdtBuf
unit_copy(CrdtBytes state)
{
	CrdtBuf copy = no_bytes;

	crdt_put_bytes(&copy, state.data, state.len);
	return copy;
}

/* Puts a new state in the place of an old one. */
static inline void
unit_replace(CrdtBuf *state, CrdtBuf by)
{
	crdt_buf_free(state);
	*state = by;
}

static inline CrdtBuf
unit_merge(const CrdtType *type, const CrdtBuf *a, const CrdtBuf *b)
{
	CrdtBuf out = no_bytes;

	type->merge(&out, crdt_bytes(a), crdt_bytes(b));
	return out;
}

static inline CrdtBuf
unit_delta(const CrdtType *type, const CrdtBuf *after, const CrdtBuf *before)
{
	CrdtBuf out = no_bytes;

	type->delta(&out, crdt_bytes(after), crdt_bytes(before));
	return out;
}

static inline bool
unit_same(const CrdtBuf *a, const CrdtBuf *b)
{
	return crdt_same(crdt_bytes(a), crdt_bytes(b));
}

static inline bool
unit_valid(const CrdtType *type, const CrdtBuf *state)
{
	return crdt_check(type, crdt_bytes(state), NULL) == NULL;
}

/* The empty state; of a stamp, which has none, the least of these tests. */
static inline CrdtBuf
unit_empty(const CrdtType *type)
{
	CrdtBuf out = no_bytes;

	switch (type->kind)
	{
		case CRDT_GCOUNTER:
		case CRDT_PNCOUNTER:
		case CRDT_VCLOCK:
			amounts_empty(&out, type->kind);
			break;
		case CRDT_GSET:
			gset_empty(&out);
			break;
		case CRDT_ORSET:
		case CRDT_MVREG:
			dots_empty(&out, type->kind);
			break;
		case CRDT_LWW:
			lww_empty(&out);
			break;
		case CRDT_HLC:
			hlc_encode(&out, &(Stamp){0, unit_nodes[0]});
			break;
	}
	return out;
}

#endif /* CRDT_UNIT_H */
