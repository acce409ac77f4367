/*
 * dc_hllset.c
 *		Intersection, difference and similarity of two dc_hll values.
 *
 * Copyright (c) 2026, the dcounter developers
 */
#include "postgres.h"

#include "fmgr.h"

#include "base/compat.h"
#include "types/sketch/hll/dc_hll.h"
#include "types/sketch/hll/hlljoint.h"

PG_FUNCTION_INFO_V1(dc_hll_intersect);
PG_FUNCTION_INFO_V1(dc_hll_difference);
PG_FUNCTION_INFO_V1(dc_hll_jaccard);

/*
 * Compare the first two arguments, both dc_hll. Raise 22023 if their items were hashed in
 * different ways, 22003 if registers are full.
 */
static void
joint_of(FunctionCallInfo fcinfo, double confidence, HllJoint *joint)
{
	const HllState *a = hll_from_datum(PG_GETARG_DATUM(0));
	const HllState *b = hll_from_datum(PG_GETARG_DATUM(1));

	hll_check_same_hash(a->hash, b->hash);
	if (!hll_joint(a, b, confidence, joint))
		ereport(ERROR,
				(errcode(ERRCODE_NUMERIC_VALUE_OUT_OF_RANGE),
				 errmsg("a sketch whose registers are all full has no estimate")));
}

/*
 * Return an interval as a record of lower bound, estimate and upper bound.
 */
static Datum
interval_record(FunctionCallInfo fcinfo, const HllInterval *interval)
{
	double bounds[3] = {interval->lower, interval->estimate, interval->upper};

	return hll_bounds_record(fcinfo, bounds);
}

/*
 * dc_hll_intersect(a, b, confidence = 0.95): how many items are in both.
 */
Datum
dc_hll_intersect(PG_FUNCTION_ARGS)
{
	HllJoint joint;

	joint_of(fcinfo, hll_confidence(PG_GETARG_FLOAT8(2)), &joint);
	return interval_record(fcinfo, &joint.both);
}

/*
 * dc_hll_difference(a, b, confidence = 0.95): how many are in a and not in b.
 */
Datum
dc_hll_difference(PG_FUNCTION_ARGS)
{
	HllJoint joint;

	joint_of(fcinfo, hll_confidence(PG_GETARG_FLOAT8(2)), &joint);
	return interval_record(fcinfo, &joint.only_a);
}

/*
 * dc_hll_jaccard(a, b): the items in both as a share of all, 0 to 1. Two sets
 * without items are alike.
 */
Datum
dc_hll_jaccard(PG_FUNCTION_ARGS)
{
	HllJoint joint;
	double total;

	joint_of(fcinfo, 0.5, &joint);
	total = joint.only_a.estimate + joint.only_b.estimate + joint.both.estimate;
	PG_RETURN_FLOAT8(total > 0 ? joint.both.estimate / total : 1);
}
