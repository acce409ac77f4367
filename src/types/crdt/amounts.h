/*
 * amounts.h
 *		Amounts per node, which only grow (see amounts.c).
 *
 * Copyright (c) 2026, the dcounter developers
 */
#ifndef DC_AMOUNTS_H
#define DC_AMOUNTS_H

#include "types/crdt/crdt.h"

/* The amounts of a node. A grow-only counter and a vector clock have the first alone. */
typedef enum AmountsField
{
	AMOUNT_INC,
	AMOUNT_DEC,
	AMOUNT_INC_RESET, /* how much of them resets have taken away */
	AMOUNT_DEC_RESET
} AmountsField;

#define AMOUNTS_FIELDS 4

typedef struct AmountsEntry
{
	CrdtString node;
	int64_t amounts[AMOUNTS_FIELDS]; /* zero where the type has none */
} AmountsEntry;

/* Goes through the entries of a state, in order of nodes. */
typedef struct AmountsIter
{
	const uint8_t *next;
	int64_t left;
	int fields;
} AmountsIter;

extern void amounts_empty(CrdtBuf *out, CrdtKind kind);
extern AmountsIter amounts_iter(CrdtBytes state);
extern bool amounts_next(AmountsIter *iter, AmountsEntry *entry);
extern bool amounts_value(CrdtBytes state, int64_t *value);
extern bool amounts_add(CrdtBuf *out, CrdtBytes state, CrdtString node,
						AmountsField field, int64_t amount);
extern void amounts_reset(CrdtBuf *out, CrdtBytes state);
extern void amounts_encode(CrdtBuf *out, CrdtKind kind, const AmountsEntry *entries, size_t n);
extern const char *amounts_entry_wrong(const AmountsEntry *entry);

#endif /* DC_AMOUNTS_H */
