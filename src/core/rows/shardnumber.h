/*
 * shardnumber.h
 *		The numbers of shard rows (see shardnumber.c).
 *
 * Copyright (c) 2026, the dcounter developers
 */
#ifndef DC_SHARDNUMBER_H
#define DC_SHARDNUMBER_H

/* Set in the numbers of shared rows, not in those of blind rows. */
#define SHARED_SHARD 0x40000000

static inline bool
shard_is_shared(int32 shard)
{
	return shard >= SHARED_SHARD;
}

/*
 * Return true if a row has amounts that came from other regions.
 */
static inline bool
shard_is_remote(int32 shard)
{
	return shard < 0;
}

extern int32 own_shard(bool shared);
extern int32 random_shard(void);
extern int32 blind_shard(void);
extern int32 remote_shard(int32 shard);

#endif /* DC_SHARDNUMBER_H */
