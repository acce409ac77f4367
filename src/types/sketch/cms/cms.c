/*
 * cms.c
 *		Count-Min sketches in memory.
 *
 * Copyright (c) 2026, the dcounter developers
 *
 * A Count-Min sketch (Cormode and Muthukrishnan, 2005) has d rows of w cells. An
 * item has one cell in each row, to which its weight is added; the smallest of
 * its cells is the estimate of its weight. Other items share its cells, so with
 * N the sum of all weights, and as long as no item's true weight is negative,
 *
 *	- estimate >= truth, always;
 *	- estimate <= truth + epsilon * N with probability 1 - delta, for
 *	  w = ceil(e / epsilon) and d = ceil(ln(1 / delta)): other items add N / w to
 *	  a cell on average. So they add more than e times that with probability
 *	  1 / e at most (Markov), and more than that in all rows with e^-d.
 *
 * The cells are sums, so any order of adding, splitting and merging gives the
 * same sketch, and an item can be taken out again.
 *
 * While there are few items, a table of hashes and weights is smaller, and exact except for equal
 * hashes. The table turns into cells once it has held more than cms_sparse_limit different hashes.
 * An entry whose weight went back to 0 stays until then: so the point does not depend on the order
 * either.
 *
 * Conservative update (Estan and Varghese, 2002) raises no cell above the item's
 * new estimate: estimates are lower and still not below the truth, since each
 * cell is at least the weight of each of its items. But cells are no longer
 * sums: the order matters, and nothing can be taken out. The sum of two such
 * sketches keeps both bounds, as its cells are neither below the true weights
 * nor above those of the plain sketch.
 *
 * Here cells are signed, so that an aggregate may see a deletion before the addition
 * that it undoes. That nothing is below zero is checked when a value is created. Cells begin with
 * one byte. All of them widen when one needs it.
 *
 * After an error from cms_put the sketch is unchanged; after one from any other
 * function it can only be reset.
 */
#include "types/sketch/cms/cms.h"

#include "types/sketch/memory.h"

#include <string.h>

#define CHUNK 256

/* e, and its powers from -1 to -21, to the last bit on any machine. */
static const double euler = 2.718281828459045;
static const double powers[CMS_MAX_DEPTH] = {
	0.36787944117144233, 0.1353352832366127, 0.049787068367863944,
	0.01831563888873418, 0.006737946999085467, 0.0024787521766663585,
	0.0009118819655545162, 0.00033546262790251185, 0.00012340980408667956,
	4.5399929762484854e-05, 1.670170079024566e-05, 6.14421235332821e-06,
	2.2603294069810542e-06, 8.315287191035679e-07, 3.059023205018258e-07,
	1.1253517471925912e-07, 4.139937718785167e-08, 1.522997974471263e-08,
	5.602796437537268e-09, 2.061153622438558e-09, 7.582560427911907e-10};

/*
 * A row takes the high half of hash * a + b. These are the outputs of splitmix64
 * from seed 0: of each pair, the first made odd.
 */
const uint64_t cms_rows[CMS_MAX_DEPTH][2] = {
	{UINT64_C(0xe220a8397b1dcdaf), UINT64_C(0x6e789e6aa1b965f4)},
	{UINT64_C(0x06c45d188009454f), UINT64_C(0xf88bb8a8724c81ec)},
	{UINT64_C(0x1b39896a51a8749b), UINT64_C(0x53cb9f0c747ea2ea)},
	{UINT64_C(0x2c829abe1f4532e1), UINT64_C(0xc584133ac916ab3c)},
	{UINT64_C(0x3ee5789041c98ac3), UINT64_C(0xf3b8488c368cb0a6)},
	{UINT64_C(0x657eecdd3cb13d09), UINT64_C(0xc2d326e0055bdef6)},
	{UINT64_C(0x8621a03fe0bbdb7b), UINT64_C(0x8e1f7555983aa92f)},
	{UINT64_C(0xb54e0f1600cc4d19), UINT64_C(0x84bb3f97971d80ab)},
	{UINT64_C(0x7d29825c75521255), UINT64_C(0xc3cf17102b7f7f86)},
	{UINT64_C(0x3466e9a083914f65), UINT64_C(0xd81a8d2b5a4485ac)},
	{UINT64_C(0xdb01602b100b9ed7), UINT64_C(0xa9038a921825f10d)},
	{UINT64_C(0xedf5f1d90dca2f6b), UINT64_C(0x54496ad67bd2634c)},
	{UINT64_C(0xdd7c01d4f5407269), UINT64_C(0x935e82f1db4c4f7b)},
	{UINT64_C(0x69b82ebc92233301), UINT64_C(0x40d29eb57de1d510)},
	{UINT64_C(0xa2f09dabb45c6317), UINT64_C(0xee521d7a0f4d3872)},
	{UINT64_C(0xf16952ee72f3454f), UINT64_C(0x377d35dea8e40225)},
	{UINT64_C(0x0c7de8064963bab1), UINT64_C(0x05582d37111ac529)},
	{UINT64_C(0xd254741f599dc6f7), UINT64_C(0x69630f7593d108c3)},
	{UINT64_C(0x417ef96181daa383), UINT64_C(0x3c3c41a3b43343a1)},
	{UINT64_C(0x6e19905dcbe531df), UINT64_C(0x4fa9fa7324851729)},
	{UINT64_C(0x84eb4454a792922b), UINT64_C(0x134f7096918175ce)}};

