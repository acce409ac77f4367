/*
 * changes.h
 *		Who is told which keys of counter tables have changed.
 *
 * The counter room tells; the room that listens is below it and must not be
 * called, so it leaves its functions here when the library is loaded.
 */
#ifndef DC_CHANGES_H
#define DC_CHANGES_H

#include "table/catalog.h"
#include "utils/timestamp.h"

typedef struct DcChangeListener
{
	/* is a counter table listened to? DcCounter.events remembers it */
	bool (*wants)(Oid counter);
	/* this transaction has changed keys (text datums) of one that is */
	void (*changed)(Oid counter, const Datum *keys, int nkeys);
	/* dc_alter() with one of its settings; NULL keeps it */
	void (*alter)(Oid counter, const Interval *every, const text *channel);
	/* a table is no longer a counter table */
	void (*dropped)(Oid counter);
} DcChangeListener;

extern const DcChangeListener *change_listener; /* NULL: none */

/*
 * counter_changed tells that keys have changed. The counter table is locked.
 */
static inline void
counter_changed(const DcCounter *counter, const Datum *keys, int nkeys)
{
	if (counter->events)
		change_listener->changed(counter->relid, keys, nkeys);
}

#endif /* DC_CHANGES_H */
