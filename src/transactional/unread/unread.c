/*
 * unread.c
 *		dc_mark_read(), dc_mark_read_many(), dc_unread(): how many messages of a key a member has
 *		not read.
 *
 * Copyright (c) 2026, the dcounter developers
 *
 * A counter counts the messages of a channel, once: each is an increment of the channel's key.
 * What a member has read of them is one number, the member's watermark: a row (member, key,
 * seen) of an ordinary table, made when the member marks something read for the first time. A
 * message is one write, however many members will read it.
 *
 *		number(key) = sum of the key's increments + lost(key)
 *		unread		= number - seen, but not below zero, and not more than the key's value
 *
 * Why that is never wrong:
 *
 *	- The number only grows, in every snapshot. Increments add to it, decrements do not matter,
 *	  and dc_set() and dc_reset() change the value by increments and decrements
 *	  (core/counter/set.c). Everything else that takes increments away adds them to lost(key) in
 *	  the same transaction (unreadlost.c): dc_delete(), and a key that starts again.
 *	- A watermark is a number that was read, or less, and only rises. A snapshot that shows it
 *	  shows what its writer had seen: seen <= number. Marks of the same member in any order leave
 *	  the greatest one, so late and double calls are harmless. An increment that was committed
 *	  after a snapshot was taken counts on top of the number in that snapshot, so messages that
 *	  the member cannot have seen stay unread.
 *	- All that a call compares it reads in one snapshot, this transaction's own increments included:
 *	  these are committed, or rolled back, together with the mark, since the mark came after them.
 *	- The value limits the number of unread messages: no more can be unread than there are. So a key
 *	  that was set to 0 has nothing unread for anyone, and the next message is one, for all. Deleted
 *	  messages (decrements) may have been read or not; so the number of unread messages is an upper
 *	  bound with decrements, and exact without.
 *
 * Increments can be lost without a trace: rows that are changed directly, a buffered counter after
 * a crash, an unlogged one. Then a watermark may be above the number. Nothing is unread until the
 * number has reached it again, or the member marks the key: that takes the watermark back to the
 * number (unreadseen.c).
 *
 * Of a buffered counter the amounts in memory are a part of the number; memory has no past, so such
 * a table is read as of now at every isolation level, and watermarks with it. Numbers stop at the
 * end of bigint.
 *
 * Locks: the counter table and this table are locked as unreadopen.c says. Nothing else is locked
 * to read; a mark locks the row that it writes.
 */
#include "postgres.h"

#include "access/detoast.h"
#include "catalog/pg_type.h"
#include "funcapi.h"
#include "miscadmin.h"
#include "utils/builtins.h"
#include "utils/snapmgr.h"

#include "base/args.h"
#include "base/compat.h"
#include "base/hooks.h"
#include "base/key.h"
#include "core/counter/read.h"
#include "core/table/access.h"
#include "core/table/ddlhooks.h"
#include "transactional/unread/unread.h"

PG_FUNCTION_INFO_V1(dc_mark_read);
PG_FUNCTION_INFO_V1(dc_mark_read_many);
PG_FUNCTION_INFO_V1(dc_unread);

/* A key to mark. */
typedef struct DcMark
{
	DcKey key;
	Datum text;
	int64 upto; /* PG_INT64_MAX: all */
} DcMark;

static bool is_unread(Oid relid);
static Datum member_arg(FunctionCallInfo fcinfo, int argno);
static void check_upto(int64 upto);
static DcMark *marks_arg(FunctionCallInfo fcinfo, int *count);
static int mark_compare(const void *a, const void *b);
static int mark_some(DcSeenRel *rel, DcCounter *counter, Datum member, const DcMark *marks, int count, DcSeenChange *change);
static int64 number_of(DcSeenRel *rel, Datum key, const DcSums *sums, bool may_be_lost);
static int64 at_most_bigint(INT128 sum);

/*
 * unread_init sets the hooks of this room; called when the library is loaded.
 */
void
unread_init(void)
{
	static const DcUnreadHooks hooks = {
		.is_unread = is_unread,
		.is_watched = unread_is_watched,
		.tables = unread_tables,
		.lost = unread_lost,
	};

	unread_hooks = &hooks;
	ddl_hook_add(&unread_ddl);
	later_init();
}

/*
 * Return true if a table is an unread table; the hook for other rooms.
 */
static bool
is_unread(Oid relid)
{
	return unread_find(relid) != NULL;
}

/*
 * dc_mark_read(unread regclass, member text|bigint|uuid, key text|bigint|uuid, upto bigint) -> void
 *
 * Marks as read what the statement's snapshot shows of a key, or, with upto, only up to that
 * number, which a dc_unread() has shown. Errors: those of seenrel_open(); 22004 for NULL, 22023 for
 * an empty member or an upto below zero, 54000 for a member or key that is too long.
 */
