# Ledgers and kill -9, two-phase commit, failover, dump and restore, replication of the
# entries: every transfer that was acknowledged is present, once.
use strict;
use warnings;

use DcLedger;
use DcTest;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $rounds = torture(3, 60);

my $seed = $ENV{DC_SEED} // int(rand(1e9));
srand($seed);
note("seed $seed (set DC_SEED to repeat)");

my $node = ledger_node('crash', 1);
sql($node, 'postgres', 'CREATE TABLE told (op text, what text, id bigint)');

##
## kill -9

# A client sends its ops, most of them twice, and other clients' ops as well, and reports the
# answers. Two calls in one transaction could deadlock with those of another.
sub client_script
{
	my ($name) = @_;
	my $sql = '';

	foreach my $i (1 .. 3000)
	{
		my $op = rand() < 0.4 ? 'any ' . int(rand(3000)) : "$name " . (1 + int($i / 2));

		$sql .= rand() < 0.1
		  ? "BEGIN;\nSELECT 'told', '', what, id FROM post('$name undone $i');\nROLLBACK;\n\\echo undone\n"
		  : rand() < 0.1
		  ? "SELECT 'ended', '', dc_transfer_post('wallet', coalesce(max(transfer_id), 0)), 0 FROM wallet_pending WHERE state = 'open';\n"
		  : "SELECT 'told', '$op', what, id FROM post('$op');\n\\echo done\n";
	}
	return file_of("$name.sql", $sql);
}

# told(JOB): notes what a client was told, in a table
sub told
{
	my ($job) = @_;
	my (@told, $now);

	foreach my $line (split /\n/, $job->{out})
	{
		$now = "('$1', '$2', $3)" if $line =~ /^told\|(.+)\|(new|duplicate)\|(\d+)$/;
		$now = undef if $line =~ /^told\|.+\|refused\|$|^undone$/;
		push @told, $now if $line eq 'done' && defined $now;
		$now = undef if $line eq 'done';
	}
	sql($node, 'postgres', 'INSERT INTO told VALUES ' . join(', ', @told)) if @told;
	return scalar @told;
}

sub test_kill
{
	my ($round) = @_;
	my $kind = ('a client', 'the worker', 'the postmaster')[ $round % 3 ];
	my $what = "round $round, kill -9 of $kind";
	my @jobs = map { start_job($node, 'postgres', client_script("client $round.$_")) } 1 .. 6;
	my $until = 300 + int(rand(500));

	$node->poll_query_until('postgres', "SELECT count(*) > $until FROM wallet_op WHERE op_id LIKE 'client $round.%' OR op_id LIKE 'any%'")
	  or die 'no progress';
	if ($kind eq 'the postmaster')
	{
		$node->kill9;
	}
	else
	{
		my $pid = wait_pid($kind eq 'the worker' ? q{backend_type LIKE 'dcounter worker%'} : q{query LIKE '%post(%' AND backend_type = 'client backend' AND state <> 'idle'});

		kill 9, $pid;
	}
	# 3 if the server's last message was still read as an answer
	like(join(' ', map { finish_job($_) } @jobs), qr/^[23]( [23]){5}$/, "$what: all clients lost their connection");
	unlike(join('', map { $_->{err} } @jobs), qr/ERROR/, "$what: no error in clients");
	restart_after_kill9($node) if $kind eq 'the postmaster';
	wait_for($node, 'postgres', 'SELECT NOT pg_is_in_recovery()', 't') eq 't' or die 'no recovery';

	my $told = 0;
	$told += told($_) foreach @jobs;
	cmp_ok($told, '>', 20, "$what: they were told of some");
	is(sql($node, 'postgres', q{
		SELECT 'lost', * FROM told AS t WHERE NOT EXISTS (SELECT FROM wallet_op AS e WHERE e.op_id = t.op AND e.transfer_id = t.id);
		SELECT 'twice new', op, count(*) FROM told WHERE what = 'new' GROUP BY op HAVING count(*) > 1;
		SELECT 'undone', * FROM wallet_op WHERE op_id LIKE '%undone%';
		SELECT 'ended', * FROM wallet_pending WHERE state = 'posted' AND NOT EXISTS (SELECT FROM wallet_entry AS e WHERE e.transfer_id = wallet_pending.transfer_id)}),
		'', "$what: what they were told is there, once");
	ledger_is_sound($node, 'postgres', $what);
	return;
}

