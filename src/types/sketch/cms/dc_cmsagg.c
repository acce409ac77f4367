/*
 * dc_cmsagg.c
 *		The aggregates dc_cms_agg and dc_cms_union_agg.
 *
 * Copyright (c) 2026, the dcounter developers
 *
 * The state is a sketch in memory, which begins as a small table. Its cells and
 * weights may be below zero in between, so that rows may come in any order and
 * from any worker. The final function checks that the result is not.
 *
 * Rows whose item or weight is NULL are ignored, and then their other arguments,
 * too. Without any other rows the result is NULL. As a moving aggregate,
 * dc_cms_agg has the state of cmsframe.c.
 */
#include "postgres.h"

#include "types/sketch/cms/dc_cms.h"

#include "fmgr.h"
#include "lib/stringinfo.h"
#include "libpq/pqformat.h"

#include "base/compat.h"
#include "types/sketch/cms/cmsframe.h"
#include "types/sketch/hash.h"
#include "types/sketch/io.h"
#include "types/sketch/item.h"

PG_FUNCTION_INFO_V1(dc_cms_agg_trans);
PG_FUNCTION_INFO_V1(dc_cms_agg_combine);
PG_FUNCTION_INFO_V1(dc_cms_agg_serialize);
PG_FUNCTION_INFO_V1(dc_cms_agg_deserialize);
PG_FUNCTION_INFO_V1(dc_cms_agg_final);
PG_FUNCTION_INFO_V1(dc_cms_union_trans);
PG_FUNCTION_INFO_V1(dc_cms_frame_add);
PG_FUNCTION_INFO_V1(dc_cms_frame_remove);
PG_FUNCTION_INFO_V1(dc_cms_frame_final);

/* A state as bytes, between processes of one server. */
typedef struct StateHeader
{
	CmsShape shape;
	int64 total;
	uint32 used;
	bool dense;
	uint8 cell_bytes;
} StateHeader;


/*
 * The arguments of a row are the state, item, epsilon, delta and maybe weight. A
 * row without an item or a weight is one of weight 0.
 */
static inline bool
is_counted(FunctionCallInfo fcinfo)
{
	return !PG_ARGISNULL(1) && (PG_NARGS() < 5 || !PG_ARGISNULL(4));
}

/*
 * Return the hash of a row's item; 0 if the row is not counted.
 */
static inline uint64
hash_of_row(FunctionCallInfo fcinfo)
{
	if (!is_counted(fcinfo))
		return 0;
	return item_hash(item_type_of_arg(fcinfo, 1), PG_GETARG_DATUM(1), SKETCH_HASH_REDIS);
}

/*
 * Return a row's weight: 1 if there is no such argument, 0 if the row is not counted.
 */
static inline int64
weight_of_row(FunctionCallInfo fcinfo)
{
	if (!is_counted(fcinfo))
		return 0;
	return PG_NARGS() < 5 ? 1 : PG_GETARG_INT64(4);
}

/*
 * Return the shape of a row's epsilon and delta; 22004 if one is NULL, 22023 if out of range.
 */
static void
shape_of_row(FunctionCallInfo fcinfo, CmsShape *shape)
{
	if (PG_ARGISNULL(2) || PG_ARGISNULL(3))
		ereport(ERROR,
				(errcode(ERRCODE_NULL_VALUE_NOT_ALLOWED),
				 errmsg("epsilon and delta must not be null")));
	dc_cms_shape(PG_GETARG_FLOAT8(2), PG_GETARG_FLOAT8(3), false, shape);
}

/* Return true if a row's epsilon and delta are those of the previous rows. */
static inline bool
same_parameters(FunctionCallInfo fcinfo, const CmsShape *shape)
{
	return !PG_ARGISNULL(2) && !PG_ARGISNULL(3) &&
		PG_GETARG_FLOAT8(2) == shape->epsilon && PG_GETARG_FLOAT8(3) == shape->delta;
}

/*
 * changed_state ends a change of a state in its memory context.
 */
static inline Datum
changed_state(MemoryContext old_context, CmsError error, void *state)
{
	MemoryContextSwitchTo(old_context);
	if (unlikely(error != CMS_OK))
		dc_cms_raise(error);
	return PointerGetDatum(state);
}

/*
 * Allocate an empty sketch in a context.
 */
