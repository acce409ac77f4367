/*
 * sourcerow.c
 *		The catalogs dcounter.source and dcounter.source_state, the lock of a binding, and which
 *		tables belong to it.
 *
 * Copyright (c) 2026, the dcounter developers
 *
 * The bindings of a source are read in a snapshot that is taken at that moment: a writer
 * that missed one, as SnapshotSelf may when the row is being replaced (base/catrow.c),
 * would not count.
 */
#include "postgres.h"

#include "catalog/pg_type.h"
#include "commands/trigger.h"
#include "utils/builtins.h"
#include "utils/fmgroids.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"
#include "utils/snapmgr.h"

#include "base/compat.h"
#include "base/errors.h"
#include "base/lockclass.h"
#include "base/relopen.h"
#include "core/table/access.h"
#include "transactional/bound/bound.h"

PG_FUNCTION_INFO_V1(on_source_change);
PG_FUNCTION_INFO_V1(on_source_state_change);

#define SOURCE_COLUMN 2				 /* of dcounter.source, */
#define SOURCE_INDEX "source_source" /* which has an index, with the counter */
#define REFS_COLUMN 7
#define REFS_INDEX "source_refs"
#define CARRIED_COLUMN 8
#define CARRIED_INDEX "source_carried"

static const char *const build_names[] = {"worker", "none", "now"};
static const char *const detach_names[] = {"subtract", "keep"};
static const char *const drift_names[] = {"alarm", "repair"};
static const char *const state_names[] = {"building", "exact", "suspect", "drifted"};

static void source_columns_io(DcCatRow *io, void *data);
static void listed_columns_io(DcCatRow *io, void *data);
static void state_columns_io(DcCatRow *io, void *data);
static void nullable_string(DcCatRow *io, char **field);
static bool sourcerow_same_text(const char *a, const char *b);
static void source_invalidate(Oid source);

static const DcCatalog sources = {
	.table = "source",
	.pkey = "source_pkey",
	.nkeys = 1,
	.size = sizeof(DcSourceRow),
	.columns = source_columns_io,
	.tells = true,
};

static const DcCatalog listed_sources = {
	.table = "source",
	.size = sizeof(DcSourceRow),
	.columns = listed_columns_io,
};

static const DcCatalog states = {
	.table = "source_state",
	.pkey = "source_state_pkey",
	.nkeys = 1,
	.size = sizeof(DcSourceStateRow),
	.columns = state_columns_io,
};

/*
 * Read or write the columns of a row of dcounter.source.
 */
static void
source_columns_io(DcCatRow *io, void *data)
{
	DcSourceRow *row = data;

	cat_oid(io, &row->counter);
	cat_oid(io, &row->source);
	cat_string(io, &row->key);
	cat_string(io, &row->value);
	nullable_string(io, &row->filter);
	nullable_string(io, &row->distinct_of);
	cat_oid(io, &row->refs);
	cat_oid(io, &row->carried);
	row->build = cat_choice(io, row->build, build_names, lengthof(build_names));
	cat_bool(io, &row->replicated);
	row->on_detach = cat_choice(io, row->on_detach, detach_names, lengthof(detach_names));
	row->on_drift = cat_choice(io, row->on_drift, drift_names, lengthof(drift_names));
	row->xmin = io->xmin;
}

/*
 * Read the columns of a row of dcounter.source, except for the texts.
 */
static void
listed_columns_io(DcCatRow *io, void *data)
{
	DcSourceRow *row = data;

	cat_oid(io, &row->counter);
	cat_oid(io, &row->source);
	cat_skip(io, 4); /* key, value, filter, distinct_of */
	cat_oid(io, &row->refs);
	cat_oid(io, &row->carried);
	row->build = cat_choice(io, row->build, build_names, lengthof(build_names));
	cat_skip(io, io->desc->natts - io->column);
}

/*
 * Read or write the columns of a row of dcounter.source_state.
 */
static void
state_columns_io(DcCatRow *io, void *data)
{
	DcSourceStateRow *row = data;
	Datum sum = io->reading ? (Datum) 0 : NumericGetDatum(row->drift_sum);

	cat_oid(io, &row->counter);
	row->state = cat_choice(io, row->state, state_names, lengthof(state_names));
	cat_int8(io, &row->epoch);
	nullable_string(io, &row->built_to);
	nullable_string(io, &row->pass_to);
	cat_int8(io, &row->passes);
	cat_time(io, &row->last_pass);
	cat_int8(io, &row->keys_checked);
	cat_int8(io, &row->rows_checked);
	cat_int8(io, &row->drifted_keys);
	cat_datum(io, NUMERICOID, &sum);
	cat_not_null(io);
	row->drift_sum = DatumGetNumeric(sum);
	cat_int8(io, &row->repaired);
	cat_time(io, &row->last_drift_at);
}

