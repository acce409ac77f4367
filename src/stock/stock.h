/*
 * stock.h
 *		The stock room's entry.
 */
#ifndef DC_STOCK_H
#define DC_STOCK_H

#include "base/job.h"

extern void stock_init(bool preloaded);

/* expire.c */
extern bool expire_job(DcJobRun *run);

#endif /* DC_STOCK_H */
