# WAIT FOR LSN, which PostgreSQL has since 19: sessions read their own increments on a standby, as doc/backup.md says. The standby applies
# WAL 2 seconds late, so the increments would be missing without it.
use strict;
use warnings;

use DcTest;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $primary = dc_node('primary', init => { allows_streaming => 1 }, conf => [ q{shared_preload_libraries = 'dcounter'} ]);

if (sql($primary, 'postgres', 'SHOW server_version_num') < 190000)
{
	$primary->stop;
	plan skip_all => 'WAIT FOR LSN is new in PostgreSQL 19';
}

sql($primary, 'postgres', q{
	SELECT dc_create('likes'), dc_create('views', mode => 'buffered'), dc_stock_create('seats'), dc_ledger_create('wallet');
	SELECT dc_restock('seats', 'a', 100), dc_account_open('wallet', 'bank', NULL), dc_account_open('wallet', 'alice')});
$primary->backup('base');

my $standby = PostgreSQL::Test::Cluster->new('standby');
$standby->init_from_backup($primary, 'base', has_streaming => 1);
$standby->append_conf('postgresql.conf', q{recovery_min_apply_delay = '10s'});
$standby->start;

my $writer = dc_session($primary, 'postgres');
my $reader = dc_session($standby, 'postgres');
my $values = q{SELECT dc_get('likes', 'a'), dc_get('views', 'a'), dc_get('seats', 'a'), (SELECT balance FROM dc_balance('wallet', 'alice'))};

foreach my $round (1 .. 2)
{
	$writer->run(q{SELECT dc_incr('likes', 'a'), dc_incr('views', 'a'), dc_take('seats', 'a')});
	$writer->run("SELECT dc_transfer('wallet', 'bank', 'alice', 1, 'op-$round')");
	$writer->run(q{SELECT dc_flush('views')});

	my $lsn = $writer->run('SELECT pg_current_wal_insert_lsn()');

	isnt($reader->run($values), join('|', $round, $round, 100 - $round, $round), "round $round: it is not there yet");
	is($reader->run("WAIT FOR LSN '$lsn' WITH (TIMEOUT '1h')"), 'success', 'the standby is waited for');
	is($reader->run($values), join('|', $round, $round, 100 - $round, $round), 'what was counted before is read');
}
is($reader->run("WAIT FOR LSN 'FFFFFFFF/0' WITH (TIMEOUT '10ms', NO_THROW)"), 'timeout', 'a standby that is far behind: a limit to waiting');
$_->quit foreach $writer, $reader;

done_testing();
