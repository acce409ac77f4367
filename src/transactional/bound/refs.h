/*
 * refs.h
 *		Reference counts of distinct values (see refs.c).
 *
 * Copyright (c) 2026, the dcounter developers
 */
#ifndef DC_REFS_H
#define DC_REFS_H

#include "transactional/bound/bound.h"

#define DC_REF_SUFFIX "_ref"

/* A change of the count of an item of a key. */
typedef struct DcRef
{
	Oid counter;
	Oid refs; /* the table of reference counts */
	int64 delta;
	uint16 key_len;
	uint16 item_len;
	char data[FLEXIBLE_ARRAY_MEMBER]; /* the bytes of the key, then those of the item */
} DcRef;

static inline DcKey
ref_key(const DcRef *ref)
{
	return (DcKey){.data = ref->data, .len = ref->key_len};
}

static inline DcKey
ref_item(const DcRef *ref)
{
	return (DcKey){.data = ref->data + ref->key_len, .len = ref->item_len};
}

/* Takes the count of an item of a key, or a change of it. */
typedef void (*DcRefScanned)(const DcKey *key, const DcKey *item, int64 n, void *arg);

/* Takes a change of the value of a key. */
typedef void (*DcRefEffect)(const DcKey *key, int64 change, void *arg);

/* refs.c */
extern void refs_init(void);
extern void refs_add(const DcSourceRow *row, const DcKey *key, const DcKey *item, int64 delta);
extern void refs_write_all(bool committing);
extern bool refs_are_written(void);
extern bool refs_any(Oid counter);
extern void refs_pending(Oid counter, const DcKey *key, int64 *inc, int64 *dec);
extern void refs_pending_counts(Oid counter, DcRefScanned take, void *arg);
extern void refs_pending_values(Oid counter, DcRefEffect take, void *arg);

/* refswrite.c */
extern void refs_write(DcRef **refs, int count);
extern void refs_effect(DcRef **refs, int count, DcRefEffect take, void *arg);

/* refstable.c */
extern Oid refs_create(Oid counter);
extern Relation refs_open(Oid refs, LOCKMODE mode, AttrNumber *atts);
extern void refs_scan(const DcSourceRow *row, Snapshot snapshot, DcRefScanned scanned, void *arg);
extern void refs_empty(const DcSourceRow *row);

#endif /* DC_REFS_H */
