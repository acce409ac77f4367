/*
 * dc_cms.c
 *		The type dc_cms: Count-Min sketches in SQL.
 *
 * Copyright (c) 2026, the dcounter developers
 *
 * The algorithm is in cms.c, the bytes of a value in cmsformat.c, functions on
 * these bytes in cmsvalue.c, the aggregates in dc_cmsagg.c.
 */
#include "postgres.h"

#include "types/sketch/cms/dc_cms.h"

#include "common/pg_prng.h"
#include "fmgr.h"
#include "utils/builtins.h"
#include "utils/numeric.h"

#include "base/args.h"
#include "base/compat.h"
#include "types/sketch/hash.h"
#include "types/sketch/io.h"
#include "types/sketch/item.h"

PG_FUNCTION_INFO_V1(dc_cms);
PG_FUNCTION_INFO_V1(dc_cms_add);
PG_FUNCTION_INFO_V1(dc_cms_estimate);
PG_FUNCTION_INFO_V1(dc_cms_bounds);
PG_FUNCTION_INFO_V1(dc_cms_union);
PG_FUNCTION_INFO_V1(dc_cms_subtract);
PG_FUNCTION_INFO_V1(dc_cms_inner_product);
PG_FUNCTION_INFO_V1(dc_cms_info);

static const SketchIo io = {"dc_cms", cms_check, NULL};

DC_SKETCH_FUNCTION(dc_cms_in, sketch_in(fcinfo, &io));
DC_SKETCH_FUNCTION(dc_cms_out, sketch_out(fcinfo));
DC_SKETCH_FUNCTION(dc_cms_recv, sketch_recv(fcinfo, &io));
DC_SKETCH_FUNCTION(dc_cms_send, PointerGetDatum(PG_GETARG_BYTEA_P_COPY(0)));
DC_SKETCH_FUNCTION(dc_cms_from_bytea, sketch_from_bytea(fcinfo, &io));
DC_SKETCH_FUNCTION(dc_cms_to_bytea, PointerGetDatum(PG_GETARG_BYTEA_P(0)));

static Datum cms_merge_values(FunctionCallInfo fcinfo, int sign);

/*
 * dc_cms_raise reports an error of the algorithm, if there is one.
 */
void
dc_cms_raise(CmsError error)
{
	switch (error)
	{
		case CMS_OK:
			return;
		case CMS_EPSILON:
			ereport(ERROR,
					(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
					 errmsg("epsilon must be between 0.0000001 and 0.5")));
			break;
		case CMS_DELTA:
			ereport(ERROR,
					(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
					 errmsg("delta must be between 0.000000001 and 0.5")));
			break;
		case CMS_CELLS:
			ereport(ERROR,
					(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
					 errmsg("a sketch with this epsilon and delta would have too many cells"),
					 errdetail("The limit is %u.", CMS_MAX_CELLS),
					 errhint("Use a larger epsilon.")));
			break;
		case CMS_OVERFLOW:
			ereport(ERROR,
					(errcode(ERRCODE_NUMERIC_VALUE_OUT_OF_RANGE),
					 errmsg("weight is out of range for type bigint")));
			break;
		case CMS_NEGATIVE:
			ereport(ERROR,
					(errcode(ERRCODE_NUMERIC_VALUE_OUT_OF_RANGE),
					 errmsg("weight of an item would be negative"),
					 errhint("Remove from a sketch only what was added to it.")));
			break;
		case CMS_CONSERVATIVE:
			ereport(ERROR,
					(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
					 errmsg("cannot remove items from a sketch with conservative update")));
			break;
		case CMS_UNKNOWN:
			elog(ERROR, "row to take out of a window's sketch was not added");
	}
}

/*
 * dc_cms_shape is the shape of arguments epsilon and delta.
 */
void
dc_cms_shape(double epsilon, double delta, bool conservative, CmsShape *shape)
{
	dc_cms_raise(cms_shape(epsilon, delta, conservative, shape));
}

/*
 * Raise 22023 unless two sketches have the same epsilon and delta.
 */
void
dc_cms_mergeable(const CmsShape *a, const CmsShape *b)
{
	if (!cms_same_shape(a, b))
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("sketches differ in epsilon or delta"),
				 errdetail("One has epsilon %g and delta %g, the other %g and %g.",
						   a->epsilon, a->delta, b->epsilon, b->delta),
				 errhint("Create them with the same epsilon and delta.")));
}

