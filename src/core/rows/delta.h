/*
 * delta.h
 *		Amounts to add to a counter's key.
 *
 * Copyright (c) 2026, the dcounter developers
 */
#ifndef DC_DELTA_H
#define DC_DELTA_H

#include "common/hashfn.h"
#include "utils/builtins.h"

#include "base/key.h"

/* A shard hint of 0 means: the table's own choice (random or backend). */
#define DC_NO_HINT UINT64CONST(0)

/* The key by which pending deltas are coalesced. */
typedef struct DcDeltaKey
{
	const char *data; /* the counter key's bytes */
	uint32 len;
	Oid counter;
} DcDeltaKey;

static inline DcDeltaKey
delta_key(Oid counter, const DcKey *key)
{
	return (DcDeltaKey){.data = key->data, .len = key->len, .counter = counter};
}

static inline uint32
delta_key_hash(const DcDeltaKey *key)
{
	return hash_combine(hash_bytes((const unsigned char *) key->data, key->len),
						murmurhash32(key->counter));
}

static inline bool
delta_key_equal(const DcDeltaKey *a, const DcDeltaKey *b)
{
	return a->counter == b->counter && a->len == b->len &&
		memcmp(a->data, b->data, a->len) == 0;
}

/*
 * delta_key_text returns a counter key as a text datum.
 */
static inline Datum
delta_key_text(const DcDeltaKey *key)
{
	return PointerGetDatum(cstring_to_text_with_len(key->data, key->len));
}

/* One pending delta. inc and dec are sums of amounts, so never negative. */
typedef struct DcDelta
{
	DcDeltaKey key;
	int64 inc;
	int64 dec;
	int64 back;	  /* how much of inc are units of a stock that come back: they go to one row (units.c) */
	uint64 calls; /* of dc_incr() and its relatives */
	uint64 hint;  /* the first hint given, or DC_NO_HINT */
	uint32 hash;  /* of the key, for simplehash */
	char status;  /* for simplehash */
} DcDelta;

#endif /* DC_DELTA_H */
