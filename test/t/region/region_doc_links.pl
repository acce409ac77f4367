# doc/regions-operation.md does what it says: regions come and go, and links are lost; see region/region_doc.pl.
use strict;
use warnings;

use DcRegionDoc;
use Test::More;

region_doc('A link that was cut for long', 'Add a region', 'Retire a region', 'A region that is dead');
done_testing();
