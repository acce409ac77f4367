/*
 * unreadlater.c
 *		Changes of rows that this transaction's snapshot does not show as they are.
 *
 * Under REPEATABLE READ and SERIALIZABLE a row may have been changed since the snapshot was taken. An UPDATE fails
 * then with 40001. For a watermark there is no reason to: the greater number stays, whoever comes first. But a
 * version that replaces one that the snapshot does not show would be shown beside the one that it does
 * show, and tell what others have marked meanwhile. So such changes wait until the transaction commits, or is
 * prepared, when it reads no more. Until then its own reads are what the snapshot shows, and its own changes
 * on top (later_apply), as if the others came afterwards. TRUNCATE of the counter does not leave them for later: they are of
 * what it takes away (unreadlost.c).
 *
 * All is private to the backend. Changes are in TopTransactionContext, the newest first, each with the nesting level
 * of its subtransaction: rolling that back removes it. The lock on the table is held as long as the
 * change waits, as both belong to that subtransaction.
 */
#include "postgres.h"

#include "access/xact.h"
#include "unread/unread.h"
#include "utils/builtins.h"
#include "utils/datum.h"
#include "utils/memutils.h"

typedef struct DcLater
{
	struct DcLater *next;
	int level;
	Oid relid;
	Datum member;
	Datum key;
	DcSeenChange change;
} DcLater;

/* In TopTransactionContext; xact_callback forgets it at each end. */
static DcLater *later = NULL;

static void xact_callback(XactEvent event, void *arg);
static void subxact_callback(SubXactEvent event, SubTransactionId mine, SubTransactionId parent, void *arg);
static bool same_text(Datum a, Datum b);

/*
 * later_init is called when the library is loaded.
 */
void
later_init(void)
{
	RegisterXactCallback(xact_callback, NULL);
	RegisterSubXactCallback(subxact_callback, NULL);
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
		.level = GetCurrentTransactionNestLevel(),
		.relid = relid,
		.member = datumCopy(member, false, -1),
		.key = datumCopy(key, false, -1),
		.change = *change,
	};
	later = entry;
	MemoryContextSwitchTo(old);
}

/*
 * later_apply returns a number with the changes that wait. A row has changes of one kind.
 */
int64
later_apply(Oid relid, Datum member, Datum key, int64 seen)
{
	for (DcLater *entry = later; entry != NULL; entry = entry->next)
	{
		if (entry->relid == relid && same_text(entry->member, member) && same_text(entry->key, key))
			seen = seen_changed(&entry->change, seen);
	}
	return seen;
}

/*
 * later_any tells whether any change of a table waits.
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

static bool
same_text(Datum a, Datum b)
{
	return VARSIZE_ANY_EXHDR(a) == VARSIZE_ANY_EXHDR(b) &&
		memcmp(VARDATA_ANY(a), VARDATA_ANY(b), VARSIZE_ANY_EXHDR(a)) == 0;
}

static void
xact_callback(XactEvent event, void *arg)
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
			later = NULL;
			break;
		default:
			break;
	}
}

static void
subxact_callback(SubXactEvent event, SubTransactionId mine, SubTransactionId parent, void *arg)
{
	int level = GetCurrentTransactionNestLevel();

	if (event == SUBXACT_EVENT_ABORT_SUB)
	{
		while (later != NULL && later->level >= level)
			later = later->next;
	}
	else if (event == SUBXACT_EVENT_COMMIT_SUB)
	{
		for (DcLater *entry = later; entry != NULL && entry->level >= level; entry = entry->next)
			entry->level = level - 1;
	}
}

/*
 * later_write makes the changes, in the order in which they came. Tables that this transaction has dropped since
 * are passed over.
 */
void
later_write(void)
{
	DcLater *first = NULL;

	while (later != NULL)
	{
		DcLater *next = later->next;

		later->next = first;
		first = later;
		later = next;
	}
	for (; first != NULL; first = first->next)
	{
		DcSeenRel rel;

		if (!seenrel_open_again(first->relid, &rel))
			continue;
		seen_write_now(&rel, first->member, first->key, &first->change);
		seenrel_close(&rel);
	}
}
