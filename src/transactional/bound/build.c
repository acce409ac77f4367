/*
 * build.c
 *		CALL dc_build(): adding what a source has and its counter table lacks.
 *
 * Copyright (c) 2026, the dcounter developers
 *
 * Building, rebuilding and repairing all keys are the same operation. For each key, source minus
 * counter is the same number in every snapshot, as long as the epoch is the same (sourceread.c). So
 * the differences are read once, in one snapshot, and then added piece by piece, each chunk in a
 * transaction of its own, while writers continue:
 *
 *	scan	lock the tables, take a snapshot, read both sides; keep the keys that differ, sorted, in a
 *			file (the spool), and the epoch and the binding that the snapshot shows. Commit.
 *	chunk	lock the counter tables, and then the binding. If epoch or binding are others than in the
 *			snapshot, forget the spool and scan again. Else add the differences of the next
 *			keys, note the position in built_to, change the epoch. Commit.
 *
 * Why each difference is added once:
 *
 *	- Whatever else adds differences (a fix, a second build, TRUNCATE, ATTACH, DETACH) does
 *	  it under the lock of the binding, and changes the epoch in its transaction. So if the
 *	  epoch is that of our snapshot, all of that is either in the snapshot or comes after
 *	  us. A chunk changes the epoch as well, so other builds notice.
 *	- A chunk is one transaction: amounts, position and epoch are committed together. After a
 *	  crash the next build reads the position, and begins with the keys after it. The scan shows
 *	  the position in the same snapshot as the values.
 *	- A chunk that fails ends the build: the spool is not used any more.
 *
 * Keys up to the position differ by 0, and stay so: anything that could make them differ
 * without the triggers seeing it sets the state to suspect and the position back (sourcerow.c).
 * So when the last key is done the state is `exact`.
 *
 * Two builds of one counter table would only make each other scan again. So one takes
 * another lock (of the session, until the build ends), and the other waits for it.
 *
 * With distinct_of, there are two layers of differences (sourcescan.c), which are added
 * alike: those of the reference counts make the values change as rows of the source
 * would.
 */
#include "postgres.h"

#include "access/xact.h"
#include "common/int.h"
#include "executor/spi.h"
#include "fmgr.h"
#include "miscadmin.h"
#include "nodes/parsenodes.h"
#include "storage/lock.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"
#include "utils/portal.h"
#include "utils/snapmgr.h"

#include "base/args.h"
#include "base/compat.h"
#include "base/lockclass.h"
#include "core/counter/apply.h"
#include "core/counter/write.h"
#include "core/table/access.h"
#include "core/table/subscription.h"
#include "transactional/bound/build.h"
#include "transactional/bound/refs.h"
#include "transactional/bound/sourcetrigger.h"
#include "transactional/bound/spoolfile.h"

PG_FUNCTION_INFO_V1(dc_build);

#define BUILD_NAME "dc_build()"

/* The length of the item of a difference that has none. */
#define NO_ITEM PG_UINT16_MAX

/* A difference in the spool. The bytes of key and item follow. */
typedef struct DcSpooled
{
	int64 drift;
	uint16 key_len;
	uint16 item_len;
} DcSpooled;

struct DcBuild
{
	MemoryContext cxt; /* of everything here; its reset callback releases the lock and the file */
	MemoryContextCallback on_end;
	Oid counter;
	int64 max_keys;
	bool locked;		   /* it holds the lock against other builds */
	bool scanned;		   /* the following fields are set: */
	int64 epoch;		   /* for which the differences are valid, */
	TransactionId binding; /* and the xmin of the binding's row then; */
	bool counted;		   /* in that snapshot the triggers fired, and no key was skipped */
	DcSpoolFile *spool;
	int64 left; /* differences not added yet, the next one included, */
	int64 drift;
	DcKey key; /* which is for this key, */
	DcKey item;
	char key_bytes[DC_MAX_KEY_BYTES];
	char item_bytes[DC_MAX_KEY_BYTES];
};

static void build_tag(Oid counter, LOCKTAG *tag);
static void build_release(void *arg);
static void forget_spool(DcBuild *build);
static bool spool_all(DcBuild *build, DcSourceRead *read, DcSourceScanOptions *options);
static bool spool_layers(DcBuild *build, DcSourceRead *read, DcSourceScanOptions *options);
static void build_spool(DcBuild *build, const DcSourceDiff *diff);
static void spool_next(DcBuild *build);
static char *add_some(DcBuild *build, DcCounter *counter, const DcSourceRow *row);
static void add_drift(DcCounter *counter, const DcSourceRow *row, const DcKey *key,
					  const DcKey *item, int64 drift);