uint64_t cms_secret = UINT64_C(0x9e3779b97f4a7c15);

static uint32_t cms_room(const Cms *cms);
static CmsEntry *cms_find_place(const Cms *cms, uint64_t hash);
static void cms_grow(Cms *cms);
static CmsError cms_spread(Cms *cms, const CmsEntry *entries, uint32_t n);
static CmsError add_conservative(Cms *cms, uint64_t hash, int64_t weight);
static bool add_plain(Cms *cms, uint64_t hash, int64_t weight);
static void cms_widen(Cms *cms);

/*
 * cms_shape fills the shape that follows from epsilon and delta. No function of
 * the mathematical library is used, as these differ in the last bit.
 */
CmsError
cms_shape(double epsilon, double delta, bool conservative, CmsShape *shape)
{
	double width;

	if (!(epsilon >= CMS_MIN_EPSILON && epsilon <= CMS_MAX_PARAMETER))
		return CMS_EPSILON;
	if (!(delta >= CMS_MIN_DELTA && delta <= CMS_MAX_PARAMETER))
		return CMS_DELTA;
	width = euler / epsilon;
	shape->epsilon = epsilon;
	shape->delta = delta;
	shape->width = (uint32_t) width;
	if (shape->width < width)
		shape->width++;
	shape->depth = 1;
	while (powers[shape->depth - 1] > delta)
		shape->depth++;
	shape->conservative = conservative;
	if ((uint64_t) shape->width * shape->depth > CMS_MAX_CELLS)
		return CMS_CELLS;
	return CMS_OK;
}

/*
 * cms_same_shape is whether two sketches can be merged.
 */
bool
cms_same_shape(const CmsShape *a, const CmsShape *b)
{
	return a->width == b->width && a->depth == b->depth &&
		a->epsilon == b->epsilon && a->delta == b->delta;
}

/*
 * Make an empty sketch of a shape. It has no memory of its own yet.
 */
void
cms_init(Cms *cms, const CmsShape *shape)
{
	memset(cms, 0, sizeof(*cms));
	cms->shape = *shape;
	cms->cell_bytes = 1;
}

/*
 * cms_reset empties a sketch and frees its memory.
 */
void
cms_reset(Cms *cms)
{
	CmsShape shape = cms->shape;

	if (cms->table != NULL)
		sketch_free(cms->table);
	if (cms->cells != NULL)
		sketch_free(cms->cells);
	cms_init(cms, &shape);
}

/*
 * cms_add adds to the weight of an item.
 */
CmsError
cms_add(Cms *cms, uint64_t hash, int64_t weight)
{
	CmsError error = weight == 0 ? CMS_OK : cms_put(cms, hash, weight);

	if (error == CMS_OK && cms->used > cms_sparse_limit(&cms->shape))
		error = cms_settle(cms);
	return error;
}

/*
 * cms_put adds, too, but the table may become too large: cms_settle is to follow
 * when all is put. A weight of 0 makes the item one that was there.
 */
CmsError
cms_put(Cms *cms, uint64_t hash, int64_t weight)
{
	CmsEntry *place;
	CmsError error;
	int64_t total;

	if (cms->shape.conservative && weight < 0)
		return CMS_CONSERVATIVE;
	if (weight == INT64_MIN || __builtin_add_overflow(cms->total, weight, &total))
		return CMS_OVERFLOW;
	hash = cms_item(hash);
	if (cms->cells != NULL)
	{
		error = cms_add_cells(cms, hash, weight);
		if (error == CMS_OK)
			cms->total = total;
		return error;
	}
	if (cms->used >= cms_room(cms))
		cms_grow(cms);
	place = cms_find_place(cms, hash);
	if (place->hash == 0)
	{
		place->hash = hash;
		place->weight = weight;
		cms->used++;
	}
	else if (__builtin_add_overflow(place->weight, weight, &place->weight))
	{
		place->weight = (int64_t) ((uint64_t) place->weight - (uint64_t) weight);
		return CMS_OVERFLOW;
	}
	cms->total = total;
	return CMS_OK;
}

