/*
 * set.h
 *		Setting keys: what the files of dc_set() share.
 *
 * Copyright (c) 2026, the dcounter developers
 */
#ifndef DC_SET_H
#define DC_SET_H

#include "fmgr.h"

#include "base/key.h"
#include "core/counter/sqlpath.h"

/* set.c; key, and of the second inc, dec, at */
extern const DcStatement sql_lock_total;
extern const DcStatement sql_update_total;
extern const DcStatement sql_delete_total;

extern void key_take(DcCounter *counter, const DcKey *key);
extern void set_check_newer(DcSqlSession *session, Datum *values, bool has_total);

/* setregion.c */
extern void set_lock_first(FunctionCallInfo fcinfo);
extern bool set_replicated(DcCounter *counter, const DcKey *key, int64 value, bool deleted, int64 *old);

#endif /* DC_SET_H */
