/*
 * layout.h
 *		What the tables of a counter must look like, and which of them can be accessed
 *		without SQL (see layout.c).
 *
 * Copyright (c) 2026, the dcounter developers
 */
#ifndef DC_LAYOUT_H
#define DC_LAYOUT_H

#include "utils/rel.h"

#include "base/compat.h"
#include "core/table/catalog.h"
#include "core/table/shape.h"

typedef enum DcCounterTable
{
	DC_TABLE_TOTALS,
	DC_TABLE_SHARDS
} DcCounterTable;

/* layout.c */
extern const DcShape *layout_shape(DcCounterTable table, bool stock);
extern void counter_layout(DcCounter *counter);
extern bool counter_has_layout(DcCounter *counter);
extern Relation counter_direct_open(DcCounter *counter, DcCounterTable table);
pg_noreturn extern void layout_altered_error(Relation rel);
extern bool layout_is_own_index(const DcCounter *counter, DcCounterTable table,
								Relation index);
extern void counter_check_deferred(const DcCounter *counter, bool totals);

/* directtotals.c */
extern char *totals_problem(const DcCounter *counter, Relation totals,
							Relation shards);
extern char *totals_row_problem(const DcCounter *counter, Relation totals);

#endif /* DC_LAYOUT_H */
