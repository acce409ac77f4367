/*
 * combine.c
 *		Increments of several sessions in one statement.
 *
 * To a table that Citus distributes, an increment that is all of its transaction is written by one statement, which
 * commits by itself on the worker (table/distribution.c). Such statements cost the processors of two servers much more
 * than the increments are worth. So of one key only one is on its way at a time. Sessions that come meanwhile
 * queue up, and then one of them, the leader, writes the sum of all that are waiting, the group.
 *
 * Protocol. A queue is in shared memory, for the key that its leader has. A session
 *
 *	1. finds no leader, and becomes that; or it finds one of the same key, enters its amounts, and sleeps;
 *	   or one of another key, or one that has been at it for long: then it writes by itself;
 *	2. as the leader, takes all that are waiting out of the queue: they are its group, and cannot leave any more;
 *	3. writes the sum, which commits it;
 *	4. tells its group that it is written, and the first one of those that are waiting now to be the leader.
 *
 * All states change under the lock of the queue, which is held for no more than that.
 *
 * What is promised for a lone increment holds for all of a group. Either the statement commits, and then each of them
 * returns from its commit only after that, and has nothing left to do that could fail: it may not be
 * canceled from when it has come here on, and not be terminated while it is in a group. Or it fails, and then each of them
 * fails, with the leader's error: whether the statement has committed may not be known, so nobody may
 * try again. But if it is certain that it has not, and why concerns the sum (22003), each but the leader writes by itself instead.
 * A leader that ends in any other way (it is terminated) fails its group as it aborts. If it is killed, the server
 * starts anew, with all its sessions. Who waits in the queue and is terminated leaves it, or hands the lead on.
 *
 * Where the coordinator has the shard itself, Citus makes the statement a part of the leader's transaction. Then the group is
 * told when that has been committed, and is as durable as the leader makes it; so sessions with another synchronous_commit do
 * not join, and each waits for the standby itself. Transactions of several statements do not come here: blocks, nor what Citus
 * takes for one, as a DO block.
 *
 * All of a group have the tables locked, and write as their owner, so it does not matter who is the leader.
 *
 * Waiting. No deadlock detector sees that a session waits here. So the leader of a group waits for no row: it adds to a shard
 * row that is free, or to a new one, and not to the row of totals (sql_add_for_many). It waits for what any statement of
 * Citus waits for, as a shard that is being moved. Code of the owner that runs here with the statement (a column's default) may
 * read a table that one of the group has locked, too: if somebody wants to alter that table, all wait until he gives up. Who has
 * waited in the queue for PATIENCE_MS leaves it and writes by itself, as does who comes while a leader has been at it for so long.
 *
 * Without shared memory each writes by itself.
 */
#include "postgres.h"

#include "access/xact.h"
#include "access/xlog.h"
#include "base/clock.h"
#include "base/compat.h"
#include "base/shmem.h"
#include "base/xactrooms.h"
#include "counter/combine.h"
#include "mb/pg_wchar.h"
#include "miscadmin.h"
#include "replication/syncrep.h"
#include "storage/latch.h"
#include "storage/proc.h"
#include "storage/procsignal.h"
#include "table/distribution.h"

#define QUEUES 64

/* Longer keys, and greater amounts, are written by themselves. The sum of all sessions' amounts is a bigint. */
#define MAX_KEY 128
#define MAX_AMOUNT (INT64CONST(1) << 40)

/* How long to wait for a leader. */
#define PATIENCE_MS 100

#define NOBODY (-1)

typedef enum DcCombineState
{
	COMBINE_NOT, /* not here */
	COMBINE_QUEUED,
	COMBINE_LEADS,
	COMBINE_TAKEN, /* is in a group, of which becomes one of these: */
	COMBINE_WRITTEN,
	COMBINE_FAILED,
	COMBINE_BY_ITSELF /* is to write, as nothing was written */
} DcCombineState;

/* What a session waits with: in shared memory, by its number. */
typedef struct DcRequest
{
	pg_atomic_uint32 state; /* DcCombineState */
	PGPROC *proc;
	int64 inc;
	int64 dec;
	int next;		/* in the queue, or in the group */
	XLogRecPtr end; /* of the commit, if it is one of this server */
	int errorcode;	/* why it has failed */
	char error[160];
} DcRequest;

