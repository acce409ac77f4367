/*
 * regions.c
 *		dc_regions(): what is known of the regions.
 *
 * It reads dcounter.self and dcounter.region, which anybody may read, and the server's views of
 * subscriptions. The link from a region is the subscription that dc_region_join() makes; one that has another name
 * is not known to be that region's.
 */
#include "postgres.h"

#include "base/args.h"
#include "base/compat.h"
#include "base/rowread.h"
#include "base/runas.h"
#include "catalog/pg_type.h"
#include "executor/spi.h"
#include "fmgr.h"
#include "funcapi.h"
#include "region/life.h"
#include "region/link.h"
#include "utils/builtins.h"
#include "utils/guc.h"
#include "utils/timestamp.h"

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
	NUM_COLUMNS
};

static int by_region(const ListCell *a, const ListCell *b);
static const char *own_state(const DcSelfRow *self, const DcBeat *beat);
static void link_columns(const char *region, Datum *values, bool *nulls);

/*
 * dc_regions() -> setof (region, epochs, state, beat_at, lag, seen_by_all_to, link_state, apply_errors)
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
	ListCell *lc;

	InitMaterializedSRF(fcinfo, 0);
	list_sort(current, by_region);
	foreach(lc, current)
	{
		const DcBeat *beat = lfirst(lc);
		bool own = member && strcmp(beat->region, self.region) == 0;
		TimestampTz seen = region_seen_by_all(beat->region);
		Datum values[NUM_COLUMNS] = {0};
		bool nulls[NUM_COLUMNS] = {false};
		int epochs = 0;
		ListCell *lc2;

		foreach(lc2, beats)
			epochs += strcmp(((DcBeat *) lfirst(lc2))->region, beat->region) == 0;
		values[COL_REGION] = CStringGetTextDatum(beat->region);
		values[COL_EPOCHS] = Int32GetDatum(epochs);
		values[COL_STATE] = CStringGetTextDatum(!beat_is_active(beat) ? "retired" : own ? own_state(&self, beat)
													: seen_is_behind(beat)				? "behind"
																						: "active");
		nulls[COL_BEAT_AT] = nulls[COL_LAG] = beat->beat_at == 0;
		values[COL_BEAT_AT] = TimestampTzGetDatum(beat->beat_at);
		values[COL_LAG] = DirectFunctionCall2(timestamp_mi, TimestampTzGetDatum(Max(now, beat->beat_at)), TimestampTzGetDatum(beat->beat_at));
		nulls[COL_SEEN_BY_ALL_TO] = seen == DT_NOBEGIN;
		values[COL_SEEN_BY_ALL_TO] = TimestampTzGetDatum(seen);
		nulls[COL_LINK_STATE] = nulls[COL_APPLY_ERRORS] = true;
		if (!own)
			link_columns(beat->region, values, nulls);
		tuplestore_putvalues(result->setResult, result->setDesc, values, nulls);
	}
	return (Datum) 0;
}

static int
by_region(const ListCell *a, const ListCell *b)
{
	return strcmp(((const DcBeat *) lfirst(a))->region, ((const DcBeat *) lfirst(b))->region);
}

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

static void
link_columns(const char *region, Datum *values, bool *nulls)
{
	static const DcResultColumn columns[] = {DC_BIGINT("workers"), DC_BIGINT("errors"), {0}};
	static const char *const sql =
		"SELECT (SELECT count(s.pid) FROM pg_catalog.pg_stat_get_subscription($1) AS s WHERE s.relid IS NULL),"
		" coalesce((SELECT s.apply_error_count + s.sync_error_count FROM pg_catalog.pg_stat_get_subscription_stats($1) AS s), 0)";
	Subscription *link = link_find(psprintf(LINK_PREFIX "%s", region));
	Oid type = OIDOID;
	Datum value;
	DcRows rows;
	const char *state;
	int level;
	int64 errors;

	if (link == NULL)
		return;
	value = ObjectIdGetDatum(link->oid);
	level = search_path_pin();
	SPI_connect();
	if (SPI_execute_with_args(sql, 1, &type, &value, NULL, true, 1) != SPI_OK_SELECT)
		elog(ERROR, "SPI_execute_with_args failed");
	rows_take(&rows, columns, InvalidOid);
	state = !link->enabled ? "disabled" : rows_bigint(&rows, 0, 1) == 0 ? "down"
		: link_not_copied(link) > 0										? "copying"
																		: "up";
	errors = rows_bigint(&rows, 0, 2);
	SPI_finish();
	AtEOXact_GUC(true, level);
	values[COL_LINK_STATE] = CStringGetTextDatum(state);
	values[COL_APPLY_ERRORS] = Int64GetDatum(errors);
	nulls[COL_LINK_STATE] = nulls[COL_APPLY_ERRORS] = false;
}
