# What limits have counted, over clean restarts, crashes, on standbys, after a promotion, and with a
# clock that is set.
use strict;
use warnings;

use DcClock;
use DcLimit;
use DcTest;
use File::Copy;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(sleep);

my $clock = clock_prepare();
my $node = PostgreSQL::Test::Cluster->new('restart');
$node->init(allows_streaming => 1, extra => [ '-E', 'UTF8', '--locale=C' ]);
$node->append_conf('postgresql.conf', "shared_preload_libraries = 'dcounter'\ndcounter.worker = off\nfsync = off");
$node->start;
sql($node, 'postgres', 'CREATE EXTENSION dcounter');
my $file = $node->data_dir . '/pg_stat/dcounter.limits';

# ask(NODE, RULE, KEY): allowed and remaining
sub ask { return sql($_[0], 'postgres', "SELECT allowed, remaining FROM dc_limit('$_[1]', '$_[2]')") }
sub peek { return sql($_[0], 'postgres', "SELECT remaining FROM dc_limit_peek('$_[1]', '$_[2]', 1)") }
my @rules = qw(gcra fixed log sliding jobs gcra_full fixed_full log_full sliding_full jobs_full);
sub peeks { my ($n, $key) = @_; return join(' ', map { peek($n, $_, $key) } @rules) }

sql($node, 'postgres', q{
	SELECT dc_limit_create(a || suffix, CASE a WHEN 'jobs' THEN 'concurrent' ELSE a END, 5, '100 days', after_crash => CASE suffix WHEN '' THEN 'open' ELSE 'full' END)
	FROM unnest('{gcra,fixed,log,sliding,jobs}'::text[]) AS a, unnest('{"",_full}'::text[]) AS suffix});
is(peeks($node, 'new'), '5 5 5 5 5 5 5 5 5 5', 'a server that starts for the first time has lost nothing');
sql($node, 'postgres', "SELECT dc_limit('$_', 'a', 3)") foreach @rules;
sql($node, 'postgres', q{SELECT dc_limit('log', repeat('x', 1024), 2), dc_throttle('a', 3, 3, '100 days', 2)});
my $lease = sql($node, 'postgres', q{SELECT lease FROM dc_limit('jobs', 'lease')});
is(peeks($node, 'a'), '2 2 2 2 2 2 2 2 2 2', 'three are used');

##
## Clean restarts
foreach my $how ('fast', 'smart', 'fast')
{
	$node->stop($how);
	ok(-s $file, "$how shutdown: there is a file");
	$node->start;
	ok(-e $file, 'which stays when the server has started');
	is(peeks($node, 'a'), '2 2 2 2 2 2 2 2 2 2', "$how shutdown: what was used stays used");
	is(peeks($node, 'new'), '5 5 5 5 5 5 5 5 5 5', 'new keys are new');
}
is(sql($node, 'postgres', q{SELECT remaining FROM dc_limit_peek('log', repeat('x', 1024))}), '3', 'a long key');
is(sql($node, 'postgres', q{SELECT remaining FROM dc_throttle('a', 3, 3, '100 days')}), '0', 'ad hoc limits');
is(sql($node, 'postgres', "SELECT dc_limit_renew('jobs', 'lease', $lease), dc_limit_release('jobs', 'lease', $lease), dc_limit_release('jobs', 'lease', $lease)"), 't|t|f', 'a lease');
isnt(sql($node, 'postgres', q{SELECT lease FROM dc_limit('jobs', 'lease')}), $lease, 'and no other gets its number');
is(sql($node, 'postgres', q{SELECT keys FROM dc_stat_limits WHERE rule = 'log'}), '2', 'the view knows of its keys');

