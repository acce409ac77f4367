/*
 * setstate.h
 *		A set in memory, for many changes in a row (see setstate.c).
 *
 * Copyright (c) 2026, the dcounter developers
 */
#ifndef DC_SETSTATE_H
#define DC_SETSTATE_H

#include "types/crdt/dots.h"
#include "types/crdt/hashindex.h"

/* The dots of an element: one in place, or more elsewhere. Those of a gset have none. */
typedef struct SetDots
{
	uint32_t n;
	uint32_t node;
	union
	{
		int64_t counter;
		Dot *many;
	} of;
} SetDots;

typedef struct SetEntry
{
	const char *data;
	uint32_t len : 24;
	bool own : 1;  /* its bytes have a block of their own */
	bool gone : 1; /* removed; nothing else here means anything */
	uint32_t hash;
	SetDots dots;
} SetEntry;

static inline CrdtString
entry_string(const SetEntry *entry)
{
	return (CrdtString){entry->data, entry->len};
}

typedef struct SetState
{
	CrdtKind kind;
	SetEntry *entries;
	size_t nentries; /* with those that are gone */
	size_t size;	 /* of the array */
	size_t live;
	size_t nsorted; /* this many, from the first on, are in order */
	size_t bytes;	/* what all elements take in a value at least */
	HashIndex index;

	DotsNode *nodes; /* in order of their arrival, not of their names */
	size_t nnodes;
	size_t nodes_size;
	size_t nloaded; /* this many, from the first on, are in the blocks below */
	HashIndex node_index;

	uint8_t *block;	   /* the bytes of elements and nodes that were loaded, */
	DotsRange *ranges; /* and those nodes' ranges */
} SetState;

typedef enum SetEffect
{
	SET_SAME,
	SET_CHANGED,
	SET_NO_DOTS,  /* the node has no dot left, */
	SET_TOO_LARGE /* or the value would be too large: nothing is changed */
} SetEffect;

/* What a change has put aside, so that it can be undone. */
typedef struct SetChange
{
	CrdtString element;
	uint32_t drawn; /* the node that drew a dot, or SET_NO_NODE */
	bool was_there;
	bool own;		/* the element's bytes are the change's now */
	SetDots before; /* if it was there */
} SetChange;

#define SET_NO_NODE UINT32_MAX

extern SetState *setstate_load(CrdtBytes state);
extern SetState *setstate_copy(const SetState *state);
extern void setstate_free(SetState *state);
extern bool setstate_contains(const SetState *state, CrdtString element);
extern SetEffect setstate_add(SetState *state, CrdtString element, CrdtString node,
							  SetChange *change);
extern SetEffect setstate_remove(SetState *state, CrdtString element, SetChange *change);
extern void setstate_undo(SetState *state, const SetChange *change);
extern void setstate_forget(SetChange *change);

/* Writing (see setencode.c). */
extern void setstate_encode(CrdtBuf *out, const SetState *state);
extern void setstate_encode_reset(CrdtBuf *out, const SetState *state);

#endif /* DC_SETSTATE_H */
