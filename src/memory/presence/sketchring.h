/*
 * sketchring.h
 *		Estimating how many distinct members have recently sent heartbeats: a ring of HyperLogLogs (see sketchring.c). Knows
 *		nothing of the server.
 *
 * Copyright (c) 2026, the dcounter developers
 */
#ifndef DC_SKETCHRING_H
#define DC_SKETCHRING_H

#include <stdbool.h>
#include <stdint.h>

#include "types/sketch/hll/hll.h"

#define RING_PRECISION 14
#define RING_REGISTERS (1 << RING_PRECISION)
#define RING_MAX_RANK (64 - RING_PRECISION + 1)
#define RING_SLOTS 10 /* sketches; a word has a register's ranks of all of them */

#define RING_NONE UINT32_MAX

/* The least size of a cell; its first four bytes are not the ring's. */
#define RING_CELL 160
#define RING_LEAF_WORDS ((RING_CELL - 8) / 8)
#define RING_LEAVES ((RING_REGISTERS + RING_LEAF_WORDS - 1) / RING_LEAF_WORDS)
#define RING_DIR_LEAVES ((RING_CELL - 8) / 4)
#define RING_DIRS ((RING_LEAVES + RING_DIR_LEAVES - 1) / RING_DIR_LEAVES)
#define RING_MAX_CELLS (2 + RING_DIRS + RING_LEAVES)

/* Where the cells are. */
typedef struct DcRingCells
{
	void *arg;
	void *(*cell)(void *arg, uint32_t number);
	uint32_t (*take)(void *arg); /* RING_NONE: there is none */
	void (*give_back)(void *arg, uint32_t number);
} DcRingCells;

/* A ring's time, in us by any clock that does not go back. */
typedef struct DcRingTime
{
	int64_t length; /* of a slot */
	int64_t until;	/* the end of the current one */
	uint32_t slot;
	uint32_t version; /* the caller's: the version of the rule that set the length */
} DcRingTime;

typedef enum DcRingAdded
{
	RING_SEEN, /* perhaps */
	RING_NEW,  /* it was certainly not there */
	RING_FULL
} DcRingAdded;

/*
 * the length of a slot for a time to live: without the current slot, which has just begun, the
 * others last that long
 */
static inline int64_t
ring_length(int64_t ttl)
{
	return (ttl + RING_SLOTS - 2) / (RING_SLOTS - 1);
}

extern uint32_t ring_new(const DcRingCells *cells, const DcRingTime *time);
extern void ring_free(uint32_t root, const DcRingCells *cells);
extern DcRingTime *ring_time(uint32_t root, const DcRingCells *cells);
extern bool ring_is_empty(uint32_t root, const DcRingCells *cells);
extern bool ring_beat(uint32_t root, const DcRingCells *cells, uint64_t hash, int64_t now);
extern DcRingAdded ring_add(uint32_t root, const DcRingCells *cells, uint64_t hash);
extern bool ring_turn(uint32_t root, const DcRingCells *cells, int64_t now);
extern void ring_restart(uint32_t root, const DcRingCells *cells, const DcRingTime *time);
extern double ring_estimate(uint32_t root, const DcRingCells *cells);
extern const uint64_t *ring_leaf(uint32_t root, const DcRingCells *cells, uint32_t leaf);
extern bool ring_put_leaf(uint32_t root, const DcRingCells *cells, uint32_t leaf, const uint64_t *words);

#endif /* DC_SKETCHRING_H */