static Cms *
make_state(MemoryContext context, const CmsShape *shape)
{
	Cms *state = MemoryContextAlloc(context, sizeof(Cms));

	dc_cms_start();
	cms_init(state, shape);
	return state;
}

/*
 * dc_cms_agg_trans adds a row.
 */
Datum
dc_cms_agg_trans(PG_FUNCTION_ARGS)
{
	MemoryContext context = sketch_aggregate_context(fcinfo);
	MemoryContext old_context;
	Cms *state = sketch_state_arg(fcinfo, 0);
	uint64 hash;

	if (state == NULL || unlikely(!same_parameters(fcinfo, &state->shape)))
	{
		CmsShape shape;

		shape_of_row(fcinfo, &shape);
		if (state != NULL)
			sketch_rows_differ("epsilon and delta");
		state = make_state(context, &shape);
	}
	hash = hash_of_row(fcinfo);
	old_context = MemoryContextSwitchTo(context);
	return changed_state(old_context, cms_add(state, hash, weight_of_row(fcinfo)), state);
}

/*
 * dc_cms_union_trans adds a sketch.
 */
Datum
dc_cms_union_trans(PG_FUNCTION_ARGS)
{
	MemoryContext context = sketch_aggregate_context(fcinfo);
	MemoryContext old_context;
	Cms *state = sketch_state_arg(fcinfo, 0);
	CmsView view;

	if (PG_ARGISNULL(1))
		return sketch_state_result(fcinfo, state);
	dc_cms_view(PG_GETARG_BYTEA_PP(1), &view);
	if (state == NULL)
		state = make_state(context, &view.shape);
	dc_cms_mergeable(&state->shape, &view.shape);
	old_context = MemoryContextSwitchTo(context);
	return changed_state(old_context, cms_merge_view(state, &view, 1), state);
}

/*
 * cms_agg_combine(a, b): Merge state b into state a, for parallel aggregation. 22023 if their
 * shapes differ.
 */
Datum
dc_cms_agg_combine(PG_FUNCTION_ARGS)
{
	MemoryContext context = sketch_aggregate_context(fcinfo);
	MemoryContext old_context;
	Cms *state = sketch_state_arg(fcinfo, 0);
	const Cms *from = sketch_state_arg(fcinfo, 1);

	if (from == NULL)
		return sketch_state_result(fcinfo, state);
	if (state == NULL)
		state = make_state(context, &from->shape);
	if (!cms_same_shape(&state->shape, &from->shape))
		sketch_rows_differ("epsilon and delta");
	old_context = MemoryContextSwitchTo(context);
	return changed_state(old_context, cms_merge(state, from), state);
}

/*
 * cms_agg_serialize(state): Return a state as bytes for another process of this server, in its
 * byte order: the header, then cells, or entries in the order of their hashes.
 */
Datum
dc_cms_agg_serialize(PG_FUNCTION_ARGS)
{
	const Cms *state = (Cms *) PG_GETARG_POINTER(0);
	StateHeader header;
	StringInfoData bytes;

	sketch_aggregate_context(fcinfo);
	memset(&header, 0, sizeof(header));
	header.shape = state->shape;
	header.total = state->total;
	header.used = state->used;
	header.dense = state->cells != NULL;
	header.cell_bytes = state->cell_bytes;
	pq_begintypsend(&bytes);
	pq_sendbytes(&bytes, (char *) &header, sizeof(header));
	if (header.dense)
		pq_sendbytes(&bytes, state->cells, cms_cells(&state->shape) * state->cell_bytes);
	else
	{
		CmsEntry *entries = cms_sorted(state);

		pq_sendbytes(&bytes, (char *) entries, state->used * sizeof(CmsEntry));
		pfree(entries);
	}
	PG_RETURN_BYTEA_P(pq_endtypsend(&bytes));
}

/*
 * cms_agg_deserialize(bytes): Return a state made of the bytes that dc_cms_agg_serialize() wrote.
 */
