/*
 * ledgershape.h
 *		What the tables of a ledger must look like.
 *
 * Copyright (c) 2026, the dcounter developers
 */
#ifndef DC_LEDGERSHAPE_H
#define DC_LEDGERSHAPE_H

#include "core/table/shape.h"

/* Columns of the table of accounts, of a table of entries, and of the openings. */
enum
{
	ACCOUNT_KEY,
	ACCOUNT_MIN,
	ACCOUNT_MAX,
	ACCOUNT_OPENED_AT
};
enum
{
	ENTRY_ID,
	ENTRY_TRANSFER_ID,
	ENTRY_KEY,
	ENTRY_AMOUNT,
	ENTRY_OP_ID,
	ENTRY_AT,
	ENTRY_MEMO
};
enum
{
	OPENING_KEY,
	OPENING_AMOUNT,
	OPENING_BEFORE
};

extern const DcShape account_shape;
extern const DcShape entry_shape;
extern const DcShape pending_shape;
extern const DcShape opening_shape;

#endif /* DC_LEDGERSHAPE_H */