static DcBuildStep run_step(FunctionCallInfo fcinfo, DcBuild *build);
static DcCounter *run_scan(FunctionCallInfo fcinfo, DcBuild *build, bool lock);
static DcCounter *build_open_counter(FunctionCallInfo fcinfo);
static void run_atomic(FunctionCallInfo fcinfo, DcBuild *build);
static bool build_lock(DcBuild *build, bool wait);

/*
 * dc_build(counter regclass, max_keys int), a procedure that commits after each chunk, unless it
 * is called in a transaction block.
 *
 * Errors: 42501 if the caller does not own both tables, 55000 if the counter is not bound, or a
 * partition is being detached, 22023 if max_keys is not positive, 25001 in a
 * transaction block that is not READ COMMITTED.
 */
Datum
dc_build(PG_FUNCTION_ARGS)
{
	bool atomic = fcinfo->context == NULL || !IsA(fcinfo->context, CallContext) ||
		castNode(CallContext, fcinfo->context)->atomic;
	Oid relid = counter_arg(fcinfo);
	DcSourceRow row;
	DcBuild *build;
	int max_keys;

	prevent_write(BUILD_NAME);
	arg_not_null(fcinfo, 1, "max_keys");
	max_keys = PG_GETARG_INT32(1);
	if (max_keys < 1)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE), errmsg("max_keys must be positive")));
	(void) counter_lookup(relid); /* "is not a counter table" comes first */
	prevent_not_owner(relid);
	if (!source_read(relid, &row))
		not_bound_error(relid);
	prevent_not_owner(row.source);
	if (atomic && IsolationUsesXactSnapshot())
		ereport(ERROR,
				(errcode(ERRCODE_ACTIVE_SQL_TRANSACTION),
				 errmsg("dc_build() in a transaction block must run under READ COMMITTED")));
	apply_early();
	SPI_connect_ext(atomic ? 0 : SPI_OPT_NONATOMIC);
	build = build_begin(relid, atomic ? PG_INT64_MAX : max_keys, PortalContext);
	PG_TRY();
	{
		if (atomic)
			run_atomic(fcinfo, build);
		else
		{
			DcBuildStep step;

			SPI_commit(); /* no lock is held while we wait for other builds */
			(void) build_lock(build, true);
			do
			{
				step = run_step(fcinfo, build);
				SPI_commit();
			} while (step == BUILD_GOES_ON);
		}
	}
	PG_FINALLY();
	{
		build_end(build);
	}
	PG_END_TRY();
	SPI_finish();
	PG_RETURN_VOID();
}

/*
 * run_step runs a step in this transaction.
 */
static DcBuildStep
run_step(FunctionCallInfo fcinfo, DcBuild *build)
{
	DcCounter *counter;
	DcSourceRow row;
	DcBuildStep step;

	/*
	 * the transaction is new: defaults such as SERIALIZABLE or READ ONLY are of no use to us,
	 * and SERIALIZABLE harms others
	 */
	if (!FirstSnapshotSet)
		XactIsoLevel = XACT_READ_COMMITTED;
	if (!build->scanned)
	{
		run_scan(fcinfo, build, false);
		return BUILD_GOES_ON;
	}
	counter = build_open_counter(fcinfo);
	(void) bound_lock(build->counter, true);
	if (!source_read(build->counter, &row))
		not_bound_error(build->counter);
	prevent_not_owner(row.source);
	PushActiveSnapshot(GetTransactionSnapshot());
	step = build_chunk(build, counter, &row);
	PopActiveSnapshot();
	return step;
}

/*
 * run_scan runs the first step, and returns the counter table.
 */
static DcCounter *
run_scan(FunctionCallInfo fcinfo, DcBuild *build, bool lock)
{
	DcSourceRead read;
	DcCounter *counter;

	if (!source_read_lock(&read, build->counter, BUILD_NAME, DC_SOURCE_WAIT))
	{
		(void) counter_lookup(build->counter); /* raises an error if it was dropped */
		not_bound_error(build->counter);
	}
	counter = build_open_counter(fcinfo);
	if (lock)
		(void) bound_lock(build->counter, true);
	if (!source_read_begin(&read, counter, true))
		not_bound_error(build->counter);
	prevent_not_owner(read.row.source);
	(void) build_scan(build, &read, DC_LONG_AGO);
	source_read_end(&read);
	return counter;
}

