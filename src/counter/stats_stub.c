#include "postgres.h"

#include "counter/stats.h"

void
stats_compacted(DcCounter *counter, int64 keys)
{
}

void
stats_swept(DcCounter *counter, TimestampTz started)
{
}
