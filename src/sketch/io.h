/*
 * io.h
 *		Input, output and casts, the same for all sketch types (see io.c).
 */
#ifndef DC_SKETCH_IO_H
#define DC_SKETCH_IO_H

#include "fmgr.h"

typedef struct SketchIo
{
	const char *type; /* its name, for messages */
	/* what is wrong with these bytes, or NULL; they are not trusted */
	const char *(*check)(const uint8_t *data, size_t len);
	/* enforce a type modifier; NULL if the type has none */
	Datum (*coerce)(Datum value, int32 typmod, fmNodePtr escontext);
} SketchIo;

extern Datum sketch_in(FunctionCallInfo fcinfo, const SketchIo *io);
extern Datum sketch_out(FunctionCallInfo fcinfo);
extern Datum sketch_recv(FunctionCallInfo fcinfo, const SketchIo *io);
extern Datum sketch_from_bytea(FunctionCallInfo fcinfo, const SketchIo *io);
extern bytea *sketch_value(const void *data, size_t len);
extern MemoryContext sketch_aggregate_context(FunctionCallInfo fcinfo);

/*
 * Define NAME_in, NAME_out, NAME_recv, NAME_send, and the casts NAME_from_bytea
 * and NAME_to_bytea, over a check of the bytes.
 */
#define DC_SKETCH_IO(name, check) \
	DC_SKETCH_IO_TYPMOD(name, check, NULL)

#define DC_SKETCH_IO_TYPMOD(name, check, coerce) \
	static const SketchIo name##_io = {#name, check, coerce}; \
	DC_SKETCH_FUNCTION(name##_in, sketch_in(fcinfo, &name##_io)) \
	DC_SKETCH_FUNCTION(name##_out, sketch_out(fcinfo)) \
	DC_SKETCH_FUNCTION(name##_recv, sketch_recv(fcinfo, &name##_io)) \
	/* A copy: what a send function returns may be freed by whom it is for. */ \
	DC_SKETCH_FUNCTION(name##_send, PointerGetDatum(PG_GETARG_BYTEA_P_COPY(0))) \
	DC_SKETCH_FUNCTION(name##_from_bytea, sketch_from_bytea(fcinfo, &name##_io)) \
	DC_SKETCH_FUNCTION(name##_to_bytea, PointerGetDatum(PG_GETARG_BYTEA_P(0))) \
	extern int dc_sketch_io_end

#define DC_SKETCH_FUNCTION(symbol, result) \
	PG_FUNCTION_INFO_V1(symbol); \
	Datum symbol(PG_FUNCTION_ARGS) \
	{ \
		return result; \
	}

#endif /* DC_SKETCH_IO_H */
