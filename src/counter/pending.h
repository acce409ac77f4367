/*
 * pending.h
 *		The deltas that this transaction has not yet written (see pending.c).
 */
#ifndef DC_PENDING_H
#define DC_PENDING_H

#include "base/key.h"
#include "common/hashfn.h"
#include "nodes/pg_list.h"
#include "utils/numeric.h"

/* A shard hint of 0 means: the table's own choice (random or backend). */
#define DC_NO_HINT UINT64CONST(0)

/* What pending deltas are coalesced by. */
typedef struct DcDeltaKey
{
	const char *data; /* the counter key's bytes */
	uint32 len;
	Oid counter;
} DcDeltaKey;

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

/* One pending delta. inc and dec are sums of amounts, so never negative. */
typedef struct DcDelta
{
	DcDeltaKey key;
	int64 inc;
	int64 dec;
	uint64 calls; /* of dc_incr() and its relatives */
	uint64 hint;  /* the first hint given, or DC_NO_HINT */
	uint32 hash;  /* of the key, for simplehash */
	char status;  /* for simplehash */
} DcDelta;

extern void pending_add(Oid counter, const DcKey *key, uint64 hint,
						int64 inc, int64 dec);
extern bool pending_is_empty(void);
extern bool pending_any(bool (*is)(Oid counter), int64 above);
extern bool pending_memory_is_full(const DcKey *key);
extern void pending_lookup(Oid counter, const DcKey *key,
						   int64 *inc, int64 *dec);
extern Numeric pending_total(Oid counter);
extern DcDelta **pending_sorted(int *count);
extern void pending_mark_applied(void);
extern void pending_keep(const List *counters);

extern void pending_end_xact(void);
extern void pending_commit_subxact(void);
extern void pending_abort_subxact(void);

#endif /* DC_PENDING_H */
