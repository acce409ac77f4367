/*
 * buffering.h
 *		What the counter room asks of the room that keeps increments in memory.
 *
 * That room is below this one and must not be called, so it leaves its functions
 * here when it has shared memory.
 */
#ifndef DC_BUFFERING_H
#define DC_BUFFERING_H

#include "counter/pending.h"
#include "counter/read.h"
#include "utils/timestamp.h"

/* What is in memory for a key that is being read. */
typedef struct DcBuffered
{
	const DcKey *key;
	int64 inc;
	int64 dec;
	TimestampTz at; /* of the last change; DT_NOBEGIN: none */
} DcBuffered;

/* A larger amount of a key in one transaction goes to rows. */
#define DC_MAX_BUFFERED (INT64CONST(1) << 40)

typedef struct DcBuffering
{
	/* does somebody flush this database now? */
	bool (*flushes)(void);

	/*
	 * At PRE_COMMIT, as the last that is done: take over these deltas of a buffered
	 * table. False if they are to be written to the shard rows.
	 */
	bool (*reserve)(DcCounter *counter, DcDelta **deltas, int count);

	/* give back all that this transaction has handed over so */
	void (*give_back)(void);

	/*
	 * Find out what is in memory, for some keys or for all, and make active a
	 * snapshot to read the rows in, which the caller pops: together they have each
	 * increment once. False, without a snapshot, on a standby.
	 */
	bool (*read_keys)(DcCounter *counter, DcBuffered *keys, int count);
	bool (*read_all)(DcCounter *counter, DcSums *sums);

	/* has something been in memory for the table since the server started? */
	bool (*was_buffered)(DcCounter *counter);

	/*
	 * dc_set() and its relatives have locked a key: rows must have what was
	 * committed before.
	 */
	void (*key_set)(DcCounter *counter, const DcKey *key);

	/* write all that is in memory for a table that is locked against writers */
	void (*write_down)(DcCounter *counter);

	/* the table of totals is being truncated */
	void (*truncated)(Oid counter);

	/* dc_alter() changes how long increments stay in memory */
	void (*altered)(DcCounter *counter, int64 flush_interval);

	/* how old the cached value of a key is, in us; false if there is none */
	bool (*cache_age)(DcCounter *counter, const DcKey *key, int64 *age);
} DcBuffering;

extern const DcBuffering *buffering; /* NULL: not preloaded */

#endif /* DC_BUFFERING_H */
