/*
 * crdttype.h
 *		Mergeable types as the server sees them (see crdttype.c).
 */
#ifndef DC_CRDTTYPE_H
#define DC_CRDTTYPE_H

#include "base/compat.h"
#include "crdt/crdt.h"
#include "fmgr.h"

extern const CrdtType *crdt_type_of(Oid type);
extern CrdtBytes crdt_bytes_of(Datum value);
extern Datum crdt_datum(CrdtBuf *buf);
extern Datum crdt_merge_datums(const CrdtType *type, Datum a, Datum b);
extern CrdtString crdt_text_arg(FunctionCallInfo fcinfo, int argno);
extern CrdtString crdt_node_arg(FunctionCallInfo fcinfo, int argno);

#endif /* DC_CRDTTYPE_H */
