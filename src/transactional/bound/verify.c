/*
 * verify.c
 *		Verifying bound counter tables, as a job.
 *
 * Copyright (c) 2026, the dcounter developers
 *
 * A pass compares all keys with the source, in steps. Each step is a transaction that
 *
 *	1. locks the source, its partitions and the counter tables, and takes the lock of the
 *	   binding, all without waiting,
 *	2. takes a snapshot, and compares the next keys in it (verifyread.c),
 *	3. if on_drift is 'repair', adds the differences, as dc_source_fix() does (build_keys),
 *	4. notes what was found (drift.c), and the position.
 *
 * A difference is one in every snapshot (sourceread.c), so it does not matter what writers do
 * in the meantime, and keys that were compared in different snapshots make one pass. First it goes
 * over the keys of the counter tables (counter), and then over those of the source that these do
 * not have (source). So a key that is on either side when the pass begins, and differs, is found,
 * except for one of the source alone that gets its first row in the counter tables between the two,
 * which the next pass finds. That will not do for a pass that may make the state `exact` again: the
 * second part of that goes over all keys of the source. The position is in the state, so that a
 * pass continues after a restart, whichever process makes the next step.
 *
 * A pass that has left no difference, and no key out, makes the state `exact` again, if what
 * made it `suspect` or `drifted` was before the pass, and triggers fire. All that makes it
 * suspect changes the epoch, as does what ends that (ENABLE TRIGGER), and all that changes
 * values. So the pass notes the epoch at its beginning; its own repairs take that along. If the
 * epoch is another one at the end, only the next pass can tell.
 *
 * Budget: a worker reads dcounter.verify_rate rows a second of all sources of its database. A
 * step reads that many at most, and the next one is made when that time has passed, by the
 * monotonic clock. No snapshot and no lock is held in between. Owners take turns by steps, and
 * so do the tables of each. If a step reads more than a second's rows, as it reads the source
 * whole, only the tables of its owner wait for that. When a pass has ended, the next one of the
 * table begins after a minute at the earliest, or when its settings are changed.
 *
 * Without an index on the key, or with distinct_of, a source is scanned in one step, which is also
 * one snapshot, if it has no more than dcounter.verify_max_rows rows. A larger one is left to
 * dc_source_check() and dc_build().
 *
 * A worker evaluates no expression that may take a long time: such a binding is left to the owner's
 * dc_maintain(). That reads, at each call, as many rows of each table as a worker does in a second.
 */
#include "postgres.h"

#include "access/table.h"
#include "miscadmin.h"
#include "storage/lmgr.h"
#include "utils/builtins.h"
#include "utils/fmgrprotos.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"
#include "utils/timestamp.h"

#include "base/activity.h"
#include "base/compat.h"
#include "base/guc.h"
#include "base/relcached.h"
#include "base/relopen.h"
#include "core/compact/compact.h"
#include "core/table/ownercode.h"
#include "core/table/subscription.h"
#include "core/table/tablejob.h"
#include "transactional/bound/build.h"
#include "transactional/bound/sourceexpr.h"
#include "transactional/bound/sourcetrigger.h"
#include "transactional/bound/verify.h"

/*
 * A step reads as many rows as may be read in a second, but at least this many. Each step leaves a
 * dead row of the state, which stays as long as any session has an old snapshot, so there should be
 * few steps.
 */
#define MIN_STEP_ROWS 100

/* From the end of a pass to the next one, and for tables that cannot be verified, ms. */
#define PASS_PAUSE_MS 60000

/* When to look again, if no table is due, or one could not be verified, ms. */
#define PASS_LOOK_MS 1000

/* Events of one pass. */
#define MAX_EVENTS 1000

/*
 * The current pass. In pass_to it is stored as its numbers, and the key if there is one:
 * "1:17:17:0:-1:0:0:key".
 */
