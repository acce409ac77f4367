# The file of presences with numbers in it that are not those of what follows, and a checksum that is right all the same, as no
# accident writes it: it is ignored, or what it has is loaded, and never more. And the memory of a database that was dropped:
# the worker gives back what its members had, as the file of the next shutdown shows; a call that finds no memory does without.
use strict;
use warnings;

use DcTest;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = dc_node('main', conf => [ q{shared_preload_libraries = 'dcounter'}, 'dcounter.worker = off', 'fsync = off', q{dcounter.presence_size = '256kB'} ]);
my $file = $node->data_dir . '/pg_stat/dcounter.presence';

# where the numbers of the header are
my %at = (format => [ 4, 'L' ], cells => [ 56, 'L' ], nslots => [ 64, 'L' ], nrooms => [ 72, 'Q' ], nmembers => [ 80, 'Q' ]);
my @table = map { my $c = $_; $c = $c & 1 ? ($c >> 1) ^ 0x82F63B78 : $c >> 1 foreach 1 .. 8; $c } 0 .. 255;

sub crc32c
{
	my $crc = 0xFFFFFFFF;

	$crc = $table[ ($crc ^ $_) & 255 ] ^ ($crc >> 8) foreach unpack('C*', $_[0]);
	return $crc ^ 0xFFFFFFFF;
}

sub header
{
	my ($bytes, $name) = @_;

	return unpack("x$at{$name}[0] $at{$name}[1]", $bytes);
}

# change(PLACE, FORMAT, NUMBER): in the file of a server that is stopped
sub change
{
	my ($place, $format, $number) = @_;
	my $bytes = substr(slurp_file($file), 0, -4);
	my $new = pack($format, $number);

	substr($bytes, $place, length $new) = $new;
	open(my $handle, '>:raw', $file) or die "$file: $!";
	print $handle $bytes, pack('L', crc32c($bytes));
	close $handle or die "$file: $!";
	return;
}

sub map_bytes { return sql($node, 'postgres', q{SELECT allocated_size FROM pg_shmem_allocations WHERE name = 'dcounter presence map'}) }

# the members of an exact room, and of an approximate one, which has more than fits into a small server's memory
sub there { return sql($node, 'postgres', q{SELECT dc_present('chat', 'a'), dc_present('live', 'big') BETWEEN 28000 AND 32000, dc_present('live', 'big') = 0}) }
my $everybody = q{SELECT dc_enter('chat', 'a', 'ann', 'phone', '{"x": 1}'), dc_enter('chat', 'a', 'bob'), count(dc_beat('live', 'big', 'm' || i)) FROM generate_series(1, 30000) AS i};

sql($node, 'postgres', q{SELECT dc_presence_create('chat', '7 days', events => '1 us'), dc_presence_create('live', '7 days', approx => true, max_members => 1000000)});
sql($node, 'postgres', $everybody);
sql($node, 'postgres', 'CALL dc_maintain()');
my $bytes = map_bytes();
$node->stop;
is(unpack('L', substr(slurp_file($file), -4)), crc32c(substr(slurp_file($file), 0, -4)), 'the test knows the checksum');
is(join(' ', map { header(slurp_file($file), $_) } 'nslots', 'nrooms', 'nmembers'), '2 2 2', 'and the header');
# one room takes all leaves of a ring, whose number is behind its name; rooms are in another order in each file
sub leaves { return index(slurp_file($file), 'big') + 3 + 24 }
is(unpack('L', substr(slurp_file($file), leaves(), 4)), 863, 'and the head of a ring');
$node->start;
is(there(), '2|t|f', 'all are there, as after any restart');

my @refused = ([ 'nslots', 1 ], [ 'nslots', 1025 ], [ 'nslots', 0xFFFFFFFF ], [ 'nrooms', 1 ], [ 'nrooms', 3 ], [ 'nrooms', 2**62 ], [ 'nrooms', ~0 ], [ 'nmembers', 3 ], [ 'nmembers', ~0 ],
	[ 'leaves', 862 ], [ 'leaves', 864 ], [ 'leaves', 0xFFFFFFFF ]);
