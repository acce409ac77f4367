/*
 * algorithm.h
 *		The algorithms of limits (see algorithm.c and listalgorithm.c). Does not depend on the
 *		server.
 *
 * Copyright (c) 2026, the dcounter developers
 *
 * Times are microseconds of a clock that is never set. All of them are between 0 and 2^62.
 */
#ifndef DC_LIMIT_ALGORITHM_H
#define DC_LIMIT_ALGORITHM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define LIMIT_NO_CHUNK UINT32_MAX
#define LIMIT_NEVER INT64_MAX

/* No number of a rule is greater. So sums and products below fit into 128 bits. */
#define LIMIT_MAX_UNITS INT64_C(1000000000000000)
#define LIMIT_MAX_US (INT64_C(100) * 366 * 86400 * 1000000)

/* Units that a list can have, each of which takes memory. */
#define LIMIT_MAX_LISTED 1024

typedef enum DcLimitKind
{
	LIMIT_GCRA,		 /* a bucket of tokens that is filled at a rate */
	LIMIT_FIXED,	 /* windows, of which the first call begins the next one */
	LIMIT_LOG,		 /* any window: all calls in it are known */
	LIMIT_SLIDING,	 /* about any window, from two that are fixed */
	LIMIT_CONCURRENT /* leases that are given back, or end */
} DcLimitKind;

/* The numbers of a rule. */
typedef struct DcLimitNumbers
{
	DcLimitKind kind;
	int64_t rate;  /* units in a period; of LIMIT_CONCURRENT: at a time */
	int64_t per;   /* the period, in us; of LIMIT_CONCURRENT: how long a lease is */
	int64_t burst; /* of LIMIT_GCRA: units at once */
} DcLimitNumbers;

/* The state of a key. */
typedef struct DcLimitState
{
	int64_t idle_at;   /* from this time on the key is as good as new */
	int64_t at;		   /* gcra: when the bucket is full; windows: the start; lists: nothing before */
	int64_t used;	   /* gcra: and the fraction of a us, in units of 1/rate; others: units that count */
	int64_t previous;  /* sliding: units of the window before */
	uint32_t first;	   /* lists: chunks, */
	uint32_t last;	   /* or LIMIT_NO_CHUNK */
	uint32_t skipped;  /* items of the first one that are gone */
	uint32_t occupied; /* items of the last one, with those that are gone */
} DcLimitState;

/* A piece of a list. An item is one word, or, of LIMIT_CONCURRENT, two: its end, and its lease. */
typedef struct DcLimitChunk
{
	uint32_t next;
	uint32_t unused;
	int64_t words[]; /* as many as the store says */
} DcLimitChunk;

/* Where chunks are. */
typedef struct DcLimitStore
{
	void *arg;
	uint32_t words; /* in a chunk; at least 2 */
	DcLimitChunk *(*chunk)(void *arg, uint32_t number);
	void (*give_back)(void *arg, uint32_t number);
} DcLimitStore;

typedef struct DcLimitAnswer
{
	bool allowed;
	int64_t remaining;	 /* units that could be had now, if this is allowed after it */
	int64_t retry_after; /* us; 0: now; LIMIT_NEVER */
} DcLimitAnswer;

/* algorithm.c */
extern const char *limit_numbers_wrong(const DcLimitNumbers *numbers);
extern void limit_begin(const DcLimitNumbers *numbers, DcLimitState *state, int64_t now, int64_t lost_at);
extern void limit_turn(const DcLimitNumbers *numbers, DcLimitState *state, int64_t now, const DcLimitStore *store);
extern void limit_test(const DcLimitNumbers *numbers, const DcLimitState *state, int64_t now, int64_t cost,
					   const DcLimitStore *store, DcLimitAnswer *answer);
extern int64_t limit_fits(const DcLimitNumbers *numbers, const DcLimitState *state, int64_t now, int64_t units,
						  const DcLimitStore *store);
extern void limit_add(const DcLimitNumbers *numbers, DcLimitState *state, int64_t now, int64_t cost,
					  int64_t lease, uint32_t fresh, const DcLimitStore *store);
extern void limit_refund(const DcLimitNumbers *numbers, DcLimitState *state, int64_t now, int64_t units,
						 const DcLimitStore *store);
extern void limit_convert(const DcLimitNumbers *old, const DcLimitNumbers *numbers, DcLimitState *state, int64_t now,
						  const DcLimitStore *store);

static inline bool
limit_has_list(const DcLimitNumbers *numbers)
{
	return numbers->kind == LIMIT_LOG || numbers->kind == LIMIT_CONCURRENT;
}

/* listalgorithm.c; of rules that have lists */
extern uint32_t limitlist_chunks_wanted(const DcLimitNumbers *numbers, const DcLimitState *state, int64_t cost,
										const DcLimitStore *store);
extern bool limitlist_release(DcLimitState *state, int64_t lease, const DcLimitStore *store);
extern bool limitlist_renew(const DcLimitNumbers *numbers, DcLimitState *state, int64_t now, int64_t lease,
							const DcLimitStore *store);
extern void limitlist_free(DcLimitState *state, const DcLimitStore *store);
extern void limitlist_turn(const DcLimitNumbers *numbers, DcLimitState *state, int64_t now, const DcLimitStore *store);
extern void limitlist_test(const DcLimitNumbers *numbers, const DcLimitState *state, int64_t now, int64_t cost,
						   const DcLimitStore *store, DcLimitAnswer *answer);
extern void limitlist_add(const DcLimitNumbers *numbers, DcLimitState *state, int64_t now, int64_t cost, int64_t lease,
						  uint32_t fresh, const DcLimitStore *store);
extern void limitlist_drop(const DcLimitNumbers *numbers, DcLimitState *state, int64_t units, const DcLimitStore *store);
extern void limitlist_convert(const DcLimitNumbers *old, const DcLimitNumbers *numbers, DcLimitState *state, int64_t now,
							  const DcLimitStore *store);
typedef void (*DcLimitVisit)(int64_t *item, void *arg);
extern void limitlist_walk(const DcLimitNumbers *numbers, const DcLimitState *state, const DcLimitStore *store,
						   DcLimitVisit visit, void *arg);

#endif /* DC_LIMIT_ALGORITHM_H */