# Altered, and not used since
sql($node, 'postgres', q{SELECT dc_limit_alter('gcra', 10, burst => 10), dc_limit_alter('log', 6)});
$node->restart;
is(join(' ', peek($node, 'gcra', 'a'), peek($node, 'log', 'a')), '7 3', 'rules that were altered before');
sql($node, 'postgres', q{SELECT dc_limit_alter('gcra', 5, burst => 5), dc_limit_alter('log', 5)});
is(join(' ', peek($node, 'gcra', 'a'), peek($node, 'log', 'a')), '2 2', 'and are altered after');

# With less memory than the file needs
$node->append_conf('postgresql.conf', "dcounter.limit_size = '128kB'");
sql($node, 'postgres', q{SELECT dc_limit_create('many', 'fixed', 1, '100 days', max_keys => 5000)});
is(sql($node, 'postgres', q{SELECT count(*) FROM generate_series(1, 5000) AS i, dc_limit('many', 'key ' || i) AS l WHERE l.allowed}), '5000', 'many keys');
$node->restart;
is(sql($node, 'postgres', q{SELECT count(*) FROM generate_series(1, 5000) AS i, dc_limit('many', 'key ' || i) AS l WHERE l.allowed}), '0', 'are there when the memory is smaller');
$node->append_conf('postgresql.conf', "dcounter.limit_size = '16MB'");
sql($node, 'postgres', q{SELECT dc_limit_drop('many')});

##
## A start that fails takes nothing away
fails_to_start($node);
is(peeks($node, 'a'), '2 2 2 2 2 2 2 2 2 2', 'what was used stays used after it');

##
## Crashes
$node->stop('immediate');
$node->start;
is(peeks($node, 'a'), '5 5 5 5 5 0 0 0 0 0', 'a crash: open or full, as the rule chooses');
is(peeks($node, 'new'), '5 5 5 5 5 0 0 0 0 0', 'so for new keys');
sql($node, 'postgres', q{SELECT dc_limit_create('young', 'fixed', 5, '100 days', after_crash => 'full')});
is(peek($node, 'young', 'a'), '5', 'a limit that is created later has lost nothing');
is(ask($node, 'gcra_full', 'a'), 'f|0', 'none is allowed');
is(sql($node, 'postgres', q{SELECT retry_after > '19 days' AND retry_after <= '20 days' FROM dc_limit_peek('gcra_full', 'a')}), 't', 'until it is refilled');
is(sql($node, 'postgres', q{SELECT dc_limit_reset('gcra_full', 'a'), dc_limit_reset('log_full', 'a')}), 't|t', 'unless it is reset');
is(join(' ', peek($node, 'gcra_full', 'a'), peek($node, 'log_full', 'a'), peek($node, 'gcra_full', 'b')), '5 5 0', 'then it is open, and others are not');
sql($node, 'postgres', q{SELECT dc_limit('gcra_full', 'a'), dc_limit('gcra', 'a')});
$node->restart;
is(join(' ', peek($node, 'gcra_full', 'a'), peek($node, 'log_full', 'a'), peek($node, 'gcra_full', 'b'), peek($node, 'log_full', 'b'), peek($node, 'young', 'a')), '4 5 0 0 5', 'a clean restart after a crash keeps all of that');
foreach my $state ('broken', 'old')
{
	my $copy = $node->basedir . '/limits.copy';

	sql($node, 'postgres', "SELECT dc_limit_reset('log_full', 'a'), dc_limit('log', 'a')");
	$node->stop;
	if ($state eq 'broken')
	{
		copy($file, $copy) or die;
		my $bytes = slurp_file($file);
		substr($bytes, length($bytes) / 2, 1) ^= "\1";
		open(my $fh, '>:raw', $file) or die;
		print $fh $bytes;
		close $fh;
	}
	else
	{
		copy($copy, $file) or die;
	}
	$node->start;
	is(join(' ', peek($node, 'log', 'a'), peek($node, 'log_full', 'a')), '5 0', "a file that is $state is a crash");
	ok(slurp_file($node->logfile) =~ ($state eq 'broken' ? qr/its contents are invalid/ : qr/it is not from the last shutdown/), 'and the log says so');
}

