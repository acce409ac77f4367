# doc/regions.md does what it says: three regions by dc_region, and another counter; see region/region_doc.pl.
use strict;
use warnings;

use DcRegionDoc;
use Test::More;

region_page('regions.md', 'Three regions in five minutes', 'What to watch');
done_testing();
