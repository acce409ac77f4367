/*
 * compat.h
 *		The only place that tests PG_VERSION_NUM.
 *
 * Copyright (c) 2026, the dcounter developers
 *
 * Wrappers are named after what they do, not after the version they hide.
 * A new major version is supported by editing this file alone.
 */
#ifndef DC_COMPAT_H
#define DC_COMPAT_H

#include "access/genam.h"
#include "access/table.h"
#include "access/tableam.h"
#include "access/twophase.h"
#include "catalog/pg_attribute.h"
#include "catalog/pg_class.h"
#include "catalog/pg_database.h"
#include "catalog/pg_extension.h"
#include "catalog/pg_namespace.h"
#include "catalog/pg_proc.h"
#include "commands/cluster.h"
#include "common/jsonapi.h"
#include "executor/executor.h"
#include "fmgr.h"
#include "mb/pg_wchar.h"
#include "miscadmin.h"
#include "postmaster/bgworker.h"
#include "replication/message.h"
#include "storage/bufmgr.h"
#include "storage/lock.h"
#include "storage/proc.h"
#include "storage/procarray.h"
#include "storage/sinvaladt.h"
#include "utils/acl.h"
#include "utils/backend_status.h"
#include "utils/fmgrprotos.h"
#include "utils/jsonb.h"
#include "utils/rel.h"
#include "utils/wait_event.h"

#if PG_VERSION_NUM < 150000
#error "dcounter needs PostgreSQL 15 or later"
#endif

/*
 * The library hides all names (-fvisibility=hidden) but those that the server looks up by name. The server loads
 * libraries with RTLD_GLOBAL, so a name that is not hidden may be bound to another library's function of that name.
 * From 16 on these two macros export what they declare. Each file with a function for SQL includes this header.
 */
#if PG_VERSION_NUM < 160000
#undef PGDLLEXPORT
#define PGDLLEXPORT __attribute__((visibility("default")))
#undef PG_FUNCTION_INFO_V1
#define PG_FUNCTION_INFO_V1(name) \
	extern PGDLLEXPORT Datum name(PG_FUNCTION_ARGS); \
	extern PGDLLEXPORT const Pg_finfo_record *pg_finfo_##name(void); \
	const Pg_finfo_record * \
		pg_finfo_##name(void) \
	{ \
		static const Pg_finfo_record info = {1}; \
\
		return &info; \
	} \
	extern int no_such_variable
#endif

/* Before the declaration of a function that raises an error in any case: since 18. */
#ifndef pg_noreturn
#define pg_noreturn pg_attribute_noreturn()
#endif

/* 16 moved the varlena macros out of postgres.h. */
#if PG_VERSION_NUM >= 160000
#include "varatt.h"
#endif

/* 16 replaced the per-catalog ownership checks by one function. */
#if PG_VERSION_NUM >= 160000
#define compat_owns_relation(relid, roleid) object_ownercheck(RelationRelationId, relid, roleid)
#define compat_owns_extension(oid, roleid) object_ownercheck(ExtensionRelationId, oid, roleid)
#define compat_owns_database(oid, roleid) object_ownercheck(DatabaseRelationId, oid, roleid)
#define compat_may_use_schema(oid, roleid) (object_aclcheck(NamespaceRelationId, oid, roleid, ACL_USAGE) == ACLCHECK_OK)
#define compat_may_execute(oid, roleid) (object_aclcheck(ProcedureRelationId, oid, roleid, ACL_EXECUTE) == ACLCHECK_OK)
#else
#define compat_owns_relation(relid, roleid) pg_class_ownercheck(relid, roleid)
#define compat_owns_extension(oid, roleid) pg_extension_ownercheck(oid, roleid)
#define compat_owns_database(oid, roleid) pg_database_ownercheck(oid, roleid)
#define compat_may_use_schema(oid, roleid) (pg_namespace_aclcheck(oid, roleid, ACL_USAGE) == ACLCHECK_OK)
#define compat_may_execute(oid, roleid) (pg_proc_aclcheck(oid, roleid, ACL_EXECUTE) == ACLCHECK_OK)
#endif

