/*
 * regions.c
 *		dc_regions(): the regions, as this database knows them.
 *
 * Copyright (c) 2026, the dcounter developers
 *
 * It reads dcounter.self and dcounter.region, which anybody may read, and the server's views of
 * subscriptions. The link from a region is the subscription that dc_region_join() makes; a
 * subscription of another name is not attributed to a region.
 */
#include "postgres.h"

#include "catalog/pg_type.h"
#include "executor/spi.h"
#include "fmgr.h"
#include "funcapi.h"
#include "utils/builtins.h"
#include "utils/guc.h"
#include "utils/timestamp.h"

#include "base/args.h"
#include "base/compat.h"
#include "base/rowread.h"
#include "base/runas.h"
#include "region/life.h"
#include "region/link.h"

PG_FUNCTION_INFO_V1(dc_regions);

enum
{
	COL_REGION,
	COL_EPOCHS,
	COL_STATE,
	COL_BEAT_AT,
	COL_LAG,
	COL_SEEN_BY_ALL_TO,
	COL_LINK_STATE,
	COL_APPLY_ERRORS,
	COL_ADVICE, /* not before 0.2.0, nor is the next one */
	COL_CONFLICTS,
	NUM_COLUMNS
};

static int by_region(const ListCell *a, const ListCell *b);
static bool is_retired(const DcSelfRow *self, List *current);
static const char *state_of(const DcBeat *beat, const DcSelfRow *self);
static const char *own_state(const DcSelfRow *self, const DcBeat *beat);
static void look_at_link(DcRegionLook *look);
static void regions_put_text(Datum *values, bool *nulls, int column, const char *value);

/*
 * dc_regions() -> setof (region, epochs, state, beat_at, lag, seen_by_all_to, link_state,
 * apply_errors, advice, conflicts)
 */
Datum
dc_regions(PG_FUNCTION_ARGS)
{
	ReturnSetInfo *result = (ReturnSetInfo *) fcinfo->resultinfo;
	TimestampTz now = GetCurrentTimestamp();
	List *beats = beats_all();
	List *current = beats_current(beats);
	DcSelfRow self;
	bool member = self_read(&self);
	bool advised = member && !is_retired(&self, current);
	ListCell *lc;

	InitMaterializedSRF(fcinfo, 0);
	list_sort(current, by_region);
	foreach(lc, current)
	{
		const DcBeat *beat = lfirst(lc);
		TimestampTz seen = region_seen_by_all(beat->region);
		TimestampTz until = Max(now, beat->beat_at);
		DcRegionLook look = {.region = beat->region, .own = member ? self.region : NULL, .state = state_of(beat, member ? &self : NULL)};
		Datum values[NUM_COLUMNS] = {0};
		bool nulls[NUM_COLUMNS] = {false};
		int epochs = 0;
		ListCell *lc2;

		foreach(lc2, beats)
			epochs += strcmp(((DcBeat *) lfirst(lc2))->region, beat->region) == 0;
		look.late_ms = beat->beat_at == 0 ? 0 : (until - beat->beat_at) / 1000;
		look_at_link(&look);
		values[COL_EPOCHS] = Int32GetDatum(epochs);
		nulls[COL_BEAT_AT] = nulls[COL_LAG] = beat->beat_at == 0;
		values[COL_BEAT_AT] = TimestampTzGetDatum(beat->beat_at);
		values[COL_LAG] = DirectFunctionCall2(timestamp_mi, TimestampTzGetDatum(until), TimestampTzGetDatum(beat->beat_at));
		nulls[COL_SEEN_BY_ALL_TO] = seen == DT_NOBEGIN;
		values[COL_SEEN_BY_ALL_TO] = TimestampTzGetDatum(seen);
		nulls[COL_APPLY_ERRORS] = look.link == NULL;
		values[COL_APPLY_ERRORS] = Int64GetDatum(look.apply_errors);
		nulls[COL_CONFLICTS] = look.link == NULL || look.conflicts < 0;
		values[COL_CONFLICTS] = Int64GetDatum(look.conflicts);
		regions_put_text(values, nulls, COL_REGION, look.region);
		regions_put_text(values, nulls, COL_STATE, look.state);
		regions_put_text(values, nulls, COL_LINK_STATE, look.link_state);
		regions_put_text(values, nulls, COL_ADVICE, advised ? region_advice(&look) : NULL);
		tuplestore_putvalues(result->setResult, result->setDesc, values, nulls);
	}
	return (Datum) 0;
}

