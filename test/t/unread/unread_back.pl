# A watermark goes back only if increments were lost. Amounts in memory, and those on another server, are not of one
# snapshot with the watermark: a session must not move it back because it has read less than another session has marked.
use strict;
use warnings;

use DcTest;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = dc_node('back', conf => [ q{shared_preload_libraries = 'dcounter'}, 'autovacuum = off' ]);

# ------------------------------------------------------------
# Buffered: others count and mark while a call that has read the memory goes on
# ------------------------------------------------------------
# At any moment the watermark is what the last mark has said, as that was all there was.
sql($node, 'postgres', q{
	SELECT dc_create('mem', mode => 'buffered', flush_interval => '1 day'); SELECT dc_unread_create('seen', 'mem');
	SELECT dc_incr('mem', 'a');
	CREATE TABLE marked (n bigint);
	CREATE INDEX ON marked (n);
	CREATE TABLE bad (what text);
	CREATE FUNCTION marks_many() RETURNS void LANGUAGE plpgsql AS $$
	BEGIN
		-- a is the first to be read in memory, and there are many after it
		PERFORM dc_mark_read_many('seen', 'm', ARRAY['a'] || ARRAY(SELECT 'k' || i FROM generate_series(1, 3000) AS i));
		INSERT INTO bad SELECT format('%s was marked, and is %s', n, seen) FROM (SELECT max(n) AS n FROM marked) AS m, seen WHERE seen < n;
	END $$;});
my @counts = map {
	start_command('pgbench', '-n', '-c', '1', '-R', '20', '-T', torture(8, 120), '-f', file_of('counts', q{
BEGIN;
SELECT dc_incr('mem', 'a');
SELECT dc_mark_read('seen', 'm', 'a');
INSERT INTO marked SELECT seen FROM seen;
COMMIT;
}), $node->connstr('postgres'))
} 1 .. 3;
my @marks = map {
	start_command('pgbench', '-n', '-c', '1', '-T', torture(8, 120), '-f', file_of('marks', 'SELECT marks_many();'), $node->connstr('postgres'))
} 1 .. 2;

foreach my $job (@counts, @marks)
{
	is(finish_job($job), 0, 'a client is done') or diag($job->{err});
}
is(sql($node, 'postgres', 'SELECT * FROM bad LIMIT 5'), '', 'nobody has taken the watermark back');
is(sql($node, 'postgres', q{SELECT unread, seen = upto FROM dc_unread('seen', 'm', '{a}')}), '0|t', 'all is read');
# what a crash takes does take it back, for one key as for many
sql($node, 'postgres', q{SELECT dc_flush('mem'); SELECT dc_incr('mem', k, 5) FROM unnest(ARRAY['a', 'b']) AS k; SELECT dc_mark_read_many('seen', 'm', '{b,a}')});
my $upto = sql($node, 'postgres', q{SELECT upto FROM dc_unread('seen', 'm', '{a}')});
$node->stop('immediate');
$node->start;
is(sql($node, 'postgres', q{SELECT * FROM dc_unread('seen', 'm', '{a,b}')}), "a|0|$upto|" . ($upto - 5) . "\nb|0|5|0", 'a crash');
is(sql($node, 'postgres', q{SELECT dc_mark_read_many('seen', 'm', '{a,b}'); SELECT seen FROM seen ORDER BY key}), "\n" . ($upto - 5) . "\n0", 'many marks take back what was lost');

# ------------------------------------------------------------
# On another server, whose snapshot is that of the first look in a transaction
# ------------------------------------------------------------
my $columns = 'key text COLLATE "C" NOT NULL, %s inc bigint NOT NULL DEFAULT 0, dec bigint NOT NULL DEFAULT 0, updated_at timestamptz NOT NULL DEFAULT now()';
my ($totals, $shards) = (sprintf($columns, ''), sprintf($columns, 'shard int NOT NULL,'));
my ($host, $port) = ($node->host, $node->port);

sql($node, 'postgres', 'CREATE DATABASE remote TEMPLATE template0; CREATE DATABASE near TEMPLATE template0');
sql($node, 'remote', "CREATE TABLE c ($totals, PRIMARY KEY (key)); CREATE TABLE c_shard ($shards, PRIMARY KEY (key, shard))");
sql($node, 'near', qq{
	CREATE EXTENSION dcounter; CREATE EXTENSION postgres_fdw;
	CREATE SERVER remote FOREIGN DATA WRAPPER postgres_fdw OPTIONS (host '$host', port '$port', dbname 'remote');
	CREATE USER MAPPING FOR CURRENT_USER SERVER remote;
	CREATE FOREIGN TABLE c ($totals) SERVER remote;
	CREATE FOREIGN TABLE c_shard ($shards) SERVER remote;
	SELECT dc_adopt('c'); SELECT dc_unread_create('seen', 'c');
	SELECT dc_incr('c', 'a', 5);});
my $session = dc_session($node, 'near');

is($session->run(q{BEGIN; SELECT unread FROM dc_unread('seen', 'm', '{a}')}), '5', 'a transaction looks');
sql($node, 'near', q{SELECT dc_incr('c', 'a', 3); SELECT dc_mark_read('seen', 'm', 'a')});
is($session->run(q{SELECT dc_mark_read('seen', 'm', 'a'); SELECT dc_mark_read_many('seen', 'm', '{a}'); SELECT * FROM dc_unread('seen', 'm', '{a}'); COMMIT}), "\n\na|0|8|5", 'marks what it knows of');
is(sql($node, 'near', q{SELECT * FROM dc_unread('seen', 'm', '{a}')}), 'a|0|8|8', 'what others have marked stays');
$session->quit;

$node->stop;
done_testing();