/* 18 has constraints NOT NULL that are not valid yet: there may be rows with NULL. */
static inline bool
compat_is_not_null(TupleDesc desc, AttrNumber attnum)
{
#if PG_VERSION_NUM >= 180000
	return TupleDescCompactAttr(desc, attnum - 1)->attnullability == ATTNULLABLE_VALID;
#else
	return TupleDescAttr(desc, attnum - 1)->attnotnull;
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

/* 17 replaced the variable by a macro about the kind of process. */
static inline bool
compat_is_background_worker(void)
{
#if PG_VERSION_NUM >= 170000
	return AmBackgroundWorkerProcess();
#else
	return IsBackgroundWorker;
#endif
}

/* 16 has workers that apply for another one, which reports what they fail at. */
#if PG_VERSION_NUM >= 160000
#define compat_is_parallel_apply_worker() am_parallel_apply_worker()
#else
#define compat_is_parallel_apply_worker() false
#endif

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

/*
 * The transaction id of a running transaction, or of a prepared one that was
 * recovered; InvalidTransactionId if it has none, or has ended.
 */
static inline TransactionId
compat_xid_of(VirtualTransactionId vxid)
{
	PGPROC *proc;

	if (VirtualTransactionIdIsRecoveredPreparedXact(vxid))
		return vxid.localTransactionId;
#if PG_VERSION_NUM >= 170000
	proc = ProcNumberGetProc(vxid.procNumber);
	if (proc == NULL || proc->vxid.lxid != vxid.localTransactionId)
		return InvalidTransactionId;
#else
	proc = BackendIdGetProc(vxid.backendId);
	if (proc == NULL || proc->lxid != vxid.localTransactionId)
		return InvalidTransactionId;
#endif
	return proc->xid;
}

/* 18 added an argument for EXPLAIN's instrumentation. */
static inline IndexScanDesc
compat_index_beginscan(Relation heap, Relation index, Snapshot snapshot, int nkeys)
{
#if PG_VERSION_NUM >= 180000
	return index_beginscan(heap, index, snapshot, NULL, nkeys, 0);
#else
	return index_beginscan(heap, index, snapshot, nkeys, 0);
#endif
}

/*
 * Whether table_tuple_update() may be told not to wait. tableam.h says that it
 * may, and the heap does as it says, but with assertions it also asserts that
 * nobody asks for it.
 */
#ifdef USE_ASSERT_CHECKING
#define COMPAT_UPDATE_NEED_NOT_WAIT false
#else
#define COMPAT_UPDATE_NEED_NOT_WAIT true
#endif

/*
 * Update a tuple; *new_entries tells whether it needs new index entries. 16
 * tells apart the indexes that need them, which makes no difference to a table
 * whose indexed columns never change.
 */
static inline TM_Result
compat_tuple_update(Relation rel, ItemPointer tid, TupleTableSlot *slot,
					CommandId cid, bool wait, TM_FailureData *failure,
					bool *new_entries)
{
	LockTupleMode lockmode;
	TM_Result result;
#if PG_VERSION_NUM >= 160000
	TU_UpdateIndexes update_indexes = TU_None;

	result = table_tuple_update(rel, tid, slot, cid, InvalidSnapshot,
								InvalidSnapshot, wait, failure, &lockmode,
								&update_indexes);
	*new_entries = (update_indexes == TU_All);
#else
	*new_entries = false;
	result = table_tuple_update(rel, tid, slot, cid, InvalidSnapshot,
								InvalidSnapshot, wait, failure, &lockmode,
								new_entries);
#endif
	return result;
}

/*
 * Pin a block of a table's main fork in the shared buffer where it was seen last;
 * false if it is not there. 16 renamed what identifies the file.
 */
static inline bool
compat_read_recent_buffer(Relation rel, BlockNumber block, Buffer recent)
{
	if (!BufferIsValid(recent) || BufferIsLocal(recent))
		return false;
#if PG_VERSION_NUM >= 160000
	return ReadRecentBuffer(rel->rd_locator, MAIN_FORKNUM, block, recent);
#else
	return ReadRecentBuffer(rel->rd_node, MAIN_FORKNUM, block, recent);
#endif
}

/* 16 renamed what identifies the file in a sequence's WAL record. */
#if PG_VERSION_NUM >= 160000
#define compat_set_sequence_file(record, rel) ((record)->locator = (rel)->rd_locator)
#else
#define compat_set_sequence_file(record, rel) ((record)->node = (rel)->rd_node)
#endif

/* The id of the prepared transaction that has a lock. */
static inline TransactionId
compat_prepared_xid(const LockInstanceData *lock)
{
	VirtualTransactionId vxid;
	bool more;

#if PG_VERSION_NUM >= 170000
	vxid = lock->vxid;
#else
	vxid.backendId = lock->backend;
	vxid.localTransactionId = lock->lxid;
#endif
	if (VirtualTransactionIdIsRecoveredPreparedXact(vxid))
		return vxid.localTransactionId;
	return TwoPhaseGetXidByVirtualXID(vxid, &more);
}

/*
 * Whether this session has a lock in a mode, or in a stronger one. 17 can ask for the latter by itself.
 */
static inline bool
compat_has_lock(const LOCKTAG *tag, LOCKMODE mode)
{
#if PG_VERSION_NUM >= 170000
	return LockHeldByMe(tag, mode, true);
#else
	for (; mode <= AccessExclusiveLock; mode++)
	{
		if (LockHeldByMe(tag, mode))
			return true;
	}
	return false;
#endif
}

/*
 * The same for a relation.
 */
static inline bool
compat_has_locked(Oid relid, LOCKMODE mode)
{
	LOCKTAG tag;

	SET_LOCKTAG_RELATION(tag, MyDatabaseId, relid);
	return compat_has_lock(&tag, mode);
}

/*
 * In 16 what a subscription brings is written as the owner of the table, if that is asked for, and
 * it tells whether rows that came from elsewhere are wanted as well.
 */
#if PG_VERSION_NUM >= 160000
#define COMPAT_LINK_OPTIONS ", origin = any, run_as_owner = false"
#define COMPAT_APPLY_IS_SUBSCRIBER false
#else
#define COMPAT_LINK_OPTIONS ""
#define COMPAT_APPLY_IS_SUBSCRIBER true
#endif

/* 17 lets an extension name what its processes wait for. */
static inline uint32
compat_wait_event(const char *name)
{
#if PG_VERSION_NUM >= 170000
	return WaitEventExtensionNew(name);
#else
	return PG_WAIT_EXTENSION;
#endif
}

/* Backend i of pgstat_fetch_stat_numbackends(); 16 renamed the function. */
static inline PgBackendStatus *
compat_backend_status(int i)
{
#if PG_VERSION_NUM >= 160000
	return &pgstat_get_local_beentry_by_index(i)->backendStatus;
#else
	return &pgstat_fetch_stat_local_beentry(i)->backendStatus;
#endif
}

/* 16 lets input functions report errors without throwing them. */
#if PG_VERSION_NUM >= 160000
#include "nodes/miscnodes.h"
#define compat_ereturn(context, dummy, ...) ereturn(context, dummy, __VA_ARGS__)
#else
#define compat_ereturn(context, dummy, ...) ereport(ERROR, __VA_ARGS__)
#endif

/* False after a soft error. */
static inline bool
compat_jsonb_in(const char *text, fmNodePtr escontext, Datum *jsonb)
{
#if PG_VERSION_NUM >= 160000
	return DirectInputFunctionCallSafe(jsonb_in, unconstify(char *, text), InvalidOid, -1,
									   escontext, jsonb);
#else
	*jsonb = DirectFunctionCall1(jsonb_in, CStringGetDatum(text));
	return true;
#endif
}

/* Return true if a text is that of a jsonb, which is set. */
static inline bool
compat_jsonb_try(const char *text, Datum *jsonb)
{
#if PG_VERSION_NUM >= 160000
	ErrorSaveContext escontext = {T_ErrorSaveContext};

	return DirectInputFunctionCallSafe(jsonb_in, unconstify(char *, text), InvalidOid, -1, (fmNodePtr) &escontext, jsonb);
#else
	JsonLexContext *lex = makeJsonLexContextCstringLen(unconstify(char *, text), strlen(text), GetDatabaseEncoding(), true);

	/* a number that numeric cannot hold is an error still */
	if (pg_parse_json(lex, &nullSemAction) != JSON_SUCCESS)
		return false;
	*jsonb = DirectFunctionCall1(jsonb_in, CStringGetDatum(text));
	return true;
#endif
}

/* 16 added an argument for indexes that summarize. */
static inline void
compat_insert_index_entries(ResultRelInfo *table, TupleTableSlot *slot, EState *estate)
{
#if PG_VERSION_NUM >= 160000
	(void) ExecInsertIndexTuples(table, slot, estate, false, false, NULL, NIL,
								 false);
#else
	(void) ExecInsertIndexTuples(table, slot, estate, false, false, NULL, NIL);
#endif
}

/* From 17 on an index may keep something from one insertion to the next. */
static inline void
compat_index_insert_cleanup(Relation index, IndexInfo *info)
{
#if PG_VERSION_NUM >= 170000
	index_insert_cleanup(index, info);
#endif
}

/* In 17 the writer of a logical decoding message says whether it is flushed at once. */
static inline XLogRecPtr
compat_log_message(const char *prefix, const char *message, size_t size)
{
#if PG_VERSION_NUM >= 170000
	return LogLogicalMessage(prefix, message, size, true, false);
#else
	return LogLogicalMessage(prefix, message, size, true);
#endif
}

/* 19 keeps a jsonb that is being made, and the result, in one state. */
#if PG_VERSION_NUM >= 190000
typedef JsonbInState CompatJsonb;

static inline void
compat_jsonb_push(CompatJsonb *jsonb, JsonbIteratorToken token, JsonbValue *value)
{
	pushJsonbValue(jsonb, token, value);
}
#else
typedef struct CompatJsonb
{
	JsonbParseState *state;
	JsonbValue *result;
} CompatJsonb;

static inline void
compat_jsonb_push(CompatJsonb *jsonb, JsonbIteratorToken token, JsonbValue *value)
{
	jsonb->result = pushJsonbValue(&jsonb->state, token, value);
}
#endif

/* 18 has generated columns that are computed when they are read. */
static inline bool
compat_is_virtual(Form_pg_attribute att)
{
#ifdef ATTRIBUTE_GENERATED_VIRTUAL
	return att->attgenerated == ATTRIBUTE_GENERATED_VIRTUAL;
#else
	return false;
#endif
}

/* 18 lets a module name itself and its version. */
#ifdef PG_MODULE_MAGIC_EXT
#define DC_MODULE_MAGIC \
	PG_MODULE_MAGIC_EXT(.name = "dcounter", .version = DCOUNTER_VERSION)
#else
#define DC_MODULE_MAGIC PG_MODULE_MAGIC
#endif

/*
 * Rewrite a table that is locked exclusively, without the rows that nobody needs. 18 takes
 * an open table, and closes it.
 */
static inline void
compat_rewrite_table(Oid relid)
{
	ClusterParams params = {0};

#if PG_VERSION_NUM >= 180000
	cluster_rel(table_open(relid, NoLock), InvalidOid, &params);
#else
	cluster_rel(relid, InvalidOid, &params);
#endif
}

/*
 * compat_new_file_subxact returns the subtransaction that has last given a relation a new file.
 */
static inline SubTransactionId
compat_new_file_subxact(Relation rel)
{
#if PG_VERSION_NUM >= 160000
	return rel->rd_newRelfilelocatorSubid;
#else
	return rel->rd_newRelfilenodeSubid;
#endif
}

/* 17 lets the expression of a generated column be changed, by which all rows are written anew. */
#if PG_VERSION_NUM >= 170000
#define COMPAT_AT_SET_EXPRESSION AT_SetExpression
#else
#define COMPAT_AT_SET_EXPRESSION ((AlterTableType) -1)
#endif

#endif /* DC_COMPAT_H */
