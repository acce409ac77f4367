# The lock that notifications of all databases take at commit is held by a session: presences without a channel are reported all the same.
use strict;
use warnings;

use DcTest;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = dc_node('notify', conf => [ "shared_preload_libraries = 'dcounter'", 'fsync = off', 'dcounter.presence_interval = 100ms', 'wal_level = replica', 'max_wal_senders = 2' ]);

sql($node, 'postgres', q{SELECT dc_presence_create('quiet', '7 days', events => '1 us'), dc_presence_create('loud', '7 days', events => '1 us', notify => 'loud')});
sql($node, 'postgres', q{SELECT dc_enter('quiet', 'r', 'ann'), dc_enter('loud', 'r', 'ann')});

sub told { return qq{SELECT count(*) FROM dcounter.outbox WHERE aggregatetype = '$_[0]' AND payload ->> 'count' = '$_[1]'} }
is(wait_for($node, 'postgres', told('quiet', 1), '1'), '1', 'one without a channel is told of');
is(wait_for($node, 'postgres', told('loud', 1), '1'), '1', 'one with a channel is told of');

# A commit that waits for a standby which is not there has its locks until then. The worker's commits wait for no standby.
sql($node, 'postgres', $_) foreach 'ALTER DATABASE postgres SET synchronous_commit = local', q{ALTER SYSTEM SET synchronous_standby_names = 'nobody'}, 'SELECT pg_reload_conf()';
is(wait_for($node, 'postgres', 'SHOW synchronous_standby_names', 'nobody'), 'nobody', 'commits wait for a standby');
sql($node, 'postgres', 'CHECKPOINT');    # then the checkpointer has read it, which tells those who commit
my $holder = dc_session($node, 'postgres');
$holder->run('SET synchronous_commit = on');
$holder->send(q{BEGIN; NOTIFY other; CREATE TABLE something (); COMMIT});
my $waits = q{SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'SyncRep'};
is(wait_for($node, 'postgres', $waits, '1'), '1', 'one that has notified waits');
my $worker = sql($node, 'postgres', q{SELECT pid FROM pg_stat_activity WHERE backend_type = 'dcounter worker'});
sql($node, 'postgres', q{SELECT dc_enter('quiet', 'r', 'bob'), dc_enter('loud', 'r', 'bob')});
is(wait_for($node, 'postgres', told('quiet', 2), '1'), '1', 'one without a channel is told of meanwhile');
is(sql($node, 'postgres', told('loud', 2)), '0', 'one with a channel is not');
is(sql($node, 'postgres', $waits), '1', 'the lock was held all the time');

sql($node, 'postgres', $_) foreach 'ALTER SYSTEM RESET synchronous_standby_names', 'SELECT pg_reload_conf()';
$holder->wait;
is(wait_for($node, 'postgres', told('loud', 2), '1'), '1', 'but when the lock is free');
is(sql($node, 'postgres', q{SELECT pid FROM pg_stat_activity WHERE backend_type = 'dcounter worker'}), $worker, 'by the same worker');
$holder->quit;
$node->stop;
done_testing();
