# doc/regions-operation.md does what it says: counting, setting and selling in three regions, counters that come and
# go. Each statement runs as it is written there, on servers of their own;
# where it has its result in a comment after it, that is the result. In the end all regions are equal.
use strict;
use warnings;

use DcRegionDoc;
use PostgreSQL::Test::Utils;
use Test::More;

region_doc('Reading', 'Set, reset, delete', 'Stock', 'A counter more', 'A counter that has amounts', 'Stop replicating', 'Checking', 'What to watch');
done_testing();
