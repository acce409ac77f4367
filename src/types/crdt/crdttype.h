/*
 * crdttype.h
 *		Mergeable types as the server sees them (see crdttype.c).
 *
 * Copyright (c) 2026, the dcounter developers
 */
#ifndef DC_CRDTTYPE_H
#define DC_CRDTTYPE_H

#include "fmgr.h"
#include "utils/jsonb.h"

#include "base/compat.h"
#include "types/crdt/crdt.h"

extern const CrdtType *crdt_type_of(Oid type);
extern const CrdtType *crdt_type_of_value(CrdtBytes state);
extern CrdtBytes crdt_bytes_of(Datum value);
pg_noreturn extern void crdt_too_large(const CrdtType *type, size_t len);
extern Datum crdt_datum(CrdtBuf *buf);
extern Datum crdt_merge_datums(Datum a, Datum b);
extern CrdtString crdt_node_arg(FunctionCallInfo fcinfo, int argno);
extern CrdtString crdt_element_arg(FunctionCallInfo fcinfo, int argno);
extern Datum crdt_string_datum(CrdtString string);

#define CRDT_ARG(argno) crdt_bytes_of(PG_GETARG_DATUM(argno))

/* Text forms (see crdtjson.c and crdtparse.c). */
extern char *crdt_to_json(CrdtBytes state);
extern bool crdt_from_json(CrdtBuf *out, const CrdtType *type, const char *text,
						   CompatNode escontext);
extern bool crdt_json_value(Datum jsonb, CrdtString *value);
extern bool crdt_json_value_of(JsonbValue *json, CrdtString *value);
extern bool crdt_jsonb_in(const char *text, CompatNode escontext, Datum *jsonb);
extern Datum crdt_jsonb_of(CrdtString value);

#endif /* DC_CRDTTYPE_H */
