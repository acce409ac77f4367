/*
 * layout.h
 *		What a counter's tables must look like, and which of them can be accessed
 *		without SQL (see layout.c).
 */
#ifndef DC_LAYOUT_H
#define DC_LAYOUT_H

#include "base/catalog.h"
#include "utils/rel.h"

extern void counter_layout(DcCounter *counter);
extern bool counter_has_layout(DcCounter *counter);
extern void counter_check_deferred(const DcCounter *counter, bool totals);
extern char *layout_problem(Relation rel, bool shards, bool stock,
							DcTableLayout *layout, const char **hint);

#endif /* DC_LAYOUT_H */