/*
 * dc_cms_start must be called before the first sketch in memory is created. It makes the order of
 * their tables this backend's secret.
 */
void
dc_cms_start(void)
{
	static bool started = false;

	if (!started)
		cms_secret = pg_prng_uint64(&pg_global_prng_state) | 1;
	started = true;
}

/*
 * dc_cms_view reads a stored value's header.
 */
void
dc_cms_view(const struct varlena *value, CmsView *view)
{
	const char *wrong = cms_open((const uint8 *) VARDATA_ANY(value), VARSIZE_ANY_EXHDR(value), view);

	if (wrong != NULL)
		sketch_damaged(&io, wrong);
}

/*
 * dc_cms_total returns the total weight of a stored value, of which it reads the header only.
 */
int64
dc_cms_total(Datum value)
{
	bytea *header = DatumGetByteaPSlice(value, 0, CMS_HEADER_BYTES);
	const uint8 *data = (const uint8 *) VARDATA_ANY(header);
	CmsView view;

	if (VARSIZE_ANY_EXHDR(header) < CMS_HEADER_BYTES || data[0] != CMS_VERSION)
		sketch_damaged(&io, NULL);
	cms_view(data, CMS_HEADER_BYTES, &view);
	return view.total;
}

/*
 * dc_cms_value creates a value from a block that has room for its size in front.
 */
struct varlena *
dc_cms_value(CmsError error, uint8_t *block, size_t len)
{
	dc_cms_raise(error);
	SET_VARSIZE(block, VARHDRSZ + len);
	return (struct varlena *) block;
}

/*
 * dc_cms(epsilon, delta, conservative): Return an empty sketch; 22023 if epsilon or delta is out
 * of range, or they need too many cells.
 */
Datum
dc_cms(PG_FUNCTION_ARGS)
{
	CmsShape shape;
	uint8_t *block = NULL;
	size_t len = 0;
	CmsError error;

	dc_cms_shape(PG_GETARG_FLOAT8(0), PG_GETARG_FLOAT8(1), PG_GETARG_BOOL(2), &shape);
	error = cms_encode_list(&shape, NULL, 0, VARHDRSZ, &block, &len);
	PG_RETURN_POINTER(dc_cms_value(error, block, len));
}

/*
 * dc_cms_add adds to an item's weight. It returns its argument where there is
 * nothing to add.
 */
Datum
dc_cms_add(PG_FUNCTION_ARGS)
{
	CmsView view;
	uint8_t *block = NULL;
	size_t len = 0;
	uint64 hash;
	CmsError error;

	if (PG_ARGISNULL(0))
		PG_RETURN_NULL();
	if (PG_ARGISNULL(1) || PG_ARGISNULL(2) || PG_GETARG_INT64(2) == 0)
		PG_RETURN_DATUM(PG_GETARG_DATUM(0));
	dc_cms_start();
	hash = item_hash(item_type_of_arg(fcinfo, 1), PG_GETARG_DATUM(1), SKETCH_HASH_REDIS);
	dc_cms_view(PG_GETARG_BYTEA_PP(0), &view);
	error = cms_value_add(&view, hash, PG_GETARG_INT64(2), VARHDRSZ, &block, &len);
	PG_RETURN_POINTER(dc_cms_value(error, block, len));
}

/*
 * dc_cms_estimate(sketch, item): Return the item's estimated weight, which is never below the true
 * one.
 */
Datum
dc_cms_estimate(PG_FUNCTION_ARGS)
{
	uint64 hash = item_hash(item_type_of_arg(fcinfo, 1), PG_GETARG_DATUM(1), SKETCH_HASH_REDIS);
	CmsView view;

	dc_cms_view(PG_GETARG_BYTEA_PP(0), &view);
	PG_RETURN_INT64(cms_estimate(&view, hash));
}

/*
 * dc_cms_bounds(sketch, item): Return lower bound, estimate and upper bound of the item's weight.
 * The upper bound is the estimate; the lower one holds with probability 1 - delta.
 */
