/*
 * series.h
 *		What the numbers of heartbeats say about the databases that have sent them (life.h). Does
 *		not depend on the server, so that test/unit/regionsim_identity.c can use it, too.
 *
 * Copyright (c) 2026, the dcounter developers
 *
 * `same`: whether the boots of the two heartbeats are of one series. `first`: the number of the
 * first heartbeat of a series.
 */
#ifndef DC_SERIES_H
#define DC_SERIES_H

#include <stdbool.h>
#include <stdint.h>

/*
 * series_follows returns true if a heartbeat of a series that begins with `first` may follow the
 * one that is known.
 */
static inline bool
series_follows(int64_t known, bool same, int64_t first)
{
	return same || known < first;
}

/*
 * series_is_taken returns true if a heartbeat of this database's epoch that another database knows
 * is of a database that has counted under it since this one's series began.
 */
static inline bool
series_is_taken(int64_t heard, bool same, int64_t first)
{
	return !same && heard >= first;
}

/*
 * series_goes_on returns true if another database knows more of an earlier epoch than this one,
 * whose last heartbeat of it is `last`.
 */
static inline bool
series_goes_on(int64_t heard, bool same, int64_t last, int64_t first)
{
	return heard >= (same ? last + 1 : first);
}

#endif /* DC_SERIES_H */