Datum
dc_mark_read(PG_FUNCTION_ARGS)
{
	Datum member = member_arg(fcinfo, 1);
	DcSeenChange change = {0};
	DcMark mark;
	DcCounter *counter;
	DcSeenRel rel;

	mark.text = key_text_datum(key_arg(fcinfo, 2, &mark.key));
	mark.upto = PG_ARGISNULL(3) ? PG_INT64_MAX : PG_GETARG_INT64(3);
	check_upto(mark.upto);
	counter = seenrel_open(fcinfo, "dc_mark_read()", true, &rel);
	while (mark_some(&rel, counter, member, &mark, 1, &change) == 0)
		;
	seenrel_close(&rel);
	PG_RETURN_VOID();
}

/*
 * dc_mark_read_many(unread regclass, member text|bigint|uuid, keys text[]|bigint[]|uuid[], upto
 * bigint[]) -> void
 *
 * The same for many keys, which may repeat: the numbers of all are read in one snapshot, and the
 * rows locked in the order of the keys, so that two such calls do not wait for each other. NULL for
 * upto means all of each key. Errors: 2202E when the lengths differ.
 */
Datum
dc_mark_read_many(PG_FUNCTION_ARGS)
{
	Datum member = member_arg(fcinfo, 1);
	int count;
	DcMark *marks = marks_arg(fcinfo, &count);
	DcSeenChange change = {0};
	DcSeenRel rel;
	DcCounter *counter = seenrel_open(fcinfo, "dc_mark_read_many()", true, &rel);

	/* those that are left are read again */
	for (int done = 0; done < count;)
		done += mark_some(&rel, counter, member, marks + done, count - done, &change);
	seenrel_close(&rel);
	PG_RETURN_VOID();
}

/*
 * Raise 22023 if a watermark is negative.
 */
static void
check_upto(int64 upto)
{
	if (upto < 0)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("upto must not be negative")));
}

/*
 * marks_arg returns what dc_mark_read_many() is to mark, each key once, in their order.
 */
static DcMark *
marks_arg(FunctionCallInfo fcinfo, int *count)
{
	int nkeys;
	int nupto;
	Datum *keys = key_array_arg(fcinfo, 2, &nkeys, NULL);
	Datum *upto = PG_ARGISNULL(3) ? NULL : array_arg(fcinfo, 3, "upto", "upto", &nupto);
	DcMark *marks = palloc_extended(Max(nkeys, 1) * sizeof(DcMark), MCXT_ALLOC_HUGE);
	int n = 0;

	if (upto != NULL && nupto != nkeys)
		ereport(ERROR,
				(errcode(ERRCODE_ARRAY_SUBSCRIPT_ERROR),
				 errmsg("keys and upto must have the same length"),
				 errdetail("There are %d keys and %d members of upto.", nkeys, nupto)));
	for (int i = 0; i < nkeys; i++)
	{
		CHECK_FOR_INTERRUPTS();
		key_from_text(keys[i], &marks[i].key);
		marks[i].text = keys[i];
		marks[i].upto = upto == NULL ? PG_INT64_MAX : DatumGetInt64(upto[i]);
		check_upto(marks[i].upto);
	}
	qsort(marks, nkeys, sizeof(DcMark), mark_compare);
	for (int i = 0; i < nkeys; i++)
	{
		if (n > 0 && key_compare(&marks[n - 1].key, &marks[i].key) == 0)
			marks[n - 1].upto = Max(marks[n - 1].upto, marks[i].upto);
		else
			marks[n++] = marks[i];
	}
	*count = n;
	return marks;
}

/*
 * Compare two marks by their keys, for qsort().
 */
static int
mark_compare(const void *a, const void *b)
{
	CHECK_FOR_INTERRUPTS(); /* of a long qsort() */
	return key_compare(&((const DcMark *) a)->key, &((const DcMark *) b)->key);
}

/*
 * mark_some reads the numbers of keys, and marks one after the other until the number of one is to
 * be read again. Returns how many it has marked.
 */
