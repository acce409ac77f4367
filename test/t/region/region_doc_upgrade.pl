# doc/regions-recovery.md does what it says: pg_upgrade, to a new cluster of the same version, and a synchronous
# standby; see region/region_doc.pl.
use strict;
use warnings;

use DcRegionDoc;
use Test::More;

region_doc('Upgrade', 'A synchronous standby');
done_testing();