/*
 * Open the counter table of dc_build() as its owner, locked ROW EXCLUSIVE; raise 55000 if a
 * subscription feeds it.
 */
static DcCounter *
build_open_counter(FunctionCallInfo fcinfo)
{
	DcCounter *counter = counter_open_as_owner(fcinfo, BUILD_NAME, RowExclusiveLock);

	prevent_fed(counter, BUILD_NAME);
	return counter;
}

/*
 * run_atomic builds all in this transaction. As it has the lock of the binding before the snapshot
 * is taken, there is one chunk.
 */
static void
run_atomic(FunctionCallInfo fcinfo, DcBuild *build)
{
	DcCounter *counter = run_scan(fcinfo, build, true);
	DcSourceRow row;

	if (!source_read(build->counter, &row) || build_chunk(build, counter, &row) != BUILD_DONE)
		elog(ERROR, "the binding of \"%s\" has changed", get_rel_name(build->counter));
}

/*
 * build_now builds all, in a transaction that has locked the source and the counter tables against
 * writers, and has the lock of the binding.
 */
void
build_now(const DcSourceRow *row)
{
	DcBuild *build = build_begin(row->counter, PG_INT64_MAX, CurrentMemoryContext);
	DcCounter *counter;
	DcSourceRead read;

	CommandCounterIncrement(); /* the snapshot must show the binding */
	if (!source_read_lock(&read, row->counter, "dc_bind()", DC_SOURCE_WAIT))
		not_bound_error(row->counter);
	counter = counter_lookup(row->counter);
	if (!source_read_begin(&read, counter, true))
		not_bound_error(row->counter);
	(void) build_scan(build, &read, DC_LONG_AGO);
	source_read_end(&read);
	if (build_chunk(build, counter, &read.row) != BUILD_DONE)
		elog(ERROR, "the binding of \"%s\" has changed", get_rel_name(row->counter));
	build_end(build);
}

/*
 * build_keys adds the differences of some keys, for dc_source_fix() and for repairs by the job.
 */
void
build_keys(DcSourceRead *read, Datum *keys, int nkeys, const DcSourceDiff *diffs, int ndiffs)
{
	DcSourceStateRow state;

	if (read->row.distinct_of != NULL)
	{
		DcBuild *build = build_begin(read->counter_id, PG_INT64_MAX, CurrentMemoryContext);
		DcSourceScanOptions options = {.keys = keys, .nkeys = nkeys, .any_keys = true};

		(void) spool_all(build, read, &options);
		(void) add_some(build, read->counter, &read->row);
		build_end(build);
	}
	for (int i = 0; i < ndiffs && read->row.distinct_of == NULL; i++)
		add_drift(read->counter, &read->row, &diffs[i].key, NULL, diffs[i].drift);
	if (!source_state_read(read->counter_id, &state))
		elog(ERROR, "no state of counter table %u", read->counter_id);
	state.epoch++;
	source_state_store(&state);
}

/*
 * build_begin prepares a build, in a new child of `parent`.
 */
DcBuild *
build_begin(Oid counter, int64 max_keys, MemoryContext parent)
{
	MemoryContext cxt = AllocSetContextCreate(parent, "dcounter build", ALLOCSET_SMALL_SIZES);
	DcBuild *build = MemoryContextAllocZero(cxt, sizeof(DcBuild));

	build->cxt = cxt;
	build->counter = counter;
	build->max_keys = max_keys;
	build->on_end.func = build_release;
	build->on_end.arg = build;
	MemoryContextRegisterResetCallback(cxt, &build->on_end);
	return build;
}

/*
 * Free a build. Its memory context calls build_release(), which gives back the lock and the
 * spool.
 */
void
build_end(DcBuild *build)
{
	MemoryContextDelete(build->cxt);
}

/*
 * build_release is called when the memory of a build is freed, perhaps after an error: it must
 * not throw. Code of the counter's owner may have released the lock (pg_advisory_unlock_all);
 * LockRelease would warn about that.
 */
static void
build_release(void *arg)
{
	DcBuild *build = arg;
	LOCKTAG tag;

	build_tag(build->counter, &tag);
	if (build->locked && compat_has_lock(&tag, ExclusiveLock))
		(void) LockRelease(&tag, ExclusiveLock, true);
	forget_spool(build);
}

