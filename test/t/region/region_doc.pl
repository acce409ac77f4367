# doc/regions-operation.md and its neighbours do what they say: counting, setting and selling in three regions, counters that come and
# go. Each statement runs as it is written there, on servers of their own;
# where it has its result in a comment after it, that is the result. In the end all regions are equal.
use strict;
use warnings;

use DcRegionDoc;
use PostgreSQL::Test::Utils;
use Test::More;

region_doc('Operating regions', 'Recovering regions', 'Regions reference', 'Regions: identity, security and tables', 'Reading', 'Set, reset, delete', 'Stock', 'Another counter', 'A counter with amounts', 'Stop replicating', 'Checking', 'What to watch');
done_testing();
