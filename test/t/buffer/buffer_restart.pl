# Buffered counters over clean restarts: amounts in memory when the server stops are present after
# the start, once. Under load, with smart and fast shutdowns; and the file that preserves them, in
# all possible states.
use strict;
use warnings;

use DcBuffer;
use DcTest;
use File::Copy;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(usleep);

my $rounds = torture(4, 30);

my $seed = $ENV{DC_SEED} // int(rand(1e9));
srand($seed);
note("seed $seed (set DC_SEED to repeat)");

my $node = buffer_node('restart', 'max_connections = 80', "dcounter.compact_interval = '100ms'");
my $file = $node->data_dir . '/pg_stat/dcounter.buffer';

client_tables($node);
sql($node, 'postgres', q{
	SELECT dc_create('a', mode => 'buffered', flush_interval => '100 ms'), dc_create('lazy', mode => 'buffered', flush_interval => '1 day'),
		dc_create('parts', mode => 'buffered', partitions => 3), dc_create('sync', mode => 'buffered', durability => 'sync'), dc_create('exact');});

##
## Under load

my (%least, %most, $told, $files);

# one_round(NUMBER): load, a shutdown, a start, compare
sub one_round
{
	my ($round) = @_;
	my $smart = $round % 4 == 2;
	my $until = torture(2, 2 + int(rand(10)));
	my $controller = $smart ? dc_session($node, 'postgres') : undef;
	my @clients = start_clients($node, $round, 6, 'a', 'lazy', 'parts', 'sync', 'exact');
	my %load = $smart ? () : map { $_ => pgbench($node, '-c', 3, '-T', 600, '-M', 'prepared', '-f', file_of("load $_.sql", "SELECT dc_incr('$_', 'load');\n")) } 'a', 'bad';

	$node->poll_query_until('postgres', "SELECT min(dc_get('lazy', 'client $round.' || i)) > $until AND min(dc_get('sync', 'client $round.' || i)) > 0 FROM generate_series(1, 6) AS i")
	  or die 'no progress';
	# A pgbench that is refused a connection says no numbers.
	foreach my $counter (keys %load)
	{
		$node->poll_query_until('postgres', "SELECT dc_get('$counter', 'load') > " . ($most{"$counter load"} // 0)) or die "no load on $counter";
	}
	my $flush = start_job($node, 'postgres', file_of('flush.sql', q{SELECT dc_flush(c) FROM unnest('{a,lazy,parts,sync}'::regclass[]) AS c}));
	if ($smart)
	{
		my $stop = start_command('pg_ctl', 'stop', '-m', 'smart', '-D', $node->data_dir);

		# The clients go on until this.
		die 'not told to stop' if wait_for_line($node, qr/received smart shutdown request/) != 1;
		is($controller->run(q{SELECT dc_incr('lazy', 'last'), dc_incr('sync', 'last'), dc_incr('bad', 'last'); INSERT INTO stop DEFAULT VALUES}), '||', "round $round: the last increment");
		$least{"$_ last"}++, $most{"$_ last"}++ foreach 'lazy', 'sync', 'bad';
		$controller->quit;
		is(finish_job($stop), 0, "round $round: smart shutdown");
		$node->{_pid} = undef;
	}
	else
	{
		$node->stop('fast');
	}
	finish_job($flush);
	is(clients_ended(\%least, \%most, @clients), '', "round $round: no error in clients");
	foreach my $counter (keys %load)
	{
		my $n = processed($load{$counter});

		$least{"$counter load"} += $n;
		$most{"$counter load"} += $n + 3;
		$told += $n;
	}
	$files++ if -s $file;
	$told += $_->{done} foreach @clients;
	$node->start;
	sql($node, 'postgres', 'TRUNCATE stop');
	sql($node, 'postgres', "ROLLBACK PREPARED '$_'") foreach split /\n/, sql($node, 'postgres', 'SELECT gid FROM pg_prepared_xacts');
	is(bounds_wrong($node, \%least, \%most), '', "round $round: nothing is lost, and nothing counted twice");
	if ($round % 3 == 0)
	{
		$node->stop('immediate');
		$node->start;
		is(bounds_wrong($node, \%least, \%most), '', "round $round: nor after a crash");
	}
	flush($node, $_) foreach 'a', 'lazy', 'parts', 'sync';
	is(bounds_wrong($node, \%least, \%most), '', "round $round: nor when all is flushed");
	return;
}

# wait_for_line(NODE, PATTERN): until the log has it; 1 if it has
sub wait_for_line
{
	my ($node, $pattern) = @_;
	my $attempts = 10 * $PostgreSQL::Test::Utils::timeout_default;

	until (slurp_file($node->logfile) =~ $pattern)
	{
		return 0 if --$attempts < 0;
		Time::HiRes::usleep(100_000);
	}
	return 1;
}

sql($node, 'postgres', q{SELECT dc_create('bad', mode => 'buffered', flush_interval => '300 ms')});
stuck($node, 'postgres', 'bad', 1);
one_round($_) foreach 1 .. $rounds;
note("$told transactions as told; $files of $rounds shutdowns left something in the file");
cmp_ok($told, '>', 100, 'clients were told of commits');
is($files, $rounds, 'what could not be flushed was saved each time');
stuck($node, 'postgres', 'bad', 0);
flush($node);
is(bounds_wrong($node, \%least, \%most), '', 'all is flushed at last');
sql($node, 'postgres', q{SELECT dc_drop(c) FROM unnest('{a,lazy,parts,sync,exact,bad}'::regclass[]) AS c});
no_memory($node, 'and memory is empty');

##
## The file

my $copy = $node->basedir . '/buffer.copy';

# again(HOW, CHANGE...): stops the server, changes settings or the file, and starts it
sub again
{
	my ($how, $change) = @_;

	$node->stop($how);
	$change->() if $change;
	$node->start;
	return;
}

# conf(SETTING): a line of the configuration
sub conf
{
	$node->append_conf('postgresql.conf', $_[0]);
	return;
}

sub write_file
{
	my ($path, $bytes) = @_;

	open(my $fh, '>:raw', $path) or die "$path: $!";
	print $fh $bytes;
	close $fh or die "$path: $!";
	return;
}

my $long = 'x' x 1024;

sub keep { copy($file, $copy) or die "$file: $!"; return }
sub put_back { copy($copy, $file) or die "$copy: $!"; return }

sub test_once
{
	sql($node, 'postgres', qq{
		SELECT dc_create('f', mode => 'buffered', flush_interval => '1 day'), dc_create('g', mode => 'buffered', flush_interval => '1 day');
		SELECT dc_incr('f', 'a', 5), dc_decr('f', 'a', 1), dc_incr('f', '$long', 3), dc_incr('g', 'a', 2);});
	stuck($node, 'postgres', 'f', 1);
	again('fast');
	ok(-s $file, 'there is a file');
	state_is($node, 'f', 'a', '4 0', 'what could not be flushed is there');
	state_is($node, 'f', $long, '3 0', 'so for a long key');
	state_is($node, 'g', 'a', '2 2', 'what could be was flushed');
	is(sql($node, 'postgres', q{SELECT inc, dec FROM dc_info('f', 'a')}), '5|1', 'increments and decrements');
	again('immediate');
	state_is($node, 'f', 'a', '4 0', 'there after a crash before the first flush');
	sql($node, 'postgres', q{SELECT dc_incr('f', 'a', 100)});
	again('immediate');
	state_is($node, 'f', 'a', '4 0', 'again: a crash loses what was not flushed, not what the file has');
	sql($node, 'postgres', q{SELECT dc_incr('f', 'a', 1), dc_incr('f', 'b', 1)});
	again('fast');
	state_is($node, 'f', 'a', '5 0', 'saved again, with more');
	state_is($node, 'f', 'b', '1 0', 'and with another key');
	again($_), state_is($node, 'f', 'a', '5 0', "after $_ shutdown") foreach 'smart', 'fast', 'immediate', 'immediate', 'fast';
	stuck($node, 'postgres', 'f', 0);
	flush($node, 'f');
	state_is($node, 'f', 'a', '5 5', 'it is flushed');
	again('immediate');
	state_is($node, 'f', 'a', '5 5', 'and not applied again after a crash');
	again('fast');
	state_is($node, 'f', 'a', '5 5', 'nor after a restart');

	# A crash between the flush's commit and the end of the file
	stuck($node, 'postgres', 'f', 1);
	sql($node, 'postgres', q{SELECT dc_incr('f', 'a', 5)});
	again('fast', \&keep);
	stuck($node, 'postgres', 'f', 0);
	flush($node, 'f');
	state_is($node, 'f', 'a', '10 10', 'a second file');
	again($_, \&put_back), state_is($node, 'f', 'a', '10 10', "is not applied again when it is still there ($_)") foreach 'immediate', 'fast';
	flush($node);
	state_is($node, 'f', 'a', '10 10', 'nor flushed');
	again('immediate', \&put_back);
	sql($node, 'postgres', q{SELECT dc_incr('f', 'a', 1)});
	state_is($node, 'f', 'a', '11 10', 'memory goes on');
	again('fast');
	state_is($node, 'f', 'a', '11 11', 'as if there had been no file');
	stuck($node, 'postgres', 'f', 1);
	sql($node, 'postgres', q{SELECT dc_incr('f', 'a', 1)});
	again('fast');
	state_is($node, 'f', 'a', '12 11', 'the next file');
	stuck($node, 'postgres', 'f', 0);
	flush($node);
	state_is($node, 'f', 'a', '12 12', 'is another one');
	again('immediate', \&put_back);
	state_is($node, 'f', 'a', '12 12', 'a file from before that is no news either');
	no_memory($node, 'nothing is left');
	return;
}

sub test_corrupt
{
	stuck($node, 'postgres', 'f', 1);
	sql($node, 'postgres', q{SELECT dc_incr('f', 'a', 5), dc_incr('f', '} . $long . q{', 5)});
	again('fast', \&keep);
	state_is($node, 'f', 'a', '17 12', 'a good file');
	my $good = slurp_file($copy);
	my $length = length $good;
	my %bad = (
		'no bytes' => '', 'one byte' => substr($good, 0, 1), 'a piece' => substr($good, 0, $length / 2), 'all but one' => substr($good, 0, $length - 1),
		'one more' => "${good}x", 'other bytes' => 'x' x 4096, 'zeros' => "\0" x $length);

	foreach my $at (0, 4, 8, 12, int($length / 3), int($length / 2), $length - 1)
	{
		my $changed = $good;

		substr($changed, $at, 1) = chr(ord(substr($changed, $at, 1)) ^ 1);
		$bad{"byte $at of $length"} = $changed;
	}
	foreach my $name (sort keys %bad)
	{
		my $from = -s $node->logfile;

		again('immediate', sub { write_file($file, $bad{$name}) });
		state_is($node, 'f', 'a', '12 12', "a bad file is not used: $name");
		like(slurp_file($node->logfile, $from), qr/LOG:  .*dcounter\.buffer/, '... and logged');
	}
	again('immediate', \&put_back);
	state_is($node, 'f', 'a', '17 12', 'the good one is used');
	again('immediate', sub { unlink $file or die "$file: $!" });
	state_is($node, 'f', 'a', '12 12', 'without a file there is nothing');
	again('immediate', \&put_back);
	return;
}

# The file waits while there is no preload.
sub test_without_preload
{
	sql($node, 'postgres', q{SELECT dc_create('gone', mode => 'buffered', flush_interval => '1 day'); SELECT dc_incr('gone', 'a', 7); CREATE DATABASE z});
	stuck($node, 'postgres', 'gone', 1);
	sql($node, 'z', 'CREATE EXTENSION dcounter');
	worker_begins($node, 'z');
	sql($node, 'z', q{
		SELECT dc_create('f', mode => 'buffered', flush_interval => '1 day');
		SELECT dc_incr('f', 'a', 5);});
	stuck($node, 'z', 'f', 1);
	again('fast', sub { conf(q{shared_preload_libraries = ''}) });
	state_is($node, 'f', 'a', '12 12', 'without preload: only the rows');
	sql($node, 'postgres', q{SELECT dc_incr('f', 'a', 1)});
	state_is($node, 'f', 'a', '13 13', 'increments go to rows');
	fails_with($node, 'postgres', q{SELECT dc_create('x', mode => 'buffered')}, '55000', 'a buffered table is refused');
	sql($node, 'postgres', q{DROP TABLE gone; SELECT dc_create('gone'); SELECT dc_incr('gone', 'a', 1); DROP DATABASE z});
	again('fast');
	again('immediate', sub { conf(q{shared_preload_libraries = 'dcounter'}) });
	worker_runs($node, 'postgres');
	state_is($node, 'f', 'a', '18 13', 'with preload again: what the file has');
	is(sql($node, 'postgres', q{SELECT dc_get('gone', 'a'), dc_alter('gone', mode => 'buffered'), dc_get('gone', 'a')}), '1||1', 'nothing goes to a new table of the same name');
	again('fast');
	state_is($node, 'f', 'a', '18 13', 'once more');
	soon($node, q{SELECT sum(keys) FROM dc_stat_buffer}, '2', 'of the dropped table there is nothing');
	return;
}

# Copies of the server while a file is there whose contents are not flushed
sub test_backups
{
	ok(-s $file, 'there is a file');
	$node->backup('base');
	my $alone = PostgreSQL::Test::Cluster->new('alone');
	$alone->init_from_backup($node, 'base');
	$alone->start;
	my %standby = map { $_ => PostgreSQL::Test::Cluster->new($_) } 'early', 'late';
	foreach (sort keys %standby)
	{
		$standby{$_}->init_from_backup($node, 'base', has_streaming => 1);
		$standby{$_}->start;
	}
	sql($node, 'postgres', 'CREATE TABLE after_backup ()');
	is(sql($_, 'postgres', q{SELECT dc_get('f', 'a'), dc_sum('f') - dc_get('f', 'a') - (SELECT sum(value) FROM f WHERE key <> 'a')}), '13|0', 'a standby has the rows') foreach values %standby;
	$node->wait_for_catchup($standby{early}, 'replay', $node->lsn('insert'));
	$standby{early}->promote;
	worker_runs($standby{early}, 'postgres');
	state_is($_, 'f', 'a', '18 13', 'a copy has what the file has: ' . $_->name) foreach $alone, $standby{early};
	stuck($_, 'postgres', 'f', 0), flush($_) foreach $alone, $standby{early};
	state_is($_, 'f', 'a', '18 18', 'and flushes it: ' . $_->name) foreach $alone, $standby{early};
	$alone->stop('immediate');
	$standby{early}->stop('fast');
	$_->start foreach $alone, $standby{early};
	state_is($_, 'f', 'a', '18 18', 'once: ' . $_->name) foreach $alone, $standby{early};
	$_->stop foreach $alone, $standby{early};

	# The primary continues with this file and two later ones, while the copy keeps the first.
	again('fast');
	state_is($node, 'f', 'a', '18 13', 'a second file has what the first one had');
	stuck($node, 'postgres', 'f', 0);
	flush($node);
	state_is($node, 'f', 'a', '18 18', 'the primary flushes');
	$node->wait_for_catchup($standby{late}, 'replay', $node->lsn('insert'));
	is(sql($standby{late}, 'postgres', q{SELECT dc_get('f', 'a')}), '18', 'a standby that has the first file has the value');
	stuck($node, 'postgres', 'f', 1);
	sql($node, 'postgres', q{SELECT dc_incr('f', 'a', 1)});
	again('fast');
	stuck($node, 'postgres', 'f', 0);
	flush($node);
	state_is($node, 'f', 'a', '19 19', 'a third file');
	$node->wait_for_catchup($standby{late}, 'replay', $node->lsn('insert'));
	$node->stop('immediate');
	$standby{late}->promote;
	worker_runs($standby{late}, 'postgres');
	state_is($standby{late}, 'f', 'a', '19 19', 'promoted: the first file is not applied again');
	sql($standby{late}, 'postgres', q{SELECT dc_flush(); SELECT dc_incr('f', 'a', 2)});
	state_is($standby{late}, 'f', 'a', '21 19', 'and counts on');
	$standby{late}->stop('fast');
	$standby{late}->start;
	state_is($standby{late}, 'f', 'a', '21 21', 'also over a restart');
	$standby{late}->stop;
	ok(!-e $standby{late}->data_dir . '/pg_stat/dcounter.buffer', 'nothing is left for a file, of the dropped database neither');
	return;
}

# A file that was put there while the server ran, and is too large for the memory that
# it has asked for when it started: the server that starts over after a crash does not use
# more than that.
sub test_larger
{
	my $small = buffer_node('small', "dcounter.buffer_size = '8MB'");
	my $file = $small->data_dir . '/pg_stat/dcounter.buffer';
	my $copy = $small->basedir . '/larger.copy';
	my $sum = q{SELECT dc_sum('f'), (SELECT count(*) FROM f) + (SELECT count(*) FROM f_shard)};

	sql($small, 'postgres', q{SELECT dc_create('f', mode => 'buffered', flush_interval => '1 day')});
	stuck($small, 'postgres', 'f', 1);
	sql($small, 'postgres', q{SELECT count(dc_incr('f', 'key ' || i)) FROM generate_series(1, 20000) AS i});
	$small->stop;
	move($file, $copy) or die "$file: $!";
	$small->append_conf('postgresql.conf', q{dcounter.buffer_size = '128kB'});
	$small->start;
	is(sql($small, 'postgres', $sum), '0|0', 'a server without the file');
	copy($copy, $file) or die "$copy: $!";
	my $pid = $small->{_pid};
	kill 'KILL', sql($small, 'postgres', q{SELECT pid FROM pg_stat_activity WHERE backend_type = 'checkpointer'});
	wait_for_line($small, qr/could not load file "pg_stat\/dcounter\.buffer"/) or die 'no such message';
	usleep(100_000) while kill(0, $pid);
	pass('a file that is too large for the memory ends a server that starts over');
	$small->{_pid} = undef;
	$small->start;
	is(sql($small, 'postgres', $sum), '20000|0', 'and is loaded by the next one');
	$small->stop;
	return;
}

test_larger();
test_once();
test_corrupt();
test_without_preload();
test_backups();

done_testing();