/*
 * Close the spool, if there is one, so that the next step scans again.
 */
static void
forget_spool(DcBuild *build)
{
	DcSpoolFile *spool = build->spool;

	build->spool = NULL;
	build->scanned = false;
	if (spool != NULL)
		spoolfile_close(spool);
}

/*
 * build_lock takes the lock against other builds of the counter table, until the build ends;
 * returns false if another build holds it and we must not wait.
 */
static bool
build_lock(DcBuild *build, bool wait)
{
	LOCKTAG tag;

	build_tag(build->counter, &tag);
	if (!build->locked)
		build->locked = LockAcquire(&tag, ExclusiveLock, true, !wait) != LOCKACQUIRE_NOT_AVAIL;
	return build->locked;
}

/*
 * Set the tag of the advisory lock that lets one build of a counter table run at a time.
 */
static void
build_tag(Oid counter, LOCKTAG *tag)
{
	SET_LOCKTAG_ADVISORY(*tag, MyDatabaseId, counter, 1, BOUND_LOCK_CLASS);
}

/*
 * Return true if the next step is a scan, false if the spool still holds differences to add.
 */
bool
build_needs_scan(const DcBuild *build)
{
	return !build->scanned;
}

/*
 * build_scan reads the differences of the keys after the position. The caller has opened both
 * sides, and its snapshot is active.
 */
DcBuildStep
build_scan(DcBuild *build, DcSourceRead *read, DcMoment late)
{
	DcScanPace pace = {.source = read->row.source, .counter = read->counter_id};
	int64 left_out = 0;
	DcSourceScanOptions options = {.only_different = true,
								   .from = read->state.built_to,
								   .passes_over = WARNING,
								   .left_out = &left_out,
								   .late = late,
								   .pace = late.us != DC_LONG_AGO.us ? &pace : NULL};

	forget_spool(build);
	build->epoch = read->state.epoch;
	build->binding = read->row.xmin;
	build->counted = source_triggers_fire(read->members, read->row.replicated, read->snapshot);
	if (!spool_all(build, read, &options))
	{
		forget_spool(build);
		return BUILD_TOO_LONG;
	}
	build->counted = build->counted && left_out == 0;
	build->scanned = true;
	return BUILD_GOES_ON;
}

/*
 * spool_all writes all differences to the spool, in the order of the keys. All are written by
 * this transaction, so later ones only read. Returns false if the time was up before that.
 */
static bool
spool_all(DcBuild *build, DcSourceRead *read, DcSourceScanOptions *options)
{
	MemoryContext reading = AllocSetContextCreate(CurrentMemoryContext, "dcounter build scan",
												  ALLOCSET_DEFAULT_SIZES);
	MemoryContext old = MemoryContextSwitchTo(build->cxt);
	bool done = true;

	build->spool = spoolfile_create();
	build->left = 0;
	MemoryContextSwitchTo(reading);
	if (read->row.distinct_of != NULL)
		done = spool_layers(build, read, options);
	else
	{
		DcSourceScan *scan = source_scan_begin(read, options);
		DcSourceDiff diff;

		done = scan != NULL;
		while (done && source_scan_next(scan, &diff))
			build_spool(build, &diff);
		if (done)
			source_scan_end(scan);
	}
	MemoryContextSwitchTo(old);
	MemoryContextDelete(reading);
	if (done)
		spoolfile_rewind(build->spool);
	if (done && build->left > 0)
		spool_next(build);
	return done;
}

/*
 * spool_layers does the same for a binding with distinct_of: for each key the reference counts,
 * and then the value.
 */
static bool
spool_layers(DcBuild *build, DcSourceRead *read, DcSourceScanOptions *options)
{
	DcSourceScan *refs;
	DcSourceScan *values;
	DcSourceDiff ref;
	DcSourceDiff value;
	bool has_value;

	options->layer = DC_LAYER_REFS;
	refs = source_scan_begin(read, options);
	options->layer = DC_LAYER_COUNTER;
	values = refs != NULL ? source_scan_begin(read, options) : NULL;
	if (values == NULL)
		return false;
	has_value = source_scan_next(values, &value);
	while (source_scan_next(refs, &ref))
	{
		for (; has_value && key_compare(&value.key, &ref.key) < 0; has_value = source_scan_next(values, &value))
			build_spool(build, &value);
		build_spool(build, &ref);
	}
	for (; has_value; has_value = source_scan_next(values, &value))
		build_spool(build, &value);
	source_scan_end(values);
	source_scan_end(refs);
	return true;
}

