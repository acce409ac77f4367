# PgBouncer in transaction mode, with a pool of four connections for sixteen clients: likes, stock with holds, buffered
# views, and events that are fetched and acknowledged come out exact.
use strict;
use warnings;

use DcTest;
use IPC::Run;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(sleep);

my ($bouncer) = grep { -x } map { "$_/pgbouncer" } split(/:/, $ENV{PATH}), '/usr/sbin';
plan skip_all => 'no pgbouncer here' if !$bouncer;

my $node = dc_node('pool', conf => [ q{shared_preload_libraries = 'dcounter'} ]);
my $port = PostgreSQL::Test::Cluster::get_free_port();
my $folder = $PostgreSQL::Test::Utils::tmp_check;
my $host = $node->host;
my ($clients, $rounds) = (16, 25);

sql($node, 'postgres', q{
	CREATE ROLE app LOGIN SUPERUSER;
	SELECT dc_create('likes'), dc_create('views', mode => 'buffered'), dc_stock_create('seats');
	SELECT dc_restock('seats', 'a', 200);
	SELECT dc_consumer_create('c');
	CREATE TABLE sold (n bigint);
	CREATE TABLE got (seq bigint, key text);
});
my $users = file_of('users', qq{"app" ""\n});
my $ini = file_of('pgbouncer.ini', qq{
[databases]
postgres = host=$host port=@{[ $node->port ]} dbname=postgres pool_size=4
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = $port
unix_socket_dir = $host
auth_type = any
auth_file = $users
pool_mode = transaction
max_client_conn = 100
ignore_startup_parameters = extra_float_digits,options
});
# auth_type any: the user is that of the database
my $text = slurp_file($ini) =~ s/dbname=postgres/dbname=postgres user=app/r;
open my $handle, '>', $ini or die;
print $handle $text;
close $handle;
my ($in, $out, $err) = ('', '', '');
my $run = IPC::Run::start([ $bouncer, $ini ], '<', \$in, '>', \$out, '2>', \$err);
my $pool = "host=127.0.0.1 port=$port user=app dbname=postgres";

my $answer = '';
for (my $i = 0; $i < 300 && $answer ne '1'; $i++)
{
	IPC::Run::run([ 'psql', '-XAtq', '-d', $pool, '-c', 'SELECT 1' ], '<', \undef, '>', \$answer, '2>', \my $lost);
	chomp $answer;
	sleep 0.1 if $answer ne '1';
}
is($answer, '1', 'the pool answers') or diag($err);

my $load = file_of('load', q{
BEGIN;
SELECT dc_incr('likes', 'hot');
SELECT dc_publish('t', 'k' || :client_id % 4, 'e', '{}');
COMMIT;
BEGIN;
SELECT dc_incr('likes', 'hot', 1000);
ROLLBACK;
SELECT dc_incr('views', 'page');
BEGIN;
INSERT INTO sold SELECT 1 FROM dc_take('seats', 'a') AS t WHERE t;
COMMIT;
SELECT coalesce(dc_hold('seats', 'a')::text, '') AS hold \gset
BEGIN;
INSERT INTO sold SELECT 1 WHERE ':hold' <> '' AND dc_hold_confirm('seats', nullif(':hold', '')::uuid) = 'confirmed';
COMMIT;
});
# two members share the events while they are written
my $fetch = file_of('fetch', q{
BEGIN;
WITH f AS MATERIALIZED (SELECT * FROM dc_fetch('c', 50, member => 'm' || :client_id)),
	w AS (INSERT INTO got SELECT seq, key FROM f)
SELECT dc_ack('c', max(seq), 'm' || :client_id) FROM f HAVING count(*) > 0;
COMMIT;
\sleep 5 ms
});
my @pgbench = ('pgbench', '-n', '-M', 'simple');
my $consumers = start_command(@pgbench, '-c', '2', '-T', '3600', '-f', $fetch, $pool);
my $writers = start_command(@pgbench, '-c', $clients, '-t', $rounds, '-f', $load, $pool);
finish_job($writers);
unlike($writers->{err}, qr/ERROR|aborted/, 'writers meet no error');
my $n = $clients * $rounds;
is(wait_for($node, 'postgres', 'SELECT count(*) FROM got', $n), $n, 'all events arrive');
$consumers->{run}->signal('TERM');
finish_job($consumers);
unlike($consumers->{err}, qr/ERROR/, 'consumers meet no error');

is(sql($node, 'postgres', q{SELECT count(DISTINCT seq) FROM got}), $n, 'each event once');
is(sql($node, 'postgres', q{SELECT dc_get('likes', 'hot')}), $n, 'likes are exact');
is(sql($node, 'postgres', q{SELECT dc_get('views', 'page')}), $n, 'so are views');
is(sql($node, 'postgres', q{SELECT count(*), dc_get('seats', 'a') FROM sold}), '200|0', 'all that was in stock is sold, and no more');
is(sql($node, 'postgres', q{SELECT count(*) FROM dc_holds('seats')}), '0', 'no hold is left');
cmp_ok(sql($node, 'postgres', q{SELECT count(*) FROM pg_stat_activity WHERE usename = 'app'}), '<=', 4, 'over four connections');
$run->kill_kill;
$node->stop;
done_testing();