sub wait_pid
{
	my ($condition) = @_;
	my $pid;

	$node->poll_query_until('postgres', "SELECT count(*) > 0 FROM pg_stat_activity WHERE pid <> pg_backend_pid() AND $condition") or die 'no such process';
	$pid = sql($node, 'postgres', "SELECT pid FROM pg_stat_activity WHERE pid <> pg_backend_pid() AND $condition ORDER BY random() LIMIT 1");
	return $pid || wait_pid($condition);
}

##
## Two-phase commit

sub test_prepared
{
	my $state = q{SELECT balance, pending_out, available FROM dc_balance('wallet', 'p'); SELECT count(*) FROM dc_ledger_check('wallet')};

	sql($node, 'postgres', q{
		SELECT dc_account_open('wallet', 'p', 0, 1000);
		SELECT dc_transfer('wallet', 'bank', 'p', 100, 'start p');
		SELECT dc_transfer_pending('wallet', 'p', 'bank', 5, 'pending p', NULL, NULL);
		BEGIN; SELECT dc_transfer('wallet', 'p', 'bank', 60, 'out p'); PREPARE TRANSACTION 'out';
		BEGIN; SELECT dc_transfer('wallet', 'bank', 'p', 7, 'in p'); PREPARE TRANSACTION 'in';
		BEGIN; SELECT dc_transfer_void('wallet', max(transfer_id)) FROM wallet_pending; PREPARE TRANSACTION 'void';});
	foreach my $when ('at once', 'after a restart', 'after kill -9')
	{
		$node->restart if $when eq 'after a restart';
		if ($when eq 'after kill -9')
		{
			$node->kill9;
			restart_after_kill9($node);
		}
		is(sql($node, 'postgres', $state), "100|5|95\n0", "prepared transactions, $when: nothing of them is seen");
		fails_with($node, 'postgres', q{SELECT dc_transfer('wallet', 'p', 'bank', 36, 'more p')}, 'LG001', "$when: what one has taken cannot be spent");
		fails_with($node, 'postgres', q{SET lock_timeout = '50ms'; SELECT dc_transfer('wallet', 'bank', 'p', 7, 'in p')}, '55P03', "$when: its op is waited for");
		fails_with($node, 'postgres', q{SET lock_timeout = '50ms'; SELECT dc_account_open('wallet', 'p')}, '55P03', "$when: and it is, to change bounds");
	}
	is(sql($node, 'postgres', "ROLLBACK PREPARED 'out'; $state"), "100|5|95\n0", 'rolled back: it is there');
	is(sql($node, 'postgres', "COMMIT PREPARED 'in'; $state"), "107|5|102\n0", 'committed: what came in');
	is(sql($node, 'postgres', "COMMIT PREPARED 'void'; $state"), "107|0|107\n0", 'committed: a pending transfer was voided');
	is(sql($node, 'postgres', q{SELECT duplicate FROM dc_transfer('wallet', 'bank', 'p', 7, 'in p'); SELECT duplicate FROM dc_transfer('wallet', 'p', 'bank', 60, 'out p');
		SELECT duplicate FROM dc_transfer('wallet', 'p', 'bank', 47, 'all p')}), "t\nf\nf", 'one op is known, the other is not');
	is(sql($node, 'postgres', $state), "0|0|0\n0", 'and all can be spent');
	return;
}

##
## Dump and restore

