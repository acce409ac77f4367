# doc/regions-operation.md and its neighbours do what they say: a star, and a read-only copy; see region/region_doc.pl.
use strict;
use warnings;

use DcRegionDoc;
use Test::More;

region_doc('Topologies', 'A read-only copy');
done_testing();
