/*
 * regionforeign.c
 *		Whether what comes from others says more of this database than it knows itself.
 */
#include "postgres.h"

#include "region/region.h"

/*
 * region_row_is_foreign tells whether a row that comes is one of this region, under the epoch of this
 * database or a later one, and has more than the row that is here (NULL: there is none). Then it must not be
 * merged.
 */
bool
region_row_is_foreign(const DcRegionRow *have, const DcRegionRow *come)
{
	return slot_is_foreign(come->region, come->epoch, come->inc, come->dec,
						   have != NULL ? have->inc : 0, have != NULL ? have->dec : 0);
}
