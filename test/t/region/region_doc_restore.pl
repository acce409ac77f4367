# doc/regions-recovery.md does what it says: a region is restored from a backup, set back to a snapshot, and
# followed by its standby; see region/region_doc.pl. That each procedure of the pages is run by one
# of the five is checked here.
use strict;
use warnings;

use DcRegionDoc;
use PostgreSQL::Test::Utils;
use Test::More;

my $files = join '', map { slurp_file($_) } glob("$ENV{TESTDIR}/test/t/region/region_doc*.pl");

like($files, qr/'\Q$_\E'/, "\"$_\" is run") foreach region_doc_sections();
region_doc('Restore from a backup', 'A disk snapshot', 'Promote a standby');
done_testing();
