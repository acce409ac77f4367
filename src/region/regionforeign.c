/*
 * regionforeign.c
 *		Whether what comes from others says more of this database than it knows itself.
 */
#include "postgres.h"

#include "compact/compactbatch.h"
#include "region/region.h"
#include "utils/builtins.h"

/*
 * region_row_is_foreign tells whether a row that comes is one of this region, under the epoch of this
 * database or a later one, and has more than the row that is here (NULL: there is none). Then it must not be
 * merged.
 */
bool
region_row_is_foreign(const DcRegionRow *have, const DcRegionRow *come)
{
	DcIdentity identity;

	if (come->inc <= (have != NULL ? have->inc : 0) && come->dec <= (have != NULL ? have->dec : 0))
		return false;
	return region_identity(&identity) && come->epoch >= identity.epoch &&
		batch_key_equal(come->region, CStringGetTextDatum(identity.region));
}
