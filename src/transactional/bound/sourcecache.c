/*
 * sourcecache.c
 *		A session's cache of the bindings that a change of a row counts for, and counting by it.
 *
 * Copyright (c) 2026, the dcounter developers
 *
 * An entry is found by the relation whose row was changed: a source, or a partition of one. It
 * has the bindings of that relation and of all that it is a partition of, with expressions for
 * its rows. The trigger's arguments, and which trigger it is, play no part: so a trigger that a
 * user puts on a table of their own counts nothing.
 *
 * Why no binding is missed: a row of dcounter.source changes under a lock on its source and
 * all partitions that conflicts with the one that a writer has (bound.h), and its change sends
 * relcache invalidations of these. A writer receives them when it has its lock.
 * ATTACH and DETACH invalidate the partition, too. A partition's columns have the names that those
 * of the source have, so the source is not locked: after a partition that could be a deadlock.
 *
 * An invalidation only marks an entry: it may come while the entry is in use, as adding to
 * a counter may run SQL. The next use makes a new one. The memory of the old one lives until
 * the transaction ends, as no use lasts longer (events/outbox/capturecache.c does the same).
 *
 * Rights: dc_bind() must be called by the owner of both tables. When they have different owners
 * later, rows are counted only while the owner of the source may act as the counter's.
 */
#include "postgres.h"

#include "common/int.h"
#include "miscadmin.h"
#include "utils/acl.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"
#include "utils/rel.h"

#include "base/compat.h"
#include "base/relcached.h"
#include "base/roles.h"
#include "core/counter/write.h"
#include "core/table/access.h"
#include "transactional/bound/refs.h"
#include "transactional/bound/sourcetrigger.h"

typedef struct Entry
{
	Oid relid; /* hash key */
	bool valid;
	uint32 roles;	   /* role_changes when it was made */
	DcBoundList *list; /* NULL: being made */
	int nwatched;	   /* the tables that it depends on: ancestors and counter tables */
	Oid *watched;
} Entry;

static void sourcecache_entry_changed(void *entry, Oid relid);

static DcRelCached entries = {
	.name = "dcounter sources",
	.keysize = sizeof(Oid),
	.size = sizeof(Entry),
	.changed = sourcecache_entry_changed,
};

static void sourcecache_sweep(void);
static void entry_make(Entry *entry, Relation rel);
static void add_bindings(DcBoundList *list, Oid source, Relation rel, List **watched);
static DcCounter *bound_counter(DcBound *bound);

/*
 * source_bindings returns the bindings that rows of a relation count for; the relation is open
 * and locked. They stay valid until the transaction ends.
 */
const DcBoundList *
source_bindings(Relation rel)
{
	Oid relid = RelationGetRelid(rel);
	Entry *entry = relcached_find(&entries, &relid);
	uint64 changes;

	if (likely(entry != NULL && entry->valid && entry->list != NULL && entry->roles == role_changes))
		return entry->list;
	if (entries.hash != NULL)
		sourcecache_sweep();
	entry = relcached_enter(&entries, &relid);
	entry->list = NULL;
	entry->valid = false;
	entry->roles = role_changes;
	changes = relcached_changes();
	entry_make(entry, rel);
	entry->valid = changes == relcached_changes(); /* else this use is the last */
	return entry->list;
}

/*
 * Mark an entry invalid if DDL has changed its relation or a table that it depends on;
 * InvalidOid stands for all tables. Must not throw.
 */
static void
sourcecache_entry_changed(void *data, Oid relid)
{
	Entry *entry = data;

	if (!OidIsValid(relid) || entry->relid == relid)
		entry->valid = false;
	for (int i = 0; i < entry->nwatched; i++)
	{
		if (entry->watched[i] == relid)
			entry->valid = false;
	}
}

/*
 * sourcecache_sweep removes entries that are not valid. Those that are being made further up the
 * stack are kept.
 */
static void
sourcecache_sweep(void)
{
	HASH_SEQ_STATUS scan;
	Entry *entry;

	hash_seq_init(&scan, entries.hash);
	while ((entry = hash_seq_search(&scan)) != NULL)
	{
		if ((entry->valid && entry->roles == role_changes) || entry->list == NULL)
			continue;
		MemoryContextSetParent(entry->list->cxt, TopTransactionContext);
		entry->list = NULL;
		relcached_set_oids(&entry->watched, &entry->nwatched, NIL);
		hash_search(entries.hash, &entry->relid, HASH_REMOVE, NULL);
	}
}