foreach (@refused)
{
	my ($name, $number) = @$_;
	my $seen = sql($node, 'postgres', 'SELECT coalesce(max(seq), 0) FROM dcounter.outbox');

	sql($node, 'postgres', $everybody);
	$node->stop;
	my $log = -s $node->logfile;
	change($name eq 'leaves' ? (leaves(), 'L') : @{ $at{$name} }, $number);
	$node->start;
	is(there(), '0|f|t', "$name $number: nobody is there");
	like(substr(slurp_file($node->logfile), $log), qr/the members of all presences are lost\n.*DETAIL:  File "pg_stat\/dcounter.presence" is ignored: it is malformed\./, 'the log says so');
	is(sql($node, 'postgres', "CALL dc_maintain(); SELECT string_agg(type, ' ') FROM dcounter.outbox WHERE seq > $seen AND type = 'presence.reset'"), 'presence.reset', 'and so are listeners told');
	is(map_bytes(), $bytes, 'with as much memory as before');
	is(sql($node, 'postgres', q{SELECT sum(members), sum(memory) FROM dc_stat_presence}), '0|0', 'none of which is in use');
}
sql($node, 'postgres', $everybody);
is(there(), '2|t|f', 'all can enter');

# cells are how many there have to be: too many of them are not believed, and with too few nothing is loaded
foreach (0xFFFFFFFF, 100_000)
{
	$node->stop;
	my $size = -s $file;

	change(@{ $at{cells} }, $_);
	$node->start;
	is(there(), '2|t|f', "$_ cells: all are there");
	cmp_ok(map_bytes(), '<=', 12 * $size + 1000, 'in no more memory than the file can need');
}
$node->append_conf('postgresql.conf', q{dcounter.presence_size = '128kB'});
$node->restart;
is(there(), '2|t|f', 'with a setting that is too small for them, too');
$node->stop;
change(@{ $at{cells} }, 0);
$node->start;
is(there(), '0|f|t', 'no cells: nothing is loaded in part');
like(slurp_file($node->logfile), qr/is ignored: there is not enough memory for it/, 'as there is no memory');
cmp_ok(map_bytes(), '<=', 128 * 1024, 'which is as small as it was set');
is(sql($node, 'postgres', q{SELECT dc_enter('chat', 'a', 'ann'), dc_enter('live', 'b', 'ann')}), '1|1', 'and can be used');

##
## More presences than can have rooms at a time: each is notified of a new epoch once
sql($node, 'postgres', q{SELECT count(dc_presence_create('tenant ' || i, '7 days', events => '1 us', notify => 'tenants')) FROM generate_series(1, 1100) AS i});
$node->stop('immediate');
$node->start;
sql($node, 'postgres', 'CALL dc_maintain()') foreach 1 .. 4;
my $resets = q{SELECT count(*), count(DISTINCT aggregatetype) FROM dcounter.outbox WHERE type = 'presence.reset' AND aggregatetype LIKE 'tenant %'};
is(sql($node, 'postgres', $resets), '1100|1100', 'a crash: 1100 presences are told of it once each');
is(sql($node, 'postgres', q{SELECT dc_enter('tenant 1100', 'a', 'ann'), dc_enter('tenant 1', 'a', 'ann')}), '1|1', 'all can be used');
sql($node, 'postgres', q{SELECT dc_presence_alter('tenant 7', '1 day'); CALL dc_maintain(); CALL dc_maintain()});
$node->restart;
sql($node, 'postgres', 'CALL dc_maintain()') foreach 1 .. 2;
is(sql($node, 'postgres', $resets), '1100|1100', 'and not again after a clean restart');
sql($node, 'postgres', q{SELECT count(dc_presence_drop('tenant ' || i)) FROM generate_series(1, 1100) AS i});

