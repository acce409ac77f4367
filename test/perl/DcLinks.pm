# Shared by the tests of servers that replicate to each other: links by built-in logical replication,
# writers, and a quiet end.
package DcLinks;

use strict;
use warnings;

use DcTest;
use Exporter 'import';
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(sleep time);

our @EXPORT = qw(link_conf link_make link_drop link_switch link_write link_written links_are_idle);

# link_conf(): lines of postgresql.conf for servers with many links, on which nothing but users writes WAL
sub link_conf
{
	return ('fsync = off', 'autovacuum = off', 'checkpoint_timeout = 1h',
		'max_worker_processes = 30', 'max_logical_replication_workers = 20', 'max_replication_slots = 30', 'max_wal_senders = 30',
		"wal_retrieve_retry_interval = '100ms'", 'restart_after_crash = on');
}

# link_name(FROM, TO): of the subscription
sub link_name
{
	my ($from, $to) = @_;

	return 'from_' . $from->name . '_to_' . $to->name;
}

# link_make(FROM, TO, PUBLICATION [, copy]): creates the subscription by which a server receives
# what another publishes
sub link_make
{
	my ($from, $to, $publication, $copy) = @_;
	my $link = link_name($from, $to);
	my $connection = $from->connstr('postgres');

	sql($to, 'postgres', "CREATE SUBSCRIPTION $link CONNECTION \$c\$$connection\$c\$ PUBLICATION $publication WITH (copy_data = " . ($copy ? 'true' : 'false') . ')');
	return $link;
}

# link_drop(FROM, TO): takes the link away
sub link_drop
{
	my ($from, $to) = @_;

	sql($to, 'postgres', 'DROP SUBSCRIPTION ' . link_name($from, $to));
	return;
}

# link_switch(NODE, DISABLE or ENABLE): cuts or heals what comes to a server
sub link_switch
{
	my ($node, $what) = @_;

	foreach my $link (split /\n/, sql($node, 'postgres', 'SELECT subname FROM pg_subscription'))
	{
		sql($node, 'postgres', "ALTER SUBSCRIPTION $link $what");
	}
	return;
}

# link_write(NODE, SECONDS, SCRIPT): starts three sessions that run a script of pgbench
sub link_write
{
	my ($node, $seconds, $script) = @_;

	return start_command('pgbench', '-n', '-j', 1, '-c', 3, '-T', $seconds, '-f', file_of('write ' . $node->name . '.sql', $script), $node->connstr('postgres'));
}

# link_written(JOB): waits for the end; how many transactions have been committed
sub link_written
{
	my ($job) = @_;

	finish_job($job);
	return $job->{out} =~ /transactions actually processed: (\d+)/ ? $1 : 0;
}

# links_are_idle(NAME, NODES): they all write no WAL for three seconds, except for a note of running
# transactions. A test of each
sub links_are_idle
{
	my ($name, @nodes) = @_;
	my $sql = q{SELECT pg_current_wal_insert_lsn() - '0/0'};
	my $end = time + $PostgreSQL::Test::Utils::timeout_default;
	local $Test::Builder::Level = $Test::Builder::Level + 1;
	my (@before, @more);

	do
	{
		@before = map { sql($_, 'postgres', $sql) } @nodes;
		sleep(3);
		@more = map { sql($nodes[$_], 'postgres', $sql) - $before[$_] } 0 .. $#nodes;
	} until !grep({ $_ > 300 } @more) || time > $end;
	note("WAL in 3 s: @more");
	cmp_ok($more[$_], '<=', 300, "$name: no WAL on " . $nodes[$_]->name . ' any more') foreach 0 .. $#nodes;
	return;
}

1;