/*
 * Read the bindings that rows of a relation count for, and prepare their expressions. The list
 * survives the transaction; if an error comes first, its memory goes with the caller's.
 */
static void
entry_make(Entry *entry, Relation rel)
{
	MemoryContext cxt = AllocSetContextCreate(CurrentMemoryContext, "dcounter source", ALLOCSET_SMALL_SIZES);
	MemoryContext old = MemoryContextSwitchTo(cxt);
	DcBoundList *list = palloc0(sizeof(DcBoundList));
	List *sources = source_lineage(RelationGetRelid(rel));
	List *watched = list_copy(sources);
	ListCell *lc;

	list->cxt = cxt;
	foreach(lc, sources)
		add_bindings(list, lfirst_oid(lc), rel, &watched);
	relcached_set_oids(&entry->watched, &entry->nwatched, watched);
	MemoryContextSetParent(cxt, TopMemoryContext);
	MemoryContextSwitchTo(old);
	entry->list = list;
}

/*
 * add_bindings adds those of one source.
 */
static void
add_bindings(DcBoundList *list, Oid source, Relation rel, List **watched)
{
	List *rows = source_rows_of(source);
	ListCell *lc;

	if (rows == NIL)
		return;
	list->bound = list->bound == NULL ? palloc0(list_length(rows) * sizeof(DcBound))
									  : repalloc(list->bound, (list->n + list_length(rows)) * sizeof(DcBound));
	foreach(lc, rows)
	{
		DcBound *bound = &list->bound[list->n++];

		memset(bound, 0, sizeof(DcBound));
		bound->row = *(DcSourceRow *) lfirst(lc);
		source_check_owners(source, bound->row.counter);
		bound->eval = source_eval_make(&bound->row, rel, rel, list->cxt);
		*watched = lappend_oid(*watched, bound->row.counter);
	}
}

/*
 * source_check_owners raises 42501 if the owner of the source may not act as the counter's.
 */
void
source_check_owners(Oid source, Oid counter)
{
	Oid owner = relation_owner(source);
	Oid wanted = relation_owner(counter);

	if (owner == wanted || !OidIsValid(wanted) || has_privs_of_role(owner, wanted))
		return;
	ereport(ERROR,
			(errcode(ERRCODE_INSUFFICIENT_PRIVILEGE),
			 errmsg("rows of \"%s\" cannot be counted in \"%s\"", get_rel_name(source), get_rel_name(counter)),
			 errdetail("The tables have different owners, and the owner of the first does not have the privileges of the other."),
			 errhint("Give both to one owner, or call dc_unbind().")));
}

/*
 * bound_counter returns the counter table of a binding, locked for increments in this
 * transaction. The writer needs no rights on it.
 */
static DcCounter *
bound_counter(DcBound *bound)
{
	SubTransactionId subxact = GetCurrentSubTransactionId();

	if (likely(bound->counter != NULL && bound->counter->valid &&
			   bound->lxid == compat_local_xid() && bound->subxact == subxact))
		return bound->counter;
	bound->counter = counter_open_bound(bound->row.counter);
	bound->lxid = compat_local_xid();
	bound->subxact = subxact;
	return bound->counter;
}

/*
 * bound_add adds what a row counts for to the counter, or subtracts it.
 */
void
bound_add(DcBound *bound, const DcCounted *counted, int sign)
{
	DcCounter *counter = bound_counter(bound);
	int64 amount = counted->value;
	bool negative = amount < 0;

	if (bound->row.distinct_of != NULL)
	{
		refs_add(&bound->row, &counted->key, &counted->item, sign);
		return;
	}
	if (negative && pg_sub_s64_overflow(0, amount, &amount))
		ereport(ERROR,
				(errcode(ERRCODE_NUMERIC_VALUE_OUT_OF_RANGE),
				 errmsg("bigint out of range"),
				 errdetail("The amount of a delta must fit into bigint.")));
	if (negative == (sign < 0))
		counter_add_amounts(counter, &counted->key, DC_NO_HINT, amount, 0);
	else
		counter_add_amounts(counter, &counted->key, DC_NO_HINT, 0, amount);
}