/*
 * Set a text column of the result; NULL stands for NULL.
 */
static void
regions_put_text(Datum *values, bool *nulls, int column, const char *value)
{
	nulls[column] = value == NULL;
	if (value != NULL)
		values[column] = CStringGetTextDatum(value);
}

/*
 * Compare two heartbeats by the regions' names, for list_sort().
 */
static int
by_region(const ListCell *a, const ListCell *b)
{
	return strcmp(((const DcBeat *) lfirst(a))->region, ((const DcBeat *) lfirst(b))->region);
}

/*
 * is_retired returns true if this database's region is.
 */
static bool
is_retired(const DcSelfRow *self, List *current)
{
	ListCell *lc;

	foreach(lc, current)
	{
		const DcBeat *beat = lfirst(lc);

		if (strcmp(beat->region, self->region) == 0 && strcmp(state_of(beat, self), "retired") == 0)
			return true;
	}
	return false;
}

/*
 * state_of returns the state of a region; self: this database, or NULL if it is in no region.
 */
static const char *
state_of(const DcBeat *beat, const DcSelfRow *self)
{
	if (!beat_is_active(beat))
		return "retired";
	if (self != NULL && strcmp(beat->region, self->region) == 0)
		return own_state(self, beat);
	return seen_is_behind(beat) ? "behind" : "active";
}

/*
 * Return the state of this database, as dc_regions() shows it.
 */
static const char *
own_state(const DcSelfRow *self, const DcBeat *beat)
{
	DcSelfMarks marks;

	self_marks(self, &marks);
	if (marks.retired)
		return "retired";
	if (self_needs_renew(self))
		return "renew";
	if (self->starting || (!RecoveryInProgress() && !self_is_begun(self)))
		return "starting";
	if (self->state == SELF_RECOPY || marks.recopy)
		return "recopy";
	return seen_is_behind(beat) ? "behind" : "active";
}

/*
 * look_at_link finds the link from a region, and its state.
 */
static void
look_at_link(DcRegionLook *look)
{
	static const DcResultColumn columns[] = {DC_BIGINT("workers"), DC_BIGINT("errors"), DC_NULLABLE("conflicts", INT8OID), {0}};
	static const char *const sql =
		"SELECT (SELECT count(s.pid) FROM pg_catalog.pg_stat_get_subscription($1) AS s WHERE s.relid IS NULL),"
		" coalesce((SELECT s.apply_error_count + " COMPAT_SYNC_ERRORS " FROM pg_catalog.pg_stat_get_subscription_stats($1) AS s), 0),"
		" (SELECT " COMPAT_CONFLICTS " FROM pg_catalog.pg_stat_get_subscription_stats($1) AS s)";
	bool own = look->own != NULL && strcmp(look->region, look->own) == 0;
	Subscription *link = own ? NULL : link_find(psprintf(LINK_PREFIX "%s", look->region));
	Oid type = OIDOID;
	Datum value;
	DcRows rows;
	bool uncounted;
	int level;

	if (link == NULL)
		return;
	value = ObjectIdGetDatum(link->oid);
	level = search_path_pin();
	SPI_connect();
	if (SPI_execute_with_args(sql, 1, &type, &value, NULL, true, 1) != SPI_OK_SELECT)
		elog(ERROR, "SPI_execute_with_args failed");
	rows_take(&rows, columns, InvalidOid);
	look->link = link;
	look->link_state = !link->enabled ? "disabled" : rows_bigint(&rows, 0, 1) == 0 ? "down"
		: link_not_copied(link) > 0												   ? "copying"
																				   : "up";
	look->apply_errors = rows_bigint(&rows, 0, 2);
	value = rows_nullable(&rows, 0, 3, &uncounted);
	look->conflicts = uncounted ? -1 : DatumGetInt64(value);
	SPI_finish();
	AtEOXact_GUC(true, level);
}
