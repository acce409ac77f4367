# doc/regions-operation.md and its neighbours do what they say: regions come and go, and links are lost; see region/region_doc.pl.
use strict;
use warnings;

use DcRegionDoc;
use Test::More;

region_doc('A lost slot', 'Add a region', 'Retire a region', 'A dead region');
done_testing();
