# dc_region: three regions from nothing by one command each; counters that are missing; a link that is lost; a restore, with the
# program ended after steps, as are the other commands that change something; two databases of one server; a region that is down, retires, or is lost. With
# --dry-run nothing is done, and no password is ever printed.
use strict;
use warnings;

use DcTest;
use File::Path;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::RecursiveCopy;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(sleep);

my $start = time;
my $secret = 'open_sesame';
# 19 makes "logical" of "replica" by itself
my $level = PostgreSQL::Test::Cluster->new('version')->pg_version->major >= 19 ? 'replica' : 'logical';
my %nodes = map { $_ => dc_node($_, extension => 0, init => { allows_streaming => 'logical' }, conf => [
			"shared_preload_libraries = 'dcounter'", 'fsync = off', 'max_worker_processes = 30', 'max_logical_replication_workers = 20',
			'max_replication_slots = 30', 'max_wal_senders = 30', "wal_retrieve_retry_interval = '100ms'", "dcounter.compact_interval = '200ms'",
			"dcounter.region_beat_interval = '500ms'", "dcounter.region_handshake = '1h'", "wal_level = $level" ]) } 'eu', 'us', 'ap';
my %database = map { $_ => 'postgres' } keys %nodes;
my $printed = '';
my $config;

# configure(NAME => CONNINFO...): the file; without a conninfo, that of the region
sub configure
{
	my (%of) = @_;

	$config = file_of('regions.conf', "; a comment\n" . join('', map
			{
				my $conninfo = $of{$_} // $nodes{$_}->connstr($database{$_}) . " password=$secret";

				$_ eq 'us' ? "[$_]\nconninfo = $conninfo\nlink = $conninfo application_name=$_\n" : "[ $_ ]\n# the same\nconninfo=$conninfo\n"
		} sort keys %of));
	return;
}

# program(ARGUMENT...): its status and what it prints
sub program
{
	my (@arguments) = @_;
	my $job = start_command('dc_region', '-c', $config, '--trust-owners', '--timeout=' . $PostgreSQL::Test::Utils::timeout_default, @arguments);
	my $status = finish_job($job);

	$printed .= $job->{out} . $job->{err};
	note(sprintf("%.0f s: dc_region @arguments: $status\n%s%s", time - $start, $job->{out}, $job->{err}));
	return ($status, $job->{out}, $job->{err});
}

# does(STATUS, ARGUMENT...): a test; what it prints
sub does
{
	my ($expected, @arguments) = @_;
	my ($status, $out, $err) = program(@arguments);
	local $Test::Builder::Level = $Test::Builder::Level + 1;

	is($status, $expected, "dc_region @arguments") or diag($out . $err);
	return $out . $err;
}

# by_steps(ARGUMENT...): it is ended after a step, and called again, until all is done: after each one in make torture, else
# after one more each time. A test
sub by_steps
{
	my (@arguments) = @_;
	my ($status, $calls) = (3, 0);
	local $Test::Builder::Level = $Test::Builder::Level + 1;

	($status) = program(@arguments, '--stop-after=' . torture($calls, 1)) while $status == 3 && $calls++ < 80;
	is($status, 0, "dc_region @arguments, ended after steps");
	cmp_ok($calls, '>', 1, 'there were some');
	return;
}

# is_well(NAME): in the end nothing is left to do. A worker that was started anew may be away for a moment. A test
sub is_well
{
	my ($name) = @_;
	my $end = time + $PostgreSQL::Test::Utils::timeout_default;
	my ($status, $out);
	local $Test::Builder::Level = $Test::Builder::Level + 1;

	do
	{
		($status, $out) = program('status');
	} until $status == 0 || time > $end;
	is($status, 0, $name) or diag($out);
	like($out, qr/nothing left to do/, "$name, as it says");
	return;
}

sub in
{
	my ($name, $sql) = @_;

	return sql($nodes{$name}, $database{$name}, $sql);
}

# have(NAME, KEY, VALUE, REGION...): in the end these do
sub have
{
	my ($name, $key, $value, @regions) = @_;
	local $Test::Builder::Level = $Test::Builder::Level + 1;

	is(wait_for($nodes{$_}, $database{$_}, "SELECT dc_get('likes', '$key')", $value), $value, "$name: $_ has $value of $key") foreach @regions;
	return;
}

