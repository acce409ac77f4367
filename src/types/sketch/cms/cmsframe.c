/*
 * cmsframe.c
 *		The Count-Min sketch of a moving window.
 *
 * Copyright (c) 2026, the dcounter developers
 *
 * A plain sketch is linear: a row that leaves the window's frame is taken off its
 * cells. But whether the frame's sketch is a list or cells depends on how many
 * items the frame has. So the items are kept in a table, however many, with the
 * number of their rows. Once cells are needed, they are kept as well.
 * So the value is the same, to the byte, as if the frame's rows were aggregated from scratch.
 */
#include "types/sketch/cms/cmsframe.h"

#include "types/sketch/cms/cmsformat.h"
#include "types/sketch/memory.h"

#include <string.h>

static CmsError fill_cells(CmsFrame *frame);

/*
 * Make an empty frame without a shape.
 */
void
cms_frame_init(CmsFrame *frame)
{
	memset(frame, 0, sizeof(*frame));
}

/*
 * Free a frame's memory, and make it empty and without a shape.
 */
void
cms_frame_reset(CmsFrame *frame)
{
	cms_reset(&frame->sums);
	if (frame->places != NULL)
		sketch_free(frame->places);
	cms_frame_init(frame);
}

/*
 * cms_frame_shape gives an empty frame its shape, and tells whether a frame with
 * rows has that one.
 */
bool
cms_frame_shape(CmsFrame *frame, const CmsShape *shape)
{
	if (frame->sums.shape.depth != 0 && cms_same_shape(&frame->sums.shape, shape))
		return true;
	if (frame->rows > 0)
		return false;
	cms_frame_reset(frame);
	cms_init(&frame->sums, shape);
	return true;
}

/*
 * Return the place where the search for a hash begins.
 */
static inline uint32_t
cmsframe_home(const CmsFrame *frame, uint64_t hash)
{
	return (uint32_t) ((hash * cms_secret) >> (64 - frame->place_bits));
}

/* The place of a hash, or the empty one for it. */
static CmsPlace *
frame_place(const CmsFrame *frame, uint64_t hash)
{
	uint32_t mask = (UINT32_C(1) << frame->place_bits) - 1;
	uint32_t at = cmsframe_home(frame, hash);

	while (frame->places[at].hash != hash && frame->places[at].hash != 0)
		at = (at + 1) & mask;
	return &frame->places[at];
}

/*
 * Double the frame's places, or make the first eight.
 */
static void
grow_frame(CmsFrame *frame)
{
	CmsPlace *old = frame->places;
	size_t places = old == NULL ? 0 : (size_t) 1 << frame->place_bits;
	size_t size;

	frame->place_bits = places == 0 ? 3 : frame->place_bits + 1;
	size = sizeof(CmsPlace) << frame->place_bits;
	frame->places = sketch_alloc(size);
	memset(frame->places, 0, size);
	for (size_t i = 0; i < places; i++)
	{
		if (old[i].hash != 0)
			*frame_place(frame, old[i].hash) = old[i];
	}
	if (old != NULL)
		sketch_free(old);
}

/* Empty a place, and move up the items that went past it. */
static void
remove_place(CmsFrame *frame, CmsPlace *place)
{
	uint32_t mask = (UINT32_C(1) << frame->place_bits) - 1;
	uint32_t hole = (uint32_t) (place - frame->places);

	for (uint32_t at = (hole + 1) & mask; frame->places[at].hash != 0; at = (at + 1) & mask)
	{
		uint32_t way = (at - cmsframe_home(frame, frame->places[at].hash)) & mask;

		if (way >= ((at - hole) & mask))
		{
			frame->places[hole] = frame->places[at];
			hole = at;
		}
	}
	frame->places[hole].hash = 0;
	frame->used--;
}

/*
 * cms_frame_add adds a row that enters the frame.
 */
CmsError
cms_frame_add(CmsFrame *frame, uint64_t hash, int64_t weight)
{
	CmsPlace *place;

	frame->rows++;
	if (weight == 0)
		return CMS_OK;
	if (weight == INT64_MIN || __builtin_add_overflow(frame->sums.total, weight, &frame->sums.total))
		return CMS_OVERFLOW;
	hash = cms_item(hash);
	if (frame->places == NULL || frame->used >= (UINT32_C(3) << frame->place_bits) / 4)
		grow_frame(frame);
	place = frame_place(frame, hash);
	if (place->hash == 0)
	{
		place->hash = hash;
		place->weight = 0;
		place->rows = 0;
		frame->used++;
	}
	place->rows++;
	if (__builtin_add_overflow(place->weight, weight, &place->weight))
		return CMS_OVERFLOW;
	if (frame->sums.cells != NULL)
		return cms_add_cells(&frame->sums, hash, weight);
	if (frame->used > cms_sparse_limit(&frame->sums.shape))
		return fill_cells(frame);
	return CMS_OK;
}

/*
 * Give a frame cells, and add the weights of all its items to them. Called once there are too many
 * items for a list.
 */
static CmsError
fill_cells(CmsFrame *frame)
{
	CmsError error = CMS_OK;

	cms_start_cells(&frame->sums);
	for (size_t i = 0; i < (size_t) 1 << frame->place_bits && error == CMS_OK; i++)
	{
		const CmsPlace *place = &frame->places[i];

		if (place->hash != 0)
			error = cms_add_cells(&frame->sums, place->hash, place->weight);
	}
	return error;
}

/*
 * cms_frame_remove takes out a row that was added.
 */
CmsError
cms_frame_remove(CmsFrame *frame, uint64_t hash, int64_t weight)
{
	CmsPlace *place;

	frame->rows--;
	if (weight == 0)
		return CMS_OK;
	hash = cms_item(hash);
	place = frame->places == NULL ? NULL : frame_place(frame, hash);
	if (place == NULL || place->hash == 0)
		return CMS_UNKNOWN;
	if (__builtin_sub_overflow(frame->sums.total, weight, &frame->sums.total) ||
		__builtin_sub_overflow(place->weight, weight, &place->weight))
		return CMS_OVERFLOW;
	if (--place->rows == 0)
		remove_place(frame, place);
	return frame->sums.cells == NULL ? CMS_OK : cms_add_cells(&frame->sums, hash, -weight);
}

/*
 * cms_frame_encode makes the frame's value, like cms_encode.
 */
CmsError
cms_frame_encode(const CmsFrame *frame, size_t reserve, uint8_t **block, size_t *len)
{
	CmsEntry *entries;
	size_t places = frame->places == NULL ? 0 : (size_t) 1 << frame->place_bits;
	size_t n = 0;
	CmsError error;

	if (frame->used > cms_sparse_limit(&frame->sums.shape))
		return cms_encode(&frame->sums, reserve, block, len);
	entries = sketch_alloc((frame->used + 1) * sizeof(CmsEntry));
	for (size_t i = 0; i < places; i++)
	{
		if (frame->places[i].hash != 0)
		{
			entries[n].hash = frame->places[i].hash;
			entries[n++].weight = frame->places[i].weight;
		}
	}
	cms_sort(entries, n);
	error = cms_encode_list(&frame->sums.shape, entries, n, reserve, block, len);
	sketch_free(entries);
	return error;
}
