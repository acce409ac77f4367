/*
 * seen.c
 *		Knowledge of regions about each other: column seen of their heartbeats.
 *
 * Copyright (c) 2026, the dcounter developers
 *
 *		{"us": [epoch, seq, boot, beat_at, retired_at], ...}
 *
 * for each region that this one knows, about its latest epoch. Times are us since 1970, or null. A
 * region that may have missed rows (state recopy) sends no beat_at, which would say that it has
 * everything from before.
 *
 * Besides, "!aside" has the names of counters that the region has put aside (unpublished.c), if
 * there are any: the heartbeat's times do not hold for these.
 *
 * A region that waits for the others to confirm that it lacks nothing (renew.c) also sends since
 * when: "!since". For such a region, the others send what they know of its earlier epochs since
 * then, as one more element:
 *
 *		{"us": [epoch, seq, boot, beat_at, retired_at, [[epoch, seq, boot], ...]], ...}
 *
 * All others also pass on that a region is retired, as nobody sends its own rows any longer
 * (retire.c).
 *
 * A region is active if its latest epoch is not retired. Regions wait for active ones at a start
 * (boot.c), before something is finally removed (region_seen_by_all), and when a region that is
 * alive is retired.
 */
#include "postgres.h"

#include "common/int.h"
#include "lib/stringinfo.h"
#include "utils/builtins.h"
#include "utils/json.h"
#include "utils/jsonb.h"
#include "utils/timestamp.h"

#include "base/compat.h"
#include "region/life.h"

/* Not the name of a region. */
#define ASIDE "!aside"
#define SINCE "!since"

static void append_past(StringInfo buf, const List *beats, const DcBeat *asks);
static bool get_seen(JsonbContainer *array, DcSeen *seen);
static void append_aside(StringInfo buf, Datum before, List *const *aside);
static char *names_json(const List *names);
static JsonbValue *seen_array_of(Jsonb *seen, const char *name);
static void append_time(StringInfo buf, TimestampTz at);
static bool get_int8(JsonbContainer *array, uint32 i, int64 *value);
static TimestampTz get_time(JsonbContainer *array, uint32 i);
static bool has_seen(const DcBeat *of, const DcBeat *what, TimestampTz *at);

/*
 * region_has_others returns true if another region is known that is not retired.
 */
bool
region_has_others(const char *own)
{
	ListCell *lc;

	foreach(lc, beats_current(beats_all()))
	{
		const DcBeat *beat = lfirst(lc);

		if (beat_is_active(beat) && strcmp(beat->region, own) != 0)
			return true;
	}
	return false;
}

/*
 * beats_current returns of each region the row of its latest epoch.
 */
List *
beats_current(List *beats)
{
	List *current = NIL;
	ListCell *lc;

	foreach(lc, beats)
	{
		DcBeat *beat = lfirst(lc);
		ListCell *lc2;
		bool known = false;

		foreach(lc2, current)
		{
			DcBeat *other = lfirst(lc2);

			if (strcmp(other->region, beat->region) != 0)
				continue;
			known = true;
			/* of a row that was being replaced, both versions may have been read */
			if (beat->epoch > other->epoch || (beat->epoch == other->epoch && beat->seq > other->seq))
				lfirst(lc2) = beat;
		}
		if (!known)
			current = lappend(current, beat);
	}
	return current;
}

/*
 * Return true if the heartbeat's epoch is not retired.
 */
bool
beat_is_active(const DcBeat *beat)
{
	return beat->retired_at == 0;
}

/*
 * seen_now returns what this database knows of the others; `before`: what it has sent before, or 0;
 * `aside`: names of the counters that are put aside, NULL: this process has not looked.
 */
Datum
seen_now(const DcSelfRow *self, Datum before, List *const *aside)
{
	List *beats = beats_all();
	DcSelfMarks marks;
	bool complete;
	StringInfoData buf;
	ListCell *lc;
	Datum jsonb;

	self_marks(self, &marks);
	complete = self->state == SELF_ACTIVE && !marks.recopy;
	initStringInfo(&buf);
	appendStringInfoChar(&buf, '{');
	foreach(lc, beats_current(beats))
	{
		const DcBeat *beat = lfirst(lc);

		if (strcmp(beat->region, self->region) == 0)
			continue;
		if (buf.len > 1)
			appendStringInfoChar(&buf, ',');
		escape_json(&buf, beat->region);
		appendStringInfo(&buf, ":[" INT64_FORMAT "," INT64_FORMAT ",\"%s\",", beat->epoch, beat->seq, boot_text(beat->boot));
		append_time(&buf, complete ? beat->beat_at : 0);
		appendStringInfoChar(&buf, ',');
		append_time(&buf, beat->retired_at);
		append_past(&buf, beats, beat);
		appendStringInfoChar(&buf, ']');
	}
	if (self->state == SELF_RECOPY && marks.since != DT_NOBEGIN)
	{
		appendStringInfo(&buf, "%s\"" SINCE "\":[", buf.len > 1 ? "," : "");
		append_time(&buf, marks.since);
		appendStringInfoChar(&buf, ']');
	}
	append_aside(&buf, before, aside);
	appendStringInfoChar(&buf, '}');
	(void) compat_jsonb_in(buf.data, NULL, &jsonb);
	return jsonb;
}

