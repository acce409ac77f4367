/*
 * dc_hlc.c
 *		SQL functions of the hybrid logical clock and its stamps, and dc_node().
 *
 * Copyright (c) 2026, the dcounter developers
 */
#include "postgres.h"

#include "utils/builtins.h"
#include "utils/timestamp.h"

#include "base/compat.h"
#include "types/crdt/crdttype.h"
#include "types/crdt/hlcclock.h"
#include "types/crdt/stamp.h"

PG_FUNCTION_INFO_V1(dc_node);
PG_FUNCTION_INFO_V1(dc_hlc_now);
PG_FUNCTION_INFO_V1(dc_hlc_after);
PG_FUNCTION_INFO_V1(dc_hlc_time);
PG_FUNCTION_INFO_V1(dc_hlc_node);

static Datum new_stamp(int64 seen);
static Stamp stamp_arg(FunctionCallInfo fcinfo, int argno);

/*
 * dc_node(): Return this database's node name; 55000 if it has none.
 */
Datum
dc_node(PG_FUNCTION_ARGS)
{
	PG_RETURN_TEXT_P(cstring_to_text(node_name()));
}

/*
 * dc_hlc_now(): Return a new stamp of this database.
 */
Datum
dc_hlc_now(PG_FUNCTION_ARGS)
{
	PG_RETURN_DATUM(new_stamp(0));
}

/*
 * dc_hlc_after(stamp): Return a new stamp of this database that is later than the given one.
 */
Datum
dc_hlc_after(PG_FUNCTION_ARGS)
{
	PG_RETURN_DATUM(new_stamp(stamp_arg(fcinfo, 0).time));
}

/*
 * Return a new stamp of this database, as a dc_hlc, that is later than the time `seen`, in
 * microseconds since 1970; 0 if there is none.
 */
static Datum
new_stamp(int64 seen)
{
	const char *name = node_name();
	Stamp stamp = {0, {name, strlen(name)}};
	CrdtBuf buf = {NULL, 0, 0};

	stamp.time = hlc_clock_next(seen);
	hlc_encode(&buf, &stamp);
	return crdt_datum(&buf);
}

/*
 * dc_hlc_time(stamp): Return the stamp's time as a timestamptz.
 */
Datum
dc_hlc_time(PG_FUNCTION_ARGS)
{
	const int64 epoch_diff = (int64) (POSTGRES_EPOCH_JDATE - UNIX_EPOCH_JDATE) * USECS_PER_DAY;

	PG_RETURN_TIMESTAMPTZ(stamp_arg(fcinfo, 0).time - epoch_diff);
}

/*
 * dc_hlc_node(stamp): Return the name of the node that made the stamp.
 */
Datum
dc_hlc_node(PG_FUNCTION_ARGS)
{
	CrdtString node = stamp_arg(fcinfo, 0).node;

	PG_RETURN_TEXT_P(cstring_to_text_with_len(node.data, (int) node.len));
}

/*
 * Return a dc_hlc argument, decoded. Its node is a view of the argument's bytes.
 */
static Stamp
stamp_arg(FunctionCallInfo fcinfo, int argno)
{
	return hlc_decode(crdt_bytes_of(PG_GETARG_DATUM(argno)));
}