Datum
dc_cms_agg_deserialize(PG_FUNCTION_ARGS)
{
	bytea *bytes = PG_GETARG_BYTEA_PP(0);
	const char *data = VARDATA_ANY(bytes);
	size_t len = VARSIZE_ANY_EXHDR(bytes);
	StateHeader header;
	Cms *state;
	CmsError error = CMS_OK;

	sketch_aggregate_context(fcinfo);
	if (len < sizeof(header))
		elog(ERROR, "state of dc_cms_agg is too short");
	memcpy(&header, data, sizeof(header));
	data += sizeof(header);
	len -= sizeof(header);
	state = make_state(CurrentMemoryContext, &header.shape);
	if (header.dense)
	{
		if (len != (size_t) cms_cells(&header.shape) * header.cell_bytes)
			elog(ERROR, "state of dc_cms_agg has the wrong length");
		state->cell_bytes = header.cell_bytes;
		state->total = header.total;
		state->cells = palloc(len);
		memcpy(state->cells, data, len);
		PG_RETURN_POINTER(state);
	}
	if (len != header.used * sizeof(CmsEntry))
		elog(ERROR, "state of dc_cms_agg has the wrong length");
	for (uint32 i = 0; i < header.used && error == CMS_OK; i++)
	{
		CmsEntry entry;

		memcpy(&entry, data + i * sizeof(entry), sizeof(entry));
		error = cms_put(state, entry.hash, entry.weight);
	}
	dc_cms_raise(error);
	PG_RETURN_POINTER(state);
}

/*
 * cms_agg_final(state): Return the sketch of a state; NULL if there were no rows. 22003 if a
 * weight is below zero.
 */
Datum
dc_cms_agg_final(PG_FUNCTION_ARGS)
{
	uint8_t *block = NULL;
	size_t len = 0;
	CmsError error;

	sketch_aggregate_context(fcinfo);
	if (PG_ARGISNULL(0))
		PG_RETURN_NULL();
	error = cms_encode((Cms *) PG_GETARG_POINTER(0), VARHDRSZ, &block, &len);
	PG_RETURN_POINTER(dc_cms_value(error, block, len));
}

/*
 * dc_cms_frame_add adds a row that enters a window's frame. The server wants a
 * state, never NULL.
 */
Datum
dc_cms_frame_add(PG_FUNCTION_ARGS)
{
	MemoryContext context = sketch_aggregate_context(fcinfo);
	MemoryContext old_context;
	CmsFrame *frame = sketch_state_arg(fcinfo, 0);
	uint64 hash;

	if (frame == NULL)
	{
		dc_cms_start();
		frame = MemoryContextAlloc(context, sizeof(CmsFrame));
		cms_frame_init(frame);
	}
	if (frame->rows == 0 || !same_parameters(fcinfo, &frame->sums.shape))
	{
		CmsShape shape;

		shape_of_row(fcinfo, &shape);
		if (!cms_frame_shape(frame, &shape))
			sketch_rows_differ("epsilon and delta");
	}
	hash = hash_of_row(fcinfo);
	old_context = MemoryContextSwitchTo(context);
	return changed_state(old_context, cms_frame_add(frame, hash, weight_of_row(fcinfo)), frame);
}

/*
 * dc_cms_frame_remove takes out a row that leaves the frame.
 */
Datum
dc_cms_frame_remove(PG_FUNCTION_ARGS)
{
	MemoryContext context = sketch_aggregate_context(fcinfo);
	MemoryContext old_context;
	CmsFrame *frame = (CmsFrame *) PG_GETARG_POINTER(0);
	uint64 hash;

	if (PG_ARGISNULL(0))
		elog(ERROR, "no state to take a row out of");
	hash = hash_of_row(fcinfo);
	old_context = MemoryContextSwitchTo(context);
	return changed_state(old_context, cms_frame_remove(frame, hash, weight_of_row(fcinfo)), frame);
}

/*
 * cms_frame_final(state): Return the sketch of a window's frame; NULL if the frame has no rows.
 * The state stays as it is.
 */
Datum
dc_cms_frame_final(PG_FUNCTION_ARGS)
{
	CmsFrame *frame = sketch_state_arg(fcinfo, 0);
	uint8_t *block = NULL;
	size_t len = 0;
	CmsError error;

	sketch_aggregate_context(fcinfo);
	if (frame == NULL || frame->rows == 0)
		PG_RETURN_NULL();
	error = cms_frame_encode(frame, VARHDRSZ, &block, &len);
	PG_RETURN_POINTER(dc_cms_value(error, block, len));
}