/*
 * cms_settle turns the table into cells if it has too many entries.
 */
CmsError
cms_settle(Cms *cms)
{
	CmsEntry *entries;
	uint32_t n = cms->used;
	CmsError error;

	if (n <= cms_sparse_limit(&cms->shape))
		return CMS_OK;
	entries = cms_sorted(cms);
	cms_start_cells(cms);
	error = cms_spread(cms, entries, n);
	sketch_free(entries);
	return error;
}

/* How many entries the table may have; an eighth of the places stays empty. */
static uint32_t
cms_room(const Cms *cms)
{
	uint32_t places = UINT32_C(1) << cms->table_bits;

	return cms->table == NULL ? 0 : places - (places + 7) / 8;
}

/* The entry of a hash, or the empty place for it. */
static CmsEntry *
cms_find_place(const Cms *cms, uint64_t hash)
{
	uint32_t mask = (UINT32_C(1) << cms->table_bits) - 1;
	uint32_t at = (uint32_t) ((hash * cms_secret) >> (64 - cms->table_bits));

	while (cms->table[at].hash != hash && cms->table[at].hash != 0)
		at = (at + 1) & mask;
	return &cms->table[at];
}

/*
 * Double the table's places, or make the first four.
 */
static void
cms_grow(Cms *cms)
{
	CmsEntry *old = cms->table;
	size_t places = old == NULL ? 0 : (size_t) 1 << cms->table_bits;
	size_t size;

	cms->table_bits = places == 0 ? 2 : cms->table_bits + 1;
	size = sizeof(CmsEntry) << cms->table_bits;
	cms->table = sketch_alloc(size);
	memset(cms->table, 0, size);
	for (size_t i = 0; i < places; i++)
	{
		if (old[i].hash != 0)
			*cms_find_place(cms, old[i].hash) = old[i];
	}
	if (old != NULL)
		sketch_free(old);
}

/*
 * Compare two entries by their hashes, for qsort().
 */
static int
cms_compare(const void *a, const void *b)
{
	uint64_t x = ((const CmsEntry *) a)->hash;
	uint64_t y = ((const CmsEntry *) b)->hash;

	return (x > y) - (x < y);
}

/*
 * Sort entries by their hashes, in ascending order.
 */
void
cms_sort(CmsEntry *entries, size_t n)
{
	/* few: a sparse sketch has no more than its dense form has cells */
	qsort(entries, n, sizeof(CmsEntry), cms_compare);
}

/*
 * cms_sorted is a copy of a table's entries, ordered by hash.
 */
CmsEntry *
cms_sorted(const Cms *cms)
{
	CmsEntry *entries = sketch_alloc((cms->used + 1) * sizeof(CmsEntry));
	size_t places = cms->table == NULL ? 0 : (size_t) 1 << cms->table_bits;
	size_t n = 0;

	for (size_t i = 0; i < places; i++)
	{
		if (cms->table[i].hash != 0)
			entries[n++] = cms->table[i];
	}
	cms_sort(entries, n);
	return entries;
}

/*
 * cms_start_cells has cells, all zero, take the table's place. The total stays.
 */
void
cms_start_cells(Cms *cms)
{
	if (cms->table != NULL)
		sketch_free(cms->table);
	cms->table = NULL;
	cms->table_bits = 0;
	cms->used = 0;
	cms->cell_bytes = 1;
	cms->cells = sketch_alloc(cms_cells(&cms->shape));
	memset(cms->cells, 0, cms_cells(&cms->shape));
}

/* Add entries, in the order of their hashes, to the cells but not to the total. */
static CmsError
cms_spread(Cms *cms, const CmsEntry *entries, uint32_t n)
{
	CmsError error = CMS_OK;

	for (uint32_t i = 0; i < n && error == CMS_OK; i++)
		error = cms_add_cells(cms, entries[i].hash, entries[i].weight);
	return error;
}

/*
 * cms_add_cells adds to an item's cells but not to the total.
 */
CmsError
cms_add_cells(Cms *cms, uint64_t hash, int64_t weight)
{
	if (cms->shape.conservative)
		return add_conservative(cms, hash, weight);
	while (!add_plain(cms, hash, weight))
	{
		if (cms->cell_bytes == 8)
			return CMS_OVERFLOW;
		cms_widen(cms);
	}
	return CMS_OK;
}