typedef struct DcQueue
{
	LWLock lock;
	int leader; /* its session's number, or NOBODY; */
	DcMoment since;
	int durability; /* its synchronous_commit */
	Oid database;	/* its key */
	Oid counter;
	uint32 len;
	char data[MAX_KEY];
	int first; /* who waits */
	int last;
} DcQueue;

typedef struct DcCombining
{
	DcQueue queues[QUEUES];
	DcRequest requests[FLEXIBLE_ARRAY_MEMBER];
} DcCombining;

/* In shared memory, or NULL. */
static DcCombining *combining = NULL;

/* The queue that this session is in, or leads, or NULL; and the group that it leads. */
static DcQueue *my_queue = NULL;
static int my_group = NOBODY;

/* Looked up before it is needed where nothing may throw. */
static uint32 wait_event = 0;

static Size combining_size(void);
static void combining_init(void *area);
static bool may_combine(const DcDelta *delta);
static DcQueue *queue_of(const DcDeltaKey *key);
static bool is_key_of(const DcQueue *queue, const DcDeltaKey *key);
static bool join(const DcDelta *delta);
static DcCombineState await(void);
static bool leave_queue(void);
static void remove_waiting(DcQueue *queue, int me);
static void lead(const DcDelta *delta, DcCombinedWrite write, void *arg);
static bool take_group(DcDelta *sum);
static void end_lead(DcCombineState result, int errorcode, const char *error);
static void hand_on(DcQueue *queue);
static void tell(int session, DcCombineState state);
static void wait_for_standby(XLogRecPtr end);
static DcRequest *my_request(void);

/*
 * combine_init asks for the shared memory; called once, at preload.
 */
void
combine_init(void)
{
	shmem_add_sized("dcounter combining", combining_size, (void **) &combining, combining_init);
}

static Size
combining_size(void)
{
	return add_size(offsetof(DcCombining, requests), mul_size(MaxBackends + 1, sizeof(DcRequest)));
}

static void
combining_init(void *area)
{
	DcCombining *init = area;

	for (int i = 0; i < QUEUES; i++)
	{
		shmem_init_lock(&init->queues[i].lock);
		init->queues[i].leader = init->queues[i].first = init->queues[i].last = NOBODY;
	}
	for (int i = 0; i <= MaxBackends; i++)
		pg_atomic_init_u32(&init->requests[i].state, COMBINE_NOT);
}

/*
 * combine_add writes a delta, which is all of its transaction, by `write`, in this session or in another one.
 */
void
combine_add(const DcDelta *delta, DcCombinedWrite write, void *arg)
{
	if (wait_event == 0)
		wait_event = compat_wait_event("DcounterCombine");
	if (!may_combine(delta) || !join(delta))
	{
		write(arg, delta, false);
		return;
	}
	switch (await())
	{
		case COMBINE_WRITTEN:
			wait_for_standby(my_request()->end);
			break;
		case COMBINE_LEADS:
			lead(delta, write, arg);
			break;
		case COMBINE_FAILED:
			ereport(ERROR,
					(errcode(my_request()->errorcode),
					 errmsg("another session could not write this increment together with its own: %s", my_request()->error)));
			break;
		default:
			write(arg, delta, false);
			break;
	}
}

/*
 * combine_commit is called when a transaction has been committed.
 */
void
combine_commit(void)
{
	if (my_queue == NULL)
		return;
	for (int i = my_group; i != NOBODY; i = combining->requests[i].next)
		combining->requests[i].end = XactLastCommitEnd;
	end_lead(COMBINE_WRITTEN, 0, "");
}

/*
 * combine_abort is called when a transaction has been aborted. One that is in a group waits until that is done. A leader
 * that has not told its group anything does not know more than that.
 */
void
combine_abort(void)
{
	if (my_queue == NULL || leave_queue() || await() != COMBINE_LEADS)
		return;
	end_lead(COMBINE_FAILED, ERRCODE_TRANSACTION_RESOLUTION_UNKNOWN, "it has ended, and whether it has written is not known");
}

static bool
may_combine(const DcDelta *delta)
{
	return combining != NULL && my_queue == NULL && delta->key.len <= MAX_KEY && delta->inc <= MAX_AMOUNT &&
		delta->dec <= MAX_AMOUNT && !distribution_in_block();
}

