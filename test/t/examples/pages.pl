# README.md and the first pages do what they say: their blocks of SQL run, in order, in a fresh
# database of a server that has dcounter preloaded, and where a statement has its result in a
# comment after it, that is the result. There is no worker, as its rounds would come between the
# statements, except where a page starts it.
use strict;
use warnings;

use DcDoc;
use DcTest;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

# how many results a page compares, at least
my %pages = (
	'README.md' => 2,
	'doc/buffer.md' => 6,
	'doc/buffer-operation.md' => 0,
	'doc/budgets.md' => 10,
	'doc/counters.md' => 8,
	'doc/limits-operation.md' => 2,
	'doc/hll.md' => 1,
	'doc/install.md' => 3,
	'doc/leaderboard.md' => 8,
	'doc/ledger.md' => 13,
	'doc/ledger-operation.md' => 1,
	'doc/once.md' => 5,
	'doc/outbox-consumers.md' => 4,
	'doc/outbox-events.md' => 1,
	'doc/outbox-operation.md' => 0,
	'doc/outbox.md' => 5,
	'doc/stock.md' => 10,
	'doc/unread-operation.md' => 1,
	'doc/cms.md' => 1,
	'doc/cookbook.md' => 30,
	'doc/operations.md' => 0,
	'doc/roles.md' => 30,
	'doc/backup.md' => 1,
	'doc/monitoring.md' => 1,
	'doc/tuning.md' => 0,
	'doc/statistics.md' => 0,
	'doc/worker.md' => 0,
	'doc/troubleshooting.md' => 25,
	'doc/migrate.md' => 8,
	'doc/faq.md' => 3,
	'doc/distinct.md' => 4,
	'doc/live-server.md' => 8,
	'doc/live.md' => 3,
	'doc/time.md' => 8,
	'doc/topk.md' => 1,
	'doc/trending.md' => 3,
	'doc/windows.md' => 6);
my $node = dc_node('pages', extension => 0,
	conf => [ q{shared_preload_libraries = 'dcounter'}, 'dcounter.worker = off', 'max_prepared_transactions = 10' ]);
my $n = 0;

foreach my $page (sort keys %pages)
{
	my $database = 'page' . ++$n;
	my $roles = sql($node, 'postgres', q{SELECT string_agg(quote_ident(rolname), ', ') FROM pg_roles});
	my $compared = 0;
	my @blocks = grep { !$_->{where} } blocks("$ENV{TESTDIR}/$page");

	my $worker = (grep { $_->{text} =~ /dc_worker_start/ } @blocks) ? 'on' : 'off';
	sql($node, 'postgres', "ALTER SYSTEM SET dcounter.worker = $worker");
	$node->reload;
	wait_for($node, 'postgres', 'SHOW dcounter.worker', $worker);
	sql($node, 'postgres', "CREATE DATABASE $database TEMPLATE template0");
	sql($node, $database, 'CREATE EXTENSION dcounter') if !grep { $_->{text} =~ /CREATE EXTENSION dcounter/ } @blocks;
	foreach my $block (@blocks)
	{
		my $name = "$page:$block->{line}";
		my ($status, $out, $err) = $node->psql($database, "\\pset null NULL\n" . compared($block->{text}));

		is($status, $block->{mark} =~ /error/ ? 3 : 0, "$name ends as it says") or diag($err);
		unlike($err, qr/syntax error|XX000/, "$name fails on purpose") if $block->{mark} =~ /error/;
		foreach my $result (results($out))
		{
			my ($expected, $got) = @$result;

			# booleans within rows; the rows of a result in one line
			$got =~ s/(^|, )t(?=,|$)/$1true/gm;
			$got =~ s/(^|, )f(?=,|$)/$1false/gm;
			$got =~ s/\n/, /g;
			is($got, $expected, "$name: as it says");
			$compared++;
		}
	}
	cmp_ok($compared, '>=', $pages{$page}, "$page: results were compared");
	sql($node, 'postgres', "DROP DATABASE $database WITH (FORCE)");
	foreach my $role (split /\n/, sql($node, 'postgres', "SELECT quote_ident(rolname) FROM pg_roles WHERE quote_ident(rolname) <> ALL (string_to_array('$roles', ', '))"))
	{
		sql($node, 'postgres', "DROP ROLE $role");
	}
}

$node->stop;
done_testing();
