# doc/regions-operation.md does what it says: pg_upgrade, to a new cluster of the same version, and a standby that has
# everything; see region/region_doc.pl.
use strict;
use warnings;

use DcRegionDoc;
use Test::More;

region_doc('Upgrade', 'A standby that has everything');
done_testing();