static DcQueue *
queue_of(const DcDeltaKey *key)
{
	return &combining->queues[hash_combine(delta_key_hash(key), murmurhash32(MyDatabaseId)) % QUEUES];
}

static bool
is_key_of(const DcQueue *queue, const DcDeltaKey *key)
{
	return queue->durability == synchronous_commit && queue->database == MyDatabaseId &&
		queue->counter == key->counter && queue->len == key->len &&
		memcmp(queue->data, key->data, key->len) == 0;
}

/*
 * join makes this session the leader of its key, or lets it wait for that one; false if neither can be.
 */
static bool
join(const DcDelta *delta)
{
	DcQueue *queue = queue_of(&delta->key);
	DcRequest *request = my_request();
	int me = compat_backend_number();
	bool joined = true;

	LWLockAcquire(&queue->lock, LW_EXCLUSIVE);
	request->proc = MyProc;
	request->inc = delta->inc;
	request->dec = delta->dec;
	request->next = NOBODY;
	request->end = InvalidXLogRecPtr;
	if (queue->leader == NOBODY)
	{
		queue->leader = me;
		queue->since = moment_now();
		queue->durability = synchronous_commit;
		queue->database = MyDatabaseId;
		queue->counter = delta->key.counter;
		queue->len = delta->key.len;
		memcpy(queue->data, delta->key.data, delta->key.len);
		pg_atomic_write_u32(&request->state, COMBINE_LEADS);
	}
	else if (is_key_of(queue, &delta->key) && moment_age(queue->since) < PATIENCE_MS * INT64CONST(1000))
	{
		if (queue->last == NOBODY)
			queue->first = me;
		else
			combining->requests[queue->last].next = me;
		queue->last = me;
		pg_atomic_write_u32(&request->state, COMBINE_QUEUED);
	}
	else
		joined = false;
	if (joined)
	{
		xact_mark(DC_XACT_COUNTER);
		my_queue = queue;
	}
	LWLockRelease(&queue->lock);
	return joined;
}

/*
 * await sleeps until this session leads, or knows what has become of its increment. It cannot be ended while it is in a
 * group.
 */
static DcCombineState
await(void)
{
	DcRequest *request = my_request();
	DcMoment late = moment_in(PATIENCE_MS);
	DcCombineState state;

	for (;;)
	{
		long timeout;

		ResetLatch(MyLatch);
		state = pg_atomic_read_u32(&request->state);
		if (state != COMBINE_QUEUED && state != COMBINE_TAKEN)
			break;
		if (state == COMBINE_QUEUED)
			CHECK_FOR_INTERRUPTS();
		if (state == COMBINE_QUEUED && moment_is_reached(late) && leave_queue())
			return COMBINE_BY_ITSELF;
		if (ProcSignalBarrierPending)
			ProcessProcSignalBarrier();
		timeout = state == COMBINE_TAKEN ? 1000 : Max(moment_ms_left(late), 1);
		(void) WaitLatch(MyLatch, WL_LATCH_SET | WL_TIMEOUT | WL_EXIT_ON_PM_DEATH, timeout, wait_event);
	}
	pg_read_barrier();
	/* the latch may have been set for others, too */
	SetLatch(MyLatch);
	if (state != COMBINE_LEADS)
	{
		my_queue = NULL;
		pg_atomic_write_u32(&request->state, COMBINE_NOT);
	}
	return state;
}

/*
 * leave_queue takes this session out of the queue; false if it is not there any more, as it leads or is in a group.
 */
static bool
leave_queue(void)
{
	DcRequest *request = my_request();
	DcCombineState state;

	LWLockAcquire(&my_queue->lock, LW_EXCLUSIVE);
	state = pg_atomic_read_u32(&request->state);
	if (state == COMBINE_QUEUED)
	{
		remove_waiting(my_queue, compat_backend_number());
		pg_atomic_write_u32(&request->state, COMBINE_NOT);
	}
	LWLockRelease(&my_queue->lock);
	if (state == COMBINE_QUEUED)
		my_queue = NULL;
	return state == COMBINE_QUEUED;
}