typedef struct DcPass
{
	int phase;		/* 1: keys of the counter tables, 2: of the source */
	int64 began;	/* the epoch at its beginning, */
	int64 epoch;	/* and what its own repairs have made of that */
	int64 found;	/* keys that differed, */
	int64 known;	/* how many were noted before it; -1 as long as it has found none, */
	int64 repaired; /* and how many of them were repaired */
	int64 left;		/* the others, and keys that were left out */
	char *to;		/* the last key, or NULL */
} DcPass;

/* What the worker knows of a table. Entries start with zeros. */
typedef struct DcVerifying
{
	Oid counter;
	DcMoment due; /* the next step */
	int64 served; /* the number of the last one */
	bool left;	  /* to the owner */
} DcVerifying;

/* When the next step on a table of an owner may be made: it has paid for the last one by then. */
typedef struct DcVerifyDebt
{
	Oid owner; /* hash key */
	DcMoment until;
} DcVerifyDebt;

static void verifying_changed(void *entry, Oid relid);

static DcRelCached verifying_cache = {
	.name = "dcounter verifying",
	.keysize = sizeof(Oid),
	.size = sizeof(DcVerifying),
	.changed = verifying_changed,
	.watches = true,
};

static DcMoment budget = {0};		/* when the worker may make its next step, */
static HTAB *debts = NULL;			/* DcVerifyDebt, */
static DcMoment next_run = {0};		/* and when it looks again */
static int64 served = 0;			/* steps of this worker, */
static Oid last_owner = InvalidOid; /* and the owner that had the last one */
static bool any_bound = true;		/* at the last look, */
static DcMoment pass_looked = {0};	/* which was then, */
static uint32 pass_seen;			/* and what was published by then */
static int64 tables_left = 0;
static int64 spent = 0; /* rows, by a call of dc_maintain(), of one table */

static bool nothing_new(void);
static List *verify_list(void);
static bool comes_before(const DcVerifying *left, Oid left_owner, const DcVerifying *right, Oid right_owner);
static void start_pass(MemoryContext cxt);
static DcTableStep pass_step(Oid table, bool all_owners);
static bool pass_may_evaluate(DcSourceRead *read, bool all_owners);
static DcTableStep verify_verify(DcSourceRead *read, DcCounter *counter, bool all_owners);
static DcTableStep verify_later(Oid table, int64 ms);
static bool compare_source(DcSourceRead *read, DcVerifyHow how, DcPass *pass, DcVerified *done);
static bool may_make_exact(const DcPass *pass, const DcSourceStateRow *state);
static bool verify_note(DcSourceRead *read, DcPass *pass, const DcVerified *done, DcSourceStateRow *state,
						bool repaired);
static void note_drifts(DcSourceRead *read, DcPass *pass, const DcDrifts *drifts,
						DcSourceStateRow *state, bool repaired);
static bool concerns_build(const DcDrifts *drifts, const DcSourceStateRow *state);
static void pass_end(DcSourceRead *read, const DcPass *pass, bool counted, DcSourceStateRow *state);
static int64 step_rows(void);
static DcMoment *debt_of(Oid owner);
static DcTableStep verify_pay(Oid table, int64 cost, bool all_owners, bool ended);
static void pass_read(const DcSourceStateRow *state, DcPass *pass);
static char *pass_text(const DcPass *pass);

/*
 * verify_job verifies tables that are due; true if it has yielded.
 */
static bool
verify_job(DcJobRun *run)
{
	static DcTableJob job = {.list = verify_list, .start = start_pass, .step = pass_step};
	bool yielded;

	next_run = moment_in(PASS_LOOK_MS);
	tables_left = 0;
	if (dc_verify_rate == 0 || (run->all_owners && nothing_new()))
		return false;
	yielded = table_job_run(&job, run);
	run->left += tables_left;
	return yielded;
}

/*
 * Return true if there was no bound table at the last check, and no catalog has a new row. So a
 * worker without such tables needs no transaction to find that out.
 */
