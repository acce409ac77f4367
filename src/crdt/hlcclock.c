/*
 * hlcclock.c
 *		This database's hybrid logical clock, and its name.
 */
#include "postgres.h"

#include "crdt/hlcclock.h"
#include "crdt/stamp.h"
#include "fmgr.h"
#include "utils/builtins.h"
#include "utils/timestamp.h"

PG_FUNCTION_INFO_V1(dc_node);

char *dc_node_setting = "a";
int dc_clock_drift = 60000;

const char *
node_name(void)
{
	return dc_node_setting;
}

Datum
dc_node(PG_FUNCTION_ARGS)
{
	PG_RETURN_TEXT_P(cstring_to_text(node_name()));
}

int64
hlc_clock_next(int64 seen)
{
	static int64 last = 0;

	last = stamp_next(GetCurrentTimestamp() + INT64CONST(946684800000000), last, seen);
	return last;
}

void
hlc_clock_observe(int64 time)
{
	(void) hlc_clock_next(time);
}
