/*
 * hold.h
 *		Holds, for the rest of this room.
 *
 * Copyright (c) 2026, the dcounter developers
 */
#ifndef DC_HOLD_H
#define DC_HOLD_H

#include "utils/timestamp.h"

#include "core/counter/pending.h"
#include "core/counter/sqlpath.h"
#include "core/table/catalog.h"
#include "transactional/stock/cart.h"

/*
 * The columns of what a hold has, of statements that read "h.key, h.qty, @keys, @qtys"
 * (holds_begin).
 */
#define DC_HOLD_LINES DC_TEXT("key"), DC_BIGINT("qty"), DC_NULLABLE("keys", TEXTARRAYOID), DC_NULLABLE("qtys", INT8ARRAYOID)

/* How many keys a hold can have: it is ended in one transaction, which others may wait for. */
#define HOLD_MAX_LINES 1000

extern text *ended_answer(const char *state, const char *wanted);

/* holdmake.c */
extern TransactionId hold_maker(Relation heap, Oid index_oid, Datum id);

/* holdline.c */
extern DcCartLine *hold_lines(DcSqlSession *session, uint64 row, int *count);
extern void hold_lines_give_back(DcCounter *counter, const DcCartLine *lines, int count);
extern void holds_session(DcSqlSession *session, DcCounter *counter);
extern void holds_begin(DcSqlSession *session, DcCounter *counter, LOCKMODE mode);
extern void holds_check_lines(const DcCounter *counter);

/* holdexpired.c */
extern int64 holds_give_back(DcSqlSession *session);
extern int64 holds_expire_key(DcCounter *counter, const DcDeltaKey *key,
							  int64 limit);
extern int64 holds_expired_units(DcCounter *counter, const DcDeltaKey *key,
								 bool latest);
extern TimestampTz holds_first_expiry(DcCounter *counter, const DcDeltaKey *key);
extern void holds_expired_each(DcCounter *counter, Datum keys, void (*each)(void *arg, Datum key, int64 units), void *arg);
extern void holds_key_set(DcCounter *counter, const DcKey *key);

/* stocktable.c */
extern const DcShape holds_shape;
extern Oid create_holds(const RangeVar *stock, const char *maker);
extern void find_holds(DcCounterRow *row);
extern void counter_holds_layout(DcCounter *counter);

#endif /* DC_HOLD_H */
