# doc/regions-operation.md does what it says: a star, and who only reads; see region/region_doc.pl.
use strict;
use warnings;

use DcRegionDoc;
use Test::More;

region_doc('Topologies', 'A reader that only reads');
done_testing();