/*
 * nullable_string reads or writes a text that may be null; what is read is a copy.
 */
static void
nullable_string(DcCatRow *io, char **field)
{
	Datum value = !io->reading && *field != NULL ? CStringGetTextDatum(*field) : (Datum) 0;

	cat_datum(io, TEXTOID, &value);
	if (io->reading)
		*field = value == (Datum) 0 ? NULL : TextDatumGetCString(value);
}

/*
 * source_read fetches the binding of a counter table; false when there is none.
 */
bool
source_read(Oid counter, DcSourceRow *row)
{
	return OidIsValid(catalog_relation_if_any(sources.table)) &&
		cat_read(&sources, row, ObjectIdGetDatum(counter));
}

/*
 * source_finds_siblings returns true if the extension's script has made the indexes for
 * source_read_by_sibling().
 */
bool
source_finds_siblings(void)
{
	return OidIsValid(catalog_relation_if_any(REFS_INDEX)) && OidIsValid(catalog_relation_if_any(CARRIED_INDEX));
}

/*
 * source_read_by_sibling fetches the binding that a table of reference counts or of carried amounts
 * belongs to; false if it is none.
 */
bool
source_read_by_sibling(Oid relid, DcSourceRow *row)
{
	Datum key = ObjectIdGetDatum(relid);

	return cat_read_by(&sources, row, REFS_INDEX, REFS_COLUMN, key) || cat_read_by(&sources, row, CARRIED_INDEX, CARRIED_COLUMN, key);
}

/*
 * Return true if a counter table has a binding.
 */
bool
source_is_bound(Oid counter)
{
	DcSourceRow row;

	return source_read(counter, &row);
}

/*
 * Read the row of a counter table as a snapshot shows it; false if there is none.
 */
static bool
read_in(const DcCatalog *cat, Oid counter, Snapshot snapshot, void *row)
{
	DcCatScan scan;
	ScanKeyData key;
	bool found;

	ScanKeyInit(&key, 1, BTEqualStrategyNumber, F_OIDEQ, ObjectIdGetDatum(counter));
	cat_scan_begin_ordered(&scan, cat, cat->pkey, snapshot, &key, 1);
	found = cat_scan_next(&scan, ForwardScanDirection, row);
	cat_scan_end(&scan);
	return found;
}

/*
 * source_read_in fetches the binding that a snapshot shows.
 */
bool
source_read_in(Oid counter, Snapshot snapshot, DcSourceRow *row)
{
	return read_in(&sources, counter, snapshot, row);
}

/*
 * source_rows_of lists the bindings of a source (DcSourceRow *), in the order of their counters.
 */
List *
source_rows_of(Oid source)
{
	return source_rows_most(source, INT_MAX);
}

/*
 * source_rows_most does the same, but stops when it has more than `most`.
 */
List *
source_rows_most(Oid source, int most)
{
	DcCatScan scan;
	ScanKeyData key;
	DcSourceRow *row = palloc(sizeof(DcSourceRow));
	List *rows = NIL;

	/* either may be gone while the extension is being dropped, with tables of others */
	if (!OidIsValid(catalog_relation_if_any(sources.table)) ||
		!OidIsValid(catalog_relation_if_any(SOURCE_INDEX)))
		return NIL;
	latest_snapshot_push();
	ScanKeyInit(&key, SOURCE_COLUMN, BTEqualStrategyNumber, F_OIDEQ, ObjectIdGetDatum(source));
	cat_scan_begin_ordered(&scan, &sources, SOURCE_INDEX, GetActiveSnapshot(), &key, 1);
	while (list_length(rows) <= most && cat_scan_next(&scan, ForwardScanDirection, row))
	{
		rows = lappend(rows, row);
		row = palloc(sizeof(DcSourceRow));
	}
	cat_scan_end(&scan);
	PopActiveSnapshot();
	return rows;
}

/*
 * source_list lists all bindings of the database (DcSourceRow *) with their tables and how they are
 * built. Their texts are left out: there may be very many bindings of any owner, with long texts.
 */
