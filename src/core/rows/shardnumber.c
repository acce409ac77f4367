/*
 * shardnumber.c
 *		The numbers of the rows that a transaction inserts.
 *
 * Copyright (c) 2026, the dcounter developers
 *
 * A number is derived from the transaction's id. Rows that one transaction alone adds to (blind
 * rows, apply.c) and shared rows have different ranges. Rows with the amounts of other regions
 * have negative numbers: no transaction that counts here ever chooses one, reads add them, and
 * compaction tells by them what this region need not publish.
 *
 * Two live transactions of one cluster cannot derive the same shard number (it repeats after
 * 2^30 transaction ids), and clusters that write to the same foreign table start from different
 * points. If a blind row with that number is left over, adding to it is correct as well.
 */
#include "postgres.h"

#include "access/transam.h"
#include "access/xact.h"
#include "access/xlog.h"
#include "common/hashfn.h"
#include "common/pg_prng.h"
#include "miscadmin.h"

#include "core/rows/shardnumber.h"

/*
 * Return a number in the range of shared rows, or in that of rows of one transaction.
 */
static int32
shardnumber_shard_number(uint32 number, bool shared)
{
	return (int32) (shared ? number | SHARED_SHARD : number & (SHARED_SHARD - 1)) &
		PG_INT32_MAX;
}

/*
 * own_shard returns the number of a row that this transaction inserts: one that other transactions
 * may add to as well, or a blind one.
 */
int32
own_shard(bool shared)
{
	static uint32 start = 0;

	if (start == 0)
	{
		uint64 cluster = GetSystemIdentifier() ^ MyDatabaseId;

		start = murmurhash32((uint32) cluster ^ (uint32) (cluster >> 32));
	}
	return shardnumber_shard_number(GetTopTransactionId() + start, shared);
}

/*
 * random_shard returns a number for another row that other transactions may add to.
 */
int32
random_shard(void)
{
	return shardnumber_shard_number(pg_prng_uint32(&pg_global_prng_state), true);
}

/*
 * blind_shard returns a random number of a blind row, for a transaction that has no id.
 */
int32
blind_shard(void)
{
	return shardnumber_shard_number(pg_prng_uint32(&pg_global_prng_state), false);
}

/*
 * remote_shard returns the number for amounts of other regions that goes with a number of
 * own_shard(false), or any. It is never PG_INT32_MIN, after which a compaction begins.
 */
int32
remote_shard(int32 shard)
{
	int32 number = (shard & (SHARED_SHARD - 1)) | PG_INT32_MIN;

	return number == PG_INT32_MIN ? PG_INT32_MIN | SHARED_SHARD : number;
}
