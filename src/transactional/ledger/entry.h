/*
 * entry.h
 *		The entries of a ledger (see entry.c).
 *
 * Copyright (c) 2026, the dcounter developers
 */
#ifndef DC_ENTRY_H
#define DC_ENTRY_H

#include "datatype/timestamp.h"

#include "transactional/ledger/ledger.h"

/* An entry; the values that the entries of one transfer share are in DcEntries. */
typedef struct DcEntry
{
	const DcKey *key;
	int64 amount;
} DcEntry;

typedef struct DcEntries
{
	const DcEntry *entries;
	int n;
	int64 transfer_id; /* 0: the number of the first entry */
	int64 first_id;	   /* numbers of the entries, from entries_draw() */
	Datum op_id;	   /* text */
	Datum memo;		   /* jsonb */
	bool has_memo;
	TimestampTz at;
} DcEntries;

extern int64 entries_draw(DcLedger *ledger, int n);
extern void entries_insert(DcLedger *ledger, const DcEntries *batch);

#endif /* DC_ENTRY_H */
