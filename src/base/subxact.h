/*
 * subxact.h
 *		Work that is undone, and its locks released, if it fails.
 *
 * Copyright (c) 2026, the dcounter developers
 */
#ifndef DC_SUBXACT_H
#define DC_SUBXACT_H

typedef bool (*DcSubxactWork)(void *arg);

extern bool subxact_run(DcSubxactWork work, void *arg);
extern ErrorData *error_caught(MemoryContext cxt);

#endif /* DC_SUBXACT_H */
