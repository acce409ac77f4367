/*
 * access.h
 *		Opening a counter table for an SQL function: arguments, locks, rights.
 *
 * Copyright (c) 2026, the dcounter developers
 */
#ifndef DC_ACCESS_H
#define DC_ACCESS_H

#include "fmgr.h"
#include "storage/lock.h"
#include "utils/acl.h"

#include "base/args.h"
#include "core/table/catalog.h"

extern DcCounter *counter_open_to_write(FunctionCallInfo fcinfo, const char *function);
extern DcCounter *counter_open_to_read(FunctionCallInfo fcinfo, const char *function);
extern DcCounter *counter_open_read(Oid relid, const char *function);
extern DcCounter *counter_open_to_delete(FunctionCallInfo fcinfo, const char *function);
extern DcCounter *counter_open_as_owner(FunctionCallInfo fcinfo,
										const char *function, LOCKMODE mode);
extern DcCounter *counter_open_own(Oid relid, LOCKMODE mode);
extern DcCounter *counter_open_bound(Oid relid);
extern DcCounter *counter_open_ledger(FunctionCallInfo fcinfo,
									  const char *function, LOCKMODE mode,
									  AclMode rights);
extern void table_check_rights(Oid relid, AclMode rights);
extern void counter_check_write(Oid relid, const char *function);
extern void counter_forget_open(void);
extern Oid counter_arg(FunctionCallInfo fcinfo);
extern bool counter_lock(Oid relid, LOCKMODE mode);
extern DcCounter *counter_open_at_once(Oid relid, LOCKMODE mode);
extern DcCounter *counter_open_in_passing(Oid relid);
extern bool counter_lock_at_once(Oid relid, LOCKMODE mode, DcCounterRow *row);
extern void counter_lock_partitions(const DcCounter *counter);
extern void read_snapshot_push(void);
extern void latest_snapshot_push(void);
extern void read_snapshot_note(Oid relid);
extern void prevent_not_owner(Oid relid);
pg_noreturn extern void permission_error(Oid relid, AclMode missing);
extern void prevent_idle(const DcCounter *counter, const char *function);
extern void prevent_sampled(const DcCounter *counter, const char *function);
extern DcCounter *counter_known_writer(Oid relid);
extern void prevent_replicated(const DcCounter *counter, const char *function);

#endif /* DC_ACCESS_H */
