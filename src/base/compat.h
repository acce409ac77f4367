/*
 * compat.h
 *		The only place that tests PG_VERSION_NUM.
 *
 * Copyright (c) 2026, the dcounter developers
 *
 * Wrappers are named after what they do, not after the version they hide.
 * To support a new major version, only this file must be edited.
 */
#ifndef DC_COMPAT_H
#define DC_COMPAT_H

#include "access/genam.h"
#include "access/heapam.h"
#include "access/table.h"
#include "access/tableam.h"
#include "access/twophase.h"
#include "catalog/pg_attribute.h"
#include "catalog/pg_class.h"
#include "catalog/pg_database.h"
#include "catalog/pg_extension.h"
#include "catalog/pg_namespace.h"
#include "catalog/pg_proc.h"
#include "catalog/pg_publication.h"
#include "catalog/pg_subscription.h"
#include "common/jsonapi.h"
#include "executor/executor.h"
#include "fmgr.h"
#include "mb/pg_wchar.h"
#include "miscadmin.h"
#include "optimizer/planner.h"
#include "pgstat.h"
#include "postmaster/bgworker.h"
#include "replication/message.h"
#include "storage/bufmgr.h"
#include "storage/lock.h"
#include "storage/lwlock.h"
#include "storage/proc.h"
#include "storage/procarray.h"
#include "storage/sinvaladt.h"
#include "utils/acl.h"
#include "utils/backend_status.h"
#include "utils/fmgrprotos.h"
#include "utils/jsonb.h"
#include "utils/rel.h"
#include "utils/tuplestore.h"
#include "utils/wait_event.h"

#if PG_VERSION_NUM < 150000
#error "dcounter needs PostgreSQL 15 or later"
#endif
#if PG_VERSION_NUM >= 200000
#error "this dcounter is for PostgreSQL 15 to 19: take a newer one, or try it by raising this number and mending src/base/compat.h"
#endif

/* 19 made CLUSTER and VACUUM FULL forms of REPACK. */
#if PG_VERSION_NUM >= 190000
#include "commands/repack.h"
#define COMPAT_CLUSTER_STMT T_RepackStmt
#else
#include "commands/cluster.h"
#define COMPAT_CLUSTER_STMT T_ClusterStmt
#endif

/*
 * The library hides all names (-fvisibility=hidden) except for those that the server looks up by
 * name. The server loads libraries with RTLD_GLOBAL, so a name that is not hidden may be bound to
 * another library's function of that name. From 16 on these two macros export what they declare.
 * Each file with a function for SQL includes this header.
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

/*
 * Where a case continues with the next one: since 19, whose PGXS has gcc believe no comment that
 * says so.
 */
#ifndef pg_fallthrough
#define pg_fallthrough __attribute__((fallthrough))
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

/* 16 has workers that apply changes for another worker, which reports their errors. */
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

/* 18 added an argument for EXPLAIN's instrumentation, 19 flags. */
static inline IndexScanDesc
compat_index_beginscan(Relation heap, Relation index, Snapshot snapshot, int nkeys)
{
#if PG_VERSION_NUM >= 190000
	return index_beginscan(heap, index, snapshot, NULL, nkeys, 0, SO_NONE);
#elif PG_VERSION_NUM >= 180000
	return index_beginscan(heap, index, snapshot, NULL, nkeys, 0);
#else
	return index_beginscan(heap, index, snapshot, nkeys, 0);
#endif
}

/* 19 added flags to the following three. */
static inline TableScanDesc
compat_table_beginscan(Relation rel, Snapshot snapshot, int nkeys, ScanKey keys)
{
#if PG_VERSION_NUM >= 190000
	return table_beginscan(rel, snapshot, nkeys, keys, SO_NONE);
#else
	return table_beginscan(rel, snapshot, nkeys, keys);
#endif
}

static inline IndexFetchTableData *
compat_index_fetch_begin(Relation rel)
{
#if PG_VERSION_NUM >= 190000
	return table_index_fetch_begin(rel, SO_NONE);
#else
	return table_index_fetch_begin(rel);
#endif
}

static inline TM_Result
compat_tuple_delete(Relation rel, ItemPointer tid, bool wait, TM_FailureData *failure)
{
	CommandId cid = GetCurrentCommandId(true);

#if PG_VERSION_NUM >= 190000
	return table_tuple_delete(rel, tid, cid, 0, InvalidSnapshot, InvalidSnapshot, wait, failure);
#else
	return table_tuple_delete(rel, tid, cid, InvalidSnapshot, InvalidSnapshot, wait, failure, false);
#endif
}

/*
 * Remove dead versions from a pinned page of a heap. 19 marks it in the visibility map while it is
 * at it, of which it leaves a page pinned for the next call.
 */
static inline void
compat_heap_page_prune(Relation heap, Buffer buffer)
{
#if PG_VERSION_NUM >= 190000
	Buffer map = InvalidBuffer;

	heap_page_prune_opt(heap, buffer, &map, false);
	if (BufferIsValid(map))
		ReleaseBuffer(map);
#else
	heap_page_prune_opt(heap, buffer);
#endif
}

