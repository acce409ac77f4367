/*
 * stock.h
 *		The stock room's entry, and what its SQL functions have in common.
 *
 * Copyright (c) 2026, the dcounter developers
 */
#ifndef DC_STOCK_H
#define DC_STOCK_H

#include "fmgr.h"

#include "base/job.h"
#include "core/table/catalog.h"

extern void stock_init(bool preloaded);

/* stocktable.c */
extern void stock_check(const DcCounter *counter);
extern DcCounter *stock_open_to_write(FunctionCallInfo fcinfo, const char *function);
extern int64 quantity_arg(FunctionCallInfo fcinfo, int argno);

/* expire.c */
extern bool expire_job(DcJobRun *run);

#endif /* DC_STOCK_H */