/*
 * append_past appends what is known of the earlier epochs of a region that asks for that.
 */
static void
append_past(StringInfo buf, const List *beats, const DcBeat *asks)
{
	JsonbValue *since = asks->seen == (Datum) 0 ? NULL : seen_array_of(DatumGetJsonbP(asks->seen), SINCE);
	const char *separator = "";
	TimestampTz from;
	ListCell *lc;

	if (since == NULL || (from = get_time(since->val.binary.data, 0)) == 0)
		return;
	appendStringInfoString(buf, ",[");
	foreach(lc, beats)
	{
		const DcBeat *beat = lfirst(lc);

		if (strcmp(beat->region, asks->region) != 0 || beat->epoch >= asks->epoch || epoch_time(beat->epoch) < from)
			continue;
		appendStringInfo(buf, "%s[" INT64_FORMAT "," INT64_FORMAT ",\"%s\"]", separator, beat->epoch, beat->seq, boot_text(beat->boot));
		separator = ",";
	}
	appendStringInfoChar(buf, ']');
}

/*
 * append_aside appends the counters that are put aside. A process that has not looked repeats what
 * was sent before.
 */
static void
append_aside(StringInfo buf, Datum before, List *const *aside)
{
	JsonbValue *told = before == (Datum) 0 ? NULL : seen_array_of(DatumGetJsonbP(before), ASIDE);
	char *text = NULL;

	if (aside != NULL && *aside != NIL)
		text = names_json(*aside);
	else if (aside == NULL && told != NULL)
		text = JsonbToCString(NULL, told->val.binary.data, told->val.binary.len);
	if (text != NULL)
		appendStringInfo(buf, "%s\"" ASIDE "\":%s", buf->len > 1 ? "," : "", text);
}

/*
 * Return names as the text of a JSON array.
 */
static char *
names_json(const List *names)
{
	StringInfoData buf;
	ListCell *lc;

	initStringInfo(&buf);
	foreach(lc, names)
	{
		appendStringInfoChar(&buf, buf.len == 0 ? '[' : ',');
		escape_json(&buf, lfirst(lc));
	}
	appendStringInfoChar(&buf, ']');
	return buf.data;
}

/*
 * seen_array_of returns the array or object of a name, or NULL.
 */
static JsonbValue *
seen_array_of(Jsonb *seen, const char *name)
{
	JsonbValue *value;

	if (!JB_ROOT_IS_OBJECT(seen))
		return NULL;
	value = getKeyJsonValueFromContainer(&seen->root, name, (int) strlen(name), NULL);
	return value != NULL && value->type == jbvBinary ? value : NULL;
}

/*
 * seen_is_behind returns true if the sender of a heartbeat has put counters aside.
 */
bool
seen_is_behind(const DcBeat *beat)
{
	return beat->seen != (Datum) 0 && seen_array_of(DatumGetJsonbP(beat->seen), ASIDE) != NULL;
}

/*
 * seen_aside returns true if the sender of a heartbeat has put the counter of a name aside.
 */
bool
seen_aside(const DcBeat *beat, const char *name)
{
	JsonbValue key = {.type = jbvString, .val.string = {(int) strlen(name), unconstify(char *, name)}};
	JsonbValue *aside = beat->seen == (Datum) 0 ? NULL : seen_array_of(DatumGetJsonbP(beat->seen), ASIDE);

	return aside != NULL && JsonContainerIsArray(aside->val.binary.data) &&
		findJsonbValueFromContainer(aside->val.binary.data, JB_FARRAY, &key) != NULL;
}

/*
 * Append a time as microseconds since 1970, or null for 0.
 */
static void
append_time(StringInfo buf, TimestampTz at)
{
	if (at == 0)
		appendStringInfoString(buf, "null");
	else
		appendStringInfo(buf, INT64_FORMAT, Min(at, PG_INT64_MAX - EPOCH_DIFF) + EPOCH_DIFF); /* or by hand */
}

/*
 * seen_get sets what the sender of a heartbeat knows of a region; false if nothing, or it cannot be
 * parsed.
 */
bool
seen_get(const DcBeat *beat, const char *region, DcSeen *seen)
{
	JsonbValue *value = beat->seen == (Datum) 0 ? NULL : seen_array_of(DatumGetJsonbP(beat->seen), region);

	if (value == NULL || !get_seen(value->val.binary.data, seen))
		return false;
	seen->beat_at = get_time(value->val.binary.data, 3);
	seen->retired_at = get_time(value->val.binary.data, 4);
	return true;
}

/*
 * seen_past sets what the sender of a heartbeat knows of the earlier epochs of a region that asks
 * for that; false if it says nothing about them, or that cannot be parsed.
 */
