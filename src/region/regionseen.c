/*
 * regionseen.c
 *		What all regions are known to have heard.
 */
#include "postgres.h"

#include "executor/spi.h"
#include "region/region.h"
#include "utils/timestamp.h"

/*
 * region_seen_by_all returns the least beat of a region that each active region, this one included, is known to
 * have heard; what that region has committed before then is known everywhere. -infinity if one may have heard of none,
 * infinity if there are no others.
 */
TimestampTz
region_seen_by_all(const char *region)
{
	bool others;

	SPI_connect();
	if (SPI_execute("SELECT FROM dcounter.region AS r WHERE r.retired_at IS NULL"
					" AND NOT EXISTS (SELECT FROM dcounter.self AS s WHERE s.region = r.region)",
					true, 1) != SPI_OK_SELECT)
		elog(ERROR, "could not read dcounter.region");
	others = SPI_processed > 0;
	SPI_finish();
	return others ? DT_NOBEGIN : DT_NOEND;
}
