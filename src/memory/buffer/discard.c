/*
 * discard.c
 *		Amounts in memory of a table that is truncated or dropped.
 *
 * Copyright (c) 2026, the dcounter developers
 *
 * They are discarded when the transaction commits that truncates the table of totals,
 * drops it, or drops the database or the extension. That transaction has locked the table against
 * all other sessions, so all increments committed before are in memory or in rows, and no flush is
 * under way. The entries are removed before the locks are released: a table that is created with
 * the same OID later finds nothing.
 *
 * These commands are noticed by the object access hook, which unlike a trigger cannot
 * be disabled. A subscription's worker does not call it, so the trigger for TRUNCATE reports it as
 * well (protect.c). DROP EXTENSION first writes the amounts in memory to rows (bufferinit.c).
 */
#include "postgres.h"

#include "access/xact.h"
#include "catalog/objectaccess.h"
#include "catalog/pg_class.h"
#include "catalog/pg_database.h"
#include "catalog/pg_extension.h"
#include "commands/extension.h"
#include "miscadmin.h"
#include "utils/memutils.h"

#include "base/compat.h"
#include "base/hooks.h"
#include "base/utility.h"
#include "base/xactrooms.h"
#include "core/worker/flusher.h"
#include "memory/buffer/buffer.h"

/*
 * Up to this number of tables, cached values are forgotten one table at a time; beyond it, for all
 * at once. Each time the whole cache is scanned, in a transaction that has committed and can no
 * longer be canceled.
 */
#define MAX_FORGOTTEN 8

typedef struct DcDiscard
{
	struct DcDiscard *next;
	int nest;
	Oid database;
	Oid counter; /* invalid: all of the database */
	bool gone;	 /* not only truncated */
} DcDiscard;

/*
 * In TopTransactionContext, the innermost subtransaction's first. The end of a
 * subtransaction takes its own off or hands them on, that of the transaction forgets
 * all (discard_commit, discard_abort).
 */
static DcDiscard *discards = NULL;

static object_access_hook_type previous_access_hook = NULL;

static void discard_access_hook(ObjectAccessType access, Oid class_id, Oid object_id,
								int sub_id, void *arg);
static void check_written(void);
static bool discard_has_pending(DcBufferTable *table);
static void discard_later(Oid database, Oid counter, bool gone);
static bool has_slot(Oid database, Oid counter);
static bool discard_is_about(const DcDiscard *discard, const DcBufferTable *table);
static void discard_table(DcBufferTable *table, bool gone);

/*
 * discard_init installs the hooks; called once, when the library is preloaded.
 */
void
discard_init(void)
{
	previous_access_hook = object_access_hook;
	object_access_hook = discard_access_hook;
}

/*
 * Note for the commit what the transaction truncates or drops: a table, a database, or the
 * extension, and with it all tables of this database.
 */
static void
discard_access_hook(ObjectAccessType access, Oid class_id, Oid object_id, int sub_id,
					void *arg)
{
	if (previous_access_hook != NULL)
		previous_access_hook(access, class_id, object_id, sub_id, arg);
	if (access != OAT_TRUNCATE && access != OAT_DROP)
		return; /* this runs for each function call */
	if (access == OAT_TRUNCATE && class_id == RelationRelationId)
		discard_later(MyDatabaseId, object_id, false);
	else if (access == OAT_TRUNCATE || sub_id != 0)
		return;
	else if (class_id == RelationRelationId)
		discard_later(MyDatabaseId, object_id, true);
	else if (class_id == DatabaseRelationId)
		discard_later(object_id, InvalidOid, true);
	else if (class_id == ExtensionRelationId &&
			 object_id == get_extension_oid("dcounter", true))
	{
		check_written();
		discard_later(MyDatabaseId, InvalidOid, true);
	}
}

/*
 * discard_truncated notes that a table of totals, which is locked, is being truncated.
 */
void
discard_truncated(Oid counter)
{
	discard_later(MyDatabaseId, counter, false);
}

/*
 * check_written raises an error if the extension is being dropped in another way
 * than by DROP EXTENSION, for which everything has been written and locked. A lock
 * alone says little: a table is locked, too, when its triggers are dropped.
 */