bool
seen_past(const DcBeat *beat, const char *region, List **past)
{
	JsonbValue *value = beat->seen == (Datum) 0 ? NULL : seen_array_of(DatumGetJsonbP(beat->seen), region);
	JsonbContainer *array;

	*past = NIL;
	if (value == NULL || !JsonContainerIsArray(value->val.binary.data) ||
		(value = getIthJsonbValueFromContainer(value->val.binary.data, 5)) == NULL ||
		value->type != jbvBinary || !JsonContainerIsArray(value->val.binary.data))
		return false;
	array = value->val.binary.data;
	for (uint32 i = 0; i < JsonContainerSize(array); i++)
	{
		DcSeen *seen = palloc(sizeof(DcSeen));

		value = getIthJsonbValueFromContainer(array, i);
		if (value == NULL || value->type != jbvBinary || !get_seen(value->val.binary.data, seen))
			return false;
		*past = lappend(*past, seen);
	}
	return true;
}

/*
 * get_seen reads the first elements of an array: an epoch, a number and a boot.
 */
static bool
get_seen(JsonbContainer *array, DcSeen *seen)
{
	JsonbValue *value;

	*seen = (DcSeen){0};
	if (!JsonContainerIsArray(array))
		return false;
	if (!get_int8(array, 0, &seen->epoch) || !get_int8(array, 1, &seen->seq))
		return false;
	value = getIthJsonbValueFromContainer(array, 2);
	if (value == NULL || value->type != jbvString || value->val.string.len > BOOT_TEXT_LEN)
		return false;
	memcpy(seen->boot, value->val.string.val, value->val.string.len);
	return true;
}

/*
 * seen_regions returns the names of the regions that the column of a heartbeat has.
 */
List *
seen_regions(const DcBeat *beat)
{
	List *names = NIL;
	JsonbIterator *iter;
	JsonbIteratorToken token;
	JsonbValue value;

	if (beat->seen == (Datum) 0 || !JB_ROOT_IS_OBJECT(DatumGetJsonbP(beat->seen)))
		return NIL;
	iter = JsonbIteratorInit(&DatumGetJsonbP(beat->seen)->root);
	while ((token = JsonbIteratorNext(&iter, &value, true)) != WJB_DONE)
	{
		if (token == WJB_KEY)
			names = lappend(names, pnstrdup(value.val.string.val, value.val.string.len));
	}
	return names;
}

/*
 * Read an element of a JSON array as a bigint; false if it is none.
 */
static bool
get_int8(JsonbContainer *array, uint32 i, int64 *value)
{
	JsonbValue *item = getIthJsonbValueFromContainer(array, i);
	char *text;
	char *end;

	if (item == NULL || item->type != jbvNumeric)
		return false;
	text = DatumGetCString(DirectFunctionCall1(numeric_out, NumericGetDatum(item->val.numeric)));
	errno = 0;
	*value = strtoi64(text, &end, 10);
	return errno == 0 && *end == '\0';
}

/*
 * Return an element of a JSON array as a time; 0 if it is none, or null.
 */
static TimestampTz
get_time(JsonbContainer *array, uint32 i)
{
	int64 us;

	if (!get_int8(array, i, &us) || pg_sub_s64_overflow(us, EPOCH_DIFF, &us) || !IS_VALID_TIMESTAMP(us))
		return 0;
	return us;
}

/*
 * region_seen_by_all returns a time: as far as this database knows, each active region has
 * everything that a region had committed before it. DT_NOBEGIN if that is not known of some region;
 * DT_NOEND if nothing more will come, as the region is retired and all have its last heartbeat.
 */
TimestampTz
region_seen_by_all(const char *region)
{
	List *current = beats_current(beats_all());
	TimestampTz least = DT_NOEND;
	TimestampTz most = DT_NOBEGIN;
	const DcBeat *what = NULL;
	DcIdentity self;
	DcSelfRow row;
	DcSelfMarks marks;
	ListCell *lc;

	if (!region_self(&self) || !self_read(&row))
		return DT_NOBEGIN;
	self_marks(&row, &marks);
	foreach(lc, current)
	{
		if (strcmp(((DcBeat *) lfirst(lc))->region, region) == 0)
			what = lfirst(lc);
	}
	if (what == NULL || what->beat_at == 0 || row.state != SELF_ACTIVE || marks.recopy)
		return DT_NOBEGIN;
	foreach(lc, current)
	{
		const DcBeat *of = lfirst(lc);
		TimestampTz at = what->beat_at;

		if (!beat_is_active(of))
			continue;
		if (strcmp(of->region, region) != 0 && strcmp(of->region, self.region) != 0 &&
			!has_seen(of, what, &at))
			return DT_NOBEGIN;
		least = Min(least, at);
		most = Max(most, at);
	}
	if (!beat_is_active(what) && least == what->beat_at && most == what->beat_at)
		return DT_NOEND;
	return Min(least, what->beat_at);
}

/*
 * Return true if one region reports up to which time it has all of another, and set *at to that.
 */
static bool
has_seen(const DcBeat *of, const DcBeat *what, TimestampTz *at)
{
	DcSeen seen;

	if (!seen_get(of, what->region, &seen) || seen.beat_at == 0)
		return false;
	*at = seen.beat_at;
	return true;
}