/* Add to the cells, or change nothing if one of the sums does not fit. */
#define DEFINE_ADD(type, low, high) \
	static inline bool add_##type(type *cells, const CmsShape *shape, uint64_t hash, int64_t weight) \
	{ \
		uint32_t at[CMS_MAX_DEPTH]; \
		bool fits = true; \
		if (weight < (low) || weight > (high)) \
			return false; \
		for (uint32_t row = 0; row < shape->depth; row++) \
		{ \
			int64_t sum; \
			at[row] = cms_cell(shape, row, hash); \
			sum = cells[at[row]] + weight; \
			fits &= sum >= (low) && sum <= (high); \
		} \
		if (!fits) \
			return false; \
		for (uint32_t row = 0; row < shape->depth; row++) \
			cells[at[row]] = (type) (cells[at[row]] + weight); \
		return true; \
	}

DEFINE_ADD(int8_t, INT8_MIN, INT8_MAX)
DEFINE_ADD(int16_t, INT16_MIN, INT16_MAX)
DEFINE_ADD(int32_t, INT32_MIN, INT32_MAX)

/*
 * Add a weight to an item's cells. Return false, with nothing changed, if a sum does not fit into
 * cells of the present width.
 */
static bool
add_plain(Cms *cms, uint64_t hash, int64_t weight)
{
	int64_t *cells = cms->cells;
	int64_t sum;

	switch (cms->cell_bytes)
	{
		case 1:
			return add_int8_t(cms->cells, &cms->shape, hash, weight);
		case 2:
			return add_int16_t(cms->cells, &cms->shape, hash, weight);
		case 4:
			return add_int32_t(cms->cells, &cms->shape, hash, weight);
	}
	for (uint32_t row = 0; row < cms->shape.depth; row++)
	{
		if (__builtin_add_overflow(cells[cms_cell(&cms->shape, row, hash)], weight, &sum))
			return false;
	}
	for (uint32_t row = 0; row < cms->shape.depth; row++)
		cells[cms_cell(&cms->shape, row, hash)] += weight;
	return true;
}

#define COPY_CELLS(to, from) \
	for (size_t i = 0; i < n; i++) \
		(to) = (from); \
	return;

/*
 * Write n numbers into cells in memory, from cell `first` on. They must fit into cell_bytes.
 */
static void
cms_store(void *cells, int cell_bytes, size_t first, size_t n, const int64_t *values)
{
	switch (cell_bytes)
	{
		case 1:
			COPY_CELLS(((int8_t *) cells)[first + i], (int8_t) values[i])
		case 2:
			COPY_CELLS(((int16_t *) cells)[first + i], (int16_t) values[i])
		case 4:
			COPY_CELLS(((int32_t *) cells)[first + i], (int32_t) values[i])
		default:
			COPY_CELLS(((int64_t *) cells)[first + i], values[i])
	}
}

/* Return true if a number fits into cells of this many bytes. */
static inline bool
cms_fits(int64_t value, int cell_bytes)
{
	int64_t high = INT64_MAX >> (64 - 8 * cell_bytes);

	return value <= high && value >= -high - 1;
}

/*
 * Raise an item's cells to its estimate plus weight, where they are lower. Widen all cells if one
 * needs it; CMS_OVERFLOW if the sum overflows bigint.
 */
static CmsError
add_conservative(Cms *cms, uint64_t hash, int64_t weight)
{
	int64_t values[CMS_MAX_DEPTH];
	int64_t estimate = INT64_MAX;

	for (uint32_t row = 0; row < cms->shape.depth; row++)
	{
		cms_load(cms->cells, cms->cell_bytes, cms_cell(&cms->shape, row, hash), 1, &values[row]);
		if (values[row] < estimate)
			estimate = values[row];
	}
	if (__builtin_add_overflow(estimate, weight, &estimate))
		return CMS_OVERFLOW;
	while (!cms_fits(estimate, cms->cell_bytes))
		cms_widen(cms);
	for (uint32_t row = 0; row < cms->shape.depth; row++)
	{
		if (values[row] < estimate)
			cms_store(cms->cells, cms->cell_bytes, cms_cell(&cms->shape, row, hash), 1, &estimate);
	}
	return CMS_OK;
}

/* Double the width of all cells. */
static void
cms_widen(Cms *cms)
{
	uint32_t cells = cms_cells(&cms->shape);
	int cell_bytes = cms->cell_bytes * 2;
	void *wide = sketch_alloc((size_t) cells * cell_bytes);
	int64_t values[CHUNK];

	for (uint32_t first = 0; first < cells; first += CHUNK)
	{
		uint32_t n = cells - first < CHUNK ? cells - first : CHUNK;

		cms_load(cms->cells, cms->cell_bytes, first, n, values);
		cms_store(wide, cell_bytes, first, n, values);
	}
	sketch_free(cms->cells);
	cms->cells = wide;
	cms->cell_bytes = (uint8_t) cell_bytes;
}