# What it refuses
configure(map { $_ => undef } keys %nodes);
like(does(2), qr/a command is missing/, 'no command');
like(does(2, 'dance'), qr/no command "dance"/, 'no such command');
like(does(2, 'add'), qr/needs the name/, 'no region');
like(does(2, 'add', 'mars'), qr/has no region "mars"/, 'no such region');
like(does(2, 'status', '--frce'), qr/unknown option "--frce"/, 'no such option');
like(does(2, 'status', '--timeout=soon'), qr/must be a number/, 'no number');
like(does(2, 'status', '-c', '/nowhere'), qr/could not open/, 'no file');
foreach my $wrong ("eu\n", "[eu]\nconinfo = password=$secret\n", "[eu]\n", "eu = host=a\neu = host=b\n", "[Eu]\nconninfo = dbname=a\n", "eu = password $secret\n", "\n")
{
	like(does(2, 'status', '-c', file_of('wrong.conf', $wrong)), qr/wrong\.conf/, 'a file that is wrong');
}
like(does(0, '--help'), qr/Usage:/, 'help');

# Three regions from nothing
like(does(0, 'add', 'eu', '--dry-run'), qr/^-- eu\nCREATE EXTENSION dcounter SCHEMA public;\nSELECT public.dc_region_init\('eu'\);$/m, 'what would be done');
is(in('eu', q{SELECT count(*) FROM pg_extension WHERE extname = 'dcounter'}), '0', 'a dry run does nothing');
does(0, 'add', 'eu');
in('eu', q{
	CREATE SCHEMA shop;
	CREATE ROLE app;
	SELECT dc_create('likes', max_shards => 16, op_retention => '3 days');
	SELECT dc_replicate('likes');
	SELECT dc_create('shop."Odd ''one"', partitions => 3);
	SELECT dc_replicate('shop."Odd ''one"');
	SELECT dc_stock_create('seats');
	SELECT dc_replicate('seats');
	SELECT dc_incr('likes', 'a', 5)});