static void
remove_waiting(DcQueue *queue, int me)
{
	int before = NOBODY;

	for (int i = queue->first; i != me; i = combining->requests[i].next)
		before = i;
	if (before == NOBODY)
		queue->first = combining->requests[me].next;
	else
		combining->requests[before].next = combining->requests[me].next;
	if (queue->last == me)
		queue->last = before;
}

/*
 * lead writes the amounts of all who are waiting, with ours.
 */
static void
lead(const DcDelta *delta, DcCombinedWrite write, void *arg)
{
	DcDelta sum = *delta;
	bool many = take_group(&sum);

	PG_TRY();
	{
		write(arg, &sum, many);
	}
	PG_CATCH();
	{
		MemoryContext old = MemoryContextSwitchTo(TopTransactionContext);
		ErrorData *error = CopyErrorData();

		end_lead(error->sqlerrcode == ERRCODE_NUMERIC_VALUE_OUT_OF_RANGE ? COMBINE_BY_ITSELF : COMBINE_FAILED,
				 error->sqlerrcode, error->message != NULL ? error->message : "");
		MemoryContextSwitchTo(old);
		PG_RE_THROW();
	}
	PG_END_TRY();
	if (distribution_has_committed())
		end_lead(COMBINE_WRITTEN, 0, "");
}

/*
 * take_group takes all who are waiting, and adds what they have; false if nobody is.
 */
static bool
take_group(DcDelta *sum)
{
	LWLockAcquire(&my_queue->lock, LW_EXCLUSIVE);
	my_queue->since = moment_now();
	my_group = my_queue->first;
	my_queue->first = my_queue->last = NOBODY;
	for (int i = my_group; i != NOBODY; i = combining->requests[i].next)
	{
		sum->inc += combining->requests[i].inc;
		sum->dec += combining->requests[i].dec;
		pg_atomic_write_u32(&combining->requests[i].state, COMBINE_TAKEN);
	}
	LWLockRelease(&my_queue->lock);
	return my_group != NOBODY;
}

/*
 * end_lead tells the group what has become of it, and hands the lead on. Must not throw. A message that is too long is cut between
 * two characters.
 */
static void
end_lead(DcCombineState result, int errorcode, const char *error)
{
	DcQueue *queue = my_queue;
	int len = pg_mbcliplen(error, strlen(error), sizeof(my_request()->error) - 1);
	int next;

	LWLockAcquire(&queue->lock, LW_EXCLUSIVE);
	for (int i = my_group; i != NOBODY; i = next)
	{
		DcRequest *request = &combining->requests[i];

		next = request->next;
		request->errorcode = errorcode;
		memcpy(request->error, error, len);
		request->error[len] = '\0';
		tell(i, result);
	}
	hand_on(queue);
	pg_atomic_write_u32(&my_request()->state, COMBINE_NOT);
	LWLockRelease(&queue->lock);
	my_group = NOBODY;
	my_queue = NULL;
}

/*
 * hand_on makes the first who is waiting the leader.
 */
static void
hand_on(DcQueue *queue)
{
	int heir = queue->first;

	queue->leader = heir;
	queue->since = moment_now();
	if (heir == NOBODY)
		return;
	remove_waiting(queue, heir);
	tell(heir, COMBINE_LEADS);
}

/*
 * tell sets the state of a session that sleeps, and wakes it. After that its place may be in use for something else.
 */
static void
tell(int session, DcCombineState state)
{
	DcRequest *request = &combining->requests[session];
	PGPROC *proc = request->proc;

	pg_write_barrier();
	pg_atomic_write_u32(&request->state, state);
	SetLatch(&proc->procLatch);
}

/*
 * wait_for_standby waits as a commit does, if there was one: the leader may have been told not to.
 */
static void
wait_for_standby(XLogRecPtr end)
{
	ErrorContextCallback *context = error_context_stack;

	if (XLogRecPtrIsInvalid(end))
		return;
	/* it may warn: not with names of users, which may fail although the increment is committed */
	error_context_stack = NULL;
	HOLD_INTERRUPTS();
	SyncRepWaitForLSN(end, true);
	RESUME_INTERRUPTS();
	error_context_stack = context;
}

static DcRequest *
my_request(void)
{
	return &combining->requests[compat_backend_number()];
}