/*
 * Write a difference to the spool, unless both sides agree, and count it in build->left.
 */
static void
build_spool(DcBuild *build, const DcSourceDiff *diff)
{
	DcSpooled spooled = {.drift = diff->drift, .key_len = diff->key.len, .item_len = NO_ITEM};

	CHECK_FOR_INTERRUPTS();
	if (diff->drift == 0)
		return;
	if (diff->item.data != NULL)
		spooled.item_len = diff->item.len;
	spoolfile_write(build->spool, &spooled, sizeof(spooled));
	spoolfile_write(build->spool, diff->key.data, diff->key.len);
	if (diff->item.data != NULL)
		spoolfile_write(build->spool, diff->item.data, diff->item.len);
	build->left++;
}

/*
 * spool_next reads the next difference.
 */
static void
spool_next(DcBuild *build)
{
	DcSpooled spooled;

	spoolfile_read(build->spool, &spooled, sizeof(spooled));
	build->drift = spooled.drift;
	spoolfile_read(build->spool, build->key_bytes, spooled.key_len);
	build->key.data = build->key_bytes;
	build->key.len = spooled.key_len;
	build->item.data = NULL;
	if (spooled.item_len != NO_ITEM)
	{
		spoolfile_read(build->spool, build->item_bytes, spooled.item_len);
		build->item.data = build->item_bytes;
		build->item.len = spooled.item_len;
	}
}

/*
 * build_chunk adds the next differences. The caller has the lock of the binding, whose row is
 * now `row`, and has locked the counter tables.
 */
DcBuildStep
build_chunk(DcBuild *build, DcCounter *counter, const DcSourceRow *row)
{
	DcSourceStateRow state;
	char *position;

	if (!source_state_read(build->counter, &state))
		elog(ERROR, "no state of counter table %u", build->counter);
	if (state.epoch != build->epoch || row->xmin != build->binding)
	{
		forget_spool(build);
		return BUILD_GOES_ON;
	}
	position = add_some(build, counter, row);
	state.epoch = ++build->epoch;
	if (position != NULL)
		state.built_to = position;
	if (build->left == 0)
	{
		state.built_to = NULL;
		/* disabling or enabling a trigger changes the epoch */
		state.state = build->counted ? DC_SOURCE_EXACT : DC_SOURCE_SUSPECT;
	}
	source_state_store(&state);
	return build->left == 0 ? BUILD_DONE : BUILD_GOES_ON;
}

/*
 * add_some adds up to max_keys differences, and returns the last key that is done, or NULL if
 * there is none.
 */
static char *
add_some(DcBuild *build, DcCounter *counter, const DcSourceRow *row)
{
	char *position = NULL;

	for (int64 n = 0; n < build->max_keys && build->left > 0; n++)
	{
		char *key = pnstrdup(build->key.data, build->key.len);

		CHECK_FOR_INTERRUPTS();
		add_drift(counter, row, &build->key, build->item.data != NULL ? &build->item : NULL, build->drift);
		if (--build->left > 0)
			spool_next(build);
		/* with distinct_of, a key has many */
		if (build->left > 0 && strlen(key) == build->key.len && memcmp(key, build->key.data, build->key.len) == 0)
		{
			pfree(key);
			continue;
		}
		if (position != NULL)
			pfree(position);
		position = key;
	}
	return position;
}

/*
 * add_drift adds a difference to a key of the counter table, or to an item of it.
 */
static void
add_drift(DcCounter *counter, const DcSourceRow *row, const DcKey *key, const DcKey *item,
		  int64 drift)
{
	int64 amount = drift;

	if (item != NULL)
	{
		refs_add(row, key, item, drift);
		return;
	}
	if (drift < 0 && pg_sub_s64_overflow(0, drift, &amount))
		ereport(ERROR,
				(errcode(ERRCODE_NUMERIC_VALUE_OUT_OF_RANGE),
				 errmsg("bigint out of range"),
				 errdetail("The amount of a delta must fit into bigint.")));
	if (drift > 0)
		counter_add_amounts(counter, key, DC_NO_HINT, amount, 0);
	else if (drift < 0)
		counter_add_amounts(counter, key, DC_NO_HINT, 0, amount);
}