/*
 * cms_load takes numbers out of cells in memory.
 */
void
cms_load(const void *cells, int cell_bytes, size_t first, size_t n, int64_t *values)
{
	switch (cell_bytes)
	{
		case 1:
			COPY_CELLS(values[i], ((const int8_t *) cells)[first + i])
		case 2:
			COPY_CELLS(values[i], ((const int16_t *) cells)[first + i])
		case 4:
			COPY_CELLS(values[i], ((const int32_t *) cells)[first + i])
		default:
			COPY_CELLS(values[i], ((const int64_t *) cells)[first + i])
	}
}

/*
 * cms_read takes numbers out of the cells of a value: unsigned, the lowest byte
 * first.
 */
void
cms_read(const uint8_t *cells, int cell_bytes, size_t first, size_t n, int64_t *values)
{
	const uint8_t *at = cells + first * cell_bytes;

	switch (cell_bytes)
	{
		case 1:
			COPY_CELLS(values[i], at[i])
		case 2:
			COPY_CELLS(values[i], at[2 * i] | at[2 * i + 1] << 8)
		default:
			for (size_t i = 0; i < n; i++, at += cell_bytes)
				values[i] = (int64_t) cms_get(at, cell_bytes);
	}
}

/*
 * cms_merge_cells adds the cells of another sketch, or takes them off. They are
 * in memory, or little_endian as in a value.
 */
CmsError
cms_merge_cells(Cms *cms, const void *cells, int cell_bytes, bool little_endian,
				int64_t total, int sign)
{
	CmsEntry *entries = NULL;
	uint32_t n_entries = cms->used;
	uint32_t n_cells = cms_cells(&cms->shape);
	CmsError error = CMS_OK;
	int64_t ours[CHUNK];
	int64_t theirs[CHUNK];

	if (total == INT64_MIN || __builtin_add_overflow(cms->total, sign * total, &cms->total))
		return CMS_OVERFLOW;
	if (cms->cells == NULL)
	{
		entries = cms_sorted(cms);
		cms_start_cells(cms);
	}
	while (cms->cell_bytes < cell_bytes)
		cms_widen(cms);
	for (uint32_t first = 0; first < n_cells && error == CMS_OK; first += CHUNK)
	{
		uint32_t n = n_cells - first < CHUNK ? n_cells - first : CHUNK;
		bool overflow = false;
		bool narrow = true;

		cms_load(cms->cells, cms->cell_bytes, first, n, ours);
		if (little_endian)
			cms_read(cells, cell_bytes, first, n, theirs);
		else
			cms_load(cells, cell_bytes, first, n, theirs);
		for (uint32_t i = 0; i < n; i++)
		{
			overflow |= sign < 0 ? __builtin_sub_overflow(ours[i], theirs[i], &ours[i])
								 : __builtin_add_overflow(ours[i], theirs[i], &ours[i]);
			narrow &= cms_fits(ours[i], cms->cell_bytes);
		}
		while (!narrow && !overflow)
		{
			cms_widen(cms);
			narrow = true;
			for (uint32_t i = 0; i < n; i++)
				narrow &= cms_fits(ours[i], cms->cell_bytes);
		}
		cms_store(cms->cells, cms->cell_bytes, first, n, ours);
		if (overflow)
			error = CMS_OVERFLOW;
	}
	if (entries != NULL)
	{
		if (error == CMS_OK)
			error = cms_spread(cms, entries, n_entries);
		sketch_free(entries);
	}
	return error;
}

/*
 * cms_merge adds a sketch of the same shape to another. If one of them is
 * conservative, so is the result.
 */
CmsError
cms_merge(Cms *cms, const Cms *from)
{
	CmsEntry *entries;
	CmsError error = CMS_OK;

	cms->shape.conservative |= from->shape.conservative;
	if (from->cells != NULL)
		return cms_merge_cells(cms, from->cells, from->cell_bytes, false, from->total, 1);
	if (from->used == 0)
		return CMS_OK;
	entries = cms_sorted(from);
	for (uint32_t i = 0; i < from->used && error == CMS_OK; i++)
		error = cms_put(cms, entries[i].hash, entries[i].weight);
	sketch_free(entries);
	return error == CMS_OK ? cms_settle(cms) : error;
}
