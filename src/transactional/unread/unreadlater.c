/*
 * unreadlater.c
 *		Changes of rows that this transaction's snapshot does not show as they are.
 *
 * Copyright (c) 2026, the dcounter developers
 *
 * Under REPEATABLE READ and SERIALIZABLE a row may have been changed since the snapshot was
 * taken. An UPDATE fails then with 40001. For a watermark there is no reason to: the greater
 * number stays, whichever transaction comes first. But a version that replaces one that the
 * snapshot does not show would be shown beside the one that it does show, and reveal marks that
 * other sessions have made in the meantime. So such changes wait until the transaction commits, or
 * is prepared, when it no longer reads. Until then its own reads are what the snapshot shows, and
 * its own changes on top (later_apply), as if the others came afterwards. TRUNCATE of the counter
 * writes them at once: they are about increments that it takes away (unreadlost.c). It may be
 * rolled back to a savepoint, and then they wait again.
 *
 * All is private to the backend. Changes are in TopTransactionContext, the newest first, each with
 * the nesting level of its subtransaction: rolling that back removes it. The lock on the table is
 * held as long as the change waits, as both belong to that subtransaction. Those of a row are found
 * by its hash.
 */
#include "postgres.h"

#include "access/xact.h"
#include "common/hashfn.h"
#include "miscadmin.h"
#include "utils/builtins.h"
#include "utils/datum.h"
#include "utils/memutils.h"

#include "base/xactrooms.h"
#include "transactional/unread/unread.h"

#define LATER_CHAINS 256

typedef struct DcLater
{
	struct DcLater *next;
	struct DcLater *next_in_chain;
	uint32 chain;
	int level;	 /* of the subtransaction that wants it, */
	int written; /* and of the one that has made it, or 0 */
	Oid relid;
	Datum member;
	Datum key;
	DcSeenChange change;
} DcLater;

/* In TopTransactionContext; unreadlater_xact_callback forgets it at each end. */
static DcLater *later = NULL;
static DcLater *chains[LATER_CHAINS]; /* newest first, too */
static bool was_written = false;	  /* some changes may have been written early */

static bool unreadlater_is_idle(void);
static void unreadlater_xact_callback(XactEvent event, void *arg);
static void unreadlater_subxact_callback(SubXactEvent event, SubTransactionId mine, SubTransactionId parent, void *arg);
static uint32 chain_of(Datum member, Datum key);
static bool unreadlater_same_text(Datum a, Datum b);

/*
 * later_init registers the callbacks for the end of transactions; called when the library is
 * loaded.
 */
void
later_init(void)
{
	xact_room_add(DC_XACT_UNREAD, unreadlater_xact_callback, unreadlater_subxact_callback, unreadlater_is_idle);
}

/*
 * later_add leaves a change to the end of the transaction.
 */
void
later_add(Oid relid, Datum member, Datum key, const DcSeenChange *change)
{
	MemoryContext old = MemoryContextSwitchTo(TopTransactionContext);
	DcLater *entry = palloc(sizeof(DcLater));

	*entry = (DcLater){
		.next = later,
		.chain = chain_of(member, key),
		.level = GetCurrentTransactionNestLevel(),
		.relid = relid,
		.member = datumCopy(member, false, -1),
		.key = datumCopy(key, false, -1),
		.change = *change,
	};
	entry->next_in_chain = chains[entry->chain];
	chains[entry->chain] = entry;
	xact_mark(DC_XACT_UNREAD);
	later = entry;
	MemoryContextSwitchTo(old);
	/* another module may run SQL in a callback of its own, after ours */
	if (xact_has_passed(DC_XACT_UNREAD))
		later_write();
}

/*
 * later_apply returns a number with the changes that wait. A row has changes of one kind.
 */
int64
later_apply(Oid relid, Datum member, Datum key, int64 seen)
{
	if (later == NULL)
		return seen;
	for (DcLater *entry = chains[chain_of(member, key)]; entry != NULL; entry = entry->next_in_chain)
	{
		if (entry->relid == relid && entry->written == 0 &&
			unreadlater_same_text(entry->member, member) && unreadlater_same_text(entry->key, key))
			seen = seen_changed(&entry->change, seen);
	}
	return seen;
}

/*
 * Return true if any change of a table waits.
 */
bool
later_any(Oid relid)
{
	for (DcLater *entry = later; entry != NULL; entry = entry->next)
	{
		if (entry->relid == relid)
			return true;
	}
	return false;
}

