/*
 * unread.c
 *		dc_mark_read(), dc_unread(): how much of a key a member has not read.
 *
 * A counter counts the messages of a channel, once: each is an increment of the channel's key. What a member has read of
 * them is one number, his watermark: a row (member, key, seen) of an ordinary table, made when he marks
 * something read for the first time. A message is one write, whoever is to read it.
 *
 *		number(key) = sum of the key's increments + lost(key)
 *		unread		= number - seen, but not below zero, and not more than the key's value
 *
 * Why that is never wrong:
 *
 *	- The number only grows, in every snapshot. Increments add to it, decrements do not matter, and dc_set() and
 *	  dc_reset() change the value by increments and decrements (counter/set.c). Whatever else takes increments away
 *	  adds them to lost(key) in the same transaction (unreadlost.c): dc_delete(), and a key that starts anew.
 *	- A watermark is a number that was read, or less, and only rises. A snapshot that shows it shows what its
 *	  writer had seen: seen <= number. Marks of the same member in any order leave the greatest
 *	  one, so late and double calls are harmless. An increment that was committed after a snapshot was taken counts on
 *	  top of the number in that snapshot, so what nobody can have seen stays unread.
 *	- All that a call compares it reads in one snapshot, this transaction's own increments included: these are
 *	  committed, or rolled back, together with the mark, since the mark came after them.
 *	- The value bounds what is unread: of more messages than there are none can be unread. So a key that was set to 0
 *	  has nothing unread for anyone, and the next message is one, for all. Deleted messages (decrements) may
 *	  have been read or not; so with decrements unread is an upper bound, and exact without.
 *
 * Increments can be lost without a trace: rows that are changed by hand, a buffered counter after a crash, an unlogged
 * one. Then a watermark may be above the number. Nothing is unread until the number has reached it again, or the
 * member marks the key: that takes the watermark back to the number (unreadseen.c).
 *
 * Of a buffered counter the amounts in memory are a part of the number; memory has no past, so such a table is read as
 * of now at every isolation level, and watermarks with it. Numbers stop at the end of bigint.
 *
 * Locks: the counter table and this table are locked as unreadopen.c says. Nothing else is locked to read; a mark
 * locks the row that it writes.
 */
#include "postgres.h"

#include "access/detoast.h"
#include "base/args.h"
#include "base/hooks.h"
#include "base/key.h"
#include "catalog/pg_type.h"
#include "counter/read.h"
#include "funcapi.h"
#include "miscadmin.h"
#include "table/access.h"
#include "unread/unread.h"
#include "utils/builtins.h"
#include "utils/snapmgr.h"

PG_FUNCTION_INFO_V1(dc_mark_read);
PG_FUNCTION_INFO_V1(dc_unread);

static Datum member_arg(FunctionCallInfo fcinfo, int argno);
static int64 number_of(DcSeenRel *rel, Datum key, const DcSums *sums, bool may_be_lost);
static int64 at_most_bigint(INT128 sum);

/*
 * unread_init is called when the library is loaded.
 */
void
unread_init(void)
{
	static const DcUnreadHooks hooks = {
		.is_watched = unread_is_watched,
		.tables = unread_tables,
		.lost = unread_lost,
	};

	unread_hooks = &hooks;
	unread_ddl_init();
	later_init();
}

/*
 * dc_mark_read(unread regclass, member text|bigint|uuid, key text|bigint|uuid, upto bigint) -> void
 *
 * Marks as read what the statement's snapshot shows of a key, or, with upto, only up to that number, which a
 * dc_unread() has shown. Errors: those of seenrel_open(); 22004 for NULL, 22023 for an empty member
 * or an upto below zero, 54000 for a member or key that is too long.
 */
Datum
dc_mark_read(PG_FUNCTION_ARGS)
{
	Datum member = member_arg(fcinfo, 1);
	DcKey buf;
	Datum key = key_text_datum(key_arg(fcinfo, 2, &buf));
	DcSeenChange change = {0};
	DcCounter *counter;
	DcSeenRel rel;
	DcSums sums;
	int snapshots;

	if (!PG_ARGISNULL(3) && PG_GETARG_INT64(3) < 0)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("upto must not be below zero")));
	counter = seenrel_open(fcinfo, "dc_mark_read()", true, &rel);
	read_snapshot_push();
	snapshots = 1 + counter_sums(counter, &key, 1, &sums);
	change.all = change.upto = number_of(&rel, key, &sums, true);
	if (!PG_ARGISNULL(3))
		change.upto = Min(change.upto, PG_GETARG_INT64(3));
	seen_write(&rel, member, key, &change);
	seenrel_close(&rel);
	while (snapshots-- > 0)
		PopActiveSnapshot();
	PG_RETURN_VOID();
}

/*
 * dc_unread(unread regclass, member text|bigint|uuid, keys text[]|bigint[]|uuid[])
 * -> setof (key text|bigint|uuid, unread bigint, seen bigint, upto bigint)
 *
 * One row for each member of keys, in its order; they may repeat. upto is the number of the key, which marks exactly
 * what is counted here as read.
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
 * member_arg returns a member, as text. The function exists once for each type that it may have: if it shared
 * anycompatible with the key, both would have to be of one type.
 */
static Datum
member_arg(FunctionCallInfo fcinfo, int argno)
{
	Oid type = get_fn_expr_argtype(fcinfo->flinfo, argno);
	DcKey member;

	arg_not_null(fcinfo, argno, "member");
	if (type == TEXTOID && toast_raw_datum_size(PG_GETARG_DATUM(argno)) - VARHDRSZ > DC_MAX_KEY_BYTES)
		ereport(ERROR,
				(errcode(ERRCODE_PROGRAM_LIMIT_EXCEEDED),
				 errmsg("member is too long"),
				 errdetail("It has %zu bytes; the limit is %d.",
						   (size_t) (toast_raw_datum_size(PG_GETARG_DATUM(argno)) - VARHDRSZ), DC_MAX_KEY_BYTES)));
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
