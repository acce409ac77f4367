/*
 * transfer.h
 *		Posting transfers (see transfer.c).
 *
 * Copyright (c) 2026, the dcounter developers
 */
#ifndef DC_TRANSFER_H
#define DC_TRANSFER_H

#include "transactional/ledger/account.h"
#include "transactional/ledger/entry.h"
#include "transactional/once/op.h"

/* From one account to another. */
typedef struct DcLine
{
	DcKey from;
	DcKey to;
	int64 amount;
} DcLine;

/* The arguments of a call. */
typedef struct DcTransfer
{
	DcLine *lines;
	int n;
	DcOp op;
	Datum memo;
	bool has_memo;
} DcTransfer;

extern void line_args(FunctionCallInfo fcinfo, DcLine *line, DcTransfer *transfer);
extern bool transfer_begin(DcLedger *ledger, DcTransfer *transfer, int64 pending);
extern DcLeg *transfer_legs(DcLedger *ledger, const DcLine *lines, int n, int *nlegs);
extern void transfer_post(DcLedger *ledger, const DcTransfer *transfer, int64 transfer_id,
						  const DcLeg *legs, int nlegs);
extern Datum transfer_result(FunctionCallInfo fcinfo, int64 transfer_id, bool duplicate);

#endif /* DC_TRANSFER_H */