##
## Databases that are dropped
$node->append_conf('postgresql.conf', q{dcounter.presence_size = '256kB'});
$node->restart;
# rooms of a rule that is dropped give their memory back at once, though no worker turns the wheel: otherwise this fills it
foreach my $round (1 .. 4)
{
	sql($node, 'postgres', q{SELECT dc_presence_create('many', '7 days', max_members => 1000000)});
	is(sql($node, 'postgres', q{SELECT count(dc_enter('many', 'room ' || i, 'ann')) FROM generate_series(1, 600) AS i}), '600', "$round: rooms of one that is dropped then");
	sql($node, 'postgres', q{SELECT dc_presence_drop('many')});
}
foreach my $round (1 .. 3)
{
	sql($node, 'postgres', 'CREATE DATABASE other');
	sql($node, 'other', q{CREATE EXTENSION dcounter; SELECT dc_presence_create('live', '7 days', approx => true, max_members => 1000000)});
	is(sql($node, 'other', q{SELECT count(dc_beat('live', 'big', 'm' || i)) FROM generate_series(1, 30000) AS i}), '30000', "$round: one that has more than half of the memory");
	sql($node, 'postgres', 'DROP DATABASE other');
	sql($node, 'postgres', 'SELECT pg_sleep(1.1)');    # they are looked for each second
}
is(sql($node, 'postgres', q{SELECT dc_presence_create('all', '7 days', approx => true, max_members => 1000000); SELECT count(dc_beat('all', 'big', 'm' || i)) FROM generate_series(1, 30000) AS i}), "\n30000", 'without a worker, who finds no memory looks for them');
sql($node, 'postgres', q{SELECT dc_presence_drop('all')});

$node->append_conf('postgresql.conf', "dcounter.worker = on\ndcounter.presence_interval = '100ms'");
$node->restart;
sql($node, 'postgres', q{SELECT dc_enter('chat', 'a', 'ann')});
sql($node, 'postgres', 'CREATE DATABASE other');
sql($node, 'other', q{CREATE EXTENSION dcounter; SELECT dc_presence_create('chat', '7 days'), dc_presence_create('live', '7 days', approx => true)});
sql($node, 'other', q{SELECT count(dc_enter('chat', 'a', 'm' || i)), count(dc_beat('live', 'b' || i % 10, 'm' || i)) FROM generate_series(1, 300) AS i});
# that of the dropped one cannot be: its own worker holds it for a while
wait_for($node, 'postgres', q{SELECT count(*) FROM pg_stat_activity WHERE datname = 'other' AND backend_type = 'client backend'}, '0');
sql($node, 'postgres', 'DROP DATABASE other WITH (FORCE)');
my $runs = sql($node, 'postgres', q{SELECT runs FROM dc_stat_worker WHERE datname = 'postgres' AND job = 'presence'});
is(wait_for($node, 'postgres', "SELECT runs > $runs + 20 FROM dc_stat_worker WHERE datname = 'postgres' AND job = 'presence'", 't'), 't', 'with a worker, it looks for them');
$node->stop;
is(header(slurp_file($file), 'nmembers'), 1, 'the members of the other database are gone');
cmp_ok(header(slurp_file($file), 'cells'), '<', 40, 'and their rings');

##
## More presences than can have rooms at a time, most of which have rooms again before they are notified of a crash: more than one transaction does that
$node->append_conf('postgresql.conf', "dcounter.worker = off\ndcounter.presence_size = '2MB'");
$node->start;
sql($node, 'postgres', q{DELETE FROM dcounter.outbox; SELECT count(dc_presence_create('tenant ' || i, '7 days', events => '1 us', notify => 'tenants')) FROM generate_series(1, 1100) AS i});
$node->stop('immediate');
$node->start;
foreach my $part (0 .. 2)
{
	sql($node, 'postgres', "SELECT count(dc_enter('tenant ' || i, 'a', 'ann')) FROM generate_series(1 + 300 * $part, 300 + 300 * $part) AS i");
	sql($node, 'postgres', 'CALL dc_maintain()');
}
sql($node, 'postgres', q{SELECT count(dc_exit('tenant ' || i, 'a', 'ann')) FROM generate_series(1, 900) AS i});
sql($node, 'postgres', 'CALL dc_maintain()') foreach 1 .. 4;
is(sql($node, 'postgres', $resets), '1100|1100', 'each is told of once');
$node->stop;
done_testing();
