/*
 * activity.c
 *		Noting the counter tables that may have work for the worker's jobs.
 *
 * Copyright (c) 2026, the dcounter developers
 *
 * A transaction that writes shard rows, or anything else that a job looks for, notes the
 * counter table, and publishes that when it has ended. A job collects what was published for a
 * table before it looks at it, and leaves the table alone until that differs. So for an idle table
 * the worker only reads shared memory.
 *
 * What was published is a number in an array, at the place that the hash of database and table
 * gives. An even number: nothing was published since it was last collected. A publisher makes
 * it odd, if it is even; a collector makes it even again, and remembers the number. Tables that
 * share a place, and several collectors, do no harm: each compares with the number that it has
 * remembered, so at worst a job looks once too often. A busy table costs two changes of its
 * place for each round of a job, not one for each commit.
 *
 * Nothing is missed, in this order:
 *
 *		writer:		1. is visible (committed)	2. barrier	3. reads the number
 *		collector:	1. changes the number		2. barrier	3. takes a snapshot
 *
 * If the writer finds an odd number and leaves it, that was before it was changed, and so
 * the snapshot has the commit. If it finds an even one it makes it odd, which the next
 * comparison shows. That is why a transaction publishes when it has ended, and not
 * before its commit. It also publishes when it is rolled back: a job may have skipped a row that it
 * had locked.
 *
 * Not published are rows that are not written by the extension's functions (but by SQL or a
 * restore), and changes of a session that is killed: then shared memory is reinitialized, and the
 * workers are restarted, too. A transaction that is prepared publishes nothing, and COMMIT
 * PREPARED, which does not know the tables, publishes that all may have changed. So this is a hint,
 * and jobs look at each table now and then in any case (core/table/tabledue.c).
 *
 * It is in shared memory, so it is not known without preload: then nothing is noted, and
 * jobs look at each table each time.
 */
#include "postgres.h"

#include "access/xact.h"
#include "common/hashfn.h"
#include "miscadmin.h"

#include "base/activity.h"
#include "base/shmem.h"
#include "base/xactrooms.h"

/* A power of two. */
#define PLACES 16384

/* Tables that a transaction notes by name. With more of them, all may have changed. */
#define MAX_NOTED 32

typedef struct DcActivityPlace
{
	pg_atomic_uint32 number; /* odd: published since it was collected, */
	pg_atomic_uint64 since;	 /* DcMoment: when */
} DcActivityPlace;

static DcActivityPlace *places = NULL; /* in shared memory */

/* The function that tells the launcher that a number has become odd. */
static void (*wake_launcher)(void) = NULL;

/* Of this transaction; emptied when it ends. */
static Oid noted[MAX_NOTED];
static int nnoted = 0;

static void places_init(void *area);
static DcActivityPlace *activity_place_of(Oid database, Oid what);
static bool activity_publish(Oid what);
static bool activity_is_idle(void);
static void activity_xact_callback(XactEvent event, void *arg);

/*
 * activity_init asks for the shared memory; called once, at preload.
 */
void
activity_init(void)
{
	shmem_add("dcounter activity", PLACES * sizeof(DcActivityPlace), (void **) &places, places_init);
	xact_room_add(DC_XACT_ACTIVITY, activity_xact_callback, NULL, activity_is_idle);
}

/*
 * Initialize the places: nothing was published.
 */
static void
places_init(void *area)
{
	for (int i = 0; i < PLACES; i++)
	{
		pg_atomic_init_u32(&((DcActivityPlace *) area)[i].number, 0);
		pg_atomic_init_u64(&((DcActivityPlace *) area)[i].since, 0);
	}
}

/*
 * activity_set_wake sets the function that wakes the launcher when it may have to act.
 */
void
activity_set_wake(void (*wake)(void))
{
	wake_launcher = wake;
}

/*
 * Return true if sessions publish what they change.
 */
bool
activity_is_known(void)
{
	return places != NULL;
}

/*
 * activity_note notes that this transaction changes something in or about a counter table,
 * or another thing of its database.
 */