static bool
nothing_new(void)
{
	if (!any_bound && activity_is_known() && moment_age(pass_looked) < PASS_PAUSE_MS * INT64CONST(1000) &&
		!activity_differs(MyDatabaseId, DC_ACTIVITY_THINGS, pass_seen))
		return true;
	any_bound = true;
	pass_looked = moment_now();
	pass_seen = activity_collect(MyDatabaseId, DC_ACTIVITY_THINGS);
	return false;
}

/*
 * verify_due returns when the job is to run next.
 */
static DcMoment
verify_due(void)
{
	return next_run;
}

/*
 * verify_init registers the job "verify"; called once.
 */
void
verify_init(void)
{
	job_register((DcJob){.name = "verify", .run = verify_job, .due = verify_due});
}

/*
 * verify_list lists the bound tables of an owner, or, in the worker, the one whose turn it is.
 */
static List *
verify_list(void)
{
	bool worker = compat_is_background_worker();
	DcMoment next = DC_NEVER;
	List *tables = NIL;
	DcVerifying *first = NULL;
	Oid first_owner = InvalidOid;
	ListCell *lc;

	if (extension_is_fed() ||
		!ConditionalLockRelationOid(catalog_relation("source"), AccessShareLock) ||
		!ConditionalLockRelationOid(catalog_relation("source_state"), AccessShareLock))
		return NIL;
	any_bound = false;
	foreach(lc, source_list())
	{
		Oid counter = ((DcSourceRow *) lfirst(lc))->counter;
		DcVerifying *entry = relcached_enter(&verifying_cache, &counter);
		Oid owner;
		DcMoment when;

		CHECK_FOR_INTERRUPTS();
		any_bound = true;
		if (!worker)
		{
			if (compat_owns_relation(counter, GetUserId()))
				tables = lappend_oid(tables, counter);
			continue;
		}
		tables_left += entry->left;
		owner = relation_owner(counter);
		when = moment_max(entry->due, *debt_of(owner));
		next = moment_min(next, when);
		if (moment_is_reached(when) && (first == NULL || comes_before(entry, owner, first, first_owner)))
		{
			first = entry;
			first_owner = owner;
		}
	}
	if (!worker)
	{
		list_sort(tables, list_oid_cmp);
		return tables;
	}
	next_run = moment_max(budget, moment_min(next, next_run));
	if (!moment_is_reached(budget) || first == NULL)
		return NIL;
	last_owner = first_owner;
	first->served = ++served;
	(void) verify_later(first->counter, PASS_LOOK_MS); /* in case the step fails, or is not made */
	return list_make1_oid(first->counter);
}

/*
 * Return true if a table's turn is before another's: owners take turns in the order of their
 * numbers, and so do the tables of each owner.
 */
static bool
comes_before(const DcVerifying *left, Oid left_owner, const DcVerifying *right, Oid right_owner)
{
	if (left_owner != right_owner)
		return left_owner - last_owner - 1 < right_owner - last_owner - 1; /* cyclically */
	if (left->served != right->served)
		return left->served < right->served;
	return left->counter < right->counter;
}

/*
 * start_pass resets what dc_maintain() has read of a table; called before the first step on
 * one.
 */
static void
start_pass(MemoryContext cxt)
{
	spent = 0;
}

/*
 * verifying_changed makes a table due whose settings have changed, or its columns. Must not throw.
 */
static void
verifying_changed(void *entry, Oid relid)
{
	DcVerifying *verifying = entry;

	if (!OidIsValid(relid) || relid == verifying->counter)
		verifying->due = DC_LONG_AGO;
}

/*
 * pass_step makes one step of a pass.
 */
