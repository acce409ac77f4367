/*
 * io.h
 *		Input, output, casts and aggregate states, the same for all sketch types
 *		(see io.c).
 *
 * Copyright (c) 2026, the dcounter developers
 */
#ifndef DC_SKETCH_IO_H
#define DC_SKETCH_IO_H

#include "fmgr.h"

#include "base/compat.h"

typedef struct SketchIo
{
	const char *type; /* its name, for messages */
	/* what is wrong with these bytes, or NULL; they are not trusted */
	const char *(*check)(const uint8_t *data, size_t len);
	/* enforce a type modifier; NULL if the type has none */
	Datum (*coerce)(Datum value, int32 typmod, CompatNode escontext);
} SketchIo;

extern Datum sketch_in(FunctionCallInfo fcinfo, const SketchIo *io);
extern Datum sketch_out(FunctionCallInfo fcinfo);
extern Datum sketch_recv(FunctionCallInfo fcinfo, const SketchIo *io);
extern Datum sketch_from_bytea(FunctionCallInfo fcinfo, const SketchIo *io);
extern bytea *sketch_value(const void *data, size_t len);
pg_noreturn extern void sketch_damaged(const SketchIo *io, const char *wrong);

/* Aggregates. */
extern MemoryContext sketch_aggregate_context(FunctionCallInfo fcinfo);
pg_noreturn extern void sketch_rows_differ(const char *what);

/*
 * sketch_state_arg is an aggregate's state that was passed as argument, or NULL.
 */
static inline void *
sketch_state_arg(FunctionCallInfo fcinfo, int argno)
{
	return PG_ARGISNULL(argno) ? NULL : PG_GETARG_POINTER(argno);
}

/*
 * sketch_state_result returns a state, which may be NULL.
 */
static inline Datum
sketch_state_result(FunctionCallInfo fcinfo, void *state)
{
	fcinfo->isnull = state == NULL;
	return PointerGetDatum(state);
}

/*
 * Define a function that does the same for each sketch type, under the name
 * that it has in SQL. A send function copies: its caller may free the result.
 */
#define DC_SKETCH_FUNCTION(symbol, result) \
	PG_FUNCTION_INFO_V1(symbol); \
	Datum symbol(PG_FUNCTION_ARGS) \
	{ \
		return result; \
	} \
	extern int dc_sketch_io_end

#endif /* DC_SKETCH_IO_H */