sub test_dump
{
	my $file = PostgreSQL::Test::Utils::tempdir() . '/ledger.dump';
	my $settings = q{SELECT ledger, limits, entries, entry_ids, accounts, pendings, openings, auto_open FROM dcounter.ledger; SELECT counter, holds, op_retention, ledger FROM dcounter.counter ORDER BY counter::text COLLATE "C"};
	my $last = q{SELECT max(entry_id) FROM wallet_entry};

	foreach my $how ('-Fc', '-Fp --inserts')
	{
		my $name = 'restored_' . lc($how =~ s/\W+//gr);
		my $state = ledger_state($node, 'postgres');

		sql($node, 'postgres', "CREATE DATABASE $name TEMPLATE template0");
		$node->command_ok([ 'pg_dump', split(/ /, $how), '-f', $file, '-d', $node->connstr('postgres') ], "pg_dump $how");
		$node->command_ok($how eq '-Fc'
			? [ 'pg_restore', '--exit-on-error', '-j2', '-d', $node->connstr($name), $file ]
			: [ 'psql', '-Xq', '-v', 'ON_ERROR_STOP=1', '-o', '/dev/null', '-d', $node->connstr($name), '-f', $file ], "restore of $how");
		is(ledger_state($node, $name), $state, "$how: all is there");
		is(sql($node, $name, $settings), sql($node, 'postgres', $settings), "$how: as it was");
		ledger_is_sound($node, $name, "restored, $how");
		fails_with($node, $name, "$_", '55000', "$how: the guard is there: $_") foreach 'UPDATE wallet_entry SET amount = 1', 'DELETE FROM wallet_account', 'TRUNCATE wallet_pending';
		my $before = sql($node, $name, $last);

		is(sql($node, $name, qq{
			SELECT transfer_id > $before, duplicate FROM dc_transfer('wallet', 'bank', 'a5', 3, 'after the restore');
			SELECT key, balance, entries_sum, problem FROM dc_ledger_check('wallet')}), 't|f', "$how: it goes on with new numbers");
		sql($node, 'postgres', "DROP DATABASE $name WITH (FORCE)");
	}
	return;
}

##
## Replication of the entries, and of ops, to other tables

sub test_replication
{
	my $other = dc_node('other', extension => 0);
	my $columns = 'entry_id bigint, transfer_id bigint, key text, amount bigint, op_id text, at timestamptz, memo jsonb, PRIMARY KEY (transfer_id, entry_id)';
	my $all = 'SELECT count(*), md5(string_agg(concat(entry_id, transfer_id, key, amount, op_id, extract(epoch FROM at), memo), chr(10) ORDER BY entry_id)) FROM wallet_entry';
	my $ops = q{SELECT count(*), md5(string_agg(concat(op_id, key, delta, transfer_id), chr(10) ORDER BY op_id)) FROM wallet_op};

	sql($other, 'postgres', "CREATE TABLE wallet_entry ($columns); CREATE TABLE wallet_op (slot smallint, op_id text PRIMARY KEY, key text, delta bigint, transfer_id bigint, digest bigint, at timestamptz)");
	sql($node, 'postgres', 'CREATE PUBLICATION entries FOR TABLE wallet_entry, wallet_op WITH (publish_via_partition_root)');
	sql($other, 'postgres', q{CREATE SUBSCRIPTION entries CONNECTION $$} . $node->connstr('postgres') . q{$$ PUBLICATION entries});
	$other->wait_for_subscription_sync($node, 'entries');
	is(sql($other, 'postgres', $all), sql($node, 'postgres', $all), 'replication: entries from before');
	sql($node, 'postgres', q{
		SELECT count(post('after ' || i)) FROM generate_series(1, 300) AS i;
		BEGIN; SELECT post('undone ' || i) FROM generate_series(1, 30) AS i; ROLLBACK;
		BEGIN; SAVEPOINT a; SELECT post('undone ' || i) FROM generate_series(1, 30) AS i; ROLLBACK TO a; SELECT post('kept ' || i) FROM generate_series(1, 30) AS i; COMMIT;
		BEGIN; SELECT post('prepared ' || i) FROM generate_series(1, 30) AS i; PREPARE TRANSACTION 'replicated'; COMMIT PREPARED 'replicated';
		SELECT transfer_id FROM dc_transfer_many('wallet', array_fill('bank'::text, '{500}'), array_fill('a5'::text, '{500}'), array_fill(1::bigint, '{500}'), 'many entries', '{"memo": "x"}');
		SELECT dc_transfer_post('wallet', transfer_id, 1) FROM wallet_pending WHERE state = 'open';});
	$node->wait_for_catchup('entries');
	is(sql($other, 'postgres', $all), sql($node, 'postgres', $all), 'replication: new entries');
	is(sql($other, 'postgres', $ops), sql($node, 'postgres', $ops), 'replication: ops');
	is(sql($other, 'postgres', q{SELECT sum(amount), count(*) FILTER (WHERE op_id = 'many entries'), count(*) FILTER (WHERE op_id LIKE 'undone%') FROM wallet_entry}), '0|1000|0', 'replication: all of them, and no others');
	is(sql($other, 'postgres', q{SELECT key, sum(amount) FROM wallet_entry GROUP BY key ORDER BY key COLLATE "C"}), sql($node, 'postgres', q{SELECT key, dc_get('wallet', key) FROM wallet_account WHERE key IN (SELECT key FROM wallet_entry) ORDER BY key}),
		'replication: they sum up to the balances');
	sql($other, 'postgres', 'DROP SUBSCRIPTION entries');
	$other->stop;
	return;
}

##
## Standby

sub test_standby
{
	my $standby = PostgreSQL::Test::Cluster->new('standby');
	my $read = q{
		SELECT a.key, b.*, dc_balance_at('wallet', a.key, 'infinity') FROM wallet_account AS a, dc_balance('wallet', a.key) AS b ORDER BY 1;
		SELECT at, amount, balance FROM dc_account_statement('wallet', 'a5', '-infinity', 'infinity');
		SELECT * FROM dc_ledger_check('wallet'); SELECT * FROM wrong(); SELECT dc_sum('wallet');
		SELECT applied, key, delta, at FROM dc_op_status('wallet', 'start'); SELECT applied, key FROM dc_op_status('wallet', 'never');};

	$node->backup('base');
	$standby->init_from_backup($node, 'base', has_streaming => 1);
	$standby->start;
	sql($node, 'postgres', q{SELECT count(post('standby ' || i)) FROM generate_series(1, 100) AS i;
		BEGIN; SELECT dc_transfer('wallet', 'bank', 'a5', 11, 'kept'); PREPARE TRANSACTION 'kept';
		BEGIN; SELECT dc_transfer('wallet', 'bank', 'a5', 13, 'dropped'); PREPARE TRANSACTION 'dropped';});
	# The worker is done with what expires soon
	is(wait_for($node, 'postgres', q{SELECT count(*) FROM wallet_pending WHERE state = 'open' AND expires_at < now() + interval '1 minute'}, '0'), '0', 'standby: pending transfers expire');
	$node->wait_for_catchup($standby, 'replay', $node->lsn('insert'));
	is(sql($standby, 'postgres', $read), sql($node, 'postgres', $read), 'standby: reads as on the primary');
	foreach my $call ("dc_transfer('wallet', 'bank', 'a5', 1, 'x')", "dc_transfer('wallet', 'bank', 'a5', 1000, 'start')", "dc_transfer_many('wallet', '{bank}', '{a5}', '{1}', 'x')",
		"dc_transfer_pending('wallet', 'bank', 'a5', 1, 'x')", "dc_transfer_post('wallet', 1)", "dc_transfer_void('wallet', 1)", "dc_account_open('wallet', 'x')", "dc_ledger_create('x')")
	{
		fails_with($standby, 'postgres', "SELECT $call", '25006', "standby: $call is the read-only error");
	}
	my $before = sql($node, 'postgres', q{SELECT balance FROM dc_balance('wallet', 'a5')});

	$node->stop('immediate');
	$standby->promote;
	is(sql($standby, 'postgres', q{COMMIT PREPARED 'kept'; ROLLBACK PREPARED 'dropped';
		SELECT balance FROM dc_balance('wallet', 'a5'); SELECT duplicate FROM dc_transfer('wallet', 'bank', 'a5', 11, 'kept'); SELECT duplicate FROM dc_transfer('wallet', 'bank', 'a5', 13, 'dropped');}),
		$before + 11 . "\nt\nf", 'promoted: prepared transactions and their ops');
	is(sql($standby, 'postgres', q{SELECT * FROM dc_ledger_check('wallet');
		SELECT count(*) FROM post('promoted'); SELECT (post(op_id)).what, count(*) FROM wallet_op WHERE op_id LIKE 'standby%' GROUP BY 1}) =~ s/^1\nduplicate\|\d+$//r, '', 'promoted: it goes on, and knows its ops');
	$standby->stop;
	return;
}

test_kill($_) foreach 1 .. $rounds;
test_dump();
test_prepared();
test_replication();
test_standby();
done_testing();