List *
source_list(void)
{
	return OidIsValid(catalog_relation_if_any(sources.table))
		? cat_read_all(&listed_sources, SnapshotSelf)
		: NIL;
}

/*
 * source_select lists the counter tables (OIDs) of the bindings for which a function returns true.
 * There may be very many, of any owner, with long texts: no more than one of them is in memory at a
 * time.
 */
List *
source_select(bool (*wanted)(const DcSourceRow *row, void *arg), void *arg)
{
	MemoryContext cxt;
	List *counters = NIL;
	DcCatScan scan;
	DcSourceRow row;

	if (!OidIsValid(catalog_relation_if_any(sources.table)))
		return NIL;
	cxt = AllocSetContextCreate(CurrentMemoryContext, "dcounter binding", ALLOCSET_DEFAULT_SIZES);
	cat_scan_begin(&scan, &sources, NULL, AccessShareLock, NULL, 0);
	while (cat_scan_next(&scan, ForwardScanDirection, &row))
	{
		char *const texts[] = {row.key, row.value, row.filter, row.distinct_of};
		MemoryContext old = MemoryContextSwitchTo(cxt);
		bool found;

		CHECK_FOR_INTERRUPTS();
		found = wanted(&row, arg);
		MemoryContextSwitchTo(old);
		MemoryContextReset(cxt);
		if (found)
			counters = lappend_oid(counters, row.counter);
		for (int i = 0; i < lengthof(texts); i++)
		{
			if (texts[i] != NULL)
				pfree(texts[i]);
		}
	}
	cat_scan_end(&scan);
	MemoryContextDelete(cxt);
	return counters;
}

/*
 * Add a binding, and have all sessions see it.
 */
void
source_insert(const DcSourceRow *row)
{
	cat_insert(&sources, row);
	source_invalidate(row->source);
}

/*
 * Replace a binding, which must exist, and have all sessions see the change.
 */
void
source_update(const DcSourceRow *row)
{
	if (!cat_update(&sources, row))
		elog(ERROR, "no source of counter table %u", row->counter);
	source_invalidate(row->source);
}

/*
 * source_delete removes a binding and its state; false when there is none.
 */
bool
source_delete(Oid counter)
{
	DcSourceRow row;

	if (!source_read(counter, &row))
		return false;
	(void) cat_delete(&states, ObjectIdGetDatum(counter));
	(void) cat_delete(&sources, ObjectIdGetDatum(counter));
	source_invalidate(row.source);
	return true;
}

/*
 * source_invalidate tells all sessions, at commit, that the bindings of a source have changed.
 */
static void
source_invalidate(Oid source)
{
	ListCell *lc;

	if (get_rel_relkind(source) != RELKIND_PARTITIONED_TABLE)
	{
		relation_invalidate(source);
		return;
	}
	foreach(lc, relation_members(source, NoLock))
		relation_invalidate(lfirst_oid(lc));
}

/*
 * bound_lock takes the lock of a binding, until the transaction ends; false if another session
 * holds it and `wait` is false.
 */
bool
bound_lock(Oid counter, bool wait)
{
	return advisory_lock(BOUND_LOCK_CLASS, counter, 0, ExclusiveLock, wait);
}

/*
 * Read the state of a bound counter table; false if it has none. Under the lock of the binding
 * it is the current one.
 */
bool
source_state_read(Oid counter, DcSourceStateRow *row)
{
	return cat_read(&states, row, ObjectIdGetDatum(counter));
}

/*
 * source_state_read_in fetches the state that a snapshot shows.
 */
bool
source_state_read_in(Oid counter, Snapshot snapshot, DcSourceStateRow *row)
{
	return read_in(&states, counter, snapshot, row);
}

/*
 * source_state_store writes a state, a new one or in place of the one that was read under the
 * lock of the binding.
 */
void
source_state_store(const DcSourceStateRow *row)
{
	if (!cat_update(&states, row))
		cat_insert(&states, row);
}

/*
 * source_state_change changes a state, under the lock of the binding, and with `new_epoch` says
 * that values were changed other than with rows of the source. A counter table that is being built
 * stays so unless it is found exact. If something may not have been counted, keys that are built
 * may be wrong: a build begins again, also one that is under way.
 */
void
source_state_change(Oid counter, DcSourceState state, bool new_epoch)
{
	DcSourceStateRow row;

	if (!source_state_read(counter, &row))
		return;
	if (row.state != DC_SOURCE_BUILDING || state == DC_SOURCE_EXACT)
		row.state = state;
	if (state == DC_SOURCE_SUSPECT || state == DC_SOURCE_DRIFTED)
	{
		new_epoch = true;
		row.built_to = NULL;
	}
	row.epoch += new_epoch;
	source_state_store(&row);
}

