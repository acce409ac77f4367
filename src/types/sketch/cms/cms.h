/*
 * cms.h
 *		Count-Min sketches in memory (see cms.c).
 *
 * Copyright (c) 2026, the dcounter developers
 */
#ifndef DC_SKETCH_CMS_H
#define DC_SKETCH_CMS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define CMS_MIN_EPSILON 1e-7
#define CMS_MIN_DELTA 1e-9
#define CMS_MAX_PARAMETER 0.5
#define CMS_MAX_DEPTH 21
#define CMS_MAX_CELLS (UINT32_C(1) << 25)

/* Errors. */
typedef enum CmsError
{
	CMS_OK,
	CMS_EPSILON,	  /* epsilon is out of range */
	CMS_DELTA,		  /* delta is out of range */
	CMS_CELLS,		  /* more than CMS_MAX_CELLS cells */
	CMS_OVERFLOW,	  /* a weight, a cell or the total overflows bigint */
	CMS_NEGATIVE,	  /* a weight, a cell or the total falls below zero */
	CMS_CONSERVATIVE, /* not possible with conservative update */
	CMS_UNKNOWN		  /* a row to take out was not added */
} CmsError;

/* Parameters of a sketch; width and depth follow from epsilon and delta. */
typedef struct CmsShape
{
	double epsilon;
	double delta;
	uint32_t width;
	uint8_t depth;
	bool conservative;
} CmsShape;

/* The weight of an item, known by its hash. No hash is 0. */
typedef struct CmsEntry
{
	uint64_t hash;
	int64_t weight;
} CmsEntry;

/* Either table or cells is set, the other is NULL; an empty sketch has neither. */
typedef struct Cms
{
	CmsShape shape;
	int64_t total;		/* sum of all weights */
	CmsEntry *table;	/* open addressing, 1 << table_bits places */
	void *cells;		/* depth rows of width signed integers */
	uint32_t used;		/* entries in the table */
	uint8_t table_bits; /* 0 before there is a table */
	uint8_t cell_bytes; /* 1, 2, 4 or 8 */
} Cms;

/* Secret of the tables' order, so that no user can prepare a slow one. Odd. */
extern uint64_t cms_secret;

extern CmsError cms_shape(double epsilon, double delta, bool conservative,
						  CmsShape *shape);
extern bool cms_same_shape(const CmsShape *a, const CmsShape *b);
extern void cms_init(Cms *cms, const CmsShape *shape);
extern void cms_reset(Cms *cms);
extern CmsError cms_add(Cms *cms, uint64_t hash, int64_t weight);
extern CmsError cms_put(Cms *cms, uint64_t hash, int64_t weight);
extern CmsError cms_settle(Cms *cms);
extern CmsError cms_merge(Cms *cms, const Cms *from);
extern CmsError cms_merge_cells(Cms *cms, const void *cells, int cell_bytes,
								bool little_endian, int64_t total, int sign);
extern CmsError cms_add_cells(Cms *cms, uint64_t hash, int64_t weight);
extern void cms_start_cells(Cms *cms);
extern CmsEntry *cms_sorted(const Cms *cms);
extern void cms_sort(CmsEntry *entries, size_t n);
extern void cms_load(const void *cells, int cell_bytes, size_t first, size_t n,
					 int64_t *values);
extern void cms_read(const uint8_t *cells, int cell_bytes, size_t first, size_t n,
					 int64_t *values);

static inline uint32_t
cms_cells(const CmsShape *shape)
{
	return shape->width * shape->depth;
}

/*
 * As many items a sketch holds as a list. The list is then about as long as
 * cells of one byte, and the limit is the same on every way to a sketch.
 */
static inline uint32_t
cms_sparse_limit(const CmsShape *shape)
{
	return cms_cells(shape) / 8;
}

/* The hash that an item is known by: 0 stands for "no item" in the tables. */
static inline uint64_t
cms_item(uint64_t hash)
{
	return hash == 0 ? 1 : hash;
}

/* An unsigned number, lowest byte first. */
static inline uint64_t
cms_get(const uint8_t *at, int bytes)
{
	uint64_t value = 0;

	while (bytes-- > 0)
		value = value << 8 | at[bytes];
	return value;
}

static inline void
cms_set(uint8_t *at, int bytes, uint64_t value)
{
	for (int i = 0; i < bytes; i++)
		at[i] = (uint8_t) (value >> (8 * i));
}

/* The constants of the rows, part of the format. */
extern const uint64_t cms_rows[CMS_MAX_DEPTH][2];

/* The cell of an item in a row. */
static inline uint32_t
cms_cell(const CmsShape *shape, uint32_t row, uint64_t hash)
{
	uint64_t mixed = (hash * cms_rows[row][0] + cms_rows[row][1]) >> 32;

	return row * shape->width + (uint32_t) ((mixed * shape->width) >> 32);
}

#endif /* DC_SKETCH_CMS_H */
