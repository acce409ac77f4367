/*
 * compat.h
 *		The only place that tests PG_VERSION_NUM.
 *
 * Wrappers are named after what they do, not after the version they hide.
 * A new major version is supported by editing this file alone.
 */
#ifndef DC_COMPAT_H
#define DC_COMPAT_H

#include "catalog/pg_class.h"
#include "miscadmin.h"
#include "storage/proc.h"
#include "utils/acl.h"

#if PG_VERSION_NUM < 150000
#error "dcounter needs PostgreSQL 15 or later"
#endif

/* 16 replaced the per-catalog ownership checks by one function. */
static inline bool
compat_owns_relation(Oid relid, Oid roleid)
{
#if PG_VERSION_NUM >= 160000
	return object_ownercheck(RelationRelationId, relid, roleid);
#else
	return pg_class_ownercheck(relid, roleid);
#endif
}

/* 17 moved the local transaction id into PGPROC.vxid. */
static inline LocalTransactionId
compat_local_xid(void)
{
#if PG_VERSION_NUM >= 170000
	return MyProc->vxid.lxid;
#else
	return MyProc->lxid;
#endif
}

/* A small number that this backend shares with no other live backend. */
static inline int
compat_backend_number(void)
{
#if PG_VERSION_NUM >= 170000
	return (int) MyProcNumber;
#else
	return (int) MyBackendId;
#endif
}

/* 18 lets a module name itself and its version. */
#ifdef PG_MODULE_MAGIC_EXT
#define DC_MODULE_MAGIC \
	PG_MODULE_MAGIC_EXT(.name = "dcounter", .version = DCOUNTER_VERSION)
#else
#define DC_MODULE_MAGIC PG_MODULE_MAGIC
#endif

#endif /* DC_COMPAT_H */