/*
 * Return the value of on_drift for its name; 22023 for an unknown one.
 */
DcOnDrift
on_drift_from_text(const char *value)
{
	return choice_from_text("on_drift", value, drift_names, lengthof(drift_names));
}

/*
 * Return the value of build for its name; 22023 for an unknown one.
 */
DcBuildBy
build_from_text(const char *value)
{
	return choice_from_text("build", value, build_names, lengthof(build_names));
}

/*
 * Return the value of on_detach for its name; 22023 for an unknown one.
 */
DcOnDetach
on_detach_from_text(const char *value)
{
	return choice_from_text("on_detach", value, detach_names, lengthof(detach_names));
}

/*
 * Return true if two rows say the same in SQL.
 */
bool
source_texts_equal(const DcSourceRow *a, const DcSourceRow *b)
{
	return sourcerow_same_text(a->key, b->key) && sourcerow_same_text(a->value, b->value) &&
		sourcerow_same_text(a->filter, b->filter) && sourcerow_same_text(a->distinct_of, b->distinct_of);
}

/*
 * Return true if two texts, which may be NULL, are the same.
 */
static bool
sourcerow_same_text(const char *a, const char *b)
{
	return a == NULL || b == NULL ? a == b : strcmp(a, b) == 0;
}

/*
 * Raise 55000: the counter table is not bound; or 42P01 if it was dropped in the meantime.
 */
void
not_bound_error(Oid counter)
{
	if (get_rel_name(counter) == NULL)
		relation_missing_error(counter);
	ereport(ERROR,
			(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
			 errmsg("\"%s\" is not bound to a source", get_rel_name(counter)),
			 errhint("Use dc_bind().")));
}

/*
 * sibling_check_owner raises 55000 if a table that belongs to a binding, which is locked, has
 * another owner than the counter table: rows are written to it as the counter's owner, and that
 * runs the triggers on it.
 */
void
sibling_check_owner(Oid counter, Oid sibling)
{
	if (relation_owner(sibling) == relation_owner(counter))
		return;
	ereport(ERROR,
			(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
			 errmsg("counter table \"%s\" and its table \"%s\" have different owners", get_rel_name(counter), get_rel_name(sibling)),
			 errhint("Use ALTER TABLE ... OWNER TO to give all of its tables to one role.")));
}

/*
 * source_lineage returns a table and all that it is a partition of, upwards. A partition that is
 * being detached concurrently is one until that is final: its rows are subtracted only then.
 */
List *
source_lineage(Oid relid)
{
	List *lineage = list_make1_oid(relid);

	/* the upper ones are not locked */
	while (get_rel_relispartition(relid) && OidIsValid(relid = relation_partition_parent(relid)))
		lineage = lappend_oid(lineage, relid);
	return lineage;
}

/*
 * source_leaves locks a table and its partitions, and returns those that have rows.
 */
List *
source_leaves(Oid relid, LOCKMODE mode)
{
	List *leaves = NIL;
	ListCell *lc;

	foreach(lc, relation_members(relid, mode))
	{
		if (get_rel_relkind(lfirst_oid(lc)) != RELKIND_PARTITIONED_TABLE)
			leaves = lappend_oid(leaves, lfirst_oid(lc));
	}
	/* children of a table that is no partition of theirs are not part of the source */
	return get_rel_relkind(relid) == RELKIND_PARTITIONED_TABLE ? leaves : list_make1_oid(relid);
}

/*
 * on_source_change() -> trigger on dcounter.source
 */
Datum
on_source_change(PG_FUNCTION_ARGS)
{
	Datum result = cat_on_change(fcinfo, &sources, "on_source_change()");
	TriggerData *data = (TriggerData *) fcinfo->context;
	DcSourceRow row;

	if (cat_deform(&sources, RelationGetDescr(data->tg_relation),
				   TRIGGER_FIRED_BY_UPDATE(data->tg_event) ? data->tg_newtuple : data->tg_trigtuple, &row))
		source_invalidate(row.source);
	return result;
}

/*
 * on_source_state_change() -> trigger on dcounter.source_state
 */
Datum
on_source_state_change(PG_FUNCTION_ARGS)
{
	return cat_on_change(fcinfo, &states, "on_source_state_change()");
}