static int
mark_some(DcSeenRel *rel, DcCounter *counter, Datum member, const DcMark *marks, int count, DcSeenChange *change)
{
	Datum *keys = palloc_extended(count * sizeof(Datum), MCXT_ALLOC_HUGE);
	DcSums *sums = palloc_extended(count * sizeof(DcSums), MCXT_ALLOC_HUGE);
	MemoryContext caller = CurrentMemoryContext;
	MemoryContext one = AllocSetContextCreate(caller, "dcounter mark", ALLOCSET_SMALL_SIZES);
	bool may_be_lost;
	int snapshots;
	int done = 0;

	for (int i = 0; i < count; i++)
		keys[i] = marks[i].text;
	read_snapshot_push();
	snapshots = counter_sums(counter, keys, count, sums);
	if (counter->foreign)
		change->back = SEEN_NOT_BACK;
	else
		change->back = snapshots > 0 ? SEEN_BACK_AGAIN : SEEN_BACK;
	/* rows of channels are not written here, so reading them once is enough */
	may_be_lost = count == 1 || seen_any(rel, seen_channel());
	while (done < count)
	{
		bool again;

		change->all = number_of(rel, keys[done], &sums[done], may_be_lost);
		change->upto = Min(change->all, marks[done].upto);
		MemoryContextSwitchTo(one);
		again = seen_write(rel, member, keys[done], change);
		MemoryContextSwitchTo(caller);
		MemoryContextReset(one);
		if (again)
			break;
		change->writer = InvalidTransactionId;
		done++;
	}
	MemoryContextDelete(one);
	seenrel_end_reads(rel);
	while (snapshots-- >= 0)
		PopActiveSnapshot();
	pfree(keys);
	pfree(sums);
	return done;
}

/*
 * dc_unread(unread regclass, member text|bigint|uuid, keys text[]|bigint[]|uuid[])
 * -> setof (key text|bigint|uuid, unread bigint, seen bigint, upto bigint)
 *
 * One row for each member of keys, in its order; they may repeat. upto is the number of the key,
 * which marks exactly what is counted here as read.
 */
Datum
dc_unread(PG_FUNCTION_ARGS)
{
	ReturnSetInfo *result = (ReturnSetInfo *) fcinfo->resultinfo;
	Datum member = member_arg(fcinfo, 1);
	DcCounter *counter;
	DcSeenRel rel;
	DcSums *sums;
	Datum *members;
	Datum *keys;
	bool may_be_lost;
	int snapshots;
	int nkeys;

	counter = seenrel_open(fcinfo, "dc_unread()", false, &rel);
	keys = key_array_arg(fcinfo, 2, &nkeys, &members);
	InitMaterializedSRF(fcinfo, 0);
	sums = palloc_extended(Max(nkeys, 1) * sizeof(DcSums), MCXT_ALLOC_HUGE);
	read_snapshot_push();
	snapshots = 1 + counter_sums(counter, keys, nkeys, sums);
	may_be_lost = seen_any(&rel, seen_channel());
	for (int i = 0; i < nkeys; i++)
	{
		int64 number = number_of(&rel, keys[i], &sums[i], may_be_lost);
		int64 seen = seen_read(&rel, member, keys[i]);
		int64 unread = number - Min(seen, number);
		Datum values[4];
		bool nulls[4] = {false};

		CHECK_FOR_INTERRUPTS();
		values[0] = members[i];
		values[1] = Int64GetDatum(Min(unread, at_most_bigint(sums[i].net)));
		values[2] = Int64GetDatum(seen);
		values[3] = Int64GetDatum(number);
		tuplestore_putvalues(result->setResult, result->setDesc, values, nulls);
	}
	seenrel_close(&rel);
	while (snapshots-- > 0)
		PopActiveSnapshot();
	PG_RETURN_NULL();
}

/*
 * member_arg returns a member, as text. The function exists once for each type that it may have: if
 * it shared anycompatible with the key, both would have to be of one type.
 */
static Datum
member_arg(FunctionCallInfo fcinfo, int argno)
{
	Oid type = get_fn_expr_argtype(fcinfo->flinfo, argno);
	DcKey member;

	arg_not_null(fcinfo, argno, "member");
	if (type == TEXTOID)
		check_length("member", toast_raw_datum_size(PG_GETARG_DATUM(argno)) - VARHDRSZ, 0, DC_MAX_KEY_BYTES);
	key_from_value(PG_GETARG_DATUM(argno), type, &member);
	if (member.len == 0)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("member must not be empty"),
				 errdetail("The rows of the member '' are about the channels themselves.")));
	return key_text_datum(&member);
}

/*
 * number_of returns how many increments a key has ever had.
 */
static int64
number_of(DcSeenRel *rel, Datum key, const DcSums *sums, bool may_be_lost)
{
	int64 number = at_most_bigint(sums->inc);
	int64 lost = may_be_lost ? seen_read(rel, seen_channel(), key) : 0;

	return number > PG_INT64_MAX - lost ? PG_INT64_MAX : number + lost;
}

/*
 * at_most_bigint returns a sum, between 0 and the end of bigint.
 */
static int64
at_most_bigint(INT128 sum)
{
	int64 value;

	if (!sums_fit(sum, &value))
		return int128_compare(sum, int64_to_int128(0)) > 0 ? PG_INT64_MAX : 0;
	return Max(value, 0);
}
