# The bank test: many sessions post random transfers, most ops several times, while others
# sum all balances up. At each isolation level, with preload and without.
use strict;
use warnings;

use DcLedger;
use DcTest;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $clients = 32;
# transactions of a client; in all, about as many different ops are sent again and again
my $calls = torture(12, 1000);
my %nodes = (preload => ledger_node('preload', 1), plain => ledger_node('plain', 0));
my $round = 0;

# pgbench(NODE, LEVEL, CALLS, OPTIONS...): how many transactions each client does, so that a slow machine only takes longer
sub pgbench
{
	my ($node, $level, $calls, @options) = @_;
	local $ENV{PGOPTIONS} = '-c default_transaction_isolation=' . $level =~ s/ /\\ /r;

	return start_command('pgbench', '-n', '-j', 1, '--max-tries', 10000, '-t', $calls, @options, $node->connstr('postgres'));
}

sub test_bank
{
	my ($name, $level) = @_;
	my $node = $nodes{$name};
	my $what = "$name, $level";
	my $logged = -s $node->logfile;
	my @prepared = map { ('-f', file_of('prepared ' . ++$round . '.sql',
				"\\set new random(1, 1000000000000000)\nBEGIN;\nSELECT post('$level prepared :new');\nPREPARE TRANSACTION ':client_id :new';\n$_ PREPARED ':client_id :new';\n")) } 'COMMIT', 'ROLLBACK';
	my $reader = file_of("reader $round.sql", "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY;\nSELECT check_snapshot();\nSELECT check_snapshot();\nCOMMIT;\n");
	my $statement = file_of("statement $round.sql", "SELECT check_snapshot();\n");
	my $check = file_of("check $round.sql", "SELECT 1 / (count(*) = 0)::int FROM dc_ledger_check('wallet');\n");

	my @jobs = (
		pgbench($node, $level, $calls, '-c', $clients, bank_scripts("$name $level", $calls * 10)),
		pgbench($node, $level, $calls * 5, '-c', 1, '-f', "$reader\@2", '-f', "$statement\@2", '-f', $check));
	push @jobs, pgbench($node, $level, $calls * 10, '-c', 2, @prepared) if $level eq 'read committed';
	foreach my $i (0 .. $#jobs)
	{
		is(finish_job($jobs[$i]) . " $jobs[$i]->{err}", '0 ', "$what: " . ('transfers', 'readers', 'prepared transactions')[$i]);
		note("$what: $1") if $jobs[$i]->{out} =~ /(actually processed: \d+)/;
		cmp_ok($jobs[$i]->{out} =~ /actually processed: (\d+)/ ? $1 : 0, '>', 0, "$what: some were there");
	}
	ledger_is_sound($node, 'postgres', $what);
	cmp_ok(sql($node, 'postgres', q{SELECT count(*) FROM wallet_op}), '>', 50, "$what: ops were posted");
	unlike(PostgreSQL::Test::Utils::slurp_file($node->logfile, $logged), qr/deadlock detected|ERROR:  (?!could not serialize|canceling autovacuum task)|PANIC|FATAL:  (?!terminating|the database)/,
		"$what: no deadlock, and no other error in the log");
	return;
}

# Few accounts with one row for each of their limits, in all orders: they wait for each
# other, but never in a circle.
sub test_narrow
{
	my ($name, $level) = @_;
	my $node = $nodes{$name};
	my $what = "$name, $level, few accounts";
	my $ledger = 'narrow' . ++$round;
	my $logged = -s $node->logfile;
	my $head = "\\set e random(1, 1000000000000000)\n\\set q random(1, 9)\n";
	my @options;

	sql($node, 'postgres', qq{
		SELECT dc_ledger_create('$ledger');
		SELECT dc_alter('$ledger', max_shards => 1), dc_alter('${ledger}_limit', max_shards => 1);
		SELECT dc_account_open('$ledger', 'bank', NULL);
		SELECT dc_account_open('$ledger', k, 0, 2000000), dc_transfer('$ledger', 'bank', k, 1000000, k) FROM unnest('{a,b,c,d}'::text[]) AS k;});
	foreach my $lines ('{a,b,c} {d,d,d}', '{c,b,a} {d,d,d}', '{b,d} {a,c}', '{c,a} {d,b}', '{a} {b}', '{b} {a}', '{d} {bank}', '{bank} {a}')
	{
		my ($from, $to) = split / /, $lines;
		my $amounts = '{' . join(',', (':q') x ($from =~ tr/,// + 1)) . '}';

		push @options, '-f', file_of("$ledger $from $to.sql", "${head}SELECT dc_transfer_many('$ledger', '$from', '$to', '$amounts', ':e');\n");
	}
	push @options, '-f', file_of("$ledger pending.sql", "${head}SELECT dc_transfer_post('$ledger', transfer_id, 1) FROM dc_transfer_pending('$ledger', 'd', 'b', :q, ':e');\n");
	my $job = pgbench($node, $level, $calls * 20, '-c', 10, @options);

	is(finish_job($job) . " $job->{err}", '0 ', "$what: transfers");
	note("$what: $1") if $job->{out} =~ /(actually processed: \d+)/;
	is(sql($node, 'postgres', "SELECT * FROM dc_ledger_check('$ledger'); SELECT dc_sum('$ledger')"), '0', "$what: the books are right");
	unlike(PostgreSQL::Test::Utils::slurp_file($node->logfile, $logged), qr/deadlock detected/, "$what: no deadlock");
	return;
}

test_bank('preload', $_) foreach 'read committed', 'repeatable read', 'serializable';
test_bank('plain', 'read committed');
test_narrow('plain', $_) foreach 'read committed', 'repeatable read', 'serializable';
test_narrow('preload', 'read committed');

foreach my $name (sort keys %nodes)
{
	my $node = $nodes{$name};

	# Some stay open for a day, if no client has ended them: here one is ended each way
	sql($node, 'postgres', q{SELECT count(id) FROM (SELECT e FROM (SELECT 'by hand ' || i AS e FROM generate_series(1, 200) AS i) AS s, lines(e) WHERE pending AND pick(e, 5, 3) <> 1 OFFSET 0) AS u, post(e)});
	sql($node, 'postgres', "SELECT $_ FROM (SELECT max(transfer_id) AS id FROM wallet_pending WHERE op_id LIKE 'by hand %' AND state = 'open') AS p") foreach q{dc_transfer_void('wallet', id)}, 'post_pending(id)';
	# The worker ends what is left open; without it CALL dc_maintain() does
	sql($node, 'postgres', 'CALL dc_maintain()') if $name eq 'plain';
	is(wait_for($node, 'postgres', q{SELECT count(*) FROM wallet_pending WHERE state = 'open' AND expires_at < clock_timestamp()}, '0'), '0', "$name: pending transfers expire");
	is(sql($node, 'postgres', q{SELECT count(DISTINCT state), (SELECT last_value FROM duplicates) > 100 FROM wallet_pending}), '4|t', "$name: all ways to end one, and many duplicates");
	is(sql($node, 'postgres', q{SELECT dc_transfer_void('wallet', transfer_id) FROM wallet_pending WHERE state = 'open'}) =~ s/^voided\n?//mgr, '', "$name: the others are voided");
	is(sql($node, 'postgres', q{SELECT * FROM wrong() UNION ALL SELECT b::text FROM wallet_account AS a, dc_balance('wallet', key) AS b WHERE pending_out <> 0 OR pending_in <> 0}), '', "$name: the books are right");
	# All that is available can go out, to the unit
	is(sql($node, 'postgres', q{
		SELECT count(dc_transfer('wallet', key, 'bank', available, 'last ' || key)) > 0 FROM wallet_account AS a, dc_balance('wallet', a.key) WHERE available > 0;
		SELECT key, balance, available FROM wallet_account AS a, dc_balance('wallet', a.key) WHERE balance <> min_balance;
		SELECT * FROM dc_ledger_check('wallet')}), 't', "$name: all that is available can go out");
	fails_with($node, 'postgres', "SELECT dc_alter('$_', mode => 'buffered')", $name eq 'plain' ? '55000' : '42809', "$name: $_ is not buffered") foreach 'wallet', 'wallet_limit';
}

$_->stop foreach values %nodes;
done_testing();