static DcTableStep
pass_step(Oid table, bool all_owners)
{
	MemoryContext cxt = AllocSetContextCreate(CurrentMemoryContext, "dcounter verify", ALLOCSET_DEFAULT_SIZES);
	MemoryContext old = MemoryContextSwitchTo(cxt);
	DcTableStep result = TABLE_DONE;
	DcSourceRead read;
	DcCounter *counter;

	if (!all_owners && !compat_owns_relation(table, GetUserId()))
		result = TABLE_DONE; /* the locks are for its owner */
	else if (!source_read_lock(&read, table, "dc_maintain()", DC_SOURCE_AT_ONCE) ||
			 relation_lacks_indexes(read.row.refs) || relation_lacks_indexes(read.row.carried))
		result = verify_later(table, PASS_LOOK_MS);
	else if (!pass_may_evaluate(&read, all_owners))
		result = verify_later(table, PASS_PAUSE_MS);
	else if ((counter = compact_open(table, all_owners)) != NULL && bound_lock(table, false))
		result = verify_verify(&read, counter, all_owners);
	MemoryContextSwitchTo(old);
	MemoryContextDelete(cxt);
	return result;
}

/*
 * verify_later sets when the worker comes back to a table.
 */
static DcTableStep
verify_later(Oid table, int64 ms)
{
	DcVerifying *entry = relcached_enter(&verifying_cache, &table);

	entry->due = moment_in(ms);
	return TABLE_DONE;
}

/*
 * Return true if the expressions of a binding may be evaluated: by their owner, or,
 * by a worker, if they are harmless.
 */
static bool
pass_may_evaluate(DcSourceRead *read, bool all_owners)
{
	DcVerifying *entry = relcached_enter(&verifying_cache, &read->row.counter);
	Relation source;
	bool harmless;

	if (!all_owners)
		return compat_owns_relation(read->row.source, GetUserId());
	if (dc_worker_runs_owner_code || superuser_arg(relation_owner(read->row.source)))
		return true;
	source = table_open_present(read->row.source, NoLock);
	harmless = source_is_harmless(&read->row, source);
	table_close(source, NoLock);
	if (!harmless && !entry->left)
		ownercode_log(read->row.counter, _("an expression of its binding"));
	entry->left = !harmless;
	return harmless;
}

/*
 * verify_verify makes a step, with all locks taken.
 */
static DcTableStep
verify_verify(DcSourceRead *read, DcCounter *counter, bool all_owners)
{
	DcVerified done = {0};
	DcSourceStateRow state;
	DcVerifyHow how;
	DcPass pass;
	bool repair;
	bool same_epoch;
	bool ended;

	if (!source_read_begin(read, counter, true))
		return verify_later(read->counter_id, PASS_LOOK_MS);
	how = read->state.state != DC_SOURCE_BUILDING ? verify_how(read) : VERIFY_NOT;
	pass_read(&read->state, &pass);
	if (how == VERIFY_NOT || !compare_source(read, how, &pass, &done))
	{
		source_read_end(read);
		return verify_later(read->counter_id, read->state.state == DC_SOURCE_BUILDING ? PASS_LOOK_MS : PASS_PAUSE_MS);
	}
	done.counted = done.end && source_triggers_fire(read->members, read->row.replicated, read->snapshot);
	repair = read->row.on_drift == DC_DRIFT_REPAIR && done.drifts.n > 0;
	same_epoch = pass.epoch == read->state.epoch;
	if (repair)
	{
		Datum *keys = palloc(done.drifts.n * sizeof(Datum));

		for (int i = 0; i < done.drifts.n; i++)
			keys[i] = key_text_datum(&done.drifts.diffs[i].key);
		build_keys(read, keys, done.drifts.n, done.drifts.diffs, done.drifts.n);
	}
	source_read_end(read);
	if (!source_state_read(read->counter_id, &state))
		elog(ERROR, "no state of counter table %u", read->counter_id);
	if (same_epoch)
		pass.epoch = state.epoch; /* which the repair has changed */
	ended = verify_note(read, &pass, &done, &state, repair);
	source_state_store(&state);
	return verify_pay(read->counter_id, done.rows + done.keys, all_owners, ended);
}