/*
 * Return true if changes were made before the end of the transaction. Then its snapshot may show
 * two versions of a row.
 */
bool
later_was_written(void)
{
	return was_written;
}

/*
 * Return the number of the hash chain for a row.
 */
static uint32
chain_of(Datum member_text, Datum key_text)
{
	struct varlena *member = (struct varlena *) DatumGetPointer(member_text);
	struct varlena *key = (struct varlena *) DatumGetPointer(key_text);
	uint32 hash = hash_bytes((unsigned char *) VARDATA_ANY(member), VARSIZE_ANY_EXHDR(member));

	return hash_combine(hash, hash_bytes((unsigned char *) VARDATA_ANY(key), VARSIZE_ANY_EXHDR(key))) % LATER_CHAINS;
}

/*
 * Return true if two texts have the same bytes.
 */
static bool
unreadlater_same_text(Datum a_text, Datum b_text)
{
	struct varlena *a = (struct varlena *) DatumGetPointer(a_text);
	struct varlena *b = (struct varlena *) DatumGetPointer(b_text);

	return VARSIZE_ANY_EXHDR(a) == VARSIZE_ANY_EXHDR(b) &&
		memcmp(VARDATA_ANY(a), VARDATA_ANY(b), VARSIZE_ANY_EXHDR(a)) == 0;
}

/*
 * Return true if nothing is left of a transaction, so that its callbacks need not be called.
 */
static bool
unreadlater_is_idle(void)
{
	return later == NULL && !was_written;
}

/*
 * Write the waiting changes before the transaction commits or is prepared, and forget them when
 * it ends.
 */
static void
unreadlater_xact_callback(XactEvent event, void *arg)
{
	switch (event)
	{
		case XACT_EVENT_PRE_COMMIT:
		case XACT_EVENT_PRE_PREPARE:
			later_write();
			break;
		case XACT_EVENT_COMMIT:
		case XACT_EVENT_ABORT:
		case XACT_EVENT_PREPARE:
			if (later != NULL)
				memset(chains, 0, sizeof(chains));
			later = NULL;
			was_written = false;
			break;
		default:
			break;
	}
}

/*
 * Keep or remove the changes of a subtransaction that ends. Those that it had written early
 * wait again if it is rolled back. Must not throw.
 */
static void
unreadlater_subxact_callback(SubXactEvent event, SubTransactionId mine, SubTransactionId parent, void *arg)
{
	int level = GetCurrentTransactionNestLevel();

	if (event == SUBXACT_EVENT_ABORT_SUB)
	{
		for (; later != NULL && later->level >= level; later = later->next)
			chains[later->chain] = later->next_in_chain;
		for (DcLater *entry = later; was_written && entry != NULL; entry = entry->next)
		{
			if (entry->written >= level)
				entry->written = 0;
		}
	}
	else if (event == SUBXACT_EVENT_COMMIT_SUB)
	{
		for (DcLater *entry = later; entry != NULL && entry->level >= level; entry = entry->next)
			entry->level = level - 1;
		for (DcLater *entry = later; was_written && entry != NULL; entry = entry->next)
			entry->written = Min(entry->written, level - 1);
	}
}

/*
 * later_write makes the changes, in the order in which they came. Tables that this transaction has
 * dropped since are skipped.
 */
void
later_write(void)
{
	DcLater **waiting;
	int n = 0;
	int i;

	for (DcLater *entry = later; entry != NULL; entry = entry->next)
		n += entry->written == 0;
	if (n == 0)
		return;
	xact_mark(DC_XACT_UNREAD);
	was_written = true;
	waiting = palloc_extended(n * sizeof(DcLater *), MCXT_ALLOC_HUGE);
	i = n;
	for (DcLater *entry = later; entry != NULL; entry = entry->next)
	{
		if (entry->written == 0)
			waiting[--i] = entry;
	}
	for (; i < n; i++)
	{
		DcSeenRel rel;

		CHECK_FOR_INTERRUPTS();
		waiting[i]->written = GetCurrentTransactionNestLevel();
		if (!seenrel_open_again(waiting[i]->relid, &rel))
			continue;
		seen_write_now(&rel, waiting[i]->member, waiting[i]->key, &waiting[i]->change);
		seenrel_close(&rel);
	}
	pfree(waiting);
}
