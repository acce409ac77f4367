/*
 * item.h
 *		Items of any type, as the sketches see them (see item.c).
 *
 * Copyright (c) 2026, the dcounter developers
 */
#ifndef DC_SKETCH_ITEM_H
#define DC_SKETCH_ITEM_H

#include "fmgr.h"
#include "utils/datetime.h"

/* How a type's values become items. */
typedef enum ItemKind
{
	ITEM_TEXT,	 /* text, varchar, bytea: their bytes */
	ITEM_BPCHAR, /* without trailing blanks */
	ITEM_NAME,
	ITEM_INT2,
	ITEM_INT4,
	ITEM_INT8,
	ITEM_BOOL,
	ITEM_UUID,
	ITEM_FLOAT4,
	ITEM_FLOAT8,
	ITEM_NUMERIC,
	ITEM_DATETIME,
	ITEM_ENUM,
	ITEM_OTHER
} ItemKind;

/* An item type; filled once per call site. */
typedef struct ItemType
{
	Oid type; /* of the domain's base type if it is a domain */
	Oid collation;
	ItemKind kind;
	FmgrInfo hash;		/* the type's extended hash function, once looked up */
	FmgrInfo out;		/* the type's output function, once looked up */
	MemoryContext mcxt; /* of these functions */
} ItemType;

/*
 * An item's bytes: a view on the value, on buf, or on memory of the current
 * context.
 */
typedef struct ItemBytes
{
	const char *data;
	size_t len;
	char buf[MAXDATELEN + 1];
} ItemBytes;

extern ItemType *item_type_of_arg(FunctionCallInfo fcinfo, int argno);
extern void item_type_init(ItemType *type, Oid typid, Oid collation,
						   MemoryContext mcxt);
extern void item_text(ItemType *type, Datum value, ItemBytes *item);
extern uint64 item_hash(ItemType *type, Datum value, int hash_id);

#endif /* DC_SKETCH_ITEM_H */