/*
 * compare_source compares the next keys; false if that takes too long.
 */
static bool
compare_source(DcSourceRead *read, DcVerifyHow how, DcPass *pass, DcVerified *done)
{
	if (how == VERIFY_BY_SCAN)
	{
		pass->phase = 2; /* it is all */
		pass->to = NULL;
		return verify_all_keys(read, done);
	}
	if (pass->phase == 1)
		verify_counter_keys(read, pass->to, step_rows(), done);
	else
		verify_source_keys(read, pass->to, may_make_exact(pass, &read->state), step_rows(), done);
	return true;
}

/*
 * Return true if the end of the pass may make the state exact, by what it has found so far.
 */
static bool
may_make_exact(const DcPass *pass, const DcSourceStateRow *state)
{
	return state->state != DC_SOURCE_EXACT && pass->left == 0 && pass->epoch == state->epoch;
}

/*
 * verify_note notes what a step has found, and how far it has come. Returns true if that was the
 * end of the pass.
 */
static bool
verify_note(DcSourceRead *read, DcPass *pass, const DcVerified *done, DcSourceStateRow *state, bool repaired)
{
	const DcDrifts *drifts = &done->drifts;
	int64 left = drifts->total - (repaired ? drifts->n : 0);

	if (drifts->total > 0)
		note_drifts(read, pass, drifts, state, repaired);
	state->keys_checked += done->keys;
	state->rows_checked += done->rows;
	state->repaired += drifts->total - left;
	if (left > 0)
		state->state = DC_SOURCE_DRIFTED;
	if (left > 0 && concerns_build(drifts, state))
	{
		state->built_to = NULL;
		state->epoch++;
	}
	pass->found += drifts->total;
	pass->repaired += drifts->total - left;
	pass->left += left + done->left_out;
	if (!done->end)
		pass->to = done->last != NULL ? done->last : pass->to;
	else if (pass->phase == 1)
	{
		pass->phase = 2;
		pass->to = NULL;
	}
	else
	{
		pass_end(read, pass, done->counted, state);
		return true;
	}
	state->pass_to = pass_text(pass);
	return false;
}

/*
 * note_drifts notes differences, if they are new ones.
 */
static void
note_drifts(DcSourceRead *read, DcPass *pass, const DcDrifts *drifts, DcSourceStateRow *state, bool repaired)
{
	/* its own repairs have repaired none of these */
	int64 epoch = pass->epoch == state->epoch ? pass->began : read->state.epoch;
	DcDrifts new = *drifts;

	new.diffs = palloc(Max(drifts->n, 1) * sizeof(DcSourceDiff));
	memcpy(new.diffs, drifts->diffs, drifts->n * sizeof(DcSourceDiff));
	if (pass->known < 0)
		pass->known = drift_count(read->counter_id, epoch);
	drift_new(read->counter_id, epoch, pass->known, &new);
	state->drifted_keys += new.total;
	state->drift_sum = DatumGetNumeric(DirectFunctionCall2(numeric_add, NumericGetDatum(state->drift_sum),
														   NumericGetDatum(new.sum)));
	if (new.total > 0)
		state->last_drift_at = GetCurrentTimestamp();
	if (repaired)
		new = *drifts;
	drift_note(read->counter_id, epoch, &new, repaired);
	drift_events(read->counter_id, &new, MAX_EVENTS - pass->found, repaired);
	if (new.n > 0)
		drift_notify(read->counter_id);
}

/*
 * Return true if one of some differences is in a key that the current build has finished. The build
 * then has to begin again.
 */