static void
check_written(void)
{
	for (int i = 0; i < buffer_area->ntables; i++)
	{
		DcBufferTable *table = &buffer_area->tables[i];

		if (table->database == MyDatabaseId && table->nentries > 0 &&
			(!compat_has_locked(table->counter, ShareRowExclusiveLock) ||
			 discard_has_pending(table)))
			ereport(ERROR,
					(errcode(ERRCODE_OBJECT_IN_USE),
					 errmsg("cannot drop extension dcounter because increments of buffered counters are in memory"),
					 errhint("Use DROP EXTENSION first, which writes them to the tables.")));
	}
}

/*
 * Return true if amounts of a table, which is locked against writers, are not
 * being flushed.
 */
static bool
discard_has_pending(DcBufferTable *table)
{
	DcBufferScan scan = {.table = table};
	DcMapEntry *entry;
	bool found = false;

	while ((entry = buffer_scan_entry(&scan)) != NULL)
	{
		found |= buffer_has_pending(buffer_of(entry));
		map_unpin(entry);
	}
	return found;
}

/*
 * discard_run_truncate runs a TRUNCATE, and then forgets the tables that it has noted but not
 * locked: while it waited, the name had become another table's. A statement that locks such a table
 * later in this transaction does not truncate it.
 */
void
discard_run_truncate(DcUtility *utility)
{
	DcDiscard *before = discards;
	DcDiscard **link = &discards;

	utility_run(utility);
	while (*link != before)
	{
		if (OidIsValid((*link)->counter) &&
			!compat_has_locked((*link)->counter, AccessExclusiveLock))
			*link = (*link)->next;
		else
			link = &(*link)->next;
	}
}

/*
 * discard_later remembers a table to discard at commit, if there is anything. Entries
 * are made for tables that have a slot, and none can come for one that is being
 * dropped. But TRUNCATE has no lock yet: it may still wait for the first writer.
 */
static void
discard_later(Oid database, Oid counter, bool gone)
{
	DcDiscard *discard;

	if (gone && OidIsValid(counter) && !has_slot(database, counter))
		return;
	/* noted already, by this level or an outer one: the commit looks at each table once */
	for (discard = discards; discard != NULL; discard = discard->next)
	{
		if (discard->database == database && discard->counter == counter && (discard->gone || !gone))
			return;
	}
	discard = MemoryContextAlloc(TopTransactionContext, sizeof(DcDiscard));
	*discard = (DcDiscard){discards, GetCurrentTransactionNestLevel(), database, counter, gone};
	xact_mark(DC_XACT_BUFFER);
	discards = discard;
}

/*
 * Return true if the table has a slot. Takes the area's lock for the look-up.
 */
static bool
has_slot(Oid database, Oid counter)
{
	bool found;

	LWLockAcquire(&buffer_area->lock, LW_SHARED);
	found = table_slot_find(database, counter) != NULL;
	LWLockRelease(&buffer_area->lock);
	return found;
}

/*
 * Return true if a table is to be discarded. TRUNCATE calls the hook
 * before it has the lock. If the name is another table's when it gets the lock, it
 * calls the hook again for that table, and the first one is not truncated.
 */
static bool
discard_is_about(const DcDiscard *discard, const DcBufferTable *table)
{
	if (table->database != discard->database)
		return false;
	return !OidIsValid(discard->counter) ||
		(table->counter == discard->counter &&
		 compat_has_locked(table->counter, AccessExclusiveLock));
}

/*
 * Return true if this transaction has truncated or dropped a table
 * of this database. If so, the amounts in memory no longer count for it, and must not be flushed.
 */
bool
discard_is_noted(const DcBufferTable *table)
{
	for (DcDiscard *discard = discards; discard != NULL; discard = discard->next)
	{
		if (discard_is_about(discard, table))
			return true;
	}
	return false;
}

/*
 * discard_is_idle returns true if this transaction has nothing to discard.
 */
bool
discard_is_idle(void)
{
	return discards == NULL;
}

/*
 * discard_commit discards the amounts of the tables that the transaction, which has
 * committed, has truncated or dropped. Must not throw.
 */
