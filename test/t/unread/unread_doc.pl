# doc/unread.md does what it says: its blocks of SQL run, and where a statement has its result in a comment after it, that
# is the result. Twice: with nobody else at work, and while clients write messages to other channels, mark them,
# and delete channels.
use strict;
use warnings;

use DcDoc;
use DcTest;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = dc_node('doc', extension => 0, conf => [ 'autovacuum = off' ]);
my @blocks = grep { $_->{mark} eq 'sql' } blocks("$ENV{TESTDIR}/doc/unread.md");

my $busy = q{
\set k random(1, 3)
BEGIN;
SELECT dc_incr('messages', 'other' || :k);
SELECT dc_mark_read('seen', 'other', 'other' || :k);
COMMIT;
SELECT dc_delete('messages', 'other' || :k);
SELECT dc_mark_read('seen', 'other too', 'other' || :k, :k);
};

foreach my $database ('idle', 'busy')
{
	my ($job, $compared) = (undef, 0);

	sql($node, 'postgres', "CREATE DATABASE $database TEMPLATE template0");
	sql($node, $database, 'CREATE EXTENSION dcounter');
	foreach my $block (@blocks)
	{
		my $name = "$database, line $block->{line}";
		my $text = $block->{text};

		# rows of others are not in the book
		$text =~ s/^TABLE seen;$//m;
		my ($status, $out, $err) = $node->psql($database, compared($text));
		is($status, 0, "$name runs") or diag($err);
		foreach my $result (results($out))
		{
			# the rows of a result in one line
			is($result->[1] =~ s/\n/, /gr, $result->[0], "$name: as it says");
			$compared++;
		}
		next if $job || $database eq 'idle' || $block->{text} !~ /dc_unread_create/;
		$job = start_command('pgbench', '-n', '-c', '3', '-T', '3600', '-f', file_of('busy', $busy), $node->connstr($database));
		isnt(wait_for($node, $database, q{SELECT count(*) > 0 FROM seen}, 't'), '', 'others are at work');
	}
	if ($job)
	{
		$job->{run}->signal('TERM');
		finish_job($job);
		unlike($job->{err}, qr/ERROR/, 'they meet no error');
	}
	cmp_ok($compared, '>=', 20, "$database: results were compared");
}

$node->stop;
done_testing();