/*
 * True if table_tuple_update() may be told not to wait. tableam.h documents that, and the heap
 * implements it, but with assertions it also asserts that it is never asked to.
 */
#ifdef USE_ASSERT_CHECKING
#define COMPAT_UPDATE_NEED_NOT_WAIT false
#else
#define COMPAT_UPDATE_NEED_NOT_WAIT true
#endif

/*
 * Update a tuple; sets *new_entries if it needs new index entries. 16 distinguishes which indexes
 * need them, which makes no difference to a table whose indexed columns never change; 19 added
 * options.
 */
static inline TM_Result
compat_tuple_update(Relation rel, ItemPointer tid, TupleTableSlot *slot,
					CommandId cid, bool wait, TM_FailureData *failure,
					bool *new_entries)
{
	LockTupleMode lockmode;
	TM_Result result;
#if PG_VERSION_NUM >= 190000
	TU_UpdateIndexes update_indexes = TU_None;

	result = table_tuple_update(rel, tid, slot, cid, 0, InvalidSnapshot,
								InvalidSnapshot, wait, failure, &lockmode,
								&update_indexes);
	*new_entries = (update_indexes == TU_All);
#elif PG_VERSION_NUM >= 160000
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

/* 16 renamed what identifies the file in a sequence's WAL record, and 19 moved the record. */
#if PG_VERSION_NUM >= 190000
#include "commands/sequence_xlog.h"
#endif
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
 * True if this session has a lock in this mode, or in a stronger one. 17 can ask for the latter
 * by itself.
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
 * In 16 what a subscription brings is written as the owner of the table, if that is asked for,
 * and an option says if rows that came from elsewhere are wanted as well.
 */
#if PG_VERSION_NUM >= 160000
#define COMPAT_LINK_OPTIONS ", origin = any, run_as_owner = false"
#define COMPAT_APPLY_IS_SUBSCRIBER false
#else
#define COMPAT_LINK_OPTIONS ""
#define COMPAT_APPLY_IS_SUBSCRIBER true
#endif

/* Whether what a subscription brings is written as its owner, who may set which roles. */
#if PG_VERSION_NUM >= 160000
#define compat_applies_as_subscriber(form) ((form)->subrunasowner)
#define compat_may_set_role(member, role) member_can_set_role(member, role)
#else
#define compat_applies_as_subscriber(form) ((void) (form), true)
#define compat_may_set_role(member, role) is_member_of_role(member, role)
#endif

/* 17 lets an extension name its wait events. */
static inline uint32
compat_wait_event(const char *name)
{
#if PG_VERSION_NUM >= 170000
	return WaitEventExtensionNew(name);
#else
	return PG_WAIT_EXTENSION;
#endif
}

/*
 * 19 ends a worker with this flag for a statement that needs its database for itself, such as DROP
 * DATABASE.
 */
#ifndef BGWORKER_INTERRUPTIBLE
#define BGWORKER_INTERRUPTIBLE 0
#endif

/*
 * The least wal_level from which the WAL can be decoded: 19 writes what that needs as soon as there
 * is a logical slot.
 */
#if PG_VERSION_NUM >= 190000
#define COMPAT_LOGICAL_WAL_LEVEL WAL_LEVEL_REPLICA
#else
#define COMPAT_LOGICAL_WAL_LEVEL WAL_LEVEL_LOGICAL
#endif

/* 19 wants the name of a tranche of locks when it is created, and keeps it for all processes. */
static inline int
compat_new_tranche(const char *name)
{
#if PG_VERSION_NUM >= 190000
	return LWLockNewTrancheId(name);
#else
	return LWLockNewTrancheId();
#endif
}

static inline void
compat_name_tranche(int tranche, const char *name)
{
#if PG_VERSION_NUM < 190000
	LWLockRegisterTranche(tranche, name);
#endif
}

/*
 * 19 tells planner hooks whether they plan for EXPLAIN: the last parameter of such a hook, and what
 * it passes on.
 */
#if PG_VERSION_NUM >= 190000
#define COMPAT_PLANNER_PARAMETER , struct ExplainState *explain
#define COMPAT_PLANNER_ARGUMENT , explain
#else
#define COMPAT_PLANNER_PARAMETER
#define COMPAT_PLANNER_ARGUMENT
#endif

/* The publications that name a table; 19 has some that name what they leave out. */
static inline List *
compat_relation_publications(Oid relid)
{
#if PG_VERSION_NUM >= 190000
	return GetRelationIncludedPublications(relid);
#else
	return GetRelationPublications(relid);
#endif
}

/*
 * How often a subscription has failed to copy tables, in pg_stat_get_subscription_stats() AS s; 19
 * counts sequences apart.
 */
#if PG_VERSION_NUM >= 190000
#define COMPAT_SYNC_ERRORS "s.sync_table_error_count + s.sync_seq_error_count"
#else
#define COMPAT_SYNC_ERRORS "s.sync_error_count"
#endif

/*
 * How many rows of a subscription met another row, or none, where they had to find one; counted
 * since 18. Where the row was only written by another region before (origin_differs) nothing is
 * lost, and that is not counted.
 */
#if PG_VERSION_NUM >= 190000
#define COMPAT_CONFLICTS \
	"s.confl_insert_exists + s.confl_update_exists + s.confl_update_missing + s.confl_update_deleted + s.confl_delete_missing" \
	" + s.confl_multiple_unique_conflicts"
#elif PG_VERSION_NUM >= 180000
#define COMPAT_CONFLICTS \
	"s.confl_insert_exists + s.confl_update_exists + s.confl_update_missing + s.confl_delete_missing + s.confl_multiple_unique_conflicts"
#else
#define COMPAT_CONFLICTS "NULL::pg_catalog.int8"
#endif

/*
 * Count an error of this process, which applies a subscription; 19 sees itself what the process
 * does.
 */
static inline void
compat_count_apply_error(Oid subscription)
{
#if PG_VERSION_NUM >= 190000
	pgstat_report_subscription_error(subscription);
#else
	pgstat_report_subscription_error(subscription, true);
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

/*
 * The node that takes a soft error, and that a function is called with. fmgr.h of versions before
 * 19 has a name for it, so as to need no nodes.h.
 */
struct Node;
typedef struct Node *CompatNode;

/* False after a soft error. */
static inline bool
compat_jsonb_in(const char *text, CompatNode escontext, Datum *jsonb)
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
	ErrorSaveContext escontext = {.type = T_ErrorSaveContext};

	return DirectInputFunctionCallSafe(jsonb_in, unconstify(char *, text), InvalidOid, -1, (CompatNode) &escontext, jsonb);
#else
	JsonLexContext *lex = makeJsonLexContextCstringLen(unconstify(char *, text), strlen(text), GetDatabaseEncoding(), true);

	/* a number that numeric cannot hold is an error still */
	if (pg_parse_json(lex, &nullSemAction) != JSON_SUCCESS)
		return false;
	*jsonb = DirectFunctionCall1(jsonb_in, CStringGetDatum(text));
	return true;
#endif
}

/* 16 added an argument for indexes that summarize, 19 made flags of these arguments. */
static inline void
compat_insert_index_entries(ResultRelInfo *table, TupleTableSlot *slot, EState *estate)
{
#if PG_VERSION_NUM >= 190000
	(void) ExecInsertIndexTuples(table, estate, 0, slot, NIL, NULL);
#elif PG_VERSION_NUM >= 160000
	(void) ExecInsertIndexTuples(table, slot, estate, false, false, NULL, NIL,
								 false);
#else
	(void) ExecInsertIndexTuples(table, slot, estate, false, false, NULL, NIL);
#endif
}

/* From 17 on an index may keep state from one insertion to the next. */
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

/*
 * A descriptor whose columns have all been named: 19 computes then where they are in a row. Without
 * it, rows are read wrongly.
 */
static inline TupleDesc
compat_described(TupleDesc desc)
{
#if PG_VERSION_NUM >= 190000
	TupleDescFinalize(desc);
#endif
	return desc;
}

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

/* 18 lets a module declare its name and version. */
#ifdef PG_MODULE_MAGIC_EXT
#define DC_MODULE_MAGIC \
	PG_MODULE_MAGIC_EXT(.name = "dcounter", .version = DCOUNTER_VERSION)
#else
#define DC_MODULE_MAGIC PG_MODULE_MAGIC
#endif

/*
 * Rewrite a table that is locked exclusively, without the rows that are dead to all. 18 takes
 * an open table, and closes it; 19 asks for which statement.
 */
static inline void
compat_rewrite_table(Oid relid)
{
	ClusterParams params = {0};

#if PG_VERSION_NUM >= 190000
	cluster_rel(REPACK_COMMAND_VACUUMFULL, table_open(relid, NoLock), InvalidOid, &params, false);
#elif PG_VERSION_NUM >= 180000
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

/*
 * The arguments of a constructor of JSON, such as JSON_ARRAY(), which are there from 16 on; NIL for
 * any other node.
 */
#if PG_VERSION_NUM >= 160000
#define compat_json_arguments(node) (IsA(node, JsonConstructorExpr) ? ((JsonConstructorExpr *) (node))->args : NIL)
#else
#define compat_json_arguments(node) NIL
#endif

/*
 * There are settings of how a plain '...' is read. Since 19 it is always read as the standard says,
 * without a warning.
 */
#if PG_VERSION_NUM >= 190000
#define COMPAT_STRINGS_ARE_SET false
#else
#define COMPAT_STRINGS_ARE_SET true
#endif

/*
 * How a subscription connects. In 19 it may name a foreign server, and what that says is looked up
 * only when it is asked for.
 */
static inline char *
compat_subscription_conninfo(Subscription *subscription)
{
#if PG_VERSION_NUM >= 190000
	return SubscriptionConninfo(subscription);
#else
	return subscription->conninfo;
#endif
}

/* 17 lets the expression of a generated column be changed, which rewrites all rows. */
#if PG_VERSION_NUM >= 170000
#define COMPAT_AT_SET_EXPRESSION AT_SetExpression
#else
#define COMPAT_AT_SET_EXPRESSION ((AlterTableType) -1)
#endif

#endif /* DC_COMPAT_H */
