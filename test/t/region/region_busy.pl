# Other regions receive a key even if its row is written most of the time: the worker retries busy
# keys.
use strict;
use warnings;

use DcRegion;
use DcTest;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

# each commit holds its rows for 10 ms
my $node = region_node('eu', "log_min_messages = 'debug1'", "dcounter.compact_interval = '100ms'", 'fsync = on', 'commit_delay = 10000', 'commit_siblings = 0');
my $published = q{SELECT coalesce(sum(inc), 0) FROM likes_region WHERE key = 'hot'};
my $tried = 'of 1 keys that others were writing';

sql($node, 'postgres', q{SELECT dc_create('plain', totals => 'compacted')});

# A row that is held is tried again, and left. Other keys are published meanwhile.
my $session = dc_session($node, 'postgres');
my $offset = -s $node->logfile;
my $rows = 0;
for (my $i = 0; $i < 1000 && $rows ne '1 1'; $i++)
{
	# all that has been counted is compacted first: rows that are held while others come would only become more
	$session->run('ROLLBACK') if $i > 0;
	wait_for($node, 'postgres', q{SELECT count(*) FROM (TABLE likes_shard UNION ALL TABLE plain_shard) AS s WHERE key = 'hot'}, '0');
	sql($node, 'postgres', q{SELECT dc_incr('likes', 'hot', 1), dc_incr('plain', 'hot', 1)});
	$session->run('BEGIN');
	$rows = join ' ', map { $session->run("SELECT count(*) FROM (SELECT 1 FROM ${_}_shard WHERE key = 'hot' FOR UPDATE) AS s") } 'likes', 'plain';
}
is($rows, '1 1', 'a row is held');
ok($node->wait_for_log(qr/counter table "likes": $tried 0 were compacted at try 1\b/, $offset), 'it is tried again');
ok($node->wait_for_log(qr/counter table "likes": $tried 0 were compacted at try 5\b/, $offset), 'and again');
sql($node, 'postgres', q{SELECT dc_incr('likes', 'cold', 1)});
is(wait_for($node, 'postgres', q{SELECT inc FROM likes_region WHERE key = 'cold'}, '1'), '1', 'other keys are published');
$session->run('ROLLBACK');
is(wait_for($node, 'postgres', "SELECT ($published) = dc_get('likes', 'hot')", 't'), 't', 'and then this one');

# While a session keeps writing, it is found between two commits. Its pauses differ, so that they are not in step with the worker's, however long a
# commit takes.
my $writer = start_command('pgbench', '-n', '-c', 1, '-T', 600, '-f',
	file_of('hot.sql', "SELECT dc_incr('likes', 'hot', 1), dc_incr('plain', 'hot', 1);\n\\set pause random(1, 20)\n\\sleep :pause ms\n"), $node->connstr('postgres'));
ok($node->wait_for_log(qr/counter table "likes": $tried 1 were compacted/, $offset), 'a try finds it between two commits');
$writer->{run}->signal('TERM');
finish_job($writer);
is(wait_for($node, 'postgres', "SELECT ($published) = dc_get('likes', 'hot') AND dc_get('likes', 'hot') = dc_get('plain', 'hot')", 't'), 't', 'all is published');

# A table that no other region waits for is not tried again
unlike(slurp_file($node->logfile), qr/counter table "plain": of/, 'a table of one region is left for the next sweep');

$node->stop;
done_testing();
