/*
 * op.h
 *		Ops: increments and transfers that count once (see op.c).
 *
 * Copyright (c) 2026, the dcounter developers
 */
#ifndef DC_OP_H
#define DC_OP_H

#include "fmgr.h"

#include "base/job.h"
#include "core/table/catalog.h"

#define DC_OP_SUFFIX "_op"

/* Longest id in bytes: it must fit a btree entry. */
#define DC_MAX_OP_BYTES 1024

typedef struct DcOp
{
	const char *id; /* not zero-terminated */
	uint32 id_len;	/* in bytes */
	Datum key;		/* text */
	int64 delta;
	int64 transfer_id; /* 0: none */
	int64 digest;	   /* of the arguments; 0: key and delta are all of them */
	TimestampTz at;	   /* 0: now */
} DcOp;

/* Was an op applied? */
typedef enum DcOpStatus
{
	OP_APPLIED,
	OP_NOT_APPLIED,
	OP_UNKNOWN /* its record may be gone */
} DcOpStatus;

/* The ops of a counter table, open for the statement. */
typedef struct DcOpLog DcOpLog;

extern void op_id_arg(FunctionCallInfo fcinfo, int argno, DcOp *op);
extern void op_id_from_text(Datum value, DcOp *op);
extern void op_check_same(const DcOp *op, const DcOp *found);

extern DcOpLog *ops_open(DcCounter *counter);
extern void ops_close(DcOpLog *log);
extern bool ops_lookup(DcOpLog *log, DcOp *op, DcOp *found);
extern bool ops_insert(DcOpLog *log, const DcOp *op,
					   DcOp *found);
extern DcOpStatus ops_status(DcCounter *counter, DcOp *op,
							 DcOp *found);
extern void ops_create(DcCounter *counter);
extern void ops_wait_made(DcCounter *counter);
extern List *ops_tables(Oid counter, List *tables);
extern void once_init(void);

/* opjob.c */
extern bool op_job(DcJobRun *run);

#endif /* DC_OP_H */