is(peek($node, 'young', 'a'), '0', 'then it is older than the loss');
sql($node, 'postgres', q{SELECT dc_limit_drop('young')});

# A file that cannot be written, even if it is the first one
my $first = PostgreSQL::Test::Cluster->new('first');
$first->init(extra => [ '-E', 'UTF8', '--locale=C' ]);
$first->append_conf('postgresql.conf', "shared_preload_libraries = 'dcounter'\ndcounter.worker = off\nfsync = off");
$first->start;
sql($first, 'postgres', q{CREATE EXTENSION dcounter; SELECT dc_limit_create('full', 'fixed', 5, '100 days', after_crash => 'full')});
foreach my $when ('the first', 'another')
{
	my $in_the_way = $first->data_dir . '/pg_stat/dcounter.limits.tmp';

	is(peek($first, 'full', 'a'), '5', 'a key');
	mkdir $in_the_way or die;
	$first->stop;
	rmdir $in_the_way or die;
	$first->start;
	is(peek($first, 'full', 'a'), '0', "$when file cannot be written: that is a loss");
	sql($first, 'postgres', q{SELECT dc_limit_reset('full', 'a')});
	$first->restart;
	is(peek($first, 'full', 'a'), '5', 'which a clean restart does not repeat');
}
$first->stop;

##
## Standbys count for themselves
sql($node, 'postgres', q{SELECT dc_limit_reset(name, 'a') FROM dcounter.limit_rule});
sql($node, 'postgres', "SELECT dc_limit('$_', 'a', 3)") foreach @rules;
$node->backup('base');
my $standby = PostgreSQL::Test::Cluster->new('standby');
$standby->init_from_backup($node, 'base', has_streaming => 1);
$standby->start;
is(peeks($standby, 'a'), '5 5 5 5 5 0 0 0 0 0', 'a standby from a copy of a server has lost what was counted');
sql($standby, 'postgres', q{SELECT dc_limit_reset('gcra_full', 'a'), dc_limit_reset('log_full', 'a')});
is(join(' ', ask($standby, 'gcra', 'a'), ask($standby, 'gcra_full', 'a'), ask($standby, 'log_full', 'a')), 't|4 t|4 t|4', 'it counts for itself');
fails_with($standby, 'postgres', $_, '25006', "on a standby: $_") foreach q{SELECT dc_limit_create('x', 'gcra', 1, '1 s')}, q{SELECT dc_limit_alter('gcra', 1)}, q{SELECT dc_limit_drop('gcra')}, q{SELECT dc_limit_grant('gcra', '-')}, q{SELECT dc_limit_revoke('gcra', '-')};
$standby->restart;
is(join(' ', peek($standby, 'gcra', 'a'), peek($standby, 'gcra_full', 'a'), peek($standby, 'log_full', 'a'), peek($standby, 'log_full', 'b')), '4 4 4 0', 'over a restart, too');
my $session = dc_session($standby, 'postgres');
is($session->run(q{SELECT remaining FROM dc_limit_peek('gcra', 'a')}), '4', 'a session');
sql($node, 'postgres', q{SELECT dc_limit_alter('gcra', 8, burst => 8)});
$node->wait_for_catchup($standby, 'replay', $node->lsn('insert'));
is($session->run(q{SELECT remaining FROM dc_limit_peek('gcra', 'a')}), '7', 'a rule that is altered on the primary');
sql($node, 'postgres', q{SELECT dc_limit_alter('gcra', 5, burst => 5)});
$node->wait_for_catchup($standby, 'replay', $node->lsn('insert'));
$standby->promote;
is(join(' ', peek($standby, 'gcra', 'a'), peek($standby, 'gcra_full', 'a'), peek($standby, 'log_full', 'a'), peek($standby, 'fixed_full', 'b'), peek($standby, 'fixed', 'b')), '4 0 0 0 5',
	'when it is promoted, its own counts are no longer all: full, by the rule');
