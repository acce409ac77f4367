/*
 * entrymonth.h
 *		Entries by month (see entrymonth.c).
 *
 * Copyright (c) 2026, the dcounter developers
 */
#ifndef DC_ENTRYMONTH_H
#define DC_ENTRYMONTH_H

#include "datatype/timestamp.h"

#include "transactional/ledger/ledger.h"

extern bool month_is_key(Relation entries);
extern void months_create(const char *schema, const char *entries);
extern void months_ahead(DcLedger *ledger);
extern Oid month_table(DcLedger *ledger, TimestampTz at);
extern List *months_until(Relation entries, TimestampTz until, TimestampTz *end);

#endif /* DC_ENTRYMONTH_H */