Datum
dc_cms_bounds(PG_FUNCTION_ARGS)
{
	uint64 hash = item_hash(item_type_of_arg(fcinfo, 1), PG_GETARG_DATUM(1), SKETCH_HASH_REDIS);
	CmsView view;
	int64 estimate;
	Datum values[3];
	bool nulls[3] = {false, false, false};

	dc_cms_view(PG_GETARG_BYTEA_PP(0), &view);
	estimate = cms_estimate(&view, hash);
	values[0] = Int64GetDatum(cms_lower(&view, estimate));
	values[1] = Int64GetDatum(estimate);
	values[2] = Int64GetDatum(estimate);
	return record_result(fcinfo, values, nulls);
}

/*
 * dc_cms_union(a, b): Return the sketch of the items of both; 22023 if their shapes differ.
 */
Datum
dc_cms_union(PG_FUNCTION_ARGS)
{
	return cms_merge_values(fcinfo, 1);
}

/*
 * dc_cms_subtract(a, b): Return a without the items of b, which must have been added to a.
 */
Datum
dc_cms_subtract(PG_FUNCTION_ARGS)
{
	return cms_merge_values(fcinfo, -1);
}

/*
 * Return the first argument with the second added (sign is 1) or taken off (-1). Raise an error if
 * their shapes differ, or a weight would fall below zero.
 */
static Datum
cms_merge_values(FunctionCallInfo fcinfo, int sign)
{
	CmsView a;
	CmsView b;
	Cms cms;
	CmsError error;
	uint8_t *block = NULL;
	size_t len = 0;

	dc_cms_view(PG_GETARG_BYTEA_PP(0), &a);
	dc_cms_view(PG_GETARG_BYTEA_PP(1), &b);
	dc_cms_mergeable(&a.shape, &b.shape);
	dc_cms_start();
	cms_init(&cms, &a.shape);
	cms.shape.conservative |= b.shape.conservative;
	error = cms_merge_view(&cms, &a, 1);
	if (error == CMS_OK)
		error = cms_merge_view(&cms, &b, sign);
	if (error == CMS_OK)
		error = cms_encode(&cms, VARHDRSZ, &block, &len);
	cms_reset(&cms);
	PG_RETURN_POINTER(dc_cms_value(error, block, len));
}

/*
 * dc_cms_inner_product is a numeric: the product of two weights soon overflows bigint, for sketches
 * that are far from it.
 */
Datum
dc_cms_inner_product(PG_FUNCTION_ARGS)
{
	CmsView a;
	CmsView b;
	CmsWide product = {0, 0};
	char text[40];

	dc_cms_view(PG_GETARG_BYTEA_PP(0), &a);
	dc_cms_view(PG_GETARG_BYTEA_PP(1), &b);
	dc_cms_mergeable(&a.shape, &b.shape);
	if (cms_inner_product(&a, &b, &product) != CMS_OK)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("two sketches with conservative update have no inner product"),
				 errdetail("It could be too low.")));
	return DirectFunctionCall3(numeric_in, CStringGetDatum(cms_wide_text(product, text)),
							   ObjectIdGetDatum(InvalidOid), Int32GetDatum(-1));
}

/*
 * dc_cms_info(sketch): Return its form, parameters and size in bytes. The bytes of a cell are NULL
 * for a list, and the number of items for cells.
 */
Datum
dc_cms_info(PG_FUNCTION_ARGS)
{
	struct varlena *value = PG_GETARG_BYTEA_PP(0);
	CmsView view;
	Datum values[10];
	bool nulls[10] = {false};

	dc_cms_view(value, &view);
	values[0] = CStringGetTextDatum(view.cell_bytes == 0 ? "sparse" : "dense");
	values[1] = BoolGetDatum(view.shape.conservative);
	values[2] = Int64GetDatum(view.total);
	values[3] = Int32GetDatum((int32) view.shape.width);
	values[4] = Int32GetDatum(view.shape.depth);
	values[5] = Float8GetDatum(view.shape.epsilon);
	values[6] = Float8GetDatum(view.shape.delta);
	values[7] = Int32GetDatum(view.cell_bytes);
	nulls[7] = view.cell_bytes == 0;
	values[8] = Int64GetDatum(cms_items(&view));
	nulls[8] = view.cell_bytes != 0;
	values[9] = Int32GetDatum((int32) VARSIZE_ANY_EXHDR(value));
	return record_result(fcinfo, values, nulls);
}
