/*
 * escrow.c
 *		Deciding which region gives how many units to which.
 *
 * Copyright (c) 2026, the dcounter developers
 *
 * A region that is short of units of a key says how many it needs, and how many it had been
 * given when it said so. The region that serves it subtracts units that were given since, as far as
 * it knows. Two regions that do not know of each other's grants may both give: then it has more
 * than it needs, which it can sell, or give away.
 *
 * Requests are served in the order of their stamps, and of the regions' names where these are
 * equal: all regions agree on that order. The region that serves has its own place in it. It
 * withholds the units for its own request only from younger requests. So of two regions that want
 * the same unit, the one with the older request gets it, wherever the unit is, and the younger one
 * does not ask for it back. A region that wants nothing keeps nothing, so the last unit goes to the
 * region that wants it.
 *
 * A region may also be short of a reserve. That is served from units beyond the reserve and the
 * request of the region that serves. So that region has no reason to ask for them back.
 *
 * Numbers that would overflow bigint are limited to its greatest value: no stock has that many
 * units.
 */
#include "region/escrow.h"

#include <stdlib.h>
#include <string.h>

#define MIN(a, b) ((a) < (b) ? (a) : (b))
#define MAX(a, b) ((a) > (b) ? (a) : (b))

static int64_t sum_of(int64_t a, int64_t b);
static int64_t escrow_less(int64_t a, int64_t b);
static int request_compare(const void *a, const void *b);

/*
 * escrow_want changes a region's request to what it is short of now.
 */
void
escrow_want(DcWant *want, const DcWantFacts *facts, const DcWantChange *change)
{
	if (change->restarts)
		*want = (DcWant){.granted = facts->granted};
	want->asked = escrow_less(want->asked, escrow_less(facts->granted, want->granted));
	if (change->asks < 0)
		want->asked = 0;
	else if (change->asks > 0)
	{
		if (want->asked == 0)
			want->asked_at = facts->now;
		want->asked = sum_of(want->asked, change->asks);
	}
	if (want->asked == 0)
		want->asked_at = 0;

	if (change->forgets)
		want->kept = 0;
	want->kept = change->keeps < 0 ? escrow_less(want->kept, -change->keeps) : sum_of(want->kept, change->keeps);
	if (want->kept == 0)
		want->waits = 0;
	else if (change->keeps < 0)
	{
		/* drop the oldest stamp: the sessions that remain will set it again */
		if (want->waits >= change->since)
			want->waits = facts->now;
	}
	else if (change->since != 0 && (want->waits == 0 || change->since < want->waits))
		want->waits = change->since;

	want->granted = facts->granted;
	want->wanted = sum_of(want->asked, escrow_less(want->kept, facts->units));
	want->low = escrow_less(facts->low, sum_of(facts->units, want->wanted));
	if (want->asked > 0 && want->kept > 0)
		want->since = MIN(want->asked_at, want->waits);
	else if (want->asked > 0 || want->kept > 0)
		want->since = want->asked > 0 ? want->asked_at : want->waits;
	else
		want->since = want->low > 0 ? facts->now : 0;
}

/*
 * escrow_need sets how many units a request still needs, if it has been given `granted` units in
 * all, and how many must stay for it in its own region.
 */
void
escrow_need(const DcWant *want, int64_t granted, int64_t *need, int64_t *low, int64_t *keep)
{
	int64_t since = escrow_less(granted, want->granted);

	*need = escrow_less(want->wanted, since);
	*low = escrow_less(want->low, escrow_less(since, want->wanted));
	*keep = want->kept;
	if (want->asked > since)
		*keep = sum_of(*keep, want->asked);
}

/*
 * escrow_share decides how many of `units` go to each of the requests for them, and returns their
 * sum. It sorts them by age. Only requests that are short of a reserve do not get `reserve`.
 */
int64_t
escrow_share(DcRequest *requests, int count, int64_t units, int64_t reserve)
{
	int64_t left = MAX(units, 0);
	int64_t given = 0;
	int64_t keep = 0;

	/* the C library's: the server's takes quadratic time for input that is crafted for it */
	(qsort)(requests, count, sizeof(DcRequest), request_compare);
	for (int i = 0; i < count; i++)
	{
		DcRequest *request = &requests[i];

		request->given = 0;
		if (request->own)
		{
			keep = MAX(request->keep, 0);
			continue;
		}
		request->given = MIN(MAX(request->need, 0), escrow_less(left, keep));
		left -= request->given;
		given += request->given;
	}
	left = escrow_less(escrow_less(left, keep), reserve);
	for (int i = 0; i < count; i++)
	{
		DcRequest *request = &requests[i];
		int64_t more = request->own ? 0 : MIN(MAX(request->low, 0), left);

		request->given += more;
		left -= more;
		given += more;
	}
	return given;
}

/*
 * Add two numbers that are not negative; the result is at most INT64_MAX.
 */
static int64_t
sum_of(int64_t a, int64_t b)
{
	return a > INT64_MAX - b ? INT64_MAX : a + b;
}

/*
 * escrow_less returns the rest of an amount, or 0 if that would be negative.
 */
static int64_t
escrow_less(int64_t a, int64_t b)
{
	return a > b ? a - b : 0;
}

/*
 * Compare two requests by their stamps, then by the regions' names, for qsort().
 */
static int
request_compare(const void *a, const void *b)
{
	const DcRequest *left = a;
	const DcRequest *right = b;

	if (left->since != right->since)
		return left->since < right->since ? -1 : 1;
	return strcmp(left->region, right->region);
}