void
discard_commit(void)
{
	int nforgotten = 0;

	for (DcDiscard *discard = discards; discard != NULL; discard = discard->next)
	{
		bool found = discard->gone;

		LWLockAcquire(&buffer_area->lock, LW_EXCLUSIVE);
		for (int i = 0; i < buffer_area->ntables; i++)
		{
			DcBufferTable *table = &buffer_area->tables[i];

			if (!OidIsValid(table->database) || !discard_is_about(discard, table))
				continue;
			discard_table(table, discard->gone);
			found = true;
		}
		LWLockRelease(&buffer_area->lock);
		if (!found)
			continue; /* any other table that was truncated */
		if (cache_hooks != NULL && nforgotten < MAX_FORGOTTEN)
			cache_hooks->forget(discard->database, discard->counter);
		nforgotten++;
	}
	if (cache_hooks != NULL && nforgotten > MAX_FORGOTTEN)
		cache_hooks->forget(MyDatabaseId, InvalidOid);
	discards = NULL;
}

/*
 * discard_table empties a slot. Under area->lock.
 */
static void
discard_table(DcBufferTable *table, bool gone)
{
	buffer_forget_amounts(table);
	bufferfile_discarded(table);
	/* there is nothing left to wait for */
	flush_wait_done(table, pg_atomic_add_fetch_u64(&table->begun, 1));
	flush_wait_refused(table);
	if (gone)
		table_slot_free(table);
	/* stat_buffer() had pins: the flusher will find that the table is gone */
	if (gone && table->nentries > 0 && table->database == MyDatabaseId)
	{
		pg_atomic_write_u64(&table->interval, USECS_PER_SEC);
		pg_atomic_write_u32(&table->dirty, 0);
		table_mark_dirty(table);
	}
}

/*
 * discard_gone discards the amounts of a table of this database that was found to be no longer a
 * counter table.
 */
void
discard_gone(DcBufferTable *table)
{
	LWLockAcquire(&buffer_area->lock, LW_EXCLUSIVE);
	if (table->database == MyDatabaseId)
		discard_table(table, true);
	LWLockRelease(&buffer_area->lock);
}

/*
 * discard_lost discards the amounts that were loaded from the file for tables of a database that no
 * longer exists: it was dropped while dcounter was not preloaded.
 */
void
discard_lost(bool (*exists)(Oid database, void *arg), void *arg)
{
	if (buffer_area == NULL)
		return;
	LWLockAcquire(&buffer_area->lock, LW_EXCLUSIVE);
	for (int i = 0; i < buffer_area->ntables; i++)
	{
		DcBufferTable *table = &buffer_area->tables[i];

		if (OidIsValid(table->database) &&
			pg_atomic_read_u32(&table->restored) == DC_UNRESOLVED &&
			!exists(table->database, arg))
			discard_table(table, true);
	}
	LWLockRelease(&buffer_area->lock);
}

/*
 * discard_check_prepare raises an error if the transaction cannot be prepared: the tables
 * that it truncates would have to be discarded at COMMIT PREPARED, which is not noticed
 * here.
 */
void
discard_check_prepare(void)
{
	for (DcDiscard *discard = discards; discard != NULL; discard = discard->next)
	{
		/* it is locked by now: no slot can be made any longer */
		if (discard->gone || has_slot(discard->database, discard->counter))
			ereport(ERROR,
					(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
					 errmsg("cannot PREPARE a transaction that has truncated or dropped a buffered counter table")));
	}
}

/*
 * Forget the notes: nothing was truncated or dropped. They live in the transaction's memory
 * context.
 */
void
discard_abort(void)
{
	discards = NULL;
}

/*
 * Hand the notes of a subtransaction to its parent. The newest notes are at the front of the list.
 */
void
discard_commit_subxact(int nest)
{
	for (DcDiscard *discard = discards; discard != NULL && discard->nest >= nest;
		 discard = discard->next)
		discard->nest = nest - 1;
}

/*
 * Forget the notes of a subtransaction, which are at the front of the list.
 */
void
discard_abort_subxact(int nest)
{
	while (discards != NULL && discards->nest >= nest)
		discards = discards->next;
}