is(sql($standby, 'postgres', q{SELECT dc_limit_create('late', 'gcra', 1, '1 s')}), '', 'and rules can be made');
$standby->restart;
is(join(' ', peek($standby, 'gcra', 'a'), peek($standby, 'gcra_full', 'a'), peek($standby, 'log_full', 'a')), '4 0 0', 'once only');
is(sql($standby, 'postgres', q{SELECT dc_limit_reset('gcra_full', 'a'), remaining FROM dc_limit_peek('gcra_full', 'b')}), 't|0', 'reset');
$standby->restart;
is(peek($standby, 'gcra_full', 'a'), '5', 'stays reset');
$session->quit;
$standby->stop;

##
## The wall clock is set
SKIP:
{
	skip 'no clock that can be set', 1 if !$clock;
	sql($node, 'postgres', q{SELECT dc_limit_reset(name, 'c') FROM dcounter.limit_rule; SELECT dc_limit(name, 'c', 5) FROM dcounter.limit_rule});
	is(peeks($node, 'c'), join(' ', (0) x 10), 'all is used');
	foreach my $step (400 * 86400, -400 * 86400, 3600, 0)
	{
		clock_step($step);
		is(peeks($node, 'c'), join(' ', (0) x 10), "a clock that is set by $step s refills nothing");
		is(sql($node, 'postgres', q{SELECT retry_after <= '20 days' AND retry_after > '19 days' AND reset_at BETWEEN clock_timestamp() + '99 days' AND clock_timestamp() + '100 days' FROM dc_limit('gcra', 'c')}), 't', 'reset_at goes by it');
	}
	$node->stop;
	clock_step(-400 * 86400);
	$node->start;
	is(peeks($node, 'c'), join(' ', (0) x 10), 'a clock that is set back while the server is down refills nothing');
	$node->stop;
	clock_step(-399 * 86400);
	$node->start;
	is(sql($node, 'postgres', q{SELECT retry_after <= '19 days' AND retry_after > '18 days' FROM dc_limit('gcra', 'c')}), 't', 'a day that the server was down has passed');
}

##
## Dump and restore: rules, with their owner and rights
sql($node, 'postgres', q{CREATE ROLE app; SELECT dc_limit_grant('gcra', 'app', refund => true); SELECT dc_limit_grant('log', '-')});
command_ok([ 'pg_dump', '-f', $node->basedir . '/dump.sql', '-d', $node->connstr('postgres') ], 'pg_dump');
sql($node, 'postgres', 'CREATE DATABASE copy');
command_ok([ 'psql', '-XAtq', '-v', 'ON_ERROR_STOP=1', '-d', $node->connstr('copy'), '-f', $node->basedir . '/dump.sql' ], 'restored');
my $all = 'SELECT string_agg(r::text, E\'\n\' ORDER BY id) FROM dcounter.limit_rule AS r';
is(sql($node, 'copy', $all), sql($node, 'postgres', $all), 'the same rules');
is(sql($node, 'copy', q{SELECT remaining FROM dc_limit('gcra', 'c')}), '4', 'with keys of their own');
is(sql($node, 'copy', q{SELECT dc_limit_create('next', 'gcra', 1, '1 s'); SELECT count(DISTINCT id) = count(*) FROM dcounter.limit_rule}), "\nt", 'and ids of their own');
sql($node, 'copy', q{DROP EXTENSION dcounter; CREATE EXTENSION dcounter; SELECT dc_limit_create('gcra', 'gcra', 7, '100 days')});
is(sql($node, 'copy', q{SELECT remaining FROM dc_limit('gcra', 'c')}), '6', 'a rule of an extension that was made anew is not the one that had its id');
sql($node, 'postgres', 'DROP DATABASE copy');
$node->restart;
is(sql($node, 'postgres', q{SELECT remaining FROM dc_limit_peek('gcra', 'c')}), '0', 'a database that was dropped is in nobody\'s way');
$node->stop;
done_testing();