void
activity_note(Oid what)
{
	if (places == NULL)
		return;
	for (int i = nnoted - 1; i >= 0; i--)
	{
		if (noted[i] == what)
			return;
	}
	xact_mark(DC_XACT_ACTIVITY);
	if (nnoted == MAX_NOTED)
	{
		nnoted = 0;
		noted[nnoted++] = DC_ACTIVITY_THINGS; /* changes of that kind may be among them */
		noted[nnoted++] = DC_ACTIVITY_ALL;
	}
	else if (nnoted < 2 || noted[1] != DC_ACTIVITY_ALL)
		noted[nnoted++] = what;
}

/*
 * activity_forget forgets what this transaction has noted. It is a step of a job, which would
 * otherwise find its own changes.
 */
void
activity_forget(void)
{
	nnoted = 0;
}

/*
 * activity_note_at_once publishes something that is visible already. Must not throw.
 */
void
activity_note_at_once(Oid what)
{
	bool news;

	if (places == NULL)
		return;
	news = activity_publish(what);
	news |= activity_publish(DC_ACTIVITY_ANY);
	if (news && wake_launcher != NULL)
		wake_launcher();
}

/*
 * activity_collect returns the number to compare with later. The caller's next snapshot
 * has all that was published before.
 */
uint32
activity_collect(Oid database, Oid what)
{
	pg_atomic_uint32 *number;
	uint32 now;

	if (places == NULL)
		return 0;
	number = &activity_place_of(database, what)->number;
	now = pg_atomic_read_u32(number);
	while (now % 2 == 1 && !pg_atomic_compare_exchange_u32(number, &now, now + 1))
		;
	pg_memory_barrier();
	return now + now % 2;
}

/*
 * Return true if something was published since a number was collected.
 */
bool
activity_differs(Oid database, Oid what, uint32 collected)
{
	return places == NULL || pg_atomic_read_u32(&activity_place_of(database, what)->number) != collected;
}

/*
 * activity_since returns since when there is something to collect, DC_NEVER if there is
 * nothing, and DC_LONG_AGO if that is not known.
 */
DcMoment
activity_since(Oid database, Oid what)
{
	DcActivityPlace *place;

	if (places == NULL)
		return DC_LONG_AGO;
	place = activity_place_of(database, what);
	return pg_atomic_read_u32(&place->number) % 2 == 1 ? moment_read(&place->since) : DC_NEVER;
}

/*
 * Return the place for a table (or another thing) of a database.
 */
static DcActivityPlace *
activity_place_of(Oid database, Oid what)
{
	return &places[hash_combine(murmurhash32(database), murmurhash32(what)) % PLACES];
}

/*
 * activity_publish makes a number odd; true if it was even, and it is one that the launcher looks
 * at.
 */
static bool
activity_publish(Oid what)
{
	DcActivityPlace *place = activity_place_of(MyDatabaseId, what);
	uint32 now;

	pg_memory_barrier();
	now = pg_atomic_read_u32(&place->number);
	if (now % 2 == 1)
		return false;
	moment_write(&place->since, moment_now());
	/* if another has made it odd in the meantime, that may have been collected: look again */
	while (now % 2 == 0 && !pg_atomic_compare_exchange_u32(&place->number, &now, now + 1))
		;
	return what == DC_ACTIVITY_ANY || what == DC_ACTIVITY_THINGS;
}

/*
 * Return true if this transaction has noted nothing.
 */
static bool
activity_is_idle(void)
{
	return nnoted == 0;
}

/*
 * Publish what the transaction has noted, when it has ended. Must not throw.
 */
static void
activity_xact_callback(XactEvent event, void *arg)
{
	if (event != XACT_EVENT_COMMIT && event != XACT_EVENT_ABORT && event != XACT_EVENT_PREPARE)
		return;
	for (int i = 0; i < nnoted && event != XACT_EVENT_PREPARE; i++)
		activity_note_at_once(noted[i]);
	nnoted = 0;
}