like(does(0, 'add', 'us', '--dry-run'), qr/dc_region_join\('us', '.*password=\*\*\*/, 'what would be done for the second');
does(0, 'add', 'us');
does(0, 'add', 'ap');
in('us', q{SELECT dc_incr('likes', 'a', 70)});
in('ap', q{SELECT dc_incr('likes', 'a', 600)});
have('added', 'a', 675, 'eu', 'us', 'ap');
is(in('ap', q{SELECT settings->>'max_shards' || ' ' || (settings->>'op_retention') FROM dc_tables WHERE name = 'public.likes'}), '16 3 days', 'settings are those of the first');
is(in('ap', q{SELECT count(*) FROM pg_inherits WHERE inhparent = 'shop."Odd ''one"'::regclass}), '3', 'partitions, too');
is_well('all is well');
like(does(0, 'check'), qr/3 regions have the same/, 'and equal');
unlike(does(0, 'add', 'ap'), qr/;$/m, 'nothing is done twice');
unlike(does(0, 'join'), qr/;$/m, 'nor by join');

# A counter more
in('us', q{SELECT dc_create('views'); SELECT dc_replicate('views')});
like(does(3, 'status'), qr/ap lacks counters that us has: dc_region add ap/, 'a counter is missing');
like(does(3, 'join', 'ap'), qr/ap lacks the counter public\.views/, 'so there is no link');
does(3, 'add', 'ap');
does(0, 'add', 'eu');
does(0, 'join');
in('us', q{SELECT dc_incr('views', 'v', 3)});
is(wait_for($nodes{ap}, 'postgres', q{SELECT dc_get('views', 'v')}, '3'), '3', 'the new counter');

# A link that has lost its slot, and one that is disabled
in('us', 'ALTER SUBSCRIPTION dc_from_eu DISABLE');
in('ap', 'ALTER SUBSCRIPTION dc_from_us DISABLE');
wait_for($nodes{eu}, 'postgres', q{SELECT count(*) FROM pg_replication_slots WHERE slot_name LIKE 'dc\_us\_from%' AND NOT active}, '1');
in('eu', q{SELECT pg_drop_replication_slot(slot_name) FROM pg_replication_slots WHERE slot_name LIKE 'dc\_us\_from%'; SELECT dc_incr('likes', 'a', 1000)});
like(does(3, 'status'), qr/the link from eu to us: its slot does not exist/, 'a slot that is gone');
by_steps('repair');
have('mended', 'a', 1675, 'us', 'ap');
is_well('all is well again');

# A link that is configured wrongly, and then rightly
configure(map { $_ => undef } keys %nodes);
my $right = $config;
$config = file_of('wrong_link.conf', slurp_file($right) =~ s/^(link = .*?)dbname='postgres'/$1dbname='nowhere'/mr);
like(does(1, 'join', 'us'), qr/"nowhere" does not exist/, 'a link that cannot be');
$config = $right;
by_steps('join', 'us');
does(0, 'join');
is_well('a link that is right again');

# One that was created for a database that is not a region, with a slot there
in('us', 'CREATE DATABASE plain');
in('ap', 'DROP SUBSCRIPTION dc_from_us');
$config = file_of('wrong_link.conf', slurp_file($right) =~ s/^(link = .*?)dbname='postgres'/$1dbname='plain'/mr);
program('join', 'ap');
is(in('us', q{SELECT count(*) FROM pg_replication_slots WHERE database = 'plain'}), '1', 'a slot in another database');
$config = $right;
does(0, 'join');
is(in('us', q{SELECT count(*) FROM pg_replication_slots WHERE database = 'plain'}), '0', 'it is gone');
in('us', 'DROP DATABASE plain');
is_well('a link to the right database');

# A restore. What was counted after the backup and sent is not lost.
$nodes{us}->backup('monday');
in('us', q{SELECT dc_incr('likes', 'b', 100)});
have('before the restore', 'b', 100, 'eu', 'ap');
$nodes{us}->stop;
rmtree($nodes{us}->data_dir);
PostgreSQL::Test::RecursiveCopy::copypath($nodes{us}->backup_dir . '/monday', $nodes{us}->data_dir);
chmod 0700, $nodes{us}->data_dir;
$nodes{us}->append_conf('postgresql.conf', 'port = ' . $nodes{us}->port . "\nrestore_command = 'false'\nrecovery_target = 'immediate'\nrecovery_target_action = 'promote'\nmax_logical_replication_workers = 0");
append_to_file($nodes{us}->data_dir . '/recovery.signal', '');
$nodes{us}->start;
is(wait_for($nodes{us}, 'postgres', 'SELECT pg_is_in_recovery()', 'f'), 'f', 'us has been restored');
is(wait_for($nodes{us}, 'postgres', q{SELECT state FROM dc_regions() WHERE region = 'us'}, 'recopy'), 'recopy', 'and has taken a new epoch');
in('us', q{SELECT dc_incr('likes', 'b', 20)});
like(does(3, 'status'), qr/dc_region restore us/, 'status says what to call');
like(does(3, 'restore', 'us', '--dry-run'), qr/DROP SUBSCRIPTION dc_from_eu;.*start the server/s, 'what would be done');
my ($status, $steps, $out) = (3, 0, '');
($status, $out) = program('restore', 'us', '--stop-after=' . ++$steps) while $status == 3 && $out !~ /left to do/ && $steps < 60;
like($out, qr/start the server of us with its workers/, 'it has no workers yet');
$nodes{us}->append_conf('postgresql.conf', 'max_logical_replication_workers = 20');
$nodes{us}->restart;
like(does(0, 'restore', 'us', '--dry-run'), qr/dc_region_join\('eu'.*dc_region_refresh\('eu'/s, 'what would be done then');
($status, $steps) = (3, 0);
($status) = program('restore', 'us', '--stop-after=' . ++$steps) while $status == 3 && $steps < 60;
is($status, 0, 'a restore by one command, which was ended after each number of steps');
cmp_ok($steps, '>', 5, 'there were some');
is(in('us', q{SELECT epochs FROM dc_regions() WHERE region = 'us'}), '2', 'it has renewed once');
have('restored', 'b', 120, 'eu', 'us', 'ap');
is_well('nothing is left of it');
is(in($_, q{SELECT count(*) FROM pg_replication_slots WHERE slot_name LIKE 'dc\_%'}), '2', "$_ has the slots that it needs") foreach 'eu', 'us', 'ap';

# Two databases of one server
$nodes{sa} = $nodes{eu};
$database{sa} = 'other';
in('eu', 'CREATE DATABASE other');
configure(map { $_ => undef } keys %nodes);
foreach (1 .. torture(4, 40))
{
	my $job = start_command('dc_region', '-c', $config, 'add', 'sa');

	sleep(rand(1.5));
	$job->{run}->signal('KILL');
	finish_job($job);
	$printed .= $job->{out} . $job->{err};
	note("killed\n$job->{out}$job->{err}");
}
does(0, 'add', 'sa');
in('sa', q{SELECT dc_incr('likes', 'c', 7)});
have('of one server', 'c', 7, 'eu', 'us', 'ap');
have('of one server', 'a', 1675, 'sa');
is_well('all is well with four');
does(0, 'retire', 'sa');
unlike(does(0, 'retire', 'sa'), qr/;$/m, 'it is retired once');
have('retired', 'c', 7, 'eu', 'us', 'ap');
does(1, 'add', 'sa');
is_well('nothing is left of it');
is(in($_, q{SELECT count(*) FROM pg_replication_slots WHERE slot_name LIKE 'dc\_%'}), '2', "$_ has the slots that it needs") foreach 'eu', 'us', 'ap';

# One that comes after another one was retired has what that has counted
$nodes{za} = $nodes{us};
$database{za} = 'other';
in('us', 'CREATE DATABASE other');
configure(map { $_ => undef } 'ap', 'eu', 'us', 'za');
by_steps('add', 'za');
is_well('all is well with the new one');
have('new after one was retired', 'c', 7, 'za');
by_steps('retire', 'za');
is_well('nor of that one');

# One that cannot be reached: what can be done without it is done
configure(eu => undef, us => undef, ap => $nodes{ap}->connstr('nowhere') . " password=$secret");
like(does(3, 'status'), qr/ap cannot be reached: .*"nowhere" does not exist/, 'a conninfo that is wrong');
does(3, 'refresh', 'us');
like(does(1, 'restore', 'ap'), qr/ap cannot be reached/, 'which cannot be restored');

# One that is lost, and whose last was heard of by one of the others alone
configure(map { $_ => undef } 'eu', 'us', 'ap');
in('us', 'ALTER SUBSCRIPTION dc_from_ap DISABLE');
in('ap', q{SELECT dc_incr('likes', 'd', 9)});
have('the last of one that is lost', 'd', 9, 'eu');
like(does(1, 'retire', 'ap', '--force'), qr/ap is running: stop its server first/, 'not while it is there');
$nodes{ap}->stop('immediate');
like(does(3, 'status'), qr/ap cannot be reached/, 'one that is down');
($status, $steps) = (3, 0);
($status) = program('retire', 'ap', '--force', '--stop-after=' . (2 * ++$steps)) while $status == 3 && $steps < 40;
is($status, 0, 'a region that is lost, ended after some steps');
have('one that was lost', 'd', 9, 'us');
is_well('nothing is left of it');
like((program('status'))[1], qr/-- ap +retired/, 'it is shown as retired');
does(0, 'forget', 'ap');
is(in('us', q{SELECT string_agg(subname, ' ') FROM pg_subscription}), 'dc_from_eu', 'nor a link');
is(in('us', q{SELECT count(*) FROM pg_replication_slots}), '1', 'nor a slot');

# A function that would be called, as a superuser, instead of that of dcounter
in('us', q{CREATE FUNCTION public.dc_region_join(text, text) RETURNS SETOF text LANGUAGE sql AS $$ SELECT 'DROP DATABASE postgres' $$});
like(does(1, 'join'), qr/us has functions that do not belong to dcounter.*dc_region_join\(text,text\)/, 'a function of somebody else');
in('us', 'DROP FUNCTION public.dc_region_join(text, text)');

# A value that was damaged
in('us', q{UPDATE likes SET inc = inc + 1 WHERE key = 'a'});
like(does(4, 'check'), qr/us: the values of 1 keys of public\.likes/, 'a value that is wrong is found');
does(0, 'repair');
have('repaired', 'a', 1675, 'us');

# A counter that its owner has locked keeps the others from nothing
my $locker = dc_session($nodes{us}, 'postgres');
$locker->run('BEGIN; LOCK TABLE likes');
in('us', q{UPDATE views SET inc = inc + 1 WHERE key = 'v'});
like(does(4, 'check'), qr/left to do: us: counter public\.likes is skipped: canceling statement due to lock timeout\n.*us: the values of 1 keys of public\.views/s, 'others are looked at');
does(3, 'repair');
is(in('us', q{SELECT dc_get('views', 'v')}), '3', 'and repaired');
$locker->run('ROLLBACK');
$locker->quit;
does(0, 'check');

unlike($printed, qr/$secret/, 'no password was printed');
$nodes{$_}->stop('immediate') foreach 'eu', 'us';
done_testing();
