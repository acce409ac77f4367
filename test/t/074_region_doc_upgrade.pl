# doc/regions.md does what it says: pg_upgrade, to a new cluster of the same version; see 071_region_doc.pl.
use strict;
use warnings;

use DcRegionDoc;
use Test::More;

region_doc('Upgrade');
done_testing();