static bool
concerns_build(const DcDrifts *drifts, const DcSourceStateRow *state)
{
	if (state->built_to == NULL)
		return false;
	for (int i = 0; i < drifts->n; i++)
	{
		const DcKey *key = &drifts->diffs[i].key;

		if (bytes_compare(key->data, key->len, state->built_to, strlen(state->built_to)) <= 0)
			return true;
	}
	return drifts->n < drifts->total;
}

/*
 * pass_end ends a pass, in whose last snapshot the triggers fired, or did not (counted).
 */
static void
pass_end(DcSourceRead *read, const DcPass *pass, bool counted, DcSourceStateRow *state)
{
	state->pass_to = NULL;
	state->passes++;
	state->last_pass = GetCurrentTimestamp();
	if (may_make_exact(pass, state) && counted)
		state->state = DC_SOURCE_EXACT;
	if (pass->found > 0)
		drift_warn(&read->row, pass->found, pass->repaired);
}

/*
 * step_rows returns about how many rows a step reads.
 */
static int64
step_rows(void)
{
	return Max(dc_verify_rate, MIN_STEP_ROWS);
}

/*
 * Return when the next step on a table of an owner may be made.
 */
static DcMoment *
debt_of(Oid owner)
{
	HASHCTL ctl = {.keysize = sizeof(Oid), .entrysize = sizeof(DcVerifyDebt), .hcxt = TopMemoryContext};
	DcVerifyDebt *debt;
	bool found;

	if (debts == NULL)
		debts = hash_create("dcounter verify debts", 16, &ctl, HASH_ELEM | HASH_BLOBS | HASH_CONTEXT);
	debt = hash_search(debts, &owner, HASH_ENTER, &found);
	if (!found)
		debt->until = DC_LONG_AGO;
	return &debt->until;
}

/*
 * verify_pay notes what a step has cost, and says whether the next one may be made at once.
 */
static DcTableStep
verify_pay(Oid table, int64 cost, bool all_owners, bool ended)
{
	if (!all_owners)
	{
		spent += cost;
		return ended || spent >= dc_verify_rate ? TABLE_DONE : TABLE_GOES_ON;
	}
	budget = moment_after(moment_max(budget, moment_now()), Min(cost, step_rows()) * USECS_PER_SEC / Max(dc_verify_rate, 1));
	*debt_of(relation_owner(table)) = moment_in(cost * 1000 / Max(dc_verify_rate, 1));
	next_run = budget;
	return verify_later(table, ended ? PASS_PAUSE_MS : 0);
}

/*
 * pass_read reads how far the pass has come. A new one begins if none is under way, or if that
 * cannot be read: a user may have written it.
 */
static void
pass_read(const DcSourceStateRow *state, DcPass *pass)
{
	const char *text = state->pass_to != NULL ? state->pass_to : "";
	long long numbers[7];
	int length = -1;

	(void) sscanf(text, "%lld:%lld:%lld:%lld:%lld:%lld:%lld%n", &numbers[0], &numbers[1], &numbers[2], &numbers[3],
				  &numbers[4], &numbers[5], &numbers[6], &length);
	if (length < 0 || (text[length] != '\0' && text[length] != ':') || numbers[0] < 1 || numbers[0] > 2)
	{
		*pass = (DcPass){.phase = 1, .began = state->epoch, .epoch = state->epoch, .known = -1};
		return;
	}
	*pass = (DcPass){(int) numbers[0], numbers[1], numbers[2], numbers[3], numbers[4], numbers[5], numbers[6], NULL};
	if (text[length] == ':')
		pass->to = pstrdup(text + length + 1);
}

/*
 * Return a pass as it is stored in pass_to.
 */
static char *
pass_text(const DcPass *pass)
{
	return psprintf("%d:%lld:%lld:%lld:%lld:%lld:%lld%s%s", pass->phase, (long long) pass->began,
					(long long) pass->epoch, (long long) pass->found, (long long) pass->known, (long long) pass->repaired, (long long) pass->left,
					pass->to != NULL ? ":" : "", pass->to != NULL ? pass->to : "");
}
