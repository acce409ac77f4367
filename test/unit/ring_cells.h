/*
 * ring_cells.h
 *		Cells for rings of sketches, each from malloc, so that sanitizers watch them; and of which there may be too few.
 */
#ifndef RING_CELLS_H
#define RING_CELLS_H

#include <stdlib.h>
#include <string.h>

#include "memory/presence/sketchring.h"

#define RING_CELLS_MAX (3 * RING_MAX_CELLS)

typedef struct RingCells
{
	void *cell[RING_CELLS_MAX];
	uint32_t next; /* where to look for a free number */
	int used;
	int most; /* that may be */
} RingCells;

static void *
ring_cell(void *arg, uint32_t number)
{
	RingCells *cells = arg;

	if (number >= RING_CELLS_MAX || cells->cell[number] == NULL)
		abort();
	return cells->cell[number];
}

static uint32_t
ring_cell_take(void *arg)
{
	RingCells *cells = arg;

	if (cells->used >= cells->most)
		return RING_NONE;
	while (cells->cell[cells->next] != NULL)
		cells->next = (cells->next + 1) % RING_CELLS_MAX;
	cells->cell[cells->next] = malloc(RING_CELL);
	memset(cells->cell[cells->next], 0xAA, RING_CELL);
	cells->used++;
	return cells->next;
}

static void
ring_cell_give_back(void *arg, uint32_t number)
{
	RingCells *cells = arg;

	free(ring_cell(arg, number));
	cells->cell[number] = NULL;
	cells->used--;
}

/* The rank that a register has in the union of all sketches, by looking at each. */
static inline uint32_t
ring_union_rank(uint32_t root, const DcRingCells *cells, uint32_t index)
{
	const uint64_t *words = ring_leaf(root, cells, index / RING_LEAF_WORDS);
	uint32_t most = 0;

	for (int i = 0; words != NULL && i < RING_SLOTS; i++)
	{
		uint32_t rank = words[index % RING_LEAF_WORDS] >> (6 * i) & 63;

		most = rank > most ? rank : most;
	}
	return most;
}

#endif /* RING_CELLS_H */
